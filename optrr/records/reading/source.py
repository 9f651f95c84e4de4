"""Where records lie, and what every reader of them offers: columns, their types, and record batches.

A reader turns one kind of place (a CSV file, a Parquet file, a query, a frame …) into a :class:`Source`. Whatever counts
or randomizes takes sources alone, so that a new kind of place is one module and one line in
:mod:`optrr.records.reading.registry`.

Several files of one kind (directories, patterns and lists) are read one after another, in the order of their names. Names of
directories may hold columns, ``records/year=2024/part-0.parquet``, as Hive, Spark and pandas write them. These are columns of
text, since a name says no type; numbers meet their categories by their digits, as in CSV.
"""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.releases.provenance import SUFFIX, Origin, Provenance

# Records read so far, and their share of all where that is known.
Watch = Callable[[int, float | None], None]

Place = str | os.PathLike[str]

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class RecordsAt:
    """A place that holds records, and what is known of how they are written there.

    Parameters
    ----------
    place
        a file, a directory of files, a pattern such as ``part-*.parquet``, a list of these (read one after another; names of
        directories such as ``year=2024`` are columns), a database (``duckdb:FILE``, ``sqlite:FILE``, ``postgresql://…``), or
        ``-`` for standard input.
    format
        the kind of file, where its name does not say it: a name of :data:`optrr.records.reading.registry.READERS`.
    delimiter, encoding
        of CSV; by default the delimiter that makes the first line hold the declared names, and UTF-8, UTF-16 where the file
        starts with its mark, or windows-1252 where it is not UTF-8.
    query
        for databases: SQL that yields one row per record.
    watch
        called after every batch with the records read so far and their share of all, None where that is not known.
    origins
        what the records say of their randomization, where that has been read already.
    """

    place: Place | Sequence[Place]
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    query: str | None = None
    watch: Watch | None = None
    origins: tuple[Origin, ...] | None = field(default=None, compare=False, repr=False)

    def watched(self, watch: Watch) -> RecordsAt:
        """The same place, telling of every batch that is read."""
        return replace(self, watch=watch)

    def __str__(self) -> str:
        places = [self.place] if isinstance(self.place, str | os.PathLike) else list(self.place)
        return ", ".join(map(str, places[:3])) + (f", … ({len(places)} in all)" if len(places) > 3 else "")


# Whatever says where records lie.
Places = Place | Sequence[Place] | RecordsAt


def place_of(data: Any) -> RecordsAt | None:
    """The place that a path or a list of paths names, or that is given as such; None for what holds records itself."""
    if isinstance(data, RecordsAt):
        return data
    paths = data if isinstance(data, list | tuple) else [data]
    return RecordsAt(data) if paths and all(isinstance(each, str | os.PathLike) for each in paths) else None


def each_file(where: RecordsAt) -> list[RecordsAt]:
    """Each file of a place on its own, and what is no directory, pattern or list as it is.

    None where they cannot be opened: that error is left to the code that reads the records.
    """
    try:
        files = None if where.query else files_at(where.place)
    except InvalidInput:
        return []
    return [where] if files is None else [replace(where, place=path) for path in files]


class Source(ABC):
    """Records at one place: ``name`` for messages, ``schema``, and the batches.

    ``paths`` are the files that are read; ``rows`` the number of records, None where it is not known beforehand.
    """

    name: str
    schema: pa.Schema
    paths: tuple[Path, ...] = ()
    rows: int | None = None

    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema.names)

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of these columns, in order; memory for a few batches.

        A column of text may come as a dictionary where ``schema`` says text.

        Raises
        ------
        InvalidInput
            where the place cannot be read to its end, or can be read only once and has been.
        """

    def share_read(self) -> float | None:
        """Share of the place that has been read so far, 0..1; None where that is not known."""
        return None


class Passing(Source):
    """Another source, of which something is changed on the way."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.schema, self.paths, self.rows = source.name, source.schema, source.paths, source.rows

    def share_read(self) -> float | None:
        """The other's."""
        return self.source.share_read()


class Watched(Passing):
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


class Once(Source):
    """Record batches that come one after another and cannot be asked for again: a pipe, an iterator, a query's result."""

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.name = name
        first = next(batches, None)
        if first is None:
            raise InvalidInput(f"{name} holds no records; give at least one")
        self.schema = first.schema
        self._first: pa.RecordBatch | None = first
        self._rest = batches

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches; a second call is refused, and so is a batch of other columns, or of other records, than the first."""
        first, self._first = self._first, None
        if first is None:
            raise InvalidInput(f"{self.name} can be read only once; write it to a file and name that")
        known = self.schema
        for batch in chain([first], self._rest):
            if batch.schema.names != known.names:
                raise InvalidInput(f"{self.name} yields batches of different columns; give all of them the same")
            if batch.schema.metadata != known.metadata and self._said(batch.schema) != self._said(known):
                raise InvalidInput(
                    f"{self.name} yields batches of different releases, or true records among randomized ones; "
                    "give each on its own"
                )
            yield batch.select(list(columns))

    def _said(self, schema: pa.Schema) -> Provenance | None:
        return Provenance.from_metadata(schema.metadata, self.name)


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


def files_at(place: Place | Sequence[Place]) -> list[Path] | None:
    """The files of a directory, a pattern or a list; None for a place that is none of these.

    In a directory, names that begin with a dot or an underscore are left out (Spark writes such beside its data), and so are
    sidecars, which say where records come from and hold none. Raises InvalidInput where there are none.
    """
    if not isinstance(place, str | os.PathLike):
        listed = [path for each in place for path in files_at(each) or [Path(each)]]
        if not listed:
            raise InvalidInput("an empty list of files was given; name at least one")
        return listed
    text, path = str(place), Path(place)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path)))
    elif any(c in text for c in WILD) and not path.exists():
        files = sorted(Path(p) for p in glob.glob(text) if Path(p).is_file() and not p.endswith(SUFFIX))
    else:
        return None
    if not files:
        raise InvalidInput(f"there are no files at {text}; check the path")
    return files


def _hidden(path: Path) -> bool:
    return path.name.endswith(SUFFIX) or any(part.startswith((".", "_")) for part in path.parts)


class Several(Source):
    """Files that hold the same columns of the same types, read one after another; directories may hold columns, too."""

    def __init__(self, where: RecordsAt, files: Sequence[Path], opened: Callable[[RecordsAt], Source]) -> None:
        self._files, self._opened = [replace(where, place=path, watch=None) for path in files], opened
        parts = [opened(file) for file in self._files]
        first = parts[0]
        self.name, self.schema = str(where), first.schema
        for part in parts[1:]:
            _require_alike(first, part)
        # a column that the file holds as well as its directories is the file's
        self._partitions = [
            {name: value for name, value in partition_of(file, where.place).items() if name not in first.schema.names}
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
            for batch in self._current.batches(own):
                beside = {
                    name: pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for name, value in partition.items()
                }
                arrays = [beside[name] if name in beside else batch.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns)) if beside else batch

    def share_read(self) -> float | None:
        """Files done, and the share of the one at hand."""
        return (self._done + (self._current.share_read() or 0.0)) / len(self._files)


def _require_alike(first: Source, part: Source) -> None:
    """Refuse a file of other columns, or of other types, than the first."""
    if part.schema.equals(first.schema):
        return
    types = {f.name: f.type for f in first.schema}
    differing = [f.name for f in part.schema if types.get(f.name) != f.type]
    differing += [name for name in types if name not in part.schema.names]
    if differing:
        raise InvalidInput(
            f"{part.name} differs from {first.name} in column {shown(differing[0])}; "
            "give files with the same columns of the same types"
        )
