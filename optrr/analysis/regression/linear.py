"""Least squares from unbiased second moments: errors in variables whose noise distribution is known.

With the columns of the design and the outcome z = (x, y), each a function of at most a few attributes, every product z_c z_d is
a function of the attributes of both. Its unbiased estimate from one randomized record v is

    g_cd(v) = (P_U⁻¹ z_c z_d)[v_U],       U the attributes of c and d,

so tables of pairs are all that a model without interactions needs, however many attributes it has. Then

    ψ_c = g_cy − Σ_d g_cd θ_d,       M θ = m     (M_cd = mean g_cd, m_c = mean g_cy),

least squares with each moment replaced (Fuller, Measurement Error Models, 1987, §2.2). Only these numbers of the
records are kept: the mean of g and its second moments over the records, (D,) and (D, D), D = K(K+1)/2 for K columns:
errors are those of randomization and sampling together, for whatever joint distribution the attributes were randomized
by, and robust to unequal variances.

V is a second moment, not a variance around the data's own mean. It is multiplied by n/(n − k), with k the number of parameters
that were solved for: |f| in a test, all of them in a covariance (HC1).

E, of :mod:`optrr.analysis.equations`, is what N counts twice. Noise δH of the curvature moves Ψ_K by −W δH δθ_f to
second order, δθ_f the error of the other parameters, and this adds

    D = Σ_de C_de mean (W h_j)_d (W h_j)_eᵀ,       h_j = −dψ_j/dθ,   C the covariance of θ_f,

to the variance of Ψ_K where δH and Ψ are uncorrelated, as they are nearly where randomization makes most of the noise.
N has D twice, once because W is made of the noisy H and once because V is taken at the noisy θ_f. At ε_i = 1 and n =
1000..10,000 D may be a tenth to a quarter of N, and the test without E rejects a true value in 2 to 4 % instead of 5 %.
Of clean records D is about N |f|/n, which the factor n/(n − k) accounts for, so that E = D − N |f|/n. To first order 2
N⁻¹ − (N + E)⁻¹ is (N − E)⁻¹, which would have no meaning where the records have so little information that D reaches N;
T at most doubles.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from optrr.analysis.equations import Equations, solve_systems
from optrr.analysis.regression.building import Columns, DistinctReports, check_size, columns_of, outcome_column
from optrr.analysis.regression.formulas import Predictors
from optrr.core.errors import InvalidInput
from optrr.core.estimation import CLEAR_OF_ZERO
from optrr_solvers.arrays import FloatArray, IntArray

# Part of the outcome's square below which residuals are rounding: all reports are equal.
_ALIKE = 1e-14
# Products of columns, D: second moments have their square.
MAX_PRODUCTS = 4000
# Doubles that what reports count may take at a time.
_AT_A_TIME = 4 * 10**6


def product_places(columns: int) -> IntArray:
    """Find where each product of columns is among the D distinct ones, (K, K)."""
    out = np.zeros((columns, columns), dtype=np.int64)
    upper = np.triu_indices(columns)
    out[upper] = np.arange(upper[0].size)
    return np.asarray(np.maximum(out, out.T))


@dataclass(frozen=True, eq=False)
class LinearEquations(Equations):
    """Normal equations of B data sets of n (B,) records.

    ``mean`` (B, D) and ``second`` moments (B, D, D) of g.

    The outcome is the last column; ``degrees`` of freedom of ``second`` are finite where it is a sample's.
    """

    mean: FloatArray
    second: FloatArray
    n: FloatArray
    degrees: float = inf

    method = "least squares from unbiased second moments"
    rounding = 1e-13

    @property
    def parameters(self) -> int:
        """p = K − 1, of D = K (K + 1)/2."""
        return round((sqrt(8 * self.mean.shape[1] + 1) - 1) / 2) - 1

    @cached_property
    def _places(self) -> IntArray:
        return product_places(self.parameters + 1)

    @property
    def moments(self) -> FloatArray:
        """Unbiased second moments of the columns, the outcome last: (B, K, K)."""
        return np.asarray(self.mean[:, self._places])

    def start(self) -> FloatArray:
        """Return 0; one Newton step solves linear equations from anywhere."""
        return np.zeros((len(self.mean), self.parameters))

    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute the quadratic objective mᵀθ − θᵀMθ/2."""
        m, right = self.moments[:, :-1, :-1], self.moments[:, :-1, -1]
        return np.asarray(np.einsum("bp,bp->b", right - np.einsum("bpq,bq->bp", m, theta) / 2, theta))

    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient m − Mθ."""
        return np.asarray(self.moments[:, :-1, -1] - np.einsum("bpq,bq->bp", self.moments[:, :-1, :-1], theta))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the matrix M of second moments."""
        return np.asarray(self.moments[:, :-1, :-1])

    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the mean of ψψᵀ from the second moments of g."""
        each = np.eye(self.parameters, self.parameters + 1)[None, :, :, None]
        residual = np.concatenate([-theta, np.ones((len(theta), 1))], axis=1)
        combined = self._gathered(each * residual[:, None, None])
        return np.asarray(combined @ self.second @ combined.transpose(0, 2, 1))

    def twice(self, theta: FloatArray, weights: FloatArray, free: IntArray, spread: FloatArray) -> FloatArray:
        """Compute D less the part that n/(n − k) covers."""
        if not free.size:
            return super().twice(theta, weights, free, spread)
        where = (slice(None), free[:, None], free)
        block = self.curvature(theta)[where]
        inverse = solve_systems(block, np.broadcast_to(np.eye(free.size), block.shape))
        records = self.effective(free.size)[:, None, None]
        of_theta = np.zeros_like(spread)
        of_theta[where] = inverse @ spread[where] @ inverse / records
        answered = weights @ spread @ weights.transpose(0, 2, 1) * (1 - records / self.n[:, None, None])
        return self.added_spread(weights, of_theta) - answered

    def effective(self, parameters: int) -> FloatArray:
        """Compute the effective number of records for second moments of residuals."""
        return self.n - parameters

    def clear(self, theta: FloatArray, where: IntArray) -> NDArray[np.bool_]:
        """Compare the smallest eigenvalue of M with its standard error."""
        if not where.size:
            return np.ones(len(theta), dtype=np.bool_)
        block = self.curvature(theta)[:, where[:, None], where]
        scale = np.sqrt(np.maximum(np.diagonal(block, axis1=1, axis2=2), 0.0))
        sound: NDArray[np.bool_] = np.all(np.isfinite(block), axis=(1, 2)) & np.all(np.nan_to_num(scale) > 0, axis=1)
        scale = np.where(sound[:, None], scale, 1.0)
        scaled = np.where(sound[:, None, None], block / (scale[:, :, None] * scale[:, None, :]), np.eye(where.size))
        direction = np.zeros(theta.shape)
        direction[:, where] = np.linalg.eigh(scaled)[1][:, :, 0] / scale
        value, error = self.curvature_along(direction)
        return np.asarray(sound & (value > 0) & (value >= CLEAR_OF_ZERO * error))

    def alike(self, theta: FloatArray, noise: FloatArray) -> NDArray[np.bool_]:
        """Compare residuals with rounding errors of the outcome's square."""
        squares = np.abs(np.diag(self.curvature(theta[None])[0]))
        return np.asarray(~(np.diag(noise) * self.n[0] * squares > _ALIKE * np.max(theta**2 * squares)))

    def curvature_along(self, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute uᵀMu and its standard error, both (B,), for directions u (B, p)."""
        u = np.concatenate([direction, np.zeros((len(direction), 1))], axis=1)
        weights = self._gathered(u[:, :, None] * u[:, None, :])
        value = np.einsum("bd,bd->b", weights, self.mean)
        square = np.sum((weights[:, None] @ self.second)[:, 0] * weights, axis=1)
        return value, np.sqrt(np.maximum(square - value**2, 0) / self.n)

    def added_spread(self, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """Compute D of θ's noise C (B, p, p) for weights W (B, k, p).

        From the second moments of g: (B, k, k).
        """
        padded = np.concatenate([weights, np.zeros((*weights.shape[:2], 1))], axis=2)
        own = self._gathered(padded[:, :, None, :, None] * np.eye(self.parameters, self.parameters + 1)[:, None])
        moved, pulled = own @ self.second[:, None], noise[:, None] @ own
        rows = (*weights.shape[:2], -1)
        return np.asarray(moved.reshape(rows) @ np.swapaxes(pulled.reshape(rows), 1, 2))

    def part(self, which: IntArray) -> "LinearEquations":
        """Select data sets."""
        if len(which) == len(self.mean):
            return self
        return replace(self, mean=self.mean[which], second=self.second[which], n=self.n[which])

    @cached_property
    def _upper(self) -> tuple[IntArray, IntArray]:
        return np.triu_indices(self.parameters + 1)

    def _gathered(self, products: FloatArray) -> FloatArray:
        """Sum weights (…, K, K) on products of columns over the D distinct ones."""
        one, other = self._upper
        return np.asarray(products[..., one, other] + np.where(one == other, 0.0, products[..., other, one]))


@dataclass(frozen=True, eq=False)
class _Products:
    """Weights of reports for the products of two terms' columns.

    A table (G, products, cells), at each report's place in it.
    """

    places: IntArray
    table: FloatArray
    group: IntArray
    cell: IntArray

    def at(self, rows: slice) -> FloatArray:
        """Look up weights of rows, (N', products)."""
        return np.asarray(self.table[self.group[rows], :, self.cell[rows]])


def linear_equations(
    predictors: Predictors, reports: DistinctReports, outcome: str, scores: FloatArray
) -> LinearEquations:
    """Build normal equations from the tables of every two terms.

    Raises InvalidInput if there are too many columns. SingularMarginal if the mechanism hides a table that two terms
    need.
    """
    p = len(predictors.labels)
    places = product_places(p + 1)
    if places.max() >= MAX_PRODUCTS:
        raise InvalidInput(
            f"the model has {p} columns; at most {int((2 * MAX_PRODUCTS) ** 0.5) - 2} fit, so leave some out"
        )
    each = [columns_of(predictors, reports, t) for t in predictors.terms]
    each.append(outcome_column(reports, outcome, scores, p))
    if predictors.offset_term is not None:
        added = columns_of(predictors, reports, predictors.offset_term)
        # the outcome less its offset replaces the outcome
        each.append(replace(added, values=-added.values, places=(p,)))
    products = [_products(one, other, reports, places) for i, one in enumerate(each) for other in each[i:]]
    shares, size = reports.numbers / reports.n[:, None], int(places.max()) + 1
    mean, second = np.zeros((len(shares), size)), np.zeros((len(shares), size, size))
    step = len(reports.codes) if reports.sample else max(1, _AT_A_TIME // size)
    for rows in (slice(start, start + step) for start in range(0, len(reports.codes), step)):
        g = np.zeros((len(reports.codes[rows]), size))
        for each_product in products:
            g[:, each_product.places] += each_product.at(rows)
        mean += shares[:, rows] @ g
        if reports.sample:
            second[0] = reports.sample.second_moments(g) + np.outer(mean, mean)
        elif len(shares) == 1:
            second[0] += (g * shares[0, rows, None]).T @ g
        else:
            second += (shares[:, rows] @ (g[:, :, None] * g[:, None, :]).reshape(len(g), -1)).reshape(second.shape)
    return LinearEquations(mean, second, reports.n, reports.sample.degrees if reports.sample else inf)


def _products(one: Columns, other: Columns, reports: DistinctReports, places: IntArray) -> _Products:
    randomized = reports.randomized((*one.randomized, *other.randomized))
    # groups of both terms that occur together
    pairs, group = np.unique(one.group * (other.group.max() + 1) + other.group, return_inverse=True)
    first, second = np.divmod(pairs, other.group.max() + 1)
    sizes = reports.sizes(randomized)
    where = places[np.ix_(one.places, other.places)].ravel()
    check_size(len(pairs) * prod(sizes) * where.size, "two terms together")
    table = one.over(randomized, first)[..., :, None] * other.over(randomized, second)[..., None, :]
    if one is not other and one.places == other.places:
        # in the square of an outcome less its offset
        table = 2 * table
    table = np.broadcast_to(table, (len(pairs), *sizes, *table.shape[-2:])).reshape(len(pairs), *sizes, where.size)
    table = np.moveaxis(table, -1, 1)
    if randomized:
        table = reports.mechanism.kernel(randomized).solve_adjoint(table)
    return _Products(where, table.reshape(len(pairs), where.size, -1), group.ravel(), reports.cells(randomized))
