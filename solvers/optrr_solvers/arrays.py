"""The array types that signatures name, and what is a number."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def real(value: object) -> float:
    """A number as a double; NaN for what is none: texts, truth values, and whole numbers beyond the largest double."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan
