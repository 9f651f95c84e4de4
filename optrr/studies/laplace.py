"""Distortion matrices of additive noise, and how well a report can be read back, as RVL compare them.

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

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import WRITTEN_SUM, DistortionMatrix, check_family, from_fractions
from optrr_solvers.arrays import FloatArray

Enclosure = tuple[Fraction, Fraction]

_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
# An exponent up to 1e3 in size is off by at most 1e-57 after rounding to 60 digits; e^x then by 1e-57 relatively.
_RELATIVE = Fraction(1, 10**55)
_LARGEST = 1000


# the entries of a matrix of t categories need only 2t different exponents, each many times
@lru_cache(maxsize=1 << 14)
def exp_enclosure(exponent: Fraction) -> Enclosure:
    """Enclose e^exponent between rationals of relative width 2e-55.

    Exponents have an absolute value of at most 1000.
    """
    if abs(exponent) > _LARGEST:
        raise OverflowError(f"exponent {float(exponent):g} is outside ±{_LARGEST}")
    if not exponent:
        return Fraction(1), Fraction(1)
    rounded = _CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    middle = Fraction(_CONTEXT.exp(rounded))
    return middle * (1 - _RELATIVE), middle * (1 + _RELATIVE)


def minus(a: Enclosure, b: Enclosure) -> Enclosure:
    """Enclose a − b."""
    return a[0] - b[1], a[1] - b[0]


def half(a: Enclosure) -> Enclosure:
    """Enclose a/2."""
    return a[0] / 2, a[1] / 2


def laplace(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> DistortionMatrix:
    """Build the Laplace matrix at ε nats (RVL eq. 21).

    Cut points c_u ∈ [u, u+1], u = 1..t−1, are midpoints by default.

    Its ``epsilon`` is that of the post-processed matrix as drawn: below ε for midpoints; for other cuts at most ε, up to the
    rounding of its label.
    """
    rows = laplace_enclosure(size, epsilon, cuts)
    return from_fractions([[(low + high) / 2 for low, high in row] for row in rows])


def laplace_enclosure(size: int, epsilon: float, cuts: Sequence[float] | None = None) -> list[list[Enclosure]]:
    """Enclose every entry P[v, u] of the Laplace matrix.

    Rationals are 1e-55 apart; t rows of t intervals.
    """
    check_family(size, epsilon)
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
    """Build two-sided geometric noise on 1..t, clamped to the ends.

    Total ε nats, ε/(t−1) between neighbors.
    """
    check_family(size, epsilon)
    rate = Fraction(epsilon) / (size - 1)
    power = [sum(exp_enclosure(-rate * k), Fraction(0)) / 2 for k in range(size)]
    alpha = power[1]
    inside = [(1 - alpha) / (1 + alpha) if 0 < v < size - 1 else 1 / (1 + alpha) for v in range(size)]
    return from_fractions([[inside[v] * power[abs(u - v)] for v in range(size)] for u in range(size)])


def _distribution(distance: Fraction, rate: Fraction) -> Enclosure:
    """Enclose the distribution function of noise of scale 1/rate."""
    tail = half(exp_enclosure(-abs(distance) * rate))
    return tail if distance <= 0 else minus((Fraction(1), Fraction(1)), tail)


def _between(points: list[Fraction], u: int, v: int, rate: Fraction, below: list[Enclosure]) -> Enclosure:
    """Enclose Pr(c_{u−1} < noisy value ≤ c_u).

    If both cuts lie above v, the difference of upper tails avoids cancellation.
    """
    if u > v and u > 1:
        low = half(exp_enclosure(-(points[u - 2] - v) * rate))
        high = half(exp_enclosure(-(points[u - 1] - v) * rate)) if u <= len(points) else (Fraction(0), Fraction(0))
        return minus(low, high)
    return minus(below[u], below[u - 1])


def posterior(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """Compute posterior probabilities Pr(x = v | y = u), shape (r, r), rows u.

    An output that never occurs keeps the prior.
    """
    pi = _checked_prior(matrix, prior)
    joint = matrix.probabilities.T * pi
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, joint / np.where(total > 0, total, 1), pi))


def reconstruction_probability(matrix: DistortionMatrix, prior: ArrayLike) -> FloatArray:
    """Compute RVL eq. 14 per true category v, shape (r,)."""
    return np.asarray(np.einsum("vu,uv->v", matrix.probabilities, posterior(matrix, prior)))


def reconstruction_squared_error(
    matrix: DistortionMatrix, prior: ArrayLike, values: ArrayLike | None = None
) -> FloatArray:
    """Compute E(x̂ − x)² per true category, shape (r,) (RVL eq. 12).

    Categories have the values ``values``, by default 1..r.
    """
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
