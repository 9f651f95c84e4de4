"""Where records lie, and what every reader of them offers: columns, their types, and record batches.

A reader turns one kind of place (a CSV file, a Parquet file, a query, a frame …) into a :class:`Source`. Whatever counts
or randomizes takes sources alone, so that a new kind of place is one module and one line in
:mod:`optrr.records.reading.registry`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from optrr.errors import InvalidInput
from optrr.releases.binding import Origin
from optrr.releases.provenance import Provenance

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


class Watched(Source):
    """Another source whose batches are reported as they are read."""

    def __init__(self, source: Source, watch: Watch) -> None:
        self._source, self._watch = source, watch
        self.name, self.schema, self.paths, self.rows = source.name, source.schema, source.paths, source.rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        done = 0
        for batch in self._source.batches(columns):
            done += batch.num_rows
            self._watch(done, done / self.rows if self.rows else self._source.share_read())
            yield batch

    def share_read(self) -> float | None:
        """The other's."""
        return self._source.share_read()


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
        """The batches; a second call is refused."""
        first, self._first = self._first, None
        if first is None:
            raise InvalidInput(f"{self.name} can be read only once; write it to a file and name that")
        yield first.select(list(columns))
        for batch in self._rest:
            self._check(batch.schema)
            yield batch.select(list(columns))

    def _check(self, schema: pa.Schema) -> None:
        """Refuse a batch of other columns than the first, or of other records: what is said of the first is said of all."""
        if schema.names != self.schema.names:
            raise InvalidInput(f"{self.name} yields batches of different columns; give all of them the same")
        if schema.metadata != self.schema.metadata and self._said(schema) != self._said(self.schema):
            raise InvalidInput(
                f"{self.name} yields batches of different releases, or true records among randomized ones; give each on its own"
            )

    def _said(self, schema: pa.Schema) -> Provenance | None:
        return Provenance.from_metadata(schema.metadata, self.name)
