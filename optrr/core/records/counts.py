"""Randomized records, opened once and bound to their protocol, and counts of them. Every analysis starts here.

An estimate of n reports assumes that they come from n people. If a release is given twice, every person counts twice,
and standard errors are too small by √2. So a release that is read together with itself, by the id in its note, is
refused (:attr:`OpenedRecords.origins`), and in two groups a doubt; the files of one directory or pattern may be parts
of a release. Whether counts can come from the mechanism at all is checked where they are estimated
(:mod:`optrr.core.estimation.plausibility`).

Counts are how many records fall in each cell of a table, for one attribute set or for many in a single pass. Every
estimate takes a table of counts and a mechanism, so any source of counts can be used. Each column is encoded once per
chunk; the tables of all attribute sets are filled from combined codes. Memory: the tables, and one chunk of 131,072
records. Time: O(n · number of sets).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.domain.domain import CellsResult, Domain, checked_codes, listed
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.provenance.provenance import Origin, Provenance, doubts, require_design
from optrr.core.records.frames import RECORDS, FrameCodec, checked_columns
from optrr.core.records.reading.device_reports import as_reports
from optrr.core.records.reading.registry import different, open_source, origins_of
from optrr.core.records.reading.source import each_file, place_of
from optrr.core.records.spark import is_spark_frame, summed
from optrr_solvers.arrays import FloatArray, IntArray


def record_batches(data: Any, domain: Domain, declared: Domain | None) -> Iterator[pa.RecordBatch]:
    """Iterate over record batches with the columns of ``domain``.

    ``data`` is anything that ``open_source`` takes.

    Other columns are skipped if ``declared`` has them or is not given. Raises InvalidInput for missing, repeated or
    undeclared columns, and what :func:`open_source` refuses.
    """
    source = open_source(data, domain)
    checked_columns(source.column_names(), domain, declared)
    yield from source.batches(domain.names)


def encoded_batches(data: Any, domain: Domain, declared: Domain | None) -> Iterator[NDArray[np.int32]]:
    """Iterate over codes of each batch, shape (n, m), in the order of the data.

    Empty batches are left out.

    Other columns and refusals are those of :func:`record_batches`; also refused is an undeclared value, with the first
    record that has it.
    """
    codec: FrameCodec | None = None
    for batch in record_batches(data, domain, declared):
        codec = codec or FrameCodec(domain, batch.schema)
        codes = codec.encode(batch)
        if codes.shape[0]:
            yield codes


def encoded(data: Any, domain: Domain) -> NDArray[np.int32]:
    """Convert all records to codes, shape (N, m); other columns are allowed.

    Raises InvalidInput as :func:`encoded_batches` does.
    """
    empty = np.zeros((0, domain.m), dtype=np.int32)
    return np.concatenate([empty, *encoded_batches(data, domain, None)])


# All tables of one pass together: 2^27 cells of 8 bytes are 1 GiB.
MAX_CELLS = 1 << 27
# Records of a table: two such tables can still be added.
_MOST_RECORDS = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class Counts(CellsResult):
    """A table of counts.

    ``table`` has the shape of ``domain.sizes``, int64, read-only.

    ``origins`` are the provenance of the counted records; empty where the table was given, or made from codes, which
    have no provenance.

    Raises InvalidInput for another shape, or entries that are not whole numbers of at least 0 with a sum below 2^62.

    Examples
    --------
    >>> import numpy as np, optrr
    >>> counts = optrr.Counts(optrr.Domain.of({"sex": ["F", "M"]}), np.array([60, 40]))
    >>> counts.n, counts.proportions.tolist()
    (100, [0.6, 0.4])
    """

    domain: Domain
    table: IntArray
    origins: tuple[Origin, ...] = ()

    in_summary = ("n",)
    drawn = ("count",)

    def __post_init__(self) -> None:
        given = np.asarray(self.table)
        if given.shape != tuple(self.domain.sizes):
            raise InvalidInput(
                f"the table has shape {given.shape}; give one of the domain's shape "
                f"{tuple(map(int, self.domain.sizes))}"
            )
        whole = given.dtype.kind in "iu" or (
            given.dtype.kind == "f" and bool(np.all(np.isfinite(given) & (np.round(given) == given)))
        )
        if not whole or given.min() < 0:
            raise InvalidInput("a table of counts holds whole numbers of at least 0; give counts, not proportions")
        if given.sum(dtype=np.float64) >= _MOST_RECORDS:
            raise InvalidInput(
                f"the table counts {given.sum(dtype=np.float64):.2g} records; give one of fewer than 2^62"
            )
        table = given.astype(np.int64)
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def headline(self) -> str:
        """Summarize the table and the number of records."""
        return f"{' × '.join(self.domain.names)}, {self.n} record{'' if self.n == 1 else 's'}"

    def numbers(self) -> dict[str, IntArray]:
        """Return the counts."""
        return {"count": self.table}

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.table.sum())

    @property
    def proportions(self) -> FloatArray:
        """Observed proportions λ̂, same shape; refused where there are no records."""
        if not self.n:
            raise InvalidInput("the table counts no records, so it has no proportions; count at least one")
        return np.asarray(self.table / self.n)

    def marginal(self, names: str | Iterable[str]) -> "Counts":
        """Sum the counts to these attributes, axes in the order given."""
        chosen = self.domain.indices(names)
        rest = tuple(i for i in range(self.domain.m) if i not in chosen)
        table = np.transpose(self.table.sum(axis=rest), np.argsort(np.argsort(chosen)))
        return Counts(Domain(tuple(self.domain.attributes[i] for i in chosen)), table, self.origins)

    def __add__(self, other: "Counts") -> "Counts":
        if not isinstance(other, Counts):
            return NotImplemented
        if other.domain != self.domain:
            raise InvalidInput("only counts over one domain can be added; count both with the same declaration")
        together = tuple(dict.fromkeys((*self.origins, *other.origins)))
        return Counts(self.domain, self.table + other.table, together)


def count(data: Any, domain: Domain, attributes: str | Iterable[str], allow_extra: bool = False) -> Counts:
    """Count one table; see :func:`count_many`.

    Examples
    --------
    >>> import optrr, pandas as pd
    >>> domain = optrr.Domain.of({"sex": ["F", "M"]})
    >>> optrr.count(pd.DataFrame({"sex": ["F", "M", "F"]}), domain, "sex").table.tolist()
    [2, 1]
    """
    if not isinstance(domain, Domain):
        raise InvalidInput(f"got a {type(domain).__name__} for a domain; give a Domain, such as design.domain")
    chosen = tuple(domain.names[i] for i in domain.indices(attributes))
    return count_many(data, domain, [chosen], allow_extra)[chosen]


def count_many(
    data: Any, domain: Domain, attribute_sets: Iterable[Sequence[str]], allow_extra: bool = False
) -> dict[tuple[str, ...], Counts]:
    """Count every table in one pass over the data.

    Raises InvalidInput for unknown categories, undeclared missing values, missing or undeclared columns, no records, or tables
    of more than 2^27 cells together.

    Parameters
    ----------
    data
        a pandas, polars, Arrow or Spark table (Spark counts where the records lie); an integer array of codes, shape (n, m);
        any place that :class:`optrr.RecordsAt` names; an iterable of record batches; or :class:`Counts` of a joint table that
        contains the sets.
    domain
        declares the columns. Columns that no set names need not be there.
    attribute_sets
        Attributes to cross, each set in the order of its table's axes.
    allow_extra
        ignore columns that the domain does not declare instead of refusing them.
    """
    sets = [tuple(domain.names[i] for i in domain.indices(names)) for names in attribute_sets]
    named = {name for names in sets for name in names}
    if isinstance(data, Counts):
        if other := [a.name for a in data.domain if a.name in named and a != domain[a.name]]:
            raise InvalidInput(
                f"attribute {other[0]!r} has other categories in the counts than in the domain; count with the domain of the "
                "design"
            )
        return {names: data.marginal(names) for names in sets}
    needed = [name for name in domain.names if name in named]
    if not needed:
        raise InvalidInput("no attribute sets were given; name at least one")
    origins = tuple(origins_of(data))
    wanted, declared = domain.subset(needed), None if allow_extra else domain
    tally = _Tally(wanted, sets)
    if is_spark_frame(data):
        checked_columns(list(data.columns), wanted, declared)
        tally.cells[:] = summed(data, needed, tally.cells.size, partial(_cells_of, wanted, sets))
    else:
        for codes in _code_chunks(data, domain, needed, declared):
            tally.add(codes)
    if not tally.cells.any():
        raise InvalidInput("the data contains no records; give at least one")
    return tally.counts(origins)


def _cells_of(domain: Domain, sets: Sequence[tuple[str, ...]], batches: Iterator[pa.RecordBatch]) -> IntArray:
    """Count the cells of all tables in a Spark worker's records."""
    counted, codec = _Tally(domain, sets), None
    for batch in batches:
        codec = codec or FrameCodec(domain, batch.schema)
        counted.add(codec.encode(batch))
    return counted.cells


def distinct(data: Any, domain: Domain, allow_extra: bool = False) -> tuple[IntArray, IntArray]:
    """Count distinct records in one pass over the data.

    Sorted codes (N, m) over all attributes, and their numbers (N,).

    Memory is O(N m), and of small domains their cells: these are counted without sorting any record. ``data`` and the
    errors are those of :func:`count_many`, except counts.
    """
    if prod(map(int, domain.sizes)) <= RECORDS:
        table = count_many(data, domain, [domain.names], allow_extra)[domain.names].table
        return np.argwhere(table), table[table > 0]
    rows, numbers = np.zeros((0, domain.m), dtype=np.int64), np.zeros(0, dtype=np.int64)
    for codes in _code_chunks(data, domain, domain.names, None if allow_extra else domain):
        merged, inverse = np.unique(np.concatenate([rows, codes]), axis=0, return_inverse=True)
        each = np.concatenate([numbers, np.ones(codes.shape[0], dtype=np.int64)])
        rows, numbers = merged, np.bincount(inverse.ravel(), weights=each, minlength=merged.shape[0]).astype(np.int64)
    if not numbers.size:
        raise InvalidInput("the data contains no records; give at least one")
    return rows, numbers


class _Tally:
    """Flat tables of several attribute sets in ``cells``, filled chunk by chunk."""

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]]) -> None:
        self.domain, self.sets = domain, sets
        self._sizes = [tuple(domain[name].size for name in names) for names in sets]
        numbers = [prod(sizes) for sizes in self._sizes]
        if sum(numbers) > MAX_CELLS:
            largest = sets[int(np.argmax(numbers))]
            raise InvalidInput(
                f"the tables have {sum(numbers)} cells, {max(numbers)} of them over {listed(largest)}; "
                f"use attribute sets of at most {MAX_CELLS} cells together"
            )
        self.cells: IntArray = np.zeros(sum(numbers), dtype=np.int64)
        self._tables = np.split(self.cells, np.cumsum(numbers)[:-1])

    def add(self, codes: NDArray[np.integer]) -> None:
        """Count a chunk of codes, shape (k, number of attributes)."""
        columns = np.ascontiguousarray(codes.T, dtype=np.int64)
        for names, sizes, table in zip(self.sets, self._sizes, self._tables, strict=True):
            members = self.domain.indices(names)
            cell = columns[members[0]]
            for i, r in zip(members[1:], sizes[1:], strict=True):
                cell = cell * r + columns[i]
            np.add.at(table, cell, 1)

    def counts(self, origins: tuple[Origin, ...]) -> dict[tuple[str, ...], Counts]:
        return {
            names: Counts(self.domain.subset(names), table.reshape(sizes), origins)
            for names, sizes, table in zip(self.sets, self._sizes, self._tables, strict=True)
        }


def _code_chunks(
    data: Any, domain: Domain, needed: Sequence[str], declared: Domain | None
) -> Iterator[NDArray[np.integer]]:
    """Iterate over codes of the needed attributes, chunk by chunk."""
    if isinstance(data, np.ndarray):
        codes = checked_codes(data, domain)
        columns = list(domain.indices(needed))
        for start in range(0, codes.shape[0], RECORDS):
            yield codes[start : start + RECORDS, columns]
        return
    # opened with all attributes, which define how columns are split
    yield from encoded_batches(open_source(data, domain), domain.subset(needed), declared)


class Asked(Protocol):
    """A protocol such as a design.

    The attributes, and the identity of its records.
    """

    @property
    def domain(self) -> Domain:
        """Requested attributes."""

    @property
    def digest(self) -> str:
        """Digest of the mechanism that the records name."""

    @property
    def public(self) -> PublicColumns:
        """Non-randomized columns beside the attributes."""


@dataclass(frozen=True, eq=False)
class OpenedRecords:
    """Randomized records that are read together or compared, with their protocol.

    Their provenance is read when it is first needed, and once; they are counted again each time, because a frame may
    have changed since, or a file have grown. ``kept`` caches tables by their attributes, for a command's one run; None
    reads anew each time.
    """

    asking: Asked
    given: tuple[Any, ...]
    kept: dict[tuple[str, ...], tuple[Any, ...]] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, asking: Asked, *given: Any) -> Self:
        """Open the reports of each argument.

        Whatever :func:`optrr.count` takes, or opened reports.

        Raises InvalidInput once they are used: for records of another design
        (:func:`optrr.core.provenance.provenance.require_design`), and for a place that is named twice.
        """
        if len(given) == 1 and isinstance(given[0], OpenedRecords):
            reports = given[0]
            if isinstance(reports, cls) and reports.asking.digest == asking.digest:
                return reports
            return cls(asking, reports.given)
        # a stream is opened first, to see its provenance before it is read
        opened = (open_source(g, asking.domain) if isinstance(g, Iterator) else g for g in given)
        return cls(asking, tuple(as_reports(g, asking) for g in opened))

    @cached_property
    def origins(self) -> tuple[tuple[Origin, ...], ...]:
        """Provenance of each argument's records, each different one once.

        Raises InvalidInput for records of another design, a place that is named twice, and two places in one that is given
        which hold the same release.
        """
        places: set[Any] = set()
        return tuple(tuple(different(self._said_by(each, places))) for each in self.given)

    def _said_by(self, given: Any, places: set[Any]) -> Iterator[Origin]:
        """Iterate over the origins of an argument and of the ``places`` read so far."""
        where, known = place_of(given), dict[str, str]()
        for one in [given] if where is None else [replace(where, place=place) for place in where.named]:
            for file in () if where is None else each_file(one) or [one]:
                path = Path(str(file.place))
                place = path.resolve() if path.exists() else str(file.place)
                if place in places:
                    raise InvalidInput(f"{path} is given twice, so its respondents would count twice; name it once")
                places.add(place)
            found = origins_of(one)
            # files of one directory or pattern may be parts of a release, and releases of one seed cannot be
            # distinguished
            here = {o.provenance.release.id: o.what for o in found if o.provenance is not None}
            for release in filter(None, here.keys() & known.keys()):
                raise InvalidInput(
                    f"{here[release]} and {known[release]} contain the same release, so its respondents would count "
                    "twice; name one of "
                    "them, or a directory with the parts of the release"
                )
            known |= here
            for origin in found:
                require_design(origin, self.asking.digest)
                yield origin

    @property
    def stated(self) -> list[Provenance]:
        """The notes of those that have one."""
        return [origin.provenance for each in self.origins for origin in each if origin.provenance is not None]

    @cached_property
    def doubts(self) -> list[str]:
        """Warnings about them, one line each, to be shown beside every number."""
        return list(dict.fromkeys([*self.collapsed_notes, *self.unbound]))

    @property
    def mechanism(self) -> Any:
        """Mechanism that randomized the records; None for answers to queries.

        With collapsed categories, as the records show it.
        """
        return getattr(self.asking, "mechanism", None)

    @property
    def collapsed_notes(self) -> tuple[str, ...]:
        """Which categories count as one, where some do (:mod:`optrr.analysis.collapsed`)."""
        return tuple(getattr(self.asking, "notes", ()))

    @cached_property
    def unbound(self) -> list[str]:
        """Warnings about the origin of records.

        No provenance metadata, drawn from a seed, one release in two groups.
        """
        lines = [line for each in self.origins for origin in each for line in doubts(origin)]
        groups = [{o.provenance.release.id for o in each if o.provenance is not None} - {""} for each in self.origins]
        if any(one & other for one, other in combinations(groups, 2)):
            lines.append("respondents count twice if two groups have them: both contain records of one release")
        return list(dict.fromkeys(lines))

    @property
    def public(self) -> PublicColumns:
        """Public columns requested and those that the releases name.

        The latter take precedence, as they did in the release.
        """
        known = self.asking.public
        for each in self.stated:
            known = known.merged(each.public)
        return known

    def agreed(self, asked: PublicColumns = NONE) -> PublicColumns:
        """Return the public columns if all releases agree on those not in ``asked``.

        Raises InvalidInput if the design and the releases, or two releases, name different weights, strata or clusters.
        """
        for role, option in (("weight", "weights"), ("stratum", "strata"), ("cluster", "psu")):
            said = [getattr(self.asking.public, role), *(getattr(each.public, role) for each in self.stated)]
            names = list(dict.fromkeys(name for name in said if name is not None))
            if len(names) > 1 and getattr(asked, role) is None:
                raise InvalidInput(
                    f"``{option}``: the design and its releases name different columns, {listed(names)}; name one, or "
                    "ignore the sample"
                )
        return self.public.merged(asked)

    @property
    def unweighted_doubts(self) -> list[str]:
        """Doubts, and that the sample is ignored.

        For results that do not use weights, strata and clusters.
        """
        return [*self.doubts, *self.public.ignored()]

    @property
    def places(self) -> list[Any]:
        """All given data for readers, after checking that none is of another design."""
        return [given for given, _ in zip(self.given, self.origins, strict=True)]

    def counts(self, names: str | Iterable[str]) -> tuple[Counts, ...]:
        """Count these attributes in each argument, unless they are ``kept``."""
        domain = self.asking.domain
        return self.once(names, lambda wanted: tuple(count(x, domain, wanted, allow_extra=True) for x in self.places))

    def once(self, names: str | Iterable[str], made: Callable[[tuple[str, ...]], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the tables that ``made`` reads, or those ``kept`` earlier."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if self.kept is None:
            return made(wanted)
        if wanted not in self.kept:
            self.kept[wanted] = made(wanted)
        return self.kept[wanted]
