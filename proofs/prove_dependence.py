"""Dependence seen through randomization: MDR Proposition 1 and Corollary 1, their limits, and the noise correction of V.

Keeping a value with probability p and drawing it uniformly otherwise has eigenvalue λ = p; independent draws give
Cov(Y_a, Y_b) = p_a p_b Cov(X_a, X_b) (Proposition 1). For any law of change sets there is a second term, (λ_ab − λ_a λ_b) times
the distances of the means from the middle. One p for all keeps the order of covariances (Corollary 1); unlike p do not, nor
does Cramér's V keep its order under one p (which MDR §4.1 leaves to intuition).
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp

from optrr.core.mechanisms.kernel import EffectKernel
from optrr.core.protocols.dependence import RandomizedPair


def covariance(joint, x, y):
    """Of two scored attributes with this joint distribution, exactly."""
    r, c = len(x), len(y)
    both = sum(joint[a][b] * x[a] * y[b] for a, b in product(range(r), range(c)))
    first = sum(joint[a][b] * x[a] for a, b in product(range(r), range(c)))
    second = sum(joint[a][b] * y[b] for a, b in product(range(r), range(c)))
    return both - first * second


def symbols(r, c):
    """A joint distribution summing to 1, and scores, all free."""
    joint = [[sp.Symbol(f"pi_{a}{b}") for b in range(c)] for a in range(r)]
    joint[r - 1][c - 1] = 1 - sum(joint[a][b] for a, b in product(range(r), range(c)) if (a, b) != (r - 1, c - 1))
    return joint, [sp.Symbol(f"x_{a}") for a in range(r)], [sp.Symbol(f"y_{b}") for b in range(c)]


def prove_proposition_1_from_expectations():
    # given X, the two draws are independent with means p X + (1−p) u; any number of categories, any scores
    p_a, p_b, u_a, u_b, e_a, e_b, e_ab = sp.symbols("p_a p_b u_a u_b e_a e_b e_ab")
    both = sp.expand((p_a * sp.Symbol("X_a") + (1 - p_a) * u_a) * (p_b * sp.Symbol("X_b") + (1 - p_b) * u_b))
    expected = both.subs(sp.Symbol("X_a") * sp.Symbol("X_b"), e_ab).subs({sp.Symbol("X_a"): e_a, sp.Symbol("X_b"): e_b})
    means = (p_a * e_a + (1 - p_a) * u_a) * (p_b * e_b + (1 - p_b) * u_b)
    assert sp.expand(expected - means - p_a * p_b * (e_ab - e_a * e_b)) == 0


def prove_proposition_1_from_the_matrices():
    for r, c in ((2, 2), (2, 3), (3, 3)):
        joint, x, y = symbols(r, c)
        p_a, p_b = sp.symbols("p_a p_b")

        def kept(p, size):
            return [[p * int(u == v) + (1 - p) / size for v in range(size)] for u in range(size)]

        a, b = kept(p_a, r), kept(p_b, c)
        randomized = [
            [sum(joint[u][v] * a[u][s] * b[v][t] for u, v in product(range(r), range(c))) for t in range(c)]
            for s in range(r)
        ]
        assert sp.expand(covariance(randomized, x, y) - p_a * p_b * covariance(joint, x, y)) == 0


def prove_what_any_law_does_to_covariance():
    r, c = 2, 3
    joint, x, y = symbols(r, c)
    nu = {s: sp.Symbol(f"nu_{s[0]}{s[1]}") for s in product((0, 1), repeat=2)}
    chi = {0: 1, 1: sp.Rational(-1, r - 1)}, {0: 1, 1: sp.Rational(-1, c - 1)}
    randomized = [[0] * c for _ in range(r)]
    for u, v, s, t in product(range(r), range(c), range(r), range(c)):
        change = int(u != s), int(v != t)
        chance = nu[change] / ((r - 1) ** change[0] * (c - 1) ** change[1])
        randomized[s][t] += joint[u][v] * chance
    pair = sum(nu[s] * chi[0][s[0]] * chi[1][s[1]] for s in nu)
    lam_a = sum(nu[s] * chi[0][s[0]] for s in nu)
    lam_b = sum(nu[s] * chi[1][s[1]] for s in nu)
    whole = {nu[(1, 1)]: 1 - nu[(0, 0)] - nu[(0, 1)] - nu[(1, 0)]}
    # E[YaYb] scales its interaction by λ_ab, the means by λ_a and λ_b; what remains is (λ_ab − λ_a λ_b) times the means
    a, b = sum(x) / r, sum(y) / c
    first = sum(joint[u][v] * x[u] for u, v in product(range(r), range(c)))
    second = sum(joint[u][v] * y[v] for u, v in product(range(r), range(c)))
    expected = pair * covariance(joint, x, y) + (pair - lam_a * lam_b) * (first - a) * (second - b)
    assert sp.expand((covariance(randomized, x, y) - expected).subs(whole)) == 0


def prove_corollary_1():
    p, stronger, weaker = sp.Symbol("p", positive=True), sp.Symbol("c_1", real=True), sp.Symbol("c_2", real=True)
    gap = sp.Symbol("g", positive=True)
    assert sp.simplify((p**2 * stronger - p**2 * weaker).subs(stronger, weaker + gap)).is_positive


def prove_unlike_retentions_may_turn_the_order_around():
    # covariances 0.2 > 0.1 seen as 0.01·… < …: p = (1/10, 1/10) for the first pair, (9/10, 9/10) for the second
    first, second = Fraction(2, 10), Fraction(1, 10)
    assert first > second
    assert Fraction(1, 10) ** 2 * first < Fraction(9, 10) ** 2 * second


def squared_v(joint):
    rows = [sum(row) for row in joint]
    columns = [sum(column) for column in zip(*joint, strict=True)]
    phi = sum(
        (joint[a][b] - rows[a] * columns[b]) ** 2 / (rows[a] * columns[b])
        for a, b in product(range(len(rows)), range(len(columns)))
    )
    return phi / (min(len(rows), len(columns)) - 1)


def seen(joint, p):
    r, c = len(joint), len(joint[0])
    rows = [sum(row) for row in joint]
    columns = [sum(column) for column in zip(*joint, strict=True)]
    return [
        [
            p * p * joint[a][b] + p * (1 - p) * (rows[a] / c + columns[b] / r) + (1 - p) ** 2 / Fraction(r * c)
            for b in range(c)
        ]
        for a in range(r)
    ]


def prove_cramers_v_need_not_keep_its_order():
    # a strong tie of two rare categories (V² = 1) against a weaker tie of even ones (V² = 1/4), both seen at p = 1/2
    rare = [[Fraction(99, 100), Fraction(0)], [Fraction(0), Fraction(1, 100)]]
    even = [[Fraction(3, 8), Fraction(1, 8)], [Fraction(1, 8), Fraction(3, 8)]]
    assert squared_v(rare) == 1
    assert squared_v(even) == Fraction(1, 4)
    assert squared_v(seen(rare, Fraction(1, 2))) < squared_v(seen(even, Fraction(1, 2)))


@pytest.mark.slow
def prove_v_shrinks_by_the_eigenvalue_under_even_marginals():
    p, t = sp.symbols("p t", positive=True)
    for r in (2, 3, 4):
        joint = [[(1 + t * (r - 1)) / r**2 if a == b else (1 - t) / r**2 for b in range(r)] for a in range(r)]
        randomized = [[p**2 * joint[a][b] + (1 - p**2) / sp.Integer(r) ** 2 for b in range(r)] for a in range(r)]
        assert sp.simplify(squared_v(randomized) - p**4 * squared_v(joint)) == 0


def contrast_variance(joint, rows, columns, lam):
    """n Var(ĉ_ab) from the randomized table λ and its unbiased estimators, summed over all outputs one by one, exactly."""
    r, c = len(joint), len(joint[0])
    lam_a, lam_b, lam_ab = lam
    out = [[Fraction(0)] * c for _ in range(r)]
    for a, b in product(range(r), range(c)):
        mean, square = Fraction(0), Fraction(0)
        for s, t in product(range(r), range(c)):
            row = Fraction(1, r) + (int(a == s) - Fraction(1, r)) / lam_a
            column = Fraction(1, c) + (int(b == t) - Fraction(1, c)) / lam_b
            interaction = (int(a == s) - Fraction(1, r)) * (int(b == t) - Fraction(1, c)) / lam_ab
            both = row / c + column / r - Fraction(1, r * c) + interaction
            influence = both - row * columns[b] - column * rows[a]
            mean += joint[s][t] * influence
            square += joint[s][t] * influence**2
        out[a][b] = square - mean**2
    return out


def prove_the_noise_in_phi_is_bergsmas_without_randomization():
    # λ = 1 under independence: Σ n Var(ĉ)/(π_a π_b) = (r−1)(c−1), whatever the marginals
    for rows, columns in (([1, 2], [1, 1, 3]), ([2, 3, 5], [1, 4]), ([1, 1, 1, 7], [3, 1, 1])):
        share_a = [Fraction(v, sum(rows)) for v in rows]
        share_b = [Fraction(v, sum(columns)) for v in columns]
        joint = [[a * b for b in share_b] for a in share_a]
        one = Fraction(1)
        variance = contrast_variance(joint, share_a, share_b, (one, one, one))
        total = sum(
            variance[a][b] / (share_a[a] * share_b[b]) for a, b in product(range(len(rows)), range(len(columns)))
        )
        assert total == (len(rows) - 1) * (len(columns) - 1)


def prove_the_program_computes_that_variance():
    counts = np.array([[50, 70, 30], [20, 90, 140]])
    lam = Fraction(1, 2), Fraction(3, 4), Fraction(2, 5)
    kernel = EffectKernel((2, 3), [[1.0, 0.75], [0.5, 0.4]])
    pair = RandomizedPair(counts, kernel)
    joint = [[Fraction(int(v), 400) for v in row] for row in counts]
    rows = [sum(row) for row in joint]
    columns = [sum(column) for column in zip(*joint, strict=True)]
    share_a = [Fraction(1, 2) + (v - Fraction(1, 2)) / lam[0] for v in rows]
    share_b = [Fraction(1, 3) + (v - Fraction(1, 3)) / lam[1] for v in columns]
    assert min(share_a + share_b) > 0
    exact = contrast_variance(joint, share_a, share_b, lam)
    computed = pair._contrast_variance * 400
    assert all(abs(computed[a, b] - float(exact[a][b])) < 1e-12 for a, b in product(range(2), range(3)))
