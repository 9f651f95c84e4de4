"""Filters of a scan by minor allele frequency, call rate and Hardy–Weinberg proportions, from randomized genotypes.

A variant is left out where its estimate lies below the threshold, as PLINK leaves it out by the value itself; how many
estimates are within 1.96 standard errors of the threshold is said, for these may be on its wrong side. Frequencies are of
everybody, the test of proportions is of controls, as is usual, because cases may depart from them by the association. Where
missing calls are no category of the design their number is known, and the call rate is what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.frequencies import Proportions, call_rates, frequencies
from optrr.genomics.genotypes import copies, single_copy_chromosomes
from optrr.genomics.groups import CONTROLS, Group
from optrr.genomics.hardy_weinberg import proportions_test
from optrr.genomics.tests import CopyTables
from optrr.mechanisms.kernel import EffectKernel
from optrr.show.text import amount
from optrr_solvers.arrays import FloatArray

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

    def check_some(self) -> None:
        """Raise InvalidInput where no variant is kept."""
        if not self.kept.any():
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            raise InvalidInput(f"no variant is left to be tested ({reasons}); lower the thresholds")


def filtered(
    tables: CopyTables, kernel: EffectKernel, thresholds: Thresholds, wanted: FloatArray, missing: bool
) -> Filtered:
    """The filters on counts (V, R, 2); a variant of which something is unknown is not left out by that.

    ``wanted``: people of each variant who should have a call, (V,); ``missing``: whether missing calls are a category.
    """
    kept, skipped, warnings = np.ones(len(tables.two), dtype=np.bool_), {}, []

    def leave_out(below: NDArray[np.bool_], what: str, threshold: float) -> None:
        below = below & kept & (tables.people > 0)
        if count := int(np.count_nonzero(below)):
            skipped[f"with {what} below {threshold:g}"] = count
        kept[below] = False

    if thresholds.call_rate:
        rates = known_call_rates(tables, wanted) if not missing else call_rates(everybody(tables, kernel), None)
        warnings += _doubtful(rates.estimate, rates.standard_error, "call rate", thresholds.call_rate)
        leave_out(rates.estimate < thresholds.call_rate - _ROUNDING, "a call rate", thresholds.call_rate)
    if thresholds.hwe:
        tested = proportions_test(Group.of(tables, kernel, CONTROLS))
        leave_out(tested.p_value < thresholds.hwe, "a Hardy-Weinberg p-value in controls", thresholds.hwe)
    if thresholds.maf:
        f = frequencies(everybody(tables, kernel), None)
        rarer = np.minimum(f.estimate, 1 - f.estimate)
        warnings += _doubtful(rarer, f.standard_error, "minor allele frequency", thresholds.maf)
        leave_out(rarer < thresholds.maf - _ROUNDING, "a minor allele frequency", thresholds.maf)
    return Filtered(kept, skipped, tuple(warnings))


def _doubtful(estimate: FloatArray, error: FloatArray, what: str, threshold: float) -> list[str]:
    near = np.abs(estimate - threshold) < ndtri(0.975) * error
    count = int(np.count_nonzero(near))
    if not count:
        return []
    return [
        f"the {what} of {count} of {amount(near.size, 'variant')} cannot be told from {threshold:g}: 1.96 standard errors "
        "reach from the estimate to the threshold; the estimate decides whether it is left out"
    ]


def everybody(tables: CopyTables, kernel: EffectKernel) -> Group:
    """All people, of one copy too where there are any."""
    return Group.of(tables, kernel, None, (2, 1) if tables.one.any() else (2,))


def known_call_rates(tables: CopyTables, wanted: FloatArray) -> Proportions:
    """Share of the people who should have a call that have one, where missing calls are not randomized."""
    return Proportions.known(np.where(wanted > 0, tables.people / np.maximum(wanted, 1.0), np.nan))


def people_with(cohort: Cohort, fewest: int) -> FloatArray:
    """How many people have so many copies of each variant's chromosome at least, (V,)."""
    kinds = single_copy_chromosomes(cohort.variants.chromosome)
    out = np.zeros(kinds.size)
    for kind in set(kinds):
        out[kinds == kind] = np.count_nonzero(copies(str(kind), cohort.n, cohort.male) >= fewest)
    return out
