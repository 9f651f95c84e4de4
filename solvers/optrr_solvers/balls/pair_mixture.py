"""Column generation: the best mixture of balls that keeps pairs (design §3.6).

    maximise y   subject to   Σ_k p_k E_μ[t_k g] ≥ y · need(g)  for every row g,   Σ p_k ≤ 1.

The program's multipliers price the next ball (:mod:`pair_pricing`), whose exact rows (:mod:`pair_rows`) make a new column.
Most pairs are slack, so rows enter the program once they are violated. The optimal set {h > 0} of a dual function of rank one
is bounded by a parabola, and the half-spaces that touch a parabola from outside unite to just that set: mixtures of a few dozen
balls come close to it.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.pair_pricing import Prices, Soft, best_ball
from optrr_solvers.balls.pair_rows import Column, Requirements
from optrr_solvers.laws.spectrum import GridTooFine
from optrr_solvers.laws.weighted_ball import TOTAL_LIMIT, WeightedBall, soft
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram

METHOD = "ball"
# At most this many rows enter the program at once, since no more can be tight than there are columns; and only those violated
# by more than this, relatively.
_ROWS_AT_ONCE, _VIOLATED = 80, 1e-9
# A row leaves the program where it is slack by more than this, relative to its need at the scale reached.
_SLACK = 0.5
# At most this many times rows are added before new columns are sought.
_ROW_ROUNDS = 60
# Shares below this are taken for rounding.
_LEAST_SHARE = 1e-10
# Grid units for each width of the radius, and the most totals that a ball may have.
_PER_WIDTH, _MOST_TOTALS = 4.0, 1 << 16
# A weight this many widths beyond the radius is as good as any heavier one.
_REACH = 10.0


@dataclass
class Generation:
    """The columns so far, the real weights each came from, the program's rows and shares, and the best mixture met.

    ``log_y`` is the best mixture's ln y, −∞ while there is none.
    """

    wanted: Requirements
    columns: list[Column] = field(default_factory=list)
    sources: list[Soft] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    shares: FloatArray = field(default_factory=lambda: np.zeros(0))
    best: FloatArray = field(default_factory=lambda: np.zeros(0))
    log_y: float = -math.inf

    def add(self, ball: Soft) -> bool:
        """Take a ball in; False where it is empty or its numbers are out of range."""
        if not (np.all(np.isfinite(ball.weights)) and math.isfinite(ball.radius) and ball.radius > 0):
            return False
        try:
            column = self.wanted.column(on_grid(self.wanted, ball))
        except (GridTooFine, ValueError):
            return False
        if not (math.isfinite(column.log_mass) and np.all(np.isfinite(column.rows))):
            return False
        self.columns.append(column)
        self.sources.append(ball)
        return True

    def solve(self) -> Prices:
        """The program over all columns so far; its multipliers.

        Where no mixture meets every row at any scale, the multipliers are those of the mixture that comes nearest.
        """
        logs = np.array([c.log_mass for c in self.columns])
        relative = np.stack([c.rows for c in self.columns], axis=1)
        # next to a ball that meets every row, a ball of so much more mass would get a share that counts as rounding
        serving = [c.log_mass for k, c in enumerate(self.columns) if math.isfinite(self.alone(k)[0])]
        top = min(float(logs.max()), max(serving, default=math.inf) - math.log(_LEAST_SHARE))
        scaled = np.where(logs <= top, np.exp(np.minimum(logs - top, 0.0)), 0.0)
        shares, multipliers = self._with_rows(relative * scaled, nearest=False)
        kept = shares > _LEAST_SHARE
        columns = [c for c, k in zip(self.columns, kept, strict=True) if k]
        log_y = self.wanted.log_scale(columns, shares[kept]) if columns else -math.inf
        if not math.isfinite(log_y):
            masses, multipliers = self._with_rows(relative, nearest=True)
            shares = masses * np.exp(logs.min() - logs)
            shares = shares / shares.sum()
        self.shares = shares
        if log_y > self.log_y:
            self.best, self.log_y = shares, log_y
        return self.wanted.prices(multipliers)

    def _with_rows(self, matrix: FloatArray, *, nearest: bool) -> tuple[FloatArray, FloatArray]:
        """Shares and the multipliers of all rows, adding rows until none is violated."""
        needs, groups = self.wanted.needs, self.wanted.classes.counts.size
        self.rows |= set(range(groups))
        for _ in range(_ROW_ROUNDS):
            chosen = np.array(sorted(self.rows))
            shares, y, multipliers = _program(matrix[chosen], needs[chosen], nearest=nearest)
            excess = (matrix @ shares - y * needs) / needs
            excess[chosen] = 0.0
            worst = np.argsort(excess, kind="stable")[:_ROWS_AT_ONCE]
            worst = worst[excess[worst] < -_VIOLATED * max(abs(y), float(np.abs(excess).max()) * 1e-6)]
            if not worst.size:
                break
            self.rows |= set(worst.tolist())
        every = np.zeros(needs.size)
        every[chosen] = multipliers
        slack = (matrix[chosen] @ shares - y * needs[chosen]) / needs[chosen]
        self.rows = set(chosen[(multipliers > 0) | (slack < _SLACK * abs(y))].tolist())
        return shares, every

    def alone(self, k: int) -> tuple[float, float]:
        """ln y that one column reaches by itself, −∞ where it misses a row; and the least share of a row's need it meets."""
        column = self.columns[k]
        return self.wanted.log_scale([column], np.ones(1)), float(np.min(column.rows / self.wanted.needs))

    def value(self, prices: Prices, column: Column) -> float:
        """ln E_μ[t h] of a column, −∞ where it is not positive."""
        value = float(self.wanted.multipliers(prices) @ column.rows)
        return column.log_mass + math.log(value) if value > 0 else -math.inf

    def extend(self, prices: Prices, starts: list[Soft], steps: int) -> float:
        """Add the best ball found from each start; by how much, in logarithms, they beat the best column there was."""
        before = max((self.value(prices, c) for c in self.columns), default=-math.inf)
        after = -math.inf
        for start in starts:
            if self.add(best_ball(self.wanted.classes, prices, start, steps)):
                after = max(after, self.value(prices, self.columns[-1]))
        if not math.isfinite(before):
            return math.inf if math.isfinite(after) else -math.inf
        return after - before

    def mixture(self) -> tuple[list[Column], FloatArray]:
        """The columns with a share in the best mixture, and their shares, which add up to at most 1."""
        kept = np.flatnonzero(self.best > _LEAST_SHARE)
        shares = self.best[kept]
        # the program's own rounding
        return [self.columns[k] for k in kept], shares / max(1.0, math.fsum(shares.tolist()) * (1 + 2.0**-50))

    def changed(self) -> FloatArray:
        """Chances of change inside the program's mixture, per class."""
        # columns that came after the program was solved have no share yet
        columns = self.columns[: self.shares.size]
        logs = np.array([c.log_mass for c in columns])
        weights = np.exp(logs - logs.max()) * self.shares
        rows = np.stack([c.rows[: self.wanted.classes.f.size] for c in columns])
        return np.asarray(self.wanted.classes.f - weights @ rows / weights.sum())

    def largest(self, count: int) -> list[Soft]:
        """The balls with the largest shares."""
        order = np.argsort(-self.shares, kind="stable")[:count]
        return [self.sources[k] for k in order if self.shares[k] > _LEAST_SHARE]


def _program(matrix: FloatArray, needs: FloatArray, *, nearest: bool) -> tuple[FloatArray, float, FloatArray]:
    """Shares, y and the rows' multipliers; rows and y scaled to entries of order one.

    ``nearest``: y may be negative and the shares add up to 1, so that there always is an answer.
    """
    rows, n = matrix.shape
    # a row that no column moves can only be met by y ≤ 0, whatever its scale
    largest = np.abs(matrix).max(axis=1)
    scale = np.where(largest > 0, largest, 1.0)
    unit = float(np.max(needs / scale))
    block = np.block([[matrix / scale[:, None], -(needs / scale / unit)[:, None]], [np.ones((1, n)), np.zeros((1, 1))]])
    program = LinearProgram(
        cost=np.append(np.zeros(n), -1.0),
        matrix=sp.csc_array(block),
        row_lower=np.append(np.zeros(rows), 1.0 if nearest else -np.inf),
        row_upper=np.append(np.full(rows, np.inf), 1.0),
        lower=np.append(np.zeros(n), -np.inf if nearest else 0.0),
        upper=np.full(n + 1, np.inf),
    )
    answer = backend.solve(program, method=METHOD)
    return np.maximum(answer.values[:-1], 0.0), answer.values[-1] / unit, np.maximum(answer.row_duals[:-1], 0.0) / scale


def on_grid(wanted: Requirements, ball: Soft) -> WeightedBall:
    """Weights in units of a grid, rounded at random where the ball is drawn from."""
    c = wanted.classes
    unit = max(ball.width / _PER_WIDTH, ball.radius / _MOST_TOTALS)
    scaled = np.minimum(ball.weights / unit, float(TOTAL_LIMIT >> 20))
    floors = np.floor(scaled)
    fractions = np.minimum(scaled - floors, 1 - 2.0**-53)
    # tilted by one per nat, a weight rounded at random has a mean that is lower by its variance
    radius = ball.radius / unit - float(c.counts @ (c.f * unit * fractions * (1 - fractions)))
    most = int(ball.radius / unit + _REACH * ball.width / unit) + 2
    heavy = floors > most
    return soft(
        np.where(heavy, most, floors).astype(np.int64), np.where(heavy, 0.0, fractions), radius, ball.width / unit
    )
