"""optrr perturb."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from optrr.cli.accounting import (
    after_option,
    again_option,
    epsilon_phrase,
    following,
    keep_order_option,
    limit_option,
    records_output_option,
    replaced_release,
    report_release,
    seed_option,
)
from optrr.cli.inputs import design_option, input_argument, key_option, signature_option
from optrr.cli.printing import is_strict, json_option, late_bar, warn
from optrr.cli.process import cleaned_up
from optrr.cli.public_columns import public_option
from optrr.designs.design import Asking, Design
from optrr.designs.signing import require_signed
from optrr.domain.domain import listed
from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import FileRelease, ReleaseOptions
from optrr.records.reading.source import STANDARD_INPUT, RecordsAt
from optrr.records.writing import formula_doubts
from optrr.releases.sealed import DESIGN, SAMPLED_TABLES, content_of, kind_of
from optrr.show.text import amount
from optrr.ways.protocols.sampled_tables import load_asking


@click.command()
@input_argument
@design_option
@key_option
@signature_option
@records_output_option(", or - for CSV on standard output")
@click.option("--drop", multiple=True, metavar="NAME", help="Column of INPUT to leave out, such as an id; repeatable.")
@click.option(
    "--drop-undeclared",
    is_flag=True,
    help="Leave out every column of INPUT that the design does not declare, and say which.",
)
@public_option
@again_option
@after_option()
@limit_option
@keep_order_option
@seed_option
@json_option
def perturb(
    input: RecordsAt,
    design_file: Path,
    key: Path | None,
    signature: Path | None,
    output: Path,
    drop: tuple[str, ...],
    drop_undeclared: bool,
    public: tuple[str, ...],
    again: bool,
    after: tuple[Path, ...],
    limit: float | None,
    keep_order: bool,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Randomize the records of INPUT, one column per attribute of the design.

    INPUT is a CSV, TSV, Parquet, JSON lines or Arrow file (text also compressed), a directory or several of them, a database
    with --query, or - for standard input. What is written is in random order, because a record's place may tell its value.
    """
    held = content_of(design_file, "design file")
    require_signed(held, key, signature, SAMPLED_TABLES if kind_of(held) == SAMPLED_TABLES else DESIGN)
    asking = load_asking(held)
    replaced = replaced_release(output)
    asked = PublicColumns.parsed(public)
    if asked and not isinstance(asking, Design):
        raise InvalidInput(
            f"{design_file} is no design of whole records, which alone pass public columns on; leave out --public"
        )
    how = {"drop": drop, "drop_undeclared": drop_undeclared, "again": again, "limit": limit, "public": asked}
    options = following(asking.earlier, after, keep_order=keep_order, **how)
    with late_bar() as show:
        place = input.watched(lambda done, share: show(f"{done} records randomized", share))
        if str(output) == STANDARD_INPUT:
            # what has gone into a pipe is out: there is nothing to clean up, and nothing to be said of it
            _release_to_pipe(asking, place, random_state, options, as_json)
            return
        with cleaned_up():
            made = asking.release_file(place, output, random_state, options)
    beside = made.provenance.public
    warn([*replaced, *formula_doubts(output, asking.domain), *([beside.warning()] if beside else [])])
    _say_dropped(made, drop_undeclared)
    report_release(made, output, as_json)


def _say_dropped(made: FileRelease, undeclared: bool) -> None:
    """Which columns were left out, where nobody has named them."""
    if undeclared and made.dropped:
        warn([f"left out, because the design does not declare them: {listed(made.dropped)}"], always=True)


def _release_to_pipe(
    asking: Asking, place: RecordsAt, random_state: int | None, options: ReleaseOptions, as_json: bool
) -> None:
    """Randomized records on standard output, so what is said of them goes to standard error."""
    if is_strict():
        raise InvalidInput(
            "a pipe keeps no account of what was spent, which --strict takes for a failure; name a file with -o"
        )
    if as_json or not isinstance(asking, Design):
        raise InvalidInput(
            "standard output takes only records that a design randomized, without --json; name a file with -o"
        )
    from optrr.mechanisms.perturb import release_pipe  # noqa: PLC0415 (most releases are files)

    how = asking.with_public(options)
    made = release_pipe(place, asking.mechanism, sys.stdout.buffer, random_state, how)
    _say_dropped(made, options.drop_undeclared)
    said = f"{amount(made.records, 'record')} randomized at {epsilon_phrase(made.provenance)}"
    known = made.provenance
    warn(
        [
            f"{said}; a pipe keeps no account of that",
            *known.not_private("this release"),
            *known.in_order("this release"),
        ]
    )
