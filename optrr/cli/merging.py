"""optrr gwas-merge."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.accounting import epsilon_phrase, release_summary, replaced_release
from optrr.cli.genomics import check_outputs, design_option, load_genomic_design
from optrr.cli.inputs import FILE
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import json_option, print_json, warn
from optrr.cli.process import cleaned_up
from optrr.errors import InvalidInput
from optrr.genomics.genotypes import required
from optrr.genomics.layout import layout_of
from optrr.genomics.person_reports import merged_reports, read_reports, report_files
from optrr.genomics.sampled_variants import SampledVariants
from optrr.records.writing import WRITTEN
from optrr.show.text import amount


@click.command("gwas-merge")
@click.argument("places", metavar="REPORTS...", nargs=-1, required=True, type=FILE)
@design_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT,
    help=".bed (with .bim and .fam), .csv or .parquet to write; answers about a few variants as .csv or .parquet.",
)
@json_option
def gwas_merge(places: tuple[Path, ...], design_file: Path, output: Path, as_json: bool) -> None:
    """Reports of single people as one file that optrr gwas reads, in random order.

    REPORTS are files that gwas-perturb --status or a client wrote (.json, .csv, .parquet; .jsonl with one on each line), or
    folders of them. A report of another design is refused, and so is one that is there twice. Nothing of OUTPUT says which file
    a row came from: people are numbered anew, and no name, time or id of a report is kept.
    """
    design = load_genomic_design(design_file)
    answers = isinstance(design, SampledVariants)
    _check_suffix(output, answers or layout_of(design.domain).status is None)
    files, others = report_files(places)
    check_outputs([output], [design_file, *files])
    merged = merged_reports(design, read_reports(files, design))
    replaced = replaced_release(output, same=merged.provenance.randomizations[-1].id)
    with cleaned_up():
        merged.write(output)
    beside = f"{amount(len(others), 'file')} beside the reports left out, by their endings"
    warn([*replaced, *([beside] if others else [])])
    if as_json:
        made = {"records": len(merged.rows), "variants": layout_of(design.domain).variants}
        print_json(made | release_summary(merged.provenance) | {"output": str(output), "left_out": len(others)})
    else:
        click.echo(
            f"{amount(len(merged.rows), 'report')} at {epsilon_phrase(merged.provenance)}, in random order, written to {output}"
        )


def _check_suffix(output: Path, tables_only: bool) -> None:
    suffix = output.suffix.lower()
    if suffix == ".bed" and tables_only:
        raise InvalidInput(
            f"cannot write {output}: PLINK files cannot hold what this design asks for; write .csv or .parquet"
        )
    if suffix not in (".bed", *WRITTEN):
        raise InvalidInput(f"{output} ends in {output.suffix!r}; merged reports are written as .bed, .csv or .parquet")
    if suffix == ".bed":
        required("bed_reader")  # it writes them, too
