"""Smooth ascent of one ball that keeps pairs: rows against the exact law, gradients against differences, and what it gains."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from optrr_solvers import Problem
from optrr_solvers.balls.moments import Classes
from optrr_solvers.balls.pair_mixture import on_grid
from optrr_solvers.balls.pair_polish import _Merit, polish
from optrr_solvers.balls.pair_pricing import Soft, Tilted
from optrr_solvers.balls.pair_rows import Requirements
from optrr_solvers.balls.solve import BallOptions, solve


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
    *_, last = polish(requirements, ball, 100)
    column = requirements.column(on_grid(requirements, last.ball))
    alone = float(np.logaddexp(0.0, -requirements.log_scale([column], np.ones(1))))
    assert solution.lower <= alone <= 1.02 * solution.lower
