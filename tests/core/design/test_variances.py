"""Designs of required variances: what they return and refuse, and that surveys are as accurate as required."""

import math

import numpy as np
import pytest

import optrr
from optrr.allocation.variances import NO_QUESTIONS, variance_design
from optrr_solvers.allocation.any_mechanism import total_bound

SIZES = {"sex": 2, "age": 5, "edu": 4, "vote": 2}


def of_randomized_response(size, epsilon):
    """n Σ Var of an even population."""
    eigenvalue = math.expm1(epsilon) / (math.expm1(epsilon) + size)
    return (1 - 1 / size) / eigenvalue**2


@pytest.fixture(scope="module")
def asked():
    return variance_design(SIZES, 1.5)


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


def test_a_domain_and_epsilons_by_name_are_the_same(asked):
    again = variance_design(optrr.Domain.of(SIZES), dict.fromkeys(SIZES, 1.5))
    assert again.digest == asked.digest


@pytest.mark.parametrize(("sizes", "epsilon"), [({"sex": 2}, 1.0), ({"a": 3, "b": 3, "c": 3}, 5.0)])
def test_where_no_questions_cost_less_it_is_the_design_of_flips(sizes, epsilon):
    made = variance_design(sizes, epsilon)
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
    domain = {f"a{i}": r for i, r in enumerate(sizes)}
    made, flips = variance_design(domain, epsilons), optrr.design(domain, epsilons)
    assert total_bound(flips.domain.sizes, np.asarray(epsilons)) <= made.epsilon <= flips.epsilon


@pytest.mark.parametrize("epsilons", [-1.0, math.nan, {"sex": 1.0}, [1.0, 2.0], 1e-9, 99.0])
def test_epsilons_are_checked_as_for_flips(epsilons):
    with pytest.raises(ValueError) as of_flips:
        optrr.design(SIZES, epsilons)
    with pytest.raises(ValueError) as of_variance:
        variance_design(SIZES, epsilons)
    assert str(of_variance.value) == str(of_flips.value) and "\n" not in str(of_flips.value)
