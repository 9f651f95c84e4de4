"""What runs: layers of integer thresholds and next states, merged until no two states of a layer continue alike.

Before an attribute there is a state s. A fresh uniform word of k bits decides: below a_s the attribute changes,
otherwise it is kept; then the state is ``changed[s]`` or ``kept[s]``. Where weights are rounded at random, a word below
the smaller threshold ``high_words`` changes the attribute, too, and leads to ``high[s]``. A layer that is *uniform*
replaces its attribute by any of its categories, the true one included, each as likely. A choice draws a component
before an attribute.

The law that runs is therefore exactly a product of fractions a/2^k and (2^k − a)/2^k along every path.
"""

from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import Words
from optrr_solvers.sampling.diagram import equal_rows

WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class Layer:
    """One attribute: thresholds as 64-bit words, first word highest, shape (D, S), and next states, shape (S,).

    ``fraction`` is the share of the law's changes that go to ``high``; it weighs nothing in what runs and tightens
    bounds.
    """

    attribute: int
    words: Words
    kept: IntArray
    changed: IntArray
    high: IntArray | None = None
    high_words: Words | None = None
    fraction: FloatArray | float = 0.0
    uniform: bool = False

    @property
    def states(self) -> int:
        """How many states stand before the attribute."""
        return int(self.kept.size)


@dataclass(frozen=True, eq=False)
class ChoiceLayer:
    """From a single state: component k for words from ``ends[k−1]`` to below ``ends[k]``, the last for those beyond."""

    ends: Words
    next_states: IntArray
    states: int = 1


@dataclass(frozen=True, eq=False)
class Layers:
    """The whole automaton over attributes of these sizes; every threshold has ``bits`` bits."""

    sizes: IntArray
    layers: tuple[Layer | ChoiceLayer, ...]
    bits: int

    @property
    def states(self) -> int:
        """States before every attribute together."""
        return sum(layer.states for layer in self.layers)


def merged(automaton: Layers) -> Layers:
    """The same law with the fewest states: those with equal thresholds and next states are one. O(states log states)."""
    place = np.zeros(1, dtype=np.int64)
    out: list[Layer | ChoiceLayer] = []
    last = True
    for layer in reversed(automaton.layers):
        if isinstance(layer, ChoiceLayer):
            out.append(replace(layer, next_states=place[layer.next_states]))
            place = np.zeros(1, dtype=np.int64)
            last = False
            continue
        moved = _moved(layer, place, last)
        first, place = _alike(moved)
        out.append(_of_these(moved, first))
        last = False
    return replace(automaton, layers=tuple(reversed(out)))


def _moved(layer: Layer, place: IntArray, last: bool) -> Layer:
    # there is one state after the last attribute, whatever densities led there
    after = np.zeros(int(max(layer.kept.max(), layer.changed.max(), 0 if layer.high is None else layer.high.max())) + 1)
    place = after.astype(np.int64) if last else place
    high = None if layer.high is None else place[layer.high]
    return replace(layer, kept=place[layer.kept], changed=place[layer.changed], high=high)


def _alike(layer: Layer) -> tuple[IntArray, IntArray]:
    columns = [layer.kept] if layer.uniform else [layer.kept, layer.changed, *layer.words.view(np.int64)]
    if layer.high is not None and layer.high_words is not None:
        columns += [layer.high, *layer.high_words.view(np.int64)]
    if np.ndim(layer.fraction):
        columns.append(np.asarray(layer.fraction).view(np.int64))
    return equal_rows(columns)


def _of_these(layer: Layer, which: IntArray) -> Layer:
    return replace(
        layer,
        words=np.ascontiguousarray(layer.words[:, which]),
        kept=layer.kept[which],
        changed=layer.changed[which],
        high=None if layer.high is None else layer.high[which],
        high_words=None if layer.high_words is None else np.ascontiguousarray(layer.high_words[:, which]),
        fraction=np.asarray(layer.fraction)[which] if np.ndim(layer.fraction) else layer.fraction,
    )
