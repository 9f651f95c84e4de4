"""Laws as plain records for JSON, one kind per law, and back.

Tables are mostly one value (at sixteen attributes 65,511 of 65,536 densities), so that value is stored once and the other
cells by number.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from optrr.errors import InvalidInput
from optrr_solvers.laws import (
    BallLaw,
    BlockLaw,
    CountLaw,
    FewChangesLaw,
    Law,
    MixedBall,
    ProductLaw,
    TableLaw,
    WeightedBall,
)
from optrr_solvers.laws.count import MAX_CELLS
from optrr_solvers.problem import FloatArray, IntArray

# No law of ours comes near this many nats an attribute; far beyond, exact rationals would have millions of digits.
_LARGEST = 500.0


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


class MixedBallRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One ball of a BallLaw: its share, weights of the classes, and profile."""

    share: float
    floors: list[int]
    fractions: list[float]
    knots: list[int]
    levels: list[float]


class BallRecord(msgspec.Struct, tag="ball", tag_field="kind", forbid_unknown_fields=True):
    """BallLaw: classes, balls, ln Q."""

    classes: list[list[int]]
    balls: list[MixedBallRecord]
    log_ratio: float


class BlockRecord(msgspec.Struct, tag="blocks", tag_field="kind", forbid_unknown_fields=True):
    """BlockLaw: attribute numbers and law of each block."""

    blocks: list[tuple[list[int], ProductRecord | TableRecord | CountRecord | FewChangesRecord | BallRecord]]


LawRecord = ProductRecord | TableRecord | CountRecord | FewChangesRecord | BallRecord | BlockRecord


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
        case BallLaw():
            return BallRecord([c.tolist() for c in law.classes], [_ball_record(b) for b in law.balls], law.log_ratio)
        case BlockLaw():
            return BlockRecord([(list(members), record_of(inner)) for members, inner in law.blocks])  # type: ignore[misc]
        case _:
            raise InvalidInput(f"a law of kind {type(law).__name__} cannot be written to a design file")


def law_of(record: LawRecord, sizes: IntArray) -> Law:
    """The law of a plain record, for attributes of these sizes. Raises ValueError where the record does not fit them."""
    m = sizes.size
    match record:
        case ProductRecord():
            return ProductLaw(sizes, _bounded(record.epsilons, m))
        case TableRecord():
            return TableLaw(sizes, _dense((2,) * m, record))
        case CountRecord():
            classes = _classes(record, m)
            return CountLaw(sizes, classes, _dense(tuple(c.size + 1 for c in classes), record))
        case FewChangesRecord():
            return FewChangesLaw(sizes, record.log_none, _bounded([record.log_none, *record.log_single], m)[1:])
        case BallRecord():
            balls = [MixedBall(b.share, _ball_of(b)) for b in record.balls]
            return BallLaw(sizes, _classes(record, m), balls, float(_bounded([record.log_ratio], m)[0]))
        case BlockRecord():
            blocks = [(_positions(members, m), inner) for members, inner in record.blocks]
            if sorted(i for members, _ in blocks for i in members) != list(range(m)):
                raise InvalidInput(f"the law's blocks must hold every attribute 0..{m - 1} exactly once")
            return BlockLaw([(members, law_of(inner, sizes[members])) for members, inner in blocks])


def _classes(record: CountRecord | BallRecord, m: int) -> list[IntArray]:
    return [np.asarray(_positions(c, m), dtype=np.int64) for c in record.classes]


def _positions(members: list[int], m: int) -> list[int]:
    if not members or not all(0 <= i < m for i in members):
        raise InvalidInput(f"a group of the law names attributes {members[:10]}; give some of 0..{m - 1}")
    return members


def _ball_record(mixed: MixedBall) -> MixedBallRecord:
    ball = mixed.ball
    return MixedBallRecord(
        mixed.share, ball.floors.tolist(), ball.fractions.tolist(), ball.knots.tolist(), ball.levels.tolist()
    )


def _ball_of(record: MixedBallRecord) -> WeightedBall:
    # as integers and doubles explicitly: a value beyond 64 bits is refused here and not wrapped
    return WeightedBall(
        np.array(record.floors, dtype=np.int64),
        np.array(record.fractions),
        np.array(record.knots, dtype=np.int64),
        np.array(record.levels),
    )


def _sparse(values: FloatArray) -> tuple[float, list[int], list[float]]:
    flat = values.ravel()
    levels, counts = np.unique(flat, return_counts=True)
    most = float(levels[np.argmax(counts)])
    cells = np.flatnonzero(flat != most)
    return most, cells.tolist(), flat[cells].tolist()


def _dense(shape: tuple[int, ...], record: TableRecord | CountRecord) -> FloatArray:
    size = math.prod(shape)
    if size > MAX_CELLS:
        raise InvalidInput(f"the law has {size} cells; {MAX_CELLS} at most")
    if len(record.cells) != len(record.log_density) or not all(0 <= c < size for c in record.cells):
        raise InvalidInput(f"the law's cells must be numbers below {size}, one log density for each")
    _bounded([record.most, *record.log_density], sum(shape) - len(shape))
    out = np.full(size, record.most)
    out[record.cells] = record.log_density
    return out.reshape(shape)


def _bounded(values: list[float], m: int) -> FloatArray:
    out = np.asarray(values, dtype=np.float64)
    if np.any(np.abs(out) > _LARGEST * m):
        raise InvalidInput(f"the law holds {np.abs(out).max():g} nats; {m} attributes need at most {_LARGEST * m:g}")
    return out
