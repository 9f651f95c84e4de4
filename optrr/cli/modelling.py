"""optrr model."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.counted import counted_at
from optrr.cli.inputs import (
    attributes_option,
    confidence_option,
    design_option,
    input_argument,
    simultaneous_option,
    split_names,
)
from optrr.cli.outputs import Outputs, report_option
from optrr.cli.printing import json_option, print_shown, say
from optrr.cli.refusals import refuse_options
from optrr.cli.targets import OUTPUT
from optrr.errors import InvalidInput
from optrr.models.loglinear import Comparison, LogLinear, beside, fit_loglinear, stepwise
from optrr.models.loglinear.terms import parse_terms
from optrr.records.reading.source import RecordsAt
from optrr.show.printable import amount


@click.command()
@input_argument
@design_option
@attributes_option("A,B,…", "The attributes of the table that is modelled.")
@click.option("--terms", metavar="A*B+C", help="Which attributes interact; a set includes its subsets.")
@click.option(
    "--stepwise", "order", type=click.IntRange(min=2), help="Search a model with sets of up to so many attributes."
)
@click.option(
    "--against",
    metavar="A*B+C",
    help="Another model that holds the fitted one, or is part of it: score test, likelihood ratio and BIC of both.",
)
@click.option("--random-state", type=click.IntRange(min=0), help="Seed of the simulations of --against.")
@confidence_option
@simultaneous_option
@click.option("-o", "--output", type=OUTPUT, help="CSV, Parquet or JSON file for the coefficients.")
@report_option
@json_option
def model(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    terms: str | None,
    order: int | None,
    against: str | None,
    random_state: int | None,
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Fit a log-linear model to the true records behind randomized ones: odds and odds ratios, with all else in the model."""
    if (terms is None) == (order is None):
        raise InvalidInput("a model is given by --terms or searched with --stepwise 2; give one of them")
    if against is None:
        refuse_options("is for the simulations of --against; give that too, or leave it out", "random_state")
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    known = counted_at(design_file, input, split_names(attributes))
    (counts,) = known.counts
    other = None if against is None else parse_terms(against, counts.domain)
    if terms is not None:
        wanted = parse_terms(terms, counts.domain)
        result = fit_loglinear(counts, known.mechanism, wanted, confidence, simultaneous)
    else:
        result = stepwise(counts, known.mechanism, order or 2, confidence, simultaneous)
    compared = None if other is None else beside(counts, known.mechanism, result.terms, other, random_state)
    of = (known.design, design_file, known.reports, known.doubts)
    outputs.give_table(result, of, lambda: _print(result, compared), comparison=compared)


def _print(result: LogLinear, compared: Comparison | None) -> None:
    of = "all together" if result.simultaneous else "each"
    title = f"{result.terms}: log odds and log odds ratios, {100 * result.confidence:g}% intervals for {of}, {result.n} records"
    print_shown(title, result.shown())
    say(
        f"log-likelihood {result.log_likelihood:.2f}, BIC {result.bic:.2f}, {amount(result.terms.parameters, 'parameter')}"
    )
    if compared is not None:
        say(compared.headline())
