"""The most accurate law of a given total ε on a lattice of counts: conditional gradients, fully corrected.

F is convex in λ and the laws of total ε at most E form a convex set whose corners are sharp balls (:mod:`allocation_oracle`).
Each round asks for the corner that is best for the current gradient and then minimises F over all mixtures of the corners
kept. With −g the gradient at λ, convexity gives for every law

    F(λ') ≥ F(λ) − g·(λ' − λ) ≥ F(λ) + g·λ − max_ν E_ν[Σ g_W χ_W],

so the oracle's bound certifies the answer. The mixture problem is a Newton iteration: the quadratic model of F is the
nonnegative least-squares problem min ‖D Λ a − b‖, a ≥ 0, Σ a = 1, D = diag(√(6C)/λ²), whose active set is exact.

Floors and ceilings on λ_i enter as a stiff quadratic penalty, tightened a little so that the answer satisfies the limits
themselves; its multipliers are valid in the bound whatever they are (Lagrangian duality).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from optrr_solvers.allocation import AllocatedLaw, AllocationProblem
from optrr_solvers.allocation_effects import EffectLattice
from optrr_solvers.allocation_frame import Answer, kronecker_start, limits, oracle_of
from optrr_solvers.problem import FloatArray, MethodTooLarge
from optrr_solvers.solution import SolveFailed

# A violated limit costs this many times F at a violation of 100 %: violations of 1e-6, which tightening then covers.
_STIFFNESS = 1e6
# Limits on λ_i hold to this, relative; a ten-thousandth of what the solution gate allows in ε_i. Where a floor is its
# ceiling there is no room to tighten either, so the penalty is stiffer and the equation holds to the second number.
_LIMIT_TOLERANCE, _EQUATION_TOLERANCE = 1e-12, 1e-6
_EQUATION_STIFFENING = 100.0
_TIGHTENINGS = 8
# Bounds from linear programs are widened for the backend's tolerance, so gaps below this would not show.
_CAPPED_TOLERANCE = 1e-5
_NEWTON_STEPS = 40
# The equation Σ a = 1 weighs this much more than the largest entry of the least-squares problem.
_SUM_WEIGHT = 1e3


@dataclass(frozen=True)
class AllocationOptions:
    """``tolerance``: relative gap to stop at; ``rounds``: corners asked for at most (the gap is then what it is)."""

    tolerance: float = 1e-6
    rounds: int = 500


@dataclass(frozen=True, eq=False)
class Curve:
    """Φ(λ) = Σ C/λ² + ½ Σ stiffness · violation², over the rows of an :class:`EffectLattice`."""

    coefficients: FloatArray
    low: FloatArray
    high: FloatArray
    stiffness: FloatArray

    def value(self, lam: FloatArray) -> float:
        """Φ; infinite where an effect of the workload is not positive."""
        used = self.coefficients > 0
        if not np.all(lam[used] > 0):
            return np.inf
        error = float(np.sum(self.coefficients[used] / lam[used] ** 2))
        return error + 0.5 * float(self.stiffness @ self.violations(lam) ** 2)

    def violations(self, lam: FloatArray) -> FloatArray:
        """How far below the floor (positive) or above the ceiling (negative) each row is."""
        return np.maximum(self.low - lam, 0) + np.minimum(self.high - lam, 0)

    def slope(self, lam: FloatArray) -> FloatArray:
        """−∂F/∂λ, without the penalty."""
        out = np.zeros_like(lam)
        used = self.coefficients > 0
        out[used] = 2 * self.coefficients[used] / lam[used] ** 3
        return out

    def push(self, lam: FloatArray) -> FloatArray:
        """−∂(penalty)/∂λ: the limits' multipliers, positive at floors, negative at ceilings."""
        return np.asarray(self.stiffness * self.violations(lam))


def solve(problem: AllocationProblem, options: AllocationOptions = AllocationOptions()) -> AllocatedLaw:
    """Law with the smallest workload error at total ε at most E, with its certified gap.

    Floors and ceilings hold exactly; where a floor is its ceiling, to 1e-6.

    Cost: some dozens to hundreds of rounds of O(cells Σ m_g); never worse than the best Kronecker split within the limits.

    Raises
    ------
    MethodTooLarge
        above 2^18 cells, or 2^9 with conditional caps; and for targets on tables of several attributes.
    SolveFailed
        where no law of that total meets the floors (:mod:`optrr_solvers.allocation_accuracy` says which total does).
    """
    started = time.perf_counter()
    if problem.joint_targets.size:
        raise MethodTooLarge("method 'lattice' takes no targets on tables of several attributes; use method 'program'")
    return _Search(problem, options).run(started)


class _Search:
    """The corners kept, their weights, and the loop."""

    def __init__(self, problem: AllocationProblem, options: AllocationOptions) -> None:
        self.problem, self.options = problem, options
        self.lattice = EffectLattice(problem.workload)
        self.oracle = oracle_of(problem, self.lattice)
        self.start = kronecker_start(problem, self.lattice)
        self.atoms = [self.start]
        self.effects = [self.lattice.effects_of(self.atoms[0].mass(self.lattice.mu))]
        self.weights = np.ones(1)
        self.low, self.high = limits(problem, self.lattice)
        both = np.isfinite(self.low) & np.isfinite(self.high)
        room = np.where(both, 1 - np.where(both, self.low, 0) / np.where(both, self.high, 1), 1.0)
        self.equations = room <= 4 * _EQUATION_TOLERANCE
        self.curve = self._curve()
        self.rounds = 0

    def _curve(self) -> Curve:
        coefficients = np.zeros(self.lattice.rows)
        coefficients[: len(self.problem.workload.effects)] = self.problem.workload.coefficients
        scale = np.where(np.isfinite(self.high), self.high, self.low)
        stiff = np.zeros(self.lattice.rows)
        limited = np.isfinite(scale)
        start = self.effects[0][coefficients > 0]
        error = float(np.sum(coefficients[coefficients > 0] / start**2))
        stiff[limited] = _STIFFNESS * error / scale[limited] ** 2
        stiff[self.equations] *= _EQUATION_STIFFENING
        return Curve(coefficients, self.low, self.high, stiff)

    @property
    def lam(self) -> FloatArray:
        """λ of the current mixture."""
        return np.asarray(np.stack(self.effects, axis=1) @ self.weights)

    def run(self, started: float) -> AllocatedLaw:
        for _ in range(_TIGHTENINGS):
            lower = self._descend()
            short = self._overstepped()
            if short is None:
                return self._answer(lower, started)
            self.curve = replace(self.curve, low=self.curve.low + short[0], high=self.curve.high - short[1])
        i = int(np.argmax(np.abs(self.curve.violations(self.lam))))
        raise SolveFailed(f"allocation: limit {i} is still violated after {_TIGHTENINGS} tightenings; widen the limits")

    def _overstepped(self) -> tuple[FloatArray, FloatArray] | None:
        """Twice the violations of the true floors and ceilings, or None where all hold."""
        lam = self.lam
        slack = np.where(self.equations, _EQUATION_TOLERANCE, _LIMIT_TOLERANCE) * np.abs(lam)
        low = np.where(np.isfinite(self.low), np.maximum(self.low - lam, 0), 0)
        high = np.where(np.isfinite(self.high), np.maximum(lam - self.high, 0), 0)
        if np.all(low <= slack) and np.all(high <= slack):
            return None
        return np.where(self.equations, 0, 2 * low), np.where(self.equations, 0, 2 * high)

    def _descend(self) -> float:
        """Rounds until the relative gap is small; returns the best lower bound of F."""
        lower = 0.0
        tolerance = max(self.options.tolerance, _CAPPED_TOLERANCE if self.problem.capped else 0)
        for _ in range(self.options.rounds):
            lam = self.lam
            slope, push = self.curve.slope(lam), self.curve.push(lam)
            bound, atom = self.oracle.best(self.lattice.cells_of(slope + push))
            error = Curve.value(replace(self.curve, stiffness=np.zeros_like(push)), lam)
            # the limits' multipliers with the true limits, not the tightened ones
            credit = float(np.sum(push[push > 0] * self.low[push > 0]) + np.sum(push[push < 0] * self.high[push < 0]))
            lower = max(lower, error + float(slope @ lam) - bound + credit)
            if error - lower <= tolerance * error:
                break
            self.rounds += 1
            self.atoms.append(atom)
            self.effects.append(self.lattice.effects_of(atom.mass(self.lattice.mu)))
            self.weights = correct(np.stack(self.effects, axis=1), np.append(self.weights, 0.0), self.curve)
            kept = np.flatnonzero(self.weights > 0)
            self.atoms = [self.atoms[k] for k in kept]
            self.effects = [self.effects[k] for k in kept]
            self.weights = self.weights[kept]
        return lower

    def _answer(self, lower: float, started: float) -> AllocatedLaw:
        uniform = sum(w * a.uniform for w, a in zip(self.weights, self.atoms, strict=True))
        excess = np.sum([w * a.excess for w, a in zip(self.weights, self.atoms, strict=True)], axis=0)
        gate = Answer(self.problem, self.lattice, "lattice", started, self.rounds)
        found = gate.of(excess / uniform, lower)
        if self._within_limits(self.start.mass(self.lattice.mu)):
            # tightened limits may cost the last digits that Kronecker's split has
            baseline = gate.of(self.start.excess / self.start.uniform, lower)
            return baseline if baseline.error < found.error else found
        return found

    def _within_limits(self, mass: FloatArray) -> bool:
        lam = self.lattice.effects_of(mass)
        slack = np.where(self.equations, _EQUATION_TOLERANCE, _LIMIT_TOLERANCE) * np.abs(lam)
        return bool(np.all(lam >= self.low - slack) and np.all(lam <= self.high + slack))


def correct(effects: FloatArray, weights: FloatArray, curve: Curve) -> FloatArray:
    """Weights a ≥ 0, Σ a = 1, that minimise Φ(Λ a); Newton steps with exact active sets and a line search.

    ``effects`` Λ has shape (rows, atoms); only rows that Φ depends on matter.
    """
    used = curve.coefficients > 0
    limited = curve.stiffness > 0
    for _ in range(_NEWTON_STEPS):
        lam = effects @ weights
        model, goal = _model(effects, lam, curve, used, limited)
        try:
            found, _ = nnls(model, goal, maxiter=100 * model.shape[1])
        except RuntimeError:
            # cycling in the active set: the mixture so far is a valid one
            return weights
        step = found[: weights.size] / found[: weights.size].sum() - weights
        gain = float((curve.slope(lam) + curve.push(lam)) @ (effects @ step))
        value = curve.value(lam)
        # below rounding of Φ no step can be told from noise
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
    effects: FloatArray, lam: FloatArray, curve: Curve, used: np.ndarray, limited: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """Least squares whose residual is the quadratic model of Φ; one slack column for every floor and ceiling."""
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
