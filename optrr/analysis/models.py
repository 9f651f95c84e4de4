"""Models of the true records: the methods ``model``, ``regress`` and ``synthesize`` of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optrr.analysis.collapsed import collapse_example
from optrr.analysis.complete_cases import complete_table
from optrr.analysis.estimated import NO_PUBLIC, model_estimated, regress_estimated
from optrr.analysis.loglinear import estimating
from optrr.analysis.loglinear.fitting import parse_terms, split_terms
from optrr.analysis.regression import fitting
from optrr.analysis.regression.formulas import Formula
from optrr.analysis.synthesis import drawing
from optrr.core.domain import NONE, at_random
from optrr.core.errors import InvalidInput
from optrr.core.estimation import counted_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from optrr.analysis.loglinear.estimating import LogLinear
    from optrr.analysis.regression.fitting import Regression
    from optrr.analysis.synthesis.drawing import Synthetic
    from optrr.core.domain import Attribute, GivenSample, Missing, PublicColumns
    from optrr.core.estimation import EstimatedTable
    from optrr.core.reports import Reports


def model(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    terms: str | None = None,
    *,
    attributes: Iterable[str] = (),
    stepwise: int | None = None,
    missing: Missing = "category",
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> LogLinear:
    """Fit a log-linear model of the true table.

    Its coefficients are log odds ratios adjusted for the rest of the model.

    Parameters
    ----------
    terms
        Sets of attributes that interact, such as "a*b + c"; a set includes its subsets.
    attributes
        Attributes of the table; those in ``terms`` unless given.
    stepwise
        In place of ``terms``: search the best model by BIC with sets of up to so many attributes.
    missing
        "category" (a missing value is a category like any other), or "complete-cases", with ``terms`` alone.
    confidence, simultaneous
        Confidence of the intervals, of each coefficient alone or of all together (Bonferroni).

    Returns
    -------
    LogLinear
        Coefficients with intervals, and fit; its ``compare`` tests it against a larger or smaller model.

    Raises
    ------
    InvalidInput
        For a model that is not understood or too large.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.model("sex*income").to_pandas()["parameter"].tolist()
    ['sex = M', 'income = high', 'sex = M : income = high']
    """
    if (terms is None) == (stepwise is None):
        raise InvalidInput(
            "``terms``: a model is given by terms, such as 'a*b + c', or searched with ``stepwise``; give one"
        )
    names = tuple(attributes) or tuple(dict.fromkeys(name for each in split_terms(terms or "") for name in each))
    reports.warn()
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    complete = is_incomplete(reports, names, missing)
    if complete or not reports.of_records:
        if terms is None:
            raise InvalidInput(
                "``stepwise``: not for complete cases and answers to local queries; give terms, such as 'a*b + c'"
            )
        table = estimated_table(reports, names, complete)
        return model_estimated(table, parse_terms(terms, table.domain), **intervals)
    counts = reports.counted(names)
    if stepwise is not None:
        return estimating.stepwise(counts, reports.randomizer, stepwise, **intervals)
    return estimating.fit_loglinear(counts, reports.randomizer, parse_terms(terms or "", counts.domain), **intervals)


def regress(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    formula: str,
    *,
    family: str | None = None,
    public: Iterable[str | Attribute] = (),
    scores: Mapping[str, ArrayLike] | None = None,
    missing: Missing = "category",
    sample: GivenSample = None,
    confidence: float = 0.95,
    progress: Callable[[float], None] | None = None,
) -> Regression:
    """Fit a linear, logistic, ordered or multinomial regression of the true records.

    Parameters
    ----------
    formula
        Outcome and predictors, such as "income ~ sex + C(age)"; "bs(age, df=4)" and "poly(age, 2)" are splines and polynomials
        of an attribute with numbers, and "offset(age)" has the coefficient 1.
    family
        "linear" or "logistic"; by default linear for numbers, logistic for all else. A logistic one of more than two categories
        is that of proportional odds if they are ordered or numbers, and else multinomial.
    public
        Predictors that were not randomized, in columns beside the attributes.
    scores
        By attribute, numbers for its categories; their own unless given.
    missing
        "category" (a missing value is a category like any other), or "complete-cases", without a sample and for randomized
        predictors.
    sample
        How records were sampled (:class:`optrr.Sample`); by default the columns that the design and the release name.
        "ignore" gives every record the same weight and treats it as its own PSU.
    confidence
        Confidence of each coefficient's interval.
    progress
        Function that is called with the proportion of the work that is done.

    Returns
    -------
    Regression
        Coefficients with intervals, and a test of each term; ``compare`` tests it against a nested one.

    Raises
    ------
    InvalidInput
        For a formula that is not understood, and for arguments that exclude each other.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.regress("income ~ sex").to_pandas()["parameter"].tolist()
    ['Intercept', 'sex[T.M]']
    """
    how: dict[str, Any] = {"family": family, "scores": scores, "confidence": confidence, "progress": progress}
    names = Formula.of(formula).names
    columns, lonely_psu = reports.sampled(sample)
    known = [each for each in names if each in reports.asking.domain.names]
    complete = is_incomplete(reports, known, missing, columns)
    reports.warn_unless(columns, sample)
    if complete or not reports.of_records:
        if tuple(public):
            raise InvalidInput(f"``public``: {NO_PUBLIC}")
        return regress_estimated(estimated_table(reports, names, complete, partly=not complete), formula, **how)
    how |= {"weights": columns.weight, "strata": columns.stratum, "clusters": columns.cluster}
    return fitting.regress(reports.place, reports.randomizer, formula, public=public, lonely_psu=lonely_psu, **how)


def synthesize(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    n: int | None = None,
    *,
    attributes: str | Iterable[str] | None = None,
    margins: str | Iterable[str | Sequence[str]] = (),
    sets: int = 1,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Synthetic:
    """Draw synthetic records from a model of the estimated pair tables.

    Parameters
    ----------
    n
        Number of records of each set; as many as there are reports unless given.
    attributes
        Attributes of the records; all of the design's unless given.
    margins
        Regressions and tables of more than two attributes that the records keep in addition to all pairs: ``["income ~
        sex + age", "sex*race*income"]``.
    sets
        Number of data sets. Numbers that are computed from each of several are combined
        (:func:`optrr.analysis.combine`), with valid intervals.
    confidence
        Confidence of the intervals that the records are compared with.
    random_state
        Seed of the draw.

    Returns
    -------
    Synthetic
        The records, and how near their tables are to the estimates.

    Raises
    ------
    InvalidInput
        For one attribute, more than a million records in all, and margins that are not understood or too large.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.synthesize(50, random_state=1).to_pandas().shape
    (50, 2)
    """
    reports.warn()
    how: dict[str, Any] = {"margins": margins, "sets": sets, "n": n}
    how |= {"random_state": random_state, "confidence": confidence}
    return drawing.synthesize(reports.place, reports.randomizer, attributes, **how)


def is_incomplete(reports: Reports, names: Iterable[str], missing: Missing, columns: PublicColumns = NONE) -> bool:
    """Check whether complete cases are requested and differ from all cases.

    Raises InvalidInput if no attribute of the design declares a missing value, for a sample, and for missing at random.
    """
    if at_random(missing) is not None:
        raise InvalidInput("``missing``: tests and models take 'category' or 'complete-cases'; give one of these")
    if missing == "category":
        return False
    domain = reports.asking.domain
    if not any(None in each.codes for each in domain):
        raise InvalidInput(
            "``missing``: no attribute declares a missing value, and all cases are complete; leave ``missing`` out"
        )
    incomplete = any(None in each.codes for each in domain.subset(tuple(names)))
    if incomplete and columns:
        examples = [collapse_example(each, None) for each in domain.subset(tuple(names)) if None in each.codes]
        example = next((f"collapse the missing category, as in {each}, or " for each in examples if each), "")
        raise InvalidInput(
            "``missing``: complete cases are not available in tests and regressions of a weighted or clustered sample; "
            f"{example}read an odds ratio with its interval"
        )
    return incomplete


def estimated_table(reports: Reports, names: Sequence[str], complete: bool, partly: bool = False) -> EstimatedTable:
    """Estimate a table with its covariance, of complete cases or all people."""
    if reports.of_records:
        table = counted_table(reports.counted(names), reports.randomizer)
    else:
        table = reports.asking.counted(reports.alone, names, partly=partly)
    return complete_table(table) if complete else table
