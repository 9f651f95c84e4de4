"""Fewer categories and fewer attributes, for records that no clustering serves (SIC §5).

Where every pair of attributes is dependent, no clustering keeps n ≫ Π r_i, and SIC merges categories instead. Each step
merges, in the attribute with the most categories, the two that together are rarest (neighbours only, where the categories are
in order). How common they are may come from public data or from an estimate;
without it they count as equally common. The merging must not be decided by looking at protected records.

Where two attributes depend on each other almost fully, one of them represents both: it alone enters the mechanism, and
tables of the other follow from it and their conditional distribution, which comes from the estimated or public pair table.
That saves the other's ε and the cluster's combinations; the price is that nothing is learned about where the two differ
beyond that conditional distribution.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.display import brief
from optrr.core.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.protocols import Dependences
from optrr_solvers.arrays import FloatArray, IntArray

Parts = list[list[int]]


# Separator of the texts of merged categories.
JOINT = " | "


@dataclass(frozen=True, eq=False)
class Coarsening:
    """A domain with merged categories.

    The original domain, the merged one, and per attribute the new code of each old code, shape (r_i,).
    """

    before: Domain
    domain: Domain
    groups: tuple[IntArray, ...]

    def codes(self, codes: NDArray[np.integer]) -> IntArray:
        """Convert to codes of the merged categories, shape (n, m)."""
        return np.stack([g[codes[:, i]] for i, g in enumerate(self.groups)], axis=1)

    def spread(self, table: ArrayLike, names: Sequence[str]) -> FloatArray:
        """Spread a table over merged categories evenly over the old ones."""
        out = np.asarray(table, dtype=np.float64)
        for axis, i in enumerate(self.before.indices(names)):
            group = self.groups[i]
            share = 1 / np.bincount(group)[group]
            out = np.moveaxis(np.moveaxis(out, axis, -1)[..., group] * share, -1, axis)
        return out


def coarsen(
    domain: Domain,
    max_combinations: int,
    *,
    marginals: Mapping[str, ArrayLike] | None = None,
    ordinal: Collection[str] = (),
) -> Coarsening:
    """Merge categories until Π r_i is at most ``max_combinations``.

    Every attribute keeps at least two.

    ``marginals`` say how common each category is, by attribute; from public data or an estimate. Of ``ordinal`` attributes,
    whose categories are in order, only neighbours are merged.

    Raises InvalidInput where two categories each are already too many (2^m above the limit), and for unknown names or bad
    marginals.
    """
    if 2**domain.m > max_combinations:
        raise InvalidInput(
            f"{domain.m} attributes of two categories have {2**domain.m} combinations, more than {max_combinations}; "
            "split the attributes into clusters first"
        )
    weights = [_weights(a, (marginals or {}).get(a.name)) for a in domain]
    in_order = {domain.index(name) for name in ordinal}
    for name in marginals or {}:
        domain.index(name)
    # one is taken off the largest size, the first of equals, until the product is within the limit
    wanted, product = domain.sizes.tolist(), math.prod(domain.sizes.tolist())
    while product > max_combinations:
        i = wanted.index(max(wanted))
        product = product // wanted[i] * (wanted[i] - 1)
        wanted[i] -= 1
    groups, attributes = [], []
    for i, a in enumerate(domain):
        parts = (_merged_neighbours if i in in_order else _merged_rarest)(weights[i].tolist(), wanted[i])
        group = np.empty(a.size, dtype=np.int64)
        for code, part in enumerate(parts):
            group[part] = code
        groups.append(group)
        texts = [JOINT.join(a.texts[c] or "" for c in part) for part in parts]
        merged = [a.categories[p[0]] if len(p) == 1 else text for p, text in zip(parts, texts, strict=True)]
        attributes.append(Attribute(a.name, tuple(merged)))
    return Coarsening(domain, Domain(tuple(attributes)), tuple(groups))


def _weights(attribute: Attribute, marginal: ArrayLike | None) -> FloatArray:
    if marginal is None:
        return np.ones(attribute.size)
    values = np.asarray(marginal, dtype=np.float64)
    if values.shape != (attribute.size,) or not np.all((values >= 0) & (values < np.inf)):
        raise InvalidInput(
            f"the marginal of {attribute.name!r} is {brief(marginal)}; give {attribute.size} finite numbers of at least 0"
        )
    return values


def _merged_rarest(masses: list[float], wanted: int) -> Parts:
    """Merge the two rarest parts until ``wanted`` are left.

    A merged part takes the place of its first member.
    """
    parts = {i: [i] for i in range(len(masses))}
    heap = [(mass, i) for i, mass in enumerate(masses)]
    heapify(heap)
    for _ in range(len(masses) - wanted):
        (mass, i), (other_mass, j) = heappop(heap), heappop(heap)
        small, large = sorted((parts.pop(i), parts.pop(j)), key=len)
        large += small
        parts[min(i, j)] = large
        heappush(heap, (mass + other_mass, min(i, j)))
    return [sorted(parts[i]) for i in sorted(parts)]


def _merged_neighbours(masses: list[float], wanted: int) -> Parts:
    """Merge the two rarest adjacent parts until ``wanted`` are left."""
    mass, parts = np.array(masses), [[i] for i in range(len(masses))]
    while len(parts) > wanted:
        i = int(np.argmin(mass[:-1] + mass[1:]))
        mass[i] += mass[i + 1]
        mass = np.delete(mass, i + 1)
        parts[i] += parts.pop(i + 1)
    return parts


@dataclass(frozen=True, eq=False)
class Representatives:
    """Kept attributes in order, and the representative of each dropped one.

    ``conditional`` is, by dropped name, Pr(dropped = b | kept = a), shape (r_kept, r_dropped), rows sum to 1.
    """

    kept: tuple[str, ...]
    stands_for: dict[str, str]
    conditional: dict[str, FloatArray]

    def restored(self, table: ArrayLike, name: str, axis: int) -> FloatArray:
        """Exchange the representative's ``axis`` of a table for a dropped attribute's."""
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
    """Drop every attribute whose dependence on a kept one reaches ``threshold``.

    The larger attribute of two is kept.

    A V of 1 means that the attribute with more categories determines the other, so the larger one represents. ``pair_table`` is
    from (kept, dropped) to their table of proportions or counts, no negative entries, axes in this order.

    Raises InvalidInput for a threshold outside 0..1, or dependences of other attributes.
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"the threshold is {threshold}; give a dependence above 0, up to 1")
    dependences.require(domain)
    kept: list[int] = []
    stands_for: dict[str, str] = {}
    for i in sorted(range(domain.m), key=lambda i: (-int(domain.sizes[i]), i)):
        near = [k for k in kept if dependences.matrix[i, k] >= threshold]
        if near:
            best = max(near, key=lambda k: float(dependences.matrix[i, k]))
            stands_for[domain.names[i]] = domain.names[best]
        else:
            kept.append(i)
    conditional = {}
    for dropped, stands in stands_for.items():
        values, shape = (
            np.asarray(pair_table(stands, dropped), dtype=np.float64),
            (domain[stands].size, domain[dropped].size),
        )
        if values.shape != shape or values.min() < 0 or not values.sum() > 0:
            raise InvalidInput(f"a pair table has shape {values.shape}; give {shape}, without negative entries")
        sums = values.sum(axis=1, keepdims=True)
        # a category without records gets the marginal distribution
        rows = values / np.where(sums > 0, sums, 1.0)
        conditional[dropped] = np.where(sums > 0, rows, values.sum(axis=0) / values.sum())
    return Representatives(tuple(domain.names[i] for i in sorted(kept)), stands_for, conditional)
