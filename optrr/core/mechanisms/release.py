"""Randomize files: batch by batch, in bounded memory, and all or nothing.

A target file appears complete or not at all: batches go to a file in a private folder beside it, which is moved in
place at the end (:mod:`optrr.core.records.atomic`). Otherwise a repeated run after a half-written release would be a
second release of the same respondents. For the same reason nothing is written to a pipe, which could not be taken back
and has no note.

Files are in random order, because a record's place may reveal its value (:mod:`optrr.core.records.writing`). The output
has a note on its design (:mod:`optrr.core.provenance.provenance`), and records that have one are not randomized again.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import FileRelease, Randomizer, ReleaseOptions, replaced_release
from optrr.core.records.frames import FrameCodec, even
from optrr.core.records.reading.registry import format_to_write, open_source
from optrr.core.records.reading.source import Places, Source
from optrr.core.records.writing import refuse_input_as_target, released_file
from optrr_solvers.randomness import BitSource, RandomState, as_source


def release_file(
    source_path: Places,
    mechanism: Randomizer,
    target_path: str | os.PathLike[str],
    random_state: RandomState = None,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Randomize a file of records into a CSV or Parquet file.

    The file has provenance metadata.

    The records are shuffled, so that places reveal nothing about them, unless the options keep their order.

    Time O(n m); memory for a million records of codes and a few batches of 131,072, however long the file is; beyond a million
    records a temporary file holds them beside the target, randomized, while they are shuffled. CSV values are text: numbers
    match categories by their digits. Types and columns as in :meth:`optrr.core.mechanisms.mechanism.Randomizer.randomize`.

    Raises InvalidInput for unusable paths, columns, categories or missing values, and for a file without records or of records
    that are randomized already; nothing is written.

    Parameters
    ----------
    source_path, target_path
        end in ``.csv`` or ``.parquet``, not necessarily alike; an existing target is replaced, once complete,
        and hands on its permissions.
    random_state
        None draws random bits from the operating system; anything else is for studies, and repeats the order, too.
    options
        the earlier releases, and whether undeclared columns and the order are kept.
    """
    target, how = Path(target_path), options or ReleaseOptions()
    format_to_write(target)
    bits, replaced = as_source(random_state), replaced_release(target)
    source = open_source(source_path, mechanism.domain)
    provenance = how.provenance(mechanism, bits, source_path, source)
    refuse_input_as_target(target, source)
    kept = {*mechanism.domain.names, *how.public.names} if how.drop_undeclared else set(source.schema.names)
    schema = pa.schema([field for field in source.schema if field.name in kept])
    codec = FrameCodec(mechanism.domain, schema, public=how.public)
    with released_file(target, codec.written_schema, provenance) as writer:
        packed = how.in_order(randomized(source, codec, mechanism, bits), bits, writer.folder)
        writer.write(map(codec.unpacked, even(packed)))
        if not codec.records:
            raise InvalidInput(f"{source.name} contains no records; give at least one")
    notes = (*source.notes, *how.warnings(str(target)), *replaced)
    dropped = [name for name in source.schema.names if name not in kept]
    return FileRelease.written(target, codec.records, provenance, mechanism.domain, notes=notes, dropped=dropped)


def randomized(source: Source, codec: FrameCodec, mechanism: Randomizer, bits: BitSource) -> Iterator[pa.RecordBatch]:
    """Iterate over all records of the source, randomized, in its order."""
    for batch in source.batches(codec.schema.names):
        yield codec.packed(batch, lambda codes: mechanism.randomize_in_place(codes, bits))
