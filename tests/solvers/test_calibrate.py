"""Accuracies in given proportions that spend a given total: against closed forms and a plain bisection."""

import numpy as np
import pytest

from optrr_solvers import Infeasible, Problem, SolveFailed, solve
from optrr_solvers.calibrate import TOLERANCE, calibrate, scale_range


def ray(sizes, ratios, method="auto"):
    return lambda s: solve(Problem(sizes, s * np.asarray(ratios)), method)


@pytest.mark.parametrize("total", [0.01, 1.0, 7.0, 60.0])
def test_kronecker_spends_the_sum_of_its_epsilons(total):
    ratios = np.array([0.3, 1.0, 2.5])
    made = calibrate(ray([2, 5, 9], ratios, "kronecker"), total, scale_range(ratios))
    assert made.scale == pytest.approx(total / ratios.sum(), rel=2 * TOLERANCE)
    assert total * (1 - 2 * TOLERANCE) <= made.solution.upper <= total


@pytest.mark.slow
def test_random_rays_agree_with_plain_bisection():
    rng = np.random.default_rng(5)
    for _ in range(8):
        m = int(rng.integers(2, 6))
        sizes, ratios, total = rng.integers(2, 8, m), rng.uniform(0.2, 3, m), float(rng.uniform(0.3, 8))
        at = ray(sizes, ratios)
        low, high = 1e-3, 20.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle).upper <= total else (low, middle)
        made = calibrate(at, total, (1e-3, 16.0), guess=float(rng.uniform(0.01, 10)))
        assert made.solution.upper <= total
        assert made.scale == pytest.approx(low, rel=1e-5)


def test_the_last_scale_is_taken_where_it_fits():
    made = calibrate(ray([2, 2], [1.0, 1.0], "kronecker"), 50.0, (0.1, 2.0))
    assert made.scale == pytest.approx(2.0)


def test_too_small_a_total_names_the_least_that_would_do():
    with pytest.raises(Infeasible, match=r"total epsilon of 0\.1 is too small.* need 0\.4"):
        calibrate(ray([2, 2], [1.0, 1.0], "kronecker"), 0.1, (0.2, 2.0))


def test_a_solver_that_fails_counts_as_too_much_and_is_named_where_nothing_was_solved():
    good = ray([2, 2], [1.0, 1.0], "kronecker")

    def fails_above(limit):
        def at(s):
            if s > limit:
                raise SolveFailed("too hard")
            return good(s)

        return at

    made = calibrate(fails_above(1.5), 50.0, (0.1, 20.0))
    assert made.scale == pytest.approx(1.5, rel=1e-8)
    with pytest.raises(SolveFailed, match="too hard"):
        calibrate(fails_above(0.0), 50.0, (0.1, 20.0))


def test_a_total_that_jumps_down_again_is_scanned():
    """POR's heuristic may replace requested accuracies, so a larger scale may have a smaller total."""
    sizes, ratios = [2, 3, 4, 5, 2, 3], np.array([0.2, 0.5, 1.0, 0.7, 0.9, 0.4])
    at = ray(sizes, ratios, "inductive")
    scales = scale_range(ratios)
    made = calibrate(at, 9.0, scales, scan=True)
    assert made.solution.upper <= 9.0
    grid = [s for s in np.geomspace(*scales, 128) if at(s).upper <= 9.0]
    assert made.scale >= grid[-1]
