"""Rational enclosures of the few irrational numbers in a certificate, e^ε, f, ln; and sums of doubles, rounded up.

The decimal module's exp and ln are correctly rounded at any precision, so one unit in the last place on either side
encloses them; everything after that is exact integer and rational arithmetic.

The upper side of a certificate for few cells uses them (theory §3.4): densities are e^{l} for stored doubles l, μ is rational,
so Pr(i kept) and Pr(i changed) are enclosed, and with them a law's odds e^{ε_i} = (r_i−1) Pr(kept)/Pr(changed).
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray

# 60 digits resolve f = 1e-22 (ε = 50) with 38 digits to spare.
_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
_ULP = Fraction(1, 10**58)
# A flip ceiling is a multiple of 2^-192.
FLIP_BITS = 192


def exp_bounds(x: float) -> tuple[Fraction, Fraction]:
    """Bound e^x of a double x by rationals, of relative width 2e-58."""
    middle = Fraction(_CONTEXT.exp(Decimal(x)))
    return middle * (1 - _ULP), middle * (1 + _ULP)


def flip_ceiling(size: int, epsilon: float) -> int:
    """Find a small integer k with f = (r−1)/(r−1+e^ε) ≤ k/2^192.

    The smallest that is proved.
    """
    low, _ = exp_bounds(epsilon)
    return math.ceil((size - 1) / (size - 1 + low) * (1 << FLIP_BITS))


def sum_ceiling(parts: Sequence[float]) -> float:
    """Compute the smallest double not below the exact sum."""
    near = math.fsum(parts)
    # fsum rounds the exact sum once, so the sign of what is left over is right
    return near if math.fsum([*parts, -near]) <= 0 else math.nextafter(near, math.inf)


def log_floor(value: Fraction) -> float:
    """Compute a large double not above ln(value); value positive."""
    return _outward(value, -math.inf)


def log_ceiling(value: Fraction) -> float:
    """Compute a small double not below ln(value); value positive."""
    return _outward(value, math.inf)


def log_ceiling_decimal(value: Decimal) -> float:
    """Compute a small double not below ln(value) of an exact decimal.

    The value is positive.
    """
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


# Up to here sums over cells are exact rationals (2^12 cells take a few milliseconds).
EXACT_CELLS = 1 << 12


def attribute_epsilon_bounds(
    sizes: IntArray, classes: Sequence[IntArray], log_density: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Bound every ε_i, shape (m,), from densities over counts.

    Proven; None above 2^12 cells.
    """
    if log_density.size > EXACT_CELLS:
        return None
    outputs = [1]
    for members in classes:
        n, r = members.size, int(sizes[members[0]])
        step = [math.comb(n, k) * (r - 1) ** k for k in range(n + 1)]
        outputs = [x * y for x in outputs for y in step]
    flat = log_density.ravel()
    levels = {level: exp_bounds(level) for level in set(flat.tolist())}
    # with one common denominator the sums are sums of integers; rounding to it adds far less than the width of the enclosures
    smallest = min(low for low, _ in levels.values())
    unit = 1 << (200 + max(0, smallest.denominator.bit_length() - smallest.numerator.bit_length()))
    masses = [
        [n * rounding(levels[x][side] * unit) for n, x in zip(outputs, flat.tolist(), strict=True)]
        for side, rounding in ((0, math.floor), (1, math.ceil))
    ]
    low, high = np.empty(sizes.size), np.empty(sizes.size)
    counts = np.unravel_index(np.arange(flat.size), log_density.shape)
    for members, k in zip(classes, counts, strict=True):
        n, r = members.size, int(sizes[members[0]])
        changed = [sum(int(c) * x for c, x in zip(k, side, strict=True)) for side in masses]
        kept = [sum((n - int(c)) * x for c, x in zip(k, side, strict=True)) for side in masses]
        low[members] = log_floor(Fraction((r - 1) * kept[0], changed[1]))
        high[members] = log_ceiling(Fraction((r - 1) * kept[1], changed[0]))
    return low, high
