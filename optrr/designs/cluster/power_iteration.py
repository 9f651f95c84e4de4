"""Power iteration clustering of attributes (SIC §4; Lin & Cohen, ICML 2010).

The graph's edges carry the dependences A (SIC labels them with distances 1/A); W = (I + D⁻¹A)/2 is its lazy random walk, which
stays where it is in half of its steps. Start at v_i = (row sum i)/(sum), iterate v ← W v/‖W v‖₁, and stop when the *change of
the change* is below a threshold: by then v is nearly constant within clusters and not yet over the whole graph. Cluster the m
numbers v_i into k groups.

A walk that never stays can swing: where every attribute depends a little on every other, the slowest part of v may be one that
changes its sign at every step, and says nothing of clusters. Adult's clusters then differ from one draw of the randomized
dependences to the next; those of the lazy walk, whose eigenvalues are from 0 to 1, do not (`benchmarks/sic_table1.py`).

In one dimension k-means has an exact answer: an optimal group is an interval, so dynamic programming over the sorted values
finds it in O(k m²), and nothing here is random. Attributes without any dependence are clusters of their own. Groups whose
attributes have equal row sums look alike to the walk from its first step on, and are put into one group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.dependence.learned import checked_matrix
from optrr.errors import InvalidInput
from optrr_solvers.arrays import FloatArray, IntArray

Clusters = tuple[tuple[int, ...], ...]

# Per node. Lin & Cohen stop at 1e-5 with a walk that never stays; a lazy one needs longer to tell groups apart as well.
_ACCELERATION = 1e-7
_MAX_STEPS = 1000


def power_iteration_clusters(dependence: ArrayLike, clusters: int = 3) -> Clusters:
    """At most ``clusters`` groups of dependent attributes, and every unrelated attribute alone; sizes are not limited.

    Raises
    ------
    InvalidInput
        for a matrix that is not symmetric with entries in 0..1, or fewer than one cluster.
    """
    affinity = checked_affinity(dependence)
    if clusters < 1:
        raise InvalidInput(f"{clusters} clusters were asked for; give 1 or more")
    linked = np.flatnonzero(affinity.sum(axis=1) > 0)
    alone = [(int(i),) for i in np.flatnonzero(affinity.sum(axis=1) == 0)]
    if linked.size:
        values = power_iteration(affinity[np.ix_(linked, linked)])
        labels = interval_means(values, min(clusters, linked.size))
        alone += [tuple(linked[labels == g].tolist()) for g in np.unique(labels)]
    return tuple(sorted(alone))


def checked_affinity(dependence: ArrayLike) -> FloatArray:
    """A copy of the matrix with an empty diagonal. Raises InvalidInput where it is no matrix of dependences."""
    values = np.array(dependence, dtype=np.float64)
    affinity = checked_matrix(values, values.shape[0] if values.ndim else 0)
    if not affinity.size:
        raise InvalidInput("dependences of no attributes; give at least one")
    np.fill_diagonal(affinity, 0.0)
    return affinity


def power_iteration(affinity: FloatArray) -> FloatArray:
    """The truncated power iteration's vector, shape (m,); every row of ``affinity`` has a positive sum. O(m²) a step."""
    return next(v for v, steady in iterates(affinity) if steady)


def iterates(affinity: FloatArray) -> Iterator[tuple[FloatArray, bool]]:
    """The vector after each step, and whether to stop there."""
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
    """Exact k-means of numbers: labels 0..k−1 (fewer where fewer values differ), shape (m,); O(k m²) time."""
    order = np.argsort(values, kind="stable")
    x = values[order] - values[order].mean()
    k, m = min(k, np.unique(x).size), x.size
    sums, squares = np.append(0.0, np.cumsum(x)), np.append(0.0, np.cumsum(x**2))
    # least cost of the first e values in g + 1 groups, and where the last of these groups starts
    best, starts = np.full((k, m + 1), np.inf), np.zeros((k, m + 1), dtype=np.int64)
    for end in range(1, m + 1):
        # squared distances from their mean of the values start, …, end − 1
        cost = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / np.arange(end, 0, -1)
        cost = np.maximum(cost, 0.0)
        best[0, end] = cost[0]
        for g in range(1, min(k, end)):
            # a group has at least one value, and so has each of those before it
            total = best[g - 1, g:end] + cost[g:]
            starts[g, end] = g + np.argmin(total)
            best[g, end] = total[starts[g, end] - g]
    labels, end = np.empty(m, dtype=np.int64), m
    for g in range(k - 1, -1, -1):
        labels[order[starts[g, end] : end]] = g
        end = starts[g, end]
    return labels
