"""Weights of tables and multipliers of (*) together, by an interior-point method (:mod:`optrr_solvers.allocation.delsarte`).

At a total ε no mechanism has errors G_U ≤ τ_U where, for some weights v ≥ 0 of the tables with Σ v_U τ_U = 1, the right side of
(*) exceeds 1. In units of sinh²(ε/2), with y/e^ε in place of y, u = Σ y_D, and v τ in place of v, the best of both maximise

    2 Σ_S √(a_S c_S) − Σ_l z_l cap_l − max_{0≤t≤1} 4 (β t − (β − u) t²) − (Σ_U v_U)²/2,     Y_S ≤ β, u ≤ β, and all are ≥ 0,

which is concave: a is linear in v, and c in the multipliers. As 2 √(a c) is the least a/e + c e, the conditions of optimality
hold e, the energies, and t as unknowns of their own; the predictor–corrector steps of Mehrotra (SIAM J. Optim. 2, 1992) solve
them. Roots alone have no slope where a_S and c_S vanish together: for an attribute that is told more of than is required.
"""

import math
from dataclasses import dataclass

import numpy as np

from optrr_solvers.allocation.delsarte import DelsarteProgram, Multipliers
from optrr_solvers.arrays import FloatArray

# Most steps, and the gap and the residuals that end them; values are near 1.
_STEPS, _GAP, _RESIDUAL = 80, 1e-8, 1e-4
# The sum of products at the start, the part of the longest step that is taken, and the least y at the start to the largest.
_START, _PART, _LEAST = 10.0, 0.95, 1e-6
# Added to the diagonal, relative to it, against rounding.
_RIDGE = 1e-13


@dataclass(frozen=True, eq=False)
class _Program:
    """Columns of w: β, z, y and v. Rows of c, a and the guards g; the prices, and which columns are β, of u, and of Σ v."""

    of_c: FloatArray
    of_a: FloatArray
    guards: FloatArray
    price: FloatArray
    first: FloatArray
    share: FloatArray
    total: FloatArray


@dataclass(frozen=True, eq=False)
class _Point:
    """w, g and 1 − t with their duals, c and e. c and g are small differences of large sums, so they are unknowns, too."""

    w: FloatArray
    s: FloatArray
    g: FloatArray
    held: FloatArray
    c: FloatArray
    e: FloatArray
    t: float
    cap: float

    @property
    def sides(self) -> tuple[FloatArray, FloatArray]:
        """Both factors of all products that are 0 in the end."""
        return np.concatenate([self.w, self.held, [self.cap]]), np.concatenate([self.s, self.g, [1 - self.t]])

    @property
    def products(self) -> FloatArray:
        """Products of the two sides."""
        one, other = self.sides
        return one * other

    def longest(self, step: "_Point") -> float:
        """The largest part of a step, of 1 at most, that leaves everything positive."""
        now = np.concatenate([*self.sides, self.c, self.e, [self.t]])
        change = np.concatenate([step.w, step.held, [step.cap], step.s, step.g, [-step.t], step.c, step.e, [step.t]])
        falls = change < 0
        return min(1.0, float((now[falls] / -change[falls]).min(initial=math.inf)))

    def moved(self, step: "_Point", part: float) -> "_Point":
        """The point after that part of a step."""
        return _Point(**{name: getattr(self, name) + part * getattr(step, name) for name in self.__dict__})


class _Newton:
    """Residuals at a point, and the steps that remove them."""

    def __init__(self, program: _Program, at: _Point) -> None:
        self.program, self.at = program, at
        self.away = program.first - program.share
        self.spare = float(self.away @ at.w)
        self.off_c, self.off_g = program.of_c @ at.w - at.c, program.guards @ at.w - at.g
        pulls = at.e @ program.of_c + (1 / at.e) @ program.of_a + at.held @ program.guards + at.s - program.price
        off_w = pulls - float(program.total @ at.w) * program.total - 4 * at.t * (program.first - at.t * self.away)
        off_e = program.of_a @ at.w - at.c * at.e**2 - at.e**2 * self.off_c
        self.off = off_w, off_e, float(at.w[0] - 2 * self.spare * at.t - at.cap)

    def factorized(self) -> bool:
        """Set up what all steps share; False where rounding leaves no positive definite matrix."""
        from scipy.linalg import LinAlgError, cho_factor  # noqa: PLC0415 (slow to import, and seldom needed)

        program, at = self.program, self.at
        self.kappa = 2 * self.spare + at.cap / (1 - at.t)
        self.turn = program.first - 2 * at.t * self.away
        self.half, self.slope = 1 / (2 * at.c * at.e), program.of_c - program.of_a / (at.e**2)[:, None]
        parts = np.concatenate(
            [
                np.sqrt(at.e / (2 * at.c))[:, None] * self.slope,
                np.sqrt(at.held / at.g)[:, None] * program.guards,
                [2 / math.sqrt(self.kappa) * self.turn, program.total],
            ]
        )
        system = parts.T @ parts + np.diag(at.s / at.w)
        self.unit = 1 / np.sqrt(np.diag(system))
        system = system * np.outer(self.unit, self.unit) + _RIDGE * np.eye(at.w.size)
        try:
            self.factor = cho_factor(system, overwrite_a=True)
        except LinAlgError:
            return False
        return True

    def step(self, off_w: FloatArray, off_e: FloatArray, off_t: float, wanted: FloatArray) -> _Point:
        """The change that removes these residuals, by which each product changes as wanted."""
        from scipy.linalg import cho_solve  # noqa: PLC0415 (as above)

        at, guards, n = self.at, self.program.guards, self.at.w.size
        near, far, over = wanted[:n] / at.w, (wanted[n:-1] - at.held * self.off_g) / at.g, wanted[-1] / (1 - at.t)
        pull = off_w + (off_e * self.half) @ self.slope + far @ guards + near
        w = self.unit * cho_solve(self.factor, self.unit * (pull - 4 * self.turn * (off_t - over) / self.kappa))
        t, g = (float(self.turn @ w) + off_t - over) / self.kappa, guards @ w
        e = (off_e - at.e**2 * (self.slope @ w)) * self.half
        s, held, cap = near - at.s / at.w * w, far - at.held / at.g * g, over + at.cap / (1 - at.t) * t
        return _Point(w, s, g + self.off_g, held, self.program.of_c @ w + self.off_c, e, t, cap)

    def next(self) -> _Point:
        """The point after a predictor and a corrector step."""
        at, now = self.at, self.at.products
        ahead = self.step(*self.off, -now)
        part = at.longest(ahead)
        reached = at.moved(ahead, part).products
        w, c, e, t = part * ahead.w, part * ahead.c, part * ahead.e, part * ahead.t
        bent = (
            self.off[0] + (e**2 / at.e**3) @ self.program.of_a + 4 * t * t * self.away,
            self.off[1] - 2 * at.e * c * e - at.c * e * e,
            self.off[2] - 2 * float(self.away @ w) * t,
        )
        goal = min((reached.sum() / now.sum()) ** 3, 1.0) * now.mean()
        # without what changes multiply to, the first step leaves 1 − part of each product
        step = self.step(*bent, goal - now - (reached - (1 - part) * now))
        part = at.longest(step)
        return at.moved(step, part if part == 1 else _PART * part)


def weights_and_multipliers(
    program: DelsarteProgram, errors: FloatArray, weights: FloatArray
) -> tuple[FloatArray, Multipliers]:
    """The best weights, from a start of sum 1, and multipliers.

    ``errors`` are the a_S of each weight, in units of sinh²(ε/2): (effects, weights). Some 40 steps, each of time O(n² (n +
    effects + kinds of sets)) for n weights and multipliers.
    """
    limits, grown = program.caps.size, 1 + program.gain
    kinds, patterns = program.effects.shape
    n = 1 + limits + patterns + weights.size
    z, y, v = slice(1, 1 + limits), slice(1 + limits, n - weights.size), slice(n - weights.size, n)
    of_c, of_a, guards = np.zeros((kinds, n)), np.zeros((kinds, n)), np.zeros((len(program.guards) + 1, n))
    of_c[:, 0], of_c[:, z], of_c[:, y], of_a[:, v] = 1, program.limits, -program.effects * grown, errors
    guards[:, 0], guards[:-1, y], guards[-1, y] = 1, -program.guards * grown, -1
    price, first, share, total = np.zeros((4, n))
    price[z], first[0], share[y], total[v] = program.caps / (program.gain**2 / (4 * grown)), 1, 1, 1

    # the y of all pairs of records leave every Y_S negative
    w, alike = np.ones(n), program.pairs_alike()
    w[z] = 0.1 / (max(limits, 1) * price[z])
    w[y] = 0.3 / max(alike.sum(), 1.0) * np.maximum(alike, _LEAST * alike.max(initial=0))
    w[y] *= min(0.9 / (1 - min(float((guards @ w).min()), 0.1)), 1)
    w /= (guards @ w).max()
    w[v] = weights
    c, g, mean = of_c @ w, guards @ w, _START / (n + len(guards))
    at = _Point(w, mean / w, g, mean / g, c, np.sqrt((of_a @ w) / c), 0.5, 2 * mean)
    for _ in range(_STEPS):
        newton = _Newton(_Program(of_c, of_a, guards, price, first, share, total), at)
        settled = at.products.sum() < _GAP and np.abs(newton.off[0]) @ at.w < _RESIDUAL
        if settled or not newton.factorized():
            break
        at = newton.next()
    return at.w[v], Multipliers(at.w[:1], at.w[None, y] * grown, at.w[z])
