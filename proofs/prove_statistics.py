"""Gradients and second derivatives of the derived statistics (optrr.core.estimation.statistics, RVL §5.2), symbolically.

φ² is a sum of h(x, r, c) over all or some cells, x the cell, r and c its row's and column's sum: first and second derivatives
of h, and the chain rule on a whole table with symbols in its cells. Pearson correlation: the gradient in standardised scores,
and the second derivatives in the five moments it depends on. x ln x: the first terms of the correction of smoothing by
normal noise.
"""

import itertools

import numpy as np
import pytest
import sympy as sp

from optrr.core.estimation.statistics import LAST_KNOT, _phi_terms, debiased, pearson_correlation, phi_squared

X, ROW, COLUMN = sp.symbols("x r c", positive=True)
NAMES = ("x", "r", "c", "xx", "rr", "cc", "xr", "xc", "rc")
WITH_RESPECT_TO = {"x": X, "r": ROW, "c": COLUMN}

# Exact decimals for every point where code and symbols are compared.
POINTS = ((0.2, 0.5, 0.3), (0.07, 0.21, 0.4), (0.01, 0.9, 0.02))


def same(a, b):
    return sp.simplify(a - b) == 0


def derivative(h, name):
    out = h
    for letter in name:
        out = sp.diff(out, WITH_RESPECT_TO[letter])
    return out


def terms_agree(function, h, offset):
    """Every stored derivative of ``function`` is the symbolic one at the points, up to terms that cancel in the sum."""
    for point in POINTS:
        at = dict(zip((X, ROW, COLUMN), map(sp.Float, point), strict=True))
        got = function(*(np.array([[v]]) for v in point))
        for name in NAMES:
            wanted = float((derivative(h + offset, name)).subs(at))
            np.testing.assert_allclose(getattr(got, name), wanted, rtol=1e-12, atol=1e-14, err_msg=name)


def prove_phi_terms():
    h = (X - ROW * COLUMN) ** 2 / (ROW * COLUMN)
    share = X / (ROW * COLUMN)
    wanted = {
        "x": 2 * (share - 1),
        "r": COLUMN - X * share / ROW,
        "c": ROW - X * share / COLUMN,
        "xx": 2 / (ROW * COLUMN),
        "rr": 2 * X * share / ROW**2,
        "cc": 2 * X * share / COLUMN**2,
        "xr": -2 * share / ROW,
        "xc": -2 * share / COLUMN,
        "rc": 1 + share**2,
    }
    assert all(same(derivative(h, name), value) for name, value in wanted.items())
    terms_agree(_phi_terms, h, 0)


def table(r_a, r_b):
    return [[sp.Symbol(f"p{a}{b}", positive=True) for b in range(r_b)] for a in range(r_a)]


def sums(p):
    return [sum(row) for row in p], [sum(column) for column in zip(*p, strict=True)]


def phi(p):
    r, c = sums(p)
    return sum((p[a][b] - r[a] * c[b]) ** 2 / (r[a] * c[b]) for a, b in itertools.product(range(len(r)), range(len(c))))


SOME = np.array([[True, False], [True, False], [False, False]])


def part_of_phi(p):
    r, c = sums(p)
    return sum((p[a][b] - r[a] * c[b]) ** 2 / (r[a] * c[b]) for a, b in np.argwhere(SOME))


def correlation(p):
    r, c = sums(p)
    x, y = SCORES
    mean_x = sum(a * b for a, b in zip(r, x, strict=True))
    mean_y = sum(a * b for a, b in zip(c, y, strict=True))
    both = sum(p[a][b] * x[a] * y[b] for a, b in itertools.product(range(len(r)), range(len(c))))
    spread_x = sum(a * b**2 for a, b in zip(r, x, strict=True)) - mean_x**2
    spread_y = sum(a * b**2 for a, b in zip(c, y, strict=True)) - mean_y**2
    return (both - mean_x * mean_y) / sp.sqrt(spread_x * spread_y)


SCORES = ((0, 1, 3), (1, 2))
VALUES = np.array([[0.25, 0.1], [0.05, 0.3], [0.2, 0.1]])
# Columns sum to 0: directions that keep the sum of proportions.
ROOT = np.array([[3, 1], [-1, 2], [2, -2], [-4, 1], [1, -3], [-1, 1]]) / 100


def whole_table_agrees(formula, function):
    """Value, and gradient and second derivatives along directions that keep the sum, from symbols in all cells."""
    p = table(3, 2)
    cells = list(itertools.chain(*p))
    f = formula(p)
    at = dict(zip(cells, map(sp.Float, VALUES.ravel()), strict=True))
    slopes = [sp.diff(f, v) for v in cells]
    gradient = np.array([float(slope.subs(at)) for slope in slopes])
    # second derivatives do not depend on the order, so half of them are enough
    upper = np.array(
        [[float(sp.diff(g, w).subs(at)) if j >= i else 0.0 for j, w in enumerate(cells)] for i, g in enumerate(slopes)]
    )
    hessian = upper + np.triu(upper, 1).T
    got = function(VALUES)
    np.testing.assert_allclose(got.value, float(f.subs(at)), rtol=1e-12)
    np.testing.assert_allclose(got.gradient @ ROOT, gradient @ ROOT, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ROOT.T @ got.hessian @ ROOT, ROOT.T @ hessian @ ROOT, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def prove_phi_squared_on_a_whole_table():
    whole_table_agrees(phi, phi_squared)
    whole_table_agrees(part_of_phi, lambda p: phi_squared(p, SOME))


def prove_what_undoes_smoothing():
    """E g(y + Z) = Σ g⁽²ᵏ⁾(y)/(2ᵏ k!), so h − h″/2 + h⁗/8 has mean h up to sixth derivatives; and its derivatives, in code."""
    y = sp.Symbol("y", positive=True)
    h = y * sp.log(y)
    undone = h - sp.diff(h, y, 2) / 2 + sp.diff(h, y, 4) / 8
    assert same(undone, h - 1 / (2 * y) + 1 / (4 * y**3))
    mean = sum(sp.diff(undone, y, 2 * k) / (2**k * sp.factorial(k)) for k in range(3))
    assert sp.limit((mean - h) * y**4, y, sp.oo) == 0
    for order in range(3):
        for point in (LAST_KNOT + 0.5, 7.25, 40.0):
            wanted = float(sp.diff(undone, y, order).subs(y, sp.Float(point)))
            np.testing.assert_allclose(debiased(np.array([point]), order), wanted, rtol=1e-12)


@pytest.mark.slow
def prove_pearson_correlation():
    """ρ of moments, at standardised scores: m_u = m_v = 0, m_uu = m_vv = 1, m_uv = ρ."""
    u, v, uu, vv, uv, rho = sp.symbols("u v uu vv uv rho")
    g = (uv - u * v) / sp.sqrt((uu - u**2) * (vv - v**2))
    standard = {u: 0, v: 0, uu: 1, vv: 1, uv: rho}

    def at(*letters):
        return sp.simplify(sp.diff(g, *letters).subs(standard))

    assert (at(u), at(v), at(uu), at(vv), at(uv)) == (0, 0, -rho / 2, -rho / 2, 1)
    second = {
        (u, u): rho,
        (v, v): rho,
        (u, v): -1,
        (uu, uu): sp.Rational(3, 4) * rho,
        (vv, vv): sp.Rational(3, 4) * rho,
    }
    second |= {(uu, vv): rho / 4, (uu, uv): -sp.Rational(1, 2), (vv, uv): -sp.Rational(1, 2), (uv, uv): 0}
    second |= {(a, b): 0 for a in (u, v) for b in (uu, vv, uv)}
    assert all(same(at(*pair), value) for pair, value in second.items())
    scores = tuple(np.array(s, dtype=float) for s in SCORES)
    whole_table_agrees(correlation, lambda p: pearson_correlation(p, scores))
