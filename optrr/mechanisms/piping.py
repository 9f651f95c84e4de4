"""Randomized records into a pipe, as CSV: batch after batch, so that another program can read while records still come.

What has gone through a pipe cannot be taken back: a run that fails half-way has released what it wrote, and a second run
releases those records again. A file is the safe target (:func:`optrr.mechanisms.perturb.release_file`).
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow.csv as pa_csv

from optrr.errors import InvalidInput
from optrr.mechanisms.perturb import left_out_of, without_columns
from optrr.mechanisms.randomizer import Randomizer
from optrr.mechanisms.release import FileRelease, ReleaseOptions
from optrr.records.passing import codec_for
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import Places
from optrr_solvers.randomness import RandomState, as_source


def release_pipe(
    source_path: Places,
    mechanism: Randomizer,
    sink: BinaryIO,
    random_state: RandomState = None,
    options: ReleaseOptions | None = None,
) -> FileRelease:
    """Write randomized records to ``sink`` as CSV; parameters and refusals as of ``release_file``.

    The pipe carries no account of the release; the returned one does.
    """
    how, bits = options or ReleaseOptions(), as_source(random_state)
    source = open_source(source_path, mechanism.domain)
    provenance = how.provenance(mechanism, bits, source_path, source)
    schema = without_columns(source.schema, how, mechanism.domain)
    codec = codec_for(mechanism.domain, schema, how.public)
    writer = None
    for batch in source.batches(schema.names):
        randomized = codec.recode(batch, lambda codes: mechanism.randomize_in_place(codes, bits))
        # the line of names goes out with the first records: an input that is refused at once leaves the pipe empty
        writer = writer or pa_csv.CSVWriter(sink, codec.output_schema)
        writer.write_batch(randomized)
    if writer is None or not codec.records:
        raise InvalidInput(f"{source.name} holds no records; give at least one")
    writer.close()
    return FileRelease(codec.records, provenance, left_out_of(source.schema, schema))
