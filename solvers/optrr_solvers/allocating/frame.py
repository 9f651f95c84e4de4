"""What the lattice methods of an allocation share: where they start, their limits, and the check of every answer.

Whatever a method found, the law is rebuilt from its densities so that its total is at most E to the last bit and its caps
hold, and its eigenvalues and error are recomputed from that law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from optrr_solvers.allocating.effects import EffectLattice
from optrr_solvers.allocating.oracle import Atom, CappedOracle, KnapsackOracle, Oracle
from optrr_solvers.allocating.problem import AllocatedLaw, AllocationProblem
from optrr_solvers.allocating.split import best_split, even_split, single_blocks
from optrr_solvers.allocating.workload import eigenvalues_of
from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible, SolveFailed


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


def limits(problem: AllocationProblem, rows: int) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings on λ for every row of a lattice; −inf and inf where there is none, shape (rows,) each."""
    classes = problem.workload.classes
    low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
    firsts = np.asarray([int(c[0]) for c in classes])
    sizes, floor, ceiling = problem.workload.sizes[firsts], problem.floor[firsts], problem.ceiling[firsts]
    low[-len(classes) :] = np.where(floor > 0, eigenvalues_of(sizes, floor), -np.inf)
    high[-len(classes) :] = np.where(np.isfinite(ceiling), eigenvalues_of(sizes, ceiling), np.inf)
    return low, high


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
