"""optrr measure."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.counted import counted_at
from optrr.cli.estimate_file import table_option
from optrr.cli.inputs import (
    among_of,
    among_option,
    attributes_option,
    confidence_option,
    design_option,
    input_argument,
    simultaneous_option,
    split_names,
)
from optrr.cli.outputs import Outputs, report_option
from optrr.cli.printing import json_option, print_shown, say
from optrr.cli.tables import read_numbers
from optrr.domain.scores import told_scores
from optrr.records.reading.source import RecordsAt
from optrr.tables.measures import MEASURES, Comparing, Measures
from optrr.tables.measures import measure as measure_table
from optrr.tables.measures.among import said_among


@click.command()
@input_argument
@design_option
@attributes_option("GROUPS,OUTCOMES", "Two attributes: the groups, and what is compared in them.")
@click.option(
    "--measure", "name", type=click.Choice(MEASURES), default="row-shares", show_default=True, help="What is measured."
)
@click.option(
    "--reference", metavar="CATEGORY", help="The group that others are compared with; the first unless given."
)
@click.option("--reference-outcome", metavar="CATEGORY", help="For odds ratios; the first outcome unless given.")
@click.option("--scores", metavar="S,S,…", help="For means: a number for every outcome, in their declared order.")
@among_option
@confidence_option
@simultaneous_option
@table_option
@report_option
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
    among: tuple[str, ...],
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    known = counted_at(design_file, input, split_names(attributes))
    numbers = (
        None if scores is None else read_numbers(scores, "--scores takes numbers separated by commas, such as 0,1,2")
    )
    comparing = Comparing(reference, reference_outcome, numbers)
    result = measure_table(
        known.counts[0],
        known.mechanism,
        name,  # type: ignore[arg-type]  # the choices are the literals
        comparing,
        confidence=confidence,
        simultaneous=simultaneous,
        among=among_of(among),
    )
    outputs.give_table(result, (known.design, design_file, known.reports, known.doubts), lambda: _print(result))


def _print(result: Measures) -> None:
    together = ", for all together" if result.simultaneous else ""
    title = f"{result.measure}: {result.groups} × {result.outcomes}, {result.n} records"
    print_shown(f"{title}{said_among(result.among)}, {100 * result.confidence:g}% intervals{together}", result.shown())
    for line in told_scores([result.outcomes], None if result.scores is None else [result.scores], 2):
        say(line)
