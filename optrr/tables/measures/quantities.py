"""Every measure as the odds of two quantities: how far it lies from one end of its range, and how far from the other.

A measure θ with ends low and high is written with two functions L, U ≥ 0 of the table's proportions,

    v = L/(L + U),    θ = low + v (high − low),    or θ = L/U = v/(1 − v) where it runs from 0 to infinity,

so that "θ has this value" is the equation (1 − v) L = v U, which divides by nothing. With x_g the share of people who are in
group g and have the outcome, y_g of those who are in it and have not, b_g = x_g + y_g, and h the reference group:

    share within a group      L = x_g                     U = y_g
    risk ratio                L = x_g b_h                 U = x_h b_g
    risk difference           L = b_g b_h + x_g b_h − x_h b_g,   U = b_g b_h − x_g b_h + x_h b_g
    odds ratio                L = x_g z_h                 U = x_h z_g,   z the share with the reference outcome
    mean of scores s          L = Σ (s − min s) x         U = Σ (max s − s) x           (x the cells of the group)
    difference of means       as the risk difference, with the scores moved to 0..1
    gamma                     L = C                       U = D                         C, D: concordant, discordant pairs
    Somers' d                 L = 1 − Σ r² + 2(C − D)     U = 1 − Σ r² − 2(C − D)       r the shares of the groups
    Kendall's tau-b           L = T + 2(C − D)            U = T − 2(C − D)              T = sqrt((1 − Σ r²)(1 − Σ c²))

C = Σ π_ab π_cd over a < c, b < d, and D over a < c, b > d. All but tau-b are quadratic in a few sums of cells, so their
unbiased estimates are known (Goodman & Kruskal, JASA 49, 1954; Somers, Am. Sociol. Rev. 27, 1962; Kendall, Biometrika 33,
1945).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from optrr.tables.estimation.statistics import Expansion, column_sums, row_sums
from optrr_solvers.arrays import FloatArray

# Below this a margin holds one category only, and there are no pairs of people who differ in it.
_NO_PAIRS = 1e-12


class SumsFunction(ABC):
    """A function of K sums of cells."""

    @abstractmethod
    def at(self, sums: FloatArray) -> Expansion:
        """Value, gradient (K,) and second derivatives (K, K) at these sums (K,)."""


@dataclass(frozen=True, eq=False)
class Quadratic(SumsFunction):
    """xᵀMx of the sums x, M symmetric (K, K)."""

    matrix: FloatArray

    def at(self, sums: FloatArray) -> Expansion:
        """Exact."""
        half = self.matrix @ sums
        return Expansion(float(sums @ half), 2 * half, 2 * self.matrix)


@dataclass(frozen=True, eq=False)
class RootPlus(SumsFunction):
    """sqrt(first · second) + third, of three quadratics; sqrt counts 0 where there are no pairs who differ."""

    first: Quadratic
    second: Quadratic
    third: Quadratic

    def at(self, sums: FloatArray) -> Expansion:
        """By the chain rule."""
        p, q, rest = self.first.at(sums), self.second.at(sums), self.third.at(sums)
        if min(p.value, q.value) < _NO_PAIRS:
            return rest
        root = sqrt(p.value * q.value)
        slope = p.gradient / p.value + q.gradient / q.value
        bend = p.hessian / p.value + q.hessian / q.value
        bend = bend - np.outer(p.gradient, p.gradient) / p.value**2 - np.outer(q.gradient, q.gradient) / q.value**2
        return Expansion(
            root + rest.value,
            root * slope / 2 + rest.gradient,
            root * (bend / 2 + np.outer(slope, slope) / 4) + rest.hessian,
        )


@dataclass(frozen=True, eq=False)
class Odds:
    """A measure: two quantities L and U of K sums of cells, and the range of the measure.

    Parameters
    ----------
    sums
        (K, R): which cells each sum adds up, with which weights.
    low, high
        the measure where L is 0 and where U is; an infinite ``high`` makes it L/U, with ``low`` 0.
    """

    sums: FloatArray
    over: SumsFunction
    under: SumsFunction
    low: float
    high: float

    def shown(self, position: float) -> float:
        """The measure at v ∈ [0, 1]."""
        if self.high == inf:
            return position / (1 - position) if position < 1 else inf
        return self.low + position * (self.high - self.low)

    def position(self, value: float) -> float:
        """v of a value of the measure."""
        if self.high == inf:
            return value / (1 + value) if value < inf else 1.0
        return (value - self.low) / (self.high - self.low)

    def slope(self, position: float) -> float:
        """Its derivative in v."""
        if self.high == inf:
            return (1 - position) ** -2 if position < 1 else inf
        return self.high - self.low

    def equation(self, position: float, sums: FloatArray) -> Expansion:
        """(1 − v) L − v U, which is 0 where the measure is at v."""
        over, under = self.over.at(sums), self.under.at(sums)
        return Expansion(
            (1 - position) * over.value - position * under.value,
            (1 - position) * over.gradient - position * under.gradient,
            (1 - position) * over.hessian - position * under.hessian,
        )


def share(inside: FloatArray, outside: FloatArray) -> Odds:
    """Of the people who are in either, those who are ``inside``; both (R,) mark cells, and no cell twice."""
    return _linear(inside, outside, 0.0, 1.0)


def mean(group: FloatArray, scores: FloatArray) -> Odds:
    """Of the scores (R,) of the cells in ``group`` (R,)."""
    low, high = float(scores.min()), float(scores.max())
    return _linear(group * (scores - low), group * (high - scores), low, high)


def risk_ratio(hit: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Share of ``hit`` in ``group`` over its share in ``reference``; (R,) marks of cells each."""
    sums = np.stack([hit * group, group, hit * reference, reference])
    return Odds(sums, _product(4, 0, 3), _product(4, 2, 1), 0.0, inf)


def difference(scores: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Mean score in ``group`` less that in ``reference``; scores (R,) of the cells, marks of the groups (R,).

    With scores 1 for the outcome and 0 elsewhere it is the risk difference.
    """
    low, high = float(scores.min()), float(scores.max())
    unit = (scores - low) / (high - low)
    sums = np.stack([unit * group, group, unit * reference, reference])
    both, more = _product(4, 1, 3).matrix, _product(4, 0, 3).matrix - _product(4, 2, 1).matrix
    return Odds(sums, Quadratic(both + more), Quadratic(both - more), low - high, high - low)


def odds_ratio(hit: FloatArray, miss: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Odds of ``hit`` against ``miss`` in ``group`` over those in ``reference``; (R,) marks of cells each."""
    sums = np.stack([hit * group, miss * group, hit * reference, miss * reference])
    return Odds(sums, _product(4, 0, 3), _product(4, 2, 1), 0.0, inf)


def gamma(shape: tuple[int, int]) -> Odds:
    """Goodman and Kruskal's gamma of a table with ordered rows and columns."""
    concordant, discordant = _pairs(shape)
    return Odds(np.eye(concordant.shape[0]), Quadratic(concordant), Quadratic(discordant), -1.0, 1.0)


def somers_d(shape: tuple[int, int]) -> Odds:
    """Somers' d of the column attribute given the row attribute."""
    concordant, discordant = _pairs(shape)
    untied, more = _untied(row_sums(shape)), 2 * (concordant - discordant)
    return Odds(np.eye(untied.shape[0]), Quadratic(untied + more), Quadratic(untied - more), -1.0, 1.0)


def tau_b(shape: tuple[int, int]) -> Odds:
    """Kendall's tau-b."""
    concordant, discordant = _pairs(shape)
    more = 2 * (concordant - discordant)
    rows, columns = Quadratic(_untied(row_sums(shape))), Quadratic(_untied(column_sums(shape)))
    over, under = RootPlus(rows, columns, Quadratic(more)), RootPlus(rows, columns, Quadratic(-more))
    return Odds(np.eye(more.shape[0]), over, under, -1.0, 1.0)


def value_at(odds: Odds, table: FloatArray) -> float:
    """The measure of a distribution (R,); NaN where both quantities are 0, so that it has no value."""
    sums = odds.sums @ table
    over, under = (max(part.at(sums).value, 0.0) for part in (odds.over, odds.under))
    return odds.shown(over / (over + under)) if over + under > 0 else float("nan")


def _linear(over: FloatArray, under: FloatArray, low: float, high: float) -> Odds:
    # a sum of cells is quadratic, too: its product with the sum of all, which is 1
    sums = np.stack([over, under, np.ones_like(over)])
    return Odds(sums, _product(3, 0, 2), _product(3, 1, 2), low, high)


def _product(count: int, i: int, j: int) -> Quadratic:
    """x_i x_j of ``count`` sums."""
    matrix = np.zeros((count, count))
    matrix[i, j] += 0.5
    matrix[j, i] += 0.5
    return Quadratic(matrix)


def _pairs(shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Matrices (R, R) of C and D."""
    row, column = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    sign = np.sign(row[:, None] - row) * np.sign(column[:, None] - column)
    # every pair of cells stands twice in xᵀMx
    return (sign > 0) / 2, (sign < 0) / 2


def _untied(margin: FloatArray) -> FloatArray:
    """1 − Σ of squared shares, as (Σ π)² − Σ (margin π)²; (R, R)."""
    return np.asarray(np.ones((margin.shape[1],) * 2) - margin.T @ margin)
