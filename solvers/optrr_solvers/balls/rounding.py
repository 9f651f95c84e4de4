"""From real weights to a BallLaw on an integer grid, with every accuracy met (design §3.5).

The weights are written as unit × (a_i + b_i) and rounded at random, which blurs the ball a little: the flip probabilities move,
smoothly in w. A few Newton steps with the smooth ball's Hessian put them back. What is left is settled by the mixture:

    Q = 1 + 1/(E_μ[t] min_i ρ_i),     ρ_i = (f_i − c_i)/(d_i − f_i),

makes the worst attribute exact and the others at most more accurate than asked for.
"""

import time
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray
from optrr_solvers.balls.heavy import Pool
from optrr_solvers.balls.newton import Point, direction
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.spectrum import GridTooFine
from optrr_solvers.laws.weighted_ball import TOTAL_LIMIT, WeightedBall, soft

_STEPS = 25
# Each f_i is met to this, relatively: so are the attribute ε, absolutely.
_SPREAD = 1e-10
# At distances below this, a step that does not halve the distance is the last one, because only rounding is left.
_ENOUGH = 1e-8
# A margin for the rounding of ρ and of the mass, so that no attribute misses its accuracy.
_MARGIN = 2.0**-42
# A weight this many widths beyond the radius is as good as any heavier one.
_REACH = 10.0


@dataclass(frozen=True, eq=False)
class RoundedLaw:
    """A law and how far its most accurate attribute overshoots, as a share of its flip probability."""

    law: BallLaw
    spread: float


def fitted(pool: Pool, point: Point, unit: float, deadline: float, *, whole: bool) -> RoundedLaw | None:
    """The best BallLaw near ``point`` on a grid of ``unit``; None where no law there meets the accuracies.

    ``whole``: weights are rounded to whole numbers, for grids so fine that it does not matter. Where ``deadline`` is near, the
    first law found stands.
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


def on_grid(pool: Pool, w: FloatArray, width: float, unit: float, whole: bool) -> WeightedBall:
    """The soft ball of radius w·f, less what rounding moves, with weights of all classes in units of the grid."""
    classes = pool.classes
    scaled = w / unit
    floors = np.round(scaled) if whole else np.floor(scaled)
    fractions = np.zeros_like(w) if whole else np.minimum(scaled - floors, 1 - 2.0**-53)
    # tilted by one per nat, a weight rounded at random has a mean that is lower by its variance
    shift = unit * fractions * (1 - fractions)
    radius = float(classes.counts @ (classes.f * (floors + fractions - shift)))
    most = int(radius + _REACH * width / unit) + 2
    heavy = floors > most
    floors = pool.spread(np.where(heavy, most, floors), most)
    fractions = pool.spread(np.where(heavy, 0.0, fractions), 0.0)
    return soft(floors.astype(np.int64), fractions, radius, width / unit)


def _attempt(pool: Pool, w: FloatArray, width: float, unit: float, whole: bool) -> tuple[BallLaw | None, FloatArray]:
    """The law at these weights, None where it meets no accuracies, and ρ of the pooled classes."""
    ball = on_grid(pool, w, width, unit, whole)
    law = BallLaw(pool.whole.problem.sizes, pool.whole.members, [MixedBall(1.0, ball)], 0.0)
    part = law.inside[0]
    rho = (pool.classes.f - pool.changed(part.changed)) / pool.classes.gaps
    low = float(((pool.whole.f - part.changed) / pool.whole.gaps).min())
    if not low > 0:
        return None, rho
    log_ratio = float(np.logaddexp(0.0, -(part.log_mass + np.log(low)))) * (1 + 2.0**-51) + _MARGIN
    return law.with_ratio(log_ratio), rho
