"""Writing record batches to CSV and Parquet, whole or not at all, with what the records say of themselves.

In tables for people, who open CSV in a spreadsheet, texts that it would take for formulas become texts. A category such as
``=cmd|' /C calc'!A0`` would be run when the file is opened. As OWASP advises ("CSV Injection"), an apostrophe goes before a
text that begins with one of = + - @ or their wide forms, also after white space, or with a tab or a line's end. Plain numbers
(-9) are left as they are. A text that has such an apostrophe already gets another one, so that taking one away gives back every
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.reading.source import Source
from optrr.records.whole_files import refuse_replacing, whole_files
from optrr.releases.provenance import Provenance, SyntheticNote, sidecar_path, write_sidecar

_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every name and text that a spreadsheet would compute."""
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = [None if text is None else _as_text(text) for text in column.to_pylist()]
            column = pa.array(texts, pa.string())  # noqa: PLW2901
        columns.append(column)
    return pa.Table.from_arrays(columns, names=[_as_text(name) for name in table.column_names])


def _as_text(text: str) -> str:
    computed = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if computed else text


def formula_doubts(path: Path, domain: Domain) -> list[str]:
    """The warning about a CSV file of records, which programs read as well: there, names and categories stay as they are."""
    texts = [*domain.names, *(text for attribute in domain for text in attribute.texts)]
    computed = [text for text in texts if text is not None and _as_text(text) != text]
    if not computed or path.suffix.lower() != ".csv":
        return []
    return [
        f"a spreadsheet would compute {computed[0]!r}{' and others' if computed[1:] else ''} of {path} as a formula; "
        "open it as text, or write .parquet"
    ]


WRITTEN = (".csv", ".parquet")


def check_written_suffix(path: Path) -> None:
    """Refuse to write anything but CSV and Parquet, by name."""
    if path.suffix.lower() not in WRITTEN:
        raise InvalidInput(f"{path} ends in {path.suffix!r}; records are written as .csv or .parquet")


def refuse_input_as_target(target: Path, source: Source) -> None:
    """Refuse to write randomized records over the true ones. Raises InvalidInput."""
    message = f"{target} is the input itself; write the randomized records to another file"
    refuse_replacing(target, source.paths, message)


class RecordWriter:
    """Writes record batches of one schema to a CSV or Parquet file, in ``folder``."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.folder = path.parent
        parquet = path.suffix.lower() == ".parquet"
        self._writer = pq.ParquetWriter(path, schema) if parquet else pa_csv.CSVWriter(path, schema)
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch; its metadata is of no account."""
        self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


@contextmanager
def released_file(target: Path, schema: pa.Schema, provenance: Provenance | SyntheticNote) -> Iterator[RecordWriter]:
    """A writer of randomized records to ``target``: the file appears, bound to its provenance, when the block ends, or not.

    Parquet carries it in its metadata, CSV in a sidecar (:mod:`optrr.releases.provenance`). Raises InvalidInput for another
    suffix, or where the system does not let the file be written.
    """
    check_written_suffix(target)
    parquet = target.suffix.lower() == ".parquet"
    with whole_files([target] if parquet else [target, sidecar_path(target)]) as (path, *beside):
        with RecordWriter(path, schema.with_metadata(provenance.metadata() if parquet else None)) as writer:
            yield writer
        for sidecar in beside:
            write_sidecar(sidecar, [path], provenance)
