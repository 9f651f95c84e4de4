"""Drawing from "uniform plus excess", with rounding that can only add privacy.

Every law here is a mixture ν = α μ + Σ_k e_k δ_k: answer uniformly at random with probability α = min ν/μ, otherwise
draw the excess of one cell, e_k = α x_k with x_k = μ_k (q_k − 1) and α = 1/(1 + Σ x_k). Each e_k is rounded *down* and
the remainder goes to the uniform part. Where the computed x_k is too large by a factor of at most 1 + η and is then
reduced by a factor of at least 1 + η, the sampled ratio e_k/α is at most the true x_k, whatever the other cells: the
sampled mechanism's ε is never above the law's. The uniform part gains about 1e-14 by it, invisible in any data set.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, words_below

# Relative error of a normalised sum of up to 2^21 nonnegative doubles is below 2^-50; the margin is four times that.
_ROUND_DOWN = 2.0**-48


def log_expm1(x: FloatArray) -> FloatArray:
    """Compute ln(e^x − 1) for x ≥ 0 without overflow, −∞ at 0.

    In logarithms because e^x overflows for many attributes.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


class ExcessTable:
    """Cells with excess e_k ≥ 0; the uniform answer has the remainder 1 − Σ e_k.

    ``log_excess`` is ln x_k, relative to a uniform part of 1; ``error`` bounds its absolute error (one number, or one
    per cell). ``gain`` bounds by how much more often than under the law the answer is uniform.
    """

    def __init__(self, log_excess: FloatArray, error: ArrayLike) -> None:
        flat = np.ravel(log_excess)
        total = np.logaddexp(0.0, logsumexp(flat)) if np.any(flat > -np.inf) else 0.0
        # exp, ln and sums of them are each off by at most a few roundings of the largest number that occurs
        slack = np.ravel(np.broadcast_to(error, np.shape(log_excess))) + 2.0**-50 * (1 + np.abs(flat) + total)
        self._cells = np.flatnonzero(flat > -np.inf)
        logs = (flat - total - slack)[self._cells]
        whole = np.floor(np.exp(logs) * (2.0**64 * (1 - _ROUND_DOWN))).astype(np.uint64)
        self._cumulative = np.cumsum(whole, dtype=np.uint64)
        # each share may be too small by its slack before it is reduced by as much again, and by a word
        lost = np.exp(logs) * (np.expm1(2 * slack[self._cells]) + 2 * _ROUND_DOWN) + 2.0**-64
        self.gain = float(lost.sum())

    def draw(self, n: int, source: BitSource) -> IntArray:
        """Draw ``n`` cell numbers, −1 for a uniform answer; O(n log K) for K cells."""
        if not self._cells.size:
            return np.full(n, -1, dtype=np.int64)
        at = np.searchsorted(self._cumulative, source.words(n), side="right")
        return np.append(self._cells, -1)[at].astype(np.int64)


def accuracies_drawn(one_way: FloatArray, sizes: IntArray, gain: float) -> FloatArray:
    """Compute ε_i, (m,), if the answer is uniform by up to ``gain`` more often.

    ``one_way`` (m, 2) are Pr(kept), Pr(changed).

    Never above the sampler's ε, because an event that is drawn less often may keep the attribute.
    """
    more = gain * (1 - 1 / sizes)
    kept, changed = one_way[:, 0] - more, one_way[:, 1] + more
    # no attribute becomes less accurate than the uniform answer by it
    shares = (
        np.maximum(kept, np.minimum(one_way[:, 0], 1 / sizes)),
        np.minimum(changed, np.maximum(one_way[:, 1], 1 - 1 / sizes)),
    )
    return np.asarray(np.log(sizes - 1.0) + np.log(shares[0]) - np.log(shares[1]))


def uniform_changes(n: int, sizes: IntArray, source: BitSource) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Draw flip patterns of ``n`` uniform answers.

    Attribute i changes with probability exactly 1 − 1/r_i.
    """
    out = np.empty((n, sizes.size), dtype=np.bool_)
    # attributes of one size are drawn together: a loop over 100,000 of them costs more than the draws
    for r in np.unique(sizes):
        members = np.flatnonzero(sizes == r)
        out[:, members] = words_below(source, n * members.size, int(r)).reshape(n, members.size) != 0
    return out
