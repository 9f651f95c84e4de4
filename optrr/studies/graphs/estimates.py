"""Degrees and triangles of the true graph from a randomized one, unbiased, with their variances.

With B the reported adjacency, f its flip probability and g = 1 − 2f, the debiased bits ã_ij = (B_ij − f)/g are independent
and unbiased, each with variance s² = f(1−f)/g². Distinct pairs enter a triangle, so products stay unbiased:

    d̂_i = Σ_j ã_ij,                        var d̂_i = (n−1) s²
    T̂_i = Σ_{j<k} ã_ij ã_ik ã_jk,          var T̂_i = s² [Σ_j c_ij² + C(d_i, 2)] + s⁴ [M + (n−3) d_i] + s⁶ C(n−1, 2)

with c_ij the common neighbours of i and j, M the number of edges: the three brackets are the squared coefficients of one,
two and three noises. Counting the reported graph's triangles instead (the naive answer) counts mostly noise.

The sparse form, with b the reported degrees, M_B the reported edges, t the reported triangles:

    g³ T̂_i = t_i − f [C(b_i, 2) + Σ_j B_ij (b_j − 1)] + f² [(n−2) b_i + M_B − b_i] − f³ C(n−1, 2).

The variance is estimated without bias by the same device: ĉ_ij² less its own variance, and so on. Proved in
``proofs/prove_graph_estimates.py``. Cost: Σ b² time, in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from optrr.studies.graphs.collection import EdgeChannel, RandomizedGraph
from optrr.studies.graphs.graph import Graph, as_graph
from optrr_solvers.arrays import FloatArray, IntArray

# Entries of a block of B² held at once: 2^24 take about 200 MB in sparse form.
_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class NodeEstimate:
    """One number for every node: unbiased ``values`` and ``variances``, and the ``naive`` count in the reported graph.

    All have shape (n,). A variance estimate may be negative where noise is large.
    """

    values: FloatArray
    variances: FloatArray
    naive: IntArray

    @property
    def standard_errors(self) -> FloatArray:
        """Square roots of the variances, 0 where the estimate of one is negative."""
        return np.asarray(np.sqrt(np.maximum(self.variances, 0)))


def estimate_degrees(randomized: RandomizedGraph) -> NodeEstimate:
    """Degree of every node; the variance is exact and the same for all."""
    channel, n = randomized.channel, randomized.n
    naive = randomized.reported.degrees()
    values = (naive - (n - 1) * channel.flip) / (1 - 2 * channel.flip)
    return NodeEstimate(np.asarray(values), np.full(n, (n - 1) * channel.noise), naive)


def estimate_triangles(randomized: RandomizedGraph) -> NodeEstimate:
    """Number of triangles at every node, O(Σ b²) time for reported degrees b."""
    channel, n = randomized.channel, randomized.n
    f, s2 = channel.flip, channel.noise
    g = 1 - 2 * f
    b = randomized.reported.degrees().astype(np.float64)
    tally = _tally(randomized.reported, f)
    edges = b.sum() / 2
    naive = tally.triangles
    paths = tally.neighbour_degrees - b
    linear = f * (b * (b - 1) / 2 + paths)
    square = f**2 * ((n - 3) * b + edges)
    values = (naive - linear + square - f**3 * (n - 1) * (n - 2) / 2) / g**3
    d = (b - (n - 1) * f) / g
    true_edges = d.sum() / 2
    chance = s2 * ((n - 4) * d + 2 * true_edges) + (n - 1) * (n - 2) * s2**2
    common = tally.common_squares / g**4 - chance
    pairs = (d**2 - (n - 1) * s2 - d) / 2
    variance = _variance(n, s2, common + pairs, d, true_edges)
    return NodeEstimate(values, variance, naive.astype(np.int64))


def triangles(graph: Any, nodes: Any = None) -> IntArray:
    """Number of triangles at every node of a graph, shape (n,)."""
    return _tally(as_graph(graph, nodes), 0.0).triangles.astype(np.int64)


def triangle_variance(graph: Any, channel: EdgeChannel, nodes: Any = None) -> FloatArray:
    """Exact variance of every T̂_i for a known graph, shape (n,): for planning and for comparisons."""
    given = as_graph(graph, nodes)
    d = given.degrees().astype(np.float64)
    common = _tally(given, 0.0).common_squares
    return _variance(given.n, channel.noise, common + d * (d - 1) / 2, d, float(len(given.edges)))


def _variance(n: int, s2: float, one: FloatArray, degrees: FloatArray, edges: float) -> FloatArray:
    """``one`` is the bracket of single noises."""
    two = edges + (n - 3) * degrees
    return np.asarray(s2 * one + s2**2 * two + s2**3 * (n - 1) * (n - 2) / 2)


@dataclass(frozen=True, eq=False)
class _NodeSums:
    """Per node: triangles; Σ_j B_ij b_j; Σ_{j≠i} (Σ_k (B_ik − f)(B_jk − f))²."""

    triangles: FloatArray
    neighbour_degrees: FloatArray
    common_squares: FloatArray


def _tally(graph: Graph, f: float) -> _NodeSums:
    b_matrix, n = graph.adjacency(), graph.n
    b = graph.degrees().astype(np.float64)
    reach = b_matrix @ b
    closed, squares = np.zeros(n), np.zeros(n)
    for rows in _row_blocks(reach, n):
        mine = b_matrix[rows]
        common = sparse.csr_array(mine @ b_matrix)
        closed[rows] = common.multiply(mine).sum(axis=1) / 2
        squares[rows] = _centred_squares(common, mine, rows, b, f)
    return _NodeSums(closed, reach, squares)


def _centred_squares(
    common: sparse.csr_array, mine: sparse.csr_array, rows: IntArray, b: FloatArray, f: float
) -> FloatArray:
    """Σ_{j≠i} (common_ij + 2f B_ij + u_i + v_j)², where only the first two are sparse."""
    n = b.size
    # (i, i) does not count as a pair
    own = sparse.csr_array((b[rows], (np.arange(rows.size), rows)), shape=common.shape)
    near = sparse.csr_array(common - own + 2 * f * mine)
    u, v = f**2 * (n - 2) - f * b[rows], -f * b
    others, others_squared = v.sum() - v[rows], (v**2).sum() - v[rows] ** 2
    crossed = 2 * u * near.sum(axis=1) + 2 * (near @ v)
    return np.asarray(near.multiply(near).sum(axis=1) + crossed + (n - 1) * u**2 + 2 * u * others + others_squared)


def _row_blocks(reach: FloatArray, n: int) -> Iterator[IntArray]:
    """Consecutive rows whose part of B² has at most 2^24 entries, or one row."""
    filled = np.cumsum(np.minimum(reach, n))
    start = 0
    while start < n:
        limit = (filled[start - 1] if start else 0) + _BLOCK
        stop = max(start + 1, int(np.searchsorted(filled, limit, side="right")))
        yield np.arange(start, stop)
        start = stop
