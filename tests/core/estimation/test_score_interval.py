"""Intervals by inverting a test: its tails against exact laws, its p-value against Feldman and Cousins' order, its coverage.

Seeds are fixed; coverage of 600 data sets has standard deviation 0.9 % a cell.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial, norm

from optrr import Counts, Domain, Mechanism, design
from optrr.core.estimation.estimator import METHODS, estimate
from optrr.core.estimation.score_interval import accepted, cell_means, p_value, score_intervals, subset_mean
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


@pytest.mark.parametrize("n", [30, 400])
def test_one_attribute_has_the_binomial_tails(n):
    """One category of five at ε = 2: the number of its reports is binomial, whoever the others are."""
    kernel = kernel_at(Domain.of({"a": 5}), [2.0])
    keep, change = kernel.matrix()[0, :2]
    for reports, p in product((0, 1, 4, 12), (0.0, 0.02, 0.3)):
        deviate = cell_means(kernel, np.array([reports, n - reports, 0, 0, 0]) / n, n).deviates(np.full(5, p))[0]
        chance = p * keep + (1 - p) * change
        upper, lower = binom.sf(reports - 1, n, chance), binom.cdf(reports, n, chance)
        expected = -norm.ppf(upper) if upper < 0.5 else norm.ppf(lower) if lower < 0.5 else 0.0
        assert deviate == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("hits", "n"), [(0, 12), (3, 1000), (144, 294), (20, 20)])
def test_without_noise_cells_of_one_attribute_have_clopper_and_pearsons_limits(hits, n):
    kernel = kernel_at(Domain.of({"a": 3}), [40.0])
    lower, upper = score_intervals(cell_means(kernel, np.array([hits, n - hits, 0]) / n, n), 0.05)
    exact = binomtest(hits, n).proportion_ci(method="exact")
    # ends are found to a ten thousandth of a standard error and of a record
    assert (lower[0], upper[0]) == pytest.approx((exact.low, exact.high), abs=1e-4 * (exact.high - exact.low))


@pytest.mark.parametrize("fixed", [False, True])
def test_tails_of_a_small_table_are_near_the_exact_ones(fixed):
    """Two binary attributes, 12 records, so that all outcomes can be listed; the null law is the truth's, not estimated.

    The law goes in steps, so the tail lies between that with and that without the value itself.
    """
    kernel = kernel_at(Domain.of({"a": 2, "b": 2}), [2.5, 1.5])
    n, truth = 12, np.array([[2, 3], [3, 4]])
    p, weights = kernel.matrix(), kernel.inverse()[:, 0]
    outcomes = np.array([x for x in product(range(n + 1), repeat=4) if sum(x) == n])
    if fixed:
        chances = np.ones((1, 1, 1, 1))
        for row, people in zip(p, truth.ravel(), strict=True):
            grid = np.zeros((people + 1,) * 4)
            for x in product(range(people + 1), repeat=4):
                if sum(x) == people:
                    grid[x] = multinomial.pmf(x, people, row)
            size = chances.shape[0] + people
            both = np.zeros((size,) * 4)
            for at in np.argwhere(grid > 0):
                both[tuple(slice(a, a + chances.shape[0]) for a in at)] += grid[tuple(at)] * chances
            chances = both
        probability = chances[tuple(outcomes.T)]
    else:
        probability = multinomial.pmf(outcomes, n, truth.ravel() / n @ p)
    values = outcomes @ weights / n
    # the truth itself as data: every moment is then the true one
    lam = (truth.ravel() / n @ p).reshape(2, 2)
    law = cell_means(kernel, lam, n, fixed).under(truth.ravel() / n)[np.array([0])]
    centred, slack = values - truth[0, 0] / n, 0.07 if fixed else 0.04
    assert (law.variance[0], law.third[0]) == pytest.approx((probability @ centred**2, probability @ centred**3))
    for value in np.quantile(values, (0.02, 0.2, 0.5, 0.8, 0.98), method="nearest"):
        above, from_value = (probability[values > value + step].sum() for step in (1e-12, -1e-12))
        assert above - slack <= norm.sf(law.deviate(np.array([value]))[0]) <= from_value + slack


@pytest.mark.parametrize("level", [0.05, 0.32, 0.001])
@pytest.mark.parametrize("room", [(0.0, np.inf), (0.3, 20.0), (1.2, 2.0), (0.7, 0.9), (3.0, np.inf)])
def test_outcomes_are_taken_in_feldman_and_cousins_order(level, room):
    """Their construction done plainly: outcomes of a normal law, by the ratio of likelihoods, until 1 − level is full."""
    x, (below, above) = np.linspace(-12, 12, 240_001), room
    ratio = -(x**2) / 2 + (x - np.clip(x, -below, above)) ** 2 / 2
    density = norm.pdf(x)
    order = np.argsort(-ratio, kind="stable")
    taken = np.zeros(x.size, dtype=bool)
    taken[order[: np.searchsorted(np.cumsum(density[order]) / density.sum(), 1 - level) + 1]] = True
    differ = taken != (p_value(x, np.array(below), np.array(above)) >= level)
    assert not differ[np.abs(ratio - ratio[taken].min()) > 2e-3].any()


@pytest.mark.parametrize("fixed", [False, True])
def test_ends_bound_what_is_not_rejected(fixed):
    kernel = kernel_at(SPARSE, [2.0, 1.0, 3.0])
    n = 300
    means = cell_means(kernel, drawn(kernel, SKEWED, n, 1, 5)[0] / n, n, fixed)
    lower, upper = score_intervals(means, 0.05)
    estimates = np.clip(means.estimate, 0, 1)
    assert np.all((lower >= 0) & (lower <= estimates) & (estimates <= upper) & (upper <= 1) & (lower < upper))
    for p in np.arange(0, n + 1) / n:
        inside = accepted(means, np.full(48, p), 0.05)
        # ends are rounded outwards by less than a thousandth of a record here
        assert np.all(inside[(p > lower + 1e-4) & (p < upper - 1e-4)])
        assert not np.any(inside[(p < lower - 1e-9) | (p > upper + 1e-9)])


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
    means = cell_means(kernel, tables / n, n)
    inside = accepted(means, np.tile(pi, runs), 0.05).reshape(runs, -1)
    assert inside.mean(axis=0).min() > 0.92 and 0.94 < inside.mean() < 0.975
    family = accepted(means, np.tile(pi, runs), 0.05 / kernel.cells).reshape(runs, -1).all(axis=1)
    assert family.mean() > 0.93


def test_data_set_intervals_cover_sparse_data_sets():
    kernel, runs, n = kernel_at(SPARSE, (2.0, 2.0, 2.0)), 400, 500
    people = np.random.default_rng(4).multinomial(n, SKEWED.ravel())
    rng = np.random.default_rng(5)
    tables = sum(rng.multinomial(k, row / row.sum(), size=runs) for k, row in zip(people, kernel.matrix(), strict=True))
    means = cell_means(kernel, tables.reshape(runs, *kernel.sizes) / n, n, fixed=True)
    inside = accepted(means, np.tile(people / n, runs), 0.05).reshape(runs, -1)
    assert inside.mean(axis=0).min() > 0.91 and 0.94 < inside.mean() < 0.975


def test_a_batch_is_its_tables_one_by_one():
    kernel, n = kernel_at(SPARSE, (2.0, 1.5, 3.0)), 200
    tables = drawn(kernel, SKEWED, n, 3, 2) / n
    subset = (np.arange(48) % 5 == 0).astype(float).reshape(kernel.sizes)
    p = np.full(48, 0.03)
    for one, other in ((cell_means, ()), (subset_mean, (subset,))):
        whole = one(kernel, tables, n, *other)
        size = whole.estimate.size // 3
        for k, table in enumerate(tables):
            alone = one(kernel, table, n, *other).deviates(p[:size])
            again = whole[np.arange(k * size, (k + 1) * size)].deviates(p[:size])
            np.testing.assert_allclose(again, alone, rtol=1e-8)


def test_a_table_that_says_nothing_excludes_little():
    """Errors are a hundred times the range of a share: the ends stay in order, and most intervals are all of [0, 1]."""
    kernel, n = kernel_at(SPARSE, (0.05, 0.05, 0.05)), 50
    means = cell_means(kernel, drawn(kernel, SKEWED, n, 4, 2) / n, n)
    lower, upper = score_intervals(means, 0.05)
    assert np.all(lower < upper) and np.mean((lower == 0) & (upper == 1)) > 0.8


def test_intervals_do_not_jump_as_randomization_vanishes():
    """At 33 nats and more what people elsewhere send is lost in rounding, and 3 of 40 had a lower end of 0."""
    domain, counts = Domain.of({"a": 4, "b": 2}), np.array([[10, 5], [3, 0], [21, 1], [0, 0]])
    before = estimate(Counts(domain, counts), design(domain, 30.0, method="kronecker").mechanism)
    assert (before.lower > 0).tolist() == (counts > 0).tolist()
    for epsilon in (32.0, 33.0, 35.0, 37.0, 40.0, 45.0, 50.0):
        now = estimate(Counts(domain, counts), design(domain, epsilon, method="kronecker").mechanism)
        # ends are found to a ten thousandth of a standard error and of a record
        assert np.allclose(now.lower, before.lower, atol=1e-5) and np.allclose(now.upper, before.upper, atol=1e-5)


def test_subsets_and_single_cells_agree():
    """A cell has the same interval as a subset of one cell, apart from where the moments of the other cells come from."""
    kernel = kernel_at(SPARSE, (2.0, 1.5, 3.0))
    n = 400
    observed = drawn(kernel, SKEWED, n, 1, 8)[0] / n
    whole = score_intervals(cell_means(kernel, observed, n), 0.05)
    for cell in (0, 7, 30):
        subset = np.zeros(48)
        subset[cell] = 1
        one = score_intervals(subset_mean(kernel, observed, n, subset.reshape(kernel.sizes)), 0.05)
        np.testing.assert_allclose([end[0] for end in one], [end[cell] for end in whole], atol=1e-3)


def test_general_matrices_are_read_like_laws():
    kernel = kernel_at(Domain.of({"a": 3, "b": 2}), (2.0, 1.0))
    dense = MatrixKernel(kernel.matrix(), kernel.sizes)
    observed = np.array([[30, 10], [5, 2], [1, 0]]) / 48
    for one, other in zip(*(score_intervals(cell_means(k, observed, 48), 0.05) for k in (kernel, dense)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_every_method_lies_in_its_intervals_and_says_where_they_come_from():
    mechanism = design(SPARSE, [2.0, 1.5, 2.5], preserve="pairs").mechanism
    kernel = mechanism.kernel(SPARSE.names)
    counts = Counts(SPARSE, drawn(kernel, SKEWED, 300, 1, 4)[0])
    plain = estimate(counts, mechanism)
    for method in METHODS:
        estimated = estimate(counts, mechanism, method=method)
        inside = np.clip(estimated.proportions, 0, 1)
        assert np.all((estimated.lower <= inside) & (inside <= estimated.upper))
        assert np.all((estimated.lower <= plain.lower) & (estimated.upper >= plain.upper))
        assert (method in estimated.interval_note) == (method != "unbiased")
    together = estimate(counts, mechanism, simultaneous=True)
    assert np.all((together.lower <= plain.lower) & (together.upper > plain.upper))
    assert "all 48 cells together" in together.interval_note and together.summary()["simultaneous"]
    few = estimate(counts, mechanism, interval_cells=47)
    assert few.interval == "none" and np.isnan(few.lower).all() and "interval_cells=48" in few.warnings[0]


@pytest.mark.slow
def test_tables_whose_joint_effect_is_nearly_hidden_are_covered_together():
    """The least total turns three attributes' joint effect round, and a cell's own report counts −9 for it.

    80 cells, 426 people. 150 data sets, covered together in 95 % of them; in less than 89 % in one run of a thousand.
    """
    made = design({"a": 2, "b": 20, "c": 2, "d": 2}, {"a": 3.9, "b": 1.02, "c": 1.53, "d": 1.3}).mechanism
    kernel, runs, n = made.kernel(("a", "b", "c")), 150, 426
    assert kernel.largest_weights.item() > 20
    pi = np.random.default_rng(7).dirichlet(np.ones(80)).reshape(kernel.sizes)
    lower, upper = score_intervals(cell_means(kernel, drawn(kernel, pi, n, runs, 1) / n, n), 0.05 / 80)
    inside = (lower.reshape(runs, -1) <= pi.ravel()) & (pi.ravel() <= upper.reshape(runs, -1))
    assert inside.all(axis=1).mean() >= 0.89
