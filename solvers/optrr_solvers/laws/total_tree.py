"""Laws of totals of blocks of attributes, in a tree: pairs of blocks, pairs of pairs, up to all (design §3.5).

With N_L and N_R the laws of two halves' totals, their sum's law and the half's law given the sum are

    N(x) = Σ_y N_L(y) N_R(x−y),        Pr(left total is y | x) = N_L(y) N_R(x−y) / N(x).

A drawn grand total is split down the tree; inside a block only that block's short rows are needed, so that a table of
attributes times totals never is. With B blocks and W totals at once: the tree takes about 2000 W √B operations once and 30 W √B
bytes; a draw 2 W √B operations.

Relative errors must be bounded however small a probability is. Short rows are summed directly. Long ones are transformed under
several tilts, e^{τx} N(x), each of which is accurate to a share of its own largest value and so, relatively, around its own
centre; every total takes the tilt that bounds its error best.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.lib.stride_tricks import sliding_window_view

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.totals import TotalsRow, trimmed
from optrr_solvers.randomness import BitSource, Words

# Shares are rounded down to whole words. At most this share of all words then belongs to no cell, and a draw that falls there
# is repeated.
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


@dataclass(frozen=True, eq=False)
class _Node:
    """The law of some blocks' total and a bound of what its own sum adds to the relative error."""

    row: TotalsRow
    error: float


class TotalTree:
    """Built from the blocks' rows, a power of two of them; ``end``: totals from here on are cut.

    ``error`` bounds what the tree's own sums add to the relative error of any probability drawn through it.
    """

    def __init__(self, blocks: list[TotalsRow], end: int) -> None:
        levels, self.error = [blocks], 0.0
        while len(levels[0]) > 1:
            nodes = [_sum(a, b, end) for a, b in zip(levels[0][::2], levels[0][1::2], strict=True)]
            # the error of each sum counts twice: in its own law, and where a draw divides by the sum, which is computed anew
            # there
            self.error += sum(2 * x.error + 2 * PICK_ERROR + 2.0**-52 * x.row.values.size for x in nodes)
            levels.insert(0, [x.row for x in nodes])
        self._whole, self._levels = levels[0][0], levels[1:]

    def last_row(self, low: int) -> TotalsRow:
        """The law of the grand total from ``low`` on; what lies below is left out and not counted as lost."""
        row = self._whole
        skip = min(max(low - row.start, 0), row.values.size)
        return TotalsRow(row.start + skip, row.values[skip:], row.lost)

    def split(self, totals: IntArray, source: BitSource) -> IntArray:
        """Totals of the blocks for each grand total, shape (blocks, n)."""
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
    """The sum's law and a bound of the absolute error of each value.

    A transform of length 2^k is good to 7k·2^-53 of its input in the 2-norm (Higham, Accuracy and stability of numerical
    algorithms, Theorem 24.2), so a product of two, transformed back, to 3 × 7k·2^-53 ‖a‖₁‖b‖₂ in every value.
    """
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
            product = scipy.fft.irfft(scipy.fft.rfft(ta, size) * scipy.fft.rfft(tb, size), size)[:n]
            norms = max(float(ta.sum() * np.sqrt(tb @ tb)), float(tb.sum() * np.sqrt(ta @ ta)))
            back = np.exp(-tilt * x)
            error = 2.0**-53 * (24 * math.log2(size) + 16) * norms * back
            # where the way back underflows, the value is taken for 0 and is below this; where it overflows, others are better
            error[back < _TINY] = _TINY * norms
            better = error < bound
            values[better], bound[better] = np.maximum(product * back, 0.0)[better], error[better]
    # the tilts' own exponentials, with exponents below 200
    return values, bound + 2.0**-43 * values


def _split(left: TotalsRow, right: TotalsRow, totals: IntArray, source: BitSource) -> tuple[IntArray, IntArray]:
    """The left and the right total, given their sums."""
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
    """Where each cell's stretch of the words 0..2^64−1 ends, by mass along the last axis.

    A word beyond the last end is drawn again; no cell is then likelier than its share by more than 1 + ``PICK_ERROR``.
    """
    shares = masses * (_WORD * (1 - PICK_ERROR / 4) / masses.sum(axis=-1, keepdims=True))
    return np.cumsum(np.floor(shares).astype(np.uint64), axis=-1, dtype=np.uint64)


def _pick(masses: FloatArray, source: BitSource) -> IntArray:
    """One index for each row of ``masses``, (n, k)."""
    ends = word_ends(masses)
    at = (ends <= source.words(masses.shape[0])[:, None]).sum(axis=1)
    redo = np.flatnonzero(at == masses.shape[1])
    while redo.size:
        at[redo] = (ends[redo] <= source.words(redo.size)[:, None]).sum(axis=1)
        redo = redo[at[redo] == masses.shape[1]]
    return np.asarray(at, dtype=np.int64)


def pick_alike(masses: FloatArray, n: int, source: BitSource) -> IntArray:
    """``n`` indices from one row of masses, (k,)."""
    ends = word_ends(masses)
    at = np.searchsorted(ends, source.words(n), side="right")
    redo = np.flatnonzero(at == masses.size)
    while redo.size:
        at[redo] = np.searchsorted(ends, source.words(redo.size), side="right")
        redo = redo[at[redo] == masses.size]
    return np.asarray(at, dtype=np.int64)


def blocks_for(attributes: int, totals: float, memory: int) -> int:
    """The fewest blocks, a power of two, whose tables of attributes times totals fit in ``memory`` bytes each."""
    wanted = (8.0 * attributes * totals / memory) ** (2 / 3)
    return 1 << min(max(0, math.ceil(math.log2(max(wanted, 1.0)))), max(0, int(math.log2(attributes))))
