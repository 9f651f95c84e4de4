"""How far fake reports move estimates: every choice of fakes, over random mechanisms of every kind."""

import itertools
import json
import math
from math import inf

import numpy as np
import pyarrow as pa
import pytest

import optrr
from optrr import Counts, Domain, InvalidInput, Mechanism, SampledTables, SingularMarginal
from optrr.cli.main import run
from optrr.core.estimation.estimator import METHODS
from optrr.core.estimation.poisoned import Reach, poisoning
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities
from optrr.core.protocols.protocol import cluster_design
from optrr.longitudinal.stages import TwoStage, WholeOrUniform
from optrr_solvers.allocation.questions import SubsetReport
from optrr_solvers.laws import BlockLaw, CountLaw, ProductLaw, TableLaw

# Entries of inverses are sums of a few hundred products of doubles; relative to the largest of them.
ROUNDING = 1e-10
# Reports whose weights differ by less than 1e-9 of their range are taken for equal.
TIED = 1e-8


def domain_of(sizes):
    return Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})


def some_mechanism(kind, rng):
    """A random mechanism of a kind, small enough for every choice of fakes."""
    sizes = [(2, 3), (3, 2), (2, 2, 2), (4, 2)][rng.integers(0, 4)]
    domain, epsilons = domain_of(sizes), rng.uniform(0.2, 3, len(sizes))
    if kind == "matrix":
        rows = [rng.uniform(0.05, 1, (r, r)) + np.eye(r) * rng.uniform(1, 4) for r in sizes]
        return MatrixMechanism(domain, tuple(from_probabilities(p / p.sum(axis=1, keepdims=True)) for p in rows))
    if kind == "product":
        return Mechanism(domain, ProductLaw(domain.sizes, epsilons))
    if kind == "table":
        return Mechanism(domain, TableLaw(domain.sizes, rng.uniform(-2, 2, (2,) * len(sizes))))
    if kind == "counts":
        return Mechanism(domain_of((2, 2, 2)), CountLaw([2, 2, 2], [np.arange(3)], rng.uniform(-1, 2, 4)))
    if kind == "blocks":
        law = TableLaw(np.array(sizes[:2]), rng.uniform(-2, 2, (2, 2)))
        rest = [(np.array([i]), ProductLaw(np.array([sizes[i]]), epsilons[[i]])) for i in range(2, len(sizes))]
        return Mechanism(domain, BlockLaw([(np.array([0, 1]), law), *rest]))
    if kind == "whole":
        return WholeOrUniform(domain, int(rng.integers(1 << 60, 1 << 63)))
    if kind == "two stages":
        again = WholeOrUniform(domain, int(rng.integers(1 << 62, 1 << 63)))
        return TwoStage(Mechanism(domain, ProductLaw(domain.sizes, epsilons)), again)
    if kind == "clusters":
        first = optrr.design(domain, epsilons, method="kronecker")
        return cluster_design(first, [domain.names[:2], *((n,) for n in domain.names[2:])]).mechanism
    return optrr.design(domain, epsilons, method=kind).mechanism


KINDS = (
    "product",
    "table",
    "counts",
    "blocks",
    "clusters",
    "matrix",
    "auto",
    "ball",
    "inductive",
    "whole",
    "two stages",
)


def estimates(reports, solved):
    """The unbiased estimate of every cell from a list of reported cells, by its definition π̂ = λ̂ P⁻¹."""
    return np.bincount(reports, minlength=len(solved)) / len(reports) @ solved


def ends(tables):
    """Smallest and largest of each cell."""
    return np.min(tables, axis=0), np.max(tables, axis=0)


def agree(reach, brute, scale):
    for got, expected in zip((reach.lower, reach.upper), brute, strict=True):
        np.testing.assert_allclose(got.ravel(), expected, rtol=0, atol=ROUNDING * scale)


def check_every_choice_of_fakes(mechanism, rng):
    """All multisets of k fake records, joining, replacing any k of the reports, or being any k of them; whether it could be."""
    sizes = [int(r) for r in mechanism.domain.sizes]
    chosen = tuple(int(i) for i in rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)])
    names = tuple(mechanism.domain.names[i] for i in chosen)
    if not mechanism.kernel(names).is_invertible:
        return False
    solved = np.linalg.inv(mechanism.matrix(names))
    cells, k = len(solved), int(rng.integers(1, 3))
    reports = [int(x) for x in rng.integers(0, cells, int(rng.integers(k + 1, 6)))]
    table = np.bincount(reports, minlength=cells).reshape([sizes[i] for i in chosen])
    got = poisoning(Counts(mechanism.domain.subset(names), table), mechanism, k)
    # a whole fake record may show any cell of the table, so cells stand for records
    fakes = [list(f) for f in itertools.combinations_with_replacement(range(cells), k)]
    kept = [[reports[i] for i in c] for c in itertools.combinations(range(len(reports)), len(reports) - k)]
    scale = np.abs(solved).max()
    agree(got.added, ends([estimates(reports + f, solved) for f in fakes]), scale)
    agree(got.replaced, ends([estimates(c + f, solved) for c in kept for f in fakes]), scale)
    agree(got.left_out, ends([estimates(c, solved) for c in kept]), scale)
    agree(Reach(got.estimate, got.estimate), [estimates(reports, solved)] * 2, scale)
    for u in range(cells):
        for by, end in ((got.lowered_by, got.added.lower), (got.raised_by, got.added.upper)):
            reached = estimates(reports + [int(by.ravel()[u])] * k, solved)[u]
            assert reached == pytest.approx(end.ravel()[u], abs=TIED * scale)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_of_fakes(kind):
    rng = np.random.default_rng([31, KINDS.index(kind)])
    tried = [check_every_choice_of_fakes(some_mechanism(kind, rng), rng) for _ in range(6)]
    assert sum(tried) >= 4


def test_a_margin_is_attacked_as_the_table_of_its_own():
    mechanism = optrr.design(domain_of((3, 2, 2)), 1.0, constraints=optrr.Constraints(preserve="pairs")).mechanism
    rng = np.random.default_rng(1)
    whole = Counts(mechanism.domain, rng.integers(0, 30, (3, 2, 2)))
    margin = poisoning(whole.marginal("a0"), mechanism, 4)
    summed = poisoning(whole, mechanism, 4)
    np.testing.assert_allclose(margin.estimate, summed.estimate.sum(axis=(1, 2)), atol=1e-12)
    # single cells can be moved further than their sum, whose weights partly cancel
    assert np.all(margin.most - margin.least <= (summed.most - summed.least).sum(axis=(1, 2)))
    # the fake record that raises the margin's cell, searched among all records of all three attributes
    solved = np.array(mechanism.kernel(mechanism.domain.names).inverse()).reshape(12, 3, 4).sum(axis=2)
    np.testing.assert_allclose(solved.max(axis=0), margin.most, atol=1e-12)
    np.testing.assert_allclose(solved.min(axis=0), margin.least, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomized_response_has_the_known_factor(size, epsilon):
    domain = Domain.of({"a": size})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, [epsilon]))
    table = np.arange(100, 100 + size)
    got = poisoning(Counts(domain, table), mechanism, 5)
    factor = (np.exp(epsilon) + size - 1) / np.expm1(epsilon)
    np.testing.assert_allclose(got.most - got.least, factor, rtol=1e-12)
    assert got.raised_by.tolist() == list(range(size))
    # 1 % of a proportion: β (most − π̂) = 0.01 with β the share of fakes; found again by adding reports one by one
    k = got.reports_to_move()
    by_hand = [poisoning(Counts(domain, table), mechanism, j) for j in (k - 1, k) if j >= 1]
    moved = [max(np.max(p.added.upper - p.estimate), np.max(p.estimate - p.added.lower)) for p in by_hand]
    assert moved[-1] >= 0.01 * (1 - 1e-9) and (k == 1 or moved[0] < 0.01)
    share = got.share_to_move().min()
    assert (k - 1) / (got.n + k - 1) < share * (1 + 1e-9) <= k / (got.n + k) * (1 + 2e-9)


@pytest.mark.parametrize(("epsilon", "share"), [(0.1, 0.000999), (1.0, 0.009242), (40.0, 0.02)])
def test_shares_of_fakes_that_the_module_states(epsilon, share):
    domain = Domain.of({"a": 2})
    got = poisoning(Counts(domain, np.array([50, 50])), Mechanism(domain, ProductLaw(domain.sizes, [epsilon])), 1)
    np.testing.assert_allclose(got.share_to_move(), 0.02 * np.expm1(epsilon) / (np.exp(epsilon) + 1), rtol=1e-12)
    np.testing.assert_allclose(got.share_to_move(), share, rtol=1e-3)
    if epsilon == 40:  # reports are the truth: (50 + 100)/200 is a quarter above a half, and nothing moves it by two
        assert got.reports_to_move(0.25) == 100
        assert np.all(got.share_to_move(2.0) == inf) and got.reports_to_move(2.0) == inf


@pytest.mark.parametrize("method", [m for m in METHODS if m != "adjusted"])
def test_methods_that_equal_the_unbiased_one_are_moved_as_far(method):
    domain = Domain.of({"a": 2, "b": 2})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, [1.5, 1.5]))
    table = np.array([[4000, 3000], [3500, 3600]])
    attack = poisoning(Counts(domain, table), mechanism, 100, method)
    moved = table.copy()
    moved.ravel()[attack.raised_by[0, 1]] += 100
    after = optrr.estimate(Counts(domain, moved), mechanism, method=method).estimate
    assert after[0, 1] == pytest.approx(attack.added.upper[0, 1], abs=1e-7)
    assert "changes as much" in attack.note or method == "unbiased"


def test_numbers_of_fakes_and_methods_that_make_no_sense():
    domain = Domain.of({"a": 2})
    mechanism, counts = Mechanism(domain, ProductLaw(domain.sizes, [1.0])), Counts(domain, np.array([2, 1]))
    for fakes in (0, -1, 3, 10):
        with pytest.raises(InvalidInput, match=f"{fakes} fake reports among 3"):
            poisoning(counts, mechanism, fakes)
    with pytest.raises(InvalidInput, match="'best' is unknown"):
        poisoning(counts, mechanism, 1, "best")
    with pytest.raises(InvalidInput, match="positive"):
        poisoning(counts, mechanism, 1).share_to_move(0)
    hidden = optrr.design(Domain.of({"a": 2, "b": 2, "c": 2}), 0.5).mechanism
    with pytest.raises(SingularMarginal, match="'a', 'b'"):
        poisoning(Counts(hidden.domain.subset(["a", "b"]), np.ones((2, 2))), hidden, 1)


@pytest.mark.parametrize("size", [1, 2])
def test_answers_to_one_table_each(size):
    """Every set of cells that an answer may support, by the estimate's own formula."""
    rng = np.random.default_rng(size)
    domain = Domain.of({"a": 5, "b": 2})
    reports = (SubsetReport((size,)), SubsetReport((1,)))
    asking = SampledTables(domain, (("a",), ("b",)), np.array([0.5, 0.5]), 1.0, reports)
    k = 2
    possible = list(itertools.combinations(range(5), size))
    reports = [possible[i] for i in rng.integers(0, len(possible), 5)]

    def released(given):
        return pa.table({"table": [1] * len(given) + [2], "cells": [" ".join(map(str, c)) for c in given] + ["0"]})

    # how often a subset holds the true cell, and each other one
    p = size * math.e / (size * math.e + 5 - size)
    q = (p * (size - 1) + (1 - p) * size) / 4

    def table(given):
        return [(sum(u in c for c in given) / len(given) - q) / (p - q) for u in range(5)]

    got = asking.poisoning(released(reports), "a", k)
    np.testing.assert_allclose(got.estimate, asking.estimate(released(reports), "a").estimate, atol=1e-12)
    fakes = [list(f) for f in itertools.combinations_with_replacement(possible, k)]
    kept = [list(c) for c in itertools.combinations(reports, len(reports) - k)]
    agree(got.added, ends([table(reports + f) for f in fakes]), 10)
    agree(got.replaced, ends([table(c + f) for c in kept for f in fakes]), 10)
    agree(got.left_out, ends([table(c) for c in kept]), 10)
    assert got.raised_by.tolist() == [0, 1, 2, 3, 4] and np.all(got.lowered_by != got.raised_by)


def test_an_answer_supports_each_cell_once():
    """Before, an answer that repeated a cell counted as often for it: one fake could move an estimate anywhere."""
    domain = Domain.of({"a": 5})
    for k, cells in ((1, "2 2"), (2, "1 1"), (1, "1 2"), (1, ""), (2, "1")):
        asking = SampledTables(domain, (("a",),), np.ones(1), 0.2, (SubsetReport((k,)),))
        with pytest.raises(InvalidInput, match=r"twice|each answer to this table has"):
            asking.estimate(pa.table({"table": [1], "cells": [cells]}), "a")


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_few_reports_that_move_a_share_are_told_of_these_and_of_many(epsilon):
    """Of 40 it takes a whole report; of many the share that is told, and no smaller one."""
    domain = Domain.of({"a": 2})
    mechanism = Mechanism(domain, ProductLaw(domain.sizes, np.array([epsilon])))
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))

    def moved(counts, fakes):
        first, n = counts[0], sum(counts)
        estimates = [
            (x / y - (1 - keep)) / (2 * keep - 1)
            for x, y in ((first, n), (first + fakes, n + fakes), (first, n + fakes))
        ]
        return max(abs(e - estimates[0]) for e in estimates[1:])

    for counts in ((25, 15), (25_000_000, 15_000_000)):
        said = poisoning(Counts(domain, np.array(counts)), mechanism, 1).hundredth
        fewest = int(said.split()[0])
        assert moved(counts, fewest) >= 0.01 * (1 - 1e-9)
        assert fewest == 1 or moved(counts, fewest - 1) < 0.01
        assert said.startswith(
            f"{fewest} fake report{'s' * (fewest > 1)} added to these {sum(counts)} can move a proportion"
        )
        share = float(said.rpartition(" it takes ")[2].partition("%")[0])
    assert share == pytest.approx(100 * fewest / (fewest + sum(counts)), rel=0.005)


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    domain = Domain.of({"sex": ["F", "M"], "age": ["young", None, "old"]})
    made = optrr.design(domain, 1.5, constraints=optrr.Constraints(preserve="pairs"))
    optrr.save(made, "design.json")
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(0, 2, 900), rng.integers(0, 3, 900)], axis=1)
    rows = made.mechanism.randomize_codes(codes, 1)
    texts = [("FM"[a], ["young", "", "old"][b]) for a, b in rows]
    (tmp_path / "out.csv").write_text("sex,age\n" + "".join(f"{a},{b}\n" for a, b in texts))
    call = ["estimate", "out.csv", "--design", "design.json", "--attributes", "age,sex", "--fakes", "9"]
    assert run([*call, "--json", "-o", "table.json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "table.json").read_text()) == printed
    told = printed["poisoning"]
    counts = optrr.count(tmp_path / "out.csv", domain, ["age", "sex"])
    expected = poisoning(counts, made.mechanism, 9)
    assert told == json.loads(json.dumps(expected.summary()))
    assert told["fakes"] == 9 and told["raised_by"][2] == [None, "F"]
    np.testing.assert_allclose(told["added"]["upper"], expected.added.upper)
    assert run(call) == 0
    shown = capsys.readouterr().out
    assert "9 added to the 900" in shown and expected.hundredth in shown and "(missing) × F" in shown
    assert f"{expected.added.lower[0, 1]:.4f}..{expected.added.upper[0, 1]:.4f}" in shown
    assert run([*call, "--method", "clip"]) == 0
    assert "elsewhere nothing is proved" in capsys.readouterr().out
    assert run([*call[:-1], "900"]) == 2
    assert capsys.readouterr().err == (
        "error: 900 fake reports among 900 reports; give at least 1, and fewer than there are reports\n"
    )
