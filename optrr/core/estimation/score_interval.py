"""Confidence intervals by inverting a score test: all values of a parameter that a test of it does not reject.

The variance of the test is that under the hypothesis, as in Wilson's interval (JASA 22, 1927, 209). A hypothesis is judged by

    t = (estimate − θ)/σ(θ),    or by the normal deviate of an exact or skewed tail,

and by how far it lies from the ends of the parameter's range. Noise may take an estimate of a proportion below 0, and an
estimate that is too low then says nothing against a proportion of 0; equal halves of the error probability would waste one.
Outcomes are ordered by their likelihood ratio against the best value in the range (Feldman and Cousins, Physical Review D 57,
1998, 3873). For a normal estimate around θ, d = θ/σ₀ above the lower end, a deviation −t with t > d ranks as √(2dt − d²), and
likewise at the upper end. The p-value is the probability of all outcomes that rank no better than the one observed:

    p = Φ(−u) + Φ(−l),

u and l the deviations upwards and downwards of the observed rank (`p_value`). σ₀ is the standard error at the end itself: it is
the mechanism's part alone, so that d is infinite and p = 2 Φ(−|t|) without noise. Intervals are never empty and contain the
estimate moved into the range.

A cell of one attribute has a binomial number of own reports, whatever the other records are, and exact tails (Clopper and
Pearson, Biometrika 26, 1934, 404). The estimate of a cell of several attributes is a mean of weights g = P⁻¹ 1_cell, whose
moments depend on where the other records are: they are taken to be where the projected estimate has them, scaled to proportions
p and 1 − p. Skewness of the mean is removed by the cube root (Wilson and Hilferty, PNAS 17, 1931, 684).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import copysign, inf, isnan
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr, ndtri

from optrr.core.estimation.simplex import projection
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Values at points, (k,), of the functions of these positions, (k,).
Functions = Callable[[FloatArray, IntArray], FloatArray]

# Where a step does not reach the end, the next is this many times as long.
GROWTH = 1.5
# Ends of intervals are found to this fraction of a first step that ends near them where the law is normal.
LIMIT = 1e-3
# The least that an end is found to, for steps of a size near 0; the least standard error.
_LEAST = 1e-15


class _Untested(Exception):
    """A value on the way, or between two others, at which the function is NaN."""


def outward(start: float, step: float, growth: float, end: float) -> Iterator[float]:
    """The start and points beyond it, each step ``growth`` > 1 times as long as the one before; the last is the ``end``.

    ``step`` has the sign of the way to the end. Without an end in that direction, infinity, the points go on for ever.
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
    """Where the function turns negative, between the first two points `outward` of which the second has a negative value.

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


def inverted(functions: Functions, near: FloatArray, far: FloatArray, precision: float | FloatArray) -> FloatArray:
    """Brackets, (2, B), of where functions turn negative on the way from ``near`` to ``far``, (B,); nearer ends first.

    A bracket holds a change of sign and is at most the precision long. It is twice the far point where the function is not
    negative there or that is the near one, and else twice the near point where the function is not positive.
    """
    from scipy.optimize.elementwise import find_root  # noqa: PLC0415 (slow to import)

    everything = np.arange(near.size)
    at_near, at_far = functions(near, everything), functions(far, everything)
    out = np.tile(np.where((at_far >= 0) | (near == far), far, near), (2, 1))
    at = np.flatnonzero((at_far < 0) & (at_near > 0) & (near != far))
    if at.size:
        # in units of the precision, which is one for all
        steps = np.abs(far - near) / precision

        def point(x: FloatArray, k: IntArray) -> FloatArray:
            return np.where(x == steps[k], far[k], near[k] + (far[k] - near[k]) * (x / steps[k]))

        ends, tolerances = (np.zeros(at.size), steps[at]), {"xatol": 0.5, "fatol": 0}
        found = find_root(lambda x, k: functions(point(x, k), k), ends, args=(at,), tolerances=tolerances)
        out[:, at] = point(np.where(found.f_x == 0, found.x, np.sort(found.bracket, axis=0)), at)
    return out


def p_value(deviate: FloatArray, below: FloatArray, above: FloatArray) -> FloatArray:
    """Probability of outcomes that rank no better, for an estimate this many standard errors above the hypothesis.

    ``below`` and ``above`` are the distances of the hypothesis from the ends of the range, in standard errors at these ends.
    """
    size, room = np.abs(deviate), np.where(deviate > 0, above, below)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rank = np.where(size <= room, size, np.sqrt(room * (2 * size - room)))
        both = (np.where(rank <= d, rank, (rank**2 / d + d) / 2) for d in (above, below))
        return np.asarray(sum(ndtr(-each) for each in both))


class Items:
    """A data class whose arrays, and further items, have an entry for each of B sets: some of them are items, too."""

    def __getitem__(self, chosen: IntArray) -> Self:
        fields = vars(self).items()
        return type(self)(**{name: x[chosen] if isinstance(x, np.ndarray | Items) else x for name, x in fields})


@dataclass(frozen=True, eq=False)
class NullLaw(Items):
    """Estimates where the parameters are ``value``: their variances and third central moments, (B,) each."""

    value: FloatArray
    variance: FloatArray
    third: FloatArray

    @property
    def error(self) -> FloatArray:
        """Standard deviation."""
        return np.sqrt(self.variance)

    def deviate(self, estimate: FloatArray) -> FloatArray:
        """Standard normal deviates that have the tails of these estimates."""
        error = np.maximum(self.error, _LEAST)
        z, skewness = (estimate - self.value) / error, np.clip(self.third / error**3, -_MOST_SKEW, _MOST_SKEW)
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = 6 * (np.cbrt(np.maximum(1 + skewness * z / 2, 0.0)) - 1) / skewness + skewness / 6
        return np.asarray(np.where((np.abs(skewness) > _SYMMETRIC) & (np.abs(z) < _LARGEST), bent, z))


# Below this skewness the law is taken as normal; larger skewness than the second comes from few reports and is cut.
_SYMMETRIC, _MOST_SKEW = 1e-5, 1.0


@dataclass(frozen=True, eq=False)
class Means(Items, ABC):
    """B estimates of proportions, ``estimate`` (B,), from n records each; their law is known for any true proportion.

    ``fixed``: the records are given and only the randomization is random.
    """

    n: int
    fixed: bool
    estimate: FloatArray

    @abstractmethod
    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates where the proportions are p, (B,)."""

    def deviates(self, p: FloatArray) -> FloatArray:
        """Normal deviates of the estimates where the proportions are p.

        Given records are whole, so that an estimate half a record off the hypothesis does not deviate from it.
        """
        off = self.estimate - p
        whole = np.sign(off) * np.maximum(np.abs(off) - 0.5 / self.n, 0.0) if self.fixed else off
        return self.under(p).deviate(p + whole)


@dataclass(frozen=True, eq=False)
class Moments(Items):
    """Means of the second, third and fourth power of what the report of a record of each kind counts for a cell; (B,) each."""

    second: FloatArray
    third: FloatArray
    fourth: FloatArray

    @staticmethod
    def mixed(p: FloatArray, inside: "Moments", outside: "Moments") -> "Moments":
        """Of a record that is inside with probability p."""
        pairs = zip(vars(inside).values(), vars(outside).values(), strict=True)
        return Moments(*(p * one + (1 - p) * other for one, other in pairs))


@dataclass(frozen=True, eq=False)
class WeightedMeans(Means):
    """Means of weights with these moments for records inside the cell and outside it; ``seen`` is their mean square (B,)."""

    inside: Moments
    outside: Moments
    seen: FloatArray

    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates where the proportions are p, (B,)."""
        each = Moments.mixed(p, self.inside, self.outside)
        if self.fixed:
            variance, third = each.second - p, each.third - 3 * p * self.inside.second + 2 * p
            along = each.third - p * self.inside.second
        else:
            variance, third = each.second - p**2, each.third - 3 * p * each.second + 2 * p**3
            along = each.third - p * each.second
        varies, variance = variance > _NO_VARIANCE, np.maximum(variance, _NO_VARIANCE)
        # what the data show beyond the fit, regressed on the estimate; where it makes less, in a form that stays positive
        more = self.seen - each.second - along / variance * (self.estimate - p)
        moved = np.where(more > 0, variance + more, variance**2 / np.maximum(variance - more, variance))
        return NullLaw(p, np.where(varies, moved, _NO_VARIANCE) / self.n, third / self.n**2)


# A variance of one weight below this is rounding: weights are of order 1 or larger.
_NO_VARIANCE = 1e-14


@dataclass(frozen=True, eq=False)
class BinomialMeans(Means):
    """Cells of one attribute: proportions ``observed`` of own reports; chances of one from inside, ``own``, and outside."""

    observed: FloatArray
    own: FloatArray
    other: FloatArray

    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates where the proportions are p, (B,)."""
        chance, slope = p * self.own + (1 - p) * self.other, self.own - self.other
        variance = chance * (1 - chance) / slope**2 / self.n
        return NullLaw(p, variance, variance * (1 - 2 * chance) / slope / self.n)

    def deviates(self, p: FloatArray) -> FloatArray:
        """Of the exact tails, which both contain the number observed; 0 where both are above a half."""
        chance, k = np.clip(p * self.own + (1 - p) * self.other, 0.0, 1.0), self.n * self.observed
        upper = np.where(k > 0, betainc(np.maximum(k, _LEAST), self.n - k + 1, chance), 1.0)
        lower = np.where(k < self.n, betainc(np.maximum(self.n - k, _LEAST), k + 1, 1 - chance), 1.0)
        return np.asarray(np.sign(self.own - self.other) * (np.maximum(-ndtri(upper), 0) + np.minimum(ndtri(lower), 0)))


def cell_means(kernel: Kernel, observed: FloatArray, n: int, fixed: bool = False) -> Means:
    """Every cell of a table, flat, O(k Π r) by the kernel's own transforms.

    ``observed`` may be a batch of tables of n records each, axes before the kernel's; all their cells follow each other.

    Raises SingularMarginal where the mechanism hides an effect of the table.
    """
    raw = kernel.solve(observed)
    chances = kernel.own_and_other
    if chances is not None and not fixed:
        own, other = (np.broadcast_to(x, raw.shape).ravel() for x in chances)
        return BinomialMeans(n, fixed, raw.ravel(), np.broadcast_to(observed, raw.shape).ravel(), own, other)
    return weighted_means(kernel, observed, n, fixed)


def weighted_means(kernel: Kernel, observed: FloatArray, n: int, fixed: bool = False) -> WeightedMeans:
    """The same by the moments of weights alone."""
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells))
    fitted = kernel.expected(share.reshape(raw.shape))
    share = share.ravel()
    inside = [np.broadcast_to(kernel.own_moment(power), raw.shape).ravel() for power in _POWERS]
    # of the records outside, from all and those inside; of all where nobody is outside
    rest, whole = 1 - share, [kernel.solve_power(fitted, power).ravel() for power in _POWERS]
    pairs = zip(whole, inside, strict=True)
    outside = (np.divide(x - share * y, rest, out=x.copy(), where=rest > 0) for x, y in pairs)
    seen = kernel.solve_power(observed, 2).ravel()
    return WeightedMeans(n, fixed, raw.ravel(), Moments(*inside), Moments(*outside), seen)


_POWERS = (2, 3, 4)


def subset_mean(kernel: Kernel, observed: FloatArray, n: int, subset: FloatArray, fixed: bool = False) -> WeightedMeans:
    """The proportion of a subset of cells, given as a table of 0 and 1 that is neither: one, or one for each table of a batch.

    Raises SingularMarginal where the mechanism hides an effect of the table.
    """
    weights = kernel.solve_adjoint(subset)
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).reshape(raw.shape)

    def of(where: FloatArray) -> Moments:
        """Of the fitted tables within a subset, scaled to sum 1; even where the fit has nobody there."""
        part = share * where
        total = part.sum(axis=kernel.axes, keepdims=True)
        even = np.broadcast_to(where / where.sum(), part.shape).copy()
        sent = kernel.expected(np.divide(part, total, out=even, where=total > 0))
        return Moments(*(np.atleast_1d(np.sum(weights**power * sent, axis=kernel.axes)) for power in _POWERS))

    estimate = np.atleast_1d(np.sum(weights * observed, axis=kernel.axes))
    seen = np.atleast_1d(np.sum(weights**2 * observed, axis=kernel.axes))
    return WeightedMeans(n, fixed, estimate, of(subset), of(1 - subset), seen)


# Ends are this precise, in standard errors of the estimate and in records, and rounded outwards.
_PRECISION = 1e-4
# Normal deviates are cut here.
_LARGEST = 40.0
# Items whose ends are searched together.
_TOGETHER = 1 << 16


def end_errors(means: Means) -> FloatArray:
    """Standard errors (2, B) where the proportions are 0 and 1: what noise adds to an estimate that it may take out of 0..1."""
    return np.stack([means.under(np.full_like(means.estimate, end)).error for end in (0.0, 1.0)])


def excess(deviate: FloatArray, p: FloatArray, errors: FloatArray, level: float) -> FloatArray:
    """Two-sided normal deviate of the level less that of the p-value, nearly linear in p; negative: p is rejected."""
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = (np.where(error > 0, d / error, inf) for d, error in zip((p, 1 - p), errors, strict=True))
        deviates = ndtri(p_value(deviate, below, above) / 2)
    return np.asarray(np.maximum(deviates, -_LARGEST) - ndtri(level / 2))


def accepted(means: Means, p: FloatArray, level: float) -> NDArray[np.bool_]:
    """Whether "the proportions are p" is not rejected, (B,)."""
    return np.asarray(excess(means.deviates(p), p, end_errors(means), level) >= 0)


def score_intervals(means: Means, level: float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends, (B,), for an error probability of ``level`` in all."""
    estimate = np.clip(means.estimate, 0.0, 1.0)
    ends = np.empty((2, estimate.size))
    for start in range(0, estimate.size, _TOGETHER):
        at = np.arange(start, min(start + _TOGETHER, estimate.size))
        part = means[at]
        errors = end_errors(part)
        precision = _PRECISION * (part.under(estimate[at]).error + 1 / means.n)
        for side in (0, 1):

            def of(p: FloatArray, index: IntArray, part: Means = part, errors: FloatArray = errors) -> FloatArray:
                return excess(part[index].deviates(p), p, errors[:, index], level)

            # of the last two points, the outer one is taken, so that the interval is not too short
            ends[side, at] = inverted(of, estimate[at], np.full(at.size, float(side)), precision)[1]
    return np.minimum(ends[0], estimate), np.maximum(ends[1], estimate)
