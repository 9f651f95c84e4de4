"""A domain proposed from data: the categories that occur there.

This looks at the records, no ε covers it, and the proposal says so.

Order is kept where a column has one, numbers and dates are binned where that is asked for, rare categories are merged into
``other``, which then takes every undeclared value, so that the rare ones need not be written down.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from optrr.errors import InvalidInput
from optrr.printable import amount, brief
from optrr.records.bins import Bins, Edge, bins_of
from optrr.records.columns import MISSING_MARKS
from optrr.records.domain import Attribute, Category, Domain, binned, listed, shown
from optrr.records.frames import checked_columns
from optrr.records.observed import ObservedColumn
from optrr.records.public import NONE, PublicColumns
from optrr.records.reading.registry import open_source

REST = "other"
# A column with more different values than this has no list of categories; where they are numbers or dates, bins are made.
MOST_CATEGORIES = 50
# Digits that edges read off the data keep: enough to tell them apart, few enough to say little about one person.
_DIGITS = 3

# Notes by attribute and key of the specification.
Notes = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Proposing:
    """How to look at the data.

    Parameters
    ----------
    columns
        which to propose attributes for; None for all.
    bins
        by column: a number of bins with about as many records each, or their edges. Under "" a number for every column of
        more than 50 different numbers or dates.
    missing
        marks that stand for a missing value, such as "NA"; none is assumed.
    rare
        categories that occur fewer times than this are merged into "other".
    public
        columns that are no attributes, because they are not to be randomized.
    """

    columns: Sequence[str] | None = None
    bins: Mapping[str, int | Sequence[Any]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    rare: int = 0
    public: PublicColumns = NONE


@dataclass(frozen=True)
class Proposal:
    """What was proposed: the domain, notes on what a person should confirm, columns left out and why, and the look's cost.

    ``disclosed`` says, one sentence each, what the proposal gives away about the records.
    """

    domain: Domain
    records: int
    notes: Notes
    left_out: dict[str, str]
    disclosed: list[str]


def propose(data: Any, wanted: Proposing) -> Proposal:
    """A domain for PUBLIC data, or for data whose owner accepts what the look gives away. One pass, bounded memory.

    Raises
    ------
    InvalidInput
        for columns that are not there, bins for text, or data in which no column can be an attribute.
    """
    source = open_source(data)
    present = source.column_names()
    columns = [n for n in (present if wanted.columns is None else wanted.columns) if n not in wanted.public.names]
    asked = dict.fromkeys(name for name in [*columns, *wanted.bins, *wanted.public.names] if name)
    checked_columns(present, Domain.of(dict.fromkeys(asked, 2)), None)
    seen = {name: ObservedColumn(name, wanted.missing) for name in columns}
    records = 0
    for batch in source.batches(columns):
        records += batch.num_rows
        for name, column in seen.items():
            column.add(batch.column(name))
    if not records:
        raise InvalidInput(f"{source.name} holds no records; give at least one")
    return _proposal(seen, wanted, records)


def _proposal(seen: Mapping[str, ObservedColumn], wanted: Proposing, records: int) -> Proposal:
    attributes, notes, left_out = [], Notes(), {}
    for name, column in seen.items():
        attribute = _attribute(column, wanted, notes)
        if isinstance(attribute, str):
            left_out[name] = attribute
        else:
            attributes.append(attribute)
    if not attributes:
        first = next(iter(left_out))
        raise InvalidInput(f"no column can be an attribute; column {shown(first)} has {left_out[first]}")
    return Proposal(Domain(tuple(attributes)), records, notes, left_out, _disclosed(attributes, wanted))


def _attribute(column: ObservedColumn, wanted: Proposing, notes: Notes) -> Attribute | str:
    """The attribute of a column, or why it can be none."""
    name, values = column.name, column.typed()
    marks = tuple(m for m in wanted.missing if column.holds(m))
    has_missing = None in values
    known: dict[Category, int] = {v: n for v, n in values.items() if v is not None}
    bins = _bins(column, known, wanted)
    if has_missing:
        notes[name, "missing"] = "confirm: it is a category of its own, and costs accuracy"
    if bins is not None:
        notes[name, "bins"] = (
            "confirm: the edges you gave"
            if not isinstance(_asked(name, wanted), int)
            else "confirm: edges read off the data"
        )
        return _with_missing(binned(name, bins, marks), has_missing)
    if len(known) < 2:
        return f"{amount(len(known), 'different value')}, which carries no information"
    if len(known) > MOST_CATEGORIES:
        numbers = column.dated or all(isinstance(v, int | float) for v in known)
        kind = (
            f"numbers or dates; give it bins, --bins {shlex.quote(f'{name}=5')}"
            if numbers
            else "texts; merge them with --rare, or leave it out"
        )
        if not (wanted.rare and not numbers):
            return f"{len(known)} different {kind}"
    kept, rest = _merged(known, wanted.rare)
    if len(kept) + (rest is not None) > MOST_CATEGORIES or len(kept) + (rest is not None) < 2:
        return f"{len(known)} different texts, {len(kept)} of them not rare; leave it out, or choose another --rare"
    notes[name, "categories"] = _what_to_confirm(known, column)
    if rest is not None:
        notes[name, "rest"] = (
            f"confirm: {len(known) - len(kept)} rare categories, and every undeclared value, are read so"
        )
    categories = (*kept, *(() if rest is None or rest in kept else (rest,)))
    return _with_missing(Attribute(name, categories, column.order is not None, None, marks, rest), has_missing)


def _with_missing(attribute: Attribute, has_missing: bool) -> Attribute:
    if not has_missing or attribute.missing_code is not None:
        return attribute
    categories = (*attribute.categories, None)
    return Attribute(attribute.name, categories, attribute.ordered, attribute.bins, attribute.missing, attribute.rest)


def _what_to_confirm(known: Mapping[Category, int], column: ObservedColumn) -> str:
    marks = [v for v in known if isinstance(v, str) and v in MISSING_MARKS]
    if marks:
        return f"confirm: {shown(marks[0])} may mean a missing value; if so, propose again with --missing"
    order = "their order is the column's" if column.order is not None else "their order is the alphabet's or by number"
    return f"confirm: add what may occur and does not here; {order}"


def _merged(known: Mapping[Category, int], rare: int) -> tuple[list[Category], str | None]:
    kept = [v for v, n in known.items() if n >= rare]
    return (list(known), None) if len(kept) == len(known) else (kept, REST)


def _asked(name: str, wanted: Proposing) -> int | Sequence[Any] | None:
    return wanted.bins.get(name, wanted.bins.get(""))


def _bins(column: ObservedColumn, known: Mapping[Category, int], wanted: Proposing) -> Bins | None:
    name, dated = column.name, column.dated
    asked = _asked(name, wanted)
    general = name not in wanted.bins
    numbers = dated or all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
    if asked is None or (general and (not numbers or len(known) <= MOST_CATEGORIES)):
        return None
    if not numbers:
        raise InvalidInput(f"column {shown(name)} is not one of numbers or dates; leave out its bins")
    if not isinstance(asked, int):
        return bins_of(list(asked))
    if column.full:
        raise InvalidInput(f"column {shown(name)} has too many values to find quantiles of; give the edges of its bins")
    if asked < 2:
        raise InvalidInput(f"column {shown(name)} is to have {asked} bins; ask for two or more")
    if asked > len(known):  # and before room is made for more edges than there are values
        raise InvalidInput(f"column {shown(name)} has too few different values for {brief(asked)} bins; ask for fewer")
    values = np.array([_number(v) for v in known])
    edges = _quantiles(values, np.array(list(known.values())), asked)
    inner: list[Edge] = [_date(e) for e in edges] if dated else list(edges)
    if len(set(inner)) < asked - 1:
        raise InvalidInput(f"column {shown(name)} has too few different values for {asked} bins; ask for fewer")
    return Bins((-math.inf, *inner, math.inf))


def _quantiles(values: Any, weights: Any, bins: int) -> list[float]:
    """Inner edges of bins with about as many records each, to three digits of themselves or of the quartiles' distance."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    places = np.searchsorted(below, np.arange(1, bins) / bins)
    step = values[order][np.minimum(places + 1, values.size - 1)]
    whole = bool(np.all(values == np.round(values)))
    # dates, and years, lie close together far from 0, so that their own digits would not tell them apart
    quartiles = values[order][np.searchsorted(below, (0.25, 0.75))]
    spread = _places(float(np.ptp(quartiles)) or float(np.ptp(values)))
    edges = [
        round(e, min(digits, 0) if whole else digits) for e in step.tolist() for digits in [max(_places(e), spread)]
    ]
    return sorted({float(e) for e in edges if e > values.min()})


def _places(number: float) -> int:
    """Digits behind the point that make three significant ones; fewer than none where it is large."""
    return _DIGITS - 1 - math.floor(math.log10(abs(number))) if number else 0


_DAY = 86_400.0


def _number(value: Any) -> float:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return math.floor((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / _DAY)
    return float(value)


def _date(days: float) -> date:
    return date(1970, 1, 1) + timedelta(days=int(days))


def _disclosed(attributes: Sequence[Attribute], wanted: Proposing) -> list[str]:
    """What the proposal gives away, one sentence each."""
    plain = [a.name for a in attributes if a.bins is None]
    cut = [a.name for a in attributes if a.bins is not None and isinstance(_asked(a.name, wanted), int)]
    missing = [a.name for a in attributes if a.missing_code is not None]
    out = ["looking at the records is not private: no epsilon covers what this specification says of them"]
    if plain:
        least = f"at least {wanted.rare} times" if wanted.rare else "even once"
        out.append(f"which categories occur {least} in {listed(plain)}")
    if cut:
        out.append(f"where the quantiles of {listed(cut)} lie, to three digits")
    if missing:
        out.append(f"that somebody's {listed(missing)} is missing")
    return [
        *out,
        "for records that must stay protected, write the categories and edges down beforehand, or use public data",
    ]
