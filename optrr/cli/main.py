"""The command group: the registry of commands, and the conversion of errors to messages and exit codes.

One line in :data:`COMMANDS` adds a command. Exit 0: success. 1: a check or a solver failed, or the records contain too
little information. 2: invalid input, and nothing was written. Every failure prints one line ``error: …`` on standard
error.

Only the command writes to standard output; output of libraries goes to standard error. A C library writes to file
descriptor 1 and ignores ``sys.stdout``, so ``sys.stdout`` gets a duplicate of that descriptor, and the descriptor
becomes that of standard error until the process ends, because C flushes its buffers only then. No command opens
``/dev/stdout`` by name: outputs that are pipes or devices are refused.

Signals that end a run (SIGTERM of a scheduler, SIGHUP of a closed terminal, an interrupt) end it cleanly: unfinished
files are removed, then the process dies of the signal. Commands catch them only while they write records, because a
solver that runs for minutes would otherwise not react before its end.
"""

import gc
import io
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import get_completion_class

from optrr.cli.printing import Warned, named
from optrr.core.display import __version__, one_line
from optrr.core.errors import OptrrError, OptrrWarning, SolveFailed, TooFewRecords, did_you_mean

# Every command: its heading in --help, its place in this package, and the first line of its docstring.
_TABLE = {
    "plan": ("Plan", "planning:plan", "Choose a total epsilon, and record the decision."),
    "spec": ("Plan", "proposing:spec", "Propose a specification from INPUT."),
    "design": ("Plan", "designing:design", "Find the mechanism with the smallest total epsilon."),
    "compare": ("Plan", "designing:compare", "Compare the designs of every applicable method."),
    "allocate": ("Plan", "designing:allocate", "Compare protocols for a workload at a total epsilon."),
    "power": ("Plan", "power:power", "Compute power, or the records that a test or an interval needs."),
    "cluster": ("Plan", "designing:cluster", "Cluster attributes by their dependences."),
    "randomize": ("Randomize", "releasing:randomize", "Randomize the records of INPUT."),
    "estimate": ("Analyse", "estimate:estimate", "Estimate a table of the true records, or a statistic of one."),
    "test": ("Analyse", "test:test", "Test a hypothesis about the true records."),
    "model": ("Analyse", "model:model", "Fit a log-linear model to the true records."),
    "regress": ("Analyse", "model:regress", "Fit a regression of the true records."),
    "synthesize": ("Analyse", "synthesize:synthesize", "Draw synthetic records, or combine estimates of several sets."),
    "export": ("Devices", "deploying:export", "Write the deployment file of DESIGN for clients."),
    "serve": ("Devices", "deploying:serve", "Run a survey: its page, the collector of its reports, and the results."),
    "audit": ("Devices", "assurance:audit", "Test a client from outside against LABEL."),
    "verify": ("Assurance", "assurance:verify", "Recompute every number of FILE."),
    "sign": ("Assurance", "assurance:sign", "Sign a design or a deployment file that verifies."),
    "account": ("Assurance", "releasing:account", "Add up the epsilon of releases of the same people."),
    "gwas design": ("Genomics", "genomics:design", "Design for the variants of INPUT."),
    "gwas randomize": ("Genomics", "genomics:randomize", "Randomize everybody's genotypes and status."),
    "gwas scan": ("Genomics", "association:scan", "Test every variant of randomized INPUT for association."),
    "gwas variants": (
        "Genomics",
        "association:variants",
        "Estimate allele frequencies, call rates and Hardy-Weinberg proportions.",
    ),
    "gwas study": ("Genomics", "studying:study", "Compare what association tests lose under several protocols."),
    "waves design": ("Waves", "longitudinal:design", "Design a memoized response and the reports drawn from it."),
    "waves randomize": ("Waves", "longitudinal:randomize", "Write everybody's report of one wave."),
    "waves estimate": ("Waves", "longitudinal:estimate", "Estimate proportions from the reports of several waves."),
    "demo": ("Try it", "demo:demo", "Design, randomize and estimate on the bundled Adult data; no network."),
}
# Modules are imported when a command is called, so that --help needs none of them.
COMMANDS = {name: (heading, f"optrr.cli.{home}", text) for name, (heading, home, text) in _TABLE.items()}
# Number of new objects between two garbage collections.
_GARBAGE = 100_000
# Commands for beginners; `optrr` without arguments lists them.
_MOST_USED = ("plan", "design", "randomize", "estimate", "test")
_GROUPS = {"gwas": "Association studies of randomized genotypes.", "waves": "Repeated reports of the same people."}


class _LazyGroup(click.Group):
    """Group of the commands whose names begin with ``prefix``.

    Each is imported when it is called.
    """

    prefix = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        rest = (name.removeprefix(self.prefix) for name in COMMANDS if name.startswith(self.prefix))
        return list(dict.fromkeys(name.partition(" ")[0] for name in rest))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in (known := self.list_commands(ctx)):
            if ctx.resilient_parsing:  # a shell must complete the words after a mistake, too
                return None
            hint = did_you_mean(cmd_name, known) or f"; optrr {self.prefix}--help lists them"
            raise click.UsageError(f"No such command {cmd_name!r}{hint}")
        full = self.prefix + cmd_name
        if full in COMMANDS:
            command: click.Command = resolve_name(COMMANDS[full][1])
            return command
        group = _LazyGroup(cmd_name, help=_GROUPS[full])
        group.prefix = f"{full} "
        return group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, dict[str, str]] = {}
        for name, (heading, _, text) in COMMANDS.items():
            if name.startswith(self.prefix):
                own, _, below = name.removeprefix(self.prefix).partition(" ")
                rows.setdefault(heading, {})[own] = _GROUPS[self.prefix + own] if below else text
        widest = max(len(name) for each in rows.values() for name in each)
        for heading, each in rows.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in each.items()])


def _print_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    """Print the shell's script and end; ``resilient_parsing`` is completion itself."""
    if shell is not None and not ctx.resilient_parsing:
        kind = get_completion_class(shell)
        assert kind is not None
        click.echo(kind(cli, {}, "optrr", "_OPTRR_COMPLETE").source())
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120},
)
@click.version_option(__version__)
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    expose_value=False,
    is_eager=True,
    callback=_print_completion,
    help='Print the script that completes commands and options: eval "$(optrr --completion bash)".',
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Design, certify and use randomized response for records of several attributes."""
    if ctx.invoked_subcommand is None:
        formatter = ctx.make_formatter()
        formatter.write_text(str(cli.help))
        with formatter.section("Most used"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in _MOST_USED])
        formatter.write_paragraph()
        formatter.write_text(
            "optrr --help lists all commands, optrr COMMAND --help explains one, and optrr demo shows an example."
        )
        click.echo(formatter.getvalue().rstrip())


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit."""
    # imported modules stay, and collecting them as garbage would take a tenth of a short command's time
    gc.set_threshold(_GARBAGE)
    keep_for_ourselves()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        with warnings.catch_warnings():
            # commands print the Python warnings of the functions that they call
            warnings.simplefilter("ignore", OptrrWarning)
            result: Any = cli.main(arguments, prog_name="optrr", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as request:
        click.echo(request.format_message())
        return 0
    except click.ClickException as error:
        unknown = isinstance(error, click.NoSuchOption) and not error.possibilities and error.ctx is not None
        hint = f" {error.ctx.command_path} --help lists them." if unknown else ""  # type: ignore[attr-defined]  # as above
        if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
            hint = f" {error.param.help}"
        elif isinstance(error, click.BadParameter) and error.param is not None:
            return _complain(f"{named(error.param)}: {_plainly(error.message)}", 2)
        return _complain(error.format_message() + hint, 1 if isinstance(error, Warned) else 2)
    except click.Abort:
        return _complain("interrupted; no incomplete output was left", 130)
    except BrokenPipeError:
        # the reader has closed the pipe; Python would print an error for it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SolveFailed, TooFewRecords) as error:
        return _complain(str(error), 1)
    except (OptrrError, OSError) as error:
        return _complain(str(error), 2)
    except ValueError as error:
        # errors of libraries about files become one line; a plain ValueError is a defect of this package and keeps its
        # traceback
        if type(error) is ValueError:
            raise
        return _complain(str(error), 2)


def _plainly(message: str) -> str:
    """Rewrite click's message on a value without its names of types."""
    plain = re.sub(
        r"a valid (integer|float)( range)?\b",
        lambda of: "a whole number" if of[1] == "integer" else "a number",
        message,
    )
    return plain.rstrip(".")


def _complain(message: str, code: int) -> int:
    click.echo(f"error: {one_line(message)}", err=True)
    return code


_OUTPUT, _ERRORS = 1, 2


def keep_for_ourselves() -> None:
    """Give ``sys.stdout`` its own descriptor.

    Nothing changes if it is not descriptor 1, as in a notebook or in tests.
    """
    before = sys.stdout
    try:
        if not isinstance(before, io.TextIOWrapper) or before.fileno() != _OUTPUT:
            return
        before.flush()
        os.fstat(_ERRORS)
        ours = os.dup(_OUTPUT)
    except (OSError, ValueError):  # closed, at this or the other end; the first printed line reports it
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


_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)]


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Remove unfinished files if a signal ends the process.

    Ignored signals stay ignored.
    """
    from optrr.core.records import when_moved  # noqa: PLC0415 (help needs none of it)

    caught = {s: signal.getsignal(s) for s in _ENDING if signal.getsignal(s) is not signal.SIG_IGN}
    if threading.current_thread() is not threading.main_thread():
        caught = {}  # only the main thread may set handlers
    try:
        for s in caught:
            signal.signal(s, lambda number, frame: when_moved(partial(_end, number)))
        yield
    finally:
        for s, before in caught.items():
            signal.signal(s, before)


def _end(number: int) -> None:
    """Remove unfinished files, print a line, and die of the signal.

    It does not raise an exception, which would be lost in finalizers of Python objects, while its frames keep their
    resources.
    """
    from optrr.core.records import remove_unfinished  # noqa: PLC0415 (help needs none of it)

    remove_unfinished()
    said = f"error: ended by {signal.Signals(number).name}; no incomplete output was left\n"
    os.write(_ERRORS, said.encode())  # the interrupted code may be in a write to sys.stderr
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
