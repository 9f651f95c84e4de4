"""Tests and bounds that hold for any number of records: binomial tails, Clopper–Pearson, and a bound for whole tables.

No normal or χ² approximation is used, because an auditor works at levels like 10^-6, far out where these are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaincinv

from optrr_solvers.arrays import FloatArray, IntArray

# A probability that is a sum of doubles is known to some 1e-16; a cell that the label gives less than this is tested as if it
# had this much, which a million records notice with probability 1e-9.
LEAST = 1e-15


def at_least(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Pr(X ≥ k) for X binomial of n records and probability p; arrays of one shape."""
    k, n, p = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n, p)
    inside = (k > 0) & (k <= n)
    a, b = np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0)
    return np.where(inside, betainc(a, b, p), np.where(k <= 0, 1.0, 0.0))


def at_most(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Pr(X ≤ k) for X binomial of n records and probability p; arrays of one shape."""
    k, n, p = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n, p)
    inside = (k >= 0) & (k < n)
    a, b = np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0)
    return np.where(inside, betaincc(a, b, p), np.where(k >= n, 1.0, 0.0))


def two_sided(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> FloatArray:
    """Exact p-values of k of n where the label says p: twice the smaller tail, at most 1."""
    p = np.clip(p, LEAST, 1.0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(at_least(k, n, p), at_most(k, n, p))))


def lowest_share(k: ArrayLike, n: ArrayLike, level: float) -> FloatArray:
    """Clopper–Pearson's lower confidence bound of a probability at 1 − level, given k of n."""
    k, n = np.broadcast_arrays(np.asarray(k, dtype=np.float64), n)
    inside = k > 0
    return np.where(inside, betaincinv(np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0), level), 0.0)


def highest_share(k: ArrayLike, n: ArrayLike, level: float) -> FloatArray:
    """Clopper–Pearson's upper confidence bound of a probability at 1 − level, given k of n."""
    return 1.0 - lowest_share(np.asarray(n) - np.asarray(k), n, level)


def table_bound(counts: IntArray, probabilities: FloatArray) -> float:
    """A p-value, bounded from above, of counts in K cells with these probabilities.

    Pr(D ≥ d) ≤ e^{−nd} (e n d/(K−1))^{K−1} for d > (K−1)/n, with D the relative entropy of the shares to the
    probabilities (Agrawal, Finite-sample concentration of the multinomial in relative entropy, 2020, theorem I.2).
    """
    n, others = int(counts.sum()), counts.size - 1
    if n == 0 or others < 1:
        return 1.0
    seen = counts > 0
    expected = n * np.maximum(probabilities[seen] / probabilities.sum(), LEAST)
    statistic = float((counts[seen] * np.log(counts[seen] / expected)).sum())
    if statistic <= others:
        return 1.0
    return min(1.0, math.exp(min(0.0, others * (1 + math.log(statistic / others)) - statistic)))


class Worst:
    """The most extreme of many tests: how many there were, the smallest p-value, and what it is about."""

    def __init__(self) -> None:
        self.tests, self.p_value, self.what = 0, 1.0, ""

    def add(self, p_values: ArrayLike, describe: Callable[[int], str], among: int = 0) -> None:
        """Take in p-values; ``describe`` says what the k-th is about, ``among`` of how many tests these are the chosen ones."""
        flat = np.ravel(p_values)
        if not flat.size:
            return
        self.tests += max(flat.size, among)
        k = int(np.argmin(flat))
        if flat[k] < self.p_value:
            self.p_value, self.what = float(flat[k]), describe(k)

    @property
    def adjusted(self) -> float:
        """The smallest p-value times the number of tests (Bonferroni), at most 1."""
        return min(1.0, self.p_value * max(1, self.tests))
