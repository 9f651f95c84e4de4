"""The closed form, POR's heuristic and Kronecker's product against their formulas and whole matrices."""

import itertools

import mpmath as mp
import naive
import numpy as np
import pytest
from cases import spread

from optrr_solvers import baselines, closed_form, kl_bound
from optrr_solvers.closed_form import solve
from optrr_solvers.errors import InvalidProblem, MethodTooLarge, SolveFailed
from optrr_solvers.laws import CountLaw, FewChangesLaw, ProductLaw, TableLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.solution import Status

# Sizes and ε that reach all four cases, their borders and both ends of the supported range.
SIZES = (2, 3, 7, 1000, 10**6)
EPSILONS = (1e-6, 1e-3, 0.1, 1.0, 6.9, 13.8, 20.0, 50.0)


def alike_reference(m, r, epsilon):
    """ln Q of alike attributes, straight from the formula with 80 digits."""
    with mp.workdps(80):
        f = mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(epsilon)))
        d = mp.mpf(r - 1) / r
        terms = (mp.binomial(m, k) * d**k * (1 - d) ** (m - k) * (m * f - k) for k in range(m + 1) if k < m * f)
        return mp.log(1 + m * (d - f) / mp.fsum(terms))


def test_one_attribute_is_randomized_response():
    for r, e in itertools.product(SIZES, EPSILONS):
        s = solve(Problem([r], [e]))
        assert isinstance(s.law, ProductLaw)
        assert e <= s.upper <= np.nextafter(e, np.inf) and 0 <= s.gap <= 1e-13 * (1 + e)


@pytest.mark.parametrize(("a", "b"), spread(SIZES, SIZES, every=2))
def test_two_attributes_are_certified_everywhere(a, b):
    for e, g in itertools.product(EPSILONS, repeat=2):
        problem = Problem([a, b], [e, g])
        s = solve(problem)
        assert isinstance(s.law, TableLaw) and s.status is Status.OPTIMAL
        assert -1e-12 <= s.gap <= 1e-9
        assert np.all(np.abs(s.attribute_epsilons - problem.epsilons) <= 1e-9 * (1 + problem.epsilons))


@pytest.mark.parametrize(("a", "b"), list(itertools.product((2, 3, 7, 1000), repeat=2)))
def test_two_attributes_equal_the_printed_cases(a, b):
    for e, g in itertools.product((0.01, 0.3, 1.0, 3.0, 6.9, 20.0), repeat=2):
        with mp.workdps(60):
            x0, (x1, x2) = naive.por_two(a, b, mp.exp(mp.mpf(e)), mp.exp(mp.mpf(g)))
            expected = [[float(mp.log(x0)), float(mp.log(x2))], [float(mp.log(x1)), 0.0]]
        computed = closed_form.two_attributes(Problem([a, b], [e, g]))
        np.testing.assert_allclose(computed, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("m", "r", "epsilon"),
    [(3, 2, 0.5), (3, 5, 8.0), (7, 3, 0.01), (20, 10**6, 1e-6), (20, 10**6, 50.0), (60, 2, 1e-6), (100, 4, 1.0),
     (300, 2, 50.0), (300, 50, 3.0), (1000, 2, 0.1)],
)  # fmt: skip
def test_alike_attributes_equal_the_formula_in_high_precision(m, r, epsilon):
    s = solve(Problem([r] * m, [epsilon] * m))
    expected = alike_reference(m, r, epsilon)
    assert isinstance(s.law, CountLaw) and len(s.law.classes) == 1
    assert abs(mp.mpf(s.upper) - expected) <= 1e-12 * (1 + expected)
    assert mp.mpf(s.lower) <= expected


def test_published_and_stated_figures():
    assert solve(Problem([2] * 1000, [0.1] * 1000)).upper == pytest.approx(4.1889, abs=5e-5)
    assert solve(Problem([4] * 100, [1.0] * 100)).upper == pytest.approx(17.5073, abs=5e-5)
    assert solve(Problem([2] * 3, [0.5] * 3)).upper == pytest.approx(1.0717, abs=5e-5)


@pytest.mark.parametrize("r", [2, 37, 10**6])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 5.0, 50.0])
@pytest.mark.parametrize("m", [3, 40, 1000, 4096, 50_000])
def test_alike_attributes_are_certified_over_the_whole_range(m, r, epsilon):
    problem = Problem([r] * m, [epsilon] * m)
    s = solve(problem)
    assert -1e-12 <= s.gap <= 1e-9 * max(1.0, s.upper)
    if m <= 1000:
        assert s.gap <= 1e-9
    assert np.all(np.abs(s.attribute_epsilons - epsilon) <= 1e-9 * (1 + epsilon))


@pytest.mark.slow
@pytest.mark.parametrize(("r", "epsilon"), [(2, 0.1), (5, 1.0), (10**6, 50.0)])
def test_a_million_alike_attributes_are_solved(r, epsilon):
    m = 1_000_000
    problem = Problem([r] * m, [epsilon] * m)
    s = solve(problem)
    assert 0 <= s.gap <= 1e-12 * s.upper
    assert abs(s.attribute_epsilons[0] - epsilon) <= 1e-9 * (1 + epsilon)
    if r == 2:
        # the formula for large m
        f, d = problem.flips[0], 0.5
        kl = m * (f * np.log(f / d) + (1 - f) * np.log((1 - f) / (1 - d)))
        rest = np.log(m * epsilon * problem.gaps[0]) + 0.5 * np.log(2 * np.pi * m * epsilon**2 * f * (1 - f))
        assert s.upper == pytest.approx(kl + rest, abs=0.01)


def test_what_it_does_not_take():
    with pytest.raises(MethodTooLarge, match="got 3 that differ; use 'reduced'"):
        solve(Problem([2, 2, 3], [1, 1, 1]))
    with pytest.raises(InvalidProblem, match="supports no pairs"):
        solve(Problem([2, 2], [1, 1], pairs=((0, 1),)))
    with pytest.raises(InvalidProblem, match="supports no pairs or caps"):
        solve(Problem([2, 2], [1, 1], caps=np.array([2.0, np.inf])))
    assert closed_form.applies(Problem([2, 2, 2], [1, 1, 1]))
    assert not closed_form.applies(Problem([2, 2, 2], [1, 1, 2]))
    assert not closed_form.applies(Problem([2, 2], [1, 1], pairs=((0, 1),)))


def test_a_gap_beyond_the_tolerance_is_an_error():
    with pytest.raises(SolveFailed, match="gap of"):
        solve(Problem([2] * 1000, [0.1] * 1000), SolveOptions(tolerance=1e-300))


# (number of attributes, smallest and largest ε, largest size)
CASES = [(2, 0.1, 5, 8), (3, 0.1, 1, 4), (3, 1, 8, 9), (5, 0.01, 8, 6), (10, 0.5, 4, 8), (40, 0.1, 1, 5),
         (100, 1, 8, 5), (300, 0.1, 1, 5), (300, 0.01, 20, 50)]  # fmt: skip


@pytest.mark.parametrize(("m", "low", "high", "size"), CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_the_published_recurrence_in_high_precision(m, low, high, size, seed):
    rng = np.random.default_rng([m, seed])
    r, e = rng.integers(2, size + 1, m), rng.uniform(low, high, m)
    s = baselines.solve_inductive(Problem(r, e))
    total, achieved = naive.por_inductive(r.tolist(), e.tolist())
    assert s.upper <= total + 1e-10 * (1 + total)
    assert s.upper == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(s.attribute_epsilons, achieved, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3, 7, 60])
def test_alike_attributes_lie_on_the_border_of_the_fallback(m):
    for r, e in [(2, 1.0), (5, 0.3), (9, 4.0)]:
        total, _ = naive.por_inductive([r] * m, [e] * m)
        assert baselines.solve_inductive(Problem([r] * m, [e] * m)).upper == pytest.approx(total, rel=1e-10)


def test_two_attributes_are_the_optimum_and_one_is_randomized_response():
    problem = Problem([3, 5], [0.7, 1.1])
    s = baselines.solve_inductive(problem)
    assert s.upper == pytest.approx(naive.optimum(problem), abs=1e-8)
    assert s.notes == ()
    one = baselines.solve_inductive(Problem([4], [0.3]))
    assert isinstance(one.law, ProductLaw) and one.upper == pytest.approx(0.3, abs=1e-15)


def test_it_is_a_baseline_with_the_kl_bound_and_says_what_it_replaced():
    rng = np.random.default_rng(1)
    problem = Problem(rng.integers(2, 6, 100), rng.uniform(1, 8, 100))
    s = baselines.solve_inductive(problem)
    assert s.status is Status.BASELINE and s.certificate is None and isinstance(s.law, FewChangesLaw)
    assert 0 < s.lower < s.upper
    _, achieved = naive.por_inductive(problem.sizes.tolist(), problem.epsilons.tolist())
    replaced = np.abs(np.array(achieved) - problem.epsilons) > 1e-8
    assert replaced.sum() > 50
    assert s.notes[0].startswith(f"{replaced.sum()} of 100 epsilons were replaced")


def test_it_may_undercut_the_bound_of_accuracies_that_it_misses():
    problem = Problem([3, 24, 7], [0.0663, 0.0872, 4.7897])
    s = baselines.solve_inductive(problem)
    total, achieved = naive.por_inductive(problem.sizes.tolist(), problem.epsilons.tolist())
    assert s.upper == pytest.approx(total, rel=1e-10)
    assert min(achieved - problem.epsilons) < -1
    assert s.upper < 0.6
    assert kl_bound(problem) > 1.6
    assert s.lower <= s.upper


@pytest.mark.parametrize(("low", "high"), [(1e-6, 0.01), (0.1, 8), (20, 50)])
def test_a_hundred_thousand_attributes_are_finite(low, high):
    rng = np.random.default_rng(2)
    s = baselines.solve_inductive(Problem(rng.integers(2, 9, 100_000), rng.uniform(low, high, 100_000)))
    assert np.isfinite(s.upper) and np.isfinite(s.attribute_epsilons).all()


@pytest.mark.parametrize("sizes", [[2, 3, 2], [10**6, 2, 10**6], [2, 10**6, 3]])
@pytest.mark.parametrize("epsilons", [[1e-6, 1e-6, 1e-6], [50.0, 50.0, 50.0], [1e-6, 50.0, 1.0], [50.0, 1e-6, 20.0]])
def test_the_ends_of_the_range(sizes, epsilons):
    s = baselines.solve_inductive(Problem(sizes, epsilons))
    total, achieved = naive.por_inductive(sizes, epsilons)
    assert s.upper == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(s.attribute_epsilons, achieved, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m", [3, 12, 13])
def test_a_solve_does_not_build_what_is_drawn(m):
    s = baselines.solve_inductive(
        Problem([2, 3, 4] * 4 + [5] if m == 13 else ([2, 3, 4] * 4)[:m], np.linspace(1, 9, m))
    )
    assert s.upper > s.lower
    assert not {"automaton", "labels"} & set(vars(s.law))


def test_total_is_the_sum_and_every_accuracy_is_exact():
    problem = Problem([2, 3, 4], [0.3, 1.0, 2.0])
    s = baselines.solve_kronecker(problem)
    p = naive.matrix(problem.sizes, naive.density(s.law))
    assert s.status is Status.BASELINE and s.certificate is None
    assert s.upper == pytest.approx(3.3, abs=1e-14) and s.upper >= 3.3
    assert naive.ldp_epsilon(p) == pytest.approx(3.3, abs=1e-12)
    np.testing.assert_allclose(s.attribute_epsilons, problem.epsilons, atol=1e-14)
    np.testing.assert_allclose(s.law.conditional_epsilons(), problem.epsilons, atol=0)
    one = [np.full((r, r), 1.0) + np.diag([np.exp(e) - 1] * r) for r, e in zip((2, 3, 4), (0.3, 1.0, 2.0), strict=True)]
    product = np.kron(np.kron(one[0], one[1]), one[2])
    np.testing.assert_allclose(p, product / product.sum(axis=1, keepdims=True), rtol=1e-13)


def test_a_million_attributes():
    m = 1_000_000
    s = baselines.solve_kronecker(Problem([3] * m, [0.25] * m))
    assert s.upper == pytest.approx(250_000, rel=1e-9) and s.upper >= 250_000
