"""Records of a Spark frame, processed by its workers as Arrow batches of their partitions, without a collect.

What reaches the driver are sums. Columns are renamed on the way in, since Spark takes a dot in a name for a path into a
structure. PySpark is not imported before there is a frame of it.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.core.errors import InvalidInput
from optrr_solvers.arrays import IntArray


def is_spark_frame(data: object) -> bool:
    """Check whether this is a Spark data frame."""
    return "pyspark" in sys.modules and any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )


def refuse_spark_frame(data: object) -> None:
    """Raise InvalidInput for a Spark frame, which would be collected into memory.

    The message names the alternative.
    """
    if is_spark_frame(data):
        raise InvalidInput(
            "the records of a Spark frame are not brought to one machine; randomize them where they lie, with "
            "optrr.core.mechanisms.spark.randomize_once(frame, mechanism, path) (sampled tables: "
            "optrr.allocation.sampled_uses.answer_once), and count them with optrr.count(frame, …)"
        )


# From the batches of one partition to other batches.
PartitionKernel = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_SUMS = "cell long, number long"
_REFUSAL = re.compile(r"\bInvalidInput: (.+)")
# Messages of workers that differ from the driver: without the package, of another version, not there at all.
_UNFIT = re.compile(
    r"No module named '(optrr|optrr_solvers|numpy|scipy|pyarrow|msgspec)[.\w]*'"
    r"|Python in worker has different version[^\n]{0,80}"
    r"|Cannot run program \"[^\"\n]{1,200}\""
)
_INTERPRETER = "PYSPARK_PYTHON (spark.pyspark.python)"


def arrow_schema(frame: Any) -> pa.Schema:
    """Return the frame's columns as Arrow types."""
    # an optional dependency, there when the caller has a Spark frame
    return import_module("pyspark.sql.pandas.types").to_arrow_schema(frame.schema)


def map_partitions(frame: Any, columns: Sequence[str], kernel: PartitionKernel, schema: Any) -> Any:
    """Apply ``kernel`` lazily to each partition's batches of these columns.

    A refusal on a worker names the partition: records are counted within it, for Spark numbers no others.
    """
    names = list(columns)
    at = [list(frame.columns).index(name) for name in names]
    plain = [f"c{k}" for k in range(len(frame.columns))]

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from kernel(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        except InvalidInput as error:
            number = import_module("pyspark").TaskContext.get().partitionId()
            raise InvalidInput(f"partition {number + 1}, whose records are counted from 1: {error}") from None

    with _own_interpreter(frame):
        return frame.toDF(*plain).select(*(plain[k] for k in at)).mapInArrow(on_worker, schema)


@contextmanager
def _own_interpreter(frame: Any) -> Iterator[None]:
    """Let local workers use this interpreter unless another one is configured.

    Spark would take the first ``python3``.

    Functions defined meanwhile keep the interpreter; those that others define in this session do not.
    """
    context: Any = getattr(frame.sparkSession, "_sc", None)  # Spark Connect has none here
    elsewhere = context is None or not context.master.startswith("local")
    if elsewhere or "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python"):
        yield
        return
    theirs, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = theirs


@contextmanager
def refusals() -> Iterator[None]:
    """Convert a worker's error to one line; Spark wraps it in its own traceback."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        said = str(error)
        refused, unfit = _REFUSAL.search(said), _UNFIT.search(said)
        if refused is not None:
            raise InvalidInput(refused.group(1).strip()) from None
        if unfit is not None:
            raise InvalidInput(
                f"Spark's workers run a Python that cannot do this ({unfit.group(0)}); install optrr on every worker, and name "
                f"its interpreter as {_INTERPRETER}"
            ) from None
        raise


def summed(
    frame: Any, columns: Sequence[str], cells: int, tally: Callable[[Iterator[pa.RecordBatch]], IntArray]
) -> IntArray:
    """Sum ``tally`` over partitions.

    It converts a partition's batches to an array of ``cells`` whole numbers.

    Workers send the cells that are not zero; Spark adds them up before they reach the driver.
    """

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = tally(batches)
        at = np.flatnonzero(numbers)
        yield pa.record_batch({"cell": pa.array(at, pa.int64()), "number": pa.array(numbers[at], pa.int64())})

    with refusals():
        rows = map_partitions(frame, columns, kernel, _SUMS).groupBy("cell").sum("number").collect()
    out = np.zeros(cells, dtype=np.int64)
    for cell, number in rows:
        out[cell] = number
    return out
