"""The inverse of P by effects (theory §3.2; laws.base.effect_transform, optrr.core.mechanisms.kernel.EffectKernel).

One axis of size r: with I the identity and J the all-ones matrix, M = J/r averages and C = I − M subtracts the mean.
A change of that axis replaces I by (J − I)/(r−1), whose eigenvalue is χ = −1/(r−1) on C and 1 on M. So P is diagonal:

    P = Σ_W λ_W ⊗_{i∈W} C_i ⊗_{i∉W} M_i,   P^{-1} = Σ_W λ_W^{-1} ⊗_{i∈W} C_i ⊗_{i∉W} M_i,   λ_W = E_ν[Π_{i∈W} χ_i].

Symbolically for one generic axis in the algebra spanned by I and J (J² = rJ), in exact rationals for several shapes.
"""

import itertools
from fractions import Fraction
from random import Random

import numpy as np
import sympy as sp

from optrr.core.mechanisms.kernel import EffectKernel
from optrr_solvers.laws.base import effect_transform, inverse_effect_transform

R = sp.Symbol("r", positive=True)
SHAPES = ((2,), (5,), (2, 2), (2, 3), (4, 3), (2, 2, 2), (3, 2, 2), (2, 2, 2, 2))


def times(x, y):
    """(x_0 I + x_1 J)(y_0 I + y_1 J) as coefficients of I and J."""
    return (sp.expand(x[0] * y[0]), sp.simplify(x[0] * y[1] + x[1] * y[0] + R * x[1] * y[1]))


ONE, MEAN = (sp.Integer(1), sp.Integer(0)), (sp.Integer(0), 1 / R)
CENTRE = (sp.Integer(1), -1 / R)
MOVED = (-1 / (R - 1), 1 / (R - 1))


def equal(x, y):
    return all(sp.simplify(u - v) == 0 for u, v in zip(x, y, strict=True))


def scaled(k, x):
    return tuple(k * v for v in x)


def prove_mean_and_centre_are_complementary_projections():
    assert equal(times(MEAN, MEAN), MEAN) and equal(times(CENTRE, CENTRE), CENTRE)
    assert equal(times(MEAN, CENTRE), (0, 0))
    assert equal(tuple(u + v for u, v in zip(MEAN, CENTRE, strict=True)), ONE)


def prove_a_change_is_diagonal_on_one_axis():
    assert equal(times(MOVED, MEAN), MEAN)
    assert equal(times(MOVED, CENTRE), scaled(-1 / (R - 1), CENTRE))


def prove_one_axis_is_inverted():
    f, lam = sp.symbols("f lambda", positive=True)
    p = tuple((1 - f) * u + f * v for u, v in zip(ONE, MOVED, strict=True))
    assert equal(p, tuple(u + (1 - f * R / (R - 1)) * v for u, v in zip(MEAN, CENTRE, strict=True)))
    spectral = tuple(u + lam * v for u, v in zip(MEAN, CENTRE, strict=True))
    inverse = tuple(u + v / lam for u, v in zip(MEAN, CENTRE, strict=True))
    assert equal(times(spectral, inverse), ONE)


def prove_the_two_transforms_of_one_axis_are_inverse():
    forward = sp.Matrix([[1, 1], [1, -1 / (R - 1)]])
    back = sp.Matrix([[1 / R, (R - 1) / R], [(R - 1) / R, -(R - 1) / R]])
    assert sp.simplify(forward * back) == sp.eye(2)


def random_law(sizes, seed):
    draw = Random(seed)
    weights = {s: Fraction(draw.randint(1, 1000)) for s in itertools.product((0, 1), repeat=len(sizes))}
    total = sum(weights.values())
    return {s: w / total for s, w in weights.items()}


def whole_matrix(sizes, law):
    """P over all records in rationals: ν_S spread evenly over its outputs."""
    records = list(itertools.product(*(range(r) for r in sizes)))
    return [[share(sizes, law, u, v) for v in records] for u in records]


def share(sizes, law, u, v):
    s = tuple(int(x != y) for x, y in zip(u, v, strict=True))
    return law[s] / int(np.prod([r - 1 for r, changed in zip(sizes, s, strict=True) if changed]))


def eigenvalue(sizes, law, w):
    out = Fraction(0)
    for s, chance in law.items():
        term = chance
        for r, changed, inside in zip(sizes, s, w, strict=True):
            term *= Fraction(-1, r - 1) if changed and inside else 1
        out += term
    return out


def effects(sizes, factor):
    """Σ_W factor(W) ⊗ (C_i or M_i), in rationals."""
    records = list(itertools.product(*(range(r) for r in sizes)))
    out = [[Fraction(0)] * len(records) for _ in records]
    for w in itertools.product((0, 1), repeat=len(sizes)):
        k = factor(w)
        for a, u in enumerate(records):
            for b, v in enumerate(records):
                entry = k
                for r, inside, x, y in zip(sizes, w, u, v, strict=True):
                    entry *= Fraction(int(x == y)) - Fraction(1, r) if inside else Fraction(1, r)
                out[a][b] += entry
    return out


def product(x, y):
    return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in zip(*y, strict=True)] for row in x]


def prove_the_decomposition_inverts_p_in_rationals():
    for sizes in SHAPES:
        law = random_law(sizes, sum(sizes))
        p = whole_matrix(sizes, law)
        lam = {w: eigenvalue(sizes, law, w) for w in itertools.product((0, 1), repeat=len(sizes))}
        assert all(value != 0 for value in lam.values())
        assert p == effects(sizes, lambda w, lam=lam: lam[w])
        inverse = effects(sizes, lambda w, lam=lam: 1 / lam[w])
        n = len(p)
        assert product(p, inverse) == [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]


def prove_the_code_computes_these_eigenvalues():
    """Within rounding: entries are at most 1, and each axis adds a few roundings."""
    for sizes in SHAPES:
        law = random_law(sizes, 7)
        table = np.array([float(law[s]) for s in sorted(law)]).reshape((2,) * len(sizes))
        computed = effect_transform(table, np.array(sizes))
        for w in law:
            assert abs(computed[w] - float(eigenvalue(sizes, law, w))) < 1e-14
        back = inverse_effect_transform(computed, np.array(sizes))
        assert np.abs(back - table).max() < 1e-14


def prove_mean_and_deviations_are_the_two_projections():
    """[mean, first r−1 deviations] scaled by (1, λ) and taken back is M + λ C, for explicit sizes and a symbolic table."""
    lam = sp.Symbol("lambda")
    for r in (2, 3, 5):
        x = sp.Matrix(sp.symbols(f"x1:{r + 1}"))
        mean = sum(x) / r
        deviations = [lam * (x[k] - mean) for k in range(r - 1)]
        back = sp.Matrix([mean + v for v in deviations] + [mean - sum(deviations)])
        spectral = sp.ones(r, r) / r + lam * (sp.eye(r) - sp.ones(r, r) / r)
        assert sp.simplify(back - spectral * x) == sp.zeros(r, 1)


def prove_the_kernel_applies_the_exact_inverse():
    """P, P^{-1} and elementwise powers of P^{-1}, against rationals; the inverse's entries are below 1e4 here."""
    for sizes in SHAPES:
        law = random_law(sizes, sum(sizes))
        table = np.array([float(law[s]) for s in sorted(law)]).reshape((2,) * len(sizes))
        kernel = EffectKernel(sizes, effect_transform(table, np.array(sizes)))
        lam = {w: eigenvalue(sizes, law, w) for w in law}
        exact = np.array([[float(x) for x in row] for row in effects(sizes, lambda w, lam=lam: 1 / lam[w])])
        p = np.array([[float(x) for x in row] for row in whole_matrix(sizes, law)])
        scale = np.abs(exact).max()
        assert scale < 1e4
        assert np.abs(kernel.matrix() - p).max() < 1e-14
        assert np.abs(kernel.inverse() - exact).max() < 1e-13 * scale**2
        unit = np.eye(kernel.cells).reshape(-1, *sizes)
        for power in (2, 3, 4):
            computed = kernel.solve_power(unit, power).reshape(kernel.cells, -1)
            assert np.abs(computed - exact**power).max() < 1e-12 * scale ** (power + 1)
