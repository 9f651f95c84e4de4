"""Measures of dependence between two attributes, from a table (MDR §4 equations 8, 9; SIC §4 equations 5–7).

    ordinal with ordinal    |r|, Pearson's correlation of the categories' scores (:mod:`optrr.domain.scores`)
    otherwise               V = sqrt( (χ²/n) / min(r−1, c−1) ),   χ²/n = φ² = Σ (π_ab − π_a π_b)² / (π_a π_b)

Both papers print f^j_ab in the denominator of χ²; it is e_ab. Categories that nobody has add nothing to φ² but stay in
min(r−1, c−1), as in the papers. Small samples inflate φ² by about (r−1)(c−1)/(n−1); Bergsma's correction takes that off.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.scores import PairScores
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray


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


def pearson(table: ArrayLike, scores: PairScores) -> float:
    """|r| in 0..1 of the categories' scores; 0 where one attribute does not vary."""
    return correlation_size(_proportions(table), scores)


def correlation_size(joint: FloatArray, scores: PairScores) -> float:
    """|r| of proportions, which may be unbiased estimates; 0 where a variance comes out at or below 0, as of few records."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    a, b = scores[0] - rows @ scores[0], scores[1] - columns @ scores[1]
    variances = float(rows @ a**2), float(columns @ b**2)
    covariance = abs(float(a @ joint @ b))
    return min(1.0, covariance / math.sqrt(variances[0] * variances[1])) if min(variances) > 0 else 0.0


def dependence_of(table: IntArray, scores: PairScores | None, small_sample: bool = False) -> float:
    """Of a table of true records: |r| of these scores, or V without them, with Bergsma's correction for a ``small_sample``."""
    if scores is not None:
        return pearson(table, scores)
    return bias_corrected_v(table, int(np.sum(table))) if small_sample else cramers_v(table)


def _proportions(table: ArrayLike) -> FloatArray:
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2 or values.min() < 0 or not values.sum() > 0:
        raise InvalidInput(
            f"a dependence was asked of a table of shape {values.shape}; give a two-way table of at least two categories "
            "each, with no negative entry and some positive one"
        )
    return np.asarray(values / values.sum())
