"""optrr measure, share, contrast and quantile: what tables say of the true records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from optrr.cli.inputs import (
    among_of,
    among_option,
    answered_option,
    attributes_option,
    categories_of,
    confidence_option,
    design_option,
    ignorable_option,
    input_argument,
    pool_option,
    read_numbers,
    scores_of,
    scores_option,
    simultaneous_option,
    split_names,
    with_pool,
)
from optrr.cli.outputs import Outputs, report_option, table_option
from optrr.cli.printing import json_option, print_shown, say
from optrr.cli.public_columns import Sampled, counted_as_sampled, sample_options
from optrr.domain.domain import told_scores
from optrr.errors import InvalidInput
from optrr.records.reading.source import RecordsAt
from optrr.show.text import crossed
from optrr.tables.measures import MEASURES, Comparing, Measures
from optrr.tables.measures import measure as measure_table
from optrr.tables.measures.among import restriction, said_among
from optrr.tables.measures.quantile import quantiles
from optrr.tables.measures.shares import contrast as contrast_of
from optrr.tables.measures.shares import names_of, read_shares
from optrr.ways.protocols.sampled_tables import load_asking


@click.command()
@input_argument
@design_option
@click.option(
    "--of",
    multiple=True,
    required=True,
    metavar="A=CATEGORY,CATEGORY,…",
    help="Whose share: people with one of these categories of A; several attributes are all to hold.",
)
@among_option
@answered_option
@sample_options
@confidence_option
@table_option
@report_option
@json_option
def share(
    *,
    input: RecordsAt,
    design_file: Path,
    of: tuple[str, ...],
    among: tuple[str, ...],
    answered: bool,
    confidence: float,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """The share of people with some categories, of all or among those with others, from randomized records."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    domain = load_asking(design_file).domain
    wanted = {"of": categories_of(of, "--of", domain), "among": among_of(among, domain)}
    _give_contrast([wanted], {"answered": answered, "confidence": confidence}, input, design_file, outputs, sampled)


@click.command()
@input_argument
@design_option
@click.option(
    "--share",
    "shares",
    multiple=True,
    required=True,
    metavar="JSON",
    help='A share of the sum: {"of": {"income": ">50K"}, "among": {"sex": "F"}, "weight": -1}; repeatable.',
)
@answered_option
@sample_options
@confidence_option
@table_option
@report_option
@json_option
def contrast(
    *,
    input: RecordsAt,
    design_file: Path,
    shares: tuple[str, ...],
    answered: bool,
    confidence: float,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """A sum of shares with weights, such as the difference of two, from randomized records."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    how = {"answered": answered, "confidence": confidence}
    _give_contrast([_read(text) for text in shares], how, input, design_file, outputs, sampled)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'--share {text} is not JSON ({error}); write --share \'{{"of": {{"income": ">50K"}}, "weight": -1}}\''
        ) from None


def _give_contrast(
    given: list[Any],
    how: dict[str, Any],
    input: RecordsAt,
    design_file: Path,
    outputs: Outputs,
    sampled: dict[str, Any],
) -> None:
    wanted, asking = read_shares(given), load_asking(design_file)
    known = counted_as_sampled(asking, asking.reports(input), names_of(wanted), Sampled(by=None, **sampled))
    _give(contrast_of(known.counts[0], known.mechanism, wanted, **how), known, design_file, outputs)


def _give(result: Measures, known: Any, design_file: Path, outputs: Outputs) -> None:
    of = (known.design, design_file, known.reports, known.doubts)
    outputs.give_table(result, of, lambda: print_measures(result))


@click.command()
@input_argument
@design_option
@attributes_option("A", "The attribute: bins, numbers, ordered categories, or any with --scores.")
@click.option("--at", default="0.5", show_default=True, metavar="Q,Q,…", help="Which quantiles, between 0 and 1.")
@scores_option
@among_option
@sample_options
@confidence_option
@simultaneous_option
@table_option
@report_option
@json_option
def quantile(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    at: str,
    scores: tuple[str, ...],
    among: tuple[str, ...],
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """Medians and other quantiles of the true records, from randomized ones; people who did not answer have none."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    names = split_names(attributes)
    if len(names) != 1:
        raise InvalidInput(f"--attributes names {len(names)} of them, and quantiles are of one; name one")
    wanted = read_numbers(at, f"--at {at} is not understood; write numbers between 0 and 1, such as --at 0.25,0.5,0.75")
    asking = load_asking(design_file)
    of, kept = restriction(asking.domain, names, among_of(among, asking.domain), False)
    known = counted_as_sampled(asking, asking.reports(input), of, Sampled(by=None, **sampled))
    how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    numbers = scores_of(scores, names).get(names[0])
    _give(
        quantiles(known.counts[0], known.mechanism, wanted, among=kept, scores=numbers, **how),
        known,
        design_file,
        outputs,
    )


@click.command()
@input_argument
@design_option
@attributes_option("GROUPS,OUTCOMES", "Two attributes: the groups, and what is compared in them.")
@click.option(
    "--measure", "name", type=click.Choice(MEASURES), default="row-shares", show_default=True, help="What is measured."
)
@click.option(
    "--reference", metavar="CATEGORY", help="The group that others are compared with; the first unless given."
)
@click.option("--reference-outcome", metavar="CATEGORY", help="For odds ratios; the first outcome unless given.")
@scores_option
@among_option
@answered_option
@ignorable_option
@pool_option
@sample_options
@confidence_option
@simultaneous_option
@table_option
@report_option
@json_option
def measure(
    *,
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    name: str,
    reference: str | None,
    reference_outcome: str | None,
    scores: tuple[str, ...],
    among: tuple[str, ...],
    answered: bool,
    ignorable: str | None,
    pool: tuple[str, ...],
    confidence: float,
    simultaneous: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **sampled: Any,
) -> None:
    """Shares within groups, risks, odds, means and ordinal association of the true records, from randomized ones."""
    outputs = Outputs(output, report, as_json)
    outputs.check([input])
    names = split_names(attributes)
    numbers = scores_of(scores, names[-1:])
    asking = load_asking(design_file)
    reports = with_pool(asking.reports(input), pool, names)
    domain = reports.asking.domain
    of, kept = restriction(domain, names, among_of(among, domain), answered, ignorable)
    known = counted_as_sampled(asking, reports, of, Sampled(by=None, **sampled))
    comparing = Comparing(reference, reference_outcome, numbers.get(names[-1]))
    result = measure_table(
        known.counts[0],
        known.mechanism,
        name,  # type: ignore[arg-type]  # the choices are the literals
        comparing,
        confidence=confidence,
        simultaneous=simultaneous,
        among=kept,
        ignorable=ignorable,
    )
    outputs.give_table(result, (known.design, design_file, known.reports, known.doubts), lambda: print_measures(result))


def print_measures(result: Measures) -> None:
    """The table, whom it is among, the scores that counted, and the sample."""
    together = ", for all together" if result.simultaneous else ""
    title = f"{result.measure}: {crossed(result.attributes)}, {result.n} records"
    print_shown(f"{title}{said_among(result.among)}, {100 * result.confidence:g}% intervals{together}", result.shown())
    for line in told_scores(result.attributes[-1:], None if result.scores is None else [result.scores], 2):
        say(line)
    for line in (result.note, result.sample and f"weighted: {result.sample}"):
        if line:
            say(line)
