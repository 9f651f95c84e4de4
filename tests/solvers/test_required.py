"""Questions for required variances and errors of tables: against enumeration, brute force and a convex program."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from exact_optimum import effects, spectra

from optrr_solvers.allocation.any_mechanism import accuracy_bound, total_bound
from optrr_solvers.allocation.delsarte import energy_cap, entropy_cap
from optrr_solvers.allocation.questions import SubsetReport, growth
from optrr_solvers.allocation.required import required_questions
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of


def workload_of(sizes, tables):
    singles = tuple(np.asarray([i]) for i in range(len(sizes)))
    return TableWorkload(np.asarray(sizes), singles, tuple(tables), np.ones(len(tables)))


def drawn(rng, largest=4):
    """Sizes, tables that cover every attribute, and targets above what sampling leaves."""
    m = int(rng.integers(2, 5))
    sizes = rng.integers(2, largest + 1, m)
    tables = {
        tuple(sorted(rng.choice(m, int(rng.integers(1, min(m, 3) + 1)), replace=False).tolist())) for _ in range(3)
    }
    tables |= {(i,) for i in range(m) if not any(i in t for t in tables)}
    workload = workload_of(sizes, sorted(tables))
    return workload, (1 - 1 / np.array([math.prod(sizes[list(t)]) for t in workload.tables])) * rng.uniform(
        3, 40, len(tables)
    )


def table_errors(workload, questions, shares, total):
    """G_U from the energies of the effects, one table after another."""
    out = []
    for table in workload.tables:
        cells, error = math.prod(workload.sizes[list(table)].tolist()), 0.0
        for k in range(1, len(table) + 1):
            for effect in itertools.combinations(table, k):
                energy = 0.0
                for question, share in zip(questions, shares, strict=True):
                    if set(effect) <= set(question.attributes):
                        bits = sum(1 << question.attributes.index(i) for i in effect)
                        sizes = workload.sizes[list(question.attributes)].tolist()
                        energy += share * question.report.energies(sizes, total)[bits]
                dim = math.prod((workload.sizes[list(effect)] - 1).tolist())
                error += dim**2 / cells / energy
        out.append(error)
    return np.asarray(out)


def energy_rules(sizes, total, tables):
    """Effects, their dimensions, their energies as a variable, and the constraints of theory §3.9 written down one by one."""
    m, cells = len(sizes), math.prod(sizes)
    effects = [e for k in range(1, m + 1) for e in itertools.combinations(range(m), k)]
    dims = np.array([math.prod(sizes[i] - 1 for i in e) for e in effects], dtype=float)
    energy = cp.Variable(len(effects), nonneg=True)

    def inside(block):
        return cp.sum(energy[[k for k, e in enumerate(effects) if set(e) <= set(block)]])

    def rate(block):
        k = math.prod(sizes[i] for i in block)
        t = k * math.exp(total) / (k - 1 + math.exp(total))
        return (t * math.log(t) - t + 1) / (t - 1) ** 2

    rules = [cp.sum(energy) <= energy_cap(cells, total), energy <= dims]
    rules += [inside(t) <= energy_cap(math.prod(sizes[i] for i in t), total) for t in tables]
    pairings = {
        tuple(sorted(tuple(sorted(p[i : i + 2])) for i in range(0, m, 2))) for p in itertools.permutations(range(m))
    }
    for blocks in [tuple((i,) for i in range(m)), *pairings]:
        rules.append(cp.sum(cp.hstack([rate(b) * inside(b) for b in blocks])) <= entropy_cap(cells, total))
    return effects, dims, energy, rules


def delsarte_rules(sizes, total):
    """All sets S, e_S with e_∅, and Delsarte's constraints for any p: Σ e + g e_∅ ≤ g √e_∅, Σ_S e_S λ_S(D) ≥ 0 for all D."""
    sets = [s for k in range(len(sizes) + 1) for s in itertools.combinations(range(len(sizes)), k)]
    transform = np.array([[math.prod(-1 / (sizes[i] - 1) for i in set(s) & set(d)) for d in sets] for s in sets])
    energy, gain = cp.Variable(len(sets), nonneg=True), math.expm1(total)
    return sets, energy, [cp.sum(energy) + gain * energy[0] <= gain * cp.sqrt(energy[0]), transform.T @ energy >= 0]


def every_density(sizes, total):
    """All sets S, and e_S as a mixture of every two-valued density there is, hence of every mechanism."""
    every, gain = spectra(tuple(sizes)), math.expm1(total)
    often = cp.Variable(every.share.size, nonneg=True)
    columns = every.energies * np.square(gain / (1 + gain * every.share))[:, None]
    return effects(sizes), columns.T @ often, [cp.sum(often) == 1]


def least_excess(workload, targets, of_effects):
    """min over energies of max_U G_U/τ_U, under the constraints."""
    sizes = workload.sizes.tolist()
    effects, energy, rules = of_effects
    excess = cp.Variable()
    for table, target in zip(workload.tables, targets, strict=True):
        cells = math.prod(sizes[i] for i in table)
        dims = {s: math.prod(sizes[i] - 1 for i in s) for s in effects if s and set(s) <= set(table)}
        terms = [dims[s] ** 2 / cells * cp.inv_pos(energy[effects.index(s)]) for s in dims]
        rules = [*rules, cp.sum(cp.hstack(terms)) <= target * excess]
    return float(cp.Problem(cp.Minimize(excess), rules).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_on_the_total_is_where_energies_suffice(seed):
    """At the bound Delsarte's program, and the energies' own limits, reach the targets; no mechanism does below it."""
    rng = np.random.default_rng(seed)
    workload, targets = drawn(rng)
    sizes, bound = workload.sizes.tolist(), accuracy_bound(workload, targets)
    above = bound * (1 + 1e-4)
    assert least_excess(workload, targets, delsarte_rules(sizes, above)) < 1 + 1e-4
    sets, _, energy, rules = energy_rules(sizes, above, workload.tables)
    assert least_excess(workload, targets, (sets, energy, rules)) < 1 + 1e-4
    if math.prod(sizes) <= 12:
        assert least_excess(workload, targets, every_density(sizes, bound * (1 - 1e-4))) > 1


def test_the_bound_grows_with_what_is_required_and_is_the_known_one_for_single_attributes():
    sizes, epsilons = np.array([9, 16, 7, 15, 2]), np.array([0.5, 1.0, 2.0, 0.7, 1.5])
    workload = workload_of(sizes, [(i,) for i in range(5)])
    targets = (1 - 1 / sizes) / eigenvalues_of(sizes, epsilons) ** 2
    bound = accuracy_bound(workload, targets)
    energies = (sizes - 1) * eigenvalues_of(sizes, epsilons) ** 2
    assert (
        2 * math.asinh(math.sqrt(energies.sum())) * (1 - 1e-9) <= bound == pytest.approx(total_bound(sizes, epsilons))
    )
    looser = [accuracy_bound(workload, targets * s) for s in (0.7, 1.0, 1.5, 4.0)]
    assert looser == sorted(looser, reverse=True) and looser[0] > looser[-1]
    assert accuracy_bound(workload, np.full(5, np.inf)) == 0
    some = np.where(np.arange(5) < 2, targets, np.inf)
    assert 0 < accuracy_bound(workload, some) <= bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_questions_reach_every_target_and_no_bound_is_passed(seed):
    rng = np.random.default_rng(100 + seed)
    workload, targets = drawn(rng, 6)
    seen = []
    mixed, total = required_questions(workload, targets, 20.0, seen.append)
    assert np.all(table_errors(workload, mixed.questions, mixed.shares, total) <= targets * (1 + 1e-12))
    assert mixed.shares.sum() == pytest.approx(1) and (mixed.shares > 0).all()
    assert mixed.error == pytest.approx(table_errors(workload, mixed.questions, mixed.shares, total).sum(), rel=1e-9)
    assert accuracy_bound(workload, targets) <= total <= min(seen) * (1 + 1e-3)
    assert seen == sorted(seen, reverse=True)
    # asked for less than that, there are none; for tables alone, at least as much
    assert required_questions(workload, targets, accuracy_bound(workload, targets) * 0.99) is None
    tables = required_questions(workload, targets, 20.0, tables_only=True)
    assert tables is None or tables[1] >= total * (1 - 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_hardly_more_could_be_saved_by_any_question_there_is(seed):
    """Two attributes: every subset size and every set of likely patterns, in one convex program at a total a little lower."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 2)
    tables = [[(0,), (1,)], [(0, 1)], [(0,), (0, 1)], [(1,), (0,), (0, 1)]][seed]
    workload = workload_of(sizes, tables)
    targets = (1 - 1 / np.array([math.prod(sizes[list(t)]) for t in tables])) * rng.uniform(4, 30, len(tables))
    total = required_questions(workload, targets, 20.0)[1] * (1 - 5e-3)
    rows = []
    for group in ((0,), (1,), (0, 1)):
        of = sizes[list(group)].tolist()
        for named in itertools.product(*(range(1, r) for r in of)):
            for k in range(1, 1 << len(group)):
                for likely in itertools.combinations(range(1 << len(group)), k):
                    if k < 1 << len(group):
                        rows.append(energies_on(group, SubsetReport(named, likely).energies(of, total)))
        cells = math.prod(of)
        rows += [energies_on(group, SubsetReport((k,)).energies(of, total)) for k in range(1, cells) if len(group) > 1]
    energies, share, excess = np.asarray(rows), cp.Variable(len(rows), nonneg=True), cp.Variable()
    held, dims = energies.T @ share, [sizes[0] - 1, sizes[1] - 1, (sizes[0] - 1) * (sizes[1] - 1)]
    rules = [cp.sum(share) == 1]
    for table, target in zip(tables, targets, strict=True):
        seen = [0, 1, 2] if len(table) == 2 else [table[0]]
        cells = math.prod(sizes[list(table)].tolist())
        rules.append(sum(float(dims[k]) ** 2 / cells * cp.inv_pos(held[k]) for k in seen) <= target * excess)
    assert cp.Problem(cp.Minimize(excess), rules).solve(solver=cp.CLARABEL) > 1


def energies_on(group, energies):
    """Energies on attribute 0, attribute 1 and both."""
    return (
        {(0,): [energies[1], 0, 0], (1,): [0, energies[1], 0]}.get(group, [*energies[1:]])
        if len(group) < 2
        else [*energies[1:4]]
    )


def test_energies_shrink_at_least_as_is_said():
    """What turns a promise into a bound: e(L)/e(ε) ≤ ((1 − e^−L)/(1 − e^−ε))² for every share of likely patterns."""
    p = np.linspace(0, 1, 101)
    for total, lower in itertools.product((0.01, 0.5, 2, 9, 40), (0.999, 0.9, 0.3)):
        said = (math.expm1(-total * lower) / math.expm1(-total)) ** 2
        assert (growth(p, total * lower) / growth(p, total) <= said * (1 + 1e-12)).all()
