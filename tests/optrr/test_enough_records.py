"""With as many of the expected reports as a refusal says would be enough, the gate opens, and with half it does not."""

import re

import numpy as np
import pandas as pd
import pytest

from optrr import Counts, Domain, InvalidInput, design
from optrr.models.loglinear.comparing import STRATIFIED, compare_models, stratified_test
from optrr.models.loglinear.estimating import fit_loglinear
from optrr.models.regression import building
from optrr.models.regression.fitting import regress
from optrr.models.tests.homogeneity import goodness_of_fit, homogeneity
from optrr.models.tests.testing import test as independence
from optrr.models.weighted import test_weighted
from optrr.show.text import records_enough, two_digits_up
from optrr.tables.measures import measure

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
    assert "anybody" in records_enough(1e16) and "anybody" in records_enough(float("inf"))


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


@pytest.mark.slow
def test_p_values_and_limits_of_regressions(monkeypatch):
    # the unbiased score's, which is made where predictors have too many cells for the likelihood
    monkeypatch.setattr(building, "MOST_TOGETHER", 0)
    mechanism, pair, table = made(0.6), DOMAIN.subset(["admit", "gender"]), ADMITTED.sum(axis=2)

    def warned(n):
        said = regress(reports(mechanism, n, pair, table), mechanism, "admit ~ gender").warnings
        return [next((w for w in said if w.startswith(of)), None) for of in ("no p-value", "the records do not bound")]

    for k, few in enumerate(warned(400)):
        enough = stated(few)
        assert warned(enough)[k] is None
        assert warned(enough // 2)[k] is not None


def test_regressions_without_a_solution(monkeypatch):
    monkeypatch.setattr(building, "MOST_TOGETHER", 0)
    mechanism = made(0.7)
    rng, said = np.random.default_rng(1), []
    law = mechanism.kernel(DOMAIN.names).expected(ADMITTED / ADMITTED.sum()).ravel()
    for _ in range(4):
        counts = Counts(DOMAIN, rng.multinomial(200, law).reshape(ADMITTED.shape))
        try:
            said += [w for w in regress(counts, mechanism, "admit ~ gender + dept").warnings if "no solution" in w]
        except InvalidInput as refused:
            said.append(str(refused))
    assert said
    assert all(re.search(r"(about|more than) \d+ records would|nobody|anybody", each) for each in said)


def test_measures_that_say_next_to_nothing():
    mechanism = made(1.0)
    pair, table = DOMAIN.subset(["admit", "gender"]), ADMITTED.sum(axis=2)

    def warnings(n):
        return measure(reports(mechanism, n, pair, table), mechanism, "odds-ratio").warnings

    (said,) = warnings(60)
    assert not warnings(stated(said))
    assert warnings(stated(said) // 2)


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
