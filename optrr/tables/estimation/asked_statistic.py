"""One derived statistic of one table: its units, and the path of tables along which its interval is searched.

Paths are about φ² (for χ² and V), −H or I in nats (for the entropy, mutual information and G²), or the correlation itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from optrr.records.counts import Counts
from optrr.tables.estimation import statistics
from optrr.tables.estimation.faint import ClearCategories
from optrr.tables.estimation.intervals import Path, Sampling
from optrr.tables.estimation.paths import Correlation, MutualInformation, NegativeEntropy, PhiSquared
from optrr.tables.estimation.shrinkage import shrunk
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class AskedStatistic:
    """A statistic by its name, the counts' attributes, how their estimates vary, and the scores of a correlation."""

    name: str
    counts: Counts
    sampling: Sampling
    scores: tuple[FloatArray, FloatArray] | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.sampling.kernel.sizes

    def shown(self, x: float) -> float:
        """The statistic from what its path is about: φ², −H or I in nats, or the correlation."""
        if self.name == "cramers-v":
            return sqrt(max(x, 0.0) / (min(self.shape) - 1))
        # 0 has no sign, whatever the factor has
        return self.factor * x + 0.0

    @property
    def factor(self) -> float:
        """By which the path's number is multiplied to give the statistic, for all but V."""
        n = self.sampling.n
        factors = {
            "entropy": -1 / log(2),
            "mutual-information": 1 / log(2),
            "g-square": 2.0 * n,
            "chi-square": float(n),
        }
        return factors.get(self.name, 1.0)

    def path(self, observed: FloatArray, sampling: Sampling | None = None) -> Path:
        """The path for the observed proportions (R,), as if they came from the given sampling."""
        sampling = sampling or self.sampling
        if self.name == "entropy":
            return NegativeEntropy(sampling, observed)
        shape = (self.shape[0], self.shape[1])
        if self.name in ("mutual-information", "g-square"):
            return MutualInformation(sampling, observed, shape)
        table = sampling.kernel.solve(observed.reshape(shape))
        if self.name == "correlation":
            assert self.scores is not None
            return Correlation(sampling, observed, table, self.scores)
        return PhiSquared(sampling, observed, table, ClearCategories.of(sampling, observed).cells)

    def printed(self, observed: FloatArray, path: Path) -> float:
        """The value of least squared error, in its own units; docs/design.md, §4.4 has what was compared.

        The entropy of the projected table, which is off by less than an estimate without bias; mutual information of a table
        that is shrunk towards independence, too; and the others without bias.
        """
        if self.name == "entropy":
            return self.projected(observed)
        if self.name in ("mutual-information", "g-square"):
            near = shrunk(observed.reshape(self.shape), self.sampling.n, self.sampling.kernel)
            return self.shown(statistics.mutual_information(near) * log(2))
        return self.shown(path.value)

    def projected(self, observed: FloatArray) -> float:
        """The statistic of the projected estimate, in its own units."""
        table = projection(self.sampling.kernel.solve(observed.reshape(self.shape)).ravel()).reshape(self.shape)
        if self.name == "entropy":
            return statistics.entropy(table)
        if self.name == "correlation":
            assert self.scores is not None
            return statistics.pearson_correlation(table, self.scores).value
        if self.name in ("mutual-information", "g-square"):
            return self.shown(statistics.mutual_information(table) * log(2))
        return self.shown(statistics.phi_squared(table).value)
