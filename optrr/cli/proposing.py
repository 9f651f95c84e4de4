"""optrr spec: from data to a specification, a proposal that names what it took from them."""

from pathlib import Path

import click

from optrr.cli.inputs import INPUT, PUBLIC, by_name
from optrr.cli.options import command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import give, is_json, progress, warn
from optrr.core.design import Proposing, Specification, propose
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, whole_file

BINS = option(
    "Bins of a column of numbers or dates: how many, with about as many records each, or their edges (inf allowed); * is every "
    "column of more than 50 different numbers. Repeatable.",
    metavar="NAME=K|EDGE,EDGE,…",
)


def bins_of_text(text: str) -> int | list[str]:
    """Parse a number of bins, or their edges."""
    return int(text) if text.isdigit() else [edge.strip() for edge in text.split(",")]


@command
def spec(
    input: RecordsAt = INPUT,
    output: Path | None = option("TOML file to write; otherwise it is printed.", "-o", type=OUTPUT),
    columns: tuple[str, ...] = option("Column to propose; repeatable, default all.", "--column", metavar="NAME"),
    bins: tuple[str, ...] = BINS,
    missing: tuple[str, ...] = option("Text that means a missing value, such as NA; repeatable.", metavar="MARK"),
    rare: int = option("Merge categories that occur fewer times into 'other'.", type=click.IntRange(min=0), default=0),
    epsilon: float = option("Epsilon of every attribute, in nats; to be confirmed.", default=1.0),
    multi_select: tuple[str, ...] = option(
        "Column with several answers in a cell, and what separates them; each option becomes an attribute of no and yes. "
        "Repeatable.",
        metavar="COLUMN=SEPARATOR",
    ),
    public: tuple[str, ...] = PUBLIC,
) -> None:
    """Propose a specification from INPUT.

    Every line that a person should confirm is marked.

    Looking at the records is not private, and what it gives away is printed.

    Example: optrr spec records.csv --rare 10 -o proposed.toml
    """
    if output is not None and output.suffix.lower() != ".toml":
        raise InvalidInput(f"``output`` {output}: not a .toml file, as a proposed specification is; name it so")
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
    text = Specification.proposed(proposal, epsilon).to_toml(proposal.notes, proposal.opening())
    if output is not None:
        with whole_file(output) as partial:
            partial.write_text(text, encoding="utf-8")
    warn(proposal.warnings)
    if output is None and not is_json():
        click.echo(text, nl=False)
    else:
        give(proposal, specification=text)
    warn(proposal.disclosed, always=True)
