"""Keeping pairs visible with a ball design: a linear program over radii of one weighted ball (design §3.6).

The weights are those of the problem without pairs. With G_j the soft ball of radius R_j, the profile t = Σ s_j G_j is free,
rising and falling (shells), and a scale y = 1/(Q−1) is maximised:

    Σ_j s_j E_μ[G_j (f_i − 1_i)]              ≥ (d_i − f_i) y          accuracy at least as requested
    Σ_j s_j E_μ[G_j (χ_ij − κ λ_i λ_j)]       ≥ κ λ_i λ_j y            each pair to be kept
    0 ≤ Σ_j s_j G_j(x) ≤ 1                    at every total x of a grid

The answer is an upper bound: its profile is clipped to [0, 1] on the law's own grid and y is recomputed from the law. The bound
of the problem without pairs holds with them too and is the lower bound, so the gap contains what the pairs cost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from optrr_solvers.balls.moments import Classes
from optrr_solvers.errors import MethodTooLarge, SolveFailed
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.weighted_ball import WeightedBall, soft
from optrr_solvers.problem import FloatArray, IntArray, Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.solution import PAIR_TOLERANCE, Solution, checked

METHOD = "ball"
LATE = "time limit reached: the best bracket so far"
# Radii on either side of the ball's, and how far they reach in units of the total's spread.
_RADII, _REACH = 32, 3.0
# A profile on a finer grid than this is linear in between.
_MOST_KNOTS = 1 << 17
# Takes rounding, so that no requirement falls short.
_MARGIN = 2.0**-40
# Pair tables are (classes, classes).
MAX_CLASSES = 1024


@dataclass(frozen=True, eq=False)
class _Column:
    """One ball: its mass, and each row's E[G (…)] relative to the mass: accuracies (G,), then pairs (P,)."""

    log_mass: float
    rows: FloatArray


@dataclass(frozen=True, eq=False)
class _Requirements:
    """What every column must answer: pairs of classes and their κλλ."""

    classes: Classes
    first: IntArray
    second: IntArray
    kept: FloatArray

    @classmethod
    def of(cls, problem: Problem, classes: Classes) -> _Requirements:
        where = np.empty(problem.m, dtype=np.int64)
        for g, members in enumerate(classes.members):
            where[members] = g
        pairs = np.unique(np.sort(where[np.asarray(problem.pairs)], axis=1), axis=0)
        lam = classes.gaps / classes.d
        return cls(classes, pairs[:, 0], pairs[:, 1], problem.kappa * lam[pairs[:, 0]] * lam[pairs[:, 1]])

    @property
    def needs(self) -> FloatArray:
        """Coefficients of y: d−f, then κλλ."""
        return np.concatenate([self.classes.gaps, self.kept])

    def column(self, ball: WeightedBall) -> _Column:
        """Exact, from the law of the ball alone."""
        law = BallLaw(self.classes.problem.sizes, self.classes.members, [MixedBall(1.0, ball)], 0.0)
        part = law.inside[0]
        chi = 1 / self.classes.d
        kept = 1 - chi * part.changed
        both = part.both_changed()[self.first, self.second]
        pairs = kept[self.first] + kept[self.second] - 1 + chi[self.first] * chi[self.second] * both
        return _Column(part.log_mass, np.concatenate([self.classes.f - part.changed, pairs - self.kept]))


def require_few_classes(classes: Classes) -> None:
    """Raise MethodTooLarge where the table of all pairs of classes would not fit."""
    if classes.counts.size > MAX_CLASSES:
        raise MethodTooLarge(
            f"method 'ball' keeps pairs among at most {MAX_CLASSES} different attributes, got {classes.counts.size}; "
            "give attributes the same size and epsilon, or design the ones whose pairs matter apart from the others"
        )


@dataclass
class Watch:
    """When to stop trying radii, and whom to tell how far the work has come; ``late`` once it was stopped."""

    deadline: float
    lower: float
    report: Callable[[float, float, float], None] | None
    late: bool = False

    def goes_on(self, done: float) -> bool:
        """Whether there is time for more; reports ``done``, the share of this half of the work."""
        if self.report is not None:
            self.report(0.5 + 0.5 * done, math.inf, self.lower)
        self.late = self.late or time.perf_counter() > self.deadline
        return not self.late


def with_pairs(problem: Problem, base: Solution, started: float, tolerance: float, watch: Watch) -> Solution:
    """A ball design that keeps the named pairs, from ``base``: the solution of the same problem without them.

    Radii are tried from the ball's own outwards, and those tried when time is up make the profile. Raises MethodTooLarge
    where no profile over these weights keeps the pairs, or the classes are too many; SolveFailed where the time was too
    short to find one.
    """
    classes = Classes.of(replace(problem, pairs=()))
    require_few_classes(classes)
    assert isinstance(base.law, BallLaw)
    wanted = _Requirements.of(problem, classes)
    law = _best(wanted, base.law, watch)
    overshoot = float(np.max(law.attribute_epsilons() - problem.epsilons))
    notes: tuple[str, ...] = (
        "the lower bound is that of the problem without pairs; the gap contains what keeping them costs",
    )
    if watch.late or LATE in base.notes:
        notes = (LATE, *notes)
    solution = checked(
        problem, METHOD, law, base.certificate,
        started=started, tolerance=tolerance, bracketed=True, statistics={"overshoot": overshoot}, notes=notes,
    )  # fmt: skip
    if watch.report is not None:
        watch.report(1.0, solution.upper, solution.lower)
    return solution


def _best(wanted: _Requirements, law: BallLaw, watch: Watch) -> BallLaw:
    ball = law.balls[0].ball
    candidates = [ball, *_profiles(wanted, law, ball, watch)]
    found = [(_scale(wanted, x), x) for x in candidates]
    log_y, best = max(found, key=lambda pair: pair[0])
    if not math.isfinite(log_y) and watch.late:
        raise SolveFailed("ball: no radii that keep these pairs within the time limit; raise it or name fewer pairs")
    if not math.isfinite(log_y):
        raise MethodTooLarge(
            "method 'ball' finds no radii that keep these pairs; name fewer, lower kappa, or use 'reduced'"
        )
    log_ratio = float(np.logaddexp(0.0, -log_y)) * (1 + 2.0**-50) + _MARGIN
    return BallLaw(law.sizes, law.classes, [MixedBall(1.0, best)], log_ratio)


def _scale(wanted: _Requirements, ball: WeightedBall) -> float:
    """ln y: the largest scale at which the ball alone meets every requirement, −∞ where it meets none."""
    column = wanted.column(ball)
    low = float(np.min(column.rows / wanted.needs)) * (1 - PAIR_TOLERANCE * 1e-3)
    return column.log_mass + math.log(low) if low > 0 else -math.inf


def _profiles(wanted: _Requirements, law: BallLaw, ball: WeightedBall, watch: Watch) -> list[WeightedBall]:
    """The linear program's profile, clipped to [0, 1]; none where there is no time for a single radius."""
    middle = (float(ball.knots[0]) + float(ball.knots[-1])) / 2
    p = law.inside[0].changed
    spread = math.sqrt(float(law.counts @ (p * (1 - p) * ball.weights**2)))
    low, high = max(1.0, middle - _REACH * spread), middle + _REACH * spread
    radii = np.unique(np.concatenate([np.linspace(low, middle, _RADII), np.linspace(middle, high, _RADII)]))
    width = max((high - low) / (4 * _RADII), 3.0)
    balls: list[WeightedBall] = []
    columns: list[_Column] = []
    for r in radii[np.argsort(np.abs(radii - middle), kind="stable")]:
        if not watch.goes_on(len(balls) / radii.size):
            break
        balls.append(soft(ball.floors, ball.fractions, float(r), width))
        columns.append(wanted.column(balls[-1]))
    if not balls:
        return []
    shares = _shares(wanted, balls, columns, radii)
    end = max(x.end for x in balls)
    knots = (
        np.arange(0, end + 1)
        if end < _MOST_KNOTS
        else np.unique(np.round(np.linspace(0, end, _MOST_KNOTS)).astype(np.int64))
    )
    levels = sum((s * x.profile(knots) for s, x in zip(shares, balls, strict=True)), np.zeros(knots.size))
    levels = np.clip(levels, 0.0, 1.0)
    levels[-1] = 0.0
    return [WeightedBall(ball.floors, ball.fractions, knots, levels)]


def _shares(wanted: _Requirements, balls: list[WeightedBall], columns: list[_Column], radii: FloatArray) -> FloatArray:
    top = max(c.log_mass for c in columns)
    answers = np.stack([c.rows * math.exp(c.log_mass - top) for c in columns], axis=1)
    scale = np.abs(answers).max(axis=1)
    totals = np.unique(np.round(np.concatenate([[0.0], radii, (radii[1:] + radii[:-1]) / 2])).astype(np.int64))
    levels = np.stack([x.profile(totals) for x in balls], axis=1)
    # y in units that make its largest coefficient of order one
    unit = float(np.max(wanted.needs / scale))
    rows = np.block(
        [[answers / scale[:, None], -(wanted.needs / scale / unit)[:, None]], [levels, np.zeros((totals.size, 1))]]
    )
    m, n = answers.shape
    program = LinearProgram(
        cost=np.append(np.zeros(n), -1.0),
        matrix=sp.csc_array(rows),
        row_lower=np.zeros(m + totals.size),
        row_upper=np.append(np.full(m, np.inf), np.ones(totals.size)),
        lower=np.append(np.full(n, -1.0), 0.0),
        upper=np.append(np.ones(n), np.inf),
    )
    return backend.solve(program, method=METHOD).values[:-1]
