"""The likelihood ratio of independence, 2n [ℓ(likeliest distribution) − ℓ(likeliest independent one)].

Both maxima are taken over proper distributions (theory §4.4). The limit is χ² with (r_a−1)(r_b−1) degrees of freedom where the
true distribution has no empty cell. Where cells are within a few standard errors of 0, the likeliest distribution has empty
ones by chance, T falls short of χ², and its p-value is too large: levels of 0 to 3 % at nominal 5 %. How far a cell is from 0
is judged at the null fit, because a p-value speaks about the distribution under the null.

Where the unbiased estimate is proper it is the likeliest distribution; elsewhere, and for the margins of the null fit in turns,
:mod:`optrr.core.estimation.likelihood`.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi2
from optrr.core.estimation.likelihood import likeliest_weights
from optrr.core.estimation.simplex import clip
from optrr.core.inference.associations import Association
from optrr.core.inference.nullfit import NullFit, ScoreTests, all_contrasts, expected_product, independence_fit
from optrr.core.inference.simulation import CLEAR_OF_ZERO, FIT_WORK, HELD, records_clear
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# Newton's matrices grow with the square of the cells: 8 MB a table at this size.
MAX_CELLS = 1024
# Bound on the distance from the maximum, in nats per record: at 10^8 records 2e-4 in T.
_TOLERANCE = 1e-12
# Rounds over the two margins; they are nearly uncorrelated, so two or three rounds are enough.
_ROUNDS = 100
# Starting weights keep this much of the even ones, so that no observed output is impossible.
_EVEN = 0.01


class LikelihoodRatio(Association):
    """Likelihood ratio test.

    O(R³) time per table, in blocks of 32 MB: 20 to 50 µs for 6 × 3.
    """

    name = "likelihood-ratio"
    is_score = False

    def __post_init__(self) -> None:
        if self.kernel.cells > MAX_CELLS:
            raise InvalidInput(
                f"the table has {self.kernel.cells} cells; the likelihood ratio takes at most {MAX_CELLS}; test 'independence'"
            )

    @cached_property
    def contrasts(self) -> FloatArray:
        """Contrasts of independence, which power uses."""
        return all_contrasts(*self.sizes)

    @property
    def work(self) -> int:
        """Multiplications that one table takes, about."""
        return self.kernel.cells**3 + FIT_WORK

    def clear(self, fit: NullFit, n: FloatArray) -> NDArray[np.bool_]:
        """Check that every cell of the null fit is clear of 0, (B,)."""
        cells = fit.rows[:, :, None] * fit.columns[:, None, :]
        errors = np.sqrt(self.kernel.exact_variance(fit.expected, 1.0) / n[:, None, None])
        return np.asarray((cells >= CLEAR_OF_ZERO * errors).all(axis=(1, 2)))

    def clear_from(self, fit: NullFit, expected: FloatArray) -> float:
        """Compute the number of records at which hypothesis and truth are clear of 0."""
        pairs = (
            (np.outer(fit.rows[0], fit.columns[0]), fit.expected[0]),
            (self.kernel.solve(expected[None])[0], expected),
        )
        return max(records_clear(cells, self.kernel.exact_variance(law[None], 1.0)[0]) for cells, law in pairs)

    def tested(self, tables: NDArray[np.number]) -> ScoreTests:
        """Compute statistics with p-values of χ²."""
        counts, step = np.asarray(tables, dtype=np.float64), max(1, HELD // self.kernel.cells**2)
        parts = [_ratios(counts[s : s + step], self.kernel) for s in range(0, len(counts), step)]
        statistic, fit, df = (
            np.concatenate([s for s, _ in parts]),
            NullFit.joined([f for _, f in parts]),
            len(self.contrasts),
        )
        return ScoreTests(statistic, df, np.asarray(chi2.sf(statistic, df)), np.full(statistic.size, np.nan), fit)


def _ratios(tables: FloatArray, kernel: Kernel) -> tuple[FloatArray, NullFit]:
    n = tables.sum(axis=(1, 2))
    observed = tables / n[:, None, None]
    null, free = likeliest_product(observed, kernel), _likeliest(observed, kernel)
    logs = np.log(np.divide(free, null.expected, out=np.ones_like(free), where=observed > 0))
    return np.maximum(2 * n * np.sum(observed * logs, axis=(1, 2)), 0.0), null


def likeliest_product(observed: FloatArray, kernel: Kernel) -> NullFit:
    """Fit independent distributions by maximum likelihood.

    By Fisher scoring, then one margin at a time where it did not converge.

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


def _likeliest(observed: FloatArray, kernel: Kernel) -> FloatArray:
    """Compute expected outputs of the maximum-likelihood distribution.

    The observed ones if the unbiased estimate is proper.
    """
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
