"""The cells of an allocation with its effects, and the best law on them for a linear goal.

A cell k = (k_1, …, k_G) says how many attributes of each class change; an effect u = (u_1, …, u_G) how many of each class
it involves. By symmetry λ depends on u only, and λ = K ν, h = Kᵀ g, one class at a time:

    λ_u = Σ_k ν_k Π_g K_g[u_g, k_g],   K_g[u, k] = Σ_s C(u, s) Pr(of u given ones exactly the first s change | k) (−1/(r−1))^s,

the mean of χ over the choices of u of the n members when k of them change. Classes of one give the 2^m change sets.

The goal: maximise E_ν[h] over laws of total ε at most E, and a bound that no such law exceeds.

With y = 1/(e^E − 1) a law is ν = z μ (1 + t/y), 0 ≤ t ≤ 1, z = y/(y + E_μ t). Where E_μ h = 0 its goal is
E_μ[t h]/(y + E_μ t), a fractional knapsack: t = 1 where h > v, 0 elsewhere, with v the root of

    φ(v) = E_μ[(h − v)⁺] − y v = 0,

and any v with φ(v) ≤ 0 bounds the goal of every law. v is found by Dinkelbach's iteration, which climbs to the root in a
few passes. Caps on the conditional ε tie cells together; then the goal is a linear program, solved by HiGHS.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import comb

from optrr_solvers.allocation.problem import AllocationProblem
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.count import CountLaw, log_uniform_counts, pattern_given_count
from optrr_solvers.laws.table import MAX_TABLE, TableLaw
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram

# An allocation sorts out its cells some hundred times: 2^18 of them take seconds.
MAX_ALLOCATION_CELLS = 1 << 18
# Programs with caps have m 2^m rows and are solved some dozens of times.
MAX_CAPPED_CELLS = 1 << 9
# HiGHS's multipliers may break their constraints by 1e-10 in scaled units; the bound is widened by more than that.
_LP_SLACK = 1e-8


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


@dataclass(frozen=True, eq=False)
class Atom:
    """A law of total ε at most E: ν = μ (uniform + excess), both ≥ 0, excess ≤ (e^E − 1) uniform."""

    uniform: float
    excess: FloatArray

    def mass(self, mu: FloatArray) -> FloatArray:
        """ν, shape of ``mu``."""
        return np.asarray(mu * (self.uniform + self.excess))


@dataclass(frozen=True, eq=False)
class KnapsackOracle:
    """All laws of total ε at most E; exact, a few passes over the cells."""

    mu: FloatArray
    total: float

    def best(self, h: FloatArray) -> tuple[float, Atom]:
        """Bound and law; the bound is the smallest v seen with φ(v) ≤ 0, up to rounding."""
        y = 1 / math.expm1(self.total)
        value = 0.0
        while True:
            inside = h > value
            mass = float(self.mu[inside].sum())
            raised = float(self.mu[inside] @ h[inside]) / (y + mass)
            # each pass can only raise the value; it stops rising when the set no longer changes
            if not raised > value * (1 + 2.0**-50):
                break
            value = raised
        return value, Atom(y / (y + mass), inside / (y + mass))


class CappedOracle:
    """Laws of total ε at most E with capped conditional ε: a linear program over all cells, classes of one attribute."""

    def __init__(self, lattice: EffectLattice, problem: AllocationProblem) -> None:
        if lattice.cells > MAX_CAPPED_CELLS or any(c.size > 1 for c in lattice.classes):
            raise MethodTooLarge(
                f"conditional caps take up to {int(math.log2(MAX_CAPPED_CELLS))} attributes in an allocation, got "
                f"{lattice.workload.m}; drop the caps or split the record"
            )
        self.mu, self.total = lattice.mu, problem.total
        caps = problem.cap[[int(c[0]) for c in lattice.classes]]
        self._rows = cap_rows(lattice.shape, caps, problem.total)

    def best(self, h: FloatArray) -> tuple[float, Atom]:
        """Bound (to HiGHS's tolerance) and law, whose caps and total hold to rounding after a touch of uniform answers."""
        n = self.mu.size
        flat = self.mu.ravel()
        # columns: q_S and their maximum; q between e^−E times it and it, mean 1
        spread = math.exp(-self.total)
        box = sp.hstack([sp.eye_array(n), sp.csr_array(np.full((n, 1), -spread))])
        top = sp.hstack([-sp.eye_array(n), sp.csr_array(np.ones((n, 1)))])
        caps = sp.hstack([self._rows, sp.csr_array((self._rows.shape[0], 1))])
        scale = 1 / float(flat.max())
        mean = sp.csr_array(np.append(flat * scale, 0.0)[None, :])
        matrix = sp.csc_array(sp.vstack([box, top, caps, mean]))
        height = max(float(np.abs(h).max()), 1e-300)
        lower = np.zeros(matrix.shape[0])
        lower[-1] = 1.0
        upper = np.full(matrix.shape[0], np.inf)
        upper[-1] = 1.0
        program = LinearProgram(
            cost=-np.append(flat * scale * h.ravel() / height, 0.0),
            matrix=matrix,
            row_lower=lower,
            row_upper=upper,
            lower=np.zeros(n + 1),
            upper=np.full(n + 1, np.inf),
        )
        answer = backend.solve(program, method="allocate")
        q = np.maximum(answer.values[:n], 0)
        q /= float(q @ flat)
        bound = float((q * flat) @ h.ravel()) + _LP_SLACK * height
        low = float(q.min())
        return bound, Atom(low, (q - low).reshape(h.shape))


# Finds the best law for h, shape of the lattice, with E_μ h = 0.
Oracle = KnapsackOracle | CappedOracle


def cap_rows(shape: tuple[int, ...], caps: FloatArray, total: float) -> sp.csr_array:
    """e^η q_other − q_capped ≥ 0, divided by e^η, in both directions for every step; caps above the total are no caps."""
    m, cells = len(shape), np.arange(math.prod(shape))
    blocks = []
    for i in np.flatnonzero(caps < total):
        stride = 1 << (m - 1 - int(i))
        low = cells[(cells // stride) % 2 == 0]
        for capped, other in ((low, low + stride), (low + stride, low)):
            row = np.arange(low.size)
            values = np.concatenate([np.ones(low.size), np.full(low.size, -math.exp(-caps[i]))])
            places = (np.concatenate([row, row]), np.concatenate([other, capped]))
            blocks.append(sp.coo_array((values, places), shape=(low.size, cells.size)))
    return sp.csr_array(sp.vstack(blocks)) if blocks else sp.csr_array((0, cells.size))
