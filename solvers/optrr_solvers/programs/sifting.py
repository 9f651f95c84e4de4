"""The reduced linear program on a counts lattice, solved by sifting (theory §3.3).

With t ∈ [0,1] on the cells, q = 1 + (Q−1) t and y = 1/(Q−1):

    maximise y   subject to   y E_μ[g] + Σ_k μ_k t_k g(k) ≥ 0  for each requirement g      (= 0 for plain accuracies).

At the optimum t = 1 where h = Σ w g > 0 and 0 where h < 0, fractional on at most (rows − 1) ties. So only cells near
h = 0 need to be columns: the others are fixed by the sign of h, the small program gives new w, and cells that the new w
puts on the wrong side become columns, until none is. Each round is one pass over the lattice.

The backend's answer serves as a basis only. From the basis, w and the tied t are recomputed in double precision from
well-scaled equations, and t is rebuilt from the sign of h everywhere else.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.errors import Infeasible, SolveFailed
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import BasicAnswer, LinearProgram
from optrr_solvers.programs.lattice import Lattice

# Lattices up to here go to the backend whole.
_ALL_CELLS = 4096
# The first small program has this many columns for each row, and at least the second number.
_PER_ROW, _AT_LEAST = 40, 2000
# h counts as zero below this share of Σ|w g| at the same cell. That is more than the rounding of w and of the sum, and less
# than any real difference.
_TIE = 1e-13
_MAX_ROUNDS = 60
_INFEASIBLE = "{method}: no mechanism keeps the pairs at kappa = {kappa:g}; lower kappa (1 always works)"


@dataclass(frozen=True, eq=False)
class LatticeOptimum:
    """Log density per cell (0 outside, ln Q inside), the certificate and the work."""

    log_density: FloatArray
    certificate: Certificate
    rounds: int
    iterations: int
    columns: int


def solve(lattice: Lattice, *, method: str, deadline: float = math.inf) -> LatticeOptimum:
    """Compute optimal densities on the lattice.

    Raises Infeasible (κ too large) or SolveFailed, also at the deadline.
    """
    rows = lattice.means.size
    w = lattice.epsilon_weights()
    scale = lattice.log_dual_guess()
    h = lattice.combine(w).ravel()
    if lattice.cells <= _ALL_CELLS:
        columns = np.arange(lattice.cells)
    else:
        # a stable sort, not a partition: which of equal entries a partition selects depends on the processor
        columns = np.sort(np.argsort(np.abs(h), kind="stable")[: max(_PER_ROW * rows, _AT_LEAST)])
    iterations = 0
    most = 4 * max(_PER_ROW * rows, _AT_LEAST)
    for step in range(_MAX_ROUNDS):
        small = _Small(lattice, columns, h, scale)
        answer, final = small.solve(method, deadline)
        iterations += answer.iterations
        w = small.multipliers(answer) if final else answer.row_duals
        new = lattice.combine(w).ravel()
        tie = _TIE * lattice.magnitude(w).ravel()
        wrong = (new > tie) & (h <= 0) | (new < -tie) & (h > 0)
        wrong[columns] = False
        if not wrong.any():
            if not final:
                raise Infeasible(_INFEASIBLE.format(method=method, kappa=lattice.problem.kappa))
            density = small.log_density(answer, w, new, tie)
            return LatticeOptimum(density, lattice.certificate(w), step + 1, iterations, columns.size)
        # of the cells that were fixed to the wrong side, those that cost most become free; all other cells stay fixed
        wrong_cells = np.flatnonzero(wrong)
        if wrong_cells.size > most:
            cost = lattice.log_mu.ravel()[wrong_cells] + np.log(np.abs(new[wrong_cells]))
            wrong_cells = wrong_cells[np.argsort(-cost, kind="stable")[:most]]
        columns = np.union1d(columns, wrong_cells)
    raise SolveFailed(f"{method}: no optimum after {_MAX_ROUNDS} rounds of sifting; try method 'ball'")


class _Small:
    """The program on chosen columns; the sign of ``h`` fixes every other cell."""

    def __init__(self, lattice: Lattice, columns: IntArray, h: FloatArray, scale: float) -> None:
        self.lattice, self.columns = lattice, columns
        self.log_caps = lattice.log_mu.ravel() + scale
        self.caps = np.exp(self.log_caps[columns])
        self.raw = lattice.rows_at(columns)
        # columns scaled to entries around 1: an attribute with a tiny flip has entries of 1/f beside others of 1
        sizes = np.abs(self.raw)
        self.column_scale = 1 / np.sqrt(sizes.max(axis=0) * sizes.min(axis=0, where=sizes > 0, initial=np.inf))
        self.entries = self.raw * self.column_scale
        self.fixed_inside = h > 0
        fixed = np.where(self.fixed_inside, np.exp(np.minimum(self.log_caps, 700)), 0.0)
        fixed[columns] = 0
        self.fixed = (
            lattice.mass_times_rows(fixed.reshape(lattice.shape)) if fixed.any() else np.zeros(len(lattice.means))
        )
        self.y_scale = 1 / np.abs(lattice.means).max()
        self.y_column = lattice.means * self.y_scale

    def solve(self, method: str, deadline: float) -> tuple[BasicAnswer, bool]:
        """Solve the small program.

        Returns the optimum and True; if infeasible, multipliers of the least violation and False.
        """
        try:
            answer = backend.solve(self._program(elastic=False), method=method, deadline=deadline)
        except Infeasible:
            return backend.solve(self._program(elastic=True), method=method, deadline=deadline), False
        # y = 0 means that these columns allow no finite Q
        return answer, bool(answer.values[-1] > 0 and answer.basic_columns[-1])

    def _program(self, *, elastic: bool) -> LinearProgram:
        """Build the linear program on the chosen columns.

        Columns: cells, y, and with ``elastic`` one shortfall per row (and one excess for equalities).
        """
        rows, n = self.lattice.means.size, self.columns.size
        equality = not self.lattice.problem.constrained
        blocks = [self.entries, self.y_column[:, None]]
        cost = np.append(np.zeros(n), 0.0 if elastic else -1.0)
        upper = np.append(self.caps / self.column_scale, np.inf)
        if elastic:
            blocks += [np.eye(rows), -np.eye(rows)] if equality else [np.eye(rows)]
            extra = rows * (len(blocks) - 2)
            cost, upper = np.append(cost, np.ones(extra)), np.append(upper, np.full(extra, np.inf))
        return LinearProgram(
            cost=cost,
            matrix=sp.csc_array(np.column_stack(blocks)),
            row_lower=-self.fixed,
            row_upper=-self.fixed if equality else np.full(rows, np.inf),
            lower=np.zeros(cost.size),
            upper=upper,
        )

    def _system(self, answer: BasicAnswer) -> tuple[IntArray, IntArray, FloatArray]:
        """Return basic cells, tight rows, and the square matrix between them and y."""
        basic = np.flatnonzero(answer.basic_columns[:-1])
        tight = np.flatnonzero(~answer.basic_rows)
        matrix = np.column_stack([self.entries[np.ix_(tight, basic)], self.y_column[tight]])
        if matrix.shape[0] != matrix.shape[1]:
            raise SolveFailed("HiGHS returned an incomplete basis")
        return basic, tight, matrix

    def multipliers(self, answer: BasicAnswer) -> FloatArray:
        """Compute W with h = 0 on basic cells, −w·E_μ[g] = 1, and 0 on slack rows."""
        basic, tight, matrix = self._system(answer)
        w = np.zeros(self.lattice.means.size)
        w[tight] = np.linalg.solve(matrix.T, np.append(np.zeros(basic.size), -self.y_scale))
        return w

    def log_density(self, answer: BasicAnswer, w: FloatArray, h: FloatArray, tie: FloatArray) -> FloatArray:
        """Rebuild t from the sign of h, with ties from the basis.

        Returns ln(1 + t/y) with y's own scale.
        """
        basic, tight, matrix = self._system(answer)
        t = np.where(np.abs(h) <= tie, self.fixed_inside, h > 0).astype(np.float64)
        tied = self.columns[np.abs(h[self.columns]) <= tie[self.columns]]
        place = np.searchsorted(self.columns, tied)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = answer.values[place] * self.column_scale[place] / self.caps[place]
        t[tied] = np.clip(np.nan_to_num(share, nan=0.0), 0, 1)
        cells = self.columns[basic]
        t[cells] = 0
        mass = t * np.exp(np.minimum(self.log_caps, 700))
        residual = self.lattice.mass_times_rows(mass.reshape(self.lattice.shape))
        solved = np.linalg.solve(matrix, -residual[tight])
        t[cells] = np.clip(solved[:-1] * self.column_scale[basic] / self.caps[basic], 0, 1)
        y = solved[-1] * self.y_scale
        if not y > 0:
            raise SolveFailed("the basis gives no positive y")
        # ln Q − 1 = −ln y in the scaled units; log_caps − log_mu is the scale's logarithm
        log_odds = float(self.log_caps[0] - self.lattice.log_mu.ravel()[0]) - np.log(y)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(0.0, np.log(t) + log_odds)).reshape(self.lattice.shape)
