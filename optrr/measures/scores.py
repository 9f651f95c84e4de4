"""Numbers for the categories of an attribute, by which means and linear models count them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.records.domain import Attribute
from optrr_solvers.arrays import FloatArray


def has_numbers(attribute: Attribute) -> bool:
    """Whether all categories are numbers themselves."""
    return all(isinstance(c, int | float) and not isinstance(c, bool) for c in attribute.categories)


def checked_scores(attribute: Attribute, scores: ArrayLike | None) -> FloatArray:
    """(r,) numbers for an attribute's categories: as given, or the categories' own where they are numbers, or 0..r−1.

    Raises
    ------
    InvalidInput
        for another number of scores than categories, or scores that are not finite or all alike.
    """
    given: Any = scores
    if given is None:
        given = attribute.categories if has_numbers(attribute) else range(attribute.size)
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the scores of {attribute.name!r} must be numbers; give {attribute.size} of them") from None
    if values.shape != (attribute.size,) or not np.isfinite(values).all():
        raise InvalidInput(f"{attribute.name!r} has {attribute.size} categories; give a finite score for each of them")
    if values.min() == values.max():
        raise InvalidInput(
            f"the scores of {attribute.name!r} are all alike, so means of them cannot differ; give others"
        )
    return values
