"""Answers to one random question each of the records of a Spark frame, drawn once (:mod:`optrr.mechanisms.spark`)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from optrr.mechanisms.mechanism import released_by
from optrr.mechanisms.spark import BatchKernel, Randomized, known_frame, published
from optrr.records.frames import FrameCodec, arrow_schema
from optrr.ways.protocols.sampled_tables import SCHEMA, SampledTables
from optrr_solvers.randomness import BitSource, as_source

__all__ = ["answer_once"]


def answer_once(frame: Any, asking: SampledTables, path: str, again: bool = False, keep_order: bool = False) -> Any:
    """Write everybody's answer to ``path`` (Parquet, new; columns ``table`` and ``cells``) and return the frame that reads it.

    :meth:`SampledTables.estimate` reads the folder. All else, and what is refused, is as of
    :func:`optrr.mechanisms.spark.perturb_once`.
    """
    before = known_frame(frame, again)
    # other columns than the attributes are refused here, before any work is done
    FrameCodec(asking.domain, arrow_schema(frame))

    def answered(batch: pa.RecordBatch, source: BitSource) -> pa.RecordBatch:
        if not batch.num_rows:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        return pa.Table.from_batches(asking.batches([batch], source), SCHEMA).combine_chunks().to_batches()[0]

    def of_partition() -> BatchKernel:
        return answered

    provenance = released_by(asking, as_source(None), before)
    return published(frame, Randomized(of_partition, SCHEMA, provenance), path, keep_order)
