"""optrr worksheet."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.printing import json_option, print_json, say
from optrr.cli.targets import Target
from optrr.designs.design import Design
from optrr.designs.worksheet import Worksheet
from optrr.designs.worksheet import worksheet as answered
from optrr.errors import InvalidInput
from optrr.records.whole_files import whole_file

_RECORDS = 10_000
_SHEET = Target("a worksheet, in Markdown,", ".md", ".txt")


@click.command()
@click.argument("design_file", metavar="DESIGN", type=click.Path(path_type=Path))
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=_RECORDS,
    show_default=True,
    help="How many people will answer, for what is said of errors.",
)
@click.option("-o", "--output", type=_SHEET, help="Write Markdown to this file, to be filled in.")
@json_option
def worksheet(design_file: Path, records: int, output: Path | None, as_json: bool) -> None:
    """An evaluator's questions, by the topics of NIST SP 800-226, answered where DESIGN answers them and open where you must.

    The questions are in our words, not quoted, and NIST has not seen them.

    Only what was recomputed from DESIGN, or holds for every design, is stated.
    """
    sheet = answered(Design.load(design_file), records)
    if output is not None:
        _write(output, design_file, sheet)
    if as_json:
        print_json(sheet.summary())
    elif output is None:
        say(sheet.markdown())
    else:
        say(f"{output}: {len(sheet.entries)} questions, {sum(len(e.for_you) for e in sheet.entries)} for you to answer")


def _write(output: Path, design_file: Path, sheet: Worksheet) -> None:
    if output.exists() and output.samefile(design_file):
        raise InvalidInput(f"{design_file} is the design itself and would be written over; give another --output")
    with whole_file(output) as partial:
        partial.write_text(sheet.markdown() + "\n", encoding="utf-8")
