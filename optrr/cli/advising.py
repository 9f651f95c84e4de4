"""optrr allocate, optrr advise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from optrr import files
from optrr.budgets.advice import Advice
from optrr.budgets.advice import advise as make_advice
from optrr.budgets.allocate import METHODS, Allocation
from optrr.budgets.allocate import allocate as make_allocation
from optrr.cli.designing import (
    attribute_option,
    keep_specification,
    people_option,
    preserve_option,
    read_wanted,
    show_attributes,
    spec_argument,
)
from optrr.cli.outputs import DESIGN, design_output_option, report_option, write_report
from optrr.cli.printing import json_option, late_bar, print_json, print_table, say, warn
from optrr.cli.public_columns import carried
from optrr.designs.asking import Asking
from optrr.designs.specification import Specification
from optrr.errors import InvalidInput
from optrr.show.parts import Page
from optrr.show.result import SHOWN
from optrr.show.text import bound_text, epsilon_text

workload_option = click.option(
    "--workload",
    default="marginals",
    show_default=True,
    metavar="marginals|pairs|FILE",
    help="What is to be learned; FILE (.toml or .json) lists tables.",
)


@click.command()
@spec_argument
@attribute_option
@click.option("--total-epsilon", type=float, help="Total epsilon to spend, in nats.")
@workload_option
@people_option
@click.option("--standard-error", type=float, help="Standard error every table must reach (needs --n).")
@click.option(
    "--floor", "floors", multiple=True, metavar="[NAME=]EPSILON", help="Smallest epsilon, of all or of one; repeatable."
)
@click.option(
    "--ceiling",
    "ceilings",
    multiple=True,
    metavar="[NAME=]EPSILON",
    help="Largest epsilon, of all or of one; repeatable.",
)
@click.option(
    "--ceilings-from-spec", is_flag=True, help="The epsilons of SPEC are ceilings: lower them until they fit."
)
@click.option("--conditional-cap", type=float, help="Largest conditional epsilon, in nats (up to 9 attributes).")
@preserve_option
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="auto",
    show_default=True,
    help="lattice and program for few attributes, search for any number; auto chooses.",
)
@click.option(
    "--sampling",
    is_flag=True,
    help="Ask each person one random question instead where that is more accurate; no records are kept then.",
)
@design_output_option
@report_option
@json_option
def allocate(
    *,
    spec: Path | None,
    attributes: tuple[str, ...],
    total_epsilon: float | None,
    workload: str,
    n: int | None,
    standard_error: float | None,
    floors: tuple[str, ...],
    ceilings: tuple[str, ...],
    ceilings_from_spec: bool,
    conditional_cap: float | None,
    preserve: str,
    method: str,
    sampling: bool,
    output: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Split one total epsilon over the attributes of SPEC so that the workload is as accurate as can be.

    Without --total-epsilon: the smallest total for the standard errors required. Epsilons in SPEC are ignored unless
    --ceilings-from-spec is given.
    """
    wanted = read_wanted(spec, attributes)
    keep_specification(spec, output, report)
    with late_bar() as show:
        allocation = make_allocation(
            wanted.domain,
            total_epsilon,
            learn=workload,
            n=n,
            standard_error=standard_error,
            floors=_by_name(wanted, floors, "--floor"),
            ceilings=_ceilings(wanted, ceilings, ceilings_from_spec),
            conditional_cap=conditional_cap,
            preserve=preserve,  # type: ignore[arg-type]  # the choices are the literals
            method=method,
            sampling=sampling,
            progress=lambda error, lower: show(f"allocate: {lower:.6g} ≤ error ≤ {error:.6g}", None),
        )
    carried(allocation.asking, wanted.public)
    _give(replace(allocation, design=replace(allocation.design, public=wanted.public)), output, report, as_json)


def _give(allocation: Allocation, output: Path | None, report: Path | None, as_json: bool) -> None:
    """Write the files that are asked for, then print the allocation."""
    warn(allocation.warnings)
    if output is not None:
        files.save(allocation.asking, output)
    write_report(report, lambda: _allocation_page(allocation, output))
    if as_json:
        print_json(allocation.summary())
    else:
        _show(allocation)


def _allocation_page(allocation: Allocation, output: Path | None) -> Page:
    from optrr.pages.design_pages import allocation_page  # noqa: PLC0415 (pages bring charts)

    return allocation_page(allocation, None if output is None else output.name)


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
    given = _by_name(wanted, texts, "--ceiling") or {}
    if from_spec:
        for name, epsilon in zip(wanted.domain.names, wanted.epsilons.tolist(), strict=True):
            if not np.isnan(epsilon):
                given[name] = min(epsilon, given.get(name, np.inf))
    return given or None


def _show(allocation: Allocation) -> None:
    say(
        f"total epsilon {epsilon_text(allocation.asking.epsilon)}   workload {allocation.workload.name}   "
        f"method {allocation.method}"
    )
    if allocation.gap is not None:
        say(
            f"workload error {allocation.error:.6g}, certified within {100 * allocation.gap:.2g} % of the best "
            "law of change sets"
        )
    say(
        f"no mechanism of this total, of whatever form, has an error below {allocation.error_bound:.6g}; this one's is "
        f"{allocation.error / allocation.error_bound:.4g} times that"
    )
    if allocation.least_total is not None:
        say(f"no mechanism with these accuracies has a total below {bound_text(allocation.least_total)}")
    if allocation.kronecker_error is not None:
        say(
            f"Kronecker's best split of this total has {allocation.kronecker_error / allocation.error:.4g} times the error"
        )
    if allocation.sampled is None:
        show_attributes(allocation.design)
    _show_predictions(allocation)


def _show_predictions(allocation: Allocation) -> None:
    shown = allocation.predictions[:SHOWN]
    more = f" (first {SHOWN} of {len(allocation.predictions)})" if len(allocation.predictions) > SHOWN else ""
    print_table(
        "predicted errors" + more,
        ["table", "cells", "n × squared error", "standard error per cell"],
        [(" × ".join(p.attributes), p.cells, p.error, p.standard_error) for p in shown],
    )


@click.command()
@spec_argument
@attribute_option
@click.option("--total-epsilon", type=float, required=True, help="Total epsilon to spend, in nats.")
@workload_option
@people_option
@click.option(
    "--together", "clusters", multiple=True, metavar="NAME,NAME,…", help="Attributes randomized together; repeatable."
)
@click.option(
    "-o",
    "--output",
    type=DESIGN,
    help="Write what is recommended, for optrr perturb and optrr estimate.",
)
@click.option("--way", metavar="NAME", help="Write this way of asking instead, by its name in the table.")
@report_option
@json_option
def advise(
    *,
    spec: Path | None,
    attributes: tuple[str, ...],
    total_epsilon: float,
    workload: str,
    n: int | None,
    clusters: tuple[str, ...],
    way: str | None,
    output: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Which way of asking is most accurate for the workload at this total epsilon, and what each gives up."""
    wanted = read_wanted(spec, attributes)
    if way is not None and output is None:
        raise InvalidInput("--way chooses what is written, but no file is named; add -o FILE")
    keep_specification(spec, output, report)
    groups = [[name.strip() for name in c.split(",")] for c in clusters]
    with late_bar() as show:
        advice = make_advice(
            wanted.domain,
            total_epsilon,
            learn=workload,
            n=n,
            clusters=groups,
            progress=lambda error: show(f"advise: error {error:.6g}", None),
        )
    chosen = advice.recommended if way is None else advice.option(way).asking
    if output is not None:
        chosen = carried(chosen, wanted.public)
        files.save(chosen, output)
    write_report(report, lambda: _advice_page(advice, None if output is None else (chosen, output.name)))
    if as_json:
        print_json(advice.summary())
    else:
        _show_advice(advice, total_epsilon)


def _advice_page(advice: Advice, written: tuple[Asking, str] | None) -> Page:
    from optrr.pages.design_pages import advice_page, curves_around  # noqa: PLC0415 (pages bring charts)

    return advice_page(advice, curves_around(advice), written)


def _show_advice(advice: Advice, total_epsilon: float) -> None:
    for line in advice.sentences():
        say(line)
    print_table(
        f"workload {advice.workload.name} at total epsilon {total_epsilon:g}",
        ["way of asking", "error", "over bound", "records", "conditional", "faintest pair", "standard error"],
        [
            (
                o.name,
                o.error if np.isfinite(o.error) else None,
                o.error / advice.error_bound if np.isfinite(o.error) else None,
                "full" if o.keeps_records else "no",
                o.conditional_epsilon,
                o.pair_visibility,
                advice.typical_standard_error(o),
            )
            for o in advice.options
        ],
    )
