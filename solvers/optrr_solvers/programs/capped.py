"""The exact optimum under caps on the conditional ε: q_S ≤ e^{η_i} q_{S∪{i}} and back, for each S (theory §3.6).

Cap rows tie neighbouring cells together, so nothing can be sifted: all 2^m densities are columns and the m 2^m caps are
rows, small m only. As in :mod:`optrr_solvers.programs.lp` the program is solved in u, q = 1 + s u, and its basis solved
again.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.errors import Infeasible, MethodTooLarge, SolveFailed
from optrr_solvers.problem import Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.programs.sifting import LatticeOptimum

MAX_CAPPED = 10
# e^η of a cap is a coefficient of the program.
_LARGEST_EXPONENT = 700.0
# The rounding of a difference of two logarithms, of its quotient by the cap and of the label adds up to less than this.
_ROUNDINGS = 2.0**-49


@dataclass(frozen=True, eq=False)
class _CapRows:
    """One row per finite cap, step and direction: q_capped ≤ e^η q_other.

    With their names in the certificate.
    """

    capped: IntArray
    other: IntArray
    eta: FloatArray
    cell: IntArray
    attribute: IntArray


def binding(problem: Problem) -> IntArray:
    """Find attributes whose cap can matter.

    A total is never above the smallest known one, so larger caps always hold.

    Up to κ = 1 independent randomized response is feasible and Σ ε_i such a total. Beyond, none is known beforehand;
    caps above the range of a double are then left out, and the solution's check refuses what breaks one.
    """
    if problem.caps is None:
        return np.empty(0, dtype=np.int64)
    total = problem.kronecker_epsilon if problem.kappa <= 1 or not problem.pairs else _LARGEST_EXPONENT
    return np.flatnonzero(problem.caps < total)


def solve(lattice: Lattice, deadline: float = math.inf) -> LatticeOptimum:
    """Compute optimal densities under caps.

    Raises MethodTooLarge above 10 attributes, Infeasible, and SolveFailed, also where the deadline comes first.
    """
    m = lattice.problem.m
    if m > MAX_CAPPED:
        raise MethodTooLarge(
            f"conditional caps take up to {MAX_CAPPED} attributes, got {m}; drop the caps or split the record"
        )
    caps = _cap_rows(lattice)
    log_scale = lattice.log_dual_guess()
    program = _program(lattice, caps, math.exp(log_scale))
    try:
        answer = backend.solve(program, method="reduced", deadline=deadline)
    except Infeasible as error:
        if lattice.problem.kappa > 1:
            raise
        # with caps of at least ε_i independent randomized response is feasible, so the program has a solution: the
        # backend missed it because its tolerances are wider than the set of solutions
        raise SolveFailed(
            "reduced: the caps leave a feasible set too small to resolve; raise them slightly, or use method "
            "'kronecker'"
        ) from error
    values, multipliers = backend.solved_again(program, answer, program.row_lower, "reduced")
    density = np.maximum(1 + math.exp(log_scale) * values[:-1], 1.0)
    return LatticeOptimum(
        _within(np.log(density).reshape(lattice.shape), caps),
        _certificate(lattice, caps, multipliers, math.exp(log_scale)),
        rounds=1,
        iterations=answer.iterations,
        columns=program.cost.size,
    )


def _within(log_density: FloatArray, caps: _CapRows) -> FloatArray:
    """Scale the densities so that all caps hold.

    The program's tolerance violates caps by 1e-11 at most in experiments.
    """
    flat = log_density.ravel()
    over = float(((flat[caps.capped] - flat[caps.other]) / caps.eta).max(initial=0.0))
    return log_density if over < 1 - _ROUNDINGS else np.asarray(log_density * ((1 - _ROUNDINGS) / over))


def _cap_rows(lattice: Lattice) -> _CapRows:
    caps = lattice.problem.caps
    assert caps is not None  # solve is called for binding caps only
    m, cells = lattice.problem.m, np.arange(lattice.cells)
    parts = []
    for i in binding(lattice.problem):
        stride = 1 << (m - 1 - int(i))
        low = cells[(cells // stride) % 2 == 0]
        for capped, other in ((low, low + stride), (low + stride, low)):
            parts.append((capped, other, np.full(low.size, caps[i]), low, np.full(low.size, i)))
    return _CapRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _program(lattice: Lattice, caps: _CapRows, scale: float) -> LinearProgram:
    """Build the linear program with caps.

    Columns u_S and their maximum; rows: maximum ≥ u_S, caps, requirements; all of the form row ≥ lower.
    """
    n, count = lattice.cells, caps.cell.size
    top = sp.hstack([-sp.eye_array(n), sp.csr_array(np.ones((n, 1)))])
    row = np.arange(count)
    step = sp.coo_array(
        (
            np.concatenate([np.exp(caps.eta), -np.ones(count)]),
            (np.concatenate([row, row]), np.concatenate([caps.other, caps.capped])),
        ),
        shape=(count, n + 1),
    )
    rows = lattice.rows_at(np.arange(n)) * np.exp(lattice.log_mu.ravel()) * scale
    needs = sp.csr_array(np.column_stack([rows, np.zeros(len(rows))]))
    lower = np.concatenate([np.zeros(n), -np.expm1(caps.eta) / scale, -lattice.means])
    return LinearProgram(
        cost=np.append(np.zeros(n), 1.0),
        matrix=sp.csc_array(sp.vstack([top, step, needs])),
        row_lower=lower,
        row_upper=np.full(lower.size, np.inf),
        lower=np.zeros(n + 1),
        upper=np.full(n + 1, np.inf),
    )


def _certificate(lattice: Lattice, caps: _CapRows, duals: FloatArray, scale: float) -> Certificate:
    n, count = lattice.cells, caps.cell.size
    on_caps = np.maximum(duals[n : n + count], 0) / scale
    # the certificate's row is n_capped n_other / Π r times e^η q_other − q_capped, that is μ_capped μ_other Π r
    mu = np.exp(lattice.log_mu.ravel())
    total = math.prod(int(r) for r in lattice.problem.sizes)
    used = np.flatnonzero(on_caps > 0)
    real = on_caps[used] / (mu[caps.capped[used]] * mu[caps.other[used]] * total)
    steps = [
        (int(caps.cell[k]), int(caps.attribute[k]), bool(caps.capped[k] != caps.cell[k]), float(c))
        for k, c in zip(used, real, strict=True)
    ]
    return lattice.certificate(duals[n + count :], steps)
