"""A table estimated from reports that support cells: the true one with chance p, each other one with chance q.

A table asked of N people has C_v supports of cell v, binomial with chance q + π_v (p − q), so

    π̂_v = (C_v/N − q)/(p − q)

is unbiased, and its interval inverts the exact binomial test of every share (:mod:`optrr.tables.estimation.score_interval`).
Where nobody supported a cell, or everybody did, the answers show no variance although there is one: the cell has no standard
error.
"""

from __future__ import annotations

import numpy as np

from optrr.domain.domain import Domain
from optrr.mechanisms.kernel import MatrixKernel
from optrr.tables.estimation.estimator import Estimate, check_records, without_error
from optrr.tables.estimation.impossible import Observed, impossible_tables
from optrr.tables.estimation.score_interval import cell_means, score_intervals
from optrr_solvers.arrays import FloatArray


def estimate_of_supports(
    domain: Domain, supports: FloatArray, n: int, chances: tuple[float, float], confidence: float
) -> Estimate:
    """Proportions of the table of these attributes from C_v of n reports, shape (R,); ``chances`` are p and q.

    Raises
    ------
    InvalidInput
        for fewer than 2 reports.
    """
    check_records(n)
    p, q = chances
    shape = tuple(a.size for a in domain)
    observed = supports / n
    # "holds the cell" is a binary attribute that is reported by the supports
    kernel = MatrixKernel([[p, 1 - p], [q, 1 - q]])
    means = cell_means(kernel, np.stack([observed, 1 - observed], axis=1), n)
    held = np.arange(0, 2 * supports.size, 2)
    lower, upper = (x.reshape(shape) for x in score_intervals(means[held], 1 - confidence))
    alike = (supports == 0) | (supports == n)
    error = np.where(alike, np.nan, np.sqrt(observed * (1 - observed) / (n - 1)) / (p - q))
    return Estimate(
        domain=domain,
        n=n,
        method="unbiased",
        proportions=((observed - q) / (p - q)).reshape(shape),
        standard_errors=error.reshape(shape),
        lower=lower,
        upper=upper,
        confidence=confidence,
        target="population",
        interval="score",
        bias="unbiased; cells may be negative",
        warnings=(
            *without_error(alike, "the answers that tell about them are"),
            *impossible_tables([_observed(domain, supports, n, kernel)]),
        ),
    )


def _observed(domain: Domain, supports: FloatArray, n: int, kernel: MatrixKernel) -> Observed:
    """The supports of every cell and the answers that do not support it, tables of two cells."""
    both = np.stack([supports, n - supports], axis=1).astype(np.int64)
    return Observed(" × ".join(domain.names), both, kernel)
