"""optrr model, regress, synthesize and combine: models of the true records, and records that are drawn from one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from optrr.analysis.loglinear.estimating import LogLinear
from optrr.analysis.nested import Comparison
from optrr.analysis.regression.fitting import FamilyName, Regression
from optrr.analysis.regression.formulas import Formula
from optrr.analysis.synthesis.combined import combine as combined
from optrr.analysis.synthesis.drawing import Closeness
from optrr.cli import inputs, outputs
from optrr.cli.options import command, group, option
from optrr.cli.printing import give, is_json, print_json, print_shown, print_table, progress, say, warn
from optrr.core.design import load_design
from optrr.core.display import amount
from optrr.core.errors import InvalidInput
from optrr.core.records import RecordsAt, format_to_write, formula_doubts, open_source


@command
def model(
    run: outputs.Analysis = group(outputs.TableAnalysis),
    attributes: str = option("The attributes of the table that is modelled.", metavar="A,B,…", required=True),
    terms: str | None = option("Which attributes interact; a set includes its subsets.", metavar="A*B+C"),
    order: int | None = option(
        "Search a model with sets of up to so many attributes.", "--stepwise", type=click.IntRange(min=2)
    ),
    against: str | None = option(
        "Another model that holds the fitted one, or is part of it: score test, likelihood ratio and BIC of both.",
        metavar="A*B+C",
    ),
    random_state: int | None = option(
        "Seed of the simulations of --against.", type=click.IntRange(min=0), needs="against"
    ),
    complete_cases: bool = inputs.COMPLETE_CASES,
    pool: tuple[str, ...] = inputs.POOL,
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Fit a log-linear model to the true records behind randomized ones: odds and odds ratios, with all else in the model."""
    names = inputs.split_names(attributes)
    reports = run.open(pool, names)
    how: dict[str, Any] = {"stepwise": order, "missing": inputs.missing_of(complete_cases)}
    how |= {"confidence": confidence, "simultaneous": simultaneous}
    result = run.made(lambda: reports.model(terms, attributes=names, **how))
    compared = None if against is None else result.compare(against, random_state)
    run.give(result, lambda: _print_model(result, compared), comparison=compared)


def _print_model(result: LogLinear, compared: Comparison | None) -> None:
    of = "all together" if result.simultaneous else "each"
    title = f"{result.terms}: log odds and log odds ratios, {100 * result.confidence:g}% intervals for {of}, {result.n} records"
    print_shown(title, result.shown())
    say(
        f"log-likelihood {result.log_likelihood:.2f}, BIC {result.bic:.2f}, {amount(result.terms.parameters, 'parameter')}"
    )
    if compared is not None:
        say(compared.headline())


@command
def regress(
    run: outputs.Analysis = group(outputs.TableAnalysis),
    formula: str = option("Outcome and predictors; write 'income ~ sex + C(age)'.", required=True, metavar="Y~A+B"),
    family: FamilyName | None = option("By default logistic for two categories, linear for numbers."),
    true_predictors: str | None = option("Predictors in INPUT that were not randomized.", metavar="A,B,…"),
    complete_cases: bool = inputs.COMPLETE_CASES,
    pool: tuple[str, ...] = inputs.POOL,
    scores: tuple[str, ...] = inputs.SCORES,
    sample: inputs.Sampled = group(inputs.Sampled),
    confidence: float = inputs.CONFIDENCE,
) -> None:
    """Linear and logistic regression of the true records, from randomized ones."""
    true = () if true_predictors is None else inputs.split_names(true_predictors)
    reports = run.open(pool, [name for name in Formula.of(formula).names if name not in true])
    asked, _ = run.sampled(sample)
    asked |= {"family": family, "missing": inputs.missing_of(complete_cases, None), "confidence": confidence}
    asked |= {"public": true, "scores": inputs.scores_of(scores)}
    result = run.made(lambda: reports.regress(formula, progress=lambda done: progress("regress", done), **asked))
    run.give(result, lambda: _print_regression(result))


def _print_regression(result: Regression) -> None:
    print_shown(f"{result.headline()}, {100 * result.confidence:g}% intervals; {result.method}", result.shown())
    for each in result.terms:
        say(f"{each.term}: chi2({each.df}) = {each.statistic:.4f}, p = {each.p_value:.4g}")
    if result.log_likelihood is not None:
        say(f"log-likelihood {result.log_likelihood:.2f}")


@command
def synthesize(
    input: RecordsAt = inputs.INPUT,
    design_file: Path = inputs.DESIGN_FILE,
    output: Path = option("CSV or Parquet file for the records.", "-o", required=True, type=outputs.OUTPUT),
    attributes: str | None = option("Attributes of the records; all of the design's unless given.", metavar="A,B,…"),
    margins: tuple[str, ...] = option(
        "A regression, or a table of more than two attributes, that the records keep beside all pairs; repeatable.",
        metavar="Y~A+B|A*B*C",
    ),
    sets: int = option(
        "Number of data sets, of --n records each; numbers from 20 have intervals that hold (optrr combine).",
        type=click.IntRange(min=1),
        default=1,
    ),
    n: int | None = option("Number of records; as many as INPUT holds unless given.", type=click.IntRange(min=1)),
    random_state: int | None = option("Seed of the draw.", type=click.IntRange(min=0)),
) -> None:
    """Records to hand on, drawn from a model with the pair tables estimated from randomized ones; errors are the estimates'."""
    format_to_write(output)
    inputs.keep_input(output, input)
    design = load_design(design_file)
    reports = design.reports(input)
    doubts = reports.unweighted_doubts
    chosen = None if attributes is None else inputs.split_names(attributes)
    result = reports.synthesize(n, attributes=chosen, margins=margins, sets=sets, random_state=random_state)
    result.save(output)
    doubts += formula_doubts(output, design.domain)
    warn([*doubts, *result.warnings])
    if is_json():
        print_json(result.summary() | {"output": str(output), "doubts": doubts})
        return
    _print_closeness("pair tables beside the estimates", "pair", result.pairs)
    _print_closeness("tables that are kept beside the estimates", "table", result.margins)
    say(f"{result.headline()}, written to {output}")


def _print_closeness(title: str, what: str, compared: Sequence[Closeness]) -> None:
    if compared:
        heads = [what, "cells", "within intervals", "largest difference", "association kept"]
        print_table(title, heads, [[c.name, c.cells, c.within, c.largest_difference, c.kept] for c in compared])


@command
def combine(
    input: RecordsAt = inputs.INPUT,
    confidence: float = inputs.CONFIDENCE,
    output: Path | None = outputs.TABLE,
) -> None:
    """Numbers computed from each of several synthetic sets, combined: intervals that count the error of randomization.

    INPUT has the columns parameter and estimate: one row for each parameter and set, the sets in the same order for every
    parameter.
    """
    if output is not None:
        inputs.keep_input(output, input)
    result = combined(_read(input), confidence=confidence)
    if output is not None:
        outputs.write_estimate(result, result.summary(), output)
    warn(result.warnings)
    give(result.summary, lambda: print_shown(f"{result.headline()}, {100 * confidence:g}% intervals", result.shown()))


_PARAMETER, _ESTIMATE = "parameter", "estimate"


def _read(place: RecordsAt) -> list[dict[str, float]]:
    """Estimates of each set, by parameter. Raises InvalidInput."""
    source = open_source(place)
    absent = [name for name in (_PARAMETER, _ESTIMATE) if name not in source.column_names()]
    if absent:
        raise InvalidInput(
            f"{place} has no column {absent[0]!r}; give one row for each parameter and set, with the columns parameter and "
            "estimate"
        )
    found: dict[str, list[float]] = {}
    for batch in source.batches([_PARAMETER, _ESTIMATE]):
        pairs = zip(batch.column(_PARAMETER).to_pylist(), batch.column(_ESTIMATE).to_pylist(), strict=True)
        for parameter, value in pairs:
            found.setdefault(str(parameter), []).append(_number(value, place))
    sets = {len(values) for values in found.values()}
    if len(sets) != 1:
        said = ", ".join(f"{name} {len(values)}" for name, values in found.items()) or "none"
        raise InvalidInput(f"{place} has estimates of {said}; give as many of every parameter, one for each set")
    return [{name: values[k] for name, values in found.items()} for k in range(*sets)]


def _number(value: object, place: RecordsAt) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise InvalidInput(f"{place} has {value!r} in the column {_ESTIMATE!r}, which is no number; mend it") from None
