"""optrr test and optrr power: hypotheses about the true records, and how many records a test or an interval needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from optrr.analysis.loglinear.comparing import STRATIFIED, stratified_alternative
from optrr.cli import inputs
from optrr.cli.options import command, group, option, refuse_options
from optrr.cli.outputs import Analysis
from optrr.cli.printing import is_json, print_json, print_shown, say
from optrr.core.design import load_design
from optrr.core.display import Page, crossed
from optrr.core.domain import Domain, PairScores, plain_scores, scores_of_pair, told_scores
from optrr.core.errors import InvalidInput
from optrr.core.inference import (
    ASSOCIATIONS,
    CALIBRATIONS,
    Adjustment,
    Alternative,
    IntervalWidths,
    TestFamily,
    TestResult,
    alternative_of,
    check_distinct,
    family,
    goodness_alternative,
    homogeneity_alternative,
    predicted_power,
    required_records,
)
from optrr.core.mechanisms import Mechanism, Randomizer
from optrr_solvers.allocation.delsarte import energy_cap
from optrr_solvers.laws import ProductLaw
from optrr_solvers.problem import EPSILON_RANGE

if TYPE_CHECKING:
    from optrr.core.display import Given

# Tests whose hypothesis is not an association of two attributes, and what --against of a power means for them.
_AGAINST = {"goodness-of-fit": "the hypothesis", "homogeneity": "another group's proportions"}
TESTED = option("The attributes, separated by commas; two for associations.", metavar="A,B", required=True)


@command
def test(
    run: Analysis = group(Analysis),
    attributes: str = TESTED,
    also: tuple[str, ...] = option(
        "The same test of other attributes, which make a family with the first; repeatable.", metavar="A,B"
    ),
    adjust: Adjustment = option("For a family: how p-values are adjusted for the number of tests.", default="holm"),
    hypothesis: str | None = option(
        "The hypothesis that is tested; by default independence, conditional-independence with --given, goodness-of-fit with "
        "--proportions, homogeneity with --group.",
        "--test",
        type=click.Choice([*ASSOCIATIONS, *STRATIFIED, *_AGAINST]),
    ),
    given: str | None = option(
        "For tests within strata: the attributes whose categories together are the strata.", metavar="C,…"
    ),
    proportions: str | None = inputs.proportions_option("For goodness-of-fit: the hypothesis."),
    groups: tuple[str, ...] = option(
        "For homogeneity: records of another group, randomized by the same design; repeatable.",
        "--group",
        metavar="INPUT",
    ),
    scores: tuple[str, ...] = inputs.SCORES,
    calibration: str = option(
        "Where the p-value of an association comes from: the χ² limit, or simulation under the fitted null.",
        type=click.Choice(list(CALIBRATIONS)),
        default="auto",
    ),
    bootstrap: int = option("Number of tables that a bootstrap draws.", type=click.IntRange(min=1), default=1999),
    random_state: int | None = option("Seed of the simulations.", type=click.IntRange(min=0)),
    complete_cases: bool = inputs.COMPLETE_CASES,
    pool: tuple[str, ...] = inputs.POOL,
    sample: inputs.Sampled = group(inputs.Sampled),
) -> None:
    """Test a hypothesis about the true records on randomized ones; valid for every mechanism.

    An association of two attributes, everywhere or within strata (--given), the proportions of some (goodness-of-fit), or that
    groups of people have the same ones (homogeneity). Independence takes weights, strata and clusters into account.
    """
    others = [replace(run.input, place=place) for place in groups]
    for place in others:
        run.keep(place)
    within = [] if given is None else list(inputs.split_names(given))
    tables = [list(inputs.split_names(each)) for each in (attributes, *also)]
    if not also:
        refuse_options("is for a family of tests; name the others with --also A,B, or leave it out", "adjust")
    elif proportions is not None:
        raise InvalidInput("--proportions are those of one table; leave out --also, or test each table on its own")
    check_distinct(tables)
    reports = run.open(pool, list(dict.fromkeys(n for names in tables for n in (*names, *within))), others)
    keywords, columns = run.sampled(sample)
    how: dict[str, Any] = {"hypothesis": hypothesis, "given": within, "calibration": calibration, **keywords}
    how |= {"bootstrap": bootstrap, "random_state": random_state, "complete_cases": complete_cases}
    independence = hypothesis in (None, "independence") and not (within or groups or proportions is not None)
    sampled = columns and independence
    if calibration == "asymptotic" or sampled or not reports.of_records:
        refuse_options("is for drawn tables, and none are drawn here; leave it out", "bootstrap", "random_state")
    elif within or groups or proportions is not None:
        refuse_options("is for associations without --given; leave it out", "bootstrap")
    if proportions is not None:
        how["proportions"] = inputs.read_proportions(proportions, reports.asking.domain.subset(tables[0]))
    results = [
        run.made(lambda each=each: reports.test(*each, scores=inputs.scores_of_two(scores, each), **how))  # type: ignore[misc]
        for each in tables
    ]
    if also:
        of_all = family(tables, results, adjust)
        run.give(of_all, lambda: _print_family(of_all, within))
        return
    names, result = tables[0], results[0]

    def page(given: Given) -> Page:
        from optrr.core.inference import test_page  # noqa: PLC0415 (pages bring charts)

        if groups:
            from optrr.core.estimation import estimate  # noqa: PLC0415 (only pages show the tables)

            each = enumerate(reports.counts(names), start=1)
            shown = [(f"of group {k}", estimate(counts, reports.randomizer)) for k, counts in each]
        else:
            shown = [("", reports.table(*names, *within, complete_cases=complete_cases, **keywords))]
        return test_page(result, given, shown, [*names, *within])

    about = {"attributes": names, "given": within}
    run.give(result, lambda: _print_result(result, names, within), page, about)


def _print_family(result: TestFamily, strata: Sequence[str]) -> None:
    print_shown(f"{result.n} records{f', given {crossed(strata)}' if strata else ''}", result.shown())
    say(result.promise)
    for names, each in zip(result.names, result.tests, strict=True):
        if each.missing:
            say(f"{crossed(names)}: {each.missing}")


def _print_result(result: TestResult, names: Sequence[str], strata: Sequence[str]) -> None:
    of = " × ".join(names) + (f" given {' × '.join(strata)}" if strata else "")
    say(
        f"{result.test} of {of}: statistic {result.statistic:.4f}, {result.freedom}, "
        f"p = {result.p_value:.4g} ({result.source}), n = {result.n}{result.said_missing}"
    )
    for line in told_scores(names, result.scores):
        say(line)
    if not result.reliable:
        say(result.unreliable)


# What is said of a power that is not that of the χ² limit.
_SOURCES = {
    "drawn": "from drawn surveys with the test's own p-values: some report is rare or some share near 0",
    "drawn-limit": "from drawn surveys with p-values of χ², which the test may not reach: some report is rare",
}
_TRENDS = ("trend", "common-trend")
# The options that say nothing of intervals.
_OF_TESTS = ("name", "given", "against", "shares", "scores", "n", "wanted", "level")


@command
def power(
    design_file: Path = inputs.DESIGN_FILE,
    attributes: str = TESTED,
    proportions: str = inputs.proportions_option(
        "The truth that is to be seen: proportions of --attributes, then of those of --given.", required=True
    ),
    name: str | None = option(
        "The test whose power is computed: independence unless given, and conditional-independence with --given.",
        "--test",
        type=click.Choice([*ASSOCIATIONS, *STRATIFIED, *_AGAINST]),
    ),
    given: str | None = option(
        "For tests within strata: the attributes whose categories are the strata.", metavar="C,…"
    ),
    against: tuple[str, ...] = option(
        "For goodness-of-fit the hypothesis, for homogeneity the proportions of another group (repeatable).",
        metavar="P,P,…|FILE",
    ),
    shares: str | None = option(
        "For homogeneity: each group's share of the records; alike unless given.", metavar="S,S,…"
    ),
    scores: tuple[str, ...] = inputs.SCORES,
    n: int | None = option("Number of records whose power is computed.", type=click.IntRange(min=1)),
    wanted: float = option("Power that the number of records must reach.", "--power", default=0.8),
    level: float = option("Level of the test.", default=0.05),
    width: float | None = option("Instead of a test: width that no interval of a cell may exceed."),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """How many randomized records a test needs, and with which power n of them detect an effect; or a wanted interval width."""
    design = load_design(design_file)
    domain = design.domain.subset(
        [*inputs.split_names(attributes), *([] if given is None else inputs.split_names(given))]
    )
    if width is not None:
        refuse_options("is about a test, and --width about intervals of a table; leave out one of them", *_OF_TESTS)
        true = inputs.read_proportions(proportions, domain)
        _print_width(IntervalWidths(domain, design.mechanism, true, confidence, simultaneous), width)
        return
    refuse_options("is about intervals; give --width too, or leave it out", "confidence", "simultaneous")
    name = name or ("independence" if given is None else "conditional-independence")
    _check_power_options(name, given, [proportions, *against], shares)
    if scores and name not in _TRENDS:
        raise InvalidInput(f"``scores`` is for {' or '.join(_TRENDS)}; leave it out for {name}")
    pair = scores_of_pair(domain, inputs.scores_of_two(scores, domain.names)) if name in _TRENDS else None
    tables = [proportions, *against]
    effect = _effect(name, design.mechanism, domain, tables, shares, pair)
    # as good as no randomization, of whatever test
    plain = Mechanism(domain, ProductLaw(domain.sizes, np.full(domain.m, EPSILON_RANGE[1])))
    whole = _effect(name, plain, domain, tables, shares, pair).noncentrality
    answers: dict[str, Any] = {"attributes": list(domain.names), "test": name, "scores": plain_scores(pair)}
    answers |= _planned(effect, n, wanted, level)
    # of any density that lies within a factor e^ε, sinh²(ε/2) is the largest variance, whatever the population
    kept = {
        "noncentrality_kept": effect.noncentrality / whole,
        "noncentrality_bound": min(1.0, energy_cap(np.inf, design.epsilon)),
    }
    _print_power(answers | kept)


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


def _check_power_options(name: str, given: str | None, texts: list[str], shares: str | None) -> None:
    if (given is not None) != (name in STRATIFIED):
        raise InvalidInput(f"--given is for {', '.join(STRATIFIED)}, and they need it; the test is {name}")
    if (len(texts) > 1) != (name in _AGAINST) or (name == "goodness-of-fit" and len(texts) > 2):
        raise InvalidInput(
            f"--against is {' or '.join(f'{v} of {k}' for k, v in _AGAINST.items())}; the test is {name}"
        )
    if shares is not None and name != "homogeneity":
        raise InvalidInput(f"--shares is for homogeneity; leave it out for {name}")


def _effect(
    name: str, mechanism: Randomizer, domain: Domain, texts: list[str], shares: str | None, scores: PairScores | None
) -> Alternative:
    tables = [inputs.read_proportions(text, domain) for text in texts]
    if name in STRATIFIED:
        return stratified_alternative(tables[0], domain, mechanism, name, scores)  # type: ignore[arg-type]  # a literal
    kernel = mechanism.kernel(domain.names)
    if name == "goodness-of-fit":
        return goodness_alternative(tables[0], tables[1], kernel)
    if name == "homogeneity":
        return homogeneity_alternative(tables, kernel, None if shares is None else inputs.numbers("shares", shares))
    if domain.m != 2:
        raise InvalidInput(f"--attributes names {domain.m} of them, and {name} is a test of two; name two")
    return alternative_of(name, tables[0], kernel, scores, domain)


def _print_power(answers: dict[str, Any]) -> None:
    if is_json():
        print_json(answers)
        return
    say(
        f"{answers['test']} of {' × '.join(answers['attributes'])} at level {answers['level']:g}: {answers['required_n']} "
        f"records for power {answers['wanted_power']:g}"
    )
    if answers["n"] is not None:
        say(f"power {answers['power']:.4f} with {answers['n']} records")
    say(
        f"of the effect's noncentrality {answers['noncentrality_kept']:.3g} is kept; no mechanism of this total, of whatever "
        f"form, keeps more than {answers['noncentrality_bound']:.3g} of a weak one"
    )
    if answers["power_source"] in _SOURCES:
        say(_SOURCES[answers["power_source"]])
    if answers["power_standard_error"] is not None:
        say(f"standard error of this power {100 * answers['power_standard_error']:.2g} points")
    for line in told_scores(answers["attributes"], answers["scores"]):
        say(line)


def _print_width(intervals: IntervalWidths, width: float) -> None:
    records = intervals.records(width)
    answers: dict[str, Any] = {
        "attributes": list(intervals.domain.names),
        "width": width,
        "confidence": intervals.confidence,
        "simultaneous": intervals.simultaneous,
        "required_n": records,
        "widest": intervals.widest(records),
    }
    if is_json():
        print_json(answers)
        return
    together = " together" if intervals.simultaneous else ""
    say(
        f"{records} records: no {100 * intervals.confidence:g}% interval{together} of a cell of "
        f"{' × '.join(intervals.domain.names)} is wider than {width:g}, where reports are as expected"
    )
