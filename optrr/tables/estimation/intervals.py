"""Intervals by test inversion: the values of a statistic under which its estimate is not far out in a tail.

An interval of the form estimate ± z · standard error fails where the statistic has gradient 0 (independence, evenness), where
its standard error depends on its value, and where its estimate leans to one side. Here every value θ that the statistic can
have is tested: a table with that value is taken, the law of the estimate under it is computed, and θ belongs to the interval
unless the estimate lies in one of the law's tails of probability (1 − confidence)/2.
Which tables are taken is in :mod:`optrr.tables.estimation.paths`.

The law is that of a quadratic function of nearly normal proportions, T − θ = aᵀZ + ½(ZᵀHZ − tr HS), Z ~ (0, S), with

    variance          aᵀSa + ½ tr(HSHS)
    third cumulant    3 aᵀSHSa + tr(HSHSHS) + (third moment of the reports' influence)/n²

(Mathai & Provost, Quadratic Forms in Random Variables, 1992, §3.2), represented by the gamma law that has these three moments
(Pearson's type III). It is exact for the two limits that matter: normal where the gradient rules, and χ² where independence or
evenness holds and the noise is alike in all directions.

An estimate beyond the end of the statistic's range is taken as that end where the far limit is sought: no interval is then
empty or a point, and coverage at the end itself is above the confidence (97.5 % for 95 %).

Ends of intervals that invert a test: where a function turns negative on the way outwards from an estimate.

For one function, how far the end lies is not known beforehand, so that steps grow until one of them passes it; from there on a
root is enclosed (Brent, Algorithms for Minimization without Derivatives, 1973). Many functions, each with a known farthest
point, take their steps together by the method of Chandrupatla (Advances in Engineering Software 28, 1997, 145).

``scipy.optimize.elementwise.find_root`` does the same as the latter. To import it takes a sixth of the time of a whole estimate
of a small file, and every estimate with intervals would pay for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import copysign, inf, isnan, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, ndtr

from optrr.mechanisms.kernel import Kernel
from optrr.tables.distributions import norm
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


# Records added to every cell before the noise of cells is computed: a cell without reports is not known without error.
_ADDED = 0.5
# Below this skewness the gamma law and the normal law agree to five digits at any quantile in use.
_NO_SKEWNESS = 1e-3


@dataclass(frozen=True)
class EstimateLaw:
    """Mean, variance and third cumulant of an estimate."""

    mean: float
    variance: float
    third: float

    def below(self, value: float) -> float:
        """Probability of an estimate up to ``value``."""
        if not self.variance > 0:
            return float(value >= self.mean)
        deviation = sqrt(self.variance)
        skewness = self.third / deviation**3
        z = (value - self.mean) / deviation
        if abs(skewness) < _NO_SKEWNESS:
            return float(ndtr(z))
        shape = 4 / skewness**2
        # of a gamma variable with this shape, whose mean is its shape and whose deviation is the root
        quantile = max(shape + np.sign(skewness) * z * sqrt(shape), 0.0)
        return float(gammainc(shape, quantile) if skewness > 0 else gammaincc(shape, quantile))


@dataclass(frozen=True, eq=False)
class Sampling:
    """How estimates vary: n reports through a kernel of R cells, whose matrices are built once.

    ``sums`` (K, R) are the sums of cells that are estimated; the cells themselves, K = R, unless given.
    """

    kernel: Kernel
    n: int
    sums: FloatArray | None = None

    @cached_property
    def influence(self) -> FloatArray:
        """(R, K) what a report of each output contributes to each estimate."""
        if self.sums is None:
            return self.kernel.inverse()
        return np.stack(
            [self.kernel.solve_adjoint(each.reshape(self.kernel.sizes)).ravel() for each in self.sums], axis=1
        )

    def observed(self, table: FloatArray) -> FloatArray:
        """(R,) probabilities of the outputs under a table; what noise made negative in the table is cut off here."""
        expected = np.maximum(self.kernel.forward(table.reshape(self.kernel.sizes)).ravel(), 0.0)
        return np.asarray(expected / expected.sum())

    def covariance(self, observed: FloatArray, n: float | None = None) -> FloatArray:
        """(K, K) of the unbiased estimates where outputs have these probabilities."""
        mean = observed @ self.influence
        return np.asarray((self.influence.T * observed) @ self.influence - np.outer(mean, mean)) / (n or self.n)

    def padded(self, observed: FloatArray) -> FloatArray:
        """(R,) observed proportions with half a record more in every cell."""
        return np.asarray((observed * self.n + _ADDED) / (self.n + _ADDED * observed.size))

    def noise(self, observed: FloatArray) -> FloatArray:
        """(K, K) covariance of the unbiased estimates from observed proportions with half a record more in every cell."""
        return self.covariance(self.padded(observed))

    def law(self, mean: float, table: FloatArray, gradient: FloatArray, hessian: FloatArray) -> EstimateLaw:
        """Of a quadratic function of the estimates under a table, without its bias, from its derivatives (K,), (K, K) there."""
        observed = self.observed(table)
        covariance = self.covariance(observed)
        along, bent = covariance @ gradient, covariance @ hessian
        twice = bent @ bent
        influence = self.influence @ gradient
        influence = influence - observed @ influence
        return EstimateLaw(
            mean,
            float(gradient @ along + np.trace(twice) / 2),
            float(3 * along @ hessian @ along + np.sum(twice * bent.T) + observed @ influence**3 / self.n**2),
        )


class Path(ABC):
    """The law of a statistic's estimate for every value of the statistic.

    ``estimate`` is nearly unbiased, ``plug_in`` the statistic of the (perhaps projected) table, and ``range`` the smallest and
    largest value that the statistic can have.
    """

    estimate: float
    plug_in: float
    range: tuple[float, float]
    # how far the law's mean may be off where no estimate is unbiased; the limits are moved outwards by as much
    slack: float = 0.0

    @abstractmethod
    def law(self, value: float) -> EstimateLaw:
        """The law of the estimate where the statistic has this value, which lies in the range."""

    @property
    def value(self) -> float:
        """The estimate, cut to the range."""
        return float(np.clip(self.estimate, *self.range))

    def deviation(self) -> float:
        """The estimate's standard deviation where the statistic has the estimate's value."""
        return sqrt(max(self.law(self.value).variance, 0.0))


def interval(path: Path, confidence: float) -> tuple[float, float]:
    """Smallest and largest value of the statistic that its estimate does not reject."""
    tail = (1 - confidence) / 2
    return limit(path, tail, 0), limit(path, tail, 1)


def limit(path: Path, tail: float, side: int) -> float:
    """The smallest (side 0) or largest (side 1) value under which the estimate's tail on that side is at least ``tail``."""
    at_most = min(path.estimate, path.range[1]) - path.slack
    at_least = max(path.estimate, path.range[0]) + path.slack

    def excess(value: float) -> float:
        law = path.law(value)
        return (law.below(at_least) if side else 1 - law.below(at_most)) - tail

    # the first step ends near the limit where the law is normal
    reach = float(norm.isf(tail)) * path.deviation() or path.range[1] - path.range[0]
    return float(np.clip(invert(excess, path.value, reach if side else -reach, path.range[side]), *path.range))
