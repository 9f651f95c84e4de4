"""optrr gwas-variants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from optrr.cli.association import randomized_people
from optrr.cli.genomics import (
    STATUS_OPTIONS,
    check_outputs,
    design_option,
    input_argument,
    load_genomic_design,
    phenotype_of,
    phenotype_options,
    progress_bar,
)
from optrr.cli.genotype_options import genotype_filter, genotype_options, refuse_genotype_options
from optrr.cli.inputs import refuse_options
from optrr.cli.outputs import TABBED, page_given, report_option, write_report
from optrr.cli.printing import json_option, print_json, print_shown, warn
from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.designing import aligned
from optrr.genomics.layout import layout_of
from optrr.genomics.linkage import Linkage, linkage
from optrr.genomics.pages import variants_page
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.variant_report import VariantReport, answers_report, variant_report
from optrr.records.counts import OpenedRecords
from optrr.records.reading.source import RecordsAt
from optrr.show.parts import Page
from optrr.show.result import SHOWN
from optrr.show.text import amount


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
    for path, table in ((output, estimated), (ld_output, pairs)):
        if path is not None and table is not None:
            table.write_tsv(path)

    def page() -> Page:
        # answers have no page that says how they were asked
        where = (
            None if isinstance(design, SampledVariants) else page_given(design, design_file, reports, reports.doubts)
        )
        return variants_page(estimated, pairs, design, f"Variants of {input.name}", where)

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
