"""The table of readers, and the one function that finds the right one: a new kind of place is one line here.

Several files of one kind (directories, patterns and lists) are read one after another, in the order of their names. Names of
directories may hold columns, ``records/year=2024/part-0.parquet``, as Hive, Spark and pandas write them. These are columns of
text, since a name says no type; numbers meet their categories by their digits, as in CSV.

Records say where they come from by metadata (frames, Arrow, Parquet) or a sidecar (:mod:`optrr.core.provenance.provenance`).
"""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from optrr.core.domain.domain import Domain, shown
from optrr.core.errors import InvalidInput, did_you_mean
from optrr.core.provenance import provenance
from optrr.core.records.reading.memory import in_memory, plain
from optrr.core.records.reading.source import (
    COMPRESSIONS,
    STANDARD_INPUT,
    WILD,
    Passing,
    Place,
    RecordsAt,
    Source,
    StandardInput,
    Watch,
    each_file,
    files_at,
    place_of,
    plain_suffix,
)

# What only CSV is written with.
_OF_CSV = {
    "delimiter": "a delimiter",
    "encoding": "an encoding",
    "decimal": "a decimal separator",
    "date_format": "a format of dates",
}


@dataclass(frozen=True)
class Reader:
    """A kind of place: what it is called, which names it goes by, and the class that reads it.

    ``home`` is ``module:class``, imported when the first place of the kind is opened; the class is called with a
    :class:`RecordsAt` and the domain (None where none is declared yet) and gives a :class:`Source`.
    """

    name: str
    home: str
    suffixes: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    # Whether what it reads comes as bytes, and so may be compressed by another program.
    compressible: bool = False
    # Whether records are chosen by a query.
    takes_query: bool = False
    # Whether columns may have types that only pandas knows.
    of_pandas: bool = False

    def open(self, where: RecordsAt, domain: Domain | None) -> Source:
        """The source at this place. Raises InvalidInput where it is said to be written as only CSV is."""
        said = next((what for field, what in _OF_CSV.items() if getattr(where, field) is not None), None)
        if said and self.name != "csv":
            raise InvalidInput(f"{said} is for CSV and {where} is read as {self.name}; leave it out")
        module, _, name = self.home.partition(":")
        made = cast(Callable[[RecordsAt, Domain | None], Source], getattr(importlib.import_module(module), name))
        return plain(made(where, domain)) if self.of_pandas else made(where, domain)


_HERE = "optrr.core.records.reading"
READERS = (
    Reader("csv", f"{_HERE}.text_files:CsvFile", (".csv", ".tsv", ".tab"), compressible=True),
    Reader("parquet", f"{_HERE}.parquet_files:ParquetFile", (".parquet", ".pq"), of_pandas=True),
    Reader("jsonl", f"{_HERE}.text_files:JsonLines", (".jsonl", ".ndjson"), compressible=True),
    Reader(
        "arrow",
        f"{_HERE}.arrow_files:ArrowFile",
        (".arrow", ".arrows", ".feather", ".ipc"),
        compressible=True,
        of_pandas=True,
    ),
    Reader("duckdb", f"{_HERE}.memory:Query", (".duckdb", ".ddb"), ("duckdb:",), takes_query=True),
    Reader("survey", "optrr.survey.stored_records:survey_records", (".db",), ("sqlite:", "postgresql:", "postgres:")),
    Reader("sql", f"{_HERE}.memory:Query", (), ("sqlite:", "postgresql:", "postgres:"), takes_query=True),
)


def open_source(data: Any, domain: Domain | None = None) -> Source:
    """The records of a place, a frame in memory or lazy, or an iterable of record batches.

    Raises InvalidInput where nothing can be read there.
    """
    if isinstance(data, Source):
        return data
    where = place_of(data)
    if where is None:
        return in_memory(data)
    source = _opened(where, domain)
    return source if where.watch is None else _Watched(source, where.watch)


def _opened(where: RecordsAt, domain: Domain | None) -> Source:
    text = str(where.place) if isinstance(where.place, str | os.PathLike) else ""
    named = [r for r in READERS if text.startswith(r.schemes)]
    # a database is asked a query, or holds a survey and needs none
    reader = next((r for r in named if r.takes_query == bool(where.query)), named[0] if named else None)
    files = None if reader is not None else files_at(where.place)
    if files is not None:

        def opened(one: RecordsAt) -> Source:
            # where all columns are in the names of directories, the file need not have any of them
            outside = _partition_of(Path(str(one.place)), where.place).keys()
            inside = None if domain is None or outside >= set(domain.names) else domain
            return _reader_of(one).open(one, inside)

        return _Several(where, files, opened, domain)
    reader = reader or _reader_of(where)
    if where.query and not reader.takes_query:
        raise InvalidInput(f"a query is for databases and {where} is a file; leave it out")
    return reader.open(where, domain)


def _reader_of(where: RecordsAt) -> Reader:
    """The reader that is asked for, or the one that the name tells, or the one that a pipe's first bytes tell."""
    name = where.format
    if name is None and where.place == STANDARD_INPUT:
        head = StandardInput.here().head(4)
        text = "jsonl" if head.startswith(b"{") else "csv"
        name = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}.get(head, text)
    if name is not None:
        names = [r.name for r in READERS]
        if name not in names:
            raise InvalidInput(
                f"there is no format {name!r}{did_you_mean(name, names)}; give one of {', '.join(names)}"
            )
        return READERS[names.index(name)]
    text = str(where.place)
    suffix = plain_suffix(text)
    reader = next((r for r in READERS if suffix in r.suffixes), None)
    compressed = any(text.lower().endswith(c) for c in COMPRESSIONS)
    if reader is None or (compressed and not reader.compressible):
        known = ", ".join(s for r in READERS for s in r.suffixes)
        raise InvalidInput(
            f"{text} ends in {os.path.splitext(text)[1]!r}; records are read from {known} "
            f"(text also compressed, {', '.join(COMPRESSIONS)}): export it as one of these, or say its --format"
        )
    return reader


class _Watched(Passing):
    """Another source whose batches are reported as they are read."""

    def __init__(self, source: Source, watch: Watch) -> None:
        super().__init__(source)
        self._watch = watch

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        done = 0
        for batch in self.source.batches(columns):
            done += batch.num_rows
            self._watch(done, done / self.rows if self.rows else self.share_read())
            yield batch


# What Hive and Spark call the directory of the missing value.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


def _partition_of(file: Path, place: Place | Sequence[Place]) -> dict[str, str | None]:
    """The columns of this file that its directories name, below the directory or the pattern that was asked for."""
    places = [place] if isinstance(place, str | os.PathLike) else place
    bases = [Path(*takewhile(lambda part: not any(c in part for c in WILD), Path(p).parts)) for p in places]
    below = next((file.relative_to(b).parts[:-1] for b in bases if b != file and file.is_relative_to(b)), ())
    pairs = [part.partition("=") for part in below if "=" in part]
    return {unquote(name): None if value == _MISSING else unquote(value) for name, _, value in pairs}


class _Several(Source):
    """Files that hold the same columns, read one after another; directories may hold columns, too.

    A column has the type that holds the values of every file, such as numbers with a point for whole and missing ones. Columns
    that the domain does not declare may differ, and be absent, as long as nobody asks for them.
    """

    def __init__(
        self, where: RecordsAt, files: Sequence[Path], opened: Callable[[RecordsAt], Source], domain: Domain | None
    ) -> None:
        self._files, self._opened = [replace(where, place=path, watch=None) for path in files], opened
        parts = [opened(file) for file in self._files]
        first = parts[0]
        fields = dict.fromkeys(name for part in parts for name in part.schema.names)
        self._needed = set(fields if domain is None else domain.names)
        types = {name: _common_type(name, parts, name in self._needed) for name in fields}
        self.name, self.schema = str(where), pa.schema(list(types.items()), metadata=first.schema.metadata)
        # a column that the file holds as well as its directories is the file's
        self._partitions = [
            {name: value for name, value in _partition_of(file, where.place).items() if name not in first.schema.names}
            for file in files
        ]
        for one, partition in zip(self._files, self._partitions, strict=True):
            differing = partition.keys() ^ self._partitions[0].keys()
            if differing:
                raise InvalidInput(
                    f"{one} differs from {self._files[0]} in column {shown(min(differing))}, which a directory is named "
                    "after; give files with the same columns"
                )
        for name in self._partitions[0]:
            self.schema = self.schema.append(pa.field(name, pa.string()))
        self.paths = tuple(path for part in parts for path in part.paths)
        rows = [part.rows for part in parts]
        self.rows = None if None in rows else sum(r for r in rows if r is not None)
        self._current, self._done = first, 0

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of every file."""
        for done, (file, partition) in enumerate(zip(self._files, self._partitions, strict=True)):
            self._done, self._current = done, self._opened(file)
            # a column of the file tells how many records there are, even where none is asked for
            own = [name for name in columns if name not in partition] or self._current.column_names()[:1]
            for name in own:
                if name not in self._current.schema.names:
                    raise _differs(self._current.name, self._files[0], name)
            for batch in self._current.batches(own):
                beside = {
                    name: pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for name, value in partition.items()
                }
                arrays = [beside[name] if name in beside else self._column(batch, name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """The column in the type that the schema has; a dictionary of categories stays one."""
        column, kind = batch.column(name), self.schema.field(name).type
        if column.type.equals(kind) or (name in self._needed and pa.types.is_dictionary(column.type)):
            return column
        try:
            return column.cast(kind)
        except pa.ArrowException:
            raise _differs(self._current.name, self._files[0], name) from None

    def share_read(self) -> float | None:
        """Files done, and the share of the one at hand."""
        return (self._done + (self._current.share_read() or 0.0)) / len(self._files)


def _common_type(name: str, parts: Sequence[Source], needed: bool) -> pa.DataType:
    """The type that holds a column's values in every part; the first part's where there is none and nobody ``needed`` one.

    Raises InvalidInput where a column that is needed is absent from a part, or there is no such type.
    """
    holders = [part for part in parts if name in part.schema.names]
    types = [part.schema.field(name).type for part in holders]
    absent = next((part for part in parts if name not in part.schema.names), None)
    if needed and absent is not None:
        raise _differs(absent.name, holders[0].name, name)
    if all(kind.equals(types[0]) for kind in types):
        return types[0]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        if needed:
            other = next(part for part, kind in zip(holders, types, strict=True) if not kind.equals(types[0]))
            raise _differs(other.name, holders[0].name, name) from None
    return types[0]


def _differs(one: Any, other: Any, column: str) -> InvalidInput:
    return InvalidInput(f"{one} differs from {other} in column {shown(column)}; give files with the same columns")


def origins_of(data: Any) -> list[provenance.Origin]:
    """The origins of files, frames or tables, each different note once; at least one.

    ``data`` is whatever :func:`optrr.core.records.reading.registry.open_source` reads, or gives. An array of codes has
    none; a pipe
    has no note. Raises InvalidInput if a note cannot be read.
    """
    if isinstance(data, np.ndarray):
        return []
    if isinstance(data, Source):
        return [_of_source(data)]
    where = place_of(data)
    if where is None:
        return [_of_memory(data)]
    return list(where.origins) if where.origins is not None else different(_of_place(replace(where, watch=None)))


def refuse_randomized(data: Any, opened: Source | None = None) -> None:
    """Raise InvalidInput for records that are randomized already.

    ``opened`` are the same records, opened: the metadata of a pipe or an iterator can be read there only.
    """
    for origin in [*origins_of(data), *([] if opened is None else [_of_source(opened)])]:
        provenance.require_unrandomized(origin)


def check_design(data: Any, digest: str) -> list[str]:
    """Raise InvalidInput for records of another design than the one of this digest; return warnings about the others."""
    origins = origins_of(data)
    for origin in origins:
        provenance.require_design(origin, digest)
    return list(dict.fromkeys(line for origin in origins for line in provenance.doubts(origin)))


def different(origins: Iterable[provenance.Origin]) -> list[provenance.Origin]:
    """Each different note once, in order, under the first name that has it."""
    first = {o.provenance: o for o in reversed(list(origins))}
    return list(reversed(first.values()))


def _of_place(where: RecordsAt) -> Iterator[provenance.Origin]:
    files = each_file(where)
    if not files:
        yield provenance.Origin(str(where))
    for each in files:
        path = Path(str(each.place))
        if str(path) == STANDARD_INPUT:
            yield provenance.Origin("standard input")
            continue
        beside, source = provenance.provenance_beside(path), None
        if beside is None and not _is_pipe(path):
            with suppress(InvalidInput):
                source = open_source(each)
        yield provenance.Origin(str(path), beside) if source is None else _of_source(source)


def _is_pipe(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _of_memory(data: Any) -> provenance.Origin:
    what = f"the {type(data).__name__}"
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return provenance.Origin(what, provenance.Provenance.from_metadata(data.schema.metadata, what))
    attrs = getattr(data, "attrs", None)
    note = attrs.get(provenance.KEY) if isinstance(attrs, dict) else None
    return provenance.Origin(what, provenance.Provenance.from_json(note, what) if isinstance(note, str) else None)


def _of_source(source: Source) -> provenance.Origin:
    return provenance.Origin(source.name, provenance.Provenance.from_metadata(source.schema.metadata, source.name))
