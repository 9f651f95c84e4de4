"""POR's program against the authors' construction and whole matrices, and POR's published pipeline."""

import doctest
import itertools

import naive
import numpy as np
import pytest

import optrr_solvers.programs.events as module
from optrr_solvers import InvalidProblem, MethodTooLarge, Problem, Status, event_program, por, solve


def drawn(m: int) -> Problem:
    rng = np.random.default_rng(m)
    return Problem(rng.integers(2, 8, m), rng.uniform(0.1, 3, m))


@pytest.mark.parametrize("m", [3, 4, 5, 6, 7])
def test_it_is_the_authors_program_in_another_order(m: int) -> None:
    """POR numbers events by how many attributes change and divides row i of A_eq by r_i − 1."""
    problem = drawn(m)
    program = event_program(problem)
    events, a, b, a_eq, b_eq = naive.por_program(problem.sizes.tolist(), problem.epsilons.tolist())
    number = [sum(1 << (m - 1 - i) for i in event) for event in events]
    assert sorted(number) == list(range((1 << m) - 1))
    ours, scale = program.A.toarray()[:, number], (problem.sizes - 1.0)[:, None]
    rows = sorted(map(tuple, np.column_stack([ours, program.b]).tolist()))
    assert rows == sorted(map(tuple, np.column_stack([a, b]).tolist()))
    assert len(rows) == m * 2 ** (m - 1) == len(set(rows))
    np.testing.assert_allclose(program.A_eq.toarray()[:, number] / scale, a_eq, rtol=1e-14)
    np.testing.assert_allclose(program.b_eq / scale[:, 0], b_eq, rtol=1e-14)


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2, 4), (2, 2, 3, 2)])
def test_its_rows_say_of_a_whole_matrix_what_they_should(sizes: tuple[int, ...]) -> None:
    """Random densities as matrices over all records: A q ≤ b is the published order, A_eq's residual is zero at ε_i alone."""
    rng = np.random.default_rng(sum(sizes))
    m = len(sizes)
    monotone = 0
    for k in range(30):
        q = np.append(np.sort(1 + rng.exponential(2.0, (1 << m) - 1))[::-1], 1.0)
        if k % 2:
            rng.shuffle(q[:-1])
        p = naive.matrix(sizes, q.reshape((2,) * m))
        achieved = []
        for i, r in enumerate(sizes):
            one = naive.marginal_matrix(sizes, p, (i,))
            achieved.append(float(np.log(one[0, 0] / one[0, 1])))
            assert one.shape == (r, r)
        if min(achieved) <= 1e-3:
            continue
        program = event_program(Problem(sizes, achieved))
        scale = np.abs(program.A_eq.toarray()).max(axis=1)
        np.testing.assert_allclose((program.A_eq @ q[:-1] - program.b_eq) / scale, 0, atol=1e-11)
        other = event_program(Problem(sizes, np.asarray(achieved) + 0.1))
        assert np.all(np.abs(other.A_eq @ q[:-1] - other.b_eq) / scale > 1e-4)
        ordered = all(q[s] >= q[s | 1 << i] for s, i in itertools.product(range(1 << m), range(m)) if not s >> i & 1)
        assert bool(np.all(program.A @ q[:-1] <= program.b)) == ordered
        monotone += ordered
    assert monotone > 3  # both outcomes occur


def test_the_example_in_its_docstring() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    examples = [t for t in finder.find(module, globs={}) if t.examples]
    assert [t.name.rsplit(".", 1)[-1] for t in examples] == ["event_program"]
    assert runner.run(examples[0]).failed == 0


def test_what_is_no_part_of_it_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="no pairs or caps"):
        event_program(Problem([2, 3], [1.0, 1.0], pairs=((0, 1),)))
    with pytest.raises(MethodTooLarge, match="20"):
        event_program(Problem([2] * 21, [1.0] * 21))


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
