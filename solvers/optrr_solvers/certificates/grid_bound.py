"""The lower bound where change sets cannot be counted: the law of w·S on the integers, tilted (design §3.4, §3.5).

    Q ≥ 1 + (w·d − K⁺) / E_μ[(K⁺ − X)⁺],        K⁺ ≥ w·f rational,  X = Σ w_i B_i integer.

With θ at the saddle point and row weights k_i (kept) and c_i (changed), c_i = k_i (r_i−1) e^{−θw_i},

    E_μ[(K−X)⁺] = Π 1/(r_i k_i) · e^{θK} · Σ_x N(x) e^{−θ(K−x)} (K−x)⁺,

and every number under the sum is nonnegative, so that its relative error is bounded beforehand. Mass dropped at the edges adds
at most its amount times max_y y e^{−θy} = 1/(eθ). All these errors are added before the logarithm is taken, so the result is
never above the true bound. Few attributes with small weights are summed in exact integers instead, and totals that spread over
many natural units by frequencies (:mod:`modulus_bound`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.certificates import modulus_bound
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling, log_floor
from optrr_solvers.laws.tilting import saddle_point
from optrr_solvers.laws.totals import ROUNDINGS, Steps, TotalsRow, WindowTooWide, last_row
from optrr_solvers.problem import Problem, flip_probabilities

# Attributes times totals up to which the sum is exact (whole numbers of a few hundred digits).
EXACT_WORK = 1 << 17
# Totals held at once, 1 GB a row: four times what certificates of the solver come to.
MAX_WINDOW = 1 << 27
# Products too small for a double become 0. There are fewer than 2^60 of them, each below 1e-307, and this bounds their sum.
_UNDERFLOW = 1e-280
_UNIT = 1 << FLIP_BITS
# Sums of whole totals stay below this, so that int64 adds them exactly.
_MOST_TOTAL = 1 << 62
# Classes up to which each f is enclosed to 58 digits: three seconds.
_ENCLOSED = 1 << 16
# An exponent of up to 64 in size costs f 44 roundings.
_FLIP_ERROR = 2.0**-46


@dataclass(frozen=True, eq=False)
class WeightedClasses:
    """The certificate's classes: sizes r and counts n, shape (G,), weights w of any size, and their ε."""

    sizes: IntArray
    counts: IntArray
    weights: tuple[int, ...]
    epsilons: FloatArray

    @classmethod
    def of(cls, problem: Problem, classes: tuple[tuple[int, ...], ...], weights: tuple[int, ...]) -> "WeightedClasses":
        """One entry a class, in the certificate's order."""
        first = np.array([c[0] for c in classes])
        counts = np.array([len(c) for c in classes])
        return cls(problem.sizes[first], counts, weights, problem.epsilons[first])

    @cached_property
    def end(self) -> int:
        """⌈K⁺⌉: from this total on nothing is inside."""
        return -(-self.threshold // _UNIT)

    @cached_property
    def capped(self) -> IntArray:
        """min(w, end), shape (G,): one change with the end as its weight leaves (K−X)⁺ at 0, as any larger weight does.

        Raises WindowTooWide where sums of them would overflow.
        """
        weights = [min(w, self.end) for w in self.weights]
        if sum(n * w for n, w in zip(self.counts.tolist(), weights, strict=True)) >= _MOST_TOTAL:
            raise WindowTooWide(f"totals up to {self.end} are too large to add without overflow")
        return np.array(weights, dtype=np.int64)

    @cached_property
    def threshold(self) -> int:
        """Smallest known integer k with w·f ≤ k/2^192."""
        parts = zip(self.counts.tolist(), self.weights, self._ceilings(), strict=True)
        return sum(n * w * f for n, w, f in parts)

    def _ceilings(self) -> Iterable[int]:
        """k_g with f_g ≤ k_g/2^192."""
        if self.counts.size <= _ENCLOSED:
            return (flip_ceiling(r, e) for r, e in zip(self.sizes.tolist(), self.epsilons.tolist(), strict=True))
        flips = flip_probabilities(self.sizes, self.epsilons) * (1 + _FLIP_ERROR)
        # above 2^-139, so that 53 bits of it end before the 192nd
        return (int(math.ldexp(f, FLIP_BITS)) for f in flips.tolist())

    @cached_property
    def advantage(self) -> Fraction:
        """A lower bound of w·d − K⁺: d is rounded down to 192 bits, since exact fractions of many sizes have no small sum."""
        parts = zip(self.counts.tolist(), self.weights, self.sizes.tolist(), strict=True)
        return Fraction(sum(n * w * ((r - 1) * _UNIT // r) for n, w, r in parts) - self.threshold, _UNIT)


def lower_bound(classes: WeightedClasses) -> float:
    """ε in nats, rounded down; 0 where the weights prove nothing.

    O(m × window) time and O(window) memory, or O(G × frequencies) where totals spread far: seconds for a million attributes.
    Raises WindowTooWide where the weights are so large that more than ``MAX_WINDOW`` totals matter at once.
    """
    threshold, advantage = classes.threshold, classes.advantage
    if advantage <= 0:
        return 0.0
    work = int(classes.counts.sum()) * classes.end
    if work <= EXACT_WORK:
        return max(log_floor(1 + advantage / _exact_mean(classes, threshold)), 0.0)
    radius = threshold / _UNIT
    log_odds, counts, weights = np.log(classes.sizes - 1.0), classes.counts.astype(float), classes.capped.astype(float)
    if modulus_bound.spread(log_odds, counts, weights, radius) > modulus_bound.SPREAD:
        log_mean = modulus_bound.log_mean_ceiling(classes.sizes, counts, weights, radius)
    else:
        log_mean = log_mean_ceiling(classes, threshold)
    log_ratio = log_floor(advantage) - log_mean
    bound = float(np.logaddexp(0.0, log_ratio))
    return max(bound - 4 * math.ulp(bound), 0.0)


def _exact_mean(classes: WeightedClasses, threshold: int) -> Fraction:
    """E_μ[(K−X)⁺] from the number of outputs at each total."""
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
    """ln E_μ[(K−X)⁺], rounded up."""
    log_odds, counts = np.log(classes.sizes - 1.0), classes.counts.astype(np.float64)
    weights = classes.capped.astype(np.float64)
    # at the integrand's saddle point 2/θ stands where a probability's has 1/θ; every θ is valid, and this one is close
    theta = saddle_point(log_odds, counts, weights, threshold / _UNIT)
    order = np.repeat(np.arange(counts.size), classes.counts)
    order = order[np.argsort(classes.capped[order], kind="stable")]
    steps = Steps.of(classes.capped[order], np.zeros(order.size), log_odds[order], theta)
    end = -(-threshold // _UNIT)
    row = last_row(steps, end, MAX_WINDOW)
    # c_i/(k_i (r_i−1) e^{−θw_i}) is good to ln(r−1), θw and two expits; the θw of a change set inside add up to θK at most
    tilt_error = 2.0**-51 * (float(counts @ (4 + np.abs(log_odds))) + theta * end)
    log_terms = _log_sum_ceiling(row, theta, threshold)
    log_kept, log_sizes = np.log(steps.kept), np.log(classes.sizes.astype(np.float64))[order]
    base = -math.fsum(log_sizes) - math.fsum(log_kept) + theta * end
    base_error = 2.0**-51 * (float(-log_kept.sum() + log_sizes.sum()) + theta * end)
    error = ROUNDINGS * len(steps) * 2.0**-53 + tilt_error + base_error
    return math.nextafter(log_terms + base + error, math.inf)


def _log_sum_ceiling(row: TotalsRow, theta: float, threshold: int) -> float:
    """ln Σ_x N(x) e^{−θ(end−x)} (K−x)⁺ with end = ⌈K⌉, rounded up, the dropped mass included."""
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
