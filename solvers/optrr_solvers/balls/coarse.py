"""Balls on coarse grids: fewer totals, so that their automaton is small, for a somewhat larger total ε (design §3.5, §7).

A weight that is rounded at random to the next lower or higher multiple of the unit leaves a mixture of balls: Q stays an
exact bound and every accuracy is met by construction, whatever the unit. What a coarse unit costs is ε, in second order
of unit and width. The automaton has about Σ_i min(total so far, radius)/unit states.
"""

import math

import numpy as np

from optrr_solvers.balls.heavy import Pool
from optrr_solvers.balls.moments import Classes, SpectralMoments, TooSharp
from optrr_solvers.balls.newton import Allowance, OutOfTime, Point, minimise, rescaled
from optrr_solvers.balls.rounding import fitted
from optrr_solvers.laws.ball import BallLaw
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.problem import Problem

# Flips below which attributes are pooled, in the order tried (as in the ball solver).
_HEAVY_FLIPS = (1e-4, 0.0)
# Classes times frequencies of one search, and of one evaluation in it: a second or two.
_WORK = 1 << 23


class CoarseBalls:
    """Balls for one problem without pairs and caps, on any grid; the smooth balls that they start from are kept."""

    def __init__(self, problem: Problem) -> None:
        whole = Classes.of(problem)
        pools = [Pool.of(whole, flip) for flip in _HEAVY_FLIPS]
        # where no attribute is heavy both are the same
        self._pools = pools if pools[0].heavy.size else pools[1:]
        self._points: dict[float, list[tuple[Pool, Point]]] = {}

    @property
    def states(self) -> float:
        """Roughly the states of the automaton on a grid of one nat: half the radius for every attribute."""
        classes = self._pools[-1].classes
        return float(classes.radius(classes.epsilons)) * float(classes.counts.sum()) / 2

    def law(self, unit: float, width: float) -> BallLaw | None:
        """The ball with weights in multiples of ``unit`` and a radius of that standard deviation, in nats.

        Every accuracy of the problem is met. None where the grid is too coarse for them.
        """
        laws = [self._fitted(pool, point, unit) for pool, point in self._smooth(width)]
        return min((law for law in laws if law is not None), key=lambda law: law.log_ratio, default=None)

    def _fitted(self, pool: Pool, point: Point, unit: float) -> BallLaw | None:
        if not unit < pool.classes.radius(point.w):
            return None
        try:
            with np.errstate(all="ignore"):
                fit = fitted(pool, point, unit, math.inf, whole=False)
        except (ValueError, ZeroDivisionError):
            # on a grid far too coarse a step may end at weights below 0, or at a ball that holds nothing
            return None
        return None if fit is None else fit.law

    def _smooth(self, width: float) -> list[tuple[Pool, Point]]:
        if width not in self._points:
            made = []
            for pool in self._pools:
                start = rescaled(pool.classes, pool.classes.epsilons.copy())
                try:
                    source = SpectralMoments(pool.classes, _WORK)
                    point = minimise(pool.classes, source, start, width, Allowance(math.inf, float(_WORK)))
                except (TooSharp, OutOfTime):
                    continue
                made.append((pool, point))
            self._points[width] = made
        return self._points[width]


class CoarseBlocks:
    """Independent balls for ``count`` blocks of attributes: fewer states than one ball, each block paying for itself.

    Attributes of like ε_i share a block, which costs less than mixing them.
    """

    def __init__(self, problem: Problem, count: int) -> None:
        order = np.argsort(problem.epsilons, kind="stable")
        self._members = [np.sort(part) for part in np.array_split(order, count)]
        self._balls = [CoarseBalls(Problem(problem.sizes[part], problem.epsilons[part])) for part in self._members]

    @property
    def states(self) -> float:
        """Roughly the states of the automaton on a grid of one nat."""
        return sum(balls.states for balls in self._balls)

    def law(self, unit: float, width: float) -> Law | None:
        """One ball after another on one grid; the ball itself for a single block. None where the grid is too coarse."""
        laws = []
        for balls in self._balls:
            law = balls.law(unit, width)
            if law is None:
                return None
            laws.append(law)
        if len(laws) == 1:
            return laws[0]
        return BlockLaw([(part.tolist(), law) for part, law in zip(self._members, laws, strict=True)])
