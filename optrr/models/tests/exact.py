"""Pearson's tests of randomized counts whose law under the null hypothesis is known exactly, for many tables at once.

Goodness of fit, π = π_0:                 T = n Σ (λ̂ − λ_0)²/λ_0,  λ_0 = Pᵀπ_0, counts multinomial (n, λ_0);
Homogeneity of G groups, one mechanism:   T = Σ_g n_g Σ (λ̂_g − λ̂)²/λ̂,  λ̂ of all groups together. Given the groups' sizes
                                          and the categories' totals, every way to deal the reports to the groups is alike.

The second is a permutation test: a mechanism that treats all people alike makes reports exchangeable where people are, and
Pᵀ is injective, so reports have the same law in every group only where people have. No fit enters either law, hence none of
its errors either. χ² stands in where every cell expects so many records that it is right to within a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from optrr.models.tests.chi_square import MANY_EXPECTED
from optrr.models.tests.simulation import MOST_RECORDS, Draw, Simulation, dealt, in_blocks, simulated_p_values
from optrr_solvers.arrays import FloatArray, IntArray

# arcosh 2: where t³/(6√μ) reaches this number, the tail is twice the normal one.
_DOUBLED = 1.317
# Sums of squares that are 1 may differ from it by this much: rounding, far below what changes a p-value.
_ROUNDING = 1e-13
# The most cells drawn for one p-value: random tables for about two seconds.
_MOST_CELLS = 20_000_000


@dataclass(frozen=True, eq=False)
class ExactTests:
    """Of a batch, shape (B,).

    ``simulated`` says where the exact law was drawn from and ``reached`` how many statistics drawn by ``rule`` were as large.
    Where none was, p is 1/(most + 1), an upper bound, or the χ² limit's smaller value if every cell expects 50 records.
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    simulated: NDArray[np.bool_]
    reached: IntArray
    rule: Simulation


def goodness_tests(
    tables: FloatArray, expected: FloatArray, rng: np.random.Generator, rule: Simulation | None = None
) -> ExactTests:
    """Tables of counts (B, R) against expected proportions (R,) that sum to 1. Cells that expect nothing may be 0 only."""
    n = tables.sum(axis=1).astype(np.int64)
    statistic = _distance(tables, n[:, None] * expected)

    def draw(of: IntArray, size: int) -> FloatArray:
        drawn = rng.multinomial(n[of, None], expected, size=(of.size, size))
        return _distance(drawn.astype(np.float64), n[of, None, None] * expected)

    return _calibrated(statistic, expected.size - 1, n * expected.min(), draw, expected.size, rule)


def homogeneity_tests(tables: IntArray, rng: np.random.Generator, rule: Simulation | None = None) -> ExactTests:
    """Tables of counts (B, G, R), a row for each group; every group has at least one record."""
    groups, cells = tables.shape[1:]
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    n = rows.sum(axis=1)
    # margins of 0 do not change the statistic
    weights = np.divide(1.0, columns, out=np.zeros(columns.shape), where=columns > 0)

    def distance(counts: IntArray, of: IntArray) -> FloatArray:
        """Of tables (len(of), size, G, R): n (Σ x²/(row · column) − 1)."""
        squares = np.einsum("bsgr,bg,br->bs", counts.astype(np.float64) ** 2, 1 / rows[of], weights[of])
        # where the groups are exactly alike, as where all records are in one category, only rounding is left
        return np.asarray(n[of, None] * np.where(squares - 1 > _ROUNDING, squares - 1, 0.0))

    def draw(of: IntArray, size: int) -> FloatArray:
        return distance(dealt(rows[of], columns[of], size, rng), of)

    statistic = distance(tables[:, None], np.arange(n.size))[:, 0]
    fewest = rows.min(axis=1) * columns.min(axis=1) / n
    df = (groups - 1) * (cells - 1)
    return _calibrated(statistic, df, fewest, draw, groups * cells, rule, n < MOST_RECORDS)


def chi_square_holds(p: FloatArray, df: int, fewest: FloatArray) -> NDArray[np.bool_]:
    """Whether the χ² limit's p-values are within a factor of two, for these smallest expected counts μ, shape (B,).

    At t standard deviations towards a cell that expects μ records, the tails of both sides together are cosh(t³/(6√μ)) times
    the normal ones (Cramér's series). The statistic is taken as if all of it came from the rarest cell.
    """
    farthest = (6 * _DOUBLED * np.sqrt(fewest)) ** (1 / 3)
    return np.asarray((fewest >= MANY_EXPECTED) & (p >= chi2.sf(farthest**2, df)))


def _calibrated(  # noqa: PLR0913 (what the two tests share, each argument a property of the batch)
    statistic: FloatArray,
    df: int,
    fewest: FloatArray,
    draw: Draw,
    cells: int,
    rule: Simulation | None,
    possible: NDArray[np.bool_] | bool = True,
) -> ExactTests:
    rule = rule or Simulation(most=min(Simulation.most, max(999, _MOST_CELLS // cells)))
    limit = np.asarray(chi2.sf(statistic, df))
    p, simulated = limit.copy(), ~chi_square_holds(limit, df, fewest) & possible
    reached = np.zeros(p.size, dtype=np.int64)
    where = np.flatnonzero(simulated)
    if where.size:
        drawn = simulated_p_values(statistic[where], lambda of, size: in_blocks(where[of], size, cells, draw), rule)
        p[where], reached[where] = drawn.p_value, drawn.reached
    # no simulated table reached the statistic; with many records in every cell the χ² limit still has the right order of
    # magnitude
    p = np.where(simulated & (reached == 0) & (fewest >= MANY_EXPECTED), np.minimum(p, limit), p)
    return ExactTests(statistic, df, p, simulated, reached, rule)


def _distance(counts: FloatArray, expected: FloatArray) -> FloatArray:
    difference = (counts - expected) ** 2
    terms = np.divide(difference, expected, out=np.where(difference > 0, np.inf, 0.0), where=expected > 0)
    return np.asarray(terms.sum(axis=-1))
