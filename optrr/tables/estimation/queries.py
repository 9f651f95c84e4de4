"""Counts over any subset S of the domain (MDR §3, §6.5).

The count of S is estimated by n Σ_{u∈S} π̂_u. From the unbiased estimate its variance is exact, through P⁻¹ applied to the
subset's indicator; no covariance matrix is built. Its interval inverts a test (:mod:`optrr.tables.estimation.score_interval`).
Errors of MDR §6.5: e_S = |Y_S − X_S| and r_S = e_S/X_S (eq. 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import Attribute, Category, Domain, category_text, listed
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.show.text import MISSING, category_word
from optrr.tables.estimation.estimator import check_confidence, check_records
from optrr.tables.estimation.impossible import counted_table
from optrr.tables.estimation.score_interval import score_intervals, subset_mean

Subset = NDArray[np.bool_]

# A standard error of a proportion below this is rounding: 10^15 records would have a larger one.
_NO_ERROR = 1e-8


@dataclass(frozen=True)
class QueryAnswer:
    """Estimated count of a subset with its standard error and interval, in records.

    The interval lies within 0 and the number of records and contains the count where that does. The error is NaN where all
    reports that tell about the subset are alike, so that the data show none.
    """

    count: float
    standard_error: float
    lower: float
    upper: float
    confidence: float


def box(domain: Domain, categories: Mapping[str, Iterable[Category]]) -> Subset:
    """The subset of cells whose named attributes take one of the given categories; the other attributes are free."""
    out = np.ones(tuple(domain.sizes), dtype=np.bool_)
    for name, wanted in categories.items():
        i = domain.index(name)
        attribute = domain.attributes[i]
        inside = np.zeros(attribute.size, dtype=np.bool_)
        inside[[code_of(attribute, c) for c in wanted]] = True
        shape = [1] * domain.m
        shape[i] = -1
        out &= inside.reshape(shape)
    return out


def records(domain: Domain, listed: Iterable[Sequence[Category]]) -> Subset:
    """The subset of exactly these records, each a sequence of categories in the domain's order."""
    out = np.zeros(tuple(domain.sizes), dtype=np.bool_)
    for record in listed:
        if len(record) != domain.m:
            raise InvalidInput(
                f"the record {tuple(record)!r} has {len(record)} values; give one for each of {domain.m}"
            )
        out[tuple(code_of(attribute, c) for attribute, c in zip(domain, record, strict=True))] = True
    return out


def count_query(counts: Counts, mechanism: Randomizer, subset: Subset, confidence: float = 0.95) -> QueryAnswer:
    """Unbiased count of a subset of the counts' domain, with the population as target of its interval.

    Raises
    ------
    InvalidInput
        where the subset has another shape, the confidence is not between 0 and 1, or fewer than two records were
        counted. SingularMarginal where the mechanism hides an effect of this attribute set.
    """
    inside, shape = np.asarray(subset), tuple(map(int, counts.domain.sizes))
    if inside.shape != shape or inside.dtype != np.bool_:
        raise InvalidInput(
            f"a subset is a table of true and false of shape {shape}, got {inside.shape} of {inside.dtype}; make one with "
            "box() or records()"
        )
    check_confidence(confidence)
    check_records(counts.n)
    kernel = counted_table(counts, mechanism).kernel
    lam = counts.proportions
    value = counts.n * float(kernel.solve(lam)[inside].sum())
    error = counts.n * float(np.sqrt(kernel.functional_variance(inside.astype(np.float64), lam, counts.n)))
    # the number of all records, or of none, is known without error
    if inside.any() and not inside.all() and error <= _NO_ERROR * counts.n:
        error = float("nan")
    if inside.all() or not inside.any():
        return QueryAnswer(value, error, value, value, confidence)
    means = subset_mean(kernel, lam, counts.n, inside.astype(np.float64))
    low, high = (counts.n * float(end[0]) for end in score_intervals(means, 1 - confidence))
    return QueryAnswer(value, error, low, high, confidence)


def query_errors(estimated: float, true: float) -> tuple[float, float]:
    """e_S and r_S of MDR §6.5, eq. 16; r_S is infinite where the true count is 0 and the estimate is not."""
    absolute = abs(estimated - true)
    if true == 0:
        return absolute, 0.0 if absolute == 0 else float("inf")
    return absolute, absolute / abs(true)


def code_of(attribute: Attribute, category: Category) -> int:
    """The code of a declared category; the missing value has also the word it is shown by, where no category is called so.

    Raises InvalidInput for another one.
    """
    text = category_text(category)
    if text == MISSING and text not in attribute.codes:
        text = None
    if text not in attribute.codes:
        raise InvalidInput(
            f"attribute {attribute.name!r} has no category {category!r}; choose among "
            f"{listed([category_word(each) for each in attribute.texts])}"
        )
    return attribute.codes[text]
