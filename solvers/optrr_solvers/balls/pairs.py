"""Keeping pairs visible with balls: a bracket from both sides (theory §3.6).

Upper side: one ball by smooth ascent and the best mixture of it with others (:mod:`pair_balls`), or Kronecker's product where
that is better. The mixture is found by column generation,

    maximise y   subject to   Σ_k p_k E_μ[t_k g] ≥ y · need(g)  for every row g,   Σ p_k ≤ 1,

whose multipliers price the next ball. Most pairs are slack, so rows enter the program once they are violated. The optimal set
{h > 0} of a dual function of rank one is bounded by a parabola, and the half-spaces that touch a parabola from outside unite to
just that set: mixtures of a few dozen balls come close to it.

Lower side: the bound with pair multipliers of rank one (:mod:`pair_bound`), certified over two totals
(:mod:`optrr_solvers.certificates.rank_one`), or the bound of the problem without pairs, which holds with them too. Each side
helps the other: the half-spaces that touch {h > 0} are good balls, and the ascended ball's multipliers are a good start for the
lower side.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes
from optrr_solvers.balls.pair_balls import Column, Prices, Requirements, Soft, best_ball, polish, require_few_classes
from optrr_solvers.balls.pair_bound import RankOnePoint, SampledDual, clique, rounded
from optrr_solvers.certificates.certificate import Certificate, lower_bound
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.laws.tilting import saddle_point
from optrr_solvers.laws.weighted_ball import TOTAL_LIMIT, GridTooFine, WeightedBall, soft
from optrr_solvers.problem import Problem
from optrr_solvers.programs import backend
from optrr_solvers.programs.backend import LinearProgram
from optrr_solvers.solution import Solution, checked

# At most this many rows enter the program at once, since no more can be tight than there are columns; and only those violated
# by more than this, relatively.
_ROWS_AT_ONCE, _VIOLATED = 80, 1e-9
# A row leaves the program where it is slack by more than this, relative to its need at the scale reached.
_IDLE = 0.5
# At most this many times rows are added before new columns are sought.
_ROW_ROUNDS = 60
# Shares below this are taken for rounding.
_LEAST_SHARE = 1e-10
# Grid units for each width of the radius, and the most totals that a ball may have.
_PER_WIDTH, _MOST_TOTALS = 4.0, 1 << 16
# A weight this many widths beyond the radius is as good as any heavier one.
_REACH = 10.0
__all__ = ["LATE", "Watch", "require_few_classes", "with_pairs"]
METHOD = "ball"
LATE = "time limit reached: the best bracket so far"
# Width of the radius in nats: half its square is what a soft radius costs of ln Q, relatively where that is small.
_WIDTH = 0.1
# The first columns are balls with these radii, in standard deviations of the total, and with this much weight shifted to
# small attributes, as pairs do it.
_RADII, _SHIFTS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0), (0.05, 0.2, 0.6)
# The first columns make up this share of the progress that is reported.
_FIRST_PART = 0.2
# How many rounds of columns there are, and how many quasi-Newton steps a pricing and an ascent take.
_ROUNDS, _PRICING_STEPS, _ASCENT_STEPS = 60, 16, 80
# With more classes than the first number a pricing takes fewer steps, because each costs time in the square of the classes;
# the second is the fewest.
_MANY_CLASSES, _LEAST_STEPS = 60, 4
# Half-spaces touch the set of the ascent at these shifts of ln(odds of change).
_ALONG = (-3.0, -1.5, -0.8, -0.4, 0.0, 0.4, 0.8, 1.5)
# While no mixture serves, half-spaces touch at these shares of the requested flips.
_FEWER = (0.0, 0.5, 0.8)
# Ascents start with all pair multipliers alike, at these levels.
_LEVELS = (0.3, 1.0)
# Where a parabola touches the ball, pairs make up this share of the ball's weights.
_PULL = 0.9
# A pull that is this share of the weights could not be scaled up to them in doubles.
_FAINT = 1e-200
# With more classes than the second number, an ascent on a large sample is slow. Then there is only one, no columns are made
# where the bracket is as narrow as the first number, and otherwise there are only as many rounds as the third number, until
# some mixture serves: with many classes, columns gain little.
_CLOSE = 0.008
_FEW_CLASSES, _FEW_ROUNDS = 20, 3
# The lower bound is raised by an ascent before these rounds.
_ASCENTS = (0, 4, 9, 16, 25, 40)
# Work stops where the bracket is this narrow relative to the total, or where this many rounds gained less than this share of
# it.
_NARROW, _STALE_ROUNDS, _STALE = 0.004, 6, 5e-4
# The program's multipliers jump from round to round. So some columns are priced at mixtures of them with the ascent's
# multipliers, which make up these shares.
_STEADINESS = (0.5, 0.8, 0.3)
# Quasi-Newton steps of one stage of smooth ascent: the most, the fewest, and the number that the steps times the rows come
# to.
_POLISH_STEPS, _LEAST_POLISH, _POLISH_WORK = 100, 20, 1e7
# The polished ball is also tried with its radius shifted by these many nats.
_NEARBY = (-1.0, -0.3, 0.3, 1.0)
# Margins for rounding, so that no requirement is missed: relative and absolute.
_MARGIN, _SLACK = 2.0**-40, 1e-10


@dataclass
class Generation:
    """State of the column generation.

    The columns, their real weights, the program's rows and solution, and the best mixture.

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
        """Solve the program over all columns; return its multipliers.

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
        """Solve with rows added until none is violated.

        Returns the weights of columns and the multipliers of all rows.
        """
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
        self.rows = set(chosen[(multipliers > 0) | (slack < _IDLE * abs(y))].tolist())
        return shares, every

    def alone(self, k: int) -> tuple[float, float]:
        """Compute ln y of one column alone, and its smallest relative row value.

        −∞ if it misses a row.
        """
        column = self.columns[k]
        return self.wanted.log_scale([column], np.ones(1)), float(np.min(column.rows / self.wanted.needs))

    def value(self, prices: Prices, column: Column) -> float:
        """Compute ln E_μ[t h] of a column, −∞ if not positive."""
        value = float(self.wanted.multipliers(prices) @ column.rows)
        return column.log_mass + math.log(value) if value > 0 else -math.inf

    def extend(self, prices: Prices, starts: list[Soft], steps: int) -> float:
        """Add the best ball from each start; return the gain over the best column.

        The gain is logarithmic.
        """
        before = max((self.value(prices, c) for c in self.columns), default=-math.inf)
        after = -math.inf
        for start in starts:
            if self.add(best_ball(self.wanted.classes, prices, start, steps)):
                after = max(after, self.value(prices, self.columns[-1]))
        if not math.isfinite(before):
            return math.inf if math.isfinite(after) else -math.inf
        return after - before

    def mixture(self) -> tuple[list[Column], FloatArray]:
        """Return the columns of the best mixture with their weights.

        The weights sum to at most 1.
        """
        kept = np.flatnonzero(self.best > _LEAST_SHARE)
        shares = self.best[kept]
        # the program's own rounding
        return [self.columns[k] for k in kept], shares / max(1.0, math.fsum(shares.tolist()) * (1 + 2.0**-50))

    def changed(self) -> FloatArray:
        """Compute probabilities of change inside the program's mixture, per class."""
        # columns that came after the program was solved have no share yet
        columns = self.columns[: self.shares.size]
        logs = np.array([c.log_mass for c in columns])
        weights = np.exp(logs - logs.max()) * self.shares
        rows = np.stack([c.rows[: self.wanted.classes.f.size] for c in columns])
        return np.asarray(self.wanted.classes.f - weights @ rows / weights.sum())

    def largest(self, count: int) -> list[Soft]:
        """Return the balls with the largest weights."""
        order = np.argsort(-self.shares, kind="stable")[:count]
        return [self.sources[k] for k in order if self.shares[k] > _LEAST_SHARE]


def _program(matrix: FloatArray, needs: FloatArray, *, nearest: bool) -> tuple[FloatArray, float, FloatArray]:
    """Solve the scaled program for weights, y and the rows' multipliers.

    Entries are of order one.

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
    """Round the ball's weights to a grid, randomly for attributes drawn from."""
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


@dataclass
class Watch:
    """Deadline and progress of the search; ``late`` once it was stopped."""

    deadline: float
    lower: float
    report: Callable[[float, float, float], None] | None
    upper: float = math.inf
    late: bool = False

    def goes_on(self, done: float) -> bool:
        """Check for remaining time; report ``done``, the fraction of this half."""
        if self.report is not None:
            self.report(0.5 + 0.5 * done, self.upper, self.lower)
        self.late = self.late or time.perf_counter() > self.deadline
        return not self.late


@dataclass
class _PairSearch:
    """Both sides as far as they have come."""

    wanted: Requirements
    generation: Generation
    dual: SampledDual | None
    watch: Watch
    lower: float
    point: RankOnePoint | None = None
    centre: Prices | None = None
    polished: Soft | None = None
    uppers: list[float] = field(default_factory=list)

    @property
    def upper(self) -> float:
        return float(np.logaddexp(0.0, -self.generation.log_y))

    def narrow(self) -> bool:
        """Check whether the bracket is narrow enough or no longer moves.

        It uses the estimated lower bound.
        """
        self.uppers.append(self.upper)
        if not math.isfinite(self.upper):
            return False
        gap = self.upper - self.lower
        stale = len(self.uppers) > _STALE_ROUNDS and self.uppers[-1 - _STALE_ROUNDS] - self.upper < _STALE * self.upper
        return bool(gap <= _NARROW * self.upper or stale)


def with_pairs(problem: Problem, base: Solution | None, started: float, tolerance: float, watch: Watch) -> Solution:
    """Design balls that preserve the named pairs.

    Independent randomized response if no smaller total is found.

    ``base``: the solution of the same problem without pairs, None where there is none. Raises MethodTooLarge where the classes
    are too many.
    """
    classes = Classes.of(replace(problem, pairs=()))
    require_few_classes(classes)
    wanted = Requirements.of(problem, classes)
    allowed = clique(problem, classes)
    dual = SampledDual(classes, problem.kappa, allowed) if allowed.any() else None
    search = _PairSearch(wanted, Generation(wanted), dual, watch, 0.0 if base is None else base.lower)
    first = _first_balls(classes, base)
    for k, ball in enumerate(first):
        if not watch.goes_on(_FIRST_PART * k / len(first)):
            break
        search.generation.add(ball)
    if search.generation.columns:
        if not watch.late:
            _polish(search)
        prices = search.generation.solve()
        if not watch.late:
            _refine(search, prices)
    law = _law(problem, search)
    certificate = _certificate(problem, base, search, law.epsilon)
    notes = (LATE,) if watch.late or (base is not None and LATE in base.notes) else ()
    overshoot = float(np.max(law.attribute_epsilons() - problem.epsilons))
    solution = checked(
        problem, METHOD, law, certificate,
        started=started, tolerance=max(tolerance, 0.0), bracketed=True,
        statistics={"overshoot": overshoot, "columns": len(search.generation.columns)}, notes=notes,
    )  # fmt: skip
    if watch.report is not None:
        watch.report(1.0, solution.upper, solution.lower)
    return solution


def _polish(search: _PairSearch) -> None:
    """Ascend smoothly from the best ball, one ball after another."""
    generation, wanted = search.generation, search.wanted
    start = generation.sources[max(range(len(generation.columns)), key=generation.alone)]
    work = wanted.needs.size
    steps = int(min(_POLISH_STEPS, max(_LEAST_POLISH, _POLISH_WORK / work)))
    for polished, prices in polish(wanted, start, steps):
        if generation.add(polished):
            search.centre, search.polished = prices, polished
        if not search.watch.goes_on(_FIRST_PART):
            return
    ball = generation.sources[-1]
    for shift in _NEARBY:
        generation.add(replace(ball, radius=ball.radius + shift))


def _refine(search: _PairSearch, prices: Prices) -> None:
    """Alternate new columns and ascents until the bracket no longer moves."""
    generation, watch = search.generation, search.watch
    groups = search.wanted.classes.counts.size
    steps = max(_LEAST_STEPS, _PRICING_STEPS * _MANY_CLASSES // max(groups, _MANY_CLASSES))
    rounds = _ROUNDS if groups <= _MANY_CLASSES else _FEW_ROUNDS
    ascents = _ASCENTS if groups <= _FEW_CLASSES else _ASCENTS[:1]
    for k in range(rounds):
        watch.upper = search.upper
        if not watch.goes_on(_FIRST_PART + (1 - _FIRST_PART) * k / rounds):
            return
        touching: list[Soft] = []
        serves = math.isfinite(generation.log_y)
        if (k in ascents or not serves) and search.dual is not None:
            touching = _ascend(search, prices)
        if search.narrow():
            return
        close = search.upper - search.lower <= _CLOSE * search.upper
        if serves and (groups > _MANY_CLASSES or (groups > _FEW_CLASSES and close)):
            for ball in touching:
                generation.add(ball)
            generation.solve()
            return
        generation.extend(prices, _starts(search, prices), steps)
        if search.centre is not None:
            steady = prices.mixed(search.centre, _STEADINESS[k % len(_STEADINESS)])
            generation.extend(steady, _starts(search, steady), steps)
        for ball in touching:
            generation.add(ball)
        prices = generation.solve()


def _starts(search: _PairSearch, prices: Prices) -> list[Soft]:
    """Choose starts of pricing: tangent half-spaces and the largest balls."""
    generation, f = search.generation, search.wanted.classes.f
    spots = [generation.changed() if generation.shares.any() else f]
    if not math.isfinite(generation.log_y):
        # no mixture serves yet, and the change sets with the fewest changes always help
        spots += [x * f for x in _FEWER]
    return [*_half_spaces(search, prices, spots), *generation.largest(2)]


def _ascend(search: _PairSearch, prices: Prices) -> list[Soft]:
    """Improve the lower bound from the program's multipliers.

    Returns the half-spaces that touch the final set.
    """
    c, dual = search.wanted.classes, search.dual
    assert dual is not None
    starts = [] if search.point is None else [(search.point.w, search.point.a)]
    if c.counts.size <= _FEW_CLASSES or search.polished is None:
        starts += _from_prices(search, prices)
    if search.point is None:
        starts += _from_ball(search)
    if not starts:
        return []
    starts = [(x, y * dual.allowed) for x, y in starts]
    highest = max((dual.ascend(x, y, _ASCENT_STEPS) for x, y in starts), key=lambda p: p.bound)
    if search.point is None or highest.bound > search.point.bound:
        search.point = highest
        search.lower = max(search.lower, highest.bound)
        search.watch.lower = search.lower
    point = search.point
    best = search.wanted.rank_one(point.w, point.a)
    # along the parabola: more or fewer changes among the attributes with effects
    direction = point.a / c.d / max(float((point.a / c.d).max()), 1e-12)
    spots = [np.minimum(expit(c.log_odds - c.epsilons + x * direction), c.d) for x in _ALONG]
    return _half_spaces(search, best, spots)


def _from_prices(search: _PairSearch, prices: Prices) -> list[tuple[FloatArray, FloatArray]]:
    """Build starts from the leading pair of the multipliers, and without pairs.

    The latter has all effects alike.
    """
    c = search.wanted.classes
    per_pair = prices.v / np.outer(c.counts, c.counts)
    values, vectors = np.linalg.eigh(per_pair)
    a = math.sqrt(max(float(values[-1]), 0.0)) * np.abs(vectors[:, -1])
    # in nats: the scale of multipliers is free, and these are the half-space's natural ones
    weights = prices.weights(c, c.f)
    radius = float(c.counts @ (weights * c.f))
    if not radius > 0:
        return []
    unit = saddle_point(c.log_odds, c.counts, weights, radius)
    out = [(prices.w / c.counts * unit, a * math.sqrt(unit))]
    if c.counts.size <= _FEW_CLASSES:
        # without pairs there is no slope towards them, so that the first steps start at some way off
        alone = search.generation.sources[0].weights
        level = math.sqrt(float(np.mean(alone)) / max(float(c.counts @ (c.gaps / c.d)), 1e-9))
        out += [(alone, np.full(alone.size, x * level)) for x in _LEVELS]
    return out


def _from_ball(search: _PairSearch) -> list[tuple[FloatArray, FloatArray]]:
    """Build parabolas that touch the ascended ball's half-space.

    Effects are all alike, or as the pairs' multipliers sum.
    """
    ball, c, prices = search.polished, search.wanted.classes, search.centre
    if ball is None or prices is None:
        return []
    lam, out = c.gaps / c.d, []
    alike, added = np.ones(lam.size), prices.v @ lam / c.counts
    for shape in (alike, added):
        pull = shape * float(shape @ (c.counts * lam)) / c.d
        # so faint a pull, that of pairs which hardly anything makes visible, is none
        if not float(np.mean(pull)) > _FAINT * float(np.mean(ball.weights)):
            continue
        share = _PULL * float(np.mean(ball.weights) / np.mean(pull))
        out.append((np.maximum(ball.weights - share * pull, 0.0), math.sqrt(share) * shape))
    return out


def _half_spaces(search: _PairSearch, prices: Prices, spots: list[FloatArray]) -> list[Soft]:
    """Build half-spaces that touch {h > 0} near these probabilities of change.

    In natural units.
    """
    c, out = search.wanted.classes, []
    for spot in spots:
        weights, radius = prices.touching(c, spot)
        if radius > 0 and np.all(np.isfinite(weights)):
            unit = saddle_point(c.log_odds, c.counts, weights, radius)
            out.append(Soft(weights * unit, radius * unit, _WIDTH))
    return out


def _first_balls(classes: Classes, base: Solution | None) -> list[Soft]:
    """Build initial balls from weights without pairs, shifted towards pairs."""
    weights = classes.epsilons.copy()
    if base is not None and isinstance(base.law, BallLaw):
        weights = base.law.balls[0].ball.weights
    weights = weights * (saddle_point(classes.log_odds, classes.counts, weights, classes.radius(weights)))
    spread = math.sqrt(float(classes.counts @ (classes.f * (1 - classes.f) * weights**2)))
    lam = classes.gaps / classes.d
    total = float(classes.counts @ lam)
    pulled = float(np.mean(weights * lam)) / classes.d * (total - lam) / total
    out = []
    for shift in (0.0, *_SHIFTS):
        w = weights + shift * pulled
        radii = [classes.radius(w) + k * spread for k in _RADII]
        out += [Soft(w, r, _WIDTH) for r in radii if r > 0]
    # the likeliest come first, in case the time runs out
    return sorted(out, key=lambda ball: abs(ball.radius - classes.radius(ball.weights)))


def _law(problem: Problem, search: _PairSearch) -> Law:
    product = ProductLaw(problem.sizes, problem.epsilons)
    if not math.isfinite(search.generation.log_y):
        return product
    columns, shares = search.generation.mixture()
    low = search.wanted.log_scale(columns, shares) + math.log1p(-_SLACK)
    log_ratio = float(np.logaddexp(0.0, -low)) * (1 + 2.0**-50) + _MARGIN
    if log_ratio >= product.epsilon:
        return product
    balls = [MixedBall(float(p), c.ball) for p, c in zip(shares, columns, strict=True)]
    return BallLaw(problem.sizes, problem.classes, balls, log_ratio)


def _certificate(problem: Problem, base: Solution | None, search: _PairSearch, upper: float) -> Certificate | None:
    """Return the best of the certified bounds."""
    certificates = [] if base is None else [base.certificate]
    if search.point is not None:
        certificates += rounded(problem, search.wanted.classes, search.point)
    if not certificates:
        return None
    return max(certificates, key=lambda certificate: min(lower_bound(problem, certificate), upper))
