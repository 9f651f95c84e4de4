"""An estimated table from any kind of reports: unbiased estimates of its cells and their covariances.

Everything analysed is a list of (channel, counts). Records of a design are one pair; answers to local queries one for
each query; a weighted sample has a design covariance. Each says how its estimates vary by one operator,
`Sampling.spread`: the covariances of the observations at given probabilities, with sums of it. So a covariance is known
at any hypothesised table, and no matrix larger than the sums that are asked for need be made. Measures, statistics,
quantiles, contrasts, tests and models take an `EstimatedTable`, and need not know its origin.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import norm
from optrr.core.estimation.plausibility import warn_of_records
from optrr.core.mechanisms.kernel import Kernel
from optrr.core.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray

# Records added to every cell before the noise of cells is computed: a cell without reports is not known without error.
_ADDED = 0.5


def padded(observed: FloatArray, n: float) -> FloatArray:
    """Add half a record to every cell of proportions (R,) of n records."""
    return np.asarray((observed * n + _ADDED) / (n + _ADDED * observed.size))


@dataclass(frozen=True, eq=False)
class Sampling:
    """Sampling variation of n reports through a kernel of R cells.

    Its matrices are built once.

    ``sums`` (K, R) are the sums of cells that are estimated; the cells themselves, K = R, unless given.
    """

    kernel: Kernel
    n: int
    sums: FloatArray | None = None

    @cached_property
    def influence(self) -> FloatArray:
        """Contribution of a report of each output to each estimate, (R, K)."""
        if self.sums is None:
            return self.kernel.inverse()
        return np.stack(
            [self.kernel.solve_adjoint(each.reshape(self.kernel.sizes)).ravel() for each in self.sums], axis=1
        )

    def expected(self, table: FloatArray) -> FloatArray:
        """Compute probabilities (R,) of outputs under a table.

        Negative values from noise in the table are set to 0.
        """
        expected = np.maximum(self.kernel.forward(table.reshape(self.kernel.sizes)).ravel(), 0.0)
        return np.asarray(expected / expected.sum())

    def spread(self, observed: FloatArray, directions: FloatArray) -> FloatArray:
        """Multiply the covariance T of observed proportions by directions d.

        d has shape (R, K) or (R,), T = (diag λ − λλᵀ)/n.
        """
        return np.asarray((observed * (directions - observed @ directions).T).T / self.n)

    def covariance(self, observed: FloatArray) -> FloatArray:
        """Compute the covariance (K, K) of the unbiased estimates.

        At these probabilities of outputs.
        """
        return np.asarray(self.influence.T @ self.spread(observed, self.influence))

    def variance(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Compute the variance of the estimates in a direction (K,)."""
        along = self.influence @ gradient
        return float(along @ self.spread(observed, along))

    def padded(self, observed: FloatArray) -> FloatArray:
        """Add half a record to every cell of observed proportions (R,)."""
        return padded(observed, self.n)

    def noise(self, observed: FloatArray) -> FloatArray:
        """Compute the covariance (K, K) from padded observed proportions.

        Half a record is added to every cell.
        """
        return self.covariance(self.padded(observed))

    def mechanism_noise(self, observed: FloatArray) -> FloatArray:
        """Estimate the mechanism's part of the covariance without bias, (K, K).

        Around the estimates of the true records.
        """
        table = self.kernel.solve(observed.reshape(self.kernel.sizes)).ravel()
        sums = np.eye(table.size) if self.sums is None else self.sums
        of_records = (sums * table) @ sums.T - np.outer(sums @ table, sums @ table)
        return np.asarray(self.covariance(observed) - of_records / self.n)

    def proper(self, observed: FloatArray) -> FloatArray:
        """Return probabilities (R,) of outputs near these numbers."""
        positive = np.maximum(observed, 0.0)
        return np.asarray(positive / positive.sum())

    def third(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Compute the third moment of the estimates in a direction (K,)."""
        influence = self.influence @ gradient
        influence = influence - observed @ influence
        return float(observed @ influence**3) / self.n**2

    def tail(self, normal: float, observed: FloatArray, gradient: FloatArray) -> float:
        """Convert a normal tail probability to the estimate's.

        They are equal unless the noise itself is estimated.
        """
        return normal

    def linearised(self, gradient: FloatArray) -> float | None:
        """Compute the variance in a direction (K,) from the reports themselves.

        None if the distribution implies it, as here.
        """
        return None

    def most(self, members: FloatArray, observed: FloatArray, tail: float) -> float:
        """Compute the normal upper limit of the proportion of some cells.

        ``members`` is a table of 0 and 1, ``tail`` the error probability.
        """
        marks, noise = members.ravel(), self.noise(observed)
        share = float(marks @ self.kernel.solve(observed.reshape(self.kernel.sizes)).ravel())
        return min(max(share, 0.0) + float(norm.isf(tail)) * sqrt(marks @ noise @ marks), 1.0)


@dataclass(frozen=True, eq=False)
class EstimatedTable:
    """Input of an analysis.

    The attributes, the number of records, observed proportions (of the sizes), and their kernel.

    ``sampling`` is the sampling variation of the estimates; ``sample`` describes how records were sampled, where that
    matters, and ``notes`` hold remarks on it.
    """

    domain: Domain
    n: int
    observed: FloatArray
    kernel: Kernel
    sampling: Sampling
    sample: str = ""
    notes: tuple[str, ...] = ()


def counted_table(counts: Counts, mechanism: Randomizer) -> EstimatedTable:
    """Build the counts' table.

    Calls :func:`optrr.core.estimation.plausibility.warn_of_records` first.

    Raises InvalidInput for objects that are not counts, for fewer than two records, and for counts of another domain or
    another design.
    """
    if not isinstance(counts, Counts):
        raise InvalidInput(
            f"got a {type(counts).__name__} for counts; count records first: optrr.count(data, domain, names)"
        )
    mechanism = checked_mechanism(mechanism)
    known = mechanism.domain
    for attribute in counts.domain:
        if known[attribute.name] != attribute:
            raise InvalidInput(
                f"attribute {attribute.name!r} has other categories in the counts than in the mechanism's domain; count "
                "with the domain of the design"
            )
    kernel = mechanism.kernel(counts.domain.names)
    warn_of_records([counts], mechanism)
    return EstimatedTable(counts.domain, counts.n, counts.proportions, kernel, Sampling(kernel, counts.n))
