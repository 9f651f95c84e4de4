"""What commands print: one JSON object for machines, or tables for people; progress on standard error."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Any

import click
import msgspec

from optrr.core.display import cell, one_line, printable, reads_as_number
from optrr.core.errors import OptrrWarning

if TYPE_CHECKING:
    from optrr.core.display import Table
    from optrr_solvers import SolveOptions

# Decimals of a number in a table.
TABLE_DECIMALS = 4
# Numbers as large as this are shown by their first digits, because long cells would break over lines.
_LARGE = 1e7
# Width, in characters, of a table that is not printed to a terminal, where COLUMNS does not say another.
_PAGE = 120
# Seconds of work before a progress bar is worth looking at.
_PATIENCE = 2.0

# Flags that every command has, by which :mod:`optrr.cli.options` notes them.
JSON, STRICT = "json", "strict"


def print_json(value: Any) -> None:
    """One JSON object on standard output, nothing else."""
    click.echo(msgspec.json.encode(value).decode())


def give(summary: Callable[[], Any], show: Callable[[], object]) -> None:
    """Print the summary as JSON where the command was asked for it, else show the result to people."""
    if is_json():
        print_json(summary())
    else:
        show()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people; numbers to the right."""
    # rich takes 60 ms to import, so it comes only where something is shown
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Text, here and below, because a name or a category may contain what rich would read as markup
    table = Table(title=Text(cell(title)), title_justify="left")
    cells = [[_cell(v) for v in row] for row in rows]
    for k, name in enumerate(columns):
        numeric = bool(cells) and all(row[k] == "" or reads_as_number(row[k]) for row in cells)
        table.add_column(Text(cell(name)), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(c) for c in row))
    console = Console()
    # a file or a pipe has no width of its own unless COLUMNS says one, and rich's 80 columns would break words
    known = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    (console if known else Console(width=_PAGE)).print(table)


def print_shown(title: str, table: "Table") -> None:
    """A result's table, as its report shows it."""
    print_table(title, table.columns, table.rows)


def _cell(value: object) -> str:
    if isinstance(value, float):
        if isnan(value):
            return ""
        if abs(value) >= _LARGE:
            return f"{value:.5g}"
        return f"{value:.{TABLE_DECIMALS}f}" if value == 0 or abs(value) >= 0.01 else f"{value:.2g}"
    return "" if value is None else cell(str(value))


def say(text: str) -> None:
    """A line for people, with what does not print escaped."""
    click.echo(printable(text))


class Warned(click.ClickException):
    """That a command had something to warn of, and was told by --strict not to go on then."""


def warn(lines: Iterable[str], always: bool = False) -> None:
    """Warnings on standard error, one line each; said before anything is printed, because with --strict they end the command.

    ``always`` is for what is said of every run: it is no news, and ends none.

    Raises
    ------
    Warned
        after the last of them, with --strict.
    """
    said = 0
    for said, line in enumerate(lines, start=1):  # noqa: B007 (how many there were)
        click.echo(f"warning: {one_line(line)}", err=True)
    if said and not always and is_strict():
        raise Warned(
            "--strict ends the command at a warning, and nothing was written; mend what it says, or leave out --strict"
        )


def is_strict() -> bool:
    """Whether the running command has the option --strict."""
    return _has(STRICT)


def is_json() -> bool:
    """Whether the running command has the option --json."""
    return _has(JSON)


def _has(flag: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"optrr.cli.{flag}"))


@contextmanager
def heard() -> Iterator[list[str]]:
    """The warnings of ours that are raised meanwhile, which a command says by itself; others go where they went before."""
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", OptrrWarning)
        others = warnings.showwarning

        def keep(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, OptrrWarning):
                lines.append(str(message))
            else:
                others(message, category, *where)

        warnings.showwarning = keep  # type: ignore[assignment]  # takes where it was raised as it comes
        yield lines


@contextmanager
def late_bar() -> Iterator[Callable[[str, float | None], None]]:
    """A progress bar on standard error, if that is a terminal, which appears once the work has taken two seconds.

    Yields ``show(description, fraction)``; without a fraction the bar only shows that work goes on.
    """
    started, bar, task = time.monotonic(), None, None

    def show(description: str, fraction: float | None) -> None:
        nonlocal bar, task
        if bar is None and time.monotonic() - started > _PATIENCE and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import Progress  # noqa: PLC0415

            bar = Progress(console=Console(stderr=True, markup=False), transient=True)
            bar.start()
            task = bar.add_task(description, total=None if fraction is None else 1.0)
        if bar is not None and task is not None:
            bar.update(task, completed=fraction, description=description)

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def watched(description: str, **options: Any) -> "Iterator[SolveOptions]":
    """Solver options that report to a late progress bar."""
    from optrr_solvers import SolveOptions  # noqa: PLC0415 (brings numpy, which --help and --version need not wait for)

    with late_bar() as show:
        yield SolveOptions(
            progress=lambda fraction, upper, lower: show(f"{description}: {lower:.4f} ≤ ε ≤ {upper:.4f}", fraction),
            **options,
        )
