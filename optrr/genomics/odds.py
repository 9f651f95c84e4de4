"""Odds ratios of allele A1 from randomized tables, with delta-method intervals.

With π̂ the unbiased estimate, f_s = Σ_g x_g π̂_gs / (2 W_s) is the frequency of A1 among controls and cases, and

    ln OR = logit f_1 − logit f_0,     Var = gᵀ Cov(π̂) g,

g its gradient and Cov(π̂) the multinomial covariance of the *observed* table pulled back through the mechanism. People
are the sampling units, so the interval needs no Hardy–Weinberg proportions. Estimates whose frequencies fall outside
(0, 1), which noise can bring about, have no odds ratio: NaN, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from optrr.genomics.effects import PairEigenvalues, linear_variance, scale_effects, unbiased
from optrr_solvers.problem import FloatArray


@dataclass(frozen=True, eq=False)
class OddsRatios:
    """``log_ratio`` and its ``standard_error``, estimated frequencies of A1 in ``cases`` and ``controls``; shape (V,)."""

    log_ratio: FloatArray
    standard_error: FloatArray
    cases: FloatArray
    controls: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[OddsRatios]) -> OddsRatios:
        """Odds ratios of several blocks of variants, in order."""
        fields = ("log_ratio", "standard_error", "cases", "controls")
        return cls(*(np.concatenate([getattr(p, k) for p in parts]) for k in fields))

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits of the odds ratio; an upper limit beyond double precision is infinite."""
        reach = ndtri((1 + confidence) / 2) * self.standard_error
        with np.errstate(over="ignore"):
            return np.exp(self.log_ratio - reach), np.exp(self.log_ratio + reach)


def odds_ratios(counts: NDArray[np.number], eigenvalues: PairEigenvalues) -> OddsRatios:
    """Odds ratio of A1 for every variant; ``counts`` as in :func:`optrr.genomics.scores.score_test`."""
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed: FloatArray = np.asarray(counts, dtype=np.float64) / np.where(n > 0, n, 1.0)[:, None, None]
    estimate = unbiased(observed, eigenvalues)
    known = estimate[:, :3]
    copies = np.arange(float(known.shape[1]))
    alleles = copies[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = known.sum(axis=1)
        frequency = np.einsum("vgs,g->vs", known, copies) / (alleles * shares)
        inside = np.all((frequency > 0) & (frequency < 1), axis=1) & (n > 0)
        slope = np.array([-1.0, 1.0]) / (frequency * (1 - frequency) * shares)
        gradient = (copies[None, :, None] / alleles - frequency[:, None, :]) * slope[:, None, :]
        log_ratio = logit(frequency[:, 1]) - logit(frequency[:, 0])
    if estimate.shape[1] > known.shape[1]:
        gradient = np.concatenate([gradient, np.zeros_like(gradient[:, :1])], axis=1)
    gradient = np.where(inside[:, None, None], gradient, 0.0)
    variance = linear_variance(scale_effects(gradient, eigenvalues.inverse), observed) / np.where(n > 0, n, 1.0)
    # observations in one cell say nothing of their own error
    inside = inside & (variance > 0)
    nan = np.full(n.shape, np.nan)
    return OddsRatios(
        np.where(inside, log_ratio, nan), np.where(inside, np.sqrt(variance), nan), frequency[:, 1], frequency[:, 0]
    )
