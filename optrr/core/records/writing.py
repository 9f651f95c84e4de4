"""Writing record batches to CSV and Parquet, whole or not at all, in random order, with their provenance.

Position is a channel that no ε covers. Where a file has the order of the true records, a neighbour's value is
informative: in records that were sorted by sex, the majority of the randomized values around a place is the true value
at it, however much noise there is on each.

Records are randomized before they are shuffled. Records are dealt at random into buckets, and each bucket is shuffled
in memory; that makes every order of all of them equally likely (Rao 1961; Sandelius 1962). The buckets lie in one
temporary file that only its owner can read and whose name is gone as soon as it is open, so that nothing of it stays,
whatever ends the run.

In tables that users open in a spreadsheet, texts that it would run as formulas stay texts. A category such as ``=cmd|'
/C calc'!A0`` would be run when the file is opened. As OWASP advises ("CSV Injection"), an apostrophe goes before a text
that begins with one of = + - @ or their wide forms, also after white space, or with a tab or a line's end. Plain
numbers (-9) are left as they are. A text that has such an apostrophe already gets another one, so that taking one away
gives back every text.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.domain.arrays import array_of
from optrr.core.domain.domain import Domain
from optrr.core.provenance.provenance import Provenance, SyntheticNote, sidecar_path, write_sidecar
from optrr.core.records.atomic import refuse_replacing, whole_files
from optrr.core.records.frames import RECORDS, even
from optrr.core.records.reading.registry import format_to_write
from optrr.core.records.reading.source import Source
from optrr_solvers.randomness import BitSource, permutation

# The end of a sentence about records that are not shuffled.
IN_ORDER = (
    "is in the order of the true records, which no epsilon covers: where that order follows a value, as in a sorted or "
    "grouped file, a record's place tells the value, however much noise there is"
)

_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def without_formulas(table: pa.Table) -> pa.Table:
    """Prefix an apostrophe to names and texts that spreadsheets would compute."""
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = [None if text is None else _as_text(text) for text in column.to_pylist()]
            column = pa.array(texts, pa.string())  # noqa: PLW2901
        columns.append(column)
    return pa.Table.from_arrays(columns, names=[_as_text(name) for name in table.column_names])


def _as_text(text: str) -> str:
    computed = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if computed else text


def formula_doubts(path: Path, domain: Domain) -> list[str]:
    """Warn about a CSV file of records.

    Programs read it as well, so names and categories stay as they are.
    """
    texts = [*domain.names, *(text for attribute in domain for text in attribute.texts)]
    computed = [text for text in texts if text is not None and _as_text(text) != text]
    if not computed or path.suffix.lower() != ".csv":
        return []
    return [
        f"a spreadsheet would compute {computed[0]!r}{' and others' if computed[1:] else ''} of {path} as a formula; "
        "open it as text, or write .parquet"
    ]


def refuse_input_as_target(target: Path, source: Source) -> None:
    """Refuse to write randomized records over the true ones. Raises InvalidInput."""
    message = f"{target} is the input itself; write the randomized records to another file"
    refuse_replacing(target, source.paths, message)


class RecordWriter:
    """Writer of record batches of one schema to a file in ``folder``.

    In any output format of records.

    The sizes of Parquet's row groups follow from the number of columns and of records, not from those of the batches.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.folder, self._schema = path.parent, schema
        self._writer = format_to_write(path).create(path, schema)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write all records and return their number; their metadata is ignored."""
        records = 0
        for batch in even(batches):
            self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
            records += batch.num_rows
        return records

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


@contextmanager
def released_file(target: Path, schema: pa.Schema, provenance: Provenance | SyntheticNote) -> Iterator[RecordWriter]:
    """Yield a writer of randomized records to ``target``.

    The file appears, with its provenance, when the block succeeds, or not at all.

    Parquet has it in its metadata, CSV in a sidecar (:mod:`optrr.core.provenance.provenance`). Raises InvalidInput for another
    suffix, or where the system does not let the file be written.
    """
    inside = format_to_write(target).keeps_notes
    with whole_files([target] if inside else [target, sidecar_path(target)]) as (path, *beside):
        with RecordWriter(path, schema.with_metadata(provenance.metadata() if inside else None)) as writer:
            yield writer
        for sidecar in beside:
            write_sidecar(sidecar, provenance)


# Limits of a shuffle in memory: number of records, and bytes in all. Few larger records are held all the same.
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
    """Shuffle the records of batches of one schema.

    Every order is equally likely; batches of at most 131,072.

    Nothing comes before everything has been read. Time O(n); up to a million records stay in memory, more of them go through a
    temporary file of about the size of the records, in ``folder`` or the system's place for such files. Raises OSError where it
    cannot be written.
    """
    heaps = _heaps(batches)
    for table, full in heaps:
        if full:
            break
        yield from _rows(table, permutation(bits, table.num_rows)).to_batches(max_chunksize=RECORDS)
    else:
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        # where some records of each bucket lie in the file, as Arrow streams, and their bytes
        buckets: list[list[tuple[int, int]]] = [[] for _ in range(_BUCKETS)]
        while table is not None:
            _deal(table, bits, file, buckets)
            del table  # before the next heap is gathered, so that memory holds one
            table, _ = next(heaps, (None, False))
        for pieces in buckets:
            # a bucket that does not fit is dealt again
            yield from shuffled(_read(file, pieces), bits, folder)


def _heaps(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, bool]]:
    """Iterate over tables of records that fit in memory, and whether each is full."""
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


def _deal(table: pa.Table, bits: BitSource, file: BinaryIO, buckets: Sequence[list[tuple[int, int]]]) -> None:
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
            pieces.append((file.tell(), file.write(sink.getvalue())))


def _read(file: BinaryIO, pieces: Iterable[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    for place, size in pieces:
        file.seek(place)
        yield from pa.ipc.open_stream(file.read(size))


def _rows(table: pa.Table, order: NDArray[np.integer]) -> pa.Table:
    plain = pa.schema([field.with_type(_TAKEN_AS.get(field.type, field.type)) for field in table.schema])
    takable = table if plain == table.schema else table.cast(plain)
    taken = takable.combine_chunks().take(array_of(order, pa.int64()))
    return taken if plain == table.schema else taken.cast(table.schema)
