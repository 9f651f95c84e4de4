"""The truth of what is drawn: ε of an automaton, from its integers alone (design §7).

Along a path the probability of one particular output is a product of a/(2^k (r−1)) and (2^k − a)/2^k. Its largest and
smallest value over all change sets are two passes over the layers with max and min in place of the sum; their ratio is
e^ε. The conditional ε of attribute i compares paths that differ in i only: pairs of states, followed in step. Flip
probabilities are one forward pass.

Where a state's continuation is hidden behind a random rounding or a choice, a change set's probability is a sum of
paths. Then a sum of maxima bounds the maximum, a ratio of sums is at most the largest ratio of its terms, and ε is an
upper bound; it is met where one change set is extreme in every component, as for balls.

All results are rounded up, but for the accuracies ε_i, which are rounded down.
"""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.sampling.arithmetic import Arithmetic, Digits, Doubles, Numbers, complement, difference
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

# At most this many pairs of states are compared for conditional ε, by whether numbers are decimal or double.
MOST_PAIRS = {True: 1 << 16, False: 1 << 19}
# The error of a bound is computed as if each layer took this many operations.
_OPERATIONS = 8


@dataclass(frozen=True, eq=False)
class DrawnEpsilons:
    """ε of what is drawn in nats, rounded up but for ``attribute``.

    ``conditional`` has shape (m,) and is None where pairs of states are too many; ``attribute``, shape (m,), is the accuracy
    ε_i of every attribute, rounded down; ``flips`` are the probabilities of a change, shape (m,), as doubles.
    """

    epsilon: float
    conditional: FloatArray | None
    attribute: FloatArray
    flips: FloatArray


@dataclass(frozen=True, eq=False)
class _Branches:
    """Probabilities of a layer's branches for one output each and next states, shape (S,): kept first, then changes."""

    layer: Layer
    parts: tuple[Numbers, ...]
    states: tuple[IntArray, ...]
    # the weights of the changes' terms where two sums are compared
    shares: tuple[Any, ...]


class _Reader:
    """Layers with their probabilities as numbers of one arithmetic."""

    def __init__(self, automaton: Layers, arithmetic: Arithmetic) -> None:
        self.automaton, self.arithmetic = automaton, arithmetic
        self.one = arithmetic.numbers(np.ones(1))

    def ways(self, layer: Layer) -> _Branches:
        size = int(self.automaton.sizes[layer.attribute])
        ar = self.arithmetic
        if layer.uniform:
            part = np.repeat(self.one / size, layer.states)
            return _Branches(layer, (part, part), (layer.kept, layer.kept), (1,))
        kept = ar.shares(complement(layer.words))
        if layer.high is None or layer.high_words is None:
            return _Branches(layer, (kept, ar.shares(layer.words) / (size - 1)), (layer.kept, layer.changed), (1,))
        high = ar.shares(layer.high_words) / (size - 1)
        low = ar.shares(difference(layer.words, layer.high_words)) / (size - 1)
        fraction = ar.numbers(layer.fraction)
        return _Branches(layer, (kept, low, high), (layer.kept, layer.changed, layer.high), (1 - fraction, fraction))

    def chances(self, layer: ChoiceLayer) -> Numbers:
        shares = np.diff(np.concatenate([[0], layer.ends.astype(object), [1 << 64]]))
        return np.array([self.arithmetic.numbers(np.ones(())) * int(x) / (1 << 64) for x in shares])


def truth(automaton: Layers, *, exact: bool) -> DrawnEpsilons:
    """ε of an automaton from its integers; with sixty digits where ``exact``, in doubles with outward error otherwise."""
    arithmetic: Arithmetic = Digits() if exact else Doubles()
    with Digits.here() if exact else nullcontext():
        reader = _Reader(automaton, arithmetic)
        operations = _OPERATIONS * len(automaton.layers) + 16
        attribute, flips = _attributes(reader, operations)
        return DrawnEpsilons(
            _total(reader, operations),
            _conditional(reader, operations, MOST_PAIRS[exact]),
            attribute,
            flips,
        )


def _total(reader: _Reader, operations: int) -> float:
    top = bottom = reader.one
    for layer in reversed(reader.automaton.layers):
        if isinstance(layer, ChoiceLayer):
            chances = reader.chances(layer)
            top = np.array([(chances * top[layer.next_states]).sum()])
            bottom = np.array([(chances * bottom[layer.next_states]).sum()])
            continue
        ways = reader.ways(layer)
        # relative to the uniform answer, so that the numbers stay near 1
        size = int(reader.automaton.sizes[layer.attribute])
        top = size * np.maximum(*_kept_and_changed(ways, top))
        bottom = size * np.minimum(*_kept_and_changed(ways, bottom))
    ratio = top[0] / bottom[0]
    if ratio == 1 and all(isinstance(layer, Layer) and layer.uniform for layer in reader.automaton.layers):
        return 0.0
    return reader.arithmetic.log_ceiling(ratio, operations)


def _kept_and_changed(ways: _Branches, after: Numbers) -> tuple[Numbers, Numbers]:
    # there is only one state after the last attribute, whatever its number
    values = [part * _at(after, state) for part, state in zip(ways.parts, ways.states, strict=True)]
    return values[0], values[1] if len(values) == 2 else values[1] + values[2]


def _at(after: Numbers, state: IntArray) -> Numbers:
    return after[state] if after.size > 1 else np.repeat(after, state.size)


def _attributes(reader: _Reader, operations: int) -> tuple[FloatArray, FloatArray]:
    """ln of (r−1) Pr(kept)/Pr(changed) rounded down, and Pr(changed), for every attribute: shape (m,) each."""
    sizes = reader.automaton.sizes
    out, flips = np.zeros(sizes.size), np.empty(sizes.size)
    mass = reader.one
    for k, layer in enumerate(reader.automaton.layers):
        if isinstance(layer, ChoiceLayer):
            mass = _spread([reader.chances(layer) * mass[0]], [layer.next_states])
            continue
        ways = reader.ways(layer)
        i, others = layer.attribute, int(sizes[layer.attribute]) - 1
        masses = [mass * part * (1 if j == 0 else others) for j, part in enumerate(ways.parts)]
        kept, changed = masses[0].sum(), sum(x.sum() for x in masses[1:])
        flips[i] = float(changed / (kept + changed))
        if not layer.uniform:
            additions = 0 if isinstance(reader.arithmetic, Digits) else 2 * math.log2(layer.states + 1) + 128
            # an accuracy is rounded down: minus the logarithm of the inverse, rounded up
            out[i] = -reader.arithmetic.log_ceiling(changed / (others * kept), int(operations + additions * (k + 1)))
        mass = _spread(masses, list(ways.states))
    return out, flips


def _spread(masses: list[Numbers], states: list[IntArray]) -> Numbers:
    """Masses added up by state."""
    place = np.concatenate(states)
    order = np.argsort(place, kind="stable")
    values, place = np.concatenate(masses)[order], place[order]
    starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
    out = np.zeros(int(place[-1]) + 1, dtype=values.dtype)
    out[place[starts]] = np.add.reduceat(values, starts)
    return out


def _conditional(reader: _Reader, operations: int, most: int) -> FloatArray | None:
    """max |ln| over pairs of paths that differ in one attribute, rounded up, shape (m,)."""
    pairs = _pairs(reader.automaton, most)
    if pairs is None:
        return None
    out = np.zeros(reader.automaton.sizes.size)
    after: Numbers = reader.one
    keys = np.zeros(1, dtype=np.int64)
    width = 1
    for layer, before in zip(reversed(reader.automaton.layers), reversed(pairs), strict=True):
        if isinstance(layer, ChoiceLayer):
            after, keys, width = reader.one, np.zeros(1, dtype=np.int64), 1
            continue
        ways = reader.ways(layer)
        ratios = _Ratios(after, keys, width)
        if not layer.uniform:
            worst = max(x.max() for x in _steps(ways, ratios))
            out[layer.attribute] = max(reader.arithmetic.log_ceiling(worst, 2 * operations), 0.0)
        after, keys, width = _followed(ways, ratios, before, layer.states)
    return out


@dataclass(frozen=True, eq=False)
class _Ratios:
    """Largest ratio of continuations of two states, for the ordered pairs numbered a·width + b in ``keys`` (sorted)."""

    values: Numbers
    keys: IntArray
    width: int

    def of(self, a: IntArray, b: IntArray) -> Numbers:
        if self.width == 1:
            return np.repeat(self.values[:1], a.size)
        return self.values[np.searchsorted(self.keys, a * self.width + b)]


def _steps(ways: _Branches, ratios: _Ratios) -> Iterator[Numbers]:
    """Kept over changed, and changed over kept, for every state: bounds of the ratio for all continuations."""
    kept, state = ways.parts[0], ways.states[0]
    changes = list(zip(ways.parts[1:], ways.states[1:], ways.shares, strict=True))
    for over in (True, False):
        terms = []
        for part, other, share in changes:
            if over:
                terms.append(share * kept / part * ratios.of(state, other))
            else:
                terms.append(part / (share * kept) * ratios.of(other, state))
        yield terms[0] if len(terms) == 1 else np.maximum(terms[0], terms[1])


def _followed(ways: _Branches, ratios: _Ratios, pairs: IntArray, width: int) -> tuple[Numbers, IntArray, int]:
    """The largest ratios for ordered pairs of states before the layer."""
    a, b = np.divmod(pairs, width)
    if ways.layer.uniform:
        return ratios.of(ways.states[0][a], ways.states[0][b]), pairs, width
    terms = [
        part[a] / part[b] * ratios.of(state[a], state[b]) for part, state in zip(ways.parts, ways.states, strict=True)
    ]
    best = np.maximum(terms[0], terms[1])
    return best if len(terms) == 2 else np.maximum(best, terms[2]), pairs, width


def _pairs(automaton: Layers, most: int) -> list[IntArray] | None:
    """Before every layer the ordered pairs of states, as a·S + b, that two paths differing in one attribute can be in.

    Equal states are among them, with ratio 1. None where there are more than ``most``.
    """
    out: list[IntArray] = []
    now, count = np.zeros(1, dtype=np.int64), 0
    widths = [layer.states for layer in automaton.layers] + [1]
    for layer, width, after in zip(automaton.layers, widths[:-1], widths[1:], strict=True):
        out.append(now)
        count += now.size
        if count > most:
            return None
        if isinstance(layer, ChoiceLayer):
            now = np.arange(after, dtype=np.int64) * (after + 1)
            continue
        a, b = np.divmod(now, width)
        states = [layer.kept] if layer.uniform else [layer.kept, layer.changed]
        states += [] if layer.high is None or layer.uniform else [layer.high]
        new = [s[a] * after + s[b] for s in states]
        new += [x * after + y for s in states[1:] for x, y in ((states[0], s), (s, states[0]))]
        new += [np.arange(after, dtype=np.int64) * (after + 1)]
        now = np.unique(np.concatenate(new)) if after > 1 else np.zeros(1, dtype=np.int64)
    return out
