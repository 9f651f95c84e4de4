"""Intervals of cells: ends against exact laws and the inequality that they solve, moments by enumeration, and coverage.

Seeds are fixed; coverage of 600 data sets has standard deviation 0.9 % a cell.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial, norm

from optrr import Constraints, Counts, Domain, Mechanism, design
from optrr.core.estimation.estimator import METHODS, estimate
from optrr.core.estimation.score_interval import cell_intervals, cell_variances, wilson
from optrr.core.mechanisms.kernel import MatrixKernel
from optrr_solvers.laws import ProductLaw

SPARSE = Domain.of({"a": 4, "b": 4, "c": 3})
SKEWED = np.random.default_rng(3).dirichlet(np.full(48, 0.3)).reshape(4, 4, 3)


def kernel_at(domain, epsilons):
    return Mechanism(domain, ProductLaw(domain.sizes, np.asarray(epsilons, float))).kernel(domain.names)


def drawn(kernel, pi, n, runs, seed):
    lam = kernel.expected(pi).ravel()
    draws = np.random.default_rng(seed).multinomial(n, lam / lam.sum(), size=runs)
    return draws.reshape(runs, *kernel.sizes)


def covered(kernel, tables, truth, n, level, fixed=False):
    lower, upper = (end.reshape(len(tables), -1) for end in cell_intervals(kernel, tables / n, n, level, fixed))
    return (lower <= truth.ravel() + 1e-12) & (truth.ravel() <= upper + 1e-12)


@pytest.mark.parametrize(("hits", "n"), [(0, 12), (3, 1000), (144, 294), (20, 20)])
def test_without_noise_cells_of_one_attribute_have_clopper_and_pearsons_limits(hits, n):
    kernel = kernel_at(Domain.of({"a": 3}), [40.0])
    lower, upper = cell_intervals(kernel, np.array([hits, n - hits, 0]) / n, n, 0.05)
    exact = binomtest(hits, n).proportion_ci(method="exact")
    assert (lower[0], upper[0]) == pytest.approx((exact.low, exact.high), abs=1e-8)


@pytest.mark.parametrize("reports", [0, 4, 12, 30])
def test_one_attribute_has_the_binomial_tails(reports):
    """One category of five at ε = 2: the number of its reports is binomial, whoever the others are."""
    kernel, n = kernel_at(Domain.of({"a": 5}), [2.0]), 30
    keep, change = kernel.matrix()[0, :2]
    lower, upper = (end[0] for end in cell_intervals(kernel, np.array([reports, n - reports, 0, 0, 0]) / n, n, 0.05))
    inside = np.clip((reports / n - change) / (keep - change), 0, 1)
    for p in np.linspace(0, 1, 101) if change <= reports / n <= keep else ():
        chance = p * keep + (1 - p) * change
        rejected = min(binom.sf(reports - 1, n, chance), binom.cdf(reports, n, chance)) < 0.025
        assert rejected == (not lower <= p <= upper) or p == pytest.approx(inside)
    assert lower <= inside <= upper and lower < upper


@pytest.mark.parametrize("fixed", [False, True])
def test_moments_of_a_small_table_are_the_exact_ones(fixed):
    """Two binary attributes, 12 records, so that all outcomes can be listed; data are the truth's own expectation."""
    kernel = kernel_at(Domain.of({"a": 2, "b": 2}), [2.5, 1.5])
    n, truth = 12, np.array([2, 3, 3, 4])
    p, weights = kernel.matrix(), kernel.inverse()[:, 0]
    if fixed:
        # of each record, the moments of its own report
        off = weights - (np.arange(4) == 0)[:, None]
        second, third = (np.sum(truth / n * np.sum(p * off**power, axis=1)) for power in (2, 3))
    else:
        outcomes = np.array([x for x in product(range(n + 1), repeat=4) if sum(x) == n])
        probability = multinomial.pmf(outcomes, n, truth / n @ p)
        centred = outcomes @ weights / n - truth[0] / n
        second, third = probability @ centred**2 * n, probability @ centred**3 * n**2
    variances, skews = cell_variances(kernel, (truth / n @ p).reshape(2, 2), fixed)
    share = truth[0] / n
    assert variances[:, 0] @ [1, share, share**2] == pytest.approx(second)
    assert skews[0] == pytest.approx(third / second)


def test_ends_solve_the_inequality_and_hold_the_estimate():
    rng = np.random.default_rng(6)
    estimate, first, bend = rng.uniform(-0.3, 1.3, 200), rng.uniform(0.0, 0.02, 200), rng.uniform(0.0, 0.05, 200)
    variance = np.stack([first, bend, -bend * rng.uniform(0, 1, 200)])
    lower, upper = wilson(estimate, variance, 0.05)
    inside = np.clip(estimate, 0, 1)
    assert np.all((lower >= 0) & (lower <= inside) & (inside <= upper) & (upper <= 1))
    z = norm.isf(0.025)
    for p in np.linspace(0, 1, 401):
        size = z * np.sqrt(variance[0] + p * (variance[1] + p * variance[2]))
        kept = np.abs(inside - p) <= size
        within = (lower <= p) & (p <= upper)
        proper = (estimate >= 0) & (estimate <= 1)
        clear = np.abs(np.abs(inside - p) - size) > 1e-9
        np.testing.assert_array_equal(kept[proper & clear], within[proper & clear])
        # what lies outside the range excludes more, and never more than so many errors off itself would
        assert not np.any(within & ~kept & clear)
    beyond = estimate < 0
    assert np.all(upper[beyond] > 0) and np.all(lower[beyond] == 0)


def test_an_estimate_below_the_range_misses_hardly_more_often_than_one_inside():
    """Normal estimates of p around 0: the miss on either side is 2.5 % at most, or 2.9 % of the far end."""
    z, noise = norm.isf(0.025), 0.05
    for p in np.linspace(0, 4 * noise, 9):
        estimates = p + noise * norm.ppf((np.arange(20_000) + 0.5) / 20_000)
        lower, upper = wilson(estimates, np.outer([noise**2, 0, 0], np.ones(20_000)), 0.05)
        assert np.mean(lower > p) <= 0.0251 and np.mean(upper < p) <= 0.0293
    ends = wilson(np.array([0.0, -noise]), np.outer([noise**2, 0, 0], [1, 1]), 0.05)
    np.testing.assert_allclose(ends, [[0, 0], [z * noise, z**2 / (z + 1.5) * noise]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "epsilons", "seed"), [((4, 4, 3), (4.0, 3.0, 5.0), 1), ((10,), (4.0,), 2), ((5, 4), (1.0, 6.0), 3)]
)
def test_sparse_tables_are_covered(sizes, epsilons, seed):
    """600 data sets of 500 records: the worst of 48 cells at 95 % is above 92 % but in four of 100 seeds; this one is fixed."""
    domain = Domain.of({str(k): r for k, r in enumerate(sizes)})
    kernel, runs, n = kernel_at(domain, epsilons), 600, 500
    pi = np.random.default_rng(seed).dirichlet(np.full(kernel.cells, 0.3))
    tables = drawn(kernel, pi.reshape(sizes), n, runs, seed + 10)
    inside = covered(kernel, tables, pi, n, 0.05)
    assert inside.mean(axis=0).min() > 0.92 and 0.94 < inside.mean() < 0.975
    assert covered(kernel, tables, pi, n, 0.05 / kernel.cells).all(axis=1).mean() > 0.93


def test_data_set_intervals_cover_sparse_data_sets():
    kernel, runs, n = kernel_at(SPARSE, (2.0, 2.0, 2.0)), 400, 500
    people = np.random.default_rng(4).multinomial(n, SKEWED.ravel())
    rng = np.random.default_rng(5)
    tables = sum(rng.multinomial(k, row / row.sum(), size=runs) for k, row in zip(people, kernel.matrix(), strict=True))
    inside = covered(kernel, tables.reshape(runs, *kernel.sizes), people / n, n, 0.05, fixed=True)
    assert inside.mean(axis=0).min() > 0.91 and 0.94 < inside.mean() < 0.98


@pytest.mark.parametrize("fixed", [False, True])
def test_a_batch_is_its_tables_one_by_one(fixed):
    kernel, n = kernel_at(SPARSE, (2.0, 1.5, 3.0)), 200
    tables = drawn(kernel, SKEWED, n, 3, 2) / n
    whole = np.stack(cell_intervals(kernel, tables, n, 0.05, fixed)).reshape(2, 3, -1)
    for k, table in enumerate(tables):
        np.testing.assert_allclose(whole[:, k], cell_intervals(kernel, table, n, 0.05, fixed), rtol=1e-8, atol=1e-12)


def test_a_table_that_says_nothing_excludes_little():
    """Errors are a hundred times the range of a share: the ends stay in order, and most intervals are all of [0, 1]."""
    kernel, n = kernel_at(SPARSE, (0.05, 0.05, 0.05)), 50
    lower, upper = cell_intervals(kernel, drawn(kernel, SKEWED, n, 4, 2) / n, n, 0.05)
    assert np.all(lower < upper) and np.mean((lower == 0) & (upper == 1)) > 0.8


def test_intervals_do_not_jump_as_randomization_vanishes():
    """At 33 nats and more what people elsewhere send is lost in rounding, and 3 of 40 had a lower end of 0."""
    domain, counts = Domain.of({"a": 4, "b": 2}), np.array([[10, 5], [3, 0], [21, 1], [0, 0]])
    before = estimate(Counts(domain, counts), design(domain, 30.0, method="kronecker").mechanism)
    assert (before.lower > 0).tolist() == (counts > 0).tolist()
    for epsilon in (32.0, 33.0, 35.0, 37.0, 40.0, 45.0, 50.0):
        now = estimate(Counts(domain, counts), design(domain, epsilon, method="kronecker").mechanism)
        assert np.allclose(now.lower, before.lower, atol=1e-5) and np.allclose(now.upper, before.upper, atol=1e-5)


def test_general_matrices_are_read_like_laws():
    kernel = kernel_at(Domain.of({"a": 3, "b": 2}), (2.0, 1.0))
    dense = MatrixKernel(kernel.matrix(), kernel.sizes)
    observed = np.array([[30, 10], [5, 2], [1, 0]]) / 48
    for one, other in zip(*(cell_intervals(k, observed, 48, 0.05) for k in (kernel, dense)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_every_method_lies_in_its_intervals_and_says_where_they_come_from():
    mechanism = design(SPARSE, [2.0, 1.5, 2.5], constraints=Constraints(preserve="pairs")).mechanism
    kernel = mechanism.kernel(SPARSE.names)
    counts = Counts(SPARSE, drawn(kernel, SKEWED, 300, 1, 4)[0])
    plain = estimate(counts, mechanism)
    for method in METHODS:
        estimated = estimate(counts, mechanism, method=method)
        inside = np.clip(estimated.estimate, 0, 1)
        assert np.all((estimated.lower <= inside) & (inside <= estimated.upper))
        assert np.all((estimated.lower <= plain.lower) & (estimated.upper >= plain.upper))
        assert (method in estimated.interval_note) == (method != "unbiased")
    together = estimate(counts, mechanism, simultaneous=True)
    assert np.all((together.lower <= plain.lower) & (together.upper > plain.upper))
    assert "all 48 cells together" in together.interval_note and together.summary()["simultaneous"]


@pytest.mark.slow
def test_tables_whose_joint_effect_is_nearly_hidden_are_covered_together():
    """The least total turns three attributes' joint effect round, and a cell's own report counts −9 for it.

    80 cells, 426 people. 150 data sets, covered together in 95 % of them; in less than 89 % in one run of a thousand.
    """
    made = design({"a": 2, "b": 20, "c": 2, "d": 2}, {"a": 3.9, "b": 1.02, "c": 1.53, "d": 1.3}).mechanism
    kernel, runs, n = made.kernel(("a", "b", "c")), 150, 426
    assert kernel.largest_weights.item() > 20
    pi = np.random.default_rng(7).dirichlet(np.ones(80)).reshape(kernel.sizes)
    assert covered(kernel, drawn(kernel, pi, n, runs, 1), pi, n, 0.05 / 80).all(axis=1).mean() >= 0.89
