"""Thresholds with as few digits as a label's tolerance asks for, for files that must be small.

Nearly all bytes of a compressed file are the digits of its thresholds, which look random. Here every threshold is rounded to
d significant bits of the rarer way that it bounds; zeros follow, which compress away, however many bits the format has for
them. The fewest d are taken that keep the total ε, computed exactly from what is left, within the tolerance. One threshold
of every layer has more digits and is set so that each attribute changes as often as before: accuracies do not move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from optrr.devices.deployment.exact import component_chances, flip_probabilities, thresholds, total_epsilon
from optrr_solvers.automaton.arithmetic import words_of
from optrr_solvers.automaton.layers import WORD_BITS, ChoiceLayer, Layer, Layers, merged

# How far the total ε may move, in nats: half of what a label may be above the truth.
MOVED = 5e-10
# A layer moves a path by at most about 2^(1−d); few come near that, so that the search starts with fewer.
_FEWER = 2
# Significant bits that one threshold of a layer has more than the others: flips are kept to a relative 1e-15 or so.
_FINER = 20
# Bits of the chance to be in a state. They are whole numbers, so that every machine writes the same file.
_MASS_BITS = 192


@dataclass(frozen=True)
class _Chances:
    """Thresholds a and b of every state of a layer, b = 0 without a second way to change, and what they are parts of."""

    a: list[int]
    b: list[int]
    whole: int

    def in_range(self) -> bool:
        """Whether every way has a probability above 0."""
        return all(0 < a < self.whole and 0 <= b < a for a, b in zip(self.a, self.b, strict=True))


def shortened(automaton: Layers) -> Layers:
    """The automaton with the fewest digits that will do; itself where none will."""
    flips, total = flip_probabilities(automaton), total_epsilon(automaton)
    fewest = math.ceil(math.log2(len(automaton.layers) / MOVED)) - _FEWER
    for digits in range(fewest, automaton.bits):
        layers = _with_digits(automaton, digits, flips)
        if layers is not None and abs(total_epsilon(layers) - total) <= Decimal(MOVED):
            return merged(layers)
    return automaton


def _with_digits(automaton: Layers, digits: int, flips: Sequence[tuple[int, int]]) -> Layers | None:
    """Thresholds of so many significant bits that keep the flips; None where a way to change would be lost."""
    mass, layers = [1 << _MASS_BITS], list[Layer | ChoiceLayer]()
    widths = [layer.states for layer in automaton.layers[1:]] + [1]
    for layer, width in zip(automaton.layers, widths, strict=True):
        if isinstance(layer, ChoiceLayer) or layer.uniform:
            layers.append(layer)
            mass = _passed_on(layer, mass, width)
            continue
        exact = _Chances(*thresholds(layer), 1 << automaton.bits)
        chances = _settled(_rounded(exact, digits), digits + _FINER, mass, flips[layer.attribute])
        if not chances.in_range():
            return None
        layers.append(_with(layer, chances, automaton.bits // WORD_BITS))
        mass = _branched(layer, chances, mass, width)
    return replace(automaton, layers=tuple(layers))


def _rounded(chances: _Chances, digits: int) -> _Chances:
    """Every a to ``digits`` significant bits of "kept" and of the first way to change, its b to as many of either way."""
    a, b = [], []
    for above, below in zip(chances.a, chances.b, strict=True):
        first = above - below
        a.append(_nearest(above, min(chances.whole - above, first).bit_length() - digits))
        b.append(_nearest(below, min(below, first).bit_length() - digits))
    return replace(chances, a=a, b=b)


def _nearest(x: int, zeros: int) -> int:
    """The multiple of 2^zeros nearest to x."""
    return x if zeros <= 0 else (x + (1 << (zeros - 1))) >> zeros << zeros


def _settled(chances: _Chances, digits: int, mass: Sequence[int], flip: tuple[int, int]) -> _Chances:
    """The one threshold that it matters least to moved so that the attribute changes with its probability, (part, whole)."""
    part, whole = flip
    # the state where most of the rarer of "kept" and "changed" happens: the share of it that is moved is smallest there
    weights = [x * min(a, chances.whole - a) for x, a in zip(mass, chances.a, strict=True)]
    state = max(range(len(weights)), key=weights.__getitem__)
    missing = (sum(mass) * part * chances.whole) // whole - sum(x * a for x, a in zip(mass, chances.a, strict=True))
    wanted = chances.a[state] + missing // mass[state]
    zeros = min(wanted, chances.whole - wanted).bit_length() - digits
    return replace(chances, a=[_nearest(wanted, zeros) if s == state else x for s, x in enumerate(chances.a)])


def _with(layer: Layer, chances: _Chances, words: int) -> Layer:
    high = None if layer.high_words is None else words_of(chances.b, words)
    return replace(layer, words=words_of(chances.a, words), high_words=high)


def _branched(layer: Layer, chances: _Chances, mass: Sequence[int], width: int) -> list[int]:
    """The chance of every state after the layer."""
    second = layer.changed if layer.high is None else layer.high
    ways = (layer.kept.tolist(), layer.changed.tolist(), second.tolist())
    out = [0] * width
    for x, a, b, kept, changed, high in zip(mass, chances.a, chances.b, *ways, strict=True):
        for part, state in ((chances.whole - a, kept), (a - b, changed), (b, high)):
            out[state] += x * part // chances.whole
    return out


def _passed_on(layer: Layer | ChoiceLayer, mass: Sequence[int], width: int) -> list[int]:
    """The same after a choice or a uniform layer."""
    out = [0] * width
    if isinstance(layer, ChoiceLayer):
        chances = component_chances(layer, WORD_BITS)
        for chance, state in zip(chances, layer.next_states.tolist(), strict=True):
            out[state] += mass[0] * chance >> WORD_BITS
        return out
    for x, state in zip(mass, layer.kept.tolist(), strict=True):
        out[state] += x
    return out
