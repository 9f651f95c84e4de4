"""optrr test: hypotheses about the true records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from optrr.analysis.hypotheses import hypotheses
from optrr.cli import inputs
from optrr.cli.options import command, group, option, refuse_options
from optrr.cli.outputs import Analysis
from optrr.core.domain import GivenSample, Missing
from optrr.core.errors import InvalidInput
from optrr.core.inference import CALIBRATIONS, Adjustment, Bootstrap, TestResult

if TYPE_CHECKING:
    from optrr.core.display import Given, Page


def calibration(
    calibration: str = option(
        "Source of the p-value of an association: the χ² limit, or simulation under the fitted null hypothesis.",
        type=click.Choice(list(CALIBRATIONS)),
        default="auto",
    ),
    draws: int | None = option("Number of simulated tables of a bootstrap; default: 1999.", type=click.IntRange(min=1)),
    random_state: int | None = inputs.RANDOM_STATE,
) -> str | Bootstrap:
    """Return the source of the p-value.

    Raises InvalidInput for options of simulated tables if the calibration simulates none.
    """
    given = {"draws": draws, "random_state": random_state}
    name = next((name for name, value in given.items() if value is not None), None)
    if name is None:
        return calibration
    if calibration not in ("auto", "bootstrap"):
        raise InvalidInput(f"``{name}``: not used by {calibration}, which simulates no tables; leave it out")
    return Bootstrap(draws or (1999 if calibration == "bootstrap" else None), random_state)


@command
def test(
    run: Analysis = group(Analysis),
    attributes: str = inputs.TESTED,
    also: tuple[str, ...] = option(
        "Attributes of a further test of the same kind, in one family with the first; repeatable.", metavar="A,B"
    ),
    adjust: Adjustment = option("Adjustment of the family's p-values for the number of tests.", default="holm"),
    hypothesis: str | None = inputs.hypothesis_option(hypotheses()),
    given: str | None = inputs.STRATA_OF,
    proportions: str | None = inputs.proportions_option("Proportions under the hypothesis of goodness-of-fit."),
    groups: tuple[str, ...] = option(
        "Records of another group, randomized by the same design, for homogeneity; repeatable.",
        "--group",
        metavar="INPUT",
    ),
    scores: tuple[str, ...] = inputs.SCORES,
    calibration: str | Bootstrap = group(calibration),
    missing: Missing | None = group(inputs.complete_cases),
    collapse: tuple[str, ...] = inputs.COLLAPSE,
    sample: GivenSample = group(inputs.sample),
) -> None:
    """Test a hypothesis about the true records.

    It is the association of two attributes, overall or within strata; given proportions (goodness-of-fit); or equal
    proportions in groups of people (homogeneity). A test of independence accounts for weights, strata and sampling
    units.

    Example: optrr test randomized.csv --design design.json --attributes sex,income
    """
    others = [replace(run.input, place=place) for place in groups]
    for place in others:
        run.keep(place)
    within = () if given is None else inputs.split_names(given)
    tables = [inputs.split_names(each) for each in (attributes, *also)]
    reports = run.open(collapse, list(dict.fromkeys(n for names in tables for n in (*names, *within))), others)
    how: dict[str, Any] = {"hypothesis": hypothesis, "given": within, "scores": inputs.scores_of(scores)}
    how |= {"calibration": calibration, "missing": missing or "category", "sample": sample}
    if also:
        if proportions is not None:
            raise InvalidInput("``proportions``: apply to one table; leave out ``also``, or test each table separately")
        run.give(run.made(lambda: reports.tests(tables, adjust=adjust, **how)))
        return
    refuse_options("requires a family of tests; name the others with --also A,B, or leave this option out", "adjust")
    names = tables[0]
    if proportions is not None:
        how["proportions"] = inputs.read_proportions(proportions, reports.asking.domain.subset(names))
    result: TestResult = run.made(lambda: reports.test(*names, **how))

    def page(about: Given) -> Page:
        from optrr.core.estimation import estimate  # noqa: PLC0415 (only pages show the tables)
        from optrr.core.inference import test_page  # noqa: PLC0415 (pages bring charts)

        if groups:
            each = enumerate(reports.counts(names), start=1)
            shown = [(f"of group {k}", estimate(counts, reports.randomizer)) for k, counts in each]
        else:
            shown = [("", reports.table(*names, *within, missing=how["missing"], sample=sample))]
        return test_page(result, about, shown)

    run.give(result, page)
