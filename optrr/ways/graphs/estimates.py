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

Answers of a trusted server that holds the whole graph: Laplace noise by global and by smooth sensitivity (RVL §6.4).

Edge differential privacy in the central model: two graphs that differ in one edge are hard to tell apart from one answer.
Every further answer costs its own ε, unlike a collected graph, which may be analysed for ever.

    degrees              one edge changes two entries by 1: L1 sensitivity 2                       pure ε
    triangle sequence    an edge with a common neighbours changes 3a: at most 3(n−2)               pure ε
    smooth, Laplace      noise of scale 2S/ε, S a β-smooth bound on the local sensitivity          (ε, δ), approximate
    smooth, Cauchy       noise 2S/ε × standard Cauchy, β = ε/(2n)                                  pure ε, heavy tails

Smooth sensitivity (Nissim, Raskhodnikova & Smith 2007, §3): S(G) = max_k e^{−βk} A_k(G), where A_k is the largest local
sensitivity within k edges of G. For triangles, with a_ij common neighbours and b_ij nodes joined to exactly one of i, j,

    A_k = 3 max_ij min(a_ij + ⌊(k + min(k, b_ij))/2⌋, n − 2).

β must keep e^{±β} dilations of n-dimensional noise hidden, so it falls like 1/n. The paper takes β = ε/(4(n + ln(2/δ))), which
is smaller than its own argument needs. Here it is the largest β that this argument allows: ‖Z‖₁ is Gamma(n), and for |λ| ≤ β
the event that the density ratio of Z and e^{−λ}Z exceeds e^{ε/2} must have probability at most δ (sliding is free of δ for
Laplace noise).

Noise is drawn in double precision, whose low-order bits are known to leak (Mironov 2012): these are comparators for studies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import gamma

from optrr.errors import InvalidInput
from optrr.releases.account import checked_epsilon
from optrr.tables.estimation.score_interval import outward
from optrr.ways.graphs.collection import EdgeChannel, Graph, RandomizedGraph, as_graph
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

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


# All pairs are looked at, a block of rows at a time: 2·10^8 pairs take about ten seconds.
MAX_SMOOTH_NODES = 20_000
_NEIGHBOURS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class NoisyAnswer:
    """A noisy sequence, shape (n,), and what it cost: (ε, δ)-edge differential privacy, pure where δ = 0."""

    values: FloatArray
    epsilon: float
    delta: float
    scale: float


def degree_query(graph: Any, epsilon: float, nodes: Any = None, random_state: RandomState = None) -> NoisyAnswer:
    """Degrees plus Laplace noise of scale 2/ε."""
    checked_epsilon(epsilon)
    given = as_graph(graph, nodes)
    return _laplace(given.degrees(), 2 / epsilon, (epsilon, 0.0), as_source(random_state))


def triangle_query(graph: Any, epsilon: float, nodes: Any = None, random_state: RandomState = None) -> NoisyAnswer:
    """Triangle sequence plus Laplace noise of scale 3(n−2)/ε."""
    checked_epsilon(epsilon)
    given = as_graph(graph, nodes)
    return _laplace(triangles(given), 3 * (given.n - 2) / epsilon, (epsilon, 0.0), as_source(random_state))


def smooth_triangle_query(
    graph: Any, epsilon: float, delta: float = 1e-6, nodes: Any = None, random_state: RandomState = None
) -> NoisyAnswer:
    """Triangle sequence plus noise by smooth sensitivity: Laplace and (ε, δ), or Cauchy and pure where ``delta`` is 0.

    Raises
    ------
    InvalidInput
        above 20,000 nodes, or for δ outside 0 ≤ δ < 1.
    """
    checked_epsilon(epsilon)
    given = as_graph(graph, nodes)
    source = as_source(random_state)
    if delta == 0:
        scale = 2 * smooth_triangle_sensitivity(given, epsilon / (2 * given.n)) / epsilon
        noise = np.tan(np.pi * (_uniform(source, given.n) - 0.5))
        return NoisyAnswer(triangles(given) + scale * noise, epsilon, 0.0, scale)
    beta = laplace_dilation(given.n, epsilon, delta)
    scale = 2 * smooth_triangle_sensitivity(given, beta) / epsilon
    return _laplace(triangles(given), scale, (epsilon, delta), source)


def smooth_triangle_sensitivity(graph: Any, beta: float, nodes: Any = None) -> float:
    """S(G) = max_k e^{−βk} A_k(G) of the triangle sequence, in L1. O(n²) time, blocks of rows."""
    given = as_graph(graph, nodes)
    if given.n > MAX_SMOOTH_NODES:
        raise InvalidInput(
            f"smooth sensitivity looks at all pairs of {given.n} nodes; give at most {MAX_SMOOTH_NODES}, or use "
            "triangle_query"
        )
    local = local_triangle_sensitivities(given)
    return float(np.max(np.exp(-beta * np.arange(local.size)) * local))


def local_triangle_sensitivities(graph: Any, nodes: Any = None) -> FloatArray:
    """A_k for k = 0, 1, … until it reaches 3(n−2), its largest value."""
    given = as_graph(graph, nodes)
    most = given.n - 2
    single = _singly_joined(given)
    common = np.flatnonzero(single >= 0)
    # two more edges can always close one more triangle over the same pair
    k = np.arange(2 * most + 1)[:, None]
    reach = common + (k + np.minimum(k, single[common])) // 2
    local = np.minimum(reach.max(axis=1), most)
    return np.asarray(3.0 * local[: int(np.argmax(local == most)) + 1])


def _singly_joined(graph: Graph) -> IntArray:
    """Largest b_ij among pairs with a_ij = a, for every a up to the largest; −1 where no pair has a."""
    adjacency, n = graph.adjacency(), graph.n
    degrees = graph.degrees()
    best = np.full(n, -1, dtype=np.int64)
    step = max(1, _NEIGHBOURS_AT_ONCE // n)
    for start in range(0, n, step):
        mine = adjacency[start : start + step]
        common = np.rint((mine @ adjacency).toarray()).astype(np.int64)
        joined = np.rint(mine.toarray()).astype(np.int64)
        single = degrees[start : start + step, None] + degrees - 2 * common - 2 * joined
        later = np.arange(n) > np.arange(start, start + common.shape[0])[:, None]
        np.maximum.at(best, common[later], single[later])
    return best[: int(np.flatnonzero(best >= 0)[-1]) + 1]


def laplace_dilation(dimension: int, epsilon: float, delta: float) -> float:
    """Largest β such that n-dimensional Laplace noise hides dilations up to e^{±β} with ε/2 and δ."""
    if not 0 < delta < 1:
        raise InvalidInput(
            f"delta = {delta}; give a probability between 0 and 1, or 0 for pure privacy with Cauchy noise"
        )
    norm = gamma(dimension)

    def excess(beta: float) -> float:
        wide = norm.sf((epsilon / 2 + dimension * beta) / np.expm1(beta))
        narrow = norm.cdf((dimension * beta - epsilon / 2) / -np.expm1(-beta))
        return float(max(wide, narrow) - delta)

    # β = ε/(2n) already spends ε/2 on the volume alone when the noise is small, so the answer lies not far above it
    high = next(b for b in outward(epsilon / dimension, epsilon / dimension, 2.0, inf) if excess(b) >= 0)
    beta = brentq(excess, high * 1e-9, high, xtol=high * 1e-12)
    # β is lowered by more than the solver's tolerance, so that it is never too large
    return float(beta * (1 - 1e-9))


def _laplace(values: IntArray, scale: float, cost: tuple[float, float], source: BitSource) -> NoisyAnswer:
    size = values.size
    noise = np.log(_uniform(source, size)) - np.log(_uniform(source, size))
    return NoisyAnswer(values + scale * noise, *cost, scale)


def _uniform(source: BitSource, count: int) -> FloatArray:
    """Uniform on the middles of 2^53 equal steps of (0, 1), so that its logarithm is finite."""
    return np.asarray(((source.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
