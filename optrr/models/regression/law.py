"""Where the χ² law of a score test does not hold, so that it has no p-value.

T answers for noise of the curvature H to second order (:mod:`optrr.models.regression.solving`). Where this noise makes much of
the variance of the tested scores, higher orders count, and a true value is rejected less often than the level says. Its share
is measured where no parameter has an effect: E, which the noise adds, of N = V_KK, with the score's own weights. There it
depends little on the data set at hand, and hardly on T. The same share at the solution under the hypothesis does depend on T,
so that to print a p-value where it is small would select: the tests that are left would reject less often than all of them.

Of a linear model the scores are linear in θ, and no order is left out. Where the predictors are public, H has no noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optrr.models.regression.equations import Equations
from optrr.models.regression.logistic import UnbiasedEquations
from optrr.models.regression.solving import Tested, spreads, test
from optrr_solvers.arrays import FloatArray

# Tests with larger shares have no p-value. benchmarks/regression_coverage.py measures the levels of those that are printed and
# of those that are not: from shares of 0.06 on, some reject a true value less often than they should.
MOST_FROM_CURVATURE = 0.04


def tested_with_law(equations: Equations, which: tuple[int, ...], values: FloatArray, start: FloatArray) -> Tested:
    """:func:`optrr.models.regression.solving.test`, NaN also where its law does not hold: what has a p-value."""
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
    free = np.array([i for i in range(equations.parameters) if i not in which], dtype=np.int64)
    with np.errstate(all="ignore"):  # a curvature that cannot be inverted gives no number
        noise, added = spreads(equations, theta, weights, free)
    sound: NDArray[np.bool_] = np.all(np.isfinite(noise) & np.isfinite(added), axis=(1, 2))
    spreads_of_score, vectors = np.linalg.eigh(np.where(sound[:, None, None], noise, np.eye(len(part))))
    sound &= spreads_of_score[:, 0] > 0
    half = vectors / np.sqrt(np.where(sound[:, None], spreads_of_score, 1.0))[:, None, :]
    relative = half.transpose(0, 2, 1) @ np.where(sound[:, None, None], added, 0.0) @ half
    return np.where(sound, np.linalg.eigvalsh(relative)[:, -1], np.nan)
