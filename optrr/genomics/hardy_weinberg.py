"""Hardy–Weinberg proportions from randomized genotypes: a score test of each variant, in everybody, controls or cases.

With p the frequency of A1 and π the genotypes of the group, the departure D = π_2 − p² is 0 in these proportions. At the null
fit its gradient is

    h = (p², −p (1 − p), (1 − p)²)

of genotypes, 0 of all other cells: missing calls, and people of the other status. With ψ the weights of reports whose mean is
that of h, and λ_0 the reports' law under the fit, the statistic is n (mean ψ)² / Σ λ_0 ψ². The fit is the likeliest p, with
the shares of the other cells, which are free (Fisher scoring); so it is Rao's test, n Σ (λ̂ − λ_0)²/λ_0, and without a
mechanism Pearson's χ² of PLINK 1's ``--hardy``. Where noise takes an unbiased share outside of what shares can be, the nearest
proper ones are the fit, as in :mod:`optrr.models.tests.nullfit`. Small p-values, and those of tables with few expected reports,
are by a saddlepoint given the fit (:mod:`optrr.models.tests.tail`): without a mechanism, near the tails of the exact
test given the counts of alleles.

People with one copy of a chromosome have no such proportions, and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.genomics.genotypes import GENOTYPES
from optrr.genomics.groups import HALVES, Group, in_proportions
from optrr.models.tests.calibration import tail_of_one
from optrr_solvers.arrays import FloatArray

# Variants at once, so that a dozen arrays of their cells stay near the cache.
_VARIANTS = 1 << 13
# Scoring converges in three to six steps.
_STEPS = 12
# Largest change at which a fit is final, far below any standard error.
_TOLERANCE = 1e-9
# Shares and frequencies are kept this far from 0 and 1.
_FLOOR = 1e-9
# Shares up to this one count as 0: they are the floor, rescaled.
_NEARLY_ZERO = 10 * _FLOOR


@dataclass(frozen=True, eq=False)
class ProportionsTest:
    """Tests of Hardy–Weinberg proportions, (V,), χ² with 1 degree of freedom; NaN where reports show one genotype or nobody.

    ``expected``: the smallest expected number of a report.
    """

    statistic: FloatArray
    p_value: FloatArray
    expected: FloatArray


def proportions_test(group: Group) -> ProportionsTest:
    """The test of every variant of a group of people with two copies. O(V), about 30 µs a variant.

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
    law = fit.expected(group)
    effect = np.sum(weights * group.seen, axis=1)
    variance = np.sum(law * weights**2, axis=1) - np.sum(law * weights, axis=1) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(variance > 0, n * effect**2 / variance, np.nan)
    scores = fit.tangents(group) / law[:, None]
    # a share held at 0 is not the likeliest one, so its score is not 0: given that it were, this table might be impossible
    scores[:, 1:] *= (fit.beside > _NEARLY_ZERO)[:, :, None]
    p_value = tail_of_one(weights, law, group.seen * n[:, None], statistic, scores)
    return statistic, p_value, n * law.min(axis=1)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The fitted ``frequency`` (V,) and the shares ``beside`` (V, Q) of the cells that are not the group's genotypes."""

    frequency: FloatArray
    beside: FloatArray

    def expected(self, group: Group) -> FloatArray:
        """Law of the reports, (V, C), positive."""
        own, others = _cells(group)
        inside = 1 - self.beside.sum(axis=1)
        table = (inside[:, None] * in_proportions(self.frequency)) @ own + self.beside @ others
        law = np.maximum(_sent(group, table[:, None])[:, 0], _FLOOR**2)
        return np.asarray(law / law.sum(axis=1, keepdims=True))

    def tangents(self, group: Group) -> FloatArray:
        """Derivative of the law in the frequency, then towards each other cell, (V, 1 + Q, C)."""
        own, others = _cells(group)
        p, inside = self.frequency, 1 - self.beside.sum(axis=1)
        slope = np.stack([-2 * (1 - p), 2 * (1 - 2 * p), 2 * p], axis=1) * inside[:, None]
        towards = others[None] - (in_proportions(p) @ own)[:, None]
        return _sent(group, np.concatenate([(slope @ own)[:, None], towards], axis=1))

    def moved(self, step: FloatArray) -> _Fit:
        """After a change of the parameters, (V, 1 + Q)."""
        beside = np.maximum(self.beside + step[:, 1:], _FLOOR)
        total = np.maximum(beside.sum(axis=1, keepdims=True) / (1 - _FLOOR), 1.0)
        return _Fit(np.clip(self.frequency + step[:, 0], _FLOOR, 1 - _FLOOR), beside / total)

    def part(self, which: NDArray[np.int64]) -> _Fit:
        """Some of the variants."""
        return _Fit(self.frequency[which], self.beside[which])


def _fitted(group: Group) -> _Fit:
    own, others = _cells(group)
    flat = group.proper.reshape(group.variants, -1)
    genotypes = flat @ own.T
    frequency = genotypes @ HALVES / np.maximum(genotypes.sum(axis=1), _FLOOR)
    fit = _Fit(frequency, flat @ others.T).moved(np.zeros((group.variants, 1 + len(others))))
    final = _Fit(fit.frequency.copy(), fit.beside.copy())
    estimate = group.estimate.reshape(group.variants, -1)
    copies = estimate @ own.T @ HALVES
    proper = (estimate @ others.T > _FLOOR).all(axis=1) & (copies > _FLOOR) & (copies < (estimate @ own.T).sum(axis=1))
    moving = np.flatnonzero(proper)
    for _ in range(_STEPS if moving.size else 0):
        here, now = group.part(moving), final.part(moving)
        law, slopes = now.expected(here), now.tangents(here)
        weighted = slopes / law[:, None]
        score = weighted @ (here.seen - law)[:, :, None]
        step = np.asarray(np.linalg.solve(weighted @ np.swapaxes(slopes, 1, 2), score)[:, :, 0], dtype=np.float64)
        after = now.moved(step)
        final.frequency[moving], final.beside[moving] = after.frequency, after.beside
        far = np.maximum(
            np.abs(after.frequency - now.frequency), np.abs(after.beside - now.beside).max(axis=1, initial=0)
        )
        moving = moving[far > _TOLERANCE]
        if not moving.size:
            break
    return final


def _cells(group: Group) -> tuple[FloatArray, FloatArray]:
    """The group's genotypes, and every other cell, each as a flat table of 0 and 1: (3, C) and (Q, C)."""
    own = group.cells(np.eye(GENOTYPES)).reshape(GENOTYPES, -1)
    return own, np.eye(own.shape[1])[own.sum(axis=0) == 0]


def _sent(group: Group, tables: FloatArray) -> FloatArray:
    """Expected reports of flat tables (V, k, C)."""
    shape = (*tables.shape[:2], *group.observed.shape[2:])
    return np.asarray(group.kernel.forward(tables.reshape(shape)).reshape(tables.shape))
