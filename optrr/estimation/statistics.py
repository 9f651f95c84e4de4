"""Statistics of a distribution with their gradients and curvatures: what the delta method needs (RVL §5.2).

    entropy              H = −Σ π log2 π                                (bits; RVL eq. 25)
    mutual information   I = Σ π_ab log2(π_ab/(π_a π_b))                (bits)
    φ² = χ²/n            Σ (π_ab − π_a π_b)²/(π_a π_b)                  (RVL eq. 26 divided by n)
    Pearson correlation  of scores x_a and y_b
    Cramér's V           sqrt(φ²/(min(r_a, r_b) − 1))

Every function takes a proper table and a covariance of its estimate, and returns the value, the gradient with respect to the
cells, and the delta method's bias ½ tr(Hessian · covariance). Gradients and curvatures are proved in proofs/.

Mutual information and φ² are sums of h(π_ab, π_a, π_b), so one routine serves both: the derivative with respect to a cell is
h_x there, plus h_r summed over its row, plus h_c summed over its column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr_solvers.problem import FloatArray


@dataclass(frozen=True, eq=False)
class Expansion:
    """Value of a statistic at a table, its gradient (the table's shape) and its second-order bias."""

    value: float
    gradient: FloatArray
    bias: float


@dataclass(frozen=True, eq=False)
class _Terms:
    """h of every cell with its first and second derivatives in the cell x, its row's sum r and its column's sum c."""

    h: FloatArray
    x: FloatArray
    r: FloatArray
    c: FloatArray
    xx: FloatArray
    rr: FloatArray
    cc: FloatArray
    xr: FloatArray
    xc: FloatArray
    rc: FloatArray


def checked_scores(shape: Sequence[int], scores: tuple[ArrayLike, ArrayLike] | None) -> tuple[FloatArray, FloatArray]:
    """Numbers for the categories of two attributes of these sizes; 0..r−1 unless given.

    Raises
    ------
    InvalidInput
        for scores of another length, all alike, or not finite numbers.
    """
    given = scores if scores is not None else tuple(np.arange(r) for r in shape)
    remedy = f"the scores must be {shape[0]} and {shape[1]} numbers that are not all alike"
    try:
        x, y = (np.asarray(s, dtype=np.float64) for s in given)
    except (TypeError, ValueError):
        raise InvalidInput(f"{remedy}, got {given!r}") from None
    if any(s.shape != (r,) or not np.isfinite(s).all() or np.ptp(s) == 0 for s, r in zip((x, y), shape, strict=True)):
        raise InvalidInput(f"{remedy}, got {x.tolist()} and {y.tolist()}")
    return x, y


def entropy(pi: FloatArray, covariance: FloatArray) -> Expansion:
    """H in bits of a table of any shape; ``covariance`` (R, R). A cell at 0 adds nothing and has no gradient."""
    positive = pi > 0
    logs = np.log2(pi, out=np.zeros_like(pi), where=positive)
    variances = np.diag(covariance).reshape(pi.shape)
    curvature = np.divide(variances, pi, out=np.zeros_like(pi), where=positive)
    gradient = np.where(positive, -logs - 1 / np.log(2), 0.0)
    return Expansion(float(-np.sum(pi * logs)), gradient, float(-np.sum(curvature) / (2 * np.log(2))))


def mutual_information(pi: FloatArray, covariance: FloatArray) -> Expansion:
    """I in bits of an (r_a, r_b) table."""
    return _expanded(pi, covariance, _information_terms)


def phi_squared(pi: FloatArray, covariance: FloatArray) -> Expansion:
    """φ² = χ²/n of an (r_a, r_b) table."""
    return _expanded(pi, covariance, _phi_terms)


def cramers_v(pi: FloatArray, covariance: FloatArray) -> Expansion:
    """V of an (r_a, r_b) table; at φ² = 0 the gradient is infinite and reported as 0."""
    square = phi_squared(pi, covariance)
    scale = min(pi.shape) - 1
    value = float(np.sqrt(max(square.value, 0.0) / scale))
    if value == 0:
        return Expansion(0.0, np.zeros_like(pi), 0.0)
    first = 1 / (2 * scale * value)
    variance = float(square.gradient.ravel() @ covariance @ square.gradient.ravel())
    # d²V/d(φ²)² = −1/(4 scale² V³)
    return Expansion(value, first * square.gradient, first * square.bias - variance / (8 * scale**2 * value**3))


def pearson_correlation(pi: FloatArray, covariance: FloatArray, scores: tuple[FloatArray, FloatArray]) -> Expansion:
    """Correlation of the row scores and the column scores; the table has shape (len(x), len(y)).

    0 without gradient where an attribute has one category only: its correlation is not defined, and derived says so.
    """
    x, y = (np.asarray(s, dtype=np.float64) for s in scores)
    rows, columns = pi.sum(axis=1), pi.sum(axis=0)
    # centred scores: moments about the estimate's own means do not cancel
    x, y = x - rows @ x, y - columns @ y
    sx, sy = np.sqrt(rows @ x**2), np.sqrt(columns @ y**2)
    if sx == 0 or sy == 0:
        return Expansion(0.0, np.zeros_like(pi), 0.0)
    u, v = (x / sx)[:, None] * np.ones_like(pi), (y / sy)[None, :] * np.ones_like(pi)
    rho = float(np.sum(pi * u * v))
    gradient = u * v - rho * (u**2 + v**2) / 2
    return Expansion(rho, gradient, _correlation_bias(rho, u.ravel(), v.ravel(), covariance))


def _correlation_bias(rho: float, u: FloatArray, v: FloatArray, covariance: FloatArray) -> float:
    """½ tr(Hessian Σ) in standardised scores: ρ = (m_uv − m_u m_v)/sqrt((m_uu − m_u²)(m_vv − m_v²)) at m_u = m_v = 0."""
    moments = np.stack([u, v, u * u, v * v, u * v])
    s = moments @ covariance @ moments.T
    means = rho * (s[0, 0] + s[1, 1]) / 2 - s[0, 1]
    squares = 3 * rho / 8 * (s[2, 2] + s[3, 3]) + rho / 4 * s[2, 3]
    crossed = -(s[2, 4] + s[3, 4]) / 2
    return float(means + squares + crossed)


def _expanded(pi: FloatArray, covariance: FloatArray, terms: Callable[..., _Terms]) -> Expansion:
    rows, columns = pi.sum(axis=1, keepdims=True), pi.sum(axis=0, keepdims=True)
    t = terms(pi, np.broadcast_to(rows, pi.shape), np.broadcast_to(columns, pi.shape))
    gradient = t.x + t.r.sum(axis=1, keepdims=True) + t.c.sum(axis=0, keepdims=True)
    return Expansion(float(t.h.sum()), gradient, _half_trace(t, covariance.reshape(pi.shape * 2)))


def _half_trace(t: _Terms, s: FloatArray) -> float:
    """½ Σ_ab of the second derivatives with the (co)variances of the cell, its row's sum and its column's sum."""
    cell = np.einsum("abab->ab", s)
    with_row, with_column = np.einsum("abac->ab", s), np.einsum("abcb->ab", s)
    row = np.einsum("abac->a", s)[:, None]
    column = np.einsum("abcb->b", s)[None, :]
    row_column = np.einsum("acdb->ab", s)
    quadratic = t.xx * cell + t.rr * row + t.cc * column
    mixed = t.xr * with_row + t.xc * with_column + t.rc * row_column
    return float(np.sum(quadratic / 2 + mixed))


def _safe(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, 0 where the denominator is 0: such cells are reported as lying on the boundary."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator, dtype=np.float64), where=denominator > 0)


def _information_terms(x: FloatArray, r: FloatArray, c: FloatArray) -> _Terms:
    """h = x log2(x/(r c))."""
    logs = np.log(_safe(x, r * c), out=np.zeros_like(x), where=x > 0)
    one, zero = np.ones_like(x), np.zeros_like(x)
    parts = (
        x * logs,
        np.where(x > 0, logs + 1, 0.0),
        -_safe(x, r),
        -_safe(x, c),
        _safe(one, x),
        _safe(x, r**2),
        _safe(x, c**2),
        -_safe(one, r),
        -_safe(one, c),
        zero,
    )
    return _Terms(*(p / np.log(2) for p in parts))


def _phi_terms(x: FloatArray, r: FloatArray, c: FloatArray) -> _Terms:
    """h = (x − r c)²/(r c) = x²/(r c) − 2x + r c; the last two sum to constants and are kept for accuracy near 0."""
    rc = r * c
    share = _safe(x, rc)
    d = x - rc
    return _Terms(
        h=d * (share - np.where(rc > 0, 1.0, 0.0)),
        x=2 * (share - 1),
        r=c - _safe(x * share, r),
        c=r - _safe(x * share, c),
        xx=_safe(np.full_like(x, 2.0), rc),
        rr=2 * _safe(x * share, r**2),
        cc=2 * _safe(x * share, c**2),
        xr=-2 * _safe(share, r),
        xc=-2 * _safe(share, c),
        rc=1 + _safe(share**2, np.ones_like(x)),
    )
