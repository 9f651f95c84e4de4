"""The null hypothesis fitted to observed counts: margins a, b that maximise the likelihood of λ = Pᵀ(a ⊗ b).

Fisher scoring from the unbiased margins, for a whole batch of tables at once: with J the derivative of λ in the free
parameters (all but the last entry of a and of b) and D = diag λ,

    step = (Jᵀ D⁻¹ J)⁻¹ Jᵀ D⁻¹ (λ̂ − λ).

Scoring doubles the right digits in every step near the answer; where a margin's maximum lies on the boundary, it is stopped
there by projection. The score tests need a consistent fit only: with an exact one, they equal Rao's score test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optrr.estimation.simplex import projection
from optrr.kernel import Kernel
from optrr_solvers.problem import FloatArray

# Scoring converges in three to six steps inside the simplex; on its boundary more steps would not help.
_STEPS = 12
# Largest change of a margin's cell at which the fit is final: far below any standard error (n would be 10^20).
_TOLERANCE = 1e-10
# A share below this is a category that does not occur; the fit keeps it, so that no covariance becomes singular.
_FLOOR = 1e-9


@dataclass(frozen=True, eq=False)
class NullFit:
    """Fitted margins ``rows`` (B, r_a), ``columns`` (B, r_b), expected proportions ``expected`` (B, r_a, r_b)."""

    rows: FloatArray
    columns: FloatArray
    expected: FloatArray

    def part(self, which: slice) -> NullFit:
        """The fits of some of the tables."""
        return NullFit(self.rows[which], self.columns[which], self.expected[which])


def independence_fit(observed: FloatArray, kernel: Kernel) -> NullFit:
    """Maximum likelihood under independence, for proportions of shape (B, r_a, r_b); O(steps · B · R · (r_a + r_b))."""
    estimate = kernel.solve(observed)
    rows, columns = _proper(estimate.sum(axis=2)), _proper(estimate.sum(axis=1))
    open_ = np.arange(observed.shape[0])
    for _ in range(_STEPS):
        if not open_.size:
            break
        step_rows, step_columns = _scoring_step(observed[open_], rows[open_], columns[open_], kernel)
        new_rows, new_columns = _proper(rows[open_] + step_rows), _proper(columns[open_] + step_columns)
        moved = np.maximum(np.abs(new_rows - rows[open_]).max(axis=1), np.abs(new_columns - columns[open_]).max(axis=1))
        rows[open_], columns[open_] = new_rows, new_columns
        open_ = open_[moved > _TOLERANCE]
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def hardy_weinberg_fit(observed: FloatArray, kernel: Kernel) -> NullFit:
    """Independence with rows in Hardy–Weinberg proportions (1−p)², 2p(1−p), p²; p from the unbiased mean count."""
    estimate = kernel.solve(observed)
    shares = _proper(estimate.sum(axis=2))
    p = np.clip(shares @ np.array([0.0, 0.5, 1.0]), _FLOOR, 1 - _FLOOR)
    rows = np.stack([(1 - p) ** 2, 2 * p * (1 - p), p**2], axis=1)
    columns = _proper(estimate.sum(axis=1))
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


Fitter = Callable[[FloatArray, Kernel], NullFit]


def expected_product(rows: FloatArray, columns: FloatArray, kernel: Kernel) -> FloatArray:
    """λ of independent margins, (B, r_a, r_b), positive, summing to 1."""
    lam = kernel.expected(rows[:, :, None] * columns[:, None, :])
    # a mechanism that changes nothing can expect 0; the floor keeps weights finite where nothing was seen either
    lam = np.maximum(lam, _FLOOR**2)
    return np.asarray(lam / lam.sum(axis=(1, 2), keepdims=True))


def _proper(margins: FloatArray) -> FloatArray:
    out = np.maximum(projection(margins), _FLOOR)
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


def _scoring_step(
    observed: FloatArray, rows: FloatArray, columns: FloatArray, kernel: Kernel
) -> tuple[FloatArray, FloatArray]:
    b, r_a, r_b = observed.shape
    lam = expected_product(rows, columns, kernel)
    # moving a parameter up moves the last entry down: e_i − e_last in that margin
    in_rows = np.eye(r_a)[:-1] - np.eye(r_a)[-1]
    in_columns = np.eye(r_b)[:-1] - np.eye(r_b)[-1]
    tangents = np.concatenate(
        [
            in_rows[None, :, :, None] * columns[:, None, None, :],
            rows[:, None, :, None] * in_columns[None, :, None, :],
        ],
        axis=1,
    )
    j = kernel.forward(tangents).reshape(b, r_a + r_b - 2, -1)
    weighted = j / lam.reshape(b, 1, -1)
    information = weighted @ np.swapaxes(j, 1, 2)
    score = weighted @ (observed - lam).reshape(b, -1, 1)
    step = np.linalg.solve(information, score)[:, :, 0]
    return step[:, : r_a - 1] @ in_rows, step[:, r_a - 1 :] @ in_columns
