"""What a protocol costs one person in all: every release in a row, its ε, and their sum (sequential composition).

MDR §4: where learning the dependences is ε_1-differentially private and the release is ε_2-differentially private, the
whole is (ε_1 + ε_2)-differentially private. A step that sends true values (MDR §4.2) has no finite ε, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optrr.errors import InvalidInput
from optrr.show.rounding import epsilon_text, sum_of_epsilons
from optrr_solvers.problem import EPSILON_RANGE


def checked_epsilon(epsilon: Any, what: str = "epsilon") -> float:
    """One mechanism's ε in nats. Raises InvalidInput outside 1e-6..50."""
    low, high = EPSILON_RANGE
    if not isinstance(epsilon, int | float | np.integer | np.floating) or not low <= epsilon <= high:
        raise InvalidInput(f"{what} = {epsilon!r}; give a finite number of nats from {low:g} to {high:g}")
    return float(epsilon)


@dataclass(frozen=True)
class Spent:
    """One release: what was sent, its ε in nats (``inf`` where it is not differentially private), and a warning or ""."""

    step: str
    epsilon: float
    warning: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InvalidInput(f"step {self.step!r} has epsilon {self.epsilon}; give a number of at least 0")


@dataclass(frozen=True)
class Account:
    """All releases of one person's record, in order."""

    steps: tuple[Spent, ...] = ()

    @property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up; ``inf`` where any step is not differentially private."""
        return sum_of_epsilons(s.epsilon for s in self.steps)

    def plus(self, *steps: Spent) -> Account:
        """The account with further releases."""
        return Account(self.steps + steps)

    def lines(self) -> list[str]:
        """One line per release, then the total."""
        out = [
            f"{s.step}: {epsilon_text(s.epsilon)} nats" + (f" ({s.warning})" if s.warning else "") for s in self.steps
        ]
        return [*out, f"total: {epsilon_text(self.epsilon)} nats"]
