"""Records that are in memory, or that come out of it batch by batch: frames, lazy frames, Arrow streams, iterators.

Periods and intervals that pandas wrote to a file: read as their texts, ``2024-01`` and ``(18, 30]``, as its frames are.

Arrow has no such types. pandas stores a period as the number of periods since 1970 and an interval as its two ends, and says
in the field's metadata what they mean; where pandas is imported, the columns come with types of its own instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.domain.bins import interval_text
from optrr.domain.columns import is_pandas_dataframe, is_polars_dataframe, is_polars_lazyframe
from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.records.frames import RECORDS, column_names, frame_batches, frame_table, is_frame
from optrr.records.reading.bytes_in import bounded
from optrr.records.reading.source import Once, Source
from optrr.records.spark_frames import refuse_spark_frame

_NAME, _DETAILS = b"ARROW:extension:name", b"ARROW:extension:metadata"


def plain(source: Source) -> Source:
    """The source itself, or one with texts in place of pandas' periods and intervals."""
    kinds = {field.name: kind for field in source.schema if (kind := _pandas_kind(field)) is not None}
    return _Plain(source, kinds) if kinds else source


class _Plain(Source):
    def __init__(self, source: Source, kinds: Mapping[str, _PandasKind]) -> None:
        self._source, self._kinds = source, kinds
        self.name, self.paths, self.rows = source.name, source.paths, source.rows
        fields = [pa.field(f.name, pa.string()) if f.name in kinds else f for f in source.schema]
        self.schema = pa.schema(fields, metadata=source.schema.metadata)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The other's, with texts."""
        for batch in self._source.batches(columns):
            arrays = [
                _texts(self._kinds[name], column, name) if name in self._kinds else column
                for name, column in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def share_read(self) -> float | None:
        """The other's."""
        return self._source.share_read()


class _Periods:
    """Periods of one frequency."""

    def __init__(self, name: str, details: Mapping[str, Any]) -> None:
        self._name, self._frequency = name, str(details["freq"])

    def texts(self, column: pa.Array) -> pa.Array:
        coded = _storage(column).dictionary_encode()
        try:
            pandas = import_module("pandas")  # optional: it wrote the file, perhaps elsewhere
        except ImportError:
            raise InvalidInput(
                f"column {shown(self._name)} holds pandas periods; install pandas to read them, or write them as text"
            ) from None
        periods = pandas.PeriodIndex.from_ordinals(coded.dictionary.to_numpy(), freq=self._frequency)
        return pa.array([str(p) for p in periods], pa.string()).take(coded.indices)


class _Intervals:
    """Intervals closed on one side."""

    def __init__(self, name: str, details: Mapping[str, Any]) -> None:
        self._closed = details["closed"]

    def texts(self, column: pa.Array) -> pa.Array:
        storage = _storage(column)
        ends = [_plain_ends(storage.field(side)) for side in ("left", "right")]
        low, high = (end.dictionary_encode() for end in ends)
        pair = _indices(low) * len(high.dictionary) + _indices(high)
        known = storage.is_valid().to_numpy(zero_copy_only=False)
        different, at = np.unique(pair[known], return_inverse=True)
        texts = [
            interval_text(
                low.dictionary[p // len(high.dictionary)].as_py(),
                high.dictionary[p % len(high.dictionary)].as_py(),
                self._closed,
            )
            for p in different.tolist()
        ]
        indices = np.zeros(len(storage), dtype=np.int32)
        indices[known] = at
        return pa.array(texts, pa.string()).take(pa.array(indices, mask=~known))


_PandasKind = _Periods | _Intervals
# What a note or a column that pandas did not write comes to.
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_KINDS: Mapping[str, type[_Periods] | type[_Intervals]] = {"pandas.period": _Periods, "pandas.interval": _Intervals}


def _texts(kind: _PandasKind, column: pa.Array, name: str) -> pa.Array:
    try:
        return kind.texts(column)
    except InvalidInput:
        raise
    except (*_MALFORMED, pa.ArrowException) as error:
        raise _not_pandas(name) from error


def _not_pandas(name: str) -> InvalidInput:
    return InvalidInput(
        f"column {shown(name)} is said to be pandas' own and is not as it writes it; write it again as text"
    )


def _pandas_kind(field: pa.Field) -> _PandasKind | None:
    if isinstance(field.type, pa.BaseExtensionType):
        name, details = field.type.extension_name, field.type.__arrow_ext_serialize__()
    else:
        said = field.metadata or {}
        name, details = said.get(_NAME, b"").decode("utf-8", "replace"), said.get(_DETAILS, b"")
    if name not in _KINDS:
        return None
    try:
        return _KINDS[name](field.name, json.loads(details))
    except _MALFORMED as error:
        raise _not_pandas(field.name) from error


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _plain_ends(values: pa.Array) -> pa.Array:
    """Ends of intervals; of times in microseconds, the finest that Python has."""
    return values.cast(pa.timestamp("us", values.type.tz)) if pa.types.is_timestamp(values.type) else values


def _indices(coded: pa.DictionaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(coded.indices.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def in_memory(data: Any) -> Source:
    """The records of a data frame, a polars LazyFrame, anything that streams Arrow, or an iterable of record batches.

    Raises
    ------
    InvalidInput
        for anything else, and for a stream without records.
    """
    refuse_spark_frame(data)
    if is_polars_lazyframe(data):
        return _Lazy(data)
    if is_pandas_dataframe(data) or is_polars_dataframe(data) or isinstance(data, pa.Table | pa.RecordBatch):
        return _Frame(data)
    if isinstance(data, pa.RecordBatchReader) or not is_frame(data):
        return Once(f"the {type(data).__name__}", _batches_of(data))
    return _Stream(data) if hasattr(data, "__arrow_c_stream__") else _Frame(frame_table(data))


class _Frame(Source):
    """A frame in memory."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, f"the {type(data).__name__}"
        self._schema: pa.Schema | None = None
        self.rows = data.num_rows if hasattr(data, "num_rows") else len(data)

    @property
    def schema(self) -> pa.Schema:
        """Names and types; a pandas frame is converted for it."""
        if self._schema is None:
            self._schema = frame_table(self._data).schema
        return self._schema

    def column_names(self) -> list[str]:
        """As text."""
        return column_names(self._data)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 131,072 records."""
        for batch in frame_batches(self._data, columns):
            yield from bounded(batch, self.name)


class _Lazy(Source):
    """A polars LazyFrame, computed in pieces each time its batches are asked for."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, "the LazyFrame"
        self.schema = data.collect_schema().to_frame().to_arrow().schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 131,072 records."""
        for frame in self._data.select(list(columns)).collect_batches(chunk_size=RECORDS, maintain_order=True):
            for batch in frame_batches(frame, columns):
                yield from bounded(batch, self.name)


class _Stream(Source):
    """Whatever streams Arrow anew each time it is asked: a DuckDB relation, an Ibis table."""

    def __init__(self, data: Any) -> None:
        self._data, self.name = data, f"the {type(data).__name__}"
        self.schema = pa.RecordBatchReader.from_stream(data).schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 131,072 records."""
        for batch in pa.RecordBatchReader.from_stream(self._data):
            for start in range(0, max(batch.num_rows, 1), RECORDS):
                yield from bounded(batch.slice(start, RECORDS).select(list(columns)), self.name)


def _batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    if not isinstance(data, Iterable):
        raise InvalidInput(
            f"cannot read records from a {type(data).__name__}; give a data frame, a path or record batches"
        )
    for batch in data:
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidInput(f"an iterable of record batches yielded a {type(batch).__name__}; give RecordBatches")
        yield batch
