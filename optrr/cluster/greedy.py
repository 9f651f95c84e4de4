"""Clusters of attributes by their dependence, from the strongest down (MDR §4, Algorithm 1).

Start with every attribute alone. Take pairs of clusters in descending order of dependence (the largest between an attribute
of one and an attribute of the other); merge the first pair whose product of sizes is at most T_v; start over; stop below T_d.

The paper recomputes and sorts the list after every merge. But clusters only grow, so a pair that was too large stays too large;
and the dependence of two clusters is that of their strongest pair of attributes. One pass over the pairs of *attributes* in
descending order therefore makes the same merges: O(m² log m), where the literal loop takes O(m² log m) per merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput

Clusters = tuple[tuple[int, ...], ...]


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
        for a matrix of another shape, T_v below 2 or T_d outside 0..1.
    """
    strength = _checked(dependence, len(sizes), max_combinations, min_dependence)
    cluster_of = [[i] for i in range(len(sizes))]
    combinations = [int(r) for r in sizes]
    first, second = np.triu_indices(len(sizes), 1)
    values = strength[first, second]
    # a stable sort keeps equal dependences in the order of the attributes
    for k in np.argsort(-values, kind="stable"):
        if values[k] < min_dependence:
            break
        i, j = int(first[k]), int(second[k])
        one, other = cluster_of[i], cluster_of[j]
        if one is other or combinations[one[0]] * combinations[other[0]] > max_combinations:
            continue
        merged = sorted(one + other)
        combinations[merged[0]] = combinations[one[0]] * combinations[other[0]]
        for member in merged:
            cluster_of[member] = merged
    return tuple(sorted({tuple(c) for c in cluster_of}))


def combinations_of(cluster: Sequence[int], sizes: Sequence[int]) -> int:
    """Π r_i over a cluster: how many combinations of values it has."""
    return prod(int(sizes[i]) for i in cluster)


def _checked(
    dependence: ArrayLike, m: int, max_combinations: int, min_dependence: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    strength = np.array(dependence, dtype=np.float64)
    if strength.shape != (m, m) or not np.array_equal(strength, strength.T):
        raise InvalidInput(f"dependences of {m} attributes got an array of shape {strength.shape}; give it symmetric, m by m")
    if max_combinations < 2:
        raise InvalidInput(f"at most {max_combinations} combinations in a cluster were allowed; allow 2 or more")
    if not 0 <= min_dependence <= 1:
        raise InvalidInput(f"the smallest dependence to cluster at is {min_dependence}; give a number from 0 to 1")
    return strength
