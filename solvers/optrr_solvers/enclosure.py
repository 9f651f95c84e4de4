"""Rational enclosures of the few irrational numbers in a certificate, e^ε, f, ln; and sums of doubles, rounded up.

The decimal module's exp and ln are correctly rounded at any precision, so one unit in the last place on either side
encloses them; everything after that is exact integer and rational arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

# 60 digits resolve f = 1e-22 (ε = 50) with 38 digits to spare.
_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
_ULP = Fraction(1, 10**58)
# A flip ceiling is a multiple of 2^-192.
FLIP_BITS = 192


def exp_bounds(x: float) -> tuple[Fraction, Fraction]:
    """Rationals around e^x for a double x, relative width 2e-58."""
    middle = Fraction(_CONTEXT.exp(Decimal(x)))
    return middle * (1 - _ULP), middle * (1 + _ULP)


@lru_cache(maxsize=1 << 16)
def flip_ceiling(size: int, epsilon: float) -> int:
    """Smallest integer k known to have f = (r−1)/(r−1+e^ε) ≤ k/2^192."""
    low, _ = exp_bounds(epsilon)
    return math.ceil((size - 1) / (size - 1 + low) * (1 << FLIP_BITS))


def sum_ceiling(parts: Sequence[float]) -> float:
    """Smallest double not below the exact sum of the given ones."""
    near = math.fsum(parts)
    # fsum rounds the exact sum once, so the sign of what is left over is right
    return near if math.fsum([*parts, -near]) <= 0 else math.nextafter(near, math.inf)


def log_floor(value: Fraction) -> float:
    """Largest convenient double not above ln(value); value positive."""
    return _outward(value, -math.inf)


def log_ceiling(value: Fraction) -> float:
    """Smallest convenient double not below ln(value); value positive."""
    return _outward(value, math.inf)


def log_ceiling_decimal(value: Decimal) -> float:
    """Smallest convenient double not below ln(value), the decimal taken as exact; value positive."""
    logarithm = _CONTEXT.next_plus(_CONTEXT.ln(value))
    near = float(logarithm)
    return near if Decimal(near) >= logarithm else math.nextafter(near, math.inf)


def _outward(value: Fraction, towards: float) -> float:
    if value == 1:
        return 0.0
    ratio = _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))
    # the rounded division shifts the logarithm by up to 1e-59, whatever its size; a step of a double covers the rest
    middle = float(_CONTEXT.ln(ratio)) + math.copysign(1e-58, towards)
    return math.nextafter(math.nextafter(middle, towards), towards)
