"""Estimates of each variant from randomized genotypes: frequency of A1, call rate, and Hardy–Weinberg proportions.

One row for each variant, as a TSV:

    CHR SNP BP A1 A2 N     N: reports about it
    FREQ SE L95 U95        frequency of A1, of all copies (a male's chromosome X counts once),
                           standard error and interval
    CALL_RATE CALL_SE CALL_L95 CALL_U95      proportion of the people with a known call; with an error where missing calls are
                                             randomized, too
    HWE_STAT HWE_P         test of Hardy–Weinberg proportions in all people with two copies, χ² with 1 degree of freedom
    HWE_STAT_U HWE_P_U     in controls
    F_A SE_A L95_A U95_A F_U SE_U L95_U U95_U      if requested: the frequency in cases and in controls

Estimates are unbiased, so that noise may take them outside 0..1; intervals of 95 % are inside. Undefined numbers are
NA.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import Table, amount, interval_figure
from optrr.core.errors import InvalidInput, warn
from optrr.core.estimation import Observed, impossible_tables
from optrr.core.inference import bonferroni
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Variants
from optrr.genomics.layout import Layout
from optrr.genomics.proportions import (
    CASES,
    CONTROLS,
    STEPPED,
    Group,
    Proportions,
    ProportionsTest,
    everybody,
    frequencies,
    proportions_test,
    rates_of_calls,
)
from optrr.genomics.result_files import ColumnsResult, rows_in_json
from optrr.genomics.scan import cohort_kernel
from optrr.genomics.score_tests import Progress, copy_tables, people_with
from optrr_solvers.arrays import IntArray
from optrr_solvers.laws import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Variants that a chart shows.
_DRAWN = 40


@dataclass(frozen=True, eq=False, repr=False)
class VariantReport(ColumnsResult):
    """Estimates of every variant, arrays of shape (V,); see the module.

    ``cases`` and ``controls`` are frequencies there, if requested; ``call_rate`` is NaN if unknown. ``skipped``:
    variants that the reader left out, by reason.
    """

    variants: Variants
    n: IntArray
    frequency: Proportions
    call_rate: Proportions
    proportions: ProportionsTest
    proportions_in_controls: ProportionsTest
    cases: Proportions | None = None
    controls: Proportions | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    in_summary = ("warnings",)

    def headline(self) -> str:
        """Summarize the variants, frequencies and departures from Hardy–Weinberg."""
        # noise takes estimates below 0, which no frequency is
        rarer = np.maximum(self.rarer, 0.0)
        f = np.nanquantile(rarer, [0.0, 0.5, 1.0]) if np.isfinite(rarer).any() else [np.nan] * 3
        return (
            f"{amount(len(self.variants), 'variant')}; estimated minor allele frequencies {f[0]:.3g} to {f[2]:.3g}, "
            "median "
            f"{f[1]:.3g}; {self.departing} of them deviate from Hardy-Weinberg proportions in controls (Bonferroni at "
            "5 %)"
        )

    @property
    def rarer(self) -> NDArray[np.float64]:
        """Estimated frequency of the rarer allele, (V,); noise may take it below 0."""
        return np.minimum(self.frequency.estimate, 1 - self.frequency.estimate)

    @property
    def departing(self) -> int:
        """Variants out of Hardy–Weinberg proportions in controls by Bonferroni at 5 %."""
        return int(np.sum(bonferroni(self.proportions_in_controls.p_value) <= 0.05))

    def summary(self) -> dict[str, Any]:
        """Return the JSON object: the table's columns by variant, and warnings."""
        counts = {"n": int(self.n.max()), "variants": len(self.variants), "departing_in_controls": self.departing}
        return counts | {"skipped": dict(self.skipped), "results": rows_in_json(self.columns)} | super().summary()

    def shown(self, most: int | None = None) -> Table:
        """Tabulate the first variants' estimates and intervals."""
        names = ["SNP", "A1", "N", "FREQ", "L95", "U95", "CALL_RATE", "HWE_P", "HWE_P_U"]
        names += [name for name in ("F_A", "F_U") if name in self.columns]
        rows = [list(row) for row in zip(*(self.columns[name][:most].tolist() for name in names), strict=True)]
        left_out = len(self.variants) - len(rows)
        return Table(names, rows, note=f"… and {left_out} more variants" if left_out else "")

    def plot(self) -> "Figure":
        """Plot the first variants' frequencies of A1 with intervals."""
        names, f = [str(name) for name in self.variants.name[:_DRAWN]], self.frequency
        return interval_figure(names, f.estimate[:_DRAWN], (f.low[:_DRAWN], f.high[:_DRAWN]), "frequency of A1", None)

    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """Select rows, column by column."""
        v, call = self.variants, self.call_rate
        out: dict[str, NDArray[np.generic]] = {
            "CHR": v.chromosome,
            "SNP": v.name,
            "BP": v.position,
            "A1": v.a1,
            "A2": v.a2,
            "N": self.n,
            **_of_proportions(self.frequency, "FREQ", ""),
            "CALL_RATE": call.estimate,
            "CALL_SE": call.standard_error,
            "CALL_L95": call.low,
            "CALL_U95": call.high,
            "HWE_STAT": self.proportions.statistic,
            "HWE_P": self.proportions.p_value,
            "HWE_STAT_U": self.proportions_in_controls.statistic,
            "HWE_P_U": self.proportions_in_controls.p_value,
        }
        if self.cases is not None and self.controls is not None:
            out |= _of_proportions(self.cases, "F_A", "_A") | _of_proportions(self.controls, "F_U", "_U")
        return {name: column[which] for name, column in out.items()}


def _of_proportions(p: Proportions, name: str, ending: str) -> dict[str, NDArray[np.generic]]:
    return {name: p.estimate, f"SE{ending}": p.standard_error, f"L95{ending}": p.low, f"U95{ending}": p.high}


def variant_report(
    cohort: Cohort, law: Law, layout: Layout, by_status: bool = False, progress: Progress | None = None
) -> VariantReport:
    """Estimate each variant of a randomized cohort.

    ``law`` and ``layout`` are those of the design that randomized it.

    ``by_status``: frequencies in cases and in controls, too. Time O(n V) for counting, and about 0.2 ms a variant.

    Raises
    ------
    InvalidInput
        where a variant is not in the design, and where no variant has a call.
    """
    kernel = cohort_kernel(cohort, law, layout)
    tables = copy_tables(cohort, layout.missing, progress)
    if not tables.people.any():
        raise InvalidInput("all calls are missing; give variants with calls")
    doubts = list(impossible_tables([Observed("a variant × status", tables.two, kernel)]))
    warn(doubts)
    wanted = people_with(cohort, 1)
    proportions, in_controls = (proportions_test(Group.of(tables, kernel, s)) for s in (None, CONTROLS))
    if incomplete := 0 if layout.missing else int(np.sum(tables.people < wanted)):
        doubts.append(
            f"calls of {amount(incomplete, 'variant')} are missing, which is not randomized: it is not covered by "
            "epsilon, and CALL_RATE has no error"
        )
    if few := int(np.count_nonzero((proportions.expected < STEPPED) | (in_controls.expected < STEPPED))):
        doubts.append(
            f"in {amount(few, 'variant')} a reported genotype has an expected count below {STEPPED:g}, so HWE_P is "
            "discrete: 2 to 9 % of variants in Hardy-Weinberg proportions are below 0.05 there; use smaller "
            "thresholds (0.001 and below)"
        )
    who = (2, 1) if tables.one.any() else (2,)
    cases, controls = (frequencies(Group.of(tables, kernel, s, who)) if by_status else None for s in (CASES, CONTROLS))
    return VariantReport(
        cohort.variants,
        tables.people.astype(np.int64),
        frequencies(everybody(tables, kernel)),
        rates_of_calls(tables, kernel, wanted, layout.missing),
        proportions,
        in_controls,
        cases,
        controls,
        dict(cohort.genotypes.skipped),
        tuple(doubts),
    )
