"""Frequencies of alleles and call rates of many variants, from randomized genotypes, with standard errors and intervals.

Both are ratios of unbiased means: with A and B functions of a person's true cell,

    frequency    A = copies of A1,    B = copies in all of a known call;      call rate    A = known call,    B = 1,

and of a person with one copy of the chromosome, one. The standard error is that of the mean of A − f̂ B over B's (delta method).
The interval holds every value p at which the mean of A − p B is as near to 0 as it may be if p is right
(:mod:`optrr.tables.estimation.score_interval`): its law is that of reports if the group's genotypes had this frequency and the
departure from Hardy–Weinberg proportions that the estimate shows, and all else, as the share of missing calls or the genotypes
of people of the other status, were as estimated. So it has an upper end where nobody is seen to have the allele, and noise
cannot take it out of 0..1, as it may take the estimate. O(V) time, about 0.1 ms a variant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.groups import HALVES, Group, in_proportions
from optrr.tables.estimation.score_interval import Means, NullLaw, score_intervals
from optrr_solvers.arrays import FloatArray

# Variants at once, so that their laws take some megabytes.
_VARIANTS = 1 << 13
# A share of people below this is nobody.
_LEAST = 1e-9
# Variances below this are rounding: weights are of order 1.
_NO_VARIANCE = 1e-14


@dataclass(frozen=True, eq=False)
class Proportions:
    """``estimate`` (V,), unbiased, so that noise may take it outside 0..1, ``standard_error``, and an interval inside 0..1.

    The estimate is NaN where the group has no people as far as reports tell; its interval is all of 0..1 then.
    """

    estimate: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def known(cls, values: FloatArray) -> Proportions:
        """Numbers that are known exactly."""
        return cls(values, np.zeros(values.size), values, values)

    @classmethod
    def joined(cls, parts: list[tuple[np.ndarray, Proportions]], variants: int) -> Proportions:
        """Those of several sets of variants, each in its places among all; NaN for the others."""
        out = np.full((4, variants), np.nan)
        for at, each in parts:
            out[:, at] = each.estimate, each.standard_error, each.low, each.high
        return cls(*out)


def frequencies(group: Group, confidence: float | None = 0.95) -> Proportions:
    """Frequency of A1 in the group, of all copies of its people; intervals, which take most of the time, unless None."""
    copies = np.array(group.copies, dtype=np.float64)[:, None]
    counted, all_copies = copies * HALVES, copies * np.ones(GENOTYPES)
    return _in_blocks(group, _stacked(group, counted, all_copies), _of_frequencies, confidence)


def call_rates(group: Group, confidence: float | None = 0.95) -> Proportions:
    """Share of the people whose call is known, where a missing one is a category; everybody's. Intervals unless None."""
    called = np.ones((len(group.copies), GENOTYPES))
    values = _stacked(group, called, called)
    values[1] = 1.0
    return _in_blocks(group, values, _of_call_rates, confidence)


def _stacked(group: Group, *functions: FloatArray) -> FloatArray:
    """Functions (S, 3) of a group's genotypes as ones of all cells, (k, S, …)."""
    return np.stack([group.cells(f) for f in functions])


def _in_blocks(
    group: Group, values: FloatArray, law_of: Callable[[Group], _LawOf], confidence: float | None
) -> Proportions:
    """A and B of each cell, (2, S, …), to their ratio: in blocks, of people alike in number."""
    parts = []
    for n in np.unique(group.n[group.n > 0]):
        at = np.flatnonzero(group.n == n)
        parts += [
            (each, _ratio(group.part(each), values, law_of, int(n), confidence))
            for each in np.array_split(at, -(-at.size // _VARIANTS))
        ]
    return Proportions.joined(parts, group.variants)


def _ratio(
    group: Group, values: FloatArray, law_of: Callable[[Group], _LawOf], n: int, confidence: float | None
) -> Proportions:
    weights, seen = group.weights(values), group.seen
    above, below = np.broadcast_to(weights, (group.variants, *weights.shape[1:])).swapaxes(0, 1)
    a, b = np.sum(above * seen, axis=1), np.sum(below * seen, axis=1)
    there = b > _LEAST
    share, whole = np.where(there, a / np.where(there, b, 1.0), 0.0), np.where(there, b, 1.0)
    each = (above - share[:, None] * below) / whole[:, None]
    error = np.sqrt(np.maximum(np.sum(seen * each**2, axis=1), 0.0) / n)
    if confidence is None:
        none = np.full(b.size, np.nan)
        return Proportions(np.where(there, share, none), np.where(there, error, none), none, none)
    law = law_of(group)
    moved, beside = group.pushed(law.moved), group.pushed(law.beside[:, None])[:, 0]
    departure = np.zeros(b.size) if law.departure is None else law.departure
    means = _RatioMeans(
        n, False, share, above, below, whole, beside, moved, departure, _heavy(each, share), law.departure is not None
    )
    low, high = score_intervals(means, 1 - confidence)
    return Proportions(
        *(np.where(there, x, none) for x, none in ((share, np.nan), (error, np.nan), (low, 0), (high, 1)))
    )


@dataclass(frozen=True, eq=False)
class _LawOf:
    """Expected reports if the ratio is p: ``beside`` + Σ_k c_k(p) ``moved``_k, true tables (V, S, …) and (V, k, S, …).

    c are the genotypes at frequency p and this ``departure``, (V,), and 1 − p and p; ``departure`` is None where there are only
    the latter.
    """

    beside: FloatArray
    moved: FloatArray
    departure: FloatArray | None


def _of_frequencies(group: Group) -> _LawOf:
    inside, one = group.genotypes(group.proper), group.cells(np.eye(GENOTYPES))
    moved: list[FloatArray] = []
    for s, copies in enumerate(group.copies):
        tables = np.zeros((GENOTYPES, *group.observed.shape))
        total = inside[:, s].sum(axis=1)
        tables[:, :, s] = one[:, None] * total.reshape(-1, *([1] * (one.ndim - 1)))
        moved += list(tables) if copies == 2 else [tables[0], tables[-1]]
    departure = _inbreeding(inside[:, 0]) if 2 in group.copies else None
    return _LawOf(group.beside(), np.stack(moved, axis=1), departure)


def _of_call_rates(group: Group) -> _LawOf:
    """Known calls are as they are, and missing ones in each table as many as there are of all."""
    known, missing = group.proper.copy(), np.zeros_like(group.proper)
    known[:, :, GENOTYPES] = 0.0
    missing[:, :, GENOTYPES] = group.proper[:, :, GENOTYPES] + _LEAST
    pieces = [each / np.maximum(each.sum(axis=(1, 2)), _LEAST)[:, None, None] for each in (missing, known)]
    return _LawOf(np.zeros_like(known), np.stack(pieces, axis=1), None)


def _inbreeding(genotypes: FloatArray) -> FloatArray:
    """F of shares (V, 3) that sum to anything, −1..1; 0 where they do not vary."""
    total = np.maximum(genotypes.sum(axis=1), _LEAST)
    p = genotypes @ HALVES / total
    expected = 2 * p * (1 - p)
    inbreeding = 1 - genotypes[:, 1] / total / np.maximum(expected, _LEAST)
    return np.asarray(np.where(expected > _LEAST, np.clip(inbreeding, -1.0, 1.0), 0.0))


def _heavy(each: FloatArray, share: FloatArray) -> FloatArray:
    """Reports that tell of the rarer allele, 1, the others 0: (V, C). There are few of them where the law has visible steps."""
    middle = (each.min(axis=1) + each.max(axis=1))[:, None] / 2
    rounding = 1e-9 * np.abs(each).max(axis=1, keepdims=True)
    rarer = np.where(share[:, None] < 1 / 2, each >= middle - rounding, each <= middle + rounding)
    return np.asarray(rarer, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _RatioMeans(Means):
    """Estimated ratios of B variants: weights ``above`` and ``below`` the line (B, C), and the mean ``whole`` of the latter.

    ``beside`` (B, C), ``moved`` (B, k, C) and ``departure`` make the law of reports as in `_LawOf`; ``heavy`` are reports of
    which few are expected, (B, C).
    """

    above: FloatArray
    below: FloatArray
    whole: FloatArray
    beside: FloatArray
    moved: FloatArray
    departure: FloatArray
    heavy: FloatArray
    has_two: bool

    def under(self, p: FloatArray) -> NullLaw:
        """The law of the estimates if the ratios are p, (B,)."""
        shares = np.concatenate(
            [
                in_proportions(p, self.departure) if self.has_two else np.empty((p.size, 0)),
                np.stack([1 - p, p], axis=1),
            ],
            axis=1,
        )
        law = np.maximum(self.beside + np.einsum("bk,bkc->bc", shares[:, : self.moved.shape[1]], self.moved), 0.0)
        law /= law.sum(axis=1, keepdims=True)
        each = (self.above - p[:, None] * self.below) / self.whole[:, None]
        each = each - np.sum(law * each, axis=1, keepdims=True)
        chance, none = np.sum(law * self.heavy, axis=1), np.zeros_like(p)
        variance = np.maximum(np.sum(law * each**2, axis=1), _NO_VARIANCE)
        third, together = np.sum(law * each**3, axis=1), np.sum(law * self.heavy * each, axis=1)
        spread = chance * (1 - chance)
        return NullLaw(self.n, p, variance, third, chance, spread, together, none, none, chance)
