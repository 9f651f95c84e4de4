"""From counts to effects and back on the lattice of an allocation: λ = K ν and h = Kᵀ g, one class at a time.

A cell k = (k_1, …, k_G) says how many attributes of each class change; an effect u = (u_1, …, u_G) how many of each class
it involves. By symmetry λ depends on u only, and

    λ_u = Σ_k ν_k Π_g K_g[u_g, k_g],   K_g[u, k] = Σ_s C(u, s) Pr(of u given ones exactly the first s change | k) (−1/(r−1))^s,

the mean of χ over the choices of u of the n members when k of them change. Classes of one give the 2^m change sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import comb

from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.count import CountLaw, log_uniform_counts, pattern_given_count
from optrr_solvers.laws.table import MAX_TABLE, TableLaw

# An allocation sorts out its cells some hundred times: 2^18 of them take seconds.
MAX_ALLOCATION_CELLS = 1 << 18


def mean_effects(n: int, r: int, most: int) -> FloatArray:
    """K[u, k] for u up to ``most``, shape (most+1, n+1); absolute error of a few roundings, since |terms| add up to 1."""
    out = np.empty((most + 1, n + 1))
    for u in range(most + 1):
        s = np.arange(u + 1)
        out[u] = pattern_given_count(n, u) @ (comb(u, s) * (-1.0 / (r - 1)) ** s)
    return out


def cells_of_classes(workload: TableWorkload) -> int:
    """Number of vectors of counts, Π (m_g + 1)."""
    return math.prod(c.size + 1 for c in workload.classes)


def effect_usage(workload: TableWorkload) -> IntArray:
    """How many of each class every effect of the workload, then every class's one-way effect involves: (rows, G)."""
    groups = len(workload.classes)
    usage = [np.bincount(workload.class_of[list(w)], minlength=groups) for w in workload.effects]
    return np.stack([*usage, *np.eye(groups, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class EffectLattice:
    """The cells of a workload's classes, with the workload's effects among them. Raises MethodTooLarge above 2^18 cells."""

    workload: TableWorkload

    def __post_init__(self) -> None:
        if self.cells > MAX_ALLOCATION_CELLS:
            raise MethodTooLarge(
                f"{self.cells} vectors of counts; the lattice takes up to {MAX_ALLOCATION_CELLS}: use method 'search'"
            )

    @property
    def classes(self) -> tuple[IntArray, ...]:
        """The workload's classes."""
        return self.workload.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """(m_1+1, …, m_G+1)."""
        return tuple(c.size + 1 for c in self.classes)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return cells_of_classes(self.workload)

    @cached_property
    def mu(self) -> FloatArray:
        """Law of the counts of a uniformly random answer, shape ``shape``."""
        return np.exp(log_uniform_counts(self.workload.sizes, self.classes))

    @cached_property
    def _usage(self) -> IntArray:
        return effect_usage(self.workload)

    @cached_property
    def _axes(self) -> list[FloatArray]:
        most = self._usage.max(axis=0).tolist()
        keys = [(int(c.size), int(self.workload.sizes[c[0]]), u) for c, u in zip(self.classes, most, strict=True)]
        made = {key: mean_effects(*key) for key in set(keys)}
        return [made[key] for key in keys]

    @cached_property
    def _places(self) -> IntArray:
        """Flat index of every row among the effects that the axes span."""
        return np.asarray(np.ravel_multi_index(tuple(self._usage.T), [len(a) for a in self._axes]))

    @property
    def rows(self) -> int:
        """Length of an effect vector: the workload's effects, then one per class."""
        return int(self._places.size)

    def effects_of(self, mass: FloatArray) -> FloatArray:
        """λ of a law (or of any mass on the cells), shape (rows,). O(cells Σ m_g)."""
        out = mass
        for matrix in self._axes:
            # contracting the first axis and appending cycles through them all
            out = np.tensordot(out, matrix, axes=(0, 1))
        return np.asarray(out.ravel()[self._places])

    def cells_of(self, multipliers: FloatArray) -> FloatArray:
        """h = Σ multipliers · χ on every cell, shape ``shape``. O(cells Σ m_g)."""
        shape = [len(a) for a in self._axes]
        out = np.zeros(math.prod(shape))
        np.add.at(out, self._places, multipliers)
        out = out.reshape(shape)
        for matrix in self._axes:
            out = np.tensordot(out, matrix, axes=(0, 0))
        return out

    def matrix(self) -> FloatArray:
        """All χ rows at once, shape (rows, cells); for the convex program, whose lattice is small."""
        return np.stack([self.cells_of(row).ravel() for row in np.eye(self.rows)])

    def law(self, log_density: FloatArray) -> TableLaw | CountLaw:
        """The law of these log densities, shape ``shape``."""
        sizes = self.workload.sizes
        if len(self.classes) == sizes.size <= MAX_TABLE:
            order = np.argsort([int(c[0]) for c in self.classes])
            return TableLaw(sizes, np.transpose(log_density, order))
        return CountLaw(sizes, self.classes, log_density)
