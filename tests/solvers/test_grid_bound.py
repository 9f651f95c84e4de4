"""The bound on a grid against exact sums over all change sets and against the bound over counts."""

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from cases import single_classes

from optrr_solvers.certificates import certificate as certificate_module
from optrr_solvers.certificates import grid_bound, modulus_bound
from optrr_solvers.certificates.certificate import Certificate, lower_bound
from optrr_solvers.certificates.grid_bound import WeightedClasses
from optrr_solvers.errors import InvalidCertificate
from optrr_solvers.laws import totals
from optrr_solvers.problem import Problem


def random_case(rng, m, largest):
    problem = Problem(rng.integers(2, 7, m), np.exp(rng.uniform(np.log(0.02), np.log(8), m)))
    weights = tuple(int(w) for w in rng.integers(1, largest, m))
    return problem, WeightedClasses.of(problem, single_classes(m), weights)


def true_bound(problem, weights):
    """ln(1 + w·(d−f)/E_μ[(w·f−X)⁺]) in 40 digits by a loop over all change sets."""
    with mp.workdps(40):
        f = [
            (int(r) - 1) / (int(r) - 1 + mp.exp(mp.mpf(float(e))))
            for r, e in zip(problem.sizes, problem.epsilons, strict=True)
        ]
        d = [1 - mp.mpf(1) / int(r) for r in problem.sizes]
        radius = sum(w * x for w, x in zip(weights, f, strict=True))
        mean = mp.mpf(0)
        for s in itertools.product((0, 1), repeat=problem.m):
            mu = mp.fprod(x if c else 1 - x for x, c in zip(d, s, strict=True))
            mean += mu * max(radius - sum(w for w, c in zip(weights, s, strict=True) if c), 0)
        return mp.log(1 + sum(w * (x - y) for w, x, y in zip(weights, d, f, strict=True)) / mean)


@pytest.mark.parametrize("exact_work", [0, 1 << 40])
@pytest.mark.parametrize("seed", range(12))
def test_bound_is_below_and_next_to_the_truth(monkeypatch, seed, exact_work):
    rng = np.random.default_rng(seed)
    problem, classes = random_case(rng, int(rng.integers(1, 9)), int(10 ** rng.uniform(0.5, 3.5)))
    monkeypatch.setattr(grid_bound, "EXACT_WORK", exact_work)
    bound, truth = grid_bound.lower_bound(classes), true_bound(problem, classes.weights)
    assert bound <= truth
    assert bound >= truth - 1e-11 * (1 + truth)


def test_the_hook_agrees_with_the_bound_over_counts(monkeypatch):
    rng = np.random.default_rng(4)
    problem = Problem(np.repeat([3, 5, 2], [6, 4, 5]), np.repeat([0.7, 1.9, 0.1], [6, 4, 5]))
    members = tuple(tuple(int(i) for i in c) for c in problem.classes)
    for _ in range(5):
        certificate = Certificate(members, tuple(int(w) for w in rng.integers(1, 4000, 3)))
        over_counts = lower_bound(problem, certificate)
        with monkeypatch.context() as patch:
            patch.setattr(certificate_module, "MAX_CELLS", 1)
            on_grid = lower_bound(problem, certificate)
        assert on_grid == pytest.approx(over_counts, abs=1e-11)


def test_dropped_mass_is_added(monkeypatch):
    """A program that drops a thousandth of the mass at every look still gives a bound."""
    rng = np.random.default_rng(5)
    _, classes = random_case(rng, 60, 300)
    monkeypatch.setattr(grid_bound, "EXACT_WORK", 0)
    fine = grid_bound.lower_bound(classes)
    monkeypatch.setattr(totals, "_DROP", 1e-6)
    coarse = grid_bound.lower_bound(classes)
    assert fine - 1e-2 < coarse < fine


def test_no_proof_is_zero_and_misuse_is_refused():
    problem = Problem(np.full(30, 2), np.linspace(0.1, 3, 30))
    assert lower_bound(problem, Certificate(single_classes(30), (0,) * 30)) == 0.0
    with pytest.raises(InvalidCertificate, match="overflow"):
        lower_bound(problem, Certificate(single_classes(30), (1 << 58,) * 30))
    paired = Problem(np.full(30, 2), np.linspace(0.1, 3, 30), pairs=((0, 1),))
    with pytest.raises(InvalidCertificate, match="pair"):
        lower_bound(paired, Certificate(single_classes(30), (1,) * 30, pairs=((0, 1, 5),)))


@pytest.mark.slow
@pytest.mark.parametrize("light", [0, 20])
def test_weights_that_would_fill_the_memory_are_refused(light):
    """Scaled by 2^20 the same direction is as good a proof, but its totals no longer fit."""
    problem = Problem(np.full(30, 3), np.linspace(0.1, 3, 30))
    weights = tuple(1 if i < light else 1000 + i for i in range(30))
    assert lower_bound(problem, Certificate(single_classes(30), weights)) > 0
    with pytest.raises(InvalidCertificate, match=r"too large to evaluate.*scale them down"):
        lower_bound(problem, Certificate(single_classes(30), tuple(w << 20 for w in weights)))


def test_a_sum_that_would_take_hours_is_refused(monkeypatch):
    problem = Problem(np.full(40, 3), np.linspace(0.1, 3, 40))
    monkeypatch.setattr(grid_bound, "MAX_WINDOW", 100_000)
    monkeypatch.setattr(totals, "_MOST_ROWS", 2)
    with pytest.raises(InvalidCertificate, match=r"steps after \d+ of 40 attributes"):
        lower_bound(problem, Certificate(single_classes(40), (3000,) * 40))


def test_advantage_is_a_lower_bound_of_the_exact_fraction():
    problem, classes = random_case(np.random.default_rng(6), 8, 1000)
    exact = sum(Fraction(int(w) * (int(r) - 1), int(r)) for w, r in zip(classes.weights, problem.sizes, strict=True))
    exact -= Fraction(classes.threshold, 1 << 192)
    assert exact - Fraction(1, 10**50) < classes.advantage <= exact


def test_frequencies_bound_every_small_case_from_above():
    """log E_μ[(K−X)⁺] by moduli is never below the exact value, even where moduli are a poor bound."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        problem, classes = random_case(rng, int(rng.integers(1, 9)), int(10 ** rng.uniform(0.5, 6)))
        bound = modulus_bound.log_mean_ceiling(
            classes.sizes,
            classes.counts.astype(float),
            np.array(classes.weights).astype(float),
            classes.threshold / 2.0**192,
        )
        with mp.workdps(40):
            advantage = mp.mpf(classes.advantage.numerator) / classes.advantage.denominator
            exact = advantage / mp.expm1(true_bound(problem, classes.weights))
            assert mp.log(exact) <= bound <= mp.log(exact) + 3


@pytest.mark.parametrize("m, low, high", [(3000, 0.5, 2), (3000, 1, 3), (2000, 3, 5), (3000, 1, 8)])
def test_frequencies_and_dynamic_program_agree_where_totals_spread(m, low, high):
    """Two independent ways; the blur costs 2e-4 nats, the moduli at most 1/(θσ) relative to the dynamic program."""
    rng = np.random.default_rng(m)
    problem = Problem(rng.integers(2, 9, m), rng.uniform(low, high, m))
    weights = np.round(problem.epsilons / 0.01).astype(np.int64)
    classes = WeightedClasses(problem.sizes, np.ones(m, dtype=np.int64), tuple(weights.tolist()), problem.epsilons)
    by_rows = grid_bound.log_mean_ceiling(classes, classes.threshold)
    by_moduli = modulus_bound.log_mean_ceiling(
        problem.sizes, np.ones(m), weights.astype(float), classes.threshold / 2.0**192
    )
    assert 1e-4 < by_moduli - by_rows < 3e-3


@pytest.mark.slow
def test_spread_out_totals_take_weights_of_any_size(monkeypatch):
    """A million times finer, where a row of totals would not fit, and classes whose f is rounded up in doubles."""
    rng = np.random.default_rng(9)
    m = 12_000
    problem = Problem(rng.integers(2, 9, m), rng.uniform(0.5, 2, m))
    fine = Certificate(single_classes(m), tuple(int(w) for w in np.round(problem.epsilons * 1e8)))
    coarse = Certificate(single_classes(m), tuple(int(w) for w in np.round(problem.epsilons * 1e2)))
    bound = lower_bound(problem, fine)
    assert bound == pytest.approx(lower_bound(problem, coarse), abs=0.05)
    monkeypatch.setattr(grid_bound, "_ENCLOSED", 0)
    in_doubles = lower_bound(problem, fine)
    assert bound - 1e-7 <= in_doubles <= bound
