"""Commands from the signatures of their functions.

The default of a parameter describes it on the command line: an :func:`option`, an :func:`argument`, or a :func:`group`
of shared options. The name of a parameter is its flag, and its type follows from the annotation: a bool is a flag, a
Literal a choice, a Path a file, and a tuple a repeatable option. The first paragraphs of the docstring are the help,
followed at the end by a last paragraph that begins with ``Example:``.

Every command has --json and --strict, and refuses a repeated option, or an option without another one that it requires.
"""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import getdoc, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from optrr.cli.printing import JSON, STRICT, is_strict, with_options, working
from optrr.core.errors import InvalidInput, OptrrError
from optrr.core.records import held_back

FILE = click.Path(path_type=Path)
# Commands that show written files while they run, so that --strict cannot hold the files back until the end.
_AT_ONCE = ("plan", "serve")
# Interactive commands.
_ASKING = ("sign",)
# Maximum characters of an option with its choices in the help.
_WIDEST = 40
# Headings of the help in their order, with their options; all other options are specific to the command.
_OWN = "Options"
_SECTIONS = {
    _OWN: "",
    "Privacy": (
        "attribute total-epsilon conditional-cap min-epsilon max-epsilon report-epsilon lifetime-epsilon "
        "variant-epsilon status-epsilon epsilon after limit drop-undeclared keep-order keep-names public "
        "public-key private-key secret new-secret"
    ),
    "Input": (
        "design format delimiter encoding decimal date-format query where complete-cases missing-at-random collapse "
        "phenotype id-column phenotype-column sex-column case control"
    ),
    "Sample": "weights strata psu unweighted lonely-psu by",
    "Intervals": "confidence simultaneous",
    "Output": "output html json strict random-state max-bytes help",
}
_SECTION = {f"--{name}": title for title, names in _SECTIONS.items() for name in names.split()}


@dataclass(frozen=True, eq=False)
class _Declared:
    """Option or argument that the default of a parameter declares."""

    kind: type[click.Parameter]
    flags: tuple[str, ...]
    needs: str | None
    how: dict[str, Any]

    def parameter(self, name: str, annotation: Any) -> click.Parameter:
        how = {**_kind(annotation), **self.how}
        if self.kind is click.Argument:
            nargs = -1 if how.pop("multiple", False) else 1
            return click.Argument([name], nargs=nargs, **how)
        long = any(flag.startswith("--") for flag in self.flags)
        return click.Option([name, *self.flags, *([] if long else [f"--{name.replace('_', '-')}"])], **how)


@dataclass(frozen=True, eq=False)
class _OptionGroup:
    """Options that make one value: the parameters of what builds it."""

    build: Callable[..., Any]

    def declared(self) -> Iterator[tuple[str, Any, _Declared]]:
        """Name, annotation and declaration of each option, those of groups among them."""
        hints = get_type_hints(self.build)
        for name, parameter in signature(self.build).parameters.items():
            if isinstance(parameter.default, _OptionGroup):
                yield from parameter.default.declared()
            elif isinstance(parameter.default, _Declared):
                yield name, hints[name], parameter.default

    def built(self, values: dict[str, Any]) -> Any:
        """Build the value from the values of its options."""
        defaults = ((name, parameter.default) for name, parameter in signature(self.build).parameters.items())
        made = {
            name: of.built(values) if isinstance(of, _OptionGroup) else values.get(name, of) for name, of in defaults
        }
        return self.build(**made)


def option(text: str, *flags: str, needs: str | None = None, **how: Any) -> Any:
    """Describe an option with this help.

    ``flags`` replace the flag of its name; ``needs`` is a parameter that it requires; other arguments are click's.
    """
    return _Declared(click.Option, flags, needs, {"help": text, **how})


def argument(**how: Any) -> Any:
    """Describe an argument, with parameters of :class:`click.Argument`."""
    return _Declared(click.Argument, (), None, how)


def group(build: Callable[..., Any]) -> Any:
    """Group the options from which ``build`` makes one value."""
    return _OptionGroup(build)


def _kind(annotation: Any) -> dict[str, Any]:
    """Derive an option's type from the annotation of a parameter."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is tuple:
        return {**_kind(get_args(annotation)[0]), "multiple": True}
    if annotation is bool:
        return {"is_flag": True}
    if get_origin(annotation) is Literal:
        return {"type": click.Choice(get_args(annotation))}
    return {"type": FILE if annotation is Path else annotation}


def _noted(key: str, text: str) -> click.Option:
    """Create a flag of every command, stored in the command's shared state."""
    return click.Option(
        [f"--{key}"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=lambda ctx, param, value: ctx.meta.__setitem__(f"optrr.cli.{key}", value),
        help=text,
    )


class Command(click.Command):
    """A command whose options are the parameters of its function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        whole = _OptionGroup(function)
        declared = list(whole.declared())
        help, _, self.example = (getdoc(function) or "").partition("\n\nExample: ")
        # options of each value that several options form together
        self.parts = {
            name: [each for each, _, _ in parameter.default.declared()]
            for name, parameter in signature(function).parameters.items()
            if isinstance(parameter.default, _OptionGroup)
        }
        self._needs: dict[str, str] = {name: each.needs for name, _, each in declared if each.needs}
        super().__init__(
            function.__name__.replace("_", "-"),
            callback=lambda **values: whole.built(values),
            params=[
                *(each.parameter(name, annotation) for name, annotation, each in declared),
                _noted(JSON, "Print one JSON object on standard output."),
                _noted(STRICT, "Treat warnings as errors: write nothing and exit with 1."),
            ],
            help=help,
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in _SECTIONS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                records[_SECTION.get(param.opts[-1], _OWN)].append(_short(*record))
        for title, rows in records.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example in lines that a shell joins."""
        if self.example:
            words = textwrap.wrap(self.example, formatter.width - 6, break_long_words=False, break_on_hyphens=False)
            with formatter.section("Example"):
                formatter.write("  " + " \\\n    ".join(words) + "\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but refuse repeated options and missing companions.

        Of a repeated option click would use only the last.
        """
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for each in order:
                once = isinstance(each, click.Option) and not (each.multiple or each.is_flag or each.count)
                if once and (times := order.count(each)) > 1:
                    raise click.UsageError(
                        f"{each.opts[-1]} is given {times} times, but only one can count; give it once"
                    )
        rest = super().parse_args(ctx, args)
        for name, needed in self._needs.items():
            if ctx.params[needed] in (None, False, ()):
                refuse_options(with_options(f"requires ``{needed}``; give it too, or leave this option out"), name)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        With --strict its files are moved into place only after it ends without a warning.
        """
        try:
            shown = nullcontext() if self.name in (*_AT_ONCE, *_ASKING) else working(ctx.command_path)
            kept = held_back() if is_strict() and self.name not in _AT_ONCE else nullcontext()
            with shown, kept:
                return super().invoke(ctx)
        except OptrrError as error:
            error.args = (with_options(str(error)),)
            raise


def _short(flags: str, text: str) -> tuple[str, str]:
    """Shorten an option's flags by moving many choices into its help."""
    for kind, letter in (("INTEGER", "N"), ("FLOAT", "X")):
        flags = flags.replace(f" {kind} RANGE", f" {letter}").replace(f" {kind}", f" {letter}")
    flag, opened, choices = flags.partition(" [")
    if len(flags) <= _WIDEST or not opened:
        return flags, text
    said, sep, default = text.partition("  [")
    return f"{flag} NAME", f"{said} One of {choices.rstrip(']').replace('|', ', ')}.{sep}{default}"


command = Command


def refuse_options(why: str, *names: str) -> None:
    """Raise InvalidInput if the command line gives one of these options.

    The message has the option and ``why``.
    """
    context = click.get_current_context()
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{param.opts[-1]} {why}")
