"""Noise distributions as layered decision diagrams, and the layers of integers to draw with (theory §7).

Attributes are visited in a stated order. Before each there is a state; the attribute is kept or changed, which leads to
a next state and may multiply the density; after the last attribute each state has a density:

    ln q_S = Σ over the steps (log_kept or log_changed) + log_density of the last state.

Two kinds of hidden chance make mixtures small: a *choice* of component before some attribute, and, where weights are
rounded at random, a second way to change (``high``), taken with probability ``fraction`` of the changes. Then q_S is
the mean over the hidden choices. All densities are against the law μ of a uniformly random output, which the diagram
therefore leaves out.

A law that counts something (changes in a class, weights that changed, two statistics at once) is one call of
:func:`totals_diagram`; independent blocks are :func:`in_sequence`.

In a layer a fresh uniform word of k bits decides: below a_s the attribute changes, otherwise it is kept; then the state
is ``changed[s]`` or ``kept[s]``. Where weights are rounded at random, a word below the smaller threshold ``high_words``
changes the attribute, too, and leads to ``high[s]``. A layer that is *uniform* replaces its attribute by any of its
categories, the true one included, each as likely. The law that runs is therefore exactly a product of fractions a/2^k
and (2^k − a)/2^k along every path.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import Words

# States of one law's automaton; at 28 to 60 bytes each the tables fill some 200 MB.
MOST_STATES = 1 << 22
# The most layers: the sampler does some array operations in each of them, for each block of records.
MOST_LAYERS = 1 << 14
WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class _Visit(ABC):
    """One attribute: next states for each state before it, shape (S,).

    ``high`` is the second next state of a change, taken with probability ``fraction`` (shape () or (S,)) of the
    changes, or None.
    """

    attribute: int
    kept: IntArray
    changed: IntArray
    high: IntArray | None = None
    fraction: FloatArray | float = 0.0

    @property
    def states(self) -> int:
        """Number of states before the attribute."""
        return int(self.kept.size)

    @property
    @abstractmethod
    def decisive(self) -> tuple[str, ...]:
        """Fields in which mergeable states agree, in the order that numbers states."""

    def moved(self, place: IntArray) -> Self:
        """Return the visit with renumbered next states."""
        high = None if self.high is None else place[self.high]
        return replace(self, kept=place[self.kept], changed=place[self.changed], high=high)

    def reached(self, alive: IntArray) -> list[IntArray]:
        """Return the next states of the given states."""
        return [way[alive] for way in (self.kept, self.changed, self.high) if way is not None]

    def of_these(self, which: IntArray) -> Self:
        """Return the visit restricted to the given states."""
        given: dict[str, Any] = {k: np.ascontiguousarray(x[..., which]) for k, x in vars(self).items() if np.ndim(x)}
        return replace(self, **given)

    def alike(self) -> tuple[IntArray, IntArray]:
        """Return the first state of every group of equal ones, and every state's group."""
        rows = [
            row for name in self.decisive for row in np.atleast_2d(getattr(self, name)) if np.ndim(getattr(self, name))
        ]
        # −0.0 and 0.0 are one factor
        return equal_rows([(row + row.dtype.type(0)).view(np.int64) for row in rows])


@dataclass(frozen=True, eq=False)
class _Components:
    """From a single state to one of several, where each component goes on."""

    next_states: IntArray
    states: ClassVar[int] = 1

    def moved(self, place: IntArray) -> Self:
        """Return the choice with renumbered next states."""
        return replace(self, next_states=place[self.next_states])

    def reached(self, alive: IntArray) -> list[IntArray]:
        """Return the next states of all components."""
        del alive
        return [self.next_states]

    def of_these(self, which: IntArray) -> Self:
        """Return the choice itself: it has one state."""
        del which
        return self

    def alike(self) -> tuple[IntArray, IntArray]:
        """Return one state, which is a group by itself."""
        return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Step(_Visit):
    """One attribute of a diagram, with logs of density factors, shape () or (S,)."""

    log_kept: FloatArray | float = 0.0
    log_changed: FloatArray | float = 0.0
    log_high: FloatArray | float = 0.0

    @property
    def decisive(self) -> tuple[str, ...]:
        """Everything."""
        return ("kept", "changed", "high", "fraction", "log_kept", "log_changed", "log_high")

    @property
    def ways(self) -> list[tuple[IntArray, FloatArray | float, FloatArray | float]]:
        """(next states, log factor, share) of every way to change; shares add up to 1."""
        if self.high is None:
            return [(self.changed, self.log_changed, 1.0)]
        return [(self.changed, self.log_changed, 1 - self.fraction), (self.high, self.log_high, self.fraction)]


@dataclass(frozen=True, eq=False)
class Choice(_Components):
    """Component k with density weight ``shares[k]`` > 0."""

    shares: FloatArray


@dataclass(frozen=True, eq=False)
class Diagram:
    """Steps and choices in order, starting from one state.

    ``log_density`` is ln of the density of every last state, shape (S,).
    """

    nodes: tuple[Step | Choice, ...]
    log_density: FloatArray

    @property
    def states(self) -> int:
        """All states, the last ones included."""
        return sum(node.states for node in self.nodes) + int(self.log_density.size)


@dataclass(frozen=True, eq=False)
class Layer(_Visit):
    """Attribute of an automaton, with thresholds as 64-bit words, shape (D, S).

    The first word is the highest.

    ``fraction`` is the share of the law's changes that go to ``high``; it does not affect sampling and tightens bounds.
    """

    words: Words = field(kw_only=True)
    high_words: Words | None = None
    uniform: bool = False

    @property
    def decisive(self) -> tuple[str, ...]:
        """A uniform layer's thresholds decide nothing."""
        return ("kept",) if self.uniform else ("kept", "changed", "words", "high", "high_words", "fraction")


@dataclass(frozen=True, eq=False)
class ChoiceLayer(_Components):
    """Choice of component k for words from ``ends[k−1]`` to below ``ends[k]``.

    The last component is chosen for words beyond the last end.
    """

    ends: Words


@dataclass(frozen=True, eq=False)
class Layers:
    """Automaton over attributes of these sizes; thresholds have ``bits`` bits."""

    sizes: IntArray
    layers: tuple[Layer | ChoiceLayer, ...]
    bits: int

    @property
    def states(self) -> int:
        """States before every attribute together."""
        return sum(layer.states for layer in self.layers)

    @property
    def steps(self) -> list[Layer]:
        """The layers of attributes, in the order in which these are visited."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    @property
    def hidden(self) -> bool:
        """Whether several paths may lead to one change set.

        They may by choices, or by second ways to change.
        """
        return len(self.steps) < len(self.layers) or any(layer.high is not None for layer in self.steps)

    def plain(self) -> "Layers":
        """Remove what only bounds use, and merge equal states."""
        layers = tuple(replace(x, fraction=0.0) if isinstance(x, Layer) else x for x in self.layers)
        return merged(replace(self, layers=layers))


def reduced(diagram: Diagram) -> Diagram:
    """Merge states with equal next states and factors; densities stay the same.

    Takes O(states log states); the result has the fewest states.
    """
    log_density, place = np.unique(diagram.log_density, return_inverse=True)
    alive, nodes = np.zeros(1, dtype=np.int64), []
    merged_nodes = _merged(diagram.nodes, place)
    counts = [node.states for node in merged_nodes[1:]] + [log_density.size]
    # then the states that no path from the start reaches are left out
    for node, after in zip(merged_nodes, counts, strict=True):
        met = np.zeros(after, dtype=np.bool_)
        met[np.concatenate(node.reached(alive))] = True
        nodes.append(node.of_these(alive).moved(np.cumsum(met) - 1))
        alive = np.flatnonzero(met)
    return Diagram(tuple(nodes), np.asarray(log_density[alive], dtype=np.float64))


def merged(automaton: Layers) -> Layers:
    """Merge states with equal thresholds and next states.

    The distribution stays the same; takes O(states log states), and the result has the fewest states.
    """
    # there is one state after the last attribute, whatever densities led there
    after = max(int(x.max()) for x in automaton.layers[-1].reached(np.arange(automaton.layers[-1].states)))
    return replace(automaton, layers=_merged(automaton.layers, np.zeros(after + 1, dtype=np.int64)))


_Node = TypeVar("_Node", Step | Choice, Layer | ChoiceLayer)


def _merged(nodes: Sequence[_Node], place: IntArray) -> tuple[_Node, ...]:
    """Merge equal states, from the last node backwards.

    ``place`` are the numbers of the states after the last node.
    """
    out: list[_Node] = []
    for node in reversed(nodes):
        moved = node.moved(place)
        first, place = moved.alike()
        out.append(moved.of_these(first))
    return tuple(reversed(out))


def equal_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Group equal rows; return (first row of each group, group of every row).

    Rows are equal if they are so in all columns; groups are numbered from 0.
    """
    group = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        _, number = np.unique(column, return_inverse=True)
        # both numbers are below the number of rows, so that the pair's number fits in 64 bits
        _, group = np.unique(group * (int(number.max(initial=0)) + 1) + number, return_inverse=True)
    first = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[group[::-1]] = np.arange(group.size - 1, -1, -1)
    return first, np.asarray(group, dtype=np.int64)


def is_uniform(step: Step) -> bool:
    """Check that the attribute is a uniformly random answer given all others.

    The step must be of a reduced diagram.
    """
    return all(np.array_equal(way, step.kept) and np.array_equal(log, step.log_kept) for way, log, _ in step.ways)


@dataclass(frozen=True, eq=False)
class Totals:
    """A density that depends on integer totals of the attributes that changed.

    Parameters
    ----------
    steps
        what each attribute adds where it changes, shape (m,) for one total or (m, d) for d of them.
    log_density
        takes totals, shape (S,) or (S, d), to ln q, shape (S,).
    higher, fractions
        where ``fractions[i]`` > 0, attribute i adds ``higher[i]`` instead with that probability; shapes like ``steps``,
        (m,).
    clamp
        takes a number k and totals before attribute ``order[k]`` (all attributes done for k = m) to totals that stand
        for them: equal results must mean that every continuation has the same density.
    """

    steps: IntArray
    log_density: Callable[[IntArray], FloatArray]
    higher: IntArray | None = None
    fractions: FloatArray | None = None
    clamp: Callable[[int, IntArray], IntArray] | None = None


def totals_diagram(totals: Totals, most: int = MOST_STATES, order: IntArray | None = None) -> Diagram | None:
    """Build the reduced diagram of reachable totals; None above ``most`` states."""
    visited = np.arange(len(totals.steps)) if order is None else order
    row = np.zeros((1, *np.shape(totals.steps)[1:]), dtype=np.int64)
    nodes, count = [], 1
    for k, i in enumerate(visited.tolist()):
        ways = [row, row + totals.steps[i]]
        fraction = 0.0 if totals.fractions is None else float(totals.fractions[i])
        if fraction > 0 and totals.higher is not None:
            ways.append(row + totals.higher[i])
        reached = np.concatenate(ways)
        if totals.clamp is not None:
            reached = totals.clamp(k + 1, reached)
        row, place = _distinct(reached)
        count += len(row)
        if count > most:
            return None
        kept, changed, *second = np.split(place, len(ways))
        nodes.append(Step(i, kept, changed, second[0], fraction) if second else Step(i, kept, changed))
    return reduced(Diagram(tuple(nodes), totals.log_density(row)))


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray]:
    if rows.ndim == 1:
        values, place = np.unique(rows, return_inverse=True)
        return values, place
    first, place = equal_rows(list(rows.T))
    return rows[first], place


def mixture(parts: Sequence[tuple[float, Diagram]]) -> Diagram:
    """Combine diagrams to the density Σ share × density; shares are positive.

    All diagrams visit the same attributes in the same order.
    """
    if len(parts) == 1:
        return parts[0][1]
    shares = np.array([share for share, _ in parts])
    nodes: list[Step | Choice] = [Choice(np.arange(len(parts)), shares)]
    for k in range(len(parts[0][1].nodes)):
        same = [node for _, part in parts for node in part.nodes[k : k + 1] if isinstance(node, Step)]
        after = [part.nodes[k + 1].states if k + 1 < len(part.nodes) else part.log_density.size for _, part in parts]
        nodes.append(_side_by_side(same, after))
    return reduced(Diagram(tuple(nodes), np.concatenate([part.log_density for _, part in parts])))


def _side_by_side(steps: Sequence[Step], after: Sequence[int]) -> Step:
    """Combine steps of several components, their states one after another.

    ``after`` is each component's number of states after the step.
    """
    begin = np.concatenate([[0], np.cumsum(after)[:-1]]).astype(np.int64)

    def joined(parts: list[IntArray]) -> IntArray:
        return np.concatenate([p + b for p, b in zip(parts, begin, strict=True)])

    def factor(name: str) -> FloatArray | float:
        # a component without a second way to change takes either with one half, to the same state
        values = [
            0.5 if name == "fraction" and high is not None and s.high is None else getattr(s, name) for s in steps
        ]
        if all(np.ndim(v) == 0 and v == values[0] for v in values):
            return float(values[0])
        return np.concatenate([np.broadcast_to(v, s.states) for v, s in zip(values, steps, strict=True)])

    high = None
    if any(s.high is not None for s in steps):
        high = joined([s.changed if s.high is None else s.high for s in steps])
    return Step(
        steps[0].attribute, joined([s.kept for s in steps]), joined([s.changed for s in steps]), high,
        fraction=factor("fraction"), log_kept=factor("log_kept"), log_changed=factor("log_changed"),
        log_high=factor("log_high"),
    )  # fmt: skip


def in_sequence(blocks: Sequence[tuple[Sequence[int], Diagram]]) -> Diagram:
    """Join independent blocks one after another.

    Each block names its attributes in the order of its diagram's numbers.
    """
    nodes: list[Step | Choice] = []
    for members, diagram in blocks:
        for node in diagram.nodes[:-1]:
            nodes.append(replace(node, attribute=members[node.attribute]) if isinstance(node, Step) else node)
        last = diagram.nodes[-1]
        assert isinstance(last, Step)
        # the block's densities become factors, followed by one state
        nowhere, density = np.zeros(last.states, dtype=np.int64), diagram.log_density
        closed = replace(
            last,
            attribute=members[last.attribute],
            kept=nowhere,
            changed=nowhere,
            high=None if last.high is None else nowhere,
            log_kept=last.log_kept + density[last.kept],
            log_changed=last.log_changed + density[last.changed],
            log_high=0.0 if last.high is None else last.log_high + density[last.high],
        )
        nodes.append(closed)
    return reduced(Diagram(tuple(nodes), np.zeros(1)))


def table_diagram(log_density: FloatArray) -> Diagram:
    """Build the diagram of a table of densities, shape (2,)*m.

    It has one state for each distinct rest of the table.
    """
    m = log_density.ndim
    levels, place = np.unique(log_density.ravel(), return_inverse=True)
    nodes: list[Step] = []
    for i in range(m - 1, -1, -1):
        pairs = place.reshape(-1, 2)
        first, place = equal_rows([pairs[:, 0], pairs[:, 1]])
        nodes.append(Step(i, pairs[first, 0], pairs[first, 1]))
    return Diagram(tuple(reversed(nodes)), levels)
