"""Estimating equations of regressions, for many data sets at once: their interface, least squares, the unbiased score.

A regression's parameters θ solve Ψ(θ) = 0, the mean over the records of scores ψ_j(θ) whose expectation is 0 at the truth. ψ_j
is computed from a randomized record alone. Everything else follows from Ψ, its derivative −H, and the second moment
V = mean ψ_j ψ_jᵀ, whatever the regression.

Arrays are (B, G, R, …): data sets, groups of records alike in all public columns, cells of the randomized predictors; p
parameters.

**Logistic regression** of an outcome with r ordered categories: chances and their derivatives.

    Pr(Y ≥ j | x) = S_j = 1/(1 + exp(−(κ_j + xβ))),   j = 1..r−1,   S_0 = 1, S_r = 0;      p_c = S_c − S_{c+1}

(proportional odds: McCullagh, J. R. Stat. Soc. B 42, 1980). For two categories κ_1 is the intercept. θ = (κ, β).

Whatever is summed is a sum over levels j: the derivative of anything in κ_j is its derivative in the level, and in β the
same times x. So scores are made of one number for each level, and curvatures of one for each pair.

**The unbiased score**, for more cells of randomized predictors than :mod:`optrr.analysis.regression.likelihood` can hold. Their
joint law is not modelled: the score of the true records s(y, x; θ) is a function of the cell, and its unbiased estimate from
one report is (P⁻¹ s)(v), P over the outcome and all randomized predictors. Its mean is Σ π̂ s(θ), the score of the unbiased
table π̂, whose negative cells are harmless here: no share of it is used alone (Nakamura, Biometrika 77, 1990; the corrected
log-likelihood is Σ π̂ ln p). H comes from the same table, V from the second moments of the reports' own scores. Where the
model is wrong, θ is what plain logistic regression of all people would give.

**Least squares** from unbiased second moments, errors in variables whose law is known. With the columns of the design and the
outcome z = (x, y), each a function of at most a few attributes, every product z_c z_d is a function of the attributes of both.
Its unbiased estimate from one randomized record v is

    g_cd(v) = (P_U⁻¹ z_c z_d)[v_U],       U the attributes of c and d,

so tables of pairs are all that a model without interactions needs, however many attributes it has. Then

    ψ_c = g_cy − Σ_d g_cd θ_d,       M θ = m     (M_cd = mean g_cd, m_c = mean g_cy),

least squares with each moment replaced (Fuller, Measurement Error Models, 1987, §2.2). All that is kept of the records
is the mean of g and its second moments over the records, (D,) and (D, D), D = K(K+1)/2 for K columns: errors are those of
randomization and sampling together, for whatever joint law the attributes were randomized by, and robust to unequal variances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray, IntArray


class Equations(ABC):
    """Ψ(θ) = 0 of B data sets of ``n`` records each, (B,)."""

    # whether V comes from residuals, which are too small by what the parameters have taken
    from_residuals: bool = True

    if TYPE_CHECKING:
        # fields in some subclasses and properties in others, so they are declared for type checkers only
        @property
        def n(self) -> FloatArray:
            """Records, (B,)."""
            ...

        @property
        def parameters(self) -> int:
            """p."""
            ...

        @property
        def degrees(self) -> float:
            """Of freedom of V, which are finite where it is a sample's."""
            ...

    else:
        degrees = inf

    @abstractmethod
    def start(self) -> FloatArray:
        """Where to begin, (B, p)."""

    @abstractmethod
    def objective(self, theta: FloatArray) -> FloatArray:
        """A function of θ (B, p) with gradient Ψ, in (B,): what is maximised."""

    @abstractmethod
    def score(self, theta: FloatArray) -> FloatArray:
        """Ψ, (B, p)."""

    @abstractmethod
    def curvature(self, theta: FloatArray) -> FloatArray:
        """H = −dΨ/dθ, (B, p, p), symmetric."""

    def steering(self, theta: FloatArray) -> FloatArray:
        """H for steps towards the solution: it, or near it."""
        return self.curvature(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ψ and H for tests and errors, in which no other law, such as the predictors', is left to be solved for."""
        return self.score(theta), self.curvature(theta)

    def near(self, start: FloatArray, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """Where to begin under θ_which = values, (B, p), from a start without."""
        out = np.array(start, dtype=np.float64)
        out[:, list(which)] = values
        return out

    def shortened(self, step: FloatArray, free: IntArray) -> FloatArray:
        """A step (B, f) of the free parameters, no longer than where the curvature may still say something."""
        del free
        return step

    @property
    def reach(self) -> FloatArray:
        """How far from the estimate the ends of intervals may be, (p,)."""
        return np.full(self.parameters, np.inf)

    def complete(self) -> FloatArray:
        """What is singular where columns determine each other, (B, p, p)."""
        return self.curvature(self.start())

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """In nats, (B,), where it is what is maximised."""
        del theta
        return None

    def settled(self, theta: FloatArray) -> FloatArray:
        """The estimate, from where the objective is largest."""
        return theta

    @abstractmethod
    def spread(self, theta: FloatArray) -> FloatArray:
        """V, (B, p, p)."""

    def sandwich(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """H and V of standard errors, (B, p, p) each: those of tests, unless what tests assume is not assumed of errors."""
        return self.efficient(theta)[1], self.spread(theta)

    def varies(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> NDArray[np.bool_]:
        """Where the spread (B, k, k) of Wψ, W (B, k, p), is more than rounding leaves of reports that are all alike, (B,)."""
        del weights, noise
        return np.ones(len(theta), dtype=np.bool_)

    @abstractmethod
    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """uᵀHu for directions u (B, p), and its standard error; both (B,)."""

    @abstractmethod
    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """What θ's noise of covariance C (B, p, p) adds to the spread of Wψ for weights W (B, k, p): (B, k, k).

        With h_j = −dψ_j/dθ it is Σ_de C_de mean (W h_j)_d (W h_j)_eᵀ.
        """

    @abstractmethod
    def part(self, which: IntArray) -> Equations:
        """The equations of some of the data sets: numbers that differ, in ascending order."""


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
        """At θ (B, p), for rows x (G, R, p − r + 1)."""
        return Levels.of(moved_levels(theta, x, categories))

    @staticmethod
    def of(level: FloatArray) -> Levels:
        """At levels (B, G, R, r−1); ``ordered`` (B,) says where they fall, as they must."""
        over, under = expit(level), expit(-level)
        gaps = -np.diff(level, axis=-1)
        with np.errstate(over="ignore"):
            # S_j − S_{j+1} without cancelling where both are near 1
            middle = over[..., :-1] * under[..., 1:] * -np.expm1(-gaps)
        p = np.concatenate([under[..., :1], middle, over[..., -1:]], axis=-1)
        slope = over * under
        ordered = np.all(gaps > 0, axis=(1, 2, 3))
        return Levels(np.maximum(p, _LEAST), slope, slope * (under - over), ordered)

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
        return np.asarray(one * other - np.einsum("...cj,...j->...c", self.cell_bends(d), e))

    def cell_bends(self, d: FloatArray) -> FloatArray:
        """∂²p_c/p_c where levels move by d_j (B, G, R, r−1), by level, (B, G, R, r, r−1)."""
        return np.asarray((self.bend * d)[..., None, :] * self._steps / self.p[..., None])

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


class Choices(Levels):
    """Of unordered categories: level j is ln p_j/p_0 (the multinomial logit; ``slope`` and ``bend`` are not used)."""

    @staticmethod
    def of(level: FloatArray) -> Choices:
        """At levels (B, G, R, r−1)."""
        p = softmax(np.concatenate([np.zeros((*level.shape[:-1], 1)), level], axis=-1), axis=-1)
        return Choices(np.maximum(p, _LEAST), level, level, np.ones(len(level), dtype=np.bool_))

    def cell_scores(self) -> FloatArray:
        """∂ln p_c by category and level, (B, G, R, r, r−1)."""
        return np.asarray(np.eye(self.p.shape[-1])[:, 1:] - self.p[..., None, 1:])

    def curvature(self, weights: FloatArray) -> FloatArray:
        """−Σ_c w_c ∂²ln p_c by pairs of levels, (B, G, R, r−1, r−1), for weights (B, G, R, r)."""
        p = self.p[..., 1:]
        bends = p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
        return np.asarray(weights.sum(axis=-1)[..., None, None] * bends)


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


def product_places(columns: int) -> IntArray:
    """(K, K): where the product of two columns stands among the D different ones."""
    out = np.zeros((columns, columns), dtype=np.int64)
    upper = np.triu_indices(columns)
    out[upper] = np.arange(upper[0].size)
    return np.asarray(np.maximum(out, out.T))


# What rounding leaves of sums, beside the sizes of what is added up.
_ROUNDING = 1e-13
# Where noise leaves no solution, all that varies may be a few reports that it changed, of which none may have occurred. Tests
# of two predictors that are the same rejected 16 to 100 % of the time at 5 % where what varies is up to .17 of the square of
# one report that counts most (300 records, ε = 4 to 10), and 0 to 8 % where it is more than that (ε = 1, 2, or 3,000 records).
_LEAST_NOISE = 0.5


@dataclass(frozen=True, eq=False)
class LinearEquations(Equations):
    """Normal equations of B data sets of n (B,) records: ``mean`` (B, D) and ``second`` moments (B, D, D) of g.

    The outcome is the last column; ``degrees`` of freedom of ``second`` are finite where it is a sample's; ``largest`` (D,) is
    the size of g for the report that counts most, to which all of it is rounded.
    """

    mean: FloatArray
    second: FloatArray
    n: FloatArray
    degrees: float = inf
    largest: FloatArray | None = None

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

    def varies(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> NDArray[np.bool_]:
        """From the size of what is added up, and of what is rounded; without a solution, of what one report adds at most."""
        sizes, own = np.abs(weights), np.diagonal(noise, axis1=1, axis2=2)
        least = _ROUNDING * np.einsum("bkp,bpq,bkq->bk", sizes, np.abs(self.spread(theta)), sizes)
        if self.largest is not None:
            each = [self._combination(one, -np.abs(theta)) @ self.largest for one in sizes.transpose(1, 0, 2)]
            solvable = np.linalg.eigvalsh(self.curvature(theta))[:, 0] > 0
            share = np.where(solvable, _ROUNDING**2, _LEAST_NOISE / self.n)
            least += share[:, None] * np.stack(each, axis=1) ** 2
        return np.asarray(np.all(own > least, axis=1))

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
        each = np.eye(self.parameters, self.parameters + 1)
        padded = np.concatenate([weights, np.zeros((*weights.shape[:2], 1))], axis=2)
        own = np.stack(
            [[self._gathered(one[:, :, None] * e) for e in each] for one in padded.transpose(1, 0, 2)]
        ).transpose(2, 0, 1, 3)
        return np.asarray(np.einsum("bkdx,bxy,bley,bde->bkl", own, self.second, own, noise, optimize=True))

    def part(self, which: IntArray) -> LinearEquations:
        """Some of the data sets."""
        if len(which) == len(self.mean):
            return self
        return replace(self, mean=self.mean[which], second=self.second[which], n=self.n[which])

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


# Shares of the outcome that a start is made from are kept this far from 0 and 1.
MARGIN = 0.01


@dataclass(frozen=True, eq=False)
class LogisticEquations(Equations):
    """What the likelihood and the unbiased score of n (B,) records have in common.

    ``reports`` (B, G, *sizes) are shares λ̂ of all records by group and report, the outcome's reports last; each data set sums
    to 1. ``x`` (G, R, q) are rows of the design for every group and cell of the randomized predictors, without an intercept,
    and ``kernel`` is of the sizes: of the outcome alone, or of these predictors in the order of x's cells, then the outcome.
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
        shares = np.maximum(self.table.sum(axis=(1, 2)), MARGIN)
        above = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1] / shares.sum(axis=1, keepdims=True)
        out = np.zeros((len(shares), self.parameters))
        out[:, : self.categories - 1] = logit(above[:, 1:])
        return out

    def near(self, start: FloatArray, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """All levels move with one, so that they still fall."""
        out, levels = super().near(start, which, values), self.categories - 1
        if len(which) == 1 and which[0] < levels:
            out[:, :levels] = start[:, :levels] + out[:, which] - start[:, which]
        return out

    def levels(self, theta: FloatArray) -> Levels:
        """Chances at θ."""
        return Levels.at(theta, self.x, self.categories)


class UnbiasedEquations(LogisticEquations):
    """The unbiased score."""

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
        own = self._own(np.moveaxis(self._by_parameter(self.levels(theta).cell_scores()), -1, 2))
        return self.moments(own)

    def moments(self, own: FloatArray) -> FloatArray:
        """Second moments, (B, k, k), of what each report counts, (B, G, k, V)."""
        weighted = own * self.reports.reshape(*self.reports.shape[:2], 1, -1)
        return np.asarray((weighted @ own.transpose(0, 1, 3, 2)).sum(axis=1))

    def _by_parameter(self, by_level: FloatArray) -> FloatArray:
        """What is by level (B, G, R, r, r−1), by parameter, (B, G, R, r, p)."""
        return np.concatenate([by_level, by_level.sum(axis=-1)[..., None] * self.x[:, :, None, :]], axis=-1)

    def curvature_along(self, theta: FloatArray, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From the reports' own curvatures."""
        moved = moved_levels(direction, self.x, self.categories)
        own = self._own(self.levels(theta).cell_curvatures(moved, moved)[:, :, None])
        value, square = np.sum(own[:, :, 0] * self.reports.reshape(own[:, :, 0].shape), axis=(1, 2)), self.moments(own)
        square = square[:, 0, 0]
        return value, np.sqrt(np.maximum(square - value**2, 0.0) / self.n)

    def added_spread(self, theta: FloatArray, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """From the reports' own curvatures."""
        levels, count = self.levels(theta), weights.shape[1]
        scores, along = levels.cell_scores(), self._by_parameter(levels.cell_scores())
        cells = []
        for k in range(count):
            moved = moved_levels(weights[:, k], self.x, self.categories)
            bends = levels.cell_bends(moved)
            one = np.einsum("...cj,...j->...c", scores, moved)
            cells.append(one[..., None] * along - self._by_parameter(bends))
        own = self._own(np.moveaxis(np.concatenate(cells, axis=-1), -1, 2))
        # the second moments of all, of which C sums
        moments = self.moments(own).reshape(len(theta), count, self.parameters, count, -1)
        return np.asarray(np.einsum("bkdle,bde->bkl", moments, noise))

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


@dataclass(frozen=True, eq=False)
class SampleMoments:
    """Of the N distinct reports of a sample: M (N, N), the ``squares`` q (N,) of their weights over the square of all weights.

    ``degrees`` of freedom of M, and ``kish``: the records that would say as much if weights were equal.
    """

    moments: FloatArray
    squares: FloatArray
    degrees: float
    kish: float

    def of(self, counted: FloatArray) -> FloatArray:
        """The second moments, (k, k), of what each report counts, (N, k)."""
        return np.asarray(counted.T @ self.moments @ counted)


@dataclass(frozen=True, eq=False)
class WeightedUnbiasedEquations(UnbiasedEquations):
    """The unbiased score of one sample; ``places`` (N,) of its distinct reports in the tables."""

    sample: SampleMoments
    places: IntArray

    @property
    def degrees(self) -> float:
        """Of freedom of the sample's variances."""
        return self.sample.degrees

    def moments(self, own: FloatArray) -> FloatArray:
        """The sample's, around 0 as without weights."""
        flat = np.moveaxis(own, 2, 1).reshape(own.shape[2], -1)
        mean = flat @ self.reports.ravel()
        return np.asarray((self.sample.of(flat[:, self.places].T) + np.outer(mean, mean))[None])
