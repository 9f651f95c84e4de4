"""Printed output of commands: a result as text or one JSON object; warnings and progress on standard error."""

import itertools
import re
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from optrr.core.display import cell, one_line, page_width, printable
from optrr.core.errors import OptrrWarning

if TYPE_CHECKING:
    from optrr.core.display import Result
    from optrr_solvers import SolveOptions

# Seconds of work before the progress line, and between its updates.
_PATIENCE, _STEP = 1.0, 0.1
# Keys under which :mod:`optrr.cli.options` stores the flags that every command has.
JSON, STRICT = "json", "strict"
_PARAMETER = re.compile(r"``([a-z_]+)(?:=([^`]*))?``")
_QUOTES = "'\""
# Clears the rest of a terminal's line.
_ERASE = "\x1b[K"


def give(result: "Result | dict[str, Any]", said: str = "", **about: Any) -> None:
    """Print a result as text or as one JSON object.

    JSON also has the entries of ``about``; ``said`` is the text for a dict.
    """
    if is_json():
        print_json((result if isinstance(result, dict) else result.summary()) | about)
    else:
        say(said or str(result))


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    _done()
    click.echo(msgspec.json.encode(value).decode())


def say(text: str) -> None:
    """Print text with unprintable characters escaped and options for parameters."""
    _done()
    click.echo(printable(with_options(text)))


def with_options(text: str) -> str:
    """Replace ``parameter`` and ``parameter=value`` by the command's options."""
    context = click.get_current_context(silent=True)
    known = {} if context is None else {param.name: param for param in context.command.params}

    def option(found: re.Match[str]) -> str:
        param = known.get(_given_part(context, found[1]))
        flag = f"--{found[1].replace('_', '-')}" if param is None else named(param)
        return flag if found[2] in (None, "True", "False") else f"{flag} {shlex.quote(found[2].strip(_QUOTES))}"

    return _PARAMETER.sub(option, text)


def _given_part(context: click.Context | None, name: str) -> str:
    """Choose among several options of one parameter: the first given, or the first."""
    parts: list[str] = [] if context is None else getattr(context.command, "parts", {}).get(name, [])
    given = (each for each in parts if context and context.get_parameter_source(each) is ParameterSource.COMMANDLINE)
    return next(given, parts[0] if parts else name)


def named(param: click.Parameter) -> str:
    """Return an option as users write it, or an argument as in the help."""
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name


class Warned(click.ClickException):
    """A command with --strict had a warning."""


def warn(lines: Iterable[str], always: bool = False) -> None:
    """Print warnings on standard error before any result.

    ``always`` is for warnings that every run has. With --strict, raises Warned after the last of the others.
    """
    _done()
    said = [f"warning: {one_line(with_options(line))}" for line in lines]
    for line in said:
        click.echo(line, err=True)
    if said and not always and is_strict():
        raise Warned(
            "--strict: the command stopped at a warning and wrote nothing; remove the cause, or leave out --strict"
        )


def is_strict() -> bool:
    """Check whether the running command has the option --strict."""
    return _has(STRICT)


def is_json() -> bool:
    """Check whether the running command has the option --json."""
    return _has(JSON)


def _has(flag: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"optrr.cli.{flag}"))


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect this project's warnings raised in the block.

    The list is complete when the block ends; other warnings are unaffected.
    """
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OptrrWarning)
        yield lines
    for each in caught:
        if issubclass(each.category, OptrrWarning):
            lines.append(str(each.message))
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)


class _Line(threading.Thread):
    """A status line on standard error: task, progress and seconds."""

    def __init__(self, text: str) -> None:
        super().__init__(daemon=True)
        self.text, self.ended = text, threading.Event()
        self.fraction: float | None = None

    def run(self) -> None:
        started, shown = time.monotonic(), False
        for mark in itertools.cycle("⠋⠙⠸⠴⠦⠇"):
            if self.ended.wait(_STEP):
                break
            if (seconds := time.monotonic() - started) > _PATIENCE:
                far = "" if self.fraction is None else f" {100 * self.fraction:.0f} %"
                text = cell(self.text, page_width() - 16)
                sys.stderr.write(f"\r{_ERASE}{mark} {text}{far} {seconds:.0f} s")
                sys.stderr.flush()
                shown = True
        if shown:
            sys.stderr.write(f"\r{_ERASE}")
            sys.stderr.flush()


_lines: list[_Line] = []


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on a terminal that work continues, after one second.

    The line stays until something is printed or the block ends.
    """
    if sys.stderr is not None and sys.stderr.isatty():
        _lines.append(_Line(text))
        _lines[-1].start()
    try:
        yield
    finally:
        _done()


def progress(text: str, fraction: float | None = None) -> None:
    """Show the present task and the fraction done."""
    for line in _lines:
        line.text, line.fraction = text, fraction


def _done() -> None:
    """Take the line away before anything is printed."""
    while _lines:
        line = _lines.pop()
        line.ended.set()
        line.join()


def watched(**options: Any) -> "SolveOptions":
    """Return solver options that report their progress."""
    from optrr_solvers import SolveOptions  # noqa: PLC0415 (brings numpy, which --help and --version need not wait for)

    return SolveOptions(
        progress=lambda fraction, upper, lower: progress(f"{lower:.4f} ≤ ε ≤ {upper:.4f}", fraction), **options
    )
