"""optrr measure, share, contrast and quantile: what tables say of the true records."""

from collections.abc import Callable
from typing import Any

import msgspec

from optrr.analysis.measures import Measures
from optrr.analysis.measures.measure import MeasureName
from optrr.analysis.measures.subgroups import said_where
from optrr.cli import inputs
from optrr.cli.options import command, group, option
from optrr.cli.outputs import Analysis, TableAnalysis
from optrr.cli.printing import print_shown, say
from optrr.core.display import crossed
from optrr.core.domain import told_scores
from optrr.core.errors import InvalidInput


@command
def measure(
    run: Analysis = group(TableAnalysis),
    attributes: str = option(
        "Two attributes: the groups, and what is compared in them.", metavar="GROUPS,OUTCOMES", required=True
    ),
    name: MeasureName = option("What is measured.", "--measure", default="row-proportions"),
    reference: str | None = option(
        "The group that others are compared with; the first unless given.", metavar="CATEGORY"
    ),
    reference_outcome: str | None = option("For odds ratios; the first outcome unless given.", metavar="CATEGORY"),
    scores: tuple[str, ...] = inputs.SCORES,
    where: tuple[str, ...] = inputs.AMONG,
    complete_cases: bool = inputs.COMPLETE_CASES,
    missing_at_random: str | None = inputs.IGNORABLE,
    pool: tuple[str, ...] = inputs.POOL,
    sample: inputs.Sampled = group(inputs.Sampled),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    names = inputs.split_names(attributes)
    references = {name: given for name, given in zip(names, (reference, reference_outcome), strict=False) if given}
    reports = run.open(pool, names)
    asked: dict[str, Any] = {"coding": references | inputs.scores_of(scores), "simultaneous": simultaneous}
    asked |= {"where": inputs.where_of(where, reports.asking.domain) or None, "confidence": confidence}
    asked |= {"missing": inputs.missing_of(complete_cases, missing_at_random)}
    keywords, _ = run.sampled(sample)
    _give(run, lambda: reports.measure(name, *names, **asked, **keywords))


def _give(run: Analysis, call: Callable[[], Any]) -> None:
    result: Measures = run.made(call)
    run.give(result, lambda: _print(result))


def _print(result: Measures) -> None:
    """The table, whom it is among, the scores that counted, and the sample."""
    together = ", for all together" if result.simultaneous else ""
    title = f"{result.statistic}: {crossed(result.attributes)}, {result.n} records"
    print_shown(f"{title}{said_where(result.where)}, {100 * result.confidence:g}% intervals{together}", result.shown())
    for line in told_scores(result.attributes[-1:], None if result.scores is None else [result.scores], 2):
        say(line)
    for line in (result.note, result.sample and f"weighted: {result.sample}"):
        if line:
            say(line)


@command
def share(
    run: Analysis = group(TableAnalysis),
    of: tuple[str, ...] = option(
        "Whose share: people with one of these categories of A; several attributes are all to hold.",
        required=True,
        metavar="A=CATEGORY,CATEGORY,…",
    ),
    where: tuple[str, ...] = inputs.AMONG,
    complete_cases: bool = inputs.COMPLETE_CASES,
    sample: inputs.Sampled = group(inputs.Sampled),
    confidence: float = inputs.CONFIDENCE,
) -> None:
    """The share of people with some categories, of all or among those with others, from randomized records."""
    domain = run.asking.domain
    one = {"of": inputs.categories_of("of", of, domain), "where": inputs.where_of(where, domain)}
    _give_contrast(run, [one], sample, complete_cases, confidence)


@command
def contrast(
    run: Analysis = group(TableAnalysis),
    shares: tuple[str, ...] = option(
        'A share of the sum: {"of": {"income": ">50K"}, "among": {"sex": "F"}, "weight": -1}; repeatable.',
        "--share",
        required=True,
        metavar="JSON",
    ),
    complete_cases: bool = inputs.COMPLETE_CASES,
    sample: inputs.Sampled = group(inputs.Sampled),
    confidence: float = inputs.CONFIDENCE,
) -> None:
    """A sum of shares with weights, such as the difference of two, from randomized records."""
    _give_contrast(run, [_read(text) for text in shares], sample, complete_cases, confidence)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'--share {text} is not JSON ({error}); write --share \'{{"of": {{"income": ">50K"}}, "weight": -1}}\''
        ) from None


def _give_contrast(
    run: Analysis, shares: list[Any], sample: inputs.Sampled, complete_cases: bool, confidence: float
) -> None:
    reports = run.open()
    keywords, _ = run.sampled(sample)
    keywords |= {"missing": inputs.missing_of(complete_cases, None), "confidence": confidence}
    _give(run, lambda: reports.contrast(*shares, **keywords))


@command
def quantile(
    run: Analysis = group(TableAnalysis),
    attributes: str = option(
        "The attribute: bins, numbers, ordered categories, or any with --scores.", metavar="A", required=True
    ),
    at: str = option("Which quantiles, between 0 and 1.", default="0.5", metavar="Q,Q,…"),
    scores: tuple[str, ...] = inputs.SCORES,
    where: tuple[str, ...] = inputs.AMONG,
    sample: inputs.Sampled = group(inputs.Sampled),
    confidence: float = inputs.CONFIDENCE,
    simultaneous: bool = inputs.SIMULTANEOUS,
) -> None:
    """Medians and other quantiles of the true records, from randomized ones; people who did not answer have none."""
    names = inputs.split_names(attributes)
    if len(names) != 1:
        raise InvalidInput(f"--attributes names {len(names)} of them, and quantiles are of one; name one")
    wanted = inputs.numbers("at", at)
    reports = run.open()
    asked: dict[str, Any] = {"where": inputs.where_of(where, run.asking.domain), "confidence": confidence}
    asked |= {"scores": inputs.scores_of(scores), "simultaneous": simultaneous}
    keywords, _ = run.sampled(sample)
    _give(run, lambda: reports.quantiles(names[0], wanted, **asked, **keywords))
