"""Required accuracies instead of a total: the smallest total ε at which every table is as accurate as asked.

Accuracies of single attributes are floors on ε_i, and the design solver has the answer for any number of attributes. With
tables of several attributes the laws that meet all requirements G_U(λ) ≤ τ_U form a convex set, and so does the cone over
it: with unnormalised mass κ = Σ ν' and λ' = κ λ the requirement Σ c_W κ³/λ'_W² ≤ τ_U κ is a power cone. Fixing the uniform
part instead of the mass makes the largest excess the goal, hence one convex program:

    minimise t   subject to   0 ≤ excess ≤ t μ (e^{E₀}−1) z₀,   κ = z₀ + Σ excess,   λ' = K excess,   Σ c_W ρ_W ≤ τ_U κ,
                              ρ_W^{1/3} λ'_W^{2/3} ≥ κ,   low κ ≤ λ'_i ≤ high κ,   caps.

E₀, z₀ come from Kronecker's best split and only scale the program. The law is rebuilt and every requirement recomputed; the
program's multipliers y give the lower bound: a total E is impossible where, by convexity of Σ y G, every law of total E has
Σ y G > Σ y τ.
"""

import importlib
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optrr_solvers.allocation.lattice import oracle_of
from optrr_solvers.allocation.oracle import EffectLattice, cap_rows
from optrr_solvers.allocation.problem import MAX_TOTAL, AllocationProblem
from optrr_solvers.allocation.program import MAX_PROGRAM_CELLS, Units, by_clarabel
from optrr_solvers.allocation.split import best_split, single_blocks
from optrr_solvers.allocation.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.auto import solve as design
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.problem import EPSILON_RANGE, Problem

# The program asks for targets that are smaller by this share, so that the error in Clarabel's last digits does not miss the
# real ones. This costs 1e-7 nats.
_MARGINS = (1e-8, 1e-7, 1e-6, 1e-5)
# The program is tried at these scales, each times the best guess of the total so far.
_RESCALINGS = (1.0, 0.5, 1.0, 0.85, 0.7, 0.5)
# Clarabel's own tolerance.
_TOLERANCE = 1e-10
# No further program is tried once the bracket is this narrow, in nats relative to 1 + total.
_GOOD_GAP = 1e-5
# Brackets wider than this, in nats relative to 1 + total, are refused.
_WORST_GAP = 1e-3


@dataclass(frozen=True, eq=False)
class SmallestTotal:
    """A law that meets every requirement, its total (upper) and a total that no such law can go below (lower)."""

    law: Law
    upper: float
    lower: float
    seconds: float

    @property
    def gap(self) -> float:
        """Upper − lower in nats."""
        return max(self.upper - self.lower, 0.0)


def smallest_total(problem: AllocationProblem) -> SmallestTotal:
    """The smallest total ε that meets the problem's floors, ceilings, caps and targets; its own total is ignored.

    Raises
    ------
    Infeasible
        where a target is below what sampling alone leaves, or a cap or ceiling below what is needed.
    MethodTooLarge
        for targets on tables of several attributes above 2^11 cells.
    """
    started = time.perf_counter()
    workload = problem.workload
    least = workload.least_table_errors()
    bad = np.flatnonzero(~(problem.target > least))
    if bad.size:
        k = int(bad[0])
        raise Infeasible(
            f"table {workload.tables[k]} cannot have error {problem.target[k]:.4g}; sampling alone leaves {least[k]:.4g}"
        )
    if not problem.joint_targets.size:
        epsilons = np.maximum(problem.floor, EPSILON_RANGE[0])
        over = np.flatnonzero(epsilons > EPSILON_RANGE[1])
        if over.size:
            i = int(over[0])
            raise Infeasible(
                f"{problem.name(i)} would need epsilon {epsilons[i]:.4g}, and {EPSILON_RANGE[1]:g} is the most there is; "
                "ask for less accuracy"
            )
        caps = problem.cap if problem.capped else None
        solution = design(Problem(workload.sizes, epsilons, caps=caps, names=problem.names))
        return SmallestTotal(solution.law, solution.upper, solution.lower, time.perf_counter() - started)
    lattice = EffectLattice(workload)
    if lattice.cells > MAX_PROGRAM_CELLS:
        raise MethodTooLarge(
            f"accuracies of tables of several attributes take up to {MAX_PROGRAM_CELLS} vectors of counts, got "
            f"{lattice.cells}; require accuracies of single attributes, or give a total"
        )
    return _by_program(problem, lattice, started)


def kronecker_epsilons(problem: AllocationProblem) -> FloatArray:
    """ε_i in nats, shape (m,), with which randomizing every attribute on its own meets every target.

    The least where only single attributes have one. For tables of several, the least total among the best splits for equal
    relative weights.
    """
    workload, target = problem.workload, problem.target
    if not problem.joint_targets.size:
        return np.maximum(problem.floor, EPSILON_RANGE[0])
    wanted = np.flatnonzero(np.isfinite(target))
    weighted = workload.reweighted(np.where(np.isfinite(target), 1 / target, 1e-9 / workload.least_table_errors()))
    blocks = single_blocks(weighted)
    low, high = math.log(1e-3), math.log(MAX_TOTAL)
    for _ in range(30):
        middle = 0.5 * (low + high)
        split = best_split(weighted, blocks, math.exp(middle))
        met = np.all(workload.table_errors(split.eigenvalues)[wanted] <= target[wanted])
        low, high = (low, middle) if met else (middle, high)
    return best_split(weighted, blocks, math.exp(high)).epsilons


def _by_program(problem: AllocationProblem, lattice: EffectLattice, started: float) -> SmallestTotal:
    start = min(float(kronecker_epsilons(problem).sum()), 60.0)
    best: SmallestTotal | None = None
    for factor in _RESCALINGS:
        # scaled by a total nearer the answer the program is better conditioned
        scale = factor * (start if best is None else best.upper)
        for margin in _MARGINS:
            total = _ScaledProgram(problem, lattice, scale, margin).run(started)
            if total is not None and (best is None or total.gap < best.gap):
                best = total
            if total is not None:
                break
        if best is not None and best.gap <= _GOOD_GAP * (1 + best.upper):
            break
    if best is None or best.gap > _WORST_GAP * (1 + best.upper):
        raise SolveFailed("accuracies: the convex program could not be certified; ask for a total instead")
    return best


@dataclass(frozen=True, eq=False)
class _ScaledProgram:
    """The program scaled by total ``scale``, with targets tightened by ``margin``."""

    problem: AllocationProblem
    lattice: EffectLattice
    scale: float
    margin: float

    def run(self, started: float) -> SmallestTotal | None:
        """None where Clarabel gives up or its law misses a requirement."""
        cp: Any = importlib.import_module("cvxpy")
        workload, lattice = self.problem.workload, self.lattice
        effects = len(workload.effects)
        units = Units.of(AllocationProblem(workload, self.scale), lattice)
        mass, guess = units.mass, np.maximum(units.corner, 0.1 * units.kronecker)
        share, top = cp.Variable(lattice.cells, nonneg=True), cp.Variable()
        cost = cp.Variable(effects, nonneg=True)
        total = units.uniform + mass @ share
        lam = (lattice.matrix() * mass / guess[:, None]) @ share
        cubes = cp.PowCone3D(cost, lam[:effects], total * np.ones(effects), np.full(effects, 1 / 3))
        joint = self.problem.joint_targets
        per_table = workload.shares[joint].toarray() / guess[:effects] ** 2
        limit = self.problem.target[joint] * (1 - self.margin)
        met = (per_table / limit[:, None]) @ cost <= total * np.ones(joint.size)
        low, high = self.problem.limits(lattice.rows)
        # row of the lattice, 1 for a floor or −1 for a ceiling, and the rule, of every limit
        limited = [
            (k, 1.0, lam[k] >= total * (low[k] * (1 + self.margin) / guess[k]))
            for k in np.flatnonzero(np.isfinite(low)).tolist()
        ]
        limited += [
            (k, -1.0, lam[k] <= total * (high[k] * (1 - self.margin) / guess[k]))
            for k in np.flatnonzero(np.isfinite(high)).tolist()
        ]
        rules = [share <= top, cubes, met, *(rule for *_, rule in limited)]
        if self.problem.capped:
            caps = self.problem.cap[[int(c[0]) for c in lattice.classes]]
            # in units of the uniform part times e^scale − 1
            density = share + 1 / math.expm1(self.scale)
            rules.append(cap_rows(lattice.shape, caps, MAX_TOTAL) @ density >= 0)
        if by_clarabel(cp.Problem(cp.Minimize(top), rules), _TOLERANCE) is not None:
            return None
        pulls = np.zeros(lattice.rows)
        for k, sign, rule in limited:
            pulls[k] += sign * max(float(rule.dual_value), 0.0) / guess[k]
        return self._checked(share.value, met.dual_value, pulls, started)

    def _checked(
        self, share: FloatArray, multipliers: FloatArray, pulls: FloatArray, started: float
    ) -> SmallestTotal | None:
        """The law rebuilt, its requirements recomputed, and the bound."""
        above = np.maximum(share, 0).reshape(self.lattice.shape) * math.expm1(self.scale)
        law = self.lattice.law(np.log1p(above))
        workload, target = self.problem.workload, self.problem.target
        lam = workload.eigenvalues(law)
        if not np.all(lam > 0) or not np.all(workload.table_errors(lam) <= target):
            return None
        one_way = law.one_way_eigenvalues()
        low = eigenvalues_of(workload.sizes, self.problem.floor)
        high = eigenvalues_of(workload.sizes, self.problem.ceiling)
        if not np.all((one_way >= low * (1 - 1e-12)) & (one_way <= high * (1 + 1e-12))):
            return None
        if self.problem.capped and not np.all(law.conditional_epsilons() <= self.problem.cap):
            return None
        weights = np.zeros(len(workload.tables))
        weights[self.problem.joint_targets] = np.maximum(multipliers, 0) / target[self.problem.joint_targets]
        lower = self._lower(lam, weights, pulls, law.epsilon)
        return SmallestTotal(law, law.epsilon, lower, time.perf_counter() - started)

    def _lower(self, lam: FloatArray, weights: FloatArray, pulls: FloatArray, upper: float) -> float:
        """The largest total tried at which Σ y (G − τ) + Σ v (limit − λ) ≤ 0 is impossible; y are ``weights``, v ``pulls``.

        A pull is positive for a floor and negative for a ceiling, so that every term is at most 0 for a law that meets what is
        required. Caps, left out here, can only raise the bound.
        """
        weighted = self.problem.workload.reweighted(weights)
        slope = np.zeros(self.lattice.rows)
        used = lam.size
        slope[:used] = 2 * weighted.coefficients / lam**3
        floors, ceilings = self.problem.limits(self.lattice.rows)
        limit = np.where(pulls > 0, floors, np.where(pulls < 0, ceilings, 0.0))
        h = self.lattice.cells_of(slope + pulls)
        wanted = weights > 0
        spare = float(weighted.weights[wanted] @ (weighted.table_errors(lam)[wanted] - self.problem.target[wanted]))
        value = spare + float(slope[:used] @ lam) + float(pulls @ limit)

        def impossible(total: float) -> bool:
            return value - oracle_of(replace(self.problem, total=total, caps=None), self.lattice).best(h)[0] > 0

        low, high = EPSILON_RANGE[0] * self.problem.workload.m, upper
        if not impossible(low):
            return 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if impossible(middle) else (low, middle)
        return low
