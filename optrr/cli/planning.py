"""optrr power: how many records a test needs, or intervals of a wanted width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optrr.cli.inputs import confidence_option, design_option, simultaneous_option, split_names
from optrr.cli.printing import json_option, print_json, say
from optrr.cli.refusals import refuse_options
from optrr.cli.scores import scores_of_trend, scores_option
from optrr.cli.tables import proportions_option, read_numbers, read_proportions
from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr.domain.scores import PairScores, plain_scores, told_scores
from optrr.errors import InvalidInput
from optrr.models.loglinear import STRATIFIED, stratified_alternative
from optrr.models.tests import (
    TESTS,
    Alternative,
    IntervalWidths,
    alternative_of,
    goodness_alternative,
    homogeneity_alternative,
    predicted_power,
    required_records,
)

# What is said of a power that is not that of the χ² limit.
_SOURCES = {
    "enumerated": "counted over all outcomes with the test's exact p-values: some report is rare",
    "drawn": "from drawn surveys with the test's own p-values: some report is rare or some share near 0",
    "drawn-limit": "from drawn surveys with p-values of χ², which the test may not reach: some report is rare",
}
# The options that say nothing of intervals.
_OF_TESTS = ("name", "given", "against", "shares", "scores", "n", "wanted", "level")
# What --against means, for the tests that need it.
_AGAINST = {"goodness-of-fit": "the hypothesis", "homogeneity": "another group's proportions"}


@click.command()
@design_option
@click.option(
    "--attributes", required=True, metavar="A,B", help="The attributes, separated by commas; two for associations."
)
@proportions_option(
    "The truth that is to be seen: proportions of --attributes, then of those of --given.", required=True
)
@click.option(
    "--test",
    "name",
    type=click.Choice([*TESTS, *STRATIFIED, *_AGAINST]),
    help="The test whose power is computed: independence unless given, and conditional-independence with --given.",
)
@click.option("--given", metavar="C,…", help="For tests within strata: the attributes whose categories are the strata.")
@click.option(
    "--against",
    multiple=True,
    metavar="P,P,…|FILE",
    help="For goodness-of-fit the hypothesis, for homogeneity the proportions of another group (repeatable).",
)
@click.option(
    "--shares", metavar="S,S,…", help="For homogeneity: each group's share of the records; alike unless given."
)
@scores_option
@click.option("--n", type=click.IntRange(min=1), help="Number of records whose power is computed.")
@click.option(
    "--power", "wanted", type=float, default=0.8, show_default=True, help="Power that the number of records must reach."
)
@click.option("--level", type=float, default=0.05, show_default=True, help="Level of the test.")
@click.option("--width", type=float, help="Instead of a test: width that no interval of a cell may exceed.")
@confidence_option
@simultaneous_option
@json_option
def power(
    *,
    design_file: Path,
    attributes: str,
    proportions: str,
    name: str | None,
    given: str | None,
    against: tuple[str, ...],
    shares: str | None,
    scores: tuple[str, ...],
    n: int | None,
    wanted: float,
    level: float,
    width: float | None,
    confidence: float,
    simultaneous: bool,
    as_json: bool,
) -> None:
    """How many randomized records a test needs, and with which power n of them detect an effect; or a wanted interval width."""
    design = Design.load(design_file)
    domain = design.domain.subset([*split_names(attributes), *([] if given is None else split_names(given))])
    if width is not None:
        refuse_options("is about a test, and --width about intervals of a table; leave out one of them", *_OF_TESTS)
        true = read_proportions(proportions, domain)
        _print_width(IntervalWidths(domain, design.mechanism, true, confidence, simultaneous), width, as_json)
        return
    refuse_options("is about intervals; give --width too, or leave it out", "confidence", "simultaneous")
    name = name or ("independence" if given is None else "conditional-independence")
    _check_options(name, given, [proportions, *against], shares)
    pair = scores_of_trend(name, scores, domain)
    effect = _effect(name, design, domain, [proportions, *against], shares, pair)
    answers: dict[str, Any] = {"attributes": list(domain.names), "test": name, "scores": plain_scores(pair)}
    _print_power(answers | _planned(effect, n, wanted, level), as_json)


def _planned(effect: Alternative, n: int | None, wanted: float, level: float) -> dict[str, Any]:
    own = None if n is None else predicted_power(effect, n, level)
    needed = required_records(effect, wanted, level)
    predicted = own or predicted_power(effect, needed, level)
    return {
        "df": effect.df,
        "noncentrality": effect.noncentrality,
        "level": level,
        "n": n,
        "power": None if own is None else own.power,
        "wanted_power": wanted,
        "required_n": needed,
        "power_source": predicted.source,
        "power_standard_error": predicted.standard_error,
    }


def _check_options(name: str, given: str | None, texts: list[str], shares: str | None) -> None:
    if (given is not None) != (name in STRATIFIED):
        raise InvalidInput(f"--given is for {', '.join(STRATIFIED)}, and they need it; the test is {name}")
    if (len(texts) > 1) != (name in _AGAINST) or (name == "goodness-of-fit" and len(texts) > 2):
        raise InvalidInput(
            f"--against is {' or '.join(f'{v} of {k}' for k, v in _AGAINST.items())}; the test is {name}"
        )
    if shares is not None and name != "homogeneity":
        raise InvalidInput(f"--shares is for homogeneity; leave it out for {name}")


def _effect(
    name: str, design: Design, domain: Domain, texts: list[str], shares: str | None, scores: PairScores | None
) -> Alternative:
    tables = [read_proportions(text, domain) for text in texts]
    if name in STRATIFIED:
        return stratified_alternative(tables[0], domain, design.mechanism, name, scores)  # type: ignore[arg-type]  # a literal
    kernel = design.mechanism.kernel(domain.names)
    if name == "goodness-of-fit":
        return goodness_alternative(tables[0], tables[1], kernel)
    if name == "homogeneity":
        said = f"--shares {shares} holds something that is not a number; give a share for each group"
        return homogeneity_alternative(tables, kernel, None if shares is None else read_numbers(shares, said))
    if domain.m != 2:
        raise InvalidInput(f"--attributes names {domain.m} of them, and {name} is a test of two; name two")
    return alternative_of(name, tables[0], kernel, scores, domain)  # type: ignore[arg-type]  # the choices are the literals


def _print_power(answers: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answers)
        return
    say(
        f"{answers['test']} of {' × '.join(answers['attributes'])} at level {answers['level']:g}: {answers['required_n']} "
        f"records for power {answers['wanted_power']:g}"
    )
    if answers["n"] is not None:
        say(f"power {answers['power']:.4f} with {answers['n']} records")
    if answers["power_source"] in _SOURCES:
        say(_SOURCES[answers["power_source"]])
    if answers["power_standard_error"] is not None:
        say(f"standard error of this power {100 * answers['power_standard_error']:.2g} points")
    for line in told_scores(answers["attributes"], answers["scores"]):
        say(line)


def _print_width(intervals: IntervalWidths, width: float, as_json: bool) -> None:
    records = intervals.records(width)
    answers: dict[str, Any] = {
        "attributes": list(intervals.domain.names),
        "width": width,
        "confidence": intervals.confidence,
        "simultaneous": intervals.simultaneous,
        "required_n": records,
        "widest": intervals.widest(records),
        "checked_n": intervals.checked(records),
    }
    if as_json:
        print_json(answers)
        return
    together = " together" if intervals.simultaneous else ""
    say(
        f"{records} records: no {100 * intervals.confidence:g}% interval{together} of a cell of "
        f"{' × '.join(intervals.domain.names)} is wider than {width:g}, where reports are as expected; so with more, tried up "
        f"to {answers['checked_n'][-1]}"
    )
