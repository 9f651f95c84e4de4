"""The checked answer of the reduced program on a lattice: by sifting, or by walking where HiGHS fails."""

from collections.abc import Callable

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible, SolveFailed
from optrr_solvers.laws.base import Law
from optrr_solvers.options import SolveOptions
from optrr_solvers.programs import sifting, vertices
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.programs.sifting import LatticeOptimum
from optrr_solvers.solution import EXACT_GAP, Solution, checked


def solve(
    lattice: Lattice, law: Callable[[FloatArray], Law], method: str, options: SolveOptions, started: float
) -> Solution:
    """Solve the program and check its answer; ``law`` makes the law from log densities. Raises what the solvers raise."""
    deadline = options.deadline(started)
    try:
        return check(sifting.solve(lattice, method=method, deadline=deadline), lattice, law, method, options, started)
    except (Infeasible, SolveFailed):
        # with κ ≤ 1 independent randomized response meets every requirement, so the program is feasible
        if lattice.problem.kappa > 1 or lattice.cells > vertices.MAX_CELLS:
            raise
        try:
            return check(vertices.solve(lattice, deadline=deadline), lattice, law, method, options, started)
        except SolveFailed:
            pass
        raise


def check(  # noqa: PLR0913 (what a solver knows at its end)
    optimum: LatticeOptimum,
    lattice: Lattice,
    law: Callable[[FloatArray], Law],
    method: str,
    options: SolveOptions,
    started: float,
) -> Solution:
    """The optimum as a checked solution."""
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
