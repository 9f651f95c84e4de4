"""optrr model and regress: models of the true records."""

from __future__ import annotations

from typing import Any

import click

from optrr.analysis.loglinear.fitting import split_terms
from optrr.analysis.regression.fitting import FamilyName
from optrr.analysis.regression.formulas import Formula
from optrr.cli import inputs
from optrr.cli.options import command, group, option
from optrr.cli.outputs import TableAnalysis
from optrr.cli.printing import progress
from optrr.core.domain import GivenSample, Missing


@command
def model(
    run: TableAnalysis = group(TableAnalysis),
    attributes: str | None = option("Attributes of the table; those in --terms unless given.", metavar="A,B,…"),
    terms: str | None = option("Sets of attributes that interact; a set includes its subsets.", metavar="A*B+C"),
    stepwise: int | None = option(
        "Search a model with sets of up to K attributes.", type=click.IntRange(min=2), metavar="K"
    ),
    against: str | None = option(
        "Another model that holds the fitted one, or is part of it: score test, likelihood ratio, AIC and BIC of both.",
        metavar="A*B+C",
    ),
    random_state: int | None = option(
        "Seed of the simulations of --against.", type=click.IntRange(min=0), needs="against"
    ),
    missing: Missing | None = group(inputs.complete_cases),
    collapse: tuple[str, ...] = inputs.COLLAPSE,
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Fit a log-linear model to the true records.

    Coefficients are odds and odds ratios, adjusted for the other terms of the model.

    Example: optrr model randomized.csv --design design.json --terms "sex*income + age"
    """
    named = [name for part in split_terms(terms or "") for name in part if name]
    names = list(dict.fromkeys(named)) if attributes is None else inputs.split_names(attributes)
    reports = run.open(collapse, names)
    how: dict[str, Any] = {"stepwise": stepwise, "missing": missing or "category"}
    how |= {"confidence": confidence, "simultaneous": simultaneous}
    result = run.made(lambda: reports.model(terms, attributes=names, **how))
    run.give(result, comparison=None if against is None else result.compare(against, random_state))


@command
def regress(
    run: TableAnalysis = group(TableAnalysis),
    formula: str = option("Outcome and predictors; write 'income ~ sex + C(age)'.", required=True, metavar="Y~A+B"),
    family: FamilyName | None = option(
        "Family of the outcome; linear for numbers, logistic for all else (ordered or multinomial for several categories)."
    ),
    public: str | None = option("Predictors in INPUT that were not randomized.", metavar="A,B,…"),
    missing: Missing | None = group(inputs.complete_cases),
    collapse: tuple[str, ...] = inputs.COLLAPSE,
    scores: tuple[str, ...] = inputs.SCORES,
    sample: GivenSample = group(inputs.sample),
    confidence: float = inputs.CONFIDENCE,
) -> None:
    """Fit a regression of the true records.

    The model is linear, logistic, ordered or multinomial.

    Example: optrr regress randomized.csv --design design.json --formula "income ~ sex + age"
    """
    beside = () if public is None else inputs.split_names(public)
    reports = run.open(collapse, [name for name in Formula.of(formula).names if name not in beside])
    how: dict[str, Any] = {"family": family, "public": beside, "scores": inputs.scores_of(scores), "sample": sample}
    how |= {"missing": missing or "category", "confidence": confidence}
    run.give(run.made(lambda: reports.regress(formula, progress=lambda done: progress("regress", done), **how)))
