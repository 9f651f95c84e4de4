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

from optrr.inference.nullfit import NullFit, independence_fit
from optrr.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Odds ratios beyond these are written as 0 and infinity.
_FARTHEST = np.log(1e4)
# The search for a limit takes at most this many steps and stops at this precision in ln ψ.
_STEPS = 40
_PRECISION = 1e-5
_GENOTYPES = 3
# Variants at once.
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


def odds_ratios(counts: NDArray[np.number], kernel: Kernel, confidence: float = 0.95) -> OddsRatios:
    """Odds ratio of A1 for every variant; ``counts`` and ``kernel`` as in :func:`optrr.genomics.scores.score_test`.

    O(V) time, about 10 µs a variant.
    """
    pieces = [slice(k, k + _VARIANTS) for k in range(0, counts.shape[0], _VARIANTS)]
    return OddsRatios.joined([_piece(counts[p], kernel.part(p), confidence) for p in pieces])


def _piece(counts: NDArray[np.number], kernel: Kernel, confidence: float) -> OddsRatios:
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed: FloatArray = np.asarray(counts, dtype=np.float64) / np.maximum(n, 1.0)[:, None, None]
    rows = min(kernel.sizes[0], _GENOTYPES)
    share = np.arange(float(rows)) / (rows - 1)
    known = kernel.solve(observed)[:, :rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = np.einsum("vgs,g->vs", known, share) / known.sum(axis=1)
    varies = (n > 0) & (counts[:, :rows].sum(axis=2) @ share > 0) & (counts[:, :rows].sum(axis=2) @ (1 - share) > 0)
    varies &= counts[:, :rows].sum(axis=1).min(axis=1) > 0
    limits = np.full((3, n.size), np.nan)
    at = np.flatnonzero(varies)
    if at.size:
        test = _RatioTest.of(observed[at], n[at], kernel.part(at), rows)
        reach = float(ndtri((1 + confidence) / 2))
        limits[:, at] = [np.exp(test.crossing(goal)) for goal in (reach, 0.0, -reach)]
    low, ratio, high = limits
    # where no ratio at all fits, noise has moved the estimate outside of what tables can be: the interval is everything
    nothing = (low == np.inf) | (high == 0)
    return OddsRatios(
        ratio, np.where(nothing, 0.0, low), np.where(nothing, np.inf, high), frequency[:, 1], frequency[:, 0]
    )


@dataclass(frozen=True, eq=False)
class _RatioTest:
    observed: FloatArray
    n: FloatArray
    kernel: Kernel
    fit: NullFit

    @classmethod
    def of(cls, observed: FloatArray, n: FloatArray, kernel: Kernel, rows: int) -> _RatioTest:
        return cls(observed, n, kernel, independence_fit(observed, kernel, rows))

    def part(self, which: IntArray) -> _RatioTest:
        return _RatioTest(self.observed[which], self.n[which], self.kernel.part(which), self.fit.part(which))

    def crossing(self, goal: float) -> FloatArray:
        """ln ψ at which z falls to ``goal``, −inf and inf where it is below or above it throughout: bisection and secants."""
        low, high = np.full(self.n.size, -_FARTHEST), np.full(self.n.size, _FARTHEST)
        z_low, z_high = (self.z(x) - goal for x in (low, high))
        out = np.where(z_low <= 0, -np.inf, np.where(z_high >= 0, np.inf, 0.0))
        open_ = np.flatnonzero(out == 0)
        low, high, z_low, z_high = low[open_], high[open_], z_low[open_], z_high[open_]
        for step in range(_STEPS):
            if not open_.size:
                break
            # every third step is a bisection, because secants may approach a curve from one side only and then hardly move
            secant = low + (high - low) * z_low / (z_low - z_high)
            x = (low + high) / 2 if step % 3 == 0 else secant
            z = self.part(open_).z(x) - goal
            above = z > 0
            low, z_low = np.where(above, x, low), np.where(above, z, z_low)
            high, z_high = np.where(above, high, x), np.where(above, z_high, z)
            out[open_] = low + (high - low) * z_low / (z_low - z_high)
            far = (high - low > _PRECISION) & (np.abs(z) > _PRECISION)
            out[open_[~far]] = np.where(np.abs(z) <= _PRECISION, x, out[open_])[~far]
            open_, low, high, z_low, z_high = open_[far], low[far], high[far], z_low[far], z_high[far]
        return out

    def z(self, log_ratio: FloatArray) -> FloatArray:
        """Signed score statistic of every table's ψ, (V,); falling in ψ."""
        ratio, rows, w = np.exp(log_ratio), self.fit.rows, self.fit.columns
        share = np.arange(float(rows.shape[1])) / (rows.shape[1] - 1)
        f = _frequencies(ratio, rows @ share, w)
        a, b = w * f, w * (1 - f)
        # gradient of A_1 B_0 − ψ A_0 B_1, divided by 1 + ψ
        one, psi = 1 / (1 + ratio), ratio / (1 + ratio)
        controls = np.outer(one * a[:, 1], 1 - share) - np.outer(psi * b[:, 1], share)
        cases = np.outer(one * b[:, 0], share) - np.outer(psi * a[:, 0], 1 - share)
        gradient = np.stack([controls, cases], axis=2)
        table = w[:, None, :] * np.stack([_tilted(rows, f[:, s]) for s in (0, 1)], axis=2)
        if self.fit.beside is not None:
            gradient = np.concatenate([gradient, np.zeros_like(self.fit.beside)], axis=1)
            inside = 1 - self.fit.beside.sum(axis=(1, 2))
            table = np.concatenate([inside[:, None, None] * table, self.fit.beside], axis=1)
        weights = self.kernel.solve_adjoint(gradient).reshape(ratio.size, -1)
        law = self.kernel.expected(table).reshape(weights.shape)
        ones = np.ones(weights.shape[1])
        # no output has a negative chance, so only rounding can make the variance negative
        variance = np.maximum((law * weights**2) @ ones - ((law * weights) @ ones) ** 2, np.finfo(np.float64).tiny)
        return np.asarray(np.sqrt(self.n / variance) * ((self.observed.reshape(weights.shape) * weights) @ ones))


def _frequencies(ratio: FloatArray, f: FloatArray, w: FloatArray) -> FloatArray:
    """f_0 and f_1, (V, 2), of this odds ratio and this mean: the root of a quadratic in f_0."""
    b = w[:, 0] + w[:, 1] * ratio - (ratio - 1) * f
    f_0 = 2 * f / (b + np.sqrt(b**2 + 4 * (ratio - 1) * w[:, 0] * f))
    f_0 = np.clip(f_0, 0.0, 1.0)
    return np.stack([f_0, ratio * f_0 / (1 + (ratio - 1) * f_0)], axis=1)


def _tilted(rows: FloatArray, f: FloatArray) -> FloatArray:
    """Genotype shares p_g t^g, rescaled, whose frequency of A1 is f; (V, R)."""
    if rows.shape[1] == 2:
        return np.stack([1 - f, f], axis=1)
    p_0, p_1, p_2 = rows.T
    middle, last = p_1 * (1 - 2 * f), 2 * f * p_0
    t = 2 * last / (middle + np.sqrt(middle**2 + 8 * p_2 * (1 - f) * last) + np.finfo(np.float64).tiny)
    raw = np.stack([p_0, p_1 * t, p_2 * t**2], axis=1)
    return np.asarray(raw / (raw @ np.ones(3))[:, None])
