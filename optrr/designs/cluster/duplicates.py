"""Near-duplicate attributes: randomize one of them, recompute the other afterwards (SIC §4).

Where two attributes depend on each other almost fully, one of them represents both: it alone enters the mechanism, and
tables of the other follow from it and their conditional distribution, which comes from the estimated or public pair table.
That saves the other's ε and the cluster's combinations; the price is that nothing is learned about where the two differ
beyond that conditional distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.dependence.learned import Dependences
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Representatives:
    """Which attributes stay, and what stands for the dropped ones.

    Attributes
    ----------
    kept
        names that stay, in order.
    stands_for
        dropped name to kept name.
    conditional
        dropped name to Pr(dropped = b | kept = a), shape (r_kept, r_dropped), rows sum to 1.
    """

    kept: tuple[str, ...]
    stands_for: dict[str, str]
    conditional: dict[str, FloatArray]

    def restored(self, table: ArrayLike, name: str, axis: int) -> FloatArray:
        """A table with its ``axis``, the representative's, exchanged for dropped attribute ``name``'s."""
        if name not in self.conditional:
            raise InvalidInput(
                f"attribute {name!r} was not dropped; dropped are {', '.join(self.stands_for) or 'none'}"
            )
        moved = np.moveaxis(np.asarray(table, dtype=np.float64), axis, -1)
        return np.moveaxis(moved @ self.conditional[name], -1, axis)


def drop_near_duplicates(
    domain: Domain,
    dependences: Dependences,
    pair_table: Callable[[str, str], ArrayLike],
    threshold: float = 0.95,
) -> Representatives:
    """Drop every attribute whose dependence on a kept one reaches ``threshold``; the larger attribute of two stays.

    A V of 1 means that the attribute with more categories determines the other, so the larger one represents.

    Parameters
    ----------
    pair_table
        (kept, dropped) to their table of proportions or counts, no negative entries, axes in this order.

    Raises
    ------
    InvalidInput
        for a threshold outside 0..1, or dependences of other attributes.
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"the threshold is {threshold}; give a dependence above 0, up to 1")
    if dependences.names != domain.names:
        raise InvalidInput("the dependences are of other attributes than the domain's; learn them for this domain")
    kept: list[int] = []
    stands_for: dict[str, str] = {}
    for i in sorted(range(domain.m), key=lambda i: (-int(domain.sizes[i]), i)):
        near = [k for k in kept if dependences.matrix[i, k] >= threshold]
        if near:
            best = max(near, key=lambda k: float(dependences.matrix[i, k]))
            stands_for[domain.names[i]] = domain.names[best]
        else:
            kept.append(i)
    conditional = {d: _rows_of(pair_table(k, d), (domain[k].size, domain[d].size)) for d, k in stands_for.items()}
    return Representatives(tuple(domain.names[i] for i in sorted(kept)), stands_for, conditional)


def _rows_of(table: ArrayLike, shape: Sequence[int]) -> FloatArray:
    """Rows as conditional distributions; a category nobody has gets the marginal."""
    values = np.asarray(table, dtype=np.float64)
    if values.shape != tuple(shape) or values.min() < 0 or not values.sum() > 0:
        raise InvalidInput(f"a pair table has shape {values.shape}; give {tuple(shape)}, without negative entries")
    sums = values.sum(axis=1, keepdims=True)
    return np.where(sums > 0, values / np.where(sums > 0, sums, 1.0), values.sum(axis=0) / values.sum())
