"""What `auto` promises: the best of all that it tried, every requirement kept, with a bracket, in time."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from cases import extreme_problem
from scipy.optimize import linprog

from optrr_solvers import METHODS, BlockLaw, Problem, SolveFailed, SolveOptions, Status, lower_bound, solve
from optrr_solvers.balls import pairs as ball_pairs
from optrr_solvers.products import best_blocks
from optrr_solvers.programs import vertices
from optrr_solvers.solution import require

LIGHT = np.linspace(0.01, 0.02, 29)


def two_blocks(problem: Problem) -> float:
    """The total of two block optima, cut where the sorted ε_i fall most."""
    order = np.argsort(-problem.epsilons)
    cut = 1 + int(np.argmax(-np.diff(np.log(problem.epsilons[order]))))
    return sum(solve(Problem(problem.sizes[p], problem.epsilons[p])).upper for p in (order[:cut], order[cut:]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "epsilons", "gap"),
    [
        ([2] * 30, [50.0, *LIGHT], 1e-3),
        ([2] * 21, [20.0, *np.linspace(0.01, 0.02, 20)], 1e-3),
        ([2] * 34, [17.98, 8.71, *np.linspace(0.05, 0.25, 32)], 1e-3),
        ([3] * 25, np.linspace(40, 50, 25), 1e-3),
    ],
)
def test_heavy_attributes_among_light_ones_close(sizes: list[int], epsilons: list[float], gap: float) -> None:
    """A bracket that is recomputed from the certificate, below Kronecker and below the product of two blocks."""
    problem = Problem(sizes, epsilons)
    solution = solve(problem)
    require(problem, "auto", solution.law)
    bound = lower_bound(problem, solution.certificate)
    assert bound <= solution.upper <= bound + gap * max(1.0, bound)
    assert solution.status is Status.OPTIMAL
    assert solution.upper <= min(problem.kronecker_epsilon, two_blocks(problem))


def test_one_heavy_attribute_costs_its_epsilon_and_the_light_ones_upper_side_alone() -> None:
    """At ε = 50 only the largest density counts: the total is 50 − ln of the ball's mass, found here by listing change sets.

    With the heavy attribute unchanged, the light ones answer from the largest ball in which each changes with f_i at most.
    """
    m, light = 9, np.linspace(0.05, 0.3, 9)
    bits = (np.arange(1 << m)[:, None] >> np.arange(m)) & 1
    mass = np.full(1 << m, 2.0**-m)
    f = 1 / (1 + np.exp(light))
    answer = linprog(-mass, A_ub=(mass[:, None] * (bits - f)).T, b_ub=np.zeros(m), bounds=(0, 1), method="highs")
    expected = 50 - np.log(-answer.fun)
    problem = Problem([2] * (m + 1), [50.0, *light])
    assert solve(problem, "ball").upper == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 2, 8, 9])
def test_random_extremes_are_answered_and_never_above_kronecker(number: int) -> None:
    problem = extreme_problem(number, most=60)
    solution = solve(problem)
    require(problem, "auto", solution.law)
    assert solution.lower <= solution.upper <= problem.kronecker_epsilon * (1 + 1e-12)
    assert solution.gap <= 2e-3 * max(1.0, solution.upper)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 3.0])
def test_a_time_limit_is_kept(seconds: float) -> None:
    """Measured in processor time, so that other programs do not count; a second is allowed for what cannot be interrupted."""
    problem = extreme_problem(0, most=900)
    assert problem.m > 100
    started = time.process_time()
    solution = solve(problem, options=SolveOptions(time_limit=seconds))
    assert time.process_time() - started < seconds + 1
    require(problem, "auto", solution.law)
    assert solution.upper <= problem.kronecker_epsilon


def test_an_exact_method_leaves_time_for_the_ball() -> None:
    """The program with 136 pairs takes seconds; half of this limit ends it, then the others answer."""
    rng = np.random.default_rng(5)
    m = 17
    problem = Problem(rng.integers(2, 11, m), rng.uniform(0.02, 6, m), tuple(itertools.combinations(range(m), 2)))
    started = time.process_time()
    solution = solve(problem, options=SolveOptions(time_limit=0.2))
    assert time.process_time() - started < 3
    assert solution.method != "reduced" and any("ran out of time" in note for note in solution.notes)
    require(problem, "auto", solution.law)
    assert solution.lower <= solution.upper <= problem.kronecker_epsilon * (1 + 1e-12)


@pytest.mark.parametrize("name", ["classes", "reduced"])
def test_an_exact_method_ends_with_its_time(name: str) -> None:
    problem = Problem(2 + np.arange(10) % 4, 0.5 + np.arange(10) % 4)
    assert solve(problem, name, SolveOptions(time_limit=100.0)).status is Status.OPTIMAL
    for caps in (None, np.full(10, 4.0)) if name == "reduced" else (None,):
        with pytest.raises(SolveFailed, match=f"{name}: .*ran out of time"):
            solve(replace(problem, caps=caps), name, SolveOptions(time_limit=1e-9))


@pytest.mark.slow
def test_products_of_blocks_win_where_nothing_better_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ball is told to fail on the whole problem; heavy and light blocks apart are then better than Kronecker."""
    problem = Problem([2] * 25, [9.0, 8.5, *np.linspace(0.1, 0.3, 23)])
    ball = METHODS["ball"]

    def only_blocks(part: Problem, options: SolveOptions):  # type: ignore[no-untyped-def]
        if part.m == problem.m:
            raise SolveFailed("told to fail")
        return ball.run(part, options)

    monkeypatch.setitem(METHODS, "ball", type(ball)(**{**ball.__dict__, "run": only_blocks}))
    solution = solve(problem)
    require(problem, "auto", solution.law)
    assert isinstance(solution.law, BlockLaw)
    assert solution.upper < 0.97 * problem.kronecker_epsilon
    assert any("blocks of attributes are randomized independently" in note for note in solution.notes)


def test_the_best_cuts_are_found() -> None:
    """With three levels of ε_i: the cheapest of all ways to cut between them, which are listed here one by one."""
    problem = Problem([3] * 12, [6.0] * 3 + [1.0, 1.01, 1.02, 1.03] + [0.05] * 5)
    law = best_blocks(problem, lambda part, options: solve(part), 60)
    assert law is not None

    def total(*ends: int) -> float:
        return sum(solve(Problem([3] * (b - a), problem.epsilons[a:b])).upper for a, b in itertools.pairwise(ends))

    assert law.epsilon == pytest.approx(min(total(0, 3, 12), total(0, 7, 12), total(0, 3, 7, 12)), abs=1e-9)


def test_caps_above_ten_attributes_are_met_by_blocks_with_a_bound() -> None:
    problem = Problem([2, 3, 4] * 5, np.linspace(0.2, 1.2, 15), caps=np.linspace(0.2, 1.2, 15) + 0.3)
    solution = solve(problem)
    require(problem, "auto", solution.law)
    assert np.all(solution.law.conditional_epsilons() <= problem.caps + 1e-9)
    assert 0 < solution.lower <= solution.upper < problem.kronecker_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attributes", "kept", "rounds"),
    [
        ((np.repeat(range(2, 9), 3), np.repeat(np.geomspace(3, 0.05, 7), 3)), 1, 3),
        ((np.resize(range(2, 7), 21), np.geomspace(8, 0.05, 21)), 2, 3),
        ((np.resize(range(2, 7), 25), np.geomspace(8, 0.05, 25)), 5, None),
    ],
    ids=["alike in threes", "different", "many"],
)
def test_pairs_above_twenty_attributes_never_cost_more_than_kronecker(attributes, kept, rounds, monkeypatch):
    """With fewer rounds the bracket is wider, but both bounds still hold."""
    if rounds is not None:
        monkeypatch.setattr(ball_pairs, "_ROUNDS", rounds)
    problem = Problem(*attributes, pairs=tuple((0, j) for j in range(1, kept + 1)))
    solution = solve(problem)
    require(problem, "auto", solution.law)
    assert solution.lower <= solution.upper <= problem.kronecker_epsilon * (1 + 1e-12)


@pytest.mark.slow
def test_pairs_that_no_exact_program_solves_keep_the_bound_without_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS fails at these ε; without the walk between vertices the bound of the plain problem is left."""
    monkeypatch.setattr(vertices, "MAX_CELLS", 0)
    problem = Problem([2, 2], [50.0, 49.0], pairs=((0, 1),))
    plain = solve(replace(problem, pairs=()))
    assert solve(problem).lower >= plain.lower > 50


@pytest.mark.parametrize(
    ("sizes", "epsilons", "cap"), [((8, 6), (35.58, 23.39), 38.46), ((7, 7, 8), (5.79, 26.39, 27.73), 31.38)]
)
def test_caps_at_a_large_epsilon_do_not_lower_the_bound(sizes, epsilons, cap):
    """Double precision cannot solve the program of the caps; what is needed without them is needed with them."""
    plain = Problem(list(sizes), np.array(epsilons))
    capped = replace(plain, caps=np.full(len(sizes), cap))
    assert solve(capped).lower >= solve(plain).lower - 1e-9
