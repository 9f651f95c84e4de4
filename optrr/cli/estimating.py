"""optrr estimate: a table, statistics of it, and how far fake reports can move it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from optrr.cli import inputs
from optrr.cli.options import command, group, option, refuse_options
from optrr.cli.outputs import Analysis, TableAnalysis
from optrr.cli.printing import print_shown, print_table, say
from optrr.core.display import amount
from optrr.core.domain import told_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation import Method, StatisticName, check_confidence

if TYPE_CHECKING:
    from optrr.analysis.weighting.estimating import WeightedEstimate
    from optrr.core.display import Given, Page
    from optrr.core.estimation import Derived, Estimate, Poisoning


@command
def estimate(
    run: Analysis = group(TableAnalysis),
    attributes: str = inputs.TABLE_ATTRIBUTES,
    method: Method = option("How the table is estimated.", default="unbiased"),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
    tables: int | None = option(
        "One of so many tables, whose intervals are all to hold together (Bonferroni).",
        type=click.IntRange(min=1),
        needs="simultaneous",
    ),
    statistics: tuple[StatisticName, ...] = option(
        "Also a statistic of the table, from the unbiased estimate whatever the method; repeatable.", "--derive"
    ),
    scores: tuple[str, ...] = inputs.SCORES,
    where: tuple[str, ...] = inputs.AMONG,
    complete_cases: bool = inputs.COMPLETE_CASES,
    missing_at_random: str | None = inputs.IGNORABLE,
    pool: tuple[str, ...] = inputs.POOL,
    fakes: int | None = option(
        "Also how far K fake reports, or fewer, can move each cell of the unbiased estimate.",
        "--poisoning",
        type=click.IntRange(min=1),
        metavar="K",
    ),
    sample: inputs.Sampled = group(inputs.Sampled),
    by: str | None = option("Public columns whose combinations make groups: a table for each.", metavar="C,D"),
) -> None:
    """Estimate a table of proportions, and statistics of it, from randomized records.

    Where the design or the release names public columns of weights, strata or clusters, or options do, the estimate is
    weighted and its errors are those of the sample.
    """
    names = inputs.split_names(attributes)
    if scores and "correlation" not in statistics:
        raise InvalidInput("--scores is for --derive correlation; leave it out")
    numbers = inputs.scores_of(scores)
    reports = run.open(pool, names)
    if tables:
        check_confidence(confidence)
        confidence = 1 - (1 - confidence) / tables
    wished: dict[str, Any] = {"method": method, "confidence": confidence, "simultaneous": simultaneous}
    groups = inputs.split_names(by) if by else ()
    keywords, columns = run.sampled(sample, groups)
    restricted = bool(where) or complete_cases or missing_at_random is not None
    weighted = bool(columns) and not (restricted and not groups)
    if restricted or weighted:
        refuse_options("is of the whole table without a sample; leave it out", "statistics", "fakes")
    if restricted:
        kept = inputs.where_of(where, reports.asking.domain) if where else None
        wished |= {"where": kept, "missing": inputs.missing_of(complete_cases, missing_at_random)}
    wished |= {**keywords, "by": groups}
    result: Any = run.made(lambda: reports.table(*names, **wished))
    if weighted:
        run.give(result, partial(_print_weighted, result))
        return
    # answers' doubts stand among the warnings of their tables
    result = replace(result, warnings=tuple(line for line in result.warnings if line not in run.doubts))
    of = {s: numbers if s == "correlation" else None for s in statistics}
    derived: list[Any] = [
        run.made(partial(reports.measure, s, *names, confidence=confidence, coding=its)) for s, its in of.items()
    ]
    moved = run.made(lambda: reports.poisoning(*names, fakes=fakes, method=method)) if fakes else None

    def page(given: Given) -> Page:
        from optrr.core.estimation import estimate_page  # noqa: PLC0415 (pages bring charts)

        return estimate_page(result, given, derived, moved)

    run.give(result, lambda: _print_estimate(result, derived, moved), page, derived=derived, poisoning=moved)


def _print_estimate(result: Estimate, derived: Sequence[Derived], moved: Poisoning | None) -> None:
    print_shown(
        f"{' × '.join(result.domain.names)}: proportions of {result.n} records, {100 * result.confidence:g}% intervals",
        result.shown(),
    )
    if "where" in vars(result):
        say(result.headline())
    click.echo(result.method_note)
    click.echo(result.interval_note)
    if derived:
        _print_derived(derived, result.domain.names)
    if moved is not None:
        k, n = moved.fakes, moved.n
        reach = f"{k} added to the {n}, {k} of the {n} replaced, or {k} of the {n} fake and left out"
        print_shown(f"reach of {amount(k, 'fake report')}: {reach}", moved.shown())
        click.echo(moved.hundredth)
        click.echo(moved.note)


def _print_derived(derived: Sequence[Derived], names: Sequence[str]) -> None:
    print_table(
        f"statistics of the table, {100 * derived[0].confidence:g}% intervals",
        ["statistic", "value", "standard error", "lower", "upper", "reliable"],
        [(d.statistic, d.value, d.standard_error, d.lower, d.upper, "yes" if d.reliable else "no") for d in derived],
    )
    # takes longer to import than most tables take to estimate, and few ask for it
    from optrr.core.estimation import told_estimators  # noqa: PLC0415

    for line in (*told_estimators(derived), *(line for d in derived for line in told_scores(names, d.scores))):
        say(line)


def _print_weighted(result: WeightedEstimate) -> None:
    for title, table in zip(result.titles(), result.tables, strict=True):
        said = f"{table.n} records, effective {table.kish:.0f} by their weights alone"
        one = result.only(table)
        print_shown(f"{' × '.join(result.domain.names)}{f', {title}' if title else ''}: {said}", one.shown())
    say(result.headline())
    say(result.interval_note)
