"""Records as a regression reads them: distinct reports and how often each occurs, with randomized columns and public ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from optrr.domain.codes import checked_codes
from optrr.domain.domain import Attribute, Domain, listed
from optrr.errors import InvalidInput, did_you_mean
from optrr.mechanisms.kernel import Kernel
from optrr.mechanisms.randomizer import Randomizer
from optrr.records.counts import Counts, distinct
from optrr.records.origins import origins_of
from optrr.releases.binding import Origin
from optrr_solvers.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Reports:
    """Distinct reports of the attributes that a regression names.

    Parameters
    ----------
    domain
        these attributes.
    codes
        (N, m).
    numbers
        how often each occurs, in B data sets: (B, N).
    mechanism
        of those that are randomized; the others are public.
    origins
        what the records say of their randomization.
    """

    domain: Domain
    codes: IntArray
    numbers: FloatArray
    mechanism: Randomizer
    origins: tuple[Origin, ...] = ()

    @property
    def n(self) -> FloatArray:
        """Records, (B,)."""
        return np.asarray(self.numbers.sum(axis=1), dtype=np.float64)

    def randomized(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those among the names that are randomized, in the domain's order."""
        wanted = set(names)
        return tuple(n for n in self.domain.names if n in wanted and n in self.mechanism.domain.names)

    def public(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those that are not."""
        wanted = set(names)
        return tuple(n for n in self.domain.names if n in wanted and n not in self.mechanism.domain.names)

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """How many categories they have."""
        return tuple(self.domain[name].size for name in names)

    def pairs(self) -> list[Counts]:
        """The tables of every two randomized attributes, of the first data set; of the attribute where there is but one."""
        names = self.randomized(self.domain.names)
        sets: list[tuple[str, ...]] = [*combinations(names, 2)] or [(name,) for name in names]
        return [Counts(self.domain.subset(each), self._table(each), self.origins) for each in sets]

    def _table(self, names: Sequence[str]) -> IntArray:
        sizes = self.sizes(names)
        table = np.bincount(self.cells(names), weights=self.numbers[0], minlength=prod(sizes))
        return table.astype(np.int64).reshape(sizes)

    def kernel(self, names: Sequence[str]) -> Kernel:
        """Of randomized attributes."""
        return self.mechanism.kernel(names)

    def cells(self, names: Sequence[str]) -> IntArray:
        """(N,): each report's cell in the table of these attributes."""
        if not names:
            return np.zeros(len(self.codes), dtype=np.int64)
        columns = self.codes[:, list(self.domain.indices(names))]
        return np.asarray(np.ravel_multi_index(tuple(columns.T), self.sizes(names)))

    def groups(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Different combinations of these attributes among the reports, (G, k), and which each report has, (N,)."""
        if not names:
            return np.zeros((1, 0), dtype=np.int64), np.zeros(len(self.codes), dtype=np.int64)
        rows, which = np.unique(self.codes[:, list(self.domain.indices(names))], axis=0, return_inverse=True)
        return rows, which.ravel()


def every_combination(groups: IntArray, sizes: Sequence[int]) -> IntArray:
    """Codes (G R, k + j) of every group (G, k) with every cell of the sizes, groups outermost."""
    cells = np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1) if sizes else np.zeros((1, 0), np.int64)
    return np.concatenate([np.repeat(groups, len(cells), axis=0), np.tile(cells, (len(groups), 1))], axis=1)


def read_reports(data: Any, mechanism: Randomizer, names: Sequence[str], public: Iterable[str | Attribute]) -> Reports:
    """The reports of these attributes in one data set.

    ``data`` is what :func:`optrr.count` takes, or :class:`Counts` that contain the attributes. Public attributes are declared,
    or named, and then have the values that occur.

    Raises
    ------
    InvalidInput
        for a name that is neither of the mechanism nor public, a public one that the mechanism randomizes, or no records.
    """
    domain = _domain(data, mechanism, names, list(public))
    if isinstance(data, Counts):
        table = data.marginal(domain.names).table
        codes = np.argwhere(table)
        numbers, origins = table[tuple(codes.T)], data.origins
    else:
        origins = tuple(origins_of(data))
        codes, numbers = distinct(_columns(data, mechanism, domain), domain, allow_extra=True)
    return Reports(domain, codes.astype(np.int64), numbers[None].astype(np.float64), mechanism, origins)


def _columns(data: Any, mechanism: Randomizer, domain: Domain) -> Any:
    """Of an array of codes those of the domain, because its columns are the mechanism's; anything else as it is."""
    if not isinstance(data, np.ndarray):
        return data
    outside = [name for name in domain.names if name not in mechanism.domain.names]
    if outside:
        raise InvalidInput(
            f"an array of codes has the design's columns only, and no {listed(outside)}; give a data frame"
        )
    return checked_codes(data, mechanism.domain)[:, list(mechanism.domain.indices(domain.names))]


def _domain(data: Any, mechanism: Randomizer, names: Sequence[str], public: list[str | Attribute]) -> Domain:
    declared = {a.name: a for a in public if isinstance(a, Attribute)}
    named = [a for a in public if not isinstance(a, Attribute)]
    randomized = mechanism.domain.names
    both = [n for n in (*declared, *named) if n in randomized]
    if both:
        raise InvalidInput(
            f"{listed(both)} cannot be public: this mechanism randomizes it; leave it out of the public attributes"
        )
    observed = [n for n in named if n in names]
    if observed and isinstance(data, Counts):
        declared |= {n: data.domain[n] for n in observed}
    elif observed:
        from optrr.designs.observed import observed_domain  # noqa: PLC0415 (readers are slow to import)

        declared |= {a.name: a for a in observed_domain(data, observed)}
    out = []
    for name in names:
        if name not in randomized and name not in declared:
            known = (*randomized, *declared)
            raise InvalidInput(
                f"{name!r} is no attribute of the design ({listed(randomized)}); if it is a column that was not randomized, "
                f"name it public{did_you_mean(name, known)}"
            )
        out.append(declared[name] if name in declared else mechanism.domain[name])
    return Domain(tuple(out))
