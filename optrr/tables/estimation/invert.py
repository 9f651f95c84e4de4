"""Ends of intervals that invert a test: where a function turns negative on the way outwards from an estimate.

For one function, how far the end lies is not known beforehand, so that steps grow until one of them passes it; from there on a
root is enclosed (Brent, Algorithms for Minimization without Derivatives, 1973). Many functions, each with a known farthest
point, take their steps together by the method of Chandrupatla (Advances in Engineering Software 28, 1997, 145).

``scipy.optimize.elementwise.find_root`` does the same as the latter. To import it takes a sixth of the time of a whole estimate
of a small file, and every estimate with intervals would pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import copysign, inf, isnan

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from optrr_solvers.arrays import FloatArray, IntArray

# Values at points, (k,), of the functions of these positions, (k,).
Functions = Callable[[FloatArray, IntArray], FloatArray]

# Where a step does not reach the end, the next is this many times as long.
GROWTH = 1.5
# Ends of intervals are found to this share of a first step that ends near them where the law is normal.
LIMIT = 1e-3
# The least that an end is found to, for steps of a size near 0.
_LEAST = 1e-15


class _Untested(Exception):
    """A value on the way, or between two others, at which the function is NaN."""


def outward(start: float, step: float, growth: float, end: float) -> Iterator[float]:
    """The start and points beyond it, each step ``growth`` > 1 times as long as the one before; the last is the ``end``.

    ``step`` has the sign of the way to the end. Without an end in that direction, infinity, the points go on for ever.
    """
    yield start
    while start != end:
        start = end if abs(step) >= abs(end - start) else start + step
        step *= growth
        yield start


def invert(  # noqa: PLR0913 (a function, the way, and how finely it is gone)
    function: Callable[[float], float],
    start: float,
    step: float,
    end: float,
    *,
    growth: float = GROWTH,
    precision: float = LIMIT,
) -> float:
    """Where the function turns negative, between the first two points `outward` of which the second has a negative value.

    To ``precision`` steps, the function taken for continuous; its value is computed once at a point. The first of the two
    points where it is negative there, too. Infinite in the direction of the ``end`` where it is negative at no point after the
    start, or NaN before the end is found.
    """

    @cache
    def at(point: float) -> float:
        value = function(point)
        if isnan(value):
            raise _Untested
        return value

    try:
        for inside, outside in pairwise(outward(start, step, growth, end)):
            at(inside)
            if at(outside) < 0:
                xtol = precision * abs(step) + _LEAST
                return inside if at(inside) < 0 else float(brentq(at, inside, outside, xtol=xtol))
    except _Untested:
        pass
    return copysign(inf, (end - start) or step)


def inverted(
    functions: Functions, near: FloatArray, far: FloatArray, absolute: float | FloatArray, relative: float
) -> FloatArray:
    """Brackets, (2, B), of where functions turn negative on the way from ``near`` to ``far``, (B,); nearer ends first.

    A bracket holds a change of sign and is shorter than absolute + relative · |x|; a point where the function is 0 is one of
    length 0. It is twice the far point where the function is not negative there or that is the near one, and else twice the
    near point where the function is not positive. About ten evaluations of each function where it is smooth; at most about
    twice what halving takes. It need not be continuous.
    """
    everything = np.arange(near.size)
    at_near, at_far = functions(near, everything), functions(far, everything)
    out = np.tile(np.where((at_far >= 0) | (near == far), far, near), (2, 1))
    at = np.flatnonzero((at_far < 0) & (at_near > 0) & (near != far))
    absolute = np.broadcast_to(absolute, near.shape)
    a, b, fa, fb = near[at], far[at], at_near[at], at_far[at]
    t = np.full(at.size, 0.5)
    out[:, at] = a, b
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
    return np.where(np.abs(out[0] - near) <= np.abs(out[1] - near), out, out[::-1])


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
