"""optrr estimate."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optrr.cli.estimate_file import check_estimate_suffix, write_estimate
from optrr.cli.inputs import design_option, input_argument, keep_input, split_names
from optrr.cli.output import json_option, late_bar, print_json, print_table, warn
from optrr.cli.releases import doubts_about
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.estimation.estimator import METHODS
from optrr.estimation.estimator import estimate as estimate_table
from optrr.estimation.impossible import impossible
from optrr.estimation.statistics import STATISTICS
from optrr.protocols.saved import load_asking
from optrr.records.counts import Counts, count
from optrr.records.reading.source import RecordsAt

if TYPE_CHECKING:
    from optrr.estimation.derived import Derived
    from optrr.estimation.result import Estimate
    from optrr.mechanisms.randomizer import Randomizer


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
        from optrr.estimation.adjusted_table import estimate_adjusted  # noqa: PLC0415 (as in _derived)

        result = estimate_adjusted(input, design.mechanism, counts.domain.names, **wished)
    else:
        result = estimate_table(counts, design.mechanism, method=method, **wished)
    derived = _derived(counts, design.mechanism, statistics, confidence) if statistics else []
    _give_estimate(result, derived, doubts, output, as_json)


def _derived(counts: Counts, mechanism: Randomizer, statistics: Sequence[str], confidence: float) -> list[Derived]:
    # takes longer to import than most tables take to estimate, and few ask for it
    from optrr.estimation.derived import derive  # noqa: PLC0415

    return [
        derive(counts, mechanism, s, confidence=confidence)  # type: ignore[arg-type]  # the choices are the literals
        for s in statistics
    ]


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
