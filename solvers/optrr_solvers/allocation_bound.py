"""What no law of a given total ε can go below, for any number of attributes (design §3.3, §3.7).

Every law of total at most E has Σ g_W λ_W ≤ v for any multipliers g and any v with

    φ(v) = E_μ[(h − v)⁺] − v/(e^E − 1) ≤ 0,      h = Σ g_W χ_W,                                           (cut)

(:mod:`optrr_solvers.allocation_oracle`). Cuts bound the laws' λ from outside, and the workload's error is at least its minimum
subject to some of them; that minimum's dual

    max_{y ≥ 0}  Σ_W min_λ (C_W/λ² + (Nᵀy)_W λ) − y·V,     minimum at λ_W = (2 C_W/(Nᵀy)_W)^{1/3} within the limits,

has one variable a cut, and each of its values is a lower bound.

Where the cells of the lattice can be listed, φ is a sum over them. Beyond, g is chosen so that h is a function of two totals:
with g_ij = 2 a_i a_j, and A = Σ a_i χ_i,

    h = A² + Σ_i (g_i χ_i − a_i² χ_i²),

where χ_i takes two values. Both sums are whole multiples of a unit for weights that are, so their joint law is a
two-dimensional dynamic program that only adds non-negative numbers. At the optimum g_ij is near such a product; what that
loses was 0.1 to 4 % from a total of 2 on and 10 to 13 % at 0.5, among 12 to 21 different attributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from optrr_solvers.allocation import AllocationProblem, TableWorkload, eigenvalues_of
from optrr_solvers.allocation_effects import MAX_ALLOCATION_CELLS, EffectLattice, effect_usage
from optrr_solvers.allocation_oracle import KnapsackOracle
from optrr_solvers.laws.base import Law
from optrr_solvers.problem import EPSILON_RANGE, FloatArray, IntArray

# Values of v are raised by this, relative, and more where rounding may have hidden that φ(v) > 0.
_RAISE = 1e-11
# Cuts taken at most; a gain of less than the second number, relative, ends the taking.
_CUTS, _LITTLE = 12, 1e-4
# Entries of the joint law of two totals, times attributes: some seconds a cut at the most.
_WORK, _MOST_ENTRIES = 1 << 27, 1 << 20


@dataclass(frozen=True, eq=False)
class Cut:
    """normal · λ ≤ limit for every law of total at most E."""

    normal: FloatArray
    limit: float


def minimum_under_cuts(
    coefficients: FloatArray, cuts: list[Cut], low: FloatArray, high: FloatArray
) -> tuple[FloatArray, float]:
    """λ that minimises Σ C/λ² subject to all cuts and low ≤ λ ≤ high, and a lower bound of that minimum.

    Maximises the concave dual over y ≥ 0, one variable a cut, scaled so that a single tight cut has y near 1.
    """
    normals, limits = np.stack([c.normal for c in cuts]), np.asarray([c.limit for c in cuts])
    # a lone cut whose normal is the gradient −∂F/∂λ somewhere is tight at y = 1 by homogeneity of F
    pull = np.asarray([_lone(coefficients, c) for c in cuts])

    def at(y: FloatArray) -> tuple[FloatArray, float]:
        force = (y * pull) @ normals
        with np.errstate(divide="ignore"):
            lam = np.clip(np.cbrt(2 * coefficients / np.maximum(force, 1e-300)), low, high)
        return lam, float(np.sum(coefficients / lam**2) + force @ lam - (y * pull) @ limits)

    start = np.zeros(limits.size)
    start[-1] = 1.0
    scale = max(at(start)[1], float(coefficients.sum()))

    def negated(y: FloatArray) -> tuple[float, FloatArray]:
        lam, value = at(y)
        return -value / scale, -(normals @ lam - limits) * pull / scale

    answer = minimize(
        negated,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * limits.size,
        options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-14},
    )
    return max((at(np.asarray(y)) for y in (answer.x, start)), key=lambda found: found[1])


def _lone(coefficients: FloatArray, cut: Cut) -> float:
    """y at which Σ C/λ² under this cut alone has its minimum: the cube of Σ (2C)^{1/3} N^{2/3} / V."""
    reach = float(np.sum(np.cbrt(2 * coefficients * np.maximum(cut.normal, 0) ** 2)))
    return max(reach / cut.limit, 1e-100) ** 3


def limits_of_effects(problem: AllocationProblem) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings of λ_W, shape (effects,): the problem's, and for each effect the most any law of total E gives it."""
    workload = problem.workload
    low, high = np.full(len(workload.effects), 1e-150), np.empty(len(workload.effects))
    known: dict[tuple[int, ...], float] = {}
    for k, w in enumerate(workload.effects):
        key = tuple(sorted(int(workload.sizes[i]) for i in w))
        if key not in known:
            known[key] = _most(key, problem.total)
        high[k] = known[key]
        if len(w) == 1:
            i = w[0]
            size = workload.sizes[[i]]
            if problem.floor[i] > 0:
                low[k] = float(eigenvalues_of(size, problem.floor[[i]])[0])
            if problem.ceiling[i] < EPSILON_RANGE[1]:
                high[k] = min(high[k], float(eigenvalues_of(size, problem.ceiling[[i]])[0]))
    return low, np.maximum(high, low)


def _most(sizes: tuple[int, ...], total: float) -> float:
    """Largest λ_W that total E allows, W of these sizes: by its own change sets."""
    chi, mu = np.ones(1), np.ones(1)
    for r in sizes:
        chi = np.outer(chi, [1.0, -1 / (r - 1)]).ravel()
        mu = np.outer(mu, [1 / r, 1 - 1 / r]).ravel()
    return _raised(KnapsackOracle(mu, total).best(chi)[0], mu, chi, total)


def _raised(value: float, mu: FloatArray, h: FloatArray, total: float) -> float:
    """The value, raised until φ ≤ 0 for certain; sums of non-negative numbers are within ``mu.size`` roundings."""
    y = 1 / math.expm1(total)
    slack = 1 + 2.0**-50 * math.log2(2 + mu.size) + 1e-12
    while True:
        value *= 1 + _RAISE
        # h itself is known to some roundings of its largest value
        above = np.maximum(h - value + 2.0**-48 * float(np.abs(h).max()), 0)
        if float(mu.ravel() @ above.ravel()) * slack <= y * value:
            return value
        value *= 1 + 1e-9


def lower_error(problem: AllocationProblem, law: Law) -> float:
    """A lower bound of F over all laws of total at most E, from cuts around ``law``'s λ; exact oracle where cells are few."""
    workload = problem.workload
    low, high = limits_of_effects(problem)
    source = _source(workload, problem.total)
    lam = workload.eigenvalues(law)
    error = workload.error(lam)
    at, lower, cuts = lam, 0.0, []
    for _ in range(_CUTS):
        cuts.append(source.cut(2 * workload.coefficients / at**3))
        outer, value = minimum_under_cuts(workload.coefficients, cuts, low, high)
        gained, lower = value - lower, max(lower, value)
        if gained < _LITTLE * value or error - lower < _LITTLE * error:
            break
        # between the law and the outer minimum, where the cuts leave most room
        at = np.sqrt(lam * outer)
    return lower


def _source(workload: TableWorkload, total: float) -> _ByCells | _ByTwoTotals:
    cells = 1
    for c in workload.classes:
        cells = min(cells * (c.size + 1), 2 * MAX_ALLOCATION_CELLS)
    return _ByCells(workload, total) if cells <= MAX_ALLOCATION_CELLS else _ByTwoTotals(workload, total)


@dataclass(frozen=True, eq=False)
class _ByCells:
    """Cuts with any multipliers, over all cells of the lattice."""

    workload: TableWorkload
    total: float

    @cached_property
    def _lattice(self) -> EffectLattice:
        return EffectLattice(self.workload)

    def cut(self, wanted: FloatArray) -> Cut:
        """The cut with these multipliers, shape (effects,)."""
        rows = np.zeros(self._lattice.rows)
        rows[: wanted.size] = wanted
        h, mu = self._lattice.cells_of(rows), self._lattice.mu
        value = KnapsackOracle(mu, self.total).best(h)[0]
        return Cut(wanted, _raised(value, mu, h, self.total))


@dataclass(frozen=True, eq=False)
class _ByTwoTotals:
    """Cuts with multipliers g_ij = 2 a_i a_j among attributes all of whose pairs are wanted, and any g_i."""

    workload: TableWorkload
    total: float

    @cached_property
    def _usage(self) -> IntArray:
        return effect_usage(self.workload)[: len(self.workload.effects)]

    @cached_property
    def _counts(self) -> IntArray:
        return np.asarray([c.size for c in self.workload.classes])

    @cached_property
    def _sizes(self) -> FloatArray:
        return np.asarray([float(self.workload.sizes[c[0]]) for c in self.workload.classes])

    @cached_property
    def _singles(self) -> dict[int, int]:
        """Effect number of each class's one-way effect."""
        return {int(np.argmax(u)): k for k, u in enumerate(self._usage) if u.sum() == 1}

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], int]:
        """Effect number of each pair of classes."""
        out = {}
        for k, u in enumerate(self._usage):
            if u.sum() == 2:
                g, h = np.repeat(np.arange(u.size), u).tolist()
                out[g, h] = k
        return out

    def _number(self, g: int, h: int) -> float:
        n = self._counts
        return float(n[g] * (n[g] - 1) / 2 if g == h else n[g] * n[h])

    def _clique(self, wanted: FloatArray) -> list[int]:
        """Classes all of whose pairs are in the workload, those with the largest multipliers first."""
        weight = np.zeros(self._counts.size)
        for (g, h), k in self._pairs.items():
            weight[g] += wanted[k]
            weight[h] += wanted[k]
        out: list[int] = []
        for g in np.argsort(-weight).tolist():
            alone = self._counts[g] == 1 or (g, g) in self._pairs
            if weight[g] > 0 and alone and all((min(g, h), max(g, h)) in self._pairs for h in out):
                out.append(g)
        return sorted(out) if len(out) > 1 or (out and self._counts[out[0]] > 1) else []

    def _product(self, wanted: FloatArray) -> FloatArray:
        """a of every class, shape (G,), with 2 a_g a_h nearest the wanted multipliers of a pair, in ratio."""
        clique = self._clique(wanted)
        place = {g: k for k, g in enumerate(clique)}
        rows, goals = [], []
        for (g, h), k in self._pairs.items():
            if g in place and h in place:
                row = np.zeros(len(clique))
                row[place[g]] += 1
                row[place[h]] += 1
                # pairs count by what they add to the error
                heavy = math.sqrt(np.cbrt(self.workload.coefficients[k] * wanted[k] ** 2))
                rows.append(heavy * row)
                goals.append(heavy * math.log(wanted[k] / self._number(g, h) / 2))
        out = np.zeros(self._counts.size)
        if rows:
            out[clique] = np.exp(np.linalg.lstsq(np.stack(rows), np.asarray(goals), rcond=None)[0])
        return out

    def cut(self, wanted: FloatArray) -> Cut:
        """The cut with multipliers of the special form nearest ``wanted``, shape (effects,)."""
        r, a = self._sizes, self._product(wanted)
        single = np.asarray([wanted[self._singles[g]] / n for g, n in enumerate(self._counts.tolist())])
        entries = min(_MOST_ENTRIES, _WORK // self.workload.m)
        shift = single * r / (r - 1) - a**2 * (1 - 1 / (r - 1) ** 2)
        first, a_unit = _whole(a * r / (r - 1), self._counts, math.isqrt(entries))
        second, b_unit = _whole(shift, self._counts, entries // (1 + int(np.abs(first) @ self._counts)))
        # the multipliers that these whole weights are exact for
        a = a_unit * first * (r - 1) / r
        single = (b_unit * second + a**2 * (1 - 1 / (r - 1) ** 2)) * (r - 1) / r
        mass, low = self._joint(first, second)
        x, z = np.arange(mass.shape[0]), low + np.arange(mass.shape[1])
        n = self._counts
        tops = a_unit * (float(first @ (n * (r - 1) / r)) - x)
        rest = float(n @ (single - a**2)) - b_unit * z
        h = tops[:, None] ** 2 + rest[None, :]
        normal = np.zeros(wanted.size)
        for g, k in self._singles.items():
            normal[k] = n[g] * single[g]
        for (g, e), k in self._pairs.items():
            normal[k] = 2 * a[g] * a[e] * self._number(g, e)
        value = KnapsackOracle(mass, self.total).best(h)[0]
        return Cut(normal, _raised(value, mass, h, self.total))

    def _joint(self, first: IntArray, second: IntArray) -> tuple[FloatArray, int]:
        """Law of (Σ first, Σ second) over the changed, and the smallest second total. O(m entries)."""
        n = self._counts
        low = int(np.minimum(second, 0) @ n)
        shape = (int(first @ n) + 1, int(np.abs(second) @ n) + 1)
        mass = np.zeros(shape)
        mass[0, -low] = 1.0
        for g, times in enumerate(n.tolist()):
            r, dx, dz = self._sizes[g], int(first[g]), int(second[g])
            for _ in range(times):
                moved = mass * (1 - 1 / r)
                mass = mass / r
                to = slice(dz, None) if dz >= 0 else slice(None, shape[1] + dz)
                since = slice(None, shape[1] - dz) if dz >= 0 else slice(-dz, None)
                mass[dx:, to] += moved[: shape[0] - dx, since]
        return mass, low


def _whole(real: FloatArray, counts: IntArray, most: int) -> tuple[IntArray, float]:
    """Whole multiples of a unit nearest to ``real``, whose sizes add up to about ``most`` over all members."""
    total = float(np.abs(real) @ counts)
    if not total > 0:
        return np.zeros(real.size, dtype=np.int64), 1.0
    unit = total / max(most - int(counts.sum()), 1)
    return np.round(real / unit).astype(np.int64), unit
