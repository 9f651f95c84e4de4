"""Shares in sub-populations, contrasts, quantiles and answered tables: pandas at large ε, coverage elsewhere, and commands."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep

import optrr
from optrr import Attribute, Bins, Domain, InvalidInput
from optrr.allocation.sampled_tables import SampledTables
from optrr.analysis.complete_cases import complete_table
from optrr.analysis.estimated import test_estimated as tested
from optrr.analysis.measures import quantities
from optrr.analysis.measures.quantile import quantiles
from optrr.analysis.measures.shares import WeightedShare, contrast
from optrr.core.domain.domain import binned
from optrr.core.estimation.table import counted_table
from optrr.core.inference.result import TestResult, family
from optrr.core.records.counts import Counts

EDGES = (18.0, 30.0, 40.0, 50.0, 65.0)
DOMAIN = Domain(
    (
        Attribute("sex", ("F", "M")),
        binned("age", Bins(EDGES)),
        Attribute("income", ("low", ">=50K", "top", None)),
        Attribute("school", ("none", "some", "much"), ordered=True, missing=("NA",)),
    )
)
AGES = DOMAIN["age"].texts
PLAIN = 30.0


def people(n: int, seed: int) -> pd.DataFrame:
    """Records whose answers depend on each other, a tenth to a third of them without an income or a school."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(int(np.prod(DOMAIN.sizes)), 0.7))
    codes = np.unravel_index(rng.choice(law.size, n, p=law), tuple(DOMAIN.sizes))
    return pd.DataFrame({a.name: [a.texts[c] for c in column] for a, column in zip(DOMAIN, codes, strict=True)})


def reported(frame: pd.DataFrame, epsilon: float = PLAIN) -> Any:
    """Reports of these records, which at ε_i = 30 are as good as true."""
    design = optrr.design(DOMAIN, epsilon)
    return design.reports(design.randomize(frame, random_state=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_without_noise_shares_tables_and_measures_are_those_of_pandas(seed: int) -> None:
    frame = people(3000, seed)
    reports = reported(frame)
    young = frame[(frame.sex == "F") & frame.age.isin(AGES[:2])]
    where = {"sex": "F", "age": list(AGES[:2])}
    share = reports.proportion({"income": ">=50K"}, where=where)
    assert share.rows[0].estimate == pytest.approx((young.income == ">=50K").mean(), abs=1e-6)
    assert share.where == {"sex": ["F"], "age": list(AGES[:2])} and share.n == 3000
    two = reports.proportion({"income": [">=50K", "top"]}, where=where, missing="complete-cases")
    told = young.income.dropna()
    assert two.rows[0].estimate == pytest.approx(told.isin([">=50K", "top"]).mean(), abs=1e-6)
    assert two.where["income"] == ["low", ">=50K", "top"]
    table = reports.table("school", "income", where=where, missing="complete-cases")
    both = young.dropna(subset=["income", "school"])
    expected = pd.crosstab(both.school, both.income, normalize=True)
    expected = expected.reindex(index=["none", "some", "much"], columns=["low", ">=50K", "top"], fill_value=0)
    np.testing.assert_allclose(table.estimate, expected, atol=1e-6)
    assert table.share == pytest.approx(len(both) / len(frame), abs=1e-6)
    rows = reports.measure("row-proportions", "school", "income", where=where, missing="complete-cases")
    within = (expected.T / expected.sum(axis=1)).T.to_numpy().ravel()
    np.testing.assert_allclose([row.estimate for row in rows.rows], within, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_without_noise_contrasts_are_those_of_pandas(seed: int) -> None:
    frame = people(3000, seed)
    reports = reported(frame)
    rng = np.random.default_rng(seed)
    groups = list(itertools.product("FM", (AGES[:2], AGES[2:])))
    weights = rng.normal(size=len(groups) + 2)
    shares, expected = [], 0.0
    for weight, (sex, ages) in zip(weights, groups, strict=False):
        shares.append(WeightedShare({"income": ">=50K"}, {"sex": sex, "age": ages}, weight))
        expected += weight * (frame[(frame.sex == sex) & frame.age.isin(ages)].income == ">=50K").mean()
    # a second share of a group that is there, and one of everybody
    shares.append(WeightedShare({"school": "much"}, {"sex": "F", "age": AGES[:2]}, weights[-2]))
    expected += weights[-2] * (frame[(frame.sex == "F") & frame.age.isin(AGES[:2])].school == "much").mean()
    shares.append(WeightedShare({"sex": "M", "school": ["some", "much"]}, weight=weights[-1]))
    expected += weights[-1] * ((frame.sex == "M") & frame.school.isin(["some", "much"])).mean()
    (row,) = reports.contrast(*shares).rows
    # numerator and denominator are each without bias, so that their ratio differs from the plain one by a part of 1/n
    assert row.estimate == pytest.approx(expected, abs=5 / 3000) and row.lower < expected < row.upper
    assert row.upper - row.lower > 0.02


@pytest.mark.slow
def test_a_difference_of_two_groups_is_the_risk_difference() -> None:
    frame = people(4000, 5)
    reports = reported(frame, 2.0)
    terms = [{"of": {"income": "top"}, "where": {"sex": sex}, "weight": w} for sex, w in (("M", 1), ("F", -1))]
    (row,) = reports.contrast(*terms).rows
    known = next(r for r in reports.measure("risk-difference", "sex", "income").rows if r.outcome == "top")
    for of in ("estimate", "standard_error", "lower", "upper"):
        assert getattr(row, of) == pytest.approx(getattr(known, of), abs=1e-8)
    one = reports.contrast({"of": {"income": "low"}}, {"of": {"income": "top"}, "weight": 1})
    both = reports.proportion({"income": ["low", "top"]})
    assert one.rows[0].lower == pytest.approx(both.rows[0].lower, abs=1e-8)
    cell = reports.table("income", where={"sex": "F"}).to_pandas().set_index("income")
    share = reports.proportion({"income": "top"}, where={"sex": "F"}).rows[0]
    assert (share.lower, share.upper) == pytest.approx((cell.lower["top"], cell.upper["top"]), abs=1e-6)


def test_without_noise_the_limits_of_a_difference_are_those_of_statsmodels() -> None:
    domain = Domain.of({"group": ["a", "b"], "outcome": ["x", "y"]})
    counts = optrr.Counts(domain, np.array([[30, 70], [45, 55]]))
    mechanism = optrr.design(domain, PLAIN).mechanism
    terms = [WeightedShare({"outcome": "x"}, {"group": g}, w) for g, w in (("a", 1.0), ("b", -1.0))]
    (row,) = contrast(counted_table(counts, mechanism), terms).rows
    low, high = confint_proportions_2indep(30, 100, 45, 100, method="score", compare="diff", correction=False)
    # the group's sizes are random here, which moves limits by a part of 1/n
    assert (row.lower, row.upper) == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_derivatives_of_sums_of_means_are_those_of_differences(count: int) -> None:
    rng = np.random.default_rng(count)
    odds = quantities.sum_of_means(
        [(rng.normal(size=9), np.isin(np.arange(9), rng.choice(9, 4, False)) * 1.0) for _ in range(count)]
    )
    x, step = rng.uniform(0.5, 1.5, 2 * count), 1e-5
    for part in (odds.over, odds.under):
        there = part.at(x)
        for k, e in enumerate(np.eye(x.size) * step):
            assert (part.at(x + e).value - part.at(x - e).value) / (2 * step) == pytest.approx(
                there.gradient[k], abs=1e-6
            )
            bend = (part.at(x + e).gradient - part.at(x - e).gradient) / (2 * step)
            np.testing.assert_allclose(bend, there.hessian[k], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_quantiles_are_those_of_the_plain_distribution(seed: int) -> None:
    frame = people(2000, seed)
    reports = reported(frame)
    young = frame[(frame.sex == "F") & frame.school.isin(["none", "some"])]
    wanted = [0.1, 0.5, 0.77]
    result = reports.quantiles("age", wanted, where={"sex": "F", "school": ["none", "some"]})
    shares = young.age.value_counts(normalize=True).reindex(AGES, fill_value=0).to_numpy()
    expected = np.interp(wanted, np.append(0, np.cumsum(shares)), EDGES)
    np.testing.assert_allclose([row.estimate for row in result.rows], expected, atol=1e-3)
    told = frame.school.dropna()
    steps = reports.quantiles("school", wanted)
    ranks = told.map({"none": 0, "some": 1, "much": 2}).quantile(wanted, interpolation="lower")
    position = [float(r.estimate) for r in steps.rows if not np.isnan(r.estimate)]
    assert position == [v for v, r in zip(ranks, steps.rows, strict=True) if not np.isnan(r.estimate)]
    assert steps.where == {"school": ["none", "some", "much"]}


def test_without_noise_the_limits_of_a_quantile_invert_the_score_test() -> None:
    domain = Domain((Attribute("x", tuple(range(12))), Attribute("g", ("a", "b"))))
    table = np.random.default_rng(1).integers(5, 40, (12, 2))
    result = quantiles(
        counted_table(optrr.Counts(domain, table), optrr.design(domain, PLAIN).mechanism), [0.25, 0.5], where={}
    )
    below, n = np.cumsum(table.sum(axis=1)), table.sum()
    for q, row in zip([0.25, 0.5], result.rows, strict=True):
        error = np.sqrt(n * q * (1 - q))
        z = (below - n * q) / error
        lower = np.flatnonzero(z >= -stats.norm.isf(0.025))[0]
        upper = np.flatnonzero(np.append(-np.inf, z[:-1]) <= stats.norm.isf(0.025))[-1]
        # exact where no limit is decided by the law's skewness
        assert abs(row.lower - lower) <= 1 and abs(row.upper - upper) <= 1
        assert row.lower <= np.flatnonzero(below >= n * q)[0] <= row.upper


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: r.proportion({"income": "much"}), "has no category"),
        (lambda r: r.proportion({"wealth": "much"}), "there is no attribute"),
        (lambda r: r.proportion({"income": "low"}, where={"sex": []}), "keeps no category of 'sex'"),
        (lambda r: r.proportion({"income": list(("low", ">=50K", "top", None))}), "same for all answers"),
        (
            lambda r: r.proportion({"income": ["low", ">=50K", "top", None]}, where={"sex": "F"}),
            "among sex 'F' is the same for all",
        ),
        (lambda r: r.tests([("sex", "income"), ("income", "sex")]), "is the same hypothesis as test 1"),
        (lambda r: r.table("sex", missing="complete-cases"), "declares a missing value"),
        (lambda r: r.table("income", missing="complete-cases", method="mle"), "leave one of them out"),
        (lambda r: r.table("income", "sex", where={"sex": "F"}), "leave 'sex' out of the table"),
        (lambda r: r.measure("entropy", "income", missing="complete-cases"), "``missing``: not accepted by entropy"),
        (lambda r: r.contrast(), "no share names"),
        (lambda r: r.contrast({"if": 1}), "give an object with 'of'"),
        (lambda r: r.contrast({"of": {"sex": "F"}, "weight": "x"}), "give a finite number"),
        (lambda r: r.quantiles("sex"), "have no order"),
        (lambda r: r.quantiles("age", [0.5, 1.0]), "between 0 and 1"),
        (lambda r: r.tables(), "``tables``: none is named"),
    ],
)
def test_mistakes_are_named(call: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        call(reported(people(200, 1), 2.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_ignorable_answers_are_standardised(seed: int) -> None:
    frame = people(4000, seed)
    reports = reported(frame)
    table = reports.table("sex", "age", "income", missing=optrr.MissingAtRandom("income"))
    told = frame.dropna(subset=["income"])
    within = pd.crosstab([told.sex, told.age], told.income, normalize="index")[["low", ">=50K", "top"]]
    alike = frame.groupby(["sex", "age"]).size() / len(frame)
    expected = within.mul(alike, axis=0).reindex(pd.MultiIndex.from_product([["F", "M"], AGES]))
    np.testing.assert_allclose(table.estimate.reshape(8, 3), expected, atol=1e-6)
    assert "does not depend on the answer" in table.summary()["note"] and table.estimate.sum() == pytest.approx(1)
    alone = reports.table("income", missing=optrr.MissingAtRandom("income"))
    np.testing.assert_allclose(alone.estimate, reports.table("income", missing="complete-cases").estimate, atol=1e-9)
    # an odds ratio is that of everybody whichever of the two has missing answers, and shares within groups if outcomes have
    ratios = [
        reports.measure("odds-ratio", *names, missing=optrr.MissingAtRandom("income"))
        for names in (("sex", "income"), ("income", "sex"))
    ]
    assert ratios[0].rows[0].estimate == pytest.approx(ratios[1].rows[0].estimate, rel=1e-6)
    assert "the same 'sex'" in ratios[1].note
    for wrong, said in (
        (
            lambda: reports.measure("row-proportions", "income", "sex", missing=optrr.MissingAtRandom("income")),
            "cannot be estimated for all people",
        ),
        (
            lambda: reports.measure("row-proportions", "sex", "income", missing=optrr.MissingAtRandom("age")),
            "is not among",
        ),
        (
            lambda: reports.measure("row-proportions", "sex", "age", missing=optrr.MissingAtRandom("age")),
            "no missing value",
        ),
        (lambda: reports.table("sex", "age", missing=optrr.MissingAtRandom("age")), "no missing value"),
        (
            lambda: reports.table("sex", missing=optrr.MissingAtRandom("income")),
            "'income' is not in the table of 'sex'",
        ),
        (
            lambda: reports.table("income", missing=optrr.MissingAtRandom("income"), where={"income": ["low", "top"]}),
            "out of ``where`` or of",
        ),
    ):
        with pytest.raises(InvalidInput, match=said):
            wrong()


def test_adjusted_p_values_are_those_of_statsmodels() -> None:
    rng = np.random.default_rng(1)
    names = {"holm": "holm", "bh": "fdr_bh", "bonferroni": "bonferroni"}
    for p in (
        rng.uniform(size=1),
        rng.uniform(size=7) ** 3,
        np.array([0.2, 0.01, 0.01, 1.0]),
        rng.uniform(size=200) ** 4,
    ):
        results = [TestResult("independence", 1.0, 1, value, 100) for value in p.tolist()]
        for ours, theirs in names.items():
            made = family([("a", "b")] * p.size, results, ours)  # type: ignore[arg-type]  # a literal
            np.testing.assert_allclose(made.adjusted, multipletests(p, method=theirs)[1], atol=1e-12)


def test_families_of_tests_and_of_tables() -> None:
    reports = reported(people(3000, 1), 2.0)
    pairs = [("sex", "income"), ("age", "income"), ("sex", "school")]
    drawn = optrr.Bootstrap(random_state=1)
    tested = reports.tests(pairs, adjust="bh", calibration=drawn)
    plain = [reports.test(*pair, calibration=drawn).p_value for pair in pairs]
    assert [each["p_value"] for each in tested.summary()["tests"]] == plain
    np.testing.assert_allclose(tested.adjusted, multipletests(plain, method="fdr_bh")[1])
    assert list(tested.to_pandas().adjusted_p_value) == list(tested.adjusted) and "Hochberg" in tested.headline()
    assert tested.shown().rows[0][3] == tested.tests[0].df and isinstance(tested.shown().rows[0][3], int)
    tables = reports.tables(*pairs, confidence=0.9)
    for pair, table in zip(pairs, tables, strict=True):
        assert table.simultaneous and table.confidence == pytest.approx(1 - 0.1 / 3)
        alone = reports.table(*pair, confidence=1 - 0.1 / 3 / table.estimate.size)
        np.testing.assert_allclose(table.lower, alone.lower, atol=1e-9)
    with pytest.raises(InvalidInput, match="no adjustment"):
        reports.tests(pairs, adjust="hommel")
    with pytest.raises(InvalidInput, match="no test"):
        reports.tests([])


@pytest.mark.slow
def test_answers_to_questions_have_the_same() -> None:
    frame = people(20000, 1)[["sex", "income", "age"]]
    domain = DOMAIN.subset(["sex", "income", "age"])
    asking = SampledTables(domain, (("sex", "income"), domain.names), np.array([0.4, 0.6]), 4.0)
    reports = asking.reports(asking.randomize(frame, random_state=5))
    told = frame[frame.sex == "F"].income.dropna()
    share = reports.proportion({"income": "top"}, where={"sex": "F"}, missing="complete-cases").rows[0]
    assert abs(share.estimate - (told == "top").mean()) < 4.5 * share.standard_error
    within = reports.measure("row-proportions", "sex", "income", missing="complete-cases").rows
    assert share.estimate == pytest.approx(next(r for r in within if (r.group, r.outcome) == ("F", "top")).estimate)
    table = reports.table("sex", "income", where={"age": [AGES[0], AGES[3]]}, missing=optrr.MissingAtRandom("income"))
    some = frame[frame.age.isin([AGES[0], AGES[3]])]
    cell = (some.sex == "F").mean() * (some[some.sex == "F"].income.dropna() == "top").mean()
    assert abs(table.estimate[0, 2] - cell) < 4.5 * table.standard_error[0, 2]
    median = reports.quantiles("age", where={"sex": "F"}).rows[0]
    assert median.lower < frame[frame.sex == "F"].age.map(dict(zip(AGES, EDGES[1:], strict=True))).median()
    assert reports.tests([("sex", "income"), ("sex", "age")]).names == (("sex", "income"), ("sex", "age"))


def test_quantiles_are_not_restricted_by_their_own_attribute() -> None:
    reports = reported(people(500, 1))
    with pytest.raises(InvalidInput, match="of all its categories; restrict by other attributes"):
        reports.quantiles("age", where={"age": list(AGES[:2])})


INCOMPLETE = Domain(
    (Attribute("a", (0, 1, None)), Attribute("b", ("x", "y", "z"), missing=("NA",)), Attribute("c", (0, 1)))
)


@pytest.fixture(scope="module")
def incomplete() -> tuple[pd.DataFrame, Any]:
    """Records whose missing values depend on the others, and their reports, as good as true."""
    rng, n = np.random.default_rng(1), 3000
    a = (rng.random(n) < 0.4).astype(int)
    b = np.where(rng.random(n) < 0.3 + 0.2 * a, 0, 1 + (rng.random(n) < 0.5))
    c = (rng.random(n) < 0.3 + 0.1 * a + 0.1 * (b == 2)).astype(int)
    frame = pd.DataFrame({"a": pd.array(a, dtype="Int64"), "b": np.array(list("xyz"), dtype=object)[b], "c": c})
    frame.loc[rng.random(n) < 0.15 + 0.1 * c, "a"] = None
    frame.loc[rng.random(n) < 0.1 + 0.1 * a, "b"] = None
    design = optrr.design(INCOMPLETE, PLAIN)
    return frame, design.reports(design.randomize(frame, random_state=1))


def pearson(frame: pd.DataFrame, *names: str) -> float:
    """Of the complete cases."""
    told = frame[list(names)].dropna()
    return float(stats.chi2_contingency(pd.crosstab(told[names[0]], told[names[1]]), correction=False)[0])


@pytest.mark.slow
def test_without_noise_complete_cases_are_tested_and_modelled_as_scipy_and_statsmodels_do(incomplete: Any) -> None:
    frame, reports = incomplete
    told = frame.dropna().astype({"a": int})
    test = reports.test("a", "c", missing="complete-cases")
    assert (test.df, test.missing) == (1, "complete cases")
    assert test.statistic == pytest.approx(pearson(frame, "a", "c"), rel=1e-4)
    assert reports.test("a", "b", missing="complete-cases").statistic == pytest.approx(
        pearson(frame, "a", "b"), rel=1e-4
    )
    within = sum(pearson(part, "a", "b") for _, part in told.groupby("c"))
    assert reports.test("a", "b", given="c", missing="complete-cases").statistic == pytest.approx(within, rel=1e-3)
    both = reports.test("a", "b")
    assert (both.df, both.missing) == (6, "(missing) of a and of b counts as a category")
    family = reports.tests([("a", "b"), ("a", "c")], missing="complete-cases")
    assert [each.df for each in family.tests] == [2, 1]
    for formula in ("c ~ a + b", "a ~ b + c"):
        ours, theirs = reports.regress(formula, missing="complete-cases"), smf.logit(formula, told).fit(disp=0)
        assert ours.params == pytest.approx(dict(theirs.params), abs=3e-3)
        assert np.sqrt(np.diag(ours.covariance)) == pytest.approx(theirs.bse[list(ours.params)].to_numpy(), rel=0.02)
    linear = reports.regress("a ~ b + c", family="linear", missing="complete-cases")
    assert linear.params == pytest.approx(dict(smf.ols("a ~ b + c", told).fit().params), abs=1e-6)
    cells = told.groupby(["a", "b", "c"]).size().reset_index(name="n")
    poisson = smf.glm("n ~ C(a)*C(b) + C(b)*C(c)", cells, family=sm.families.Poisson()).fit()
    coefficient = reports.model("a*b + b*c", missing="complete-cases").summary()["coefficients"][4]
    assert coefficient["estimate"] == pytest.approx(poisson.params["C(a)[T.1]:C(b)[T.y]"], abs=1e-4)
    assert coefficient["standard_error"] == pytest.approx(poisson.bse["C(a)[T.1]:C(b)[T.y]"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("wishes", [{"constraints": optrr.Constraints(preserve="pairs")}, {"method": "kronecker"}])
def test_complete_cases_are_tested_at_their_level_and_find_what_there_is(wishes: dict[str, str]) -> None:
    """Missing values depend on both attributes; the complete cases are independent, or have an odds ratio of 2."""
    pair = INCOMPLETE.subset(("a", "b"))
    made, n, rng = optrr.design(pair, [1.5, 2.0], **wishes), 20_000, np.random.default_rng(5)
    kernel = made.mechanism.kernel(("a", "b"))
    rejected = {}
    for ratio in (1.0, 2.0):
        complete = np.outer([0.6, 0.4], [0.5, 0.3, 0.2])
        complete[1, 1:] *= ratio
        truth = np.array([[0.0, 0, 0, 0.02], [0, 0, 0, 0.13], [0.09, 0.01, 0.03, 0.02]])
        truth[:2, :3] = 0.7 * complete / complete.sum()
        tables = rng.multinomial(n, kernel.forward(truth).ravel(), size=800).reshape(-1, 3, 4)
        each = [complete_table(counted_table(Counts(pair, table), made.mechanism)) for table in tables]
        rejected[ratio] = np.mean([tested(table).p_value < 0.05 for table in each])
    assert 0.033 < rejected[1.0] < 0.069 and rejected[2.0] > 0.3, rejected


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda r: r.test("a", "b", missing="complete-cases", hypothesis="likelihood-ratio"),
            "have no test 'likelihood-ratio'",
        ),
        (
            lambda r: r.test("a", "b", missing="complete-cases", calibration="bootstrap"),
            "``calibration``: not available",
        ),
        (lambda r: r.model(attributes=("a", "b"), stepwise=2, missing="complete-cases"), "give terms"),
        (
            lambda r: r.test("a", "b", missing="complete-cases", sample=optrr.Sample(weights="c")),
            "not available in tests",
        ),
        (lambda r: r.regress("c ~ a", missing="complete-cases", sample=optrr.Sample(weights="b")), "not available"),
        (lambda r: r.regress("a ~ v", missing="complete-cases", public=["v"]), "no public predictors"),
    ],
)
def test_complete_cases_refuse_what_they_would_ignore(incomplete: Any, ask: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ask(incomplete[1])


def test_missing_values_can_be_collapsed_with_a_category(incomplete: Any) -> None:
    frame, reports = incomplete
    for name in (None, "(missing)"):
        collapsed = reports.collapsed({"a": [0, name]}, "a")
        told = frame.assign(a=frame.a.fillna(0))
        assert collapsed.test("a", "c").statistic == pytest.approx(pearson(told, "a", "c"), rel=1e-4)
        assert collapsed.test("a", "c").df == 1
