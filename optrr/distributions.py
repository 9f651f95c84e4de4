"""The χ² and normal distributions by special functions: the numbers of scipy.stats without its import of half a second."""

from __future__ import annotations

from scipy.special import chdtrc, chdtri, ndtri


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
