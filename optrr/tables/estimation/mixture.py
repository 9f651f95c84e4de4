"""Likeliest mixture weights for many small tables at once, to the last digits.

    maximise ℓ(x) = Σ_v λ̂_v ln λ_v,   λ = xᵀ M,   x ≥ 0, Σx = 1,   rows of M distributions.

With M = P these are the proportions of `likelihood`; with M the rows of P averaged over one margin, the other margin of an
independent table. Newton's method on Σλ − Σ λ̂ ln λ over x ≥ 0, whose minimum sums to 1 by itself (Kim et al. 2020, mixSQP):
the quadratic model has weights λ̂/λ² and targets 2λ − λ²/λ̂, and its minimum is found by block principal pivoting
(Kim & Park 2011, their full exchange). Three to five Newton steps of a few pivots each; a step costs O(K³ + K²R) a table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from optrr_solvers.arrays import FloatArray, IntArray

# Newton doubles the right digits in every step near the answer; more than ten steps have not been seen.
_STEPS = 50
# Log-likelihoods closer than this, relatively, are equal: they are sums of some hundred rounded terms.
_ROUNDING = 2.0**-46
# The shortest step of a line search: a shorter one gains nothing that a double can show.
_SHORTEST_STEP = 2.0**-30
# Components that look alike leave directions without curvature. A pull towards the last weights, this small against the
# largest curvature, makes every model have one minimum; it does not move the answer, where the pull is 0.
_PULL = 1e-11
# Rounds of pivoting; small tables need two to five.
_ROUNDS = 25
# A gradient this small against the largest entry is 0.
_ZERO = 1e-12


def likeliest_weights(
    observed: FloatArray, components: FloatArray, start: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Weights (B, K) of every table, no more than ``tolerance`` nats per record below the best; where not, it shows.

    Parameters
    ----------
    observed
        proportions, (B, R).
    components
        (B, K, R), or (1, K, R) for all tables; rows sum to 1.
    start
        (B, K), proper, and such that no observed output is impossible.
    tolerance
        bound on the distance from the maximum, in nats per record.

    Returns
    -------
    weights, their bounds max g − 1 on the distance from the maximum, and the Newton steps taken, both (B,).
    """
    m = np.broadcast_to(components, (observed.shape[0], *components.shape[1:]))
    x, passive = start.copy(), start > 0
    bound = np.full(observed.shape[0], np.inf)
    steps = np.zeros(observed.shape[0], dtype=np.int64)
    open_ = np.arange(observed.shape[0])
    for _ in range(_STEPS):
        bound[open_] = _bound(observed[open_], m[open_], x[open_])
        open_ = open_[bound[open_] > tolerance]
        if not open_.size:
            break
        goal, passive[open_] = _newton_goal(observed[open_], m[open_], x[open_], passive[open_])
        after = _searched(observed[open_], m[open_], x[open_], goal)
        moved = np.any(after != x[open_], axis=1)
        x[open_] = after
        open_ = open_[moved]
        steps[open_] += 1
    return x, bound, steps


def _mixed(x: FloatArray, m: FloatArray) -> FloatArray:
    return np.asarray((x[:, None, :] @ m)[:, 0, :])


def _bound(observed: FloatArray, m: FloatArray, x: FloatArray) -> FloatArray:
    """Max g − 1 with g = M(λ̂/λ), the gradient: ℓ is concave, so nothing is better by more."""
    lam = _mixed(x, m)
    ratio = np.divide(observed, lam, out=np.zeros_like(lam), where=observed > 0)
    return np.asarray((m @ ratio[:, :, None])[:, :, 0].max(axis=1) - 1)


def _newton_goal(
    observed: FloatArray, m: FloatArray, x: FloatArray, passive: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Minimum of the quadratic model over x ≥ 0.

    An output that nobody reported has no curvature; weight 1 there, the largest λ squared, keeps the model above the function.
    """
    lam = _mixed(x, m)
    seen = observed > 0
    ratio = np.divide(observed, lam, out=np.zeros_like(lam), where=seen)
    weights = np.where(seen, np.divide(ratio, lam, out=np.ones_like(lam), where=seen), 1.0)
    hessian = (m * weights[:, None, :]) @ np.swapaxes(m, 1, 2)
    pull = _PULL * np.einsum("zkk->zk", hessian).max(axis=1)
    hessian = hessian + pull[:, None, None] * np.eye(x.shape[1])
    linear = (m @ (weights * lam + ratio - 1)[:, :, None])[:, :, 0] + pull[:, None] * x
    return nonnegative_minimum(hessian, linear, passive)


def nonnegative_minimum(
    hessian: FloatArray, linear: FloatArray, passive: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Minimum of ½ xᵀHx − qᵀx over x ≥ 0 for a batch of positive definite H (B, K, K), q (B, K), and its cells above 0.

    ``passive`` (B, K) is a guess of these cells. The cells outside are held at 0; all cells inside that come out negative, and
    all outside that would gain, change sides. That can cycle, so what is open after some rounds goes to a library's slower
    method, which cannot.
    """
    x, passive = np.zeros_like(linear), passive.copy()
    open_ = np.arange(linear.shape[0])
    for _ in range(_ROUNDS):
        inside, h, q = passive[open_], hessian[open_], linear[open_]
        held = np.where(inside[:, :, None] & inside[:, None, :], h, np.eye(linear.shape[1]))
        solved = np.linalg.solve(held, np.where(inside, q, 0.0)[:, :, None])
        slope = (h @ solved)[:, :, 0] - q
        x[open_] = np.maximum(solved[:, :, 0], 0.0)
        wrong = np.where(inside, solved[:, :, 0] < 0, slope < -_ZERO * np.abs(q).max(axis=1, keepdims=True))
        passive[open_] = inside ^ wrong
        open_ = open_[wrong.any(axis=1)]
        if not open_.size:
            return x, passive
    for b in open_:
        x[b] = _one_by_one(hessian[b], linear[b], x[b])
        passive[b] = x[b] > 0
    return x, passive


def _one_by_one(hessian: FloatArray, linear: FloatArray, reached: FloatArray) -> FloatArray:
    """The same minimum by Lawson and Hanson: ½ ‖Lᵀx − L⁻¹q‖² with H = LLᵀ; what was reached where that fails too."""
    try:
        factor = np.linalg.cholesky(hessian)
        return np.asarray(nnls(factor.T, solve_triangular(factor, linear, lower=True))[0])
    except (np.linalg.LinAlgError, RuntimeError):
        # a bad step does no harm: the line search refuses it, and the bound shows how good the answer is
        return reached


def _searched(observed: FloatArray, m: FloatArray, x: FloatArray, goal: FloatArray) -> FloatArray:
    """The longest halved step towards the goal that does not lose likelihood; x itself where there is none."""
    start = _mean_log(observed, _mixed(x, m))
    out, open_, step = x.copy(), np.arange(x.shape[0]), 1.0
    while open_.size and step > _SHORTEST_STEP:
        there = x[open_] + step * (goal[open_] - x[open_])
        total = there.sum(axis=1, keepdims=True)
        there = np.divide(there, total, out=x[open_], where=total > 0)
        gained = _mean_log(observed[open_], _mixed(there, m[open_])) >= start[open_] - _ROUNDING * np.abs(start[open_])
        out[open_[gained]] = there[gained]
        open_ = open_[~gained]
        step /= 2
    return out


def _mean_log(observed: FloatArray, expected: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs = np.log(expected, out=np.zeros_like(expected), where=observed > 0)
    return np.asarray(np.sum(observed * logs, axis=1))
