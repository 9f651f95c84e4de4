"""Simple undirected graphs as sorted edge arrays: what comes in from networkx or edge lists, checked once.

Who the nodes are is public; which pairs are joined is what is protected. A pair of nodes is numbered by its *slot*, row by
row of the upper triangle: (0,1), (0,2), …, (1,2), …
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from optrr.errors import InvalidInput
from optrr_solvers.arrays import IntArray


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
