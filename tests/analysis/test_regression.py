"""Regressions against statsmodels on true records, scipy on written-out likelihoods, slow sums over records; coverage."""

import json
from collections.abc import Callable
from math import inf, isinf
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.optimize import minimize
from scipy.stats import chi2
from statsmodels.miscmodels.ordinal_model import OrderedModel

from optrr import Attribute, Constraints, Counts, Domain, InvalidInput, SingularMarginal, count, design
from optrr.analysis import equations as solving
from optrr.analysis.equations import Equations, covariance, estimated, limits, solve, test
from optrr.analysis.regression.building import DistinctReports, read_reports
from optrr.analysis.regression.fitting import equations, model, regress
from optrr.analysis.regression.formulas import Formula, Predictors
from optrr.analysis.regression.likelihood import LikelihoodEquations
from optrr.analysis.regression.linear import LinearEquations
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities

DOMAIN = Domain(
    (
        Attribute("sex", ("f", "m")),
        Attribute("age", (20, 30, 45)),
        Attribute("edu", ("low", "mid", "high"), ordered=True),
        Attribute("income", ("lo", "hi")),
    )
)
FORMULAS = [
    ("income ~ sex + age + edu", None),
    ("income ~ sex * edu + I(age**2)", "linear"),
    ("age ~ edu + sex", None),
    ("edu ~ sex + age", None),
]


def people(n: int, seed: int = 0) -> np.ndarray:
    """Codes of true records whose attributes depend on each other."""
    rng = np.random.default_rng(seed)
    sex, age = rng.integers(0, 2, n), rng.integers(0, 3, n)
    edu = np.minimum(2, rng.integers(0, 2, n) + (age > 1) * rng.integers(0, 2, n))
    chance = 1 / (1 + np.exp(1 - 0.5 * sex - 0.3 * age - 0.4 * edu))
    return np.stack([sex, age, edu, (rng.uniform(size=n) < chance).astype(int)], axis=1)


def frame(codes: np.ndarray) -> pd.DataFrame:
    columns = {a.name: [a.categories[c] for c in codes[:, i]] for i, a in enumerate(DOMAIN)}
    return pd.DataFrame(columns)


def plain(codes: np.ndarray, formula: str, family: str) -> dict[str, float]:
    """What statsmodels fits to true records, by our names."""
    data = frame(codes)
    data["edu"] = pd.Categorical(data.edu, categories=DOMAIN["edu"].categories, ordered=True)
    if family == "ordered":
        x = pd.DataFrame({"sex[T.m]": codes[:, 0], "age": data.age.astype(float)})
        fit = OrderedModel(data.edu, x, distr="logit").fit(method="bfgs", gtol=1e-8, disp=0)
        cuts = fit.model.transform_threshold_params(fit.params.to_numpy())[1:3]
        return {"edu >= mid": -cuts[0], "edu >= high": -cuts[1], **fit.params[["sex[T.m]", "age"]].to_dict()}
    kind = sm.families.Binomial() if family == "logistic" else sm.families.Gaussian()
    params = smf.glm(formula, data.assign(income=codes[:, 3]), family=kind).fit(tol=1e-13, maxiter=200).params
    return {name.replace(" ** ", "**"): value for name, value in params.items()}


def compared(result: object, expected: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    ours = {name.replace(" ** ", "**"): value for name, value in result.params.items()}
    assert set(ours) == set(expected)
    return np.array([ours[k] for k in expected]), np.array(list(expected.values()))


@pytest.fixture(scope="module")
def unrandomized() -> MatrixMechanism:
    return MatrixMechanism(DOMAIN, tuple(from_probabilities(np.eye(a.size)) for a in DOMAIN))


@pytest.mark.parametrize(("formula", "family"), FORMULAS)
def test_true_records_give_the_plain_regression(
    unrandomized: MatrixMechanism, formula: str, family: str | None
) -> None:
    codes = people(5000)
    result = regress(codes, unrandomized, formula, family=family)
    close = 1e-4 if result.fit.family == "ordered" else 2e-6
    np.testing.assert_allclose(*compared(result, plain(codes, formula, result.fit.family)), rtol=close, atol=1e-7)


def test_errors_without_randomization_are_those_of_statsmodels(unrandomized: MatrixMechanism) -> None:
    codes = people(3000)
    data = frame(codes).assign(y=codes[:, 3])
    linear = regress(codes, unrandomized, "income ~ sex + age", family="linear")
    robust = smf.ols("y ~ sex + age", data).fit(cov_type="HC1")
    np.testing.assert_allclose(linear.covariance, robust.cov_params(), rtol=1e-9, atol=1e-14)
    public = data.rename(columns={"sex": "s", "age": "a"})
    only = MatrixMechanism(DOMAIN.subset(["income"]), (from_probabilities(np.eye(2)),))
    logistic = regress(public, only, "income ~ s + a", public=["s", "a"])
    fitted = smf.logit("y ~ s + a", public).fit(disp=0)
    np.testing.assert_allclose(logistic.covariance, fitted.cov_params(), rtol=1e-6, atol=1e-9)
    assert logistic.log_likelihood == pytest.approx(fitted.llf, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_randomized_outcome_gives_the_likeliest_parameters(seed: int) -> None:
    """Against scipy on the likelihood as it is written out, with public predictors of which one has many values."""
    rng = np.random.default_rng(seed)
    n, r = 1500, int(rng.integers(2, 5))
    # a negative zero is refused as a value of its own
    x, group = rng.normal(size=n).round(2) + 0.0, rng.integers(0, 3, n)
    beta, cuts = rng.normal(size=3) / 2, np.sort(rng.normal(size=r - 1))[::-1]
    eta = np.stack([x, group == 1, group == 2], axis=1) @ beta
    over = 1 / (1 + np.exp(-(cuts + eta[:, None])))
    y = (rng.uniform(size=(n, 1)) < over).sum(axis=1)
    # a matrix that is not symmetric, too
    p = rng.dirichlet(np.full(r, 2.0), size=r) * 0.4 + 0.6 * np.eye(r)
    domain = Domain((Attribute("y", tuple(f"y{k}" for k in range(r)), ordered=True),))
    mechanism = MatrixMechanism(domain, (from_probabilities(p),))
    reports = np.array([rng.choice(r, p=p[k]) for k in y])
    data = pd.DataFrame({"y": [f"y{k}" for k in reports], "x": x, "group": [f"g{k}" for k in group]})
    result = regress(data, mechanism, "y ~ x + group", public=["x", "group"])

    def chances(theta: np.ndarray) -> np.ndarray:
        level = theta[: r - 1] + (np.stack([x, group == 1, group == 2], axis=1) @ theta[r - 1 :])[:, None]
        survive = np.hstack([np.ones((n, 1)), 1 / (1 + np.exp(-level)), np.zeros((n, 1))])
        return np.maximum((survive[:, :-1] - survive[:, 1:]) @ p, 1e-300)

    def unlikely(theta: np.ndarray) -> float:
        return -float(np.log(chances(theta)[np.arange(n), reports]).sum())

    labels = [*[*result.params][: r - 1], "x", "group[T.g1]", "group[T.g2]"]
    optimum = minimize(unlikely, np.concatenate([cuts, beta]), method="BFGS")
    # BFGS stops at the rounding of differences; Newton's method with second differences ends there
    theta, step = optimum.x, 1e-3
    for _ in range(4):
        bends, slopes = differences(unlikely, theta, step)
        theta = theta - np.linalg.solve(bends, slopes)
    np.testing.assert_allclose([result.params[k] for k in labels], theta, atol=1e-6)
    assert result.log_likelihood == pytest.approx(-unlikely(theta), abs=1e-7)
    assert result.method == "maximum likelihood"


def differences(of: Callable[[np.ndarray], float], at: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Second and first derivatives, with errors of the fourth power of the step."""
    units = np.eye(at.size) * step

    def slope(where: np.ndarray) -> np.ndarray:
        near = np.array([of(where + u) - of(where - u) for u in units]) / (2 * step)
        far = np.array([of(where + 2 * u) - of(where - 2 * u) for u in units]) / (4 * step)
        return (4 * near - far) / 3

    return np.array([slope(at + u) - slope(at - u) for u in units]) / (2 * step), slope(at)


def read(
    formula: str, mechanism: object, codes: np.ndarray, family: str | None = None
) -> tuple[Equations, DistinctReports]:
    known = Formula.of(formula)
    reports = read_reports(codes, mechanism, known.names, ())
    return equations(model(known, reports, family, {}), reports), reports


@pytest.mark.parametrize(("formula", "family"), FORMULAS)
@pytest.mark.parametrize("method", ["kronecker", "auto"])
def test_scores_are_gradients_and_curvatures_their_derivatives(formula: str, family: str | None, method: str) -> None:
    mechanism = design(
        DOMAIN,
        [1.0, 2.0, 1.5, 3.0],
        method=method,
        **({} if method == "kronecker" else {"constraints": Constraints(preserve="pairs")}),
    ).mechanism
    made, _ = read(formula, mechanism, mechanism.randomize_codes(people(400), random_state=2), family)
    rng, step = np.random.default_rng(3), 1e-5
    curved = made.profile_curvature if isinstance(made, LikelihoodEquations) else made.curvature
    theta = made.start() + 0.1 * rng.normal(size=(1, made.parameters)) / np.sqrt(
        np.abs(np.diagonal(made.curvature(made.start())[0]))
    )
    for k, unit in enumerate(np.eye(made.parameters)):
        change = step * unit / np.sqrt(abs(made.curvature(theta)[0, k, k]))
        length = np.abs(change).sum()
        slope = (made.objective(theta + change) - made.objective(theta - change)) / (2 * length)
        np.testing.assert_allclose(slope[0], made.score(theta)[0, k], rtol=1e-5, atol=1e-8 / length)
        bend = (made.score(theta - change) - made.score(theta + change)) / (2 * length)
        np.testing.assert_allclose(bend[0], curved(theta)[0, k], rtol=1e-5, atol=1e-9 / length)


def slow_contributions(codes: np.ndarray, mechanism: object, columns: np.ndarray) -> np.ndarray:
    """Σ_u P⁻¹[v, u] z_c(u) z_d(u) for every record v and pair of columns (m categories each), by the whole dense inverse."""
    inverse = np.linalg.inv(mechanism.kernel(DOMAIN.names).matrix())
    cell = np.ravel_multi_index(tuple(codes.T), tuple(DOMAIN.sizes))
    products = columns[:, :, None] * columns[:, None, :]
    return np.einsum("nu,ucd->ncd", inverse[cell], products)


def test_linear_moments_are_those_of_the_whole_inverse_record_by_record() -> None:
    mechanism = design(DOMAIN, [1.0, 2.0, 1.5, 3.0], method="kronecker").mechanism
    codes = mechanism.randomize_codes(people(300), random_state=4)
    sex, age, edu, income = np.unravel_index(np.arange(36), tuple(DOMAIN.sizes))
    mid, high = edu == 1, edu == 2
    columns = np.stack(
        [np.ones(36), sex, mid, high, sex * mid, sex * high, np.array([20.0, 30.0, 45.0])[age], income], axis=1
    )
    g = slow_contributions(codes, mechanism, columns)
    formula = "income ~ sex * edu + age"
    made, reports = read(formula, mechanism, codes, "linear")
    assert model(Formula.of(formula), reports, "linear", {}).labels == [
        *("Intercept", "sex[T.m]", "edu[T.mid]", "edu[T.high]", "sex[T.m]:edu[T.mid]", "sex[T.m]:edu[T.high]", "age")
    ]
    np.testing.assert_allclose(made.moments[0], g.mean(axis=0), rtol=1e-9, atol=1e-9)
    theta = solve(made, made.start()).theta
    expected = np.linalg.solve(g.mean(axis=0)[:-1, :-1], g.mean(axis=0)[:-1, -1])
    np.testing.assert_allclose(theta[0], expected, rtol=1e-8)
    psi = g[:, :-1, -1] - g[:, :-1, :-1] @ expected
    np.testing.assert_allclose(made.spread(theta)[0], psi.T @ psi / len(codes), rtol=1e-8, atol=1e-9)
    along = np.array([[0.3, -1.0, 0.2, 0.0, 0.5, 1.0, 0.01]])
    own = np.einsum("c,ncd,d->n", along[0], g[:, :-1, :-1], along[0])
    value, error = made.curvature_along(along)
    np.testing.assert_allclose([value[0], error[0]], [own.mean(), own.std() / np.sqrt(len(codes))], rtol=1e-8)
    check_added_spread(made, g[:, :-1, :-1])


def check_added_spread(made: LinearEquations, changes: np.ndarray) -> None:
    """Against the sum over records, of which each has −dψ/dθ (p, p)."""
    rng, p = np.random.default_rng(5), made.parameters
    weights, noise = rng.normal(size=(1, 2, p)), np.cov(rng.normal(size=(p, 2 * p)))
    own = np.einsum("kc,ncd->nkd", weights[0], changes)
    expected = np.einsum("nkd,de,nle->kl", own, noise, own) / len(changes)
    np.testing.assert_allclose(made.added_spread(weights, noise[None])[0], expected, rtol=1e-8)


def test_without_noise_score_z_is_that_of_statsmodels() -> None:
    codes = people(300)
    result = regress(codes, design(DOMAIN, 30.0).mechanism, "income ~ sex + age")
    y, x = codes[:, 3], np.column_stack([np.ones(300), codes[:, 0], np.array([20.0, 30.0, 45.0])[codes[:, 1]]])
    for k, row in enumerate(result.coefficients):
        under = sm.GLM(y, np.delete(x, k, axis=1), sm.families.Binomial()).fit(tol=1e-12)
        statistic, p, _ = under.model.score_test(under.params, exog_extra=x[:, [k]])
        sign = np.sign(x[:, k] @ (y - under.mu))
        assert row.score_z == pytest.approx(sign * np.sqrt(statistic[0]), rel=2e-3)
        assert row.p_value == pytest.approx(p, rel=0.02)


def test_a_term_of_one_column_is_tested_as_its_coefficient() -> None:
    mechanism = design(DOMAIN, 3.0).mechanism
    result = regress(mechanism.randomize_codes(people(3000), random_state=6), mechanism, "income ~ sex + edu")
    assert [t.term for t in result.terms] == ["sex", "edu"]
    assert result.terms[0].p_value == pytest.approx(result.coefficients[1].p_value)
    assert result.terms[1].df == 2
    assert result.terms[1].p_value == pytest.approx(chi2.sf(result.terms[1].statistic, 2))


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "family"), FORMULAS)
def test_intervals_cover_and_tests_keep_their_level(formula: str, family: str | None) -> None:
    """400 data sets: 95 % coverage comes out below 90.8 % or above 98.3 % once in 6,000 times for each parameter."""
    mechanism = design(DOMAIN, [1.5, 2.0, 2.5, 1.0], constraints=Constraints(preserve="pairs")).mechanism
    codes = people(20_000)
    table = count(codes, DOMAIN, DOMAIN.names).proportions
    chances = mechanism.kernel(DOMAIN.names).expected(table)
    cells = np.argwhere(np.ones(chances.shape))
    numbers = np.random.default_rng(7).multinomial(5000, chances.ravel(), size=400).astype(float)
    known = Formula.of(formula)
    all_cells = DistinctReports(DOMAIN, cells, numbers, mechanism)
    fit = model(known, all_cells, family, {})
    exact = equations(fit, DistinctReports(DOMAIN, cells, chances.reshape(1, -1) * 5000, mechanism))
    truth = solve(exact, exact.start()).theta
    made = equations(fit, all_cells)
    for k in range(truth.shape[1]):
        statistic = test(made, (k,), truth[0, k : k + 1], np.repeat(truth, 400, axis=0)).statistic
        assert np.isfinite(statistic).all()
        assert 0.908 <= np.mean(statistic <= chi2.isf(0.05, 1)) <= 0.983


def weak_data_sets(runs: int) -> tuple[Equations, np.ndarray]:
    """Linear models of 1,000 records at ε = 1 with a public predictor that depends on a randomized one, and the truth."""
    domain = Domain((Attribute("a", tuple("wxyz")), Attribute("b", ("p", "q")), Attribute("y", (0, 1, 2))))
    chance = 1 / (1 + np.exp(1 - 0.6 * np.arange(4)[:, None] - 0.5 * np.arange(2)))
    of_outcome = np.stack([(1 - chance) ** 2, 2 * chance * (1 - chance), chance**2], axis=-1)
    table = np.array([[9.0, 1], [6, 2], [2, 6], [1, 9]])[:, :, None] / 36 * of_outcome
    mechanism = design(domain.subset(["a", "y"]), 1.0, method="kronecker").mechanism
    matrices = (mechanism.kernel([name]).matrix() for name in ("a", "y"))
    chances = np.einsum("abc,ai,ck->ibk", table, *matrices).reshape(1, -1)
    cells = np.argwhere(np.ones(tuple(domain.sizes)))
    fit = model(Formula.of("y ~ a + b"), DistinctReports(domain, cells, chances, mechanism), None, {})
    exact = equations(fit, DistinctReports(domain, cells, chances * 1000, mechanism))
    numbers = np.random.default_rng(2).multinomial(1000, chances[0], runs).astype(float)
    return equations(fit, DistinctReports(domain, cells, numbers, mechanism)), solve(exact, exact.start()).theta


@pytest.mark.slow
def test_noise_of_other_parameters_is_not_counted_twice() -> None:
    """20,000 data sets: 5 % comes out outside 4.4–5.6 % once in 10,000 times; a score test without E rejects 3.9 %."""
    made, truth = weak_data_sets(20_000)
    statistic = test(made, (4,), truth[0, 4:], np.repeat(truth, 20_000, axis=0)).statistic
    assert np.mean(np.isnan(statistic)) < 0.001
    assert 0.044 <= np.mean(statistic > chi2.isf(0.05, 1)) <= 0.056
    assert 0.0002 <= np.mean(statistic > chi2.isf(0.001, 1)) <= 0.002


@pytest.mark.slow
def test_many_data_sets_at_once_are_those_one_by_one() -> None:
    mechanism = design(DOMAIN, 2.0).mechanism
    codes = [mechanism.randomize_codes(people(5000, seed), random_state=seed) for seed in range(3)]
    tables = np.stack([count(c, DOMAIN, DOMAIN.names).table.ravel() for c in codes]).astype(float)
    cells = np.argwhere(np.ones(tuple(DOMAIN.sizes)))
    for formula, family in FORMULAS[:2]:
        fit = model(Formula.of(formula), DistinctReports(DOMAIN, cells, tables, mechanism), family, {})
        together = equations(fit, DistinctReports(DOMAIN, cells, tables, mechanism))
        theta = estimated(together).theta
        for k, each in enumerate(codes):
            one = regress(each, mechanism, formula, family=family)
            np.testing.assert_allclose(theta[k], one.estimates, rtol=1e-7)
            np.testing.assert_allclose(covariance(together, theta)[k], one.covariance, rtol=1e-6)


def test_public_and_randomized_predictors_together() -> None:
    """The public column's kernel is the identity, so that it may as well be one more attribute that is not changed."""
    hidden = DOMAIN.subset(["age", "income"])
    mechanism = design(hidden, [2.0, 1.5], method="kronecker").mechanism
    codes = people(4000)
    codes[:, [1, 3]] = mechanism.randomize_codes(codes[:, [1, 3]], random_state=8)
    matrices = {name: from_probabilities(mechanism.kernel([name]).matrix()) for name in hidden.names}
    other = MatrixMechanism(DOMAIN, tuple(matrices.get(a.name, from_probabilities(np.eye(a.size))) for a in DOMAIN))
    for formula, family in (
        ("income ~ sex * age", "linear"),
        ("income ~ sex + age", None),
        ("sex ~ age", None),
        ("age ~ sex + income", None),
    ):
        one = regress(frame(codes), mechanism, formula, family=family, public=["sex", "edu"])
        two = regress(codes, other, formula, family=family)
        np.testing.assert_allclose(one.estimates, two.estimates, rtol=1e-7)
        # the answers beside the cells of a law are of each group alone, or of all groups' law together
        np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-4)


def test_predictions_are_those_of_statsmodels(unrandomized: MatrixMechanism) -> None:
    codes = people(2000)
    data = frame(codes)
    new = frame(people(20, 9))
    data["y"] = codes[:, 3]
    logistic = regress(codes, unrandomized, "income ~ sex + age")
    np.testing.assert_allclose(
        logistic.predict(new), smf.logit("y ~ sex + age", data).fit(disp=0).predict(new), rtol=1e-5
    )
    linear = regress(codes, unrandomized, "income ~ sex * C(age)", family="linear")
    np.testing.assert_allclose(linear.predict(new), smf.ols("y ~ sex * C(age)", data).fit().predict(new), rtol=1e-8)
    ordered = regress(codes, unrandomized, "edu ~ age").predict(new)
    assert ordered.shape == (20, 3)
    np.testing.assert_allclose(ordered.sum(axis=1), 1)
    with pytest.raises(InvalidInput, match="record 1: unknown category") as refused:
        linear.predict(new.assign(age=21))
    assert "21" not in str(refused.value)
    with pytest.raises(InvalidInput, match="missing"):
        linear.predict(new[["sex"]])


def test_counts_of_other_categories_are_refused() -> None:
    """Else a coefficient would go by the name of another category."""
    table, turned = Counts(Domain.of({"y": 2, "x": 3}), [[10, 20, 30], [40, 9, 16]]), {"y": 2, "x": [2, 0, 1]}
    with pytest.raises(InvalidInput, match="'x' has other categories in the counts"):
        regress(table, design(Domain.of(turned), 2.0, constraints=Constraints(preserve="pairs")).mechanism, "y ~ x")


def test_scores_make_numbers_of_categories(unrandomized: MatrixMechanism) -> None:
    codes = people(2000)
    result = regress(codes, unrandomized, "edu ~ sex + income", scores={"edu": [0, 1, 5], "income": [10, 30]})
    data = pd.DataFrame(
        {"y": np.array([0, 1, 5])[codes[:, 2]], "sex": codes[:, 0], "income": np.array([10, 30])[codes[:, 3]]}
    )
    np.testing.assert_allclose(result.estimates, smf.ols("y ~ sex + income", data).fit().params)


def test_what_cannot_be_told_from_noise_has_no_limits_and_says_so() -> None:
    mechanism = design(DOMAIN, 0.9, method="kronecker").mechanism
    codes = mechanism.randomize_codes(people(2000), random_state=10)
    result = regress(codes, mechanism, "income ~ sex + age + edu", family="linear")
    open_ended = [c.parameter for c in result.coefficients if isinf(c.lower) or isinf(c.upper)]
    assert open_ended
    assert all(name in result.warnings[0] for name in open_ended)
    row = next(c for c in result.summary()["coefficients"] if c["parameter"] == open_ended[0])
    assert row["lower"] is None
    assert (-inf, inf) in [(c.lower, c.upper) for c in result.coefficients]


def test_what_the_mechanism_hides_is_refused_by_name_with_the_remedy() -> None:
    hidden = design({"x": 2, "y": 2, "z": 2}, 0.5).mechanism
    codes = np.random.default_rng(0).integers(0, 2, (100, 3))
    for family in ("linear", "logistic"):
        with pytest.raises(SingularMarginal, match=r"'x', 'y'.*preserve='pairs'"):
            regress(codes, hidden, "y ~ x", family=family)
    pairs = design({"x": 2, "y": 2, "z": 2, "w": 2}, 0.5, constraints=Constraints(preserve="pairs")).mechanism
    codes = np.random.default_rng(0).integers(0, 2, (3000, 4))
    assert regress(codes, pairs, "y ~ x", family="linear").n == 3000
    if not pairs.kernel(["x", "y", "z", "w"]).is_invertible:
        with pytest.raises(SingularMarginal, match="linear model"):
            regress(codes, pairs, "y ~ x + z + w")


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("income ~ sex +", {}, "cannot be read"),
        ("~ sex", {}, "one attribute before"),
        ("log(income) ~ sex", {}, "one attribute before"),
        ("income ~ wealth", {}, "is not an attribute of the design"),
        ("income ~ sex + income", {}, "both sides"),
        ("age ~ center(income)", {}, "other records|fails"),
        ("income ~ I(age - age.mean())", {}, "other records"),
        ("income ~ I(age / age.max())", {}, "other records"),
        ("income ~ I(age == age.max())", {}, "other records"),
        ("income ~ I(age - age.min()) + sex", {}, "other records"),
        ("income ~ I(age.clip(upper=age.quantile(0.5)))", {}, "other records"),
        ("income ~ I(age.duplicated())", {}, "other records"),
        ("income ~ I(age.cumsum())", {}, "other records"),
        ("income ~ I(age - age.iloc[1])", {}, "fails"),
        ("income ~ C(age)[T.30]", {}, "cannot be read"),
        ("income ~ log(age - 20)", {}, "finite"),
        ("income ~ I(1 / (age - 20))", {}, "finite"),
        ("income ~ 0 + sex", {}, "constant"),
        ("age ~ 0", {}, "nothing to fit"),
        ("income ~ sex", {"family": "probit"}, "``family``"),
        ("income ~ sex", {"scores": {"age": [1, 2, 3]}}, "not in the formula"),
        ("income ~ age", {"scores": {"age": [1, 2]}}, "finite score"),
        ("income ~ sex", {"public": ["sex"]}, "cannot be public"),
        ("income ~ age + I(2*age)", {}, "are collinear"),
        ("income ~ sex", {"confidence": 1.5}, "confidence"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_cannot_be_fitted_is_refused_with_the_reason(formula: str, options: dict, message: str) -> None:
    mechanism = design(DOMAIN, 4.0).mechanism
    with pytest.raises(InvalidInput, match=message) as refused:
        regress(people(500), mechanism, formula, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "formula", ["x**2", "C(x) * w", "np.log(x) + I(x > 2)", "I(x.clip(upper=3)) + x / w", "{x // 2} : c"]
)
def test_a_row_of_a_formula_is_what_it_is_alone_and_beside_any_others(formula: str) -> None:
    domain = Domain.of({"y": 2, "x": [1, 2, 5], "w": [0, 1], "c": ["a", "b", "c"]})
    read = Formula.of("y ~ " + formula)
    predictors = Predictors.of(read, domain.subset(read.predictors), {})
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, a.size, 20) for a in predictors.domain], axis=1)
    alone = np.concatenate([predictors.at(codes[[i]]) for i in range(len(codes))])
    np.testing.assert_allclose(predictors.at(codes), alone)


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("`W.Hnd` ~ C + x", "y ~ c + x"),
        ("W.Hnd ~ C(C) * `a b`", "y ~ C(c) * s"),
        ("W.Hnd ~ C(x.w) + np.log(x) : C", "y ~ C(w) + np.log(x) : c"),
        ("W.Hnd ~ `C` - 1 + I(`x.w` == 'x.w')", "y ~ c - 1 + I(w == 'x.w')"),
    ],
)
def test_names_with_dots_or_spaces_and_the_name_c_are_names_as_others(formula: str, plain: str) -> None:
    named = {"y": "W.Hnd", "x": "x", "w": "x.w", "c": "C", "s": "a b"}
    domain = Domain.of({"y": 2, "x": [1, 2, 5], "w": ["u", "x.w"], "c": ["a", "b", "c"], "s": ["k", "l"]})
    other = Domain(tuple(Attribute(named[a.name], a.categories) for a in domain))
    ours, theirs = Formula.of(formula), Formula.of(plain)
    assert set(ours.names) == {named[name] for name in theirs.names} and ours.outcome == "W.Hnd"
    read = Predictors.of(ours, other.subset(named[name] for name in theirs.predictors), {})
    expected = Predictors.of(theirs, domain.subset(theirs.predictors), {})
    codes = np.random.default_rng(5).integers(0, 2, (40, expected.domain.m))
    np.testing.assert_array_equal(read.at(codes), expected.at(codes))
    assert not any("optrr" in text for text in (*read.labels, *(term.name for term in read.terms)))
    assert [term.attributes for term in read.terms] == [tuple(named[n] for n in t.attributes) for t in expected.terms]


def test_any_text_is_read_as_a_formula_or_refused_in_one_line() -> None:
    pieces = [*"yx~+-*:()[]{}1.,|'`=", "**", "C(", "I("]
    rng = np.random.default_rng(4)
    for _ in range(200):
        text = "y~" + "".join(rng.choice(pieces, rng.integers(1, 6)))
        try:
            assert Formula.of(text).outcome == "y"
        except InvalidInput as refused:
            assert "\n" not in str(refused)


def test_categories_without_numbers_have_no_linear_model() -> None:
    domain = Domain.of({"y": ["a", "b", "c"], "x": 2})
    mechanism = design(domain, 3.0).mechanism
    codes = np.random.default_rng(0).integers(0, 2, (100, 2))
    with pytest.raises(InvalidInput, match="scores"):
        regress(codes, mechanism, "y ~ x", family="linear")
    with pytest.raises(InvalidInput, match="count at least 4"):
        regress(codes[:2], mechanism, "x ~ y")


def test_a_constant_alone_is_the_mean() -> None:
    mechanism = design(DOMAIN, 2.0).mechanism
    codes = mechanism.randomize_codes(people(2000), random_state=11)
    table = mechanism.kernel(["income"]).solve(count(codes, DOMAIN, "income").proportions)
    assert regress(codes, mechanism, "income ~ 1", family="linear").estimates[0] == pytest.approx(table[1])
    assert regress(codes, mechanism, "income ~ 1").estimates[0] == pytest.approx(np.log(table[1] / table[0]))


@pytest.mark.parametrize("seed", range(4))
def test_reports_that_are_all_alike_have_no_standard_error_and_no_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain.of({"k": [1, 2, 3, 4], "x": 2})
    mechanism = design(domain, list(rng.uniform(0.7, 3, 2)), method="kronecker").mechanism
    codes = np.stack([np.full(200, rng.integers(4)), np.arange(200) % 2], axis=1)
    for formula in ("k ~ 1", "k ~ x"):
        result = regress(codes, mechanism, formula)
        wanted = mechanism.kernel(["k"]).solve(count(codes, domain, "k").proportions) @ [1, 2, 3, 4]
        assert result.estimates[0] == pytest.approx(wanted)
        for row in result.summary()["coefficients"]:
            assert [row[k] for k in ("standard_error", "score_z", "p_value", "lower", "upper")] == [None] * 5
        assert all(term["p_value"] is None for term in result.summary()["terms"])
        (warning,) = result.warnings
        assert "are equal" in warning and "predictors" not in warning and str(result.summary())


def test_counts_serve_as_well_as_records() -> None:
    mechanism = design(DOMAIN, 2.0).mechanism
    codes = mechanism.randomize_codes(people(2000), random_state=12)
    counts = count(codes, DOMAIN, ["income", "sex", "age"])
    assert isinstance(counts, Counts)
    np.testing.assert_allclose(
        regress(counts, mechanism, "income ~ sex + age").estimates,
        regress(codes, mechanism, "income ~ sex + age").estimates,
    )


def test_the_summary_is_plain_json() -> None:
    mechanism = design(DOMAIN, 4.0).mechanism
    result = regress(people(2000), mechanism, "edu ~ sex + age")
    assert json.loads(json.dumps(result.summary()))["family"] == "ordered"
    assert repr(result) == "<Regression: edu ~ sex + age (ordered), 2000 records>"
    assert "<table>" in result._repr_html_()


@pytest.mark.parametrize("epsilon", [2.0, 12.0, 18.0, 20.0, 30.0])
def test_a_predictor_that_everybody_shares_has_no_test(epsilon: float) -> None:
    """Its tested score is 0 but for rounding, which was divided by rounding: p-values were 10⁻⁵⁵, .96, 1 or none."""
    made = design({"y": 4, "x": 2, "z": 3}, epsilon, method="kronecker")
    rng = np.random.default_rng(100)
    people = pd.DataFrame({"y": rng.choice(4, 300), "x": 0, "z": rng.choice(3, 300), "w": rng.uniform(1, 2, 300)})
    for formula in ("y ~ x", "y ~ x + z"):
        for sample in ({}, {"weights": "w"}):
            with pytest.raises(InvalidInput, match="too little information for this model"):
                regress(people, made.mechanism, formula, family="linear", **sample)
    # where people differ there is one
    people.loc[::2, "x"] = 1
    assert 0.01 < regress(people, made.mechanism, "y ~ x", family="linear").coefficients[1].p_value < 1


def test_an_interval_has_no_end_beyond_values_that_have_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they lie between two steps, of which the first is not rejected and the second is."""

    def stepped(_equations: object, _which: object, values: np.ndarray, start: np.ndarray) -> solving.Tested:
        value = float(values[0])
        signed = np.array([np.nan if 2.2 < value < 3.0 else -(value**3) / 16])
        return solving.Tested(signed**2, signed, start)

    monkeypatch.setattr(solving, "test", stepped)
    made = SimpleNamespace(reach=np.array([inf]), parameters=1, clear=lambda theta, where: np.ones(1, bool))
    low, high = limits(made, 0, np.zeros(1), 1.0, 1.96)
    assert low == pytest.approx(-((16 * 1.96) ** (1 / 3)), abs=1e-5)
    assert high == inf
