"""Tail probabilities of a mean of weights: exact in the number of heavy reports where these are few, of second order elsewhere.

A report of the cell asked about weighs much, any other little; where a joint effect is nearly hidden, it is another that weighs
most. Where few such reports are expected, their number moves the mean in visible steps, so it is summed over, exactly, and the
rest of the sum is taken as normal around its regression on that number. With one attribute there is no rest and the tails are
those of the binomial law. Where many are expected, the mean has the law of a shifted gamma variable with its first three
moments (Pearson's type III), of second order and monotone everywhere.

Both tails contain the observed value itself, so a test that rejects below a level errs no more often than that.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from optrr.tables.estimation.weighted_mean import NullLaw
from optrr_solvers.arrays import FloatArray, IntArray

# Variance of the number of heavy reports from which steps are not felt: one step then holds at most 4 % of the law, and at two
# standard deviations half a per cent.
_SMOOTH = 100.0
# Standard deviations of that number on each side that are summed over, and reports beyond: what is left out is below 1e-12.
_REACH, _BEYOND = 8.0, 8
# Lengths of the sums; powers of two for the transform.
_LENGTHS = (32, 64, 128, 256)
# A rest whose variance is this small against the whole is rounding.
_NO_REST = 1e-10
# Two sums closer than this share of one heavy report's effect are equal.
_EQUAL = 1e-6
# Below this skewness the gamma law is the normal one to six digits.
_SYMMETRIC = 1e-5
# The largest skewness that a law of these means has; larger estimates come from third moments of few reports and are cut.
_MOST_SKEW = 1.0


def tails(law: NullLaw, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pr(mean ≥ value) and Pr(mean ≤ value), (B,) each."""
    spread = law.n * law.heavy_variance
    upper, lower = _smooth_tails(law, value)
    lengths = np.searchsorted(_LENGTHS, 2 * (_REACH * np.sqrt(np.minimum(spread, _SMOOTH)) + _BEYOND))
    stepped = (spread <= _SMOOTH) & (spread > 0)
    for k, length in enumerate(_LENGTHS):
        chosen = np.flatnonzero(stepped & (lengths == k))
        if chosen.size:
            upper[chosen], lower[chosen] = _stepped_tails(law[chosen], value[chosen], length)
    return upper, lower


def _smooth_tails(law: NullLaw, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    z = (value - law.share) / law.error
    skew = np.clip(law.third / law.variance**1.5 / np.sqrt(law.n), -_MOST_SKEW, _MOST_SKEW)
    size = np.maximum(np.abs(skew), _SYMMETRIC)
    shape = 4 / size**2
    # turned so that the long tail is the upper one
    at = np.maximum(shape + 2 / size * np.where(skew < 0, -z, z), 0.0)
    beyond, short = gammaincc(shape, at), gammainc(shape, at)
    return np.where(skew < 0, short, beyond), np.where(skew < 0, beyond, short)


def _stepped_tails(law: NullLaw, value: FloatArray, length: int) -> tuple[FloatArray, FloatArray]:
    numbers, chances = _heavy_reports(law, length)
    slope = law.covariance / law.heavy_variance
    rest = law.n * (law.variance - law.covariance * slope)
    # what the rest of the sum must reach, beyond the mean that the number of heavy reports gives it
    needed = law.n * (value - law.share)[:, None] - slope[:, None] * (numbers - law.n * law.heavy[:, None])
    alone = (rest <= _NO_REST * law.n * law.variance)[:, None]
    z = needed / np.sqrt(np.where(alone[:, 0], 1.0, rest))[:, None]
    equal = _EQUAL * np.abs(slope)[:, None]
    above = np.where(alone, needed <= equal, ndtr(-z))
    below = np.where(alone, needed >= -equal, ndtr(z))
    return np.sum(chances * above, axis=1), np.sum(chances * below, axis=1)


def _heavy_reports(law: NullLaw, length: int) -> tuple[IntArray, FloatArray]:
    """Numbers of heavy reports around the mean and their chances, (B, length): two binomials, by their transform."""
    first = np.rint(law.n * law.heavy).astype(np.int64) - length // 2
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    size, turn = _turned(law.outside_heavy, law.n - law.certain, angles)
    if law.certain.any():
        more, further = _turned(law.inside_heavy, law.certain, angles)
        size, turn = size + more, turn + further
    shifted = np.exp(size - 1j * (turn - first[:, None] * angles))
    chances = np.maximum(np.fft.irfft(shifted, length, axis=1), 0.0)
    return first[:, None] + np.arange(length), chances


def _turned(chance: FloatArray, people: FloatArray, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm and angle of (1 − c + c e^{is})^people, the transform of a binomial number, (B, angles)."""
    c, m = chance[:, None], people[:, None]
    with np.errstate(divide="ignore"):
        size = np.log1p(np.maximum(-2 * c * (1 - c) * (1 - np.cos(angles)), -1.0)) / 2
    # with nobody in the group the number is 0, whatever the chance
    size = np.where(m > 0, size, 0.0)
    return m * size, m * np.arctan2(c * np.sin(angles), 1 - c + c * np.cos(angles))
