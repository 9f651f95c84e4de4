"""How well one person's category can be read back from the report (RVL eqs. 5, 12, 14).

The reader knows the prior π and answers x̂ at random from the posterior, so for true category v

    Pr(v → v) = Σ_u P[v, u] Pr(x = v | y = u) = Σ_u P[v, u]² π_v / λ_u,      λ = Pᵀπ,

and RVL's error is 1 − Pr(v → v), or E(x̂ − x)² where categories are numbers. With two categories both are the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel.matrices import WRITTEN_SUM
from optrr.mechanisms.matrix.distortion import DistortionMatrix
from optrr_solvers.arrays import FloatArray


def posterior(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """Pr(x = v | y = u), shape (r, r), rows u; an output that never occurs keeps the prior."""
    pi = _checked(matrix, prior)
    joint = matrix.probabilities.T * pi
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, joint / np.where(total > 0, total, 1), pi))


def reconstruction_probability(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """RVL eq. 14 for every true category v, shape (r,)."""
    return np.asarray(np.einsum("vu,uv->v", matrix.probabilities, posterior(matrix, prior)))


def reconstruction_error(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """1 − eq. 14 for every true category, shape (r,): eq. 12 where right counts 0 and wrong counts 1."""
    return np.asarray(1 - reconstruction_probability(matrix, prior))


def reconstruction_squared_error(
    matrix: DistortionMatrix, prior: ArrayLike, values: ArrayLike | None = None
) -> FloatArray:
    """Eq. 12, E(x̂ − x)² for every true category, shape (r,); categories stand for ``values``, 1..r where not given."""
    given = np.arange(1, matrix.size + 1) if values is None else np.asarray(values)
    numbers = given.astype(np.float64)
    if numbers.shape != (matrix.size,):
        raise InvalidInput(f"values of shape {numbers.shape} for {matrix.size} categories; give one number for each")
    read = matrix.probabilities @ posterior(matrix, prior)
    return np.asarray(np.sum(read * (numbers[None, :] - numbers[:, None]) ** 2, axis=1))


def _checked(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    pi = np.asarray(prior, dtype=np.float64)
    if pi.shape != (matrix.size,) or not (pi >= 0).all() or abs(pi.sum() - 1) > WRITTEN_SUM:
        raise InvalidInput(f"a prior for {matrix.size} categories is that many numbers of at least 0 that sum to 1")
    return np.asarray(pi / pi.sum())
