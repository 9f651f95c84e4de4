"""Files as streams of record batches: CSV and Parquet by suffix, in bounded memory.

CSV is text: values are read as strings, so ``007`` stays ``007`` and meets a category by its text. An empty field is
the missing value or the empty text, whichever is declared; where both are, ``""`` in quotes is the empty text.

A target file appears whole or not at all.
"""

from __future__ import annotations

import csv
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from optrr.errors import InvalidInput, in_one_line
from optrr.records.domain import Domain
from optrr.records.frames import RECORDS, checked_columns, column_names, frame_batches, is_frame

SUFFIXES = (".csv", ".parquet")
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")

# Bytes read at once. Arrow's CSV reader runs up to 32 blocks ahead, so a larger block is memory without speed.
_BLOCK = 1 << 20
_LARGEST_BLOCK = 1 << 24
# Cells of a batch of wide records, and the fewest records of one.
_CELLS = 1 << 25
_FEWEST = 64


class RecordFile:
    """A CSV or Parquet file of records: its schema, and its record batches, read as often as asked.

    Parameters
    ----------
    path
        ends in ``.csv`` or ``.parquet``.
    domain
        settles what an empty CSV field means.

    Raises
    ------
    InvalidInput
        where the file is missing, of another suffix, unreadable or without a header.
    """

    def __init__(self, path: str | os.PathLike[str], domain: Domain) -> None:
        self.path = Path(path)
        self.domain = domain
        checked_suffix(self.path)
        with self._readable():
            self.schema = self._read_schema()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
            raise InvalidInput(f"cannot read {self.path}: {in_one_line(error)}") from error

    def _read_schema(self) -> pa.Schema:
        if self.path.suffix.lower() == ".parquet":
            # pandas writes an index that has no name of its own as a column; like a frame's index, it is no attribute
            written = pq.read_schema(self.path)
            return pa.schema(
                [f for f in written if f.name in self.domain.names or not _UNNAMED_INDEX.fullmatch(f.name)]
            )
        with self.path.open(encoding="utf-8-sig", newline="") as lines:
            header = next(csv.reader(lines), [])
        if not header:
            raise InvalidInput(f"{self.path} is empty; a CSV file starts with the columns' names")
        return pa.schema([(name, pa.string()) for name in header])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of these columns, in the file's order, at most 131,072 records or about 8 MB of text each."""
        with self._readable():
            if self.path.suffix.lower() == ".parquet":
                yield from self._parquet_batches(list(columns))
            else:
                yield from self._csv_batches(list(columns))

    def _parquet_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        # with a small buffer and no pre-buffering, pages are read as they are needed, not a whole row group at once
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_BLOCK) as file:
            yield from file.iter_batches(batch_size=min(RECORDS, max(_FEWEST, _CELLS // len(columns))), columns=columns)

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in columns},
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(self.schema) > 1)
        # wide records come as many at a time as they have columns: drawing from some laws costs a pass over them
        wanted = max(2, min(len(self.schema), _CELLS // len(self.schema)))
        block = min(wanted * self._longest_line(), _LARGEST_BLOCK)
        read = pa_csv.ReadOptions(block_size=max(_BLOCK, block, 2 * self._longest_line()))
        with pa_csv.open_csv(self.path, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                yield _empty_fields(batch, self.domain)

    def _longest_line(self) -> int:
        """Bytes that the header and a record of the domain may take: a line must not be longer than a block."""
        names = sum(len(name.encode()) + 3 for name in self.schema.names)
        return names + sum(max(len((text or "").encode()) for text in a.texts) + 3 for a in self.domain)


def _empty_fields(batch: pa.RecordBatch, domain: Domain) -> pa.RecordBatch:
    """Settle what an empty field means for each attribute (see the module's text)."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        missing, empty = (text in domain[name].codes for text in (None, ""))
        if missing == empty:
            columns.append(column)
        else:
            columns.append(column.fill_null("") if empty else pc.if_else(pc.equal(column, ""), None, column))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def checked_suffix(path: Path) -> None:
    """Refuse files that are neither CSV nor Parquet by name."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"{path} ends in {path.suffix!r}; records are read and written as .csv or .parquet")


def record_batches(data: Any, domain: Domain, declared: Domain | None) -> Iterator[pa.RecordBatch]:
    """Record batches with the columns of ``domain``, from a frame, a path, or an iterable of record batches.

    Other columns are skipped if ``declared`` has them, or if it is None.

    Raises
    ------
    InvalidInput
        for missing, repeated or undeclared columns; see also :class:`RecordFile`.
    """
    if isinstance(data, str | os.PathLike):
        file = RecordFile(data, domain)
        checked_columns(file.schema.names, domain, declared)
        yield from file.batches(domain.names)
    elif is_frame(data):
        checked_columns(column_names(data), domain, declared)
        yield from frame_batches(data, domain.names)
    elif isinstance(data, Iterable):
        for batch in data:
            if not isinstance(batch, pa.RecordBatch):
                raise InvalidInput(
                    f"an iterable of record batches yielded a {type(batch).__name__}; give RecordBatches"
                )
            checked_columns(batch.schema.names, domain, declared)
            yield batch.select(list(domain.names))
    else:
        raise InvalidInput(
            f"cannot read records from a {type(data).__name__}; give a data frame, a path or record batches"
        )


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to write to; moved in place when the block ends, removed when it fails.

    An existing target stays untouched until then.

    Raises
    ------
    InvalidInput
        where the system does not let the file be written (no such directory, no permission, no space).
    """
    if not target.name or target.is_dir():
        raise InvalidInput(f"cannot write {target}: it is a directory; name a file in it")
    if not target.parent.is_dir():
        raise InvalidInput(f"cannot write {target}: there is no directory {target.parent}; create it first")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())  # or a power failure after the move could leave an empty target
        os.replace(partial, target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {in_one_line(error.strerror or error)}; choose another path"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


class RecordWriter:
    """Writes record batches of one schema to a CSV or Parquet file, by the suffix of ``target``."""

    def __init__(self, path: Path, target: Path, schema: pa.Schema) -> None:
        parquet = target.suffix.lower() == ".parquet"
        self._writer = pq.ParquetWriter(path, schema) if parquet else pa_csv.CSVWriter(path, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch."""
        self._writer.write_batch(batch)

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()
