"""The interval of a linear model's parameter in closed form: Fieller's, with what V counts twice taken out.

Where the other parameters solve their equations, θ moves along a line with the hypothesis b. So Ψ_k is linear in b, W does not
depend on it, and W V Wᵀ and E are quadratic (:mod:`optrr.models.regression.solving`). T = z² is an equation of degree four in
b.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.polynomial import Polynomial

from optrr.models.regression.linear import LinearEquations
from optrr.models.regression.solving import effective, spreads
from optrr_solvers.arrays import FloatArray

# Roots whose imaginary part is this small a share of their size are real: ends are simple roots, which rounding moves far less.
_REAL = 1e-8


def fieller_limits(
    equations: LinearEquations, k: int, theta: FloatArray, error: float, deviate: float
) -> tuple[float, float]:
    """All values of parameter k of one data set that the test does not reject at ``deviate`` standard normal deviations.

    From the solution θ (p,) and its standard error. The line where values without end are not rejected: the variance of the
    k-th column given the others cannot be told from 0.
    """
    free = np.array([i for i in range(theta.size) if i != k], dtype=np.int64)
    weight = np.zeros(theta.size)
    weight[k] = 1.0
    if free.size:
        # the other parameters move so that their equations hold; M is symmetric, so the weights are the same numbers
        m = equations.curvature(theta[None])[0]
        weight[free] = -np.linalg.solve(m[np.ix_(free, free)], m[free, k])
    along = theta + error * np.arange(-1.0, 2.0)[:, None] * weight
    three = LinearEquations(*(np.repeat(each, 3, axis=0) for each in (equations.mean, equations.second, equations.n)))
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
