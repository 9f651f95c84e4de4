"""Published ways of asking, as the benchmarks compare them: privacy and errors against enumeration and simulations."""

import math
from fractions import Fraction
from itertools import combinations, product

import field_protocols
import mpmath
import numpy as np
import public_optimiser
import published
import pytest
from field_protocols import FieldProtocol, drawn_epsilon
from scipy.stats import binom

from optrr.domain.domain import Domain
from optrr.mechanisms.mechanism import Mechanism
from optrr.tables.estimation.accuracy import expected_squared_error
from optrr_solvers.allocating.any_mechanism import error_bound
from optrr_solvers.allocating.mixture import mixture
from optrr_solvers.laws import ProductLaw
from optrr_solvers.randomness import threshold


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


SIZES = (2, 3, 4)
PRIORS = ([0.7, 0.3], [0.2, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4])
EPSILON = 1.3


def protocols() -> dict[str, FieldProtocol]:
    return {
        "spl grr": field_protocols.split(SIZES, EPSILON, "grr"),
        "spl oue": field_protocols.split(SIZES, EPSILON, "oue"),
        "spl best": field_protocols.split(SIZES, 6.0),
        "smp grr": field_protocols.sample(SIZES, EPSILON, "grr"),
        "smp oue": field_protocols.sample(SIZES, EPSILON, "oue"),
        "rsfd grr": field_protocols.fake_data(SIZES, EPSILON, "grr"),
        "rsfd oue-z": field_protocols.fake_data(SIZES, EPSILON, "oue", fakes="zero"),
        "rsfd oue-r": field_protocols.fake_data(SIZES, EPSILON, "oue"),
        "rsrfd grr": field_protocols.fake_data(SIZES, EPSILON, "grr", fakes=PRIORS),
        "rsrfd oue": field_protocols.fake_data(SIZES, EPSILON, "oue", fakes=PRIORS),
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


def fake_law(oracle: str, size: int, epsilon: float, fake) -> dict:
    if fake is None:
        return answer_law(oracle, size, epsilon, None)
    if oracle == "grr":
        return dict(enumerate(fake))
    parts = [answer_law(oracle, size, epsilon, v) for v in range(size)]
    return {y: sum(f * part[y] for f, part in zip(fake, parts, strict=True)) for y in parts[0]}


def record_epsilon(protocol: FieldProtocol) -> float:
    """ln of the largest ratio of report probabilities over all pairs of records, by enumerating everything."""
    sizes, e = protocol.sizes.tolist(), protocol.answer_epsilon
    true = [[answer_law(o, r, e, v) for v in range(r)] for o, r in zip(protocol.oracles, sizes, strict=True)]
    fakes = protocol.fakes
    fake = [fake_law(o, r, e, f) for o, r, f in zip(protocol.oracles, sizes, fakes, strict=True)] if fakes else []
    worst = 1.0
    for y in product(*(t[0] for t in true)):
        chances = []
        for x in product(*(range(r) for r in sizes)):
            own = [true[i][x[i]][y[i]] for i in range(len(sizes))]
            if not fakes:
                chances.append(math.prod(own))
                continue
            others = [fake[i][y[i]] for i in range(len(sizes))]
            mixed = (own[j] * math.prod(others[:j] + others[j + 1 :]) for j in range(len(sizes)))
            chances.append(sum(mixed) / len(sizes))
        worst = max(worst, max(chances) / min(chances))
    return math.log(worst)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("smp")])
def test_epsilon_is_the_whole_records(name):
    protocol = protocols()[name]
    assert record_epsilon(protocol) == pytest.approx(protocol.epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 8.0, 20.0, 45.0])
def test_the_label_is_the_drawn_reports_own(epsilon):
    # the report's law from its thresholds, words counted exactly: GRR moves for t of 2^64 words, OUE sets bits likewise
    for oracle, size in (("grr", 2), ("grr", 7), ("oue", 3)):
        p, q = field_protocols.support_probabilities(oracle, size, epsilon)
        if oracle == "grr":
            moved = Fraction(int(threshold((size - 1) * q)), 2**64)
            exact = (1 - moved) / (moved / (size - 1))
        else:
            one, zero = (Fraction(int(threshold(x)), 2**64) for x in (p, q))
            exact = (one * (1 - zero)) / ((1 - one) * zero)
        with mpmath.workdps(50):
            true = mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator)
        label = drawn_epsilon(oracle, size, epsilon)
        assert true <= label <= true + 1e-14 * max(1, epsilon)
        assert label <= epsilon + 1e-9 * epsilon + 1e-14
    for protocol in (
        field_protocols.split([3, 2], min(epsilon * 2, 50.0)),
        field_protocols.sample([3, 2], epsilon),
        field_protocols.fake_data([3, 2], epsilon),
    ):
        assert protocol.epsilon >= max(
            drawn_epsilon(o, int(r), protocol.answer_epsilon)
            for o, r in zip(protocol.oracles, protocol.sizes, strict=True)
        )


def test_published_accounting_of_fake_data_understates_the_record():
    protocol = field_protocols.fake_data(SIZES, EPSILON, "grr", accounting="published")
    assert math.log1p(math.expm1(protocol.answer_epsilon) / 3) == pytest.approx(EPSILON, rel=1e-12)
    assert record_epsilon(protocol) == pytest.approx(math.log(3 * math.expm1(EPSILON) + 1), rel=1e-12)
    assert protocol.epsilon > 1.5 * EPSILON


@pytest.mark.parametrize("name", NAMES)
def test_supports_by_enumeration(name):
    protocol = protocols()[name]
    for i, size in enumerate(protocol.sizes.tolist()):
        oracle, m = protocol.oracles[i], protocol.m
        a, b = protocol.support(i)
        for v in range(size):
            for w in range(size):
                law = answer_law(oracle, size, protocol.answer_epsilon, w)
                if protocol.fakes:
                    other = fake_law(oracle, size, protocol.answer_epsilon, protocol.fakes[i])
                    law = {y: (law[y] + (m - 1) * other[y]) / m for y in law}
                supported = sum(c for y, c in law.items() if (y == v if oracle == "grr" else y[v]))
                assert supported == pytest.approx((a if v == w else b)[v], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_estimates_are_unbiased_with_the_stated_variance(name):
    """2,000 simulations of 300 fixed people: mean within 4.5 standard errors (false alarm 6e-5 over nine cells), summed
    variance within 8 % (about 3.5 standard errors of a variance from 2,000 runs over three nearly independent attributes).
    """
    protocol, n, runs = protocols()[name], 300, 2000
    rng = np.random.default_rng(NAMES.index(name))
    codes = np.column_stack([rng.integers(0, r, n) ** 2 // r for r in SIZES])
    truth = np.concatenate([np.bincount(codes[:, i], minlength=r) / n for i, r in enumerate(SIZES)])
    estimates = np.array(
        [np.concatenate(field_protocols.collect(protocol, codes, rng).estimate()) for _ in range(runs)]
    )
    per_attribute = np.split(truth, np.cumsum(SIZES)[:-1])
    fixed = np.concatenate(protocol.data_variance(per_attribute, n))
    assert np.all(np.abs(estimates.mean(axis=0) - truth) < 4.5 * np.sqrt(fixed / runs))
    assert estimates.var(axis=0, ddof=1).sum() == pytest.approx(fixed.sum(), rel=0.08)
    drawn = np.concatenate(protocol.variance(per_attribute, n))
    # drawing the people adds the variance of their proportions
    np.testing.assert_allclose(drawn - truth * (1 - truth) / n, fixed, rtol=0.02 if name.startswith("smp") else 1e-10)


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
        estimates.append(
            field_protocols.collect(protocol, np.column_stack([cells // 4, cells % 4]), rng).estimate_pair(0, 1)
        )
    expected = field_protocols.pair_variance(protocol, 0, 1, joint, n)
    assert np.all(np.abs(np.mean(estimates, axis=0) - joint) < 4.5 * np.sqrt(expected / runs))
    assert np.var(estimates, axis=0, ddof=1).sum() == pytest.approx(expected.sum(), rel=0.08)


def test_splitting_with_randomized_response_is_kronecker():
    """The same mechanism, through the effect kernels: exact errors of one-way and two-way tables."""
    n, rng = 1000, np.random.default_rng(3)
    mechanism = Mechanism(Domain.of({"a": 3, "b": 4}), ProductLaw(np.array([3, 4]), np.array([0.7, 0.7])))
    protocol = field_protocols.split((3, 4), 1.4, "grr")
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    assert protocol.epsilon == pytest.approx(mechanism.epsilon, rel=1e-12)
    margins = [joint.sum(axis=1), joint.sum(axis=0)]
    drawn, fixed = protocol.variance(margins, n), protocol.data_variance(margins, n)
    for i, name in enumerate("ab"):
        kernel = mechanism.kernel(name)
        assert drawn[i].sum() == pytest.approx(expected_squared_error(kernel, n, margins[i]), rel=1e-12)
        assert fixed[i].sum() == pytest.approx(expected_squared_error(kernel, n, target="data"), rel=1e-12)
    both = mechanism.kernel(("a", "b"))
    assert field_protocols.pair_variance(protocol, 0, 1, joint, n).sum() == pytest.approx(
        expected_squared_error(both, n, joint), rel=1e-12
    )


def test_best_oracle_follows_wangs_rule():
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        border = 3 * math.exp(epsilon) + 2
        assert field_protocols.best_oracle(max(2, int(border * 0.8)), epsilon) == "grr"
        assert field_protocols.best_oracle(int(border * 1.3) + 2, epsilon) == "oue"
    for oracle in ("grr", "oue"):
        p, q = field_protocols.support_probabilities(oracle, 5, 1.0)
        e = math.e
        assert (p, q) == pytest.approx((0.5, 1 / (e + 1)) if oracle == "oue" else (e / (e + 4), 1 / (e + 4)))


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
