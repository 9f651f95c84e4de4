"""Sign changes of many functions at once, against scipy's solvers for one and for many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, elementwise

from optrr.tables.estimation.crossings import crossings

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
@pytest.mark.parametrize(("absolute", "relative"), [(1e-4, 0.0), (1e-12, 0.0), (1e-9, 1e-4)])
def test_brackets_are_short_and_hold_the_root(shape, absolute, relative):
    evaluated = np.zeros(ROOTS.size, dtype=int)

    def functions(x, at):
        evaluated[at] += 1
        return SHAPES[shape](x - ROOTS[at], STEEP[at])

    low, high = crossings(functions, LOW, HIGH, absolute, relative)
    everything = np.arange(ROOTS.size)
    signs = np.sign(functions(low, everything)) * np.sign(functions(high, everything))
    assert np.all(signs <= 0) and np.all(low <= high)
    # a few units in the last place, where a shape cannot tell points that near to the root from it
    slack = 4 * np.spacing(np.abs(ROOTS))
    assert np.all(low - slack <= ROOTS) and np.all(high + slack >= ROOTS)
    assert np.all(high - low <= absolute + relative * np.maximum(np.abs(low), np.abs(high)) + slack)
    halvings = np.log2((HIGH - LOW) / absolute)
    assert np.all(evaluated <= 2.5 * np.maximum(halvings, 1) + 6)
    for k in range(0, ROOTS.size, 50):
        one = brentq(lambda x, k=k: float(SHAPES[shape](x - ROOTS[k], STEEP[k])), LOW[k], HIGH[k], xtol=1e-13)
        assert low[k] - 1e-12 <= one <= high[k] + 1e-12


def test_it_takes_as_many_steps_as_scipy_s():
    def mean_calls(solve):
        calls = []
        solve(lambda x, at: (calls.append(np.size(x)), SHAPES["bent"](x - ROOTS[at], STEEP[at]))[1])
        return sum(calls) / ROOTS.size

    ours = mean_calls(lambda f: crossings(f, LOW, HIGH, 1e-9, 0.0))
    tolerances = {"xatol": 1e-9, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}
    at = np.arange(ROOTS.size)
    theirs = mean_calls(
        lambda f: elementwise.find_root(
            lambda x, k: f(x, k.astype(int)), (LOW, HIGH), args=(at,), tolerances=tolerances
        )
    )
    assert ours <= 1.1 * theirs
