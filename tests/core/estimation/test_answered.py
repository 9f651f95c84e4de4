"""Measures, tests and models of answers to questions: covariances by enumeration, true records at large ε, levels, commands."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from optrr import InvalidInput
from optrr.allocation.combining import Answered, answered_table, error_where
from optrr.allocation.sampled_tables import SampledTables
from optrr.analysis.estimated import test_estimated
from optrr.analysis.measures import Comparing
from optrr.analysis.measures.measure import asked
from optrr.analysis.measures.quantities import Inversion
from optrr.core.domain.domain import Domain
from optrr.core.estimation.table import Sampling
from optrr.core.inference.groups import goodness_of_fit
from optrr.core.mechanisms.kernel import MatrixKernel
from optrr.core.records.counts import Counts
from optrr_solvers.allocation.questions import SubsetReport
from tests.questions import enumerated, random_asking

DOMAIN = Domain.of({"sex": ["F", "M"], "income": ["low", "mid", "high"], "age": [20, 40, 60, 80]})
SIZES = (2, 3, 4)
POPULATION = np.random.default_rng(1).dirichlet(np.full(24, 3.0)).reshape(SIZES)


def told(asking, wanted, numbers, supports):
    """What ``numbers`` of people said about each table, from supports by table."""
    out = []
    for k, members in enumerate(asking.indices):
        shared = [i for i in members if i in wanted]
        if shared:
            places = tuple(members.index(i) for i in shared), tuple(wanted.index(i) for i in shared)
            out.append(
                Answered(
                    asking.subset_reports[k], asking.shapes[k], asking.answer_epsilon, *places, supports[k], numbers[k]
                )
            )
    return out


def margin(table, kept):
    """Of a table, with axes in the order ``kept``."""
    rest = [i for i in range(table.ndim) if i not in kept]
    return table.transpose([*kept, *rest]).reshape(*(table.shape[i] for i in kept), -1).sum(axis=-1)


def check_covariance(rng):
    """Mean and covariance of the cells under a random population, from every report that there is."""
    asking = random_asking(rng)
    m = asking.domain.m
    wanted = rng.permutation(m)[: int(rng.integers(1, m + 1))].tolist()
    if asking._missing(sorted(wanted)):
        return False
    domain = asking.domain.subset([asking.domain.names[i] for i in wanted])
    numbers = rng.integers(3, 30, len(asking.tables)).tolist()
    population = rng.dirichlet(np.ones(math.prod(asking.domain.sizes))).reshape(tuple(asking.domain.sizes))
    shared = [[i for i in members if i in wanted] for members in asking.indices]
    none = [np.zeros([asking.domain.attributes[i].size for i in s]) for s in shared]
    empty = answered_table(domain, told(asking, wanted, numbers, none))
    mean, covariance = empty.observed.ravel().copy(), 0.0
    for k, members in enumerate(asking.indices):
        if not shared[k]:
            continue
        records, reports, chances = enumerated(asking.shapes[k], asking.answer_epsilon, asking.subset_reports[k])
        own, first, second = margin(population, members), 0.0, 0.0
        for y in reports:
            one = [*none]
            one[k] = asking._counted(k, [np.array([subset]) for subset in y], shared[k])
            weight = answered_table(domain, told(asking, wanted, numbers, one)).observed - empty.observed
            weight = weight.ravel() * numbers[k]
            chance = sum(float(chances[y, x]) * own[x] for x in records)
            first, second = first + chance * weight, second + chance * np.outer(weight, weight)
        mean, covariance = mean + first, covariance + (second - np.outer(first, first)) / numbers[k]
    shaped = margin(population, wanted)
    assert error_where(told(asking, wanted, numbers, none), shaped) == pytest.approx(np.trace(covariance), rel=1e-9)
    true = shaped.ravel()
    np.testing.assert_allclose(mean, true, atol=1e-10)
    np.testing.assert_allclose(empty.sampling.covariance(true), covariance, atol=1e-10 * np.abs(covariance).max())
    return True


def test_covariances_are_those_of_every_report():
    assert sum(check_covariance(np.random.default_rng(seed)) for seed in range(12)) > 3


def people(n, seed=2):
    """True codes of n people and their frame."""
    cells = np.random.default_rng(seed).choice(24, n, p=POPULATION.ravel())
    codes = np.unravel_index(cells, SIZES)
    frame = {a.name: [a.categories[c] for c in column] for a, column in zip(DOMAIN, codes, strict=True)}
    return np.bincount(cells, minlength=24).reshape(SIZES), pd.DataFrame(frame)


def test_without_noise_answers_say_what_true_records_do():
    """At ε = 30 everybody names the own cell: Pearson's statistics, plain odds ratios, and a model's."""
    counts, frame = people(3000)
    whole = SampledTables(DOMAIN, (DOMAIN.names,), np.ones(1), 30.0)
    reports = whole.reports(whole.randomize(frame, random_state=1))
    pair = counts.sum(axis=2)
    pearson = stats.chi2_contingency(pair, correction=False)
    tested = reports.test("sex", "income")
    assert tested.statistic == pytest.approx(pearson.statistic, rel=1e-6) and tested.df == 2
    given = np.full((2, 3), 1 / 6)
    fit = reports.test("sex", "income", proportions=given)
    assert fit.statistic == pytest.approx(stats.chisquare(pair.ravel()).statistic, rel=1e-6)
    x, y = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    r = np.cov(x, y, fweights=pair.ravel())
    square = 3000 * r[0, 1] ** 2 / (r[0, 0] * r[1, 1])
    assert reports.test("sex", "income", hypothesis="trend").statistic == pytest.approx(square, rel=1e-6)
    odds = pair[1, 1] * pair[0, 0] / (pair[1, 0] * pair[0, 1])
    assert reports.measure("odds-ratio", "sex", "income").rows[0].estimate == pytest.approx(odds, rel=2e-3)
    model = reports.model("sex*income")
    assert model.coefficients[3] == pytest.approx(math.log(odds), abs=1e-6)
    error = math.sqrt(sum(1 / pair[i, j] for i in (0, 1) for j in (0, 1)))
    assert model.standard_errors[3] == pytest.approx(error, rel=1e-3)
    assert np.all(model.limits[:, 0] < model.coefficients) and np.all(model.coefficients < model.limits[:, 1])
    # an estimate has no likelihood
    assert (model.log_likelihood, model.aic, model.bic) == (None, None, None) and "AIC" not in str(model)
    # Cochran, Mantel and Haenszel's hypothesis, in each stratum
    each = [stats.chi2_contingency(counts[:, :, k], correction=False).statistic for k in range(4)]
    assert reports.test("sex", "income", given="age").statistic == pytest.approx(sum(each), rel=1e-4)


@pytest.mark.slow
def test_reports_of_one_cell_have_the_law_of_a_matrix():
    """A report that names one cell is a randomized record of the table: same covariances, tests and nearly the same limits."""
    pair = DOMAIN.subset(("sex", "income"))
    asking = SampledTables(pair, (pair.names,), np.ones(1), 1.5, (SubsetReport((1,)),))
    _, frame = people(4000)
    answers = asking.randomize(frame[list(pair.names)], random_state=3)
    table = asking.counted(answers, pair.names)
    named = np.bincount([int(text) for text in answers["cells"].to_pylist()], minlength=6).reshape(2, 3)
    own = math.exp(1.5) / (math.exp(1.5) + 5)
    kernel = MatrixKernel(np.full((6, 6), (1 - own) / 5) + np.eye(6) * (own - (1 - own) / 5), (2, 3))
    np.testing.assert_allclose(table.observed, kernel.solve(named / 4000), atol=1e-9)
    sampling = Sampling(kernel, 4000)
    true = POPULATION.sum(axis=2).ravel()
    np.testing.assert_allclose(table.sampling.covariance(true), sampling.covariance(sampling.expected(true)), rtol=1e-9)
    given = np.full((2, 3), 1 / 6)
    expected = goodness_of_fit(Counts(pair, named), kernel, given)
    assert test_estimated(table, "goodness-of-fit", proportions=given).statistic == pytest.approx(expected.statistic)
    for name in ("odds-ratio", "risk-difference", "row-proportions"):
        for _, odds in asked(pair, name, Comparing()):
            limits = Inversion.of(odds, table.sampling, table.observed.ravel()).limits(0.025)
            np.testing.assert_allclose(
                limits, Inversion.of(odds, sampling, named.ravel() / 4000).limits(0.025), atol=3e-3
            )


ASKING = SampledTables(DOMAIN, (("sex", "income"), DOMAIN.names, ("age",)), np.array([0.5, 0.3, 0.2]), 1.5)


def test_axes_are_in_the_order_that_is_asked_for():
    _, frame = people(4000)
    reports = ASKING.reports(ASKING.randomize(frame, random_state=5))
    one, other = (ASKING.counted(reports, names) for names in (("sex", "income"), ("income", "sex")))
    np.testing.assert_allclose(one.observed, other.observed.T)
    assert reports.measure("row-proportions", "income", "sex").attributes == ("income", "sex")
    assert reports.test("sex", "income").statistic == pytest.approx(reports.test("income", "sex").statistic)
    together = reports.table("sex", "income", simultaneous=True)
    alone = reports.table("sex", "income")
    assert together.simultaneous and (together.lower < alone.lower).all() and (together.upper > alone.upper).all()
    assert reports.table("sex", "income", where={"income": ["low", "high"]}).estimate.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r: r.table("sex", method="mle"), "``method``: 'mle' is not defined for answers"),
        (lambda r: r.test("sex", "income", calibration="bootstrap"), "``calibration``: not available"),
        (lambda r: r.test("sex", "income", hypothesis="genotypic"), "have no test 'genotypic'"),
        (lambda r: r.test("sex", "income", "age"), "is of two attributes"),
        (
            lambda r: r.test("sex", "income", hypothesis="goodness-of-fit", proportions=[0.5, 0.5]),
            "of shape \\(2, 3\\)",
        ),
        (lambda r: r.test("sex", "income", hypothesis="trend", given="age"), "leave this argument out for trend"),
        (lambda r: r.model(stepwise=2, attributes=("sex", "income")), "give terms"),
        (lambda r: r.synthesize(10), "collect whole records"),
        (lambda r: r.synthesize(10, margins="income ~ sex", sets=3), "collect whole records"),
    ],
)
def test_what_answers_do_not_tell_is_refused(ask, said):
    _, frame = people(500)
    with pytest.raises(InvalidInput, match=said):
        ask(ASKING.reports(ASKING.randomize(frame, random_state=5)))
