"""Parts of HTML reports and notebooks: paragraphs, tables, commands and charts, and their HTML.

A page is data (title, sections; each section holds such parts), and one template turns it into one HTML file, readable
without a network. Notebooks show the same parts without a page around them. Charts are matplotlib figures written as
SVG into the page; points that are too many for paths are a picture inside their chart. The page's content security
policy forbids every request, so no text of a category or a file name can make a reader's browser fetch or run anything;
all text is escaped.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import floor, isfinite, isnan, log10
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

from optrr.core.display import SOFTWARE
from optrr.core.display.text import cell, one_line, printable, reads_as_number

if TYPE_CHECKING:
    from jinja2 import Environment

_VIEW_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ')
# Points of a chart up to which a telephone shows it whole and still legible; wider ones can be moved sideways.
_NARROW = 360.0
# Decimals of numbers below 100, the most that show the smallest of a column, and numbers that have none.
_DECIMALS, _MOST_DECIMALS = 4, 6
_LARGE, _LARGEST = 100.0, 1e7


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text, escaped.

    ``warning`` highlights it, and so does ``quoted``, for statements to others.
    """

    text: str
    warning: bool = False
    quoted: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Commands:
    """Lines to type into a terminal, as they are."""

    lines: Sequence[str]
    kind: ClassVar[str] = "commands"


@dataclass(frozen=True)
class Table:
    """Rows under column names.

    Numbers of a column have the same digits; None and NaN are empty cells.

    ``strong`` lists the row numbers to set off.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""
    strong: Sequence[int] = ()
    kind: ClassVar[str] = "table"

    @property
    def heads(self) -> list[str]:
        """The column names as text."""
        return [cell(name) for name in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """The rows as text."""
        columns = [_column_text([row[k] for row in self.rows]) for k in range(len(self.columns))]
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers, or text that reads as one, and empty cells."""
        given = [[row[k] for row in self.rows if row[k] is not None] for k in range(len(self.columns))]
        return [bool(column) and all(_to_the_right(v) for v in column) for column in given]

    def first(self, most: int) -> "Table":
        """Return the first rows, with a note on the number of rows left out."""
        if len(self.rows) <= most:
            return self
        more = f"The first {most} of {len(self.rows)} rows."
        return replace(self, rows=self.rows[:most], note=f"{self.note} {more}".strip())


@dataclass(frozen=True)
class Chart:
    """An SVG with its caption and a ``description`` for screen readers.

    See :func:`~optrr.core.display.charts.figure_svg`.
    """

    svg: str
    caption: str = ""
    description: str = ""
    kind: ClassVar[str] = "chart"

    @cached_property
    def markup(self) -> Any:
        """The SVG, marked as safe to insert, labelled for screen readers."""
        from markupsafe import Markup, escape  # noqa: PLC0415 (comes with Jinja2, which only pages need)

        label = escape(self.description or self.caption)
        size = _VIEW_BOX.search(self.svg)
        kind = ' class="wide"' if size is not None and float(size[1]) > _NARROW else ""
        return Markup(self.svg.replace("<svg ", f'<svg{kind} role="img" aria-label="{label}" ', 1))


Part = Text | Commands | Table | Chart


def warned(lines: Iterable[str]) -> list[Part]:
    """Build a highlighted paragraph for each warning."""
    return [Text(one_line(line), warning=True) for line in lines]


@dataclass(frozen=True)
class Section:
    """A heading and the parts below it."""

    title: str
    parts: Sequence[Part]


def warnings(lines: Iterable[str]) -> list[Section]:
    """Build a section of warnings, or none."""
    parts = warned(dict.fromkeys(lines))
    return [Section("Warnings", parts)] if parts else []


@dataclass(frozen=True)
class Page:
    """A title, its sections, and the sentences before them."""

    title: str
    sections: Sequence[Section]
    lead: Sequence[str] = ()

    @property
    def footer(self) -> str:
        """Name and version of the software, for the end of the page."""
        return f"{SOFTWARE}; epsilons in nats."


FOREST = (
    "Dots are estimates and lines their intervals, as in the table; one without an end is drawn as far as the others."
)


@dataclass(frozen=True)
class OneTable:
    """Content of the HTML report of a result that is one table.

    Parameters
    ----------
    title, lead, heading
        the page's title, its first sentence, and the heading of the table.
    chart
        the content of the chart, in words.
    caption
        text below the chart.
    notes
        text below the table.
    """

    title: str
    lead: str
    heading: str
    chart: str
    caption: str = FOREST
    notes: Sequence[Part] = ()


def _to_the_right(value: object) -> bool:
    if isinstance(value, str):
        return reads_as_number(value)
    return isinstance(value, Real) and not isinstance(value, bool)


def _column_text(values: Sequence[object]) -> list[str]:
    """Format a column.

    Nothing for None and NaN, all digits of whole numbers, the same digits for all others.
    """
    written = number_format([float(v) for v in values if isinstance(v, Real) and not isinstance(v, Integral)])
    return [_cell_text(value, written) for value in values]


def number_format(numbers: Sequence[float]) -> str:
    """Choose the format of a column's numbers.

    Decimals that show two digits of the smallest, or four digits of each.
    """
    sizes = [abs(number) for number in numbers if number and isfinite(number)]
    largest, smallest = max(sizes, default=1.0), min(sizes, default=1.0)
    decimals = max(_DECIMALS if largest < _LARGE else 1, 1 - floor(log10(smallest)))
    return f".{decimals}f" if decimals <= _MOST_DECIMALS and largest < _LARGEST else "#.4g"


def _cell_text(value: object, number: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}".replace(",", "\u202f")
    if isinstance(value, Real):
        return "" if isnan(value) else format(float(value), number).rstrip(".")
    return cell(str(value))


@cache
def page_environment(*packages: str) -> "Environment":
    """Build the template environment of these packages.

    All text is escaped, and an unknown name is an error.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (only pages need it)

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "optrr")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # messages set parameters apart, which a page shows as words
    environment.filters["printable"] = lambda text: printable(text).replace("``", "")
    return environment


def page_html(page: Page) -> str:
    """Render the page as HTML text."""
    return page_environment().get_template("page.html").render(page=page)


def parts_html(parts: Sequence[Part], title: str) -> str:
    """Render parts without a page, as for a notebook.

    ``title`` is the name of the tables for screen readers.
    """
    return page_environment().get_template("parts.html").render(parts=parts, title=title)
