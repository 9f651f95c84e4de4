"""Text for terminals and pages: names and values come from files, and may hold what moves a cursor or hides a line."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from optrr_solvers.errors import written

# Characters of a message: a longer one is cut, so that no file can fill a log.
LONGEST_LINE = 4_000
# Characters of a cell.
LONGEST_CELL = 200
# Characters of a name in a title.
_LONGEST_NAME = 60
# What people read for the missing value, which has no text of its own.
MISSING = "(missing)"


def printable(text: str) -> str:
    """The text with every character that does not print written as an escape; line breaks and spaces of all widths are kept."""
    if text.isprintable():
        return text
    return "".join(c if prints(c) else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """The text on one line, escaped, and cut where it is very long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line)} characters)"


def cell(text: str, most: int = LONGEST_CELL) -> str:
    """The text as a cell of a table shows it: escaped, and cut after ``most`` characters."""
    text = printable(text)
    return text if len(text) <= most else f"{text[:most]}…"


def category_word(text: str | None) -> str:
    """A category as people read it, from its text."""
    return MISSING if text is None else text


def crossed(names: Iterable[str]) -> str:
    """The name of a table of these attributes, for titles."""
    return " × ".join(cell(" ".join(name.split()), _LONGEST_NAME) for name in names)


def brief(value: object) -> str:
    """A value as Python writes it, for messages: escaped, and cut where it is long."""
    return printable(written(value))


def amount(number: int | str, noun: str) -> str:
    """How many there are of something, by their number or its text: ``1 record``, ``2 records``; its plural ends in s."""
    return f"{number} {noun}{'' if str(number) == '1' else 's'}"


def sentence(text: str) -> str:
    """A line of a terminal as a sentence of a page."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def prints(character: str) -> bool:
    """Whether a character shows itself and moves nothing: printable ones, line breaks and spaces of all widths."""
    return character.isprintable() or character == "\n" or unicodedata.category(character) == "Zs"
