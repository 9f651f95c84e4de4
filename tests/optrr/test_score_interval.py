"""Intervals by inverting a test: its tails against exact laws, its split against Feldman and Cousins' own order, its coverage.

Seeds are fixed; coverage of 600 data sets has standard deviation 0.9 % a cell.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial, norm

from optrr import Counts, Domain, Mechanism, design
from optrr.mechanisms.kernel import MatrixKernel
from optrr.tables.estimation.estimator import METHODS, estimate
from optrr.tables.estimation.score_interval import (
    NullLaw,
    _heavy_reports,
    _split,
    cell_means,
    rejected,
    score_intervals,
    subset_mean,
    tails,
)
from optrr_solvers.laws import ProductLaw

SPARSE = Domain.of({"a": 4, "b": 4, "c": 3})
SKEWED = np.random.default_rng(3).dirichlet(np.full(48, 0.3)).reshape(4, 4, 3)


def kernel_at(domain, epsilons):
    return Mechanism(domain, ProductLaw(domain.sizes, np.asarray(epsilons, float))).kernel(domain.names)


def drawn(kernel, pi, n, runs, seed):
    lam = kernel.expected(pi).ravel()
    draws = np.random.default_rng(seed).multinomial(n, lam / lam.sum(), size=runs)
    return draws.reshape(runs, *kernel.sizes)


def covered(means, p, level=0.05):
    """Whether p is inside; the interval is the set of what is not rejected, widened to the estimate."""
    sides = rejected(means, p, level)
    inside = np.clip(means.estimate, 0, 1)
    return ~(((sides[0] < 0) & (inside > p)) | ((sides[1] < 0) & (inside < p)))


@pytest.mark.parametrize("n", [30, 400])
def test_one_attribute_has_the_binomial_tails(n):
    """One category of five at ε = 2: the number of its reports is binomial, whoever the others are."""
    kernel = kernel_at(Domain.of({"a": 5}), [2.0])
    keep, change = kernel.matrix()[0, :2]
    for reports, p in product((0, 1, 4, 12), (0.0, 0.02, 0.3)):
        table = np.array([reports, n - reports, 0, 0, 0])
        law = cell_means(kernel, table / n, n).under(np.full(5, p))
        upper, lower = tails(law, kernel.solve(table / n))
        chance = p * keep + (1 - p) * change
        assert n * chance * (1 - chance) < 100
        np.testing.assert_allclose(upper[0], binom.sf(reports - 1, n, chance), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(lower[0], binom.cdf(reports, n, chance), rtol=1e-9, atol=1e-12)


def test_many_heavy_reports_have_nearly_the_binomial_tails():
    """With a variance above 100 the gamma law is used: its tails are the exact ones that count half a step, within 3 %."""
    kernel = kernel_at(Domain.of({"a": 3}), [1.0])
    n = 2000
    keep, change = kernel.matrix()[0, :2]
    p = 0.1
    chance = p * keep + (1 - p) * change
    for z in (-3, -2, -1, 1, 2, 3):
        reports = round(n * chance + z * np.sqrt(n * chance * (1 - chance)))
        table = np.array([reports, n - reports, 0])
        upper, lower = tails(cell_means(kernel, table / n, n).under(np.full(3, p)), kernel.solve(table / n))
        middle = binom.sf(reports, n, chance) + binom.pmf(reports, n, chance) / 2
        np.testing.assert_allclose([upper[0], 1 - lower[0]], middle, rtol=0.03)


def test_the_number_of_heavy_reports_is_a_sum_of_two_binomials():
    inside, outside, certain, n = (
        np.array([0.9, 0.5, 1.0]),
        np.array([0.001, 0.02, 0.0]),
        np.array([3.0, 0.0, 7.0]),
        300,
    )
    mean = (certain * inside + (n - certain) * outside) / n
    numbers, chances = _heavy_reports(NullLaw(n, *[mean] * 6, certain, inside, outside), 64)
    for k in range(3):
        one = binom.pmf(np.arange(int(certain[k]) + 1), certain[k], inside[k])
        exact = np.convolve(one, binom.pmf(np.arange(n + 1), n - certain[k], outside[k]))
        known = np.where(numbers[k] >= 0, exact[np.maximum(numbers[k], 0)], 0.0)
        np.testing.assert_allclose(chances[k], known, atol=1e-13)


@pytest.mark.parametrize("fixed", [False, True])
def test_tails_of_a_small_table_are_near_the_exact_ones(fixed):
    """Two binary attributes, 12 records, so that all outcomes can be listed; the null law is the truth's, not estimated.

    The rest of the sum is taken as normal where it has a dozen values in truth: less than half a step off.
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
    for value in np.quantile(values, (0.02, 0.2, 0.5, 0.8, 0.98)):
        upper, lower = tails(law, np.array([value]))
        assert upper[0] == pytest.approx(probability[values >= value - 1e-12].sum(), abs=0.04)
        assert lower[0] == pytest.approx(probability[values <= value + 1e-12].sum(), abs=0.04)


@pytest.mark.parametrize("level", [0.05, 0.32, 0.001])
def test_the_split_is_feldman_and_cousins(level):
    """Their construction done plainly: outcomes of a normal law, taken by the ratio of likelihoods until 1 − level is full."""
    x = np.linspace(-12, 12, 240_001)
    distances, shares = _split(level)
    for k in (0, 1, 40, 100, 180, 256):
        d = distances[k]
        ratio = -((x - d) ** 2) / 2 + (x - np.maximum(x, 0)) ** 2 / 2
        density = norm.pdf(x - d)
        # equal ratios below 0 at d = 0: all of them are taken
        order = np.argsort(-ratio, kind="stable")
        taken = order[: np.searchsorted(np.cumsum(density[order]) / density.sum(), 1 - level) + 1]
        below = norm.cdf(x[taken].min() - d) if d > 0 else 0.0
        assert shares[k] * level == pytest.approx(below, abs=2e-3 * level)


@pytest.mark.parametrize("fixed", [False, True])
def test_ends_bound_what_is_not_rejected(fixed):
    kernel = kernel_at(SPARSE, [2.0, 1.0, 3.0])
    n = 300
    means = cell_means(kernel, drawn(kernel, SKEWED, n, 1, 5)[0] / n, n, fixed)
    lower, upper = score_intervals(means, 0.05)
    estimates = np.clip(means.estimate, 0, 1)
    assert np.all((lower >= 0) & (lower <= estimates) & (estimates <= upper) & (upper <= 1) & (lower < upper))
    for p in np.arange(0, n + 1) / n:
        inside = covered(means, np.full(48, p))
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
    inside = covered(means, np.tile(pi, runs)).reshape(runs, -1)
    assert inside.mean(axis=0).min() > 0.92 and 0.94 < inside.mean() < 0.975
    family = covered(means, np.tile(pi, runs), 0.05 / kernel.cells).reshape(runs, -1).all(axis=1)
    assert family.mean() > 0.93


def test_data_set_intervals_cover_sparse_data_sets():
    kernel, runs, n = kernel_at(SPARSE, (2.0, 2.0, 2.0)), 400, 500
    people = np.random.default_rng(4).multinomial(n, SKEWED.ravel())
    rng = np.random.default_rng(5)
    tables = sum(rng.multinomial(k, row / row.sum(), size=runs) for k, row in zip(people, kernel.matrix(), strict=True))
    means = cell_means(kernel, tables.reshape(runs, *kernel.sizes) / n, n, fixed=True)
    inside = covered(means, np.tile(people / n, runs)).reshape(runs, -1)
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
            alone = rejected(one(kernel, table, n, *other), p[:size], 0.05)
            again = rejected(whole[np.arange(k * size, (k + 1) * size)], p[:size], 0.05)
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
    assert kernel.heavy_weights.item() > 20
    pi = np.random.default_rng(7).dirichlet(np.ones(80)).reshape(kernel.sizes)
    lower, upper = score_intervals(cell_means(kernel, drawn(kernel, pi, n, runs, 1) / n, n), 0.05 / 80)
    inside = (lower.reshape(runs, -1) <= pi.ravel()) & (pi.ravel() <= upper.reshape(runs, -1))
    assert inside.all(axis=1).mean() >= 0.89
