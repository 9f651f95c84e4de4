"""Measures of dependence and clusterings: against dense linear algebra, scipy, and literal or exhaustive references."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats.contingency import association

from optrr.core.design.solving import Constraints, design
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import SingularMarginal
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols import clustering
from optrr.core.protocols.dependence import (
    Dependences,
    RandomizedPair,
    bias_corrected_v,
    cramers_v,
    dependences_from_randomized,
    dependences_of,
    pearson,
    phi_squared,
)
from optrr.studies import secure_sum
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
            return design(domain, [1.0, 2.0, 0.5], constraints=Constraints(preserve="pairs")).mechanism
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
    randomized = mechanism.randomize_codes(data, 7)
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


def test_the_account_of_randomized_pairs_is_the_sum_of_the_laws():
    # the labels of the six laws, added exactly: at most the account's
    account = secure_sum.randomized_pairs_account(DOMAIN, 0.7)
    stated = account.epsilon
    # the paper's claim is only quoted
    assert "MDR counts each attribute once instead of 3 times" in account.steps[0].warning
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
        secure_sum.dependences_by_randomized_pairs(np.zeros((9, 4), dtype=np.int64), DOMAIN, pair_epsilon)


def test_learning_by_secure_sum_is_exact_and_says_it_is_not_private():
    rng = np.random.default_rng(12)
    data = records(rng, 30)
    tables = secure_sum.securely_summed(secure_sum.cells_of(data, DOMAIN), DOMAIN)
    for (a, b), table in tables.items():
        i, j = DOMAIN.index(a), DOMAIN.index(b)
        expected = np.zeros_like(table)
        for record in data:
            expected[record[i], record[j]] += 1
        assert np.array_equal(table, expected)
    learned = secure_sum.dependences_by_secure_sum(tables, DOMAIN)
    assert np.array_equal(learned.matrix, dependences_of(data, DOMAIN).matrix)
    assert math.isinf(learned.account.epsilon)
    assert "not differentially private" in learned.account.steps[0].warning


def test_randomized_pairs_under_a_real_secure_sum_give_what_the_tally_gives():
    data = records(np.random.default_rng(15), 25)
    run = [
        secure_sum.dependences_by_randomized_pairs(data, DOMAIN, 3.0, random_state=16, summed=way)
        for way in (secure_sum.tallied, secure_sum.securely_summed)
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
        secure_sum.dependences_by_randomized_pairs(np.zeros((5, 1), dtype=np.int64), Domain.of({"a": 2}), 1.0)
    with pytest.raises(InvalidInput, match="at least two attributes"):
        dependences_of(np.zeros((5, 1), dtype=np.int64), Domain.of({"a": 2}))


def literal_algorithm_1(dependence, sizes, t_v, t_d):
    """MDR's Algorithm 1 line by line: the list is rebuilt and sorted after every merge."""
    clusters = [{i} for i in range(len(sizes))]

    def dependence_list():
        pairs = [
            (max(dependence[a][b] for a in c1 for b in c2), -min(c1 | c2), c1, c2)
            for c1, c2 in combinations(clusters, 2)
        ]
        return sorted(pairs, key=lambda p: -p[0])

    listed, at = dependence_list(), 0
    while at < len(listed) and listed[at][0] >= t_d:
        _, _, c1, c2 = listed[at]
        if math.prod(sizes[i] for i in c1 | c2) <= t_v:
            clusters.remove(c1)
            clusters.remove(c2)
            clusters.append(c1 | c2)
            listed, at = dependence_list(), 0
        else:
            at += 1
    return tuple(sorted(tuple(sorted(c)) for c in clusters))


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 400) | st.just(10**400), st.floats(0, 1))
def test_greedy_is_algorithm_1(seed, m, t_v, t_d):
    rng = np.random.default_rng(seed)
    dependence = rng.random((m, m))
    dependence = (dependence + dependence.T) / 2
    sizes = rng.integers(2, 10, m).tolist()
    clusters = clustering.greedy_clusters(dependence, sizes, t_v, t_d)
    assert clusters == literal_algorithm_1(dependence, sizes, t_v, t_d)
    assert all(len(c) == 1 or math.prod(sizes[i] for i in c) <= t_v for c in clusters)


def test_greedy_at_the_ends():
    ones = np.ones((4, 4))
    assert clustering.greedy_clusters(ones, [2, 2, 2, 2], 16, 0.0) == ((0, 1, 2, 3),)
    assert clustering.greedy_clusters(ones, [2, 2, 2, 2], 4, 0.0) == ((0, 1), (2, 3))
    assert clustering.greedy_clusters(np.zeros((4, 4)), [2] * 4, 16, 0.1) == ((0,), (1,), (2,), (3,))
    # an attribute larger than T_v can only stay alone
    assert clustering.greedy_clusters(ones[:2, :2], [50, 2], 10, 0.0) == ((0,), (1,))
    assert clustering.greedy_clusters(ones[:1, :1], [3], 10, 0.0) == ((0,),)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((np.ones((2, 3)), [2, 2], 4, 0.1), "symmetric"),
        ((np.array([[1, 0.2], [0.3, 1]]), [2, 2], 4, 0.1), "symmetric"),
        ((np.ones((2, 2)), [2, 2], 1, 0.1), "allow 2 or more"),
        ((np.ones((2, 2)), [2, 2], 4, 1.5), "from 0 to 1"),
        ((np.ones((2, 2)), [2, 2], 4, math.nan), "from 0 to 1"),
    ],
)
def test_greedy_refuses(arguments, why):
    with pytest.raises(InvalidInput, match=why):
        clustering.greedy_clusters(*arguments)


def blocks(sizes, within=0.8, between=0.05):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    affinity = np.where(labels[:, None] == labels[None, :], within, between)
    np.fill_diagonal(affinity, 1.0)
    return affinity, labels


def same_partition(clusters, labels):
    return sorted(tuple(c) for c in clusters) == sorted(tuple(np.flatnonzero(labels == g)) for g in np.unique(labels))


@pytest.mark.parametrize("sizes", [(2, 3, 4), (5, 2), (3, 6, 10)])
def test_power_iteration_finds_blocks_of_unlike_sizes(sizes):
    affinity, labels = blocks(sizes)
    assert same_partition(clustering.power_iteration_clusters(affinity, len(sizes)), labels)


@pytest.mark.parametrize("sides", [[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 1, 1]])
def test_a_walk_comes_to_rest_where_all_is_alike(sides):
    """Also without edges inside two sides, where a walk that never stays changes sides at every step and has no limit."""
    affinity = np.where(np.not_equal.outer(sides, sides), np.random.default_rng(2).uniform(0.2, 1, (6, 6)), 0.0)
    # if the walk goes on until it is stationary, the vector is constant
    settled = next(v for v, steady in clustering.iterates((affinity + affinity.T) / 2) if steady)
    assert settled == pytest.approx(np.full(6, 1 / 6), abs=1e-3)


def test_power_iteration_finds_uneven_groups_of_few_attributes():
    rng, seen = np.random.default_rng(1), 0
    for _ in range(100):
        labels = rng.permutation([0, 0, 0, 1, 1, 1, 2, 2])
        within, between = rng.uniform(0.3, 0.7, (8, 8)), rng.uniform(0.0, 0.1, (8, 8))
        upper = np.triu(np.where(labels[:, None] == labels[None, :], within, between), 1)
        seen += same_partition(clustering.power_iteration_clusters(upper + upper.T + np.eye(8), 3), labels)
    # one number for an attribute does not tell all of them apart; a walk that never stays finds 53
    assert seen >= 70


@pytest.mark.parametrize("size", range(2, 15))
@pytest.mark.parametrize("strength", [0.1, 0.3, 0.37])
def test_power_iteration_keeps_equally_dependent_attributes_together(size, strength):
    """Sums that differ in their last bits separated 13 attributes with a dependence of 0.3 into two groups."""
    clusters = clustering.power_iteration_clusters(np.full((size, size), strength), 3)
    assert clusters == (tuple(range(size)),)


def dynamic_program(values, k):
    """Least cost of k intervals by the plain recursion over all starts."""
    x = np.sort(values)
    cost = {}
    for e in range(x.size):
        for s in range(e + 1):
            piece = x[s : e + 1]
            cost[s, e] = float(((piece - piece.mean()) ** 2).sum())
    best = [cost[0, e] for e in range(x.size)]
    for _ in range(1, k):
        best = [min([best[s - 1] + cost[s, e] for s in range(1, e + 1)] + [cost[0, e]]) for e in range(x.size)]
    return best[-1]


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_interval_means_are_the_cheapest(k):
    rng = np.random.default_rng(k)
    few = [rng.random(k + m) for m in range(4)]
    for values in (*few, rng.random(80), rng.standard_exponential(80) ** 3, np.round(rng.random(80), 1)):
        labels = clustering.interval_means(values, k)
        groups = [values[labels == g] for g in np.unique(labels)]
        assert len(groups) == min(k, np.unique(values).size)
        cost = sum(float(((g - g.mean()) ** 2).sum()) for g in groups)
        assert cost == pytest.approx(dynamic_program(values, k), abs=1e-10)


@pytest.mark.parametrize("bad", [np.ones((2, 3)), np.array([[0, 2.0], [2.0, 0]]), np.array([[0, np.nan], [np.nan, 0]])])
def test_power_iteration_refuses(bad):
    with pytest.raises(InvalidInput):
        clustering.power_iteration_clusters(bad, 2)
    with pytest.raises(InvalidInput, match="clusters cannot be made"):
        clustering.power_iteration_clusters(np.eye(2), 0)


CLUSTERED = Domain.of({"a": 4, "b": 5, "c": 3, "d": 2})


def dependences():
    matrix = np.eye(4)
    for (i, j), v in {(0, 1): 0.9, (0, 2): 0.5, (1, 2): 0.4, (2, 3): 0.3}.items():
        matrix[i, j] = matrix[j, i] = v
    return Dependences(CLUSTERED.names, matrix)


@pytest.mark.parametrize("algorithm", ["greedy", "pic"])
def test_every_clustering_respects_both_limits(algorithm):
    for t_v in (6, 20, 60, 1000):
        for t_d in (0.0, 0.35, 0.95):
            clusters = clustering.choose_clusters(CLUSTERED, dependences(), t_v, t_d, algorithm)
            clustering.checked_clusters(clusters, CLUSTERED, t_v)
            for cluster in clusters:
                for name in cluster:
                    others = [dependences().of(name, o) for o in cluster if o != name]
                    assert not others or max(others) >= t_d
    assert clustering.choose_clusters(CLUSTERED, dependences(), 20, 0.35, "greedy") == (("a", "b"), ("c",), ("d",))


@pytest.mark.parametrize("algorithm", ["greedy", "pic"])
def test_all_independent_all_identical_and_a_single_attribute(algorithm):
    few = Domain.of({"a": 2, "b": 3, "c": 2})
    many = Domain.of({f"a{i}": 2 for i in range(6)})
    for domain in (few, many):
        apart = Dependences(domain.names, np.eye(domain.m))
        assert clustering.choose_clusters(domain, apart, 100, 0.1, algorithm) == tuple((n,) for n in domain.names)
    # with no more attributes than groups there is nothing to group: Algorithm 1 decides alone
    assert clustering.choose_clusters(few, Dependences(few.names, np.ones((3, 3))), 100, 0.1, algorithm) == (few.names,)
    one = Domain.of({"a": 3})
    assert clustering.choose_clusters(one, Dependences(("a",), [[1.0]]), 100, 0.1, algorithm) == (("a",),)
    same = clustering.choose_clusters(many, Dependences(many.names, np.ones((6, 6))), 16, 0.1, algorithm)
    clustering.checked_clusters(same, many, 16)
    assert same == (many.names[:4], many.names[4:])


def test_choosing_clusters_refuses():
    with pytest.raises(InvalidInput, match="into 0 groups"):
        clustering.choose_clusters(CLUSTERED, dependences(), 20, 0.3, "pic", 0)
    with pytest.raises(InvalidInput, match="clustering 'kmeans' into 3 groups"):
        clustering.choose_clusters(CLUSTERED, dependences(), 20, 0.3, "kmeans")
    with pytest.raises(InvalidInput, match="other attributes"):
        clustering.choose_clusters(Domain.of({"x": 2, "y": 2}), dependences(), 20, 0.3)


@pytest.mark.parametrize(
    ("clusters", "why"),
    [
        ([["a", "b"], ["c"]], "'d' is in no cluster"),
        ([["a", "b"], ["b", "c"], ["d"]], "'b' is in two clusters"),
        ([["a", "b", "c", "z"], ["d"]], "no attribute 'z'"),
        ([["a", "b", "c"], ["d"]], "60 combinations, more than 50"),
        ([[], ["a", "b", "c", "d"]], "no attributes were named"),
    ],
)
def test_given_clusters_are_checked(clusters, why):
    with pytest.raises(InvalidInput, match=why):
        clustering.checked_clusters(clusters, CLUSTERED, 50)


def test_dependences_are_checked():
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        Dependences(("a", "b"), np.array([[1, 1.2], [1.2, 1]]))
    with pytest.raises(InvalidInput, match="symmetric"):
        Dependences(("a", "b"), np.eye(3))
