"""The command group: its commands, what each has beside its own options, and the one place where errors become lines and codes.

Exit 0: done. 1: a check or a solve failed, or the records say too little of what is asked. 2: bad input, nothing written. What
could not be done is said in one line ``error: …`` on standard error. Every command takes --strict and refuses an option that is
given twice; both are added where a command is looked up, so that none can lack them.

Standard output is a command's own: what libraries print there goes to standard error. A library in C writes to file
descriptor 1 and knows nothing of ``sys.stdout``, so the two part: ``sys.stdout`` keeps the place that the descriptor had, and
the descriptor is that of standard error from then on. It stays so until the process ends, since C prints what it has kept
back only then. No command opens ``/dev/stdout`` by name: outputs that are pipes or devices are refused.

Signals that end a run end it cleanly: what it was writing is removed first, then the process dies of the signal. Schedulers
send SIGTERM, a closed terminal sends SIGHUP; by default both end a Python process without a chance to clean up. Only commands
that write records catch them, and only while they do: a solver that computes for minutes would otherwise not heed them until
it is done.
"""

import gc
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import clear_frames
from types import FrameType
from typing import Any

import click

from optrr.cli.printing import STRICT, Warned
from optrr.core.display import __version__
from optrr.core.display.text import one_line
from optrr.core.errors import OptrrError, OptrrWarning, SolveFailed, TooFewRecords, did_you_mean
from optrr.core.records.atomic import held_back

# It shows what it has written to whoever visits, so its files cannot wait until it ends.
_AT_ONCE = ("plan", "serve")

_strict = click.Option(
    ["--strict"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, param, value: ctx.meta.__setitem__(STRICT, value),
    help="Where there would be a warning, write nothing and exit with 1.",
)


class Command(click.Command):
    """A command as it is run: ``plain`` with what every command has."""

    def __init__(self, plain: click.Command) -> None:
        kept = ("name", "callback", "help", "epilog", "short_help", "context_settings", "no_args_is_help", "hidden")
        super().__init__(params=[*plain.params, _strict], **{each: getattr(plain, each) for each in kept})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, where no option is given twice: of two, only the last would count, and nobody would know."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            once = (o for o in order if isinstance(o, click.Option) and not (o.multiple or o.is_flag or o.count))
            for option in once:
                if order.count(option) > 1:
                    raise click.UsageError(
                        f"{option.opts[-1]} is given {order.count(option)} times, and only one can count; give it once"
                    )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; with --strict its files are moved into place only when it has come to its end without a warning."""
        if not ctx.meta.get(STRICT) or self.name in _AT_ONCE:
            return super().invoke(ctx)
        with held_back():
            return super().invoke(ctx)


# What --help shows: a heading, and below it of each command the module of its function and one line of help. Written here so
# that --help imports none of them.
_GROUPS = {
    "Plan": {
        "plan": ("planning", "From a question to a total epsilon and its statement, on a page."),
        "spec": ("proposing", "Propose a specification from data."),
        "design": ("designing", "Find the mechanism with the smallest total epsilon."),
        "compare": ("designing", "Every applicable method side by side."),
        "allocate": ("allocating", "The most accurate way of asking for a workload."),
        "power": ("testing", "Records that a test needs, or intervals of a wanted width."),
        "cluster": ("designing", "Cluster attributes by dependence; design the second round."),
    },
    "Randomize": {
        "perturb": ("releasing", "Randomize a CSV or Parquet file."),
    },
    "Analyse": {
        "estimate": ("estimating", "Estimate a table from randomized records."),
        "test": ("testing", "Test a hypothesis on randomized records."),
        "measure": ("measuring", "Shares in groups, risks, odds, means, ordinal association."),
        "share": ("measuring", "A share in a sub-population of several conditions."),
        "contrast": ("measuring", "A sum of shares with weights: differences of cells."),
        "quantile": ("measuring", "Medians and other quantiles."),
        "model": ("modelling", "A log-linear model: odds ratios with all else in the model."),
        "regress": ("modelling", "Linear and logistic regression of the true records."),
        "synthesize": ("modelling", "Records to hand on, drawn from a model of the estimates."),
        "combine": ("modelling", "Numbers from several synthetic sets, with intervals."),
    },
    "Devices and surveys": {
        "export": ("deploying", "Write what a device needs to randomize a record; matrices; programs."),
        "serve": ("deploying", "Run a survey: page, collector and results."),
        "audit": ("assurance", "Test a client from outside against its label."),
    },
    "Assurance": {
        "verify": ("assurance", "Recompute every number of a design or deployment file."),
        "sign": ("assurance", "Sign a design or deployment file: who made it."),
        "account": ("releasing", "What the people of these files have spent in all."),
        "worksheet": ("assurance", "An evaluator's questions, answered for a design."),
    },
    "Genomics": {
        "gwas-design": ("genomics", "Design for genotypes and case/control status."),
        "gwas-perturb": ("genomics", "Randomize genotypes and status, one record per person."),
        "gwas": ("association", "Association tests of randomized genotypes."),
        "gwas-variants": ("association", "Frequencies, call rates, Hardy-Weinberg tests, r²."),
        "gwas-study": ("studying", "What association tests lose at a total epsilon, by simulation."),
    },
    "Rounds": {
        "longitudinal-design": ("longitudinal", "Design for people who report again and again."),
        "longitudinal-perturb": ("longitudinal", "Everybody's report of one round."),
        "longitudinal-estimate": ("longitudinal", "Estimate a table from several rounds of reports."),
    },
    "Try it": {
        "demo": ("demo", "The main job on the bundled Adult data."),
    },
}
# Each command's module, function and line of help.
_COMMANDS = {
    name: (f"optrr.cli.{module}", name.replace("-", "_"), text)
    for group in _GROUPS.values()
    for name, (module, text) in group.items()
}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            hint = did_you_mean(cmd_name, _COMMANDS) or "; optrr --help lists them"
            raise click.UsageError(f"No such command {cmd_name!r}{hint}")
        module, function, _ = _COMMANDS[cmd_name]
        with _no_collection():
            return Command(getattr(importlib.import_module(module), function))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _COMMANDS))
        for heading, group in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, (_, text) in group.items()])


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage meanwhile: what is imported stays, and looking through it is a tenth of a short command's time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__)
def cli() -> None:
    """Mechanism design for randomized response on multi-attribute records, with certified optimality."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit."""
    keep_for_ourselves()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        with warnings.catch_warnings():
            # commands say by themselves what the functions that they call say as Python warnings
            warnings.simplefilter("ignore", OptrrWarning)
            result: Any = cli.main(arguments, prog_name="optrr", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as request:
        click.echo(request.format_message())
        return 0
    except click.ClickException as error:
        return _complain(error.format_message(), 1 if isinstance(error, Warned) else 2)
    except Ended as ended:
        return die_of(ended)
    except click.Abort:
        return _complain("interrupted; no output was left half-written", 130)
    except BrokenPipeError:
        # whoever read the output has closed the pipe; Python would print an error for it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SolveFailed, TooFewRecords) as error:
        return _complain(str(error), 1)
    except (OptrrError, OSError) as error:
        return _complain(str(error), 2)
    except ValueError as error:
        # libraries refuse files with errors of their own kinds, which become one line; a plain ValueError is a defect of ours
        # and keeps its traceback
        if type(error) is ValueError:
            raise
        return _complain(str(error), 2)


def _complain(message: str, code: int) -> int:
    click.echo(f"error: {one_line(message)}", err=True)
    return code


_OUTPUT, _ERRORS = 1, 2


def keep_for_ourselves() -> None:
    """Give ``sys.stdout`` a descriptor of its own; nothing where it is no descriptor 1, as in a notebook or under tests."""
    before = sys.stdout
    try:
        if not isinstance(before, io.TextIOWrapper) or before.fileno() != _OUTPUT:
            return
        before.flush()
        os.fstat(_ERRORS)
        ours = os.dup(_OUTPUT)
    except (OSError, ValueError):  # closed, here or at the other end, which the first line that is printed says
        return
    sys.stdout = io.TextIOWrapper(
        open(ours, "wb", buffering=0 if before.write_through else -1),  # noqa: SIM115 (open until the process ends)
        encoding=before.encoding,
        errors=before.errors,
        newline=None if os.name == "nt" else "",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    os.dup2(_ERRORS, _OUTPUT)


_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


# Seconds after which a signal that Python lost is sent again.
_AGAIN = 0.05
# A shell reports this code more than a signal's number for a process that died of it.
_KILLED = 128


class Ended(BaseException):
    """A signal asked for the end; not an Exception, so that nothing on the way mistakes it for a failure."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Let the block clean up when SIGTERM, SIGHUP or an interrupt comes; ignored signals stay ignored.

    Raises
    ------
    Ended, KeyboardInterrupt
        once that is done. Whoever runs commands lets the process die of the signal: see :func:`die_of`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    caught = [s for s in (*_ENDING, signal.SIGINT) if signal.getsignal(s) is not signal.SIG_IGN]
    before = {s: signal.getsignal(s) for s in caught}
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        ending = True
        for s in caught:
            signal.signal(s, signal.SIG_IGN)  # a second signal must not disturb the cleaning up
        raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    def arm() -> None:
        for s in caught:
            signal.signal(s, end)

    def restore() -> None:
        for s, handler in before.items():
            signal.signal(s, handler)

    try:
        try:
            arm()
            with _not_lost(arm):
                yield
        finally:
            if not ending:
                restore()
    except (Ended, KeyboardInterrupt) as ended:
        # a context manager that had just begun, or was about to end, is known to the traceback's frames alone: without them
        # it cleans up
        clear_frames(ended.__traceback__)
        restore()
        raise


def die_of(ended: Ended) -> int:
    """End the process as the signal would have; returns the exit code where signals do not end a process."""
    clear_frames(ended.__traceback__)
    click.echo(f"error: ended by {signal.Signals(ended.number).name}; no output was left half-written", err=True)
    signal.signal(ended.number, signal.SIG_DFL)
    os.kill(os.getpid(), ended.number)
    return _KILLED + ended.number


@contextmanager
def _not_lost(arm: Callable[[], None]) -> Iterator[None]:
    """Send a signal again that came while Python finalized an object: it drops whatever is raised there, and goes on."""
    before = sys.unraisablehook

    def dropped(what: Any) -> None:
        if not isinstance(what.exc_value, Ended | KeyboardInterrupt):
            before(what)
            return
        arm()
        number = what.exc_value.number if isinstance(what.exc_value, Ended) else signal.SIGINT
        # raised from here it would be dropped, too
        threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before
