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
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from optrr.mechanisms.kernel import Kernel
from optrr.tables.distributions import norm
from optrr.tables.estimation.invert import invert
from optrr_solvers.arrays import FloatArray

# Records added to every cell before the noise of cells is computed: a cell without reports is not known without error.
_ADDED = 0.5
# Below this skewness the gamma law and the normal law agree to five digits at any quantile in use.
_NO_SKEWNESS = 1e-3


@dataclass(frozen=True)
class Law:
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

    def law(self, mean: float, table: FloatArray, gradient: FloatArray, hessian: FloatArray) -> Law:
        """Of a quadratic function of the estimates under a table, without its bias, from its derivatives (K,), (K, K) there."""
        observed = self.observed(table)
        covariance = self.covariance(observed)
        along, bent = covariance @ gradient, covariance @ hessian
        twice = bent @ bent
        influence = self.influence @ gradient
        influence = influence - observed @ influence
        return Law(
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
    def law(self, value: float) -> Law:
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
