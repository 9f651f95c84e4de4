"""Records that are in no file: frames, lazy frames, Arrow streams, iterators, and the results of queries.

Databases are asked through libraries that hand out Arrow: DuckDB, and ADBC for SQLite and PostgreSQL.

Periods and intervals that pandas wrote to a file are read as their texts, ``2024-01`` and ``(18, 30]``, as its frames are.
Arrow has no such types. pandas stores a period as the number of periods since 1970 and an interval as its two ends, and says in
the field's metadata what they mean; where pandas is imported, the columns come with types of its own instead.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.core.domain.bins import interval_text
from optrr.core.domain.columns import is_pandas_dataframe, is_polars_dataframe, is_polars_lazyframe
from optrr.core.domain.domain import Domain, shown
from optrr.core.errors import InvalidInput, in_one_line, not_installed
from optrr.core.records.frames import RECORDS, column_names, frame_batches, frame_table, is_frame, refuse_spark_frame
from optrr.core.records.reading.source import BoundedSource, Once, Passing, RecordsAt, Source, sound

_NAME, _DETAILS = b"ARROW:extension:name", b"ARROW:extension:metadata"


# Texts of a column.
_Texts = Callable[[pa.Array], pa.Array]


def plain(source: Source) -> Source:
    """The source itself, or one with texts in place of pandas' periods and intervals."""
    texts = {field.name: made for field in source.schema if (made := _pandas_texts(field)) is not None}
    return _Plain(source, texts) if texts else source


class _Plain(Passing):
    def __init__(self, source: Source, texts: Mapping[str, _Texts]) -> None:
        super().__init__(source)
        self._texts = texts
        fields = [pa.field(f.name, pa.string()) if f.name in texts else f for f in source.schema]
        self.schema = pa.schema(fields, metadata=source.schema.metadata)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The other's, with texts."""
        for batch in self.source.batches(columns):
            arrays = [self._plain(name, column) for name, column in zip(columns, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _plain(self, name: str, column: pa.Array) -> pa.Array:
        if name not in self._texts:
            return column
        try:
            return self._texts[name](column.storage if isinstance(column, pa.ExtensionArray) else column)
        except InvalidInput:
            raise
        except (*_MALFORMED, pa.ArrowException) as error:
            raise _not_pandas(name) from error


# What a note or a column that pandas did not write comes to.
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _not_pandas(name: str) -> InvalidInput:
    return InvalidInput(
        f"column {shown(name)} is said to be pandas' own and is not as it writes it; write it again as text"
    )


def _pandas_texts(field: pa.Field) -> _Texts | None:
    """What makes texts of a column of pandas' own types, None for other columns."""
    if isinstance(field.type, pa.BaseExtensionType):
        kind, details = field.type.extension_name, field.type.__arrow_ext_serialize__()
    else:
        said = field.metadata or {}
        kind, details = said.get(_NAME, b"").decode("utf-8", "replace"), said.get(_DETAILS, b"")
    try:
        if kind == "pandas.period":
            return partial(_period_texts, field.name, str(json.loads(details)["freq"]))
        if kind == "pandas.interval":
            return partial(_interval_texts, json.loads(details)["closed"])
    except _MALFORMED as error:
        raise _not_pandas(field.name) from error
    return None


def _period_texts(name: str, frequency: str, storage: pa.Array) -> pa.Array:
    """Of periods of one frequency."""
    coded = storage.dictionary_encode()
    try:
        pandas = import_module("pandas")  # optional: it wrote the file, perhaps elsewhere
    except ImportError:
        raise InvalidInput(
            f"column {shown(name)} holds pandas periods; install pandas to read them, or write them as text"
        ) from None
    periods = pandas.PeriodIndex.from_ordinals(coded.dictionary.to_numpy(), freq=frequency)
    return pa.array([str(p) for p in periods], pa.string()).take(coded.indices)


def _interval_texts(closed: Any, storage: pa.Array) -> pa.Array:
    """Of intervals that are closed on this side."""
    low, high = (_plain_ends(storage.field(side)).dictionary_encode() for side in ("left", "right"))
    pair = _indices(low) * len(high.dictionary) + _indices(high)
    known = storage.is_valid().to_numpy(zero_copy_only=False)
    different, at = np.unique(pair[known], return_inverse=True)
    texts = [
        interval_text(low.dictionary[first].as_py(), high.dictionary[second].as_py(), closed)
        for first, second in (divmod(p, len(high.dictionary)) for p in different.tolist())
    ]
    indices = np.zeros(len(storage), dtype=np.int32)
    indices[known] = at
    return pa.array(texts, pa.string()).take(pa.array(indices, mask=~known))


def _plain_ends(values: pa.Array) -> pa.Array:
    """Ends of intervals; of times in microseconds, the finest that Python has."""
    return values.cast(pa.timestamp("us", values.type.tz)) if pa.types.is_timestamp(values.type) else values


def _indices(coded: pa.DictionaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(coded.indices.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def in_memory(data: Any) -> Source:
    """The records of a data frame, a polars LazyFrame, anything that streams Arrow, or an iterable of record batches.

    Raises InvalidInput for anything else, and for a stream without records.
    """
    refuse_spark_frame(data)
    if is_polars_lazyframe(data):
        return _Lazy(data)
    if is_pandas_dataframe(data) or is_polars_dataframe(data) or isinstance(data, pa.Table | pa.RecordBatch):
        return _Frame(data)
    if isinstance(data, pa.RecordBatchReader) or not is_frame(data):
        return Once(f"the {type(data).__name__}", _batches_of(data))
    return _Stream(data) if hasattr(data, "__arrow_c_stream__") else _Frame(frame_table(data))


class _Frame(BoundedSource):
    """A frame in memory."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, f"the {type(data).__name__}"
        self.rows = data.num_rows if hasattr(data, "num_rows") else len(data)

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; a pandas frame is converted for it."""
        return frame_table(self._data).schema

    def column_names(self) -> list[str]:
        """As text."""
        return column_names(self._data)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return frame_batches(self._data, columns)


class _Lazy(BoundedSource):
    """A polars LazyFrame, computed in pieces each time its batches are asked for."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, "the LazyFrame"
        self.schema = frame_table(data.collect_schema().to_frame()).schema

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for frame in self._data.select(columns).collect_batches(chunk_size=RECORDS, maintain_order=True):
            yield from frame_batches(frame, columns)


class _Stream(BoundedSource):
    """Whatever streams Arrow anew each time it is asked: a DuckDB relation, an Ibis table."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, f"the {type(data).__name__}"
        self.schema = pa.RecordBatchReader.from_stream(data).schema

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch.select(columns) for batch in pa.RecordBatchReader.from_stream(self._data))


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
# What a connection string may hold and nobody else should read.
_PASSWORD = re.compile(r"(?<=:)[^@/]+(?=@)|(?<=password=)[^&]+")
# Rows from which SQLite's driver takes the types of the columns, unless it is told otherwise.
_TYPING_ROWS = 1024


class Query(BoundedSource):
    """The result of one SQL query, run again each time its batches are asked for."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        self._place = str(where.place)
        self._scheme = self._place.partition(":")[0]
        self._is_duckdb = self._scheme == "duckdb" or self._place.endswith((".duckdb", ".ddb"))
        self.name = _PASSWORD.sub("…", self._place)
        if not where.query:
            raise InvalidInput(f"{self.name} is a database; say which records with a query, --query 'SELECT …'")
        self._query = where.query
        self._cursor: Any = None
        # SQLite's columns have no types of their own: its driver takes them from the first rows
        rows = _TYPING_ROWS if self._scheme == "sqlite" else 0
        with closing(self._connected()) as connection:
            self.schema = self._run(
                connection, f"SELECT * FROM ({self._query.rstrip().rstrip(';')}) AS records LIMIT {rows}"
            ).schema

    def _connected(self) -> Any:
        if self._is_duckdb:
            duckdb = _library("duckdb")
            return self._asked(lambda: duckdb.connect(self._place.removeprefix("duckdb:"), read_only=True))
        driver = _library(f"{_DRIVERS[self._scheme]}.dbapi")
        file = self._place.partition(":")[2].removeprefix("//")
        return self._asked(lambda: driver.connect(file if self._scheme == "sqlite" else self._place))

    def _run(self, connection: Any, query: str) -> pa.RecordBatchReader:
        def reader() -> pa.RecordBatchReader:
            if self._is_duckdb:
                relation = connection.sql(query)
                # its name in older versions is now deprecated
                name = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_record_batch"
                return getattr(relation, name)(RECORDS)
            # the records end where their cursor is thrown away, so it is kept
            self._cursor = connection.cursor()
            self._cursor.execute(query)
            return self._cursor.fetch_record_batch()

        return self._asked(reader)

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except Exception as error:  # every driver has errors of its own
            said = in_one_line(error).replace(self._place, self.name)[:300]
            raise InvalidInput(f"cannot read {self.name}: {said}; check the database and the query") from None

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with closing(self._connected()) as connection:
            try:
                for batch in self._run(connection, self._query):
                    # SQLite keeps texts of any bytes
                    yield sound(batch.select(columns), self.name)
            except InvalidInput:
                raise
            except Exception:
                raise InvalidInput(
                    f"cannot read {self.name}: the query failed half-way; where a column's type changes from row to row, CAST "
                    "it in the query"
                ) from None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise not_installed(error, "reading this database needs", "sql") from error
