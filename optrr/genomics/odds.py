"""Odds ratios of allele A1 from randomized tables, with intervals that exist for all variants.

With f_s the frequency of A1 among people of status s, W_s their share, A_s = W_s f_s and B_s = W_s (1 − f_s), the odds
ratio is ψ where g(ψ) = A_1 B_0 − ψ A_0 B_1 = 0. The interval holds every ψ that a score test does not refuse:

    z(ψ) = √n g'(ψ)·π̂ / σ(ψ),      g' the gradient of g in the true table π,

with g' and σ at a table that fits ψ and the margins of the null fit: f_0 and f_1 solve f_1/(1 − f_1) = ψ f_0/(1 − f_0)
and W_0 f_0 + W_1 f_1 = f, and genotypes within a status are the fitted ones tilted to its frequency. At ψ = 1 it is the
trend test, so the interval leaves out 1 exactly where that test's χ² rejects. People are the sampling units: no
Hardy–Weinberg proportions are needed. The estimate is where z(ψ) = 0.

If noise is so large that no ψ on one side is rejected, the limit on that side is 0 or infinity.
Every variant has an interval, so a list of intervals is not a selection of those that came out well.

The gradient g' is a combination of four tables, in which a person counts 1 − x or x, x the proportion of A1 among the
two alleles, in one status and 0 in the other; these four are multiplied by P⁻¹ once per variant. The probabilities of
the outputs are linear in A_s = W_s f_s and in the proportions of people of status s with one allele of each kind, so
these are multiplied by P once. What remains for each ψ is arithmetic with a few numbers for each output. As g = 0 in a
table that fits ψ, the weights have mean 0 there, and σ² is the mean of their squares.

Among genotypes of frequency f that are the fitted p_g tilted, the share h of those with one allele of each kind follows
from p_0 p_2 / p_1², which tilting keeps: with F = f (1 − f),

    h = 4F / (1 + √(1 + 4F d)),    d = 4 p_0 p_2 / p_1² − 1    (0 in Hardy–Weinberg proportions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from optrr.core.inference import NullFit, independence_fit
from optrr.core.mechanisms import Kernel
from optrr.genomics.genotypes import GENOTYPES, HALVES
from optrr_solvers.arrays import FloatArray, IntArray

# Variants at once: some tens of megabytes.
_VARIANTS = 1 << 13
# Standard errors from the middle of a 95 % interval to its ends.
REACH = float(ndtri(0.975))
# Odds ratios beyond these are written as 0 and infinity.
_FARTHEST = float(np.log(1e4))
# ln ψ is found to this.
_PRECISION = 5e-6


@dataclass(frozen=True, eq=False)
class RatioTest:
    """Terms of z that do not depend on ψ, for V tables with C outputs.

    Tables are the last axis of every array.

    ``n`` people, (V,). Of the null fit: ``frequency`` f, (V,), ``shares`` W_s, (2, V), and ``departure`` d, (V,).
    ``weights``, (4, C, V): weights of an output for 1 − x and for x, in controls and in cases each; ``estimates``, (4,
    V): unbiased means of these four. ``law``, (C, V): probabilities of the outputs without A1; ``moved``, (4, C, V):
    changes of these by A_s and the proportions with one allele of each kind. If all tables have one kernel, ``weights``
    have 1 in place of V, and so does ``moved`` unless rows are left out.
    """

    n: FloatArray
    frequency: FloatArray
    shares: FloatArray
    departure: FloatArray
    weights: FloatArray
    estimates: FloatArray
    law: FloatArray
    moved: FloatArray

    @classmethod
    def of(cls, observed: FloatArray, n: FloatArray, kernel: Kernel, fit: NullFit) -> RatioTest:
        """Build the tests of tables with these null fits; O(V R).

        ``observed`` are proportions (V, R, 2).
        """
        v, outputs, one = n.size, observed.shape[1], np.eye(GENOTYPES)
        weights = _tables_last(kernel.solve_adjoint(in_one_status([1 - HALVES, HALVES], outputs)))
        changes = [one[2] - one[0], one[1] - (one[0] + one[2]) / 2]
        chances = _tables_last(kernel.forward(in_one_status([one[0], *changes], outputs)))
        shares, p = np.ascontiguousarray(fit.columns.T), fit.rows.T
        law, moved = shares[0] * chances[0] + shares[1] * chances[1], chances[2:]
        if fit.beside is not None:
            inside = 1 - fit.beside.sum(axis=(1, 2))
            beside = np.concatenate([np.zeros((v, GENOTYPES, 2)), fit.beside], axis=1)
            law, moved = inside * law + _tables_last(kernel.forward(beside)[:, None])[0], inside * moved
        estimates = _combined(weights.swapaxes(0, 1), _tables_last(observed[:, None])[0])
        departure = 4 * p[0] * p[2] / p[1] ** 2 - 1
        return cls(n, fit.rows @ HALVES, shares, departure, weights, estimates, law, moved)

    def part(self, which: IntArray) -> RatioTest:
        """Select tables."""
        arrays = (getattr(self, f.name) for f in fields(self))
        return RatioTest(*(a if a.shape[-1] < self.n.size else np.take(a, which, axis=-1) for a in arrays))

    def contrast(self, log_ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the score contrast and its standard error at log odds ratios ln ψ.

        g'·π̂ and σ/√n, both of the shape (G, V) of ln ψ. Their quotient is z, which decreases in ψ.
        """
        ratio, w = np.exp(log_ratio), self.shares
        f = _frequencies(ratio, self.frequency, w)
        a_0, a_1 = w[0] * f[0], w[1] * f[1]
        # gradient of A_1 B_0 − ψ A_0 B_1, divided by 1 + ψ
        one = 1 / (1 + ratio)
        psi = ratio * one
        gradient = np.stack([one * a_1, -psi * a_0, psi * (a_1 - w[1]), one * (w[0] - a_0)])
        parts = [a_0, a_1, *(w[s] * _one_of_each(f[s], self.departure) for s in (0, 1))]
        weights = _combined(self.weights, gradient)
        law = _combined(self.moved, np.stack(parts)) + self.law[:, None]
        # no output has a negative chance, so only rounding can make the variance negative
        variance = np.maximum(np.einsum("cgv,cgv->gv", law * weights, weights), np.finfo(np.float64).tiny)
        return np.einsum("kv,kgv->gv", self.estimates, gradient), np.sqrt(variance / self.n)

    def z(self, log_ratio: FloatArray, which: IntArray) -> FloatArray:
        """Compute z of the selected tables at ln ψ."""
        mean, error = self.part(which).contrast(log_ratio[None])
        return np.asarray((mean / error)[0])


def crossings(
    z: Callable[[FloatArray, IntArray], FloatArray], count: int, goals: ArrayLike, farthest: float, precision: float
) -> FloatArray:
    """Find the ln ψ at which z falls to each of the goals (G,).

    Returns (G, count); −inf and inf if z does not reach a goal within ``farthest``.

    ``z(x, which)`` is that of the tables of these numbers. z may not be monotone far out, where the data have little
    information: a root is searched on its side of ψ = 1.
    """
    from scipy.optimize.elementwise import find_root  # noqa: PLC0415 (slow to import)

    every = np.arange(count)
    lowest, at_one, highest = (z(np.full(count, x), every) for x in (-farthest, 0.0, farthest))
    goal, table = np.repeat(np.asarray(goals, dtype=np.float64), count), np.tile(every, np.size(goals))
    above = at_one[table] > goal
    out = np.where(above, np.inf, -np.inf)
    at = np.flatnonzero(np.where(above, highest[table] < goal, lowest[table] > goal))
    if at.size:
        ends = np.where(above[at], 0.0, -farthest), np.where(above[at], farthest, 0.0)
        tolerances = {"xatol": precision, "xrtol": 0.0}
        found = find_root(lambda x, k, g: z(x, k) - g, ends, args=(table[at], goal[at]), tolerances=tolerances)
        out[at] = found.x
    return out.reshape(-1, count)


def _frequencies(ratio: FloatArray, f: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve for f_0 and f_1 with this odds ratio and mean: a quadratic in f_0."""
    more = ratio - 1
    b = w[0] + w[1] * ratio - more * f
    f_0 = np.clip(2 * f / (b + np.sqrt(b * b + 4 * w[0] * f * more)), 0.0, 1.0)
    return f_0, ratio * f_0 / (1 + more * f_0)


def _one_of_each(f: FloatArray, departure: FloatArray) -> FloatArray:
    """Share h of people with one allele of each kind."""
    four = 4 * f * (1 - f)
    # it is at least (1 − 2f)², which rounding may take below 0
    return np.asarray(four / (1 + np.sqrt(np.maximum(1 + four * departure, 0.0))))


def in_one_status(vectors: list[FloatArray], rows: int) -> FloatArray:
    """Place each vector over genotypes in a table of controls and one of cases.

    Further rows are 0. Returns (1, 2k, rows, 2).
    """
    longer = np.pad(np.stack(vectors), ((0, 0), (0, rows - vectors[0].size)))
    return np.asarray(np.einsum("kg,st->ksgt", longer, np.eye(2)).reshape(1, -1, rows, 2))


def _tables_last(arrays: FloatArray) -> FloatArray:
    """Reshape (V, k, R, 2) to (k, 2R, V), contiguous."""
    return np.ascontiguousarray(arrays.reshape(*arrays.shape[:2], -1).transpose(1, 2, 0))


def _combined(coefficients: FloatArray, amounts: FloatArray) -> FloatArray:
    """Sum coefficients (k, C, V or 1) · amounts (k, ..., V) to (C, ..., V)."""
    return np.asarray(np.einsum("kcv,k...v->c...v", coefficients, amounts))


@dataclass(frozen=True, eq=False)
class OddsRatios:
    """Odds ratios with 95 % limits, arrays of shape (V,).

    ``ratio`` with ``low`` and ``high`` (0 and inf included), and frequencies of A1 in ``cases`` and ``controls``.

    Frequencies are unbiased, so noise may take them outside 0..1. NaN where a variant has no people or does not vary.
    """

    ratio: FloatArray
    low: FloatArray
    high: FloatArray
    cases: FloatArray
    controls: FloatArray

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the log odds ratio that the 95 % interval implies.

        Returns NaN if a limit is 0 or infinite.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.log(self.high) - np.log(self.low)
        return np.where(np.isfinite(width), width / (2 * REACH), np.nan)

    @property
    def columns(self) -> dict[str, FloatArray]:
        """Columns of a scan's table."""
        first = {"F_A": self.cases, "F_U": self.controls, "OR": self.ratio}
        return first | {"SE": self.standard_error, "L95": self.low, "U95": self.high}

    @property
    def arrays(self) -> FloatArray:
        """All five in their order, (5, V)."""
        return np.stack([self.ratio, self.low, self.high, self.cases, self.controls])


def odds_ratios(counts: NDArray[np.number], kernel: Kernel) -> OddsRatios:
    """Estimate the odds ratio of A1 of each variant.

    ``counts`` and ``kernel`` are those of :func:`optrr.genomics.score_tests.score_test`. O(V) time, some µs a variant.
    """
    out = np.empty((5, counts.shape[0]))
    for start in range(0, counts.shape[0], _VARIANTS):
        at = slice(start, start + _VARIANTS)
        out[:, at] = _piece(counts[at], kernel.part(at))
    return OddsRatios(*out)


def _piece(counts: NDArray[np.number], kernel: Kernel) -> FloatArray:
    flat = np.asarray(counts, dtype=np.float64).reshape(counts.shape[0], kernel.cells)
    n = flat.sum(axis=1)
    observed: FloatArray = (flat / np.maximum(n, 1.0)[:, None]).reshape(counts.shape)
    # people as they count for A1, and people, in controls and in cases
    parts = in_one_status([HALVES, np.ones(GENOTYPES)], kernel.sizes[0]).reshape(-1, kernel.cells).T
    (a_0, a_1, w_0, w_1), estimates = (flat @ parts).T, kernel.solve(observed).reshape(flat.shape) @ parts
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = estimates[:, :2] / estimates[:, 2:]
    varies = (a_0 + a_1 > 0) & (w_0 - a_0 + w_1 - a_1 > 0) & (w_0 > 0) & (w_1 > 0)
    limits = np.full((3, n.size), np.nan)
    at = np.flatnonzero(varies)
    if at.size:
        chosen, own = observed[at], kernel.part(at)
        test = RatioTest.of(chosen, n[at], own, independence_fit(chosen, own, GENOTYPES))
        limits[:, at] = np.exp(crossings(test.z, at.size, [REACH, 0.0, -REACH], _FARTHEST, _PRECISION))
    low, ratio, high = limits
    # where no ratio at all fits, noise has moved the estimate outside of what tables can be: the interval is everything
    nothing = (low == np.inf) | (high == 0)
    ends = np.where(nothing, 0.0, low), np.where(nothing, np.inf, high)
    return np.stack([ratio, *ends, frequency[:, 1], frequency[:, 0]])
