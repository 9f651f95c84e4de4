"""Measures as odds of two quantities: the distances of the measure from the two ends of its range.

A measure θ with ends low and high is written with two functions L, U ≥ 0 of the table's proportions,

    v = L/(L + U),    θ = low + v (high − low),    or θ = L/U = v/(1 − v) where it runs from 0 to infinity,

so that "θ has this value" is the equation (1 − v) L = v U, without division. With x_g the proportion of people who are
in group g and have the outcome, y_g that of people in the group without it, b_g = x_g + y_g, and h the reference group:

    share within a group      L = x_g                     U = y_g
    risk ratio                L = x_g b_h                 U = x_h b_g
    risk difference           L = b_g b_h + x_g b_h − x_h b_g,   U = b_g b_h − x_g b_h + x_h b_g
    odds ratio                L = x_g z_h                 U = x_h z_g,   z the share with the reference outcome
    mean of scores s          L = Σ (s − min s) x         U = Σ (max s − s) x           (x the cells of the group)
    difference of means       as the risk difference, with the scores moved to 0..1
    gamma                     L = C                       U = D                         C, D: concordant, discordant pairs
    Somers' d                 L = 1 − Σ r² + 2(C − D)     U = 1 − Σ r² − 2(C − D)       r the shares of the groups
    sum of means m_k          L = Σ l_k Π_{j≠k} d_j       U = Σ u_k Π_{j≠k} d_j         l, u: L, U of m_k; d = (l + u)/range
    Kendall's tau-b           L = T + 2(C − D)            U = T − 2(C − D)              T = sqrt((1 − Σ r²)(1 − Σ c²))

C = Σ π_ab π_cd over a < c, b < d, and D over a < c, b > d. All but tau-b and sums of three or more means are quadratic in a few
sums of cells, so their unbiased estimates are known (Goodman & Kruskal, JASA 49, 1954; Somers, Am. Sociol. Rev. 27, 1962;
Kendall, Biometrika 33, 1945). The bias of second order that the mechanism's noise gives L and U is taken off; sampling scales
both alike where records have equal weights. Without noise the estimate is therefore the usual one: of a weighted sample that
of the weighted proportions (Hájek), as R's `survey` prints it.

Intervals are by test inversion (:mod:`optrr.core.estimation.score_interval`). "The measure is v" means that G = (1 − v)
L − v U is 0. The null reports λ are those of highest likelihood at which G is 0, found by turns on tangent planes of G:
λ = λ̂/(1 + μ h) with h the contribution of each report to G. The deviate of the unbiased sums ŝ, with gradient g and
covariance C at λ, is

    t = (G(s) + gᵀ(ŝ − s))/√(gᵀ C(λ) g),    s the sums under λ.

It is the score test: without a mechanism Wilson's (JASA 22, 1927, 209) for one proportion, and Miettinen and Nurminen's
(Statistics in Medicine 4, 1985, 213) for differences and ratios, without their factor n/(n − 1). A group in which none
or all have the outcome has a finite end on the other side.

Noise may take estimates of L and U below 0, and an estimate that is too low is no evidence against v = 0; equal halves
of the error probability would waste one half. Outcomes are ordered by their likelihood ratio against the best value in
the range (Feldman and Cousins, Physical Review D 57, 1998, 3873): for a normal estimate d standard errors from the
lower end, a deviation −t with t > d ranks as √(2dt − d²), and similarly at the upper end. Distances are in standard
errors that the mechanism alone causes.

Where L + U cannot be distinguished from 0, hardly any value is rejected, and the interval grows towards the measure's
whole range (Fieller, JRSS B 16, 1954, for a ratio of means).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import copysign, inf, isfinite, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from optrr.core.estimation import Expansion, Sampling, column_sums, invert, projection, row_sums
from optrr_solvers.arrays import FloatArray


def likeliest(observed: FloatArray, off: FloatArray) -> FloatArray | None:
    """Maximize the likelihood of λ given that the mean of ``off`` is 0.

    The observed proportions must all be positive.

    λ = observed/(1 + μ off), with the multiplier that makes the mean 0 (Owen, Biometrika 75, 1988). None if no such λ
    exists.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 (slow to import, and tables need none of it)

    low, high = float(off.min()), float(off.max())
    if not low < 0 < high:
        return None

    def mean(multiplier: float) -> float:
        return float(observed @ (off / (1 + multiplier * off)))

    ends = (_POLE - 1) / high, (_POLE - 1) / low
    if not mean(ends[0]) > 0 > mean(ends[1]):
        return None
    out = observed / (1 + float(brentq(mean, *ends, xtol=_MULTIPLIER, maxiter=_MOST_STEPS, disp=False)) * off)
    return np.asarray(out / out.sum())


# Below this a margin holds one category only, and there are no pairs of people who differ in it.
_NO_PAIRS = 1e-12


@dataclass(frozen=True, eq=False)
class Quadratic:
    """xᵀMx of the sums x, M symmetric (K, K)."""

    matrix: FloatArray

    def at(self, sums: FloatArray) -> Expansion:
        """Compute value, gradient (K,) and second derivatives (K, K) at sums (K,)."""
        half = self.matrix @ sums
        return Expansion(float(sums @ half), 2 * half, 2 * self.matrix)


@dataclass(frozen=True, eq=False)
class RootPlus:
    """sqrt(first · second) + third, of three quadratics.

    sqrt is 0 if there are no pairs that differ.
    """

    first: Quadratic
    second: Quadratic
    third: Quadratic

    def at(self, sums: FloatArray) -> Expansion:
        """Expand by the chain rule."""
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
class SumOfRatios:
    """Σ_k x_k Π_{j≠k} d_j, the numerator of Σ_k x_k/d_k.

    d_j = (a_j + b_j)/range_j of the sums a_1, b_1, a_2, b_2, ….

    x is a (``side`` 0) or b (1). ``ranges`` are by how much the mean score of each group can change.
    """

    ranges: FloatArray
    side: int

    def at(self, sums: FloatArray) -> Expansion:
        """Compute value, gradient (2K,) and second derivatives (2K, 2K).

        Everything is linear in each x and each d.
        """
        count = self.ranges.size
        pairs = sums.reshape(count, 2)
        x, d = pairs[:, self.side], pairs.sum(axis=1) / self.ranges

        def others(*left_out: int) -> float:
            """Compute Σ_k x_k Π_{j≠k} d_j without some terms and factors."""
            kept = [j for j in range(count) if j not in left_out]
            return float(sum(x[k] * np.prod([d[j] for j in kept if j != k]) for k in kept))

        gradient, hessian = np.empty(2 * count), np.zeros((2 * count, 2 * count))
        for k in range(count):
            gradient[k], gradient[count + k] = np.prod(np.delete(d, k)), others(k)
            for j in (j for j in range(count) if j != k):
                hessian[k, count + j] = hessian[count + j, k] = np.prod(np.delete(d, [k, j]))
                hessian[count + k, count + j] = others(k, j)
        # x and d from the sums
        chosen = np.zeros((2 * count, 2 * count))
        at = np.arange(count)
        chosen[at, 2 * at + self.side] = 1
        chosen[count + at, 2 * at] = chosen[count + at, 2 * at + 1] = 1 / self.ranges
        return Expansion(others(), gradient @ chosen, chosen.T @ hessian @ chosen)


@dataclass(frozen=True, eq=False)
class Odds:
    """A measure as a ratio of two quantities of K sums of cells.

    L ``over`` and U ``under``, and the range of the measure.

    ``sums`` (K, R) are the weights of the cells in each sum. The measure is ``low`` where L is 0 and ``high`` where U
    is; an infinite ``high`` makes it L/U, with ``low`` 0.
    """

    sums: FloatArray
    over: Quadratic | RootPlus | SumOfRatios
    under: Quadratic | RootPlus | SumOfRatios
    low: float
    high: float

    def shown(self, position: float) -> float:
        """Compute the measure's value at position v ∈ [0, 1]."""
        if self.high == inf:
            return position / (1 - position) if position < 1 else inf
        return self.low + position * (self.high - self.low)

    def position(self, value: float) -> float:
        """Compute v of a value of the measure."""
        if self.high == inf:
            return value / (1 + value) if value < inf else 1.0
        return (value - self.low) / (self.high - self.low)

    def of_sums(self, sums: FloatArray) -> float | None:
        """Compute the position v of the measure from sums of cells (K,).

        Negative L and U are 0; None if both are 0.
        """
        over, under = (max(part.at(sums).value, 0.0) for part in (self.over, self.under))
        return over / (over + under) if over + under > 0 else None

    def slope(self, position: float) -> float:
        """Compute the derivative of the measure in its position v."""
        if self.high == inf:
            return (1 - position) ** -2 if position < 1 else inf
        return self.high - self.low

    def equation(self, position: float, sums: FloatArray) -> Expansion:
        """Compute (1 − v) L − v U, which is 0 if the measure is at v."""
        over, under = self.over.at(sums), self.under.at(sums)
        return Expansion(
            (1 - position) * over.value - position * under.value,
            (1 - position) * over.gradient - position * under.gradient,
            (1 - position) * over.hessian - position * under.hessian,
        )


def share(inside: FloatArray, outside: FloatArray) -> Odds:
    """Define the proportion of ``inside`` among the cells of either.

    Both (R,) mark disjoint cells.
    """
    over, under = (SumOfRatios(np.ones(1), side) for side in (0, 1))
    return Odds(np.stack([inside, outside]), over, under, 0.0, 1.0)


def imputed(row: FloatArray, cell: FloatArray, answered: FloatArray) -> Odds:
    """Define the proportion of ``row`` times that of ``cell`` among ``answered``.

    The latter is within ``row``; each (R,) marks cells.
    """
    sums = np.stack([row, cell, answered, np.ones_like(row)])
    over = _product(4, 0, 1)
    return Odds(sums, over, Quadratic(_product(4, 2, 3).matrix - over.matrix), 0.0, 1.0)


def mean(group: FloatArray, scores: FloatArray) -> Odds:
    """Define the mean of the scores (R,) of the cells in ``group`` (R,)."""
    return sum_of_means([(scores, group)])


def risk_ratio(hit: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Define the proportion of ``hit`` in ``group`` over that in ``reference``.

    All (R,) mark cells.
    """
    sums = np.stack([hit * group, group, hit * reference, reference])
    return Odds(sums, _product(4, 0, 3), _product(4, 2, 1), 0.0, inf)


def difference(scores: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Define the mean score in ``group`` less that in ``reference``.

    Scores (R,) of the cells, marks of the groups (R,).

    With scores 1 for the outcome and 0 elsewhere it is the risk difference.
    """
    return sum_of_means([(scores, group), (-scores, reference)])


def sum_of_means(parts: Sequence[tuple[FloatArray, FloatArray]]) -> Odds:
    """Define the sum of the mean scores in several groups.

    Each part has scores of the cells and marks of the group, (R,) and (R,).

    No group's scores may be all equal.
    """
    ends = [(float(s[g > 0].min()), float(s[g > 0].max())) for s, g in parts]
    sums = [sum_ for (s, g), (low, high) in zip(parts, ends, strict=True) for sum_ in (g * (s - low), g * (high - s))]
    lows, highs = np.array(ends).T
    over, under = (SumOfRatios(highs - lows, side) for side in (0, 1))
    return Odds(np.stack(sums), over, under, float(lows.sum()), float(highs.sum()))


def odds_ratio(hit: FloatArray, miss: FloatArray, group: FloatArray, reference: FloatArray) -> Odds:
    """Define the odds of ``hit`` to ``miss`` in ``group`` over ``reference``.

    All (R,) mark cells.
    """
    sums = np.stack([hit * group, miss * group, hit * reference, miss * reference])
    return Odds(sums, _product(4, 0, 3), _product(4, 2, 1), 0.0, inf)


def gamma(shape: tuple[int, int]) -> Odds:
    """Define Goodman and Kruskal's gamma of a table with ordered attributes."""
    concordant, discordant = _pairs(shape)
    return Odds(np.eye(concordant.shape[0]), Quadratic(concordant), Quadratic(discordant), -1.0, 1.0)


def somers_d(shape: tuple[int, int]) -> Odds:
    """Define Somers' d of the column attribute given the row attribute."""
    concordant, discordant = _pairs(shape)
    untied, more = _untied(row_sums(shape)), 2 * (concordant - discordant)
    return Odds(np.eye(untied.shape[0]), Quadratic(untied + more), Quadratic(untied - more), -1.0, 1.0)


def tau_b(shape: tuple[int, int]) -> Odds:
    """Define Kendall's tau-b."""
    concordant, discordant = _pairs(shape)
    more = 2 * (concordant - discordant)
    rows, columns = Quadratic(_untied(row_sums(shape))), Quadratic(_untied(column_sums(shape)))
    over, under = RootPlus(rows, columns, Quadratic(more)), RootPlus(rows, columns, Quadratic(-more))
    return Odds(np.eye(more.shape[0]), over, under, -1.0, 1.0)


def value_at(odds: Odds, table: FloatArray) -> float:
    """Compute the measure of a distribution (R,); NaN if it is undefined.

    It is undefined if both quantities are 0.
    """
    position = odds.of_sums(odds.sums @ table)
    return float("nan") if position is None else odds.shown(position)


def _product(count: int, i: int, j: int) -> Quadratic:
    """Build the quadratic form of the product of two of ``count`` sums."""
    matrix = np.zeros((count, count))
    matrix[i, j] += 0.5
    matrix[j, i] += 0.5
    return Quadratic(matrix)


def _pairs(shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Build the matrices (R, R) of C and D."""
    row, column = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    sign = np.sign(row[:, None] - row) * np.sign(column[:, None] - column)
    # every pair of cells counts twice in xᵀMx
    return (sign > 0) / 2, (sign < 0) / 2


def _untied(margin: FloatArray) -> FloatArray:
    """Build 1 − Σ of squared proportions as (Σ π)² − Σ (margin π)²; (R, R)."""
    return np.asarray(np.ones((margin.shape[1],) * 2) - margin.T @ margin)


# Turns of null reports and the equation's tangent there; three to six are usual. One that moves the distance by less than the
# second number is the last.
_TURNS, _SETTLED = 40, 2e-5
# Records added to every kind of report, so that hypotheses may have some of a kind that was not sent.
_SOME = 1e-4
# G this small against its gradient is rounding.
_NOTHING = 1e-12
# A turn goes at most so many times as far as the one before, and half as far where they go to and fro.
_LONGER = 1.3
# The multiplier's search ends this fraction short of its poles.
_POLE, _MULTIPLIER, _MOST_STEPS = 1e-12, 1e-20, 200
# Values on the way from a hypothesis that is solved to the next one, where turns do not settle.
_STOPS = 24
# Standard errors beyond which every level rejects.
_REJECTED = 8.0
# Where L + U is fewer standard errors of noise above 0, values that fit again beyond the limits are sought at these positions.
_FAINT, _TRIED = 4.0, np.linspace(0.0, 1.0, 21)
# Where a step does not reach the limit, the next is this many times as long.
_GROWTH = 1.6


@dataclass(frozen=True, eq=False)
class Null:
    """Reports (R,) nearest to those observed at which the measure has a value.

    With the ``sums`` (K,) there.

    ``distance`` is in standard errors, with the sign of the estimate's side of the hypothesis.
    """

    distance: float
    reports: FloatArray
    sums: FloatArray


def p_value(deviate: float, below: float, above: float) -> float:
    """Compute the probability of outcomes ranked no better than the estimate.

    The estimate is ``deviate`` standard errors above the hypothesis.

    ``below`` and ``above`` are the distances of the hypothesis from the ends of the range, in standard errors.
    """
    size, room = abs(deviate), above if deviate > 0 else below
    rank = size if size <= room else sqrt(room * (2 * size - room))
    both = (rank if rank <= d else (rank**2 / d + d) / 2 if d > 0 else inf for d in (above, below))
    # deviates beyond 38 have no tail that is a double
    return max(float(sum(ndtr(-each) for each in both)), float(np.finfo(np.float64).tiny))


@dataclass(frozen=True, eq=False)
class Inversion:
    """Test inversion of one measure, from observed proportions (R,) of n reports."""

    odds: Odds
    sampling: Sampling
    observed: FloatArray

    @staticmethod
    def of(odds: Odds, sampling: Sampling, observed: FloatArray) -> "Inversion":
        """Build the inversion of a measure, sampled as the cells are."""
        return Inversion(odds, replace(sampling, sums=odds.sums), observed)

    @cached_property
    def _sums(self) -> FloatArray:
        return np.asarray(self.observed @ self.sampling.influence)

    @cached_property
    def _unbiased(self) -> tuple[float, float]:
        """Estimates of the true L and U without the bias from randomization."""
        noise = self.sampling.mechanism_noise(self.observed)
        over, under = (part.at(self._sums) for part in (self.odds.over, self.odds.under))
        return over.value - over.bias(noise), under.value - under.bias(noise)

    @cached_property
    def position(self) -> float:
        """Estimate of v.

        From the unbiased quantities, 0 if negative, or from the projected table if both are.
        """
        over, under = (max(each, 0.0) for each in self._unbiased)
        if over + under > 0:
            return over / (over + under)
        kernel = self.sampling.kernel
        table = projection(kernel.solve(self.sampling.padded(self.observed).reshape(kernel.sizes)).ravel())
        position = self.odds.of_sums(self.odds.sums @ table)
        return 0.5 if position is None else position

    @cached_property
    def _solved(self) -> dict[float, Null]:
        """Hypotheses by position, the estimate first."""
        return {self.position: Null(0.0, self._likely, self._sums)}

    def null(self, position: float) -> Null:
        """Find the null at v, starting from the nearest known one."""
        if position not in self._solved:
            at = min(self._solved, key=lambda v: abs(v - position))
            found, step = self._solved[at], position - at
            for _ in range(_STOPS):
                target = position if abs(step) >= (1 - _SETTLED) * abs(position - at) else at + step
                further = self._turned(target, found)
                if further is None:
                    step = (target - at) / 2
                    continue
                found, at = further, target
                if at == position or abs(found.distance) > _REJECTED:
                    break
            # one that is not reached is at least as far as the last on the way
            self._solved[position] = found
        return self._solved[position]

    def _turned(self, position: float, start: Null) -> Null | None:
        """Alternate between tangent plane and maximum likelihood; None if divergent."""
        sampling, reports, sums, before, step, part = self.sampling, start.reports, start.sums, inf, 0.0, 1.0
        for _ in range(_TURNS):
            equation = self.odds.equation(position, sums)
            influence, level = sampling.influence @ equation.gradient, equation.gradient @ sums - equation.value
            off = float(equation.gradient @ self._sums - level)
            if abs(off) <= _NOTHING * np.abs(equation.gradient).max():
                return Null(0.0, reports, sums)
            tilted = likeliest(self._likely, influence - level)
            if tilted is None:
                return Null(copysign(inf, off), reports, sums)
            reports, sums = tilted, sums + part * (tilted @ sampling.influence - sums)
            variance = sampling.variance(reports, equation.gradient)
            distance = off / sqrt(variance) if variance > 0 else copysign(inf, off)
            if abs(distance - before) <= _SETTLED * max(1.0, abs(distance)) or distance == before:
                return Null(distance, reports, sums)
            # turns that go to and fro meet between
            part = part / 2 if step * (distance - before) < 0 else min(_LONGER * part, 1.0)
            before, step = distance, 0.0 if before == inf else distance - before
        return None

    @cached_property
    def _likely(self) -> FloatArray:
        """Observed proportions (R,), or proper ones near them, all positive."""
        return (self.sampling.proper(self.observed) * self.sampling.n + _SOME) / (
            self.sampling.n + _SOME * self.observed.size
        )

    def excesses(self, position: float, tail: float) -> tuple[float, float]:
        """Compute by how many more standard errors the estimate could deviate.

        Above and below, before "the measure is at v" is rejected.

        Negative: it is rejected as too low a value, or as too high a value, with an error probability of twice the ``tail``.
        """
        null, most = self.null(position), -float(ndtri(tail))
        equation = self.odds.equation(position, null.sums)
        slope = equation.gradient
        total, noise = sum(part.at(null.sums).value for part in (self.odds.over, self.odds.under)), 0.0
        if abs(null.distance) < _REJECTED:
            noise = self._noise(null.reports, slope) / total if total > 0 else inf
        # the tail is not the normal one for a sample, whose variance is estimated
        distance = null.distance
        if isfinite(distance):
            # noise bends the equation as well: the variance of its second-order part
            bent = equation.hessian @ self.sampling.mechanism_noise(null.reports)
            variance = self.sampling.variance(null.reports, slope)
            distance *= sqrt(variance / (variance + float(np.sum(bent * bent.T)) / 2)) if variance > 0 else 1.0
        size = -float(ndtri(self.sampling.tail(float(ndtr(-abs(distance))), self.observed, slope)))
        rooms = [(end / noise if noise > 0 else inf) for end in (position, 1 - position)]
        left = float(ndtri(p_value(copysign(size, distance), *rooms) / 2)) + most
        return (left, most) if distance > 0 else (most, left)

    def standard_error(self, position: float) -> float:
        """Compute the standard error of the measure at v by the delta method.

        For a weighted sample by Taylor linearization. Infinite or NaN if undefined.
        """
        error = self._linearised()
        return self.deviation() * self.odds.slope(position) if error is None else error

    def _linearised(self) -> float | None:
        """Compute the error by Taylor linearization at the ratio L/(L + U).

        None without a sample, and unless the ratio is between 0 and 1.
        """
        sums = self._sums
        over, under = self.odds.over.at(sums), self.odds.under.at(sums)
        total = over.value + under.value
        # at an end of the range all informative reports are equal
        if not min(over.value, under.value) > _NO_PAIRS * total:
            return None
        position = over.value / total
        variance = self.sampling.linearised(self.odds.equation(position, sums).gradient / total)
        return None if variance is None else sqrt(max(variance, 0.0)) * self.odds.slope(position)

    def deviation(self) -> float:
        """Compute the standard error of v at the estimate by the delta method.

        NaN if L + U is estimated as 0.

        With half a record more in every cell where the informative reports are nearly all equal, and show hardly any
        variance.
        """
        total = sum(max(each, 0.0) for each in self._unbiased)
        slope = self.odds.equation(self.position, self._sums).gradient
        own, padded = (
            self.sampling.variance(reports, slope) for reports in (self.observed, self.sampling.padded(self.observed))
        )
        return sqrt(max(own if own > padded / 4 else padded, 0.0)) / total if total > 0 else float("nan")

    @cached_property
    def _faint(self) -> bool:
        """Whether L + U may be 0 as far as the mechanism's noise goes."""
        over, under = (part.at(self._sums) for part in (self.odds.over, self.odds.under))
        noise = self._noise(self.sampling.padded(self.observed), over.gradient + under.gradient)
        return over.value + under.value < _FAINT * noise

    def _noise(self, reports: FloatArray, slope: FloatArray) -> float:
        """Compute the mechanism's standard error in a direction (K,)."""
        return sqrt(max(float(slope @ self.sampling.mechanism_noise(reports) @ slope), 0.0))

    def limits(self, tail: float) -> tuple[float, float]:
        """Find the smallest and largest v not rejected at twice the ``tail``."""
        return self._limit(tail, 0), self._limit(tail, 1)

    def _limit(self, tail: float, side: int) -> float:
        def accepted(position: float) -> float:
            return min(self.excesses(position, tail))

        reach = self.deviation()
        if not 0 < reach < 1:
            reach = 1.0

        def limit(start: float, step: float) -> float:
            return float(
                np.clip(invert(accepted, start, step if side else -step, float(side), growth=_GROWTH), 0.0, 1.0)
            )

        near = limit(self.position, reach)
        tried = _TRIED if self._faint else ()
        beyond = [v for v in tried if (v > near if side else v < near) and accepted(float(v)) >= 0]
        return limit(float(max(beyond) if side else min(beyond)), float(_TRIED[1])) if beyond else near
