"""The search outwards for an end of an interval, against ends that are known."""

from __future__ import annotations

from itertools import islice
from math import copysign, inf, nan

import numpy as np
import pytest

from optrr.tables.estimation.outward import crossing, outward


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
        points = outward(start, side * step, growth, start + side * 2 * distance)
        assert crossing(function, points, 1e-6 * distance) == pytest.approx(
            start + side * distance, abs=2e-6 * distance
        )
        assert crossing(function, outward(start, side * step, growth, start + side * 0.9 * distance), 1e-6) is None


def test_it_is_the_first_of_several_places_that_points_enclose_and_no_value_is_computed_twice() -> None:
    computed: list[float] = []

    def function(x: float) -> float:
        computed.append(x)
        return float(np.cos(x))

    assert crossing(function, outward(0.0, 0.5, 1.5, 100.0), 1e-9) == pytest.approx(np.pi / 2, abs=1e-8)
    assert len(set(computed)) == len(computed)


def test_where_there_is_no_end_nothing_is_said_of_one() -> None:
    assert crossing(lambda x: 1.0, outward(0.0, 1.0, 2.0, 50.0), 1e-9) is None
    assert crossing(lambda x: nan if x > 3 else 1.0, outward(0.0, 1.0, 2.0, inf), 1e-9) is None
    assert crossing(lambda x: -1.0, outward(2.0, 1.0, 2.0, 2.0), 1e-9) is None


def test_a_function_that_is_negative_from_the_start_ends_there() -> None:
    assert crossing(lambda x: -1.0 - x, outward(2.0, 1.0, 2.0, 50.0), 1e-9) == 2.0
