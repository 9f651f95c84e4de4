"""Periods and intervals that pandas wrote to a file: read as their texts, ``2024-01`` and ``(18, 30]``, as its frames are.

Arrow has no such types. pandas stores a period as the number of periods since 1970 and an interval as its two ends, and says
in the field's metadata what they mean; where pandas is imported, the columns come with types of its own instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.domain.bins import interval_text
from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.records.reading.source import Source

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
