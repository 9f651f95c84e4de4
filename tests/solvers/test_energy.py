"""The bound for every mechanism: against channels, the exact optimum, Delsarte's program, and where it is reached."""

import itertools
import json
import math
from dataclasses import asdict

import cvxpy as cp
import numpy as np
import pytest
from check_any_mechanism import check
from exact_optimum import domains, exact_optimum, spectra, workloads

from optrr_solvers.allocation.any_mechanism import error_bound, total_bound
from optrr_solvers.allocation.delsarte import energy_cap, entropy_cap
from optrr_solvers.allocation.error_certificate import error_certificate
from optrr_solvers.allocation.mixture import best_shares, mixture, shared_error
from optrr_solvers.allocation.questions import Question, SubsetReport, whole_table
from optrr_solvers.allocation.workload import TableWorkload, eigenvalues_of, marginals, pairs
from optrr_solvers.partition import alike, singles
from tests.solvers.test_required import delsarte_rules, energy_rules

ADULT = np.array([9, 16, 7, 15, 6, 5, 2, 42, 2])


def single(sizes):
    return np.asarray(sizes), singles(len(sizes))


def random_workload(rng, m):
    """Up to four random tables over these attributes, of different weights."""
    every = [t for k in range(1, m + 1) for t in itertools.combinations(range(m), k)]
    chosen = rng.choice(len(every), min(len(every), int(rng.integers(1, 5))), replace=False)
    return tuple(every[k] for k in chosen), rng.uniform(0.2, 3, len(chosen))


def least_error(channel, sizes, tables, weights):
    """n Σ w E‖π̂ − π‖² of the best unbiased estimates at the uniform population (Cramér–Rao), from the channel itself."""
    cells = math.prod(sizes)
    seen = channel.mean(axis=0)
    information = (channel / np.where(seen > 0, seen, 1)) @ channel.T
    centred = np.eye(cells) - 1 / cells
    covariance = np.linalg.pinv(centred @ information @ centred, rcond=1e-11, hermitian=True)
    index = np.stack(np.unravel_index(np.arange(cells), sizes), axis=1)
    total = 0.0
    for table, weight in zip(tables, weights, strict=True):
        keys = np.ravel_multi_index(tuple(index[:, list(table)].T), [sizes[i] for i in table])
        margin = np.eye(math.prod(sizes[i] for i in table))[keys].T @ centred
        # what the reports do not tell at all cannot be estimated
        if np.abs(margin @ (centred - covariance @ (centred @ information @ centred))).max() > 1e-6:
            return np.inf
        total += weight * float(np.trace(margin @ covariance @ margin.T))
    return total


def random_channel(rng, cells, total):
    """Of any alphabet and any shape of densities that differ by at most e^ε, (cells, reports)."""
    reports = int(rng.integers(2, 3 * cells))
    kind = rng.integers(3)
    if kind == 0:
        densities = np.exp(total * rng.integers(0, 2, (cells, reports)))
    elif kind == 1:
        densities = np.exp(total * rng.random((cells, reports)))
    else:
        densities = np.exp(total * (rng.random((cells, reports)) < 1 / (1 + np.exp(total))))
    # a channel's rows sum to 1: what is missing goes to one report more, as long as that is as private
    weights = rng.dirichlet(np.ones(reports))
    rows = densities @ weights
    scaled = densities * weights / rows.max()
    rest = 1 - scaled.sum(axis=1)
    while not (rest.min() > 0 and rest.max() / rest.min() <= np.exp(total)):
        scaled *= 0.7
        rest = 1 - scaled.sum(axis=1)
    return np.column_stack([scaled, rest])


@pytest.mark.parametrize("seed", range(10))
def test_no_channel_of_any_alphabet_is_below(seed):
    """100 random channels each, m ≤ 4."""
    rng = np.random.default_rng(seed)
    seen = 0
    for _ in range(100):
        m = int(rng.integers(1, 5))
        sizes = tuple(int(r) for r in rng.integers(2, 4 if m > 2 else 6, m))
        total = float(rng.choice([0.2, 0.7, 1.5, 3.0, 6.0]))
        tables, weights = random_workload(rng, m)
        channel = random_channel(rng, math.prod(sizes), total)
        ratios = channel.max(axis=0) / channel.min(axis=0)
        assert np.allclose(channel.sum(axis=1), 1) and ratios.max() <= np.exp(total) * (1 + 1e-9)
        error = least_error(channel, sizes, tables, weights)
        bound = error_bound(TableWorkload(*single(sizes), tables, weights), total)
        assert bound <= error * (1 + 1e-9)
        seen += bool(np.isfinite(error))
    assert seen > 50


@pytest.mark.parametrize("cells", [2, 3, 10, 64, 1000])
@pytest.mark.parametrize("total", [0.1, 1.0, 4.0, 9.0])
def test_caps_are_those_of_the_best_subset(cells, total):
    gain = math.expm1(total)
    shares = np.arange(1, cells) / cells
    variances = shares * (1 - shares) * (gain / (1 + gain * shares)) ** 2
    entropies = shares * (1 + gain) * total / (1 + gain * shares) - np.log1p(gain * shares)
    assert energy_cap(cells, total) == pytest.approx(variances.max(), rel=1e-12)
    assert entropy_cap(cells, total) == pytest.approx(entropies.max(), rel=1e-12)
    assert energy_cap(cells, total) <= math.sinh(total / 2) ** 2 * (1 + 1e-12)


def effect_errors(sets, sizes, tables, weights):
    """a_S, the factor of 1/e_S in the workload's error."""
    dims = np.array([math.prod(sizes[i] - 1 for i in s) for s in sets])
    per_table = [
        [w / math.prod(sizes[i] for i in t) * (len(s) > 0 and set(s) <= set(t)) for s in sets]
        for t, w in zip(tables, weights, strict=True)
    ]
    return dims**2 * np.sum(per_table, axis=0)


def least_error_of(of_effects, sizes, tables, weights):
    """min Σ a_S/e_S under the rules."""
    sets, energies, rules = of_effects
    errors = effect_errors(sets, sizes, tables, weights)
    goal = cp.Minimize((errors[errors > 0] / errors.sum()) @ cp.inv_pos(energies[np.flatnonzero(errors)]))
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
    return errors.sum() * cp.Problem(goal, rules).solve(solver=cp.CLARABEL, **tolerances)


def images(inside):
    """Of a set of records, given by 0 and 1, each different one that exchanges of categories make of it."""
    exchanges = itertools.product(*(itertools.permutations(range(r)) for r in inside.shape))
    return np.unique([inside[np.ix_(*one)].ravel() for one in exchanges], axis=0)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 3), (2, 2, 3), (2, 2, 2, 2)])
@pytest.mark.parametrize("total", [0.5, 2.0, 5.0])
def test_a_channel_has_the_error_of_the_exact_optimum(sizes, total):
    """One that draws a set, then one of its images, and says of which image the record is more likely a member."""
    gain = math.expm1(total)
    for _, workload in workloads(sizes, 5):
        best, channel = exact_optimum(workload, total), []
        assert best.lower == pytest.approx(best.error, rel=2e-9) and best.lower <= best.error * (1 + 1e-12)
        for number, share in zip(spectra(sizes).sets.tolist(), best.shares, strict=True):
            if share > 1e-12:
                each = images(np.array([number >> k & 1 for k in range(math.prod(sizes))]).reshape(sizes))
                channel.append((1 + gain * each.T) * share / len(each) / (1 + gain * each[0].mean()))
        channel = np.hstack(channel)
        assert channel.sum(axis=1) == pytest.approx(1, abs=1e-9)
        assert channel.max(axis=0) == pytest.approx(channel.min(axis=0) * math.exp(total))
        assert least_error(channel, sizes, workload.tables, workload.weights) == pytest.approx(best.error, rel=1e-6)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(16))
def test_the_bound_lies_between_delsarte_s_program_and_the_exact_optimum(seed):
    rng = np.random.default_rng(seed)
    sizes = [(2, 2), (2, 3), (3, 3), (2, 2, 3), (2, 2, 2), (5,), (2, 5), (2, 2, 2, 2)][seed % 8]
    for total in (0.25, 1.0, 2.0, 4.0, 6.0, 10.0):
        tables, weights = random_workload(rng, len(sizes))
        workload = TableWorkload(*single(sizes), tables, weights)
        bound = error_bound(workload, total)
        assert bound >= least_error_of(delsarte_rules(sizes, total), sizes, tables, weights) * (1 - 1e-7)
        assert bound <= exact_optimum(workload, total).error


@pytest.mark.slow
@pytest.mark.parametrize("sizes", domains())
def test_the_bound_is_not_above_the_exact_optimum(sizes):
    """Every domain of up to 16 cells, and twenty workloads of each that has more than one attribute."""
    for total in (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0):
        for _, workload in workloads(sizes):
            assert error_bound(workload, total) <= exact_optimum(workload, total).error


@pytest.mark.parametrize(
    ("sizes", "total", "optimum"),
    [
        ((2,) * 5, 4.0, 17.564046),
        ((2,) * 5, 6.0, 8.7401800),
        ((3,) * 4, 4.0, 20.100091),
        ((3,) * 4, 6.0, 7.6963651),
        ((2, 3, 4, 5), 6.0, 9.1146410),
        ((2,) * 9, 8.0, 37.075029),
    ],
)
def test_mechanisms_reach_it_at_large_epsilon(sizes, total, optimum):
    """Mixtures, or k-ary randomized response of the record, have these errors for all pairs: they are optimal."""
    workload = pairs(*single(sizes))
    bound = error_bound(workload, total)
    assert bound == pytest.approx(optimum, rel=6e-8)
    of_records = workload.coefficients.sum() * (1 + math.prod(sizes) / math.expm1(total)) ** 2
    error = min(of_records, mixture(workload, total).error if len(sizes) < 9 else math.inf)
    assert error == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize(
    ("sizes", "total", "bound"),
    [
        ((2,) * 5, 2.0, 77.0549),
        ((2, 3, 4, 5), 4.0, 24.8708),
        ((2, 3, 4, 5, 2, 6), 4.0, 131.8835),
        ((2,) * 9, 4.0, 144.2044),
        ((2,) * 9, 6.0, 61.5503),
        ((2,) * 30, 5.0, 4832.66),
        (tuple(range(2, 14)), 6.0, 2439.477),
        (tuple(ADULT), 4.0, 5668.83),
        (tuple(ADULT), 6.0, 1091.43),
        (tuple(ADULT), 8.0, 416.000),
    ],
)
def test_the_bound_where_no_mechanism_is_known_to_reach_it(sizes, total, bound):
    classes = alike([np.array(sizes, dtype=float)])
    assert error_bound(pairs(np.array(sizes), classes), total) == pytest.approx(bound, rel=4e-6)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_at_least_that_of_energies_and_entropies(seed):
    """The constraints that hold beside Delsarte's in their first form, solved by cvxpy."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 6, int(rng.integers(2, 6))).tolist())
    total = float(rng.choice([0.5, 2.0, 4.0, 7.0]))
    tables = list(itertools.combinations(range(len(sizes)), 2))
    effects, _, energies, rules = energy_rules(sizes, total, tables)
    best = least_error_of((effects, energies, rules), sizes, tables, np.ones(len(tables)))
    # of six attributes or fewer, some pairings only
    assert error_bound(pairs(*single(sizes)), total) >= 0.97 * best


@pytest.mark.parametrize(
    ("sizes", "total"), [((2, 2, 2), 2.0), ((2, 3, 4, 5), 4.0), ((2, 2, 3, 3, 4, 5), 6.0), (ADULT[[0, 2, 4, 6]], 3.0)]
)
def test_saved_multipliers_prove_the_bound_in_exact_rationals(sizes, total):
    workload = pairs(*single(sizes))
    made = error_certificate(
        workload.sizes.tolist(), [list(t) for t in workload.tables], [1.0] * len(workload.tables), total
    )
    saved = json.loads(json.dumps(asdict(made)))
    assert made.bound <= made.proved() * (1 + 1e-12) and made.bound == pytest.approx(
        error_bound(workload, total), rel=1e-6
    )
    # one set for all p counts every p here, and in the bound those of finitely many cells
    assert saved["bound"] * (1 - 1e-3) <= check(saved) <= saved["bound"] * (1 + 1e-6)
    saved["sets"][0]["beta"] = 1e-9
    with pytest.raises(ValueError, match="exceeds"):
        check(saved)


@pytest.mark.parametrize("size", [4, 8, 37])
@pytest.mark.parametrize("total", [math.log(3), math.log(7)])
def test_one_attribute_reaches_it_by_subset_selection(size, total):
    """Ye & Barg (2018): k of r categories; so that what is printed is neither too high nor too low."""
    workload = marginals(*single([size]))
    energies = whole_table((size,), total).energies((size,), total)
    assert error_bound(workload, total) == pytest.approx((1 - 1 / size) * (size - 1) / energies[1], rel=1e-8)


@pytest.mark.parametrize("total", [1.2663801734674021e-06, 2.0309e-6, 2.5719e-6, 1e-5, 1e-4, 9.9e-3, 2e-2, 0.1])
def test_binary_attributes_asked_one_by_one_reach_it_at_small_totals(total):
    workload = marginals(*single([2, 2]))
    questions = [Question((i,), whole_table((2,), total)) for i in (0, 1)]
    error, bound = shared_error(workload, questions, np.array([0.5, 0.5]), total), error_bound(workload, total)
    assert bound <= error <= bound * (1 + 1e-8)


def test_parities_reach_it_as_epsilon_falls():
    """One answer on whether two binary attributes are alike, for all who want only that: tanh²(ε/2) against sinh²."""
    sizes = (2, 2)
    parity = SubsetReport((1, 1), (0, 3))
    for total in (0.01, 0.5, 1.0):
        energies = parity.energies(sizes, total)
        assert energies == pytest.approx([0, 0, 0, math.tanh(total / 2) ** 2], abs=1e-12)
        assert energies[3] / math.sinh(total / 2) ** 2 == pytest.approx(math.cosh(total / 2) ** -2, rel=1e-9)


def test_adult_s_pairs_as_worked_out_by_hand():
    """(Σ √(C_S dim_S))² / sinh²(ε/2), mean per table at n = 32,561."""
    workload = pairs(*single(ADULT))
    known = {0.5: 0.9873, 1: 0.2320, 2: 0.04562, 3: 0.01390}
    for total, mean in known.items():
        assert error_bound(workload, total) / 36 / 32_561 == pytest.approx(mean, rel=5e-4)


def test_totals_for_accuracies_as_worked_out_by_hand():
    """Adult at ε_i; and one attribute, where k-ary response itself has the energy (r−1) λ²."""
    for epsilon, total in {0.25: 0.560, 0.5: 1.132, 1.0: 2.174}.items():
        # the closed form for any number of cells, and of all attributes together
        bound = total_bound(ADULT, np.full(9, epsilon))
        least = 2 * math.asinh(math.sqrt(np.sum((ADULT - 1) * eigenvalues_of(ADULT, epsilon) ** 2)))
        assert least == pytest.approx(total, abs=6e-4) and least * (1 - 1e-8) <= bound < 1.2 * least
    # where Delsarte's constraints hold of nearly every pattern: questions of 15.9091 are known
    assert 15.908 < total_bound(ADULT, np.full(9, 4.0)) < 15.9091
    for size in (2, 5, 30):
        for epsilon in (0.3, 2.0):
            energies = SubsetReport((1,)).energies((size,), epsilon)
            bound = total_bound(np.array([size]), np.array([epsilon]))
            assert bound <= epsilon and energy_cap(size, bound) == pytest.approx(energies[1], rel=1e-5)


@pytest.mark.parametrize("total", [0.5, 3.0, 7.0])
def test_alike_attributes_are_counted_once(total):
    sizes = np.array([3, 2, 3, 3, 2])
    apart, together = pairs(*single(sizes)), pairs(sizes, alike([sizes.astype(float)]))
    assert len(together.effects) < len(apart.effects)
    assert error_bound(together, total) == pytest.approx(error_bound(apart, total), rel=1e-5)


@pytest.mark.parametrize("sizes", [(6, 2, 2), (5, 3, 3, 3, 3)])
def test_shares_of_two_kinds_of_tables_are_those_of_the_tables_told_apart(sizes):
    # between two kinds the first step of a search that starts evenly points to where one of them has no share at all
    errors = []
    for classes in (alike([np.array(sizes)]), singles(len(sizes))):
        workload = pairs(np.array(sizes), classes)
        asked = [Question(t, whole_table(workload.sizes[list(t)].tolist(), 0.5)) for t in workload.tables]
        errors.append(best_shares(workload, asked, 0.5).error)
    # the shares of one kind, by looking at a thousand of them
    kinds = pairs(np.array(sizes), alike([np.array(sizes)]))
    asked = [Question(t, whole_table(kinds.sizes[list(t)].tolist(), 0.5)) for t in kinds.tables]
    tried = [shared_error(kinds, asked, np.array([p, 1 - p]), 0.5) for p in np.linspace(0.001, 0.999, 999)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-8)
    assert errors[0] == pytest.approx(min(tried), rel=1e-5) and errors[0] <= min(tried)


@pytest.mark.slow
def test_the_bound_of_very_many_attributes_and_of_a_large_epsilon():
    many = np.full(100_000, 2)
    assert error_bound(marginals(many, alike([many.astype(float)])), 1.0) == pytest.approx(
        1e10 / 2 / math.sinh(0.5) ** 2, rel=1e-6
    )
    # all that is left is what sampling people leaves
    assert error_bound(pairs(*single([3, 4])), 60.0) == pytest.approx(1 - 1 / 12, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_mixtures_lie_between_it_and_whole_tables(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 7))
    sizes, total = rng.integers(2, 7, m), float(rng.choice([0.25, 1.0, 2.0, 4.0]))
    workload = pairs(*single(sizes))
    mixed = mixture(workload, total)
    tables = [whole_table(sizes[list(t)].tolist(), total) for t in workload.tables]
    apart = sum(
        math.sqrt(
            sum(
                (sizes[list(t)][list(s)] - 1).prod() ** 2
                / sizes[list(t)].prod()
                / report.energies(sizes[list(t)].tolist(), total)[sum(1 << i for i in s)]
                for s in ((0,), (1,), (0, 1))
            )
        )
        for t, report in zip(workload.tables, tables, strict=True)
    )
    assert error_bound(workload, total) <= mixed.error * (1 + 1e-9) and mixed.error <= apart**2 * (1 + 1e-6)
    assert mixed.shares.sum() == pytest.approx(1) and (mixed.shares > 0).all()
    if total <= 1:
        assert mixed.error <= 1.07 * error_bound(workload, total)
