"""Array types for signatures, and the test for numbers."""

import math
from numbers import Real

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def in_a_row(at: IntArray) -> slice | IntArray:
    """Convert consecutive places to a slice, which copies nothing."""
    follow = at.size > 0 and bool(np.all(np.diff(at) == 1))
    return slice(int(at[0]), int(at[-1]) + 1) if follow else at


def real(value: object) -> float:
    """Convert a number to a double; NaN for anything else.

    Texts, truth values, and whole numbers beyond the largest double.
    """
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan
