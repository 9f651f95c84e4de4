"""Tests and log-linear models of a table that is known by unbiased estimates and their covariance: answers to questions.

With π̂ the estimates, Σ(π) their covariance under a table π, π⁰ a consistent fit of the hypothesis, M₀ the derivatives of the
table in the parameters of the hypothesis and M₁ those that the alternative adds, all at π⁰,

    T = ‖P(M₀, M₁) d‖² − ‖P(M₀) d‖²  ~  χ²,  rows of M₁ df,     d = Σ(π⁰)^(−1/2) (π̂ − π⁰),

P the projections onto what Σ^(−1/2) makes of M. Where Σ is that of multinomial reports this is the score test of
:mod:`optrr.models.loglinear.comparing` (Neyman's C(α)): what the fit misses at first order lies in M₀ and does not count.
The fit has the estimates' own margins; Σ is that of the hypothesis, as the level needs it. Levels: benchmarks/answers.py.

A model is fitted by scoring with Σ at the fit, steps (M₀ᵀ Σ⁻¹ M₀)⁻¹ M₀ᵀ Σ⁻¹ (π̂ − π), until the quasi-score is 0; intervals of
its coefficients invert T with one of them held at a value (:mod:`optrr.models.loglinear.estimating`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.domain import Domain, GivenScores, PairScores, plain_scores, scores_of_pair
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import unrandomized
from optrr.models.loglinear.comparing import STRATIFIED, models_within_strata, product_column
from optrr.models.loglinear.estimating import LogLinear, PinnedModel, with_intervals
from optrr.models.loglinear.fitting import FittedLogLinear, NullModel, TableFits, Terms, check_size
from optrr.models.tests.homogeneity import checked_hypothesis
from optrr.models.tests.result import TestResult, check_testable
from optrr.show.text import crossed
from optrr.tables.distributions import chi2
from optrr.tables.estimation.estimator import check_confidence, check_records
from optrr.tables.estimation.impossible import CountedTable
from optrr.tables.estimation.intervals import Sampling
from optrr_solvers.arrays import FloatArray

TESTS_OF_ANSWERS = ("independence", "trend", "goodness-of-fit", *STRATIFIED)
# p-values were measured to this one, and the law of estimates is normal in its middle only.
MEASURED_DOWN_TO = 1e-3
# Added to correlations, so that what rounding makes of cells that are not known apart has a root.
_RIDGE = 1e-11
# Steps of scoring, the promised nats per report that end it, the longest exponent, and a share that counts as 0 in logarithms.
_STEPS, _GAIN, _LONGEST, _FLOOR = 30, 1e-12, 2.0, 1e-12
# Where a cell goes to 0 a standard error is of no use; steps of this size do not miss a limit.
_LARGEST_ERROR = 1.0


@dataclass(frozen=True, eq=False)
class Whitened:
    """What Σ^(−1/2) makes of directions and distances at a table (R,); the last cell, which the others tell, is left out."""

    sampling: Sampling
    table: FloatArray

    @cached_property
    def _root(self) -> FloatArray:
        """(R − 1, R − 1)."""
        covariance = self.sampling.covariance(self.table)[:-1, :-1]
        scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
        root = np.linalg.cholesky(covariance / np.outer(scale, scale) + _RIDGE * np.eye(scale.size))
        return np.asarray(np.linalg.inv(root) / scale)

    def of(self, directions: FloatArray) -> FloatArray:
        """Of rows (k, R), as columns (R − 1, k)."""
        return np.asarray(self._root @ directions[:, :-1].T)

    def along(self, columns: FloatArray, estimate: FloatArray) -> FloatArray:
        """The distance of an estimate along the derivatives in coefficients of columns (p, R), each without those before."""
        basis, triangle = np.linalg.qr(self.of(self.derivatives(columns)))
        distance = self.of((estimate - self.table)[None])[:, 0]
        return np.asarray(np.sign(np.diag(triangle)) * (basis.T @ distance))

    def derivatives(self, columns: FloatArray) -> FloatArray:
        """Of the table in the coefficients of columns (p, R)."""
        return np.asarray((columns - (columns @ self.table)[:, None]) * self.table)


def null_model(terms: Terms) -> NullModel:
    """The model for tables without noise: its fit has the estimates' own margins, made proportions."""
    sizes = [int(r) for r in terms.domain.sizes]
    parts = tuple(unrandomized([sizes[i] for i in chosen]) for chosen in terms.generators)
    return NullModel(terms, unrandomized(sizes), parts)


def fitted_margins(table: CountedTable, terms: Terms) -> FloatArray:
    """The model's table (R,) with the estimates' margins."""
    return np.asarray(null_model(terms).fitted(table.n * table.observed[None]).proportions.ravel())


def test_estimated(
    table: CountedTable,
    name: str = "independence",
    *,
    scores: GivenScores | None = None,
    proportions: ArrayLike | None = None,
) -> TestResult:
    """Test a hypothesis of a table that is known by its estimate: one of `TESTS_OF_ANSWERS`, in O(R³) for R cells.

    The table is of two attributes for "independence" and "trend"; of these and those whose categories are the strata for tests
    within strata; of any for "goodness-of-fit" with ``proportions``. ``scores`` are those of trends, as in :func:`optrr.test`.
    Raises InvalidInput for another test, another number of attributes, or proportions that cannot be; TooFewRecords for fewer
    than 2 answers.
    """
    check_testable(table.n)
    if name not in TESTS_OF_ANSWERS:
        raise InvalidInput(f"answers to questions have no test {name!r}; choose among {', '.join(TESTS_OF_ANSWERS)}")
    if scores is not None and not name.endswith("trend"):
        raise InvalidInput(f"scores are for trends; leave them out for {name!r}")
    estimate = table.observed.ravel()
    chosen: PairScores | None = None
    if name == "goodness-of-fit" and proportions is not None:
        fixed = checked_hypothesis(proportions, table.kernel.sizes).ravel()
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
    """The hypothesis, and the model that it is tested against."""
    if name not in STRATIFIED:
        if domain.m != 2:
            raise InvalidInput(f"{name!r} is of two attributes, not {crossed(domain.names)}; name two")
        return Terms.of(domain, []), Terms.of(domain, [domain.names])
    if domain.m < 3:
        raise InvalidInput(f"{name!r} needs two attributes and at least one that makes strata; name three")
    return models_within_strata(name, domain)


@dataclass(frozen=True, eq=False)
class FittedEstimates(FittedLogLinear):
    """A model fitted to estimates of ``n`` reports in the metric of their covariance at the fit."""

    sampling: Sampling

    @cached_property
    def information(self) -> FloatArray:
        """Of one report on β, (p, p)."""
        white = Whitened(self.sampling, self.proportions.ravel()).of(self.derivative)
        return np.asarray(white.T @ white) / self.sampling.n

    def log_likelihood(self, observed: FloatArray) -> float:
        """Of estimates that are normal, less that of a table that they fit, in nats per report."""
        distance = (observed - self.proportions).reshape(1, -1)
        square = np.sum(Whitened(self.sampling, self.proportions.ravel()).of(distance) ** 2)
        return 0.0 - float(square) / 2 / self.sampling.n


@dataclass(frozen=True, eq=False)
class PinnedEstimates(PinnedModel):
    """A model one of whose coefficients is held at a value, for estimates that vary as ``sampling`` says."""

    sampling: Sampling

    def at(self, values: FloatArray, tables: FloatArray, fits: TableFits) -> TableFits:
        """The fit with the coefficient at each value, in the metric of the estimates' covariance."""
        start = self._moved(values, fits).reshape(len(values), -1)
        if self.columns.any():
            columns = self.columns.reshape(len(self.columns), -1)
            start = np.stack([likeliest(self.sampling, _shares(tables), each, columns)[0] for each in start])
        moved = start.reshape(len(values), *self.kernel.sizes)
        return TableFits(moved, moved, fits.proper)

    def deviations(self, values: FloatArray, tables: FloatArray, fits: TableFits) -> FloatArray:
        """How many standard deviations the quasi-score for the coefficient lies above 0 at each of the values, (B,)."""
        pinned = self.at(values, tables, fits).proportions.reshape(len(values), -1)
        return np.array([Whitened(self.sampling, fit).along(self._all, _shares(tables))[-1] for fit in pinned])

    def error(self, tables: FloatArray, fits: TableFits) -> float:
        """Standard error of the coefficient at the fit of the first table."""
        at = Whitened(self.sampling, fits.proportions[0].ravel())
        _, triangle = np.linalg.qr(at.of(at.derivatives(self._all)))
        return min(1 / max(abs(float(triangle[-1, -1])), float(np.finfo(np.float64).tiny)), _LARGEST_ERROR)

    @cached_property
    def _all(self) -> FloatArray:
        """Every column, the pinned one last, (p, R)."""
        both = [self.columns, self.column] if self.columns.any() else [self.column]
        return np.concatenate(both).reshape(-1, self.kernel.cells)


def _shares(tables: FloatArray) -> FloatArray:
    """(R,) of the first of tables (1, *sizes)."""
    return np.asarray(tables[0].ravel() / tables[0].sum())


def model_estimated(
    table: CountedTable, terms: Terms, confidence: float = 0.95, simultaneous: bool = False
) -> LogLinear:
    """A hierarchical log-linear model of a table that is known by its estimate.

    ``log_likelihood`` is that of normal estimates, less that of a model that fits them.

    Raises InvalidInput for fewer than two reports or too many parameters.
    """
    check_confidence(confidence)
    check_records(table.n)
    check_size(terms)
    columns = terms.columns().reshape(terms.parameters, -1)
    fit, gain, steps = likeliest(table.sampling, table.observed.ravel(), fitted_margins(table, terms), columns)
    design = np.vstack([np.ones(columns.shape[1]), columns]).T
    beta = np.asarray(np.linalg.lstsq(design, np.log(fit), rcond=None)[0][1:])
    shaped = fit.reshape(table.kernel.sizes)
    fitted = FittedEstimates(terms, table.kernel, beta, shaped, shaped, gain, steps, table.sampling)
    none = np.full((terms.parameters, 2), np.nan)
    out = LogLinear(table, fitted, none, confidence, simultaneous)

    def pinned(model: NullModel, k: int) -> PinnedModel:
        return PinnedEstimates(model.terms, model.kernel, model.parts, k, table.sampling)

    return with_intervals(out, null_model(terms), table.n * table.observed, pinned, 0.0)


def likeliest(
    sampling: Sampling, estimate: FloatArray, fit: FloatArray, columns: FloatArray
) -> tuple[FloatArray, float, int]:
    """Scoring from a fit (R,) along columns (p, R): the table, what another step promises in nats per report, and how many."""
    gain, steps = np.inf, 0
    while steps < _STEPS and gain > _GAIN:
        steps += 1
        at = Whitened(sampling, fit)
        basis = at.of(at.derivatives(columns))
        change = np.linalg.lstsq(basis, at.of((estimate - fit)[None])[:, 0], rcond=None)[0]
        gain = float(np.sum((basis @ change) ** 2)) / 2 / sampling.n
        exponent = change @ columns
        exponent -= exponent @ fit
        fit = fit * np.exp(exponent * min(1.0, _LONGEST / max(float(np.abs(exponent).max()), _LONGEST)))
        fit = np.maximum(fit / fit.sum(), _FLOOR / fit.size)
        fit = fit / fit.sum()
    return fit, gain, steps
