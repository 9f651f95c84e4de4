"""optrr spec: from data to a specification, a proposal that names what it took from them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from optrr.cli.inputs import INPUT, PUBLIC, by_name, said_of_input
from optrr.cli.options import command, option
from optrr.cli.outputs import OUTPUT
from optrr.cli.printing import is_json, print_json, print_table, progress, say, warn, with_options
from optrr.core.design import Proposal, Proposing, Specification, propose
from optrr.core.display import SOFTWARE, amount
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, whole_file

# Attributes that a table on the screen lists.
_SHOWN = 200

BINS = option(
    "Bins of a column of numbers or dates: how many, with about as many records each, or their edges (inf allowed); K alone is "
    "for every column of more than 50 different numbers. Repeatable.",
    metavar="NAME=K|EDGE,EDGE,…",
)


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
        "Column with several answers in a cell, and what separates them: each option becomes an attribute of no and yes. "
        "Repeatable.",
        metavar="COLUMN=SEPARATOR",
    ),
    public: tuple[str, ...] = PUBLIC,
) -> None:
    """Propose a specification from INPUT; every line that a person should confirm is marked.

    Looking at the records is not private, and what it gives away is printed.
    """
    if output is not None and output.suffix.lower() != ".toml":
        raise InvalidInput(f"{output} ends in {output.suffix!r}; a proposed specification is written as .toml")
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput(f"--epsilon {epsilon}; give a finite number of nats above 0")
    beside = PublicColumns.parsed(public)
    wanted = Proposing(
        columns or None, all_bins(bins), missing, rare, beside, by_name("multi_select", multi_select, str)
    )
    proposal = propose(input.watched(lambda done, share: progress(f"{done} records read", share)), wanted)
    specification = Specification(proposal.domain, np.full(proposal.domain.m, epsilon), public=beside)
    commands = _next_commands(input, output, undeclared=bool(columns or proposal.left_out))
    text = specification.to_toml(_notes(proposal), [*_opening(input, proposal), "Then:", *commands])
    if output is not None:
        with whole_file(output) as partial:
            partial.write_text(text, encoding="utf-8")
    warn([*([beside.warning()] if beside else []), *proposal.warnings()])
    _report(proposal, output, text)
    if output is not None and not is_json():
        say(f"then: {'; '.join(commands)}")


def all_bins(texts: Sequence[str]) -> dict[str, int | list[str]]:
    """The bins of every column that is named, and under "" those of all others."""
    given = [_bins(text) for text in texts]
    names = [name for name, _ in given]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        which = f" for {twice[0]!r}" if twice[0] else " for every column"
        raise InvalidInput(f"--bins is given twice{which}, and only one can count; give it once")
    return dict(given)


def _bins(text: str) -> tuple[str, int | list[str]]:
    name, _, said = text.rpartition("=")
    edges = [e.strip() for e in said.split(",")]
    if len(edges) == 1:
        if not edges[0].isdigit():
            raise InvalidInput(f"--bins {text!r} cannot be read; give NAME=K or NAME=EDGE,EDGE,…, such as age=18,30,65")
        return name, int(edges[0])
    return name, edges


def _next_commands(place: RecordsAt, output: Path | None, *, undeclared: bool) -> list[str]:
    """The commands that design for this specification and randomize these records."""
    said = said_of_input(click.get_current_context())
    written = [word for name, value in said.items() for word in (f"--{name}", value)]
    drop = ["--drop-undeclared"] if undeclared else []
    randomize = [
        "optrr",
        "randomize",
        *map(str, place.named),
        *written,
        "--design",
        "design.json",
        *drop,
        "-o",
        "released.csv",
    ]
    return [
        shlex.join(["optrr", "design", "spec.toml" if output is None else str(output), "-o", "design.json"]),
        shlex.join(randomize),
    ]


def _notes(proposal: Proposal) -> dict[tuple[str, str], str]:
    notes = {at: with_options(note) for at, note in proposal.notes.items()}
    return {("", "epsilon"): "confirm: the accuracy of every attribute, in nats", **notes}


def _opening(place: RecordsAt, proposal: Proposal) -> list[str]:
    left_out = [f"left out: {name!r} has {with_options(why)}" for name, why in proposal.left_out.items()]
    return [
        f"Proposed by {SOFTWARE} from {str(place)!r}, {amount(proposal.records, 'record')}.",
        "Confirm every line marked so.",
        *(f"Gives away: {line}" for line in proposal.disclosed[1:-1]),
        *left_out,
    ]


def _report(proposal: Proposal, output: Path | None, text: str) -> None:
    if is_json():
        attributes = [{"name": a.name, "size": a.size, "ordered": a.ordered} for a in proposal.domain]
        print_json(
            {
                "records": proposal.records,
                "attributes": attributes,
                "left_out": proposal.left_out,
                "discloses": proposal.disclosed,
                "doubts": proposal.doubts,
                "specification": text,
            }
        )
    elif output is None:
        click.echo(text, nl=False)
    else:
        notes: dict[str, list[str]] = {}
        for (name, _), note in proposal.notes.items():
            notes.setdefault(name, []).append(note.removeprefix("confirm: "))
        shown = proposal.domain.attributes[:_SHOWN]
        print_table(
            f"proposed from {amount(proposal.records, 'record')}, written to {output}: confirm every line marked so",
            ["attribute", "size", "confirm"],
            [(a.name, a.size, "; ".join(notes.get(a.name, ()))) for a in shown],
        )
        if len(shown) < proposal.domain.m:
            click.echo(f"and {amount(proposal.domain.m - len(shown), 'attribute')} more in {output}")
    warn(proposal.disclosed, always=True)
