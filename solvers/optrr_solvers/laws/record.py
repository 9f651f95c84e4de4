"""Laws as plain records for JSON, and back: each law writes and reads its own, by the name of its kind.

Tables are mostly one value (at sixteen attributes 65,511 of 65,536 densities), so that value is stored once and the other
cells by number. What a record holds is checked here before arrays of its size are made.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidInput
from optrr_solvers.laws.base import Law

# Every kind of law by the name that its records bear; filled where the laws are listed (optrr_solvers.laws).
KINDS: dict[str, type[Law]] = {}
# The laws of this package have far fewer nats for each attribute. With far more, exact rationals would have millions of digits.
_LARGEST = 500.0


class SparseTable(msgspec.Struct, forbid_unknown_fields=True):
    """An array by its most common value, the cells that differ, and theirs."""

    most: float
    cells: list[int]
    log_density: list[float]


def record_of(law: Law) -> dict[str, Any]:
    """The plain record of a law: JSON values, with its kind."""
    if KINDS.get(law.kind) is not type(law):
        raise InvalidInput(f"a law of kind {type(law).__name__} cannot be written to a design file")
    return {"kind": law.kind, **msgspec.to_builtins(law.to_record())}


def law_of(record: dict[str, Any], sizes: IntArray) -> Law:
    """The law of a plain record, for attributes of these sizes. Raises InvalidInput where the record does not fit them."""
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"the law's kind is {str(kind)[:40]!r}; this version reads {', '.join(sorted(KINDS))}")
    law = KINDS[kind]
    try:
        fields = msgspec.convert({k: v for k, v in record.items() if k != "kind"}, type=law.Record)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the law's record is not one of kind {kind!r}: {error}") from error
    return law.from_record(fields, sizes)


def sparse(values: FloatArray) -> SparseTable:
    """An array of any shape."""
    flat = values.ravel()
    levels, counts = np.unique(flat, return_counts=True)
    most = float(levels[np.argmax(counts)])
    cells = np.flatnonzero(flat != most)
    return SparseTable(most, cells.tolist(), flat[cells].tolist())


def dense(shape: tuple[int, ...], table: SparseTable, most: int) -> FloatArray:
    """The array of a table, at most so many cells."""
    size = math.prod(shape)
    if size > most:
        raise InvalidInput(f"the law has {size} cells; {most} at most")
    if len(table.cells) != len(table.log_density) or not all(0 <= c < size for c in table.cells):
        raise InvalidInput(f"the law's cells must be numbers below {size}, one log density for each")
    bounded_nats([table.most, *table.log_density], sum(shape) - len(shape))
    out = np.full(size, table.most)
    out[table.cells] = table.log_density
    return out.reshape(shape)


def bounded_nats(values: Sequence[float], m: int) -> FloatArray:
    """Numbers of nats that a law of ``m`` attributes may hold."""
    out = np.asarray(values, dtype=np.float64)
    if np.any(np.abs(out) > _LARGEST * m):
        raise InvalidInput(f"the law holds {np.abs(out).max():g} nats; {m} attributes need at most {_LARGEST * m:g}")
    return out
