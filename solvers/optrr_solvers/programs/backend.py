"""The one place that talks to HiGHS: a linear program in, values, multipliers and a basis out.

Statuses are translated in one table; an unknown one is an error. Of the backend's answer only the basis is trusted, and
that only as a proposal: the solvers recompute everything from it.

From 1.16 on HiGHS prints a banner while it is made, before any option can be set. It writes to file descriptor 1, which
``sys.stdout`` knows nothing of, so the descriptor itself points elsewhere meanwhile. It belongs to the whole process:
another thread that prints in this moment would not be read either. So only calls without such an option run there, for
about a millisecond.
"""

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible, SolveFailed

_FEASIBILITY = 1e-10  # HiGHS's own floor; its default 1e-7 leaves wrong bases at large ε
_SMALLEST_ENTRY = 1e-12  # HiGHS's own floor; its default drops coefficients below 1e-9

_FAILURES = {
    highspy.HighsModelStatus.kUnbounded: "reports an unbounded program",
    highspy.HighsModelStatus.kTimeLimit: "reached the time limit",
    highspy.HighsModelStatus.kIterationLimit: "reached the iteration limit",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "reports unbounded or infeasible",
    highspy.HighsModelStatus.kSolveError: "failed numerically",
    highspy.HighsModelStatus.kModelError: "rejected the program",
    highspy.HighsModelStatus.kUnknown: "stopped without an answer",
}


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise cost·x subject to row_lower ≤ A x ≤ row_upper and lower ≤ x ≤ upper."""

    cost: FloatArray
    matrix: sp.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class BasicAnswer:
    """Solution of a linear program.

    Values, multipliers of the rows (change of the minimum per unit of right-hand side), basic columns and rows.
    """

    values: FloatArray
    row_duals: FloatArray
    basic_columns: NDArray[np.bool_]
    basic_rows: NDArray[np.bool_]
    iterations: int


def solve(program: LinearProgram, *, method: str, deadline: float = math.inf) -> BasicAnswer:
    """Run the dual simplex method on one thread until ``deadline``.

    The clock is time.perf_counter.

    Raises Infeasible or SolveFailed, naming ``method``.
    """
    left = deadline - time.perf_counter()
    if left <= 0:
        raise SolveFailed(_failed(method, _FAILURES[highspy.HighsModelStatus.kTimeLimit]))
    highs = silently(highspy.Highs)
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "solver": "simplex",
        "presolve": "off",
        "threads": 1,
        "small_matrix_value": _SMALLEST_ENTRY,
        "primal_feasibility_tolerance": _FEASIBILITY,
        "dual_feasibility_tolerance": _FEASIBILITY,
        "time_limit": left,
    }
    for name, value in options.items():
        _must(highs.setOptionValue(name, value), f"{method}: HiGHS rejected option {name}")
    _must(highs.passModel(_model(program)), f"{method}: HiGHS rejected the program")
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        raise Infeasible(f"{method}: no mechanism meets all requirements; relax a pair, a cap or an epsilon")
    if status != highspy.HighsModelStatus.kOptimal:
        reason = _FAILURES.get(status, f"answered with the unknown status {status}")
        raise SolveFailed(_failed(method, reason))
    solution, basis = highs.getSolution(), highs.getBasis()
    basic = highspy.HighsBasisStatus.kBasic
    return BasicAnswer(
        values=np.array(solution.col_value),
        row_duals=np.array(solution.row_dual),
        basic_columns=np.array([s == basic for s in basis.col_status]),
        basic_rows=np.array([s == basic for s in basis.row_status]),
        iterations=int(highs.getInfo().simplex_iteration_count),
    )


def solved_again(
    program: LinearProgram, answer: BasicAnswer, right: FloatArray, method: str
) -> tuple[FloatArray, FloatArray]:
    """Recompute values and multipliers from the basis in double precision.

    Tight rows equal ``right``. Raises SolveFailed.
    """
    columns, tight = np.flatnonzero(answer.basic_columns), np.flatnonzero(~answer.basic_rows)
    if columns.size != tight.size:
        raise SolveFailed(f"{method}: HiGHS returned an incomplete basis")
    factors = splu(sp.csc_array(program.matrix[tight][:, columns]))
    values, multipliers = np.zeros(program.cost.size), np.zeros(right.size)
    values[columns] = factors.solve(right[tight])
    multipliers[tight] = factors.solve(program.cost[columns], trans="T")
    return values, multipliers


def _failed(method: str, reason: str) -> str:
    return f"{method}: HiGHS {reason}; use less extreme epsilons or method 'ball'"


def _model(program: LinearProgram) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.cost.size, program.row_lower.size
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = program.matrix.indptr
    lp.a_matrix_.index_ = program.matrix.indices
    lp.a_matrix_.value_ = program.matrix.data
    return lp


def _must(status: highspy.HighsStatus, message: str) -> None:
    if status == highspy.HighsStatus.kError:
        raise SolveFailed(message)


_Made = TypeVar("_Made")

_STANDARD_OUTPUT = 1
# one thread at a time: a second one would take the first one's detour for the descriptor to put back
_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child would inherit the detour, or a lock that nobody opens
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def silently(make: Callable[[], _Made]) -> _Made:
    """Call ``make()`` without output."""
    with _LOCK, _nowhere():
        return make()


@contextmanager
def _nowhere() -> Iterator[None]:
    try:
        kept = os.dup(_STANDARD_OUTPUT)
    except OSError:  # it is closed already
        yield
        return
    try:
        _flush()  # what others printed before goes where it should
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, _STANDARD_OUTPUT)
        finally:
            os.close(nowhere)
        try:
            yield
        finally:
            _flush()  # or C would keep the text until the descriptor is back
            os.dup2(kept, _STANDARD_OUTPUT)
    finally:
        os.close(kept)


def _flush() -> None:
    """Flush C's standard output only.

    A thread that waits for standard input holds that file.
    """
    with suppress(OSError, AttributeError, TypeError, ValueError):
        library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
        library.fflush(_stdout(library))


def _stdout(library: ctypes.CDLL) -> ctypes.c_void_p | None:
    """Find C's standard output on Linux or macOS; None elsewhere for all files."""
    for name in ("stdout", "__stdoutp"):
        with suppress(ValueError):
            return ctypes.c_void_p.in_dll(library, name)
    return None
