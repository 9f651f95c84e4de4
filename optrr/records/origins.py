"""Where given records come from, as far as they say: by metadata (frames, Parquet), a sidecar (CSV, PLINK) or a column."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.domain.columns import is_polars_lazyframe
from optrr.errors import InvalidInput
from optrr.records.reading.registry import names_places, open_source
from optrr.records.reading.source import STANDARD_INPUT, Once, RecordsAt, Source, files_at
from optrr.records.spark_frames import is_spark_frame, notes_of
from optrr.releases.provenance import (
    COLUMN,
    KEY,
    Origin,
    Provenance,
    doubts,
    origin_from_sidecar,
    require_design,
    require_unrandomized,
)


def origins_of(data: Any) -> list[Origin]:
    """What files, frames or tables say of the randomization of their records, each different saying once; at least one.

    An array of codes cannot say anything, and has none.

    ``data`` is whatever :func:`optrr.records.reading.registry.open_source` reads, or gives. A pipe says nothing, and an
    iterator only once it is opened.

    Raises
    ------
    InvalidInput
        where they say something that cannot be read.
    """
    if isinstance(data, RecordsAt) and data.origins is not None:
        return list(data.origins)
    if isinstance(data, np.ndarray):
        return []
    if isinstance(data, Source):
        return different(_of_source(data))
    if names_places(data):
        return different(_of_place(RecordsAt(data)))
    return different(_of_place(replace(data, watch=None)) if isinstance(data, RecordsAt) else _of_memory(data))


def randomized_before(data: Any, again: bool = False, opened: Source | None = None) -> Provenance | None:
    """Refuse records that are randomized already; with ``again``, what they have spent, None where that is nothing.

    ``opened`` are the same records, opened: a pipe or an iterator cannot be opened twice to see what it says.

    Raises
    ------
    InvalidInput
        see :func:`optrr.releases.provenance.require_unrandomized`; also for records of several releases, and for those that can
        be read only once and would have to be read to see what they have been through.
    """
    origins = _of_stream(data, opened) or origins_of(data)
    for origin in origins:
        require_unrandomized(origin, again)
    if len(origins) > 1:
        raise InvalidInput(f"{origins[0].what} holds records of {len(origins)} releases; randomize each on its own")
    return origins[0].provenance if origins else None


def check_design(data: Any, digest: str) -> list[str]:
    """Refuse records of another design than the one of this digest; returns warnings about the others, one line each.

    Raises
    ------
    InvalidInput
        see :func:`optrr.releases.provenance.require_design`.
    """
    origins = origins_of(data)
    for origin in origins:
        require_design(origin, digest)
    return list(dict.fromkeys(line for origin in origins for line in doubts(origin)))


def different(origins: Iterable[Origin]) -> list[Origin]:
    """Each different saying once, in order, under the first name that says it."""
    first = {(o.provenance, o.doubt): o for o in reversed(list(origins))}
    return list(reversed(first.values()))


def _of_place(where: RecordsAt) -> Iterator[Origin]:
    try:
        files = None if where.query else files_at(where.place)
    except InvalidInput:
        files = []
    if files == []:
        yield Origin(str(where))  # the place cannot be opened; the error is left to the code that reads the records
    for each in [where] if files is None else [replace(where, place=path) for path in files]:
        yield from _of_one(each)


def _of_one(where: RecordsAt) -> Iterator[Origin]:
    path = Path(str(where.place))
    beside = origin_from_sidecar(path)
    if beside.provenance is not None or _is_pipe(path):
        yield beside
        return
    try:
        source = open_source(where)
    except InvalidInput:
        yield beside
        return
    yield from _of_source(source)


def _is_pipe(path: Path) -> bool:
    return str(path) == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def _of_stream(data: Any, opened: Source | None) -> list[Origin]:
    """What opened records say that can be read only once; empty where they say nothing, or can be read again."""
    if opened is None or not (isinstance(opened, Once) or _names_pipe(data)):
        return []
    known = Provenance.from_metadata(opened.schema.metadata, opened.name)
    if known is None and COLUMN in opened.column_names():
        raise InvalidInput(
            f"{opened.name} has a column {COLUMN!r}, so its records may be randomized already; write them to a file and name "
            "that, or leave the column out where they are the true ones"
        )
    return [] if known is None else [Origin(opened.name, known)]


def _names_pipe(data: Any) -> bool:
    place = data.place if isinstance(data, RecordsAt) else data
    return isinstance(place, str | os.PathLike) and _is_pipe(Path(place))


def _of_memory(data: Any) -> Iterator[Origin]:
    what = f"the {type(data).__name__}"
    if is_spark_frame(data):
        texts: list[str | None] = [*notes_of(data)] or [None]
        yield from (Origin(what, None if text is None else Provenance.from_json(text, what)) for text in texts)
        return
    if is_polars_lazyframe(data):  # asking it for its columns would compute its schema
        yield from _of_column(open_source(data))
        return
    schema, attrs = getattr(data, "schema", None), getattr(data, "attrs", None)
    if isinstance(schema, pa.Schema) and (known := Provenance.from_metadata(schema.metadata, what)) is not None:
        yield Origin(what, known)
    elif isinstance(attrs, dict) and isinstance(attrs.get(KEY), str):
        yield Origin(what, Provenance.from_json(attrs[KEY], what))
    elif isinstance(data, Iterator | pa.RecordBatchReader) or not hasattr(data, "columns"):
        yield Origin(what)
    else:
        yield from _of_column(open_source(data))


def _of_source(source: Source) -> Iterator[Origin]:
    known = Provenance.from_metadata(source.schema.metadata, source.name)
    if known is not None:
        yield Origin(source.name, known)
    else:
        yield from _of_column(source)


def _of_column(source: Source) -> Iterator[Origin]:
    """One entry for every different text of the column; rows without one say nothing."""
    texts: dict[str | None, None] = {}
    if COLUMN in source.column_names() and not isinstance(source, Once):
        for batch in source.batches([COLUMN]):
            texts.update(dict.fromkeys(pc.unique(batch.column(0)).to_pylist()))
    if not texts:
        yield Origin(source.name)
    for text in texts:
        yield Origin(source.name, None if text is None else Provenance.from_json(str(text), source.name))
