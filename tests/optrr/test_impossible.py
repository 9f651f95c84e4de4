"""Warnings of tables that the mechanism cannot have made: never for right data, always for plainly wrong ones."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

import optrr
from optrr.domain.domain import Domain
from optrr.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.mechanisms.mechanism import Mechanism
from optrr.models.tests.homogeneity import homogeneity
from optrr.records.counts import Counts, count
from optrr.tables.estimation.impossible import FALSE_ALARMS, Observed, impossible, impossible_tables, log_chance_bound
from optrr_solvers.laws import ProductLaw


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
        randomized = mechanism.perturb_codes(codes, int(rng.integers(1 << 30)))
        counts = count(randomized, mechanism.domain, mechanism.domain.names)
        assert impossible([counts], mechanism) == [], (k, sizes, n)


def test_wrong_data_warn():
    rng = np.random.default_rng(2)
    domain = Domain.of({"party": 5, "sex": 2})
    design = optrr.design(domain, 1.0)
    true = np.stack([rng.choice(5, 5000, p=[0.9, 0.04, 0.03, 0.02, 0.01]), rng.integers(0, 2, 5000)], axis=1)
    unrandomized = count(true, domain, ["party", "sex"])
    (line,) = impossible([unrandomized], design.mechanism)
    assert line.startswith("this does not look like data randomized by this design") and "standard errors" in line
    # a design with far less noise
    other = optrr.design(domain, 6.0).mechanism.perturb_codes(true, 3)
    assert impossible([count(other, domain, "party")], design.mechanism)
    right = design.mechanism.perturb_codes(true, 3)
    assert not impossible([count(right, domain, ["party", "sex"])], design.mechanism)
    # wrong, but possible: noise is added, not taken away
    assert not impossible([count(design.mechanism.perturb_codes(right, 4), domain, "party")], design.mechanism)


def test_many_tables_at_once():
    rng = np.random.default_rng(3)
    mechanism = product([3, 2], [1.0, 1.0])
    kernel = mechanism.kernel(mechanism.domain.names)
    good = np.stack(
        [
            count(mechanism.perturb_codes(rng.integers(0, 2, (2000, 2)), 1), mechanism.domain, ["a0", "a1"]).table
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
    right = count(design.mechanism.perturb_codes(true, 5), domain, ["party", "sex"])
    for groups in ([unrandomized, right], [right, unrandomized]):
        assert impossible(groups, design.mechanism)
        with pytest.warns(UserWarning, match="does not look like data randomized by this design"):
            homogeneity(groups, design.mechanism, random_state=1)
