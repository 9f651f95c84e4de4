"""Intervals of measures by test inversion: every value is tested by an equation that divides by nothing.

"The measure is at v" says that G = (1 − v) L − v U is 0 (:mod:`optrr.tables.measures.quantities`). The unbiased estimate of G
is tested against its law at a table with that value: the projected estimate, moved along the covariance of its cells with G
until G is 0, as the likeliest tables with the value lie there to first order. The law is that of
:mod:`optrr.tables.estimation.intervals`. Where L + U cannot be told from 0, hardly a value is rejected, and the interval grows
towards the measure's whole range (Fieller, JRSS B 16, 1954, for a ratio of means).

The law's variance is that at one table. Where noise swamps the groups themselves, other tables with the same value lie as
near, and the variance of G there is another. A value is therefore rejected only if the estimate is far from every table with
that value, too: as many standard errors as a normal variable has in its tail (:mod:`optrr.tables.measures.nearest`). Neither
test is enough alone: the distance does not know that few records make the law lean to one side.

L and U are never negative, so where their estimates are, they count as 0: no interval is empty, and coverage at the ends of the
range is above the confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy.special import ndtr

from optrr.tables.estimation.intervals import Law, Sampling
from optrr.tables.estimation.invert import invert
from optrr.tables.estimation.simplex import projection
from optrr.tables.measures.nearest import signed_distance
from optrr.tables.measures.quantities import Odds
from optrr_solvers.arrays import FloatArray

# No limit lies farther than this from the estimate, in standard errors of G, and farther the first-order path does not hold.
_FARTHEST = 4.0
# Steps of Newton's method along the path; G is quadratic, so that few suffice.
_STEPS, _SOLVED = 6, 1e-9
# Positions at which values beyond the nearest limits are tried: where L + U is faint, those far away may fit again.
_TRIED = np.linspace(0.0, 1.0, 21)
# Where a step does not reach the limit, the next is this many times as long.
_GROWTH = 1.6


@dataclass(frozen=True, eq=False)
class Inversion:
    """What observed proportions (R,) of n reports say about one measure."""

    odds: Odds
    sampling: Sampling
    observed: FloatArray

    @staticmethod
    def of(odds: Odds, sampling: Sampling, observed: FloatArray) -> Inversion:
        """The measure's own sums, sampled as the cells are."""
        return Inversion(odds, Sampling(sampling.kernel, sampling.n, odds.sums), observed)

    def of_records(self, n: int) -> Inversion:
        """What the same proportions of ``n`` reports would say."""
        return Inversion(self.odds, Sampling(self.sampling.kernel, n, self.odds.sums), self.observed)

    @cached_property
    def _table(self) -> FloatArray:
        """(R,) the projected estimate with half a record more in every cell: one without reports is not known to be empty."""
        kernel = self.sampling.kernel
        return projection(kernel.solve(self.sampling.padded(self.observed).reshape(kernel.sizes)).ravel())

    @cached_property
    def _quantities(self) -> tuple[float, float]:
        """Unbiased estimates of L and U, 0 where they are negative."""
        sums = self.observed @ self.sampling.influence
        covariance = self.sampling.covariance(self.observed, self.sampling.n - 1)
        expansions = (self.odds.over.at(sums), self.odds.under.at(sums))
        over, under = (max(e.value - e.bias(covariance), 0.0) for e in expansions)
        return over, under

    @cached_property
    def position(self) -> float:
        """The estimate of v: of the unbiased quantities, or of the projected table where both of them are 0."""
        over, under = self._quantities
        if over + under == 0:
            sums = self.odds.sums @ self._table
            over, under = (max(part.at(sums).value, 0.0) for part in (self.odds.over, self.odds.under))
        return over / (over + under) if over + under > 0 else 0.5

    @cached_property
    def _noise(self) -> tuple[FloatArray, FloatArray]:
        """Covariance of the cells with the sums (R, K), and of the sums (K, K)."""
        padded, influence = self.sampling.padded(self.observed), self.sampling.influence
        kernel = self.sampling.kernel
        weighted = (padded[:, None] * influence).T
        cells = np.stack([kernel.solve(each.reshape(kernel.sizes)).ravel() for each in weighted], axis=1)
        mean = kernel.solve(padded.reshape(kernel.sizes)).ravel()
        return (cells - np.outer(mean, padded @ influence)) / self.sampling.n, self.sampling.noise(self.observed)

    def _moved(self, position: float) -> FloatArray:
        """(R,) the table near the estimate at which the measure is at v."""
        cells, covariance = self._noise
        table, moved = self._table, 0.0
        for _ in range(_STEPS):
            equation = self.odds.equation(position, self.odds.sums @ table)
            deviation = sqrt(max(float(equation.gradient @ covariance @ equation.gradient), 0.0))
            if not deviation > 0 or abs(equation.value) <= _SOLVED * deviation:
                break
            errors = float(np.clip(-equation.value / deviation, -_FARTHEST - moved, _FARTHEST - moved))
            table = table + errors / deviation * (cells @ equation.gradient)
            moved += errors
        return table

    def law(self, position: float) -> Law:
        """Of the estimate of G where the measure is at v."""
        table = self._moved(position)
        equation = self.odds.equation(position, self.odds.sums @ table)
        return self.sampling.law(0.0, table, equation.gradient, equation.hessian)

    def tail(self, position: float, side: int) -> float:
        """Probability, where the measure is at v, of an estimate as high (side 0) or as low (side 1) as the one there is.

        The larger one of two: under the law, and of the distance from the nearest table.
        """
        over, under = self._quantities
        below = self.law(position).below((1 - position) * over - position * under)
        equation = self.odds.equation(position, self.observed @ self.sampling.influence)
        nearer = float(ndtr(signed_distance(equation, self._noise[1])))
        return max(below, nearer) if side else max(1 - below, 1 - nearer)

    def deviation(self) -> float:
        """Standard error of v by the delta method at the estimate; NaN where L + U is estimated as 0."""
        total = sum(self._quantities)
        return sqrt(max(self.law(self.position).variance, 0.0)) / total if total > 0 else float("nan")

    def limits(self, tail: float) -> tuple[float, float]:
        """Smallest and largest v that is not rejected with error probability ``tail`` on either side."""
        return self._limit(tail, 0), self._limit(tail, 1)

    def _limit(self, tail: float, side: int) -> float:
        end = float(side)

        def accepted(position: float) -> float:
            return min(self.tail(position, 0), self.tail(position, 1)) - tail

        reach = self.deviation()
        if not 0 < reach < 1:
            reach = 1.0

        def limit(start: float, step: float) -> float:
            return float(np.clip(invert(accepted, start, step if side else -step, end, growth=_GROWTH), 0.0, 1.0))

        near = limit(self.position, reach)
        beyond = [v for v in _TRIED if (v > near if side else v < near) and accepted(float(v)) >= 0]
        return limit(float(max(beyond) if side else min(beyond)), float(_TRIED[1])) if beyond else near
