"""From real weights to whole numbers: a BallLaw on a grid that meets every accuracy, and the certificate (theory §3.5).

The weights are written as unit × (a_i + b_i) and rounded at random, which blurs the ball a little: the flip
probabilities move, smoothly in w. A few Newton steps with the smooth ball's Hessian put them back. The mixture removes
the rest:

    Q = 1 + 1/(E_μ[t] min_i ρ_i),     ρ_i = (f_i − c_i)/(d_i − f_i),

makes the worst attribute exact and the others at most more accurate than asked for. Lower bounds take the whole numbers
nearest to the weights (theory §3.4).

Q stays an exact bound and every accuracy is met whatever the unit. On a coarse grid fewer totals occur, so that the
automaton is small: about Σ_i min(total so far, radius)/unit states. A coarse unit costs ε, in second order of unit and
width.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.moments import Classes, SpectralMoments, TooSharp
from optrr_solvers.balls.newton import Allowance, OutOfTime, Point, Pool, direction, minimise, rescaled
from optrr_solvers.certificates import grid_bound
from optrr_solvers.certificates.certificate import EXACT_CELLS, Certificate, lower_bound
from optrr_solvers.certificates.grid_bound import MAX_WINDOW, WeightedClasses
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.tilting import wrapping_distance
from optrr_solvers.laws.weighted_ball import TOTAL_LIMIT, GridTooFine, WeightedBall, soft
from optrr_solvers.problem import Problem

# Attributes times totals of a lower bound on the way (a fifth of a second) and at the end (a minute).
WORK_ON_THE_WAY, _WORK_AT_THE_END = 1 << 26, 1 << 33
_WORK_OF_A_SECOND = 1 << 30
# From this many changed attributes on, the total is treated as continuous.
MANY_CHANGES = 25.0
# A bound on the way uses this grid at least: finer ones do not change it by a tenth of the tolerance.
FINEST_UNIT = 1e-6
# What the weights of a counted certificate add up to: whole numbers that double precision adds exactly, and more where
# the bound is evaluated in rationals, since at large ε weights differ by e^ε.
_COUNTED_TOTAL, _EXACT_TOTAL = 2.0**52, 2.0**240
# How many bounds are tried on the attributes with the largest ε_i alone: on the first one, the first two, and so on.
_LARGEST_ALONE = 4
_STEPS = 25
# Each f_i is met to this, relatively: so are the attribute ε, absolutely.
_SPREAD = 1e-9
# At distances below this, a step that does not halve the distance is the last one, because only rounding is left.
_ENOUGH = 1e-8
# A margin for the rounding of ρ and of the mass, so that no attribute misses its accuracy.
_MARGIN = 2.0**-42
# A weight this many widths beyond the radius is as good as any heavier one.
_REACH = 10.0
# Flips below which attributes are pooled, in the order tried (as in the ball solver).
_HEAVY_FLIPS = (1e-4, 0.0)
# Classes times frequencies of one search, and of one evaluation in it: a second or two.
_COARSE_WORK = 1 << 23
# Width of the radius of a coarse ball, in units of the weights, and at least so many nats.
_COARSE_WIDTH, _NARROWEST = 0.25, 0.01


def grid_certificate(pool: Pool, w: FloatArray, unit: float, seconds: float) -> Certificate:
    """Build the certificate at pooled weights ``w`` on a grid of ``unit`` nats.

    The grid is coarser if ``seconds`` are not enough for it.
    """
    work = int(min(_WORK_AT_THE_END, max(seconds * _WORK_OF_A_SECOND, WORK_ON_THE_WAY)))
    return Certificate(pool.whole.problem.classes, integer_weights(pool.whole, pool.weights(w), work, unit))


def counted_certificate(classes: Classes, *weights: FloatArray) -> Certificate:
    """Build the certificate with the best bound of several weights.

    Change sets are counted, so any grid is possible.

    ``weights``, of all classes, lose their digits where flips lie many orders apart; the largest ε_i alone then prove
    more.
    """
    total = _EXACT_TOTAL if cells(classes) <= EXACT_CELLS else _COUNTED_TOTAL
    falling = np.sort(classes.epsilons)[::-1]
    largest = [np.where(classes.epsilons >= e, classes.epsilons, 0.0) for e in falling[:_LARGEST_ALONE]]
    certificates = [
        Certificate(classes.problem.classes, tuple(int(x) for x in np.round(w * (total / float(w @ classes.counts)))))
        for w in (*weights, classes.epsilons, *largest)
    ]
    return max(certificates, key=lambda certificate: lower_bound(classes.problem, certificate))


def grid_unit(pool: Pool, point: Point, tolerance: float) -> float:
    """Choose a unit whose rounding costs a part of ``tolerance`` near a point.

    Rounding a weight costs u²/24 per changed attribute, a hundredth of the tolerance, and up to u where few change sets
    lie at the border.
    """
    changed = float(pool.classes.counts @ (point.moments.changed / point.moments.mass))
    smooth = math.sqrt(tolerance / (4 * max(changed, 1.0)))
    if changed > MANY_CHANGES:
        return smooth
    second = attribute_count(pool.whole) * window_of(pool.classes, point.w) / _WORK_OF_A_SECOND
    return min(smooth, max(tolerance / 20, second))


def estimated_bound(classes: Classes, weights: tuple[int, ...]) -> float:
    """Compute the lower bound of ε, in nats, at integer weights."""
    return grid_bound.lower_bound(WeightedClasses.of(classes.problem, classes.problem.classes, weights))


def integer_weights(classes: Classes, w: FloatArray, work: int, unit: float) -> tuple[int, ...]:
    """Round weights to a grid of ``unit`` nats.

    If the bound would cost more than ``work``, to the finest grid that does not.
    """
    if spread_out(classes, w):
        unit = FINEST_UNIT
    else:
        window = window_of(classes, w)
        unit = max(attribute_count(classes) * window / work, 4 * window / MAX_WINDOW, unit, FINEST_UNIT)
    return tuple(map(int, np.round(w / unit).tolist()))


def spread_out(classes: Classes, w: FloatArray) -> bool:
    """Check that the bound is a sum over frequencies, which takes any weights.

    There is a margin for the weights' rounding.
    """
    radius = classes.radius(w)
    return grid_bound.spread(classes.log_odds, classes.counts, w, radius) > 1.1 * grid_bound.SPREAD


def window_of(classes: Classes, w: FloatArray) -> float:
    """Compute the nats of total that a dynamic program holds at once."""
    radius = classes.radius(w)
    return min(radius, wrapping_distance(classes.log_odds, classes.counts, w, radius, 1.0))


def attribute_count(classes: Classes) -> float:
    """Count the attributes, m."""
    return float(classes.counts.sum())


def cells(classes: Classes) -> float:
    """Count the vectors of counts; infinite if they are too many to list."""
    return float(np.prod(classes.counts + 1)) if classes.counts.size <= 64 else math.inf


@dataclass(frozen=True, eq=False)
class RoundedLaw:
    """Noise distribution on a grid, and the overshoot of its most accurate attribute.

    ``spread`` is relative to that attribute's flip probability.
    """

    law: BallLaw
    spread: float


def fitted(pool: Pool, point: Point, unit: float, deadline: float, *, whole: bool) -> RoundedLaw | None:
    """Find the best BallLaw near ``point`` on a grid of ``unit``.

    Returns None if no distribution there meets the accuracies.

    ``whole``: weights are rounded to whole numbers, for grids so fine that it does not matter. Where ``deadline`` is
    near, the first law found stands.
    """
    classes, w, best = pool.classes, point.w, None
    for _ in range(_STEPS):
        if not classes.radius(w) + _REACH * point.width < TOTAL_LIMIT * unit:
            # at ε_i near 50 a light attribute's second derivative underflows: its step is enormous, or no number
            break
        started = time.perf_counter()
        try:
            law, rho = _attempt(pool, w, point.width, unit, whole)
        except GridTooFine:
            break
        if law is not None:
            excess = (rho - rho.min()) * classes.gaps / classes.f
            # the pooled class is left out, because heavy attributes are meant to be more accurate than requested
            spread = float(excess[: pool.light.size].max(initial=0.0))
            better = best is None or spread < 0.5 * best.spread
            if best is None or law.log_ratio < best.law.log_ratio:
                best = RoundedLaw(law, spread)
            # the next step takes as long, and the lower bound about as long again
            late = time.perf_counter() + 2 * (time.perf_counter() - started) > deadline
            if spread < _SPREAD or (not better and spread < _ENOUGH) or late:
                break
        g = classes.counts * classes.gaps
        mean = float((g * w) @ rho) / float(g @ w)
        step = direction(classes, point, point.moments.mass * g * (rho - mean))
        down = step < 0
        limit = 0.5 * float(np.min(-w[down] / step[down])) if down.any() else 1.0
        w = w + min(1.0, limit) * step
    return best


def ball_on_grid(pool: Pool, w: FloatArray, width: float, unit: float, whole: bool) -> WeightedBall:
    """Build the soft ball of radius w·f, corrected for rounding.

    Weights are of all classes, in units of the grid.
    """
    classes = pool.classes
    scaled = w / unit
    floors = np.round(scaled) if whole else np.floor(scaled)
    # tilted by one per nat, a weight that is rounded up with this chance acts as the weight itself: E e^−W = e^−w
    rest = np.zeros_like(w) if whole else np.expm1(unit * (floors - scaled)) / np.expm1(-unit)
    fractions = np.minimum(rest, 1 - 2.0**-53)
    # the tilted chance that it was rounded up
    up = fractions * np.exp(-unit) / (1 + fractions * np.expm1(-unit))
    radius = float(classes.counts @ (classes.f * (floors + up)))
    most = int(radius + _REACH * width / unit) + 2
    heavy = floors > most
    floors = pool.spread(np.where(heavy, most, floors), most)
    fractions = pool.spread(np.where(heavy, 0.0, fractions), 0.0)
    return soft(floors.astype(np.int64), fractions, radius, width / unit)


def _attempt(pool: Pool, w: FloatArray, width: float, unit: float, whole: bool) -> tuple[BallLaw | None, FloatArray]:
    """Build the distribution at these weights and ρ of the pooled classes.

    Returns None for the distribution if it misses an accuracy.
    """
    ball = ball_on_grid(pool, w, width, unit, whole)
    law = BallLaw(pool.whole.problem.sizes, pool.whole.problem.classes, [MixedBall(1.0, ball)], 0.0)
    part = law.inside[0]
    rho = (pool.classes.f - pool.changed(part.changed)) / pool.classes.gaps
    low = float(((pool.whole.f - part.changed) / pool.whole.gaps).min())
    if not low > 0:
        return None, rho
    log_ratio = float(np.logaddexp(0.0, -(part.log_mass + np.log(low)))) * (1 + 2.0**-51) + _MARGIN
    return law.sharpened(log_ratio), rho


def coarse_ball(problem: Problem, totals: float) -> BallLaw | None:
    """Find the ball of a problem with about ``totals`` totals up to its radius.

    The problem must have neither pairs nor caps.

    Every accuracy of the problem is met. None where the grid is too coarse for them.
    """
    whole = Classes.of(problem)
    pools = [Pool.of(whole, flip) for flip in _HEAVY_FLIPS]
    # where no attribute is heavy both are the same
    pools = pools if pools[0].heavy.size else pools[1:]
    classes = pools[-1].classes
    unit = float(classes.radius(classes.epsilons)) / totals
    laws = [_coarse(pool, unit, max(_COARSE_WIDTH * unit, _NARROWEST)) for pool in pools]
    return min((law for law in laws if law is not None), key=lambda law: law.log_ratio, default=None)


def _coarse(pool: Pool, unit: float, width: float) -> BallLaw | None:
    start = rescaled(pool.classes, pool.classes.epsilons.copy())
    try:
        source = SpectralMoments(pool.classes, _COARSE_WORK)
        point = minimise(pool.classes, source, start, width, Allowance(math.inf, float(_COARSE_WORK)))
    except (TooSharp, OutOfTime):
        return None
    if not unit < pool.classes.radius(point.w):
        return None
    try:
        with np.errstate(all="ignore"):
            fit = fitted(pool, point, unit, math.inf, whole=False)
    except (ValueError, ZeroDivisionError):
        # on a grid far too coarse a step may end at weights below 0, or at a ball that holds nothing
        return None
    return None if fit is None else fit.law
