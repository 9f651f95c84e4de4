"""What a specification's file may say, key by key, and what is said where it says something else.

The messages name the attribute and the key in the words of the file; a schema library's would name types and paths.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from optrr.domain.bins import Closed
from optrr.domain.domain import Category, shown
from optrr.errors import InvalidInput, did_you_mean
from optrr.releases.small_files import Given, path_of


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute, as the file says it."""

    name: str
    size: int | None = None
    categories: list[Category] | None = None
    epsilon: float | None = None
    question: str | None = None
    bins: list[Any] | None = None
    closed: Closed = "left"
    ordered: bool = False
    missing: list[Category] | bool = False
    rest: str | None = None


@dataclass(frozen=True)
class Spec:
    """A whole file."""

    attributes: list[AttributeSpec]
    epsilon: float | None = None
    title: str | None = None
    asker: str | None = None
    introduction: str | None = None
    language: str | None = None
    public: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Kind:
    """What a key may hold: its Python types, and how a person would say it."""

    types: tuple[type, ...]
    said: str


_TEXT = _Kind((str,), "a text in quotes")
_NUMBER = _Kind((int, float), "a number of nats without quotes, such as 1.0")
_LIST = _Kind((list,), "a list in brackets")
_ATTRIBUTE = {
    "name": _TEXT,
    "size": _Kind((int,), "a whole number without quotes"),
    "categories": _LIST,
    "epsilon": _NUMBER,
    "question": _TEXT,
    "bins": _Kind((list,), "a list of edges, such as [-inf, 18, 65, inf]"),
    "closed": _Kind((str,), '"left" or "right"'),
    "ordered": _Kind((bool,), "true or false"),
    "missing": _Kind((list, bool), 'a list of marks, such as ["NA", "."], or true'),
    "rest": _TEXT,
}
_WHOLE = {
    "attributes": _Kind((list,), "a list of attributes, each under [[attributes]]"),
    "epsilon": _NUMBER,
    "title": _TEXT,
    "asker": _TEXT,
    "introduction": _TEXT,
    "language": _TEXT,
    "public": _Kind((dict,), 'columns by what they are for, such as weight = "w" under [public]'),
}
# A line of TOML with which attributes begin.
_TOML_ATTRIBUTES = re.compile(rb"^[ \t]*(\[\[[ \t]*attributes[ \t]*\]\]|attributes[ \t]*=)", re.MULTILINE)


def spec_record(raw: Any) -> Spec:
    """The file's content, checked.

    Raises
    ------
    InvalidInput
        naming the attribute and the key, with the key that was probably meant.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput('it holds no object with attributes; write {"attributes": […]}')
    _checked(raw, _WHOLE, "the specification")
    if "attributes" not in raw:
        raise InvalidInput("it lists no attributes; give each one under [[attributes]] with a name and its categories")
    attributes = [_attribute(k, given) for k, given in enumerate(raw["attributes"], 1)]
    return Spec(**{**raw, "attributes": attributes})


def _attribute(number: int, given: Any) -> AttributeSpec:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"attribute {number} is {_said(given)}; give a name and categories, each with its key")
    named = given.get("name")
    place = f"attribute {shown(named)}" if isinstance(named, str) else f"attribute {number}"
    _checked(given, _ATTRIBUTE, place)
    if named is None:
        raise InvalidInput(f"{place} has no name; give it one")
    return AttributeSpec(**given)


def _checked(given: Mapping[str, Any], keys: Mapping[str, _Kind], place: str) -> None:
    for key, value in given.items():
        if key not in keys:
            hint = did_you_mean(key, keys) or f"; the keys are {', '.join(keys)}"
            raise InvalidInput(f"{place} has the unknown key {shown(key)}{hint}")
        kind = keys[key]
        # Python takes true for a whole number; a person who writes it does not mean one
        if not isinstance(value, kind.types) or (isinstance(value, bool) and bool not in kind.types):
            raise InvalidInput(f"{place} has {key} = {_said(value)}; give {kind.said}")


def _said(value: Any) -> str:
    """A value as a message shows it."""
    if value is None:
        return "null"
    # of a number no more digits than anybody writes
    return f"{value!r:.40}" if isinstance(value, bool | int | float) else shown(str(value))


def refuse_specification(raw: bytes, source: Given, command: str = "design {} -o {}") -> None:
    """Raise InvalidInput where what stands in for a design is a specification: easily mistaken, and there is a remedy.

    ``command`` makes the design that is wanted of a file, in another.
    """
    if _is_specification(raw):
        made = "design.json" if path_of(source).name != "design.json" else "made.json"
        remedy = command.format(shlex.quote(str(source)), made)
        raise InvalidInput(f"{source} is a specification, not yet a design: optrr {remedy} makes one")


class _Outline(msgspec.Struct):
    """Keys of a specification, and those that only files made of one have; what they hold is passed over."""

    attributes: msgspec.Raw
    format: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    law: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _is_specification(raw: bytes) -> bool:
    # A stranger's file is not parsed to find this out: a TOML key of a hundred thousand parts would take gigabytes.
    text = raw.removeprefix(codecs.BOM_UTF8)
    try:
        outline = msgspec.json.decode(text, type=_Outline)
    except (ValueError, RecursionError):
        return not text.lstrip().startswith(b"{") and _TOML_ATTRIBUTES.search(text) is not None
    return outline.format is msgspec.UNSET and outline.law is msgspec.UNSET
