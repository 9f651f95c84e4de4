"""What the commands that read records share: INPUT and how it is written, the design, and how sure intervals are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.errors import InvalidInput
from optrr.records.reading.several import files_at
from optrr.records.reading.source import RecordsAt
from optrr.releases.sealed import LONGITUDINAL, kind_of
from optrr.releases.small_files import Given

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = {
    "format": ("FORMAT", "Format of INPUT, where its name does not say it: csv, parquet, jsonl, arrow."),
    "delimiter": (
        "CHARACTER",
        "Delimiter of CSV; by default the one under which the first line holds the declared names.",
    ),
    "encoding": (
        "NAME",
        "Encoding of CSV, such as latin-1; by default UTF-8, or windows-1252 where INPUT is not UTF-8.",
    ),
    "query": ("SQL", "For databases (duckdb:FILE, sqlite:FILE, postgresql://…): one row per record."),
}
_KEY = "optrr.cli.inputs"
FILE = click.Path(path_type=Path)

design_option = click.option("--design", "design_file", required=True, type=FILE, help="Design file from optrr design.")
key_option = click.option(
    "--key", metavar="PUBLIC.PEM", type=FILE, help="Refuse a design that the owner of this public key did not sign."
)
signature_option = click.option("--signature", type=FILE, help="Where its signature is; by default FILE.sig.")
confidence_option = click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence of each interval."
)
simultaneous_option = click.option(
    "--simultaneous", is_flag=True, help="Intervals that all hold together with that confidence."
)


def input_argument(command: _Command) -> _Command:
    """INPUT, one or more places of records, and the options that say how they are written, as one :class:`RecordsAt`."""

    def noted(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        ctx.meta.setdefault(_KEY, {})[str(param.name)] = value

    def made(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> RecordsAt:
        said = ctx.meta.get(_KEY, {})
        if said.get("delimiter") in ("\\t", "tab"):
            said["delimiter"] = "\t"
        return RecordsAt(value[0] if len(value) == 1 else value, **said)

    for name, (metavar, text) in reversed(_OPTIONS.items()):
        # read before the other options, because INPUT is built from them
        option = click.option(
            f"--{name}", metavar=metavar, help=text, callback=noted, expose_value=False, is_eager=True
        )
        command = option(command)
    return click.argument("input", metavar="INPUT…", nargs=-1, required=True, callback=made)(command)


def said_of_input(context: click.Context) -> dict[str, str]:
    """How INPUT is written, by option, as far as options say it; without a query, which may name what others must not read."""
    said = context.meta.get(_KEY, {})
    return {option: value for option, value in said.items() if value is not None and option != "query"}


def attributes_option(metavar: str, text: str) -> Callable[[_Command], _Command]:
    """The option --attributes; ``text`` is its help."""
    return click.option("--attributes", required=True, metavar=metavar, help=text)


table_attributes_option = attributes_option(
    "A,B", "Attributes of the table, separated by commas; a comma inside a name is written twice."
)


among_option = click.option(
    "--among",
    multiple=True,
    metavar="A=CATEGORY,CATEGORY,…",
    help="Only people whose true answer to A is one of these, such as those who did answer; repeatable.",
)


def by_name(texts: Iterable[str], option: str, meant: str) -> dict[str, str]:
    """What stands behind the last ``=`` of each text, by the name before it.

    Raises
    ------
    InvalidInput
        for a text without a name, or a name that is given twice, of which only the last would count; ``meant`` is an example.
    """
    out: dict[str, str] = {}
    for text in texts:
        name, equals, said = text.rpartition("=")
        if not equals or not name:
            raise InvalidInput(f"{option} {text} is not understood; write {option} {meant}")
        if name in out:
            raise InvalidInput(f"{option} is given twice for {name!r}, and only one can count; give it once")
        out[name] = said
    return out


def among_of(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The categories that --among keeps, by attribute. Raises InvalidInput where a text is not understood."""
    return {name: split_names(said) for name, said in by_name(texts, "--among", "vote=yes,no").items()}


def keep_input(output: Path, input: RecordsAt) -> None:
    """Refuse to write over a file of INPUT: randomized records cannot be made again without a second release.

    Raises
    ------
    InvalidInput
        naming the file.
    """
    places = [input.place] if isinstance(input.place, str | os.PathLike) else input.place
    if output.exists() and any(p.exists() and output.samefile(p) for p in files_at(places) or []):
        raise InvalidInput(f"{output} is an input of this command; write to another file")


def split_names(text: str) -> tuple[str, ...]:
    """Names separated by commas; a doubled comma stands for one inside a name."""
    return tuple(n.replace("\0", ",").strip() for n in text.replace(",,", "\0").split(","))


def refuse_longitudinal(file: Given) -> None:
    """Raise InvalidInput for a longitudinal design where a device is to draw: it would have to draw anew in every round."""
    if kind_of(file) == LONGITUDINAL:
        raise InvalidInput(
            f"{file} is a longitudinal design, and devices draw once: make its reports with `optrr longitudinal-perturb` where "
            "the records are, or design the same specification with `optrr design` to ask once"
        )
