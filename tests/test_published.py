"""Published ways of asking, as the benchmarks compare them: privacy and errors against enumeration and simulations."""

import math
from itertools import combinations, product

import field_protocols
import numpy as np
import public_optimiser
import published
import pytest
from field_protocols import FieldProtocol
from scipy.stats import binom

from optrr.core.domain.domain import Domain
from optrr.core.estimation.accuracy import expected_squared_error
from optrr.core.mechanisms.mechanism import Mechanism
from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.laws import ProductLaw


@pytest.mark.parametrize("total", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2)])
def test_groups_of_one_view_by_every_answer(sizes, total):
    count = math.prod(sizes)
    covariances = []
    # optimised unary encoding: every set of bits, for every true cell
    p, q = 0.5, 1 / (math.exp(total) + 1)
    bits = np.array(list(product((0, 1), repeat=count)))
    second = np.zeros((count, count))
    for true in range(count):
        chances = np.where(np.arange(count) == true, p, q)
        likelihood = np.prod(np.where(bits == 1, chances, 1 - chances), axis=1)
        support = (bits - q) / (p - q)
        second += (support * likelihood[:, None]).T @ support / count
    covariances.append(second - np.full((count, count), count**-2.0))
    # randomized response
    keep = math.exp(total) / (math.exp(total) + count - 1)
    flip = (1 - keep) / (count - 1)
    support = (np.eye(count) - flip) / (keep - flip)
    covariances.append(support.T @ support / count - np.full((count, count), count**-2.0))
    # what varies in the direction that sums to 1 is known without asking
    apart = np.eye(count) - 1 / count
    expected = min(float(np.trace(apart @ c)) for c in covariances)
    assert published.groups(published.wanted(sizes, 2), total, [(0, 1)]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 3.0])
def test_parities_by_every_mask_and_cell(total):
    sizes = (3, 2, 5)
    bits = [math.ceil(math.log2(r)) for r in sizes]
    # who stands for which cell, and every mask over the bits of one or two attributes
    masks = {
        mask
        for pair in combinations(range(3), 2)
        for mask in product(*(range(1 << b if i in pair else 1) for i, b in enumerate(bits)))
        if any(mask)
    }
    keep = math.exp(total) / (1 + math.exp(total))
    scale = 2 * keep - 1

    def sign(mask: tuple[int, ...], cell: tuple[int, ...]) -> int:
        return (-1) ** sum((c & v).bit_count() for c, v in zip(mask, cell, strict=True))

    people = list(product(*map(range, sizes)))
    variance = {}
    for mask in masks:
        mean = sum(sign(mask, cell) for cell in people) / len(people)
        up = sum(keep if sign(mask, cell) > 0 else 1 - keep for cell in people) / len(people)
        assert (2 * up - 1) / scale == pytest.approx(mean, abs=1e-12)
        variance[mask] = len(masks) * ((1 / scale**2) - mean**2)
    expected = 0.0
    for pair in combinations(range(3), 2):
        inside = [m for m in masks if all(m[i] == 0 for i in range(3) if i not in pair)]
        padded = math.prod(1 << bits[i] for i in pair)
        for _ in product(*(range(sizes[i]) for i in pair)):
            expected += sum(variance[m] for m in inside) / padded**2
    assert published.parity(published.wanted(sizes, 2), total) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 2.0, 8.0])
@pytest.mark.parametrize(("sizes", "width"), [((2, 3, 2), 2), ((3, 4), 1)])
def test_a_mixture_s_error_is_that_of_its_matrix(sizes, width, total):
    # the way a public optimiser counts errors, from all of Q(y|x), is the way that mixtures' errors are counted
    workload = published.wanted(sizes, width)
    mixed = mixture(workload, total)
    strategy = public_optimiser.strategy_of(workload, mixed, total)
    assert strategy.sum(axis=0) == pytest.approx(1)
    assert (strategy.max(axis=1) / strategy.min(axis=1)).max() <= math.exp(total) * (1 + 1e-12)
    error = public_optimiser.strategy_error(strategy, public_optimiser.queries(workload))
    assert error == pytest.approx(mixed.error, rel=1e-9)
    assert error >= error_bound(workload, total)


def test_covering_views_hold_every_pair():
    for m, size in [(3, 3), (7, 3), (9, 4), (4, 5)]:
        held = {pair for view in published.covering(m, size) for pair in combinations(view, 2)}
        assert held == set(combinations(range(m), 2))


SIZES, EPSILON = (2, 3, 4), 1.3


def protocols() -> dict[str, FieldProtocol]:
    return {
        "spl grr": field_protocols.split(SIZES, EPSILON, "grr"),
        "spl oue": field_protocols.split(SIZES, EPSILON, "oue"),
        "spl best": field_protocols.split(SIZES, 6.0),
        "smp grr": field_protocols.sample(SIZES, EPSILON, "grr"),
        "smp oue": field_protocols.sample(SIZES, EPSILON, "oue"),
        "rsfd grr": field_protocols.fake_data(SIZES, EPSILON, "grr"),
        "rsfd oue-z": field_protocols.fake_data(SIZES, EPSILON, "oue", zeros=True),
        "rsfd oue-r": field_protocols.fake_data(SIZES, EPSILON, "oue"),
    }


NAMES = sorted(protocols())


def answer_law(oracle: str, size: int, epsilon: float, true: int | None) -> dict:
    """Pr(answer) by enumeration; true None is OUE of the zero vector."""
    e = math.exp(epsilon)
    if oracle == "grr":
        return {y: (e if y == true else 1) / (e + size - 1) for y in range(size)}
    law = {}
    for bits in product((0, 1), repeat=size):
        chances = [0.5 if v == true else 1 / (e + 1) for v in range(size)]
        law[bits] = math.prod(c if b else 1 - c for b, c in zip(bits, chances, strict=True))
    return law


def fake_law(protocol: FieldProtocol, i: int) -> dict:
    oracle, size = protocol.oracles[i], int(protocol.sizes[i])
    if protocol.zeros:
        return answer_law(oracle, size, protocol.answer_epsilon, None)
    if oracle == "grr":
        return dict.fromkeys(range(size), 1 / size)
    parts = [answer_law(oracle, size, protocol.answer_epsilon, v) for v in range(size)]
    return {y: sum(part[y] for part in parts) / size for y in parts[0]}


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("name", ["rsfd grr", "rsfd oue-z", "rsfd oue-r"])
def test_fake_data_consume_the_answer_s_epsilon_of_the_whole_record(name, published):
    """ln of the largest ratio of report probabilities over all pairs of records, by enumerating everything."""
    chosen = protocols()[name]
    protocol = field_protocols.fake_data(SIZES, EPSILON, chosen.oracles[0], zeros=chosen.zeros, published=published)
    e, m = protocol.answer_epsilon, protocol.m
    true = [[answer_law(o, r, e, v) for v in range(r)] for o, r in zip(protocol.oracles, SIZES, strict=True)]
    fake, worst = [fake_law(protocol, i) for i in range(m)], 1.0
    for y in product(*fake):
        others = [math.prod(fake[i][y[i]] for i in range(m) if i != j) for j in range(m)]
        chances = [sum(true[j][x[j]][y[j]] * others[j] for j in range(m)) for x in product(*map(range, SIZES))]
        worst = max(worst, max(chances) / min(chances))
    assert math.log(worst) == pytest.approx(e, rel=1e-12)
    assert e == pytest.approx(math.log(3 * math.expm1(EPSILON) + 1) if published else EPSILON, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_supports_by_enumeration(name):
    protocol = protocols()[name]
    for i, size in enumerate(protocol.sizes.tolist()):
        oracle, m = protocol.oracles[i], protocol.m
        a, b = protocol.support(i)
        for v, w in product(range(size), repeat=2):
            law = answer_law(oracle, size, protocol.answer_epsilon, w)
            if protocol.kind == "RS+FD":
                other = fake_law(protocol, i)
                law = {y: (law[y] + (m - 1) * other[y]) / m for y in law}
            supported = sum(c for y, c in law.items() if (y == v if oracle == "grr" else y[v]))
            assert supported == pytest.approx(a if v == w else b, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_estimates_are_unbiased_with_the_stated_variance(name):
    """2,000 simulations of 300 fixed people: mean within 4.5 standard errors (false alarm 6e-5 over nine cells), summed
    variance within 8 % (about 3.5 standard errors of a variance from 2,000 runs over three nearly independent attributes).
    """
    protocol, n, runs = protocols()[name], 300, 2000
    rng = np.random.default_rng(NAMES.index(name))
    codes = np.column_stack([rng.integers(0, r, n) ** 2 // r for r in SIZES])
    truth = [np.bincount(codes[:, i], minlength=r) / n for i, r in enumerate(SIZES)]
    estimates = np.array(
        [np.concatenate(field_protocols.collect(protocol, codes, rng).estimate()) for _ in range(runs)]
    )
    fixed = np.concatenate(protocol.data_variance(truth, n))
    assert np.all(np.abs(estimates.mean(axis=0) - np.concatenate(truth)) < 4.5 * np.sqrt(fixed / runs))
    assert estimates.var(axis=0, ddof=1).sum() == pytest.approx(fixed.sum(), rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_pairs_under_splitting(oracle):
    """Mean of 2,000 simulations within 4.5 standard errors over twelve cells, summed variance within 8 %."""
    protocol, n, runs = field_protocols.split((3, 4), 4.0, oracle), 400, 2000
    rng = np.random.default_rng(21)
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    estimates = []
    for _ in range(runs):
        cells = rng.choice(12, size=n, p=joint.ravel())
        reports = field_protocols.collect(protocol, np.column_stack([cells // 4, cells % 4]), rng)
        estimates.append(reports.estimate_pair(0, 1))
    expected = field_protocols.pair_variance(protocol, 0, 1, joint, n)
    assert np.all(np.abs(np.mean(estimates, axis=0) - joint) < 4.5 * np.sqrt(expected / runs))
    assert np.var(estimates, axis=0, ddof=1).sum() == pytest.approx(expected.sum(), rel=0.08)


def test_splitting_with_randomized_response_is_kronecker():
    """The same mechanism, through the effect kernels: exact errors of one-way and two-way tables."""
    n, rng = 1000, np.random.default_rng(3)
    mechanism = Mechanism(Domain.of({"a": 3, "b": 4}), ProductLaw(np.array([3, 4]), np.array([0.7, 0.7])))
    protocol = field_protocols.split((3, 4), 1.4, "grr")
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    fixed = protocol.data_variance([joint.sum(axis=1), joint.sum(axis=0)], n)
    for i, name in enumerate("ab"):
        kernel = mechanism.kernel(name)
        assert fixed[i].sum() == pytest.approx(expected_squared_error(kernel, n, target="data"), rel=1e-12)
        assert protocol.table_error((i,)) == pytest.approx(expected_squared_error(kernel, 1), rel=1e-12)
    both = mechanism.kernel(("a", "b"))
    assert field_protocols.pair_variance(protocol, 0, 1, joint, n).sum() == pytest.approx(
        expected_squared_error(both, n, joint), rel=1e-12
    )


def test_best_oracle_follows_wangs_rule():
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        border = 3 * math.exp(epsilon) + 2
        assert field_protocols.best_oracle(max(2, int(border * 0.8)), epsilon) == "grr"
        assert field_protocols.best_oracle(int(border * 1.3) + 2, epsilon) == "oue"


def test_no_other_report_on_one_table_is_more_accurate_than_a_subset():
    """Unary encoding comes near where r/(e^ε + 1) is nearly whole, and k-ary response is the subset of one category."""
    for size, epsilon in product((2, 3, 5, 8, 24, 500), (0.1, 0.5, 1.0, 2.0, 4.0, 30.0)):
        others = [field_protocols.report_error(o, size, epsilon) for o in ("grr", "oue")]
        assert published.subset_error(size, epsilon) <= min(others) * (1 + 1e-11)


def test_mean_reciprocal_of_a_binomial():
    for n, p in ((5, 0.3), (50, 1 / 9), (400, 0.5)):
        k = np.arange(1, n + 1)
        weights = binom.pmf(k, n, p)
        assert field_protocols.mean_reciprocal(n, p) == pytest.approx(np.sum(weights / k) / weights.sum(), rel=1e-12)
