"""Pearson's tests of randomized counts whose law under the null hypothesis is known exactly, for many tables at once.

Goodness of fit, π = π_0:                 T = n Σ (λ̂ − λ_0)²/λ_0,  λ_0 = Pᵀπ_0, counts multinomial (n, λ_0);
Homogeneity of G groups, one mechanism:   T = Σ_g n_g Σ (λ̂_g − λ̂)²/λ̂,  λ̂ of all groups together. Given the groups' sizes
                                          and the categories' totals, every way to deal the reports to the groups is alike.

The second is a permutation test: a mechanism that treats all people alike makes reports exchangeable where people are, and
Pᵀ is injective, so reports have the same law in every group only where people have. No fit enters either law, hence none of
its errors either. χ² stands in where every cell expects so many records that it is right to within a factor of two.
"""

from __future__ import annotations

import numpy as np

from optrr.models.tests.chi_square import LimitOrDrawn
from optrr.models.tests.simulation import MOST_RECORDS, Simulation, dealt, in_blocks
from optrr_solvers.arrays import FloatArray, IntArray

# Sums of squares that are 1 may differ from it by this much: rounding, far below what changes a p-value.
_ROUNDING = 1e-13
# The most cells drawn for one p-value: random tables for about two seconds.
_MOST_CELLS = 20_000_000


def goodness_tests(
    tables: FloatArray, expected: FloatArray, rng: np.random.Generator, rule: Simulation | None = None
) -> LimitOrDrawn:
    """Tables of counts (B, R) against expected proportions (R,) that sum to 1. Cells that expect nothing may be 0 only."""
    n = tables.sum(axis=1).astype(np.int64)
    statistic = _distance(tables, n[:, None] * expected)

    def draw(of: IntArray, size: int) -> FloatArray:
        drawn = rng.multinomial(n[of, None], expected, size=(of.size, size))
        return _distance(drawn.astype(np.float64), n[of, None, None] * expected)

    cells = expected.size
    return LimitOrDrawn.of(
        statistic,
        cells - 1,
        n * expected.min(),
        lambda where: lambda of, size: in_blocks(where[of], size, cells, draw),
        rule or _rule(cells),
    )


def homogeneity_tests(tables: IntArray, rng: np.random.Generator, rule: Simulation | None = None) -> LimitOrDrawn:
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
    return LimitOrDrawn.of(
        statistic,
        df,
        fewest,
        lambda where: lambda of, size: in_blocks(where[of], size, groups * cells, draw),
        rule or _rule(groups * cells),
        possible=n < MOST_RECORDS,
    )


def _rule(cells: int) -> Simulation:
    return Simulation(most=min(Simulation.most, max(999, _MOST_CELLS // cells)))


def _distance(counts: FloatArray, expected: FloatArray) -> FloatArray:
    difference = (counts - expected) ** 2
    terms = np.divide(difference, expected, out=np.where(difference > 0, np.inf, 0.0), where=expected > 0)
    return np.asarray(terms.sum(axis=-1))
