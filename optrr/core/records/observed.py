"""The observed domain of public data: the categories of each column, and their order."""

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.domain.bins import edge_text, number_text
from optrr.core.domain.domain import Attribute, Category, Domain, shown
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.records.frames import checked_columns
from optrr.core.records.reading.registry import open_source
from optrr_solvers.problem import SIZE_RANGE

# Characters of all values of a column: a million categories of 64.
_MOST_HELD = 1 << 26
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}


def observed_domain(data: Any, columns: Sequence[str], missing: Iterable[str] = ()) -> Domain:
    """Infer a domain from PUBLIC or reference data.

    Never use it on the records to be protected.

    A domain read off protected records publishes which categories occur, before any randomization, and no ε covers
    that. ``data`` is whatever :func:`optrr.core.records.counts.count` takes; ``missing`` are the texts that mean the
    missing value there. Ordered columns (pandas, polars Enum, Arrow) keep their order and all their categories;
    otherwise the categories come sorted, numbers by value, the missing value last. A column of text that holds nothing
    but numbers, or nothing but true and false, is one of numbers or booleans. One pass, bounded memory.
    """
    seen = {name: ObservedColumn(name, missing) for name in columns}
    source = open_source(data)
    if columns:
        # only the columns' names matter here, so any two categories will do; with the missing value among them, an empty CSV
        # field is missing
        checked_columns(source.column_names(), Domain.of(dict.fromkeys(columns, ("", None))), None)
    for batch in source.batches(list(columns)):
        for name in columns:
            seen[name].add(batch.column(name))
    return Domain(tuple(column.attribute() for column in seen.values()))


class ObservedColumn:
    """Values of one column with their frequencies, and their order if any."""

    def __init__(self, name: str, missing: Iterable[str] = ()) -> None:
        self.name, self.missing = name, tuple(missing)
        self.counts: dict[Any, int] = {}
        self.order: list[Any] | None = None
        self.full = False
        self._held = 0

    def add(self, values: pa.Array) -> None:
        """Count a batch, up to the maximum number or size of categories."""
        if self.full:
            return
        kind = values.type
        if pa.types.is_dictionary(kind) and kind.ordered:
            self.order = values.dictionary.to_pylist()
        try:
            counted = _counted(values)
        except pa.ArrowNotImplementedError:
            raise InvalidInput(
                f"column {shown(self.name)} has type {in_one_line(kind)}, which cannot be a category; give texts, "
                "numbers, dates or "
                "yes and no"
            ) from None
        for pair in counted.to_pylist():
            value = pair["values"]
            value = None if isinstance(value, float) and math.isnan(value) else value
            if value not in self.counts:
                self._held += len(value) if isinstance(value, str | bytes) else 1
            self.counts[value] = self.counts.get(value, 0) + pair["counts"]
        self.full = len(self.counts) > SIZE_RANGE[1] or self._held > _MOST_HELD

    def holds(self, mark: str) -> bool:
        """Check whether this text, or the number it represents, occurs."""
        return mark in self.counts or mark in map(number_text_of, self.counts)

    @property
    def dated(self) -> bool:
        """Whether every value is a date."""
        known = [v for v in self.counts if v is not None and v not in self.missing]
        return bool(known) and all(isinstance(v, date) or (isinstance(v, str) and _is_date(v)) for v in known)

    def typed(self) -> dict[Category, int]:
        """List categories in order with their frequencies.

        Numbers and booleans also if the column holds their texts.
        """
        plain: dict[Any, int] = {}
        for value, n in self.counts.items():
            key = None if value in self.missing or number_text_of(value) in self.missing else value
            plain[key] = plain.get(key, 0) + n
        values = [v for v in plain if v is not None]
        read = _reader(values)
        out: dict[Category, int] = {}
        for value in self.order if self.order is not None else values:
            out[read(value)] = out.get(read(value), 0) + plain.get(value, 0)
        ordered = out if self.order is not None else dict(sorted(out.items(), key=lambda pair: _rank(pair[0])))
        return ordered | ({None: plain[None]} if None in plain else {})

    def attribute(self) -> Attribute:
        """Build the attribute; raise InvalidInput if categories are too many."""
        if self.full:
            raise InvalidInput(
                f"column {shown(self.name)} has more than {SIZE_RANGE[1]} values, or very long ones; give it bins, or leave "
                "it out"
            )
        marks = tuple(m for m in self.missing if self.holds(m))
        return Attribute(self.name, tuple(self.typed()), ordered=self.order is not None, missing=marks)


def _counted(values: pa.Array) -> pa.StructArray:
    """Count each value."""
    return pc.value_counts(values.cast(pa.string()) if pa.types.is_string_view(values.type) else values)


def number_text_of(value: Any) -> str | None:
    """Format a number; None for other values."""
    return number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _reader(values: Sequence[Any]) -> Any:
    """Choose the converter from the column's values to categories."""
    if values and all(isinstance(v, str) for v in values):
        if all(v in _BOOLEANS for v in values):
            return _BOOLEANS.__getitem__
        if all(_is_number(v) for v in values):
            return lambda text: _plain(float(text)) if "." in text or "e" in text else int(text)
    return _plain


def _plain(value: Any) -> Category:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, date):
        return edge_text(value)
    return value if isinstance(value, str | int) else str(value)


def _is_number(text: str) -> bool:
    """Check that a text is a number as programs write it.

    Leading zeros would be lost.
    """
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and text in (number_text(number), f"{number_text(number)}.0")


def _is_date(text: str) -> bool:
    if not text[:4].isdigit() or "-" not in text:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _rank(value: Category) -> tuple[bool, float, str]:
    number = float(value) if isinstance(value, int | float) else 0.0
    return isinstance(value, str), number, str(value)
