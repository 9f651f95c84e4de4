"""Report pages: one HTML file with its tables and charts inside, readable without a network.

A page is data (title, sections; each section holds paragraphs, tables and charts) and one template turns it into HTML.
Charts are matplotlib figures written as SVG into the page. The page's content security policy forbids every request, so
nothing that a category or a file name says can make a reader's browser fetch or run anything; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optrr import __version__
from optrr.printable import cell, printable
from optrr.records.whole_files import whole_file
from optrr.rounding import reads_as_number

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Chart", "Page", "Section", "Table", "Text", "page_environment", "page_html", "write_page"]


@dataclass(frozen=True)
class Text:
    """A paragraph; plain text, escaped. ``warning`` sets it off."""

    text: str
    warning: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """Rows under column names; numbers are formatted to four figures and stand to the right, None is an empty cell.

    ``strong`` lists the row numbers to set off.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""
    strong: Sequence[int] = ()
    kind: ClassVar[str] = "table"

    @property
    def cells(self) -> list[list[str]]:
        """The rows as text."""
        return [[cell_text(value) for value in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers, or text that reads as one, and empty cells."""
        given = [[row[k] for row in self.rows if row[k] is not None] for k in range(len(self.columns))]
        return [bool(column) and all(_to_the_right(v) for v in column) for column in given]


@dataclass(frozen=True)
class Chart:
    """An SVG from :func:`optrr.charts.figure_svg`, its caption, and a ``description`` that screen readers read out."""

    svg: str
    caption: str = ""
    description: str = ""
    kind: ClassVar[str] = "chart"

    @cached_property
    def markup(self) -> Any:
        """The SVG, marked as safe to insert, labelled for screen readers."""
        from markupsafe import Markup, escape  # noqa: PLC0415 (comes with Jinja2, which only reports need)

        label = escape(self.description or self.caption)
        return Markup(self.svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    parts: Sequence[Text | Table | Chart]


@dataclass(frozen=True)
class Page:
    """A title, its sections, and the sentences that stand before them."""

    title: str
    sections: Sequence[Section]
    lead: Sequence[str] = ()

    @property
    def footer(self) -> str:
        """What made the page."""
        return f"optrr {__version__}; epsilons in nats."


def _to_the_right(value: object) -> bool:
    if isinstance(value, str):
        return reads_as_number(value)
    return isinstance(value, Real) and not isinstance(value, bool)


def cell_text(value: object) -> str:
    """Four significant figures for numbers (all digits of whole ones), nothing for None, text otherwise."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{float(value):.4g}" if isinstance(value, Real) else cell(str(value))


def page_environment(*packages: str) -> Environment:
    """Templates of these packages, and the page of this one: all text is escaped, and an unknown name is an error."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (only pages need it)

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "optrr.reports")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment


def page_html(page: Page) -> str:
    """The page as HTML text."""
    return page_environment().get_template("page.html").render(page=page)


def write_page(path: str | Path, page: Page) -> None:
    """Write the page as one HTML file, whole or not at all. Raises InvalidInput where the directory is missing."""
    html = page_html(page)
    with whole_file(Path(path)) as partial:
        partial.write_text(html, encoding="utf-8")
