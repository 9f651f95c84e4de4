"""RR-Adjustment of a whole file: margins of all attributes and of clusters, and the errors beside the adjusted table."""

import numpy as np
import pytest

from optrr import Attribute, Domain, InvalidInput, Mechanism, count, design
from optrr.records.counts import distinct
from optrr.tables.estimation.adjustment import adjust
from optrr.tables.estimation.estimator import estimate, estimate_adjusted
from optrr.tables.estimation.simplex import clip
from optrr.ways.protocols import Collector, rr_clusters, rr_independent
from optrr.ways.protocols.protocol import cluster_design, of_design
from optrr_solvers.laws import ProductLaw

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 3})
CLUSTERS = (("a", "c"), ("b",), ("d",))
SIZES = (2, 3, 2, 3)


def true_codes(n, seed=3):
    shares = np.random.default_rng(seed).dirichlet(np.full(36, 0.7))
    cells = np.random.default_rng(seed + 1).choice(36, p=shares, size=n)
    return np.stack(np.unravel_index(cells, SIZES), axis=1)


@pytest.fixture(scope="module")
def first():
    return design(DOMAIN, [1.0, 1.5, 1.2, 2.0], method="kronecker")


def by_hand(codes, mechanism, groups, names):
    """Algorithm 2 on the distinct records, its margins from dense inverses."""
    rows, numbers = np.unique(codes, axis=0, return_counts=True)
    shares = numbers / len(codes)
    margins = []
    for group in groups:
        p = mechanism.matrix(group)
        seen = count(codes, DOMAIN, group).proportions
        margins.append(clip(np.linalg.solve(p.T, seen.ravel())).reshape(seen.shape))
    places = [DOMAIN.indices(g) for g in groups]
    adjusted = adjust(rows, shares, margins, places)
    chosen = DOMAIN.indices(names)
    out = np.zeros([SIZES[i] for i in chosen])
    np.add.at(out, tuple(rows[:, chosen].T), adjusted.weights)
    return out


@pytest.mark.parametrize("clustered", [False, True])
def test_a_file_is_adjusted_to_the_margins_of_all_attributes_and_of_clusters(first, clustered):
    made = cluster_design(first, CLUSTERS) if clustered else first
    codes = made.mechanism.perturb_codes(true_codes(4000), random_state=5).astype(np.int64)
    groups = CLUSTERS if clustered else [(n,) for n in DOMAIN.names]
    adjusted = estimate_adjusted(codes, made.mechanism, ("d", "a"))
    np.testing.assert_allclose(adjusted.proportions, by_hand(codes, made.mechanism, groups, ("d", "a")), atol=1e-7)
    collector = Collector(of_design(made).with_adjustment())
    collector.receive_codes(codes)
    theirs = collector.estimate(("d", "a"))
    np.testing.assert_allclose(theirs.proportions, adjusted.proportions, atol=1e-12)
    np.testing.assert_allclose(theirs.lower, adjusted.lower, atol=1e-12)
    # counts of two attributes hold neither the other margins nor the clusters; the estimate says so
    few = estimate(count(codes, DOMAIN, ("d", "a")), made.mechanism, method="adjusted")
    assert "margins of d, a alone" in few.warnings[0]
    whole = estimate(count(codes, DOMAIN, DOMAIN.names), made.mechanism, method="adjusted")
    np.testing.assert_allclose(whole.marginal(("d", "a")), adjusted.proportions, atol=1e-7)
    assert not whole.warnings


def test_errors_are_the_unbiased_estimates_and_intervals_reach_to_the_adjusted_one():
    """A strong association, which adjusting weakens: its own estimates lie far from the truth and from the unbiased one."""
    domain = Domain.of({"a": 2, "b": 2})
    made = Mechanism(domain, ProductLaw(domain.sizes, np.array([1.5, 1.5])))
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [2000, 500, 500, 2000], axis=0)
    out = made.perturb_codes(codes, random_state=1).astype(np.int64)
    adjusted = estimate_adjusted(out, made, ("a", "b"))
    plain = estimate(count(out, domain, ("a", "b")), made)
    assert np.abs(adjusted.proportions - plain.proportions).min() > 5 * plain.standard_errors.max()
    np.testing.assert_array_equal(adjusted.standard_errors, plain.standard_errors)
    np.testing.assert_array_equal(adjusted.lower, np.minimum(plain.lower, adjusted.proportions))
    np.testing.assert_array_equal(adjusted.upper, np.maximum(plain.upper, adjusted.proportions))
    assert "moved outwards where the adjusted estimate lies beyond" in adjusted.interval_note


def test_the_collector_has_errors_that_hold_where_independence_does_not():
    codes = true_codes(5000)
    truth = count(codes, DOMAIN, ("a", "b")).proportions
    covered = []
    for protocol in (rr_independent(DOMAIN, 2.0), rr_clusters(DOMAIN, CLUSTERS, 2.0)):
        for seed in range(5):
            collector = Collector(protocol)
            collector.receive_codes(protocol.mechanism.perturb_codes(codes, random_state=seed).astype(np.int64))
            estimated = collector.estimate(("a", "b"), simultaneous=True)
            plain = estimate(collector_counts(collector, ("a", "b")), protocol.mechanism, simultaneous=True)
            np.testing.assert_allclose(estimated.standard_errors, plain.standard_errors)
            np.testing.assert_array_equal(estimated.upper, np.maximum(plain.upper, estimated.proportions))
            covered.append(bool(np.all((estimated.lower <= truth) & (truth <= estimated.upper))))
    # ten times all six cells, at 95 % for the population and more for these very records; two misses have probability 9 %
    assert sum(covered) >= 9
    with pytest.raises(InvalidInput, match="give a number above 0 and below 1"):
        collector.estimate(("a",), confidence=2.0)


def collector_counts(collector, names):
    rows, numbers = collector.records()
    return count(np.repeat(rows, numbers, axis=0), DOMAIN, names)


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
