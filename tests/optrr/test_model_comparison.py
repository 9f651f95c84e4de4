"""One log-linear model beside another, and intervals of coefficients that hold together."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import binom, chi2_contingency

from optrr import Counts, Domain, InvalidInput, design
from optrr.models.loglinear.comparing import LEAST_SHOWN, STRATIFIED, compare_models, stratified_test, within_strata
from optrr.models.loglinear.estimating import beside, fit_loglinear, stepwise
from optrr.models.loglinear.fitting import Terms, indicators

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
PLAIN = design(DOMAIN, 20.0).mechanism
NOISY = design(DOMAIN, [1.5, 2.0, 3.0], preserve="pairs").mechanism
SMALL, LARGE = [("a", "b")], [("a", "b"), ("a", "c"), ("b", "c")]


def counts_of(seed, n, mechanism, table):
    law = mechanism.kernel(DOMAIN.names).expected(table).ravel()
    drawn = np.random.default_rng(seed).multinomial(n, law / law.sum())
    return Counts(DOMAIN, drawn.reshape(2, 3, 2))


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(1).dirichlet(np.full(12, 6.0)).reshape(2, 3, 2)


def test_without_noise_it_is_the_deviance_difference_of_poisson_regression(table):
    counts = counts_of(2, 20_000, PLAIN, table)
    compared = beside(counts, PLAIN, SMALL, LARGE)

    def deviance(generators):
        terms = Terms.of(DOMAIN, generators)
        columns = terms.columns().reshape(terms.parameters, -1).T
        return sm.GLM(counts.table.ravel(), sm.add_constant(columns), family=sm.families.Poisson()).fit().deviance

    assert compared.ratio == pytest.approx(deviance(SMALL) - deviance(LARGE), rel=1e-5)
    assert compared.score == compare_models(counts, PLAIN, SMALL, LARGE)
    assert compared.score.df == 3
    assert compared.bic_difference == pytest.approx(3 * np.log(20_000) - compared.ratio)
    # with the models the other way round it is the same
    assert beside(counts, PLAIN, LARGE, SMALL).ratio == compared.ratio


def test_through_noise_it_is_twice_the_difference_of_maxima_that_scipy_finds(table):
    counts, matrix = counts_of(3, 20_000, NOISY, table), NOISY.kernel(DOMAIN.names).matrix()

    def most(generators):
        terms = Terms.of(DOMAIN, generators)
        columns = terms.columns().reshape(terms.parameters, -1)

        def loss(beta):
            logs = beta @ columns
            return -float(counts.table.ravel() @ np.log(np.exp(logs - logsumexp(logs)) @ matrix))

        return -minimize(loss, np.zeros(terms.parameters), method="BFGS", options={"gtol": 1e-4}).fun

    compared = beside(counts, NOISY, SMALL, LARGE)
    assert compared.ratio == pytest.approx(2 * (most(LARGE) - most(SMALL)), abs=1e-3)


@pytest.mark.slow
def test_the_ratio_rejects_as_often_as_it_says_where_it_has_a_p_value(table):
    runs = 160
    pair = table.sum(axis=2)[:, :, None] * table.sum(axis=(0, 1))
    compared = [beside(counts_of([4, k], 20_000, NOISY, pair), NOISY, SMALL, LARGE) for k in range(runs)]
    p = np.array([c.ratio_p_value for c in compared], dtype=float)
    assert np.isfinite(p).mean() > 0.9
    # outside by chance once in 10^4
    low, high = binom.interval(1 - 1e-4, runs, 0.05)
    assert low <= np.sum(p <= 0.05) <= high


def test_near_empty_cells_the_ratio_has_no_p_value_and_says_so(table):
    empty = table.copy()
    empty[0, 0, 0] = 0
    compared = beside(counts_of(5, 20_000, NOISY, empty / empty.sum()), NOISY, [("a", "b"), ("c",)], [("a", "b", "c")])
    assert compared.ratio_p_value is None and compared.summary()["likelihood_ratio_p_value"] is None
    assert any("the likelihood ratio has no p-value" in line for line in compared.warnings)
    assert "no p-value" in compared.headline()


def test_models_that_are_no_part_of_each_other_are_refused(table):
    with pytest.raises(InvalidInput, match="not a part of"):
        beside(counts_of(6, 2000, NOISY, table), NOISY, [("a", "c")], [("a", "b")])


def test_simultaneous_intervals_are_those_of_a_higher_confidence(table):
    counts = counts_of(7, 20_000, NOISY, table)
    together = fit_loglinear(counts, NOISY, SMALL, 0.9, simultaneous=True)
    alone = fit_loglinear(counts, NOISY, SMALL, 1 - 0.1 / together.terms.parameters)
    np.testing.assert_allclose(together.limits, alone.limits, rtol=1e-9)
    assert together.confidence == 0.9 and together.summary()["simultaneous"]
    searched = stepwise(counts, NOISY, 2, 0.9, simultaneous=True)
    again = fit_loglinear(counts, NOISY, searched.terms, 0.9, simultaneous=True)
    np.testing.assert_array_equal(searched.limits, again.limits)


@pytest.mark.slow
def test_simultaneous_intervals_hold_together():
    runs = 60
    terms = Terms.of(DOMAIN, SMALL)
    truth = np.random.default_rng(8).normal(size=terms.parameters) * 0.5
    shares = np.exp(np.tensordot(truth, terms.columns(), 1))
    held = 0
    for k in range(runs):
        fitted = fit_loglinear(
            counts_of([9, k], 20_000, NOISY, shares / shares.sum()), NOISY, terms, 0.8, simultaneous=True
        )
        held += bool(np.all((fitted.limits[:, 0] <= truth) & (truth <= fitted.limits[:, 1])))
    # at least 80 %, which fewer contradict once in 10^4
    assert held >= binom.ppf(1e-4, runs, 0.8)


@pytest.mark.slow
def test_degrees_of_freedom_that_empty_margins_take_away_are_said(table):
    missing = Domain.of({"a": 3, "b": 3, "c": 2})
    tallies = np.random.default_rng(1).integers(30, 90, (3, 3, 2))
    tallies[2, :, 1] = 0
    mechanism = design(missing, 20.0).mechanism
    result = stratified_test(Counts(missing, tallies), mechanism, random_state=1)
    # likelihood ratios of the strata, the empty row left out, add up to it; their degrees of freedom are 4 and 2
    parts = [
        chi2_contingency(tallies[:, :, 0], correction=False, lambda_="log-likelihood"),
        chi2_contingency(tallies[:2, :, 1], correction=False, lambda_="log-likelihood"),
    ]
    assert result.statistic == pytest.approx(sum(part.statistic for part in parts), rel=1e-3)
    assert (result.df, sum(part.dof for part in parts)) == (8, 6)
    assert any("needs no degrees of freedom" in line for line in result.warnings)
    full = stratified_test(counts_of(10, 20_000, NOISY, table), NOISY, random_state=1)
    assert not any("degrees of freedom" in line for line in full.warnings)


def information(table, matrix, n, terms):
    """Fisher's information of n records on all parameters of the terms, from the dense distortion matrix."""
    columns = terms.columns().reshape(terms.parameters, -1)
    derivative = (table.ravel() * (columns - (columns @ table.ravel())[:, None])) @ matrix
    return n * derivative / (table.ravel() @ matrix) @ derivative.T


@pytest.mark.parametrize("name", STRATIFIED[:2] + STRATIFIED[3:])
@pytest.mark.parametrize("mechanism", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_what_is_shown_is_information_beside_that_of_an_even_table(table, mechanism, name):
    test, n = within_strata(name, DOMAIN, mechanism), 3000.0
    expected = n * mechanism.kernel(DOMAIN.names).expected(table)
    fits = test.null.fitted(expected[None])
    larger = Terms.of(DOMAIN, LARGE) if name == "common-association" else Terms.of(DOMAIN, [DOMAIN.names])
    added = np.array([len(s) > 1 and s[:2] == (0, 1) for s in larger.sets for _ in indicators(DOMAIN, s)])
    added &= np.array([name != "same-odds-ratios" or len(s) == 3 for s in larger.sets for _ in indicators(DOMAIN, s)])
    each = []
    for pi, matrix, records in (
        (fits.proportions[0], mechanism.kernel(DOMAIN.names).matrix(), n),
        (np.full((2, 3, 2), 1 / 12), np.eye(12), 12),
    ):
        inverse = np.linalg.inv(information(pi, matrix, records, larger))
        each.append(np.linalg.inv(inverse[np.ix_(added, added)]))
    assert test.shown(fits, np.array([n]))[0] == pytest.approx(eigh(*each, eigvals_only=True)[-1], rel=1e-6)


def test_half_a_record_a_cell_is_a_standard_error_of_four_of_the_ratio_of_two_odds_ratios():
    counts = np.array([[[40.0, 3], [20, 2]], [[60, 5], [90, 10]]]) * 7
    counts[1, 1, 1] = (
        counts[1, 1, 0]
        * counts[0, 0, 0]
        * counts[1, 0, 1]
        * counts[0, 1, 1]
        / (counts[0, 1, 0] * counts[1, 0, 0] * counts[0, 0, 1])
    )
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    test = within_strata("same-odds-ratios", domain, design(domain, 20.0).mechanism)
    shown = test.shown(test.null.fitted(counts[None]), np.array([counts.sum()]))[0]
    # Woolf's variance of a logarithm of odds ratios
    assert np.sqrt(8 / shown) == pytest.approx(np.sqrt(np.sum(1 / counts)), rel=1e-4)
    assert np.sqrt(8 / LEAST_SHOWN) == 4


@pytest.mark.slow
def test_odds_ratios_of_a_margin_that_is_empty_are_not_compared():
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    mechanism = design(domain, [1.84, 1.37, 5.58]).mechanism
    pi = np.array([[[0, 0.014], [0, 0.003]], [[0.57, 0.326], [0.076, 0.011]]])
    counts = Counts(domain, np.round(80_000 * mechanism.kernel(domain.names).expected(pi)).astype(int))
    with pytest.raises(InvalidInput, match="tell as much of the associations under test as"):
        stratified_test(counts, mechanism, "same-odds-ratios")
    assert stratified_test(counts, mechanism, "common-association", random_state=1).p_value > 0
