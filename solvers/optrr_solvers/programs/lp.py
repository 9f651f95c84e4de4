"""POR's linear program, solved as published: 2^m − 1 variables, monotonicity rows and all (POR §IV-A).

The program of :mod:`optrr_solvers.programs.events` spans e^{ε} in magnitude, and a solver with absolute tolerances returns
wrong "optimal" answers on it (1.3 nats off at ε = 20). So it is solved in u, with q = 1 + s u for a guess s of Q − 1 and rows
divided by Π r and by the spread f(1−f); the basis that comes back is then solved again in double precision, and the answer
has to agree with its certificate like any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from optrr_solvers.errors import InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.laws.table import TableLaw
from optrr_solvers.problem import FloatArray, Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.programs.events import event_program, monotonicity
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import Solution, checked

MAX_LP = 14


@dataclass(frozen=True)
class LpOptions:
    """``backend``: HiGHS directly, or cvxpy (with HiGHS) as a second opinion on the unscaled program.

    ``tolerance``: largest accepted gap in nats; None takes 1e-9 for HiGHS and 1e-6 for cvxpy, whose answer is not refined.
    """

    backend: Literal["highs", "cvxpy"] = "highs"
    tolerance: float | None = None


def solve(problem: Problem, options: LpOptions = LpOptions()) -> Solution:
    """Optimal TableLaw by POR's own program; m up to 14 (m 2^{m−1} rows; 'reduced' is the fast route).

    Raises MethodTooLarge above that, InvalidProblem for pairs and caps, SolveFailed where the answer fails its check (with
    cvxpy expect that from a total of about 15 nats on).
    """
    started = time.perf_counter()
    if problem.m > MAX_LP:
        raise MethodTooLarge(f"method 'lp' takes up to {MAX_LP} attributes, got {problem.m}; use 'reduced' or 'auto'")
    if problem.constrained:
        raise InvalidProblem("method 'lp' is POR's program without pairs or caps; use 'reduced'")
    lattice = Lattice(problem, tuple(np.asarray([i]) for i in range(problem.m)))
    density, multipliers, iterations = _by_cvxpy(problem) if options.backend == "cvxpy" else _by_highs(lattice)
    usual = 1e-6 if options.backend == "cvxpy" else 1e-9
    return checked(
        problem,
        "lp",
        TableLaw(problem.sizes, np.log(density)),
        lattice.certificate(multipliers),
        started=started,
        tolerance=usual if options.tolerance is None else options.tolerance,
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
    duals = np.zeros(program.row_upper.size)
    duals[tight] = factors.solve(program.cost[columns], trans="T")
    density = 1 + np.exp(log_scale) * np.append(values, 0.0)
    return np.maximum(density, 1.0), duals[-lattice.problem.m :], answer.iterations


def _by_cvxpy(problem: Problem) -> tuple[FloatArray, FloatArray, int]:
    # cvxpy takes half a second to import and only this second opinion needs it
    import cvxpy as cp  # noqa: PLC0415

    program = event_program(problem)
    q = cp.Variable(program.A.shape[1])
    size = sp.diags_array(1 / abs(program.A_eq).max(axis=1).toarray().ravel())
    accuracy = size @ program.A_eq @ q == size @ program.b_eq
    task = cp.Problem(cp.Minimize(q[0]), [program.A @ q <= program.b, accuracy])
    task.solve(solver=cp.HIGHS)  # type: ignore[no-untyped-call]  # cvxpy annotates in part
    if task.status != cp.OPTIMAL or q.value is None:
        raise SolveFailed(f"lp: cvxpy answered {task.status!r}; use the HiGHS backend")
    # cvxpy's dual enters its Lagrangian with a plus sign; POR's row is (r−1+e^ε) times f − 1[i∈S] times n_S, and the
    # lattice's is that over f(1−f)
    unit = (problem.sizes - 1 + np.exp(problem.epsilons)) * problem.flips * (1 - problem.flips)
    return np.maximum(np.append(q.value, 1.0), 1.0), -np.asarray(accuracy.dual_value) * (size @ unit), 0
