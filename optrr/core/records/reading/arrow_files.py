"""Arrow IPC files (Feather included) and streams as record batches.

What their compressed buffers take once decoded is looked at before any of them is decoded. Each message has a flatbuffer that
says where its buffers stand (Message.fbs); a compressed buffer begins with the number of bytes that it will take, and the
library acts on that number. A file has an index of its messages at its end (File.fbs).
"""

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.records.reading.source import ByteReader, RecordsAt, readable, require_small, sound, sound_schema

MAGIC = b"ARROW1"
_MARK = b"\xff\xff\xff\xff"
# Which header a message has: a dictionary, or a record batch.
_DICTIONARY, _BATCH = 2, 3
_BUFFER, _BLOCK = 16, 24
# Messages whose description is longer are none of records.
_MOST_DESCRIPTION = 1 << 28

ReadAt = Callable[[int, int], bytes]


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """What says that a file is no Arrow, or not all of it, in our words: Arrow's own may hold what is in the file."""
    try:
        yield
    except (pa.ArrowException, OSError, struct.error, IndexError):
        raise InvalidInput(
            f"cannot read {name}: it is not a whole Arrow file; write it again, or name it by what it is"
        ) from None


class _Sizes:
    """Adds up what messages take once decoded, and refuses too much; dictionaries stay, a batch goes with the next."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._decoded = self._held = 0

    def check(self, description: bytes, read_at: ReadAt, body: int) -> None:
        """Look at one message; ``read_at`` reads from its body, of ``body`` bytes."""
        try:
            kind, decoded = _decoded(description, read_at)
        except (struct.error, IndexError):
            raise InvalidInput(f"cannot read {self._name}: it is not a whole Arrow file; write it again") from None
        if kind == _DICTIONARY:
            self._decoded, self._held = self._decoded + decoded, self._held + body
            require_small(self._decoded, self._held, self._name)
        elif kind == _BATCH:
            require_small(decoded, body, self._name)


def _check_file(file: pa.NativeFile, name: str) -> None:
    """Look at every message that the index of an Arrow file names."""
    sizes, size = _Sizes(name), file.size()

    def read(at: int, n: int) -> bytes:
        if not 0 <= at <= size or n < 0:
            raise IndexError("a place outside the file")
        file.seek(at)
        return bytes(file.read(n))

    (length,) = struct.unpack("<i", read(size - 10, 4))
    footer = read(size - 10 - length, length)
    root = _root(footer)
    for field in (2, 3):  # dictionaries, then batches
        for at in _vector(footer, root, field, _BLOCK):
            start, described, body = struct.unpack_from("<qi4xq", footer, at)
            text = read(start, min(described, _MOST_DESCRIPTION))
            text = text[8:] if text.startswith(_MARK) else text[4:]
            sizes.check(text, lambda k, n, base=start + described: read(base + k, n), body)  # type: ignore[misc]


class _CheckedStream(io.RawIOBase):
    """An Arrow stream that is passed on message by message, each looked at first."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._sizes = stream, _Sizes(name)
        self._waiting = io.BytesIO()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes, and none but at the end."""
        piece = self._waiting.read(size)
        if not piece and size:
            self._waiting = io.BytesIO(self._message())
            piece = self._waiting.read(size)
        return piece

    def _message(self) -> bytes:
        head = self._take(4)
        if head == _MARK:
            head += self._take(4)
        if len(head) < 4 or head[-4:] == bytes(4):
            return head
        (length,) = struct.unpack("<i", head[-4:])
        description = self._take(length) if 0 < length <= _MOST_DESCRIPTION else b""
        try:
            at = _field(description, _root(description), 3)
            size = int(struct.unpack_from("<q", description, at)[0]) if at else 0
        except (struct.error, IndexError):
            size = 0
        body = self._take(size)
        self._sizes.check(description, lambda at, n: body[at : at + n], len(body))
        return head + description + body

    def _take(self, size: int) -> bytes:
        """So many bytes, fewer only at the end; read in pieces, since a size that is stated may be none."""
        pieces: list[bytes] = []
        while size > 0 and (piece := bytes(self._stream.read(min(size, 1 << 24)))):
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


class ArrowFile(ByteReader):
    """An Arrow file or stream, which of the two is seen from its first bytes."""

    def __init__(self, where: RecordsAt, domain: Domain | None) -> None:
        super().__init__(where)
        self._indexed = self.head(len(MAGIC)) == MAGIC and self.path is not None
        self._opened: pa.RecordBatchReader | None = None
        with _whole(self.name):
            if self._indexed:
                with self.open() as stream:
                    _check_file(stream, self.name)
                    schema = pa.ipc.open_file(stream).schema
            else:
                # a pipe is opened once; the reader that told the schema goes on to tell the records
                self._opened = self._stream()
                schema = self._opened.schema
        self.schema = sound_schema(schema, self.name)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with _whole(self.name), readable(self.name):
            for batch in self._written():
                yield sound(batch.select(columns), self.name)

    def _written(self) -> Iterator[pa.RecordBatch]:
        if self._indexed:
            file = pa.ipc.open_file(self.open())
            yield from (file.get_batch(k) for k in range(file.num_record_batches))
            return
        reader, self._opened = self._opened, None
        yield from reader if reader is not None else self._stream()

    def _stream(self) -> pa.RecordBatchReader:
        return pa.ipc.open_stream(pa.PythonFile(_CheckedStream(self.open(), self.name), mode="r"))
