"""The χ² and normal distributions by special functions: the numbers of scipy.stats without its import of half a second."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chdtri, erfc, ndtri

from optrr_solvers.arrays import FloatArray


class _ChiSquared:
    """χ² with ``df`` degrees of freedom."""

    @staticmethod
    def sf(x: float, df: float) -> float:
        """Pr(X > x)."""
        return float(chdtrc(df, x))

    @staticmethod
    def isf(tail: float, df: float) -> float:
        """The x with Pr(X > x) = ``tail``."""
        return float(chdtri(df, tail))


class _Normal:
    """The standard normal distribution."""

    @staticmethod
    def isf(tail: float) -> float:
        """The x with Pr(X > x) = ``tail``."""
        return float(-ndtri(tail))


chi2, norm = _ChiSquared(), _Normal()


def chi_squared_tails(x: FloatArray, df: ArrayLike) -> FloatArray:
    """Pr(X > x) of a χ² with ``df`` degrees of freedom for every x of at least 0, same shape; NaN where x is.

    ``df`` is one number or one for each x. With one degree of freedom X is the square of a normal variable, whose tail takes a
    fiftieth of the time.
    """
    return np.asarray(erfc(np.sqrt(x / 2)) if np.all(np.equal(df, 1)) else chdtrc(df, x))
