"""Proportions and measures of reports: the methods ``table``, ``measure``, ``proportion``, ``contrast`` and ``quantiles``.

Each finds out which table it needs, of all records, a sample or answers to local queries, and hands it to the estimator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from optrr.analysis.measures import quantile, shares
from optrr.analysis.measures.measure import Comparing
from optrr.analysis.measures.measure import measure as measured
from optrr.analysis.measures.subgroups import restriction
from optrr.analysis.weighting import estimate_weighted
from optrr.analysis.weighting.linearised import read_table
from optrr.core.domain import NONE, at_random, check_missing, listed, scores_by_name, shown
from optrr.core.errors import InvalidInput
from optrr.core.estimation import STATISTICS, Derived, check_confidence, derive, estimate, estimate_adjusted
from optrr.core.estimation import poisoning as poisoning_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from optrr.analysis.measures import Among, Measures, WeightedShare
    from optrr.analysis.weighting import WeightedEstimate
    from optrr.core.domain import Category, GivenSample, Missing
    from optrr.core.estimation import Estimate, EstimatedTable, Poisoning
    from optrr.core.reports import Reports


def table(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    *attributes: str,
    where: Among | None = None,
    missing: Missing = "category",
    method: str = "unbiased",
    sample: GivenSample = None,
    by: str | Iterable[str] = (),
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Estimate | WeightedEstimate:
    """Estimate the true proportions of a table, with standard errors and intervals.

    Parameters
    ----------
    attributes
        Attributes of the table; its axes, in this order.
    where
        By attribute, of the table or not, the true categories of the subgroup.
    missing
        Treatment of missing values: "category" (a category like any other), "complete-cases" (leave out people with a
        missing value in the table or in ``where``), or :class:`optrr.MissingAtRandom`.
    method
        "unbiased", "norm-sub", "clip", "projection", "mle", "ibu" or "adjusted" (:mod:`optrr.core.estimation.estimator`).
    sample
        How records were sampled (:class:`optrr.Sample`); by default the columns that the design and the release name.
        "ignore" gives every record the same weight and treats it as its own PSU.
    by
        Public columns whose combinations make groups: one table for each. Excludes ``where`` and ``missing``.
    confidence, simultaneous
        Confidence of the intervals, of each cell alone or of all of them together (Bonferroni).

    Returns
    -------
    Estimate or WeightedEstimate
        The second for a weighted or clustered sample and for groups.

    Raises
    ------
    InvalidInput
        For unknown attributes, categories or columns, and for arguments that exclude each other.
    TooFewRecords
        For fewer than two records.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.table("income").to_pandas()["income"].tolist()
    ['low', 'high']
    """
    groups = (by,) if isinstance(by, str) else tuple(by)
    columns, lonely_psu = reports.sampled(sample, groups)
    if randomized := [name for name in groups if name in reports.asking.domain.columns]:
        every = tuple(dict.fromkeys((*groups, *attributes)))
        use = f"``attributes={','.join(every)}``" + (" ``statistic=row-proportions``" if len(every) == 2 else "")
        raise InvalidInput(f"``by``: {shown(randomized[0])} is randomized; use {use}")
    restricted = "where" if where is not None else "missing" if check_missing(missing) != "category" else None
    other = "by" if groups else "method" if method != "unbiased" else None
    if restricted and other:
        raise InvalidInput(f"``{other}``: excludes ``{restricted}``; leave one of them out")
    if other == "method" and (columns or not reports.of_records):
        of = "a weighted or clustered sample" if columns else "answers to local queries"
        raise InvalidInput(f"``method``: {method!r} is not defined for {of}; leave ``method`` out")
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    if restricted:
        names, kept = restriction(reports.asking.domain, attributes, where, missing)
        intervals |= {"attributes": attributes, "missing_at_random": at_random(missing)}
        return shares.estimate_where(_table_of(reports, names, sample), kept, **intervals)
    if not reports.of_records:
        return _of_answers(reports, attributes, confidence, simultaneous)
    reports.warn_unless(columns, sample)
    if columns:
        intervals |= {"weights": columns.weight, "strata": columns.stratum, "clusters": columns.cluster, "by": groups}
        return estimate_weighted(reports.place, reports.randomizer, attributes, lonely_psu=lonely_psu, **intervals)
    if method == "adjusted":
        return estimate_adjusted(reports.place, reports.randomizer, attributes, **intervals)
    return estimate(reports.counted(attributes), reports.randomizer, method=method, **intervals)


def tables(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    *tables: str | Sequence[str],
    where: Among | None = None,
    missing: Missing = "category",
    method: str = "unbiased",
    sample: GivenSample = None,
    by: str | Iterable[str] = (),
    confidence: float = 0.95,
) -> list[Estimate | WeightedEstimate]:
    """Estimate several tables with simultaneous intervals.

    All hold jointly with this confidence by Bonferroni's inequality.

    Parameters
    ----------
    tables
        Attributes of each table.
    where, missing, method, sample, by
        As in :meth:`table`, for each of them.
    confidence
        Confidence of all intervals together. Each of k tables shows 1 − (1 − confidence)/k for all its cells together.

    Returns
    -------
    list
        One result of :meth:`table` for each.

    Raises
    ------
    InvalidInput
        For no table, and as :meth:`table`.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> [each.confidence for each in reports.tables("sex", ["sex", "income"])]
    [0.975, 0.975]
    """
    if not tables:
        raise InvalidInput(
            "``tables``: none is named; name the attributes of each, such as ['sex', 'income'], ['race']"
        )
    check_confidence(confidence)
    how: dict[str, Any] = {"where": where, "missing": missing, "method": method, "sample": sample, "by": by}
    how |= {"confidence": 1 - (1 - confidence) / len(tables), "simultaneous": True}
    return [table(reports, *((names,) if isinstance(names, str) else names), **how) for names in tables]


def measure(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    statistic: str,
    *attributes: str,
    coding: Mapping[str, Category | ArrayLike] | None = None,
    where: Among | None = None,
    missing: Missing = "category",
    sample: GivenSample = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Measures | Derived:
    """Compare an attribute between groups, or estimate one statistic of a table.

    Results have intervals.

    Parameters
    ----------
    statistic
        Of groups and outcomes: "row-proportions", "column-proportions", "risk-difference", "risk-ratio", "odds-ratio",
        "means", "mean-difference", "gamma", "tau-b" or "somers-d" (:mod:`optrr.analysis.measures.quantities`). Of a table:
        "entropy", "mutual-information", "chi-square", "g-square", "correlation" or "cramers-v"
        (:mod:`optrr.core.estimation.derived`).
    attributes
        Groups, then outcomes. Means take any number of groups, or none; an entropy takes any number of attributes.
    coding
        By attribute, the category that others are compared with (the first declared one unless given), or numbers for its
        categories in declared order (their own, or 0, 1, 2, … unless given): ``{"sex": "F", "income": [10, 30, 80]}``.
    where, missing, sample, confidence, simultaneous
        As in :meth:`table`; one number of a table takes ``confidence`` alone.

    Returns
    -------
    Measures or Derived
        A row for each comparison, or the number.

    Raises
    ------
    InvalidInput
        For an unknown statistic, attribute or category, and for arguments that the statistic does not accept.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> [(row.group, row.reference, row.outcome) for row in reports.measure("odds-ratio", "sex", "income").rows]
    [('M', 'F', 'high')]
    """
    references, scores = _coded(coding, attributes)
    if statistic in STATISTICS:
        given = {
            "where": where is not None,
            "missing": check_missing(missing) != "category",
            "sample": sample not in (None, "ignore"),
        }
        refused = next((name for name, is_given in (given | {"simultaneous": simultaneous}).items() if is_given), None)
        if refused or references or (scores and statistic != "correlation"):
            raise InvalidInput(
                f"``{refused or 'coding'}``: not accepted by {statistic}, which is one number of a table; leave this "
                "argument out"
            )
        reports.warn_unless(NONE, sample)
        pair = scores_by_name(scores or None, attributes)
        return derive(reports.estimated(attributes), statistic, confidence=confidence, scores=pair)  # type: ignore[arg-type]  # names are checked there
    names, kept = restriction(reports.asking.domain, attributes, where, missing)
    *groups, outcomes = attributes or ("",)
    scored = next((name for name in groups if name in scores), None)
    if scored is not None:
        raise InvalidInput(f"``coding``: {scored!r} makes the groups, which have no scores; give those of the outcomes")
    reference = next((references[name] for name in groups if name in references), None)
    comparing = Comparing(reference, references.get(outcomes), scores.get(outcomes))
    intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
    intervals |= {"attributes": attributes, "where": kept, "missing_at_random": at_random(missing)}
    return measured(_table_of(reports, names, sample), statistic, comparing, **intervals)  # type: ignore[arg-type]  # as above


def proportion(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    of: Mapping[str, Category | Sequence[Category]],
    *,
    where: Among | None = None,
    missing: Missing = "category",
    sample: GivenSample = None,
    confidence: float = 0.95,
) -> Measures:
    """Estimate the proportion of people with some categories.

    Among all people or the subgroup of ``where``.

    Parameters
    ----------
    of
        By attribute one category or several; several attributes must all hold.
    where, sample, confidence
        As in :meth:`table`.
    missing
        "category", or "complete-cases" to leave out people with a missing value in an attribute that is named.

    Returns
    -------
    Measures
        One row.

    Raises
    ------
    InvalidInput
        As :meth:`contrast`.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> women = reports.proportion({"income": "high"}, where={"sex": "F"})
    >>> women.rows[0].lower < 0.3 < women.rows[0].upper
    True
    """
    term = {"of": of, "where": where or {}}
    return contrast(reports, term, missing=missing, sample=sample, confidence=confidence)


def contrast(
    reports: Reports,
    *terms: WeightedShare | Mapping[str, Any],
    missing: Missing = "category",
    sample: GivenSample = None,
    confidence: float = 0.95,
) -> Measures:
    """Estimate a weighted sum of proportions, in one sub-population or several.

    Parameters
    ----------
    terms
        ``{"of": {"income": "high"}, "where": {"sex": "F"}, "weight": -1}``: a proportion as in :meth:`proportion` and its
        weight, 1 unless given.
    missing, sample, confidence
        As in :meth:`proportion`.

    Returns
    -------
    Measures
        One row.

    Raises
    ------
    InvalidInput
        For no term, unknown attributes or categories, and a sum that is the same for all answers.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"], "income": ["low", "high"]}, {"sex": 1.5, "income": 2.0})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500, "income": ["low"] * 700 + ["high"] * 300})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> women, men = ({"of": {"income": "high"}, "where": {"sex": sex}} for sex in ("F", "M"))
    >>> difference = reports.contrast(women, men | {"weight": -1})
    >>> difference.rows[0].lower < 0 < difference.rows[0].upper
    True
    """
    wanted = shares.read_shares(terms)
    if at_random(missing) is not None:
        raise InvalidInput(
            "``missing``: proportions are of complete cases or take it for a category; give one of these"
        )
    told = _table_of(reports, shares.names_of(wanted), sample)
    return shares.contrast(told, wanted, complete_cases=missing == "complete-cases", confidence=confidence)


def quantiles(  # noqa: PLR0913 (each argument is one question a user answers)
    reports: Reports,
    attribute: str,
    probabilities: float | Sequence[float] = 0.5,
    *,
    where: Among | None = None,
    scores: Mapping[str, ArrayLike] | None = None,
    sample: GivenSample = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Measures:
    """Estimate quantiles of an attribute of bins, numbers or ordered categories.

    Parameters
    ----------
    attribute
        Its missing values are left out.
    probabilities
        One number or several, between 0 and 1.
    scores
        By attribute, numbers for its categories; their own, or the edges of bins unless given.
    where, sample, confidence, simultaneous
        As in :meth:`table`.

    Returns
    -------
    Measures
        One row for each probability.

    Raises
    ------
    InvalidInput
        For categories without an order, and as :meth:`table`.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"children": [0, 1, 2, 3]}, {"children": 2.0})
    >>> true = pandas.DataFrame({"children": [0, 1, 1, 2] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.quantiles("children", 0.5).rows[0].estimate
    1.0
    """
    names, kept = restriction(reports.asking.domain, (attribute,), where, "category")
    own, _ = scores_by_name(scores, (attribute,)) or (None, None)
    how: dict[str, Any] = {"where": kept, "scores": own, "confidence": confidence, "simultaneous": simultaneous}
    return quantile.quantiles(_table_of(reports, names, sample), probabilities, **how)


def poisoning(
    reports: Reports, *attributes: str, fakes: int, method: str = "unbiased", sample: GivenSample = None
) -> Poisoning:
    """Compute how far fake reports can move a table.

    Parameters
    ----------
    attributes
        Attributes of the table.
    fakes
        Number of fake reports, at least 1.
    method
        Method of :meth:`table` that the note is about.
    sample
        "ignore" leaves out the warning that weights, strata and sampling units do not count here.

    Returns
    -------
    Poisoning
        How low and how high each cell can be moved, exactly.

    Raises
    ------
    InvalidInput
        For as many fake reports as there are reports, or more.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"sex": ["F", "M"]}, {"sex": 1.5})
    >>> true = pandas.DataFrame({"sex": ["F", "M"] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.poisoning("sex", fakes=10).fakes
    10
    """
    if not reports.of_records:
        moved: Poisoning = reports.asking.poisoning(reports.alone, attributes, fakes)
        return moved
    reports.warn_unless(NONE, sample)
    return poisoning_of(reports.counted(attributes), reports.randomizer, fakes, method)


def _coded(
    coding: Mapping[str, Any] | None, attributes: Sequence[str]
) -> tuple[dict[str, Category], dict[str, ArrayLike]]:
    """Split the coding into reference categories and scores by attribute."""
    given = coding or {}
    unknown = next((name for name in given if name not in attributes), None)
    if unknown is not None:
        raise InvalidInput(f"``coding``: {unknown!r} is not among {listed(attributes)}; name one of these")
    references = {name: each for name, each in given.items() if np.ndim(each) == 0}
    return references, {name: each for name, each in given.items() if name not in references}


def _table_of(reports: Reports, attributes: Sequence[str], sample: GivenSample) -> EstimatedTable:
    """Warn, and return the table of the sample or of the reports."""
    columns, lonely_psu = reports.sampled(sample)
    reports.warn_unless(columns, sample)
    if not columns:
        return reports.estimated(attributes)
    return read_table(reports.place, reports.randomizer, attributes, columns, lonely_psu)


def _of_answers(reports: Reports, attributes: Sequence[str], confidence: float, simultaneous: bool) -> Estimate:
    """Estimate the cells of a table from answers to local queries."""
    check_confidence(confidence)
    cells = prod(reports.asking.domain.subset(attributes).sizes.tolist()) if simultaneous else 1
    estimated: Estimate = reports.asking.estimate(reports.alone, attributes, 1 - (1 - confidence) / cells)
    return replace(estimated, confidence=confidence, simultaneous=simultaneous)
