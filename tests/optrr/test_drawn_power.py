"""Power where reports are rare, beside outcomes counted one by one."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from optrr import Counts, Domain, design, goodness_of_fit, power, required_records
from optrr.inference import goodness_alternative, homogeneity_alternative
from optrr.inference.drawn_power import TwoReports, dealt_p_values
from optrr.inference.exact import homogeneity_tests
from optrr.kernel import Kernel


def kernel(size: int, epsilon: float) -> Kernel:
    return design(Domain.of({"g": size}), epsilon).mechanism.kernel(("g",))


def two(share: float) -> list[float]:
    return [share, 1 - share]


def at_least(statistics: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """p-value of every outcome."""
    return np.array([chances[statistics >= t * (1 - 1e-9)].sum() for t in statistics])


@pytest.mark.slow
def test_power_of_goodness_of_fit_is_that_of_its_own_p_values() -> None:
    """p-values near 5 % are drawn to a tenth of themselves, and one outcome may be on either side: 0.06."""
    seen, domain = kernel(2, 5), Domain.of({"g": 2})
    effect, n = goodness_alternative(two(0.1), two(0.02), seen), 33
    expected = seen.expected(np.array(two(0.1)))[0]
    p = [
        goodness_of_fit(Counts(domain, np.array([k, n - k])), seen, two(0.02), random_state=k).p_value for k in range(n)
    ]
    assert power(effect, n) == pytest.approx(
        binom.pmf(np.flatnonzero(np.array(p) <= 0.05), n, expected).sum(), abs=0.06
    )
    assert effect.power_source(n, 0.05) == "enumerated"


@pytest.mark.parametrize("seed", range(12))
def test_records_for_goodness_of_fit_give_the_power(seed: int) -> None:
    """By exact p-values, which are within a tenth of the drawn ones: between what p ≤ 0.04 and p ≤ 0.06 reject."""
    rng = np.random.default_rng(seed)
    true, null = rng.choice([0.01, 0.02, 0.05, 0.1, 0.2, 0.4], 2, replace=False)
    seen = kernel(2, rng.uniform(1, 6))
    effect = goodness_alternative(two(true), two(null), seen)
    n = required_records(effect)
    assert power(effect, n) >= 0.8 > power(effect, n - 1)
    if effect.power_source(n, 0.05) == "limit" or n > 5000:
        return
    k = np.arange(n + 1)
    chance, other = (seen.expected(np.array(two(x)))[0] for x in (true, null))
    p = at_least((k - n * other) ** 2, binom.pmf(k, n, other))
    low, high = (binom.pmf(k[p <= level], n, chance).sum() for level in (0.035, 0.065))
    assert low - 0.02 <= power(effect, n) <= high + 0.02


@pytest.mark.slow
def test_power_of_goodness_of_fit_with_three_categories() -> None:
    """2000 drawn surveys: standard deviation 1.1 %."""
    seen, n = kernel(3, 6), 73
    true, null = (seen.expected(np.array(x)) for x in ([0.05, 0.05, 0.9], [0.01, 0.04, 0.95]))
    outcomes = np.array([(i, j, n - i - j) for i, j in product(range(n + 1), repeat=2) if i + j <= n])
    p = at_least(((outcomes - n * null) ** 2 / null).sum(axis=1), multinomial.pmf(outcomes, n, null))
    exact = multinomial.pmf(outcomes[p <= 0.05], n, true).sum()
    effect = goodness_alternative([0.05, 0.05, 0.9], [0.01, 0.04, 0.95], seen)
    assert power(effect, n) == pytest.approx(exact, abs=0.05)
    assert power(effect, required_records(effect)) >= 0.8


def test_all_ways_to_deal_reports_to_two_groups() -> None:
    rng = np.random.default_rng(1)
    counts = rng.multinomial([9, 14], [[0.2, 0.8], [0.4, 0.6]], size=(50, 2))
    statistic, _, p = dealt_p_values(counts)
    np.testing.assert_allclose(statistic, homogeneity_tests(counts, rng).statistic, atol=1e-9)
    for table, own in zip(counts, p, strict=True):
        total = int(table[:, 0].sum())
        ways = {x: comb(9, x) * comb(14, total - x) for x in range(min(9, total) + 1) if total - x <= 14}
        far = abs(table[0, 0] - 9 * total / 23)
        reached = sum(w for x, w in ways.items() if abs(x - 9 * total / 23) >= far - 1e-9)
        assert own == pytest.approx(reached / comb(23, total))


@pytest.mark.full
@pytest.mark.parametrize(("epsilon", "shares", "truths"), [(6, (0.9, 0.1), (0.01, 0.1)), (3, (0.9, 0.1), (0.05, 0.4))])
def test_power_of_homogeneity_is_that_of_its_own_p_values(
    epsilon: float, shares: tuple[float, float], truths: tuple[float, float]
) -> None:
    """300 surveys with the p-values of the test itself: standard deviation 2.3 %, and the power's own 0.9 %."""
    seen, rng = kernel(2, epsilon), np.random.default_rng(2)
    effect = homogeneity_alternative([two(x) for x in truths], seen, shares)
    n = required_records(effect)
    sizes = np.rint(n * np.array(shares)).astype(int)
    laws = np.stack([seen.expected(np.array(two(x))) for x in truths])
    p = homogeneity_tests(rng.multinomial(sizes, laws, size=(300, 2)), rng).p_value
    assert np.mean(p <= 0.05) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("sizes", [(205, 23), (86, 9), (50, 41), (100, 7)])
def test_groups_with_all_records_in_one_category_are_alike(sizes: tuple[int, int]) -> None:
    tested = homogeneity_tests(np.array([[[0, n] for n in sizes]]), np.random.default_rng(0))
    assert (tested.statistic[0], tested.p_value[0]) == (0, 1)


def test_two_reports_whose_counts_are_many_follow_the_limit() -> None:
    assert TwoReports(np.array([0.4, 0.6]), np.array([0.5, 0.5])).source(2500, 0.05) == "limit"
