"""optrr.design(…, accuracy="variance"): what it returns, refuses and prints, and that surveys are as accurate as required."""

import json
import math

import numpy as np
import pytest

import optrr
from optrr.allocation.variances import NO_QUESTIONS, variance_design
from optrr.cli.main import run
from optrr_solvers.allocation.any_mechanism import total_bound

SIZES = {"sex": 2, "age": 5, "edu": 4, "vote": 2}
ATTRIBUTES = ["--attribute=sex=2:1.5", "--attribute=age=5:1.5", "--attribute=edu=4:1.5", "--attribute=vote=2:1.5"]


def of_randomized_response(size, epsilon):
    """n Σ Var of an even population."""
    eigenvalue = math.expm1(epsilon) / (math.expm1(epsilon) + size)
    return (1 - 1 / size) / eigenvalue**2


@pytest.fixture(scope="module")
def asked():
    return optrr.design(SIZES, 1.5, accuracy="variance")


def test_questions_cost_less_than_flips_and_are_as_accurate(asked, tmp_path):
    flips = optrr.design(SIZES, 1.5)
    assert isinstance(flips, optrr.Design) and isinstance(asked, optrr.SampledTables)
    assert total_bound(flips.domain.sizes, np.full(4, 1.5)) < asked.epsilon < flips.epsilon
    assert any(len(names) > 1 for names in asked.tables)
    for name, size in SIZES.items():
        assert asked.table_error(name) <= of_randomized_response(size, 1.5) * (1 + 1e-9)
    optrr.save(asked, tmp_path / "asked.json")
    assert optrr.load(tmp_path / "asked.json").digest == asked.digest
    assert optrr.verify(tmp_path / "asked.json")


def test_flips_are_what_is_meant_unless_told(asked):
    assert optrr.design(SIZES, 1.5, accuracy="flips").digest == optrr.design(SIZES, 1.5).digest
    again = optrr.design(optrr.Domain.of(SIZES), dict.fromkeys(SIZES, 1.5), accuracy="variance")
    assert again.digest == asked.digest


@pytest.mark.parametrize(("sizes", "epsilon"), [({"sex": 2}, 1.0), ({"a": 3, "b": 3, "c": 3}, 5.0)])
def test_where_no_questions_cost_less_it_is_the_design_of_flips(sizes, epsilon):
    made = optrr.design(sizes, epsilon, accuracy="variance")
    assert isinstance(made, optrr.Design) and made.epsilon == optrr.design(sizes, epsilon).epsilon
    assert NO_QUESTIONS in made.warnings


@pytest.mark.parametrize(
    ("sizes", "epsilons"),
    [
        ([50], [41.12163051523981]),
        ([2, 4, 3, 3], [16.75, 46.04, 3.05, 0.37]),
        ([2, 3], [11.025513193220638, 9.242e-06]),
    ],
)
def test_accuracies_far_apart_or_near_certainty_have_an_answer(sizes, epsilons):
    flips = optrr.design({f"a{i}": r for i, r in enumerate(sizes)}, epsilons)
    made, least = variance_design(flips)
    assert total_bound(flips.domain.sizes, np.asarray(epsilons)) <= made.epsilon <= flips.epsilon
    assert least is None or 0 < least <= made.epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accuracy": "variances"}, "accuracy 'variances'; give 'flips' or 'variance'"),
        ({"accuracy": None}, "give 'flips' or 'variance'"),
        ({"accuracy": "variance", "total": 2.0}, "takes no total"),
        ({"accuracy": "variance", "preserve": "pairs"}, "takes no preserve"),
        ({"accuracy": "variance", "preserve": [("sex", "age")]}, "takes no preserve"),
        ({"accuracy": "variance", "method": "lp"}, "takes no method"),
        ({"accuracy": "variance", "kappa": 0.5}, "takes no kappa"),
        ({"accuracy": "variance", "conditional_cap": {"sex": 1.0}}, "takes no conditional_cap"),
        ({"accuracy": "variance", "public": {"weight": "w"}}, "takes no public"),
    ],
)
def test_what_does_not_go_together_is_refused(given, said):
    with pytest.raises(optrr.InvalidInput, match=said):
        optrr.design(SIZES, 1.5, **given)


@pytest.mark.parametrize("epsilons", [-1.0, math.nan, {"sex": 1.0}, [1.0, 2.0], 1e-9, 99.0])
def test_epsilons_are_checked_as_for_flips(epsilons):
    with pytest.raises(ValueError) as of_flips:
        optrr.design(SIZES, epsilons)
    with pytest.raises(ValueError) as of_variance:
        optrr.design(SIZES, epsilons, accuracy="variance")
    assert str(of_variance.value) == str(of_flips.value) and "\n" not in str(of_flips.value)


def test_the_command_writes_questions_and_says_what_they_cost(asked, tmp_path, capsys):
    file = tmp_path / "asked.json"
    assert run(["design", *ATTRIBUTES, "--accuracy", "variance", "--n", "1000", "-o", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert optrr.load(file).digest == asked.digest
    assert printed["method"] == "questions" and not printed["keeps_records"]
    assert printed["total_bound"] < printed["least_of_questions"] <= printed["epsilon"] < printed["flips_epsilon"]
    assert printed["flips_epsilon"] == pytest.approx(optrr.design(SIZES, 1.5).epsilon)
    for row, (name, size) in zip(printed["attributes"], SIZES.items(), strict=True):
        assert (row["name"], row["size"], row["requested_epsilon"]) == (name, size, 1.5)
        assert row["randomized_response_error"] == pytest.approx(of_randomized_response(size, 1.5))
        assert row["standard_error_ratio"] == pytest.approx(math.sqrt(row["error"] / row["randomized_response_error"]))
        assert row["standard_error_ratio"] <= 1 + 1e-9
        assert row["standard_error"] == pytest.approx(asked.standard_error(name, 1000))
    assert sum(q["share"] for q in printed["questions"]) == pytest.approx(1)
    assert printed["tables"] == [list(t) for t in dict.fromkeys(asked.tables) if len(t) > 1]


def test_public_columns_are_left_out_with_a_warning(tmp_path, capsys):
    assert run(["design", *ATTRIBUTES, "--accuracy", "variance", "--public", "weight=w"]) == 0
    assert "public columns (weight 'w') are left out" in capsys.readouterr().err
