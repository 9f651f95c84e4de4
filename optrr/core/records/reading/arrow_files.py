"""Parquet files, Arrow files (Feather included) and Arrow streams as record batches.

Parquet keeps text as numbers and a dictionary, and every declared column of text is handed on so: a category is then looked up
once in the dictionary instead of once per record; ``schema`` names the type that the file's columns have.

The library's own messages may contain values of the file, so they are not passed on.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from optrr.core.domain.columns import stated_type
from optrr.core.domain.domain import Domain
from optrr.core.records.frames import RECORDS
from optrr.core.records.reading.source import Bytes, RecordsAt, Source, is_text, sound, whole

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
# Bytes read at once, cells of a batch of wide records, and the fewest records of one.
_BUFFER, _CELLS, _FEWEST = 1 << 20, 1 << 25, 64
_MAGIC = b"ARROW1"


def parquet_file(where: RecordsAt, domain: Domain | None) -> Source:
    """Open a Parquet file.

    The nameless index that pandas writes is ignored unless the domain declares it.
    """
    path, name = Path(str(where.place)), str(where.place)
    declared = () if domain is None else domain.names

    def opened(texts: list[str] | None = None) -> pq.ParquetFile:
        # with a small buffer and no pre-buffering, pages are read as they are needed, not a whole row group at once
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=texts)

    with whole(name, "Parquet"), opened() as file:
        written, rows = file.schema_arrow, file.metadata.num_rows
        columns = [f for f in written if f.name in declared or not _UNNAMED_INDEX.fullmatch(f.name)]
    schema = pa.schema(columns, metadata=written.metadata)
    # columns of text that are not declared, such as weights and names, are passed on as plain text
    texts = [f.name for f in columns if is_text(f.type) and (domain is None or f.name in declared)]

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        size = min(RECORDS, max(_FEWEST, _CELLS // max(len(columns), 1)))
        with whole(name, "Parquet"), opened(texts) as file:
            for batch in file.iter_batches(batch_size=size, columns=columns):
                yield sound(batch, name)

    return Source(name, schema, read, (path,), rows)


class ParquetRecords(pq.ParquetWriter):  # type: ignore[misc]  # Arrow has no types
    """Writer of record batches to Parquet, whose schema states texts.

    Only dictionaries that are ordered are stated as such.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path, schema, store_schema=False)
        stated = pa.schema([f.with_type(stated_type(f.type)) for f in schema], metadata=schema.metadata)
        # where Arrow's own writer keeps the schema
        kept = {b"ARROW:schema": base64.b64encode(stated.serialize())}
        self.add_key_value_metadata({**(schema.metadata or {}), **kept})


def arrow_file(where: RecordsAt, domain: Domain | None) -> Source:
    """Read an Arrow file or stream, which of the two is seen from its first bytes."""
    del domain
    file = Bytes(where)
    indexed = file.path is not None and file.head(len(_MAGIC)) == _MAGIC

    def opened() -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        reader = pa.ipc.open_file(file.open()) if indexed else pa.ipc.open_stream(file.open())
        return reader.schema, map(reader.get_batch, range(reader.num_record_batches)) if indexed else iter(reader)

    with whole(file.name, "Arrow"):
        schema, batches = opened()
        schema.names  # noqa: B018 (names are decoded only when they are asked for)
    # a pipe is opened once; the reader of the schema goes on with the records
    first = [batches] if file.path is None else []

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with whole(file.name, "Arrow"):
            for batch in first.pop() if first else opened()[1]:
                yield sound(batch.select(columns), file.name)

    return Source(file.name, schema, read, file.paths, share=file.share_read)
