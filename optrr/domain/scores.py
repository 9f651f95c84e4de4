"""Scores: the numbers by which the categories of an attribute count in means, trends, correlations and linear models.

An attribute whose categories are all finite numbers counts by these: 0, 1, 5, 10 cigarettes a day are no evenly spaced steps.
Every other one counts by its categories' positions 0..r−1. Whoever asks may give other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.bins import number_text
from optrr.domain.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray

PairScores = tuple[FloatArray, FloatArray]
PlainScores = tuple[tuple[float, ...], tuple[float, ...]]
GivenScores = tuple[ArrayLike | None, ArrayLike | None]
# Squares and products of larger scores, or of smaller differences between them, leave the range of doubles.
_LARGEST, _CLOSEST = 1e100, 1e-100
# Scores that one line names of each attribute.
_SHOWN = 10


def has_numbers(attribute: Attribute) -> bool:
    """Whether all categories are finite numbers themselves."""
    return all(isinstance(c, int | float) and not isinstance(c, bool) for c in attribute.categories)


def checked_scores(attribute: Attribute, scores: ArrayLike | None) -> FloatArray:
    """(r,) numbers for an attribute's categories: as given, or the categories' own where they are numbers, or 0..r−1.

    Raises InvalidInput for another number of scores than categories, or scores that are not finite or all alike.
    """
    given: Any = scores
    if given is None:
        given = attribute.categories if has_numbers(attribute) else range(attribute.size)
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the scores of {attribute.name!r} must be numbers; give {attribute.size} of them") from None
    except OverflowError:
        values = np.full(attribute.size, np.inf)
    if values.shape != (attribute.size,) or not np.abs(values).max() <= _LARGEST:
        raise InvalidInput(
            f"{attribute.name!r} has {attribute.size} categories; give a finite score for each of them, at most "
            f"{_LARGEST:g} in size"
        )
    if np.ptp(values) < _CLOSEST:
        raise InvalidInput(
            f"the scores of {attribute.name!r} are all alike, so means of them cannot differ; give others"
        )
    return values


def scores_of_pair(domain: Domain, scores: GivenScores | None) -> PairScores:
    """:func:`checked_scores` of the first two attributes; None stands for those of the categories, for one of them or both."""
    try:
        x, y = (None, None) if scores is None else scores
    except (TypeError, ValueError):
        raise InvalidInput(
            "the scores of two attributes are a pair; give (scores of the first, of the second)"
        ) from None
    first, second = domain.attributes[:2]
    return checked_scores(first, x), checked_scores(second, y)


def plain_scores(pair: PairScores | None) -> PlainScores | None:
    """As results keep them."""
    return None if pair is None else (tuple(pair[0].tolist()), tuple(pair[1].tolist()))


def told_scores(names: Sequence[str], scores: Sequence[Sequence[float]] | None, least: int = 3) -> list[str]:
    """Which scores were used, in one line: of attributes of at least so many categories, as any two scores show one trend."""
    told = [
        f"{name} {', '.join(map(number_text, each[:_SHOWN]))}{', …' if len(each) > _SHOWN else ''}"
        for name, each in zip(names, scores or (), strict=False)
        if len(each) >= least
    ]
    return [f"scores of the categories: {'; '.join(told)}"] if told else []
