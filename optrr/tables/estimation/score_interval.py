"""Confidence intervals of shares by inverting a test: all p in [0, 1] at which "the share is p" is not rejected.

The test of one p compares the estimate with its law under p (:mod:`optrr.tables.estimation.weighted_mean`), so the interval has
the variance of the hypothesis, not of the data, as Wilson's (1927) has; for one attribute it is the exact binomial one.

Near 0 an estimate that is too low cannot be told from one of a share of 0, so an equal split of the error probability would
waste one half. It is split as Feldman and Cousins (Physical Review D 57, 1998, 3873) order outcomes: for an estimate that is
normal with standard deviation σ around p ≥ 0, an outcome counts by its likelihood against that of the best p ≥ 0. At a distance
d = p/σ from 0 the accepted outcomes p + σ (z₁, z₂) then have z₁ = −z₂ for z₂ ≤ d and z₁ = −(z₂² + d²)/(2d) beyond. All error
is on the upper side at d = 0 and it is halved from d = z on. Such intervals are never empty, always hold the estimate moved
into [0, 1], and shrink, but not to nothing, as the estimate goes below 0. The same holds near 1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from optrr.tables.estimation.invert import inverted
from optrr.tables.estimation.weighted_mean import WeightedMeans
from optrr.tables.estimation.weighted_tail import tails
from optrr_solvers.arrays import FloatArray, IntArray

# Items whose tails are computed together: 2^14 sums of 256 terms take 64 MB.
_TOGETHER = 1 << 14
# Distances from 0 at which the split is tabulated; straight lines between them are right to 1e-3 of the level.
_DISTANCES = 257
# Ends are this precise, in standard errors of the estimate and in records, and rounded outwards: a precision that does not
# follow the standard error makes intervals of very many records too wide. Of given records, a quarter of one tells which end.
_PRECISION, _QUARTER = 1e-4, 0.25
# What floating-point numbers leave of it.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
# Ends of the split, in standard errors: the shares that follow are right to 1e-10.
_SPLIT_PRECISION = 1e-12
# Tails whose logarithms are below this count as equal.
_LOWEST = -700.0


def score_intervals(means: WeightedMeans, level: float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends, (B,), for an error probability of ``level`` each.

    About ten evaluations of both tails for every end; O(B) memory.
    """
    size = means.estimate.size
    lower, upper = np.empty(size), np.empty(size)
    for start in range(0, size, _TOGETHER):
        chosen = np.arange(start, min(start + _TOGETHER, size))
        part = means[chosen]
        lower[chosen], upper[chosen] = _end(part, level, 0), _end(part, level, 1)
    return lower, upper


def rejected(means: WeightedMeans, p: FloatArray, level: float) -> FloatArray:
    """Logarithm of both tails over their levels if the shares are p, (2, B), upper tail first; below 0 is rejected."""
    law = means.under(p)
    upper, lower = tails(law, means.estimate)
    share = _lower_share(law.share, law.error, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.log(upper) - np.log(level * (1 - share))
        below = np.log(lower) - np.log(level * share)
    # a side without error probability never rejects
    both = np.stack([np.where(share < 1, above, np.inf), np.where(share > 0, below, np.inf)])
    return np.asarray(np.clip(np.nan_to_num(both, nan=_LOWEST), _LOWEST, -_LOWEST))


def _end(means: WeightedMeans, level: float, side: int) -> FloatArray:
    """The lower (0) or upper (1) end: between it and the estimate nothing is rejected on that side."""

    def excess(p: FloatArray, index: IntArray) -> FloatArray:
        return np.asarray(rejected(means[index], p, level)[side])

    limit = np.full(means.estimate.shape, float(side))
    estimate = np.clip(means.estimate, 0.0, 1.0)
    inner = np.round(means.n * estimate) / means.n if means.fixed else estimate
    precision = _PRECISION * means.under(inner).error + (_QUARTER if means.fixed else _PRECISION) / means.n
    near, end = inverted(excess, inner, limit, precision, _ROUNDING)
    if means.fixed:
        # between two multiples of 1/n the test is that of the nearer one, so it turns halfway; the inner one is accepted
        end = np.where(near == end, end, np.rint(means.n * (near + end) / 2 + 0.5 - side) / means.n)
    # of the last two points, the outer one was taken, so that the interval is not too short
    return np.asarray(np.maximum(end, estimate) if side else np.minimum(end, estimate))


def _lower_share(p: FloatArray, error: FloatArray, level: float) -> FloatArray:
    """Share of the error probability that estimates below p have."""
    distances, shares = _split(level)
    low = np.interp(p / error, distances, shares)
    high = np.interp((1 - p) / error, distances, shares)
    # where standard errors are far larger than 1 both distances are 0; then p itself is the split, which is 0 at 0 and 1 at 1
    return np.divide(low, low + high, out=np.array(p, dtype=np.float64), where=low + high > 0)


@lru_cache(maxsize=64)
def _split(level: float) -> tuple[FloatArray, FloatArray]:
    """Distances d from 0 in standard errors, and the lower side's share of the level there."""
    far = -float(ndtri(level / 2))
    distances = np.linspace(0.0, far, _DISTANCES)

    def excess(upper_end: FloatArray, index: IntArray) -> FloatArray:
        d = distances[1:][index]
        lower = np.where(upper_end <= d, -upper_end, -(upper_end**2 + d**2) / (2 * d))
        return np.asarray(ndtr(-upper_end) + ndtr(lower) - level)

    start = np.zeros(_DISTANCES - 1)
    ends = inverted(excess, start, start + far + 1, _SPLIT_PRECISION, 0.0)[0]
    return distances, np.append(0.0, 1 - ndtr(-ends) / level)
