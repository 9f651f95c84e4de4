"""POR's published pipeline: which method it takes when, and what it says about the epsilons it replaces."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from optrr_solvers import InvalidProblem, Problem, Status, por, solve

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    ("m", "stage"),
    [
        (1, "closed form"),
        (2, "closed form"),
        (3, "linear program"),
        pytest.param(11, "linear program", marks=pytest.mark.slow),
        (12, "heuristic"),
    ],
)
def test_the_stage_and_its_label(m: int, stage: str) -> None:
    problem = Problem(RNG.integers(2, 6, m), RNG.uniform(1, 3, m))
    solution = por.solve(problem)
    assert solution.method == "por"
    assert stage in solution.notes[0]
    replaced = np.abs(solution.attribute_epsilons - problem.epsilons) > 1e-8
    if m <= por.MOST_BY_PROGRAM:
        assert solution.status is Status.OPTIMAL
        assert solution.upper == pytest.approx(solve(problem).upper, abs=1e-8)
        assert not replaced.any()
        assert "every requested epsilon is kept" in solution.notes[0]
    else:
        assert solution.status is Status.BASELINE


def test_the_program_is_solved_at_ten_attributes_as_in_the_paper_s_figures() -> None:
    """Alike attributes, so that the closed form is an independent reference; the heuristic has 11.742."""
    problem = Problem([3] * 10, [2.0] * 10)
    assert por.solve(problem).upper == pytest.approx(solve(problem, "closed-form").upper, abs=1e-8)
    assert por.solve(problem).upper == pytest.approx(8.624, abs=5e-4)


def test_beyond_the_program_it_is_the_published_heuristic_and_says_what_it_replaced() -> None:
    problem = Problem(2 + np.arange(30) % 4, np.random.default_rng(1).uniform(1, 8, 30))
    solution = por.solve(problem)
    total, achieved = naive.por_inductive(problem.sizes.tolist(), problem.epsilons.tolist())
    assert solution.upper == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(solution.attribute_epsilons, achieved, rtol=1e-8)
    replaced = int(np.sum(np.abs(np.asarray(achieved) - problem.epsilons) > 1e-8))
    assert replaced > 5
    assert any(note.startswith(f"{replaced} of 30 epsilons were replaced") for note in solution.notes)
    assert "kept" not in solution.notes[0]


def test_where_the_heuristic_replaces_nothing_it_says_so() -> None:
    solution = por.solve(Problem([2] * 12, np.linspace(6.0, 5.0, 12)))
    assert "every requested epsilon is kept" in solution.notes[0]


def test_pairs_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="no pairs or caps"):
        por.solve(Problem([2, 3], [1.0, 1.0], pairs=((0, 1),)))
