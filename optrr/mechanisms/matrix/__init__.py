"""General single-attribute matrices: randomized response, Laplace with post-processing, geometric, and any other."""

from optrr.mechanisms.matrix.distortion import (
    DistortionMatrix,
    from_probabilities,
    laplace,
    laplace_enclosure,
    laplace_epsilon,
    optimal_cuts,
    posterior,
    randomized_response,
    reconstruction_error,
    reconstruction_probability,
    reconstruction_squared_error,
    truncated_geometric,
)
from optrr.mechanisms.matrix.mechanism import MatrixMechanism

__all__ = [
    "DistortionMatrix",
    "MatrixMechanism",
    "from_probabilities",
    "laplace",
    "laplace_enclosure",
    "laplace_epsilon",
    "optimal_cuts",
    "posterior",
    "randomized_response",
    "reconstruction_error",
    "reconstruction_probability",
    "reconstruction_squared_error",
    "truncated_geometric",
]
