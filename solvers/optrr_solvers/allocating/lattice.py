"""The most accurate law of a given total ε on a lattice of counts, by conditional gradients (:mod:`descent`)."""

from __future__ import annotations

import time

from optrr_solvers.allocating.descent import Corner, Descent
from optrr_solvers.allocating.effects import EffectLattice
from optrr_solvers.allocating.frame import Answer, kronecker_start, oracle_of
from optrr_solvers.allocating.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.errors import MethodTooLarge

# Relative gap to stop at.
_TOLERANCE = 1e-6
# The most corners asked for; after these the gap is stated as it stands.
_ROUNDS = 500
# Bounds from linear programs are widened by the backend's tolerance, so gaps below this cannot be shown.
_CAPPED_TOLERANCE = 1e-5


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Law with the smallest workload error at total ε at most E, with its certified gap.

    Floors and ceilings hold exactly; where a floor is its ceiling, to 1e-6.

    Cost: some dozens to hundreds of rounds of O(cells Σ m_g); never worse than the best Kronecker split within the limits.

    Raises
    ------
    MethodTooLarge
        above 2^18 cells, or 2^9 with conditional caps; and for targets on tables of several attributes.
    SolveFailed
        where no law of that total meets the floors (:mod:`optrr_solvers.allocating.accuracy` says which total does).
    """
    started = time.perf_counter()
    if problem.joint_targets.size:
        raise MethodTooLarge("method 'lattice' takes no targets on tables of several attributes; use method 'program'")
    lattice = EffectLattice(problem.workload)
    start = kronecker_start(problem, lattice)
    corner = Corner(lattice.effects_of(start.mass(lattice.mu)), start)
    descent = Descent(problem, lattice, oracle_of(problem, lattice), (corner,))
    tolerance = _CAPPED_TOLERANCE if problem.capped else _TOLERANCE
    mixture = descent.run(tolerance, _ROUNDS)
    law = mixture.of_cells()
    gate = Answer(problem, lattice, "lattice", started, mixture.rounds)
    allocated = gate.of(law.excess / law.uniform, mixture.lower)
    if descent.within_limits(corner.effects):
        # tightened limits may cost the last digits that Kronecker's split has
        baseline = gate.of(start.excess / start.uniform, mixture.lower)
        return baseline if baseline.error < allocated.error else allocated
    return allocated
