"""POR's linear program over the 2^m events, as sparse arrays and solved as published (POR §IV-A, Algorithms 1 and 2).

Event S, "exactly the attributes in S change", has number Σ_{i∈S} 2^{m−1−i}: the first attribute is the slowest bit, as
in :class:`optrr_solvers.laws.TableLaw`. The variable q_S is the probability of one particular output in S, relative to
the event in which every attribute changes, which is fixed at 1 and has no column. POR numbers events by how many
attributes change and divides row i of A_eq by r_i − 1; otherwise the program is the published one.

It spans e^{ε} in magnitude, and a solver with absolute tolerances returns wrong "optimal" answers on it (1.3 nats off
at ε = 20). So it is solved in u, with q = 1 + s u for a guess s of Q − 1 and rows divided by Π r and by the spread
f(1−f); the basis that comes back is then solved again in double precision, and the answer has to agree with its
certificate like any other.
"""

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.laws.base import MAX_TABLE, TableLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.partition import singles
from optrr_solvers.problem import Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.solution import EXACT_GAP, Solution, checked

MAX_LP = 14
# Coefficients from which HiGHS rejects a program.
_TOO_LARGE = 1e15


@dataclass(frozen=True, eq=False)
class EventProgram:
    """Minimise q_∅ subject to A q ≤ b and A_eq q = b_eq; the total ε is then ln q_∅.

    Attributes
    ----------
    A, b
        shapes (m 2^{m−1}, 2^m − 1) and (m 2^{m−1},): q_T − q_S ≤ 0 for S ⊂ T with one attribute more, so that answers
        nearer to the truth are at least as likely. Where T is the last event, q_T = 1 stands on the right: b = −1 in m
        rows.
    A_eq, b_eq
        shapes (m, 2^m − 1) and (m,): Σ_{S∌i} n_S (r_i−1) q_S − e^{ε_i} Σ_{S∋i} n_S q_S = 0, that is ε_i as POR's
        equation 2 defines it, with n_S = Π_{j∈S}(r_j−1) outputs in event S.
    """

    A: sp.csr_array
    b: FloatArray
    A_eq: sp.csr_array
    b_eq: FloatArray


def event_sizes(sizes: IntArray) -> FloatArray:
    """Compute n_S = Π_{i∈S}(r_i−1) of every event, shape (2^m,)."""
    out = np.ones(1)
    for r in sizes:
        out = np.multiply.outer(out, [1.0, r - 1.0]).ravel()
    return out


def event_bits(m: int) -> IntArray:
    """Build the indicator of changes, shape (2^m, m)."""
    return (np.arange(1 << m)[:, None] >> np.arange(m - 1, -1, -1)) & 1


def event_program(problem: Problem) -> EventProgram:
    """Build POR's linear program as arrays for any solver.

    Parameters
    ----------
    problem
        sizes r_i and requested ε_i in nats. Pairs and caps are no part of POR's program.

    Returns
    -------
    EventProgram
        O(m 2^m) entries, built in that time and memory: at m = 14 half a million, at m = 20 fifty million.

    Raises
    ------
    InvalidProblem
        where pairs or caps are asked for.
    MethodTooLarge
        above 20 attributes.

    Notes
    -----
    The arrays are exact up to rounding, but their entries span e^{ε}: in double precision, general solvers may lose
    digits at large totals (1.3 nats at 20). Method ``lp`` solves the same program scaled, and checks the answer against a
    certificate.

    Column k is the k-th event in the order of ``itertools.product((0, 1), repeat=m)``, where 1 means changed. Column 0 is
    q_∅, which is minimized; the last event has no column because its q is 1.

    Examples
    --------
    Three binary attributes, each as accurate as randomized response at half a nat:

    >>> import numpy as np
    >>> from scipy.optimize import linprog
    >>> from optrr_solvers import Problem, event_program
    >>> program = event_program(Problem([2, 2, 2], [0.5, 0.5, 0.5]))
    >>> program.A.shape, program.A_eq.shape
    ((12, 7), (3, 7))
    >>> cost = np.eye(7)[0]
    >>> answer = linprog(cost, program.A, program.b, program.A_eq, program.b_eq)
    >>> print(round(float(np.log(answer.x[0])), 4))
    1.0717
    """
    if problem.constrained:
        raise InvalidProblem("POR's program supports no pairs or caps; drop them, or use method 'reduced'")
    if problem.m > MAX_TABLE:
        raise MethodTooLarge(
            f"POR's program has 2^m columns; up to {MAX_TABLE} attributes, got {problem.m}: use 'auto'"
        )
    m, last = problem.m, (1 << problem.m) - 1
    order, right = monotonicity(m)
    n, bits = event_sizes(problem.sizes), event_bits(m)
    rows = np.where(bits.T == 0, (problem.sizes - 1.0)[:, None], -np.exp(problem.epsilons)[:, None]) * n
    return EventProgram(order, right, sp.csr_array(rows[:, :last]), -rows[:, last])


def monotonicity(m: int) -> tuple[sp.csr_array, FloatArray]:
    """Build the monotonicity constraints of POR, A and b.

    Every event is at least as likely, per output, as the events with one more change.
    """
    last = (1 << m) - 1
    bits = event_bits(m)
    small, attribute = np.nonzero(bits == 0)
    large = small + (1 << (m - 1 - attribute))
    count = small.size
    inner = large != last
    row = np.arange(count)
    matrix = sp.coo_array(
        (
            np.concatenate([-np.ones(count), np.ones(int(inner.sum()))]),
            (np.concatenate([row, row[inner]]), np.concatenate([small, large[inner]])),
        ),
        shape=(count, last),
    )
    return sp.csr_array(matrix), np.where(inner, 0.0, -1.0)


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Solve POR's own program for the optimal TableLaw; m up to 14.

    m 2^{m−1} rows; 'reduced' is faster.

    The tolerance is absolute. Raises MethodTooLarge above 14 attributes, InvalidProblem for pairs and caps, SolveFailed
    where the answer fails its check.
    """
    started = time.perf_counter()
    if problem.m > MAX_LP:
        raise MethodTooLarge(f"method 'lp' takes up to {MAX_LP} attributes, got {problem.m}; use 'reduced' or 'auto'")
    if problem.constrained:
        raise InvalidProblem("method 'lp' is POR's program without pairs or caps; use 'reduced'")
    lattice = Lattice(problem, singles(problem.m))
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
    """Build the program in u, and ln s."""
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
    if np.abs(program.matrix.data).max() >= _TOO_LARGE:
        raise SolveFailed("lp: the program's coefficients are too large for HiGHS at these epsilons; use method auto")
    answer = backend.solve(program, method="lp")
    # tight rows sit at their upper side: 0 for monotonicity, −E_μ[g] for accuracies
    values, multipliers = backend.solved_again(program, answer, program.row_upper, "lp")
    density = 1 + np.exp(log_scale) * np.append(values, 0.0)
    return np.maximum(density, 1.0), multipliers[-lattice.problem.m :], answer.iterations
