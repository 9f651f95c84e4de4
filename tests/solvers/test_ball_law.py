"""BallLaw against sums over all change sets and all roundings; its sampler and its Fourier sums."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from optrr_solvers.laws import ball_sampler, weighted_ball
from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.ball_sampler import BallTable
from optrr_solvers.laws.totals import _by_tilts, word_ends
from optrr_solvers.laws.weighted_ball import GridTooFine, SpectralBall, WeightedBall, soft
from optrr_solvers.randomness import SeededSource
from tests import naive

SIZES = np.array([2, 3, 3, 4, 5, 2])
CLASSES = [np.array([0]), np.array([2, 1]), np.array([3]), np.array([4]), np.array([5])]
FLOORS, FRACTIONS = np.array([11, 17, 23, 9, 4]), np.array([0.3, 0.0, 0.9, 0.25, 0.5])


def source(seed=7):
    return SeededSource(np.random.default_rng(seed))


def sharp(floors, fractions, radius):
    """Totals below the radius inside, the others outside."""
    return WeightedBall(floors, fractions, np.array([radius - 1, radius]), np.array([1.0, 0.0]))


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


def test_whole_weights_are_counted_and_agree_with_fourier_sums(monkeypatch):
    """Counted sums also give the exact conditional ε."""
    counted = make("whole")
    assert counted.counted is not None
    steps = np.array([np.abs(np.diff(np.log(reference(counted)[1]), axis=i)).max() for i in range(6)])
    np.testing.assert_allclose(counted.conditional_epsilons(), steps, rtol=1e-12)
    monkeypatch.setattr(weighted_ball, "MAX_COUNTED", 0)
    spectral = make("whole")
    assert spectral.counted is None
    np.testing.assert_allclose(spectral.marginal(range(6)), counted.marginal(range(6)), atol=1e-14)


@pytest.mark.parametrize("name", LAWS)
def test_sampling_tables_hold_the_mass_of_the_transform(name):
    """Two independent algorithms: dynamic program and Fourier sum."""
    law = make(name)
    for x in law.balls:
        table = BallTable(x.ball, law.sizes, law.class_of)
        spectrum = SpectralBall(x.ball, law.class_sizes, law.counts.astype(float))
        assert table.log_mass == pytest.approx(spectrum.log_mass, abs=1e-11)
        assert 0 < table.error < 1e-11


@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_the_law(name):
    """200,000 draws of 64 change sets; false alarm 1e-4 for each of five laws with a fixed seed."""
    law = make(name)
    assert naive.changes_p_value(law.sample(200_000, source()), reference(law)[0]) > 1e-4


@pytest.mark.slow
def test_blocks_follow_the_law_too(monkeypatch):
    """Two and four blocks; false alarm 1e-4 for each of ten with a fixed seed."""
    for memory, count in ((1 << 10, 2), (1, 4)):
        monkeypatch.setattr(ball_sampler, "_MEMORY", memory)
        for name in LAWS:
            law = make(name)
            ball = law.balls[0].ball
            table = BallTable(ball, law.sizes, law.class_of)
            assert name == "nothing-changes" or len(table._blocks) >= count
            inside = reference(BallLaw(SIZES, CLASSES, [MixedBall(1.0, ball)], 30.0))[0]
            assert naive.changes_p_value(table.draw(20_000, source(3)), inside) > 1e-4
            assert table.log_mass == pytest.approx(law.inside[0].log_mass, abs=1e-11)


@pytest.mark.slow
def test_blocks_of_many_attributes_follow_the_law(monkeypatch):
    """Flips and pairs of 40 attributes from 16 blocks: no |z| of 820 above 5, false alarm 5e-4, fixed seed."""
    rng = np.random.default_rng(3)
    sizes, m = rng.integers(2, 7, 40), 40
    ball = soft(rng.integers(20, 60, m), rng.random(m), 350.0, 5.0)
    law = BallLaw(sizes, [np.array([i]) for i in range(m)], [MixedBall(1.0, ball)], 1.0)
    monkeypatch.setattr(ball_sampler, "_MEMORY", 1 << 11)
    table = BallTable(ball, sizes, np.arange(m))
    assert len(table._blocks) >= 16
    assert table.log_mass == pytest.approx(law.inside[0].log_mass, abs=1e-11)
    n = 20_000
    changed = table.draw(n, source()).astype(float)
    both = law.inside[0].both_changed()
    np.fill_diagonal(both, law.inside[0].changed)
    upper = np.triu_indices(m)
    expected, observed = both[upper], (changed.T @ changed / n)[upper]
    assert np.abs((observed - expected) / np.sqrt(expected * (1 - expected) / n)).max() < 5


def word_shares(masses):
    """The chance of each cell, from the words that the sampler compares with."""
    words = [int(x) for x in np.diff(word_ends(masses), prepend=np.uint64(0))]
    return [Fraction(x, sum(words)) for x in words]


def halves(level, totals, chance):
    """Every way to split these totals between the nodes of the next level, with its chance."""
    ways = [((), chance)]
    for left, right, total in zip(level[::2], level[1::2], totals, strict=True):
        lefts = left.start + np.arange(left.values.size)
        chances = word_shares(left.values * right.at(total - lefts))
        split = [(int(x), c) for x, c in zip(lefts, chances, strict=True) if c]
        ways = [((*done, x, total - x), p * c) for done, p in ways for x, c in split]
    return ways


def block_totals(table, total, chance):
    """The blocks' totals with their chances, by the tree's own rows from the top level down."""
    ways = [((total,), chance)]
    for level in table._tree._levels if len(table._blocks) > 1 else []:
        ways = [way for totals, p in ways for way in halves(level, totals, p)]
    return ways


def branches(table, i, before, total):
    """Kept (0) and changed (1) with the total left and the chance: the sampler rounds the rarer branch down to a word."""
    step = int(table._steps.floors[i])
    kept, changed = (
        float(before.at(np.array([total - x]))[0]) * float(weight)
        for x, weight in ((0, table._steps.kept[i]), (step, table._steps.low[i]))
    )
    rarer = min(kept, changed)
    cut = Fraction(int(rarer / (kept + changed) * 2.0**64), 1 << 64)
    for bit, mass in ((0, kept), (1, changed)):
        if mass > 0:
            yield bit, total - bit * step, cut if mass == rarer and kept != changed else 1 - cut


def block_changes(table, block, total):
    """Every way in which the block's attributes change, with its chance, given the block's total."""
    ways = [({}, total, Fraction(1))]
    for i, before in zip(block[::-1].tolist(), list(table._rows(block))[-2::-1], strict=True):
        ways = [
            (changes | {i: bit}, left, p * chance)
            for changes, rest, p in ways
            for bit, left, chance in branches(table, i, before, rest)
        ]
    return [(changes, p) for changes, _, p in ways]


def drawn_from(table):
    """Exact chance of every change set that the table's sampler draws, by following all of its thresholds."""
    drawn = {}
    for total, chance in zip(table._totals.tolist(), word_shares(table._final), strict=True):
        for totals, p in block_totals(table, total, chance) if chance else ():
            blocks = [block_changes(table, b, t) for b, t in zip(table._blocks, totals, strict=True)]
            for parts in itertools.product(*blocks):
                changed = {i: bit for changes, _ in parts for i, bit in changes.items()}
                key = tuple(changed[i] for i in range(len(changed)))
                drawn[key] = drawn.get(key, 0) + p * np.prod([q for _, q in parts])
    return drawn


@pytest.mark.parametrize("memory", [1 << 28, 1])
def test_a_sampled_change_set_is_never_likelier_than_the_label_allows(monkeypatch, memory):
    """The sampler's own thresholds, followed exactly: e_k β̂(S)/(α̂ μ_S) ≤ Q − 1 for every change set, in rationals."""
    monkeypatch.setattr(ball_sampler, "_MEMORY", memory)
    classes = [np.array([i]) for i in range(4)]
    law = BallLaw(SIZES[:4], classes, [MixedBall(1.0, sharp(np.array([3, 4, 5, 2]), np.zeros(4), 8))], 2.0)
    sampler = law._sampler
    share = Fraction(int(sampler._choice._cumulative[-1]), 1 << 64)
    table = sampler._table(0)
    assert len(table._blocks) == (1 if memory > 1 else 4)
    probabilities = drawn_from(table)
    assert sum(probabilities.values()) == 1
    top = Fraction(np.exp(2.0)) - 1
    for changes, p in probabilities.items():
        sizes = zip(SIZES[:4].tolist(), changes, strict=True)
        mu = np.prod([Fraction(r - 1, r) if changed else Fraction(1, r) for r, changed in sizes])
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


def test_tilted_transforms_are_accurate_in_both_tails():
    """Against direct sums of nonnegative numbers, cell by cell, over 50 orders of magnitude."""
    rng = np.random.default_rng(2)
    k = np.arange(6000)
    a, b = (np.exp(-(((k - c) / s) ** 2) / 2) * rng.uniform(0.5, 1, k.size) for c, s in ((2500, 400.0), (3100, 430.0)))
    values, bound = _by_tilts(a / a.sum(), b / b.sum())
    exact = np.convolve(a / a.sum(), b / b.sum())
    assert np.all(np.abs(values - exact) <= bound + 1e-12 * exact)
    middle = np.abs(np.arange(exact.size) - 5600) < 8 * 587
    assert np.all((bound / exact)[middle] < 1e-9)
    assert exact[middle].min() < 1e-13 * exact.max()


@pytest.mark.parametrize("alike", [1, 4])
def test_shells_are_drawn_from_the_densities_of_their_change_sets(alike):
    # one by one, with weights that are rounded at random; and counted, with whole weights
    rng = np.random.default_rng(alike)
    classes = np.array_split(np.arange(8), 8 // alike)
    sizes = np.repeat(rng.integers(2, 6, len(classes)), alike)
    balls = []
    for share in (0.3, 0.6):
        fractions = rng.random(len(classes)) * (alike == 1)
        levels = np.append(rng.random(6), 0.0)
        ball = WeightedBall(rng.integers(1, 6, len(classes)), fractions, np.arange(0, 35, 5), levels)
        balls.append(MixedBall(share, ball))
    law = BallLaw(sizes, classes, balls, 2.5)
    drawn = naive.drawn_probabilities(law.automaton.layers)
    sets = naive.change_sets(8)
    expected = np.array([1 + np.expm1(2.5) * degree(law, np.array(s)) for s in sets])
    expected *= [np.prod(np.where(s, sizes - 1, 1.0)) for s in np.array(sets)]
    np.testing.assert_allclose([float(drawn[s]) for s in sets], expected / expected.sum(), rtol=1e-12)
    truth = naive.ExactTruth(sizes.tolist(), drawn)
    assert 0 <= law.automaton.truth.epsilon - float(naive.log_of(truth.total)) <= 1e-12


def _masses(ball, sizes, counts):
    """E_μ[t] and Pr(one member of each class changed, inside): the law of the total, attribute by attribute."""

    def law(left_out):
        out = np.ones(1)
        for g, n in enumerate(counts):
            a, b, d = int(ball.floors[g]), ball.fractions[g], 1 - 1 / sizes[g]
            step = np.zeros(a + 2)
            step[a] += d * (1 - b)
            step[a + 1] += d * b
            changed = step.copy()
            step[0] += 1 - d
            for k in range(n):
                out = np.convolve(out, changed if (g == left_out and k == 0) else step)
        return float(out @ ball.profile(np.arange(out.size)))

    return law(None), np.array([law(g) for g in range(len(counts))])


def _ball(rng, shape, classes, counts):
    floors = rng.integers(0, 60, classes)
    fractions = rng.random(classes) * (rng.random() < 0.5)
    most = int(counts @ (floors + 1))
    if shape == "narrow":
        low = int(rng.random() * most / 2) + 1
        return WeightedBall(floors, fractions, [low, low + int(rng.integers(1, 40))], [1.0, 0.0])
    inner = rng.integers(0, most + 2, 6)
    knots = np.unique(np.append(inner, 0) if shape == "shells" else inner)
    knots = np.append(knots, knots[-1] + 1)
    levels = (rng.random(knots.size) < 0.5) * 1.0 if shape == "shells" else rng.random(knots.size)
    levels[-1] = 0
    return WeightedBall(floors, fractions, knots, levels)


@pytest.mark.parametrize("shape", ["narrow", "levels", "shells"])
def test_any_profile_has_the_mass_and_the_flips_of_its_totals(shape):
    rng = np.random.default_rng(3)
    for _ in range(40):
        classes = int(rng.integers(1, 6))
        sizes, counts = rng.integers(2, 11, classes), rng.integers(1, 9, classes)
        ball = _ball(rng, shape, classes, counts)
        mass, changed = _masses(ball, sizes, counts)
        if mass == 0:
            with pytest.raises(GridTooFine):
                SpectralBall(ball, sizes, counts.astype(float))
            continue
        spectrum = SpectralBall(ball, sizes, counts.astype(float))
        assert np.exp(spectrum.log_mass) == pytest.approx(mass, rel=1e-9)
        np.testing.assert_allclose(spectrum.changed, changed / mass, rtol=0, atol=1e-9)


def test_a_profile_whose_knots_reach_far_below_its_mass_keeps_its_digits():
    """A hundred attributes: the last of the ball's totals hold it, and the knots begin at 0."""
    counts, sizes = np.full(7, 14), np.arange(2, 9)
    floors = np.array([40, 45, 50, 55, 60, 65, 70])
    end = int(0.7 * (counts @ floors))
    ball = WeightedBall(floors, np.zeros(7), [0, end - 1, end], [1.0, 1.0, 0.0])
    mass, changed = _masses(ball, sizes, counts)
    spectrum = SpectralBall(ball, sizes, counts.astype(float))
    assert spectrum.log_mass == pytest.approx(np.log(mass), abs=1e-9)
    np.testing.assert_allclose(spectrum.changed, changed / mass, rtol=0, atol=1e-9)
