"""The certified optimum for any number of different attributes (theory §3.3–3.5).

Upper bound: a weighted ball with a slightly random radius, mixed with the uniform answer. Lower bound: the dual
function at nearby integer weights. The path goes from a wide random radius, where the problem is smooth and easy, to a
narrow one, by Newton steps with exact second derivatives (:mod:`newton`); where change sets sit on the border of the
ball and the dual has kinks, the weights move linearly in the width, and their extrapolation to width 0 closes the lower
bound. Then the weights are put on grids (:mod:`rounding`) and both bounds are recomputed from the law and the
certificate alone.

Time O(m × frequencies) a Newton step, O(m × window) for the certificate, m × window about 10^10 at most.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls import pairs as ball_pairs
from optrr_solvers.balls.moments import Classes, CountedMoments, MomentSource, SpectralMoments, TooSharp
from optrr_solvers.balls.newton import STUCK, Allowance, OutOfTime, Point, Pool, minimise, rescaled
from optrr_solvers.balls.rounding import (
    FINEST_UNIT,
    MANY_CHANGES,
    WORK_ON_THE_WAY,
    RoundedLaw,
    attribute_count,
    cells,
    counted_certificate,
    estimated_bound,
    fitted,
    grid_certificate,
    grid_unit,
    integer_weights,
    spread_out,
    window_of,
)
from optrr_solvers.certificates.certificate import EXACT_CELLS, Certificate
from optrr_solvers.errors import MethodTooLarge, SolveFailed
from optrr_solvers.laws.count import MAX_CELLS
from optrr_solvers.laws.weighted_ball import MAX_COUNTED
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Solution, checked

METHOD = "ball"

# Where the vectors of counts, times the classes, are no more than this, all of them are listed: 64 MB.
_COUNTED_WORK = 1 << 22
# Widths of the radius, in units in which the weights are nats.
_FIRST_WIDTH, _LAST_WIDTH, _NARROWING = 0.5, 1e-6, 0.3
# Widths that differ by this factor may be extrapolated from.
_APART = 1.5
# Flip probabilities below which attributes are pooled, in the order tried; 0 pools none.
_HEAVY_FLIPS = (1e-4, 1e-7, 0.0)
# Classes times frequencies of all evaluations together, a quarter of a minute; more for very many classes.
# Attributes are not pooled for longer than the former.
_MOST_WORK, _WORK_OF_A_CLASS, _LEAST_WORK = 1 << 26, 1 << 15, 1 << 24
# Where counts are listed a term takes no longer than this share of its time elsewhere, so that more of them are
# allowed.
_COUNTED_TERM = 0.25
# Widths are no longer narrowed after this many in a row have each left more than this share of the gap. This holds
# where the gap is small already, or where another path can still be tried.
_STALE, _MOST_STALE = 0.8, 2
_NOTHING_IN_TIME = "ball: no bracket within the time limit; raise the limit, or use method 'auto'"
_NOTHING_FOUND = "ball: no radius meets every accuracy in double precision; use method 'auto'"
# Newton may stay stuck at this many widths in a row; after that no narrower one is tried, because it would get stuck as
# well.
_MOST_STUCK = 2
# The law holds this many totals at once, and the cost of a draw is proportional to them. Above the first number a
# coarser grid is used as long as it costs no more than this share of ln Q; above the second it is used at any cost.
_LAW_WINDOW, _MOST_LAW_WINDOW, _LAW_SHARE = 1 << 16, 1 << 18, 2e-5
# Accuracies that exceed the request by more than this are mentioned in a note.
_EXACT = 1e-8
# With many attributes the gap to reach is this share of the relative tolerance: a finer grid would take minutes and
# gain nothing.
_AIM = 0.003
# With more classes than these, few points are kept: each holds vectors of all of them.
_MANY_CLASSES = 10_000
# Grids tried, each eight times finer, before rounding is given up.
_FINER_GRIDS = 3
# Where pairs are to be preserved, the problem without them is solved to this tolerance: what pairs cost leaves a wider
# gap.
_BASE_TOLERANCE = 4e-3
# Weights of a counted ball are whole numbers of width × this, or of the radius × the other where that is coarser.
_COUNTED_UNIT, _COUNTED_RESOLUTION = 1e-11, 2.0**-49


@dataclass(frozen=True)
class BallOptions:
    """Limits and tolerances of the solver.

    ``tolerance``: gap in nats to aim at, relative where the total is below one nat; ``relative_tolerance``: gap
    relative to the total that is still called optimal, where the grid or the number of attributes leave no more;
    ``time_limit``: seconds until the best bracket so far is returned; ``progress``: called with (fraction done, upper,
    lower), bounds in nats, initially infinite and 0.
    """

    tolerance: float = 1e-3
    relative_tolerance: float = 1e-3
    time_limit: float | None = None
    progress: Callable[[float, float, float], None] | None = None

    @classmethod
    def of(cls, options: SolveOptions) -> "BallOptions":
        """Convert common options.

        If the user gives a tolerance in nats, the relative tolerance of large totals does not apply.
        """
        relative = cls.relative_tolerance if options.tolerance is None else 0.0
        return cls(options.tolerance_or(cls.tolerance), relative, options.time_limit, options.progress)


@dataclass
class _Path:
    """Best upper and lower bound so far over one pool.

    The point with the smallest upper bound and the weights with the largest lower bound.

    ``points`` are those that improved the upper bound, from wide to narrow; among very many classes the first and the
    last.
    """

    pool: Pool
    upper: float = math.inf
    lower: float = 0.0
    point: Point | None = None
    points: list[Point] = field(default_factory=list)
    weights: FloatArray | None = None
    before: tuple[FloatArray, float] | None = None
    out_of_time: bool = False
    widths: list[float] = field(default_factory=list)


def solve(problem: Problem, options: BallOptions = BallOptions()) -> Solution:
    """Find the optimal BallLaw and its certificate.

    Status OPTIMAL where the gap is within the tolerance (absolute or relative), BRACKETED otherwise. Achieved ε_i are
    the requested ones or above, never below; ``statistics["overshoot"]`` is the largest excess in nats.

    Raises MethodTooLarge for conditional caps, SolveFailed where no bracket was found in time.
    """
    started = time.perf_counter()
    if problem.caps is not None:
        raise MethodTooLarge(
            "method 'ball' takes no conditional caps; use 'reduced' (up to 10 attributes) or drop them"
        )
    if problem.pairs:
        return _with_pairs(problem, options, started)
    deadline = math.inf if options.time_limit is None else started + options.time_limit
    paths = _paths(Classes.of(problem), options, deadline)
    fit = _law(paths, options, deadline)
    return _finish(problem, fit, _certificate(paths, options, deadline), paths, options, started)


def _paths(whole: Classes, options: BallOptions, deadline: float) -> list[_Path]:
    """Compute a path for each pool of heavy attributes until the bracket is good.

    The search ends early if the time or the work is used up.
    """
    work = float(max(_MOST_WORK, _WORK_OF_A_CLASS * whole.counts.size))
    paths: list[_Path] = []
    pooled: set[int] = set()
    good = False
    for flip in _HEAVY_FLIPS:
        pool = Pool.of(whole, flip)
        # Newton's method rarely converges with attributes that heavy, so where the bracket is good already it is not
        # tried
        if pool.heavy.size in pooled or (good and flip == 0):
            continue
        pooled.add(pool.heavy.size)
        counted = cells(pool.classes) * pool.classes.counts.size <= _COUNTED_WORK
        source: MomentSource = (CountedMoments if counted else SpectralMoments)(pool.classes)
        # a path that uses up its work without a law leaves some to the next one, which may find a law at once
        term = _COUNTED_TERM if counted else 1.0
        allowed = max(work if flip == 0 else min(work, _MOST_WORK), _LEAST_WORK) / term
        paths.append(_follow(pool, source, options, Allowance(deadline, allowed)))
        work -= source.work * term
        upper, lower = min(p.upper for p in paths), max(p.lower for p in paths)
        if upper - lower <= aim(options, upper) or (paths[-1].out_of_time and math.isfinite(upper)):
            break
        good = upper - lower <= options.relative_tolerance * upper
    if all(p.point is None for p in paths):
        late = any(p.out_of_time for p in paths)
        raise SolveFailed(_NOTHING_IN_TIME if late else _NOTHING_FOUND)
    return paths


def _with_pairs(problem: Problem, options: BallOptions, started: float) -> Solution:
    """Solve with pairs: half the time without them, the rest for mixtures of balls."""
    alone = replace(problem, pairs=())
    # refuse too many classes now, because the problem without pairs may take a minute
    ball_pairs.require_few_classes(Classes.of(alone))
    report, limit = options.progress, options.time_limit
    half = replace(
        options,
        tolerance=max(options.tolerance, _BASE_TOLERANCE),
        relative_tolerance=max(options.relative_tolerance, _BASE_TOLERANCE),
        time_limit=None if limit is None else limit / 2,
        progress=None if report is None else lambda done, upper, lower: report(done / 2, math.inf, lower),
    )
    base: Solution | None = None
    with suppress(SolveFailed):
        base = solve(alone, half)
    lower = 0.0 if base is None else base.lower
    watch = ball_pairs.Watch(math.inf if limit is None else started + limit, lower, report)
    tolerance = max(options.tolerance, options.relative_tolerance * lower)
    return ball_pairs.with_pairs(problem, base, started, tolerance, watch)


def _finish(  # noqa: PLR0913 (the last step gathers everything)
    problem: Problem,
    fit: RoundedLaw,
    certificate: Certificate,
    paths: list[_Path],
    options: BallOptions,
    started: float,
) -> Solution:
    overshoot = float(np.max(fit.law.attribute_epsilons() - problem.epsilons))
    upper = fit.law.log_ratio
    tolerance = max(options.tolerance * min(1.0, upper), options.relative_tolerance * upper)
    notes: tuple[str, ...] = (
        (ball_pairs.LATE,) if options.time_limit is not None and any(p.out_of_time for p in paths) else ()
    )
    if overshoot > _EXACT:
        notes += (f"achieved attribute epsilons exceed the requested ones by up to {overshoot:.3g} nats",)
    widths = [h for p in paths for h in p.widths]
    statistics = {"widths": len(widths), "width": min(widths), "overshoot": max(overshoot, 0.0)}
    solution = checked(
        problem, METHOD, fit.law, certificate,
        started=started, tolerance=tolerance, bracketed=True, statistics=statistics, notes=notes,
    )  # fmt: skip
    if options.progress is not None:
        options.progress(1.0, solution.upper, solution.lower)
    return solution


def _follow(pool: Pool, source: MomentSource, options: BallOptions, allowance: Allowance) -> _Path:
    """Reduce the radius's width until the bracket is within half the tolerance.

    The path ends early if the frequencies, the time or the work run out.
    """
    classes = pool.classes
    path, w, width, stuck, stale, gap = _Path(pool), classes.epsilons.copy(), _FIRST_WIDTH, 0, 0, math.inf
    while width >= _LAST_WIDTH:
        w = rescaled(classes, w)
        try:
            point = minimise(classes, source, w, width, allowance)
            path.widths.append(width)
        except TooSharp:
            break
        except OutOfTime as late:
            path.out_of_time = True
            # a search cut short in the first width is still a mechanism, where every accuracy can be met
            if path.point is None and late.point is not None and math.isfinite(late.point.log_ratio):
                path.widths.append(width)
                _update(source, path, late.point)
            break
        w = point.w
        _update(source, path, point)
        if options.progress is not None:
            # how far the gap has come from 10 nats to the tolerance, on a logarithmic scale; rough
            left = math.log(max(path.upper - path.lower, options.tolerance) / options.tolerance)
            done = float(np.clip(1 - left / math.log(10 / options.tolerance), 0.0, 0.95))
            options.progress(done, path.upper, path.lower)
        # narrower radii cost more and more, and gain nothing once double precision is exhausted
        stuck = stuck + 1 if point.spread > STUCK and path.point is not None else 0
        before, gap = gap, path.upper - path.lower
        good = gap <= options.relative_tolerance * path.upper
        stale = stale + 1 if gap > _STALE * before and (good or pool.heavy.size > 0) else 0
        if gap <= 0.5 * aim(options, path.upper) or stale == _MOST_STALE or stuck == _MOST_STUCK:
            break
        width *= _NARROWING
    return path


def aim(options: BallOptions, upper: float) -> float:
    """Compute the gap in nats at which work stops."""
    if not math.isfinite(upper):
        return options.tolerance
    # a total below one nat is wanted relatively as well
    return max(options.tolerance * min(1.0, upper), _AIM * options.relative_tolerance * upper)


def blur(options: BallOptions, upper: float) -> float:
    """Compute the loss of ln φ that the gap allows.

    ln Q loses as much at large totals, and Q − 1 times as much at small ones.
    """
    return aim(options, upper) / min(1.0, upper)


def _update(source: MomentSource, path: _Path, point: Point) -> None:
    classes = path.pool.classes
    scale = float(classes.counts @ (classes.gaps * point.w))
    w, h = point.w / scale, point.width / scale
    candidates = [w]
    # two points of nearly the same width give no direction
    if path.before is not None and path.before[1] > _APART * h:
        w1, h1 = path.before
        candidates.append(np.maximum(w - (w1 - w) * (h / (h1 - h)), 0.0))
    path.before = (w, h)
    if point.log_ratio < path.upper:
        path.upper, path.point = point.log_ratio, point
        kept = path.points if classes.counts.size <= _MANY_CLASSES else path.points[:1]
        path.points = [*kept, point]
    for candidate in candidates:
        natural = rescaled(classes, candidate)
        lower = _lower(path.pool, source, natural, point)
        if lower > path.lower:
            path.lower, path.weights = lower, natural


def _lower(pool: Pool, source: MomentSource, w: FloatArray, point: Point) -> float:
    """Estimate the bound at ``w``, accurately enough to guide the search."""
    classes, whole = pool.classes, pool.weights(w)
    if isinstance(source, CountedMoments):
        log_value = source.sharp_log_value(pool.pooled(whole))
        return float(np.logaddexp(0.0, pool.log_advantage(whole) - log_value))
    unit = attribute_count(classes) * window_of(classes, w) / WORK_ON_THE_WAY
    changed = float(classes.counts @ (point.moments.changed / point.moments.mass))
    if not pool.heavy.size and (
        spread_out(classes, w) or (changed > MANY_CHANGES and unit**2 * changed / 24 > 0.2 * point.width**2)
    ):
        # rounding would cost more than the width: with many changes the total is as good as continuous, and the loss is
        # half the width's square
        return point.log_ratio - point.width**2 * min(1.0, point.log_ratio)
    return estimated_bound(pool.whole, integer_weights(pool.whole, whole, WORK_ON_THE_WAY, 0.0))


def _law(paths: list[_Path], options: BallOptions, deadline: float) -> RoundedLaw:
    """Round the best path; if it does not survive rounding, the next one."""
    for path in sorted((p for p in paths if p.point is not None), key=lambda p: p.upper):
        fit = _law_of(path, options, deadline)
        if fit is not None:
            return fit
    raise SolveFailed(
        "ball: no accuracy is left after rounding the weights to a grid; use less extreme epsilons, or method 'kronecker'"
    )


def _law_of(path: _Path, options: BallOptions, deadline: float) -> RoundedLaw | None:
    pool, best = path.pool, None
    counted = cells(pool.whole) <= MAX_COUNTED
    # a wide radius may survive rounding where the narrowest does not, or lose less by it
    for point in reversed(path.points):
        # rounding does not make a wider ball better than it is
        enough = max(path.upper + 0.5 * aim(options, path.upper), point.log_ratio)
        if best is not None and (best.law.log_ratio <= enough or time.perf_counter() > deadline):
            break
        fine = max(_COUNTED_UNIT * point.width, _COUNTED_RESOLUTION * pool.classes.radius(point.w))
        unit = fine if counted else _unit(pool.classes, point, blur(options, path.upper))
        for _ in range(_FINER_GRIDS):
            fit = fitted(pool, point, unit, deadline, whole=counted)
            if fit is not None:
                best = fit if best is None or fit.law.log_ratio < best.law.log_ratio else best
                break
            unit /= 8
    return best


def _unit(classes: Classes, point: Point, tolerance: float) -> float:
    """Choose the unit of the grid.

    Rounding costs half its variance, u²/12 per changed attribute on average: up to a quarter of the tolerance.

    Where the law's totals would be many, it may cost a share of ln Q instead.
    """
    changed = max(float(classes.counts @ (point.moments.changed / point.moments.mass)), 1.0)
    fine, window = math.sqrt(3 * tolerance / changed), window_of(classes, point.w)
    coarse = min(math.sqrt(12 * _LAW_SHARE * point.log_ratio / changed), window / _LAW_WINDOW)
    # a profile needs a few cells per width for its transform to end
    return min(max(fine, coarse, window / _MOST_LAW_WINDOW, FINEST_UNIT), point.width / 4)


def _certificate(paths: list[_Path], options: BallOptions, deadline: float) -> Certificate:
    """Build the certificate at the weights of the largest lower bound on any path."""
    path = max(paths, key=lambda p: p.lower)
    # a path without a mechanism may prove most; how fine a grid should be is known where there is one
    near = path if path.point is not None else next(p for p in paths if p.point is not None)
    assert near.point is not None
    pool, w = path.pool, path.weights
    if w is None:
        pool, w = near.pool, rescaled(near.pool.classes, near.point.w)
    # where change sets are counted, whole weights are int64, which the heavy attributes' exceed
    if cells(pool.whole) <= (EXACT_CELLS if pool.heavy.size else MAX_CELLS):
        return counted_certificate(pool.whole, pool.weights(w), near.pool.weights(near.point.w))
    unit = grid_unit(near.pool, near.point, blur(options, near.upper))
    return grid_certificate(pool, w, unit, deadline - time.perf_counter())
