"""Models of the true records: the methods ``model``, ``regress`` and ``synthesize`` of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optrr.analysis.complete_cases import complete_table
from optrr.analysis.estimated import NO_PUBLIC, model_estimated, regress_estimated
from optrr.analysis.loglinear import estimating
from optrr.analysis.loglinear.fitting import parse_terms, split_terms
from optrr.analysis.regression import fitting
from optrr.analysis.regression.formulas import Formula
from optrr.analysis.synthesis import drawing
from optrr.core.domain import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.estimation import counted_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from optrr.analysis.loglinear.estimating import LogLinear
    from optrr.analysis.regression.fitting import Regression
    from optrr.analysis.synthesis.drawing import Synthetic
    from optrr.analysis.weighting.linearised import Single
    from optrr.core.domain import Attribute
    from optrr.core.estimation import EstimatedTable
    from optrr.core.reports import Reports


def model(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    terms: str | None = None,
    *,
    attributes: Iterable[str] = (),
    stepwise: int | None = None,
    complete_cases: bool = False,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> LogLinear:
    """Fit a log-linear model of the true table: odds ratios with everything else in the model.

    Parameters
    ----------
    terms
        which attributes interact, such as "a*b + c"; a set includes its subsets.
    attributes
        of the table; by default those in ``terms``.
    stepwise
        in place of ``terms``: the best model by BIC of interactions up to this order.
    complete_cases
        leave out people with a missing value, as in ``test``; with ``terms`` alone.
    """
    if (terms is None) == (stepwise is None):
        raise InvalidInput(
            "a model is given by terms, such as 'a*b + c', or searched with stepwise=2; give one of them"
        )
    names = tuple(attributes) or tuple(dict.fromkeys(name for each in split_terms(terms or "") for name in each))
    reports.warn()
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    complete = complete_cases and is_incomplete(reports, names)
    if complete or not reports.of_records:
        if terms is None:
            raise InvalidInput(
                "models of complete cases and of answers to questions are given by terms, such as 'a*b + c'; search is "
                "for whole records"
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
    complete_cases: bool = False,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    lonely_psu: Single = "refuse",
    unweighted: bool = False,
    confidence: float = 0.95,
    progress: Callable[[float], None] | None = None,
) -> Regression:
    """Fit a linear, logistic, ordered or multinomial regression of the true records (:func:`optrr.analysis.regress`).

    ``public`` names predictors that were not randomized, which stand beside the attributes; ``progress`` is called with
    the proportion of the work that is done. ``weights``, ``strata``, ``clusters``, ``lonely_psu`` and ``unweighted`` are of
    a sample, as in ``table``; the regression is then the population's. ``complete_cases`` leaves out people with
    a missing value, as in ``test``; without a sample, and for randomized predictors.
    """
    how: dict[str, Any] = {"family": family, "scores": scores, "confidence": confidence, "progress": progress}
    names = Formula.of(formula).names
    sample, asked = NONE, PublicColumns(weights, strata, clusters)
    if reports.of_records:
        sample = reports.sample(asked, unweighted)
    elif asked or unweighted or lonely_psu != "refuse":
        raise InvalidInput(
            "answers to questions have no weights, strata and clusters; leave these out, or ask for whole records"
        )
    known = [each for each in names if each in reports.asking.domain.names]
    complete = complete_cases and is_incomplete(reports, known, sample)
    reports.warn_unless(sample)
    if complete or not reports.of_records:
        if tuple(public):
            raise InvalidInput(NO_PUBLIC)
        return regress_estimated(estimated_table(reports, names, complete, partly=not complete), formula, **how)
    how |= {"weights": sample.weight, "strata": sample.stratum, "clusters": sample.cluster}
    return fitting.regress(reports.place, reports.randomizer, formula, public=public, lonely_psu=lonely_psu, **how)


def synthesize(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    size: int | None = None,
    *,
    attributes: str | Iterable[str] | None = None,
    keep: str | Iterable[str | Sequence[str]] = (),
    sets: int = 1,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Synthetic:
    """Draw synthetic records from a model of the estimated pair tables (:func:`optrr.analysis.synthesize`).

    ``keep`` names regressions and tables that they keep beside pairs: ``keep=["income ~ sex + age", "sex*race*income"]``.
    Of several ``sets``, what is computed from each is combined (:func:`optrr.analysis.combine`), with intervals that hold.
    """
    reports.warn()
    how: dict[str, Any] = {"keep": keep, "sets": sets, "size": size}
    how |= {"random_state": random_state, "confidence": confidence}
    return drawing.synthesize(reports.place, reports.randomizer, attributes, **how)


def is_incomplete(reports: Reports, names: Iterable[str], sample: PublicColumns = NONE) -> bool:
    """Whether some of these attributes declare a missing value. Raises InvalidInput where none of the design's does."""
    domain = reports.asking.domain
    if not any(None in each.codes for each in domain):
        raise InvalidInput(
            "no attribute declares a missing value, and all cases are complete; leave out complete cases"
        )
    incomplete = any(None in each.codes for each in domain.subset(tuple(names)))
    if incomplete and sample:
        raise InvalidInput(
            "complete cases of a weighted or clustered sample have tables and measures, and no tests and models; leave out "
            "complete cases, or ignore the sample (unweighted)"
        )
    return incomplete


def estimated_table(reports: Reports, names: Sequence[str], complete: bool, partly: bool = False) -> EstimatedTable:
    """The table of these attributes by its estimate and covariance, of the complete cases or of everybody."""
    if reports.of_records:
        table = counted_table(reports.counted(names), reports.randomizer)
    else:
        table = reports.asking.counted(reports.alone, names, partly=partly)
    return complete_table(table) if complete else table
