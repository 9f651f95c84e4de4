"""The lower bound for totals so spread out that their law is nearly continuous: a sum over frequencies (design §3.4).

What is wanted is an upper bound of E_μ[(K−X)⁺] for X = Σ w_i B_i, any weights. With a normal law of standard deviation h on the
radius (Jensen), tilted by any θ > 0, made periodic with any period P (it only grows), and Poisson's summation,

    E_μ[(K−X)⁺] ≤ e^{θK} Π ((1+z_i)/r_i) · (1/P) Σ_k |ĝ(t_k)| Π |φ_i(t_k)|,      t_k = 2πk/P, k = …, −1, 0, 1, …,

    z_i = (r_i−1) e^{−θw_i},   |φ_i(t)|² = 1 − 4 z_i/(1+z_i)² sin²(w_i t/2),   |ĝ(t)| = e^{h²(θ²−t²)/2}/(θ²+t²).

Only moduli enter, so that leaving attributes out of a product keeps it a bound, and every frequency but a few dozen is done
with after a few hundred attributes: O(m) in all, where a dynamic program takes m × window. What the inequalities lose is
½(θh)² and about 1/(θσ)² nats, σ the total's spread: nothing at thousands of changed attributes, much at few
(:mod:`grid_bound` sums those).

Rounding: 4z/(1+z)² sin² is lowered by its error and the logarithms' sum is shrunk by its own, both a priori; all else is a
relative error of the result.
"""

import math
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.tilting import saddle_point, wrapping_distance

# From this θσ on, the moduli lose less than 1/1000 of a nat.
SPREAD = 40.0
# The width h in units of 1/θ. It costs 2e-4 nats.
_BLUR = 0.02
# At most this many frequencies. Where weights are spread out and more were needed, a wider radius does with fewer.
_MOST = 1 << 19
# Frequencies stop where e^{−(ht)²/2} is 1e-18.
_REACH = 9.1
# A frequency whose term is below this share of the first, divided by the number of frequencies, is not multiplied further: its
# bound is good enough.
_SILENT = 1e-15
# Attributes looked at before frequencies are dropped for the first time, and numbers held at once: 8 MB.
_FIRST_ROWS, _CHUNK = 64, 1 << 20
_EPS = 2.0**-50
# Bound on the relative rounding error of a sum of logarithms below 700 in up to 2^14 pieces, of exponentials and of the period.
_SUM_ERROR = 2.0**-28


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Classes under the tilt: counts n, weights w, 4z/(1+z)² and its relative error, shape (G,); order of work."""

    counts: FloatArray
    weights: FloatArray
    swing: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, log_odds: FloatArray, counts: FloatArray, weights: FloatArray, theta: float) -> "_Tilted":
        # spread over the weights, so that the first rows silence every frequency that any would
        order = np.argsort(np.arange(counts.size) * 0.6180339887498949 % 1.0, kind="stable")
        # z or 1/z, whichever cannot overflow: the swing is the same
        z = np.exp(-np.abs(log_odds - theta * weights))
        swing = 4 * z / (1 + z) ** 2
        error = _EPS * (4 + np.abs(log_odds) + theta * weights)
        return cls(counts[order], weights[order], swing[order], error[order])

    def log_moduli(self, rows: slice, t: FloatArray) -> FloatArray:
        """Σ n ln|φ| over these classes for each frequency, rounded up, shape of ``t``."""
        angle = np.multiply.outer(0.5 * self.weights[rows], t)
        sines = np.sin(angle) ** 2
        # sin² moves by at most 2·error of its angle
        sines *= 1 - self.error[rows][:, None]
        sines -= _EPS * (1 + angle)
        np.maximum(sines, 0.0, out=sines)
        sines *= -self.swing[rows][:, None]
        # where swing and sin² are both 1 the modulus is 0, which has no logarithm and needs none
        np.maximum(sines, _EPS - 1, out=sines)
        logs = 0.5 * (self.counts[rows] @ np.log1p(sines))
        return np.asarray(logs * (1 - _EPS * (8 + sines.shape[0])))


def spread(log_odds: FloatArray, counts: FloatArray, weights: FloatArray, radius: float) -> float:
    """θσ: how many natural units the tilted total spreads over; ``log_odds`` = ln(r−1), all of shape (G,)."""
    theta = _tilt(log_odds, counts, weights, radius)
    odds = np.exp(-np.abs(log_odds - theta * weights))
    return theta * math.sqrt(float(counts @ (weights**2 * odds / (1 + odds) ** 2)))


def log_mean_ceiling(sizes: IntArray, counts: FloatArray, weights: FloatArray, radius: float) -> float:
    """ln E_μ[(K−X)⁺], rounded up, for any K ≤ ``radius``·(1 + 2^-52); arrays of shape (G,), whole weights below 2^53.

    O(G × frequencies that matter) time, 50 MB and a few vectors of G.
    """
    log_odds, n, w = np.log(sizes - 1.0), counts, weights
    theta = _tilt(log_odds, n, w, radius)
    period = wrapping_distance(log_odds, n, w, radius, theta)
    width = max(_BLUR / theta, _REACH * period / (2 * math.pi * _MOST))
    step = 2 * math.pi / period
    t = step * np.arange(math.ceil(_REACH / (width * step)) + 1, dtype=np.float64)
    # each frequency but 0 stands for itself and its negative
    logs = 0.5 * width**2 * (theta**2 - t**2) - np.log(theta**2 + t**2) + np.where(t == 0, 0.0, math.log(2.0))
    terms = _terms(_Tilted.of(log_odds, n, w, theta), logs, t)
    # frequencies beyond the last: ∫ e^{−h²t²/2}/t² ≤ e^{−h²T²/2}/(h²T³)
    last = float(t[-1])
    rest = 2 * math.exp(0.5 * width**2 * (theta**2 - last**2)) / (width**2 * last**3) / step
    log_sum = math.log((math.fsum(terms.tolist()) + rest) * (1 + _SUM_ERROR) / period)
    return math.nextafter(log_sum + _log_base(sizes, n, w, log_odds, theta, radius), math.inf)


def _tilt(log_odds: FloatArray, counts: FloatArray, weights: FloatArray, radius: float) -> float:
    """Where the sum's own terms turn least: Σ n p w + 2/θ = K, which is the usual saddle point at half of both."""
    return saddle_point(log_odds, counts / 2, weights, radius / 2)


def _terms(tilted: _Tilted, logs: FloatArray, t: FloatArray) -> FloatArray:
    """Upper bounds of |ĝ| Π |φ|; most frequencies are final after the first rows."""
    final: list[FloatArray] = []
    silent = logs[0] + math.log(_SILENT / t.size)
    start = 0
    while start < tilted.counts.size:
        # at first all frequencies are still in use: take few rows at a time, by slices of frequencies
        rows = slice(start, min(tilted.counts.size, start + max(_FIRST_ROWS, _CHUNK // t.size)))
        block = max(1, _CHUNK // (rows.stop - rows.start))
        for k in range(0, t.size, block):
            logs[k : k + block] += tilted.log_moduli(rows, t[k : k + block])
        heard = logs > silent
        final.append(np.exp(logs[~heard]))
        logs, t, start = logs[heard], t[heard], rows.stop
    final.append(np.exp(logs))
    return np.concatenate(final)


def _log_base(  # noqa: PLR0913 (one sum, all of it needed)
    sizes: IntArray, counts: FloatArray, weights: FloatArray, log_odds: FloatArray, theta: float, radius: float
) -> float:
    """θK + Σ n ln((1+z)/r), rounded up."""
    odds = log_odds - theta * weights
    log_sizes, grown = np.log(sizes.astype(np.float64)), np.logaddexp(0.0, odds)
    value = math.fsum((counts * grown).tolist()) - math.fsum((counts * log_sizes).tolist()) + theta * radius
    # the exponent's own rounding moves ln(1+z) by z/(1+z) times as much
    moved = np.exp(odds - grown) * (1 + np.abs(log_odds) + theta * weights)
    error = _EPS * (float(counts @ (grown + log_sizes + moved)) + theta * radius)
    return value + error
