"""Randomized response, the Laplace mechanism with post-processing, and the truncated geometric mechanism, as matrices.

Randomized response (RVL eqs. 8, 19): e^ε/(t−1+e^ε) on the diagonal, 1/(t−1+e^ε) elsewhere. Among all ε-private
matrices it has the largest trace (Results 1 and 3).

Laplace (eqs. 9–11, 20, 21): categories are the numbers 1..t, the noise has scale b = (t−1)/ε, and the noisy value falls
between cut points c_u ∈ [u, u+1]:

    P[v, u] = F_v(c_u) − F_v(c_{u−1}),   F_v(c) = ½ e^{(c−v)/b} for c ≤ v,  1 − ½ e^{−(c−v)/b} above,  c_0 = −∞, c_t = ∞.

The trace is a sum over cut points, each term concave and largest at c_u = u + ½ (Results 2 and 4). With midpoints and h =
ε/(2(t−1)) the matrix's own ε is ε + ln(1 − (1−e^{−h})²), strictly below ε: post-processing leaves part of ε unused.

Truncated geometric (Ghosh, Roughgarden & Sundararajan 2009), the discrete counterpart, with α = e^{−ε/(t−1)}:
(1−α)/(1+α) α^|u−v| inside and α^|u−v|/(1+α) at the two ends; its ε is ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from optrr.errors import InvalidInput
from optrr.mechanisms.matrix.distortion import MAX_CATEGORIES, SCALE, DistortionMatrix, from_fractions
from optrr.mechanisms.matrix.enclosures import Enclosure, exp_enclosure, half, minus, ratio_bound
from optrr.releases.spent import checked_epsilon
from optrr_solvers.arrays import FloatArray
from optrr_solvers.enclosure import exp_bounds, log_ceiling

# The numerical search for cut points starts here inside [u, u+1]: away from the middle, so that it has to find the optimum.
_START = 0.1
# The trace is flat to second order at its maximum, so an error of 1e-16 in it leaves 1e-8 in a cut point.
CUT_TOLERANCE = 1e-6


def randomized_response(size: int, epsilon: float) -> DistortionMatrix:
    """RVL eq. 19 at ε nats; the matrix's exact ε is at most the one given, up to the rounding of its label."""
    _check(size, epsilon)
    # rounding the other categories up keeps the ratio at or below e^ε
    other = math.ceil(SCALE / (size - 1 + exp_bounds(epsilon)[0]))
    weights = np.full((size, size), other, dtype=np.uint64)
    np.fill_diagonal(weights, SCALE - (size - 1) * other)
    return DistortionMatrix(weights)


def laplace(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> DistortionMatrix:
    """RVL eq. 21 at ε nats; cut points c_u ∈ [u, u+1], u = 1..t−1, the midpoints where not given.

    Its ``epsilon`` is that of the post-processed matrix as drawn: below ε for midpoints; for other cuts at most ε, up to the
    rounding of its label.
    """
    rows = laplace_enclosure(size, epsilon, cuts)
    return from_fractions([[(low + high) / 2 for low, high in row] for row in rows])


def laplace_enclosure(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> list[list[Enclosure]]:
    """Every entry P[v, u] of the Laplace matrix between two rationals 1e-55 apart; t rows of t intervals."""
    _check(size, epsilon)
    points = _checked_cuts(size, cuts)
    rate = Fraction(epsilon) / (size - 1)
    zero, one = (Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))
    rows = []
    for v in range(1, size + 1):
        below = [zero, *(_distribution(c - v, rate) for c in points), one]
        rows.append([_between(points, u, v, rate, below) for u in range(1, size + 1)])
    return rows


def laplace_epsilon(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> float:
    """Upper bound on the ε of the ideal Laplace matrix, proved in interval arithmetic, in nats."""
    return log_ceiling(ratio_bound(laplace_enclosure(size, epsilon, cuts)))


def optimal_cuts(size: int, epsilon: float) -> FloatArray:
    """The cut points that maximise the trace, found numerically, shape (t−1,), good to 1e-6: u + ½."""
    _check(size, epsilon)
    below = np.arange(1, size, dtype=np.float64)
    rate = epsilon / (size - 1)

    def missing(c: FloatArray) -> tuple[float, FloatArray]:
        left, right = np.exp(-rate * (c - below)), np.exp(-rate * (below + 1 - c))
        return float(np.sum(left + right)), np.asarray(rate * (right - left))

    bounds = [(u, u + 1) for u in below]
    # scaled so that the second derivative at the optimum is of order 1 for every ε, because the stopping rule is absolute
    scale = np.exp(rate / 2) / rate**2
    optimum = minimize(
        lambda c: tuple(scale * part for part in missing(c)),
        below + _START,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": CUT_TOLERANCE / 10, "maxiter": 1000},
    )
    return np.asarray(optimum.x)


def truncated_geometric(size: int, epsilon: float) -> DistortionMatrix:
    """Two-sided geometric noise on 1..t, clamped to the ends; ε nats in all, ε/(t−1) between neighbours."""
    _check(size, epsilon)
    rate = Fraction(epsilon) / (size - 1)
    power = [sum(exp_enclosure(-rate * k), Fraction(0)) / 2 for k in range(size)]
    alpha = power[1]
    inside = [(1 - alpha) / (1 + alpha) if 0 < v < size - 1 else 1 / (1 + alpha) for v in range(size)]
    return from_fractions([[inside[v] * power[abs(u - v)] for v in range(size)] for u in range(size)])


def _distribution(distance: Fraction, rate: Fraction) -> Enclosure:
    """The distribution function F at a distance above the true value, for noise of scale 1/rate."""
    tail = half(exp_enclosure(-abs(distance) * rate))
    return tail if distance <= 0 else minus((Fraction(1), Fraction(1)), tail)


def _between(points: list[Fraction], u: int, v: int, rate: Fraction, below: list[Enclosure]) -> Enclosure:
    """Pr(c_{u−1} < noisy value ≤ c_u); where both cuts lie above v the upper tails differ without cancellation."""
    if u > v and u > 1:
        low = half(exp_enclosure(-(points[u - 2] - v) * rate))
        high = half(exp_enclosure(-(points[u - 1] - v) * rate)) if u <= len(points) else (Fraction(0), Fraction(0))
        return minus(low, high)
    return minus(below[u], below[u - 1])


def _checked_cuts(size: int, cuts: Sequence[float] | None) -> list[Fraction]:
    if cuts is None:
        return [Fraction(2 * u + 1, 2) for u in range(1, size)]
    if len(cuts) != size - 1 or not all(u <= c <= u + 1 for u, c in enumerate(cuts, start=1)):
        raise InvalidInput(
            f"cuts = {list(cuts)!r}; give {size - 1} cut points with u ≤ c_u ≤ u+1 for u = 1..{size - 1}"
        )
    return [Fraction(float(c)) for c in cuts]


def _check(size: int, epsilon: float) -> None:
    if not (isinstance(size, int | np.integer) and 2 <= size <= MAX_CATEGORIES):
        raise InvalidInput(f"size = {size!r}; a distortion matrix has 2 to {MAX_CATEGORIES} categories")
    checked_epsilon(epsilon)
