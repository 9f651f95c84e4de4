"""The most accurate distribution of a total ε on a lattice of counts, by fully corrective Frank–Wolfe (theory §3.7).

A cell k = (k_1, …, k_G) counts the changed attributes of each class; an effect u = (u_1, …, u_G) how many of each
class it involves. By symmetry λ depends on u only, and λ = K ν, h = Kᵀ g, one class at a time:

    λ_u = Σ_k ν_k Π_g K_g[u_g, k_g],   K_g[u, k] = Σ_s C(u, s) Pr(of u given ones exactly the first s change | k) (−1/(r−1))^s,

the mean of χ over the choices of u of the n members when k of them change. Classes of one give the 2^m change sets.

Oracle: maximise E_ν[h] over laws of total ε at most E, with a bound that no such law exceeds. With y = 1/(e^E − 1) a
law is ν = z μ (1 + t/y), 0 ≤ t ≤ 1, z = y/(y + E_μ t). Where E_μ h = 0 its goal is E_μ[t h]/(y + E_μ t), a fractional
knapsack: t = 1 where h > v, 0 elsewhere, with v the root of

    φ(v) = E_μ[(h − v)⁺] − y v = 0,

and any v with φ(v) ≤ 0 bounds the goal of every law. v is found by Dinkelbach's iteration, which climbs to the root in
a few passes. Caps on the conditional ε tie cells together; then the goal is a linear program, solved by HiGHS.

Descent: F is convex in λ and the laws of total ε at most E form a convex set whose corners are sharp sets of cells.
Each round asks for the corner that is best for the current gradient and then minimises F over all mixtures of the
corners kept. With −g the gradient at λ, convexity gives for each law

    F(λ') ≥ F(λ) − g·(λ' − λ) ≥ F(λ) + g·λ − max_ν E_ν[Σ g_W χ_W],

so the oracle's bound certifies the answer among all distributions on its cells. The mixture problem is a Newton
iteration: the quadratic model of F is the nonnegative least-squares problem min ‖D Λ a − b‖, a ≥ 0, Σ a = 1, D =
diag(√(6C)/λ²), whose active set is exact.

Floors and ceilings on λ_i enter as a stiff quadratic penalty, tightened a little so that the answer satisfies the
limits themselves; any of its multipliers are valid in the bound (Lagrangian duality).

Whatever a method found, the law is rebuilt from its densities so that its total is at most E to the last bit and its
caps hold, and its eigenvalues and error are recomputed from that law.
"""

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.special import comb

from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.allocation.split import best_split, even_split, single_blocks
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.laws.base import MAX_TABLE, Law, TableLaw, largest_steps
from optrr_solvers.laws.count import CountLaw, log_uniform_counts, pattern_given_count
from optrr_solvers.partition import Partition
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram

# An allocation sorts out its cells some hundred times: 2^18 of them take seconds.
MAX_ALLOCATION_CELLS = 1 << 18
# Programs with caps have m 2^m rows and are solved some dozens of times.
MAX_CAPPED_CELLS = 1 << 9
# HiGHS's multipliers may break their constraints by 1e-10 in scaled units; the bound is widened by more than that.
_LP_SLACK = 1e-8
# A limit that is violated by 100 % costs this many times F. What remains of violations is then about 1e-6, and the
# limits are tightened by more than that.
_STIFFNESS = 1e6
# Limits on λ_i hold to this, relative; a ten-thousandth of what the solution gate allows in ε_i. Where a floor is its
# ceiling there is no room to tighten either, so the penalty is stiffer and the equation holds to the second number.
_LIMIT_TOLERANCE, _EQUATION_TOLERANCE = 1e-12, 1e-6
_EQUATION_STIFFENING = 100.0
_TIGHTENINGS = 8
_NEWTON_STEPS = 40
# The equation Σ a = 1 weighs this much more than the largest entry of the least-squares problem.
_SUM_WEIGHT = 1e3
# Relative gap to stop at.
_TOLERANCE = 1e-6
# Maximum number of corners; afterwards the current gap is reported.
_MOST_CORNERS = 500
# Bounds from linear programs are widened by the backend's tolerance, so gaps below this cannot be shown.
_CAPPED_TOLERANCE = 1e-5


def mean_effects(n: int, r: int, most: int) -> FloatArray:
    """Compute K[u, k] for u up to ``most``, shape (most+1, n+1).

    The absolute error is a few roundings, because |terms| add up to 1.
    """
    out = np.empty((most + 1, n + 1))
    for u in range(most + 1):
        s = np.arange(u + 1)
        out[u] = pattern_given_count(n, u) @ (comb(u, s) * (-1.0 / (r - 1)) ** s)
    return out


def cells_of_classes(workload: TableWorkload) -> int:
    """Count the vectors of counts, Π (m_g + 1)."""
    return math.prod(c.size + 1 for c in workload.classes)


def effect_usage(workload: TableWorkload) -> IntArray:
    """Count the attributes of each class in every effect, shape (rows, G).

    Rows are the effects of the workload, then every class's one-way effect.
    """
    groups = len(workload.classes)
    usage = [np.bincount(workload.class_of[list(w)], minlength=groups) for w in workload.effects]
    return np.stack([*usage, *np.eye(groups, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Cells(ABC):
    """Cells on which noise distributions of one kind are constant."""

    workload: TableWorkload

    @property
    def classes(self) -> Partition:
        """The workload's classes."""
        return self.workload.classes

    @cached_property
    def _usage(self) -> IntArray:
        return effect_usage(self.workload)

    @property
    def rows(self) -> int:
        """Length of an effect vector: the workload's effects, then one per class."""
        return len(self._usage)

    @property
    @abstractmethod
    def mu(self) -> FloatArray:
        """Law of the cells of a uniformly random answer."""

    @abstractmethod
    def effects_of(self, mass: FloatArray) -> FloatArray:
        """Compute λ of a distribution (or of any mass on the cells), shape (rows,)."""

    @abstractmethod
    def cells_of(self, multipliers: FloatArray) -> FloatArray:
        """Compute h = Σ multipliers · χ on every cell.

        The mean of h if a cell holds several change sets.
        """


@dataclass(frozen=True, eq=False)
class EffectLattice(Cells):
    """Lattice of the vectors of counts of a workload's classes.

    Raises MethodTooLarge for more than 2^18 cells.

    ``effects_of`` and ``cells_of`` take O(cells Σ m_g).
    """

    def __post_init__(self) -> None:
        if self.cells > MAX_ALLOCATION_CELLS:
            raise MethodTooLarge(
                f"{self.cells} vectors of counts, more than the {MAX_ALLOCATION_CELLS} of method 'lattice'; use "
                "method 'search'"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of counts by class, (m_1+1, …, m_G+1)."""
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
    def _axes(self) -> list[FloatArray]:
        most = self._usage.max(axis=0).tolist()
        keys = [(int(c.size), int(self.workload.sizes[c[0]]), u) for c, u in zip(self.classes, most, strict=True)]
        made = {key: mean_effects(*key) for key in set(keys)}
        return [made[key] for key in keys]

    @cached_property
    def _places(self) -> IntArray:
        """Flat index of every row among the effects that the axes span."""
        return np.asarray(np.ravel_multi_index(tuple(self._usage.T), [len(a) for a in self._axes]))

    def effects_of(self, mass: FloatArray) -> FloatArray:
        """Compute λ of a distribution (or of any mass on the cells), shape (rows,)."""
        out = mass
        for matrix in self._axes:
            # contracting the first axis and appending cycles through them all
            out = np.tensordot(out, matrix, axes=(0, 1))
        return np.asarray(out.ravel()[self._places])

    def cells_of(self, multipliers: FloatArray) -> FloatArray:
        """Compute h = Σ multipliers · χ on every cell, shape ``shape``."""
        shape = [len(a) for a in self._axes]
        out = np.zeros(math.prod(shape))
        np.add.at(out, self._places, multipliers)
        out = out.reshape(shape)
        for matrix in self._axes:
            out = np.tensordot(out, matrix, axes=(0, 0))
        return out

    def matrix(self) -> FloatArray:
        """Compute all χ rows at once, shape (rows, cells).

        Used by the convex program, whose lattice is small.
        """
        return np.stack([self.cells_of(row).ravel() for row in np.eye(self.rows)])

    def law(self, log_density: FloatArray) -> TableLaw | CountLaw:
        """Return the noise distribution of these log densities, shape ``shape``."""
        sizes = self.workload.sizes
        if len(self.classes) == sizes.size <= MAX_TABLE:
            order = np.argsort([int(c[0]) for c in self.classes])
            return TableLaw(sizes, np.transpose(log_density, order))
        return CountLaw(sizes, self.classes, log_density)


@dataclass(frozen=True, eq=False)
class Atom:
    """Distribution ν = μ (uniform + excess) of total ε at most E.

    Both parts are ≥ 0, and excess ≤ (e^E − 1) uniform.
    """

    uniform: float
    excess: FloatArray

    def mass(self, mu: FloatArray) -> FloatArray:
        """Return the probabilities ν of the cells, shape of ``mu``."""
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
    """Distributions of total ε at most E with capped conditional ε.

    A linear program over all cells; classes must be of one attribute.
    """

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
        """Return the bound, to HiGHS's tolerance, and the maximizing distribution.

        Its caps and total hold to rounding, because a small share of uniform answers is added.
        """
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
    """Build the rows of e^η q_other − q_capped ≥ 0, divided by e^η.

    Two rows, one for each direction, for each step; caps above the total are left out.
    """
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


@dataclass(frozen=True, eq=False)
class PenalizedError:
    """Penalized error Φ(λ) = Σ C/λ² + ½ Σ stiffness · violation².

    The sums are over the rows of an :class:`EffectLattice`.
    """

    coefficients: FloatArray
    low: FloatArray
    high: FloatArray
    stiffness: FloatArray

    def value(self, lam: FloatArray) -> float:
        """Compute Φ; infinite if an effect of the workload is not positive."""
        used = self.coefficients > 0
        if not np.all(lam[used] > 0):
            return np.inf
        error = float(np.sum(self.coefficients[used] / lam[used] ** 2))
        return error + 0.5 * float(self.stiffness @ self.violations(lam) ** 2)

    def violations(self, lam: FloatArray) -> FloatArray:
        """Measure each row's distance below its floor (+) or above its ceiling (−)."""
        return np.maximum(self.low - lam, 0) + np.minimum(self.high - lam, 0)

    def slope(self, lam: FloatArray) -> FloatArray:
        """Compute −∂F/∂λ, without the penalty."""
        out = np.zeros_like(lam)
        used = self.coefficients > 0
        out[used] = 2 * self.coefficients[used] / lam[used] ** 3
        return out

    def push(self, lam: FloatArray) -> FloatArray:
        """Compute −∂(penalty)/∂λ, the multipliers of the limits.

        They are positive at floors and negative at ceilings.
        """
        return np.asarray(self.stiffness * self.violations(lam))


@dataclass(frozen=True, eq=False)
class Corner:
    """Distribution to mix: its λ, and its densities on the cells.

    A distribution on other cells has no densities (None).
    """

    effects: FloatArray
    atom: Atom | None


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weighted corners, multipliers of the limits, and a lower bound of F.

    The weights add up to 1, the multipliers are by row, and the bound is over all distributions on the cells.
    """

    corners: tuple[Corner, ...]
    weights: FloatArray
    push: FloatArray
    lower: float
    rounds: int

    @property
    def effects(self) -> FloatArray:
        """Eigenvalues λ of the mixture, shape (rows,)."""
        return np.asarray(np.stack([c.effects for c in self.corners], axis=1) @ self.weights)

    def of_cells(self) -> Atom:
        """Sum the weighted corners on the cells: uniform part and excess."""
        own = [(w, c.atom) for w, c in zip(self.weights, self.corners, strict=True) if c.atom is not None]
        return Atom(sum(w * a.uniform for w, a in own), np.sum([w * a.excess for w, a in own], axis=0))


class Descent:
    """The corners kept, their weights, and the loop."""

    def __init__(self, problem: AllocationProblem, cells: Cells, oracle: Oracle, start: tuple[Corner, ...]) -> None:
        self.problem, self.cells, self.oracle = problem, cells, oracle
        self.corners = list(start)
        self.weights = np.eye(len(start))[0]
        self.low, self.high = problem.limits(cells.rows)
        both = np.isfinite(self.low) & np.isfinite(self.high)
        room = np.where(both, 1 - np.where(both, self.low, 0) / np.where(both, self.high, 1), 1.0)
        self.equations = room <= 4 * _EQUATION_TOLERANCE
        self.curve = self._curve()
        self.rounds = 0

    def _curve(self) -> PenalizedError:
        workload = self.problem.workload
        coefficients = np.zeros(self.cells.rows)
        coefficients[: len(workload.effects)] = workload.coefficients
        scale = np.where(np.isfinite(self.high), self.high, self.low)
        stiff = np.zeros(self.cells.rows)
        limited = np.isfinite(scale)
        start = self.corners[0].effects[coefficients > 0]
        error = float(np.sum(coefficients[coefficients > 0] / start**2))
        stiff[limited] = _STIFFNESS * error / scale[limited] ** 2
        stiff[self.equations] *= _EQUATION_STIFFENING
        return PenalizedError(coefficients, self.low, self.high, stiff)

    @property
    def _matrix(self) -> FloatArray:
        return np.stack([c.effects for c in self.corners], axis=1)

    @property
    def lam(self) -> FloatArray:
        """Eigenvalues λ of the current mixture."""
        return np.asarray(self._matrix @ self.weights)

    def run(self, tolerance: float, rounds: int) -> Mixture:
        """Find the best mixture that keeps the limits.

        Raises SolveFailed if no distribution of that total meets the floors.
        """
        for _ in range(_TIGHTENINGS):
            lower = self._descend(tolerance, rounds)
            short = self._overstepped()
            if short is None:
                push = self.curve.push(self.lam)
                return Mixture(tuple(self.corners), self.weights, push, lower, self.rounds)
            self.curve = replace(self.curve, low=self.curve.low + short[0], high=self.curve.high - short[1])
        i = int(np.argmax(np.abs(self.curve.violations(self.lam))))
        raise SolveFailed(f"allocation: limit {i} is still violated after {_TIGHTENINGS} tightenings; widen the limits")

    def _overstepped(self) -> tuple[FloatArray, FloatArray] | None:
        """Return twice the violations of the true limits, or None if all hold."""
        lam = self.lam
        if self.within_limits(lam):
            return None
        low = np.where(np.isfinite(self.low), np.maximum(self.low - lam, 0), 0)
        high = np.where(np.isfinite(self.high), np.maximum(lam - self.high, 0), 0)
        return np.where(self.equations, 0, 2 * low), np.where(self.equations, 0, 2 * high)

    def within_limits(self, lam: FloatArray) -> bool:
        """Check that λ, shape (rows,), satisfies the true floors and ceilings."""
        slack = np.where(self.equations, _EQUATION_TOLERANCE, _LIMIT_TOLERANCE) * np.abs(lam)
        return bool(np.all(lam >= self.low - slack) and np.all(lam <= self.high + slack))

    def _descend(self, tolerance: float, rounds: int) -> float:
        """Add corners until the relative gap is small; return the best lower bound of F."""
        lower = 0.0
        for _ in range(rounds):
            lam = self.lam
            slope, push = self.curve.slope(lam), self.curve.push(lam)
            bound, atom = self.oracle.best(self.cells.cells_of(slope + push))
            error = PenalizedError.value(replace(self.curve, stiffness=np.zeros_like(push)), lam)
            # the limits' multipliers with the true limits, not the tightened ones
            credit = float(np.sum(push[push > 0] * self.low[push > 0]) + np.sum(push[push < 0] * self.high[push < 0]))
            lower = max(lower, error + float(slope @ lam) - bound + credit)
            self.problem.report(error, lower)
            if error - lower <= tolerance * error:
                break
            self.rounds += 1
            self.corners.append(Corner(self.cells.effects_of(atom.mass(self.cells.mu)), atom))
            self.weights = correct(self._matrix, np.append(self.weights, 0.0), self.curve)
            kept = np.flatnonzero(self.weights > 0)
            self.corners = [self.corners[k] for k in kept]
            self.weights = self.weights[kept]
        return lower


def correct(effects: FloatArray, weights: FloatArray, curve: PenalizedError) -> FloatArray:
    """Minimize Φ(Λ a) over the weights a ≥ 0 with Σ a = 1.

    Uses Newton steps with exact active sets and a line search.

    ``effects`` Λ has shape (rows, atoms); only rows that Φ depends on matter.
    """
    used = curve.coefficients > 0
    limited = curve.stiffness > 0
    for _ in range(_NEWTON_STEPS):
        lam = effects @ weights
        model, goal = _model(effects, lam, curve, used, limited)
        try:
            shares, _ = nnls(model, goal, maxiter=100 * model.shape[1])
        except RuntimeError:
            # the search for the active set repeats itself; the mixture so far is a valid one
            return weights
        step = shares[: weights.size] / shares[: weights.size].sum() - weights
        gain = float((curve.slope(lam) + curve.push(lam)) @ (effects @ step))
        value = curve.value(lam)
        # a smaller gain is within the rounding of Φ
        if not gain > 1e-14 * value:
            return weights
        length = 1.0
        while not curve.value(effects @ (weights + length * step)) <= value - 1e-4 * length * gain:
            length /= 2
            if length < 1e-12:
                return weights
        weights = np.maximum(weights + length * step, 0)
        weights = weights / weights.sum()
        if gain < 1e-12 * value:
            return weights
    return weights


def _model(
    effects: FloatArray, lam: FloatArray, curve: PenalizedError, used: np.ndarray, limited: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """Build the least-squares problem whose residual is the quadratic model of Φ.

    It has one slack column for each floor and ceiling.
    """
    c, x = curve.coefficients[used], lam[used]
    curvature = np.sqrt(6 * c) / x**2
    rows = [curvature[:, None] * effects[used]]
    goals = [curvature * x + np.sqrt(2 * c / 3) / x]
    slacks = 0
    for bound, sign in ((curve.low, -1.0), (curve.high, 1.0)):
        at = np.flatnonzero(limited & np.isfinite(bound))
        stiff = np.sqrt(curve.stiffness[at])
        rows.append(np.hstack([stiff[:, None] * effects[at], np.zeros((at.size, slacks)), sign * np.diag(stiff)]))
        goals.append(stiff * bound[at])
        slacks += at.size
    width = effects.shape[1] + slacks
    padded = [np.hstack([r, np.zeros((r.shape[0], width - r.shape[1]))]) for r in rows]
    goal = np.concatenate(goals)
    heavy = _SUM_WEIGHT * float(np.abs(goal).max())
    total = np.append(np.full(effects.shape[1], heavy), np.zeros(slacks))
    return np.vstack([*padded, total]), np.append(goal, heavy)


def oracle_of(problem: AllocationProblem, lattice: EffectLattice) -> Oracle:
    """Return the oracle for the problem's set of distributions.

    Raises MethodTooLarge if there are caps and too many cells.
    """
    return CappedOracle(lattice, problem) if problem.capped else KnapsackOracle(lattice.mu, problem.total)


def kronecker_split(problem: AllocationProblem) -> FloatArray:
    """Compute the best split for independent randomized response within the limits.

    Returns ε of one member of each class, shape (G,).
    """
    workload = problem.workload
    firsts = [int(c[0]) for c in workload.classes]
    high = np.minimum(problem.ceiling, problem.cap)[firsts]
    blocks = single_blocks(workload)
    try:
        split = best_split(workload, blocks, problem.total, problem.floor[firsts], high)
    except Infeasible:
        # the optimum may meet floors that independent randomized response cannot
        split = best_split(workload, blocks, problem.total, None, high)
    except SolveFailed:
        split = even_split(workload, blocks, min(problem.total, float(high.min()) * workload.m))
    return split.epsilons[firsts]


def kronecker_start(problem: AllocationProblem, lattice: EffectLattice) -> Atom:
    """Return the best independent randomized response within the limits as a start.

    The result is a distribution on the cells; every answer of the descent is at least as good.
    """
    workload = problem.workload
    split = zip(workload.classes, kronecker_split(problem), strict=True)
    logs = reduce(np.add.outer, (e * np.arange(members.size, -1, -1) for members, e in split), np.array(0.0))
    mean = float(np.sum(lattice.mu * np.exp(logs)))
    return Atom(1 / mean, np.expm1(logs) / mean)


def law_of_densities(problem: AllocationProblem, lattice: EffectLattice, above: FloatArray) -> Law:
    """Build the noise distribution of densities 1 + ``above``, shape of the lattice.

    Its range is below E by an ulp, and every cap is kept.

    Clipping removes no more than rounding. Caps are met again by adding uniform answers, which makes every ratio
    smaller.
    """
    logs = np.log1p(np.maximum(above, 0))
    # the law's ε is this range rounded up
    clipped = np.clip(logs - logs.min(), 0.0, np.nextafter(np.nextafter(problem.total, 0), 0))
    if not problem.capped:
        return lattice.law(clipped)
    caps = problem.cap[[int(c[0]) for c in lattice.classes]]
    share = 0.0
    for _ in range(60):
        mixed = np.log(np.exp(clipped) + share)
        if np.all(np.nextafter(largest_steps(mixed), np.inf) <= caps):
            return lattice.law(mixed - mixed.min())
        share = max(4 * share, 1e-12)
    raise SolveFailed("allocation: the conditional caps could not be restored by rounding; please report this")


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Find the distribution of total ε at most E with the smallest workload error.

    Its gap is certified.

    Floors and ceilings hold exactly; where a floor is its ceiling, to 1e-6.

    Cost: some dozens to hundreds of rounds of O(cells Σ m_g); never worse than the best split for independent
    randomized response within the limits.

    Raises
    ------
    MethodTooLarge
        above 2^18 cells, or 2^9 with conditional caps; and for targets on tables of several attributes.
    SolveFailed
        If no distribution of that total meets the floors (:mod:`optrr_solvers.allocation.program` finds a sufficient
        total).
    """
    started = time.perf_counter()
    if problem.joint_targets.size:
        raise MethodTooLarge("method 'lattice' takes no targets on tables of several attributes; use method 'program'")
    lattice = EffectLattice(problem.workload)
    start = kronecker_start(problem, lattice)
    corner = Corner(lattice.effects_of(start.mass(lattice.mu)), start)
    descent = Descent(problem, lattice, oracle_of(problem, lattice), (corner,))
    tolerance = _CAPPED_TOLERANCE if problem.capped else _TOLERANCE
    mixture = descent.run(tolerance, _MOST_CORNERS)

    def answer(atom: Atom) -> AllocatedLaw:
        law = law_of_densities(problem, lattice, atom.excess / atom.uniform)
        return AllocatedLaw.of(problem, "lattice", law, mixture.lower, started, mixture.rounds)

    allocated = answer(mixture.of_cells())
    if descent.within_limits(corner.effects):
        # with tightened limits the answer may be worse than the starting split in the last digits
        baseline = answer(start)
        return baseline if baseline.error < allocated.error else allocated
    return allocated
