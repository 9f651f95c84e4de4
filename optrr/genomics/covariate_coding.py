"""From texts of public columns to the columns of a regression: numbers, categories, and what can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import shown
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray

# A column counts as a combination of those before it where it leaves less than this of its length.
_DEPENDENT = 1e-7
# Of a leverage this near to 1, what is left is rounding.
ALONE = 1e-9
# More categories than this are names or numbers of people, not categories.
_MOST_CATEGORIES = 100


def coded(texts: Sequence[str], name: str, where: str, categorical: bool) -> FloatArray:
    """A column of numbers, (n, 1), or one for each category but the first, (n, k − 1)."""
    values = None if categorical else numbers(texts)
    if values is not None:
        return values[:, None]
    categories, which = np.unique(np.array(texts), return_inverse=True)
    if categories.size > _MOST_CATEGORIES and 2 * categories.size > len(texts):
        raise InvalidInput(
            f"{where}, column {shown(name)} has {categories.size} different texts; give numbers or categories"
        )
    return np.asarray(which[:, None] == np.arange(1, max(categories.size, 2)), dtype=np.float64)


def numbers(texts: Sequence[str]) -> FloatArray | None:
    """The texts as numbers, or None where some is none."""
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def trait(texts: Sequence[str], name: str, where: str) -> FloatArray:
    """A trait's numbers, (n,). Raises InvalidInput where they are none, or all one."""
    values = numbers(texts)
    if values is None:
        raise InvalidInput(
            f"{where}, column {shown(name)}: a trait is of numbers, and some value is none; write NA where unknown"
        )
    if np.unique(values).size < 2:
        raise InvalidInput(f"{where}, column {shown(name)}: everybody has one value; give a trait that varies")
    return values


def independent(parts: Sequence[FloatArray], names: Sequence[str], where: str, n: int) -> FloatArray:
    """All columns, standardized. Raises InvalidInput for one that is constant or a combination of those before it."""
    basis: NDArray[np.float64] = np.full((n, 1), n**-0.5)
    kept = []
    for part, name in zip(parts, names, strict=True):
        for column in part.T:
            length = float(np.linalg.norm(column))
            centred = column - column.mean()
            if np.linalg.norm(centred) <= _DEPENDENT * length or not length:
                raise InvalidInput(f"{where}, column {shown(name)} is the same for everybody; leave it out")
            centred = centred / np.linalg.norm(centred)
            left = _beside(basis, centred)
            if np.linalg.norm(left) <= _DEPENDENT:
                raise InvalidInput(
                    f"{where}, column {shown(name)} is a combination of the columns before it; leave it out"
                )
            basis = np.column_stack([basis, left / np.linalg.norm(left)])
            kept.append(centred * np.sqrt(n))
        if basis.shape[1] + 2 > n:
            raise InvalidInput(f"{where}: {basis.shape[1] - 1} columns for {n} people; give fewer covariates")
    return np.column_stack(kept) if kept else np.empty((n, 0))


def _beside(basis: FloatArray, column: FloatArray) -> FloatArray:
    """What a column adds to an orthonormal basis (n, k), (n,)."""
    left = column - basis @ (basis.T @ column)
    # twice, because the first projection leaves rounding errors
    return np.asarray(left - basis @ (basis.T @ left))


def told_apart(columns: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Who is not alone with what the columns (n, k) say, (n,), and the standardized columns that these people tell apart.

    Somebody who is alone, as in a stratum of one, is fitted exactly whatever the answer, and has nobody to be compared with.
    """
    people = np.ones(len(columns), dtype=np.bool_)
    while True:
        own = columns[people]
        basis: NDArray[np.float64] = np.full((len(own), 1), max(len(own), 1) ** -0.5)
        kept = []
        for column in own.T:
            centred = column - column.mean() if column.size else column
            left = _beside(basis, centred)
            if np.linalg.norm(left) > _DEPENDENT * np.linalg.norm(column):
                basis = np.column_stack([basis, left / np.linalg.norm(left)])
                kept.append(centred / centred.std())
        alone = np.sum(basis**2, axis=1) > 1 - ALONE
        if not alone.any() or not len(own):
            return people, np.column_stack(kept) if kept else np.empty((len(own), 0))
        people[np.flatnonzero(people)[alone]] = False
