"""The search for ends of intervals, one and many at once, against ends that are known and scipy's solvers."""

from itertools import islice
from math import copysign, inf, nan

import numpy as np
import pytest
from scipy.optimize import brentq

from optrr.core.estimation.score_interval import invert, inverted, outward


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_points_go_on_with_growing_steps_and_end_at_the_end(side: float) -> None:
    points = list(outward(1.0, side * 0.5, 2.0, 1.0 + side * 10))
    assert points == [1.0, *(1 + side * x for x in (0.5, 1.5, 3.5, 7.5, 10.0))]
    assert list(outward(3.0, side, 1.5, 3.0)) == [3.0]
    steps = np.diff(list(islice(outward(0.0, side, 1.5, side * inf), 20)))
    np.testing.assert_allclose(steps, side * 1.5 ** np.arange(19))


@pytest.mark.parametrize("seed", range(40))
def test_the_end_is_where_a_function_turns_negative(seed: int) -> None:
    """Functions that fall from the start on, however steeply, and fall on or stay behind the end."""
    rng = np.random.default_rng(seed)
    start, side = rng.normal(scale=10), copysign(1.0, rng.normal())
    distance, step, steepness = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)

    def function(x: float) -> float:
        return float(np.arctan(steepness * (distance - side * (x - start))))

    for growth in (1.5, 1.6, 2.0):
        precision = 1e-6 * distance / step
        ends = [
            invert(function, start, side * step, start + side * share * distance, growth=growth, precision=precision)
            for share in (2, 0.9)
        ]
        assert ends[0] == pytest.approx(start + side * distance, abs=2e-6 * distance)
        assert ends[1] == side * inf


def test_it_is_the_first_of_several_places_that_points_enclose_and_no_value_is_computed_twice() -> None:
    computed: list[float] = []

    def function(x: float) -> float:
        computed.append(x)
        return float(np.cos(x))

    assert invert(function, 0.0, 0.5, 100.0, precision=2e-9) == pytest.approx(np.pi / 2, abs=1e-8)
    assert len(set(computed)) == len(computed)


def test_where_there_is_no_end_it_is_infinite() -> None:
    assert invert(lambda x: 1.0, 0.0, 1.0, 50.0) == inf
    assert invert(lambda x: 1.0, 0.0, -1.0, -50.0) == -inf
    assert invert(lambda x: nan if x > 3 else 1.0, 0.0, 1.0, inf) == inf
    assert invert(lambda x: nan if 5 < x < 6 else 5.5 - x, 0.0, 10.0, inf) == inf
    assert invert(lambda x: -1.0, 2.0, 1.0, 2.0) == inf
    assert invert(lambda x: -1.0, 2.0, -1.0, 2.0) == -inf


def test_a_function_that_is_negative_from_the_start_ends_there() -> None:
    assert invert(lambda x: -1.0 - x, 2.0, 1.0, 50.0) == 2.0


RNG = np.random.default_rng(5)
ROOTS, STEEP = RNG.uniform(-3, 7, 300), 10.0 ** RNG.uniform(-3, 3, 300)
LOW, HIGH = ROOTS - 10.0 ** RNG.uniform(-4, 2, 300), ROOTS + 10.0 ** RNG.uniform(-4, 2, 300)
SHAPES = {
    "straight": lambda d, s: s * d,
    "bent": lambda d, s: np.expm1(np.minimum(s * d, 300.0)),
    "flat at the root": lambda d, s: s * np.sign(d) * np.abs(d) ** 1.5,
    "step": lambda d, s: np.where(d < 0, -s, 1.0),
    "falling": lambda d, s: -np.arctan(s * d),
    "clipped": lambda d, s: np.clip(1e6 * s * d, -700, 700),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", [1e-4, 1e-10])
@pytest.mark.parametrize("from_below", [True, False])
def test_brackets_are_short_and_hold_the_root(shape, precision, from_below):
    sign = -1.0 if (shape == "falling") != from_below else 1.0
    near, far = (LOW, HIGH) if from_below else (HIGH, LOW)
    evaluated = np.zeros(ROOTS.size, dtype=int)

    def functions(x, at):
        evaluated[at] += 1
        return sign * SHAPES[shape](x - ROOTS[at], STEEP[at])

    nearer, farther = inverted(functions, near, far, precision)
    assert np.all(np.abs(nearer - near) <= np.abs(farther - near))
    low, high = np.sort([nearer, farther], axis=0)
    everything = np.arange(ROOTS.size)
    signs = np.sign(functions(low, everything)) * np.sign(functions(high, everything))
    assert np.all(signs <= 0) and np.all(low <= high)
    # a few units in the last place, where a shape cannot tell points that near to the root from it
    slack = 4 * np.spacing(np.abs(ROOTS))
    assert np.all(low - slack <= ROOTS) and np.all(high + slack >= ROOTS)
    assert np.all(high - low <= precision + slack)
    halvings = np.log2((HIGH - LOW) / precision)
    assert np.all(evaluated <= 2.5 * np.maximum(halvings, 1) + 10)
    for k in range(0, ROOTS.size, 50):
        one = brentq(lambda x, k=k: float(SHAPES[shape](x - ROOTS[k], STEEP[k])), LOW[k], HIGH[k], xtol=1e-13)
        assert low[k] - 1e-12 <= one <= high[k] + 1e-12


def test_many_functions_end_at_the_far_point_or_the_near_one_where_they_do_not_turn():
    at_far = {"never negative": (1.0, 2.0, 2.0), "nowhere to go": (-1.0, 1.0, 1.0), "never positive": (-1.0, 2.0, 1.0)}
    values, far, ends = map(np.array, zip(*at_far.values(), strict=True))
    brackets = inverted(lambda x, at: values[at], np.ones(3), far, 1e-9)
    np.testing.assert_array_equal(brackets, [ends, ends])
