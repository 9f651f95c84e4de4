"""The certified optimum for any number of different attributes (design §3.3–3.5).

Upper bound: a weighted ball with a slightly random radius, mixed with the uniform answer. Lower bound: the dual function
at nearby integer weights. The path goes from a wide random radius, where the problem is smooth and easy, to a narrow one, by
Newton steps with exact second derivatives (:mod:`ball_newton`); where change sets sit on the border of the ball and the dual
has kinks, the weights move linearly in the width, and their extrapolation to width 0 closes the lower bound. Then the
weights are put on a grid (:mod:`ball_rounding`) and both bounds are recomputed from the law and the certificate alone.

Time O(m × frequencies) a Newton step, O(m × window) for the certificate, m × window about 10^10 at most.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from optrr_solvers import ball_pairs, grid_bound, modulus_bound
from optrr_solvers.ball_moments import Classes, CountedMoments, MomentSource, SpectralMoments, TooSharp
from optrr_solvers.ball_newton import STUCK, OutOfTime, Point, minimise, rescaled, unstuck
from optrr_solvers.ball_rounding import Fit, fitted
from optrr_solvers.certificate import EXACT_CELLS, Certificate, lower_bound
from optrr_solvers.grid_bound import MAX_WINDOW, WeightedClasses
from optrr_solvers.laws.tilting import wrapping_distance
from optrr_solvers.problem import FloatArray, MethodTooLarge, Problem
from optrr_solvers.solution import Solution, SolveFailed, checked

METHOD = "ball"

# Vectors of counts times classes up to which they are listed: 64 MB.
_COUNTED_WORK = 1 << 22
# Widths of the radius, in units in which the weights are nats.
_FIRST_WIDTH, _LAST_WIDTH, _NARROWING = 0.5, 1e-6, 0.3
# Widths that differ by this factor may be extrapolated from.
_APART = 1.5
# So many widths in a row at which Newton stays stuck are the last.
_MOST_STUCK = 2
# Attributes times totals of a lower bound on the way (a fifth of a second) and at the end (a minute).
_WORK_ON_THE_WAY, _WORK_AT_THE_END = 1 << 26, 1 << 33
_WORK_OF_A_SECOND = 1 << 30
# Totals of the law at once, which draws are proportional to: a coarser grid is used from the first number on while it costs no
# more than this share of ln Q, and beyond the second at any cost.
_LAW_WINDOW, _MOST_LAW_WINDOW, _LAW_SHARE = 1 << 16, 1 << 18, 2e-5
# With many attributes the aim is this share of the relative tolerance: a finer grid would cost minutes for nothing.
_AIM = 0.003
# So many changed attributes make the total as good as continuous.
_MANY_CHANGES = 25.0
# Grids tried, each eight times finer, before rounding is given up.
_FINER_GRIDS = 3
# A bound on the way uses this grid at least: finer ones do not change it by a tenth of the tolerance.
_FINEST_UNIT = 1e-6
# Weights of a counted ball are whole numbers of width × this, or of the radius × the other where that is coarser.
_COUNTED_UNIT, _COUNTED_RESOLUTION = 1e-11, 2.0**-49
# What the weights of a counted certificate add up to: whole numbers that double precision adds exactly, and more where the
# bound is evaluated in rationals, since at large ε weights differ by e^ε.
_COUNTED_TOTAL, _EXACT_TOTAL = 2.0**52, 2.0**240
# Bounds tried on the attributes with the largest ε_i alone: on the first one, two, … of them.
_LARGEST_ALONE = 4


@dataclass(frozen=True)
class BallOptions:
    """What the solver may spend.

    ``tolerance``: gap in nats to aim at, relative where the total is below one nat; ``relative_tolerance``: gap relative to
    the total that is still called optimal, where the grid or the number of attributes leave no more; ``time_limit``: seconds
    until the best bracket so far is returned (it takes a few more to certify); ``unit``: the law's grid in nats, None to
    choose; ``progress``: called with (fraction done, upper, lower), bounds in nats, infinite and 0 while there are none.
    """

    tolerance: float = 1e-3
    relative_tolerance: float = 1e-3
    time_limit: float | None = None
    unit: float | None = None
    progress: Callable[[float, float, float], None] | None = None


@dataclass
class _Path:
    """Best of both bounds so far: the point with the smallest upper, the weights with the largest lower bound.

    ``widest`` is the first point with any upper bound.
    """

    upper: float = math.inf
    lower: float = 0.0
    point: Point | None = None
    widest: Point | None = None
    weights: FloatArray | None = None
    before: tuple[FloatArray, float] | None = None
    steps: int = 0
    out_of_time: bool = False
    stuck: int = 0
    widths: list[float] = field(default_factory=list)


def solve(problem: Problem, options: BallOptions = BallOptions()) -> Solution:
    """Optimal BallLaw and its certificate.

    Status OPTIMAL where the gap is within the tolerance (absolute or relative), BRACKETED otherwise. Achieved ε_i are the
    requested ones or above, never below; ``statistics["overshoot"]`` is the largest excess in nats.

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
    classes = Classes.of(problem)
    counted = _cells(classes) * classes.counts.size <= _COUNTED_WORK
    source: MomentSource = CountedMoments(classes) if counted else SpectralMoments(classes)
    path = _follow(classes, source, options, deadline)
    fit = _law(classes, path, options, counted, deadline)
    if counted:
        certificate = _counted_certificate(classes, path)
    else:
        certificate = _grid_certificate(classes, path, _certificate_unit(classes, path, blur(options, path.upper)))
    return _finish(problem, fit, certificate, path, options, started)


def _with_pairs(problem: Problem, options: BallOptions, started: float) -> Solution:
    """Half the time for the problem without pairs, the other half for the radii that keep them."""
    alone = replace(problem, pairs=())
    # refused before the minute that the base takes
    ball_pairs.require_few_classes(Classes.of(alone))
    report, limit = options.progress, options.time_limit
    half = replace(
        options,
        time_limit=None if limit is None else limit / 2,
        progress=None if report is None else lambda done, upper, lower: report(done / 2, math.inf, lower),
    )
    base = solve(alone, half)
    watch = ball_pairs.Watch(math.inf if limit is None else started + limit, base.lower, report)
    tolerance = max(options.tolerance, options.relative_tolerance * base.upper)
    return ball_pairs.with_pairs(problem, base, started, tolerance, watch)


def _finish(  # noqa: PLR0913 (the last step gathers everything)
    problem: Problem, fit: Fit, certificate: Certificate, path: _Path, options: BallOptions, started: float
) -> Solution:
    overshoot = float(np.max(fit.law.attribute_epsilons() - problem.epsilons))
    upper = fit.law.log_ratio
    tolerance = max(options.tolerance * min(1.0, upper), options.relative_tolerance * upper)
    notes: tuple[str, ...] = (ball_pairs.LATE,) if path.out_of_time else ()
    if overshoot > _EXACT:
        notes += (f"achieved attribute epsilons exceed the requested ones by up to {overshoot:.3g} nats",)
    statistics = {"widths": len(path.widths), "width": path.widths[-1], "overshoot": max(overshoot, 0.0)}
    solution = checked(
        problem, METHOD, fit.law, certificate,
        started=started, tolerance=tolerance, bracketed=True, statistics=statistics, notes=notes,
    )  # fmt: skip
    if options.progress is not None:
        options.progress(1.0, solution.upper, solution.lower)
    return solution


# Accuracies above the request by more than this are mentioned.
_EXACT = 1e-8


def _follow(classes: Classes, source: MomentSource, options: BallOptions, deadline: float) -> _Path:
    """Narrow the radius until the bracket is within half the tolerance, the frequencies run out, or the time does."""
    path, w, width = _Path(), classes.epsilons.copy(), _FIRST_WIDTH
    while width >= _LAST_WIDTH:
        w = rescaled(classes, w)
        try:
            point = minimise(classes, source, w, width, deadline)
            path.widths.append(width)
            if point.spread > STUCK:
                _update(classes, source, path, point)
                point = unstuck(classes, source, point, deadline)
        except TooSharp:
            break
        except OutOfTime as late:
            path.out_of_time = True
            # a search cut short in the first width is still a mechanism, where every accuracy can be met
            if path.point is None and late.point is not None and math.isfinite(late.point.log_ratio):
                path.widths.append(width)
                _update(classes, source, path, late.point)
            break
        w = point.w
        _update(classes, source, path, point)
        if options.progress is not None:
            options.progress(_fraction(path, options), path.upper, path.lower)
        # narrower radii cost more and more, and where double precision is at its end they bring nothing
        path.stuck = path.stuck + 1 if point.spread > STUCK else 0
        if path.upper - path.lower <= 0.5 * aim(options, path.upper) or path.stuck == _MOST_STUCK:
            break
        width *= _NARROWING
    if path.point is None:
        raise SolveFailed("ball: no bracket within the time limit; raise it, or use method 'inductive'")
    return path


def aim(options: BallOptions, upper: float) -> float:
    """The gap in nats at which work stops."""
    if not math.isfinite(upper):
        return options.tolerance
    # a total below one nat is wanted relatively as well
    return max(options.tolerance * min(1.0, upper), _AIM * options.relative_tolerance * upper)


def blur(options: BallOptions, upper: float) -> float:
    """What ln φ may lose: ln Q loses as much at large totals, and Q − 1 times as much at small ones."""
    return aim(options, upper) / min(1.0, upper)


def _fraction(path: _Path, options: BallOptions) -> float:
    """How far the gap has come from 10 nats to the tolerance, on a logarithmic scale; rough."""
    gap = max(path.upper - path.lower, options.tolerance)
    return float(np.clip(1 - math.log(gap / options.tolerance) / math.log(10 / options.tolerance), 0.0, 0.95))


def _update(classes: Classes, source: MomentSource, path: _Path, point: Point) -> None:
    scale = float(classes.counts @ (classes.gaps * point.w))
    w, h = point.w / scale, point.width / scale
    candidates = [w]
    # two points of about one width, before and after a rescue, give no direction
    if path.before is not None and path.before[1] > _APART * h:
        w1, h1 = path.before
        candidates.append(np.maximum(w - (w1 - w) * (h / (h1 - h)), 0.0))
    path.before = (w, h)
    if point.log_ratio <= path.upper:
        path.upper, path.point = point.log_ratio, point
        if path.widest is None and math.isfinite(point.log_ratio):
            path.widest = point
    for candidate in candidates:
        natural = rescaled(classes, candidate)
        lower = _lower(classes, source, natural, point)
        if lower > path.lower:
            path.lower, path.weights = lower, natural


def _lower(classes: Classes, source: MomentSource, w: FloatArray, point: Point) -> float:
    """An estimate of the bound at ``w``, good enough to steer by."""
    if isinstance(source, CountedMoments):
        return float(np.logaddexp(0.0, np.log(classes.counts @ (classes.gaps * w)) - source.sharp_log_value(w)))
    unit = problem_size(classes) * _window(classes, w) / _WORK_ON_THE_WAY
    changed = float(classes.counts @ (point.moments.changed / point.moments.mass))
    if _spread_out(classes, w) or (changed > _MANY_CHANGES and unit**2 * changed / 24 > 0.2 * point.width**2):
        # rounding would cost more than the width: with many changes the total is as good as continuous, and the loss is
        # half the width's square
        return point.log_ratio - point.width**2 * min(1.0, point.log_ratio)
    return _bound(classes, integer_weights(classes, w, _WORK_ON_THE_WAY, 0.0))


def _spread_out(classes: Classes, w: FloatArray) -> bool:
    """Whether the bound is a sum over frequencies, which takes any weights; with a margin for their rounding."""
    radius = classes.radius(w)
    return modulus_bound.spread(classes.log_odds, classes.counts, w, radius) > 1.1 * modulus_bound.SPREAD


def _bound(classes: Classes, weights: tuple[int, ...]) -> float:
    members = tuple(tuple(c.tolist()) for c in classes.members)
    return grid_bound.lower_bound(WeightedClasses.of(classes.problem, members, weights))


def problem_size(classes: Classes) -> float:
    """m."""
    return float(classes.counts.sum())


def _window(classes: Classes, w: FloatArray) -> float:
    """Nats of total that a dynamic program holds at once."""
    radius = classes.radius(w)
    return min(radius, wrapping_distance(classes.log_odds, classes.counts, w, radius, 1.0))


def integer_weights(classes: Classes, w: FloatArray, work: int, unit: float) -> tuple[int, ...]:
    """Weights on a grid of ``unit`` nats, or the finest whose bound costs ``work`` at most."""
    if _spread_out(classes, w):
        unit = _FINEST_UNIT
    else:
        window = _window(classes, w)
        unit = max(problem_size(classes) * window / work, 4 * window / MAX_WINDOW, unit, _FINEST_UNIT)
    # beyond the radius a weight only counts through its share of it
    scaled = np.minimum(np.round(w / unit), 2.0**52 / problem_size(classes))
    return tuple(int(x) for x in scaled)


def _cells(classes: Classes) -> float:
    return float(np.prod(classes.counts + 1)) if classes.counts.size <= 64 else math.inf


def _law(classes: Classes, path: _Path, options: BallOptions, counted: bool, deadline: float) -> Fit:
    assert path.point is not None and path.widest is not None
    # at ε_i near 50 a wide radius may survive rounding where the best one does not
    for point in (path.point, path.widest):
        fine = max(_COUNTED_UNIT * point.width, _COUNTED_RESOLUTION * classes.radius(point.w))
        unit = fine if counted else options.unit or _unit(classes, point, blur(options, path.upper))
        for _ in range(_FINER_GRIDS):
            fit = fitted(classes, point, unit, deadline, whole=counted)
            if fit is not None:
                return fit
            unit /= 8
    raise SolveFailed("ball: the weights do not survive rounding to a grid; use milder epsilons, or method 'inductive'")


def _unit(classes: Classes, point: Point, tolerance: float) -> float:
    """Rounding costs half its variance, u²/12 per changed attribute on average: up to a quarter of the tolerance.

    Where the law's totals would be many, it may cost a share of ln Q instead.
    """
    changed = max(float(classes.counts @ (point.moments.changed / point.moments.mass)), 1.0)
    fine, window = math.sqrt(3 * tolerance / changed), _window(classes, point.w)
    coarse = min(math.sqrt(12 * _LAW_SHARE * point.log_ratio / changed), window / _LAW_WINDOW)
    # a profile needs a few cells per width for its transform to end
    return min(max(fine, coarse, window / _MOST_LAW_WINDOW, _FINEST_UNIT), point.width / 4)


def _certificate_unit(classes: Classes, path: _Path, tolerance: float) -> float:
    """Rounding a weight costs u²/24 per changed attribute, and up to u where few change sets lie at the border."""
    assert path.point is not None
    changed = float(classes.counts @ (path.point.moments.changed / path.point.moments.mass))
    smooth = math.sqrt(2 * tolerance / max(changed, 1.0))
    second = problem_size(classes) * _window(classes, path.point.w) / _WORK_OF_A_SECOND
    return min(smooth, max(tolerance / 20, second))


def _grid_certificate(classes: Classes, path: _Path, unit: float) -> Certificate:
    """On a grid of ``unit`` nats."""
    assert path.point is not None
    w = path.weights if path.weights is not None else rescaled(classes, path.point.w)
    return Certificate(_members(classes), integer_weights(classes, w, _WORK_AT_THE_END, unit))


def _counted_certificate(classes: Classes, path: _Path) -> Certificate:
    """Where change sets are counted, the grid costs nothing, and of several weights the best bound is found by trying.

    The path loses its digits where flips lie many orders apart; the largest ε_i alone then prove more.
    """
    assert path.point is not None
    total = _EXACT_TOTAL if _cells(classes) <= EXACT_CELLS else _COUNTED_TOTAL
    falling = np.sort(classes.epsilons)[::-1]
    largest = [np.where(classes.epsilons >= e, classes.epsilons, 0.0) for e in falling[:_LARGEST_ALONE]]
    tried = (path.weights, path.point.w, classes.epsilons, *largest)
    found = [
        Certificate(_members(classes), tuple(int(x) for x in np.round(w * (total / float(w @ classes.counts)))))
        for w in tried
        if w is not None
    ]
    return max(found, key=lambda certificate: lower_bound(classes.problem, certificate))


def _members(classes: Classes) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(c.tolist()) for c in classes.members)
