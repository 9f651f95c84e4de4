"""optrr account."""

from __future__ import annotations

import math
from pathlib import Path

import click

from optrr.cli.printing import json_option, print_json, print_table, warn
from optrr.cli.releases import limit_option, releases_in
from optrr.records.account import Release, distinct_releases, total_epsilon
from optrr.records.provenance import SEEDED, UNIT
from optrr.rounding import epsilon_text


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@limit_option
@json_option
def account(files: tuple[Path, ...], limit: float | None, as_json: bool) -> int:
    """What the people of these files have spent in all; exit 1 where that is above --limit.

    The files hold randomized records of the same people. Every release counts once, however many copies of it are given, and
    the epsilons add up (sequential composition). The unit is one record: what one person sent once.
    """
    spent = distinct_releases(releases_in(files))
    total = math.inf if any(r.seeded for r in spent) else total_epsilon(spent)
    within = limit is None or total <= limit
    if as_json:
        print_json(_summary(spent, total, limit, within))
        return 0 if within else 1
    print_table(
        "releases",
        ["release", "design", "epsilon", "private"],
        [(r.id[:12] or "unknown", r.shown_design, epsilon_text(r.epsilon), "no" if r.seeded else "yes") for r in spent],
    )
    click.echo(f"total epsilon {epsilon_text(total)} for each {UNIT}, if these files are about the same people")
    warn([f"a release was {SEEDED}"] if any(r.seeded for r in spent) else [])
    if not within:
        click.echo(f"error: {epsilon_text(total)} nats are above the limit of {limit:g}", err=True)
    return 0 if within else 1


def _summary(spent: tuple[Release, ...], total: float, limit: float | None, within: bool) -> dict[str, object]:
    return {
        "epsilon": total if math.isfinite(total) else None,
        "unit": UNIT,
        "limit": limit,
        "within_limit": within,
        "private": not any(r.seeded for r in spent),
        "releases": [r.to_record() for r in spent],
    }
