"""Arrow IPC files (Feather included) and streams as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.frames import RECORDS
from optrr.records.reading.arrow_messages import CheckedStream, check_file
from optrr.records.reading.bytes_in import ByteSource, readable
from optrr.records.reading.decoded import bounded
from optrr.records.reading.sound import sound, sound_schema
from optrr.records.reading.source import RecordsAt, Source

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
