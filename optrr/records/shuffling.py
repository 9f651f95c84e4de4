"""Records in random order, in bounded memory: position is a channel that no ε covers.

Where a file lies in the order of the true records, a neighbour's value tells about one's own: in records that were sorted by
sex, the majority of the randomized values around a place is the true value at it, however much noise there is on each.

What is shuffled is randomized already. Records are dealt at random into buckets, and each bucket is shuffled in memory; that
makes every order of all of them equally likely (Rao 1961; Sandelius 1962). The buckets lie in one temporary file that only its
owner can read and whose name is gone as soon as it is open, so that nothing of it stays, whatever ends the run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.records.frames import RECORDS
from optrr_solvers.randomness import BitSource, permutation

# What is shuffled in memory: so many records, of so many bytes in all. Records that are larger than that are held all the same,
# where they are few.
_HELD_RECORDS = 1 << 20
_HELD_BYTES = 1 << 25
_FEW = 1 << 10
# One byte of random bits chooses a bucket.
_BUCKETS = 256
# Arrow takes rows of these types as rows of others.
_TAKEN_AS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def shuffled(
    batches: Iterable[pa.RecordBatch], bits: BitSource, folder: str | os.PathLike[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of batches of one schema in a random order, every order equally likely; batches of at most 131,072.

    Nothing comes before everything has been read. Time O(n); up to a million records stay in memory, more of them go through a
    temporary file of about the size of the records.

    Parameters
    ----------
    bits
        what the order is drawn from.
    folder
        where the temporary file lies; None is the system's place for such files.

    Raises
    ------
    OSError
        where the temporary file cannot be written.
    """
    rest, held = iter(batches), _Held()
    for batch in rest:
        held.add(batch)
        if held.full:
            break
    else:
        yield from held.in_random_order(bits)
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        buckets = _Buckets(file)
        buckets.deal(held.taken(), bits)
        for batch in rest:
            held.add(batch)
            if held.full:
                buckets.deal(held.taken(), bits)
        if held.records:
            buckets.deal(held.taken(), bits)
        for bucket in buckets.filled():
            # one that does not fit is dealt again
            yield from shuffled(bucket, bits, folder)


class _Held:
    """Batches in memory."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    @property
    def records(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    @property
    def full(self) -> bool:
        size = sum(batch.nbytes for batch in self._batches)
        return self.records > _HELD_RECORDS or (size > _HELD_BYTES and self.records > _FEW)

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def taken(self) -> pa.Table:
        """All of them, of which there is one at least; they are no longer held."""
        taken, self._batches = self._batches, []
        return pa.Table.from_batches(taken)

    def in_random_order(self, bits: BitSource) -> Iterator[pa.RecordBatch]:
        if self.records:
            order = permutation(bits, self.records)
            yield from _rows(self.taken(), order).to_batches(max_chunksize=RECORDS)


class _Buckets:
    """Records in buckets, as pieces of Arrow streams one after another in a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(_BUCKETS)]

    def deal(self, table: pa.Table, bits: BitSource) -> None:
        """Put every record into a bucket of its own chance."""
        chosen = bits.words(-(-table.num_rows // 8)).view(np.uint8)[: table.num_rows]
        # numpy sorts bytes by counting them
        dealt = _rows(table, np.argsort(chosen, kind="stable"))
        ends = np.cumsum(np.bincount(chosen, minlength=_BUCKETS)).tolist()
        for pieces, start, end in zip(self._pieces, [0, *ends], ends, strict=False):
            if start < end:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(dealt.slice(start, end - start))
                pieces.append((self._file.tell(), self._file.write(sink.getvalue())))

    def filled(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The records of each bucket that has any."""
        return (self._read(pieces) for pieces in self._pieces if pieces)

    def _read(self, pieces: list[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        for place, size in pieces:
            self._file.seek(place)
            yield from pa.ipc.open_stream(self._file.read(size))


def _rows(table: pa.Table, order: NDArray[np.integer]) -> pa.Table:
    plain = pa.schema([field.with_type(_TAKEN_AS.get(field.type, field.type)) for field in table.schema])
    takable = table if plain == table.schema else table.cast(plain)
    taken = takable.combine_chunks().take(pa.array(order))
    return taken if plain == table.schema else taken.cast(table.schema)
