"""The option --fake-reports of optrr estimate, and what it prints: how far fake reports can move the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from optrr.cli.printing import print_shown
from optrr.show.printable import amount

if TYPE_CHECKING:
    from optrr.tables.estimation.reach import Poisoning

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
