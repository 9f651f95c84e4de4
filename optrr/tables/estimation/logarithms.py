"""Sums of x ln x estimated where cells may be empty: what entropy and mutual information are made of.

The unbiased estimate of a cell is its share x plus noise of standard error s, and may be negative. No function of it has x ln x
as its mean for every x ≥ 0, since means over noise are smooth and x ln x is not at 0. With y = x/s, x ln x = s y ln y + x ln s,
so one function ψ of y + Z, Z standard normal, serves every cell, and here

    |E ψ(y + Z) − y ln y| ≤ BIAS for every y ≥ 0.

Away from 0, ψ undoes the smoothing by noise term by term: ψ(t) = t ln t − 1/(2t) + 1/(4t³), the first terms of
exp(−½ d²/dt²) t ln t. Near 0 it is the cubic spline on whole knots, straight to their left and joined smoothly at their right
end, that has the smallest bias among those whose root mean square at an empty cell is at most 1, so that empty cells cost no
more than their own noise (compare the best polynomials of Wu & Yang, IEEE Trans. Inf. Theory 62, 2016, for sampling without
randomization). A test solves for it again.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import xlogy

from optrr_solvers.arrays import FloatArray

# Largest distance of E ψ(y + Z) from y ln y.
BIAS = 0.122
# The spline's ends, and its coefficients on the knots −4, −3, …, 5.
FIRST_KNOT, LAST_KNOT = -4.0, 5.0
COEFFICIENTS = (4.2689, 3.8566, 3.0320, 2.3209, 0.6577, -0.5555, -1.8963, 1.2789, 3.5224, 5.3853, 7.0731, 7.9492)
# From this y on the mean is taken to be y ln y, which differs by at most 1e-4; below, it is interpolated on a grid.
_CLEAR = 10.0
_GRID = np.linspace(0.0, _CLEAR, 1001)
# Points of the trapezoidal rule for means over normal noise; beyond them lies 1e-15 of it.
_NOISE = np.linspace(-8.0, 8.0, 161)

_KNOTS = np.concatenate([[FIRST_KNOT] * 3, np.arange(FIRST_KNOT, LAST_KNOT + 1), [LAST_KNOT] * 3])
_SPLINES = tuple(BSpline(_KNOTS, np.array(COEFFICIENTS), 3).derivative(k) for k in range(3))


def debiased(t: FloatArray, order: int = 0) -> FloatArray:
    """ψ of noisy y, or its first or second derivative."""
    inside, far = np.clip(t, FIRST_KNOT, LAST_KNOT), np.maximum(t, LAST_KNOT)
    near = np.asarray(_SPLINES[order](inside))
    if order == 0:
        near = near + _SPLINES[1](FIRST_KNOT) * np.minimum(t - FIRST_KNOT, 0.0)
        away = far * np.log(far) - 1 / (2 * far) + 1 / (4 * far**3)
    elif order == 1:
        away = np.log(far) + 1 + 1 / (2 * far**2) - 3 / (4 * far**4)
    else:
        near = np.where(t < FIRST_KNOT, 0.0, near)
        away = 1 / far - 1 / far**3 + 3 / far**5
    return np.where(t > LAST_KNOT, away, near)


def smoothed(y: FloatArray, order: int = 0) -> FloatArray:
    """Mean of ψ(y + Z) for y ≥ 0, or of its first or second derivative, which are the mean's derivatives; to three decimals."""
    if order == 0:
        away = xlogy(y, y)
    elif order == 1:
        away = np.log(np.maximum(y, _CLEAR)) + 1
    else:
        away = 1 / np.maximum(y, _CLEAR)
    return np.asarray(np.where(y > _CLEAR, away, np.interp(y, _GRID, _means(order))))


@cache
def _means(order: int) -> FloatArray:
    """On the grid."""
    weights = np.exp(-(_NOISE**2) / 2)
    return np.asarray(debiased(_GRID[:, None] + _NOISE, order) @ (weights / weights.sum()))
