"""optrr test and optrr power: hypotheses about the true records, and how many records a test or an interval needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from optrr.analysis.hypotheses import hypotheses
from optrr.cli import inputs
from optrr.cli.options import command, group, option, refuse_options
from optrr.cli.outputs import Analysis
from optrr.cli.printing import give, print_shown, say
from optrr.core.design import load_design
from optrr.core.display import Page, crossed
from optrr.core.domain import told_scores
from optrr.core.errors import InvalidInput
from optrr.core.inference import CALIBRATIONS, Adjustment, Bootstrap, Power, TestFamily, TestResult, Widths

if TYPE_CHECKING:
    from optrr.core.display import Given

TESTED = option("The attributes, separated by commas; two for associations.", metavar="A,B", required=True)


@dataclass(frozen=True)
class Calibrated:
    """Where a p-value comes from, as options say it."""

    calibration: str = option(
        "Source of the p-value of an association: the χ² limit, or simulation under the fitted null.",
        type=click.Choice(list(CALIBRATIONS)),
        default="auto",
    )
    draws: int | None = option(
        "Number of tables that a bootstrap draws; 1999 unless given.", type=click.IntRange(min=1)
    )
    random_state: int | None = option("Seed of the simulations.", type=click.IntRange(min=0))

    @property
    def chosen(self) -> str | Bootstrap:
        """As tests take it. Raises InvalidInput for what draws no tables."""
        given = {"draws": self.draws, "random_state": self.random_state}
        names = [name for name, value in given.items() if value is not None]
        if not names:
            return self.calibration
        if self.calibration not in ("auto", "bootstrap"):
            raise InvalidInput(f"``{names[0]}``: {self.calibration} draws no tables; leave it out")
        return Bootstrap(self.draws or (1999 if self.calibration == "bootstrap" else None), self.random_state)


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
        type=click.Choice(hypotheses()),
    ),
    given: str | None = option(
        "For tests within strata: the attributes whose categories together are the strata.", metavar="C,…"
    ),
    proportions: str | None = inputs.proportions_option("For goodness-of-fit: the hypothesis."),
    group: tuple[str, ...] = option(
        "For homogeneity: records of another group, randomized by the same design; repeatable.", metavar="INPUT"
    ),
    scores: tuple[str, ...] = inputs.SCORES,
    calibration: Calibrated = group(Calibrated),
    complete_cases: bool = inputs.COMPLETE_CASES,
    pool: tuple[str, ...] = inputs.POOL,
    sample: inputs.Sampled = group(inputs.Sampled),
) -> None:
    """Test a hypothesis about the true records on randomized ones; valid for every mechanism.

    An association of two attributes, everywhere or within strata (--given), the proportions of some (goodness-of-fit), or that
    groups of people have the same ones (homogeneity). Independence takes weights, strata and clusters into account.
    """
    others = [replace(run.input, place=place) for place in group]
    for place in others:
        run.keep(place)
    within = () if given is None else inputs.split_names(given)
    tables = [inputs.split_names(each) for each in (attributes, *also)]
    if not also:
        refuse_options("is for a family of tests; name the others with --also A,B, or leave it out", "adjust")
    elif proportions is not None:
        raise InvalidInput("``proportions``: those of one table; leave out --also, or test each table on its own")
    reports = run.open(pool, list(dict.fromkeys(n for names in tables for n in (*names, *within))), others)
    how: dict[str, Any] = {"hypothesis": hypothesis, "given": within, "calibration": calibration.chosen}
    how |= {"missing": inputs.missing_of(complete_cases, None), "scores": inputs.scores_of(scores)}
    how |= run.sampled(sample)[0]
    if also:
        of_all: TestFamily = run.made(lambda: reports.tests(tables, adjust=adjust, **how))
        run.give(of_all, lambda: _print_family(of_all, within))
        return
    names = tables[0]
    if proportions is not None:
        how["proportions"] = inputs.read_proportions(proportions, reports.asking.domain.subset(names))
    result: TestResult = run.made(lambda: reports.test(*names, **how))

    def page(given: Given) -> Page:
        from optrr.core.inference import test_page  # noqa: PLC0415 (pages bring charts)

        if group:
            from optrr.core.estimation import estimate  # noqa: PLC0415 (only pages show the tables)

            each = enumerate(reports.counts(names), start=1)
            shown = [(f"of group {k}", estimate(counts, reports.randomizer)) for k, counts in each]
        else:
            shown = [("", reports.table(*names, *within, missing=how["missing"], sample=how["sample"]))]
        return test_page(result, given, shown, [*names, *within])

    run.give(result, lambda: _print_result(result, names, within), page)


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


# The options that say nothing of intervals.
_OF_TESTS = ("hypothesis", "given", "proportions", "scores", "n", "power", "alpha")


@command
def power(
    design_file: Path = inputs.DESIGN_FILE,
    attributes: str = TESTED,
    truth: tuple[str, ...] = option(
        "The truth that is to be seen: proportions of --attributes, then of those of --given, as numbers separated by commas "
        "or a JSON file; for homogeneity one for each group.",
        metavar="P,P,…|FILE",
        required=True,
    ),
    hypothesis: str | None = option(
        "The test whose power is computed; by default independence, conditional-independence with --given, goodness-of-fit "
        "with --proportions.",
        "--test",
        type=click.Choice(hypotheses()),
    ),
    given: str | None = option(
        "For tests within strata: the attributes whose categories are the strata.", metavar="C,…"
    ),
    proportions: str | None = inputs.proportions_option("For goodness-of-fit: the hypothesis."),
    scores: tuple[str, ...] = inputs.SCORES,
    n: int | None = option("Number of records whose power is computed.", type=click.IntRange(min=1)),
    power: float | None = option("Power that the number of records must reach; 0.8 unless given."),
    alpha: float = option("Level of the test.", default=0.05),
    width: float | None = option("Instead of a test: width that no interval of a cell may exceed."),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """How many randomized records a test needs, and with which power n of them detect an effect; or a wanted interval width."""
    design = load_design(design_file)
    names, within = inputs.split_names(attributes), () if given is None else inputs.split_names(given)
    domain = design.domain.subset([*names, *within])
    tables = [inputs.read_proportions(text, domain, "truth") for text in truth]
    true = np.stack(tables) if hypothesis == "homogeneity" or len(tables) > 1 else tables[0]
    if width is not None:
        refuse_options("is about a test, and --width about intervals of a table; leave out one of them", *_OF_TESTS)
        widths: Widths = design.records_for_width(
            *names, truth=true, width=width, confidence=confidence, simultaneous=simultaneous
        )
        give(widths)
        return
    refuse_options("is about intervals; give --width too, or leave it out", "confidence", "simultaneous")
    how: dict[str, Any] = {"truth": true, "hypothesis": hypothesis, "given": within, "alpha": alpha}
    how["scores"] = inputs.scores_of(scores)
    if proportions is not None:
        how["proportions"] = inputs.read_proportions(proportions, domain)
    if n is not None and power is not None:
        raise InvalidInput("``power``: excludes ``n``, whose power is computed; leave one of them out")
    result: Power = (
        design.records_for(*names, power=power or 0.8, **how) if n is None else design.power(*names, n=n, **how)
    )
    give(result)
