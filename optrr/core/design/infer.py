"""Proposal of a domain from data: the categories that occur there.

The proposal reads the records without any ε, and states this.

Order is kept where a column has one, numbers and dates are binned on request, rare categories are merged into
``other``, which then takes every undeclared value, so that the rare ones need not be written down.

It also warns of suspicious columns: values that differ in spelling only, dates and numbers that are read as texts,
marks of missing answers. Each such check looks at the values that occur, and gives one sentence; none changes a value.
"""

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.display import SOFTWARE
from optrr.core.display.result import TableResult
from optrr.core.display.text import amount, brief
from optrr.core.domain.bins import Bins, Edge, bins_of
from optrr.core.domain.columns import MISSING_MARKS
from optrr.core.domain.domain import Attribute, Category, Domain, MultiSelect, binned, listed, shown
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.records.frames import checked_columns
from optrr.core.records.multi_select import answers
from optrr.core.records.observed import ObservedColumn
from optrr.core.records.reading.registry import open_source

REST = "other"
# The name under which bins are asked for that no column is named for.
EVERY = "*"
# A column with more different values than this has no list of categories; where they are numbers or dates, bins are made.
MOST_CATEGORIES = 50
# Roles of columns that are probably part of a sampling design, by name in lower case.
_SAMPLING = {"weight": "weight", "stratum": "stratum", "strata": "stratum", "psu": "cluster", "cluster": "cluster"}
# Digits of edges that are computed from data: enough to separate them, few enough to reveal little about one person.
_DIGITS = 3

# Notes by attribute and key of the specification.
Notes = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Proposing:
    """How to look at the data.

    Parameters
    ----------
    columns
        Columns to propose attributes for; None for all.
    bins
        Number of bins with about as many records each, or their edges, by column. Under "*" a number for each column of
        more than 50 different numbers or dates.
    missing
        marks that mean a missing value, such as "NA"; none is assumed.
    rare
        categories that occur fewer times than this are merged into "other".
    public
        columns that are no attributes, because they are not to be randomized.
    multi_select
        columns with several answers in a cell, with what separates these: each option becomes an attribute of no and yes.
    """

    columns: Sequence[str] | None = None
    bins: Mapping[str, int | Sequence[Any]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    rare: int = 0
    public: PublicColumns = NONE
    multi_select: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Proposal(TableResult):
    """A proposed specification.

    The domain, notes to confirm, columns left out with reasons, and the privacy cost of the inspection.

    ``disclosed`` lists the facts about the records that the proposal discloses, and ``doubts`` their suspicious
    features, one sentence each.
    """

    domain: Domain
    records: int
    notes: Notes
    left_out: dict[str, str]
    disclosed: list[str]
    doubts: list[str]
    public: PublicColumns
    source: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """Public columns, columns left out with reasons, and suspicious values."""
        beside = [self.public.warning()] if self.public else []
        return (*beside, *(f"column {name!r} is left out: {why}" for name, why in self.left_out.items()), *self.doubts)

    def headline(self) -> str:
        """Summarize the proposed attributes and their source."""
        return f"{amount(self.domain.m, 'attribute')} proposed from {amount(self.records, 'record')} of {self.source}"

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per attribute: name, size, ordered, confirm."""
        return pa.Table.from_pylist(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        notes: dict[str, list[str]] = defaultdict(list)
        for (name, _), note in self.notes.items():
            notes[name].append(note.removeprefix("confirm: "))
        return [
            {"name": a.name, "size": a.size, "ordered": a.ordered, "confirm": "; ".join(notes[a.name])}
            for a in self.domain
        ]

    def opening(self) -> list[str]:
        """List the first lines of the specification's file."""
        return [
            f"Proposed by {SOFTWARE} from {self.source!r}, {amount(self.records, 'record')}. Confirm every line with "
            "the comment 'confirm'.",
            *(f"Gives away: {line}" for line in self.disclosed[1:-1]),
            *(f"left out: {name!r} has {why}" for name, why in self.left_out.items()),
        ]

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "records": self.records,
            "attributes": self._rows(),
            "left_out": self.left_out,
            "discloses": self.disclosed,
            "doubts": self.doubts,
        }


def propose(data: Any, wanted: Proposing) -> Proposal:
    """Propose a domain from PUBLIC data in one pass with bounded memory.

    Other data only if its owner accepts this disclosure.

    Raises InvalidInput for columns that are not there, bins for text, or data in which no column can be an attribute.
    """
    source = open_source(data)
    present = source.column_names()
    columns = [n for n in (present if wanted.columns is None else wanted.columns) if n not in wanted.public.names]
    asked = dict.fromkeys(
        name for name in [*columns, *wanted.bins, *wanted.public.names, *wanted.multi_select] if name != EVERY
    )
    checked_columns(present, Domain.of(dict.fromkeys(asked, 2)), None)
    seen = {name: ObservedColumn(name, wanted.missing) for name in columns}
    records = 0
    for batch in source.batches(columns):
        records += batch.num_rows
        for name, column in seen.items():
            cells, separator = batch.column(name), wanted.multi_select.get(name)
            column.add(cells if separator is None else pc.list_flatten(answers(cells, separator)))
    if not records:
        raise InvalidInput(f"{source.name} contains no records; give at least one")
    attributes, left_out, doubts = [], {}, [*source.notes]
    notes: Notes = {("", "epsilon"): "confirm: the accuracy of every attribute, in nats"}
    for name, column in seen.items():
        found = _options(column, wanted, notes) if name in wanted.multi_select else _attribute(column, wanted, notes)
        if isinstance(found, str):
            left_out[name] = found
        else:
            attributes += found
        none = (None, "") if name in wanted.multi_select else (None,)
        doubts += doubtful(name, {v: n for v, n in column.typed().items() if v not in none}, wanted.missing)
    if not attributes:
        first = next(iter(left_out))
        raise InvalidInput(f"no column can be an attribute; column {shown(first)} has {left_out[first]}")
    domain, disclosed = Domain(tuple(attributes)), _disclosed(attributes, wanted)
    return Proposal(domain, records, notes, left_out, disclosed, doubts, wanted.public, source.name)


def _options(column: ObservedColumn, wanted: Proposing, notes: Notes) -> list[Attribute] | str:
    """Propose attributes of a multi-select column, or return why it has none."""
    marks = tuple(m for m in wanted.missing if column.holds(m))
    known = {text: n for text, n in column.counts.items() if text and text not in marks}
    kept = sorted(text for text, n in known.items() if n >= wanted.rare)
    rest = len(kept) < len(known)
    if column.full or not 0 < len(kept) <= MOST_CATEGORIES:
        return f"{len(known)} different options, {len(kept)} of them not rare; choose another ``rare``, or leave the column out"
    made = [
        Attribute(
            f"{column.name}: {option}",
            missing=marks,
            rest="yes" if rest and option == REST else None,
            multi_select=MultiSelect(column.name, wanted.multi_select[column.name], option),
        )
        for option in dict.fromkeys([*kept, *([REST] if rest else [])])
    ]
    notes |= {(each.name, "multi_select"): "confirm: the column, its separator, and one option" for each in made}
    return made


def _attribute(column: ObservedColumn, wanted: Proposing, notes: Notes) -> list[Attribute] | str:
    """Propose the attribute of a column, or return why it has no attribute."""
    name, values = column.name, column.typed()
    marks = tuple(m for m in wanted.missing if column.holds(m))
    none = (None,) if None in values else ()
    known: dict[Category, int] = {v: n for v, n in values.items() if v is not None}
    bins = _bins(column, known, wanted)
    if none:
        notes[name, "missing"] = "confirm: it is a separate category, and costs accuracy"
    if bins is not None:
        notes[name, "bins"] = (
            "confirm: the edges you gave"
            if not isinstance(_asked(name, wanted), int)
            else "confirm: edges computed from the data"
        )
        return [replace(binned(name, bins, marks), categories=(*bins.labels, *none))]
    if len(known) < 2:
        return f"{amount(len(known), 'different value')}, which carries no information"
    if len(known) > MOST_CATEGORIES:
        numbers = column.dated or _as_numbers(known) is not None
        kind = (
            f"numbers or dates; give it ``bins={name}=5``, or, if it is a survey weight, ``public=weight={name}``"
            if numbers
            else "texts; merge them with ``rare``, or leave the column out"
        )
        if not (wanted.rare and not numbers):
            if _all_match(_DATE, known):
                kind = "texts that look like dates; give ``date_format``, such as %d.%m.%Y, and bins"
            return f"{len(known)} different {kind}"
    kept = [v for v, n in known.items() if n >= wanted.rare]
    rest = None if len(kept) == len(known) else REST
    if len(kept) + (rest is not None) > MOST_CATEGORIES or len(kept) + (rest is not None) < 2:
        return f"{len(known)} different texts, {len(kept)} of them not rare; leave the column out, or choose another ``rare``"
    absent = no_answers(known)
    theirs = "alphabetical or numerical" if column.order is None else "the column's"
    notes[name, "categories"] = (
        f"confirm: {listed(absent)} may mean a missing value; if so, move it from here to missing"
        if absent
        else f"confirm: add categories that may occur but do not here; the order is {theirs}"
    )
    role = _SAMPLING.get(name.lower())
    if role is not None:
        notes[name, "categories"] += f"; if this is a sampling column, give ``public={role}={name}`` instead"
    if rest is not None:
        notes[name, "rest"] = (
            f"confirm: {len(known) - len(kept)} rare categories, and every undeclared value, are read so"
        )
    categories = (*kept, *(() if rest is None or rest in kept else (rest,)))
    return [Attribute(name, (*categories, *none), bool(column.order), None, marks, rest)]


def _asked(name: str, wanted: Proposing) -> int | Sequence[Any] | None:
    return wanted.bins.get(name, wanted.bins.get(EVERY))


def _bins(column: ObservedColumn, known: Mapping[Category, int], wanted: Proposing) -> Bins | None:
    name, dated = column.name, column.dated
    asked = _asked(name, wanted)
    general = name not in wanted.bins
    plain = None if dated else _as_numbers(known)
    numbers, known = dated or plain is not None, known if plain is None else plain
    if asked is None or (general and (not numbers or len(known) <= MOST_CATEGORIES)):
        return None
    if not numbers:
        raise InvalidInput(
            f"column {shown(name)} is not one of numbers such as 1.5 or dates such as 2024-03-01; write "
            "them so, or leave out its bins"
        )
    if not isinstance(asked, int):
        return bins_of(list(asked))
    if column.full:
        raise InvalidInput(f"column {shown(name)} has too many values to find quantiles of; give the edges of its bins")
    if asked < 2:
        raise InvalidInput(f"column {shown(name)} cannot have {asked} bins; give two or more")
    if asked > len(known):  # and before room is made for more edges than there are values
        raise InvalidInput(f"column {shown(name)} has too few different values for {brief(asked)} bins; give fewer")
    values = np.array([_number(v) for v in known])
    edges = _quantiles(values, np.array(list(known.values())), asked)
    inner: list[Edge] = [date(1970, 1, 1) + timedelta(days=int(e)) for e in edges] if dated else list(edges)
    if len(set(inner)) < asked - 1:
        raise InvalidInput(f"column {shown(name)} has too few different values for {asked} bins; give fewer")
    return Bins((-math.inf, *inner, math.inf))


def _quantiles(values: Any, weights: Any, bins: int) -> list[float]:
    """Compute inner edges of bins with about equal counts, to three digits.

    Three digits of the edges or of the interquartile range.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) / weights.sum()
    places = np.searchsorted(below, np.arange(1, bins) / bins)
    step = values[order][np.minimum(places + 1, values.size - 1)]
    whole = bool(np.all(values == np.round(values)))
    # dates, and years, lie close together far from 0, so that few digits would not separate them
    quartiles = values[order][np.searchsorted(below, (0.25, 0.75))]
    spread = _places(float(np.ptp(quartiles)) or float(np.ptp(values)))
    edges = [
        round(e, min(digits, 0) if whole else digits) for e in step.tolist() for digits in [max(_places(e), spread)]
    ]
    return sorted({float(e) for e in edges if e > values.min()})


def _places(number: float) -> int:
    """Count the decimals of three significant digits; negative for large numbers."""
    return _DIGITS - 1 - math.floor(math.log10(abs(number))) if number else 0


def _as_numbers(known: Mapping[Category, int]) -> dict[Category, int] | None:
    """Count how often each number occurs; None if some value is not a number.

    Texts may have trailing zeros (12.50).
    """
    out: dict[Category, int] = {}
    for value, n in known.items():
        if isinstance(value, bool) or (isinstance(value, str) and not _WRITTEN.fullmatch(value)):
            return None
        number = float(value)  # type: ignore[arg-type]  # the missing value is not among them
        out[number] = out.get(number, 0) + n
    return out


_DAY = 86_400.0


def _number(value: Any) -> float:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return math.floor((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / _DAY)
    return float(value)


def _disclosed(attributes: Sequence[Attribute], wanted: Proposing) -> list[str]:
    """List the disclosures of the proposal, one sentence each."""
    plain = list(
        dict.fromkeys(a.multi_select.column if a.multi_select else a.name for a in attributes if a.bins is None)
    )
    cut = [a.name for a in attributes if a.bins is not None and isinstance(_asked(a.name, wanted), int)]
    missing = [a.name for a in attributes if a.missing_code is not None]
    out = ["reading the records is not private: no epsilon covers what this specification discloses about them"]
    if plain:
        least = f"at least {wanted.rare} times" if wanted.rare else "even once"
        out.append(f"which categories occur {least} in {listed(plain)}")
    if cut:
        out.append(f"where the quantiles of {listed(cut)} lie, to three digits")
    if missing:
        out.append(f"that some records have no {listed(missing)}")
    return [
        *out,
        "for records that must stay protected, write the categories and edges down beforehand, or use public data",
    ]


# Words for a missing answer, in addition to the marks of domain.columns.
_NO_ANSWERS = (
    "refused|refusal|missing|unknown|not known|don't know|dont know|do not know|dk|no answer|not answered|no response|"
    "not stated|not applicable|prefer not to say|prefer not to answer|declined|keine angabe|k.a.|k. a.|weiß nicht|unbekannt"
)
_NO_ANSWER = frozenset(_NO_ANSWERS.split("|"))
# Numbers that mean a missing answer if they are far from all others.
_NO_NUMBER = frozenset([-1, -7, -8, -9, -77, -88, -98, -99, -777, -888, -998, -999, -9999, 99, 999, 9999, 99999])
# How far above the largest other number such a number lies, as a multiple of it.
_APART = 2
# A number as programs write it; one with zeros before it is a code.
_WRITTEN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
# Texts that become numbers or dates if they are read with an option of their own.
_DATE = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})\s*")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d{1,2}\s*|\s*[-+]?\d+\s*")


def doubtful(name: str, known: Mapping[Any, int], missing: Sequence[str]) -> list[str]:
    """List suspicious values of a column, one sentence each.

    Values declared ``missing`` are not suspicious.
    """
    said: list[str] = []
    alike: dict[str, list[str]] = defaultdict(list)
    for word in (v for v in known if isinstance(v, str)):
        alike[_plain(word)].append(word)
    if several := next((values for values in alike.values() if len(values) > 1), None):
        said.append(
            f"{_quoted(several)} differ only in spaces, capitals or how accents are stored, and would be different "
            "categories; write them alike"
        )
    if _all_match(_DATE, known):
        said.append(
            "its texts look like dates such as 01.03.2024; give ``date_format=%d.%m.%Y``, so that they can have bins"
        )
    elif _all_match(_DECIMAL_COMMA, known) and any("," in str(value) for value in known):
        said.append("its texts look like numbers with a decimal comma; give ``decimal=,`` so that they can have bins")
    if marks := no_answers(known):
        quoted = [text if re.fullmatch(r"[\w/.]+", text) else f"'{text}'" for text in map(str, marks[:4])]
        more, each = "also " if missing else "", " ".join(f"``missing={text}``" for text in quoted)
        said.append(f"{listed(marks)} may {more}mean a missing answer; if so, propose again with {each}")
    return [f"column {shown(name)}: {line}" for line in said]


def _plain(text: str) -> str:
    """Normalize a text: spaces, capitals, and the storage of accents."""
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _quoted(values: Sequence[str]) -> str:
    """Quote texts, with escapes for characters that may look alike."""
    plain = len({unicodedata.normalize("NFC", v) for v in values}) == len(values)
    return " and ".join(shown(v) if plain else ascii(v) for v in values[:4])


def _all_match(form: re.Pattern[str], values: Iterable[Category]) -> bool:
    """Check that every value except missing marks is a text of this form."""
    texts = [v for v in values if not (isinstance(v, str) and _is_mark(v))]
    return len(texts) > 1 and all(isinstance(v, str) and form.fullmatch(v) for v in texts)


def _is_mark(text: str) -> bool:
    return text.strip() in MISSING_MARKS or _plain(text) in _NO_ANSWER


def no_answers(known: Iterable[Category]) -> list[Category]:
    """Find values that may mark missing answers.

    Marks, words, and numbers far from all others.
    """
    values = list(known)
    marks: list[Category] = [v for v in values if isinstance(v, str) and _is_mark(v)]
    numbers = {v: number for v in values if (number := _number_of(v)) is not None}
    odd = [v for v, number in numbers.items() if number in _NO_NUMBER]
    rest = [number for v, number in numbers.items() if v not in odd]
    if len(rest) > 1:
        # 99 is an age among ages; it is a mark where nothing else comes near it
        marks += [v for v in odd if (numbers[v] < 0 <= min(rest)) or numbers[v] > _APART * max(rest) >= 0]
    return marks


def _number_of(value: Category) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\s*-?\d+\s*", value) else None
    return float(value)
