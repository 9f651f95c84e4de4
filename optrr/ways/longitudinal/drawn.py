"""What is drawn, as whole numbers: the densities of an automaton's law, and of two laws one after the other.

A density q_S is the probability of one particular output with change set S, up to one constant. Two laws of change sets
commute, and on every axis the sum and the difference of (kept, changed) multiply:

    k + (r−1) c  and  k − c   of the whole  =  the products of those of the two.

Nothing is rounded, so ε that are computed from these numbers are those of what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.devices.deployment.exact import component_chances, thresholds
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers

# Change sets are listed for at most this many attributes: 4096 whole numbers of some thousand bits.
MOST_ATTRIBUTES = 12

# Python's whole numbers, shape (2,)*m, index 1 on an axis where the attribute changed.
Densities = NDArray[Any]


def drawn_densities(automaton: Layers) -> Densities:
    """The density of every change set, up to one constant; for at most 12 attributes."""
    order = [layer.attribute for layer in automaton.layers if not isinstance(layer, ChoiceLayer)]
    return np.transpose(_walked(automaton, lambda x: x).reshape((2,) * len(order)), np.argsort(order))


def _walked(automaton: Layers, kept: Callable[[Densities], Densities]) -> Densities:
    """What is ``kept`` of the densities that follow a state, from the last layer to the first, flat."""
    after = [np.array([1], dtype=object)]
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            chances = component_chances(layer, automaton.bits)
            after = [sum(c * after[s] for c, s in zip(chances, layer.next_states.tolist(), strict=True))]
        else:
            size = int(automaton.sizes[layer.attribute])
            after = [kept(each) for each in _before(layer, automaton.bits, size, after)]
    (flat,) = after
    return flat


def _before(layer: Layer, bits: int, size: int, after: list[Densities]) -> list[Densities]:
    """Densities of what follows each state: first those that keep the layer's attribute, then those that change it."""
    if layer.uniform:
        return [np.concatenate([after[s], after[s]]) for s in layer.kept.tolist()]
    second = layer.changed if layer.high is None else layer.high
    states = zip(layer.kept.tolist(), layer.changed.tolist(), second.tolist(), *thresholds(layer), strict=True)
    whole = 1 << bits
    # the states after the last attribute are one, whatever their numbers
    at = (
        after
        if len(after) > 1
        else after * (1 + max(int(layer.kept.max()), int(layer.changed.max()), int(second.max())))
    )
    return [
        np.concatenate([(whole - a) * (size - 1) * at[kept], (a - b) * at[changed] + b * at[high]])
        for kept, changed, high, a, b in states
    ]


def composed(first: Densities, second: Densities, sizes: IntArray) -> Densities:
    """The densities of one law after the other, up to one constant."""
    product = _to_effects(first, sizes) * _to_effects(second, sizes)
    for axis, r in enumerate(sizes.tolist()):
        whole, part = np.split(product, 2, axis=axis)
        product = np.concatenate([whole + (r - 1) * part, whole - part], axis=axis)
    return product


def _to_effects(densities: Densities, sizes: IntArray) -> Densities:
    out = densities
    for axis, r in enumerate(sizes.tolist()):
        kept, changed = np.split(out, 2, axis=axis)
        out = np.concatenate([kept + (r - 1) * changed, kept - changed], axis=axis)
    return out


def cell_probabilities(densities: Densities, sizes: IntArray) -> FloatArray:
    """Probability of one particular output by its change set, shape (2,)*m, each correctly rounded."""
    outputs = np.array(1, dtype=object)
    for r in sizes.tolist():
        outputs = np.multiply.outer(outputs, np.array([1, r - 1], dtype=object))
    total = int((densities * outputs).sum())
    return np.asarray(np.frompyfunc(lambda x: int(x) / total, 1, 1)(densities), dtype=np.float64)


def density_range(automaton: Layers) -> tuple[Fraction, Fraction]:
    """Bounds of the density relative to the uniform answer: none is below the first or above the second.

    Exact where no two paths of the automaton have the same change set; otherwise sums of extremes bound the extreme of sums.
    """
    scale = Fraction(1)
    for layer in automaton.layers:
        if isinstance(layer, ChoiceLayer):
            scale /= 1 << automaton.bits
        elif not layer.uniform:
            size = int(automaton.sizes[layer.attribute])
            scale *= Fraction(size, (size - 1) << automaton.bits)
    low, high = _walked(automaton, lambda x: x.min(keepdims=True)), _walked(automaton, lambda x: x.max(keepdims=True))
    return int(low[0]) * scale, int(high[0]) * scale


def change_sets(sizes: IntArray) -> IntArray:
    """The change set between every two records, as a flat index into (2,)*m: shape (N, N), N = Π r_i."""
    count = prod(int(r) for r in sizes)
    out = np.zeros((count, count), dtype=np.int64)
    for axis in np.unravel_index(np.arange(count), tuple(int(r) for r in sizes)):
        out = 2 * out + (axis[:, None] != axis[None, :])
    return out
