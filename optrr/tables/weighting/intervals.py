"""Intervals of weighted shares: those of unweighted ones, for as many records as would be as accurate if sampled alone.

Korn and Graubard (Survey Methodology 24, 1998, 193) divide the number of records by the design effect, the variance under the
sample's design over that of as many records sampled one by one with equal weights, and take the interval of a share from that
*effective* number. With few clusters the variance is itself uncertain, so they make the number smaller by the square of the
normal over Student's quantile; here with Satterthwaite's degrees of freedom, because strata may differ much in weights. Their
interval is the exact binomial one; here it is that of :mod:`optrr.tables.estimation.score_interval`, which holds for randomized
reports and stays within [0, 1]. A design effect below 1 counts as 1: it may be chance, and the interval is then wide enough in
any case.

A cell's own variance is no guide where few records decide about it: of a rare cell that happens to hold none of the few large
weights it is far too small. How sure it is depends on the weights and on the kurtosis of what a report counts for the cell: if
weights have nothing to do with reports, the variance is as uncertain as one of ν/(1 + κ/2) degrees of freedom, with κ the
excess kurtosis and ν the degrees that normal numbers would leave. Where these are few, a cell has at most as many effective
records as the weights alone leave (Kish), and as all cells of the table have together. Where even these are unsure, as of a
table with but one common cell, the people of a cluster count as if all of them were alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from optrr.mechanisms.kernel import Kernel
from optrr.tables.distributions import norm
from optrr.tables.estimation.score_interval import score_intervals
from optrr.tables.estimation.weighted_mean import Moments, WeightedMeans, cell_means
from optrr.tables.weighting.linearised import WeightedReports
from optrr_solvers.arrays import FloatArray, IntArray

# Fewer effective records than this have no interval but everything.
_FEWEST = 2
# A cell's own variance counts alone where it is as sure as one of so many degrees of freedom, and that of all cells where it is
# as sure as one of the second number: benchmarks/weighted_coverage.py.
_SURE, _SURE_TOGETHER = 100.0, 20.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Of the cells of one table, flat: standard errors, effective numbers of records, and both ends of the intervals."""

    standard_errors: FloatArray
    effective: FloatArray
    lower: FloatArray
    upper: FloatArray


def spread(kernel: Kernel, reports: WeightedReports, variances: FloatArray, level: float) -> Spread:
    """For variances (R,) of the unbiased estimate and an error probability of ``level`` for each cell."""
    effective = effective_records(kernel, reports, variances)
    lower, upper = np.zeros(variances.shape), np.ones(variances.shape)
    for cells, means in alike_cells(kernel, reports, effective, level):
        lower[cells], upper[cells] = score_intervals(means, level)
    errors = np.where(variances > 0, np.sqrt(variances), np.nan)
    return Spread(errors, effective, lower, upper)


def effective_records(kernel: Kernel, reports: WeightedReports, variances: FloatArray) -> FloatArray:
    """(R,): n over each cell's design effect; where that is unsure, no more than weights alone and all cells together leave."""
    alone = kernel.variance(reports.shares.reshape(kernel.sizes), reports.n).ravel() if reports.n > 1 else 0 * variances
    kish = reports.total**2 / reports.squares
    own = np.full(variances.shape, kish)
    np.divide(reports.n * alone, variances, out=own, where=variances > 0)
    degrees, most = _degrees(kernel, reports), kish
    if variances.sum() > 0:
        most = min(most, reports.n * alone.sum() / variances.sum())
    if alone.sum() < _SURE_TOGETHER * np.sum(alone / degrees):
        most = min(most, reports.total**2 / reports.cluster_squares)
    return np.asarray(np.where(degrees >= _SURE, own, np.minimum(own, most)))


def _degrees(kernel: Kernel, reports: WeightedReports) -> FloatArray:
    """(R,): degrees of freedom of each cell's variance if weights have nothing to do with reports."""
    means = cell_means(kernel, reports.shares.reshape(kernel.sizes), reports.n)
    # one more record that counts in full would be no surprise
    least = min(reports.squares / reports.total**2, 0.5)
    p = np.clip(means.estimate, least, 1 - least)
    each = Moments.mixed(p, means.inside, means.outside)
    second = each.second - p**2
    fourth = each.fourth - 4 * p * each.third + 6 * p**2 * each.second - 3 * p**4
    return np.asarray(reports.degrees / (1 + reports.alone * np.maximum(fourth / second**2 - 3, -2) / 2))


def alike_cells(
    kernel: Kernel, reports: WeightedReports, effective: FloatArray, level: float
) -> Iterator[tuple[IntArray, WeightedMeans]]:
    """Cells with the same number of records that count, and their means of that many; cells of too few are left out."""
    counted = np.floor(np.minimum(effective, reports.n) * _student(reports.degrees, level)).astype(np.int64)
    means = cell_means(kernel, reports.shares.reshape(kernel.sizes), reports.n)
    for number in np.unique(counted[counted >= _FEWEST]):
        cells = np.flatnonzero(counted == number)
        yield cells, replace(means[cells], n=int(number))


def _student(degrees: float, level: float) -> float:
    """(z/t)²: by how much the uncertainty of the variance makes records fewer."""
    from scipy.special import stdtrit  # noqa: PLC0415 (takes long to import)

    return float((norm.isf(level / 2) / stdtrit(degrees, 1 - level / 2)) ** 2)
