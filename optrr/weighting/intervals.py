"""Intervals of weighted shares: those of unweighted ones, for as many records as would be as accurate if sampled alone.

Korn and Graubard (Survey Methodology 24, 1998, 193) divide the number of records by the design effect, the variance under the
sample's design over that of as many records sampled one by one with equal weights, and take the interval of a share from that
*effective* number. With few clusters the variance is itself uncertain, so they make the number smaller by the square of the
normal over Student's quantile; here with Satterthwaite's degrees of freedom, because strata may differ much in weights. Their
interval is the exact binomial one; here it is that of :mod:`optrr.estimation.score_interval`, which holds for randomized
reports and stays within [0, 1]. A design effect below 1 counts as 1: it may be chance, and the interval is then wide enough in
any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from optrr.distributions import norm
from optrr.estimation.score_interval import score_intervals
from optrr.estimation.weighted_mean import WeightedMeans, cell_means
from optrr.kernel import Kernel
from optrr.weighting.linearised import WeightedReports
from optrr_solvers.arrays import FloatArray, IntArray

# Fewer effective records than this have no interval but everything.
_FEWEST = 2


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
    """(R,): n over each cell's design effect. Where reports show no variance, what is left is that of the weights (Kish)."""
    alone = kernel.variance(reports.shares.reshape(kernel.sizes), reports.n).ravel() if reports.n > 1 else 0 * variances
    kish = np.full(variances.shape, reports.total**2 / reports.squares)
    return np.asarray(np.divide(reports.n * alone, variances, out=kish, where=variances > 0))


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
