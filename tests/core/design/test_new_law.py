"""A law or a solver that is added in one place goes everywhere: files, verify, perturb, estimate, the command line."""

import itertools
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import naive
import numpy as np
import pandas as pd
import pytest

import optrr
from optrr.cli import main
from optrr.core.design.design import Design
from optrr.core.design.design_file import checks, load_design, save_design, verification
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.estimator import estimate
from optrr.core.records.counts import count
from optrr_solvers import Guarantee, Method, Problem, Solution, SolveOptions, Status, applicable, lower_bound, solve
from optrr_solvers.laws import ProductLaw
from optrr_solvers.laws.base import KINDS, Law, checked_subset
from optrr_solvers.methods import registered
from optrr_solvers.solution import checked


class NearRecord(msgspec.Struct, forbid_unknown_fields=True):
    """How many changes are near, and ln of their density."""

    reach: int
    nats: float


def near_law_class() -> type[Law]:
    """Density e^nats for at most ``reach`` changes, and 1 beyond, in a class that lists itself."""

    class NearLaw(Law):
        kind = "near"
        Record = NearRecord

        def __init__(self, sizes, reach, nats):
            self.sizes, self.reach, self.nats = np.asarray(sizes, dtype=np.int64), int(reach), float(nats)

        def to_record(self):
            return NearRecord(self.reach, self.nats)

        @classmethod
        def from_record(cls, record, sizes):
            return cls(sizes, record.reach, record.nats)

        def marginal(self, subset):
            chosen, out = checked_subset(subset, self.m), np.zeros((2,) * len(subset))
            for s in itertools.product((0, 1), repeat=self.m):
                outputs = math.prod(int(r) - 1 for r, c in zip(self.sizes, s, strict=True) if c)
                out[tuple(s[i] for i in chosen)] += outputs * math.exp(self.nats * (sum(s) <= self.reach))
            return out / out.sum()

    return NearLaw


@pytest.fixture
def near_law():
    yield near_law_class()
    del KINDS["near"]


def near_design(near_law: type[Law]) -> Design:
    domain = Domain.of({"sex": ["f", "m"], "class": 4, "age": 5})
    law = near_law(domain.sizes, 1, 2.5)
    # accuracies that the law has, rounded down, so that it is a solution of the problem
    problem = Problem(domain.sizes, law.attribute_epsilons() * (1 - 1e-12), names=domain.names)
    return Design(domain, Solution(problem, "near", law, None, lower_bound(problem, None), Status.BASELINE, 0.0))


def test_a_new_law_goes_through_file_verify_perturb_and_estimate(near_law, tmp_path):
    made = near_design(near_law)
    save_design(made, tmp_path / "near.json")
    read = load_design(tmp_path / "near.json")
    assert isinstance(read.law, near_law) and read.law.to_record() == made.law.to_record()
    assert all(check.holds for check in checks(read)) and 2.5 <= read.epsilon <= 2.5 + 1e-11
    rng = np.random.default_rng(3)
    n = 200_000
    true = {
        "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]),
        "class": rng.integers(0, 4, n) ** 2 // 3,
        "age": np.zeros(n, int),
    }
    frame = pd.DataFrame(true)
    noisy = read.mechanism.perturb(frame, random_state=4)
    estimated = estimate(count(noisy, read.domain, ["sex", "class"]), read.mechanism)
    wanted = pd.crosstab(frame["sex"], frame["class"]).reindex(columns=range(4), fill_value=0).to_numpy() / n
    # 8 cells beyond 5.5 standard errors: 3e-7
    assert np.all(np.abs(estimated.proportions - wanted) < 5.5 * estimated.standard_errors)
    assert np.abs(estimated.proportions - wanted).max() < 0.02


def test_a_law_that_gives_its_marginal_alone_answers_everything_else(near_law):
    law = near_law([2, 4, 3], 1, 2.5)
    truth = naive.ExactTruth([2, 4, 3], naive.drawn_probabilities(law.automaton.layers))
    assert 2.5 <= law.epsilon <= 2.5 + 1e-11 and np.all(np.abs(law.conditional_epsilons() - 2.5) < 1e-11)
    assert math.exp(law.labels.epsilon) >= truth.total
    assert all(math.exp(x) >= q for x, q in zip(law.labels.conditional, truth.conditional, strict=True))
    sharper = law.sharpened(4.0)
    assert sharper.epsilon == pytest.approx(4.0) and np.all(sharper.attribute_epsilons() > law.attribute_epsilons())
    assert law.work().seconds > 0 and not law.blocks


def test_a_kind_that_is_taken_or_not_listed_is_refused(tmp_path):
    with pytest.raises(TypeError, match="kind 'ball' is that of BallLaw"):
        type("Other", (Law,), {"kind": "ball"})
    save_design(near_design(near_law_class()), tmp_path / "near.json")
    law = near_design(KINDS.pop("near"))
    with pytest.raises(InvalidInput, match="NearLaw cannot be written"):
        save_design(law, tmp_path / "near.json")
    with pytest.raises(InvalidInput, match="kind is 'near'; this version reads ball, blocks"):
        load_design(tmp_path / "near.json")


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
