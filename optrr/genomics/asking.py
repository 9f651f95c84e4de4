"""The way in: a design for a cohort's variants, its people randomized by it, and the associations that their reports show.

    reports = genomics.design(cohort, total=8).randomize(cohort)
    reports.scan().write_tsv("results.tsv")

By an :func:`association_design` everybody answers one question about a few variants instead, which shows far more of the
associations, and at small totals nothing else (:mod:`optrr.genomics.sampled_variants`).

Where every person randomizes at home, ``report`` is one person's, and ``read_reports`` is the collector's side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.core.design.design import Design
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import is_seeded
from optrr.core.provenance.accounting import Release
from optrr.core.provenance.provenance import Provenance
from optrr.genomics.adjusting import adjusted_scan, refuse_adjusted
from optrr.genomics.cohort import Cohort
from optrr.genomics.covariates import NO_COVARIATES, CovariateColumns, read_covariates, refuse_without_table
from optrr.genomics.designing import Budget, Wanted, association_warnings, genomic_design, sampled_variants
from optrr.genomics.genotypes import Codes, refuse_single_copies
from optrr.genomics.layout import Layout, layout_of
from optrr.genomics.person_reports import read_reports, report_once
from optrr.genomics.randomize import MissingPolicy, randomize_records, randomized_cohort, records_of
from optrr.genomics.sampled_scan import scan_answers
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr.genomics.scan import Associations, ScanOptions, Thresholds, scan
from optrr.genomics.variant_report import VariantReport, answers_report, variant_report
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
    ) -> "GenomicReports":
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
        records = self.records(cohort, missing)
        randomize_records(records, self.design.mechanism, source)
        return GenomicReports(self, randomized_cohort(cohort, records, layout))

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """True records, as :func:`optrr.genomics.randomize.records_of`."""
        return records_of(cohort, self.layout, missing)

    def report(
        self, person: Cohort, folder: Path, missing: MissingPolicy = "refuse", limit: float | None = None
    ) -> dict[str, Any]:
        """One person's report as a JSON object, drawn from the system's random bits and kept in the folder for ever after.

        Parameters
        ----------
        person
            from :func:`optrr.genomics.read_person`.
        folder
            the person's diary, the Python client's; a report of this design that is there already is handed out again.
        limit
            most that everything in the diary may cost the person, in nats.

        Raises
        ------
        InvalidInput
            as :meth:`randomize`; for more than one person; above the limit, before anything is drawn.
        """
        return report_once(self.design, lambda: self.records(_one(person), missing), folder, limit)[0]

    def read_reports(self, place: Path) -> "GenomicReports":
        """Reports of different people, from a folder or a file of one on each line, in random order.

        Raises InvalidInput as :func:`optrr.genomics.person_reports.read_reports`.
        """
        return GenomicReports(self, read_reports(self.design, place).cohort())


@dataclass(frozen=True, eq=False)
class GenomicReports:
    """Randomized genotypes and status, and the design that randomized them."""

    asking: GenomicDesign
    cohort: Cohort

    def scan(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        test: str = "trend",
        naive: bool = False,
        *,
        maf: float = 0.0,
        hwe: float = 0.0,
        call_rate: float = 0.0,
        covariates: Any = None,
        covariate: Sequence[str] = (),
        strata: str | None = None,
        trait: str | None = None,
    ) -> Associations:
        """Association of every variant with the status; tests as in :class:`optrr.genomics.ScanOptions`.

        Variants are left out whose estimated minor allele frequency, Hardy–Weinberg p-value in controls or call rate is below
        ``maf``, ``hwe`` or ``call_rate`` (:mod:`optrr.genomics.scan`). Time O(n V) for n people and V variants, O(n V p²)
        with p covariates.

        Parameters
        ----------
        covariates
            public values of the people, which no ε covers: a file or frame with their names in ``sample`` or ``IID``, or an
            array (n, p) in their order. The test is then Rao's score test of logistic regression, adjusted for them.
        covariate, strata, trait
            columns of it, as in :class:`optrr.genomics.covariates.CovariateColumns`: covariates; one whose values each have
            their own share of cases (alone: Cochran, Mantel and Haenszel's test); one of numbers that takes the place of the
            status, by linear regression (of two values: logistic).

        Raises
        ------
        InvalidInput
            as :func:`optrr.genomics.covariates.read_covariates`, and for other tests than the trend test of adjusted people.
        """
        options = ScanOptions(test, naive, Thresholds(maf, hwe, call_rate))
        if covariates is None:
            refuse_without_table(bool(covariate), strata, trait)
            return scan(self.cohort, self.asking.design.law, self.asking.layout, options)
        refuse_adjusted(options)
        asked = CovariateColumns(covariates, None, tuple(covariate), strata, trait)
        values = read_covariates(asked, self.cohort.people)
        return adjusted_scan(self.cohort, self.asking.design.law, self.asking.layout, values, options.thresholds)

    def variants(self, by_status: bool = False) -> VariantReport:
        """Frequency of A1, call rate and Hardy–Weinberg test of every variant (:mod:`optrr.genomics.variant_report`).

        ``by_status``: frequencies in cases and in controls, too. Time O(n V).
        """
        return variant_report(self.cohort, self.asking.design.law, self.asking.layout, by_status)


_LEFT_OUT = (
    "questions have no place for them: with --missing exclude people who lack a call that is asked for give no answer, and no "
    "epsilon covers who"
)


@dataclass(frozen=True, eq=False)
class VariantAnswers:
    """Everybody's answer about a few variants, and the way of asking."""

    asking: SampledVariants
    answers: pa.Table

    def scan(
        self, test: str = "trend", naive: bool = False, *, maf: float = 0.0, hwe: float = 0.0, covariates: Any = None
    ) -> Associations:
        """Association of every variant with the status (:func:`optrr.genomics.sampled_scan.scan_answers`).

        ``maf`` and ``hwe`` as in :meth:`GenomicReports.scan`, where answers name cells of genotypes and status. Raises
        InvalidInput for covariates, which answers do not take.
        """
        if covariates is not None:
            raise InvalidInput(NO_COVARIATES)
        return scan_answers(self.asking, self.answers, ScanOptions(test, naive, Thresholds(maf, hwe)))

    def variants(self, by_status: bool = False) -> VariantReport:
        """Frequency of A1 and Hardy–Weinberg test of every variant (:func:`optrr.genomics.variant_report.answers_report`)."""
        return answers_report(self.asking, self.answers, by_status)


@dataclass(frozen=True, eq=False)
class AssociationDesign:
    """Questions about a few variants and the status, for tests of association."""

    asking: SampledVariants

    def randomize(
        self, cohort: Cohort, random_state: RandomState = None, missing: MissingPolicy = "refuse"
    ) -> VariantAnswers:
        """Everybody's answer, as :meth:`GenomicDesign.randomize`; who lacks a call that is asked for gives none."""
        source = as_source(random_state)
        batches = list(self.asking.batches(self.records(cohort, missing), source))
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        known = Provenance(Release.drawn(self.asking, is_seeded(source)))
        return VariantAnswers(self.asking, table.replace_schema_metadata(known.metadata()))

    def report(
        self, person: Cohort, folder: Path, missing: MissingPolicy = "refuse", limit: float | None = None
    ) -> dict[str, Any]:
        """One person's answer, as :meth:`GenomicDesign.report`; refused where the call that is asked for is missing."""
        return report_once(self.asking, lambda: self.records(_one(person), missing), folder, limit)[0]

    def read_reports(self, place: Path) -> VariantAnswers:
        """Answers of different people, as :meth:`GenomicDesign.read_reports`."""
        return VariantAnswers(self.asking, read_reports(self.asking, place).answers())

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """True records to be asked, as :func:`optrr.genomics.randomize.records_of`.

        Raises InvalidInput as there, and for variants of which some people have one copy.
        """
        refuse_single_copies(cohort.variants.chromosome, "questions are about two copies: leave these variants out")
        return records_of(cohort, self.asking.layout, missing, _LEFT_OUT)


def _one(person: Cohort) -> Cohort:
    if person.n != 1:
        raise InvalidInput(
            f"a report is of one person, and these are {person.n}; use read_person, or randomize for a cohort"
        )
    return person


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
    wanted = Wanted.of(cohort.variants, missing, method, preserve_pairs)
    return GenomicDesign(genomic_design(wanted, Budget(total, variants, status)))


def association_design(
    cohort: Cohort, total: float, *, cases: float | None = None, frequencies: ArrayLike | None = None
) -> AssociationDesign:
    """The questions about a few variants each that keep most of what tests of association need, at a total ε in nats.

    No genotype is looked at; ``cases`` and ``frequencies``, shape (V,), are what is expected of them, from elsewhere
    (:func:`optrr.genomics.designing.sampled_variants`).

    Raises
    ------
    InvalidInput
        for a total outside 1e-6..50, and shares and frequencies that are not between 0 and 1.
    """
    return AssociationDesign(sampled_variants(Wanted.of(cohort.variants), total, cases, frequencies))
