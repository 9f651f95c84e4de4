"""Randomize files and streams: batch by batch, in bounded memory, and all or nothing.

A target file appears complete or not at all: batches go to a file in a private folder beside it, which is moved in place at
the end (:mod:`optrr.core.records.atomic`). A half-written release would otherwise be a second look at the same people once the
run is repeated. What has gone through a pipe cannot be taken back: a run that fails half-way has released what it wrote, and a
second run releases those records again.

Files and pipes are in random order, because a record's place may tell its value (:mod:`optrr.core.records.writing`), and so the
first record goes into a pipe when the last has come in; frames, and batches without a target, keep the order of the data. What
is written has a note on its design (:mod:`optrr.core.provenance.provenance`), and records that have one are not
randomized again.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from optrr.core.domain.domain import Domain, listed
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import FileRelease, Randomizer, ReleaseOptions, checked_mechanism
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
        columns to drop, progress, what the release follows, and whether the order is kept.
    """
    target, how = Path(target_path), options or ReleaseOptions()
    format_to_write(target)
    bits = as_source(random_state)
    source = open_source(source_path, mechanism.domain)
    provenance = how.provenance(mechanism, bits, source_path, source)
    refuse_input_as_target(target, source)
    codec = FrameCodec(mechanism.domain, without_columns(source.schema, how, mechanism.domain), public=how.public)
    with released_file(target, codec.output_schema, provenance) as writer:
        packed = how.in_order(how.watched(randomized(source, codec, mechanism, bits)), bits, writer.folder)
        writer.write(map(codec.unpacked, packed))
        if not codec.records:
            raise InvalidInput(f"{source.name} holds no records; give at least one")
    return _release(source, codec, provenance, how.warnings(str(target)))


def _release(source: Source, codec: FrameCodec, provenance: Provenance, warnings: tuple[str, ...]) -> FileRelease:
    dropped = tuple(name for name in source.schema.names if name not in codec.schema.names)
    return FileRelease(codec.records, provenance, (*source.notes, *warnings), dropped)


def randomized(source: Source, codec: FrameCodec, mechanism: Randomizer, bits: BitSource) -> Iterator[pa.RecordBatch]:
    """All records of the source, randomized and packed, in its order."""
    for batch in source.batches(codec.schema.names):
        yield codec.packed(batch, lambda codes: mechanism.randomize_in_place(codes, bits))


def without_columns(schema: pa.Schema, how: ReleaseOptions, domain: Domain) -> pa.Schema:
    """The schema without the columns to drop. Raises InvalidInput where one is an attribute, or is not there."""
    for name in how.drop:
        if name in domain.names:
            raise InvalidInput(
                f"column {name!r} is an attribute of the design and cannot be dropped; design without it"
            )
        if name not in schema.names:
            raise InvalidInput(f"there is no column {name!r} to drop; the data has {listed(schema.names)}")
    kept = {*domain.names, *how.public.names} if how.drop_undeclared else set(schema.names)
    return pa.schema([f for f in schema if f.name in kept and f.name not in how.drop])


def release_pipe(
    source_path: Places,
    mechanism: Randomizer,
    sink: BinaryIO,
    random_state: RandomState = None,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Write randomized records to ``sink`` as CSV; parameters and refusals as of ``release_file``.

    The pipe carries no account of the release; the returned one does. Beyond a million records a temporary file holds them,
    randomized, while they are shuffled, in the system's folder for such files (``TMPDIR``).
    """
    how, bits = options or ReleaseOptions(), as_source(random_state)
    source = open_source(source_path, mechanism.domain)
    provenance = how.provenance(mechanism, bits, source_path, source)
    codec = FrameCodec(mechanism.domain, without_columns(source.schema, how, mechanism.domain), public=how.public)
    writer = None
    for batch in how.in_order(randomized(source, codec, mechanism, bits), bits):
        # the line of names goes out with the first records: an input that is refused at once leaves the pipe empty
        writer = writer or pa_csv.CSVWriter(sink, codec.output_schema)
        writer.write_batch(codec.unpacked(batch))
    if writer is None or not codec.records:
        raise InvalidInput(f"{source.name} holds no records; give at least one")
    writer.close()
    return _release(source, codec, provenance, how.warnings("this release"))
