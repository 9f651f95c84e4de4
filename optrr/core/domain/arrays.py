"""Arrow arrays from numpy and back, through their buffers: ``pyarrow.array``, ``to_numpy`` and ``fill_null`` import pandas.

Importing pandas takes as long as all other work of most commands.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def array_of(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Build an Arrow array of numbers, or of texts with null for None.

    Values of other kinds bring the import of pandas.
    """
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        known = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)), known)
    if pa.types.is_boolean(kind):
        return array_of(values, pa.int64()).cast(kind)
    # Arrow refuses integers that are no doubles
    doubles = pa.types.is_float64(kind) and (isinstance(values, np.ndarray) or {*map(type, values)} <= {float})
    if pa.types.is_integer(kind) or doubles:
        numbers = pa.py_buffer(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()))
        return pa.Array.from_buffers(kind, len(values), [None, numbers])
    return pa.array(values, kind)


def numbers_of(values: pa.Array, null: float) -> NDArray[Any]:
    """Convert an Arrow array to its numbers, ``null`` for missing ones."""
    (known, held), kind = values.buffers(), np.dtype(values.type.to_pandas_dtype())
    if not len(values):
        return np.empty(0, dtype=kind)
    numbers = np.frombuffer(held, kind, len(values), kind.itemsize * values.offset)
    if not values.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")
    return np.where(bits[values.offset : values.offset + len(values)], numbers, kind.type(null))
