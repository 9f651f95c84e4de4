"""The exact ε of an automaton of many attributes, between two rationals: for where change sets are too many to be listed.

Backward over the layers, the largest and the smallest probability of one output from every state, in whole numbers of any size.
Where a change set has one path, their ratio is e^ε. Where a choice or a random rounding gives it several, the ratio bounds e^ε
from above; that of two change sets, whose probabilities are added up over all their paths, bounds it from below.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers

Pick = Callable[[Iterable[int]], int]


@dataclass(frozen=True)
class Bracket:
    """e^ε is from ``low`` to ``high``; ``flips``, the exact probability of every attribute to change."""

    low: Fraction
    high: Fraction
    flips: list[Fraction]

    @classmethod
    def of(cls, automaton: Layers) -> "Bracket":
        """That of what an automaton draws."""
        top, largest = _extreme(automaton, max)
        bottom, smallest = _extreme(automaton, min)
        sets = {s for turns in (largest, smallest) for s in _followed(automaton, turns)}
        m = automaton.sizes.size
        outputs = [_output(automaton, s) for s in {*sets, (False,) * m, (True,) * m}]
        return cls(max(outputs) / min(outputs), Fraction(top, bottom), _flips(automaton))


def _numbers(words: NDArray[np.uint64] | None, states: int) -> list[int]:
    """Thresholds of every state, whose words stand highest first; 0 where there are none."""
    out = [0] * states
    for row in () if words is None else words.tolist():
        out = [x << 64 | y for x, y in zip(out, row, strict=True)]
    return out


def _chances(layer: ChoiceLayer) -> list[tuple[int, int]]:
    """Of 2^64, and where to."""
    ends = [0, *(int(x) for x in layer.ends), 1 << 64]
    return [(b - a, int(s)) for a, b, s in zip(ends, ends[1:], layer.next_states, strict=False)]


def _ways(layer: Layer, bits: int) -> Iterator[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    """Of every state: chances of 2^bits and next states, where the attribute is kept and where it changes."""
    second = layer.changed if layer.high is None else layer.high
    thresholds = zip(_numbers(layer.words, layer.states), _numbers(layer.high_words, layer.states), strict=True)
    for state, (a, b) in enumerate(thresholds):
        changed = [(a - b, int(layer.changed[state])), (b, int(second[state]))]
        yield [((1 << bits) - a, int(layer.kept[state]))], changed


def _extreme(automaton: Layers, pick: Pick) -> tuple[int, list[list[bool]]]:
    """The extreme probability of an output, but for a factor that all outputs share; and whether each state changes there."""
    # after the last attribute there is one state, whatever its number
    after: dict[int, int] = defaultdict(lambda: 1)
    turns = []
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            after = {0: sum(c * after[s] for c, s in _chances(layer))}
            continue
        if layer.uniform:
            after = {state: after[int(s)] for state, s in enumerate(layer.kept)}
            turns.append([False] * len(after))
            continue
        others = int(automaton.sizes[layer.attribute]) - 1
        pairs = [
            (others * sum(c * after[s] for c, s in kept), sum(c * after[s] for c, s in changed))
            for kept, changed in _ways(layer, automaton.bits)
        ]
        after = dict(enumerate(map(pick, pairs)))
        turns.append([pick(pair) != pair[0] for pair in pairs])
    return after[0], turns[::-1]


def _followed(automaton: Layers, turns: list[list[bool]]) -> Iterator[tuple[bool, ...]]:
    """The change sets of extreme paths, one from every component."""
    choices = [x for x in automaton.layers if isinstance(x, ChoiceLayer)]
    for component in range(max((len(_chances(x)) for x in choices), default=1)):
        state, own, changes = 0, iter(turns), [False] * automaton.sizes.size
        for layer in automaton.layers:
            if isinstance(layer, ChoiceLayer):
                ways = _chances(layer)
                state = ways[min(component, len(ways) - 1)][1]
                continue
            changes[layer.attribute] = change = next(own)[state]
            state = int((layer.changed if change else layer.kept)[state])
        yield tuple(changes)


def _output(automaton: Layers, changes: tuple[bool, ...]) -> Fraction:
    """Exact probability of one output with these changes, over all its paths."""
    masses = {0: Fraction(1)}
    for layer in automaton.layers:
        after: dict[int, Fraction] = defaultdict(Fraction)
        for state, mass in masses.items():
            if isinstance(layer, ChoiceLayer):
                for chance, to in _chances(layer):
                    after[to] += mass * Fraction(chance, 1 << 64)
                continue
            size, change = int(automaton.sizes[layer.attribute]), changes[layer.attribute]
            if layer.uniform:
                after[int(layer.kept[state])] += mass / size
                continue
            (a,) = _numbers(layer.words[:, [state]], 1)
            (b,) = _numbers(None if layer.high_words is None else layer.high_words[:, [state]], 1)
            full = 1 << automaton.bits
            if not change:
                after[int(layer.kept[state])] += mass * Fraction(full - a, full)
                continue
            after[int(layer.changed[state])] += mass * Fraction(a - b, full * (size - 1))
            if b:
                after[int(layer.high[state])] += mass * Fraction(b, full * (size - 1))
        masses = after
    return sum(masses.values(), Fraction(0))


def _flips(automaton: Layers) -> list[Fraction]:
    """One forward pass in whole numbers: chances of 2^bits a layer, 2^64 a choice."""
    out = [Fraction(0)] * automaton.sizes.size
    masses = {0: 1}
    for layer in automaton.layers:
        after: dict[int, int] = defaultdict(int)
        if isinstance(layer, ChoiceLayer):
            for chance, to in _chances(layer):
                after[to] += masses[0] * chance
        elif layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            out[layer.attribute] = Fraction(size - 1, size)
            for state, mass in masses.items():
                after[int(layer.kept[state])] += mass
        else:
            part = 0
            for state, (kept, changed) in enumerate(_ways(layer, automaton.bits)):
                mass = masses.get(state, 0)
                part += mass * sum(c for c, _ in changed)
                for chance, to in [*kept, *changed]:
                    after[to] += mass * chance
            out[layer.attribute] = Fraction(part, sum(masses.values()) << automaton.bits)
        masses = after
    return out
