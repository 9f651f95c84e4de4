"""The ε that a law states of itself: total, of each attribute and conditional, for whatever is made of a law."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.automaton.automaton import LABEL_TOLERANCE
from optrr_solvers.laws import Law


def drawn_epsilon(law: Law, stated: float) -> float:
    """A total ε that covers what is drawn: ``stated`` where it does, within 1e-9, and what is drawn, rounded up, otherwise.

    A ball whose radius is soft, or whose weights do not reach it, draws a smaller range of densities than its mixture names.
    Without an automaton ``stated`` stands.
    """
    if law.automaton is None:
        return stated
    drawn = law.automaton.truth.epsilon
    return stated if drawn <= stated <= drawn + LABEL_TOLERANCE else drawn


class Labelled:
    """Has a law, and therefore its labels: :class:`optrr_solvers.laws.base.Labels`; ε is rounded up, accuracies down."""

    if TYPE_CHECKING:
        # one subclass has a field of this name and another a property, so it is declared for type checkers only
        @property
        def law(self) -> Law:
            """Probability of each change set."""
            ...

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up: local differential privacy of the whole record."""
        return drawn_epsilon(self.law, self.law.labels.epsilon)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, shape (m,), rounded down."""
        return self.law.labels.attribute

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """What an observer who knows all other attributes learns about attribute i, in nats, shape (m,), rounded up."""
        return np.minimum(self.law.labels.conditional, self.epsilon)
