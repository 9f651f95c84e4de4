"""The certified optimum for any number of different attributes (design §3.3–3.5).

Upper bound: a weighted ball with a slightly random radius, mixed with the uniform answer. Lower bound: the dual function
at nearby integer weights. The path goes from a wide random radius, where the problem is smooth and easy, to a narrow one, by
Newton steps with exact second derivatives (:mod:`ball_newton`); where change sets sit on the border of the ball and the dual
has kinks, the weights move linearly in the width, and their extrapolation to width 0 closes the lower bound. Then the
weights are put on grids (:mod:`ball_rounding`, :mod:`ball_certificate`) and both bounds are recomputed from the law and the
certificate alone.

Time O(m × frequencies) a Newton step, O(m × window) for the certificate, m × window about 10^10 at most.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from optrr_solvers.balls import certificate as ball_certificate
from optrr_solvers.balls import pairs as ball_pairs
from optrr_solvers.balls.moments import Classes, CountedMoments, MomentSource, SpectralMoments, TooSharp
from optrr_solvers.balls.newton import STUCK, OutOfTime, Point, minimise, rescaled, unstuck
from optrr_solvers.balls.rounding import Fit, fitted
from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.errors import MethodTooLarge, SolveFailed
from optrr_solvers.problem import FloatArray, Problem
from optrr_solvers.solution import Solution, checked

METHOD = "ball"

# Vectors of counts times classes up to which they are listed: 64 MB.
_COUNTED_WORK = 1 << 22
# Widths of the radius, in units in which the weights are nats.
_FIRST_WIDTH, _LAST_WIDTH, _NARROWING = 0.5, 1e-6, 0.3
# Widths that differ by this factor may be extrapolated from.
_APART = 1.5
# So many widths in a row at which Newton stays stuck are the last.
_MOST_STUCK = 2
# Totals of the law at once, which draws are proportional to: a coarser grid is used from the first number on while it costs no
# more than this share of ln Q, and beyond the second at any cost.
_LAW_WINDOW, _MOST_LAW_WINDOW, _LAW_SHARE = 1 << 16, 1 << 18, 2e-5
# Accuracies above the request by more than this are mentioned.
_EXACT = 1e-8
# With many attributes the aim is this share of the relative tolerance: a finer grid would cost minutes for nothing.
_AIM = 0.003
# So many changed attributes make the total as good as continuous.
_MANY_CHANGES = 25.0
# Grids tried, each eight times finer, before rounding is given up.
_FINER_GRIDS = 3
# Weights of a counted ball are whole numbers of width × this, or of the radius × the other where that is coarser.
_COUNTED_UNIT, _COUNTED_RESOLUTION = 1e-11, 2.0**-49


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
    out_of_time: bool = False
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
    counted = ball_certificate.cells(classes) * classes.counts.size <= _COUNTED_WORK
    source: MomentSource = CountedMoments(classes) if counted else SpectralMoments(classes)
    path = _follow(classes, source, options, deadline)
    fit = _law(classes, path, options, counted, deadline)
    return _finish(problem, fit, _certificate(classes, path, options, counted), path, options, started)


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


def _follow(classes: Classes, source: MomentSource, options: BallOptions, deadline: float) -> _Path:
    """Narrow the radius until the bracket is within half the tolerance, the frequencies run out, or the time does."""
    path, w, width, stuck = _Path(), classes.epsilons.copy(), _FIRST_WIDTH, 0
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
        stuck = stuck + 1 if point.spread > STUCK else 0
        if path.upper - path.lower <= 0.5 * aim(options, path.upper) or stuck == _MOST_STUCK:
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
    unit = ball_certificate.size(classes) * ball_certificate.window_of(classes, w) / ball_certificate.WORK_ON_THE_WAY
    changed = float(classes.counts @ (point.moments.changed / point.moments.mass))
    if ball_certificate.spread_out(classes, w) or (
        changed > _MANY_CHANGES and unit**2 * changed / 24 > 0.2 * point.width**2
    ):
        # rounding would cost more than the width: with many changes the total is as good as continuous, and the loss is
        # half the width's square
        return point.log_ratio - point.width**2 * min(1.0, point.log_ratio)
    return ball_certificate.bound(
        classes, ball_certificate.integer_weights(classes, w, ball_certificate.WORK_ON_THE_WAY, 0.0)
    )


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
    fine, window = math.sqrt(3 * tolerance / changed), ball_certificate.window_of(classes, point.w)
    coarse = min(math.sqrt(12 * _LAW_SHARE * point.log_ratio / changed), window / _LAW_WINDOW)
    # a profile needs a few cells per width for its transform to end
    return min(max(fine, coarse, window / _MOST_LAW_WINDOW, ball_certificate.FINEST_UNIT), point.width / 4)


def _certificate(classes: Classes, path: _Path, options: BallOptions, counted: bool) -> Certificate:
    assert path.point is not None
    w = path.weights if path.weights is not None else rescaled(classes, path.point.w)
    if counted:
        return ball_certificate.counted(classes, w, path.point.w)
    return ball_certificate.on_grid(classes, w, path.point, blur(options, path.upper))
