"""Results as text: tables as wide as their cells, numbers to the right; whole columns are left out if the table is too wide."""

import os
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

from optrr.core.display.parts import Chart, Commands, Part, Table, Text
from optrr.core.display.text import cell, printable

# Characters of a line if neither COLUMNS nor a terminal defines it.
_WIDTH = 120
# Columns of text are not broken into lines shorter than this.
_NARROW = 16
_GAP = 2


def page_width() -> int:
    """Return the maximum number of characters in a line."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdigit() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH
    except (AttributeError, OSError, ValueError):  # a pipe, a file or a notebook
        return _WIDTH


def parts_text(parts: Sequence[Part]) -> str:
    """Format paragraphs, commands and tables as text; charts are left out."""
    text, before = "", None
    for part in parts:
        if not isinstance(part, Chart):
            text += ("" if before is None else "\n" if before is Text is type(part) else "\n\n") + _part_text(part)
            before = type(part)
    return text


def _part_text(part: Text | Commands | Table) -> str:
    if isinstance(part, Table):
        return table_text(part)
    return printable(part.text) if isinstance(part, Text) else "\n".join(f"  {printable(line)}" for line in part.lines)


def table_text(table: Table) -> str:
    """Format title, head, rows and note.

    Marked rows begin with a star, and omitted columns are named.
    """
    heads, numeric, limit = table.heads, table.numeric, page_width()
    rows = [[c.replace("\u202f", "") if n else c for c, n in zip(row, numeric, strict=True)] for row in table.cells]
    star = "* " if table.strong else ""
    natural = [max(map(_wide, column)) for column in zip(heads, *rows, strict=True)]
    least = [_least(column, number) for column, number in zip(zip(heads, *rows, strict=True), numeric, strict=True)]

    def excess(widths: Sequence[int]) -> int:
        return len(star) + sum(widths) + _GAP * (len(widths) - 1) - limit

    wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
    kept = next((k for k in range(len(heads), 1, -1) if excess(least[:k]) <= 0), 1)
    widths = natural[:kept]
    while excess(widths) > 0 and (wide := [k for k in range(kept) if widths[k] > least[k]]):
        widths[max(wide, key=lambda k: widths[k])] -= 1

    def lines(row: Sequence[str], mark: str = "") -> list[str]:
        wrapped = [wrap(cell, width) for cell, width in zip(row, widths, strict=False)]
        out = []
        for line in zip_longest(*wrapped, fillvalue=""):
            cells = (_padded(c, w, n) for c, w, n in zip(line, widths, numeric, strict=False))
            out.append((mark.ljust(len(star)) + (" " * _GAP).join(cells)).rstrip())
            mark = ""
        return out

    text = [cell(table.title)] if table.title else []
    text += [*lines(heads), (" " * len(star) + (" " * _GAP).join("─" * w for w in widths))]
    for k, row in enumerate(rows):
        text += lines(row, star if k in table.strong else "")
    if kept < len(heads):
        text.append(f"left out at {limit} columns: {', '.join(heads[kept:])}")
    return "\n".join([*text, *([printable(table.note)] if table.note else [])])


def _least(column: Sequence[str], number: bool) -> int:
    """Compute the minimum width of a column.

    That of its numbers, and of the longest word of its head and texts.
    """
    words = max((_wide(word) for text in column for word in text.split()), default=0)
    return max(words, 0 if number else min(_NARROW, max(map(_wide, column))))


def _wide(text: str) -> int:
    """Count the terminal columns of a text."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - _wide(text))
    return space + text if right else text + space
