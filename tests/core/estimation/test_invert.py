"""The search for ends of intervals, against ends that are known."""

from itertools import islice
from math import copysign, inf, nan

import numpy as np
import pytest

from optrr.core.estimation.score_interval import invert, outward


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
