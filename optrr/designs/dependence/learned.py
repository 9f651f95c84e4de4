"""What a method of learning dependences hands on: the matrix, how it was measured, and what it cost each person."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from optrr.domain.domain import Domain
from optrr.domain.scores import PairScores, checked_scores
from optrr.errors import InvalidInput
from optrr.releases.spent import Account
from optrr_solvers.arrays import FloatArray

# Rows and columns of a tile that stays in the cache.
_TILE = 128


@dataclass(frozen=True, eq=False)
class Dependences:
    """Dependence of every two attributes, in 0..1.

    Attributes
    ----------
    names
        of the attributes, in order.
    matrix
        shape (m, m), symmetric, 1 on the diagonal.
    account
        what learning it cost one person.
    """

    names: tuple[str, ...]
    matrix: FloatArray
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_matrix(self.matrix, len(self.names)))

    def of(self, a: str, b: str) -> float:
        """Dependence of two named attributes."""
        return float(self.matrix[self.names.index(a), self.names.index(b)])


def checked_matrix(dependence: ArrayLike, m: int) -> FloatArray:
    """The matrix as floats. Raises InvalidInput unless it is m by m, symmetric, with entries in 0..1."""
    values = np.asarray(dependence, dtype=np.float64)
    if values.shape != (m, m) or not _symmetric(values):
        raise InvalidInput(
            f"dependences of {m} attributes got an array of shape {values.shape}; give it symmetric, m by m"
        )
    if not np.all((values >= 0) & (values <= 1)):
        raise InvalidInput("a dependence is not between 0 and 1; give |r| or Cramér's V")
    return values


def _symmetric(values: FloatArray) -> bool:
    # tile by tile: reading a large matrix across its rows misses the cache at every entry
    starts = range(0, len(values), _TILE)
    return all(
        np.array_equal(values[i : i + _TILE, j : j + _TILE], values[j : j + _TILE, i : i + _TILE].T, equal_nan=True)
        for i in starts
        for j in starts
        if i <= j
    )


def needing_pairs(domain: Domain) -> Domain:
    """The domain itself, if it has a pair of attributes."""
    if domain.m < 2:
        raise InvalidInput(f"dependences need at least two attributes; the domain has only {domain.names[0]!r}")
    return domain


def dependence_matrix(
    domain: Domain, ordinal: Collection[str], measure: Callable[[tuple[str, str], PairScores | None], float]
) -> FloatArray:
    """Fill a symmetric matrix from ``measure(names, scores)``, shape (m, m); m(m−1)/2 calls.

    The scores are None where one of the two is not ordinal.

    Raises
    ------
    InvalidInput
        where ``ordinal`` names what is no attribute.
    """
    scores = {name: checked_scores(domain[name], None) for name in ordinal}
    out = np.eye(domain.m)
    for a, b in combinations(domain.names, 2):
        i, j = domain.index(a), domain.index(b)
        both = (scores[a], scores[b]) if a in scores and b in scores else None
        out[i, j] = out[j, i] = measure((a, b), both)
    return out
