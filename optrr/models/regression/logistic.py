"""Logistic regression from randomized records: maximum likelihood where all predictors are public, else the unbiased score.

**Public predictors.** A record in group g reports v with chance λ_v = Σ_c p_c(x_g; θ) P[c, v], so that

    ℓ(θ) = Σ λ̂_gv ln λ_v(g),      H = V = Σ_g w_g Σ_v ∂λ_v ∂λ_vᵀ / λ_v

(Scheers & Dayton, J. Am. Stat. Assoc. 83, 1988, for two categories; `rrreg` and `RRlog` of R's rr and RRreg).

**Randomized predictors.** Their joint law is not known, and it is not modelled: the score of the true records
s(y, x; θ) is a function of the cell, and its unbiased estimate from one report is (P⁻¹ s)(v), P over the outcome and all
randomized predictors. Its mean is Σ π̂ s(θ), the score of the unbiased table π̂, whose negative cells are harmless here: no
share of it is used alone (Nakamura, Biometrika 77, 1990; the corrected log-likelihood is Σ π̂ ln p). H comes from the
same table, V from the second moments of the reports' own scores. Where the model is wrong, θ is what plain logistic
regression of all people would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logit

from optrr.mechanisms.kernel import Kernel
from optrr.models.regression.equations import Equations
from optrr.models.regression.levels import Levels, moved_levels, summed_curvature, summed_score
from optrr_solvers.arrays import FloatArray, IntArray

# Shares of the outcome that a start is made from are kept this far from 0 and 1.
_MARGIN = 0.01


@dataclass(frozen=True, eq=False)
class LogisticEquations(Equations):
    """What both have in common.

    Parameters
    ----------
    reports
        shares λ̂ of all records by group and report, (B, G, *sizes), the outcome's reports last; each data set sums to 1.
    x
        rows of the design for every group and cell of the randomized predictors, (G, R, q), without an intercept.
    kernel
        of the sizes: of the outcome alone, or of the randomized predictors in the order of x's cells, then the outcome.
    n
        records, (B,).
    """

    reports: FloatArray
    x: FloatArray
    kernel: Kernel
    n: FloatArray

    @property
    def categories(self) -> int:
        """r."""
        return int(self.reports.shape[-1])

    @property
    def parameters(self) -> int:
        """Levels, and coefficients."""
        return self.categories - 1 + int(self.x.shape[-1])

    @cached_property
    def table(self) -> FloatArray:
        """Unbiased shares of true cells, (B, G, R, r)."""
        shape = (*self.reports.shape[:2], -1, self.categories)
        return np.asarray(self.kernel.solve(self.reports).reshape(shape))

    def start(self) -> FloatArray:
        """The levels of the outcome's shares, and no effect."""
        shares = np.maximum(self.table.sum(axis=(1, 2)), _MARGIN)
        above = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1] / shares.sum(axis=1, keepdims=True)
        out = np.zeros((len(shares), self.parameters))
        out[:, : self.categories - 1] = logit(above[:, 1:])
        return out

    def levels(self, theta: FloatArray) -> Levels:
        """Chances at θ."""
        return Levels.at(theta, self.x, self.categories)


class LikelihoodEquations(LogisticEquations):
    """Maximum likelihood: only the outcome is randomized, R = 1."""

    from_residuals = False

    def objective(self, theta: FloatArray) -> FloatArray:
        """ℓ in nats per record; −∞ where the levels do not fall."""
        levels = self.levels(theta)
        value = np.einsum("bgv,bgv->b", self.reports, np.log(self._expected(levels)))
        return np.where(levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Of the reports."""
        levels = self.levels(theta)
        # behind every report, its ratio to what is expected, seen from the true categories
        ratio = self.kernel.adjoint(self.reports / self._expected(levels))[:, :, None, :]
        return summed_score(levels.score(ratio), self.x)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Information of one record."""
        levels = self.levels(theta)
        steps = np.eye(self.categories)[:, 1:] - np.eye(self.categories)[:, :-1]
        moved = levels.slope[:, :, 0, :, None] * self.kernel.forward(steps.T)
        weights = self.reports.sum(axis=-1)[:, :, None] / self._expected(levels)
        by_levels = np.einsum("bgjv,bgkv,bgv->bgjk", moved, moved, weights, optimize=True)
        return summed_curvature(by_levels[:, :, None], self.x)

    def spread(self, theta: FloatArray) -> FloatArray:
        """The same."""
        return self.curvature(theta)

    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The predictors are known, so the information has no error."""
        value = np.einsum("bp,bpq,bq->b", direction, self.curvature(theta), direction)
        return value, np.zeros_like(value)

    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """Nothing: V is the information at θ, and no mean over records."""
        del theta, noise
        return np.zeros((*weights.shape[:2], weights.shape[1]))

    def part(self, which: IntArray) -> LikelihoodEquations:
        """Some of the data sets."""
        if len(which) == len(self.reports):
            return self
        return LikelihoodEquations(self.reports[which], self.x, self.kernel, self.n[which])

    def _expected(self, levels: Levels) -> FloatArray:
        # the floor is for a public outcome, whose reports may have chance 0
        return np.asarray(np.maximum(self.kernel.forward(levels.p[:, :, 0]), np.finfo(np.float64).tiny))


class UnbiasedEquations(LogisticEquations):
    """The unbiased score: predictors are randomized, too."""

    def objective(self, theta: FloatArray) -> FloatArray:
        """The corrected log-likelihood per record, Σ π̂ ln p; −∞ where the levels do not fall."""
        levels = self.levels(theta)
        value = np.einsum("bgrc,bgrc->b", self.table, np.log(levels.p))
        return np.where(levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Of the unbiased table."""
        levels = self.levels(theta)
        return summed_score(levels.score(self.table / levels.p), self.x)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Of the unbiased table."""
        return summed_curvature(self.levels(theta).curvature(self.table), self.x)

    def spread(self, theta: FloatArray) -> FloatArray:
        """Second moments of the reports' own scores."""
        scores = self.levels(theta).cell_scores()
        beta = scores.sum(axis=-1)[..., None] * self.x[:, :, None, :]
        cells = np.moveaxis(np.concatenate([scores, beta], axis=-1), -1, 2)
        own = self._own(cells)
        reports = self.reports.reshape(*self.reports.shape[:2], -1)
        return np.asarray(np.einsum("bgpv,bgqv,bgv->bpq", own, own, reports, optimize=True))

    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From the reports' own curvatures."""
        moved = moved_levels(direction, self.x, self.categories)
        own = self._own(self.levels(theta).cell_curvatures(moved, moved)[:, :, None])[:, :, 0]
        reports = self.reports.reshape(own.shape)
        value, square = np.sum(own * reports, axis=(1, 2)), np.sum(own**2 * reports, axis=(1, 2))
        return value, np.sqrt(np.maximum(square - value**2, 0.0) / self.n)

    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """From the reports' own curvatures."""
        levels, count, each = self.levels(theta), weights.shape[1], np.eye(self.parameters)
        moved = [moved_levels(weights[:, k], self.x, self.categories) for k in range(count)]
        along = [moved_levels(np.broadcast_to(e, theta.shape), self.x, self.categories) for e in each]
        cells = [levels.cell_curvatures(d, e) for d in moved for e in along]
        own = self._own(np.stack(cells, axis=2))
        own = own.transpose(0, 2, 1, 3).reshape(len(theta), count, len(each), -1)
        reports = self.reports.reshape(len(self.reports), 1, 1, -1)
        return np.asarray(np.einsum("bkdv,blev,bde->bkl", own * reports, own, noise, optimize=True))

    def part(self, which: IntArray) -> UnbiasedEquations:
        """Some of the data sets."""
        if len(which) == len(self.reports):
            return self
        out = UnbiasedEquations(self.reports[which], self.x, self.kernel, self.n[which])
        out.__dict__["table"] = self.table[which]
        return out

    def _own(self, cells: FloatArray) -> FloatArray:
        """What one report counts, (B, G, k, R r), for tables (B, G, k, R, r) of true cells."""
        tables = cells.reshape(*cells.shape[:3], *self.kernel.sizes)
        return np.asarray(self.kernel.solve_adjoint(tables).reshape(*cells.shape[:3], -1))
