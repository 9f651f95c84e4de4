"""Clusters of attributes by their dependence, each within the same limits T_v and T_d (MDR §4).

MDR's Algorithm 1 starts with every attribute alone. It takes pairs of clusters in descending order of dependence (the largest
between an attribute of one and an attribute of the other), merges the first pair whose product of sizes is at most T_v, starts
over, and stops below T_d.

The paper recomputes and sorts the list after every merge. But clusters only grow, so a pair that was too large stays too large;
and the dependence of two clusters is that of their strongest pair of attributes. One pass over the pairs of *attributes* in
descending order therefore makes the same merges, in O(m² log m) where the literal loop takes as much per merge.

Power iteration (SIC §4; Lin & Cohen, ICML 2010) has no limit on combinations, and puts every attribute into some group,
however weak its dependences are: MDR §7 names both as SIC's faults. So dependences below T_d count as 0, and inside each of its
clusters Algorithm 1 decides what may stay together.

The graph's edges carry the dependences A (SIC labels them with distances 1/A); W = (I + D⁻¹A)/2 is its lazy random walk, which
stays where it is in half of its steps. Start at v_i = (row sum i)/(sum), iterate v ← W v/‖W v‖₁, and stop when the *change of
the change* is below a threshold: by then v is nearly constant within clusters and not yet over the whole graph. Cluster the m
numbers v_i into k groups.

A walk that never stays can swing: where every attribute depends a little on every other, the slowest part of v may be
one that changes its sign at every step, and has no information on clusters. Adult's clusters then differ from one draw
of the randomized dependences to the next; those of the lazy walk, whose eigenvalues are from 0 to 1, do not
(`benchmarks/sic_table1.py`).

In one dimension k-means has an exact answer: an optimal group is an interval, so dynamic programming over the sorted
values finds it in O(k m²), and nothing here is random. Each attribute without any dependence is a cluster by itself.
Groups whose attributes have equal row sums look alike to the walk from its first step on, and are put into one group.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.domain.domain import Domain, listed
from optrr.core.errors import InvalidInput
from optrr.core.protocols.dependence import Dependences, checked_matrix
from optrr_solvers.arrays import FloatArray, IntArray

Clusters = tuple[tuple[int, ...], ...]

# Per node. Lin & Cohen stop at 1e-5 with a walk that never stays; a lazy one needs longer to separate groups as well.
_ACCELERATION = 1e-7
_MAX_STEPS = 1000
# Decimals that separate attributes: the walk's rounding is below 1e-12, and its steps stop at 1e-7.
_DIGITS = 10


def power_iteration_clusters(dependence: ArrayLike, clusters: int = 3) -> Clusters:
    """Cluster dependent attributes by power iteration.

    At most ``clusters`` groups; every unrelated attribute is alone; sizes are not limited.

    Raises InvalidInput for a matrix that is not symmetric with entries in 0..1, or fewer than one cluster.
    """
    affinity = checked_affinity(dependence)
    if clusters < 1:
        raise InvalidInput(f"{clusters} clusters cannot be made; give 1 or more")
    linked = np.flatnonzero(affinity.sum(axis=1) > 0)
    alone = [(int(i),) for i in np.flatnonzero(affinity.sum(axis=1) == 0)]
    if linked.size:
        values = next(v for v, steady in iterates(affinity[np.ix_(linked, linked)]) if steady)
        # on average 1; without rounding, equally dependent attributes would be separated by the last bits of their sums
        labels = interval_means(np.round(values * linked.size, _DIGITS), min(clusters, linked.size))
        alone += [tuple(linked[labels == g].tolist()) for g in np.unique(labels)]
    return tuple(sorted(alone))


def checked_affinity(dependence: ArrayLike) -> FloatArray:
    """Copy the matrix with an empty diagonal; raise InvalidInput if invalid."""
    values = np.array(dependence, dtype=np.float64)
    affinity = checked_matrix(values, values.shape[0] if values.ndim else 0)
    if not affinity.size:
        raise InvalidInput("dependences of no attributes; give at least one")
    np.fill_diagonal(affinity, 0.0)
    return affinity


def iterates(affinity: FloatArray) -> Iterator[tuple[FloatArray, bool]]:
    """Iterate over the walk's vectors, shape (m,), and whether to stop.

    Every row has a positive sum. O(m²) per step.
    """
    degrees = affinity.sum(axis=1)
    v = degrees / degrees.sum()
    change = np.zeros(v.size)
    for k in range(_MAX_STEPS):
        following = (v + affinity @ v / degrees) / 2
        following /= following.sum()
        step = np.abs(following - v)
        steady = np.abs(step - change).max() <= _ACCELERATION / v.size
        v, change = following, step
        yield v, bool(steady) or k == _MAX_STEPS - 1


def interval_means(values: FloatArray, k: int) -> IntArray:
    """Compute the exact k-means of numbers.

    Labels 0..k−1, fewer if fewer values differ, shape (m,); O(k m²) time.
    """
    order = np.argsort(values, kind="stable")
    x = values[order] - values[order].mean()
    k, m = min(k, np.unique(x).size), x.size
    sums, squares = np.append(0.0, np.cumsum(x)), np.append(0.0, np.cumsum(x**2))
    # squared distances from their mean of the values start, …, end − 1, of which there is at least one
    start, end = np.triu_indices(m + 1, 1)
    cost = np.full((m + 1, m + 1), np.inf)
    cost[start, end] = np.maximum(squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start), 0.0)
    # least cost of the first values in so many groups, and where the last of these groups starts
    best, starts = cost[0], []
    for _ in range(k - 1):
        total = best[:, None] + cost
        starts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    labels, stop = np.zeros(m, dtype=np.int64), m
    for g in range(k - 1, 0, -1):
        first = starts[g - 1][stop]
        labels[order[first:stop]] = g
        stop = first
    return labels


def greedy_clusters(
    dependence: ArrayLike, sizes: Sequence[int], max_combinations: int, min_dependence: float
) -> Clusters:
    """Cluster attributes by MDR's Algorithm 1.

    Returns attribute positions, ascending in each cluster, clusters by their first attribute. Equal dependences are taken in
    the order of the attributes.

    Raises InvalidInput for a matrix that is not symmetric, m by m, in 0..1; T_v below 2 or T_d outside 0..1.

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
    """
    m = len(sizes)
    strength = checked_matrix(dependence, m)
    check_limits(max_combinations, min_dependence)
    # pairs in the order of the attributes, which a stable sort keeps among equals
    pairs = np.argwhere(np.triu(strength >= min_dependence, 1))
    order = np.argsort(-strength[tuple(pairs.T)], kind="stable")
    clusters, combinations = {i: [i] for i in range(m)}, [int(r) for r in sizes]
    # of every attribute the first one of its cluster, which has the cluster's combinations
    first = list(range(m))
    for i, j in pairs[order].tolist():
        a, b = first[i], first[j]
        if a != b and combinations[a] * combinations[b] <= max_combinations:
            one, other = min(a, b), max(a, b)
            combinations[one] *= combinations[other]
            for member in clusters[other]:
                first[member] = one
            clusters[one] += clusters.pop(other)
    return tuple(tuple(sorted(members)) for members in clusters.values())


def combinations_of(cluster: Sequence[int], sizes: Sequence[int]) -> int:
    """Compute Π r_i of a cluster, its number of combinations."""
    return math.prod(int(sizes[i]) for i in cluster)


def check_limits(max_combinations: int, min_dependence: float) -> None:
    """Raise InvalidInput for T_v below 2 or T_d outside 0..1."""
    if max_combinations < 2:
        raise InvalidInput(f"``max_combinations``: {max_combinations} in a cluster; allow 2 or more")
    if not 0 <= min_dependence <= 1:
        raise InvalidInput(f"``min_dependence``: {min_dependence}; give a number from 0 to 1")


Algorithm = Literal["greedy", "pic"]
NamedClusters = tuple[tuple[str, ...], ...]


def choose_clusters(  # noqa: PLR0913 (the last two have defaults)
    domain: Domain,
    dependences: Dependences,
    max_combinations: int,
    min_dependence: float,
    algorithm: Algorithm = "greedy",
    clusters: int = 3,
) -> NamedClusters:
    """Cluster named attributes within T_v and T_d.

    By MDR's Algorithm 1 or SIC's power iteration.

    Power iteration forms ``clusters`` groups first; with no more attributes than that, one.

    Raises InvalidInput for dependences of other attributes, limits out of range, or an unknown algorithm.
    """
    dependences.require(domain)
    check_limits(max_combinations, min_dependence)
    sizes = domain.sizes.tolist()
    tied = np.where(dependences.matrix >= min_dependence, dependences.matrix, 0.0)
    groups: Clusters = (tuple(range(domain.m)),)
    if algorithm not in get_args(Algorithm) or clusters < 1:
        raise InvalidInput(f"clustering {algorithm!r} into {clusters} groups: choose greedy or pic, and 1 or more")
    # with each attribute in a separate group, Algorithm 1 would have nothing to do
    if clusters < domain.m and algorithm != "greedy":
        groups = power_iteration_clusters(tied, clusters)
    inside: list[tuple[int, ...]] = []
    for group in groups:
        part = dependences.matrix[np.ix_(group, group)]
        within = greedy_clusters(part, [sizes[i] for i in group], max_combinations, min_dependence)
        inside += [tuple(group[k] for k in c) for c in within]
    return named(tuple(sorted(inside)), domain)


def named(clusters: Clusters, domain: Domain) -> NamedClusters:
    """Convert positions to names."""
    return tuple(tuple(domain.names[i] for i in c) for c in clusters)


def checked_clusters(
    clusters: Sequence[Sequence[str]], domain: Domain, max_combinations: int | None = None
) -> Clusters:
    """Convert named clusters to positions and check them.

    Raises InvalidInput if an attribute is missing, repeated or unknown, or a cluster of several has too many combinations.
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
                f"cluster {names} has {combinations} combinations, more than {max_combinations}; split it or merge "
                "categories"
            )
    return indexed
