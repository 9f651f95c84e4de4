"""One entry to all clusterings, each within the same limits T_v and T_d (MDR §4).

Power iteration and spectral clustering have no limit on combinations, and put every attribute into some group, however weak its
dependences are: MDR §7 names both as SIC's faults. So dependences below T_d count as 0, and inside each of their clusters
Algorithm 1 decides what may stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from optrr.designs.cluster.greedy import Clusters, check_limits, combinations_of, greedy_clusters
from optrr.designs.cluster.power_iteration import power_iteration_clusters
from optrr.designs.cluster.spectral import spectral_clusters
from optrr.designs.dependence.learned import Dependences
from optrr.domain.domain import Domain, listed
from optrr.errors import InvalidInput

Algorithm = Literal["greedy", "pic", "spectral"]
NamedClusters = tuple[tuple[str, ...], ...]


def choose_clusters(  # noqa: PLR0913 (the last two have defaults)
    domain: Domain,
    dependences: Dependences,
    max_combinations: int,
    min_dependence: float,
    algorithm: Algorithm = "greedy",
    clusters: int = 3,
) -> NamedClusters:
    """Clusters of attribute names within T_v and T_d, by MDR's Algorithm 1, SIC's power iteration, or spectral clustering.

    Parameters
    ----------
    max_combinations, min_dependence
        T_v and T_d; see :func:`optrr.designs.cluster.greedy.greedy_clusters`.
    clusters
        how many groups power iteration and spectral clustering form first; with no more attributes than that, one.

    Raises
    ------
    InvalidInput
        for dependences of other attributes, limits out of range, or an unknown algorithm.
    """
    if dependences.names != domain.names:
        raise InvalidInput("the dependences are of other attributes than the domain's; learn them for this domain")
    check_limits(max_combinations, min_dependence)
    sizes = domain.sizes.tolist()
    tied = np.where(dependences.matrix >= min_dependence, dependences.matrix, 0.0)
    groups: Clusters = (tuple(range(domain.m)),)
    if algorithm not in get_args(Algorithm) or clusters < 1:
        raise InvalidInput(
            f"clustering {algorithm!r} into {clusters} groups: choose greedy, pic or spectral, and 1 or more"
        )
    # with each attribute in a group of its own, Algorithm 1 would have nothing to do
    if clusters < domain.m and algorithm != "greedy":
        groups = (power_iteration_clusters if algorithm == "pic" else spectral_clusters)(tied, clusters)
    inside: list[tuple[int, ...]] = []
    for group in groups:
        part = dependences.matrix[np.ix_(group, group)]
        within = greedy_clusters(part, [sizes[i] for i in group], max_combinations, min_dependence)
        inside += [tuple(group[k] for k in c) for c in within]
    return named(tuple(sorted(inside)), domain)


def named(clusters: Clusters, domain: Domain) -> NamedClusters:
    """Positions to names."""
    return tuple(tuple(domain.names[i] for i in c) for c in clusters)


def checked_clusters(
    clusters: Sequence[Sequence[str]], domain: Domain, max_combinations: int | None = None
) -> Clusters:
    """Positions of named clusters.

    Raises
    ------
    InvalidInput
        where an attribute is missing, repeated or unknown, or a cluster of several has too many combinations.
    """
    indexed = tuple(domain.indices(c) for c in clusters)
    flat = [i for c in indexed for i in c]
    missing = [domain.names[i] for i in range(domain.m) if i not in flat]
    if missing:
        raise InvalidInput(f"attribute {missing[0]!r} is in no cluster; put each of {listed(domain.names)} in one")
    if len(flat) > domain.m:
        twice = next(domain.names[i] for i in flat if flat.count(i) > 1)
        raise InvalidInput(f"attribute {twice!r} is in two clusters; put it in one")
    for members in indexed:
        combinations = combinations_of(members, domain.sizes.tolist())
        if max_combinations is not None and len(members) > 1 and combinations > max_combinations:
            names = ", ".join(domain.names[i] for i in members)
            raise InvalidInput(
                f"cluster {names} has {combinations} combinations, more than {max_combinations}; split it or coarsen it"
            )
    return indexed
