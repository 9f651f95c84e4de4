"""Power where noncentral χ² does not give it: from surveys of that many records, with the p-values of the test itself.

Noncentral χ² assumes that reports vary under the effect as they do under the hypothesis, and that p-values are those of
χ². Where some report is rare the first is wrong by the square root of the ratio of its two chances, and the second
because counts have steps. Surveys are drawn there, with the same seed every time, so that the same call has the same
result, and as often as about a second allows. Of N surveys a proportion s rejects, by p-values from M statistics drawn
under the hypothesis at most:

    variance of s = s(1 − s)/N + (s(α + e) − s(α − e))²/4,    e² = α(1 − α)/M,

with s(α) the proportion that rejects at level α. The second part is 0 where p-values are those of χ².
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optrr.core.estimation.distributions import chi2
from optrr.core.inference.simulation import chi_square_holds, least_equal
from optrr_solvers.arrays import FloatArray

# Where every report expects this many records, an effect seen with power 0.8 at 5 % moves no chance by more than a tenth
# (√(7.8/1000)), and the standard deviation by a twentieth.
_LAW_HOLDS = 1000.0
# More records are not drawn.
_MOST_RECORDS = 10**8
# No test takes fewer.
_FEWEST_RECORDS = 2
# Number of records of the tables that noncentralities are computed at: additions to empty cells of margins do not
# matter there.
MANY_RECORDS = 1e12
_SEED = 0
# Multiplications that surveys are drawn for: a fraction of a second.
_MOST_WORK = 100_000_000
# Surveys drawn: a standard error of a power of 0.8 of 0.2 points, and of 0.9 where tables are so large that each takes long.
_MOST_SURVEYS, _FEWEST_SURVEYS = 30_000, 2000
# Statistics drawn by the hypothesis for each survey, where all share one law: the errors of the rejected proportion and
# of the p-values are then similar. With at least this number a p-value of 5 % has a relative standard error of 4 %.
_SHARED, _FEWEST_SHARED = 2, 9999
# Number of shared draws beyond a level that estimates p-values there to a tenth.
_HITS = 100
# Tables held at once.
_BLOCK = 10_000
# Where a power comes from: noncentral χ²; surveys drawn, with the test's own p-values, or with those of χ².
Source = Literal["limit", "drawn", "drawn-limit"]
DrawSurveys = Callable[[int, int, np.random.Generator], FloatArray]
# Statistics and p-values of tables; NaN if the test gives none. Where surveys share a law these p-values are of χ².
TestTables = Callable[[FloatArray, np.random.Generator], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class PredictedPower:
    """A ``power``, its ``source`` and, if simulated, its ``standard_error``."""

    power: float
    source: Source
    standard_error: float | None = None


@dataclass(frozen=True, eq=False)
class Surveys:
    """Surveys of people with an effect, and their test.

    ``draw(n, size, rng)`` gives ``size`` tables of n reports; ``fewest`` is the smallest chance of any report, and
    ``work`` the multiplications that the test of a table takes. From ``clear`` records on all proportions that the test
    fits are clear of 0. With ``null``, which draws surveys by the hypothesis nearest to the truth, p-values are those
    of one law for all surveys, as a bootstrap estimates it from each; without it they are those of the test.
    """

    draw: DrawSurveys
    test: TestTables
    df: int
    fewest: float
    work: int
    null: DrawSurveys | None = None
    clear: float = 0.0

    def source(self, n: float, level: float) -> Source:
        """Return the source of the power of n records."""
        if n > _MOST_RECORDS or (n >= self.clear and n * self.fewest >= _LAW_HOLDS):
            return "limit"
        return "drawn" if self._chi_square(n, level) or self._told(level) else "drawn-limit"

    def power(self, n: int, level: float) -> PredictedPower:
        """Share of surveys of n records that reject; those that the test refuses do not."""
        source = self.source(n, level)
        if n < _FEWEST_RECORDS:
            return PredictedPower(0.0, source)
        rng = np.random.default_rng(_SEED)
        statistic, p = self._tested(self.draw, n, self._affordable, rng)
        refused, error = np.isnan(p), 0.0
        if self._chi_square(n, level) or not self._told(level):
            p = np.asarray(chi2.sf(statistic, self.df))
        elif self.null is not None:
            drawn = np.sort(self._tested(self.null, n, self._shared, rng)[0])
            p = (drawn.size - np.searchsorted(drawn, least_equal(statistic)) + 1) / (drawn.size + 1)
            error = float(np.sqrt(level * (1 - level) / drawn.size))
        share, low, high = (float(np.mean((p <= at) & ~refused)) for at in (level, level - error, level + error))
        # one more survey of each kind, so that no error is 0
        sure = (share * p.size + 1) / (p.size + 2)
        return PredictedPower(share, source, float(np.hypot(np.sqrt(sure * (1 - sure) / p.size), (high - low) / 2)))

    @property
    def _affordable(self) -> int:
        return max(_FEWEST_SURVEYS, min(_MOST_SURVEYS, _MOST_WORK // self.work))

    @property
    def _shared(self) -> int:
        return max(_FEWEST_SHARED, _SHARED * self._affordable)

    def _chi_square(self, n: float, level: float) -> bool:
        """Check whether p-values near the level are those of χ²."""
        return n >= self.clear and bool(chi_square_holds(np.array([level]), self.df, np.array([n * self.fewest]))[0])

    def _told(self, level: float) -> bool:
        """Check whether p-values near the level are known without χ²."""
        return self.null is None or level * self._shared >= _HITS

    def _tested(self, draw: DrawSurveys, n: int, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Simulate surveys and compute statistics and p-values."""
        blocks = [self.test(draw(n, min(_BLOCK, size - start), rng), rng) for start in range(0, size, _BLOCK)]
        statistic, p = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return statistic, p


def drawn_from(law: FloatArray) -> DrawSurveys:
    """Draw tables of one sample with report probabilities ``law``, of any shape."""
    chances = law.ravel() / law.sum()

    def draw(n: int, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.multinomial(n, chances, size=size).reshape(size, *law.shape).astype(np.float64)

    return draw
