"""The unbiased score: tests without estimates, and estimates without p-values, against slow sums over records.

It is made where predictors have too many cells for the likelihood; here, wherever they are randomized.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

import optrr
from optrr import Attribute, Design, Domain, InvalidInput, design
from optrr.analysis.regression import building, solving
from optrr.analysis.regression.building import DistinctReports, every_combination, read_reports
from optrr.analysis.regression.fitting import Regression, equations, model, regress
from optrr.analysis.regression.formulas import Formula
from optrr.analysis.regression.solving import (
    MOST_FROM_CURVATURE,
    law_holds,
    searched_limits,
    share_from_curvature,
    solve,
    tested_with_law,
)
from optrr.cli.main import run

DOMAIN = Domain(
    (
        Attribute("sex", ("f", "m")),
        Attribute("edu", ("low", "mid", "high"), ordered=True),
        Attribute("income", ("lo", "hi")),
    )
)
FORMULA = "income ~ sex + edu"
# the columns of the formula, with the constant, in every cell of the domain; and which coefficients belong to edu
CELLS = np.stack(np.unravel_index(np.arange(12), (2, 3, 2)), axis=1)
COLUMNS = np.stack([np.ones(12), CELLS[:, 0], CELLS[:, 1] == 1, CELLS[:, 1] == 2], axis=1)
EDU = (2, 3)
SHARES = (0.42, 0.5, 0.08)


@pytest.fixture(scope="module", autouse=True)
def _no_likelihood() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "MOST_TOGETHER", 0)
        yield


@pytest.fixture(scope="module")
def weak() -> Design:
    return design(DOMAIN, 1.1, method="kronecker")


def people(n: int, seed: int) -> np.ndarray:
    """Codes of true records, of which few have a high education."""
    rng = np.random.default_rng(seed)
    sex, edu = rng.integers(0, 2, n), rng.choice(3, n, p=SHARES)
    chance = 1 / (1 + np.exp(1 - 0.5 * sex - 0.4 * edu))
    return np.stack([sex, edu, (rng.uniform(size=n) < chance).astype(int)], axis=1)


def reported(made: Design, n: int, seed: int) -> np.ndarray:
    return made.mechanism.perturb_codes(people(n, seed), random_state=seed)


@dataclass(frozen=True)
class Slow:
    """The logistic model record by record, by the whole inverse: what each report says of every true cell, (n, 12)."""

    inverse: np.ndarray

    @staticmethod
    def of(made: Design, codes: np.ndarray) -> "Slow":
        inverse = np.linalg.inv(made.mechanism.kernel(DOMAIN.names).matrix())
        return Slow(inverse[np.ravel_multi_index(tuple(codes.T), (2, 3, 2))])

    @cached_property
    def table(self) -> np.ndarray:
        return self.inverse.mean(axis=0)

    def unlikely(self, theta: np.ndarray) -> float:
        level = COLUMNS @ theta
        return float(self.table @ np.where(CELLS[:, 2] == 1, np.logaddexp(0, -level), np.logaddexp(0, level)))

    def restricted(self, which: tuple[int, ...]) -> np.ndarray:
        free = [k for k in range(4) if k not in which]
        inside = np.zeros(4)
        best = minimize(lambda part: self.unlikely(np.eye(4)[free].T @ part), inside[free], method="BFGS", tol=1e-12)
        return np.asarray(np.eye(4)[free].T @ best.x)

    def spreads(self, theta: np.ndarray, which: tuple[int, ...], weights: np.ndarray | None) -> list[np.ndarray]:
        """Ψ, N and E for weights (k, 4), those of the efficient score unless given."""
        n, free = len(self.inverse), [k for k in range(4) if k not in which]
        chance = 1 / (1 + np.exp(-COLUMNS @ theta))
        psi = self.inverse @ ((CELLS[:, 2] - chance)[:, None] * COLUMNS)
        bend = np.tensordot(self.inverse, np.einsum("u,uc,ud->ucd", chance * (1 - chance), COLUMNS, COLUMNS), axes=1)
        curvature, spread = bend.mean(axis=0), psi.T @ psi / n
        inverse = np.linalg.inv(curvature[np.ix_(free, free)])
        if weights is None:
            weights = np.eye(4)[list(which)]
            weights[:, free] = -curvature[np.ix_(list(which), free)] @ inverse
        error = inverse @ spread[np.ix_(free, free)] @ inverse / (n - len(free))
        noise = weights @ spread @ weights.T
        twice = np.zeros_like(noise)
        for each in bend:
            moved = (weights @ each)[:, free]
            twice += moved @ error @ moved.T / n
        return [psi.mean(axis=0)[list(which)], noise, twice - noise * len(free) / n]

    def statistic(self, which: tuple[int, ...]) -> float:
        score, noise, twice = self.spreads(self.restricted(which), which, None)
        divided = 2 * np.linalg.solve(noise, score) - np.linalg.solve(noise + twice, score)
        return float((len(self.inverse) - 4 + len(which)) * score @ divided)

    def share(self, which: tuple[int, ...]) -> float:
        """How much of N noise of the curvature makes where nobody has an effect."""
        hi = self.table[CELLS[:, 2] == 1].sum()
        _, noise, twice = self.spreads(np.array([np.log(hi / (1 - hi)), 0, 0, 0]), which, np.eye(4)[list(which)])
        return float(np.linalg.eigvals(np.linalg.solve(noise, twice)).real.max())


@pytest.fixture(scope="module")
def alone(weak: Design) -> tuple[np.ndarray, Regression]:
    """A data set without estimates."""
    codes = reported(weak, 800, 2)
    return codes, regress(codes, weak.mechanism, FORMULA)


def test_tests_without_estimates_are_those_of_slow_sums(weak: Design, alone: tuple[np.ndarray, Regression]) -> None:
    codes, result = alone
    slow = Slow.of(weak, codes)
    # the likelihood that the equations come from rises without end
    for start in np.random.default_rng(0).normal(size=(5, 4)):
        assert np.abs(minimize(slow.unlikely, start, method="BFGS").x).max() > 1000
    made = 0
    for k, row in enumerate(result.coefficients):
        assert isnan(row.estimate) and isnan(row.standard_error) and (row.lower, row.upper) == (-inf, inf)
        if slow.share((k,)) > MOST_FROM_CURVATURE:
            assert isnan(row.p_value) and isnan(row.score_z)
        elif not isnan(row.p_value):
            made += 1
            assert row.score_z**2 == pytest.approx(slow.statistic((k,)), rel=1e-5)
            assert row.p_value == pytest.approx(chi2.sf(slow.statistic((k,)), 1), rel=1e-5)
    assert made and result.terms[1].p_value == pytest.approx(chi2.sf(slow.statistic(EDU), 2), rel=1e-5)
    assert np.isnan(result.covariance).all() and result.log_likelihood is None
    assert "tests without estimates" in repr(result)


def test_shares_that_noise_of_the_curvature_makes_are_those_of_slow_sums(weak: Design) -> None:
    refused = set()
    for seed in range(3):
        codes = reported(weak, 800, seed)
        slow, formula = Slow.of(weak, codes), Formula.of(FORMULA)
        reports = read_reports(codes, weak.mechanism, formula.names, ())
        made = equations(model(formula, reports, None, {}), reports)
        for which in ((0,), (1,), (2,), (3,), EDU):
            share = slow.share(which)
            assert share_from_curvature(made, which)[0] == pytest.approx(share, rel=1e-6)
            assert law_holds(made, which)[0] == (share <= MOST_FROM_CURVATURE)
            refused.add(bool(share > MOST_FROM_CURVATURE))
    assert refused == {False, True}


def test_what_has_no_p_value_is_named_and_keeps_its_estimate_and_interval(weak: Design) -> None:
    result = regress(reported(weak, 3000, 2), weak.mechanism, FORMULA)
    assert result.estimated
    without = [c.parameter for c in result.coefficients if isnan(c.p_value)]
    (said,) = [line for line in result.warnings if "no p-value" in line]
    assert without and all(name in said for name in without) and "epsilon" in said
    assert len(without) < len(result.coefficients)
    assert all(np.isfinite([c.estimate, c.standard_error]).all() for c in result.coefficients)
    linear = regress(reported(weak, 3000, 2), weak.mechanism, FORMULA, family="linear")
    strong = design(DOMAIN, 3.0, method="kronecker")
    clear = regress(reported(strong, 3000, 2), strong.mechanism, FORMULA)
    for each in (linear, clear):
        assert not each.warnings and all(np.isfinite(c.p_value) for c in each.coefficients)


def test_every_use_of_a_result_without_estimates(
    weak: Design, alone: tuple[np.ndarray, Regression], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, result = alone
    for use in (result.plot, lambda: result.predict(pd.DataFrame({"sex": ["f"], "edu": ["low"]}))):
        with pytest.raises(InvalidInput, match=r"no estimates to .* no solution") as refused:
            use()
        assert "\n" not in str(refused.value)
    assert result.to_pandas()["estimate"].isna().all() and result.to_pandas()["p_value"].notna().any()
    assert "nan" not in str(result.summary()) + result._repr_html_()
    optrr.save(weak, tmp_path / "d.json")
    frame = pd.DataFrame({a.name: [a.categories[c] for c in codes[:, i]] for i, a in enumerate(DOMAIN)})
    frame.to_csv(tmp_path / "r.csv", index=False)
    options = ["regress", str(tmp_path / "r.csv"), "--design", str(tmp_path / "d.json"), "--formula", FORMULA]
    assert run([*options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    rows = printed["coefficients"]
    assert [row[k] for row in rows for k in ("estimate", "standard_error", "lower", "upper")] == [None] * 16
    numbers = [row["p_value"] for row in rows if row["p_value"] is not None]
    np.testing.assert_allclose(numbers, [c.p_value for c in result.coefficients if not isnan(c.p_value)])
    assert run(options) == 0
    told = capsys.readouterr()
    assert "too little to estimate" not in told.out and told.err.count("too little to estimate") == 1
    assert run([*options, "--report", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "too little to estimate" in page and "<svg" not in page and "Intervals hold" not in page


@pytest.mark.slow
def test_p_values_keep_their_level_where_many_data_sets_have_no_estimates(weak: Design) -> None:
    """4,000 data sets: a level of 5 % comes out outside 3.5–6.5 % once in 80,000 times; of those with estimates it is lower."""
    chances = weak.mechanism.kernel(DOMAIN.names).expected(table_of_people())
    codes = every_combination(np.zeros((1, 0), dtype=np.int64), (2, 3, 2))
    exact = DistinctReports(DOMAIN, codes, 1000 * chances.reshape(1, -1), weak.mechanism)
    fit = model(Formula.of(FORMULA), exact, None, {})
    population = equations(fit, exact)
    truth = solve(population, population.start()).theta[0]
    numbers = np.random.default_rng(3).multinomial(1000, chances.ravel(), size=4000).astype(float)
    made = equations(fit, DistinctReports(DOMAIN, codes, numbers, weak.mechanism))
    solved = solve(made, made.start())
    assert 0.2 < solved.converged.mean() < 0.8
    statistic = tested_with_law(made, EDU, truth[list(EDU)], made.start()).statistic
    assert np.isfinite(statistic).mean() > 0.99
    assert 0.035 <= np.mean(statistic > chi2.isf(0.05, 2)) <= 0.065


def table_of_people() -> np.ndarray:
    """Shares of the true cells, (2, 3, 2)."""
    chance = 1 / (1 + np.exp(1 - 0.5 * np.arange(2)[:, None] - 0.4 * np.arange(3)))
    return np.stack([1 - chance, chance], axis=-1) * np.array(SHARES)[:, None] / 2


@pytest.mark.parametrize("epsilon", [2.0, 12.0, 18.0, 20.0, 30.0])
def test_a_predictor_that_everybody_shares_has_no_test(epsilon: float) -> None:
    """Its tested score is 0 but for rounding, which was divided by rounding: p-values were 10⁻⁵⁵, .96, 1 or none."""
    made = design({"y": 4, "x": 2, "z": 3}, epsilon, method="kronecker")
    rng = np.random.default_rng(100)
    people = pd.DataFrame({"y": rng.choice(4, 300), "x": 0, "z": rng.choice(3, 300), "w": rng.uniform(1, 2, 300)})
    for formula in ("y ~ x", "y ~ x + z"):
        for sample in ({}, {"weights": "w"}):
            with pytest.raises(InvalidInput, match="too little for this model"):
                regress(people, made.mechanism, formula, family="linear", **sample)
    # where people differ there is one
    people.loc[::2, "x"] = 1
    assert 0.01 < regress(people, made.mechanism, "y ~ x", family="linear").coefficients[1].p_value < 1


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "tested"), [(1.0, 60), (6.0, 0), (10.0, 0)])
def test_predictors_that_are_the_same_are_not_tested_by_a_few_reports(epsilon: float, tested: int) -> None:
    """Only reports that the mechanism changed tell them apart: without a solution 69 and 100 % were rejected at 5 %.

    ``tested``: at least so many of 60 surveys have p-values. With a solution, by chance, 5 % of a few surveys; seeds are fixed.
    """
    made, p = design({"y": [0, 1, 2, 3], "a": [0, 1], "b": [0, 1]}, epsilon, method="kronecker"), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, 2, 300)
        people = np.stack([np.clip(a + rng.integers(0, 3, 300), 0, 3), a, a], axis=1)
        try:
            # that a has no effect is true, for b has all of it
            p.append(
                regress(made.mechanism.perturb_codes(people, rng), made.mechanism, "y ~ a + b").coefficients[1].p_value
            )
        except InvalidInput as refused:
            assert "too little for this model" in str(refused)
    assert len(p) >= tested and np.sum(np.array(p) < 0.05) <= 6


def test_an_interval_has_no_end_beyond_values_that_have_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they lie between two steps, of which the first is not rejected and the second is."""

    def stepped(_equations: object, _which: object, values: np.ndarray, start: np.ndarray) -> solving.Tested:
        value = float(values[0])
        signed = np.array([np.nan if 2.2 < value < 3.0 else -(value**3) / 16])
        return solving.Tested(signed**2, signed, start)

    monkeypatch.setattr(solving, "test", stepped)
    low, high = searched_limits(SimpleNamespace(reach=np.array([inf]), parameters=1), 0, np.zeros(1), 1.0, 1.96)
    assert low == pytest.approx(-((16 * 1.96) ** (1 / 3)), abs=1e-5)
    assert high == inf
