"""How far into the tail a p-value can be trusted, and p-values from beyond that point (design §4.4).

A score statistic is T = n ‖mean of ξ‖², with ξ_y the influence of output y, whitened: mean 0, covariance I under the null fit.
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
such tables first (see :mod:`optrr.models.tests.calibration`). Measured for a
variant of 5 % in Hardy–Weinberg proportions and 5 % cases at ε = 4 each (60,000 tables; 20,000 in the last row), type I error
by χ² alone, and with the simulation beyond its limit:

                          nominal 1e-3: χ²   simulated     nominal 1e-4: χ²   simulated
    trend, n = 300              0.0030        0.0025             0.0008        0.0004
    genotypic, n = 2000         0.0022        0.0022             0.0005        0.0001
    genotypic, n = 300          0.0055        0.0011             0.0019        0.0001

Where the χ² limit of a test's statistic can be believed, as was measured, and p-values from drawn tables elsewhere.

Pearson's tests of randomized counts whose law under the null hypothesis is known exactly, for many tables at once.

Goodness of fit, π = π_0:                 T = n Σ (λ̂ − λ_0)²/λ_0,  λ_0 = Pᵀπ_0, counts multinomial (n, λ_0);
Homogeneity of G groups, one mechanism:   T = Σ_g n_g Σ (λ̂_g − λ̂)²/λ̂,  λ̂ of all groups together. Given the groups' sizes
                                          and the categories' totals, every way to deal the reports to the groups is alike.

The second is a permutation test: a mechanism that treats all people alike makes reports exchangeable where people are, and
Pᵀ is injective, so reports have the same law in every group only where people have. No fit enters either law, hence none of
its errors either. χ² stands in where every cell expects so many records that it is right to within a factor of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.mechanisms.kernel import Kernel
from optrr.models.tests.nullfit import Fitter, NullFit, influence, score_tests
from optrr.models.tests.simulation import HELD, MOST_RECORDS, Draw, Simulation, dealt, in_blocks, simulated_p_values
from optrr.tables.distributions import chi2
from optrr_solvers.arrays import FloatArray, IntArray

# Records that a report must be expected of. Reports that expect fewer make χ² too large a p-value (levels of 1.5 to 4 % at
# nominal 5 %) or, where several attributes' rare categories meet, too small a one (0.8 % at nominal 0.1 %); steps of one record
# show in the tail, so that χ² is off at the usual levels, too, and says nothing of p-values that no simulated table reaches.
# Where every report expects this many and χ² still does not hold, the p-value is far in the tail.
MANY_EXPECTED = 50.0
# Standard errors above 0 of every fitted cell that a likelihood ratio asks for: one that far above 0 is estimated below 0 in 3
# of 10^5 tables, and at 0 the ratio falls short of χ².
CLEAR_OF_ZERO = 4.0
# arcosh 2: where t³/(6√μ) reaches this number, the tail is twice the normal one.
_DOUBLED = 1.317


def chi_square_holds(p: FloatArray, df: int, fewest: FloatArray) -> NDArray[np.bool_]:
    """Whether the χ² limit's p-values are within a factor of two, for these smallest expected counts μ, shape (B,).

    At t standard deviations towards a cell that expects μ records, the tails of both sides together are cosh(t³/(6√μ)) times
    the normal ones (Cramér's series). The statistic is taken as if all of it came from the rarest cell.
    """
    farthest = (6 * _DOUBLED * np.sqrt(fewest)) ** (1 / 3)
    return np.asarray((fewest >= MANY_EXPECTED) & (p >= chi2.sf(farthest**2, df)))


@dataclass(frozen=True, eq=False)
class LimitOrDrawn:
    """Tests of a batch, shape (B,).

    ``simulated`` says where the law under the null hypothesis was drawn from and ``reached`` how many statistics drawn by
    ``rule`` were as large. Where none was, p is 1/(most + 1), an upper bound, or the χ² limit's smaller value where that has
    the right order of magnitude.
    """

    statistic: FloatArray
    df: int
    p_value: FloatArray
    simulated: NDArray[np.bool_]
    reached: IntArray
    rule: Simulation

    @classmethod
    def of(  # noqa: PLR0913 (each argument a property of the batch)
        cls,
        statistic: FloatArray,
        df: int,
        fewest: FloatArray,
        draw: Callable[[IntArray], Draw],
        rule: Simulation,
        *,
        clear: NDArray[np.bool_] | bool = True,
        possible: NDArray[np.bool_] | bool = True,
        beyond: bool = True,
    ) -> LimitOrDrawn:
        """Tests whose reports expect at least ``fewest`` records; ``draw`` makes what draws for the tables of some numbers.

        The χ² limit needs a null hypothesis that is ``clear`` of its bounds, and stands where drawing is not ``possible``, and
        ``beyond`` what is drawn.
        """
        limit = np.asarray(chi2.sf(statistic, df))
        p, reached = limit.copy(), np.zeros(statistic.size, dtype=np.int64)
        simulated = ~(chi_square_holds(limit, df, fewest) & clear) & possible
        where = np.flatnonzero(simulated)
        if where.size:
            drawn = simulated_p_values(statistic[where], draw(where), rule)
            p[where], reached[where] = drawn.p_value, drawn.reached
        # where no simulated table reached the statistic, χ² still has the right order of magnitude if records are many
        ordered = simulated & (reached == 0) & (fewest >= MANY_EXPECTED) & clear & beyond
        return cls(statistic, df, np.where(ordered, np.minimum(p, limit), p), simulated, reached, rule)


# Sums of squares that are 1 may differ from it by this much: rounding, far below what changes a p-value.
_ROUNDING = 1e-13
# The most cells drawn for one p-value: random tables for about two seconds.
_MOST_CELLS = 20_000_000


def goodness_tests(
    tables: FloatArray, expected: FloatArray, rng: np.random.Generator, rule: Simulation | None = None
) -> LimitOrDrawn:
    """Tables of counts (B, R) against expected proportions (R,) that sum to 1. Cells that expect nothing may be 0 only."""
    n = tables.sum(axis=1).astype(np.int64)
    statistic = _distance(tables, n[:, None] * expected)

    def draw(of: IntArray, size: int) -> FloatArray:
        drawn = rng.multinomial(n[of, None], expected, size=(of.size, size))
        return _distance(drawn.astype(np.float64), n[of, None, None] * expected)

    cells = expected.size
    return LimitOrDrawn.of(
        statistic,
        cells - 1,
        n * expected.min(),
        lambda where: lambda of, size: in_blocks(where[of], size, cells, draw),
        rule or _rule(cells),
    )


def homogeneity_tests(tables: IntArray, rng: np.random.Generator, rule: Simulation | None = None) -> LimitOrDrawn:
    """Tables of counts (B, G, R), a row for each group; every group has at least one record."""
    groups, cells = tables.shape[1:]
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    n = rows.sum(axis=1)
    # margins of 0 do not change the statistic
    weights = np.divide(1.0, columns, out=np.zeros(columns.shape), where=columns > 0)

    def distance(counts: IntArray, of: IntArray) -> FloatArray:
        """Of tables (len(of), size, G, R): n (Σ x²/(row · column) − 1)."""
        squares = np.einsum("bsgr,bg,br->bs", counts.astype(np.float64) ** 2, 1 / rows[of], weights[of])
        # where the groups are exactly alike, as where all records are in one category, only rounding is left
        return np.asarray(n[of, None] * np.where(squares - 1 > _ROUNDING, squares - 1, 0.0))

    def draw(of: IntArray, size: int) -> FloatArray:
        return distance(dealt(rows[of], columns[of], size, rng), of)

    statistic = distance(tables[:, None], np.arange(n.size))[:, 0]
    fewest = rows.min(axis=1) * columns.min(axis=1) / n
    df = (groups - 1) * (cells - 1)
    return LimitOrDrawn.of(
        statistic,
        df,
        fewest,
        lambda where: lambda of, size: in_blocks(where[of], size, groups * cells, draw),
        rule or _rule(groups * cells),
        possible=n < MOST_RECORDS,
    )


def _rule(cells: int) -> Simulation:
    return Simulation(most=min(Simulation.most, max(999, _MOST_CELLS // cells)))


def _distance(counts: FloatArray, expected: FloatArray) -> FloatArray:
    difference = (counts - expected) ** 2
    terms = np.divide(difference, expected, out=np.where(difference > 0, np.inf, 0.0), where=expected > 0)
    return np.asarray(terms.sum(axis=-1))


# A p-value off by more than this factor is called unreliable.
_FACTOR = np.log(2.0)
# The grid on which the departure is sought, in standard deviations.
_STEP = 0.1
# Directions per contrast over half the sphere.
_HALF_SPHERE = 16
# Exponents are cut off here: a factor of e to this power is far more than the factor of two that is looked for.
_LARGE = 50.0
# Beyond t = 40 the p-value is below the smallest double.
_FARTHEST = 40.0
# Tables simulated for one tail probability: relative error about 2 % for one contrast, well below 10 % for a few.
SAMPLES = 20_000
# Directions of tilting: two for one contrast; many more on a sphere, so that every point of it is near one.
_DIRECTIONS = 100
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
    directions = _spread_directions(contrasts.shape[0])
    step = max(1, HELD // (directions.shape[0] * kernel.cells))
    starts = range(0, fit.rows.shape[0], step)
    pieces = [
        _reliable_piece(fit.part(slice(s, s + step)), n[s : s + step], kernel, contrasts, directions) for s in starts
    ]
    return np.concatenate(pieces)


def _reliable_piece(
    fit: NullFit, n: FloatArray, kernel: Kernel, contrasts: FloatArray, directions: FloatArray
) -> FloatArray:
    xi = whitened_influence(fit, kernel, contrasts)
    lam = fit.expected.reshape(xi.shape[0], -1)
    along = directions @ xi
    third = np.einsum("zjr,zr->zj", along**3, lam)
    fourth = np.einsum("zjr,zr->zj", along**4, lam) - 3
    root = np.sqrt(n)[:, None]
    farthest = _first_departure(third / (6 * root), (fourth - 3 * third**2) / (24 * root**2), n)
    return np.asarray(chi2.sf(farthest**2, contrasts.shape[0]))


def _spread_directions(k: int) -> FloatArray:
    """Unit vectors over half the sphere, the same every time; the other half enters with the opposite sign."""
    if k == 1:
        return np.ones((1, 1))
    raw = np.random.default_rng(0).normal(size=(_HALF_SPHERE * min(k, 8), k))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def _first_departure(cubic: FloatArray, quartic: FloatArray, n: FloatArray) -> FloatArray:
    """First t on a grid where the mean of exp(±cubic t³ + quartic t⁴) leaves [1/2, 2], thinned or not; shape (B,)."""
    out = np.full(cubic.shape[0], _FARTHEST)
    open_ = np.ones(cubic.shape[0], dtype=np.bool_)
    for t in np.arange(_STEP, _FARTHEST, _STEP):
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
    # statistics that are equal may differ by rounding
    reached = np.where(again >= observed.statistic[0] * (1 - 1e-9), weights, 0.0)
    p = float(reached.mean())
    error = float(reached.std(ddof=1) / np.sqrt(samples))
    return TailProbability(min(p, 1.0), error / p if p > 0 else float("inf"))


def _directions(xi: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Where to tilt: over the whole sphere, and towards every output, where rare ones make the tail heavy."""
    k = xi.shape[0]
    if k == 1:
        return np.array([[1.0], [-1.0]])
    own = xi.T[np.linalg.norm(xi, axis=0) > 0]
    raw = np.concatenate([rng.normal(size=(min(_DIRECTIONS ** min(k - 1, 3), _MOST_DIRECTIONS), k)), own])
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
