"""Measures of dependence between two attributes, from a table (MDR §4 equations 8, 9; SIC §4 equations 5–7).

    ordinal with ordinal    |r|, Pearson's correlation of the scores 0..r−1 (or scores given)
    otherwise               V = sqrt( (χ²/n) / min(r−1, c−1) ),   χ²/n = φ² = Σ (π_ab − π_a π_b)² / (π_a π_b)

Both papers print f^j_ab in the denominator of χ²; it is e_ab. Categories that nobody has add nothing to φ² but stay in
min(r−1, c−1), as in the papers. Small samples inflate φ² by about (r−1)(c−1)/(n−1); Bergsma's correction takes that off.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray


def phi_squared(table: ArrayLike) -> float:
    """φ² = χ²/n of a table of counts or proportions, at least 0."""
    joint = _proportions(table)
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    seen = expected > 0
    return float(np.sum((joint[seen] - expected[seen]) ** 2 / expected[seen]))


def cramers_v(table: ArrayLike) -> float:
    """V in 0..1: 0 under independence, 1 where the attribute with more categories determines the other."""
    shape = np.shape(table)
    return min(1.0, math.sqrt(phi_squared(table) / (min(shape) - 1)))


def bias_corrected_v(table: ArrayLike, n: int) -> float:
    """V with Bergsma's small-sample correction, for a table of ``n`` true records; 0 where φ² is below its own bias."""
    if n < 2:
        raise InvalidInput(f"the corrected V got n = {n}; it needs at least 2 records")
    r, c = np.shape(table)
    phi2 = max(0.0, phi_squared(table) - (r - 1) * (c - 1) / (n - 1))
    rows, columns = (k - (k - 1) ** 2 / (n - 1) for k in (r, c))
    room = min(rows - 1, columns - 1)
    return min(1.0, math.sqrt(phi2 / room)) if room > 0 else 0.0


def pearson(table: ArrayLike) -> float:
    """|r| in 0..1 of the categories' positions; 0 where one attribute does not vary."""
    joint = _proportions(table)
    a, b = (_centred(joint.sum(axis=1)), _centred(joint.sum(axis=0)))
    covariance = float(a @ joint @ b)
    variances = float(joint.sum(axis=1) @ a**2) * float(joint.sum(axis=0) @ b**2)
    return min(1.0, abs(covariance) / math.sqrt(variances)) if variances > 0 else 0.0


def _proportions(table: ArrayLike) -> FloatArray:
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2 or values.min() < 0 or not values.sum() > 0:
        raise InvalidInput(
            f"a dependence was asked of a table of shape {values.shape}; give a two-way table of at least two categories "
            "each, with no negative entry and some positive one"
        )
    return np.asarray(values / values.sum())


def _centred(weights: FloatArray) -> FloatArray:
    positions = np.arange(weights.size, dtype=np.float64)
    return np.asarray(positions - weights @ positions)
