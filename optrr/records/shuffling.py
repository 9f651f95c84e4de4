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
from typing import BinaryIO, NamedTuple

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
        for group in buckets.groups():
            # a bucket that does not fit is dealt again
            yield from shuffled(group, bits, folder)


class _Held:
    """Batches in memory."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self.records = self._bytes = 0

    @property
    def full(self) -> bool:
        return self.records > _HELD_RECORDS or (self._bytes > _HELD_BYTES and self.records > _FEW)

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.records += batch.num_rows
        self._bytes += batch.nbytes

    def taken(self) -> pa.Table:
        """All of them, of which there is one at least; they are no longer held."""
        taken, self._batches = self._batches, []
        self.records = self._bytes = 0
        return pa.Table.from_batches(taken)

    def in_random_order(self, bits: BitSource) -> Iterator[pa.RecordBatch]:
        if self.records:
            order = permutation(bits, self.records)
            yield from _rows(self.taken(), order).to_batches(max_chunksize=RECORDS)


class _Piece(NamedTuple):
    """Where some records of one bucket lie in the file, in bytes, and how many they are."""

    place: int
    size: int
    records: int


class _Buckets:
    """Records in buckets, as pieces of Arrow streams one after another in a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pieces: list[list[_Piece]] = [[] for _ in range(_BUCKETS)]

    def deal(self, table: pa.Table, bits: BitSource) -> None:
        """Put every record into one of the buckets at random."""
        chosen = bits.words(-(-table.num_rows // 8)).view(np.uint8)[: table.num_rows]
        # numpy sorts bytes by counting them
        dealt = _rows(table, np.argsort(chosen, kind="stable"))
        ends = np.cumsum(np.bincount(chosen, minlength=_BUCKETS)).tolist()
        for pieces, start, end in zip(self._pieces, [0, *ends], ends, strict=False):
            if start < end:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(dealt.slice(start, end - start))
                pieces.append(_Piece(self._file.tell(), self._file.write(sink.getvalue()), end - start))

    def groups(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The records of one bucket after another; of several together, where these fill no more than half of what is held."""
        group: list[_Piece] = []
        for pieces in self._pieces:
            together = [*group, *pieces]
            if group and (
                sum(p.records for p in together) > _HELD_RECORDS // 2
                or sum(p.size for p in together) > _HELD_BYTES // 2
            ):
                yield self._read(group)
                together = pieces
            group = together
        if group:
            yield self._read(group)

    def _read(self, pieces: list[_Piece]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            self._file.seek(piece.place)
            yield from pa.ipc.open_stream(self._file.read(piece.size))


def _rows(table: pa.Table, order: NDArray[np.integer]) -> pa.Table:
    plain = pa.schema([field.with_type(_TAKEN_AS.get(field.type, field.type)) for field in table.schema])
    takable = table if plain == table.schema else table.cast(plain)
    taken = takable.combine_chunks().take(pa.array(order))
    return taken if plain == table.schema else taken.cast(table.schema)
