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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.errors import InvalidInput
from optrr.mechanisms.matrix.enclosures import exp_enclosure
from optrr.releases.spent import checked_epsilon
from optrr.studies.graphs.graph import Graph, as_graph, from_slots
from optrr_solvers.arrays import IntArray
from optrr_solvers.enclosure import log_ceiling
from optrr_solvers.randomness import BitSource, RandomState, as_source

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
    """Every pair's bit through the channel, once; ``graph`` and ``nodes`` as for :func:`optrr.studies.graphs.as_graph`.

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
