"""RR-Joint and the inverse-distance matrix against their definitions, written out over all records."""

import math
from itertools import combinations, product

import pytest

from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws import FewChangesLaw, inverse_distance
from optrr_solvers.laws.few_changes import joint_law, retention_epsilons

SIZES = [(2, 3), (4,), (2, 2, 3), (5, 2, 3, 2)]


def record_probabilities(law) -> dict[tuple[int, ...], float]:
    """Probability of every record, given the record of all zeros, from the law's table."""
    sizes = tuple(law.sizes)
    table = law.marginal(range(law.m))
    out = {}
    for record in product(*(range(r) for r in sizes)):
        changed = tuple(int(v != 0) for v in record)
        ways = math.prod(r - 1 for r, c in zip(sizes, changed, strict=True) if c)
        out[record] = float(table[changed]) / ways
    return out


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, -1.0])
def test_joint_response_keeps_the_record_or_takes_any_other_alike(sizes, epsilon):
    probabilities = record_probabilities(joint_law(sizes, epsilon))
    kept = 1 / (1 + (math.prod(sizes) - 1) * math.exp(-epsilon))
    others = {record: p for record, p in probabilities.items() if any(record)}
    assert probabilities[(0,) * len(sizes)] == pytest.approx(kept, rel=1e-12)
    assert all(p == pytest.approx(kept * math.exp(-epsilon), rel=1e-12) for p in others.values())
    assert joint_law(sizes, epsilon).epsilon == pytest.approx(abs(epsilon), rel=1e-12)


def test_joint_response_on_many_attributes():
    law = joint_law([3] * 500, 800.0)
    assert isinstance(law, FewChangesLaw)
    assert law.epsilon == pytest.approx(800.0, rel=1e-12)
    assert law.epsilon >= 800.0
    # ln(3^500) = 549.3, so at epsilon 800 nearly every record is kept
    assert law.one_way()[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.0, math.nan, math.inf])
def test_joint_response_refuses_what_nothing_can_be_estimated_from(epsilon):
    with pytest.raises(InvalidProblem, match="RR-Joint got epsilon"):
        joint_law([2, 2], epsilon)


@pytest.mark.parametrize("sizes", SIZES)
def test_inverse_distance_matrix_is_sic_equation_10(sizes):
    weights = {}
    for record in product(*(range(r) for r in sizes)):
        distance = sum(v != 0 for v in record)
        weights[record] = 1 / distance if distance else 0.0
    total = sum(weights.values())
    assert inverse_distance.inverse_distance_normaliser(sizes) == pytest.approx(total, rel=1e-13)
    probabilities = record_probabilities(inverse_distance.inverse_distance_law(sizes, 0.8))
    for record, weight in weights.items():
        assert probabilities[record] == pytest.approx(0.8 if not any(record) else 0.2 * weight / total, rel=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("retention", [0.9, 0.5])
def test_inverse_distance_epsilon_is_the_column_ratio(sizes, retention):
    law = inverse_distance.inverse_distance_law(sizes, retention)
    probabilities = record_probabilities(law).values()
    assert law.epsilon == pytest.approx(math.log(max(probabilities) / min(probabilities)), rel=1e-12)
    closed = math.log(retention * len(sizes) * inverse_distance.inverse_distance_normaliser(sizes) / (1 - retention))
    if retention >= (1 - retention) / inverse_distance.inverse_distance_normaliser(sizes):
        assert law.epsilon == pytest.approx(closed, rel=1e-12)
        assert inverse_distance.inverse_distance_retention(sizes, closed) == pytest.approx(retention, rel=1e-12)


def test_inverse_distance_epsilon_where_the_record_is_not_the_likeliest_answer():
    sizes, retention = (2, 2), 0.05
    law = inverse_distance.inverse_distance_law(sizes, retention)
    # three answers weigh 1, 1, 1/2 of 0.95; the kept record's 0.05 is the smallest of all
    assert law.epsilon == pytest.approx(math.log(0.95 / 2.5 / 0.05), rel=1e-12)


def test_records_at_distance_count_every_record():
    sizes = [9, 16, 7, 15, 6, 5, 2, 42, 2]
    assert inverse_distance.records_at_distance(sizes).sum() == math.prod(sizes) == 76_204_800


def test_the_epsilons_that_sic_prints():
    # Table 1; Adult's sizes: workclass 9, education 16, marital-status 7, race 5, native-country 42, occupation 15, sex 2
    assert inverse_distance.inverse_distance_law([9, 16], 0.9).epsilon == pytest.approx(7.309, abs=1e-3)
    assert inverse_distance.inverse_distance_law([5, 42], 0.9).epsilon == pytest.approx(7.735, abs=1e-3)
    assert inverse_distance.inverse_distance_law([9, 16, 5, 42], 0.8).epsilon == pytest.approx(11.844, abs=1e-3)
    assert inverse_distance.inverse_distance_law([15, 2], 0.8).epsilon == pytest.approx(5.171, abs=1e-3)
    assert inverse_distance.inverse_distance_law([7, 6, 2], 0.8).epsilon == pytest.approx(6.234, abs=1e-3)
    assert inverse_distance.inverse_distance_law([16, 15, 2], 0.7).epsilon == pytest.approx(7.337, abs=1e-3)
    assert inverse_distance.inverse_distance_law([9, 5, 42], 0.7).epsilon == pytest.approx(8.569, abs=1e-3)
    assert inverse_distance.inverse_distance_law([7, 6, 2], 0.7).epsilon == pytest.approx(5.695, abs=1e-3)


def test_one_epsilon_that_sic_prints_belongs_to_no_five_attributes():
    adult = [9, 16, 7, 15, 6, 5, 2, 42, 2]
    epsilons = [inverse_distance.inverse_distance_law(five, 0.9).epsilon for five in combinations(adult, 5)]
    assert min(abs(e - 11.975) for e in epsilons) > 0.03


@pytest.mark.parametrize("retention", [0.0, 1.0, -0.1, math.nan])
def test_inverse_distance_refuses_no_probability(retention):
    with pytest.raises(InvalidProblem, match="retention"):
        inverse_distance.inverse_distance_law([2, 3], retention)


def test_inverse_distance_limits():
    with pytest.raises(MethodTooLarge, match="21"):
        inverse_distance.inverse_distance_law([2] * 21, 0.5)
    with pytest.raises(InvalidProblem, match="ln 3"):
        inverse_distance.inverse_distance_retention([2, 2, 2], 1.0)


def test_retention_epsilons_are_the_ratio_of_the_matrix():
    for r in (2, 5, 16):
        for p in (0.1, 0.3, 0.7):
            off = (1 - p) / (r - 1)
            assert retention_epsilons([r], p)[0] == pytest.approx(abs(math.log(p / off)), rel=1e-12)
            assert retention_epsilons([r], p, signed=True)[0] == pytest.approx(math.log(p / off), rel=1e-12)
    with pytest.raises(InvalidProblem):
        retention_epsilons([2], 1.0)
