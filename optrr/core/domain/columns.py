"""One Arrow column in and out of category codes.

A column's values meet the declared categories by canonical text, but without turning the column into text: the
categories are written in the column's own type once, and Arrow's hash lookup does the rest. A category the type cannot
hold (say ``other`` in a column of integers) simply cannot occur in it. Spaces are part of a value; nothing is stripped.
Numbers and dates of an attribute with bins are placed between its edges.

A released column is made from the declaration alone. The type of a true column may tell its values: many readers make floating
point of integers as soon as one is missing, and a dictionary lists the categories that occur.
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

from optrr.core.domain.bins import NO_VALUE, OUTSIDE, Bins
from optrr.core.domain.domain import Attribute, listed, shown
from optrr.core.errors import InvalidInput, in_one_line

Codes = NDArray[np.int32]

# What people write for a missing value; never taken for one unless it is declared, but named in the message.
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
        return _array_of([value for _, value in held], _searchable(self._plain)), codes

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
        if pa.types.is_dictionary(column.type):
            inner = self._encode_plain(column.dictionary)
            declared = inner[(inner >= 0) & (inner != self._missing)]
            if column.type.ordered and np.any(np.diff(declared) < 0):
                theirs = [self.attribute.texts[c] for c in declared]
                raise InvalidInput(
                    f"column {shown(self.attribute.name)} is ordered {listed(theirs)} and declared in the order "
                    f"{listed(self.attribute.texts)}; declare the categories in the column's order, or make it unordered"
                )
            codes = np.append(inner, self._missing)
            at = column.indices.fill_null(len(column.dictionary)) if column.indices.null_count else column.indices
            out: Codes = codes[at.to_numpy(zero_copy_only=False)]
        else:
            out = self._encode_plain(column)
        if out.size and out.min() < 0:
            self._refuse(column, int(np.flatnonzero(out < 0)[0]), first_record)
        return out

    def _encode_plain(self, values: pa.Array) -> Codes:
        if pa.types.is_null(values.type):
            return np.full(len(values), self._missing)
        searched, codes = self._lookup
        try:
            comparable = values if values.type.equals(searched.type) else values.cast(searched.type)
        except pa.ArrowException:
            # Arrow's message holds the value that it could not convert, so it is not shown
            raise InvalidInput(
                f"column {shown(self.attribute.name)} holds {values.type} after {self.kind}; give every column one type"
            ) from None
        at = pc.index_in(comparable, value_set=searched)
        out: Codes = codes[_places(at, len(searched))]
        if values.null_count:
            out[values.is_null().to_numpy(zero_copy_only=False)] = self._missing
        if self.attribute.bins is not None and not pa.types.is_boolean(values.type):
            self._place(out, comparable)
        elif pa.types.is_floating(comparable.type) and out.size and out.min() == OUTSIDE:
            no_number = pc.is_nan(comparable).fill_null(False).to_numpy(zero_copy_only=False)
            out[(out == OUTSIDE) & no_number] = self._missing
            if "0" in self.attribute.codes:
                # −0.0 is another value to Arrow, and the same number
                zero = pc.equal(comparable, 0.0).fill_null(False).to_numpy(zero_copy_only=False)
                out[(out == OUTSIDE) & zero] = self.attribute.codes["0"]
        if self.attribute.rest is not None:
            out[out == OUTSIDE] = self.attribute.codes[self.attribute.rest]
        return out

    def _place(self, out: Codes, values: pa.Array) -> None:
        """Put numbers and dates that are no label into their bins."""
        bins = self.attribute.bins
        assert bins is not None
        rest = np.flatnonzero(out == OUTSIDE)
        if not rest.size:
            return
        chosen = values.take(pa.array(rest)) if rest.size < len(values) else values
        codes = np.array([*self.attribute.bin_codes, self._missing, OUTSIDE], dtype=np.int32)
        if _is_text(values.type):
            coded = chosen.dictionary_encode()
            numbers = bins.parsed(coded.dictionary.to_pylist())[coded.indices.to_numpy(zero_copy_only=False)]
            # a text that is no number is not a missing one
            out[rest] = np.where(np.isnan(numbers), OUTSIDE, codes[bins.codes(numbers)])
        elif _is_date(values.type) == bins.of_dates:
            out[rest] = codes[bins.codes(_numbers(chosen))]

    def _refuse(self, column: pa.Array, row: int, first_record: int) -> None:
        value, attribute = column[row].as_py(), self.attribute
        where = f"column {shown(attribute.name)}, record {first_record + row + 1}"
        if value is None or (isinstance(value, float) and np.isnan(value)):
            raise InvalidInput(
                f'{where}: missing value; declare null as a category (in TOML missing = ["NA"], with any mark; for CSV files '
                '"" will do), or leave the record out'
            )
        if attribute.bins is not None and (outside := _outside(column[row], attribute.bins)):
            # wider bins are no remedy for what they cannot hold at all
            remedy = ": widen the outer ones, to -inf or inf if need be" if "outside" in outside else ""
            raise InvalidInput(f"{where}: {outside}; they are {listed(attribute.bins.labels)}{remedy}")
        raise InvalidInput(
            f"{where}: unknown category ({_kind(value)}{_hint(value, attribute)}); declared are {listed(attribute.texts)}; "
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
    """

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute

    @cached_property
    def _categories(self) -> pa.Array:
        """The released value of every code."""
        categories = self.attribute.categories
        kind = _RELEASED.get(frozenset(type(c) for c in categories if c is not None))
        if kind is not None:
            try:
                return pa.array(categories, kind)
            except (pa.ArrowInvalid, OverflowError):
                pass  # an integer that the type does not hold
        return pa.array(self.attribute.texts, pa.string())

    @cached_property
    def type(self) -> pa.DataType:
        """Arrow type of decoded columns."""
        kind = self._categories.type
        ordered = self.attribute.ordered and pa.types.is_string(kind)
        return pa.dictionary(pa.int32(), kind, ordered=True) if ordered else kind

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """Convert codes, shape (n,), to a column of ``type``."""
        missing = self.attribute.missing_code
        if not pa.types.is_dictionary(self.type):
            return self._categories.take(pa.array(codes, type=pa.int32()))
        if missing is None:
            indices = pa.array(codes, type=pa.int32())
        else:
            indices = pa.array(np.asarray(codes - (codes > missing), dtype=np.int32), mask=codes == missing)
        return pa.DictionaryArray.from_arrays(indices, self._categories.drop_null(), ordered=True)


def _values(coded: Iterable[tuple[str | None, int]], kind: pa.DataType) -> list[tuple[int, object]]:
    """List code and value in an Arrow type of every text that it can hold."""
    return [(code, value) for text, code in coded if (value := _as_value(text, kind)) is not None]


def _places(at: pa.Int32Array, otherwise: int) -> NDArray[np.int32]:
    """Convert an Arrow array to numbers, ``otherwise`` where null.

    ``to_numpy`` and ``fill_null`` would import pandas.
    """
    valid, held = at.buffers()
    if not len(at):
        return np.empty(0, dtype=np.int32)
    places = np.frombuffer(held, np.int32, len(at), 4 * at.offset).copy()
    if at.null_count:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
        places[bits[at.offset : at.offset + len(at)] == 0] = otherwise
    return places


def _array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Build an Arrow array of these values without importing pandas.

    ``pyarrow.array`` imports pandas for a list of texts or numbers.
    """
    if pa.types.is_string(kind):
        encoded = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        numbers = np.array(values, dtype=kind.to_pandas_dtype())
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(numbers)])
    return pa.array(values, type=kind)


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


def _numbers(values: pa.Array) -> NDArray[np.float64]:
    """Convert to doubles, dates as seconds since 1970, null as nan."""
    kind = values.type
    if _is_date(kind):
        moments = values.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)))
        return np.asarray(moments.cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6, dtype=np.float64)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _as_value(text: str | None, kind: pa.DataType) -> Any:
    """Convert a canonical text to a value of an Arrow type; None if impossible.

    Floating point stands for the numbers whose shortest digits are the text, and for the integers it holds exactly (pandas
    turns integers with gaps into it).
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
    """Describe a value outside all bins, never on which side it lies.

    Empty for a text that is not a number or date.
    """
    value, wanted = cell.as_py(), "date" if bins.of_dates else "number"
    if not isinstance(value, str) and (isinstance(value, bool) or isinstance(value, date) != bins.of_dates):
        return f"{_kind(value)}, and the bins are of {wanted}s"
    (number,) = bins.parsed([value]) if isinstance(value, str) else _numbers(pa.array([value], cell.type))
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
