"""Distortion matrices of one attribute, held as the whole numbers they are drawn with (RVL §4.1, Results 1 and 3).

:class:`MatrixMechanism` randomizes each attribute by its own matrix (RVL §5.1, eqs. 22 and 23): the record's matrix is
their Kronecker product, its ε their sum.

P[u, v] = Pr(output v | input u), rows sum to 1 (RVL writes the transpose). The mechanism is ε-locally private for

    ε = ln max_v ( max_u P[u, v] / min_u P[u, v] ),                                              (RVL Result 3)

one column of P at a time. A sampler compares uniform words with thresholds, so what runs is a matrix of multiples of
2^-63. It is that matrix which is stored, whose ε is computed in exact rationals and rounded up, and which estimation
inverts: nothing is lost between the formula and the draw. A positive entry is at least 2^-63, so ε ends at 43.67.

Randomized response (RVL eqs. 8, 19): e^ε/(t−1+e^ε) on the diagonal, 1/(t−1+e^ε) elsewhere. Among all ε-private
matrices it has the largest trace (Results 1 and 3).
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.display.text import sum_of_epsilons
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import WRITTEN_SUM, Kernel, MatrixKernel, ProductKernel
from optrr.core.mechanisms.mechanism import Randomizer
from optrr.core.provenance.accounting import checked_epsilon
from optrr.core.provenance.provenance import digest_of
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import exp_bounds, log_ceiling
from optrr_solvers.randomness import BitSource

__all__ = [
    "DistortionMatrix",
    "MatrixMechanism",
    "check_family",
    "from_fractions",
    "from_probabilities",
    "randomized_response",
]


Weights = NDArray[np.uint64]

# Probabilities are multiples of 2^-63, so that even the weight of a certain answer fits in 64 bits.
SCALE = 1 << 63
# r² exact fractions: a million take about two seconds.
MAX_CATEGORIES = 1000


@dataclass(frozen=True, eq=False)
class DistortionMatrix:
    """A row-stochastic matrix of integer weights.

    ``weights[u, v]`` / 2^63 is the probability of output v for input u.

    Make one with :func:`from_probabilities`, or with the functions of :mod:`optrr.core.mechanisms.matrix`.
    """

    weights: Weights

    @property
    def size(self) -> int:
        """r, the number of categories."""
        return int(self.weights.shape[0])

    @cached_property
    def probabilities(self) -> FloatArray:
        """P, shape (r, r), rows sum to 1."""
        out = self.weights.astype(np.float64) / SCALE
        out.setflags(write=False)
        return out

    @cached_property
    def epsilon(self) -> float:
        """Total ε of the rounded matrix, in nats, exact and rounded up (Result 3).

        Infinite if some output excludes an input.
        """
        largest, smallest = self.weights.max(axis=0), self.weights.min(axis=0)
        used = largest > 0
        if not smallest[used].all():
            return math.inf
        pairs = zip(largest[used].tolist(), smallest[used].tolist(), strict=True)
        return log_ceiling(max(Fraction(high, low) for high, low in pairs))

    @property
    def trace(self) -> float:
        """Σ_v P[v, v], which RVL maximizes.

        trace/r is the probability of a true report over uniformly distributed records.
        """
        return float(np.trace(self.probabilities))

    @cached_property
    def attribute_epsilon(self) -> float:
        """Attribute ε of the randomized response that is as often true (POR eq. 2).

        0 if the report is less often true than a uniform one.
        """
        excess = (self.size - 1) * self.trace / max(self.size - self.trace, 1 / SCALE)
        return max(0.0, math.log(excess)) if excess > 0 else 0.0

    def kernel(self, name: str = "the attribute") -> MatrixKernel:
        """Build the kernel: `solve` is RVL eq. 17, `covariance` eq. 18."""
        return MatrixKernel(self.probabilities, (self.size,), (name,))

    @cached_property
    def _thresholds(self) -> Weights:
        """Cumulative weights of every row but the last entry, shape (r, r−1)."""
        return np.cumsum(self.weights[:, :-1], axis=1, dtype=np.uint64)

    def sample(self, codes: NDArray[np.integer], source: BitSource) -> IntArray:
        """Draw outputs for inputs 0..r−1, shape (n,).

        O(n r) time, 24 bytes per record.
        """
        words = source.words(codes.size) >> np.uint64(1)
        out = np.empty(codes.size, dtype=np.int64)
        for u in range(self.size):
            rows = np.flatnonzero(codes == u)
            out[rows] = np.searchsorted(self._thresholds[u], words[rows], side="right")
        return out


def from_probabilities(probabilities: Any) -> DistortionMatrix:
    """Build from P[u, v] = Pr(output v | input u), shape (r, r), r from 2 to 1000.

    Rows are rescaled to sum to 1 exactly and rounded to multiples of 2^-63; a positive entry stays positive. Entries of 0
    are allowed and make ε infinite.

    Raises InvalidInput for a matrix that is not square, holds anything but numbers from 0 to 1, whose rows do not sum to 1
    within 1e-6, or that is singular.
    """
    p = _checked(probabilities)
    rows = [[Fraction(x) for x in row] for row in p.tolist()]
    totals = [sum(row, Fraction(0)) for row in rows]
    made = from_fractions([[x / t for x in row] for row, t in zip(rows, totals, strict=True)])
    made.kernel().check_invertible()
    return made


def from_fractions(rows: list[list[Fraction]]) -> DistortionMatrix:
    """Round probabilities to multiples of 2^-63.

    The largest entry of each row takes the remainder; rows must sum to about 1.
    """
    return DistortionMatrix(np.array([_weights(row) for row in rows], dtype=np.uint64))


def _weights(row: list[Fraction]) -> list[int]:
    # rounding up makes small entries larger, which lowers the ratios
    out = [math.ceil(x * SCALE) for x in row]
    out[out.index(max(out))] += SCALE - sum(out)
    return out


def _checked(probabilities: Any) -> FloatArray:
    try:
        p = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "a distortion matrix must contain numbers, one row for each category; give such a matrix"
        ) from None
    if p.ndim != 2 or p.shape[0] != p.shape[1]:
        raise InvalidInput(f"a distortion matrix is square, got shape {p.shape}; give one row and column per category")
    if not 2 <= p.shape[0] <= MAX_CATEGORIES:
        raise InvalidInput(f"a distortion matrix has 2 to {MAX_CATEGORIES} categories, got {p.shape[0]}")
    if not ((p >= 0) & (p <= 1)).all():
        u, v = np.argwhere(~((p >= 0) & (p <= 1)))[0]
        raise InvalidInput(f"entry ({u}, {v}) of the distortion matrix is {p[u, v]}; probabilities lie between 0 and 1")
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() > WRITTEN_SUM:
        u = int(off.argmax())
        hint = "; its columns do sum to 1: transpose it" if np.abs(p.sum(axis=0) - 1).max() <= WRITTEN_SUM else ""
        raise InvalidInput(f"row {u} of the distortion matrix sums to {p[u].sum():.6g}; rows must sum to 1{hint}")
    return p


def randomized_response(size: int, epsilon: float) -> DistortionMatrix:
    """Build randomized response at ε nats (RVL eq. 19).

    The matrix's exact ε is at most the one given, up to the rounding of its stated ε.
    """
    check_family(size, epsilon)
    # rounding the other categories up keeps the ratio at or below e^ε
    other = math.ceil(SCALE / (size - 1 + exp_bounds(epsilon)[0]))
    weights = np.full((size, size), other, dtype=np.uint64)
    np.fill_diagonal(weights, SCALE - (size - 1) * other)
    return DistortionMatrix(weights)


def check_family(size: int, epsilon: float) -> None:
    """Raise InvalidInput for an invalid number of categories or ε."""
    if not (isinstance(size, int | np.integer) and 2 <= size <= MAX_CATEGORIES):
        raise InvalidInput(f"size = {size!r}; a distortion matrix has 2 to {MAX_CATEGORIES} categories")
    checked_epsilon(epsilon)


@dataclass(frozen=True, eq=False)
class MatrixMechanism(Randomizer):
    """Mechanism that randomizes attribute i independently by ``matrices[i]``.

    Raises InvalidInput if the matrices do not fit the domain.

    Examples
    --------
    >>> import numpy as np, optrr
    >>> from optrr.core.mechanisms.matrix import from_probabilities
    >>> flip = from_probabilities(np.array([[0.8, 0.2], [0.2, 0.8]]))
    >>> mechanism = optrr.MatrixMechanism(optrr.Domain.of({"sex": ["F", "M"]}), (flip,))
    >>> round(mechanism.epsilon, 4)
    1.3863
    """

    domain: Domain
    matrices: tuple[DistortionMatrix, ...]
    mechanism_name = "transition matrices"

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrices", tuple(self.matrices))
        sizes = [m.size for m in self.matrices]
        if sizes != self.domain.sizes.tolist():
            raise InvalidInput(
                f"matrices of sizes {sizes} for attributes of sizes {self.domain.sizes.tolist()}; "
                "give one matrix for each attribute, in the domain's order"
            )

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, the sum over attributes, rounded up."""
        return sum_of_epsilons(m.epsilon for m in self.matrices)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """Attribute ε of the randomized response that is as often true, in nats, (m,).

        Over uniformly distributed records. A Laplace matrix spreads its errors unevenly, so estimates from it are worse
        than this ε_i suggests.
        """
        return np.array([m.attribute_epsilon for m in self.matrices])

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε in nats, shape (m,), rounded up; each matrix's own ε.

        Attributes are randomized independently.
        """
        return np.array([m.epsilon for m in self.matrices])

    @cached_property
    def digest(self) -> str:
        """Digest of the domain and the matrices' integers."""
        weights = [hashlib.sha256(m.weights.astype("<u8").tobytes()).hexdigest() for m in self.matrices]
        return digest_of(self.domain, {"matrices": weights})

    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """Build the kernel on these attributes, in this order."""
        parts = [self.matrices[i].kernel(self.domain.names[i]) for i in self.domain.indices(names)]
        return parts[0] if len(parts) == 1 else ProductKernel(parts)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes in place, shape (n, m)."""
        for i, matrix in enumerate(self.matrices):
            codes[:, i] = matrix.sample(codes[:, i], source)
