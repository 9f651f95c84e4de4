"""`optrr.estimate`: every method on every kind of mechanism, adjusted whole files, queries, and the papers' measures."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import optrr
from optrr import Attribute, Constraints, Counts, Domain, InvalidInput, Mechanism, count, design
from optrr.analysis.weighting.estimating import estimate_weighted
from optrr.core.domain import datasets
from optrr.core.estimation import accuracy
from optrr.core.estimation.adjustment import adjust
from optrr.core.estimation.estimator import METHODS, estimate, estimate_adjusted
from optrr.core.estimation.plausibility import FALSE_ALARMS, Observed, impossible, impossible_tables, log_chance_bound
from optrr.core.estimation.simplex import clip, projection
from optrr.core.inference.groups import homogeneity
from optrr.core.mechanisms.kernel import EffectKernel, SingularMarginal
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.core.protocols import Collector, rr_clusters, rr_independent
from optrr.core.protocols.protocol import cluster_design, of_design
from optrr.core.records.counts import distinct
from optrr_solvers.laws import ProductLaw
from tests import naive

DOMAIN = Domain.of({"a": ["x", "y", None], "b": 2, "c": 3})


@pytest.fixture(scope="module")
def mechanism():
    return design(DOMAIN, [1.0, 1.0, 1.2], constraints=Constraints(preserve="pairs")).mechanism


def counts_of(mechanism, names, pi, n, seed=0):
    kernel = mechanism.kernel(names)
    draws = np.random.default_rng(seed).multinomial(n, kernel.expected(pi).ravel())
    return Counts(mechanism.domain.subset(names), draws.reshape(kernel.sizes))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_comes_near_the_truth_with_many_records(mechanism, method):
    # nearly independent, so that "adjusted", which weakens associations, also comes near the truth
    pi = np.array([[0.3, 0.2], [0.2, 0.1], [0.12, 0.08]])
    estimated = estimate(counts_of(mechanism, ("a", "b"), pi, 4_000_000), mechanism, method=method)
    # the largest standard error is 0.0007; five of them, and what "adjusted" leaves out of the association
    assert np.abs(estimated.estimate - pi).max() < 0.0035 + 0.01 * (method == "adjusted")
    assert estimated.estimate.sum() == pytest.approx(1)
    assert estimated.bias and (method == "unbiased" or estimated.estimate.min() >= 0)


@pytest.mark.parametrize("method", METHODS)
def test_results_can_be_written(mechanism, method):
    pi = np.array([[0.6, 0.0], [0.2, 0.1], [0.1, 0.0]])
    estimated = estimate(counts_of(mechanism, ("a", "b"), pi, 500), mechanism, method=method)
    read = json.loads(json.dumps(estimated.summary()))
    assert {"attributes", "categories", "estimate", "standard_error", "n"} <= set(read)
    assert read["categories"] == [["x", "y", None], [0, 1]] and np.shape(read["estimate"]) == (3, 2)
    table = estimated.to_arrow().to_pydict()
    assert table["a"] == ["x", "x", "y", "y", None, None] and table["b"] == ["0", "1"] * 3
    np.testing.assert_array_equal(np.reshape(table["estimate"], (3, 2)), estimated.estimate)


def test_a_column_called_estimate_keeps_its_name():
    domain = Domain.of({"estimate": 2})
    estimated = estimate(Counts(domain, np.array([30, 70])), design(domain, 1.0).mechanism)
    assert estimated.to_arrow().column_names[:2] == ["estimate", "estimate_"]


def test_rij_example_corrected():
    """RIJ §3.3, as corrected: (P⊗P)⁻¹(.3,.2,.2,.3) = (.45,.05,.05,.45), V = 0.8, MAE = 0.075."""
    domain = Domain.of({"A": 2, "B": 2})
    made = Mechanism(domain, ProductLaw(domain.sizes, np.full(2, np.log(3.0))))  # keeps with probability 3/4
    estimated = estimate(Counts(domain, np.array([[3, 2], [2, 3]])), made)
    np.testing.assert_allclose(estimated.estimate, [[0.45, 0.05], [0.05, 0.45]], atol=1e-15)
    rows, columns = estimated.estimate.sum(1), estimated.estimate.sum(0)
    e = np.outer(rows, columns)
    assert np.sqrt(((estimated.estimate - e) ** 2 / e).sum()) == pytest.approx(0.8)
    truth = np.array([[0.4, 0.0], [0.2, 0.4]])
    assert np.abs(estimated.estimate - truth).mean() == pytest.approx(0.075)


def test_rvl_binary_formulas():
    """RVL eqs. 6 and 7: the one-attribute estimate and its variance."""
    domain = Domain.of({"A": 2})
    p, n, ones = 0.8, 500, 190
    made = Mechanism(domain, ProductLaw(domain.sizes, np.array([np.log(p / (1 - p))])))
    estimated = estimate(Counts(domain, np.array([n - ones, ones])), made)
    value = (p - 1) / (2 * p - 1) + ones / n / (2 * p - 1)
    variance = value * (1 - value) / (n - 1) + (1 / (16 * (p - 0.5) ** 2) - 0.25) / (n - 1)
    assert estimated.estimate[1] == pytest.approx(value, abs=1e-14)
    assert estimated.standard_error[1] ** 2 == pytest.approx(variance, rel=1e-12)


def test_general_matrices_are_estimated_through_the_same_door():
    domain, p = Domain.of({"A": 3}), [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]
    custom = MatrixMechanism(domain, (from_probabilities(p),))
    lam = np.array([420, 330, 250])
    estimated = estimate(Counts(domain, lam), custom)
    np.testing.assert_allclose(np.array(p).T @ estimated.estimate, lam / 1000)
    assert estimate(Counts(domain, lam), custom, method="mle").convergence.converged


def test_what_cannot_be_estimated_is_refused_or_said():
    domain = Domain.of({"x": 2, "y": 2, "z": 2})
    hidden = design(domain, 0.5).mechanism
    counts = Counts(domain.subset(["x", "y"]), np.array([[30, 20], [20, 30]]))
    for method in ("unbiased", "norm-sub", "clip", "projection"):
        with pytest.raises(SingularMarginal, match="preserve='pairs'"):
            estimate(counts, hidden, method=method)
    for method in ("ibu", "mle", "adjusted"):
        estimated = estimate(counts, hidden, method=method)
        assert estimated.interval == "none" and np.isnan(estimated.standard_error).all()
        assert "not identified" in estimated.warnings[0]
        assert np.isnan(estimated.lower).all()
        assert json.loads(json.dumps(estimated.summary()))["standard_error"] == [[None, None], [None, None]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "choose among unbiased"),
        ({"confidence": 1.0}, "below 1"),
        ({"target": "people"}, "'population' or 'data'"),
    ],
)
def test_bad_arguments_are_refused(mechanism, change, message):
    counts = Counts(DOMAIN.subset(["b"]), np.array([3, 4]))
    with pytest.raises(InvalidInput, match=message):
        estimate(counts, mechanism, **change)


def test_other_categories_and_too_few_records_are_refused(mechanism):
    with pytest.raises(InvalidInput, match="'b' has other categories"):
        estimate(Counts(Domain.of({"b": ["no", "yes"]}), np.array([3, 4])), mechanism)
    with pytest.raises(InvalidInput, match="count at least 2"):
        estimate(Counts(DOMAIN.subset(["b"]), np.array([0, 1])), mechanism)


def test_reports_that_are_all_alike_show_no_standard_error():
    """Their sample variance is 0, which is no standard error. Intervals need none: they have the variance of what they test."""
    domain = Domain.of({"a": 3, "b": 2})
    mechanism = design(domain, 2.0, method="kronecker").mechanism
    alike = Counts(domain, np.array([[40, 0], [0, 0], [0, 0]]))
    estimated = estimate(alike, mechanism)
    assert np.isnan(estimated.standard_error).all() and np.all(estimated.upper - estimated.lower > 0.01)
    assert estimated.interval == "score" and "6 of 6 cells have no standard error" in estimated.warnings[0]
    assert estimated.summary()["standard_error"][0][0] is None
    # one attribute: nobody reported category 2, and reports of all other categories have the same weight in its estimate
    some = estimate(Counts(domain.subset("a"), np.array([30, 10, 0])), mechanism)
    assert np.isnan(some.standard_error).tolist() == [False, False, True]
    # around exactly these records only the randomization varies, and that is known
    assert np.isfinite(estimate(alike, mechanism, target="data").standard_error).all()


@pytest.mark.parametrize("epsilon", [1.0, 6.0, 8.0, 15.0, 20.0, 30.0, 40.0])
def test_rounding_is_no_standard_error_however_little_is_randomized(epsilon):
    """What reports count for a category that nobody reports is tiny at large ε; such errors were 0 or 10⁻⁹, without a word."""
    for size in (3, 5):
        mechanism = design({"a": size}, epsilon).mechanism
        for table in ([20, 30], [700, 300], [7, 0, 11]):
            counts = np.pad(table, (0, size - len(table)))
            some = estimate(Counts(mechanism.domain, counts), mechanism)
            assert (np.isnan(some.standard_error) == (counts == 0)).all()
            assert f"{np.sum(counts == 0)} of {size} cells have no standard error" in " ".join(some.warnings) or all(
                counts
            )
            frame = pd.DataFrame({"a": np.repeat(np.arange(size), counts), "w": 1.0})
            weighted = estimate_weighted(frame, mechanism, "a", weights="w").table
            assert (np.isnan(weighted.standard_error) == (counts == 0)).all()
    # one report in a billion is no rounding
    rare = estimate(Counts(mechanism.domain, np.array([10**9, 1, 0, 0, 0])), mechanism)
    assert np.isnan(rare.standard_error).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("seed", range(5))
def test_projections_are_the_nearest_distributions(seed):
    cvxpy = pytest.importorskip("cvxpy")
    x = np.random.default_rng(seed).normal(0.1, 0.3, size=12)
    near = cvxpy.Variable(12)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(near - x)), [near >= 0, cvxpy.sum(near) == 1]).solve("CLARABEL")
    np.testing.assert_allclose(projection(x), near.value, atol=1e-6)
    # sorting and Norm-Sub's rounds are different ways to one point
    np.testing.assert_allclose(naive.norm_sub(x), projection(x), atol=1e-14)
    assert np.abs(clip(x) - projection(x)).max() > 1e-3  # MDR §6.4's procedure is not the nearest
    np.testing.assert_allclose(clip(x), np.where(x > 0, x, 0) / x[x > 0].sum())


def test_simplex_methods_take_batches_and_keep_distributions():
    rows = np.random.default_rng(1).normal(0.1, 0.3, size=(4, 7, 5))
    for function in (projection, naive.norm_sub):
        np.testing.assert_allclose(function(rows)[2, 3], function(rows[2, 3]), atol=1e-15)
        proper = np.random.default_rng(2).dirichlet(np.ones(6))
        np.testing.assert_allclose(function(proper), proper, atol=1e-15)
    with pytest.raises(InvalidInput, match="no cell is positive"):
        clip([-1.0, -2.0])


@pytest.mark.parametrize(
    ("names", "v", "printed", "unit"),
    [
        (("sex", "income"), 0.2159802, 0.00188, 1e-5),
        (("sex", "race"), 0.1181155, 0.00011, 1e-5),
        (("education", "occupation"), 0.1873341, 2.14e-5, 1e-7),
    ],
)
def test_rij_table_1(names, v, printed, unit):
    """Adult, retained with p = 0.5: V and the MSE of RR-Ind as printed (cut, not rounded).

    RR-Ind-Joint is exact on expectations, which alone explains the printed errors near 1e-33.
    """
    counts = count(datasets.adult(), datasets.adult_domain(), names, allow_extra=True)
    pi = counts.proportions
    assert counts.n == 32561
    kernel = EffectKernel(pi.shape, np.outer([1, 0.5], [1, 0.5]))
    solved = kernel.solve(kernel.forward(pi))
    product = np.outer(solved.sum(1), solved.sum(0))
    chi = ((pi - product) ** 2 / product).sum()
    assert np.sqrt(chi / (min(pi.shape) - 1)) == pytest.approx(v, abs=5e-8)
    assert printed <= np.mean((product - pi) ** 2) < printed + unit
    assert np.mean((solved - pi) ** 2) < 1e-32


def test_the_wrong_kind_of_argument_is_named_with_the_right_one():
    domain = Domain.of({"a": 2, "b": 3})
    made = design(domain, 1.0)
    counts = Counts(domain, np.full((2, 3), 10))
    for call, message in (
        (lambda: estimate(counts, made), "got a Design for a mechanism; give a Mechanism, such as design.mechanism"),
        (lambda: estimate({"a": [0]}, made.mechanism), "got a dict for counts; count records first"),
        (lambda: Domain.of(["a"]), "got a list for a domain"),
        (lambda: design(domain, "much"), "epsilons are numbers of nats"),
        (lambda: made.mechanism.randomize({"a": 0, "b": 1}), "cannot read records from a dict"),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()


def product(sizes, epsilons):
    domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
    return Mechanism(domain, ProductLaw(domain.sizes, np.asarray(epsilons, dtype=float)))


def some_matrix(rng, r):
    p = rng.uniform(0.05, 1, (r, r)) + np.eye(r) * rng.uniform(1, 4)
    return from_probabilities(p / p.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_against_enumeration(seed):
    """Every output of a few people, exactly: the chance that the bound is at most α is at most α."""
    rng = np.random.default_rng(seed)
    r, n = 3, 5
    mechanism = MatrixMechanism(Domain.of({"a": r}), (some_matrix(rng, r),))
    kernel, truth = mechanism.kernel("a"), rng.integers(0, r, n)
    p = kernel.matrix()
    chances, bounds = [], []
    cell = int(rng.integers(0, r))
    for outputs in itertools.product(range(r), repeat=n):
        chances.append(np.prod([p[x, y] for x, y in zip(truth, outputs, strict=True)]))
        estimate = float(kernel.solve(np.bincount(outputs, minlength=r) / n)[cell])
        bounds.append(log_chance_bound(kernel, (cell,), estimate, n))
    chances, bounds = np.array(chances), np.exp(bounds)
    assert (bounds < 0.5).any()
    for side in np.unique(bounds):
        # the two sides of 0..1 are two events
        assert chances[bounds <= side].sum() <= 2 * side + 1e-12


def test_the_bound_is_near_the_truth_for_one_binary_attribute():
    # 500 people without the property: the chance that so few say they have it is a binomial tail
    kernel = product([2], [1.0]).kernel("a0")
    flip = 1 / (1 + np.e)
    for said in (60, 80, 100):
        estimate = float(kernel.solve(np.array([500 - said, said]) / 500)[1])
        exact = binom.logcdf(said, 500, flip)
        bound = log_chance_bound(kernel, (1,), estimate, 500)
        # Chernoff's bound loses the square root of the tail's width
        assert exact <= bound <= exact + 4


@pytest.mark.slow
def test_right_data_never_warn():
    """Random settings, true records at the edge of what can be: no warnings; each has one with probability below 1e-6."""
    rng = np.random.default_rng(5)
    for k in range(1500):
        m = int(rng.integers(1, 4))
        sizes = rng.integers(2, 6, m)
        if k % 5 == 0:
            domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
            mechanism = MatrixMechanism(domain, tuple(some_matrix(rng, int(r)) for r in sizes))
        else:
            mechanism = product(sizes, np.exp(rng.uniform(np.log(0.05), np.log(5), m)))
        n = int(np.exp(rng.uniform(np.log(2), np.log(20_000))))
        # mostly a few of the cells, often one: estimates of the others scatter around 0
        cells = rng.choice(int(np.prod(sizes)), size=int(rng.integers(1, 4)))
        codes = np.stack(np.unravel_index(rng.choice(cells, n), sizes), axis=1)
        randomized = mechanism.randomize_codes(codes, int(rng.integers(1 << 30)))
        counts = count(randomized, mechanism.domain, mechanism.domain.names)
        assert impossible([counts], mechanism) == [], (k, sizes, n)


def test_wrong_data_warn():
    rng = np.random.default_rng(2)
    domain = Domain.of({"party": 5, "sex": 2})
    design = optrr.design(domain, 1.0)
    true = np.stack([rng.choice(5, 5000, p=[0.9, 0.04, 0.03, 0.02, 0.01]), rng.integers(0, 2, 5000)], axis=1)
    unrandomized = count(true, domain, ["party", "sex"])
    (line,) = impossible([unrandomized], design.mechanism)
    assert (
        line.startswith("estimates are probably wrong, because this does not look like data")
        and "standard errors" in line
    )
    # a design with far less noise
    other = optrr.design(domain, 6.0).mechanism.randomize_codes(true, 3)
    assert impossible([count(other, domain, "party")], design.mechanism)
    right = design.mechanism.randomize_codes(true, 3)
    assert not impossible([count(right, domain, ["party", "sex"])], design.mechanism)
    # wrong, but possible: noise is added, not taken away
    assert not impossible([count(design.mechanism.randomize_codes(right, 4), domain, "party")], design.mechanism)


def test_many_tables_at_once():
    rng = np.random.default_rng(3)
    mechanism = product([3, 2], [1.0, 1.0])
    kernel = mechanism.kernel(mechanism.domain.names)
    good = np.stack(
        [
            count(mechanism.randomize_codes(rng.integers(0, 2, (2000, 2)), 1), mechanism.domain, ["a0", "a1"]).table
            for _ in range(20)
        ]
    )
    assert impossible_tables([Observed("variants", good, kernel)]) == []
    bad = good.copy()
    bad[7] = [[2000, 0], [0, 0], [0, 0]]
    assert impossible_tables([Observed("variants", bad, kernel)])


def test_what_cannot_be_estimated_says_nothing():
    design = optrr.design({"a": 2, "b": 2, "c": 2}, 0.5)
    table = Counts(design.domain.subset(["a", "b"]), np.array([[1000, 0], [0, 1000]]))
    assert impossible([table], design.mechanism) == []
    few = Counts(design.domain.subset("a"), np.array([1, 0]))
    assert impossible([few], design.mechanism) == []
    assert FALSE_ALARMS <= 1e-6


def test_every_group_is_looked_at():
    domain = Domain.of({"party": 5, "sex": 2})
    design = optrr.design(domain, 1.0)
    rng = np.random.default_rng(4)
    true = np.stack([rng.choice(5, 5000, p=[0.9, 0.04, 0.03, 0.02, 0.01]), rng.integers(0, 2, 5000)], axis=1)
    unrandomized = count(true, domain, ["party", "sex"])
    right = count(design.mechanism.randomize_codes(true, 5), domain, ["party", "sex"])
    for groups in ([unrandomized, right], [right, unrandomized]):
        assert impossible(groups, design.mechanism)
        with pytest.warns(UserWarning, match="does not look like data randomized by this design"):
            homogeneity(groups, design.mechanism, random_state=1)


ADJUSTED = Domain.of({"a": 2, "b": 3, "c": 2, "d": 3})
CLUSTERS = (("a", "c"), ("b",), ("d",))
SIZES = (2, 3, 2, 3)


def true_codes(n, seed=3):
    shares = np.random.default_rng(seed).dirichlet(np.full(36, 0.7))
    cells = np.random.default_rng(seed + 1).choice(36, p=shares, size=n)
    return np.stack(np.unravel_index(cells, SIZES), axis=1)


@pytest.fixture(scope="module")
def first():
    return design(ADJUSTED, [1.0, 1.5, 1.2, 2.0], method="kronecker")


def by_hand(codes, mechanism, groups, names):
    """Algorithm 2 on the distinct records, its margins from dense inverses."""
    rows, numbers = np.unique(codes, axis=0, return_counts=True)
    shares = numbers / len(codes)
    margins = []
    for group in groups:
        p = mechanism.matrix(group)
        seen = count(codes, ADJUSTED, group).proportions
        margins.append(clip(np.linalg.solve(p.T, seen.ravel())).reshape(seen.shape))
    places = [ADJUSTED.indices(g) for g in groups]
    adjusted = adjust(rows, shares, margins, places)
    chosen = ADJUSTED.indices(names)
    out = np.zeros([SIZES[i] for i in chosen])
    np.add.at(out, tuple(rows[:, chosen].T), adjusted.weights)
    return out


@pytest.mark.parametrize("clustered", [False, True])
def test_a_file_is_adjusted_to_the_margins_of_all_attributes_and_of_clusters(first, clustered):
    made = cluster_design(first, CLUSTERS) if clustered else first
    codes = made.mechanism.randomize_codes(true_codes(4000), random_state=5).astype(np.int64)
    groups = CLUSTERS if clustered else [(n,) for n in ADJUSTED.names]
    adjusted = estimate_adjusted(codes, made.mechanism, ("d", "a"))
    np.testing.assert_allclose(adjusted.estimate, by_hand(codes, made.mechanism, groups, ("d", "a")), atol=1e-7)
    collector = Collector(of_design(made).with_adjustment())
    collector.receive_codes(codes)
    theirs = collector.estimate(("d", "a"))
    np.testing.assert_allclose(theirs.estimate, adjusted.estimate, atol=1e-12)
    np.testing.assert_allclose(theirs.lower, adjusted.lower, atol=1e-12)
    # counts of two attributes hold neither the other margins nor the clusters; the estimate says so
    few = estimate(count(codes, ADJUSTED, ("d", "a")), made.mechanism, method="adjusted")
    assert "margins of d, a alone" in few.warnings[0]
    whole = estimate(count(codes, ADJUSTED, ADJUSTED.names), made.mechanism, method="adjusted")
    np.testing.assert_allclose(whole.marginal(("d", "a")), adjusted.estimate, atol=1e-7)
    assert not whole.warnings


def test_errors_are_the_unbiased_estimates_and_intervals_reach_to_the_adjusted_one():
    """A strong association, which adjusting weakens: its own estimates lie far from the truth and from the unbiased one."""
    domain = Domain.of({"a": 2, "b": 2})
    made = Mechanism(domain, ProductLaw(domain.sizes, np.array([1.5, 1.5])))
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [2000, 500, 500, 2000], axis=0)
    out = made.randomize_codes(codes, random_state=1).astype(np.int64)
    adjusted = estimate_adjusted(out, made, ("a", "b"))
    plain = estimate(count(out, domain, ("a", "b")), made)
    assert np.abs(adjusted.estimate - plain.estimate).min() > 5 * plain.standard_error.max()
    np.testing.assert_array_equal(adjusted.standard_error, plain.standard_error)
    np.testing.assert_array_equal(adjusted.lower, np.minimum(plain.lower, adjusted.estimate))
    np.testing.assert_array_equal(adjusted.upper, np.maximum(plain.upper, adjusted.estimate))
    assert "moved outwards where the adjusted estimate lies beyond" in adjusted.interval_note


def test_the_collector_has_errors_that_hold_where_independence_does_not():
    codes = true_codes(5000)
    truth = count(codes, ADJUSTED, ("a", "b")).proportions
    covered = []
    for protocol in (rr_independent(ADJUSTED, 2.0), rr_clusters(ADJUSTED, CLUSTERS, 2.0)):
        for seed in range(5):
            collector = Collector(protocol)
            collector.receive_codes(protocol.mechanism.randomize_codes(codes, random_state=seed).astype(np.int64))
            estimated = collector.estimate(("a", "b"), simultaneous=True)
            plain = estimate(collector_counts(collector, ("a", "b")), protocol.mechanism, simultaneous=True)
            np.testing.assert_allclose(estimated.standard_error, plain.standard_error)
            np.testing.assert_array_equal(estimated.upper, np.maximum(plain.upper, estimated.estimate))
            covered.append(bool(np.all((estimated.lower <= truth) & (truth <= estimated.upper))))
    # ten times all six cells, at 95 % for the population and more for these very records; two misses have probability 9 %
    assert sum(covered) >= 9
    with pytest.raises(InvalidInput, match="give a number above 0 and below 1"):
        collector.estimate(("a",), confidence=2.0)


def collector_counts(collector, names):
    rows, numbers = collector.records()
    return count(np.repeat(rows, numbers, axis=0), ADJUSTED, names)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(3, 2, 2, 4), (40, 30, 20, 10)], ids=["few cells", "more cells than a chunk holds"])
def test_distinct_records_are_found_in_one_pass_over_chunks(sizes):
    domain = Domain(tuple(Attribute(f"a{k}", tuple(map(str, range(size)))) for k, size in enumerate(sizes)))
    codes = np.random.default_rng(3).integers(0, sizes, size=(300_000, len(sizes)))  # three chunks
    rows, numbers = distinct(codes, domain)
    expected, shares = np.unique(codes, axis=0, return_counts=True)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(numbers, shares)
    with pytest.raises(InvalidInput, match="no records"):
        distinct(np.zeros((0, len(sizes)), dtype=np.int64), domain)


QUERIED = Domain.of({"a": ["x", "y", "z"], "b": 2, "c": 2})


@pytest.fixture(scope="module")
def queried_by():
    return design(QUERIED, [1.0, 1.0, 1.2], constraints=Constraints(preserve="pairs")).mechanism


def test_mdr_errors():
    """MDR §2.3: B is the upper α/r quantile of χ²_1, that is z² at α/(2r); §3.2: e_rel above 200 % where n = r."""
    assert accuracy.bonferroni_quantile(10) == pytest.approx(norm.isf(0.0025) ** 2)
    lam, n = np.array([0.5, 0.3, 0.2]), 400
    z = norm.isf(0.05 / 6)
    assert accuracy.absolute_error(lam, n) == pytest.approx(z * np.sqrt(0.25 / 400))
    assert accuracy.relative_error(lam, n) == pytest.approx(z * np.sqrt(0.8 / 0.2 / 400))
    assert accuracy.relative_error([1.0, 0.0], n) == float("inf")
    assert accuracy.relative_error(np.full(1000, 1e-3), 1000) > 2
    # Definition 1 holds: simultaneous, so at least 95 %; 4000 draws, standard deviation 0.35 %
    draws = np.random.default_rng(0).multinomial(n, lam, size=4000) / n
    assert (np.abs(draws - lam).max(axis=1) <= accuracy.absolute_error(lam, n)).mean() > 0.94


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy.absolute_error([0.5, 0.5], 0), "``n``: 0; give"),
        (lambda: accuracy.relative_error([0.5, 0.5], -3), "``n``: -3; give"),
        (lambda: accuracy.bonferroni_quantile(0), "0 cells; give"),
        (lambda: accuracy.bonferroni_quantile(3, 1.5), "``alpha``: 1.5; give"),
        (lambda: accuracy.absolute_error([0.5, np.nan], 10), "not a distribution"),
        (lambda: accuracy.absolute_error([0.7, 0.7], 10), "not a distribution"),
        (lambda: accuracy.relative_error([], 10), "not a distribution"),
    ],
)
def test_errors_of_nothing_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("names", [("a",), ("b", "c"), ("a", "b", "c")])
def test_the_exact_expected_error(queried_by, names):
    kernel = queried_by.kernel(names)
    pi = np.random.default_rng(0).dirichlet(np.ones(kernel.cells)).reshape(kernel.sizes)
    q = np.linalg.inv(kernel.matrix().T)
    lam = kernel.forward(pi).ravel()
    total = np.trace(q @ (np.diag(lam) - np.outer(lam, lam)) @ q.T) / 50
    assert accuracy.expected_squared_error(kernel, 50, pi) == pytest.approx(total)
    even = np.full(kernel.sizes, 1 / kernel.cells)
    assert accuracy.expected_squared_error(kernel, 50) == pytest.approx(
        accuracy.expected_squared_error(kernel, 50, even)
    )
    p = kernel.matrix()
    fixed = sum(pi.ravel()[u] * (np.diag(p[u]) - np.outer(p[u], p[u])) for u in range(kernel.cells))
    assert accuracy.expected_squared_error(kernel, 50, target="data") == pytest.approx(np.trace(q @ fixed @ q.T) / 50)


def test_projected_estimate_is_that_of_the_method() -> None:
    made = optrr.design({"a": ["x", "y", "z"]}, 0.5)
    counts = optrr.Counts(made.domain, np.array([1, 2, 40]))
    plain, expected = (
        optrr.estimate(counts, made.mechanism),
        optrr.estimate(counts, made.mechanism, method="projection"),
    )
    assert plain.estimate.min() < 0
    for name in ("estimate", "lower", "upper"):
        assert np.array_equal(getattr(plain.projected(), name), getattr(expected, name))
    assert plain.projected().bias == expected.bias
