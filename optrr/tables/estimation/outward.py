"""Where a function turns negative on the way outwards from an estimate: an end of an interval that inverts a test.

How far the end lies is not known beforehand, so that steps grow until one of them passes it; from there on a root is enclosed
(Brent, Algorithms for Minimization without Derivatives, 1973). A function that can be evaluated at many points at once has
:mod:`optrr.tables.estimation.crossings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import isnan

from scipy.optimize import brentq

# Ends of intervals are found to this share of a step that ends near them where the law is normal.
LIMIT = 1e-3
# The least that an end is found to, for steps of a size near 0.
_LEAST = 1e-15


def outward(start: float, step: float, growth: float, end: float) -> Iterator[float]:
    """The start and points beyond it, each step ``growth`` > 1 times as long as the one before; the last is the ``end``.

    ``step`` has the sign of the way to the end. Without an end in that direction, infinity, the points go on for ever.
    """
    yield start
    while start != end:
        start = end if abs(step) >= abs(end - start) else start + step
        step *= growth
        yield start


def crossing(function: Callable[[float], float], points: Iterator[float], precision: float) -> float | None:
    """Where the function turns negative, between the first two neighbouring points of which the second has a negative value.

    To an absolute ``precision``, the function taken for continuous; its value is computed once at a point. The first of the two
    points where it is negative there, too; None where it is negative at no point after the start, or NaN before that.
    """
    at = cache(function)
    for inside, outside in pairwise(points):
        if isnan(at(inside)) or isnan(at(outside)):
            return None
        if at(outside) < 0:
            return inside if at(inside) < 0 else float(brentq(at, inside, outside, xtol=precision + _LEAST))
    return None
