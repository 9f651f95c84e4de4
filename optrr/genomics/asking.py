"""The way in: a design for a cohort's variants, its people randomized by it, and the associations that their reports show.

    reports = genomics.design(cohort, total=8).randomize(cohort)
    reports.scan().write_tsv("results.tsv")

For genotypes beside a status. Alleles beside a status, where every variant is two attributes, go through
:mod:`optrr.genomics.alleles`.
"""

from __future__ import annotations

from dataclasses import dataclass

from optrr.designs.design import Design
from optrr.genomics.cohort import Cohort
from optrr.genomics.designing import Budget, Wanted, association_warnings, genomic_design
from optrr.genomics.genotypes import allele_pairs
from optrr.genomics.layout import Layout, layout_of
from optrr.genomics.randomize import MissingPolicy, randomize_records, randomized_cohort, records_of
from optrr.genomics.scan import Associations, ScanOptions, scan
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import RandomState, as_source


@dataclass(frozen=True, eq=False)
class GenomicDesign:
    """A design whose attributes are the genotypes of some variants, and a status."""

    design: Design

    @property
    def layout(self) -> Layout:
        """Which attribute is which variant, and which the status."""
        return layout_of(self.design.domain)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user must know before using it, one line each."""
        return (*self.design.warnings, *association_warnings(self.design))

    def randomize(
        self, cohort: Cohort, random_state: RandomState = None, missing: MissingPolicy = "refuse"
    ) -> GenomicReports:
        """Everybody's randomized genotypes and status, in memory and in the cohort's order, which no ε covers.

        Parameters
        ----------
        random_state
            None draws random bits from the operating system; a seed is for studies.
        missing
            "exclude" publishes missing calls as they are; "refuse" takes none, unless the design has a category for them.

        Raises
        ------
        InvalidInput
            where the cohort's variants are not exactly the design's, or calls are missing and refused.
        """
        source, layout = as_source(random_state), self.layout
        records = records_of(cohort, layout, missing, source)
        randomize_records(records, self.design.mechanism, source)
        return GenomicReports(self, randomized_cohort(cohort, records, layout))


@dataclass(frozen=True, eq=False)
class GenomicReports:
    """Randomized genotypes and status, and the design that randomized them."""

    asking: GenomicDesign
    cohort: Cohort

    def scan(self, test: str = "trend", naive: bool = False) -> Associations:
        """Association of every variant with the status; tests as in :class:`optrr.genomics.ScanOptions`.

        Time O(n V) for n people and V variants.
        """
        return scan(self.cohort, self.asking.design.law, self.asking.layout, ScanOptions(test, naive))


def design(  # noqa: PLR0913 (each argument is one question a user answers)
    cohort: Cohort,
    total: float | None = None,
    *,
    variants: float | FloatArray = 1.0,
    status: float | None = None,
    missing: bool = False,
    method: str = "auto",
    preserve_pairs: bool = False,
) -> GenomicDesign:
    """The mechanism of largest accuracy at a total ε, or of smallest total for the accuracies of variants and status.

    No genotype is looked at: the design depends on the cohort's list of variants alone.

    Parameters
    ----------
    total, variants, status
        nats, as in :class:`optrr.genomics.Budget`.
    missing, method, preserve_pairs
        as in :class:`optrr.genomics.Wanted`.

    Raises
    ------
    InvalidInput
        for budgets that do not fit, and totals that no ε in the supported range can meet.
    """
    named = cohort.variants
    wanted = Wanted(
        [str(name) for name in named.name],
        missing=missing,
        method=method,
        preserve_pairs=preserve_pairs,
        alleles=allele_pairs(named),
    )
    return GenomicDesign(genomic_design(wanted, Budget(total, variants, status)))
