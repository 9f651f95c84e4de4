"""Limits on an allocation: floors, ceilings, conditional caps and pairs to keep, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optrr.designing.design import Preserve
from optrr.errors import InvalidInput
from optrr.records.domain import Domain
from optrr_solvers.problem import FloatArray

Limits = float | Mapping[str, float] | None


@dataclass(frozen=True)
class AllocationWishes:
    """Limits beside the workload; all in nats, one number for all attributes or a mapping by name.

    Parameters
    ----------
    floors
        smallest ε_i: this attribute must be at least so accurate.
    ceilings
        largest ε_i. With the ε_i one would like as ceilings, and weights that say which attributes need their accuracy
        most, this is POR's policy of lowering budgets until they fit the total (its repository's README).
    conditional_cap
        largest conditional ε; up to 9 attributes, never below an attribute's floor.
    preserve
        "pairs" or name pairs: pairs that must stay as visible as under Kronecker at the design's requested ε_i (the achieved
        ones may be larger).
    """

    floors: Limits = None
    ceilings: Limits = None
    conditional_cap: Limits = None
    preserve: Preserve = "marginals"

    def arrays(self, domain: Domain) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Floors, ceilings and caps, shape (m,) each."""
        return (
            _vector(domain, self.floors, 0.0, "floor"),
            _vector(domain, self.ceilings, np.inf, "ceiling"),
            _vector(domain, self.conditional_cap, np.inf, "conditional cap"),
        )

    def pairs(self, domain: Domain) -> tuple[tuple[int, int], ...]:
        """Indices of the pairs to keep."""
        if isinstance(self.preserve, str):
            if self.preserve not in ("marginals", "pairs"):
                raise InvalidInput(
                    f"preserve = {self.preserve!r}; give 'marginals', 'pairs' or a list of pairs of names"
                )
            return tuple(combinations(range(domain.m), 2)) if self.preserve == "pairs" else ()
        return tuple((domain.index(a), domain.index(b)) for a, b in self.preserve)


def _vector(domain: Domain, given: Limits, default: float, what: str) -> FloatArray:
    if given is None:
        return np.full(domain.m, default)
    if not isinstance(given, Mapping):
        return np.full(domain.m, float(given))
    out = np.full(domain.m, default)
    for name, value in given.items():
        if not isinstance(value, int | float) or np.isnan(value):
            raise InvalidInput(f"attribute {name!r} has {what} {value!r}; give a number of nats")
        out[domain.index(name)] = value
    return out
