"""Additive noise as matrices against mpmath, interval arithmetic and enumeration; reconstruction against Bayes' rule."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.matrix import from_probabilities, randomized_response
from optrr.studies.laplace import (
    exp_enclosure,
    laplace,
    laplace_enclosure,
    posterior,
    reconstruction_probability,
    reconstruction_squared_error,
    truncated_geometric,
)

SIZES = (2, 3, 6, 11)
EPSILONS = (0.05, 0.5, 1.0, 3.0, 8.0)


def laplace_reference(size: int, epsilon: float, cuts: list[float]) -> np.ndarray:
    """Eq. 21 by mpmath's integration of the noise density, no distribution function."""
    scale = mpmath.mpf(size - 1) / mpmath.mpf(epsilon)

    def mass(low: float, high: float, v: int) -> float:
        def density(x):
            return mpmath.exp(-abs(x - v) / scale) / (2 * scale)

        points = sorted({low, high, *([v] if low < v < high else [])})
        return float(mpmath.quad(density, points))

    edges = [-mpmath.inf, *cuts, mpmath.inf]
    return np.array([[mass(edges[u], edges[u + 1], v) for u in range(size)] for v in range(1, size + 1)])


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_laplace_is_equation_21_also_at_other_cuts(size, epsilon):
    for shift in (0.5, 0.2, 1.0):
        cuts = [u + shift for u in range(1, size)]
        matrix = laplace(size, epsilon, cuts)
        np.testing.assert_allclose(matrix.probabilities, laplace_reference(size, epsilon, cuts), atol=1e-12)
    midpoints = [u + 0.5 for u in range(1, size)]
    np.testing.assert_array_equal(laplace(size, epsilon).weights, laplace(size, epsilon, midpoints).weights)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", [1e-3, *EPSILONS])
def test_laplace_satisfies_its_epsilon_in_interval_arithmetic(size, epsilon):
    enclosure = laplace_enclosure(size, epsilon)
    for row in enclosure:
        assert sum(low for low, _ in row) <= 1 <= sum(high for _, high in row)
    ceiling = exp_enclosure(Fraction(epsilon))[0]
    for column in zip(*enclosure, strict=True):
        assert max(high for _, high in column) <= ceiling * min(low for low, _ in column)
    h = mpmath.mpf(epsilon) / (2 * (size - 1))
    exact = mpmath.mpf(epsilon) + mpmath.log(1 - (1 - mpmath.exp(-h)) ** 2)
    assert laplace(size, epsilon).epsilon == pytest.approx(float(exact), rel=1e-9)


def test_a_cut_at_a_category_spends_all_of_epsilon_and_no_more():
    for cuts in ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [1.0, 2.5, 4.0]):
        assert laplace(4, 1.5, cuts).epsilon == pytest.approx(1.5, rel=1e-14)
    assert laplace(4, 1.5, [1.25, 2.5, 3.75]).epsilon < 1.5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_truncated_geometric_is_clamped_two_sided_geometric_noise(size, epsilon):
    alpha = math.exp(-epsilon / (size - 1))
    reach = int(60 / -math.log(alpha)) + size
    noise = np.arange(-reach, reach + 1)
    mass = (1 - alpha) / (1 + alpha) * alpha ** np.abs(noise).astype(float)
    expected = np.zeros((size, size))
    for u in range(size):
        np.add.at(expected[u], np.clip(u + noise, 0, size - 1), mass)
    matrix = truncated_geometric(size, epsilon)
    np.testing.assert_allclose(matrix.probabilities, expected, atol=1e-13)
    assert matrix.epsilon == pytest.approx(epsilon, rel=1e-9)


def test_reconstruction_is_bayes_rule_by_enumeration():
    prior = np.array([0.5, 0.2, 0.3])
    for matrix in (randomized_response(3, 1.0), laplace(3, 2.0)):
        p = matrix.probabilities
        for v in range(3):
            right = squared = 0.0
            for u in range(3):
                evidence = sum(prior[w] * p[w, u] for w in range(3))
                for w in range(3):
                    chance = p[v, u] * prior[w] * p[w, u] / evidence
                    right += chance * (w == v)
                    squared += chance * (w - v) ** 2
            assert reconstruction_probability(matrix, prior)[v] == pytest.approx(right, rel=1e-13)
            assert reconstruction_squared_error(matrix, prior)[v] == pytest.approx(squared, rel=1e-13)


def test_posterior_of_an_output_that_never_occurs_is_the_prior():
    matrix = from_probabilities([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    np.testing.assert_allclose(posterior(matrix, [1.0, 0.0, 0.0])[2], [1.0, 0.0, 0.0])
    with pytest.raises(InvalidInput, match="prior for 3"):
        posterior(matrix, [0.5, 0.5])
    with pytest.raises(InvalidInput, match="values of shape"):
        reconstruction_squared_error(matrix, [0.5, 0.25, 0.25], values=[1.0, 2.0])
