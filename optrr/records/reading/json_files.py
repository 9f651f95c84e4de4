"""JSON lines: one object per line, one object per record."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json as pa_json

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.reading.bytes_in import ByteReader, readable, sound, sound_schema
from optrr.records.reading.source import RecordsAt

# Bytes read at once; a line must not be longer.
_BLOCK = 1 << 22
# Cells of a table that is made at once: a record without a column takes as much of it as one with.
_CELLS = 1 << 24
_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
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
        first = next(self._tables(whole, len(set(_NAME.findall(whole)))))
        self.schema = sound_schema(self._parsed(first, None).schema, self.name)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        options = pa_json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore")
        with readable(self.name), self.open() as stream:
            for lines in (piece for block in self._blocks(stream) for piece in self._tables(block, len(self.schema))):
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
        """The block in pieces of whole lines that fill at most ``_CELLS`` cells of ``columns`` columns each."""
        most = max(1, _CELLS // max(1, columns))
        if block.count(b"{") <= most:  # at least as many as there are records
            yield block
            return
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
        # where the first value is null, Arrow crashes
        if _OBJECT.match(lines):
            read = pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
            try:
                return pa_json.read_json(pa.BufferReader(lines), read_options=read, parse_options=options)
            except pa.ArrowException:
                pass
        raise self._refusal()

    def _refusal(self) -> InvalidInput:
        """Which line is no record; Arrow's own words may hold one."""
        said = "it is not JSON lines"
        if self.path is not None:
            kinds: dict[str, type] = {}
            with io.TextIOWrapper(self.open(), encoding="utf-8", errors="replace") as lines:
                faults = (f"line {at} {fault}" for at, line in enumerate(lines, 1) if (fault := _fault(line, kinds)))
                said = next(faults, said)
        return InvalidInput(
            f"cannot read {self.name}: {said}; give one whole JSON object per line, each field of one type"
        )


def _fault(line: str, kinds: dict[str, type]) -> str | None:
    if not line.strip():
        return None
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
