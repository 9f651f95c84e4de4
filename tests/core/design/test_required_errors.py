"""allocate for required standard errors, and which ways may be chosen: reached by every table, and never below a bound."""

import re
from itertools import combinations

import numpy as np
import pytest

from optrr import Constraints, Infeasible, InvalidInput, allocate
from optrr.allocation import WantedTable

DOMAIN = {"a": 2, "b": 3, "c": 4}


def drawn(rng):
    """A domain, a workload, a number of people, and a standard error that some total reaches."""
    sizes = {f"a{i}": int(rng.integers(2, 6)) for i in range(rng.integers(2, 4))}
    tables = [*combinations(sizes, 2), *combinations(sizes, 1)]
    chosen = [tables[k] for k in rng.choice(len(tables), int(rng.integers(1, 4)), replace=False)]
    chosen += [(name,) for name in sizes if not any(name in t for t in chosen)]
    wanted = [{"attributes": list(t), "standard_error": float(rng.uniform(0.015, 0.06))} for t in chosen]
    return sizes, wanted, int(rng.integers(2_000, 9_000))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_what_is_required_is_reached_at_the_smallest_total_of_all_ways(part):
    """Thirty random settings in all; errors recomputed by what would be asked, table by table."""
    rng = np.random.default_rng(part)
    for k in range(5):
        sizes, wanted, n = drawn(rng)
        allocation = allocate(sizes, workload=wanted, n=n)
        for table, prediction in zip(wanted, allocation.predictions, strict=True):
            reached = allocation.asking.standard_error(table["attributes"], n)
            assert reached <= table["standard_error"] * (1 + 1e-9)
            assert prediction.standard_error == pytest.approx(reached, rel=1e-9)
        for way in allocation.protocols:
            for table in wanted:
                assert way.asking.standard_error(table["attributes"], n) <= table["standard_error"] * (1 + 1e-7)
            assert way.asking.epsilon <= way.epsilon * (1 + 1e-6)
            assert way.epsilon >= allocation.total_bound
        # the law with the least total is one of the ways
        assert allocation.epsilon <= allocation.design.epsilon * (1 + 1e-9)
        if k:
            continue
        records = allocate(sizes, workload=wanted, n=n, records_only=True)
        assert records.asking.keeps_records and allocation.epsilon <= records.epsilon * (1 + 1e-9)
        # what is less accurate costs less
        looser = allocate(sizes, workload=[t | {"standard_error": 1.5 * t["standard_error"]} for t in wanted], n=n)
        assert looser.epsilon < allocation.epsilon and looser.total_bound < allocation.total_bound


def test_questions_do_with_less_than_records_and_both_are_said():
    allocation = allocate(DOMAIN, workload="pairs", n=2000, standard_error=0.03)
    assert not allocation.asking.keeps_records and allocation.total is None
    assert allocation.total_bound < allocation.epsilon < 0.9 * allocation.design.epsilon
    said = " ".join(allocation.sentences())
    assert "any mechanism with these standard errors needs at least" in said and "If any table may be needed" in said
    records = allocate(DOMAIN, workload="pairs", n=2000, standard_error=0.03, records_only=True)
    assert records.asking is not None and records.epsilon == pytest.approx(allocation.design.epsilon, rel=1e-9)
    assert "Without the need for any table" in " ".join(records.sentences())
    totals = [way.epsilon for way in allocation.protocols]
    assert totals == sorted(totals) and {w.name for w in allocation.protocols} >= {"optimum", "kronecker", "sampling"}


@pytest.mark.slow
def test_a_total_and_standard_errors_choose_the_most_accurate_way_that_has_them():
    # records need 1.995: no law has them here, and questions do
    allocation = allocate(DOMAIN, 1.9, workload="pairs", n=2000, standard_error=0.035)
    assert all(p.standard_error <= 0.035 for p in allocation.predictions)
    assert allocation.best_with_records.name == "mixture-with-records" and not allocation.asking.keeps_records
    with pytest.raises(Infeasible, match=r"they need at least 1\.99"):
        _ = allocation.design
    assert "optimum" not in {way["name"] for way in allocation.summary()["protocols"]}
    # the most accurate questions leave one table less than it needs here, and others do not
    tables = [{"attributes": ["a"], "standard_error": 0.005}, {"attributes": ["b"]}, {"attributes": ["c"], "weight": 9}]
    uneven = allocate(DOMAIN, 4.0, workload=tables, n=20_000)
    assert (
        uneven.predictions[0].standard_error
        <= 0.005
        < allocate(DOMAIN, 4.0, workload=[("a",), ("b",), tables[2]], n=20_000).predictions[0].standard_error
    )


@pytest.mark.slow
@pytest.mark.parametrize("keep", [None, "records"])
@pytest.mark.parametrize("seed", range(10))
def test_a_total_that_is_advised_suffices(seed, keep):
    rng = np.random.default_rng(seed)
    sizes = {f"x{i}": int(rng.integers(2, 6)) for i in range(rng.integers(2, 4))}
    most = float(rng.uniform(0.015, 0.05))
    wish = {"workload": ("pairs", "marginals")[seed % 2], "n": 3000, "standard_error": most, "records_only": bool(keep)}
    with pytest.raises(Infeasible, match="too small") as refused:
        allocate(sizes, 0.1, **wish)
    advised = float(re.search(r"([\d.]+) suffices", str(refused.value))[1])
    allocation = allocate(sizes, advised, **wish)
    assert allocation.epsilon <= advised and allocation.asking.keeps_records >= (keep is not None)
    assert all(allocation.asking.standard_error(p.attributes, 3000) <= most for p in allocation.predictions)


def test_floors_advise_a_total_that_suffices():
    with pytest.raises(Infeasible) as refused:
        allocate(DOMAIN, 0.5, constraints=Constraints(min_epsilon={"a": 0.7, "b": 0.3, "c": 1.1}))
    least, advised = map(float, re.search(r"least ([\d.]+), and ([\d.]+) suffices", str(refused.value)).groups())
    assert (
        least
        <= allocate(DOMAIN, advised, constraints=Constraints(min_epsilon={"a": 0.7, "b": 0.3, "c": 1.1})).epsilon
        <= advised
    )


@pytest.mark.slow
def test_a_mixture_that_keeps_records_may_have_the_standard_errors_that_laws_have_not():
    wish = {"workload": "pairs", "n": 5000, "standard_error": 0.05}
    kept = allocate({"a": 3, "b": 4, "c": 2}, 0.946605, records_only=True, **wish)
    assert kept.protocol.name == "mixture-with-records" and kept.asking.keeps_records
    assert kept.law is None and isinstance(kept.refusal, Infeasible)
    assert all(kept.asking.standard_error(p.attributes, 5000) <= 0.05 for p in kept.predictions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "learn", "kept"),
    [
        ({"a": 3, "b": 4}, "pairs", {"sampling"}),
        ({"a": 2, "b": 3}, ["a", "b", "a × b"], {"sampling", "mixture"}),
        ({"a": 2, "b": 3, "c": 4}, "pairs", {"mixture-with-records"}),
        ({f"a{i}": 2 for i in range(13)}, "pairs", set()),
    ],
)
def test_questions_that_see_every_effect_keep_records(sizes, learn, kept):
    allocation = allocate(sizes, 1.0, workload=learn, n=5000)
    asked = [way for way in allocation.protocols if way.asks_one]
    assert {way.name for way in asked if way.keeps_records} == kept
    for way in asked:
        assert way.keeps_records is way.asking.keeps_records
        assert way.keeps_records is all(
            np.isfinite(way.asking.table_error(t)) for k in range(1, len(sizes) + 1) for t in combinations(sizes, k)
        )
        assert any(("no other table" in g or "only the workload's" in g) for g in way.gives_up) is not way.keeps_records
    chosen = allocate(sizes, 1.0, workload=learn, n=5000, records_only=True)
    assert chosen.protocol.name == next(way.name for way in allocation.protocols if way.keeps_records)
    printed = next(way for way in chosen.summary()["protocols"] if way["name"] == chosen.protocol.name)
    assert printed["epsilon"] == chosen.summary()["epsilon"] and printed["keeps_records"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_records_are_kept_where_that_is_asked_for(seed):
    rng = np.random.default_rng(seed)
    sizes = {f"a{i}": int(rng.integers(2, 7)) for i in range(rng.integers(1, 5))}
    total, learn = float(rng.uniform(0.3, 6.0)), ("marginals", "pairs")[seed % 2 if len(sizes) > 1 else 0]
    kept, free = allocate(sizes, total, workload=learn, records_only=True), allocate(sizes, total, workload=learn)
    assert kept.asking.keeps_records and kept.best.keeps_records and kept.best is kept.best_with_records
    assert free.error_bound <= free.error <= kept.error * (1 + 1e-9)
    assert {o.name: o.error for o in kept.protocols} == {o.name: o.error for o in free.protocols}
    assert (kept.asking is kept.protocols[0].asking) or "Without the need for any table" in " ".join(kept.sentences())
    for way in free.protocols:
        if not way.keeps_records:
            with pytest.raises(InvalidInput, match="keeps no records"):
                kept.choosing(way.name)
        chosen = free.choosing(way.name)
        assert chosen.error == way.error and chosen.asking is way.asking and chosen.best is free.best


@pytest.mark.slow
def test_as_little_variance_as_randomized_response_costs_less_than_flips_as_rare():
    """Of Adult's nine attributes at ε_i = 1: 2.464 is the least of any mixture of questions that another search found."""
    sizes = np.array([9, 16, 7, 15, 6, 5, 2, 42, 2])
    errors = np.sqrt((1 - 1 / sizes) / (10_000 * sizes)) * (np.e - 1 + sizes) / (np.e - 1)
    tables = [WantedTable((f"a{i}",), standard_error=error) for i, error in enumerate(errors.tolist())]
    made = allocate({f"a{i}": int(r) for i, r in enumerate(sizes)}, workload=tables, n=10_000)
    assert made.total_bound <= made.epsilon <= 2.464 * 1.002 < made.option("optimum").epsilon


@pytest.mark.parametrize(
    "wish", [{"min_epsilon": 0.1}, {"max_epsilon": 1.0}, {"conditional_cap": 0.9}, {"preserve": "pairs"}], ids=str
)
def test_wishes_that_mean_something_for_records_only_imply_them(wish):
    allocation = allocate(DOMAIN, 1.0, constraints=Constraints(**wish))
    assert allocation.best.name == "optimum"
    assert "require whole records" in " ".join(allocation.sentences())
    assert not any(way.suits for way in allocation.protocols if way.name != "optimum")
    assert all("required" in way.gives_up[-1] for way in allocation.protocols if not way.suits)
