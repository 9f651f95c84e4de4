"""Confidence intervals of shares by inverting a test: all p in [0, 1] at which "the share is p" is not rejected.

The test of one p compares the estimate with its law under p, so the interval has the variance of the hypothesis, not of the
data, as Wilson's (1927) has; for one attribute it is the exact binomial one.

Near 0 an estimate that is too low cannot be told from one of a share of 0, so an equal split of the error probability would
waste one half. It is split as Feldman and Cousins (Physical Review D 57, 1998, 3873) order outcomes: for an estimate that is
normal with standard deviation σ around p ≥ 0, an outcome counts by its likelihood against that of the best p ≥ 0. At a distance
d = p/σ from 0 the accepted outcomes p + σ (z₁, z₂) then have z₁ = −z₂ for z₂ ≤ d and z₁ = −(z₂² + d²)/(2d) beyond. All error
is on the upper side at d = 0 and it is halved from d = z on. Such intervals are never empty, always hold the estimate moved
into [0, 1], and shrink, but not to nothing, as the estimate goes below 0. The same holds near 1.

The unbiased estimate of the share of people in a set A of cells is a mean of weights, one for each report: θ̂ = Σ_v g_v λ̂_v with
g = P⁻¹ 1_A. A test of "the share is p" needs the law of that mean, which depends on where the *other* people are, inside A and
outside it. They are taken to be where a proper fit π̃ of the whole table has them, scaled to shares p and 1 − p, and the moments
that follow are then moved one step towards the data, along the line that keeps the mean at p:

    ψ̃ = ψ̂ − cov(ψ̂, θ̂)/var(θ̂) · (θ̂ − p),    ψ = the chance of a heavy report, E g², E g³.

This is the first step to the likeliest table with share p, which makes ψ̃ independent of θ̂ to first order: without it, an
estimate that is too high comes with a variance that is too low or too high, and intervals err on one side. A step that makes a
moment smaller than the fit has it is taken in a form that is the same to first order and stays positive. Where every person
outside A is alike for A (one attribute), it is exact. What happens if only the randomization is random (target "data") differs
in the covariances alone.

A report of the cell asked about weighs much, any other little; where a joint effect is nearly hidden, it is another that weighs
most. Where few such reports are expected, their number moves the mean in visible steps, so it is summed over, exactly, and the
rest of the sum is taken as normal around its regression on that number. With one attribute there is no rest and the tails are
those of the binomial law. Where many are expected, the mean has the law of a shifted gamma variable with its first three
moments (Pearson's type III), of second order and monotone everywhere. Both tails contain the observed value itself, so a test
that rejects below a level errs no more often than that.

The ends of these and of all other intervals that invert a test are where a function turns negative on the way outwards from an
estimate. For one function, how far the end lies is not known beforehand, so that steps grow until one of them passes it; from
there on a root is enclosed (Brent, Algorithms for Minimization without Derivatives, 1973). Many functions, each with a known
farthest point, take their steps together by the method of Chandrupatla (Advances in Engineering Software 28, 1997, 145).
``scipy.optimize.elementwise.find_root`` does the same as the latter. To import it takes a sixth of the time of a whole estimate
of a small file, and every estimate with intervals would pay for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import copysign, inf, isnan
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, ndtr, ndtri

from optrr.mechanisms.kernel import Kernel
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray, IntArray

# Values at points, (k,), of the functions of these positions, (k,).
Functions = Callable[[FloatArray, IntArray], FloatArray]

# Where a step does not reach the end, the next is this many times as long.
GROWTH = 1.5
# Ends of intervals are found to this share of a first step that ends near them where the law is normal.
LIMIT = 1e-3
# The least that an end is found to, for steps of a size near 0.
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


def inverted(
    functions: Functions, near: FloatArray, far: FloatArray, absolute: float | FloatArray, relative: float
) -> FloatArray:
    """Brackets, (2, B), of where functions turn negative on the way from ``near`` to ``far``, (B,); nearer ends first.

    A bracket holds a change of sign and is shorter than absolute + relative · |x|; a point where the function is 0 is one of
    length 0. It is twice the far point where the function is not negative there or that is the near one, and else twice the
    near point where the function is not positive. About ten evaluations of each function where it is smooth; at most about
    twice what halving takes. It need not be continuous.
    """
    everything = np.arange(near.size)
    at_near, at_far = functions(near, everything), functions(far, everything)
    out = np.tile(np.where((at_far >= 0) | (near == far), far, near), (2, 1))
    at = np.flatnonzero((at_far < 0) & (at_near > 0) & (near != far))
    absolute = np.broadcast_to(absolute, near.shape)
    a, b, fa, fb = near[at], far[at], at_near[at], at_far[at]
    t = np.full(at.size, 0.5)
    out[:, at] = a, b
    while at.size:
        x = a + t * (b - a)
        fx = functions(x, at)
        same = np.sign(fx) == np.sign(fa)
        c, fc = _chosen(same, a, b), _chosen(same, fa, fb)
        b, fb = _chosen(same, b, a), _chosen(same, fb, fa)
        a, fa = x, fx
        b = _chosen(fa == 0, a, b)
        shortest: FloatArray = absolute[at] + relative * np.abs(_chosen(np.abs(fa) < np.abs(fb), a, b))
        out[:, at] = a, b
        left = np.abs(b - a) > shortest
        at = at[left]
        a, b, c, fa, fb, fc = (values[left] for values in (a, b, c, fa, fb, fc))
        t = _step(a, b, c, fa, fb, fc, shortest[left])
    return np.where(np.abs(out[0] - near) <= np.abs(out[1] - near), out, out[::-1])


def _step(  # noqa: PLR0913 (three points and their values)
    a: FloatArray, b: FloatArray, c: FloatArray, fa: FloatArray, fb: FloatArray, fc: FloatArray, shortest: FloatArray
) -> FloatArray:
    """Which share of the way from a to b to go: by inverse quadratic interpolation where that is safe, else half."""
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        interpolated = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    least = 0.5 * shortest / np.abs(b - a)
    return np.asarray(np.clip(np.where(safe, interpolated, 0.5), least, 1 - least))


def _chosen(first: NDArray[np.bool_], one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.where(first, one, other), dtype=np.float64)


# A variance of one weight below this is 0: weights are of order 1 or larger, and a variance this small is their rounding.
_NO_VARIANCE = 1e-14


class Items:
    """A data class whose arrays, and further items, have an entry for each of B sets: some of them are items, too."""

    def __getitem__(self, chosen: IntArray) -> Self:
        fields = vars(self).items()
        return type(self)(**{name: x[chosen] if isinstance(x, np.ndarray | Items) else x for name, x in fields})


@dataclass(frozen=True, eq=False)
class Moments(Items):
    """Of one person's report on each of B sets: the chance that it is heavy, E[weight; heavy], E g², E g³, E g⁴; (B,) each.

    A heavy report is one of the few that say "in the set": for one cell, those that count most for it, mostly the cell itself.
    """

    heavy: FloatArray
    heavy_weight: FloatArray
    second: FloatArray
    third: FloatArray
    fourth: FloatArray

    @staticmethod
    def mixed(p: FloatArray, inside: Moments, outside: Moments) -> Moments:
        """Of a person who is inside with probability p."""
        pairs = zip(vars(inside).values(), vars(outside).values(), strict=True)
        return Moments(*(p * one + (1 - p) * other for one, other in pairs))


@dataclass(frozen=True, eq=False)
class Bounds(Items):
    """Least and largest chance of a heavy report and mean squared weight over all cells a person can be in; (B,) each."""

    least_heavy: FloatArray
    most_heavy: FloatArray
    least_second: FloatArray
    most_second: FloatArray


@dataclass(frozen=True, eq=False)
class NullLaw(Items):
    """The mean of n weights if the share is ``share``: moments of one weight, and the number of heavy reports.

    ``variance`` and ``third`` are central; the number of heavy reports has mean n ``heavy`` and variance n ``heavy_variance``
    and is the sum of two binomials: ``certain`` people report so with chance ``inside_heavy``, the others with
    ``outside_heavy``. ``covariance`` is that of one weight with being heavy.
    """

    n: int
    share: FloatArray
    variance: FloatArray
    third: FloatArray
    heavy: FloatArray
    heavy_variance: FloatArray
    covariance: FloatArray
    certain: FloatArray
    inside_heavy: FloatArray
    outside_heavy: FloatArray

    @property
    def error(self) -> FloatArray:
        """Standard deviation of the mean."""
        return np.asarray(np.sqrt(self.variance / self.n))


@dataclass(frozen=True, eq=False)
class Means(Items, ABC):
    """B estimated shares, ``estimate`` (B,), each of which has a law under any value of it.

    ``fixed``: the records are given and only the randomization is random.
    """

    n: int
    fixed: bool
    estimate: FloatArray

    @abstractmethod
    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates if the shares are p, (B,)."""


@dataclass(frozen=True, eq=False)
class WeightedMeans(Means):
    """Means of weights: the reports' moments as ``seen``, and those of people ``inside`` and ``outside``."""

    seen: Moments
    inside: Moments
    outside: Moments
    bounds: Bounds

    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates if the shares are p, (B,)."""
        if self.fixed:
            # records are whole, so a share of them is a multiple of 1/n
            p = np.round(self.n * p) / self.n
        start = Moments.mixed(p, self.inside, self.outside)
        moved = self._moved(p, start)
        h, hin = moved.heavy, self.inside.heavy
        others = np.clip(np.divide(h - p * hin, 1 - p, out=h.copy(), where=p < 1), 0.0, 1.0)
        if self.fixed:
            variance, third = moved.second - p, moved.third - 3 * p * self.inside.second + 2 * p
            spread = p * hin * (1 - hin) + (1 - p) * others * (1 - others)
            covariance, certain = moved.heavy_weight - p * hin, self.n * p
        else:
            variance, third = moved.second - p**2, moved.third - 3 * p * moved.second + 2 * p**3
            # rounding may leave a chance beyond 1
            spread, others = h * np.maximum(1 - h, 0.0), h
            covariance, certain = moved.heavy_weight - p * h, np.zeros_like(p)
        variance = np.maximum(variance, _NO_VARIANCE)
        return NullLaw(self.n, p, variance, third, h, spread, covariance, certain, hin, others)

    def _moved(self, p: FloatArray, start: Moments) -> Moments:
        """One step towards the data, within what people who are p inside and 1 − p outside can have."""
        variance = start.second - (p if self.fixed else p**2)
        # where next to nothing varies, an estimate that is off is next to impossible, and the data move nothing
        varies = variance > _NO_VARIANCE
        off = np.divide(self.estimate - p, variance, out=np.zeros_like(p), where=varies)

        def step(seen: FloatArray, before: FloatArray, inside: FloatArray, with_weight: FloatArray) -> FloatArray:
            change = seen - before - (with_weight - p * (inside if self.fixed else before)) * off
            change = np.where(varies, change, 0.0)
            # right to first order; where it makes less of what the fit has, in a form that stays positive
            less = np.divide(before**2, before - change, out=np.zeros_like(before), where=(change < 0) & (before > 0))
            return np.where((change < 0) & (before > 0), less, before + change)

        own, b = self.inside, self.bounds
        heavy = step(self.seen.heavy, start.heavy, own.heavy, start.heavy_weight)
        second = step(self.seen.second, start.second, own.second, start.third)
        heavy = np.clip(heavy, p * own.heavy + (1 - p) * b.least_heavy, p * own.heavy + (1 - p) * b.most_heavy)
        second = np.clip(second, p * own.second + (1 - p) * b.least_second, p * own.second + (1 - p) * b.most_second)
        each = np.divide(start.heavy_weight, start.heavy, out=np.zeros_like(p), where=start.heavy > 0)
        third = step(self.seen.third, start.third, own.third, start.fourth)
        return Moments(heavy, each * heavy, second, third, start.fourth)


def cell_means(kernel: Kernel, observed: FloatArray, n: int, fixed: bool = False) -> WeightedMeans:
    """Every cell of a table, flat, O(k Π r) by the kernel's own transforms: what a report weighs depends on the cell.

    ``observed`` may be a batch of tables of n records each, axes before the kernel's; all their cells follow each other.

    Raises SingularMarginal where the mechanism hides an effect of the table.
    """
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).ravel()
    fitted = kernel.expected(share.reshape(raw.shape))
    shape, weight, chances = raw.shape, kernel.heavy_weights, kernel.heavy_chances
    own = {power: kernel.weight_moments(power) for power in (2, 3, 4)}

    def flat(x: FloatArray) -> FloatArray:
        return np.broadcast_to(x, shape).ravel()

    def of(outputs: FloatArray) -> Moments:
        powers = (kernel.solve_power(outputs, power).ravel() for power in (2, 3, 4))
        heavy = kernel.heavy(outputs)
        return Moments(heavy.ravel(), (weight * heavy).ravel(), *powers)

    inside = Moments(*map(flat, (chances.own, weight * chances.own, *(own[power].own for power in (2, 3, 4)))))
    bounds = Bounds(*map(flat, (chances.least, chances.most, own[2].least, own[2].most)))
    # of the people outside, from all and the share inside; of all where nobody is outside
    rest, whole = 1 - share, vars(of(fitted)).values()
    pairs = zip(whole, vars(inside).values(), strict=True)
    outside = Moments(*(np.divide(x - share * y, rest, out=x.copy(), where=rest > 0) for x, y in pairs))
    return WeightedMeans(n, fixed, raw.ravel(), of(observed), inside, outside, bounds)


def subset_mean(kernel: Kernel, observed: FloatArray, n: int, subset: FloatArray, fixed: bool = False) -> WeightedMeans:
    """The share of a subset of cells, given as a table of 0 and 1 that is neither: one item, or one for each table of a batch.

    Reports that weigh more than halfway between the least and the largest weight are the heavy ones.

    Raises SingularMarginal where the mechanism hides an effect of the table.
    """
    weights = kernel.solve_adjoint(subset)
    heavy = weights > (weights.min() + weights.max()) / 2
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).reshape(raw.shape)
    functions = (heavy.astype(np.float64), heavy * weights, weights**2, weights**3, weights**4)

    def mean(of_report: FloatArray, outputs: FloatArray) -> FloatArray:
        return np.atleast_1d(np.sum(of_report * outputs, axis=kernel.axes))

    def of(outputs: FloatArray) -> Moments:
        return Moments(*(mean(f, outputs) for f in functions))

    def within(where: FloatArray) -> FloatArray:
        """The fitted tables within a subset, scaled to sum 1; even where the fit has nobody there."""
        part = share * where
        total = part.sum(axis=kernel.axes, keepdims=True)
        even = np.broadcast_to(where / where.sum(), part.shape).copy()
        return np.asarray(np.divide(part, total, out=even, where=total > 0))

    chances, squares = kernel.adjoint(functions[0]), kernel.adjoint(functions[2])
    estimate = mean(weights, observed)
    ends = (chances.min(), chances.max(), squares.min(), squares.max())
    bounds = Bounds(*(np.full(estimate.shape, x) for x in ends))
    inside, outside = (of(kernel.expected(within(where))) for where in (subset, 1 - subset))
    return WeightedMeans(n, fixed, estimate, of(observed), inside, outside, bounds)


# Variance of the number of heavy reports from which steps are not felt: one step then holds at most 4 % of the law, and at two
# standard deviations half a per cent.
_SMOOTH = 100.0
# Standard deviations of that number on each side that are summed over, and reports beyond: what is left out is below 1e-12.
_REACH, _BEYOND = 8.0, 8
# Lengths of the sums; powers of two for the transform.
_LENGTHS = (32, 64, 128, 256)
# A rest whose variance is this small against the whole is rounding.
_NO_REST = 1e-10
# Two sums closer than this share of one heavy report's effect are equal.
_EQUAL = 1e-6
# Below this skewness the gamma law is the normal one to six digits.
_SYMMETRIC = 1e-5
# The largest skewness that a law of these means has; larger estimates come from third moments of few reports and are cut.
_MOST_SKEW = 1.0


def tails(law: NullLaw, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pr(mean ≥ value) and Pr(mean ≤ value), (B,) each."""
    spread = law.n * law.heavy_variance
    upper, lower = _smooth_tails(law, value)
    lengths = np.searchsorted(_LENGTHS, 2 * (_REACH * np.sqrt(np.minimum(spread, _SMOOTH)) + _BEYOND))
    stepped = (spread <= _SMOOTH) & (spread > 0)
    for k, length in enumerate(_LENGTHS):
        chosen = np.flatnonzero(stepped & (lengths == k))
        if chosen.size:
            upper[chosen], lower[chosen] = _stepped_tails(law[chosen], value[chosen], length)
    return upper, lower


def _smooth_tails(law: NullLaw, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    z = (value - law.share) / law.error
    skew = np.clip(law.third / law.variance**1.5 / np.sqrt(law.n), -_MOST_SKEW, _MOST_SKEW)
    size = np.maximum(np.abs(skew), _SYMMETRIC)
    shape = 4 / size**2
    # turned so that the long tail is the upper one
    at = np.maximum(shape + 2 / size * np.where(skew < 0, -z, z), 0.0)
    beyond, short = gammaincc(shape, at), gammainc(shape, at)
    return np.where(skew < 0, short, beyond), np.where(skew < 0, beyond, short)


def _stepped_tails(law: NullLaw, value: FloatArray, length: int) -> tuple[FloatArray, FloatArray]:
    numbers, chances = _heavy_reports(law, length)
    slope = law.covariance / law.heavy_variance
    rest = law.n * (law.variance - law.covariance * slope)
    # what the rest of the sum must reach, beyond the mean that the number of heavy reports gives it
    needed = law.n * (value - law.share)[:, None] - slope[:, None] * (numbers - law.n * law.heavy[:, None])
    alone = (rest <= _NO_REST * law.n * law.variance)[:, None]
    z = needed / np.sqrt(np.where(alone[:, 0], 1.0, rest))[:, None]
    equal = _EQUAL * np.abs(slope)[:, None]
    above = np.where(alone, needed <= equal, ndtr(-z))
    below = np.where(alone, needed >= -equal, ndtr(z))
    return np.sum(chances * above, axis=1), np.sum(chances * below, axis=1)


def _heavy_reports(law: NullLaw, length: int) -> tuple[IntArray, FloatArray]:
    """Numbers of heavy reports around the mean and their chances, (B, length): two binomials, by their transform."""
    first = np.rint(law.n * law.heavy).astype(np.int64) - length // 2
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    size, turn = _turned(law.outside_heavy, law.n - law.certain, angles)
    if law.certain.any():
        more, further = _turned(law.inside_heavy, law.certain, angles)
        size, turn = size + more, turn + further
    shifted = np.exp(size - 1j * (turn - first[:, None] * angles))
    chances = np.maximum(np.fft.irfft(shifted, length, axis=1), 0.0)
    return first[:, None] + np.arange(length), chances


def _turned(chance: FloatArray, people: FloatArray, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm and angle of (1 − c + c e^{is})^people, the transform of a binomial number, (B, angles)."""
    c, m = chance[:, None], people[:, None]
    with np.errstate(divide="ignore"):
        size = np.log1p(np.maximum(-2 * c * (1 - c) * (1 - np.cos(angles)), -1.0)) / 2
    # with nobody in the group the number is 0, whatever the chance
    size = np.where(m > 0, size, 0.0)
    return m * size, m * np.arctan2(c * np.sin(angles), 1 - c + c * np.cos(angles))


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


def score_intervals(means: Means, level: float) -> tuple[FloatArray, FloatArray]:
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


def rejected(means: Means, p: FloatArray, level: float) -> FloatArray:
    """Logarithm of both tails over their levels if the shares are p, (2, B), upper tail first; below 0 is rejected."""
    law = means.under(p)
    upper, lower = tails(law, means.estimate)
    share = share_below(law.share, law.error, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.log(upper) - np.log(level * (1 - share))
        below = np.log(lower) - np.log(level * share)
    # a side without error probability never rejects
    both = np.stack([np.where(share < 1, above, np.inf), np.where(share > 0, below, np.inf)])
    return np.asarray(np.clip(np.nan_to_num(both, nan=_LOWEST), _LOWEST, -_LOWEST))


def share_below(p: FloatArray, error: FloatArray, level: float) -> FloatArray:
    """Of the error probability ``level``, the part of estimates that are too low for p ∈ [0, 1], of these standard errors."""
    distances, shares = _split(level)
    low, high = (np.interp(each / error, distances, shares) for each in (p, 1 - p))
    # where standard errors are far larger than 1 both distances are 0, and then p itself is the split, 0 at 0 and 1 at 1
    return np.asarray(np.divide(low, low + high, out=p.copy(), where=low + high > 0))


def _end(means: Means, level: float, side: int) -> FloatArray:
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
