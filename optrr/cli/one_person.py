"""optrr gwas-perturb --status, one person's report, which is drawn once and remembered; and gwas-merge, which joins reports."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import click

from optrr.cli.genotype_options import check_outputs, design_option, genotype_filter, load_genomic_design
from optrr.cli.inputs import FILE, refuse_options, several
from optrr.cli.main import cleaned_up
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import json_option, print_json, warn
from optrr.cli.releasing import epsilon_phrase, following, release_summary, replaced_release
from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.asking import AssociationDesign, GenomicDesign
from optrr.genomics.diary import PersonDiary
from optrr.genomics.genotypes import required
from optrr.genomics.layout import layout_of
from optrr.genomics.people_tables import text_column
from optrr.genomics.person import named_references, read_person
from optrr.genomics.person_reports import PersonReport, merged_reports, read_reports, report_files
from optrr.genomics.sampled_variants import SampledVariants
from optrr.records.reading.registry import refuse_randomized
from optrr.records.reading.source import STANDARD_INPUT
from optrr.records.writing import WRITTEN
from optrr.show.text import amount, epsilon_text, sum_of_epsilons

_STATUS = {"case": True, "control": False}
_ENDINGS = (".json", ".csv", ".parquet")
_OF_ONE_PERSON = ("absent", "reference_file", "diary")


# The options of one person's report.
person_options = several(
    click.option(
        "--status", metavar="case|control", help="INPUT is one person's file: write that person's one report."
    ),
    click.option(
        "--status-file",
        type=click.File("r", encoding="utf-8"),
        help="File that holds the word case or control, or - for standard input; shells keep what --status says.",
    ),
    click.option(
        "--absent",
        type=click.Choice(["refuse", "reference", "missing"]),
        default="refuse",
        show_default=True,
        help="Variants of which one person's file has no record: two copies of the reference allele, or missing calls.",
    ),
    click.option(
        "--reference",
        "reference_file",
        type=FILE,
        help="CSV with columns variant and reference, for --absent reference; default: the design's A2.",
    ),
    click.option(
        "--diary",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder that keeps what this person has sent.  [default: INPUT.diary, beside INPUT]",
    ),
)


def is_of_one_person(options: dict[str, Any], output: Path) -> bool:
    """Whether one person's report is asked for. Raises InvalidInput for options that only that has, and for .json."""
    if options["status"] is not None or options["status_file"] is not None:
        return True
    refuse_options("is for one person's file; give --status or --status-file too, or leave it out", *_OF_ONE_PERSON)
    if output.suffix.lower() == ".json":
        raise InvalidInput(
            f"{output} is where one person's report goes; say that person's --status, or write .bed, .csv or .parquet"
        )
    return False


def _is_case(status: str | None, file: IO[str] | None) -> bool:
    """Raises InvalidInput for another word, which may be somebody's diagnosis and is not shown."""
    if status is not None and file is not None:
        raise InvalidInput("--status and --status-file say the same; give one of them")
    option, word = (
        ("--status-file", file.read(64)) if status is None and file is not None else ("--status", status or "")
    )
    case = _STATUS.get(word.strip().casefold())
    if case is None:
        raise InvalidInput(f"{option} holds neither case nor control; write one of these words, and nothing else")
    return case


def report_one_person(
    input: Path, design: Design | SampledVariants, output: Path, as_json: bool, options: dict[str, Any]
) -> None:
    """Write the report that is kept for this design, or draw it, keep it and write it."""
    if output.suffix.lower() not in _ENDINGS:
        raise InvalidInput(
            f"cannot write {output}: one person's report is written as {', '.join(_ENDINGS)}; gwas-merge makes .bed of many"
        )
    case = _is_case(options["status"], options["status_file"])
    asked = AssociationDesign(design) if isinstance(design, SampledVariants) else GenomicDesign(design)
    layout = layout_of(design.domain)
    reference = _references(options["reference_file"], options["absent"])
    if str(input) == STANDARD_INPUT and options["diary"] is None:
        raise InvalidInput("standard input has no folder beside it that could remember; name one (--diary FOLDER)")
    folder = options["diary"] or input.with_name(f"{input.name}.diary")
    said: list[str] = []
    chosen = genotype_filter(options)

    def draw() -> PersonReport | None:
        refuse_randomized(input)
        person, lines = read_person(input, layout, case, options["absent"], reference, chosen)
        said.extend(lines)
        return asked.drawn(person, options["missing"])

    diary = PersonDiary(folder)
    whose = "" if str(input) == STANDARD_INPUT else diary.place_of(input)
    report, new = diary.once(design, draw, options["limit"], following((), options["after"]).earlier, whose)
    if not new:
        # not a warning, which --strict would take for a failure: sending the same again is what a diary is for
        click.echo(f"note: drawn before: the same report again, from {folder}", err=True)
    replaced = replaced_release(output, same=report.id)
    report.write(output, design)
    # with --strict the new entry is moved into its place at the end
    spent = sum_of_epsilons([design.epsilon, *(r.epsilon for r in diary.releases() if r.id != report.id)])
    gone = report.values.count(None) if isinstance(design, Design) and not layout.missing else 0
    if gone:
        said.append(f"{amount(gone, 'call')} missing in the report: no epsilon covers which")
    warn([*replaced, *said])
    if as_json:
        made = {"records": 1, "variants": layout.variants, "epsilon": design.epsilon, "new": new, "spent": spent}
        print_json(made | {"output": str(output), "diary": str(folder)})
        return
    how = "drawn now, and kept" if new else "drawn before: the same report again, and nothing was drawn"
    click.echo(
        f"one report about {amount(layout.variants, 'variant')} at total epsilon {epsilon_text(design.epsilon)}, {how}; "
        f"written to {output}, remembered in {folder} (epsilon {epsilon_text(spent)} spent in all)"
    )


def _references(file: Path | None, absent: str) -> dict[str, str] | None:
    if file is None:
        return None
    if absent != "reference":
        raise InvalidInput("--reference is for --absent reference; give it too, or leave it out")
    return named_references(text_column(file, "variant"), text_column(file, "reference"))


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
    replaced = replaced_release(output, same=merged.provenance.release.id)
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
