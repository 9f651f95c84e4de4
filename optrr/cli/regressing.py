"""optrr regress."""

from __future__ import annotations

from pathlib import Path

import click

from optrr.cli.estimate_file import table_option
from optrr.cli.inputs import confidence_option, design_option, input_argument, split_names
from optrr.cli.outputs import Outputs, report_option
from optrr.cli.printing import json_option, say
from optrr.cli.scores import scores_by_name, scores_option
from optrr.designs.design import Design
from optrr.models.regression.fitting import FAMILIES, modelled
from optrr.models.regression.formulas import Formula, check_scores
from optrr.models.regression.inferring import fitted
from optrr.models.regression.reports import read_reports
from optrr.records.reading.source import RecordsAt
from optrr.tables.estimation.impossible import impossible
from optrr.tables.estimation.result import check_confidence


@click.command()
@input_argument
@design_option
@click.option(
    "--formula", required=True, metavar="Y~A+B", help="Outcome and predictors; write 'income ~ sex + C(age)'."
)
@click.option(
    "--family", type=click.Choice(FAMILIES), help="By default logistic for two categories, linear for numbers."
)
@click.option("--public", metavar="A,B,…", help="Predictors in INPUT that were not randomized.")
@scores_option
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
    public: str | None,
    scores: tuple[str, ...],
    confidence: float,
    output: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Linear and logistic regression of the true records, from randomized ones."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    check_confidence(confidence)
    design = Design.load(design_file)
    known = design.reports(input)
    doubts = known.unweighted_doubts
    read, given = Formula.of(formula), scores_by_name(scores)
    check_scores(given, read.names)
    reports = read_reports(known.places[0], design.mechanism, read.names, () if public is None else split_names(public))
    doubts += impossible(reports.pairs(), design.mechanism)
    result = fitted(*modelled(read, reports, family, given), confidence)
    outputs.give_table(result, (design, design_file, known, doubts), lambda: say(str(result.summary())))
