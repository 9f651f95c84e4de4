"""The allocation as one convex program over the lattice, by cvxpy and Clarabel (design §3.7).

With ν = μ (uniform + excess), a first guess z₀ of the uniform part and s = μ (e^E−1) z₀ the variables are ζ = uniform/z₀
and u = μ · excess / s:

    minimise Σ C_W λ_W^{−2}   subject to   0 ≤ u ≤ ζ,   z₀ ζ + Σ s u = 1,   floors ≤ λ_i ≤ ceilings,   caps,

λ linear in u. The guess is the best corner at Kronecker's gradient; with a poor guess Clarabel loses most of its digits.

Clarabel's answer is never used as it is: u/ζ is clipped to [0, 1], which makes the total exactly E, the law is rebuilt from
it, its error recomputed, and its distance from the optimum bounded by the same linearisation as in
:mod:`optrr_solvers.allocation.descent`, with the program's multipliers of the limits.
"""

import importlib
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr_solvers.allocation.lattice import Answer, kronecker_start, oracle_of
from optrr_solvers.allocation.oracle import EffectLattice, KnapsackOracle, cap_rows
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge, SolveFailed

# Clarabel takes a second at 2^9 cells and 45 effects, minutes at 2^12.
MAX_PROGRAM_CELLS = 1 << 11
# Clarabel's own tolerance.
_TOLERANCE = 1e-11
# Answers certified no better than this, relative, are refused.
_WORST_GAP = 0.01


@dataclass(frozen=True, eq=False)
class _Solved:
    """Share of the largest density per cell (u/ζ), the multipliers of floors (≥ 0) and ceilings (≤ 0) by row, of targets."""

    share: FloatArray
    push: FloatArray
    target_weights: FloatArray


@dataclass(frozen=True, eq=False)
class Units:
    """What a program's variables are multiples of: the best corner at Kronecker's gradient.

    ``uniform`` z₀, ``mass`` μ (e^E−1) z₀ by cell, and λ of the corner and of Kronecker's split by row.
    """

    uniform: float
    mass: FloatArray
    corner: FloatArray
    kronecker: FloatArray

    @classmethod
    def of(cls, problem: AllocationProblem, lattice: EffectLattice) -> "Units":
        """Units at the problem's total."""
        used = len(problem.workload.effects)
        kronecker = lattice.effects_of(kronecker_start(problem, lattice).mass(lattice.mu))
        slope = np.zeros(lattice.rows)
        slope[:used] = 2 * problem.workload.coefficients / kronecker[:used] ** 3
        _, corner = KnapsackOracle(lattice.mu, problem.total).best(lattice.cells_of(slope))
        mass = lattice.mu.ravel() * corner.uniform * math.expm1(problem.total)
        return cls(corner.uniform, mass, lattice.effects_of(corner.mass(lattice.mu)), kronecker)


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Law with the smallest workload error at total ε at most E, by one convex program, with its certified gap.

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
        raise SolveFailed("program: Clarabel's answer hides an effect of the workload; use method 'lattice'")
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
    answer = Answer(problem, lattice, "program", started, 1).of(above, lower)
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
    """Solve a cvxpy program; None where there is an answer, otherwise what went wrong.

    The answer may be inaccurate: the certificate says how far it is from the optimum.
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
