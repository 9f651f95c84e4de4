"""Answers of a trusted server that holds the whole graph: Laplace noise by global and by smooth sensitivity (RVL §6.4).

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

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import gamma

from optrr.errors import InvalidInput
from optrr.releases.spent import checked_epsilon
from optrr.studies.graphs.estimates import triangles
from optrr.studies.graphs.graph import Graph, as_graph
from optrr.tables.estimation.invert import outward
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

# All pairs are looked at, a block of rows at a time: 2·10^8 pairs take about ten seconds.
MAX_SMOOTH_NODES = 20_000
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class QueryAnswer:
    """A noisy sequence, shape (n,), and what it cost: (ε, δ)-edge differential privacy, pure where δ = 0."""

    values: FloatArray
    epsilon: float
    delta: float
    scale: float


def degree_query(graph: Any, epsilon: float, nodes: Any = None, random_state: RandomState = None) -> QueryAnswer:
    """Degrees plus Laplace noise of scale 2/ε."""
    checked_epsilon(epsilon)
    given = as_graph(graph, nodes)
    return _laplace(given.degrees(), 2 / epsilon, (epsilon, 0.0), as_source(random_state))


def triangle_query(graph: Any, epsilon: float, nodes: Any = None, random_state: RandomState = None) -> QueryAnswer:
    """Triangle sequence plus Laplace noise of scale 3(n−2)/ε."""
    checked_epsilon(epsilon)
    given = as_graph(graph, nodes)
    return _laplace(triangles(given), 3 * (given.n - 2) / epsilon, (epsilon, 0.0), as_source(random_state))


def smooth_triangle_query(
    graph: Any, epsilon: float, delta: float = 1e-6, nodes: Any = None, random_state: RandomState = None
) -> QueryAnswer:
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
        return QueryAnswer(triangles(given) + scale * noise, epsilon, 0.0, scale)
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
    step = max(1, _BLOCK // n)
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


def _laplace(values: IntArray, scale: float, cost: tuple[float, float], source: BitSource) -> QueryAnswer:
    size = values.size
    noise = np.log(_uniform(source, size)) - np.log(_uniform(source, size))
    return QueryAnswer(values + scale * noise, *cost, scale)


def _uniform(source: BitSource, count: int) -> FloatArray:
    """Uniform on the middles of 2^53 equal steps of (0, 1), so that its logarithm is finite."""
    return np.asarray(((source.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
