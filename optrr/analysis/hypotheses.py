"""Hypotheses about the true records: the methods ``test`` and ``tests`` of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optrr.analysis.estimated import test_estimated
from optrr.analysis.loglinear.comparing import STRATIFIED, stratified_test
from optrr.analysis.models import estimated_table, is_incomplete
from optrr.analysis.weighted import test_weighted
from optrr.core.display import MISSING
from optrr.core.domain import NONE, scores_by_name
from optrr.core.errors import InvalidInput
from optrr.core.inference import (
    ASSOCIATIONS,
    Bootstrap,
    check_distinct,
    family,
    goodness_of_fit,
    homogeneity,
)
from optrr.core.inference import test as association_test

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from optrr.core.domain import Domain, GivenSample, Missing
    from optrr.core.inference import Adjustment, TestFamily, TestResult
    from optrr.core.reports import Reports

GOODNESS, HOMOGENEITY, _WITHIN_STRATA = "goodness-of-fit", "homogeneity", "conditional-independence"


def hypotheses() -> tuple[str, ...]:
    """List the names of all hypotheses."""
    return (*ASSOCIATIONS, *STRATIFIED, GOODNESS, HOMOGENEITY)


def test(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    *attributes: str,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
    missing: Missing = "category",
    sample: GivenSample = None,
    calibration: str | Bootstrap = "auto",
) -> TestResult:
    """Test a hypothesis about the true records.

    Parameters
    ----------
    attributes
        Attributes that the hypothesis is about: two for an association.
    hypothesis
        Of two attributes "independence" (the default), "trend", "genotypic" or "likelihood-ratio"; within strata
        "conditional-independence" (the default with ``given``), "common-association", "common-trend" or "same-odds-ratios";
        "goodness-of-fit" (the default with ``proportions``); "homogeneity" (the default for reports that were opened from
        several places, which are groups of people).
    given
        Attributes whose categories together are the strata.
    proportions
        Proportions that the hypothesis states, of the shape of the table.
    scores
        By attribute, numbers for its categories in trends; their own, or 0, 1, 2, … unless given.
    missing
        "category" (a missing value is a category like any other), or "complete-cases".
    sample
        How records were sampled (:class:`optrr.Sample`), for independence; by default the columns that the design and
        the release name. "ignore" gives every record the same weight and treats it as its own PSU.
    calibration
        Where the p-value comes from: "auto" (the χ² limit where it is good to a factor of two, drawn tables elsewhere),
        "asymptotic" (the χ² limit), "bootstrap", "saddlepoint", or :class:`optrr.Bootstrap` with a number of tables or a seed.

    Returns
    -------
    TestResult
        Statistic, p-value, and how far the p-value can be trusted.

    Raises
    ------
    InvalidInput
        For a hypothesis that lacks what states it, and for arguments that it does not take.
    TooFewRecords
        For fewer than two records.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low", "high"] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.test("sex", "income").p_value < 0.001
    True
    """
    within = (given,) if isinstance(given, str) else tuple(given)
    names, several = [*attributes, *within], len(reports.given) > 1
    name = hypothesis or default_hypothesis(within, proportions, several)
    check_stated(name, attributes, within, proportions is not None, several)
    columns, lonely_psu = reports.sampled(sample) if name == "independence" and not within else (NONE, "refuse")
    if sample not in (None, "ignore") and not columns:
        raise InvalidInput(
            f"``sample``: weights, strata and PSUs are for the test of independence, not of {name}; leave the sample "
            "out"
        )
    complete = is_incomplete(reports, names, missing, columns)
    estimated = complete or not reports.of_records
    pair = scores_by_name(scores, names[:2])
    seed = calibration.random_state if isinstance(calibration, Bootstrap) else None
    _check_calibration(calibration, name, drawn=not (columns or estimated), chosen=name in ASSOCIATIONS)
    if pair is not None and (columns or name in (GOODNESS, HOMOGENEITY)):
        raise InvalidInput(f"``scores``: not accepted by a test of {name}; leave the scores out")
    reports.warn_unless(columns, sample)
    if columns:
        how = {"weights": columns.weight, "strata": columns.stratum, "clusters": columns.cluster}
        result = test_weighted(reports.place, reports.randomizer, attributes, lonely_psu=lonely_psu, **how)
    elif estimated:
        table = estimated_table(reports, names, complete)
        result = test_estimated(table, name, scores=pair, proportions=proportions)
    elif name == HOMOGENEITY:
        result = homogeneity(reports.counts(attributes), reports.randomizer, random_state=seed)
    elif proportions is not None:
        result = goodness_of_fit(reports.counted(attributes), reports.randomizer, proportions, random_state=seed)
    elif within:
        result = stratified_test(reports.counted(names), reports.randomizer, name, seed, pair)  # type: ignore[arg-type]  # names are checked there
    else:
        counts = reports.counted(names)
        result = association_test(counts, reports.randomizer, name, scores=pair, calibration=calibration)
    said = said_missing(reports.asking.domain, names, complete)
    return replace(result, attributes=tuple(attributes), given=within, missing=said)


test.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def tests(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    tests: Iterable[Sequence[str]],
    *,
    adjust: Adjustment = "holm",
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    scores: Mapping[str, ArrayLike] | None = None,
    missing: Missing = "category",
    sample: GivenSample = None,
    calibration: str | Bootstrap = "auto",
) -> TestFamily:
    """Test several hypotheses of one kind, with p-values adjusted for their number.

    Parameters
    ----------
    tests
        Attributes of each test: ``[("sex", "income"), ("race", "income")]``.
    adjust
        "holm" or "bonferroni" for the chance of any wrong rejection, "bh" for the proportion of wrong ones among all.
    hypothesis, given, scores, missing, sample, calibration
        As in :meth:`test`, for each of them. Each takes of the ``scores`` those of its attributes.

    Returns
    -------
    TestFamily
        The tests, and their adjusted p-values.

    Raises
    ------
    InvalidInput
        For no test, one that is named twice, and as :meth:`test`.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"a": 2.0, "b": 2.0, "c": 2.0})
    >>> true = pandas.DataFrame({"a": [0, 1] * 500, "b": [0, 1] * 500, "c": [0] * 500 + [1] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.tests([("a", "b"), ("a", "c")]).adjusted[0] < 0.001
    True
    """
    names = [(each,) if isinstance(each, str) else tuple(each) for each in tests]
    check_distinct(names)
    unknown = next((name for name in scores or {} if not any(name in each for each in names)), None)
    if unknown is not None:
        raise InvalidInput(f"``scores``: {unknown!r} is in no test; name attributes of the tests")
    how: dict[str, Any] = {"hypothesis": hypothesis, "given": given, "missing": missing}
    how |= {"sample": sample, "calibration": calibration}

    def one(each: tuple[str, ...]) -> TestResult:
        return test(reports, *each, scores={n: s for n, s in (scores or {}).items() if n in each}, **how)

    return family(names, [one(each) for each in names], adjust)


def default_hypothesis(within: Sequence[str], proportions: ArrayLike | None, several: bool = False) -> str:
    """Return the hypothesis that is tested by default."""
    if within:
        return _WITHIN_STRATA
    if proportions is not None:
        return GOODNESS
    return HOMOGENEITY if several else "independence"


def check_stated(name: str, attributes: Sequence[str], within: Sequence[str], proportions: bool, groups: bool) -> None:
    """Check that all inputs match the hypothesis.

    Raises InvalidInput if one is missing, or belongs to another hypothesis.
    """
    if name not in hypotheses():
        raise InvalidInput(f"``hypothesis``: {name!r} is unknown; give one of {', '.join(hypotheses())}")
    for what, is_given, own in (
        ("``proportions``", proportions, (GOODNESS,)),
        ("``group``", groups, (HOMOGENEITY,)),
        ("``given``", bool(within), STRATIFIED),
    ):
        if is_given and name not in own:
            raise InvalidInput(f"{what}: only for {' or '.join(own)}; leave this argument out for {name}")
        if name in own and not is_given:
            raise InvalidInput(f"{what}: missing, and {name} needs it; give {what} too")
    if within and len(attributes) != 2:
        raise InvalidInput(f"``given``: an association is of two attributes, and {len(attributes)} are named; name two")


def said_missing(domain: Domain, names: Sequence[str], complete: bool = False) -> str:
    """State how a test treats missing values; empty if none are declared."""
    if complete:
        return "complete cases"
    missing = [each.name for each in domain.subset(names) if None in each.codes]
    return f"{MISSING} of {' and of '.join(missing)} counts as a category" if missing else ""


def _check_calibration(calibration: str | Bootstrap, name: str, drawn: bool, chosen: bool) -> None:
    """Raise InvalidInput for a calibration that the test would not use.

    Some tests never draw tables, others only if necessary.
    """
    seeded = isinstance(calibration, Bootstrap) and calibration.draws is None
    if calibration == "auto" or (drawn and (chosen or seeded)):
        return
    if calibration == "asymptotic" and not drawn:
        return
    raise InvalidInput(
        f"``calibration``: not available in a test of {name} of these records; leave ``calibration`` out"
    )
