"""A two-way table seen through randomization: its unbiased estimate, and dependence measures freed from the noise.

With eigenvalues λ_a, λ_b, λ_ab of the pair and δ the indicator of a randomized record's cell, the unbiased estimate from one
record is (design §3.2)

    û_ab = 1/(r c) + (δ_a − 1/r)/(c λ_a) + (δ_b − 1/c)/(r λ_b) + (δ_a − 1/r)(δ_b − 1/c)/λ_ab,

so under independent randomization, where λ_ab = λ_a λ_b, covariances shrink by λ_a λ_b: MDR's Proposition 1 (proved, with
the extra term of other laws, in ``proofs/prove_dependence.py``). Each û_ab takes four values, so the sampling variance of
ĉ_ab = π̂_ab − π̂_a π̂_b (delta method) costs no more than the table. Its sum Σ Var(ĉ_ab)/(π_a π_b) is what noise adds to φ² on
average; subtracting it is Bergsma's correction carried over to randomized data (λ = 1 gives (r−1)(c−1)/n under independence).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr.designs.dependence.measures import correlation_size, cramers_v, dependence_of
from optrr.domain.scores import PairScores
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import BoolArray

# A category enters the noise-corrected V where its estimated share exceeds this many standard errors. Without rarer ones V is a
# little lower; with them, their noise would be multiplied by the inverse of a share that is itself noise.
_RESOLVED = 2.0


@dataclass(frozen=True, eq=False)
class RandomizedPair:
    """Counts of two randomized attributes, shape (r, c), and the kernel of the mechanism on them.

    Raises
    ------
    InvalidInput
        for a table without records; SingularMarginal where an eigenvalue is nearly 0 and a correction is asked for.
    """

    counts: IntArray
    kernel: EffectKernel

    def __post_init__(self) -> None:
        if not self.n:
            raise InvalidInput(f"the table of {', '.join(self.kernel.names)} counts no records; give at least one")

    @classmethod
    def of(cls, counts: IntArray, mechanism: Mechanism, names: tuple[str, str]) -> RandomizedPair:
        """The pair of these attributes under a mechanism."""
        indices = mechanism.domain.indices(names)
        sizes = mechanism.domain.sizes[list(indices)]
        return cls(counts, EffectKernel(sizes, mechanism.law.eigenvalues(indices), names))

    @property
    def n(self) -> int:
        """Number of records."""
        return int(np.sum(self.counts))

    @cached_property
    def observed(self) -> FloatArray:
        """Observed proportions of the randomized records, shape (r, c)."""
        return np.asarray(self.counts / self.n, dtype=np.float64)

    @cached_property
    def unbiased(self) -> FloatArray:
        """Unbiased estimate of the true proportions, shape (r, c); may hold values below 0 or above 1."""
        return self.kernel.solve(self.observed)

    @cached_property
    def proper(self) -> FloatArray:
        """The unbiased estimate with negatives set to 0, rescaled (MDR §6.4); shape (r, c)."""
        clipped = np.maximum(self.unbiased, 0.0)
        return np.asarray(clipped / clipped.sum())

    def attenuated(self, scores: PairScores | None = None) -> float:
        """|r| of these scores, or V, of the randomized records as they are (MDR §4.1): smaller than the true one."""
        return dependence_of(self.counts, scores)

    def corrected(self, scores: PairScores | None = None, small_sample: bool = False) -> float:
        """|r| or V of the true records, from the unbiased estimate; ``small_sample`` also takes the noise off V."""
        if scores is not None:
            return correlation_size(self.unbiased, scores)
        if not small_sample:
            return cramers_v(self.proper)
        rows, columns = self._marginals
        expected = np.outer(rows, columns)
        contrast = self.unbiased - np.outer(self.unbiased.sum(axis=1), self.unbiased.sum(axis=0))
        seen = np.outer(*self._resolved)
        phi2 = float(np.sum((contrast**2 - self._contrast_variance)[seen] / expected[seen]))
        return min(1.0, math.sqrt(max(0.0, phi2) / (min(expected.shape) - 1)))

    @cached_property
    def _marginals(self) -> tuple[FloatArray, FloatArray]:
        out = []
        for axis in (1, 0):
            clipped = np.maximum(self.unbiased.sum(axis=axis), 0.0)
            out.append(clipped / clipped.sum())
        return out[0], out[1]

    @cached_property
    def _resolved(self) -> tuple[BoolArray, BoolArray]:
        """Categories whose estimated share stands out of its noise: a share near 0 would be divided by."""
        out = []
        for axis, marginal, lam in ((1, self._marginals[0], (1, 0)), (0, self._marginals[1], (0, 1))):
            seen = self.observed.sum(axis=axis)
            error = np.sqrt(seen * (1 - seen) / self.n) / abs(float(self.kernel.eigenvalues[lam]))
            out.append(np.asarray(marginal > _RESOLVED * error))
        return out[0], out[1]

    @cached_property
    def _contrast_variance(self) -> FloatArray:
        """Delta-method variance of every ĉ_ab, shape (r, c)."""
        r, c = self.observed.shape
        lam = self.kernel.eigenvalues
        rows, columns = self._marginals
        seen_rows, seen_columns = self.observed.sum(axis=1)[:, None], self.observed.sum(axis=0)[None, :]
        mean, square = np.zeros((r, c)), np.zeros((r, c))
        for in_row in (0, 1):
            for in_column in (0, 1):
                chance = _cell_chance(self.observed, seen_rows, seen_columns, in_row, in_column)
                u_row = 1 / r + (in_row - 1 / r) / lam[1, 0]
                u_column = 1 / c + (in_column - 1 / c) / lam[0, 1]
                u_both = u_row / c + u_column / r - 1 / (r * c) + (in_row - 1 / r) * (in_column - 1 / c) / lam[1, 1]
                influence = u_both - u_row * columns[None, :] - u_column * rows[:, None]
                mean += chance * influence
                square += chance * influence**2
        return np.asarray((square - mean**2) / self.n)


def _cell_chance(joint: FloatArray, rows: FloatArray, columns: FloatArray, in_row: int, in_column: int) -> FloatArray:
    """Observed proportion of records that are (or are not) in row a and column b, for every cell (a, b)."""
    if in_row:
        return joint if in_column else rows - joint
    return columns - joint if in_column else 1 - rows - columns + joint
