"""allocate with whole records: predictions against simulations, limits, required accuracies, files, refusals."""

import math
from itertools import combinations

import numpy as np
import pytest

import optrr
from optrr import Constraints, InvalidInput, design
from optrr.allocation.workload import WantedTable, Workload, workload_of
from optrr.core.design.design_file import checks, load_design, recomputed_design, save_design
from optrr.core.domain.domain import Domain
from optrr_solvers import Infeasible, Problem, solve
from optrr_solvers.certificates.certificate import lower_bound

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


def allocate(*arguments, **options):
    """The best law of change sets, which is what these tests are of."""
    return optrr.allocate(*arguments, records_only=True, **options).choosing("optimum")


def test_the_optimum_is_a_design_that_verifies_and_loads(tmp_path):
    allocation = allocate(DOMAIN, 2.0)
    assert allocation.design.epsilon <= 2.0
    assert allocation.gap < 0.01 and allocation.error <= allocation.option("kronecker").error
    assert all(c.holds for c in checks(allocation.design))
    save_design(allocation.design, tmp_path / "design.json")
    again = load_design(tmp_path / "design.json")
    assert again.epsilon == allocation.design.epsilon
    assert np.array_equal(again.attribute_epsilons, allocation.design.attribute_epsilons)
    # at its own accuracies the design is the design solver's, to the search's tolerance
    assert solve(Problem(DOMAIN.sizes, allocation.design.attribute_epsilons)).upper == pytest.approx(2.0, abs=0.01)


def test_required_accuracies_give_the_smallest_total():
    allocation = allocate(DOMAIN, workload="pairs", standard_error=0.02, n=5000)
    assert max(p.standard_error for p in allocation.predictions) <= 0.02 * (1 + 1e-9)
    assert allocation.best_law.least_total <= allocation.design.epsilon <= allocation.best_law.least_total + 1e-3
    stated = allocation.summary()
    assert stated["lower_bound"] == allocation.best_law.least_total > max(a["epsilon"] for a in stated["attributes"])
    assert stated["gap"] == pytest.approx(stated["epsilon"] - allocation.best_law.least_total, abs=1e-12)
    # a little less total is not enough for laws, a little more is
    with pytest.raises(Infeasible, match="they need at least"):
        allocate(
            DOMAIN,
            allocation.best_law.least_total * 0.99,
            workload="pairs",
            standard_error=0.02,
            n=5000,
            constraints=Constraints(min_epsilon=1e-6),
        )
    more = allocate(DOMAIN, allocation.design.epsilon * 1.01, workload="pairs", standard_error=0.02, n=5000)
    assert max(p.standard_error for p in more.predictions) <= 0.02 * (1 + 1e-6)


def test_required_accuracies_of_marginals_are_the_design_for_those_accuracies():
    allocation = allocate(DOMAIN, workload="marginals", standard_error=0.02, n=5000)
    lam = np.sqrt((1 - 1 / DOMAIN.sizes) / (5000 * DOMAIN.sizes * 0.02**2))
    epsilons = np.log1p(DOMAIN.sizes * lam / (1 - lam))
    assert allocation.design.epsilon == pytest.approx(design(DOMAIN, epsilons).epsilon, rel=1e-8)
    assert [p.standard_error for p in allocation.predictions] == pytest.approx([0.02] * 3, rel=1e-8)
    # the design holds the certificate that proves its total
    solution = allocation.design.solution
    assert solution.certificate is not None and solution.lower == allocation.best_law.least_total
    assert solution.upper - lower_bound(solution.problem, solution.certificate) <= 1e-9
    assert recomputed_design(allocation.design).holds


def test_what_no_epsilon_can_reach_is_refused_with_what_can():
    # p(1 − p)/n at p = 1/2
    message = r"table a: the standard error 0\.001 .*sampling alone causes 0\.01118.*more than 250000 people"
    with pytest.raises(Infeasible, match=message):
        allocate(DOMAIN, 2.0, workload="marginals", standard_error=0.001, n=2000)
    allocate(DOMAIN, workload=[WantedTable(("a", "b", "c"), standard_error=0.01)], n=2000)
    with pytest.raises(InvalidInput, match="give ``n``, too"):
        allocate(DOMAIN, 2.0, workload="marginals", standard_error=0.1)
    with pytest.raises(InvalidInput, match="missing, and table b has no standard error"):
        allocate(DOMAIN, workload=[WantedTable(("a", "c"), standard_error=0.1), ("b",)], n=100)


def test_floors_that_do_not_fit_are_refused_with_the_total_that_would():
    needed = design(DOMAIN, 1.0).epsilon
    with pytest.raises(Infeasible, match=f"they need at least {needed:.6g}"):
        allocate(DOMAIN, 1.0, constraints=Constraints(min_epsilon=1.0))
    just = allocate(DOMAIN, needed * (1 + 1e-9), constraints=Constraints(min_epsilon=1.0))
    assert np.all(just.design.attribute_epsilons >= 1.0 - 1e-6)
    with pytest.raises(Infeasible, match=r"attribute 'a' needs epsilon 1 .*conditional cap 0\.5; allow at least 1"):
        allocate(DOMAIN, 3.0, constraints=Constraints(min_epsilon=1.0, conditional_cap=0.5))


def test_budgets_are_lowered_until_they_fit():
    """POR's policy: wished-for epsilons are ceilings; they are kept where they fit, lowered where they do not."""
    wished = {"a": 1.0, "b": 1.0, "c": 1.0}
    needed = design(DOMAIN, wished).epsilon
    fits = allocate(DOMAIN, needed * 3, constraints=Constraints(max_epsilon=wished))
    assert fits.design.attribute_epsilons == pytest.approx(1.0, rel=1e-6)
    # and at no larger total than they need
    assert fits.design.epsilon == pytest.approx(needed, rel=1e-9) and fits.gap < 1e-9
    tables = [WantedTable(("a",), weight=100.0), ("b",), ("c",)]
    lowered = allocate(
        DOMAIN, 0.7 * needed, workload=tables, constraints=Constraints(max_epsilon=wished)
    ).design.attribute_epsilons
    assert np.all(lowered <= 1.0 + 1e-7)
    assert lowered[0] == pytest.approx(1.0, abs=0.01) and min(lowered[1:]) < 0.9


def test_an_attribute_out_of_every_table_needs_a_floor():
    with pytest.raises(InvalidInput, match="attribute 'c' is in no table"):
        allocate(DOMAIN, 2.0, workload=[("a", "b")])
    allocation = allocate(DOMAIN, 2.0, workload=[("a", "b")], constraints=Constraints(min_epsilon={"c": 0.3}))
    assert allocation.design.attribute_epsilons[2] >= 0.3 - 1e-7


def test_workload_files(tmp_path):
    path = tmp_path / "w.toml"
    path.write_text(
        'marginals = 0.5\npairs = 2.0\n[[tables]]\nattributes = ["a", "b"]\nweight = 3\nstandard_error = 0.1\n'
    )
    workload = workload_of(path, DOMAIN)
    assert workload.tables[0] == WantedTable(("a", "b"), 3.0, 0.1)
    assert {t.attributes: t.weight for t in workload.tables[1:]} == {
        ("a",): 0.5,
        ("b",): 0.5,
        ("c",): 0.5,
        ("a", "c"): 2.0,
        ("b", "c"): 2.0,
    }
    (tmp_path / "w.json").write_text('{"tables": [{"attributes": "a"}, {"attributes": ["b", "c"]}]}')
    assert [t.attributes for t in workload_of(tmp_path / "w.json", DOMAIN).tables] == [("a",), ("b", "c")]
    (tmp_path / "w.json").write_text('{"tables": [["a", "b"]]}')
    with pytest.raises(
        InvalidInput, match=r'tables\[0\].*; write tables as {"tables": \[{"attributes": \["a", "b"\]}\]}$'
    ):
        workload_of(tmp_path / "w.json", DOMAIN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tables": []}', "no tables"),
        ('{"tables": [{"attributes": ["a", "z"]}]}', "no attribute 'z'"),
        ('{"tables": [{"attributes": ["a", "a"]}]}', "named twice"),
        ('{"tables": [{"attributes": ["a"], "weight": -1}]}', "weight -1"),
        ('{"tables": [{"attributes": ["a"], "standard_error": 0}]}', "standard error 0"),
        ('{"tables": [{"attributes": ["a", "b"]}, {"attributes": ["b", "a"]}]}', "twice"),
        ('{"tables": [], "pairs": 1, "pairs": 2}', "the key 'pairs' is given twice"),
        ('{"tabels": []}', "tabels"),
        ("{", "workload"),
    ],
)
def test_bad_workload_files_are_refused_in_one_line(text, message, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message) as caught:
        workload_of(str(path), DOMAIN)
    assert "\n" not in str(caught.value)


def test_bad_workloads_and_arguments_are_refused():
    for given, message in (
        ("triples", "give marginals, pairs"),
        ("no/such.toml", "cannot read workload"),
        ([], "no tables"),
    ):
        with pytest.raises(InvalidInput, match=message):
            allocate(DOMAIN, 1.0, workload=given)
    with pytest.raises(InvalidInput, match="one attribute has no pairs"):
        allocate({"a": 2}, 1.0, workload="pairs")
    with pytest.raises(InvalidInput, match="``n``: 0"):
        allocate(DOMAIN, 1.0, n=0)
    with pytest.raises(InvalidInput, match="kappa applies to"):
        allocate(DOMAIN, 1.0, constraints=Constraints(kappa=0.5))
    with pytest.raises(ValueError, match="``total``: 0"):
        allocate(DOMAIN, 0.0)
    with pytest.raises(InvalidInput, match="no attribute 'z'"):
        allocate(DOMAIN, 1.0, constraints=Constraints(min_epsilon={"z": 1.0}))


@pytest.mark.slow
def test_named_tables_equal_the_builtin_workloads():
    for name, size in (("marginals", 1), ("pairs", 2)):
        tables = Workload(tuple(WantedTable(t) for t in combinations(DOMAIN.names, size)))
        builtin = allocate(DOMAIN, 2.0, workload=name)
        assert allocate(DOMAIN, 2.0, workload=tables).error == pytest.approx(builtin.error, rel=1e-6)


@pytest.mark.slow
def test_many_different_attributes_are_certified_by_totals_of_weights():
    # 2^23 vectors of counts: too many to go through, and totals of weights of 53 bits were too many as well
    domain = Domain.of({f"a{r}": r for r in range(2, 25)})
    one_way = allocate(domain, 1.0, workload="marginals").design
    assert 0.999 < one_way.lower_bound <= one_way.epsilon <= 1


@pytest.mark.slow
def test_more_attributes_than_an_eigenvalue_has_room_for() -> None:
    """The whole record's eigenvalue, about (e^5 − 1)/2^1200, is 0 in doubles; for one-way tables of alike attributes."""
    made = optrr.allocate({f"a{k}": 2 for k in range(1200)}, 5.0)
    whole = next(way for way in made.protocols if way.name == "whole-record")
    assert whole.pair_visibility == math.inf and whole.summary()["pair_visibility"] is None
    best = made.protocols[0]
    assert best.suits and best.error <= min(way.error for way in made.protocols if way.suits) * (1 + 1e-9)
