"""ln of binomial probabilities to within a few roundings of their distance from the mean, for up to 10^6 trials.

The number k of changes among n attributes of r categories in a uniformly random answer is Binomial(n, d), d = 1 − 1/r.
ln n! − ln k! − ln (n−k)! cancels: near n = 10^6 it is off by 1e-8. Loader's saddle-point form does not
(C. Loader, *Fast and accurate computation of binomial probabilities*, 2000):

    ln Pr(k) = δ(n) − δ(k) − δ(n−k) − D(k, nd) − D(n−k, n(1−d)) + ½ ln(n / (2π k (n−k))),   0 < k < n

with Stirling's remainder δ(n) = ln n! − (n+½) ln n + n − ½ ln 2π and the deviance D(x, y) = x ln(x/y) + y − x ≥ 0.
"""

import numpy as np
from scipy.special import gammaln

from optrr_solvers.arrays import FloatArray

# From here on Stirling's series with four terms is good to 1e-16; below, the direct difference is good to 1e-14.
_SERIES_FROM = 16


def log_change_counts(n: int, size: int) -> FloatArray:
    """ln Pr(k of ``n`` attributes with ``size`` categories change) under a uniformly random answer, shape (n+1,).

    Absolute error below :func:`log_change_counts_error`: 1e-11 at 10^6 attributes where it is not negligible.
    """
    k = np.arange(n + 1.0)
    out = np.empty(n + 1)
    out[0] = -n * np.log(size)
    out[n] = n * np.log1p(-1 / size)
    if n > 1:
        x = k[1:-1]
        rest = _stirling(np.float64(n)) - _stirling(x) - _stirling(n - x) + 0.5 * np.log(n / (2 * np.pi * x * (n - x)))
        out[1:-1] = rest - _deviance(x, n * (size - 1) / size) - _deviance(n - x, n / size)
    return out


def log_change_counts_error(n: int, size: int) -> FloatArray:
    """Bound on the absolute error of :func:`log_change_counts`, shape (n+1,); the tests check it against 40 digits.

    Both deviances are within a few roundings of |k − nd| and of themselves, hence of −ln Pr(k); the constant covers the
    Stirling remainders below 16, which come from a cancelling difference of terms up to 30.
    """
    k = np.arange(n + 1.0)
    return np.asarray(2.0**-53 * (512 + 8 * np.abs(k - n * (size - 1) / size) + 8 * np.abs(log_change_counts(n, size))))


def _stirling(x: FloatArray | np.float64) -> FloatArray:
    safe = np.maximum(x, _SERIES_FROM)
    square = safe * safe
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / safe
    small = np.minimum(x, _SERIES_FROM)
    direct = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(x < _SERIES_FROM, direct, series))


def _deviance(x: FloatArray, y: float) -> FloatArray:
    # near the mean log1p keeps the difference small; far from it 1 + (y−x)/x would cancel, and ln(x/y) does not
    part = (y - x) / x
    near = np.abs(part) < 0.5
    return np.where(near, x * (part - np.log1p(np.where(near, part, 0.0))), x * np.log(x / y) + (y - x))
