"""The matrices of clusters: MDR's p_C with its sign corrected, SIC's normaliser (equations 10, 11 corrected), their ε.

Symbolically in sizes and parameters for up to four attributes; the number of records at distance w is the coefficient of t^w in
Π (1 + (r_i−1) t), so Z = Σ_w e_w/w = ∫₀¹ (Π (1 + (r_i−1) t) − 1)/t dt.
"""

from fractions import Fraction
from itertools import combinations, product
from math import prod

import sympy as sp

from optrr_solvers.laws.few_changes import inverse_distance_normaliser, records_at_distance


def prove_p_c_makes_rows_sum_to_one():
    records, epsilon = sp.symbols("R epsilon", positive=True)
    kept = 1 / (1 + (records - 1) * sp.exp(-epsilon))
    assert sp.simplify(kept + (records - 1) * kept * sp.exp(-epsilon) - 1) == 0
    # as printed, with 1 − R, it does not
    printed = 1 / (1 + (1 - records) * sp.exp(-epsilon))
    assert sp.simplify((printed + (records - 1) * printed * sp.exp(-epsilon) - 1).subs({records: 4, epsilon: 2})) != 0


def prove_retention_and_epsilon_are_inverse():
    p, r = sp.symbols("p r", positive=True)
    odds = p * (r - 1) / (1 - p)
    # e^{ε_A} put into p_C of one attribute gives p back; with the printed |A| rows sum to more than 1
    assert sp.simplify(1 / (1 + (r - 1) / odds) - p) == 0
    assert sp.simplify(p + (r - 1) * (1 - p) / r - 1) != 0


def prove_how_many_records_are_at_each_distance():
    t = sp.Symbol("t")
    for m in (1, 2, 3, 4):
        r = sp.symbols(f"r1:{m + 1}", positive=True)
        generating = sp.Poly(sp.expand(prod(1 + (x - 1) * t for x in r)), t)
        for w in range(m + 1):
            elementary = sum(prod((x - 1 for x in chosen), start=sp.Integer(1)) for chosen in combinations(r, w))
            assert sp.expand(generating.coeff_monomial(t**w) - elementary) == 0


def prove_the_normaliser_by_looking_at_every_record():
    for sizes in ((2,), (2, 3), (3, 4, 2), (2, 2, 3, 3)):
        distances = [sum(v != 0 for v in record) for record in product(*(range(r) for r in sizes))]
        exact = sum(Fraction(1, w) for w in distances if w)
        assert [distances.count(w) for w in range(len(sizes) + 1)] == records_at_distance(sizes).tolist()
        assert abs(Fraction(inverse_distance_normaliser(sizes)) - exact) < Fraction(1, 10**13) * exact
        t = sp.Symbol("t")
        polynomial = sp.cancel((sp.expand(prod(1 + (r - 1) * t for r in sizes)) - 1) / t)
        assert sp.integrate(polynomial, (t, 0, 1)) == sp.Rational(exact.numerator, exact.denominator)


def prove_equation_11_as_printed_is_not_equation_10():
    # the printed factor 1/r outside the sums, with r attributes' worth of terms, against 1/w inside
    sizes = (2, 3, 4)
    right = sum(
        Fraction(1, w) * sum(prod(r - 1 for r in chosen) for chosen in combinations(sizes, w)) for w in range(1, 4)
    )
    printed = sum(
        Fraction(1, len(sizes)) * sum(prod(r - 1 for r in chosen) for chosen in combinations(sizes, w))
        for w in range(1, 4)
    )
    assert right != printed


def prove_the_inverse_distance_epsilon():
    # likeliest: the record, p; least likely: all m attributes changed, (1−p)/(m Z); solved for p
    p, z, m, epsilon = sp.symbols("p Z m epsilon", positive=True)
    ratio = p / ((1 - p) / (m * z))
    assert sp.simplify(ratio - p * m * z / (1 - p)) == 0
    retention = 1 / (1 + m * z * sp.exp(-epsilon))
    assert sp.simplify(ratio.subs(p, retention) - sp.exp(epsilon)) == 0
    # it is the likeliest answer, p ≥ (1−p)/Z, exactly where ε ≥ ln m
    nearest = (1 - p) / z
    assert sp.simplify((p / nearest).subs(p, retention) - sp.exp(epsilon) / m) == 0
