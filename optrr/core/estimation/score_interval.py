"""Intervals of proportions from their variance under the hypothesis (Wilson), and ends of intervals by inversion of a test.

An unbiased estimate x of a proportion p has some variance V(p) where the proportion is p. The interval holds every p with

    (x − p)² ≤ z² V(p),        V(p) = v₀ + v₁ p + v₂ p²,

whose ends are the roots of a quadratic equation (Wilson, JASA 22, 1927, 209). Two things are added to it.

- Noise may take x out of 0..1. It then counts as the end 0 or 1, and at the far end of the interval z²/(z + 3b/2)
  replaces z, with b the number of standard errors that x lies beyond the end. With d standard errors from the end to p,
  p is missed there only where x is d + (z²/d − z)·2/3 ≥ .966 z of them off, where an x inside is missed beyond z: at 95
  % in 2.9 % in place of 2.5 %.
- The skewness of x, third moment κ over V^(3/2), moves its quantiles by (z² − 1) κ/(6V) (Cornish and Fisher): x is moved back.

The estimate of a cell is a mean of weights g = P⁻¹ 1_cell, whose moments are those under the projected estimate, or under the
reports where these show more. An estimate of V errs with x, as their covariance is the third moment: V(p) = V + (κ/V)(p − x).
A cell of one attribute has a binomial number of own reports, whatever the other records are, and exact limits (Clopper and
Pearson, Biometrika 26, 1934, 404). Of given records the randomization alone is random; they are whole, so that ends are moved
outwards by half a record. Intervals contain the estimate moved into 0..1. Coverage: benchmarks/interval_coverage.py.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import copysign, inf, isnan

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from optrr.core.estimation.simplex import projection
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# Where a step does not reach the end, the next is this many times as long.
GROWTH = 1.5
# Ends of intervals are found to this fraction of a first step that ends near them where the law is normal.
LIMIT = 1e-3
# The least that an end is found to, for steps of a size near 0.
_LEAST = 1e-15
# The least variance at an end of 0..1, which estimates without noise are off by rounding.
_LEAST_VARIANCE = 1e-18
# How much a standard error beyond the range counts.
_BEYOND = 1.5
# A variance of one weight below this is rounding: weights are of order 1 or larger.
_NO_VARIANCE = 1e-11
# How much of the slope of V counts around given records: of 0, 1/4, 1/2 and 1, the one with which the intervals of all cells
# together cover best in the worst of 84 settings.
_GIVEN = 0.5


class _Untested(Exception):
    """A value on the way, or between two others, at which the function is NaN."""


def outward(start: float, step: float, growth: float, end: float) -> Iterator[float]:
    """Iterate over the start and points beyond it, the last being ``end``.

    Each step is ``growth`` > 1 times as long as the one before.

    ``step`` has the sign of the way to the end. Without an end in that direction, infinity, the points go on without
    end.
    """
    yield start
    while start != end:
        start = end if abs(step) >= abs(end - start) else start + step
        step *= growth
        yield start


def invert(  # noqa: PLR0913 (a function, the way, and how finely it is gone)
    function: Callable[[float], float],
    start: float,
    step: float,
    end: float,
    *,
    growth: float = GROWTH,
    precision: float = LIMIT,
) -> float:
    """Find where the function turns negative.

    Between the first two points of `outward` of which the second has a negative value.

    To ``precision`` steps, the function taken for continuous; its value is computed once at a point. The first of the two
    points where it is negative there, too. Infinite in the direction of the ``end`` where it is negative at no point after the
    start, or NaN before the end is found.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 (slow to import, and ends of many cells are searched without it)

    @cache
    def at(point: float) -> float:
        value = function(point)
        if isnan(value):
            raise _Untested
        return value

    try:
        for inside, outside in pairwise(outward(start, step, growth, end)):
            at(inside)
            if at(outside) < 0:
                xtol = precision * abs(step) + _LEAST
                return inside if at(inside) < 0 else float(brentq(at, inside, outside, xtol=xtol))
    except _Untested:
        pass
    return copysign(inf, (end - start) or step)


def wilson(
    estimate: FloatArray, variance: FloatArray, level: float, skew: FloatArray | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Compute intervals for estimates (B,) of proportions p.

    Their variances are Σ_k ``variance[k]`` p^k, (3, B).

    ``level`` is the probability of an error in all, and ``skew`` the third moment over the variance at the estimates.
    """
    z, inside = -float(ndtri(level / 2)), np.clip(estimate, 0.0, 1.0)
    moved = estimate - (z**2 - 1) / 6 * skew
    at, ends = np.clip(moved, 0.0, 1.0), []
    for side, beyond, at_end in ((-1, estimate - 1, variance.sum(axis=0)), (1, -estimate, variance[0])):
        error = np.sqrt(np.maximum(at_end, _LEAST_VARIANCE))
        square = (z**2 / (z + _BEYOND * np.maximum(beyond, 0.0) / error)) ** 2
        half, whole = at + square * variance[1] / 2, 1 - square * variance[2]
        # half² − whole (at² − square V(0)), without the difference of nearly equal squares
        here = variance[0] + at * (variance[1] + at * variance[2])
        root = np.sqrt(np.maximum(square * (here + square * (variance[1] ** 2 / 4 - variance[0] * variance[2])), 0.0))
        ends.append(np.clip((half + side * root) / whole, 0.0, 1.0))
    return np.minimum(ends[0], inside), np.maximum(ends[1], inside)


def cell_variances(kernel: Kernel, observed: FloatArray, fixed: bool = False) -> tuple[FloatArray, FloatArray]:
    """Compute variances (3, B) and skews (B,) of one record's estimates.

    One for each cell of a table, flat, as `wilson` needs them.

    ``observed`` may be a batch of tables, axes before the kernel's; ``fixed``: the records are given. Raises SingularMarginal
    where the mechanism hides an effect of the table.
    """
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).reshape(raw.shape)
    fitted = kernel.expected(share)
    second = np.maximum(kernel.solve_power(fitted, 2), kernel.solve_power(observed, 2))
    third = kernel.solve_power(fitted, 3)
    if fixed:
        variance, central = second - share, third - share * (3 * kernel.own_moment(2) - 2)
    else:
        variance, central = second - share**2, third - share * (3 * second - 2 * share**2)
    varies = variance > _NO_VARIANCE
    skew = np.divide(central, variance, out=np.zeros_like(raw), where=varies)
    # an empty cell without noise: V grows as the moment inside
    slope = np.where(varies, skew * (_GIVEN if fixed else 1.0), kernel.own_moment(2))
    variances = np.stack([np.maximum(variance - slope * share, 0.0), slope, np.zeros_like(raw)])
    return variances.reshape(3, -1), skew.ravel()


def cell_intervals(
    kernel: Kernel, observed: FloatArray, n: FloatArray | int, level: float, fixed: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Compute interval limits, (B,), for each cell of one or more tables.

    O(k Π r) by the kernel's transforms.

    ``n`` is the number of records, of all cells or of each, (B,); the rest as for `cell_variances`.
    """
    estimate, chances = kernel.solve(observed).ravel(), kernel.own_and_other
    if chances is not None and not fixed:
        own, other = (np.broadcast_to(each, observed.shape).ravel() for each in chances)
        return binomial(n * observed.ravel(), n, own, other, level)
    variances, skew = cell_variances(kernel, observed, fixed)
    lower, upper = wilson(estimate, variances / n, level, skew / n)
    if fixed:
        lower, upper = np.maximum(lower - 0.5 / n, 0.0), np.minimum(upper + 0.5 / n, 1.0)
    return lower, upper


def binomial(
    reports: FloatArray, n: FloatArray | int, own: FloatArray | float, other: FloatArray | float, level: float
) -> tuple[FloatArray, FloatArray]:
    """Compute exact binomial limits of cells' proportions from matching reports.

    A report is the cell's own with probability ``own`` from inside and ``other`` from outside.
    """
    # beyond the expectation at the ends 0 and 1, as for `wilson`
    chance, z = reports / n, -float(ndtri(level / 2))
    k = n * np.clip(chance, np.minimum(own, other), np.maximum(own, other))
    beyond = np.abs(chance - k / n) / np.sqrt(np.maximum(k / n * (1 - k / n) / n, _LEAST_VARIANCE))
    tail = ndtr(-(z**2) / (z + _BEYOND * beyond))
    least, most = (
        betaincinv(np.maximum(k, _LEAST), n - k + 1, tail),
        betaincinv(k + 1, np.maximum(n - k, _LEAST), 1 - tail),
    )
    ends = np.where(k > 0, least, 0.0), np.where(k < n, most, 1.0), k / n
    shares = np.clip([(end - other) / (own - other) for end in ends], 0.0, 1.0)
    return shares.min(axis=0), shares.max(axis=0)
