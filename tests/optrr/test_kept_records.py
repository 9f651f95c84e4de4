"""Mixtures that keep records: each effect of every table has energy, by formulas of their own and by enumerating reports."""

import itertools
import json
import math

import numpy as np
import pytest

import optrr
from optrr import InvalidInput
from optrr.domain.domain import Domain
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr.ways.protocols.sampled_uses import questions_of
from optrr_solvers.allocating.mixture import MOST_WHOLE, everything, mixture
from optrr_solvers.allocating.questions import SubsetReport, at_patterns, chances, responses
from optrr_solvers.allocating.workload import TableWorkload, pairs
from optrr_solvers.errors import MethodTooLarge
from optrr_solvers.partition import singles


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
    kappa, v, likely = rng.uniform(0.05, 0.5, (4, t)), rng.normal(size=(4, 1 << t)), rng.random((4, 1 << t)) < 0.4
    for b in range(4):
        phi, chance = np.ones((1 << t, 1 << t)), np.ones(1 << t)
        for z, i in itertools.product(range(1 << t), range(t)):
            k, match = kappa[b, i], z >> i & 1
            chance[z] *= k if match else 1 - k
            for s in range(1 << t):
                if s >> i & 1:
                    phi[z, s] *= math.sqrt((1 - k) / k) if match else -math.sqrt(k / (1 - k))
        density = np.where(likely[b], 1 + 1.7, 1.0) / (1 + 1.7 * chance[likely[b]].sum())
        seen = (chance * density) @ phi
        seen[0] = 0
        assert chances(kappa)[b] == pytest.approx(chance, rel=1e-12)
        assert at_patterns(kappa, v)[b] == pytest.approx(phi @ v[b], rel=1e-9, abs=1e-12)
        assert responses(kappa, likely, 1.7)[b] == pytest.approx(seen, abs=1e-12)


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
    with pytest.raises(MethodTooLarge, match="there are 13"):
        mixture(wanted([2] * 13), 1.0, whole=True)
    with pytest.raises(MethodTooLarge, match="merge categories"):
        mixture(wanted([50] * 12), 1.0, whole=True)


def asked(sizes, total):
    """The mixture that keeps records, for all pairs, as a way of asking."""
    mixed = mixture(wanted(sizes), total, whole=True)
    domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
    names = tuple(tuple(domain.names[i] for i in q.attributes) for q in mixed.questions)
    return SampledTables(domain, names, mixed.shares, total, tuple(q.report for q in mixed.questions))


def test_files_of_kept_records_come_back_and_go_to_devices(tmp_path):
    way = asked([9, 16, 7, 15, 6, 5, 2, 42, 2], 2.0)
    assert way.keeps_records and way.epsilon <= 2 + 1e-9
    assert all(math.isfinite(way.table_error([f"a{i}" for i in s])) for s in effects(9))
    path = tmp_path / "asking.json"
    optrr.save(way, path)
    again = optrr.load(path)
    assert again.digest == way.digest and again.subset_reports == way.subset_reports and again.keeps_records
    assert optrr.verify(path).holds
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
    with pytest.raises(InvalidInput, match="8192000 patterns of matches in all, above 1048576"):
        optrr.load(path)


def test_records_are_not_kept_where_an_effect_is_unseen():
    domain = Domain.of({"a": 2, "b": 3})
    parity = SampledTables(domain, (("a", "b"),), np.ones(1), 1.0, (SubsetReport((1, 1), (0, 1)),))
    assert not parity.keeps_records and parity.table_error("a") == math.inf
    assert SampledTables(domain, (("a", "b"),), np.ones(1), 1.0).keeps_records
    assert not SampledTables(domain, (("a",), ("b",)), np.full(2, 0.5), 1.0).keeps_records
