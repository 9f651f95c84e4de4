"""Likelihoods, nested models, offsets, splines, polynomials: statsmodels and patsy on true records, a slow search on noise."""

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
from scipy.interpolate import BSpline
from scipy.optimize import minimize
from scipy.special import logsumexp
from statsmodels.miscmodels.ordinal_model import OrderedModel

from optrr import Attribute, Constraints, Domain, InvalidInput, count, design
from optrr.analysis import fit_loglinear, regress
from optrr.analysis.estimated import regress_estimated
from optrr.core.estimation.table import counted_table
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities

NUMBERS = (0, 1, 2, 4, 5, 7)
DOMAIN = Domain(
    (
        Attribute("x", NUMBERS),
        Attribute("z", ("a", "b", "c")),
        Attribute("w", (1, 2, 3, 5)),
        Attribute("y", ("no", "yes")),
        Attribute("kind", ("p", "q", "r")),
    )
)
N = 3000
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, a.size, N) for a in DOMAIN], axis=1)
X, W = np.array(NUMBERS, float)[CODES[:, 0]], np.array([1.0, 2, 3, 5])[CODES[:, 2]]
CODES[:, 3] = RNG.uniform(size=N) < 1 / (1 + np.exp(1 - 0.3 * X - 0.4 * (CODES[:, 1] == 1)))
Y = CODES[:, 3]
Z = np.column_stack([np.ones(N), CODES[:, 1] == 1, CODES[:, 1] == 2]).astype(float)
CLEAR = MatrixMechanism(DOMAIN, tuple(from_probabilities(np.eye(a.size)) for a in DOMAIN))


@pytest.mark.parametrize("outcome", ["y", "kind", "w"])
def test_true_records_have_the_log_likelihood_and_ratio_of_statsmodels(outcome: str) -> None:
    both = np.column_stack([Z, X])

    def likely(columns: np.ndarray) -> float:
        if outcome == "w":
            fit = OrderedModel(W, columns[:, 1:], distr="logit").fit(method="bfgs", gtol=1e-8, disp=0)
        elif outcome == "kind":
            fit = sm.MNLogit(CODES[:, 4], columns).fit(method="newton", tol=1e-14, disp=0)
        else:
            fit = sm.Logit(Y, columns).fit(tol=1e-12, disp=0)
        return float(fit.llf)

    family = {"family": "logistic"} if outcome == "w" else {}
    larger, smaller = (regress(CODES, CLEAR, f"{outcome} ~ {right}", **family) for right in ("z + x", "z"))
    most, least = likely(both), likely(Z)
    assert [larger.log_likelihood, smaller.log_likelihood] == pytest.approx([most, least], abs=1e-4)
    p = len(larger.params)
    assert [larger.aic, larger.bic] == pytest.approx([2 * p - 2 * most, np.log(N) * p - 2 * most], abs=1e-3)
    compared = larger.compare(smaller)
    assert compared.ratio == pytest.approx(2 * (most - least), abs=2e-4)
    added = p - len(smaller.params)
    assert compared.score.df == added and compared.aic_difference == pytest.approx(larger.aic - smaller.aic, abs=1e-3)
    term = next(t for t in larger.terms if t.term == "x")
    assert [compared.score.statistic, compared.score.p_value] == pytest.approx([term.statistic, term.p_value])
    assert smaller.compare(larger).ratio == pytest.approx(compared.ratio)
    assert f"{outcome} ~ z against {outcome} ~ z + x: score" in compared.headline()
    assert compared.summary()["likelihood_ratio"] == compared.ratio


def test_the_ratio_through_noise_is_that_of_a_slow_search() -> None:
    """Of the law of both predictors and the outcome's chances, all as they are written out."""
    few = DOMAIN.subset(["z", "w", "y"])
    mechanism = design(few, [1.5, 2.0, 2.0], constraints=Constraints(preserve="pairs")).mechanism
    reports = mechanism.randomize_codes(CODES[:, [1, 2, 3]], random_state=1)
    seen, channel = count(reports, few, few.names).table.ravel(), mechanism.kernel(few.names).matrix()
    rows = np.array([[1, a == 1, a == 2, v] for a in range(3) for v in (1, 2, 3, 5)], float)

    def unlikely(at: np.ndarray, columns: list[int]) -> float:
        level = rows[:, columns] @ at[: len(columns)]
        law = np.exp(at[len(columns) :] - logsumexp(at[len(columns) :]))
        table = np.stack([law / (1 + np.exp(level)), law / (1 + np.exp(-level))], axis=1)
        return -float(seen @ np.log(table.ravel() @ channel))

    def most(columns: list[int]) -> float:
        start = np.zeros(len(columns) + 12)
        return -float(minimize(unlikely, start, (columns,), method="BFGS", options={"gtol": 1e-3}).fun)

    larger, smaller = (regress(reports, mechanism, f"y ~ {right}") for right in ("z + w", "w"))
    compared = larger.compare(smaller)
    # both have an answer more in each cell of the law, which shifts the maximum by a share of one
    assert compared.ratio == pytest.approx(2 * (most([0, 1, 2, 3]) - most([0, 3])), abs=0.02)
    assert compared.ratio == pytest.approx(compared.score.statistic, rel=0.2)


def test_models_without_a_likelihood_are_compared_by_their_score_alone() -> None:
    linear = regress(CODES, CLEAR, "w ~ x + z").compare(regress(CODES, CLEAR, "w ~ x"))
    assert linear.ratio is None and linear.bic_difference is None and "likelihood" not in linear.headline()
    data = pd.DataFrame({a.name: [a.categories[c] for c in CODES[:, i]] for i, a in enumerate(DOMAIN)})
    data["weight"] = RNG.uniform(1, 3, N).round(3)
    weighted = [regress(data, CLEAR, f"y ~ x{more}", weights="weight") for more in (" + z", "")]
    assert weighted[0].aic is None and weighted[0].compare(weighted[1]).ratio is None
    term = weighted[0].terms[-1]
    assert weighted[0].compare(weighted[1]).score.p_value == pytest.approx(term.p_value)


def test_models_that_are_not_nested_are_refused() -> None:
    fit = regress(CODES, CLEAR, "y ~ x")
    for other in ("y ~ z", "kind ~ 1", "y ~ x"):
        with pytest.raises(InvalidInput, match="are not nested"):
            fit.compare(regress(CODES, CLEAR, other))
    with pytest.raises(InvalidInput, match="are not nested"):
        fit.compare(regress(CODES[1:], CLEAR, "y ~ 1"))
    table = count(CODES, DOMAIN, ["z", "w"])
    model = fit_loglinear(table, CLEAR, [("z", "w")])
    assert model.aic == pytest.approx(2 * model.terms.parameters - 2 * model.log_likelihood)
    assert model.compare("z + w").ratio == pytest.approx(
        2 * (model.log_likelihood - model.compare("z + w").smaller.log_likelihood)
    )
    with pytest.raises(InvalidInput, match="other records"):
        model.compare(fit_loglinear(count(CODES[1:], DOMAIN, ["z", "w"]), CLEAR, []))


def test_offsets_are_those_of_statsmodels() -> None:
    binary = sm.GLM(Y, Z, family=sm.families.Binomial(), offset=X).fit()
    ours = regress(CODES, CLEAR, "y ~ z + offset(x)")
    np.testing.assert_allclose(ours.estimates, binary.params, atol=1e-7)
    assert ours.log_likelihood == pytest.approx(binary.llf, abs=1e-7)
    assert list(ours.params) == ["Intercept", "z[T.b]", "z[T.c]"] and [t.term for t in ours.terms] == ["z"]
    linear, least = regress(CODES, CLEAR, "w ~ z + offset(x)"), sm.OLS(W - X, Z).fit()
    np.testing.assert_allclose(linear.estimates, least.params, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(np.diag(linear.covariance)), least.HC1_se, rtol=1e-9)
    data = pd.DataFrame({"z": ["a", "b"], "x": [7, 4]})
    np.testing.assert_allclose(linear.predict(data), [least.params[0] + 7, least.params[:2].sum() + 4])
    level = np.array([binary.params[0] + 7, binary.params[:2].sum() + 4])
    np.testing.assert_allclose(ours.predict(data), 1 / (1 + np.exp(-level)))


@pytest.mark.parametrize("formula", ["y ~ z + offset(x)", "w ~ z + offset(x)"])
def test_an_offset_changes_nothing_but_its_own_coefficient(formula: str) -> None:
    """Through noise: an offset c·x of scores c is a change of x's coefficient by c, and of no other number."""
    mechanism = design(DOMAIN, 3.0, constraints=Constraints(preserve="pairs")).mechanism
    reports = mechanism.randomize_codes(CODES, random_state=2)
    data = pd.DataFrame({a.name: [a.categories[c] for c in reports[:, i]] for i, a in enumerate(DOMAIN)})
    outcome = formula[0]
    free = regress(data, mechanism, f"{outcome} ~ z + x")
    held = regress(data, mechanism, f"{outcome} ~ z + x + offset(x)")
    moved = np.array([0, 0, 0, 1.0])
    np.testing.assert_allclose(held.estimates, free.estimates - moved, atol=1e-6)
    np.testing.assert_allclose(held.covariance, free.covariance, rtol=1e-5, atol=1e-12)
    # and of a table that is known by its estimate, as those of answers to questions are
    table = counted_table(count(reports, DOMAIN, ["x", "z", outcome]), mechanism)
    free, held = (regress_estimated(table, f"{outcome} ~ z + x{more}") for more in ("", " + offset(x)"))
    np.testing.assert_allclose(held.estimates, free.estimates - moved, atol=1e-5)


def test_splines_are_those_of_patsy_and_scipy() -> None:
    ours = regress(CODES, CLEAR, "y ~ bs(x, df=5) + z")
    knots = np.quantile(NUMBERS, [1 / 3, 2 / 3])
    matrix = patsy.dmatrix("bs(x, knots=k, lower_bound=0, upper_bound=7)", {"x": X, "k": knots})
    fitted = sm.Logit(Y, np.column_stack([matrix, Z[:, 1:]])).fit(disp=0, maxiter=200, tol=1e-12)
    np.testing.assert_allclose(ours.estimates, fitted.params, atol=1e-5)
    whole = np.concatenate([[0] * 4, knots, [7] * 4])
    made = ours.fit.predictors.at(np.stack([np.arange(6), np.zeros(6, int)], axis=1)[:, [0, 1]])
    for k in range(5):
        basis = BSpline.basis_element(whole[k + 1 : k + 6], extrapolate=False)(np.array(NUMBERS, float))
        inside = ~np.isnan(basis)
        column = list(ours.fit.predictors.labels).index(f"bs(x, df=5)[{k + 1}]")
        np.testing.assert_allclose(made[inside, column][:-1], basis[inside][:-1], atol=1e-12)


def test_polynomials_span_the_powers_and_are_orthogonal_over_the_categories() -> None:
    ours = regress(CODES, CLEAR, "w ~ poly(x, 3)")
    powers = sm.OLS(W, np.vander(X, 4)).fit()
    data = pd.DataFrame({"x": NUMBERS})
    np.testing.assert_allclose(ours.predict(data), powers.predict(np.vander(np.array(NUMBERS, float), 4)), atol=1e-9)
    columns = ours.fit.predictors.at(np.arange(6)[:, None])
    np.testing.assert_allclose(columns[:, 1:].T @ columns[:, 1:], np.eye(3), atol=1e-12)
    # knots and polynomials are the categories', whatever other attributes and records there are
    beside = regress(CODES[:500], CLEAR, "w ~ poly(x, 3) + y").fit.predictors
    np.testing.assert_allclose(beside.at(np.stack([np.arange(6), np.zeros(6, int)], axis=1))[:, 1:4], columns[:, 1:])


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ x + offset(z)", "offset takes an attribute whose categories are numbers"),
        ("y ~ bs(z, df=4)", "bs takes an attribute whose categories are numbers"),
        ("y ~ poly(np.log(x + 1), 2)", "poly takes an attribute whose categories are numbers, as it is"),
        ("y ~ z:offset(x)", "an offset must be a separate term"),
        ("y ~ I(2 * offset(x))", "an offset must be a separate term"),
        ("kind ~ z + offset(x)", "an offset, and 'kind' has unordered categories"),
        ("y ~ poly(x, 6)", "are collinear"),
        ("y ~ bs(x, df=2)", "`df` must be greater than 3"),
        ("y ~ z + scale(x)", "depends on other records"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(formula: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        regress(CODES, CLEAR, formula)
    assert "\n" not in str(refused.value)
