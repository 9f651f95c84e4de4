"""Estimating equations: solutions, score tests of their parameters, and the intervals that invert these tests.

A model's parameters θ solve Ψ(θ) = 0, the mean over the records of scores ψ_j(θ) whose expectation is 0 at the truth.
ψ_j is computed from a randomized record alone. Everything else follows from Ψ, its derivative −H, and the second moment
V = mean ψ_j ψ_jᵀ, for any model:

    regression/linear       least squares from unbiased moments
    regression/likelihood   a categorical outcome, with any law of its randomized predictors; a sample's pseudo-likelihood
    loglinear/fitting       a table's interactions
    estimated               both of tables that are known by their estimate and covariance, such as answers to local queries

A test of θ_K = b solves the other equations, Ψ_f = 0 in θ_f, and measures the distance of Ψ_K from 0 there. Near the
truth Ψ_K moves with θ_f, and the part W = (1, −H_Kf H_ff⁻¹) of Ψ does not, so that

    T = n Ψ_Kᵀ (2 N⁻¹ − (N + E)⁻¹) Ψ_K  ~  χ² with |K| degrees of freedom,       N = W V Wᵀ,

with H and V at the solution under the hypothesis. (Where priors pull the solution of a likelihood, Ψ_f is not 0, and WΨ
replaces Ψ_K.) Without E it is the usual score test (Rao; Boos, Am. Stat. 46, 1992, 327). E is 0 for a likelihood, whose
V is the information at θ and no mean over records; for least squares it is the part that N counts twice.

A Wald test would divide by the part of H_KK that the other columns leave unexplained, and randomization may bring the estimate
of that part near 0 or below. T does not divide by it; for a linear model it is Fieller's test (1954). Only H_ff is inverted, so
only H_ff must be CLEAR_OF_ZERO standard errors above 0, in the direction where it is least.

An interval holds all values that the test does not reject, searched outwards from the estimate.

Arrays begin with B data sets; p parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, isinf, nan
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from optrr.core.estimation import chi2, invert, norm
from optrr_solvers.arrays import FloatArray, IntArray

# A step that promises less than this, per record, is taken without asking whether the objective rose, which rounding would
# decide.
_NEAR = 1e-9
_MOST_STEPS, _HALVINGS = 200, 25
# An end of an interval is sought this many standard errors from the solution, and first a little beyond where it is if the
# test's root is a straight line, then in steps that are each twice as long as the one before; it is this precise, in standard
# errors, too.
_FARTHEST = 2.0**14 - 1
_BEYOND = 1.02
_PRECISION = 1e-6


class Equations(ABC):
    """Estimating equations Ψ(θ) = 0 of B data sets of ``n`` records each, (B,)."""

    # description of the estimation in results
    method: str
    # the last step promises no more than this, per record: close to the solution a step squares the error
    done = 1e-16
    # part of the spread of a score that is only rounding
    rounding = 0.0

    if TYPE_CHECKING:
        # fields in some subclasses and properties in others, so they are declared for type checkers only
        @property
        def n(self) -> FloatArray:
            """Records, (B,)."""
            ...

        @property
        def parameters(self) -> int:
            """p."""
            ...

        @property
        def degrees(self) -> float:
            """Degrees of freedom of V, finite for a sample's."""
            ...

    else:
        degrees = inf

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about tests of these equations."""
        return ()

    @abstractmethod
    def start(self) -> FloatArray:
        """Return initial parameters, (B, p)."""

    @abstractmethod
    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute the function to maximize, whose gradient is Ψ; (B,).

        θ has shape (B, p).
        """

    @abstractmethod
    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the score Ψ(θ), shape (B, p)."""

    @abstractmethod
    def curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the negative Hessian H = −dΨ/dθ, (B, p, p), symmetric."""

    def steering(self, theta: FloatArray) -> FloatArray:
        """Compute H, or an approximation, for steps towards the solution."""
        return self.curvature(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute Ψ and H with nuisance parameters eliminated, for tests and errors.

        The distribution of the predictors is such a parameter.
        """
        return self.score(theta), self.curvature(theta)

    def near(self, start: FloatArray, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """Return initial parameters with θ_which = values, (B, p), from others."""
        out = np.array(start, dtype=np.float64)
        out[:, list(which)] = values
        return out

    def shortened(self, step: FloatArray, free: IntArray) -> FloatArray:
        """Shorten a step (B, f) of the free parameters to where H is informative."""
        del free
        return step

    @property
    def reach(self) -> FloatArray:
        """How far from the estimate the ends of intervals may be, (p,)."""
        return np.full(self.parameters, np.inf)

    def complete(self) -> FloatArray:
        """Return a matrix (B, p, p) that is singular if columns are collinear."""
        return self.curvature(self.start())

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """Compute the log-likelihood in nats, (B,), if it is the objective."""
        del theta
        return None

    def settled(self, theta: FloatArray, free: IntArray | None = None) -> FloatArray:
        """Move from the maximum of the objective to the estimate.

        ``free`` are the parameters to estimate, all by default.
        """
        del free
        return theta

    @abstractmethod
    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the covariance V of the score, (B, p, p)."""

    def sandwich(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute H and V of standard errors, (B, p, p) each.

        They are those of tests, unless tests assume more than errors do.
        """
        return self.efficient(theta)[1], self.spread(theta)

    def twice(self, theta: FloatArray, weights: FloatArray, free: IntArray, spread: FloatArray) -> FloatArray:
        """Compute E, which W V Wᵀ counts twice, (B, k, k).

        W are ``weights`` (B, k, p), V is ``spread``, for the ``free`` parameters.
        """
        del theta, free, spread
        return np.zeros((*weights.shape[:2], weights.shape[1]))

    def effective(self, parameters: int) -> FloatArray:
        """Compute the effective number of records, (B,).

        The number of parameters is subtracted if V is estimated from residuals.
        """
        del parameters
        return self.n

    @abstractmethod
    def clear(self, theta: FloatArray, where: IntArray) -> NDArray[np.bool_]:
        """Check that the smallest eigenvalue of H is clearly positive, (B,)."""

    def alike(self, theta: FloatArray, noise: FloatArray) -> NDArray[np.bool_]:
        """Find parameters (p,) of one data set whose reports show no error.

        All reports that inform about such a parameter are alike.
        """
        del theta
        return np.asarray(~(np.diag(noise) > 0))

    @abstractmethod
    def part(self, which: IntArray) -> Equations:
        """Select data sets by distinct ascending numbers."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions θ (B, p), and in which data sets they are maxima, (B,)."""

    theta: FloatArray
    converged: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tested:
    """Test statistics T of B data sets, (B,).

    NaN if the hypothesis has no solution or the other parameters are not identified.

    ``signed`` is the root of T for one parameter, positive where the data ask for a larger one; ``theta`` is the solution under
    the hypothesis.
    """

    statistic: FloatArray
    signed: FloatArray
    theta: FloatArray


@np.errstate(all="ignore")  # far from the solution numbers may overflow, and such steps are not taken
def solve(equations: Equations, start: FloatArray, fixed: tuple[int, ...] = ()) -> Solved:
    """Solve Ψ = 0 by Newton's method with halved steps.

    ``fixed`` parameters keep their initial values.
    """
    theta, free = np.array(start, dtype=np.float64), _others(equations, fixed)
    done = np.zeros(len(theta), dtype=np.bool_)
    if not free.size:
        return Solved(theta, ~done)
    working = np.arange(len(theta))
    for _ in range(_MOST_STEPS):
        part = equations.part(working)
        score, curvature = part.score(theta[working])[:, free], part.steering(theta[working])[:, free[:, None], free]
        step = part.shortened(solve_systems(curvature, score), free)
        promise = np.sum(score * step, axis=1)
        theta[working], better = _stepped(part, theta[working], free, step, promise)
        finished = (np.abs(promise) < equations.done) & _positive(curvature)
        done[working[finished]] = True
        working = working[~finished & better]
        if not working.size:
            break
    return Solved(theta, done)


def estimated(equations: Equations) -> Solved:
    """Compute the estimates from the default start."""
    solved = solve(equations, equations.start())
    with np.errstate(all="ignore"):  # as in solve
        settled = np.where(solved.converged[:, None], equations.settled(solved.theta), solved.theta)
    return Solved(settled, solved.converged)


def _stepped(
    part: Equations, theta: FloatArray, free: IntArray, step: FloatArray, promise: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Halve steps until they raise the objective; also return where one does."""
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
    """Compute the score test of θ_which = values, (k,) or (B, k).

    ``start`` (B, p) should be near the solution.
    """
    solved = solve(equations, equations.near(start, which, values), which)
    free, theta = _others(equations, which), solved.theta
    part, k = np.asarray(which), len(which)
    score, curvature = equations.efficient(theta)
    weights = np.zeros((len(theta), k, equations.parameters))
    weights[:, :, part] = np.eye(k)
    if free.size:
        weights[:, :, free] = -solve_systems(
            curvature[:, free[:, None], free], curvature[:, free[:, None], part]
        ).transpose(0, 2, 1)
    spread = equations.spread(theta)
    noise, twice = weights @ spread @ weights.transpose(0, 2, 1), equations.twice(theta, weights, free, spread)
    # the residual of the other parameters' equations, such as a prior's pull, is taken off
    score = np.einsum("bkp,bp->bk", weights, score)
    divided = 2 * solve_systems(noise, score) - solve_systems(noise + twice, score)
    statistic = equations.effective(free.size) * np.sum(score * divided, axis=1)
    usable = solved.converged & np.isfinite(statistic) & (statistic >= 0) & equations.clear(theta, free)
    # the score of reports that are all equal is rounding, divided by rounding
    sizes = np.einsum("bkp,bpq,bkq->bk", np.abs(weights), np.abs(spread), np.abs(weights))
    usable &= np.all(np.diagonal(noise, axis1=1, axis2=2) > equations.rounding * sizes, axis=1)
    statistic = np.where(usable, statistic, np.nan)
    return Tested(statistic, np.sign(score[:, 0]) * np.sqrt(statistic), theta)


def likelihood_ratio(equations: Equations, which: tuple[int, ...], theta: FloatArray) -> FloatArray | None:
    """Compute twice the log likelihood ratio of θ and of θ_which = 0, (B,).

    None if there is no likelihood.
    """
    most = equations.log_likelihood(theta)
    if most is None:
        return None
    solved = solve(equations, equations.near(theta, which, np.zeros(len(which))), which)
    under = equations.settled(solved.theta, _others(equations, which))
    ratio = 2 * (most - cast("FloatArray", equations.log_likelihood(under)))
    return np.where(solved.converged, np.maximum(ratio, 0.0), np.nan)


def covariance(equations: Equations, theta: FloatArray) -> FloatArray:
    """Compute the sandwich covariance H⁻¹ V H⁻¹ / n, (B, p, p).

    n is reduced by the number of parameters if V is estimated from residuals.
    """
    curvature, spread = equations.sandwich(theta)
    inverse = solve_systems(curvature, np.broadcast_to(np.eye(curvature.shape[1]), curvature.shape))
    records = equations.effective(equations.parameters)[:, None, None]
    return np.asarray(inverse @ spread @ inverse / records)


def limits(equations: Equations, k: int, theta: FloatArray, error: float, deviate: float) -> tuple[float, float]:
    """Invert the test of parameter k of one data set.

    Returns the range of values not rejected at ``deviate`` standard normal deviations.

    Searched from the solution θ (p,) outwards in steps of its standard error; infinite where no end is found before a
    value that has no test. The whole line where the other parameters may be non-identifiable.
    """
    if not error > 0 or not equations.clear(theta[None], _others(equations, (k,)))[0]:
        return -inf, inf
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
    """Differentiate the other parameters at the solution θ (p,) in parameter k.

    First order; 0 where unknown.
    """
    free, out = _others(equations, (k,)), np.zeros(theta.size)
    out[k] = 1.0
    if free.size:
        curvature = equations.steering(theta[None])
        moved = -solve_systems(curvature[:, free[:, None], free], curvature[:, free, k])[0]
        out[free] = np.where(np.isfinite(moved), moved, 0.0)
    return out


def tail(statistic: float, k: int, degrees: float) -> float:
    """Compute the p-value of a test of k parameters.

    By χ², or by F if variances have degrees of freedom; NaN if there are too few.
    """
    if isinf(degrees):
        return float(chi2.sf(statistic, k))
    left = degrees - k + 1
    return float(fdtrc(k, left, statistic * left / (degrees * k))) if left > 0 else nan


def deviations(level: float, degrees: float) -> float:
    """Compute the half-width of a two-sided interval in standard errors.

    By the normal distribution or Student's.
    """
    return float(norm.isf(level / 2)) if isinf(degrees) else float(stdtrit(degrees, 1 - level / 2))


def _others(equations: Equations, fixed: tuple[int, ...]) -> IntArray:
    return np.array([i for i in range(equations.parameters) if i not in fixed], dtype=np.int64)


def _positive(matrices: FloatArray) -> NDArray[np.bool_]:
    sound: NDArray[np.bool_] = np.all(np.isfinite(matrices), axis=(1, 2))
    safe = np.where(sound[:, None, None], matrices, -np.eye(matrices.shape[1]))
    return np.asarray(np.linalg.eigvalsh(safe)[:, 0] > 0)


def solve_systems(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Solve matrices (B, k, k) for right sides (B, k) or (B, k, j).

    NaN if a matrix is singular.
    """
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
