"""Randomized records into a pipe, as CSV.

They are shuffled, because a record's place may tell its value, and so the first goes out when the last has come in. Where
their order is kept, they go through batch after batch, and another program can read while records still come. What has gone
through a pipe cannot be taken back: a run that fails half-way has released what it wrote, and a second run releases those
records again. A file is the safe target (:func:`optrr.mechanisms.perturb.release_file`).
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow.csv as pa_csv

from optrr.errors import InvalidInput
from optrr.mechanisms.perturb import left_out_of, randomized, without_columns
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

    The pipe carries no account of the release; the returned one does. Beyond a million records a temporary file holds them,
    randomized, while they are shuffled, in the system's folder for such files (``TMPDIR``).
    """
    how, bits = options or ReleaseOptions(), as_source(random_state)
    source = open_source(source_path, mechanism.domain)
    provenance = how.provenance(mechanism, bits, source_path, source)
    schema = without_columns(source.schema, how, mechanism.domain)
    codec = codec_for(mechanism.domain, schema, how.public)
    writer = None
    for batch in how.in_order(randomized(source, codec, mechanism, bits), bits):
        # the line of names goes out with the first records: an input that is refused at once leaves the pipe empty
        writer = writer or pa_csv.CSVWriter(sink, codec.output_schema)
        writer.write_batch(codec.unpacked(batch))
    if writer is None or not codec.records:
        raise InvalidInput(f"{source.name} holds no records; give at least one")
    writer.close()
    return FileRelease(codec.records, provenance, dropped=left_out_of(source.schema, schema))
