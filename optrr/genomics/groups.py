"""What randomized tables of genotype × status show of one group of people: everybody, controls or cases.

Cells are those of a table of genotype, or of genotype × status where the group is one of a status, and of two such tables where
some people have one copy of the chromosome: first of those with two, then of those with one. All shares are of all reports.

Letters: V variants, S tables of each (1, or 2), R rows (3 genotypes, and a fourth for missing calls), C cells of all tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.genomics.tests import CopyTables
from optrr.mechanisms.kernel import EffectKernel
from optrr.models.tests.testing import GENOTYPES
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray, IntArray

CONTROLS, CASES = 0, 1
# Copies of A1 as a share of two.
HALVES = np.arange(GENOTYPES) / 2


@dataclass(frozen=True, eq=False)
class Group:
    """``observed`` shares of all reports, (V, S, R) or (V, S, R, 2), and how many reports there are, ``n`` (V,).

    ``status`` is None for everybody; ``kernel`` is of the genotype alone then, of genotype and status else. ``copies`` of the
    chromosome in each of the S tables, 2 or 1.
    """

    observed: FloatArray
    n: FloatArray
    kernel: EffectKernel
    status: int | None
    copies: tuple[int, ...]

    @classmethod
    def of(
        cls, tables: CopyTables, kernel: EffectKernel, status: int | None = None, copies: tuple[int, ...] = (2,)
    ) -> Group:
        """From counts (V, R, 2) of genotype × status and their kernel."""
        counts = np.stack([{2: tables.two, 1: tables.one}[c] for c in copies], axis=1).astype(np.float64)
        n = counts.sum(axis=(1, 2, 3))
        observed = counts / np.maximum(n, 1.0)[:, None, None, None]
        if status is None:
            genotype = EffectKernel(kernel.sizes[:1], kernel.eigenvalues[..., 0], kernel.names[:1])
            return cls(observed.sum(axis=3), n, genotype, None, copies)
        return cls(observed, n, kernel, status, copies)

    def part(self, which: slice | IntArray) -> Group:
        """Some of the variants."""
        return Group(self.observed[which], self.n[which], self.kernel.part(which), self.status, self.copies)

    @property
    def variants(self) -> int:
        """V."""
        return self.n.size

    @property
    def seen(self) -> FloatArray:
        """The observed shares, (V, C)."""
        return self.observed.reshape(self.variants, -1)

    @cached_property
    def estimate(self) -> FloatArray:
        """Unbiased shares of the true cells, shape of ``observed``."""
        return self.kernel.solve(self.observed)

    @cached_property
    def proper(self) -> FloatArray:
        """The nearest ones that are proportions, same shape."""
        return projection(self.estimate.reshape(self.variants, -1)).reshape(self.observed.shape)

    def cells(self, values: FloatArray) -> FloatArray:
        """A function of the genotype (k, 3), 0 outside the group and of missing calls: (k, R) or (k, R, 2)."""
        longer = np.pad(values, ((0, 0), (0, self.kernel.sizes[0] - GENOTYPES)))
        if self.status is None:
            return longer
        return np.asarray(np.multiply.outer(longer, np.eye(2)[self.status]))

    def genotypes(self, table: FloatArray) -> FloatArray:
        """The shares of the group's genotypes in tables shaped like ``observed``, (V, S, 3)."""
        known = table[:, :, :GENOTYPES]
        return known if self.status is None else known[..., self.status]

    def weights(self, values: FloatArray) -> FloatArray:
        """What reports count so that their mean is that of functions of the true cell: (k, S, …) to (V or 1, k, C)."""
        pulled = self.kernel.solve_adjoint(values[None])
        return np.asarray(pulled.reshape(*pulled.shape[:2], -1))

    def pushed(self, tables: FloatArray) -> FloatArray:
        """Expected reports of true tables (V or 1, k, S, …): (V or 1, k, C)."""
        sent = self.kernel.forward(tables)
        return np.asarray(sent.reshape(*sent.shape[:2], -1))

    def beside(self) -> FloatArray:
        """The proper shares with none of the group's genotypes, shape of ``observed``."""
        out = self.proper.copy()
        out[(slice(None), slice(None), slice(GENOTYPES), *(() if self.status is None else (self.status,)))] = 0.0
        return out

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether reports name more than one genotype, (V,)."""
        known = self.observed[:, :, :GENOTYPES].reshape(self.variants, len(self.copies), GENOTYPES, -1)
        return np.asarray((known.sum(axis=(1, 3)) > 0).sum(axis=1) > 1)


def in_proportions(frequency: FloatArray, departure: FloatArray | float = 0.0) -> FloatArray:
    """Genotypes (V, 3) at frequencies of A1 and coefficients of inbreeding F, 0 in Hardy–Weinberg proportions.

    (1 − p)² + F p (1 − p), 2 p (1 − p) (1 − F), p² + F p (1 − p), F no less than leaves shares of at least 0.
    """
    p = frequency
    least = -np.minimum(p, 1 - p) / np.maximum(np.maximum(p, 1 - p), 0.5)
    d = np.maximum(departure, least) * p * (1 - p)
    return np.stack([(1 - p) ** 2 + d, 2 * p * (1 - p) - 2 * d, p**2 + d], axis=-1)
