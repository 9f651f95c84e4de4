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

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.core.design import Design
from optrr.core.display import amount, bound_text, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import is_seeded
from optrr.core.provenance import Provenance, Release
from optrr.genomics.adjusting import adjusted_scan, refuse_adjusted
from optrr.genomics.cohort import Cohort
from optrr.genomics.covariates import NO_COVARIATES, CovariateColumns, read_covariates, refuse_without_table
from optrr.genomics.designing import Budget, Wanted, association_warnings, genomic_design, sampled_variants
from optrr.genomics.genotypes import MISSING, Codes, MatrixGenotypes, Variants, refuse_single_copies
from optrr.genomics.layout import STATUS
from optrr.genomics.person_reports import CollectedReports, ReportedDesign, SentReport
from optrr.genomics.randomize import MissingPolicy, called, randomize_records, randomized_cohort, records_of
from optrr.genomics.sampled_scan import scan_answers
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants
from optrr.genomics.scan import Associations, ScanOptions, Thresholds, scan
from optrr.genomics.variant_report import VariantReport, answers_report, variant_report
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source


@dataclass(frozen=True, eq=False)
class GenomicDesign(ReportedDesign):
    """A design whose attributes are the genotypes of some variants, and a status."""

    design: Design

    fields = ("values",)

    @property
    def max_conditional_epsilon(self) -> float:
        """As :class:`ReportedDesign`."""
        return float(self.design.conditional_epsilons.max())

    @property
    def spent_said(self) -> str:
        """As :class:`ReportedDesign`."""
        return (
            f"Total epsilon of a person's record {epsilon_text(self.design.epsilon)} nats "
            f"(certified at least {bound_text(self.design.lower_bound)}), largest conditional epsilon "
            f"{epsilon_text(self.max_conditional_epsilon)}. Genotypes and status are one record and share it."
        )

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
        source, records = as_source(random_state), self.records(cohort, missing)
        randomize_records(records, self.design.mechanism, source)
        return GenomicReports(self, randomized_cohort(cohort, records, self.layout))

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """True records, as :func:`optrr.genomics.randomize.records_of`."""
        return records_of(cohort, self.layout, missing)

    def exposed(self, record: Codes) -> list[str]:
        """Calls that stay missing."""
        gone = int((record == MISSING).sum())
        return [f"{amount(gone, 'call')} missing in the report: no epsilon covers which"] if gone else []

    def drawn(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """As :class:`ReportedDesign`: one category for each attribute; None for a call that stays missing."""
        drawn = record.copy()
        randomize_records(drawn, self.design.mechanism, source)
        codes = zip(self.design.domain, drawn[0].tolist(), strict=True)
        return {"values": [None if code == MISSING else a.texts[code] for a, code in codes]}

    def rows(self, given: Sequence[tuple[str, SentReport]]) -> Codes:
        """As :class:`ReportedDesign`: codes (n, m), MISSING where a call stays missing."""
        domain = self.design.domain
        out = np.empty((len(given), domain.m), dtype=np.int8)
        # a genotype may stay missing, and the status never does
        gone: dict[str | None, int] = {None: MISSING}
        codes = [({} if a.name == STATUS else gone) | {text: k for k, text in enumerate(a.texts)} for a in domain]
        for row, (where, report) in zip(out, given, strict=True):
            values: tuple[str | None, ...] = report.values or ()
            if len(values) != domain.m:
                raise InvalidInput(
                    f"{where} has {len(values)} values for {domain.m} attributes; give it as it was written"
                )
            wrong = [a.name for a, known, value in zip(domain, codes, values, strict=True) if value not in known]
            if wrong:
                raise InvalidInput(
                    f"{where} has a value of {wrong[0]!r} that is none of its categories; give it as it was written"
                )
            row[:] = [known[value] for known, value in zip(codes, values, strict=True)]
        return out

    def read_reports(self, place: Path) -> "GenomicReports":
        """Reports of different people, from a folder or a file of one on each line, in random order.

        Raises InvalidInput as :meth:`ReportedDesign.collected`.
        """
        return self.of_collected(self.collected(place))

    def of_collected(self, collected: CollectedReports) -> "GenomicReports":
        """The people of collected reports, numbered from 1."""
        layout, records = self.layout, np.asarray(collected.rows, dtype=np.int8)
        people = np.array([str(k + 1) for k in range(len(records))], dtype=object)
        variants = Variants.named(layout.names, layout.alleles, layout.places)
        genotypes = MatrixGenotypes(variants, people, called(records[:, layout.attributes], layout))
        return GenomicReports(self, Cohort(genotypes, np.arange(people.size), records[:, layout.status]))


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


_LEFT_OUT = (
    "questions have no place for them: with ``missing`` exclude people who lack a call that is asked for give no answer, and "
    "no epsilon covers who"
)


@dataclass(frozen=True, eq=False)
class AssociationDesign(ReportedDesign):
    """Questions about a few variants and the status, for tests of association."""

    design: SampledVariants

    fields = tuple(SCHEMA.names)

    @property
    def max_conditional_epsilon(self) -> float:
        """The total: an answer is about all of its attributes at once."""
        return self.design.epsilon

    @property
    def spent_said(self) -> str:
        """As :class:`ReportedDesign`."""
        spent = epsilon_text(self.design.epsilon)
        return f"Everybody gave one answer, of total epsilon {spent} nats: {self.design.questions_asked}."

    def randomize(
        self, cohort: Cohort, random_state: RandomState = None, missing: MissingPolicy = "refuse"
    ) -> VariantAnswers:
        """Everybody's answer, as :meth:`GenomicDesign.randomize`; who lacks a call that is asked for gives none."""
        source = as_source(random_state)
        batches = list(self.design.batches(self.records(cohort, missing), source))
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        known = Provenance(Release.drawn(self.design, is_seeded(source)))
        return VariantAnswers(self.design, table.replace_schema_metadata(known.metadata()))

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """True records to be asked, as :func:`optrr.genomics.randomize.records_of`.

        Raises InvalidInput as there, and for variants of which some people have one copy.
        """
        refuse_single_copies(cohort.variants.chromosome, "questions are about two copies: leave these variants out")
        return records_of(cohort, self.layout, missing, _LEFT_OUT)

    def drawn(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """As :class:`ReportedDesign`: a question and an answer."""
        question, answer = (int(x[0]) for x in self.design.answered(record, source))
        return {"answer": None} if answer < 0 else {"question": question + 1, "answer": answer}

    def rows(self, given: Sequence[tuple[str, SentReport]]) -> IntArray:
        """As :class:`ReportedDesign`: questions and answers, (n, 2)."""
        rows = np.array([[getattr(report, name) for name in self.fields] for _, report in given], dtype=np.int64)
        try:
            self.design.told([(rows[:, 0] - 1, rows[:, 1])])
        except InvalidInput:
            for (where, _), row in zip(given, rows, strict=True):
                try:
                    self.design.told([(row[:1] - 1, row[1:])])
                except InvalidInput as error:
                    raise InvalidInput(f"{where}: {error}") from error
        return rows

    def read_reports(self, place: Path) -> VariantAnswers:
        """Answers of different people, as :meth:`GenomicDesign.read_reports`."""
        return self.of_collected(self.collected(place))

    def of_collected(self, collected: CollectedReports) -> VariantAnswers:
        """Collected answers as a table with their provenance."""
        columns = [pa.array(column, pa.int32()) for column in collected.rows.T]
        table = pa.Table.from_arrays(columns, schema=SCHEMA)
        return VariantAnswers(self.design, table.replace_schema_metadata(collected.provenance.metadata()))


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
