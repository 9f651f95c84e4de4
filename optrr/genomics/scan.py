"""Association tests of every variant of a randomized cohort, under the design that randomized it.

The result of a scan: one row for each variant under the field's usual column names (PLINK's ``.assoc``), as a TSV.

    CHR SNP BP A1 A2 TEST N  F_A F_U      estimated frequency of A1 in cases and controls (noise may take it outside 0..1)
    STAT DF P                             χ² statistic, its degrees of freedom, p-value
    P_GC BONF FDR_BH                      p after genomic control, Bonferroni, Benjamini–Hochberg
    OR SE L95 U95                         odds ratio of A1, standard error of its logarithm (NA where the interval is not
                                          bounded) and 95 % interval; 0 and inf where noise leaves no limit
    EXPECTED                              smallest number of observed (randomized) records expected in a cell of genotype
                                          and status that somebody can truly be in (not of missing calls) if they were not
                                          associated; the smaller, the farther from χ²
    NAIVE_STAT NAIVE_P                    the test that takes randomized records for true ones, where asked for

Adjusted for public covariates (:mod:`optrr.genomics.adjusting`), TEST is ADD-COV, with strata alone CMH: OR is per copy, SE
and the interval are Wald's, and Z_STAT is ln OR / SE. A trait of numbers (LINEAR) has A1_FREQ, BETA and T_STAT = BETA / SE;
STAT is the square of Student's t. EXPECTED is NA there.

Every variant that varies has an interval; a variant that does not, like any undefined number, is NA.

Filters leave a variant out where its estimated minor allele frequency, call rate or Hardy–Weinberg p-value lies below the
threshold, as PLINK leaves it out by the value itself; how many estimates are within 1.96 standard errors of the threshold is
said, for these may be on its wrong side. Frequencies are of everybody, the test of proportions is of controls, as is usual,
because cases may depart from them by the association. Where missing calls are no category of the design their number is known,
and the call rate is what it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.display import amount, in_json
from optrr.core.domain import listed
from optrr.core.errors import InvalidInput, warn
from optrr.core.estimation import Observed, impossible_tables
from optrr.core.inference import bonferroni, false_discovery_rate
from optrr.core.mechanisms import EffectKernel
from optrr.genomics.alleles import refuse_turned
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Variants
from optrr.genomics.layout import STATUS, Layout, star_kernel
from optrr.genomics.odds import REACH, odds_ratios
from optrr.genomics.proportions import CONTROLS, Group, everybody, frequencies, proportions_test, rates_of_calls
from optrr.genomics.result_files import ColumnsResult, arrow_columns, check_form, write_plink2
from optrr.genomics.score_tests import (
    GENOME_WIDE,
    CopyTables,
    Progress,
    Scores,
    about_inflation,
    controlled_p,
    copy_tables,
    genomic_control,
    genotype_tests,
    inflation_chance,
    naive_is_harmless,
    naive_score_test,
    naive_shift,
    people_with,
    score_test,
)
from optrr.genomics.tail import FEW_EXPECTED
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Variants that a summary lists.
TOP = 10
PLOTS = ("manhattan", "qq")
# Columns of effects that stand beside the number of people; the others stand behind the tests.
_FREQUENCIES = ("F_A", "F_U", "A1_FREQ")
# What λ_GC says about confounding.
ON_LAMBDA = (
    "λ of randomized records says nothing about confounding, which it hides; adjust for public covariates or strata"
)
# An estimate this far below a threshold is equal to it but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Thresholds:
    """Variants are left out below: ``maf`` 0..0.5, ``hwe`` (a p-value) and ``call_rate`` 0..1; 0 leaves out none."""

    maf: float = 0.0
    hwe: float = 0.0
    call_rate: float = 0.0

    def __post_init__(self) -> None:
        for name, most in (("maf", 0.5), ("hwe", 1.0), ("call_rate", 1.0)):
            value = getattr(self, name)
            # written as a condition that must hold, so that a NaN is refused too
            if not 0 <= value <= most:
                option = name.replace("_", "-")
                raise InvalidInput(f"a threshold --{option} of {value:g}; give a number from 0 to {most:g}")

    def __bool__(self) -> bool:
        return max(self.maf, self.hwe, self.call_rate) > 0


NO_THRESHOLDS = Thresholds()


@dataclass(frozen=True, eq=False)
class Filtered:
    """Which variants are kept, (V,), how many are left out by reason, and what to say of doubtful ones."""

    kept: NDArray[np.bool_]
    skipped: dict[str, int]
    warnings: tuple[str, ...]


def filtered(
    tables: CopyTables, kernel: EffectKernel, thresholds: Thresholds, wanted: FloatArray, missing: bool
) -> Filtered:
    """The filters on counts (V, R, 2); a variant of which something is unknown is not left out by that.

    ``wanted``: people of each variant who should have a call, (V,); ``missing``: whether missing calls are a category.
    Raises InvalidInput where no variant is kept.
    """
    kept, skipped, warnings = np.ones(len(tables.two), dtype=np.bool_), {}, []

    def leave_out(below: NDArray[np.bool_], what: str, threshold: float) -> None:
        below = below & kept & (tables.people > 0)
        if count := int(np.count_nonzero(below)):
            skipped[f"with {what} below {threshold:g}"] = count
        kept[below] = False

    if thresholds.call_rate:
        rates = rates_of_calls(tables, kernel, wanted, missing, False)
        warnings += _doubtful(rates.estimate, rates.standard_error, "call rate", thresholds.call_rate)
        leave_out(rates.estimate < thresholds.call_rate - _ROUNDING, "a call rate", thresholds.call_rate)
    if thresholds.hwe:
        tested = proportions_test(Group.of(tables, kernel, CONTROLS))
        leave_out(tested.p_value < thresholds.hwe, "a Hardy-Weinberg p-value in controls", thresholds.hwe)
    if thresholds.maf:
        f = frequencies(everybody(tables, kernel), intervals=False)
        rarer = np.minimum(f.estimate, 1 - f.estimate)
        warnings += _doubtful(rarer, f.standard_error, "minor allele frequency", thresholds.maf)
        leave_out(rarer < thresholds.maf - _ROUNDING, "a minor allele frequency", thresholds.maf)
    if not kept.any():
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        raise InvalidInput(f"no variant is left to be tested ({reasons}); lower the thresholds")
    return Filtered(kept, skipped, tuple(warnings))


def _doubtful(estimate: FloatArray, error: FloatArray, what: str, threshold: float) -> list[str]:
    near = np.abs(estimate - threshold) < REACH * error
    count = int(np.count_nonzero(near))
    if not count:
        return []
    return [
        f"the {what} of {count} of {amount(near.size, 'variant')} cannot be told from {threshold:g}: 1.96 standard errors "
        "reach from the estimate to the threshold; the estimate decides whether it is left out"
    ]


class EffectColumns(Protocol):
    """Odds ratios or slopes of some variants."""

    @property
    def columns(self) -> dict[str, FloatArray]:
        """Under the names of a scan's table, in order."""
        ...


# Odds ratios or slopes of the variants of these numbers.
EffectsOf = Callable[[slice | IntArray], EffectColumns]


@dataclass(frozen=True, eq=False, repr=False)
class Associations(ColumnsResult):
    """Tests of every variant. ``naive`` holds the invalid test's p-values where they were asked for.

    ``odds_of``: odds ratios of the variants of these numbers; ``skipped``: variants left out by reason; ``warnings``: one line
    each; ``naive_harmless``: the share of variants whose naive test keeps its level (:mod:`optrr.genomics.score_tests`);
    ``adjusted_for``: the public covariates, empty without any.
    """

    variants: Variants
    test: str
    n: IntArray
    scores: Scores
    odds_of: EffectsOf
    naive: Scores | None
    skipped: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    naive_harmless: float | None = None
    adjusted_for: str = ""

    in_summary = ("test", "lambda_gc", "warnings")

    @property
    def lambda_gc(self) -> float:
        """Genomic control factor."""
        return genomic_control(self.scores.statistic, self.scores.df)

    @property
    def notes_on_naive(self) -> str:
        """Whether the naive test keeps its level, in one sentence."""
        what = "the naive test (NAIVE_P) takes randomized counts for true ones"
        if self.naive_harmless is None:
            return f"{what}; its p-values are not valid"
        if self.naive_harmless == 1:
            return (
                f"{what}; here its level holds, because the mechanism keeps genotype and status independent where they are "
                "(a product of mechanisms, or a margin that is nearly uniform)"
            )
        return (
            f"{what}; its p-values are not valid for {100 * (1 - self.naive_harmless):.3g} % of the variants: the mechanism "
            "itself makes genotype and status dependent there"
        )

    def headline(self) -> str:
        """Which test, of how many variants, and the smallest p-value."""
        best = self.top(1)
        least = f", smallest p {self.scores.p_value[best[0]]:.3g} ({self.variants.name[best[0]]})" if best.size else ""
        adjusted = f" adjusted for {self.adjusted_for}" if self.adjusted_for else ""
        return f"{self.test} test of {amount(len(self.variants), 'variant')}{adjusted}, λ {self.lambda_gc:.3g}{least}"

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object, with the variants of the smallest p-values."""
        s, p, top = self.scores, self.scores.p_value, self.rows(self.top(TOP))
        named: dict[str, Any] = {
            "n": int(self.n.max()),
            "variants": len(self.variants),
            "lambda_gc_p_value": inflation_chance(s.statistic, s.df),
            "genome_wide": int(np.sum(p <= GENOME_WIDE)),
            "bonferroni": int(np.sum(bonferroni(p) <= 0.05)),
            "skipped": dict(self.skipped),
            "top": [dict(zip(top, row, strict=True)) for row in zip(*top.values(), strict=True)],
        }
        adjusted = {"adjusted_for": self.adjusted_for} if self.adjusted_for else {}
        return {name: in_json(value) for name, value in named.items()} | adjusted | super().summary()

    def _head(self, count: int | None) -> tuple[pa.Table, int]:
        # odds ratios take most of the time, so they are worked out for the rows shown only
        return arrow_columns(self.rows(slice(count))), len(self.variants)

    def plot(self, kind: str = "manhattan") -> "Figure":
        """One of ``PLOTS``: manhattan or qq. Raises InvalidInput for another kind."""
        from optrr.genomics import plots  # noqa: PLC0415 (matplotlib takes a second to import)

        p = self.scores.p_value
        if kind == "qq":
            naive = {} if self.naive is None else {"naive test": self.naive.p_value}
            return plots.qq({f"{self.test} test": p} | naive)
        if kind not in PLOTS:
            raise InvalidInput(f"unknown plot {kind!r}; choose among {', '.join(PLOTS)}")
        return plots.manhattan(self.variants, p, self.test)

    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """The rows of the variants of these numbers, column by column; odds ratios are worked out for these only."""
        own = self.odds_of(which).columns
        first = {name: own.pop(name) for name in _FREQUENCIES if name in own}
        out: dict[str, NDArray[np.generic]] = {}
        for columns, effects in zip(self._statistics, (first, own, {}), strict=True):
            out |= {name: column[which] for name, column in columns.items()} | effects
        return out

    @cached_property
    def _statistics(self) -> tuple[dict[str, NDArray[np.generic]], ...]:
        """All columns but those of effects: before the frequencies, before the effects, behind them."""
        s, v = self.scores, self.variants
        what = {"CHR": v.chromosome, "SNP": v.name, "BP": v.position, "A1": v.a1, "A2": v.a2}
        tests: dict[str, NDArray[np.generic]] = {
            "STAT": s.statistic,
            "DF": s.df,
            "P": s.p_value,
            "P_GC": controlled_p(s.statistic, s.df),
            "BONF": bonferroni(s.p_value),
            "FDR_BH": false_discovery_rate(s.p_value),
        }
        behind: dict[str, NDArray[np.generic]] = {"EXPECTED": s.expected}
        if self.naive is not None:
            behind |= {"NAIVE_STAT": self.naive.statistic, "NAIVE_P": self.naive.p_value}
        return what | {"TEST": np.full(len(v), self.test.upper(), dtype=object), "N": self.n}, tests, behind

    def top(self, count: int) -> IntArray:
        """Numbers of the variants with the smallest p-values, best first; undefined ones never."""
        order = np.argsort(self.scores.p_value, kind="stable")
        return np.asarray(order[: min(count, int(np.isfinite(self.scores.p_value).sum()))])

    def write_plink2(self, path: Path) -> None:
        """Write the table with the columns of ``plink2 --glm`` (:func:`optrr.genomics.result_files.write_plink2`).

        Raises InvalidInput beside a naive test, which that form has no columns for.
        """
        check_form("plink2", self.naive is not None)
        write_plink2(self.columns, path)


_SINGLE = (
    "people with one copy, as men have of chromosome X, are left out of the test of {}: a scan with covariates counts them, "
    "with sex as a covariate"
)
# Why variants are left out that the tests have nobody for.
_NOBODY = "on a chromosome of which nobody has two copies: a scan with covariates tests single ones"


@dataclass(frozen=True)
class ScanOptions:
    """``test``: one of :func:`optrr.genomics.score_tests.genotype_tests`; ``naive``: also the test that ignores the mechanism.

    ``thresholds`` leave variants out, as above.
    """

    test: str = "trend"
    naive: bool = False
    thresholds: Thresholds = NO_THRESHOLDS

    def __post_init__(self) -> None:
        if self.test not in genotype_tests():
            raise InvalidInput(f"unknown test {self.test!r}; choose among {', '.join(genotype_tests())}")


def scan(
    cohort: Cohort, law: Law, layout: Layout, options: ScanOptions = ScanOptions(), progress: Progress | None = None
) -> Associations:
    """Tests of all variants of randomized genotypes.

    Time O(n V); memory one block of genotypes and about 400 bytes a variant.

    Parameters
    ----------
    cohort
        randomized genotypes and randomized status; its variants must be among the design's.
    law, layout
        of the design that randomized them.
    progress
        told how many of how many variants are done.

    Raises
    ------
    InvalidInput
        where a variant is not in the design.
    """
    kernel, tables = cohort_kernel(cohort, law, layout), copy_tables(cohort, layout.missing, progress)
    counted = np.flatnonzero(tables.two.any(axis=(1, 2)))
    doubts = impossible_tables([Observed(f"a variant × {STATUS}", tables.two[counted], kernel.part(counted))])
    # before the tests, so that a scan that is refused warns, too
    warn(doubts)
    made = associations(cohort, tables, kernel, options, layout.missing)
    return replace(made, warnings=(*doubts, *made.warnings))


def cohort_kernel(cohort: Cohort, law: Law, layout: Layout) -> EffectKernel:
    """The kernel of each of the cohort's variants beside the status, or one where all have the same; see `star`.

    A kernel without a batch serves all tables, and takes a part of the time.
    """
    kernel = star_kernel(law, layout.attributes[places_of(cohort.variants, layout)], layout.status)
    return kernel.part(0) if (kernel.eigenvalues == kernel.eigenvalues[0]).all() else kernel


def places_of(variants: Variants, layout: Layout) -> IntArray:
    """Which of the design's variants each is, (V,). Raises InvalidInput for one that is none, or whose alleles are turned."""
    position = dict(zip(layout.names, range(len(layout.names)), strict=True))
    names = variants.name.tolist()
    places = list(map(position.get, names))
    unknown = [name for name, place in zip(names, places, strict=True) if place is None]
    if unknown:
        raise InvalidInput(
            f"the records have {amount(len(unknown), 'variant')} that the design did not randomize ({listed(unknown)}); use "
            "the design file these records were randomized with"
        )
    refuse_turned(variants, layout)
    return np.array(places, dtype=np.int64)


def associations(
    cohort: Cohort, tables: CopyTables, kernel: EffectKernel, options: ScanOptions, missing: bool = False
) -> Associations:
    """Tests from counted tables (V, R, 2); variants without any call are left out and counted.

    The tests are of people who have two copies: of women on chromosome X, of nobody on Y and MT, as PLINK's --model has it.
    """
    people = tables.two.sum(axis=(1, 2))
    filters = filtered(tables, kernel, options.thresholds, people_with(cohort, 1), missing)
    kept = np.flatnonzero((people > 0) & filters.kept)
    if not kept.size:
        left = "that the thresholds leave " if people.any() else ""
        raise InvalidInput(
            f"no variant {left}has a single call of somebody whom the test counts; nothing can be tested"
        )
    kernel, n, two = kernel.part(kept), people[kept], tables.two[kept]
    scores, odds, naive, harmless = tested_tables(two, kernel, options)
    left_out = int(np.count_nonzero(tables.one[kept].any(axis=(1, 2))))
    skipped, said = _skipped(cohort, people, missing)
    return Associations(
        cohort.variants.take(kept),
        options.test,
        n,
        scores,
        odds,
        naive,
        skipped | filters.skipped,
        (
            *about_inflation(scores.statistic, scores.df),
            *said,
            *filters.warnings,
            *_doubts(scores, options.test),
            *([_SINGLE.format(amount(left_out, "variant"))] if left_out else []),
        ),
        harmless,
    )


def tested_tables(
    tables: IntArray, kernel: EffectKernel, options: ScanOptions
) -> tuple[Scores, EffectsOf, Scores | None, float | None]:
    """The tests of tables (V, R, 2), their odds ratios, and where asked for the naive test and how often it keeps its level."""
    scores = score_test(tables, kernel, options.test)
    fit, naive, harmless = scores.independence, None, None
    odds = lambda which: odds_ratios(tables[which], kernel.part(which), None if fit is None else fit.part(which))  # noqa: E731
    if options.naive:
        naive = naive_score_test(tables, options.test)
        if scores.fit is not None:
            shift = naive_shift(scores.fit, scores.n, options.test)
            harmless = float(naive_is_harmless(shift, naive.df[scores.tested]).mean())
    return scores, odds, naive, harmless


def _skipped(cohort: Cohort, people: IntArray, missing: bool) -> tuple[dict[str, int], list[str]]:
    """Variants left out by reason, and what to say of missing calls."""
    wanted = people_with(cohort, 2)
    gone = cohort.variants.name[(people == 0) & (wanted > 0)].tolist()
    counts = {"all calls missing": len(gone), _NOBODY: int(np.count_nonzero(wanted == 0))}
    incomplete = 0 if missing else int(np.sum((people > 0) & (people < wanted)))
    skipped = dict(cohort.genotypes.skipped) | {reason: count for reason, count in counts.items() if count}
    return skipped, about_missing_calls(gone, incomplete)


def about_missing_calls(without_any: list[str], incomplete: int) -> list[str]:
    """What to say of variants ``without_any`` call, by name, and of how many others lack some people's calls."""
    out = []
    if without_any:
        out.append(f"{amount(len(without_any), 'variant')} without any call left out: {listed(without_any)}")
    if incomplete:
        out.append(
            f"missing calls of {amount(incomplete, 'variant')} were left out one by one: which calls are missing is not "
            "randomized and no epsilon covers it"
        )
    return out


def _doubts(scores: Scores, test: str) -> list[str]:
    out = []
    undefined = int(np.sum(~np.isfinite(scores.p_value)))
    if undefined:
        out.append(
            f"p-values are NA for {amount(undefined, 'variant')} without variation that the {test} test could use"
        )
    few = int(np.sum(scores.expected < FEW_EXPECTED))
    if few:
        source = "simulation" if (scores.df > 1).any() else "saddlepoints"
        out.append(
            f"some cell of {amount(few, 'variant')} has fewer than {FEW_EXPECTED:g} observed records expected without an "
            f"association (EXPECTED); small p-values there come from {source}, not from the χ² limit"
        )
    return [*out, *(f"in {amount(count, 'variant')} {note} (DF)" for note, count in scores.notes.items())]
