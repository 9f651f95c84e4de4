"""What a genome scan loses to randomization: protocols compared on the same people at the same total ε.

Each repeat randomizes the cohort, tests every variant and compares with the truth; and does the same with permuted
phenotypes, where nothing is associated and every rejection is an error. The truth is this data set's unrandomized test.

    power            share of truly associated variants (Bonferroni at 5 % without randomization) found at level α
    type_one         share of variants with p ≤ α under permuted phenotypes; the naive test beside it
    qq_slope         of −ln p under permuted phenotypes, all repeats together; 1 where p-values are uniform
    noncentrality_ratio  how much of the tests' noncentrality is left, Σ(χ² − df) / Σ(χ²_true − df) over the truly associated:
                     as if only this share of the people had been asked, without randomization
    predicted_noncentrality_ratio  the same from the design and the true tables, without drawing; methods are ranked by it
    chi2_error       mean |χ² − χ²_true| of the plug-in estimate from the unbiased table (POR's measure); naive beside it. An
                     answer that is always 0 has ``chi2_error_of_zero``, which noisy estimates exceed: the error says how far
                     off they are, and not which method tells more
    chi2_bias        mean of χ² − χ²_true with its sign: the estimate is kept from falling below 0
    rank_correlation Spearman, between true and estimated χ² of the truly top variants

Standard errors are between repeats, because the variants of one repeat share their people and statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from scipy.stats import spearmanr

from optrr.errors import InvalidInput
from optrr.genomics.chromosomes import refuse_single_copies
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Variants
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.noise import association_chi_squared
from optrr.genomics.plots import pooled_qq_slope
from optrr.genomics.protocols import METHODS, VariantReports, noncentralities, protocol_for, record_tables
from optrr.genomics.randomize import MissingPolicy, records_of
from optrr.genomics.scan import ScanOptions
from optrr.genomics.scores import Scores, naive_score_test, score_test
from optrr.mechanisms.kernel import unrandomized
from optrr.show.result import TableResult
from optrr_solvers.arrays import FloatArray, IntArray

# The fewest variants whose ranks are compared: two ranks are always perfectly correlated.
_FEWEST_RANKED = 3

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class StudyOptions:
    """What to compare.

    ``totals`` in nats; ``alpha`` the level of one test; ``top`` how many of the truly most associated variants the rank
    correlation looks at; ``missing_category``: randomize missing calls as a category instead of leaving them out.
    """

    totals: Sequence[float]
    repeats: int = 20
    methods: Sequence[str] = METHODS
    test: str = "trend"
    alpha: float = 0.05
    top: int = 20
    seed: int = 1
    missing: MissingPolicy = "refuse"
    missing_category: bool = False

    def __post_init__(self) -> None:
        ScanOptions(self.test)
        if not self.totals or not all(np.isfinite(t) and t > 0 for t in self.totals):
            raise InvalidInput(f"total epsilons {list(self.totals)}; give one or more positive numbers of nats")
        if self.repeats < 2:
            raise InvalidInput(f"{self.repeats} repeats; give at least 2, standard errors come from their spread")
        if not 0 < self.alpha < 1:
            raise InvalidInput(f"level {self.alpha}; give a number between 0 and 1")
        if self.top < _FEWEST_RANKED:
            raise InvalidInput(f"top {self.top}; give at least {_FEWEST_RANKED} variants to rank")
        for method in self.methods:
            if method not in METHODS:
                raise InvalidInput(f"unknown method {method!r}; choose among {', '.join(METHODS)}")


@dataclass(frozen=True, eq=False)
class Truth:
    """The unrandomized scan: statistics, which variants are associated, which are at the top, which vary at all."""

    scores: Scores
    people: IntArray
    associated: IntArray
    top: IntArray
    usable: IntArray
    tables: IntArray

    @property
    def compared(self) -> IntArray:
        """Variants whose noncentrality counts: the associated ones, or the top ones where none is."""
        return self.associated if self.associated.size else self.top

    def noncentrality_ratio(self, seen: Scores) -> float:
        """What is left in a randomized scan: its statistics and the true ones less what chance adds to each."""
        at = self.compared
        left, whole = (np.nansum(s.statistic[at] - s.df[at]) for s in (seen, self.scores))
        return float(left / whole) if whole > 0 else float("nan")

    def predicted_ratio(self, protocol: VariantReports, test: str) -> float:
        """The same, from the mechanism and the true tables alone."""
        at, asked = self.compared, protocol.reported / protocol.variants
        whole = noncentralities(self.tables[at], unrandomized(self.tables.shape[1:]), test)
        left = noncentralities(self.tables[at], protocol.kernel.part(at), test)
        return float(asked * (self.people[at] @ left) / (self.people[at] @ whole))

    @property
    def error_of_zero(self) -> float:
        """Mean χ² without randomization: the error of an answer that is always 0."""
        return float(np.mean(self.scores.statistic[self.usable]))


@dataclass(frozen=True, eq=False)
class Outcome:
    """One protocol at one total; ``measures`` maps each name to (mean, standard error) over the repeats.

    ``null_p`` and ``naive_null_p`` are all p-values under permuted phenotypes, ``first`` the first repeat's scores.
    """

    protocol: VariantReports
    total: float
    measures: dict[str, tuple[float, float]]
    null_p: FloatArray
    naive_null_p: FloatArray
    first: Scores


@dataclass(frozen=True, eq=False, repr=False)
class Study(TableResult):
    """All outcomes; ``unavailable``: (total, method, why) where a method cannot reach a total."""

    options: StudyOptions
    n: int
    cases: int
    variants: Variants
    truth: Truth
    outcomes: list[Outcome] = field(default_factory=list)
    unavailable: list[tuple[float, str, str]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    in_summary = ("n", "cases", "left_out")
    drawn = ("predicted_noncentrality_ratio",)

    def _keys(self) -> int:
        return 2

    def headline(self) -> str:
        """How many people and variants, and what was compared."""
        methods = ", ".join(dict.fromkeys(o.protocol.name for o in self.outcomes))
        return f"{self.n} people, {len(self.variants)} variants, {self.options.repeats} repeats: {methods or 'nothing'}"

    def rank(self, total: float) -> None:
        """Put the outcomes of a total in order, the one first that leaves most of the noncentrality."""
        mine = [o for o in self.outcomes if o.total == total]
        mine.sort(key=lambda o: -o.measures["predicted_noncentrality_ratio"][0])
        self.outcomes[:] = [o for o in self.outcomes if o.total != total] + mine

    def to_arrow(self) -> pa.Table:
        """One row for each protocol and total: what it costs, what it reports, every measure and its standard error.

        Of each total the method comes first that leaves most of the tests' noncentrality.
        """
        columns: dict[str, list[object]] = {
            "total": [o.total for o in self.outcomes],
            "method": [o.protocol.name for o in self.outcomes],
            "epsilon": [o.protocol.epsilon for o in self.outcomes],
            "lower_bound": [o.protocol.design.lower_bound for o in self.outcomes],
            "variants_reported": [o.protocol.reported for o in self.outcomes],
        }
        achieved = [o.protocol.design.attribute_epsilons for o in self.outcomes]
        columns["variant_epsilon"] = [float(np.median(e[1:])) for e in achieved]
        columns["status_epsilon"] = [float(e[0]) for e in achieved]
        columns["max_conditional_epsilon"] = [
            float(o.protocol.design.conditional_epsilons.max()) for o in self.outcomes
        ]
        columns["joint_eigenvalue"] = [
            float(np.median(np.abs(o.protocol.kernel.eigenvalues[..., 1, 1]))) for o in self.outcomes
        ]
        for name in self.outcomes[0].measures if self.outcomes else ():
            columns[name] = [o.measures[name][0] for o in self.outcomes]
            columns[f"{name}_se"] = [o.measures[name][1] for o in self.outcomes]
        columns["chi2_error_of_zero"] = [self.truth.error_of_zero for _ in self.outcomes]
        return pa.table(columns)


def run_study(cohort: Cohort, options: StudyOptions, progress: Report | None = None) -> Study:
    """Randomize, test and compare, for every total and method; O(totals · methods · repeats · n V).

    Memory: three times the records (n · V bytes) and the p-values of all permuted repeats.

    Raises
    ------
    InvalidInput
        for missing calls without a policy, a constant phenotype, and where no variant varies.
    """
    cohort.check_varies()
    refuse_single_copies(
        cohort.variants.chromosome, "a study is of two copies: leave these variants out (plink --autosome)"
    )
    generator = np.random.default_rng(options.seed)
    layout = layout_of(genomic_domain(list(cohort.variants.name), missing=options.missing_category))
    records = records_of(cohort, layout, options.missing)
    truth = _truth(record_tables(records, layout), options)
    left_out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
    still = len(cohort.variants) - truth.usable.size
    if still:
        left_out["variants that do not vary"] = still
    study = Study(options, cohort.n, int(cohort.status.sum()), cohort.variants, truth, left_out=left_out)
    steps = len(options.totals) * len(options.methods) * options.repeats
    done = 0
    for total in options.totals:
        for method in options.methods:
            try:
                protocol = protocol_for(method, cohort.variants.name, total, options.missing_category)
            except InvalidInput as error:
                study.unavailable.append((total, method, str(error)))
                done += options.repeats
                continue
            trials = []
            for _ in range(options.repeats):
                trials.append(_trial(protocol, records, truth, options, generator))
                done += 1
                if progress is not None:
                    progress(done, steps)
            predicted = truth.predicted_ratio(protocol, options.test)
            study.outcomes.append(_outcome(protocol, total, trials, predicted))
        study.rank(total)
    return study


def _truth(tables: IntArray, options: StudyOptions) -> Truth:
    scores = score_test(tables, unrandomized(tables.shape[1:]), options.test)
    usable = np.flatnonzero(np.isfinite(scores.p_value))
    if not usable.size:
        raise InvalidInput("no variant varies among these people; there is nothing to test")
    associated = usable[scores.p_value[usable] * usable.size <= 0.05]
    order = usable[np.argsort(-scores.statistic[usable], kind="stable")]
    return Truth(scores, tables.sum(axis=(1, 2)), associated, order[: options.top], usable, tables)


@dataclass(frozen=True, eq=False)
class _Trial:
    measures: dict[str, float]
    null_p: FloatArray
    naive_null_p: FloatArray
    scores: Scores


def _trial(
    protocol: VariantReports,
    records: np.ndarray[tuple[int, int], np.dtype[np.int8]],
    truth: Truth,
    options: StudyOptions,
    generator: np.random.Generator,
) -> _Trial:
    tables = protocol.tables(records, generator)
    kernel = protocol.kernel
    scores, naive = score_test(tables, kernel, options.test), naive_score_test(tables, options.test)
    # protocols that ask everybody for a few variants only have fewer people for each
    people = tables.sum(axis=(1, 2))
    estimate = association_chi_squared(tables, kernel, options.test) * truth.people / np.maximum(people, 1)
    error = (estimate - truth.scores.statistic)[truth.usable]
    permuted = records.copy()
    # the status is the first attribute of the genotype layout
    permuted[:, 0] = generator.permutation(records[:, 0])
    null_tables = protocol.tables(permuted, generator)
    # people are permuted, because p-values of a true null hypothesis are wanted and some variants are associated
    null_p = score_test(null_tables, kernel, options.test).p_value[truth.usable]
    naive_null_p = naive_score_test(null_tables, options.test).p_value[truth.usable]
    true, use, a = truth.scores.statistic, truth.usable, options.alpha
    p_values = scores.p_value[truth.associated]
    bonferroni = 0.05 / use.size
    measures = {
        "power": _share(p_values <= a),
        "power_bonferroni": _share(p_values <= bonferroni),
        "type_one": _share(null_p <= a),
        "naive_type_one": _share(naive_null_p <= a),
        "noncentrality_ratio": truth.noncentrality_ratio(scores),
        "chi2_error": float(np.nanmean(np.abs(error))),
        "chi2_bias": float(np.nanmean(error)),
        "naive_chi2_error": float(np.nanmean(np.abs(naive.statistic[use] - true[use]))),
        "rank_correlation": _rank(true[truth.top], scores.statistic[truth.top]),
    }
    return _Trial(measures, null_p, naive_null_p, scores)


def _share(hits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    return float(hits.mean()) if hits.size else float("nan")


def _rank(true: FloatArray, estimated: FloatArray) -> float:
    if true.size < _FEWEST_RANKED or np.ptp(true) == 0 or not np.isfinite(estimated).all() or np.ptp(estimated) == 0:
        return float("nan")
    return float(spearmanr(true, estimated).statistic)


def _outcome(protocol: VariantReports, total: float, trials: Sequence[_Trial], predicted: float) -> Outcome:
    measures = {}
    for name in trials[0].measures:
        values = np.array([t.measures[name] for t in trials])
        values = values[np.isfinite(values)]
        spread = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
        measures[name] = (float(values.mean()) if values.size else float("nan"), float(spread))
    measures["predicted_noncentrality_ratio"] = (predicted, 0.0)
    measures["qq_slope"] = pooled_qq_slope([t.null_p for t in trials])
    measures["naive_qq_slope"] = pooled_qq_slope([t.naive_null_p for t in trials])
    return Outcome(
        protocol,
        total,
        measures,
        np.concatenate([t.null_p for t in trials]),
        np.concatenate([t.naive_null_p for t in trials]),
        trials[0].scores,
    )
