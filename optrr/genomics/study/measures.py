"""Measures of a study: each repeat's numbers, and their means with standard errors.

Each repeat draws people (unless they are given as they are), randomizes them, tests every variant and compares with the
truth; and does the same with permuted statuses, where nothing is associated and every rejection is an error. The truth
is the population: the panel with the statuses that it has, or the chances of a simulated trait. Associated are the
causal variants of a simulated trait; otherwise those that the panel's own scan finds by Bonferroni's 5 %.

    noncentrality_ratio     the tests' noncentrality over the associated variants, relative to true records: as if only this
                            proportion of the people took part, without randomization
    predicted_noncentrality_ratio  the same from the design and the true tables, without drawing
    power, power_bonferroni, power_genome_wide  proportion of associated variants with p ≤ α, 5 % over the number of tests,
                            5e-8
    type_one                proportion of variants with p ≤ α under permuted statuses
    naive_type_one          the same of the test that treats randomized records as true
    recall                  proportion of the truly top variants among as many of the smallest p-values
    rank_correlation        Spearman, between true and estimated χ² of the truly top variants
    odds_bias               mean ln of estimated over true odds ratios of associated variants, of estimates that are finite:
                            between alleles, or per copy where answers are tested by likelihood
    odds_finite             proportion of them with a finite estimate
    odds_coverage           proportion of them whose 95 % interval holds the true one, if people are sampled. Intervals
                            account for the sampling of people; with the same people in every repeat there is none, so
                            they would hold the truth, these people's table, too often: in 100 % without randomization
    chi2_error, chi2_bias   mean |χ² − χ²| between the estimate from the unbiased table and what these people's true records
                            have, and with its sign: the estimate is kept from falling below 0. POR's measure, next to
                            chi2_error_of_zero, the error of an answer that is always 0, which noisy estimates exceed
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from optrr.core.errors import InvalidInput
from optrr.core.estimation import chi_squared_tails
from optrr.core.mechanisms import unrandomized
from optrr.genomics.genotypes import GENOTYPES, Codes
from optrr.genomics.layout import Layout
from optrr.genomics.odds import odds_ratios
from optrr.genomics.sampled_scan import answers_odds
from optrr.genomics.sampled_variants import Told
from optrr.genomics.score_tests import GENOME_WIDE, Scores, noncentralities, score_test
from optrr.genomics.study.options import StudyOptions
from optrr.genomics.study.people import StudyPeople
from optrr.genomics.study.ways import Seen, StudiedWay, record_tables
from optrr_solvers.arrays import FloatArray, IntArray

# Two ranks are always perfectly correlated.
_FEWEST_RANKED = 3
# Number of associated variants with odds ratios: those of answers take some fifty fits each.
_MOST_ODDS = 30
# People so many that the odds ratios of their table are as good as exact.
_MANY = 1e9

# Mean and standard error by the name of the measure.
Measured = dict[str, tuple[float, float]]


def true_scores(tables: NDArray[np.number], test: str) -> Scores:
    """Compute the test of true tables."""
    return score_test(tables, unrandomized(tables.shape[1:]), test)


@dataclass(frozen=True, eq=False)
class Truth:
    """Population truths for samples of ``people``.

    Which variants are associated, are among the top, and vary at all.

    ``tables`` (V, R, 2) are expected counts, or true ones where people are as they are (``fixed``); ``statistic`` what
    the unrandomized test has on these, with ``df`` degrees of freedom.
    """

    people: float
    fixed: bool
    tables: FloatArray
    statistic: FloatArray
    df: IntArray
    associated: IntArray
    top: IntArray
    usable: IntArray

    @classmethod
    def of(cls, panel: StudyPeople, layout: Layout, options: StudyOptions, n: int) -> "Truth":
        """Compute truths of the panel, or of n people drawn from it.

        Raises InvalidInput if no variant varies.
        """
        fixed = not options.draws_people
        own = record_tables(panel.records, layout)
        scores, tables = true_scores(own, options.test), own.astype(np.float64)
        statistic = scores.statistic
        if not fixed:
            tables = n * panel.tables(GENOTYPES + layout.missing)
            # a monomorphic variant has no noncentrality
            statistic = n * np.nan_to_num(noncentralities(tables, unrandomized(tables.shape[1:]), options.test))
        varies = np.count_nonzero(tables[:, :GENOTYPES].sum(axis=2), axis=1) > 1
        usable = np.flatnonzero(np.isfinite(scores.p_value) if fixed else varies)
        if not usable.size:
            raise InvalidInput("all variants are monomorphic among these people; give variants that vary")
        by_scan = usable[scores.p_value[usable] * usable.size <= 0.05]
        # by p-value, as whoever reads a scan does, and as the protocols are ranked: few degrees of freedom or few
        # people set it and the statistic apart
        ranked_by = scores.p_value if fixed else chi_squared_tails(statistic, scores.df.astype(np.float64))
        top = _most_associated(ranked_by, statistic, usable)[: options.top]
        associated = by_scan if panel.risk is None else panel.risk.which
        return cls(n, fixed, tables, statistic, scores.df, associated, top, usable)

    @property
    def compared(self) -> IntArray:
        """Variants whose noncentrality is compared: associated, or else top ones."""
        return self.associated if self.associated.size else self.top

    @cached_property
    def odds(self) -> tuple[FloatArray, FloatArray]:
        """Odds ratios of the first compared variants, between alleles and per copy."""
        at = self.compared[:_MOST_ODDS]
        shares = self.tables[at, :GENOTYPES] / self.tables[at, :GENOTYPES].sum(axis=(1, 2), keepdims=True)
        everybody = (_MANY * shares).reshape(at.size, -1)
        told = Told(everybody, np.eye(2 * GENOTYPES), np.zeros((at.size, 2)), np.eye(2))
        return odds_ratios(_MANY * shares, unrandomized(shares.shape[1:])).ratio, answers_odds(told).ratio

    @property
    def shares(self) -> tuple[float, FloatArray]:
        """The proportion of cases, and the frequency of A1 of each variant."""
        called = self.tables[:, :GENOTYPES]
        often = called.sum(axis=2) @ np.arange(GENOTYPES) / np.maximum(2 * called.sum(axis=(1, 2)), 1e-300)
        return float(called[:, :, 1].sum() / called.sum()), often

    def of_way(self, way: StudiedWay, test: str) -> Measured:
        """Compute the proportion of noncentrality left and the error of an answer 0.

        Nothing is drawn.
        """
        at, use = self.compared, self.usable
        n = self.tables[at].sum(axis=(1, 2))
        whole = noncentralities(self.tables[at], unrandomized(self.tables.shape[1:]), test)
        ratio = float((n @ way.expected(self.tables[at], at, test)) / (n @ whole))
        zero = float(np.mean(self.statistic[use]) + (0.0 if self.fixed else np.mean(self.df[use])))
        return {"predicted_noncentrality_ratio": (ratio, 0.0), "chi2_error_of_zero": (zero, 0.0)}

    def noncentrality_ratio(self, scores: Scores) -> float:
        """Compute the noncentrality left in a randomized scan.

        Its statistics over the true ones, less the expectation of each by chance.
        """
        at = self.compared
        # expected tables have a statistic to which chance adds nothing
        whole = np.nansum(self.statistic[at] - (self.df[at] if self.fixed else 0))
        return float(np.nansum(scores.statistic[at] - scores.df[at]) / whole) if whole > 0 else math.nan


def repeated(
    way: StudiedWay,
    people: tuple[Codes, FloatArray],
    truth: Truth,
    options: StudyOptions,
    generator: np.random.Generator,
) -> dict[str, float]:
    """Measure one randomization of these people and one with permuted status.

    ``people`` are true records and the unrandomized test on them. Statuses are permuted because p-values of a
    true null hypothesis are wanted and some variants are associated.
    """
    records, true = people
    seen = way.seen(records, options.test, generator)
    permuted = records.copy()
    # the status is the first attribute of the genotype layout
    permuted[:, 0] = generator.permutation(records[:, 0])
    null = way.seen(permuted, options.test, generator)
    use, at = truth.usable, truth.associated
    p_values, statistic = seen.scores.p_value, seen.scores.statistic
    error = (seen.chi_squared - true)[use]
    return {
        "power": _mean(p_values[at] <= options.alpha),
        "power_bonferroni": _mean(p_values[at] <= 0.05 / use.size),
        "power_genome_wide": _mean(p_values[at] <= GENOME_WIDE),
        "type_one": _mean(null.scores.p_value[use] <= options.alpha),
        "naive_type_one": math.nan if null.naive is None else _mean(null.naive.p_value[use] <= options.alpha),
        "noncentrality_ratio": truth.noncentrality_ratio(seen.scores),
        "recall": _mean(np.isin(_most_associated(p_values, statistic, use)[: truth.top.size], truth.top)),
        "rank_correlation": _rank(truth.statistic[truth.top], statistic[truth.top]),
        **_odds(seen, truth, way.per_copy),
        "chi2_error": _mean(np.abs(error)),
        "chi2_bias": _mean(error),
    }


def _odds(seen: Seen, truth: Truth, per_copy: bool) -> dict[str, float]:
    odds, true = seen.odds_of(truth.compared[:_MOST_ODDS]).columns, truth.odds[per_copy]
    ratio, low, high = (odds[name] for name in ("OR", "L95", "U95"))
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.log(ratio / true)
    known = np.isfinite(ratio) | np.isfinite(low)
    holds = _mean((low[known] <= true[known]) & (true[known] <= high[known]))
    names = ("odds_bias", "odds_finite", "odds_coverage")
    return dict(zip(names, (_mean(away), _mean(np.isfinite(away)), math.nan if truth.fixed else holds), strict=True))


def _mean(values: NDArray[np.bool_] | FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _most_associated(p_values: FloatArray, statistic: FloatArray, use: IntArray) -> IntArray:
    """Sort variants by p-value, then statistic if p-values underflow."""
    return use[np.lexsort((-np.nan_to_num(statistic[use], nan=-1.0), np.nan_to_num(p_values[use], nan=2.0)))]


def _rank(true: FloatArray, estimated: FloatArray) -> float:
    known = np.isfinite(estimated)
    true, estimated = true[known], estimated[known]
    if true.size < _FEWEST_RANKED or np.ptp(true) == 0 or np.ptp(estimated) == 0:
        return math.nan
    return float(spearmanr(true, estimated).statistic)


def summarized(repeats: Sequence[dict[str, float]]) -> Measured:
    """Compute means and standard errors over the repeats with a value.

    Returns NaN without enough repeats.
    """
    out: Measured = {}
    for name in repeats[0]:
        values = np.array([each[name] for each in repeats])
        values = values[np.isfinite(values)]
        spread = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else math.nan
        out[name] = _mean(values), float(spread)
    return out
