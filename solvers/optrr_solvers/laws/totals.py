"""The law of a weighted total of changes: a forward dynamic program, and a tree of blocks of attributes (theory §3.5).

Row i holds N_i(x) = Σ over change sets of the first i attributes with total x of Π kept or changed weights,

    N_i(x) = k_i N_{i−1}(x) + l_i N_{i−1}(x−a_i) + h_i N_{i−1}(x−a_i−1),
    l_i / k_i = (1−b_i) (r_i−1) e^{−θ a_i},    h_i / k_i = b_i (r_i−1) e^{−θ (a_i+1)},

with k_i + l_i + h_i = 1 up to rounding, so that a row sums to 1. Totals beyond the radius never come back and are cut.
Cells at the edges that hold next to nothing are dropped too, and their mass is added up: it bounds what every later sum
lacks.

Every entry is a sum of products of nonnegative numbers: after i attributes its relative error is at most
``ROUNDINGS``·i·2^-53, whatever the numbers (proofs/prove_ball.py).

Many attributes are dealt out to blocks. With N_L and N_R the laws of two halves' totals, their sum's law and the half's
law given the sum are

    N(x) = Σ_y N_L(y) N_R(x−y),        Pr(left total is y | x) = N_L(y) N_R(x−y) / N(x).

A drawn grand total is split down the tree; inside a block only that block's short rows are needed, so that a table of
attributes times totals never is. With B blocks and W totals at once: the tree takes about 2000 W √B operations once and
30 W √B bytes; a draw 2 W √B operations.

Relative errors must be bounded however small a probability is. Short rows are summed directly. Long ones are
transformed under several tilts, e^{τx} N(x), each of which is accurate relative to its largest value, and so to every
value near its centre; every total takes the tilt that bounds its error best.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, Words

# Per attribute an entry meets a product and a sum twice over, and weights each good to two roundings.
ROUNDINGS = 8
# An edge is dropped while it holds less than this; a million attributes then lose 1e-22 at most.
_DROP = 1e-30
# At most this many full rows are computed for one sum: a few minutes with 2^27 totals a row.
_MOST_ROWS = 512
# Each time this many attributes have been added, the edges are checked for cells to drop.
_TRIM_EVERY = 16
# Shares are rounded down to whole words. At most this share of all words then belongs to no cell, and a draw that falls
# there is repeated.
PICK_ERROR = 2.0**-44
_WORD = 2.0**64
# Numbers held at once while totals are split: 32 MB.
_CHUNK = 1 << 22
# To draw a total, the stretch of this many totals that it is in is drawn first.
_STRETCH = 128
# Products up to which rows are summed directly: 20 ms.
_DIRECT = 1 << 26
# Centres of the tilts in standard deviations of the sum.
_CENTRES = range(-8, 9, 2)
# Totals whose relative error is above this are dropped, as the edges are.
_WORST = 1e-10
# Doubles below this are no longer good to 53 bits.
_TINY = float(np.finfo(np.float64).tiny)


class WindowTooWide(ValueError):
    """A row would hold more totals than allowed; the message states the number."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Attributes in the order of the program.

    Floors a and weights k (kept), l (changed, a), h (changed, a + 1).
    """

    floors: IntArray
    kept: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, floors: IntArray, fractions: FloatArray, log_odds: FloatArray, theta: float) -> "Steps":
        """Build steps tilted by θ; ``log_odds`` = ln(r−1); all of shape (m,)."""
        z = log_odds - theta * floors
        with np.errstate(divide="ignore"):
            low, high = z + np.log1p(-fractions), z - theta + np.log(fractions)
        total = np.logaddexp(0.0, np.logaddexp(low, high))
        return cls(floors, np.exp(-total), np.exp(low - total), np.exp(high - total))

    def __len__(self) -> int:
        return int(self.floors.size)

    def of_these(self, which: IntArray) -> "Steps":
        """Select attributes, in that order."""
        return Steps(self.floors[which], self.kept[which], self.low[which], self.high[which])


@dataclass(frozen=True, eq=False)
class TotalsRow:
    """N(x) for x = start, start + 1, ….

    ``lost`` is the mass dropped so far (not counting totals beyond the radius).
    """

    start: int
    values: FloatArray
    lost: float

    def at(self, totals: IntArray) -> FloatArray:
        """Look up N at the totals, 0 outside the row."""
        where = totals - self.start
        inside = (where >= 0) & (where < self.values.size)
        return np.where(inside, self.values[np.where(inside, where, 0)], 0.0)


def first_row() -> TotalsRow:
    """Return the row before any attribute, with total 0."""
    return TotalsRow(0, np.ones(1), 0.0)


def rows(steps: Steps, end: int, row: TotalsRow, start: int, stop: int) -> Iterator[TotalsRow]:
    """Iterate over rows after attributes ``start``, …, ``stop`` − 1.

    From the row before them; totals of ``end`` or more are cut.
    """
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
    """Drop negligible edges; their mass is added to ``lost``."""
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
    """Compute the row after all attributes; O(m × window) time, O(window) memory.

    Raises WindowTooWide before a row of more than ``most`` totals, or rows of ``_MOST_ROWS`` times as many, are made.
    """
    row, done = first_row(), 0
    for i in range(len(steps)):
        # the next row reaches as far as this one and the attribute's weight, at most to the end
        wanted = min(row.values.size + int(steps.floors[i]) + 1, end - row.start)
        if wanted > most:
            raise WindowTooWide(f"the window needs {wanted} totals; at most {most} fit in memory")
        done += wanted
        if done > _MOST_ROWS * most:
            raise WindowTooWide(f"{done} steps after {i + 1} of {len(steps)} attributes; at most {_MOST_ROWS * most}")
        row = next(rows(steps, end, row, i, i + 1))
    return row


@dataclass(frozen=True, eq=False)
class _Node:
    """Distribution of some blocks' total, and a bound of its relative error.

    The error is that of the sum itself.
    """

    row: TotalsRow
    error: float


class TotalTree:
    """Binary tree over the blocks' rows, a power of two of them.

    Totals from ``end`` on are cut.

    ``error`` bounds the contribution of the tree's sums to the relative error of any probability drawn through it.
    """

    def __init__(self, blocks: list[TotalsRow], end: int) -> None:
        levels, self.error = [blocks], 0.0
        while len(levels[0]) > 1:
            nodes = [_sum(a, b, end) for a, b in zip(levels[0][::2], levels[0][1::2], strict=True)]
            # the error of each sum counts twice: in its own law, and where a draw divides by the sum, which is computed
            # anew there
            self.error += sum(2 * x.error + 2 * PICK_ERROR + 2.0**-52 * x.row.values.size for x in nodes)
            levels.insert(0, [x.row for x in nodes])
        self._whole, self._levels = levels[0][0], levels[1:]

    def last_row(self, low: int) -> TotalsRow:
        """Compute the distribution of the grand total from ``low`` on.

        Smaller totals are left out and not counted as lost.
        """
        row = self._whole
        skip = min(max(low - row.start, 0), row.values.size)
        return TotalsRow(row.start + skip, row.values[skip:], row.lost)

    def split(self, totals: IntArray, source: BitSource) -> IntArray:
        """Draw totals of the blocks for each grand total, shape (blocks, n)."""
        out = [totals]
        for level in self._levels:
            halves = [
                _split(left, right, x, source) for left, right, x in zip(level[::2], level[1::2], out, strict=True)
            ]
            out = [y for pair in halves for y in pair]
        return np.stack(out)


def _sum(left: TotalsRow, right: TotalsRow, end: int) -> _Node:
    a, b = left.values, right.values
    lost = left.lost + right.lost
    if a.size * b.size <= _DIRECT:
        values, error = np.convolve(a, b), 2.0**-53 * (min(a.size, b.size) + 4)
    else:
        values, bound = _by_tilts(a, b)
        good = bound <= _WORST * values
        lost += float((values + bound)[~good].sum())
        values = np.where(good, values, 0.0)
        error = float((bound[good] / values[good]).max(initial=0.0))
    start = left.start + right.start
    # there is at least one cell; where only totals beyond the end are left, it holds these, which are cut later
    return _Node(trimmed(TotalsRow(start, values[: max(1, end - start)], lost)), error)


def _by_tilts(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the convolution of two rows, with a bound of each value's error.

    A transform of length 2^k is good to 7k·2^-53 of its input in the 2-norm (Higham, Accuracy and stability of
    numerical algorithms, Theorem 24.2), so a product of two, transformed back, to 3 × 7k·2^-53 ‖a‖₁‖b‖₂ in every value.
    """
    from scipy import fft  # noqa: PLC0415 (slow to import, and few laws draw by sums)

    n = a.size + b.size - 1
    size = 1 << (n - 1).bit_length()
    from_a, from_b = (np.arange(x.size) - float(x @ np.arange(x.size)) / float(x.sum()) for x in (a, b))
    deviation = math.sqrt(float(a @ from_a**2) / float(a.sum()) + float(b @ from_b**2) / float(b.sum()))
    x = np.arange(n) + from_a[0] + from_b[0]
    values, bound = np.zeros(n), np.full(n, np.inf)
    for centre in _CENTRES:
        tilt = centre / max(deviation, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            ta, tb = a * np.exp(tilt * from_a), b * np.exp(tilt * from_b)
            product = fft.irfft(fft.rfft(ta, size) * fft.rfft(tb, size), size)[:n]
            norms = max(float(ta.sum() * np.sqrt(tb @ tb)), float(tb.sum() * np.sqrt(ta @ ta)))
            back = np.exp(-tilt * x)
            error = 2.0**-53 * (24 * math.log2(size) + 16) * norms * back
            # where the way back underflows, the value is taken for 0 and is below this; where it overflows, others are
            # better
            error[back < _TINY] = _TINY * norms
            better = error < bound
            values[better], bound[better] = np.maximum(product * back, 0.0)[better], error[better]
    # the tilts' own exponentials, with exponents below 200
    return values, bound + 2.0**-43 * values


def _split(left: TotalsRow, right: TotalsRow, totals: IntArray, source: BitSource) -> tuple[IntArray, IntArray]:
    """Draw the left and the right total, given their sums."""
    stretches = -(-left.values.size // _STRETCH)
    width = stretches * _STRETCH
    weights = np.zeros(width)
    weights[: left.values.size] = left.values
    # N_R(x − y) for rising y, as windows of the reversed row: zeros on either side where x − y leaves it
    beside = np.concatenate([np.zeros(width), right.values[::-1], np.zeros(width)])
    windows = sliding_window_view(beside, width)
    begin = width + right.values.size - 1 + right.start - (totals - left.start)
    out = np.empty_like(totals)
    step = max(1, _CHUNK // width)
    for k in range(0, totals.size, step):
        masses = windows[begin[k : k + step]] * weights
        masses = masses.reshape(masses.shape[0], stretches, _STRETCH)
        rows = np.arange(masses.shape[0])
        stretch = _pick(masses.sum(axis=2), source)
        out[k : k + step] = left.start + stretch * _STRETCH + _pick(masses[rows, stretch], source)
    return out, totals - out


def word_ends(masses: FloatArray) -> Words:
    """Compute where each cell's interval of the words 0..2^64−1 ends.

    Proportions are of the mass along the last axis.

    A word beyond the last end is drawn again; no cell is then likelier than its share by more than 1 + ``PICK_ERROR``.
    """
    shares = masses * (_WORD * (1 - PICK_ERROR / 4) / masses.sum(axis=-1, keepdims=True))
    return np.cumsum(np.floor(shares).astype(np.uint64), axis=-1, dtype=np.uint64)


def _pick(masses: FloatArray, source: BitSource) -> IntArray:
    """Draw one index for each row of ``masses``, (n, k)."""
    ends = word_ends(masses)
    at = (ends <= source.words(masses.shape[0])[:, None]).sum(axis=1)
    redo = np.flatnonzero(at == masses.shape[1])
    while redo.size:
        at[redo] = (ends[redo] <= source.words(redo.size)[:, None]).sum(axis=1)
        redo = redo[at[redo] == masses.shape[1]]
    return np.asarray(at, dtype=np.int64)


def pick_alike(masses: FloatArray, n: int, source: BitSource) -> IntArray:
    """Draw ``n`` indices from one row of masses, (k,)."""
    ends = word_ends(masses)
    at = np.searchsorted(ends, source.words(n), side="right")
    redo = np.flatnonzero(at == masses.size)
    while redo.size:
        at[redo] = np.searchsorted(ends, source.words(redo.size), side="right")
        redo = redo[at[redo] == masses.size]
    return np.asarray(at, dtype=np.int64)


def blocks_for(attributes: int, totals: float, memory: int) -> int:
    """Compute the fewest blocks, a power of two, that fit in memory.

    Tables of attributes times totals take at most ``memory`` bytes each.
    """
    wanted = (8.0 * attributes * totals / memory) ** (2 / 3)
    return 1 << min(max(0, math.ceil(math.log2(max(wanted, 1.0)))), max(0, int(math.log2(attributes))))
