"""The forward dynamic program: law of the tilted total after each attribute, one row at a time (design §3.5).

Row i holds N_i(x) = Σ over change sets of the first i attributes with total x of Π kept or changed weights,

    N_i(x) = k_i N_{i−1}(x) + l_i N_{i−1}(x−a_i) + h_i N_{i−1}(x−a_i−1),
    l_i / k_i = (1−b_i) (r_i−1) e^{−θ a_i},    h_i / k_i = b_i (r_i−1) e^{−θ (a_i+1)},

with k_i + l_i + h_i = 1 up to rounding, so that a row sums to 1. Totals beyond the radius never come back and are cut. Cells at
the edges that hold next to nothing are dropped too, and their mass is added up: it bounds what every later sum lacks.

Every entry is a sum of products of nonnegative numbers: after i attributes its relative error is at most
``ROUNDINGS``·i·2^-53, whatever the numbers (proofs/prove_ball.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray

# Per attribute an entry meets a product and a sum twice over, and weights each good to two roundings.
ROUNDINGS = 8
# An edge is dropped while it holds less than this; a million attributes then lose 1e-22 at most.
_DROP = 1e-30
# At most this many full rows are computed for one sum: a few minutes with 2^27 totals a row.
_MOST_ROWS = 512
# Each time this many attributes have been added, the edges are checked for cells to drop.
_TRIM_EVERY = 16


class WindowTooWide(ValueError):
    """A row would hold more totals than allowed; the message says how many."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The attributes in the order of the program: floors a and weights k (kept), l (changed, a), h (changed, a + 1)."""

    floors: IntArray
    kept: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, floors: IntArray, fractions: FloatArray, log_odds: FloatArray, theta: float) -> "Steps":
        """Tilted by θ; ``log_odds`` = ln(r−1); all of shape (m,)."""
        z = log_odds - theta * floors
        with np.errstate(divide="ignore"):
            low, high = z + np.log1p(-fractions), z - theta + np.log(fractions)
        total = np.logaddexp(0.0, np.logaddexp(low, high))
        return cls(floors, np.exp(-total), np.exp(low - total), np.exp(high - total))

    def __len__(self) -> int:
        return int(self.floors.size)

    def of_these(self, which: IntArray) -> "Steps":
        """The given attributes, in that order."""
        return Steps(self.floors[which], self.kept[which], self.low[which], self.high[which])


@dataclass(frozen=True, eq=False)
class TotalsRow:
    """N(x) for x = start, start + 1, …; ``lost`` is the mass dropped so far (not counting totals beyond the radius)."""

    start: int
    values: FloatArray
    lost: float

    def at(self, totals: IntArray) -> FloatArray:
        """N at the given totals, 0 outside the row."""
        where = totals - self.start
        inside = (where >= 0) & (where < self.values.size)
        return np.where(inside, self.values[np.where(inside, where, 0)], 0.0)


def first_row() -> TotalsRow:
    """No attribute yet: the total is 0."""
    return TotalsRow(0, np.ones(1), 0.0)


def rows(steps: Steps, end: int, row: TotalsRow, start: int, stop: int) -> Iterator[TotalsRow]:
    """Rows after attributes ``start``, …, ``stop`` − 1, from the row before them; totals of ``end`` or more are cut."""
    for i in range(start, stop):
        row = _next(row, steps, i, end)
        if i % _TRIM_EVERY == 0:
            row = trimmed(row)
        yield row


def _next(row: TotalsRow, steps: Steps, i: int, end: int) -> TotalsRow:
    a, high, old = int(steps.floors[i]), float(steps.high[i]), row.values
    size = max(min(old.size + a + (high > 0), end - row.start), 0)
    new = np.zeros(size)
    n = min(old.size, size)
    np.multiply(old[:n], steps.kept[i], out=new[:n])
    for shift, weight in ((a, float(steps.low[i])), (a + 1, high)):
        n = min(old.size, size - shift)
        if weight > 0 and n > 0:
            new[shift : shift + n] += old[:n] * weight
    return TotalsRow(row.start, new, row.lost)


def trimmed(row: TotalsRow) -> TotalsRow:
    """Without the edges that hold next to nothing; their mass is added to ``lost``."""
    values = row.values
    if values.size < 2 * _TRIM_EVERY:
        return row
    # the edge's cells are summed before they are dropped; only one value of each block is looked at to find how many
    low = _edge(values)
    high = values.size - _edge(values[::-1])
    if low == 0 and high == values.size:
        return row
    dropped = float(values[:low].sum() + values[high:].sum())
    return TotalsRow(row.start + low, values[low:high], row.lost + dropped)


def _edge(values: FloatArray) -> int:
    block = max(1, values.size // 64)
    held, length = 0.0, 0
    while length + block < values.size:
        held += float(values[length : length + block].sum())
        if held > _DROP:
            break
        length += block
    return length


def last_row(steps: Steps, end: int, most: int) -> TotalsRow:
    """The row after all attributes; O(m × window) time, O(window) memory.

    Raises WindowTooWide before a row of more than ``most`` totals, or rows of ``_MOST_ROWS`` times as many, are made.
    """
    row, done = first_row(), 0
    for i in range(len(steps)):
        # the next row reaches as far as this one and the attribute's weight, at most to the end
        wanted = min(row.values.size + int(steps.floors[i]) + 1, end - row.start)
        if wanted > most:
            raise WindowTooWide(f"{wanted} totals at once; at most {most} fit")
        done += wanted
        if done > _MOST_ROWS * most:
            raise WindowTooWide(f"{done} steps after {i + 1} of {len(steps)} attributes; at most {_MOST_ROWS * most}")
        row = next(rows(steps, end, row, i, i + 1))
    return row
