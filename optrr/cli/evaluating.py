"""optrr worksheet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from optrr.cli.output import json_option, print_json, say
from optrr.designing.design import Design
from optrr.designing.worksheet import Worksheet, worksheet
from optrr.errors import InvalidInput
from optrr.printable import one_line
from optrr.records.whole_files import whole_file

# Characters that Markdown or HTML would read as markup; names of attributes may hold any.
_MARKUP = frozenset("\\`*{}[]<>#|&~$")
_RECORDS = 10_000


@click.command("worksheet")
@click.argument("design_file", metavar="DESIGN", type=click.Path(path_type=Path))
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=_RECORDS,
    show_default=True,
    help="How many people will answer, for what is said of errors.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write Markdown to this file, to be filled in.")
@json_option
def evaluate(design_file: Path, records: int, output: Path | None, as_json: bool) -> None:
    """An evaluator's questions, by the topics of NIST SP 800-226, answered where DESIGN answers them and open where you must.

    The questions are in our words, not quoted, and NIST has not seen them.

    Only what was recomputed from DESIGN, or holds for every design, is stated.
    """
    sheet = worksheet(Design.load(design_file), records)
    if output is not None:
        _write(output, design_file, sheet)
    if as_json:
        print_json(sheet.summary())
    elif output is None:
        say("\n".join(markdown(sheet)))
    else:
        say(f"{output}: {len(sheet.entries)} questions, {sum(len(e.for_you) for e in sheet.entries)} for you to answer")


def _write(output: Path, design_file: Path, sheet: Worksheet) -> None:
    if output.exists() and output.samefile(design_file):
        raise InvalidInput(f"{design_file} is the design itself and would be written over; give another --output")
    with whole_file(output) as partial:
        partial.write_text("\n".join(markdown(sheet)) + "\n", encoding="utf-8")


def markdown(sheet: Worksheet) -> Iterator[str]:
    """The lines of the sheet."""
    yield "# Evaluation worksheet"
    yield ""
    yield f"Design {sheet.design}. Topics of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees."
    yield "The questions are in our words, not quoted from it."
    for entry in sheet.entries:
        yield ""
        yield f"## {entry.topic.capitalize()}: {entry.question}"
        yield ""
        yield from (f"- {_literal(line)}" for line in entry.holds)
        yield ""
        yield "For you to answer:"
        yield ""
        yield from (f"- [ ] {_literal(line)}" for line in entry.for_you)


def _literal(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in one_line(text))
