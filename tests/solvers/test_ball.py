"""The ball solver against the exact solvers, a program by cvxpy on counts of nothing but change sets, and its promises."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from optrr_solvers import MethodTooLarge, Problem, SolveFailed, Status, closed_form, kl_bound, lower_bound
from optrr_solvers import solve as solve_by
from optrr_solvers.balls import newton as ball_newton
from optrr_solvers.balls import pairs as ball_pairs
from optrr_solvers.balls import solve as ball_solve
from optrr_solvers.balls.moments import Classes, CountedMoments, LowRankCurvature, SpectralMoments
from optrr_solvers.balls.newton import Point
from optrr_solvers.balls.pair_balls import Requirements, Soft, Tilted, _Merit, polish
from optrr_solvers.balls.pairs import on_grid
from optrr_solvers.balls.solve import BallOptions, solve
from optrr_solvers.certificates.grid_bound import WeightedClasses
from optrr_solvers.programs import reduced

EXACT = BallOptions(tolerance=1e-6, relative_tolerance=0.0)


def draw(m, low, high, seed=0, largest=8):
    rng = np.random.default_rng(1000 * seed + m)
    return Problem(rng.integers(2, largest + 1, m), rng.uniform(low, high, m))


def meets(problem, solution):
    """Every ε_i is at least the requested one, recomputed from pair marginals rather than the law's one-way rows."""
    for i in range(0, problem.m, max(1, problem.m // 7)):
        j = (i + 1) % problem.m
        table = solution.law.marginal((i, j)) if problem.m > 1 else None
        kept, changed = table.sum(axis=1)
        achieved = np.log(problem.sizes[i] - 1) + np.log(kept / changed)
        assert achieved >= problem.epsilons[i] - 1e-9 * (1 + problem.epsilons[i])
    assert lower_bound(problem, None) <= solution.lower <= solution.upper <= problem.kronecker_epsilon
    over = solution.law.attribute_epsilons() - problem.epsilons
    assert over.max() <= max(1.01 * solution.statistics["overshoot"], 1e-8)


@pytest.mark.parametrize("m", [2, 3, 5, 8, 11, 14, 16])
@pytest.mark.parametrize("low, high", [(0.05, 1), (0.5, 2), (3, 5), (1, 8), (0.05, 10)])
def test_agrees_with_the_exact_program(m, low, high):
    problem = draw(m, low, high, seed=int(10 * high))
    solution, exact = solve(problem, EXACT), reduced.solve(problem)
    assert solution.lower <= exact.upper + 1e-12
    assert solution.upper == pytest.approx(exact.upper, abs=1e-6)
    assert solution.status is Status.OPTIMAL
    meets(problem, solution)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_classes(seed):
    rng = np.random.default_rng(seed)
    members = rng.integers(5, 25, 3)
    problem = Problem(np.repeat(rng.integers(2, 8, 3), members), np.repeat(rng.uniform(0.05, 4, 3), members))
    solution, exact = solve(problem, EXACT), reduced.solve_classes(problem)
    assert solution.upper == pytest.approx(exact.upper, abs=1e-6)
    assert solution.lower <= exact.upper + 1e-9


def test_agrees_with_the_closed_form():
    problem = Problem(np.full(1000, 4), np.full(1000, 1.0))
    assert solve(problem, EXACT).upper == pytest.approx(closed_form.solve(problem).upper, abs=1e-6)
    assert solve(Problem([5], [1.3]), EXACT).upper == pytest.approx(1.3, abs=1e-6)
    assert solve(Problem([1_000_000], [3.8])).upper == pytest.approx(3.8, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("m", [50, 300])
@pytest.mark.parametrize("low, high", [(0.05, 1), (0.5, 2), (1, 3), (3, 5), (1, 8), (0.05, 10)])
def test_gap_is_small(m, low, high):
    problem = draw(m, low, high)
    solution = solve(problem)
    assert 0 <= solution.gap <= max(1e-3, 1e-5 * solution.upper if high >= 5 else 0.0)
    meets(problem, solution)


@pytest.mark.slow
def test_many_alike_attributes_share_their_work():
    problem = Problem(np.repeat([2, 5, 3, 7], 5000), np.repeat([0.1, 0.4, 1.0, 0.7], 5000))
    solution = solve(problem)
    assert len(solution.law.classes) == 4
    assert 0 <= solution.gap <= 1e-3 * solution.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes, epsilons",
    [
        ([2] * 25, np.linspace(1e-6, 2e-6, 25)),
        ([1_000_000] * 3 + [2] * 22, np.linspace(0.3, 4, 25)),
        (np.arange(2, 27), np.linspace(0.01, 20, 25)),
    ],
)
def test_extreme_problems_are_bracketed(sizes, epsilons):
    problem = Problem(np.asarray(sizes), np.asarray(epsilons))
    solution = solve(problem, BallOptions(time_limit=20))
    assert 0 <= solution.gap <= max(1e-3, 2e-3 * solution.upper)
    meets(problem, solution)


@pytest.mark.parametrize("sizes", [[2, 5, 10], [2, 3, 3, 3, 3], [4, 3, 5, 2, 7, 8]])
@pytest.mark.parametrize("epsilon", [30.0, 40.0, 50.0])
def test_epsilons_beyond_the_reach_of_linear_programs(sizes, epsilon):
    """At equal ε so large, only the unchanged record is favoured: Q = 1 + (e^ε/(1 + (r−1)e^−ε)) Π r / r_min up to e^−ε."""
    problem = Problem(sizes, np.full(len(sizes), epsilon))
    solution = solve(problem, EXACT)
    assert solution.status is Status.OPTIMAL and solution.gap < 1e-6
    # f_i/d_i is smallest for the smallest r: that attribute decides, all other products of sizes come on top
    assert solution.upper == pytest.approx(epsilon + np.log(np.prod(sizes) / min(sizes)), abs=1e-6)
    meets(problem, solution)


def test_one_epsilon_far_above_the_others_is_solved():
    problem = Problem([2, 5, 10], [20.93836896, 40.99698806, 31.51206989])
    meets(problem, solve(problem))


@pytest.mark.slow
def test_time_limit_returns_the_best_bracket_labelled(monkeypatch):
    """The time limit is reached three checks of the clock before the end; the best bracket up to there is returned."""
    problem, looks, last = draw(35, 0.05, 10), [0], [10**9]

    def watch(*_):
        looks[0] += 1
        if looks[0] >= last[0]:
            raise ball_newton.OutOfTime

    monkeypatch.setattr(ball_newton, "_watch", watch)
    options = BallOptions(relative_tolerance=0.0)
    complete = solve(problem, options)
    last[0], looks[0] = looks[0] - 3, 0
    seen = []
    solution = solve(problem, BallOptions(time_limit=1e6, relative_tolerance=0.0, progress=lambda *x: seen.append(x)))
    assert solution.status is Status.BRACKETED
    assert any("time limit" in note for note in solution.notes)
    assert solution.lower < complete.upper < solution.upper < problem.kronecker_epsilon
    assert seen and seen[-1][0] == 1.0
    meets(problem, solution)


def test_no_time_at_all_is_refused():
    with pytest.raises(SolveFailed, match="time limit"):
        solve(draw(100, 0.05, 10), BallOptions(time_limit=1e-9))


def test_caps_are_refused():
    with pytest.raises(MethodTooLarge, match="caps"):
        solve(Problem(np.full(30, 2), np.full(30, 1.0), caps=np.full(30, 5.0)))


@pytest.mark.parametrize("kind", [CountedMoments, SpectralMoments])
def test_moments_against_differences(kind):
    """Gradient and Hessian of ln φ_h against central differences, and both ways to them against each other."""
    c = Classes.of(draw(7, 0.5, 4, seed=3))
    w, width, e = c.epsilons * 1.1, 0.2, 1e-4
    source = kind(c)
    at = source.at(w, width)
    gradient = c.counts * (c.f * at.mass - at.changed)
    ends = [[source.at(w + s * e * unit, width).log_value for s in (1, -1)] for unit in np.eye(7)]
    np.testing.assert_allclose(gradient, [(a - b) / (2 * e) for a, b in ends], rtol=1e-6)
    other = CountedMoments(c).at(w, width)
    assert at.log_value == pytest.approx(other.log_value, abs=1e-11)
    np.testing.assert_allclose(at.changed, other.changed, rtol=1e-9)
    right = np.eye(7)
    slopes = []
    for unit in np.eye(7):
        plus, minus = source.at(w + e * unit, width), source.at(w - e * unit, width)
        scaled = [np.exp(x.log_value - at.log_value) * c.counts * (c.f * x.mass - x.changed) for x in (plus, minus)]
        slopes.append((scaled[0] - scaled[1]) / (2 * e))
    np.testing.assert_allclose(at.curvature.solve(np.array(slopes).T), right, atol=2e-4)


def test_low_rank_newton_direction_is_the_dense_one():
    c = Classes.of(draw(400, 0.5, 2))
    curvature = Point.of(c, SpectralMoments(c), c.epsilons, 0.3).moments.curvature
    assert isinstance(curvature, LowRankCurvature)
    dense = np.diag(curvature.diagonal) + ((curvature.vectors * curvature.terms) @ curvature.vectors.T).real
    right = np.random.default_rng(0).normal(size=(400, 2))
    np.testing.assert_allclose(dense @ curvature.solve(right), right, atol=1e-8)


@pytest.mark.slow
def test_the_certificate_alone_gives_the_lower_bound():
    problem = draw(60, 0.5, 2)
    solution = solve(problem)
    assert solution.certificate is not None
    assert lower_bound(problem, solution.certificate) == solution.lower
    w = WeightedClasses.of(problem, solution.certificate.classes, solution.certificate.weights)
    assert sum(int(a) * int(n) for a, n in zip(w.weights, w.counts, strict=True)) < 1 << 62


@pytest.fixture
def few_rounds(monkeypatch):
    """Fewer rounds: the brackets are wider, but the tests take a second."""
    monkeypatch.setattr(ball_pairs, "_ROUNDS", 3)


@pytest.mark.slow
@pytest.mark.parametrize("m, low, high", [(11, 0.2, 1), (14, 0.2, 1)])
def test_named_pairs_are_kept(few_rounds, m, low, high):
    """Every pair's eigenvalue from its own marginal, and the bracket between the optimum without pairs and Kronecker."""
    problem = draw(m, low, high, largest=5)
    pairs = tuple((i, j) for i in range(m) for j in range(i + 1, m))
    kept = Problem(problem.sizes, problem.epsilons, pairs=pairs)
    solution = solve(kept)
    lam = problem.eigenvalues
    for i, j in pairs[:: m // 3]:
        assert solution.law.eigenvalues((i, j))[1, 1] >= lam[i] * lam[j] * (1 - 1e-7)
    assert solve(problem).lower - 1e-9 <= solution.lower <= solution.upper <= problem.kronecker_epsilon
    meets(problem, solution)


def test_pairs_of_alike_attributes_cost_next_to_nothing():
    """1000 binary attributes at ε = 0.1: 4.1889 without pairs, 4.1891 with all of them (theory §3.6)."""
    pairs = tuple((i, j) for i in range(300) for j in range(i + 1, 300))
    problem = Problem(np.full(300, 2), np.full(300, 0.1), pairs=pairs)
    exact = reduced.solve_classes(problem)
    solution = solve(problem)
    assert exact.upper - 1e-9 <= solution.upper <= exact.upper + 0.05


def test_pairs_among_too_many_different_attributes_are_refused_at_once():
    problem = draw(1100, 0.5, 2.0)
    with pytest.raises(MethodTooLarge, match=r"at most 1024 different attributes, got 1100; give attributes the same"):
        solve(Problem(problem.sizes, problem.epsilons, pairs=((0, 1),)))


def paired(m):
    problem = draw(m, 0.2, 1, largest=5)
    return Problem(problem.sizes, problem.epsilons, pairs=tuple((i, j) for i in range(m) for j in range(i + 1, m)))


@pytest.fixture(scope="module")
def watched():
    """Ten attributes with every pair, solved to the end in few rounds, and the progress that was reported."""
    seen = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ball_pairs, "_ROUNDS", 3)
        return solve(paired(10), BallOptions(progress=lambda *x: seen.append(x))), seen


@pytest.mark.slow
def test_pairs_report_their_progress(watched):
    solution, seen = watched
    done = [x[0] for x in seen]
    assert done == sorted(done)
    assert sum(0.5 < x < 1 for x in done) > 10
    assert seen[-1] == (1.0, solution.upper, solution.lower)
    assert all(upper >= solution.upper and lower <= solution.upper for _, upper, lower in seen)


@pytest.mark.parametrize("radii", [0, 12])
def test_pairs_stop_at_the_time_limit(watched, few_rounds, monkeypatch, radii):
    """After some radii the time is up: the best so far is returned and labelled, or Kronecker's where there is none."""
    problem, looks, (whole, _) = paired(10), [0], watched

    def goes_on(watch, done):
        looks[0] += 1
        watch.late = looks[0] > radii
        return not watch.late

    monkeypatch.setattr(ball_pairs.Watch, "goes_on", goes_on)
    solution = solve(problem, BallOptions(time_limit=1e6))
    assert looks[0] == radii + 1
    assert any("time limit" in note for note in solution.notes)
    assert whole.upper <= solution.upper <= problem.kronecker_epsilon and solution.lower <= whole.upper
    assert radii or solution.upper == problem.kronecker_epsilon
    meets(problem, solution)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_pairs_bracket_the_exact_optimum(seed):
    """Eight attributes: both bounds against the exact program; none of the first balls keeps seed 2's pairs."""
    rng = np.random.default_rng(seed)
    sizes, epsilons = rng.integers(2, 9, 8), np.exp(rng.uniform(np.log(0.05), np.log(4), 8))
    problem = Problem(sizes, epsilons, pairs=tuple(itertools.combinations(range(8), 2)))
    solution, exact = solve(problem), reduced.solve(problem).upper
    assert solution.lower <= exact + 1e-9 and exact - 1e-7 <= solution.upper <= problem.kronecker_epsilon
    assert solution.upper <= 1.01 * exact and solution.lower >= 0.98 * exact
    meets(problem, solution)


def test_two_attributes_whose_pair_leaves_no_gain_get_kroneckers_total():
    """Two attributes of nine categories at ε = 0.5: 1.0 with the pair kept, as under Kronecker (theory §3.6)."""
    problem = Problem(np.array([9, 9]), np.array([0.5, 0.5]), pairs=((0, 1),))
    assert reduced.solve(problem).upper == pytest.approx(1.0, abs=1e-6)
    assert solve(problem).upper <= problem.kronecker_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("m", "high"), [(8000, 2), (10_000, 10)])
def test_frequencies_make_a_fine_certificate_where_totals_spread(m, high):
    """A gap that a grid certificate does not reach, from weights of a millionth of a nat."""
    problem = draw(m, 0.5, high)
    solution = solve(problem)
    assert 0 <= solution.gap <= 2e-5 * solution.upper
    assert max(solution.certificate.weights) > 1e5
    meets(problem, solution)


@pytest.mark.slow
def test_a_path_without_a_law_leaves_work_to_the_next_one(monkeypatch):
    rng = np.random.default_rng(3)
    problem = Problem(rng.integers(2, 6, 60), np.r_[rng.uniform(1, 8, 56), 14.0, 15.0, 16.0, 17.0])
    whole = solve(problem)
    monkeypatch.setattr(ball_solve, "_MOST_WORK", 1)
    monkeypatch.setattr(ball_solve, "_WORK_OF_A_CLASS", 0)
    cut = solve(problem)
    assert cut.lower <= whole.upper * (1 + 1e-9) and whole.lower <= cut.upper
    assert cut.upper <= problem.kronecker_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ball", "auto"])
def test_pairs_are_kept_where_a_ball_without_weights_is_where_the_search_starts(method):
    """Tiny accuracies beside an attribute of a quarter of a million categories."""
    pairs = tuple(itertools.combinations(range(3), 2))
    epsilons = np.array([0.20476209675527487, 0.00043897856210106505, 0.0031790383564155255])
    problem = Problem(np.array([263077, 56, 3]), epsilons, pairs)
    solution = solve_by(problem, method)
    assert solution.upper <= problem.kronecker_epsilon * (1 + 1e-12)
    assert lower_bound(problem, solution.certificate) >= solution.lower * (1 - 1e-9)


def wanted(m, seed, largest=6):
    rng = np.random.default_rng(seed)
    problem = Problem(
        rng.integers(2, largest, m), rng.uniform(0.1, 2.5, m), pairs=tuple(itertools.combinations(range(m), 2))
    )
    classes = Classes.of(replace(problem, pairs=()))
    weights = classes.epsilons * rng.uniform(0.8, 1.2, classes.epsilons.size)
    return problem, Requirements.of(problem, classes), Soft(weights, classes.radius(weights) + 0.5, 0.1)


@pytest.mark.parametrize("m, seed", [(2, 1), (6, 2), (10, 3)])
def test_mass_and_rows_are_sums_over_all_change_sets(m, seed):
    """μ(S) Φ((R − ω(S))/T) one change set at a time; frequencies beyond e^{−(Tt)²/2} = 1e-10 are left out."""
    problem, requirements, ball = wanted(m, seed)
    where = {int(i): g for g, members in enumerate(requirements.classes.members) for i in members}
    d = 1 - 1 / problem.sizes
    flips = (problem.sizes - 1) / (problem.sizes - 1 + np.exp(problem.epsilons))
    mass, accuracies, pairs = 0.0, np.zeros(m), np.zeros((m, m))
    for change in itertools.product((0, 1), repeat=m):
        s = np.array(change)
        total = sum(ball.weights[where[i]] * s[i] for i in range(m))
        part = np.prod(np.where(s, d, 1 - d)) * norm.cdf((ball.radius - total) / ball.width)
        mass += part
        accuracies += part * (flips - s)
        pairs += part * np.outer(1 - s / d, 1 - s / d)
    law = Tilted(requirements.classes, ball.weights, ball.radius, ball.width)
    assert math.log(law.mass) + law.log_base == pytest.approx(math.log(mass), abs=1e-6)
    rows = requirements.real_rows(law)
    lam = 1 - flips / d
    kept = {}
    for i, j in problem.pairs:
        kept[where[i], where[j]] = kept[where[j], where[i]] = pairs[i, j] / mass - lam[i] * lam[j]
    np.testing.assert_allclose(
        rows[: len(set(where.values()))], [accuracies[c[0]] / mass for c in requirements.classes.members], atol=1e-6
    )
    named = [kept[int(g), int(h)] for g, h in zip(requirements.first, requirements.second, strict=True)]
    np.testing.assert_allclose(rows[len(set(where.values())) :], named, atol=1e-6)


@pytest.mark.parametrize("m, seed, sharpness", [(6, 1, 30.0), (12, 2, 300.0), (30, 3, 100.0)])
def test_the_gradient_is_that_of_the_value(m, seed, sharpness):
    _, requirements, ball = wanted(m, seed)
    merit = _Merit(requirements, ball.width)
    merit.sharpen(ball.weights, ball.radius, sharpness)
    _, gradient = merit.at(ball.weights, ball.radius)
    x, step = np.append(ball.weights, ball.radius), 1e-5
    for i in (0, gradient.size // 2, gradient.size - 1):
        ahead, behind = (
            merit.at((y := x + s * step * (np.arange(x.size) == i))[:-1], float(y[-1]))[0] for s in (1, -1)
        )
        assert gradient[i] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-5)


def test_the_multipliers_are_those_of_a_law_worth_one():
    """Σ π (g − rows) has mean 0 under the ball, so that a value of 1 of its mass is its mass."""
    _, requirements, ball = wanted(12, 4)
    law = Tilted(requirements.classes, ball.weights, ball.radius, ball.width)
    rows = requirements.real_rows(law)
    multipliers = np.random.default_rng(5).uniform(0, 1, rows.size)
    value, _ = law.value(requirements.unscaled(multipliers, 1.0, rows))
    assert value == pytest.approx(law.mass, rel=1e-9)


@pytest.mark.slow
def test_one_ball_comes_close_to_what_is_certified():
    """Thirty attributes: the last ball alone is within 2 % of the certified lower bound, where the first one is 5 % above."""
    problem, requirements, ball = wanted(30, 6)
    solution = solve(problem, BallOptions())
    assert solution.gap <= 0.01 * solution.upper
    *_, (last, _) = polish(requirements, ball, 100)
    column = requirements.column(on_grid(requirements, last))
    alone = float(np.logaddexp(0.0, -requirements.log_scale([column], np.ones(1))))
    assert solution.lower <= alone <= 1.02 * solution.lower


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 11])
def test_the_best_bound_may_come_from_a_search_without_a_mechanism(seed):
    """Heavy attributes are pooled in several ways; one may prove most where only another one finds a mechanism."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.integers(2, 2000, 24), np.exp(rng.uniform(np.log(1e-3), np.log(50), 24)))
    solution = solve(problem)
    assert kl_bound(problem) < 0.97 * solution.upper < solution.lower <= solution.upper
    assert solution.lower == pytest.approx(lower_bound(problem, solution.certificate), rel=1e-12)
