"""optrr measure."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import click

from optrr.cli.estimate_file import check_estimate_suffix, table_option, write_estimate
from optrr.cli.inputs import (
    confidence_option,
    design_option,
    input_argument,
    keep_input,
    simultaneous_option,
    split_names,
)
from optrr.cli.output import json_option, print_json, print_table, warn
from optrr.cli.releases import doubts_about
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.estimation.impossible import impossible
from optrr.measures import MEASURES, Comparing, Measures
from optrr.measures import measure as measure_table
from optrr.records.counts import count
from optrr.records.reading.source import RecordsAt


@click.command()
@input_argument
@design_option
@click.option(
    "--attributes",
    required=True,
    metavar="GROUPS,OUTCOMES",
    help="Two attributes: the groups, and what is compared in them.",
)
@click.option(
    "--measure", "name", type=click.Choice(MEASURES), default="row-shares", show_default=True, help="What is measured."
)
@click.option(
    "--reference", metavar="CATEGORY", help="The group that others are compared with; the first unless given."
)
@click.option("--reference-outcome", metavar="CATEGORY", help="For odds ratios; the first outcome unless given.")
@click.option("--scores", metavar="S,S,…", help="For means: a number for every outcome, in their declared order.")
@confidence_option
@simultaneous_option
@table_option
@json_option
def measure(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    name: str,
    reference: str | None,
    reference_outcome: str | None,
    scores: str | None,
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    if output is not None:
        check_estimate_suffix(output)
        keep_input(output, input)
    design = Design.load(design_file)
    doubts = doubts_about([input], design.digest)
    counts = count(input, design.domain, split_names(attributes), allow_extra=True)
    doubts += impossible([counts], design.mechanism)
    comparing = Comparing(reference, reference_outcome, None if scores is None else _numbers(scores))
    result = measure_table(
        counts,
        design.mechanism,
        name,  # type: ignore[arg-type]  # the choices are the literals
        comparing,
        confidence=confidence,
        simultaneous=simultaneous,
    )
    summary = result.summary() | {"doubts": doubts}
    if output is not None:
        write_estimate(result, summary, output)
    warn([*doubts, *result.warnings])
    if as_json:
        print_json(summary)
    else:
        _print(result)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput("--scores takes numbers separated by commas, such as 0,1,2") from None


def _print(result: Measures) -> None:
    together = ", for all together" if result.simultaneous else ""
    table = result.to_arrow()
    asked = [name for name in table.column_names if table.column(name).null_count < table.num_rows]
    print_table(
        f"{result.measure}: {result.groups} × {result.outcomes}, {result.n} records, {100 * result.confidence:g}% intervals"
        f"{together}",
        asked,
        [
            [None if isinstance(v, float) and isnan(v) else v for v in row.values()]
            for row in table.select(asked).to_pylist()
        ],
    )
