"""Least squares from unbiased second moments: errors in variables whose law is known.

With the columns of the design and the outcome z = (x, y), each a function of at most a few attributes, every product
z_c z_d is a function of the attributes of both. Its unbiased estimate from one randomized record v is

    g_cd(v) = (P_U⁻¹ z_c z_d)[v_U],       U the attributes of c and d,

so tables of pairs are all that a model without interactions needs, however many attributes it has. Then

    ψ_c = g_cy − Σ_d g_cd θ_d,       M θ = m     (M_cd = mean g_cd, m_c = mean g_cy),

least squares with each moment replaced (Fuller, Measurement Error Models, 1987, §2.2). All that is kept of the records
is the mean of g and its second moments over the records, (D,) and (D, D), D = K(K+1)/2 for K columns: errors are those of
randomization and sampling together, for whatever joint law the attributes were randomized by, and robust to unequal variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from optrr.models.regression.equations import Equations
from optrr_solvers.arrays import FloatArray, IntArray


def product_places(columns: int) -> IntArray:
    """(K, K): where the product of two columns stands among the D different ones."""
    out = np.zeros((columns, columns), dtype=np.int64)
    upper = np.triu_indices(columns)
    out[upper] = np.arange(upper[0].size)
    return np.asarray(np.maximum(out, out.T))


@dataclass(frozen=True, eq=False)
class LinearEquations(Equations):
    """Normal equations of B data sets.

    Parameters
    ----------
    mean, second
        of g over the records: (B, D) and (B, D, D); the outcome is the last column.
    n
        records, (B,).
    """

    mean: FloatArray
    second: FloatArray
    n: FloatArray

    @property
    def columns(self) -> int:
        """K."""
        return round((sqrt(8 * self.mean.shape[1] + 1) - 1) / 2)

    @property
    def parameters(self) -> int:
        """p = K − 1."""
        return self.columns - 1

    @cached_property
    def _places(self) -> IntArray:
        return product_places(self.columns)

    @property
    def moments(self) -> FloatArray:
        """Unbiased second moments of the columns, the outcome last: (B, K, K)."""
        return np.asarray(self.mean[:, self._places])

    def start(self) -> FloatArray:
        """0: one Newton step solves linear equations from anywhere."""
        return np.zeros((len(self.mean), self.parameters))

    def objective(self, theta: FloatArray) -> FloatArray:
        """mᵀθ − θᵀMθ/2."""
        m, right = self.moments[:, :-1, :-1], self.moments[:, :-1, -1]
        return np.asarray(np.einsum("bp,bp->b", right - np.einsum("bpq,bq->bp", m, theta) / 2, theta))

    def score(self, theta: FloatArray) -> FloatArray:
        """m − Mθ."""
        return np.asarray(self.moments[:, :-1, -1] - np.einsum("bpq,bq->bp", self.moments[:, :-1, :-1], theta))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """M."""
        return np.asarray(self.moments[:, :-1, :-1])

    def spread(self, theta: FloatArray) -> FloatArray:
        """Mean ψψᵀ, from the second moments of g."""
        each = np.eye(self.parameters)
        combined = np.stack([self._combination(np.broadcast_to(e, theta.shape), theta) for e in each], axis=1)
        return np.asarray(combined @ self.second @ combined.transpose(0, 2, 1))

    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the moments of the columns."""
        del theta
        u = np.concatenate([direction, np.zeros((len(direction), 1))], axis=1)
        weights = self._gathered(u[:, :, None] * u[:, None, :])
        value = np.einsum("bd,bd->b", weights, self.mean)
        square = np.einsum("bd,bde,be->b", weights, self.second, weights, optimize=True)
        return value, np.sqrt(np.maximum(square - value**2, 0) / self.n)

    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """From the second moments of g, which hold those of the products of columns."""
        del theta
        each = np.eye(self.parameters, self.columns)
        padded = np.concatenate([weights, np.zeros((*weights.shape[:2], 1))], axis=2)
        own = np.stack(
            [[self._gathered(one[:, :, None] * e) for e in each] for one in padded.transpose(1, 0, 2)]
        ).transpose(2, 0, 1, 3)
        return np.asarray(np.einsum("bkdx,bxy,bley,bde->bkl", own, self.second, own, noise, optimize=True))

    def part(self, which: IntArray) -> LinearEquations:
        """Some of the data sets."""
        if len(which) == len(self.mean):
            return self
        return LinearEquations(self.mean[which], self.second[which], self.n[which])

    def _combination(self, weight: FloatArray, theta: FloatArray) -> FloatArray:
        """The weights on g of Σ_c w_c ψ_c(θ), (B, D)."""
        residual = np.concatenate([-theta, np.ones((len(theta), 1))], axis=1)
        padded = np.concatenate([weight, np.zeros((len(weight), 1))], axis=1)
        return self._gathered(padded[:, :, None] * residual[:, None, :])

    def _gathered(self, products: FloatArray) -> FloatArray:
        """(B, K, K) weights on products of columns, added up over the D different ones."""
        out = np.zeros((self.mean.shape[1], len(products)))
        np.add.at(out, self._places.ravel(), products.reshape(len(products), -1).T)
        return np.asarray(out.T)
