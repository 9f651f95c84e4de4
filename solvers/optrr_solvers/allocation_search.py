"""Method "search": an allocation for any number of attributes, by what suits the wishes.

One-way tables, kept pairs and conditional caps are a search over profiles of ε_i with the certified design solver
(:mod:`optrr_solvers.allocation_profiles`); tables of several attributes a search over the multipliers of all their effects
(:mod:`optrr_solvers.allocation_balls`), since the best λ_ij are not those of a design for single attributes.
"""

from __future__ import annotations

from dataclasses import replace

from optrr_solvers import allocation_balls, allocation_profiles
from optrr_solvers.allocation import AllocatedLaw, AllocationProblem
from optrr_solvers.allocation_bound import lower_error


def solve(problem: AllocationProblem, pairs: tuple[tuple[int, int], ...] = ()) -> AllocatedLaw:
    """The best law found, with a bound for every mechanism of that total; ``pairs`` stay as visible as under Kronecker.

    With pairs or caps the bound is that of mechanisms free of them. Cost: see the two modules.

    Raises
    ------
    Infeasible
        where the floors need more than the total; the message says how much.
    MethodTooLarge, SolveFailed
        from the solvers.
    """
    several = any(len(w) > 1 for w in problem.workload.effects)
    if several and not pairs and not problem.capped:
        return allocation_balls.solve(problem)
    found = allocation_profiles.solve(problem, pairs=pairs)
    if not pairs and not several:
        return found
    free = replace(problem, caps=None)
    bound = lower_error(free, found.law) if several else allocation_profiles.solve(free).lower_error
    return replace(found, lower_error=min(max(bound, found.lower_error), found.error))
