"""Records that are in memory, or that come out of it batch by batch: frames, lazy frames, Arrow streams, iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from optrr.domain.frame_kinds import is_pandas_dataframe, is_polars_dataframe, is_polars_lazyframe
from optrr.errors import InvalidInput
from optrr.records.frames import RECORDS, column_names, frame_batches, frame_table, is_frame
from optrr.records.reading.decoded import bounded
from optrr.records.reading.source import Once, Source
from optrr.records.spark_frames import refuse_spark_frame


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
