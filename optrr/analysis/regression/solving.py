"""Solutions of estimating equations, score tests of their parameters, and the intervals that invert these tests.

A test of θ_K = b solves the other equations, Ψ_f = 0 in θ_f, and asks how far Ψ_K is from 0 there. Near the truth
Ψ_K moves with θ_f, and the part W = (1, −H_Kf H_ff⁻¹) of Ψ does not, so that

    T = n Ψ_Kᵀ (2 N⁻¹ − (N + E)⁻¹) Ψ_K  ~  χ² with |K| degrees of freedom,       N = W V Wᵀ,

with H and V at the solution under the hypothesis. (Where priors pull the solution of a likelihood, Ψ_f is not 0, and WΨ stands
for Ψ_K.) Without E it is the usual score test (Rao; Boos, Am. Stat. 46, 1992, 327).
V is a second moment, not a variance around the data's own mean. Where it is estimated from residuals it is multiplied by
n/(n − k), with k the number of parameters that were solved for: |f| in a test, all of them in a covariance (HC1).

E is what N counts twice. Noise δH of the curvature moves Ψ_K by −W δH δθ_f to second order, δθ_f the error of the other
parameters, and this adds

    D = Σ_de C_de mean (W h_j)_d (W h_j)_eᵀ,       h_j = −dψ_j/dθ,   C the covariance of θ_f,

to the variance of Ψ_K where δH and Ψ are uncorrelated, as they are nearly where randomization makes most of the noise. N has D
twice, once because W is made of the noisy H and once because V is taken at the noisy θ_f. At ε_i = 1 and n = 1000..10,000 D may
be a tenth to a quarter of N, and the test without E rejects a true value in 2 to 4 % instead of 5 %. Of clean records D is
about N |f|/n, which n/(n − k) has answered for, so that E = D − N |f|/n (0 for maximum likelihood, where V is no mean over
records). To first order 2 N⁻¹ − (N + E)⁻¹ is (N − E)⁻¹, which would have no meaning where the records say so little that D
reaches N; T at most doubles.

A Wald test would divide by the part of H_KK that the other columns leave unexplained, and randomization may bring the estimate
of that part near 0 or below. T does not divide by it; for a linear model it is Fieller's test (1954). Only H_ff is inverted, so
only H_ff is required to be CLEAR_OF_ZERO standard errors above 0, in the direction where it is least.

T answers for noise of the curvature H to second order. Where its χ² law does not hold, it has no p-value: where this noise
makes much of the variance of the tested scores, higher orders count, and a true value is rejected less often than the level
says. Its share is measured where no parameter has an effect: E, which the noise adds, of N = V_KK, with the score's own
weights. There it depends little on the data set at hand, and hardly on T. The same share at the solution under the hypothesis
does depend on T, so that to print a p-value where it is small would select: the tests that are left would reject less often
than all of them.

Of a linear model the scores are linear in θ, and no order is left out; without a solution it has no test of what next to no
report tells (:class:`optrr.analysis.regression.families.LinearEquations`). The information of a likelihood has no such noise.

The interval of a linear model's parameter is closed: Fieller's, with what V counts twice taken out. Where the other parameters
solve their equations, θ moves along a line with the hypothesis b. So Ψ_k is linear in b, W does not depend on it, and W V Wᵀ
and E are quadratic. T = z² is an equation of degree four in b.
"""

from dataclasses import dataclass
from math import inf, isinf, nan

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from optrr.analysis.regression.families import Equations, LinearEquations, UnbiasedEquations
from optrr.core.estimation.derived import CLEAR_OF_ZERO
from optrr.core.estimation.distributions import chi2, norm
from optrr.core.estimation.score_interval import invert
from optrr_solvers.arrays import FloatArray, IntArray

# Newton's method stops after the step that promises this little, per record, for close to the solution a step squares the
# error; one that promised less than NEAR is taken without asking whether the objective rose, which rounding would decide.
_DONE, _NEAR = 1e-16, 1e-9
_MOST_STEPS, _HALVINGS = 60, 25
# An end of an interval is sought this many standard errors from the solution, and first a little beyond where it is if the
# test's root is a straight line, then in steps that are each twice as long as the one before; it is this precise, in standard
# errors, too.
_FARTHEST = 2.0**14 - 1
_BEYOND = 1.02
_PRECISION = 1e-6


@dataclass(frozen=True, eq=False)
class Solved:
    """θ (B, p), and in which data sets it solves the equations at a maximum, (B,)."""

    theta: FloatArray
    converged: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tested:
    """T of B data sets, (B,): NaN where the hypothesis has no solution or the other parameters are not clear.

    ``signed`` is the root of T for one parameter, positive where the data ask for a larger one; ``theta`` is the solution under
    the hypothesis.
    """

    statistic: FloatArray
    signed: FloatArray
    theta: FloatArray


@np.errstate(all="ignore")  # far from the solution what is computed may overflow, and such steps are not taken
def solve(equations: Equations, start: FloatArray, fixed: tuple[int, ...] = ()) -> Solved:
    """θ with Ψ = 0 but for the ``fixed`` parameters, which stay as they start; Newton's method with halved steps."""
    theta, free = np.array(start, dtype=np.float64), _others(equations, fixed)
    done = np.zeros(len(theta), dtype=np.bool_)
    if not free.size:
        return Solved(theta, ~done)
    working = np.arange(len(theta))
    for _ in range(_MOST_STEPS):
        part = equations.part(working)
        score, curvature = part.score(theta[working])[:, free], part.steering(theta[working])[:, free[:, None], free]
        step = part.shortened(_solved(curvature, score), free)
        promise = np.sum(score * step, axis=1)
        theta[working], better = _stepped(part, theta[working], free, step, promise)
        finished = (np.abs(promise) < _DONE) & _positive(curvature)
        done[working[finished]] = True
        working = working[~finished & better]
        if not working.size:
            break
    return Solved(theta, done)


def estimated(equations: Equations) -> Solved:
    """The estimates, from the start."""
    solved = solve(equations, equations.start())
    with np.errstate(all="ignore"):  # as in solve
        settled = np.where(solved.converged[:, None], equations.settled(solved.theta), solved.theta)
    return Solved(settled, solved.converged)


def _stepped(
    part: Equations, theta: FloatArray, free: IntArray, step: FloatArray, promise: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The longest halved steps that raise the objective, and where there is one."""
    value, out = part.objective(theta), theta.copy()
    left = np.isfinite(promise) & (promise > -_NEAR)
    better = left.copy()
    for halving in range(_HALVINGS):
        at = np.flatnonzero(left)
        if not at.size:
            break
        new = theta[at]
        new[:, free] += step[at] / 2**halving
        good = (part.part(at).objective(new) > value[at]) | (np.abs(promise[at]) < _NEAR)
        out[at[good]] = new[good]
        left[at[good]] = False
    better[left] = False
    return out, better


@np.errstate(all="ignore")  # where there is no solution under the hypothesis, nothing that follows is used
def test(equations: Equations, which: tuple[int, ...], values: FloatArray, start: FloatArray) -> Tested:
    """Score test of θ_which = values, (k,) or (B, k), from a start (B, p) believed to be near."""
    solved = solve(equations, equations.near(start, which, values), which)
    free, theta = _others(equations, which), solved.theta
    part, k = np.asarray(which), len(which)
    score, curvature = equations.efficient(theta)
    weights = np.zeros((len(theta), k, equations.parameters))
    weights[:, :, part] = np.eye(k)
    if free.size:
        weights[:, :, free] = -_solved(curvature[:, free[:, None], free], curvature[:, free[:, None], part]).transpose(
            0, 2, 1
        )
    noise, twice = spreads(equations, theta, weights, free)
    # what the other parameters' equations leave, such as a prior's pull, is taken off
    score = np.einsum("bkp,bp->bk", weights, score)
    divided = 2 * _solved(noise, score) - _solved(noise + twice, score)
    statistic = effective(equations, free.size) * np.sum(score * divided, axis=1)
    usable = solved.converged & np.isfinite(statistic) & (statistic >= 0) & clear(equations, theta, free)
    usable &= equations.varies(theta, weights, noise)
    statistic = np.where(usable, statistic, np.nan)
    return Tested(statistic, np.sign(score[:, 0]) * np.sqrt(statistic), theta)


def spreads(
    equations: Equations, theta: FloatArray, weights: FloatArray, free: IntArray
) -> tuple[FloatArray, FloatArray]:
    """W V Wᵀ, and E, what it counts twice; (B, k, k) each, for weights W (B, k, p) and the parameters that were solved for."""
    spread = equations.spread(theta)
    noise = weights @ spread @ weights.transpose(0, 2, 1)
    if not (free.size and equations.from_residuals):
        return noise, np.zeros_like(noise)
    inverse = _inverse(equations.curvature(theta)[:, free[:, None], free])
    records = effective(equations, free.size)[:, None, None]
    of_theta = np.zeros_like(spread)
    of_theta[:, free[:, None], free] = inverse @ spread[:, free[:, None], free] @ inverse / records
    return noise, equations.added_spread(theta, weights, of_theta) - noise * (1 - records / equations.n[:, None, None])


def clear(equations: Equations, theta: FloatArray, among: IntArray) -> NDArray[np.bool_]:
    """Where the curvature among these parameters is clear of 0 in the direction in which it is least, (B,)."""
    return np.asarray(clearance(equations, theta, among) >= CLEAR_OF_ZERO)


def clearance(equations: Equations, theta: FloatArray, among: IntArray) -> FloatArray:
    """By how many standard errors the curvature among these parameters is above 0 where it is least, (B,); −∞ if it is not."""
    if not among.size:
        return np.full(len(theta), np.inf)
    block = equations.steering(theta)[:, among[:, None], among]
    scale = np.sqrt(np.maximum(np.diagonal(block, axis1=1, axis2=2), 0.0))
    sound: NDArray[np.bool_] = np.all(np.isfinite(block), axis=(1, 2)) & np.all(np.nan_to_num(scale) > 0, axis=1)
    scale = np.where(sound[:, None], scale, 1.0)
    scaled = np.where(sound[:, None, None], block / (scale[:, :, None] * scale[:, None, :]), np.eye(among.size))
    direction = np.zeros(theta.shape)
    direction[:, among] = np.linalg.eigh(scaled)[1][:, :, 0] / scale
    value, error = equations.curvature_along(theta, direction)
    with np.errstate(divide="ignore", invalid="ignore"):  # a curvature without error is infinitely clear
        return np.where(sound & (value > 0), value / error, -np.inf)


def covariance(equations: Equations, theta: FloatArray) -> FloatArray:
    """H⁻¹ V H⁻¹ over n, less the parameters where V is estimated from residuals; (B, p, p)."""
    curvature, spread = equations.sandwich(theta)
    inverse = _inverse(curvature)
    records = effective(equations, equations.parameters)[:, None, None]
    return np.asarray(inverse @ spread @ inverse / records)


def searched_limits(
    equations: Equations, k: int, theta: FloatArray, error: float, deviate: float
) -> tuple[float, float]:
    """All values of parameter k of one data set that the test does not reject at ``deviate`` standard normal deviations.

    Searched from the solution θ (p,) outwards in steps of its standard error; infinite where no end is met before a value that
    has no test.
    """
    along = _along(equations, k, theta)

    def limit(side: float) -> float:
        # each hypothesis is solved from the line through the solutions under the two before, which is nearer than θ
        before, last, direction = theta, theta, along

        def excess(value: float) -> float:
            nonlocal before, last, direction
            near, at = last + (value - last[k]) * direction, np.array([value])
            tested = test(equations, (k,), at, near[None])
            if not np.isfinite(tested.signed[0]):
                tested = test(equations, (k,), at, last[None])
            if np.isfinite(tested.signed[0]):
                before, last = last, tested.theta[0]
                direction = (last - before) / (last[k] - before[k]) if last[k] != before[k] else direction
            return deviate + side * float(tested.signed[0])

        start = float(theta[k])
        farthest = min(_FARTHEST * error, float(equations.reach[k]))
        step, precision = _BEYOND * deviate, _PRECISION / (_BEYOND * deviate)
        return invert(excess, start, side * step * error, start + side * farthest, growth=2.0, precision=precision)

    return limit(-1.0), limit(1.0)


def _along(equations: Equations, k: int, theta: FloatArray) -> FloatArray:
    """How the other parameters' solution moves with parameter k at the solution θ (p,), to first order; 0 where unknown."""
    free, out = _others(equations, (k,)), np.zeros(theta.size)
    out[k] = 1.0
    if free.size:
        curvature = equations.steering(theta[None])
        moved = -_solved(curvature[:, free[:, None], free], curvature[:, free, k])[0]
        out[free] = np.where(np.isfinite(moved), moved, 0.0)
    return out


def tail(statistic: float, k: int, degrees: float) -> float:
    """The p-value of a test of k parameters: χ², or F where variances have degrees of freedom; NaN of too few."""
    if isinf(degrees):
        return float(chi2.sf(statistic, k))
    left = degrees - k + 1
    return float(fdtrc(k, left, statistic * left / (degrees * k))) if left > 0 else nan


def deviations(level: float, degrees: float) -> float:
    """How many standard errors a two-sided interval reaches: of the normal law, or Student's."""
    return float(norm.isf(level / 2)) if isinf(degrees) else float(stdtrit(degrees, 1 - level / 2))


def effective(equations: Equations, parameters: int) -> FloatArray:
    """Records, less the parameters that were solved for where V is estimated from residuals; (B,)."""
    return equations.n - parameters if equations.from_residuals else equations.n


def _others(equations: Equations, fixed: tuple[int, ...]) -> IntArray:
    return np.array([i for i in range(equations.parameters) if i not in fixed], dtype=np.int64)


def _positive(matrices: FloatArray) -> NDArray[np.bool_]:
    sound: NDArray[np.bool_] = np.all(np.isfinite(matrices), axis=(1, 2))
    safe = np.where(sound[:, None, None], matrices, -np.eye(matrices.shape[1]))
    return np.asarray(np.linalg.eigvalsh(safe)[:, 0] > 0)


def _inverse(matrices: FloatArray) -> FloatArray:
    return _solved(matrices, np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape))


def _solved(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Matrices (B, k, k) solved for right sides (B, k) or (B, k, j); NaN where a matrix is singular."""
    column = right.ndim == 2
    sides = right[:, :, None] if column else right
    try:
        out = np.linalg.solve(matrices, sides)
    except np.linalg.LinAlgError:
        out = np.stack([_one_solved(m, s) for m, s in zip(matrices, sides, strict=True)])
    return np.asarray(out[:, :, 0] if column else out)


def _one_solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.nan)


# Tests with larger shares have no p-value. benchmarks/regression_coverage.py measures the levels of those that are printed and
# of those that are not: from shares of 0.06 on, some reject a true value less often than they should.
MOST_FROM_CURVATURE = 0.04


def tested_with_law(equations: Equations, which: tuple[int, ...], values: FloatArray, start: FloatArray) -> Tested:
    """:func:`optrr.analysis.regression.solving.test`, NaN also where its law does not hold: what has a p-value."""
    tested, holds = test(equations, which, values, start), law_holds(equations, which)
    return Tested(np.where(holds, tested.statistic, np.nan), np.where(holds, tested.signed, np.nan), tested.theta)


def law_holds(equations: Equations, which: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether the score test of these parameters has its χ² law, (B,)."""
    if not isinstance(equations, UnbiasedEquations):
        return np.ones(len(equations.n), dtype=np.bool_)
    return np.asarray(share_from_curvature(equations, which) <= MOST_FROM_CURVATURE)


def share_from_curvature(equations: Equations, which: tuple[int, ...]) -> FloatArray:
    """E of N where it is largest, (B,), with no effect and the scores' own weights; NaN where it has no number."""
    theta, part = equations.start(), list(which)
    weights = np.zeros((len(theta), len(part), equations.parameters))
    weights[:, :, part] = np.eye(len(part))
    free = _others(equations, which)
    with np.errstate(all="ignore"):  # a curvature that cannot be inverted gives no number
        noise, added = spreads(equations, theta, weights, free)
    sound: NDArray[np.bool_] = np.all(np.isfinite(noise) & np.isfinite(added), axis=(1, 2))
    spreads_of_score, vectors = np.linalg.eigh(np.where(sound[:, None, None], noise, np.eye(len(part))))
    sound &= spreads_of_score[:, 0] > 0
    half = vectors / np.sqrt(np.where(sound[:, None], spreads_of_score, 1.0))[:, None, :]
    relative = half.transpose(0, 2, 1) @ np.where(sound[:, None, None], added, 0.0) @ half
    return np.where(sound, np.linalg.eigvalsh(relative)[:, -1], np.nan)


# Roots whose imaginary part is this small a share of their size are real: ends are simple roots, which rounding moves far less.
_REAL = 1e-8


def fieller_limits(
    equations: LinearEquations, k: int, theta: FloatArray, error: float, deviate: float
) -> tuple[float, float]:
    """All values of parameter k of one data set that the test does not reject at ``deviate`` standard normal deviations.

    From the solution θ (p,) and its standard error. The line where values without end are not rejected: the variance of the
    k-th column given the others cannot be told from 0.
    """
    free = _others(equations, (k,))
    weight = np.zeros(theta.size)
    weight[k] = 1.0
    if free.size:
        # the other parameters move so that their equations hold; M is symmetric, so the weights are the same numbers
        m = equations.curvature(theta[None])[0]
        weight[free] = -np.linalg.solve(m[np.ix_(free, free)], m[free, k])
    along = theta + error * np.arange(-1.0, 2.0)[:, None] * weight
    mean, second, n = (np.repeat(each, 3, axis=0) for each in (equations.mean, equations.second, equations.n))
    three = LinearEquations(mean, second, n)
    spread, twice = (_through(each[:, 0, 0]) for each in spreads(three, along, np.tile(weight, (3, 1, 1)), free))
    score = Polynomial([0.0, (three.score(along)[2, k] - three.score(along)[0, k]) / 2])
    rejected = effective(equations, free.size)[0] * score**2 * (spread + 2 * twice)
    rejected = rejected - deviate**2 * spread * (spread + twice)
    if rejected.degree() < 4 or rejected.coef[-1] <= 0:
        return -inf, inf
    roots = rejected.roots()
    ends = roots.real[np.abs(roots.imag) <= _REAL * np.abs(roots)]
    return float(theta[k] + error * ends.min()), float(theta[k] + error * ends.max())


def _through(values: FloatArray) -> Polynomial:
    """The parabola with these values at −1, 0 and 1."""
    below, middle, above = values
    return Polynomial([middle, (above - below) / 2, (above + below) / 2 - middle])
