"""Constrained likelihood-ratio test of independence: 2n [ℓ(likeliest distribution) − ℓ(likeliest independent one)].

Both maxima are taken over proper distributions (design §4.4). The limit is χ² with (r_a−1)(r_b−1) degrees of freedom where the
true distribution has no empty cell. Where cells are within a few standard errors of 0, the likeliest distribution has empty
ones by chance, T falls short of χ², and its p-value is too large: levels of 0 to 3 % at nominal 5 %. `test` bootstraps there.
How far a cell is from 0 is judged at the null fit, because a p-value speaks about the distribution under the null.

Tables are fitted many at once. Where the unbiased estimate is proper it is the likeliest distribution; elsewhere, and for the
margins of the null fit in turns, :mod:`optrr.tables.estimation.mixture`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.chi_square import CLEAR_OF_ZERO
from optrr.models.tests.nullfit import NullFit, expected_product, independence_fit
from optrr.models.tests.simulation import HELD
from optrr.tables.estimation.mixture import likeliest_weights
from optrr.tables.estimation.simplex import clip
from optrr_solvers.arrays import FloatArray

# Newton's matrices grow with the square of the cells: 8 MB a table at this size.
MAX_CELLS = 1024
# Bound on the distance from the maximum, in nats per record: at 10^8 records 2e-4 in T.
_TOLERANCE = 1e-12
# Rounds over the two margins; they are nearly uncorrelated, so two or three rounds are enough.
_ROUNDS = 100
# Records' worth added to every category of the margins that a bootstrap draws from, as Jeffreys' prior does: a fitted margin
# has empty categories more often than the truth, and its draws fall short as well. Of 3000 tables of 6 × 3 at n = 1000,
# p-values were at most 0.1 in 10.2 % with it and in 11.2 % without.
_PADDING = 0.5
# Starting weights keep this much of the even ones, so that no observed output is impossible.
_EVEN = 0.01


@dataclass(frozen=True, eq=False)
class LikelihoodRatios:
    """Of a batch: ``statistic``, χ² ``p_value``, and whether χ² holds: no cell of the fitted null near 0; shape (B,)."""

    statistic: FloatArray
    df: int
    p_value: FloatArray
    near_boundary: NDArray[np.bool_]
    fit: NullFit


def likelihood_ratios(tables: FloatArray, kernel: Kernel) -> LikelihoodRatios:
    """Test every table of counts, (B, r_a, r_b), randomized by one invertible kernel of up to 1024 cells.

    O(B R³) time in pieces of 32 MB: 20 to 50 µs a table of 6 × 3.
    """
    step = max(1, HELD // kernel.cells**2)
    pieces = [_piece(tables[s : s + step], kernel) for s in range(0, tables.shape[0], step)]
    statistic, rows, columns, expected = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    df = (kernel.sizes[0] - 1) * (kernel.sizes[1] - 1)
    fit = NullFit(rows, columns, expected)
    near = _near_boundary(fit, tables.sum(axis=(1, 2)), kernel)
    return LikelihoodRatios(statistic, df, np.asarray(chi2.sf(statistic, df)), near, fit)


def likeliest_product(observed: FloatArray, kernel: Kernel) -> NullFit:
    """The likeliest independent distribution of every table: Fisher scoring, then one margin at a time where it stopped short.

    Given one margin, the likeliest other one is that of a mixture, which is computed exactly, also on the boundary.
    """
    fit = independence_fit(observed, kernel)
    rows, columns = fit.rows.copy(), fit.columns.copy()
    flat = observed.reshape(observed.shape[0], -1)
    p = kernel.matrix().reshape(*kernel.sizes, kernel.cells)
    open_ = np.arange(flat.shape[0])
    for _ in range(_ROUNDS):
        by_rows = np.einsum("zj,ijr->zir", columns[open_], p)
        rows[open_], _, first = likeliest_weights(flat[open_], by_rows, rows[open_], _TOLERANCE)
        by_columns = np.einsum("zi,ijr->zjr", rows[open_], p)
        columns[open_], _, second = likeliest_weights(flat[open_], by_columns, columns[open_], _TOLERANCE)
        open_ = open_[(first > 0) | (second > 0)]
        if not open_.size:
            break
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def padded_null(fit: NullFit, n: float | NDArray[np.integer], kernel: Kernel) -> NullFit:
    """The null fit with half a record added to each category of each margin, for a bootstrap; ``n`` of all or each.

    A record counts as many as it takes without randomization to estimate an even margin as well.
    """
    rows, columns = (_padded(margins, fit, n, kernel, axis) for axis, margins in enumerate((fit.rows, fit.columns)))
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def _padded(margins: FloatArray, fit: NullFit, n: float | NDArray[np.integer], kernel: Kernel, axis: int) -> FloatArray:
    r = margins.shape[1]
    members = np.expand_dims(np.eye(r), 2 - axis) * np.ones(kernel.sizes)
    weights = kernel.solve_adjoint(members).reshape(r, -1)
    outputs = fit.expected.reshape(-1, kernel.cells)
    variance = np.sum(outputs @ (weights**2).T - (outputs @ weights.T) ** 2, axis=1, keepdims=True) / np.reshape(
        n, (-1, 1)
    )
    # 1/records is variance over 1 − 1/r
    added = _PADDING * np.maximum(variance, 0.0) / (1 - 1 / r)
    return np.asarray((margins + added) / (1 + r * added))


def _piece(tables: FloatArray, kernel: Kernel) -> tuple[FloatArray, ...]:
    n = tables.sum(axis=(1, 2))
    observed = tables / n[:, None, None]
    null = likeliest_product(observed, kernel)
    free = _likeliest(observed, kernel)
    seen = observed > 0
    logs = np.log(np.divide(free, null.expected, out=np.ones_like(free), where=seen))
    statistic = np.maximum(2 * n * np.sum(observed * logs, axis=(1, 2)), 0.0)
    return statistic, null.rows, null.columns, null.expected


def _likeliest(observed: FloatArray, kernel: Kernel) -> FloatArray:
    """Expected outputs of the likeliest distribution: the observed ones where the unbiased estimate is proper."""
    unbiased = kernel.solve(observed)
    outside = unbiased.min(axis=(1, 2)) < 0
    out = observed.copy()
    if outside.any():
        flat = observed[outside].reshape(-1, kernel.cells)
        start = (1 - _EVEN) * clip(unbiased[outside].reshape(flat.shape)) + _EVEN / kernel.cells
        matrix = kernel.matrix()
        weights, _, _ = likeliest_weights(flat, matrix[None], start, _TOLERANCE)
        out[outside] = (weights @ matrix).reshape(-1, *kernel.sizes)
    return out


def _near_boundary(null: NullFit, n: FloatArray, kernel: Kernel) -> NDArray[np.bool_]:
    cells = null.rows[:, :, None] * null.columns[:, None, :]
    errors = np.sqrt(kernel.exact_variance(null.expected, 1.0) / n[:, None, None])
    return np.asarray((cells < CLEAR_OF_ZERO * errors).any(axis=(1, 2)))
