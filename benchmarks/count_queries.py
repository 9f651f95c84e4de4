"""MDR §6.5's experiment: count queries on Adult, shared by the scripts that re-create its tables and figures.

A query takes two random attributes and a random share σ of their pairs of categories (rounded, at least one). Its
relative error is |Y_S − X_S|/X_S, infinite where S is empty; the paper reports medians.

Within a cluster the randomized counts are drawn from their exact distribution given the true counts, one multinomial
per distinct value instead of one draw per person, so Adult6 costs no more than Adult.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from people import adult_codes

from optrr.core.domain.datasets import ADULT_EIGHT, adult_domain
from optrr.core.domain.domain import Domain
from optrr.core.mechanisms.kernel import EffectKernel
from optrr_solvers.laws import Law

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Data:
    """Records as codes, each ``copies`` times."""

    domain: Domain
    codes: NDArray[np.int32]
    copies: int = 1

    @property
    def n(self) -> int:
        """Number of records."""
        return self.codes.shape[0] * self.copies

    def counts(self, members: Sequence[int]) -> NDArray[np.int64]:
        """True counts over these attributes, their shape."""
        sizes = tuple(self.domain.sizes[list(members)])
        cells = np.ravel_multi_index(tuple(self.codes[:, list(members)].T), sizes)
        return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes) * self.copies

    @cached_property
    def pairs(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        """True counts of every pair, flat."""
        m = self.domain.m
        return {(i, j): self.counts((i, j)).ravel() for i in range(m) for j in range(i + 1, m)}


def adult_eight(copies: int = 1) -> Data:
    """MDR's eight attributes; Adult6 is six copies."""
    domain = adult_domain().subset(ADULT_EIGHT)
    return Data(domain, adult_codes(*ADULT_EIGHT), copies)


@dataclass(frozen=True, eq=False)
class Query:
    """Two attributes, ascending, and flat cells of their table."""

    pair: tuple[int, int]
    cells: NDArray[np.int64]


def random_query(domain: Domain, sigma: float, rng: np.random.Generator) -> Query:
    i, j = sorted(rng.choice(domain.m, 2, replace=False).tolist())
    size = int(domain.sizes[i] * domain.sizes[j])
    return Query((i, j), rng.choice(size, max(1, round(sigma * size)), replace=False))


def errors(query: Query, truth: NDArray[np.int64], proportions: Array) -> tuple[float, float]:
    """Absolute and relative error of an estimated pair table."""
    there = int(truth[query.cells].sum())
    absolute = abs(float(proportions.ravel()[query.cells].sum()) * truth.sum() - there)
    return absolute, absolute / there if there else np.inf


def clip(values: Array) -> Array:
    """MDR §6.4: negatives to 0, rescale."""
    kept = np.maximum(values, 0.0)
    return kept / kept.sum()


class ClusterSimulator:
    """Randomized and estimated tables of one cluster under one law."""

    def __init__(self, data: Data, members: Sequence[int], law: Law) -> None:
        self.members = tuple(members)
        self.sizes = tuple(int(r) for r in law.sizes)
        self.counts = data.counts(members).ravel()
        self.kernel = EffectKernel(law.sizes, law.eigenvalues(range(law.m)))
        self.hidden = not self.kernel.is_invertible
        cells = self.kernel.cell_probabilities
        kept = float(cells[(0,) * cells.ndim])
        other = np.delete(cells.ravel(), 0)
        # all others alike and no likelier than the record itself: uniform answers plus kept records
        self._kept = kept - other[0] if np.ptp(other) < 1e-12 * kept and kept >= other[0] else None
        self._matrix = None if self._kept is not None else self.kernel.matrix()

    def randomized(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Counts of the randomized records, exactly as drawing every record would give them."""
        if self._kept is not None:
            stay = rng.binomial(self.counts, self._kept)
            return stay + rng.multinomial(self.counts.sum() - stay.sum(), np.full(stay.size, 1 / stay.size))
        there = np.flatnonzero(self.counts)
        rows = self._matrix[there]
        return rng.multinomial(self.counts[there], rows / rows.sum(axis=1, keepdims=True)).sum(axis=0)

    def estimated(self, randomized: NDArray[np.int64]) -> Array:
        """Unbiased estimate of the cluster's table, made proper; even where the law hides everything (p = 1/r)."""
        if self.hidden:
            return np.full(self.sizes, 1 / np.prod(self.sizes))
        table = self.kernel.solve((randomized / randomized.sum()).reshape(self.sizes))
        return clip(table)


def table_of(pair: tuple[int, int], tables: Sequence[tuple[Sequence[int], Array]]) -> Array:
    """The pair's table from the clusters' tables, independence assumed between clusters."""
    marginals = []
    for members, table in tables:
        inside = [members.index(i) for i in pair if i in members]
        if not inside:
            continue
        part = table.sum(axis=tuple(a for a in range(table.ndim) if a not in inside))
        if len(inside) == 2:
            return part if inside[0] < inside[1] else part.T
        marginals.append((members[inside[0]], part))
    marginals.sort(key=lambda margin: pair.index(margin[0]))
    return np.outer(marginals[0][1], marginals[1][1])
