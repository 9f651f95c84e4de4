"""The exact optimum of the reduced program: over all 2^m change sets, or over counts of alike attributes (theory §3.3).

By convexity the optimum treats alike attributes alike, so 2^m change sets collapse to Π(m_g+1) vectors of counts. The program
on either lattice is solved by sifting, and its answer checked.
"""

import time
from collections.abc import Callable

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.laws.base import MAX_TABLE, Law, TableLaw
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.partition import singles
from optrr_solvers.problem import Problem
from optrr_solvers.programs import capped, sifting
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import EXACT_GAP, Solution, checked


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Solve for the optimal TableLaw with its certificate.

    Takes time and memory O(2^m) with a small constant (m = 20: seconds, < 1 GB).

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
    lattice = Lattice(problem, singles(problem.m))
    return _solved(lattice, lambda logs: TableLaw(problem.sizes, logs), "reduced", options, started)


def solve_classes(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Solve for the optimal CountLaw with its certificate.

    Takes time and memory O(Π(m_g+1)), at most 2^21 cells.

    Raises MethodTooLarge beyond that and for conditional caps on classes of several attributes, SolveFailed where the time
    limit ends.
    """
    started = time.perf_counter()
    if problem.caps is not None:
        raise MethodTooLarge("method 'classes' does not take conditional caps; use 'reduced' (up to 10 attributes)")
    lattice = Lattice(problem, problem.classes)
    return _solved(lattice, lambda logs: CountLaw(problem.sizes, problem.classes, logs), "classes", options, started)


def _solved(
    lattice: Lattice, law: Callable[[FloatArray], Law], method: str, options: SolveOptions, started: float
) -> Solution:
    """Solve and check the program; ``law`` builds a law from log densities."""
    deadline = options.deadline(started)
    if capped.binding(lattice.problem).size:
        optimum = capped.solve(lattice, deadline)
    else:
        optimum = sifting.solve(lattice, method=method, deadline=deadline)
    made = law(optimum.log_density)
    return checked(
        lattice.problem,
        method,
        made,
        optimum.certificate,
        started=started,
        tolerance=options.tolerance_or(EXACT_GAP) * max(1.0, made.epsilon),
        statistics={"rounds": optimum.rounds, "iterations": optimum.iterations, "columns": optimum.columns},
    )
