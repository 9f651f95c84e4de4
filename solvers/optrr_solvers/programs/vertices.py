"""The reduced linear program by walking between vertices of its dual, with relative tolerances only.

HiGHS's tolerances are absolute. At a large ε entries of 1 stand beside entries of e^ε, and no scaling serves all of them, least
of all with pairs: HiGHS stops at vertices that are not optimal. The dual is to minimise over the multipliers w of the rows

    D(w) = Σ_k u_k max(w·g_k, 0)   subject to   w ≥ 0   and   w·b = 1,        b = −E_μ[g],

where u_k is the measure of cell k. At a vertex, rows − 1 of the constraints h_k = w·g_k = 0 (tied cells) and w_z = 0 hold. The
primal values there, masses of the tied cells and slacks of the rows, say which constraint to release. The walk along its edge
passes every kink of D behind which D still falls: the long step of the bounded dual simplex method. Equations are equilibrated
and solved anew at each vertex. Ties of many alike cells, at small ε, can make the walk go round; HiGHS serves there.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import SolveFailed
from optrr_solvers.programs.lattice import Lattice
from optrr_solvers.programs.sifting import LatticeOptimum

# Violations up to this share are rounding: of t in [0, 1], and of a slack beside the sum of the sizes of its terms.
_VIOLATION = 1e-10
# h counts as zero below this share of Σ |w g|.
_TIE = 1e-13
_MOST_STEPS = 2000
# Rounds of equilibration.
_SWEEPS = 8
# The rows of all cells are kept, and every step passes over them.
MAX_CELLS = 1 << 14


def solve(lattice: Lattice, *, deadline: float = math.inf) -> LatticeOptimum:
    """Optimal densities on a lattice. Raises SolveFailed, also at the deadline."""
    rows, log_scale = lattice.rows_at(np.arange(lattice.cells)), lattice.log_dual_guess()
    measure = np.exp(lattice.log_mu.ravel() + log_scale)
    vertex = _descend_from_any(rows, measure, -lattice.means, deadline)
    with np.errstate(divide="ignore"):
        log_density = np.logaddexp(0.0, np.log(vertex.shares) + log_scale - math.log(vertex.value))
    certificate = lattice.certificate(vertex.multipliers)
    return LatticeOptimum(log_density.reshape(lattice.shape), certificate, 1, vertex.steps, lattice.cells)


@dataclass(frozen=True, eq=False)
class Vertex:
    """The best vertex: the multipliers w, the part t of every cell, the value D(w), and how many vertices came before it."""

    multipliers: FloatArray
    shares: FloatArray
    value: float
    steps: int


class _Equations:
    """Square equations M x = c, equilibrated, with one step of refinement."""

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = matrix
        sizes = np.abs(matrix)
        self.left, self.right = np.ones(len(matrix)), np.ones(len(matrix))
        for _ in range(_SWEEPS):
            self.left /= np.sqrt((sizes * self.left[:, None] * self.right).max(axis=1))
            self.right /= np.sqrt((sizes * self.left[:, None] * self.right).max(axis=0))
        self.scaled = matrix * self.left[:, None] * self.right
        self.inverse = np.linalg.inv(self.scaled)

    def solve(self, c: FloatArray) -> FloatArray:
        rhs = c * self.left
        x = self.inverse @ rhs
        x += self.inverse @ (rhs - self.scaled @ x)
        return np.asarray(x * self.right)

    def solve_transposed(self, c: FloatArray) -> FloatArray:
        rhs = c * self.right
        x = rhs @ self.inverse
        x += (rhs - x @ self.scaled) @ self.inverse
        return np.asarray(x * self.left)


def _descend_from_any(rows: FloatArray, measure: FloatArray, need: FloatArray, deadline: float) -> Vertex:
    """Start at the multiplier of one row alone, the best one first; from another one where a walk meets singular equations."""
    alone = (np.maximum(rows, 0) @ measure) / need
    for first in np.argsort(alone, kind="stable").tolist():
        try:
            return descend(rows, measure, need, first, deadline)
        except np.linalg.LinAlgError:
            continue
    raise SolveFailed("every walk between vertices met singular equations")


def descend(rows: FloatArray, measure: FloatArray, need: FloatArray, first: int, deadline: float) -> Vertex:
    """Minimise D; ``rows`` g of shape (rows, cells), ``measure`` u, ``need`` b > 0, ``first`` a row. Raises SolveFailed."""
    count, sizes = len(rows), np.abs(rows)
    zero = [z for z in range(count) if z != first]
    tied: list[int] = []
    positive = rows[first] > 0
    for step in range(_MOST_STEPS):
        if time.perf_counter() > deadline:
            raise SolveFailed("the walk between vertices ran out of time")
        equations = _Equations(np.vstack([rows[:, tied].T, np.eye(count)[zero], need]))
        w = np.maximum(equations.solve(np.append(np.zeros(count - 1), 1.0)), 0)
        w[zero] = 0
        h = w @ rows
        h[np.abs(h) <= _TIE * (w @ sizes)] = 0
        h[tied] = 0
        inside = np.where(h == 0, positive, h > 0)
        inside[tied] = False
        mass = np.where(inside, measure, 0.0)
        # Σ (inside) u_k g_k + Σ (tied) p_k g_k − slack = D b: the primal values
        solved = equations.solve_transposed(-(rows @ mass))
        parts, slacks, value = solved[: len(tied)], -solved[len(tied) : -1], -float(solved[-1])
        total = sizes @ mass + sizes[:, tied] @ np.clip(parts, 0, measure[tied]) + need * abs(value)
        excess = np.maximum(-parts, parts - measure[tied])
        violations = np.append((sizes[:, tied] / total[:, None]).max(axis=0) * excess, -slacks / total[zero])
        if not violations.size or violations.max() <= _VIOLATION:
            shares = inside.astype(np.float64)
            shares[tied] = np.clip(parts / measure[tied], 0, 1)
            return Vertex(w, shares, value, step)
        leaving = int(np.argmax(violations))
        unit = np.zeros(count)
        unit[leaving] = 1.0 if leaving >= len(tied) or parts[leaving] > 0 else -1.0
        d = equations.solve(unit)
        slope = d @ rows
        slope[np.abs(slope) <= _TIE * (np.abs(d) @ sizes)] = 0
        slope[tied] = 0
        if leaving < len(tied):
            left = tied.pop(leaving)
            slope[left], inside[left] = unit[leaving], unit[leaving] > 0
        else:
            del zero[leaving - len(tied)]
        cell, crossed, length = _kink(h, slope, inside, measure)
        free = np.setdiff1d(np.flatnonzero(d < 0), zero)
        stops = w[free] / -d[free]
        if cell is not None and length[-1] <= stops.min(initial=math.inf):
            tied.append(cell)
        elif stops.size:
            zero.append(int(free[np.argmin(stops)]))
            crossed = crossed[length[:-1] < stops.min()]
        else:
            raise SolveFailed("the dual falls without end")
        inside[crossed] = ~inside[crossed]
        positive = inside
    raise SolveFailed(f"no optimum after {_MOST_STEPS} vertices")


def _kink(
    h: FloatArray, slope: FloatArray, inside: NDArray[np.bool_], measure: FloatArray
) -> tuple[int | None, IntArray, FloatArray]:
    """The cell where D stops falling along h + α·slope (None: nowhere), the cells crossed before it, and their α."""
    k = np.flatnonzero(np.where(inside, slope < 0, slope > 0))
    away = np.abs(h[k]) / np.abs(slope[k])
    order = np.argsort(away, kind="stable")
    k, away = k[order], away[order]
    if not k.size:
        return None, k, np.append(away, math.inf)
    # D' behind each kink: the sum of what rises less that of what still falls, neither of which cancels
    moves = measure[k] * slope[k]
    rising = measure[inside] @ np.maximum(slope[inside], 0) + np.cumsum(np.maximum(moves, 0))
    falling = np.append(np.cumsum(np.maximum(-moves, 0)[::-1])[::-1][1:], 0.0)
    turn = int(np.argmax(rising >= falling))
    return int(k[turn]), k[:turn], away[: turn + 1]
