"""How far an estimate lies from the nearest point at which a quadratic function of it is 0, in standard errors."""

from __future__ import annotations

from math import copysign, inf

import numpy as np
from scipy.optimize import brentq

from optrr.tables.estimation.statistics import Expansion
from optrr_solvers.arrays import FloatArray

# Directions with less than this share of the largest variance hold no noise, only rounding.
_NO_NOISE = 1e-12
# The search for the multiplier ends this share short of its pole, and where there is none at a multiplier beyond all others.
_SHORT, _FAR = 1e-9, 1e30


def signed_distance(equation: Expansion, covariance: FloatArray) -> float:
    """Root of the smallest (x − x̂)ᵀ C⁻¹ (x − x̂) with G(x) = 0, with the sign of G(x̂).

    If x̂ is normal with covariance C, and G is linear, it is normal with variance 1 wherever x lies on G = 0; that is
    Fieller's test. If G is the difference of two products, its variance depends on all four factors, but that of this distance
    hardly does: benchmarks/measures_coverage.py compares.

    With x − x̂ = C^{1/2} z and G's second derivatives H diagonal in z, the nearest z is −λ g/(1 + λ h), and G there falls
    strictly in λ between the poles −1/max h and −1/min h, so that one root is sought (Moré, Optim. Methods Softw. 2, 1993).

    Parameters
    ----------
    equation
        value, gradient (K,) and second derivatives (K, K) of G at the estimate.
    covariance
        (K, K) of the estimate.
    """
    variances, directions = np.linalg.eigh(covariance)
    noisy = variances > _NO_NOISE * variances.max()
    root = directions[:, noisy] * np.sqrt(variances[noisy])
    bends, axes = np.linalg.eigh(root.T @ equation.hessian @ root)
    slopes = axes.T @ (root.T @ equation.gradient)

    def at(multiplier: float) -> FloatArray:
        return np.asarray(-multiplier * slopes / (1 + multiplier * bends))

    def value(multiplier: float) -> float:
        z = at(multiplier)
        return float(equation.value + slopes @ z + bends @ z**2 / 2)

    sign = copysign(1.0, equation.value)
    steepest = float(np.max(-sign * bends, initial=0.0))
    last = sign * min((1 - _SHORT) / steepest, _FAR) if steepest > 0 else sign * _FAR
    if value(last) * sign <= 0:
        return sign * float(np.linalg.norm(at(float(brentq(value, 0.0, last)))))
    # no slope along the axis that bends most: the nearest point lies on that axis, on either side; without such an axis nowhere
    farther = 2 * sign * value(last) / steepest if steepest > 0 else inf
    return sign * float(np.sqrt(np.sum(at(last) ** 2) + farther))
