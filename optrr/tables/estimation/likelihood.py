"""Maximum likelihood: the distribution π ≥ 0, Σπ = 1 that makes the observed counts most probable.

    maximise ℓ(π) = Σ_v λ̂_v ln λ_v,   λ = Pᵀ π.

One attribute: a closed form by water filling (Pinzón & Palamidessi, "Estimating the true distribution of data collected
with randomized response"). Joints: the iterative Bayesian update of Agrawal & Aggarwal (MDR's reference [2]), that is, EM:
π ← π ∘ g with g = P(λ̂/λ), through the kernel, so O(k Π r) a step, accelerated by SQUAREM (Varadhan & Roland 2008).

ℓ is concave, and its gradient is g, so ℓ(π*) − ℓ(π) ≤ max g − 1 for any π. The iteration stops when this bound
is small enough.

EM creeps where a cell's optimum is 0. Tables of up to MAX_NEWTON cells are therefore finished by Newton's method
(:mod:`optrr.tables.estimation.mixture`), larger ones by a quasi-Newton method on the cells above 0
(:mod:`optrr.tables.estimation.support`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel, Kernel
from optrr.tables.estimation.mixture import likeliest_weights
from optrr.tables.estimation.result import Convergence
from optrr.tables.estimation.support import on_support
from optrr_solvers.arrays import FloatArray

# Each Newton step solves a few linear systems with one unknown per cell: some seconds at this size.
MAX_NEWTON = 1024
# Bound on the distance from the maximum, in nats per record: at 10^4 records 1e-8 in all, at 10^10 a hundredth of a nat.
TOLERANCE = 1e-12
MAX_ITERATIONS = 5000
# Updates before faster methods take over; by then the cells that belong at 0 are near it.
_EM_STEPS = 90


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A fitted table, and how it was reached."""

    proportions: FloatArray
    convergence: Convergence


def log_likelihood(proportions: ArrayLike, observed: ArrayLike, kernel: Kernel) -> float:
    """ℓ(π) in nats per record; −∞ where an observed cell is impossible."""
    return _mean_log(np.asarray(observed, dtype=np.float64), kernel.expected(proportions))


def closed_form(observed: ArrayLike, kernel: EffectKernel) -> FloatArray:
    """Maximum likelihood for one attribute with λ_1 > 0: λ_v = max(q, λ̂_v/c), q the chance of a particular wrong answer.

    The constant c makes λ sum to 1; sorting finds which cells stay above q. O(r log r), exact.

    Raises
    ------
    InvalidInput
        for several attributes or an attribute whose eigenvalue is not positive.
    """
    if len(kernel.sizes) != 1 or not kernel.eigenvalues[1] > 0:
        raise InvalidInput("the closed form of maximum likelihood is for one attribute; use method 'ibu' for a joint")
    kernel.check_invertible()
    lam = np.asarray(observed, dtype=np.float64)
    q = float(kernel.cell_probabilities[1])
    descending = -np.sort(-lam)
    above = np.arange(1, lam.size + 1)
    c = np.cumsum(descending) / (1 - (lam.size - above) * q)
    kept = int(np.flatnonzero(descending > q * c)[-1])
    fitted = np.maximum(lam / c[kept] - q, 0.0)
    return np.asarray(fitted / fitted.sum())


def ibu(
    observed: ArrayLike, kernel: Kernel, tolerance: float = TOLERANCE, max_iterations: int = MAX_ITERATIONS, n: int = 1
) -> Likelihood:
    """Iterative Bayesian update from the uniform distribution, accelerated; the limit maximises the likelihood.

    Parameters
    ----------
    observed
        proportions λ̂, shape of the kernel's sizes.
    tolerance
        stop when no distribution can be better by more than this many nats per record.
    max_iterations
        of the update; where it is reached the result says so.
    n
        number of records, for the reported log-likelihood.
    """
    lam = np.asarray(observed, dtype=np.float64)
    start = np.full(kernel.sizes, 1 / kernel.cells)
    pi, steps = _updated(start, lam, kernel, tolerance, min(max_iterations, _EM_STEPS))
    # Newton's method finishes these tables, so that EM only has to come near
    if kernel.cells <= MAX_NEWTON:
        weights, _, used = likeliest_weights(lam.reshape(1, -1), kernel.matrix()[None], pi.reshape(1, -1), tolerance)
        pi, steps = weights.reshape(pi.shape), steps + int(used[0])
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
    return Likelihood(pi, convergence)


def _mean_log(observed: FloatArray, expected: FloatArray) -> float:
    seen = observed > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(observed[seen] * np.log(expected[seen])))


def _gradient(pi: FloatArray, observed: FloatArray, kernel: Kernel) -> FloatArray:
    """g = P(λ̂/λ): at the maximum 1 in every cell above 0, at most 1 elsewhere."""
    expected = kernel.expected(pi)
    ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=observed > 0)
    return np.maximum(kernel.adjoint(ratio), 0.0)


def _gap(gradient: FloatArray) -> float:
    return max(float(gradient.max()) - 1, 0.0)


def _updated(
    pi: FloatArray, observed: FloatArray, kernel: Kernel, tolerance: float, max_iterations: int
) -> tuple[FloatArray, int]:
    """Accelerated updates until the bound is met or the iterations are used up."""
    gap, steps = np.inf, 0
    while steps < max_iterations and gap > tolerance:
        pi, gap, used = _accelerated(pi, observed, kernel)
        steps += used
    return pi, steps


def _accelerated(pi: FloatArray, observed: FloatArray, kernel: Kernel) -> tuple[FloatArray, float, int]:
    """One SQUAREM cycle of three updates; falls back to plain EM where the leap loses likelihood."""
    first = pi * _gradient(pi, observed, kernel)
    second = first * _gradient(first, observed, kernel)
    r = first - pi
    v = (second - first) - r
    curvature = float(np.linalg.norm(v))
    if curvature > 0:
        leap = -max(float(np.linalg.norm(r)) / curvature, 1.0)
        there = pi - 2 * leap * r + leap**2 * v
        # a cell sent below 0 keeps the plain update, so that it can come back
        there = np.where(there > 0, there, second)
        there /= there.sum()
        if log_likelihood(there, observed, kernel) >= log_likelihood(second, observed, kernel):
            second = there
    gradient = _gradient(second, observed, kernel)
    out = second * gradient
    return out / out.sum(), _gap(gradient), 3
