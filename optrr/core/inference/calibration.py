"""p-values of tests of association, for many tables at once: from the χ² limit where it is good, from simulation elsewhere.

Under the null hypothesis the true attributes are independent, and what is left unknown are their margins.

Where the mechanism randomizes the two attributes independently of each other, reports are independent too. Given their
margins, every way to pair the reports of one attribute with those of the other is then alike: a permutation test, exact for
every statistic. Under other mechanisms reports are dependent by a known kernel and unknown margins, and tables are drawn from
the fitted null hypothesis (the parametric bootstrap), whose error they keep.

A score test trusts χ² where every report expects `MANY_EXPECTED` records and p is not below
:func:`~optrr.core.inference.tail.reliable_down_to`; far in the tail of such tables, tilted simulation. It is the reports that
count: categories that nobody has do no harm where the mechanism fills them. The likelihood ratio trusts χ² where no cell of the
fitted null hypothesis is near 0.

The likelihood ratio is 2n [ℓ(likeliest distribution) − ℓ(likeliest independent one)]. Both maxima are taken over proper
distributions (design §4.4). The limit is χ² with (r_a−1)(r_b−1) degrees of freedom where the true distribution has no empty
cell. Where cells are within a few standard errors of 0, the likeliest distribution has empty ones by chance, T falls short of
χ², and its p-value is too large: levels of 0 to 3 % at nominal 5 %. `test` bootstraps there. How far a cell is from 0 is
judged at the null fit, because a p-value speaks about the distribution under the null.

Tables are fitted many at once. Where the unbiased estimate is proper it is the likeliest distribution; elsewhere, and for the
margins of the null fit in turns, :mod:`optrr.core.estimation.likelihood`.

Scans of many tables have p-values of score tests without simulation, as far as possible:

    p of χ² above 0.0455 (one contrast; two standard deviations) or 0.01 (two): the χ² limit, as long as every output
                                                   expects 50 records; above 0.3 and 0.1 it is kept in sparser tables, too
    below it, one contrast:                        conditional saddlepoint (:mod:`optrr.core.inference.tail`)
    below it, two contrasts:                       the same where every output expects at least 5 records,
                                                   tilted simulation (:mod:`optrr.core.inference.tail`) elsewhere
    three contrasts or more, or many categories:   the χ² limit here; :func:`optrr.core.inference.testing.test` simulates

One rule for both `optrr test` and `optrr gwas`: one table has one p-value.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain.domain import PairScores
from optrr.core.estimation.distributions import chi2, chi_squared_tails
from optrr.core.estimation.likelihood import likeliest_weights
from optrr.core.estimation.simplex import clip
from optrr.core.inference import simulation
from optrr.core.inference.nullfit import Fitter, NullFit, ScoreTests, expected_product, independence_fit, score_tests
from optrr.core.inference.result import TOO_NOISY
from optrr.core.inference.tail import conditional_p_values, conditional_tail, reliable_down_to, tail_probability
from optrr.core.mechanisms.kernel import EffectKernel, Kernel, ProductKernel
from optrr_solvers.arrays import FloatArray, IntArray

# Newton's matrices grow with the square of the cells: 8 MB a table at this size.
MAX_CELLS = 1024
# Bound on the distance from the maximum, in nats per record: at 10^8 records 2e-4 in T.
_TOLERANCE = 1e-12
# Rounds over the two margins; they are nearly uncorrelated, so two or three rounds are enough.
_ROUNDS = 100
# Records' worth added to every category of the margins that a bootstrap draws from, as Jeffreys' prior does: a fitted margin
# has empty categories more often than the truth, and its draws fall short as well. Of 3000 tables of 6 × 3 at n = 1000,
# p-values were at most 0.1 in 10.2 % with it and in 11.2 % without.
_PADDING = 0.5
# Starting weights keep this much of the even ones, so that no observed output is impossible.
_EVEN = 0.01


def likelihood_ratios(tables: FloatArray, kernel: Kernel) -> ScoreTests:
    """Test every table of counts, (B, r_a, r_b), randomized by one invertible kernel of up to 1024 cells.

    χ² holds where no cell is :func:`near_boundary`. O(B R³) time in pieces of 32 MB: 20 to 50 µs a table of 6 × 3.
    """
    step = max(1, simulation.HELD // kernel.cells**2)
    pieces = [_piece(tables[s : s + step], kernel) for s in range(0, tables.shape[0], step)]
    statistic, rows, columns, expected = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    df = (kernel.sizes[0] - 1) * (kernel.sizes[1] - 1)
    p, none = np.asarray(chi2.sf(statistic, df)), np.full(statistic.size, np.nan)
    return ScoreTests(statistic, df, p, none, NullFit(rows, columns, expected))


def likeliest_product(observed: FloatArray, kernel: Kernel) -> NullFit:
    """The likeliest independent distribution of every table: Fisher scoring, then one margin at a time where it stopped short.

    Given one margin, the likeliest other one is that of a mixture, which is computed exactly, also on the boundary.
    """
    fit = independence_fit(observed, kernel)
    rows, columns = fit.rows.copy(), fit.columns.copy()
    flat = observed.reshape(observed.shape[0], -1)
    p = kernel.matrix().reshape(*kernel.sizes, kernel.cells)
    open_ = np.arange(flat.shape[0])
    for _ in range(_ROUNDS):
        by_rows = np.einsum("zj,ijr->zir", columns[open_], p)
        rows[open_], _, first = likeliest_weights(flat[open_], by_rows, rows[open_], _TOLERANCE)
        by_columns = np.einsum("zi,ijr->zjr", rows[open_], p)
        columns[open_], _, second = likeliest_weights(flat[open_], by_columns, columns[open_], _TOLERANCE)
        open_ = open_[(first > 0) | (second > 0)]
        if not open_.size:
            break
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def padded_null(fit: NullFit, n: float | NDArray[np.integer], kernel: Kernel) -> NullFit:
    """The null fit with half a record added to each category of each margin, for a bootstrap; ``n`` of all or each.

    A record counts as many as it takes without randomization to estimate an even margin as well.
    """
    rows, columns = (_padded(margins, fit, n, kernel, axis) for axis, margins in enumerate((fit.rows, fit.columns)))
    return NullFit(rows, columns, expected_product(rows, columns, kernel))


def _padded(margins: FloatArray, fit: NullFit, n: float | NDArray[np.integer], kernel: Kernel, axis: int) -> FloatArray:
    r = margins.shape[1]
    members = np.expand_dims(np.eye(r), 2 - axis) * np.ones(kernel.sizes)
    weights = kernel.solve_adjoint(members).reshape(r, -1)
    outputs = fit.expected.reshape(-1, kernel.cells)
    variance = np.sum(outputs @ (weights**2).T - (outputs @ weights.T) ** 2, axis=1, keepdims=True) / np.reshape(
        n, (-1, 1)
    )
    # 1/records is variance over 1 − 1/r
    added = _PADDING * np.maximum(variance, 0.0) / (1 - 1 / r)
    return np.asarray((margins + added) / (1 + r * added))


def _piece(tables: FloatArray, kernel: Kernel) -> tuple[FloatArray, ...]:
    n = tables.sum(axis=(1, 2))
    observed = tables / n[:, None, None]
    null = likeliest_product(observed, kernel)
    free = _likeliest(observed, kernel)
    seen = observed > 0
    logs = np.log(np.divide(free, null.expected, out=np.ones_like(free), where=seen))
    statistic = np.maximum(2 * n * np.sum(observed * logs, axis=(1, 2)), 0.0)
    return statistic, null.rows, null.columns, null.expected


def _likeliest(observed: FloatArray, kernel: Kernel) -> FloatArray:
    """Expected outputs of the likeliest distribution: the observed ones where the unbiased estimate is proper."""
    unbiased = kernel.solve(observed)
    outside = unbiased.min(axis=(1, 2)) < 0
    out = observed.copy()
    if outside.any():
        flat = observed[outside].reshape(-1, kernel.cells)
        start = (1 - _EVEN) * clip(unbiased[outside].reshape(flat.shape)) + _EVEN / kernel.cells
        matrix = kernel.matrix()
        weights, _, _ = likeliest_weights(flat, matrix[None], start, _TOLERANCE)
        out[outside] = (weights @ matrix).reshape(-1, *kernel.sizes)
    return out


def near_boundary(null: NullFit, n: FloatArray, kernel: Kernel) -> NDArray[np.bool_]:
    """Where some cell of a fitted null hypothesis is not clear of 0, (B,)."""
    cells = null.rows[:, :, None] * null.columns[:, None, :]
    errors = np.sqrt(kernel.exact_variance(null.expected, 1.0) / n[:, None, None])
    return np.asarray((cells < simulation.CLEAR_OF_ZERO * errors).any(axis=(1, 2)))


# χ² p-values above these are kept, because both agree there (two standard deviations as in SPAtest, Dey et al. 2017).
_KEPT = {1: 0.0455, 2: 0.01}
# In tables where some output expects fewer than MANY_EXPECTED records, its p-values are kept only above these.
_KEPT_IF_SPARSE = {1: 0.3, 2: 0.1}
# With fewer records expected in some output, the points of the lattice are too far apart for an integral over directions.
FEW_EXPECTED = 5.0
# Up to this many categories of both attributes together, Newton's matrices, whose size is the square of that, stay small.
_MOST_CATEGORIES = 64
# Tables simulated for one p-value of two contrasts: relative error 2 to 4 %.
_SAMPLES = 4000
# The seed of the simulation; it is always the same, so that a table always has the same p-value.
_SEED = 20_260


@dataclass(frozen=True, eq=False)
class Calibrated:
    """``p_value`` and where it comes from: ``asymptotic``, ``saddlepoint`` or ``tilted``; shape (B,).

    ``relative_error`` of simulated p-values, 0 elsewhere.
    """

    p_value: FloatArray
    source: NDArray[np.object_]
    relative_error: FloatArray


def is_conditional(kernel: Kernel, contrasts: FloatArray) -> bool:
    """Whether `calibrated` may differ from the χ² limit: with one or two contrasts, and not too many categories."""
    return contrasts.shape[0] in _KEPT and sum(kernel.sizes) <= _MOST_CATEGORIES


def calibrated(
    scores: ScoreTests, tables: NDArray[np.number], kernel: Kernel, contrasts: FloatArray, fitter: Fitter
) -> Calibrated:
    """p-values of the tests of every table of counts; the arguments are those that `score_tests` took, and its result."""
    p, error = scores.p_value.copy(), np.zeros(scores.p_value.size)
    source = np.full(p.size, "asymptotic", dtype=object)
    if not is_conditional(kernel, contrasts):
        return Calibrated(p, source, error)
    far = np.flatnonzero(p < _KEPT_IF_SPARSE[scores.df])
    n = tables[far].sum(axis=(1, 2)).astype(np.float64)
    fewest = n * scores.fit.expected[far].reshape(far.size, kernel.cells).min(axis=1)
    chosen = (p[far] < _KEPT[scores.df]) | (fewest < simulation.MANY_EXPECTED)
    far, fewest = far[chosen], fewest[chosen]
    if scores.df > 1:
        for k in far[fewest < FEW_EXPECTED]:
            table = tables[k].astype(np.float64)
            tail = tail_probability(table, kernel.part(k), contrasts, fitter, _SEED, _SAMPLES)
            if tail.relative_error < TOO_NOISY:
                p[k], error[k], source[k] = tail.p_value, tail.relative_error, "tilted"
        far = far[fewest >= FEW_EXPECTED]
    if far.size:
        counts = tables[far].astype(np.float64)
        exact = conditional_p_values(scores.fit.part(far), counts, scores.statistic[far], kernel.part(far), contrasts)
        known = np.isfinite(exact)
        p[far[known]], source[far[known]] = exact[known], "saddlepoint"
    return Calibrated(p, source, error)


def tail_of_one(
    weights: FloatArray, law: FloatArray, counts: FloatArray, statistic: FloatArray, given: FloatArray | None = None
) -> FloatArray:
    """p-values (B,) of one contrast with fixed weights (B, R): by the same rule, conditional on the means of ``given``, if any.

    For statistics n mean² / variance that were made elsewhere; ``law`` (B, R) are the outputs' chances under the null fit,
    ``counts`` (B, R) the tables, ``given`` (B, d, R) the scores of what was fitted. NaN where the statistic is.
    """
    p = chi_squared_tails(statistic, 1)
    chosen = p < _KEPT[1]
    if given is None:
        given = np.empty((p.size, 0, law.shape[1]))
    else:
        chosen |= (p < _KEPT_IF_SPARSE[1]) & (counts.sum(axis=1) * law.min(axis=1) < simulation.MANY_EXPECTED)
    far = np.flatnonzero(chosen)
    if far.size:
        exact = conditional_tail(weights[far, None], given[far], law[far], counts[far], statistic[far])
        p[far] = np.where(np.isfinite(exact), exact, p[far])
    return p


# Where every report expects many records, the χ² limit holds for all p-values above this.
_SURE = 0.05
# λ_ab may differ from λ_a λ_b by rounding.
_SEPARATE = 1e-12
# The most multiplications of one simulation, which take about two seconds.
_MOST_WORK = 400_000_000
# Simulations of fewer draws say little, so tables for which even these take more than about ten seconds are not simulated.
_FEWEST_DRAWS, _LARGEST_WORK = 999, 2_000_000


@dataclass(frozen=True, eq=False)
class Association:
    """A test made concrete: the kernel, the contrasts (K, r_a, r_b), the null hypothesis, what is to be said, its scores."""

    name: str
    kernel: Kernel
    contrasts: FloatArray
    fitter: Fitter
    warnings: tuple[str, ...] = ()
    scores: PairScores | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether it is the likelihood ratio, which knows no contrasts."""
        return self.name == "likelihood-ratio"

    @property
    def work(self) -> int:
        """Multiplications that one table takes, about."""
        if self.is_ratio:
            return self.kernel.cells**3
        margins = sum(self.kernel.sizes)
        return self.kernel.cells * (len(self.contrasts) ** 2 + 6 * margins**2)

    def tested(self, tables: FloatArray) -> ScoreTests:
        """A batch of tables (B, r_a, r_b), with p-values of χ²."""
        if self.is_ratio:
            return likelihood_ratios(tables, self.kernel)
        return score_tests(tables, self.kernel, self.contrasts, self.fitter)


@dataclass(frozen=True, eq=False)
class Limit:
    """What the χ² limit says of a batch, its ``tests``, and how far it can be trusted: where χ² ``holds``, (B,).

    ``fewest`` (B,) are the records that the rarest report expects. ``down_to`` (B,) is the p-value down to which the limit
    holds, infinite where it does not at all, 0 where it was not sought.
    """

    tests: ScoreTests
    fewest: FloatArray
    down_to: FloatArray

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Whether the p-value is within a factor of two."""
        return self.tests.p_value >= self.down_to


def chi_square_limit(test: Association, tables: FloatArray) -> Limit:
    """χ² p-values of tables (B, r_a, r_b) and how far they can be trusted."""
    n, tests = tables.sum(axis=(1, 2)), test.tested(tables)
    fewest = n * tests.fit.expected.min(axis=(1, 2))
    doubtful = near_boundary(tests.fit, n, test.kernel) if test.is_ratio else fewest < simulation.MANY_EXPECTED
    down_to = np.where(doubtful, np.inf, 0.0)
    small = np.flatnonzero(~doubtful & (tests.p_value < _SURE))
    if small.size and not test.is_ratio:
        down_to[small] = reliable_down_to(tests.fit.part(small), n[small], test.kernel, test.contrasts)
    return Limit(tests, fewest, down_to)


def can_be_simulated(test: Association) -> bool:
    """Whether simulation ends in about ten seconds."""
    return test.work <= _LARGEST_WORK


def affordable(test: Association) -> simulation.Simulation:
    """How many tables can be drawn in about two seconds."""
    return simulation.Simulation(most=min(simulation.Simulation.most, max(_FEWEST_DRAWS, _MOST_WORK // test.work)))


def is_separable(kernel: Kernel) -> bool:
    """Whether the two attributes are randomized independently: reports are then independent where people are."""
    if isinstance(kernel, EffectKernel):
        one = kernel.eigenvalues
        return bool(abs(one[1, 1] - one[1, 0] * one[0, 1]) <= _SEPARATE * abs(one[1, 0] * one[0, 1]))
    return isinstance(kernel, ProductKernel) and len(kernel.parts) == 2


def can_be_permuted(test: Association, tables: FloatArray) -> bool:
    """Whether simulation is exact: a separable kernel, and no more records than can be dealt."""
    return is_separable(test.kernel) and bool(tables.sum(axis=(1, 2)).max() < simulation.MOST_RECORDS)


def simulated(
    test: Association, tables: FloatArray, tests: ScoreTests, rng: np.random.Generator, rule: simulation.Simulation
) -> tuple[FloatArray, IntArray]:
    """p-values of tables (B, r_a, r_b), by permutations where the kernel is separable, by the bootstrap elsewhere.

    With how many drawn statistics reached those of the ``tests``.
    """
    doubles = test.kernel.cells
    if not can_be_permuted(test, tables):
        n = tables.sum(axis=(1, 2))
        laws = padded_null(tests.fit, n, test.kernel).expected
        drawn = simulation.drawn_statistics(n, laws, lambda drawn: test.tested(drawn).statistic, doubles, rng)
        return simulation.simulated_p_values(tests.statistic, drawn, rule)
    rows, columns = (tables.sum(axis=axis).astype(np.int64) for axis in (2, 1))

    def draw(of: IntArray, size: int) -> FloatArray:
        paired = simulation.dealt(rows[of], columns[of], size, rng).reshape(-1, *test.kernel.sizes).astype(np.float64)
        return test.tested(paired).statistic.reshape(of.size, size)

    return simulation.simulated_p_values(
        tests.statistic, lambda of, size: simulation.in_blocks(of, size, doubles, draw), rule
    )
