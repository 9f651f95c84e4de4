"""Measures of dependence, and learning them from randomized records, against dense linear algebra and scipy."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats.contingency import association

from optrr.designs.dependence import (
    RandomizedPair,
    bias_corrected_v,
    cramers_v,
    dependences_from_randomized,
    dependences_of,
    pearson,
    phi_squared,
)
from optrr.designs.solving import design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import SingularMarginal
from optrr.mechanisms.mechanism import Mechanism
from optrr.ways.secure_sum import (
    SecureSumFailed,
    cells_of,
    checked_margins,
    dependences_by_randomized_pairs,
    dependences_by_secure_sum,
    pair_vector,
    randomized_pairs_account,
    securely_summed,
    tables_of,
    tallied,
)
from optrr_solvers.laws import ProductLaw
from optrr_solvers.laws.few_changes import joint_law


def random_table(rng, shape):
    return rng.integers(0, 60, shape) + np.eye(*shape, dtype=np.int64) * 80


def test_v_is_scipys():
    rng = np.random.default_rng(1)
    for shape in ((2, 2), (3, 5), (6, 2)):
        table = random_table(rng, shape) + 1
        assert cramers_v(table) == pytest.approx(association(table, method="cramer"), rel=1e-12)
        assert phi_squared(table) == pytest.approx(
            association(table, method="pearson") ** 2 / (1 - association(table, method="pearson") ** 2), rel=1e-10
        )


def test_pearson_is_numpys_on_the_records():
    rng = np.random.default_rng(2)
    table = random_table(rng, (4, 3))
    records = [(a, b) for a in range(4) for b in range(3) for _ in range(table[a, b])]
    r = np.corrcoef(np.asarray(records).T)[0, 1]
    assert pearson(table, (np.arange(4.0), np.arange(3.0))) == pytest.approx(abs(r), rel=1e-12)


def test_measures_at_the_ends():
    assert cramers_v(np.outer([2, 3], [1, 4, 5])) == pytest.approx(0, abs=1e-7)
    assert cramers_v(np.diag([3, 4, 5])) == 1.0
    assert cramers_v([[5, 0], [0, 0]]) == 0.0
    three, two = np.arange(3.0), np.arange(2.0)
    assert pearson(np.diag([3, 4, 5]), (three, three)) == pytest.approx(1.0)
    assert pearson([[3, 4], [0, 0]], (two, two)) == 0.0


def test_bias_correction_takes_the_samples_own_dependence_off():
    # 2000 independent 4x5 tables of 100 records: V is around 0.2 by chance alone, the corrected V mostly 0
    rng = np.random.default_rng(3)
    tables = rng.multinomial(100, np.full(20, 1 / 20), size=2000).reshape(-1, 4, 5)
    plain = np.mean([phi_squared(t) for t in tables])
    assert plain == pytest.approx(12 / 99, rel=0.05)
    corrected = [bias_corrected_v(t, 100) for t in tables]
    assert np.median(corrected) < 0.06
    assert np.median([cramers_v(t) for t in tables]) > 0.15
    assert bias_corrected_v(np.diag([40, 30, 30]), 100) == pytest.approx(1.0)


@pytest.mark.parametrize("table", [np.zeros((2, 2)), [[1, -1], [1, 1]], [[1, 2]], [1, 2]])
def test_no_dependence_of_no_table(table):
    with pytest.raises(InvalidInput, match="two-way table"):
        cramers_v(table)
    with pytest.raises(InvalidInput, match="at least 2 records"):
        bias_corrected_v(np.ones((2, 2)), 1)


@pytest.fixture(params=["kronecker", "optimum", "joint"])
def mechanism(request):
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    match request.param:
        case "kronecker":
            return Mechanism(domain, ProductLaw(domain.sizes, np.array([1.0, 2.0, 0.5])))
        case "optimum":
            return design(domain, [1.0, 2.0, 0.5], preserve="pairs").mechanism
        case _:
            return Mechanism(domain, joint_law(domain.sizes, 3.0))


def influence_variance(matrix, observed, truth, n):
    """Covariance of contrasts by dense algebra: estimate π̂ = P^{-T} λ̂, then the Jacobian of π_ab − π_a π_b."""
    r, c = truth.shape
    inverse = np.linalg.inv(matrix)
    lam = observed.ravel()
    covariance = inverse.T @ (np.diag(lam) - np.outer(lam, lam)) @ inverse / n
    rows, columns = truth.sum(1), truth.sum(0)
    jacobian = np.zeros((r * c, r * c))
    for a in range(r):
        for b in range(c):
            for x in range(r):
                for y in range(c):
                    jacobian[a * c + b, x * c + y] = (a == x and b == y) - (a == x) * columns[b] - (b == y) * rows[a]
    return np.diag(jacobian @ covariance @ jacobian.T).reshape(r, c)


def test_pairs_agree_with_dense_algebra(mechanism):
    rng = np.random.default_rng(4)
    counts = rng.integers(200, 400, (3, 4))
    pair = RandomizedPair.of(counts, mechanism, ("a", "b"))
    matrix = mechanism.matrix(("a", "b"))
    unbiased = np.linalg.solve(matrix.T, (counts / counts.sum()).ravel()).reshape(3, 4)
    assert pair.unbiased == pytest.approx(unbiased, abs=1e-13)
    rows, columns = (np.maximum(unbiased.sum(axis=k), 0) for k in (1, 0))
    truth = np.outer(rows / rows.sum(), columns / columns.sum())
    expected = influence_variance(matrix, counts / counts.sum(), truth, counts.sum())
    assert pair._contrast_variance == pytest.approx(expected, rel=1e-9)


def test_corrected_measures_are_the_true_ones_without_noise(mechanism):
    rng = np.random.default_rng(5)
    truth = random_table(rng, (3, 4)).astype(float)
    truth /= truth.sum()
    # a table so large that its proportions are the expected ones to 1e-15
    expected = (truth.ravel() @ mechanism.matrix(("a", "b"))).reshape(3, 4)
    pair = RandomizedPair.of(np.round(expected * 1e15).astype(np.int64), mechanism, ("a", "b"))
    scores = np.arange(3.0), np.arange(4.0)
    assert pair.corrected() == pytest.approx(cramers_v(truth), rel=1e-6)
    assert pair.corrected(small_sample=True) == pytest.approx(cramers_v(truth), rel=1e-6)
    assert pair.corrected(scores) == pytest.approx(pearson(truth, scores), rel=1e-6)
    assert pair.attenuated() < cramers_v(truth)
    assert pair.attenuated(scores) < pearson(truth, scores)


def records(rng, n):
    """a and b equal, c unrelated, d a noisy copy of a."""
    a = rng.integers(0, 3, n)
    c = rng.integers(0, 4, n)
    d = np.where(rng.random(n) < 0.5, a, rng.integers(0, 3, n))
    return np.stack([a, a, c, d], axis=1)


DOMAIN = Domain.of({"a": 3, "b": 3, "c": 4, "d": 3})


def test_learning_from_randomized_records_ranks_as_the_truth():
    rng = np.random.default_rng(6)
    data = records(rng, 40_000)
    mechanism = Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.full(4, 1.5)))
    randomized = mechanism.perturb_codes(data, 7)
    truth = dependences_of(data, DOMAIN)
    assert math.isinf(truth.account.epsilon)
    attenuated = dependences_from_randomized(randomized, mechanism, correct=False)
    learned = dependences_from_randomized(randomized, mechanism, small_sample=True)
    # standard errors here are near 0.01; five of them
    assert np.abs(learned.matrix - truth.matrix).max() < 0.05
    assert attenuated.of("a", "b") < 0.5
    assert learned.of("a", "b") > 0.95
    assert attenuated.of("a", "b") > attenuated.of("a", "d") > attenuated.of("a", "c")
    assert learned.account.epsilon == pytest.approx(6.0, rel=1e-12)


def test_learning_from_randomized_pairs():
    rng = np.random.default_rng(10)
    data = records(rng, 40_000)
    learned = dependences_by_randomized_pairs(data, DOMAIN, 2.0, random_state=11)
    assert learned.of("a", "b") == pytest.approx(1.0, abs=0.05)
    assert learned.of("a", "d") == pytest.approx(0.5, abs=0.06)
    assert learned.of("a", "c") < 0.08
    # six pairs at 2 nats each; the paper's claim is only quoted
    assert learned.account.epsilon == pytest.approx(12.0)
    assert "MDR counts each attribute once instead of 3 times" in learned.account.steps[0].warning


def test_the_account_of_randomized_pairs_is_the_sum_of_the_laws():
    # the labels of the six laws, added exactly: at most the account's
    stated = randomized_pairs_account(DOMAIN, 0.7).epsilon
    exact = []
    for names in combinations(DOMAIN.names, 2):
        pair = DOMAIN.subset(names)
        exact.append(joint_law(pair.sizes, 0.7).epsilon)
    assert sum(map(Fraction, exact)) <= Fraction(stated)
    assert stated == pytest.approx(6 * 0.7, rel=1e-12)
    assert stated >= 6 * 0.7


@pytest.mark.parametrize("pair_epsilon", [0.0, -1.0, math.nan, math.inf, 1000.0])
def test_pairs_are_randomized_at_a_sensible_epsilon(pair_epsilon):
    with pytest.raises(InvalidInput, match="pair_epsilon = "):
        dependences_by_randomized_pairs(np.zeros((9, 4), dtype=np.int64), DOMAIN, pair_epsilon)


def test_learning_by_secure_sum_is_exact_and_says_it_is_not_private():
    rng = np.random.default_rng(12)
    data = records(rng, 30)
    tables = checked_margins(securely_summed(cells_of(data, DOMAIN), DOMAIN))
    for (a, b), table in tables.items():
        i, j = DOMAIN.index(a), DOMAIN.index(b)
        expected = np.zeros_like(table)
        for record in data:
            expected[record[i], record[j]] += 1
        assert np.array_equal(table, expected)
    learned = dependences_by_secure_sum(tables, DOMAIN)
    assert np.array_equal(learned.matrix, dependences_of(data, DOMAIN).matrix)
    assert math.isinf(learned.account.epsilon)
    assert "not differentially private" in learned.account.steps[0].warning


def test_tables_that_disagree_on_a_margin_are_refused():
    data = records(np.random.default_rng(13), 5)
    total = sum(pair_vector(cells, DOMAIN) for cells in cells_of(data, DOMAIN))
    checked_margins(tables_of(total, DOMAIN))
    # a cheat that keeps every table's total but moves one person in one table only
    first = np.flatnonzero(total[:9])[0]
    total[first] -= 1
    total[(first + 3) % 9] += 1
    with pytest.raises(SecureSumFailed, match="disagree on the counts of 'a'"):
        checked_margins(tables_of(total, DOMAIN))


def test_randomized_pairs_under_a_real_secure_sum_give_what_the_tally_gives():
    data = records(np.random.default_rng(15), 25)
    run = [
        dependences_by_randomized_pairs(data, DOMAIN, 3.0, random_state=16, summed=way)
        for way in (tallied, securely_summed)
    ]
    assert np.array_equal(run[0].matrix, run[1].matrix)
    assert run[0].account == run[1].account


def test_a_hidden_pair_is_refused_by_name():
    hidden = design({"a": 2, "b": 2, "c": 2}, 0.5)
    data = np.zeros((50, 3), dtype=np.int64)
    with pytest.raises(SingularMarginal, match="preserve"):
        dependences_from_randomized(data, hidden.mechanism)


def test_strangers_and_single_attributes_are_refused():
    mechanism = Mechanism(DOMAIN, ProductLaw(DOMAIN.sizes, np.full(4, 1.0)))
    with pytest.raises(InvalidInput, match="'z'"):
        dependences_from_randomized(np.zeros((5, 4), dtype=np.int64), mechanism, ordinal=("z",))
    with pytest.raises(InvalidInput, match="at least two attributes"):
        dependences_by_randomized_pairs(np.zeros((5, 1), dtype=np.int64), Domain.of({"a": 2}), 1.0)
    with pytest.raises(InvalidInput, match="at least two attributes"):
        dependences_of(np.zeros((5, 1), dtype=np.int64), Domain.of({"a": 2}))
