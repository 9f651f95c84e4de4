"""Which coefficients of a log-linear model are infinite where cells of its fitted table have gone to 0.

Coefficients may move in a direction d without end where Xd is the same in all other cells, and less in those that go to 0: the
directions of recession of the likelihood (Fienberg & Rinaldo, Annals of Statistics 40, 2012, §2). A coefficient tends to
infinity where they all take it one way, and has no limit where they take it both ways.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from optrr_solvers.arrays import FloatArray

# Directions that change cells by less than this share of the one that changes them most do not change them.
_SAME = 1e-10
# What a linear program says of a direction of length 1 is 0 below this.
_ZERO = 1e-7


def limits_of_coefficients(coefficients: FloatArray, columns: FloatArray, empty: NDArray[np.bool_]) -> FloatArray:
    """The coefficients (p,) with ∞ or −∞ for those that tend to it where ``empty`` cells (R,) go to 0, NaN for no limit.

    ``columns`` (p, R) are the model's. Two linear programs for each coefficient that the other cells leave open.
    """
    centred = columns - columns[:, ~empty].mean(axis=1, keepdims=True)
    kept = centred[:, ~empty]
    values, vectors = np.linalg.eigh(kept @ kept.T)
    free = vectors[:, values <= _SAME * max(float(np.max(np.sum(centred**2, axis=1))), 1.0)]
    falls, out = centred[:, empty].T @ free, coefficients.copy()
    for k in np.flatnonzero(np.abs(free).max(axis=1, initial=0.0) > _ZERO):
        up, down = (_farthest(side * free[k], falls) for side in (1.0, -1.0))
        if up or down:
            out[k] = nan if up and down else inf if up else -inf
    return out


def _farthest(aim: FloatArray, falls: FloatArray) -> bool:
    """Whether a direction z with ``falls`` z ≤ 0 has ``aim``·z > 0."""
    solution = linprog(-aim, A_ub=falls, b_ub=np.zeros(len(falls)), bounds=(-1, 1))
    return bool(-solution.fun > _ZERO)
