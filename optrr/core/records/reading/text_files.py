"""Files of text as record batches: CSV in any dialect, and JSON lines, one object for each record.

CSV is text: values are read as strings, so ``007`` stays ``007`` and meets a category by its text. An empty field is
the missing value or the empty text, whichever is declared; where both are, ``""`` in quotes is the empty text.

Encoding and delimiter are inferred from the beginning of the file and the declared names. Nothing there is a guess that
could change a result: the delimiter is the one under which the first line holds the declared names, and a wrong
encoding yields names and categories that are not declared, which are refused.
"""

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from optrr.core.domain.arrays import array_of, numbers_of
from optrr.core.domain.domain import Domain, category_text, listed, shown
from optrr.core.errors import InvalidInput
from optrr.core.records.frames import plain_columns, plain_schema
from optrr.core.records.reading.source import Bytes, RecordsAt, Source, plain_suffix, readable

DELIMITERS = (",", ";", "\t", "|")
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_NO_DELIMITERS = '\0\r\n"'
# Bytes that are used to detect the encoding, and maximum of a first line.
_LOOK = 1 << 20
_LONGEST_HEADER = 1 << 24
# Names of a first line; no domain has more.
_MOST_NAMES = 1 << 21
# Bytes of a file in which the record at fault is looked for, to name its number.
_LOOKED_AT = 1 << 24


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    """Split up to three rows that are not blank, if possible."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in islice(filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), 3):
            rows.append(row)
    return rows


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


# Bytes read at once. Arrow's CSV reader runs up to 32 blocks ahead, so a larger block is memory without speed.
BLOCK = 1 << 20
_LARGEST_BLOCK = 1 << 24
# Cells of a block of wide records.
_CSV_CELLS = 1 << 25
# Arrow's message for a record with too many or too few fields. A handler would not see records that are not UTF-8.
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected \d+ columns, got (\d+)")


def csv_file(where: RecordsAt, domain: Domain | None) -> Source:
    """Open a CSV file with a header line.

    ``domain`` decides whether an empty field is missing (it is without a domain).
    """
    file = _Csv(where, domain)
    return Source(file.name, file.schema, file.read, file.paths, notes=file.notes, share=file.share_read)


class _Csv(Bytes):
    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        super().__init__(where)
        self._domain = domain
        self._encoding = self._encoding_told(where.encoding)
        given = where.delimiter
        if given is not None and not (len(given) == 1 and given.isascii() and given not in _NO_DELIMITERS):
            raise InvalidInput(f"the delimiter is {shown(given)}; give one character, such as ';' or a tab")
        order: tuple[str, ...] = DELIMITERS if given is None else (given,)
        if plain_suffix(self.name) in (".tsv", ".tab"):
            order = tuple(sorted(order, key=lambda d: d != "\t"))
        declared = frozenset(() if domain is None else domain.columns)
        self._delimiter, rows = self._begun(order, declared)
        names, alike = rows[0], {_alike(n) for n in declared}
        if domain is not None and not any(_alike(n) in alike for n in names):
            # the line is not shown: it may be a person's record
            raise InvalidInput(
                f"the first line of {self.name} holds none of the names {listed(domain.names)}; "
                "write the columns' names there, or give ``delimiter`` or ``encoding`` if it has them"
            )
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self._decimal, self._date_format = _decimal(where.decimal), where.date_format
        # the questions and {"ImportId": …} of every column
        self._left_out = 2 * (len(rows) == 3 and all('"ImportId"' in field for field in rows[2]))
        self.notes = (_QUALTRICS,) if self._left_out else ()

    def _encoding_told(self, given: str | None) -> str:
        """Return the given encoding, or detect it from the first bytes."""
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

    def _begun(self, order: Sequence[str], declared: frozenset[str]) -> tuple[str, list[list[str]]]:
        """Detect the delimiter with the most declared or most names; return rows."""
        for size in (_LOOK, _LONGEST_HEADER):
            head = self.head(size)
            try:
                text = codecs.getincrementaldecoder(self._encoding)().decode(head).removeprefix("\ufeff")
            except UnicodeError:
                raise InvalidInput(f"{self.name} is not {self._encoding}; give its encoding, such as latin-1") from None
            if not text.strip() and len(head) < size:
                raise InvalidInput(f"{self.name} is empty; a CSV file starts with the columns' names")
            splits = {d: _first_rows(text, d) for d in order}
            first = {d: rows[0] if rows else [] for d, rows in splits.items()}
            found = max(order, key=lambda d: (len(declared.intersection(first[d])), len(first[d])))
            # another row begins, or there is none
            if first[found] and (len(splits[found]) > 1 or len(head) < size) and len(first[found]) < _MOST_NAMES:
                return found, splits[found]
        raise InvalidInput(
            f"the first line of {self.name} has more than {_MOST_NAMES} names or {_LONGEST_HEADER} bytes; write the columns' "
            "names there"
        )

    def _opened(self, columns: list[str], threads: bool = True) -> pa_csv.CSVStreamingReader:
        """Open Arrow's reader of these columns, as text."""
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
        options = pa_csv.ReadOptions(
            use_threads=threads, block_size=size, encoding=self._encoding, skip_rows_after_names=self._left_out
        )
        return pa_csv.open_csv(self.open(), options, parse, convert)

    def read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches of these columns."""
        try:
            with readable(self.name), self._opened(columns) as batches:
                for batch in batches:
                    columns = [*map(self._converted, batch.columns)]
                    yield settled(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), self._domain)
        except (pa.ArrowException, UnicodeError) as error:
            # a message about a record may hold the same words, as a part of it
            if str(error).startswith("CSV parse error: Empty CSV file"):
                return  # the line of names alone, without its end
            # the library's message may contain a record, so it is not passed on
            raise InvalidInput(f"cannot read {self.name}: {self._reason(str(error))}") from None

    def _converted(self, column: pa.Array) -> pa.Array:
        """Convert numbers to a decimal point, and dates to 2024-03-01."""
        if self._decimal:
            column = pc.replace_substring_regex(column, self._decimal, r"\1.\2")
        if self._date_format:
            try:
                dates = pc.strptime(column, format=self._date_format, unit="s", error_is_null=True)
            except pa.ArrowException:
                raise InvalidInput(
                    f"``date_format`` {self._date_format}: not a date format; give one such as %d.%m.%Y"
                ) from None
            column = pc.coalesce(dates.cast(pa.date32()).cast(pa.string()), column)
        return column

    def _longest_line(self) -> int:
        """Bound the bytes of a line, which must fit in a block."""
        names = sum(len(name.encode()) + 3 for name in self.schema.names)
        return names + sum(max(len((text or "").encode()) for text in a.texts) + 3 for a in self._domain or ())

    def _reason(self, said: str) -> str:
        ragged = _RAGGED.match(said)
        if ragged:
            at, called = self._first_ragged(), _CALLED.get(self._delimiter, repr(self._delimiter))
            return (
                f"{'a record' if at is None else f'record {at}'} has {ragged[2]} fields and the first line "
                f"{len(self.schema)}; quote values that contain the delimiter ({called}, {self._encoding}), or correct "
                "the record"
            )
        if "UTF8" in said or "codec" in said:
            return f"it is not {self._encoding}; give its encoding, such as ``encoding=latin-1``"
        if "straddl" in said or "out of sync" in said:
            return "a record does not end: a quoted value is not closed, or a line break is missing; correct it there"
        return "it is not CSV with one record a line; check how it was written"

    def _first_ragged(self) -> int | None:
        """Find the first record with another number of fields, from 1.

        None if the input cannot be read again, or the record comes late.
        """
        if self.path is None or self._size > _LOOKED_AT:
            return None
        try:
            # Arrow counts rows where it reads one block after another
            with self._opened([], threads=False) as batches:
                for _ in batches:
                    pass
        except (pa.ArrowException, UnicodeError) as error:
            ragged = _RAGGED.match(str(error))
            return int(ragged[1]) - 1 if ragged and ragged[1] else None
        return None


class CsvRecords(pa_csv.CSVWriter):  # type: ignore[misc]  # Arrow has no types
    """Writer of record batches to CSV, dictionaries as their values."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._plain = plain_schema(schema)
        super().__init__(path, self._plain)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Arrow itself takes longer to write dictionaries than texts.
        """
        super().write_batch(pa.RecordBatch.from_arrays(plain_columns(batch), schema=self._plain))


_QUALTRICS = "two rows of headers below the names, as Qualtrics writes them, are left out"


def _decimal(given: str | None) -> str | None:
    """Build the pattern of a number with this decimal separator."""
    if given is None or given == ".":
        return None
    if len(given) != 1 or given.isalnum():
        raise InvalidInput(f"``decimal`` {shown(given)}: not a separator; give one character, such as ','")
    return rf"^(\s*[-+]?\d*){re.escape(given)}(\d+\s*)$"


def settled(batch: pa.RecordBatch, domain: Domain | None) -> pa.RecordBatch:
    """Decide for each attribute whether empty fields are missing or empty texts.

    Other columns are unchanged.
    """
    if domain is None:
        return batch
    columns, declared = [], frozenset(domain.names)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        missing, empty = (name in declared and text in domain[name].codes for text in (None, ""))
        columns.append(column if missing == empty else _with_empty(column.dictionary_encode(), None if missing else ""))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _with_empty(column: pa.DictionaryArray, meant: str | None) -> pa.DictionaryArray:
    """Replace missing values and empty texts by the meaning of an empty field."""
    texts = [text or meant for text in column.dictionary.to_pylist()]
    places = numbers_of(column.indices, len(texts))
    return pa.DictionaryArray.from_arrays(array_of(places, pa.int32()), array_of([*texts, meant], pa.string()))


# Bytes of lines that are read at once, and cells of a batch: a line without a field takes as much memory as one with.
_BLOCK, _JSON_CELLS = 1 << 22, 1 << 20
_LINES = msgspec.json.Decoder(dict[str, Any])
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def json_lines(where: RecordsAt, domain: Domain | None) -> Source:
    """Open a file of JSON lines, as text.

    A number matches its category by its digits; a list of texts stays one.
    """
    del domain
    file = Bytes(where)
    head = file.head(_BLOCK)
    whole = head if len(head) < _BLOCK else head[: head.rfind(b"\n") + 1]
    kinds: dict[str, pa.DataType] = {}
    for record in _decoded(_KEYS, whole.splitlines(), file.name, 0):
        for name, value in record.items():
            kinds[name] = _TEXTS if memoryview(value)[0] == ord("[") else kinds.get(name, pa.string())
    if not kinds:
        raise InvalidInput(f"{file.name} is empty; give one JSON object per line")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        fields, done = [pa.field(name, kinds[name]) for name in columns], 0
        most = max(1, _JSON_CELLS // max(1, len(columns)))
        with readable(file.name), io.BufferedReader(file.open(), _BLOCK) as stream:
            while lines := stream.readlines(_BLOCK):
                records = list(_decoded(_LINES, lines, file.name, done))
                for start in range(0, len(records), most):
                    piece = records[start : start + most]
                    arrays = [category_column([record.get(f.name) for record in piece], f, file.name) for f in fields]
                    yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
                done += len(lines)

    return Source(file.name, pa.schema(list(kinds.items())), read, file.paths, share=file.share_read)


def _decoded(decoder: "msgspec.json.Decoder[Any]", lines: list[bytes], name: str, before: int) -> Iterator[Any]:
    """Decode lines after ``before`` others; hide the decoder's own messages."""
    for at, line in enumerate(lines, before + 1):
        try:
            if text := (line.removeprefix(codecs.BOM_UTF8) if at == 1 else line).strip():
                yield decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise InvalidInput(
                f"cannot read {name}: line {at} is not one whole JSON object, or nested too deeply; write one object per line"
            ) from None


_TEXTS = pa.list_(pa.string())
# Values that are written as category_text writes them.
_WRITTEN = {int, float, bool, date, datetime, time}


def category_column(values: list[Any], field: pa.Field, name: str) -> pa.Array:
    """Convert values to texts or lists of texts; raise InvalidInput for others."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if len(kinds) == 1 and kinds <= _WRITTEN:
            # few values differ
            known = {value: category_text(value) for value in set(values)}
            values = [known[value] for value in values]
        elif kinds & _WRITTEN:
            # of two kinds, equal ones do
            values = [category_text(value) if type(value) in _WRITTEN else value for value in values]
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, UnicodeError):
        raise InvalidInput(
            f"{name}: column {shown(field.name)} contains values other than texts and numbers; leave the column out"
        ) from None
