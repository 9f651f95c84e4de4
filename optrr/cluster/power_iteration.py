"""Power iteration clustering of attributes (SIC §4; Lin & Cohen, ICML 2010).

The graph's edges carry the dependences A (SIC labels them with distances 1/A); W = D⁻¹A is its random walk. Start at
v_i = (row sum i)/(sum), iterate v ← W v/‖W v‖₁, and stop when the *change of the change* is below a threshold: by then v is
nearly constant within clusters and not yet over the whole graph. Cluster the m numbers v_i into k groups.

In one dimension k-means has an exact answer: an optimal group is an interval, so dynamic programming over the sorted values
finds it in O(k m²), and nothing here is random. Attributes without any dependence are clusters of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr_solvers.problem import FloatArray, IntArray

Clusters = tuple[tuple[int, ...], ...]

# Lin & Cohen's threshold, per node.
_ACCELERATION = 1e-5
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
    """The matrix with an empty diagonal. Raises InvalidInput where it is no matrix of dependences."""
    affinity = np.array(dependence, dtype=np.float64)
    square = affinity.ndim == 2 and affinity.shape[0] == affinity.shape[1] > 0
    if not square or not np.array_equal(affinity, affinity.T) or not np.all((affinity >= 0) & (affinity <= 1)):
        raise InvalidInput(f"an array of shape {affinity.shape} is no symmetric matrix of dependences in 0..1")
    np.fill_diagonal(affinity, 0.0)
    return affinity


def power_iteration(affinity: FloatArray) -> FloatArray:
    """The truncated power iteration's vector, shape (m,); every row of ``affinity`` has a positive sum. O(m²) a step."""
    degrees = affinity.sum(axis=1)
    walk = affinity / degrees[:, None]
    v = degrees / degrees.sum()
    change = np.zeros(v.size)
    for _ in range(_MAX_STEPS):
        following = walk @ v
        following /= following.sum()
        step = np.abs(following - v)
        steady = np.abs(step - change).max() <= _ACCELERATION / v.size
        v, change = following, step
        if steady:
            break
    return np.asarray(v)


def interval_means(values: FloatArray, k: int) -> IntArray:
    """Exact k-means of numbers: labels 0..k−1 (fewer where fewer values differ), shape (m,); O(k m²) time."""
    order = np.argsort(values, kind="stable")
    x = values[order]
    m = x.size
    k = min(k, np.unique(x).size)
    cost = _interval_costs(x)
    best, cuts = cost[0].copy(), np.zeros((k, m), dtype=np.int64)
    for g in range(1, k):
        # the last interval starts at s; before it, s values in g groups
        candidates = np.full((m, m), np.inf)
        candidates[1:] = best[:-1, None] + cost[1:]
        cuts[g] = np.argmin(candidates, axis=0)
        best = candidates[cuts[g], np.arange(m)]
    labels, end = np.empty(m, dtype=np.int64), m - 1
    for g in range(k - 1, -1, -1):
        start = int(cuts[g, end]) if g else 0
        labels[order[start : end + 1]] = g
        end = start - 1
    return labels


def _interval_costs(x: FloatArray) -> FloatArray:
    """Sum of squared distances from their mean of x[s..e], shape (m, m), ∞ where e < s."""
    centred = x - x.mean()
    sums, squares = np.append(0.0, np.cumsum(centred)), np.append(0.0, np.cumsum(centred**2))
    start, end = np.indices((x.size, x.size))
    count = np.maximum(end - start + 1, 1)
    inside = squares[end + 1] - squares[start] - (sums[end + 1] - sums[start]) ** 2 / count
    return np.where(end >= start, np.maximum(inside, 0.0), np.inf)
