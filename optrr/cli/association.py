"""optrr gwas and gwas-variants: what already randomized genotypes say of diseases, and of themselves."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from optrr.cli.genotype_options import (
    DESIGN_FILE,
    PHENOTYPE,
    PLOT_FILES,
    STATUS_OPTIONS,
    TEST,
    THRESHOLDS,
    check_outputs,
    checked_phenotype,
    load_genomic_design,
    progress_bar,
)
from optrr.cli.options import argument, command, option, refuse_options
from optrr.cli.outputs import REPORT, TABBED, page_given, write_report
from optrr.cli.printing import heard, is_json, print_json, print_shown, print_table, warn
from optrr.core.design import Design
from optrr.core.display import SHOWN, amount, epsilon_text, in_json
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.inference import bonferroni
from optrr.core.records import OpenedRecords, RecordsAt, held_back
from optrr.genomics.adjusting import adjusted_scan, refuse_adjusted
from optrr.genomics.alleles import aligned
from optrr.genomics.asking import AssociationDesign
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.covariates import (
    NO_COVARIATES,
    CovariateColumns,
    read_covariates,
    refuse_without_table,
)
from optrr.genomics.layout import STATUS, STATUS_CATEGORIES, layout_of
from optrr.genomics.pages import scan_page, variants_page
from optrr.genomics.people_tables import table_columns
from optrr.genomics.person_reports import CollectedReports, ReportedDesign, holds_reports
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.plots import save_figure
from optrr.genomics.result_files import FORMATS, check_form
from optrr.genomics.sampled_scan import scan_answers
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import ON_LAMBDA, TOP, Associations, ScanOptions, Thresholds, scan
from optrr.genomics.score_tests import GENOME_WIDE
from optrr.genomics.variant_report import VariantReport, answers_report, variant_report

if TYPE_CHECKING:
    from optrr.core.display import Given


@command
def gwas(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path | None = option(
        "Table of results to write (tab separated; compressed where it ends in .gz).", "-o", type=TABBED
    ),
    form: str = option(
        "Columns of the table: this program's, or those of plink2 --glm.",
        "--format",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        needs="output",
    ),
    test: str = TEST,
    thresholds: Thresholds = THRESHOLDS,
    naive: bool = option("Add the test that takes randomized records for true ones; says if it keeps its level."),
    plots: dict[str, Path] = PLOT_FILES,
    covariate_file: Path | None = option(
        "Public values of the people to adjust for, by name: CSV, Parquet or PLINK's form; no epsilon covers them.",
        "--covariates",
    ),
    covariate_names: tuple[str, ...] = option(
        "Column of it that is a covariate; default: all, or none with --strata or --trait. Repeatable.", "--covariate"
    ),
    strata: str | None = option(
        "Column of it whose values each have their own share of cases; alone: Mantel-Haenszel."
    ),
    trait: str | None = option("Column of it, of numbers, in place of the status: linear regression."),
    report: Path | None = REPORT,
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Association tests of every variant of already randomized INPUT, valid under its design.

    INPUT is a file that gwas-randomize wrote, or reports of single people: a folder of them, or a file .jsonl.

    \b
    Columns of the table that -o writes, NA where undefined (unless --format says otherwise):
      N          people who report about the variant; with --missing category a missing call is
                 one of the reports, and with covariates N is an estimate of those with a call
      F_A F_U    estimated frequency of A1 in cases and controls; noise may take it outside 0..1
      STAT DF P  chi-squared statistic, degrees of freedom, p-value
      P_GC       p after genomic control; BONF and FDR_BH: Bonferroni, Benjamini-Hochberg
      OR L95 U95 odds ratio of A1 and its 95 % interval, for every variant that varies;
                 0 and inf where the noise leaves no limit on that side, SE then NA
      EXPECTED   smallest number of randomized records that would be expected in a cell of genotype
                 and status (no missing calls) without an association; where it is below 5, p-values
                 below 0.3 are not from the chi-squared limit
      NAIVE_STAT NAIVE_P  with --naive: the test that takes randomized records for true ones
    With covariates OR is per copy, from logistic regression, and Z_STAT is ln OR / SE; with a trait of
    numbers A1_FREQ, BETA and T_STAT are in place of F_A, F_U, OR.

    \b
    --maf, --hwe and --call-rate leave a variant out where its estimate is below; how many cannot be
    told from the threshold is said. The Hardy-Weinberg test sees of a departure what the
    randomization leaves of it, so that it leaves out fewer variants than on true genotypes.
    """  # noqa: D301 (the mark tells click to keep the lines that follow as they are)
    check_outputs([output, report, *plots.values()], [input, design_file, covariate_file, phenotype.table])
    asked = load_genomic_design(design_file)
    wanted = ScanOptions(test, naive, thresholds)
    check_form(form, naive)
    if covariate_file is None:
        refuse_without_table(bool(covariate_names), strata, trait)
    else:
        refuse_adjusted(wanted)
    given = _given(asked, input, phenotype)
    if covariate_file is None:
        scanned = given.scanned(wanted)
    else:
        columns = CovariateColumns(covariate_file, phenotype.sample, covariate_names, strata, trait)
        scanned = given.adjusted(wanted, columns)
    left_out = (f"{amount(count, 'variant')} left out: {reason}" for reason, count in scanned.skipped.items())
    warn(
        dict.fromkeys(
            [*given.reports.doubts, *scanned.warnings, *left_out, *([scanned.notes_on_naive] if naive else [])]
        )
    )

    with held_back():
        if output is not None:
            (scanned.write_plink2 if form == "plink2" else scanned.write_tsv)(output)
        for kind, path in plots.items():
            save_figure(scanned.plot(kind), path)
        title = f"Association scan of {input.name}"
        write_report(report, lambda: scan_page(scanned, asked, title, given.page(design_file)))
    if is_json():
        epsilons = {"epsilon": asked.design.epsilon, "max_conditional_epsilon": asked.max_conditional_epsilon}
        print_json(scanned.summary() | epsilons | {"doubts": given.reports.doubts})
    else:
        _show_scan(scanned, asked.design.epsilon)


@dataclass(frozen=True)
class _Given(ABC):
    """What is to be analysed, of which options and files that do not fit are refused, and what is in doubt of it."""

    path: Path
    reports: OpenedRecords

    @abstractmethod
    def scanned(self, wanted: ScanOptions) -> Associations:
        """Its scan."""

    @abstractmethod
    def adjusted(self, wanted: ScanOptions, columns: CovariateColumns) -> Associations:
        """Its scan, adjusted for covariates."""

    @abstractmethod
    def described(self, by_status: bool) -> VariantReport:
        """What it says of each variant."""

    def page(self, design_file: Path) -> "Given | None":
        """Where a page says that records come from; nothing of answers and of single people's reports."""
        return None


@dataclass(frozen=True)
class _Answers(_Given):
    asking: SampledVariants

    def scanned(self, wanted: ScanOptions) -> Associations:
        return scan_answers(self.asking, self.reports, wanted)

    def adjusted(self, wanted: ScanOptions, columns: CovariateColumns) -> Associations:
        raise InvalidInput(NO_COVARIATES)

    def described(self, by_status: bool) -> VariantReport:
        return answers_report(self.asking, self.reports, by_status)


@dataclass(frozen=True)
class _Collected(_Given):
    """Records of single people."""

    design: Design
    people: Callable[[], tuple[Cohort, list[str]]]

    def scanned(self, wanted: ScanOptions) -> Associations:
        cohort, turned = self.people()
        cohort.check_varies()
        made = scan(cohort, self.design.law, layout_of(self.design.domain), wanted, progress_bar("scanning"))
        return replace(made, warnings=(*turned, *made.warnings))

    def adjusted(self, wanted: ScanOptions, columns: CovariateColumns) -> Associations:
        raise InvalidInput(f"{self.path} holds reports that name nobody, so no covariate can be told whose it is")

    def described(self, by_status: bool) -> VariantReport:
        (cohort, turned), law, layout = self.people(), self.design.law, layout_of(self.design.domain)
        warn(turned)
        return variant_report(cohort, law, layout, by_status, progress_bar("counting"))


@dataclass(frozen=True)
class _Records(_Collected):
    """A file of many people's records."""

    phenotype: PhenotypeColumns

    def adjusted(self, wanted: ScanOptions, columns: CovariateColumns) -> Associations:
        path, phenotype, layout = self.path, self.phenotype, layout_of(self.design.domain)
        is_table = path.suffix.lower() in (".csv", ".parquet")
        # the column of names that is given may be that of the covariates alone
        own = phenotype.sample if phenotype.table or (is_table and phenotype.sample in table_columns(path)) else None
        people = randomized_people(path, replace(phenotype, sample=own), self.design.domain)
        if columns.trait is None:
            people.check_varies()
        cohort, turned = aligned(people, layout)
        if self.reports.stated and np.array_equal(cohort.people.astype(str), np.arange(1, cohort.n + 1).astype(str)):
            raise InvalidInput(
                f"{path} numbers its people anew, so no covariate can be told whose it is; randomize with gwas-randomize "
                "--keep-names"
            )
        values = read_covariates(columns, cohort.people)
        made = adjusted_scan(cohort, self.design.law, layout, values, wanted.thresholds, progress_bar("scanning"))
        return replace(made, warnings=(*turned, *made.warnings))

    def page(self, design_file: Path) -> "Given | None":
        return page_given(self.design, design_file, self.reports, self.reports.doubts)


def _collected(asked: ReportedDesign, input: Path) -> CollectedReports:
    refuse_options("is of people's status, which reports hold themselves; leave it out", *STATUS_OPTIONS)
    with heard() as said:
        collected = asked.collected(input)
    warn(said)
    return collected


@singledispatch
def _given(asked: Any, input: Path, phenotype: PhenotypeColumns) -> _Given:
    design = asked.design
    if holds_reports(input):
        cohort = asked.of_collected(_collected(asked, input)).cohort
        return _Collected(input, OpenedRecords.of(design), design, lambda: (cohort, []))

    def people() -> tuple[Cohort, list[str]]:
        """Randomized genotypes and status, with the design's A1 counted, and what to say of turned alleles."""
        columns = checked_phenotype(phenotype, input)
        return aligned(randomized_people(input, columns, design.domain), asked.layout)

    return _Records(input, design.reports(RecordsAt(input)), design, people, phenotype)


@_given.register
def _given_answers(asked: AssociationDesign, input: Path, phenotype: PhenotypeColumns) -> _Given:
    refuse_options("is of people's status, which answers hold themselves; leave it out", *STATUS_OPTIONS)
    if input.suffix.lower() in (".bed", ".pgen", ".bcf") or ".vcf" in input.suffixes:
        raise InvalidInput(f"{input} holds genotypes, and this design asks questions about them; give the answers")
    if holds_reports(input):
        answers: Any = asked.of_collected(_collected(asked, input)).answers
    else:
        answers = RecordsAt(input)
    return _Answers(input, OpenedRecords.of(asked.design, answers), asked.design)


def randomized_people(path: Path, phenotype: PhenotypeColumns, declared: Domain) -> Cohort:
    """The cohort. In a table, status is by default the column that gwas-randomize writes, with its categories."""
    if path.suffix.lower() in (".csv", ".parquet") and phenotype.column is None and phenotype.table is None:
        phenotype = PhenotypeColumns(None, phenotype.sample, STATUS, (STATUS_CATEGORIES[1],), (STATUS_CATEGORIES[0],))
    return read_cohort(path, phenotype, declared)


def _shown(value: Any) -> Any:
    """The value as a table shows it: an infinite limit as "inf", an undefined number as an empty cell."""
    return str(value) if isinstance(value, float) and np.isinf(value) else in_json(value)


def _adjusted_for(associations: Associations) -> str:
    return f" adjusted for {associations.adjusted_for}" if associations.adjusted_for else ""


def _show_scan(associations: Associations, epsilon: float) -> None:
    p = associations.scores.p_value
    click.echo(
        f"{amount(len(associations.variants), 'variant')}, {associations.test} test{_adjusted_for(associations)}, "
        f"total epsilon {epsilon_text(epsilon)}: "
        f"{int(np.sum(bonferroni(p) <= 0.05))} significant by Bonferroni at 5 %, {int(np.sum(p <= GENOME_WIDE))} at "
        f"5e-8; genomic control λ = {associations.lambda_gc:.3f}"
    )
    click.echo(ON_LAMBDA)
    table = associations.rows(associations.top(TOP))
    effect = "BETA" if "BETA" in table else "OR"
    columns = ["CHR", "SNP", "BP", "A1", "STAT", "P", effect, "L95", "U95"]
    rows = [[_shown(table[c][k]) for c in columns] for k in range(len(table["P"]))]
    least = "0" if effect == "OR" else "-inf"
    print_table(f"most associated; {effect} L95 U95: inf or {least} where the noise leaves no limit", columns, rows)


@command
def gwas_variants(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path | None = option("Table of the variants to write (tab separated).", "-o", type=TABBED),
    by_status: bool = option("Add frequencies in cases and in controls."),
    report: Path | None = REPORT,
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """What already randomized INPUT says of every variant: allele frequencies, call rates, Hardy-Weinberg tests.

    \b
    Columns of the table that -o writes, NA where undefined:
      N                   reports about the variant
      FREQ SE L95 U95     frequency of A1 of all copies (a man's X counts once), its standard error
                          and 95 % interval; noise may take the estimate outside 0..1
      CALL_RATE CALL_SE CALL_L95 CALL_U95  share of people with a call; with an error where missing
                          calls are randomized, too
      HWE_STAT HWE_P      test of Hardy-Weinberg proportions in everybody with two copies (1 df)
      HWE_STAT_U HWE_P_U  in controls
      F_A ... F_U ...     with --by-status: the frequency in cases and in controls
    """  # noqa: D301 (the mark tells click to keep the lines that follow as they are)
    check_outputs([output, report], [input, design_file, phenotype.table])
    asked = load_genomic_design(design_file)
    given = _given(asked, input, phenotype)
    estimated = given.described(by_status)
    left_out = (f"{amount(count, 'variant')} left out: {reason}" for reason, count in estimated.skipped.items())
    warn(dict.fromkeys([*given.reports.doubts, *estimated.warnings, *left_out]))

    with held_back():
        if output is not None:
            estimated.write_tsv(output)
        title = f"Variants of {input.name}"
        write_report(report, lambda: variants_page(estimated, asked, title, given.page(design_file)))
    if is_json():
        print_json(estimated.summary() | {"epsilon": asked.design.epsilon, "doubts": given.reports.doubts})
        return
    shown = estimated.brief(SHOWN)
    print_shown(estimated.headline(), shown)
    if shown.note:
        click.echo(shown.note)
