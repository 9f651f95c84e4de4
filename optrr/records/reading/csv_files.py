"""CSV files, in any dialect, as record batches of text.

CSV is text: values are read as strings, so ``007`` stays ``007`` and meets a category by its text. An empty field is
the missing value or the empty text, whichever is declared; where both are, ``""`` in quotes is the empty text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.reading.bytes_in import ByteSource, readable
from optrr.records.reading.decoded import bounded
from optrr.records.reading.dialect import dialect_of
from optrr.records.reading.source import RecordsAt, Source

# Bytes read at once. Arrow's CSV reader runs up to 32 blocks ahead, so a larger block is memory without speed.
BLOCK = 1 << 20
_LARGEST_BLOCK = 1 << 24
# Cells of a block of wide records.
_CELLS = 1 << 25
# What Arrow says of a record with too many fields or too few. A handler of its own would not be told of one that is not UTF-8.
_RAGGED = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected \d+ columns, got (\d+)")


class CsvFile(Source):
    """A CSV file with a line of names; ``domain`` settles what an empty field means (missing, where it is None)."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        self._data = ByteSource(str(where.place))
        self.name = self._data.name
        self.paths = () if self._data.path is None else (self._data.path,)
        self._domain = domain
        self.dialect = dialect_of(self._data, where, domain)
        self.schema = pa.schema([(name, pa.string()) for name in self.dialect.names])

    def share_read(self) -> float | None:
        """Share of the file's bytes."""
        return self._data.share_read()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of text, about a megabyte each."""
        try:
            with readable(self.name):
                yield from self._read(list(columns))
        except (pa.ArrowException, UnicodeError) as error:
            # what the library says may hold a record, so it is not passed on
            raise InvalidInput(f"cannot read {self.name}: {self._reason(str(error))}") from None

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in columns},
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pa_csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=len(self.schema) > 1,
        )
        # wide records come as many at a time as they have columns: drawing from some laws costs a pass over them
        wanted = max(2, min(len(self.schema), _CELLS // len(self.schema)))
        block = min(wanted * self._longest_line(), _LARGEST_BLOCK)
        size = max(BLOCK, block, 2 * self._longest_line())
        read = pa_csv.ReadOptions(block_size=size, encoding=self.dialect.encoding)
        with pa_csv.open_csv(
            self._data.open(), read_options=read, parse_options=parse, convert_options=convert
        ) as rows:
            for batch in rows:
                for piece in bounded(batch, self.name):
                    yield piece if self._domain is None else _empty_fields(piece, self._domain)

    def _longest_line(self) -> int:
        """Bytes that the header and a record of the domain may take: a line must not be longer than a block."""
        names = sum(len(name.encode()) + 3 for name in self.schema.names)
        return names + sum(max(len((text or "").encode()) for text in a.texts) + 3 for a in self._domain or ())

    def _reason(self, said: str) -> str:
        """Why the file cannot be read, and the remedy, in our words."""
        ragged = _RAGGED.match(said)
        if ragged:
            at = self._first_ragged()
            return (
                f"{'a record' if at is None else f'record {at}'} has {ragged[1]} fields and the first line "
                f"{len(self.schema)}; quote values that hold the delimiter ({self.dialect}), or mend the record"
            )
        if "UTF8" in said or "codec" in said:
            return f"it is not {self.dialect.encoding}; say which encoding it has, such as --encoding latin-1"
        if "straddl" in said or "out of sync" in said:
            return "a record does not end: a quoted value is not closed, or a line break is missing; mend it there"
        return "it is not CSV with one record a line; check how it was written"

    def _first_ragged(self) -> int | None:
        """The record of another number of fields, counted from 1; None where it cannot be looked for again."""
        if self._data.path is None:
            return None
        # only fields are counted, so that a text in another encoding does no harm
        text = io.TextIOWrapper(self._data.open(), encoding=self.dialect.encoding, errors="replace", newline="")
        with text:
            rows = csv.reader(text, delimiter=self.dialect.delimiter)
            next(rows, None)
            for at, row in enumerate((r for r in rows if r), 1):
                if len(row) != len(self.schema):
                    return at
        return None


def _empty_fields(batch: pa.RecordBatch, domain: Domain) -> pa.RecordBatch:
    """Settle what an empty field means for each attribute (see the module's text); other columns stay as they are."""
    columns, declared = [], frozenset(domain.names)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        missing, empty = (name in declared and text in domain[name].codes for text in (None, ""))
        if missing == empty:
            columns.append(column)
        else:
            columns.append(column.fill_null("") if empty else pc.if_else(pc.equal(column, ""), None, column))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
