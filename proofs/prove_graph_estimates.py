"""Debiased triangles at a node: the sparse form, its variance, and the admissible noises of smooth sensitivity.

All graphs are covered because every identity is checked as a polynomial in free entries of the adjacency matrix.
"""

from itertools import combinations

import sympy as sp

F = sp.Symbol("f")


def _symmetric(n, letter):
    upper = {pair: sp.Symbol(f"{letter}{pair[0]}{pair[1]}") for pair in combinations(range(n), 2)}
    return sp.Matrix(n, n, lambda i, j: 0 if i == j else upper[min(i, j), max(i, j)]), list(upper.values())


def _triangles(a, n, i):
    return sum(a[i, j] * a[i, k] * a[j, k] for j, k in combinations([v for v in range(n) if v != i], 2))


def _bits(expression, symbols):
    """Powers of bits are the bits: reduce every exponent to 0 or 1."""
    terms = sp.Poly(sp.expand(expression), *symbols).terms()
    return sp.expand(
        sum(c * sp.prod([s ** min(e, 1) for s, e in zip(symbols, powers, strict=True)]) for powers, c in terms)
    )


def prove_the_sparse_form():
    """g³T̂ = t − f[C(b,2) + Σ_j B_ij(b_j − 1)] + f²[(n−3)b + M] − f³C(n−1,2), for n = 3..6 with free entries."""
    for n in (3, 4, 5, 6):
        b, symbols = _symmetric(n, "b")
        degrees = [sum(b.row(i)) for i in range(n)]
        edges = sum(degrees) / 2
        shifted = b - F * (sp.ones(n) - sp.eye(n))
        i = 0
        linear = degrees[i] * (degrees[i] - 1) / 2 + sum(b[i, j] * (degrees[j] - 1) for j in range(n))
        square = (n - 3) * degrees[i] + edges
        claimed = _triangles(b, n, i) - F * linear + F**2 * square - F**3 * sp.Rational((n - 1) * (n - 2), 2)
        assert sp.expand(_bits(_triangles(shifted, n, i) - claimed, symbols)) == 0


def prove_the_variance():
    """Independent noises η of mean 0 and variance s²: square every coefficient of the noise polynomial; n = 3..5.

    Σ over noise monomials of coefficient² s^{2·degree} = s²[Σ c_ij² + C(d,2)] + s⁴[M + (n−3)d] + s⁶C(n−1,2), for bits.
    """
    s2 = sp.Symbol("s2")
    for n in (3, 4, 5):
        a, symbols = _symmetric(n, "a")
        eta, noises = _symmetric(n, "e")
        polynomial = sp.Poly(sp.expand(_triangles(a + eta, n, 0)), *noises)
        exact = 0
        for powers, coefficient in polynomial.terms():
            # each noise enters a triangle once, so different monomials are uncorrelated
            assert max(powers) <= 1
            if sum(powers):
                exact += coefficient**2 * s2 ** sum(powers)
        d = sum(a.row(0))
        common = [sum(a[0, k] * a[j, k] for k in range(n)) for j in range(1, n)]
        one = sum(c**2 for c in common) + d * (d - 1) / 2
        two = sum(symbols) + (n - 3) * d
        claimed = s2 * one + s2**2 * two + s2**3 * sp.Rational((n - 1) * (n - 2), 2)
        assert _bits(exact - claimed, symbols) == 0


def prove_the_variance_of_common_neighbours():
    """Var ĉ_ij = s²(d_i + d_j − 2a_ij) + (n−2)s⁴; summed over j: s²((n−4)d_i + 2M) + (n−1)(n−2)s⁴; and E d̂² = d² + (n−1)s²."""
    s2 = sp.Symbol("s2")
    n = 5
    a, symbols = _symmetric(n, "a")
    eta, noises = _symmetric(n, "e")
    total = 0
    for j in range(1, n):
        debiased = sum((a[0, k] + eta[0, k]) * (a[j, k] + eta[j, k]) for k in range(n) if k not in (0, j))
        terms = sp.Poly(sp.expand(debiased), *noises).terms()
        exact = sum(c**2 * s2 ** sum(powers) for powers, c in terms if sum(powers))
        degrees = sum(a.row(0)) + sum(a.row(j)) - 2 * a[0, j]
        assert _bits(exact - (s2 * degrees + (n - 2) * s2**2), symbols) == 0
        total += exact
    claimed = s2 * ((n - 4) * sum(a.row(0)) + 2 * sum(symbols)) + (n - 1) * (n - 2) * s2**2
    assert _bits(total - claimed, symbols) == 0


def prove_a_debiased_bit():
    """E (B − f)/(1 − 2f) = a, variance f(1−f)/(1−2f)² whether a is 0 or 1."""
    f = F
    for bit in (0, 1):
        law = {bit: 1 - f, 1 - bit: f}
        mean = sum(chance * (value - f) / (1 - 2 * f) for value, chance in law.items())
        second = sum(chance * ((value - f) / (1 - 2 * f)) ** 2 for value, chance in law.items())
        assert sp.simplify(mean - bit) == 0
        assert sp.simplify(second - mean**2 - f * (1 - f) / (1 - 2 * f) ** 2) == 0


def prove_reporting_a_tie_twice_at_least_doubles_the_variance():
    """With E = e^ε, s² = E/(E−1)²; half of that at ε/2 is larger by 2cosh²(ε/4)."""
    f, E, epsilon = F, sp.Symbol("E", positive=True), sp.Symbol("epsilon", positive=True)
    noise = f * (1 - f) / (1 - 2 * f) ** 2
    once = E / (E - 1) ** 2
    assert sp.simplify(noise.subs(f, 1 / (1 + E)) - once) == 0
    root = sp.Symbol("q", positive=True)  # e^{ε/4}
    ratio = (once.subs(E, root**2) / 2) / once.subs(E, root**4)
    assert sp.simplify(ratio - (root + 1 / root) ** 2 / 2) == 0
    doubled = (sp.exp(epsilon / 4) + sp.exp(-epsilon / 4)) ** 2 / 2
    assert sp.simplify((doubled - 2 * sp.cosh(epsilon / 4) ** 2).rewrite(sp.exp)) == 0


def prove_cauchy_noise_is_pure():
    """h ∝ 1/(1+z²), n coordinates: sliding by α = ε/2 costs at most ε/2, dilating by β = ε/(2n) at most ε/2.

    |d ln h/dz| ≤ 1, so sliding costs at most the L1 distance; |d/dλ ln(e^λ h(e^λ z))| ≤ 1 for each coordinate.
    """
    z, lam = sp.symbols("z lam", real=True)
    slope = sp.diff(-sp.log(1 + z**2), z)
    assert sp.simplify(1 - slope**2 - ((1 - z**2) / (1 + z**2)) ** 2) == 0
    dilated = sp.diff(lam - sp.log(1 + sp.exp(2 * lam) * z**2), lam)
    w = sp.exp(2 * lam) * z**2
    assert sp.simplify(dilated - (1 - w) / (1 + w)) == 0
    # |(1−w)/(1+w)| ≤ 1 for w ≥ 0: 1 − its square is 4w/(1+w)²
    v = sp.Symbol("v", nonnegative=True)
    assert sp.simplify(1 - ((1 - v) / (1 + v)) ** 2 - 4 * v / (1 + v) ** 2) == 0


def prove_laplace_dilation_thresholds_are_monotone():
    """The norms that give a dilation away: above (ε/2 + nλ)/(e^λ − 1), below (nλ − ε/2)/(1 − e^{−λ}); worst at |λ| = β.

    The first falls with λ: its derivative's numerator is n(e^λ − 1 − λe^λ) − (ε/2)e^λ, and e^λ − 1 − λe^λ is 0 at 0 with
    derivative −λe^λ ≤ 0. The second grows: n(1 − e^{−λ} − λe^{−λ}) + (ε/2)e^{−λ}, where the bracket is 0 at 0 with derivative
    λe^{−λ} ≥ 0.
    """
    n, lam, epsilon = sp.symbols("n lam epsilon", positive=True)
    loss = (sp.exp(lam) - 1) * sp.Symbol("z") - n * lam
    # the density ratio of Z and e^{−λ}Z at |z|: h(z)/(e^{nλ} h(e^λ z)) = exp((e^λ − 1)|z| − nλ)
    z = sp.Symbol("z")
    assert sp.simplify(-z - (n * lam - sp.exp(lam) * z) - loss) == 0
    wide = (epsilon / 2 + n * lam) / (sp.exp(lam) - 1)
    numerator = n * (sp.exp(lam) - 1 - lam * sp.exp(lam)) - epsilon / 2 * sp.exp(lam)
    assert sp.simplify(sp.diff(wide, lam) * (sp.exp(lam) - 1) ** 2 - numerator) == 0
    assert sp.simplify(sp.diff(sp.exp(lam) - 1 - lam * sp.exp(lam), lam) + lam * sp.exp(lam)) == 0
    narrow = (n * lam - epsilon / 2) / (1 - sp.exp(-lam))
    grown = n * (1 - sp.exp(-lam) - lam * sp.exp(-lam)) + epsilon / 2 * sp.exp(-lam)
    assert sp.simplify(sp.diff(narrow, lam) * (1 - sp.exp(-lam)) ** 2 - grown) == 0
    assert sp.simplify(sp.diff(1 - sp.exp(-lam) - lam * sp.exp(-lam), lam) - lam * sp.exp(-lam)) == 0
