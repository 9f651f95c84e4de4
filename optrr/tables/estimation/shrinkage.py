"""A pair's unbiased table shrunk towards independence by as much as its distance from there is noise.

James & Stein (1961), positive part: with z² the mean over cells of squared distances in variances,

    independence + κ (unbiased − independence),      κ = max(0, 1 − 1/z²).
"""

from __future__ import annotations

import numpy as np

from optrr.mechanisms.kernel import Kernel
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray


def seen(distance: FloatArray, observed: FloatArray, n: int, kernel: Kernel) -> float:
    """κ: how much of a table's distance from independence is more than noise."""
    variance = kernel.variance(observed, n)
    # cells that no report speaks of have variance 0, and are known to a record at best
    square = float(np.mean(distance**2 / np.maximum(variance, n**-2.0)))
    return max(0.0, 1 - 1 / square) if square > 0 else 0.0


def shrunk(observed: FloatArray, n: int, kernel: Kernel) -> FloatArray:
    """The shrunk table, made proper, of observed proportions (r_a, r_b) of n reports."""
    raw = kernel.solve(observed)
    apart = np.outer(projection(raw.sum(axis=1)), projection(raw.sum(axis=0)))
    near = apart + seen(raw - apart, observed, n, kernel) * (raw - apart)
    return np.asarray(projection(near.ravel()).reshape(raw.shape))
