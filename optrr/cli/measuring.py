"""optrr measure, share, contrast and quantile: what tables say of the true records."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from optrr.analysis.measures import MEASURES, Measures
from optrr.analysis.measures.among import said_among
from optrr.cli import inputs
from optrr.cli.outputs import Analysis, analysis, report_option, table_option
from optrr.cli.printing import print_shown, say
from optrr.core.display.text import crossed
from optrr.core.domain.domain import told_scores
from optrr.core.errors import InvalidInput


@analysis(
    inputs.attributes_option("GROUPS,OUTCOMES", "Two attributes: the groups, and what is compared in them."),
    click.option(
        "--measure",
        "name",
        type=click.Choice(MEASURES),
        default="row-shares",
        help="What is measured.",
    ),
    click.option(
        "--reference", metavar="CATEGORY", help="The group that others are compared with; the first unless given."
    ),
    click.option("--reference-outcome", metavar="CATEGORY", help="For odds ratios; the first outcome unless given."),
    inputs.scores_option,
    inputs.among_option,
    inputs.complete_cases_option,
    inputs.ignorable_option,
    inputs.pool_option,
    inputs.sample_options,
    inputs.confidence_option,
    inputs.simultaneous_option,
    table_option,
    report_option,
)
def measure(
    run: Analysis,
    *,
    attributes: str,
    name: str,
    scores: tuple[str, ...],
    among: tuple[str, ...],
    pool: tuple[str, ...],
    **asked: Any,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    names = inputs.split_names(attributes)
    asked["scores"] = inputs.scores_of(scores, names[-1:]).get(names[-1])
    reports = run.open(pool, names)
    asked["among"] = inputs.among_of(among, reports.asking.domain)
    keywords, _ = run.sampled(inputs.Sampled.of(asked))
    _give(run, lambda: reports.measure(name, *names, **asked, **keywords))


def _give(run: Analysis, call: Callable[[], Any]) -> None:
    result: Measures = run.made(call)
    run.give(result, lambda: _print(result))


def _print(result: Measures) -> None:
    """The table, whom it is among, the scores that counted, and the sample."""
    together = ", for all together" if result.simultaneous else ""
    title = f"{result.measure}: {crossed(result.attributes)}, {result.n} records"
    print_shown(f"{title}{said_among(result.among)}, {100 * result.confidence:g}% intervals{together}", result.shown())
    for line in told_scores(result.attributes[-1:], None if result.scores is None else [result.scores], 2):
        say(line)
    for line in (result.note, result.sample and f"weighted: {result.sample}"):
        if line:
            say(line)


@analysis(
    click.option(
        "--of",
        multiple=True,
        required=True,
        metavar="A=CATEGORY,CATEGORY,…",
        help="Whose share: people with one of these categories of A; several attributes are all to hold.",
    ),
    inputs.among_option,
    inputs.complete_cases_option,
    inputs.sample_options,
    inputs.confidence_option,
    table_option,
    report_option,
)
def share(run: Analysis, *, of: tuple[str, ...], among: tuple[str, ...], **asked: Any) -> None:
    """The share of people with some categories, of all or among those with others, from randomized records."""
    domain = run.asking.domain
    _give_contrast(
        run, [{"of": inputs.categories_of(of, "--of", domain), "among": inputs.among_of(among, domain)}], asked
    )


@analysis(
    click.option(
        "--share",
        "shares",
        multiple=True,
        required=True,
        metavar="JSON",
        help='A share of the sum: {"of": {"income": ">50K"}, "among": {"sex": "F"}, "weight": -1}; repeatable.',
    ),
    inputs.complete_cases_option,
    inputs.sample_options,
    inputs.confidence_option,
    table_option,
    report_option,
)
def contrast(run: Analysis, *, shares: tuple[str, ...], **asked: Any) -> None:
    """A sum of shares with weights, such as the difference of two, from randomized records."""
    _give_contrast(run, [_read(text) for text in shares], asked)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'--share {text} is not JSON ({error}); write --share \'{{"of": {{"income": ">50K"}}, "weight": -1}}\''
        ) from None


def _give_contrast(run: Analysis, shares: list[Any], asked: dict[str, Any]) -> None:
    reports = run.open()
    keywords, _ = run.sampled(inputs.Sampled.of(asked))
    _give(run, lambda: reports.contrast(*shares, **asked, **keywords))


@analysis(
    inputs.attributes_option("A", "The attribute: bins, numbers, ordered categories, or any with --scores."),
    click.option("--at", default="0.5", metavar="Q,Q,…", help="Which quantiles, between 0 and 1."),
    inputs.scores_option,
    inputs.among_option,
    inputs.sample_options,
    inputs.confidence_option,
    inputs.simultaneous_option,
    table_option,
    report_option,
)
def quantile(
    run: Analysis,
    *,
    attributes: str,
    at: str,
    scores: tuple[str, ...],
    among: tuple[str, ...],
    **asked: Any,
) -> None:
    """Medians and other quantiles of the true records, from randomized ones; people who did not answer have none."""
    names = inputs.split_names(attributes)
    if len(names) != 1:
        raise InvalidInput(f"--attributes names {len(names)} of them, and quantiles are of one; name one")
    wanted = inputs.read_numbers(
        at, f"--at {at} is not understood; write numbers between 0 and 1, such as --at 0.25,0.5,0.75"
    )
    reports = run.open()
    asked |= {
        "among": inputs.among_of(among, run.asking.domain),
        "scores": inputs.scores_of(scores, names).get(names[0]),
    }
    keywords, _ = run.sampled(inputs.Sampled.of(asked))
    _give(run, lambda: reports.quantiles(names[0], wanted, **asked, **keywords))
