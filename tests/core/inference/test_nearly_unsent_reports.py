"""Tests where hardly a report is sent or hardly a record says anything: p-values, levels, and what is said."""

import re

import numpy as np
import pandas as pd
import pytest

from optrr import Counts, Domain, InvalidInput, design
from optrr.analysis.loglinear.comparing import STRATIFIED, compare_models, stratified_test
from optrr.analysis.loglinear.estimating import fit_loglinear
from optrr.analysis.measures import measure
from optrr.analysis.weighted import test_weighted
from optrr.core.display.text import records_enough, two_digits_up
from optrr.core.estimation.distributions import chi_squared_tails
from optrr.core.estimation.table import counted_table
from optrr.core.inference.associations import Trend
from optrr.core.inference.groups import goodness_of_fit, homogeneity
from optrr.core.inference.testing import test as independence
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.genomics.proportions import CONTROLS, Group, proportions_test
from optrr.genomics.score_tests import CopyTables, score_test
from optrr.genomics.tail import saddlepoint

Tested = tuple[np.ndarray, np.ndarray]


def kernel_of(shape: tuple[int, int], epsilons: tuple[float, float]) -> EffectKernel:
    """k-ary randomized response on each of the two attributes."""
    g, s = ((np.exp(e) - 1) / (np.exp(e) + r - 1) for e, r in zip(epsilons, shape, strict=True))
    return EffectKernel(shape, [[1.0, s], [g, g * s]])


def drawn(kernel: EffectKernel, rows: np.ndarray, columns: np.ndarray, n: int, times: int, seed: int) -> np.ndarray:
    """Randomized tables of independent attributes with these margins."""
    law = np.maximum(kernel.forward(np.outer(rows, columns)[None]).ravel(), 0)
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=times).reshape(times, *kernel.sizes)


def genotypes(frequency: float, missing: float | None) -> np.ndarray:
    """In Hardy–Weinberg proportions, with a row of missing calls unless that is None."""
    f, called = frequency, 1.0 - (missing or 0.0)
    known = called * np.array([(1 - f) ** 2, 2 * f * (1 - f), f**2])
    return known if missing is None else np.append(known, missing)


def all_tests(counts: np.ndarray, kernel: EffectKernel) -> dict[str, Tested]:
    """Statistic and p-value of every test of genotypes with one degree of freedom."""
    tables = CopyTables(counts, np.zeros_like(counts))
    groups = {"proportions": Group.of(tables, kernel), "of controls": Group.of(tables, kernel, CONTROLS)}
    out = {"trend": score_test(counts, kernel)}
    return {k: (t.statistic, t.p_value) for k, t in (out | {k: proportions_test(g) for k, g in groups.items()}).items()}


def from_draws(statistic: np.ndarray) -> np.ndarray:
    """The share of the tables whose statistic is larger, with half of those that are as large."""
    known = np.sort(statistic[np.isfinite(statistic)])
    above, at_least = (known.size - np.searchsorted(known, statistic * (1 + e)) for e in (1e-9, -1e-9))
    return (above + at_least) / (2 * known.size)


def test_a_category_that_nobody_is_in_leaves_p_values_in_the_middle_those_of_chi_squared():
    """400 people at 8 nats: the fourth row expects a fifteenth of a report, and of 300 p-values 41 were below 0.01."""
    kernel = kernel_of((4, 2), (8.0, 8.0))
    counts = drawn(kernel, genotypes(0.36, 0.0), np.array([0.5, 0.5]), 400, 2000, 1)
    for name, (statistic, p) in all_tests(counts, kernel).items():
        limit = chi_squared_tails(statistic, 1)
        middle = (limit > 0.02) & np.isfinite(p)
        assert np.abs(np.log(p / limit))[middle].max() < 0.25, name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("missing", [None, 0.0, 0.001])
def test_p_values_are_those_of_the_drawn_null(missing, seed):
    rng = np.random.default_rng(seed)
    n, frequency = int(np.exp(rng.uniform(*np.log([200, 5000])))), np.exp(rng.uniform(*np.log([0.08, 0.5])))
    kernel = kernel_of((3 if missing is None else 4, 2), tuple(rng.uniform(4, 12, size=2)))
    cases = rng.uniform(0.1, 0.5)
    counts = drawn(kernel, genotypes(frequency, missing), np.array([1 - cases, cases]), n, 20_000, seed)
    for name, (statistic, p) in all_tests(counts, kernel).items():
        reference = from_draws(statistic)
        # a hundred larger ones at least: an error of a tenth
        compared = (reference > 0.005) & (reference < 0.3) & np.isfinite(p)
        ratios = np.abs(np.log(p / reference))[compared]
        assert np.median(ratios) < 0.08, name
        # within a factor of two where reports of homozygotes come one by one
        assert np.quantile(ratios, 0.99) < np.log(2), name


@pytest.mark.slow
@pytest.mark.parametrize("missing", [None, 0.0, 0.001, 0.01, 0.05])
def test_levels_in_random_settings(missing):
    rng, rates = np.random.default_rng(int(1000 * (missing or 0.5))), {}
    settings, times = 16, 3000
    for _ in range(settings):
        n, frequency = int(np.exp(rng.uniform(*np.log([200, 5000])))), np.exp(rng.uniform(*np.log([0.02, 0.5])))
        kernel = kernel_of((3 if missing is None else 4, 2), tuple(rng.uniform(1, 12, size=2)))
        cases = rng.uniform(0.1, 0.5)
        counts = drawn(
            kernel, genotypes(frequency, missing), np.array([1 - cases, cases]), n, times, int(rng.integers(1 << 30))
        )
        for name, (_, p) in all_tests(counts, kernel).items():
            known = p[np.isfinite(p)]
            rates.setdefault(name, []).append([np.mean(known <= 0.05), np.mean(known <= 0.001)])
    for name, each in rates.items():
        at_5, at_01 = np.array(each).T
        # 48,000 tables: 5 standard errors (false alarm 6e-7 each) and a twentieth; at 0.1 % within a factor of two
        assert abs(at_5.mean() - 0.05) < 0.005 + 0.0025, name
        assert 0.0005 < at_01.mean() < 0.002, name
        # 3000 tables of each setting, of which some have steps of single reports
        assert at_5.min() > 0.03, name
        assert at_5.max() < 0.08, name


def test_the_trend_in_any_table_with_a_category_that_nobody_is_in():
    kernel = kernel_of((5, 2), (9.0, 9.0))
    counts = drawn(kernel, np.array([0.2, 0.3, 0.3, 0.2, 0.0]), np.array([0.4, 0.6]), 600, 20_000, 3).astype(float)
    tested = Trend(kernel).tested(counts)
    p = saddlepoint(Trend(kernel), counts, tested).p_value
    reference = from_draws(tested.statistic)
    compared = (reference > 0.005) & (reference < 0.3)
    assert np.quantile(np.abs(np.log(p / reference))[compared], 0.99) < 0.2


def test_a_share_held_at_0_is_not_a_condition():
    """Under noise that leaves little of the status, shares of cells come out negative: given that they did not, no table is."""
    kernel = kernel_of((3, 2), (10.3, 1.4))
    counts = drawn(kernel, genotypes(0.022, None), np.array([0.65, 0.35]), 1296, 6000, 1)
    p = all_tests(counts, kernel)["of controls"][1]
    # χ² rejects 1.2 %; twice the level and 5 standard errors (false alarm 6e-7)
    assert np.mean(p <= 0.001) < 0.002 + 5 * np.sqrt(0.001 / p.size)


def test_expected_is_of_cells_that_somebody_can_be_in():
    kernel, frequency = kernel_of((4, 2), (8.0, 8.0)), 0.4
    two = drawn(kernel, genotypes(frequency, 0.0), np.array([0.5, 0.5]), 400, 20, 4)
    assert score_test(two, kernel).expected.min() > 20


# Admissions to Berkeley in 1973 by admission, gender and department (Bickel, Hammel & O'Connell, Science 187, 1975).
ADMITTED = np.array(
    [
        [[512, 353, 120, 138, 53, 22], [89, 17, 202, 131, 94, 24]],
        [[313, 207, 205, 279, 138, 351], [19, 8, 391, 244, 299, 317]],
    ]
)
DOMAIN = Domain.of({"admit": 2, "gender": 2, "dept": 6})


def reports(mechanism, n, domain=DOMAIN, table=ADMITTED):
    """Expected counts of n reports, rounded to records."""
    return Counts(domain, np.rint(mechanism.kernel(domain.names).expected(table / table.sum()) * n).astype(np.int64))


def made(epsilon):
    return design(DOMAIN, epsilon, method="kronecker").mechanism


def stated(said):
    """The number of records in a sentence."""
    (number,) = re.findall(r"about (\d+) records would do", said)
    return int(number)


def refusal(ask):
    with pytest.raises(InvalidInput) as refused:
        ask()
    return str(refused.value)


@pytest.mark.parametrize(
    ("n", "rounded"), [(0.3, 1), (7, 7), (99, 99), (100, 100), (101, 110), (1234, 1300), (9999, 10_000)]
)
def test_numbers_are_rounded_up_to_two_digits(n, rounded):
    assert two_digits_up(n) == rounded


def test_numbers_that_nobody_has_are_not_printed():
    for n in (1e16, float("inf")):
        assert "than any survey has" in records_enough(n)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATIFIED)
@pytest.mark.parametrize(("epsilon", "few"), [(0.5, 45_260), (1.5, 300)])
def test_tests_within_strata(name, epsilon, few):
    mechanism = made(epsilon)

    def said(n):
        """What the test refuses, or warns of where it has a p-value all the same."""
        if name == "same-odds-ratios":
            return refusal(lambda: stratified_test(reports(mechanism, n), mechanism, name, random_state=1))
        lines = stratified_test(reports(mechanism, n), mechanism, name, random_state=1).warnings
        return next(line for line in lines if "strong associations" in line)

    n = stated(said(few))
    assert n > few
    result = stratified_test(reports(mechanism, n), mechanism, name, random_state=1)
    assert not any("strong associations" in line for line in result.warnings)
    said(n // 2)


def test_models_and_their_intervals():
    mechanism = made(1.0)
    small, large = [("admit", "gender"), ("dept",)], [("admit", "gender"), ("gender", "dept")]
    n = stated(refusal(lambda: compare_models(reports(mechanism, 100), mechanism, small, large)))
    compare_models(reports(mechanism, n), mechanism, small, large, random_state=1)
    refusal(lambda: compare_models(reports(mechanism, n // 2), mechanism, small, large))
    n = stated(fit_loglinear(reports(mechanism, 100), mechanism, small).without_intervals)
    assert not fit_loglinear(reports(mechanism, n), mechanism, small).without_intervals
    assert fit_loglinear(reports(mechanism, n // 2), mechanism, small).without_intervals


def test_weighted_tests_name_the_category():
    mechanism = made(1.0)

    def asked(n):
        table = reports(mechanism, n).table
        codes = np.repeat(np.indices(table.shape).reshape(3, -1).T, table.ravel(), axis=0)
        frame = pd.DataFrame({name: codes[:, i] for i, name in enumerate(DOMAIN.names)}).assign(w=1.0)
        return test_weighted(frame, mechanism, ["admit", "dept"], weights="w")

    said = refusal(lambda: asked(600))
    assert "dept = 4" in said
    asked(stated(said))
    refusal(lambda: asked(stated(said) // 2))
    faint = refusal(lambda: asked(100))
    assert re.search(r"more than \d+ records would be needed", faint)


def test_measures_that_say_next_to_nothing():
    mechanism = made(1.0)
    pair, table = DOMAIN.subset(["admit", "gender"]), ADMITTED.sum(axis=2)

    def warnings(n):
        return measure(counted_table(reports(mechanism, n, pair, table), mechanism), "odds-ratio").warnings

    (said,) = warnings(60)
    assert "almost no information on" in said and not warnings(60_000)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_records_test_nothing(n):
    mechanism = made(1.0)
    one = np.zeros((2, 2, 6), dtype=np.int64)
    one[0, 0, 0] = n
    whole = Counts(DOMAIN, one)
    pair = Counts(DOMAIN.subset(["admit", "gender"]), one.sum(axis=2))
    single = Counts(DOMAIN.subset(["admit"]), one.sum(axis=(1, 2)))
    small, large = [("admit",), ("gender",)], [("admit", "gender")]
    for ask in (
        lambda: independence(pair, mechanism),
        lambda: goodness_of_fit(single, mechanism, [0.5, 0.5]),
        lambda: stratified_test(whole, mechanism),
        lambda: compare_models(pair, mechanism, small, large),
    ):
        assert re.search("count at least 2|counts no records" if n == 0 else "count at least 2", refusal(ask))
    assert (
        homogeneity([single, single], mechanism).n == 2
        if n
        else "no records" in refusal(lambda: homogeneity([single, single], mechanism))
    )


def test_two_records_test_goodness_of_fit():
    assert goodness_of_fit(Counts(Domain.of({"admit": 2}), np.array([1, 1])), made(1.0), [0.5, 0.5]).p_value == 1
