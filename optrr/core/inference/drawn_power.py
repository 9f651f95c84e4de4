"""Power where noncentral χ² does not give it: from surveys of that many records, with the p-values of the test itself.

Noncentral χ² takes reports to vary under the effect as they do under the hypothesis, and p-values to be those of χ². Where some
report is rare the first is wrong by the square root of the ratio of its two chances, and the second because counts have steps.
Two categories against a hypothesis are enumerated: k of n reports are in the first with the binomial chance, and

    p(k) = Pr(T(K) ≥ T(k)) under the hypothesis,    power = Pr(p(K) ≤ level) under the effect.

Everything else is drawn, with the same seed every time, so that the same question has the same answer, and as often as about a
second allows. Of N surveys a share s rejects, by p-values from M statistics drawn under the hypothesis at most:

    variance of s = s(1 − s)/N + (s(α + e) − s(α − e))²/4,    e² = α(1 − α)/M,

s(α) being the share that rejects at level α. The second part is 0 where p-values are those of χ² or counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from optrr.core.display.result import Result
from optrr.core.estimation.distributions import chi2
from optrr.core.inference.homogeneity import DifferentMechanisms, homogeneity_tests
from optrr.core.inference.simulation import CLEAR_OF_ZERO, MANY_EXPECTED, Simulation, chi_square_holds, least_equal
from optrr_solvers.arrays import FloatArray, IntArray

# Where every report expects this many records, an effect seen with power 0.8 at 5 % moves no chance by more than a tenth
# (√(7.8/1000)), and the standard deviation by a twentieth.
_LAW_HOLDS = 1000.0
# More records are not drawn.
_MOST_RECORDS = 10**8
# More outcomes are not enumerated.
_MOST_OUTCOMES = 10**6
# Distances that differ by less than this, relatively, are equal: they are rounded.
_EQUAL = 1e-9
# No p-value is simulated that is smaller.
_LEAST = 1 / (Simulation.most + 1)
# No test takes fewer.
_FEWEST_RECORDS = 2
# Records of the tables at which noncentralities are read off: what is added to empty cells of margins does not count there.
MANY_RECORDS = 1e12
# Standard errors above 0 from which no survey has estimates at 0 or one whose test doubts that it is clear of 0: two more than
# the most that any test asks for.
_CLEAR = CLEAR_OF_ZERO + 2
_SEED = 0
# Multiplications that surveys are drawn for: a fraction of a second.
_MOST_WORK = 100_000_000
# Surveys drawn: a standard error of a power of 0.8 of 0.2 points, and of 0.9 where tables are so large that each takes long.
_MOST_SURVEYS, _FEWEST_SURVEYS = 30_000, 2000
# Statistics drawn by the hypothesis for each survey, where all share one law: the errors of the share that rejects and of the
# p-values are then about alike. Of at least so many a p-value of 5 % has a standard error of 4 % of itself.
_SHARED, _FEWEST_SHARED = 2, 9999
# Multiplications that a fit in rounds takes, about, however small the table is.
FIT_WORK = 5000
# Shared draws beyond a level that tell p-values there to a tenth.
_HITS = 100
# Tables held at once.
_BLOCK = 10_000
# Standard deviations of a count, and records more, beyond which no chance of it counts.
_FARTHEST, _MORE = 10, 30
# Where statistics alone are wanted.
ONCE = Simulation(1, 1)
# Where a power comes from: noncentral χ²; all outcomes; surveys drawn, with the test's own p-values, or with those of χ².
Source = Literal["limit", "enumerated", "drawn", "drawn-limit"]
DrawSurveys = Callable[[int, int, np.random.Generator], FloatArray]
# Statistics and p-values of tables; NaN where the test gives none. Where surveys share a law these p-values are of χ².
TestTables = Callable[[FloatArray, np.random.Generator], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, repr=False)
class PredictedPower(Result):
    """A ``power``, its ``source``, and its ``standard_error`` where it was drawn: None where it was not."""

    power: float
    source: Source
    standard_error: float | None = None

    drawn = ("power",)

    def row_names(self) -> list[str]:
        """Where the power comes from."""
        return [self.source]

    def headline(self) -> str:
        """The power, how precise it is, and where it comes from."""
        error = "" if self.standard_error is None else f", standard error {self.standard_error:.2g}"
        return f"power {self.power:.4g}{error}, {self.source}"


@dataclass(frozen=True, eq=False)
class Surveys:
    """Surveys of people with an effect, and their test.

    ``draw(n, size, rng)`` gives ``size`` tables of n reports; ``fewest`` is the smallest chance of any report, and ``work`` the
    multiplications that the test of a table takes. From ``clear`` records on all shares that the test fits are clear of 0.
    With ``null``, which draws surveys by the hypothesis nearest to the truth, p-values are those of one law for all surveys, as
    a bootstrap estimates it from each; without it they are those of the test.
    """

    draw: DrawSurveys
    test: TestTables
    df: int
    fewest: float
    work: int
    null: DrawSurveys | None = None
    clear: float = 0.0

    def source(self, n: float, level: float) -> Source:
        """Where the power of n records comes from."""
        if n > _MOST_RECORDS or (n >= self.clear and n * self.fewest >= _LAW_HOLDS):
            return "limit"
        return "drawn" if self._chi_square(n, level) or self._told(level) else "drawn-limit"

    def power(self, n: int, level: float) -> PredictedPower:
        """Share of surveys of n records that reject; those that the test refuses do not."""
        source = self.source(n, level)
        if n < _FEWEST_RECORDS:
            return PredictedPower(0.0, source)
        rng = np.random.default_rng(_SEED)
        statistic, p = self._tested(self.draw, n, self._affordable, rng)
        refused, error = np.isnan(p), 0.0
        if self._chi_square(n, level) or not self._told(level):
            p = np.asarray(chi2.sf(statistic, self.df))
        elif self.null is not None:
            drawn = np.sort(self._tested(self.null, n, self._shared, rng)[0])
            p = (drawn.size - np.searchsorted(drawn, least_equal(statistic)) + 1) / (drawn.size + 1)
            error = float(np.sqrt(level * (1 - level) / drawn.size))
        share, low, high = (float(np.mean((p <= at) & ~refused)) for at in (level, level - error, level + error))
        # one more survey of each kind, so that no error is 0
        sure = (share * p.size + 1) / (p.size + 2)
        return PredictedPower(share, source, float(np.hypot(np.sqrt(sure * (1 - sure) / p.size), (high - low) / 2)))

    @property
    def _affordable(self) -> int:
        return max(_FEWEST_SURVEYS, min(_MOST_SURVEYS, _MOST_WORK // self.work))

    @property
    def _shared(self) -> int:
        return max(_FEWEST_SHARED, _SHARED * self._affordable)

    def _chi_square(self, n: float, level: float) -> bool:
        """Whether the test's p-values near the level are those of χ²."""
        return n >= self.clear and bool(chi_square_holds(np.array([level]), self.df, np.array([n * self.fewest]))[0])

    def _told(self, level: float) -> bool:
        """Whether p-values near the level are told without χ²."""
        return self.null is None or level * self._shared >= _HITS

    def _tested(self, draw: DrawSurveys, n: int, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Statistics and p-values of so many surveys."""
        blocks = [self.test(draw(n, min(_BLOCK, size - start), rng), rng) for start in range(0, size, _BLOCK)]
        statistic, p = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return statistic, p


@dataclass(frozen=True, eq=False)
class TwoReports:
    """Two reports with chances ``true`` (2,), and by the hypothesis ``null`` (2,): every outcome is counted."""

    true: FloatArray
    null: FloatArray

    def source(self, n: float, level: float) -> Source:
        """Where the power of n records comes from."""
        many = n * min(self.true.min(), self.null.min()) >= _LAW_HOLDS
        return "limit" if many or n >= _MOST_OUTCOMES else "enumerated"

    def power(self, n: int, level: float) -> PredictedPower:
        """Chance to reject; that of an outcome whose p-value is drawn and near the level is between 0 and 1."""
        from scipy.stats import binom  # noqa: PLC0415 (half a second to import, and most tests need none of it)

        k, p = np.arange(n + 1), self.p_values(n)
        # a p-value of hits/l is at most the level where fewer than these hits are among the first hits/level − 1 draws
        hits = max(1, min(Simulation.hits, int(level * (Simulation.most + 1))))
        held = chi_square_holds(p, 1, np.full(k.size, n * float(self.null.min())))
        rejects = np.where(held, p <= level, binom.cdf(hits - 1, np.ceil(hits / level) - 1, p))
        return PredictedPower(float(binom.pmf(k, n, self.true[0]) @ rejects), self.source(n, level))

    def p_values(self, n: int) -> FloatArray:
        """p-values of 0 to n of the first report, (n + 1,), as :func:`optrr.core.inference.goodness_of_fit` without drawing."""
        from scipy.stats import binom  # noqa: PLC0415 (as above)

        k = np.arange(n + 1)
        statistic = (k - n * self.null[0]) ** 2 / (n * self.null.prod())
        largest = np.argsort(-statistic, kind="stable")
        falling = statistic[largest]
        tail = np.cumsum(binom.pmf(k, n, self.null[0])[largest])
        reached = np.searchsorted(-falling, -least_equal(statistic), side="right")
        exact = np.minimum(tail[reached - 1], 1.0)
        return _where_held(statistic, 1, n * float(self.null.min()), exact)


def homogeneity_surveys(
    laws: FloatArray, common: FloatArray, shares: FloatArray, several: DifferentMechanisms
) -> Surveys:
    """Of groups whose reports have chances ``laws`` (G, R), ``shares`` (G,) of the records in each.

    ``common`` (G, R) are the reports of the proportions that they have in common, as the test of different mechanisms fits it.
    """
    groups, cells = laws.shape
    df = (groups - 1) * (cells - 1)
    alike = bool(np.ptp(several.matrices, axis=0).max() == 0)
    common = np.broadcast_to(shares @ laws, laws.shape) if alike else common / common.sum(axis=1, keepdims=True)

    def draw_from(law: FloatArray, n: int, size: int, rng: np.random.Generator) -> FloatArray:
        sizes = np.maximum(np.diff(np.rint(n * np.cumsum([0.0, *shares]))), 1).astype(np.int64)
        return rng.multinomial(sizes[None], law[None], size=(size, groups)).astype(np.float64)

    def test(tables: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        counts = tables.astype(np.int64)
        if not alike:
            statistic = several.statistics(counts)[0]
            return statistic, np.asarray(chi2.sf(statistic, df))
        if groups == cells == 2:
            statistic, fewest, exact = dealt_p_values(counts)
            # as a simulation ends with that has these p-values to estimate: hits by the draws that they took
            draws = Simulation.hits + rng.negative_binomial(Simulation.hits, np.clip(exact, _LEAST / 10, 1.0))
            return statistic, _where_held(statistic, 1, fewest, Simulation.hits / draws)
        tested = homogeneity_tests(counts, rng, ONCE)
        return tested.statistic, tested.p_value

    fewest = float((shares[:, None] * np.minimum(laws, common)).min())
    # two groups and two reports have exact p-values; elsewhere what the groups have in common stands for all of them
    null = None if alike and groups == cells == 2 else partial(draw_from, common)
    # fits of different mechanisms take some steps with matrices
    work = laws.size if alike else FIT_WORK + 10 * cells**2 * (groups + cells)
    return Surveys(partial(draw_from, laws), test, df, fewest, work, null)


def dealt_p_values(counts: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of tables (B, 2, 2) with the same groups: statistics, smallest expected counts, and p-values.

    Given the totals all ways to deal the reports to the groups are alike, and all of them are counted; but where every report
    expects `MANY_EXPECTED` records, only p-values for which χ² does not hold, and none that are so small that no simulation
    tells them.
    """
    first, n = (int(x) for x in (counts[0, 0].sum(), counts[0].sum()))
    x, totals = counts[:, 0, 0], counts[:, :, 0].sum(axis=1)
    fewest = np.minimum(totals, n - totals) * (min(first, n - first) / n)
    # Pearson's statistic of two groups and two reports, in terms of the one free cell
    away, spread = (x - first * totals / n) ** 2, first * (n - first) * (totals * (n - totals) / n**2)
    statistic = np.divide(n * away, spread, out=np.zeros(x.size), where=spread > 0)
    exact = np.asarray(chi2.sf(statistic, 1))
    known = chi_square_holds(exact, 1, fewest) | ((fewest >= MANY_EXPECTED) & (exact < _LEAST / 10))
    counted = np.flatnonzero(~known)
    if counted.size:
        dealt, back = np.unique(np.stack([x[counted], totals[counted]]), axis=1, return_inverse=True)
        exact[counted] = _counted(dealt[0], dealt[1], first, n)[back.ravel()]
    return statistic, fewest, exact


def _counted(x: IntArray, totals: IntArray, first: int, n: int) -> FloatArray:
    """Chances (B,) that a first cell is as far from its mean as these ones ``x``, given the totals of the first report."""
    from scipy.stats import hypergeom  # noqa: PLC0415 (as above)

    mean = first * totals / n
    reach = int(_FARTHEST * np.sqrt(float((mean * (1 - totals / n)).max())) + _MORE)
    cells = np.rint(mean).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    far = np.abs(cells - mean[:, None]) >= np.abs(x - mean)[:, None] * (1 - _EQUAL)
    return np.asarray(np.sum(np.where(far, hypergeom.pmf(cells, n, totals[:, None], first), 0.0), axis=1))


def _where_held(statistic: FloatArray, df: int, fewest: float | FloatArray, exact: FloatArray) -> FloatArray:
    """p-values of χ² where it holds, the exact ones elsewhere, as the tests of :mod:`optrr.core.inference.tail` have them."""
    limit, expected = np.asarray(chi2.sf(statistic, df)), np.broadcast_to(fewest, statistic.shape)
    drawn = np.where(
        (exact <= _LEAST) & (expected >= MANY_EXPECTED), np.minimum(limit, _LEAST), np.maximum(exact, _LEAST)
    )
    return np.where(chi_square_holds(limit, df, expected), limit, drawn)


def records_clear(shares: FloatArray, variance: FloatArray) -> float:
    """Records that put estimates of these shares far above 0; ``variance`` is that of estimates from one record."""
    positive = shares > 0
    ratios = np.divide(variance, shares**2, out=np.full(shares.shape, np.inf), where=positive)
    return float(_CLEAR**2 * ratios.max())


def drawn_from(law: FloatArray) -> DrawSurveys:
    """Tables of one sample of people whose reports have chances ``law``, of any shape."""
    chances = law.ravel() / law.sum()

    def draw(n: int, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.multinomial(n, chances, size=size).reshape(size, *law.shape).astype(np.float64)

    return draw
