"""Records that are in no file: frames, lazy frames, Arrow streams, iterators, and the results of queries.

Databases are asked through libraries that hand out Arrow: DuckDB, and ADBC for SQLite and PostgreSQL.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput, in_one_line, library
from optrr.core.records.frames import RECORDS, frame_batches, frame_of, frame_schema, speaks_arrow
from optrr.core.records.reading.source import RecordsAt, Source, sound, streamed
from optrr.core.records.spark import refuse_spark_frame


def in_memory(data: Any) -> Source:
    """Open records in memory.

    A data frame, a polars LazyFrame, an Arrow stream, or an iterable of record batches.

    Raises InvalidInput for anything else, and for a stream without records.
    """
    import narwhals as nw  # noqa: PLC0415 (takes longer to import than most files to read)

    refuse_spark_frame(data)
    name = f"the {type(data).__name__}"
    if nw.dependencies.is_polars_lazyframe(data):
        # computed in pieces, each time its batches are asked for
        def computed(columns: list[str]) -> Iterator[pa.RecordBatch]:
            for piece in data.select(columns).collect_batches(chunk_size=RECORDS, maintain_order=True):
                yield from frame_batches(frame_of(piece), columns)

        return Source(name, frame_schema(frame_of(data.collect_schema().to_frame())), computed)
    known = nw.dependencies.is_into_dataframe(data)
    if not known and not speaks_arrow(data):
        return streamed(name, _batches_of(data))
    if not known and hasattr(data, "__arrow_c_stream__"):
        # a DuckDB relation, an Ibis table, which stream anew each time
        def asked(columns: list[str]) -> Iterator[pa.RecordBatch]:
            return (batch.select(columns) for batch in pa.RecordBatchReader.from_stream(data))

        return Source(name, pa.RecordBatchReader.from_stream(data).schema, asked)
    frame = frame_of(data)
    return Source(name, frame_schema(frame), partial(frame_batches, frame), rows=len(frame))


def _batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    if not isinstance(data, Iterable):
        raise InvalidInput(
            f"cannot read records from a {type(data).__name__}; give a data frame, a path or record batches"
        )
    for batch in data:
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidInput(f"an iterable of record batches yielded a {type(batch).__name__}; give RecordBatches")
        yield batch


_DRIVERS = {
    "sqlite": "adbc_driver_sqlite",
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
}
_SERVERS = ("postgresql", "postgres")
# Databases that are no local files: addresses, and those in memory.
_ELSEWHERE = re.compile(r":memory:|[A-Za-z][\w+.-]+:")
# Secrets in a connection string.
_PASSWORD = re.compile(r"(?<=:)[^@/]+(?=@)|(?<=password=)[^&]+")
# Rows from which SQLite's driver takes the types of the columns, unless set otherwise.
_TYPING_ROWS = 1024


def _missing(file: str) -> bool:
    """Check whether the name is that of a local file that does not exist."""
    path = file.removeprefix("file:").partition("?")[0] if file.startswith("file:") else file
    return bool(path) and not _ELSEWHERE.match(path) and not Path(path).exists()


def query(where: RecordsAt, domain: Domain | None) -> Source:
    """Open the result of one SQL query, which runs at each read."""
    del domain
    place = str(where.place)
    scheme = place.partition(":")[0]
    is_duckdb = scheme == "duckdb" or place.endswith((".duckdb", ".ddb"))
    name, text = _PASSWORD.sub("…", place), where.query
    if not text:
        raise InvalidInput(f"{name} is a database; select records with ``query='SELECT …'``")
    file = "" if scheme in _SERVERS else place.removeprefix("duckdb:").removeprefix("sqlite:").removeprefix("//")
    if _missing(file):
        # SQLite would create it
        raise InvalidInput(f"{name}: there is no such file; check its name")

    @contextmanager
    def result(sql: str) -> Iterator[pa.RecordBatchReader]:
        with ExitStack() as held:
            try:
                if is_duckdb:
                    connection = library("duckdb", "reading this database needs", "sql").connect(
                        place.removeprefix("duckdb:"), read_only=True
                    )
                    relation = held.enter_context(closing(connection)).sql(sql)
                    # its name in older versions is now deprecated
                    recent = getattr(relation, "to_arrow_reader", None)
                    reader = (recent or relation.fetch_record_batch)(RECORDS)
                else:
                    driver = library(f"{_DRIVERS[scheme]}.dbapi", "reading this database needs", "sql")
                    connection = driver.connect(place if scheme in _SERVERS else file)
                    # the records end where their cursor is thrown away
                    cursor = held.enter_context(closing(connection)).cursor()
                    cursor.execute(sql)
                    reader = cursor.fetch_record_batch()
            except InvalidInput:
                raise
            except Exception as error:  # every driver has different errors
                said = in_one_line(error).replace(place, name)[:300]
                raise InvalidInput(f"cannot read {name}: {said}; check the database and the query") from None
            yield reader

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with result(text) as reader:
            try:
                for batch in reader:
                    # SQLite keeps texts of any bytes
                    yield sound(batch.select(columns), name)
            except InvalidInput:
                raise
            except Exception:
                raise InvalidInput(
                    f"cannot read {name}: the query failed half-way; where a column's type changes from row to row, CAST "
                    "it in the query"
                ) from None

    # SQLite's columns have no types: its driver infers them from the first rows
    rows = _TYPING_ROWS if scheme == "sqlite" else 0
    with result(f"SELECT * FROM ({text.rstrip().rstrip(';')}) AS records LIMIT {rows}") as reader:
        schema = reader.schema
    return Source(name, schema, read)
