"""True ε of an automaton, from its integers alone (theory §7).

Along a path the probability of one particular output is a product of a/(2^k (r−1)) and (2^k − a)/2^k. Its largest and
smallest value over all change sets are two passes over the layers with max and min in place of the sum; their ratio is
e^ε. Flip probabilities are one forward pass. Conditional ε are bounded beforehand, by how far rounding can move a
path's probability (:mod:`optrr_solvers.sampling.build`).

Where a state's continuation is hidden behind a random rounding or a choice, a change set's probability is a sum of
paths. Then a sum of maxima bounds the maximum, and ε is an upper bound; it is met where one change set is extreme in
every component, as for balls.

All results are rounded up, but for the accuracies ε_i, which are rounded down.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.sampling.arithmetic import Arithmetic, Digits, Doubles, Numbers, complement, difference
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

# The error of a bound is computed as if each layer took this many operations.
_OPERATIONS = 8


@dataclass(frozen=True, eq=False)
class DrawnEpsilons:
    """Total ε of an automaton in nats, rounded up.

    ``attribute`` is the accuracy ε_i of every attribute, rounded down, ``flips`` its probability of a change; shape
    (m,) each.
    """

    epsilon: float
    attribute: FloatArray
    flips: FloatArray


@dataclass(frozen=True, eq=False)
class _Branches:
    """Probabilities of a layer's branches for one output each, and next states.

    Shape (S,) each; the kept branch first, then the changes.
    """

    parts: tuple[Numbers, ...]
    states: tuple[IntArray, ...]


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
            return _Branches((part, part), (layer.kept, layer.kept))
        kept = ar.shares(complement(layer.words))
        if layer.high is None or layer.high_words is None:
            return _Branches((kept, ar.shares(layer.words) / (size - 1)), (layer.kept, layer.changed))
        high = ar.shares(layer.high_words) / (size - 1)
        low = ar.shares(difference(layer.words, layer.high_words)) / (size - 1)
        return _Branches((kept, low, high), (layer.kept, layer.changed, layer.high))

    def chances(self, layer: ChoiceLayer) -> Numbers:
        shares = np.diff(np.concatenate([[0], layer.ends.astype(object), [1 << 64]]))
        return np.array([self.arithmetic.numbers(np.ones(())) * int(x) / (1 << 64) for x in shares])


def truth(automaton: Layers, *, exact: bool) -> DrawnEpsilons:
    """Compute ε of an automaton from its integers.

    Uses sixty digits if ``exact``, otherwise doubles with outward rounding.
    """
    arithmetic: Arithmetic = Digits() if exact else Doubles()
    with Digits.here() if exact else nullcontext():
        reader = _Reader(automaton, arithmetic)
        operations = _OPERATIONS * len(automaton.layers) + 16
        return DrawnEpsilons(_total(reader, operations), *_attributes(reader, operations))


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
    if ratio == 1 and all(layer.uniform for layer in reader.automaton.steps):
        return 0.0
    return reader.arithmetic.log_ceiling(ratio, operations)


def _kept_and_changed(ways: _Branches, after: Numbers) -> tuple[Numbers, Numbers]:
    # there is only one state after the last attribute, whatever its number
    values = [part * _at(after, state) for part, state in zip(ways.parts, ways.states, strict=True)]
    return values[0], values[1] if len(values) == 2 else values[1] + values[2]


def _at(after: Numbers, state: IntArray) -> Numbers:
    return after[state] if after.size > 1 else np.repeat(after, state.size)


def _attributes(reader: _Reader, operations: int) -> tuple[FloatArray, FloatArray]:
    """Compute ε_i, rounded down, and Pr(changed) of every attribute, shape (m,) each.

    ε_i is ln of (r−1) Pr(kept)/Pr(changed).
    """
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
    """Add masses up by state."""
    place = np.concatenate(states)
    order = np.argsort(place, kind="stable")
    values, place = np.concatenate(masses)[order], place[order]
    starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
    out = np.zeros(int(place[-1]) + 1, dtype=values.dtype)
    out[place[starts]] = np.add.reduceat(values, starts)
    return out
