"""TableLaw: one density for each of the 2^m change sets; the law of the exact solvers at small m, and of SIC's matrix.

SIC's inverse-distance matrix (SIC §6.2, equations 10 and 11, the latter corrected) keeps the record with probability p;
otherwise an output that differs in w attributes is as likely as 1/w:

    p_uv = (1−p) d_uv / Z,   d_uv = 1/w,   Z = Σ_{w=1}^{m} (1/w) e_w(r_1−1, …, r_m−1),

with e_w the elementary symmetric polynomial: the number of records that differ in exactly w attributes. (Printed
equation 11 has 1/r in place of 1/w, and r for m.) As long as the record itself stays the most likely answer,

    ε = ln( p m Z / (1−p) ),   hence   p = 1 / (1 + m Z e^{−ε}).

Letters: r sizes, p retention, w how many attributes change, Z normaliser.
"""

import math
from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import attribute_epsilon_bounds
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws.base import Law, SparseTable, checked_subset, dense, effect_transform, sparse
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


def records_at_distance(sizes: ArrayLike) -> FloatArray:
    """e_w(r−1) for w = 0..m: how many records differ from a given one in exactly w attributes; shape (m+1,), O(m²)."""
    out = np.ones(1)
    for r in np.asarray(sizes, dtype=np.float64):
        out = np.convolve(out, [1.0, r - 1.0])
    return out


def inverse_distance_normaliser(sizes: ArrayLike) -> float:
    """Z = Σ_k d_uk, the same for every record u."""
    counts = records_at_distance(sizes)
    return float(np.sum(counts[1:] / np.arange(1, counts.size)))


def inverse_distance_retention(sizes: ArrayLike, epsilon: float) -> float:
    """The p at which the matrix has total ``epsilon`` (nats, above ln m so that keeping stays the likeliest answer).

    Raises InvalidProblem below ln m: there the ratio 1 : m between distances alone costs more.
    """
    m = np.size(sizes)
    if not epsilon > math.log(m) or not math.isfinite(epsilon):
        raise InvalidProblem(
            f"the inverse-distance matrix over {m} attributes got epsilon {epsilon:g}; it needs a finite number above "
            f"ln {m} = {math.log(m):.4g}, or use RR-Joint"
        )
    return 1 / (1 + m * inverse_distance_normaliser(sizes) * math.exp(-epsilon))


def inverse_distance_law(sizes: ArrayLike, retention: float) -> TableLaw:
    """The law that keeps the record with probability ``retention``, strictly between 0 and 1; up to 20 attributes.

    Its ε is recomputed from the table, so it is right also where p is below the other answers' probabilities.
    """
    r = np.asarray(sizes, dtype=np.int64)
    if not 0 < retention < 1:
        raise InvalidProblem(
            f"the inverse-distance matrix got retention {retention}; give a probability between 0 and 1"
        )
    if r.size > MAX_TABLE:
        raise MethodTooLarge(
            f"the inverse-distance matrix takes up to {MAX_TABLE} attributes, got {r.size}; use RR-Joint"
        )
    changed = np.asarray([bin(s).count("1") for s in range(1 << r.size)], dtype=np.float64)
    density = np.log(retention) * np.ones(changed.size)
    density[1:] = math.log1p(-retention) - math.log(inverse_distance_normaliser(r)) - np.log(changed[1:])
    return TableLaw(r, density)
