"""Complete cases: the table of people without missing values, estimated from the table of all people.

Randomized records do not show whether their true values are missing, so records cannot be left out. With A the complete
cells of the table π, s = 1ᵀAπ̂ their estimated proportion and q = Aπ̂/s the table of the complete cases, to first order

    Cov(q) = J Σ(π) Jᵀ,     J = (A − q 1ᵀA)/s,

Σ(π) the covariance of π̂. A test takes it at q of its hypothesis: π is then s q in the complete cells, and π̂ elsewhere.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr.analysis.measures.subgroups import Kept, complete_where
from optrr.core.errors import TooFewRecords
from optrr.core.estimation import EstimatedTable, Sampling
from optrr.core.mechanisms import unrandomized
from optrr_solvers.arrays import FloatArray


def complete_table(table: EstimatedTable) -> EstimatedTable:
    """Restrict a table to complete cases.

    For the tests and models of :mod:`optrr.analysis.estimated`.

    Raises InvalidInput if no attribute declares a missing value or one has a single other category, and
    TooFewRecords if the estimated proportion of complete cases is not positive.
    """
    kept = Kept.of(table.domain, complete_where(table.domain, None))
    everybody = table.kernel.solve(table.observed).ravel()
    cells = kept.totals(everybody)
    if cells.sum() <= 0:
        raise TooFewRecords("the estimated proportion of complete cases is 0; collect more records")
    kernel = unrandomized(cells.shape, kept.domain.names)
    sampling = CompleteSampling(kernel=kernel, n=table.n, whole=table, kept=kept, everybody=everybody)
    return EstimatedTable(kept.domain, table.n, cells / cells.sum(), kernel, sampling, table.sample, table.notes)


@dataclass(frozen=True, eq=False, kw_only=True)
class CompleteSampling(Sampling):
    """Covariance of the table of complete cases, as tests and models need it."""

    whole: EstimatedTable
    kept: Kept
    everybody: FloatArray

    @cached_property
    def _cells(self) -> FloatArray:
        """Matrix of 0 and 1 from everybody's cells to those of complete cases."""
        return np.asarray(np.arange(self.kernel.cells)[:, None] == self.kept.place, dtype=np.float64)

    def spread(self, observed: FloatArray, directions: FloatArray) -> FloatArray:
        """Compute J Σ Jᵀ times directions at this table (R,) of complete cases."""
        complete = self.kept.place >= 0
        share = self.everybody[complete].sum()
        table = self.everybody.copy()
        table[complete] = share * observed[self.kept.place[complete]]
        sampling = self.whole.sampling
        moved = (self._cells - np.outer(observed, complete)) / share
        return np.asarray(moved @ sampling.covariance(sampling.expected(table)) @ (moved.T @ directions))
