"""The nearest point at which a quadratic function is 0, against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from optrr.tables.estimation.statistics import Expansion
from optrr.tables.measures.quantities import signed_distance


def searched(equation: Expansion, covariance: np.ndarray, rng: np.random.Generator) -> float:
    """The smallest distance that sequential quadratic programming reaches from many starts."""
    root = np.linalg.cholesky(covariance)

    def at(z: np.ndarray) -> float:
        x = root @ z
        return float(equation.value + equation.gradient @ x + x @ equation.hessian @ x / 2)

    tried = [
        minimize(lambda z: z @ z, start, jac=lambda z: 2 * z, method="SLSQP", constraints={"type": "eq", "fun": at})
        for start in rng.normal(size=(12, len(covariance))) * 2
    ]
    return float(np.sqrt(min(done.fun for done in tried if done.success and abs(at(done.x)) < 1e-6)))


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_smallest_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    hessian = rng.normal(size=(size, size))
    hessian = hessian + hessian.T
    hessian[0, 0] = -4.0  # so that it is 0 somewhere
    half = rng.normal(size=(size, size))
    equation = Expansion(float(rng.uniform(0.5, 3)), rng.normal(size=size), hessian)
    covariance = half @ half.T + 0.1 * np.eye(size)
    assert signed_distance(equation, covariance) == pytest.approx(searched(equation, covariance, rng), rel=1e-4)


@pytest.mark.parametrize(
    ("value", "gradient", "hessian", "covariance", "distance"),
    [
        # a linear function: in standard errors
        (-2.0, [1.0, -3.0], np.zeros((2, 2)), [[2.0, 0.5], [0.5, 1.0]], -2 / np.sqrt(8)),
        # the sum of both is known: what has no noise is not moved along
        (3.0, [2.0, 0.0], np.zeros((2, 2)), [[1.0, -1.0], [-1.0, 1.0]], 1.5),
        # 1 − x²/2 at x = 0 has no slope; it is 0 at both roots of 2
        (1.0, [0.0], [[-1.0]], [[1.0]], np.sqrt(2)),
        # never 0, and 0 already
        (1.0, [0.0, 0.0], np.eye(2), np.eye(2), np.inf),
        (0.0, [1.0, 1.0], np.eye(2), np.eye(2), 0.0),
    ],
)
def test_known_distances(value, gradient, hessian, covariance, distance) -> None:
    equation = Expansion(value, np.array(gradient), np.array(hessian))
    assert signed_distance(equation, np.array(covariance)) == pytest.approx(distance)
