"""Bins: categories of numbers and dates, by declared edges that never come from the protected data.

Edges e_0 < e_1 < … < e_k make k categories. Closed on the left (the default), bin j holds e_{j-1} ≤ x < e_j; closed on the
right, as ``pandas.cut`` does it, e_{j-1} < x ≤ e_j. The outer edges may be infinite, so that no value falls outside.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optrr.core.display.text import brief
from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import real

Edge = float | date
Closed = Literal["left", "right"]

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_INTERVAL = re.compile(
    rf"([\[(])({_NUMBER.pattern.replace('(', '(?:')}), ({_NUMBER.pattern.replace('(', '(?:')})([\])])"
)
# Codes of a value outside all bins, and of a missing value.
OUTSIDE, NO_VALUE = -1, -2


def number_text(value: float) -> str:
    """Format a number in its shortest form: 3 for 3.0, 17.5, 1e-05."""
    return str(int(value)) if math.isfinite(value) and float(value).is_integer() else repr(float(value))


def edge_text(edge: Edge) -> str:
    """Format an edge: a number, or a date in ISO form without midnight."""
    if isinstance(edge, datetime):
        return edge.isoformat(sep=" ").removesuffix(" 00:00:00")
    return edge.isoformat() if isinstance(edge, date) else number_text(edge)


def interval_text(low: Edge, high: Edge, closed: Closed) -> str:
    """Format the label of one bin.

    ``[18, 30)``, ``(18, 30]``, or ``< 18`` and ``>= 65`` if the other edge is infinite.
    """
    left = closed == "left"
    if low == -math.inf and high == math.inf:
        return "any"
    if low == -math.inf:
        return f"{'<' if left else '<='} {edge_text(high)}"
    if high == math.inf:
        return f"{'>=' if left else '>'} {edge_text(low)}"
    return f"{'[' if left else '('}{edge_text(low)}, {edge_text(high)}{')' if left else ']'}"


def interval_of_floats(label: str) -> str | None:
    """Format an interval label as pandas does for floats: ``(0.0, 1.0]``.

    None for other texts.
    """
    parts = _INTERVAL.fullmatch(label)
    return parts and f"{parts[1]}{float(parts[2])}, {float(parts[3])}{parts[4]}"


@dataclass(frozen=True)
class Bins:
    """Edges of an attribute's categories, ascending.

    All numbers or all dates; the outer ones may be ±inf.

    Raises InvalidInput for fewer than three edges, edges that do not ascend, or a mixture of numbers and dates.

    Examples
    --------
    >>> import optrr
    >>> optrr.Bins((0, 18, 65, float("inf"))).labels
    ('[0, 18)', '[18, 65)', '>= 65')
    """

    edges: tuple[Edge, ...]
    closed: Closed = "left"

    def __post_init__(self) -> None:
        edges = tuple(_edge(e) for e in self.edges)
        object.__setattr__(self, "edges", edges)
        if self.closed not in ("left", "right"):
            raise InvalidInput(f"bins are closed {self.closed!r}; give 'left' or 'right'")
        told = ", ".join(map(edge_text, edges[:10])) or "none"
        kinds = {isinstance(e, date) for e in edges if not _infinite(e)}
        if len(edges) < 3 or len(kinds) != 1:
            raise InvalidInput(f"bins have the edges {told}; give three or more, all numbers or all dates")
        inner = [e for e in edges if not _infinite(e)]
        outer_only = not any(map(_infinite, edges[1:-1]))
        if not outer_only or np.any(np.diff(self._numbers) <= 0) or len(set(inner)) < len(inner):
            raise InvalidInput(f"bins have the edges {told}; give each edge once, from the lowest to the highest")

    @property
    def of_dates(self) -> bool:
        """Whether they are bins of dates."""
        return any(isinstance(e, date) for e in self.edges)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of every bin, in order."""
        pairs = zip(self.edges[:-1], self.edges[1:], strict=True)
        return tuple(interval_text(low, high, self.closed) for low, high in pairs)

    def readings(self) -> dict[str, int]:
        """Map other texts of the bins to their codes.

        The plain label, and pandas' format for intervals of floats.
        """
        out = dict(zip(self.labels, range(len(self.labels)), strict=True))
        opening, closing = ("[", ")") if self.closed == "left" else ("(", "]")
        if not self.of_dates:
            for k, (low, high) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
                out[f"{opening}{low}, {high}{closing}"] = k
        return out

    @cached_property
    def _numbers(self) -> NDArray[np.float64]:
        return np.array([_number(e) for e in self.edges], dtype=np.float64)

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Find the bin of each number (dates: seconds since 1970), shape (n,).

        −1 outside all bins, −2 for nan.
        """
        at = np.searchsorted(self._numbers, values, side="right" if self.closed == "left" else "left") - 1
        out = np.where((at < 0) | (at >= len(self.labels)), OUTSIDE, at)
        return np.where(np.isnan(values), NO_VALUE, out).astype(np.int32)

    def parsed(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Parse texts as numbers (dates: seconds since 1970); nan if invalid."""
        return np.array([_number_of(t, self.of_dates) for t in texts], dtype=np.float64)

    def record(self) -> list[float | str]:
        """Return the edges for JSON: numbers, dates as text, "-inf" and "inf"."""
        return [e if isinstance(e, float) and not _infinite(e) else edge_text(e) for e in self.edges]


def bins_of(edges: Sequence[Any], closed: Closed = "left") -> Bins:
    """Build bins from edges as files hold them.

    Numbers, dates, or their texts (``"2000-01-01"``, ``"inf"``).
    """
    read: list[Edge] = []
    for edge in edges:
        if isinstance(edge, str) and (edge.lstrip("+-") == "inf" or _NUMBER.fullmatch(edge)):
            read.append(float(edge))
            continue
        try:
            read.append(datetime.fromisoformat(edge) if isinstance(edge, str) else edge)
        except ValueError:
            raise InvalidInput(
                f"bins have the edge {edge[:40]!r}; give numbers, dates such as 2000-01-31, or inf"
            ) from None
    return Bins(tuple(read), closed)


def _edge(edge: Any) -> Edge:
    plain = edge.item() if isinstance(edge, np.generic) else edge
    if not isinstance(plain, date) and math.isnan(real(plain)):
        raise InvalidInput(f"bins have the edge {brief(edge)}; give numbers, dates such as 2000-01-31, or inf")
    if isinstance(plain, datetime):
        naive = plain if plain.tzinfo is None else plain.astimezone(UTC).replace(tzinfo=None)
        return naive.date() if naive.time() == datetime.min.time() else naive
    return plain if isinstance(plain, date) else float(plain)


def _infinite(edge: Edge) -> bool:
    return isinstance(edge, float) and math.isinf(edge)


def _number(edge: Edge) -> float:
    """Convert an edge to a number: itself, or seconds since 1970."""
    if not isinstance(edge, date):
        return float(edge)
    moment = edge if isinstance(edge, datetime) else datetime(edge.year, edge.month, edge.day)
    return (moment - datetime(1970, 1, 1)).total_seconds()


def _number_of(text: str, date: bool) -> float:
    if not date:
        return float(text) if _NUMBER.fullmatch(text) else math.nan
    try:
        return _number(_edge(datetime.fromisoformat(text)))
    except ValueError:
        return math.nan
