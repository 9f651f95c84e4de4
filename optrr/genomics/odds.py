"""Odds ratios of allele A1 from randomized tables, with intervals that exist for every variant.

With f_s the frequency of A1 among people of status s, W_s their share, A_s = W_s f_s and B_s = W_s (1 − f_s), the odds ratio is
ψ where g(ψ) = A_1 B_0 − ψ A_0 B_1 = 0. The interval holds every ψ that a score test does not refuse:

    z(ψ) = √n g'(ψ)·π̂ / σ(ψ),      g' the gradient of g in the true table π,

with g' and σ at a table that fits ψ and the margins of the null fit: f_0 and f_1 solve f_1/(1 − f_1) = ψ f_0/(1 − f_0) and
W_0 f_0 + W_1 f_1 = f, and genotypes within a status are the fitted ones tilted to its frequency. At ψ = 1 it is the trend
test, so the interval leaves out 1 exactly where that test's χ² rejects. People are the sampling units: no Hardy–Weinberg
proportions are needed. The estimate is where z(ψ) = 0.

Where noise is so large that no ψ on one side is refused, the limit on that side is 0 or infinity: the data say no more. Every
variant has an interval, so a list of intervals is not a selection of those that came out well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from optrr.genomics.ratio_test import RatioTest, in_one_status
from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.genotypes import GENOTYPES
from optrr.models.tests.nullfit import NullFit, independence_fit
from optrr_solvers.arrays import FloatArray

# Variants at once, so that what their tests hold stays near the cache.
_VARIANTS = 1 << 13


@dataclass(frozen=True, eq=False)
class OddsRatios:
    """``ratio`` with limits ``low`` and ``high`` (0 and inf included), frequencies of A1 in ``cases`` and ``controls``; (V,).

    Frequencies are unbiased, so noise may take them outside 0..1. NaN where a variant has no people or does not vary.
    """

    ratio: FloatArray
    low: FloatArray
    high: FloatArray
    cases: FloatArray
    controls: FloatArray

    @property
    def standard_error(self) -> FloatArray:
        """Of the logarithm, as wide as a 95 % interval makes it; NaN where a limit is 0 or infinity."""
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.log(self.high) - np.log(self.low)
        return np.where(np.isfinite(width), width / (2 * ndtri(0.975)), np.nan)

    @classmethod
    def joined(cls, parts: Sequence[OddsRatios]) -> OddsRatios:
        """Odds ratios of several blocks of variants, in order."""
        fields = ("ratio", "low", "high", "cases", "controls")
        return cls(*(np.concatenate([getattr(p, k) for p in parts]) for k in fields))


def odds_ratios(
    counts: NDArray[np.number], kernel: Kernel, confidence: float = 0.95, fit: NullFit | None = None
) -> OddsRatios:
    """Odds ratio of A1 for every variant; ``counts`` and ``kernel`` as in :func:`optrr.genomics.scores.score_test`.

    ``fit``: of independence of genotype and status, to every table, where it is known already. O(V) time, about 3 µs a variant.
    """
    pieces = [slice(k, k + _VARIANTS) for k in range(0, counts.shape[0], _VARIANTS)]
    fits = [None if fit is None else fit.part(p) for p in pieces]
    return OddsRatios.joined(
        [_piece(counts[p], kernel.part(p), confidence, f) for p, f in zip(pieces, fits, strict=True)]
    )


def _piece(counts: NDArray[np.number], kernel: Kernel, confidence: float, fit: NullFit | None) -> OddsRatios:
    flat = np.asarray(counts, dtype=np.float64).reshape(counts.shape[0], -1)
    n = flat @ np.ones(kernel.cells)
    observed: FloatArray = (flat / np.maximum(n, 1.0)[:, None]).reshape(counts.shape)
    rows = min(kernel.sizes[0], GENOTYPES)
    # people as they count for A1, and people, in controls and in cases: written as a product, because numpy sums slowly over
    # axes of length two or three
    parts = in_one_status([np.arange(rows) / (rows - 1), np.ones(rows)], kernel.sizes[0]).reshape(-1, kernel.cells).T
    (a_0, a_1, w_0, w_1), estimates = (flat @ parts).T, kernel.solve(observed).reshape(flat.shape) @ parts
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = estimates[:, :2] / estimates[:, 2:]
    varies = (a_0 + a_1 > 0) & (w_0 - a_0 + w_1 - a_1 > 0) & (w_0 > 0) & (w_1 > 0)
    limits = np.full((3, n.size), np.nan)
    at = np.flatnonzero(varies)
    if at.size:
        chosen, own = observed[at], kernel.part(at)
        null = independence_fit(chosen, own, rows) if fit is None else fit.part(at)
        test = RatioTest.of(chosen, n[at], own, null)
        reach = float(ndtri((1 + confidence) / 2))
        limits[:, at] = np.exp(test.crossings([reach, 0.0, -reach]))
    low, ratio, high = limits
    # where no ratio at all fits, noise has moved the estimate outside of what tables can be: the interval is everything
    nothing = (low == np.inf) | (high == 0)
    return OddsRatios(
        ratio, np.where(nothing, 0.0, low), np.where(nothing, np.inf, high), frequency[:, 1], frequency[:, 0]
    )


def covariances(x: FloatArray, y: FloatArray, law: FloatArray) -> FloatArray:
    """Var x, Cov(x, y), Var y of one record under a law, shape (3, V)."""
    means = [np.sum(law * w, axis=(1, 2)) for w in (x, y)]
    return np.array(
        [
            np.sum(law * x * x, axis=(1, 2)) - means[0] ** 2,
            np.sum(law * x * y, axis=(1, 2)) - means[0] * means[1],
            np.sum(law * y * y, axis=(1, 2)) - means[1] ** 2,
        ]
    )


def fieller_odds(x: FloatArray, y: FloatArray, covariance: FloatArray, reach: float, table: FloatArray) -> OddsRatios:
    """Odds ratio x/y, and all ψ ≥ 0 with (x − ψ y)² ≤ reach² Var(x − ψ y), a quadratic c_2 ψ² − 2 c_1 ψ + c_0 ≤ 0.

    ``covariance``: Var x, Cov(x, y), Var y, (3, V); ``table``: A2 and A1 by status, for the frequencies, (V, 2, 2).
    """
    c_0, c_1, c_2 = (u - reach**2 * v for u, v in zip((x * x, x * y, y * y), covariance, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(c_1**2 - c_0 * c_2)
        # where y is clearly not 0 the set lies between the roots; otherwise it is everything above the upper root, or
        # everything from 0 on if it contains 0
        low = np.where(c_2 > 0, (c_1 - root) / c_2, np.where(c_0 > 0, c_0 / (c_1 + root), 0.0))
        high = np.where(c_2 > 0, (c_1 + root) / c_2, np.inf)
        ratio = np.maximum(x, 0.0) / np.maximum(y, 0.0)
        frequency = table[:, 1] / table.sum(axis=1)
    # where no ψ of at least 0 is in the set, noise has moved the estimate outside of what tables can be: the interval is
    # everything
    low, high = np.where(low >= 0, low, 0.0), np.where(high > 0, high, np.inf)
    return OddsRatios(np.clip(ratio, low, high), low, high, frequency[:, 1], frequency[:, 0])
