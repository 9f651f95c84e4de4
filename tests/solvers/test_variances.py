"""Questions for required variances: energies by enumeration, the whole class of questions by brute force, known figures."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

from optrr_solvers import Problem, solve
from optrr_solvers.allocating.energy import energy_cap, total_bound
from optrr_solvers.allocating.promising import factor, subset_sizes
from optrr_solvers.allocating.variances import TOLERANCE, required_energies, sufficient_questions

ADULT = np.array([9, 16, 7, 15, 6, 5, 2, 42, 2])


def stated_energies(sizes, question, total):
    """One-way energies of a question, by its report's own, which other tests enumerate."""
    every = question.report.energies(sizes[list(question.attributes)].tolist(), total)
    out = np.zeros(len(sizes))
    out[list(question.attributes)] = [every[1 << k] for k in range(len(question.attributes))]
    return out


def flips_total(sizes, epsilons):
    return solve(Problem(sizes, epsilons)).upper


def check(sizes, epsilons):
    """What every answer must be; returns it, and the total of flips."""
    flips = flips_total(sizes, epsilons)
    mixed = sufficient_questions(sizes, epsilons, flips * (1 - 1e-6))
    if mixed is None:
        return None, flips
    held = sum(w * stated_energies(sizes, q, mixed.total) for q, w in zip(mixed.questions, mixed.shares, strict=True))
    assert (held >= required_energies(sizes, epsilons) * (1 - 1e-8)).all()
    assert mixed.shares.min() > 0 and mixed.shares.sum() == pytest.approx(1, abs=1e-12)
    assert total_bound(sizes, epsilons) <= mixed.total * (1 + 1e-9) and mixed.total <= flips
    assert mixed.least <= mixed.total
    return mixed, flips


@pytest.mark.parametrize("seed", range(12))
def test_small_settings_have_the_required_energies_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 4))
    check(rng.integers(2, 6, m), rng.uniform(0.1, 2.5, m))


@pytest.mark.slow
def test_twenty_settings_of_two_to_six_attributes():
    rng = np.random.default_rng(20)
    without = 0
    for _ in range(20):
        m = int(rng.integers(2, 7))
        mixed, _ = check(rng.integers(2, 9, m), np.exp(rng.uniform(math.log(0.1), math.log(4), m)))
        without += mixed is None
    assert without < 10


def every_question(sizes, total):
    """One-way energies of all questions there are: any group, subsets of any size, any likely patterns."""
    m = len(sizes)
    rows = []
    for t in range(1, m + 1):
        sets = np.array(list(itertools.product([0, 1], repeat=1 << t))[1:-1], dtype=float)
        for group in itertools.combinations(range(m), t):
            for ks in itertools.product(*(range(1, int(sizes[i])) for i in group)):
                kappa = np.array([k / sizes[i] for k, i in zip(ks, group, strict=True)])
                match = np.array([[z >> i & 1 for i in range(t)] for z in range(1 << t)])
                chance = np.prod(np.where(match, kappa, 1 - kappa), axis=1)
                phi = np.where(match, np.sqrt((1 - kappa) / kappa), -np.sqrt(kappa / (1 - kappa)))
                density = 1 + math.expm1(total) * sets
                out = np.zeros((len(sets), m))
                out[:, list(group)] = ((density * chance) @ phi / (density @ chance)[:, None]) ** 2
                rows.append(out)
    return np.concatenate(rows)


def most_of_all(sizes, epsilons, total):
    """The least share of what is required that the best mixture of all questions has, by another solver."""
    energies = every_question(sizes, total) / required_energies(sizes, epsilons)
    share, value = cp.Variable(len(energies), nonneg=True), cp.Variable()
    cp.Problem(cp.Maximize(value), [cp.sum(share) == 1, energies.T @ share >= value]).solve(solver=cp.HIGHS)
    return float(value.value)


@pytest.mark.parametrize(
    ("sizes", "epsilons"),
    [
        ((2, 3), (1.0, 1.0)),
        ((3, 5), (0.4, 2.0)),
        ((4, 4), (2.5, 2.5)),
        ((2, 2, 3), (1.0, 1.5, 0.7)),
        ((3, 2, 2), (2, 2, 3)),
    ],
)
def test_no_mixture_of_any_questions_does_with_less(sizes, epsilons):
    sizes, epsilons = np.array(sizes), np.array(epsilons, dtype=float)
    mixed, flips = check(sizes, epsilons)
    total = flips if mixed is None else mixed.total
    # the climb may miss the best law of a question, but did not in these
    assert most_of_all(sizes, epsilons, total) <= (1 + 2 * TOLERANCE if mixed else 1 + 1e-9)
    if mixed is not None:
        assert most_of_all(sizes, epsilons, mixed.least) <= 1 + 1e-6
        assert mixed.least > 0.999 * mixed.total


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.7), (3, 0.2), (9, 1.0), (42, 2.0), (7, 4.0)])
def test_one_attribute_is_asked_with_the_best_subset_there_is(size, epsilon):
    """Ye and Barg's subset selection has the largest variance that a density over r cells can have."""
    sizes, epsilons = np.array([size]), np.array([epsilon])
    mixed = sufficient_questions(sizes, epsilons, epsilon)
    if mixed is not None:
        assert energy_cap(size, mixed.total) == pytest.approx(required_energies(sizes, epsilons)[0], rel=1e-7)
    else:  # randomized response is best
        assert energy_cap(size, epsilon * (1 - 1e-9)) < required_energies(sizes, epsilons)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "total", "flips"), [(0.25, 0.5701, 0.7280), (0.5, 1.2043, 1.4147), (1.0, 2.4640, 3.2077)]
)
def test_adult(epsilon, total, flips):
    epsilons = np.full(9, epsilon)
    mixed, of_flips = check(ADULT, epsilons)
    assert mixed.total == pytest.approx(total, abs=1e-4)
    assert of_flips == pytest.approx(flips, abs=1e-4)
    assert mixed.least > 0.9999 * mixed.total
    again = sufficient_questions(ADULT, epsilons, of_flips * (1 - 1e-6))
    assert again.questions == mixed.questions and again.total == mixed.total


@pytest.mark.slow
def test_questions_about_many_attributes_at_once_may_be_best():
    """Nine binary attributes at ε_i = 2, where asking of six at once would take more than flips do."""
    mixed, flips = check(np.full(9, 2), np.full(9, 2.0))
    assert mixed.total == pytest.approx(6.6985, abs=1e-3) and flips == pytest.approx(6.9239, abs=1e-3)
    assert min(len(q.attributes) for q in mixed.questions) >= 7
    assert check(np.full(6, 3), np.full(6, 4.0))[0] is None


@pytest.mark.parametrize(
    ("sizes", "epsilons"), [([9, 4], [50, 50]), ([9, 4], [1e-6, 50]), ([9, 4], [1e-6, 1e-6]), ([3000] * 8, [1.0] * 8)]
)
def test_ends_of_the_range(sizes, epsilons):
    mixed, _ = check(np.array(sizes), np.array(epsilons, dtype=float))
    assert (mixed is None) == (max(epsilons) == 50)


def test_energies_shrink_at_least_as_is_said():
    """What turns a promise into a bound: e(L)/e(ε) ≤ ((1 − e^−L)/(1 − e^−ε))² for every share of likely patterns."""
    p = np.linspace(0, 1, 101)
    for total, lower in itertools.product((0.01, 0.5, 2, 9, 40), (0.999, 0.9, 0.3)):
        said = (math.expm1(-total * lower) / math.expm1(-total)) ** 2
        assert (factor(p, total * lower) / factor(p, total) <= said * (1 + 1e-12)).all()


def test_subset_sizes_are_those_of_the_class():
    assert subset_sizes(2, 1, 1.0) == [1]
    assert subset_sizes(42, 1, 1.0) == [1, 10, 11, 12, 21]
