"""optrr allocate: compare protocols at one total epsilon."""

from pathlib import Path
from typing import Literal, cast

import click
import numpy as np

from optrr.allocation.allocating import METHODS, Allocation
from optrr.allocation.allocating import allocate as make_allocation
from optrr.allocation.result import LIMITS
from optrr.cli import designing
from optrr.cli.options import command, option
from optrr.cli.outputs import DESIGN, REPORT, write_report
from optrr.cli.printing import give, print_table, progress, say, warn
from optrr.core import files
from optrr.core.design import Design, Preserve, Specification
from optrr.core.display import SHOWN, Page, bound_text, epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.records import held_back


@command
def allocate(
    spec: Path | None = designing.SPEC,
    attributes: tuple[str, ...] = designing.ATTRIBUTE,
    total_epsilon: float | None = option("Total epsilon to spend, in nats."),
    workload: str = option(
        "What is to be learned; FILE (.toml or .json) lists tables.",
        default="marginals",
        metavar="marginals|pairs|FILE",
    ),
    n: int | None = designing.PEOPLE,
    standard_error: float | None = option("Standard error every table must reach (needs --n)."),
    keep: Literal["records"] | None = option("Only ways after which any table can be estimated; limits imply it."),
    floors: tuple[str, ...] = option(
        "Smallest epsilon, of all or of one; repeatable.", "--min-epsilon", metavar="[NAME=]EPSILON"
    ),
    ceilings: tuple[str, ...] = option(
        "Largest epsilon, of all or of one; repeatable.", "--max-epsilon", metavar="[NAME=]EPSILON"
    ),
    ceilings_from_spec: bool = option("The epsilons of SPEC are ceilings: lower them until they fit."),
    conditional_cap: float | None = option("Largest conditional epsilon, in nats (up to 9 attributes)."),
    preserve: Preserve = designing.PRESERVE,
    method: str = option(
        "For whole records: lattice and program for few attributes, search for any number; auto chooses.",
        type=click.Choice(METHODS),
        default="auto",
    ),
    clusters: tuple[str, ...] = option(
        "Attributes randomized together; repeatable.", "--together", metavar="NAME,NAME,…"
    ),
    way: str | None = option(
        "Take this way of asking instead of the best, by its name in the table.", "--protocol", metavar="NAME"
    ),
    output: Path | None = option("Write the way of asking, for optrr randomize and optrr estimate.", "-o", type=DESIGN),
    report: Path | None = REPORT,
) -> None:
    """The most accurate way of asking for the workload at a total epsilon, beside all others and what each gives up.

    Without --total-epsilon: the smallest total for the standard errors required. Epsilons in SPEC are ignored unless
    --ceilings-from-spec is given.
    """
    wanted = designing.read_wanted(spec, attributes)
    designing.keep_specification(spec, output, report)
    what = "error" if total_epsilon is not None else "total epsilon"
    allocation = make_allocation(
        wanted.domain,
        total_epsilon,
        learn=workload,
        n=n,
        standard_error=standard_error,
        keep=keep,
        floors=_by_name(wanted, floors, "--min-epsilon"),
        ceilings=_ceilings(wanted, ceilings, ceilings_from_spec),
        conditional_cap=conditional_cap,
        preserve=preserve,
        method=method,
        clusters=[[name.strip() for name in c.split(",")] for c in clusters],
        progress=lambda so_far, lower: progress(f"allocate: {lower:.6g} ≤ {what} ≤ {so_far:.6g}"),
        public=wanted.public,
    )
    if way is not None:
        allocation = allocation.choosing(way)
    designing.carried(allocation.asking, wanted.public)
    warn(allocation.warnings)
    with held_back():
        if output is not None:
            files.save(allocation.certified(), output)
        write_report(report, lambda: _page(allocation, output))
    give(allocation.summary, lambda: _show(allocation))


def _page(allocation: Allocation, output: Path | None) -> Page:
    from optrr.allocation.pages import allocation_page, curves_around  # noqa: PLC0415 (pages bring charts)

    return allocation_page(allocation, curves_around(allocation), None if output is None else output.name)


def _by_name(wanted: Specification, texts: tuple[str, ...], option: str) -> dict[str, float] | None:
    """``name=epsilon`` by name, a bare number for every attribute that is not named, wherever it stands."""
    if not texts:
        return None
    out: dict[str, float] = {}
    named: set[str] = set()
    for text in sorted(texts, key=lambda each: "=" in each):
        name, equals, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError as error:
            raise InvalidInput(f"{option} {text!r} is not of the form name=epsilon or epsilon, like sex=0.5") from error
        if equals and name in named:
            raise InvalidInput(f"{option} is given twice for {name!r}, and only one can count; give it once")
        named |= {name} if equals else set()
        for each in (name,) if equals else wanted.domain.names:
            out[each] = number
    return out


def _ceilings(wanted: Specification, texts: tuple[str, ...], from_spec: bool) -> dict[str, float] | None:
    given = _by_name(wanted, texts, "--max-epsilon") or {}
    if from_spec:
        for name, epsilon in zip(wanted.domain.names, wanted.epsilons.tolist(), strict=True):
            if not np.isnan(epsilon):
                given[name] = min(epsilon, given.get(name, np.inf))
    return given or None


def _show(allocation: Allocation) -> None:
    law = allocation.law
    for line in allocation.sentences():
        say(line)
    print_table(
        f"workload {allocation.workload.name}",
        ["way of asking", "total", "error", "over bound", "records", "conditional", "faintest pair", "standard error"],
        [
            (
                o.name,
                epsilon_text(o.epsilon),
                o.error if np.isfinite(o.error) else None,
                allocation.over_bound(o),
                "kept" if o.keeps_records else "no",
                o.conditional_epsilon,
                o.pair_visibility,
                allocation.typical_standard_error(o),
            )
            for o in allocation.ways
        ],
    )
    say(f"way {allocation.way.name}, total epsilon {epsilon_text(allocation.asking.epsilon)}")
    if law is not None and allocation.way.name == "optimum":
        if allocation.gap is not None:
            of = "the best law of change sets of this total" + allocation.limits
            say(f"certified within {100 * allocation.gap:.2g} % of {of}, by method {law.method}")
        if law.least_total is not None:
            also = LIMITS if allocation.wishes else ""
            say(f"no law of change sets with these accuracies{also} has a total below {bound_text(law.least_total)}")
    if allocation.asking.budgets:
        designing.show_attributes(cast(Design, allocation.asking))
    shown = allocation.predictions[:SHOWN]
    more = f" (first {SHOWN} of {len(allocation.predictions)})" if len(allocation.predictions) > SHOWN else ""
    print_table(
        "predicted errors" + more,
        ["table", "cells", "n × squared error", "standard error per cell"],
        [(" × ".join(p.attributes), p.cells, p.error, p.standard_error) for p in shown],
    )
