"""What randomization does to a test of association: how much of an inflation stays visible, and when ignoring it is harmless.

With V the covariance that the contrasts of a variant have without a mechanism and V' the one they have with it, both per
person at the null fit, an inflation of the statistic without randomization from 1 to 1 + d, such as population structure brings
(Devlin & Roeder 1999), adds d·V to either covariance. So it shows in the randomized scan as

    1 + d · share,     share = df / tr(V⁻¹ V').

The naive test takes randomized counts for true ones. Under the null hypothesis it expects the mechanism's own dependence,
which is (λ_is − λ_i λ_s) times the two margins' departures from uniform ones: nothing where λ_is = λ_i λ_s (Kronecker) or where
a margin is uniform. Elsewhere its statistic is shifted by about what it gives for the expected table itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2

from optrr.inference.genotypes import ASSUMING, GENOTYPES, genotype_test
from optrr.inference.nullfit import NullFit
from optrr.inference.score import influence, score_tests
from optrr.kernel import Kernel, unrandomized
from optrr_solvers.arrays import FloatArray

# Variants at once, so that their influences stay near the cache.
_VARIANTS = 1 << 13
# The naive test counts as keeping its level of 5 % where the mechanism's own dependence raises it to no more than this.
_HARMLESS_LEVEL, _LEVEL = 0.055, 0.05


def visible_share(fit: NullFit, kernel: Kernel, test: str) -> FloatArray:
    """Share of an inflation that stays visible through the mechanism, for each variant; shape (V,), 0..1."""
    contrasts, _ = genotype_test(test, fit.rows.shape[1])
    pieces = [slice(k, k + _VARIANTS) for k in range(0, fit.rows.shape[0], _VARIANTS)]
    return np.concatenate([_visible(fit.part(p), kernel.part(p), contrasts) for p in pieces])


def _visible(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    psi, plain = influence(fit, kernel, contrasts), _plain_covariance(fit, contrasts)
    seen = (psi * fit.expected.reshape(psi.shape[0], 1, -1)) @ np.swapaxes(psi, 1, 2)
    if contrasts.shape[0] == 1:
        return np.asarray(plain / seen)[:, 0, 0]
    # tr(V⁻¹ V') of two contrasts by V's adjugate: a hundred thousand systems of two equations take longer to set up
    (a, b), (_, c) = np.moveaxis(plain, 0, -1)
    (a_seen, b_seen), (_, c_seen) = np.moveaxis(seen, 0, -1)
    return np.asarray(2 * (a * c - b * b) / (c * a_seen - 2 * b * b_seen + a * c_seen))


def _plain_covariance(fit: NullFit, contrasts: FloatArray) -> FloatArray:
    """Covariance V of the contrasts of one person without a mechanism, (V, K, K).

    Rows and statuses are independent, so it is W_0 W_1 times the rows' covariance of what each contrast changes by from one
    status to the other.
    """
    change = contrasts[:, :, 0] - contrasts[:, :, 1]
    centred = change - (fit.rows @ change.T)[:, :, None]
    weight = fit.table[:, : change.shape[1], 0] * fit.columns[:, 1:]
    return np.asarray((centred * weight[:, None, :]) @ np.swapaxes(centred, 1, 2))


def association_chi_squared(counts: NDArray[np.number], kernel: Kernel, test: str = "trend") -> FloatArray:
    """Estimate of the χ² that the true table of these people would have, shape (V,); an estimate, not a test.

    n θ̂ᵀ V⁻¹ θ̂ less what the mechanism's noise adds to it on average, tr(V⁻¹ (V' − V)); kept within 0..n·df, where χ² of a
    table lies. For POR's error measure |χ² − χ²_true|.
    """
    contrasts, fitter = genotype_test(test, min(counts.shape[1], GENOTYPES))
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed = counts / np.maximum(n, 1.0)[:, None, None]
    fit = fitter(observed, kernel)
    plain, seen = (_covariance(fit, k, contrasts) for k in (unrandomized(kernel.sizes), kernel))
    # a genotype that nobody has leaves a contrast without variance; adding the smallest double avoids a division by 0
    plain += np.eye(contrasts.shape[0]) * np.finfo(np.float64).tiny
    effect = np.einsum("zkr,zr->zk", influence(fit, kernel, contrasts), observed.reshape(n.size, -1))
    plug_in = n * np.einsum("zk,zk->z", effect, np.linalg.solve(plain, effect[:, :, None])[:, :, 0])
    noise = np.trace(np.linalg.solve(plain, seen), axis1=1, axis2=2)
    df = contrasts.shape[0]
    return np.where(n > 0, np.clip(plug_in - (noise - df), 0.0, n * df), np.nan)


def naive_shift(fit: NullFit, n: FloatArray, test: str) -> FloatArray:
    """By how much the mechanism's own dependence shifts the naive statistic under the null hypothesis, shape (V,)."""
    contrasts, fitter = genotype_test(test, fit.rows.shape[1])
    sizes = fit.expected.shape[1:]
    return np.asarray(n * score_tests(fit.expected, unrandomized(sizes), contrasts, fitter).statistic)


def naive_is_harmless(shift: FloatArray, df: int, test: str) -> NDArray[np.bool_]:
    """Whether the naive test rejects at most 5.5 % of true null hypotheses at 5 %, for each variant.

    It never is for the test that assumes Hardy–Weinberg proportions, because randomized genotypes are not in these proportions.
    """
    level = ncx2.sf(chi2.isf(_LEVEL, df), df, np.maximum(shift, 1e-12))
    return np.asarray((level <= _HARMLESS_LEVEL) & (test != ASSUMING))


def _covariance(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    psi = influence(fit, kernel, contrasts)
    law = kernel.forward(fit.table).reshape(psi.shape[0], 1, -1)
    return np.asarray((psi * law) @ np.swapaxes(psi, 1, 2))
