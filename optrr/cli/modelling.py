"""optrr measure, model and regress: what tables and models say of the true records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from optrr.cli.inputs import (
    among_of,
    among_option,
    answered_option,
    attributes_option,
    confidence_option,
    counted_at,
    counted_by,
    design_option,
    ignorable_option,
    input_argument,
    refuse_options,
    scores_by_name,
    scores_of,
    scores_option,
    simultaneous_option,
    split_names,
)
from optrr.cli.outputs import OUTPUT, Outputs, report_option, table_option
from optrr.cli.pooling import pool_option, with_pool
from optrr.cli.printing import json_option, late_bar, print_shown, say
from optrr.cli.public_columns import Sampled, counted_as_sampled, sample_options
from optrr.designs.design import Design
from optrr.domain.domain import told_scores
from optrr.errors import InvalidInput
from optrr.models.estimated import model_estimated
from optrr.models.loglinear.estimating import Comparison, LogLinear, beside, fit_loglinear, stepwise
from optrr.models.loglinear.fitting import parse_terms
from optrr.models.regression.answers import NO_PUBLIC, regress_estimated
from optrr.models.regression.building import read_reports, read_sampled
from optrr.models.regression.fitting import FAMILIES, fitted, modelled
from optrr.models.regression.formulas import Formula, check_scores
from optrr.records.reading.source import RecordsAt
from optrr.show.text import amount, crossed
from optrr.tables.estimation.estimator import check_confidence
from optrr.tables.estimation.impossible import impossible
from optrr.tables.measures import MEASURES, Comparing, Measures
from optrr.tables.measures import measure as measure_table
from optrr.tables.measures.among import restriction, said_among
from optrr.ways.protocols.sampled_tables import load_asking


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
@scores_option
@among_option
@answered_option
@ignorable_option
@pool_option
@sample_options
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
    scores: tuple[str, ...],
    among: tuple[str, ...],
    answered: bool,
    ignorable: str | None,
    pool: tuple[str, ...],
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    names = split_names(attributes)
    numbers = scores_of(scores, names[-1:])
    asking = load_asking(design_file)
    reports = with_pool(asking.reports(input), pool, names)
    domain = reports.asking.domain
    of, kept = restriction(domain, names, among_of(among, domain), answered, ignorable)
    known = counted_as_sampled(asking, reports, of, Sampled(by=None, **sampled))
    comparing = Comparing(reference, reference_outcome, numbers.get(names[-1]))
    result = measure_table(
        known.counts[0],
        known.mechanism,
        name,  # type: ignore[arg-type]  # the choices are the literals
        comparing,
        confidence=confidence,
        simultaneous=simultaneous,
        among=kept,
        ignorable=ignorable,
    )
    outputs.give_table(result, (known.design, design_file, known.reports, known.doubts), lambda: print_measures(result))


def print_measures(result: Measures) -> None:
    """The table, whom it is among, the scores that counted, and the sample."""
    together = ", for all together" if result.simultaneous else ""
    title = f"{result.measure}: {crossed(result.attributes)}, {result.n} records"
    print_shown(f"{title}{said_among(result.among)}, {100 * result.confidence:g}% intervals{together}", result.shown())
    for line in told_scores(result.attributes[-1:], None if result.scores is None else [result.scores], 2):
        say(line)
    for line in (result.note, result.sample and f"weighted: {result.sample}"):
        if line:
            say(line)


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
@pool_option
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
    pool: tuple[str, ...],
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
    names = split_names(attributes)
    known = counted_at(design_file, input, names, lambda reports: with_pool(reports, pool, names))
    (counts,) = known.counts
    other = None if against is None else parse_terms(against, counts.domain)
    if known.mechanism is None:
        if terms is None or other is not None:
            raise InvalidInput(
                "models of answers to questions are given by --terms, and tested by optrr test; leave out what searches or "
                "compares them"
            )
        result = model_estimated(counts, parse_terms(terms, counts.domain), confidence, simultaneous)
    elif terms is not None:
        wanted = parse_terms(terms, counts.domain)
        result = fit_loglinear(counts, known.mechanism, wanted, confidence, simultaneous)
    else:
        result = stepwise(counts, known.mechanism, order or 2, confidence, simultaneous)
    compared = None if other is None else beside(counts, known.mechanism, result.terms, other, random_state)
    of = (known.design, design_file, known.reports, known.doubts)
    outputs.give_table(result, of, lambda: _print_model(result, compared), comparison=compared)


def _print_model(result: LogLinear, compared: Comparison | None) -> None:
    of = "all together" if result.simultaneous else "each"
    title = f"{result.terms}: log odds and log odds ratios, {100 * result.confidence:g}% intervals for {of}, {result.n} records"
    print_shown(title, result.shown())
    say(
        f"log-likelihood {result.log_likelihood:.2f}, BIC {result.bic:.2f}, {amount(result.terms.parameters, 'parameter')}"
    )
    if compared is not None:
        say(compared.headline())


@click.command()
@input_argument
@design_option
@click.option(
    "--formula", required=True, metavar="Y~A+B", help="Outcome and predictors; write 'income ~ sex + C(age)'."
)
@click.option(
    "--family", type=click.Choice(FAMILIES), help="By default logistic for two categories, linear for numbers."
)
@click.option("--true-predictors", metavar="A,B,…", help="Predictors in INPUT that were not randomized.")
@pool_option
@scores_option
@sample_options
@confidence_option
@table_option
@report_option
@json_option
def regress(
    *,
    input: RecordsAt,
    design_file: Path,
    formula: str,
    family: str | None,
    true_predictors: str | None,
    pool: tuple[str, ...],
    scores: tuple[str, ...],
    confidence: float,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """Linear and logistic regression of the true records, from randomized ones."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    check_confidence(confidence)
    asking = load_asking(design_file)
    read, given = Formula.of(formula), scores_by_name(scores)
    check_scores(given, read.names)
    true = () if true_predictors is None else split_names(true_predictors)
    known = with_pool(asking.reports(input), pool, [name for name in read.names if name not in true])
    sample, said = Sampled(by=None, **sampled), list[str]()
    with late_bar() as show:
        how: dict[str, Any] = {"confidence": confidence, "progress": lambda done: show("regress", done)}
        if not isinstance(asking, Design):
            sample.check_answers({})
            if true:
                raise InvalidInput(NO_PUBLIC)
            (counts,), doubts = counted_by(asking, known, read.names, partly=True).counts, [*known.unweighted_doubts]
            result = regress_estimated(counts, formula, family=family, scores=given, **how)
        else:
            mechanism, columns = known.mechanism, sample.columns(known)
            if columns:
                counted, reports, said = read_sampled(
                    known.places[0], mechanism, read.names, true, columns, **sample.how
                )
            else:
                counted = reports = read_reports(known.places[0], mechanism, read.names, true)
            doubts = [*(known.doubts if columns else known.unweighted_doubts), *impossible(counted.pairs(), mechanism)]
            result = fitted(*modelled(read, reports, family, given), **how)
    result = replace(result, warnings=(*result.warnings, *said))
    # warnings go to standard error, so the printed table has none of its own
    table = replace(result, warnings=()).summary()
    outputs.give_table(result, (asking, design_file, known, doubts), lambda: say(str(table)))
