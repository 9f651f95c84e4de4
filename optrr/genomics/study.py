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

Ways to randomize the same cohort at the same total ε, for comparison.

    optimum     the certified optimum over all variants and the status
    kronecker   each attribute on its own
    inductive   POR's heuristic (status first, so that its ε is not the one replaced)
    sampling    each person draws k variants in public and answers them and the status together, by one randomized response over
                all their combinations with the whole ε: λ = (e^ε − 1)/(e^ε + 2·3^k − 1) for every effect, and k/V of the
                people for each variant; k is the number that makes the test's noncentrality largest, for a variant of
                ordinary frequency and not for these data
    association the questions that keep most of what the trend test needs, tested by likelihood
                (:mod:`optrr.genomics.sampled_design`), for the share of cases and the frequencies that there are, as if they
                were known from elsewhere

Every protocol turns true records into count tables and says with which kernel to read them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import spearmanr

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes, Variants, refuse_single_copies
from optrr.genomics.layout import Layout, genomic_domain, layout_of, star_kernel
from optrr.genomics.plots import pooled_qq_slope
from optrr.genomics.randomize import MissingPolicy, randomize_records, records_of
from optrr.genomics.sampled_design import sampled_variants
from optrr.genomics.sampled_scan import associations_of, expected_noncentralities, likelihood_tests
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import ScanOptions
from optrr.genomics.tests import (
    Scores,
    association_chi_squared,
    genotype_tables,
    naive_score_test,
    noncentralities,
    score_test,
)
from optrr.mechanisms.kernel import EffectKernel, unrandomized
from optrr.show.result import TableResult
from optrr_solvers import Problem
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import FewChangesLaw
from optrr_solvers.randomness import as_source
from optrr_solvers.solution import checked

METHODS = ("optimum", "kronecker", "inductive", "sampling", "association")

# True shares of a variant of ordinary frequency, somewhat associated, by which the number of sampled variants is chosen.
_REFERENCE = np.array([[[0.28, 0.22], [0.19, 0.22], [0.03, 0.06]]])
# Beyond ε / ln 3 variants, each further one makes λ² smaller by nine; so many more are tried.
_BEYOND = 3
# Frequencies that a design is made for are not nearer to 0 and 1.
_RAREST = 0.005
# By so much, relative to 1 + ε, a law stays below the total.
_ROUNDING = 1e-8

# This many variants are counted at once.
_BLOCK = 2048
# People randomized at once when sampling variants: n · V keys would not fit for many variants.
_KEYS = 1 << 22


def record_tables(records: Codes, layout: Layout) -> IntArray:
    """Counts of all variants from records of the genotype layout, shape (V, R, 2)."""
    assert layout.status is not None
    status, at = records[:, layout.status], layout.attributes[:, 0]
    out = np.empty((at.size, GENOTYPES + layout.missing, 2), dtype=np.int64)
    for start in range(0, at.size, _BLOCK):
        chosen = slice(start, start + _BLOCK)
        codes = records[:, at[chosen]]
        if layout.missing:
            codes = np.where(codes == GENOTYPES, np.int8(MISSING), codes)
        out[chosen] = genotype_tables(codes, status, layout.missing)
    return out


@dataclass(frozen=True, eq=False)
class Seen:
    """What one randomized copy shows: the tests, those that take it for true records, and an estimate of each true χ², (V,)."""

    scores: Scores
    naive: Scores | None
    chi_squared: FloatArray


class StudiedWay(Protocol):
    """A way to randomize the cohort and to test what comes out."""

    @property
    def name(self) -> str:
        """One of METHODS."""

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats."""

    @property
    def reported(self) -> int:
        """Variants per person."""

    def labels(self) -> dict[str, float]:
        """What the design promises beside its total; NaN for what it does not know."""

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """One randomized copy of ``records`` (n, 1 + V; the status first), tested."""

    def expected(self, tables: IntArray, which: IntArray, test: str) -> FloatArray:
        """Noncentrality, for each person of the cohort, of these variants' tests, from their true tables (V, R, 2)."""


@dataclass(frozen=True, eq=False)
class VariantReports:
    """Who reports which variants: ``design`` is the way of asking for the status and the variants that a person reports.

    Where these are fewer than ``variants``, everybody draws which ones they are, anew and in public, among all.

    Parameters
    ----------
    name
        one of METHODS.
    missing
        whether a genotype may be missing.
    kernel
        of each variant beside the status, or one for all.
    """

    name: str
    design: Design
    variants: int
    missing: bool
    kernel: EffectKernel

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats; the choice of variants costs nothing, because it does not depend on the record."""
        return self.design.epsilon

    @property
    def reported(self) -> int:
        """Variants per person."""
        return self.design.domain.m - 1

    def labels(self) -> dict[str, float]:
        """Of the design, and the median visibility of an association."""
        achieved = self.design.attribute_epsilons
        return {
            "lower_bound": self.design.lower_bound,
            "variant_epsilon": float(np.median(achieved[1:])),
            "status_epsilon": float(achieved[0]),
            "max_conditional_epsilon": float(self.design.conditional_epsilons.max()),
            "joint_eigenvalue": float(np.median(np.abs(self.kernel.eigenvalues[..., 1, 1]))),
        }

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        tables = self.tables(records, generator)
        # where everybody is asked for a few variants only, fewer people are counted for each
        people = np.maximum(tables.sum(axis=(1, 2)), 1)
        whole = np.count_nonzero(records[:, 1:] != MISSING, axis=0)
        estimate = association_chi_squared(tables, self.kernel, test) * whole / people
        return Seen(score_test(tables, self.kernel, test), naive_score_test(tables, test), estimate)

    def expected(self, tables: IntArray, which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        return noncentralities(tables, self.kernel.part(which), test) * self.reported / self.variants

    def tables(self, records: Codes, generator: np.random.Generator) -> IntArray:
        """Counts of one randomized copy of ``records`` (n, 1 + V; the status first), shape (V, R, 2).

        Where variants are drawn, a person is counted only in the tables of the variants reported.
        """
        if self.reported < self.variants:
            return self._drawn_tables(records, generator)
        randomized = records.copy()
        randomize_records(randomized, self.design.mechanism, generator)
        return record_tables(randomized, layout_of(self.design.domain))

    def _drawn_tables(self, records: Codes, generator: np.random.Generator) -> IntArray:
        rows = GENOTYPES + self.missing
        cells = np.zeros(self.variants * rows * 2, dtype=np.int64)
        step = max(1, _KEYS // self.variants)
        source = as_source(generator)
        for start in range(0, records.shape[0], step):
            piece = records[start : start + step]
            chosen = np.argpartition(generator.random((piece.shape[0], self.variants)), self.reported - 1, axis=1)
            chosen = chosen[:, : self.reported]
            reports = np.concatenate([piece[:, :1], np.take_along_axis(piece, 1 + chosen, axis=1)], axis=1)
            randomize_records(reports, self.design.mechanism, source)
            genotype, status = reports[:, 1:], reports[:, :1]
            cell = (chosen * rows + genotype) * 2 + status
            cells += np.bincount(cell[genotype != MISSING], minlength=cells.size)
        return cells.reshape(self.variants, rows, 2)


@dataclass(frozen=True, eq=False)
class VariantQuestions:
    """Everybody answers about a few variants, by the design for association; the naive test of such answers has no meaning."""

    asking: SampledVariants

    name = "association"

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats."""
        return self.asking.epsilon

    @property
    def reported(self) -> int:
        """Variants per person."""
        return min(self.asking.each, len(self.asking.names))

    def labels(self) -> dict[str, float]:
        """None: the answers randomize no attribute by itself."""
        return {}

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        question, answer = self.asking.answered(records, as_source(generator))
        given = answer >= 0
        told = self.asking.told([(question[given], answer[given])])
        scanned = associations_of(self.asking, told, ScanOptions(test))
        whole = np.count_nonzero(records[:, 1:] != MISSING, axis=0) / np.maximum(scanned.n, 1)
        if test != "trend":
            tables = told[0][1].counts.reshape(-1, GENOTYPES, 2)
            return Seen(scanned.scores, None, association_chi_squared(tables, self.asking.kernel, test) * whole)
        # the statistic less what noise adds on average, for as many true records as there are
        kept = np.maximum(likelihood_tests(self.asking, told).kept, 1e-12)
        estimate = np.clip(1 + (scanned.scores.statistic - 1) / kept * whole, 0, whole * scanned.n)
        return Seen(scanned.scores, None, estimate)

    def expected(self, tables: IntArray, which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        people = float(tables.sum()) / len(tables)
        return expected_noncentralities(self.asking, tables[:, :GENOTYPES], which, test, people)


def protocol_for(  # noqa: PLR0913 (who, what, for how much, and what is known of the people)
    method: str,
    names: NDArray[np.object_],
    total: float,
    missing: bool = False,
    cases: float | None = None,
    frequencies: FloatArray | None = None,
    test: str = "trend",
) -> StudiedWay:
    """The protocol of that name at that total; one for association is made for a share of cases, and frequencies of A1.

    Raises
    ------
    InvalidInput
        where the method cannot reach so small a total (POR's heuristic, for many variants).
    """
    if method not in METHODS:
        raise InvalidInput(f"unknown method {method!r}; choose among {', '.join(METHODS)}")
    if method == "association":
        if missing:
            raise InvalidInput(
                "answers about a few variants have no category for missing calls; leave them out instead"
            )
        known = None if frequencies is None else np.clip(frequencies, _RAREST, 1 - _RAREST)
        asking = sampled_variants([str(n) for n in names], total, cases=cases, frequencies=known)
        if asking.reports and test != "trend":
            raise InvalidInput(f"answers that name sets of cells have no {test} test; leave it out, or --test trend")
        return VariantQuestions(asking)
    if method == "sampling":
        return _best_sampling(names, total, missing)
    solver = "auto" if method == "optimum" else method
    design = genomic_design(Wanted(list(names), missing=missing, method=solver), Budget(total=total))
    return _whole_record(method, design)


def _whole_record(name: str, design: Design) -> VariantReports:
    """Everybody reports all variants."""
    layout = layout_of(design.domain)
    assert layout.status is not None
    kernel = star_kernel(design.law, layout.attributes[:, 0], layout.status)
    return VariantReports(name, design, layout.variants, layout.missing, kernel)


def _best_sampling(names: NDArray[np.object_], total: float, missing: bool) -> VariantReports:
    """The number of variants per person that shows most: of all that a total can carry, since λ falls by a third with each."""
    best: tuple[float, VariantReports] | None = None
    for k in range(1, min(names.size, math.ceil(total / math.log(GENOTYPES)) + _BEYOND) + 1):
        design = _joint_response(k, total, missing)
        kernel = star_kernel(design.law, np.array([1]), 0).part(0)
        if best is not None and not kernel.is_invertible:
            break
        value = k * float(noncentralities(_REFERENCE, kernel)[0])
        if best is None or value > best[0]:
            best = value, VariantReports("sampling", design, int(names.size), missing, kernel)
    assert best is not None
    return best[1]


def _joint_response(k: int, total: float, missing: bool) -> Design:
    """One randomized response over all combinations of a status and k genotypes: e^ε to 1 for the true one."""
    started = time.perf_counter()
    domain = genomic_domain([f"report {j + 1}" for j in range(k)], missing=missing)
    # labels are rounded up, and must not pass the total
    law = FewChangesLaw(domain.sizes, total - _ROUNDING * (1 + total), np.zeros(domain.m))
    problem = Problem(domain.sizes, law.attribute_epsilons(), names=domain.names)
    return Design(domain, checked(problem, "k-ary", law, None, started=started, tolerance=None))


# What a table of outcomes says of the designs.
_LABELS = ("lower_bound", "variant_epsilon", "status_epsilon", "max_conditional_epsilon", "joint_eigenvalue")
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

    def predicted_ratio(self, protocol: StudiedWay, test: str) -> float:
        """The same, from the mechanism and the true tables alone."""
        at = self.compared
        whole = noncentralities(self.tables[at], unrandomized(self.tables.shape[1:]), test)
        left = protocol.expected(self.tables[at], at, test)
        return float((self.people[at] @ left) / (self.people[at] @ whole))

    @property
    def error_of_zero(self) -> float:
        """Mean χ² without randomization: the error of an answer that is always 0."""
        return float(np.mean(self.scores.statistic[self.usable]))


@dataclass(frozen=True, eq=False)
class Outcome:
    """One protocol at one total; ``measures`` maps each name to (mean, standard error) over the repeats.

    ``null_p`` and ``naive_null_p`` are all p-values under permuted phenotypes, ``first`` the first repeat's scores.
    """

    protocol: StudiedWay
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
            "variants_reported": [o.protocol.reported for o in self.outcomes],
        }
        promised = [o.protocol.labels() for o in self.outcomes]
        for name in _LABELS:
            columns[name] = [labels.get(name, math.nan) for labels in promised]
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
    share = float(cohort.status.mean())
    called = truth.tables[:, :GENOTYPES].sum(axis=2)
    often = called @ np.arange(GENOTYPES) / np.maximum(2 * called.sum(axis=1), 1)
    steps = len(options.totals) * len(options.methods) * options.repeats
    done = 0
    for total in options.totals:
        for method in options.methods:
            try:
                protocol = protocol_for(
                    method, cohort.variants.name, total, options.missing_category, share, often, options.test
                )
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
    protocol: StudiedWay,
    records: np.ndarray[tuple[int, int], np.dtype[np.int8]],
    truth: Truth,
    options: StudyOptions,
    generator: np.random.Generator,
) -> _Trial:
    seen = protocol.seen(records, options.test, generator)
    scores, naive = seen.scores, seen.naive
    error = (seen.chi_squared - truth.scores.statistic)[truth.usable]
    permuted = records.copy()
    # the status is the first attribute of the genotype layout; people are permuted, because p-values of a true null hypothesis
    # are wanted and some variants are associated
    permuted[:, 0] = generator.permutation(records[:, 0])
    null = protocol.seen(permuted, options.test, generator)
    null_p = null.scores.p_value[truth.usable]
    nothing = np.full(truth.usable.size, np.nan)
    naive_null_p = nothing if null.naive is None else null.naive.p_value[truth.usable]
    naive_error = nothing if naive is None else np.abs(naive.statistic - truth.scores.statistic)[truth.usable]
    true, use, a = truth.scores.statistic, truth.usable, options.alpha
    p_values = scores.p_value[truth.associated]
    bonferroni = 0.05 / use.size
    measures = {
        "power": _share(p_values <= a),
        "power_bonferroni": _share(p_values <= bonferroni),
        "type_one": _share(null_p <= a),
        "naive_type_one": math.nan if null.naive is None else _share(naive_null_p <= a),
        "noncentrality_ratio": truth.noncentrality_ratio(scores),
        "chi2_error": float(np.nanmean(np.abs(error))),
        "chi2_bias": float(np.nanmean(error)),
        "naive_chi2_error": math.nan if naive is None else float(np.nanmean(naive_error)),
        "rank_correlation": _rank(true[truth.top], scores.statistic[truth.top]),
    }
    return _Trial(measures, null_p, naive_null_p, scores)


def _share(hits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    return float(hits.mean()) if hits.size else float("nan")


def _rank(true: FloatArray, estimated: FloatArray) -> float:
    if true.size < _FEWEST_RANKED or np.ptp(true) == 0 or not np.isfinite(estimated).all() or np.ptp(estimated) == 0:
        return float("nan")
    return float(spearmanr(true, estimated).statistic)


def _outcome(protocol: StudiedWay, total: float, trials: Sequence[_Trial], predicted: float) -> Outcome:
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
