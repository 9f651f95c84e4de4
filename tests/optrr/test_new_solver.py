"""A solver that is added in one place, the table, goes everywhere: design, design file, verify, compare, the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import optrr
from optrr.cli import main
from optrr.designs.design_file import load_design, verification
from optrr_solvers import Guarantee, Method, Problem, SolveOptions, applicable, solve
from optrr_solvers.laws import ProductLaw
from optrr_solvers.methods import registered
from optrr_solvers.solution import Solution, checked

SPECIFICATION = ["--attribute", "a=2:1", "--attribute", "b=3:0.5", "--attribute", "c=4:1.5"]


def generous(problem: Problem, options: SolveOptions) -> Solution:
    """Every attribute on its own, a tenth of a nat better than asked for."""
    law = ProductLaw(problem.sizes, problem.epsilons + 0.1)
    return checked(problem, "generous", law, None, started=time.perf_counter(), tolerance=None)


@pytest.fixture
def in_the_table() -> Iterator[None]:
    toy = Method("generous", generous, Guarantee.BASELINE, "each a little better", most=5, automatic=lambda p: False)
    with registered(toy):
        yield


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("in_the_table")
def test_a_new_solver_is_designed_with_written_and_verified(tmp_path: Path) -> None:
    made = optrr.design({"a": 2, "b": 3, "c": 4}, [1.0, 0.5, 1.5], method="generous")
    assert made.method == "generous"
    np.testing.assert_allclose(made.attribute_epsilons, [1.1, 0.6, 1.6])
    optrr.save(made, tmp_path / "design.json")
    read = load_design(tmp_path / "design.json")
    assert read.method == "generous" and read.epsilon == made.epsilon
    assert not verification(read).failed


@pytest.mark.usefixtures("in_the_table")
def test_the_command_line_knows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "design.json")
    assert run("design", *SPECIFICATION, "--method", "generous", "-o", file, "--json") == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == pytest.approx(3.3)
    assert run("verify", file, "--json") == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    assert run("compare", *SPECIFICATION, "--json") == 0
    methods = [m["method"] for m in json.loads(capsys.readouterr().out)["methods"]]
    assert "generous" in methods and "por" in methods
    assert run("design", "--help") == 0
    assert "generous" in capsys.readouterr().out.replace("\n", "").replace(" ", "")


@pytest.mark.usefixtures("in_the_table")
def test_it_is_offered_where_it_applies_and_auto_leaves_it_alone() -> None:
    few, many = Problem([2, 3], [1.0, 0.5]), Problem([2, 3, 4, 5, 6, 7], [1.0] * 6)
    assert "generous" in applicable(few) and "generous" not in applicable(many)
    assert solve(few).method == "closed-form"


def test_afterwards_it_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("design", *SPECIFICATION, "--method", "generous") == 2
    assert "error:" in capsys.readouterr().err
