"""Calibration: the accuracies, in given proportions, that consume a given total ε (POR's "fixed ratio"; theory §3.7).

The smallest total grows with every ε_i, so along a ray ε_i = s · ratio_i one scale consumes the total: the largest
whose total, rounded up, stays within it. It is found by a secant on ln s, kept inside a bracket. A solver that fails at
a scale counts as "too much" there. POR's heuristic is not monotone in s: then the whole range is scanned first
(``scan``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.errors import Infeasible, SolveFailed
from optrr_solvers.problem import EPSILON_RANGE
from optrr_solvers.solution import Solution

# A total is met to this, relative, and never exceeded: accuracies then miss their best by about as much.
TOLERANCE = 1e-6
# First step of the search for a bracket, in ln s; it doubles.
_STEP = 0.25
# Two scales this close, relatively, count as one. Where the total jumps between them, no scale comes closer to it.
_SAME_SCALE = 1e-10
# Scales stay inside their range by this much, so that rounding carries no ε_i out of it.
_INSIDE = 1e-12
# Solves after which the best so far is the answer; a smooth total takes about ten, a scan the number below and some
# more.
_MOST_SOLVES = 256
# Number of scanned scales if the total is not monotone: steps of about 15 % over the whole range.
_SCANNED = 128

SolveAt = Callable[[float], Solution]


@dataclass(frozen=True, eq=False)
class ScaledSolution:
    """The solution of largest scale found whose total fits, and that scale."""

    solution: Solution
    scale: float


def scale_range(ratios: FloatArray) -> tuple[float, float]:
    """Compute the scales at which every s · ratio_i is a solvable ε.

    Empty if the first exceeds the second.
    """
    low, high = EPSILON_RANGE
    return low / float(np.min(ratios)) * (1 + _INSIDE), high / float(np.max(ratios)) * (1 - _INSIDE)


def calibrate(  # noqa: PLR0913 (how far, from where, how closely, and how well behaved)
    solve_at: SolveAt,
    total: float,
    scales: tuple[float, float],
    *,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
    scan: bool = False,
) -> ScaledSolution:
    """Find the largest scale in ``scales`` with total ε at most ``total`` nats.

    Its total is within ``tolerance`` (relative) below ``total``, unless the last scale fits as a whole or the total
    jumps. Cost: about ten calls of ``solve_at``.

    Raises
    ------
    Infeasible
        where even the smallest scale needs more.
    SolveFailed, Infeasible
        If no scale could be solved, or none meets the other requirements.
    """
    search = _Bracket(solve_at, total, tolerance)
    ends = math.log(scales[0]), math.log(scales[1])
    if scan:
        search.scanned(ends)
    else:
        start = math.log(guess) if guess else sum(ends) / 2
        search.bracket(min(max(start, ends[0]), ends[1]), ends)
    while search.open:
        search.step()
    return search.answer()


class _Bracket:
    """Largest scale that fits, smallest that does not, and their distances.

    From the total.
    """

    def __init__(self, solve_at: SolveAt, total: float, tolerance: float) -> None:
        self.solve_at, self.total, self.tolerance = solve_at, total, tolerance
        self.low, self.high = -math.inf, math.inf
        self.below, self.above = -math.inf, math.inf
        self.best: Solution | None = None
        self.failure: SolveFailed | Infeasible | None = None
        self.least = math.inf
        self.solves = 0

    def fits(self, log_scale: float) -> bool:
        """Solve at this scale and keep the result; whether its total fits."""
        self.solves += 1
        try:
            solution = self.solve_at(math.exp(log_scale))
        except (SolveFailed, Infeasible) as failed:
            # smaller accuracies may be within a cap, or keep pairs, where larger ones cannot
            self.failure, upper = failed, math.inf
        else:
            upper = solution.upper
            self.least = min(self.least, upper)
        if upper <= self.total:
            if log_scale > self.low:
                self.low, self.below, self.best = log_scale, upper - self.total, solution
            return True
        if log_scale < self.high:
            self.high, self.above = log_scale, upper - self.total
        return False

    def bracket(self, start: float, ends: tuple[float, float]) -> None:
        """Search outwards from a guess until one scale fits and one does not."""
        direction = 1 if self.fits(start) else -1
        at, step = start, _STEP
        while not (math.isfinite(self.low) and math.isfinite(self.high)):
            if at == ends[direction == 1]:
                return
            at = min(max(at + direction * step, ends[0]), ends[1])
            step *= 2
            self.fits(at)

    def scanned(self, ends: tuple[float, float]) -> None:
        """Find the largest of many scales that fits, and the next above it."""
        tried = np.linspace(*ends, _SCANNED).tolist()
        fit = [at for at in tried if self.fits(at)]
        above = [at for at in tried if not fit or at > fit[-1]]
        self.high = above[0] if above else math.inf
        # what lies at the scale above is not known to belong to the same branch: halve towards it
        self.above = math.inf

    @property
    def open(self) -> bool:
        """Whether a closer scale may be found."""
        return (
            math.isfinite(self.low)
            and math.isfinite(self.high)
            and -self.below > self.tolerance * self.total
            and self.high - self.low > _SAME_SCALE
            and self.solves < _MOST_SOLVES
        )

    def step(self) -> None:
        """Try one scale inside the bracket, by the secant method or bisection.

        The secant aims slightly below the total.
        """
        middle = (self.low + self.high) / 2
        at = middle
        # every third step halves the bracket, so that a kink cannot stall the secant
        if math.isfinite(self.above) and self.solves % 3:
            goal = -self.tolerance * self.total / 2
            secant = self.low + (goal - self.below) * (self.high - self.low) / (self.above - self.below)
            at = secant if self.low < secant < self.high else middle
        self.fits(at)

    def answer(self) -> ScaledSolution:
        """Return the solution of the largest scale that fits; raise if none does."""
        if self.best is not None:
            return ScaledSolution(self.best, math.exp(self.low))
        if self.failure is not None and math.isinf(self.least):
            raise self.failure
        raise Infeasible(
            f"a total epsilon of {self.total:g} is too small: the lowest supported accuracies need {self.least:.6g}; "
            "raise the total, or use fewer attributes"
        )
