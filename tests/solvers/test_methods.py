"""Every method of the table on every case it takes: primal and dual answers against a program of slow obvious loops."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from cases import SOLVER_CASES

from optrr_solvers import (
    METHODS,
    Guarantee,
    InvalidInput,
    InvalidProblem,
    Problem,
    SolveOptions,
    Status,
    applicable,
    lower_bound,
    solve,
)
from optrr_solvers.methods import registered
from optrr_solvers.solution import require, shortfalls

ROUNDING = 1e-9


@pytest.fixture(scope="module")
def optima() -> dict[str, float]:
    """The smallest total of every case, by linear programs over all change sets."""
    return {name: naive.optimum(problem) for name, problem in SOLVER_CASES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("case", SOLVER_CASES)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_on_every_case(name: str, case: str, optima: dict[str, float]) -> None:
    method, problem, optimum = METHODS[name], SOLVER_CASES[case], optima[case]
    if not method.takes(problem):
        assert name not in applicable(problem)
        return
    solution = solve(problem, name)
    assert solution.method == name
    assert solution.upper == solution.law.epsilon
    # the dual answer: the bound follows from the certificate alone and is never above the optimum
    assert lower_bound(problem, solution.certificate) <= optimum + 1e-6
    kept = not shortfalls(problem, solution.law).any()
    if kept:
        assert solution.upper >= optimum - 1e-6
    match method.guarantee:
        case Guarantee.EXACT:
            assert solution.status is Status.OPTIMAL
            assert solution.upper == pytest.approx(optimum, abs=1e-6)
            assert solution.gap <= ROUNDING
            require(problem, name, solution.law)
        case Guarantee.CERTIFIED:
            assert solution.lower <= optimum + 1e-6
            require(problem, name, solution.law)
        case Guarantee.BASELINE:
            assert kept or any("replaced" in note for note in solution.notes)


@pytest.mark.slow
@pytest.mark.parametrize("case", SOLVER_CASES)
def test_auto_has_the_smallest_total_of_all_methods(case: str) -> None:
    problem = SOLVER_CASES[case]
    chosen = solve(problem)
    require(problem, "auto", chosen.law)
    for name in applicable(problem):
        other = solve(problem, name)
        if not shortfalls(problem, other.law).any():
            assert chosen.upper <= other.upper + ROUNDING, name


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_does_not_take_is_refused_in_one_line(name: str) -> None:
    method = METHODS[name]
    small = Problem([2, 3, 4], [1.0, 0.5, 1.5])
    wrong = {
        "pairs": Problem([2, 3, 4], [1.0, 0.5, 1.5], pairs=((0, 1),), kappa=1.5 if name == "kronecker" else 1.0),
        "caps": Problem([2, 3, 4], [1.0, 0.5, 1.5], caps=[1.2, 1.2, 1.8]),
    }
    for what, problem in wrong.items():
        if not method.takes(problem):
            with pytest.raises(InvalidInput, match=r"^[^\n]+$"):
                solve(problem, name)
        else:
            assert getattr(method, what)
    for option in {"tolerance", "time_limit"} - set(method.options):
        with pytest.raises(InvalidProblem, match="drop it"):
            solve(small, name, SolveOptions(**{option: 10.0}))


def test_a_name_is_taken_once() -> None:
    with pytest.raises(InvalidProblem, match="already"), registered(METHODS["ball"]):
        pass
    with pytest.raises(InvalidProblem, match="unknown method 'toy'"):
        solve(Problem([2, 3], [1.0, 1.0]), "toy")


def test_the_heuristic_may_be_the_answer_where_it_keeps_every_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no certified method left, the best of heuristic, products of blocks and Kronecker is returned."""
    problem = Problem(np.full(40, 2), np.linspace(6.0, 5.0, 40))
    heuristic = solve(problem, "inductive")
    assert not shortfalls(problem, heuristic.law).any()  # or this test shows nothing
    monkeypatch.delitem(METHODS, "ball")
    chosen = solve(problem)
    require(problem, "auto", chosen.law)
    assert chosen.upper <= heuristic.upper < problem.kronecker_epsilon
