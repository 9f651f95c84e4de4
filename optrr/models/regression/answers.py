"""Regressions of a table that is known by its estimate: answers to questions, which are no records.

With π̂ the unbiased estimate of the table of predictors x and outcome c (:mod:`optrr.ways.protocols.answered`), Σ its covariance
at a proper table near it, and

    π_xc = γ_x p_c(x; θ),      γ any law of the predictors, p the chances of the model,

θ and γ minimise (π̂ − π)ᵀ Σ⁻ (π̂ − π): generalised least squares, as efficient as any estimate from π̂ where the answers are many.
Σ⁻ is over the effects that some answer tells about. So a model without interactions needs questions about pairs alone, and what
no question is about is neither asked for nor taken to be 0. For one θ, γ is a linear problem. With R Rᵀ = Σ⁻, e = Rᵀ(π̂ − π) at
the best γ, J = Rᵀ ∂π/∂θ, and M what is left beside all that γ can do, the efficient score and its variance are Jᵀ M e and
Jᵀ M J. At the true θ the mean of the score is 0 whatever γ J is computed at, as in
:mod:`optrr.models.regression.likelihood`, whose search, tests and limits serve here, too; so does its one answer more for each
parameter, which keeps θ finite.

The moments of a linear model are sums of cells, B π̂, with covariance B Σ Bᵀ
(:class:`optrr.models.regression.families.LinearEquations`).

Letters: R cells of the predictors, r outcomes, p parameters, T effects that are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput, TooFewRecords
from optrr.models.regression.building import MOST_TOGETHER, every_combination
from optrr.models.regression.families import Equations, Levels, LinearEquations, product_places
from optrr.models.regression.fitting import Progress, fitted, model
from optrr.models.regression.formulas import Formula, Predictors, check_scores
from optrr.models.regression.likelihood import LikelihoodEquations, without_effects
from optrr.models.regression.result import Fit, Regression
from optrr.show.text import amount
from optrr.tables.estimation.estimator import check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray, IntArray

# Effects with less than this share of the largest variance are those that no answer tells about, whose estimate is a constant.
_UNTOLD = 1e-10
NO_PUBLIC = "answers to questions have no public predictors; name attributes that were asked about"
# Moments that lie outside what is told by more than this share need more than it.
_OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class _AnsweredState:
    """At θ: chances, γ made proper (1, 1, R), what is left of π̂ (T,), and M J (T, p) with γ as it comes out and made proper."""

    levels: Levels
    law: FloatArray
    left: FloatArray
    moved: FloatArray
    proper: FloatArray


@dataclass(frozen=True, eq=False)
class AnsweredEquations(LikelihoodEquations):
    """Of one data set: ``reports`` (1, 1, R, r) are the estimated table, ``root`` (T, R r) is Rᵀ of one record."""

    root: FloatArray | None = None

    method = "generalised least squares"

    def objective(self, theta: FloatArray) -> FloatArray:
        """Minus half of what is minimised, per record, and what keeps θ finite."""
        at = self._state(theta)
        value = np.sum(self._held * np.log(at.levels.p), axis=(1, 2, 3)) - at.left @ at.left / 2
        return np.where(at.levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Its gradient; γ is the best, and adds nothing."""
        at = self._state(theta)
        own = at.levels.cell_scores() @ self.columns
        return np.asarray((at.moved.T @ at.left)[None] + np.einsum("bgrc,bgrcp->bp", self._held, own))

    def profile_curvature(self, theta: FloatArray) -> FloatArray:
        """Gauss and Newton's, which is never negative."""
        at = self._state(theta)
        return np.asarray((at.moved.T @ at.moved)[None] + self._bent(at.levels, self._held))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """The same."""
        return self.profile_curvature(theta)

    def steering(self, theta: FloatArray) -> FloatArray:
        """The same: it costs little."""
        return self.profile_curvature(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Jᵀ M e and Jᵀ M J, per record."""
        at = self._state(theta)
        return (at.proper.T @ at.left)[None], (at.proper.T @ at.proper)[None]

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

    def _solved(self, theta: FloatArray) -> _AnsweredState:
        assert self.root is not None
        levels = self.levels(theta)
        p, cells = levels.p[0, 0], len(levels.p[0, 0])
        root = self.root.reshape(-1, cells, self.categories)
        # of each cell of the predictors, if all people were in it; a law's shares sum to 1, so that the last follows from them
        each = np.einsum("txc,xc->tx", root, p)
        basis, triangle = np.linalg.qr(each[:, :-1] - each[:, -1:])
        target = self.root @ self.shares.ravel() - each[:, -1]
        law = np.linalg.lstsq(triangle, basis.T @ target, rcond=_UNTOLD)[0]
        law = np.append(law, 1 - law.sum())
        proper = (self.n[0] * projection(law) + 1) / (self.n[0] + cells)
        scores = (levels.cell_scores() @ self.columns)[0, 0] * p[..., None]

        def moved(by: FloatArray) -> FloatArray:
            along = np.einsum("txc,xcp->tp", root, by[:, None, None] * scores)
            return np.asarray(along - basis @ (basis.T @ along))

        left = target - basis @ (basis.T @ target)
        return _AnsweredState(levels, proper[None, None], left, moved(law), moved(proper))


def regress_estimated(  # noqa: PLR0913 (each argument is one question a user answers)
    table: CountedTable,
    formula: str,
    *,
    family: str | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Regression:
    """A linear, logistic, ordered or multinomial regression from answers to questions.

    Parameters
    ----------
    table
        estimated from the answers, over the attributes of the formula, the outcome last
        (:meth:`optrr.designs.asking.Asking.counted`, ``partly``).
    formula, family, scores, confidence, progress
        as :func:`optrr.models.regression.regress` takes them; predictors are attributes that were asked about.

    Raises
    ------
    InvalidInput
        as there. TooFewRecords where the answers tell nothing of what the model needs.
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
        raise TooFewRecords(f"no answers tell about {fit.formula}; ask for the pairs of its attributes, or for records")
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
        raise TooFewRecords(f"no answers tell about {fit.formula}; ask for the pairs of its attributes, or for records")
    mean = moments @ table.observed.ravel()
    second = moments @ covariance @ moments.T + np.outer(mean, mean)
    return LinearEquations(mean[None], second[None], np.array([float(table.n)]))
