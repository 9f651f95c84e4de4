"""optrr estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optrr.cli.estimate_file import check_estimate_suffix, table_option, write_estimate
from optrr.cli.fake_reports import fake_reports_option, print_poisoning
from optrr.cli.inputs import (
    confidence_option,
    design_option,
    input_argument,
    keep_input,
    simultaneous_option,
    split_names,
)
from optrr.cli.output import json_option, late_bar, print_json, print_table, warn
from optrr.cli.releases import doubts_about
from optrr.designing.design import Design
from optrr.errors import InvalidInput
from optrr.estimation.estimator import METHODS
from optrr.estimation.estimator import estimate as estimate_table
from optrr.estimation.impossible import impossible
from optrr.estimation.statistics import STATISTICS
from optrr.protocols.saved import load_asking
from optrr.records.counts import Counts, count
from optrr.records.reading.source import RecordsAt

if TYPE_CHECKING:
    from optrr.asking import Asking
    from optrr.estimation.derived import Derived
    from optrr.estimation.fake_reports import Poisoning
    from optrr.estimation.result import Estimate
    from optrr.mechanisms.randomizer import Randomizer


@click.command()
@input_argument
@design_option
@click.option(
    "--attributes",
    required=True,
    metavar="A,B",
    help="Attributes of the table, separated by commas; a comma inside a name is written twice.",
)
@table_option
@click.option(
    "--method", type=click.Choice(METHODS), default="unbiased", show_default=True, help="How the table is estimated."
)
@confidence_option
@simultaneous_option
@click.option(
    "--derive",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Also a statistic of the table, from the unbiased estimate whatever the method; repeatable.",
)
@fake_reports_option
@json_option
def estimate(
    input: RecordsAt,
    design_file: Path,
    attributes: str,
    output: Path | None,
    method: str,
    confidence: float,
    simultaneous: bool,
    statistics: tuple[str, ...],
    fakes: int | None,
    as_json: bool,
) -> None:
    """Estimate a table of proportions, and statistics of it, from randomized records."""
    if output is not None:
        check_estimate_suffix(output)
        keep_input(output, input)
    design = load_asking(design_file)
    doubts = doubts_about([input], design.digest)
    if not isinstance(design, Design):
        if method != "unbiased" or statistics or simultaneous:
            raise InvalidInput(
                "answers to one random table each take no --method, no --simultaneous and no --derive; leave them out"
            )
        _give_estimate(_of_answers(design, input, split_names(attributes), confidence, fakes, doubts), output, as_json)
        return
    with late_bar() as show:
        place = input.watched(lambda done, share: show(f"{done} records counted", share))
        counts = count(place, design.domain, split_names(attributes), allow_extra=True)
    doubts += impossible([counts], design.mechanism)
    wished: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    if method == "adjusted":
        from optrr.estimation.adjusted_table import estimate_adjusted  # noqa: PLC0415 (as in _derived)

        result = estimate_adjusted(input, design.mechanism, counts.domain.names, **wished)
    else:
        result = estimate_table(counts, design.mechanism, method=method, **wished)
    derived = _derived(counts, design.mechanism, statistics, confidence) if statistics else []
    moved = _moved(counts, design.mechanism, fakes, method) if fakes else None
    _give_estimate(_Estimated(result, doubts, derived, moved), output, as_json)


def _moved(counts: Counts, mechanism: Randomizer, fakes: int, method: str) -> Poisoning:
    from optrr.estimation.fake_reports import poisoning  # noqa: PLC0415 (as in _derived)

    return poisoning(counts, mechanism, fakes, method)


def _derived(counts: Counts, mechanism: Randomizer, statistics: Sequence[str], confidence: float) -> list[Derived]:
    # takes longer to import than most tables take to estimate, and few ask for it
    from optrr.estimation.derived import derive  # noqa: PLC0415

    return [
        derive(counts, mechanism, s, confidence=confidence)  # type: ignore[arg-type]  # the choices are the literals
        for s in statistics
    ]


@dataclass(frozen=True, eq=False)
class _Estimated:
    """Everything that was asked about a table."""

    result: Estimate
    doubts: list[str]
    derived: list[Derived] = field(default_factory=list)
    poisoning: Poisoning | None = None

    def summary(self) -> dict[str, Any]:
        out = self.result.summary() | {"doubts": self.doubts}
        if self.derived:
            out["derived"] = [d.summary() for d in self.derived]
        if self.poisoning is not None:
            out["poisoning"] = self.poisoning.summary()
        return out


def _of_answers(
    asking: Asking, answers: RecordsAt, names: Sequence[str], confidence: float, fakes: int | None, doubts: list[str]
) -> _Estimated:
    """A table from answers to one random table each."""
    from optrr.protocols.sampled_tables import SampledTables  # noqa: PLC0415 (most files hold a design)

    result = asking.estimate(answers, names, confidence)
    moved = asking.poisoning(answers, names, fakes) if fakes and isinstance(asking, SampledTables) else None
    return _Estimated(result, doubts, poisoning=moved)


def _give_estimate(estimated: _Estimated, output: Path | None, as_json: bool) -> None:
    """Write the estimate where asked to, then print it."""
    result = estimated.result
    if output is not None:
        write_estimate(result, estimated.summary(), output)
    warn(estimated.doubts)
    if as_json:
        print_json(estimated.summary())
        return
    table = result.to_arrow()
    print_table(
        f"{' × '.join(result.domain.names)}: proportions of {result.n} records, {100 * result.confidence:g}% intervals",
        table.column_names,
        [["(missing)" if v is None else v for v in row.values()] for row in table.to_pylist()],
    )
    click.echo(f"{result.method}: {result.bias}")
    click.echo(result.interval_note)
    warn(result.warnings)
    if estimated.derived:
        _print_derived(estimated.derived)
    if estimated.poisoning is not None:
        print_poisoning(estimated.poisoning)


def _print_derived(derived: list[Derived]) -> None:
    print_table(
        f"statistics of the table, {100 * derived[0].confidence:g}% intervals",
        ["statistic", "value", "standard error", "lower", "upper", "reliable"],
        [
            (d.statistic, *map(_known, (d.value, d.standard_error, d.lower, d.upper)), "yes" if d.reliable else "no")
            for d in derived
        ],
    )
    warn(line for d in derived for line in d.warnings)


def _known(number: float) -> float | None:
    return None if isnan(number) else number
