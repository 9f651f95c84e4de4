"""The χ², normal and t distributions by special functions: the numbers of scipy.stats without its import of half a second.

Methods are called as there: sf(x) = Pr(X > x), isf its inverse, cdf(x) = Pr(X < x), ppf its inverse, pdf the density.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chdtri, erfc, ndtr, ndtri, stdtrit

from optrr_solvers.arrays import FloatArray


class _ChiSquared:
    """χ² with ``df`` degrees of freedom; x and df may be arrays."""

    @staticmethod
    def sf(x: ArrayLike, df: ArrayLike) -> Any:
        return chdtrc(df, x)

    @staticmethod
    def isf(tail: float, df: float) -> float:
        return float(chdtri(df, tail))


class _Normal:
    """The standard normal distribution."""

    @staticmethod
    def sf(x: ArrayLike) -> Any:
        return ndtr(np.negative(x))

    @staticmethod
    def cdf(x: ArrayLike) -> Any:
        return ndtr(x)

    @staticmethod
    def pdf(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-(x**2) / 2.0) / np.sqrt(2 * np.pi))

    @staticmethod
    def ppf(share: float) -> float:
        return float(ndtri(share))

    @staticmethod
    def isf(tail: float) -> float:
        return float(-ndtri(tail))


class _Student:
    """Student's t with ``df`` degrees of freedom."""

    @staticmethod
    def isf(tail: float, df: float) -> float:
        return float(-stdtrit(df, tail))


chi2, norm = _ChiSquared(), _Normal()
t = _Student()


def chi_squared_tails(x: FloatArray, df: ArrayLike) -> FloatArray:
    """Compute Pr(X > x) of a χ² with ``df`` degrees of freedom, same shape.

    Every x is at least 0; NaN stays.

    ``df`` is one number or one for each x. With one degree of freedom X is the square of a normal variable, whose tail takes a
    fiftieth of the time.
    """
    return np.asarray(erfc(np.sqrt(x / 2)) if np.all(np.equal(df, 1)) else chdtrc(df, x))
