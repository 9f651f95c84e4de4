"""optrr model."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import click

from optrr.cli.estimate_file import check_estimate_suffix, write_estimate
from optrr.cli.inputs import design_option, input_argument, keep_input, split_names
from optrr.cli.output import json_option, print_json, print_table, say, warn
from optrr.cli.releases import doubts_about
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.estimation.impossible import impossible
from optrr.models import LogLinear, fit_loglinear, stepwise
from optrr.models.terms import parse_terms
from optrr.records.counts import count
from optrr.records.reading.source import RecordsAt


@click.command()
@input_argument
@design_option
@click.option("--attributes", required=True, metavar="A,B,…", help="The attributes of the table that is modelled.")
@click.option("--terms", metavar="A*B+C", help="Which attributes interact; a set includes its subsets.")
@click.option(
    "--stepwise", "order", type=click.IntRange(min=2), help="Search a model with sets of up to so many attributes."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="CSV, Parquet or JSON file for the coefficients.")
@json_option
def model(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    terms: str | None,
    order: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fit a log-linear model to the true records behind randomized ones: odds and odds ratios, with all else in the model."""
    if (terms is None) == (order is None):
        raise InvalidInput("a model is given by --terms or searched with --stepwise 2; give one of them")
    if output is not None:
        check_estimate_suffix(output)
        keep_input(output, input)
    design = Design.load(design_file)
    doubts = doubts_about([input], design.digest)
    counts = count(input, design.domain, split_names(attributes), allow_extra=True)
    doubts += impossible([counts], design.mechanism)
    if terms is not None:
        result = fit_loglinear(counts, design.mechanism, parse_terms(terms, counts.domain))
    else:
        result = stepwise(counts, design.mechanism, order or 2)
    summary = result.summary() | {"doubts": doubts}
    if output is not None:
        write_estimate(result, summary, output)
    warn([*doubts, *result.warnings])
    if as_json:
        print_json(summary)
    else:
        _print(result)


def _print(result: LogLinear) -> None:
    table = result.to_arrow()
    rows: list[list[Any]] = [
        [None if isinstance(v, float) and isnan(v) else v for v in row.values()] for row in table.to_pylist()
    ]
    print_table(f"{result.terms}: log odds and log odds ratios, {result.n} records", table.column_names, rows)
    say(f"log-likelihood {result.log_likelihood:.2f}, BIC {result.bic:.2f}, {result.terms.parameters} parameters")
