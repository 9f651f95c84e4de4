"""The automaton of a law: integers to draw with, how far they may be from the law, and labels that promise no more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.bounds import DrawnEpsilons, truth
from optrr_solvers.automaton.build import Built, OutOfReach, build
from optrr_solvers.automaton.diagram import MOST_LAYERS, Diagram
from optrr_solvers.automaton.draw import Sampler
from optrr_solvers.automaton.layers import Layers

# A law's own ε is the label where it is not below the ε of what is drawn, and not above it by more than this.
LABEL_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Automaton:
    """Integers that are drawn with, and the law's own ε (nats): total, and conditional of shape (m,)."""

    built: Built
    epsilon: float
    conditional: FloatArray

    @property
    def layers(self) -> Layers:
        """The integers."""
        return self.built.layers

    @property
    def states(self) -> int:
        """States before all attributes together."""
        return self.layers.states

    @property
    def bits(self) -> int:
        """Bits of a threshold."""
        return self.layers.bits

    @cached_property
    def sampler(self) -> Sampler:
        """Draws from the integers."""
        return Sampler(self.layers)

    @cached_property
    def truth(self) -> DrawnEpsilons:
        """ε of what is drawn from the integers alone: accuracies rounded down, all others up."""
        return truth(self.layers, exact=self.built.exact)

    @cached_property
    def epsilon_label(self) -> float:
        """The law's total ε where it covers what is drawn, and what is drawn, rounded up, otherwise."""
        return max(self.epsilon, self.truth.epsilon)

    @cached_property
    def conditional_labels(self) -> FloatArray:
        """The law's conditional ε where they cover what is drawn, and what is drawn, rounded up, otherwise; shape (m,)."""
        if self.truth.conditional is not None:
            return np.maximum(self.conditional, self.truth.conditional)
        # |ln q drawn − (1−δ) ln q| ≤ η on either side of a comparison; no conditional ε is above the total
        shrunk = (self.conditional * (1 - self.built.shrink) + 2 * self.built.error) * (1 + 2.0**-51)
        return np.maximum(self.conditional, np.minimum(shrunk, self.truth.epsilon))

    def attribute_labels(self, law: FloatArray) -> FloatArray:
        """The law's ε_i where what is drawn is as accurate, within 1e-9, and that, rounded down, otherwise; shape (m,)."""
        drawn = self.truth.attribute
        return np.where((law <= drawn) & (drawn - law <= LABEL_TOLERANCE), law, drawn)


def automaton_of(sizes: IntArray, diagram: Diagram | None, epsilon: float, conditional: FloatArray) -> Automaton | None:
    """The automaton of a reduced diagram; None without one, or where it would need too many layers or too wide words."""
    if diagram is None or len(diagram.nodes) > MOST_LAYERS:
        return None
    try:
        return Automaton(build(sizes, diagram, epsilon, conditional), epsilon, conditional)
    except OutOfReach:
        return None
