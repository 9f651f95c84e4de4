"""Tail probabilities of a sum of independent weights, by the saddlepoint (Lugannani & Rice 1980).

Each of n people contributes the weight w_k of the cell k the report falls in, with probability q_k. With
K(t) = ln Σ q_k e^{t w_k} and K'(t) = s,

    Pr(mean ≥ s) ≈ Φ̄(r) + φ(r) (1/u − 1/r),   r = sign(t) √(2n(t s − K(t))),   u = t √(n K''(t)).

The relative error is O(1/n) and stays small far into the tail, where the normal approximation is off by orders of
magnitude. Near the mean the formula is 0/0 and the normal approximation is good: it serves up to NORMAL standard
deviations.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, log_ndtr

from optrr_solvers.problem import FloatArray

# Below two standard deviations the two agree (as in the SPAtest method, Dey et al. 2017).
NORMAL = 2.0

_STEPS = 60
# Newton's residual |K'(t) − s| relative to a standard deviation of one weight; far below what a p-value shows.
_SOLVED = 1e-10
# What is accepted where doubles cannot do better; a p-value is then off by a relative 1e-6 · n t, still far below its use.
_ACCEPTED = 1e-6
# A value this close to the largest weight, relative, is where only one cell is left and K' is flat.
_EDGE = 1e-9


def two_sided(
    weights: FloatArray, law: FloatArray, mean: FloatArray, n: FloatArray, chi_squared: FloatArray
) -> FloatArray:
    """Pr(|average − its null mean| ≥ |mean|), shape (V,), from weights and cell probabilities of shape (V, R, C).

    ``mean`` is the observed average over its null expectation, ``chi_squared`` its normal statistic, used within two
    standard deviations and wherever the saddlepoint does not exist (a value no sample can reach).
    """
    p = np.asarray(chdtrc(1, chi_squared))
    far = np.flatnonzero((chi_squared > NORMAL**2) & np.isfinite(chi_squared))
    if not far.size:
        return p
    w = weights[far].reshape(far.size, -1)
    q = law[far].reshape(far.size, -1)
    q = q / q.sum(axis=1, keepdims=True)
    w = w - np.sum(q * w, axis=1, keepdims=True)
    size, people = np.abs(mean[far]), n[far]
    side = np.sign(mean[far])[:, None]
    own, other = (_upper_tail(sign * w, q, size, people) for sign in (side, -side))
    # the other side may be one that no sample can reach: probability 0
    total = np.exp(own) + np.where(np.isnan(other), 0.0, np.exp(other))
    found = np.isfinite(own)
    p[far] = np.where(found, np.minimum(total, 1.0), p[far])
    return p


def _upper_tail(w: FloatArray, q: FloatArray, s: FloatArray, n: FloatArray) -> FloatArray:
    """ln Pr(average ≥ s), s > 0, NaN where s is at or beyond the largest weight; shape (V,)."""
    out = np.full(s.shape, np.nan)
    top = np.max(np.where(q > 0, w, -np.inf), axis=1)
    reach = np.flatnonzero(s < top * (1 - _EDGE))
    if not reach.size:
        return out
    w, q, s, n = w[reach], q[reach], s[reach], n[reach]
    t = _saddlepoint(w, q, s)
    value, slope, curve = _cumulants(w, q, t)
    solved = np.abs(slope - s) <= _ACCEPTED * np.sqrt(np.sum(q * w**2, axis=1))
    with np.errstate(all="ignore"):
        r = np.sqrt(2 * n * np.maximum(t * s - value, 0.0))
        u = t * np.sqrt(n * curve)
        # Φ̄(r) + φ(r)(1/u − 1/r) = φ(r) (Mills(r) + 1/u − 1/r), in logarithms: p may be below 1e-300
        log_density = -(r**2) / 2 - 0.5 * np.log(2 * np.pi)
        bracket = np.exp(log_ndtr(-r) - log_density) + 1 / u - 1 / r
        out[reach] = np.where(solved & (bracket > 0), log_density + np.log(bracket), np.nan)
    return out


def _saddlepoint(w: FloatArray, q: FloatArray, s: FloatArray) -> FloatArray:
    """T with K'(t) = s, for 0 < s < max w: Newton inside a bracket that doubles until it holds the root, shape (V,)."""
    scale = np.sqrt(np.sum(q * w**2, axis=1))
    t = s / scale**2
    low, high = np.zeros_like(s), np.full_like(s, np.inf)
    for _ in range(_STEPS):
        _, slope, curve = _cumulants(w, q, t)
        gap = slope - s
        if np.all(np.abs(gap) <= _SOLVED * scale):
            break
        low, high = np.where(gap < 0, t, low), np.where(gap >= 0, t, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = t - gap / curve
            middle = np.where(np.isfinite(high), (low + high) / 2, 2 * t)
        t = np.where((step > low) & (step < high), step, middle)
    return np.asarray(t)


def _cumulants(w: FloatArray, q: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K, K', K'' at t, shape (V,) each."""
    # a cell that cannot occur must not set the peak
    exponent = np.where(q > 0, t[:, None] * w, -np.inf)
    peak = exponent.max(axis=1, keepdims=True)
    mass = q * np.exp(exponent - peak)
    total = mass.sum(axis=1, keepdims=True)
    share = mass / total
    slope = np.sum(share * w, axis=1)
    curve = np.sum(share * (w - slope[:, None]) ** 2, axis=1)
    return np.log(total[:, 0]) + peak[:, 0], slope, curve
