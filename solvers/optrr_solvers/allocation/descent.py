"""Conditional gradients, fully corrected: the best mixture of corners, one corner at a time.

F is convex in λ and the laws of total ε at most E form a convex set whose corners are sharp sets of cells
(:mod:`oracle`). Each round asks for the corner that is best for the current gradient and then minimises F over
all mixtures of the corners kept. With −g the gradient at λ, convexity gives for every law

    F(λ') ≥ F(λ) − g·(λ' − λ) ≥ F(λ) + g·λ − max_ν E_ν[Σ g_W χ_W],

so the oracle's bound certifies the answer among the laws that it knows. The mixture problem is a Newton iteration: the
quadratic model of F is the nonnegative least-squares problem min ‖D Λ a − b‖, a ≥ 0, Σ a = 1, D = diag(√(6C)/λ²), whose
active set is exact.

Floors and ceilings on λ_i enter as a stiff quadratic penalty, tightened a little so that the answer satisfies the limits
themselves; its multipliers are valid in the bound whatever they are (Lagrangian duality).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from optrr_solvers.allocation.oracle import Atom, EffectLattice, Oracle
from optrr_solvers.allocation.problem import AllocationProblem
from optrr_solvers.allocation.totals import EffectTotals
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import SolveFailed

# A limit that is violated by 100 % costs this many times F. What remains of violations is then about 1e-6, and the limits are
# tightened by more than that.
_STIFFNESS = 1e6
# Limits on λ_i hold to this, relative; a ten-thousandth of what the solution gate allows in ε_i. Where a floor is its
# ceiling there is no room to tighten either, so the penalty is stiffer and the equation holds to the second number.
_LIMIT_TOLERANCE, _EQUATION_TOLERANCE = 1e-12, 1e-6
_EQUATION_STIFFENING = 100.0
_TIGHTENINGS = 8
_NEWTON_STEPS = 40
# The equation Σ a = 1 weighs this much more than the largest entry of the least-squares problem.
_SUM_WEIGHT = 1e3


@dataclass(frozen=True, eq=False)
class PenalizedError:
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


@dataclass(frozen=True, eq=False)
class Corner:
    """A law to mix: its λ, and its densities on the cells; None for a law from elsewhere."""

    effects: FloatArray
    atom: Atom | None


@dataclass(frozen=True, eq=False)
class Mixture:
    """Corners with weights that add up to 1, the limits' multipliers by row, and a bound of F over all laws on the cells."""

    corners: tuple[Corner, ...]
    weights: FloatArray
    push: FloatArray
    lower: float
    rounds: int

    @property
    def effects(self) -> FloatArray:
        """λ of the mixture, shape (rows,)."""
        return np.asarray(np.stack([c.effects for c in self.corners], axis=1) @ self.weights)

    def of_cells(self) -> Atom:
        """What the corners on the cells add up to: uniform part and excess, with their share of the mass."""
        own = [(w, c.atom) for w, c in zip(self.weights, self.corners, strict=True) if c.atom is not None]
        return Atom(sum(w * a.uniform for w, a in own), np.sum([w * a.excess for w, a in own], axis=0))


class Descent:
    """The corners kept, their weights, and the loop."""

    def __init__(
        self, problem: AllocationProblem, cells: EffectLattice | EffectTotals, oracle: Oracle, start: tuple[Corner, ...]
    ) -> None:
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
        """λ of the current mixture."""
        return np.asarray(self._matrix @ self.weights)

    def run(self, tolerance: float, rounds: int) -> Mixture:
        """The mixture with limits kept. Raises SolveFailed where no law of that total meets the floors."""
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
        """Twice the violations of the true floors and ceilings, or None where all hold."""
        lam = self.lam
        if self.within_limits(lam):
            return None
        low = np.where(np.isfinite(self.low), np.maximum(self.low - lam, 0), 0)
        high = np.where(np.isfinite(self.high), np.maximum(lam - self.high, 0), 0)
        return np.where(self.equations, 0, 2 * low), np.where(self.equations, 0, 2 * high)

    def within_limits(self, lam: FloatArray) -> bool:
        """Whether λ, shape (rows,), keeps the true floors and ceilings."""
        slack = np.where(self.equations, _EQUATION_TOLERANCE, _LIMIT_TOLERANCE) * np.abs(lam)
        return bool(np.all(lam >= self.low - slack) and np.all(lam <= self.high + slack))

    def _descend(self, tolerance: float, rounds: int) -> float:
        """Go on with rounds until the relative gap is small; returns the best lower bound of F."""
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
    """Weights a ≥ 0, Σ a = 1, that minimise Φ(Λ a); Newton steps with exact active sets and a line search.

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
    effects: FloatArray, lam: FloatArray, curve: PenalizedError, used: np.ndarray, limited: np.ndarray
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
