"""Laws as plain records for JSON, one kind per law, and back.

Tables are mostly one value (at sixteen attributes 65,511 of 65,536 densities), so that value is stored once and the other
cells by number.
"""

from __future__ import annotations

import msgspec
import numpy as np

from optrr.errors import InvalidInput
from optrr_solvers.laws import BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.problem import FloatArray, IntArray


class ProductRecord(msgspec.Struct, tag="product", tag_field="kind", forbid_unknown_fields=True):
    """ProductLaw: ε_i."""

    epsilons: list[float]


class TableRecord(msgspec.Struct, tag="table", tag_field="kind", forbid_unknown_fields=True):
    """TableLaw: most common log density, the cells that differ, and theirs."""

    most: float
    cells: list[int]
    log_density: list[float]


class CountRecord(msgspec.Struct, tag="count", tag_field="kind", forbid_unknown_fields=True):
    """CountLaw: classes, most common log density, the cells that differ, and theirs."""

    classes: list[list[int]]
    most: float
    cells: list[int]
    log_density: list[float]


class FewChangesRecord(msgspec.Struct, tag="few-changes", tag_field="kind", forbid_unknown_fields=True):
    """FewChangesLaw: ln y_0 and ln y_i."""

    log_none: float
    log_single: list[float]


class BlockRecord(msgspec.Struct, tag="blocks", tag_field="kind", forbid_unknown_fields=True):
    """BlockLaw: attribute numbers and law of each block."""

    blocks: list[tuple[list[int], ProductRecord | TableRecord | CountRecord | FewChangesRecord]]


LawRecord = ProductRecord | TableRecord | CountRecord | FewChangesRecord | BlockRecord


def record_of(law: Law) -> LawRecord:
    """The plain record of a law."""
    match law:
        case ProductLaw():
            return ProductRecord(law.epsilons.tolist())
        case TableLaw():
            return TableRecord(*_sparse(law.log_density))
        case CountLaw():
            return CountRecord([c.tolist() for c in law.classes], *_sparse(law.log_density))
        case FewChangesLaw():
            return FewChangesRecord(law.log_none, law.log_single.tolist())
        case BlockLaw():
            return BlockRecord([(list(members), record_of(inner)) for members, inner in law.blocks])  # type: ignore[misc]
        case _:
            raise InvalidInput(f"a law of kind {type(law).__name__} cannot be written to a design file")


def law_of(record: LawRecord, sizes: IntArray) -> Law:
    """The law of a plain record. Raises ValueError where the record does not fit the sizes."""
    match record:
        case ProductRecord():
            return ProductLaw(sizes, np.asarray(record.epsilons))
        case TableRecord():
            return TableLaw(sizes, _dense((2,) * sizes.size, record))
        case CountRecord():
            shape = tuple(len(c) + 1 for c in record.classes)
            return CountLaw(sizes, [np.asarray(c, dtype=np.int64) for c in record.classes], _dense(shape, record))
        case FewChangesRecord():
            return FewChangesLaw(sizes, record.log_none, np.asarray(record.log_single))
        case BlockRecord():
            for members, _ in record.blocks:
                if not all(0 <= i < sizes.size for i in members):
                    raise InvalidInput(f"a block names attributes {members}; there are {sizes.size}")
            return BlockLaw([(members, law_of(inner, sizes[members])) for members, inner in record.blocks])


def _sparse(values: FloatArray) -> tuple[float, list[int], list[float]]:
    flat = values.ravel()
    levels, counts = np.unique(flat, return_counts=True)
    most = float(levels[np.argmax(counts)])
    cells = np.flatnonzero(flat != most)
    return most, cells.tolist(), flat[cells].tolist()


def _dense(shape: tuple[int, ...], record: TableRecord | CountRecord) -> FloatArray:
    size = int(np.prod(shape))
    if len(record.cells) != len(record.log_density) or not all(0 <= c < size for c in record.cells):
        raise InvalidInput(f"the law's cells must be numbers below {size}, one log density for each")
    out = np.full(size, record.most)
    out[record.cells] = record.log_density
    return out.reshape(shape)
