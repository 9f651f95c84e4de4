"""The lower bound where change sets cannot be counted: the law of w·S on the integers, tilted (theory §3.4, §3.5).

    Q ≥ 1 + (w·d − K⁺) / E_μ[(K⁺ − X)⁺],        K⁺ ≥ w·f rational,  X = Σ w_i B_i integer.

With θ at the saddle point and row weights k_i (kept) and c_i (changed), c_i = k_i (r_i−1) e^{−θw_i},

    E_μ[(K−X)⁺] = Π 1/(r_i k_i) · e^{θK} · Σ_x N(x) e^{−θ(K−x)} (K−x)⁺,

and every number under the sum is nonnegative, so that its relative error is bounded beforehand. Mass dropped at the
edges adds at most its amount times max_y y e^{−θy} = 1/(eθ). All these errors are added before the logarithm is taken,
so the result is never above the true bound. Few attributes with small weights are summed in exact integers instead.

Totals that spread over many natural units are summed by frequencies. With a normal law of standard deviation h on the
radius (Jensen), tilted by any θ > 0, made periodic with any period P (it only grows), and Poisson's summation,

    E_μ[(K−X)⁺] ≤ e^{θK} Π ((1+z_i)/r_i) · (1/P) Σ_k |ĝ(t_k)| Π |φ_i(t_k)|,      t_k = 2πk/P, k = …, −1, 0, 1, …,

    z_i = (r_i−1) e^{−θw_i},   |φ_i(t)|² = 1 − 4 z_i/(1+z_i)² sin²(w_i t/2),   |ĝ(t)| = e^{h²(θ²−t²)/2}/(θ²+t²).

Only moduli enter, so that leaving attributes out of a product keeps it a bound, and every frequency but a few dozen is
done with after a few hundred attributes: O(m) in all, where a dynamic program takes m × window. The inequalities lose
½(θh)² and about 1/(θσ)² nats, σ the total's spread: nothing at thousands of changed attributes, much at few. 4z/(1+z)²
sin² is lowered by its error and the logarithms' sum is shrunk by its own, both a priori; all else is a relative error
of the result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling, log_floor
from optrr_solvers.laws.tilting import saddle_point, wrapping_distance
from optrr_solvers.laws.totals import ROUNDINGS, Steps, TotalsRow, WindowTooWide, last_row
from optrr_solvers.partition import partition
from optrr_solvers.problem import Problem, flip_probabilities

# Attributes times totals up to which the sum is exact (whole numbers of a few hundred digits).
EXACT_WORK = 1 << 17
# Totals held at once, 1 GB a row: four times what certificates of the solver come to.
MAX_WINDOW = 1 << 27
# Products too small for a double become 0. There are fewer than 2^60 of them, each below 1e-307, and this bounds their
# sum.
_UNDERFLOW = 1e-280
_UNIT = 1 << FLIP_BITS
# Sums of whole totals stay below this, so that int64 adds them exactly.
_MOST_TOTAL = 1 << 62
# Classes up to which each f is enclosed to 58 digits: 50 milliseconds.
_ENCLOSED = 1 << 10
# An exponent of up to 64 in size costs f 44 roundings; a weight, the products and their sum cost ten more.
_FLIP_ERROR = 2.0**-46
# From this θσ on, the moduli lose less than 1/1000 of a nat.
SPREAD = 40.0
# The width h in units of 1/θ. It costs 2e-4 nats.
_BLUR = 0.02
# At most this many frequencies. Where weights are spread out and more were needed, a wider radius does with fewer.
_MOST = 1 << 19
# Frequencies stop where e^{−(ht)²/2} is 1e-18.
_REACH = 9.1
# A frequency whose term is below this share of the first, divided by the number of frequencies, is not multiplied
# further: its bound is good enough.
_SILENT = 1e-15
# Attributes looked at before frequencies are dropped for the first time, and numbers held at once: 8 MB.
_FIRST_ROWS, _CHUNK = 64, 1 << 20
_EPS = 2.0**-50
# Bound on the relative rounding error of a sum of logarithms below 700 in up to 2^14 pieces, of exponentials and of the
# period.
_SUM_ERROR = 2.0**-28


@dataclass(frozen=True, eq=False)
class WeightedClasses:
    """Classes of the certificate.

    Sizes r and counts n, shape (G,), weights w of any size, and their ε.
    """

    sizes: IntArray
    counts: IntArray
    weights: tuple[int, ...]
    epsilons: FloatArray

    @classmethod
    def of(
        cls, problem: Problem, classes: Sequence[Sequence[int] | IntArray], weights: tuple[int, ...]
    ) -> "WeightedClasses":
        """Build one entry per class, in the certificate's order."""
        groups = partition(classes, problem.m)
        first = groups.first
        return cls(problem.sizes[first], groups.counts, weights, problem.epsilons[first])

    @cached_property
    def end(self) -> int:
        """⌈K⁺⌉: from this total on nothing is inside."""
        return -(-self.threshold // _UNIT)

    @cached_property
    def capped(self) -> IntArray:
        """min(w, end), shape (G,).

        One change with weight end gives (K−X)⁺ = 0, as any larger weight does.

        Raises WindowTooWide where sums of them would overflow.
        """
        weights = np.minimum(np.array(self.weights, dtype=object), self.end)
        if self.counts @ weights >= _MOST_TOTAL:
            raise WindowTooWide(f"totals up to {self.end} are too large to add without overflow")
        return np.asarray(weights, dtype=np.int64)

    @cached_property
    def threshold(self) -> int:
        """Smallest known integer k with w·f ≤ k/2^192."""
        if self._totals is not None:
            flips = flip_probabilities(self.sizes, self.epsilons)
            return math.ceil(_sum(self._totals * flips, 1 + _FLIP_ERROR) * _UNIT)
        parts = zip(self.counts.tolist(), self.weights, self.sizes.tolist(), self.epsilons.tolist(), strict=True)
        return sum(n * w * flip_ceiling(r, e) for n, w, r, e in parts)

    @cached_property
    def _totals(self) -> FloatArray | None:
        """n w in doubles, for many classes, shape (G,).

        Raises WindowTooWide if a value is not a double.
        """
        if self.counts.size <= _ENCLOSED:
            return None
        try:
            totals = np.asarray(self.counts * np.array(self.weights, dtype=object), dtype=np.float64)
            math.fsum(totals.tolist())
        except OverflowError:
            raise WindowTooWide("they exceed the largest double") from None
        return totals

    @cached_property
    def advantage(self) -> Fraction:
        """Lower bound of w·d − K⁺, with d rounded down to 192 bits.

        Exact fractions of many sizes have a large common denominator.
        """
        if self._totals is not None:
            return _sum(self._totals * (1 - 1 / self.sizes), 1 - _FLIP_ERROR) - Fraction(self.threshold, _UNIT)
        parts = zip(self.counts.tolist(), self.weights, self.sizes.tolist(), strict=True)
        return Fraction(sum(n * w * ((r - 1) * _UNIT // r) for n, w, r in parts) - self.threshold, _UNIT)


def _sum(values: FloatArray, factor: float) -> Fraction:
    """Sum v × ``factor``, which allows for rounding of the values and of the sum."""
    return Fraction(math.fsum(values.tolist()) * factor)


def lower_bound(classes: WeightedClasses) -> float:
    """Compute the bound of ε in nats, rounded down; 0 if the weights prove nothing.

    Takes O(m × window) time and O(window) memory, or O(G × frequencies) where totals spread far: seconds for a million
    attributes. Raises WindowTooWide where the weights are so large that more than ``MAX_WINDOW`` totals matter at once.
    """
    threshold, advantage = classes.threshold, classes.advantage
    if advantage <= 0:
        return 0.0
    work = int(classes.counts.sum()) * classes.end
    if work <= EXACT_WORK:
        return max(log_floor(1 + advantage / _exact_mean(classes, threshold)), 0.0)
    radius = threshold / _UNIT
    log_odds, counts, weights = np.log(classes.sizes - 1.0), classes.counts.astype(float), classes.capped.astype(float)
    if spread(log_odds, counts, weights, radius) > SPREAD:
        log_mean = modulus_log_mean_ceiling(classes.sizes, counts, weights, radius)
    else:
        log_mean = log_mean_ceiling(classes, threshold)
    log_ratio = log_floor(advantage) - log_mean
    bound = float(np.logaddexp(0.0, log_ratio))
    return max(bound - 4 * math.ulp(bound), 0.0)


def _exact_mean(classes: WeightedClasses, threshold: int) -> Fraction:
    """Compute E_μ[(K−X)⁺] from the number of outputs at each total."""
    end = -(-threshold // _UNIT)
    outputs = np.zeros(end, dtype=object)
    outputs[0] = 1
    for r, n, w in zip(classes.sizes.tolist(), classes.counts.tolist(), classes.capped.tolist(), strict=True):
        for _ in range(n):
            changed = outputs * (r - 1)
            outputs = outputs.copy()
            outputs[w:] += changed[: max(end - w, 0)]
    inside = sum(int(c) * (threshold - x * _UNIT) for x, c in enumerate(outputs.tolist()))
    total = math.prod(r**n for r, n in zip(classes.sizes.tolist(), classes.counts.tolist(), strict=True))
    return Fraction(inside, total * _UNIT)


def log_mean_ceiling(classes: WeightedClasses, threshold: int) -> float:
    """Compute the log mean ln E_μ[(K−X)⁺] of the dual function, rounded up."""
    log_odds, counts = np.log(classes.sizes - 1.0), classes.counts.astype(np.float64)
    weights = classes.capped.astype(np.float64)
    # at the integrand's saddle point 2/θ stands where a probability's has 1/θ; every θ is valid, and this one is close
    theta = saddle_point(log_odds, counts, weights, threshold / _UNIT)
    order = np.repeat(np.arange(counts.size), classes.counts)
    order = order[np.argsort(classes.capped[order], kind="stable")]
    steps = Steps.of(classes.capped[order], np.zeros(order.size), log_odds[order], theta)
    end = -(-threshold // _UNIT)
    row = last_row(steps, end, MAX_WINDOW)
    # c_i/(k_i (r_i−1) e^{−θw_i}) is good to ln(r−1), θw and two expits; the θw of a change set inside add up to θK at
    # most
    tilt_error = 2.0**-51 * (float(counts @ (4 + np.abs(log_odds))) + theta * end)
    log_terms = _log_sum_ceiling(row, theta, threshold)
    log_kept, log_sizes = np.log(steps.kept), np.log(classes.sizes.astype(np.float64))[order]
    base = -math.fsum(log_sizes) - math.fsum(log_kept) + theta * end
    base_error = 2.0**-51 * (float(-log_kept.sum() + log_sizes.sum()) + theta * end)
    error = ROUNDINGS * len(steps) * 2.0**-53 + tilt_error + base_error
    return math.nextafter(log_terms + base + error, math.inf)


def _log_sum_ceiling(row: TotalsRow, theta: float, threshold: int) -> float:
    """Compute ln Σ_x N(x) e^{−θ(end−x)} (K−x)⁺ with end = ⌈K⌉, rounded up.

    The dropped mass is included.
    """
    end = -(-threshold // _UNIT)
    below = threshold - (end - 1) * _UNIT
    fraction = math.nextafter(below / _UNIT, math.inf)
    whole = (end - 1) - (row.start + np.arange(row.values.size))
    distance = theta * (whole + 1)
    terms = row.values * np.exp(-distance) * (whole + fraction)
    error = float((terms * (2.0**-51 * (4 + distance))).sum())
    # (K−x) e^{−θ(end−x)} ≤ 1/(eθ); 1.001 covers the rounding of this very line
    total = float(terms.sum()) * (1 + 2.0**-44) + 1.001 * (error + (row.lost + _UNDERFLOW) / (math.e * theta))
    return math.nextafter(math.log(total), math.inf)


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Tilted classes in order of work.

    Counts n, weights w, 4z/(1+z)² and its relative error, shape (G,).
    """

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
        """Compute Σ n ln|φ| for each frequency, rounded up, shape of ``t``."""
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
    """Compute θσ, the spread of the tilted total in natural units.

    ``log_odds`` = ln(r−1), all of shape (G,).
    """
    theta = _tilt(log_odds, counts, weights, radius)
    odds = np.exp(-np.abs(log_odds - theta * weights))
    return theta * math.sqrt(float(counts @ (weights**2 * odds / (1 + odds) ** 2)))


def modulus_log_mean_ceiling(sizes: IntArray, counts: FloatArray, weights: FloatArray, radius: float) -> float:
    """Compute ln E_μ[(K−X)⁺], rounded up, for any K ≤ ``radius``·(1 + 2^-52).

    Arrays of shape (G,), whole weights below 2^53.

    Takes O(G × frequencies that matter) time, 50 MB and a few vectors of G.
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
    """Find the minimum of the sum's terms: Σ n p w + 2/θ = K.

    It is the usual saddle point at half of both.
    """
    return saddle_point(log_odds, counts / 2, weights, radius / 2)


def _terms(tilted: _Tilted, logs: FloatArray, t: FloatArray) -> FloatArray:
    """Bound |ĝ| Π |φ| from above; most frequencies stop after the first rows."""
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
    """Compute the log of the tilt's constant, θK + Σ n ln((1+z)/r), rounded up."""
    odds = log_odds - theta * weights
    log_sizes, grown = np.log(sizes.astype(np.float64)), np.logaddexp(0.0, odds)
    value = math.fsum((counts * grown).tolist()) - math.fsum((counts * log_sizes).tolist()) + theta * radius
    # the exponent's own rounding moves ln(1+z) by z/(1+z) times as much
    moved = np.exp(odds - grown) * (1 + np.abs(log_odds) + theta * weights)
    error = _EPS * (float(counts @ (grown + log_sizes + moved)) + theta * radius)
    return value + error
