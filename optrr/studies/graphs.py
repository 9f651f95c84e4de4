"""Graphs under edge privacy: collected bit by bit and debiased, or answered by a trusted server with noise (RVL §6.4).

**Collecting** under local privacy: every pair's bit is randomized by its owner.

Each undirected pair {i, j} is reported **once**, say by the smaller node, as an edge or a non-edge; the report is flipped with
probability f, symmetric, independently over pairs. So Pr(report | edge)/Pr(report | no edge) ≤ (1−f)/f = e^ε: the collected
graph is ε-*edge* locally private, pure. Nothing is promised for a whole person: the total for all n−1 ties of a node is
(n−1)ε.

    randomized response      f = 1/(1 + e^ε)           RVL eq. 8
    Laplace, cut at 1/2      f = ½ e^{−ε/2}            RVL eq. 11

The second is the larger one: it equals randomized response at the smaller ε' = ln(2e^{ε/2} − 1).

**Both ends reporting.** If both owners of a pair report it with ε each, the tie is reported twice and pays 2ε. For a total
of ε each report gets ε/2, and the mean of the two debiased bits has variance f'(1−f')/(2(1−2f')²) with f' at ε/2. That is
2cosh²(ε/4) times the variance of one report with all of ε: at least the double (``proofs/prove_graph_estimates.py``).

Cost: f·n(n−1)/2 extra edges appear, so a graph stays sparse only while e^ε is large against n; the draw itself takes 2
random bytes a pair (5·10^9 pairs at 10^5 nodes).

Who the nodes are is public; which pairs are joined is what is protected. A pair of nodes is numbered by its *slot*, row by
row of the upper triangle: (0,1), (0,2), …, (1,2), …

**Estimating** degrees and triangles of the true graph, unbiased, with their variances. With B the reported adjacency, f its
flip probability and g = 1 − 2f, the debiased bits ã_ij = (B_ij − f)/g are independent and unbiased, each with variance

    s² = f(1−f)/g².

Distinct pairs enter a triangle, so products stay unbiased:

    d̂_i = Σ_j ã_ij,                        var d̂_i = (n−1) s²
    T̂_i = Σ_{j<k} ã_ij ã_ik ã_jk,          var T̂_i = s² [Σ_j c_ij² + C(d_i, 2)] + s⁴ [M + (n−3) d_i] + s⁶ C(n−1, 2)

with c_ij the common neighbours of i and j, M the number of edges: the three brackets are the squared coefficients of one,
two and three noises. Counting the reported graph's triangles instead (the naive answer) counts mostly noise.

The sparse form, with b the reported degrees, M_B the reported edges, t the reported triangles:

    g³ T̂_i = t_i − f [C(b_i, 2) + Σ_j B_ij (b_j − 1)] + f² [(n−2) b_i + M_B − b_i] − f³ C(n−1, 2).

The variance is estimated without bias by the same device: ĉ_ij² less its own variance, and so on. Proved in
``proofs/prove_graph_estimates.py``. Cost: Σ b² time, in blocks of rows.

**Answering** by a trusted server that holds the whole graph: Laplace noise by global and by smooth sensitivity. Edge
differential privacy in the central model: two graphs that differ in one edge are hard to tell apart from one answer. Each
further answer consumes ε, unlike analyses of a collected graph, which consume nothing more.

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

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import gamma

from optrr.core.errors import InvalidInput
from optrr.core.estimation import outward
from optrr.core.provenance import checked_epsilon
from optrr.studies.laplace import exp_enclosure
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, RandomState, as_source

BoolArray = NDArray[np.bool_]

# Edges of a randomized graph: 2^25 take half a gigabyte as an array and a gigabyte and a half as a matrix.
MAX_EDGES = 1 << 25
# Pairs drawn at once, two bytes each.
_PAIRS = 1 << 22
_COARSE = 1 << 16
_FINE = 1 << 64
# Entries of a block of B² held at once: 2^24 take about 200 MB in sparse form.
_BLOCK = 1 << 24
# All pairs are looked at, a block of rows at a time: 2·10^8 pairs take about ten seconds.
MAX_SMOOTH_NODES = 20_000
_NEIGHBOURS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph of ``n`` nodes.

    ``edges`` has shape (number of edges, 2), each with the smaller node first, sorted by slot.
    """

    n: int
    edges: IntArray

    @property
    def slots(self) -> int:
        """n(n−1)/2, the number of pairs."""
        return self.n * (self.n - 1) // 2

    def adjacency(self) -> sparse.csr_array:
        """Return the symmetric adjacency matrix, (n, n), float64."""
        i, j = self.edges.T
        ones = np.ones(2 * i.size)
        return sparse.csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(self.n, self.n))

    def degrees(self) -> IntArray:
        """Compute the degree of every node, shape (n,)."""
        return np.bincount(self.edges.ravel(), minlength=self.n)

    def edge_slots(self) -> IntArray:
        """Compute the slot number of every edge, ascending."""
        i, j = self.edges.T
        return np.asarray(_row_starts(self.n)[i] + j - i - 1)


def from_slots(n: int, slots: IntArray) -> Graph:
    """Build the graph whose edges are these distinct ascending slots."""
    starts = _row_starts(n)
    i = np.searchsorted(starts, slots, side="right") - 1
    return Graph(n, np.column_stack([i, slots - starts[i] + i + 1]))


def _row_starts(n: int) -> IntArray:
    """Compute the first slot of every row 0..n−2 and the number of slots."""
    rows = np.arange(n, dtype=np.int64)
    return rows * (2 * n - rows - 1) // 2


def as_graph(source: Any, nodes: int | None = None) -> Graph:
    """Convert to a checked :class:`Graph`.

    ``source`` is a networkx graph, a :class:`Graph`, or pairs of whole numbers below ``nodes``, in any order.

    Nodes of pairs must be declared: a node read off the edges would publish that it has one. Those of a networkx graph are
    numbered in its order.

    Raises InvalidInput for directed graphs and multigraphs, repeated edges, self-loops, unknown nodes, fewer than two nodes.
    """
    if isinstance(source, Graph):
        return source
    if hasattr(source, "is_directed"):
        if source.is_directed() or source.is_multigraph():
            raise InvalidInput(
                "the graph is directed or has several edges between two nodes; pass networkx.Graph(graph)"
            )
        place = {node: k for k, node in enumerate(source.nodes())}
        source, nodes = [(place[a], place[b]) for a, b in source.edges()], len(place)
    if nodes is None:
        raise InvalidInput("an edge list does not state which nodes exist; pass nodes=, their number")
    if nodes < 2:
        raise InvalidInput(f"a graph of {nodes} nodes has no pairs; give at least two nodes")
    given = np.asarray(source)
    if given.size and (given.ndim != 2 or given.shape[1] != 2 or not np.issubdtype(given.dtype, np.integer)):
        raise InvalidInput(
            f"an edge list must consist of pairs of whole numbers, not of shape {given.shape} and type {given.dtype}"
        )
    ends = given.astype(np.int64).reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    slots = _row_starts(nodes)[low.clip(0, nodes - 1)] + high - low - 1
    order = np.argsort(slots, kind="stable")
    twice = np.zeros(len(ends), dtype=np.bool_)
    twice[order[1:]] = np.diff(slots[order]) == 0
    for wrong, why in (
        ((low < 0) | (high >= nodes), f"names a node outside 0..{nodes - 1}"),
        (low == high, "is a self-loop; remove it"),
        (twice, "is listed twice; list every edge once"),
    ):
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InvalidInput(f"edge {k + 1}, {tuple(ends[k].tolist())}, {why}")
    return Graph(nodes, np.column_stack([low, high])[order])


@dataclass(frozen=True)
class EdgeChannel:
    """Binary channel with flip probability ``coarse``/2^16 · ``fine``/2^64.

    Two bytes decide nearly every pair if the probability is small.
    """

    coarse: int
    fine: int

    @property
    def exact_flip(self) -> Fraction:
        """f as drawn."""
        return Fraction(self.coarse * self.fine, _COARSE * _FINE)

    @cached_property
    def flip(self) -> float:
        """f, in (0, 1/2)."""
        return float(self.exact_flip)

    @cached_property
    def epsilon(self) -> float:
        """ln((1−f)/f) of the channel as drawn, in nats, rounded up.

        This is pure edge local differential privacy.
        """
        return log_ceiling((1 - self.exact_flip) / self.exact_flip)

    @property
    def noise(self) -> float:
        """f(1−f)/(1−2f)²: variance of one debiased bit (bit − f)/(1 − 2f)."""
        return self.flip * (1 - self.flip) / (1 - 2 * self.flip) ** 2


def response_channel(epsilon: float) -> EdgeChannel:
    """Build randomized response at ε nats."""
    checked_epsilon(epsilon)
    return _channel(1 / (1 + exp_enclosure(Fraction(epsilon))[0]))


def laplace_channel(epsilon: float) -> EdgeChannel:
    """Build the channel of Laplace noise of scale 1/ε on the bit, cut at 1/2.

    The channel's own ``epsilon`` is below the one given.
    """
    checked_epsilon(epsilon)
    return _channel(exp_enclosure(Fraction(-epsilon) / 2)[1] / 2)


def _channel(flip: Fraction) -> EdgeChannel:
    """Build a channel; the flip probability is rounded up, towards privacy."""
    coarse = ceil(flip * _COARSE)
    fine = ceil(flip * _COARSE * _FINE / coarse)
    if fine == _FINE:
        # 2^64 does not fit into a word; the coarse part then grows by one step instead
        coarse += 1
        fine = ceil(flip * _COARSE * _FINE / coarse)
    return EdgeChannel(coarse, fine)


@dataclass(frozen=True, eq=False)
class RandomizedGraph:
    """Reported edges, with the channel that randomized them."""

    reported: Graph
    channel: EdgeChannel

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.reported.n


def randomize(graph: Any, channel: EdgeChannel, random_state: RandomState = None) -> RandomizedGraph:
    """Randomize every pair's bit once.

    O(n²) random bytes, memory for the reported edges and a few megabytes.

    Raises InvalidInput if more than 2^25 reported edges are expected.
    """
    given = as_graph(graph)
    expected = channel.flip * given.slots + len(given.edges)
    if expected > MAX_EDGES:
        raise InvalidInput(
            f"about {expected:.3g} edges would be reported for {given.n} nodes at epsilon {channel.epsilon:.3g}, "
            f"more than {MAX_EDGES}; raise epsilon or use fewer nodes"
        )
    flipped = _flipped(given.slots, channel, as_source(random_state))
    slots = np.setxor1d(given.edge_slots(), flipped, assume_unique=True)
    return RandomizedGraph(from_slots(given.n, slots), channel)


def _flipped(slots: int, channel: EdgeChannel, source: BitSource) -> IntArray:
    """Draw the slots that flip, ascending."""
    flips = []
    fine = np.uint64(channel.fine)
    for start in range(0, slots, _PAIRS):
        count = min(_PAIRS, slots - start)
        words = source.words((count + 3) // 4).view(np.uint16)[:count]
        candidates = np.flatnonzero(words < channel.coarse)
        flips.append(start + candidates[source.words(candidates.size) < fine])
    return np.concatenate(flips)


@dataclass(frozen=True, eq=False)
class NodeEstimate:
    """One estimate per node.

    Unbiased ``values`` with ``variances``, and the ``naive`` count in the reported graph.

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
    """Estimate the degree of every node.

    The variance is exact and the same for all nodes.
    """
    channel, n = randomized.channel, randomized.n
    naive = randomized.reported.degrees()
    values = (naive - (n - 1) * channel.flip) / (1 - 2 * channel.flip)
    return NodeEstimate(np.asarray(values), np.full(n, (n - 1) * channel.noise), naive)


def estimate_triangles(randomized: RandomizedGraph) -> NodeEstimate:
    """Estimate the triangles at every node.

    O(Σ b²) time for reported degrees b.
    """
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


def triangles(graph: Any) -> IntArray:
    """Count the triangles at every node, shape (n,)."""
    return _tally(as_graph(graph), 0.0).triangles.astype(np.int64)


def triangle_variance(graph: Any, channel: EdgeChannel) -> FloatArray:
    """Compute the exact variance of every T̂_i for a known graph, shape (n,).

    For planning and for comparisons.
    """
    given = as_graph(graph)
    d = given.degrees().astype(np.float64)
    common = _tally(given, 0.0).common_squares
    return _variance(given.n, channel.noise, common + d * (d - 1) / 2, d, float(len(given.edges)))


def _variance(n: int, s2: float, one: FloatArray, degrees: FloatArray, edges: float) -> FloatArray:
    """Compute the variance; ``one`` is the bracket of single noises."""
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
    """Sum (common_ij + 2f B_ij + u_i + v_j)² over j ≠ i.

    Only the first two terms are sparse.
    """
    n = b.size
    # (i, i) does not count as a pair
    own = sparse.csr_array((b[rows], (np.arange(rows.size), rows)), shape=common.shape)
    near = sparse.csr_array(common - own + 2 * f * mine)
    u, v = f**2 * (n - 2) - f * b[rows], -f * b
    others, others_squared = v.sum() - v[rows], (v**2).sum() - v[rows] ** 2
    crossed = 2 * u * near.sum(axis=1) + 2 * (near @ v)
    return np.asarray(near.multiply(near).sum(axis=1) + crossed + (n - 1) * u**2 + 2 * u * others + others_squared)


def _row_blocks(reach: FloatArray, n: int) -> Iterator[IntArray]:
    """Iterate over rows whose part of B² has at most 2^24 entries, or one row."""
    filled = np.cumsum(np.minimum(reach, n))
    start = 0
    while start < n:
        limit = (filled[start - 1] if start else 0) + _BLOCK
        stop = max(start + 1, int(np.searchsorted(filled, limit, side="right")))
        yield np.arange(start, stop)
        start = stop


@dataclass(frozen=True, eq=False)
class NoisyAnswer:
    """A noisy sequence, shape (n,), with its (ε, δ)-edge differential privacy.

    It is pure if δ = 0.
    """

    values: FloatArray
    epsilon: float
    delta: float
    scale: float


def degree_query(graph: Any, epsilon: float, random_state: RandomState = None) -> NoisyAnswer:
    """Add Laplace noise of scale 2/ε to the degrees."""
    checked_epsilon(epsilon)
    given = as_graph(graph)
    return _laplace(given.degrees(), 2 / epsilon, (epsilon, 0.0), as_source(random_state))


def triangle_query(graph: Any, epsilon: float, random_state: RandomState = None) -> NoisyAnswer:
    """Add Laplace noise of scale 3(n−2)/ε to the triangle sequence."""
    checked_epsilon(epsilon)
    given = as_graph(graph)
    return _laplace(triangles(given), 3 * (given.n - 2) / epsilon, (epsilon, 0.0), as_source(random_state))


def smooth_triangle_query(
    graph: Any, epsilon: float, delta: float = 1e-6, random_state: RandomState = None
) -> NoisyAnswer:
    """Add noise by smooth sensitivity to the triangle sequence.

    Laplace noise and (ε, δ), or Cauchy noise and pure privacy if ``delta`` is 0.

    Raises InvalidInput above 20,000 nodes, or for δ outside 0 ≤ δ < 1.
    """
    checked_epsilon(epsilon)
    given = as_graph(graph)
    source = as_source(random_state)
    if delta == 0:
        scale = 2 * smooth_triangle_sensitivity(given, epsilon / (2 * given.n)) / epsilon
        noise = np.tan(np.pi * (_uniform(source, given.n) - 0.5))
        return NoisyAnswer(triangles(given) + scale * noise, epsilon, 0.0, scale)
    beta = laplace_dilation(given.n, epsilon, delta)
    scale = 2 * smooth_triangle_sensitivity(given, beta) / epsilon
    return _laplace(triangles(given), scale, (epsilon, delta), source)


def smooth_triangle_sensitivity(graph: Any, beta: float) -> float:
    """Compute S(G) = max_k e^{−βk} A_k(G) of the triangle sequence, in L1.

    O(n²) time, in blocks of rows.
    """
    given = as_graph(graph)
    if given.n > MAX_SMOOTH_NODES:
        raise InvalidInput(
            f"smooth sensitivity uses all pairs of {given.n} nodes; give at most {MAX_SMOOTH_NODES} nodes, or use "
            "triangle_query"
        )
    local = local_triangle_sensitivities(given)
    return float(np.max(np.exp(-beta * np.arange(local.size)) * local))


def local_triangle_sensitivities(graph: Any) -> FloatArray:
    """Compute A_k for k = 0, 1, … up to its largest value, 3(n−2)."""
    given = as_graph(graph)
    most = given.n - 2
    single = _singly_joined(given)
    common = np.flatnonzero(single >= 0)
    # two more edges can always close one more triangle over the same pair
    k = np.arange(2 * most + 1)[:, None]
    reach = common + (k + np.minimum(k, single[common])) // 2
    local = np.minimum(reach.max(axis=1), most)
    return np.asarray(3.0 * local[: int(np.argmax(local == most)) + 1])


def _singly_joined(graph: Graph) -> IntArray:
    """Find the largest b_ij among pairs with a_ij = a, for each a; −1 without such a pair."""
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
    """Find the largest β at which Laplace noise hides dilations e^{±β}.

    n-dimensional noise, with ε/2 and δ.
    """
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
    """Draw midpoints of 2^53 equal steps of (0, 1); their logarithms are finite."""
    return np.asarray(((source.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
