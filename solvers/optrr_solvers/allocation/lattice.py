"""The most accurate law of a given total ε on a lattice of counts, by conditional gradients (:mod:`descent`).

Other methods on the lattice share where it starts and the check of every answer: whatever a method found, the law is rebuilt
from its densities so that its total is at most E to the last bit and its caps hold, and its eigenvalues and error are
recomputed from that law.
"""

import time
from dataclasses import dataclass
from functools import reduce

import numpy as np

from optrr_solvers.allocation.descent import Corner, Descent
from optrr_solvers.allocation.oracle import Atom, CappedOracle, EffectLattice, KnapsackOracle, Oracle
from optrr_solvers.allocation.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.allocation.split import best_split, even_split, single_blocks
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed

# Relative gap to stop at.
_TOLERANCE = 1e-6
# The most corners asked for; after these the gap is stated as it stands.
_ROUNDS = 500
# Bounds from linear programs are widened by the backend's tolerance, so gaps below this cannot be shown.
_CAPPED_TOLERANCE = 1e-5


def oracle_of(problem: AllocationProblem, lattice: EffectLattice) -> Oracle:
    """The oracle for the problem's set of laws. Raises MethodTooLarge where caps meet too many cells."""
    return CappedOracle(lattice, problem) if problem.capped else KnapsackOracle(lattice.mu, problem.total)


def kronecker_split(problem: AllocationProblem) -> FloatArray:
    """ε of one member of each class in Kronecker's best split within the limits, shape (G,)."""
    workload = problem.workload
    firsts = [int(c[0]) for c in workload.classes]
    high = np.minimum(problem.ceiling, problem.cap)[firsts]
    blocks = single_blocks(workload)
    try:
        split = best_split(workload, blocks, problem.total, problem.floor[firsts], high)
    except Infeasible:
        # the optimum may meet floors that Kronecker cannot
        split = best_split(workload, blocks, problem.total, None, high)
    except SolveFailed:
        split = even_split(workload, blocks, min(problem.total, float(high.min()) * workload.m))
    return split.epsilons[firsts]


def kronecker_start(problem: AllocationProblem, lattice: EffectLattice) -> Atom:
    """Kronecker's best split within the limits, as a law on the cells: every answer is at least as good."""
    workload = problem.workload
    split = zip(workload.classes, kronecker_split(problem), strict=True)
    logs = reduce(np.add.outer, (e * np.arange(members.size, -1, -1) for members, e in split), np.array(0.0))
    mean = float(np.sum(lattice.mu * np.exp(logs)))
    return Atom(1 / mean, np.expm1(logs) / mean)


@dataclass(frozen=True, eq=False)
class Answer:
    """Turns the densities a method found into an :class:`AllocatedLaw`."""

    problem: AllocationProblem
    lattice: EffectLattice
    method: str
    started: float
    iterations: int

    def of(self, above: FloatArray, lower: float) -> AllocatedLaw:
        """The law of densities 1 + ``above``, shape of the lattice, with the lower bound ``lower`` of F."""
        law = self.lattice.law(self.log_density(np.log1p(np.maximum(above, 0))))
        return AllocatedLaw.of(self.problem, self.method, law, lower, self.started, self.iterations)

    def log_density(self, logs: FloatArray) -> FloatArray:
        """Log densities with smallest 0, range below E by an ulp, and every cap kept.

        Clipping removes no more than rounding. Caps are met again by adding uniform answers, which makes every ratio smaller.
        """
        # the law's ε is this range rounded up
        clipped = np.clip(logs - logs.min(), 0.0, np.nextafter(np.nextafter(self.problem.total, 0), 0))
        if not self.problem.capped:
            return np.asarray(clipped)
        caps = self.problem.cap[[int(c[0]) for c in self.lattice.classes]]
        share = 0.0
        for _ in range(60):
            mixed = np.log(np.exp(clipped) + share)
            steps = np.asarray([np.abs(np.diff(mixed, axis=g)).max() for g in range(mixed.ndim)])
            if np.all(np.nextafter(steps, np.inf) <= caps):
                return np.asarray(mixed - mixed.min())
            share = max(4 * share, 1e-12)
        raise SolveFailed("allocation: the conditional caps could not be restored by rounding; please report this")


def solve(problem: AllocationProblem) -> AllocatedLaw:
    """Law with the smallest workload error at total ε at most E, with its certified gap.

    Floors and ceilings hold exactly; where a floor is its ceiling, to 1e-6.

    Cost: some dozens to hundreds of rounds of O(cells Σ m_g); never worse than the best Kronecker split within the limits.

    Raises
    ------
    MethodTooLarge
        above 2^18 cells, or 2^9 with conditional caps; and for targets on tables of several attributes.
    SolveFailed
        where no law of that total meets the floors (:mod:`optrr_solvers.allocation.accuracy` says which total does).
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
