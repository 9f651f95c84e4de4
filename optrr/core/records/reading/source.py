"""Where records lie, and what every reader of them shares: columns, their types, record batches, and limits.

A reader turns one kind of place (a CSV file, a Parquet file, a query, a frame …) into a :class:`Source`. Whatever counts
or randomizes takes sources alone, so that a new kind of place is one module and one line in
:mod:`optrr.core.records.reading.registry`.

What is read is bounded. Compression, dictionaries and views let a few bytes stand for gigabytes. So what is read at once may
take ``MOST_BYTES`` and ``RATIO`` times the bytes that it takes in the file; that is asked before anything is decoded, of the
sizes that a decoder will act on (``parquet_files``, ``arrow_files``). Record batches are looked at again once they are there: a
value may have ``LONGEST_VALUE`` bytes, and a batch is cut so that its columns, written out value by value, take at most
``MOST_BYTES``.

Arrow takes from its own formats what they say of themselves: offsets into texts, numbers of dictionary entries, text that is
said to be UTF-8. Where that is wrong, whoever uses the arrays reads other memory, and the process may crash. So it is
validated.
"""

import glob
import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.core.domain.domain import shown
from optrr.core.errors import InvalidInput, in_one_line
from optrr.core.provenance.provenance import SUFFIX, Origin, Provenance
from optrr.core.records.frames import RECORDS

# Records read so far, and their share of all where that is known.
Watch = Callable[[int, float | None], None]

Place = str | os.PathLike[str]

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class RecordsAt:
    """A place that holds records, and what is known of how they are written there.

    Parameters
    ----------
    place
        a file, a directory of files, a pattern such as ``part-*.parquet``, a list of these (read one after another; names of
        directories such as ``year=2024`` are columns), a database (``duckdb:FILE``, ``sqlite:FILE``, ``postgresql://…``), or
        ``-`` for standard input.
    format
        the kind of file, where its name does not say it: a name of :data:`optrr.core.records.reading.registry.READERS`.
    decimal, date_format
        of CSV: the decimal separator, such as ",", and how dates are written, such as "%d.%m.%Y".
    delimiter, encoding
        of CSV; by default the delimiter that makes the first line hold the declared names, and UTF-8, UTF-16 where the file
        starts with its mark, or windows-1252 where it is not UTF-8.
    query
        for databases: SQL that yields one row per record.
    watch
        called after every batch with the records read so far and their share of all, None where that is not known.
    origins
        what the records say of their randomization, where that has been read already.
    """

    place: Place | Sequence[Place]
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    query: str | None = None
    watch: Watch | None = None
    origins: tuple[Origin, ...] | None = field(default=None, compare=False, repr=False)

    def watched(self, watch: Watch) -> "RecordsAt":
        """The same place, telling of every batch that is read."""
        return replace(self, watch=watch)

    @property
    def named(self) -> list[Place]:
        """Each place that is named."""
        return [self.place] if isinstance(self.place, str | os.PathLike) else list(self.place)

    def __str__(self) -> str:
        places = self.named
        return ", ".join(map(str, places[:3])) + (f", … ({len(places)} in all)" if len(places) > 3 else "")


# Whatever says where records lie.
Places = Place | Sequence[Place] | RecordsAt


def place_of(data: Any) -> RecordsAt | None:
    """The place that a path or a list of paths names, or that is given as such; None for what holds records itself."""
    if isinstance(data, RecordsAt):
        return data
    paths = data if isinstance(data, list | tuple) else [data]
    return RecordsAt(data) if paths and all(isinstance(each, str | os.PathLike) for each in paths) else None


def each_file(where: RecordsAt) -> list[RecordsAt]:
    """Each file of a place on its own, and what is no directory, pattern or list as it is.

    None of them where they cannot be found: that error is left to the code that reads the records.
    """
    try:
        files = None if where.query else files_at(where.place)
    except InvalidInput:
        return []
    return [where] if files is None else [replace(where, place=path) for path in files]


class Source(ABC):
    """Records at one place: ``name`` for messages, ``schema``, and the batches.

    ``paths`` are the files that are read; ``rows`` the number of records, None where it is not known beforehand; ``notes`` what
    a person should know of how they are read.
    """

    name: str
    schema: pa.Schema
    paths: tuple[Path, ...] = ()
    rows: int | None = None
    notes: tuple[str, ...] = ()

    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema.names)

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of these columns, in order; memory for a few batches.

        A column of text may come as a dictionary where ``schema`` says text.

        Raises InvalidInput where the place cannot be read to its end, or can be read only once and has been.
        """

    def share_read(self) -> float | None:
        """Share of the place that has been read so far, 0..1; None where that is not known."""
        return None


class Passing(Source):
    """Another source, of which something is changed on the way."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.schema, self.paths, self.rows = source.name, source.schema, source.paths, source.rows
        self.notes = source.notes

    def share_read(self) -> float | None:
        """The other's."""
        return self.source.share_read()


class Once(Source):
    """Record batches that come one after another and cannot be asked for again: a pipe, an iterator, a query's result."""

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.name = name
        first = next(batches, None)
        if first is None:
            raise InvalidInput(f"{name} holds no records; give at least one")
        self.schema = first.schema
        self._first: pa.RecordBatch | None = first
        self._rest = batches

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches; a second call is refused, and so is a batch of other columns, or of other records, than the first."""
        first, self._first = self._first, None
        if first is None:
            raise InvalidInput(f"{self.name} can be read only once; write it to a file and name that")
        known = self.schema
        for batch in chain([first], self._rest):
            if batch.schema.names != known.names:
                raise InvalidInput(f"{self.name} yields batches of different columns; give all of them the same")
            if batch.schema.metadata != known.metadata and self._said(batch.schema) != self._said(known):
                raise InvalidInput(
                    f"{self.name} yields batches of different releases, or true records among randomized ones; "
                    "give each on its own"
                )
            yield batch.select(list(columns))

    def _said(self, schema: pa.Schema) -> Provenance | None:
        return Provenance.from_metadata(schema.metadata, self.name)


WILD = "*?["


def files_at(place: Place | Sequence[Place]) -> list[Path] | None:
    """The files of a directory, a pattern or a list; None for a place that is none of these.

    In a directory, names that begin with a dot or an underscore are left out (Spark writes such beside its data), and so are
    sidecars, which say where records come from and hold none. Raises InvalidInput where there are none.
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


MOST_BYTES = 1 << 28
# Sorted categories shrink to less than a hundredth, so that large files may grow, too; a small one may grow to MOST_BYTES.
RATIO = 16
# No category, name or weight is longer; what a CSV file holds in one line is about as much.
LONGEST_VALUE = 1 << 18
_VIEW = np.dtype([("bytes", "<i4"), ("rest", "V12")])


class BoundedSource(Source):
    """A reader whose batches are cut to ``at_once`` records and ``MOST_BYTES``, and whose values are not too long."""

    at_once = RECORDS

    @abstractmethod
    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The batches of these columns, of any size."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of bounded size. Raises InvalidInput for a value that is too long, and for lists, too."""
        for batch in self._read(list(columns)):
            for start in range(0, max(batch.num_rows, 1), self.at_once):
                yield from _bounded(batch.slice(start, self.at_once), self.name)


def require_small(decoded: int, held: int, name: str) -> None:
    """Refuse, with InvalidInput, what ``held`` bytes of a file take in memory, decoded at once, where that is too much."""
    if decoded > MOST_BYTES + RATIO * held:
        raise InvalidInput(
            f"cannot read {name}: {held} bytes of it take {decoded} once decoded, and at most {MOST_BYTES} and {RATIO} times "
            "their number are read at once; write it again in smaller batches, or get it from somebody you trust"
        )


def _bounded(batch: pa.RecordBatch, name: str) -> Iterator[pa.RecordBatch]:
    """The batch, cut where its columns, written out value by value, would take too much."""
    widths = [_widest(column, name, field) for field, column in zip(batch.schema.names, batch.columns, strict=True)]
    rows = max(1, MOST_BYTES // max(1, sum(widths)))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def fixed_width(kind: pa.DataType) -> int | None:
    """Bytes of a value of this type, in whole ones; None where values differ in length."""
    try:
        return (int(kind.bit_width) + 7) // 8
    except ValueError:
        return None


def _widest(column: pa.Array, name: str, field: str) -> int:
    """Bytes of the column's longest value."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray) or pa.types.is_dictionary(kind):
        inner = column.dictionary if pa.types.is_dictionary(kind) else column.storage
        return _widest(inner, name, field)
    if pa.types.is_struct(kind):
        return sum(_widest(child, name, field) for child in column.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return int(np.diff(column.offsets).max(initial=0)) * _widest(column.values, name, field)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        _require_known(column, name, field)
    width = 1 if pa.types.is_null(kind) else fixed_width(kind)
    if width is None:
        lengths = _lengths(column)
        if lengths is None:
            raise InvalidInput(
                f"{name}: column {shown(field)} holds {in_one_line(kind)}, which is no category; give texts, numbers, dates or "
                "yes and no"
            )
        width = int(lengths.max(initial=1))
    if width > LONGEST_VALUE:
        raise InvalidInput(
            f"{name}: column {shown(field)} holds a value of {width} bytes, and {LONGEST_VALUE} are the most that are read; "
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
            f"{name}: column {shown(field)} holds dates beyond the years 1 to 9999; mend them, or write them as text"
        ) from None


def _lengths(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Bytes of each text, shape (n,); None where the column holds something else. Nothing is copied."""
    kind, at, n = column.type, column.offset, len(column)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return np.frombuffer(column.buffers()[1] or b"", dtype=_VIEW)["bytes"][at : at + n]
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return None
    offsets = np.frombuffer(column.buffers()[1] or b"", dtype="<i8" if wide else "<i4")
    return np.diff(offsets[at : at + n + 1])


def sound_schema(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema itself, read at ``name``. Raises InvalidInput where a column's name is no text."""
    try:
        schema.names  # noqa: B018 (names are decoded only when they are asked for)
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} names a column in something else than UTF-8; write it again") from None
    return schema


def sound(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The batch itself, read at ``name``. Raises InvalidInput where its arrays are not what they say."""
    try:
        batch.validate(full=True)
    except pa.ArrowException:
        # Arrow's own words may hold a value
        raise InvalidInput(
            f"cannot read {name}: a column is not what it says, or holds text that is not UTF-8; write it again"
        ) from None
    return batch


COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
# Bytes of standard input that are looked at, and decompressed, at once.
_LOOK, _PIECE = 1 << 20, 1 << 12
# Blank characters that a compressed text may have in all, and for each other one.
_BLANK, _BLANK_EACH = 1 << 19, 64


def plain_suffix(name: str) -> str:
    """The suffix without that of a compression: ``.csv`` of ``a.csv.gz``; lower case."""
    path = Path(name)
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What the system says of a file that it cannot read, in one line that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"cannot read {name}: {in_one_line(error.strerror or 'it is damaged or cut off')}; "
            "check the path, and that the file is whole"
        ) from error


class StandardInput(io.RawIOBase):
    """Standard input with its first bytes looked at: they can be taken from it only once, so there is one of these for it."""

    _known: "StandardInput | None" = None

    @classmethod
    def here(cls) -> "StandardInput":
        """Of this process's standard input."""
        if sys.stdin is None:
            raise InvalidInput("standard input is closed; name a file")
        if cls._known is None or cls._known.stream is not sys.stdin.buffer:
            cls._known = cls(sys.stdin.buffer)
        return cls._known

    def __init__(self, stream: Any) -> None:
        self.stream, self._seen, self._opened = stream, b"", False
        self._look(max(map(len, _MAGIC)))
        self.compression = next((name for magic, name in _MAGIC.items() if self._seen.startswith(magic)), None)

    def _look(self, size: int) -> None:
        """Have so many bytes looked at, fewer where it ends before: a pipe hands out what it holds, which may be less."""
        while len(self._seen) < size and (more := self.stream.read1(_LOOK)):
            self._seen += more

    def head(self, size: int) -> bytes:
        """Its first bytes, decompressed; fewer only where it has no more."""
        self._require_unread()
        if self.compression is None:
            self._look(size)
            return self._seen[:size]
        held = _LOOK
        while True:
            self._look(held)
            out = b""
            with pa.CompressedInputStream(pa.BufferReader(self._seen), self.compression) as stream, suppress(OSError):
                # what was looked at may end in the middle of a compressed block, and a piece that reaches beyond gives nothing
                while len(out) < size and (piece := stream.read(min(_PIECE, size - len(out)))):
                    out += piece
            if len(out) == size or len(self._seen) < held:
                return out
            held *= 4

    def open(self) -> pa.NativeFile:
        """All of it, as it came, once."""
        self._require_unread()
        self._opened = True
        return pa.PythonFile(self, mode="r")

    def _require_unread(self) -> None:
        if self._opened:
            raise InvalidInput("standard input can be read only once; write it to a file and name that")

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """What has been looked at, then the rest."""
        if self._seen:
            size = len(self._seen) if size < 0 else size
            out, self._seen = self._seen[:size], self._seen[size:]
            return out
        return bytes(self.stream.read(size))


class _Text(io.RawIOBase):
    """Decompressed text that is not mostly blank: a few bytes may stand for gigabytes of blank lines."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name, self._blank, self._other = stream, name, 0, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises InvalidInput where most so far are blank."""
        piece = bytes(self._stream.read(size))
        blank = int(np.count_nonzero(np.frombuffer(piece, np.uint8) <= ord(" ")))
        self._blank, self._other = self._blank + blank, self._other + len(piece) - blank
        if self._blank > _BLANK + _BLANK_EACH * self._other:
            raise InvalidInput(
                f"cannot read {self._name}: it holds {self._blank} blank characters and {self._other} others; write it again "
                "without blank lines and padding"
            )
        return piece


class ByteReader(BoundedSource):
    """A reader of the bytes of a file, or of standard input, decompressed; a file may be opened as often as asked."""

    def __init__(self, where: RecordsAt) -> None:
        place = str(where.place)
        piped = place == STANDARD_INPUT
        self.name = "standard input" if piped else place
        self._piped = StandardInput.here() if piped else None
        self.path = None if piped else Path(place)
        self._raw: pa.NativeFile | None = None
        self._size = 0
        if self.path is not None:
            if self.path.is_fifo():
                # opened to be looked at, it would be used up
                raise InvalidInput(
                    f"{place} is a pipe, and files are read more than once; give it as standard input (-)"
                )
            self.paths = (self.path,)
            with readable(self.name):
                self._size = self.path.stat().st_size
                self.path.open("rb").close()

    def open(self) -> pa.NativeFile:
        """The bytes from the beginning; the last stream opened is the one whose share is told."""
        if self._piped is not None:
            raw, compression = self._piped.open(), self._piped.compression
        else:
            assert self.path is not None
            with readable(self.name):
                raw = pa.OSFile(str(self.path), "rb")
            self._raw, compression = raw, COMPRESSIONS.get(self.path.suffix.lower())
        return raw if compression is None else pa.CompressedInputStream(raw, compression)

    def open_text(self) -> pa.NativeFile:
        """As :meth:`open`; compressed text that is mostly blank is refused."""
        stream = self.open()
        return pa.PythonFile(_Text(stream, self.name), mode="r") if self._is_compressed else stream

    @property
    def _is_compressed(self) -> bool:
        if self._piped is not None:
            return self._piped.compression is not None
        return self.path is not None and self.path.suffix.lower() in COMPRESSIONS

    def head(self, size: int) -> bytes:
        """The first bytes, decompressed, without using up a pipe."""
        with readable(self.name):
            if self._piped is not None:
                return self._piped.head(size)
            # `read` of pyarrow does not give back what it allocated where the bytes cannot be decompressed
            start = bytearray(size)
            with self.open() as stream:
                return bytes(start[: stream.readinto(start)])

    def share_read(self) -> float | None:
        """Share of the file's bytes that the last stream has read; None for a pipe."""
        if self._raw is None or not self._size:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)
