"""The privacy loss of RS+FD and RS+RFD, of the record and of one attribute, and the supports of all four protocols.

A report y has probability Π_i F_i(y_i) · (1/m) Σ_j P_j(y_j | x_j)/F_j(y_j), with P the answer's law, F the fake's.
"""

import sympy as sp

E = sp.Symbol("E", positive=True)


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_the_record_loses_all_of_the_answers_epsilon():
    """GRR, any sizes r_j and fakes F_j: y agrees with x everywhere and with x' nowhere, so *every* term has ratio E.

    Upper bound: a ratio of sums of positive terms is at most the largest ratio of terms, which is E for any y, x, x'. The
    same holds for OUE, whose answers have ratio at most E = (p/q)((1−q)/(1−p)), attained with bit x_j set and bit x'_j not.
    """
    r, f = sp.symbols("r1:5", positive=True), sp.symbols("f1:5", positive=True)
    agree = sum(E / (E + ri - 1) / fi for ri, fi in zip(r, f, strict=True))
    differ = sum(1 / (E + ri - 1) / fi for ri, fi in zip(r, f, strict=True))
    assert same(agree / differ, E)
    p, q = sp.Rational(1, 2), 1 / (E + 1)
    assert same(p / q * (1 - q) / (1 - p), E)


def prove_the_published_epsilon_is_one_attribute_s_for_equal_sizes():
    """x, x' differ in attribute 1 only; y_1 = x_1 and y_j ≠ x_j elsewhere makes the other terms smallest.

    Ratio (r E + (m−1) r)/(m r) = (E + m − 1)/m, so ε' = ln(m(e^ε − 1) + 1) makes it e^ε.
    """
    r, m, published = sp.symbols("r m published", positive=True)
    weight = r / (E + r - 1)
    ratio = (weight * E + (m - 1) * weight) / (m * weight)
    assert same(ratio, (E + m - 1) / m)
    assert same(ratio.subs(E, m * (published - 1) + 1), published)


def prove_unequal_sizes_exceed_the_published_epsilon():
    """The same ratio with weights r_j/(E + r_j − 1), which grow with r_j: above (E + m − 1)/m for the largest attribute."""
    r = sp.Symbol("r", positive=True)
    assert same(sp.diff(r / (E + r - 1), r), (E - 1) / (E + r - 1) ** 2)
    for sizes in ((2, 2, 42), (2, 16), (9, 16, 7, 15, 6, 5, 2, 42, 2)):
        weights = [k / (E + k - 1) for k in sizes]
        largest = max(range(len(sizes)), key=lambda j: sizes[j])
        ratio = 1 + (E - 1) * weights[largest] / sum(weights)
        for value in (sp.Rational(3, 2), 3, 20, 1000):
            assert ratio.subs(E, value) > ((E + len(sizes) - 1) / len(sizes)).subs(E, value)


def prove_supports_and_variance():
    """Answers are true with probability 1/m: a − b = (p − q)/m; and C ~ Binomial(N, γ) gives γ(1−γ)/(N(a−b)²)."""
    p, q, c, m, pi, n, a, b = sp.symbols("p q c m pi n a b", positive=True)
    true, other = (p + (m - 1) * c) / m, (q + (m - 1) * c) / m
    assert same(true - other, (p - q) / m)
    gamma = b + pi * (a - b)
    assert same((gamma - b) / (a - b), pi)
    assert same(n * gamma * (1 - gamma) / (n * (a - b)) ** 2, gamma * (1 - gamma) / (n * (a - b) ** 2))
