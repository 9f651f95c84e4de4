"""The table of readers, and the one function that finds the right one: a new kind of place is one line here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, did_you_mean
from optrr.records.frames import checked_columns
from optrr.records.reading.bytes_in import COMPRESSIONS, StandardInput, plain_suffix
from optrr.records.reading.memory import in_memory, plain
from optrr.records.reading.source import (
    STANDARD_INPUT,
    RecordsAt,
    Several,
    Source,
    Watched,
    files_at,
    partition_of,
    place_of,
)


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
        """The source at this place."""
        module, _, name = self.home.partition(":")
        made = cast(Callable[[RecordsAt, Domain | None], Source], getattr(importlib.import_module(module), name))
        return plain(made(where, domain)) if self.of_pandas else made(where, domain)


_HERE = "optrr.records.reading"
READERS = (
    Reader("csv", f"{_HERE}.csv_files:CsvFile", (".csv", ".tsv", ".tab"), compressible=True),
    Reader("parquet", f"{_HERE}.parquet_files:ParquetFile", (".parquet", ".pq"), of_pandas=True),
    Reader("jsonl", f"{_HERE}.json_files:JsonLines", (".jsonl", ".ndjson"), compressible=True),
    Reader(
        "arrow",
        f"{_HERE}.arrow_files:ArrowFile",
        (".arrow", ".arrows", ".feather", ".ipc"),
        compressible=True,
        of_pandas=True,
    ),
    Reader("duckdb", f"{_HERE}.queries:Query", (".duckdb", ".ddb"), ("duckdb:",), takes_query=True),
    Reader("survey", "optrr.survey.stored_records:survey_records", (".db",), ("sqlite:", "postgresql:", "postgres:")),
    Reader("sql", f"{_HERE}.queries:Query", (), ("sqlite:", "postgresql:", "postgres:"), takes_query=True),
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
    return source if where.watch is None else Watched(source, where.watch)


def _opened(where: RecordsAt, domain: Domain | None) -> Source:
    reader = _by_scheme(where)
    files = None if reader is not None else files_at(where.place)
    if files is not None:

        def opened(one: RecordsAt) -> Source:
            # where all columns are in the names of directories, the file need not have any of them
            outside = partition_of(Path(str(one.place)), where.place).keys()
            inside = None if domain is None or outside >= set(domain.names) else domain
            return _reader_of(one).open(one, inside)

        return Several(where, files, opened)
    reader = reader or _reader_of(where)
    if where.query and not reader.takes_query:
        raise InvalidInput(f"a query is for databases and {where} is a file; leave it out")
    return reader.open(where, domain)


def _by_scheme(where: RecordsAt) -> Reader | None:
    text = str(where.place) if isinstance(where.place, str | os.PathLike) else ""
    named = [r for r in READERS if any(text.startswith(s) for s in r.schemes)]
    # a database is asked a query, or holds a survey and needs none
    return next((r for r in named if r.takes_query == bool(where.query)), named[0] if named else None)


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


def record_batches(data: Any, domain: Domain, declared: Domain | None) -> Iterator[pa.RecordBatch]:
    """Record batches with the columns of ``domain``, from whatever :func:`open_source` takes.

    Other columns are skipped if ``declared`` has them, or if it is None. Raises InvalidInput for missing, repeated or
    undeclared columns, and what :func:`open_source` refuses.
    """
    source = open_source(data, domain)
    checked_columns(source.column_names(), domain, declared)
    yield from source.batches(domain.names)
