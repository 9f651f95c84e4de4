"""The exact optimum over all 2^m change sets, m up to 20 (POR §IV in the reduced form of design §3.3)."""

import time

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.table import MAX_TABLE, TableLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import capped, checking
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import Solution


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Optimal TableLaw with its certificate; time and memory O(2^m) with a small constant (m = 20: seconds, < 1 GB).

    With pairs or caps the flips are bounded above by the requested ones instead of fixed. Raises MethodTooLarge above 20
    attributes, Infeasible where κ > 1 or a cap cannot be met, SolveFailed where the answer does not survive its check or the
    time limit ends.
    """
    started = time.perf_counter()
    if problem.m > MAX_TABLE:
        raise MethodTooLarge(
            f"method 'reduced' takes up to {MAX_TABLE} attributes, got {problem.m}; "
            "use 'auto', 'classes' (few different ones) or 'ball'"
        )
    lattice = Lattice(problem, tuple(np.asarray([i]) for i in range(problem.m)))

    def law(log_density: FloatArray) -> TableLaw:
        return TableLaw(problem.sizes, log_density)

    if capped.binding(problem).size:
        optimum = capped.solve(lattice, options.deadline(started))
        return checking.check(optimum, lattice, law, "reduced", options, started)
    return checking.solve(lattice, law, "reduced", options, started)
