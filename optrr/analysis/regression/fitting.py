"""Fit of a regression: from a formula, randomized records and their mechanism to its results.

Its result has estimates with errors, tests of every parameter and term, intervals, and predictions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, isinf, isnan, log, nan
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.analysis.equations import Equations, covariance, deviations, estimated, likelihood_ratio, limits, tail, test
from optrr.analysis.nested import Comparison
from optrr.analysis.regression import building
from optrr.analysis.regression.formulas import Fit, Formula, Predictors, Term, check_scores, numbers_of
from optrr.analysis.regression.likelihood import Choices, Levels, likelihood_equations
from optrr.analysis.regression.linear import linear_equations
from optrr.analysis.weighting.linearised import Single
from optrr.core.display import OneTable, Table, TableResult, amount, arrow_rows, category_word, cell, intervals_said
from optrr.core.domain import Attribute, PublicColumns, checked_scores
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import EstimatedTable, check_confidence, warn_of_records
from optrr.core.inference import TestResult
from optrr.core.mechanisms import Randomizer, checked_mechanism
from optrr.core.records import encoded
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Coefficient:
    """A parameter with its standard error, score test of 0 and interval.

    Undefined numbers are NaN or infinite.

    ``score_z`` is the signed root of the test's χ², large where the data ask for more than 0. It is not the estimate over its
    standard error, from which it may differ in sign where the two are near 0.
    """

    parameter: str
    estimate: float
    standard_error: float
    score_z: float
    p_value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class TermTest:
    """Score test that all coefficients of a term are 0; NaN if undefined."""

    term: str
    statistic: float
    df: int
    p_value: float


_NUMBERS = ("estimate", "standard_error", "score_z", "p_value", "lower", "upper")


@dataclass(frozen=True, eq=False, repr=False)
class Regression(TableResult):
    """A regression of the true records, fitted to randomized ones.

    The target is the population.

    ``covariance`` is that of the parameters, (p, p), in the order of ``coefficients``. Standard errors are for orientation:
    tests and intervals are not made from them (:mod:`optrr.analysis.equations`).
    """

    fit: Fit
    method: str
    n: int
    confidence: float
    coefficients: tuple[Coefficient, ...]
    terms: tuple[TermTest, ...]
    covariance: FloatArray
    log_likelihood: float | None
    equations: Equations
    warnings: tuple[str, ...] = ()

    in_summary = ("method", "n", "confidence", "coefficients", "terms", "log_likelihood", "aic", "bic", "warnings")

    @property
    def model(self) -> str:
        """The formula."""
        return self.fit.formula

    @property
    def aic(self) -> float | None:
        """Akaike's criterion, −2 log-likelihood + 2 parameters.

        Smaller is better.
        """
        return None if self.log_likelihood is None else 2 * (len(self.coefficients) - self.log_likelihood)

    @property
    def bic(self) -> float | None:
        """Schwarz's criterion, −2 log-likelihood + parameters · ln n.

        Smaller is better.
        """
        likely = self.log_likelihood
        return None if likely is None else len(self.coefficients) * self.log_records - 2 * likely

    @property
    def log_records(self) -> float:
        """ln n."""
        return log(self.n)

    def compare(self, other: "Regression") -> Comparison:
        """Compare with a nested regression of the same records.

        Either one can be the smaller model.

        Parameters
        ----------
        other
            another fit of the same outcome and family, such as that without a term.

        Returns
        -------
        Comparison
            The score test and, where there is a likelihood, its ratio, AIC and BIC.

        Raises
        ------
        InvalidInput
            where neither model's parameters are among the other's, or for other records or another outcome.
        """
        smaller, larger = sorted((self, other), key=lambda fit: len(fit.coefficients))
        labels, fits = larger.fit.labels, (smaller.fit, larger.fit)
        alike = len({(fit.family, fit.outcome) for fit in fits}) == 1 and smaller.n == larger.n
        added = tuple(k for k, label in enumerate(labels) if label not in smaller.params)
        if not alike or not added or len(added) + len(smaller.params) != len(labels):
            raise InvalidInput(
                f"the regressions {smaller.model} and {larger.model} are not nested: all parameters of one must be among the "
                "other's, of the same outcome, family and records"
            )
        theta, equations = larger.estimates[None], larger.equations
        statistic = float(test(equations, added, np.zeros(len(added)), theta).statistic[0])
        p_value, df = tail(statistic, len(added), equations.degrees), len(added)
        ratio = likelihood_ratio(equations, added, theta)
        likely = None if ratio is None else float(ratio[0])
        ratio_p = None if likely is None else tail(likely, df, inf)
        score = TestResult("models", statistic, df, p_value, larger.n)
        return Comparison(smaller, larger, score, likely, ratio_p)

    @property
    def params(self) -> dict[str, float]:
        """Estimates by parameter."""
        return {c.parameter: c.estimate for c in self.coefficients}

    @property
    def estimates(self) -> FloatArray:
        """Estimated parameters, shape (p,)."""
        return np.array([c.estimate for c in self.coefficients])

    def headline(self) -> str:
        """Summarize the formula, the family and the number of records."""
        return f"{self.fit.formula} ({self.fit.family}), {self.n} records"

    def sentences(self) -> list[str]:
        """Explain intervals, method, tests of terms and likelihood."""
        tests = [f"{t.term}: chi2({t.df}) = {t.statistic:.4f}, p = {t.p_value:.4g}" for t in self.terms]
        likelihood = (
            []
            if self.log_likelihood is None
            else [f"log-likelihood {self.log_likelihood:.2f}, AIC {self.aic:.2f}, BIC {self.bic:.2f}"]
        )
        return [f"{intervals_said(self.confidence)}; {self.method}", *tests, *likelihood]

    def on_page(self, **_beside: Any) -> OneTable:
        """Build the content of the HTML report."""
        lead = (
            f"A {self.fit.family} regression of {cell(self.fit.outcome.name)} among the respondents of {self.n} "
            f"randomized records, by {self.method}. Each interval has {100 * self.confidence:g} % confidence."
        )
        tests = [(t.term, t.statistic, t.df, t.p_value) for t in self.terms]
        terms = Table(
            ["term", "statistic", "degrees of freedom", "p-value"], tests, "Is every coefficient of a term 0?"
        )
        chart = "Coefficients with intervals, as in the table"
        return OneTable(self.fit.formula, lead, "Coefficients", chart, notes=[terms])

    def to_arrow(self) -> "pa.Table":
        """Convert to a table with one row per parameter.

        Columns are parameter, estimate, standard_error, score_z, p_value, lower, upper.
        """
        return arrow_rows(self.coefficients, ("parameter",), _NUMBERS)

    def _axis(self) -> tuple[str, float]:
        return f"coefficient, {intervals_said(self.confidence)}", 0.0

    def summary(self) -> dict[str, Any]:
        """Return the JSON object; None for numbers that are not finite."""
        outcome = self.fit.outcome
        return {
            "formula": self.fit.formula,
            "family": self.fit.family,
            "outcome": outcome.name,
            "event": category_word(outcome.texts[1]) if self.fit.family == "logistic" else None,
            **super().summary(),
        }

    def predict(self, data: Any) -> FloatArray:
        """Predict means (linear) or probabilities.

        Of the second category (logistic) or of all categories (ordered, multinomial).

        Parameters
        ----------
        data
            a frame or file with the predictors' columns, unrandomized: true records.

        Returns
        -------
        (N,), or (N, r) for an ordered or multinomial outcome.

        Raises
        ------
        InvalidInput
            for missing columns and for undeclared values, by their place.
        """
        predictors = self.fit.predictors
        codes = encoded(data, predictors.domain).astype(np.int64)
        x, offset = predictors.at(codes), predictors.offset(codes)
        if self.fit.family == "linear":
            return np.asarray(x @ self.estimates + offset)
        kept, r = [c for c in range(x.shape[1]) if c != predictors.intercept], self.fit.outcome.size
        if self.fit.family == "multinomial":
            level = x[:, self.fit.columns] @ self.estimates.reshape(r - 1, -1).T
            return np.asarray(Choices.of(level[None, None]).p[0, 0])
        level = self.estimates[: r - 1] + (x[:, kept] @ self.estimates[r - 1 :] + offset)[:, None]
        chances = Levels.of(level[None, None]).p[0, 0]
        return np.asarray(chances[:, 1] if self.fit.family == "logistic" else chances)


# Part of the largest curvature, each in its own unit, below which columns are collinear.
_DEPENDENT = 1e-10
# Smallest coefficient in a collinear combination of the columns that the message names.
_NAMED = 0.05
_FEWER = "merge categories, or leave out predictors"
_MORE = "collect more records, merge categories, leave out predictors, or give the attributes a larger epsilon"
Progress = Callable[[float], None]


def fitted(fit: Fit, equations: Equations, confidence: float, progress: Progress | None = None) -> Regression:
    """Solve the equations of one data set, and test every parameter and term.

    ``progress`` is called with the proportion of the work that is done, from 0 to 1.

    Raises InvalidInput for columns that determine each other. TooFewRecords if no solution is reached.
    """
    _check_independent(equations, fit)
    solved = estimated(equations)
    if not solved.converged[0]:
        raise TooFewRecords(
            f"the records have too little information for this model: its equations have no solution; {_MORE}"
        )
    theta, noise = solved.theta, covariance(equations, solved.theta)[0]
    alike = equations.alike(theta[0], noise)
    noise = np.where(alike | alike[:, None], nan, noise)
    deviate = deviations(1 - confidence, equations.degrees)
    rows = []
    for k, error in enumerate(np.sqrt(np.diag(noise))):
        if progress is not None:
            progress((k + 1) / (alike.size + 1))
        # a threshold of 0 is no hypothesis: it only defines the origin of the outcome's scale
        tested = error > 0 and k >= fit.thresholds
        z = float(test(equations, (k,), np.zeros(1), theta).signed[0]) if tested else nan
        p_value = tail(z**2, 1, equations.degrees)
        lower, upper = limits(equations, k, theta[0], float(error), deviate)
        rows.append(Coefficient(fit.labels[k], float(theta[0, k]), float(error), z, p_value, lower, upper))
    likely = equations.log_likelihood(theta)
    weighted = "" if isinf(equations.degrees) else f", weighted; {equations.degrees:.1f} degrees of freedom"
    return Regression(
        fit=fit,
        method=equations.method + weighted,
        n=round(float(equations.n[0])),
        confidence=confidence,
        coefficients=tuple(rows),
        terms=tuple(_term_tests(fit, equations, theta, alike)),
        covariance=noise,
        log_likelihood=None if likely is None else float(likely[0]),
        equations=equations,
        warnings=(*_unbounded(rows), *equations.notes),
    )


def _check_independent(equations: Equations, fit: Fit) -> None:
    """Refuse columns that others determine: they do so exactly, whatever the noise."""
    block = equations.complete()[0]
    scale = np.sqrt(np.abs(np.diag(block)))
    if not (scale > 0).all():
        column = fit.labels[int(np.argmin(scale))]
        raise InvalidInput(f"the column {column!r} is 0 in all records; leave that column out")
    values, vectors = np.linalg.eigh(block / np.outer(scale, scale))
    least = int(np.argmin(np.abs(values)))
    if abs(values[least]) < _DEPENDENT * np.abs(values).max():
        labels = [label for label, v in zip(fit.labels, vectors[:, least], strict=True) if abs(v) > _NAMED]
        raise InvalidInput(f"the columns {', '.join(labels)} are collinear; leave one out")


def _term_tests(fit: Fit, equations: Equations, theta: FloatArray, alike: NDArray[np.bool_]) -> list[TermTest]:
    """Test every term except the constant; NaN if there is no test."""
    out = []
    for term in fit.predictors.terms:
        which, statistic = columns_of(fit, term), nan
        if which:
            if not alike[list(which)].any():
                statistic = float(test(equations, which, np.zeros(len(which)), theta).statistic[0])
            out.append(TermTest(term.name, statistic, len(which), tail(statistic, len(which), equations.degrees)))
    return out


def columns_of(fit: Fit, term: Term) -> tuple[int, ...]:
    """Find the positions of a term's coefficients, without the constant's."""
    return tuple(k for c in term.columns if c != fit.predictors.intercept for k in fit.places(c))


def _unbounded(rows: list[Coefficient]) -> list[str]:
    """Warn of parameters without a standard error or without bounds."""
    alike = [r.parameter for r in rows if isnan(r.standard_error)]
    open_ended = [r for r in rows if r.parameter not in alike and not (isfinite(r.lower) and isfinite(r.upper))]
    # surely not 0 and perhaps infinite
    certain = ", ".join(r.parameter for r in open_ended if r.lower > 0 or r.upper < 0)
    separated = f": all people with some value of {certain} may have the same outcome (separation); {_FEWER}"
    said = []
    if alike:
        said.append(
            f"all reports with information on {', '.join(alike)} are equal, so the data show no standard error; count "
            "more records"
        )
    if open_ended:
        why = separated if certain else f"; {_MORE}"
        said.append(f"the records do not bound {', '.join(r.parameter for r in open_ended)}{why}")
    return said


FamilyName = Literal["linear", "logistic"]
FAMILIES: tuple[str, ...] = get_args(FamilyName)


def regress(  # noqa: PLR0913 (each argument is one question a user answers)
    data: Any,
    mechanism: Randomizer,
    formula: str,
    *,
    family: FamilyName | None = None,
    public: Iterable[str | Attribute] = (),
    scores: Mapping[str, ArrayLike] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    lonely_psu: Single = "refuse",
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Regression:
    """Fit a regression of the true records to randomized ones.

    Parameters
    ----------
    data
        randomized records, as :func:`optrr.count` takes them, or :class:`Counts` of all attributes of the formula.
    formula
        ``outcome ~ predictors`` as formulaic reads it, such as ``"income ~ sex + C(age)"``. Attributes whose categories
        are all numbers count as numbers, others by treatment coding against the first category. Names that are no
        Python names are written in backticks. ``bs(x, df=5)``, ``poly(x, 2)`` and ``offset(x)`` take attributes with
        numbers.
    family
        "linear" (least squares) or "logistic": the probability of the second of two categories; of ordered ones by
        proportional odds, and of others by the multinomial logit against the first. Unless given: linear for numbers,
        logistic for all else.
    public
        attributes of the formula that are columns of the data but were not randomized, by name or declaration.
    scores
        (r,) numbers by attribute, where categories are to count as numbers.
    weights, strata, clusters, lonely_psu
        as :func:`optrr.analysis.estimate_weighted` takes them: the regression of the population that the sample was drawn from
        (:mod:`optrr.analysis.regression.likelihood`).
    progress
        called with the proportion of the work that is done, from 0 to 1.

    A linear model needs the tables of every two terms. Others have the likelihood of the reports, with a free law of
    the randomized predictors in every group with the same values of the public ones: lack of information on one
    coefficient does not affect the others.

    Raises
    ------
    InvalidInput
        for a formula that cannot be read, unknown attributes, collinear columns, too many cells of randomized
        predictors for a likelihood, or records with too little information. SingularMarginal if the mechanism hides
        a table that the model needs.
    """
    check_confidence(confidence)
    read = Formula.of(formula)
    check_scores(scores or {}, read.names)
    columns, asked = PublicColumns(weights, strata, clusters), checked_mechanism(mechanism)
    said: list[str] = []
    if columns:
        counted, reports, said = building.read_sampled(data, asked, read.names, public, columns, lonely_psu)
    else:
        counted = reports = building.read_reports(data, asked, read.names, public)
    warn_of_records(counted.pairs(), counted.mechanism)
    result = fitted(*modelled(read, reports, family, scores or {}), confidence, progress)
    return replace(result, warnings=(*result.warnings, *said))


def modelled(
    formula: Formula, reports: building.DistinctReports, family: str | None, scores: Mapping[str, ArrayLike]
) -> tuple[Fit, Equations]:
    """Build the model and its equations for reports; see :func:`regress`."""
    fit = model(formula, reports, family, scores)
    if reports.n[0] <= len(fit.labels):
        few, parameters = amount(int(reports.n[0]), "record"), len(fit.labels)
        raise TooFewRecords(f"{few} cannot identify {amount(parameters, 'parameter')}; count at least {parameters + 1}")
    return fit, equations(fit, reports)


def model(
    formula: Formula,
    reports: building.DistinctReports | EstimatedTable,
    family: str | None,
    scores: Mapping[str, ArrayLike],
) -> Fit:
    """Bind a formula to the attributes of reports or a table; see :func:`regress`."""
    # for a constant alone the outcome is a placeholder, as a domain is never empty
    named = reports.domain.subset(formula.predictors or (formula.outcome,))
    predictors, outcome = Predictors.of(formula, named, scores), reports.domain[formula.outcome]
    if family is not None and family not in FAMILIES:
        raise InvalidInput(f"``family``: {family!r} is unknown; choose among {', '.join(FAMILIES)}")
    if formula.outcome in formula.predictors:
        raise InvalidInput(f"{formula.outcome!r} is on both sides of the formula; leave it out of the predictors")
    if not predictors.labels:
        raise InvalidInput(
            f"the formula {formula.text!r} has nothing to fit; name a predictor, or leave the constant in"
        )
    values = numbers_of(outcome, scores.get(outcome.name))
    plain = outcome.size == 2 and outcome.name not in scores
    chosen = family or ("linear" if values is not None and not plain else "logistic")
    if chosen == "linear":
        if values is None and outcome.size > 2 and not outcome.ordered:
            raise InvalidInput(f"{outcome.name!r} has categories without numbers; give scores for them, a number each")
        return Fit(formula.text, "linear", outcome, predictors, checked_scores(outcome, scores.get(outcome.name)))
    if predictors.intercept is None:
        raise InvalidInput(
            f"the formula {formula.text!r} leaves out the constant, and a logistic model needs it; drop 0 or -1"
        )
    several = "ordered" if outcome.ordered or values is not None else "multinomial"
    if predictors.offset_term is not None and outcome.size > 2 and several == "multinomial":
        raise InvalidInput(
            f"the formula {formula.text!r} has an offset, and {outcome.name!r} has unordered categories; declare "
            "their order"
        )
    return Fit(formula.text, "logistic" if outcome.size == 2 else several, outcome, predictors)


def equations(fit: Fit, reports: building.DistinctReports) -> Equations:
    """Build the estimating equations of every data set among the reports."""
    if fit.scores is None:
        return likelihood_equations(fit.predictors, reports, fit.outcome.name, fit.family == "multinomial")
    return linear_equations(fit.predictors, reports, fit.outcome.name, fit.scores)
