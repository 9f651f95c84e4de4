"""Log-linear models against statsmodels and scipy's own maximum, one beside another; levels by simulation."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import binom, chi2, chi2_contingency
from statsmodels.stats.contingency_tables import StratifiedTable

from optrr import Constraints, Counts, Domain, InvalidInput, count, design
from optrr.analysis.loglinear.comparing import LEAST_SHOWN, STRATIFIED, compare_models, stratified_test, within_strata
from optrr.analysis.loglinear.estimating import fit_loglinear, fitted_model, stepwise, with_intervals
from optrr.analysis.loglinear.fitting import NullModel, TableFits, Terms, indicators, parse_terms
from optrr.core.domain.datasets import adult, adult_domain
from optrr.core.inference.testing import test as tested
from optrr.core.mechanisms.kernel import Kernel, SingularMarginal

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
PLAIN = design(DOMAIN, 20.0).mechanism
NOISY = design(DOMAIN, [1.5, 2.0, 3.0], constraints=Constraints(preserve="pairs")).mechanism
GENERATORS: list[list[tuple[str, ...]]] = [
    [],
    [("a", "b")],
    [("a", "c"), ("b", "c")],
    [("a", "b"), ("a", "c"), ("b", "c")],
]
MODELS = [Terms.of(DOMAIN, g) for g in GENERATORS]


def counts_of(table: Any) -> Counts:
    return Counts(DOMAIN, np.asarray(table))


def drawn(seed: int, n: int = 20_000, kernel: Kernel | None = None, table: np.ndarray | None = None) -> Counts:
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(12, 4.0)).reshape(2, 3, 2) if table is None else table
    lam = pi if kernel is None else kernel.forward(pi)
    return counts_of(rng.multinomial(n, lam.ravel()).reshape(2, 3, 2))


@pytest.mark.parametrize("terms", MODELS, ids=str)
def test_without_noise_a_fit_is_that_of_poisson_regression(terms: Terms) -> None:
    counts = drawn(1)
    columns = terms.columns().reshape(terms.parameters, -1).T
    reference = sm.GLM(counts.table.ravel(), sm.add_constant(columns), family=sm.families.Poisson()).fit()
    model = fit_loglinear(counts, PLAIN, terms)
    np.testing.assert_allclose(model.coefficients, reference.params[1:], atol=1e-5)
    np.testing.assert_allclose(model.standard_errors, reference.bse[1:], rtol=1e-3)
    np.testing.assert_allclose(model.proportions.ravel() * counts.n, reference.fittedvalues, rtol=1e-4)


@pytest.mark.parametrize("terms", MODELS, ids=str)
def test_a_fit_through_noise_is_the_maximum_that_scipy_finds(terms: Terms) -> None:
    kernel = NOISY.kernel(("a", "b", "c"))
    counts, matrix = drawn(2, kernel=kernel), kernel.matrix()
    columns = terms.columns().reshape(terms.parameters, -1)

    def loss(beta: np.ndarray) -> float:
        weights = np.exp(beta @ columns)
        return -float(counts.proportions.ravel() @ np.log(weights / weights.sum() @ matrix))

    reference = minimize(loss, np.zeros(terms.parameters), method="BFGS", options={"gtol": 1e-10})
    model = fit_loglinear(counts, NOISY, terms)
    np.testing.assert_allclose(model.coefficients, reference.x, atol=2e-5)
    assert model.log_likelihood >= -counts.n * reference.fun - 1e-8
    steps = 1e-3 * np.eye(terms.parameters)
    hessian = [
        [
            loss(reference.x + s + t)
            - loss(reference.x + s - t)
            - loss(reference.x - s + t)
            + loss(reference.x - s - t)
            for t in steps
        ]
        for s in steps
    ]
    errors = np.sqrt(np.diag(np.linalg.inv(np.array(hessian) / 4e-6 * counts.n)))
    # the observed information differs from the expected one, which ours is, by the misfit of the model
    np.testing.assert_allclose(model.standard_errors, errors, rtol=0.1)


def test_without_noise_the_tests_are_those_of_pearson_and_cochran_mantel_haenszel() -> None:
    rng = np.random.default_rng(3)
    domain = Domain.of({"a": 2, "b": 2, "c": 4})
    mechanism = design(domain, 20.0).mechanism
    counts = Counts(domain, rng.integers(800, 1500, (2, 2, 4)))
    strata = StratifiedTable([counts.table[:, :, k].astype(float) for k in range(4)])
    common = stratified_test(counts, mechanism, "common-association")
    # theirs is conditional on the margins, which makes its variance larger by n/(n − 1) in each stratum
    assert common.statistic == pytest.approx(strata.test_null_odds(correction=False).statistic, rel=2e-3)
    assert common.df == 1
    assert common.statistic == pytest.approx(stratified_test(counts, mechanism, "common-trend").statistic)
    general = stratified_test(counts, mechanism)
    pearson = sum(chi2_contingency(counts.table[:, :, k], correction=False).statistic for k in range(4))
    assert (general.statistic, general.df) == (pytest.approx(pearson, rel=1e-5), 4)
    assert general.p_value == pytest.approx(chi2.sf(pearson, 4), rel=1e-4)
    differing = stratified_test(counts, mechanism, "same-odds-ratios")
    assert differing.df == 3
    # Breslow and Day's statistic takes another estimate of the common odds ratio
    assert differing.statistic == pytest.approx(strata.test_equal_odds().statistic, rel=2e-2)


@pytest.mark.parametrize("seed", range(3))
def test_for_two_attributes_it_is_the_test_of_independence(seed: int) -> None:
    domain = Domain.of({"a": 3, "b": 4})
    mechanism = design(domain, [1.0, 2.0]).mechanism
    table = np.random.default_rng(seed).integers(400, 900, (3, 4))
    ours = compare_models(Counts(domain, table), mechanism, [], [("a", "b")])
    theirs = tested(Counts(domain, table), mechanism, calibration="asymptotic")
    assert (ours.statistic, ours.df) == (pytest.approx(theirs.statistic, rel=1e-6), theirs.df)


def conditionally_independent(rng: np.random.Generator) -> np.ndarray:
    strata = rng.dirichlet(np.full(2, 3.0))
    parts = [p * np.outer(rng.dirichlet(np.full(2, 3.0)), rng.dirichlet(np.full(3, 3.0))) for p in strata]
    return np.stack(parts, axis=2)


def test_the_fit_of_many_tables_is_the_likeliest_of_each_and_keeps_margins_where_noise_takes_them_out() -> None:
    kernel, rng = NOISY.kernel(("a", "b", "c")), np.random.default_rng(6)
    terms = MODELS[3]
    tables = rng.multinomial(20_000, kernel.forward(conditionally_independent(rng)).ravel(), size=5).reshape(
        -1, 2, 3, 2
    )
    fits = NullModel.of(terms, NOISY).fitted(tables.astype(float))
    assert fits.proper.all()
    for table, proportions in zip(tables, fits.proportions, strict=True):
        np.testing.assert_allclose(proportions, fit_loglinear(counts_of(table), NOISY, terms).proportions, atol=1e-6)
    few = np.zeros((1, 2, 3, 2))
    few[0, 0, 0, 0] = few[0, 1, 1, 1] = 50
    fit = NullModel.of(MODELS[2], NOISY).fitted(few)
    assert not fit.proper[0] and fit.proportions.min() > 0
    # the table of the model a*c + b*c with these margins is known in closed form
    ac, bc = fit.proportions.sum(axis=2)[0], fit.proportions.sum(axis=1)[0]
    product = ac[:, None, :] * bc[None] / ac.sum(axis=0)
    np.testing.assert_allclose(fit.proportions[0], product, atol=1e-9)


def test_the_statistic_is_the_efficient_score_with_the_nuisance_projected_out() -> None:
    """Neyman's C(α), written with one table's matrices and pseudo-inverses, away from the likeliest fit."""
    kernel, rng = NOISY.kernel(("a", "b", "c")), np.random.default_rng(8)
    test = within_strata("common-association", DOMAIN, NOISY)
    table = rng.multinomial(3000, kernel.forward(rng.dirichlet(np.ones(12)).reshape(2, 3, 2)).ravel()).reshape(2, 3, 2)
    pi = conditionally_independent(rng)
    lam = kernel.forward(pi)
    fits = TableFits(pi[None], lam[None], np.array([True]))
    root = np.diag(lam.ravel() ** -0.5)

    def slopes(columns: np.ndarray) -> np.ndarray:
        flat = columns.reshape(len(columns), -1)
        return ((flat - (flat @ pi.ravel())[:, None]) * pi.ravel()) @ kernel.matrix() @ root

    old, new = slopes(test.null.terms.columns()), slopes(test.added)
    left = new - new @ np.linalg.pinv(old) @ old
    distance = root @ (table.ravel() / 3000 - lam.ravel())
    expected = 3000 * distance @ np.linalg.pinv(left) @ left @ distance
    assert test.statistics(table[None].astype(float), fits)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_records_that_hardly_show_the_strata_have_a_p_value_that_says_how_little_that_is() -> None:
    faint = design(DOMAIN, [3.0, 3.0, 0.3], method="kronecker").mechanism
    with pytest.raises(InvalidInput, match="a test of added terms needs 10: about"):
        stratified_test(drawn(1, 2000), faint, "same-odds-ratios")
    result = stratified_test(drawn(1, 2000), faint, random_state=1)
    assert result.calibration == "bootstrap" and any("records would do" in line for line in result.warnings)


def test_interactions_that_the_mechanism_hides_are_named() -> None:
    three = Domain.of({"a": 2, "b": 2, "c": 2})
    hiding = design(three, 0.5).mechanism
    counts = Counts(three, np.random.default_rng(1).integers(400, 900, (2, 2, 2)))
    with pytest.raises(SingularMarginal, match="'a', 'b'"):
        fit_loglinear(counts, hiding, [("a", "b"), ("c",)])
    with pytest.raises(SingularMarginal, match="joint effect"):
        stratified_test(counts, hiding)
    searched = stepwise(counts, hiding)
    assert searched.hidden == ("a*b", "a*c", "b*c")
    assert "hides a*b, a*c, b*c" in searched.warnings[0]


def test_few_expected_records_are_bootstrapped_and_a_marginal_association_vanishes_within_strata() -> None:
    rng = np.random.default_rng(4)
    # both attributes follow the stratum, and are independent in it
    pi = np.stack([0.5 * np.outer([0.8, 0.2], [0.6, 0.3, 0.1]), 0.5 * np.outer([0.2, 0.8], [0.1, 0.3, 0.6])], axis=2)
    kernel = NOISY.kernel(("a", "b", "c"))
    counts = counts_of(rng.multinomial(600, kernel.forward(pi).ravel()).reshape(2, 3, 2))
    result = stratified_test(counts, NOISY, "common-trend", random_state=1)
    assert result.calibration == "bootstrap"
    large = counts_of(np.rint(200_000 * kernel.forward(pi)).astype(np.int64))
    assert stratified_test(large, NOISY).p_value > 0.99
    marginal = Counts(DOMAIN.subset(["a", "b"]), large.table.sum(axis=2))
    assert tested(marginal, NOISY).p_value < 1e-6


def test_stepwise_finds_the_model_that_made_the_records() -> None:
    columns = Terms.of(DOMAIN, [("a", "b"), ("c",)])
    beta = np.array([0.2, -0.3, 0.4, 0.5, 1.2, -1.5])
    pi = np.exp(beta @ columns.columns().reshape(6, -1)).reshape(2, 3, 2)
    kernel = NOISY.kernel(("a", "b", "c"))
    counts = drawn(5, 200_000, kernel, pi / pi.sum())
    assert str(stepwise(counts, NOISY, order=3).terms) == "c + a*b"


def test_coefficients_of_adult_are_read_as_log_odds_ratios() -> None:
    domain = adult_domain().subset(["sex", "income"])
    mechanism = design(domain, 15.0).mechanism
    counts = count(adult(), domain, domain.names, allow_extra=True)
    model = fit_loglinear(counts, mechanism, [("sex", "income")])
    odds = counts.table[0, 0] * counts.table[1, 1] / (counts.table[0, 1] * counts.table[1, 0])
    assert model.coefficients[-1] == pytest.approx(np.log(odds), abs=1e-3)
    frame = model.to_pandas()
    assert list(frame.columns) == ["parameter", "estimate", "standard_error", "lower", "upper"]
    assert frame.parameter.iloc[-1].count("=") == 2
    assert model.summary()["model"] == "sex*income"


def score_of_poisson_regression(counts: Counts, columns: np.ndarray, k: int, value: float) -> float:
    """Rao's statistic for coefficient k at a value, which is an offset of the others' regression; columns (R, p)."""
    observed, others = counts.table.ravel(), sm.add_constant(np.delete(columns, k, axis=1))
    model = sm.GLM(observed, others, family=sm.families.Poisson(), offset=value * columns[:, k])
    mean = model.fit(tol=1e-12).fittedvalues
    left = columns[:, k] - others @ np.linalg.solve(others.T * mean @ others, others.T * mean @ columns[:, k])
    return float(((observed - mean) @ left) ** 2 / (mean @ left**2))


def test_an_interval_without_noise_inverts_the_score_test_of_the_common_odds_ratio() -> None:
    """Its ends are where Rao's statistic of Poisson regression with the coefficient as an offset reaches the quantile."""
    counts = drawn(1, 4000)
    model = fit_loglinear(counts, PLAIN, MODELS[3], 0.9)
    columns = model.terms.columns().reshape(model.terms.parameters, -1).T
    for k in (0, model.terms.parameters - 1):
        for value in model.limits[k]:
            assert score_of_poisson_regression(counts, columns, k, value) == pytest.approx(chi2.isf(0.1, 1), rel=5e-3)
    assert np.all((model.limits[:, 0] < model.coefficients) & (model.coefficients < model.limits[:, 1]))


def test_intervals_through_noise_are_near_the_normal_ones_where_records_are_many() -> None:
    kernel, rng = NOISY.kernel(("a", "b", "c")), np.random.default_rng(12)
    terms = MODELS[3]
    beta = rng.normal(size=terms.parameters) / 2
    pi = np.exp(beta @ terms.columns().reshape(len(beta), -1)).reshape(2, 3, 2)
    model = fit_loglinear(drawn(13, 4_000_000, kernel, pi / pi.sum()), NOISY, terms)
    half = 1.96 * model.standard_errors
    np.testing.assert_allclose(model.limits[:, 0], model.coefficients - half, atol=0.05 * half.max())
    np.testing.assert_allclose(model.limits[:, 1], model.coefficients + half, atol=0.05 * half.max())


def test_a_model_that_the_records_hardly_show_has_no_intervals_and_says_so() -> None:
    faint = design(DOMAIN, [3.0, 3.0, 0.3], method="kronecker").mechanism
    model = fit_loglinear(drawn(1, 500), faint, [("a", "c"), ("b",)])
    assert np.isnan(model.limits[:, 0]).all() and "no intervals: these records have" in model.warnings[0]
    wide = Domain.of({"a": 12, "b": 12, "c": 2})
    many = Counts(wide, np.full((12, 12, 2), 50))
    said = fit_loglinear(many, design(wide, 8.0, method="kronecker").mechanism, [("a", "b")]).warnings[0]
    assert said == "no intervals: 144 parameters in 288 cells are too many; leave out interactions"


def test_a_share_that_goes_to_zero_is_said() -> None:
    table = np.full((2, 3, 2), 500)
    table[1, 2] = 0
    model = fit_loglinear(counts_of(table), PLAIN, [("a", "b"), ("c",)])
    assert any("fitted table is 0" in line for line in model.warnings)
    assert np.isneginf(model.limits[-1, 0])
    columns = model.terms.columns().reshape(model.terms.parameters, -1).T
    reached = score_of_poisson_regression(model.counts, columns, 5, model.limits[-1, 1])
    assert reached == pytest.approx(chi2.isf(0.05, 1), rel=5e-3)
    assert np.isfinite(model.limits[:-1]).all()
    assert np.isnan(model.standard_errors).all()


def efficient_deviation(counts: Counts, kernel: Kernel, ratio: float) -> float:
    """Rao's score of a 2 × 2 table in standard deviations where ln OR is ``ratio``, the others at scipy's likeliest values."""
    matrix = np.stack([kernel.forward(cell.reshape(2, 2)).ravel() for cell in np.eye(4)], axis=1)
    columns, observed = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1.0]]), counts.proportions.ravel()

    def shares(others: np.ndarray) -> np.ndarray:
        logs = np.array([*others, ratio]) @ columns
        return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()

    fits = [
        minimize(lambda b: -observed @ np.log(matrix @ shares(b)), [start, start - ratio], method="Nelder-Mead",
                 options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 4000})
        for start in (-2.0, 0.0, 2.0)
    ]  # fmt: skip
    pi = shares(min(fits, key=lambda fit: fit.fun).x)
    lam = matrix @ pi
    j = matrix @ ((columns - (columns @ pi)[:, None]) * pi).T
    information = j.T @ (j / lam[:, None])
    weight = j[:, 2] - j[:, :2] @ np.linalg.solve(information[:2, :2], information[:2, 2])
    return float(np.sqrt(counts.n) * (weight / lam) @ (observed - lam) / np.sqrt(weight @ (weight / lam)))


@pytest.mark.parametrize("flip", [False, True])
def test_an_infinite_coefficient_is_said_to_be_and_its_limit_is_where_the_score_test_ends(flip: bool) -> None:
    """Where noise takes a cell of the table out of the proportions the score for the odds ratio never turns."""
    domain = Domain.of({"a": 2, "b": 2})
    mechanism = design(domain, {"a": 3.7, "b": 1.2}, method="kronecker").mechanism
    table = np.array([[235, 69], [141, 255]])
    counts = Counts(domain, table[::-1] if flip else table)
    model, side = fit_loglinear(counts, mechanism, [("a", "b")]), -1 if flip else 1
    assert model.coefficients[2] == side * np.inf and np.isfinite(model.coefficients[0])
    assert model.summary()["coefficients"][2]["estimate"] is None and np.isnan(model.standard_errors).all()
    low, high = sorted(side * model.limits[2])
    assert high == np.inf and 2 < low < 5
    reached = efficient_deviation(counts, mechanism.kernel(("a", "b")), side * low)
    assert side * reached == pytest.approx(1.96, abs=0.05)


def test_where_a_share_goes_to_zero_odds_by_odds_are_infinite_finite_or_without_a_limit() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    mechanism = design(domain, 20.0).mechanism
    inf, nan = np.inf, np.nan
    for table, wanted in (
        ([[500, 400], [300, 0]], [np.log(0.6), np.log(0.8), -inf]),
        ([[500, 0], [300, 200]], [np.log(0.6), -inf, inf]),
        ([[0, 400], [300, 200]], [inf, inf, -inf]),
        ([[500, 0], [300, 0]], [np.log(0.6), -inf, nan]),
        ([[500, 0], [0, 200]], [-inf, -inf, inf]),
    ):
        model = fit_loglinear(Counts(domain, np.array(table)), mechanism, [("a", "b")])
        np.testing.assert_allclose(model.coefficients, wanted, atol=1e-3)
    # a rare product of independent shares is no share at 0
    rare = np.outer([99_000, 1], [99_000, 1]).astype(int) // 99_000
    assert np.isfinite(fit_loglinear(Counts(domain, rare), mechanism, [("a",), ("b",)]).coefficients).all()


@pytest.mark.parametrize(
    ("epsilons", "table"),
    [
        ([1.5, 1.3, 1.7], [[[11, 21], [35, 47]], [[34, 31], [116, 139]]]),
        ([1.6, 1.6, 0.8], [[[8, 17], [21, 41]], [[26, 27], [92, 156]]]),
        ([0.8, 0.8, 1.4], [[[36, 21], [11, 11]], [[24, 28], [6, 16]]]),
    ],
)
def test_limits_hold_the_estimate_where_the_score_rejects_it(epsilons: list[float], table: list[object]) -> None:
    """Faint records: the score of an infinite coefficient turns at a finite value, and is rejected between the two."""
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    mechanism = design(domain, epsilons, method="kronecker").mechanism
    counts, terms = Counts(domain, np.array(table)), Terms.of(domain, [("a", "b"), ("b", "c")])
    model = with_intervals(fitted_model(counts, mechanism, terms))
    estimates, limits = model.coefficients, model.limits
    assert np.isinf(estimates).any()
    assert np.all((limits[:, 0] <= estimates) & (estimates <= limits[:, 1]))


def test_a_model_of_one_coefficient_has_the_score_interval_of_its_odds() -> None:
    """Of one binary attribute: the odds at which the number of reports of the second category is 1.96 errors from its mean."""
    domain = Domain.of({"y": 2})
    mechanism = design(domain, 2.0).mechanism
    keep, n, second = float(mechanism.matrix("y")[0, 0]), 400, 130
    model = fit_loglinear(Counts(domain, np.array([n - second, second])), mechanism, [("y",)])
    for limit, side in zip(model.limits[0], (1, -1), strict=True):
        p = 1 / (1 + np.exp(-limit))
        chance = p * keep + (1 - p) * (1 - keep)
        assert (second - n * chance) / np.sqrt(n * chance * (1 - chance)) == pytest.approx(side * 1.96, abs=5e-3)
    share = (second / n - 1 + keep) / (2 * keep - 1)
    assert model.coefficients[0] == pytest.approx(np.log(share / (1 - share)), abs=1e-6)


def test_terms_are_closed_under_subsets_and_parsed() -> None:
    terms = parse_terms("a*b*c", DOMAIN)
    assert [len(s) for s in terms.sets] == [1, 1, 1, 2, 2, 2, 3]
    assert str(parse_terms("b*a + c", DOMAIN)) == "c + a*b"
    named = Domain.of({"W.Hnd": 2, "a*b": 2, "c + d": 2})
    assert str(parse_terms("`a*b`*W.Hnd + `c + d`", named)) == "`c + d` + W.Hnd*`a*b`"
    assert parse_terms("`W.Hnd`*`a*b`", named) == Terms.of(named, [("W.Hnd", "a*b")])
    assert terms.parameters == 11 == len(terms.labels())
    assert np.linalg.matrix_rank(np.vstack([np.ones(12), terms.columns().reshape(11, -1)])) == 12
    assert all(Terms.of(DOMAIN, pair) <= terms for pair in combinations([("a", "b"), ("b", "c"), ("a", "c")], 2))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: parse_terms("a*", DOMAIN), "names an empty term"),
        (lambda: parse_terms("a*q", DOMAIN), "'q'"),
        (lambda: compare_models(drawn(1), NOISY, [("a", "b")], [("a", "c")]), "is not a part of"),
        (lambda: stratified_test(drawn(1), NOISY, "mantel"), "there is no test 'mantel'"),  # type: ignore[arg-type]
        (
            lambda: stratified_test(Counts(DOMAIN.subset(["a", "b"]), np.ones((2, 3), int)), NOISY),
            "at least one that makes strata",
        ),
    ],
)
def test_mistakes_are_named(act: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        act()


SMALL, LARGE = [("a", "b")], [("a", "b"), ("a", "c"), ("b", "c")]


def counts_from(seed, n, mechanism, table):
    law = mechanism.kernel(DOMAIN.names).expected(table).ravel()
    drawn = np.random.default_rng(seed).multinomial(n, law / law.sum())
    return Counts(DOMAIN, drawn.reshape(2, 3, 2))


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(1).dirichlet(np.full(12, 6.0)).reshape(2, 3, 2)


def beside(counts, mechanism, one, other):
    return fitted_model(counts, mechanism, one).compare(fitted_model(counts, mechanism, other))


def test_without_noise_it_is_the_deviance_difference_of_poisson_regression(table):
    counts = counts_from(2, 20_000, PLAIN, table)
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
    counts, matrix = counts_from(3, 20_000, NOISY, table), NOISY.kernel(DOMAIN.names).matrix()

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
    compared = [beside(counts_from([4, k], 20_000, NOISY, pair), NOISY, SMALL, LARGE) for k in range(runs)]
    p = np.array([c.ratio_p_value for c in compared], dtype=float)
    assert np.isfinite(p).mean() > 0.9
    # outside by chance once in 10^4
    low, high = binom.interval(1 - 1e-4, runs, 0.05)
    assert low <= np.sum(p <= 0.05) <= high


def test_near_empty_cells_the_ratio_has_no_p_value_and_says_so(table):
    empty = table.copy()
    empty[0, 0, 0] = 0
    compared = beside(
        counts_from(5, 20_000, NOISY, empty / empty.sum()), NOISY, [("a", "b"), ("c",)], [("a", "b", "c")]
    )
    assert compared.ratio_p_value is None and compared.summary()["likelihood_ratio_p_value"] is None
    assert any("the likelihood ratio has no p-value" in line for line in compared.warnings)
    assert "no p-value" in compared.headline()


def test_models_that_are_no_part_of_each_other_are_refused(table):
    with pytest.raises(InvalidInput, match="not a part of"):
        beside(counts_from(6, 2000, NOISY, table), NOISY, [("a", "c")], [("a", "b")])


def test_simultaneous_intervals_are_those_of_a_higher_confidence(table):
    counts = counts_from(7, 20_000, NOISY, table)
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
            counts_from([9, k], 20_000, NOISY, shares / shares.sum()), NOISY, terms, 0.8, simultaneous=True
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
    full = stratified_test(counts_from(10, 20_000, NOISY, table), NOISY, random_state=1)
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
    with pytest.raises(InvalidInput, match="have as much information on the tested associations as"):
        stratified_test(counts, mechanism, "same-odds-ratios")
    assert stratified_test(counts, mechanism, "common-association", random_state=1).p_value > 0
