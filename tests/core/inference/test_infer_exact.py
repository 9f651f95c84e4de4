"""Homogeneity, goodness of fit and tails: p-values against exact enumeration, scipy and plain simulation."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, chi2_contingency, fisher_exact, multinomial

from optrr import Counts, Domain, InvalidInput, Mechanism, design
from optrr.core.inference.homogeneity import (
    DifferentMechanisms,
    goodness_of_fit,
    goodness_tests,
    homogeneity,
    homogeneity_tests,
)
from optrr.core.inference.nullfit import all_contrasts, independence_fit, score_tests, trend_contrast
from optrr.core.inference.simulation import Simulation, simulated_p_values
from optrr.core.inference.tail import reliable_down_to, tail_probability
from optrr.core.inference.testing import test
from optrr.core.mechanisms.kernel import unrandomized
from optrr_solvers.laws import ProductLaw

ONE = Domain.of({"a": 2})


def group(*table):
    return Counts(Domain.of({"a": len(table)}), np.array(table))


def at(epsilon, r=2):
    return design({"a": r}, float(epsilon)).mechanism.kernel(["a"])


def test_identical_groups_are_homogeneous():
    """986 zeros and 14 ones at ε = 4: fewer ones than the randomization alone is expected to make."""
    same = group(986, 14)
    result = homogeneity([same, same], at(4), random_state=1)
    assert result.statistic == pytest.approx(0, abs=1e-9) and result.p_value == 1 and result.calibration == "exact"
    near = homogeneity([same, same], [at(4), at(4.001)], random_state=1)
    assert near.statistic < 1e-3 and near.p_value > 0.9


def test_two_groups_of_two_categories_are_fisher_s_exact_test():
    """The statistic orders tables as |difference| does: p is the hypergeometric probability of those at least as far."""
    first, second = group(40, 3), group(25, 9)
    rows, ones, n = (43, 34), 12, 77
    k = np.arange(ones + 1)
    chance = np.array([comb(ones, int(i)) * comb(n - ones, rows[0] - int(i)) for i in k], dtype=float) / comb(
        n, rows[0]
    )
    far = np.abs(k - rows[0] * ones / n)
    exact = chance[far >= far[3] * (1 - 1e-9)].sum()
    result = homogeneity([first, second], at(3), random_state=2)
    # five of the simulation's own standard errors
    assert result.p_value == pytest.approx(exact, rel=5 * result.relative_error)
    assert exact == pytest.approx(fisher_exact([[40, 3], [25, 9]]).pvalue, rel=0.2)


@pytest.mark.slow
def test_three_groups_against_plain_permutation():
    tables = [[30, 6, 0], [25, 9, 3], [60, 5, 1]]
    result = homogeneity([group(*t) for t in tables], at(4, 3), random_state=3)
    observed = chi2_contingency(tables, correction=False).statistic
    assert result.statistic == pytest.approx(observed)
    labels = np.repeat(np.tile([0, 1, 2], 3), np.ravel(tables))
    of = np.repeat([0, 1, 2], np.sum(tables, axis=1))
    rng = np.random.default_rng(4)
    reached = 0
    for _ in range(2000):
        dealt = np.bincount(3 * of + rng.permutation(labels), minlength=9).reshape(3, 3)
        reached += chi2_contingency(dealt, correction=False).statistic >= observed * (1 - 1e-9)
    share = reached / 2000
    assert result.p_value == pytest.approx(share, rel=5 * np.hypot(result.relative_error, 1 / np.sqrt(reached)))


def test_goodness_of_fit_is_the_enumerated_one():
    table, kernel, pi = (17, 1, 2), at(3, 3), np.array([0.97, 0.02, 0.01])
    expected = kernel.expected(pi)
    every = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)])
    statistics = ((every - 20 * expected) ** 2 / (20 * expected)).sum(axis=1)
    observed = ((np.array(table) - 20 * expected) ** 2 / (20 * expected)).sum()
    exact = multinomial.pmf(every, 20, expected)[statistics >= observed * (1 - 1e-9)].sum()
    result = goodness_of_fit(group(*table), kernel, pi, random_state=5)
    assert result.statistic == pytest.approx(observed) and result.calibration == "exact" and result.reliable
    assert result.p_value == pytest.approx(exact, rel=5 * result.relative_error)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(300, 300), (300, 5000), (200, 300, 2000)])
@pytest.mark.parametrize("epsilon", [0.5, 4, 6])
def test_the_level_is_at_most_the_nominal_one(sizes, epsilon):
    """An absent and a rare category. 4000 tables: beyond the bound by chance once in 10^5 a case; seeds fixed."""
    expected = at(epsilon, 4).expected(np.array([0.9, 0.09, 0.01, 0]))
    rng = np.random.default_rng(int(10 * epsilon) + len(sizes))
    tables = np.stack([rng.multinomial(n, expected, size=4000) for n in sizes], axis=1)
    # 1999 draws that stop after 5: the level is the nominal one for every rule
    rule = Simulation(5, 1999)
    for tested in (
        homogeneity_tests(tables, rng, rule),
        goodness_tests(tables[:, 0].astype(float), expected, rng, rule),
    ):
        assert binom.sf(np.count_nonzero(tested.p_value <= 0.05) - 1, 4000, 0.05) > 1e-5
        assert binom.sf(np.count_nonzero(tested.p_value <= 0.005) - 1, 4000, 0.005) > 1e-5
        # the test does reject: ties and steps take less than half of the level here
        assert np.mean(tested.p_value <= 0.05) > 0.03


def test_different_mechanisms_hold_their_level_where_estimates_are_negative():
    """Two mechanisms, an absent category. 1000 tables: outside by chance once in 10^4 at the exact level; seeds fixed."""
    pi = np.array([0.93, 0.07, 0.0])
    kernels = [at(4, 3), at(2, 3)]
    rng = np.random.default_rng(6)
    tables = np.stack(
        [rng.multinomial(n, k.expected(pi), size=1000) for n, k in zip((300, 900), kernels, strict=True)], 1
    )
    assert np.mean(kernels[1].solve(tables[:, 1] / 900.0).min(axis=1) < 0) > 0.3
    tested = DifferentMechanisms.of(kernels).tested(tables, rng, Simulation(5, 99))
    df, p = tested.df, tested.p_value
    assert df == 2
    assert 1e-4 < binom.cdf(np.count_nonzero(p <= 0.05), 1000, 0.05) < 1 - 1e-4


def test_the_statistic_between_mechanisms_is_the_generic_optimum():
    kernels = [at(3, 3), at(1.5, 3)]
    tables = np.array([[[200, 60, 5], [310, 150, 90]]])
    n = tables[0].sum(axis=1)
    statistic, expected = DifferentMechanisms.of(kernels).statistics(tables)

    def pearson(x):
        pi = np.array([x[0], x[1], 1 - x[0] - x[1]])
        terms = [
            m * np.sum((t / m - k.forward(pi)) ** 2 / e)
            for m, t, k, e in zip(n, tables[0], kernels, expected[0], strict=True)
        ]
        return sum(terms)

    best = minimize(
        pearson, [0.5, 0.3], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 9999}
    )
    assert statistic[0] == pytest.approx(best.fun, abs=1e-8)

    def loss(x):
        pi = np.exp([x[0], x[1], 0]) / np.exp([x[0], x[1], 0]).sum()
        return -sum(t @ np.log(k.forward(pi)) for t, k in zip(tables[0], kernels, strict=True))

    likeliest = minimize(
        loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 9999}
    )
    reached = -sum(float(t @ np.log(e)) for t, e in zip(tables[0], expected[0], strict=True))
    assert reached <= likeliest.fun + 1e-6


def test_simulation_stops_as_besag_and_clifford_say():
    """Draws that are known: the 2nd hit at draw 5 gives 2/5; without hits (0 + 1)/(N + 1)."""
    known = np.array([0, 3, 0, 0, 3, 9, 0, 0, 0, 0], dtype=float)
    position = np.zeros(2, dtype=int)

    def draw(of, size):
        out = np.stack([known[position[b] : position[b] + size] for b in of])
        position[of] += size
        return out

    p, reached = simulated_p_values(np.array([2.0, 10.0]), draw, Simulation(hits=2, most=10))
    assert p.tolist() == [2 / 5, 1 / 11] and reached.tolist() == [2, 0]


def test_far_from_the_hypothesis_p_is_a_bound_and_says_so():
    far = goodness_of_fit(group(900, 100), at(4), [1, 0], random_state=1)
    assert far.p_value == 1e-5 and far.reliable_down_to == pytest.approx(17e-5) and not far.reliable
    assert "none of 99999 simulated tables" in far.warnings[0] and "1e-05 or less" in far.warnings[0]
    impossible = goodness_of_fit(group(9, 1), unrandomized((2,)), [1, 0], random_state=1)
    assert impossible.statistic == np.inf and impossible.p_value == 1e-5


def test_many_records_need_no_simulation():
    tables = [group(5000, 3000, 2000), group(5100, 2900, 2050)]
    result = homogeneity(tables, at(2, 3))
    assert result.reliable
    pearson = chi2_contingency([t.table for t in tables], correction=False)
    assert result.calibration == "asymptotic"
    assert (result.statistic, result.p_value) == pytest.approx((pearson.statistic, pearson.pvalue))


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="counts no records"):
        homogeneity([group(3, 4), group(0, 0)], at(1))
    with pytest.raises(InvalidInput, match="counts no records"):
        goodness_of_fit(group(0, 0), at(1), [0.5, 0.5])
    with pytest.raises(InvalidInput, match=r"smallest -0\.1"):
        goodness_of_fit(group(3, 4), at(1), [1.1, -0.1])
    with pytest.raises(InvalidInput, match="one for all or one for each"):
        homogeneity([group(3, 4), group(5, 6)], [at(1)] * 3)
    big = Counts(Domain.of({"a": 1100}), np.ones(1100, dtype=int))
    with pytest.raises(InvalidInput, match="at most 1024"):
        homogeneity([big, big], [at(1, 1100), at(2, 1100)])


def test_beyond_the_simulation_chi_square_s_order_of_magnitude_is_said_to_be_one():
    result = homogeneity([group(5000, 3000), group(3000, 5000)], at(2))
    assert result.calibration == "asymptotic" and result.p_value < 1e-100
    assert not result.reliable and result.p_value < result.reliable_down_to and "or less" in result.warnings[0]


RARE = np.outer([0.02, 0.38, 0.6], [0.3, 0.7])


def kronecker(sizes, epsilon):
    domain = Domain.of({f"a{i}": r for i, r in enumerate(sizes)})
    return Mechanism(domain, ProductLaw(domain.sizes, np.full(len(sizes), float(epsilon))))


def every_table(n, cells):
    """All tables of n records over so many cells."""
    bars = np.array(list(combinations(range(n + cells - 1), cells - 1)))
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + cells - 1)], axis=1)
    return np.diff(edges, axis=1) - 1


@pytest.mark.parametrize("table", [[[12, 3], [4, 11]], [[24, 1], [1, 4]], [[14, 0], [1, 15]], [[9, 6], [7, 8]]])
def test_the_simulated_tail_is_the_enumerated_one(table):
    """n = 30 over 2 × 2: 5456 tables, each refitted. Tolerance: five of the simulation's own standard errors."""
    kernel = kronecker((2, 2), 1.5).kernel(("a0", "a1"))
    t = np.array(table, dtype=float)
    observed = score_tests(t[None], kernel)
    every = every_table(30, 4)
    chances = multinomial.pmf(every, 30, observed.fit.expected[0].ravel())
    assert chances.sum() == pytest.approx(1)
    statistics = score_tests(every.reshape(-1, 2, 2), kernel).statistic
    exact = chances[statistics >= observed.statistic[0] * (1 - 1e-9)].sum()
    tail = tail_probability(t, kernel, all_contrasts(2, 2), independence_fit, random_state=4)
    assert tail.p_value == pytest.approx(exact, rel=5 * tail.relative_error)
    assert tail.relative_error < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("contrasts", [all_contrasts(3, 2), trend_contrast([0, 1, 2], [0, 1])])
def test_the_simulated_tail_is_the_plain_bootstrap_s(contrasts):
    """Weak randomization and a rare category, where χ² is not exact. 200,000 plain tables: 1/sqrt(200) = 7 % at 1e-3."""
    kernel = kronecker((3, 2), 4).kernel(("a0", "a1"))
    rng = np.random.default_rng(2)
    t = rng.multinomial(400, kernel.expected(RARE).ravel(), size=3000).reshape(-1, 3, 2).astype(float)
    scores = score_tests(t, kernel, contrasts)
    at = int(np.argmin(np.abs(np.log(scores.p_value) - np.log(2e-3))))
    table, statistic = t[at], scores.statistic[at]
    plain = rng.multinomial(400, scores.fit.expected[at].ravel(), size=200_000).reshape(-1, 3, 2)
    share = (score_tests(plain, kernel, contrasts).statistic >= statistic * (1 - 1e-9)).mean()
    tilted = tail_probability(table, kernel, contrasts, independence_fit, random_state=5)
    spread = np.hypot(tilted.relative_error, 1 / np.sqrt(200_000 * share))
    assert tilted.p_value == pytest.approx(share, rel=5 * spread)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 3000, 30_000])
def test_chi_square_is_within_two_of_the_simulated_tail_where_it_says_so(n):
    """The trend with a rare category, down to the genome-wide 5e-8."""
    kernel = kronecker((3, 2), 2).kernel(("a0", "a1"))
    contrasts = trend_contrast([0, 1, 2], [0, 1])
    base = kernel.expected(RARE).ravel()
    direction = np.outer([-1.4, -0.4, 0.6], [-0.7, 0.3]).ravel()
    checked = 0
    for strength in np.linspace(0.3, 4, 16):
        p = base * np.exp(strength * direction / np.sqrt(n * (base @ direction**2)) * 1.5)
        table = np.round(n * p / p.sum()).reshape(3, 2)
        scores = score_tests(table[None], kernel, contrasts)
        limit = reliable_down_to(scores.fit, np.array([table.sum()]), kernel, contrasts)[0]
        if scores.p_value[0] >= max(limit, 1e-9):
            tail = tail_probability(table, kernel, contrasts, independence_fit, random_state=6)
            assert 0.45 < tail.p_value / scores.p_value[0] < 2.2
            checked += 1
    assert checked >= 8
    assert limit < 5e-8 or n == 300


def test_results_say_how_far_they_can_be_trusted():
    strong = Counts(Domain.of({"a0": 3, "a1": 2}), 4 * np.array([[40, 1], [120, 150], [200, 250]]))
    weakly = kronecker((3, 2), 6)
    plain = test(strong, weakly, calibration="asymptotic")
    assert plain.p_value < plain.reliable_down_to and not plain.reliable and "tilted" in plain.warnings[0]
    auto = test(strong, weakly, random_state=1)
    assert auto.calibration == "tilted" and auto.reliable and auto.relative_error < 0.25
    assert auto.p_value != plain.p_value
    few = Counts(strong.domain, strong.table // 4)
    sparse = test(few, weakly, random_state=1)
    # permuted tables reach the statistic too seldom; tilted ones give the p-value's order, which no exact law confirms
    assert sparse.p_value < 1e-9 and sparse.calibration == "tilted" and not sparse.reliable
    assert "none of 99999" in sparse.warnings[0]
    assert "leave the calibration to auto" in test(few, weakly, calibration="asymptotic").warnings[0]
    easy = design({"a0": 3, "a1": 2}, 1.0, method="kronecker").mechanism
    mild = Counts(easy.domain, np.array([[900, 800], [700, 690], [500, 480]]))
    assert test(mild, easy).calibration == "asymptotic"
    share = test(mild, easy, calibration="bootstrap", bootstrap=4999, random_state=2)
    assert share.p_value == pytest.approx(test(mild, easy).p_value, abs=0.035)
    assert share.reliable_down_to == 17 / 5000
