"""Hypotheses about the true records: ``test`` and ``tests`` of reports, and their power by a design alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optrr.analysis.estimated import test_estimated
from optrr.analysis.loglinear.comparing import STRATIFIED, stratified_alternative, stratified_test
from optrr.analysis.models import estimated_table, is_incomplete
from optrr.analysis.weighted import test_weighted
from optrr.core.display import MISSING
from optrr.core.domain import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.inference import (
    alternative_of,
    check_distinct,
    family,
    goodness_alternative,
    goodness_of_fit,
    homogeneity,
    predicted_power,
    required_records,
)
from optrr.core.inference import test as association_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from optrr.analysis.weighting.linearised import Single
    from optrr.core.domain import Domain, GivenScores
    from optrr.core.inference import Adjustment, Alternative, PredictedPower, TestFamily, TestResult
    from optrr.core.reports import Reports

_GOODNESS, _HOMOGENEITY, _WITHIN_STRATA = "goodness-of-fit", "homogeneity", "conditional-independence"
# Tables that a bootstrap draws unless another number is given.
_DRAWN = 1999


def test(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    *attributes: str,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: GivenScores | None = None,
    complete_cases: bool = False,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    lonely_psu: Single = "refuse",
    unweighted: bool = False,
    calibration: str = "auto",
    bootstrap: int = _DRAWN,
    random_state: int | np.random.Generator | None = None,
) -> TestResult:
    """Test a hypothesis about the true records.

    Parameters
    ----------
    attributes
        that the hypothesis is about: two for an association.
    hypothesis
        "independence" (unless something else follows from what is given), "trend", "genotypic" or "likelihood-ratio"
        (:func:`optrr.core.inference.test`); with ``given`` "conditional-independence", "common-association", "common-trend" or
        "same-odds-ratios" (:func:`optrr.analysis.stratified_test`); "goodness-of-fit" with ``proportions``; "homogeneity" of
        reports that were opened from several places, which are groups of people.
    given
        the attributes whose categories together are the strata.
    complete_cases
        leave out people with a missing value; else it counts as a category (:mod:`optrr.analysis.complete_cases`). For the
        hypotheses of :data:`optrr.analysis.estimated.TESTS_OF_ANSWERS`, without a sample or a calibration.
    weights, strata, clusters, lonely_psu, unweighted
        of a sample, for independence (:func:`optrr.analysis.weighted.test_weighted`).
    calibration, bootstrap
        of associations without strata or a sample: where the p-value comes from, and how many tables a bootstrap draws
        (:func:`optrr.core.inference.test`). Elsewhere they are refused.
    """
    within = (given,) if isinstance(given, str) else tuple(given)
    names, several = [*attributes, *within], len(reports.given) > 1
    name = hypothesis or _hypothesis(within, proportions, several)
    _check_stated(name, attributes, within, proportions is not None, several)
    asked = PublicColumns(weights, strata, clusters)
    sample = reports.sample(asked, unweighted) if name == "independence" and not within else NONE
    if asked and not sample:
        raise InvalidInput(
            f"a sample's ``weights``, ``strata`` and ``clusters`` count in independence, not in {name}; leave them out"
        )
    complete = complete_cases and is_incomplete(reports, names, sample)
    if sample or within or name in (_GOODNESS, _HOMOGENEITY):
        _check_left_out(name, calibration, bootstrap, None if within else scores)
    reports.warn_unless(sample)
    if sample:
        how = {"weights": sample.weight, "strata": sample.stratum, "clusters": sample.cluster}
        result = test_weighted(reports.place, reports.randomizer, attributes, lonely_psu=lonely_psu, **how)
    elif complete or not reports.of_records:
        if calibration not in ("auto", "asymptotic"):
            raise InvalidInput(
                f"p-values of complete cases and of answers to questions are those of χ²; leave out ``calibration`` "
                f"{calibration!r}"
            )
        table = estimated_table(reports, names, complete)
        result = test_estimated(table, name, scores=scores, proportions=proportions)
    elif name == _HOMOGENEITY:
        result = homogeneity(reports.counts(attributes), reports.randomizer, random_state=random_state)
    elif proportions is not None:
        counts = reports.counted(attributes)
        result = goodness_of_fit(counts, reports.randomizer, proportions, random_state=random_state)
    elif within:
        result = stratified_test(reports.counted(names), reports.randomizer, name, random_state, scores)  # type: ignore[arg-type]  # names are checked there
    else:
        how = {"scores": scores, "calibration": calibration, "bootstrap": bootstrap, "random_state": random_state}  # type: ignore[dict-item]
        result = association_test(reports.counted(names), reports.randomizer, name, **how)  # type: ignore[arg-type]  # as above
    return replace(result, missing=said_missing(reports.asking.domain, names, complete))


test.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def tests(reports: Reports, tests: Iterable[Sequence[str]], *, adjust: Adjustment = "holm", **how: Any) -> TestFamily:
    """Test several hypotheses of one kind, with p-values adjusted for their number (:mod:`optrr.core.inference.result`).

    Parameters
    ----------
    tests
        the attributes of each, as ``test`` takes them: ``[("sex", "income"), ("race", "income")]``.
    adjust
        "holm" or "bonferroni" for the chance of any wrong rejection, "bh" for the proportion of wrong ones among all.
    how
        what ``test`` takes beside the attributes, for each of them.
    """
    names = [(each,) if isinstance(each, str) else tuple(each) for each in tests]
    check_distinct(names, how.get("proportions") is not None)
    return family(names, [test(reports, *each, **how) for each in names], adjust)


def _hypothesis(within: Sequence[str], proportions: ArrayLike | None, several: bool) -> str:
    if within:
        return _WITHIN_STRATA
    if proportions is not None:
        return _GOODNESS
    return _HOMOGENEITY if several else "independence"


def _check_stated(name: str, attributes: Sequence[str], within: Sequence[str], proportions: bool, groups: bool) -> None:
    """Raise InvalidInput where a hypothesis lacks what states it, or something states another one."""
    for what, is_given, own in (
        ("``proportions``", proportions, (_GOODNESS,)),
        ("``groups``", groups, (_HOMOGENEITY,)),
        ("``given``", bool(within), STRATIFIED),
    ):
        if is_given and name not in own:
            raise InvalidInput(f"{what} is for {' or '.join(own)}; leave it out for {name}")
        if name in own and not is_given:
            raise InvalidInput(f"{name} needs {what}; give it too")
    if within and len(attributes) != 2:
        raise InvalidInput(
            f"``given`` is for an association of two attributes, and {len(attributes)} are named; name two"
        )


def said_missing(domain: Domain, names: Sequence[str], complete: bool = False) -> str:
    """What a test of these attributes does with missing values; empty where none declares them."""
    if complete:
        return "complete cases"
    missing = [each.name for each in domain.subset(names) if None in each.codes]
    return f"{MISSING} of {' and of '.join(missing)} counts as a category" if missing else ""


def _check_left_out(name: str, calibration: str, bootstrap: int, scores: GivenScores | None) -> None:
    """Raise InvalidInput for what a test that knows no trend, and chooses where its p-value comes from, would ignore."""
    given = {"calibration": calibration != "auto", "bootstrap": bootstrap != _DRAWN, "scores": scores is not None}
    for option, is_given in given.items():
        if is_given:
            raise InvalidInput(f"{name} of these records takes no ``{option}``, which would be ignored; leave it out")


def power(
    design: Any, *attributes: str, truth: ArrayLike, n: float, level: float = 0.05, **hypothesis: Any
) -> PredictedPower:
    """Predict the chance that a test at this level rejects if ``truth`` is true of n people.

    Raises InvalidInput for proportions of another shape, and as the test refuses. SingularMarginal if the mechanism hides the
    effect.

    Parameters
    ----------
    attributes
        that the test is about, as in :meth:`optrr.Reports.test`.
    truth
        the true proportions, an axis for each attribute, those of ``given`` last.
    hypothesis
        ``hypothesis``, ``given``, ``proportions`` and ``scores``, as there.
    """
    return predicted_power(_effect(design, attributes, truth, **hypothesis), n, level)


def records_for(
    design: Any, *attributes: str, truth: ArrayLike, power: float = 0.8, level: float = 0.05, **hypothesis: Any
) -> int:
    """Count the people that a test needs to reject with this chance; all else as in ``power``."""
    return required_records(_effect(design, attributes, truth, **hypothesis), power, level)


def _effect(  # noqa: PLR0913 (as in test)
    design: Any,
    attributes: Sequence[str],
    truth: ArrayLike,
    *,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: GivenScores | None = None,
) -> Alternative:
    """The true proportions of some attributes, as what a test is to see."""
    within = (given,) if isinstance(given, str) else tuple(given)
    domain, kernel = design.domain.subset([*attributes, *within]), design.mechanism.kernel(attributes)
    if proportions is not None:
        return goodness_alternative(truth, proportions, kernel)
    if within:
        return stratified_alternative(truth, domain, design.mechanism, hypothesis or _WITHIN_STRATA, scores)  # type: ignore[arg-type]
    return alternative_of(hypothesis or "independence", truth, kernel, scores, domain)
