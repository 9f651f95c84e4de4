"""Exponential tilting: the change law under which a ball's radius is the typical total.

Under the uniform answer an attribute changes with odds r − 1; tilted by θ its odds are (r−1) e^{−θw}. Sums over the ball then
are numbers of order one times e^{…}, so that probabilities like e^{−1000} are no problem (theory §3.5). θ sits at the saddle
point of the sums' Laplace transform, Σ n p w + 1/θ = R.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from optrr_solvers.arrays import FloatArray

ComplexArray = NDArray[np.complex128]

_STEPS = 100
# θ only places a contour: any value near the saddle point gives the same sums.
_PRECISION = 1e-6
# Tails below e^-36 = 2e-16 of the whole are dropped.
_TAIL = 36.0


def softplus(x: FloatArray) -> FloatArray:
    """Compute the softplus function ln(1 + e^x)."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def log_ratio(z: ComplexArray, z0: FloatArray) -> ComplexArray:
    """Compute ln((1+z)/(1+z0)) on the branch of small phases, shape (rows, nodes).

    There is no cancellation near z = z0.
    """
    u = (z - z0[:, None]) / (1 + z0)[:, None]
    out = np.empty_like(u)
    # |1+u|² − 1 is never below −1 but for rounding
    with np.errstate(divide="ignore"):
        out.real = 0.5 * np.log1p(np.maximum(u.real * (2 + u.real) + u.imag**2, -1.0))
    out.imag = np.arctan2(u.imag, 1 + u.real)
    return out


def saddle_point(log_odds: FloatArray, counts: FloatArray, weights: FloatArray, radius: float) -> float:
    """Find θ > 0 with Σ n p(θ) w + 1/θ = ``radius`` > 0, to a relative 1e-6.

    Takes O(G) per step.
    """
    low, high, theta = 0.0, np.inf, 1.0 / radius
    for _ in range(_STEPS):
        p = expit(log_odds - theta * weights)
        slope = float(counts @ (p * (1 - p) * weights**2)) + theta**-2
        excess = float(counts @ (p * weights)) + 1 / theta - radius
        low, high = (theta, high) if excess > 0 else (low, theta)
        new = theta + excess / slope
        if not low < new < high:
            new = 2 * theta if high == np.inf else (low + high) / 2
        if abs(new - theta) <= _PRECISION * theta:
            return float(new)
        theta = float(new)
    return theta


def wrapping_distance(
    log_odds: FloatArray, counts: FloatArray, weights: FloatArray, radius: float, theta: float
) -> float:
    """Find the period at which copies of the tilted total do not overlap.

    Uses Chernoff's bound at the radius, on both sides.
    """

    def log_mean(tilt: float) -> float:
        return float(counts @ softplus(log_odds - tilt * weights))

    base = log_mean(theta)
    shares = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.93, 0.97, 0.985)
    upper = min((log_mean(theta * x) - base + _TAIL) / (theta * (1 - x)) - radius for x in shares)
    lower = min((log_mean(theta / x) - base + _TAIL) / (theta * (1 / x - 1)) + radius for x in shares)
    return max(upper, 0.0, min(lower, radius)) + _TAIL / theta


def tail_end(log_odds: FloatArray, counts: FloatArray, weights: FloatArray, theta: float) -> float:
    """Find a total beyond which the tilted distribution has negligible mass.

    Uses Chernoff's bound; ``theta`` may have any sign.
    """
    base = float(counts @ softplus(log_odds - theta * weights))
    scale = max(abs(theta), 1 / max(float(counts @ weights), 1e-300))
    shifts = scale * np.array([1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
    tails = [(float(counts @ softplus(log_odds - (theta - x) * weights)) - base + _TAIL) / x for x in shifts.tolist()]
    return float(min(tails))
