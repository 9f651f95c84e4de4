"""The null hypothesis fitted to observed counts: proper margins a, b that maximise the likelihood of λ = Pᵀ(a ⊗ b).

Fisher scoring from the unbiased margins, for a whole batch of tables at once: with J the derivative of λ in the free
parameters and D = diag λ,

    step = (Jᵀ D⁻¹ J)⁻¹ Jᵀ D⁻¹ (λ̂ − λ).

Scoring doubles the right digits in every step near the answer. With this fit the tests are Rao's score tests, and the tables
that share a fit are those on which the scores of the free parameters sum to 0 (see :mod:`optrr.genomics.tail`).

Where noise takes an unbiased margin out of the proportions, the nearest proper margins are the fit. They are consistent, which
is all that a score test needs, and better there: margins that the table hardly shows would be fitted to its joint effect, the
very thing to be tested. (Genotype and status with λ = 0.01 each and 0.005 together, 2500 records: the maximum likelihood fit
rejects 3.4 % at 5 %, this one 5.2 %.)

The last rows of a table may be left out, as those of a missing value: then the first rows are independent of the
columns, and the proportions of the other cells are free.

The tests are of contrasts of dependence, with their covariance at the constrained null fit (a, b) (theory §4.4):

    δ = C (M_a ⊗ M_b) π̂,  M_a = I − a 1ᵀ,       Cov δ = (1/n) C M P⁻ᵀ diag(λ_0) P⁻¹ Mᵀ Cᵀ,    T = δᵀ (Cov δ)⁻¹ δ ~ χ²_df.

(M_a ⊗ M_b) π̂ is π̂_ab − π̂_a π̂_b, linearised at the fit; it vanishes on every change of the margins, so that
estimating them costs nothing at first order. C picks the contrasts: all cells but the last row and column for
independence, (r_a−1)(r_b−1) of them, or the scores' products for a trend. With all contrasts and the maximum-likelihood
null fit, T is Rao's score statistic, which equals n Σ (λ̂ − λ_0)²/λ_0: Pearson's statistic against the distribution of
reports under independent margins. Against the product of the randomized counts' own margins it is wrong: randomization
that is not independent across attributes makes outputs dependent where inputs are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi_squared_tails
from optrr.core.estimation.simplex import projection
from optrr.core.inference.simulation import HELD
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray

# Scoring converges in three to six steps inside the simplex; on its boundary more steps would not help.
_STEPS = 12
# Largest change of a margin's cell at which the fit is final: far below any standard error (n would be 10^18).
_TOLERANCE = 1e-9
# Proportion below which a category does not occur; the fit keeps it, so that no covariance becomes singular.
_FLOOR = 1e-9
# Shares up to this one count as 0: they are the floor, rescaled.
_NEARLY_ZERO = 10 * _FLOOR
# Free parameters above which the unbiased margins are kept: scoring a thousand of them takes longer than a second a table,
# and with so many cells a score test gains nothing from it.
_MOST_PARAMETERS = 512


@dataclass(frozen=True, eq=False)
class NullFit:
    """A fit under independence.

    Margins ``rows`` (B, r), ``columns`` (B, r_b), expected proportions ``expected`` (B, r_a, r_b).

    ``beside`` (B, r_a − r, r_b) are the proportions of the last rows where the hypothesis leaves them out.
    """

    rows: FloatArray
    columns: FloatArray
    expected: FloatArray
    beside: FloatArray | None = None

    def part(self, which: slice | IntArray) -> NullFit:
        """Select tables."""
        beside = None if self.beside is None else self.beside[which]
        return NullFit(self.rows[which], self.columns[which], self.expected[which], beside)

    @classmethod
    def joined(cls, parts: list[NullFit]) -> NullFit:
        """Concatenate the fits of several batches."""
        rows, columns, expected = (
            np.concatenate([getattr(p, k) for p in parts]) for k in ("rows", "columns", "expected")
        )
        beside = None if parts[0].beside is None else np.concatenate([p.beside for p in parts if p.beside is not None])
        return cls(rows, columns, expected, beside)

    @property
    def table(self) -> FloatArray:
        """The fitted true proportions, (B, r_a, r_b)."""
        product = self.rows[:, :, None] * self.columns[:, None, :]
        if self.beside is None:
            return product
        return np.concatenate([self._inside * product, self.beside], axis=1)

    @property
    def _inside(self) -> FloatArray:
        """Share of the rows that the hypothesis speaks of, (B, 1, 1)."""
        return np.ones((1, 1, 1)) if self.beside is None else 1 - self.beside.sum(axis=(1, 2), keepdims=True)

    def tangents(self) -> FloatArray:
        """Differentiate `table` in the parameters, (B, d, r_a, r_b)."""
        r, r_b = self.rows.shape[1], self.columns.shape[1]
        return self._pushed(_directions(r)[None], _directions(r_b)[None])

    def free_tangents(self) -> FloatArray:
        """Differentiate `table` in directions that keep proportions of 0.

        (B, d', r_a, r_b), not all independent, some of them 0.
        """
        out = self._pushed(_towards_each(self.rows), _towards_each(self.columns))
        if self.beside is not None:
            free = self.beside.reshape(out.shape[0], -1) > _NEARLY_ZERO
            out[:, -free.shape[1] :] *= free[:, :, None, None]
        return out

    def _pushed(self, in_rows: FloatArray, in_columns: FloatArray) -> FloatArray:
        """Convert changes of rows (·, d_a, r) and columns (·, d_b, r_b) to the table."""
        parts = [
            in_rows[..., None] * self.columns[:, None, None, :],
            self.rows[:, None, :, None] * in_columns[:, :, None],
        ]
        if self.beside is None:
            return np.concatenate(parts, axis=1)
        b, left_out, r_b = self.beside.shape
        inside = np.concatenate(parts, axis=1) * self._inside[:, None]
        zeros = np.zeros((b, inside.shape[1], left_out, r_b))
        # some probability moves from the product to one cell beside it
        product = (self.rows[:, :, None] * self.columns[:, None, :])[:, None]
        cells = np.broadcast_to(np.eye(left_out * r_b).reshape(-1, left_out, r_b), (b, left_out * r_b, left_out, r_b))
        moved = np.concatenate([-np.broadcast_to(product, (b, cells.shape[1], *product.shape[2:])), cells], axis=2)
        return np.concatenate([np.concatenate([inside, zeros], axis=2), moved], axis=1)

    def moved(self, step: FloatArray, kernel: Kernel) -> NullFit:
        """Change the parameters by a step (B, d), kept inside the simplex."""
        r = self.rows.shape[1] - 1
        last = r + self.columns.shape[1] - 1
        rows = _proper(self.rows + step[:, :r] @ _directions(r + 1))
        columns = _proper(self.columns + step[:, r:last] @ _directions(self.columns.shape[1]))
        beside = None if self.beside is None else _beside(self.beside + step[:, last:].reshape(self.beside.shape))
        return _fit(rows, columns, beside, kernel)


Fitter = Callable[[FloatArray, Kernel], NullFit]


def independence_fit(observed: FloatArray, kernel: Kernel, rows: int | None = None) -> NullFit:
    """Fit independence by maximum likelihood to proportions (B, r_a, r_b).

    O(steps · B · R · (r_a + r_b)).

    ``rows``: how many of the first rows the hypothesis speaks of; all unless given.
    """
    estimate, beside = kernel.solve(observed), None
    by_row, by_column = estimate.sum(axis=2), estimate.sum(axis=1)
    parts = [by_row, by_column]
    if rows is not None and rows < estimate.shape[1]:
        known, unknown = estimate[:, :rows], estimate[:, rows:]
        inside = np.maximum(known.sum(axis=(1, 2)), _FLOOR)[:, None]
        # only a table in which no row is known has proportions that do not sum to 1; projection corrects them
        by_row, by_column, beside = known.sum(axis=2) / inside, known.sum(axis=1) / inside, _beside(unknown)
        parts = [by_row, by_column, unknown.reshape(len(unknown), -1)]
    proper = np.all([x.min(axis=1) > _FLOOR for x in parts], axis=0)
    return _likeliest(observed, kernel, _fit(_proper(by_row), _proper(by_column), beside, kernel), proper)


def expected_product(rows: FloatArray, columns: FloatArray, kernel: Kernel) -> FloatArray:
    """Compute λ of independent margins, (B, r_a, r_b), positive, with sum 1."""
    return _expected(rows[:, :, None] * columns[:, None, :], kernel)


def _expected(table: FloatArray, kernel: Kernel) -> FloatArray:
    lam = kernel.expected(table)
    # a mechanism that changes nothing can expect 0; the floor keeps weights finite where nothing was seen either
    lam = np.maximum(lam, _FLOOR**2)
    return np.asarray(lam / lam.sum(axis=(1, 2), keepdims=True))


def _fit(rows: FloatArray, columns: FloatArray, beside: FloatArray | None, kernel: Kernel) -> NullFit:
    fit = NullFit(rows, columns, np.empty(0), beside)
    return replace(fit, expected=_expected(fit.table, kernel))


def _likeliest(observed: FloatArray, kernel: Kernel, start: NullFit, chosen: NDArray[np.bool_]) -> NullFit:
    """Run Fisher scoring on the chosen tables from a consistent fit."""
    if start.rows.shape[1] + start.columns.shape[1] - 2 > _MOST_PARAMETERS:
        return start
    beside = None if start.beside is None else start.beside.copy()
    final = replace(
        start, rows=start.rows.copy(), columns=start.columns.copy(), expected=start.expected.copy(), beside=beside
    )
    open_ = np.flatnonzero(chosen)
    fit = start.part(open_)
    for _ in range(_STEPS if open_.size else 0):
        own = kernel.part(open_)
        new = fit.moved(_scoring_step(observed[open_], fit, own), own)
        far = [np.abs(a - b) > _TOLERANCE for a, b in ((new.rows, fit.rows), (new.columns, fit.columns))]
        still = far[0].any(axis=1) | far[1].any(axis=1)
        final.rows[open_], final.columns[open_], final.expected[open_] = new.rows, new.columns, new.expected
        if final.beside is not None and new.beside is not None:
            final.beside[open_] = new.beside
        if not still.any():
            break
        open_, fit = open_[still], new.part(np.flatnonzero(still))
    return final


def _scoring_step(observed: FloatArray, fit: NullFit, kernel: Kernel) -> FloatArray:
    b, d = observed.shape[0], -1
    j = kernel.forward(fit.tangents()).reshape(b, d, kernel.cells)
    weighted = j / fit.expected.reshape(b, 1, -1)
    information = weighted @ np.swapaxes(j, 1, 2)
    score = weighted @ (observed - fit.expected).reshape(b, -1, 1)
    return np.asarray(np.linalg.solve(information, score)[:, :, 0])


def _directions(r: int) -> FloatArray:
    """Build the directions e_i − e_last of a margin, (r−1, r)."""
    return np.asarray(np.eye(r)[:-1] - np.eye(r)[-1])


def _towards_each(margins: FloatArray) -> FloatArray:
    """Build directions from the margin to each positive proportion, (B, r, r)."""
    each = np.eye(margins.shape[1])[None] - margins[:, None, :]
    return np.asarray(each * (margins > _NEARLY_ZERO)[:, :, None])


def _beside(shares: FloatArray) -> FloatArray:
    """Bound the proportions of omitted cells: positive, with a remainder."""
    positive = np.maximum(shares, _FLOOR)
    return np.asarray(positive / np.maximum(positive.sum(axis=(1, 2), keepdims=True) / (1 - _FLOOR), 1.0))


def _proper(margins: FloatArray) -> FloatArray:
    """Project margins that sum to 1 to proportions of at least about `_FLOOR`."""
    outside = np.unique(np.flatnonzero(margins < _FLOOR) // margins.shape[-1])
    out = margins.copy()
    if outside.size:
        kept = np.maximum(projection(margins[outside]), _FLOOR)
        out[outside] = kept / kept.sum(axis=-1, keepdims=True)
    return out


@dataclass(frozen=True, eq=False)
class ScoreTests:
    """Results of a batch, arrays of shape (B,).

    ``statistic``, ``p_value`` and ``effect`` (signed z for one contrast, else NaN).
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    effect: FloatArray
    fit: NullFit

    @classmethod
    def joined(cls, parts: list[ScoreTests]) -> ScoreTests:
        """Concatenate the tests of several batches."""
        statistic, p_value, effect = (
            np.concatenate([getattr(p, k) for p in parts]) for k in ("statistic", "p_value", "effect")
        )
        return cls(statistic, parts[0].df, p_value, effect, NullFit.joined([p.fit for p in parts]))


def all_contrasts(r_a: int, r_b: int) -> FloatArray:
    """Build contrasts of every cell but the last row and column.

    Shape ((r_a−1)(r_b−1), r_a, r_b).
    """
    cells = np.eye(r_a * r_b).reshape(r_a, r_b, r_a, r_b)
    return cells[:-1, :-1].reshape(-1, r_a, r_b)


def trend_contrast(rows: ArrayLike, columns: ArrayLike) -> FloatArray:
    """Build the products of the scores, (1, r_a, r_b).

    Their mean is the covariance of row and column scores.
    """
    return np.multiply.outer(np.asarray(rows, dtype=np.float64), np.asarray(columns, dtype=np.float64))[None]


def score_tests(
    tables: ArrayLike, kernel: Kernel, contrasts: FloatArray | None = None, fitter: Fitter = independence_fit
) -> ScoreTests:
    """Test every table of counts of shape (B, r_a, r_b), randomized by one kernel.

    ``contrasts`` (K, r_a, r_b) are all unless given, and the ``fitter`` is the null hypothesis. Raises InvalidInput for tables
    of another shape, negative or non-finite counts, or a table without records; SingularMarginal if the kernel hides the
    joint effect. O(B K R) time in pieces of 32 MB; 100,000 tables of 3 × 2 take a few seconds.
    """
    counts = np.asarray(tables, dtype=np.float64)
    if counts.ndim != 3 or counts.shape[1:] != kernel.sizes:
        raise InvalidInput(f"tables have shape {counts.shape}; give (B, {', '.join(map(str, kernel.sizes))})")
    # written as a condition that must hold, so that a NaN is refused too
    if counts.size and not (counts.min() >= 0 and counts.max() < np.inf):
        raise InvalidInput("a table contains negative or non-finite counts; give numbers of records of at least 0")
    if counts.shape[0] == 0 or counts.sum(axis=(1, 2)).min() <= 0:
        raise InvalidInput("a table counts no records; leave that table out of the batch")
    chosen = all_contrasts(*kernel.sizes) if contrasts is None else np.asarray(contrasts, dtype=np.float64)
    kernel.check_invertible()
    step = max(1, HELD // (chosen.shape[0] * kernel.cells))
    pieces = [slice(s, s + step) for s in range(0, counts.shape[0], step)]
    return ScoreTests.joined([_piece(counts[p], kernel.part(p), chosen, fitter) for p in pieces])


def influence(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    """Compute each output's contribution to each contrast, (B, K, R).

    C (M_a ⊗ M_b) P⁻ᵀ e_y, with mean 0 under the null fit.

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
    n = counts.sum(axis=(1, 2))
    observed = counts / n[:, None, None]
    fit = fitter(observed, kernel)
    psi = influence(fit, kernel, contrasts)
    delta = np.einsum("zkr,zr->zk", psi, observed.reshape(n.size, -1))
    covariance = (psi * fit.expected.reshape(n.size, 1, -1)) @ np.swapaxes(psi, 1, 2)
    statistic = n * np.einsum("zk,zk->z", delta, _solved(covariance, delta))
    df = contrasts.shape[0]
    effect = np.sign(delta[:, 0]) * np.sqrt(statistic) if df == 1 else np.full(n.size, np.nan)
    return ScoreTests(statistic, df, chi_squared_tails(statistic, df), effect, fit)


def _solved(covariance: FloatArray, delta: FloatArray) -> FloatArray:
    """Compute Cov⁻¹ δ after scaling to unit variances.

    Rare categories then do not spoil the solution.
    """
    scale = 1 / np.sqrt(np.einsum("zkk->zk", covariance))
    correlation = covariance * scale[:, :, None] * scale[:, None, :]
    return np.asarray(scale * np.linalg.solve(correlation, (scale * delta)[:, :, None])[:, :, 0])
