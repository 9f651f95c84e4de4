"""Lines between an auditor and a client: JSON, one record each, in UTF-8.

A question is ``{"person": 17, "values": ["F", null]}``: the texts of the record's categories in the label's order, null for
the missing value. An answer has the randomized record in the same form, as an object with ``values`` (such as the reports of
docs/deployment-format.md) or as a list alone; whatever else the object holds is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.devices.auditing.label import Codes
from optrr.devices.auditing.questions import Questions, RecordKinds
from optrr.domain.domain import Domain, category_text
from optrr.errors import InvalidInput
from optrr.records.whole_files import whole_file

_Value = str | int | float | bool | None


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    person: int
    values: list[_Value]


class _Answer(msgspec.Struct):
    values: list[_Value]


def asked_lines(asked: Questions, domain: Domain) -> Iterator[bytes]:
    """One line for each question, without its line feed."""
    texts = [[msgspec.json.encode(text) for text in a.texts] for a in domain]
    for person, record in zip(asked.people.tolist(), asked.records.tolist(), strict=True):
        values = b",".join([known[code] for known, code in zip(texts, record, strict=True)])
        yield b'{"person":%d,"values":[%b]}' % (person, values)


def answered_codes(lines: Sequence[bytes], domain: Domain, count: int, name: str) -> Codes:
    """The answers' codes, shape (count, m); −1 where a value is none of the categories.

    Raises
    ------
    InvalidInput
        where there are more or fewer lines, or one is no answer; the message shows nothing of it.
    """
    answers = [line for line in lines if line.strip()]
    if len(answers) != count:
        raise InvalidInput(f"{name} answered {len(answers)} of {count} records; it must answer each with one line")
    decode = msgspec.json.Decoder(list[_Value] | _Answer).decode
    known = [a.codes for a in domain]
    out = np.empty((count, domain.m), dtype=np.int32)
    for row, line in enumerate(answers):
        values = _values(decode, line, row, name)
        if len(values) != domain.m:
            raise InvalidInput(f"{name}: line {row + 1} has {len(values)} values for {domain.m} attributes")
        out[row] = [codes.get(category_text(v), -1) for codes, v in zip(known, values, strict=True)]
    return out


def _values(decode: Any, line: bytes, row: int, name: str) -> list[_Value]:
    try:
        answer = decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(
            f'{name}: line {row + 1} is no answer; write {{"values": […]}} with one value for each attribute'
        ) from None
    return answer.values if isinstance(answer, _Answer) else answer


def plant(path: str | os.PathLike[str], runs: Sequence[Questions], domain: Domain) -> None:
    """Write the questions of all runs, one after another, whole or not at all."""
    with whole_file(Path(path)) as partial, partial.open("wb") as file:
        for asked in runs:
            file.writelines(line + b"\n" for line in asked_lines(asked, domain))


def read_planted(path: str | os.PathLike[str], domain: Domain) -> tuple[RecordKinds, list[Questions]]:
    """The questions that :func:`plant` wrote for two runs.

    Raises
    ------
    InvalidInput
        where the file is not such a one, or was planted for another label.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}; check the path") from error
    layout = RecordKinds.of(len(lines), domain.m)
    if 2 * layout.rows != len(lines):
        raise InvalidInput(f"{path} has {len(lines)} lines; give the whole file that --plant wrote")
    decode = msgspec.json.Decoder(_Question).decode
    try:
        people = np.array([decode(line).person for line in lines], dtype=np.int64)
    except (msgspec.DecodeError, OverflowError, UnicodeDecodeError):
        raise InvalidInput(f"{path} holds a line that --plant did not write; plant again") from None
    codes = answered_codes(lines, domain, len(lines), str(path))
    if (codes < 0).any():
        raise InvalidInput(f"{path} holds values that this label does not declare; plant for this label")
    halves = zip(np.split(people, 2), np.split(codes, 2), strict=True)
    return layout, [Questions(p, c) for p, c in halves]
