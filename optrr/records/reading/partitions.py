"""Columns that the names of directories hold: ``records/year=2024/part-0.parquet``, as Hive, Spark and pandas write them.

They are columns of text, since a name says no type; numbers meet their categories by their digits, as in CSV.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from optrr.records.reading.source import Place

WILD = "*?["
# What Hive and Spark call the directory of the missing value.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


def partition_of(file: Path, place: Place | Sequence[Place]) -> dict[str, str | None]:
    """The columns of this file that its directories name, below the directory or the pattern that was asked for."""
    places = [place] if isinstance(place, str | os.PathLike) else place
    bases = [Path(*takewhile(lambda part: not any(c in part for c in WILD), Path(p).parts)) for p in places]
    below = next((file.relative_to(b).parts[:-1] for b in bases if b != file and file.is_relative_to(b)), ())
    pairs = [part.partition("=") for part in below if "=" in part]
    return {unquote(name): None if value == _MISSING else unquote(value) for name, _, value in pairs}


def with_partition(
    batch: pa.RecordBatch, partition: Mapping[str, str | None], columns: Sequence[str]
) -> pa.RecordBatch:
    """The batch with these columns, in this order: its own, and those of its directory."""
    arrays = [
        pa.repeat(pa.scalar(partition[name], pa.string()), batch.num_rows) if name in partition else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
