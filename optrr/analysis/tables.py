"""Proportions and measures of reports: the methods ``table``, ``measure``, ``share``, ``contrast`` and ``quantiles``.

Each finds out which table it needs, of all records, a sample or answers to local queries, and hands it to the estimator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Unpack

from optrr.analysis.measures import quantile, shares
from optrr.analysis.measures.measure import Comparing
from optrr.analysis.measures.measure import measure as measured
from optrr.analysis.measures.subgroups import restriction
from optrr.analysis.weighting import estimate_weighted
from optrr.analysis.weighting.linearised import read_table
from optrr.core.domain import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.estimation import STATISTICS, Derived, check_confidence, derive, estimate, estimate_adjusted
from optrr.core.estimation import poisoning as poisoning_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from optrr.analysis.measures import Among, Measures, WeightedShare
    from optrr.analysis.weighting import WeightedEstimate
    from optrr.analysis.weighting.linearised import Single
    from optrr.core.domain import Category
    from optrr.core.estimation import Estimate, EstimatedTable, Poisoning
    from optrr.core.reports import Reports, SampleColumns


def table(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    *attributes: str,
    where: Among | None = None,
    complete_cases: bool = False,
    missing_at_random: str | None = None,
    method: str = "unbiased",
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    by: str | Iterable[str] = (),
    lonely_psu: Single = "refuse",
    unweighted: bool = False,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Estimate | WeightedEstimate:
    """Estimate the true proportions of a table, with standard errors and intervals.

    Parameters
    ----------
    attributes
        of the table; its axes, in this order.
    where
        by attribute, of the table or not, the categories that people must truly have to count
        (:func:`optrr.analysis.measures.estimate_where`).
    complete_cases
        leave out people with a missing value in the table or in ``where`` (:mod:`optrr.analysis.measures.subgroups`).
    missing_at_random
        an attribute whose missing values depend on the table's other attributes alone, as you declare: the table is then that
        of everybody (:mod:`optrr.analysis.measures.shares`).
    method
        "unbiased", "norm-sub", "clip", "mle", "ibu" or "adjusted" (:func:`optrr.core.estimation.estimator.estimate`).
    weights, strata, clusters, by, lonely_psu, unweighted
        public columns that describe the sample, beside those that the design and the release name
        (:func:`optrr.analysis.weighting.estimate_weighted`); ``unweighted`` ignores them. ``by`` excludes ``where``.
    confidence, simultaneous
        of the intervals: each cell alone, or all of them together.
    """
    groups = (by,) if isinstance(by, str) else tuple(by)
    sample = reports.sample(PublicColumns(weights, strata, clusters), unweighted, groups)
    restrictions = {
        "where": where is not None,
        "complete_cases": complete_cases,
        "missing_at_random": missing_at_random is not None,
    }
    restricted = [name for name, given in restrictions.items() if given]
    if restricted and (groups or method != "unbiased"):
        beside = "``by``" if groups else "``method``"
        raise InvalidInput(f"a table takes ``{restricted[0]}`` or {beside}, not both; leave one out")
    if sample and method != "unbiased":
        raise InvalidInput("a table takes ``method`` or the public columns of a sample, not both; leave one out")
    if not reports.of_records and (sample or method != "unbiased"):
        raise InvalidInput(
            "answers to questions have unbiased tables, without a sample's columns; leave these out, or ask for whole "
            "records, with a design"
        )
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    if restricted:
        names, kept = restriction(reports.asking.domain, attributes, where, complete_cases, missing_at_random)
        intervals |= {"attributes": attributes, "missing_at_random": missing_at_random}
        return shares.estimate_where(_sampled_table(reports, names, sample, lonely_psu), kept, **intervals)
    if not reports.of_records:
        return _of_answers(reports, attributes, confidence, simultaneous)
    reports.warn(ignoring=NONE if sample and not unweighted else None)
    if sample:
        intervals |= {"weights": sample.weight, "strata": sample.stratum, "clusters": sample.cluster, "by": groups}
        return estimate_weighted(reports.place, reports.randomizer, attributes, lonely_psu=lonely_psu, **intervals)
    if method == "adjusted":
        return estimate_adjusted(reports.place, reports.randomizer, attributes, **intervals)
    return estimate(reports.counted(attributes), reports.randomizer, method=method, **intervals)


def tables(reports: Reports, *tables: Sequence[str], confidence: float = 0.95, **how: Any) -> list[Any]:
    """Estimate several tables whose intervals all hold together with this confidence, by Bonferroni's inequality.

    Each of k tables is that of ``table`` with all its cells together and 1 − (1 − confidence)/k, which it shows.
    """
    if not tables:
        raise InvalidInput("no table is asked for; name the attributes of each, such as ['sex', 'income'], ['race']")
    check_confidence(confidence)
    if not how.pop("simultaneous", True):
        raise InvalidInput(
            "several tables have intervals that all hold together; for one table's alone ask for table()"
        )
    each = 1 - (1 - confidence) / len(tables)
    named = [(names,) if isinstance(names, str) else names for names in tables]
    return [table(reports, *names, confidence=each, simultaneous=True, **how) for names in named]


def measure(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    name: str,
    *attributes: str,
    reference: Category | None = None,
    reference_outcome: Category | None = None,
    where: Among | None = None,
    complete_cases: bool = False,
    missing_at_random: str | None = None,
    scores: Any = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    **sample: Unpack[SampleColumns],
) -> Measures | Derived:
    """Estimate one attribute within the groups of another, or one number of a table, with intervals.

    Parameters
    ----------
    name
        "row-shares", "column-shares", "risk-difference", "risk-ratio", "odds-ratio", "means", "mean-difference", "gamma",
        "tau-b" or "somers-d" of GROUPS and OUTCOMES (:func:`optrr.analysis.measures.measure`); or "entropy",
        "mutual-information", "chi-square", "g-square", "correlation" or "cramers-v" of a table
        (:func:`optrr.core.estimation.derived.derive`).
    attributes
        two, groups first; of an entropy any number.
    reference, reference_outcome, scores
        what groups and outcomes are compared with, the first declared one unless given; the outcomes' numbers.
    where, complete_cases, missing_at_random
        who counts, as in ``table``.
    sample
        how records were sampled (:class:`optrr.core.reports.SampleColumns`), for measures of two attributes.
    """
    if name in STATISTICS:
        given: dict[str, Any] = {
            "reference": reference,
            "reference_outcome": reference_outcome,
            "where": where,
            "missing_at_random": missing_at_random,
        }
        given |= {"complete_cases": complete_cases or None, "simultaneous": simultaneous or None}
        given |= {key: value for key, value in sample.items() if key != "unweighted"}
        refused = next((each for each, value in given.items() if value is not None), None)
        if refused is not None:
            raise InvalidInput(f"{name} is one number of a table and takes no {refused}; leave it out")
        reports.warn()
        return derive(reports.estimated(attributes), name, confidence=confidence, scores=scores)  # type: ignore[arg-type]  # names are checked there
    names, kept = restriction(reports.asking.domain, attributes, where, complete_cases, missing_at_random)
    comparing = Comparing(reference, reference_outcome, scores)
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    return measured(
        _sampled(reports, names, **sample),
        name,  # type: ignore[arg-type]  # as above
        comparing,
        where=kept,
        missing_at_random=missing_at_random,
        **intervals,
    )


def share(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    attribute: str,
    categories: Category | Sequence[Category],
    *,
    where: Among | None = None,
    complete_cases: bool = False,
    confidence: float = 0.95,
    **sample: Unpack[SampleColumns],
) -> Measures:
    """Estimate the proportion of people with some of an attribute's categories, of all or of those ``where`` others.

    ``share("income", ">50K", among={"sex": "F", "age": ["30-39", "40-49"]})``; ``complete_cases`` and
    ``sample`` as in ``measure``.
    """
    wanted: dict[str, Any] = {"of": {attribute: categories}, "where": where or {}}
    return contrast(reports, wanted, complete_cases=complete_cases, confidence=confidence, **sample)


def contrast(
    reports: Reports,
    *terms: WeightedShare | Mapping[str, Any],
    complete_cases: bool = False,
    confidence: float = 0.95,
    **sample: Unpack[SampleColumns],
) -> Measures:
    """Estimate a weighted sum of proportions, in one sub-population or several (:func:`optrr.analysis.measures.contrast`).

    ``contrast({"of": {"income": ">50K"}, "among": {"sex": "F"}}, {"of": {"income": ">50K"}, "among": {"sex": "M"},
    "weight": -1})`` is the difference between women and men.
    """
    wanted = shares.read_shares(terms)
    told = _sampled(reports, shares.names_of(wanted), **sample)
    return shares.contrast(told, wanted, complete_cases=complete_cases, confidence=confidence)


def quantiles(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    attribute: str,
    probabilities: float | Sequence[float] = 0.5,
    *,
    where: Among | None = None,
    scores: ArrayLike | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    **sample: Unpack[SampleColumns],
) -> Measures:
    """Estimate quantiles of an attribute of bins, numbers or ordered categories (:func:`optrr.analysis.measures.quantiles`)."""
    names, kept = restriction(reports.asking.domain, (attribute,), where, False)
    how: dict[str, Any] = {"where": kept, "scores": scores, "confidence": confidence, "simultaneous": simultaneous}
    return quantile.quantiles(_sampled(reports, names, **sample), probabilities, **how)


def poisoning(reports: Reports, *attributes: str, fakes: int, method: str = "unbiased") -> Poisoning:
    """How far this many fake reports can move a table (:func:`optrr.core.estimation.poisoned.poisoning`)."""
    if not reports.of_records:
        moved: Poisoning = reports.asking.poisoning(reports.alone, attributes, fakes)
        return moved
    return poisoning_of(reports.counted(attributes), reports.randomizer, fakes, method)


def _sampled(  # noqa: PLR0913 (the sample's columns, one by one)
    reports: Reports,
    attributes: Sequence[str],
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    lonely_psu: Single = "refuse",
    unweighted: bool = False,
) -> EstimatedTable:
    """What measures take of :class:`optrr.core.reports.SampleColumns`."""
    sample = reports.sample(PublicColumns(weights, strata, clusters), unweighted)
    if sample and not reports.of_records:
        raise InvalidInput(
            "answers to questions have measures without a sample's columns; leave these out, or ask for whole records, "
            "with a design"
        )
    return _sampled_table(reports, attributes, sample, lonely_psu)


def _sampled_table(
    reports: Reports, attributes: Sequence[str], sample: PublicColumns, lonely_psu: Single
) -> EstimatedTable:
    """What measures take, after the warnings: the table of the sample if there is one, else as :meth:`Reports.estimated`."""
    reports.warn_unless(sample)
    if not sample:
        return reports.estimated(attributes)
    return read_table(reports.place, reports.randomizer, attributes, sample, lonely_psu)


def _of_answers(reports: Reports, attributes: Sequence[str], confidence: float, simultaneous: bool) -> Estimate:
    """The cells of a table estimated from answers to local queries."""
    check_confidence(confidence)
    cells = prod(reports.asking.domain.subset(attributes).sizes.tolist()) if simultaneous else 1
    estimated: Estimate = reports.asking.estimate(reports.alone, attributes, 1 - (1 - confidence) / cells)
    return replace(estimated, confidence=confidence, simultaneous=simultaneous)
