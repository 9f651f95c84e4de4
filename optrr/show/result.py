"""What every result can do: say itself in one line, be a table in any data frame library, and show itself in a notebook.

A notebook shows the parts that a page of the same result holds (:mod:`optrr.show.parts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.show.parts import Part, Table, Text, parts_html, warned
from optrr.show.printable import MISSING, one_line

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that people are shown, in notebooks and on terminals; the table itself, and --json, hold all.
SHOWN = 40


class Result(ABC):
    """A result with a headline, for the interactive session."""

    @abstractmethod
    def headline(self) -> str:
        """The result in one line: what it is, and its main numbers."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def said(self) -> tuple[str, ...]:
        """The warnings, one line each; none where the result has no warnings."""
        # of some results they are kept, and of others worked out when asked for
        warnings = getattr(self, "warnings", ())
        return tuple(warnings() if callable(warnings) else warnings)

    def _parts(self) -> list[Part]:
        return [Text(one_line(self.headline()))]

    def _repr_html_(self) -> str:
        """The headline, the first rows of a table, and the warnings, for notebooks; all text is escaped."""
        return parts_html([*self._parts(), *warned(self.said())], type(self).__name__)


class TableResult(Result):
    """A result that is a table: one row per attribute, cell, test or whatever it is about."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table."""

    def to_pandas(self) -> Any:
        """The result as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The result as a polars data frame; polars must be installed."""
        import polars  # noqa: PLC0415 (an optional library)

        return polars.from_arrow(self.to_arrow())

    def shown(self, most: int | None = None) -> Table:
        """The table as people read it, or its first rows: what :meth:`to_arrow` holds, and a word for missing categories."""
        table, rows_in_all = self._head(most)
        keys = self._keys()
        rows = [
            [MISSING if k < keys and value is None else value for k, value in enumerate(row.values())]
            for row in table.to_pylist()
        ]
        # columns of our own are words; those of genetics have the field's names
        names = [
            name.replace("_", " ") if k >= keys and name.islower() else name
            for k, name in enumerate(table.column_names)
        ]
        left_out = rows_in_all - len(rows)
        return Table(names, rows, note=f"… and {left_out} more rows" if left_out else "")

    def _head(self, count: int | None) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all."""
        table = self.to_arrow()
        return table.slice(0, count), table.num_rows

    def _keys(self) -> int:
        """How many of the first columns are categories, where null is the missing value."""
        return 0

    def row_names(self) -> list[str]:
        """What each row is about, for figures: its categories."""
        return [" × ".join(map(str, row[: self._keys()])) for row in self.shown().rows]

    def _parts(self) -> list[Part]:
        return [*super()._parts(), self.shown(SHOWN)]


def in_json(value: Any) -> Any:
    """A number, or an array of numbers as nested lists, with None for what is not finite, which JSON cannot say."""
    if isinstance(value, np.ndarray):
        numbers = value.astype(object)
        numbers[~np.isfinite(value)] = None
        return numbers.tolist()
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not isfinite(number) else number


def arrow_rows(rows: Sequence[Any], texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    """An Arrow table of these attributes of objects: columns of text, null for None, then columns of numbers."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import, and --help needs none of it)

    kinds = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.float64())
    return pa.table({name: pa.array([getattr(row, name) for row in rows], kind) for name, kind in kinds.items()})
