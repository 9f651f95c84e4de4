"""Columns of a result under the field's names, one entry for each variant or pair, as an Arrow table and as a TSV."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.records.whole_files import whole_file
from optrr.show.result import in_json

Columns = Mapping[str, NDArray[np.generic]]

# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14


def arrow_columns(columns: Columns) -> pa.Table:
    """The columns as a table; undefined numbers are null."""
    return pa.table({name: pa.array(values.tolist(), from_pandas=True) for name, values in columns.items()})


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A file to write text to, compressed where its name ends in .gz."""
    if path.suffix.lower() == ".gz":
        # no name and no time inside, so that one result is one file
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            TextIOWrapper(packed, encoding="utf-8") as out,
        ):
            yield out
    else:
        with path.open("w", encoding="utf-8") as out:
            yield out


def write_columns(path: Path, columns: Columns) -> None:
    """A file of tab separated columns, NA where undefined; whole or not at all; compressed where the name ends in .gz."""
    rows = len(next(iter(columns.values())))
    with whole_file(path) as partial, text_file(partial) as out:
        out.write("\t".join(columns) + "\n")
        for start in range(0, rows, _ROWS):
            pieces = [_texts(column[start : start + _ROWS]) for column in columns.values()]
            out.writelines("\t".join(row) + "\n" for row in zip(*pieces, strict=True))


def rows_in_json(columns: Columns) -> list[dict[str, Any]]:
    """One object for each row; undefined numbers are None."""
    values = [in_json(c) if c.dtype.kind == "f" else c.tolist() for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
