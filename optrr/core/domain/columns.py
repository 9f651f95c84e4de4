"""One Arrow column in and out of category codes.

A column's values meet the declared categories by canonical text, but without turning the column into text: the
categories are written in the column's own type once, and Arrow's hash lookup does the rest. A category the type cannot
hold (say ``other`` in a column of integers) simply cannot occur in it. Spaces are part of a value; nothing is stripped.
Numbers and dates of an attribute with bins are placed between its edges.

A released column is made from the declaration alone. The type of a true column may reveal its values: many readers make
floating point of integers as soon as one is missing, and a dictionary lists the categories that occur.
"""

import unicodedata
from collections.abc import Iterable
from datetime import date, datetime, time
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.core.display.text import category_word
from optrr.core.domain.arrays import array_of, numbers_of
from optrr.core.domain.bins import NO_VALUE, OUTSIDE, Bins
from optrr.core.domain.domain import Attribute, listed, shown
from optrr.core.errors import InvalidInput, in_one_line

Codes = NDArray[np.int32]

# Common marks of a missing value; never read as one unless declared, but named in the message.
MISSING_MARKS = frozenset({"", ".", "-", "?", "NA", "N/A", "n/a", "NaN", "nan", "None", "NULL", "null", "<NA>", "NaT"})


class ColumnCodec:
    """Encodes columns of Arrow type ``kind`` to codes of ``attribute`` (int32).

    Raises InvalidInput for a type that is neither text, number, boolean, date, nor a dictionary of one of them.
    """

    def __init__(self, attribute: Attribute, kind: pa.DataType) -> None:
        self.attribute = attribute
        self.kind = kind
        self._plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (_is_text(self._plain) or _is_number(self._plain) or _is_date(self._plain)):
            if not (pa.types.is_null(self._plain) or pa.types.is_boolean(self._plain)):
                raise InvalidInput(
                    f"column {shown(attribute.name)} has type {in_one_line(kind)}; convert it to text or integers"
                )
            self._plain = pa.string() if pa.types.is_null(self._plain) else self._plain

    @cached_property
    def _held(self) -> list[tuple[int, object]]:
        """Code and value of every category that the column's type can hold."""
        return _values(zip(self.attribute.texts, range(self.attribute.size), strict=True), self._plain)

    @cached_property
    def _lookup(self) -> tuple[pa.Array, Codes]:
        """Searchable values with their codes, and a last code for other values."""
        marks = [(mark, int(self._missing)) for mark in self.attribute.missing]
        other = self.attribute.readings.items() if _is_text(self._plain) else ()
        held = [*self._held, *_values([*marks, *other], self._plain)]
        codes = np.array([code for code, _ in held] + [OUTSIDE], dtype=np.int32)
        return array_of([value for _, value in held], _searchable(self._plain)), codes

    @property
    def _missing(self) -> np.int32:
        missing = self.attribute.missing_code
        return np.int32(NO_VALUE if missing is None else missing)

    def encode(self, column: pa.Array, first_record: int = 0) -> Codes:
        """Convert a column to codes, shape (n,), int32.

        ``first_record`` is its offset, for error messages.

        Raises InvalidInput naming the place and the kind, never the value, of the first unknown or missing one (records
        counted from 1); where the data order their categories and the declaration orders them differently.
        """
        if not pa.types.is_dictionary(column.type):
            out = self._encode_values(column)
        else:
            inner = self._encode_values(column.dictionary)
            declared = inner[(inner >= 0) & (inner != self._missing)]
            if column.type.ordered and np.any(np.diff(declared) < 0):
                theirs = [self.attribute.texts[c] for c in declared]
                raise InvalidInput(
                    f"column {shown(self.attribute.name)} is ordered {listed(theirs)} and declared in the order "
                    f"{listed(self.attribute.texts)}; declare the categories in the column's order, or make it unordered"
                )
            out = np.append(inner, self._missing)[numbers_of(column.indices.cast(pa.int32()), inner.size)]
        if out.size and out.min() < 0:
            self._refuse(column, int(np.flatnonzero(out < 0)[0]), first_record)
        return out

    def _encode_values(self, values: pa.Array) -> Codes:
        """Find the codes of values, below 0 for values without one."""
        if pa.types.is_null(values.type):
            return np.full(len(values), self._missing)
        searched, codes = self._lookup
        try:
            comparable = values if values.type.equals(searched.type) else values.cast(searched.type)
        except pa.ArrowException:
            # Arrow's message holds the value that it could not convert, so it is not shown
            raise InvalidInput(
                f"column {shown(self.attribute.name)} has type {values.type} after {self.kind}; give every column one "
                "type"
            ) from None
        out: Codes = codes[numbers_of(pc.index_in(comparable, value_set=searched), len(searched))]
        if values.null_count:
            out[numbers_of(comparable.is_null().cast(pa.uint8()), 0) == 1] = self._missing
        if self.attribute.bins is not None and not pa.types.is_boolean(values.type):
            self._place(out, comparable)
        elif pa.types.is_floating(comparable.type):
            numbers = _doubles(comparable)
            out[(out == OUTSIDE) & np.isnan(numbers)] = self._missing
            if "0" in self.attribute.codes:
                # −0.0 is another value to Arrow, and the same number
                out[(out == OUTSIDE) & (numbers == 0)] = self.attribute.codes["0"]
        if self.attribute.rest is not None:
            out[out == OUTSIDE] = self.attribute.codes[self.attribute.rest]
        return out

    def _place(self, out: Codes, values: pa.Array) -> None:
        """Put numbers and dates that are no label into their bins."""
        bins, rest = self.attribute.bins, np.flatnonzero(out == OUTSIDE)
        assert bins is not None
        if _is_text(values.type):
            coded = values.dictionary_encode()
            texts = np.append(bins.parsed(coded.dictionary.to_pylist()), np.nan)
            numbers = texts[numbers_of(coded.indices, -1)][rest]
            # a text that is no number is not a missing one
            rest, numbers = rest[~np.isnan(numbers)], numbers[~np.isnan(numbers)]
        elif _is_date(values.type) == bins.of_dates:
            numbers = _doubles(values)[rest]
        else:
            return
        codes = np.array([*self.attribute.bin_codes, self._missing, OUTSIDE], dtype=np.int32)
        out[rest] = codes[bins.codes(numbers)]

    def _refuse(self, column: pa.Array, row: int, first_record: int) -> None:
        value, attribute = column[row].as_py(), self.attribute
        where = f"column {shown(attribute.name)}, record {first_record + row + 1}"
        if value is None or (isinstance(value, float) and np.isnan(value)):
            raise InvalidInput(
                f'{where}: missing value; declare null as a category (in TOML missing = ["NA"], with any mark; for CSV files '
                '"" will do), or leave the record out'
            )
        if attribute.bins is not None and (outside := _outside(column[row], attribute.bins)):
            # wider bins are no remedy for values that bins cannot contain
            remedy = ": widen the outer ones, to -inf or inf if need be" if "outside" in outside else ""
            raise InvalidInput(f"{where}: {outside}; they are {listed(attribute.bins.labels)}{remedy}")
        raise InvalidInput(
            f"{where}: unknown category ({_kind(value)}{_hint(value, attribute)}); declared are "
            f"{listed([category_word(text) for text in attribute.texts])}; "
            "correct the record, or declare the category"
        )


# Arrow types by the types that an attribute's categories have.
_RELEASED = {
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
}


class ReleasedColumn:
    """Decoder of codes of ``attribute`` to Arrow columns.

    The ``type`` depends on the declaration alone.

    Whole numbers are int64, numbers double and booleans boolean where all categories are such; all others are texts, those of
    an ordered attribute a dictionary of the categories in their order. The missing value is null.

    Files are written from dictionaries, whose values are all categories, whether they occur or not: Arrow writes these several
    times as fast as texts.
    """

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute

    @cached_property
    def _categories(self) -> pa.Array:
        """The released value of every code but that of the missing value."""
        categories = [c for c in self.attribute.categories if c is not None]
        kind = _RELEASED.get(frozenset(map(type, categories)))
        if kind is not None:
            try:
                return array_of(categories, kind)
            except (pa.ArrowInvalid, OverflowError):
                pass  # an integer that the type does not hold
        return array_of([text for text in self.attribute.texts if text is not None], pa.string())

    @cached_property
    def type(self) -> pa.DataType:
        """Arrow type of decoded columns."""
        return stated_type(self.written)

    @cached_property
    def written(self) -> pa.DataType:
        """Arrow type of encoded columns: a dictionary."""
        kind, narrow = self._categories.type, pa.from_numpy_dtype(np.min_scalar_type(-self.attribute.size))
        return pa.dictionary(narrow, kind, ordered=self.attribute.ordered and pa.types.is_string(kind))

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """Convert codes, shape (n,), to a column of ``type``."""
        coded = self.encoded(codes)
        if not coded.type.ordered:
            return coded.dictionary_decode()
        return pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int32()), coded.dictionary, ordered=True)

    def encoded(self, codes: NDArray[np.integer]) -> pa.DictionaryArray:
        """Convert codes, shape (n,), to a column of type ``written``."""
        missing, known = self.attribute.missing_code, None
        if missing is not None:
            known = pa.py_buffer(np.packbits(codes != missing, bitorder="little"))
            codes = codes - (codes > missing)
        kind = self.written.index_type
        numbers = pa.py_buffer(np.ascontiguousarray(codes, dtype=kind.to_pandas_dtype()))
        indices = pa.Array.from_buffers(kind, len(codes), [known, numbers])
        return pa.DictionaryArray.from_arrays(indices, self._categories, ordered=self.written.ordered)


def stated_type(written: pa.DataType) -> pa.DataType:
    """Return the type that readers see of a column that was written.

    Only ordered dictionaries are stated; others are texts or numbers to readers.
    """
    if not pa.types.is_dictionary(written):
        return written
    kind = written.value_type
    return pa.dictionary(pa.int32(), kind, ordered=True) if written.ordered else kind


def _values(coded: Iterable[tuple[str | None, int]], kind: pa.DataType) -> list[tuple[int, object]]:
    """List code and value in an Arrow type of every text that it can hold."""
    return [(code, value) for text, code in coded if (value := _as_value(text, kind)) is not None]


def _searchable(kind: pa.DataType) -> pa.DataType:
    """Return the type to search in.

    Arrow's hash lookup and take have no kernels for string views, halves and decimals.
    """
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_float16(kind):
        return pa.float32()
    return pa.float64() if pa.types.is_decimal(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _doubles(values: pa.Array) -> NDArray[np.float64]:
    """Convert to doubles, dates as seconds since 1970, null as nan."""
    if not _is_date(values.type):
        return numbers_of(values.cast(pa.float64(), safe=False), np.nan)
    moments = values.cast(pa.timestamp("us", tz=getattr(values.type, "tz", None))).cast(pa.int64())
    return numbers_of(moments.cast(pa.float64(), safe=False), np.nan) / 1e6


def _as_value(text: str | None, kind: pa.DataType) -> Any:
    """Convert a canonical text to a value of an Arrow type; None if impossible.

    Floating point represents the numbers whose shortest digits are the text, and the integers it holds exactly
    (pandas turns integers with gaps into it).
    """
    if text is None or _is_text(kind):
        return text
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text)
    if _is_date(kind):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        return moment if pa.types.is_timestamp(kind) else moment.date() if moment.time() == time.min else None
    if not (text.lstrip("-").isascii() and text.lstrip("-").isdigit()) or str(number := int(text)) != text:
        return None if pa.types.is_integer(kind) else _as_fraction(text, kind)
    numpy_type = np.dtype(_searchable(kind).to_pandas_dtype())
    if numpy_type.kind == "f":
        bits = 11 if pa.types.is_float16(kind) else np.finfo(numpy_type).nmant + 1
        return float(number) if abs(number) <= 1 << int(bits) else None
    limits = np.iinfo(numpy_type)
    return number if limits.min <= number <= limits.max else None


def _as_fraction(text: str, kind: pa.DataType) -> float | None:
    """Parse the shortest digits of a fraction in this type.

    None if the type would round it to another number.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    if not np.isfinite(value) or repr(value) != text:
        return None
    if pa.types.is_float64(kind) or pa.types.is_decimal(kind):
        return value
    narrow = np.float16(value) if pa.types.is_float16(kind) else np.float32(value)
    return float(narrow) if str(narrow) == text else None


def _outside(cell: pa.Scalar, bins: Bins) -> str:
    """Describe a value outside all bins, without saying above or below.

    Empty for a text that is not a number or date.
    """
    value, wanted = cell.as_py(), "date" if bins.of_dates else "number"
    if not isinstance(value, str) and (isinstance(value, bool) or isinstance(value, date) != bins.of_dates):
        return f"{_kind(value)}, and the bins are of {wanted}s"
    (number,) = bins.parsed([value]) if isinstance(value, str) else _doubles(pa.array([value], cell.type))
    return "" if np.isnan(number) else f"a {wanted} outside the bins"


def _kind(value: object) -> str:
    """Describe the kind of a value, never the value, which is a person's."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "an empty text" if not value else "a text" if _plain_number(value) is None else "a number"
    return "a date" if isinstance(value, date) else "a number"


def _plain_number(text: str) -> float | None:
    """Parse a finite number; None for other texts."""
    try:
        number = float(text) if text.strip() == text and "_" not in text else np.nan
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _hint(value: object, attribute: Attribute) -> str:
    """Suggest which mistake separates a value from a category, not which one."""
    if not isinstance(value, str):
        return ""
    if value in MISSING_MARKS - {""}:
        return f', the mark {value!r}: if it means a missing value, declare missing = ["{value}"]'
    texts = {t for t in attribute.texts if t is not None}
    if value.strip() in texts:
        return " with spaces around it: take them away"
    if value.casefold() in {t.casefold() for t in texts}:
        return " that differs in upper and lower case: write it alike"
    if unicodedata.normalize("NFKC", value) in {unicodedata.normalize("NFKC", t) for t in texts}:
        return " in another Unicode form: write both alike"
    if value.removesuffix(".0") in texts:
        return " that is a number: declare the categories as numbers, without quotes"
    return ""
