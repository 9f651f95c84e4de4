"""Intervals that hold where a statistic divides by what cannot be told from 0: shares of categories, variances of scores.

Whether a share is clear of 0 shows in the same data as the statistic. Printing an interval only where it is clear would select:
where few data sets pass, they pass because noise made the share too large, and their intervals cover too little. So there is
always an interval, and where a share or a variance is faint it holds for everything that the data leave possible.

χ², V: with the faint rows G and columns H left out of the sum over cells, what is left of φ² divides by clear shares only.
Every cell adds at least 0, so its lower limit is one for φ² itself. As π_gb ≤ r_g, and as Σ π²/(r c) over a block of |G| × |H|
cells is a sum of at most min(|G|, |H|) squared singular values, none above 1, the cells left out add at most

    R/c − R                             R = Σ_G r, c the least clear column share, where only rows are faint; columns likewise
    R/c + S/r + min(|G|, |H|)           S = Σ_H c, r the least clear row share, where both are

Correlation: cov/sqrt(var var) with every one of the three between its own limits.

The error probability of each end is divided among the limits that it is made of (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from optrr.tables.distributions import norm
from optrr.tables.estimation import statistics
from optrr.tables.estimation.intervals import Path, Sampling, limit
from optrr.tables.estimation.score_interval import score_intervals
from optrr.tables.estimation.simplex import projection
from optrr.tables.estimation.weighted_mean import subset_mean
from optrr_solvers.arrays import FloatArray

# A share or variance this many standard errors above 0 may be divided by.
CLEAR_OF_ZERO = 3.0


@dataclass(frozen=True, eq=False)
class ClearCategories:
    """Unbiased shares of the row and the column attribute's categories, and their standard errors."""

    shares: tuple[FloatArray, FloatArray]
    errors: tuple[FloatArray, FloatArray]

    @staticmethod
    def of(sampling: Sampling, observed: FloatArray) -> ClearCategories:
        """From the observed proportions (R,) of two attributes' table."""
        noise = sampling.noise(observed)
        shape = (sampling.kernel.sizes[0], sampling.kernel.sizes[1])
        raw = sampling.kernel.solve(observed.reshape(shape))
        rows, columns = (
            np.sqrt(np.einsum("ij,jk,ik->i", sums, noise, sums, optimize=True))
            for sums in (statistics.row_sums(shape), statistics.column_sums(shape))
        )
        return ClearCategories((raw.sum(axis=1), raw.sum(axis=0)), (rows, columns))

    @property
    def ratios(self) -> tuple[FloatArray, FloatArray]:
        """Shares in standard errors."""
        return self.shares[0] / self.errors[0], self.shares[1] / self.errors[1]

    @property
    def clear(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which categories of either attribute can be told from 0."""
        return self.ratios[0] >= CLEAR_OF_ZERO, self.ratios[1] >= CLEAR_OF_ZERO

    @property
    def cells(self) -> NDArray[np.bool_]:
        """(r_a, r_b): cells of two clear categories."""
        return np.outer(*self.clear)

    @property
    def all_clear(self) -> bool:
        """Whether nothing is faint."""
        return all(bool(c.all()) for c in self.clear)


def phi_squared_limits(
    path: Path | None, clear: ClearCategories, sampling: Sampling, observed: FloatArray, tail: float
) -> tuple[float, float]:
    """Limits of φ² with error probability ``tail`` each, from the path of its part over clear cells; None without any."""
    most = min(sampling.kernel.sizes) - 1.0
    if path is None:
        return 0.0, most
    lower, upper = limit(path, tail, 0), limit(path, tail / 2, 1)
    return lower, min(upper + _most_added(clear, sampling, observed, tail / 2), most)


def faint_part(clear: ClearCategories, sampling: Sampling, observed: FloatArray) -> float:
    """What the cells of faint categories add to φ² of the projected table, less what noise adds there; at least 0."""
    raw = sampling.kernel.solve(observed.reshape(sampling.kernel.sizes))
    table = projection(raw.ravel()).reshape(raw.shape)
    even = np.outer(table.sum(axis=1), table.sum(axis=0))
    there = ~clear.cells & (even > 0)
    variances = np.diag(sampling.noise(observed)).reshape(raw.shape)
    return max(float((((table - even) ** 2 - variances)[there] / even[there]).sum()), 0.0)


def _most_added(clear: ClearCategories, sampling: Sampling, observed: FloatArray, tail: float) -> float:
    """Upper limit of what the cells of faint categories add to φ²; infinite where a share it divides by may be 0."""
    faint = [int(np.sum(~c)) for c in clear.clear]
    # an upper limit for each attribute with faint categories, and a lower one for every clear category of the other
    tail /= sum(1 + int(np.sum(clear.clear[1 - axis])) for axis in range(2) if faint[axis])
    added = 0.0
    for axis in (k for k in range(2) if faint[k]):
        total, least = _faint_share(clear, sampling, observed, axis, tail), _least_share(clear, 1 - axis, tail)
        if not least > 0:
            return float("inf")
        added += total / least - (0.0 if faint[1 - axis] else total)
    return added + min(faint)


def _faint_share(clear: ClearCategories, sampling: Sampling, observed: FloatArray, axis: int, tail: float) -> float:
    """Upper limit of the share of an attribute's faint categories together."""
    sizes = sampling.kernel.sizes
    members = np.expand_dims((~clear.clear[axis]).astype(np.float64), 1 - axis) * np.ones(sizes)
    means = subset_mean(sampling.kernel, observed.reshape(sizes), sampling.n, members)
    return float(score_intervals(means, 2 * tail)[1][0])


def _least_share(clear: ClearCategories, axis: int, tail: float) -> float:
    """Lower limit of every clear category's share of an attribute; normal, as they are some standard errors above 0."""
    limits = clear.shares[axis] - float(norm.isf(tail)) * clear.errors[axis]
    return float(limits[clear.clear[axis]].min())


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Covariance of two attributes' scores and both variances, nearly unbiased, with their standard errors."""

    covariance: tuple[float, float]
    variances: tuple[tuple[float, float], tuple[float, float]]

    @staticmethod
    def of(sampling: Sampling, observed: FloatArray, scores: tuple[FloatArray, FloatArray]) -> ScoreMoments:
        """From the observed proportions (R,) of two attributes' table."""
        noise = sampling.noise(observed)
        table = sampling.kernel.solve(observed.reshape(sampling.kernel.sizes))
        x, y = (s - table.sum(axis=1 - k) @ s for k, s in enumerate(scores))
        x, y = np.repeat(x, y.size), np.tile(y, x.size)
        return ScoreMoments(
            _product_moment(table.ravel(), noise, x, y),
            (_product_moment(table.ravel(), noise, x, x), _product_moment(table.ravel(), noise, y, y)),
        )

    def faint(self) -> list[int]:
        """Attributes whose variance cannot be told from 0."""
        return [k for k, (value, error) in enumerate(self.variances) if value < CLEAR_OF_ZERO * error]

    def correlation_limits(self, tail: float) -> tuple[float, float]:
        """With error probability ``tail`` each; limits of the three that contradict each other exclude nothing."""
        errors = float(norm.isf(tail / 3))
        low, high = (self.covariance[0] + side * errors * self.covariance[1] for side in (-1, 1))
        least = prod(max(value - errors * error, 0.0) for value, error in self.variances)
        most = prod(max(value, 0.0) + errors * error for value, error in self.variances)
        lower, upper = _divided(low, least, most), -_divided(-high, least, most)
        return (-1.0, 1.0) if lower > 1 or upper < -1 else (max(lower, -1.0), min(upper, 1.0))


def _product_moment(table: FloatArray, noise: FloatArray, x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Of centred scores in every cell: the estimate less the bias of its product of means, and the standard error.

    The error has a part of first order and that of the product of means, which is all where both halves are even.
    """
    products = x * y
    second = (x @ noise @ y) ** 2 + (x @ noise @ x) * (y @ noise @ y)
    return float(table @ products + x @ noise @ y), sqrt(products @ noise @ products + second)


def _divided(low: float, least: float, most: float) -> float:
    """The least quotient of a number from ``low`` on and the root of one between ``least`` and ``most``."""
    if low >= 0:
        return low / sqrt(most)
    return low / sqrt(least) if least > 0 else -np.inf
