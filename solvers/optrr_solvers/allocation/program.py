"""Allocation by convex programs over the lattice, by cvxpy and Clarabel: the least error, the least total (theory §3.7).

With ν = μ (uniform + excess), a first guess z₀ of the uniform part and s = μ (e^E−1) z₀ the variables are ζ =
uniform/z₀ and u = μ · excess / s:

    minimise Σ C_W λ_W^{−2}   subject to   0 ≤ u ≤ ζ,   z₀ ζ + Σ s u = 1,   floors ≤ λ_i ≤ ceilings,   caps,

λ linear in u. The guess is the best corner at the gradient of the best split for independent randomized response; with
a poor guess Clarabel loses most of its digits. Clarabel's answer is never used as it is: u/ζ is clipped to [0, 1],
which makes the total exactly E, the law is rebuilt from it, its error recomputed, and its distance from the optimum
bounded by the same linearisation as in :mod:`optrr_solvers.allocation.lattice`, with the program's multipliers of the
limits.

Where accuracies are required instead of a total: those of single attributes are floors on ε_i, and the design solver
has the answer for any number of attributes. With tables of several attributes the laws that meet all requirements
G_U(λ) ≤ τ_U form a convex set, and so does the cone over it: with unnormalised mass κ = Σ ν' and λ' = κ λ the
requirement Σ c_W κ³/λ'_W² ≤ τ_U κ is a power cone. Fixing the uniform part instead of the mass makes the largest excess
the goal, hence one convex program:

    minimise t   subject to   0 ≤ excess ≤ t μ (e^{E₀}−1) z₀,   κ = z₀ + Σ excess,   λ' = K excess,   Σ c_W ρ_W ≤ τ_U κ,
                              ρ_W^{1/3} λ'_W^{2/3} ≥ κ,   low κ ≤ λ'_i ≤ high κ,   caps.

E₀, z₀ come from that split and only scale the program. The law is rebuilt and every requirement recomputed;
the program's multipliers y give the lower bound: a total E is impossible where, by convexity of Σ y G, every law of
total E has Σ y G > Σ y τ.
"""

import importlib
import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optrr_solvers.allocation.lattice import (
    EffectLattice,
    KnapsackOracle,
    cap_rows,
    kronecker_start,
    law_of_densities,
    oracle_of,
)
from optrr_solvers.allocation.problem import MAX_TOTAL, AllocatedLaw, AllocationProblem
from optrr_solvers.allocation.split import best_split, single_blocks
from optrr_solvers.allocation.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.auto import solve as design
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.problem import EPSILON_RANGE, Problem

# Clarabel takes a second at 2^9 cells and 45 effects, minutes at 2^12.
MAX_PROGRAM_CELLS = 1 << 11
# Clarabel's own tolerance.
_TOLERANCE = 1e-11
# Answers certified no better than this, relative, are refused.
_WORST_GAP = 0.01
# The program asks for targets that are smaller by this share, so that the error in Clarabel's last digits does not miss
# the real ones. This costs 1e-7 nats.
_MARGINS = (1e-8, 1e-7, 1e-6, 1e-5)
# The program is tried at these scales, each times the best guess of the total so far.
_RESCALINGS = (1.0, 0.5, 1.0, 0.85, 0.7, 0.5)
# Clarabel's own tolerance.
_TOTAL_TOLERANCE = 1e-10
# No further program is tried once the bracket is this narrow, in nats relative to 1 + total.
_GOOD_GAP = 1e-5
# Brackets wider than this, in nats relative to 1 + total, are refused.
_WORST_TOTAL_GAP = 1e-3


@dataclass(frozen=True, eq=False)
class _Solved:
    """Solution: proportion of the largest density per cell (u/ζ) and multipliers.

    ``push`` holds those of floors (≥ 0) and ceilings (≤ 0) by row, ``target_weights`` those of targets.
    """

    share: FloatArray
    push: FloatArray
    target_weights: FloatArray


@dataclass(frozen=True, eq=False)
class Units:
    """Units of a program's variables, from the best corner at the start's gradient.

    The start is the best split for independent randomized response.

    ``uniform`` z₀, ``mass`` μ (e^E−1) z₀ by cell, and λ of the corner and of the split by row.
    """

    uniform: float
    mass: FloatArray
    corner: FloatArray
    kronecker: FloatArray

    @classmethod
    def of(cls, problem: AllocationProblem, lattice: EffectLattice) -> "Units":
        """Compute the units at the problem's total."""
        used = len(problem.workload.effects)
        kronecker = lattice.effects_of(kronecker_start(problem, lattice).mass(lattice.mu))
        slope = np.zeros(lattice.rows)
        slope[:used] = 2 * problem.workload.coefficients / kronecker[:used] ** 3
        _, corner = KnapsackOracle(lattice.mu, problem.total).best(lattice.cells_of(slope))
        mass = lattice.mu.ravel() * corner.uniform * math.expm1(problem.total)
        return cls(corner.uniform, mass, lattice.effects_of(corner.mass(lattice.mu)), kronecker)


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Minimize the workload error at total ε at most E by one convex program.

    The answer's gap is certified.

    Floors and ceilings hold to the solver's tolerance (1e-8 or so); :mod:`optrr_solvers.allocation.lattice` makes them
    exact.

    Raises
    ------
    MethodTooLarge
        above 2^11 cells, or 2^9 with conditional caps.
    SolveFailed
        where Clarabel gives up or its answer cannot be certified.
    """
    started = time.perf_counter()
    lattice = EffectLattice(problem.workload)
    if lattice.cells > MAX_PROGRAM_CELLS:
        raise MethodTooLarge(
            f"method 'program' takes up to {MAX_PROGRAM_CELLS} vectors of counts, got {lattice.cells}; use 'lattice'"
        )
    oracle = oracle_of(problem, lattice)
    solved = _clarabel(problem, lattice)
    above = solved.share * math.expm1(problem.total)
    mass = lattice.mu * (1 + above)
    lam = lattice.effects_of(mass / mass.sum())
    used = len(problem.workload.effects)
    if not np.all(lam[:used] > 0):
        raise SolveFailed(
            "program: an effect of the workload is non-identifiable under Clarabel's answer; use method 'lattice'"
        )
    # Lagrangian: every law within the targets has F ≥ F + Σ y (G − target)
    weighted = problem.workload.reweighted(problem.workload.weights + solved.target_weights)
    slope = np.zeros(lattice.rows)
    slope[:used] = 2 * weighted.coefficients / lam[:used] ** 3
    bound, _ = oracle.best(lattice.cells_of(slope + solved.push))
    low, high = problem.limits(lattice.rows)
    push, wanted = solved.push, solved.target_weights > 0
    credit = float(push[push > 0] @ low[push > 0] + push[push < 0] @ high[push < 0])
    credit -= float(solved.target_weights[wanted] @ problem.target[wanted])
    lower = weighted.error(lam[:used]) + float(slope @ lam) - bound + credit
    law = law_of_densities(problem, lattice, above)
    answer = AllocatedLaw.of(problem, "program", law, lower, started, 1)
    if answer.gap > _WORST_GAP:
        raise SolveFailed(f"program: Clarabel's answer is certified only within {answer.gap:.2g}; use method 'lattice'")
    return answer


def _clarabel(problem: AllocationProblem, lattice: EffectLattice) -> _Solved:
    # 1 s to import, and only this method needs it
    cp: Any = importlib.import_module("cvxpy")
    workload = problem.workload
    units = Units.of(problem, lattice)
    guess, scale = np.maximum(units.corner, units.kronecker), units.mass
    share, uniform = cp.Variable(lattice.cells, nonneg=True), cp.Variable(nonneg=True)
    effects = (lattice.matrix() * scale / guess[:, None]) @ share
    weights = workload.coefficients / guess[: len(workload.effects)] ** 2
    errors = cp.power(effects[: len(workload.effects)], -2)
    goal = cp.sum(cp.multiply(weights / weights.sum(), errors))
    low, high = problem.limits(lattice.rows)
    floors, ceilings = np.flatnonzero(np.isfinite(low)), np.flatnonzero(np.isfinite(high))
    bounds = [
        effects[floors] >= low[floors] / guess[floors],
        effects[ceilings] <= high[ceilings] / guess[ceilings],
    ]
    rules = [share <= uniform, units.uniform * uniform + scale @ share == 1]
    rules += [rule for rule, rows in zip(bounds, (floors, ceilings), strict=True) if rows.size]
    joint = problem.joint_targets
    if joint.size:
        per_table = workload.shares[joint].toarray() / guess[: len(workload.effects)] ** 2
        met = per_table / problem.target[joint, None] @ errors <= 1
        rules.append(met)
    if problem.capped:
        caps = problem.cap[[int(c[0]) for c in lattice.classes]]
        density = share + math.exp(-problem.total) / -math.expm1(-problem.total) * uniform
        rules.append(cap_rows(lattice.shape, caps, problem.total) @ density >= 0)
    status = by_clarabel(cp.Problem(cp.Minimize(goal), rules), _TOLERANCE)
    if status is not None:
        raise SolveFailed(f"program: Clarabel {status}; use method 'lattice'")
    push: FloatArray = np.zeros(lattice.rows)
    for rule, rows, sign in zip(bounds, (floors, ceilings), (1.0, -1.0), strict=True):
        if rows.size:
            push[rows] += sign * np.maximum(rule.dual_value, 0) * weights.sum() / guess[rows]
    target_weights = np.zeros(len(workload.tables))
    if joint.size:
        target_weights[joint] = np.maximum(met.dual_value, 0) * weights.sum() / problem.target[joint]
    return _Solved(np.clip(share.value / uniform.value, 0, 1).reshape(lattice.shape), push, target_weights)


def by_clarabel(program: Any, tolerance: float) -> str | None:
    """Solve a cvxpy program; return None, or a description of the failure.

    The answer may be inaccurate: the certificate bounds its distance from the optimum.
    """
    cp: Any = importlib.import_module("cvxpy")
    tolerances = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            program.solve(solver=cp.CLARABEL, max_iter=300, max_threads=1, **tolerances)
        except cp.SolverError:
            return "gave up"
    return None if program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) else f"reports {program.status}"


@dataclass(frozen=True, eq=False)
class SmallestTotal:
    """Distribution that meets every requirement, with bounds of the least total.

    ``upper`` is its own total; no such distribution has a total below ``lower``.
    """

    law: Law
    upper: float
    lower: float
    seconds: float

    @property
    def gap(self) -> float:
        """Upper − lower in nats."""
        return max(self.upper - self.lower, 0.0)


def smallest_total(problem: AllocationProblem) -> SmallestTotal:
    """Find the smallest total ε that meets the floors, ceilings, caps and targets.

    The problem's own total is ignored.

    Raises
    ------
    Infeasible
        If a target is below the sampling error, or a cap or ceiling is too low.
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
            f"table {workload.tables[k]} cannot have error {problem.target[k]:.4g}; require at least the sampling "
            f"error, {least[k]:.4g}"
        )
    if not problem.joint_targets.size:
        epsilons = np.maximum(problem.floor, EPSILON_RANGE[0])
        over = np.flatnonzero(epsilons > EPSILON_RANGE[1])
        if over.size:
            i = int(over[0])
            raise Infeasible(
                f"{problem.name(i)} would need epsilon {epsilons[i]:.4g}, more than the largest, "
                f"{EPSILON_RANGE[1]:g}; require less accuracy"
            )
        caps = problem.cap if problem.capped else None
        solution = design(Problem(workload.sizes, epsilons, caps=caps, names=problem.names))
        return SmallestTotal(solution.law, solution.upper, solution.lower, time.perf_counter() - started)
    lattice = EffectLattice(workload)
    if lattice.cells > MAX_PROGRAM_CELLS:
        raise MethodTooLarge(
            f"accuracies of tables of several attributes need {lattice.cells} variables, and at most "
            f"{MAX_PROGRAM_CELLS} are supported; require accuracies of single attributes, or give a total"
        )
    return _by_program(problem, lattice, started)


def kronecker_epsilons(problem: AllocationProblem) -> FloatArray:
    """Compute ε_i with which independent randomized response meets every target.

    The values are in nats, shape (m,).

    The least where only single attributes have one. For tables of several, the least total among the best splits for
    equal relative weights.
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
    if best is None or best.gap > _WORST_TOTAL_GAP * (1 + best.upper):
        raise SolveFailed("accuracies: the convex program could not be certified; give a total instead")
    return best


@dataclass(frozen=True, eq=False)
class _ScaledProgram:
    """The program scaled by total ``scale``, with targets tightened by ``margin``."""

    problem: AllocationProblem
    lattice: EffectLattice
    scale: float
    margin: float

    def run(self, started: float) -> SmallestTotal | None:
        """Solve the program; None if Clarabel fails or a requirement is missed."""
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
        if by_clarabel(cp.Problem(cp.Minimize(top), rules), _TOTAL_TOLERANCE) is not None:
            return None
        pulls = np.zeros(lattice.rows)
        for k, sign, rule in limited:
            pulls[k] += sign * max(float(rule.dual_value), 0.0) / guess[k]
        return self._checked(share.value, met.dual_value, pulls, started)

    def _checked(
        self, share: FloatArray, multipliers: FloatArray, pulls: FloatArray, started: float
    ) -> SmallestTotal | None:
        """Rebuild the distribution, recompute its requirements, and bound the total."""
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
        """Find the largest total that the multipliers prove impossible.

        A total is impossible if Σ y (G − τ) + Σ v (limit − λ) ≤ 0 has no solution; y are ``weights``, v ``pulls``.

        A pull is positive for a floor and negative for a ceiling, so that every term is at most 0 for a distribution
        that meets the requirements. Caps, left out here, can only raise the bound.
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
