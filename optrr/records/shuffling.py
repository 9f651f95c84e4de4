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
from collections.abc import Iterable, Iterator, Sequence
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
        where the temporary file lies; None is the system's place for such files. Raises OSError where it cannot be written.
    """
    heaps = _heaps(batches)
    for table, full in heaps:
        if full:
            break
        yield from _rows(table, permutation(bits, table.num_rows)).to_batches(max_chunksize=RECORDS)
    else:
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        buckets: list[list[_Piece]] = [[] for _ in range(_BUCKETS)]
        while table is not None:
            _deal(table, bits, file, buckets)
            del table  # before the next heap is gathered, so that memory holds one
            table, _ = next(heaps, (None, False))
        for group in _groups(buckets):
            # a bucket that does not fit is dealt again
            yield from shuffled(_read(file, group), bits, folder)


def _heaps(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, bool]]:
    """All records in tables that fit into memory, and whether each is full, so that others may follow."""
    held: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        held.append(batch)
        records, size = records + batch.num_rows, size + batch.nbytes
        if records > _HELD_RECORDS or (size > _HELD_BYTES and records > _FEW):
            table, held, records, size = pa.Table.from_batches(held), [], 0, 0
            yield table, True
            del table
    if records:
        yield pa.Table.from_batches(held), False


class _Piece(NamedTuple):
    """Where some records of one bucket lie in the file, as an Arrow stream, in bytes, and how many they are."""

    place: int
    size: int
    records: int


def _deal(table: pa.Table, bits: BitSource, file: BinaryIO, buckets: Sequence[list[_Piece]]) -> None:
    """Put every record into one of the buckets at random."""
    chosen = bits.words(-(-table.num_rows // 8)).view(np.uint8)[: table.num_rows]
    # numpy sorts bytes by counting them
    dealt = _rows(table, np.argsort(chosen, kind="stable"))
    ends = np.cumsum(np.bincount(chosen, minlength=_BUCKETS)).tolist()
    for pieces, start, end in zip(buckets, [0, *ends], ends, strict=False):
        if start < end:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(dealt.slice(start, end - start))
            pieces.append(_Piece(file.tell(), file.write(sink.getvalue()), end - start))


def _groups(buckets: Iterable[list[_Piece]]) -> Iterator[list[_Piece]]:
    """The pieces of one bucket after another; of several together, where these fill no more than half of what is held."""
    group: list[_Piece] = []
    for pieces in buckets:
        together = [*group, *pieces]
        records, size = sum(p.records for p in together), sum(p.size for p in together)
        if group and (records > _HELD_RECORDS // 2 or size > _HELD_BYTES // 2):
            yield group
            together = pieces
        group = together
    if group:
        yield group


def _read(file: BinaryIO, pieces: Iterable[_Piece]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        file.seek(piece.place)
        yield from pa.ipc.open_stream(file.read(piece.size))


def _rows(table: pa.Table, order: NDArray[np.integer]) -> pa.Table:
    plain = pa.schema([field.with_type(_TAKEN_AS.get(field.type, field.type)) for field in table.schema])
    takable = table if plain == table.schema else table.cast(plain)
    taken = takable.combine_chunks().take(pa.array(order))
    return taken if plain == table.schema else taken.cast(table.schema)
