"""Two calibrations of a statistic: the χ² limit where it serves, and the parametric bootstrap elsewhere.

A statistic's p-value is that of χ² where every report expects `MANY_EXPECTED` records and the p-value is not so far in
the tail that the limit may be off by a factor of two: at t standard deviations towards a cell that expects μ records,
the tails of both sides together are cosh(t³/(6√μ)) times the normal ones (Cramér's series). It is the reports that
count: empty categories do no harm where the mechanism fills them.

Elsewhere statistics are drawn under the null hypothesis one after the other (Besag & Clifford 1991). With T the observed one:

    h of them reached T, the h-th at draw l:        p = h/l
    all N are drawn and only k < h reached T:       p = (k + 1)/(N + 1)

Where the observed statistic is drawn from the same law, Pr(p ≤ α) ≤ α for all α, whatever h and N are, with equality up
to ties and steps. A p-value near 1 costs about h draws and a small one N; its relative standard error is about 1/√h, or
1/√(k + 1) at the end of the draws. No p-value is below 1/(N + 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.core.estimation.distributions import chi2
from optrr_solvers.arrays import FloatArray, IntArray

# Statistics that differ by less than this, relatively or in units of χ², are equal: they are rounded sums. Where all records
# have one category of an attribute, every table that may be drawn is the observed one, and rounding is all that differs.
_EQUAL, _ROUNDING = 1e-9, 1e-6
# Multiplications that a fit in rounds takes, about, however small the table is.
FIT_WORK = 5000
# Doubles held at once: 32 MB.
HELD = 1 << 22
# Minimum expected number of records of a report. Rarer reports make the p-value of χ² too large (levels of 1.5 to 4 %
# at nominal 5 %) or, where several attributes' rare categories meet, too small (0.8 % at nominal 0.1 %).
MANY_EXPECTED = 50.0
# Standard errors above 0 of every fitted cell that a likelihood ratio requires: one that far above 0 is estimated below
# 0 in 3 of 10^5 tables, and at 0 the ratio falls short of χ².
CLEAR_OF_ZERO = 4.0
# Standard errors above 0 from which no survey has estimates at 0 or one whose test doubts that it is clear of 0.
_CLEAR = CLEAR_OF_ZERO + 2
# arcosh 2: where t³/(6√μ) reaches this number, the tail is twice the normal one.
_DOUBLED = 1.317
# p-values of χ² this far below the least that draws can give are not drawn: no drawn statistic would reach the observed one.
_HOPELESS = 1e-3
# Statistics (len(of), size) of data sets drawn under the null hypothesis that belongs to each of the tables ``of``.
Draw = Callable[[IntArray, int], FloatArray]


@dataclass(frozen=True)
class Simulation:
    """Stopping rule of a simulation.

    After ``hits`` ≥ 1 statistics as large as the observed one, or after ``most`` draws.
    """

    hits: int = 100
    most: int = 99_999


def least_equal(statistic: FloatArray) -> FloatArray:
    """Compute the smallest statistics that count as large as these.

    On the scale of χ².
    """
    return statistic * (1 - _EQUAL) - _ROUNDING


def simulated_p_values(statistics: FloatArray, draw: Draw, rule: Simulation) -> tuple[FloatArray, IntArray]:
    """Compute simulated p-values of statistics (B,) and their exceedances."""
    reached, drawn = np.zeros(statistics.size, dtype=np.int64), np.zeros(statistics.size, dtype=np.int64)
    p = np.ones(statistics.size)
    # p-values above a half end in the first block; every next one is twice as large, so that a small one takes about ten
    open_, size, total = np.arange(statistics.size), 2 * rule.hits, 0
    while open_.size and total < rule.most:
        size = min(size, rule.most - total)
        as_large = draw(open_, size) >= least_equal(statistics[open_, None])
        seen = reached[open_, None] + np.cumsum(as_large, axis=1)
        stopped = seen[:, -1] >= rule.hits
        # the first draw at which the count is complete
        drawn[open_] = np.where(stopped, total + 1 + np.argmax(seen >= rule.hits, axis=1), total + size)
        reached[open_] = np.minimum(seen[:, -1], rule.hits)
        p[open_[stopped]] = rule.hits / drawn[open_[stopped]]
        open_ = open_[~stopped]
        total, size = total + size, 2 * size
    p[open_] = (reached[open_] + 1) / (rule.most + 1)
    return p, reached


def in_blocks(of: IntArray, size: int, doubles: int, draw: Draw) -> FloatArray:
    """Call ``draw(of, size)`` in blocks of 32 MB.

    Each statistic takes ``doubles`` doubles.
    """
    tables = max(1, HELD // (size * doubles))
    draws = max(1, HELD // doubles)
    blocks = [
        np.concatenate([draw(of[b : b + tables], min(draws, size - s)) for s in range(0, size, draws)], axis=1)
        for b in range(0, of.size, tables)
    ]
    return np.concatenate(blocks)


def drawn_statistics(
    n: FloatArray,
    laws: FloatArray,
    statistics: Callable[[FloatArray], FloatArray],
    doubles: int,
    rng: np.random.Generator,
) -> Draw:
    """Simulate ``statistics`` of tables of n (B,) records.

    From distributions (B, *sizes) up to scale; each takes so many doubles.
    """
    whole, sizes, flat = n.astype(np.int64), laws.shape[1:], laws.reshape(n.size, -1)
    flat = flat / flat.sum(axis=1, keepdims=True)

    def draw(of: IntArray, size: int) -> FloatArray:
        drawn = rng.multinomial(whole[of, None], flat[of, None, :], size=(of.size, size))
        return statistics(drawn.reshape(-1, *sizes).astype(np.float64)).reshape(of.size, size)

    return lambda of, size: in_blocks(of, size, doubles, draw)


def reliable_down_to(df: int, fewest: FloatArray) -> FloatArray:
    """Compute the smallest p-values at which χ² is within a factor of two.

    For reports with expected counts of at least ``fewest``; infinite if none is.

    The statistic is taken as if all of it came from the rarest report.
    """
    farthest = (6 * _DOUBLED * np.sqrt(fewest)) ** (1 / 3)
    return np.where(fewest >= MANY_EXPECTED, chi2.sf(farthest**2, df), np.inf)


def chi_square_holds(p: FloatArray, df: int, fewest: FloatArray) -> NDArray[np.bool_]:
    """Check that p-values of the χ² limit are within a factor of two, (B,).

    ``fewest`` are the smallest expected counts.
    """
    return np.asarray(p >= reliable_down_to(df, fewest))


def records_clear(shares: FloatArray, variance: FloatArray) -> float:
    """Compute the records that put estimates of proportions far above 0.

    ``variance`` is that of estimates from one record.
    """
    ratios = np.divide(variance, shares**2, out=np.full(shares.shape, np.inf), where=shares > 0)
    return float(_CLEAR**2 * ratios.max())


@dataclass(frozen=True, eq=False)
class LimitOrDrawn:
    """Tests of a batch, shape (B,).

    ``source`` says where each p-value is from: "asymptotic", "bootstrap", or the name of an extension's own
    calibration. ``reached``: how many statistics drawn by ``rule`` were as large. Where none was, p is 1/(most + 1), an
    upper bound, or the χ² limit's smaller value where that has the right order of magnitude. ``down_to``: the p-value
    down to which one that was not drawn is within a factor of two.
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    source: NDArray[np.object_]
    reached: IntArray
    rule: Simulation
    down_to: FloatArray

    @property
    def simulated(self) -> NDArray[np.bool_]:
        """Whether each p-value comes from drawn statistics."""
        return np.asarray(self.source == "bootstrap")

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
    ) -> "LimitOrDrawn":
        """Compute p-values; ``fewest`` is each table's smallest expected count.

        ``draw`` returns a sampler for the tables of some numbers.

        The χ² limit needs a null hypothesis that is ``clear`` of its bounds, and stands where drawing is not
        ``possible``, and ``beyond`` the range of the draws.
        """
        limit = np.asarray(chi2.sf(statistic, df))
        p, reached = limit.copy(), np.zeros(statistic.size, dtype=np.int64)
        down_to = np.where(clear, reliable_down_to(df, fewest), np.inf)
        # χ² has the right order of magnitude where records are many
        ordered = (fewest >= MANY_EXPECTED) & clear & beyond
        simulated = (limit < down_to) & possible & ~(ordered & (limit < _HOPELESS / (rule.most + 1)))
        where = np.flatnonzero(simulated)
        if where.size:
            p[where], reached[where] = simulated_p_values(statistic[where], draw(where), rule)
        p = np.where(ordered & simulated & (reached == 0), np.minimum(p, limit), p)
        source = np.where(simulated, "bootstrap", "asymptotic").astype(object)
        return cls(statistic, df, p, source, reached, rule, down_to)
