"""The command group: its commands, what each has beside its own options, and the one place where errors become lines and codes.

Exit 0: done. 1: a check or a solve failed, or the records say too little of what is asked. 2: bad input, nothing written. What
could not be done is said in one line ``error: …`` on standard error. Every command takes --strict and refuses an option that is
given twice; both are added where a command is looked up, so that none can lack them.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from optrr.cli.printing import STRICT, Warned
from optrr.cli.process import Ended, die_of, keep_for_ourselves
from optrr.errors import OptrrError, OptrrWarning, SolveFailed, TooFewRecords, did_you_mean
from optrr.records.whole_files import held_back
from optrr.show.text import one_line
from optrr.show.version import __version__

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


# What --help shows: a heading, and below it of each command its module, function and one line of help. Written here so that
# --help imports none of them.
_GROUPS = {
    "Plan": {
        "plan": ("optrr.cli.planning", "plan", "From a question to a total epsilon and its statement, on a page."),
        "spec": ("optrr.cli.designing", "spec", "Propose a specification from data."),
        "design": ("optrr.cli.designing", "design", "Find the mechanism with the smallest total epsilon."),
        "compare": ("optrr.cli.designing", "compare", "Every applicable method side by side."),
        "allocate": ("optrr.cli.advising", "allocate", "The most accurate way of asking for a workload."),
        "advise": ("optrr.cli.advising", "allocate", "Another name of allocate."),
        "power": ("optrr.cli.testing", "power", "Records that a test needs, or intervals of a wanted width."),
        "cluster": ("optrr.cli.designing", "cluster", "Cluster attributes by dependence; design the second round."),
    },
    "Randomize": {
        "perturb": ("optrr.cli.perturbing", "perturb", "Randomize a CSV or Parquet file."),
    },
    "Analyse": {
        "estimate": ("optrr.cli.estimating", "estimate", "Estimate a table from randomized records."),
        "test": ("optrr.cli.testing", "test", "Test a hypothesis on randomized records."),
        "measure": ("optrr.cli.modelling", "measure", "Shares in groups, risks, odds, means, ordinal association."),
        "share": ("optrr.cli.subgroups", "share", "A share in a sub-population of several conditions."),
        "contrast": ("optrr.cli.subgroups", "contrast", "A sum of shares with weights: differences of cells."),
        "quantile": ("optrr.cli.subgroups", "quantile", "Medians and other quantiles."),
        "model": ("optrr.cli.modelling", "model", "A log-linear model: odds ratios with all else in the model."),
        "regress": ("optrr.cli.modelling", "regress", "Linear and logistic regression of the true records."),
        "synthesize": (
            "optrr.cli.synthesizing",
            "synthesize",
            "Records to hand on, drawn from a model of the estimates.",
        ),
        "combine": ("optrr.cli.synthesizing", "combine", "Numbers from several synthetic sets, with intervals."),
    },
    "Devices and surveys": {
        "export": (
            "optrr.cli.deploying",
            "export",
            "Write what a device needs to randomize a record; matrices; programs.",
        ),
        "serve": ("optrr.cli.deploying", "serve", "Run a survey: page, collector and results."),
        "audit": ("optrr.cli.assurance", "audit", "Test a client from outside against its label."),
    },
    "Assurance": {
        "verify": ("optrr.cli.assurance", "verify", "Recompute every number of a design or deployment file."),
        "sign": ("optrr.cli.assurance", "sign", "Sign a design or deployment file: who made it."),
        "account": ("optrr.cli.accounting", "account", "What the people of these files have spent in all."),
        "worksheet": ("optrr.cli.assurance", "worksheet", "An evaluator's questions, answered for a design."),
    },
    "Genomics": {
        "gwas-design": ("optrr.cli.genomics", "gwas_design", "Design for genotypes and case/control status."),
        "gwas-perturb": (
            "optrr.cli.genomics",
            "gwas_perturb",
            "Randomize genotypes and status, one record per person.",
        ),
        "gwas-merge": ("optrr.cli.merging", "gwas_merge", "Reports of single people as one file, in random order."),
        "gwas": ("optrr.cli.association", "gwas", "Association tests of randomized genotypes."),
        "gwas-variants": (
            "optrr.cli.variants",
            "gwas_variants",
            "Frequencies, call rates, Hardy-Weinberg tests, r².",
        ),
        "gwas-study": (
            "optrr.cli.association",
            "gwas_study",
            "What association tests lose at a total epsilon, by simulation.",
        ),
    },
    "Rounds": {
        "longitudinal-design": (
            "optrr.cli.longitudinal",
            "longitudinal_design",
            "Design for people who report again and again.",
        ),
        "longitudinal-perturb": ("optrr.cli.longitudinal", "longitudinal_perturb", "Everybody's report of one round."),
        "longitudinal-estimate": (
            "optrr.cli.longitudinal",
            "longitudinal_estimate",
            "Estimate a table from several rounds of reports.",
        ),
    },
    "Try it": {
        "demo": ("optrr.cli.demo", "demo", "The main job on the bundled Adult data."),
    },
}
_COMMANDS = {name: where for group in _GROUPS.values() for name, where in group.items()}


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
                formatter.write_dl([(name.ljust(widest), text) for name, (_, _, text) in group.items()])


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


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
