"""What a study measures: each repeat's numbers, and their means with standard errors.

Each repeat draws people (unless they are given as they are), randomizes them, tests every variant and compares with the truth;
and does the same with permuted statuses, where nothing is associated and every rejection is an error. The truth is the
population: the panel with the statuses that it has, or the chances of a planted trait. Associated are the causal variants of a
planted trait; otherwise those that the panel's own scan finds by Bonferroni's 5 %.

    noncentrality_ratio     how much of the tests' noncentrality is left, over the associated variants, of what true records
                            have: as if only this share of the people had been asked, without randomization
    predicted_noncentrality_ratio  the same from the design and the true tables, without drawing
    power, power_bonferroni, power_genome_wide  share of associated variants with p ≤ α, 5 % over the number of tests, 5e-8
    type_one, type_one_genome_wide  share of variants with p ≤ α, 5e-8 under permuted statuses
    naive_type_one          the same of the test that takes randomized records for true ones
    qq_slope                of −ln p under permuted statuses, all repeats together; 1 where p-values are uniform
    recall                  share of the truly top variants among as many of the smallest p-values
    rank_correlation, rank_correlation_all  Spearman, between true and estimated χ² of the truly top variants, and of all
    odds_bias               mean ln of estimated over true odds ratios of associated variants, of estimates that are finite:
                            between alleles, or per copy where answers are tested by likelihood
    odds_finite             share of them with a finite estimate
    odds_coverage           share of them whose 95 % interval holds the true one, where people are drawn. Intervals count the
                            chance that draws people, too; with the same people in every repeat nothing of it is seen, and they
                            would hold the truth, which is these people's own table, too often: in 100 % without randomization
    chi2_error, chi2_bias   mean |χ² − χ²| between the estimate from the unbiased table and what these people's true records
                            have, and with its sign: the estimate is kept from falling below 0. POR's measure, beside
                            chi2_error_of_zero, the error of an answer that is always 0, which noisy estimates exceed
    lambda_null, lambda_structure  λ_GC where statuses are permuted among all, and within groups, where what is left of the
                            inflation is confounding by groups
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from optrr.core.mechanisms.kernel import unrandomized
from optrr.genomics.genotypes import GENOTYPES, Codes
from optrr.genomics.odds import odds_ratios
from optrr.genomics.plots import expected_exponentials, pooled_qq_slope
from optrr.genomics.sampled_scan import answers_odds
from optrr.genomics.sampled_variants import Told
from optrr.genomics.score_tests import GENOME_WIDE, Scores, genomic_control, noncentralities
from optrr.genomics.study.people import permuted_status
from optrr.genomics.study.ways import Seen, StudiedWay
from optrr_solvers.arrays import FloatArray, IntArray

# The fewest variants whose ranks are compared: two ranks are always perfectly correlated.
FEWEST_RANKED = 3
# Associated variants whose odds ratios are looked at: those of answers take some fifty fits each.
MOST_ODDS = 30
# People so many that the odds ratios of their table are as good as exact.
_MANY = 1e9
# Points of a QQ plot.
_QQ_POINTS = 200

Measured = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Truth:
    """The population as one of ``people``: which variants are associated, are at the top, vary at all.

    ``tables`` (V, R, 2) are expected counts, or true ones where people are as they are (``fixed``); ``statistic`` what the
    unrandomized test has on these, with ``df`` degrees of freedom.
    """

    people: float
    fixed: bool
    tables: FloatArray
    statistic: FloatArray
    df: IntArray
    associated: IntArray
    top: IntArray
    usable: IntArray

    @property
    def compared(self) -> IntArray:
        """Variants whose noncentrality counts: the associated ones, or the top ones where none is."""
        return self.associated if self.associated.size else self.top

    @cached_property
    def odds(self) -> tuple[FloatArray, FloatArray]:
        """Odds ratios of the first of the compared variants: between alleles, and per copy."""
        at = self.compared[:MOST_ODDS]
        shares = self.tables[at, :GENOTYPES] / self.tables[at, :GENOTYPES].sum(axis=(1, 2), keepdims=True)
        everybody = (_MANY * shares).reshape(at.size, -1)
        told = Told(everybody, np.eye(2 * GENOTYPES), np.zeros((at.size, 2)), np.eye(2))
        return odds_ratios(_MANY * shares, unrandomized(shares.shape[1:])).ratio, answers_odds(told).ratio

    @property
    def error_of_zero(self) -> float:
        """Mean χ² without randomization: the error of an answer that is always 0."""
        return float(np.mean(self.statistic[self.usable]) + (0.0 if self.fixed else np.mean(self.df[self.usable])))

    def noncentrality_ratio(self, scores: Scores) -> float:
        """What is left in a randomized scan: its statistics and the true ones less what chance adds to each."""
        at = self.compared
        # expected tables have a statistic to which chance adds nothing
        whole = np.nansum(self.statistic[at] - (self.df[at] if self.fixed else 0))
        return float(np.nansum(scores.statistic[at] - scores.df[at]) / whole) if whole > 0 else math.nan

    def predicted_ratio(self, way: StudiedWay, test: str) -> float:
        """The same, from the mechanism and the true tables alone."""
        at = self.compared
        n = self.tables[at].sum(axis=(1, 2))
        whole = noncentralities(self.tables[at], unrandomized(self.tables.shape[1:]), test)
        return float((n @ way.expected(self.tables[at], at, test)) / (n @ whole))


@dataclass(frozen=True, eq=False)
class Repeat:
    """One repeat: numbers by name, and all p-values under permuted statuses, the naive test's too."""

    measures: dict[str, float]
    null_p: FloatArray
    naive_null_p: FloatArray
    scores: Scores


@dataclass(frozen=True, eq=False)
class PeopleOfRepeat:
    """The people of one repeat: true records, groups, and what the unrandomized test says of them."""

    records: Codes
    groups: IntArray
    statistic: FloatArray


def repeated(
    way: StudiedWay,
    asked: PeopleOfRepeat,
    truth: Truth,
    levels: tuple[str, float, bool],
    generator: np.random.Generator,
) -> Repeat:
    """One randomization of these people, and one each with permuted statuses.

    ``levels``: the test, the level of one test, and whether groups differ.
    """
    test, alpha, structured = levels
    seen = way.seen(asked.records, test, generator)
    use, at = truth.usable, truth.associated
    null = _permuted(way, asked, None, test, generator)
    null_p = null.scores.p_value[use]
    nothing = np.full(use.size, np.nan)
    naive_null_p = nothing if null.naive is None else null.naive.p_value[use]
    error = (seen.chi_squared - asked.statistic)[use]
    naive_error = nothing if seen.naive is None else np.abs(seen.naive.statistic - asked.statistic)[use]
    p_values, statistic = seen.scores.p_value, seen.scores.statistic
    within = _permuted(way, asked, asked.groups, test, generator).scores if structured else null.scores
    measures = {
        "power": _share(p_values[at] <= alpha),
        "power_bonferroni": _share(p_values[at] <= 0.05 / use.size),
        "power_genome_wide": _share(p_values[at] <= GENOME_WIDE),
        "type_one": _share(null_p <= alpha),
        "type_one_genome_wide": _share(null_p <= GENOME_WIDE),
        "naive_type_one": math.nan if null.naive is None else _share(naive_null_p <= alpha),
        "noncentrality_ratio": truth.noncentrality_ratio(seen.scores),
        "recall": _share(np.isin(most_associated(p_values, statistic, use)[: truth.top.size], truth.top)),
        "rank_correlation": _rank(truth.statistic[truth.top], statistic[truth.top]),
        "rank_correlation_all": _rank(truth.statistic[use], statistic[use]),
        **_odds(seen, truth, way.per_copy),
        "chi2_error": _mean(np.abs(error)),
        "chi2_bias": _mean(error),
        "naive_chi2_error": _mean(naive_error),
        "lambda_null": genomic_control(null.scores.statistic[use], null.scores.df[use]),
        "lambda_structure": genomic_control(within.statistic[use], within.df[use]) if structured else math.nan,
    }
    return Repeat(measures, null_p, naive_null_p, seen.scores)


def _permuted(
    way: StudiedWay, asked: PeopleOfRepeat, groups: IntArray | None, test: str, generator: np.random.Generator
) -> Seen:
    """People are permuted, because p-values of a true null hypothesis are wanted and some variants are associated."""
    permuted = asked.records.copy()
    # the status is the first attribute of the genotype layout
    permuted[:, 0] = permuted_status(asked.records[:, 0], groups, generator)
    return way.seen(permuted, test, generator)


def _odds(seen: Seen, truth: Truth, per_copy: bool) -> dict[str, float]:
    at = truth.compared[:MOST_ODDS]
    odds, true = seen.odds_of(at).columns, truth.odds[per_copy]
    ratio, low, high = (odds[name] for name in ("OR", "L95", "U95"))
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.log(ratio / true)
    finite, known = np.isfinite(away), np.isfinite(ratio) | np.isfinite(low)
    holds = (low[known] <= true[known]) & (true[known] <= high[known])
    return {
        "odds_bias": _mean(away[finite]),
        "odds_finite": _share(finite),
        "odds_coverage": math.nan if truth.fixed else _share(holds),
    }


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _share(hits: NDArray[np.bool_]) -> float:
    return float(hits.mean()) if hits.size else math.nan


def most_associated(p_values: FloatArray, statistic: FloatArray, use: IntArray) -> IntArray:
    """The variants of these numbers in order of p-value, and of statistic where p-values are too small for a double."""
    return use[np.lexsort((-np.nan_to_num(statistic[use], nan=-1.0), np.nan_to_num(p_values[use], nan=2.0)))]


def _rank(true: FloatArray, estimated: FloatArray) -> float:
    known = np.isfinite(estimated)
    true, estimated = true[known], estimated[known]
    if true.size < FEWEST_RANKED or np.ptp(true) == 0 or np.ptp(estimated) == 0:
        return math.nan
    return float(spearmanr(true, estimated).statistic)


def summarized(repeats: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each measure over the repeats in which it is known; NaN where in none, or one."""
    out = {}
    for name in repeats[0]:
        values = np.array([r[name] for r in repeats])
        values = values[np.isfinite(values)]
        spread = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else math.nan
        out[name] = (float(values.mean()) if values.size else math.nan, float(spread))
    return out


def pooled(repeats: Sequence[Repeat]) -> dict[str, tuple[float, float]]:
    """What all repeats' p-values show together, with a jackknife's standard error between repeats."""
    return {
        "qq_slope": pooled_qq_slope([r.null_p for r in repeats]),
        "naive_qq_slope": pooled_qq_slope([r.naive_null_p for r in repeats]),
    }


def qq_points(p_values: FloatArray) -> FloatArray:
    """Expected and observed −log10 p, at all small ranks and ever fewer of the larger ones; at most 200 points (K, 2)."""
    tested = p_values[np.isfinite(p_values)]
    if not tested.size:
        return np.empty((0, 2))
    expected = expected_exponentials(tested.size) / math.log(10)
    observed = np.sort(-np.log10(np.maximum(tested, 1e-300)))[::-1]
    ranks = np.unique(np.round(np.geomspace(1, tested.size, _QQ_POINTS)).astype(np.int64)) - 1
    return np.stack([expected[ranks], observed[ranks]], axis=1)
