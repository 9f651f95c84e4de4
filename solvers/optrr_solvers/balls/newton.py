"""Newton's method for the smoothed dual, from wide to narrow radii, with heavy attributes pooled (theory §3.3, §3.5).

Minimise ln φ_h(w) − ln w·g, g = n(d−f), which does not depend on the scale of w when h scales along; the direction
solves H x = −(∇φ_h − ρ g) on the slice g·x = 0 with the exact Hessian. At the minimum ρ_i = (f_i τ − c_i)/(d_i−f_i) is
the same for all i (τ the ball's mass, c_i its changed mass), and the ball mixed with the uniform answer meets every
accuracy with

    Q = 1 + 1/(φ_h min_i ρ_i),

a true upper bound at every w, since the min leaves every other attribute more accurate than asked for.

An attribute whose flip probability is tiny (f = e^{−20}, say) may hardly ever change inside the ball, and the weight
that brings this about lies orders of magnitude above the others: second derivatives do not lead there. But to forbid
the change altogether costs next to nothing: inside the ball the attribute changes with probability f at most, so the
ball loses a share f of its mass. So the heavy attributes H are never changed inside; among them the smallest ratio

    ρ_H = min_H f_i/(d_i − f_i)

bounds Q = 1 + 1/(E_μ[t] min ρ), and all others are more accurate than asked for. In the dual, h⁺ is the same as with
one attribute that never changes, of f = 1, d − f = 1/ρ_H and weight c = w_h f_h: the light attributes and this one are
a problem of the same form without any extremes. Its ρ_H may be far below what double precision tells from 0 next to the
light attributes' flips; then a larger one, ``_LEAST_RHO``, replaces it, which makes the light attributes more accurate
by as much.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.balls.moments import BallMoments, Classes, MomentSource, TooSharp

# Costs this times Σ ε_i (d_i − f_i) nats, and leaves nine digits of ρ.
_LEAST_RHO = 1e-7
# Log odds of a change for an attribute that never changes: its exponential is 0.
_NEVER = -1e4
# ρ_i agree to this: attribute ε then agree to better than 1e-9.
_SPREAD = 1e-9
# With more classes than this, the tolerance grows in proportion to them, as rounding does; the law's own accuracies are
# met afterwards, on its grid.
_CLASSES = 10_000
# Allows for a few dozen roundings of the ball's mass.
_ROUNDING = 1e-14
_MOST_STEPS = 80
_MOST_HALVINGS = 30
# Newton counts as stuck where it stops with ρ_i this far apart. The cause is a few heavy attributes: where their
# weights belong, which can be orders of magnitude away, second derivatives do not show.
STUCK = 1e-3
# Time is kept for the rounding and for both bounds, which together take as long as this many evaluations.
FINISHING = 4
# A step may take a weight this share of the way to 0, so that weights stay positive.
_TO_BOUNDARY = 0.9


@dataclass(frozen=True, eq=False)
class Pool:
    """Classes with the heavy ones pooled into one.

    ``classes`` are the ``light`` classes of ``whole``, followed by one for all ``heavy`` ones, if any.
    """

    whole: Classes
    classes: Classes
    light: IntArray
    heavy: IntArray

    @classmethod
    def of(cls, whole: Classes, flip: float) -> "Pool":
        """Merge the attributes that flip with a probability less than ``flip``."""
        light, heavy = np.flatnonzero(whole.f >= flip), np.flatnonzero(whole.f < flip)
        if not heavy.size:
            return cls(whole, whole, light, heavy)
        least = float(np.min(whole.f[heavy] / whole.gaps[heavy]))
        stand_in = max(least, _LEAST_RHO)
        kept = float(whole.counts[heavy] @ np.log1p(-whole.d[heavy]))
        pooled = replace(
            whole,
            members=[whole.members[g] for g in light.tolist()],
            counts=np.append(whole.counts[light], 1.0),
            log_odds=np.append(whole.log_odds[light], _NEVER),
            d=np.append(whole.d[light], 0.0),
            f=np.append(whole.f[light], 1.0),
            gaps=np.append(whole.gaps[light], 1 / stand_in),
            epsilons=np.append(whole.epsilons[light], 1.0),
            log_kept=kept,
            share=least / stand_in,
        )
        return cls(whole, pooled, light, heavy)

    def weights(self, w: FloatArray) -> FloatArray:
        """Expand pooled weights ``w`` to all classes, shape (G,), for a lower bound.

        The attributes of the smallest ratio share c; the other heavy ones get the radius itself, which is enough to
        leave every change set with one of them outside the ball.
        """
        if not self.heavy.size:
            return w
        out = np.empty(self.whole.counts.size)
        out[self.light] = w[:-1]
        f, counts = self.whole.f[self.heavy], self.whole.counts[self.heavy]
        ratio = f / self.whole.gaps[self.heavy]
        first = ratio <= ratio.min() * (1 + 1e-12)
        taken = float(counts[~first] @ f[~first])
        radius = self.classes.radius(w) / max(1 - taken, 0.5)
        out[self.heavy] = radius
        out[self.heavy[first]] = np.maximum(w[-1] / (f[first] * float(counts[first].sum())), radius)
        return out

    def pooled(self, whole: FloatArray) -> FloatArray:
        """Compute pooled weights with the same dual function as weights of all classes.

        The inverse of :meth:`weights`.
        """
        if not self.heavy.size:
            return whole
        share = self.whole.counts[self.heavy] @ (whole[self.heavy] * self.whole.f[self.heavy])
        return np.append(whole[self.light], share)

    def log_advantage(self, whole: FloatArray) -> float:
        """Compute ln of w·(d−f) over all classes."""
        return float(np.log(self.whole.counts @ (self.whole.gaps * whole)))

    def spread(self, values: FloatArray, at_heavy: float) -> FloatArray:
        """Expand values of pooled classes to all classes, shape (G,).

        Heavy classes get ``at_heavy``.
        """
        if not self.heavy.size:
            return values
        out = np.full(self.whole.counts.size, at_heavy)
        out[self.light] = values[:-1]
        return out

    def changed(self, changed: FloatArray) -> FloatArray:
        """Restrict changed masses by class to the pooled classes."""
        return changed if not self.heavy.size else np.append(changed[self.light], 0.0)


@dataclass(frozen=True)
class Allowance:
    """Limits of a search: deadline and work.

    ``deadline`` is in seconds of the performance counter, ``work`` in the count of one source.
    """

    deadline: float
    work: float


class OutOfTime(RuntimeError):
    """The allowance is used up; ``point`` is where the search had come to."""

    point: "Point | None" = None


@dataclass(frozen=True, eq=False)
class Point:
    """Weights with the moments there.

    ``spread``: largest |ρ_i/ρ̄ − 1|; ``log_ratio``: ln Q of the smooth ball.

    ``lowest``: the smallest ρ, the heavy attributes' own included.
    """

    w: FloatArray
    width: float
    moments: BallMoments
    objective: float
    rho: FloatArray
    mean_rho: float
    lowest: float

    @classmethod
    def of(cls, classes: Classes, source: MomentSource, w: FloatArray, width: float) -> "Point":
        """Evaluate; O(one moment evaluation)."""
        moments = source.at(w, width)
        advantage = float(classes.counts @ (classes.gaps * w))
        rho = (classes.f * moments.mass - moments.changed) / classes.gaps
        mean = float(classes.counts @ (w * rho * classes.gaps)) / advantage
        objective = moments.log_value - float(np.log(advantage))
        return cls(w, width, moments, objective, rho, mean, classes.lowest(rho))

    @property
    def spread(self) -> float:
        """Zero at the minimum."""
        return float(np.max(np.abs(self.rho / self.mean_rho - 1))) if self.mean_rho > 0 else np.inf

    def noise(self, classes: Classes) -> float:
        """Bound the spread that rounding leaves.

        ρ is a difference of numbers that may be far larger.
        """
        if not self.mean_rho > 0:
            return 0.0
        return _ROUNDING * self.moments.mass * float(np.max(classes.f / classes.gaps)) / self.mean_rho

    @property
    def log_ratio(self) -> float:
        """ln Q in nats, infinite while some attribute is too inaccurate inside the ball."""
        if not self.lowest > 0:
            return np.inf
        return float(np.logaddexp(0.0, -self.moments.log_value - np.log(self.lowest)))


def direction(classes: Classes, point: Point, residual: FloatArray) -> FloatArray:
    """Solve H x = −``residual`` on the slice g·x = 0, shape (G,).

    The residual is relative to φ.
    """
    g = classes.counts * classes.gaps
    a, b = point.moments.curvature.solve(np.stack([residual, g], axis=1)).T
    return np.asarray(-(a - b * ((g @ a) / (g @ b))))


def minimise(classes: Classes, source: MomentSource, w: FloatArray, width: float, allowance: Allowance) -> Point:
    """Minimize by Newton's method until ρ is constant or no step improves.

    Raises TooSharp, or OutOfTime after the first point.
    """
    if source.work:
        _watch(source, allowance)
    return _newton(classes, source, Point.of(classes, source, w, width), allowance)


def _newton(classes: Classes, source: MomentSource, point: Point, allowance: Allowance) -> Point:
    enough = _SPREAD * max(1.0, classes.counts.size / _CLASSES)
    try:
        for _ in range(_MOST_STEPS):
            if point.spread < max(enough, point.noise(classes)):
                break
            _watch(source, allowance)
            residual = classes.counts * classes.gaps * (point.rho - point.mean_rho)
            step = direction(classes, point, residual)
            slope = float(residual @ step)
            better = _line_search(classes, source, point, step, slope, allowance) if slope < 0 else None
            if better is None:
                break
            point = better
    except OutOfTime as late:
        late.point = point
        raise
    return point


def _line_search(  # noqa: PLR0913 (one search, all of it needed)
    classes: Classes, source: MomentSource, point: Point, step: FloatArray, slope: float, allowance: Allowance
) -> Point | None:
    down = step < 0
    length = min(1.0, _TO_BOUNDARY * float(np.min(-point.w[down] / step[down]))) if down.any() else 1.0
    # a smaller decrease is within the rounding of the objective
    noise = 1e-13 * (1 + abs(point.objective))
    for _ in range(_MOST_HALVINGS):
        _watch(source, allowance)
        try:
            new = Point.of(classes, source, point.w + length * step, point.width)
        except TooSharp:
            new = None
        if new is not None and new.objective <= point.objective + 1e-4 * length * slope + noise:
            return new
        length *= 0.4
    return None


def _watch(source: MomentSource, allowance: Allowance) -> None:
    if (
        source.work + source.last > allowance.work
        or time.perf_counter() > allowance.deadline - FINISHING * source.slowest
    ):
        raise OutOfTime


def rescaled(classes: Classes, w: FloatArray) -> FloatArray:
    """Scale weights to natural units, in which the tilt at their radius is 1."""
    return np.asarray(w * classes.tilt(w))
