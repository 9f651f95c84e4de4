"""Wishes and totals: one meaning for designs and allocations, and accuracies in given proportions."""

import json
import math

import numpy as np
import pytest

from optrr import InvalidInput, allocate, design
from optrr.cli.main import run
from optrr.designs.solving import Wishes
from optrr.domain.domain import Domain
from optrr.errors import Infeasible, MethodTooLarge

DOMAIN = Domain.of({"a": 3, "b": 5, "c": 2})


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"conditional_cap": "x"}, "the conditional cap is 'x'; give a number of nats"),
        ({"conditional_cap": math.nan}, "the conditional cap is nan"),
        ({"conditional_cap": {"b": None}}, "attribute 'b' has conditional cap None"),
        ({"conditional_cap": {"z": 1.0}}, "'z'"),
        ({"preserve": "all"}, "preserve = 'all'"),
        ({"preserve": [("a", "z")]}, "'z'"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_same_words_everywhere(wish, said):
    with pytest.raises(InvalidInput, match=said):
        design(DOMAIN, 1.0, **wish)
    with pytest.raises(InvalidInput, match=said):
        allocate(DOMAIN, 2.0, **wish)


def test_too_many_pairs_are_refused_alike():
    wide = Domain.of({f"q{i}": 2 for i in range(1600)})
    for call in (lambda: design(wide, 0.5, preserve="pairs"), lambda: allocate(wide, 5.0, preserve="pairs")):
        with pytest.raises(MethodTooLarge, match="1279200 pairs"):
            call()


def test_no_limit_is_no_cap():
    assert Wishes(conditional_cap={"a": math.inf}).problem(DOMAIN, np.ones(3)).caps is None


@pytest.mark.parametrize("method", ["auto", "kronecker", "inductive"])
@pytest.mark.parametrize("total", [0.05, 3.0, 20.0])
def test_proportions_are_kept_and_the_total_is_spent(method, total):
    made = design(DOMAIN, {"a": 1, "b": 2, "c": 1}, total=total, method=method)
    asked = made.requested_epsilons
    assert asked == pytest.approx(asked[0] * np.array([1, 2, 1]))
    assert made.epsilon <= total
    if method != "inductive":
        assert made.epsilon >= total * (1 - 2e-6)


@pytest.mark.parametrize(
    ("cap", "epsilons"), [(1.0, [0.5, 1.0, 0.25]), ({"a": 0.8}, [0.8, 1.6, 0.4]), ({"c": 0.3}, [0.6, 1.2, 0.3])]
)
def test_of_a_total_is_spent_what_caps_allow(cap, epsilons):
    made = design(DOMAIN, [2.0, 4.0, 1.0], total=6.0, conditional_cap=cap)
    np.testing.assert_allclose(made.attribute_epsilons, epsilons, rtol=1e-6)
    assert made.epsilon <= 6
    # of what is left a user is told; there is nothing to tell where a total is spent
    assert made.warnings == (
        f"the design spends {made.epsilon:.6g} of the total epsilon of 6: in these proportions caps or preserved pairs allow "
        "no more; other proportions may spend the rest",
    )
    assert not design(DOMAIN, [2.0, 4.0, 1.0], total=0.5, conditional_cap=cap).warnings
    with pytest.raises(Infeasible, match="conditional cap 1e-09 below"):
        design(DOMAIN, 1.0, total=6.0, conditional_cap=1e-9)


@pytest.mark.parametrize("kappa", [1.05, 2.0])
def test_a_total_is_spent_where_more_accurate_attributes_could_not_keep_their_pairs(kappa):
    made = design({"a": 2, "b": 2}, 1.0, total=6.0, preserve="pairs", kappa=kappa)
    assert 6 * (1 - 1e-6) <= made.epsilon <= 6 and made.faintest_pair[0] >= kappa * (1 - 1e-6)


def test_pairs_can_be_kept_at_a_total():
    plain = design(DOMAIN, 1.0, total=2.0)
    kept = design(DOMAIN, 1.0, total=2.0, preserve="pairs")
    assert kept.epsilon <= 2.0
    assert (kept.requested_epsilons < plain.requested_epsilons).all()


@pytest.mark.parametrize(
    ("epsilons", "total", "error", "said"),
    [
        (1.0, -1, InvalidInput, "total epsilon -1"),
        (1.0, "much", InvalidInput, "total epsilon 'much'"),
        (1.0, 1e-9, Infeasible, "too small"),
        ([1.0, 0.0, 1.0], 2.0, InvalidInput, "'b' has proportion 0"),
        ([1.0, 1e9, 1.0], 2.0, InvalidInput, "ratio can be at most"),
    ],
)
def test_impossible_totals_are_refused(epsilons, total, error, said):
    with pytest.raises(error, match=said):
        design(DOMAIN, epsilons, total=total)


def test_a_total_on_the_command_line(tmp_path, capsys):
    spec = tmp_path / "spec.json"
    spec.write_text('{"attributes": [{"name": "a", "size": 3, "epsilon": 1}, {"name": "b", "size": 5, "epsilon": 2}]}')
    assert run(["design", str(spec), "--total-epsilon", "2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["epsilon"] == pytest.approx(2, rel=2e-6) and made["epsilon"] <= 2
    a, b = (row["requested_epsilon"] for row in made["attributes"])
    assert b == pytest.approx(2 * a)
    spec.write_text('{"attributes": [{"name": "a", "size": 3}, {"name": "b", "size": 5}]}')
    assert run(["design", str(spec), "--total-epsilon", "2", "--json"]) == 0
    a, b = (row["requested_epsilon"] for row in json.loads(capsys.readouterr().out)["attributes"])
    assert a == b
    assert run(["design", str(spec), "--total-epsilon", "-2"]) == 2
    assert "give a positive number of nats" in capsys.readouterr().err
