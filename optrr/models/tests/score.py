"""Tests of independence in score form, for any kernel and for many tables at once (design §4.4).

Contrasts of dependence, with their covariance at the constrained null fit (a, b):

    δ = C (M_a ⊗ M_b) π̂,  M_a = I − a 1ᵀ,       Cov δ = (1/n) C M P⁻ᵀ diag(λ_0) P⁻¹ Mᵀ Cᵀ,    T = δᵀ (Cov δ)⁻¹ δ ~ χ²_df.

(M_a ⊗ M_b) π̂ is π̂_ab − π̂_a π̂_b, linearised at the fit; it vanishes on every change of the margins, so that estimating them
costs nothing at first order. C picks the contrasts: all cells but the last row and column for independence, (r_a−1)(r_b−1) of
them, or the scores' products for a trend. With all contrasts and the maximum-likelihood null fit, T is Rao's score statistic,
which equals n Σ (λ̂ − λ_0)²/λ_0: Pearson's statistic against what the mechanism makes of independent margins.

Pearson's statistic on the randomized counts alone, against the product of *their* margins, is wrong: randomization that is not
independent across attributes makes outputs dependent where inputs are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.nullfit import Fitter, NullFit, independence_fit
from optrr.models.tests.simulation import HELD
from optrr.tables.distributions import chi_squared_tails
from optrr_solvers.arrays import FloatArray

# The most tables worked on at once, so that a dozen arrays of six cells for each table stay near the cache.
_TABLES = 1 << 13


@dataclass(frozen=True, eq=False)
class ScoreTests:
    """Results of a batch: ``statistic``, ``p_value`` and ``effect`` (signed z, for one contrast, else NaN), shape (B,)."""

    statistic: FloatArray
    df: int
    p_value: FloatArray
    effect: FloatArray
    fit: NullFit

    @classmethod
    def joined(cls, parts: list[ScoreTests]) -> ScoreTests:
        """The tests of several batches, in order."""
        statistic, p_value, effect = (
            np.concatenate([getattr(p, k) for p in parts]) for k in ("statistic", "p_value", "effect")
        )
        return cls(statistic, parts[0].df, p_value, effect, NullFit.joined([p.fit for p in parts]))


def all_contrasts(r_a: int, r_b: int) -> FloatArray:
    """Every cell but the last row and column: ((r_a−1)(r_b−1), r_a, r_b)."""
    cells = np.eye(r_a * r_b).reshape(r_a, r_b, r_a, r_b)
    return cells[:-1, :-1].reshape(-1, r_a, r_b)


def trend_contrast(rows: ArrayLike, columns: ArrayLike) -> FloatArray:
    """Products of the scores: the covariance of row and column scores, (1, r_a, r_b)."""
    return np.multiply.outer(np.asarray(rows, dtype=np.float64), np.asarray(columns, dtype=np.float64))[None]


def score_tests(
    tables: ArrayLike, kernel: Kernel, contrasts: FloatArray | None = None, fitter: Fitter = independence_fit
) -> ScoreTests:
    """Test every table of counts of shape (B, r_a, r_b), randomized by one kernel.

    Parameters
    ----------
    tables
        counts, at least 0 and finite; every table at least 1 record.
    kernel
        of the two attributes. Raises SingularMarginal where it hides their joint effect.
    contrasts
        (K, r_a, r_b); all unless given.
    fitter
        the null hypothesis.

    Raises
    ------
    InvalidInput
        for tables of another shape, negative or non-finite counts, or a table without records.

    Notes
    -----
    O(B K R) time in pieces of 32 MB; 100,000 tables of 3 × 2 take a few seconds.
    """
    counts = np.asarray(tables, dtype=np.float64)
    if counts.ndim != 3 or counts.shape[1:] != kernel.sizes:
        raise InvalidInput(f"tables have shape {counts.shape}; give (B, {', '.join(map(str, kernel.sizes))})")
    # written as a condition that must hold, so that a NaN is refused too
    if counts.size and not (counts.min() >= 0 and counts.max() < np.inf):
        raise InvalidInput("a table holds negative or non-finite counts; give numbers of records of at least 0")
    if counts.shape[0] == 0 or _records(counts).min() <= 0:
        raise InvalidInput("a table counts no records; leave it out of the batch")
    chosen = all_contrasts(*kernel.sizes) if contrasts is None else np.asarray(contrasts, dtype=np.float64)
    kernel.check_invertible()
    step = min(_TABLES, max(1, HELD // (chosen.shape[0] * kernel.cells)))
    pieces = [slice(s, s + step) for s in range(0, counts.shape[0], step)]
    return ScoreTests.joined([_piece(counts[p], kernel.part(p), chosen, fitter) for p in pieces])


def influence(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    """What one output adds to each contrast: C (M_a ⊗ M_b) P⁻ᵀ e_y, shape (B, K, R). Mean 0 under the null fit.

    Contrasts of fewer rows than the tables leave the last rows out, as the null fit does.
    """
    k, r_a, r_b = contrasts.shape
    # C(M_a ⊗ M_b): subtract from each contrast its mean over a, then over b
    over_rows = np.einsum("kab,za->zkb", contrasts, fit.rows)
    centred = contrasts[None] - over_rows[:, :, None, :]
    over_columns = np.einsum("zkab,zb->zka", centred, fit.columns)
    centred = centred - over_columns[:, :, :, None]
    left_out = kernel.sizes[0] - r_a
    if left_out:
        centred = np.concatenate([centred, np.zeros((centred.shape[0], k, left_out, r_b))], axis=2)
    return kernel.solve_adjoint(centred).reshape(-1, k, kernel.cells)


def _piece(counts: FloatArray, kernel: Kernel, contrasts: FloatArray, fitter: Fitter) -> ScoreTests:
    n = _records(counts)
    observed = counts / n[:, None, None]
    fit = fitter(observed, kernel)
    psi = influence(fit, kernel, contrasts)
    delta = np.einsum("zkr,zr->zk", psi, observed.reshape(n.size, -1))
    covariance = (psi * fit.expected.reshape(n.size, 1, -1)) @ np.swapaxes(psi, 1, 2)
    statistic = n * np.einsum("zk,zk->z", delta, _solved(covariance, delta))
    df = contrasts.shape[0]
    effect = np.sign(delta[:, 0]) * np.sqrt(statistic) if df == 1 else np.full(n.size, np.nan)
    return ScoreTests(statistic, df, chi_squared_tails(statistic, df), effect, fit)


def _records(counts: FloatArray) -> FloatArray:
    """Records of each table, (B,); a product with ones, because numpy sums slowly over axes of length two or three."""
    cells = counts[0].size
    return np.asarray(counts.reshape(-1, cells) @ np.ones(cells))


def _solved(covariance: FloatArray, delta: FloatArray) -> FloatArray:
    """Cov⁻¹ δ after scaling to unit variances, so that rare categories do not spoil the solve."""
    scale = 1 / np.sqrt(np.einsum("zkk->zk", covariance))
    correlation = covariance * scale[:, :, None] * scale[:, None, :]
    return np.asarray(scale * np.linalg.solve(correlation, (scale * delta)[:, :, None])[:, :, 0])
