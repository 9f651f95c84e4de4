"""Independence of two attributes in a population, from a weighted, stratified or clustered sample of randomized records.

With the unbiased weighted shares π̂ of the table, r̂ and ĉ its margins, the hypothesis is δ_ij = π_ij − r_i c_j = 0 for all i, j
but the last. δ̂ is linear in the reports to first order: a report counts G_v = J (P⁻¹)_v, J the derivative of δ at π̂. With V the
linearised covariance of the weighted reports (:mod:`optrr.weighting.linearised`) the covariance of δ̂ is S = G V Gᵀ, and with

    X² = δ̂ᵀ D⁻¹ δ̂,       D = G (diag λ − λ λᵀ) Gᵀ,       λ = what r̂ ĉᵀ leads to expect of the reports,

which is Pearson's statistic over n where nothing is randomized, X² is distributed as Σ ρ_k χ²_1, ρ the eigenvalues of D⁻¹ S.
Its first two moments are those of a multiple of χ² with d = (Σρ)²/Σρ² degrees of freedom, and S is estimated from ν of them:

    F = X²/Σρ  ~  F(d, ν d).

Sources: Rao and Scott, Ann. Stat. 12 (1984), 46–60, the second-order correction; Thomas and Rao, J. Am. Stat. Assoc. 82 (1987),
630–636, for F; R's ``survey::svychisq`` prints the same without randomization, but for ν, which is Satterthwaite's here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.estimation.faint import CLEAR_OF_ZERO
from optrr.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# Shares that λ is made of are at least this: D weights the statistic, whose level does not depend on it.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class RaoScott:
    """Of B samples: F, its degrees of freedom, δ̂ of the first cell, λ of the rarest report, and where all margins are clear."""

    statistic: FloatArray
    upper: FloatArray
    lower: FloatArray
    first: FloatArray
    rarest: FloatArray
    clear: NDArray[np.bool_]


def rao_scott(kernel: Kernel, shares: FloatArray, covariance: FloatArray, degrees: FloatArray) -> RaoScott:
    """The test from weighted reports of a table of two attributes.

    Parameters
    ----------
    shares
        λ̂ of the reports, (B, R c) for B samples and a table of R × c cells.
    covariance
        V of these, (B, R c, R c), and its ``degrees`` of freedom ν, (B,).
    """
    shape = (len(shares), *kernel.sizes)
    table = kernel.solve(shares.reshape(shape))
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    apart = (table - rows[:, :, None] * columns[:, None, :])[:, :-1, :-1].reshape(len(shares), -1)
    counted = _counted(kernel, rows, columns)
    spread = counted @ covariance @ counted.transpose(0, 2, 1)
    proper = [np.maximum(margin, _LEAST) for margin in (rows, columns)]
    rows_first, columns_first = (margin / margin.sum(axis=1, keepdims=True) for margin in proper)
    expected = kernel.expected(rows_first[:, :, None] * columns_first[:, None, :]).reshape(shares.shape)
    mean = np.einsum("bdv,bv->bd", counted, expected)
    plain = np.einsum("bdv,bv,bev->bde", counted, expected, counted) - mean[:, :, None] * mean[:, None, :]
    ratio = np.linalg.solve(plain, spread)
    first, second = np.einsum("bdd->b", ratio), np.einsum("bde,bed->b", ratio, ratio)
    squared = np.einsum("bd,bd->b", apart, np.linalg.solve(plain, apart[:, :, None])[:, :, 0])
    upper = first**2 / second
    clear = _clear(kernel, rows, columns, covariance)
    return RaoScott(squared / first, upper, degrees * upper, apart[:, 0], expected.min(axis=1), clear)


def _counted(kernel: Kernel, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """G: what each report counts for the differences of all cells but the last row and column, (B, d, R c)."""
    r, c = kernel.sizes
    cell = np.eye(r * c).reshape(r, c, r, c)
    in_row, in_column = np.eye(r)[:, None, :, None], np.eye(c)[None, :, None, :]
    moved = cell - in_row * columns[:, None, :, None, None] - in_column * rows[:, :, None, None, None]
    return np.asarray(kernel.solve_adjoint(moved[:, :-1, :-1].reshape(-1, r, c)).reshape(len(rows), -1, r * c))


def _clear(kernel: Kernel, rows: FloatArray, columns: FloatArray, covariance: FloatArray) -> NDArray[np.bool_]:
    """Where every category's share is clear of 0, (B,)."""
    r, c = kernel.sizes
    sums = [np.broadcast_to(np.eye(r)[:, :, None], (r, r, c)), np.broadcast_to(np.eye(c)[:, None, :], (c, r, c))]
    counted = kernel.solve_adjoint(np.concatenate(sums)).reshape(r + c, -1)
    errors = np.sqrt(np.einsum("mv,bvw,mw->bm", counted, covariance, counted, optimize=True))
    return np.asarray(np.all(np.concatenate([rows, columns], axis=1) >= CLEAR_OF_ZERO * errors, axis=1))
