"""Labels of laws that are drawn without an automaton: accuracies that the samplers' rounding leaves, from their own numbers."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from optrr_solvers import BallLaw, BlockLaw, CountLaw, InvalidInput, ProductLaw
from optrr_solvers.laws import ball_sampler, few_changes, totals
from optrr_solvers.laws.ball import MixedBall
from optrr_solvers.laws.ball_sampler import BallTable, most_gain
from optrr_solvers.laws.base import Law
from optrr_solvers.laws.excess import ExcessTable, accuracies_drawn
from optrr_solvers.laws.totals import word_ends
from optrr_solvers.laws.weighted_ball import soft
from tests import naive

# What a law's own accuracies, sums of doubles, may be off by.
DOUBLES = 1e-10


def shares(table: ExcessTable, cells: int) -> list[Fraction]:
    """Exact chance of every cell, and last of the uniform answer."""
    ends = [0, *map(int, table._cumulative)]
    out = [Fraction(0)] * cells
    for cell, low, high in zip(table._cells.tolist(), ends, ends[1:], strict=False):
        out[cell] = Fraction(high - low, 1 << 64)
    return [*out, 1 - sum(out)]


def branches(parts: list[float]) -> list[Fraction]:
    """Exact chances of "kept", "changed by a", "changed by a + 1": 64 bits, the largest takes what rounding leaves."""
    weights = np.array(parts)
    chances = weights / weights.sum()
    largest = int(np.argmax(weights))
    out = [
        Fraction(0) if k == largest else Fraction(int(np.floor(c * 2.0**64)), 1 << 64) for k, c in enumerate(chances)
    ]
    out[largest] = 1 - sum(out)
    return out


def ball_flips(table: BallTable, m: int) -> list[Fraction]:
    """Exact chance that each attribute changes in a draw from one ball, over all walks back from the total."""
    ends = [0, *map(int, word_ends(table._final))]
    states = {
        int(x): Fraction(high - low, ends[-1]) for x, low, high in zip(table._totals, ends, ends[1:], strict=False)
    }
    flips, steps = [Fraction(0)] * m, table._steps
    for i, before in zip(table._blocks[0][::-1].tolist(), table._whole[-2::-1], strict=True):
        a, reached = int(steps.floors[i]), {}
        for x, mass in states.items():
            if mass:
                at = [float(before.at(np.array([x - moved]))[0]) for moved in (0, a, a + 1)]
                weights = [at[0] * steps.kept[i], at[1] * steps.low[i], at[2] * steps.high[i]]
                for moved, chance in zip((0, a, a + 1), branches(weights), strict=True):
                    reached[x - moved] = reached.get(x - moved, 0) + mass * chance
                flips[i] += mass * (1 - branches(weights)[0])
        states = reached
    return flips


def epsilon_of(flip: Fraction, r: int) -> mp.mpf:
    return naive.log_of((r - 1) * (1 - flip) / flip)


def random_ball(rng: np.random.Generator) -> BallLaw:
    m = int(rng.integers(2, 9))
    sizes = np.exp(rng.uniform(np.log(2), rng.choice([2.0, 13.0]), m)).astype(int)
    floors = rng.integers(1, 100, m)
    ball = soft(
        floors, rng.random(m) * (rng.random() < 0.5), rng.uniform(5, 0.8 * floors.sum() + 5), rng.choice([0.5, 3])
    )
    return BallLaw(sizes, [[i] for i in range(m)], [MixedBall(1.0, ball)], float(rng.uniform(1, 100)))


def test_no_ball_is_less_accurate_than_labelled():
    rng, high = np.random.default_rng(5), 0
    for law in (random_ball(rng) for _ in range(12)):
        sampler, m = law._sampler, law.m
        chances = shares(sampler._choice, 1)
        inside = ball_flips(sampler._table(0), m)
        labels, least = (
            accuracies_drawn(law.one_way(), law.sizes, gain) for gain in (sampler._choice.gain, most_gain(m))
        )
        for i, r in enumerate(law.sizes.tolist()):
            flip = chances[0] * inside[i] + chances[1] * Fraction(r - 1, r)
            drawn = epsilon_of(flip, r)
            slack = DOUBLES * (1 + abs(float(drawn)))
            assert least[i] <= labels[i] + slack
            assert labels[i] <= drawn + slack
            # nor is the label lower than it has to be: twice the sampler's own gain makes it
            assert epsilon_of(flip + Fraction(2 * sampler._choice.gain), r) <= labels[i] + slack
            high += law.attribute_epsilons()[i] > drawn + 1e-6
    # where attributes keep 20 nats and more, the law's own accuracies are not drawn
    assert high


def without_automaton(law: Law) -> Law:
    law.__dict__["automaton"] = None
    return law


def test_many_alike_attributes_are_as_accurate_as_labelled():
    m, r, epsilon = 6, 3, 30.0
    law = without_automaton(CountLaw(np.full(m, r), [range(m)], epsilon * np.minimum(1, m - np.arange(m + 1.0))))
    chances = shares(law._excess, m + 1)
    flip = sum(p * Fraction(k, m) for k, p in enumerate(chances[:-1])) + chances[-1] * Fraction(r - 1, r)
    drawn = float(epsilon_of(flip, r))
    np.testing.assert_array_less(law.labels.attribute, drawn + DOUBLES)
    np.testing.assert_allclose(law.labels.attribute, drawn, atol=1)
    law = without_automaton(few_changes.FewChangesLaw(np.full(m, r), 60.0, np.zeros(m)))
    chances = shares(law._excess, m + 1)
    drawn = float(epsilon_of(chances[-1] * Fraction(r - 1, r), r))
    np.testing.assert_array_less(law.labels.attribute, drawn + DOUBLES)
    np.testing.assert_allclose(law.labels.attribute, drawn, atol=2)
    assert np.all(law.attribute_epsilons() > drawn + 5)


def test_blocks_have_the_labels_they_are_drawn_with():
    product = ProductLaw(np.array([2, 3]), np.array([0.3, 40.0]))
    count = without_automaton(CountLaw(np.full(2, 2), [range(2)], np.array([40.0, 0.0, 0.0])))
    law = without_automaton(BlockLaw([((0, 2), product), ((1, 3), count)]))
    np.testing.assert_array_equal(law.labels.attribute[[0, 2]], product.labels.attribute)
    np.testing.assert_array_equal(law.labels.attribute[[1, 3]], count.labels.attribute)
    np.testing.assert_array_equal(law.labels.conditional[[1, 3]], count.labels.conditional)
    assert law.labels.epsilon >= product.labels.epsilon + count.labels.epsilon


def test_long_rows_with_far_totals_are_summed_right(monkeypatch):
    x = np.arange(30_000.0)
    near = np.exp(-((x - 300) ** 2) / 200)
    # a few heavy attributes: totals hundreds of standard deviations away, where the tilts' exponentials underflow
    row = (near + 1e-11 * np.exp(-((x - 25_000) ** 2) / 200)) / near.sum()
    values, bound = totals._by_tilts(row, row)
    exact = np.convolve(row, row)
    assert np.all(np.isfinite(values))
    assert np.all(np.abs(values - exact) <= bound + 1e-14 * exact)
    monkeypatch.setattr(totals, "_DIRECT", 0)
    node = totals._sum(totals.TotalsRow(0, row, 0.0), totals.TotalsRow(0, row, 0.0), 60_000)
    assert 0 < node.error <= 1e-10
    # what was dropped is counted
    kept = float(node.row.values.sum())
    assert kept <= exact.sum() * (1 + 1e-10) and kept + node.row.lost >= exact.sum() * (1 - 1e-10)


def test_a_ball_that_the_sampler_cannot_draw_as_labelled_is_refused(monkeypatch):
    law = random_ball(np.random.default_rng(1))
    monkeypatch.setattr(ball_sampler, "_GAIN", 1e-18)
    with pytest.raises(InvalidInput, match="smaller or more equal epsilons"):
        law._sampler  # noqa: B018 (made when it is asked for)
