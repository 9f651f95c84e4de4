"""How much a file may become once it is decoded: one bound for every reader.

Compression, dictionaries and views let a few bytes stand for gigabytes. What is read at once may take ``MOST_BYTES`` and
``RATIO`` times the bytes that it takes in the file; that is asked before anything is decoded, of the sizes that a decoder will
act on (:mod:`optrr.records.reading.parquet_pages`, :mod:`optrr.records.reading.arrow_messages`). Record batches are
looked at again once they are there: a value may have ``LONGEST_VALUE`` bytes, and a batch is cut so that its columns, written
out value by value, take at most ``MOST_BYTES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.domain.domain import shown
from optrr.errors import InvalidInput

MOST_BYTES = 1 << 28
# Sorted categories shrink to less than a hundredth, so that large files may grow, too; a small one may grow to MOST_BYTES.
RATIO = 16
# No category, name or weight is longer; what a CSV file holds in one line is about as much.
LONGEST_VALUE = 1 << 18
_VIEW = np.dtype([("bytes", "<i4"), ("rest", "V12")])


def require_small(decoded: int, held: int, name: str) -> None:
    """Refuse what ``held`` bytes of a file, decoded at once, take in memory, where that is too much.

    Raises
    ------
    InvalidInput
        naming the file and both numbers.
    """
    if decoded > MOST_BYTES + RATIO * held:
        raise InvalidInput(
            f"cannot read {name}: {held} bytes of it take {decoded} once decoded, and at most {MOST_BYTES} and {RATIO} times "
            "their number are read at once; write it again in smaller batches, or get it from somebody you trust"
        )


def bounded(batch: pa.RecordBatch, name: str) -> Iterator[pa.RecordBatch]:
    """The batch, cut where its columns, written out value by value, would take too much; ``name`` is for messages.

    Raises
    ------
    InvalidInput
        for a value of more than ``LONGEST_VALUE`` bytes, and a column of lists, whose values have no bound.
    """
    widths = [_widest(column, name, field) for field, column in zip(batch.schema.names, batch.columns, strict=True)]
    rows = max(1, MOST_BYTES // max(1, sum(widths)))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def fixed_width(kind: pa.DataType) -> int | None:
    """Bytes of a value of this type, in whole ones; None where values differ in length."""
    try:
        return (int(kind.bit_width) + 7) // 8
    except ValueError:
        return None


def _widest(column: pa.Array, name: str, field: str) -> int:
    """Bytes of the column's longest value."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _widest(column.storage, name, field)
    if pa.types.is_dictionary(kind):
        return _widest(column.dictionary, name, field)
    if pa.types.is_struct(kind):
        return sum(_widest(child, name, field) for child in column.flatten())
    width = 1 if pa.types.is_null(kind) else fixed_width(kind)
    if width is None:
        lengths = _lengths(column)
        if lengths is None:
            raise InvalidInput(
                f"{name}: column {shown(field)} holds {kind}, which is no category; give texts, numbers, dates or yes and no"
            )
        width = int(lengths.max(initial=1))
    if width > LONGEST_VALUE:
        raise InvalidInput(
            f"{name}: column {shown(field)} holds a value of {width} bytes, and {LONGEST_VALUE} are the most that are read; "
            "leave the column out, or shorten its values"
        )
    return width


def _lengths(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Bytes of each text, shape (n,); None where the column holds something else. Nothing is copied."""
    kind, at, n = column.type, column.offset, len(column)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return np.frombuffer(column.buffers()[1] or b"", dtype=_VIEW)["bytes"][at : at + n]
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return None
    offsets = np.frombuffer(column.buffers()[1] or b"", dtype="<i8" if wide else "<i4")
    return np.diff(offsets[at : at + n + 1])
