"""optrr estimate: a table, its posterior, statistics of it, and how far fake reports can move it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from optrr.cli.inputs import (
    Counted,
    among_of,
    among_option,
    answered_option,
    confidence_option,
    counted,
    design_option,
    ignorable_option,
    input_argument,
    pool_option,
    scores_of_two,
    scores_option,
    simultaneous_option,
    split_names,
    table_attributes_option,
    with_pool,
)
from optrr.cli.outputs import Outputs, page_given, report_option, table_option
from optrr.cli.printing import json_option, print_shown, print_table, say
from optrr.cli.public_columns import Sampled, counted_as_sampled, give_weighted, sampled_options
from optrr.designs.design import Design
from optrr.domain.domain import GivenScores, told_scores
from optrr.errors import InvalidInput
from optrr.records.counts import Counts, OpenedRecords
from optrr.records.reading.source import RecordsAt
from optrr.show.parts import Page
from optrr.show.text import amount
from optrr.tables.estimation.estimator import METHODS, check_confidence
from optrr.tables.estimation.estimator import estimate as estimate_table
from optrr.tables.estimation.statistics import STATISTICS
from optrr.ways.protocols.sampled_tables import load_asking

if TYPE_CHECKING:
    from optrr.designs.design import Asking
    from optrr.mechanisms.mechanism import Randomizer
    from optrr.tables.bayes import Posterior
    from optrr.tables.estimation.derived import Derived
    from optrr.tables.estimation.estimator import Estimate
    from optrr.tables.estimation.fake_reports import Poisoning
    from optrr.tables.estimation.impossible import CountedTable


fake_reports_option = click.option(
    "--fake-reports",
    "fakes",
    type=click.IntRange(min=1),
    metavar="K",
    help="Also how far K fake reports, or fewer, can move each cell of the unbiased estimate.",
)


def print_poisoning(moved: Poisoning) -> None:
    """Where the cells can be moved to, and by which reports."""
    k, n = moved.fakes, moved.n
    reach = f"{k} added to the {n}, {k} of the {n} replaced, or {k} of the {n} fake and left out"
    print_shown(f"reach of {amount(k, 'fake report')}: {reach}", moved.shown())
    click.echo(moved.hundredth)
    click.echo(moved.note)


_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--posterior", is_flag=True, help="Credible intervals under a Dirichlet prior instead, for small samples."
    ),
    click.option(
        "--prior", type=float, help="Of --posterior: records that the prior adds to each cell; 0.5 unless given."
    ),
    click.option("--random-state", type=click.IntRange(min=0), help="Of --posterior: the seed of its draws."),
)


def posterior_options(command: _Command) -> _Command:
    """The options --posterior, --prior and --random-state."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_posterior(posterior: bool, others: dict[str, bool], prior: float | None, random_state: int | None) -> None:
    """Refuse options that do not go with --posterior, by name whether they were given, or that need it. Raises InvalidInput."""
    if posterior:
        for option, given in others.items():
            if given:
                raise InvalidInput(f"{option} says nothing of a posterior; leave out {option} or --posterior")
    elif prior is not None or random_state is not None:
        option = "--prior" if prior is not None else "--random-state"
        raise InvalidInput(f"{option} is for credible intervals; give --posterior too")


def give_posterior(
    reports: OpenedRecords,
    design: Design,
    design_file: Path,
    attributes: str,
    wished: dict[str, Any],
    outputs: Outputs,
) -> None:
    """Draw the posterior of a table, and give it to whatever outputs are asked for; ``wished`` without those that are None."""
    from optrr.tables.bayes import posterior  # noqa: PLC0415 (few ask for it)

    known = counted(design, reports, split_names(attributes))
    asked = {name: value for name, value in wished.items() if value is not None}
    result = posterior(known.counts[0], known.mechanism, **asked)
    outputs.give_table(result, (design, design_file, reports, known.doubts), lambda: _print(result))


def _print(result: Posterior) -> None:
    from optrr.tables.bayes import PROMISE  # noqa: PLC0415 (as above)

    print_shown(
        f"{' × '.join(result.domain.names)}: posterior of the proportions behind {result.n} records, "
        f"{100 * result.confidence:g}% credible intervals, each alone",
        result.shown(),
    )
    for line in (result.prior_text, result.drawn_text, PROMISE):
        say(line)


@click.command()
@input_argument
@design_option
@table_attributes_option
@table_option
@report_option
@click.option(
    "--method", type=click.Choice(METHODS), default="unbiased", show_default=True, help="How the table is estimated."
)
@confidence_option
@simultaneous_option
@click.option(
    "--tables",
    type=click.IntRange(min=1),
    help="With --simultaneous: one of so many tables, whose intervals are all to hold together (Bonferroni).",
)
@click.option(
    "--derive",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Also a statistic of the table, from the unbiased estimate whatever the method; repeatable.",
)
@scores_option
@among_option
@answered_option
@ignorable_option
@pool_option
@posterior_options
@fake_reports_option
@sampled_options
@json_option
def estimate(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    output: Path | None,
    report: Path | None,
    method: str,
    confidence: float,
    simultaneous: bool,
    tables: int | None,
    statistics: tuple[str, ...],
    scores: tuple[str, ...],
    among: tuple[str, ...],
    answered: bool,
    ignorable: str | None,
    pool: tuple[str, ...],
    posterior: bool,
    prior: float | None,
    random_state: int | None,
    fakes: int | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """Estimate a table of proportions, and statistics of it, from randomized records.

    Where the design or the release names public columns of weights, strata or clusters, or options do, the estimate is
    weighted and its errors are those of the sample.
    """
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    others = _options(method != "unbiased", simultaneous, bool(statistics), _some(among, answered, ignorable))
    names, derived = _asked(attributes, statistics, scores)
    check_posterior(posterior, others | {"--fake-reports": bool(fakes)}, prior, random_state)
    asking, sample = load_asking(design_file), Sampled(**sampled)
    reports = with_pool(OpenedRecords.of(asking, input), pool, names)
    if tables and not simultaneous:
        raise InvalidInput("--tables is for intervals that hold together; give --simultaneous, too")
    if tables:
        check_confidence(confidence)
        confidence = 1 - (1 - confidence) / tables
    wished: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    of: Sequence[str] = names
    if among or answered or ignorable:
        from optrr.tables.measures.among import restriction  # noqa: PLC0415 (as in _derived)

        _check_restriction(others, fakes)
        domain = reports.asking.domain
        of, wished["among"] = restriction(domain, names, among_of(among, domain), answered, ignorable)
        wished |= {"ignorable": ignorable} if ignorable else {}
    if not isinstance(asking, Design):
        sample.check_answers({"--method": others["--method"], "--posterior": posterior})
        _give(_of_answers(asking, reports, names, wished, derived, fakes), asking, design_file, reports, outputs)
    elif "among" in wished and not sample.by:
        wished |= {"attributes": names}
        known = counted_as_sampled(asking, reports, of, sample)
        _give(_of_records(known, method, wished, derived, fakes), asking, design_file, reports, outputs)
    elif columns := sample.columns(reports):
        sample.check({**others, "--simultaneous": False, "--posterior": posterior, "--fake-reports": bool(fakes)})
        give_weighted(asking, design_file, reports, attributes, outputs, columns=columns, **wished, **sample.how)
    elif posterior:
        drawn = {"prior": prior, "confidence": confidence, "random_state": random_state}
        give_posterior(reports, asking, design_file, attributes, drawn, outputs)
    else:
        estimated = _of_records(counted(asking, reports, of), method, wished, derived, fakes)
        _give(estimated, asking, design_file, reports, outputs)


def _give(estimated: _Estimated, asking: Asking, design_file: Path, reports: OpenedRecords, outputs: Outputs) -> None:
    def page() -> Page:
        from optrr.pages.table_pages import estimate_page  # noqa: PLC0415 (pages bring charts)

        source = page_given(asking, design_file, reports, estimated.doubts)
        return estimate_page(estimated.result, source, estimated.derived, estimated.poisoning)

    outputs.give(estimated.result, estimated.summary(), estimated.warnings(), page, lambda: _print_estimate(estimated))


def _of_records(
    known: Counted,
    method: str,
    wished: dict[str, Any],
    statistics: Mapping[str, GivenScores | None],
    fakes: int | None,
) -> _Estimated:
    """A table from randomized records, and whatever else was asked about it."""
    (counts,) = known.counts
    result = _estimate(known, method, wished)
    derived = _derived(counts, known.mechanism, statistics, wished["confidence"]) if statistics else []
    moved = _moved(counts, known.mechanism, fakes, method) if fakes else None
    return _Estimated(result, known.doubts, derived, moved)


def _options(method: bool, simultaneous: bool, derive: bool, some: dict[str, bool]) -> dict[str, bool]:
    """Which options are given that not every estimate takes, by name; ``some`` are those that restrict who counts."""
    return {"--method": method, "--simultaneous": simultaneous, "--derive": derive, **some}


def _some(among: Sequence[str], answered: bool, ignorable: str | None) -> dict[str, bool]:
    return {"--among": bool(among), "--answered": answered, "--ignorable": ignorable is not None}


def _check_restriction(others: dict[str, bool], fakes: int | None) -> None:
    """Raise InvalidInput for options that an estimate of some people does not take."""
    also = others | {"--fake-reports": bool(fakes)}
    taken = ("--among", "--answered", "--ignorable", "--simultaneous")
    given = [o for o, is_given in also.items() if is_given and o not in taken]
    if given:
        raise InvalidInput(f"an estimate among some categories takes no {' and no '.join(given)}; leave it out")


def _estimate(known: Counted, method: str, wished: dict[str, Any]) -> Estimate:
    (counts,) = known.counts
    if "among" in wished:
        from optrr.tables.measures.shares import estimate_among  # noqa: PLC0415 (as in _derived)

        return estimate_among(counts, known.mechanism, **wished)
    if method == "adjusted":
        from optrr.tables.estimation.estimator import estimate_adjusted  # noqa: PLC0415 (as in _derived)

        return estimate_adjusted(known.reports.places[0], known.mechanism, counts.domain.names, **wished)
    return estimate_table(counts, known.mechanism, method=method, **wished)


def _moved(counts: Counts, mechanism: Randomizer, fakes: int, method: str) -> Poisoning:
    from optrr.tables.estimation.fake_reports import poisoning  # noqa: PLC0415 (as in _derived)

    return poisoning(counts, mechanism, fakes, method)


def _asked(
    attributes: str, statistics: Sequence[str], scores: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, GivenScores | None]]:
    """The attributes' names, and every statistic with its scores."""
    names = split_names(attributes)
    if scores and "correlation" not in statistics:
        raise InvalidInput("--scores is for --derive correlation; leave it out")
    return names, {s: scores_of_two(scores, names) if s == "correlation" else None for s in statistics}


def _derived(
    counts: Counts | CountedTable,
    mechanism: Randomizer | None,
    statistics: Mapping[str, GivenScores | None],
    confidence: float,
) -> list[Derived]:
    # takes longer to import than most tables take to estimate, and few ask for it
    from optrr.tables.estimation.derived import derive  # noqa: PLC0415

    return [
        derive(counts, mechanism, s, confidence=confidence, scores=scores)  # type: ignore[arg-type]  # the literals
        for s, scores in statistics.items()
    ]


@dataclass(frozen=True, eq=False)
class _Estimated:
    """Everything that was asked about a table."""

    result: Estimate
    doubts: tuple[str, ...]
    derived: list[Derived] = field(default_factory=list)
    poisoning: Poisoning | None = None

    def summary(self) -> dict[str, Any]:
        out = self.result.summary() | {"doubts": list(self.doubts)}
        if self.derived:
            out["derived"] = [d.summary() for d in self.derived]
        if self.poisoning is not None:
            out["poisoning"] = self.poisoning.summary()
        return out

    def warnings(self) -> list[str]:
        """Everything that a reader must know, one line each."""
        return [*self.doubts, *self.result.warnings, *(line for d in self.derived for line in d.warnings)]


def _of_answers(
    asking: Asking,
    reports: OpenedRecords,
    names: Sequence[str],
    wished: dict[str, Any],
    statistics: Mapping[str, GivenScores | None],
    fakes: int | None,
) -> _Estimated:
    """A table from answers to questions, and whatever else was asked about it."""
    from optrr.ways.protocols.sampled_tables import SampledTables  # noqa: PLC0415 (most files hold a design)

    doubts = tuple(reports.doubts)
    known = cast("Estimate", asking.reports(reports).table(*names, **wished))
    result = replace(known, warnings=tuple(line for line in known.warnings if line not in doubts))
    moved = asking.poisoning(reports, names, fakes) if fakes and isinstance(asking, SampledTables) else None
    derived = _derived(asking.counted(reports, names), None, statistics, wished["confidence"]) if statistics else []
    return _Estimated(result, doubts, derived, moved)


def _print_estimate(estimated: _Estimated) -> None:
    result = estimated.result
    print_shown(
        f"{' × '.join(result.domain.names)}: proportions of {result.n} records, {100 * result.confidence:g}% intervals",
        result.shown(),
    )
    if "among" in vars(result):
        say(result.headline())
    click.echo(result.method_note)
    click.echo(result.interval_note)
    if estimated.derived:
        _print_derived(estimated.derived, estimated.result.domain.names)
    if estimated.poisoning is not None:
        print_poisoning(estimated.poisoning)


def _print_derived(derived: list[Derived], names: Sequence[str]) -> None:
    print_table(
        f"statistics of the table, {100 * derived[0].confidence:g}% intervals",
        ["statistic", "value", "standard error", "lower", "upper", "reliable"],
        [(d.statistic, d.value, d.standard_error, d.lower, d.upper, "yes" if d.reliable else "no") for d in derived],
    )
    # as above, slow to import
    from optrr.tables.estimation.derived import told_estimators  # noqa: PLC0415

    for line in (*told_estimators(derived), *(line for d in derived for line in told_scores(names, d.scores))):
        say(line)
