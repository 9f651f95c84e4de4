"""Randomize a Spark data frame, once.

Spark is lazy: a frame that is merely *defined* as the randomized one is recomputed by every action, each time with
fresh draws, and every recomputation is a second release that spends the budget again. So there is no function here
that returns an unevaluated frame: the randomized records are written to Parquet and read back from there. A task that
fails or is run twice (retry, speculation) stays harmless, because Spark's committer publishes one attempt of each task
and removes the others. (Draws derived from a key and a record's index would need an index that survives recomputation,
which Spark does not promise after a shuffle.)

Needs PySpark 3.5 or later, and optrr on every worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.perturb import perturb_batch
from optrr.records.frames import FrameCodec
from optrr_solvers.randomness import as_source


def perturb_once(frame: Any, mechanism: Mechanism, path: str) -> Any:
    """Write the randomized records of ``frame`` to ``path`` (Parquet, new) and return the frame that reads them.

    Each worker draws random bits from its operating system; there is no seed. A worker holds one Arrow batch at a
    time. ``path`` must be on storage whose output committer hides unfinished tasks (Spark's default does).

    Raises
    ------
    InvalidInput
        for missing, repeated or undeclared columns, or unusable types. Unknown categories and undeclared missing values
        fail the job on the worker that meets them, with the same message, and nothing is published.
    pyspark.errors.AnalysisException
        where ``path`` exists.
    """
    # an optional dependency, there when the caller has a Spark frame
    types = import_module("pyspark.sql.pandas.types")
    codec = FrameCodec(mechanism.domain, types.to_arrow_schema(frame.schema))

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = as_source(None)
        for batch in batches:
            yield perturb_batch(batch, mechanism, source)

    frame.mapInArrow(kernel, types.from_arrow_schema(codec.output_schema)).write.mode("error").parquet(path)
    return frame.sparkSession.read.parquet(path)
