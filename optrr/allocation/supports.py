"""Reports on a table that name subsets of its cells (subset selection), or subsets of each of its attributes.

A report matches the record on some attributes; a pattern of matches is likely or not (:class:`optrr_solvers.allocation.
questions.SubsetReport`), and the report is one of its unlikely patterns with a probability that is drawn with a 64-bit
threshold, rounded towards more privacy. With one subset, of k of the table's r cells, this is subset selection (Ye & Barg 2018,
*Optimal schemes for discrete distribution estimation under locally differential privacy*): the true cell is in the subset with
probability k e^ε/(k e^ε + r − k); k = 1 is randomized response.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import log, prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from optrr_solvers.allocation.questions import SubsetReport
from optrr_solvers.arrays import IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, bounded, threshold

# Random words drawn at once: 32 MB.
_WORDS = 1 << 22
_LAST = np.uint64((1 << 64) - 1)


def unlikely_chance(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> float:
    """Compute the probability that a report has no likely pattern of matches."""
    likely = report.likely_weight(sizes)
    return float(expit(log((prod(sizes) - likely) / likely) - epsilon))


def unlikely_threshold(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> int:
    """Compute that probability in units of 2^-64, as drawn."""
    return int(threshold(unlikely_chance(report, sizes, epsilon)))


def reported_epsilon(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> float:
    """Compute ε in nats of a report as drawn, in exact rationals, rounded up.

    As :func:`report_subsets` draws it.
    """
    out, likely = Fraction(unlikely_threshold(report, sizes, epsilon), 1 << 64), report.likely_weight(sizes)
    ratio = (1 - out) / out * (prod(sizes) - likely) / likely
    return log_ceiling(max(ratio, 1 / ratio))


def _with_or_without(
    codes: IntArray, inside: NDArray[np.bool_], size: int, k: int, source: BitSource
) -> NDArray[np.uint8]:
    """Draw uniform subsets of k categories with or without the code, (n, r)."""
    out = np.empty((codes.size, size), dtype=np.uint8)
    step = max(1, _WORDS // size)
    for start in range(0, codes.size, step):
        piece = codes[start : start + step]
        # the subset is made of the categories with the smallest random ranks; the true one is ranked before or after all others
        ranks = _distinct(source, piece.size, size)
        ranks[np.arange(piece.size), piece] = np.where(inside[start : start + step], 0, _LAST)
        last = np.partition(ranks, k - 1, axis=1)[:, k - 1]
        out[start : start + step] = ranks <= last[:, None]
    return out


def report_subsets(
    codes: IntArray, report: SubsetReport, sizes: Sequence[int], epsilon: float, source: BitSource
) -> list[IntArray]:
    """Randomize records, (n, t), of a table.

    Returns for each subset the numbers of its categories, or cells, (n, k_i).

    A pattern of matches is drawn, likely or not, in proportion to the number of records that it would fit; then, of each
    attribute, a subset that matches or does not, each as likely.
    """
    parts = report.parts(sizes)
    own = codes if len(parts) == len(sizes) else np.ravel_multi_index(tuple(codes.T), tuple(sizes))[:, None]
    weights, likely = report.weights(sizes), set(report.likely)
    held = source.words(len(own)) >= np.uint64(unlikely_threshold(report, sizes, epsilon))
    matches = np.empty(len(own), dtype=np.int64)
    for chosen, rows in ((True, np.flatnonzero(held)), (False, np.flatnonzero(~held))):
        patterns = [p for p in range(len(weights)) if (p in likely) == chosen]
        ends = np.cumsum([weights[p] for p in patterns], dtype=np.int64)
        matches[rows] = np.asarray(patterns)[np.searchsorted(ends, bounded(source, rows.size, int(ends[-1])), "right")]
    return [
        _named(own[:, i], (matches >> i & 1).astype(np.bool_), r, k, source)
        for i, (r, k) in enumerate(zip(parts, report.subset_sizes, strict=True))
    ]


def _named(codes: IntArray, inside: NDArray[np.bool_], size: int, k: int, source: BitSource) -> IntArray:
    """Draw subsets of k categories with or without the code, sorted, (n, k)."""
    if k == 1:
        other = (codes + 1 + bounded(source, codes.size, size - 1)) % size
        return np.asarray(np.where(inside, codes, other)[:, None], dtype=np.int64)
    return np.nonzero(_with_or_without(codes, inside, size, k, source))[1].reshape(-1, k)


def _distinct(source: BitSource, rows: int, size: int) -> NDArray[np.uint64]:
    """Draw uniform words without repeats in a row, shape (rows, size).

    Between 1 and the last but one; a row with repeats is drawn again.
    """
    words = source.words(rows * size).reshape(rows, size)
    redo = np.arange(rows)
    while redo.size:
        drawn = np.sort(words[redo], axis=1)
        tied = (np.diff(drawn, axis=1) == 0).any(axis=1) | (drawn[:, 0] == 0) | (drawn[:, -1] == _LAST)
        redo = redo[tied]
        words[redo] = source.words(redo.size * size).reshape(redo.size, size)
    return words
