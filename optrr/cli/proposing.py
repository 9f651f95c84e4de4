"""optrr spec: propose a specification from data, and name the information taken from the records."""

from pathlib import Path

import click

from optrr.cli.inputs import INPUT, PUBLIC, by_name
from optrr.cli.options import command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, is_json, progress, warn, with_options
from optrr.core.design import Proposing, Specification, propose
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, whole_file

BINS = option(
    "Number of bins of a column of numbers or dates, with about equal counts, or their edges (inf allowed); use * "
    "for all columns with more than 50 different numbers. Repeatable.",
    metavar="NAME=K|EDGE,EDGE,…",
)


def bins_of_text(text: str) -> int | list[str]:
    """Parse a number of bins, or their edges."""
    return int(text) if text.isdigit() else [edge.strip() for edge in text.split(",")]


@command
def spec(
    input: RecordsAt = INPUT,
    output: Path | None = option("TOML file to write; default: standard output.", "-o", type=OUTPUT),
    columns: tuple[str, ...] = option("Column to include; default: all. Repeatable.", "--column", metavar="NAME"),
    bins: tuple[str, ...] = BINS,
    missing: tuple[str, ...] = option("Text that means a missing value, such as NA; repeatable.", metavar="MARK"),
    rare: int = option(
        "Minimum count of a category; rarer ones are merged into 'other'.", type=click.IntRange(min=0), default=0
    ),
    epsilon: float = option("Epsilon of every attribute, in nats; to be confirmed.", default=1.0),
    multi_select: tuple[str, ...] = option(
        "Column with several answers per cell, and their separator; each option becomes an attribute with no and "
        "yes. Repeatable.",
        metavar="COLUMN=SEPARATOR",
    ),
    public: tuple[str, ...] = PUBLIC,
) -> None:
    """Propose a specification from INPUT.

    Every line that a person should confirm is marked. Looking at the records is not private, so the command prints the
    information that the proposal reveals.

    Example: optrr spec records.csv --rare 10 -o proposed.toml
    """
    if output is not None and output.suffix.lower() != ".toml":
        raise InvalidInput(f"``output`` {output}: must be a .toml file; change its name")
    proposing = Proposing(
        columns or None,
        by_name("bins", bins, bins_of_text),
        missing,
        rare,
        PublicColumns.parsed(public),
        by_name("multi_select", multi_select, str),
    )
    watched = input.watched(lambda done, share: progress(f"{done} records read", share))
    proposal = propose(watched, proposing)
    notes = {place: with_options(note) for place, note in proposal.notes.items()}
    text = Specification.proposed(proposal, epsilon).to_toml(notes, list(map(with_options, proposal.opening())))
    if output is not None:
        with whole_file(output) as partial:
            partial.write_text(text, encoding="utf-8")
    warn(proposal.warnings)
    if output is None and not is_json():
        click.echo(text, nl=False)
    else:
        give(proposal, specification=text)
    warn(proposal.disclosed, always=True)
