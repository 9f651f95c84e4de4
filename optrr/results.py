"""What every result can do: say itself in one line, be a table in any data frame library, and show itself in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING, Any

from optrr.printable import cell, one_line

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that a notebook shows; the table itself holds all.
_SHOWN = 40


class Result(ABC):
    """A result with a headline, for the interactive session."""

    @abstractmethod
    def headline(self) -> str:
        """The result in one line: what it is, and its main numbers."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"


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

    def _head(self, count: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all."""
        table = self.to_arrow()
        return table.slice(0, count), table.num_rows

    def _repr_html_(self) -> str:
        """The headline and the first rows, for notebooks; all text is escaped."""
        table, rows_in_all = self._head(_SHOWN)
        head = "".join(f"<th>{escape(cell(name))}</th>" for name in table.column_names)
        rows = ("".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in table.to_pylist())
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        rest = rows_in_all - _SHOWN
        more = f"<p>… and {rest} more rows</p>" if rest > 0 else ""
        said = escape(one_line(self.headline()))
        return f"<p>{said}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else cell(str(value))
