"""Association tests of every variant of a randomized cohort, under the design that randomized it.

The result of a scan: one row for each variant under the field's usual column names (PLINK's ``.assoc``), as a TSV.

    CHR SNP BP A1 A2 TEST N  F_A F_U      estimated frequency of A1 in cases and controls (noise may take it outside 0..1)
    STAT DF P                             χ² statistic, its degrees of freedom, p-value
    P_GC BONF FDR_BH                      p after genomic control, Bonferroni, Benjamini–Hochberg
    OR SE L95 U95                         odds ratio of A1, standard error of its logarithm (NA where the interval is not
                                          bounded) and 95 % interval; 0 and inf where noise leaves no limit
    EXPECTED                              smallest number of observed (randomized) records expected in a cell of genotype
                                          and status that is possible without noise (not of missing calls) if they were not
                                          associated; the smaller, the farther from χ²

Adjusted for public covariates (:mod:`optrr.genomics.adjusting`), TEST is ADD-COV, with strata alone CMH: OR is per
copy, SE and the interval are Wald's, and Z_STAT is ln OR / SE. A trait of numbers (LINEAR) has A1_FREQ, BETA and T_STAT
= BETA / SE; STAT is the square of Student's t. EXPECTED is NA there.

Every variant that varies has an interval; a variant that does not, like any undefined number, is NA.

Filters leave a variant out where its estimated minor allele frequency or Hardy–Weinberg p-value lies below the
threshold, as PLINK leaves it out by the value itself; a warning counts the frequencies within 1.96 standard errors of
the threshold, which may be on its wrong side. Frequencies are of all people, the test of proportions is of controls, as
is usual, because cases may depart from them by the association.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import Table, amount, in_json
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
from optrr.genomics.proportions import CONTROLS, Group, everybody, frequencies, proportions_test
from optrr.genomics.result_files import ColumnsResult
from optrr.genomics.score_tests import (
    GENOME_WIDE,
    CopyTables,
    Progress,
    Scores,
    about_inflation,
    controlled_p,
    copy_tables,
    genomic_control,
    inflation_chance,
    people_with,
    score_test,
)
from optrr.genomics.tail import FEW_EXPECTED
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Variants that a summary, a terminal and a page list.
TOP = 10
# Columns of effects printed next to the number of people; the others follow the tests.
_FREQUENCIES = ("F_A", "F_U", "A1_FREQ")
# Remark on λ_GC and confounding.
ON_LAMBDA = (
    "λ of randomized records does not show confounding, because noise hides it; adjust for public covariates or strata"
)
_ON_ANSWERS = "N counts the people whose query contained the variant."
# An estimate this far below a threshold is equal to it but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Filtered:
    """Selection of variants, (V,), with counts by reason and warnings."""

    kept: NDArray[np.bool_]
    skipped: dict[str, int]
    warnings: tuple[str, ...]


def filtered(tables: CopyTables, kernel: EffectKernel, maf: float, hwe: float) -> Filtered:
    """Filter variants by counts (V, R, 2).

    An unknown quantity does not exclude a variant.

    ``maf`` (0..0.5) is the smallest minor allele frequency and ``hwe`` (0..1) the smallest Hardy–Weinberg p-value in
    controls; 0 leaves out none. Raises InvalidInput for numbers outside, and where no variant is kept.
    """
    for name, value, most in (("maf", maf, 0.5), ("hwe", hwe, 1.0)):
        # written as a condition that must hold, so that a NaN is refused too
        if not 0 <= value <= most:
            raise InvalidInput(f"``{name}`` {value:g}: give a number from 0 to {most:g}")
    kept, skipped, warnings = np.ones(len(tables.two), dtype=np.bool_), {}, []

    def leave_out(below: NDArray[np.bool_], what: str, threshold: float) -> None:
        below = below & kept & (tables.people > 0)
        if count := int(np.count_nonzero(below)):
            skipped[f"with {what} below {threshold:g}"] = count
        kept[below] = False

    if hwe:
        tested = proportions_test(Group.of(tables, kernel, CONTROLS))
        leave_out(tested.p_value < hwe, "a Hardy-Weinberg p-value in controls", hwe)
    if maf:
        f = frequencies(everybody(tables, kernel), intervals=False)
        rarer = np.minimum(f.estimate, 1 - f.estimate)
        if count := int(np.count_nonzero(np.abs(rarer - maf) < REACH * f.standard_error)):
            warnings.append(
                f"the minor allele frequency of {count} of {amount(rarer.size, 'variant')} is uncertain relative to "
                f"{maf:g}: 1.96 "
                "standard errors reach from the estimate to the threshold; the estimate decides on exclusion"
            )
        leave_out(rarer < maf - _ROUNDING, "a minor allele frequency", maf)
    if not kept.any():
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        raise InvalidInput(f"no variant is left to test ({reasons}); lower the thresholds")
    return Filtered(kept, skipped, tuple(warnings))


def doubts_of_genotypes(lines: Iterable[str]) -> list[str]:
    """Name the command that randomizes genotypes in warnings about the origin of records."""
    return [line.replace("`optrr randomize`", "`optrr gwas randomize`") for line in lines]


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
    """Tests of every variant.

    ``odds_of``: odds ratios of the variants of these numbers; ``skipped``: variants left out by reason; ``warnings``:
    one line each; ``adjusted_for``: the public covariates, empty without any; ``of_answers``: whether people answered
    local queries.
    """

    variants: Variants
    test: str
    n: IntArray
    scores: Scores
    odds_of: EffectsOf
    skipped: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    adjusted_for: str = ""
    of_answers: bool = False

    in_summary = ("test", "lambda_gc", "warnings")

    @property
    def lambda_gc(self) -> float:
        """Genomic control factor."""
        return genomic_control(self.scores.statistic, self.scores.df)

    def headline(self) -> str:
        """Summarize the test, the significant variants and genomic control."""
        p, adjusted = self.scores.p_value, f" adjusted for {self.adjusted_for}" if self.adjusted_for else ""
        return (
            f"{self.test} test of {amount(len(self.variants), 'variant')}{adjusted}: "
            f"{int(np.sum(bonferroni(p) <= 0.05))} "
            f"significant by Bonferroni at 5 %, {int(np.sum(p <= GENOME_WIDE))} at 5e-8; genomic control λ = "
            f"{self.lambda_gc:.3f}"
        )

    def shown(self, most: int | None = TOP) -> Table:
        """Tabulate the variants with the smallest p-values."""
        rows = self.rows(self.top(TOP if most is None else min(most, TOP)))
        effect = "BETA" if "BETA" in rows else "OR"
        names = ["CHR", "SNP", "BP", "A1", "N", "STAT", "P", "FDR_BH", effect, "L95", "U95"]
        table = list(zip(*(rows[name].tolist() for name in names), strict=True))
        left_out = len(self.variants) - len(table)
        return Table(names, table, note=f"… and {amount(left_out, 'more variant')}" if left_out else "")

    def sentences(self) -> tuple[str, ...]:
        """Explain limits, numbers of people and λ."""
        lowest, effect = ("-inf", "slope") if self.test == "linear" else ("0", "odds ratio")
        limits = f"L95 = {lowest} or U95 = inf: the noise leaves this limit of the {effect} open."
        return (limits, *([_ON_ANSWERS] if self.of_answers else []), f"{ON_LAMBDA}.")

    def summary(self) -> dict[str, Any]:
        """Return the JSON object with the variants of the smallest p-values."""
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

    def plot(self, kind: str = "manhattan") -> "Figure":
        """Draw −log10 p along the genome ("manhattan") or against the uniform law ("qq")."""
        from optrr.genomics import plots  # noqa: PLC0415 (matplotlib takes a second to import)

        p = self.scores.p_value
        if kind == "qq":
            return plots.qq({f"{self.test} test": p})
        if kind != "manhattan":
            raise InvalidInput(f"``kind`` {kind!r}: unknown plot; give 'manhattan' or 'qq'")
        return plots.manhattan(self.variants, p, self.test)

    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """Select rows, column by column; odds ratios are computed for these only."""
        own = self.odds_of(which).columns
        first = {name: own.pop(name) for name in _FREQUENCIES if name in own}
        out: dict[str, NDArray[np.generic]] = {}
        for columns, effects in zip(self._statistics, (first, own, {}), strict=True):
            out |= {name: column[which] for name, column in columns.items()} | effects
        return out

    @property
    def _statistics(self) -> tuple[dict[str, NDArray[np.generic]], ...]:
        """Columns except the effects: before frequencies, before effects, after them."""
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
        first = what | {"TEST": np.full(len(v), self.test.upper(), dtype=object), "N": self.n}
        return first, tests, {"EXPECTED": s.expected}

    def top(self, count: int) -> IntArray:
        """List the variants with the smallest p-values, smallest first.

        Undefined p-values are left out.
        """
        order = np.argsort(self.scores.p_value, kind="stable")
        return np.asarray(order[: min(count, int(np.isfinite(self.scores.p_value).sum()))])


_SINGLE = (
    "people with one copy, such as males for chromosome X, are left out of the test of {}; scan with covariates to "
    "include them, with sex as a covariate"
)
# Why variants are left out that the tests have nobody for.
_NOBODY = "on a chromosome without two copies; scan with covariates to test single copies"


def scan(  # noqa: PLR0913 (people, the design's two, the test and what is left out)
    cohort: Cohort,
    law: Law,
    layout: Layout,
    test: str = "trend",
    *,
    maf: float = 0.0,
    hwe: float = 0.0,
    progress: Progress | None = None,
) -> Associations:
    """Test every variant of randomized genotypes for association with the status.

    Takes time O(n V); memory one block of genotypes and about 400 bytes a variant.

    Parameters
    ----------
    cohort
        randomized genotypes and randomized status; its variants must be among the design's.
    law, layout
        of the design that randomized them.
    test
        one of :func:`optrr.genomics.score_tests.genotype_tests`.
    maf, hwe
        variants are left out whose estimated minor allele frequency (0..0.5), or Hardy–Weinberg p-value in controls
        (0..1), is below; 0 leaves out none.
    progress
        told how many of how many variants are done.

    Returns
    -------
    Associations
        a row for each variant.

    Raises
    ------
    InvalidInput
        where a variant is not in the design, and where no variant is left.
    """
    cohort.check_varies()
    kernel, tables = cohort_kernel(cohort, law, layout), copy_tables(cohort, layout.missing, progress)
    counted = np.flatnonzero(tables.two.any(axis=(1, 2)))
    doubts = impossible_tables([Observed(f"a variant × {STATUS}", tables.two[counted], kernel.part(counted))])
    # before the tests, so that a scan that is refused warns, too
    warn(doubts)
    made = associations(cohort, tables, kernel, test, maf=maf, hwe=hwe, missing=layout.missing)
    return replace(made, warnings=(*doubts, *made.warnings))


def cohort_kernel(cohort: Cohort, law: Law, layout: Layout) -> EffectKernel:
    """Build the kernel of each variant with the status, or one if all are alike.

    See `star`.

    A kernel without a batch serves all tables, and takes a part of the time.
    """
    kernel = star_kernel(law, layout.attributes[places_of(cohort.variants, layout)], layout.status)
    return kernel.part(0) if (kernel.eigenvalues == kernel.eigenvalues[0]).all() else kernel


def places_of(variants: Variants, layout: Layout) -> IntArray:
    """Find the design's number of each variant, (V,).

    Raises InvalidInput for an unknown variant or one whose alleles are swapped.
    """
    position = dict(zip(layout.names, range(len(layout.names)), strict=True))
    names = variants.name.tolist()
    places = list(map(position.get, names))
    unknown = [name for name, place in zip(names, places, strict=True) if place is None]
    if unknown:
        raise InvalidInput(
            f"the records have {amount(len(unknown), 'variant')} that the design did not randomize "
            f"({listed(unknown)}); use "
            "the design file these records were randomized with"
        )
    refuse_turned(variants, layout)
    return np.array(places, dtype=np.int64)


def associations(  # noqa: PLR0913 (as :func:`scan`)
    cohort: Cohort,
    tables: CopyTables,
    kernel: EffectKernel,
    test: str = "trend",
    *,
    maf: float = 0.0,
    hwe: float = 0.0,
    missing: bool = False,
) -> Associations:
    """Test counted tables (V, R, 2).

    Variants without any call are left out and counted.

    The tests are of people with two copies: of females on chromosome X, of no people on Y and MT, as in PLINK's
    --model.
    """
    people, filters = tables.two.sum(axis=(1, 2)), filtered(tables, kernel, maf, hwe)
    kept = np.flatnonzero((people > 0) & filters.kept)
    if not kept.size:
        left = "within the thresholds " if people.any() else ""
        raise InvalidInput(f"no variant {left}has a call of a person in the test; check the missing calls")
    kernel, n, two = kernel.part(kept), people[kept], tables.two[kept]
    scores = score_test(two, kernel, test)
    odds = lambda which: odds_ratios(two[which], kernel.part(which))  # noqa: E731
    left_out = int(np.count_nonzero(tables.one[kept].any(axis=(1, 2))))
    skipped, said = _skipped(cohort, people, missing)
    return Associations(
        cohort.variants.take(kept),
        test,
        n,
        scores,
        odds,
        skipped | filters.skipped,
        (
            *about_inflation(scores.statistic, scores.df),
            *said,
            *filters.warnings,
            *_doubts(scores, test),
            *([_SINGLE.format(amount(left_out, "variant"))] if left_out else []),
        ),
    )


def _skipped(cohort: Cohort, people: IntArray, missing: bool) -> tuple[dict[str, int], list[str]]:
    """Count the variants left out by reason, with warnings on missing calls."""
    wanted = people_with(cohort, 2)
    gone = cohort.variants.name[(people == 0) & (wanted > 0)].tolist()
    counts = {"all calls missing": len(gone), _NOBODY: int(np.count_nonzero(wanted == 0))}
    incomplete = 0 if missing else int(np.sum((people > 0) & (people < wanted)))
    skipped = dict(cohort.genotypes.skipped) | {reason: count for reason, count in counts.items() if count}
    return skipped, about_missing_calls(gone, incomplete)


def about_missing_calls(without_any: list[str], incomplete: int) -> list[str]:
    """Warn of variants ``without_any`` call and of those lacking some calls."""
    out = []
    if without_any:
        out.append(f"{amount(len(without_any), 'variant')} without calls left out: {listed(without_any)}")
    if incomplete:
        out.append(
            f"missing calls of {amount(incomplete, 'variant')} were left out one by one: which calls are missing is "
            "not randomized and not covered by epsilon"
        )
    return out


def _doubts(scores: Scores, test: str) -> list[str]:
    out = []
    undefined = int(np.sum(~np.isfinite(scores.p_value)))
    if undefined:
        out.append(f"p-values are NA for {amount(undefined, 'variant')} without variation that the {test} test can use")
    few = int(np.sum(scores.expected < FEW_EXPECTED))
    if few:
        source = "simulation" if (scores.df > 1).any() else "saddlepoints"
        out.append(
            f"a cell of {amount(few, 'variant')} has fewer than {FEW_EXPECTED:g} records expected under the null "
            f"hypothesis (EXPECTED); small p-values there come from {source}, not from the χ² limit"
        )
    return [*out, *(f"in {amount(count, 'variant')} {note} (DF)" for note, count in scores.notes.items())]
