"""Coarsening: merging categories until a domain or a cluster has few enough combinations (SIC §4, its fallback).

Where every pair of attributes is dependent, no clustering keeps n ≫ Π r_i, and SIC merges categories instead. Each step
merges, in the attribute with the most categories, the two that together are rarest (neighbours only, where the categories are
in order). How common they are may come from public data or from an estimate; without it they count as equally common. The
merging must not be decided by looking at protected records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.domain import Attribute, Domain
from optrr.errors import InvalidInput
from optrr_solvers.problem import FloatArray, IntArray

# Joins the texts of merged categories into the new category's.
JOINT = " | "


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Old categories to merged ones, attribute by attribute.

    Attributes
    ----------
    before, domain
        the domain as it was, and with merged categories.
    groups
        for every attribute the new code of each old code, shape (r_i,).
    """

    before: Domain
    domain: Domain
    groups: tuple[IntArray, ...]

    def codes(self, codes: NDArray[np.integer]) -> IntArray:
        """Codes of the merged categories, shape (n, m)."""
        return np.stack([g[codes[:, i]] for i, g in enumerate(self.groups)], axis=1)

    def spread(self, table: ArrayLike, names: Sequence[str]) -> FloatArray:
        """A table over merged categories as one over the old ones, shared evenly within each merged category."""
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
    """Merge categories until Π r_i is at most ``max_combinations``; every attribute keeps at least two.

    Parameters
    ----------
    marginals
        how common each category is, by attribute; from public data or an estimate.
    ordinal
        attributes whose categories are in order: only neighbours are merged.

    Raises
    ------
    InvalidInput
        where two categories each are already too many (2^m above the limit), and for unknown names or bad marginals.
    """
    if 2**domain.m > max_combinations:
        raise InvalidInput(
            f"{domain.m} attributes of two categories have {2**domain.m} combinations, more than {max_combinations}; "
            "split the attributes into clusters first"
        )
    weights = [_weights(a, (marginals or {}).get(a.name)) for a in domain]
    parts: list[list[list[int]]] = [[[c] for c in range(a.size)] for a in domain]
    in_order = {domain.index(name) for name in ordinal}
    for name in marginals or {}:
        domain.index(name)
    while prod(len(p) for p in parts) > max_combinations:
        i = max(range(domain.m), key=lambda i: len(parts[i]))
        _merge_rarest(parts[i], weights[i], neighbours=i in in_order)
    groups = tuple(_group_codes(p, a.size) for p, a in zip(parts, domain, strict=True))
    attributes = tuple(
        Attribute(a.name, tuple(_joined(a, part) for part in p)) for p, a in zip(parts, domain, strict=True)
    )
    return Coarsening(domain, Domain(attributes), groups)


def _weights(attribute: Attribute, marginal: ArrayLike | None) -> FloatArray:
    if marginal is None:
        return np.ones(attribute.size)
    values = np.asarray(marginal, dtype=np.float64)
    if values.shape != (attribute.size,) or not np.all(values >= 0):
        raise InvalidInput(
            f"the marginal of {attribute.name!r} has shape {values.shape}; give {attribute.size} numbers of at least 0"
        )
    return values


def _merge_rarest(parts: list[list[int]], weights: FloatArray, neighbours: bool) -> None:
    mass = [float(weights[p].sum()) for p in parts]
    if neighbours:
        at = min(range(len(parts) - 1), key=lambda k: mass[k] + mass[k + 1])
        first, second = at, at + 1
    else:
        first, second = sorted(sorted(range(len(parts)), key=lambda k: (mass[k], k))[:2])
    parts[first] = sorted(parts[first] + parts[second])
    del parts[second]


def _group_codes(parts: Sequence[Sequence[int]], size: int) -> IntArray:
    out = np.empty(size, dtype=np.int64)
    for code, part in enumerate(parts):
        out[list(part)] = code
    return out


def _joined(attribute: Attribute, part: Sequence[int]) -> str | int | bool | None:
    if len(part) == 1:
        return attribute.categories[part[0]]
    return JOINT.join("" if t is None else t for t in (attribute.texts[c] for c in part))
