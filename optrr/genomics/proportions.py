"""Allele frequencies, call rates and Hardy–Weinberg tests of a group from randomized tables of genotype × status.

The group is all people, controls or cases. Cells are those of a table of genotype, or of genotype × status where the
group is one of a status, and of two such tables where some people have one copy of the chromosome: first of those with
two, then of those with one. All shares are of all reports.

Frequencies and call rates are ratios of unbiased means: with A and B functions of a person's true cell,

    frequency    A = copies of A1,    B = copies in all of a known call;      call rate    A = known call,    B = 1,

and of a person with one copy of the chromosome, one. The standard error is that of the mean of A − f̂ B over B's (delta
method). The interval holds every value p at which the mean of A − p B is as near to 0 as it may be if p is right
(:mod:`optrr.core.estimation.score_interval`): its law is that of reports if the group's genotypes had this frequency
and the departure from Hardy–Weinberg proportions that the estimate shows, and all else, as the share of missing calls
or the genotypes of people of the other status, were as estimated. So it has an upper end if the allele is not observed,
and lies within 0..1, unlike the estimate. O(V) time, about 0.1 ms a variant.

Hardy–Weinberg proportions have a score test. With p the frequency of A1 and π the genotypes of the group, the departure
D = π_2 − p² is 0 in these proportions. At the null fit its gradient is

    h = (p², −p (1 − p), (1 − p)²)

of genotypes, 0 of all other cells: missing calls, and people of the other status. With ψ the weights of reports whose
mean is that of h, and λ_0 the reports' law under the fit, the statistic is n (mean ψ)² / Σ λ_0 ψ². The fit is the
likeliest p, with the shares of the other cells, which are free (Fisher scoring); so it is Rao's test, n Σ (λ̂ −
λ_0)²/λ_0, and without a mechanism Pearson's χ² of PLINK 1's ``--hardy``. Where noise takes an unbiased share outside of
what shares can be, the nearest proper ones are the fit, as in :mod:`optrr.core.inference.nullfit`. Small p-values, and
those of tables with few expected reports, are by a saddlepoint given the fit (:mod:`optrr.genomics.tail`): without a
mechanism, near the tails of the exact test given the counts of alleles, by half of the chance of the table itself
(mid-p). If homozygotes are rare and the mechanism adds hardly any, p is discrete, and the level is not nominal: with an
expected count of a reported genotype below `STEPPED`, 1.7 to 9.3 % of true proportions have p below 5 %, and .01 to .24
% below .1 %; otherwise 3.6 to 6 % below 5 %. People with one copy of a chromosome have no such proportions, and are
left out.

Letters: V variants, S tables of each (1, or 2), R rows (3 genotypes, and a fourth for missing calls), C cells of all
tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optrr.core.estimation import projection, wilson
from optrr.core.mechanisms import EffectKernel
from optrr.genomics.genotypes import GENOTYPES, HALVES
from optrr.genomics.score_tests import CopyTables
from optrr.genomics.tail import tail_of_one
from optrr_solvers.arrays import FloatArray, IntArray

CONTROLS, CASES = 0, 1
# Where fewer reports of a kind are expected, p-values of Hardy–Weinberg proportions go in steps that can be seen.
STEPPED = 10.0
# Variants at once, so that a dozen arrays of their cells stay near the cache.
_VARIANTS = 1 << 13
# Shares nearer to 0 or 1 have variances as at this distance, for the parabola through them.
_INNER = 1e-4
# Proportion of intervals that may miss the true value. 1 − 0.95, as other intervals have it, differs from 0.05
# in its last digits, and limits are the same numbers everywhere.
_MISSED = 1 - 0.95
# Proportion of people below which a group counts as empty.
_LEAST = 1e-9
# Variances below this are rounding: weights are of order 1.
_NO_VARIANCE = 1e-14
# Scoring converges in three to six steps.
_STEPS = 12
# Largest change at which a fit is final, far below any standard error.
_TOLERANCE = 1e-9
# Shares and frequencies are kept this far from 0 and 1.
_FLOOR = 1e-9
# Shares up to this one count as 0: they are the floor, rescaled.
_NEARLY_ZERO = 10 * _FLOOR


@dataclass(frozen=True, eq=False)
class Group:
    """Observed proportions of reports of a group.

    ``observed`` has shape (V, S, R) or (V, S, R, 2), ``n`` (V,) is the number of reports.

    ``status`` None takes cases and controls; ``kernel`` is then of the genotype alone, otherwise of genotype and
    status. ``copies`` of the chromosome in each of the S tables, 2 or 1.
    """

    observed: FloatArray
    n: FloatArray
    kernel: EffectKernel
    status: int | None
    copies: tuple[int, ...]

    @classmethod
    def of(
        cls, tables: CopyTables, kernel: EffectKernel, status: int | None = None, copies: tuple[int, ...] = (2,)
    ) -> Group:
        """Build the group from counts (V, R, 2) of genotype × status."""
        counts = np.stack([{2: tables.two, 1: tables.one}[c] for c in copies], axis=1).astype(np.float64)
        n = counts.sum(axis=(1, 2, 3))
        observed = counts / np.maximum(n, 1.0)[:, None, None, None]
        if status is None:
            genotype = EffectKernel(kernel.sizes[:1], kernel.eigenvalues[..., 0], kernel.names[:1])
            return cls(observed.sum(axis=3), n, genotype, None, copies)
        return cls(observed, n, kernel, status, copies)

    def part(self, which: slice | IntArray) -> Group:
        """Select variants."""
        return Group(self.observed[which], self.n[which], self.kernel.part(which), self.status, self.copies)

    @property
    def variants(self) -> int:
        """V."""
        return self.n.size

    @property
    def seen(self) -> FloatArray:
        """The observed shares, (V, C)."""
        return self.observed.reshape(self.variants, -1)

    @cached_property
    def estimate(self) -> FloatArray:
        """Unbiased shares of the true cells, shape of ``observed``."""
        return self.kernel.solve(self.observed)

    @cached_property
    def proper(self) -> FloatArray:
        """The nearest ones that are proportions, same shape."""
        return projection(self.estimate.reshape(self.variants, -1)).reshape(self.observed.shape)

    def cells(self, values: FloatArray) -> FloatArray:
        """Extend a function of the genotype (k, 3) to all cells.

        It is 0 outside the group and for missing calls; returns (k, R) or (k, R, 2).
        """
        longer = np.pad(values, ((0, 0), (0, self.kernel.sizes[0] - GENOTYPES)))
        if self.status is None:
            return longer
        return np.asarray(np.multiply.outer(longer, np.eye(2)[self.status]))

    def genotypes(self, table: FloatArray) -> FloatArray:
        """Select the group's genotypes from tables like ``observed``, (V, S, 3)."""
        known = table[:, :, :GENOTYPES]
        return known if self.status is None else known[..., self.status]

    def weights(self, values: FloatArray) -> FloatArray:
        """Compute weights of reports whose mean is unbiased for functions of the cell.

        (k, S, …) to (V or 1, k, C).
        """
        pulled = self.kernel.solve_adjoint(values[None])
        return np.asarray(pulled.reshape(*pulled.shape[:2], -1))

    def pushed(self, tables: FloatArray) -> FloatArray:
        """Compute expected reports of true tables (V or 1, k, S, …): (V or 1, k, C)."""
        sent = self.kernel.forward(tables)
        return np.asarray(sent.reshape(*sent.shape[:2], -1))

    def beside(self) -> FloatArray:
        """Return proper proportions with this group's cells set to 0."""
        out = self.proper.copy()
        out[(slice(None), slice(None), slice(GENOTYPES), *(() if self.status is None else (self.status,)))] = 0.0
        return out

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether reports name more than one genotype, (V,)."""
        known = self.observed[:, :, :GENOTYPES].reshape(self.variants, len(self.copies), GENOTYPES, -1)
        return np.asarray((known.sum(axis=(1, 3)) > 0).sum(axis=1) > 1)


def everybody(tables: CopyTables, kernel: EffectKernel) -> Group:
    """Build the group of all people, including those with one copy."""
    return Group.of(tables, kernel, None, (2, 1) if tables.one.any() else (2,))


def in_proportions(frequency: FloatArray, departure: FloatArray | float = 0.0) -> FloatArray:
    """Compute genotypes (V, 3) from frequencies of A1 and inbreeding F.

    F = 0 gives Hardy–Weinberg proportions.

    (1 − p)² + F p (1 − p), 2 p (1 − p) (1 − F), p² + F p (1 − p), F no less than leaves shares of at least 0.
    """
    p = frequency
    least = -np.minimum(p, 1 - p) / np.maximum(np.maximum(p, 1 - p), 0.5)
    d = np.maximum(departure, least) * p * (1 - p)
    return np.stack([(1 - p) ** 2 + d, 2 * p * (1 - p) - 2 * d, p**2 + d], axis=-1)


@dataclass(frozen=True, eq=False)
class Proportions:
    """Estimated proportions, arrays of shape (V,).

    ``estimate`` is unbiased, so it can be outside 0..1; ``standard_error``; an interval inside 0..1.

    The estimate is NaN if the estimated size of the group is 0; its interval is then 0..1.
    """

    estimate: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray


def frequencies(group: Group, *, intervals: bool = True) -> Proportions:
    """Estimate the frequency of A1 among all copies of the group's people.

    Intervals take most of the time and are optional.
    """
    copies = np.array(group.copies, dtype=np.float64)[:, None]
    counted, all_copies = copies * HALVES, copies * np.ones(GENOTYPES)
    values = np.stack([group.cells(counted), group.cells(all_copies)])
    return _in_blocks(group, values, _of_frequencies, intervals)


def call_rates(group: Group) -> Proportions:
    """Estimate the call rate of all people if missing is a category."""
    called = group.cells(np.ones((len(group.copies), GENOTYPES)))
    values = np.stack([called, np.ones_like(called)])
    return _in_blocks(group, values, _of_call_rates, True)


def rates_of_calls(tables: CopyTables, kernel: EffectKernel, wanted: FloatArray, missing: bool) -> Proportions:
    """Estimate or compute the call rates of all people.

    They are known if missing is not a category; ``wanted`` (V,) is the number of people who should have a call.
    """
    if missing:
        return call_rates(everybody(tables, kernel))
    values = np.where(wanted > 0, tables.people / np.maximum(wanted, 1.0), np.nan)
    return Proportions(values, np.zeros(values.size), values, values)


def _in_blocks(group: Group, values: FloatArray, law_of: Callable[[Group], _LawOf], intervals: bool) -> Proportions:
    """Estimate the ratio of A and B of each cell, (2, S, …), in blocks."""
    out = np.full((4, group.variants), np.nan)
    for n in np.unique(group.n[group.n > 0]):
        alike = np.flatnonzero(group.n == n)
        for at in np.array_split(alike, -(-alike.size // _VARIANTS)):
            own = _ratio(group.part(at), values, law_of, int(n), intervals)
            out[:, at] = own.estimate, own.standard_error, own.low, own.high
    return Proportions(*out)


def _ratio(group: Group, values: FloatArray, law_of: Callable[[Group], _LawOf], n: int, intervals: bool) -> Proportions:
    weights, seen = group.weights(values), group.seen
    above, below = np.broadcast_to(weights, (group.variants, *weights.shape[1:])).swapaxes(0, 1)
    a, b = np.sum(above * seen, axis=1), np.sum(below * seen, axis=1)
    there = b > _LEAST
    share, whole = np.where(there, a / np.where(there, b, 1.0), 0.0), np.where(there, b, 1.0)
    each = (above - share[:, None] * below) / whole[:, None]
    error = np.sqrt(np.maximum(np.sum(seen * each**2, axis=1), 0.0) / n)
    if not intervals:
        none = np.full(b.size, np.nan)
        return Proportions(np.where(there, share, none), np.where(there, error, none), none, none)
    law = law_of(group)
    moved, beside = group.pushed(law.moved), group.pushed(law.beside[:, None])[:, 0]
    departure = np.zeros(b.size) if law.departure is None else law.departure
    ratios = _RatioLaw(n, above, below, whole, beside, moved, departure, law.departure is not None)
    low, high = ratios.interval(share)
    return Proportions(
        *(np.where(there, x, none) for x, none in ((share, np.nan), (error, np.nan), (low, 0), (high, 1)))
    )


@dataclass(frozen=True, eq=False)
class _LawOf:
    """Expected reports as a function of the ratio p.

    ``beside`` + Σ_k c_k(p) ``moved``_k, true tables (V, S, …) and (V, k, S, …).

    c are the genotypes at frequency p and this ``departure``, (V,), and 1 − p and p; ``departure`` None takes only the
    latter.
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
    """Keep known calls and spread missing calls evenly over the tables."""
    known, missing = group.proper.copy(), np.zeros_like(group.proper)
    known[:, :, GENOTYPES] = 0.0
    missing[:, :, GENOTYPES] = group.proper[:, :, GENOTYPES] + _LEAST
    pieces = [each / np.maximum(each.sum(axis=(1, 2)), _LEAST)[:, None, None] for each in (missing, known)]
    return _LawOf(np.zeros_like(known), np.stack(pieces, axis=1), None)


def _inbreeding(genotypes: FloatArray) -> FloatArray:
    """Compute F of proportions (V, 3), −1..1; 0 if they do not vary."""
    total = np.maximum(genotypes.sum(axis=1), _LEAST)
    p = genotypes @ HALVES / total
    expected = 2 * p * (1 - p)
    inbreeding = 1 - genotypes[:, 1] / total / np.maximum(expected, _LEAST)
    return np.asarray(np.where(expected > _LEAST, np.clip(inbreeding, -1.0, 1.0), 0.0))


@dataclass(frozen=True, eq=False)
class _RatioLaw:
    """Distribution of estimated ratios of B variants.

    Weights ``above`` and ``below`` the line (B, C), and the mean ``whole`` of the latter.

    ``beside`` (B, C), ``moved`` (B, k, C) and ``departure`` make the law of reports as in `_LawOf`.
    """

    n: int
    above: FloatArray
    below: FloatArray
    whole: FloatArray
    beside: FloatArray
    moved: FloatArray
    departure: FloatArray
    has_two: bool

    def under(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute variance and third moment of the estimates at ratios p, (B,)."""
        genotypes = [in_proportions(p, self.departure)] if self.has_two else []
        shares = np.column_stack([*genotypes, 1 - p, p])
        law = np.maximum(self.beside + np.einsum("bk,bkc->bc", shares[:, : self.moved.shape[1]], self.moved), 0.0)
        law /= law.sum(axis=1, keepdims=True)
        each = (self.above - p[:, None] * self.below) / self.whole[:, None]
        each = each - np.sum(law * each, axis=1, keepdims=True)
        variance, third = (np.sum(law * each**power, axis=1) for power in (2, 3))
        return np.where(variance > _NO_VARIANCE, variance, 0.0) / self.n, third / self.n**2

    def interval(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute interval limits, (B,).

        A parabola interpolates the variances at 0, 1 and the estimate.
        """
        middle = np.clip(share, _INNER, 1 - _INNER)
        first, last = (self.under(np.full_like(share, end))[0] for end in (0.0, 1.0))
        variance, third = self.under(middle)
        bend = ((last - first) - (variance - first) / middle) / (1 - middle)
        skew = np.divide(third, variance, out=np.zeros_like(third), where=variance > 0)
        return wilson(share, np.stack([first, last - first - bend, bend]), _MISSED, skew)


@dataclass(frozen=True, eq=False)
class ProportionsTest:
    """Tests of Hardy–Weinberg proportions, (V,), χ² with 1 degree of freedom.

    Returns NaN unless reports show several genotypes.

    ``expected``: the smallest expected number of a report of a genotype, with the group's own status. However few
    reports there are of missing calls, or of the other status, p-values do not go in steps because of them.
    """

    statistic: FloatArray
    p_value: FloatArray
    expected: FloatArray


def proportions_test(group: Group) -> ProportionsTest:
    """Test each variant of people with two copies; O(V), about 30 µs a variant.

    ``group`` is of tables of two copies alone (``copies=(2,)``).
    """
    out = np.full((3, group.variants), np.nan)
    which = np.flatnonzero(group.varies)
    for at in np.array_split(which, max(1, -(-which.size // _VARIANTS))):
        if at.size:
            out[:, at] = _tested(group.part(at))
    return ProportionsTest(*out)


def _tested(group: Group) -> tuple[FloatArray, FloatArray, FloatArray]:
    fit = _fitted(group)
    p, n = fit.frequency, group.n
    h = np.stack([p**2, -p * (1 - p), (1 - p) ** 2], axis=1)
    weights = group.kernel.solve_adjoint(group.cells(h)[:, None]).reshape(p.size, -1)
    law, tangents = fit.law(group)
    effect = np.sum(weights * group.seen, axis=1)
    variance = np.sum(law * weights**2, axis=1) - np.sum(law * weights, axis=1) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(variance > 0, n * effect**2 / variance, np.nan)
    scores = tangents / law[:, None]
    # a share held at 0 is not the likeliest one, so its score is not 0: given that it were, this table might be
    # impossible
    scores[:, 1:] *= (fit.beside > _NEARLY_ZERO)[:, :, None]
    p_value = tail_of_one(weights, law, group.seen * n[:, None], statistic, scores)
    of_genotypes = law.reshape(group.observed.shape)[:, :, :GENOTYPES]
    own = of_genotypes if group.status is None else of_genotypes[..., group.status]
    return statistic, p_value, n * own.reshape(n.size, -1).min(axis=1)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Fitted ``frequency`` of A1 (V,) and ``beside`` (V, Q), all other cells."""

    frequency: FloatArray
    beside: FloatArray

    def law(self, group: Group) -> tuple[FloatArray, FloatArray]:
        """Compute the reports' distribution, (V, C), and its derivatives.

        Derivatives (V, 1 + Q, C) are in the frequency, then towards each other cell.
        """
        own, others = _own_and_others(group)
        p, inside = self.frequency, 1 - self.beside.sum(axis=1)
        in_p = in_proportions(p) @ own
        table = inside[:, None] * in_p + self.beside @ others
        slope = np.stack([-2 * (1 - p), 2 * (1 - 2 * p), 2 * p], axis=1) * inside[:, None]
        moved = np.concatenate([table[:, None], (slope @ own)[:, None], others[None] - in_p[:, None]], axis=1)
        sent = group.pushed(moved.reshape(*moved.shape[:2], *group.observed.shape[1:]))
        law = np.maximum(sent[:, 0], _FLOOR**2)
        return law / law.sum(axis=1, keepdims=True), sent[:, 1:]

    def moved(self, step: FloatArray) -> _Fit:
        """Take a step (V, 1 + Q), kept inside the proportions and off 0 and 1."""
        beside = np.maximum(self.beside + step[:, 1:], _FLOOR)
        total = np.maximum(beside.sum(axis=1, keepdims=True) / (1 - _FLOOR), 1.0)
        return _Fit(np.clip(self.frequency + step[:, 0], _FLOOR, 1 - _FLOOR), beside / total)

    def part(self, which: IntArray) -> _Fit:
        """Select variants."""
        return _Fit(self.frequency[which], self.beside[which])


def _fitted(group: Group) -> _Fit:
    """Fit each variant by scoring, or by the nearest proportions."""
    own, others = _own_and_others(group)
    flat = group.proper.reshape(group.variants, -1)
    genotypes = flat @ own.T
    frequency = genotypes @ HALVES / np.maximum(genotypes.sum(axis=1), _FLOOR)
    fit = _Fit(frequency, flat @ others.T).moved(np.zeros((group.variants, 1 + len(others))))
    estimate = group.estimate.reshape(group.variants, -1)
    copies = estimate @ own.T @ HALVES
    proper = (estimate @ others.T > _FLOOR).all(axis=1) & (copies > _FLOOR) & (copies < (estimate @ own.T).sum(axis=1))
    moving = np.flatnonzero(proper)
    for _ in range(_STEPS if moving.size else 0):
        here, now = group.part(moving), fit.part(moving)
        law, slopes = now.law(here)
        weighted = slopes / law[:, None]
        score = weighted @ (here.seen - law)[:, :, None]
        step = np.linalg.solve(weighted @ np.swapaxes(slopes, 1, 2), score)[:, :, 0]
        after = now.moved(np.asarray(step, dtype=np.float64))
        fit.frequency[moving], fit.beside[moving] = after.frequency, after.beside
        far = np.abs(after.beside - now.beside).max(axis=1, initial=0.0)
        moving = moving[np.maximum(far, np.abs(after.frequency - now.frequency)) > _TOLERANCE]
        if not moving.size:
            break
    return fit


def _own_and_others(group: Group) -> tuple[FloatArray, FloatArray]:
    """Indicate the group's genotypes and all other cells, (3, C) and (Q, C)."""
    own = group.cells(np.eye(GENOTYPES)).reshape(GENOTYPES, -1)
    return own, np.eye(own.shape[1])[own.sum(axis=0) == 0]
