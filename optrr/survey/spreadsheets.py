"""Tables for people, who open CSV in a spreadsheet: texts that it would take for formulas become texts.

A category such as ``=cmd|' /C calc'!A0`` would be run when the file is opened. As OWASP advises ("CSV Injection"), an
apostrophe goes before a text that begins with one of = + - @ or their wide forms, also after white space, or with a tab or a
line's end.
Plain numbers (-9) are left as they are. A text that has such an apostrophe already gets another one, so that taking one
away gives back every text.
"""

from __future__ import annotations

import re

import pyarrow as pa

_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every name and text that a spreadsheet would compute."""
    columns = [
        pa.array([None if text is None else _as_text(text) for text in column.to_pylist()], pa.string())
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=[_as_text(name) for name in table.column_names])


def _as_text(text: str) -> str:
    computed = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if computed else text
