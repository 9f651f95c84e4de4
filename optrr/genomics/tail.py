"""Far tails of score statistics (theory §4.4), for scans that need p-values of 5·10⁻⁸: the calibration ``saddlepoint``.

A score statistic is T = n ‖x‖², with x the mean over n records of ξ_y, the whitened influence of output y. The null fit
is estimated from the same table, and the tables that share a fit are those on which the mean of the fit's scores η_y is
0. Given the fit, ξ and η are fixed weights, so the tail of T is that of a mean, given that another mean is 0. With K
the cumulant function of (ξ, η) under the fit and, for a point x,

    K'(t, s) = (x, 0),    I = t·x − K(t, s),    |H| = |K''(t, s)| / |K_ss''(0)| in coordinates in which K''(0) is the identity,

the density of x is about (n/2π)^{k/2} |H|^{-1/2} e^{−nI} (Daniels 1954; Barndorff-Nielsen & Cox 1979 for the
conditional one). Over k = 1 contrast this integrates to the double saddlepoint of Skovgaard (1987), in the form of
Lugannani & Rice:

    Pr(x ≥ c) ≈ Φ̄(r) + φ(r) (1/u − 1/r),    r = √(2nI),    u = t √(n |H|).

Over k = 2 contrasts, along every direction from the centre of the disc of radius ρ that T leaves out,

    Pr(‖x‖ ≥ ρ) ≈ mean over directions v of  |H|^{-1/2} (ρ / t·v) e^{−nI}      (all at x = ρ v).

The relative error is O(1/n) and stays small far into the tail, where the normal limit is off by orders of magnitude. In
the determinants every output's expected number carries Gosper's sixth of a record, with which Stirling's formula is
good to 2 % at no record at all. It occurs in both, in the density of (x, 0) and in that of the mean 0 it is divided by:
a report that is hardly ever sent multiplies each of them by about 1 + 1/(6 n λ_y), independent of x. With no mechanism,
and the margins given, these are the tails of exact conditional tests.

The rule, with p the p-value of χ², for score tests of one and two contrasts (of others, and of many categories, p
stays):

    p above 0.0455 (one contrast; two standard deviations) or 0.01 (two): χ², as long as every output expects 50 records;
                                                   above 0.3 and 0.1 it is kept in sparser tables, too
    below it:                                      the saddlepoint; with two contrasts, where some output expects fewer than
                                                   5 records, a bootstrap where enough draws reach T

Type I error at ε_i = 4 of a variant of 5 % and 5 % cases, 300 people (12,000 tables): genotypic at nominal 1e-3 by χ²
.0033, by this rule .0007.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from optrr.core.estimation import chi_squared_tails
from optrr.core.inference import (
    MANY_EXPECTED,
    Association,
    LimitOrDrawn,
    ScoreTests,
    Simulation,
    drawn_statistics,
    influence,
    simulated_p_values,
)
from optrr_solvers.arrays import FloatArray

# χ² p-values above these are kept, because both agree there (two standard deviations as in SPAtest, Dey et al. 2017).
_KEPT = {1: 0.0455, 2: 0.01}
# In tables where some output expects fewer than MANY_EXPECTED records, its p-values are kept only above these.
_KEPT_IF_SPARSE = {1: 0.3, 2: 0.1}
# With fewer records expected in some output, the points of the lattice are too far apart for an integral over
# directions.
FEW_EXPECTED = 5.0
# Up to this many categories of both attributes together, Newton's matrices, whose size is the square of that, stay
# small.
_MOST_CATEGORIES = 64
# Tables drawn for one p-value of two contrasts, and how many must reach its statistic for them to serve: an error of 25
# %.
_DRAWN, _ENOUGH = Simulation(most=7999), 16
# The seed of the draws; it is always the same, so that a table always has the same p-value.
_SEED = 20_260
# Directions on the circle. The rule of equal steps doubles its right digits with every doubling of them, as long as
# the integrand is wide relative to a step; far out it is narrower.
_DIRECTIONS, _DEEP_DIRECTIONS = 32, 128
# The statistic above which the larger number of directions is taken.
_DEEP = 50.0
# An output less likely than this is impossible under the null fit: its share is the floor of the fit.
_ABSENT = 1e-8
# Variances and relative eigenvalues below these are those of weights that are constant or repeat others.
_CONSTANT, _DEPENDENT = 1e-12, 1e-7
# Newton steps; six to ten are usual. A point that no sample can reach is recognised by its diverging tilt.
_STEPS = 50
# Residual of K' in standard deviations of one record at which a saddlepoint counts as solved.
_SOLVED = 1e-11
# The residual that is accepted where doubles cannot do better; r is then off by a relative 1e-7.
_ACCEPTED = 1e-6
# Largest change of an exponent in one step; a point out of reach is recognised after a few of them.
_LONGEST = 20.0
# A step that increases K is shortened to a quarter, at most this often.
_HALVINGS = 12
# An increase of K up to this is taken for rounding.
_ROUNDING = 1e-13
# A point counts as out of reach where the best output along some tilt falls short of it by this exponent.
_BEYOND = 1e-6
# e^-800 is below the smallest double: farther points need no tilt.
_FARTHEST = 800.0
# Tables times directions solved at once: a dozen arrays of the outputs are some megabytes.
_POINTS = 1 << 12


@dataclass(frozen=True, eq=False)
class _Points:
    """Saddlepoints, arrays of shape (N,).

    Exponent n·I, ln |H| given the fit, t·v, and whether the saddlepoint was found.
    """

    exponent: FloatArray
    log_determinant: FloatArray
    slope: FloatArray
    solved: NDArray[np.bool_]


def saddlepoint(
    chosen: Association,
    tables: NDArray[np.number],
    tests: ScoreTests,
    rng: np.random.Generator | None = None,
    *_: object,
) -> LimitOrDrawn:
    """Compute p-values of tables (B, r_a, r_b) by the rule of this module."""
    p, df, n = tests.p_value.copy(), tests.df, np.asarray(tables, dtype=np.float64).sum(axis=(1, 2))
    if not chosen.is_score or df not in _KEPT or sum(chosen.kernel.sizes) > _MOST_CATEGORIES:
        return chosen.calibrated(tables, tests, rng or np.random.default_rng(_SEED), drawn=False)
    source, none = np.full(p.size, "asymptotic", dtype=object), np.zeros(p.size)
    far = np.flatnonzero(p < _KEPT_IF_SPARSE[df])
    fewest = n[far] * tests.fit.expected[far].reshape(far.size, chosen.kernel.cells).min(axis=1)
    far_enough = (p[far] < _KEPT[df]) | (fewest < MANY_EXPECTED)
    far, fewest = far[far_enough], fewest[far_enough]
    if far.size:
        exact = _conditional(chosen, tables[far].astype(np.float64), tests, far)
        known = np.isfinite(exact)
        p[far[known]], source[far[known]] = exact[known], "saddlepoint"
    for k in far[fewest < FEW_EXPECTED] if df > 1 else ():
        drawn, reached = _drawn(chosen.through(chosen.kernel.part(k)), tests, k, n)
        if reached >= _ENOUGH:
            p[k], source[k] = drawn, "bootstrap"
    return LimitOrDrawn(tests.statistic, df, p, source, none.astype(np.int64), _DRAWN, none)


def _drawn(own: Association, tests: ScoreTests, k: int, n: FloatArray) -> tuple[float, int]:
    """Simulate one table's p-value; return it with the number of exceedances."""
    rng, fit = np.random.default_rng(_SEED), tests.fit.expected[k : k + 1]
    draw = drawn_statistics(n[k : k + 1], fit, lambda drawn: own.tested(drawn).statistic, own.kernel.cells, rng)
    p, reached = simulated_p_values(tests.statistic[k : k + 1], draw, _DRAWN)
    return float(p[0]), int(reached[0])


def _conditional(chosen: Association, counts: FloatArray, tests: ScoreTests, which: NDArray[np.int64]) -> FloatArray:
    """Approximate Pr(T ≥ statistic | fit), (B,); NaN without a saddlepoint."""
    fit, kernel = tests.fit.part(which), chosen.kernel.part(which)
    law = fit.expected.reshape(which.size, -1)
    pushed = kernel.forward(fit.free_tangents()).reshape(which.size, -1, kernel.cells)
    weights = influence(fit, kernel, chosen.contrasts)
    return conditional_tail(weights, pushed / law[:, None, :], law, counts.reshape(law.shape), tests.statistic[which])


def tail_of_one(
    weights: FloatArray, law: FloatArray, counts: FloatArray, statistic: FloatArray, given: FloatArray | None = None
) -> FloatArray:
    """Compute p-values (B,) of one contrast with fixed weights (B, R).

    Uses the same rule, conditional on the means of ``given``, if any.

    For statistics n mean² / variance that were made elsewhere; ``law`` (B, R) are the outputs' chances under the null
    fit, ``counts`` (B, R) the tables, ``given`` (B, d, R) the scores of the fitted parameters. NaN if the statistic is
    NaN.
    """
    p = chi_squared_tails(statistic, 1)
    chosen = p < _KEPT[1]
    if given is None:
        given = np.empty((p.size, 0, law.shape[1]))
    else:
        chosen |= (p < _KEPT_IF_SPARSE[1]) & (counts.sum(axis=1) * law.min(axis=1) < MANY_EXPECTED)
    far = np.flatnonzero(chosen)
    if far.size:
        exact = conditional_tail(weights[far, None], given[far], law[far], counts[far], statistic[far])
        p[far] = np.where(np.isfinite(exact), exact, p[far])
    return p


def conditional_tail(
    weights: FloatArray, given: FloatArray, law: FloatArray, counts: FloatArray, statistic: FloatArray
) -> FloatArray:
    """Approximate Pr(n ‖mean of whitened weights‖² ≥ statistic | means), (B,).

    The means of ``given`` are fixed at their expectations.

    ``weights`` (B, k, R), k = 1 or 2, and ``given`` (B, d, R), uncorrelated under ``law`` (B, R), the chances of the
    outputs; ``counts`` (B, R) determine the side of a single contrast on which the table lies; a side without samples
    is not possible.
    """
    n = counts.sum(axis=1)
    law = np.where(law < _ABSENT, 0.0, law)
    law = law / law.sum(axis=1, keepdims=True)
    occurring = law[:, None, :] > 0
    xi, scores = (_whitened(np.where(occurring, x, 0.0), law) if x.shape[1] else x for x in (weights, given))
    w, root, out = np.concatenate([xi, scores], axis=1), np.sqrt(statistic), np.empty(n.size)
    deep = statistic > _DEEP
    for chosen, directions in ((~deep, _DIRECTIONS), (deep, _DEEP_DIRECTIONS)):
        # half a step off the axes, on which lattices have their points
        angle = 2 * np.pi * (np.arange(directions) + 0.5) / directions
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        v = np.array([[1.0], [-1.0]]) if weights.shape[1] == 1 else circle
        rows = np.flatnonzero(chosen)
        for at in np.array_split(rows, max(1, rows.size * v.shape[0] // _POINTS)):
            out[at] = _piece(w[at], law[at], n[at], root[at], v, counts[at])
    return out


def _whitened(weights: FloatArray, law: FloatArray) -> FloatArray:
    """Whiten weights (B, k, R) under the distribution; constant ones become 0."""
    w = weights - weights @ law[:, :, None]
    covariance = (w * law[:, None, :]) @ np.swapaxes(w, 1, 2)
    spread = np.einsum("zkk->zk", covariance)
    scale = np.where(spread > _CONSTANT, 1 / np.sqrt(np.maximum(spread, _CONSTANT)), 0.0)
    values, vectors = np.linalg.eigh(covariance * scale[:, :, None] * scale[:, None, :])
    inverse = np.where(values > _DEPENDENT, 1 / np.sqrt(np.maximum(values, _DEPENDENT)), 0.0)
    return np.asarray(inverse[:, :, None] * (np.swapaxes(vectors, 1, 2) @ (w * scale[:, :, None])))


def _piece(  # noqa: PLR0913 (one array for each letter of the formulas)
    w: FloatArray, law: FloatArray, n: FloatArray, t: FloatArray, directions: FloatArray, counts: FloatArray
) -> FloatArray:
    b, j = n.size, directions.shape[0]
    radius = np.repeat(t / np.sqrt(n), j)
    v = np.tile(directions, (b, 1))
    at = _solve(np.repeat(w, j, axis=0), np.repeat(law, j, axis=0), np.repeat(n, j), radius, v)
    if directions.shape[1] == 1:
        with np.errstate(all="ignore"):
            u = at.slope * np.sqrt(np.repeat(n, j)) * np.exp(at.log_determinant / 2)
        # no sample may reach the other side, and then its tilt does not settle
        reached = at.solved & (at.exponent < _FARTHEST)
        sides = np.where(reached, lugannani_rice(at.exponent, u), 0.0).reshape(b, j)
        own = np.where(np.einsum("zr,zr->z", w[:, 0], counts) >= 0, sides[:, 0], sides[:, 1])
        total = np.where(own > 0, sides.sum(axis=1), np.nan)
    else:
        with np.errstate(all="ignore"):
            each = np.exp(-at.log_determinant / 2 - at.exponent) * radius / at.slope
        # a tilt that has not settled belongs to a point that no sample reaches
        total = np.where(at.solved & (at.exponent < _FARTHEST), each, 0.0).reshape(b, j).mean(axis=1)
    return np.where(np.isfinite(total) & (total > 0), np.minimum(total, 1.0), np.nan)


def lugannani_rice(exponent: ArrayLike, u: ArrayLike) -> FloatArray:
    """Compute Φ̄(r) + φ(r) (1/u − 1/r) for r²/2 the ``exponent``.

    Returns NaN if the exponent is not positive.
    """
    with np.errstate(all="ignore"):
        r = np.sqrt(np.multiply(2, exponent))
        # it is φ(r) (Mills(r) + 1/u − 1/r), in logarithms: p may be below 1e-300
        log_density = np.negative(exponent) - 0.5 * np.log(2 * np.pi)
        bracket = np.exp(log_ndtr(-r) - log_density) + np.divide(1, u) - 1 / r
        return np.where(bracket > 0, np.exp(log_density) * bracket, np.nan)


def _solve(w: FloatArray, law: FloatArray, n: FloatArray, radius: FloatArray, v: FloatArray) -> _Points:
    """Minimize the convex K(τ) − τ·target by Newton, with K''(0) = I.

    w has shape (N, k + d, R).
    """
    target = np.zeros(w.shape[:2])
    target[:, : v.shape[1]] = radius[:, None] * v
    # from here on a weight is what an output adds to the mean, less the target
    w = w - target[:, :, None]
    tau, value, share = np.zeros_like(target), np.zeros(n.size), law.copy()
    open_ = np.arange(n.size)
    for _ in range(_STEPS):
        gap = -(w[open_] @ share[open_][:, :, None])[:, :, 0]
        far = (np.abs(gap) > _SOLVED).any(axis=1)
        far &= -n[open_] * value[open_] < _FARTHEST
        open_, gap = open_[far], gap[far]
        if not open_.size:
            break
        step = _newton_step(w[open_], share[open_], gap)
        tau[open_], value[open_], share[open_] = _descent(w[open_], law[open_], tau[open_], step, value[open_])
    gap = np.abs(w @ share[:, :, None])[:, :, 0].max(axis=1)
    exponent = np.maximum(-n * value, 0.0)
    k = v.shape[1]
    return _Points(
        exponent,
        # without the sixths |K_ss''(0)| is 1 in these coordinates; with them it is large where some report is nearly
        # never sent
        _log_determinant(w, share, n) - _log_determinant(w[:, k:], law, n),
        np.einsum("zk,zk->z", tau[:, :k], v),
        (gap <= _ACCEPTED) | (exponent >= _FARTHEST),
    )


def _descent(
    w: FloatArray, law: FloatArray, tau: FloatArray, step: FloatArray, before: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return τ, K and the tilted distribution after a step, damped if needed."""
    length = np.minimum(1.0, _LONGEST / np.maximum(np.abs((step[:, None, :] @ w)[:, 0]).max(axis=1), 1e-300))
    for _ in range(_HALVINGS):
        new = tau + length[:, None] * step
        value, share, peak = _cumulant(w, law, new)
        up = value > before + _ROUNDING
        if not up.any():
            break
        length = np.where(up, length / 4, length)
    # all outputs lie on one side of the point, so no sample reaches it, and K falls without end in this direction
    return new, np.where(peak < -_BEYOND, -np.inf, value), share


def _cumulant(w: FloatArray, law: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute K at τ, the tilted distribution and the largest exponent."""
    exponent = np.where(law > 0, (tau[:, None, :] @ w)[:, 0], -np.inf)
    peak = exponent.max(axis=1, keepdims=True)
    mass = law * np.exp(exponent - peak)
    total = mass.sum(axis=1)
    return peak[:, 0] + np.log(total), mass / total[:, None], peak[:, 0]


def _log_determinant(w: FloatArray, share: FloatArray, n: FloatArray) -> FloatArray:
    """Compute ln |K''| of weights (N, d, R), 0 for none.

    Gosper's sixth of a record is added to every possible output.
    """
    padded = share + (share > 0) / (6 * n[:, None])
    h = _covariance(w, padded / padded.sum(axis=1, keepdims=True))
    # coordinates that were dropped add nothing to the determinant
    k = h.shape[1]
    h[:, range(k), range(k)] += np.einsum("zkk->zk", h) == 0
    return np.asarray(np.linalg.slogdet(h)[1])


def _covariance(w: FloatArray, share: FloatArray) -> FloatArray:
    mean = w @ share[:, :, None]
    centred = w - mean
    return np.asarray((centred * share[:, None, :]) @ np.swapaxes(centred, 1, 2))


def _newton_step(w: FloatArray, share: FloatArray, gap: FloatArray) -> FloatArray:
    h = _covariance(w, share)
    # where one output is almost certain K'' is almost singular; the ridge shortens the step there and is too small to
    # matter elsewhere
    k = h.shape[1]
    h[:, range(k), range(k)] *= 1 + 1e-12
    h[:, range(k), range(k)] += 1e-14
    return np.asarray(np.linalg.solve(h, gap[:, :, None])[:, :, 0])
