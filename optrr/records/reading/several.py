"""Several files of one kind read one after another: directories, patterns and lists, in the order of their names."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr.records.reading.partitions import WILD, partition_of, with_partition
from optrr.records.reading.source import Place, RecordsAt, Source
from optrr.releases.sidecar import SUFFIX


def files_at(place: Place | Sequence[Place]) -> list[Path] | None:
    """The files of a directory, a pattern or a list; None for a place that is none of these.

    In a directory, names that begin with a dot or an underscore are left out (Spark writes such beside its data), and so are
    sidecars, which say where records come from and hold none.

    Raises
    ------
    InvalidInput
        where there are none.
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
        self.name = str(where)
        for part in parts[1:]:
            self._checked(first, part)
        self._partitions = [_partition(file, where.place, first.schema) for file in files]
        self._check_partitions()
        self.schema = first.schema
        for name in self._partitions[0]:
            self.schema = self.schema.append(pa.field(name, pa.string()))
        self.paths = tuple(path for part in parts for path in part.paths)
        rows = [part.rows for part in parts]
        self.rows = None if None in rows else sum(r for r in rows if r is not None)
        self._current, self._done = first, 0

    @staticmethod
    def _checked(first: Source, part: Source) -> None:
        if part.schema.equals(first.schema):
            return
        types = {f.name: f.type for f in first.schema}
        differing = [f.name for f in part.schema if types.get(f.name) != f.type]
        missing = [name for name in types if name not in part.schema.names]
        if differing or missing:
            raise InvalidInput(
                f"{part.name} differs from {first.name} in column {shown((differing + missing)[0])}; "
                "give files with the same columns of the same types"
            )

    def _check_partitions(self) -> None:
        for file, partition in zip(self._files, self._partitions, strict=True):
            differing = partition.keys() ^ self._partitions[0].keys()
            if differing:
                raise InvalidInput(
                    f"{file} differs from {self._files[0]} in column {shown(min(differing))}, which a directory is named "
                    "after; give files with the same columns"
                )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of every file."""
        for done, (file, partition) in enumerate(zip(self._files, self._partitions, strict=True)):
            self._done, self._current = done, self._opened(file)
            if not partition:
                yield from self._current.batches(columns)
                continue
            # a column of the file tells how many records there are, even where none is asked for
            own = [name for name in columns if name not in partition] or self._current.column_names()[:1]
            for batch in self._current.batches(own):
                yield with_partition(batch, partition, columns)

    def share_read(self) -> float | None:
        """Files done, and the share of the one at hand."""
        return (self._done + (self._current.share_read() or 0.0)) / len(self._files)


def _partition(file: Path, place: Place | Sequence[Place], schema: pa.Schema) -> dict[str, str | None]:
    """The columns that the file's directories hold; one that the file holds as well is the file's."""
    return {name: value for name, value in partition_of(file, place).items() if name not in schema.names}
