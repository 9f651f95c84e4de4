"""Where functions change their sign, many at once: the method of Chandrupatla (Advances in Engineering Software 28, 1997, 145).

``scipy.optimize.elementwise.find_root`` does the same. To import it takes a sixth of the time of a whole estimate of a small
file, and every estimate with intervals would pay for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray, IntArray

# Values at points, (k,), of the functions of these positions, (k,).
Functions = Callable[[FloatArray, IntArray], FloatArray]


def crossings(
    functions: Functions, low: FloatArray, high: FloatArray, absolute: float | FloatArray, relative: float
) -> FloatArray:
    """Brackets, (2, B), lower ends first: each holds a change of sign and is shorter than absolute + relative · |x|.

    ``low`` and ``high``, (B,), are points at which each function has different signs; it need not be continuous. A point
    where the function is 0 is a bracket of length 0. About ten evaluations of each function where it is smooth; at most about
    twice what halving takes.
    """
    at, absolute = np.arange(low.size), np.broadcast_to(absolute, low.shape)
    a, b = np.array(high, dtype=np.float64), np.array(low, dtype=np.float64)
    fa, fb = functions(a, at), functions(b, at)
    t = np.full(low.size, 0.5)
    out = np.stack([a, b])
    while at.size:
        x = a + t * (b - a)
        fx = functions(x, at)
        same = np.sign(fx) == np.sign(fa)
        c, fc = _chosen(same, a, b), _chosen(same, fa, fb)
        b, fb = _chosen(same, b, a), _chosen(same, fb, fa)
        a, fa = x, fx
        b = _chosen(fa == 0, a, b)
        shortest: FloatArray = absolute[at] + relative * np.abs(_chosen(np.abs(fa) < np.abs(fb), a, b))
        out[:, at] = a, b
        left = np.abs(b - a) > shortest
        at = at[left]
        a, b, c, fa, fb, fc = (values[left] for values in (a, b, c, fa, fb, fc))
        t = _step(a, b, c, fa, fb, fc, shortest[left])
    return np.sort(out, axis=0)


def _step(  # noqa: PLR0913 (three points and their values)
    a: FloatArray, b: FloatArray, c: FloatArray, fa: FloatArray, fb: FloatArray, fc: FloatArray, shortest: FloatArray
) -> FloatArray:
    """Which share of the way from a to b to go: by inverse quadratic interpolation where that is safe, else half."""
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        interpolated = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    least = 0.5 * shortest / np.abs(b - a)
    return np.asarray(np.clip(np.where(safe, interpolated, 0.5), least, 1 - least))


def _chosen(first: NDArray[np.bool_], one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.where(first, one, other), dtype=np.float64)
