"""Method "search": an allocation for any number of attributes, by what suits the wishes.

Mixtures of weighted balls, steered by the multipliers of all effects (:mod:`optrr_solvers.allocation.balls`), serve every
workload. Kept pairs, conditional caps, and one-way tables of very many attributes are a search over profiles of ε_i with the
certified design solver (:mod:`optrr_solvers.allocation.profiles`).
"""

from dataclasses import replace

from optrr_solvers.allocation import balls as allocation_balls
from optrr_solvers.allocation import profiles as allocation_profiles
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem

# Attributes above which profiles of one-way tables are quicker.
_MANY = 500


def solve(problem: AllocationProblem, pairs: tuple[tuple[int, int], ...] = ()) -> AllocatedLaw:
    """The best law found, with a bound for every mechanism of that total; ``pairs`` stay as visible as under Kronecker.

    With pairs or caps the bound is the one without them, which is weaker. The modules of the two methods state the cost.

    Raises
    ------
    Infeasible
        where the floors need more than the total; the message says how much.
    MethodTooLarge, SolveFailed
        from the solvers.
    """
    several = any(len(w) > 1 for w in problem.workload.effects)
    if not pairs and not problem.capped and (several or problem.workload.m <= _MANY):
        return allocation_balls.solve(problem)
    paired = allocation_profiles.solve(problem, pairs=pairs)
    if not pairs and not several:
        return paired
    free = solve(replace(problem, caps=None))
    return replace(paired, lower_error=min(max(free.lower_error, paired.lower_error), paired.error))
