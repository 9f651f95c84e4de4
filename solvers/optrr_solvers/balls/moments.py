"""The smoothed dual function and its derivatives at given weights (theory §3.3, §3.5).

The dual minimises φ(w) = E_μ[(w·f − X)⁺] over w·(d−f) = 1. It is convex but has kinks where change sets sit on the
border of the ball. With a normal law of standard deviation h on the radius it becomes smooth,

    φ_h(w) = E_μ[ψ(w·f − X)],   ψ(y) = y Φ(y/h) + h n(y/h),   ψ' = Φ(y/h),   ψ'' = n(y/h)/h,

and t = Φ((w·f − X)/h) is a mechanism at once: a ball with a random radius. Its accuracies are φ_h's gradient, and at
the minimum (f_i − c_i)/(d_i − f_i) is the same for all i, which is feasibility. Second derivatives are exact.

Two ways to the same numbers: over all vectors of counts where they are few (:class:`CountedMoments`), otherwise by
Laplace inversion along the line s = θ + it (:class:`SpectralMoments`),

    E_μ[ψ(R − X)] = 1/(2πi) ∫ e^{sR + s²h²/2} s^{−2} Π_i (1−d_i + d_i e^{−s w_i}) ds,

where s^{−1} in place of s^{−2} gives ψ' and 1 gives ψ''. Weights are real: no grid. The trapezoidal rule converges
faster than any power, and the normal radius limits the frequencies to about 8/h. The Hessian is diagonal plus a matrix
of rank twice the number of frequencies, so that a Newton step costs O(G) where frequencies are few (large m).

Letters: n members per class, w weights, R = Σ n w f, h width.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
from scipy.special import ndtr

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.count import log_uniform_counts
from optrr_solvers.laws.tilting import ComplexArray, log_ratio, saddle_point, softplus, wrapping_distance
from optrr_solvers.problem import Problem

# e^{−(ht)²/2} is 1e-15 here.
_FREQUENCY_REACH = 8.3
# Frequencies below this share of the first are rounding, and its logarithm.
_NEGLIGIBLE, _SILENT = 1e-16, math.log(1e-16)
# Classes times frequencies of one evaluation: about six seconds.
MAX_WORK = 1 << 26
# Classes times frequencies handled at once: small enough to stop early and to stay in cache.
_CHUNK = 1 << 16
# At more than this many widths from its centre, a normal density is too small for a double.
_BELL_REACH = 38
# Added to the Hessian's diagonal, relative to it, so that rounding cannot make it indefinite.
_SHIFT = 1e-13
# A diagonal entry smaller than this, relative to the largest, is rounding and not curvature.
_FLAT = 1e-30
# Without change sets near the border there is no curvature at all. This much in its place gives a finite direction, and
# the line search shortens the step.
_LEAST = 1e-150
# The same for the low-rank form, relative to an entry of the Hessian's diagonal.
_LIFT = 1e-7


class TooSharp(RuntimeError):
    """The width is too small for the frequencies allowed."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of alike attributes: counts n, ln(r−1), d, f, d−f, shape (G,) each.

    Where heavy attributes are pooled (:mod:`newton`) the last class represents all of them and has no members;
    ``log_kept`` is ln of the chance that a uniform answer leaves them alone, and their ρ is ``share`` times the last
    class's.
    """

    problem: Problem
    members: Sequence[IntArray]
    counts: FloatArray
    log_odds: FloatArray
    d: FloatArray
    f: FloatArray
    gaps: FloatArray
    epsilons: FloatArray
    log_kept: float = 0.0
    share: float = 1.0

    @classmethod
    def of(cls, problem: Problem) -> "Classes":
        """Return the classes of a problem, by size and ε (and cap)."""
        first, counts = problem.classes.first, problem.classes.counts.astype(np.float64)
        r = problem.sizes[first]
        return cls(
            problem, problem.classes, counts, np.log(r - 1.0), problem.uniform_flips[first], problem.flips[first],
            problem.gaps[first], problem.epsilons[first],
        )  # fmt: skip

    def radius(self, w: FloatArray) -> float:
        """Compute the radius w·f over all attributes."""
        return float(self.counts @ (w * self.f))

    def tilt(self, w: FloatArray) -> float:
        """Compute the tilt θ at the radius w·f."""
        return saddle_point(self.log_odds, self.counts, w, self.radius(w))

    def lowest(self, rho: FloatArray) -> float:
        """Return the smallest ρ, with the heavy attributes' own for the pooled class."""
        return float(min(rho[:-1].min(initial=np.inf), rho[-1] * self.share))


@dataclass(frozen=True, eq=False)
class BallMoments:
    """Moments ln φ_h and, relative to φ_h, the masses and the Hessian.

    ``mass`` is the ball's E[ψ'], ``changed`` each class's E[ψ' 1_i].
    """

    log_value: float
    mass: float
    changed: FloatArray
    curvature: "Curvature"


@dataclass(frozen=True, eq=False)
class DenseCurvature:
    """The whole matrix, shape (G, G)."""

    matrix: FloatArray

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve by Cholesky, or with the spectrum lifted if the matrix is indefinite."""
        diagonal = np.diag(self.matrix)
        scale = np.sqrt(np.maximum(diagonal, max(_FLAT * diagonal.max(), _LEAST)))
        h = self.matrix / np.outer(scale, scale)
        h[np.diag_indices_from(h)] += _SHIFT
        try:
            return np.asarray(sla.cho_solve(sla.cho_factor(h), right / scale[:, None]) / scale[:, None])
        except sla.LinAlgError:
            values, vectors = np.linalg.eigh(h)
            values = np.maximum(values, 1e-9 * values[-1])
            return np.asarray(vectors @ ((vectors.T @ (right / scale[:, None])) / values[:, None]) / scale[:, None])


@dataclass(frozen=True, eq=False)
class LowRankCurvature:
    """Diagonal plus Re Σ_k c_k v_k v_kᵀ, by Woodbury's formula.

    ``diagonal`` has shape (G,), ``vectors`` (G, N), ``terms`` (N,).
    """

    diagonal: FloatArray
    vectors: ComplexArray
    terms: ComplexArray

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve in O(G N²) time, by blocks of rows to save memory."""
        real, imag = np.diag(self.terms.real), np.diag(self.terms.imag)
        inner = np.block([[real, -imag], [-imag, -real]])
        first = right / self.diagonal[:, None]
        gram, projected = np.zeros(inner.shape), np.zeros((inner.shape[0], right.shape[1]))
        for rows in _row_slices(*self.vectors.shape):
            basis = self._basis(rows)
            gram += basis.T @ (basis / self.diagonal[rows][:, None])
            projected += basis.T @ first[rows]
        weights = np.linalg.lstsq(np.eye(inner.shape[0]) + inner @ gram, inner @ projected)[0]
        for rows in _row_slices(*self.vectors.shape):
            first[rows] -= (self._basis(rows) / self.diagonal[rows][:, None]) @ weights
        return first

    def _basis(self, rows: slice) -> FloatArray:
        return np.concatenate([self.vectors[rows].real, self.vectors[rows].imag], axis=1)


# φ_h's second derivatives: ``solve`` gives H⁻¹ times the columns of ``right``, shape (G, k).
Curvature = DenseCurvature | LowRankCurvature


def _row_slices(count: int, width: int) -> Iterator[slice]:
    """Split ``count`` rows of ``width`` numbers into slices that fit in cache."""
    step = max(1, _CHUNK // max(width, 1))
    return (slice(start, min(count, start + step)) for start in range(0, count, step))


class CountedMoments:
    """Sums over all vectors of counts; memory 16 (G+1) Π(n_g+1) bytes."""

    slowest = last = 0.0

    def __init__(self, classes: Classes) -> None:
        self.work = 0.0
        self._counts = classes.counts
        self._logs = classes.log_kept + log_uniform_counts(classes.problem.sizes, classes.members).ravel()
        shape = [c.size + 1 for c in classes.members]
        self._grid = np.zeros((self._logs.size, classes.counts.size))
        if shape:
            self._grid[:, : len(shape)] = np.indices(shape).reshape(len(shape), -1).T
        # w·f − X is this array times w, so that no more digits cancel than must
        self._offsets = classes.counts * classes.f - self._grid

    def at(self, w: FloatArray, width: float) -> BallMoments:
        """Compute the moments at weights ``w``, shape (G,), in O(cells × G).

        The Hessian is a sum over the cells near the border only.
        """
        y = self._offsets @ w
        near = np.flatnonzero(y > -_BELL_REACH * width)
        self.work += float(self._grid.size)
        y, logs = y[near], self._logs[near]
        top = float(logs.max())
        mu = np.exp(logs - top)
        inside, bell = ndtr(y / width), np.exp(-0.5 * (y / width) ** 2) / np.sqrt(2 * np.pi)
        value = float(mu @ np.maximum(y * inside + width * bell, 0.0))
        border = np.flatnonzero(np.abs(y) < _BELL_REACH * width)
        block = self._offsets[near[border]]
        hessian = (block * (mu * bell / width)[border][:, None]).T @ block / value
        changed = self._grid[near].T @ (mu * inside) / value / self._counts
        return BallMoments(top + float(np.log(value)), float(mu @ inside) / value, changed, DenseCurvature(hessian))

    def sharp_log_value(self, w: FloatArray) -> float:
        """Compute ln φ(w), the log of the ball's moment, without smoothing."""
        y = self._offsets @ w
        inside = y > 0
        logs = self._logs[inside] + np.log(y[inside])
        return float(np.logaddexp.reduce(logs))


class SpectralMoments:
    """Moments by Laplace inversion, in O(G × frequencies).

    Raises TooSharp if one evaluation needs more than ``most`` terms.
    """

    def __init__(self, classes: Classes, most: int = MAX_WORK) -> None:
        self._classes, self._most = classes, most
        self.slowest = self.work = self.last = 0.0

    def at(self, w: FloatArray, width: float) -> BallMoments:
        """Compute the moments at weights ``w``, until terms are negligible."""
        started, before = time.perf_counter(), self.work
        try:
            return self._at(w, width)
        finally:
            self.slowest = max(self.slowest, time.perf_counter() - started)
            self.last = self.work - before

    def _at(self, w: FloatArray, width: float) -> BallMoments:
        c = self._classes
        theta, radius = c.tilt(w), c.radius(w)
        reach = wrapping_distance(c.log_odds, c.counts, w, radius, theta) + 2 * _FREQUENCY_REACH * width
        step = 2 * np.pi / reach
        most = int(np.ceil(_FREQUENCY_REACH / width / step)) + 1
        block = max(8, _CHUNK // w.size)
        t, product = np.zeros(0), np.zeros(0, dtype=np.complex128)
        for start in range(0, most, block):
            more = step * np.arange(start, min(most, start + block), dtype=np.float64)
            found = _product(c, w, width, theta, more)
            self.work += float(w.size * more.size)
            heard = np.flatnonzero(np.abs(found) > _NEGLIGIBLE)
            t, product = np.append(t, more[heard]), np.append(product, found[heard])
            if not heard.size:
                break
            if w.size * (start + more.size) > self._most:
                raise TooSharp(f"width {width:g} needs more than {start + more.size} frequencies for {w.size} classes")
        logs = np.log1p(-c.d) + theta * w * c.f + softplus(c.log_odds - theta * w)
        start_value = c.log_kept + float(c.counts @ logs)
        log_scale = start_value + 0.5 * (theta * width) ** 2 + float(np.log(step / np.pi))
        return _sums(c, w, theta, t, product, log_scale)


# Where moments come from; ``slowest``: seconds of the longest evaluation; ``work``: classes times terms
# summed so far, ``last`` of them in the last evaluation.
MomentSource = CountedMoments | SpectralMoments


def _product(c: Classes, w: FloatArray, width: float, theta: float, t: FloatArray) -> ComplexArray:
    """Compute the integrand without 1/s² at frequencies ``t``, relative to t = 0.

    It is halved at t = 0; all zeros if every value is negligible.
    """
    z0 = np.exp(c.log_odds - theta * w)
    p = z0 / (1 + z0)
    s = theta + 1j * t
    logs = 1j * t * float(c.counts @ (w * (c.f - p))) + 0.5 * width**2 * (s**2 - theta**2)
    for rows in _row_slices(w.size, t.size):
        # centred at the tilted mean, so that phases stay small
        centre = 1j * float(c.counts[rows] @ (p * w)[rows])
        logs += c.counts[rows] @ log_ratio(_odds(w[rows], z0[rows], t), z0[rows]) + centre * t
        # no factor exceeds 1 in absolute value
        if logs.real.max() < _SILENT:
            return np.zeros_like(logs)
    return np.exp(logs) * np.where(t == 0, 0.5, 1.0)


def _odds(w: FloatArray, z0: FloatArray, t: FloatArray) -> ComplexArray:
    """Compute z at θ + it, shape (G, N), from its values at θ."""
    return np.asarray(z0[:, None] * np.exp(-1j * np.multiply.outer(w, t)))


def _sums(  # noqa: PLR0913 (one integral, all of it needed)
    c: Classes, w: FloatArray, theta: float, t: FloatArray, product: ComplexArray, log_scale: float
) -> BallMoments:
    """Sum the moments over the frequencies.

    ``log_scale`` is ln of the product at t = 0 times the trapezoidal rule's step over π.
    """
    s, z0 = theta + 1j * t, np.exp(c.log_odds - theta * w)
    value = float((product / s**2).sum().real)
    if not value > 0:
        raise TooSharp("rounding left no digits of the smoothed dual function")
    terms, share = product / value, product / value / s
    changed, diagonal, whole = np.empty(w.size), np.empty(w.size), np.empty(w.size)
    vectors: ComplexArray = np.empty((w.size, t.size), dtype=np.complex128)
    for rows in _row_slices(*vectors.shape):
        # as z is at most r − 1, the quotient needs no guard against overflow, which takes ten times as long
        z = _odds(w[rows], z0[rows], t)
        odds = 1 + z
        a = z * odds.conj() / (odds.real**2 + odds.imag**2)
        v = c.counts[rows][:, None] * (c.f[rows][:, None] - a)
        changed[rows] = (a @ share).real
        diagonal[rows] = c.counts[rows] * ((a * (1 - a)) @ terms).real
        whole[rows] = diagonal[rows] + (v**2 @ terms).real
        vectors[rows] = v
    curvature: Curvature
    if 4 * terms.size < w.size:
        # an attribute too heavy to change inside the ball has no curvature of its own: lift it
        curvature = LowRankCurvature(np.maximum(diagonal, _LIFT * np.abs(whole)), vectors, terms)
    else:
        matrix = ((vectors * terms) @ vectors.T).real
        matrix[np.diag_indices_from(matrix)] += diagonal
        curvature = DenseCurvature((matrix + matrix.T) / 2)
    return BallMoments(log_scale + float(np.log(value)), float(share.sum().real), changed, curvature)
