"""Intervals around a derived statistic: on the root's scale, and of second order where the delta method is one-sided.

Near the boundary the entropy's normal interval covers about as often as it says, but nearly all its misses are on one side, and
they come together with the estimates that lie far from the boundary, which are the ones vouched for. Its interval is
therefore of second order (Cornish and Fisher's expansion; Hall, The Bootstrap and Edgeworth Expansion, 1992, ch. 2 and 3).
With ψ the influence of one report, S the dispersion of π̂, a the gradient, H the second derivatives and σ² = aᵀSa,

    γ = E ψ³/(√n sd(ψ)³),   h = aᵀS H S a/σ³,
    T = (bias-corrected θ̂ − θ)/σ̂ has mean −(γ + 2h)/2, variance 1 and third cumulant −(2γ + 3h) up to terms of order 1/n,

so its quantile is q(z) = z − (γ + 2h)/2 − (2γ + 3h)(z² − 1)/6.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from optrr_solvers.problem import FloatArray


@dataclass(frozen=True)
class Skewness:
    """What makes a studentised statistic lean: the third moment γ of the reports' influence, and the bend h."""

    third: float
    bend: float

    @property
    def mean(self) -> float:
        """Of T."""
        return -(self.third + 2 * self.bend) / 2

    @property
    def cumulant(self) -> float:
        """Third cumulant of T."""
        return -(2 * self.third + 3 * self.bend)

    def quantile(self, z: float) -> float:
        """Of T, where the normal law has z; moved by at most |z|, so that an interval keeps its centre."""
        moved = self.mean + self.cumulant * (z**2 - 1) / 6
        return z + float(np.clip(moved, -abs(z), abs(z)))


def skewness(influence: FloatArray, observed: FloatArray, n: int, bend: float, error: float) -> Skewness:
    """γ and h from the influence of every output, the observed proportions, aᵀS H S a, and the standard error σ."""
    if not error > 0:
        return Skewness(0.0, 0.0)
    centred = influence - np.sum(influence * observed)
    return Skewness(float(np.sum(centred**3 * observed)) / (n**2 * error**3), bend / error**3)


def second_order(value: float, error: float, lean: Skewness, z: float) -> tuple[float, float]:
    """θ between value − σ q(z) and value − σ q(−z)."""
    return value - error * lean.quantile(z), value - error * lean.quantile(-z)


def on_root_scale(plug_in: float, bias: float, error: float, z: float) -> tuple[float, float]:
    """For statistics that are nearly squares of a distance: value ± z · error of the square root, squared.

    The root is nearly linear in the proportions, so its distribution is nearer normal; its own bias is removed.
    """
    if plug_in <= 0:
        return plug_in - bias - z * error, plug_in - bias + z * error
    root = sqrt(plug_in)
    slope = 1 / (2 * root)
    centre = root - slope * bias + error**2 / (8 * root**3)
    low, high = centre - z * slope * error, centre + z * slope * error
    return max(low, 0.0) ** 2, max(high, 0.0) ** 2
