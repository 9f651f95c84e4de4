"""Rational enclosures of e^x for rational x, so that a ratio test on a Laplace matrix is a proof and not a rounding.

The decimal module's exp is correctly rounded; the only other error is that of writing the exponent with 60 digits.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

Enclosure = tuple[Fraction, Fraction]

_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
# An exponent up to 1e3 in size is off by at most 1e-57 after rounding to 60 digits; e^x then by 1e-57 relatively.
_RELATIVE = Fraction(1, 10**55)
_LARGEST = 1000


# the entries of a matrix of t categories need only 2t different exponents, each many times
@lru_cache(maxsize=1 << 14)
def exp_enclosure(exponent: Fraction) -> Enclosure:
    """Rationals around e^exponent, relative width 2e-55, for exponents up to 1000 in size."""
    if abs(exponent) > _LARGEST:
        raise OverflowError(f"exponent {float(exponent):g} is outside ±{_LARGEST}")
    if not exponent:
        return Fraction(1), Fraction(1)
    rounded = _CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    middle = Fraction(_CONTEXT.exp(rounded))
    return middle * (1 - _RELATIVE), middle * (1 + _RELATIVE)


def minus(a: Enclosure, b: Enclosure) -> Enclosure:
    """a − b."""
    return a[0] - b[1], a[1] - b[0]


def half(a: Enclosure) -> Enclosure:
    """a/2."""
    return a[0] / 2, a[1] / 2


def ratio_bound(rows: list[list[Enclosure]]) -> Fraction:
    """An upper bound on max over columns of the largest by the smallest entry, entries positive."""
    columns = zip(*rows, strict=True)
    return max(_column_bound(list(column)) for column in columns)


def _column_bound(column: list[Enclosure]) -> Fraction:
    smallest = min(low for low, _ in column)
    if smallest <= 0:
        raise OverflowError("an entry is too small to be told from 0 with 55 digits")
    return max(high for _, high in column) / smallest
