"""The field's protocols against enumeration of every output, and against simulations."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.mechanisms.supports import drawn_epsilon
from optrr.tables.estimation.accuracy import expected_squared_error
from optrr.ways import baselines
from optrr_solvers.laws import ProductLaw
from optrr_solvers.randomness import threshold

SIZES = (2, 3, 4)
PRIORS = ([0.7, 0.3], [0.2, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4])
EPSILON = 1.3


def protocols() -> dict[str, baselines.FieldProtocol]:
    return {
        "spl grr": baselines.split(SIZES, EPSILON, "grr"),
        "spl oue": baselines.split(SIZES, EPSILON, "oue"),
        "spl best": baselines.split(SIZES, 6.0),
        "smp grr": baselines.sample(SIZES, EPSILON, "grr"),
        "smp oue": baselines.sample(SIZES, EPSILON, "oue"),
        "rsfd grr": baselines.fake_data(SIZES, EPSILON, "grr"),
        "rsfd oue-z": baselines.fake_data(SIZES, EPSILON, "oue", fakes="zero"),
        "rsfd oue-r": baselines.fake_data(SIZES, EPSILON, "oue"),
        "rsrfd grr": baselines.fake_data(SIZES, EPSILON, "grr", fakes=PRIORS),
        "rsrfd oue": baselines.fake_data(SIZES, EPSILON, "oue", fakes=PRIORS),
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


def record_epsilon(protocol: baselines.FieldProtocol) -> float:
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
        p, q = baselines.support_probabilities(oracle, size, epsilon)
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
        baselines.split([3, 2], min(epsilon * 2, 50.0)),
        baselines.sample([3, 2], epsilon),
        baselines.fake_data([3, 2], epsilon),
    ):
        assert protocol.epsilon >= max(
            drawn_epsilon(o, int(r), protocol.answer_epsilon)
            for o, r in zip(protocol.oracles, protocol.sizes, strict=True)
        )


def test_published_accounting_of_fake_data_understates_the_record():
    protocol = baselines.fake_data(SIZES, EPSILON, "grr", accounting="published")
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
    estimates = np.array([np.concatenate(baselines.collect(protocol, codes, rng).estimate()) for _ in range(runs)])
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
    protocol, n, runs = baselines.split((3, 4), 4.0, oracle), 400, 2000
    rng = np.random.default_rng(21)
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    estimates = []
    for _ in range(runs):
        cells = rng.choice(12, size=n, p=joint.ravel())
        estimates.append(baselines.collect(protocol, np.column_stack([cells // 4, cells % 4]), rng).estimate_pair(0, 1))
    expected = baselines.pair_variance(protocol, 0, 1, joint, n)
    assert np.all(np.abs(np.mean(estimates, axis=0) - joint) < 4.5 * np.sqrt(expected / runs))
    assert np.var(estimates, axis=0, ddof=1).sum() == pytest.approx(expected.sum(), rel=0.08)


def test_splitting_with_randomized_response_is_kronecker():
    """The same mechanism, through the effect kernels: exact errors of one-way and two-way tables."""
    n, rng = 1000, np.random.default_rng(3)
    mechanism = Mechanism(Domain.of({"a": 3, "b": 4}), ProductLaw(np.array([3, 4]), np.array([0.7, 0.7])))
    protocol = baselines.split((3, 4), 1.4, "grr")
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    assert protocol.epsilon == pytest.approx(mechanism.epsilon, rel=1e-12)
    margins = [joint.sum(axis=1), joint.sum(axis=0)]
    drawn, fixed = protocol.variance(margins, n), protocol.data_variance(margins, n)
    for i, name in enumerate("ab"):
        kernel = mechanism.kernel(name)
        assert drawn[i].sum() == pytest.approx(expected_squared_error(kernel, n, margins[i]), rel=1e-12)
        assert fixed[i].sum() == pytest.approx(expected_squared_error(kernel, n, target="data"), rel=1e-12)
    both = mechanism.kernel(("a", "b"))
    assert baselines.pair_variance(protocol, 0, 1, joint, n).sum() == pytest.approx(
        expected_squared_error(both, n, joint), rel=1e-12
    )


def test_pairs_that_cannot_be_estimated_say_why():
    codes = np.zeros((50, 3), dtype=int)
    with pytest.raises(InvalidInput, match="sample pairs"):
        baselines.collect(baselines.sample(SIZES, 1.0), codes, 1).estimate_pair(0, 1)
    with pytest.raises(InvalidInput, match="eigenvalue of every pair is 0"):
        baselines.collect(baselines.fake_data(SIZES, 1.0), codes, 1).estimate_pair(0, 1)


def test_best_oracle_follows_wangs_rule():
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        border = 3 * math.exp(epsilon) + 2
        assert baselines.best_oracle(max(2, int(border * 0.8)), epsilon) == "grr"
        assert baselines.best_oracle(int(border * 1.3) + 2, epsilon) == "oue"
    for oracle in ("grr", "oue"):
        p, q = baselines.support_probabilities(oracle, 5, 1.0)
        e = math.e
        assert (p, q) == pytest.approx((0.5, 1 / (e + 1)) if oracle == "oue" else (e / (e + 4), 1 / (e + 4)))


def test_mean_reciprocal_of_a_binomial():
    for n, p in ((5, 0.3), (50, 1 / 9), (400, 0.5)):
        k = np.arange(1, n + 1)
        weights = binom.pmf(k, n, p)
        assert baselines.mean_reciprocal(n, p) == pytest.approx(np.sum(weights / k) / weights.sum(), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: baselines.split(SIZES, 0.0),
        lambda: baselines.sample(SIZES, math.nan),
        lambda: baselines.split([1, 2], 1.0),
        lambda: baselines.split([], 1.0),
        lambda: baselines.split(SIZES, 1.0, "olh"),
        lambda: baselines.fake_data(SIZES, 1.0, "grr", fakes="zero"),
        lambda: baselines.fake_data(SIZES, 1.0, "best"),
        lambda: baselines.fake_data(SIZES, 1.0, accounting="amplified"),
        lambda: baselines.fake_data(SIZES, 1.0, fakes=PRIORS[:2]),
        lambda: baselines.fake_data(SIZES, 1.0, fakes=[[1.0, 0.0], *PRIORS[1:]]),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 2), dtype=int)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), 3)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((0, 3), dtype=int)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), 0.5)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), math.nan)),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.full((5, 3), "0")),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 3), dtype=int)).estimate_pair(1, 1),
        lambda: baselines.collect(baselines.split(SIZES, 1.0), np.zeros((5, 3), dtype=int)).estimate_pair(0, 3),
        lambda: baselines.collect(baselines.sample((2,) * 20, 1.0), np.zeros((3, 20), dtype=int), 1).estimate(),
    ],
)
def test_bad_input_is_refused_on_one_line(make):
    with pytest.raises(InvalidInput) as error:
        make()
    assert "\n" not in str(error.value)
