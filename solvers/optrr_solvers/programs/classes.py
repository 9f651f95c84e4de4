"""The exact optimum for few classes of alike attributes: the reduced program on counts (design §3.3).

By convexity the optimum treats alike attributes alike, so 2^m change sets collapse to Π(m_g+1) vectors of counts.
"""

from __future__ import annotations

import time

from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import sifting
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import EXACT_GAP, Solution, checked


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Optimal CountLaw with its certificate; time and memory O(Π(m_g+1)), at most 2^21 cells.

    Raises MethodTooLarge beyond that and for conditional caps on classes of several attributes, SolveFailed where the time
    limit ends.
    """
    started = time.perf_counter()
    if problem.caps is not None:
        raise MethodTooLarge("method 'classes' does not take conditional caps; use 'reduced' (up to 10 attributes)")
    lattice = Lattice(problem, problem.classes)
    optimum = sifting.solve(lattice, method="classes", deadline=options.deadline(started))
    law = CountLaw(problem.sizes, problem.classes, optimum.log_density)
    return checked(
        problem,
        "classes",
        law,
        optimum.certificate,
        started=started,
        tolerance=options.tolerance_or(EXACT_GAP) * max(1.0, law.epsilon),
        statistics={"rounds": optimum.rounds, "iterations": optimum.iterations, "columns": optimum.columns},
    )
