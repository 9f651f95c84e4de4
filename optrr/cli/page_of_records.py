"""What a page about randomized records says of the command that made it: its options, and where the records come from.

A page is sent to others, so it holds names of files without their folders, and of a database no more than its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optrr.cli.inputs import said_of_input
from optrr.designs.asking import Asking
from optrr.designs.design import Design
from optrr.records.reading.source import Place, RecordsAt
from optrr.records.reports import Reports

if TYPE_CHECKING:
    from optrr.pages.sections import Given

# Options that say where things are, or how they are printed, and nothing of what is asked.
_LEFT_OUT = ("input", "design_file", "output", "report", "as_json", "manhattan_file", "qq_file")
# Options whose values may be places.
_PLACES = ("groups", "proportions", "phenotype_file")
_SCHEME = re.compile(r"([a-z]+):(//)?")


def page_given(asking: Asking, design_file: Path, reports: Reports, doubts: Sequence[str]) -> Given:
    """What the page of the command that runs is made from."""
    from optrr.pages.sections import Given  # noqa: PLC0415 (only pages need it)

    context, places, stated = click.get_current_context(), reports.given, reports.stated
    least = asking.epsilon_in_all if isinstance(asking, Design) else asking.epsilon
    return Given(
        asking=asking,
        design_file=design_file.name,
        inputs=[name for place in places for name in _names(place)],
        asked=[(option.lstrip("-"), "yes" if value is True else _text(value)) for option, value in _options(context)],
        command=[*_words(context, places[0], design_file)],
        doubts=[_public(line, places) for line in doubts],
        spent=max([each.epsilon for each in stated], default=least),
        seeded=any(each.seeded for each in stated),
    )


def _options(context: click.Context, given: bool = False) -> Iterator[tuple[str, Any]]:
    """Every option that has a value, by default too or only where it was given, with that value."""
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if param.name in _LEFT_OUT or value in (None, False, ()):
            continue
        if given and context.get_parameter_source(str(param.name)) is click.core.ParameterSource.DEFAULT:
            continue
        if param.name in _PLACES:
            value = tuple(map(public_name, value)) if isinstance(value, tuple) else public_name(value)
        yield param.opts[-1], value


def _text(value: Any) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value


def _words(context: click.Context, place: RecordsAt, design_file: Path) -> Iterator[str]:
    """The command in words that make the page again, given the same files."""
    yield from ("optrr", str(context.command.name), *_names(place))
    for option, value in said_of_input(context).items():
        yield from (f"--{option}", value)
    yield from ("--design", design_file.name)
    for option, value in _options(context, given=True):
        for each in value if isinstance(value, tuple) else [value]:
            yield from [option] if each is True else [option, str(each)]
    yield from ("--report", context.params["report"].name)


def _names(place: RecordsAt) -> list[str]:
    places = [place.place] if isinstance(place.place, str) or not isinstance(place.place, Sequence) else place.place
    return [public_name(each) for each in places]


def public_name(place: Place) -> str:
    """A place as others may read it: a file without its folders, a database's kind without its address."""
    text = str(place)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text).name or text
    return f"{scheme[1]}:…" if scheme[2] else f"{scheme[1]}:{Path(text[scheme.end() :]).name}"


def _public(line: str, places: Sequence[RecordsAt]) -> str:
    """A warning without the folders and addresses of the places."""
    for place in places:
        each = [place.place] if isinstance(place.place, str) or not isinstance(place.place, Sequence) else place.place
        for text in map(str, each):
            line = line.replace(text, public_name(text))
    return line
