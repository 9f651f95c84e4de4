"""The table of formats, and the one function that finds the right one: a new kind of place or file is one line here.

Several files of one kind (directories, patterns and lists) are read one after another, in the order of their names.
Names of directories may hold columns, ``records/year=2024/part-0.parquet``, as Hive, Spark and pandas write them. These
are columns of text, since a name has no type; numbers meet their categories by their digits, as in CSV.

Records have provenance in metadata (frames, Arrow, Parquet) or a sidecar (:mod:`optrr.core.provenance.provenance`).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from optrr.core.domain.domain import Domain, shown
from optrr.core.errors import InvalidInput, did_you_mean
from optrr.core.provenance import provenance
from optrr.core.records.multi_select import asked_columns, split_batch, split_schema
from optrr.core.records.reading.memory import in_memory
from optrr.core.records.reading.source import (
    COMPRESSIONS,
    STANDARD_INPUT,
    WILD,
    Bytes,
    Place,
    RecordsAt,
    Source,
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
class RecordFormat:
    """A file format or kind of place.

    Its functions ``module:name`` are imported when the first one is opened.

    Parameters
    ----------
    name
        name of the format.
    reader
        a function of a :class:`RecordsAt` and the domain (None if none is declared yet) that gives a :class:`Source`.
    suffixes, schemes
        Suffixes and schemes of its names; the first suffix is the one that is written.
    writer
        a function of a path and an Arrow schema that gives an object with ``write_batch(batch)`` and ``close()``; none where
        records are only read.
    keeps_notes
        whether the schema's metadata are written; otherwise a note of provenance is written beside.
    compressible
        whether its data come as bytes, and so may be compressed by another program.
    takes_query
        whether records are chosen by a query.
    """

    name: str
    reader: str
    suffixes: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    writer: str = ""
    keeps_notes: bool = False
    compressible: bool = False
    takes_query: bool = False

    def open(self, where: RecordsAt, domain: Domain | None) -> Source:
        """Open the source at this place.

        Raises InvalidInput for a pipe, and for options that only CSV has.
        """
        said = next((what for field, what in _OF_CSV.items() if getattr(where, field) is not None), None)
        if said and self.name != "csv":
            raise InvalidInput(f"{said} is for CSV, and {where} is read as {self.name}; leave out {said}")
        if where.place == STANDARD_INPUT and not self.compressible:
            raise InvalidInput(
                f"{self.name} cannot come through a pipe, because it is not read from start to end; name a file"
            )
        if Path(str(where.place)).is_fifo():
            # opened to be looked at, it would be used up
            raise InvalidInput(f"{where} is a pipe, and files are read more than once; give it as standard input (-)")
        source: Source = _found(self.reader)(where, domain)
        return source

    def create(self, path: Path, schema: pa.Schema) -> Any:
        """Create a writer of record batches of this schema."""
        return _found(self.writer)(path, schema)


def _found(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


_HERE = "optrr.core.records.reading"
_SERVERS = ("sqlite:", "postgresql:", "postgres:")
FORMATS = [
    RecordFormat(
        "csv",
        f"{_HERE}.text_files:csv_file",
        (".csv", ".tsv", ".tab"),
        writer=f"{_HERE}.text_files:CsvRecords",
        compressible=True,
    ),
    RecordFormat(
        "parquet",
        f"{_HERE}.arrow_files:parquet_file",
        (".parquet", ".pq"),
        writer=f"{_HERE}.arrow_files:ParquetRecords",
        keeps_notes=True,
    ),
    RecordFormat("jsonl", f"{_HERE}.text_files:json_lines", (".jsonl", ".ndjson"), compressible=True),
    RecordFormat(
        "arrow", f"{_HERE}.arrow_files:arrow_file", (".arrow", ".arrows", ".feather", ".ipc"), compressible=True
    ),
    RecordFormat("excel", f"{_HERE}.program_files:excel_file", (".xlsx", ".xlsm")),
    RecordFormat("spss", f"{_HERE}.program_files:spss_file", (".sav", ".zsav")),
    RecordFormat("stata", f"{_HERE}.program_files:stata_file", (".dta",)),
    RecordFormat("duckdb", f"{_HERE}.memory:query", (".duckdb", ".ddb"), ("duckdb:",), takes_query=True),
    RecordFormat("survey", "optrr.survey.stored_records:survey_records", (".db",), _SERVERS),
    RecordFormat("sql", f"{_HERE}.memory:query", (), _SERVERS, takes_query=True),
]


def format_to_write(path: Path) -> RecordFormat:
    """Find the output format by file name; raise InvalidInput for other names."""
    for each in FORMATS:
        if each.writer and each.suffixes[0] == path.suffix.lower():
            return each
    raise InvalidInput(f"{path} ends in {path.suffix!r}; records are written as {' or '.join(written_suffixes())}")


def file_formats() -> list[str]:
    """List the names of file formats."""
    return [each.name for each in FORMATS if not each.schemes]


def written_suffixes() -> list[str]:
    """List the suffixes of output formats."""
    return [each.suffixes[0] for each in FORMATS if each.writer]


def open_source(data: Any, domain: Domain | None = None) -> Source:
    """Open records of a place, a frame, or an iterable of record batches.

    Frames may be in memory or lazy.

    Raises InvalidInput if nothing can be read there.
    """
    if isinstance(data, Source):
        return data
    where = place_of(data)
    source = in_memory(data) if where is None else _opened(where, domain)
    if domain is not None:
        source = _split(source, domain)
    watch = None if where is None else where.watch
    if watch is None:
        return source

    def watched(columns: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in source.batches(columns):
            done += batch.num_rows
            watch(done, done / source.rows if source.rows else source.share())
            yield batch

    return source.passing(watched)


def _split(source: Source, domain: Domain) -> Source:
    """Replace multi-select columns of the source by their options."""
    asked = asked_columns(domain, source.schema.names)
    if not asked:
        return source
    holder = {attribute.name: column for column, attributes in asked.items() for attribute in attributes}

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in source.batches(list(dict.fromkeys(holder.get(name, name) for name in columns))):
            yield split_batch(batch, domain, done).select(columns)
            done += batch.num_rows

    return source.passing(read, split_schema(source.schema, domain))


def _opened(where: RecordsAt, domain: Domain | None) -> Source:
    text = str(where.place) if isinstance(where.place, str | os.PathLike) else ""
    named = [f for f in FORMATS if text.startswith(f.schemes)]
    # a database needs a query, unless it holds a survey
    found = next((f for f in named if f.takes_query == bool(where.query)), named[0] if named else None)
    files = None if found is not None else files_at(where.place)
    if files is not None:
        return _several(where, files, domain)
    found = found or _format_of(where)
    if where.query and not found.takes_query:
        database = f"; for an SQLite database write sqlite:{where}" if found.name == "survey" else ""
        raise InvalidInput(f"a query is for databases, and {where} is a file; leave the query out{database}")
    return found.open(where, domain)


def _format_of(where: RecordsAt) -> RecordFormat:
    """Choose the format: requested, by name, or by a pipe's first bytes."""
    name = where.format
    if name is None and where.place == STANDARD_INPUT:
        head = Bytes(where).head(4)
        text = "jsonl" if head.startswith(b"{") else "csv"
        name = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}.get(head, text)
    if name is not None:
        names = [f.name for f in FORMATS]
        if name not in names:
            raise InvalidInput(
                f"there is no format {name!r}{did_you_mean(name, names)}; give one of {', '.join(names)}"
            )
        return FORMATS[names.index(name)]
    text = str(where.place)
    suffix, compressed = plain_suffix(text), Path(text).suffix.lower() in COMPRESSIONS
    for each in FORMATS:
        if suffix in each.suffixes and (each.compressible or not compressed):
            return each
    known = ", ".join(s for f in FORMATS for s in f.suffixes)
    raise InvalidInput(
        f"{text} ends in {os.path.splitext(text)[1]!r}; records are read from {known} "
        f"(text also compressed, {', '.join(COMPRESSIONS)}): export it as one of these, or give its ``format``"
    )


# What Hive and Spark call the directory of the missing value.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


def _partition_of(file: Path, place: Place | Sequence[Place]) -> dict[str, str | None]:
    """Parse the columns that directories name.

    Below the requested directory or pattern.
    """
    places = [place] if isinstance(place, str | os.PathLike) else place
    bases = [Path(*takewhile(lambda part: not any(c in part for c in WILD), Path(p).parts)) for p in places]
    below = next((file.relative_to(b).parts[:-1] for b in bases if b != file and file.is_relative_to(b)), ())
    pairs = [part.partition("=") for part in below if "=" in part]
    return {unquote(name): None if value == _MISSING else unquote(value) for name, _, value in pairs}


def _partitioned(source: Source, named: dict[str, str | None]) -> Source:
    """Add the columns that directories name, unless the source has them."""
    named = {name: value for name, value in named.items() if name not in source.schema.names}
    if not named:
        return source

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        # a column of the file gives the number of records, even if no column is requested
        for batch in source.batches([name for name in columns if name not in named] or source.schema.names[:1]):
            constant = {name: pa.repeat(pa.scalar(named[name], pa.string()), batch.num_rows) for name in named}
            arrays = [constant[name] if name in named else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)

    fields = [*source.schema, *(pa.field(name, pa.string()) for name in named)]
    return source.passing(read, pa.schema(fields, metadata=source.schema.metadata))


def _several(where: RecordsAt, files: Sequence[Path], domain: Domain | None) -> Source:
    """Open files with the same columns, one after another.

    Directories may hold columns, too.

    A declared column may have another type in each file. Any other has the type that holds the values of all, such as
    numbers with a point for whole and missing ones; it may differ, and be absent, as long as it is not read.
    """
    parts: list[Source] = []
    for file in files:
        one, named = replace(where, place=file, watch=None), _partition_of(file, where.place)
        # where all columns are in the names of directories, the file need not have any of them
        inside = None if domain is None or named.keys() >= set(domain.names) else domain
        parts.append(_partitioned(_format_of(one).open(one, inside), named))
    names, done = dict.fromkeys(name for part in parts for name in part.schema.names), [0]
    schema = pa.schema([(name, _common_type(name, parts)) for name in names], metadata=parts[0].schema.metadata)
    declared = frozenset(() if domain is None else domain.names)

    def differs(part: Source, name: str) -> InvalidInput:
        said = f"{part.name} differs from {parts[0].name} in column {shown(name)}; give files with the same columns"
        return InvalidInput(said)

    def column(part: Source, name: str, values: pa.Array) -> pa.Array:
        kind = schema.field(name).type
        try:
            return values if name in declared or values.type.equals(kind) else values.cast(kind)
        except pa.ArrowException:
            raise differs(part, name) from None

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for done[0], part in enumerate(parts):
            if absent := [name for name in columns if name not in part.schema.names]:
                raise differs(part, absent[0])
            for batch in part.batches(columns):
                arrays = [column(part, name, values) for name, values in zip(columns, batch.columns, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return Source(
        str(where),
        schema,
        read,
        tuple(path for part in parts for path in part.paths),
        None if any(part.rows is None for part in parts) else sum(part.rows or 0 for part in parts),
        share=lambda: (done[0] + (parts[done[0]].share() or 0.0)) / len(parts),
    )


def _common_type(name: str, parts: Sequence[Source]) -> pa.DataType:
    """Find the type that holds a column in every part, or the first one's."""
    types = [part.schema.field(name).type for part in parts if name in part.schema.names]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types]
    if all(kind.equals(types[0]) for kind in types):
        return types[0]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return types[0]


def origins_of(data: Any) -> list[provenance.Origin]:
    """List the distinct origins of files, frames or tables; at least one.

    ``data`` is whatever :func:`optrr.core.records.reading.registry.open_source` reads, or gives. An array of codes and
    a pipe have no provenance. Raises InvalidInput if a note cannot be read.
    """
    if isinstance(data, np.ndarray):
        return []
    if isinstance(data, Source):
        return [_of_source(data)]
    where = place_of(data)
    return [_of_memory(data)] if where is None else different(_of_place(where))


def refuse_randomized(data: Any, opened: Source | None = None) -> None:
    """Raise InvalidInput for records that are randomized already.

    ``opened`` are the same records, opened: the metadata of a pipe or an iterator can be read there only.
    """
    for origin in [*origins_of(data), *([] if opened is None else [_of_source(opened)])]:
        provenance.require_unrandomized(origin)


def check_design(data: Any, digest: str) -> list[str]:
    """Raise InvalidInput for records of another design than this digest.

    Returns warnings about the others.
    """
    origins = origins_of(data)
    for origin in origins:
        provenance.require_design(origin, digest)
    return list(dict.fromkeys(line for origin in origins for line in provenance.doubts(origin)))


def different(origins: Iterable[provenance.Origin]) -> list[provenance.Origin]:
    """List distinct origins in order, each under its first name."""
    first: dict[Any, provenance.Origin] = {}
    for origin in origins:
        first.setdefault(origin.provenance, origin)
    return list(first.values())


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
        if beside is None:
            with suppress(InvalidInput):  # what cannot be opened is refused where it is read
                source = open_source(replace(each, watch=None))
        yield provenance.Origin(str(path), beside) if source is None else _of_source(source)


def _of_memory(data: Any) -> provenance.Origin:
    what = f"the {type(data).__name__}"
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return provenance.Origin(what, provenance.Provenance.from_metadata(data.schema.metadata, what))
    attrs = getattr(data, "attrs", None)
    note = attrs.get(provenance.KEY) if isinstance(attrs, dict) else None
    return provenance.Origin(what, provenance.Provenance.from_json(note, what) if isinstance(note, str) else None)


def _of_source(source: Source) -> provenance.Origin:
    return provenance.Origin(source.name, provenance.Provenance.from_metadata(source.schema.metadata, source.name))
