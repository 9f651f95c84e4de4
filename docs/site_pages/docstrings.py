"""Docstrings and help texts are written for readers of the code: |x| is an absolute value there, and a*b a product.

reStructuredText would take the bars and the stars for markup; outside of code and roles they are shown as they are.
"""

import re
from typing import Any

# What is markup already: ``x``, `x`, :func:`x`, *x* and **x**.
_MARKUP = re.compile(r"(``.*?``|`[^`]*`_?|(?<!\w)\*{1,2}(?![\s*])[^*]*(?<![\s*])\*{1,2}(?!\w))")
_BAR_OR_STAR = re.compile(r"(?<!\\)[|*]")
_before: dict[str, list[str]] = {}


def escaped(text: str) -> str:
    """A line whose bars and stars stand for themselves."""
    pieces = _MARKUP.split(text)
    pieces[::2] = [_BAR_OR_STAR.sub(lambda mark: "\\" + mark[0], piece) for piece in pieces[::2]]
    return "".join(pieces)


def keep_formulas(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: PLR0913
    """Sphinx asks for every docstring before it reads it; this comes before napoleon, whose own markup is left alone."""
    lines[:] = [escaped(line) for line in lines]
    _before[name] = list(lines)


def keep_properties(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: PLR0913
    """After napoleon, which would take what stands before a colon in a property's first line for its type."""
    before = _before.pop(name, lines)
    if what in ("property", "attribute"):
        lines[:] = before


def keep_help(app: Any, context: Any, lines: list[str]) -> None:
    """Sphinx-click asks for every help text; its own markup opens a line."""
    lines[:] = [line if line.startswith((".. ", "| ")) else escaped(line) for line in lines]
