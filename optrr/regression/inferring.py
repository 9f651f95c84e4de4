"""From estimating equations to a result: estimates, errors, tests of every parameter and term, intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan, nan

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from optrr.errors import InvalidInput
from optrr.regression.equations import Equations
from optrr.regression.fieller import fieller_limits
from optrr.regression.formulas import Term
from optrr.regression.linear import LinearEquations
from optrr.regression.logistic import LikelihoodEquations, UnbiasedEquations
from optrr.regression.result import Coefficient, Fit, Regression, TermTest
from optrr.regression.solving import clear, clearance, covariance, searched_limits, solve, test
from optrr_solvers.arrays import FloatArray

# Columns whose curvature is this small a share of the largest, each in its own unit, say the same as others.
_DEPENDENT = 1e-10
# Columns that have at least this share in what determines them are named.
_NAMED = 0.05
# Residuals with less than this share of the outcome's square are rounding: all reports are alike.
_ALIKE = 1e-14
# Where the curvature at the solution of an unbiased score is fewer standard errors above 0 than this, many data sets have no
# solution, and those that have one reject less often: benchmarks/regression_coverage.py.
LEAST_CLEARANCE = 8.0
_MEASURED = (
    "the records say so little that many data sets like these have no solution; p-values of those that have one were measured "
    "to reject a true value 0 to 6 % of the time at level 5 %, and 0 to 0.2 % of the time at level 0.1 %"
)
_TOO_LITTLE = (
    "the records say too little for this model: its equations have no solution; collect more, leave out predictors, or give "
    "the attributes a larger epsilon"
)


def fitted(fit: Fit, equations: Equations, confidence: float) -> Regression:
    """Solve the equations of one data set, and test every parameter and term.

    Raises
    ------
    InvalidInput
        for columns that determine each other, and where there is no solution.
    """
    solved = solve(equations, equations.start())
    _check_independent(equations, fit)
    if not solved.converged[0]:
        raise InvalidInput(_TOO_LITTLE)
    noise = covariance(equations, solved.theta)[0]
    alike = _alike(equations, solved.theta[0], noise)
    noise = np.where(alike | alike[:, None], nan, noise)
    errors, deviate = np.sqrt(np.diag(noise)), float(norm.isf((1 - confidence) / 2))
    tried = [Tried(k, solved.theta[0], float(error)) for k, error in enumerate(errors)]
    rows = [_coefficient(fit, equations, each, deviate) for each in tried]
    likely = isinstance(equations, LikelihoodEquations)
    return Regression(
        fit=fit,
        method=_method(equations),
        n=int(equations.n[0]),
        confidence=confidence,
        coefficients=tuple(rows),
        terms=tuple(_term_tests(fit, equations, solved.theta, alike)),
        covariance=noise,
        log_likelihood=float(equations.n[0] * equations.objective(solved.theta)[0]) if likely else None,
        warnings=(*_unbounded(rows), *_level(equations, solved.theta, rows)),
    )


@dataclass(frozen=True, eq=False)
class Tried:
    """A parameter of one data set: its position, the solution (p,), and its standard error there, NaN where there is none."""

    k: int
    theta: FloatArray
    error: float


def interval(equations: Equations, tried: Tried, deviate: float) -> tuple[float, float]:
    """All values of a parameter that its test does not reject at so many standard normal deviations.

    The whole line where the other parameters are not clear of what randomization may hide.
    """
    others = np.array([i for i in range(tried.theta.size) if i != tried.k], dtype=np.int64)
    if not tried.error > 0 or not clear(equations, tried.theta[None], others)[0]:
        return -inf, inf
    if isinstance(equations, LinearEquations):
        return fieller_limits(equations, tried.k, tried.theta, tried.error, deviate)
    return searched_limits(equations, tried.k, tried.theta, tried.error, deviate)


def _coefficient(fit: Fit, equations: Equations, tried: Tried, deviate: float) -> Coefficient:
    low, high = interval(equations, tried, deviate)
    # that a threshold is 0 is no hypothesis: it says where the scale of the outcome begins
    asked = tried.k >= fit.thresholds and tried.error > 0
    signed = float(test(equations, (tried.k,), np.zeros(1), tried.theta[None]).signed[0]) if asked else nan
    return Coefficient(
        parameter=fit.labels[tried.k],
        estimate=float(tried.theta[tried.k]),
        standard_error=tried.error,
        statistic=signed,
        p_value=float(chi2.sf(signed**2, 1)),
        lower=low,
        upper=high,
    )


def _alike(equations: Equations, theta: FloatArray, noise: FloatArray) -> NDArray[np.bool_]:
    """Parameters (p,) that the reports show no error of, because all that tell about them are alike."""
    variance = np.diag(noise)
    if not isinstance(equations, LinearEquations):
        return np.asarray(~(variance > 0))
    squares = np.abs(np.diag(equations.curvature(theta[None])[0]))
    return np.asarray(~(variance * equations.n[0] * squares > _ALIKE * np.max(theta**2 * squares)))


def _method(equations: Equations) -> str:
    if isinstance(equations, LinearEquations):
        return "least squares from unbiased second moments"
    return "maximum likelihood" if isinstance(equations, LikelihoodEquations) else "unbiased score"


def _check_independent(equations: Equations, fit: Fit) -> None:
    """Refuse columns that others determine: they do so exactly, whatever the noise."""
    block = equations.curvature(equations.start())[0]
    scale = np.sqrt(np.abs(np.diag(block)))
    if not (scale > 0).all():
        column = fit.labels[int(np.argmin(scale))]
        raise InvalidInput(f"the column {column!r} is 0 for everybody; leave it out")
    values, vectors = np.linalg.eigh(block / np.outer(scale, scale))
    least = int(np.argmin(np.abs(values)))
    if abs(values[least]) < _DEPENDENT * np.abs(values).max():
        labels = [label for label, v in zip(fit.labels, vectors[:, least], strict=True) if abs(v) > _NAMED]
        raise InvalidInput(f"the columns {', '.join(labels)} determine each other; leave one out")


def _term_tests(fit: Fit, equations: Equations, theta: FloatArray, alike: NDArray[np.bool_]) -> list[TermTest]:
    """Of every term but the constant; NaN where the reports show no error of it."""
    out = []
    for term in fit.predictors.terms:
        which = columns_of(fit, term)
        if which:
            known = not alike[list(which)].any()
            statistic = float(test(equations, which, np.zeros(len(which)), theta).statistic[0]) if known else nan
            out.append(TermTest(term.name, statistic, len(which), float(chi2.sf(statistic, len(which)))))
    return out


def columns_of(fit: Fit, term: Term) -> tuple[int, ...]:
    """The places of a term's coefficients among the parameters, the constant's left out."""
    return tuple(fit.labels.index(fit.predictors.labels[c]) for c in term.columns if c != fit.predictors.intercept)


def clearance_of_all(equations: Equations, theta: FloatArray) -> FloatArray:
    """The :func:`clearance` of all parameters at a solution θ (B, p), (B,); ∞ where no solution is missed for want of it."""
    if not isinstance(equations, UnbiasedEquations):
        return np.full(len(theta), inf)
    return clearance(equations, theta, np.arange(equations.parameters))


def _level(equations: Equations, theta: FloatArray, rows: list[Coefficient]) -> list[str]:
    """What level the tests were measured to have, where data sets without a solution keep it from being the nominal one.

    A linear model has one nearly always; elsewhere an estimate without bounds is on its way to infinity, where there is none.
    """
    if isinstance(equations, LinearEquations):
        return []
    few = clearance_of_all(equations, theta)[0] < LEAST_CLEARANCE
    return [_MEASURED] if few or _open_ended(rows) else []


def _open_ended(rows: list[Coefficient]) -> list[str]:
    return [r.parameter for r in rows if not (isfinite(r.lower) and isfinite(r.upper))]


def _unbounded(rows: list[Coefficient]) -> list[str]:
    alike = [r.parameter for r in rows if isnan(r.standard_error)]
    said = [
        f"all reports that tell about {', '.join(alike)} are alike, so the data show no standard error; count more records"
    ]
    open_ended = [name for name in _open_ended(rows) if name not in alike]
    why, remedy = "it", ""
    if len(rows) > 1:
        why, remedy = "what the other predictors leave of it", "leave out predictors, "
    cannot = f"{why} cannot be told from noise; collect more, {remedy}or give the attributes a larger epsilon"
    bounds = [f"the records do not bound {', '.join(open_ended)}: {cannot}"]
    return [*(said if alike else ()), *(bounds if open_ended else ())]
