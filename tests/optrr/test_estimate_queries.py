"""Queries, synthetic records, the papers' error measures, consistent tables."""

import numpy as np
import pytest
from scipy.stats import norm

from optrr import Counts, Domain, InvalidInput, design
from optrr.tables.estimation import accuracy
from optrr.tables.estimation.estimator import estimate
from optrr.tables.measures.among import box, count_query, query_errors, records

DOMAIN = Domain.of({"a": ["x", "y", "z"], "b": 2, "c": 2})


@pytest.fixture(scope="module")
def mechanism():
    return design(DOMAIN, [1.0, 1.0, 1.2], preserve="pairs").mechanism


@pytest.fixture(scope="module")
def counts():
    return Counts(DOMAIN.subset(["a", "b"]), np.array([[420, 380], [300, 280], [310, 310]]))


def test_a_query_sums_the_estimate_and_its_covariance(mechanism, counts):
    subset = box(counts.domain, {"a": ["x", "z"], "b": [1]})
    assert subset.tolist() == [[False, True], [False, False], [False, True]]
    answered = count_query(counts, mechanism, subset)
    p = mechanism.matrix(("a", "b"))
    q = np.linalg.inv(p.T)
    lam = counts.proportions.ravel()
    covariance = q @ (np.diag(lam) - np.outer(lam, lam)) @ q.T / (counts.n - 1)
    chosen = subset.ravel()
    assert answered.count == pytest.approx(counts.n * (q @ lam)[chosen].sum())
    error = counts.n * np.sqrt(covariance[np.ix_(chosen, chosen)].sum())
    assert answered.standard_error == pytest.approx(error)
    # far from 0 and from all records the interval is nearly the normal one
    assert answered.upper - answered.count == pytest.approx(norm.isf(0.025) * error, rel=0.02)
    assert answered.count - answered.lower == pytest.approx(norm.isf(0.025) * error, rel=0.02)
    assert estimate(counts, mechanism).counts[subset].sum() == pytest.approx(answered.count)
    everything = count_query(counts, mechanism, np.ones((3, 2), dtype=bool))
    assert everything.count == pytest.approx(counts.n) and everything.standard_error < 1e-4


def test_subsets(mechanism, counts):
    one = records(counts.domain, [("y", 0), ("x", 1)])
    assert one.sum() == 2 and one[1, 0] and one[0, 1]
    with pytest.raises(InvalidInput, match="no category 'w'"):
        box(counts.domain, {"a": ["w"]})
    with pytest.raises(InvalidInput, match=r"box\(\)"):
        count_query(counts, mechanism, np.ones((2, 2), dtype=bool))
    with pytest.raises(InvalidInput, match="one for each of 2"):
        records(counts.domain, [("y",)])
    for wrong in (0, 1, 1.5, np.nan):
        with pytest.raises(InvalidInput, match="confidence"):
            count_query(counts, mechanism, one, confidence=wrong)


def test_query_errors_are_mdr_16():
    assert query_errors(90, 100) == (10, 0.1)
    assert query_errors(3, 0) == (3, float("inf")) and query_errors(0, 0) == (0, 0)


def test_a_count_from_reports_that_are_all_alike_has_no_standard_error():
    domain = Domain.of({"a": 3, "b": 2})
    mechanism = design(domain, 2.0, method="kronecker").mechanism
    counts = Counts(domain, np.array([[40, 0], [0, 0], [0, 0]]))
    inside = np.zeros((3, 2), dtype=bool)
    inside[0] = True
    some, everyone = count_query(counts, mechanism, inside), count_query(counts, mechanism, np.ones((3, 2), dtype=bool))
    assert np.isnan(some.standard_error) and 0 <= some.lower < some.upper == 40
    # the number of all records is known
    assert everyone.count == pytest.approx(40) and everyone.standard_error == pytest.approx(0, abs=1e-9)
    assert everyone.lower == everyone.upper == everyone.count


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
        (lambda: accuracy.absolute_error([0.5, 0.5], 0), "n = 0; give"),
        (lambda: accuracy.relative_error([0.5, 0.5], -3), "n = -3; give"),
        (lambda: accuracy.bonferroni_quantile(0), "0 cells; give"),
        (lambda: accuracy.bonferroni_quantile(3, 1.5), "alpha = 1.5; give"),
        (lambda: accuracy.absolute_error([0.5, np.nan], 10), "not a distribution"),
        (lambda: accuracy.absolute_error([0.7, 0.7], 10), "not a distribution"),
        (lambda: accuracy.relative_error([], 10), "not a distribution"),
    ],
)
def test_errors_of_nothing_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_mean_errors_and_rij_theorem_3():
    assert accuracy.mean_absolute_error([0.2, 0.8], [0.1, 0.9]) == pytest.approx(0.1)
    assert accuracy.mean_squared_error([0.2, 0.8], [0.1, 0.9]) == pytest.approx(0.01)
    with pytest.raises(InvalidInput, match="one shape"):
        accuracy.mean_absolute_error([0.5, 0.5], [1.0])
    rng = np.random.default_rng(0)
    for d in (2, 3, 7):
        for _ in range(50):
            pi = rng.dirichlet(np.full(d * d, 0.2)).reshape(d, d) + 1e-9
            pi /= pi.sum()
            product = np.outer(pi.sum(1), pi.sum(0))
            v = np.sqrt(((pi - product) ** 2 / product).sum() / (d - 1))
            assert accuracy.mean_squared_error(product, pi) <= accuracy.independence_bound(v, d)


@pytest.mark.parametrize("names", [("a",), ("b", "c"), ("a", "b", "c")])
def test_the_exact_expected_error(mechanism, names):
    kernel = mechanism.kernel(names)
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
