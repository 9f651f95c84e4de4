"""The front door: a formula, randomized records and their mechanism become a fitted regression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

from optrr.domain.domain import Attribute, Domain
from optrr.domain.scores import checked_scores
from optrr.errors import InvalidInput, TooFewRecords
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.regression.building import linear_equations, logistic_equations
from optrr.models.regression.equations import Equations
from optrr.models.regression.formulas import Formula, Predictors, check_scores, numbers_of
from optrr.models.regression.inferring import fitted
from optrr.models.regression.reports import Reports, read_reports
from optrr.models.regression.result import Fit, Regression
from optrr.show.printable import amount
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import check_confidence

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
    confidence: float = 0.95,
) -> Regression:
    """Linear or logistic regression of the true records, from randomized ones.

    Parameters
    ----------
    data
        randomized records, as :func:`optrr.count` takes them, or :class:`Counts` of all attributes of the formula.
    formula
        ``outcome ~ predictors`` as formulaic reads it, such as ``"income ~ sex + C(age)"``. Attributes whose categories are
        all numbers count as numbers, others by treatment coding against the first category. Names that are no Python names
        stand in backticks.
    family
        "linear" (least squares) or "logistic" (the chance of the second of two categories; of ordered ones by proportional
        odds). Unless given: logistic for two categories and for declared orders, linear for numbers.
    public
        attributes of the formula that are columns of the data but were not randomized, by name or declaration.
    scores
        (r,) numbers by attribute, where categories are to count as numbers.

    A linear model needs the tables of every two terms, a logistic one with randomized predictors the table of the outcome and
    all of these. Where the records say too little, what is left out is NaN, and a warning names it: p-values whose law does not
    hold, or all estimates, of which the tests need none.

    Raises
    ------
    InvalidInput
        for a formula that cannot be read, unknown attributes, columns that say the same, or records that say too little.
        SingularMarginal where the mechanism hides a table that the model needs.
    """
    check_confidence(confidence)
    read = Formula.of(formula)
    check_scores(scores or {}, read.names)
    reports = read_reports(data, checked_mechanism(mechanism), read.names, public)
    warn_of_records(reports.pairs(), reports.mechanism)
    return fitted(*modelled(read, reports, family, scores or {}), confidence)


def modelled(
    formula: Formula, reports: Reports, family: str | None, scores: Mapping[str, ArrayLike]
) -> tuple[Fit, Equations]:
    """What is fitted to the reports of one data set, and its equations; see :func:`regress`."""
    fit = model(formula, reports, family, scores)
    if reports.n[0] <= len(fit.labels):
        few, parameters = amount(int(reports.n[0]), "record"), len(fit.labels)
        raise TooFewRecords(f"{few} cannot tell {amount(parameters, 'parameter')}; count at least {parameters + 1}")
    return fit, equations(fit, reports)


def model(formula: Formula, reports: Reports, family: str | None, scores: Mapping[str, ArrayLike]) -> Fit:
    """What a formula says of these attributes; see :func:`regress`."""
    predictors = Predictors.of(formula, _named(reports, formula), scores)
    return _family(formula, family, reports.domain[formula.outcome], predictors, scores)


def equations(fit: Fit, reports: Reports) -> Equations:
    """The estimating equations of every data set among the reports."""
    if fit.scores is None:
        return logistic_equations(fit.predictors, reports, fit.outcome.name)
    return linear_equations(fit.predictors, reports, fit.outcome.name, fit.scores)


def _named(reports: Reports, formula: Formula) -> Domain:
    """The predictors' attributes; for a constant alone the outcome stands in, as a domain is never empty, and is not used."""
    return reports.domain.subset(formula.predictors or (formula.outcome,))


def _family(
    formula: Formula, family: str | None, outcome: Attribute, predictors: Predictors, scores: Mapping[str, ArrayLike]
) -> Fit:
    if family is not None and family not in FAMILIES:
        raise InvalidInput(f"there is no family {family!r}; choose among {', '.join(FAMILIES)}")
    if formula.outcome in formula.predictors:
        raise InvalidInput(f"{formula.outcome!r} stands on both sides of the formula; leave it out of the predictors")
    values = numbers_of(outcome, scores.get(outcome.name))
    plain = outcome.size == 2 and outcome.name not in scores
    chosen = family or ("linear" if values is not None and not plain else "logistic")
    if chosen == "linear":
        if values is None and outcome.size > 2 and not outcome.ordered:
            raise InvalidInput(f"{outcome.name!r} has categories without numbers; give scores for them, a number each")
        return Fit(formula.text, "linear", outcome, predictors, checked_scores(outcome, scores.get(outcome.name)))
    if outcome.size > 2 and not (outcome.ordered or values is not None):
        raise InvalidInput(
            f"{outcome.name!r} has {outcome.size} categories without a declared order; declare it ordered, merge all but two, "
            "or give scores for a linear model"
        )
    if predictors.intercept is None:
        raise InvalidInput(
            f"the formula {formula.text!r} leaves out the constant, and a logistic model needs it; drop 0 or -1"
        )
    return Fit(formula.text, "logistic" if outcome.size == 2 else "ordered", outcome, predictors)
