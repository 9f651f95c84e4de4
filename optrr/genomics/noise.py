"""What randomization does to a χ² of association: an estimate of the true one, and when ignoring the mechanism is harmless.

The naive test takes randomized counts for true ones. Under the null hypothesis it expects the mechanism's own dependence,
which is (λ_is − λ_i λ_s) times the two margins' departures from uniform ones: nothing where λ_is = λ_i λ_s (Kronecker) or where
a margin is uniform. Elsewhere its statistic is shifted by about what it gives for the expected table itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, ncx2

from optrr.mechanisms.kernel import Kernel, unrandomized
from optrr.models.tests.genotypes import ASSUMING, GENOTYPES, genotype_test
from optrr.models.tests.nullfit import NullFit
from optrr.models.tests.score import influence, score_tests
from optrr_solvers.arrays import FloatArray

# The naive test counts as keeping its level of 5 % where the mechanism's own dependence raises it to no more than this.
_HARMLESS_LEVEL, _LEVEL = 0.055, 0.05


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


def naive_is_harmless(shift: FloatArray, df: ArrayLike, test: str) -> NDArray[np.bool_]:
    """Whether the naive test rejects at most 5.5 % of true null hypotheses at 5 %, for each variant.

    It never is for the test that assumes Hardy–Weinberg proportions, because randomized genotypes are not in these proportions.
    """
    level = ncx2.sf(chi2.isf(_LEVEL, df), df, np.maximum(shift, 1e-12))
    return np.asarray((level <= _HARMLESS_LEVEL) & (test != ASSUMING))


def _covariance(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    psi = influence(fit, kernel, contrasts)
    law = kernel.forward(fit.table).reshape(psi.shape[0], 1, -1)
    return np.asarray((psi * law) @ np.swapaxes(psi, 1, 2))
