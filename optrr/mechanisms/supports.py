"""Reports that support cells: the true one with chance p, each other one with chance q.

Three ways to report one categorical value under local differential privacy, as the literature has them.

    grr   k-ary randomized response: one category; it supports that category
    oue   optimised unary encoding: r bits; it supports those that are 1
    ss    subset selection: k of the r categories; it supports those

and, on a table of several attributes, subsets of each (:class:`optrr_solvers.allocating.questions.SubsetReport`): subset
selection is the case of one subset, of the table's cells.

Either way the true category v is supported with probability p and each other one with probability q:

    grr   p = e^ε/(e^ε + r − 1)            q = 1/(e^ε + r − 1)
    oue   p = 1/2                          q = 1/(e^ε + 1)                              (bits independent)
    ss    p = k e^ε/(k e^ε + r − k)        q = p (k−1)/(r−1) + (1−p) k/(r−1)            (subsets of a kind alike)

With C_v supports among n reports π̂_v = (C_v/n − q)/(p − q) is unbiased, and n Σ_v var π̂_v is at most

    V = r γ(1−γ)/(p−q)²,   γ = q + (p−q)/r,

reached by the uniform population. All are ε-locally differentially private; what is drawn, with 64-bit thresholds rounded
towards more privacy, loses less, by up to 2^-64 e^ε. Sources: Kairouz, Bonawitz & Ramage (2016) for grr; Wang, Blocki, Li & Jha
(2017), *Locally differentially private protocols for frequency estimation*, for oue; Ye & Barg (2018), *Optimal schemes for
discrete distribution estimation under locally differential privacy*, for ss (grr is its k = 1).
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, log, prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from optrr_solvers.allocating.questions import SubsetReport, whole_table
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.problem import flip_probabilities, keep_probabilities
from optrr_solvers.randomness import BitSource, bounded, threshold

Oracle = Literal["grr", "oue", "ss"]

# Random words drawn at once: 32 MB.
_WORDS = 1 << 22
_LAST = np.uint64((1 << 64) - 1)


def support_probabilities(oracle: Oracle, size: int, epsilon: float) -> tuple[float, float]:
    """(p, q): how often a report supports the true category, and each other one; ε in nats."""
    if oracle == "oue":
        return 0.5, float(expit(-epsilon))
    if oracle == "ss":
        k = subset_size(size, epsilon)
        p = 1 - _left_out(size, epsilon)
        return p, (p * (k - 1) + (1 - p) * k) / (size - 1)
    return float(keep_probabilities(size, epsilon)), float(flip_probabilities(size, epsilon)) / (size - 1)


def subset_size(size: int, epsilon: float) -> int:
    """k of subset selection: of the two whole numbers around r/(e^ε + 1), the one with the smaller V; 1..r−1."""
    return whole_table((size,), epsilon).subset_sizes[0]


def _subset_error(size: int, epsilon: float, k: int) -> float:
    """V of subset selection with subsets of k."""
    p = float(expit(epsilon + log(k / (size - k))))
    q = (p * (k - 1) + (1 - p) * k) / (size - 1)
    gamma = k / size
    return size * gamma * (1 - gamma) / (p - q) ** 2


def _left_out(size: int, epsilon: float) -> float:
    """How often subset selection leaves the true category out."""
    return unlikely_chance(whole_table((size,), epsilon), (size,), epsilon)


def unlikely_chance(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> float:
    """How often a report has none of its likely patterns of matches."""
    likely = report.likely_weight(sizes)
    return float(expit(log((prod(sizes) - likely) / likely) - epsilon))


def unlikely_threshold(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> int:
    """The same as the whole number of 2^-64 that is drawn with."""
    return int(threshold(unlikely_chance(report, sizes, epsilon)))


def reported_epsilon(report: SubsetReport, sizes: Sequence[int], epsilon: float) -> float:
    """ε in nats of a report on a table as :func:`report_subsets` draws it, in exact rationals, rounded up."""
    out, likely = Fraction(unlikely_threshold(report, sizes, epsilon), 1 << 64), report.likely_weight(sizes)
    ratio = (1 - out) / out * (prod(sizes) - likely) / likely
    return log_ceiling(max(ratio, 1 / ratio))


def report_error(oracle: Oracle, size: int, epsilon: float) -> float:
    """V: n times the summed variance of the unbiased proportions, at most, over all populations."""
    # written so that nothing cancels at small ε or overflows at large ε
    away = -expm1(-epsilon)
    if oracle == "grr":
        return (1 - 1 / size) * (1 + exp(log(size) - epsilon) / away) ** 2
    if oracle == "oue":
        return 4 * size * exp(-epsilon) / away**2 + 2 - 1 / size
    return _subset_error(size, epsilon, subset_size(size, epsilon))


@lru_cache(maxsize=1 << 12)
def drawn_epsilon(oracle: Oracle, size: int, epsilon: float) -> float:
    """ε in nats of the report as :func:`report` draws it, from its 64-bit thresholds in exact rationals, rounded up."""
    if oracle == "oue":
        p, q = (_drawn(x) for x in support_probabilities(oracle, size, epsilon))
        return log_ceiling(p / q * (1 - q) / (1 - p))
    if oracle == "ss":
        return reported_epsilon(whole_table((size,), epsilon), (size,), epsilon)
    moved = _drawn(float(flip_probabilities(size, epsilon)))
    return log_ceiling((1 - moved) * (size - 1) / moved)


def _drawn(probability: float) -> Fraction:
    return Fraction(int(threshold(probability)), 1 << 64)


def report(codes: IntArray, oracle: Oracle, size: int, epsilon: float, source: BitSource) -> NDArray[np.integer]:
    """Randomized reports on true categories, shape (n,): codes (n,) for grr, bits (n, r) as uint8 for oue and ss.

    A code of −1 stands for nobody's category: oue of the zero vector (used as fake data); the others have no such report.
    """
    if oracle == "oue":
        return _bits(codes, size, epsilon, source)
    if oracle == "ss":
        inside = source.words(codes.size) >= threshold(_left_out(size, epsilon))
        return _with_or_without(codes, inside, size, subset_size(size, epsilon), source)
    moved = source.words(codes.size) < threshold(float(flip_probabilities(size, epsilon)))
    out = codes.copy()
    rows = np.flatnonzero(moved)
    out[rows] = (out[rows] + 1 + bounded(source, rows.size, size - 1)) % size
    return out


def _bits(codes: IntArray, size: int, epsilon: float, source: BitSource) -> NDArray[np.uint8]:
    p, q = support_probabilities("oue", size, epsilon)
    out = np.empty((codes.size, size), dtype=np.uint8)
    step = max(1, _WORDS // size)
    for start in range(0, codes.size, step):
        piece = codes[start : start + step]
        words = source.words(piece.size * size).reshape(piece.size, size)
        bits = words < threshold(q)
        rows = np.flatnonzero(piece >= 0)
        bits[rows, piece[rows]] = words[rows, piece[rows]] < threshold(p)
        out[start : start + step] = bits
    return out


def _with_or_without(
    codes: IntArray, inside: NDArray[np.bool_], size: int, k: int, source: BitSource
) -> NDArray[np.uint8]:
    """Subsets of k categories, uniform among those that hold the code, or that do not, shape (n, r)."""
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
    """Randomized reports on records, (n, t), of a table: of each subset the numbers of its categories, or cells, (n, k_i).

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
    """The members of a subset of k categories that holds the code or not, in ascending order, shape (n, k)."""
    if k == 1:
        other = (codes + 1 + bounded(source, codes.size, size - 1)) % size
        return np.asarray(np.where(inside, codes, other)[:, None], dtype=np.int64)
    return np.nonzero(_with_or_without(codes, inside, size, k, source))[1].reshape(-1, k)


def _distinct(source: BitSource, rows: int, size: int) -> NDArray[np.uint64]:
    """Uniform words between 1 and the last but one, shape (rows, size); a row that has two alike is drawn anew."""
    words = source.words(rows * size).reshape(rows, size)
    redo = np.arange(rows)
    while redo.size:
        drawn = np.sort(words[redo], axis=1)
        tied = (np.diff(drawn, axis=1) == 0).any(axis=1) | (drawn[:, 0] == 0) | (drawn[:, -1] == _LAST)
        redo = redo[tied]
        words[redo] = source.words(redo.size * size).reshape(redo.size, size)
    return words


def supports(answers: NDArray[np.integer], size: int) -> FloatArray:
    """How many reports support each category, shape (r,)."""
    if answers.ndim == 2:
        return np.asarray(answers.sum(axis=0, dtype=np.float64))
    return np.bincount(answers, minlength=size).astype(np.float64)


def indicators(answers: NDArray[np.integer], size: int) -> FloatArray:
    """Which categories each report supports, shape (n, r), zeros and ones."""
    if answers.ndim == 2:
        return answers.astype(np.float64)
    return np.asarray(np.eye(size)[answers])
