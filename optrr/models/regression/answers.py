"""Regressions of a table that is known by its estimate: answers to questions, which are no records.

With π̂ the unbiased estimate of the table of predictors x and outcome c (:mod:`optrr.ways.protocols.combining`), Σ its
covariance at a proper table near it, and

    π_xc = γ_x p_c(x; θ),      γ any law of the predictors, p the chances of the model,

θ and γ minimise (π̂ − π)ᵀ Σ⁻ (π̂ − π): generalised least squares, as efficient as any estimate from π̂ where the answers are
many. Σ⁻ is over the effects that some answer tells about, so that a model without interactions needs questions about pairs
alone. What no question is about, such as how three predictors go together, γ may have anyhow, and the chances p carry some of
it to pairs. So γ_x = γ⁰_x (1 + u_x), γ⁰ the proper law nearest to what is told, and u has a prior of one answer: ‖u‖² is added
to what is minimised. For one θ, u is a linear problem. With R Rᵀ = Σ⁻, J = Rᵀ ∂π/∂θ, X what u moves, M = (I + X Xᵀ)⁻¹ and d =
Rᵀ(π̂ − π) at γ⁰, the efficient score and its variance are Jᵀ M d and Jᵀ M J. At the true θ the mean of the score is 0 whatever
γ J is computed at, but for what the prior holds back, as in :mod:`optrr.models.regression.likelihood`, whose search, tests and
limits serve here, too; so does its one answer more for each parameter, which keeps θ finite.

The moments of a linear model are sums of cells, B π̂, with covariance B Σ Bᵀ
(:class:`optrr.models.regression.families.LinearEquations`).

Letters: R cells of the predictors, r outcomes, p parameters, T effects that are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput, TooFewRecords
from optrr.models.regression.building import MOST_TOGETHER, every_combination
from optrr.models.regression.families import Equations, Levels, LinearEquations, product_places
from optrr.models.regression.fitting import Progress, Regression, fitted, model
from optrr.models.regression.formulas import Fit, Formula, Predictors, check_scores
from optrr.models.regression.likelihood import LikelihoodEquations, without_effects
from optrr.show.text import amount
from optrr.tables.estimation.estimator import check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray, IntArray

# Effects with less than this share of the largest variance are those that no answer tells about, whose estimate is a constant.
_UNTOLD = 1e-10
NO_PUBLIC = "answers to questions have no public predictors; name attributes that were asked about"
_ASK = "ask for the tables of its terms with the outcome and with each other, or for records"
# Moments that lie outside what is told by more than this share need more than it.
_OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class _AnsweredState:
    """At θ: chances, γ made proper (1, 1, R), what M leaves of π̂ (T,), dᵀ M d, and J and M J (T, p).

    Both with γ as it comes out, which is what is searched by, and with γ made proper, which tests and errors are of.
    """

    levels: Levels
    law: FloatArray
    left: FloatArray
    distance: float
    moved: tuple[FloatArray, FloatArray]
    proper: tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class AnsweredEquations(LikelihoodEquations):
    """Of one data set: ``reports`` (1, 1, R, r) are the estimated table, ``root`` (T, R r) is Rᵀ of one record."""

    root: FloatArray | None = None

    method = "generalised least squares"

    def objective(self, theta: FloatArray) -> FloatArray:
        """Minus half of what is minimised, per record, and what keeps θ finite."""
        at = self._state(theta)
        value = np.sum(self._held * np.log(at.levels.p), axis=(1, 2, 3)) - at.distance / 2
        return np.where(at.levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Its gradient; γ is the best, and adds nothing."""
        at = self._state(theta)
        own = at.levels.cell_scores() @ self.columns
        return np.asarray((at.moved[0].T @ at.left)[None] + np.einsum("bgrc,bgrcp->bp", self._held, own))

    def profile_curvature(self, theta: FloatArray) -> FloatArray:
        """Gauss and Newton's, which is never negative."""
        at = self._state(theta)
        return np.asarray((at.moved[0].T @ at.moved[1])[None] + self._bent(at.levels, self._held))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """The same."""
        return self.profile_curvature(theta)

    def steering(self, theta: FloatArray) -> FloatArray:
        """The same: it costs little."""
        return self.profile_curvature(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Jᵀ M e and Jᵀ M J, per record."""
        at = self._state(theta)
        return (at.proper[0].T @ at.left)[None], (at.proper[0].T @ at.proper[1])[None]

    def complete(self) -> FloatArray:
        """What true records would tell where nothing has an effect, (1, p, p)."""
        at = self._state(self.start())
        return self._bent(at.levels, at.law[..., None] * at.levels.p)

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """None: an estimate has a quasi-likelihood at most."""
        del theta
        return None

    def part(self, which: IntArray) -> AnsweredEquations:
        """There is one data set."""
        del which
        return self

    def _state(self, theta: FloatArray) -> _AnsweredState:
        if not self.last or not np.array_equal(self.last[0][0], theta):
            self.last[:] = [(theta.copy(), self._solved(theta))]  # type: ignore[list-item]  # these equations' own kind
        return self.last[0][1]  # type: ignore[return-value]

    @cached_property
    def _law(self) -> FloatArray:
        """γ⁰, (R,), with one answer more in each cell."""
        margin = self.shares.reshape(len(self.channel), -1).sum(axis=1)
        return np.asarray((self.n[0] * projection(margin) + 1) / (self.n[0] + margin.size))

    def _solved(self, theta: FloatArray) -> _AnsweredState:
        assert self.root is not None
        levels, law = self.levels(theta), self._law
        p = levels.p[0, 0]
        root = self.root.reshape(-1, *p.shape)
        # of each cell of the predictors, if all people were in it
        each = np.einsum("txc,xc->tx", root, p)
        moves = (each - (each @ law)[:, None]) * law
        # one answer's worth of prior, where everything else is of n
        within = moves.T @ moves + np.eye(law.size) / self.n[0]

        def left(of: FloatArray) -> FloatArray:
            return np.asarray(of - moves @ np.linalg.solve(within, moves.T @ of))

        target = self.root @ self.shares.ravel() - each @ law
        change = np.linalg.solve(within, moves.T @ target)
        solved = law * (1 + change - law @ change)
        proper = (self.n[0] * projection(solved) + 1) / (self.n[0] + law.size)
        scores = (levels.cell_scores() @ self.columns)[0, 0] * p[..., None]
        moved = np.einsum("txc,bx,xcp->btp", root, np.stack([solved, proper]), scores)
        halves = [(along, left(along)) for along in moved]
        remains = left(target)
        return _AnsweredState(levels, proper[None, None], remains, float(target @ remains), *halves)


def regress_estimated(  # noqa: PLR0913 (each argument is one question a user answers)
    table: CountedTable,
    formula: str,
    *,
    family: str | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Regression:
    """A linear, logistic, ordered or multinomial regression from answers to questions: :func:`optrr.models.regress` of them.

    The ``table`` is estimated from the answers, over the attributes of the formula, the outcome last
    (:meth:`optrr.designs.design.Asking.counted`, ``partly``); predictors are attributes that were asked about. Raises
    TooFewRecords where the answers tell nothing of what the model needs.
    """
    check_confidence(confidence)
    check_records(table.n)
    read = Formula.of(formula)
    check_scores(scores or {}, read.names)
    fit = model(read, table, family, scores or {})
    if table.n <= len(fit.labels):
        raise TooFewRecords(
            f"{amount(table.n, 'answer')} cannot tell {amount(len(fit.labels), 'parameter')}; collect more"
        )
    return fitted(fit, _equations(fit, table), confidence, progress)


def _equations(fit: Fit, table: CountedTable) -> Equations:
    r = fit.outcome.size
    x = _columns(fit.predictors, table)
    if len(x) ** 2 * r**2 > MOST_TOGETHER:
        raise InvalidInput(
            f"{len(x)} cells of predictors are too many for answers to questions; merge categories, or leave some out"
        )
    covariance = table.sampling.covariance(table.sampling.padded(table.observed.ravel())) * table.n
    n = np.array([float(table.n)])
    if fit.scores is not None:
        return _linear(fit, x, table, covariance)
    kept = [c for c in range(x.shape[1]) if c != fit.predictors.intercept]
    out = AnsweredEquations(
        table.observed.reshape(1, 1, len(x), r),
        x[None][:, :, kept],
        table.kernel,
        n,
        fit.family == "multinomial",
        root=_root(covariance),
    )
    if without_effects(out):
        raise TooFewRecords(f"no answers tell about {fit.formula}; {_ASK}")
    return out


def _columns(predictors: Predictors, table: CountedTable) -> FloatArray:
    """(R, columns), a row for each cell of the predictors."""
    sizes = [int(r) for r in table.domain.sizes[:-1]]
    codes = every_combination(np.zeros((1, 0), dtype=np.int64), sizes)
    if not sizes:
        codes = np.zeros((1, 1), dtype=np.int64)
    names = table.domain.names[:-1] or table.domain.names
    return predictors.at(codes[:, [names.index(name) for name in predictors.domain.names]])


def _root(covariance: FloatArray) -> FloatArray:
    """(T, R r): a root of the inverse over what is told."""
    values, vectors = np.linalg.eigh(covariance)
    told = values > _UNTOLD * values[-1]
    return np.asarray((vectors[:, told] / np.sqrt(values[told])).T)


def _linear(fit: Fit, x: FloatArray, table: CountedTable, covariance: FloatArray) -> LinearEquations:
    assert fit.scores is not None
    r, places = fit.outcome.size, product_places(x.shape[1] + 1)
    z = np.concatenate([np.repeat(x, r, axis=0), np.tile(fit.scores, len(x))[:, None]], axis=1)
    moments = np.empty((int(places.max()) + 1, prod(table.domain.sizes.tolist())))
    for (one, other), place in np.ndenumerate(places):
        moments[place] = z[:, one] * z[:, other]
    values, vectors = np.linalg.eigh(covariance)
    told = vectors[:, values > _UNTOLD * values[-1]]
    centred = moments - moments.mean(axis=1, keepdims=True)
    outside = np.abs(centred - centred @ told @ told.T).max(axis=1)
    if (outside > _OUTSIDE * (1 + np.abs(centred).max(axis=1))).any():
        raise TooFewRecords(f"no answers tell about {fit.formula}; {_ASK}")
    mean = moments @ table.observed.ravel()
    second = moments @ covariance @ moments.T + np.outer(mean, mean)
    return LinearEquations(mean[None], second[None], np.array([float(table.n)]))
