"""optrr gwas and gwas-variants: what already randomized genotypes say of diseases, and of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from optrr.cli.genotype_options import (
    STATUS_OPTIONS,
    check_around,
    check_outputs,
    design_option,
    filter_options,
    genotype_filter,
    genotype_options,
    input_argument,
    load_genomic_design,
    phenotype_of,
    phenotype_options,
    plot_files,
    plot_options,
    progress_bar,
    refuse_genotype_options,
    save_plots,
    scan_files,
    scan_output_options,
    study_of,
    test_option,
    write_results,
)
from optrr.cli.inputs import FILE, refuse_options
from optrr.cli.outputs import TABBED, page_given, report_option, write_report
from optrr.cli.printing import json_option, print_json, print_shown, print_table, warn
from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.genomics.adjusting import adjusted_scan, refuse_adjusted
from optrr.genomics.alleles import read_allele_tables, scan_alleles
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.covariates import (
    NO_COVARIATES,
    CovariateColumns,
    CovariateValues,
    read_covariates,
    refuse_without_table,
)
from optrr.genomics.designing import aligned
from optrr.genomics.filters import GenotypeFilter
from optrr.genomics.layout import STATUS, STATUS_CATEGORIES, layout_of
from optrr.genomics.linkage import Linkage, linkage
from optrr.genomics.pages import scan_page, variants_page
from optrr.genomics.people_tables import table_columns
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.result_files import ScannedStudy
from optrr.genomics.sampled_scan import scan_answers
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import TOP, Associations, ScanOptions, Thresholds, cohort_kernel, scan
from optrr.genomics.tests import GENOME_WIDE
from optrr.genomics.variant_report import VariantReport, answers_report, variant_report
from optrr.models.tests.result import bonferroni
from optrr.records.counts import OpenedRecords
from optrr.records.reading.source import RecordsAt
from optrr.records.whole_files import held_back
from optrr.show.parts import Page
from optrr.show.result import SHOWN, in_json
from optrr.show.text import amount, epsilon_text


@click.command()
@input_argument
@design_option
@scan_output_options
@test_option
@filter_options
@click.option(
    "--naive",
    is_flag=True,
    help="Add the test that takes randomized records for true ones; says if it keeps its level.",
)
@plot_options
@click.option(
    "--covariates",
    "covariate_file",
    type=FILE,
    help="Public values of the people to adjust for, by name: CSV, Parquet or PLINK's form; no epsilon covers them.",
)
@click.option(
    "--covariate",
    "covariate_names",
    multiple=True,
    help="Column of it that is a covariate; default: all, or none with --strata or --trait. Repeatable.",
)
@click.option("--strata", help="Column of it whose values each have their own share of cases; alone: Mantel-Haenszel.")
@click.option("--trait", help="Column of it, of numbers, in place of the status: linear regression.")
@report_option
@genotype_options
@phenotype_options
@json_option
def gwas(
    input: Path,
    design_file: Path,
    test: str,
    naive: bool,
    covariate_file: Path | None,
    covariate_names: tuple[str, ...],
    strata: str | None,
    trait: str | None,
    maf: float,
    hwe: float,
    call_rate: float,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Association tests of every variant of already randomized INPUT, valid under its design.

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
    written = [*scan_files(options["output"], options["form"]), report, *plot_files(options).values()]
    check_outputs(written, [input, design_file, covariate_file, options["phenotype_file"], options["keep"]])
    design = load_genomic_design(design_file)
    check_around(options, design.names if isinstance(design, SampledVariants) else layout_of(design.domain).names)
    wanted = ScanOptions(test, naive, Thresholds(maf, hwe, call_rate))
    study = study_of(options, design.epsilon, design.digest, wanted)
    if covariate_file is None:
        refuse_without_table(bool(covariate_names), strata, trait)
    else:
        refuse_adjusted(wanted)
    if isinstance(design, SampledVariants):
        refuse_options("is of people's status, which answers hold themselves; leave it out", *STATUS_OPTIONS)
        if covariate_file is not None:
            raise InvalidInput(NO_COVARIATES)
        refuse_genotype_options("is of genotypes, and this design's answers are none; leave it out")
        if input.suffix.lower() in (".bed", ".pgen", ".bcf") or ".vcf" in input.suffixes:
            raise InvalidInput(f"{input} holds genotypes, and this design asks questions about them; give the answers")
        reports: OpenedRecords = OpenedRecords.of(design, RecordsAt(input))
        doubts, conditional = reports.doubts, design.epsilon
        scanned = scan_answers(design, reports, wanted)
    else:
        reports = design.reports(RecordsAt(input))
        doubts, conditional = reports.doubts, float(design.conditional_epsilons.max())
        given = phenotype_of(options, input), genotype_filter(options)
        if covariate_file is None:
            scanned = _scanned(input, design, wanted, *given)
        else:
            asked = CovariateColumns(covariate_file, options["sample_column"], covariate_names, strata, trait)
            cohort, turned = _people_to_adjust(input, design, *given, asked, reports)
            values = read_covariates(asked, cohort.people)
            with progress_bar("scanning") as progress:
                layout = layout_of(design.domain)
                scanned = adjusted_scan(cohort, design.law, layout, values, wanted.thresholds, progress)
            scanned = replace(scanned, warnings=(*turned, *scanned.warnings))
            if study is not None:
                named = tuple(name for name in values.names if name != values.trait_name)
                study = replace(study, covariates=named, cases=_share_of_cases(cohort, design, values))
    left_out = (f"{amount(count, 'variant')} left out: {reason}" for reason, count in scanned.skipped.items())
    warn(dict.fromkeys([*doubts, *scanned.warnings, *left_out, *([scanned.notes_on_naive] if naive else [])]))

    def page() -> Page:
        # answers have no page that says how they were asked
        where = None if isinstance(design, SampledVariants) else page_given(design, design_file, reports, doubts)
        return scan_page(scanned, design, f"Association scan of {input.name}", where)

    _write_files(scanned, options, study, report, page)
    if as_json:
        epsilons = {"epsilon": design.epsilon, "max_conditional_epsilon": conditional}
        print_json(scanned.summary() | epsilons | {"doubts": doubts})
    else:
        _show_scan(scanned, design)


def _write_files(
    scanned: Associations,
    options: dict[str, Any],
    study: ScannedStudy | None,
    report: Path | None,
    page: Callable[[], Page],
) -> None:
    """Table, plots and page: where one of them cannot be made, none is left."""
    with held_back():
        if options["output"] is not None:
            warn(write_results(scanned, options["output"], options["form"], study))
        save_plots(scanned, options)
        write_report(report, page)


def _people_to_adjust(
    path: Path,
    design: Design,
    phenotype: PhenotypeColumns,
    chosen: GenotypeFilter,
    asked: CovariateColumns,
    reports: OpenedRecords,
) -> tuple[Cohort, list[str]]:
    """The cohort whose people's covariates are asked for, by name, and what to say of turned alleles."""
    layout = layout_of(design.domain)
    if layout.status is None:
        raise InvalidInput("covariates are for the genotype layout, and this design randomizes alleles")
    is_table = path.suffix.lower() in (".csv", ".parquet")
    # the column of names that is given may be that of the covariates alone
    own = phenotype.sample if phenotype.table or (is_table and phenotype.sample in table_columns(path)) else None
    people = randomized_people(path, replace(phenotype, sample=own), design.domain, chosen)
    if asked.trait is None:
        people.check_varies()
    cohort, turned = aligned(people, layout)
    if reports.stated and np.array_equal(cohort.people.astype(str), np.arange(1, cohort.n + 1).astype(str)):
        raise InvalidInput(
            f"{path} numbers its people anew, so no covariate can be told whose it is; randomize with gwas-perturb --keep-names"
        )
    return cohort, turned


def _share_of_cases(cohort: Cohort, design: Design, values: CovariateValues) -> float | None:
    """Among the people with all covariates: of a trait of two values those of the larger, else of the status, estimated."""
    if values.trait is not None:
        return float(np.mean(values.trait == values.trait.max())) if values.is_binary else None
    layout = layout_of(design.domain)
    kept = cohort_kernel(cohort, design.law, layout).part(0).eigenvalues.reshape(-1, 2, 2)[0, 0, 1]
    return float((np.mean(cohort.status[values.rows]) - (1 - kept) / 2) / kept)


def _scanned(
    path: Path, design: Design, options: ScanOptions, phenotype: PhenotypeColumns, chosen: GenotypeFilter
) -> Associations:
    layout = layout_of(design.domain)
    with progress_bar("scanning") as progress:
        if layout.status is None:
            refuse_options(
                "is of people's status, which reports of the alleles layout hold; leave it out", *STATUS_OPTIONS
            )
            refuse_genotype_options("is of genotypes, and reports of the alleles layout are none; leave it out")
            reports = read_allele_tables(path, design.domain, layout, progress)
            return scan_alleles(reports, design.law, layout, options)
        cohort, turned = aligned(randomized_people(path, phenotype, design.domain, chosen), layout)
        cohort.check_varies()
        result = scan(cohort, design.law, layout, options, progress)
    return replace(result, warnings=(*turned, *result.warnings))


def randomized_people(path: Path, phenotype: PhenotypeColumns, declared: Domain, chosen: GenotypeFilter) -> Cohort:
    """The cohort. In a table, status is by default the column that gwas-perturb writes, with its categories."""
    if path.suffix.lower() in (".csv", ".parquet") and phenotype.column is None and phenotype.table is None:
        phenotype = PhenotypeColumns(None, phenotype.sample, STATUS, (STATUS_CATEGORIES[1],), (STATUS_CATEGORIES[0],))
    cohort = read_cohort(path, phenotype, declared, chosen)
    warn(chosen.absent_names(cohort.genotypes.people))
    return cohort


def _shown(value: Any) -> Any:
    """The value as a table shows it: an infinite limit as "inf", an undefined number as an empty cell."""
    return str(value) if isinstance(value, float) and np.isinf(value) else in_json(value)


def _adjusted_for(associations: Associations) -> str:
    return f" adjusted for {associations.adjusted_for}" if associations.adjusted_for else ""


def _show_scan(associations: Associations, design: Design | SampledVariants) -> None:
    p = associations.scores.p_value
    click.echo(
        f"{amount(len(associations.variants), 'variant')}, {associations.test} test{_adjusted_for(associations)}, "
        f"total epsilon {epsilon_text(design.epsilon)}: "
        f"{int(np.sum(bonferroni(p) <= 0.05))} significant by Bonferroni at 5 %, {int(np.sum(p <= GENOME_WIDE))} at "
        f"5e-8; genomic control λ = {associations.lambda_gc:.3f}"
    )
    click.echo(associations.notes_on_lambda)
    table = associations.rows(associations.top(TOP))
    effect = "BETA" if "BETA" in table else "OR"
    columns = ["CHR", "SNP", "BP", "A1", "STAT", "P", effect, "L95", "U95"]
    rows = [[_shown(table[c][k]) for c in columns] for k in range(len(table["P"]))]
    least = "0" if effect == "OR" else "-inf"
    print_table(f"most associated; {effect} L95 U95: inf or {least} where the noise leaves no limit", columns, rows)


@click.command("gwas-variants")
@input_argument
@design_option
@click.option("-o", "--output", type=TABBED, help="Table of the variants to write (tab separated).")
@click.option("--by-status", is_flag=True, help="Add frequencies in cases and in controls.")
@click.option(
    "--ld", "window", type=click.IntRange(min=1), metavar="VARIANTS", help="Add r² of variants up to so many apart."
)
@click.option("--ld-output", type=TABBED, help="Table of r² of pairs to write (tab separated); needs --ld.")
@report_option
@phenotype_options
@genotype_options
@json_option
def gwas_variants(
    input: Path,
    design_file: Path,
    output: Path | None,
    by_status: bool,
    window: int | None,
    ld_output: Path | None,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """What already randomized INPUT says of every variant: allele frequencies, call rates, Hardy-Weinberg tests, r².

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

    \b
    Columns of the table that --ld-output writes, a row for each pair on one chromosome:
      R2 SE L95 U95       squared correlation of the numbers of A1 (as plink --r2; on chromosome X
                          of women only, unlike plink), without the noise's bias, its standard
                          error and 95 % interval; R2 and SE are NA where noise would bias what is
                          shown, limits are always there
    """  # noqa: D301 (the mark tells click to keep the lines that follow as they are)
    if ld_output is not None and window is None:
        raise InvalidInput("--ld-output is the table of r² of pairs; say how far apart they may be (--ld 50)")
    check_outputs([output, ld_output, report], [input, design_file, options["phenotype_file"], options["keep"]])
    design = load_genomic_design(design_file)
    pairs: Linkage | None = None
    if isinstance(design, SampledVariants):
        refuse_options("is of people's status, which answers hold themselves; leave it out", *STATUS_OPTIONS)
        refuse_genotype_options("is of genotypes, and this design's answers are none; leave it out")
        if window is not None:
            raise InvalidInput(
                "answers tell of one variant each, or of few; r² of pairs needs whole records: leave out --ld"
            )
        reports: OpenedRecords = OpenedRecords.of(design, RecordsAt(input))
        estimated = answers_report(design, reports, by_status)
    else:
        reports = design.reports(RecordsAt(input))
        given = phenotype_of(options, input), design.domain, genotype_filter(options)
        cohort_of = partial(randomized_people, input, *given)
        estimated, pairs = _reported(cohort_of, design, by_status, window)
    left_out = (f"{amount(count, 'variant')} left out: {reason}" for reason, count in estimated.skipped.items())
    warn(dict.fromkeys([*reports.doubts, *estimated.warnings, *(pairs.warnings if pairs else ()), *left_out]))

    def page() -> Page:
        # answers have no page that says how they were asked
        where = (
            None if isinstance(design, SampledVariants) else page_given(design, design_file, reports, reports.doubts)
        )
        return variants_page(estimated, pairs, design, f"Variants of {input.name}", where)

    with held_back():
        for path, table in ((output, estimated), (ld_output, pairs)):
            if path is not None and table is not None:
                table.write_tsv(path)
        write_report(report, page)
    if as_json:
        linked = {} if pairs is None else {"linkage": pairs.summary()}
        print_json(estimated.summary() | linked | {"epsilon": design.epsilon, "doubts": reports.doubts})
        return
    shown = estimated.brief(SHOWN)
    print_shown(estimated.headline(), shown)
    if shown.note:
        click.echo(shown.note)
    if pairs is not None:
        print_shown(pairs.headline(), pairs.top_table())


def _reported(
    people: Callable[[], Cohort], design: Design, by_status: bool, window: int | None
) -> tuple[VariantReport, Linkage | None]:
    layout = layout_of(design.domain)
    if layout.status is None:
        raise InvalidInput(
            "this design randomizes alleles with the status, and this command reads genotypes; design with --layout genotype"
        )
    cohort, turned = aligned(people(), layout)
    warn(turned)
    with progress_bar("counting") as progress:
        report = variant_report(cohort, design.law, layout, by_status, progress)
    if window is None:
        return report, None
    with progress_bar("pairs") as progress:
        return report, linkage(cohort, design.law, layout, window, progress)
