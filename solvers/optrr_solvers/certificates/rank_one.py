"""The lower bound with pair multipliers of rank one: a sum over two totals of the change set (theory §3.6).

With multipliers w_i ≥ 0 of accuracies and b_i b_j / U ≥ 0 of pairs, where a pair's row is written as
(d_i − 1_i)(d_j − 1_j) − κ (d_i − f_i)(d_j − f_j) = d_i d_j (χ_ij − κ λ_i λ_j),

    h(S) = C − X + (Y − ȳ)²/(2U),     X = Σ_{i∈S} u_i,   Y = Σ_{i∈S} b_i,   ȳ = Σ b_i d_i,
    u_i  = w_i − b_i² (1 − 2/r_i)/(2U),
    C    = Σ w_i f_i − Σ b_i² d_i²/(2U) − κ ((Σ b_i g_i)² − Σ b_i² g_i²)/(2U),      g_i = d_i − f_i,
    −E_μ h = Σ w_i g_i + κ ((Σ b_i g_i)² − Σ b_i² g_i²)/(2U).

u and b are integers, so E_μ[h⁺] is a sum over integer pairs (x, y) of nonnegative terms, from a dynamic program over attributes
under a tilt (z_i = (r_i−1) e^{−θu_i−φb_i}) that keeps its numbers near one. Its relative error is bounded beforehand, C is
rounded up and −E_μ h down: the bound is never above the true one.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import expit

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling, log_floor

# Pairs of totals held at once: 128 MB a table.
MAX_CELLS = 1 << 24
# Newton steps towards the tilt; any tilt gives the same sum.
_STEPS = 50
# Products too small for a double become 0. Fewer than 2^50 of them, each below 1e-307, belong to one entry, and this bounds
# their sum.
_UNDERFLOW = 1e-290
# Roundings that one attribute adds to an entry: two products, a sum, and the errors of the weights (proofs/prove_ball.py).
_ROUNDINGS = 8


class TooManyTotals(ValueError):
    """The integers are too large for the table; the message has the number."""


@dataclass(frozen=True, eq=False)
class RankOne:
    """Classes of alike attributes with integer multipliers.

    Sizes r, counts n, ε, integers u (any sign) and b ≥ 0, shape (G,); U ≥ 1; κ.
    """

    sizes: IntArray
    counts: IntArray
    epsilons: FloatArray
    totals: tuple[int, ...]
    effects: tuple[int, ...]
    unit: int
    kappa: float

    def weights(self) -> list[Fraction]:
        """Compute the weights of one change by class; certificates need them ≥ 0.

        w_g = u_g + b_g² (1 − 2/r_g)/(2U).
        """
        return [
            u + Fraction(b * b * (r - 2), 2 * self.unit * r)
            for u, b, r in zip(self.totals, self.effects, self.sizes.tolist(), strict=True)
        ]


def lower_bound(dual: RankOne) -> float:
    """Compute the bound of ε in nats, rounded down; 0 if nothing is proved.

    Raises TooManyTotals.
    """
    constant, gain = _constants(dual)
    if gain <= 0:
        return 0.0
    log_ratio = log_floor(gain) - log_mean_ceiling(dual, constant)
    bound = float(np.logaddexp(0.0, log_ratio))
    return max(bound - 4 * math.ulp(bound), 0.0)


def _constants(dual: RankOne) -> tuple[Fraction, Fraction]:
    """Compute C, rounded up, and −E_μ h, rounded down."""
    accuracy, squares = Fraction(0), Fraction(0)
    gain, effect, effect_squares = Fraction(0), Fraction(0), Fraction(0)
    parts = zip(
        dual.sizes.tolist(), dual.counts.tolist(), dual.epsilons.tolist(), dual.effects, dual.weights(), strict=True
    )
    for r, n, e, b, w in parts:
        flip, d = Fraction(flip_ceiling(r, e), 1 << FLIP_BITS), Fraction(r - 1, r)
        gap = max(d - flip, Fraction(0))
        accuracy += n * w * flip
        squares += n * b * b * d * d
        gain += n * w * gap
        effect += n * b * gap
        effect_squares += n * b * b * gap * gap
    # f is rounded up, which lowers every g and hence this term: it is subtracted from C, which becomes larger, and added to
    # −E_μ h, which becomes smaller; both lower the bound
    kept = Fraction(dual.kappa) * (effect * effect - effect_squares) / (2 * dual.unit)
    return accuracy - squares / (2 * dual.unit) - kept, gain + kept


@dataclass(frozen=True, eq=False)
class _TotalsTable:
    """N(x, y) for x = first, …: the tilted distribution of both totals.

    ``log_base`` is ln of the factor that the tilt left out.
    """

    first: int
    values: FloatArray
    theta: float
    phi: float
    log_base: float
    log_error: float


def log_mean_ceiling(dual: RankOne, constant: Fraction) -> float:
    """Compute ln E_μ[h⁺], rounded up; O(m × cells) time."""
    mean = Fraction(0)
    for n, b, r in zip(dual.counts.tolist(), dual.effects, dual.sizes.tolist(), strict=True):
        mean += Fraction(n * b * (r - 1), r)
    most: int = sum(int(n) * b for n, b in zip(dual.counts, dual.effects, strict=True))
    farthest = max(mean, most - mean)
    # from this x on h is at most 0, whatever y
    end = math.ceil(constant + farthest * farthest / (2 * dual.unit)) + 2
    table = _table(dual, end)
    x = table.first + np.arange(table.values.shape[0], dtype=np.float64)
    y = np.arange(table.values.shape[1], dtype=np.float64)
    bend = (y - float(mean)) ** 2 / (2 * dual.unit)
    # each part of h is good to a few roundings of its size
    slack = 2.0**-48 * (abs(float(constant)) + float(np.abs(x).max()) + float(bend.max()) + 1)
    exponents = table.theta * x[:, None] + table.phi * y[None, :]
    inside = (float(constant) + slack - x)[:, None] + bend[None, :]
    live = inside > 0
    if not live.any():
        raise TooManyTotals(
            "the multipliers leave no change set inside; they prove the problem infeasible or are all zero"
        )
    logs = np.log(table.values[live] + _UNDERFLOW) + np.log(inside[live]) + exponents[live]
    top = float(logs.max())
    # exp and log of numbers up to `largest` in size: one rounding of each, and numpy's pairwise sum
    largest = float(np.abs(exponents[live]).max()) + float(np.abs(logs).max()) + 800
    log_sum = top + math.log(float(np.exp(logs - top).sum()))
    return math.nextafter(log_sum + table.log_base + table.log_error + 2.0**-49 * (largest + 200), math.inf)


def _table(dual: RankOne, end: int) -> _TotalsTable:
    theta, phi = _tilt(dual)
    u, b = np.array(dual.totals, dtype=np.int64), np.array(dual.effects, dtype=np.int64)
    log_odds = np.log(dual.sizes - 1.0)
    exponent = log_odds - theta * u - phi * b
    kept, changed = expit(-exponent), expit(exponent)
    # attributes that lower x come first; after them x only grows, and totals beyond the end never come back
    order = np.repeat(np.argsort(u, kind="stable"), dual.counts[np.argsort(u, kind="stable")])
    first = int((np.minimum(u, 0) * dual.counts).sum())
    cells = min(end - first, int((np.abs(u) * dual.counts).sum()) + 1) * (int((b * dual.counts).sum()) + 1)
    if not 0 < cells <= MAX_CELLS:
        raise TooManyTotals(f"{cells} pairs of totals; {MAX_CELLS} at most")
    values = np.zeros((1 - first, 1))
    values[-first, 0] = 1.0
    for g in order.tolist():
        values = _step(values, int(u[g]), int(b[g]), float(kept[g]), float(changed[g]), end - first)
    counts = dual.counts.astype(np.float64)
    # −ln(r k): the uniform answer's law against the tilted weights; ln k = −ln(1 + z) without cancellation
    parts = counts * (np.logaddexp(0.0, exponent) - np.log(dual.sizes.astype(np.float64)))
    m = float(counts.sum())
    size = float(
        counts
        @ (np.logaddexp(0.0, exponent) + np.log(dual.sizes) + 4 + np.abs(log_odds) + _size(theta, u) + _size(phi, b))
    )
    return _TotalsTable(
        first, values, theta, phi, math.fsum(parts.tolist()), _ROUNDINGS * m * 2.0**-52 + 2.0**-50 * size
    )


def _size(theta: float, integers: IntArray) -> FloatArray:
    """Compute |θ u|, to which an exponent's rounding is relative."""
    return np.abs(theta * integers.astype(np.float64))


def _step(  # noqa: PLR0913 (one recurrence, all of it needed)
    values: FloatArray, u: int, b: int, kept: float, changed: float, rows: int
) -> FloatArray:
    """Add one attribute; a decreasing total already has its room."""
    old_x, old_y = values.shape
    new = np.zeros((min(old_x + max(u, 0), rows), old_y + b))
    n = min(old_x, new.shape[0])
    np.multiply(values[:n], kept, out=new[:n, :old_y])
    if u >= 0:
        n = min(old_x, new.shape[0] - u)
        if n > 0:
            new[u : u + n, b:] += changed * values[:n]
    else:
        new[: old_x + u, b:] += changed * values[-u:]
    return new


def _tilt(dual: RankOne) -> tuple[float, float]:
    """Find (θ, φ) with the means of both totals at the requested flips.

    Uses damped Newton steps.
    """
    u, b = np.array(dual.totals, dtype=np.float64), np.array(dual.effects, dtype=np.float64)
    log_odds, n = np.log(dual.sizes - 1.0), dual.counts.astype(np.float64)
    f = expit(log_odds - dual.epsilons)
    scale = np.array([max(float(np.abs(u).max()), 1.0), max(float(b.max()), 1.0)])
    steps = np.stack([u, b]) / scale[:, None]
    tilt = np.zeros(2)

    def value(at: FloatArray) -> float:
        return float(n @ (np.logaddexp(0.0, log_odds - at @ steps) + (at @ steps) * f))

    for _ in range(_STEPS):
        p = expit(log_odds - tilt @ steps)
        slope = steps @ (n * (f - p))
        hessian = (steps * (n * p * (1 - p))) @ steps.T + 1e-9 * np.eye(2) * float(n.sum())
        move = -np.linalg.solve(hessian, slope)
        factor = 1.0
        while value(tilt + factor * move) > value(tilt) and factor > 1e-6:
            factor /= 2
        tilt = tilt + factor * move
        if np.abs(factor * move).max() < 1e-6 * (1 + np.abs(tilt).max()):
            break
    return float(tilt[0] / scale[0]), float(tilt[1] / scale[1])
