"""BallLaw against sums over all change sets and all roundings, and its sampler against the law."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from optrr_solvers.laws import ball as ball_module
from optrr_solvers.laws import ball_sampler
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.ball_sampler import BallTable
from optrr_solvers.laws.spectrum import Spectrum
from optrr_solvers.laws.weighted_ball import WeightedBall, sharp, soft
from optrr_solvers.randomness import SeededSource

SIZES = np.array([2, 3, 3, 4, 5, 2])
CLASSES = [np.array([0]), np.array([2, 1]), np.array([3]), np.array([4]), np.array([5])]
FLOORS, FRACTIONS = np.array([11, 17, 23, 9, 4]), np.array([0.3, 0.0, 0.9, 0.25, 0.5])


def source(seed=7):
    return SeededSource(np.random.default_rng(seed))


def shell():
    return WeightedBall(
        FLOORS[::-1].copy(), FRACTIONS[::-1].copy(), np.array([5, 12, 30, 40]), np.array([0.2, 1.0, 0.4, 0])
    )


LAWS = {
    "sharp": [MixedBall(1.0, sharp(FLOORS, FRACTIONS, 40))],
    "soft": [MixedBall(1.0, soft(FLOORS, FRACTIONS, 38.4, 3.0))],
    "whole": [MixedBall(1.0, soft(FLOORS, np.zeros(5), 38.4, 3.0))],
    "mixed": [MixedBall(0.4, sharp(FLOORS, FRACTIONS, 25)), MixedBall(0.5, shell())],
    "nothing-changes": [MixedBall(1.0, sharp(FLOORS + 1, FRACTIONS, 1))],
}


def make(name, log_ratio=3.0):
    return BallLaw(SIZES, CLASSES, LAWS[name], log_ratio)


def degree(law, s):
    """t_S by the law of the total over all roundings, one attribute at a time."""
    out = 0.0
    for x in law.balls:
        totals = {0: 1.0}
        for i in np.flatnonzero(s):
            g = int(law.class_of[i])
            a, b = int(x.ball.floors[g]), float(x.ball.fractions[g])
            new = {}
            for total, p in totals.items():
                new[total + a] = new.get(total + a, 0.0) + p * (1 - b)
                new[total + a + 1] = new.get(total + a + 1, 0.0) + p * b
            totals = new
        out += x.share * sum(p * np.interp(k, x.ball.knots, x.ball.levels) for k, p in totals.items())
    return out


def reference(law):
    """Probability and density of every change set."""
    sets = list(itertools.product((0, 1), repeat=law.m))
    q = np.array([1 + np.expm1(law.log_ratio) * degree(law, s) for s in sets])
    mu = np.array([np.prod([1 - 1 / r if c else 1 / r for r, c in zip(law.sizes, s, strict=True)]) for s in sets])
    nu = q * mu / (q @ mu)
    return nu.reshape((2,) * law.m), q.reshape((2,) * law.m)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("log_ratio", [0.0, 0.5, 3.0, 30.0])
def test_law_is_the_sum_over_all_change_sets(name, log_ratio):
    law = make(name, log_ratio)
    nu, q = reference(law)
    np.testing.assert_allclose(law.marginal(range(6)), nu, rtol=0, atol=1e-14)
    for subset in ((2,), (4, 1), (1, 2), (5, 0, 3)):
        moved = np.moveaxis(nu, subset, range(len(subset))).reshape(*(2,) * len(subset), -1).sum(axis=-1)
        np.testing.assert_allclose(law.marginal(subset), moved, rtol=0, atol=1e-14)
    changed = np.array([np.take(nu, 1, axis=i).sum() for i in range(6)])
    np.testing.assert_allclose(law.one_way()[:, 1], changed, rtol=1e-10, atol=1e-14)
    pairs = law.pair_eigenvalues()
    for i, j in itertools.combinations(range(6), 2):
        assert pairs[i, j] == pytest.approx(law.eigenvalues((i, j))[1, 1], abs=1e-13)
    low, high = law.log_density_range()
    assert low <= np.log(q.min()) + 1e-15 and np.log(q.max()) - 1e-12 <= high
    steps = np.array([np.abs(np.diff(np.log(q), axis=i)).max() for i in range(6)])
    assert np.all(law.conditional_epsilons() >= steps - 1e-12)
    assert np.all(law.conditional_epsilons() <= law.epsilon)


def test_whole_weights_are_counted_and_give_the_exact_conditional_epsilon():
    law = make("whole")
    assert law.counted is not None
    _, q = reference(law)
    steps = np.array([np.abs(np.diff(np.log(q), axis=i)).max() for i in range(6)])
    np.testing.assert_allclose(law.conditional_epsilons(), steps, rtol=1e-12)


def test_fourier_sums_agree_with_counting(monkeypatch):
    counted = make("whole")
    monkeypatch.setattr(ball_module, "MAX_COUNTED", 0)
    spectral = make("whole")
    assert spectral.counted is None
    table = spectral.marginal(range(6))
    monkeypatch.undo()
    assert counted.counted is not None
    np.testing.assert_allclose(table, counted.marginal(range(6)), atol=1e-14)


@pytest.mark.parametrize("name", LAWS)
def test_sampling_tables_hold_the_mass_of_the_transform(name):
    """Two independent algorithms: dynamic program and Fourier sum."""
    law = make(name)
    for x in law.balls:
        table = BallTable(x.ball, law.sizes, law.class_of)
        spectrum = Spectrum(x.ball, law.class_sizes, law.counts.astype(float))
        assert table.log_mass == pytest.approx(spectrum.log_mass, abs=1e-11)
        assert 0 < table.error < 1e-11


@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_the_law(name):
    """χ² over all 64 change sets, 200,000 draws; false alarm 1e-4 for each of five laws with a fixed seed."""
    law = make(name)
    nu, _ = reference(law)
    n = 200_000
    codes = law.sample(n, source()) @ (1 << np.arange(5, -1, -1))
    expected = n * nu.ravel()
    keep = expected > 5
    observed = np.bincount(codes, minlength=64)
    statistic = ((observed - expected) ** 2 / expected)[keep].sum()
    assert chi2.sf(statistic, keep.sum() - 1) > 1e-4
    assert observed[~keep].sum() <= expected[~keep].sum() + 5 * np.sqrt(expected[~keep].sum()) + 5


def test_samples_from_checkpoints_are_those_from_the_whole_table(monkeypatch):
    rng = np.random.default_rng(3)
    sizes, m = rng.integers(2, 7, 40), 40
    ball = soft(rng.integers(20, 60, m), rng.random(m), 350.0, 5.0)
    whole = BallTable(ball, sizes, np.arange(m))
    monkeypatch.setattr(ball_sampler, "_MEMORY", 1 << 13)
    blocks = BallTable(ball, sizes, np.arange(m))
    assert blocks._block > 1
    np.testing.assert_array_equal(whole.draw(500, source()), blocks.draw(500, source()))


def test_a_sampled_change_set_is_never_likelier_than_the_label_allows():
    """The sampler's own thresholds, followed exactly: e_k β̂(S)/(α̂ μ_S) ≤ Q − 1 for every change set, in rationals."""
    law = BallLaw(
        SIZES[:3],
        [np.array([0]), np.array([1]), np.array([2])],
        [MixedBall(1.0, sharp(np.array([3, 4, 5]), np.zeros(3), 8))],
        2.0,
    )
    sampler = law._sampler
    share = Fraction(int(sampler._choice._cumulative[-1]), 1 << 64)
    table = sampler._table(0)
    assert table._block == 1
    probabilities = {}

    def follow(i, state, p, s):
        if i < 0:
            probabilities[tuple(s)] = probabilities.get(tuple(s), 0) + p
            return
        before = table._checkpoints[i]
        at = [float(before.at(np.array([state - d]))[0]) for d in (0, int(table._steps.floors[i]))]
        kept, changed = at[0] * table._steps.kept[i], at[1] * table._steps.low[i]
        small = min(kept, changed) / (kept + changed)
        cut = Fraction(int(small * 2.0**64), 1 << 64)
        for bit, mass in ((0, kept), (1, changed)):
            prob = cut if (mass == min(kept, changed) and kept != changed) else 1 - cut
            if mass > 0:
                new = list(s)
                new[table._order[i]] = bit
                follow(i - 1, state - bit * int(table._steps.floors[i]), p * prob, new)

    final = [Fraction(float(x)) for x in table._final]
    for k, mass in enumerate(final):
        if mass:
            follow(2, table._last.start + k, mass / sum(final), [0, 0, 0])
    top = Fraction(np.exp(2.0)) - 1
    for s, p in probabilities.items():
        mu = np.prod(
            [Fraction(int(r) - 1, int(r)) if c else Fraction(1, int(r)) for r, c in zip(SIZES[:3], s, strict=True)]
        )
        assert share * p <= (1 - share) * mu * top * (1 + Fraction(1, 10**15))
        assert share * p >= (1 - share) * mu * top * (1 - Fraction(1, 10**9))


def plain(ball):
    return [x.tolist() for x in (ball.floors, ball.fractions, ball.knots, ball.levels)]


def test_a_law_is_rebuilt_from_its_plain_numbers():
    law = make("mixed")
    balls = [MixedBall(float(x.share), WeightedBall(*plain(x.ball))) for x in law.balls]
    again = BallLaw(law.sizes, law.classes, balls, law.log_ratio)
    np.testing.assert_array_equal(again.marginal(range(6)), law.marginal(range(6)))
    np.testing.assert_array_equal(again.sample(100, source()), law.sample(100, source()))


@pytest.mark.parametrize(
    "change",
    [
        {"floors": [-1]}, {"floors": [1 << 53]}, {"fractions": [1.0]}, {"fractions": [0.1, 0.2]}, {"knots": [3, 3]},
        {"knots": [1]}, {"levels": [1.0, 0.5]}, {"levels": [1.5, 0.0]}, {"levels": [float("nan"), 0.0]},
    ],
)  # fmt: skip
def test_bad_balls_are_refused(change):
    good = {"floors": [3], "fractions": [0.5], "knots": [1, 2], "levels": [1.0, 0.0]}
    with pytest.raises(ValueError):
        WeightedBall(**(good | change))


def test_bad_laws_are_refused():
    ball = LAWS["sharp"][0].ball
    for arguments in (
        (SIZES, CLASSES[:-1], LAWS["sharp"], 1.0), (SIZES, [np.arange(6)], LAWS["sharp"], 1.0), (SIZES, CLASSES, [], 1.0),
        (SIZES, CLASSES, [MixedBall(1.1, ball)], 1.0), (SIZES, CLASSES, [MixedBall(0.0, ball)], 1.0),
        (SIZES, CLASSES, LAWS["sharp"], -1.0), (SIZES, CLASSES, LAWS["sharp"], float("inf")),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            BallLaw(*arguments)
