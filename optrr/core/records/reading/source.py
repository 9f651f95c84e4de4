"""Places of records, and the common parts of their readers: columns, their types, record batches, and limits.

A reader turns one kind of place (a CSV file, a Parquet file, a query, a frame …) into a :class:`Source`. Whatever counts
or randomizes takes sources alone, so that a new kind of place is one function and one line in
:mod:`optrr.core.records.reading.registry`.

Reads are bounded: a value may have ``LONGEST_VALUE`` bytes, a batch is cut so that its columns, written out value by
value, take at most ``MOST_BYTES``. Parquet and Arrow files are decompressed by their library before that can be asked.
"""

import glob
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.domain.domain import shown
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance.provenance import SUFFIX, Provenance
from optrr.core.records.frames import RECORDS

# Records read so far, and their proportion of all where that is known.
Watch = Callable[[int, float | None], None]

Place = str | os.PathLike[str]

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class RecordsAt:
    """A place that holds records, and how they are written there, as far as known.

    Parameters
    ----------
    place
        a file, a directory of files, a pattern such as ``part-*.parquet``, a list of these (read one after another; names of
        directories such as ``year=2024`` are columns), a database (``duckdb:FILE``, ``sqlite:FILE``, ``postgresql://…``), or
        ``-`` for standard input.
    format
        the kind of file, if its name does not show it: ``csv``, ``parquet``, ``jsonl``, ``arrow``, ``excel``, ``spss``
        or ``stata``.
    decimal, date_format
        Decimal separator of CSV, such as ",", and format of dates, such as "%d.%m.%Y".
    delimiter, encoding
        Delimiter and encoding of CSV; by default the delimiter that makes the first line hold the declared names, and
        UTF-8, UTF-16 where the file starts with its mark, or windows-1252 where it is not UTF-8.
    query
        SQL query of a database with one row per record.
    watch
        called after every batch with the number of records read so far and their proportion of all, None if that is
        not known.

    Examples
    --------
    >>> import optrr
    >>> place = optrr.RecordsAt("people.csv", delimiter=";", encoding="latin-1")
    >>> place.named
    ['people.csv']
    """

    place: Place | Sequence[Place]
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    query: str | None = None
    watch: Watch | None = None

    def watched(self, watch: Watch) -> "RecordsAt":
        """Return the place with a callback for each batch that is read."""
        return replace(self, watch=watch)

    @property
    def named(self) -> list[Place]:
        """Each place that is named."""
        return [self.place] if isinstance(self.place, str | os.PathLike) else list(self.place)

    def __str__(self) -> str:
        places = self.named
        return ", ".join(map(str, places[:3])) + (f", … ({len(places)} in all)" if len(places) > 3 else "")


# Places of records.
Places = Place | Sequence[Place] | RecordsAt


def place_of(data: Any) -> RecordsAt | None:
    """Return the place of a path or paths; None for records themselves."""
    if isinstance(data, RecordsAt):
        return data
    paths = data if isinstance(data, list | tuple) else [data]
    return RecordsAt(data) if paths and all(isinstance(each, str | os.PathLike) for each in paths) else None


def each_file(where: RecordsAt) -> list[RecordsAt]:
    """List each file of a place; other places are unchanged.

    None of them where they cannot be found: that error is left to the code that reads the records.
    """
    try:
        files = None if where.query else files_at(where.place)
    except InvalidInput:
        return []
    return [where] if files is None else [replace(where, place=path) for path in files]


WILD = "*?["


def files_at(place: Place | Sequence[Place]) -> list[Path] | None:
    """List the files of a directory, pattern or list; None for other places.

    In a directory, names that begin with a dot or an underscore are left out (Spark writes such beside its data), and
    so are sidecars, which have provenance but no records. Raises InvalidInput if no file is found.
    """
    if not isinstance(place, str | os.PathLike):
        listed = [path for each in place for path in files_at(each) or [Path(each)]]
        if not listed:
            raise InvalidInput("an empty list of files was given; name at least one")
        return listed
    text, path = str(place), Path(place)
    if path.is_dir():
        below = (p for p in path.rglob("*") if p.is_file() and not p.name.endswith(SUFFIX))
        files = sorted(p for p in below if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts))
    elif any(c in text for c in WILD) and not path.exists():
        files = sorted(Path(p) for p in glob.glob(text) if Path(p).is_file() and not p.endswith(SUFFIX))
    else:
        return None
    if not files:
        raise InvalidInput(f"there are no files at {text}; check the path")
    return files


# Bytes that a batch may take, written out value by value, and the longest category, name or weight.
MOST_BYTES = 1 << 28
LONGEST_VALUE = 1 << 18

# Bytes of a number, a date or a truth value, and the layout of Arrow's views of texts.
_PLAIN_WIDTH, _VIEW = 8, np.dtype([("bytes", "<i4"), ("rest", "V12")])

# From names of columns to their record batches.
Read = Callable[[list[str]], Iterator[pa.RecordBatch]]


@dataclass(eq=False)
class Source:
    """Records at one place.

    Parameters
    ----------
    name
        Name of the place, for messages.
    schema
        names and types of the columns; a column of text may come as a dictionary.
    read
        gives the record batches of some columns, in order, in memory for a few of them.
    paths
        the files that are read.
    rows
        the number of records, None if it is not known beforehand.
    notes
        remarks for users on how they are read.
    share
        proportion of the place that has been read so far, 0..1; None if that is not known.
    once
        whether they come from a stream that can be read only once.
    """

    name: str
    schema: pa.Schema
    read: Read
    paths: tuple[Path, ...] = ()
    rows: int | None = None
    notes: tuple[str, ...] = ()
    share: Callable[[], float | None] = lambda: None
    once: bool = False

    def column_names(self) -> list[str]:
        """List the columns, in order."""
        return list(self.schema.names)

    def passing(self, read: Read, schema: pa.Schema | None = None) -> "Source":
        """Return the source with a transformation of its batches.

        ``rows`` are known only if the schema is unchanged.
        """
        rows = self.rows if schema is None else None
        return Source(self.name, schema or self.schema, read, self.paths, rows, self.notes, self.share, self.once)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of these columns, of bounded size.

        Raises InvalidInput if the place cannot be read to its end, or can be read only once and has been, and for values
        that are too long, or lists.
        """
        for batch in self.read(list(columns)):
            for start in range(0, max(batch.num_rows, 1), RECORDS):
                yield from _bounded(batch.slice(start, RECORDS), self.name)


def streamed(name: str, batches: Iterator[pa.RecordBatch]) -> Source:
    """Open record batches that can be read only once.

    An iterator or a stream.

    A second reading is refused, and so is a batch of other columns, or of other records, than the first.
    """
    first = next(batches, None)
    if first is None:
        raise InvalidInput(f"{name} contains no records; give at least one")
    known, rest = first.schema, [chain([first], batches)]

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        if not rest:
            raise InvalidInput(f"{name} can be read only once; write it to a file and name that")
        for batch in rest.pop():
            if batch.schema.names != known.names:
                raise InvalidInput(f"{name} yields batches of different columns; give all of them the same")
            metadata = [schema.metadata for schema in (batch.schema, known)]
            if metadata[0] != metadata[1] and len({Provenance.from_metadata(m, name) for m in metadata}) > 1:
                raise InvalidInput(
                    f"{name} yields batches of different releases, or true records among randomized ones; "
                    "give each on its own"
                )
            yield batch.select(columns)

    return Source(name, known, read, once=True)


def _bounded(batch: pa.RecordBatch, name: str) -> Iterator[pa.RecordBatch]:
    """Split the batch if its expanded columns would be too large."""
    widths = [_widest(column, name, field) for field, column in zip(batch.schema.names, batch.columns, strict=True)]
    rows = max(1, MOST_BYTES // max(1, sum(widths)))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def _widest(column: pa.Array, name: str, field: str) -> int:
    """Return the size of the column's longest value.

    Raises InvalidInput if it is too long for a category.
    """
    kind = column.type
    if isinstance(column, pa.ExtensionArray) or pa.types.is_dictionary(kind):
        return _widest(column.dictionary if pa.types.is_dictionary(kind) else column.storage, name, field)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return int(np.diff(column.offsets).max(initial=0)) * _widest(column.values, name, field)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        _require_known(column, name, field)
    if pa.types.is_primitive(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return _PLAIN_WIDTH
    if pa.types.is_nested(kind):
        raise InvalidInput(
            f"{name}: column {shown(field)} has type {in_one_line(kind)}, which cannot be a category; give texts, "
            "numbers, dates or "
            "yes and no"
        )
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Arrow has no function for them, and written out they may take gigabytes
        views = np.frombuffer(column.buffers()[1] or b"", dtype=_VIEW)["bytes"]
        width = int(views[column.offset : column.offset + len(column)].max(initial=1))
    else:
        width = pc.max(pc.binary_length(column)).as_py() or 1
    if width > LONGEST_VALUE:
        raise InvalidInput(
            f"{name}: column {shown(field)} contains a value of {width} bytes, more than the maximum of "
            f"{LONGEST_VALUE}; "
            "leave the column out, or shorten its values"
        )
    return width


def _require_known(dates: pa.Array, name: str, field: str) -> None:
    """Refuse, with InvalidInput, dates of years that Python does not have."""
    ends = pc.min_max(dates)
    try:
        ends["min"].as_py(), ends["max"].as_py()
    except (OverflowError, ValueError):
        raise InvalidInput(
            f"{name}: column {shown(field)} contains dates beyond the years 1 to 9999; correct them, or write them as "
            "text"
        ) from None


def sound(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Validate the arrays of a batch read at ``name``; raise InvalidInput.

    Arrow trusts the metadata of its formats, such as offsets into texts. Where they are wrong, a user of the arrays
    reads other memory.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowException:
        # Arrow's messages may contain a value
        raise InvalidInput(
            f"cannot read {name}: a column does not match its declared type, or contains text that is not UTF-8; "
            "write the file again"
        ) from None
    return batch


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Convert the system's errors on a file to one line that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"cannot read {name}: {in_one_line(error.strerror or 'it is damaged or cut off')}; "
            f"check the path{'' if isinstance(error, FileNotFoundError) else ', and that the file is whole'}"
        ) from error


@contextmanager
def whole(name: str, kind: str) -> Iterator[None]:
    """Convert a library's errors on a damaged file to one line.

    The library's words may hold a value.
    """
    try:
        with readable(name):
            yield
    except InvalidInput:
        raise
    except Exception:  # each library has errors of many kinds
        raise InvalidInput(
            f"cannot read {name}: it is damaged, or not a whole {kind} file; write it again, or name it by its format"
        ) from None


def is_text(kind: pa.DataType) -> bool:
    """Check whether a column of this type holds texts, or bytes of texts."""
    plain = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_binary(plain))


COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
# Bytes of standard input that are looked at before it is read.
_LOOK = 1 << 24


def plain_suffix(name: str) -> str:
    """Return the suffix without compression in lower case: ``.csv`` of a.csv.gz."""
    path = Path(name)
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()


class _StandardInput(io.RawIOBase):
    """Standard input with a look-ahead; it can be read only once."""

    known: ClassVar["_StandardInput | None"] = None

    def __init__(self, stream: Any) -> None:
        self.stream, self.opened = stream, False
        self.seen: bytes = stream.read(_LOOK)

    @classmethod
    def unread(cls) -> "_StandardInput":
        """Return this process's input; raise InvalidInput if closed or read."""
        if sys.stdin is None:
            raise InvalidInput("standard input is closed; name a file")
        if cls.known is None or cls.known.stream is not sys.stdin.buffer:
            cls.known = cls(sys.stdin.buffer)
        if cls.known.opened:
            raise InvalidInput("standard input can be read only once; write it to a file and name that")
        return cls.known

    def readable(self) -> bool:
        """Return true, because the stream can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the bytes already looked at, then the rest."""
        if not self.seen:
            return bytes(self.stream.read(size))
        size = len(self.seen) if size < 0 else size
        piece, self.seen = self.seen[:size], self.seen[size:]
        return piece


class Bytes:
    """Decompressed bytes of a file or of standard input.

    A file can be opened repeatedly.
    """

    def __init__(self, where: RecordsAt) -> None:
        place = str(where.place)
        self._raw: pa.NativeFile | None = None
        if place == STANDARD_INPUT:
            self.name, self.path, self.compression = "standard input", None, None
            _StandardInput.unread()
            return
        self.name, self.path = place, Path(place)
        with readable(self.name):
            self._size = self.path.stat().st_size
            self.path.open("rb").close()
        self.compression = COMPRESSIONS.get(self.path.suffix.lower())

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file, if it is one."""
        return () if self.path is None else (self.path,)

    def open(self) -> pa.NativeFile:
        """Open the bytes from the beginning.

        Progress is that of the last stream opened.
        """
        if self.path is None:
            piped = _StandardInput.unread()
            piped.opened, raw = True, pa.PythonFile(piped, mode="r")
        else:
            with readable(self.name):
                raw = self._raw = pa.OSFile(str(self.path), "rb")
        return raw if self.compression is None else pa.CompressedInputStream(raw, self.compression)

    def head(self, size: int) -> bytes:
        """Return the first bytes, decompressed, without using up a pipe."""
        with readable(self.name):
            if self.path is not None:
                # `read` of pyarrow does not give back what it allocated where the bytes cannot be decompressed
                start = bytearray(size)
                with self.open() as stream:
                    return bytes(start[: stream.readinto(start)])
            return _StandardInput.unread().seen[:size]

    def share_read(self) -> float | None:
        """Share of the file's bytes that the last stream has read; None for a pipe."""
        if self._raw is None or not self._size:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)
