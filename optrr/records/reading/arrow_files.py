"""Arrow IPC files (Feather included) and streams as record batches.

What the compressed buffers of Arrow files and streams take once decoded, before any of them is decoded.

Each message has a flatbuffer that says where its buffers stand (Message.fbs); a compressed buffer begins with the number of
bytes that it will take, and the library acts on that number. A file has an index of its messages at its end (File.fbs).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.frames import RECORDS
from optrr.records.reading.bytes_in import ByteSource, bounded, readable, require_small, sound, sound_schema
from optrr.records.reading.source import RecordsAt, Source

_MARK = b"\xff\xff\xff\xff"
# Which header a message has: a dictionary, or a record batch.
_DICTIONARY, _BATCH = 2, 3
_BUFFER, _BLOCK = 16, 24
# Messages whose description is longer are none of records.
_MOST_DESCRIPTION = 1 << 28

ReadAt = Callable[[int, int], bytes]


class Sizes:
    """Adds up what messages take once decoded, and refuses too much; dictionaries stay, a batch goes with the next."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._decoded = self._held = 0

    def check(self, description: bytes, read_at: ReadAt, body: int) -> None:
        """Look at one message; ``read_at`` reads from its body, of ``body`` bytes.

        Raises
        ------
        InvalidInput
            where it takes too much, or is no message.
        """
        try:
            kind, decoded = _decoded(description, read_at)
        except (struct.error, IndexError):
            raise InvalidInput(f"cannot read {self._name}: it is not a whole Arrow file; write it again") from None
        if kind == _DICTIONARY:
            self._decoded, self._held = self._decoded + decoded, self._held + body
            require_small(self._decoded, self._held, self._name)
        elif kind == _BATCH:
            require_small(decoded, body, self._name)


def check_file(file: pa.NativeFile, name: str) -> None:
    """Look at every message that the index of an Arrow file names. Raises InvalidInput as :class:`Sizes`."""
    sizes, size = Sizes(name), file.size()

    def read(at: int, n: int) -> bytes:
        if not 0 <= at <= size or n < 0:
            raise IndexError("a place outside the file")
        file.seek(at)
        return bytes(file.read(n))

    try:
        (length,) = struct.unpack("<i", read(size - 10, 4))
        footer = read(size - 10 - length, length)
        root = _root(footer)
        for field in (2, 3):  # dictionaries, then batches
            for at in _vector(footer, root, field, _BLOCK):
                start, described, body = struct.unpack_from("<qi4xq", footer, at)
                text = read(start, min(described, _MOST_DESCRIPTION))
                text = text[8:] if text.startswith(_MARK) else text[4:]
                sizes.check(text, lambda k, n, base=start + described: read(base + k, n), body)  # type: ignore[misc]
    except (struct.error, IndexError):
        raise InvalidInput(
            f"cannot read {name}: it is not a whole Arrow file; write it again, or name it by what it is"
        ) from None


class CheckedStream(io.RawIOBase):
    """An Arrow stream that is passed on message by message, each looked at first."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._sizes = stream, Sizes(name)
        self._waiting, self._at = b"", 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes, and none but at the end."""
        if self._at >= len(self._waiting):
            self._waiting, self._at = self._message(), 0
        rest = len(self._waiting) - self._at
        start, self._at = self._at, self._at + (rest if size < 0 else min(rest, size))
        return self._waiting[start : self._at]

    def _message(self) -> bytes:
        head = self._take(4)
        if head == _MARK:
            head += self._take(4)
        if len(head) < 4 or head[-4:] == bytes(4):
            return head
        (length,) = struct.unpack("<i", head[-4:])
        description = self._take(length) if 0 < length <= _MOST_DESCRIPTION else b""
        body = self._take(_body(description))
        self._sizes.check(description, lambda at, n: body[at : at + n], len(body))
        return head + description + body

    def _take(self, size: int) -> bytes:
        """So many bytes, fewer only at the end; read in pieces, since a size that is stated may be none."""
        pieces: list[bytes] = []
        while size > 0:
            piece = bytes(self._stream.read(min(size, 1 << 24)))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _decoded(description: bytes, read_at: ReadAt) -> tuple[int, int]:
    """The kind of a message, and the bytes that its compressed buffers will take."""
    message = _root(description)
    at = _field(description, message, 1)
    kind = description[at] if at else 0
    if kind not in (_DICTIONARY, _BATCH):
        return kind, 0
    header = _inner(description, message, 2)
    if kind == _DICTIONARY:
        header = _inner(description, header, 1)
    if not _field(description, header, 3):
        return kind, 0  # nothing is compressed
    total = 0
    for at in _vector(description, header, 2, _BUFFER):
        start, length = struct.unpack_from("<qq", description, at)
        if length:
            (size,) = struct.unpack("<q", read_at(start, 8))
            total += length if size < 0 else size  # -1: not compressed after all
    return kind, total


def _body(description: bytes) -> int:
    try:
        at = _field(description, _root(description), 3)
        return int(struct.unpack_from("<q", description, at)[0]) if at else 0
    except (struct.error, IndexError):
        return 0


def _root(data: bytes) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a table's field stands; 0 where it has none."""
    names = table - struct.unpack_from("<i", data, table)[0]
    (length,) = struct.unpack_from("<H", data, _inside(data, names))
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", data, names + place)[0] if place + 2 <= length else 0
    return table + offset if offset else 0


def _inner(data: bytes, table: int, number: int) -> int:
    at = _field(data, table, number)
    if not at:
        raise IndexError("a message has no header")
    return at + int(struct.unpack_from("<I", data, at)[0])


def _vector(data: bytes, table: int, number: int, step: int) -> Iterator[int]:
    """Where the elements of a vector of structs stand."""
    if not _field(data, table, number):
        return
    start = _inner(data, table, number)
    (length,) = struct.unpack_from("<I", data, start)
    for k in range(length):
        yield _inside(data, start + 4 + k * step)


def _inside(data: bytes, at: int) -> int:
    if not 0 <= at < len(data):
        raise IndexError("a place outside the message")
    return at


MAGIC = b"ARROW1"


class ArrowFile(Source):
    """An Arrow file or stream, which of the two is seen from its first bytes."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        self._data = ByteSource(str(where.place))
        self.name = self._data.name
        self.paths = () if self._data.path is None else (self._data.path,)
        self._whole = self._data.head(len(MAGIC)) == MAGIC and self._data.path is not None
        self._opened: pa.RecordBatchReader | None = None
        with self._arrow():
            if self._whole:
                with self._data.open() as stream:
                    check_file(stream, self.name)
                    self.schema = sound_schema(pa.ipc.open_file(stream).schema, self.name)
            else:
                # a pipe is opened once; the reader that told the schema goes on to tell the records
                self._opened = self._stream()
                self.schema = sound_schema(self._opened.schema, self.name)

    def _arrow(self) -> _Translated:
        return _Translated(self.name)

    def share_read(self) -> float | None:
        """Share of the file's bytes."""
        return self._data.share_read()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches as they were written, cut to at most 131,072 records."""
        with self._arrow(), readable(self.name):
            for batch in self._written():
                chosen = sound(batch.select(list(columns)), self.name)
                for start in range(0, max(chosen.num_rows, 1), RECORDS):
                    yield from bounded(chosen.slice(start, RECORDS), self.name)

    def _written(self) -> Iterator[pa.RecordBatch]:
        if self._whole:
            file = pa.ipc.open_file(self._data.open())
            yield from (file.get_batch(k) for k in range(file.num_record_batches))
            return
        reader, self._opened = self._opened, None
        yield from reader if reader is not None else self._stream()

    def _stream(self) -> pa.RecordBatchReader:
        return pa.ipc.open_stream(pa.PythonFile(CheckedStream(self._data.open(), self.name), mode="r"))


class _Translated:
    """Arrow's refusals in our words: its own may hold what is in the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        # what is no Arrow at all comes as an OSError
        if isinstance(error, pa.ArrowException | OSError):
            raise InvalidInput(
                f"cannot read {self._name}: it is not a whole Arrow file; write it again, or name it by what it is"
            ) from None
