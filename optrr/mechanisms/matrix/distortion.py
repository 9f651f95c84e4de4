"""Distortion matrices of one attribute, held as the whole numbers they are drawn with (RVL §4.1, Results 1 and 3).

P[u, v] = Pr(output v | input u), rows sum to 1 (RVL writes the transpose). The mechanism is ε-locally private for

    ε = ln max_v ( max_u P[u, v] / min_u P[u, v] ),                                              (RVL Result 3)

one column of P at a time. A sampler compares uniform words with thresholds, so what runs is a matrix of multiples of
2^-63. It is that matrix which is stored, whose ε is computed in exact rationals and rounded up, and which estimation
inverts: nothing is lost between the formula and the draw. A positive entry is at least 2^-63, so ε ends at 43.67.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import MatrixKernel
from optrr.mechanisms.kernel.matrices import WRITTEN_SUM
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource

Weights = NDArray[np.uint64]

# Probabilities are multiples of 2^-63, so that even the weight of a certain answer fits in 64 bits.
SCALE = 1 << 63
# r² exact fractions: a million take about two seconds.
MAX_CATEGORIES = 1000


@dataclass(frozen=True, eq=False)
class DistortionMatrix:
    """A row-stochastic matrix as weights: ``weights[u, v]`` / 2^63 is the probability of output v for input u.

    Make one with :func:`from_probabilities`, or with the functions of :mod:`optrr.mechanisms.matrix`.
    """

    weights: Weights

    @property
    def size(self) -> int:
        """r, the number of categories."""
        return int(self.weights.shape[0])

    @cached_property
    def probabilities(self) -> FloatArray:
        """P, shape (r, r), rows sum to 1."""
        out = self.weights.astype(np.float64) / SCALE
        out.setflags(write=False)
        return out

    @cached_property
    def epsilon(self) -> float:
        """Result 3's ε in nats of the matrix as drawn, exact and rounded up; infinite where some output excludes an input."""
        largest, smallest = self.weights.max(axis=0), self.weights.min(axis=0)
        used = largest > 0
        if not smallest[used].all():
            return math.inf
        pairs = zip(largest[used].tolist(), smallest[used].tolist(), strict=True)
        return log_ceiling(max(Fraction(high, low) for high, low in pairs))

    @property
    def trace(self) -> float:
        """Σ_v P[v, v]: what RVL maximises; trace/r is how often the report is true, over uniformly distributed records."""
        return float(np.trace(self.probabilities))

    @cached_property
    def attribute_epsilon(self) -> float:
        """ε of the randomized response that is as often true, in nats (POR eq. 2); 0 where the report is less often true."""
        excess = (self.size - 1) * self.trace / max(self.size - self.trace, 1 / SCALE)
        return max(0.0, math.log(excess)) if excess > 0 else 0.0

    def kernel(self, name: str = "the attribute") -> MatrixKernel:
        """For estimation: `solve` is RVL eq. 17, `covariance` eq. 18."""
        return MatrixKernel(self.probabilities, (self.size,), (name,))

    @cached_property
    def _thresholds(self) -> Weights:
        """Cumulative weights of every row but the last entry, shape (r, r−1)."""
        return np.cumsum(self.weights[:, :-1], axis=1, dtype=np.uint64)

    def sample(self, codes: NDArray[np.integer], source: BitSource) -> IntArray:
        """Outputs for inputs 0..r−1, shape (n,). O(n log r) time, 24 bytes a record."""
        words = source.words(codes.size) >> np.uint64(1)
        out = np.empty(codes.size, dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(self.size + 1))
        for u in range(self.size):
            rows = order[edges[u] : edges[u + 1]]
            out[rows] = np.searchsorted(self._thresholds[u], words[rows], side="right")
        return out


def from_probabilities(probabilities: Any) -> DistortionMatrix:
    """Any matrix P[u, v] = Pr(output v | input u), shape (r, r), r from 2 to 1000.

    Rows are rescaled to sum to 1 exactly and rounded to multiples of 2^-63; a positive entry stays positive. Entries of 0
    are allowed and make ε infinite.

    Raises
    ------
    InvalidInput
        for a matrix that is not square, holds anything but numbers from 0 to 1, whose rows do not sum to 1 within 1e-6,
        or that is singular.
    """
    p = _checked(probabilities)
    rows = [[Fraction(x) for x in row] for row in p.tolist()]
    totals = [sum(row, Fraction(0)) for row in rows]
    made = from_fractions([[x / t for x in row] for row, t in zip(rows, totals, strict=True)])
    made.kernel().check_invertible()
    return made


def from_fractions(rows: list[list[Fraction]]) -> DistortionMatrix:
    """Rounded to multiples of 2^-63, the largest entry of each row taking up the rest; rows must sum to about 1."""
    return DistortionMatrix(np.array([_weights(row) for row in rows], dtype=np.uint64))


def _weights(row: list[Fraction]) -> list[int]:
    # rounding up makes small entries larger, which lowers the ratios
    out = [math.ceil(x * SCALE) for x in row]
    out[out.index(max(out))] += SCALE - sum(out)
    return out


def _checked(probabilities: Any) -> FloatArray:
    try:
        p = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("a distortion matrix holds numbers, one row for each category; this one does not") from None
    if p.ndim != 2 or p.shape[0] != p.shape[1]:
        raise InvalidInput(f"a distortion matrix is square, got shape {p.shape}; give one row and column per category")
    if not 2 <= p.shape[0] <= MAX_CATEGORIES:
        raise InvalidInput(f"a distortion matrix has 2 to {MAX_CATEGORIES} categories, got {p.shape[0]}")
    if not ((p >= 0) & (p <= 1)).all():
        u, v = np.argwhere(~((p >= 0) & (p <= 1)))[0]
        raise InvalidInput(f"entry ({u}, {v}) of the distortion matrix is {p[u, v]}; probabilities lie between 0 and 1")
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() > WRITTEN_SUM:
        u = int(off.argmax())
        hint = "; its columns do sum to 1: transpose it" if np.abs(p.sum(axis=0) - 1).max() <= WRITTEN_SUM else ""
        raise InvalidInput(f"row {u} of the distortion matrix sums to {p[u].sum():.6g}; rows must sum to 1{hint}")
    return p
