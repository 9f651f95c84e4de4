"""Power where reports are rare, beside outcomes counted one by one."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2, multinomial, ncx2

from optrr import Constraints, Counts, Domain, design
from optrr.analysis.loglinear.comparing import stratified_alternative, stratified_test
from optrr.core.errors import InvalidInput
from optrr.core.inference import drawn_power, power_analysis
from optrr.core.inference.associations import association
from optrr.core.inference.groups import homogeneity_tests
from optrr.core.inference.simulation import Simulation
from optrr.core.mechanisms.kernel import Kernel


def kernel(size: int, epsilon: float) -> Kernel:
    return design(Domain.of({"g": size}), epsilon).mechanism.kernel(("g",))


def two(share: float) -> list[float]:
    return [share, 1 - share]


def at_least(statistics: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """p-value of every outcome."""
    return np.array([chances[statistics >= t * (1 - 1e-9)].sum() for t in statistics])


@pytest.mark.parametrize("seed", range(12))
def test_records_for_goodness_of_fit_give_the_power(seed: int) -> None:
    """Between what exact p-values of 0.035 and of 0.065 reject, less and more the errors of drawn powers."""
    rng = np.random.default_rng(seed)
    true, null = rng.choice([0.01, 0.02, 0.05, 0.1, 0.2, 0.4], 2, replace=False)
    seen = kernel(2, rng.uniform(1, 6))
    effect = power_analysis.goodness_alternative(two(true), two(null), seen)
    n = power_analysis.required_records(effect)
    assert power_analysis.power(effect, n) >= 0.8 > power_analysis.power(effect, int(0.99 * n) - 1)
    if effect.power_source(n, 0.05) == "limit" or n > 5000:
        return
    k = np.arange(n + 1)
    chance, other = (seen.expected(np.array(two(x)))[0] for x in (true, null))
    p = at_least((k - n * other) ** 2, binom.pmf(k, n, other))
    low, high = (binom.pmf(k[p <= level], n, chance).sum() for level in (0.035, 0.065))
    assert low - 0.02 <= power_analysis.power(effect, n) <= high + 0.02


def test_power_of_goodness_of_fit_with_three_categories() -> None:
    """Four standard errors of the drawn power: a false alarm in 15,000 seeds."""
    seen, n = kernel(3, 6), 73
    true, null = (seen.expected(np.array(x)) for x in ([0.05, 0.05, 0.9], [0.01, 0.04, 0.95]))
    outcomes = np.array([(i, j, n - i - j) for i, j in product(range(n + 1), repeat=2) if i + j <= n])
    p = at_least(((outcomes - n * null) ** 2 / null).sum(axis=1), multinomial.pmf(outcomes, n, null))
    exact = multinomial.pmf(outcomes[p <= 0.05], n, true).sum()
    effect = power_analysis.goodness_alternative([0.05, 0.05, 0.9], [0.01, 0.04, 0.95], seen)
    predicted = power_analysis.predicted_power(effect, n)
    assert predicted.source == "drawn" and 0.001 < predicted.standard_error < 0.005
    assert predicted.power == pytest.approx(exact, abs=4 * predicted.standard_error)
    needed = power_analysis.required_records(effect)
    assert power_analysis.power(effect, needed) >= 0.8 > power_analysis.power(effect, int(0.99 * needed) - 1)


@pytest.mark.parametrize("n", [73, 20_000])
def test_standard_errors_of_drawn_powers_are_what_seeds_differ_by(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 seeds: the ratio is within 0.7 and 1.35 but for one time in 3000. With and without drawn p-values."""
    monkeypatch.setattr(drawn_power, "_MOST_SURVEYS", 2000)
    effect = power_analysis.goodness_alternative(
        [0.05, 0.05, 0.9], [0.05 - 0.34 / n**0.5, 0.05, 0.9 + 0.34 / n**0.5], kernel(3, 6)
    )
    predicted = []
    for seed in range(60):
        monkeypatch.setattr(drawn_power, "_SEED", seed)
        predicted.append(power_analysis.predicted_power(effect, n))
    spread = np.std([p.power for p in predicted])
    assert 0.7 < spread / np.mean([p.standard_error for p in predicted]) < 1.35
    assert {p.source for p in predicted} == {"drawn"}


@pytest.mark.parametrize("level", [0.05, 1e-3, 5e-8, 1e-40])
def test_without_a_spread_of_its_own_the_limit_is_noncentral_chi_square(level: float) -> None:
    for df, noncentrality in product((1, 2, 5, 40), (0, 3, 11, 60, 400)):
        effect = power_analysis.Alternative(noncentrality / 1000, df, 1.0)
        assert power_analysis.power(effect, 1000, level) == pytest.approx(
            float(ncx2.sf(chi2.isf(level, df), df, noncentrality) if noncentrality else level), rel=1e-8, abs=1e-15
        )


@pytest.mark.parametrize("direction", [1, -1])
def test_power_of_strong_effects_on_reports_that_are_not_rare(direction: int) -> None:
    """1,000 to 1,200 records in the rarest report and a level of 0.1 %: noncentral χ² is 1 point off.

    Of 100,000 surveys, with p-values of χ², the share that rejects has a standard error of 0.13 points.
    """
    rng, seen = np.random.default_rng(3), kernel(3, 30)
    null, n = np.array([0.0014, 0.4986, 0.5]), 1_000_000
    true = null + direction * np.array([0.00015, -0.00015, 0])
    tables = rng.multinomial(n, true, size=100_000)
    rejected = chi2.sf(((tables - n * null) ** 2 / (n * null)).sum(axis=1), 2) <= 0.001
    predicted = power_analysis.predicted_power(power_analysis.goodness_alternative(true, null, seen), n, 0.001)
    assert predicted.source == "limit" and 0.4 < predicted.power < 0.95
    assert predicted.power == pytest.approx(rejected.mean(), abs=0.006)


def test_spread_of_groups_that_differ_strongly() -> None:
    """As above: here noncentral χ² is 1.3 points off."""
    rng, seen = np.random.default_rng(4), kernel(3, 30)
    groups, n = np.array([[0.003, 0.497, 0.5], [0.0034, 0.4966, 0.5]]), np.array([3_600_000, 400_000])
    tables = np.stack([rng.multinomial(size, law, 100_000) for size, law in zip(n, groups, strict=True)], axis=1)
    expected = n[:, None] * tables.sum(axis=1, keepdims=True) / n.sum()
    rejected = chi2.sf(((tables - expected) ** 2 / expected).sum(axis=(1, 2)), 2) <= 0.001
    effect = power_analysis.homogeneity_alternative(list(groups), seen, n / n.sum())
    predicted = power_analysis.predicted_power(effect, 4e6, 0.001)
    assert predicted.source == "limit"
    assert predicted.power == pytest.approx(rejected.mean(), abs=0.006)


@pytest.mark.slow
def test_power_of_a_likelihood_ratio_near_empty_cells() -> None:
    """The ratio falls short of χ² there, and its test draws tables, although no report is rare; noncentral χ² is 10 points off.

    Of 400 surveys the share that rejects has a standard error of 2.5 points: a false alarm in 200 seeds.
    """
    rare = np.outer([0.96, 0.02, 0.02], [0.96, 0.02, 0.02])
    pi = rare + 0.004 * np.array([[0, -1, 0], [0, 1, 0], [0, 0, 0]])
    seen = design(Domain.of({"a": 3, "b": 3}), 1.5, constraints=Constraints(preserve="pairs")).mechanism.kernel(
        ("a", "b")
    )
    effect, chosen, n = (
        power_analysis.alternative_of("likelihood-ratio", pi, seen),
        association(seen, "likelihood-ratio"),
        60_000,
    )
    rng = np.random.default_rng(5)
    tables = rng.multinomial(n, seen.expected(pi).ravel(), size=400).reshape(-1, 3, 3).astype(float)
    tested = chosen.calibrated(tables, chosen.tested(tables), rng, Simulation(hits=20, most=399))
    assert n * seen.expected(pi).min() > 3000 and tested.simulated.all()
    assert power_analysis.power(effect, n) == pytest.approx(np.mean(tested.p_value <= 0.05), abs=0.07)


@pytest.mark.slow
def test_surveys_that_a_test_refuses_do_not_reject() -> None:
    """Margins of 12 cells at epsilon 0.4 are worth fewer than 10 records a cell, although every report expects thousands."""
    domain = Domain.of({"a": 2, "b": 2, "c": 3})
    mechanism, rng = design(domain, 0.4, constraints=Constraints(preserve="pairs")).mechanism, np.random.default_rng(6)
    pi = rng.dirichlet(np.full(12, 3.0)).reshape(2, 2, 3)
    counts = rng.multinomial(20_000, mechanism.kernel(domain.names).expected(pi).ravel()).reshape(2, 2, 3)
    with pytest.raises(InvalidInput, match="true records a cell"):
        stratified_test(Counts(domain, counts), mechanism, "same-odds-ratios")
    assert power_analysis.power(stratified_alternative(pi, domain, mechanism, "same-odds-ratios"), 20_000) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "shares", "truths"), [(6, (0.9, 0.1), (0.01, 0.1)), (3, (0.9, 0.1), (0.05, 0.4))])
def test_power_of_homogeneity_is_that_of_its_own_p_values(epsilon, shares, truths):
    """300 surveys with the p-values of the test itself: standard deviation 2.3 %, and the power's own 0.9 %."""
    seen, rng = kernel(2, epsilon), np.random.default_rng(2)
    effect = power_analysis.homogeneity_alternative([two(x) for x in truths], seen, shares)
    n = power_analysis.required_records(effect)
    sizes = np.rint(n * np.array(shares)).astype(int)
    laws = np.stack([seen.expected(np.array(two(x))) for x in truths])
    p = homogeneity_tests(rng.multinomial(sizes, laws, size=(300, 2)), rng, Simulation(50, 999)).p_value
    assert np.mean(p <= 0.05) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("sizes", [(205, 23), (86, 9), (50, 41), (100, 7)])
def test_groups_with_all_records_in_one_category_are_alike(sizes: tuple[int, int]) -> None:
    tested = homogeneity_tests(np.array([[[0, n] for n in sizes]]), np.random.default_rng(0))
    assert (tested.statistic[0], tested.p_value[0]) == (0, 1)
