"""Logistic regression of an outcome with r ordered categories, at given parameters: chances and their derivatives.

    Pr(Y ≥ j | x) = S_j = 1/(1 + exp(−(κ_j + xβ))),   j = 1..r−1,   S_0 = 1, S_r = 0;      p_c = S_c − S_{c+1}

(proportional odds: McCullagh, J. R. Stat. Soc. B 42, 1980). For two categories κ_1 is the intercept. θ = (κ, β).

Whatever is summed is a sum over levels j: the derivative of anything in κ_j is its derivative in the level, and in β the
same times x. So scores are made of one number for each level, and curvatures of one for each pair.

Arrays are (B, G, R, …): data sets, groups of records alike in all public columns, cells of the randomized predictors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from optrr_solvers.arrays import FloatArray

# Chances below this count as this, so that nothing is divided by 0. Double precision tells no such chance from 0.
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Levels:
    """``p`` (B, G, R, r): chances of the categories; ``slope`` and ``bend`` (B, G, R, r−1): derivatives of S_j in level j."""

    p: FloatArray
    slope: FloatArray
    bend: FloatArray
    ordered: NDArray[np.bool_]

    @staticmethod
    def at(theta: FloatArray, x: FloatArray, categories: int) -> Levels:
        """At θ (B, p), for rows x (G, R, p − r + 1); ``ordered`` (B,) says where κ falls, as it must."""
        kappa, beta = theta[:, : categories - 1], theta[:, categories - 1 :]
        level = kappa[:, None, None, :] + np.einsum("grp,bp->bgr", x, beta)[..., None]
        over, under = expit(level), expit(-level)
        gaps = np.diff(-kappa, axis=1)
        with np.errstate(over="ignore"):
            # S_j − S_{j+1} without cancelling where both are near 1
            middle = over[..., :-1] * under[..., 1:] * -np.expm1(-gaps)[:, None, None, :]
        p = np.concatenate([under[..., :1], middle, over[..., -1:]], axis=-1)
        slope = over * under
        return Levels(np.maximum(p, _LEAST), slope, slope * (under - over), np.all(gaps > 0, axis=1))

    def score(self, ratio: FloatArray) -> FloatArray:
        """Σ_c w_c ∂ln p_c by level, from w_c/p_c (B, G, R, r): (B, G, R, r−1)."""
        return np.asarray(self.slope * (ratio[..., 1:] - ratio[..., :-1]))

    def cell_scores(self) -> FloatArray:
        """∂ln p_c by category and level, (B, G, R, r, r−1)."""
        return np.asarray(self._steps * self.slope[..., None, :] / self.p[..., :, None])

    def cell_curvatures(self, d: FloatArray, e: FloatArray) -> FloatArray:
        """−∂²ln p_c where level j moves by d_j, then by e_j, both (B, G, R, r−1): (B, G, R, r)."""
        scores = self.cell_scores()
        one, other = (np.einsum("...cj,...j->...c", scores, moved) for moved in (d, e))
        return np.asarray(one * other - (self.bend * d * e) @ self._steps.T / self.p)

    def curvature(self, weights: FloatArray) -> FloatArray:
        """−Σ_c w_c ∂²ln p_c by pairs of levels, (B, G, R, r−1, r−1), for weights (B, G, R, r)."""
        scores = self.cell_scores()
        out = np.swapaxes(scores, -1, -2) @ (weights[..., None] * scores)
        bends = self.bend * ((weights / self.p) @ self._steps)
        return np.asarray(out - bends[..., None] * np.eye(self.slope.shape[-1]))

    @property
    def _steps(self) -> FloatArray:
        """(r, r−1): p_c is level c less level c + 1."""
        r = self.p.shape[-1]
        return np.eye(r)[:, 1:] - np.eye(r)[:, :-1]


def summed_score(by_level: FloatArray, x: FloatArray) -> FloatArray:
    """Derivatives in θ, (B, p), from those by level (B, G, R, r−1)."""
    beta = np.einsum("bgr,grp->bp", by_level.sum(axis=-1), x)
    return np.concatenate([by_level.sum(axis=(1, 2)), beta], axis=1)


def summed_curvature(by_levels: FloatArray, x: FloatArray) -> FloatArray:
    """The same of second derivatives, (B, p, p) from (B, G, R, r−1, r−1)."""
    kappa, half = by_levels.sum(axis=(1, 2)), by_levels.sum(axis=-1)
    mixed = np.einsum("bgrj,grp->bjp", half, x)
    beta = np.einsum("bgr,grp,grq->bpq", half.sum(axis=-1), x, x, optimize=True)
    return np.block([[kappa, mixed], [mixed.transpose(0, 2, 1), beta]])


def moved_levels(direction: FloatArray, x: FloatArray, categories: int) -> FloatArray:
    """By how much each level moves where θ moves along u (B, p): (B, G, R, r−1)."""
    kappa, beta = direction[:, : categories - 1], direction[:, categories - 1 :]
    return np.asarray(kappa[:, None, None, :] + np.einsum("grp,bp->bgr", x, beta)[..., None])
