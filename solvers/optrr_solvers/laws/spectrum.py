"""Exact probabilities inside a weighted ball, by a discrete Fourier sum along the tilted contour.

With s = θ + it, z_i(s) = (r_i−1) E[e^{−sW_i}] and the profile's transform K(s) = Σ_x G(x) e^{s(x − end)},

    E_μ[t] = Π 1/r_i · e^{…} · (1/N) Σ_k  K(s_k) e^{s_k end} Π_i (1 + z_i(s_k)),      t_k = 2πk/N,

is exact for totals on an integer grid once N exceeds the spread of the tilted total (:mod:`tilting`). The probability
that the attributes in U change as given is the same sum with A_i = z_i/(1+z_i) or 1 − A_i for i ∈ U as further factors: the
attribute's own factor is divided out pointwise, which is stable, unlike removing it from the distribution itself.

θ sits where the summand at t = 0 is least, at the saddle point of profile and total together: a profile may hold its mass far
from the middle of its knots, and away from the saddle point the sum would be left over from summands many orders larger.

|Π (1+z_i)| is largest at t = 0, so nodes where |K| is below the rounding of its largest value are left out; for a soft profile
a few hundred remain at most, whatever the number of attributes. Errors: about 1e-14 of the largest summand.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import expit

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.tilting import saddle_point, tail_end, wrapping_distance
from optrr_solvers.laws.weighted_ball import WeightedBall

ComplexArray = NDArray[np.complex128]

# Nodes whose kernel is below this share of the largest are rounding noise.
_NEGLIGIBLE = 1e-15
# Terms that together change no sum by this share of its first are left out.
_SILENT = 1e-17
# Classes multiplied before the nodes are looked at for the first time.
_FIRST_ROWS = 32
# Complex numbers held at once: 16 MB.
_CHUNK = 1 << 20
# The sum must be at least this share of its summands' absolute values, or rounding (1e-15 of them) would show in it.
_LEAST_SHARE = 1e-6
# The smallest and the largest tilt: beyond them all the mass is on one total. They also serve where the saddle point lies
# farther out.
_STEEPEST, _FLATTEST = 50.0, 1e-12
# Bisections of a tilt: each halves its interval, and any θ near the saddle point serves.
_BISECTIONS = 60
# Above this many nodes a grid is too fine for its ball: 256 MB a vector of 16 bytes.
MAX_NODES = 1 << 24


class GridTooFine(ValueError):
    """The ball's integer weights are too large for the transform; scale them down."""


class Spectrum:
    """Transform of one ball over classes of alike attributes; O(G × nodes) time, O(nodes) memory.

    ``sizes`` and ``counts`` are per class, shape (G,). ``log_mass`` is ln E_μ[t].
    """

    def __init__(self, ball: WeightedBall, sizes: IntArray, counts: FloatArray) -> None:
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
        """Nodes after which no copy of the total's law reaches the profile again."""
        ball, theta = self._ball, self._theta
        if _bounded_below(ball):
            end = tail_end(self._log_odds, counts, ball.weights, theta)
            return min(end, float(counts @ (ball.floors + 1))) + ball.end - max(float(ball.knots[0]), 0.0) + 64
        radius = max(float(ball.knots[0] + ball.knots[-1]) / 2, 0.5)
        reach = wrapping_distance(self._log_odds, counts, ball.weights, radius, theta)
        return reach + 2 * float(ball.knots[-1] - ball.knots[0]) + 64

    def _times_product(self, terms: ComplexArray, counts: FloatArray) -> tuple[ComplexArray, float]:
        """Terms times Π (1+z_i) e^{s·end} relative to its value at t = 0, and ln of that without the exponential.

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
            phase = 1j * np.multiply.outer(p[rows] * weights[rows], self._t)
            logs += counts[rows] @ (_log_ratio(z, z0[rows]) + phase)
            heard = np.log(np.abs(terms)) + logs.real > least
            heard[0] = True
            self._t, terms, logs = self._t[heard], terms[heard], logs[heard]
        return terms * np.exp(logs), float(counts @ np.log1p(z0))

    def _odds(self, rows: IntArray, t: FloatArray) -> ComplexArray:
        """z for the given classes at the given frequencies, shape (rows, nodes)."""
        s = self._theta + 1j * t
        floors, fractions = self._ball.floors[rows].astype(np.float64), self._ball.fractions[rows]
        z = np.exp(self._log_odds[rows][:, None] - np.multiply.outer(floors, s))
        return np.asarray(z * (1 + np.multiply.outer(fractions, np.expm1(-s))))

    def changed(self) -> FloatArray:
        """Pr(one member of the class changed | ball) for every class, shape (G,)."""
        g = self._log_odds.size
        out = np.empty(g)
        for rows in np.array_split(np.arange(g), max(1, g * self._t.size // _CHUNK)):
            z = self._odds(rows, self._t)
            out[rows] = ((z / (1 + z)) @ self._terms).real / self._total
        return np.clip(out, 0.0, 1.0)

    def marginal(self, which: IntArray) -> FloatArray:
        """Probability of every change pattern of one attribute from each class in ``which``: shape (2,)*k."""
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
        """Pr(one of class g and another of class h changed | ball), shape (G, G); one matrix product."""
        g = self._log_odds.size
        out = np.zeros((g, g))
        for nodes in np.array_split(np.arange(self._t.size), max(1, g * self._t.size // _CHUNK)):
            z = self._odds(np.arange(g), self._t[nodes])
            a = z / (1 + z)
            out += ((a * self._terms[nodes]) @ a.T).real
        return out / self._total


def _log_ratio(z: ComplexArray, z0: FloatArray) -> ComplexArray:
    """ln((1+z)/(1+z0)) on the branch of small phases, without cancellation near z = z0; shape (rows, nodes)."""
    return np.asarray(np.log1p((z - z0[:, None]) / (1 + z0)[:, None]))


def _kernel(ball: WeightedBall, theta: float, n: int) -> tuple[ComplexArray, float]:
    """K(s_k) e^{−top} for k = 0..n−1, and top: the constant stretch in closed form, the band by a fast transform."""
    band, distance = _band(ball)
    top = max(0.0, -theta * float(distance[0]))
    padded = np.zeros(n)
    padded[distance] = band * np.exp(-theta * distance - top)
    k = np.asarray(np.fft.fft(padded))
    if _bounded_below(ball):
        return k, top
    s = theta + 2j * np.pi * np.arange(n) / n
    # totals before the first knot: distances band.size, band.size + 1, … without end; what lies below total 0 has no mass
    tail = np.exp(-s * band.size) / -np.expm1(-s)
    return np.asarray(k + ball.levels[0] * tail), top


def _bounded_below(ball: WeightedBall) -> bool:
    """Whether the profile's knots hold all that it holds: no totals are below 0."""
    return bool(ball.knots[0] <= 0 or ball.levels[0] == 0)


def _band(ball: WeightedBall) -> tuple[FloatArray, IntArray]:
    """G at the totals from the first knot, or 0, to the last, and how far each is from the last."""
    low = max(int(ball.knots[0]), 0) if _bounded_below(ball) else int(ball.knots[0])
    nodes = ball.end + 1 - low
    if nodes > MAX_NODES:
        raise GridTooFine(
            f"a ball that ends at {ball.end} needs {nodes} nodes; at most {MAX_NODES}: use a coarser grid"
        )
    totals = np.arange(low, ball.end + 1)
    return ball.profile(totals), ball.end - totals


def _tilt(ball: WeightedBall, log_odds: FloatArray, counts: FloatArray) -> float:
    """θ at which the product of K(θ) e^{θ end} and Π (1+z_i(θ)), convex in θ, is least."""
    weights, (band, distance) = ball.weights, _band(ball)
    if not ball.levels.any():
        raise GridTooFine("the ball is empty; enlarge its radius")
    bounded = _bounded_below(ball)

    def slope(theta: float) -> float:
        """How much farther from the end than the tilted total the tilted profile's mean is; it rises with θ."""
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
    """Where the rising function ``slope`` changes sign, near enough; the bracket grows until it holds the place."""
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
