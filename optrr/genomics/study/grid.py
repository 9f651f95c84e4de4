"""A grid of cells, one after the other, that can be interrupted: what is done is kept in a file and not done again.

Every cell has random bits of its own, by the study's seed and the cell's name, so that a grid that was taken up again gives the
same numbers to the last digit. The file is JSON, one object a line: first what study it is of, then each finished cell. A line
that was cut short, because the run was killed while it wrote, is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from optrr.errors import InvalidInput, in_one_line

FORMAT = "optrr-study/1"

# A cell's numbers and texts, as JSON has them, NaN and infinite numbers included.
CellResult = dict[str, Any]


def stream(seed: int, *of: object) -> np.random.Generator:
    """Random numbers of their own for whatever these texts and numbers name."""
    named = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(named, dtype=np.uint32).tolist()])


def run_grid(
    cells: Sequence[str], worked_out: Callable[[str], CellResult], study: str, state: Path | None
) -> Iterator[tuple[str, CellResult]]:
    """Every cell's result, in order; those that ``state`` holds are not worked out again.

    Parameters
    ----------
    study
        a digest of everything that the results depend on.
    state
        the file, made where it is not there.

    Raises
    ------
    InvalidInput
        where the file is another study's, or none, and where it cannot be written.
    """
    with _kept(state, study) as (done, out):
        for cell in cells:
            if cell not in done:
                # as it will be read, so that both ways give the same
                line = json.dumps({"cell": cell, "result": worked_out(cell)})
                done[cell] = json.loads(line)["result"]
                if out is not None:
                    out.write(line + "\n")
                    out.flush()
                    os.fsync(out.fileno())
            yield cell, done[cell]


def finished(state: Path | None, study: str) -> frozenset[str]:
    """Names of the cells that the file holds. Raises InvalidInput as :func:`run_grid`."""
    return frozenset() if state is None or not state.exists() else frozenset(_read(state, study)[0])


@contextmanager
def _kept(state: Path | None, study: str) -> Iterator[tuple[dict[str, CellResult], TextIO | None]]:
    if state is None:
        yield {}, None
        return
    done, whole = _read(state, study) if state.exists() else ({}, 0)
    try:
        with state.open("r+" if state.exists() else "w", encoding="utf-8") as out:
            out.truncate(whole)
            out.seek(whole)
            if not whole:
                out.write(json.dumps({"format": FORMAT, "study": study}) + "\n")
            yield done, out
    except OSError as error:
        reason = in_one_line(error.strerror or error)
        raise InvalidInput(f"cannot write {state}: {reason}; choose another path (--state)") from error


def _read(state: Path, study: str) -> tuple[dict[str, CellResult], int]:
    """The finished cells, and how many bytes hold whole lines."""
    other = f"{state} is not the state of this study, with its data and options; name another file (--state)"
    try:
        raw = state.read_bytes()
        whole = raw.rfind(b"\n") + 1
        lines = [json.loads(line) for line in raw[:whole].splitlines()]
    except (OSError, ValueError) as error:
        raise InvalidInput(other) from error
    if not raw:
        return {}, 0
    if not whole and raw.startswith(b'{"format"'[: len(raw)]):
        return {}, 0
    if not lines or not _is_head(lines[0], study):
        raise InvalidInput(other)
    return dict(_cells(lines[1:], other)), whole


def _is_head(line: object, study: str) -> bool:
    return isinstance(line, dict) and line.get("format") == FORMAT and line.get("study") == study


def _cells(lines: Iterable[object], other: str) -> Iterator[tuple[str, CellResult]]:
    for line in lines:
        if not isinstance(line, dict) or not isinstance(line.get("cell"), str):
            raise InvalidInput(other)
        yield line["cell"], dict(line["result"])
