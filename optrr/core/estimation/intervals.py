"""Intervals by test inversion: the values of a statistic under which its estimate is not far out in a tail.

An interval of the form estimate ± z · standard error fails where the statistic has gradient 0 (independence, evenness), where
its standard error depends on its value, and where its estimate leans to one side. Here every value θ that the statistic can
have is tested: a table with that value is taken, the law of the estimate under it is computed, and θ belongs to the interval
unless the estimate lies in one of the law's tails of probability (1 − confidence)/2.

The law is that of a quadratic function of nearly normal proportions, T − θ = aᵀZ + ½(ZᵀHZ − tr HS), Z ~ (0, S), with

    variance          aᵀSa + ½ tr(HSHS)
    third cumulant    3 aᵀSHSa + tr(HSHSHS) + (third moment of the reports' influence)/n²

(Mathai & Provost, Quadratic Forms in Random Variables, 1992, §3.2), represented by the gamma law that has these three moments
(Pearson's type III). It is exact for the two limits that matter: normal where the gradient rules, and χ² where independence or
evenness holds and the noise is alike in all directions.

An estimate beyond the end of the statistic's range is taken as that end where the far limit is sought: no interval is then
empty or a point, and coverage at the end itself is above the confidence (97.5 % for 95 %).

Each value θ of a statistic is tested at one table that has it:

    φ² (hence χ², V)     all departures from independence are scaled alike until φ² = θ
    correlation          a multiple of the independent table times both standardised scores is added
    entropy              all departures from the even table are scaled, and the result projected to the simplex
    mutual information   all departures from the independent table with the same margins are scaled, and projected

φ² divides by margins, and an estimate T of it that is too small goes with margins that are too large. Noise that makes
the difference has on average moved the table by (T − θ) S∇g/Var T, which is taken back before departures are scaled (a
least favourable family: DiCiccio & Efron, Statistical Science 11, 1996, §8), so that the margins, on which the law
depends, move along with θ. The same is done for entropy and mutual information: scaled departures alone would move the
margins as far as the cells, though the data know margins far better. On Adult's sex × income at ε 0.5, 20,000 records,
deviations of the entropy's law at the truth were then a half to one and a half times the right one, by what noise had
made of the table, and 6 % of lower limits missed.

φ² and the correlation are taken at the unbiased estimate, less ½ tr(Hessian · estimated covariance). That makes them
U-statistics up to third order, so that no fourth moments enter their variance. Entropy and mutual information are sums of
x ln x over cells and margins, each estimated by :mod:`optrr.core.estimation.statistics`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain, pairwise
from math import log, prod, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, ndtr, xlogy

from optrr.core.estimation import statistics
from optrr.core.estimation.distributions import norm
from optrr.core.estimation.score_interval import invert, outward
from optrr.core.estimation.simplex import projection
from optrr.core.estimation.table import Sampling
from optrr_solvers.arrays import FloatArray

# Below this skewness the gamma law and the normal law agree to five digits at any quantile in use.
_NO_SKEWNESS = 1e-3


@dataclass(frozen=True)
class EstimateLaw:
    """Mean, variance and third cumulant of an estimate."""

    mean: float
    variance: float
    third: float

    def below(self, value: float) -> float:
        """Compute the probability of an estimate up to ``value``."""
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


def law_at(
    sampling: Sampling, mean: float, table: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> EstimateLaw:
    """Approximate the distribution of a quadratic function of the estimates.

    Under a table, without its bias, from its derivatives (K,), (K, K) there.
    """
    observed = sampling.expected(table)
    covariance = sampling.covariance(observed)
    along, bent = covariance @ gradient, covariance @ hessian
    twice = bent @ bent
    return EstimateLaw(
        mean,
        float(gradient @ along + np.trace(twice) / 2),
        float(3 * along @ hessian @ along + np.sum(twice * bent.T)) + sampling.third(observed, gradient),
    )


class TracedPath(ABC):
    """The distribution of a statistic's estimate at each value of the statistic.

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
        """Approximate the estimate's distribution at this value of the statistic.

        The value lies in the range.
        """

    @property
    def value(self) -> float:
        """The estimate, cut to the range."""
        return float(np.clip(self.estimate, *self.range))

    def deviation(self) -> float:
        """Compute the estimate's standard deviation at the estimated value."""
        return sqrt(max(self.law(self.value).variance, 0.0))


def interval(path: TracedPath, confidence: float) -> tuple[float, float]:
    """Find the smallest and largest value that the estimate does not reject."""
    tail = (1 - confidence) / 2
    return limit(path, tail, 0), limit(path, tail, 1)


def limit(path: TracedPath, tail: float, side: int) -> float:
    """Find the smallest (side 0) or largest (side 1) value not rejected.

    The estimate's tail on that side is at least ``tail``.
    """
    at_most = min(path.estimate, path.range[1]) - path.slack
    at_least = max(path.estimate, path.range[0]) + path.slack

    def excess(value: float) -> float:
        law = path.law(value)
        return (law.below(at_least) if side else 1 - law.below(at_most)) - tail

    # the first step ends near the limit where the law is normal
    reach = float(norm.isf(tail)) * path.deviation() or path.range[1] - path.range[0]
    return float(np.clip(invert(excess, path.value, reach if side else -reach, path.range[side]), *path.range))


# The table is moved by at most this many standard errors of the estimate. No limit lies farther away, and farther away the
# first-order formula does not hold.
_FARTHEST = 3.0
# Smallest part of its estimate to which a category's proportion may fall on the way.
_LEAST_SHARE = 0.25
# Sums this many standard errors above 0 have their x ln x estimated without bias. Elsewhere biases are up to BIAS standard
# errors. A law's mean has those of its table; in the true one they may differ by as much, to either side, and are added as
# errors are.
_FAINT = 6.0
# Largest proportion that is 0 up to rounding.
NOBODY = 1e-14
# Share of the even table that a table without departures gets at most.
_MOST_EVEN = 0.5
# Scales are found to this precision: the law varies slowly with them, and its mean is the value itself.
_SCALE = 1e-4
_LARGEST_SCALE = 2.0**14


class _Moved:
    """Tables moved in the direction of the noise that explains a difference.

    The difference is between estimate and value.
    """

    def __init__(self, sampling: Sampling, table: FloatArray, gradient: FloatArray, law: EstimateLaw) -> None:
        along = sampling.influence.T @ sampling.spread(sampling.expected(table), sampling.influence @ gradient)
        self._table, self._deviation = table, np.sqrt(law.variance)
        self._direction = along.reshape(table.shape) / self._deviation if law.variance > 0 else 0 * table

    def table(self, difference: float) -> FloatArray:
        """Move by the value less the estimate."""
        errors = difference / self._deviation if self._deviation > 0 else 0.0
        return np.asarray(self._table + float(np.clip(errors, -_FARTHEST, _FARTHEST)) * self._direction)


class PhiSquared(TracedPath):
    """φ² of a table, or its part over the cells of clear categories."""

    def __init__(self, sampling: Sampling, observed: FloatArray, table: FloatArray, cells: NDArray[np.bool_]) -> None:
        self._sampling, self._table, self._cells = sampling, table, cells
        expansion = statistics.phi_squared(table, self._cells)
        self.plug_in = expansion.value
        self.estimate = expansion.value - expansion.bias(sampling.covariance(observed) * sampling.n / (sampling.n - 1))
        self.range = (0.0, min(table.shape) - 1.0)
        centre = self._scaled(table, self.value)
        there = statistics.phi_squared(centre, self._cells)
        law = law_at(sampling, self.value, centre, there.gradient, there.hessian)
        self._moved = _Moved(sampling, table, there.gradient, law)

    def law(self, value: float) -> EstimateLaw:
        """Approximate the distribution at a table with this sum of squared departures."""
        table = self._scaled(self._moved.table(value - self.value), value)
        expansion = statistics.phi_squared(table, self._cells)
        return law_at(self._sampling, value, table, expansion.gradient, expansion.hessian)

    def _scaled(self, table: FloatArray, value: float) -> FloatArray:
        # margins nowhere fall far below their estimates
        least = (_LEAST_SHARE * np.maximum(self._table.sum(axis=k), 0.0) for k in (1, 0))
        kept = [np.maximum(table.sum(axis=k), share) for k, share in zip((1, 0), least, strict=True)]
        independent = np.outer(kept[0] / kept[0].sum(), kept[1] / kept[1].sum())
        departure = table - np.outer(table.sum(axis=1), table.sum(axis=0))
        if not departure.any():
            departure = _along_ranks(independent)
        size = statistics.phi_squared(independent + departure, self._cells).value
        return np.asarray(independent + np.sqrt(value / size) * departure if size > 0 else independent)


class Correlation(TracedPath):
    """Pearson's correlation of a table whose scores have positive variances."""

    def __init__(
        self, sampling: Sampling, observed: FloatArray, table: FloatArray, scores: tuple[FloatArray, FloatArray]
    ) -> None:
        self._sampling, self._table, self._scores = sampling, table, scores
        expansion = statistics.pearson_correlation(table, scores)
        self.plug_in = expansion.value
        self.estimate = expansion.value - expansion.bias(sampling.covariance(observed) * sampling.n / (sampling.n - 1))
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        self._direction = np.outer(_standardised(rows, scores[0]), _standardised(columns, scores[1]))
        self.range = (-1.0, 1.0)

    def law(self, value: float) -> EstimateLaw:
        """Approximate the distribution at a table with this correlation.

        The estimated table is moved along both scores.
        """
        table = self._table + (value - self.plug_in) * self._direction
        expansion = statistics.pearson_correlation(table, self._scores)
        return law_at(self._sampling, value, table, expansion.gradient, expansion.hessian)


def _along_ranks(independent: FloatArray) -> FloatArray:
    """Return a departure from independence that keeps the margins.

    For estimates that show none.
    """
    rows, columns = independent.sum(axis=1), independent.sum(axis=0)
    return np.asarray(
        np.outer(_standardised(rows, np.arange(rows.size)), _standardised(columns, np.arange(columns.size)))
    )


def _standardised(margin: FloatArray, scores: FloatArray) -> FloatArray:
    """Standardize scores and multiply by the margin; 0 if they do not vary."""
    centred = scores - margin @ scores
    variance = margin @ centred**2
    return np.asarray(margin * centred / np.sqrt(variance) if variance > 0 else np.zeros_like(margin))


class _Logarithms(TracedPath):
    """Σ_k w_k x_k ln x_k in nats, x = Lπ sums of cells, w their signs."""

    def __init__(self, sampling: Sampling, observed: FloatArray, sums: FloatArray, signs: FloatArray) -> None:
        self._sampling, self._sums, self._signs = sampling, sums, signs
        covariance = sampling.noise(observed)
        self._errors = np.sqrt(np.einsum("ij,jk,ik->i", sums, covariance, sums, optimize=True))
        raw = sampling.kernel.solve(observed.reshape(sampling.kernel.sizes)).ravel()
        noisy = sums @ raw
        self.estimate = self._combined(statistics.debiased(noisy / self._errors), noisy)
        proper = projection(raw)
        self.plug_in = self._exact(proper)
        proper = self._with_departures(proper)
        self._table = proper
        centre = self._scaled(proper, self.value)
        self._moved = _Moved(sampling, proper, self._derivatives(centre)[0], self._law_at(self.value, centre))
        faint = sums @ centre < _FAINT * self._errors
        self.slack = statistics.BIAS * float(np.sqrt(np.sum(self._errors[faint] ** 2)))

    @abstractmethod
    def _least(self, table: FloatArray) -> FloatArray:
        """Return the table of least value, (R,), the origin of departures."""

    def _with_departures(self, table: FloatArray) -> FloatArray:
        """Return the table (R,), or a nearby one if it has no departures."""
        return table

    @abstractmethod
    def _some_departure(self, least: FloatArray) -> FloatArray:
        """Return a departure (R,) for estimates that show none."""

    def law(self, value: float) -> EstimateLaw:
        """Approximate the distribution at the table scaled to the value."""
        return self._law_at(value, self._scaled(projection(self._moved.table(value - self.value)), value))

    def _law_at(self, value: float, table: FloatArray) -> EstimateLaw:
        """Approximate the distribution with the estimate's mean under the table.

        If many unclear sums are alike, their biases add up.
        """
        x = self._sums @ table
        bias = self._combined(statistics.smoothed(x / self._errors), x) - self._exact(table)
        return law_at(self._sampling, value + bias, table, *self._derivatives(table))

    def _derivatives(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Differentiate the mean over the noise by a Hermite expansion."""
        y = self._sums @ table / self._errors
        slope = self._signs * (statistics.smoothed(y, 1) + np.log(self._errors))
        bend = self._signs * statistics.smoothed(y, 2) / self._errors
        return self._sums.T @ slope, (self._sums.T * bend) @ self._sums

    def _exact(self, table: FloatArray) -> float:
        x = self._sums @ table
        return float(self._signs @ xlogy(x, x))

    def _combined(self, of_unit: FloatArray, x: FloatArray) -> float:
        """Combine Σ w x ln x from y ln y, or its replacement, with y = x/s."""
        return float(self._signs @ (self._errors * of_unit + x * np.log(self._errors)))

    def _scaled(self, table: FloatArray, value: float) -> FloatArray:
        """Scale departures on the simplex to the value, or to its maximum."""
        least = self._least(table)
        departure = table - least
        if not departure.any():
            departure = self._some_departure(least)

        def at(scale: float) -> FloatArray:
            moved = least + scale * departure
            return moved if moved.min() >= 0 else projection(moved)

        def excess(scale: float) -> float:
            return self._exact(at(scale)) - value

        if excess(0.0) >= 0:
            return at(0.0)
        from scipy.optimize import brentq  # noqa: PLC0415 (slow to import, and tables need none of it)

        for low, high in pairwise(chain([0.0], outward(1.0, 1.0, 2.0, _LARGEST_SCALE))):
            if excess(high) >= 0:
                return at(float(brentq(excess, low, high, xtol=_SCALE * high)))
            if high > 1 and excess(high) <= excess(low):
                break
        return at(high)


class NegativeEntropy(_Logarithms):
    """Negative entropy −H of a table in nats, traced along departures."""

    def __init__(self, sampling: Sampling, observed: FloatArray) -> None:
        cells = observed.size
        self.range = (-log(cells), 0.0)
        super().__init__(sampling, observed, np.eye(cells), np.ones(cells))

    def _least(self, table: FloatArray) -> FloatArray:
        return np.full(table.size, 1 / table.size)

    def _some_departure(self, least: FloatArray) -> FloatArray:
        return np.asarray(np.eye(least.size)[0] - least)


class MutualInformation(_Logarithms):
    """I in nats."""

    def __init__(self, sampling: Sampling, observed: FloatArray, shape: tuple[int, int]) -> None:
        self._shape = shape
        self.range = (0.0, log(min(shape)))
        sums = np.concatenate([np.eye(prod(shape)), statistics.row_sums(shape), statistics.column_sums(shape)])
        signs = np.concatenate([np.ones(prod(shape)), -np.ones(sum(shape))])
        super().__init__(sampling, observed, sums, signs)

    def _least(self, table: FloatArray) -> FloatArray:
        cells = table.reshape(self._shape)
        return np.outer(cells.sum(axis=1), cells.sum(axis=0)).ravel()

    def _with_departures(self, table: FloatArray) -> FloatArray:
        """Give other categories their noise if an attribute has only one left.

        No table with these margins has another value.
        """
        cells = table.reshape(self._shape)
        if min(np.count_nonzero(cells.sum(axis=k) > NOBODY) for k in (0, 1)) > 1:
            return table
        even = min(float(self._errors.max()), _MOST_EVEN)
        return (1 - even) * table + even / table.size

    def _some_departure(self, least: FloatArray) -> FloatArray:
        return np.asarray(_along_ranks(least.reshape(self._shape)).ravel())
