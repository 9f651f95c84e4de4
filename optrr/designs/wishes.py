"""Wishes: what a design or an allocation must meet beside its accuracies or its total, by attribute name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, MethodTooLarge
from optrr.show.text import brief
from optrr_solvers import Problem
from optrr_solvers.arrays import FloatArray, real

# A million pairs take a minute to set up and half a gigabyte.
MAX_PAIRS_KEPT = 1 << 20

Preserve = Literal["marginals", "pairs"] | Sequence[tuple[str, str]]
# One number of nats for every attribute, a mapping by name for some, or no limit.
Limits = float | Mapping[str, float] | None


@dataclass(frozen=True)
class Wishes:
    """What to ask for beside the accuracies; all limits in nats.

    Parameters
    ----------
    preserve
        "marginals": only the one-way accuracies. "pairs": also every pair at least ``kappa`` times as visible as under
        Kronecker at the design's requested ε_i (the achieved ones may be larger); a list of name pairs: only these. At
        kappa = 1 the total still never exceeds Kronecker's and the expected summed squared error of every kept pair table
        is no larger than Kronecker's; single cells may be worse, effects among three attributes may vanish or change sign,
        and the conditional ε is larger than Kronecker's.
    kappa
        share of Kronecker's pair visibility to keep; above 1 may be infeasible.
    conditional_cap
        largest conditional ε; up to about 10 attributes, never below the attribute's ε or floor.
    floors
        for allocations: smallest ε_i, this attribute must be at least so accurate.
    ceilings
        for allocations: largest ε_i. With the ε_i one would like as ceilings, and weights that say which attributes need
        their accuracy most, this is POR's policy of lowering budgets until they fit the total (its repository's README).
    """

    preserve: Preserve = "marginals"
    kappa: float = 1.0
    conditional_cap: Limits = None
    floors: Limits = None
    ceilings: Limits = None

    def problem(self, domain: Domain, epsilons: FloatArray) -> Problem:
        """The design problem over ``domain``; raises InvalidInput where a wish names nothing or is no number of nats."""
        caps = self.caps(domain)
        return Problem(
            domain.sizes,
            epsilons,
            pairs=self.pairs(domain),
            kappa=self.kappa,
            caps=caps if np.isfinite(caps).any() else None,
            names=domain.names,
        )

    def pairs(self, domain: Domain) -> tuple[tuple[int, int], ...]:
        """Indices of the pairs to keep."""
        if self.preserve == "marginals":
            return ()
        if self.preserve == "pairs":
            count = domain.m * (domain.m - 1) // 2
            if count > MAX_PAIRS_KEPT:
                raise MethodTooLarge(
                    f"{domain.m} attributes have {count} pairs; at most {MAX_PAIRS_KEPT} can be preserved: name those that "
                    "matter, preserve=[(name, name), …], or split the record"
                )
            return tuple(combinations(range(domain.m), 2))
        if isinstance(self.preserve, str):
            raise InvalidInput(f"preserve = {self.preserve!r}; give 'marginals', 'pairs' or a list of pairs of names")
        return tuple((domain.index(a), domain.index(b)) for a, b in self.preserve)

    def caps(self, domain: Domain) -> FloatArray:
        """Largest conditional ε of each attribute, shape (m,); inf where there is none."""
        return limits(domain, self.conditional_cap, math.inf, "conditional cap")

    def floor(self, domain: Domain) -> FloatArray:
        """Smallest ε_i, shape (m,); 0 where there is none."""
        return limits(domain, self.floors, 0.0, "floor")

    def ceiling(self, domain: Domain) -> FloatArray:
        """Largest ε_i, shape (m,); inf where there is none."""
        return limits(domain, self.ceilings, math.inf, "ceiling")


def limits(domain: Domain, given: Limits, default: float, what: str) -> FloatArray:
    """One number for each attribute, shape (m,): ``given``, or ``default`` where it names none. Raises InvalidInput."""
    if given is None:
        return np.full(domain.m, default)
    if not isinstance(given, Mapping):
        return np.full(domain.m, _nats(given, f"the {what} is"))
    out = np.full(domain.m, default)
    for name, value in given.items():
        out[domain.index(name)] = _nats(value, f"attribute {name!r} has {what}")
    return out


def _nats(value: Any, said: str) -> float:
    number = real(value)
    if math.isnan(number):
        raise InvalidInput(f"{said} {brief(value)}; give a number of nats")
    return number
