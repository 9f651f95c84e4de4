"""Distortion matrices of one attribute, held as the whole numbers they are drawn with (RVL §4.1, Results 1 and 3).

:class:`MatrixMechanism` randomizes every attribute by one of its own (RVL §5.1, eqs. 22 and 23): the record's matrix is their
Kronecker product, its ε their sum.

P[u, v] = Pr(output v | input u), rows sum to 1 (RVL writes the transpose). The mechanism is ε-locally private for

    ε = ln max_v ( max_u P[u, v] / min_u P[u, v] ),                                              (RVL Result 3)

one column of P at a time. A sampler compares uniform words with thresholds, so what runs is a matrix of multiples of
2^-63. It is that matrix which is stored, whose ε is computed in exact rationals and rounded up, and which estimation
inverts: nothing is lost between the formula and the draw. A positive entry is at least 2^-63, so ε ends at 43.67.

Randomized response (RVL eqs. 8, 19): e^ε/(t−1+e^ε) on the diagonal, 1/(t−1+e^ε) elsewhere. Among all ε-private
matrices it has the largest trace (Results 1 and 3).

Laplace (eqs. 9–11, 20, 21): categories are the numbers 1..t, the noise has scale b = (t−1)/ε, and the noisy value falls
between cut points c_u ∈ [u, u+1]:

    P[v, u] = F_v(c_u) − F_v(c_{u−1}),   F_v(c) = ½ e^{(c−v)/b} for c ≤ v,  1 − ½ e^{−(c−v)/b} above,  c_0 = −∞, c_t = ∞.

The trace is a sum over cut points, each term concave and largest at c_u = u + ½ (Results 2 and 4). With midpoints and h =
ε/(2(t−1)) the matrix's own ε is ε + ln(1 − (1−e^{−h})²), strictly below ε: post-processing leaves part of ε unused. Entries lie
between rationals, so that its ratio test is a proof: the decimal module's exp is correctly rounded, and the only other error is
that of writing the exponent with 60 digits.

Truncated geometric (Ghosh, Roughgarden & Sundararajan 2009), the discrete counterpart, with α = e^{−ε/(t−1)}:
(1−α)/(1+α) α^|u−v| inside and α^|u−v|/(1+α) at the two ends; its ε is ε.

How well one person's category can be read back from the report (RVL eqs. 5, 12, 14): the reader knows the prior π and answers
x̂ at random from the posterior, so for true category v

    Pr(v → v) = Σ_u P[v, u] Pr(x = v | y = u) = Σ_u P[v, u]² π_v / λ_u,      λ = Pᵀπ,

and RVL's error is 1 − Pr(v → v), or E(x̂ − x)² where categories are numbers. With two categories both are the same.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    "from_probabilities",
    "laplace",
    "laplace_enclosure",
    "posterior",
    "randomized_response",
    "reconstruction_probability",
    "reconstruction_squared_error",
    "truncated_geometric",
]

Enclosure = tuple[Fraction, Fraction]

_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
# An exponent up to 1e3 in size is off by at most 1e-57 after rounding to 60 digits; e^x then by 1e-57 relatively.
_RELATIVE = Fraction(1, 10**55)
_LARGEST = 1000


# the entries of a matrix of t categories need only 2t different exponents, each many times
@lru_cache(maxsize=1 << 14)
def exp_enclosure(exponent: Fraction) -> Enclosure:
    """Rationals around e^exponent, relative width 2e-55, for exponents up to 1000 in size."""
    if abs(exponent) > _LARGEST:
        raise OverflowError(f"exponent {float(exponent):g} is outside ±{_LARGEST}")
    if not exponent:
        return Fraction(1), Fraction(1)
    rounded = _CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    middle = Fraction(_CONTEXT.exp(rounded))
    return middle * (1 - _RELATIVE), middle * (1 + _RELATIVE)


def minus(a: Enclosure, b: Enclosure) -> Enclosure:
    """a − b."""
    return a[0] - b[1], a[1] - b[0]


def half(a: Enclosure) -> Enclosure:
    """a/2."""
    return a[0] / 2, a[1] / 2


Weights = NDArray[np.uint64]

# Probabilities are multiples of 2^-63, so that even the weight of a certain answer fits in 64 bits.
SCALE = 1 << 63
# r² exact fractions: a million take about two seconds.
MAX_CATEGORIES = 1000


@dataclass(frozen=True, eq=False)
class DistortionMatrix:
    """A row-stochastic matrix as weights: ``weights[u, v]`` / 2^63 is the probability of output v for input u.

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
        """Result 3's ε in nats of the matrix as drawn, exact and rounded up; infinite where some output excludes an input."""
        largest, smallest = self.weights.max(axis=0), self.weights.min(axis=0)
        used = largest > 0
        if not smallest[used].all():
            return math.inf
        pairs = zip(largest[used].tolist(), smallest[used].tolist(), strict=True)
        return log_ceiling(max(Fraction(high, low) for high, low in pairs))

    @property
    def trace(self) -> float:
        """Σ_v P[v, v]: what RVL maximises; trace/r is how often the report is true, over uniformly distributed records."""
        return float(np.trace(self.probabilities))

    @cached_property
    def attribute_epsilon(self) -> float:
        """ε of the randomized response that is as often true, in nats (POR eq. 2); 0 where the report is less often true."""
        excess = (self.size - 1) * self.trace / max(self.size - self.trace, 1 / SCALE)
        return max(0.0, math.log(excess)) if excess > 0 else 0.0

    def kernel(self, name: str = "the attribute") -> MatrixKernel:
        """For estimation: `solve` is RVL eq. 17, `covariance` eq. 18."""
        return MatrixKernel(self.probabilities, (self.size,), (name,))

    @cached_property
    def _thresholds(self) -> Weights:
        """Cumulative weights of every row but the last entry, shape (r, r−1)."""
        return np.cumsum(self.weights[:, :-1], axis=1, dtype=np.uint64)

    def sample(self, codes: NDArray[np.integer], source: BitSource) -> IntArray:
        """Outputs for inputs 0..r−1, shape (n,). O(n log r) time, 24 bytes a record."""
        words = source.words(codes.size) >> np.uint64(1)
        out = np.empty(codes.size, dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(self.size + 1))
        for u in range(self.size):
            rows = order[edges[u] : edges[u + 1]]
            out[rows] = np.searchsorted(self._thresholds[u], words[rows], side="right")
        return out


def from_probabilities(probabilities: Any) -> DistortionMatrix:
    """Any matrix P[u, v] = Pr(output v | input u), shape (r, r), r from 2 to 1000.

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
    """Rounded to multiples of 2^-63, the largest entry of each row taking up the rest; rows must sum to about 1."""
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
        raise InvalidInput("a distortion matrix holds numbers, one row for each category; this one does not") from None
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
    """RVL eq. 19 at ε nats; the matrix's exact ε is at most the one given, up to the rounding of its label."""
    _check(size, epsilon)
    # rounding the other categories up keeps the ratio at or below e^ε
    other = math.ceil(SCALE / (size - 1 + exp_bounds(epsilon)[0]))
    weights = np.full((size, size), other, dtype=np.uint64)
    np.fill_diagonal(weights, SCALE - (size - 1) * other)
    return DistortionMatrix(weights)


def laplace(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> DistortionMatrix:
    """RVL eq. 21 at ε nats; cut points c_u ∈ [u, u+1], u = 1..t−1, the midpoints where not given.

    Its ``epsilon`` is that of the post-processed matrix as drawn: below ε for midpoints; for other cuts at most ε, up to the
    rounding of its label.
    """
    rows = laplace_enclosure(size, epsilon, cuts)
    return from_fractions([[(low + high) / 2 for low, high in row] for row in rows])


def laplace_enclosure(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> list[list[Enclosure]]:
    """Every entry P[v, u] of the Laplace matrix between two rationals 1e-55 apart; t rows of t intervals."""
    _check(size, epsilon)
    points = [Fraction(2 * u + 1, 2) for u in range(1, size)]
    if cuts is not None:
        if len(cuts) != size - 1 or not all(u <= c <= u + 1 for u, c in enumerate(cuts, start=1)):
            raise InvalidInput(
                f"cuts = {list(cuts)!r}; give {size - 1} cut points with u ≤ c_u ≤ u+1 for u = 1..{size - 1}"
            )
        points = [Fraction(float(c)) for c in cuts]
    rate = Fraction(epsilon) / (size - 1)
    zero, one = (Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))
    rows = []
    for v in range(1, size + 1):
        below = [zero, *(_distribution(c - v, rate) for c in points), one]
        rows.append([_between(points, u, v, rate, below) for u in range(1, size + 1)])
    return rows


def truncated_geometric(size: int, epsilon: float) -> DistortionMatrix:
    """Two-sided geometric noise on 1..t, clamped to the ends; ε nats in all, ε/(t−1) between neighbours."""
    _check(size, epsilon)
    rate = Fraction(epsilon) / (size - 1)
    power = [sum(exp_enclosure(-rate * k), Fraction(0)) / 2 for k in range(size)]
    alpha = power[1]
    inside = [(1 - alpha) / (1 + alpha) if 0 < v < size - 1 else 1 / (1 + alpha) for v in range(size)]
    return from_fractions([[inside[v] * power[abs(u - v)] for v in range(size)] for u in range(size)])


def _distribution(distance: Fraction, rate: Fraction) -> Enclosure:
    """The distribution function F at a distance above the true value, for noise of scale 1/rate."""
    tail = half(exp_enclosure(-abs(distance) * rate))
    return tail if distance <= 0 else minus((Fraction(1), Fraction(1)), tail)


def _between(points: list[Fraction], u: int, v: int, rate: Fraction, below: list[Enclosure]) -> Enclosure:
    """Pr(c_{u−1} < noisy value ≤ c_u); where both cuts lie above v the upper tails differ without cancellation."""
    if u > v and u > 1:
        low = half(exp_enclosure(-(points[u - 2] - v) * rate))
        high = half(exp_enclosure(-(points[u - 1] - v) * rate)) if u <= len(points) else (Fraction(0), Fraction(0))
        return minus(low, high)
    return minus(below[u], below[u - 1])


def _check(size: int, epsilon: float) -> None:
    if not (isinstance(size, int | np.integer) and 2 <= size <= MAX_CATEGORIES):
        raise InvalidInput(f"size = {size!r}; a distortion matrix has 2 to {MAX_CATEGORIES} categories")
    checked_epsilon(epsilon)


def posterior(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """Pr(x = v | y = u), shape (r, r), rows u; an output that never occurs keeps the prior."""
    pi = _checked_prior(matrix, prior)
    joint = matrix.probabilities.T * pi
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, joint / np.where(total > 0, total, 1), pi))


def reconstruction_probability(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """RVL eq. 14 for every true category v, shape (r,)."""
    return np.asarray(np.einsum("vu,uv->v", matrix.probabilities, posterior(matrix, prior)))


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


def _checked_prior(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    pi = np.asarray(prior, dtype=np.float64)
    if pi.shape != (matrix.size,) or not (pi >= 0).all() or abs(pi.sum() - 1) > WRITTEN_SUM:
        raise InvalidInput(f"a prior for {matrix.size} categories is that many numbers of at least 0 that sum to 1")
    return np.asarray(pi / pi.sum())


@dataclass(frozen=True, eq=False)
class MatrixMechanism(Randomizer):
    """Randomizes records of ``domain``, attribute i by ``matrices[i]``, independently.

    Raises InvalidInput where the matrices do not fit the domain.
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
        """ε_i in nats of the randomized response whose report of attribute i is as often true, shape (m,).

        Over uniformly distributed records. A Laplace matrix spreads its errors unevenly, so estimates from it are worse
        than this ε_i suggests.
        """
        return np.array([m.attribute_epsilon for m in self.matrices])

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """Each matrix's own ε in nats, shape (m,), rounded up: attributes are randomized independently."""
        return np.array([m.epsilon for m in self.matrices])

    @cached_property
    def digest(self) -> str:
        """Of the domain and the matrices' whole numbers."""
        weights = [hashlib.sha256(m.weights.astype("<u8").tobytes()).hexdigest() for m in self.matrices]
        return digest_of(self.domain, {"matrices": weights})

    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """The kernel on these attributes, in this order."""
        parts = [self.matrices[i].kernel(self.domain.names[i]) for i in self.domain.indices(names)]
        return parts[0] if len(parts) == 1 else ProductKernel(parts)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""
        for i, matrix in enumerate(self.matrices):
            codes[:, i] = matrix.sample(codes[:, i], source)
