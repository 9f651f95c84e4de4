"""Randomize a Spark data frame, once.

Spark is lazy: a frame that is merely *defined* as the randomized one is recomputed by every action, each time with
fresh draws, and every recomputation is a second release that consumes the ε again. So there is no function here that
returns an unevaluated frame: the randomized records are written to Parquet and read back from there. A task that fails
or is run twice (retry, speculation) stays harmless, because Spark's committer publishes one attempt of each task and
removes the others. (Draws derived from a key and a record's index would need an index that survives recomputation,
which Spark does not promise after a shuffle.)

A record's place, in its file or by the file that it is in, may reveal its value. So the randomized records are written
twice: first with a random number each, then in random order by these numbers. The first copy is what makes the second
safe to repeat, for its numbers do not change any more; it is removed in the end. Two alike numbers of 64 bits would
stay in the order that they come in.

Spark writes into a folder beside the target, ``.NAME.partial``, which is moved into place when the whole job is done.
The next job removes the remains of one that was killed; at the target there is one whole release or none.

Frames and files of Spark have no provenance (:mod:`optrr.core.provenance.provenance`): commands that read them warn,
and nothing
refuses to randomize them again.

Needs PySpark 3.5 or later, and optrr on every worker. On one machine (``local``) workers run the driver's interpreter;
elsewhere PYSPARK_PYTHON or ``spark.pyspark.python`` names the one that has optrr.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Randomizer
from optrr.core.records.frames import FrameCodec, plain_columns, plain_schema
from optrr.core.records.multi_select import split_batch, split_schema
from optrr.core.records.spark import arrow_schema, is_spark_frame, map_partitions, refusals
from optrr_solvers.randomness import BitSource, as_source

# From a batch of records to a batch of randomized ones.
BatchKernel = Callable[[pa.RecordBatch, BitSource], pa.RecordBatch]
# The end of the name of the first copy, in the folder that is removed.
_STAGED = "staged"
# Records of one file, on average.
_PART = 1 << 20


def randomize_once(frame: Any, mechanism: Randomizer, path: str, keep_order: bool = False) -> Any:
    """Write the randomized records of ``frame`` and return the frame that reads them.

    ``path`` is a new Parquet folder.

    Draws come from random bits of the operating system on each worker; there is no seed. A worker holds one Arrow batch
    at a time. ``path`` must be on storage that moves a folder in one step and whose output committer hides unfinished
    tasks (HDFS and local disks do; an object store needs its own committer). A target without records, such as a failed
    job of another program leaves, is replaced.

    Raises InvalidInput for missing, repeated or undeclared columns, unusable types, and a target that holds something.
    For unknown categories and undeclared missing values, with their partition and the record within it; nothing is
    published then.

    Parameters
    ----------
    keep_order
        leave the records in their partitions and their order, which reveals information on the true ones, instead of
        shuffling them.
    """
    check_frame(frame)
    domain = mechanism.domain
    schema = split_schema(arrow_schema(frame), domain)
    codec = FrameCodec(domain, schema)

    def of_partition() -> BatchKernel:
        coded = FrameCodec(domain, schema)

        def kernel(batch: pa.RecordBatch, source: BitSource) -> pa.RecordBatch:
            one = split_batch(batch, domain, coded.records)
            return coded.recode(one, lambda codes: mechanism.randomize_in_place(codes, source))

        return kernel

    return published(frame, Randomized(of_partition, codec.output_schema), path, keep_order)


def check_frame(frame: Any) -> None:
    """Raise InvalidInput for anything but a Spark frame."""
    if not is_spark_frame(frame):
        raise InvalidInput(
            f"expected a Spark frame, got a {type(frame).__name__}; for a frame in memory use design.randomize"
        )


@dataclass(frozen=True, eq=False)
class Randomized:
    """How the batches of a partition are randomized, and the columns that come out."""

    of_partition: Callable[[], BatchKernel]
    schema: pa.Schema


def published(frame: Any, how: Randomized, path: str, keep_order: bool) -> Any:
    """Write the transformed batches of ``frame`` and return the frame that reads them.

    ``path`` is complete or not there.
    """
    schema = arrow_schema(frame)
    # a column of places, called as no other is, also for Spark, which takes upper and lower case for the same
    place = "place"
    while place in {name.lower() for name in how.schema.names}:
        place += "_"
    # Spark has no dictionaries
    plain = plain_schema(how.schema)
    output = plain if keep_order else plain.append(pa.field(place, pa.int64()))
    of_partition = how.of_partition

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source, randomized = as_source(None), of_partition()
        for batch in batches:
            out = randomized(batch, source)
            places = [] if keep_order else [pa.array(source.words(out.num_rows).view(np.int64))]
            yield pa.RecordBatch.from_arrays([*plain_columns(out), *places], schema=output)

    types = import_module("pyspark.sql.pandas.types").from_arrow_schema(output)
    written = map_partitions(frame, schema.names, kernel, types)
    session = frame.sparkSession
    with _whole_folder(session, path) as folder, refusals():
        if keep_order:
            written.write.mode("error").parquet(folder)
        else:
            written.write.mode("error").parquet(f"{folder}.{_STAGED}")
            staged = session.read.parquet(f"{folder}.{_STAGED}")
            # the partition is chosen by these numbers, too; that of the true records may follow from their sizes
            apart = staged.repartition(1 + staged.count() // _PART, place)
            apart.sortWithinPartitions(place).drop(place).write.mode("error").parquet(folder)
    return session.read.parquet(path)


@contextmanager
def _whole_folder(session: Any, path: str) -> Iterator[str]:
    """Yield a folder that is moved to ``path`` on success and removed on failure."""
    if not hasattr(session, "_jvm"):
        raise InvalidInput("Spark Connect cannot move folders; run the job where the driver runs")
    hadoop = session._jvm.org.apache.hadoop.fs
    target = hadoop.Path(path)
    storage = target.getFileSystem(session._jsc.hadoopConfiguration())
    parent = target.getParent() or hadoop.Path(".")
    folder = hadoop.Path(parent, f".{target.getName()}.partial")
    # before a non-empty target is refused, so that no temporary folder is left beside it
    storage.delete(folder, True)
    _make_room(storage, target)
    new = hadoop.Path(folder, secrets.token_hex(8))
    try:
        storage.mkdirs(folder)
        storage.setPermission(folder, hadoop.permission.FsPermission("700"))
        yield new.toString()
        _make_room(storage, target)
        if not storage.rename(new, target):
            raise InvalidInput(f"cannot move the randomized records to {path}; choose another path")
    finally:
        storage.delete(folder, True)


def _make_room(storage: Any, target: Any) -> None:
    """Remove a target that holds no records; refuse one that does.

    Hadoop's listing knows the names; those that begin with a dot or an underscore hold no records.
    """
    if not storage.exists(target):
        return
    names = [status.getPath().getName() for status in storage.listStatus(target)]
    if storage.getFileStatus(target).isFile() or any(not name.startswith((".", "_")) for name in names):
        raise InvalidInput(f"{target.toString()} exists and is not empty; choose another path, or remove it first")
    storage.delete(target, True)
