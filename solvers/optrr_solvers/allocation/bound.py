"""The lower bound of the error at a total ε, for any number of attributes (theory §3.3, §3.7).

Every law of total at most E has Σ g_W λ_W ≤ v for any multipliers g and any v with

    φ(v) = E_μ[(h − v)⁺] − v/(e^E − 1) ≤ 0,      h = Σ g_W χ_W,                                           (cut)

(:mod:`optrr_solvers.allocation.lattice`). A cut bounds the laws' λ from outside, and the workload's error is at least
its minimum subject to it; that minimum's dual

    max_{y ≥ 0}  Σ_W min_λ (C_W/λ² + y N_W λ) − y V,     minimum at λ_W = (2 C_W/(y N_W))^{1/3} within the limits,

has one variable, and each of its values is a lower bound.

Where the cells of the lattice can be listed, φ is a sum over them. Beyond, g is chosen so that h is a function of two
totals: with g_ij = 2 a_i a_j, and A = Σ a_i χ_i,

    h = A² + Σ_i (g_i χ_i − a_i² χ_i²),

where χ_i takes two values, so both sums are totals. The a_i are such that A is on a grid; increments of the other total
are rounded at random with the right mean, which by convexity can only raise E_μ[(h − v)⁺]. So their joint law is a
two-dimensional dynamic program that only adds non-negative numbers. At the optimum g_ij is near such a product, and the
nearer the larger the total: the certified gap of all pairs is 12 % at a total of 1, 4 % at 2, 0.6 % at 4 among 21
different attributes, and 45 %, 15 %, 1 % among 50. Effects of three attributes or more, and pairs outside the largest
clique of wanted pairs, get g = 0 and only the largest value that any distribution gives them alone: if most tables are
of this kind, the bound is weak.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr_solvers.allocation.lattice import (
    MAX_ALLOCATION_CELLS,
    EffectLattice,
    KnapsackOracle,
    cells_of_classes,
    effect_usage,
)
from optrr_solvers.allocation.problem import AllocationProblem
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.base import Law

# Values of v are raised by this, relatively; and by more where rounding may have hidden that φ(v) > 0.
_RAISE = 1e-11
# The multiplier of a cut is looked for up to so many times what it is without limits, by halving so often.
_FAR, _BISECTIONS = 2.0**40, 60
# Limits on the joint law of two totals: its entries times the attributes, so that a cut takes some seconds at most, and
# its entries alone, so that it fits in memory.
_WORK, _MOST_ENTRIES = 1 << 27, 1 << 20
# Where there are pairs, the second total takes this many values: it is rounded at random, so it may be coarse.
_SECOND = 1024


@dataclass(frozen=True, eq=False)
class Cut:
    """normal · λ ≤ limit for each law of total at most E."""

    normal: FloatArray
    limit: float


def minimum_under_cut(
    coefficients: FloatArray, cut: Cut, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, float]:
    """Minimize Σ C/λ² subject to the cut and low ≤ λ ≤ high; C ≥ 0.

    Returns λ and a lower bound of the minimum.
    """
    used = coefficients > 0

    def at(y: float) -> tuple[FloatArray, float]:
        """Return λ and the value of the dual at the cut's multiplier."""
        force = y * cut.normal
        lam = np.where(force > 0, np.clip(np.cbrt(2 * coefficients / np.maximum(force, 1e-300)), low, high), high)
        error = float(np.sum(coefficients[used] / lam[used] ** 2))
        return lam, float(error + force @ lam - y * cut.limit)

    # where no limit binds the dual is largest at the cube of Σ (2C)^{1/3} N^{2/3} / V
    reach = float(np.sum(np.cbrt(2 * coefficients * np.maximum(cut.normal, 0) ** 2)))
    start = max(reach / cut.limit, 1e-90) ** 3
    below, above = start / _FAR, start * _FAR
    for _ in range(_BISECTIONS):
        middle = math.sqrt(below * above)
        rises = float(cut.normal @ at(middle)[0]) > cut.limit
        below, above = (middle, above) if rises else (below, middle)
    return max((at(y) for y in (start, below, above)), key=lambda minimum: minimum[1])


def limits_of_rows(problem: AllocationProblem) -> tuple[FloatArray, FloatArray]:
    """Compute the limits of λ by row (effects, then classes), shape (rows,) each.

    For effects the most that any law of total E gives them, for classes the problem's floors and ceilings; 0 where
    none.
    """
    workload = problem.workload
    effects = len(workload.effects)
    low, high = problem.limits(effects + len(workload.classes))
    low = np.where(np.isfinite(low), low, 0.0)
    high = np.where(np.isfinite(high), high, low)
    low[:effects] = 1e-150
    known: dict[tuple[int, ...], float] = {}
    for k, w in enumerate(workload.effects):
        key = tuple(sorted(int(workload.sizes[i]) for i in w))
        if key not in known:
            # the largest λ_W that total E allows, by its own change sets
            chi, mu = np.ones(1), np.ones(1)
            for r in key:
                chi = np.outer(chi, [1.0, -1 / (r - 1)]).ravel()
                mu = np.outer(mu, [1 / r, 1 - 1 / r]).ravel()
            known[key] = _raised(KnapsackOracle(mu, problem.total).best(chi)[0], mu, chi, problem.total, len(key))
        high[k] = known[key]
    return low, high


def _raised(value: float, mu: FloatArray, h: FloatArray, total: float, attributes: int) -> float:
    """Raise the value until φ ≤ 0 holds in spite of rounding.

    μ is made of products and sums of non-negative numbers, so the rounding of φ has a known bound.
    """
    y = 1 / math.expm1(total)
    # a sum is within as many roundings as it has terms; class laws are within 2e-11 (laws.count)
    slack = 1 + (mu.size + 8 * attributes) * 2.0**-53 + 2e-11
    while True:
        value *= 1 + _RAISE
        # h itself is known to some roundings of its largest value
        above = np.maximum(h - value + 2.0**-48 * float(np.abs(h).max()), 0)
        if float(mu.ravel() @ above.ravel()) * slack <= y * value:
            return value
        value *= 1 + 1e-9


def lower_error(problem: AllocationProblem, law: Law, push: FloatArray | None = None) -> float:
    """Bound F from below over all distributions of total at most E.

    The bound holds within the problem's limits; it is from the cut at the λ of ``law``.

    ``push``: multipliers of floors (≥ 0) and ceilings (≤ 0) by row, shape (rows,), 0 on effects; without them limits
    are ignored. Within rounding of optimal where :class:`CellCuts` applies and law and multipliers are.
    """
    workload = problem.workload
    low, high = limits_of_rows(problem)
    few = cells_of_classes(workload) <= MAX_ALLOCATION_CELLS
    source = CellCuts(workload, problem.total) if few else TwoTotalsCuts(workload, problem.total)
    lam = workload.eigenvalues(law)
    multipliers = np.zeros(low.size) if push is None else push.copy()
    multipliers[: lam.size] = 2 * workload.coefficients / lam**3
    coefficients = np.append(workload.coefficients, np.zeros(len(workload.classes)))
    return max(minimum_under_cut(coefficients, source.cut(multipliers), low, high)[1], 0.0)


@dataclass(frozen=True, eq=False)
class CellCuts:
    """Cuts with any multipliers, over all cells of the lattice."""

    workload: TableWorkload
    total: float

    @cached_property
    def _lattice(self) -> EffectLattice:
        return EffectLattice(self.workload)

    def cut(self, wanted: FloatArray) -> Cut:
        """Return the cut with these multipliers, shape (rows,)."""
        h, mu = self._lattice.cells_of(wanted), self._lattice.mu
        value = KnapsackOracle(mu, self.total).best(h)[0]
        return Cut(wanted, _raised(value, mu, h, self.total, self.workload.m))


@dataclass(frozen=True, eq=False)
class TwoTotalsCuts:
    """Cuts with g_ij = 2 a_i a_j for a clique of wanted pairs, and any g_i."""

    workload: TableWorkload
    total: float

    @cached_property
    def _usage(self) -> IntArray:
        return effect_usage(self.workload)

    @cached_property
    def _counts(self) -> IntArray:
        return np.asarray([c.size for c in self.workload.classes])

    @cached_property
    def _sizes(self) -> FloatArray:
        return np.asarray([float(self.workload.sizes[c[0]]) for c in self.workload.classes])

    @cached_property
    def _singles(self) -> IntArray:
        """Rows of one attribute, shape (singles,)."""
        return np.flatnonzero(self._usage.sum(axis=1) == 1)

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
        """Find classes all of whose pairs are in the workload, by decreasing multiplier."""
        weight = np.zeros(self._counts.size)
        for (g, h), k in self._pairs.items():
            weight[g] += wanted[k]
            weight[h] += wanted[k]
        out: list[int] = []
        for g in np.argsort(-weight, kind="stable").tolist():
            alone = self._counts[g] == 1 or (g, g) in self._pairs
            if weight[g] > 0 and alone and all((min(g, h), max(g, h)) in self._pairs for h in out):
                out.append(g)
        return sorted(out) if len(out) > 1 or (out and self._counts[out[0]] > 1) else []

    def _product(self, wanted: FloatArray) -> FloatArray:
        """Fit a so that 2 a_g a_h is nearest, in ratio, to the wanted pair multipliers.

        One a for each class, shape (G,).
        """
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
        """Return the cut with the multipliers of the special form nearest ``wanted``.

        The shape is (rows,); multipliers of single attributes are kept.
        """
        r, a = self._sizes, self._product(wanted)
        single = wanted[self._singles] @ self._usage[self._singles] / self._counts
        entries = min(_MOST_ENTRIES, _WORK // self.workload.m)
        n = self._counts
        first, unit = _whole(a * r / (r - 1), n, entries // _SECOND)
        columns = entries // (1 + int(first @ n))
        # these whole weights are exact for the following a
        a = unit * first * (r - 1) / r
        shift = single * r / (r - 1) - a**2 * (1 - 1 / (r - 1) ** 2)
        step = max(float(np.abs(shift) @ n) / columns, 1e-300)
        mass, low = self._joint(first, shift / step)
        tops = unit * (float(first @ (n * (r - 1) / r)) - np.arange(mass.shape[0]))
        rest = float(n @ (single - a**2)) - step * (low + np.arange(mass.shape[1]))
        h = tops[:, None] ** 2 + rest[None, :]
        normal = np.zeros(wanted.size)
        normal[self._singles] = wanted[self._singles]
        for (g, e), k in self._pairs.items():
            normal[k] = 2 * a[g] * a[e] * self._number(g, e)
        value = KnapsackOracle(mass, self.total).best(h)[0]
        return Cut(normal, _raised(value, mass, h, self.total, self.workload.m))

    def _joint(self, first: IntArray, second: FloatArray) -> tuple[FloatArray, int]:
        """Compute the joint distribution of two sums over the changed attributes.

        Returns it with the least value of the second sum, in O(m entries).

        The sums are of ``first``, and of ``second`` rounded at random.
        """
        n = self._counts
        floors = np.floor(second).astype(np.int64)
        low = int(np.minimum(floors, 0) @ n)
        mass = np.zeros((int(first @ n) + 1, int(np.maximum(floors + 1, 0) @ n) - low + 1))
        mass[0, -low] = 1.0
        for g, times in enumerate(n.tolist()):
            r, up = self._sizes[g], float(second[g] - floors[g])
            for _ in range(times):
                moved = mass * (1 - 1 / r)
                mass = mass / r
                _shifted(mass, moved * (1 - up), int(first[g]), int(floors[g]))
                _shifted(mass, moved * up, int(first[g]), int(floors[g]) + 1)
        return mass, low


def _shifted(onto: FloatArray, values: FloatArray, dx: int, dz: int) -> None:
    """Add the values, moved by dx ≥ 0 rows and dz columns.

    Values that would leave the array are zero.
    """
    width = onto.shape[1]
    onto[dx:, max(dz, 0) : width + min(dz, 0)] += values[: onto.shape[0] - dx, max(-dz, 0) : width - max(dz, 0)]


def _whole(real: FloatArray, counts: IntArray, most: int) -> tuple[IntArray, float]:
    """Round ``real`` ≥ 0 to integer multiples of a unit that sum to about ``most``.

    The sum counts all members. Returns the multiples and the unit.
    """
    total = float(real @ counts)
    if not total > 0:
        return np.zeros(real.size, dtype=np.int64), 1.0
    unit = total / most
    return np.round(real / unit).astype(np.int64), unit
