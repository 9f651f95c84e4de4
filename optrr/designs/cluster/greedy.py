"""Clusters of attributes by their dependence, from the strongest down (MDR §4, Algorithm 1).

Start with every attribute alone. Take pairs of clusters in descending order of dependence (the largest between an attribute
of one and an attribute of the other); merge the first pair whose product of sizes is at most T_v; start over; stop below T_d.

The paper recomputes and sorts the list after every merge. But clusters only grow, so a pair that was too large stays too large;
and the dependence of two clusters is that of their strongest pair of attributes. One pass over the pairs of *attributes* in
descending order therefore makes the same merges. It sorts them in portions, strongest first, and after each portion drops
the pairs that are within one cluster or too large by then, most of those that are left: O(m²) memory, and time between O(m²)
and O(m² log m), where the literal loop takes O(m² log m) per merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.designs.dependence.learned import checked_matrix
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray

Clusters = tuple[tuple[int, ...], ...]

# A margin far above the rounding of logarithms.
_ROUNDING = 1e-6
# Pairs per attribute in the first portion; a few times the merges there can be.
_FIRST_PORTION = 8


def greedy_clusters(
    dependence: ArrayLike, sizes: Sequence[int], max_combinations: int, min_dependence: float
) -> Clusters:
    """MDR's Algorithm 1.

    Parameters
    ----------
    dependence
        shape (m, m), symmetric, in 0..1; its diagonal is not looked at.
    sizes
        r_i, m of them.
    max_combinations
        T_v. An attribute that alone has more categories stays alone: it cannot be made smaller here (coarsen it).
    min_dependence
        T_d in 0..1: weaker pairs are not merged.

    Returns
    -------
    tuple of tuples
        attribute positions, ascending in each cluster, clusters by their first attribute. Equal dependences are taken in
        the order of the attributes.

    Raises
    ------
    InvalidInput
        for a matrix that is not symmetric, m by m, in 0..1; T_v below 2 or T_d outside 0..1.
    """
    m = len(sizes)
    strength = checked_matrix(dependence, m)
    check_limits(max_combinations, min_dependence)
    merging = _Merging(sizes, max_combinations)
    # pairs as positions in the flattened matrix: ascending, they are in the order of the attributes
    left = np.flatnonzero(np.triu(strength >= min_dependence, 1))
    values, portion = strength.ravel()[left], _FIRST_PORTION * m
    while left.size:
        strongest = _strongest(values, portion)
        pairs = left[strongest]
        for pair in pairs[np.argsort(-values[strongest], kind="stable")].tolist():
            merging.merge(*divmod(pair, m))
        rest = np.flatnonzero(~strongest)
        rest = rest[merging.possible(*np.divmod(left[rest], m))]
        left, values, portion = left[rest], values[rest], 2 * portion
    return merging.clusters()


def _strongest(values: FloatArray, count: int) -> NDArray[np.bool_]:
    """Mask of the ``count`` largest values, and of all that equal the least of them."""
    if values.size <= count:
        return np.ones(values.size, dtype=np.bool_)
    return np.asarray(values >= np.partition(values, values.size - count)[values.size - count])


class _Merging:
    """Clusters while they grow."""

    def __init__(self, sizes: Sequence[int], max_combinations: int) -> None:
        self._limit = max_combinations
        self._members = [[i] for i in range(len(sizes))]
        # of every attribute: the first attribute of its cluster, and its cluster's combinations
        self._first = np.arange(len(sizes))
        self._combinations = [min(int(r), max_combinations + 1) for r in sizes]

    def merge(self, i: int, j: int) -> None:
        """Put the clusters of two attributes together, unless they are one, or too large."""
        one, other = sorted((int(self._first[i]), int(self._first[j])))
        together = self._combinations[one] * self._combinations[other]
        if one == other or together > self._limit:
            return
        self._first[self._members[other]] = one
        self._members[one] += self._members[other]
        self._combinations[one] = together

    def possible(self, i: IntArray, j: IntArray) -> NDArray[np.bool_]:
        """Which pairs could still be merged: no other ever will be."""
        one, other = self._first[i], self._first[j]
        # in logarithms, because products may be too large for a float; ``merge`` decides again where a product is near the
        # limit
        sizes = np.array([math.log(c) for c in self._combinations])
        return np.asarray((one != other) & (sizes[one] + sizes[other] <= math.log(self._limit) + _ROUNDING))

    def clusters(self) -> Clusters:
        """Ascending in each cluster, clusters by their first attribute."""
        firsts = np.unique(self._first).tolist()
        return tuple(tuple(sorted(self._members[i])) for i in firsts)


def combinations_of(cluster: Sequence[int], sizes: Sequence[int]) -> int:
    """Π r_i over a cluster: how many combinations of values it has."""
    return math.prod(int(sizes[i]) for i in cluster)


def check_limits(max_combinations: int, min_dependence: float) -> None:
    """Raises InvalidInput for T_v below 2 or T_d outside 0..1."""
    if max_combinations < 2:
        raise InvalidInput(f"at most {max_combinations} combinations in a cluster were allowed; allow 2 or more")
    if not 0 <= min_dependence <= 1:
        raise InvalidInput(f"the smallest dependence to cluster at is {min_dependence}; give a number from 0 to 1")
