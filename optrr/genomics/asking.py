"""The entry point: designs for a cohort's variants, randomization of its people, and tests of their reports.

    reports = genomics.design(cohort, total=8).randomize(cohort)
    reports.scan().write_tsv("results.tsv")

With an :func:`association_design` each participant answers one local query about a few variants instead, which has far
more power for associations, and at small totals supports nothing else (:mod:`optrr.genomics.sampled_variants`).

From file to file, ``release_file`` randomizes genotypes, and ``reports`` reads randomized data: such a file, or the
reports of people who randomize at home; ``report`` makes one of these.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from optrr.core.design import Design, load_design, refuse_specification
from optrr.core.display import amount, bound_text, counted, epsilon_text
from optrr.core.errors import InvalidInput, warn
from optrr.core.mechanisms import FileRelease, ReleaseOptions, is_seeded, replaced_release
from optrr.core.provenance import SAMPLED_VARIANTS, Provenance, Release, content_of, kind_of
from optrr.core.records import RecordsAt, released_file, written_suffixes
from optrr.genomics.adjusting import adjusted_scan
from optrr.genomics.alleles import aligned
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.covariates import CovariateColumns, read_covariates
from optrr.genomics.designing import Budget, Wanted, association_warnings, genomic_design, sampled_variants
from optrr.genomics.genotypes import MISSING, Codes, MatrixGenotypes, Texts, Variants, refuse_single_copies, required
from optrr.genomics.layout import STATUS, STATUS_CATEGORIES
from optrr.genomics.people_tables import table_columns
from optrr.genomics.person_reports import CollectedReports, ReportedDesign, SentReport, holds_reports
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.randomize import (
    MissingPolicy,
    called,
    randomize_records,
    randomized_cohort,
    records_of,
    variants_with_missing,
)
from optrr.genomics.sampled_scan import scan_answers
from optrr.genomics.sampled_variants import SCHEMA, SampledVariants, load_sampled_variants
from optrr.genomics.scan import Associations, doubts_of_genotypes, scan
from optrr.genomics.score_tests import Progress
from optrr.genomics.variant_report import VariantReport, variant_report
from optrr.genomics.writing import write_plink, write_records
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

if TYPE_CHECKING:
    from optrr.core.reports import Reports

# Status by the fam file alone; a release of nothing but its own.
_FAM, _PLAIN = PhenotypeColumns(), ReleaseOptions()
_NAMES_KEPT = (
    "names of people are published without randomization and no epsilon covers them: sorting by names that were given "
    "in an order restores that order, and reveals the status if the order depends on it"
)


class _FileDesign(ReportedDesign):
    """A design that randomizes files of genotypes and reads randomized ones."""

    def release_file(  # noqa: PLR0913 (whom, where to, and what no epsilon covers)
        self,
        input: Path,
        output: Path,
        phenotype: PhenotypeColumns = _FAM,
        *,
        missing: MissingPolicy = "refuse",
        random_state: RandomState = None,
        options: ReleaseOptions = _PLAIN,
        keep_names: bool = False,
    ) -> FileRelease:
        """Randomize the genotypes and status of a file into another file.

        Each person's genotypes and status are one record.

        Parameters
        ----------
        input, phenotype
            people, see :func:`optrr.genomics.read_cohort`.
        output
            .bed (with .bim and .fam), .csv or .parquet; of answers .csv or .parquet.
        missing
            "exclude" publishes missing calls without randomization; "refuse" raises an error unless the design has a
            category for them.
        random_state
            None draws random bits from the operating system; a seed is for studies.
        options
            earlier releases, their limit, and the order of people.
        keep_names
            keep the names of people, which may reveal their order, instead of new numbers.

        Raises
        ------
        InvalidInput
            as :func:`optrr.genomics.read_cohort` and :func:`optrr.genomics.records_of`; for people who are randomized
            already; above the limit.
        """
        self._check_output(output, keep_names)
        source = as_source(random_state)
        provenance = options.provenance(self.design, source, input)
        # refuse a design without genotypes before reading data
        layout, replaced = self.layout, replaced_release(output)
        cohort, turned = aligned(read_cohort(input, phenotype), layout)
        written, said = self._write(cohort, output, (provenance, options, source), missing, keep_names)
        left_out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
        notes = [*replaced, *turned, *cohort.doubts(), *options.warnings(str(output)), *said]
        notes += [f"left out: {counted(count, reason)}" for reason, count in left_out.items()]
        return FileRelease.written(output, written, provenance, self.design.domain, notes=notes)

    @abstractmethod
    def _check_output(self, output: Path, keep_names: bool) -> None:
        """Raise InvalidInput for a file that is not written."""

    @abstractmethod
    def _write(
        self,
        cohort: Cohort,
        output: Path,
        release: tuple[Provenance, ReleaseOptions, BitSource],
        missing: MissingPolicy,
        keep_names: bool,
    ) -> tuple[int, list[str]]:
        """Write randomized records or answers; return their number and warnings."""


def _reported_place(place: Path, phenotype: PhenotypeColumns) -> None:
    """Raise InvalidInput where a phenotype is named, which reports hold themselves."""
    if phenotype != _FAM:
        raise InvalidInput(f"{place}: these reports contain the status; leave out the phenotype columns")


@dataclass(frozen=True, eq=False)
class GenomicDesign(_FileDesign):
    """A design whose attributes are the genotypes of some variants, and a status."""

    design: Design

    fields = ("values",)

    @property
    def max_conditional_epsilon(self) -> float:
        """Largest conditional ε; see :class:`ReportedDesign`."""
        return float(self.design.conditional_epsilons.max())

    @property
    def spent_said(self) -> str:
        """Statement of a report's ε; see :class:`ReportedDesign`."""
        return (
            f"Total epsilon of a person's record {epsilon_text(self.design.epsilon)} nats "
            f"(certified at least {bound_text(self.design.lower_bound)}), largest conditional epsilon "
            f"{epsilon_text(self.max_conditional_epsilon)}. Genotypes and status are one record and share it."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the design, one line each."""
        return (*self.design.warnings, *association_warnings(self.design))

    def randomize(
        self, cohort: Cohort, random_state: RandomState = None, missing: MissingPolicy = "refuse"
    ) -> "GenomicReports":
        """Randomize all genotypes and statuses in memory.

        The result keeps the cohort's order, which no ε covers.

        Parameters
        ----------
        random_state
            None draws random bits from the operating system; a seed is for studies.
        missing
            "exclude" publishes missing calls without randomization; "refuse" raises an error unless the design has a
            category for them.

        Raises
        ------
        InvalidInput
            where the cohort's variants are not exactly the design's, or calls are missing and refused.
        """
        source, records = as_source(random_state), self.records(cohort, missing)
        randomize_records(records, self.design.mechanism, source)
        return GenomicReports(self, randomized_cohort(cohort, records, self.layout))

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """Build true records; see :func:`optrr.genomics.randomize.records_of`."""
        return records_of(cohort, self.layout, missing)

    def exposed(self, record: Codes) -> list[str]:
        """List the calls of a record that stay missing."""
        gone = int((record == MISSING).sum())
        return [f"{amount(gone, 'call')} missing in the report: which calls is not covered by epsilon"] if gone else []

    def drawn(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """Draw one category for each attribute; None for a call that stays missing.

        See :class:`ReportedDesign`.
        """
        drawn = record.copy()
        randomize_records(drawn, self.design.mechanism, source)
        codes = zip(self.design.domain, drawn[0].tolist(), strict=True)
        return {"values": [None if code == MISSING else a.texts[code] for a, code in codes]}

    def rows(self, given: Sequence[tuple[str, SentReport]]) -> Codes:
        """Convert reports to codes (n, m), MISSING for a call that stays missing.

        See :class:`ReportedDesign`.
        """
        domain = self.design.domain
        out = np.empty((len(given), domain.m), dtype=np.int8)
        # a genotype may stay missing, and the status never does
        gone: dict[str | None, int] = {None: MISSING}
        codes = [({} if a.name == STATUS else gone) | {text: k for k, text in enumerate(a.texts)} for a in domain]
        for row, (where, report) in zip(out, given, strict=True):
            values: tuple[str | None, ...] = report.values or ()
            if len(values) != domain.m:
                raise InvalidInput(
                    f"{where} has {len(values)} values for {domain.m} attributes; give the file unchanged"
                )
            wrong = [a.name for a, known, value in zip(domain, codes, values, strict=True) if value not in known]
            if wrong:
                raise InvalidInput(
                    f"{where} has a value of {wrong[0]!r} that is not one of its categories; give the file unchanged"
                )
            row[:] = [known[value] for known, value in zip(codes, values, strict=True)]
        return out

    def _check_output(self, output: Path, keep_names: bool) -> None:
        if output.suffix.lower() not in (".bed", *written_suffixes()):
            raise InvalidInput(
                f"{output} ends in {output.suffix!r}; use .bed, .csv or .parquet for randomized genotypes, and "
                "``status`` for one person's report"
            )
        if output.suffix.lower() == ".bed":
            required("bed_reader")

    def _write(
        self,
        cohort: Cohort,
        output: Path,
        release: tuple[Provenance, ReleaseOptions, BitSource],
        missing: MissingPolicy,
        keep_names: bool,
    ) -> tuple[int, list[str]]:
        provenance, options, source = release
        as_plink = output.suffix.lower() == ".bed"
        if not as_plink:
            remedy = "only PLINK files store the chromosome and the sexes; write .bed"
            refuse_single_copies(cohort.variants.chromosome, remedy)
        records = self.records(cohort, missing)
        randomize_records(records, self.design.mechanism, source)
        how: dict[str, Any] = {"random_state": source, "keep_order": options.keep_order, "keep_names": keep_names}
        if as_plink:
            write_plink(randomized_cohort(cohort, records, self.layout), output, provenance, **how)
        else:
            write_records(records, self.design.domain, cohort.people, output, provenance, **how)
        said = [_NAMES_KEPT] if keep_names else []
        if exposed := variants_with_missing(records):
            which = f"the missing calls of {amount(exposed, 'variant')}"
            said.append(f"{which} are published without randomization: they are not covered by epsilon")
        return cohort.n, said

    def reports(self, place: Path, phenotype: PhenotypeColumns = _FAM) -> "GenomicReports":
        """Read randomized genotypes.

        They come from a released file, or from the reports of single people, whose order is then random.

        Parameters
        ----------
        place
            a file that :meth:`release_file` wrote, a folder of reports, or a file .jsonl with one on each line.
        phenotype
            see :func:`optrr.genomics.read_cohort`; for files only. The default in a table is the status column that was
            written.

        Raises
        ------
        InvalidInput
            for records of another design; as :func:`optrr.genomics.read_cohort` and :meth:`collected`.
        """
        if holds_reports(place):
            _reported_place(place, phenotype)
            return self.of_collected(self.collected(place))
        layout = self.layout
        opened = self.design.reports(RecordsAt(place))
        warn(doubts_of_genotypes(opened.doubts))
        if place.suffix.lower() in (".csv", ".parquet") and phenotype.table is None:
            # the column of names that is given may be that of covariates alone
            columns = table_columns(place)
            sample = phenotype.sample if phenotype.sample in columns else None
            phenotype = replace(phenotype, sample=sample)
            if phenotype.column is None:
                if STATUS not in columns:
                    raise InvalidInput(
                        f"{place} has no column {STATUS!r}, which optrr gwas randomize writes; give a file written by "
                        "that command, or name the column of cases and controls (``column``)"
                    )
                case, control = STATUS_CATEGORIES[1:], STATUS_CATEGORIES[:1]
                phenotype = replace(phenotype, column=STATUS, cases=case, controls=control)
        cohort, turned = aligned(read_cohort(place, phenotype, self.design.domain), layout)
        anew = bool(opened.stated) and np.array_equal(cohort.people.astype(str), _numbers(cohort.n))
        return GenomicReports(self, cohort, anew, tuple(turned), opened)

    def of_collected(self, collected: CollectedReports) -> "GenomicReports":
        """Build reports from collected ones; people are numbered from 1."""
        layout, records = self.layout, np.asarray(collected.rows, dtype=np.int8)
        variants = Variants.named(layout.names, layout.alleles, layout.places)
        genotypes = MatrixGenotypes(variants, _numbers(len(records)), called(records[:, layout.attributes], layout))
        cohort = Cohort(genotypes, np.arange(len(records)), records[:, layout.status])
        return GenomicReports(self, cohort, True, collected.notes)


def _numbers(n: int) -> Texts:
    return np.array([str(k + 1) for k in range(n)], dtype=object)


@dataclass(frozen=True, eq=False)
class GenomicReports:
    """Randomized genotypes and status, and the design that randomized them.

    ``numbered``: whether people have new numbers as names; ``notes``: remarks on the reports, a line each; ``opened``:
    the file they are from.
    """

    asking: GenomicDesign
    cohort: Cohort
    numbered: bool = False
    notes: tuple[str, ...] = ()
    opened: "Reports | None" = None

    def scan(
        self,
        test: str = "trend",
        *,
        maf: float = 0.0,
        hwe: float = 0.0,
        covariates: Any = None,
        progress: Progress | None = None,
    ) -> Associations:
        """Test every variant for association with the status.

        Takes time O(n V) for n people and V variants, O(n V p²) with p covariates.

        Parameters
        ----------
        test, maf, hwe, progress
            see :func:`optrr.genomics.scan`.
        covariates
            public values of the people, not covered by ε: a file or frame with their names in ``sample`` or ``IID``,
            an array (n, p) in their order, or :class:`optrr.genomics.CovariateColumns`, which also names strata or a
            trait of numbers. The test is then Rao's score test of logistic regression, adjusted for them.

        Returns
        -------
        Associations
            a row for each variant.

        Raises
        ------
        InvalidInput
            where no variant is left; as :func:`optrr.genomics.covariates.read_covariates`, and for other tests than the
            trend test of adjusted people.
        """
        law, layout = self.asking.design.law, self.asking.layout
        if covariates is None:
            made = scan(self.cohort, law, layout, test, maf=maf, hwe=hwe, progress=progress)
        elif test != "trend":
            raise InvalidInput(
                f"``test``: {test} cannot be adjusted for covariates; omit ``test`` to use the trend test, which can"
            )
        elif self.numbered:
            raise InvalidInput(
                "``covariates``: these reports have no names to match covariates to; randomize with ``keep_names``"
            )
        else:
            asked = covariates if isinstance(covariates, CovariateColumns) else CovariateColumns(covariates)
            values = read_covariates(asked, self.cohort.people)
            made = adjusted_scan(self.cohort, law, layout, values, maf=maf, hwe=hwe, progress=progress)
        return replace(made, warnings=(*self.notes, *made.warnings))

    def variants(self, by_status: bool = False, progress: Progress | None = None) -> VariantReport:
        """Report frequency of A1, call rate and Hardy–Weinberg test of each variant.

        See :mod:`optrr.genomics.variant_report`.

        ``by_status``: frequencies in cases and in controls, too. Time O(n V).
        """
        made = variant_report(self.cohort, self.asking.design.law, self.asking.layout, by_status, progress)
        return replace(made, warnings=(*self.notes, *made.warnings))


@dataclass(frozen=True, eq=False)
class VariantAnswers:
    """Randomized answers about a few variants, with their protocol.

    The answers are a table or the path of one.
    """

    asking: SampledVariants
    answers: Any
    notes: tuple[str, ...] = ()
    opened = None

    def scan(
        self,
        test: str = "trend",
        *,
        maf: float = 0.0,
        hwe: float = 0.0,
        covariates: Any = None,
        progress: Progress | None = None,
    ) -> Associations:
        """Test each variant for association with the status.

        See :func:`optrr.genomics.sampled_scan.scan_answers`.

        Raises InvalidInput for tests, thresholds and covariates, which answers do not take.
        """
        if test != "trend" or maf or hwe or covariates is not None:
            raise InvalidInput(
                "a design by local queries supports only the trend test, without thresholds and covariates; design "
                "whole records for other tests"
            )
        made = scan_answers(self.asking, self.answers)
        return replace(made, warnings=(*self.notes, *made.warnings))

    def variants(self, by_status: bool = False, progress: Progress | None = None) -> VariantReport:
        """Raise InvalidInput: answers are made for tests of association."""
        raise InvalidInput(
            "a design by local queries supports tests of association, not frequencies; design whole records to "
            "estimate frequencies"
        )


_LEFT_OUT = (
    "local queries have no category for missing calls; with ``missing`` exclude, people without a requested call give "
    "no answer, which is not covered by epsilon"
)


@dataclass(frozen=True, eq=False)
class AssociationDesign(_FileDesign):
    """Questions about a few variants and the status, for tests of association."""

    design: SampledVariants

    fields = tuple(SCHEMA.names)

    @property
    def max_conditional_epsilon(self) -> float:
        """The total: an answer is about all of its attributes at once."""
        return self.design.epsilon

    @property
    def spent_said(self) -> str:
        """Statement of a report's ε; see :class:`ReportedDesign`."""
        spent = epsilon_text(self.design.epsilon)
        return f"Each person gave one answer, of total epsilon {spent} nats: {self.design.questions_asked}."

    def randomize(
        self, cohort: Cohort, random_state: RandomState = None, missing: MissingPolicy = "refuse"
    ) -> VariantAnswers:
        """Draw all answers in memory.

        See :meth:`GenomicDesign.randomize`; a person without a call for the query gives no answer.
        """
        source = as_source(random_state)
        batches = list(self.design.batches(self.records(cohort, missing), source))
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        known = Provenance(Release.drawn(self.design, is_seeded(source)))
        return VariantAnswers(self.design, table.replace_schema_metadata(known.metadata()))

    def records(self, cohort: Cohort, missing: MissingPolicy = "refuse") -> Codes:
        """Build true records; see :func:`optrr.genomics.randomize.records_of`.

        Raises InvalidInput as there, and for variants of which some people have one copy.
        """
        refuse_single_copies(cohort.variants.chromosome, "local queries need two copies; leave these variants out")
        return records_of(cohort, self.layout, missing, _LEFT_OUT)

    def drawn(self, record: Codes, source: BitSource) -> dict[str, Any]:
        """Draw a query and an answer; see :class:`ReportedDesign`."""
        question, answer = (int(x[0]) for x in self.design.answered(record, source))
        return {"answer": None} if answer < 0 else {"question": question + 1, "answer": answer}

    def rows(self, given: Sequence[tuple[str, SentReport]]) -> IntArray:
        """Convert reports to queries and answers, (n, 2); see :class:`ReportedDesign`."""
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

    def _check_output(self, output: Path, keep_names: bool) -> None:
        if keep_names:
            raise InvalidInput("``keep_names``: answers to local queries have no names; leave ``keep_names`` out")
        if output.suffix.lower() not in written_suffixes():
            raise InvalidInput(
                f"{output}: answers of a design for association are not genotypes; write .csv or .parquet"
            )

    def _write(
        self,
        cohort: Cohort,
        output: Path,
        release: tuple[Provenance, ReleaseOptions, BitSource],
        missing: MissingPolicy,
        keep_names: bool,
    ) -> tuple[int, list[str]]:
        provenance, options, source = release
        records = self.records(cohort, missing)
        with released_file(output, SCHEMA, provenance) as writer:
            given = writer.write(options.in_order(self.design.batches(records, source), source, writer.folder))
        gone = [f"people without a requested call gave no answer ({cohort.n - given}), which is not covered by epsilon"]
        return given, gone if given < cohort.n else []

    def reports(self, place: Path, phenotype: PhenotypeColumns = _FAM) -> VariantAnswers:
        """Read answers; see :meth:`GenomicDesign.reports`.

        The answers themselves contain the status.
        """
        _reported_place(place, phenotype)
        if holds_reports(place):
            return self.of_collected(self.collected(place))
        return VariantAnswers(self.design, RecordsAt(place))

    def of_collected(self, collected: CollectedReports) -> VariantAnswers:
        """Convert collected answers to a table with their provenance."""
        columns = [pa.array(column, pa.int32()) for column in collected.rows.T]
        table = pa.Table.from_arrays(columns, schema=SCHEMA)
        return VariantAnswers(
            self.design, table.replace_schema_metadata(collected.provenance.metadata()), collected.notes
        )


def load_genomic_design(path: Path) -> GenomicDesign | AssociationDesign:
    """Load a design file for genotypes or for association tests.

    Raises InvalidInput as :func:`load_design`; of a specification with the command that suits genotypes.
    """
    held = content_of(path, "design file")
    refuse_specification(held.raw, held, "gwas design GENOTYPES -o {1}")
    if kind_of(held) == SAMPLED_VARIANTS:
        return AssociationDesign(load_sampled_variants(held))
    return GenomicDesign(load_design(held))


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
    """Design the mechanism for genotypes and status.

    It has the largest accuracy at a total ε, or the smallest total for the accuracies of variants and status.

    No genotype is used: the design depends on the cohort's list of variants alone.

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
    """Design queries about a few variants each for association tests.

    They keep most of the information that the tests need, at a total ε in nats.

    No genotype is looked at; ``cases`` and ``frequencies``, shape (V,), are expected values from other sources
    (:func:`optrr.genomics.designing.sampled_variants`).

    Raises
    ------
    InvalidInput
        for a total outside 1e-6..50, and shares and frequencies that are not between 0 and 1.
    """
    return AssociationDesign(sampled_variants(Wanted.of(cohort.variants), total, cases, frequencies))
