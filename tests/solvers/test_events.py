"""POR's program: against the authors' construction, event by event, against whole matrices, and as other solvers see it."""

from __future__ import annotations

import doctest
import itertools

import naive
import numpy as np
import pytest

import optrr_solvers.programs.events as module
from optrr_solvers import InvalidProblem, MethodTooLarge, Problem, event_program


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
