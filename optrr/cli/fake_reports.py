"""The option --fake-reports of optrr estimate, and what it prints: how far fake reports can move the estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from optrr.cli.output import print_table

if TYPE_CHECKING:
    from optrr.estimation.fake_reports import Poisoning

fake_reports_option = click.option(
    "--fake-reports",
    "fakes",
    type=click.IntRange(min=1),
    metavar="K",
    help="Also how far K fake reports, or fewer, can move each cell of the unbiased estimate.",
)


def print_poisoning(moved: Poisoning) -> None:
    """Where the cells can be moved to, and by which reports."""
    k, n, m = moved.fakes, moved.n, moved.domain.m
    rows = [list(row.values()) for row in moved.to_arrow().to_pylist()]
    print_table(
        f"reach of {k} fake reports: {k} added to the {n}, {k} of the {n} replaced, or {k} of the {n} fake and left out",
        [*moved.domain.names, "estimate", "added", "replaced", "left out", "lowered by", "raised by"],
        [["(missing)" if v is None else v for v in row[: m + 1]] + _ranges(row[m + 1 : -2]) + row[-2:] for row in rows],
    )
    click.echo(moved.hundredth)
    click.echo(moved.note)


def _ranges(ends: Sequence[float]) -> list[str]:
    """Each pair of ends as a text."""
    return [f"{low:.4f}..{high:.4f}" for low, high in zip(ends[::2], ends[1::2], strict=True)]
