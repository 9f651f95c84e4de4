"""Statistics of a distribution, with the gradients and second derivatives that the delta method needs (RVL §5.2).

    entropy              H = −Σ π log2 π                                (bits; RVL eq. 25)
    mutual information   I = Σ π_ab log2(π_ab/(π_a π_b))                (bits)
    φ² = χ²/n            Σ (π_ab − π_a π_b)²/(π_a π_b)                  (RVL eq. 26 divided by n)
    Pearson correlation  of scores x_a and y_b
    Cramér's V           sqrt(φ²/(min(r_a, r_b) − 1))

φ² and the correlation are rational in the cells up to a root, so they have an :class:`Expansion` wherever both margins are
positive, single negative cells included. The derivatives are proved in proofs/prove_statistics.py. Entropy and mutual
information are sums of x ln x, whose derivatives do not exist at empty cells.

The unbiased estimate of a cell is its proportion x plus noise of standard error s, and may be negative. No function of
it has x ln x as its mean for all x ≥ 0, since means over noise are smooth and x ln x is not at 0. With y = x/s, x ln x
= s y ln y + x ln s, so one function ψ of y + Z, Z standard normal, serves every cell, and here

    |E ψ(y + Z) − y ln y| ≤ BIAS for all y ≥ 0.

Away from 0, ψ undoes the smoothing by noise term by term: ψ(t) = t ln t − 1/(2t) + 1/(4t³), the first terms of
exp(−½ d²/dt²) t ln t. Near 0 it is the cubic spline on whole knots, straight to their left and joined smoothly at their right
end, that has the smallest bias among those whose root mean square at an empty cell is at most 1, so that empty cells cost no
more than their own noise (compare the best polynomials of Wu & Yang, IEEE Trans. Inf. Theory 62, 2016, for sampling without
randomization). A test solves for it again.

With s the error that the mechanism alone makes, s ψ(x/s) + x ln s estimates x ln x of the true records, and tends to it as
noise vanishes.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from optrr_solvers.arrays import FloatArray

# Largest distance of E ψ(y + Z) from y ln y.
BIAS = 0.122
# The spline's ends, and its coefficients on the knots −4, −3, …, 5.
FIRST_KNOT, LAST_KNOT = -4.0, 5.0
COEFFICIENTS = (4.2689, 3.8566, 3.0320, 2.3209, 0.6577, -0.5555, -1.8963, 1.2789, 3.5224, 5.3853, 7.0731, 7.9492)
# From this y on the mean is taken to be y ln y, which differs by at most 1e-4; below, it is interpolated on a grid.
_CLEAR = 10.0
_GRID = np.linspace(0.0, _CLEAR, 1001)
# Points of the trapezoidal rule for means over normal noise; beyond them lies 1e-15 of it.
_NOISE = np.linspace(-8.0, 8.0, 161)

# An error without variance is 1e-12, less than rounding leaves of a cell.
_NO_VARIANCE = 1e-24

_KNOTS = np.concatenate([[FIRST_KNOT] * 3, np.arange(FIRST_KNOT, LAST_KNOT + 1), [LAST_KNOT] * 3])


@cache
def _splines() -> tuple[Any, Any, Any]:
    """Build splines of ψ and its first two derivatives."""
    from scipy.interpolate import BSpline  # noqa: PLC0415 (slow to import, and most tables need none of it)

    spline = BSpline(_KNOTS, np.array(COEFFICIENTS), 3)
    return spline.derivative(0), spline.derivative(1), spline.derivative(2)


def debiased(t: FloatArray, order: int = 0) -> FloatArray:
    """Compute ψ of noisy y, or its first or second derivative."""
    inside, far = np.clip(t, FIRST_KNOT, LAST_KNOT), np.maximum(t, LAST_KNOT)
    near = np.asarray(_splines()[order](inside))
    if order == 0:
        near = near + _splines()[1](FIRST_KNOT) * np.minimum(t - FIRST_KNOT, 0.0)
        away = far * np.log(far) - 1 / (2 * far) + 1 / (4 * far**3)
    elif order == 1:
        away = np.log(far) + 1 + 1 / (2 * far**2) - 3 / (4 * far**4)
    else:
        near = np.where(t < FIRST_KNOT, 0.0, near)
        away = 1 / far - 1 / far**3 + 3 / far**5
    return np.where(t > LAST_KNOT, away, near)


def smoothed(y: FloatArray, order: int = 0) -> FloatArray:
    """Compute the mean of ψ(y + Z) for y ≥ 0, or of a derivative.

    Derivatives of ψ have the derivatives of the mean; accurate to three decimals.
    """
    if order == 0:
        away = xlogy(y, y)
    elif order == 1:
        away = np.log(np.maximum(y, _CLEAR)) + 1
    else:
        away = 1 / np.maximum(y, _CLEAR)
    return np.asarray(np.where(y > _CLEAR, away, np.interp(y, _GRID, _means(order))))


@cache
def _means(order: int) -> FloatArray:
    """Compute means on the grid."""
    weights = np.exp(-(_NOISE**2) / 2)
    return np.asarray(debiased(_GRID[:, None] + _NOISE, order) @ (weights / weights.sum()))


def x_ln_x(x: FloatArray, variances: FloatArray, signs: FloatArray) -> float:
    """Estimate Σ ± x ln x of quantities x with errors of these variances.

    Variances can be 0.
    """
    errors = np.sqrt(np.maximum(variances, _NO_VARIANCE))
    return float(signs @ (errors * debiased(x / errors) + x * np.log(errors)))


StatisticName = Literal["entropy", "mutual-information", "chi-square", "g-square", "correlation", "cramers-v"]
STATISTICS: tuple[str, ...] = get_args(StatisticName)


@dataclass(frozen=True, eq=False)
class Expansion:
    """Value, gradient (R,) and second derivatives (R, R) of a statistic.

    At a table of R cells, row-major.
    """

    value: float
    gradient: FloatArray
    hessian: FloatArray

    def bias(self, covariance: FloatArray) -> float:
        """Compute the bias ½ tr(Hessian · covariance).

        It is that of the statistic of an unbiased estimate.
        """
        return float(np.sum(self.hessian * covariance)) / 2


@dataclass(frozen=True, eq=False)
class _Terms:
    """h of every cell with its first and second derivatives.

    In the cell x, its row's sum r and its column's sum c.
    """

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


def entropy(pi: FloatArray) -> float:
    """Compute H in bits of a proper table of any shape."""
    # a 0 without a sign
    return float(-np.sum(xlogy(pi, pi)) / np.log(2)) + 0.0


def mutual_information(pi: FloatArray) -> float:
    """Compute I in bits of a proper (r_a, r_b) table; not below 0."""
    return max(entropy(pi.sum(axis=1)) + entropy(pi.sum(axis=0)) - entropy(pi), 0.0)


def phi_squared(pi: FloatArray, cells: NDArray[np.bool_] | None = None) -> Expansion:
    """Expand φ² = χ²/n of an (r_a, r_b) table that sums to 1.

    Or its part over some ``cells``, a mask (r_a, r_b).

    Cells may be negative, the whole table's margins in the cells summed must not.
    """
    rows, columns = pi.sum(axis=1, keepdims=True), pi.sum(axis=0, keepdims=True)
    t = _phi_terms(pi, np.broadcast_to(rows, pi.shape), np.broadcast_to(columns, pi.shape))
    if cells is not None:
        t = _Terms(*(term * cells for term in vars(t).values()))
    gradient = t.x + t.r.sum(axis=1, keepdims=True) + t.c.sum(axis=0, keepdims=True)
    return Expansion(float(t.h.sum()), gradient.ravel(), _chained(t))


def pearson_correlation(pi: FloatArray, scores: tuple[FloatArray, FloatArray]) -> Expansion:
    """Expand the correlation of row scores and column scores.

    The table has shape (len(x), len(y)).

    0 without derivatives where the scores' variance is not positive: the correlation is not defined there.
    """
    x, y = (np.asarray(s, dtype=np.float64) for s in scores)
    rows, columns = pi.sum(axis=1), pi.sum(axis=0)
    # centred scores: moments about the estimate's own means do not cancel
    x, y = x - rows @ x, y - columns @ y
    square_x, square_y = rows @ x**2, columns @ y**2
    if not (square_x > 0 and square_y > 0):
        return Expansion(0.0, np.zeros(pi.size), np.zeros((pi.size, pi.size)))
    u, v = np.repeat(x / np.sqrt(square_x), y.size), np.tile(y / np.sqrt(square_y), x.size)
    rho = float(np.sum(pi.ravel() * u * v))
    gradient = u * v - rho * (u**2 + v**2) / 2
    moments = np.stack([u, v, u * u, v * v, u * v])
    return Expansion(rho, gradient, moments.T @ _moment_hessian(rho) @ moments)


def _moment_hessian(rho: float) -> FloatArray:
    """Compute second derivatives of ρ in the moments at standardized scores.

    ρ = (m_uv − m_u m_v)/sqrt((m_uu − m_u²)(m_vv − m_v²)).
    """
    return np.array(
        [
            [rho, -1, 0, 0, 0],
            [-1, rho, 0, 0, 0],
            [0, 0, 3 * rho / 4, rho / 4, -1 / 2],
            [0, 0, rho / 4, 3 * rho / 4, -1 / 2],
            [0, 0, -1 / 2, -1 / 2, 0],
        ]
    )


def row_sums(shape: tuple[int, int]) -> FloatArray:
    """Build the matrix (r_a, R) from row-major cells to row sums."""
    return np.repeat(np.eye(shape[0]), shape[1], axis=1)


def column_sums(shape: tuple[int, int]) -> FloatArray:
    """Build the matrix (r_b, R) from row-major cells to column sums."""
    return np.tile(np.eye(shape[1]), (1, shape[0]))


def _chained(t: _Terms) -> FloatArray:
    """Compute second derivatives of Σ h(x, r, c) in the cells.

    A cell contributes to its own x, its row's r and its column's c.
    """
    shape = (t.x.shape[0], t.x.shape[1])
    rows, columns = row_sums(shape), column_sums(shape)
    one_sided = rows.T @ (rows * t.xr.ravel()) + columns.T @ (columns * t.xc.ravel()) + rows.T @ t.rc @ columns
    sums = rows.T @ (t.rr.sum(axis=1)[:, None] * rows) + columns.T @ (t.cc.sum(axis=0)[:, None] * columns)
    return np.asarray(np.diag(t.xx.ravel()) + sums + one_sided + one_sided.T)


def _safe(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide, with 0 for a denominator of 0.

    Such cells are reported as on the boundary.
    """
    return np.divide(numerator, denominator, out=np.zeros_like(numerator, dtype=np.float64), where=denominator > 0)


def _phi_terms(x: FloatArray, r: FloatArray, c: FloatArray) -> _Terms:
    """Compute each cell's term of φ², h = (x − r c)²/(r c) = x²/(r c) − 2x + r c.

    The last two sum to constants and are kept for accuracy near 0.
    """
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
