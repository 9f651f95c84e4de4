"""Base class of results: text, rows in any data frame library, JSON and a chart.

A result has a headline, tables and notes. Printed, on the command line and in a notebook it shows these three in that order
(:mod:`optrr.core.display.parts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from optrr.core.display.charts import interval_figure
from optrr.core.display.parts import OneTable, Part, Table, Text, parts_html, warned
from optrr.core.display.terminal import parts_text
from optrr.core.display.text import MISSING, amount, epsilon_text, one_line
from optrr.core.errors import InvalidInput, library

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

# Rows of a table in notebooks and on terminals; the table itself and the JSON object have all.
SHOWN = 60
# Decimals of an ε in a table.
_DECIMALS = 4


class Result(ABC):
    """A result with a headline, for the interactive session."""

    # Attributes that are keys of the JSON object; all fields where a result names none.
    in_summary: ClassVar[tuple[str, ...]] = ()
    # Columns that a chart draws: the estimate and, where there are any, the ends of its interval.
    drawn: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader, one line each."""
        return ()

    @abstractmethod
    def headline(self) -> str:
        """Summarize the result in one line with its main numbers."""

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List the printed tables, or the first rows of each."""
        return ()

    def sentences(self) -> Sequence[str]:
        """List the paragraphs below the tables."""
        return ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def __str__(self) -> str:
        return parts_text(self._parts())

    def summary(self) -> dict[str, Any]:
        """Return the JSON object.

        Keys are names of attributes, and None replaces numbers that are not finite.
        """
        return named_in_json(self, self.in_summary)

    def to_arrow(self) -> pa.Table:
        """Convert to an Arrow table with one row of the values in :meth:`summary`."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and help needs none of it)

        return pa.table({name: [v] for name, v in self.summary().items() if not isinstance(v, list | dict)})

    def to_pandas(self) -> Any:
        """Convert to a pandas data frame; pandas must be installed."""
        library("pandas", "to_pandas needs", instead="; or use to_arrow")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Convert to a polars data frame; polars must be installed."""
        polars = library("polars", "to_polars needs", instead="; or use to_arrow")
        return polars.from_arrow(self.to_arrow())

    def _keys(self) -> int:
        """Count the first columns that are categories, where null means missing."""
        return 0

    def row_names(self) -> list[str]:
        """Name each row for figures: its categories, or its first column."""
        columns = self.to_arrow().columns[: max(self._keys(), 1)]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return [" × ".join(MISSING if value is None else str(value) for value in row) for row in rows]

    def plot(self) -> Figure:
        """Plot each row's estimate as a dot, with its interval if there is one.

        An unbounded interval is drawn to the largest number.

        Raises
        ------
        InvalidInput
            for a result that has no chart.
        """
        table, keys = self.to_arrow(), self._keys()
        # an attribute may be called as a number, whose column then has another name
        places = {name.rstrip("_"): k for k, name in enumerate(table.column_names) if k >= keys}
        if self.drawn[0] not in places:
            raise InvalidInput(f"a {type(self).__name__} has no chart; print it, or take its data frame")
        middle, *ends = (table.column(places[name]).cast("float64").to_numpy() for name in self.drawn)
        low, high = ends or [np.full(len(middle), np.nan)] * 2
        return interval_figure(self.row_names(), middle, (low, high), *self._axis())

    def _axis(self) -> tuple[str, float | None]:
        """Return the label of :meth:`plot`'s axis and the position of no effect."""
        return self.drawn[0].replace("_", " "), None

    def _parts(self) -> list[Part]:
        notes = [Text(one_line(note)) for note in self.sentences()]
        return [Text(one_line(self.headline())), *self.tables_shown(SHOWN), *notes]

    def _repr_html_(self) -> str:
        """Render for notebooks, with the warnings; all text is escaped."""
        return parts_html([*self._parts(), *warned(self.warnings)], type(self).__name__)


class TableResult(Result):
    """A result that is a table, one row per attribute, cell, test or other item."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Convert to an Arrow table."""

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table, or its first rows.

        Missing categories have a word, and every ε is rounded up.
        """
        table, rows_in_all = self._head(most)
        keys = self._keys()

        def read(k: int, name: str, value: Any) -> Any:
            if k < keys:
                return MISSING if value is None else value
            return epsilon_text(value, _DECIMALS) if name.endswith("epsilon") and isinstance(value, float) else value

        rows = [[read(k, *item) for k, item in enumerate(row.items())] for row in table.to_pylist()]
        # columns of our own are words; those of genetics have the field's names
        names = [
            name.replace("_", " ") if k >= keys and name.islower() else name
            for k, name in enumerate(table.column_names)
        ]
        more = rows_in_all - len(rows)
        return Table(names, rows, note=f"… and {amount(more, 'more row')}" if more else "")

    def on_page(self, **beside: Any) -> OneTable:
        """Build the content of the HTML report.

        Raises NotImplementedError if the result has no report.
        """
        raise NotImplementedError(type(self).__name__)

    def page_parts(self) -> list[Part]:
        """List the table as a part of another result's report."""
        return [self.shown()]

    def _head(self, count: int | None) -> tuple[pa.Table, int]:
        """Return the first rows and the number of all rows."""
        table = self.to_arrow()
        return table.slice(0, count), table.num_rows

    def tables_shown(self, most: int | None = None) -> Sequence[Table]:
        """List :meth:`shown` alone."""
        return [self.shown(most)]


def in_json(value: Any) -> Any:
    """Convert a value for JSON.

    Lists for arrays, objects for data classes, None for numbers that are not finite.
    """
    if isinstance(value, np.ndarray):
        numbers = value.astype(object)
        numbers[~np.isfinite(value)] = None
        return numbers.tolist()
    if isinstance(value, dict):
        return {key: in_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [in_json(each) for each in value]
    if is_dataclass(value):
        return value.summary() if hasattr(value, "summary") else named_in_json(value, ())
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not isfinite(number) else number


def named_in_json(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """Convert these attributes, or all fields, to a JSON object."""
    return {name: in_json(getattr(value, name)) for name in names or [each.name for each in fields(value)]}


def intervals_said(confidence: float, simultaneous: bool = False) -> str:
    """Describe the intervals on a chart's axis."""
    return f"{100 * confidence:g}% intervals" + (" for all together" if simultaneous else "")


def arrow_rows(
    rows: Sequence[Any], texts: Sequence[str], numbers: Sequence[str], whole: Sequence[str] = ()
) -> pa.Table:
    """Build an Arrow table of these attributes of objects.

    Columns of text, null for None, then of numbers, some ``whole``.
    """
    import pyarrow as pa  # noqa: PLC0415 (slow to import, and help needs none of it)

    kinds = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.float64())
    kinds |= dict.fromkeys(whole, pa.int64())
    return pa.table({name: pa.array([getattr(row, name) for row in rows], kind) for name, kind in kinds.items()})
