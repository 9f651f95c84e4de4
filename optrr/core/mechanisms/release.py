"""Randomize files: batch by batch, in bounded memory, and all or nothing.

A target file appears complete or not at all: batches go to a file in a private folder beside it, which is moved in place at
the end (:mod:`optrr.core.records.atomic`). A half-written release would otherwise be a second look at the same people once the
run is repeated. For the same reason nothing is written to a pipe, which could not be taken back and has no note.

Files are in random order, because a record's place may tell its value (:mod:`optrr.core.records.writing`); frames, and batches
without a target, keep the order of the data. What is written has a note on its design
(:mod:`optrr.core.provenance.provenance`), and records that have one are not randomized again.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import FileRelease, Randomizer, ReleaseOptions, checked_mechanism, replaced_release
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.frames import FrameCodec, is_lazy
from optrr.core.records.reading.memory import in_memory
from optrr.core.records.reading.registry import format_to_write, open_source
from optrr.core.records.reading.source import Places, Source, place_of
from optrr.core.records.writing import refuse_input_as_target, released_file
from optrr_solvers.randomness import BitSource, RandomState, as_source


def randomize(
    data: Any,
    mechanism: Randomizer,
    target: str | os.PathLike[str] | None = None,
    random_state: RandomState = None,
    keep_order: bool = False,
) -> Any:
    """Randomized records: a frame for a frame, a file into ``target``, batch after batch for an iterator of batches.

    See :meth:`optrr.core.mechanisms.mechanism.Randomizer.randomize` and :func:`release_file`. Each call is another release of
    the same people's records. With a ``target`` whatever holds records is written there, and the number of records returned;
    without one, an iterator of record batches gives a generator of randomized ones, and a polars LazyFrame is computed once
    and given back as a DataFrame (a lazy result would be drawn anew, and released again, each time it is computed).

    A file is shuffled, unless ``keep_order``; frames and batches keep the order of the data, and pandas frames their index. No
    ε covers these: in sorted or grouped data a record's place tells its values.

    Raises InvalidInput also for a file without a target, and for a design in place of its mechanism.

    Examples
    --------
    >>> import optrr, pandas as pd
    >>> design = optrr.design({"sex": ["F", "M"]}, 1.0)
    >>> released = optrr.randomize(pd.DataFrame({"sex": ["F", "M", "F"]}), design.mechanism)
    >>> len(released)
    3
    """
    checked_mechanism(mechanism)
    if target is not None:
        return release_file(data, mechanism, target, random_state, ReleaseOptions(keep_order=keep_order)).records
    if place_of(data) is not None:
        raise InvalidInput(f"{place_of(data)} is a file; say which file the randomized records go to")
    if isinstance(data, Iterator | pa.RecordBatchReader):
        source, bits = in_memory(data), as_source(random_state)
        known = ReleaseOptions().provenance(mechanism, bits, source)
        return _randomized_batches(source, mechanism, bits, known)
    return mechanism.randomize(data.collect() if is_lazy(data) else data, random_state)


def _randomized_batches(
    source: Source, mechanism: Randomizer, bits: BitSource, provenance: Provenance
) -> Iterator[pa.RecordBatch]:
    codec = FrameCodec(mechanism.domain, source.schema)
    for batch in source.batches(source.column_names()):
        out = codec.recode(batch, lambda codes: mechanism.randomize_in_place(codes, bits))
        yield out.replace_schema_metadata(provenance.metadata())


def release_file(
    source_path: Places,
    mechanism: Randomizer,
    target_path: str | os.PathLike[str],
    random_state: RandomState = None,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Randomize a file of records into a CSV or Parquet file with a note on its design.

    The records are shuffled, so that no place tells whose record it is near, unless the options keep their order.

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
        what the release follows, and whether undeclared columns and the order are kept.
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
    with released_file(target, codec.output_schema, provenance) as writer:
        packed = how.in_order(randomized(source, codec, mechanism, bits), bits, writer.folder)
        writer.write(map(codec.unpacked, packed))
        if not codec.records:
            raise InvalidInput(f"{source.name} holds no records; give at least one")
    notes = (*source.notes, *how.warnings(str(target)), *replaced)
    dropped = [name for name in source.schema.names if name not in kept]
    return FileRelease.written(target, codec.records, provenance, mechanism.domain, notes=notes, dropped=dropped)


def randomized(source: Source, codec: FrameCodec, mechanism: Randomizer, bits: BitSource) -> Iterator[pa.RecordBatch]:
    """All records of the source, randomized and packed, in its order."""
    for batch in source.batches(codec.schema.names):
        yield codec.packed(batch, lambda codes: mechanism.randomize_in_place(codes, bits))
