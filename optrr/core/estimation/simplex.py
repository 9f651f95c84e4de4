"""Projection of unbiased estimates to proper distributions (MDR §6.4, theory §4.3).

The unbiased estimate sums to 1 but may have negative cells. MDR §6.4 replaces negatives by 0 and rescales, and calls that
the nearest distribution in Euclidean distance, which it is not: `clip` does the former, `projection` the latter. Norm-Sub
(Wang et al., PVLDB 2020) replaces negatives by 0 and subtracts the surplus evenly from the rest, until none is negative;
its limit is the Euclidean projection, and it is computed as that.

Both take a batch: the last axis holds the cells. Tables that are fitted otherwise state how the iteration ended.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True)
class Convergence:
    """How an iteration ended.

    ``criterion`` says what ``value`` measures; it is at most ``tolerance`` where ``converged``. ``log_likelihood`` is in
    nats over all records, None if the method does not maximise one.
    """

    iterations: int
    converged: bool
    criterion: str
    value: float
    tolerance: float
    log_likelihood: float | None = None


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A fitted table, and how it was reached; None if nothing was iterated."""

    proportions: FloatArray
    convergence: Convergence | None = None


def clip(values: ArrayLike) -> FloatArray:
    """Set negatives to 0 and rescale to sum 1 (MDR §6.4).

    Biased upwards in small cells; the order is kept.

    Raises InvalidInput if no value is positive.
    """
    positive = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    if np.any(total <= 0):
        raise InvalidInput("no cell is positive, so nothing can be rescaled; use projection")
    return np.asarray(positive / total)


def projection(values: ArrayLike) -> FloatArray:
    """Project to the nearest distribution in Euclidean distance; O(R log R).

    max(x − τ, 0) with the τ that makes it sum to 1.
    """
    x = np.asarray(values, dtype=np.float64)
    descending = -np.sort(-x, axis=-1)
    excess = np.cumsum(descending, axis=-1) - 1
    k = np.arange(1, x.shape[-1] + 1)
    last = np.count_nonzero(descending - excess / k > 0, axis=-1, keepdims=True)
    tau = np.take_along_axis(excess, last - 1, axis=-1) / last
    return np.asarray(np.maximum(x - tau, 0.0))
