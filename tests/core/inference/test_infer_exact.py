"""Homogeneity, goodness of fit and the bootstrap: p-values against exact enumeration, scipy and plain simulation."""

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency, multinomial

from optrr import Counts, Domain, InvalidInput, Mechanism, design
from optrr.core.inference.associations import association
from optrr.core.inference.groups import (
    goodness_of_fit,
    goodness_tests,
    homogeneity,
    homogeneity_tests,
)
from optrr.core.inference.simulation import Simulation, simulated_p_values
from optrr.core.inference.testing import Bootstrap, test
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
    assert result.statistic == pytest.approx(0, abs=1e-9) and result.p_value == 1 and result.calibration == "bootstrap"


def test_goodness_of_fit_is_the_enumerated_one():
    table, kernel, pi = (17, 1, 2), at(3, 3), np.array([0.97, 0.02, 0.01])
    expected = kernel.expected(pi)
    every = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)])
    statistics = ((every - 20 * expected) ** 2 / (20 * expected)).sum(axis=1)
    observed = ((np.array(table) - 20 * expected) ** 2 / (20 * expected)).sum()
    exact = multinomial.pmf(every, 20, expected)[statistics >= observed * (1 - 1e-9)].sum()
    result = goodness_of_fit(group(*table), kernel, pi, random_state=5)
    assert result.statistic == pytest.approx(observed) and result.calibration == "bootstrap" and result.reliable
    assert result.p_value == pytest.approx(exact, rel=5 * result.relative_error)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(300, 300), (300, 5000), (200, 300, 2000)])
@pytest.mark.parametrize("epsilon", [0.5, 4, 6])
def test_the_level_is_the_nominal_one_where_reports_are_rare(sizes, epsilon):
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


def kronecker(sizes, epsilon):
    domain = Domain.of({f"a{i}": r for i, r in enumerate(sizes)})
    return Mechanism(domain, ProductLaw(domain.sizes, np.full(len(sizes), float(epsilon))))


def test_drawn_p_values_between_groups_are_those_of_plain_simulation():
    """Groups drawn from what both report, with Pearson's statistic of scipy: five standard errors of both simulations."""
    tables = np.array([[40, 3], [25, 9]])
    result = homogeneity([group(*t) for t in tables], at(3), random_state=2)
    observed, rng = chi2_contingency(tables, correction=False).statistic, np.random.default_rng(4)
    drawn = np.stack([rng.multinomial(n, tables.sum(axis=0) / 77, size=4000) for n in (43, 34)], axis=1)
    drawn = drawn[drawn.sum(axis=1).min(axis=1) > 0]
    reached = sum(chi2_contingency(t, correction=False).statistic >= observed * (1 - 1e-9) for t in drawn)
    assert result.statistic == pytest.approx(observed) and result.calibration == "bootstrap"
    spread = np.hypot(result.relative_error, 1 / np.sqrt(reached))
    assert result.p_value == pytest.approx(reached / 4000, rel=5 * spread)


def test_results_say_how_far_they_can_be_trusted():
    strong = Counts(Domain.of({"a0": 3, "a1": 2}), 8 * np.array([[40, 1], [120, 150], [200, 250]]))
    weakly = kronecker((3, 2), 6)
    for calibration in ("asymptotic", "auto"):
        # χ² has the order of magnitude, which no draw could tell better
        far = test(strong, weakly, calibration=calibration)
        assert far.calibration == "asymptotic" and far.p_value < far.reliable_down_to and not far.reliable
        assert "more than a factor of two" in far.warnings[0]
    few = Counts(strong.domain, strong.table // 8)
    sparse = test(few, weakly, calibration=Bootstrap(random_state=1))
    assert sparse.calibration == "bootstrap" and not sparse.reliable and "none of 99999" in sparse.warnings[0]
    assert "leave the calibration to auto" in test(few, weakly, calibration="asymptotic").warnings[0]
    easy = design({"a0": 3, "a1": 2}, 1.0, method="kronecker").mechanism
    mild = Counts(easy.domain, np.array([[900, 800], [700, 690], [500, 480]]))
    assert test(mild, easy).calibration == "asymptotic"
    share = test(mild, easy, calibration=Bootstrap(4999, 2))
    assert share.p_value == pytest.approx(test(mild, easy).p_value, abs=0.035)
    assert share.reliable_down_to == 17 / 5000


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(300, 4), (300, 1), (2000, 6)])
@pytest.mark.parametrize("name", ["independence", "trend", "likelihood-ratio"])
def test_the_bootstrap_of_an_association_keeps_its_level(name, n, epsilon):
    """A rare category beside a rare one. 2000 tables: beyond 3.2 to 6.8 % by chance once in 3000; the ratio may fall short."""
    kernel = kronecker((3, 2), epsilon).kernel(("a0", "a1"))
    law = kernel.expected(np.outer([0.02, 0.38, 0.6], [0.1, 0.9])).ravel()
    rng, chosen = np.random.default_rng(n + epsilon), association(kernel, name)
    tables = rng.multinomial(n, law, size=2000).reshape(-1, 3, 2).astype(float)
    tested = chosen.calibrated(tables, chosen.tested(tables), rng, Simulation(5, 199))
    assert tested.simulated.mean() > 0.9
    rejected = np.mean(tested.p_value <= 0.05)
    assert (0.015 if name == "likelihood-ratio" else 0.032) < rejected < 0.068
