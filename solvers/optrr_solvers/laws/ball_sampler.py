"""Drawing change sets from weighted balls: the dynamic program forwards, the draws backwards (design §3.5).

Given the total x after attribute i, the attribute was kept with probability k_i N_{i−1}(x)/N_i(x) (:mod:`laws.totals`): one
uniform number per attribute. For many attributes only checkpoints of the table are kept and its blocks recomputed, so that
memory is O(√m × window).

Rounding only adds privacy. The branches' probabilities are taken from the computed table itself, so along a change set their
product telescopes: it exceeds the ball's true probability by at most ``ROUNDINGS``·m·2^-53 plus 2^-62 a step, relatively,
for the numbers drawn have 2^-64 steps and the rarer branch is rounded down. That much, plus the mass dropped at the table's
edges and the error of the ball's own mass, is taken off the ball's share and given to the uniform answer
(:mod:`laws.excess`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optrr_solvers.laws.base import BoolArray
from optrr_solvers.laws.excess import ExcessTable, uniform_changes
from optrr_solvers.laws.tilting import saddle_point
from optrr_solvers.laws.totals import ROUNDINGS, Row, Steps, first_row, rows
from optrr_solvers.laws.weighted_ball import WeightedBall
from optrr_solvers.problem import FloatArray, IntArray
from optrr_solvers.randomness import BitSource, Words

# Bytes of table kept at once.
_MEMORY = 1 << 29
_WORD = 2.0**64
# Shares of the final totals are rounded down to words and leave this share over, which is drawn again.
_PICK_ERROR = 2.0**-45


class BallTable:
    """Forward program of one ball, lightest attributes first; ``log_mass`` is ln E_μ[t] and ``error`` bounds its error."""

    def __init__(self, ball: WeightedBall, sizes: IntArray, class_of: IntArray) -> None:
        log_odds = np.log(sizes - 1.0)
        self._order = np.argsort(ball.weights[class_of], kind="stable")
        weights = ball.weights[class_of][self._order]
        odds = log_odds[self._order]
        middle = max((float(ball.knots[0]) + float(ball.knots[-1])) / 2, 0.5)
        theta = saddle_point(odds, np.ones(odds.size), weights, middle)
        floors, fractions = ball.floors[class_of][self._order], ball.fractions[class_of][self._order]
        self._steps = Steps.of(floors, fractions, odds, theta)
        self._end = ball.end
        self._checkpoints: dict[int, Row] = {0: first_row()}
        self._block = self._forward()
        self._finish(ball, theta, sizes[self._order])

    def _forward(self) -> int:
        """Run once; keep every row that fits in half the memory, else rows at equal distances; returns their distance."""
        m = len(self._steps)
        block, used = 1, 0
        for i, row in enumerate(rows(self._steps, self._end, first_row(), 0, m), start=1):
            self._last = row
            if i % block == 0:
                self._checkpoints[i] = row
                used += row.values.nbytes
            while used > _MEMORY:
                block *= 2
                self._checkpoints = {k: r for k, r in self._checkpoints.items() if k % block == 0}
                used = sum(r.values.nbytes for r in self._checkpoints.values())
        return block

    def _finish(self, ball: WeightedBall, theta: float, sizes: IntArray) -> None:
        row = self._last
        totals = row.start + np.arange(row.values.size)
        distance = theta * (self._end - totals)
        # e^{−θ(end − x)} undoes the tilt
        self._final = row.values * np.exp(-distance) * ball.profile(totals)
        mass = float(self._final.sum())
        if not mass > 0:
            raise ValueError("the ball is empty; enlarge its radius")
        kept = self._steps.kept
        log_sizes = np.log(sizes.astype(np.float64))
        # Π 1/(r_i k_i) is what the row weights leave out
        base = -math.fsum(log_sizes) - math.fsum(np.log(kept)) + theta * self._end
        self.log_mass = base + math.log(mass)
        m, magnitude = len(self._steps), float(log_sizes.sum()) + theta * self._end
        shape = float(np.sum(4 + np.abs(np.log(sizes - 1.0)) + np.abs(np.log(kept))))
        self.error = (
            _PICK_ERROR
            + ROUNDINGS * m * 2.0**-52
            + m * 2.0**-62
            + 2.0**-50 * (magnitude + shape)
            + 2 * (row.lost + 1e-280) / mass
        )

    def draw(self, n: int, source: BitSource) -> BoolArray:
        """``n`` change sets of the ball, shape (n, m); one pass over the table and O(n m)."""
        out = np.empty((n, len(self._steps)), dtype=np.bool_)
        state = self._last.start + _pick(self._final, n, source)
        stop = len(self._steps)
        for start in range((stop - 1) // self._block * self._block, -1, -self._block):
            table = [self._checkpoints[start]]
            if stop - start > 1:
                table += rows(self._steps, self._end, table[0], start, stop - 1)
            for i in range(stop - 1, start - 1, -1):
                changed, state = self._undo(i, table[i - start], state, source.words(n))
                out[:, self._order[i]] = changed
            stop = start
        return out

    def _undo(self, i: int, before: Row, state: IntArray, words: Words) -> tuple[BoolArray, IntArray]:
        """Whether attribute i changed, and the total before it, for every draw."""
        steps = self._steps
        a = int(steps.floors[i])
        kept = before.at(state) * steps.kept[i]
        low = before.at(state - a) * steps.low[i]
        high = before.at(state - a - 1) * steps.high[i] if steps.high[i] > 0 else np.zeros_like(low)
        changed, moved = _branch(words, np.stack([kept, low, high]), a)
        return changed, state - moved


def _pick(masses: FloatArray, n: int, source: BitSource) -> IntArray:
    """``n`` indices drawn by mass; none is more likely than its share by more than a factor 1 + ``_PICK_ERROR``."""
    whole = np.floor(masses / masses.sum() * (_WORD * (1 - _PICK_ERROR / 4))).astype(np.uint64)
    ends = np.cumsum(whole, dtype=np.uint64)
    at = np.searchsorted(ends, source.words(n), side="right")
    redo = np.flatnonzero(at == masses.size)
    while redo.size:
        at[redo] = np.searchsorted(ends, source.words(redo.size), side="right")
        redo = redo[at[redo] == masses.size]
    return np.asarray(at, dtype=np.int64)


def _branch(words: Words, parts: FloatArray, a: int) -> tuple[BoolArray, IntArray]:
    """Split [0, 2^64) among "kept", "changed by a" and "changed by a + 1"; the largest takes what rounding leaves.

    ``parts`` has shape (3, n); returns whether the attribute changed, and by how much the total grew.
    """
    with np.errstate(invalid="ignore"):
        share = parts / parts.sum(axis=0)
    largest = np.argmax(parts, axis=0)
    np.put_along_axis(share, largest[None, :], 0.0, axis=0)
    # shares below one half: the product is exact in 64 bits up to the final floor
    whole = np.floor(np.nan_to_num(share) * _WORD).astype(np.uint64)
    ends = np.cumsum(whole, axis=0, dtype=np.uint64)
    choice = (words[None, :] >= ends).sum(axis=0)
    choice = np.where(choice == parts.shape[0], largest, choice)
    return choice > 0, np.array([0, a, a + 1])[choice]


class BallSampler:
    """The whole law: uniform answers and balls, with the balls' shares rounded down."""

    def __init__(
        self, sizes: IntArray, class_of: IntArray, balls: Sequence[tuple[float, WeightedBall]], log_ratio: float
    ) -> None:
        self._sizes = sizes
        self._balls = [ball for _, ball in balls]
        self._class_of = class_of
        self._tables: dict[int, BallTable] = {}
        logs, errors = np.full(len(balls), -np.inf), np.zeros(len(balls))
        if log_ratio > 0:
            above = log_ratio + math.log(-math.expm1(-log_ratio))
            for k, (share, _) in enumerate(balls):
                table = self._table(k)
                logs[k] = above + math.log(share) + table.log_mass
                errors[k] = table.error + 2.0**-50 * (abs(above) + abs(table.log_mass) + abs(math.log(share)) + 1)
        self._choice = ExcessTable(logs, errors)

    def _table(self, k: int) -> BallTable:
        """Built on demand; one at a time is kept, since each may fill its share of the memory."""
        if k not in self._tables:
            self._tables.clear()
            self._tables[k] = BallTable(self._balls[k], self._sizes, self._class_of)
        return self._tables[k]

    def draw(self, n: int, source: BitSource) -> BoolArray:
        """``n`` change sets, shape (n, m)."""
        cells = self._choice.draw(n, source)
        out = np.empty((n, self._sizes.size), dtype=np.bool_)
        for k in range(len(self._balls)):
            who = np.flatnonzero(cells == k)
            if who.size:
                out[who] = self._table(k).draw(who.size, source)
        who = np.flatnonzero(cells < 0)
        out[who] = uniform_changes(who.size, self._sizes, source)
        return out
