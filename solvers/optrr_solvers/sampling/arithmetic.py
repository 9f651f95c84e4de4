"""Two arithmetic types for automata: sixty decimal digits for few states, doubles for many.

Both work on arrays and bound the error of a product (``rounding`` bounds the relative error of one operation), so
bounds proved with either are rounded outward.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray
from optrr_solvers.enclosure import log_ceiling_decimal
from optrr_solvers.randomness import Words

# Numbers of either kind: float64, or Decimal objects.
Numbers = NDArray[Any]

_DIGITS = 60
_CONTEXT = Context(prec=_DIGITS, Emax=10**9, Emin=-(10**9))
_WORD = 64


class Doubles:
    """float64; for densities within e^600 of each other."""

    rounding = 2.0**-52
    # ln of the largest range of densities whose products stay within a double
    longest = 600.0

    def numbers(self, values: FloatArray | float) -> Numbers:
        """Convert to float64."""
        return np.asarray(values, dtype=np.float64)

    def exp(self, logs: FloatArray | float, shrink: float) -> Numbers:
        """Compute e^{(1 − shrink) logs}, within two roundings."""
        return np.exp((1 - shrink) * np.asarray(logs, dtype=np.float64))

    def words(self, shares: Numbers, digits: int) -> Words:
        """Convert shares in [0, 1/2] to multiples of 2^-64·digits, shape (digits, S).

        The first word is the highest; further digits are cut off.
        """
        out = np.empty((digits, shares.size), dtype=np.uint64)
        left = shares.astype(np.float64)
        for d in range(digits):
            left = left * 2.0**_WORD
            whole = np.floor(left)
            out[d] = whole.astype(np.uint64)
            left = left - whole
        return out

    def shares(self, words: Words) -> Numbers:
        """Convert words to doubles, to a relative 2^-52."""
        out = np.zeros(words.shape[1])
        for d in range(words.shape[0] - 1, -1, -1):
            out = (words[d].astype(np.float64) + out) * 2.0**-_WORD
        return out

    def log_ceiling(self, value: Any, operations: int) -> float:
        """Compute ln, rounded up by the error of the operations."""
        near = math.log(float(value))
        return near + self.rounding * (operations + 2) + 4 * math.ulp(near)


class Digits:
    """Arithmetic with sixty decimal digits and any exponent, on Decimal arrays.

    Use it within :meth:`here`.
    """

    rounding = 1e-59

    @staticmethod
    @contextmanager
    def here() -> Iterator[None]:
        """Calculate with these digits in the current thread."""
        with localcontext(_CONTEXT):
            yield

    def numbers(self, values: FloatArray | float) -> Numbers:
        """Convert doubles to Decimals, exactly."""
        return np.asarray(_to_decimal(np.asarray(values, dtype=np.float64)), dtype=object)

    def exp(self, logs: FloatArray | float, shrink: float) -> Numbers:
        """Compute e^{(1 − shrink) logs}, correctly rounded, once per distinct value."""
        values, place = np.unique(np.ravel(logs), return_inverse=True)
        factor = 1 - Decimal(shrink)
        powers = np.array([(Decimal(x) * factor).exp() for x in values.tolist()], dtype=object)
        return np.asarray(powers[place.ravel()].reshape(np.shape(logs)), dtype=object)

    def words(self, shares: Numbers, digits: int) -> Words:
        """Convert shares in [0, 1/2] to multiples of 2^-64·digits, shape (digits, S).

        Numbers are rounded to the nearest.
        """
        scale = Decimal(1 << (_WORD * digits))
        whole = [int(x.to_integral_value()) for x in (shares * scale).tolist()]
        return words_of(whole, digits)

    def shares(self, words: Words) -> Numbers:
        """Convert words to Decimals, exactly up to sixty digits."""
        scale = Decimal(1 << (_WORD * words.shape[0]))
        return np.array([Decimal(x) / scale for x in integers(words)], dtype=object)

    def log_ceiling(self, value: Any, operations: int) -> float:
        """Compute the double above ln."""
        return log_ceiling_decimal(value * (1 + Decimal(self.rounding) * (operations + 2)))


# What the builder and the bounds calculate with.
Arithmetic = Doubles | Digits

_to_decimal = np.frompyfunc(lambda x: Decimal(float(x)), 1, 1)


def words_of(whole: list[int], digits: int) -> Words:
    """Convert integers below 2^(64·digits) to words, shape (digits, S).

    The first word is the highest.
    """
    low = (1 << _WORD) - 1
    rows = [[(x >> (_WORD * (digits - 1 - d))) & low for x in whole] for d in range(digits)]
    return np.array(rows, dtype=np.uint64).reshape(digits, len(whole))


def integers(words: Words) -> list[int]:
    """Convert words to integers; the inverse of :func:`words_of`."""
    out = [0] * words.shape[1]
    for row in words:
        out = [(x << _WORD) + d for x, d in zip(out, row.tolist(), strict=True)]
    return out


def complement(words: Words) -> Words:
    """Compute 2^(64·digits) − x for 0 < x < 2^(64·digits), word by word."""
    out = ~words
    carry = np.ones(words.shape[1], dtype=np.bool_)
    for d in range(words.shape[0] - 1, -1, -1):
        out[d] += carry
        carry &= out[d] == 0
    return out


def difference(a: Words, b: Words) -> Words:
    """Subtract b from a ≥ b, word by word."""
    out = np.empty_like(a)
    borrow = np.zeros(a.shape[1], dtype=np.bool_)
    for d in range(a.shape[0] - 1, -1, -1):
        out[d] = a[d] - b[d] - borrow
        borrow = (a[d] < b[d]) | ((a[d] == b[d]) & borrow)
    return out
