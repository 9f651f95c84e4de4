"""Power iteration clustering of attributes (SIC §4; Lin & Cohen, ICML 2010).

The graph's edges carry the dependences A (SIC labels them with distances 1/A); W = (I + D⁻¹A)/2 is its lazy random walk, which
stays where it is in half of its steps. Start at v_i = (row sum i)/(sum), iterate v ← W v/‖W v‖₁, and stop when the *change of
the change* is below a threshold: by then v is nearly constant within clusters and not yet over the whole graph. Cluster the m
numbers v_i into k groups.

A walk that never stays can swing: where every attribute depends a little on every other, the slowest part of v may be one that
changes its sign at every step, and says nothing of clusters. Adult's clusters then differ from one draw of the randomized
dependences to the next; those of the lazy walk, whose eigenvalues are from 0 to 1, do not (`benchmarks/sic_table1.py`).

In one dimension k-means has an exact answer: an optimal group is an interval, so dynamic programming over the sorted values
finds it in O(k m log m), and nothing here is random. Attributes without any dependence are clusters of their own. Groups whose
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
    """Exact k-means of numbers: labels 0..k−1 (fewer where fewer values differ), shape (m,); O(k m log m) time."""
    order = np.argsort(values, kind="stable")
    x = values[order]
    m = x.size
    k = min(k, np.unique(x).size)
    cost = _IntervalCost(x)
    every = np.arange(m)
    best, cuts = cost(np.zeros(m, dtype=np.int64), every), np.zeros((k, m), dtype=np.int64)
    for g in range(1, k):
        best, cuts[g] = _best_last_intervals(best, cost, g)
    labels, end = np.empty(m, dtype=np.int64), m - 1
    for g in range(k - 1, -1, -1):
        start = int(cuts[g, end]) if g else 0
        labels[order[start : end + 1]] = g
        end = start - 1
    return labels


class _IntervalCost:
    """Sum of squared distances of x[s..e] from their mean, for sorted x."""

    def __init__(self, x: FloatArray) -> None:
        centred = x - x.mean()
        self._sums, self._squares = np.append(0.0, np.cumsum(centred)), np.append(0.0, np.cumsum(centred**2))

    def __call__(self, start: IntArray, end: IntArray) -> FloatArray:
        total = self._sums[end + 1] - self._sums[start]
        inside = self._squares[end + 1] - self._squares[start] - total**2 / (end - start + 1)
        return np.asarray(np.maximum(inside, 0.0))


def _best_last_intervals(before: FloatArray, cost: _IntervalCost, first: int) -> tuple[FloatArray, IntArray]:
    """Least cost of x[0..e], e ≥ first, and the start s of its last interval; ``before[s−1]`` is the least cost of x[0..s−1].

    A later end never has an earlier best start, so the ends are done by halves: those between two done ones look only
    between their starts, O(m) per round and O(log m) rounds.
    """
    m = before.size
    best, starts = np.full(m, np.inf), np.full(m, first, dtype=np.int64)
    low, high = np.array([first]), np.array([m - 1])
    lowest, highest = low.copy(), high.copy()
    while low.size:
        middle = (low + high) // 2
        last = np.minimum(highest, middle)
        widths = last - lowest + 1
        ends = np.repeat(middle, widths)
        offsets = np.cumsum(widths) - widths
        tried = np.arange(ends.size) - np.repeat(offsets - lowest, widths)
        costs = before[tried - 1] + cost(tried, ends)
        best[middle] = np.minimum.reduceat(costs, offsets)
        # among equal costs the first is taken, as a plain search would do
        hits = np.flatnonzero(costs == np.repeat(best[middle], widths))
        segment = np.searchsorted(offsets, hits, side="right") - 1
        _, chosen = np.unique(segment, return_index=True)
        starts[middle] = tried[hits[chosen]]
        below, above = low < middle, middle < high
        cut = starts[middle]
        low, high = np.concatenate([low[below], middle[above] + 1]), np.concatenate([middle[below] - 1, high[above]])
        lowest, highest = (
            np.concatenate([lowest[below], cut[above]]),
            np.concatenate([cut[below], highest[above]]),
        )
    return best, starts
