"""Kronecker's ε, conditional ε, marginals and eigenvalues (POR eq. 1; kronecker.solve, laws.ProductLaw).

By induction over attributes: the noise distribution of m + 1 attributes is that of m times one factor, so each claim
needs one step with a generic head. The head has densities q (largest q_max, smallest q_min), n_S outputs per change
set.
"""

import itertools

import sympy as sp

R, C = sp.symbols("r c", positive=True)


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_one_attribute_has_the_requested_accuracy():
    """Kept c/(r−1+c), each other category 1/(r−1+c): a distribution, with ratio c = e^ε; f = (r−1)/(r−1+c)."""
    kept, other = C / (R - 1 + C), 1 / (R - 1 + C)
    assert same(kept + (R - 1) * other, 1)
    assert same(kept / other, C)
    assert same((R - 1) * other, (R - 1) / (R - 1 + C))
    # λ = 1 − f/d
    assert same(kept - other, 1 - ((R - 1) * other) / (1 - 1 / R))


def prove_epsilons_add_up():
    """Step: the extremes of q·{c, 1} with c ≥ 1 are c·q_max and q_min, so ln of their ratio grows by exactly ε."""
    top, bottom, extra = sp.symbols("q_max q_min extra", nonnegative=True)
    c = 1 + extra
    products = [q * factor for q in (bottom, bottom + top) for factor in (c, 1)]
    largest, smallest = c * (bottom + top), bottom
    for q in products:
        for difference in (largest - q, q - smallest):
            assert all(k >= 0 for k in sp.Poly(sp.expand(difference), top, bottom, extra).coeffs())
    assert largest in products and smallest in products


def prove_conditional_epsilon_is_the_attribute_s_own():
    """ln q_S/q_{S∪i} = ε_i for every S of the others, whatever they are."""
    q_rest = sp.Symbol("q_rest", positive=True)
    assert same((q_rest * C) / (q_rest * 1), C)


def prove_the_marginal_of_any_subset_is_the_product_of_its_members():
    """Summing a factor over its outputs gives 1, so the others' law is untouched; explicitly for three attributes."""
    r = sp.symbols("r1:4", positive=True)
    c = sp.symbols("c1:4", positive=True)
    rows = [(ci / (ri - 1 + ci), (ri - 1) / (ri - 1 + ci)) for ri, ci in zip(r, c, strict=True)]
    law = {s: sp.prod([rows[i][s[i]] for i in range(3)]) for s in itertools.product((0, 1), repeat=3)}
    assert same(sum(law.values()), 1)
    for subset in ((0,), (1,), (0, 1), (0, 2), (1, 2)):
        for pattern in itertools.product((0, 1), repeat=len(subset)):
            total = sum(v for s, v in law.items() if tuple(s[i] for i in subset) == pattern)
            assert same(total, sp.prod([rows[i][k] for i, k in zip(subset, pattern, strict=True)]))


def prove_eigenvalues_multiply():
    """λ_U = Π λ_i: independent changes, so expectations multiply; explicitly for three attributes."""
    r = sp.symbols("r1:4", positive=True)
    c = sp.symbols("c1:4", positive=True)
    rows = [(ci / (ri - 1 + ci), (ri - 1) / (ri - 1 + ci)) for ri, ci in zip(r, c, strict=True)]
    single = [kept - changed / (ri - 1) for (kept, changed), ri in zip(rows, r, strict=True)]
    for subset in ((0, 1), (0, 2), (0, 1, 2)):
        total = sum(
            sp.prod([rows[i][s[i]] for i in range(3)]) * sp.prod([1 if not s[i] else -1 / (r[i] - 1) for i in subset])
            for s in itertools.product((0, 1), repeat=3)
        )
        assert same(total, sp.prod([single[i] for i in subset]))
