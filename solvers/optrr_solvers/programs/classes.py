"""The exact optimum for few classes of alike attributes: the reduced program on counts (design §3.3).

By convexity the optimum treats alike attributes alike, so 2^m change sets collapse to Π(m_g+1) vectors of counts.
"""

import time

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import checking
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import Solution


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Optimal CountLaw with its certificate; time and memory O(Π(m_g+1)), at most 2^21 cells.

    Raises MethodTooLarge beyond that and for conditional caps on classes of several attributes, SolveFailed where the time
    limit ends.
    """
    started = time.perf_counter()
    if problem.caps is not None:
        raise MethodTooLarge("method 'classes' does not take conditional caps; use 'reduced' (up to 10 attributes)")
    lattice = Lattice(problem, problem.classes)

    def law(log_density: FloatArray) -> CountLaw:
        return CountLaw(problem.sizes, problem.classes, log_density)

    return checking.solve(lattice, law, "classes", options, started)
