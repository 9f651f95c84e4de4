"""The two local reports the field builds on: k-ary randomized response (GRR) and optimised unary encoding (OUE).

A report *supports* some categories. GRR sends one category, which it supports; OUE sends r bits and supports those that
are 1. Either way the true category v is supported with probability p and each other with probability q:

    GRR   p = e^ε/(e^ε + r − 1)     q = 1/(e^ε + r − 1)
    OUE   p = 1/2                   q = 1/(e^ε + 1)          (bits independent)

Both are ε-locally differentially private; what is drawn, with 64-bit thresholds rounded towards more privacy, loses less, by up
to 2^-64 e^ε. Sources: Kairouz, Bonawitz & Ramage (2016) for GRR; Wang, Blocki, Li & Jha (2017), *Locally differentially
private protocols for frequency estimation*, for OUE and the choice between them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.problem import FloatArray, IntArray, flip_probabilities, keep_probabilities
from optrr_solvers.randomness import BitSource, bounded, threshold

Oracle = Literal["grr", "oue"]
ORACLES: tuple[Oracle, ...] = ("grr", "oue")

# Random words drawn at once: 32 MB.
_WORDS = 1 << 22


def support_probabilities(oracle: Oracle, size: int, epsilon: float) -> tuple[float, float]:
    """(p, q): how often a report supports the true category, and each other one; ε in nats."""
    if oracle == "oue":
        return 0.5, float(expit(-epsilon))
    return float(keep_probabilities(size, epsilon)), float(flip_probabilities(size, epsilon)) / (size - 1)


@lru_cache(maxsize=1 << 12)
def drawn_epsilon(oracle: Oracle, size: int, epsilon: float) -> float:
    """ε in nats of the report as :func:`report` draws it, from its 64-bit thresholds in exact rationals, rounded up."""
    if oracle == "oue":
        p, q = (_drawn(x) for x in support_probabilities(oracle, size, epsilon))
        return log_ceiling(p / q * (1 - q) / (1 - p))
    moved = _drawn(float(flip_probabilities(size, epsilon)))
    return log_ceiling((1 - moved) * (size - 1) / moved)


def _drawn(probability: float) -> Fraction:
    return Fraction(int(threshold(probability)), 1 << 64)


def report(codes: IntArray, oracle: Oracle, size: int, epsilon: float, source: BitSource) -> NDArray[np.integer]:
    """Randomized reports on true categories, shape (n,): codes (n,) for GRR, bits (n, r) as uint8 for OUE.

    A code of −1 stands for nobody's category: OUE of the zero vector (used as fake data); GRR has no such report.
    """
    if oracle == "oue":
        return _bits(codes, size, epsilon, source)
    moved = source.words(codes.size) < threshold(float(flip_probabilities(size, epsilon)))
    out = codes.copy()
    rows = np.flatnonzero(moved)
    out[rows] = (out[rows] + 1 + bounded(source, rows.size, size - 1)) % size
    return out


def _bits(codes: IntArray, size: int, epsilon: float, source: BitSource) -> NDArray[np.uint8]:
    p, q = support_probabilities("oue", size, epsilon)
    out = np.empty((codes.size, size), dtype=np.uint8)
    step = max(1, _WORDS // size)
    for start in range(0, codes.size, step):
        piece = codes[start : start + step]
        words = source.words(piece.size * size).reshape(piece.size, size)
        bits = words < threshold(q)
        rows = np.flatnonzero(piece >= 0)
        bits[rows, piece[rows]] = words[rows, piece[rows]] < threshold(p)
        out[start : start + step] = bits
    return out


def supports(answers: NDArray[np.integer], size: int) -> FloatArray:
    """How many reports support each category, shape (r,)."""
    if answers.ndim == 2:
        return np.asarray(answers.sum(axis=0, dtype=np.float64))
    return np.bincount(answers, minlength=size).astype(np.float64)


def indicators(answers: NDArray[np.integer], size: int) -> FloatArray:
    """Which categories each report supports, shape (n, r), zeros and ones."""
    if answers.ndim == 2:
        return answers.astype(np.float64)
    return np.asarray(np.eye(size)[answers])
