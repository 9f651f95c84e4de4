"""One weighted ball: integer weights by randomised rounding, degrees inside at every total, and exact sums (theory §3.5).

A change set S has the random total X = Σ_{i∈S} W_i, where W_i is a_i + 1 with probability b_i and a_i otherwise, and
belongs to the ball to the degree t_S = E[G(X)], with a profile G falling from 1 to 0 around the radius. Such a t is a
mixture of sharp balls (one for each rounding and every step of G), so a density 1 + (Q−1) t never leaves [1, Q].
Profiles that rise and fall again are shells: they preserve pairs (theory §3.6).

The ball's mass E_μ[t] and its marginals are a sum over vectors of counts where these are few (:class:`CountedBall`),
and a discrete Fourier sum along the tilted contour elsewhere (:class:`SpectralBall`). With s = θ + it, z_i(s) = (r_i−1)
E[e^{−sW_i}] and the profile's transform K(s) = Σ_x G(x) e^{s(x − end)},

    E_μ[t] = Π 1/r_i · e^{…} · (1/N) Σ_k  K(s_k) e^{s_k end} Π_i (1 + z_i(s_k)),      t_k = 2πk/N,

is exact for totals on an integer grid once N exceeds the spread of the tilted total (:mod:`tilting`). The probability
that the attributes in U change as given is the same sum with A_i = z_i/(1+z_i) or 1 − A_i for i ∈ U as further factors:
the attribute's own factor is divided out pointwise, which is stable, unlike removing it from the distribution itself.

θ sits where the summand at t = 0 is least, at the saddle point of profile and total together: a profile may hold its
mass far from the middle of its knots, and away from the saddle point the sum would be left over from summands many
orders larger.

|Π (1+z_i)| is largest at t = 0, so nodes where |K| is below the rounding of its largest value are left out; for a soft
profile a few hundred remain at most, whatever the number of attributes. Errors: about 1e-14 of the largest summand.

Letters: a floors, b fractions, G profile, given by its levels at integer knots and linear in between.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp, ndtr

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.count import log_uniform_counts, pattern_given_count
from optrr_solvers.laws.tilting import ComplexArray, log_ratio, saddle_point, tail_end, wrapping_distance
from optrr_solvers.partition import Partition

# A normal radius is cut off at this many widths, which leaves out 6e-16 of its mass.
PROFILE_REACH = 8.0
# Totals stay below this, so that they are exact as doubles and sums of them as int64.
TOTAL_LIMIT = 1 << 53
# Nodes whose kernel is below this share of the largest are rounding noise.
_NEGLIGIBLE = 1e-15
# Terms that together change no sum by this share of its first are left out.
_SILENT = 1e-17
# Classes multiplied before the nodes are looked at for the first time.
_FIRST_ROWS = 32
# Complex numbers held at once: 1 MB, which stays in cache.
_CHUNK = 1 << 16
# The sum must be at least this share of its summands' absolute values, or rounding (1e-15 of them) would show in it.
_LEAST_SHARE = 1e-6
# The smallest and the largest tilt: beyond them all the mass is on one total. They also serve where the saddle point
# lies farther out.
_STEEPEST, _FLATTEST = 50.0, 1e-12
# Bisections of a tilt: each halves its interval, and any θ near the saddle point serves.
_BISECTIONS = 60
# Above this many nodes a grid is too fine for its ball: 256 MB a vector of 16 bytes.
MAX_NODES = 1 << 24
# Vectors of counts up to which they are summed one by one, 8 bytes each; with more, the Fourier sum is faster.
MAX_COUNTED = 1 << 20
# Every class is an axis of the table of counts; numpy takes no more than 32 or 64 of them.
MAX_AXES = 20


@dataclass(frozen=True, eq=False)
class WeightedBall:
    """Weights of G classes and a profile over totals.

    Parameters
    ----------
    floors, fractions
        a_g ≥ 0 and 0 ≤ b_g < 1 for each class, shape (G,).
    knots
        increasing totals, shape (K,), K ≥ 2.
    levels
        G at the knots, in [0, 1], shape (K,); constant before the first; the last must be 0 and holds from there on.
    """

    floors: IntArray
    fractions: FloatArray
    knots: IntArray
    levels: FloatArray

    def __post_init__(self) -> None:
        for name, kind in (
            ("floors", np.int64),
            ("fractions", np.float64),
            ("knots", np.int64),
            ("levels", np.float64),
        ):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        if self.floors.ndim != 1 or self.floors.shape != self.fractions.shape:
            raise ValueError("a ball needs one floor and one fraction for each class")
        if np.any(self.floors < 0) or np.any(self.floors >= TOTAL_LIMIT):
            raise ValueError(f"the floors of a ball must lie in 0..2^53, got {self.floors.min()}..{self.floors.max()}")
        if not np.all((self.fractions >= 0) & (self.fractions < 1)):
            raise ValueError("the fractions of a ball must lie in [0, 1)")
        if self.knots.ndim != 1 or self.knots.size < 2 or self.knots.shape != self.levels.shape:
            raise ValueError("a profile needs at least two knots with a level each")
        if np.any(np.diff(self.knots) <= 0) or np.any(np.abs(self.knots) >= TOTAL_LIMIT):
            raise ValueError("the knots of a profile must increase and stay within 2^53")
        if not np.all((self.levels >= 0) & (self.levels <= 1)) or self.levels[-1] != 0:
            raise ValueError("the levels of a profile must lie in [0, 1] and end with 0")

    @property
    def weights(self) -> FloatArray:
        """a + b, the mean weights, shape (G,)."""
        return np.asarray(self.floors + self.fractions)

    @property
    def end(self) -> int:
        """From this total on a change set is outside."""
        return int(self.knots[-1])

    @property
    def falls(self) -> bool:
        """Whether a larger total is never more inside: the ball is no shell."""
        return bool(np.all(np.diff(self.levels) <= 0))

    def profile(self, totals: IntArray) -> FloatArray:
        """Compute the profile G at these totals, interpolated between knots.

        Distances to the knot are exact integers.
        """
        at = np.clip(np.searchsorted(self.knots, totals, side="right") - 1, 0, self.knots.size - 2)
        step = np.clip((totals - self.knots[at]) / (self.knots[at + 1] - self.knots[at]), 0.0, 1.0)
        return np.asarray(self.levels[at] + step * (self.levels[at + 1] - self.levels[at]))


def soft(floors: IntArray, fractions: FloatArray, radius: float, width: float, most_knots: int = 4096) -> WeightedBall:
    """Build a ball whose radius is normal with standard deviation ``width``.

    Numbers are in units of the grid.
    """
    low, high = int(np.floor(radius - PROFILE_REACH * width)), int(np.ceil(radius + PROFILE_REACH * width)) + 1
    if high - low < most_knots:
        knots = np.arange(low, high + 1)
    else:
        knots = np.unique(np.round(np.linspace(low, high, most_knots)).astype(np.int64))
    levels = ndtr((radius - knots) / width)
    levels[0], levels[-1] = 1.0, 0.0
    return WeightedBall(floors, fractions, knots, levels)


class GridTooFine(ValueError):
    """The ball's integer weights are too large for the transform; scale them down."""


class SpectralBall:
    """Transform of one ball over classes of alike attributes.

    Takes O(G × nodes) time, O(nodes) memory.

    ``sizes`` and ``counts`` are per class, shape (G,). ``log_mass`` is ln E_μ[t].
    """

    def __init__(self, ball: WeightedBall, sizes: IntArray, counts: FloatArray) -> None:
        from scipy.fft import next_fast_len  # noqa: PLC0415 (slow to import, and laws are read without it)

        self._ball, self._log_odds = ball, np.log(sizes - 1.0)
        self._theta = theta = _tilt(ball, self._log_odds, counts)
        n = next_fast_len(int(min(self._period(counts), 4.0 * MAX_NODES)))
        if n > MAX_NODES:
            raise GridTooFine(
                f"a ball that ends at {ball.end} needs {n} nodes; at most {MAX_NODES}: use a coarser grid"
            )
        kernel, top = _kernel(ball, theta, n)
        half = kernel[: n // 2 + 1]
        keep = np.flatnonzero(np.abs(half) > _NEGLIGIBLE * np.abs(half[0]))
        self._t = keep * (2 * np.pi / n)
        # nodes come in conjugate pairs except the first and, for even n, the last
        single = (keep == 0) | (2 * keep == n)
        first = half[keep] * np.where(single, 1.0, 2.0) / n
        self._terms, self._log_base = self._times_product(first, counts)
        self._total = float(self._terms.sum().real)
        if not self._total > _LEAST_SHARE * float(np.abs(self._terms).sum()):
            raise GridTooFine("the ball is empty or holds too little to be computed; enlarge its radius")
        self.log_mass = (
            self._log_base
            + top
            + theta * ball.end
            + float(np.log(self._total))
            - float(counts @ np.log(sizes.astype(float)))
        )

    def _period(self, counts: FloatArray) -> float:
        """Find the number of nodes without aliasing at the profile."""
        ball, theta = self._ball, self._theta
        if _bounded_below(ball):
            end = tail_end(self._log_odds, counts, ball.weights, theta)
            return min(end, float(counts @ (ball.floors + 1))) + ball.end - max(float(ball.knots[0]), 0.0) + 64
        radius = max(float(ball.knots[0] + ball.knots[-1]) / 2, 0.5)
        reach = wrapping_distance(self._log_odds, counts, ball.weights, radius, theta)
        return reach + 2 * float(ball.knots[-1] - ball.knots[0]) + 64

    def _times_product(self, terms: ComplexArray, counts: FloatArray) -> tuple[ComplexArray, float]:
        """Compute terms times Π (1+z_i) e^{s·end} relative to t = 0.

        Also returns ln of the latter without the exponential.

        No factor exceeds 1 in absolute value, so a node that has become negligible stays so: it is dropped on the way.
        """
        weights = self._ball.weights
        z0 = self._odds(np.arange(counts.size), np.zeros(1))[:, 0].real
        p = z0 / (1 + z0)
        order = np.argsort(-counts * p * (1 - p), kind="stable")
        logs = 1j * self._t * (self._ball.end - float(counts @ (p * weights)))
        least = np.log(_SILENT * abs(terms[0]) / terms.size)
        start = 0
        while start < counts.size:
            rows = order[start : start + max(_FIRST_ROWS, min(start, _CHUNK // self._t.size))]
            start += rows.size
            z = self._odds(rows, self._t)
            # centred at the tilted mean: the phases stay small and their sum keeps its digits
            centre = 1j * float(counts[rows] @ (p[rows] * weights[rows]))
            logs += counts[rows] @ log_ratio(z, z0[rows]) + centre * self._t
            heard = np.log(np.abs(terms)) + logs.real > least
            heard[0] = True
            self._t, terms, logs = self._t[heard], terms[heard], logs[heard]
        return terms * np.exp(logs), float(counts @ np.log1p(z0))

    def _odds(self, rows: IntArray, t: FloatArray) -> ComplexArray:
        """Compute z for the classes and frequencies, shape (rows, nodes)."""
        floors, fractions = self._ball.floors[rows].astype(np.float64), self._ball.fractions[rows]
        z = np.exp(self._log_odds[rows] - self._theta * floors)[:, None] * np.exp(-1j * np.multiply.outer(floors, t))
        return np.asarray(z * (1 + np.multiply.outer(fractions, np.expm1(-self._theta - 1j * t))))

    @cached_property
    def changed(self) -> FloatArray:
        """Pr(one member of the class changed | ball) for each class, shape (G,)."""
        g = self._log_odds.size
        out = np.empty(g)
        for rows in np.array_split(np.arange(g), max(1, g * self._t.size // _CHUNK)):
            z = self._odds(rows, self._t)
            out[rows] = ((z / (1 + z)) @ self._terms).real / self._total
        return np.clip(out, 0.0, 1.0)

    def marginal(self, which: IntArray) -> FloatArray:
        """Compute probabilities of the flip patterns of classes in ``which``.

        One attribute from each: shape (2,)*k.
        """
        z = self._odds(which, self._t)
        kept, changed = 1 / (1 + z), z / (1 + z)
        out = np.empty((2,) * which.size)
        # one pattern of the first axes at a time keeps the memory at 2^12 vectors of nodes
        inner = min(which.size, max(0, int(np.log2(max(1, _CHUNK // max(1, self._t.size))))))
        outer = which.size - inner
        for first in np.ndindex((2,) * outer):
            block = self._terms[None, :]
            for axis, bit in enumerate(first):
                block = block * (changed if bit else kept)[axis]
            for axis in range(outer, which.size):
                block = np.stack([block * kept[axis], block * changed[axis]], axis=1).reshape(-1, self._t.size)
            out[first] = (block.sum(axis=1).real / self._total).reshape((2,) * inner)
        return np.maximum(out, 0.0)

    def both_changed(self) -> FloatArray:
        """Compute Pr(one of class g and another of class h changed | ball), (G, G).

        Takes one matrix product.
        """
        g = self._log_odds.size
        out = np.zeros((g, g))
        for nodes in np.array_split(np.arange(self._t.size), max(1, g * self._t.size // _CHUNK)):
            z = self._odds(np.arange(g), self._t[nodes])
            a = z / (1 + z)
            out += ((a * self._terms[nodes]) @ a.T).real
        return out / self._total


def _kernel(ball: WeightedBall, theta: float, n: int) -> tuple[ComplexArray, float]:
    """Compute K(s_k) e^{−top} for k = 0..n−1, and top.

    The constant part in closed form, the band by a fast transform.
    """
    band, distance = _band(ball)
    top = max(0.0, -theta * float(distance[0]))
    padded = np.zeros(n)
    padded[distance] = band * np.exp(-theta * distance - top)
    k = np.asarray(np.fft.fft(padded))
    if _bounded_below(ball):
        return k, top
    s = theta + 2j * np.pi * np.arange(n) / n
    # totals before the first knot: distances band.size, band.size + 1, … without end; what lies below total 0 has no
    # mass
    tail = np.exp(-s * band.size) / -np.expm1(-s)
    return np.asarray(k + ball.levels[0] * tail), top


def _bounded_below(ball: WeightedBall) -> bool:
    """Check that the profile's knots cover it, as no totals are below 0."""
    return bool(ball.knots[0] <= 0 or ball.levels[0] == 0)


def _band(ball: WeightedBall) -> tuple[FloatArray, IntArray]:
    """Return G at totals from the first knot, or 0, to the last.

    Also returns their distances from the last.
    """
    low = max(int(ball.knots[0]), 0) if _bounded_below(ball) else int(ball.knots[0])
    nodes = ball.end + 1 - low
    if nodes > MAX_NODES:
        raise GridTooFine(
            f"a ball that ends at {ball.end} needs {nodes} nodes; at most {MAX_NODES}: use a coarser grid"
        )
    totals = np.arange(low, ball.end + 1)
    return ball.profile(totals), ball.end - totals


def _tilt(ball: WeightedBall, log_odds: FloatArray, counts: FloatArray) -> float:
    """Find θ that minimizes K(θ) e^{θ end} Π (1+z_i(θ)), convex in θ."""
    weights, (band, distance) = ball.weights, _band(ball)
    if not ball.levels.any():
        raise GridTooFine("the ball is empty; enlarge its radius")
    bounded = _bounded_below(ball)

    def slope(theta: float) -> float:
        """Compute the derivative of the log objective, which increases in θ.

        It compares distances from the end of the tilted profile's mean and of the tilted total.
        """
        return ball.end - float(counts @ (expit(log_odds - theta * weights) * weights)) - mean_distance(theta)

    def mean_distance(theta: float) -> float:
        exponents = -theta * distance
        masses = band * np.exp(exponents - (top := float(exponents.max())))
        total, first = float(masses.sum()), float(masses @ distance)
        if not bounded:
            # below the band the profile is constant: a geometric series over the distances from the band's size upwards
            rest = float(ball.levels[0]) * np.exp(-theta * band.size - top) / -np.expm1(-theta)
            total, first = total + rest, first + rest * (band.size + 1 / np.expm1(theta))
        return first / total

    if bounded:
        return _root(slope, -1.0 / max(ball.end, 1), 1.0 / max(ball.end, 1))
    start = saddle_point(log_odds, counts, weights, max(float(ball.knots[0] + ball.knots[-1]) / 2, 0.5))
    return _root(slope, start / 4, start * 4, positive=True)


def _root(slope: Callable[[float], float], low: float, high: float, *, positive: bool = False) -> float:
    """Find where the increasing ``slope`` changes sign, in a growing bracket."""
    while slope(low) > 0 and abs(low) < _STEEPEST and (not positive or low > _FLATTEST):
        low = low / 4 if positive else 4 * low
    while slope(high) < 0 and high < _STEEPEST:
        high *= 4
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        if high - low <= 1e-3 * max(abs(low), abs(high)):
            break
    return (low + high) / 2


class CountedBall:
    """A ball's mass and marginals by a sum over all vectors of counts.

    Results are exact up to rounding.
    """

    def __init__(self, ball: WeightedBall, sizes: IntArray, classes: Partition) -> None:
        self._counts = classes.counts
        inside = ball.profile(totals_of(self._counts, ball))
        with np.errstate(divide="ignore"):
            logs = log_uniform_counts(sizes, classes) + np.log(inside)
        self.log_mass = float(logsumexp(logs))
        # an empty ball has no probabilities, and no weight in a distribution
        self._probabilities = np.exp(logs - self.log_mass) if self.log_mass > -math.inf else np.zeros_like(logs)

    @cached_property
    def changed(self) -> FloatArray:
        """Pr(changed | ball) per class, shape (G,)."""
        return np.array([self.marginal(np.array([g]))[1] for g in range(self._counts.size)])

    def marginal(self, which: IntArray) -> FloatArray:
        """Compute flip patterns of attributes of the classes, shape (2,)*k."""
        used = np.bincount(which, minlength=self._counts.size)
        out = self._probabilities
        for n, u in zip(self._counts, used, strict=True):
            out = (
                out.sum(axis=0)[..., None] if u == 0 else np.tensordot(out, pattern_given_count(int(n), int(u)), (0, 0))
            )
        bits = np.indices((2,) * which.size).reshape(which.size, -1)
        changed = [bits[which == g].sum(axis=0) for g in range(self._counts.size)]
        return np.asarray(out[tuple(changed)].reshape((2,) * which.size))

    def both_changed(self) -> FloatArray:
        """Compute Pr(two attributes changed | ball), shape (G, G).

        0 for the pair inside a class of one.
        """
        g = self._counts.size
        out = np.zeros((g, g))
        for a in range(g):
            for b in range(a + 1):
                if a != b or self._counts[a] > 1:
                    out[a, b] = out[b, a] = self.marginal(np.array([a, b]))[1, 1]
        return out


# A uniformly random answer's chance to fall into the ball, and its change sets there, over classes of alike attributes.
BallSums = SpectralBall | CountedBall


def countable(ball: WeightedBall, classes: Partition) -> bool:
    """Check that the ball's weights are whole and vectors of counts are few."""
    few = len(classes) <= MAX_AXES and math.prod((classes.counts + 1).tolist()) <= MAX_COUNTED
    return few and not ball.fractions.any()


def ball_sums(ball: WeightedBall, sizes: IntArray, classes: Partition) -> BallSums:
    """Build the sums of a ball over attributes of sizes r_i, shape (m,).

    In classes of alike ones; by counts if that is fast.
    """
    if countable(ball, classes):
        return CountedBall(ball, sizes, classes)
    return SpectralBall(ball, sizes[classes.first], classes.counts.astype(np.float64))


def totals_of(counts: IntArray, ball: WeightedBall) -> IntArray:
    """Compute Σ a_g k_g for each vector of counts, (n_1+1, …, n_G+1)."""
    totals = np.zeros([int(n) + 1 for n in counts], dtype=np.int64)
    for g, n in enumerate(counts):
        totals += (ball.floors[g] * np.arange(n + 1)).reshape([-1 if a == g else 1 for a in range(counts.size)])
    return totals
