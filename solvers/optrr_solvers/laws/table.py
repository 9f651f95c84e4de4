"""TableLaw: one density for each of the 2^m change sets; the law of the exact solvers at small m."""

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import attribute_epsilon_bounds
from optrr_solvers.laws.base import Law, checked_subset, effect_transform
from optrr_solvers.laws.record import SparseTable, dense, sparse
from optrr_solvers.sampling.diagram import MOST_STATES, Diagram, table_diagram

MAX_TABLE = 20


class TableLaw(Law):
    """Density of every change set against the uniform answer.

    ``log_density`` has shape (2,)*m (or 2^m values in that order, first attribute slowest): ln q_S up to one constant.
    The law's ε is exactly the range of these numbers. Memory 8·2^m bytes, m at most 20.
    """

    kind = "table"
    Record = SparseTable

    def __init__(self, sizes: IntArray, log_density: FloatArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.m > MAX_TABLE:
            raise ValueError(f"a table of change sets for {self.m} attributes does not fit; {MAX_TABLE} at most")
        values = np.asarray(log_density, dtype=np.float64)
        if values.size != 1 << self.m or not np.all(np.isfinite(values)):
            raise ValueError(
                f"a TableLaw of {self.m} attributes needs {1 << self.m} finite log densities, got {values.size}"
            )
        self.log_density = values.reshape((2,) * self.m)

    def to_record(self) -> SparseTable:
        """The densities."""
        return sparse(self.log_density)

    @classmethod
    def from_record(cls, record: SparseTable, sizes: IntArray) -> "TableLaw":
        """The law of a record."""
        return cls(sizes, dense((2,) * sizes.size, record, 1 << MAX_TABLE))

    def epsilon_parts(self) -> list[float]:
        """Largest and smallest number."""
        return [float(self.log_density.max()), -float(self.log_density.min())]

    def attribute_epsilon_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """In rationals up to 12 attributes."""
        return attribute_epsilon_bounds(self.sizes, [np.asarray([i]) for i in range(self.m)], self.log_density)

    @cached_property
    def probabilities(self) -> FloatArray:
        """ν_S, shape (2,)*m."""
        logs = self.log_density + log_uniform(self.sizes)
        return np.asarray(np.exp(logs - logsumexp(logs)))

    @cached_property
    def _all_eigenvalues(self) -> FloatArray:
        return effect_transform(self.probabilities, self.sizes)

    def one_way(self) -> FloatArray:
        """Pr(kept), Pr(changed) per attribute, shape (m, 2)."""
        return np.stack([self.marginal((i,)) for i in range(self.m)])

    def marginal(self, subset: Sequence[int]) -> FloatArray:
        """Sum over the other attributes, shape (2,)*k; O(2^m)."""
        chosen = checked_subset(subset, self.m)
        rest = tuple(i for i in range(self.m) if i not in chosen)
        kept = self.probabilities.sum(axis=rest)
        return np.transpose(kept, np.argsort(np.argsort(chosen)))

    def pair_eigenvalues(self) -> FloatArray:
        """λ_ij and λ_i from one transform of the whole table, O(m 2^m)."""
        bits = np.int64(1) << np.arange(self.m - 1, -1, -1)
        return np.asarray(self._all_eigenvalues.ravel()[bits[:, None] | bits[None, :]])

    def log_density_range(self) -> tuple[float, float]:
        """Exact: smallest and largest stored number."""
        return float(self.log_density.min()), float(self.log_density.max())

    def conditional_epsilons(self) -> FloatArray:
        """Largest step along each axis, rounded up."""
        steps = [np.abs(np.diff(self.log_density, axis=i)).max() for i in range(self.m)]
        return np.asarray([np.nextafter(s, np.inf) if s > 0 else 0.0 for s in steps])

    def diagram(self, most: int = MOST_STATES) -> Diagram | None:
        """One state for every different rest of the table."""
        out = table_diagram(self.log_density)
        return out if out.states <= most else None


def log_uniform(sizes: IntArray) -> FloatArray:
    """ln μ_S, the law of a uniformly random answer, shape (2,)*m; 8·2^m bytes."""
    return reduce(np.add.outer, ([-np.log(r), np.log1p(-1 / r)] for r in sizes), np.array(0.0))
