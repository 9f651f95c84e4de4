"""Whether files that are read as different people's hold the same people twice: a release and its copy, or two releases.

An estimate of n reports takes them for those of n people. Of the same release given twice every person counts twice, and
standard errors come out too small by √2; of a later release of the same people likewise, to the extent that it repeats what
the first one says. Files say which release they hold, and which releases of the same people it followed.

One release may lie in several files, each with other people, as Spark writes it or as a table is cut by region. So only
files of the same content are refused.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from optrr.errors import InvalidInput
from optrr.records.origins import origins_of
from optrr.records.reading.registry import names_places, open_source
from optrr.records.reading.several import files_at
from optrr.records.reading.source import Place, RecordsAt
from optrr.releases.account import Release
from optrr.releases.binding import Origin, doubts, require_design


@dataclass(frozen=True)
class _Part:
    """One file or database of those that are read, under the name that it was given by, and one release that it holds."""

    named: int
    where: RecordsAt
    origin: Origin

    @property
    def what(self) -> str:
        return self.origin.what

    @property
    def release(self) -> Release | None:
        return None if self.origin.bound is None else self.origin.bound.randomizations[-1]


def people_doubts(given: Sequence[Any], digest: str, apart: Iterable[Release] = ()) -> list[str]:
    """Refuse records of another design than the one of this digest, or given twice; returns the warnings, one line each.

    Parameters
    ----------
    given
        everything that is read together, or compared: places as :class:`RecordsAt` takes them.
    digest
        the mechanism's.
    apart
        releases that do not tell whose records follow them: those that the design itself was chosen from.

    Raises
    ------
    InvalidInput
        see :func:`optrr.releases.binding.require_design` and :func:`counted_twice`.
    """
    parts = _parts(given)
    for part in parts:
        require_design(part.origin, digest)
    different = {(p.named, p.origin.provenance, p.origin.doubt): p.origin for p in reversed(parts)}
    lines = [line for origin in reversed(different.values()) for line in doubts(origin)]
    return list(dict.fromkeys([*lines, *_copies(parts), *_followed(parts, apart)]))


def counted_twice(data: Any, apart: Iterable[Release] = ()) -> list[str]:
    """Refuse a list of places that names the same records twice; returns the warnings where the same people may count twice.

    ``apart`` as of :func:`people_doubts`; data that is no place of several files says nothing.

    Raises
    ------
    InvalidInput
        where a place is named twice, or a file is a copy of another.
    """
    several = (isinstance(data, RecordsAt) or names_places(data)) and len(list(_files([data]))) > 1
    parts = _parts([data]) if several else []
    return [*_copies(parts), *_followed(parts, apart)]


def _files(given: Iterable[Any]) -> Iterator[tuple[int, RecordsAt]]:
    """Every file, or database, with the number of the name that it was given by."""
    places = [each if isinstance(each, RecordsAt) else RecordsAt(each) for each in given]
    named = [(where, each) for where in places for each in _names(where)]
    for k, (where, name) in enumerate(named):
        for path in _files_at(where, name):
            yield k, replace(where, place=path, watch=None)


def _names(where: RecordsAt) -> Sequence[Place]:
    return [where.place] if isinstance(where.place, str | os.PathLike) else where.place


def _files_at(where: RecordsAt, name: Place) -> Sequence[Place]:
    try:
        return (None if where.query else files_at(name)) or [name]
    except InvalidInput:
        return [name]  # the place cannot be opened; the error is left to the code that reads the records


def _parts(given: Iterable[Any]) -> list[_Part]:
    """What every file says, for each release that it holds. Raises InvalidInput where a place is named twice."""
    files = list(_files(given))
    seen: set[object] = set()
    for _, where in files:
        path = Path(str(where.place))
        key = path.resolve() if path.exists() else str(where.place)
        if key in seen:
            raise InvalidInput(f"{where.place} is given twice, so its people would count twice; name it once")
        seen.add(key)
    return [_Part(k, where, origin) for k, where in files for origin in origins_of(where)]


def _copies(parts: Sequence[_Part]) -> Iterator[str]:
    """Refuse a file and its copy; a doubt where files may be copies of each other."""
    for first, second in _same_content(parts):
        if first.release and second.release and first.release != second.release:
            continue  # two releases may come out alike where records are few
        if first.named != second.named and (first.release or second.release):
            raise InvalidInput(
                f"{second.what} is a copy of {first.what}, so its people would count twice; name one of the two"
            )
        yield f"{second.what} and {first.what} have the same content; if one is a copy, its people count twice here"
    first_of: dict[str, _Part] = {}
    for part in parts:
        # a seeded release has no id that would tell it from another by the same design
        first = first_of.setdefault(part.release.id, part) if part.release and part.release.id else part
        if first.named != part.named:
            yield (
                f"{first.what} and {part.what} hold records of one release; unless these are different people's, they "
                "count twice here"
            )


def _same_content(parts: Sequence[_Part]) -> Iterator[tuple[_Part, _Part]]:
    """Pairs of files with the same content; those without records do not count."""
    by_size: dict[int, list[_Part]] = defaultdict(list)
    for part in parts:
        if (path := Path(str(part.where.place))).is_file():
            by_size[path.stat().st_size].append(part)
    for alike in by_size.values():
        by_content: dict[str, list[_Part]] = defaultdict(list)
        for part in alike if len(alike) > 1 else []:
            by_content[_content(Path(str(part.where.place)))].append(part)
        for same in by_content.values():
            if len(same) > 1 and _holds_records(same[0].where):
                yield from pairwise(same)


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _holds_records(where: RecordsAt) -> bool:
    source = open_source(where)
    return any(batch.num_rows for batch in source.batches(source.column_names()[:1]))


def _followed(parts: Iterable[_Part], apart: Iterable[Release]) -> Iterator[str]:
    """One line for each two releases of the same people, as far as they say: one followed the other, or both a third."""
    held: dict[Release, _Part] = {}
    later: dict[Release, dict[Release, _Part]] = defaultdict(dict)
    for part in parts:
        if part.release is None or part.origin.bound is None:
            continue
        held.setdefault(part.release, part)
        for release in part.origin.bound.earlier:
            later[release].setdefault(part.release, part)
    for release in later.keys() - (set(apart) - held.keys()):
        itself = [held[release]] if release in held else []
        # a release without an id is like every other by its design: only beside itself does it tell whose records follow
        together = [*itself, *later[release].values()] if itself or release.id else []
        if len(together) > 1:
            yield (
                f"{together[0].what} and {together[1].what} are releases of the same people, who count twice here: errors are "
                "those of as many people as there are reports; use each release on its own"
            )
