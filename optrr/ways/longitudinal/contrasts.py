"""Intervals of contrasts of rounds, Σ c_t π_t: averages and changes, also where a round has few people or few of a cell.

The variance of a round's estimate must be that of the hypothesis: a round of 20 people in which nobody reported a rare cell
has no variance of its own to show. Two intervals are made that both see to this, and what is printed reaches from the lower of
their lower ends to the higher of their higher ones:

- The score test inverted (Miettinen & Nurminen, Statistics in Medicine 4, 1985, 213): θ belongs to it unless Σ c_t π̂_t lies in
  a tail of its law where the contrast is θ. The rounds' shares are there moved from their estimates by μ V c, with V their
  covariance and μ so that Σ c_t p_t = θ and none leaves [0, 1]: the likeliest ones, were estimates normal. V has the variance
  of each round under its own p_t and n_t, and correlations ρ. The law is the gamma one with the first three cumulants.
- The method of variance estimates recovery (Newcombe, Statistics in Medicine 17, 1998, 873; Zou & Donner, 27, 2008, 1693): with
  d_t the distance from π̂_t to the end of the round's own interval on the side that moves the contrast down,
  the lower end is Σ c_t π̂_t − √(Σ c_s c_t ρ_st d_s d_t), and the upper end is made alike.

The first is right where many small rounds add up, since their chance errors are not taken one by one; the second where one
round of few reports decides, since the round's own interval (:mod:`optrr.tables.estimation.score_interval`) is exact in whole
reports. Where rounds are large they agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optrr.tables.estimation.invert import inverted
from optrr.tables.estimation.score_interval import score_intervals
from optrr.tables.estimation.weighted_mean import NullLaw, WeightedMeans
from optrr.tables.estimation.weighted_tail import tails
from optrr_solvers.arrays import FloatArray, IntArray

# The shares of a hypothesis need their own covariance, which is found by turns.
_TURNS = 4
# Newton steps for the multiplier, whose equation is piecewise linear: one for each share that meets 0 or 1 on the way.
_STEPS = 4
# Ends are this precise, in standard errors of the contrast at its estimate, and rounded outwards.
_PRECISION = 1e-3
# Tails below this count as equal.
_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class Contrast:
    """Σ c_t π_t for C cells and R rounds.

    Parameters
    ----------
    means
        what each round's reports say of every cell: R · C items, round by round.
    counts
        people of each round, (R,).
    weights
        c, (R,).
    correlations
        of the rounds' estimates, (C, R, R), with 1 on the diagonal.
    least
        variance that the mechanism alone causes in the contrast, (C,).
    """

    means: WeightedMeans
    counts: FloatArray
    weights: FloatArray
    correlations: FloatArray
    least: FloatArray

    @property
    def rounds(self) -> FloatArray:
        """π̂ of every round, (R, C)."""
        return self.means.estimate.reshape(self.counts.size, -1)

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest value of the contrast of shares in [0, 1]."""
        return float(self.weights.clip(max=0).sum()), float(self.weights.clip(min=0).sum())

    def interval(self, confidence: float) -> FloatArray:
        """Lower and upper ends, (2, C), within the range; they hold the estimate moved into it."""
        scored, composed = self._scored(1 - confidence), self._composed(1 - confidence)
        ends = [np.minimum(scored[0], composed[0]), np.maximum(scored[1], composed[1])]
        return np.asarray(np.clip(ends, *self.range))

    def law(self, value: FloatArray, cells: IntArray) -> NullLaw:
        """Of the estimated contrast of these cells where the contrast is ``value``, (B,)."""
        index = np.arange(self.counts.size)[:, None] * self.least.size + cells
        means, correlations, c = self.means[index.ravel()], self.correlations[cells], self.weights[:, None]
        shares = np.clip(self.rounds[:, cells], 0.0, 1.0)
        for turn in range(_TURNS):
            law = means.under(shares.ravel())
            variances = law.variance.reshape(shares.shape) / self.counts[:, None]
            errors = np.sqrt(variances)
            along = errors * np.einsum("brs,sb->rb", correlations, errors * c)
            if turn < _TURNS - 1:
                shares = _constrained(self.rounds[:, cells], along, c, value)
        variance = np.maximum(np.sum(c * along, axis=0), self.least[cells])
        thirds = law.third.reshape(shares.shape) / self.counts[:, None] ** 2
        # right for rounds without a person in common and for rounds that are the same in everything
        third = np.sum(c * thirds * (along / variances) ** 2, axis=0)
        nothing = np.zeros_like(variance)
        return NullLaw(1, value, variance, third, *[nothing] * 6)

    def _scored(self, level: float) -> FloatArray:
        """Where the tail beyond the estimate is half the level, on both sides; the range's end where it is never so small."""
        size = self.least.size
        estimate = np.clip(self.weights @ self.rounds, *self.range)

        def excess(value: FloatArray, index: IntArray) -> FloatArray:
            cells = index % size
            upper, lower = tails(self.law(value, cells), estimate[cells])
            return np.asarray(np.log(np.maximum(np.where(index < size, upper, lower), _LEAST_TAIL) / (level / 2)))

        ends, middle = np.repeat(self.range, size), np.tile(estimate, 2)
        precision = _PRECISION * float(self.law(estimate, np.arange(size)).error.min())
        return np.asarray(inverted(excess, middle, ends, precision, 0.0)[1].reshape(2, size))

    def _composed(self, level: float) -> FloatArray:
        size = self.least.size
        of_item = np.repeat(self.counts, size)
        ends = np.empty((2, of_item.size))
        for n in np.unique(self.counts):  # rounds of as many people are one call
            items = np.flatnonzero(of_item == n)
            ends[:, items] = score_intervals(replace(self.means[items], n=int(n)), level)
        lower, upper = ends.reshape(2, -1, size)
        below, above = np.maximum(self.rounds - lower, 0), np.maximum(upper - self.rounds, 0)
        c, rising = self.weights[:, None], self.weights[:, None] > 0
        down, up = c * np.where(rising, below, above), c * np.where(rising, above, below)
        reach = [
            np.sqrt(np.clip(np.einsum("sb,bst,tb->b", d, self.correlations, d), self.least, None)) for d in (down, up)
        ]
        estimate = self.weights @ self.rounds
        return np.asarray([estimate - reach[0], estimate + reach[1]])


def _constrained(start: FloatArray, along: FloatArray, c: FloatArray, value: FloatArray) -> FloatArray:
    """Shares within [0, 1] of the form start + μ along whose contrast is the value, (R, B)."""
    multiplier = np.zeros_like(value)
    for _ in range(_STEPS):
        moved = start + multiplier * along
        shares = np.clip(moved, 0.0, 1.0)
        slope = np.sum(c * along * (moved == shares), axis=0)
        short = value - np.sum(c * shares, axis=0)
        multiplier = multiplier + np.divide(short, slope, out=np.zeros_like(short), where=slope > 0)
    return np.asarray(np.clip(start + multiplier * along, 0.0, 1.0))
