"""The Fourier sum of a ball against adding up its totals one by one, for profiles of every shape."""

import numpy as np
import pytest

from optrr_solvers.laws.spectrum import GridTooFine, Spectrum
from optrr_solvers.laws.weighted_ball import WeightedBall


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
                Spectrum(ball, sizes, counts.astype(float))
            continue
        spectrum = Spectrum(ball, sizes, counts.astype(float))
        assert np.exp(spectrum.log_mass) == pytest.approx(mass, rel=1e-9)
        np.testing.assert_allclose(spectrum.changed(), changed / mass, rtol=0, atol=1e-9)


def test_a_profile_whose_knots_reach_far_below_its_mass_keeps_its_digits():
    """A hundred attributes: the last of the ball's totals hold it, and the knots begin at 0."""
    counts, sizes = np.full(7, 14), np.arange(2, 9)
    floors = np.array([40, 45, 50, 55, 60, 65, 70])
    end = int(0.7 * (counts @ floors))
    ball = WeightedBall(floors, np.zeros(7), [0, end - 1, end], [1.0, 1.0, 0.0])
    mass, changed = _masses(ball, sizes, counts)
    spectrum = Spectrum(ball, sizes, counts.astype(float))
    assert spectrum.log_mass == pytest.approx(np.log(mass), abs=1e-9)
    np.testing.assert_allclose(spectrum.changed(), changed / mass, rtol=0, atol=1e-9)
