"""Tables for people, who open CSV in a spreadsheet: texts that it would take for formulas become texts.

A category such as ``=cmd|' /C calc'!A0`` would be run when the file is opened. As OWASP advises ("CSV Injection"), an
apostrophe goes before a text that begins with one of = + - @ or their wide forms, also after white space, or with a tab or a
line's end.
Plain numbers (-9) are left as they are. A text that has such an apostrophe already gets another one, so that taking one
away gives back every text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from optrr.domain.domain import Domain

_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every name and text that a spreadsheet would compute."""
    columns = [
        pa.array([None if text is None else _as_text(text) for text in column.to_pylist()], pa.string())
        if _holds_text(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=[_as_text(name) for name in table.column_names])


def _holds_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_text(text: str) -> str:
    computed = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if computed else text


def formula_doubts(path: Path, domain: Domain) -> list[str]:
    """The warning about a CSV file of records, which programs read as well: there, names and categories stay as they are."""
    if path.suffix.lower() != ".csv":
        return []
    texts = [*domain.names, *(text for attribute in domain for text in attribute.texts)]
    computed = [text for text in texts if text is not None and _as_text(text) != text]
    if not computed:
        return []
    return [
        f"a spreadsheet would compute {computed[0]!r}{' and others' if computed[1:] else ''} of {path} as a formula; "
        "open it as text, or write .parquet"
    ]
