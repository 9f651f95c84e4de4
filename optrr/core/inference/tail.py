"""Far tails of score statistics (design §4.4): where χ² fails, saddlepoints of many tables, simulation of one.

A score statistic is T = n ‖x‖², with x the mean over n records of ξ_y, the whitened influence of output y. The null fit is
estimated from the same table, and the tables that share a fit are those on which the mean of the fit's scores η_y is 0. Given
the fit, ξ and η are fixed weights, so the tail of T is that of a mean, given that another mean is 0. With K the cumulant
function of (ξ, η) under the fit and, for a point x,

    K'(t, s) = (x, 0),    I = t·x − K(t, s),    |H| = |K''(t, s)| / |K_ss''(0)| in coordinates in which K''(0) is the identity,

the density of x is about (n/2π)^{k/2} |H|^{-1/2} e^{−nI} (Daniels 1954; Barndorff-Nielsen & Cox 1979 for the conditional one).
Over k = 1 contrast this integrates to the double saddlepoint of Skovgaard (1987), in the form of Lugannani & Rice:

    Pr(x ≥ c) ≈ Φ̄(r) + φ(r) (1/u − 1/r),    r = √(2nI),    u = t √(n |H|).

Over k = 2 contrasts, along every direction from the centre of the disc of radius ρ that T leaves out,

    Pr(‖x‖ ≥ ρ) ≈ mean over directions v of  |H|^{-1/2} (ρ / t·v) e^{−nI}      (all at x = ρ v).

The relative error is O(1/n) and stays small far into the tail, where the normal limit is off by orders of magnitude. In the
determinants every output's expected number carries Gosper's sixth of a record, with which Stirling's formula is good to
2 % at no record at all. It stands in both, in the density of (x, 0) and in that of the mean 0 it is divided by: a report that
nearly nobody sends multiplies each of them by about 1 + 1/(6 n λ_y), which says nothing of x. With no mechanism, and
the margins given, these are the tails of exact conditional tests.

Along a direction u, Cramér's series says by how much the tail of √n u·mean differs from the normal one:

    ln [Pr(tail beyond t) / normal tail] ≈ κ_3 t³/(6 √n) + (κ_4 − 3 κ_3²) t⁴/(24 n),   κ the cumulants of u·ξ.

The ratio of the tail of T to that of χ² is the mean of its exponential over all directions, where the cubes of opposite ones
nearly cancel. Fitting the margins to the same table leaves the cubic term alone (their scores are uncorrelated with ξ) but
thins the tail by up to about t⁴/(4n), as in the exact law n r² of a correlation. `reliable_down_to` is the χ² p-value at which
the ratio, with or without that factor, first leaves [1/2, 2].

Below it, `tail_probability` simulates: tables drawn from the fitted null, exponentially tilted towards the observed distance in
many directions, refitted and tested exactly as the data were, and weighted back by the likelihood ratio. That is a parametric
bootstrap whose cost does not grow as p falls; its own relative error is estimated and returned.

What neither covers is the error of the fitted null itself, where reports expect few records: `test` permutes or bootstraps
such tables first (see :mod:`optrr.core.inference.calibration`). Measured for a
variant of 5 % in Hardy–Weinberg proportions and 5 % cases at ε = 4 each (60,000 tables; 20,000 in the last row), type I error
by χ² alone, and with the simulation beyond its limit:

                          nominal 1e-3: χ²   simulated     nominal 1e-4: χ²   simulated
    trend, n = 300              0.0030        0.0025             0.0008        0.0004
    genotypic, n = 2000         0.0022        0.0022             0.0005        0.0001
    genotypic, n = 300          0.0055        0.0011             0.0019        0.0001
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from optrr.core.estimation.distributions import chi2
from optrr.core.inference.nullfit import Fitter, NullFit, influence, score_tests
from optrr.core.inference.simulation import HELD, least_equal
from optrr.core.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray

# Directions on the circle. The rule of equal steps doubles its right digits with every doubling of them, as long as what is
# averaged is wide beside a step; far out it is narrower.
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
# Tables times directions solved at once, so that a dozen arrays of the outputs stay near the cache.
_POINTS = 1 << 12


@dataclass(frozen=True, eq=False)
class _Points:
    """At every point: exponent n·I, ln |H| given the fit, t·v, and whether the saddlepoint was found; shape (N,)."""

    exponent: FloatArray
    log_determinant: FloatArray
    slope: FloatArray
    solved: NDArray[np.bool_]


def conditional_p_values(
    fit: NullFit, counts: FloatArray, statistic: FloatArray, kernel: Kernel, contrasts: FloatArray
) -> FloatArray:
    """Pr(T ≥ statistic | fit) of every table of counts, (B,), for one or two contrasts; NaN where there is no saddlepoint.

    ``statistic`` must not be near 0, where the formula is 0/0.
    """
    law = fit.expected.reshape(fit.expected.shape[0], -1)
    pushed = kernel.forward(fit.free_tangents()).reshape(law.shape[0], -1, kernel.cells)
    weights = influence(fit, kernel, contrasts)
    return conditional_tail(weights, pushed / law[:, None, :], law, counts.reshape(law.shape), statistic)


def conditional_tail(
    weights: FloatArray, given: FloatArray, law: FloatArray, counts: FloatArray, statistic: FloatArray
) -> FloatArray:
    """Pr(n ‖mean of whitened weights‖² ≥ statistic | mean of what is given is as expected), (B,).

    ``weights`` (B, k, R), k = 1 or 2, and ``given`` (B, d, R), uncorrelated under ``law`` (B, R), the chances of the outputs;
    ``counts`` (B, R) say on which side of a single contrast the table lies: a side that no sample reaches cannot be its own.
    """
    n = counts @ np.ones(counts.shape[1])
    law = np.where(law < _ABSENT, 0.0, law)
    law = law / law.sum(axis=1, keepdims=True)
    occurring = law[:, None, :] > 0
    xi, scores = (_whitened(np.where(occurring, x, 0.0), law) if x.shape[1] else x for x in (weights, given))
    # of the null fit's directions some repeat others in every table, and what is 0 there only takes time
    scores = scores[:, scores.any(axis=(0, 2))]
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
    """Combinations of weights (B, k, R) with mean 0 and covariance I under the law; those that do not vary become 0."""
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
        each = _lugannani_rice(at, np.repeat(n, j))
        sides = each.reshape(b, j)
        own = np.where(np.einsum("zr,zr->z", w[:, 0], counts) >= 0, sides[:, 0], sides[:, 1])
        total = np.where(own > 0, sides.sum(axis=1), np.nan)
    else:
        with np.errstate(all="ignore"):
            each = np.exp(-at.log_determinant / 2 - at.exponent) * radius / at.slope
        # a tilt that has not settled belongs to a point that no sample reaches
        total = np.where(at.solved & (at.exponent < _FARTHEST), each, 0.0).reshape(b, j).mean(axis=1)
    return np.where(np.isfinite(total) & (total > 0), np.minimum(total, 1.0), np.nan)


def _lugannani_rice(at: _Points, n: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        r = np.sqrt(2 * at.exponent)
        u = at.slope * np.sqrt(n) * np.exp(at.log_determinant / 2)
        # Φ̄(r) + φ(r)(1/u − 1/r) = φ(r) (Mills(r) + 1/u − 1/r), in logarithms: p may be below 1e-300
        log_density = -at.exponent - 0.5 * np.log(2 * np.pi)
        bracket = np.exp(log_ndtr(-r) - log_density) + 1 / u - 1 / r
        each = np.exp(log_density) * bracket
    # no sample may reach the other side, and then its tilt does not settle
    return np.where(at.solved & (at.exponent < _FARTHEST), np.where(bracket > 0, each, np.nan), 0.0)


def _solve(w: FloatArray, law: FloatArray, n: FloatArray, radius: FloatArray, v: FloatArray) -> _Points:
    """Newton on the convex K(τ) − τ·target, in coordinates where K''(0) = I; w is (N, k + d, R)."""
    target = np.zeros(w.shape[:2])
    target[:, : v.shape[1]] = radius[:, None] * v
    # from here on a weight is what an output adds to the mean, less the target
    w = w - target[:, :, None]
    tau, value, share = np.zeros_like(target), np.zeros(n.size), law.copy()
    open_ = np.arange(n.size)
    for number in range(_STEPS):
        gap = -(w[open_] @ share[open_][:, :, None])[:, :, 0]
        far = (np.abs(gap) > _SOLVED) @ np.ones(gap.shape[1]) > 0
        far &= -n[open_] * value[open_] < _FARTHEST
        open_, gap = open_[far], gap[far]
        if not open_.size:
            break
        # at the start K'' is the identity
        step = _newton_step(w[open_], share[open_], gap) if number else gap
        tau[open_], value[open_], share[open_] = _descent(w[open_], law[open_], tau[open_], step, value[open_])
    gap = np.abs(w @ share[:, :, None])[:, :, 0].max(axis=1)
    exponent = np.maximum(-n * value, 0.0)
    k = v.shape[1]
    return _Points(
        exponent,
        # without the sixths |K_ss''(0)| is 1 in these coordinates; with them it is large where some report is nearly never sent
        _log_determinant(w, share, n) - _log_determinant(w[:, k:], law, n),
        np.einsum("zk,zk->z", tau[:, :k], v),
        (gap <= _ACCEPTED) | (exponent >= _FARTHEST),
    )


def _descent(
    w: FloatArray, law: FloatArray, tau: FloatArray, step: FloatArray, before: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """τ, K and the tilted law after a step, shortened where the whole of it leads up."""
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
    """K at τ, the tilted law, and the largest exponent of an output that can occur."""
    exponent = np.where(law > 0, (tau[:, None, :] @ w)[:, 0], -np.inf)
    peak = exponent.max(axis=1, keepdims=True)
    mass = law * np.exp(exponent - peak)
    total = mass @ np.ones(mass.shape[1])
    return peak[:, 0] + np.log(total), mass / total[:, None], peak[:, 0]


def _log_determinant(w: FloatArray, share: FloatArray, n: FloatArray) -> FloatArray:
    """ln |K''| of weights (N, d, R), 0 of none, with Gosper's sixth of a record added to every output that can occur."""
    padded = share + (share > 0) / (6 * n[:, None])
    h = _covariance(w, padded / (padded @ np.ones(share.shape[1]))[:, None])
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
    # where one output is almost certain K'' is almost singular; the ridge shortens the step there and is too small to matter
    # elsewhere
    k = h.shape[1]
    h[:, range(k), range(k)] *= 1 + 1e-12
    h[:, range(k), range(k)] += 1e-14
    return np.asarray(np.linalg.solve(h, gap[:, :, None])[:, :, 0])


# A p-value off by more than this factor is called unreliable.
_FACTOR = np.log(2.0)
# The grid on which the departure is sought, in standard deviations.
_STEP = 0.1
# Directions per contrast over half the sphere.
_HALF_SPHERE = 16
# Exponents are cut off here: a factor of e to this power is far more than the factor of two that is looked for.
_LARGE = 50.0
# Beyond t = 40 the p-value is below the smallest double.
_LARGEST_T = 40.0
# Tables simulated for one tail probability: relative error about 2 % for one contrast, well below 10 % for a few.
SAMPLES = 20_000
# Directions of tilting: two for one contrast; many more on a sphere, so that every point of it is near one.
_TILTS = 100
_MOST_DIRECTIONS = 2000
# Tilts beyond this would put all probability on one output.
_STRONGEST_TILT = 60.0


@dataclass(frozen=True)
class TailProbability:
    """A simulated p-value and its relative standard error."""

    p_value: float
    relative_error: float


def whitened_influence(fit: NullFit, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    """ξ of every output for a batch of fits: (B, K, R), mean 0 and covariance I under each fit."""
    psi = influence(fit, kernel, contrasts)
    weights = fit.expected.reshape(psi.shape[0], 1, -1)
    scale = 1 / np.sqrt(np.sum(weights * psi**2, axis=2, keepdims=True))
    scaled = psi * scale
    correlation = (scaled * weights) @ np.swapaxes(scaled, 1, 2)
    return np.linalg.solve(np.linalg.cholesky(correlation), scaled)


def reliable_down_to(fit: NullFit, n: FloatArray, kernel: Kernel, contrasts: FloatArray) -> FloatArray:
    """Smallest asymptotic p-value within a factor of two of the truth, by Cramér's series: shape (B,).

    O(B · directions · R) time, in pieces of 32 MB.
    """
    directions, out = _spread_directions(contrasts.shape[0]), np.empty(n.size)
    step = max(1, HELD // (directions.shape[0] * kernel.cells))
    for piece in (slice(start, start + step) for start in range(0, n.size, step)):
        xi = whitened_influence(fit.part(piece), kernel, contrasts)
        lam = fit.expected[piece].reshape(xi.shape[0], -1)
        along = directions @ xi
        third = np.einsum("zjr,zr->zj", along**3, lam)
        fourth = np.einsum("zjr,zr->zj", along**4, lam) - 3
        root = np.sqrt(n[piece])[:, None]
        farthest = _first_departure(third / (6 * root), (fourth - 3 * third**2) / (24 * root**2), n[piece])
        out[piece] = chi2.sf(farthest**2, contrasts.shape[0])
    return out


def _spread_directions(k: int) -> FloatArray:
    """Unit vectors over half the sphere, the same every time; the other half enters with the opposite sign."""
    if k == 1:
        return np.ones((1, 1))
    raw = np.random.default_rng(0).normal(size=(_HALF_SPHERE * min(k, 8), k))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _first_departure(cubic: FloatArray, quartic: FloatArray, n: FloatArray) -> FloatArray:
    """First t on a grid where the mean of exp(±cubic t³ + quartic t⁴) leaves [1/2, 2], thinned or not; shape (B,)."""
    out = np.full(cubic.shape[0], _LARGEST_T)
    open_ = np.ones(cubic.shape[0], dtype=np.bool_)
    for t in np.arange(_STEP, _LARGEST_T, _STEP):
        even = np.exp(np.clip(quartic[open_] * t**4, -_LARGE, _LARGE))
        odd = np.cosh(np.minimum(np.abs(cubic[open_]) * t**3, _LARGE))
        ratio = np.log(np.mean(even * odd, axis=1))
        left = np.flatnonzero(open_)[(ratio > _FACTOR) | (ratio - t**4 / (4 * n[open_]) < -_FACTOR)]
        out[left] = t - _STEP
        open_[left] = False
        if not open_.any():
            break
    return out


def tail_probability(  # noqa: PLR0913 (the test, the table, and how to simulate)
    table: FloatArray,
    kernel: Kernel,
    contrasts: FloatArray,
    fitter: Fitter,
    random_state: int | np.random.Generator | None = None,
    samples: int = SAMPLES,
) -> TailProbability:
    """Pr(T ≥ observed T) under the fitted null of one table of counts, by tilted simulation with refitting.

    Good at any depth that doubles can express. The fitted null stands for the true one, as in every parametric bootstrap.
    """
    rng = np.random.default_rng(random_state)
    observed = score_tests(table[None], kernel, contrasts, fitter)
    n, distance = int(table.sum()), float(np.sqrt(observed.statistic[0]))
    lam = observed.fit.expected[0].ravel()
    xi = whitened_influence(observed.fit, kernel, contrasts)[0]
    directions = _directions(xi, rng)
    tilts = np.array([_tilt(u @ xi, lam, distance / np.sqrt(n)) for u in directions])
    exponents = (tilts[:, None] * directions) @ xi
    cumulants = np.log(np.exp(exponents) @ lam)
    proposals = lam * np.exp(exponents - cumulants[:, None])
    chosen = np.sort(rng.integers(0, tilts.size, samples))
    draws = rng.multinomial(n, (proposals / proposals.sum(axis=1, keepdims=True))[chosen]).astype(np.float64)
    weights = _likelihood_ratio(draws, exponents - cumulants[:, None])
    again = score_tests(draws.reshape(-1, *table.shape), kernel, contrasts, fitter).statistic
    reached = np.where(again >= least_equal(observed.statistic[0]), weights, 0.0)
    p = float(reached.mean())
    error = float(reached.std(ddof=1) / np.sqrt(samples))
    return TailProbability(min(p, 1.0), error / p if p > 0 else float("inf"))


def _directions(xi: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Where to tilt: over the whole sphere, and towards every output, where rare ones make the tail heavy."""
    k = xi.shape[0]
    if k == 1:
        return np.array([[1.0], [-1.0]])
    own = xi.T[np.linalg.norm(xi, axis=0) > 0]
    raw = np.concatenate([rng.normal(size=(min(_TILTS ** min(k - 1, 3), _MOST_DIRECTIONS), k)), own])
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _tilt(along: FloatArray, lam: FloatArray, goal: float) -> float:
    """θ at which the tilted mean of ``along`` is ``goal``; as far as it goes where no tilt reaches it."""

    def excess(theta: float) -> float:
        powers = lam * np.exp(theta * along - max(theta * along.max(), theta * along.min()))
        return float(powers @ along / powers.sum()) - goal

    limit = _STRONGEST_TILT / float(np.abs(along).max())
    if excess(limit) <= 0:
        return limit
    from scipy.optimize import brentq  # noqa: PLC0415 (slow to import, and most tables need none of it)

    return float(brentq(excess, 0.0, limit)) if excess(0.0) < 0 else 0.0


def _likelihood_ratio(draws: FloatArray, log_ratios: FloatArray) -> FloatArray:
    """Null density over the mixture of proposals, for each drawn table; in pieces of 32 MB."""
    out = np.empty(draws.shape[0])
    step = max(1, HELD // log_ratios.shape[0])
    for s in range(0, out.size, step):
        logs = draws[s : s + step] @ log_ratios.T
        top = logs.max(axis=1, keepdims=True)
        out[s : s + step] = np.exp(-top[:, 0]) / np.exp(logs - top).mean(axis=1)
    return out
