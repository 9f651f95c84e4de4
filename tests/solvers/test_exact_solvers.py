"""The exact solvers against each other, against independent programs, and against published numbers."""

import itertools
import math
import time
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import exact_lp
import mpmath
import naive
import numpy as np
import pytest
import scipy.sparse as sp
from cases import PUBLISHED, all_pairs, extreme_problem, random_problems
from scipy.optimize import linprog

from optrr_solvers import (
    METHODS,
    BlockLaw,
    Infeasible,
    InvalidProblem,
    MethodTooLarge,
    Problem,
    SolveFailed,
    SolveOptions,
    Status,
    baselines,
    closed_form,
    event_program,
    lower_bound,
    solve,
)
from optrr_solvers.auto import best_blocks
from optrr_solvers.balls import pairs as ball_pairs
from optrr_solvers.programs import lp, reduced
from optrr_solvers.solution import require

# Nothing below compares a solver with its own report.
EXACT = 1e-9


def por_optimum(problem: Problem) -> float:
    """Smallest total ε by cvxpy on POR's own program, rows scaled to entries of at most 1."""
    program = event_program(problem)
    q = cp.Variable(program.A.shape[1])
    size = sp.diags_array(1 / abs(program.A_eq).max(axis=1).toarray().ravel())
    rows = [program.A @ q <= program.b, size @ program.A_eq @ q == size @ program.b_eq]
    task = cp.Problem(cp.Minimize(q[0]), rows)
    task.solve(solver=cp.HIGHS)
    assert task.status == cp.OPTIMAL
    return float(np.log(q.value[0]))


@pytest.mark.slow
def test_reduced_and_lp_meet_bound_and_accuracies_on_random_problems() -> None:
    """Below a total of 12 also against a program over every change set (m up to 6), or cvxpy on POR's own."""
    totals = []
    for problem in random_problems(120, seed=1):
        for s in (m.solve(problem) for m in ((reduced, lp) if problem.m <= 8 else (reduced,))):
            assert abs(s.upper - lower_bound(problem, s.certificate)) <= EXACT
            np.testing.assert_allclose(s.attribute_epsilons, problem.epsilons, rtol=0, atol=EXACT)
        totals.append(s.upper)
        if s.upper < 12:
            optimum = naive.optimum(problem) if problem.m <= 6 else por_optimum(problem)
            assert optimum == pytest.approx(s.upper, abs=1e-6)
    assert max(totals) > 25 and np.mean(np.array(totals) < 12) > 0.4


def test_published_run_of_por() -> None:
    problem = Problem([2, 3, 2, 4, 6, 5, 3, 2, 7, 4], np.log([13, 12, 14, 12, 13, 13, 14, 13, 14, 12]))
    for method in ("reduced", "lp", "auto"):
        assert f"{np.exp(solve(problem, method).upper):.8e}" == "6.53133823e+04"


@pytest.mark.parametrize(("problem", "total"), PUBLISHED)
def test_known_totals(problem: Problem, total: float) -> None:
    s = reduced.solve(problem)
    assert s.upper == pytest.approx(total, abs=5e-5)
    if problem.m <= 3:
        assert s.upper == pytest.approx(naive.optimum(problem), abs=1e-6)


@pytest.mark.slow
def test_classes_agrees_with_reduced_and_with_the_closed_form() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        groups = int(rng.integers(1, 4))
        counts = rng.integers(1, 5, groups)
        sizes, epsilons = np.repeat(rng.integers(2, 9, groups), counts), np.repeat(rng.uniform(0.05, 5, groups), counts)
        for pairs in ((), all_pairs(sizes.size)):
            problem = Problem(sizes, epsilons, pairs=pairs)
            assert reduced.solve_classes(problem).upper == pytest.approx(reduced.solve(problem).upper, abs=EXACT)
    for m, r, all_epsilons in ((1000, 2, 0.1), (100, 4, 1.0), (30, 7, 6.0)):
        problem = Problem([r] * m, [all_epsilons] * m)
        assert reduced.solve_classes(problem).upper == pytest.approx(closed_form.solve(problem).upper, abs=EXACT)


@pytest.mark.slow
def test_thousand_alike_with_all_pairs_kept() -> None:
    s = reduced.solve_classes(Problem([2] * 1000, [0.1] * 1000, pairs=all_pairs(1000)))
    assert s.upper == pytest.approx(4.1891, abs=5e-5)


@pytest.mark.slow
def test_pairs_and_caps_against_all_change_sets() -> None:
    rng = np.random.default_rng(4)
    for k in range(24):
        m = int(rng.integers(2, 6))
        sizes, epsilons = rng.integers(2, 6, m), rng.uniform(0.1, 2.0, m)
        caps = epsilons + rng.uniform(0, 1, m) if k % 3 else None
        pairs = all_pairs(m)[: int(rng.integers(0, m))] if k % 2 else ()
        problem = Problem(sizes, epsilons, pairs=pairs, caps=caps)
        s = reduced.solve(problem)
        assert s.upper == pytest.approx(naive.optimum(problem), abs=1e-6) and s.upper <= problem.kronecker_epsilon
        assert np.all(s.attribute_epsilons >= epsilons - EXACT)
        if caps is not None:
            assert np.all(s.law.conditional_epsilons() <= caps + EXACT)
        lam = problem.eigenvalues
        for i, j in pairs:
            kept = naive.eigenvalue(problem.sizes, s.law.probabilities, (i, j))
            assert kept >= lam[i] * lam[j] * (1 - 1e-7)


def exact_optimum(problem: Problem) -> float:
    """Smallest total ε by exact rationals on the program over s = q − 1, at ε_i rounded to 60 digits."""
    sets, r = naive.change_sets(problem.m), [int(r) for r in problem.sizes]
    mass = [exact_lp.uniform(r, s) for s in sets]
    lam, rows, right = [], [], []
    with mpmath.workdps(60):
        odds = [Fraction(mpmath.nstr(mpmath.exp(e), 60)) for e in problem.epsilons]
    for i, e in enumerate(odds):
        f = Fraction(r[i] - 1) / (r[i] - 1 + e)
        lam.append(1 - f * Fraction(r[i], r[i] - 1))
        rows.append([u * (f - s[i]) for u, s in zip(mass, sets, strict=True)])
        right.append(Fraction(r[i] - 1, r[i]) - f)
    for i, j in problem.pairs:
        keep = Fraction(problem.kappa) * lam[i] * lam[j]
        chi = [math.prod(Fraction(-1, r[k] - 1) if s[k] else Fraction(1) for k in (i, j)) for s in sets]
        rows.append([u * (x - keep) for u, x in zip(mass, chi, strict=True)])
        right.append(keep)
    n, needs = len(sets), len(rows)
    unit = [[Fraction(i == j) for j in range(n + needs)] for i in range(n + needs)]
    table = [[*(Fraction(j == k) for j in range(n)), Fraction(-1), *unit[k]] for k in range(n)]
    table += [[*row, Fraction(0), *(-x for x in unit[n + k])] for k, row in enumerate(rows)]
    cost = [Fraction(j == n) for j in range(2 * n + 1 + needs)]
    z = exact_lp.minimise(cost, table, [Fraction(0)] * n + right)
    return float(mpmath.log(1 + mpmath.mpf(z.numerator) / z.denominator))


@pytest.mark.parametrize(
    ("sizes", "epsilons", "kappa"),
    [
        ([2, 2], [26.0, 26.0], 1.0),
        ([2, 2], [30.0, 30.0], 1.0),
        ([2, 2], [40.0, 40.0], 1.0),
        ([2, 3, 4], [30.0, 30.0, 1.0], 1.0),
        ([50, 2, 7], [45.0, 0.3, 28.0], 0.5),
        ([20, 3, 2], [23.0, 25.0, 21.0], 0.9),
    ],
)
def test_pairs_at_large_epsilon_equal_exact_rationals(sizes: list[int], epsilons: list[float], kappa: float) -> None:
    problem = Problem(sizes, epsilons, pairs=all_pairs(len(sizes)), kappa=kappa)
    exact = exact_optimum(problem)
    for s in (solve(problem), reduced.solve(problem)):
        assert s.upper == pytest.approx(exact, abs=EXACT) and s.lower == pytest.approx(exact, abs=EXACT)


@pytest.mark.slow
def test_large_epsilon_is_certified_up_to_25() -> None:
    rng = np.random.default_rng(28)
    for k in range(60):
        m = int(rng.integers(2, 6))
        large, small = rng.uniform(12, 25, m), rng.uniform(0.1, 8, m)
        epsilons = large if k % 2 else np.where(rng.random(m) < 0.5, large, small)
        pairs = tuple(pair for pair in all_pairs(m) if rng.random() < 0.7)
        problem = Problem(rng.choice([2, 3, 4, 7, 20, 50], m), epsilons, pairs=pairs, kappa=[1.0, 0.5][k % 3 == 0])
        s = solve(problem)
        assert s.gap <= EXACT * max(1.0, s.upper)
        assert np.all(s.attribute_epsilons >= epsilons - EXACT * (1 + epsilons))
        for method in (reduced.solve, reduced.solve_classes)[: 1 if pairs else 2]:
            assert method(problem).upper == pytest.approx(s.upper, rel=EXACT)


def test_caps_that_cannot_bind_change_nothing() -> None:
    sizes, epsilons = [2, 3, 4], [1.0, 1.0, 0.5]
    free = reduced.solve(Problem(sizes, epsilons)).upper
    for cap in (2.5, 40.0, 800.0, 1e300, np.inf):
        assert reduced.solve(Problem(sizes, epsilons, caps=[cap] * 3)).upper == pytest.approx(free, abs=EXACT)
    assert Problem(sizes, epsilons, caps=[np.inf] * 3).caps is None
    one = reduced.solve(Problem(sizes, epsilons, caps=[1.2, np.inf, 1e300]))
    assert one.upper == pytest.approx(naive.optimum(Problem(sizes, epsilons, caps=[1.2, np.inf, np.inf])), abs=1e-6)
    assert one.upper > free + 1e-3
    # above kappa = 1 Kronecker is no mechanism of the problem, and a cap above its total may bind
    kept = {"pairs": ((0, 1),), "kappa": 1.5}
    loose = reduced.solve(Problem(sizes, epsilons, **kept))
    cap = float(loose.law.conditional_epsilons().max()) - 0.1
    tight = Problem(sizes, epsilons, caps=[cap] * 3, **kept)
    assert reduced.solve(tight).upper == pytest.approx(naive.optimum(tight), abs=1e-6)


def test_caps_at_the_epsilons_give_kronecker() -> None:
    for problem in random_problems(40, seed=6, most=6):
        if problem.kronecker_epsilon > 12:
            continue  # equal caps leave one point, which HiGHS cannot resolve at large totals: it is refused there
        s = reduced.solve(Problem(problem.sizes, problem.epsilons, caps=problem.epsilons))
        assert s.upper == pytest.approx(problem.kronecker_epsilon, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("m", [16, 20])
def test_the_largest_programs(m: int) -> None:
    rng = np.random.default_rng(7)
    problem = Problem(rng.integers(2, 9, m), rng.uniform(0.5, 3, m))
    s = reduced.solve(problem)
    assert s.status is Status.OPTIMAL
    assert s.gap <= EXACT


@pytest.mark.slow
def test_extreme_ranges_are_answered_or_refused() -> None:
    """Sizes to 10^6, ε from 1e-6 to 50: an answer within 1e-9 of its bound, or SolveFailed; never a wrong number."""
    rng, failed = np.random.default_rng(2), 0
    for _ in range(300):
        m = int(rng.integers(2, 10))
        sizes = np.round(np.exp(rng.uniform(np.log(2), np.log(1e6), m))).astype(int)
        problem = Problem(sizes, np.exp(rng.uniform(np.log(1e-6), np.log(50), m)))
        try:
            assert reduced.solve(problem).gap <= EXACT
        except RuntimeError:
            failed += 1
    assert failed < 30


def test_refusals() -> None:
    many = Problem(list(range(2, 23)), [1.0] * 21)
    with pytest.raises(MethodTooLarge, match=r"reduced.*20"):
        reduced.solve(many)
    with pytest.raises(MethodTooLarge, match="14"):
        lp.solve(Problem(list(range(2, 17)), [1.0] * 15))
    with pytest.raises(InvalidProblem, match=r"``method``: .* is unknown"):
        solve(many, "simplex")
    for method in (solve, reduced.solve):
        with pytest.raises(Infeasible, match="kappa"):
            method(Problem([2, 2], [1.0, 1.0], pairs=((0, 1),), kappa=50.0))
    with pytest.raises(Infeasible, match="cap"):
        Problem([2, 2], [1.0, 1.0], caps=[0.5, 2.0])
    with pytest.raises(MethodTooLarge, match="caps"):
        reduced.solve(Problem([2] * 11, np.linspace(1, 2, 11), caps=[3.0] * 11))


def test_flips_that_highs_takes_for_zero():
    """At flips of e^-50 the optimum favours the unchanged record only: ε + ln(Π r / 2)."""
    solution = solve(Problem(np.array([2, 3, 3, 3, 3]), np.full(5, 50.0)))
    assert solution.status is Status.OPTIMAL
    assert solution.lower <= solution.upper == pytest.approx(50 + np.log(81), abs=1e-9)
    assert solution.gap < 1e-9
    assert np.all(solution.attribute_epsilons >= 50 * (1 - 1e-9))


def test_auto_without_any_time_returns_a_baseline_that_keeps_every_accuracy():
    """POR's heuristic has the smaller total here because it drops accuracies, so Kronecker is returned."""
    problem = Problem(2 + np.arange(40) % 5, np.linspace(2.0, 5.0, 40))
    heuristic = baselines.solve_inductive(problem)
    assert heuristic.upper < problem.kronecker_epsilon and np.any(heuristic.attribute_epsilons < problem.epsilons - 0.1)
    solution = solve(problem, options=SolveOptions(time_limit=1e-9))
    assert solution.status is Status.BASELINE and solution.method == "kronecker"
    assert np.all(solution.attribute_epsilons >= problem.epsilons * (1 - 1e-12))


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
    assert solution.method != "reduced" and any("reached the time limit" in note for note in solution.notes)
    require(problem, "auto", solution.law)
    assert solution.lower <= solution.upper <= problem.kronecker_epsilon * (1 + 1e-12)


@pytest.mark.parametrize("name", ["classes", "reduced"])
def test_an_exact_method_ends_with_its_time(name: str) -> None:
    problem = Problem(2 + np.arange(10) % 4, 0.5 + np.arange(10) % 4)
    assert solve(problem, name, SolveOptions(time_limit=100.0)).status is Status.OPTIMAL
    for caps in (None, np.full(10, 4.0)) if name == "reduced" else (None,):
        with pytest.raises(SolveFailed, match=f"{name}: .*reached the time limit"):
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


def test_the_cut_is_where_epsilons_fall_most() -> None:
    """With three levels of ε_i: as cheap as any way to cut between them, which are listed here one by one."""
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


def test_pairs_that_no_exact_program_solves_keep_the_bound_without_pairs() -> None:
    """HiGHS fails at these ε; the bound of the plain problem is left."""
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
