"""Thresholds of 64 bits where the automaton has wider ones, if that moves no ε by more than a label's tolerance.

Rounding a probability p to a multiple of 2^-64 moves the logarithm of a path by at most Σ over layers of the largest
2^-64 / min(p, 1 − p), and the total by twice that. The ε of the file are computed from what is written, so that they
stay exact; flip probabilities move by 2^-64 a layer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optrr_solvers.automaton.arithmetic import Doubles, complement, difference
from optrr_solvers.automaton.layers import WORD_BITS, ChoiceLayer, Layer, Layers, merged
from optrr_solvers.randomness import Words

# What all layers together may move the logarithm of a path by, in nats.
_MOVED = 2.5e-10


def narrowed(automaton: Layers) -> Layers:
    """The automaton with thresholds of 64 bits; itself where they are, or where that would move an ε too far."""
    if automaton.bits == WORD_BITS:
        return automaton
    moved = sum(_moved(layer) for layer in automaton.layers if isinstance(layer, Layer) and not layer.uniform)
    if not moved <= _MOVED:
        return automaton
    layers = tuple(x if isinstance(x, ChoiceLayer) else _narrow(x) for x in automaton.layers)
    return merged(Layers(automaton.sizes, layers, WORD_BITS))


def _moved(layer: Layer) -> float:
    """2^-64 over the smallest probability of any way."""
    parts = [layer.words, complement(layer.words)]
    if layer.high_words is not None:
        parts += [layer.high_words, difference(layer.words, layer.high_words)]
    with np.errstate(divide="ignore"):
        return max(float((2.0**-WORD_BITS / Doubles().shares(words)).max()) for words in parts)


def _narrow(layer: Layer) -> Layer:
    if layer.uniform:
        return replace(layer, words=layer.words[:1])
    high = None if layer.high_words is None else _rounded(layer.high_words)
    return replace(layer, words=_rounded(layer.words), high_words=high)


def _rounded(words: Words) -> Words:
    """To the nearest multiple of 2^-64: every probability is far from 0 and 1, so that neither is reached."""
    return words[:1] + (words[1:2] >> np.uint64(WORD_BITS - 1))
