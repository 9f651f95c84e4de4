"""Power where noncentral χ² does not give it: from surveys of that many records, with the p-values of the test itself.

Noncentral χ² takes reports to vary under the effect as they do under the hypothesis, and p-values to be those of χ². Where some
report is rare the first is wrong by the square root of the ratio of its two chances, and the second because counts have steps.
Two categories against a hypothesis are enumerated: k of n reports are in the first with the binomial chance, and

    p(k) = Pr(T(K) ≥ T(k)) under the hypothesis,    power = Pr(p(K) ≤ level) under the effect.

Everything else is drawn, with the same seed every time, so that the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.stats import binom, chi2, hypergeom

from optrr.inference.calibration import Association, chi_square_limit
from optrr.inference.chi_square import MANY_EXPECTED
from optrr.inference.exact import chi_square_holds, goodness_tests, homogeneity_tests
from optrr.inference.homogeneity import DifferentMechanisms
from optrr.inference.simulation import Simulation
from optrr.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Where every report expects this many records, an effect seen with power 0.8 at 5 % moves no chance by more than a tenth
# (√(7.8/1000)), and the standard deviation by a twentieth.
_LAW_HOLDS = 1000.0
# More records are not drawn.
_MOST_RECORDS = 10**8
# More outcomes are not enumerated.
_MOST_OUTCOMES = 10**6
# Statistics that differ by less than this, relatively, are equal: they are rounded sums.
_EQUAL = 1e-9
# No p-value is simulated that is smaller.
_LEAST = 1 / (Simulation.most + 1)
# No test takes fewer.
_FEWEST_RECORDS = 2
# Records of the tables at which noncentralities are read off: what is added to empty cells of margins does not count there.
MANY_RECORDS = 1e12
_SEED = 0
# Surveys drawn: standard error of a power of 0.8 below 1 %.
_SURVEYS = 2000
# Statistics drawn where all surveys share one law under the hypothesis: a standard error of 4 % of a p-value of 5 %.
_SHARED_DRAWS = 9_999
# The smallest level at which the shared draws tell p-values.
_SMALLEST_LEVEL = 0.01

# Where statistics alone are wanted.
_ONCE = Simulation(1, 1)
# Where a power comes from: noncentral χ²; all outcomes; surveys drawn, with the test's own p-values, or with those of χ².
Source = Literal["limit", "enumerated", "drawn", "drawn-limit"]
DrawSurveys = Callable[[int, int, np.random.Generator], FloatArray]
# Statistics and p-values of tables; NaN where the test gives none.
TestTables = Callable[[FloatArray, np.random.Generator, Simulation], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Surveys:
    """Surveys of people with an effect, and their test.

    ``draw(n, size, rng)`` gives ``size`` tables of n reports; ``fewest`` is the smallest chance of any report.
    With ``null``, which draws surveys by the hypothesis nearest to the truth,
    p-values are those of one law for all surveys, as a bootstrap estimates it from each.
    """

    draw: DrawSurveys
    test: TestTables
    df: int
    fewest: float
    null: DrawSurveys | None = None

    def source(self, n: float, level: float) -> Source:
        """Where the power of n records comes from."""
        if n * self.fewest >= _LAW_HOLDS or n > _MOST_RECORDS:
            return "limit"
        return "drawn" if n * self.fewest >= MANY_EXPECTED or level >= _SMALLEST_LEVEL else "drawn-limit"

    def power(self, n: int, level: float) -> float:
        """Share of surveys of n records that reject; those that the test refuses do not."""
        if n < _FEWEST_RECORDS:
            return 0.0
        rng = np.random.default_rng(_SEED)
        if n * self.fewest >= MANY_EXPECTED or level < _SMALLEST_LEVEL:
            statistic, p = self.test(self.draw(n, _SURVEYS, rng), rng, _ONCE)
            return float(np.mean(np.where(np.isnan(p), 1.0, chi2.sf(statistic, self.df)) <= level))
        return float(np.mean(self._simulated(self.draw(n, _SURVEYS, rng), rng) <= level))

    def _simulated(self, tables: FloatArray, rng: np.random.Generator) -> FloatArray:
        statistic, p = self.test(tables, rng, _ONCE)
        if self.null is None:
            return p
        drawn = np.sort(self.test(self.null(int(tables[0].sum()), _SHARED_DRAWS, rng), rng, _ONCE)[0])
        reached = _SHARED_DRAWS - np.searchsorted(drawn, statistic * (1 - _EQUAL))
        return np.where(np.isnan(p), 1.0, (reached + 1) / (_SHARED_DRAWS + 1))


@dataclass(frozen=True, eq=False)
class TwoReports:
    """Two reports with chances ``true`` (2,), and by the hypothesis ``null`` (2,): every outcome is counted."""

    true: FloatArray
    null: FloatArray

    def source(self, n: float, level: float) -> Source:
        """Where the power of n records comes from."""
        many = n * min(self.true.min(), self.null.min()) >= _LAW_HOLDS
        return "limit" if many or n >= _MOST_OUTCOMES else "enumerated"

    def power(self, n: int, level: float) -> float:
        """Chance to reject; that of an outcome whose p-value is drawn and near the level is between 0 and 1."""
        k, p = np.arange(n + 1), self.p_values(n)
        # a p-value of hits/l is at most the level where fewer than these hits are among the first hits/level − 1 draws
        hits = max(1, min(Simulation.hits, int(level * (Simulation.most + 1))))
        held = chi_square_holds(p, 1, np.full(k.size, n * float(self.null.min())))
        rejects = np.where(held, p <= level, binom.cdf(hits - 1, np.ceil(hits / level) - 1, p))
        return float(binom.pmf(k, n, self.true[0]) @ rejects)

    def p_values(self, n: int) -> FloatArray:
        """p-values of 0 to n of the first report, (n + 1,), as :func:`optrr.goodness_of_fit` has them but for its drawing."""
        k = np.arange(n + 1)
        statistic = (k - n * self.null[0]) ** 2 / (n * self.null.prod())
        largest = np.argsort(-statistic, kind="stable")
        falling = statistic[largest]
        tail = np.cumsum(binom.pmf(k, n, self.null[0])[largest])
        reached = np.searchsorted(-falling, -statistic * (1 - _EQUAL), side="right")
        exact = np.minimum(tail[reached - 1], 1.0)
        return _where_held(statistic, 1, n * float(self.null.min()), exact)


def goodness_surveys(true: FloatArray, null: FloatArray) -> Surveys | TwoReports:
    """Of people whose reports have chances ``true`` (R,), tested against ``null`` (R,)."""
    fewest = float(min(true.min(), null.min()))
    # where a report is impossible, the statistic is infinite or has fewer degrees of freedom
    if true.size == 2 and fewest > 0:
        return TwoReports(true, null)

    def test(tables: FloatArray, rng: np.random.Generator, rule: Simulation) -> tuple[FloatArray, FloatArray]:
        tested = goodness_tests(tables, null, rng, rule)
        return tested.statistic, tested.p_value

    return Surveys(drawn_from(true), test, true.size - 1, fewest, null=drawn_from(null))


def homogeneity_surveys(laws: FloatArray, shares: FloatArray, kernels: Sequence[Kernel]) -> Surveys:
    """Of groups whose reports have chances ``laws`` (G, R), ``shares`` (G,) of the records in each."""
    groups, cells = laws.shape
    several = DifferentMechanisms.of(kernels)
    alike = bool(np.ptp(several.matrices, axis=0).max() == 0)

    def draw_from(law: FloatArray, n: int, size: int, rng: np.random.Generator) -> FloatArray:
        sizes = np.maximum(np.diff(np.rint(n * np.cumsum([0.0, *shares]))), 1).astype(np.int64)
        return rng.multinomial(sizes[None], law[None], size=(size, groups)).astype(np.float64)

    def test(tables: FloatArray, rng: np.random.Generator, rule: Simulation) -> tuple[FloatArray, FloatArray]:
        counts = tables.astype(np.int64)
        if not alike:
            statistic, _, p, _, _ = several.p_values(counts, rng, rule)
            return statistic, p
        if groups == cells == 2:
            statistic, fewest, exact = dealt_p_values(counts)
            return statistic, _where_held(statistic, 1, fewest, _as_drawn(exact, rng))
        tested = homogeneity_tests(counts, rng, rule)
        return tested.statistic, tested.p_value

    common = np.broadcast_to(shares @ laws, laws.shape)
    if not alike:
        tables = np.rint(MANY_RECORDS * shares[:, None] * laws).astype(np.int64)
        common = several.statistics(tables[None])[1][0]
        common = common / common.sum(axis=1, keepdims=True)
    fewest = float((shares[:, None] * np.minimum(laws, common)).min())
    # two groups and two reports have exact p-values; elsewhere what the groups have in common stands for all of them
    null = None if alike and groups == cells == 2 else partial(draw_from, common)
    return Surveys(partial(draw_from, laws), test, (groups - 1) * (cells - 1), fewest, null)


def dealt_p_values(counts: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of tables (B, 2, 2) with the same groups: statistics, smallest expected counts, and exact p-values.

    Given the totals all ways to deal the reports to the groups are alike, and all of them are counted.
    """
    statistic, exact = np.zeros(len(counts)), np.ones(len(counts))
    first, n = (int(x) for x in (counts[0, 0].sum(), counts[0].sum()))
    totals = counts[:, :, 0].sum(axis=1)
    for total in np.unique(totals[(totals > 0) & (totals < n)]):
        own = np.flatnonzero(totals == total)
        x = np.arange(max(0, total + first - n), min(first, total) + 1)
        # Pearson's statistic of two groups and two reports, in terms of the one free cell
        away = n * (x - first * total / n) ** 2 / (first * (n - first) * (total * (n - total) / n**2))
        chances = hypergeom.pmf(x, n, total, first)
        statistic[own] = away[counts[own, 0, 0] - x[0]]
        exact[own] = [chances[away >= t * (1 - _EQUAL)].sum() for t in statistic[own]]
    fewest = np.minimum(totals, n - totals) * (min(first, n - first) / n)
    return statistic, fewest, exact


def _as_drawn(exact: FloatArray, rng: np.random.Generator) -> FloatArray:
    """p-values as a simulation ends with that has these to estimate: hits by the draws that they took."""
    return np.asarray(
        Simulation.hits / (Simulation.hits + rng.negative_binomial(Simulation.hits, np.clip(exact, _LEAST / 10, 1.0)))
    )


def _where_held(statistic: FloatArray, df: int, fewest: float | FloatArray, exact: FloatArray) -> FloatArray:
    """p-values of χ² where it holds, the exact ones elsewhere, as the tests of :mod:`optrr.inference.exact` have them."""
    limit, expected = np.asarray(chi2.sf(statistic, df)), np.broadcast_to(fewest, statistic.shape)
    drawn = np.where(
        (exact <= _LEAST) & (expected >= MANY_EXPECTED), np.minimum(limit, _LEAST), np.maximum(exact, _LEAST)
    )
    return np.where(chi_square_holds(limit, df, expected), limit, drawn)


def association_surveys(expected: FloatArray, chosen: Association) -> Surveys:
    """Of people whose reports have chances ``expected`` (r_a, r_b)."""

    def test(tables: FloatArray, _rng: np.random.Generator, _rule: Simulation) -> tuple[FloatArray, FloatArray]:
        limit = chi_square_limit(chosen, tables)
        return limit.statistic, limit.p_value

    null = chi_square_limit(chosen, MANY_RECORDS * expected[None]).fit.expected[0]
    fewest = float(min(expected.min(), null.min()))
    return Surveys(drawn_from(expected), test, len(chosen.contrasts), fewest, null=drawn_from(null))


def drawn_from(law: FloatArray) -> DrawSurveys:
    """Tables of one sample of people whose reports have chances ``law``, of any shape."""
    chances = law.ravel() / law.sum()

    def draw(n: int, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.multinomial(n, chances, size=size).reshape(size, *law.shape).astype(np.float64)

    return draw
