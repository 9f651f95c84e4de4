"""Lower bounds at real weights: the whole numbers near them, and the certificate that is kept (design §3.4, §3.5)."""

import math

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.heavy import Pool
from optrr_solvers.balls.moments import Classes
from optrr_solvers.balls.newton import Point
from optrr_solvers.certificates import grid_bound, modulus_bound
from optrr_solvers.certificates.certificate import EXACT_CELLS, Certificate, lower_bound
from optrr_solvers.certificates.grid_bound import MAX_WINDOW, WeightedClasses
from optrr_solvers.laws.tilting import wrapping_distance

# Attributes times totals of a lower bound on the way (a fifth of a second) and at the end (a minute).
WORK_ON_THE_WAY, _WORK_AT_THE_END = 1 << 26, 1 << 33
_WORK_OF_A_SECOND = 1 << 30
# A bound on the way uses this grid at least: finer ones do not change it by a tenth of the tolerance.
FINEST_UNIT = 1e-6
# What the weights of a counted certificate add up to: whole numbers that double precision adds exactly, and more where the
# bound is evaluated in rationals, since at large ε weights differ by e^ε.
_COUNTED_TOTAL, _EXACT_TOTAL = 2.0**52, 2.0**240
# How many bounds are tried on the attributes with the largest ε_i alone: on the first one, the first two, and so on.
_LARGEST_ALONE = 4


def on_grid(pool: Pool, w: FloatArray, point: Point, tolerance: float, seconds: float) -> Certificate:
    """At pooled weights ``w``, on a grid whose rounding costs a share of ``tolerance`` where ``seconds`` are enough for it."""
    work = int(min(_WORK_AT_THE_END, max(seconds * _WORK_OF_A_SECOND, WORK_ON_THE_WAY)))
    unit = _unit(pool, point, tolerance)
    return Certificate(_members(pool.whole), integer_weights(pool.whole, pool.weights(w), work, unit))


def counted(classes: Classes, *weights: FloatArray) -> Certificate:
    """The certificate with the best bound of several weights, where change sets are counted and any grid will do.

    ``weights``, of all classes, lose their digits where flips lie many orders apart; the largest ε_i alone then prove more.
    """
    total = _EXACT_TOTAL if cells(classes) <= EXACT_CELLS else _COUNTED_TOTAL
    falling = np.sort(classes.epsilons)[::-1]
    largest = [np.where(classes.epsilons >= e, classes.epsilons, 0.0) for e in falling[:_LARGEST_ALONE]]
    certificates = [
        Certificate(_members(classes), tuple(int(x) for x in np.round(w * (total / float(w @ classes.counts)))))
        for w in (*weights, classes.epsilons, *largest)
    ]
    return max(certificates, key=lambda certificate: lower_bound(classes.problem, certificate))


def _unit(pool: Pool, point: Point, tolerance: float) -> float:
    """Rounding a weight costs u²/24 per changed attribute, and up to u where few change sets lie at the border."""
    changed = float(pool.classes.counts @ (point.moments.changed / point.moments.mass))
    smooth = math.sqrt(2 * tolerance / max(changed, 1.0))
    second = size(pool.whole) * window_of(pool.classes, point.w) / _WORK_OF_A_SECOND
    return min(smooth, max(tolerance / 20, second))


def bound(classes: Classes, weights: tuple[int, ...]) -> float:
    """ε in nats that no mechanism goes below, at whole weights."""
    return grid_bound.lower_bound(WeightedClasses.of(classes.problem, _members(classes), weights))


def integer_weights(classes: Classes, w: FloatArray, work: int, unit: float) -> tuple[int, ...]:
    """Weights on a grid of ``unit`` nats, or the finest whose bound costs ``work`` at most."""
    if spread_out(classes, w):
        unit = FINEST_UNIT
    else:
        window = window_of(classes, w)
        unit = max(size(classes) * window / work, 4 * window / MAX_WINDOW, unit, FINEST_UNIT)
    return tuple(int(x) for x in np.round(w / unit))


def spread_out(classes: Classes, w: FloatArray) -> bool:
    """Whether the bound is a sum over frequencies, which takes any weights; with a margin for their rounding."""
    radius = classes.radius(w)
    return modulus_bound.spread(classes.log_odds, classes.counts, w, radius) > 1.1 * modulus_bound.SPREAD


def window_of(classes: Classes, w: FloatArray) -> float:
    """Nats of total that a dynamic program holds at once."""
    radius = classes.radius(w)
    return min(radius, wrapping_distance(classes.log_odds, classes.counts, w, radius, 1.0))


def size(classes: Classes) -> float:
    """m."""
    return float(classes.counts.sum())


def cells(classes: Classes) -> float:
    """Vectors of counts; infinite where nobody could list them."""
    return float(np.prod(classes.counts + 1)) if classes.counts.size <= 64 else math.inf


def _members(classes: Classes) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(c.tolist()) for c in classes.members)
