"""POR's four two-attribute cases are feasible and optimal (closed_form.two_attributes, theory §4.1).

Letters as in POR: a = r_1, b = r_2, c = e^{ε_1}, d = e^{ε_2}; x_0, x_1, x_2, 1 the densities of ∅, {1}, {2}, {1, 2}.

Feasible: both accuracy equations hold identically, and 1 ≤ x ≤ x_0 follows from the case's conditions. Optimal: with the
weights w of closed_form.two_weights the lower bound 1 + w·(d−f)/E[(w·f−X)⁺] (prove_dual_bound) is x_0 itself.
Positive quantities are written as symbols for what they exceed, a = 2 + A, c = 1 + C, so a polynomial whose
coefficients are all nonnegative in A, B, C, D is nonnegative.
"""

from fractions import Fraction

import sympy as sp
from exact_lp import flip, smallest_ratio
from sympy import Rational

A, B, C, D = sp.symbols("A B C D", nonnegative=True)
a, b, c, d = A + 2, B + 2, C + 1, D + 1
FLIPS = ((a - 1) / (a - 1 + c), (b - 1) / (b - 1 + d))
GAPS = tuple((r - 1) / r - f for r, f in zip((a, b), FLIPS, strict=True))
MU = {(0, 0): 1 / (a * b), (1, 0): (a - 1) / (a * b), (0, 1): (b - 1) / (a * b), (1, 1): (a - 1) * (b - 1) / (a * b)}
# what each case supposes to be nonnegative
FEW = c * d - (a - 1) * (b - 1)
FIRST_OF_SMALL = b * c - a * d + a - b
FIRST_OF_LARGE = (a - b) * c * d + a * (b - 1) * c - (a - 1) * b * d

BELOW_SMALL = d + b - 1
SMALL = {
    (0, 0): (b * c * d + (a - 1) * (b - 1) * d - (a - 1) * (b - 1)) / BELOW_SMALL,
    (1, 0): sp.Integer(1),
    (0, 1): (b * c - (a - 1) * d + a - 1) / BELOW_SMALL,
    (1, 1): sp.Integer(1),
}
BELOW_LARGE = -c * d + c + (a - 1) * b
LARGE = {
    (0, 0): (a - 1) * c * (d + b - 1) / BELOW_LARGE,
    (1, 0): ((b - 1) * c * d - (b - 1) * c + (a - 1) * b * d) / BELOW_LARGE,
    (0, 1): (a - 1) * c * (d + b - 1) / BELOW_LARGE,
    (1, 1): sp.Integer(1),
}


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def nonnegative(x):
    """Whether x is a quotient of polynomials with nonnegative coefficients."""
    top, bottom = sp.fraction(sp.cancel(sp.together(x)))
    polynomials = [sp.Poly(sp.expand(p), A, B, C, D) for p in (top, bottom)]
    return all(k >= 0 for p in polynomials for k in p.coeffs())


def accurate(x):
    """Both accuracy equations of theory §3.1."""
    for i, (r, e) in enumerate(((a, c), (b, d))):
        kept = sum(MU[s] * x[s] for s in MU if not s[i])
        changed = sum(MU[s] * x[s] for s in MU if s[i])
        if not same(kept * (r - 1), e * changed):
            return False
    return True


def distances(w):
    """w·f − w(S) for every change set."""
    return {s: w[0] * FLIPS[0] + w[1] * FLIPS[1] - w[0] * s[0] - w[1] * s[1] for s in MU}


def prove_small_cases_are_accurate():
    assert accurate(SMALL)


def prove_small_cases_lie_between_their_ends():
    assert same(SMALL[0, 1] - 1, FIRST_OF_SMALL / BELOW_SMALL)
    assert nonnegative(SMALL[0, 0] - SMALL[0, 1]) and nonnegative(SMALL[0, 0] - 1)


def prove_small_cases_are_optimal():
    w = (1 - FLIPS[1], FLIPS[0])
    far = distances(w)
    assert nonnegative(w[0]) and nonnegative(w[1]) and nonnegative(far[0, 0])
    assert same(far[0, 1], 0)
    # "only the first" is outside the ball exactly where cd ≥ (a−1)(b−1)
    assert same(far[1, 0] * (a - 1 + c) * (b - 1 + d), -FEW)
    assert nonnegative(-far[1, 1])
    bound = 1 + (w[0] * GAPS[0] + w[1] * GAPS[1]) / (MU[0, 0] * far[0, 0])
    assert same(bound, SMALL[0, 0])


def prove_large_cases_are_accurate():
    assert accurate(LARGE)


def prove_large_cases_lie_between_their_ends():
    # the denominator is positive because (a−1)(b−1) − cd > 0 here
    assert same(BELOW_LARGE, (a - 1) + c - FEW)
    assert nonnegative((LARGE[1, 0] - 1) * BELOW_LARGE)
    assert same((LARGE[0, 0] - LARGE[1, 0]) * BELOW_LARGE, FIRST_OF_LARGE)
    # x_0 − 1 = [a(cd−1) + (c−1)((a−1)(b−1)−1)]/D
    assert nonnegative((LARGE[0, 0] - 1) * BELOW_LARGE)


def prove_large_cases_are_optimal():
    w = (FLIPS[1], 1 - FLIPS[0])
    far = distances(w)
    assert nonnegative(w[0]) and nonnegative(w[1]) and nonnegative(far[0, 0])
    assert same(far[1, 0], 0)
    # "only the second" is inside the ball exactly where cd ≤ (a−1)(b−1)
    assert same(far[0, 1] * (a - 1 + c) * (b - 1 + d), -FEW)
    assert nonnegative(-far[1, 1])
    mean = MU[0, 0] * far[0, 0] + MU[0, 1] * far[0, 1]
    bound = 1 + (w[0] * GAPS[0] + w[1] * GAPS[1]) / mean
    assert same(bound, LARGE[0, 0])


def prove_the_four_cases_cover_everything():
    """Exchanging the attributes negates the second condition, so one of I, II (and of III, IV) always applies."""
    exchange = {A: B, B: A, C: D, D: C}
    assert same(FIRST_OF_SMALL.subs(exchange, simultaneous=True), -FIRST_OF_SMALL)
    assert same(FIRST_OF_LARGE.subs(exchange, simultaneous=True), -FIRST_OF_LARGE)
    assert same(FEW.subs(exchange, simultaneous=True), FEW)
    # the choice in code: (c−1)/a against (d−1)/b, and x_0 against x_1
    assert same(((c - 1) / a - (d - 1) / b) * a * b, FIRST_OF_SMALL)


def prove_the_code_s_excess_forms_equal_the_printed_ones():
    both = (a - 1) * (b - 1)
    below = d - 1 + b
    assert same(SMALL[0, 0] - 1, (b * c * (d - 1) + b * (c - 1) + (both - 1) * (d - 1)) / below)
    assert same(SMALL[0, 1] - 1, (b * (c - 1) - a * (d - 1)) / below)
    below = (a - 1) + c + (both - c * d)
    assert same(LARGE[0, 0] - 1, (a * (c * d - 1) + (c - 1) * (both - 1)) / below)
    assert same(LARGE[1, 0] - 1, b * (d - 1) * (c + a - 1) / below)


def prove_every_case_against_the_exact_simplex():
    """Four sizes × four exponentials reach each case; a second, independent road to the same value."""
    reached = set()
    for ra, rb in ((2, 2), (2, 7), (7, 3), (9, 9)):
        for ea, eb in ((2, 2), (Rational(3, 2), 5), (40, 2), (2, 30)):
            at = {A: ra - 2, B: rb - 2, C: ea - 1, D: eb - 1}
            exchanged = {A: rb - 2, B: ra - 2, C: eb - 1, D: ea - 1}
            small = FEW.subs(at) >= 0
            first = (FIRST_OF_SMALL if small else FIRST_OF_LARGE).subs(at) >= 0
            reached.add((bool(small), bool(first)))
            printed = (SMALL if small else LARGE)[0, 0].subs(at if first else exchanged)
            flips = [flip(r, Fraction(int(sp.numer(e)), int(sp.denom(e)))) for r, e in ((ra, ea), (rb, eb))]
            exact = smallest_ratio((ra, rb), flips)
            assert printed == Rational(exact.numerator, exact.denominator)
    assert len(reached) == 4
