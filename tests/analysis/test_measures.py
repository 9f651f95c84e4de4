"""Measures of a two-way table against scipy and statsmodels, their derivatives against differences, and their coverage."""

from math import isnan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import spread
from scipy import stats
from statsmodels.stats.contingency_tables import Table2x2
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from optrr import Attribute, Bins, Counts, Domain, InvalidInput, design
from optrr import reports as reports_of
from optrr.analysis.measures import MEASURES, Comparing, measure, quantities
from optrr.analysis.measures.measure import asked
from optrr.analysis.measures.quantities import Inversion, Odds, p_value, value_at
from optrr.core.estimation.table import Sampling, counted_table

SHAPE = (3, 4)
DOMAIN = Domain.of({"group": ["a", "b", "c"], "outcome": ["w", "x", "y", "z"]})
TABLES = [np.random.default_rng(seed).integers(1, 60, SHAPE) for seed in range(5)]


def of_table(table: np.ndarray, name: str, comparing: Comparing | None = None, domain: Domain = DOMAIN) -> list[float]:
    """A measure's rows at the proportions of a table of true counts."""
    rows = asked(domain, name, comparing or Comparing())
    return [value_at(odds, table.ravel() / table.sum()) for _, odds in rows]


def listed(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The table's people, one by one."""
    rows, columns = (np.repeat(x.ravel(), table.ravel()) for x in np.indices(table.shape))
    return rows, columns


@pytest.mark.parametrize("table", TABLES)
def test_ordinal_measures_are_those_of_scipy(table: np.ndarray) -> None:
    rows, columns = listed(table)
    assert of_table(table, "tau-b")[0] == pytest.approx(stats.kendalltau(rows, columns).statistic, abs=1e-12)
    assert of_table(table, "somers-d")[0] == pytest.approx(stats.somersd(table).statistic, abs=1e-12)
    sign = np.sign(np.subtract.outer(rows, rows) * np.subtract.outer(columns, columns))
    assert of_table(table, "gamma")[0] == pytest.approx(sign.sum() / np.abs(sign).sum(), abs=1e-12)


@pytest.mark.parametrize("table", TABLES)
def test_shares_risks_odds_and_means_are_those_of_pandas_and_statsmodels(table: np.ndarray) -> None:
    rows, columns = listed(table)
    people = pd.DataFrame({"g": rows, "o": columns})
    shares = pd.crosstab(people.g, people.o, normalize="index").to_numpy()
    np.testing.assert_allclose(of_table(table, "row-proportions"), shares.ravel())
    np.testing.assert_allclose(
        of_table(table, "column-proportions"), pd.crosstab(people.g, people.o, normalize="columns").to_numpy().ravel()
    )
    np.testing.assert_allclose(of_table(table, "risk-difference"), (shares[1:] - shares[0]).ravel(), atol=1e-14)
    np.testing.assert_allclose(of_table(table, "risk-ratio"), (shares[1:] / shares[0]).ravel())
    scores = np.array([1.0, 2.0, 5.0, -3.0])
    means = people.assign(s=scores[columns]).groupby("g").s.mean().to_numpy()
    np.testing.assert_allclose(of_table(table, "means", Comparing(scores=scores)), means)
    differences = of_table(table, "mean-difference", Comparing(reference="b", scores=scores))
    np.testing.assert_allclose(differences, (means - means[1])[[0, 2]], atol=1e-13)
    ratios = of_table(table, "odds-ratio", Comparing("c", "x"))
    others = [(g, o) for g in (0, 1) for o in (0, 2, 3)]
    expected = [
        Table2x2(np.array([[table[g, o], table[g, 1]], [table[2, o], table[2, 1]]])).oddsratio for g, o in others
    ]
    np.testing.assert_allclose(ratios, expected)


def test_means_take_any_number_of_groups_or_none() -> None:
    """Without noise they are those of pandas and the one-sample interval; ``where`` leaves out who does not count."""
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"a": rng.integers(0, 2, 4000), "b": rng.integers(0, 3, 4000)})
    people["y"] = rng.integers(0, 4, 4000) // (1 + people.a)
    made = design({"a": [0, 1], "b": [0, 1, 2], "y": [0, 1, 2, 3]}, 30.0)
    reports = reports_of(made.randomize(people, random_state=1), made)
    (alone,) = reports.measure("means", "y").rows
    error = people.y.sem()
    ends = [alone.estimate, alone.standard_error, alone.lower, alone.upper]
    assert ends == pytest.approx(
        [people.y.mean(), error, *(people.y.mean() + 1.96 * error * np.array([-1, 1]))], rel=1e-3
    )
    assert alone.group is None
    both = reports.measure("means", "a", "b", "y")
    assert [row.group for row in both.rows][:4] == ["0 × 0", "0 × 1", "0 × 2", "1 × 0"]
    np.testing.assert_allclose([row.estimate for row in both.rows], people.groupby(["a", "b"]).y.mean())
    (among,) = reports.measure("means", "y", where={"a": 1}).rows
    assert among.estimate == pytest.approx(people.y[people.a == 1].mean()) and among.group is None


@pytest.mark.parametrize("name", MEASURES)
def test_derivatives_are_those_of_differences(name: str) -> None:
    rng = np.random.default_rng(4)
    for _, odds in list(asked(DOMAIN, name, Comparing()))[:2]:
        sums = odds.sums @ rng.dirichlet(np.full(12, 3.0))
        position, step = rng.uniform(), 1e-5
        at = odds.equation(position, sums)
        for k, unit in enumerate(step * np.eye(sums.size)):
            ahead, behind = odds.equation(position, sums + unit), odds.equation(position, sums - unit)
            assert at.gradient[k] == pytest.approx((ahead.value - behind.value) / (2 * step), rel=1e-6, abs=1e-8)
            np.testing.assert_allclose(
                at.hessian[k], (ahead.gradient - behind.gradient) / (2 * step), rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize("name", MEASURES)
def test_positions_and_values_are_inverse(name: str) -> None:
    for _, odds in asked(DOMAIN, name, Comparing()):
        for position in (0.0, 0.2, 0.5, 0.9):
            assert odds.position(odds.shown(position)) == pytest.approx(position, abs=1e-12)
        assert odds.shown(1.0) == odds.high


PAIR = Domain.of({"group": 2, "outcome": 2})
PLAIN = design(PAIR, {"group": 25.0, "outcome": 25.0}, method="kronecker").mechanism


def without_noise(name: Any, table: Any) -> Any:
    return measure(counted_table(Counts(PAIR, np.array(table)), PLAIN), name).rows[-1]


@pytest.mark.parametrize(
    ("name", "table", "limits", "close"),
    [
        ("row-proportions", [[150, 144], [3, 3]], (0.188, 0.812), 5e-4),  # Wilson
        ("row-proportions", [[0, 10], [997, 3]], (0.00102, 0.00878), 1e-5),  # Wilson
        ("row-proportions", [[147, 147], [6, 0]], (0, 0.3903), 1e-4),  # Wilson
        ("risk-difference", [[150, 144], [3, 3]], (-0.307, 0.328), 0.004),  # Newcombe
        ("risk-difference", [[147, 147], [6, 0]], (-0.5568, -0.1056), 0.002),  # Newcombe
        ("odds-ratio", [[997, 3], [900, 100]], (12.331, 110.55), 0.1),  # Miettinen and Nurminen
        ("risk-ratio", [[997, 3], [900, 100]], (11.230, 99.287), 0.1),  # Miettinen and Nurminen
        ("odds-ratio", [[147, 147], [6, 0]], (0, 0.648), 0.001),
    ],
)
def test_sparse_groups_have_the_limits_that_textbooks_give(
    name: Any, table: Any, limits: tuple[float, float], close: float
) -> None:
    row = without_noise(name, table)
    assert (row.lower, row.upper) == pytest.approx(limits, abs=close)
    assert row.lower <= row.estimate <= row.upper


@pytest.mark.parametrize("table", [[[150, 144], [3, 3]], [[997, 3], [900, 100]], [[9, 6], [1, 5]]])
def test_an_odds_ratio_lies_within_the_exact_limits(table: Any) -> None:
    row = without_noise("odds-ratio", table)
    exact = stats.contingency.odds_ratio(np.array(table), kind="conditional").confidence_interval(0.95)
    assert exact.low < row.lower < row.estimate < row.upper < exact.high


@pytest.mark.parametrize(("group", "n"), [(6, 300), (10, 50)])
def test_ratios_are_infinite_only_where_a_cell_is_empty(group: int, n: int) -> None:
    for hits in range(group + 1):
        table = [[(n - group) // 2, (n - group) // 2], [group - hits, hits]]
        for name in ("odds-ratio", "risk-ratio"):
            row = without_noise(name, table)
            assert (row.upper == np.inf) == (hits == group and name == "odds-ratio"), (name, hits)
            assert (row.lower == 0) == (hits == 0), (name, hits)


@pytest.mark.parametrize("seed", [0, pytest.param(range(1, 5), marks=pytest.mark.slow)])
def test_without_noise_widths_are_those_of_statsmodels(seed: Any) -> None:
    """Within 15 % of Wilson's, and of Miettinen and Nurminen's or Newcombe's; 10 tables a seed."""
    for each in np.atleast_1d(seed):
        rng = np.random.default_rng(each)
        for _ in range(10):
            people = np.exp(rng.uniform(np.log(6), np.log(1000), 2)).astype(int)
            # statsmodels' limits break down where a cell is empty
            hits = np.clip(rng.binomial(people, rng.uniform(0.05, 0.95, 2)), 1, people - 1)
            table = [[people[0] - hits[0], hits[0]], [people[1] - hits[1], hits[1]]]
            row = without_noise("row-proportions", table)
            low, high = proportion_confint(hits[1], people[1], method="wilson")
            assert (row.lower, row.upper) == pytest.approx((low, high), abs=1e-3 * (high - low))
            for name, compare in (("risk-difference", "diff"), ("risk-ratio", "ratio"), ("odds-ratio", "odds-ratio")):
                row = without_noise(name, table)
                limits, scale = np.array([row.lower, row.upper]), np.log if "ratio" in name else np.array
                methods = ("score", "newcomb") if compare == "diff" else ("score",)
                ratios = []
                for method in methods:
                    try:
                        known = confint_proportions_2indep(
                            hits[1], people[1], hits[0], people[0], method=method, compare=compare
                        )
                    except ValueError:  # its search meets a NaN
                        continue
                    ratios.append(np.ptp(scale(limits)) / np.ptp(scale(np.array(known))))
                assert not ratios or min(abs(np.log(ratios))) < np.log(1.15), (name, table, limits)


SETTINGS = [(1.0, 3000, 1), (3.0, 400, 2), (6.0, 1000, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), spread(MEASURES, SETTINGS, every=3))
def test_intervals_cover(name: Any, setting: tuple[float, int, int]) -> None:
    """Coverage is binomial: at 95 %, 300 data sets hold fewer than 267 covered ones in 1 of 60,000 tests; 30 tests in all."""
    epsilon, n, seed = setting
    rng = np.random.default_rng(seed)
    domain = Domain.of({"group": 2, "outcome": 3, "other": 2})
    mechanism = design(domain, epsilon).mechanism
    kernel, pi = mechanism.kernel(("group", "outcome")), rng.dirichlet(np.full(6, 2.0)).reshape(2, 3)
    pair = domain.subset(["group", "outcome"])
    draws = rng.multinomial(n, kernel.forward(pi).ravel(), size=300)
    *_, (_, odds) = asked(pair, name, Comparing())
    position, sampling = odds.position(value_at(odds, pi.ravel())), Sampling(kernel, n, odds.sums)
    covered = 0
    for seen in draws:
        inversion = Inversion(odds, sampling, seen / n)
        covered += min(inversion.excesses(position, 0.025)) >= 0
    assert covered >= 267


@pytest.mark.slow
def test_an_interval_holds_exactly_what_the_test_does_not_reject() -> None:
    rng = np.random.default_rng(8)
    domain = Domain.of({"group": 2, "outcome": 2})
    for epsilon, n in ((0.3, 200), (2.0, 500), (5.0, 2000)):
        kernel = design(domain, epsilon).mechanism.kernel(("group", "outcome"))
        for _ in range(2):
            seen = rng.multinomial(n, rng.dirichlet(np.ones(4))) / n
            for odds in odds_of(domain, seen):
                inversion = Inversion.of(odds, Sampling(kernel, n), seen)
                low, high = inversion.limits(0.025)
                accepted = [v for v in np.linspace(0, 1, 41) if min(inversion.excesses(v, 0.025)) >= 0]
                assert all(low - 1e-3 <= v <= high + 1e-3 for v in accepted)
                for limit, side in ((low, 0), (high, 1)):
                    if 0 < limit < 1:
                        assert min(inversion.excesses(limit, 0.025)) == pytest.approx(0, abs=2e-3), side


def odds_of(domain: Domain, seen: np.ndarray) -> list[Odds]:
    counts = Counts(domain, np.ones((2, 2), dtype=np.int64))
    return [
        odds
        for name in ("risk-ratio", "odds-ratio", "risk-difference", "gamma")
        for _, odds in asked(counts.domain, name, Comparing())
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "share", "epsilon", "n"), [((2, 4), 0.16, 0.52, 2600), ((4, 2), 0.05, 0.7, 9000)])
def test_small_groups_are_covered_neither_too_seldom_nor_too_often(
    shape: tuple[int, int], share: float, epsilon: float, n: int
) -> None:
    """400 surveys: at 95 %, fewer than 363 or more than 394 in 1 of 500 tests; with equal halves of the error 398 held."""
    rng = np.random.default_rng(4)
    people = np.append(share, np.full(shape[0] - 1, (1 - share) / (shape[0] - 1)))
    table = people[:, None] * np.array([0.4, *np.full(shape[1] - 1, 0.6 / (shape[1] - 1))])
    domain = Domain.of({"group": shape[0], "outcome": shape[1]})
    kernel = design(domain, epsilon).mechanism.kernel(domain.names)
    _, odds = next(iter(asked(domain, "row-proportions", Comparing())))
    sampling, covered, held = Sampling(kernel, n, odds.sums), 0, []
    for k, seen in enumerate(rng.multinomial(n, kernel.expected(table).ravel(), size=400)):
        inversion = Inversion(odds, sampling, seen / n)
        covered += min(inversion.excesses(0.4, 0.025)) >= 0
        if k < 40:
            low, high = inversion.limits(0.025)
            held.append(low <= inversion.position <= high and low < high)
    assert 363 <= covered <= 394
    assert all(held)


def test_a_group_that_is_estimated_as_negative_leaves_every_share_possible() -> None:
    kernel = design(Domain.of({"group": 2, "outcome": 2}), 0.5).mechanism.kernel(("group", "outcome"))
    odds = quantities.share(np.array([1.0, 0, 0, 0]), np.array([0.0, 1, 0, 0]))
    seen = kernel.forward(np.array([[-0.3, -0.1], [0.7, 0.7]])).ravel()
    assert Inversion(odds, Sampling(kernel, 500, odds.sums), seen).limits(0.025) == (0.0, 1.0)


def test_simultaneous_intervals_are_wider_and_results_are_tables() -> None:
    domain = Domain.of({"group": ["a", "b"], "outcome": 3})
    mechanism = design(domain, 2.0).mechanism
    counts = Counts(domain, np.array([[200, 100, 50], [80, 90, 100]]))
    alone, together = (
        measure(counted_table(counts, mechanism), "row-proportions", simultaneous=s) for s in (False, True)
    )
    assert all(t.lower <= a.lower and a.upper <= t.upper for a, t in zip(alone.rows, together.rows, strict=True))
    frame = together.to_pandas()
    assert list(frame.columns) == ["group", "reference", "outcome", "estimate", "standard_error", "lower", "upper"]
    assert len(frame) == 6
    assert "for all together" in together.plot().axes[0].get_xlabel()
    assert measure(counted_table(counts, mechanism), "risk-ratio").plot().axes[0].get_xscale() == "log"
    assert not any(isnan(r.standard_error) for r in alone.rows)


@pytest.mark.parametrize(
    ("name", "comparing", "said"),
    [
        ("lift", Comparing(), "``statistic``: 'lift' is unknown"),
        ("gamma", Comparing(reference="a"), "does not accept reference"),
        ("means", Comparing(reference_outcome="x"), "does not accept reference outcome"),
        ("risk-ratio", Comparing(scores=[0, 1, 2, 3]), "does not accept scores"),
        ("risk-ratio", Comparing(reference="q"), "no category 'q'"),
        ("means", Comparing(scores=[1, 2]), "4 categories; give a finite score"),
        ("means", Comparing(scores=[1, 1, 1, 1]), "all equal"),
        ("means", Comparing(scores=["p", 1, 1, 1]), "must be numbers"),
    ],
)
def test_mistakes_are_named(name: Any, comparing: Comparing, said: str) -> None:
    mechanism = design(DOMAIN, 2.0).mechanism
    with pytest.raises(InvalidInput, match=said):
        measure(counted_table(Counts(DOMAIN, TABLES[0]), mechanism), name, comparing)


def test_scores_are_the_categories_own_numbers() -> None:
    domain = Domain.of({"group": 2, "outcome": [0, 5, 20]})
    table = np.array([[10, 20, 30], [30, 20, 10]])
    expected = table @ np.array([0, 5, 20]) / table.sum(axis=1)
    np.testing.assert_allclose(of_table(table, "means", domain=domain), expected)


def test_where_nothing_is_known_no_number_is_printed():
    """An odds ratio of 1.0 would read as a finding; its interval is everything."""
    made = design(Domain.of({"a": 2, "b": 2}), 0.3, method="kronecker").mechanism
    result = measure(counted_table(Counts(made.domain, np.array([[8, 7], [7, 8]])), made), "odds-ratio")
    (row,) = result.rows
    assert (row.lower, row.upper) == (0, np.inf)
    assert np.isnan([row.estimate, row.standard_error]).all()
    assert [result.summary()["rows"][0][k] for k in ("estimate", "upper")] == [None, None]
    assert "have almost no information on" in result.warnings[0]
    assert "without" in result.headline()
    assert result.plot() is not None


@pytest.mark.parametrize("level", [0.05, 0.32, 0.001])
@pytest.mark.parametrize("room", [(0.0, np.inf), (0.3, 20.0), (1.2, 2.0), (0.7, 0.9), (3.0, np.inf)])
def test_outcomes_are_taken_in_feldman_and_cousins_order(level, room):
    """Their construction done plainly: outcomes of a normal law, by the ratio of likelihoods, until 1 − level is full."""
    x, (below, above) = np.linspace(-12, 12, 24_001), room
    ratio = -(x**2) / 2 + (x - np.clip(x, -below, above)) ** 2 / 2
    density = np.exp(-(x**2) / 2)
    order = np.argsort(-ratio, kind="stable")
    taken = np.zeros(x.size, dtype=bool)
    taken[order[: np.searchsorted(np.cumsum(density[order]) / density.sum(), 1 - level) + 1]] = True
    differ = taken != np.array([p_value(each, below, above) >= level for each in x])
    assert not differ[np.abs(ratio - ratio[taken].min()) > 2e-2].any()


def test_quantiles_between_open_bins_are_those_of_closed_ones() -> None:
    """Within an outer bin without an edge nothing is known but the edge that it has."""
    ages, found = np.random.default_rng(0).integers(5, 81, 20_000), {}
    for name, outer in {"open": (-np.inf, np.inf), "closed": (0.0, 90.0)}.items():
        domain = Domain((Attribute("age", bins=Bins((outer[0], 18, 40, 65, outer[1]))),))
        made = design(domain, 2.0)
        opened = reports_of(made.randomize(pd.DataFrame({"age": ages}), random_state=1), made)
        found[name] = [(row.estimate, row.lower, row.upper) for row in opened.quantiles("age", [0.05, 0.5, 0.9]).rows]
    assert found["open"][1] == found["closed"][1]
    assert found["open"][0][1:] == (-np.inf, 18.0) and found["open"][2][1:] == (65.0, np.inf)
