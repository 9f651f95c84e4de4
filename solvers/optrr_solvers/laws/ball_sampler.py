"""Drawing change sets from weighted balls: the dynamic program forwards, the draws backwards (theory §3.5).

Given the total x after attribute i, the attribute was kept with probability k_i N_{i−1}(x)/N_i(x) (:mod:`totals`): one
uniform number per attribute. Many attributes are dealt out to blocks, the grand total is split among the blocks first
(:mod:`totals`), and each block's rows start from 0 and stay short. The tree is built once, the blocks' rows once a
call: with W totals at once and B blocks a call takes m W/√B operations, a draw 2 W √B more, and memory is 256 MB of rows,
30 W √B bytes of tree and the change sets themselves.

Rounding only adds privacy. The branches' probabilities are taken from the computed rows themselves, so along a change set their
product telescopes: it exceeds the ball's true probability by at most ``ROUNDINGS``·m·2^-53 plus 2^-62 a step and the tree's
own error, relatively, for the numbers drawn have 2^-64 steps and the rarer branch is rounded down. That much, plus the mass
dropped at the rows' edges and the error of the ball's own mass, is taken off the ball's share and given to the uniform
answer (:mod:`excess`): 1e-11 of it at a hundred attributes, 1e-8 at 20,000, 1e-7 at a million. Accuracies are labelled for
:func:`most_gain`, and a ball that would need more is refused.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import expit

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.errors import InvalidInput
from optrr_solvers.laws.base import BoolArray
from optrr_solvers.laws.excess import ExcessTable, uniform_changes
from optrr_solvers.laws.tilting import saddle_point
from optrr_solvers.laws.totals import (
    PICK_ERROR,
    ROUNDINGS,
    Steps,
    TotalsRow,
    TotalTree,
    blocks_for,
    first_row,
    pick_alike,
    rows,
)
from optrr_solvers.laws.weighted_ball import WeightedBall
from optrr_solvers.randomness import BitSource, Words

# Bytes of one block's rows.
_MEMORY = 1 << 28
_WORD = 2.0**64
# A row's edges lie within so many standard deviations: 1e-30.
_EDGES = 11.5
# Totals this many natural units below the profile's first knot hold a share of e^-80 of the ball.
_BELOW = 80.0
# How much the uniform answer may gain by rounding at 100 attributes: five times what it does or more, at any number of them.
_GAIN = 2.0**-30


def most_gain(m: int) -> float:
    """Bound how much more often the answer is uniform than intended.

    For m attributes.
    """
    return _GAIN * math.pow(m / 100, 0.75)


class BallTable:
    """Forward program of one ball.

    ``log_mass`` is ln E_μ[t] and ``error`` bounds its error.
    """

    def __init__(self, ball: WeightedBall, sizes: IntArray, class_of: IntArray) -> None:
        odds = np.log(sizes - 1.0)
        weights = ball.weights[class_of]
        middle = max((float(ball.knots[0]) + float(ball.knots[-1])) / 2, 0.5)
        self._theta = theta = saddle_point(odds, np.ones(odds.size), weights, middle)
        self._steps = Steps.of(ball.floors[class_of], ball.fractions[class_of], odds, theta)
        self._end = ball.end
        p = expit(odds - theta * weights)
        spread = math.sqrt(float(np.sum(p * (1 - p) * weights**2)))
        count = blocks_for(odds.size, min(float(self._end), 2 * _EDGES * spread), _MEMORY)
        # the lightest attributes are dealt out first, so that the blocks are alike and the rows of each grow slowly
        order = np.argsort(weights, kind="stable")
        self._blocks = [order[b::count] for b in range(count)]
        self._whole = list(self._rows(self._blocks[0])) if count == 1 else None
        self._tree = TotalTree(
            [self._whole[-1] if self._whole else deque(self._rows(b), maxlen=1)[0] for b in self._blocks], self._end
        )
        self._finish(ball, sizes)

    def _rows(self, block: IntArray) -> Iterator[TotalsRow]:
        """Iterate over the rows before each attribute of the block and after the last."""
        yield first_row()
        yield from rows(self._steps.of_these(block), self._end, first_row(), 0, block.size)

    def _finish(self, ball: WeightedBall, sizes: IntArray) -> None:
        low = math.floor(float(ball.knots[0]) - _BELOW / self._theta)
        row = self._tree.last_row(low)
        totals = row.start + np.arange(row.values.size)
        # e^{−θ(end − x)} undoes the tilt
        self._totals, self._final = (
            totals,
            row.values * np.exp(-self._theta * (self._end - totals)) * ball.profile(totals),
        )
        mass = float(self._final.sum())
        if not mass > 0:
            raise ValueError("the ball is empty; enlarge its radius")
        kept = self._steps.kept
        log_sizes = np.log(sizes.astype(np.float64))
        # Π 1/(r_i k_i) is what the row weights leave out
        base = -math.fsum(log_sizes) - math.fsum(np.log(kept)) + self._theta * self._end
        self.log_mass = base + math.log(mass)
        m, magnitude = len(self._steps), float(log_sizes.sum()) + self._theta * self._end
        shape = float(np.sum(4 + np.abs(np.log(sizes - 1.0)) + np.abs(np.log(kept))))
        dropped = row.lost + math.exp(-self._theta * (self._end - low)) + 1e-280
        self.error = (
            PICK_ERROR
            + self._tree.error
            + ROUNDINGS * m * 2.0**-52
            + m * 2.0**-62
            + 2.0**-50 * (magnitude + shape)
            + 2 * dropped / mass
        )

    def draw(self, n: int, source: BitSource) -> BoolArray:
        """Draw ``n`` flip patterns of the ball, shape (n, m).

        One pass over the blocks' rows, and O(n m).
        """
        out = np.empty((n, len(self._steps)), dtype=np.bool_)
        totals = self._tree.split(self._totals[pick_alike(self._final, n, source)], source)
        for k, block in enumerate(self._blocks):
            table = self._whole or list(self._rows(block))
            for i, before in zip(block[::-1].tolist(), table[-2::-1], strict=True):
                out[:, i], totals[k] = self._undo(i, before, totals[k], source.words(n))
        return out

    def _undo(self, i: int, before: TotalsRow, state: IntArray, words: Words) -> tuple[BoolArray, IntArray]:
        """Draw whether attribute i changed, and the total before it."""
        steps = self._steps
        a = int(steps.floors[i])
        kept = before.at(state) * steps.kept[i]
        low = before.at(state - a) * steps.low[i]
        high = before.at(state - a - 1) * steps.high[i] if steps.high[i] > 0 else np.zeros_like(low)
        changed, moved = _branch(words, np.stack([kept, low, high]), a)
        return changed, state - moved


def _branch(words: Words, parts: FloatArray, a: int) -> tuple[BoolArray, IntArray]:
    """Split [0, 2^64) among "kept", "changed by a" and "changed by a + 1".

    The largest gets the remainder of rounding.

    ``parts`` has shape (3, n); returns whether the attribute changed, and by how much the total grew.
    """
    with np.errstate(invalid="ignore"):
        share = parts / parts.sum(axis=0)
    largest = np.argmax(parts, axis=0)
    share[largest, np.arange(words.size)] = 0.0
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
        if not self._choice.gain <= most_gain(sizes.size):
            raise InvalidInput(
                f"a ball of {sizes.size} attributes is too far from a uniform answer for the sampler's numbers: up to "
                f"{self._choice.gain:.3g} of all answers would be uniform instead; ask for smaller or more equal epsilons"
            )

    def _table(self, k: int) -> BallTable:
        """Build the table of one ball and cache the last one; each may be large."""
        if k not in self._tables:
            self._tables.clear()
            self._tables[k] = BallTable(self._balls[k], self._sizes, self._class_of)
        return self._tables[k]

    def draw(self, n: int, source: BitSource) -> BoolArray:
        """Draw ``n`` flip patterns, shape (n, m)."""
        cells = self._choice.draw(n, source)
        out = np.empty((n, self._sizes.size), dtype=np.bool_)
        for k in range(len(self._balls)):
            who = np.flatnonzero(cells == k)
            if who.size:
                out[who] = self._table(k).draw(who.size, source)
        who = np.flatnonzero(cells < 0)
        out[who] = uniform_changes(who.size, self._sizes, source)
        return out
