"""POR's inductive step, its fallback, and the mass form of inductive.masses (POR §IV-B2, §IV-B3; theory §4.2).

Densities before the step x_0, x_j (j < k), after it y_0, y_j, y_k; 1 for two or more changes. p = Π_{j<k} r_j,
s = Σ_{j<k} r_j, s_0 = Σ_{j<k} (r_j−1) y_j, c = e^{ε_k}, r = r_k. Masses above the uniform answer: e_0 = (y_0−1)/p',
e_j = (r_j−1)(y_j−1)/p' with p' the product of the sizes at hand, E = e_0 + Σ e_j.
"""

import pytest
import sympy as sp

C = sp.Symbol("c", positive=True)


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def stage(earlier):
    """Sizes, densities before the step and the new size, all symbols, for ``earlier`` attributes."""
    r = sp.symbols(f"r1:{earlier + 1}", positive=True)
    x = sp.symbols(f"x1:{earlier + 1}", positive=True)
    return r, x, sp.Symbol("x0", positive=True), sp.Symbol("rk", positive=True)


def published_step(earlier):
    """POR's y_0, y_j, y_k from its two linear equations."""
    r, x, x0, rk = stage(earlier)
    k = earlier + 1
    y = [rk * v - rk + 1 for v in x]
    p, s = sp.prod(r), sum(r)
    s0 = sum((a - 1) * b for a, b in zip(r, y, strict=True))
    y0, yk = sp.symbols("y0 yk")
    equations = [y0 + (rk - 1) * yk - rk * x0, y0 - C * yk - (-s0 - p + s - k + 2 + C * (p - 1))]
    solution = sp.solve(equations, [y0, yk], dict=True)[0]
    return solution[y0], y, solution[yk]


def accuracy(sizes, none, single, i):
    """e^{ε_i}: outputs that keep attribute i against those with one particular other category of it (POR eq. 7)."""
    p = sp.prod(sizes)
    others = [j for j in range(len(sizes)) if j != i]
    kept_single = sum((sizes[j] - 1) * single[j] for j in others)
    kept_rest = p / sizes[i] - 1 - sum(sizes[j] - 1 for j in others)
    return (none + kept_single + kept_rest) / (single[i] + p / sizes[i] - 1)


def masses(sizes, none, single):
    p = sp.prod(sizes)
    return (none - 1) / p, [(a - 1) * (v - 1) / p for a, v in zip(sizes, single, strict=True)]


@pytest.mark.slow
def prove_the_step_meets_the_new_accuracy():
    for earlier in (2, 3, 4):
        r, _, _, rk = stage(earlier)
        y0, y, yk = published_step(earlier)
        assert same(accuracy([*r, rk], y0, [*y, yk], earlier), C)


@pytest.mark.slow
def prove_the_step_keeps_the_earlier_accuracies():
    for earlier in (2, 3, 4):
        r, x, x0, rk = stage(earlier)
        y0, y, yk = published_step(earlier)
        for i in range(earlier):
            assert same(accuracy([*r, rk], y0, [*y, yk], i), accuracy(r, x0, x, i))


def prove_masses_stay_and_the_new_one_is_split_off():
    """e_j stays, e_0 = e_0' + e_k: so E is settled by the first two attributes."""
    for earlier in (2, 3, 4):
        r, x, x0, rk = stage(earlier)
        y0, y, yk = published_step(earlier)
        none, single = masses(r, x0, x)
        after_none, after = masses([*r, rk], y0, [*y, yk])
        assert all(same(u, v) for u, v in zip(single, after[:-1], strict=True))
        assert same(after_none + after[-1], none)


def prove_the_new_mass_is_f_times_total_minus_the_gap():
    """e_k = f_k E − (d_k − f_k)."""
    for earlier in (2, 3, 4):
        r, x, x0, rk = stage(earlier)
        y0, y, yk = published_step(earlier)
        none, single = masses(r, x0, x)
        f, d = (rk - 1) / (rk - 1 + C), 1 - 1 / rk
        _, after = masses([*r, rk], y0, [*y, yk])
        assert same(after[-1], f * (none + sum(single)) - (d - f))


@pytest.mark.slow
def prove_a_mass_gives_the_flip_probability():
    """Attribute i changes with probability (e_i + d_i)/(1 + E), for any densities of this shape."""
    for m in (2, 3, 4):
        sizes = sp.symbols(f"r1:{m + 1}", positive=True)
        single = sp.symbols(f"y1:{m + 1}", positive=True)
        y0 = sp.Symbol("y0", positive=True)
        none, parts = masses(sizes, y0, single)
        for i in range(m):
            chance = (parts[i] + 1 - 1 / sizes[i]) / (1 + none + sum(parts))
            ratio = accuracy(sizes, y0, single, i)
            assert same(chance, (sizes[i] - 1) / (sizes[i] - 1 + ratio))


def prove_the_fallback_leaves_the_new_attribute_to_the_uniform_part():
    """y_0 = r x_0 − r + 1, y_k = 1 is e_k = 0 with e_0 kept; the earlier accuracies stay; the achieved one is POR's."""
    for earlier in (2, 3):
        r, x, x0, rk = stage(earlier)
        y, y0 = [rk * v - rk + 1 for v in x], rk * x0 - rk + 1
        none, single = masses(r, x0, x)
        after_none, after = masses([*r, rk], y0, [*y, sp.Integer(1)])
        assert same(after_none, none) and after[-1] == 0
        assert all(same(u, v) for u, v in zip(single, after[:-1], strict=True))
        for i in range(earlier):
            assert same(accuracy([*r, rk], y0, [*y, 1], i), accuracy(r, x0, x, i))
        s0 = sum((a - 1) * b for a, b in zip(r, y, strict=True))
        printed = (y0 + s0 + sp.prod(r) - sum(r) + (earlier + 1) - 2) / (1 + sp.prod(r) - 1)
        assert same(printed, accuracy([*r, rk], y0, [*y, 1], earlier))


def prove_the_fallback_test_in_masses():
    """1 ≤ y_k is e_k ≥ 0 and y_j ≤ y_0 is e_j/(r_j−1) ≤ e_0: both sides share the positive factor 1/p."""
    r, x, x0, _ = stage(3)
    none, single = masses(r, x0, x)
    for a, v, e in zip(r, x, single, strict=True):
        assert same(none - e / (a - 1), (x0 - v) / sp.prod(r))
        assert same(e / (a - 1), (v - 1) / sp.prod(r))


def prove_the_first_two_masses():
    """The two-attribute optimum already has the shape: "both change" has density 1 there (_first_two)."""
    a, b, x0, x1, x2 = sp.symbols("a b x0 x1 x2", positive=True)
    none, single = masses((a, b), x0, (x1, x2))
    total = x0 + (a - 1) * x1 + (b - 1) * x2 + (a - 1) * (b - 1)
    assert same((1 + none + sum(single)) * a * b, total)
