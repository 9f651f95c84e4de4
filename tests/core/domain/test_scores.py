"""The numbers of an attribute's categories are its scores, in everything that counts categories by numbers.

Each result is compared with what numpy and statsmodels make of the true records: at ε = 32 the mechanism changes one record in
10^13, so that the two differ by rounding.
"""

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import glm as poisson
from statsmodels.genmod.families import Poisson
from statsmodels.stats.contingency_tables import Table as Reference

from optrr import test
from optrr.analysis.loglinear.comparing import stratified_alternative, stratified_test
from optrr.analysis.measures import measure
from optrr.core.domain.domain import Attribute, Domain, checked_scores, told_scores
from optrr.core.errors import InvalidInput
from optrr.core.estimation.derived import derive
from optrr.core.estimation.table import counted_table
from optrr.core.inference.power_analysis import alternative_of
from optrr.core.mechanisms.kernel import unrandomized
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols.dependence import dependences_from_randomized, dependences_of
from optrr.core.records.counts import Counts
from optrr_solvers.laws import ProductLaw

PLAIN = 32.0


def numbers(rng: np.random.Generator, size: int) -> list[float]:
    """Different numbers in no order: whole ones, fractions, years, or times in seconds."""
    steps = rng.choice(40, size, replace=False).tolist()
    return [
        steps,
        [float(x) for x in np.round(rng.normal(0, 3, size), 3)],
        [1980 + k for k in steps],
        [1_600_000_000 + 60 * k for k in steps],
    ][rng.integers(4)]


def setting(seed: int) -> tuple[Domain, Mechanism, np.ndarray, np.random.Generator]:
    """A domain of three attributes, two of them with numbers, and 2,000 associated records."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(2, 6, 2)
    domain = Domain.of({"a": numbers(rng, a), "b": numbers(rng, b), "c": ["north", "south"]})
    law = rng.dirichlet(np.full(2 * a * b, 2.0))
    flat = rng.choice(law.size, 2000, p=law)
    codes = np.stack(np.unravel_index(flat, (a, b, 2)), axis=1)
    return domain, Mechanism(domain, ProductLaw(domain.sizes, np.full(3, PLAIN))), codes, rng


def counted(domain: Domain, codes: np.ndarray, names: tuple[str, ...]) -> Counts:
    at = domain.indices(names)
    table = np.zeros([domain[n].size for n in names], dtype=np.int64)
    np.add.at(table, tuple(codes[:, i] for i in at), 1)
    return Counts(domain.subset(names), table)


def values(domain: Domain, codes: np.ndarray, name: str) -> np.ndarray:
    of = np.asarray(domain[name].categories, dtype=float)[codes[:, domain.index(name)]]
    # the references subtract squares, so that they lose the digits of times in seconds
    return of - of.min()


def test_scores_of_an_attribute() -> None:
    for categories, expected in (
        ((0, 1, 5, 10), [0, 1, 5, 10]),
        ((2.5, -1, 1e9), [2.5, -1, 1e9]),
        (("none", "some", "many"), [0, 1, 2]),
        ((0, 5, None), [0, 1, 2]),
        ((False, True), [0, 1]),
        (("0", "5", "10"), [0, 1, 2]),
    ):
        np.testing.assert_array_equal(checked_scores(Attribute("x", categories), None), expected)
        np.testing.assert_array_equal(
            checked_scores(Attribute("x", categories), range(9, 9 + len(categories))), 9 + np.arange(len(categories))
        )
    for beyond in ((0, 10**400), (0, 1e200)):
        with pytest.raises(InvalidInput, match="give a finite score"):
            checked_scores(Attribute("x", beyond), None)


@pytest.mark.parametrize("seed", range(8))
def test_everything_counts_by_the_categories_own_numbers(seed: int) -> None:
    domain, mechanism, codes, rng = setting(seed)
    counts, n = counted(domain, codes, ("a", "b")), len(codes)
    x, y = values(domain, codes, "a"), values(domain, codes, "b")
    r = np.corrcoef(x, y)[0, 1]
    trend = test(counts, mechanism, "trend", calibration="asymptotic")
    rows, columns = (np.asarray(domain[name].categories, dtype=float) for name in "ab")
    reference = Reference(counts.table, shift_zeros=False).test_ordinal_association(
        rows - rows.min(), columns - columns.min()
    )
    # statsmodels takes the margins as given, whose variance has n − 1 for n
    assert trend.statistic == pytest.approx(reference.zscore**2 * n / (n - 1), rel=1e-7)
    assert trend.effect == pytest.approx(np.sqrt(n) * r, rel=1e-7)
    assert trend.scores == (tuple(rows), tuple(columns))
    derived = derive(counted_table(counts, mechanism), "correlation")
    assert derived.plug_in == pytest.approx(r, rel=1e-6)
    assert derived.scores == trend.scores
    means = measure(counted_table(counts, mechanism), "means")
    shown = [row.estimate for row in means.rows]
    grouped = pd.DataFrame({"g": codes[:, 0], "y": y + columns.min()}).groupby("g").y.mean()
    np.testing.assert_allclose(shown, grouped, rtol=1e-9)
    assert means.scores == tuple(columns)
    seen = alternative_of("trend", counts.proportions, mechanism.kernel(("a", "b")), domain=counts.domain)
    assert seen.noncentrality == pytest.approx(r**2, rel=1e-5)
    ordinal = dependences_from_randomized(codes, mechanism, ordinal=("a", "b"))
    assert ordinal.of("a", "b") == pytest.approx(abs(r), rel=1e-6)
    assert dependences_of(codes, domain, ordinal=("a", "b")).of("a", "b") == pytest.approx(abs(r), rel=1e-9)
    # given scores take their place, for one attribute or both
    own = rng.normal(size=rows.size)
    assert test(counts, mechanism, "trend", scores=(own, None), calibration="asymptotic").effect == pytest.approx(
        np.sqrt(n) * np.corrcoef(own[codes[:, 0]], y)[0, 1], rel=1e-6
    )


def linear_by_linear(codes: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Deviance that x·y explains beside a*c + b*c, by Poisson regressions of the table's cells."""
    frame = pd.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "c": codes[:, 2]})
    cells = (
        frame.value_counts()
        .rename("n")
        .reindex(pd.MultiIndex.from_product([range(k + 1) for k in codes.max(axis=0)], names=list("abc")), fill_value=0)
        .reset_index()
    )
    own = [dict(zip(codes[:, k].tolist(), values.tolist(), strict=True)) for k, values in ((0, x), (1, y))]
    cells["xy"] = cells.a.map(own[0]) * cells.b.map(own[1])
    fits = [poisson(f"n ~ C(a)*C(c) + C(b)*C(c){more}", cells, family=Poisson()).fit() for more in ("", " + xy")]
    return float(fits[0].deviance - fits[1].deviance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_trend_within_strata_counts_by_them_too(seed: int) -> None:
    domain, mechanism, codes, rng = setting(100 + seed)
    counts = counted(domain, codes, ("a", "b", "c"))
    given = rng.normal(size=domain["b"].size)
    for scores, y in ((None, values(domain, codes, "b")), ((None, given), given[codes[:, 1]])):
        x, within, variance = values(domain, codes, "a"), 0.0, 0.0
        for stratum in (0, 1):
            inside = codes[:, 2] == stratum
            size = int(inside.sum())
            within += size * np.cov(x[inside], y[inside], bias=True)[0, 1]
            variance += size * x[inside].var() * y[inside].var()
        tested = stratified_test(counts, mechanism, "common-trend", random_state=1, scores=scores)
        # where the score has no χ² law it is the likelihood ratio, whose maxima are found by iteration
        score, ratio = within**2 / variance, linear_by_linear(codes, x, y)
        assert tested.statistic in (pytest.approx(score, rel=1e-6), pytest.approx(ratio, abs=5e-3))
        seen = stratified_alternative(counts.proportions, counts.domain, mechanism, "common-trend", scores)
        assert seen.noncentrality == pytest.approx(score / len(codes), rel=1e-4)
    assert tested.scores == (tuple(map(float, domain["a"].categories)), tuple(given))
    with pytest.raises(InvalidInput, match="leave the scores out"):
        stratified_test(counts, mechanism, "common-association", scores=(None, given))


def test_categories_that_are_steps_count_as_they_always_did() -> None:
    """0..r−1 as numbers, as texts, and as scores that are given: the same to the last bit."""
    rng = np.random.default_rng(5)
    table = rng.integers(5, 60, (4, 3))
    results = []
    for declared, scores in (
        ({"a": 4, "b": 3}, None),
        ({"a": list("wxyz"), "b": list("klm")}, None),
        ({"a": [0, 1, 5, 10], "b": [3, 2, 1]}, (range(4), range(3))),
    ):
        domain = Domain.of(declared)
        mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.array([1.5, 2.5])))
        counts = Counts(domain, table)
        results.append(
            (
                test(counts, mechanism, "trend", scores=scores, calibration="asymptotic").summary(),
                derive(counted_table(counts, mechanism), "correlation", scores=scores).summary(),
            )
        )
    assert results[0] == results[1] == results[2]


def test_what_a_kernel_does_not_know_is_asked_for() -> None:
    law = np.full((3, 2), 1 / 6)
    for scores in (None, ([0, 1, 5], None)):
        with pytest.raises(InvalidInput, match="give their domain"):
            alternative_of("trend", law, unrandomized((3, 2)), scores)
    with pytest.raises(InvalidInput, match="has sizes"):
        alternative_of("trend", law, unrandomized((3, 2)), domain=Domain.of({"a": 3, "b": 3}))
    assert alternative_of("trend", law, unrandomized((3, 2)), ([0, 1, 5], [0, 1])).noncentrality == pytest.approx(0)


def test_one_line_says_which_scores_were_used() -> None:
    assert told_scores(["age", "sex"], [(0, 1, 5.5), (0, 1)]) == ["scores of the categories: age 0, 1, 5.5"]
    assert told_scores(["sex"], [(0, 1)], 2) == ["scores of the categories: sex 0, 1"]
    assert told_scores(["sex", "member"], [(0, 1), (0, 1)]) == []
    assert told_scores(["age", "sex"], None) == []
    assert told_scores(["age"], [range(12)])[0].endswith("8, 9, …")
