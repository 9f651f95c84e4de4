"""What n reports say about a share p of the people, and how their mean is distributed if the share were p.

The unbiased estimate of the share of people in a set A of cells is a mean of weights, one for each report: θ̂ = Σ_v g_v λ̂_v with
g = P⁻¹ 1_A. A test of "the share is p" needs the law of that mean, which depends on where the *other* people are, inside A and
outside it. They are taken to be where a proper fit π̃ of the whole table has them, scaled to shares p and 1 − p, and the moments
that follow are then moved one step towards the data, along the line that keeps the mean at p:

    ψ̃ = ψ̂ − cov(ψ̂, θ̂)/var(θ̂) · (θ̂ − p),    ψ = the chance of a heavy report, E g², E g³.

This is the first step to the likeliest table with share p, which makes ψ̃ independent of θ̂ to first order: without it, an
estimate that is too high comes with a variance that is too low or too high, and intervals err on one side. A step that makes a
moment smaller than the fit has it is taken in a form that is the same to first order and stays positive. Where every person
outside A is alike for A (one attribute), it is exact.

What happens if only the randomization is random (target "data") differs in the covariances alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr.mechanisms.kernel import Kernel
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray, IntArray

# A variance of one weight below this is 0: weights are of order 1 or larger, and a variance this small is their rounding.
_NO_VARIANCE = 1e-14


@dataclass(frozen=True, eq=False)
class Moments:
    """Of one person's report on each of B sets: the chance that it is heavy, E[weight; heavy], E g², E g³, E g⁴; (B,) each.

    A heavy report is one of the few that say "in the set": for one cell, those that count most for it, mostly the cell itself.
    """

    heavy: FloatArray
    heavy_weight: FloatArray
    second: FloatArray
    third: FloatArray
    fourth: FloatArray

    def __getitem__(self, chosen: IntArray) -> Moments:
        return Moments(*(x[chosen] for x in vars(self).values()))

    @staticmethod
    def mixed(p: FloatArray, inside: Moments, outside: Moments) -> Moments:
        """Of a person who is inside with probability p."""
        pairs = zip(vars(inside).values(), vars(outside).values(), strict=True)
        return Moments(*(p * one + (1 - p) * other for one, other in pairs))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and largest chance of a heavy report and mean squared weight over all cells a person can be in; (B,) each."""

    least_heavy: FloatArray
    most_heavy: FloatArray
    least_second: FloatArray
    most_second: FloatArray

    def __getitem__(self, chosen: IntArray) -> Bounds:
        return Bounds(*(x[chosen] for x in vars(self).values()))


@dataclass(frozen=True, eq=False)
class NullLaw:
    """The mean of n weights if the share is ``share``: moments of one weight, and the number of heavy reports.

    ``variance`` and ``third`` are central; the number of heavy reports has mean n ``heavy`` and variance n ``heavy_variance``
    and is the sum of two binomials: ``certain`` people report so with chance ``inside_heavy``, the others with
    ``outside_heavy``. ``covariance`` is that of one weight with being heavy.
    """

    n: int
    share: FloatArray
    variance: FloatArray
    third: FloatArray
    heavy: FloatArray
    heavy_variance: FloatArray
    covariance: FloatArray
    certain: FloatArray
    inside_heavy: FloatArray
    outside_heavy: FloatArray

    def __getitem__(self, chosen: IntArray) -> NullLaw:
        return NullLaw(self.n, *(x[chosen] for name, x in vars(self).items() if name != "n"))

    @property
    def error(self) -> FloatArray:
        """Standard deviation of the mean."""
        return np.asarray(np.sqrt(self.variance / self.n))


@dataclass(frozen=True, eq=False)
class WeightedMeans:
    """B estimated shares: ``estimate`` (B,), the reports' moments as ``seen``, and those of people ``inside`` and ``outside``.

    ``fixed``: the records are given and only the randomization is random.
    """

    n: int
    fixed: bool
    estimate: FloatArray
    seen: Moments
    inside: Moments
    outside: Moments
    bounds: Bounds

    def __getitem__(self, chosen: IntArray) -> WeightedMeans:
        parts = (self.seen[chosen], self.inside[chosen], self.outside[chosen], self.bounds[chosen])
        return WeightedMeans(self.n, self.fixed, self.estimate[chosen], *parts)

    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates if the shares are p, (B,)."""
        if self.fixed:
            # records are whole, so a share of them is a multiple of 1/n
            p = np.round(self.n * p) / self.n
        start = Moments.mixed(p, self.inside, self.outside)
        moved = self._moved(p, start)
        h, hin = moved.heavy, self.inside.heavy
        others = np.clip(np.divide(h - p * hin, 1 - p, out=h.copy(), where=p < 1), 0.0, 1.0)
        if self.fixed:
            variance, third = moved.second - p, moved.third - 3 * p * self.inside.second + 2 * p
            spread = p * hin * (1 - hin) + (1 - p) * others * (1 - others)
            covariance, certain = moved.heavy_weight - p * hin, self.n * p
        else:
            variance, third = moved.second - p**2, moved.third - 3 * p * moved.second + 2 * p**3
            spread, others = h * (1 - h), h
            covariance, certain = moved.heavy_weight - p * h, np.zeros_like(p)
        variance = np.maximum(variance, _NO_VARIANCE)
        return NullLaw(self.n, p, variance, third, h, spread, covariance, certain, hin, others)

    def _moved(self, p: FloatArray, start: Moments) -> Moments:
        """One step towards the data, within what people who are p inside and 1 − p outside can have."""
        variance = np.maximum(start.second - (p if self.fixed else p**2), _NO_VARIANCE)
        off = (self.estimate - p) / variance

        def step(seen: FloatArray, before: FloatArray, inside: FloatArray, with_weight: FloatArray) -> FloatArray:
            change = seen - before - (with_weight - p * (inside if self.fixed else before)) * off
            # right to first order; where it makes less of what the fit has, in a form that stays positive
            less = np.divide(before**2, before - change, out=np.zeros_like(before), where=(change < 0) & (before > 0))
            return np.where((change < 0) & (before > 0), less, before + change)

        own, b = self.inside, self.bounds
        heavy = step(self.seen.heavy, start.heavy, own.heavy, start.heavy_weight)
        second = step(self.seen.second, start.second, own.second, start.third)
        heavy = np.clip(heavy, p * own.heavy + (1 - p) * b.least_heavy, p * own.heavy + (1 - p) * b.most_heavy)
        second = np.clip(second, p * own.second + (1 - p) * b.least_second, p * own.second + (1 - p) * b.most_second)
        each = np.divide(start.heavy_weight, start.heavy, out=np.zeros_like(p), where=start.heavy > 0)
        third = step(self.seen.third, start.third, own.third, start.fourth)
        return Moments(heavy, each * heavy, second, third, start.fourth)


def cell_means(kernel: Kernel, observed: FloatArray, n: int, fixed: bool = False) -> WeightedMeans:
    """Every cell of a table, flat, O(k Π r) by the kernel's own transforms: what a report weighs depends on the cell.

    ``observed`` may be a batch of tables of n records each, axes before the kernel's; all their cells follow each other.

    Raises
    ------
    SingularMarginal
        where the mechanism hides an effect of the table.
    """
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).ravel()
    fitted = kernel.expected(share.reshape(raw.shape))
    shape, weight, chances = raw.shape, kernel.heavy_weights, kernel.heavy_chances
    own = {power: kernel.weight_moments(power) for power in (2, 3, 4)}

    def flat(x: FloatArray) -> FloatArray:
        return np.broadcast_to(x, shape).ravel()

    def of(outputs: FloatArray) -> Moments:
        powers = (kernel.solve_power(outputs, power).ravel() for power in (2, 3, 4))
        heavy = kernel.heavy(outputs)
        return Moments(heavy.ravel(), (weight * heavy).ravel(), *powers)

    inside = Moments(*map(flat, (chances.own, weight * chances.own, *(own[power].own for power in (2, 3, 4)))))
    bounds = Bounds(*map(flat, (chances.least, chances.most, own[2].least, own[2].most)))
    outside = _without(of(fitted), share, inside)
    return WeightedMeans(n, fixed, raw.ravel(), of(observed), inside, outside, bounds)


def _without(whole: Moments, share: FloatArray, inside: Moments) -> Moments:
    """Moments of the people outside, from those of all and of the share inside; of all where nobody is outside."""
    rest = 1 - share
    pairs = zip(vars(whole).values(), vars(inside).values(), strict=True)
    return Moments(*(np.divide(x - share * y, rest, out=x.copy(), where=rest > 0) for x, y in pairs))


def subset_mean(kernel: Kernel, observed: FloatArray, n: int, subset: FloatArray, fixed: bool = False) -> WeightedMeans:
    """The share of a subset of cells, given as a table of 0 and 1 that is neither: one item, or one for each table of a batch.

    Reports that weigh more than halfway between the least and the largest weight are the heavy ones.

    Raises
    ------
    SingularMarginal
        where the mechanism hides an effect of the table.
    """
    weights = kernel.solve_adjoint(subset)
    heavy = weights > (weights.min() + weights.max()) / 2
    raw = kernel.solve(observed)
    share = projection(raw.reshape(-1, kernel.cells)).reshape(raw.shape)
    functions = (heavy.astype(np.float64), heavy * weights, weights**2, weights**3, weights**4)

    def mean(of_report: FloatArray, outputs: FloatArray) -> FloatArray:
        return np.atleast_1d(np.sum(of_report * outputs, axis=kernel.axes))

    def of(outputs: FloatArray) -> Moments:
        return Moments(*(mean(f, outputs) for f in functions))

    chances, squares = kernel.adjoint(functions[0]), kernel.adjoint(functions[2])
    estimate = mean(weights, observed)
    ends = (chances.min(), chances.max(), squares.min(), squares.max())
    bounds = Bounds(*(np.full(estimate.shape, x) for x in ends))
    inside, outside = (of(kernel.expected(_scaled(share, where, kernel.axes))) for where in (subset, 1 - subset))
    return WeightedMeans(n, fixed, estimate, of(observed), inside, outside, bounds)


def _scaled(share: FloatArray, where: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    """The fitted tables within a subset, scaled to sum 1; even where the fit has nobody there."""
    part = share * where
    total = part.sum(axis=axes, keepdims=True)
    even = np.broadcast_to(where / where.sum(), part.shape).copy()
    return np.asarray(np.divide(part, total, out=even, where=total > 0))
