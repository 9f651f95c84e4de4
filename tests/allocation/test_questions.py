"""Answers by subsets: each report's privacy, energy and moments by enumeration; questions and kept records together."""

import itertools
import json
import math

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest

import optrr
from optrr import InvalidInput
from optrr.allocation.combining import Answered
from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.allocation.supports import report_subsets, reported_epsilon
from optrr.cli.main import run
from optrr.core.domain.domain import Domain
from optrr.devices.deployment_file import decoded_deployment
from optrr_solvers.allocation.mixture import MOST_WHOLE, everything, mixture
from optrr_solvers.allocation.questions import SubsetReport, at_patterns, chances, responses
from optrr_solvers.allocation.workload import TableWorkload, pairs
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.partition import singles
from optrr_solvers.randomness import as_source
from tests import naive
from tests.questions import enumerated, random_asking, random_question, truth


def check_one(rng):
    """Label, energies and moments of one random report."""
    sizes, epsilon, report = random_question(rng)
    records, reports, chances = enumerated(sizes, epsilon, report)
    assert all(sum(chances[y, x] for y in reports) == 1 for x in records)
    worst = max(max(chances[y, x] for x in records) / min(chances[y, x] for x in records) for y in reports)
    label = reported_epsilon(report, sizes, epsilon)
    assert math.log(worst) <= label * (1 + 1e-15) and label <= math.log(worst) * (1 + 1e-12) + 1e-15
    assert label == pytest.approx(epsilon, rel=1e-9)
    channel = np.array([[float(chances[y, x]) for x in records] for y in reports])
    seen = channel.mean(axis=1)
    densities = (channel / seen[:, None]).reshape(-1, *sizes)
    for subset in range(1, 1 << len(sizes)):
        effect = densities
        for axis in range(len(sizes)):
            mean = effect.mean(axis=1 + axis, keepdims=True)
            effect = effect - mean if subset >> axis & 1 else np.broadcast_to(mean, effect.shape)
        energy = float(seen @ np.square(effect).reshape(len(reports), -1).mean(axis=1))
        assert report.energies(sizes, epsilon)[subset] == pytest.approx(energy, abs=1e-9)
    check_moments(rng, sizes, epsilon, report, (records, reports, chances))


def check_moments(rng, sizes, epsilon, report, channel):
    """E z and E z² for a random cell over random attributes, by what the record shares with it."""
    records, reports, chances = channel
    shared = tuple(int(i) for i in rng.permutation(len(sizes))[: int(rng.integers(1, len(sizes) + 1))])
    u = len(shared)
    counted = Answered(report, sizes, epsilon, shared, tuple(range(u)), np.zeros([sizes[i] for i in shared]), 5)
    weights = rng.normal(size=1 << u)
    weights[0] = 0
    cell = tuple(int(rng.integers(sizes[i])) for i in shared)

    def g(y, k):
        """1[v ∈ S] − its mean."""
        i = shared[k]
        return (cell[k] in y[i]) - report.subset_sizes[i] / sizes[i]

    def of_cells(y, subset):
        """Of one subset of cells: the sum over its members."""
        return sum(
            math.prod((c[shared[k]] == cell[k]) - 1 / sizes[shared[k]] for k in range(u) if subset >> k & 1)
            for c in (np.unravel_index(named, sizes) for named in y[0])
        )

    def z(y):
        each = (
            of_cells(y, s) if counted.joint else math.prod(g(y, k) for k in range(u) if s >> k & 1)
            for s in range(1, 1 << u)
        )
        return sum(w * value for w, value in zip(weights[1:], each, strict=True))

    values, moments, seen = {y: z(y) for y in reports}, counted.moments(weights), counted.seen()
    for x in records:
        alike = [x[i] == v for i, v in zip(shared, cell, strict=True)]
        place = sum(1 << k for k, same in enumerate(alike) if same)
        for q in (1, 2):
            expected = sum(float(chances[y, x]) * values[y] ** q for y in reports)
            assert moments[q - 1, place] == pytest.approx(expected, abs=1e-8)
        effects = [math.prod(alike[k] - 1 / sizes[shared[k]] for k in range(u) if s >> k & 1) for s in range(1 << u)]
        assert moments[0, place] == pytest.approx(float(np.sum((weights * seen * effects)[1:])), abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_reports_are_as_private_and_as_telling_as_they_say(seed):
    """Ten random ones each: the label by exact rationals, the rest by floating point."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        check_one(rng)


@pytest.mark.parametrize("seed", range(4))
def test_no_exported_label_is_below_the_truth(seed):
    """Of random files of questions, and of the designs that they are made from, against every chance of their reports."""
    rng = np.random.default_rng(200 + seed)
    for _ in range(10):
        asking = random_asking(rng)
        deployed = decoded_deployment(questions_of(asking).to_bytes(), "file")
        with mp.workdps(naive.DIGITS):
            exact = naive.log_of(truth(deployed))
            assert 0 <= mp.mpf(deployed.total) - exact <= 2e-15
            assert 0 <= mp.mpf(asking.epsilon) - exact <= 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_what_is_drawn_has_these_chances(seed):
    """40,000 reports on one record against the enumeration; eight cases at 1e-5."""
    rng = np.random.default_rng(seed)
    for _ in range(2):
        sizes, epsilon, report = random_question(rng)
        records, reports, chances = enumerated(sizes, epsilon, report)
        x, place = records[int(rng.integers(len(records)))], {y: k for k, y in enumerate(reports)}
        source = as_source(int(rng.integers(1 << 30)))
        drawn = report_subsets(np.tile(x, (40_000, 1)), report, sizes, epsilon, source)
        rows = zip(*(map(tuple, members.tolist()) for members in drawn), strict=True)
        chance = np.array([float(chances[y, x]) for y in reports])
        assert naive.fit_p_value(np.array([place[y] for y in rows]), chance) > 1e-5


def asked(sizes, total, whole=False):
    """The mixture for all pairs, as a protocol."""
    mixed = mixture(pairs(np.asarray(sizes), singles(len(sizes))), total, whole=whole)
    domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions)), mixed


@pytest.mark.parametrize(("m", "total", "count", "misses"), [(9, 6.0, 6, 0), (12, 6.0, 10, 1)])
def test_large_groups_are_as_accurate_as_balls_of_random_ones(m, total, count, misses):
    """All pairs of binary attributes: everybody says of a random group which records are near theirs; by enumeration."""
    records = np.array(list(itertools.product((0, 1), repeat=count)))
    density = 1 + math.expm1(total) * (records.sum(axis=1) >= count - misses)
    density = density / density.mean()
    one, two = (np.mean(density * (-1.0) ** records[:, :k].sum(axis=1)) ** 2 for k in (1, 2))
    every, tables = math.comb(m, 2), math.comb(count, 2)
    error = m * (m - 1) / 4 / (one * count / m) + every / 4 / (two * tables / every)
    way, mixed = asked([2] * m, total)
    assert mixed.error <= error * 1.001 and max(map(len, way.tables)) > 5
    assert way.epsilon <= total + 1e-9 and float(questions_of(way).total) <= total + 1e-9
    errors = [way.table_error(pair) for pair in itertools.combinations(way.domain.names, 2)]
    assert sum(errors) == pytest.approx(mixed.error, rel=1e-6)
    codes = np.random.default_rng(0).integers(0, 2, (20_000, m))
    answers = way.randomize(pa.table(dict(zip(way.domain.names, codes.T, strict=True))), random_state=1)
    off = way.estimate(answers, way.domain.names[:2]).estimate - 0.25
    assert 0 < np.sum(off**2) < 5**2 * errors[0] / len(codes)


def test_tables_that_share_attributes_agree():
    """Each from all answers that tell about it, so that margins are the same, whichever table they are taken from."""
    way, _ = asked((3, 4, 2), 1.0)
    rng = np.random.default_rng(0)
    answers = way.randomize(pa.table({a.name: rng.integers(0, a.size, 2000) for a in way.domain}), random_state=1)
    tables = {pair: way.estimate(answers, pair).estimate for pair in itertools.combinations(way.domain.names, 2)}
    one = way.estimate(answers, "a0").estimate
    for pair, table in tables.items():
        assert table.sum() == pytest.approx(1, abs=1e-12)
        if pair[0] == "a0":
            np.testing.assert_allclose(table.sum(axis=1), one, atol=1e-12)


def test_files_hold_questions(tmp_path):
    way, mixed = asked((3, 4, 2), 1.0)
    assert any(len(q.report.subset_sizes) > 1 for q in mixed.questions)
    optrr.save(way, tmp_path / "asking.json")
    back = optrr.load(tmp_path / "asking.json")
    assert back.subset_reports == way.subset_reports and back.digest == way.digest and back.epsilon == way.epsilon
    rng = np.random.default_rng(0)
    data = pa.table({a.name: rng.integers(0, a.size, 500) for a in way.domain})
    answers = back.randomize(data, random_state=2)
    back.release_file(data, tmp_path / "answers.csv", 2)
    for pair in itertools.combinations(way.domain.names, 2):
        np.testing.assert_allclose(
            way.estimate(tmp_path / "answers.csv", pair).estimate,
            way.estimate(answers, pair).estimate,
            atol=1e-12,
        )


def test_files_of_questions_are_verified(tmp_path, capsys):
    way, _ = asked((3, 4, 2), 1.0)
    path = tmp_path / "asking.json"
    optrr.save(way, path)
    checked = optrr.verify(path)
    assert checked.holds and checked.design == way.digest and len(checked.checks) == 1
    record = json.loads(path.read_text())
    # a lower total, and another share: the first is wrong, the second is not what was written
    path.write_text(json.dumps(record | {"epsilon": 0.9}))
    assert not optrr.verify(path).checks[0].holds and run(["verify", str(path)]) == 1
    record["tables"][0]["share"] += 0.01
    record["tables"][1]["share"] -= 0.01
    path.write_text(json.dumps(record))
    assert optrr.verify(path).digest is False and run(["verify", str(path)]) == 1
    with pytest.raises(InvalidInput, match="changed after it was written"):
        optrr.load(path)
    capsys.readouterr()
    assert run(["power", "--design", str(path), "--attributes", "a0,a1", "--truth", "x.csv"]) == 2
    assert "this needs a design of whole records" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subset_sizes": [1, 2, 1]}, "one for each attribute"),
        ({"subset_sizes": [3, 1]}, "from 1 to one less than"),
        ({"subset_sizes": [0, 1]}, "from 1 to one less than"),
        ({"likely": []}, "likely patterns"),
        ({"likely": [0, 1, 2, 3]}, "likely patterns"),
        ({"likely": [4]}, "likely patterns"),
        ({"likely": [1, 1]}, "likely patterns"),
    ],
)
def test_reports_that_cannot_be_drawn_are_refused(tmp_path, change, said):
    domain = Domain.of({"a": 3, "b": 4})
    path = tmp_path / "asking.json"
    optrr.save(SampledTables(domain, (("a", "b"),), np.ones(1), 1.0, (SubsetReport((1, 2), (1, 3)),)), path)
    record = json.loads(path.read_text())
    record["tables"][0] |= change
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match=said):
        optrr.load(path)


def test_a_file_of_many_subsets_is_refused_before_its_patterns_are_listed(tmp_path):
    """2^60 patterns would not fit into any memory."""
    domain, path = Domain.of({f"a{k}": 2 for k in range(60)}), tmp_path / "asking.json"
    optrr.save(SampledTables(domain, (domain.names[:2],), np.ones(1), 1.0), path)
    record = json.loads(path.read_text())
    record["tables"][0] |= {"attributes": list(domain.names), "subset_sizes": [1] * 60, "likely": [1]}
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match="60 subsets; use at most 12"):
        optrr.load(path)


@pytest.mark.parametrize("cells", ["0", "0|1", "0|1 2|3", "3|1 2", "0|1 1", "0|1 x", "", "|"])
def test_answers_that_no_report_gives_are_refused(cells):
    way = SampledTables(Domain.of({"a": 3, "b": 4}), (("a", "b"),), np.ones(1), 1.0, (SubsetReport((1, 2), (1, 3)),))
    assert way.estimate(pa.table({"table": [1, 1], "cells": ["0|1 2", "2|0 3"]}), ["a"]).n == 2
    with pytest.raises(InvalidInput, match="answer"):
        way.estimate(pa.table({"table": [1], "cells": [cells]}), ["a"])


def test_what_no_report_sees_is_not_estimated():
    """Whether two attributes are alike is all that this report tells, and nothing of either."""
    way = SampledTables(Domain.of({"a": 2, "b": 2}), (("a", "b"),), np.ones(1), 1.0, (SubsetReport((1, 1), (0, 3)),))
    answers = way.randomize(pa.table({"a": [0, 1, 1, 0], "b": [0, 1, 0, 0]}), random_state=1)
    assert way.table_error(["a", "b"]) == math.inf
    with pytest.raises(InvalidInput, match="no answer contains information about a"):
        way.estimate(answers, ["a", "b"])


def wanted(sizes):
    return pairs(np.asarray(sizes), singles(len(sizes)))


def effects(m):
    return [s for k in range(1, m + 1) for s in itertools.combinations(range(m), k)]


def energy_of_reports(question, sizes, epsilon):
    """‖P_S d_y‖² averaged over the reports y of one question, for every S; of a report's energies other tests say that."""
    shape = [sizes[i] for i in question.attributes]
    held = question.report.energies(shape, epsilon)
    return {tuple(question.attributes[i] for i in s): held[sum(1 << i for i in s)] for s in effects(len(shape))}


def energies(mixed, sizes, epsilon):
    """Of every effect, by the shares."""
    total = dict.fromkeys(effects(len(sizes)), 0.0)
    for question, share in zip(mixed.questions, mixed.shares.tolist(), strict=True):
        for s, e in energy_of_reports(question, sizes, epsilon).items():
            total[s] += share * e
    return total


@pytest.mark.parametrize("t", [1, 3, 5])
def test_effects_attribute_by_attribute_are_those_of_the_whole_matrix(t):
    rng = np.random.default_rng(t)
    kappa, v, likely = rng.uniform(0.05, 0.5, (t, 4)), rng.normal(size=(1 << t, 4)), rng.random((1 << t, 4)) < 0.4
    for b in range(4):
        phi, chance = np.ones((1 << t, 1 << t)), np.ones(1 << t)
        for z, i in itertools.product(range(1 << t), range(t)):
            k, match = kappa[i, b], z >> i & 1
            chance[z] *= k if match else 1 - k
            for s in range(1 << t):
                if s >> i & 1:
                    phi[z, s] *= math.sqrt((1 - k) / k) if match else -math.sqrt(k / (1 - k))
        density = np.where(likely[:, b], 1 + 1.7, 1.0) / (1 + 1.7 * chance[likely[:, b]].sum())
        seen = (chance * density) @ phi
        seen[0] = 0
        assert chances(kappa)[:, b] == pytest.approx(chance, rel=1e-12)
        assert at_patterns(kappa, v)[:, b] == pytest.approx(phi @ v[:, b], rel=1e-9, abs=1e-12)
        assert responses(kappa, likely, 1.7)[:, b] == pytest.approx(seen, abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "total", "tables"),
    [([3, 4], 0.5, "pairs"), ([2, 3, 2], 1.0, "pairs"), ([2, 3, 3], 4.0, "pairs"), ([2, 3, 2], 1.0, "one table")],
)
def test_kept_records_see_every_effect_and_have_the_error_they_say(sizes, total, tables):
    """The error from the energies of all reports there are; and all effects, those outside the workload, too."""
    workload = wanted(sizes)
    if tables == "one table":
        workload = TableWorkload(workload.sizes, workload.classes, ((0, 1),), np.ones(1))
    mixed = mixture(workload, total, whole=True)
    held = energies(mixed, sizes, total)
    error = 0.0
    for table in workload.tables:
        cells = math.prod(sizes[i] for i in table)
        for s in effects(len(sizes)):
            if set(s) <= set(table):
                error += math.prod(sizes[i] - 1 for i in s) ** 2 / cells / held[s]
    assert mixed.error == pytest.approx(error, rel=1e-6)
    extra = everything(sizes, total)
    every = [energy_of_reports(q, sizes, total) for q in extra]
    assert all(held[s] >= 0.1 * sum(e[s] for e in every) / len(every) * (1 - 1e-6) > 0 for s in held)
    # a tenth of the people at most are not asked for the workload's sake
    assert mixed.error <= mixture(workload, total).error / 0.9 * 1.001


@pytest.mark.parametrize(("sizes", "total"), [([2] * 9, 8.0), ([3] * 6, 8.0), ([2, 6, 2], 4.0), ([2, 6, 2], 8.0)])
def test_kept_records_are_the_best_report_on_one_cell_where_that_is_best(sizes, total):
    """k-ary response over all cells, the optimum of the laws of change sets there."""
    workload = wanted(sizes)
    one = SubsetReport((1,)).energies(sizes, total)
    dims = [math.prod(sizes[i] - 1 for i in w) for w in workload.effects]
    places = [sum(1 << i for i in w) for w in workload.effects]
    error = float(np.sum(workload.coefficients * dims / one[places]))
    assert mixture(workload, total, whole=True).error <= error * (1 + 1e-9)


@pytest.mark.parametrize("total", [0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("sizes", [[9, 16, 7, 15, 6, 5, 2, 42, 2], [2] * MOST_WHOLE, [30] * 12, [2, 2], [5]])
def test_everything_has_energy_on_every_effect(sizes, total):
    each = [q.report.energies(sizes, total) for q in everything(sizes, total)]
    assert np.mean(each, axis=0)[1:].min() > 0


def test_records_of_too_many_attributes_are_not_kept():
    with pytest.raises(MethodTooLarge, match="whole records of 13 attributes"):
        mixture(wanted([2] * 13), 1.0, whole=True)
    with pytest.raises(MethodTooLarge, match="merge categories"):
        mixture(wanted([50] * 12), 1.0, whole=True)


def test_questions_that_keep_records_go_to_devices():
    way, _ = asked([9, 16, 7, 15, 6, 5, 2, 42, 2], 2.0, whole=True)
    assert way.keeps_records and way.epsilon <= 2 + 1e-9
    assert all(math.isfinite(way.table_error([f"a{i}" for i in s])) for s in effects(9))
    made = questions_of(way)
    assert [q.report.subset_sizes for q in made.questions] == [r.subset_sizes for r in way.subset_reports]
    assert float(made.total) <= 2 + 1e-9


def test_reports_of_too_many_patterns_are_refused_at_once(tmp_path):
    """A small file must not make its reader list patterns for minutes."""
    domain, path = Domain.of({f"a{k}": 2 for k in range(12)}), tmp_path / "asking.json"
    optrr.save(SampledTables(domain, (domain.names,), np.ones(1), 1.0, (SubsetReport((1,) * 12),)), path)
    record = json.loads(path.read_text())
    row = record["tables"][0]
    record["tables"] = [row | {"share": 1 / 2000, "likely": [1, k + 2]} for k in range(2000)]
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match="8192000 patterns of matches in total, more than 1048576"):
        optrr.load(path)


def test_records_are_not_kept_where_an_effect_is_unseen():
    domain = Domain.of({"a": 2, "b": 3})
    parity = SampledTables(domain, (("a", "b"),), np.ones(1), 1.0, (SubsetReport((1, 1), (0, 1)),))
    assert not parity.keeps_records and parity.table_error("a") == math.inf
    assert SampledTables(domain, (("a", "b"),), np.ones(1), 1.0).keeps_records
    assert not SampledTables(domain, (("a",), ("b",)), np.full(2, 0.5), 1.0).keeps_records


def test_undeclared_columns_are_left_out_on_request(tmp_path) -> None:
    way, _ = asked((3, 4, 2), 1.0)
    people = pa.table(
        {a.name: [a.texts[k % a.size] for k in range(100)] for a in way.domain} | {"id": list(range(100))}
    )
    with pytest.raises(InvalidInput, match="drop_undeclared"):
        way.randomize(people, tmp_path / "answers.csv")
    assert way.randomize(people, tmp_path / "answers.csv", drop_undeclared=True).dropped == ("id",)
    assert (tmp_path / "answers.csv").read_text().splitlines()[0] == '"table","cells"'
