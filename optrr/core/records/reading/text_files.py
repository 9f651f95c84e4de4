"""Files of text as record batches: CSV in any dialect, and JSON lines, one object for each record.

CSV is text: values are read as strings, so ``007`` stays ``007`` and meets a category by its text. An empty field is
the missing value or the empty text, whichever is declared; where both are, ``""`` in quotes is the empty text.

Encoding and delimiter are told from the beginning of the file and the declared names. Nothing there is a guess that could
change a result: the delimiter is the one under which the first line holds the declared names, and a wrong encoding yields names
and categories that are not declared, which are refused.
"""

import codecs
import csv
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from optrr.core.domain.domain import Domain, listed, shown
from optrr.core.errors import InvalidInput
from optrr.core.records.reading.source import ByteReader, RecordsAt, plain_suffix, readable, sound, sound_schema

DELIMITERS = (",", ";", "\t", "|")
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# A line with the line breaks inside its quotes. Nothing is tried again, whatever stands there.
_LINE = re.compile(r'[^"\r\n]*+(?:"[^"]*+"[^"\r\n]*+)*+')
_NO_DELIMITERS = '\0\r\n"'
# Bytes that are looked at to tell the encoding, and those that a first line may take.
_LOOK = 1 << 20
_LONGEST_HEADER = 1 << 24
# Names of a first line; no domain has more.
_MOST_NAMES = 1 << 21
# Records among which the one at fault is looked for, to name its number.
_LOOKED_AT = 200_000
# Columns that a file may have beside the declared ones, and columns and keys where none is declared: each costs time and memory
# out of proportion to its bytes.
_MOST_UNDECLARED, _MOST_COLUMNS, _MOST_KEYS = 10_000, 1 << 17, 1 << 15


def _require_few(names: int, most: int, what: str) -> None:
    if names > most:
        raise InvalidInput(f"{what} has {names} columns, and {most} are the most that are read; leave out the others")


def _end_of_line(text: str) -> int | None:
    """Where the first line that is not blank ends; None where it goes on."""
    line = _LINE.match(text, len(text) - len(text.lstrip()))
    return line.end() if line and text[line.end() : line.end() + 1] in ("\r", "\n") else None


def _split(header: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(header.lstrip("\r\n"), newline=""), delimiter=delimiter), [])
    except csv.Error:
        return [header]


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


# Bytes read at once. Arrow's CSV reader runs up to 32 blocks ahead, so a larger block is memory without speed.
BLOCK = 1 << 20
_LARGEST_BLOCK = 1 << 24
# Cells of a block of wide records.
_CSV_CELLS = 1 << 25
# What Arrow says of a record with too many fields or too few. A handler of its own would not be told of one that is not UTF-8.
_RAGGED = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected \d+ columns, got (\d+)")


class CsvFile(ByteReader):
    """A CSV file with a line of names; ``domain`` settles what an empty field means (missing, where it is None)."""

    at_once = sys.maxsize  # a block of text is small enough

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        super().__init__(where)
        self._domain = domain
        self._encoding = self._encoding_told(where.encoding)
        header = self._first_line()
        if not header:
            raise InvalidInput(f"{self.name} is empty; a CSV file starts with the columns' names")
        given = where.delimiter
        if given is not None and not (len(given) == 1 and given.isascii() and given not in _NO_DELIMITERS):
            raise InvalidInput(f"the delimiter is {shown(given)}; give one character, such as ';' or a tab")
        order: tuple[str, ...] = DELIMITERS if given is None else (given,)
        if plain_suffix(self.name) in (".tsv", ".tab"):
            order = tuple(sorted(order, key=lambda d: d != "\t"))
        most = max(header.count(d) for d in order)
        if most >= _MOST_NAMES:
            raise self._long_header()
        declared = frozenset(() if domain is None else domain.names)
        splits = {d: _split(header, d) for d in order}
        self._delimiter = max(order, key=lambda d: (len(declared.intersection(splits[d])), len(splits[d])))
        names, alike = splits[self._delimiter], {_alike(n) for n in declared}
        if domain is not None and not any(_alike(n) in alike for n in names):
            # the line is not shown: it may be somebody's record
            raise InvalidInput(
                f"the first line of {self.name} holds none of the names {listed(domain.names)}; "
                "write the columns' names there, or say --delimiter or --encoding if it has them"
            )
        _require_few(len(names), _MOST_COLUMNS if domain is None else domain.m + _MOST_UNDECLARED, self.name)
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self._decimal, self._date_format = _decimal(where.decimal), where.date_format
        self._left_out = 2 * self._of_qualtrics()
        self.notes = (_QUALTRICS,) if self._left_out else ()

    def _of_qualtrics(self) -> bool:
        """Whether two more rows of headers follow the names, the questions and {"ImportId": …} of every column."""
        try:
            # not every codec can replace what it cannot read
            head = io.StringIO(self.head(_LOOK).decode(self._encoding, "replace"), newline="")
            rows = list(islice(csv.reader(head, delimiter=self._delimiter), 3))
        except (csv.Error, UnicodeError):
            return False
        return len(rows) == 3 and rows[2] != [] and all('"ImportId"' in field for field in rows[2])

    def _encoding_told(self, given: str | None) -> str:
        """The encoding that is given, or that the first bytes tell."""
        if given is not None:
            try:
                # a codec that is no text encoding, such as zip, is refused here, too
                return codecs.lookup(io.TextIOWrapper(io.BytesIO(), given).encoding).name
            except (LookupError, ValueError):
                raise InvalidInput(f"there is no encoding {shown(given)}; give one such as utf-8 or latin-1") from None
        head = self.head(_LOOK)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        try:
            # a character may be cut in two at the end of what is looked at
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError:
            return "cp1252"
        return "utf-8"

    def _first_line(self) -> str:
        """The header with its line breaks inside quotes; bytes are read until it is whole."""
        size = _LOOK
        while True:
            head = self.head(size)
            try:
                text = codecs.getincrementaldecoder(self._encoding)().decode(head).removeprefix("\ufeff")
            except UnicodeError:
                raise InvalidInput(
                    f"{self.name} is not {self._encoding}; say which encoding it has, such as latin-1"
                ) from None
            end = _end_of_line(text)
            if end is not None or len(head) < size:
                return text[:end]
            if size >= _LONGEST_HEADER:
                raise self._long_header()
            size *= 4

    def _long_header(self) -> InvalidInput:
        return InvalidInput(
            f"the first line of {self.name} has more than {_MOST_NAMES} names or {_LONGEST_HEADER} bytes; write the columns' "
            "names there"
        )

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in columns},
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pa_csv.ParseOptions(
            delimiter=self._delimiter,
            newlines_in_values=True,
            ignore_empty_lines=len(self.schema) > 1,
        )
        # wide records come as many at a time as they have columns: drawing from some laws costs a pass over them
        wanted = max(2, min(len(self.schema), _CSV_CELLS // len(self.schema)))
        block = min(wanted * self._longest_line(), _LARGEST_BLOCK)
        size = max(BLOCK, block, 2 * self._longest_line())
        options = pa_csv.ReadOptions(block_size=size, encoding=self._encoding, skip_rows_after_names=self._left_out)
        try:
            with (
                readable(self.name),
                pa_csv.open_csv(
                    self.open_text(), read_options=options, parse_options=parse, convert_options=convert
                ) as batches,
            ):
                for batch in batches:
                    plain = batch if self._domain is None else _empty_fields(batch, self._domain)
                    yield pa.RecordBatch.from_arrays([*map(self._converted, plain.columns)], names=plain.schema.names)
        except (pa.ArrowException, UnicodeError) as error:
            # a message about a record may hold the same words, as a part of it
            if str(error).startswith("CSV parse error: Empty CSV file"):
                return  # the line of names alone, without its end
            # what the library says may hold a record, so it is not passed on
            raise InvalidInput(f"cannot read {self.name}: {self._reason(str(error))}") from None

    def _converted(self, column: pa.Array) -> pa.Array:
        """Numbers with a decimal point, and dates as 2024-03-01."""
        if self._decimal:
            column = pc.replace_substring_regex(column, self._decimal, r"\1.\2")
        if self._date_format:
            try:
                dates = pc.strptime(column, format=self._date_format, unit="s", error_is_null=True)
            except pa.ArrowException:
                raise InvalidInput(
                    f"--date-format {self._date_format}: no format of dates; give one such as %d.%m.%Y"
                ) from None
            column = pc.coalesce(dates.cast(pa.date32()).cast(pa.string()), column)
        return column

    def _longest_line(self) -> int:
        """Bytes that the header and a record of the domain may take: a line must not be longer than a block."""
        names = sum(len(name.encode()) + 3 for name in self.schema.names)
        return names + sum(max(len((text or "").encode()) for text in a.texts) + 3 for a in self._domain or ())

    def _reason(self, said: str) -> str:
        ragged = _RAGGED.match(said)
        if ragged:
            at, called = self._first_ragged(), _CALLED.get(self._delimiter, repr(self._delimiter))
            return (
                f"{'a record' if at is None else f'record {at}'} has {ragged[1]} fields and the first line "
                f"{len(self.schema)}; quote values that hold the delimiter ({called}, {self._encoding}), or mend the record"
            )
        if "UTF8" in said or "codec" in said:
            return f"it is not {self._encoding}; say which encoding it has, such as --encoding latin-1"
        if "straddl" in said or "out of sync" in said:
            return "a record does not end: a quoted value is not closed, or a line break is missing; mend it there"
        return "it is not CSV with one record a line; check how it was written"

    def _first_ragged(self) -> int | None:
        """The record of another number of fields, counted from 1; None where it cannot be looked for again, or comes late."""
        if self.path is None:
            return None
        # only fields are counted, so that a text in another encoding does no harm
        with io.TextIOWrapper(self.open(), encoding=self._encoding, errors="replace", newline="") as text:
            rows = csv.reader(text, delimiter=self._delimiter)
            try:
                next(rows, None)
                records = islice(enumerate(filter(None, rows), 1), _LOOKED_AT)
                return next((at for at, row in records if len(row) != len(self.schema)), None)
            except (csv.Error, UnicodeError):  # a field is longer than this reader takes
                return None


_QUALTRICS = "two rows of headers below the names, as Qualtrics writes them, are left out"


def _decimal(given: str | None) -> str | None:
    """What finds a number with this decimal separator."""
    if given is None or given == ".":
        return None
    if len(given) != 1 or given.isalnum():
        raise InvalidInput(f"--decimal {shown(given)}: no separator; give one character, such as ','")
    return rf"^(\s*[-+]?\d*){re.escape(given)}(\d+\s*)$"


def _empty_fields(batch: pa.RecordBatch, domain: Domain) -> pa.RecordBatch:
    """Settle what an empty field means for each attribute; other columns stay as they are."""
    columns, declared = [], frozenset(domain.names)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        missing, empty = (name in declared and text in domain[name].codes for text in (None, ""))
        if missing == empty:
            columns.append(column)
        else:
            columns.append(column.fill_null("") if empty else pc.if_else(pc.equal(column, ""), None, column))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# Bytes read at once; a line must not be longer.
_BLOCK = 1 << 22
# Cells of a table that is made at once, and for each byte: a record without a column takes as much of it as one with.
_JSON_CELLS, _CELLS_EACH = 1 << 24, 64
# Objects and lists inside one another; Arrow's parser calls itself for each, until the process runs out of stack.
_DEEPEST = 64
# What is said where every line is a record of its own, and Arrow does not read them together.
_CHANGED = (
    f"a field holds values of another type than in the first {_BLOCK >> 20} MB, where it has only missing ones, dates or whole "
    "numbers"
)
# A text, and the colon behind a name. Nothing is tried again: of long texts and many blanks that would take time and memory.
_TEXT = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?+')
_BLANK_LINES = re.compile(rb"\n\s+")
_OBJECT = re.compile(rb"(\xef\xbb\xbf)?\s*\{")


class JsonLines(ByteReader):
    """A file of JSON lines; a column has the type that it has at the beginning of the file."""

    at_once = sys.maxsize  # a block of text is small enough

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        super().__init__(where)
        head = self.head(_BLOCK)
        whole = head if len(head) < _BLOCK else head[: head.rfind(b"\n") + 1]
        if not whole.strip():
            raise InvalidInput(f"{self.name} is empty; give one JSON object per line")
        names = len({name for name, colon in _TEXT.findall(whole) if colon})
        _require_few(names, _MOST_KEYS if domain is None else domain.m + _MOST_UNDECLARED, self.name)
        first = next(self._tables(whole, names))
        self.schema = sound_schema(self._parsed(first, None).schema, self.name)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        with readable(self.name), self.open_text() as stream:
            for lines in (piece for block in self._blocks(stream) for piece in self._tables(block, len(columns))):
                for batch in self._parsed(lines, options).select(columns).to_batches():
                    yield sound(batch, self.name)

    def _blocks(self, stream: pa.NativeFile) -> Iterator[bytes]:
        """The text in pieces of whole lines; what is short enough for one piece is not cut."""
        rest = b""
        while piece := stream.read(_BLOCK):
            end = rest.rfind(b"\n") + 1
            if not end and len(rest) > _BLOCK:
                raise self._refusal()
            if rest[:end].strip():
                yield rest[:end]
            rest = rest[end:] + piece
        if rest.strip():
            yield rest

    def _tables(self, block: bytes, columns: int) -> Iterator[bytes]:
        """The block in pieces of whole lines that fill at most ``_JSON_CELLS`` cells of ``columns`` columns each."""
        most = max(1, _JSON_CELLS // max(1, columns))
        count = block.count(b"{")
        if count <= most:  # at least as many as there are records
            yield block
            return
        if count * columns > _CELLS_EACH * len(block):
            raise InvalidInput(
                f"cannot read {self.name}: its records hold few of their {columns} fields; write it as CSV or Parquet"
            )
        piece: list[bytes] = []
        records = 0
        for line in io.BytesIO(block):
            here = line.count(b"{")
            if here > most:
                raise self._refusal()
            if records + here > most:
                yield b"".join(piece)
                piece, records = [], 0
            piece.append(line)
            records += here
        yield b"".join(piece)

    def _parsed(self, lines: bytes, options: pa_json.ParseOptions | None) -> pa.Table:
        if lines.count(b"\n") > 2 * lines.count(b"{"):
            lines = _BLANK_LINES.sub(b"\n", lines)  # Arrow takes memory for each
        if _depth(lines) > _DEEPEST:
            raise self._refusal(f"a record holds objects or lists more than {_DEEPEST} deep")
        # where the first value is null, Arrow crashes
        if _OBJECT.match(lines):
            read = pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
            try:
                return pa_json.read_json(pa.BufferReader(lines), read_options=read, parse_options=options)
            except pa.ArrowException:
                pass
        raise self._refusal() if options is None else self._refusal(_CHANGED, lines)

    def _refusal(self, said: str = "it is not JSON lines", block: bytes = b"") -> InvalidInput:
        """Which line is no record, of a pipe in the ``block`` at hand, or what is ``said``; Arrow's own words may hold one."""
        kinds: dict[str, type] = {}
        again = io.BytesIO(block) if self.path is None else self.open()
        with io.TextIOWrapper(again, encoding="utf-8", errors="replace") as text:
            lines = islice(iter(partial(text.readline, 2 * _BLOCK), ""), _LOOKED_AT)
            faults = ((at, fault) for at, line in enumerate(lines, 1) if (fault := _fault(line, kinds)))
            for at, fault in faults:
                said = f"a line {fault}" if self.path is None else f"line {at} {fault}"
                break
        return InvalidInput(
            f"cannot read {self.name}: {said}; give one whole JSON object per line, each field of one type"
        )


def _depth(text: bytes) -> int:
    """The most objects and lists that are open at once in JSON; brackets in texts do not count."""
    plain = text if b"\\" not in text else text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain, np.uint8)
    marks = marks[np.isin(marks, np.frombuffer(b'"[]{}', np.uint8))]
    outside = np.cumsum(marks == ord('"'), dtype=np.int64) % 2 == 0
    opened = ((marks == ord("{")) | (marks == ord("["))) & outside
    closed = ((marks == ord("}")) | (marks == ord("]"))) & outside
    return int(np.cumsum(opened.astype(np.int64) - closed).max(initial=0))


def _fault(line: str, kinds: dict[str, type]) -> str | None:
    if not line.strip():
        return None
    if len(line) >= 2 * _BLOCK:
        return f"is longer than {_BLOCK >> 20} MB"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "is cut off or no JSON"
    if not isinstance(record, dict):
        return f"is a {type(record).__name__}, not an object"
    for name, value in record.items():
        kind = float if type(value) is int else type(value)
        if value is not None and kinds.setdefault(name, kind) is not kind:
            return f"has another type of value for {name[:40]!r} than the lines before"
    return None
