"""Parquet files as record batches, page by page.

A file keeps text as numbers and a dictionary, and every column of text is read like that: written out, one long text may stand
for gigabytes. Declared columns, or all where none is declared, are handed on so, since a category is then looked up once in the
dictionary instead of once per record; ``schema`` names the type that the file's columns have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.frames import RECORDS
from optrr.records.reading.bytes_in import readable
from optrr.records.reading.decoded import MOST_BYTES, bounded, fixed_width
from optrr.records.reading.parquet_pages import most_rows
from optrr.records.reading.sound import sound, sound_schema
from optrr.records.reading.source import STANDARD_INPUT, RecordsAt, Source

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
# Bytes read at once, cells of a batch of wide records, and the fewest records of one.
_BUFFER = 1 << 20
_CELLS = 1 << 25
_FEWEST = 64


class ParquetFile(Source):
    """A Parquet file; the nameless index that pandas writes is no column unless the domain declares it."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        if where.place == STANDARD_INPUT:
            raise InvalidInput("a Parquet file ends with its index and cannot come through a pipe; name the file")
        path = Path(str(where.place))
        self.name, self.paths = str(path), (path,)
        self._texts: list[str] = []
        declared = () if domain is None else domain.names
        self._domain = domain
        with self._parquet() as file:
            written = sound_schema(file.schema_arrow, self.name)
            self.rows = file.metadata.num_rows
        columns = [f for f in written if f.name in declared or not _UNNAMED_INDEX.fullmatch(f.name)]
        self._texts = [f.name for f in columns if _is_text(f.type)]
        self.schema = pa.schema(columns, metadata=written.metadata)

    def _parquet(self) -> pq.ParquetFile:
        # with a small buffer and no pre-buffering, pages are read as they are needed, not a whole row group at once
        with readable(self.name):
            try:
                return pq.ParquetFile(self.paths[0], pre_buffer=False, buffer_size=_BUFFER, read_dictionary=self._texts)
            except (pa.ArrowException, UnicodeDecodeError):
                raise InvalidInput(
                    f"cannot read {self.name}: it is not a whole Parquet file; write it again, or name it by what it is"
                ) from None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 131,072 records."""
        wanted = list(columns)
        size = min(RECORDS, max(_FEWEST, _CELLS // max(len(wanted), 1)))
        with readable(self.name), self._parquet() as file:
            try:
                size = self._rows_at_once(file, wanted, size)
                for batch in file.iter_batches(batch_size=size, columns=wanted):
                    for piece in bounded(sound(batch, self.name), self.name):
                        yield self._as_declared(piece)
            except pa.ArrowException:
                raise InvalidInput(f"cannot read {self.name}: it is damaged; write it again") from None

    def _rows_at_once(self, file: pq.ParquetFile, wanted: list[str], size: int) -> int:
        """At most ``size`` records, fewer where values are wide. Raises InvalidInput where pages are too large."""
        width = sum(fixed_width(f.type) or 1 for f in self.schema if f.name in set(wanted))
        return most_rows(self.paths[0], file, wanted, max(1, min(size, MOST_BYTES // max(1, width))), self.name)

    def _as_declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Columns of text that are not declared, such as weights and names, as the plain text that they are passed on as."""
        declared = () if self._domain is None else frozenset(self._domain.names)
        plain = [n for n in batch.schema.names if self._domain is not None and n not in declared and n in self._texts]
        for name in plain:
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, self.schema.field(name), batch.column(name).cast(self.schema.field(name).type))
        return batch


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
