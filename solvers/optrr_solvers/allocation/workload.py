"""Workloads of contingency tables, and their errors from a distribution's eigenvalues (theory §3.2, §3.7).

Everything is diagonal in effects, so n times the expected squared error of the table over U is, up to the data's own
effects,

    G_U = Σ_{∅≠W⊆U} c_W / λ_W²,      c_W = Π_{i∈W} (r_i−1) / Π_{i∈U} r_i,

and the workload's error is F = Σ_U weight_U G_U = Σ_W C_W / λ_W². λ is linear in the law, F is convex in λ. G_U − Σ c_W
is exact when the data are held fixed, whatever they are; G_U is exact for a sample from a uniform population and an
upper bound for any other (by Σ ‖π_W‖² ≤ 1).

Letters: W effect, λ_W its eigenvalue, C_W its coefficient.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import Infeasible, InvalidProblem
from optrr_solvers.laws.base import Law
from optrr_solvers.partition import Partition, partition
from optrr_solvers.problem import flip_gaps

# All pairs of 200 attributes. With more effects, sums over them take too long to wait for.
MAX_EFFECTS = 25_000
# A table of k attributes has 2^k − 1 effects.
MAX_TABLE_ATTRIBUTES = 12


def eigenvalues_of(sizes: IntArray, epsilons: FloatArray) -> FloatArray:
    """Compute λ_i = (e^ε−1)/(e^ε−1+r) of randomized response.

    The result has the shape of the broadcast inputs; it is 1 for ε = inf.
    """
    r = np.asarray(sizes, dtype=np.float64)
    finite = np.minimum(epsilons, 700.0)
    return np.where(np.isinf(epsilons), 1.0, flip_gaps(sizes, finite) * r / (r - 1))


def needed_epsilon(size: int, target: float) -> float:
    """Compute the ε_i at which G_{i} = (1−1/r)/λ_i² is ``target``, rounded up.

    Raises Infeasible if no ε reaches the target.
    """
    least = 1 - 1 / size
    if not target > least:
        raise Infeasible(
            f"an error of {target:.4g} cannot be reached; require more than the sampling error, {least:.4g}"
        )
    lam = math.sqrt(least / target)
    # 1 − λ without cancellation
    away = (target - least) / target / (1 + lam)
    return math.log1p(size * lam / away) * (1 + 2.0**-48)


@dataclass(frozen=True, eq=False)
class TableWorkload:
    """Which tables are wanted, and how much their errors count.

    Parameters
    ----------
    sizes
        r_i, shape (m,).
    classes
        index arrays that partition the attributes; exchanging two members must leave the workload unchanged.
    tables
        one representative of every set of tables that exchanges carry into each other, attributes in any order.
    weights
        weight of each such set: one table's weight times the number of tables, shape (tables,), positive.
    """

    sizes: IntArray
    classes: Partition
    tables: tuple[tuple[int, ...], ...]
    weights: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", partition(self.classes, self.m))
        for table in self.tables:
            if not 1 <= len(set(table)) == len(table) <= MAX_TABLE_ATTRIBUTES:
                raise InvalidProblem(
                    f"table {table} must name 1 to {MAX_TABLE_ATTRIBUTES} different attributes; name fewer"
                )

    @property
    def m(self) -> int:
        """Number of attributes."""
        return int(self.sizes.size)

    @cached_property
    def class_of(self) -> IntArray:
        """Class number of each attribute, shape (m,)."""
        return self.classes.numbers

    @cached_property
    def _expanded(self) -> tuple[tuple[tuple[int, ...], ...], sp.csr_array]:
        place: dict[tuple[int, ...], int] = {}
        rows, columns, values = [], [], []
        for u, table in enumerate(self.tables):
            cells = math.prod(int(r) for r in self.sizes[list(table)])
            for k in range(1, len(table) + 1):
                for inside in combinations(table, k):
                    rows.append(u)
                    columns.append(place.setdefault(self.key(inside), len(place)))
                    values.append(math.prod(int(r) - 1 for r in self.sizes[list(inside)]) / cells)
            if len(place) > MAX_EFFECTS:
                raise InvalidProblem(f"the workload has more than {MAX_EFFECTS} effects; name fewer or smaller tables")
        shares = sp.coo_array((values, (rows, columns)), shape=(len(self.tables), len(place)))
        return tuple(self._members(key) for key in place), sp.csr_array(shares)

    def key(self, inside: Sequence[int]) -> tuple[int, ...]:
        """Return the classes of the attributes, the same for all alike effects."""
        return tuple(sorted(int(self.class_of[i]) for i in inside))

    def _members(self, key: tuple[int, ...]) -> tuple[int, ...]:
        # the first members of each class it touches
        return tuple(int(self.classes[g][key[:k].count(g)]) for k, g in enumerate(key))

    @property
    def effects(self) -> tuple[tuple[int, ...], ...]:
        """One attribute set W for each kind of effect of the workload.

        Effects are of one kind if exchanges within classes carry one into the other.
        """
        return self._expanded[0]

    @property
    def shares(self) -> sp.csr_array:
        """c_W of every table and effect, shape (tables, effects)."""
        return self._expanded[1]

    @cached_property
    def coefficients(self) -> FloatArray:
        """C_W, shape (effects,)."""
        return np.asarray(self.weights @ self.shares)

    @cached_property
    def alike(self) -> FloatArray:
        """How many effects there are of every kind, shape (effects,)."""
        sizes = [c.size for c in self.classes]
        counts = (Counter(self.key(w)) for w in self.effects)
        return np.asarray([float(math.prod(math.comb(sizes[g], k) for g, k in c.items())) for c in counts])

    @cached_property
    def dims(self) -> FloatArray:
        """dim_W = Π_{i∈W} (r_i − 1), shape (effects,)."""
        return np.asarray([math.prod((self.sizes[list(w)] - 1).tolist()) for w in self.effects], dtype=np.float64)

    def reweighted(self, weights: FloatArray) -> "TableWorkload":
        """Return the same tables with other weights."""
        out = TableWorkload(self.sizes, self.classes, self.tables, np.asarray(weights, dtype=np.float64))
        out.__dict__["_expanded"] = self._expanded
        return out

    def eigenvalues(self, law: Law) -> FloatArray:
        """Compute λ_W of a noise distribution, shape (effects,).

        Over alike effects it is the root of the harmonic mean of λ², because errors add 1/λ².

        Where one of them is not positive, the smallest. Effects of three attributes or more must be alike under the
        law.
        """
        one = law.one_way_eigenvalues()
        pairs = law.pair_eigenvalues() if any(len(w) == 2 for w in self.effects) else None
        out = np.empty(len(self.effects))
        for k, w in enumerate(self.effects):
            members = [self.classes[self.class_of[i]] for i in w]
            if len(w) == 1:
                out[k] = _typical(one[members[0]])
            elif len(w) == 2 and pairs is not None:
                block = pairs[np.ix_(*members)]
                same = self.class_of[w[0]] == self.class_of[w[1]]
                out[k] = _typical(block[~np.eye(len(block), dtype=np.bool_)] if same else block.ravel())
            else:
                out[k] = law.eigenvalues(w)[(1,) * len(w)]
        return out

    def products(self, one_way: FloatArray) -> FloatArray:
        """Compute λ_W = Π λ_i of a product distribution from λ_i, shape (m,)."""
        return np.asarray([math.prod(one_way[list(w)].tolist()) for w in self.effects])

    def table_errors(self, eigenvalues: FloatArray) -> FloatArray:
        """Compute G_U of every table, shape (tables,); infinite if an eigenvalue is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.shares @ (1 / np.square(eigenvalues)))

    def error(self, eigenvalues: FloatArray) -> float:
        """Compute the workload error F = Σ_W C_W/λ_W²."""
        return float(self.weights @ self.table_errors(eigenvalues))

    def least_table_errors(self) -> FloatArray:
        """Compute G_U without randomization (all λ = 1), shape (tables,).

        This is the sampling error.
        """
        return np.asarray(self.shares.sum(axis=1)).ravel()


def _typical(values: FloatArray) -> float:
    low = float(values.min())
    return low if low <= 0 or low == values.max() else float(np.mean(values**-2.0) ** -0.5)


def marginals(sizes: IntArray, classes: Partition) -> TableWorkload:
    """Return the workload of all one-way tables, each of weight 1."""
    tables = tuple((int(c[0]),) for c in classes)
    return TableWorkload(sizes, classes, tables, np.asarray([float(c.size) for c in classes]))


def pairs(sizes: IntArray, classes: Partition) -> TableWorkload:
    """Return the workload of all two-way tables, each of weight 1."""
    tables, weights = [], []
    for g, a in enumerate(classes):
        if a.size > 1:
            tables.append((int(a[0]), int(a[1])))
            weights.append(a.size * (a.size - 1) / 2)
        for b in classes[g + 1 :]:
            tables.append((int(a[0]), int(b[0])))
            weights.append(float(a.size * b.size))
    if not tables:
        raise InvalidProblem("one attribute has no pairs; use the workload 'marginals'")
    return TableWorkload(sizes, classes, tuple(tables), np.asarray(weights))
