"""How much time and memory the checks of a design file may take, known from the file's sizes before any of it is done.

What follows is rough and errs upwards, because it takes no advantage of what the sums leave out; the constants were measured on
a computer of 2020. It decides what is checked at once: whatever may take longer is checked in a process of its own, under
limits (:mod:`optrr.designs.apart`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optrr.errors import InvalidInput
from optrr.releases.sealed import Content, Given, path_of
from optrr_solvers import BallLaw, Certificate, CountLaw, Law, Solution, TableLaw
from optrr_solvers.automaton.diagram import MOST_LAYERS, MOST_STATES
from optrr_solvers.certificates.certificate import EXACT_CELLS, cell_count
from optrr_solvers.certificates.grid_bound import MAX_WINDOW
from optrr_solvers.laws.ball_sums import MAX_COUNTED
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.count import MAX_CELLS
from optrr_solvers.laws.spectrum import MAX_NODES
from optrr_solvers.laws.weighted_ball import WeightedBall

__all__ = ["MOST_MEMORY", "MOST_SECONDS", "Work", "is_heavy", "refuse_large", "work"]

# Checks that are done at once take no more by these estimates, which came out at two to twenty times what was measured.
MOST_SECONDS = 8.0
MOST_MEMORY = 7 << 27
# Reading a file takes some ten times its size in memory; the design of 250,000 attributes has as many bytes.
MOST_BYTES = 1 << 26
# Seconds for one state of an automaton: in words of 64 bits, and more where a threshold has many.
_STATE, _STATE_WORD = 1e-6, 5e-8
# Words of a threshold at most: one more is refused before it is used.
MOST_WORDS = 96
# Bytes that may be passed over to count the totals that balls reach: a third of a second.
_COUNTING = float(1 << 30)
# Seconds for one ball, however small: for each of its layers, and for its sums.
_LAYER, _BALL = 2e-4, 3e-3
# Nats that one more word of a threshold resolves.
_WORD_NATS = 44.0
# Seconds and bytes for one frequency of one class: exponentials of complex numbers, a dozen vectors of them at once.
_FREQUENCY, _FREQUENCY_BYTES, _CLASSES_AT_ONCE = 1.3e-6, 200, 32
# Seconds for one step of arithmetic on an array of doubles, and on one of Python's integers.
_STEP, _INTEGER_STEP = 1e-8, 1e-6
# Bytes of one of Python's integers in an array.
_INTEGER_BYTES = 100
# Seconds for the marginal of one pair where a law has no table of them.
_MARGINAL = 1e-4


@dataclass(frozen=True)
class Work:
    """Seconds, and bytes held at once; sums of both."""

    seconds: float
    memory: float

    def __add__(self, other: Work) -> Work:
        return Work(self.seconds + other.seconds, self.memory + other.memory)


def refuse_large(path: Given, what: str = "design file") -> None:
    """Raise InvalidInput where a file has more than ``MOST_BYTES``; one that is missing is left to its reader."""
    at = path_of(path)
    size = len(path.raw) if isinstance(path, Content) else at.stat().st_size if at.is_file() else 0
    if size > MOST_BYTES:
        raise InvalidInput(
            f"{what} {path} has {size} bytes, more than {MOST_BYTES} bytes; where you trust who wrote it, use "
            "--no-limit (limited=False)"
        )


def is_heavy(*solutions: Solution) -> bool:
    """Whether the checks of designs in one file may take more than ``MOST_SECONDS`` or ``MOST_MEMORY``, by these estimates."""
    needed = sum(map(work, solutions), Work(0.0, 0.0))
    return needed.seconds > MOST_SECONDS or needed.memory > MOST_MEMORY


def work(solution: Solution) -> Work:
    """An upper estimate for all checks of a design."""
    law, problem = solution.law, solution.problem
    out = _of_law(law) + _of_certificate(solution.certificate)
    if not problem.pairs or isinstance(law, TableLaw):
        return out
    # eigenvalues of all pairs, which are computed where some are to be preserved
    if isinstance(law, BallLaw):
        nodes = sum(min(_nodes(law, x.ball), MAX_NODES) for x in law.balls)
        seconds = _STEP * len(law.classes) ** 2 * nodes
    elif isinstance(law, CountLaw):
        seconds = len(law.classes) ** 2 / 2 * (_MARGINAL + _STEP * law.log_density.size)
    else:
        seconds = problem.m**2 / 2 * _MARGINAL
    return out + Work(seconds, 32.0 * problem.m**2)


def _of_law(law: Law) -> Work:
    if isinstance(law, BlockLaw):
        return sum((_of_law(inner) for _, inner in law.blocks), Work(0.0, 0.0))
    nats = float(np.ptp(law.log_density_range()))
    if isinstance(law, BallLaw):
        balls = [_of_sums(law, x.ball) for x in law.balls]
        # the sums of one ball are done when those of the next begin
        return Work(sum(x.seconds for x in balls), max(x.memory for x in balls)) + _of_ball_states(law, nats)
    if isinstance(law, (CountLaw, TableLaw)):
        cells = law.log_density.size
        states = min(cells * (law.m if isinstance(law, CountLaw) else 2), MOST_STATES)
        sums = Work(_STEP * cells * law.log_density.ndim**2, 64.0 * cells)
        # accuracies in rationals, where the cells are few enough for them
        words = (nats + float(np.log(law.sizes).sum())) / _WORD_NATS
        steps = cells * (law.log_density.ndim + 4) if cells <= EXACT_CELLS else 0
        rationals = Work(steps * (_INTEGER_STEP + _STATE_WORD * words), cells * 16 * words if steps else 0.0)
        return _of_states(states, nats) + sums + rationals
    # a law of more attributes than layers has no automaton
    return _of_states(min(4 * law.m, MOST_STATES) if law.m <= MOST_LAYERS else 0, nats)


def _of_states(states: float, nats: float) -> Work:
    words = 2 + min(nats / _WORD_NATS, MOST_WORDS)
    return Work(states * (_STATE + _STATE_WORD * words**2), states * (60 + 24 * words))


def _of_sums(law: BallLaw, ball: WeightedBall) -> Work:
    groups = len(law.classes)
    cells = math.prod(int(n) + 1 for n in law.counts) if groups <= math.log2(MAX_COUNTED) else math.inf
    if cells <= MAX_COUNTED and not ball.fractions.any():
        sums = Work(_STEP * cells * (groups + 8) * 2, 64.0 * cells)
    else:
        nodes = min(_nodes(law, ball), MAX_NODES)
        sums = Work(
            _FREQUENCY * nodes * (4 + groups / 2), _FREQUENCY_BYTES * nodes * (1 + min(groups, _CLASSES_AT_ONCE) / 2)
        )
    return sums + Work(_BALL + _LAYER * min(law.m, MOST_LAYERS), 0.0)


def _of_ball_states(law: BallLaw, nats: float) -> Work:
    """The totals of one ball after another, until they are too many for an automaton, and the automaton of all."""
    if law.m > MOST_LAYERS:
        return Work(0.0, 0.0)
    reached, kept, budget = 0.0, 0.0, _COUNTING
    for x in law.balls:
        exact, spent = _counted_states(law, x.ball, budget) if budget > 0 else (None, 0.0)
        budget -= spent
        if exact is None:
            # at most two or three times those before every attribute, and no more than fit up to the end
            reach = np.sort((x.ball.floors + (x.ball.fractions > 0))[law.class_of].astype(np.float64))[::-1]
            widths = np.minimum(np.cumsum(reach), max(x.ball.end, 0)) + 1
            branches = (3.0 if x.ball.fractions.any() else 2.0) ** np.minimum(np.arange(1, law.m + 1), 64.0)
            states = float(min(np.minimum(widths, branches).sum(), MOST_STATES))
        else:
            states = float(exact)
        reached += states
        kept += states
        if exact is not None and exact > MOST_STATES:
            # this ball alone has too many, so that no automaton is built
            return Work(_STATE * reached, 60 * min(reached, MOST_STATES))
    return Work(_STATE * reached, 0.0) + _of_states(min(kept, MOST_STATES), nats)


def _counted_states(law: BallLaw, ball: WeightedBall, budget: float) -> tuple[int | None, float]:
    """How many totals are reached before all attributes, with one bit a total, and the bytes that took.

    None where it would take more than ``budget`` bytes; a number above ``MOST_STATES`` where there are more than those.
    """
    floors, rounded = ball.floors[law.class_of], ball.fractions[law.class_of] > 0
    if law.m * max(ball.end, 1) / 2 > budget:
        return None, 0.0
    order = np.argsort(-law.balls[0].ball.weights[law.class_of], kind="stable")
    reach = (floors + rounded)[order]
    lowest = (int(ball.knots[0]) - np.append(np.cumsum(reach[::-1])[::-1], 0)).tolist()
    end, bits, count, spent = max(ball.end, 0), 1, 1, 0.0
    for k, i in enumerate(order.tolist(), 1):
        step = min(int(floors[i]), end)
        bits |= (bits << step) | ((bits << (step + 1)) if rounded[i] else 0)
        if bits >> end:
            bits = bits & ((1 << end) - 1) | (1 << end)
        low = min(lowest[k], end)
        if low > 0 and bits & ((1 << low) - 1):
            bits = ((bits >> low) | 1) << low
        count += bits.bit_count()
        spent += bits.bit_length() / 2
        if count > MOST_STATES:
            break
    return count, spent


def _nodes(law: BallLaw, ball: WeightedBall) -> float:
    """At least as many frequencies as the ball's transform has."""
    reach = float(law.counts @ (ball.floors + 1.0))
    return 1.1 * (min(reach, 4.0 * MAX_NODES) + 2 * float(ball.knots[-1] - min(int(ball.knots[0]), 0)) + 64)


def _of_certificate(certificate: Certificate | None) -> Work:
    if certificate is None:
        return Work(0.0, 0.0)
    cells, m = cell_count(certificate), sum(len(c) for c in certificate.classes)
    if certificate.effects:
        # a table of more totals is refused before it is made
        rows, columns = (
            sum(abs(v) * len(c) for c, v in zip(certificate.classes, values, strict=False)) + 1
            for values in (certificate.weights, certificate.effects)
        )
        table = min(rows * columns, MAX_NODES)
        return Work(_STEP * m * table, 24.0 * table)
    if cells > MAX_CELLS and not certificate.pairs and not certificate.caps:
        heaviest = sum(abs(w) * len(c) for c, w in zip(certificate.classes, certificate.weights, strict=False))
        # a row beyond the largest window is refused before it is made
        window = min(heaviest, MAX_WINDOW)
        return Work(_STEP * m * window, 32.0 * window)
    cells = min(cells, MAX_CELLS)
    rows = len(certificate.classes) + len(certificate.pairs) + 4
    whole = cells if cells <= EXACT_CELLS or certificate.caps else 0
    return Work(rows * (_STEP * cells + _INTEGER_STEP * whole), 64.0 * cells + 4.0 * _INTEGER_BYTES * whole)
