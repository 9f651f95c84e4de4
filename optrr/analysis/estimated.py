"""Tests and models of a table of unbiased estimates with their covariance, as from answers to local queries.

With π̂ the estimates, Σ(π) their covariance under a table π, π⁰ a consistent fit of the hypothesis, M₀ the derivatives of the
table in the parameters of the hypothesis and M₁ those that the alternative adds, all at π⁰,

    T = ‖P(M₀, M₁) d‖² − ‖P(M₀) d‖²  ~  χ²,  rows of M₁ df,     d = Σ(π⁰)^(−1/2) (π̂ − π⁰),

P the projections onto the images of M under Σ^(−1/2). Where Σ is that of multinomial reports this is the score test of
:mod:`optrr.analysis.loglinear.comparing` (Neyman's C(α)): the part that the fit misses at first order lies in M₀ and
does not count. The fit has the estimates' own margins; Σ is that of the hypothesis, as the level needs it. Levels:
benchmarks/answers.py.

A model is fitted by scoring with Σ at the fit, steps (M₀ᵀ Σ⁻¹ M₀)⁻¹ M₀ᵀ Σ⁻¹ (π̂ − π), until the quasi-score is 0; intervals of
its coefficients invert T with one of them held at a value (:mod:`optrr.analysis.loglinear.estimating`).

A regression has the table of predictors x and outcome c (:mod:`optrr.allocation.combining`), Σ at a proper table near it.
With

    π_xc = γ_x p_c(x; θ),      γ any law of the predictors, p the chances of the model,

θ and γ minimise (π̂ − π)ᵀ Σ⁻ (π̂ − π): generalised least squares, as efficient as any estimate from π̂ where the
answers are many. Σ⁻ is over the effects that some answers have information on, so that a model without interactions
needs queries of pairs alone. Effects that no query covers, such as the joint effect of three predictors, are free in γ,
and the probabilities p carry some of them to pairs. So γ_x = γ⁰_x (1 + u_x), γ⁰ the proper distribution nearest to the
estimates, and u has a prior of one answer: ‖u‖² is added to the objective. For one θ, u is a linear problem. With R Rᵀ
= Σ⁻, J = Rᵀ ∂π/∂θ, X the effect of u, M = (I + X Xᵀ)⁻¹ and d = Rᵀ(π̂ − π) at γ⁰, the efficient score and its variance
are Jᵀ M d and Jᵀ M J. At the true θ the mean of the score is 0 for any γ at which J is computed, but for the pull of
the prior, as in :mod:`optrr.analysis.regression.likelihood`, whose search, tests and limits serve here, too; so does
its one answer more for each parameter, which keeps θ finite.

The moments of a linear model are sums of cells, B π̂, with covariance B Σ Bᵀ
(:class:`optrr.analysis.regression.linear.LinearEquations`).

Letters: R cells of the predictors, r outcomes, p parameters, T effects that are estimated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.analysis.equations import Equations, estimated
from optrr.analysis.loglinear.comparing import STRATIFIED, models_within_strata, product_column
from optrr.analysis.loglinear.estimating import LogLinear, with_intervals
from optrr.analysis.loglinear.fitting import LogLinearEquations, NullModel, Terms, check_size
from optrr.analysis.regression.building import every_combination
from optrr.analysis.regression.fitting import Progress, Regression, fitted, model
from optrr.analysis.regression.formulas import Fit, Formula, Predictors, check_scores
from optrr.analysis.regression.likelihood import MAX_TOGETHER, Levels, LikelihoodEquations, without_effects
from optrr.analysis.regression.linear import LinearEquations, product_places
from optrr.core.display import amount, crossed
from optrr.core.domain import Domain, GivenScores, PairScores, plain_scores, scores_of_pair
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import EstimatedTable, Sampling, check_confidence, check_records, chi2, projection
from optrr.core.inference import TestResult, check_testable, checked_proportions
from optrr.core.mechanisms import unrandomized
from optrr_solvers.arrays import FloatArray, IntArray

TESTS_OF_ANSWERS = ("independence", "trend", "goodness-of-fit", *STRATIFIED)
# p-values were measured to this one, and the law of estimates is normal in its middle only.
MEASURED_DOWN_TO = 1e-3
# Added to correlations, so that what rounding makes of cells that are not known apart has a root.
_RIDGE = 1e-11
# Steps of scoring, the promised nats per report that end it, and a proportion that counts as 0 in logarithms.
_STEPS, _GAIN, _FLOOR = 30, 1e-12, 1e-12


@dataclass(frozen=True, eq=False)
class Whitened:
    """Directions and distances multiplied by Σ^(−1/2) at a table (R,).

    The last cell, which the others determine, is left out.
    """

    sampling: Sampling
    table: FloatArray

    @cached_property
    def _root(self) -> FloatArray:
        """Root of the inverse covariance, shape (R − 1, R − 1)."""
        covariance = self.sampling.covariance(self.table)[:-1, :-1]
        scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
        root = np.linalg.cholesky(covariance / np.outer(scale, scale) + _RIDGE * np.eye(scale.size))
        return np.asarray(np.linalg.inv(root) / scale)

    def of(self, directions: FloatArray) -> FloatArray:
        """Whiten rows (k, R) to columns (R − 1, k)."""
        return np.asarray(self._root @ directions[:, :-1].T)

    def back(self, distance: FloatArray) -> FloatArray:
        """Differentiate half the squared distance (R − 1,) in the table, (R,)."""
        return np.append(self._root.T @ distance, 0.0)

    def along(self, columns: FloatArray, estimate: FloatArray) -> FloatArray:
        """Compute an estimate's distance along the derivatives of columns (p, R).

        Each column is orthogonal to those before it.
        """
        basis, triangle = np.linalg.qr(self.of(self.derivatives(columns)))
        distance = self.of((estimate - self.table)[None])[:, 0]
        return np.asarray(np.sign(np.diag(triangle)) * (basis.T @ distance))

    def derivatives(self, columns: FloatArray) -> FloatArray:
        """Differentiate the table in the coefficients of columns (p, R)."""
        return np.asarray((columns - (columns @ self.table)[:, None]) * self.table)


def null_model(terms: Terms) -> NullModel:
    """Build the model for tables without noise.

    Its fit has the estimates' margins, projected to proportions.
    """
    sizes = [int(r) for r in terms.domain.sizes]
    parts = tuple(unrandomized([sizes[i] for i in chosen]) for chosen in terms.generators)
    return NullModel(terms, unrandomized(sizes), parts)


def fitted_margins(table: EstimatedTable, terms: Terms) -> FloatArray:
    """Fit the model's table (R,) to the estimates' margins."""
    return np.asarray(null_model(terms).fitted(table.n * table.observed[None]).proportions.ravel())


def test_estimated(
    table: EstimatedTable,
    name: str = "independence",
    *,
    scores: GivenScores | None = None,
    proportions: ArrayLike | None = None,
) -> TestResult:
    """Test a hypothesis of an estimated table with known covariance.

    One of `TESTS_OF_ANSWERS`, in O(R³) for R cells.

    The table is of two attributes for "independence" and "trend"; of these and those whose categories are the strata for tests
    within strata; of any for "goodness-of-fit" with ``proportions``. ``scores`` are those of trends, as in :func:`optrr.test`.
    Raises InvalidInput for another test, another number of attributes, or proportions that cannot be; TooFewRecords for fewer
    than 2 answers.
    """
    check_testable(table.n)
    if name not in TESTS_OF_ANSWERS:
        raise InvalidInput(f"estimated tables have no test {name!r}; choose among {', '.join(TESTS_OF_ANSWERS)}")
    if scores is not None and not name.endswith("trend"):
        raise InvalidInput(f"scores are for trends; leave the scores out for {name!r}")
    estimate = table.observed.ravel()
    chosen: PairScores | None = None
    if name == "goodness-of-fit" and proportions is not None:
        fixed = checked_proportions(proportions, table.kernel.sizes).ravel()
        added = np.eye(fixed.size)[:-1]
        along = Whitened(table.sampling, fixed).of((estimate - fixed)[None])[:, 0]
    else:
        smaller, larger = _models(name, table.domain)
        added = Terms(table.domain, tuple(s for s in larger.sets if s not in smaller.sets)).columns()
        if name.endswith("trend"):
            chosen = scores_of_pair(Domain(table.domain.attributes[:2]), scores)
            added = product_column(chosen, table.domain)
        added = added.reshape(len(added), -1)
        old = smaller.columns().reshape(smaller.parameters, -1)
        along = Whitened(table.sampling, fitted_margins(table, smaller)).along(np.concatenate([old, added]), estimate)[
            len(old) :
        ]
    statistic, df = float(np.sum(along**2)), len(added)
    return TestResult(
        test=name,
        statistic=statistic,
        df=df,
        p_value=float(chi2.sf(statistic, df)),
        n=table.n,
        effect=float(along[0]) if df == 1 else None,
        reliable_down_to=MEASURED_DOWN_TO,
        scores=plain_scores(chosen),
    )


test_estimated.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def _models(name: str, domain: Domain) -> tuple[Terms, Terms]:
    """Return the hypothesis and the model it is tested against."""
    if name not in STRATIFIED:
        if domain.m != 2:
            raise InvalidInput(f"{name!r} is of two attributes, not {crossed(domain.names)}; name two")
        return Terms.of(domain, []), Terms.of(domain, [domain.names])
    if domain.m < 3:
        raise InvalidInput(f"{name!r} needs two attributes and at least one that makes strata; name three")
    return models_within_strata(name, domain)


@dataclass(frozen=True, eq=False)
class EstimatedLogLinear(LogLinearEquations):
    """A log-linear model of an estimate ``observed`` (1, R).

    ``sampling`` has its covariance.

    Steps are by the covariance at a consistent ``fit`` (R,), estimates and tests by that at the model's own table.
    """

    sampling: Sampling = field(kw_only=True)
    fit: FloatArray = field(kw_only=True)

    @cached_property
    def _metric(self) -> Whitened:
        return Whitened(self.sampling, self.fit)

    def start(self) -> FloatArray:
        """Return the fitted parameters."""
        design = np.vstack([np.ones(self.columns.shape[1]), self.columns]).T
        return np.asarray(np.linalg.lstsq(design, np.log(np.maximum(self.fit, _FLOOR)), rcond=None)[0][None, 1:])

    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute minus half the squared distance, per report."""
        distance = self._metric.of(self.observed - self.proportions(theta))
        return np.asarray(-np.sum(distance**2, axis=0) / 2 / self.n)

    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient of the objective."""
        return self._scored(theta, self._metric)[0]

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the Hessian for Newton's method."""
        at, metric = self.at(theta), self._metric
        pulled = metric.back(metric.of(self.observed - at.proportions)[:, 0])
        moved = at.proportions[0] * (pulled - pulled @ at.proportions[0])
        bent = (at.centred * moved) @ np.swapaxes(at.centred, 1, 2)
        return np.asarray(self._scored(theta, metric)[1] - bent / self.n)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the quasi-score and its information, with the covariance at θ."""
        return self._scored(theta, Whitened(self.sampling, self.proportions(theta)[0]))

    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the information."""
        return self.efficient(theta)[1]

    def settled(self, theta: FloatArray, free: IntArray | None = None) -> FloatArray:
        """Solve for a quasi-score of 0."""
        del free
        for _ in range(_STEPS):
            score, information = self.efficient(theta)
            step = np.linalg.lstsq(information[0], score[0], rcond=None)[0]
            theta = theta + self.shortened(step[None], np.arange(step.size))
            if float(score[0] @ step) <= 2 * _GAIN:
                break
        return theta

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """Return None, because an estimate has at most a quasi-likelihood."""
        del theta
        return None

    def part(self, which: IntArray) -> "EstimatedLogLinear":
        """Return this object, as there is one data set."""
        del which
        return self

    def _scored(self, theta: FloatArray, metric: Whitened) -> tuple[FloatArray, FloatArray]:
        white = metric.of(self.at(theta).derivative[0])
        distance = metric.of(self.observed - self.proportions(theta))
        return (white.T @ distance).T / self.n, (white.T @ white)[None] / self.n


def model_estimated(
    table: EstimatedTable, terms: Terms, confidence: float = 0.95, simultaneous: bool = False
) -> LogLinear:
    """Fit a hierarchical log-linear model to an estimated table.

    Raises InvalidInput for fewer than two reports or too many parameters.
    """
    check_confidence(confidence)
    check_records(table.n)
    check_size(terms)
    equations = EstimatedLogLinear(
        table.observed.reshape(1, -1),
        np.array([float(table.n)]),
        terms.flat_columns(),
        table.kernel,
        sampling=table.sampling,
        fit=fitted_margins(table, terms),
    )
    none = np.full((terms.parameters, 2), np.nan)
    return with_intervals(
        LogLinear(table, terms, equations, estimated(equations), none, confidence=confidence, simultaneous=simultaneous)
    )


# Part of the largest variance below which no answer has information on an effect, whose estimate is a constant.
_UNTOLD = 1e-10
NO_PUBLIC = "answers to local queries and complete cases have no public predictors; name attributes of the design"
_ASK = "collect the tables of its terms with the outcome and with each other, or records"
# Relative part of a moment outside the estimated effects above which a model needs more than these.
_OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class _AnsweredState:
    """Quantities at θ.

    Probabilities, γ projected to proportions (1, 1, R), the residual of π̂ after M (T,), dᵀ M d, and J and M J (T, p).

    Both with γ as it comes out, which the search uses, and with γ made proper, which tests and errors use.
    """

    levels: Levels
    law: FloatArray
    left: FloatArray
    distance: float
    moved: tuple[FloatArray, FloatArray]
    proper: tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class AnsweredEquations(LikelihoodEquations):
    """Equations of one data set of answers.

    ``reports`` (1, 1, R, r) are the estimated table, ``root`` (T, R r) is Rᵀ of one record.
    """

    root: FloatArray | None = None

    method = "generalised least squares"

    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute minus half the minimized distance per record, with a penalty on θ."""
        at = self._state(theta)
        value = np.sum(self._held * np.log(at.levels.p), axis=(1, 2, 3)) - at.distance / 2
        return np.where(at.levels.ordered, value, -np.inf)

    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient; γ is optimal and contributes nothing."""
        at = self._state(theta)
        own = at.levels.cell_scores() @ self.columns
        return np.asarray((at.moved[0].T @ at.left)[None] + np.einsum("bgrc,bgrcp->bp", self._held, own))

    def profile_curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the Gauss-Newton matrix, which is positive semidefinite."""
        at = self._state(theta)
        return np.asarray((at.moved[0].T @ at.moved[1])[None] + self._bent(at.levels, self._held))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the Gauss-Newton matrix."""
        return self.profile_curvature(theta)

    def steering(self, theta: FloatArray) -> FloatArray:
        """Compute the Gauss-Newton matrix, which is cheap."""
        return self.profile_curvature(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute Jᵀ M e and Jᵀ M J, per record."""
        at = self._state(theta)
        return (at.proper[0].T @ at.left)[None], (at.proper[0].T @ at.proper[1])[None]

    def complete(self) -> FloatArray:
        """Compute the information of true records without effects, (1, p, p)."""
        at = self._state(self.start())
        return self._bent(at.levels, at.law[..., None] * at.levels.p)

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """Return None, because an estimate has at most a quasi-likelihood."""
        del theta
        return None

    def part(self, which: IntArray) -> "AnsweredEquations":
        """Return this object, as there is one data set."""
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
    table: EstimatedTable,
    formula: str,
    *,
    family: str | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Regression:
    """Fit a linear, logistic, ordered or multinomial regression to answers.

    See :func:`optrr.analysis.regress`.

    The ``table`` is estimated from the answers, over the attributes of the formula, the outcome last
    (:meth:`optrr.core.design.designs.Asking.counted`, ``partly``); predictors are randomized attributes. Raises
    TooFewRecords if the answers contain no information on effects that the model needs.
    """
    check_confidence(confidence)
    check_records(table.n)
    read = Formula.of(formula)
    check_scores(scores or {}, read.names)
    fit = model(read, table, family, scores or {})
    if table.n <= len(fit.labels):
        raise TooFewRecords(
            f"{amount(table.n, 'answer')} cannot identify {amount(len(fit.labels), 'parameter')}; collect more"
        )
    return fitted(fit, _equations(fit, table), confidence, progress)


def _equations(fit: Fit, table: EstimatedTable) -> Equations:
    r = fit.outcome.size
    x, offset = _columns(fit.predictors, table)
    if len(x) ** 2 * r**2 > MAX_TOGETHER:
        raise InvalidInput(
            f"{len(x)} cells of predictors are too many for answers to local queries; merge categories, or leave some "
            "out"
        )
    covariance = table.sampling.covariance(table.sampling.padded(table.observed.ravel())) * table.n
    n = np.array([float(table.n)])
    if fit.scores is not None:
        return _linear(fit, x, offset, table, covariance)
    kept = [c for c in range(x.shape[1]) if c != fit.predictors.intercept]
    out = AnsweredEquations(
        table.observed.reshape(1, 1, len(x), r),
        x[None][:, :, kept],
        table.kernel,
        n,
        fit.family == "multinomial",
        offset[None],
        root=_root(covariance),
    )
    if without_effects(out):
        raise TooFewRecords(f"no answers have information on {fit.formula}; {_ASK}")
    return out


def _columns(predictors: Predictors, table: EstimatedTable) -> tuple[FloatArray, FloatArray]:
    """Build rows (R, columns) for each cell of the predictors, and the offset (R,)."""
    sizes = [int(r) for r in table.domain.sizes[:-1]]
    codes = every_combination(np.zeros((1, 0), dtype=np.int64), sizes)
    if not sizes:
        codes = np.zeros((1, 1), dtype=np.int64)
    names = table.domain.names[:-1] or table.domain.names
    codes = codes[:, [names.index(name) for name in predictors.domain.names]]
    return predictors.at(codes), predictors.offset(codes)


def _root(covariance: FloatArray) -> FloatArray:
    """Compute a root (T, R r) of the inverse covariance on its range."""
    values, vectors = np.linalg.eigh(covariance)
    told = values > _UNTOLD * values[-1]
    return np.asarray((vectors[:, told] / np.sqrt(values[told])).T)


def _linear(
    fit: Fit, x: FloatArray, offset: FloatArray, table: EstimatedTable, covariance: FloatArray
) -> LinearEquations:
    assert fit.scores is not None
    r, places = fit.outcome.size, product_places(x.shape[1] + 1)
    outcome = np.tile(fit.scores, len(x)) - np.repeat(offset, r)
    z = np.concatenate([np.repeat(x, r, axis=0), outcome[:, None]], axis=1)
    moments = np.empty((int(places.max()) + 1, prod(table.domain.sizes.tolist())))
    for (one, other), place in np.ndenumerate(places):
        moments[place] = z[:, one] * z[:, other]
    values, vectors = np.linalg.eigh(covariance)
    told = vectors[:, values > _UNTOLD * values[-1]]
    centred = moments - moments.mean(axis=1, keepdims=True)
    outside = np.abs(centred - centred @ told @ told.T).max(axis=1)
    if (outside > _OUTSIDE * (1 + np.abs(centred).max(axis=1))).any():
        raise TooFewRecords(f"no answers have information on {fit.formula}; {_ASK}")
    mean = moments @ table.observed.ravel()
    second = moments @ covariance @ moments.T + np.outer(mean, mean)
    return LinearEquations(mean[None], second[None], np.array([float(table.n)]))
