"""Collecting a graph under local privacy: every pair's bit randomized by its owner (RVL §6.4).

Each undirected pair {i, j} is reported **once**, say by the smaller node, as an edge or a non-edge; the report is flipped
with probability f, symmetric, independently over pairs. So Pr(report | edge)/Pr(report | no edge) ≤ (1−f)/f = e^ε: the
collected graph is ε-*edge* locally private, pure. Nothing is promised for a whole person: whoever looks for all n−1 ties of
a node faces (n−1)ε.

    randomized response      f = 1/(1 + e^ε)           RVL eq. 8
    Laplace, cut at 1/2      f = ½ e^{−ε/2}            RVL eq. 11, the larger one: it equals randomized response at
                                                       the smaller ε' = ln(2e^{ε/2} − 1)

**Both ends reporting.** If both owners of a pair report it with ε each, the tie is reported twice and pays 2ε. For a total
of ε each report gets ε/2, and the mean of the two debiased bits has variance f'(1−f')/(2(1−2f')²) with f' at ε/2. That is
2cosh²(ε/4) times the variance of one report with all of ε: at least the double (``proofs/prove_graph_estimates.py``).

Cost: f·n(n−1)/2 extra edges appear, so a graph stays sparse only while e^ε is large against n; the draw itself takes 2
random bytes a pair (5·10^9 pairs at 10^5 nodes).

Simple undirected graphs as sorted edge arrays: what comes in from networkx or edge lists, checked once.

Who the nodes are is public; which pairs are joined is what is protected. A pair of nodes is numbered by its *slot*, row by
row of the upper triangle: (0,1), (0,2), …, (1,2), …
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from optrr.errors import InvalidInput
from optrr.mechanisms.matrix import exp_enclosure
from optrr.releases.account import checked_epsilon
from optrr_solvers.arrays import IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, RandomState, as_source


@dataclass(frozen=True, eq=False)
class Graph:
    """``n`` nodes and ``edges``, shape (number of edges, 2), each with the smaller node first, sorted by slot."""

    n: int
    edges: IntArray
    labels: tuple[Hashable, ...] | None = None

    @property
    def slots(self) -> int:
        """n(n−1)/2, the number of pairs."""
        return self.n * (self.n - 1) // 2

    def adjacency(self) -> sparse.csr_array:
        """Symmetric adjacency matrix, (n, n), float64."""
        i, j = self.edges.T
        ones = np.ones(2 * i.size)
        return sparse.csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(self.n, self.n))

    def degrees(self) -> IntArray:
        """Degree of every node, shape (n,)."""
        return np.bincount(self.edges.ravel(), minlength=self.n)

    def edge_slots(self) -> IntArray:
        """Slot number of every edge, ascending."""
        i, j = self.edges.T
        return np.asarray(_row_starts(self.n)[i] + j - i - 1)


def from_slots(n: int, slots: IntArray, labels: tuple[Hashable, ...] | None = None) -> Graph:
    """The graph whose edges are these slots, ascending and different."""
    starts = _row_starts(n)
    i = np.searchsorted(starts, slots, side="right") - 1
    return Graph(n, np.column_stack([i, slots - starts[i] + i + 1]), labels)


def _row_starts(n: int) -> IntArray:
    """First slot of every row 0..n−2, and the number of slots for row n−1, which has none of its own."""
    rows = np.arange(n, dtype=np.int64)
    return rows * (2 * n - rows - 1) // 2


def as_graph(source: Any, nodes: int | Sequence[Hashable] | None = None) -> Graph:
    """A checked graph from a networkx graph, a :class:`Graph`, or an edge list (pairs, or an integer array (E, 2)).

    Parameters
    ----------
    nodes
        with an edge list: how many nodes there are (they are called 0..nodes−1) or their labels. They must be declared:
        a node read off the edges would publish that it has one.

    Raises
    ------
    InvalidInput
        for directed graphs, multigraphs and repeated edges, self-loops, unknown nodes, fewer than two nodes.
    """
    if isinstance(source, Graph):
        return source
    if hasattr(source, "is_directed"):
        if source.is_directed():
            raise InvalidInput("the graph is directed; ties here are mutual: pass graph.to_undirected()")
        if source.is_multigraph():
            raise InvalidInput("the graph allows several edges between two nodes; pass networkx.Graph(graph)")
        return _from_pairs(list(source.edges()), list(source.nodes()))
    if nodes is None:
        raise InvalidInput("an edge list does not say which nodes exist; pass nodes=, their number or their labels")
    return _from_pairs(source, nodes)


def _from_pairs(pairs: Any, nodes: int | Sequence[Hashable]) -> Graph:
    labels = None if isinstance(nodes, int | np.integer) else tuple(nodes)
    n = int(nodes) if labels is None else len(labels)  # type: ignore[arg-type]
    if n < 2:
        raise InvalidInput(f"a graph of {n} nodes has no pairs; give at least two nodes")
    if labels is not None and len(set(labels)) < n:
        raise InvalidInput("two nodes have one label; give every node its own")
    ends = _numbered(pairs, n, labels)
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise InvalidInput(f"edge {int(loops[0]) + 1} is a self-loop at {_label(ends[loops[0], 0], labels)}; remove it")
    low, high = ends.min(axis=1), ends.max(axis=1)
    slots = _row_starts(n)[low] + high - low - 1
    order = np.argsort(slots, kind="stable")
    twice = np.flatnonzero(np.diff(slots[order]) == 0)
    if twice.size:
        k = order[twice[0] + 1]
        shown = f"{_label(low[k], labels)} and {_label(high[k], labels)}"
        raise InvalidInput(f"edge {int(k) + 1} between {shown} is listed twice; list every edge once")
    return Graph(n, np.column_stack([low, high])[order], labels)


def _numbered(pairs: Any, n: int, labels: tuple[Hashable, ...] | None) -> IntArray:
    if labels is not None:
        place = {label: k for k, label in enumerate(labels)}
        pairs = [_places(k, pair, place) for k, pair in enumerate(pairs)]
    try:
        ends = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs))
    except (TypeError, ValueError):
        raise InvalidInput("an edge list is a sequence of pairs of nodes; this one is not") from None
    if not ends.size:
        return np.empty((0, 2), dtype=np.int64)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.issubdtype(ends.dtype, np.integer):
        raise InvalidInput(f"an edge list is pairs of whole numbers, got shape {ends.shape} of type {ends.dtype}")
    outside = np.flatnonzero(((ends < 0) | (ends >= n)).any(axis=1))
    if outside.size:
        k = int(outside[0])
        raise InvalidInput(f"edge {k + 1} is {tuple(ends[k].tolist())}; nodes are numbered 0..{n - 1}")
    return ends.astype(np.int64)


def _places(k: int, pair: object, place: dict[Hashable, int]) -> tuple[int, int]:
    ends = tuple(pair) if isinstance(pair, Iterable) else (pair,)
    if len(ends) != 2:
        raise InvalidInput(f"edge {k + 1} is {pair!r}; an edge is a pair of nodes")
    for end in ends:
        if end not in place:
            raise InvalidInput(f"edge {k + 1} names {end!r}, which is not among the declared nodes")
    return place[ends[0]], place[ends[1]]


def _label(k: int, labels: tuple[Hashable, ...] | None) -> str:
    return repr(labels[k] if labels is not None else int(k))


BoolArray = NDArray[np.bool_]

# Edges of a randomized graph: 2^25 take half a gigabyte as an array and a gigabyte and a half as a matrix.
MAX_EDGES = 1 << 25
# Pairs drawn at once, two bytes each.
_PAIRS = 1 << 22
_COARSE = 1 << 16
_FINE = 1 << 64


@dataclass(frozen=True)
class EdgeChannel:
    """Flips a bit with probability ``coarse``/2^16 · ``fine``/2^64: two bytes decide nearly every pair when f is small."""

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
        """ln((1−f)/f) in nats of the channel as drawn, rounded up: edge local differential privacy, pure."""
        return log_ceiling((1 - self.exact_flip) / self.exact_flip)

    @property
    def noise(self) -> float:
        """f(1−f)/(1−2f)²: variance of one debiased bit (bit − f)/(1 − 2f)."""
        return self.flip * (1 - self.flip) / (1 - 2 * self.flip) ** 2


def response_channel(epsilon: float) -> EdgeChannel:
    """Randomized response at ε nats."""
    checked_epsilon(epsilon)
    return _channel(1 / (1 + exp_enclosure(Fraction(epsilon))[0]))


def laplace_channel(epsilon: float) -> EdgeChannel:
    """Laplace noise of scale 1/ε on the bit, cut at 1/2; the channel's own ``epsilon`` is below the one given."""
    checked_epsilon(epsilon)
    return _channel(exp_enclosure(Fraction(-epsilon) / 2)[1] / 2)


def _channel(flip: Fraction) -> EdgeChannel:
    """Rounded up: a larger flip is more private."""
    coarse = ceil(flip * _COARSE)
    fine = ceil(flip * _COARSE * _FINE / coarse)
    if fine == _FINE:
        # 2^64 does not fit into a word; the coarse part then grows by one step instead
        coarse += 1
        fine = ceil(flip * _COARSE * _FINE / coarse)
    return EdgeChannel(coarse, fine)


@dataclass(frozen=True, eq=False)
class RandomizedGraph:
    """What the collector sees: the reported edges, and the channel they went through."""

    reported: Graph
    channel: EdgeChannel

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.reported.n


def randomize(graph: Any, channel: EdgeChannel, nodes: Any = None, random_state: RandomState = None) -> RandomizedGraph:
    """Every pair's bit through the channel, once; ``graph`` and ``nodes`` as for :func:`optrr.ways.graphs.as_graph`.

    O(n²) random bytes, memory for the reported edges and a few megabytes.

    Raises
    ------
    InvalidInput
        where more than 2^25 reported edges are to be expected.
    """
    given = as_graph(graph, nodes)
    expected = channel.flip * given.slots + len(given.edges)
    if expected > MAX_EDGES:
        raise InvalidInput(
            f"about {expected:.3g} edges would be reported for {given.n} nodes at epsilon {channel.epsilon:.3g}, and "
            f"{MAX_EDGES} fit; raise epsilon or collect fewer nodes"
        )
    flipped = _flipped(given.slots, channel, as_source(random_state))
    slots = np.setxor1d(given.edge_slots(), flipped, assume_unique=True)
    return RandomizedGraph(from_slots(given.n, slots, given.labels), channel)


def report_ties(ties: ArrayLike, channel: EdgeChannel, random_state: RandomState = None) -> BoolArray:
    """What node i sends: its ties to the later nodes i+1..n−1, shape (n−1−i,), each bit through the channel.

    This is the owner's side of :func:`randomize`; the ties to earlier nodes are reported by those.

    Raises
    ------
    InvalidInput
        for anything but one row of truth values (or zeros and ones).
    """
    out = _bits(np.asarray(ties), "a node's row of ties")
    if out.size:
        flipped = _flipped(out.size, channel, as_source(random_state))
        out[flipped] = ~out[flipped]
    return out


def _bits(given: NDArray[Any], what: str) -> BoolArray:
    """A copy as truth values, where it is one row of them or of zeros and ones."""
    if given.ndim != 1 or not np.isin(given, (0, 1)).all():
        raise InvalidInput(
            f"{what}, of shape {given.shape}, is not one row of zeros and ones; give one bit a later node"
        )
    return given.astype(bool)


def assemble(reports: Sequence[ArrayLike], channel: EdgeChannel) -> RandomizedGraph:
    """The collected graph from every node's report, in order; the last node's is empty.

    Raises
    ------
    InvalidInput
        where a report has another length than the number of later nodes, or holds anything but truth values (or zeros and
        ones); for fewer than two nodes.
    """
    rows = [_bits(np.asarray(r), f"the report of node {i}") for i, r in enumerate(reports)]
    if len(rows) < 2:
        raise InvalidInput(f"a graph of {len(rows)} nodes has no pairs; collect from at least two")
    for i, row in enumerate(rows):
        if row.shape != (len(rows) - 1 - i,):
            raise InvalidInput(
                f"the report of node {i} has shape {row.shape}; with {len(rows)} nodes it holds {len(rows) - 1 - i} bits, "
                "one for each later node"
            )
    return RandomizedGraph(from_slots(len(rows), np.flatnonzero(np.concatenate(rows))), channel)


def _flipped(slots: int, channel: EdgeChannel, source: BitSource) -> IntArray:
    """Which slots flip, ascending."""
    flips = []
    fine = np.uint64(channel.fine)
    for start in range(0, slots, _PAIRS):
        count = min(_PAIRS, slots - start)
        words = source.words((count + 3) // 4).view(np.uint16)[:count]
        candidates = np.flatnonzero(words < channel.coarse)
        flips.append(start + candidates[source.words(candidates.size) < fine])
    return np.concatenate(flips)
