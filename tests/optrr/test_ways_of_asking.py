"""allocate: what it compares, in which order, with which reasons, and on the command line."""

import json

import numpy as np
import pytest

from optrr import InvalidInput, allocate
from optrr.budgets.options import partition
from optrr.cli.main import run
from optrr.domain.domain import Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr.tables.estimation.accuracy import expected_squared_error
from optrr_solvers.allocating.split import best_split, cluster_blocks
from optrr_solvers.laws import BlockLaw, ProductLaw, TableLaw

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
TOTAL = 2.0


def option(allocation, name):
    return next(o for o in allocation.ways if o.name == name)


def laws_of_the_ways(workload):
    """Each full-record option as a law, built from its definition."""
    allocation = allocate(DOMAIN, TOTAL, learn=workload, clusters=[["a", "c"]])
    arrays = allocation.workload.arrays(DOMAIN, [np.arange(3.0)])
    split = best_split(arrays, cluster_blocks(arrays, [(0,), (1,), (2,)]), TOTAL)
    joint = best_split(arrays, cluster_blocks(arrays, [(0, 2), (1,)]), TOTAL)
    whole = np.zeros((2, 2, 2))
    whole[0, 0, 0] = TOTAL
    pair = np.zeros((2, 2))
    pair[0, 0] = joint.epsilons[0]
    inside = TableLaw(DOMAIN.sizes[[0, 2]], pair)
    return allocation, {
        "optimum": allocation.design.law,
        "kronecker-even": ProductLaw(DOMAIN.sizes, np.full(3, TOTAL / 3)),
        "kronecker": ProductLaw(DOMAIN.sizes, split.epsilons),
        "whole-record": TableLaw(DOMAIN.sizes, whole),
        "clusters": BlockLaw([((0, 2), inside), ((1,), ProductLaw(DOMAIN.sizes[[1]], joint.epsilons[1:]))]),
    }


@pytest.mark.parametrize("workload", ["marginals", "pairs"])
def test_predictions_of_options_are_the_exact_errors_of_their_laws(workload):
    allocation, laws = laws_of_the_ways(workload)
    least = sum(1 - 1 / t.cells(DOMAIN) for t in allocation.workload.tables)
    for name, law in laws.items():
        assert law.epsilon == pytest.approx(TOTAL, rel=1e-9)
        kernels = (Mechanism(DOMAIN, law).kernel(t.attributes) for t in allocation.workload.tables)
        error = sum(expected_squared_error(kernel, 1, target="data") for kernel in kernels)
        assert option(allocation, name).error - least == pytest.approx(error, rel=1e-6), name
        conditional = float(law.conditional_epsilons().max())
        assert option(allocation, name).conditional_epsilon == pytest.approx(conditional, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 1.0, 2.0, 4.0])
def test_one_wanted_table_is_asked_by_the_best_report(total):
    """Against the formulas of the literature: unary encoding, and subset selection at every size of the subset."""
    allocation = allocate({"a": 3, "b": 8}, total, learn="pairs")
    e, cells = np.exp(total), 24
    unary = 4 * cells * e / (e - 1) ** 2 + 2 - 1 / cells
    subsets = []
    for k in range(1, cells):
        p = k * e / (k * e + cells - k)
        q = (p * (k - 1) + (1 - p) * k) / (cells - 1)
        subsets.append(k * (1 - k / cells) / (p - q) ** 2)
    assert option(allocation, "sampling").error == pytest.approx(min(unary, *subsets), rel=1e-9)
    assert allocation.best.error <= min(unary, *subsets) * (1 + 1e-9)
    assert allocation.asking.epsilon == pytest.approx(total, rel=1e-6)


def test_options_are_ordered_and_say_what_they_give_up():
    allocation = allocate(DOMAIN, TOTAL, learn="pairs", n=1000, clusters=[["a", "b"]])
    errors = [o.error for o in allocation.ways]
    assert errors == sorted(errors)
    assert {o.name for o in allocation.ways} == {
        "optimum",
        "kronecker",
        "kronecker-even",
        "clusters",
        "whole-record",
        "sampling",
        "sampling-even",
        "mixture",
        "mixture-with-records",
    }
    records = [o.error for o in allocation.ways if o.keeps_records and "mixture" not in o.name]
    assert option(allocation, "optimum").error <= min(records) * (1 + 1e-9)
    assert all(o.gives_up for o in allocation.ways)
    assert allocation.summary()["ways"][0]["relative_error"] == 1.0
    se = allocation.typical_standard_error(allocation.best)
    assert se == pytest.approx(np.sqrt(allocation.best.error / (1000 * (6 + 8 + 12))))


def test_one_attribute_leaves_nothing_to_choose():
    allocation = allocate({"a": 5}, 1.0)
    assert allocation.best.name == "optimum"
    assert {o.name for o in allocation.ways} == {"optimum", "kronecker", "kronecker-even", "sampling"}
    assert allocation.best.error == pytest.approx(0.8 * ((np.e + 4) / (np.e - 1)) ** 2)


def test_clusters_partition():
    assert partition(DOMAIN, [["c", "a"]]) == [(2, 0), (1,)]
    with pytest.raises(InvalidInput, match="in two clusters"):
        partition(DOMAIN, [["a", "b"], ["b", "c"]])
    with pytest.raises(InvalidInput, match="no attribute 'z'"):
        allocate(DOMAIN, 1.0, clusters=[["a", "z"]])


SPEC = '{"attributes": [{"name": "a", "size": 2, "epsilon": 0.5}, {"name": "b", "size": 3}, {"name": "c", "size": 4}]}'


def command(tmp_path, capsys, words):
    """Exit code, output and errors of a command about the specification above."""
    spec, (name, *options) = tmp_path / "spec.json", words.split()
    spec.write_text(SPEC)
    code = run([name, str(spec), *options])
    return code, *capsys.readouterr()


@pytest.mark.slow
def test_allocate_on_the_command_line(tmp_path, capsys):
    target = tmp_path / "design.json"
    words = f"allocate --total-epsilon 2 --workload pairs --n 500 -o {target} --way optimum --json"
    code, out, _ = command(tmp_path, capsys, words)
    printed = json.loads(out)
    assert code == 0 and printed["epsilon"] <= 2
    keys = {"epsilon", "lower_bound", "gap", "method", "kronecker_epsilon", "seconds", "attributes", "pairs"}
    assert keys <= set(printed)
    assert {"name", "size", "requested_epsilon", "epsilon", "conditional_epsilon"} <= set(printed["attributes"][0])
    assert [t["attributes"] for t in printed["tables"]] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert printed["error_lower_bound"] <= printed["error"] < printed["kronecker_error"]
    assert run(["verify", str(target)]) == 0
    capsys.readouterr()
    # an attribute's own limit counts, whatever the order
    for limits, total in (
        ("--ceilings-from-spec --floor c=0.4", 2),
        ("--floor c=0.9 --floor 0.1", 1.5),
        ("--floor 0.1 --floor c=0.9", 1.5),
    ):
        code, out, _ = command(tmp_path, capsys, f"allocate --total-epsilon {total} {limits} --json")
        epsilons = {a["name"]: a["epsilon"] for a in json.loads(out)["attributes"]}
        assert code == 0 and epsilons["c"] >= (0.4 if total == 2 else 0.9) - 1e-7
        assert total != 2 or epsilons["a"] <= 0.5 + 1e-7
    code, out, _ = command(tmp_path, capsys, "allocate --standard-error 0.03 --n 2000 --keep records --json")
    printed = json.loads(out)
    assert code == 0 and printed["least_total"] <= printed["epsilon"]
    assert all(t["standard_error"] <= 0.03 * (1 + 1e-9) for t in printed["tables"])
    code, out, _ = command(tmp_path, capsys, f"allocate --total-epsilon 2 --way optimum -o {target}")
    assert code == 0 and "Kronecker's best split" in out and "certified within" in out
