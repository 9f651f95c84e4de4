"""Two-way tables by effects, for many variants at once: what a mechanism does to a table, and the way back (design §3.2).

A table over (row, column) splits into mean, row effect, column effect and joint effect; a mechanism multiplies them by
1, λ_row, λ_column and λ_joint. So the observed table of a variant is the true one scaled by its three eigenvalues, the
unbiased estimate divides by them, and a contrast of the true table is a contrast of the observed one with its effects
divided. Nothing here builds a matrix; V variants cost O(V · cells).

Letters: π true table, q observed one, λ eigenvalues; tables have shape (V, R, C).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr_solvers.problem import FloatArray


@dataclass(frozen=True, eq=False)
class PairEigenvalues:
    """λ_row, λ_column, λ_joint for each variant, shape (V,) each (or (1,), shared by all)."""

    row: FloatArray
    column: FloatArray
    joint: FloatArray

    @classmethod
    def untouched(cls) -> PairEigenvalues:
        """No mechanism: every effect is seen whole."""
        one = np.ones(1)
        return cls(one, one, one)

    def take(self, chosen: slice) -> PairEigenvalues:
        """Those of these variants."""
        return PairEigenvalues(*(x if x.size == 1 else x[chosen] for x in (self.row, self.column, self.joint)))

    @property
    def inverse(self) -> PairEigenvalues:
        """1/λ: undoes the mechanism."""
        return PairEigenvalues(1 / self.row, 1 / self.column, 1 / self.joint)


def scale_effects(table: FloatArray, by: PairEigenvalues) -> FloatArray:
    """The table with its mean kept and its three effects multiplied; shape (V, R, C)."""
    mean = table.mean(axis=(1, 2), keepdims=True)
    rows = table.mean(axis=2, keepdims=True) - mean
    columns = table.mean(axis=1, keepdims=True) - mean
    joint = table - mean - rows - columns
    row, column, both = (x[:, None, None] for x in (by.row, by.column, by.joint))
    return np.asarray(mean + row * rows + column * columns + both * joint)


def unbiased(observed: FloatArray, eigenvalues: PairEigenvalues) -> FloatArray:
    """Unbiased estimate of the true tables from observed proportions, shape (V, R, C); entries may be negative."""
    return scale_effects(observed, eigenvalues.inverse)


def to_proportions(values: FloatArray, axis: int | tuple[int, ...]) -> FloatArray:
    """Negatives to 0, then rescaled to sum 1 along ``axis``; uniform where nothing is left."""
    positive = np.maximum(values, 0.0)
    total = positive.sum(axis=axis, keepdims=True)
    uniform = np.divide(1.0, np.broadcast_to(np.ones_like(values).sum(axis=axis, keepdims=True), total.shape))
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), uniform)


def linear_variance(weights: FloatArray, law: FloatArray) -> FloatArray:
    """Variance of one person's weight under ``law``: Σ law w² − (Σ law w)², shapes (V, R, C) → (V,)."""
    mean = np.sum(law * weights, axis=(1, 2))
    return np.asarray(np.sum(law * (weights - mean[:, None, None]) ** 2, axis=(1, 2)))
