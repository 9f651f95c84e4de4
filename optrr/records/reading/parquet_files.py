"""Parquet files as record batches, page by page.

A file keeps text as numbers and a dictionary. Declared columns of text are handed on like that, since a category is then looked
up once in the dictionary instead of once per record; ``schema`` names the type that the file's columns have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from optrr.errors import InvalidInput
from optrr.records.domain import Domain
from optrr.records.frames import RECORDS
from optrr.records.reading.bytes_in import readable
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
        with self._parquet() as file:
            written = sound_schema(file.schema_arrow, self.name)
            self.rows = file.metadata.num_rows
        columns = [f for f in written if f.name in declared or not _UNNAMED_INDEX.fullmatch(f.name)]
        self._texts = [f.name for f in columns if f.name in declared and _is_text(f.type)]
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
                for batch in file.iter_batches(batch_size=size, columns=wanted):
                    yield sound(batch, self.name)
            except pa.ArrowException:
                raise InvalidInput(f"cannot read {self.name}: it is damaged; write it again") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
