"""Tails, bounds and the table's p-value against other implementations and against enumeration."""

from __future__ import annotations

from itertools import product
from math import comb, factorial, log, prod

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from optrr.devices.result import (
    LEAST,
    Worst,
    at_least,
    at_most,
    lowest_share,
    table_bound,
    two_sided,
)


def exact_tail(k: int, n: int, p: float) -> mpf:
    with mp.workdps(60):
        return mp.fsum(comb(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(max(k, 0), n + 1))


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("p", [1e-12, 0.003, 0.4, 0.999])
def test_tails_are_sums_of_binomial_probabilities(n: int, p: float) -> None:
    for k in sorted({-1, 0, 1, n // 2, n, n + 1}):
        upper = exact_tail(k, n, p)
        assert float(at_least(k, n, p)) == pytest.approx(float(upper), rel=1e-9)
        lower = 1 - exact_tail(k + 1, n, p)
        with mp.workdps(60):
            lower = mp.fsum(comb(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(min(max(k, -1), n) + 1))
        assert float(at_most(k, n, p)) == pytest.approx(float(lower), rel=1e-9, abs=1e-280)


def test_two_sided_p_values_are_at_most_their_level() -> None:
    for n, p in ((5, 0.3), (40, 0.01), (200, 0.5)):
        k = np.arange(n + 1)
        values, chances = two_sided(k, n, p), stats.binom.pmf(k, n, p)
        for level in (0.5, 0.05, 1e-3, 1e-6):
            assert chances[values <= level].sum() <= level


def test_a_cell_that_the_label_gives_nothing_is_tested_as_if_it_had_very_little() -> None:
    assert two_sided(0, 10**6, 0.0) == 1.0
    assert two_sided(1, 10**6, 0.0) == pytest.approx(2 * LEAST * 10**6, rel=1e-3)


@pytest.mark.parametrize("level", [0.05, 1e-6])
def test_shares_are_clopper_and_pearson_s(level: float) -> None:
    for k, n in ((0, 10), (3, 10), (10, 10), (17, 4000)):
        wanted = stats.binomtest(k, n).proportion_ci(1 - 2 * level, method="exact")
        assert float(lowest_share(k, n, level)) == pytest.approx(wanted.low, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.2, 0.3, 0.5], [0.01, 0.04, 0.45, 0.5]])
def test_the_table_s_p_value_is_not_below_the_enumerated_one(probabilities: list[float]) -> None:
    """For every outcome of a small multinomial: Pr(entropy at least this) ≤ the bound."""
    n, p = 12, np.array(probabilities)
    outcomes = [c for c in product(range(n + 1), repeat=p.size) if sum(c) == n]
    chance = [factorial(n) / prod(map(factorial, c)) * float(np.prod(p ** np.array(c))) for c in outcomes]
    entropy = [sum(k * log(k / (n * q)) for k, q in zip(c, p, strict=True) if k) for c in outcomes]
    assert sum(chance) == pytest.approx(1)
    smallest = 1.0
    for outcome, value in zip(outcomes, entropy, strict=True):
        bound = table_bound(np.array(outcome), p)
        smallest = min(smallest, bound)
        assert bound >= sum(q for q, e in zip(chance, entropy, strict=True) if e >= value - 1e-9) * (1 - 1e-9)
    assert smallest < 0.01


def test_a_table_that_cannot_be_has_no_chance() -> None:
    assert table_bound(np.array([0, 1000]), np.array([1.0, 0.0])) < 1e-300
    assert table_bound(np.array([0, 0]), np.array([0.5, 0.5])) == 1.0
    assert table_bound(np.array([5]), np.array([1.0])) == 1.0


def test_the_worst_of_many_counts_them_all() -> None:
    worst = Worst()
    assert worst.adjusted == 1.0
    worst.add([0.5, 0.001], lambda k: f"first {k}")
    worst.add(0.01, lambda _: "second", among=98)
    worst.add([], lambda _: "none")
    assert (worst.tests, worst.p_value, worst.what) == (100, 0.001, "first 1")
    assert worst.adjusted == pytest.approx(0.1)
