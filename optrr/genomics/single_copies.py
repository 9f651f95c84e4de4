"""Allelic tests of variants of which some people have one copy: men on X and Y, everybody on MT.

As PLINK's --assoc does: alleles are counted, two of who has two copies, one of who has one. With f the frequency of A1 and w
the share of cases, both over all chromosomes, g the copies in a code (a single one counts like two, so half of it here) and d
how many copies a person has, the statistic is that of

    Σ over people (g − d f)(case − w),

each term pulled back through the mechanism; the person is the sampling unit. It is 0 on average where the allele is as
frequent in cases as in controls, provided that it is as frequent in men as in women, or that cases are: PLINK takes the former
for granted. Its variance is that of the null law: a status independent of the alleles within each sex, one allele in who has
one copy; in who has two (1 − f)² + D, 2f (1 − f) − 2D, f² + D, D the departure from Hardy–Weinberg proportions, estimated
for the allelic test and 0 for allelic-hwe, which without a mechanism is Pearson's χ² of alleles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from optrr.genomics.odds import OddsRatios, covariances, fieller_odds
from optrr.genomics.scores import Scores
from optrr.genomics.tables import CopyTables
from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.conditional import tail_of_one
from optrr.models.tests.genotypes import ASSUMING, GENOTYPES
from optrr_solvers.arrays import FloatArray, IntArray

# Frequencies and shares are kept this far from 0 and 1, so that no variance is 0.
_LEAST = 1e-9

WARNING = (
    "on chromosomes X, Y and MT one copy counts as one allele; frequencies are taken for the same in men and women, as PLINK "
    "takes them: where they differ, and cases and controls differ in sex, the test rejects too often"
)


def single_copy_scores(tables: CopyTables, kernel: Kernel, test: str = "allelic") -> Scores:
    """The allelic test (or allelic-hwe), 1 degree of freedom; NaN where allele or status does not vary."""
    n, observed = tables.people, tables.observed
    sums = _Alleles.of(observed, kernel)
    law, pieces = [], []
    for estimate, copies in zip(sums.tables, (2, 1), strict=True):
        law.append(_null(estimate, sums, copies, test == ASSUMING, kernel))
        x = copies * (np.arange(GENOTYPES) / 2 - sums.frequency[:, None])
        s = np.array([0.0, 1.0]) - sums.cases[:, None]
        pieces.append(_pulled_back(x[:, :, None] * s[:, None, :], kernel))
    expected, weights = np.concatenate(law, axis=1), np.concatenate(pieces, axis=1)
    effect = np.sum((observed - expected) * weights, axis=(1, 2))
    variance = np.sum(expected * weights**2, axis=(1, 2)) - np.sum(expected * weights, axis=(1, 2)) ** 2
    varies = _varies(tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(varies & (variance > 0), n * effect**2 / variance, np.nan)
    flat = (n.size, -1)
    counts = (observed * n[:, None, None]).reshape(flat)
    p = tail_of_one(weights.reshape(flat), expected.reshape(flat), counts, statistic)
    one = np.ones(n.size, dtype=np.int64)
    present = np.where(expected.sum(axis=2, keepdims=True) > 0, expected, np.inf)
    least = np.where(varies, n * present.min(axis=(1, 2)), np.nan)
    return Scores(statistic, one, p, least, None, np.flatnonzero(varies), n[varies], -one)


def with_single_copies(scores: Scores, which: IntArray, single: Scores) -> Scores:
    """The scores of all variants, with those of some numbers replaced; a fit stays that of people with two copies."""
    statistic, p, expected = (x.copy() for x in (scores.statistic, scores.p_value, scores.expected))
    statistic[which], p[which], expected[which] = single.statistic, single.p_value, single.expected
    return replace(scores, statistic=statistic, p_value=p, expected=expected)


def single_copy_odds(tables: CopyTables, kernel: Kernel, confidence: float = 0.95) -> OddsRatios:
    """Odds ratio of A1 by counts of alleles; its interval is Fieller's, with the person as the sampling unit."""
    observed = tables.observed
    sums = _Alleles.of(observed, kernel)
    (b_0, b_1), (a_0, a_1) = sums.counts.swapaxes(0, 1).swapaxes(1, 2)
    zero = np.zeros_like(a_0)
    moves = [np.array([[a_1, zero], [zero, b_0]]), np.array([[zero, a_0], [b_1, zero]])]
    above, below = (_of_alleles(np.moveaxis(m, -1, 0), kernel) for m in moves)
    covariance = covariances(above, below, observed) / np.maximum(tables.people, 1.0)
    odds = fieller_odds(a_1 * b_0, a_0 * b_1, covariance, float(ndtri((1 + confidence) / 2)), sums.counts)
    varies = _varies(tables)
    return OddsRatios(
        *(np.where(varies, x, np.nan) for x in (odds.ratio, odds.low, odds.high, odds.cases, odds.controls))
    )


def with_odds_of_single_copies(
    plain: Callable[[slice | IntArray], OddsRatios], tables: CopyTables, kernel: Kernel
) -> Callable[[slice | IntArray], OddsRatios]:
    """Odds ratios by numbers of variants: those of :func:`single_copy_odds` where somebody has one copy."""
    single = tables.one.sum(axis=(1, 2)) > 0

    def odds(which: slice | IntArray) -> OddsRatios:
        out, at = plain(which), np.flatnonzero(single[which])
        chosen = np.arange(single.size)[which][at]
        own = single_copy_odds(tables.part(chosen), kernel.part(chosen))
        names = ("ratio", "low", "high", "cases", "controls")
        columns = {name: getattr(out, name).copy() for name in names}
        for name in names:
            columns[name][at] = getattr(own, name)
        return OddsRatios(**columns)

    return odds


@dataclass(frozen=True, eq=False)
class _Alleles:
    """Unbiased shares of all reports by true genotype and status, ``tables`` of people with two copies and with one, (V, R, 2).

    ``counts``: alleles of A2 and A1 by status for each person, (V, 2, 2); ``frequency`` and ``cases`` within 0..1, (V,).
    """

    tables: tuple[FloatArray, FloatArray]
    counts: FloatArray
    frequency: FloatArray
    cases: FloatArray

    @classmethod
    def of(cls, observed: FloatArray, kernel: Kernel) -> _Alleles:
        rows = kernel.sizes[0]
        tables = kernel.solve(observed[:, :rows]), kernel.solve(observed[:, rows:])
        of_a1 = np.arange(GENOTYPES) / 2
        counts = np.sum(
            [
                copies * np.einsum("kg,zgs->zks", np.stack([1 - of_a1, of_a1]), table[:, :GENOTYPES])
                for table, copies in zip(tables, (2, 1), strict=True)
            ],
            axis=0,
        )
        total = np.maximum(counts.sum(axis=(1, 2)), _LEAST)
        return cls(
            tables, counts, _inside(counts[:, 1].sum(axis=1) / total), _inside(counts[:, :, 1].sum(axis=1) / total)
        )


def _null(estimate: FloatArray, sums: _Alleles, copies: int, in_proportions: bool, kernel: Kernel) -> FloatArray:
    """Law of the reports of the people with so many copies, under the null hypothesis; it sums to their share, (V, R, 2)."""
    share = np.maximum(estimate.sum(axis=(1, 2)), 0.0)
    beside = np.maximum(estimate[:, GENOTYPES:], 0.0)
    known = np.maximum(share - beside.sum(axis=(1, 2)), 0.0)
    of_known = np.maximum(estimate[:, :GENOTYPES].sum(axis=(1, 2)), _LEAST)
    cases = _inside(estimate[:, :GENOTYPES, 1].sum(axis=1) / of_known)
    f = sums.frequency
    if copies == 1:
        genotypes = np.stack([1 - f, np.zeros_like(f), f], axis=1)
    else:
        d = np.zeros_like(f) if in_proportions else f * (1 - f) - estimate[:, 1].sum(axis=1) / of_known / 2
        d = np.clip(d, -(np.minimum(f, 1 - f) ** 2), f * (1 - f))
        genotypes = np.stack([(1 - f) ** 2 + d, 2 * f * (1 - f) - 2 * d, f**2 + d], axis=1)
    inside = known[:, None, None] * genotypes[:, :, None] * np.stack([1 - cases, cases], axis=1)[:, None, :]
    law = np.maximum(kernel.forward(np.concatenate([inside, beside], axis=1)), 0.0)
    total = law.sum(axis=(1, 2), keepdims=True)
    return np.asarray(law * (share[:, None, None] / np.maximum(total, _LEAST)))


def _of_alleles(gradient: FloatArray, kernel: Kernel) -> FloatArray:
    """What one report adds to a function of the allele counts with this gradient (V, 2, 2): shape (V, 2R, 2)."""
    of_a1 = np.arange(GENOTYPES) / 2
    each = np.einsum("kg,zks->zgs", np.stack([1 - of_a1, of_a1]), gradient)
    return np.concatenate([_pulled_back(copies * each, kernel) for copies in (2, 1)], axis=1)


def _pulled_back(table: FloatArray, kernel: Kernel) -> FloatArray:
    """A function of genotype and status (V, 3, 2), 0 of a missing one, as one of reports (V, R, 2)."""
    longer = np.pad(table, ((0, 0), (0, kernel.sizes[0] - GENOTYPES), (0, 0)))
    return np.asarray(kernel.solve_adjoint(longer[:, None]).reshape(longer.shape))


def _varies(tables: CopyTables) -> NDArray[np.bool_]:
    """Whether reports have more than one genotype and more than one status."""
    known = tables.two[:, :GENOTYPES] + tables.one[:, :GENOTYPES]
    return np.asarray(((known.sum(axis=2) > 0).sum(axis=1) > 1) & ((known.sum(axis=1) > 0).sum(axis=1) > 1))


def _inside(share: FloatArray) -> FloatArray:
    return np.clip(share, _LEAST, 1 - _LEAST)
