"""RVL Results 1 and 3, Theorems 2 and 3, and eqs. 7, 17, 18: randomized response and the estimates from it.

P[u, v] = Pr(output v | input u) with rows summing to 1; t categories, E = e^ε. Theorem 4 is in prove_laplace.py.
"""

from fractions import Fraction
from itertools import product

import sympy as sp

E, EXTRA, PI, S = sp.symbols("E extra pi s", positive=True)


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def nonnegative(polynomial, *symbols):
    """Every coefficient of a polynomial in nonnegative symbols is nonnegative."""
    return all(c >= 0 for c in sp.Poly(sp.expand(polynomial), *symbols).coeffs())


def prove_result_1_binary_trace_grows_with_both_ratios():
    """Ratios p, q of the two outputs in (1, E] determine the matrix; both partial derivatives of its trace are squares."""
    p, q = sp.symbols("p q", positive=True)
    keep_0, keep_1 = p * (q - 1) / (p * q - 1), (p - 1) * q / (p * q - 1)
    move_1, move_0 = (q - 1) / (p * q - 1), (p - 1) / (p * q - 1)
    assert same(keep_0 + move_0, 1) and same(keep_1 + move_1, 1)
    assert same(keep_0 / move_1, p) and same(keep_1 / move_0, q)
    trace = keep_0 + keep_1
    assert same(sp.diff(trace, p), (q - 1) ** 2 / (p * q - 1) ** 2)
    assert same(sp.diff(trace, q), (p - 1) ** 2 / (p * q - 1) ** 2)
    best = {p: E, q: E}
    assert same(keep_0.subs(best), E / (1 + E)) and same(move_1.subs(best), 1 / (1 + E))


def prove_result_3_no_private_matrix_has_a_larger_trace():
    """Weights on the constraints, any t: privacy of output v gives P[u, v] ≥ P[v, v]/E for every u ≠ v; add them all.

    Σ_v Σ_{u≠v} P[u, v] ≥ (t−1) trace/E, and the left side is t − trace, so trace ≤ t E/(E + t − 1): eq. 19's trace.
    """
    t, trace = sp.symbols("t trace", positive=True)
    bound = sp.solve(sp.Eq(t - trace, (t - 1) * trace / E), trace)
    assert len(bound) == 1 and same(bound[0], t * E / (E + t - 1))
    assert same(t * (E / (t - 1 + E)), bound[0])
    # and eq. 19 is a distribution whose columns have ratio E
    assert same(E / (t - 1 + E) + (t - 1) / (t - 1 + E), 1)


def prove_the_adding_up_over_all_entries_for_small_t():
    """The same sum of constraints written out entry by entry."""
    for t in (2, 3, 4):
        p = sp.Matrix(t, t, lambda u, v: sp.Symbol(f"p{u}{v}"))
        slack = sum(p[u, v] - p[v, v] / E for u, v in product(range(t), repeat=2) if u != v)
        rows = {p[u, t - 1]: 1 - sum(p[u, v] for v in range(t - 1)) for u in range(t)}
        difference = (slack - (t - p.trace() * (1 + (t - 1) / E))).subs(rows)
        assert sp.expand(difference) == 0


def prove_diagonals_of_binary_randomized_response_and_laplace():
    """With s = e^{ε/2}: 1/(2s) − 1/(1+s²) = (s−1)²/(2s(1+s²)) ≥ 0, so randomized response tells the truth more often."""
    assert same(1 / (2 * S) - 1 / (1 + S**2), (S - 1) ** 2 / (2 * S * (1 + S**2)))


def _binary_reconstruction(p, true):
    """Eq. 14 for a symmetric binary matrix with diagonal p and prior PI on category 1."""
    prior = {0: 1 - PI, 1: PI}
    chance = {(v, u): p if u == v else 1 - p for v in (0, 1) for u in (0, 1)}
    evidence = {u: sum(prior[v] * chance[v, u] for v in (0, 1)) for u in (0, 1)}
    return sum(chance[true, u] ** 2 * prior[true] / evidence[u] for u in (0, 1))


def prove_theorem_2_reconstruction_grows_with_the_diagonal():
    """For every prior and both categories: the derivative in p is a product of visibly nonnegative factors, p ≥ 1/2.

    d/dp Pr(v → v) = (2p − 1) π_v (1 − π_v)² / (λ_0 λ_1)², so the mechanism with the larger diagonal has the smaller
    error. (RVL argue by counting roots in π; this needs no counting.)
    """
    p = sp.Symbol("p", positive=True)
    for true in (0, 1):
        own = PI if true else 1 - PI
        other = 1 - own
        evidence = [p * (1 - PI) + (1 - p) * PI, (1 - p) * (1 - PI) + p * PI]
        derivative = sp.diff(_binary_reconstruction(p, true), p)
        assert same(derivative, (2 * p - 1) * own * other**2 / (evidence[0] * evidence[1]) ** 2)


def prove_equation_7_is_equation_18():
    """The binary variance: eq. 18's entry is λ(1−λ)/((n−1)(2p−1)²), and eq. 7 is the same number."""
    p, observed, n = sp.symbols("p lambda n", positive=True)
    estimate = (p - 1) / (2 * p - 1) + observed / (2 * p - 1)
    matrix = sp.Matrix([[p, 1 - p], [1 - p, p]])
    seen = sp.Matrix([observed, 1 - observed])
    assert same((matrix.T.inv() * seen)[0], estimate)
    middle = sp.diag(*seen) - seen * seen.T
    inverse = matrix.T.inv()
    dispersion = inverse * middle * inverse.T / (n - 1)
    half, quarter = sp.Rational(1, 2), sp.Rational(1, 4)
    equation_7 = estimate * (1 - estimate) / (n - 1) + (1 / (16 * (p - half) ** 2) - quarter) / (n - 1)
    assert same(dispersion[0, 0], equation_7)


def prove_theorem_3_the_variance_falls_as_the_diagonal_grows():
    """λ depends on p too: with x = 2p − 1, the variance for fixed π is π(1−π) + (1/x² − 1)/4, over n; falling in x."""
    x, pi = sp.symbols("x pi", positive=True)
    p = (1 + x) / 2
    observed = p * pi + (1 - p) * (1 - pi)
    variance = observed * (1 - observed) / x**2
    assert same(variance, pi * (1 - pi) + (1 / x**2 - 1) / 4)
    assert same(sp.diff(variance, x), -1 / (2 * x**3))


def prove_equations_17_and_18_are_unbiased_for_multinomial_counts():
    """All outcomes of n = 3 draws from three categories, exact rationals, for a matrix without symmetry."""
    p = sp.Matrix([[6, 3, 1], [2, 5, 3], [1, 1, 8]]) / 10
    pi = sp.Matrix([2, 5, 3]) / 10
    inverse, law = p.T.inv(), p.T * pi
    n, mean, second, claimed = 3, sp.zeros(3, 1), sp.zeros(3, 3), sp.zeros(3, 3)
    for draws in product(range(3), repeat=n):
        chance = sp.prod([law[d] for d in draws])
        observed = sp.Matrix([Fraction(draws.count(v), n) for v in range(3)])
        estimate = inverse * observed
        mean += chance * estimate
        second += chance * (estimate - pi) * (estimate - pi).T
        claimed += chance * inverse * (sp.diag(*observed) - observed * observed.T) * inverse.T / (n - 1)
    exact = inverse * (sp.diag(*law) - law * law.T) * inverse.T / n
    assert mean == pi
    assert second == claimed == exact
