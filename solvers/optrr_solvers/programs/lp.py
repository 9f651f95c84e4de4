"""POR's linear program, solved as published: 2^m − 1 variables, monotonicity rows and all (POR §IV-A).

The program of :mod:`optrr_solvers.programs.events` spans e^{ε} in magnitude, and a solver with absolute tolerances returns
wrong "optimal" answers on it (1.3 nats off at ε = 20). So it is solved in u, with q = 1 + s u for a guess s of Q − 1 and rows
divided by Π r and by the spread f(1−f); the basis that comes back is then solved again in double precision, and the answer
has to agree with its certificate like any other.
"""

import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.laws.table import TableLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.programs.events import monotonicity
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import EXACT_GAP, Solution, checked

MAX_LP = 14


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Optimal TableLaw by POR's own program; m up to 14 (m 2^{m−1} rows; 'reduced' is the fast route).

    The tolerance is absolute. Raises MethodTooLarge above 14 attributes, InvalidProblem for pairs and caps, SolveFailed where
    the answer fails its check.
    """
    started = time.perf_counter()
    if problem.m > MAX_LP:
        raise MethodTooLarge(f"method 'lp' takes up to {MAX_LP} attributes, got {problem.m}; use 'reduced' or 'auto'")
    if problem.constrained:
        raise InvalidProblem("method 'lp' is POR's program without pairs or caps; use 'reduced'")
    lattice = Lattice(problem, tuple(np.asarray([i]) for i in range(problem.m)))
    density, multipliers, iterations = _by_highs(lattice)
    return checked(
        problem,
        "lp",
        TableLaw(problem.sizes, np.log(density)),
        lattice.certificate(multipliers),
        started=started,
        tolerance=options.tolerance_or(EXACT_GAP),
        statistics={"iterations": iterations},
    )


def _scaled(lattice: Lattice) -> tuple[LinearProgram, float]:
    """The program in u, and ln s."""
    m = lattice.problem.m
    order, _ = monotonicity(m)
    log_scale = lattice.log_dual_guess()
    rows = lattice.rows_at(np.arange(lattice.cells - 1)) * np.exp(lattice.log_mu.ravel()[:-1] + log_scale)
    count = order.shape[0]
    return LinearProgram(
        cost=np.append(1.0, np.zeros(lattice.cells - 2)),
        matrix=sp.csc_array(sp.vstack([order, sp.csr_array(rows)])),
        row_lower=np.append(np.full(count, -np.inf), -lattice.means),
        row_upper=np.append(np.zeros(count), -lattice.means),
        lower=np.zeros(lattice.cells - 1),
        upper=np.full(lattice.cells - 1, np.inf),
    ), log_scale


def _by_highs(lattice: Lattice) -> tuple[FloatArray, FloatArray, int]:
    program, log_scale = _scaled(lattice)
    answer = backend.solve(program, method="lp")
    columns = np.flatnonzero(answer.basic_columns)
    tight = np.flatnonzero(~answer.basic_rows)
    if columns.size != tight.size:
        raise SolveFailed("lp: HiGHS returned an incomplete basis")
    factors = splu(sp.csc_array(program.matrix[tight][:, columns]))
    # tight rows sit at their upper side: 0 for monotonicity, −E_μ[g] for accuracies
    values = np.zeros(program.cost.size)
    values[columns] = factors.solve(program.row_upper[tight])
    multipliers = np.zeros(program.row_upper.size)
    multipliers[tight] = factors.solve(program.cost[columns], trans="T")
    density = 1 + np.exp(log_scale) * np.append(values, 0.0)
    return np.maximum(density, 1.0), multipliers[-lattice.problem.m :], answer.iterations
