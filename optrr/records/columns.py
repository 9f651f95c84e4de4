"""One Arrow column in and out of category codes.

A column's values meet the declared categories by canonical text, but without turning the column into text: the
categories are written in the column's own type once, and Arrow's hash lookup does the rest. A category the type cannot
hold (say ``other`` in a column of integers) simply cannot occur in it. Spaces are part of a value; nothing is stripped.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.records.domain import Attribute, listed

Codes = NDArray[np.int32]

_UNKNOWN = -1
_MISSING = -2


class ColumnCodec:
    """Encodes columns of Arrow type ``kind`` to codes of ``attribute`` (int32), and decodes codes to ``output_type``.

    ``output_type`` is ``kind`` where it can hold every declared category, otherwise text. It depends on the
    declaration alone, never on the data.

    Raises
    ------
    InvalidInput
        for a type that is neither text, integer, floating point, boolean, nor a dictionary of one of them.
    """

    def __init__(self, attribute: Attribute, kind: pa.DataType) -> None:
        self.attribute = attribute
        self.kind = kind
        self._plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (_is_text(self._plain) or _is_number(self._plain) or pa.types.is_boolean(self._plain)):
            if not pa.types.is_null(self._plain):
                raise InvalidInput(f"column {attribute.name!r} has type {kind}; convert it to text or integers")
            self._plain = pa.string()

    @cached_property
    def _held(self) -> list[tuple[int, object]]:
        """Code and value, in the column's own type, of every category that the type can hold."""
        values = ((code, _as_value(text, self._plain)) for code, text in enumerate(self.attribute.texts))
        return [(code, value) for code, value in values if value is not None]

    @cached_property
    def _lookup(self) -> tuple[pa.Array, Codes]:
        """Values to search, and the code of each; one more code at the end, for what is not found."""
        codes = np.array([code for code, _ in self._held] + [_UNKNOWN], dtype=np.int32)
        return pa.array([value for _, value in self._held], type=_searchable(self._plain)), codes

    @property
    def _missing(self) -> np.int32:
        missing = self.attribute.missing_code
        return np.int32(_MISSING if missing is None else missing)

    @property
    def keeps_type(self) -> bool:
        """Whether decoded columns have the type of the encoded ones."""
        return len(self._held) == self.attribute.size - (self.attribute.missing_code is not None)

    @cached_property
    def output_type(self) -> pa.DataType:
        """Arrow type of decoded columns."""
        if not self.keeps_type:
            return pa.string()
        if not pa.types.is_dictionary(self.kind):
            return pa.string() if pa.types.is_null(self.kind) else self.kind
        index = self.kind.index_type
        wide = np.iinfo(index.to_pandas_dtype()).max >= self.attribute.size - 1
        return pa.dictionary(index if wide else pa.int32(), self._plain, ordered=self.kind.ordered)

    @cached_property
    def _categories(self) -> pa.Array:
        """All categories, in order, null for the missing value, in the output's plain type."""
        plain = self.output_type.value_type if pa.types.is_dictionary(self.output_type) else self.output_type
        return pa.array([_as_value(text, plain) for text in self.attribute.texts], type=_searchable(plain))

    def encode(self, column: pa.Array, first_record: int = 0) -> Codes:
        """Codes of a column, shape (n,), int32; ``first_record`` is its offset, for error messages.

        Raises
        ------
        InvalidInput
            naming the first unknown or missing value and the record it stands in (counted from 1).
        """
        if pa.types.is_dictionary(column.type):
            codes = np.append(self._encode_plain(column.dictionary), self._missing)
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
        comparable = values if values.type.equals(searched.type) else values.cast(searched.type)
        places = pc.index_in(comparable, value_set=searched)
        out: Codes = codes[places.fill_null(len(searched)).to_numpy(zero_copy_only=False)]
        if values.null_count:
            out[values.is_null().to_numpy(zero_copy_only=False)] = self._missing
        return out

    def _refuse(self, column: pa.Array, row: int, first_record: int) -> None:
        value, name = column[row].as_py(), self.attribute.name
        where = f"column {name!r}, record {first_record + row + 1}"
        if value is None:
            raise InvalidInput(
                f'{where}: missing value; declare null as a category (TOML has no null: for CSV files "" will do), or leave '
                "the record out"
            )
        raise InvalidInput(f"{where}: unknown category {value!r}; declared are {listed(self.attribute.texts)}")

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """A column of ``output_type`` from codes, shape (n,)."""
        missing = self.attribute.missing_code
        if not pa.types.is_dictionary(self.output_type):
            values = self._categories.take(pa.array(codes, type=pa.int32()))
            return values if values.type.equals(self.output_type) else values.cast(self.output_type)
        # the dictionary comes from the declaration: one read off the data would publish which categories occur
        index_type = self.output_type.index_type
        if missing is None:
            indices, dictionary = pa.array(codes, type=pa.int32()).cast(index_type), self._categories
        else:
            shifted = np.asarray(codes - (codes > missing), dtype=np.int32)
            indices = pa.array(shifted, mask=codes == missing).cast(index_type, safe=False)
            dictionary = self._categories.drop_null()
        dictionary = dictionary.cast(self.output_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=self.output_type.ordered)


def _searchable(kind: pa.DataType) -> pa.DataType:
    """Arrow's hash lookup and take have no kernels for string views."""
    return pa.string() if pa.types.is_string_view(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _as_value(text: str | None, kind: pa.DataType) -> str | int | float | bool | None:
    """The value of an Arrow type whose canonical text is ``text``, None where the type has none.

    Floating point stands for the integers it holds exactly (pandas turns integers with gaps into it).
    """
    if text is None or _is_text(kind):
        return text
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text)
    if not (text.lstrip("-").isascii() and text.lstrip("-").isdigit()) or str(number := int(text)) != text:
        return None
    numpy_type = np.dtype(kind.to_pandas_dtype())
    if numpy_type.kind == "f":
        exact = abs(number) <= 1 << (np.finfo(numpy_type).nmant + 1)
        return float(number) if exact else None
    limits = np.iinfo(numpy_type)
    return number if limits.min <= number <= limits.max else None
