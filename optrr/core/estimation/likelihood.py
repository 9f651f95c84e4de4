"""Maximum likelihood: the distribution π ≥ 0, Σπ = 1 that makes the observed counts most probable.

    maximise ℓ(π) = Σ_v λ̂_v ln λ_v,   λ = Pᵀ π.

One attribute: a closed form by water filling (Pinzón & Palamidessi, "Estimating the true distribution of data collected
with randomized response"). Joints: the iterative Bayesian update of Agrawal & Aggarwal (MDR's reference [2]), that is, EM:
π ← π ∘ g with g = P(λ̂/λ), through the kernel, so O(k Π r) a step.

ℓ is concave, and its gradient is g, so ℓ(π*) − ℓ(π) ≤ max g − 1 for any π. The iteration stops when this bound
is small enough.

EM creeps where the optimum is 0 or a cell should grow from almost nothing, and both are common: the likeliest distribution of a
large table has few cells above 0. Tables of up to MAX_NEWTON cells are therefore finished by Newton's method, larger ones by
L-BFGS-B on the cells that can be above 0: Σλ − Σ λ̂ ln λ over x ≥ 0 has its minimum at Σx = 1 by itself, so bounds are the only
constraints and a library's quasi-Newton method applies, started from EM, on the cells that EM has not nearly emptied and
those where the gradient says that mass is missing. What that leaves out shows in the bound max g − 1 over all cells, and
enters the next round.

Newton's method finds the likeliest mixture weights of many small tables at once,

    maximise ℓ(x) = Σ_v λ̂_v ln λ_v,   λ = xᵀ M,   x ≥ 0, Σx = 1,   rows of M distributions.

With M = P these are the proportions of `likelihood`; with M the rows of P averaged over one margin, the other margin of an
independent table. It is applied to Σλ − Σ λ̂ ln λ over x ≥ 0, whose minimum sums to 1 by itself (Kim et al. 2020, mixSQP):
the quadratic model has weights λ̂/λ² and targets 2λ − λ²/λ̂, and its minimum is found by block principal pivoting
(Kim & Park 2011, their full exchange). Three to five Newton steps of a few pivots each; a step costs O(K³ + K²R) a table.
"""

from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.estimation.simplex import Convergence, FittedTable
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Proportion of an even cell below which a cell is left out, unless its gradient requires it.
_NEARLY_EMPTY = 1e-3
# Cells are scaled by the root of their proportion, as their curvature is, and at least by this part of an even cell's,
# so that an empty cell can come back.
_SMALLEST_SCALE = 0.1
# Steps after which all cells are checked; and number of stored pairs of gradients, because twice as many gain nothing.
_ROUND = 60
_MEMORY = 10


def on_support(  # noqa: PLR0913 (the state of the iteration and its two limits)
    pi: FloatArray, gradient: FloatArray, observed: FloatArray, kernel: Kernel, tolerance: float, max_iterations: int
) -> tuple[FloatArray, int]:
    """Find a likelier distribution than ``pi`` on its support.

    The gradient g = P(λ̂/λ) is given. Also returns the number of gradients computed.

    Stops at max g − 1 ≤ tolerance, after the given number of updates and the line search then under way (20 at most), or where
    rounding lets nothing more be gained.
    """
    used, best = 0, np.inf
    while used < max_iterations and best > tolerance:
        chosen = ((pi * kernel.cells > _NEARLY_EMPTY) | (gradient > 1)).ravel()
        raised, count = _round(pi, chosen, observed, kernel, min(_ROUND, max_iterations - used))
        used += count
        expected = _expected(raised, kernel)
        after: FloatArray = kernel.adjoint(observed / expected)
        gap = float(after.max()) - 1
        if not gap < best and not np.sum(observed * np.log(expected / _expected(pi, kernel))) > 0:
            break
        pi, gradient, best = raised, after, min(gap, best)
    return pi, used


def _placed(values: FloatArray, chosen: NDArray[np.bool_], shape: tuple[int, ...]) -> FloatArray:
    x = np.zeros(chosen.size)
    x[chosen] = values
    return x.reshape(shape)


def _expected(x: FloatArray, kernel: Kernel) -> FloatArray:
    """Compute positive λ of weights that need not sum to 1.

    The transform's rounding is absolute.
    """
    return np.maximum(kernel.forward(x), max(kernel.range[0] * float(x.sum()), np.finfo(float).tiny))


def _round(
    pi: FloatArray, chosen: NDArray[np.bool_], observed: FloatArray, kernel: Kernel, steps: int
) -> tuple[FloatArray, int]:
    shares = pi.ravel()[chosen] * kernel.cells
    scale = np.sqrt(shares + _SMALLEST_SCALE) / kernel.cells
    at = shares / kernel.cells / scale
    start = _expected(_placed(at * scale, chosen, pi.shape), kernel)
    count = 0

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        """Compute the loss times the cells, as a difference from the start.

        Near the optimum this keeps the significant digits.
        """
        nonlocal count
        count += 1
        moved = (z - at) * scale
        change = kernel.forward(_placed(moved, chosen, pi.shape)) / start
        # the start is positive everywhere, and rounding must not move it below 0
        ratio = np.maximum(change, np.finfo(float).eps - 1)
        value = float(moved.sum()) - float(np.sum(observed * np.log1p(ratio)))
        slope = 1 - kernel.adjoint(observed / (start * (1 + ratio))).ravel()[chosen]
        return kernel.cells * value, kernel.cells * slope * scale

    options = {"maxiter": steps, "maxfun": steps, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
    from scipy.optimize import Bounds, minimize  # noqa: PLC0415 (slow to import, and few estimates need it)

    optimum = minimize(loss, at, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, np.inf), options=options)
    x = _placed(optimum.x * scale, chosen, pi.shape)
    return np.asarray(x / x.sum()), count


# Newton doubles the right digits in every step near the answer; more than ten steps have not been seen.
_STEPS = 50
# Log-likelihoods closer than this, relatively, are equal: they are sums of some hundred rounded terms.
_ROUNDING = 2.0**-46
# Shortest step of a line search: a shorter one has no gain in double precision.
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
    """Maximize the likelihood in weights (B, K) of components.

    Within ``tolerance`` nats per record of the optimum; the result states where not.

    From proportions ``observed`` (B, R), ``components`` (B, K, R), or (1, K, R) for all tables, whose rows sum to 1, and a
    ``start`` (B, K), proper, and such that no observed output is impossible. Returns the weights, their bounds max g − 1 on the
    distance from the maximum, and the Newton steps taken, both (B,).
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
    """Bound the gain in ℓ by max g − 1 with the gradient g = M(λ̂/λ).

    It holds because ℓ is concave.
    """
    lam = _mixed(x, m)
    ratio = np.divide(observed, lam, out=np.zeros_like(lam), where=observed > 0)
    return np.asarray((m @ ratio[:, :, None])[:, :, 0].max(axis=1) - 1)


def _newton_goal(
    observed: FloatArray, m: FloatArray, x: FloatArray, passive: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Minimize the quadratic model over x ≥ 0.

    An output without reports has no curvature; weight 1 there, the largest λ squared, keeps the model above the
    function.
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
    """Minimize ½ xᵀHx − qᵀx over x ≥ 0 for a batch.

    Positive definite H (B, K, K), q (B, K); also returns the cells above 0.

    ``passive`` (B, K) is a guess of these cells. The cells outside are held at 0; all cells inside that come out
    negative, and all outside that would gain, change sides. That can cycle, so problems that are open after some rounds
    go to a library's slower method, which cannot.
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
    from scipy.linalg import solve_triangular  # noqa: PLC0415 (as above)
    from scipy.optimize import nnls  # noqa: PLC0415 (as above)

    for b in open_:
        # the same minimum by Lawson and Hanson: ½ ‖Lᵀx − L⁻¹q‖² with H = LLᵀ; where that fails too, what was reached stays,
        # as a bad step does no harm: the line search refuses it, and the bound shows how good the answer is
        with suppress(np.linalg.LinAlgError, RuntimeError):
            factor = np.linalg.cholesky(hessian[b])
            x[b] = nnls(factor.T, solve_triangular(factor, linear[b], lower=True))[0]
        passive[b] = x[b] > 0
    return x, passive


# Part of the largest variance below which variances are rounding. The sum of the table is known: its variance counts as
# this part of the least other one, so that its error is smaller than that, and scaling removes it.
_NO_NOISE, _KNOWN = 1e-12, 1e-4


def likeliest_table(estimate: FloatArray, covariance: FloatArray) -> FloatArray:
    """Project an unbiased estimate (R,) to the nearest proper table.

    The distance is (x − x̂)ᵀ C⁻¹ (x − x̂), as for a normal estimate.

    That is the likeliest table of counts but for terms of third order, from the covariance C (R, R) alone, in which the sum of
    the cells has no variance: it serves estimates that are no counts of reports, too. O(R³).
    """
    even = np.full(estimate.size, estimate.size**-0.5)
    # the sum is taken out and put in again, as the direction of most variance, which no other can be taken for
    above = 2 * float(np.trace(covariance))
    variances, directions = np.linalg.eigh(covariance + above * np.outer(even, even))
    variances = np.maximum(variances, _NO_NOISE * variances[-2])
    variances[-1] = _KNOWN * variances[0]
    precision = (directions / variances) @ directions.T
    everywhere = np.ones((1, estimate.size), dtype=np.bool_)
    table = nonnegative_minimum(precision[None], (precision @ estimate)[None], everywhere)[0][0]
    return np.asarray(table / table.sum())


def _searched(observed: FloatArray, m: FloatArray, x: FloatArray, goal: FloatArray) -> FloatArray:
    """Halve the step towards the goal until the likelihood does not fall."""
    start = _mean_logs(observed, _mixed(x, m))
    out, open_, step = x.copy(), np.arange(x.shape[0]), 1.0
    while open_.size and step > _SHORTEST_STEP:
        there = x[open_] + step * (goal[open_] - x[open_])
        total = there.sum(axis=1, keepdims=True)
        there = np.divide(there, total, out=x[open_], where=total > 0)
        gained = _mean_logs(observed[open_], _mixed(there, m[open_])) >= start[open_] - _ROUNDING * np.abs(start[open_])
        out[open_[gained]] = there[gained]
        open_ = open_[~gained]
        step /= 2
    return out


def _mean_logs(observed: FloatArray, expected: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs = np.log(expected, out=np.zeros_like(expected), where=observed > 0)
    return np.asarray(np.sum(observed * logs, axis=1))


# Each Newton step solves a few linear systems with one unknown per cell: some seconds at this size.
MAX_NEWTON = 1024
# Bound on the distance from the maximum, in nats per record: at 10^4 records 1e-8 in all, at 10^10 a hundredth of a nat.
TOLERANCE = 1e-12
MAX_ITERATIONS = 5000
# Updates before faster methods take over; by then the cells that belong at 0 are near it.
_EM_STEPS = 90


def log_likelihood(proportions: ArrayLike, observed: ArrayLike, kernel: Kernel) -> float:
    """Compute ℓ(π) in nats per record; −∞ if an observed cell is impossible."""
    lam, expected = np.asarray(observed, dtype=np.float64), kernel.expected(proportions)
    seen = lam > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(lam[seen] * np.log(expected[seen])))


def closed_form(observed: ArrayLike, q: float) -> FloatArray:
    """Maximize the likelihood of one attribute with λ_1 > 0 in closed form.

    λ_v = max(q, λ̂_v/c), with q the probability of a particular wrong answer.

    The constant c makes λ sum to 1; sorting finds which cells stay above q. O(r log r), exact.
    """
    lam = np.asarray(observed, dtype=np.float64)
    descending = -np.sort(-lam)
    above = np.arange(1, lam.size + 1)
    c = np.cumsum(descending) / (1 - (lam.size - above) * q)
    kept = int(np.flatnonzero(descending > q * c)[-1])
    fitted = np.maximum(lam / c[kept] - q, 0.0)
    return np.asarray(fitted / fitted.sum())


def ibu(
    observed: ArrayLike, kernel: Kernel, tolerance: float = TOLERANCE, max_iterations: int = MAX_ITERATIONS, n: int = 1
) -> FittedTable:
    """Maximize the likelihood by the iterative Bayesian update, then by faster methods.

    It starts at the uniform distribution.

    Of proportions λ̂ of ``n`` records, shape of the kernel's sizes. Stops when no distribution can be better by more than
    ``tolerance`` nats per record, or after ``max_iterations`` of the update, and then the result says so.
    """
    lam = np.asarray(observed, dtype=np.float64)
    pi, steps, gap = np.full(kernel.sizes, 1 / kernel.cells), 0, np.inf
    while steps < min(max_iterations, _EM_STEPS) and gap > tolerance:
        gradient = _gradient(pi, lam, kernel)
        pi, gap, steps = pi * gradient, _gap(gradient), steps + 1
    pi = pi / pi.sum()
    # Newton's method finishes these tables, so that EM only has to come near
    if kernel.cells <= MAX_NEWTON:
        weights, _, newton = likeliest_weights(lam.reshape(1, -1), kernel.matrix()[None], pi.reshape(1, -1), tolerance)
        pi, steps = weights.reshape(pi.shape), steps + int(newton[0])
    elif steps < max_iterations:
        pi, more = on_support(pi, _gradient(pi, lam, kernel), lam, kernel, tolerance, max_iterations - steps)
        steps += more
    gap = _gap(_gradient(pi, lam, kernel))
    convergence = Convergence(
        iterations=steps,
        converged=bool(gap <= tolerance),
        criterion="no distribution has a higher log-likelihood by more than this many nats per record",
        value=gap,
        tolerance=tolerance,
        log_likelihood=n * log_likelihood(pi, lam, kernel),
    )
    return FittedTable(pi, convergence)


def _gradient(pi: FloatArray, observed: FloatArray, kernel: Kernel) -> FloatArray:
    """Compute the gradient of the log-likelihood, g = P(λ̂/λ).

    At the maximum it is 1 in every cell above 0 and at most 1 elsewhere.
    """
    expected = kernel.expected(pi)
    ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=observed > 0)
    return np.maximum(kernel.adjoint(ratio), 0.0)


def _gap(gradient: FloatArray) -> float:
    return max(float(gradient.max()) - 1, 0.0)
