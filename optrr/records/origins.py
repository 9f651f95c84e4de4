"""Where given records come from, as far as they say: by metadata (frames, Parquet), a sidecar (CSV, PLINK) or a column."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optrr.domain.columns import is_polars_lazyframe
from optrr.errors import InvalidInput
from optrr.records.frames import is_spark_frame
from optrr.records.reading.registry import open_source
from optrr.records.reading.source import STANDARD_INPUT, Once, RecordsAt, Source, each_file, place_of
from optrr.releases.provenance import (
    COLUMN,
    KEY,
    Origin,
    Provenance,
    SyntheticNote,
    doubts,
    origin_from_sidecar,
    require_design,
    require_unrandomized,
)


def origins_of(data: Any) -> list[Origin]:
    """What files, frames or tables say of the randomization of their records, each different saying once; at least one.

    ``data`` is whatever :func:`optrr.records.reading.registry.open_source` reads, or gives. An array of codes cannot say
    anything, and has none; a pipe says nothing, and an iterator only once it is opened. Raises InvalidInput where they say
    something that cannot be read.
    """
    if isinstance(data, np.ndarray):
        return []
    if isinstance(data, Source):
        return different(_of_source(data))
    where = place_of(data)
    if where is not None and where.origins is not None:
        return list(where.origins)
    return different(_of_memory(data) if where is None else _of_place(replace(where, watch=None)))


def synthetic_note(design: str | None, estimated_from: int, sets: int) -> SyntheticNote:
    """What synthetic records say of themselves."""
    return SyntheticNote(design, estimated_from, sets)


def randomized_before(data: Any, again: bool = False, opened: Source | None = None) -> Provenance | None:
    """Refuse records that are randomized already; with ``again``, what they have spent, None where that is nothing.

    ``opened`` are the same records, opened: a pipe or an iterator cannot be opened twice to see what it says.

    Raises InvalidInput as :func:`optrr.releases.provenance.require_unrandomized`; also for records of several releases, and for
    those that can be read only once and would have to be read to see what they have been through.
    """
    origins = _of_stream(data, opened) or origins_of(data)
    for origin in origins:
        require_unrandomized(origin, again)
    if len(origins) > 1:
        raise InvalidInput(f"{origins[0].what} holds records of {len(origins)} releases; randomize each on its own")
    return origins[0].provenance if origins else None


def check_design(data: Any, digest: str) -> list[str]:
    """Refuse records of another design than the one of this digest; returns warnings about the others, one line each.

    Raises InvalidInput as :func:`optrr.releases.provenance.require_design`.
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
    files = each_file(where)
    if not files:
        yield Origin(str(where))
    for each in files:
        path = Path(str(each.place))
        beside = origin_from_sidecar(path)
        source = None
        if beside.provenance is None and not _is_pipe(path):
            with suppress(InvalidInput):
                source = open_source(each)
        yield from [beside] if source is None else _of_source(source)


def _is_pipe(path: Path) -> bool:
    return str(path) == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def _of_stream(data: Any, opened: Source | None) -> list[Origin]:
    """What opened records say that can be read only once; empty where they say nothing, or can be read again."""
    place = data.place if isinstance(data, RecordsAt) else data
    piped = isinstance(place, str | os.PathLike) and _is_pipe(Path(place))
    if opened is None or not (isinstance(opened, Once) or piped):
        return []
    known = Provenance.from_metadata(opened.schema.metadata, opened.name)
    if known is None and COLUMN in opened.column_names():
        raise InvalidInput(
            f"{opened.name} has a column {COLUMN!r}, so its records may be randomized already; write them to a file and name "
            "that, or leave the column out where they are the true ones"
        )
    return [] if known is None else [Origin(opened.name, known)]


def _of_memory(data: Any) -> Iterator[Origin]:
    what = f"the {type(data).__name__}"
    if is_spark_frame(data):
        notes = [f.metadata[KEY] for f in data.schema.fields if KEY in (f.metadata or {})]
        yield from _of_texts(dict.fromkeys(notes), what)
        return
    # asking a LazyFrame for its columns would compute its schema
    lazy = is_polars_lazyframe(data)
    schema, attrs = (None, None) if lazy else (getattr(data, "schema", None), getattr(data, "attrs", None))
    if isinstance(schema, pa.Schema) and (known := Provenance.from_metadata(schema.metadata, what)) is not None:
        yield Origin(what, known)
    elif isinstance(attrs, dict) and isinstance(attrs.get(KEY), str):
        yield Origin(what, Provenance.from_json(attrs[KEY], what))
    elif lazy or (not isinstance(data, Iterator | pa.RecordBatchReader) and hasattr(data, "columns")):
        yield from _of_column(open_source(data))
    else:
        yield Origin(what)


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
    yield from _of_texts(texts, source.name)


def _of_texts(texts: Iterable[Any], what: str) -> Iterator[Origin]:
    for text in [*texts] or [None]:
        yield Origin(what, None if text is None else Provenance.from_json(str(text), what))
