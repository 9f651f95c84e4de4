"""Files as streams of bytes: plain or compressed, by name or from standard input, with the share read so far."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from optrr.errors import InvalidInput, in_one_line
from optrr.records.reading.source import STANDARD_INPUT

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
# Bytes of standard input that are looked at to tell what it is.
_LOOK = 1 << 20


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


class ByteSource:
    """Bytes of a file, or of standard input, decompressed; a file may be opened as often as asked."""

    def __init__(self, name: str) -> None:
        self.name = "standard input" if name == STANDARD_INPUT else name
        self._piped = _standard_input() if name == STANDARD_INPUT else None
        self.path = None if self._piped else Path(name)
        self._raw: pa.NativeFile | None = None
        self._size = 0
        if self.path is not None:
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

    def head(self, size: int) -> bytes:
        """The first bytes, decompressed, without using up a pipe."""
        with readable(self.name):
            if self._piped is not None:
                return self._piped.head(size)
            with self.open() as stream:
                return bytes(stream.read(size))

    def share_read(self) -> float | None:
        """Share of the file's bytes that the last stream has read; None for a pipe."""
        if self._raw is None or not self._size:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)


def _standard_input() -> _Pipe:
    """The one pipe of this standard input: its first bytes can be taken from it only once."""
    stream = sys.stdin.buffer
    if _PIPES.get("input") is None or _PIPES["input"].stream is not stream:
        _PIPES["input"] = _Pipe(stream)
    return _PIPES["input"]


class _Pipe(io.RawIOBase):
    """Standard input with its first bytes looked at."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._seen: bytes = stream.read1(_LOOK)
        while self._seen and b"\n" not in self._seen and len(self._seen) < _LOOK:
            more = stream.read1(_LOOK)
            if not more:
                break
            self._seen += more
        self.compression = next((name for magic, name in _MAGIC.items() if self._seen.startswith(magic)), None)
        self._opened = False

    def head(self, size: int) -> bytes:
        self._require_unread()
        if self.compression is None:
            return self._seen[:size]
        with pa.CompressedInputStream(pa.BufferReader(self._seen), self.compression) as stream:
            try:
                return bytes(stream.read(size))
            except OSError:  # what was looked at ends in the middle of a compressed block
                return b""

    def open(self) -> pa.NativeFile:
        self._require_unread()
        self._opened = True
        return pa.PythonFile(self, mode="r")

    def _require_unread(self) -> None:
        if self._opened:
            raise InvalidInput("standard input can be read only once; write it to a file and name that")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._seen:
            size = len(self._seen) if size < 0 else size
            out, self._seen = self._seen[:size], self._seen[size:]
            return out
        return bytes(self.stream.read(size))


_PIPES: dict[str, _Pipe] = {}
