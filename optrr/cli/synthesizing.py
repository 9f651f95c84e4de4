"""optrr synthesize."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.inputs import design_option, input_argument, keep_input, split_names
from optrr.cli.printing import json_option, print_json, print_table, say, warn
from optrr.cli.targets import OUTPUT
from optrr.designs.design import Design
from optrr.records.reading.source import RecordsAt
from optrr.records.spreadsheets import formula_doubts
from optrr.records.writing import check_written_suffix
from optrr.tables.synthesis import synthesize as draw_records


@click.command()
@input_argument
@design_option
@click.option("-o", "--output", required=True, type=OUTPUT, help="CSV or Parquet file for the records.")
@click.option("--attributes", metavar="A,B,…", help="Attributes of the records; all of the design's unless given.")
@click.option("--size", type=click.IntRange(min=1), help="Number of records; as many as INPUT holds unless given.")
@click.option("--random-state", type=click.IntRange(min=0), help="Seed of the draw.")
@json_option
def synthesize(
    *,
    input: RecordsAt,
    design_file: Path,
    output: Path,
    attributes: str | None,
    size: int | None,
    random_state: int | None,
    as_json: bool,
) -> None:
    """Records to hand on, drawn from a model with the pair tables estimated from randomized ones; errors are the estimates'."""
    check_written_suffix(output)
    keep_input(output, input)
    design = Design.load(design_file)
    reports = design.reports(input)
    doubts = reports.unweighted_doubts
    chosen = None if attributes is None else split_names(attributes)
    result = draw_records(reports.places[0], design.mechanism, chosen, size=size, random_state=random_state)
    result.save(output)
    doubts += formula_doubts(output, design.domain)
    warn([*doubts, *result.warnings])
    if as_json:
        print_json(result.summary() | {"output": str(output), "doubts": doubts})
        return
    rows = [[" × ".join(p.attributes), p.cells, p.within, p.largest_difference, p.kept] for p in result.pairs]
    heads = ["pair", "cells", "within intervals", "largest difference", "association kept"]
    print_table("pair tables beside the estimates", heads, rows)
    say(f"{result.headline()}, written to {output}")
