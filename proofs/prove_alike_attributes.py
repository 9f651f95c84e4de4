"""Alike attributes: Q = 1 + m(d−f)/E[(mf−X)⁺], X ~ Binomial(m, d) (closed_form.alike_attributes, theory §3.3).

Against the exact simplex over all 2^m change sets, in rationals, for small m; and symbolically that the density of the
closed form has the requested flip probabilities.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import sympy as sp
from exact_lp import flip, smallest_ratio

from optrr_solvers.closed_form import alike_attributes
from optrr_solvers.problem import Problem

EXPONENTIALS = (Fraction(101, 100), Fraction(3, 2), Fraction(3), Fraction(20))


def closed_form(m, r, exponential):
    f, d = flip(r, exponential), Fraction(r - 1, r)
    chances = [math.comb(m, k) * d**k * (1 - d) ** (m - k) for k in range(m + 1)]
    mean = sum(p * max(m * f - k, Fraction(0)) for k, p in enumerate(chances))
    return 1 + m * (d - f) / mean


def prove_it_equals_the_linear_program_over_all_change_sets():
    for m, sizes in ((1, (2, 5)), (2, (2, 3, 7)), (3, (2, 3, 5)), (4, (2, 3))):
        for r, exponential in itertools.product(sizes, EXPONENTIALS if m < 4 else EXPONENTIALS[1:3]):
            assert smallest_ratio([r] * m, [flip(r, exponential)] * m) == closed_form(m, r, exponential)


def prove_the_ball_has_the_flips_asked_for():
    """q = Q below mf and 1 elsewhere: Σ μ (k − mf) q = m(d−f) − (Q−1) E[(mf−X)⁺] = 0 for the closed form's Q."""
    m, d, f, positive = sp.symbols("m d f positive", positive=True)
    q = 1 + m * (d - f) / positive
    # E[X − mf] = m(d−f) over all counts; over those below mf it is −positive
    assert sp.simplify((m * d - m * f) + (q - 1) * -positive) == 0


def prove_the_code_computes_this_number():
    """To a few roundings of ln Q, which double precision allows."""
    for m, r, exponential in itertools.product((1, 2, 3, 10, 40), (2, 3, 17), EXPONENTIALS):
        epsilon = math.log(exponential)
        exact = closed_form(m, r, Fraction(sp_exp(epsilon)))
        computed = alike_attributes(Problem([r] * m, [epsilon] * m))
        assert abs(computed.max() - float(sp.log(sp.Rational(exact.numerator, exact.denominator)).evalf(30))) < 1e-12
        assert np.count_nonzero(computed) == sum(k < m * flip(r, Fraction(sp_exp(epsilon))) for k in range(m + 1))


def sp_exp(x):
    """e^x of a double to 40 digits, as text that Fraction reads."""
    return str(sp.exp(sp.Float(x, 60)).evalf(40))
