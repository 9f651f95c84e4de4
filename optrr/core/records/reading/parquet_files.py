"""Parquet files as record batches, page by page.

A file keeps text as numbers and a dictionary, and every column of text is read like that: written out, one long text may stand
for gigabytes. Declared columns, or all where none is declared, are handed on so, since a category is then looked up once in the
dictionary instead of once per record; ``schema`` names the type that the file's columns have.

What pages take once decoded is looked at before any of them is decoded. It stands in their headers, which are Thrift structs in
the compact protocol (parquet.thrift, PageHeader). The reader acts on the sizes there, whatever the file's index says of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.records.frames import RECORDS
from optrr.core.records.reading import source

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
# Bytes read at once, cells of a batch of wide records, and the fewest records of one.
_BUFFER = 1 << 20
_CELLS = 1 << 25
_FEWEST = 64
# Bytes of a header that are read first, and at most: statistics of long texts stand in it.
_HEADER, _LONGEST_HEADER = 1 << 9, 1 << 24
# Fields of PageHeader, and of what it holds for each kind of page: number of values, encoding.
_SIZE, _HELD, _DICTIONARY = 2, 3, 7
_KINDS = {5: (1, 2), _DICTIONARY: (1, 2), 8: (1, 4)}
# DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY, whose lengths are all decoded at once; of the second a value may repeat the one
# before, so that each may be as long as the page.
_LENGTHS, _PREFIXES = 6, 7
_LENGTH = 8
# Depth of structs and lists in a header or in the file's index; there are seven.
_DEEPEST = 12
# A list of so many elements or more says how many in a number of its own.
_MANY = 15
# The last bytes of a file: how long its index is, and a mark. Fields of the index: groups of rows, their columns, and of a
# column what it holds; there, where its pages begin, what they take, how many values they hold; where its dictionary begins.
_TAIL, _GROUPS, _COLUMNS, _CHUNK, _PLACES, _DICTIONARY_PAGE = 8, 4, 1, 3, (9, 7, 5), 11


@dataclass(frozen=True)
class _Page:
    size: int
    held: int
    values: int
    encoding: int
    is_dictionary: bool
    header: int

    @property
    def decoded(self) -> int:
        return max(self.size, self.values * _LENGTH if self.encoding in (_LENGTHS, _PREFIXES) else 0)


def _most_rows(path: Path, file: pq.ParquetFile, columns: list[str], rows: int) -> int:
    """How many of at most ``rows`` records may be read at once from these columns; refuses pages that are too large.

    Raises IndexError, ValueError or OverflowError where a header or the file's index is none.
    """
    most = rows
    of_leaves = [field.name for field in file.schema_arrow for _ in range(_leaves(field.type))]
    wanted = frozenset(columns)
    places = [j for j, column in enumerate(of_leaves) if column in wanted]
    with path.open("rb") as opened:
        for chunks in _chunks(opened):
            decoded = held = widths = 0
            for j in places:
                pages = list(_pages(opened, chunks[j]))
                # of a chunk its dictionary and one page are in memory together
                for kind in (True, False):
                    decoded += max((p.decoded for p in pages if p.is_dictionary is kind), default=0)
                held += sum(p.held for p in pages)
                widths += max((p.size for p in pages if p.encoding == _PREFIXES), default=0)
            source.require_small(decoded, held, str(path))
            most = min(most, source.MOST_BYTES // widths) if widths else most
    return max(1, most)


def _leaves(kind: pa.DataType) -> int:
    """Columns of the file that one of this type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    inner = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return sum(_leaves(kind.field(k).type) for k in inner) if inner else 1


@dataclass(frozen=True)
class _Chunk:
    """Where the pages of one column in one group of rows are."""

    start: int
    held: int
    values: int


def _chunks(file: BinaryIO) -> Iterator[list[_Chunk]]:
    """The column chunks of every group of rows, from the file's index; pyarrow, if asked, ends the process at a bad one."""
    file.seek(-_TAIL, SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    file.seek(-_TAIL - size, SEEK_END)
    fields, _ = _struct(file.read(size), 0, 0)
    for group in _list(fields, _GROUPS):
        chunks = []
        for column in _list(group, _COLUMNS):
            held: Any = column.get(_CHUNK) if isinstance(column, dict) else None
            numbers: list[Any] = [held.get(k) for k in (*_PLACES, _DICTIONARY_PAGE)] if isinstance(held, dict) else []
            if not numbers or not all(
                isinstance(number, int) and number >= 0 for number in (*numbers[:3], numbers[3] or 0)
            ):
                raise ValueError("a column of the file's index has no place or size")
            start, size, values, first = numbers
            chunks.append(_Chunk(min(start, first) if first else start, size, values))
        yield chunks


def _list(fields: Any, number: int) -> list[Any]:
    inner = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(inner, list):
        raise ValueError("the file's index lists nothing")
    return inner


def _pages(file: BinaryIO, chunk: _Chunk) -> Iterator[_Page]:
    """The pages of a column chunk, as many as the reader reads."""
    start, end, seen = chunk.start, chunk.start + chunk.held, 0
    while start < end and seen < chunk.values:
        page = _page(file, start)
        yield page
        seen += 0 if page.is_dictionary else page.values
        start += page.header + page.held


def _page(file: BinaryIO, start: int) -> _Page:
    size = _HEADER
    while True:
        file.seek(start)
        head = file.read(size)
        try:
            fields, end = _struct(head, 0, 0)
            break
        except IndexError:
            if len(head) < size or size >= _LONGEST_HEADER:
                raise
            size *= 8
    kind = next((k for k in _KINDS if k in fields), 0)
    inner: Any = fields.get(kind)
    places = _KINDS.get(kind, ()) if isinstance(inner, dict) else ()
    values, encoding = [inner.get(k, 0) for k in places] or (0, 0)
    numbers: list[Any] = [fields.get(_HELD), fields.get(_SIZE), values, encoding]
    if not all(isinstance(number, int) for number in numbers) or min(numbers[:2]) < 0:
        raise ValueError("a page has no size, or a count or an encoding is no number")
    return _Page(fields[_SIZE], fields[_HELD], max(0, values), encoding, kind == _DICTIONARY, end)


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Numbers, structs and lists of a struct, by their field, and where it ends. Raises IndexError where it is cut off."""
    if depth > _DEEPEST:
        raise ValueError("a header is too deep")
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _whole(data, at)
        fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # true and false stand in the kind itself
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _whole(data, at)
    if kind in (7, 8):  # a number of eight bytes, or a text
        length, at = (8, at) if kind == 7 else _varint(data, at)
        if at + length > len(data):
            raise IndexError("a value is cut off")
        return None, at + length
    if kind in (9, 10):
        count, inner = data[at] >> 4, data[at] & 15
        at += 1
        if count == _MANY:
            count, at = _varint(data, at)
        out = []
        for _ in range(count):
            # truth in a list takes a byte of its own
            each, at = (data[at] == 1, at + 1) if inner in (1, 2) else _value(data, at, inner, depth + 1)
            out.append(each)
        return out, at
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise ValueError("a header holds what no page header does")


def _whole(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number is too long")
    return value | data[at] << shift, at + 1


class ParquetFile(source.BoundedSource):
    """A Parquet file; the nameless index that pandas writes is no column unless the domain declares it."""

    def __init__(self, where: source.RecordsAt, domain: Domain | None) -> None:
        if where.place == source.STANDARD_INPUT:
            raise InvalidInput("a Parquet file ends with its index and cannot come through a pipe; name the file")
        path = Path(str(where.place))
        self.name, self.paths = str(path), (path,)
        self._texts: list[str] = []
        declared = () if domain is None else domain.names
        with self._parquet() as file:
            written = source.sound_schema(file.schema_arrow, self.name)
            self.rows = file.metadata.num_rows
        columns = [f for f in written if f.name in declared or not _UNNAMED_INDEX.fullmatch(f.name)]
        self._texts = [f.name for f in columns if _is_text(f.type)]
        # columns of text that are not declared, such as weights and names, are passed on as plain text
        self._plain = set() if domain is None else set(self._texts).difference(declared)
        self.schema = pa.schema(columns, metadata=written.metadata)

    def _parquet(self) -> pq.ParquetFile:
        # with a small buffer and no pre-buffering, pages are read as they are needed, not a whole row group at once
        with source.readable(self.name):
            try:
                return pq.ParquetFile(self.paths[0], pre_buffer=False, buffer_size=_BUFFER, read_dictionary=self._texts)
            except (pa.ArrowException, UnicodeDecodeError, RuntimeError):
                raise InvalidInput(
                    f"cannot read {self.name}: it is not a whole Parquet file; write it again, or name it by what it is"
                ) from None

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        wanted = frozenset(columns)
        width = sum(source.fixed_width(f.type) or 1 for f in self.schema if f.name in wanted)
        size = min(RECORDS, max(_FEWEST, _CELLS // max(len(columns), 1)), max(1, source.MOST_BYTES // max(1, width)))
        with source.readable(self.name), self._parquet() as file:
            try:
                rows = _most_rows(self.paths[0], file, columns, size)
                for batch in file.iter_batches(batch_size=rows, columns=columns):
                    yield source.sound(batch, self.name)
            except InvalidInput:
                raise
            except (pa.ArrowException, IndexError, ValueError, OverflowError, RuntimeError):
                raise InvalidInput(f"cannot read {self.name}: it is damaged; write it again") from None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """As every reader's; text is written out only where it is bounded."""
        for batch in super().batches(columns):
            for name in self._plain.intersection(columns):
                at, field = batch.schema.get_field_index(name), self.schema.field(name)
                batch = batch.set_column(at, field, batch.column(at).cast(field.type))  # noqa: PLW2901
            yield batch


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
