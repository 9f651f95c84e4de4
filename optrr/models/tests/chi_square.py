"""Where the χ² limit of a test's statistic can be believed, as was measured, and p-values from drawn tables elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from optrr.models.tests.simulation import Draw, Simulation, simulated_p_values
from optrr_solvers.arrays import FloatArray, IntArray

# Records that a report must be expected of. Reports that expect fewer make χ² too large a p-value (levels of 1.5 to 4 % at
# nominal 5 %) or, where several attributes' rare categories meet, too small a one (0.8 % at nominal 0.1 %); steps of one record
# show in the tail, so that χ² is off at the usual levels, too, and says nothing of p-values that no simulated table reaches.
# Where every report expects this many and χ² still does not hold, the p-value is far in the tail.
MANY_EXPECTED = 50.0
# Standard errors above 0 of every fitted cell that a likelihood ratio asks for: one that far above 0 is estimated below 0 in 3
# of 10^5 tables, and at 0 the ratio falls short of χ².
CLEAR_OF_ZERO = 4.0
# arcosh 2: where t³/(6√μ) reaches this number, the tail is twice the normal one.
_DOUBLED = 1.317


def chi_square_holds(p: FloatArray, df: int, fewest: FloatArray) -> NDArray[np.bool_]:
    """Whether the χ² limit's p-values are within a factor of two, for these smallest expected counts μ, shape (B,).

    At t standard deviations towards a cell that expects μ records, the tails of both sides together are cosh(t³/(6√μ)) times
    the normal ones (Cramér's series). The statistic is taken as if all of it came from the rarest cell.
    """
    farthest = (6 * _DOUBLED * np.sqrt(fewest)) ** (1 / 3)
    return np.asarray((fewest >= MANY_EXPECTED) & (p >= chi2.sf(farthest**2, df)))


@dataclass(frozen=True, eq=False)
class LimitOrDrawn:
    """Tests of a batch, shape (B,).

    ``simulated`` says where the law under the null hypothesis was drawn from and ``reached`` how many statistics drawn by
    ``rule`` were as large. Where none was, p is 1/(most + 1), an upper bound, or the χ² limit's smaller value where that has
    the right order of magnitude.
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    simulated: NDArray[np.bool_]
    reached: IntArray
    rule: Simulation

    @classmethod
    def of(  # noqa: PLR0913 (each argument a property of the batch)
        cls,
        statistic: FloatArray,
        df: int,
        fewest: FloatArray,
        draw: Callable[[IntArray], Draw],
        rule: Simulation,
        *,
        clear: NDArray[np.bool_] | bool = True,
        possible: NDArray[np.bool_] | bool = True,
        beyond: bool = True,
    ) -> LimitOrDrawn:
        """Tests whose reports expect at least ``fewest`` records; ``draw`` makes what draws for the tables of some numbers.

        The χ² limit needs a null hypothesis that is ``clear`` of its bounds, and stands where drawing is not ``possible``, and
        ``beyond`` what is drawn.
        """
        limit = np.asarray(chi2.sf(statistic, df))
        p, reached = limit.copy(), np.zeros(statistic.size, dtype=np.int64)
        simulated = ~(chi_square_holds(limit, df, fewest) & clear) & possible
        where = np.flatnonzero(simulated)
        if where.size:
            drawn = simulated_p_values(statistic[where], draw(where), rule)
            p[where], reached[where] = drawn.p_value, drawn.reached
        # where no simulated table reached the statistic, χ² still has the right order of magnitude if records are many
        ordered = simulated & (reached == 0) & (fewest >= MANY_EXPECTED) & clear & beyond
        return cls(statistic, df, np.where(ordered, np.minimum(p, limit), p), simulated, reached, rule)
