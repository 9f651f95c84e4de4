"""optrr perturb, optrr estimate."""

from __future__ import annotations

import sys
from math import isnan
from pathlib import Path
from typing import Any

import click

from optrr.asking import Asking
from optrr.cli.estimate_file import check_estimate_suffix, write_estimate
from optrr.cli.inputs import input_argument, keep_input
from optrr.cli.output import json_option, late_bar, print_json, print_table, warn
from optrr.cli.releases import (
    again_option,
    doubts_about,
    epsilon_phrase,
    limit_option,
    releases_in,
    replaced_release,
    report_release,
    seed_option,
)
from optrr.cli.signals import cleaned_up
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.estimation import METHODS, STATISTICS, Derived, Estimate, derive, estimate_adjusted
from optrr.estimation import estimate as estimate_table
from optrr.estimation.impossible import impossible
from optrr.mechanisms.piping import release_pipe
from optrr.mechanisms.release import ReleaseOptions
from optrr.protocols.saved import load_asking
from optrr.records.counts import count
from optrr.records.provenance import SEEDED
from optrr.records.reading.source import STANDARD_INPUT, RecordsAt

design_option = click.option(
    "--design", "design_file", required=True, type=click.Path(path_type=Path), help="Design file from optrr design."
)


@click.command()
@input_argument
@design_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="CSV or Parquet file to write, or - for CSV on standard output.",
)
@click.option("--drop", multiple=True, metavar="NAME", help="Column of INPUT to leave out, such as an id; repeatable.")
@again_option
@click.option(
    "--after",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Earlier release of the same people, to be added up in the account; repeatable.",
)
@limit_option
@seed_option
@json_option
def perturb(
    input: RecordsAt,
    design_file: Path,
    output: Path,
    drop: tuple[str, ...],
    again: bool,
    after: tuple[Path, ...],
    limit: float | None,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Randomize the records of INPUT, one column per attribute of the design.

    INPUT is a CSV, TSV, Parquet, JSON lines or Arrow file (text also compressed), a directory or several of them, a database
    with --query, or - for standard input.
    """
    asking = load_asking(design_file)
    earlier = (*asking.earlier, *releases_in(after))
    replaced = replaced_release(output)
    options = ReleaseOptions(drop=drop, again=again, earlier=earlier, limit=limit)
    with late_bar() as show:
        place = input.watched(lambda done, share: show(f"{done} records randomized", share))
        if str(output) == STANDARD_INPUT:
            # what has gone into a pipe is out: there is nothing to clean up, and nothing to be said of it
            _release_to_pipe(asking, place, random_state, options, as_json)
            return
        with cleaned_up():
            made = asking.release_file(place, output, random_state, options)
    warn(replaced)
    report_release(made, output, as_json)


def _release_to_pipe(
    asking: Asking, place: RecordsAt, random_state: int | None, options: ReleaseOptions, as_json: bool
) -> None:
    """Randomized records on standard output, so what is said of them goes to standard error."""
    if as_json or not isinstance(asking, Design):
        raise InvalidInput(
            "standard output takes only records that a design randomized, without --json; name a file with -o"
        )
    made = release_pipe(place, asking.mechanism, sys.stdout.buffer, random_state, options)
    said = [f"{made.records} records randomized at {epsilon_phrase(made.provenance)}; a pipe keeps no account of that"]
    warn([*said, *([f"they were {SEEDED}"] if made.provenance.seeded else [])])


@click.command()
@input_argument
@design_option
@click.option(
    "--attributes",
    required=True,
    metavar="A,B",
    help="Attributes of the table, separated by commas; a comma inside a name is written twice.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="CSV, Parquet or JSON file for the table.")
@click.option(
    "--method", type=click.Choice(METHODS), default="unbiased", show_default=True, help="How the table is estimated."
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of each interval.")
@click.option("--simultaneous", is_flag=True, help="Intervals that all hold together with that confidence.")
@click.option(
    "--derive",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Also a statistic of the table, from the unbiased estimate whatever the method; repeatable.",
)
@json_option
def estimate(
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    output: Path | None,
    method: str,
    confidence: float,
    simultaneous: bool,
    statistics: tuple[str, ...],
    as_json: bool,
) -> None:
    """Estimate a table of proportions, and statistics of it, from randomized records."""
    if output is not None:
        check_estimate_suffix(output)
        keep_input(output, input)
    design = load_asking(design_file)
    doubts = doubts_about([input], design.digest)
    if not isinstance(design, Design):
        if method != "unbiased" or statistics or simultaneous:
            raise InvalidInput(
                "answers to one random table each take no --method, no --simultaneous and no --derive; leave them out"
            )
        sampled = design.estimate(input, split_names(attributes), confidence)
        _give_estimate(sampled, [], doubts, output, as_json)
        return
    with late_bar() as show:
        place = input.watched(lambda done, share: show(f"{done} records counted", share))
        counts = count(place, design.domain, split_names(attributes), allow_extra=True)
    doubts += impossible([counts], design.mechanism)
    wished: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    if method == "adjusted":
        result = estimate_adjusted(input, design.mechanism, counts.domain.names, **wished)
    else:
        result = estimate_table(counts, design.mechanism, method=method, **wished)
    derived = [
        derive(counts, design.mechanism, s, confidence=confidence)  # type: ignore[arg-type]  # the choices are the literals
        for s in statistics
    ]
    _give_estimate(result, derived, doubts, output, as_json)


def _summary(result: Estimate, derived: list[Derived], doubts: list[str]) -> dict[str, Any]:
    return result.summary() | {"doubts": doubts} | ({"derived": [d.summary() for d in derived]} if derived else {})


def _give_estimate(
    result: Estimate, derived: list[Derived], doubts: list[str], output: Path | None, as_json: bool
) -> None:
    """Write the estimate where asked to, then print it."""
    if output is not None:
        write_estimate(result, _summary(result, derived, doubts), output)
    warn(doubts)
    if as_json:
        print_json(_summary(result, derived, doubts))
        return
    table = result.to_arrow()
    print_table(
        f"{' × '.join(result.domain.names)}: proportions of {result.n} records, {100 * result.confidence:g}% intervals",
        table.column_names,
        [["(missing)" if v is None else v for v in row.values()] for row in table.to_pylist()],
    )
    click.echo(f"{result.method}: {result.bias}")
    click.echo(result.interval_note)
    warn(result.warnings)
    if derived:
        _print_derived(derived)


def _print_derived(derived: list[Derived]) -> None:
    print_table(
        f"statistics of the table, {100 * derived[0].confidence:g}% intervals",
        ["statistic", "value", "standard error", "lower", "upper", "reliable"],
        [
            (d.statistic, *map(_known, (d.value, d.standard_error, d.lower, d.upper)), "yes" if d.reliable else "no")
            for d in derived
        ],
    )
    warn(line for d in derived for line in d.warnings)


def _known(number: float) -> float | None:
    return None if isnan(number) else number


def split_names(text: str) -> tuple[str, ...]:
    """Names separated by commas; a doubled comma stands for one inside a name."""
    return tuple(n.replace("\0", ",").strip() for n in text.replace(",,", "\0").split(","))
