"""The optimum in closed form: one attribute, two attributes (POR §IV-B1), or any number of alike ones (theory §3.3).

One attribute: ordinary randomized response. Two: POR's four cases, written for the excess x − 1 of each density over
that of "both change", so that every term is positive and small ε loses no digits. With a, b the sizes, c, d = e^{ε_1},
e^{ε_2}, and the first attribute the one with (c−1)/a ≥ (d−1)/b in cases I and II:

    cd ≥ (a−1)(b−1)   x_0 − 1 = [bc(d−1) + b(c−1) + ((a−1)(b−1)−1)(d−1)]/(d+b−1)      cases I, II
                      x_2 − 1 = [b(c−1) − a(d−1)]/(d+b−1),   x_1 = 1
    cd < (a−1)(b−1)   x_0 − 1 = [a(cd−1) + (c−1)((a−1)(b−1)−1)]/D,   x_2 = x_0        cases III, IV
                      x_1 − 1 = b(d−1)(c+a−1)/D,   D = (a−1) + c + (a−1)(b−1) − cd

Alike attributes: with X ~ Binomial(m, d), now d = 1 − 1/r, the density is Q where fewer than mf attributes change and 1
elsewhere,

    Q = 1 + m(d−f)/E[(mf−X)⁺].
"""

import math
import time
from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from optrr_solvers.arrays import FloatArray
from optrr_solvers.certificates.certificate import Certificate
from optrr_solvers.enclosure import FLIP_BITS, flip_ceiling
from optrr_solvers.errors import InvalidProblem, MethodTooLarge
from optrr_solvers.laws.base import Law, TableLaw
from optrr_solvers.laws.count import CountLaw, log_change_counts
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.options import SolveOptions
from optrr_solvers.problem import Problem
from optrr_solvers.solution import EXACT_GAP, Solution, checked

METHOD = "closed-form"

# The smaller of two weights keeps this many bits: their irrational ratio is then off by less than a rounding.
_WEIGHT_BITS = 52


def solve(problem: Problem, options: SolveOptions = SolveOptions()) -> Solution:
    """Compute the optimal distribution and certificate in closed form; O(m).

    ProductLaw for m = 1, TableLaw for m = 2, CountLaw for m alike attributes.

    Raises MethodTooLarge for three or more attributes that differ, InvalidProblem where pairs or caps are asked for,
    SolveFailed where the answer does not survive its check.
    """
    started = time.perf_counter()
    law: Law
    if problem.constrained:
        raise InvalidProblem("method 'closed-form' supports no pairs or caps; use 'reduced', or drop them")
    if problem.m == 1:
        law, certificate = ProductLaw(problem.sizes, problem.epsilons), Certificate(((0,),), (1,))
    elif problem.m == 2:
        law, certificate = TableLaw(problem.sizes, two_attributes(problem)), two_weights(problem)
    elif alike(problem):
        law = CountLaw(problem.sizes, [np.arange(problem.m)], alike_attributes(problem))
        certificate = Certificate((tuple(range(problem.m)),), (1,))
    else:
        raise MethodTooLarge(
            f"method 'closed-form' takes one attribute, two, or any number of alike ones, got {problem.m} that differ; "
            "use 'reduced' or 'classes'"
        )
    tolerance = options.tolerance_or(EXACT_GAP) * max(1.0, law.epsilon)
    return checked(problem, METHOD, law, certificate, started=started, tolerance=tolerance)


def applies(problem: Problem) -> bool:
    """Check whether :func:`solve` takes this problem."""
    return not problem.constrained and (problem.m <= 2 or alike(problem))


def alike(problem: Problem) -> bool:
    """Check whether all attributes have the same size and ε."""
    return bool(np.ptp(problem.sizes) == 0 and np.ptp(problem.epsilons) == 0)


def two_attributes(problem: Problem) -> FloatArray:
    """Compute ln x of POR's four cases, shape (2, 2).

    [0, 0] nothing changes, [1, 0] only the first, [0, 1] only the second.
    """
    (a, b), (e, g) = problem.sizes.astype(float).tolist(), problem.epsilons.tolist()
    # cases I and II: cd ≥ (a−1)(b−1)
    small = bool(problem.epsilons.sum() >= np.log(problem.sizes - 1.0).sum())
    if small and _excess_ratio(a, e) < _excess_ratio(b, g):
        return np.ascontiguousarray(_small_case(b, a, g, e).T)
    if small:
        return _small_case(a, b, e, g)
    table = _large_case(a, b, e, g)
    return table if table[0, 0] >= table[1, 0] else np.ascontiguousarray(_large_case(b, a, g, e).T)


def _excess_ratio(size: float, epsilon: float) -> float:
    """Compute (e^ε − 1)/r, the excess of an attribute's true value."""
    return math.expm1(epsilon) / size


def _small_case(a: float, b: float, e: float, g: float) -> FloatArray:
    """Compute case I, in nats above "both change"."""
    c, d1 = math.exp(e), math.expm1(g)
    below = d1 + b
    none = (b * c * d1 + b * math.expm1(e) + ((a - 1) * (b - 1) - 1) * d1) / below
    second = max(b * math.expm1(e) - a * d1, 0.0) / below
    return np.log1p([[none, second], [0.0, 0.0]])


def _large_case(a: float, b: float, e: float, g: float) -> FloatArray:
    """Compute case III, in nats above "both change"."""
    c, d1, both = math.exp(e), math.expm1(g), (a - 1) * (b - 1)
    below = (a - 1) + c + both * -math.expm1(e + g - math.log(a - 1) - math.log(b - 1))
    none = (a * math.expm1(e + g) + math.expm1(e) * (both - 1)) / below
    first = b * d1 * (c + a - 1) / below
    return np.log1p([[none, none], [first, 0.0]])


def two_weights(problem: Problem) -> Certificate:
    """Compute the certificate's weights.

    The one flip pattern with a density between 1 and Q lies on the border of the weighted ball.

    That is w_2 = w·f for "only the second changes" (cases I and IV), w_1 = w·f for "only the first" (II and III).
    """
    given = zip(problem.sizes.tolist(), problem.epsilons.tolist(), strict=True)
    f = [Fraction(flip_ceiling(r, e), 1 << FLIP_BITS) for r, e in given]
    table = two_attributes(problem)
    # the change set on the border is the one between the others; in a tie both are, and either serves
    second = min(table[0, 1], table[0, 0] - table[0, 1]) >= min(table[1, 0], table[0, 0] - table[1, 0])
    exact = (1 - f[1], f[0]) if second else (f[1], 1 - f[0])
    scale = (1 << _WEIGHT_BITS) / min(exact)
    return Certificate(((0,), (1,)), (round(exact[0] * scale), round(exact[1] * scale)))


def alike_attributes(problem: Problem) -> FloatArray:
    """Compute ln of the optimal density by number of changes, shape (m+1,).

    ln Q below mf, 0 from there on.
    """
    m, r = problem.m, int(problem.sizes[0])
    below = _distance_below(m, float(problem.flips[0]), float(problem.keeps[0]))
    inside = below > 0
    log_mean = logsumexp(log_change_counts(m, r)[inside] + np.log(below[inside]))
    log_q = np.logaddexp(0.0, np.log(m) + np.log(problem.gaps[0]) - log_mean)
    return np.where(inside, log_q, 0.0)


def _distance_below(m: int, flip: float, keep: float) -> FloatArray:
    """Compute mf − k for k = 0..m from the smaller of f and 1 − f.

    The other has lost digits.
    """
    k = np.arange(m + 1.0)
    return m * flip - k if flip <= 0.5 else (m - k) - m * keep
