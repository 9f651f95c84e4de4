"""Lower bounds that hold for each ε-LDP mechanism: the best multipliers of (*) in :mod:`optrr_solvers.allocation.delsarte`.

For all p at once, with u = Y/e^ε and in units of sinh²(ε/2), they maximise the concave

    2 Σ_S √(a_S c_S) − q(β, u) − Σ_l z_l cap_l,      q = β²/(β − u) where u ≤ β/2, else 4u,

subject to Y_S ≤ β. A logarithmic barrier keeps these; each Newton step maximises the quadratic model over non-negative
variables. With few cells the sets' spectra w_S of every p = j/N, times how often that p occurs, are a convex program of
their own, whose dual variables are the multipliers.

Where errors are required: at a total ε no mechanism has errors G_U ≤ τ_U where, for some weights v ≥ 0 of the tables
with Σ v_U τ_U = 1, the right side of (*) exceeds 1. With y/e^ε in place of y, and v τ in place of v, the best of both
maximise

    2 Σ_S √(a_S c_S) − Σ_l z_l cap_l − max_{0≤t≤1} 4 (β t − (β − u) t²) − (Σ_U v_U)²/2,     Y_S ≤ β, u ≤ β, and all are ≥ 0,

which is concave: a is linear in v, and c in the multipliers. As 2 √(a c) is the least a/e + c e, the conditions of
optimality have e, the energies, and t as additional unknowns; the predictor–corrector steps of Mehrotra (SIAM J. Optim.
2, 1992) solve them. Without these the square roots are not differentiable where a_S and c_S vanish together: for an
attribute that is more accurate than required.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocation.delsarte import MOST_EPSILON, DelsarteProgram, Multipliers, delsarte_program, roots
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of, marginals
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.partition import alike
from optrr_solvers.threads import one_thread

# Most steps, and the gap and the residuals that end them; values are near 1.
_INTERIOR_STEPS, _GAP, _RESIDUAL = 80, 1e-8, 1e-4
# The sum of products at the start, the part of the longest step that is taken, and the least y at the start to the
# largest.
_START, _PART, _LEAST = 10.0, 0.95, 1e-6
# Added to the diagonal, relative to it, against rounding.
_RIDGE = 1e-13
# Weights of the barrier, and the gain of a step, relative to the weight, that ends the search at that weight.
_BARRIER, _LITTLE = 10.0 ** -np.arange(0.0, 11.0), 1e-2
# Newton steps at each weight, patterns that enter in one step, and the shortest step.
_STEPS, _ENTER, _SHORTEST = 60, 50, 1e-8
# Totals that are tried, how far beyond the one that is proved, and the gain of total, relative, that ends them.
_ROUNDS, _AHEAD, _TOTAL_FOUND = 20, 8.0, 1e-7
# Most patterns, and most blocks of tables, for a total; fewer where there are more than 2,500 effects. Turns at the
# weights.
_COLUMNS, _ENTRIES, _TURNS = 400, 1_000_000, 1000
# Relative rounding.
_ROUNDING = 1e-9
# With so many cells at most, each p = j/N has multipliers of its own; the tolerance of that program.
FEW_CELLS, _TOLERANCE = 64, 1e-11


@dataclass(frozen=True, eq=False)
class _Program:
    """Arrays of the program, with one column for each component of w.

    Columns are β, z, y and v; rows are those of c, a and the guards g. ``price``, ``first``, ``share`` and ``total``
    are the coefficients of the prices, of β, of u and of Σ v.
    """

    of_c: FloatArray
    of_a: FloatArray
    guards: FloatArray
    price: FloatArray
    first: FloatArray
    share: FloatArray
    total: FloatArray


@dataclass(frozen=True, eq=False)
class _Point:
    """Primal and dual variables: w, g and 1 − t with their duals, c and e.

    c and g are small differences of large sums, so they are unknowns, too.
    """

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
        """Return the largest part of a step, at most 1, that keeps everything positive."""
        now = np.concatenate([*self.sides, self.c, self.e, [self.t]])
        change = np.concatenate([step.w, step.held, [step.cap], step.s, step.g, [-step.t], step.c, step.e, [step.t]])
        falls = change < 0
        return min(1.0, float((now[falls] / -change[falls]).min(initial=math.inf)))

    def moved(self, step: "_Point", part: float) -> "_Point":
        """Return the point after this part of a step."""
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
        """Build the system of all steps; return False if rounding makes it singular."""
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
        """Solve for the step that removes residuals and changes products as wanted."""
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
        """Return the point after a predictor and a corrector step."""
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
    """Compute the best weights and multipliers from starting weights of sum 1.

    ``errors`` are the a_S of each weight, in units of sinh²(ε/2): (effects, weights). Some 40 steps, each of time O(n²
    (n + effects + kinds of sets)) for n weights and multipliers.
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
    for _ in range(_INTERIOR_STEPS):
        newton = _Newton(_Program(of_c, of_a, guards, price, first, share, total), at)
        settled = at.products.sum() < _GAP and np.abs(newton.off[0]) @ at.w < _RESIDUAL
        if settled or not newton.factorized():
            break
        at = newton.next()
    return at.w[v], Multipliers(at.w[:1], at.w[None, y] * grown, at.w[z])


def error_bound(workload: TableWorkload, total: float) -> float:
    """Bound the workload error of every mechanism of this total ε from below.

    The error is Σ weight n E‖π̂_U − π_U‖², the total is in nats, and the bound is rounded down.
    """
    program = delsarte_program(workload, total)
    # without any randomization sampling leaves the sum of the coefficients
    return max(program.proved(best_multipliers(program)), float(workload.coefficients.sum()) * (1 - 1e-10))


@one_thread
def accuracy_bound(
    workload: TableWorkload, targets: FloatArray, progress: Callable[[float], None] | None = None
) -> float:
    """Bound the total ε of every mechanism that meets required errors from below.

    Below the returned total, in nats and rounded down, no mechanism has n E‖π̂_U − π_U‖² ≤ τ_U for each table.

    At weights v of the tables with Σ_U v_U τ_U = 1 these errors are impossible while the bound exceeds 1. The best v
    and multipliers of a total prove all totals up to where they give 1; a secant search for the total whose own reach 1
    takes some ten of them.

    ``targets`` are the τ_U, shape (tables,), ``inf`` where nothing is required; ``progress`` is called with the total
    so far.
    """
    wanted = np.flatnonzero(np.isfinite(targets))
    if not wanted.size:
        return 0.0
    tables, targets = tuple(workload.tables[u] for u in wanted), targets[wanted]
    workload = TableWorkload(workload.sizes, workload.classes, tables, 1 / targets)
    parts = sp.csr_array(sp.diags_array(1 / targets) @ workload.shares)
    across, reach = sp.csr_array(parts.T), roots(workload) / np.sqrt(workload.coefficients)
    # the best weights without multipliers, of which Σ_S √a_S is concave; each turn raises it
    weights = np.ones(wanted.size)
    for _ in range(_TURNS):
        weights *= (parts @ (reach / np.sqrt(across @ weights))) ** 2
        weights = np.maximum(weights / weights.sum(), 1e-12)
    weights /= weights.sum()
    # tables of nearly the same weight share its changes where there are very many
    columns = min(_COLUMNS, _ENTRIES // reach.size)
    block = np.empty(wanted.size, dtype=np.int64)
    block[np.argsort(weights)] = np.arange(wanted.size) * min(wanted.size, columns) // wanted.size
    sums = np.asarray(np.bincount(block, weights), dtype=np.float64)
    spread = sp.csr_array((weights / sums[block], (np.arange(wanted.size), block)))
    errors = sp.csr_array(sp.diags_array(reach**2) @ across @ spread).toarray()
    total = at = 2 * math.asinh(float(np.sqrt(errors @ sums).sum()))
    seen: list[tuple[float, float]] = []
    for _ in range(_ROUNDS):
        program = delsarte_program(workload.reweighted(weights / targets), at, columns)
        found, given = weights_and_multipliers(program, errors / math.sinh(at / 2) ** 2, sums)
        weighted = workload.reweighted(spread @ (found / found.sum()) / targets)
        excess = partial(_excess, program, weighted, given)
        raised = _last_total(excess, total)
        if at == total and raised < total * (1 + _TOTAL_FOUND):
            break
        seen, total = [*seen[-1:], (at, excess(at))], raised
        if progress is not None:
            progress(total)
        at = total
        if len(seen) > 1 and seen[0][1] != seen[1][1]:
            (low, at_low), (high, at_high) = seen
            at = min(max(high - at_high * (high - low) / (at_high - at_low), total), total + _AHEAD)
    return total * (1 - _ROUNDING)


@one_thread
def total_bound(sizes: IntArray, epsilons: FloatArray) -> float:
    """Bound the total ε needed for the accuracy of randomized response at ε_i.

    Below the returned total, in nats, no mechanism estimates each attribute with the variance of randomized response at
    ε_i.

    r_i and ε_i in nats, shape (m,) each. Flip probabilities play no part.
    """
    workload = marginals(sizes, alike([sizes, epsilons]))
    of_class = [int(table[0]) for table in workload.tables]
    with np.errstate(divide="ignore"):
        return accuracy_bound(workload, (1 - 1 / sizes[of_class]) / eigenvalues_of(sizes, epsilons)[of_class] ** 2)


def _excess(program: DelsarteProgram, workload: TableWorkload, given: Multipliers, total: float) -> float:
    return math.log(max(replace(program.at(total), workload=workload).proved(given), 1e-300))


def _last_total(excess: Callable[[float], float], low: float) -> float:
    """Find a total near the largest one from ``low`` up where the excess is positive.

    Returns ``low`` if the excess is not positive beyond it.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 (as below)

    step = 1e-6 * low
    if not excess(low) > 0 or not excess(low + step) > 0:
        return low
    while (high := low + step) < MOST_EPSILON and excess(high) > 0:
        low, step = high, 8 * step
    root = float(brentq(excess, low, high, xtol=1e-9 * high, rtol=1e-12)) - 2e-9 * high
    return root if excess(root) > 0 else low


def best_multipliers(program: DelsarteProgram) -> Multipliers:
    """Return the multipliers found that prove the largest bound."""
    found = for_all_shares(program)
    each = for_each_share(program) if program.cells <= FEW_CELLS else None
    return found if each is None else max(found, each, key=program.proved)


def for_all_shares(program: DelsarteProgram) -> Multipliers:
    """Compute one set of multipliers for all p, by Newton steps with a barrier.

    Each of some 60 steps takes time O(entries of λ) and a linear program's step of the free y.
    """
    limits, kinds, sets, gain = program.caps.size, program.root.size, len(program.guards), program.gain
    root = program.root / program.root.sum()
    # what is left on effects, c, and under guards; columns β, z, y
    rows = np.block(
        [
            [np.ones((kinds, 1)), program.limits, -program.effects],
            [np.ones((sets, 1)), np.zeros((sets, limits)), -program.guards],
        ]
    )
    price, share = np.zeros((2, rows.shape[1]))
    price[1 : 1 + limits] = program.caps / (gain / 4 * (gain / (1 + gain)))
    share[1 + limits :] = 1 / (1 + gain)

    def split(x: FloatArray) -> Multipliers:
        return Multipliers(x[:1], x[None, 1 + limits :], x[1 : 1 + limits])

    def value(x: FloatArray, left: FloatArray, weight: float) -> float:
        if left.min() <= 0:
            return -math.inf
        beta, u = x[0], float(share @ x)
        q = beta**2 / (beta - u) if u <= beta / 2 else 4 * u
        return float(2 * root @ np.sqrt(left[:kinds]) - q - price @ x + weight * np.log(left[kinds:]).mean())

    x = np.eye(1, rows.shape[1])[0]
    left, best = rows @ x, split(x)
    for weight in _BARRIER:
        now = value(x, left, weight)
        for _ in range(_STEPS):
            beta, u = x[0], float(share @ x)
            if u <= beta / 2:
                slopes = 1 - (u / (beta - u)) ** 2, (beta / (beta - u)) ** 2
                bends = 2 / (beta - u) ** 3 * np.array([[u * u, -beta * u], [-beta * u, beta * beta]])
            else:
                slopes, bends = (0.0, 4.0), np.zeros((2, 2))
            barrier = weight / sets / left[kinds:]
            up = np.concatenate([root / np.sqrt(left[:kinds]), barrier]) @ rows - price - slopes[1] * share
            up[0] -= slopes[0]
            enter = np.flatnonzero((x <= 0) & (up > 1e-10))
            free = np.concatenate([np.flatnonzero(x > 0), enter[np.argsort(-up[enter])][:_ENTER]])
            part, of_q = rows[:, free], np.stack([free == 0, share[free]]).astype(np.float64)
            curvature = np.concatenate([root / left[:kinds] ** 1.5 / 2, barrier / left[kinds:]])
            hessian = part.T @ (curvature[:, None] * part) + of_q.T @ bends @ of_q
            if not np.isfinite(hessian).all():
                break
            step = _constrained_step(hessian, up[free], x[free])
            length, gained, tried = 1.0, -math.inf, x
            while length > _SHORTEST and not gained > 1e-4 * length * float(up[free] @ step):
                tried = x.copy()
                tried[free] = np.maximum(x[free] + length * step, 0)
                gained = value(tried, rows @ tried, weight) - now
                length /= 2
            if not gained > 0:
                break
            x, left, now = tried, rows @ tried, now + gained
            if gained < _LITTLE * weight:
                break
        best = max(best, split(x), key=program.proved)
    return best


def _constrained_step(hessian: FloatArray, slope: FloatArray, x: FloatArray) -> FloatArray:
    """Maximize slope·s − s·hessian·s/2 over the steps s with x + s ≥ 0."""
    from scipy.optimize import nnls  # noqa: PLC0415 (slow to import, and most of what imports this prints no bound)

    unit = 1 / np.sqrt(np.diag(hessian))
    values, vectors = np.linalg.eigh(hessian * np.outer(unit, unit))
    factor = np.sqrt(np.maximum(values, 1e-13 * values[-1]))[:, None] * vectors.T
    goal = factor @ (x / unit) + factor @ (slope * unit) / np.sum(factor**2, axis=1)
    return np.asarray(nnls(factor, goal, maxiter=20 * x.size)[0] * unit - x)


def for_each_share(program: DelsarteProgram) -> Multipliers | None:
    """Compute a set of multipliers for each p = j/N; None if the solver fails."""
    cp: Any = importlib.import_module("cvxpy")
    workload, p, shape = program.workload, program.shares, [g.size + 1 for g in program.groups]
    members = [set(g.tolist()) for g in program.groups]
    of_effects = [[sum(i in group for i in s) for group in members] for s in workload.effects]
    at = np.ravel_multi_index(tuple(np.transpose(of_effects)), shape) - 1
    counts = np.transpose(np.unravel_index(np.arange(1, math.prod(shape)), shape))
    alike = np.asarray([math.prod(math.comb(n - 1, k) for n, k in zip(shape, c, strict=True)) for c in counts], float)
    scale = (program.gain / (1 + program.gain * p)) ** 2
    # spectra summed over alike effects, times how often p occurs
    spectra, often = cp.Variable((p.size, alike.size), nonneg=True), cp.Variable(p.size, nonneg=True)
    energies = cp.multiply(scale @ spectra, 1 / alike)[at]
    whole = cp.sum(spectra, axis=1) == cp.multiply(p - p * p, often)
    means = spectra @ program.guards[1:] + cp.outer(cp.multiply(p * p, often), np.ones(program.guards.shape[1]))
    rules = [whole, means >= 0, program.limits.T @ cp.multiply(workload.alike, energies) <= program.caps]
    needs = program.root**2 / workload.alike
    goal = cp.Minimize((needs / needs.sum()) @ cp.inv_pos(energies))
    from optrr_solvers.allocation.program import by_clarabel  # noqa: PLC0415 (brings every solver, which estimates need not load)

    if by_clarabel(cp.Problem(goal, [*rules, cp.sum(often) == 1]), _TOLERANCE) is not None:
        return None
    beta, y, z = (np.abs(np.asarray(rule.dual_value)) for rule in rules)
    return Multipliers(beta / scale, y / scale[:, None], z)
