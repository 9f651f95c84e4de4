"""optrr gwas scan and variants: association tests and allele frequencies from randomized genotypes."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from optrr.cli.genotype_options import DESIGN_FILE, PHENOTYPE, RESULTS, TEST, check_outputs, progress_bar
from optrr.cli.options import argument, command, option
from optrr.cli.outputs import REPORT, page_given, write_report
from optrr.cli.printing import give, heard, warn
from optrr.core.display import Page, amount
from optrr.core.records import held_back
from optrr.genomics.asking import (
    AssociationDesign,
    GenomicDesign,
    GenomicReports,
    VariantAnswers,
    load_genomic_design,
)
from optrr.genomics.covariates import CovariateColumns
from optrr.genomics.pages import scan_page, variants_page
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.scan import Associations
from optrr.genomics.variant_report import VariantReport


@command
def scan(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path | None = RESULTS,
    report: Path | None = REPORT,
    test: str = TEST,
    maf: float = option("Minimum estimated minor allele frequency of a variant; others are left out.", default=0.0),
    hwe: float = option("Minimum Hardy-Weinberg p-value of a variant in controls; others are left out.", default=0.0),
    covariates: Path | None = option(
        "Public covariates of the people, by name, as CSV, Parquet or PLINK file; no epsilon protects them."
    ),
    covariate: tuple[str, ...] = option(
        (
            "Column of the public values that is a covariate; default: all, or none with --strata or --trait. "
            "Repeatable."
        ),
        needs="covariates",
    ),
    strata: str | None = option(
        (
            "Column of the public values whose values are strata with separate proportions of cases; without "
            "covariates: Mantel-Haenszel test."
        ),
        needs="covariates",
    ),
    trait: str | None = option(
        "Numeric column of the public values to use instead of the status: linear regression.", needs="covariates"
    ),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Test every variant of randomized INPUT for association with the status.

    INPUT is a file from gwas randomize, a folder of reports of single people, or a .jsonl file of them. P-values are
    valid under the mechanism of the design; every polymorphic variant has a confidence interval of its odds ratio.

    Example: optrr gwas scan randomized-genotypes.csv --design gwas.json -o results.tsv
    """
    check_outputs([output, report], [input, design_file, covariates, phenotype.table])
    columns = None if covariates is None else CovariateColumns(covariates, phenotype.sample, covariate, strata, trait)
    asked = load_genomic_design(design_file)
    with heard() as said:
        reports = asked.reports(input, phenotype)
        made = reports.scan(test, maf=maf, hwe=hwe, covariates=columns, progress=progress_bar("scanning"))
    page = partial(scan_page, made, asked, f"Association scan of {input.name}")
    _give(made, asked, reports, said, (output, report, design_file), page)


@command
def variants(
    input: Path = argument(),
    design_file: Path = DESIGN_FILE,
    output: Path | None = RESULTS,
    report: Path | None = REPORT,
    by_status: bool = option("Add allele frequencies in cases and in controls."),
    phenotype: PhenotypeColumns = PHENOTYPE,
) -> None:
    """Estimate allele frequencies, call rates and Hardy-Weinberg proportions.

    INPUT has randomized genotypes.

    Example: optrr gwas variants randomized-genotypes.csv --design gwas.json
    """
    check_outputs([output, report], [input, design_file, phenotype.table])
    asked = load_genomic_design(design_file)
    with heard() as said:
        reports = asked.reports(input, phenotype)
        made = reports.variants(by_status, progress_bar("counting"))
    page = partial(variants_page, made, asked, f"Variants of {input.name}")
    _give(made, asked, reports, said, (output, report, design_file), page)


def _give(
    made: Associations | VariantReport,
    asked: GenomicDesign | AssociationDesign,
    reports: GenomicReports | VariantAnswers,
    said: Iterable[str],
    files: tuple[Path | None, Path | None, Path],
    page: Callable[..., Page],
) -> None:
    """Write the table and the page, warn, and print JSON or text."""
    output, report, design_file = files
    left_out = (f"{amount(count, 'variant')} left out: {reason}" for reason, count in made.skipped.items())
    warn(dict.fromkeys([*said, *made.warnings, *left_out]))
    opened = reports.opened
    doubts = opened.doubts if opened else []
    with held_back():
        if output is not None:
            made.write_tsv(output)
        write_report(report, lambda: page(opened and page_given(opened.asking, design_file, opened, doubts)))
    epsilons: dict[str, Any] = {
        "epsilon": asked.design.epsilon,
        "max_conditional_epsilon": asked.max_conditional_epsilon,
    }
    give(made, **epsilons, doubts=doubts)
