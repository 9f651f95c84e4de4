"""Maximum likelihood of a categorical outcome, for any distribution of its randomized predictors.

A record of group g (alike in all public columns) reports v with the chance

    λ_gv = Σ_x γ_gx K_gx(v),      K_gx(v) = Σ_c p_c(x, g; θ) P[(x, c), v],

x a cell of the randomized predictors, γ_g their law, which is free, p the chances of the model. θ maximises

    ℓ(θ) = max_γ Σ λ̂_gv ln λ_gv + (1/n) Σ_gx ln γ_gx + (p/nR) Σ_gx ŵ_g Σ_c p̂_c ln p_c(x, g),

ŵ the groups' proportions, p̂ the outcome's: one answer more for each cell keeps laws away from 0, and one for each of p
parameters, spread over the cells with the outcome's proportions, keeps θ finite where records have almost no
information on it, such as on a rare category. γ is found by Newton's method, which needs no safeguard near its end
since ℓ is self-concordant in γ; so is θ, with the curvature of the profile.

What these answers pull is not left in tests and errors. With s_v = ∂ln λ_v/∂θ, they are made of the efficient scores

    s*_v = s_v − Σ_x c_x K_x(v)/λ_v,       Σ_v K_x(v) s*_v = 0 for all cells x,

the part of s that no change of γ produces (Bickel, Klaassen, Ritov & Wellner, Efficient and Adaptive Estimation, 1993,
§3). λ is linear in γ, so that the mean of s* is 0 at the true θ for *every* true law of the predictors, whatever law it
was computed at: an imprecise law, or one that is moved to 0 or away from it, makes s* less precise, and nothing else.
Its second moment is the information I* on θ; the part of other parameters' scores that is correlated with the tested
ones is taken off (:mod:`optrr.analysis.equations`), and their bias with it. So a rare category costs only the precision
of its coefficient, and coefficients depend neither on the reference of other terms nor on any other coding of them.

An estimate is where the mean of s* is 0, if that is less than half a standard error from the maximum in every direction, and
the maximum else. Where all predictors are public (Scheers & Dayton, J. Am. Stat. Assoc. 83, 1988, for two categories; `rrreg`
and `RRlog` of R's rr and RRreg) or nothing is randomized, s* = s, and it is the maximum of plain likelihood.

Chances of an outcome with r ordered categories, and their derivatives, are

    Pr(Y ≥ j | x) = S_j = 1/(1 + exp(−(κ_j + xβ))),   j = 1..r−1,   S_0 = 1, S_r = 0;      p_c = S_c − S_{c+1}

(proportional odds: McCullagh, J. R. Stat. Soc. B 42, 1980). For two categories κ_1 is the intercept. θ = (κ, β). Categories
without order have the multinomial logit. Whatever is summed is a sum over levels j, whose derivatives in θ are columns.

Arrays are (B, G, R, …): data sets, groups, cells of the randomized predictors; V reports, p parameters, r categories.
An evaluation takes O(B G R V (R + r)) and holds O(B G R V). Laws of too many cells take too long, and those of groups
with too few records a cell bias the tested coefficients: both are refused, and a linear model, which needs tables of
pairs alone, is advised.

**Weighted, stratified or clustered samples** have the pseudo-likelihood: the weighted shares λ̂ of the reports take the
place of shares in the estimating equations, so that Ψ(θ) = Σ_v λ̂_v ψ_v(θ) is 0 at the solution of the whole
population's equations, up to sampling. Its variance is that of a linear function of the weighted reports, ψᵀ V ψ with V
their linearised covariance (:mod:`optrr.analysis.weighting.linearised`): variation within clusters, the randomization
included, is part of the differences between them. With it in the place of second moments everything else of a
regression stays as it is (:mod:`optrr.analysis.equations`). Its place has the second moment of one of n records, so it
is M = (n − 1) V: with equal weights and each record its own cluster M = diag λ̂ − λ̂ λ̂ᵀ.

Standard errors are H⁻¹ ψᵀMψ H⁻¹/n, the sandwich, times n/(n − p) as other robust ones. In tests and intervals of the
likelihood, whose H is the information I* of the hypothesis, the second moment is the hypothesis's, too, since the sample's own
is too small just where a report happens to be rare: what strata and clusters do to a variance is the sample's, and how often
each report occurs is the hypothesis's, as in the tests of :mod:`optrr.analysis.weighted`. With equal weights and no
clusters this
is I*, so that tests are those without weights.

Tests of k parameters have F = T (ν − k + 1)/(ν k) ~ F(k, ν − k + 1), those of one parameter Student's law, with ν
Satterthwaite's degrees of freedom of V.

Sources: Binder, Int. Stat. Rev. 51 (1983), 279–292; Skinner, Holt and Smith, Analysis of Complex Surveys (1989), ch. 3; Korn
and Graubard, Am. Stat. 44 (1990), 270–276, for F; Lumley, Complex Surveys (2010), ch. 5 and 6.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import expit, softmax

from optrr.analysis.equations import Equations
from optrr.analysis.regression.building import DistinctReports, check_size, columns_of
from optrr.analysis.regression.formulas import Predictors
from optrr.analysis.weighted import expected_squares, independent_records, root, under_hypothesis
from optrr.analysis.weighting.linearised import WeightedReports
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.mechanisms import Kernel, ProductKernel, unrandomized
from optrr_solvers.arrays import FloatArray, IntArray

# Products of a predictors' cell, another and a report that the likelihood may have, for all public groups: an evaluation, of
# which a result takes some hundred, is then some milliseconds. A single law may have more, up to 630 cells with two outcomes,
# for steps with earlier curvatures take few products.
MAX_TOGETHER, _MORE_OF_ONE = 10**7, 50
# Records for each cell of the predictors' laws if there are several public groups, from which a result has no warning, and
# fewer than which are refused: with seventeen, tests of 5 % rejected 4 to 5 %, with seven 6 %, with three up to 8 %.
_MANY_IN_LAWS, MIN_IN_LAWS = 10, 3
_FEW_IN_LAWS = (
    "groups of public values have fewer than 10 records for each cell of the randomized predictors, and p-values of such were "
    "measured to reject up to 8 % of the time at level 5 %; merge public values"
)
# Shares of the outcome that a start is made from are kept this far from 0 and 1.
MARGIN = 0.01
# Smallest probability, so that nothing is divided by 0. Double precision cannot distinguish it from 0.
_LEAST = 1e-300
# Answers added to each cell of a group's law; and for each parameter, with the outcome's proportions, spread over all
# cells.
_OF_LAW, _OF_OUTCOME = 1.0, 1.0
# Newton's method for laws ends after the step that promised less than this per record, which squares what is left; one that
# promises less than the second, in all, raises the likelihood.
_DONE, _NEAR = 1e-13, 0.01
_ROUNDS, _HALVINGS = 200, 40
# Smallest curvature of a profile, relative to the information; a negative one is reversed.
_LEAST_CURVED = 0.01
# Ridges, relative: of the matrix of a law's cells, and of curvatures before their root.
_RIDGE, _ROOT_RIDGE = 1e-12, 1e-9
TINY = 1e-300
# Change of levels up to which steps with the old curvature still reach the solution.
_NEARBY = 0.05
# A step for a law with the curvature of an earlier one leaves some part of its promise: the search ends after one that
# promised less than the first, and has the curvature made anew where one promises more than the second of what the one
# before did.
_OLD_DONE, _SLOW = 1e-19, 0.1
# Rows from which a matrix is multiplied by its own transpose apart from others.
_LARGE = 50
# Steps that remove the prior's pull: the largest first one, as the square of its standard errors; the largest ratio of
# a step to the one before; and their maximum number.
_FARTHEST_PULL, _SHRINKING, _PULLS = 0.25, 0.5, 60
# Information, relative to that of true records, below which it counts as 0.
_HIDDEN = 1e-10
# Largest change of a level in one step.
_LONGEST = 3.0
# No interval's end is looked for where levels would move by more.
_MOST_LEVELS = 60.0


@dataclass(frozen=True, eq=False)
class Levels:
    """Probabilities of ordered categories, ``p`` (B, G, R, r).

    ``slope`` and ``bend`` (B, G, R, r−1) are derivatives of S_j in level j.
    """

    p: FloatArray
    slope: FloatArray
    bend: FloatArray
    ordered: NDArray[np.bool_]

    @staticmethod
    def of(level: FloatArray) -> "Levels":
        """Compute probabilities at levels (B, G, R, r−1).

        ``ordered`` (B,) states whether the levels decrease, as they must.
        """
        over, under = expit(level), expit(-level)
        gaps = -np.diff(level, axis=-1)
        with np.errstate(over="ignore"):
            # S_j − S_{j+1} without cancelling where both are near 1
            middle = over[..., :-1] * under[..., 1:] * -np.expm1(-gaps)
        p = np.concatenate([under[..., :1], middle, over[..., -1:]], axis=-1)
        slope = over * under
        ordered = np.all(gaps > 0, axis=(1, 2, 3))
        return Levels(np.maximum(p, _LEAST), slope, slope * (under - over), ordered)

    def cell_scores(self) -> FloatArray:
        """Compute ∂ln p_c by category and level, (B, G, R, r, r−1)."""
        return np.asarray(self._steps * self.slope[..., None, :] / self.p[..., :, None])

    def curvature(self, weights: FloatArray) -> FloatArray:
        """Compute the negative Hessian of weighted log probabilities by pairs of levels.

        −Σ_c w_c ∂²ln p_c, (B, G, R, r−1, r−1). Weights have shape (B, G, R, r).
        """
        scores = self.cell_scores()
        out = np.swapaxes(scores, -1, -2) @ (weights[..., None] * scores)
        bends = self.bend * ((weights / self.p) @ self._steps)
        return np.asarray(out - bends[..., None] * np.eye(self.slope.shape[-1]))

    @property
    def _steps(self) -> FloatArray:
        """Differences of levels: p_c is level c less level c + 1, shape (r, r−1)."""
        r = self.p.shape[-1]
        return np.eye(r)[:, 1:] - np.eye(r)[:, :-1]


class Choices(Levels):
    """Probabilities of unordered categories: level j is ln p_j/p_0.

    The multinomial logit; ``slope`` and ``bend`` are not used.
    """

    @staticmethod
    def of(level: FloatArray) -> "Choices":
        """Compute probabilities at levels (B, G, R, r−1)."""
        p = softmax(np.concatenate([np.zeros((*level.shape[:-1], 1)), level], axis=-1), axis=-1)
        return Choices(np.maximum(p, _LEAST), level, level, np.ones(len(level), dtype=np.bool_))

    def cell_scores(self) -> FloatArray:
        """Compute ∂ln p_c by category and level, (B, G, R, r, r−1)."""
        return np.asarray(np.eye(self.p.shape[-1])[:, 1:] - self.p[..., None, 1:])

    def curvature(self, weights: FloatArray) -> FloatArray:
        """Compute the negative Hessian of weighted log probabilities by pairs of levels.

        −Σ_c w_c ∂²ln p_c, (B, G, R, r−1, r−1). Weights have shape (B, G, R, r).
        """
        p = self.p[..., 1:]
        bends = p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
        return np.asarray(weights.sum(axis=-1)[..., None, None] * bends)


@dataclass(frozen=True, eq=False)
class State:
    """Quantities at θ.

    Probabilities, their scores (B, G, R, r, p), K, γ, λ, λ̂/λ, its backprojection to each cell; the channel (R r, V).
    """

    shares: FloatArray
    levels: Levels
    scores: FloatArray
    k: FloatArray
    law: FloatArray
    expected: FloatArray
    ratio: FloatArray
    behind: FloatArray
    channel: FloatArray
    curvature: list[FloatArray] = field(default_factory=list)

    @cached_property
    def moved(self) -> FloatArray:
        """Derivatives ∂λ/∂θ, (B, G, V, p)."""
        weighted = (self.law[..., None] * self.levels.p)[..., None] * self.scores
        return np.asarray(self.channel.T @ weighted.reshape(*self.law.shape[:2], len(self.channel), -1))

    @cached_property
    def efficient(self) -> tuple[FloatArray, FloatArray]:
        """The mean of s*, and I*: (B, p) and (B, p, p)."""
        return np.sum(self.shares[..., None] * self.own, axis=(1, 2)), _square(self.own, self.expected[..., None])

    @cached_property
    def own(self) -> FloatArray:
        """s*, (B, G, V, p)."""
        root = np.sqrt(self.expected)[..., None]
        # scaled so that an almost empty cell does not divide by 0
        k, moved = np.sqrt(self.law)[..., None] * self.k / np.swapaxes(root, -1, -2), self.moved / root
        within = _gram(k) + _RIDGE * np.eye(k.shape[2])
        left = moved - np.swapaxes(k, -1, -2) @ np.linalg.solve(within, k @ moved)
        return np.asarray(left / root)

    @cached_property
    def known_laws(self) -> FloatArray:
        """The information if laws were known, (B, p, p): in no direction less than I*."""
        return _square(self.moved, 1 / self.expected[..., None])


@dataclass(frozen=True, eq=False)
class LikelihoodEquations(Equations):
    """Likelihood of B data sets of n (B,) records.

    ``unordered`` outcomes have separate coefficients for each category except the first.

    ``reports`` (B, G, *sizes) are proportions λ̂ of all records by group and report, the outcome's reports last; each
    data set sums to 1. ``x`` (G, R, q) are rows of the design for each group and cell of the randomized predictors,
    without an intercept, and ``kernel`` is of the sizes: of the outcome alone, or of these predictors in the order of
    x's cells, then the outcome. ``offset`` (G, R) is added to every level. ``laws`` are the last found of all the data
    sets that these, ``rows``, are a part of: where the next search begins. ``steep`` is the last divisor of the search
    for a large law, and ``bends`` a curvature with the θ that it is of.
    """

    reports: FloatArray
    x: FloatArray
    kernel: Kernel
    n: FloatArray
    unordered: bool = False
    offset: FloatArray | None = None
    laws: FloatArray | None = None
    rows: IntArray | None = None
    steep: list[FloatArray] = field(default_factory=list)
    bends: list[tuple[FloatArray, FloatArray]] = field(default_factory=list, init=False)
    last: list[tuple[FloatArray, State]] = field(default_factory=list, init=False)

    method = "maximum likelihood"

    @property
    def categories(self) -> int:
        """r."""
        return int(self.reports.shape[-1])

    @property
    def parameters(self) -> int:
        """Names of the parameters, by level and coefficient or category and column."""
        return int(self.columns.shape[-1])

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about groups with few records per cell."""
        groups, cells = self.x.shape[:2]
        few = min(groups, cells) > 1 and self._records < _MANY_IN_LAWS * groups * cells
        return (_FEW_IN_LAWS,) if few else ()

    @property
    def _records(self) -> float:
        """Number of equally weighted records with as much information."""
        return float(self.n.min())

    @cached_property
    def channel(self) -> FloatArray:
        """P, (R, r, V)."""
        return np.asarray(self.kernel.matrix().reshape(self.x.shape[1], self.categories, -1))

    @cached_property
    def shares(self) -> FloatArray:
        """Observed proportions λ̂, (B, G, V)."""
        return np.asarray(self.reports.reshape(*self.reports.shape[:2], -1))

    @cached_property
    def columns(self) -> FloatArray:
        """How each level moves with θ, (G, R, r − 1, p)."""
        levels = self.categories - 1
        each = np.broadcast_to(np.eye(levels), (*self.x.shape[:2], levels, levels))
        if self.unordered:
            rows = np.concatenate([np.ones((*self.x.shape[:2], 1)), self.x], axis=-1)
            return np.asarray((each[..., None] * rows[:, :, None, None]).reshape(*each.shape[:3], -1))
        effects = np.broadcast_to(self.x[:, :, None], (*each.shape[:3], self.x.shape[-1]))
        return np.concatenate([each, effects], axis=-1)

    def near(self, start: FloatArray, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """Move all levels of an ordered outcome together so that they stay ordered."""
        out, levels = super().near(start, which, values), self.categories - 1
        if not self.unordered and len(which) == 1 and which[0] < levels:
            out[:, :levels] = start[:, :levels] + out[:, which] - start[:, which]
        return out

    def shortened(self, step: FloatArray, free: IntArray) -> FloatArray:
        """Limit a step to a few units per level.

        Beyond, probabilities may be so close to 0 or 1 that gradients vanish.
        """
        moved = np.abs(self.columns[..., free].reshape(-1, free.size) @ step[:, :, None])[..., 0].max(axis=1)
        return np.asarray(step * np.minimum(1.0, _LONGEST / np.maximum(moved, TINY))[:, None])

    @property
    def reach(self) -> FloatArray:
        """How far each parameter may move, (p,)."""
        return np.asarray(_MOST_LEVELS / np.maximum(np.abs(self.columns).max(axis=(0, 1, 2)), TINY))

    @cached_property
    def _outcome(self) -> FloatArray:
        """Approximate proportions of the outcome, (B, r), all above 0."""
        r = self.categories
        own = self.channel.reshape(len(self.channel), r, -1, r).sum(axis=2).mean(axis=0)
        seen = self.shares.reshape(len(self.shares), -1, r).sum(axis=1)
        shares = np.maximum(seen @ np.linalg.pinv(own), MARGIN)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @cached_property
    def _held(self) -> FloatArray:
        """Numbers added to the cells' outcomes, (B, G, R, r)."""
        whole = self.shares.sum(axis=2)[:, :, None, None] / self.n[:, None, None, None]
        held = _OF_OUTCOME * self.parameters / len(self.channel) * whole * self._outcome[:, None, None]
        return np.broadcast_to(held, (*self.shares.shape[:2], *self.channel.shape[:2]))

    def start(self) -> FloatArray:
        """Return the levels of the outcome's proportions, without effects."""
        shares, levels = self._outcome, self.categories - 1
        out = np.zeros((len(shares), self.parameters))
        if self.unordered:
            out[:, :: self.parameters // levels] = np.log(shares[:, 1:] / shares[:, :1])
        else:
            above = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1][:, 1:]
            out[:, :levels] = np.log(above / (1 - above))
            out[:, :levels] -= 0.0 if self.offset is None else float(self.offset.mean())
        return out

    def levels(self, theta: FloatArray) -> Levels:
        """Compute the probabilities of all categories at θ."""
        level = np.einsum("grjp,bp->bgrj", self.columns, theta)
        level = level if self.offset is None else level + self.offset[..., None]
        return Choices.of(level) if self.unordered else Levels.of(level)

    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute ℓ in nats per record; −∞ if the levels are not ordered."""
        at = self._at(theta)
        value = np.sum(self.shares * np.log(at.expected), axis=(1, 2))
        value += np.sum(np.log(np.maximum(at.law, TINY)), axis=(1, 2)) * _OF_LAW / self.n
        value += np.sum(self._held * np.log(at.levels.p), axis=(1, 2, 3))
        return np.where(at.levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient of ℓ; γ is the maximizer and contributes nothing."""
        at = self._at(theta)
        weights = at.law[..., None] * at.behind * at.levels.p + self._held
        return np.asarray(np.einsum("bgrc,bgrcp->bp", weights, at.scores))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the curvature of ℓ, made positive definite.

        Far from the maximum it may not be, and Newton steps would lead away.
        """
        curvature, at = self.profile_curvature(theta), self._at(theta)
        turned = ~_curves(curvature, at.known_laws)
        return curvature if not turned.any() else _turned(curvature, at.efficient[1], turned)

    def steering(self, theta: FloatArray) -> FloatArray:
        """Reuse the curvature of a nearby θ, if there is one.

        Solutions of 10^6 records are that near.
        """
        if self.bends and len(self.bends[0][0]) == len(theta):
            moved = self.columns.reshape(-1, self.parameters) @ (theta - self.bends[0][0]).T
            if np.abs(moved).max() <= _NEARBY:
                return self.bends[0][1]
        self.bends[:] = [(theta.copy(), self.curvature(theta))]
        return self.bends[0][1]

    def profile_curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the curvature of ℓ with γ maximized at each θ."""
        at = self._at(theta)
        if at.curvature:
            return at.curvature[0]
        seen, weight = at.behind * at.levels.p, (at.ratio / at.expected)[..., None]
        weights = at.law[..., None] * seen
        out = self._bent(at.levels, weights + self._held)
        # −∂²p/p is −∂²ln p − ∂ln p ∂ln p
        out -= _square(at.scores, weights[..., None])
        out += _square(at.moved, weight)
        cross = at.k @ (weight * at.moved) - np.einsum("bgrc,bgrcp->bgrp", seen, at.scores)
        own, cross = at.law[..., None] * at.k, at.law[..., None] * cross
        within = _gram(own * np.sqrt(np.swapaxes(weight, -1, -2)))
        within += (_OF_LAW / self.n)[:, None, None, None] * np.eye(within.shape[-1])
        at.curvature.append(out - np.sum(np.swapaxes(cross, -1, -2) @ np.linalg.solve(within, cross), axis=1))
        return at.curvature[0]

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the mean of s* and I*."""
        return self._at(theta).efficient

    def settled(self, theta: FloatArray, free: IntArray | None = None) -> FloatArray:
        """Solve for a mean of s* of 0 near the maximum θ."""
        free = np.arange(self.parameters) if free is None else free
        out, before, working = theta.copy(), np.full(len(theta), _FARTHEST_PULL), np.arange(len(theta))
        for _ in range(_PULLS):
            part = self.part(working)
            score, information = part.efficient(out[working])
            score, information = score[:, free], information[:, free[:, None], free]
            scale = np.sqrt(np.maximum(np.diagonal(information, axis1=1, axis2=2), TINY))
            relative = information / scale[:, :, None] / scale[:, None] + _RIDGE * np.eye(scale.shape[1])
            step = np.linalg.solve(relative, (score / scale)[:, :, None])[:, :, 0] / scale
            size = part.n * np.sum(step * score, axis=1)
            moved = out[working]
            moved[:, free] += step
            good = (size <= before[working]) & part.levels(moved).ordered
            out[working] = np.where(good[:, None], moved, theta[working])
            before[working] = size * _SHRINKING**2
            working = working[good & (size > _DONE)]
            if not working.size:
                return out
        out[working] = theta[working]
        return out

    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the efficient information I*."""
        return self.efficient(theta)[1]

    def clear(self, theta: FloatArray, where: IntArray) -> NDArray[np.bool_]:
        """Check that H is finite.

        It has no error, and directions with little information have little weight.
        """
        del where
        return np.asarray(np.isfinite(self.steering(theta)).all(axis=(1, 2)))

    def complete(self) -> FloatArray:
        """Compute the information of true records without effects, (B, p, p)."""
        at = self._at(self.start())
        return self._bent(at.levels, at.law[..., None] * at.levels.p)

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """Compute the log-likelihood of outcomes given predictors, (B,).

        That of all reports, less the maximum of the predictors' reports alone.
        """
        at, r = self._at(theta), self.categories
        seen = self.shares.reshape(*self.shares.shape[:2], -1, r).sum(axis=3)
        alone = self.channel.reshape(len(self.channel), r, -1, r).sum(axis=3)[:, 0]
        k = np.broadcast_to(alone, (*seen.shape[:2], *alone.shape))
        law, expected = self._likeliest(k, at.law, seen, [])
        parts = ((self.shares, at.k, at.law, at.ratio), (seen, k, law, seen / expected))
        whole, others = (np.sum(shares * np.log(_freed(*of)[1]), axis=(1, 2)) for shares, *of in parts)
        return np.asarray(self.n * (whole - others))

    def part(self, which: IntArray) -> "LikelihoodEquations":
        """Select data sets."""
        if len(which) == len(self.reports):
            return self
        laws, rows = self._laws
        return LikelihoodEquations(
            self.reports[which], self.x, self.kernel, self.n[which], self.unordered, self.offset, laws, rows[which]
        )

    @cached_property
    def _laws(self) -> tuple[FloatArray, IntArray]:
        if self.laws is not None and self.rows is not None:
            return self.laws, self.rows
        cells = self.x.shape[1]
        even = np.maximum(self.shares.sum(axis=2, keepdims=True), TINY) / cells
        return np.repeat(even, cells, axis=2), np.arange(len(self.n))

    def _bent(self, levels: Levels, weights: FloatArray) -> FloatArray:
        """Compute the negative Hessian of weighted log probabilities in θ, (B, p, p)."""
        bends = np.einsum("bgrjk,grkq->bgrjq", levels.curvature(weights), self.columns)
        p = self.parameters
        return np.asarray(self.columns.reshape(-1, p).T @ bends.reshape(len(bends), -1, p))

    def _at(self, theta: FloatArray) -> State:
        if not self.last or not np.array_equal(self.last[0][0], theta):
            self.last[:] = [(theta.copy(), self._made(theta))]
        return self.last[0][1]

    def _made(self, theta: FloatArray) -> State:
        levels, (b, g, v) = self.levels(theta), self.shares.shape
        cells = levels.p.shape[2:]
        k = (levels.p[..., None, :] @ self.channel)[..., 0, :]
        laws, rows = self._laws
        law, expected = self._likeliest(k, laws[rows], self.shares, self.steep)
        laws[rows] = law
        ratio = self.shares / expected
        behind = (ratio.reshape(b * g, v) @ self.channel.reshape(-1, v).T).reshape(b, g, *cells)
        scores = levels.cell_scores() @ self.columns
        return State(self.shares, levels, scores, k, law, expected, ratio, behind, self.channel.reshape(-1, v))

    def _likeliest(
        self, k: FloatArray, law: FloatArray, shares: FloatArray, steep: list[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Compute γ and λ at K from an initial distribution."""
        r, v = k.shape[2:]
        shares, prior = shares.reshape(-1, v), np.repeat(_OF_LAW / self.n, k.shape[1])
        # multiplies the sum of a law, so that it is its group's proportion
        total = 1 + prior * r / np.maximum(shares.sum(axis=1), TINY)
        at = _Law(k.reshape(-1, r, v), shares, prior, total, law.reshape(-1, r).copy(), steep)
        working, before = np.arange(len(shares)), np.inf
        for _ in range(_ROUNDS):
            old = bool(steep)
            promise = at.step(working)
            working = working[promise > (_OLD_DONE if old else _DONE)]
            if old and working.size and promise.max() > _SLOW * before:
                steep.clear()
            before = float(promise.max())
            if not working.size:
                break
        out = at.law.reshape(law.shape)
        return out, np.maximum((out[:, :, None] @ k)[:, :, 0], TINY)


def without_effects(equations: LikelihoodEquations) -> bool:
    """Check whether the reports have no information in some direction.

    Only directions about which true records would be informative count.
    """
    first = equations.part(np.zeros(1, dtype=np.int64))
    whole, seen = first.complete()[0], first.efficient(first.start())[1][0]
    # columns that determine each other are refused elsewhere
    values, vectors = np.linalg.eigh(whole)
    kept = vectors[:, values > _HIDDEN * values[-1]] / np.sqrt(values[values > _HIDDEN * values[-1]])
    return bool(np.linalg.eigvalsh(kept.T @ seen @ kept)[0] < _HIDDEN)


@dataclass(frozen=True, eq=False)
class _Law:
    """Distributions (F, r) of all groups of all data sets.

    From reports' proportions (F, V) through K (F, r, V); steps update them.
    """

    k: FloatArray
    shares: FloatArray
    prior: FloatArray
    total: FloatArray
    law: FloatArray
    steep: list[FloatArray]

    def step(self, of: IntArray) -> FloatArray:
        """Take a Newton step for some groups; return the promised gain."""
        x, k, prior = self.law[of], self._through(of), self.prior[of]
        expected = np.maximum((x[:, None] @ k)[:, 0], TINY)
        ratio = self.shares[of] / expected
        gradient = x * ((k @ ratio[..., None])[..., 0] - self.total[of, None]) + prior[:, None]
        way = self._way(of, expected, gradient)
        promise = np.sum(way * gradient, axis=1)
        length = np.minimum(1.0, 0.9 / np.maximum(-way.min(axis=1), TINY))
        far = np.flatnonzero(promise > _NEAR * prior)
        before = self._value(of[far]) if far.size else promise
        self.law[of] = x * (1 + length[:, None] * way)
        if not far.size:
            return np.asarray(promise)
        for _ in range(_HALVINGS):
            worse = ~(self._value(of[far]) > before)
            far, before = far[worse], before[worse]
            if not far.size:
                break
            length[far] /= 2
            self.law[of[far]] = x[far] * (1 + length[far, None] * way[far])
        return np.asarray(promise)

    def _way(self, of: IntArray, expected: FloatArray, gradient: FloatArray) -> FloatArray:
        """Solve the gradient by the curvature, reused for large distributions."""
        if self.steep:
            return np.asarray(cho_solve((self.steep[0], True), gradient[0], check_finite=False)[None])
        own = self.law[of][..., None] * self._through(of)
        hessian = _gram(own * (np.sqrt(self.shares[of]) / expected)[:, None])
        hessian += self.prior[of][:, None, None] * np.eye(hessian.shape[1])
        if len(self.law) == 1 and hessian.shape[1] >= _LARGE:
            self.steep[:] = [np.linalg.cholesky(hessian[0])]
            return self._way(of, expected, gradient)
        return np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0])

    def _through(self, of: IntArray) -> FloatArray:
        """Select K, without a copy if all are selected."""
        return self.k if len(of) == len(self.k) else self.k[of]

    def _value(self, of: IntArray) -> FloatArray:
        x = self.law[of]
        expected = np.maximum((x[:, None] @ self._through(of))[:, 0], TINY)
        logs = np.sum(self.shares[of] * np.log(expected), axis=1)
        logs += self.prior[of] * np.log(np.maximum(x, TINY)).sum(axis=1)
        return np.asarray(logs - self.total[of] * x.sum(axis=1))


def _freed(k: FloatArray, law: FloatArray, ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Take one EM step that removes the prior's answers; return γ and λ."""
    law = law * (k @ ratio[..., None])[..., 0]
    return law, np.maximum((law[:, :, None] @ k)[:, :, 0], TINY)


def _square(of: FloatArray, weights: FloatArray | float = 1.0) -> FloatArray:
    """Sum w a aᵀ over all axes but the first and the last, (B, p, p)."""
    flat, weighted = (a.reshape(len(of), -1, of.shape[-1]) for a in (of, weights * of))
    return np.asarray(np.swapaxes(flat, 1, 2) @ weighted)


def _gram(rows: FloatArray) -> FloatArray:
    """Compute the Gram matrices A Aᵀ, (…, R, R) of (…, R, V).

    Large matrices are processed one at a time, which halves the products.
    """
    if rows.shape[-2] < _LARGE:
        return np.asarray(rows @ np.swapaxes(rows, -1, -2))
    flat = rows.reshape(-1, *rows.shape[-2:])
    return np.stack([each @ each.T for each in flat]).reshape(*rows.shape[:-1], rows.shape[-2])


def _scaled(
    curvature: FloatArray, information: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
    """Compute eigenvalues (B, p) of the curvature relative to the information.

    Also the matrix that transforms back; 1 if values are not finite.
    """
    sound = np.all(np.isfinite(curvature) & np.isfinite(information), axis=(1, 2))[:, None, None]
    each = np.eye(curvature.shape[1])
    bent, known = np.where(sound, curvature, each), np.where(sound, information, each)
    scale = np.sqrt(np.maximum(np.diagonal(known, axis1=1, axis2=2), TINY))
    both = scale[:, :, None] * scale[:, None, :]
    root = np.linalg.cholesky(known / both + _ROOT_RIDGE * each)
    half = np.linalg.solve(root, bent / both)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.swapaxes(half, 1, 2)))
    return values, root @ vectors, both, sound


def _curves(curvature: FloatArray, information: FloatArray) -> NDArray[np.bool_]:
    """Check that a curvature is a large part of the information everywhere, (B,)."""
    values, _, _, sound = _scaled(curvature, information)
    return np.asarray((values[:, 0] >= _LEAST_CURVED) & sound[:, 0, 0])


def _turned(curvature: FloatArray, information: FloatArray, turned: NDArray[np.bool_]) -> FloatArray:
    """Reverse the negative directions of a curvature relative to the information.

    NaN if values are not finite.
    """
    values, back, both, sound = _scaled(curvature, information)
    out = back * np.maximum(np.abs(values), _LEAST_CURVED)[:, None] @ np.swapaxes(back, 1, 2) * both
    return np.where(turned[:, None, None], np.where(sound, out, np.nan), curvature)


@dataclass(frozen=True, eq=False)
class WeightedLikelihoodEquations(LikelihoodEquations):
    """Pseudo-likelihood of one sample.

    ``places`` (N,) are the positions of its distinct reports in the tables.
    """

    sample: WeightedReports = field(kw_only=True)
    places: IntArray = field(kw_only=True)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the sample's variances."""
        return self.sample.degrees

    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the second moment of s* under the hypothesis, (1, p, p).

        I* times the design effect of the sample.
        """
        at = self._at(theta)
        own, information = at.own.reshape(1, -1, self.parameters), at.efficient[1]
        half = root(information, -0.5)
        counted = half @ np.swapaxes(own, 1, 2)
        shares, expected = self.shares.reshape(1, -1), at.expected.reshape(1, -1)
        ratio = under_hypothesis(
            half @ self.sample.second_moments(own[0, self.places])[None] @ half,
            independent_records(counted, self._squares, shares),
            independent_records(counted, expected_squares(self._squares, shares, expected), expected),
        )
        back = root(information, 0.5)
        return np.asarray(back @ ratio @ back)

    def sandwich(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the information I* and the sample's second moment of the scores s*.

        The latter times n/(n − p), as for other robust errors; (1, p, p) each.

        At the law after one step of the EM algorithm from the fitted one: this takes the prior's answers off again, so
        that without randomization errors are the classical ones.
        """
        at = self._at(theta)
        law, expected = _freed(at.k, at.law, at.ratio)
        freed = replace(at, law=law, expected=expected, curvature=[])
        factor = self.n / (self.n - self.parameters)
        spread = self.sample.second_moments(freed.own.reshape(-1, self.parameters)[self.places])
        return freed.efficient[1], np.asarray(factor[:, None, None] * spread)

    def log_likelihood(self, theta: FloatArray) -> None:
        """Return None, because weighted records have no likelihood."""
        del theta

    @property
    def _records(self) -> float:
        return self.sample.kish

    @cached_property
    def _squares(self) -> FloatArray:
        squares = np.bincount(self.places, weights=self.sample.squares, minlength=self.shares.size)
        return np.asarray(squares[None], dtype=np.float64)


def likelihood_equations(
    predictors: Predictors, reports: DistinctReports, outcome: str, unordered: bool
) -> LikelihoodEquations:
    """Build the likelihood of reports.

    Two categories are treated as ordered.

    Raises InvalidInput if the tables do not fit, or laws have too many cells. TooFewRecords for public groups of fewer
    than `MIN_IN_LAWS` records a cell. SingularMarginal if the mechanism hides an effect that the model needs.
    """
    added = predictors.offset_term
    names = {name for term in (*predictors.terms, *([added] if added else [])) for name in term.attributes}
    randomized, public = reports.randomized(names), reports.public(names)
    groups, group = reports.groups(public)
    sizes, r = reports.sizes(randomized), reports.domain[outcome].size
    cells, sample = prod(sizes), reports.sample
    x, offset = _design(predictors, reports, randomized, groups, group)
    check_size(x.size * r * 2, "the table of the outcome and all randomized predictors, times the model's columns,")
    if randomized:
        _check_laws(len(groups), cells, r, float(sample.kish if sample else reports.n.min()))
    own = unrandomized([r], [outcome])
    if reports.randomized([outcome]):
        kernel = reports.mechanism.kernel((*randomized, outcome))
    else:
        kernel = ProductKernel([reports.mechanism.kernel(randomized), own]) if randomized else own
    place = (group * cells + reports.cells(randomized)) * r + reports.cells([outcome])
    each = [np.bincount(place, weights=row, minlength=len(groups) * cells * r) for row in reports.numbers]
    shares = np.stack(each).reshape(-1, len(groups), *sizes, r) / reports.n.reshape(-1, *(1,) * (len(sizes) + 2))
    if sample:
        made: LikelihoodEquations = WeightedLikelihoodEquations(
            shares, x, kernel, reports.n, unordered, offset, sample=sample, places=place
        )
    else:
        made = LikelihoodEquations(shares, x, kernel, reports.n, unordered, offset)
    if not kernel.is_invertible and without_effects(made):
        kernel.check_invertible()
    return made


def _check_laws(groups: int, cells: int, r: int, n: float) -> None:
    """Refuse distributions of predictors that are too large for the records."""
    linear = 'merge categories, leave some out, or fit a linear model, which needs their pairs only (family="linear")'
    if groups * cells**3 * r > MAX_TOGETHER * (_MORE_OF_ONE if groups == 1 else 1):
        raise InvalidInput(f"the randomized predictors have {cells} cells, too many for a likelihood; {linear}")
    if groups > 1 and n < MIN_IN_LAWS * groups * cells:
        raise TooFewRecords(
            f"{groups} groups of public values with {cells} cells of randomized predictors each have fewer than "
            f"{MIN_IN_LAWS} records a cell; {linear}"
        )


def _design(
    predictors: Predictors, reports: DistinctReports, randomized: tuple[str, ...], groups: IntArray, group: IntArray
) -> tuple[FloatArray, FloatArray | None]:
    """Build design rows without the constant, (G, R, q), and the offset, (G, R)."""
    kept = [c for c in range(len(predictors.labels)) if c != predictors.intercept]
    sizes = reports.sizes(randomized)
    x = np.zeros((len(groups), *sizes, len(predictors.labels)))
    # a report of every group, to look up which group of a term it is in
    _, first = np.unique(group, return_index=True)
    for term in predictors.terms:
        columns = columns_of(predictors, reports, term)
        x[..., list(term.columns)] = columns.over(randomized, columns.group[first])
    x = x.reshape(len(groups), -1, len(predictors.labels))[:, :, kept]
    if predictors.offset_term is None:
        return x, None
    columns = columns_of(predictors, reports, predictors.offset_term)
    added = np.broadcast_to(columns.over(randomized, columns.group[first])[..., 0], (len(groups), *sizes))
    return x, added.reshape(len(groups), -1)
