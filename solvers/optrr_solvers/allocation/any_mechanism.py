"""Lower bounds that hold for every ε-LDP mechanism: the best multipliers of (*) in :mod:`optrr_solvers.allocation.delsarte`.

For all p at once, with u = Y/e^ε and in units of sinh²(ε/2), they maximise the concave

    2 Σ_S √(a_S c_S) − q(β, u) − Σ_l z_l cap_l,      q = β²/(β − u) where u ≤ β/2, else 4u,

subject to Y_S ≤ β. A logarithmic barrier keeps these; each Newton step maximises the quadratic model over non-negative
variables. With few cells the sets' spectra w_S of every p = j/N, times how often that p occurs, are a convex program of their
own, whose dual variables are the multipliers.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocation.delsarte import DelsarteProgram, Multipliers, delsarte_program, roots
from optrr_solvers.allocation.energy import MOST_EPSILON
from optrr_solvers.allocation.interior import weights_and_multipliers
from optrr_solvers.allocation.program import by_clarabel
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of, marginals
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.partition import alike

# Weights of the barrier, and the gain of a step, relative to the weight, that ends the search at that weight.
_BARRIER, _LITTLE = 10.0 ** -np.arange(0.0, 11.0), 1e-2
# Newton steps at each weight, patterns that enter in one step, and the shortest step.
_STEPS, _ENTER, _SHORTEST = 60, 50, 1e-8
# Totals that are tried, how far beyond the one that is proved, and the gain of total, relative, that ends them.
_ROUNDS, _AHEAD, _TOTAL_FOUND = 20, 8.0, 1e-7
# Most patterns, and most blocks of tables, for a total; fewer where there are more than 2,500 effects. Turns at the weights.
_COLUMNS, _ENTRIES, _TURNS = 400, 1_000_000, 1000
# Relative rounding.
_ROUNDING = 1e-9
# With so many cells at most, each p = j/N has multipliers of its own; the tolerance of that program.
FEW_CELLS, _TOLERANCE = 64, 1e-11


def error_bound(workload: TableWorkload, total: float) -> float:
    """Least Σ weight n E‖π̂_U − π_U‖² that any mechanism of this total ε, in nats, could have, rounded down."""
    program = delsarte_program(workload, total)
    # without any randomization sampling leaves the sum of the coefficients
    return max(program.proved(best_multipliers(program)), float(workload.coefficients.sum()) * (1 - 1e-10))


def accuracy_bound(
    workload: TableWorkload, targets: FloatArray, progress: Callable[[float], None] | None = None
) -> float:
    """Total ε in nats below which no mechanism has n E‖π̂_U − π_U‖² ≤ τ_U for every table, rounded down.

    At weights v of the tables with Σ_U v_U τ_U = 1 these errors are impossible while the bound exceeds 1. The best v and
    multipliers of a total (:mod:`optrr_solvers.allocation.interior`) prove all totals up to where they give 1; a secant search
    for the total whose own reach 1 takes some ten of them.

    ``targets`` are the τ_U, shape (tables,), ``inf`` where nothing is required; ``progress`` is called with the total so far.
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


def total_bound(sizes: IntArray, epsilons: FloatArray) -> float:
    """Total ε in nats below which no mechanism estimates each attribute with the variance of randomized response at ε_i.

    r_i and ε_i in nats, shape (m,) each. Flip probabilities play no part.
    """
    workload = marginals(sizes, alike([sizes, epsilons]))
    of_class = [int(table[0]) for table in workload.tables]
    with np.errstate(divide="ignore"):
        return accuracy_bound(workload, (1 - 1 / sizes[of_class]) / eigenvalues_of(sizes, epsilons)[of_class] ** 2)


def _excess(program: DelsarteProgram, workload: TableWorkload, given: Multipliers, total: float) -> float:
    return math.log(max(replace(program.at(total), workload=workload).proved(given), 1e-300))


def _last_total(excess: Callable[[float], float], low: float) -> float:
    """A total near the largest one, of those beyond ``low``, where the excess is positive; ``low`` where it is not there."""
    from scipy.optimize import brentq  # noqa: PLC0415 (as below)

    step = 1e-6 * low
    if not excess(low) > 0 or not excess(low + step) > 0:
        return low
    while (high := low + step) < MOST_EPSILON and excess(high) > 0:
        low, step = high, 8 * step
    root = float(brentq(excess, low, high, xtol=1e-9 * high, rtol=1e-12)) - 2e-9 * high
    return root if excess(root) > 0 else low


def best_multipliers(program: DelsarteProgram) -> Multipliers:
    """The multipliers found that prove most."""
    found = for_all_shares(program)
    each = for_each_share(program) if program.cells <= FEW_CELLS else None
    return found if each is None else max(found, each, key=program.proved)


def for_all_shares(program: DelsarteProgram) -> Multipliers:
    """One set of multipliers. Each of some 60 steps takes time O(entries of λ) and a linear program's step of the free y."""
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
    """The s that maximises slope·s − s·hessian·s/2 over x + s ≥ 0."""
    from scipy.optimize import nnls  # noqa: PLC0415 (slow to import, and most of what imports this prints no bound)

    unit = 1 / np.sqrt(np.diag(hessian))
    values, vectors = np.linalg.eigh(hessian * np.outer(unit, unit))
    factor = np.sqrt(np.maximum(values, 1e-13 * values[-1]))[:, None] * vectors.T
    goal = factor @ (x / unit) + factor @ (slope * unit) / np.sum(factor**2, axis=1)
    return np.asarray(nnls(factor, goal, maxiter=20 * x.size)[0] * unit - x)


def for_each_share(program: DelsarteProgram) -> Multipliers | None:
    """A set of multipliers for every p = j/N, or None where the solver gives up."""
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
    if by_clarabel(cp.Problem(goal, [*rules, cp.sum(often) == 1]), _TOLERANCE) is not None:
        return None
    beta, y, z = (np.abs(np.asarray(rule.dual_value)) for rule in rules)
    return Multipliers(beta / scale, y / scale[:, None], z)
