"""optrr account."""

from __future__ import annotations

import math
from pathlib import Path

import click

from optrr.cli.printing import json_option, print_json, print_table, warn
from optrr.cli.releases import limit_option, provenances_in
from optrr.records.account import Release, distinct_releases, total_epsilon
from optrr.records.provenance import PERSON, SEEDED, UNIT
from optrr.rounding import epsilon_text

# Whose ε it is, in words.
_UNITS = {
    UNIT: "each record",
    PERSON: "each person over time (all their reports for ever, while the true record stays as it is)",
}


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@limit_option
@json_option
def account(files: tuple[Path, ...], limit: float | None, as_json: bool) -> int:
    """What the people of these files have spent in all; exit 1 where that is above --limit.

    The files hold randomized records of the same people. Every release counts once, however many copies of it are given, and
    the epsilons add up (sequential composition). The unit is one record: what one person sent once; of rounds of a longitudinal
    design it is a person over time: everything that one person ever reports.
    """
    known = provenances_in(files)
    spent = distinct_releases(release for each in known for release in each.releases)
    units = list(dict.fromkeys(each.unit for each in known))
    total = math.inf if any(r.seeded for r in spent) else total_epsilon(spent)
    within = limit is None or total <= limit
    warn([f"a release was {SEEDED}"] if any(r.seeded for r in spent) else [])
    if as_json:
        print_json({**_summary(spent, total, limit, within), "unit": " and ".join(units)})
        return 0 if within else 1
    print_table(
        "releases",
        ["release", "design", "epsilon", "private"],
        [(r.id[:12] or "unknown", r.shown_design, epsilon_text(r.epsilon), "no" if r.seeded else "yes") for r in spent],
    )
    whose = " and ".join(_UNITS[unit] for unit in units)
    click.echo(f"total epsilon {epsilon_text(total)} for {whose}, if these files are about the same people")
    if not within:
        click.echo(f"error: {epsilon_text(total)} nats are above the limit of {limit:g}", err=True)
    return 0 if within else 1


def _summary(spent: tuple[Release, ...], total: float, limit: float | None, within: bool) -> dict[str, object]:
    return {
        "epsilon": total if math.isfinite(total) else None,
        "limit": limit,
        "within_limit": within,
        "private": not any(r.seeded for r in spent),
        "releases": [r.to_record() for r in spent],
    }
