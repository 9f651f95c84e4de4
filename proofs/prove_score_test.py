"""The score form of the independence test (infer.score, theory §4.4).

With M_a = I − a 1ᵀ and π_0 = a ⊗ b the null fit:
1. (M_a ⊗ M_b) π_0 = 0, and it vanishes on every change of the margins, da ⊗ b and a ⊗ db: the margins' estimation costs
   nothing at first order. Up to second order it is π_ab − π_a π_b: exactly π_ab − π_a π_b + (π_a − a)(π_b − b).
2. The statistic of all contrasts equals Σ (λ̂ − λ_0)²/λ_0 wherever the fit solves the likelihood equations
   Jᵀ D⁻¹ (λ̂ − λ_0) = 0, because contrasts and margins together span all directions.

Symbolically for 2 × 2 and 3 × 2; the second claim in exact rationals, with a randomization that is not a product.
"""

from fractions import Fraction
from random import Random

import numpy as np
import sympy as sp

from optrr.core.inference.nullfit import NullFit, all_contrasts, influence
from optrr.core.mechanisms.kernel import MatrixKernel


def margin(name, r):
    free = sp.symbols(f"{name}:{r - 1}", positive=True)
    return sp.Matrix([*free, 1 - sum(free)])


def projector(a):
    return sp.eye(len(a)) - a * sp.ones(1, len(a))


def prove_margins_do_not_matter_at_first_order():
    for r_a, r_b in ((2, 2), (3, 2)):
        a, b = margin("a", r_a), margin("b", r_b)
        m = sp.kronecker_product(projector(a), projector(b))
        null = sp.kronecker_product(a, b)
        zero = sp.zeros(r_a * r_b, 1)
        assert sp.simplify(m * null) == zero
        for i in range(r_a - 1):
            change = sp.Matrix([int(k == i) - int(k == r_a - 1) for k in range(r_a)])
            assert sp.simplify(m * sp.kronecker_product(change, b)) == zero
        for j in range(r_b - 1):
            change = sp.Matrix([int(k == j) - int(k == r_b - 1) for k in range(r_b)])
            assert sp.simplify(m * sp.kronecker_product(a, change)) == zero


def prove_it_is_the_dependence_up_to_second_order():
    a, b = margin("a", 3), margin("b", 2)
    cells = sp.symbols("p:5")
    p = sp.Matrix(3, 2, [*cells, 1 - sum(cells)])
    rows, columns = p * sp.ones(2, 1), (sp.ones(1, 3) * p).T
    linear = (sp.kronecker_product(projector(a), projector(b)) * sp.Matrix(6, 1, list(p))).reshape(3, 2)
    exact = p - rows * columns.T + (rows - a) * (columns - b).T
    assert sp.simplify(linear - exact) == sp.zeros(3, 2)


def rational(matrix):
    return sp.Matrix([[sp.Rational(x.numerator, x.denominator) for x in row] for row in matrix])


def prove_rao_equals_pearson_at_the_fit():
    random = Random(1)
    a, b = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)], [Fraction(2, 3), Fraction(1, 3)]
    # a row-stochastic matrix that is no product: mostly the truth, the rest anywhere
    noise = [[Fraction(random.randint(1, 9)) for _ in range(6)] for _ in range(6)]
    half = Fraction(1, 2)
    p = rational([[half * (u == v) + half * x / sum(row) for v, x in enumerate(row)] for u, row in enumerate(noise)])
    null = sp.kronecker_product(rational([a]).T, rational([b]).T)
    expected = p.T * null
    d = sp.diag(*[1 / x for x in expected])
    tangents = [
        sp.kronecker_product(sp.Matrix([1, 0, -1]), rational([b]).T),
        sp.kronecker_product(sp.Matrix([0, 1, -1]), rational([b]).T),
        sp.kronecker_product(rational([a]).T, sp.Matrix([1, -1])),
    ]
    j = p.T * sp.Matrix.hstack(*tangents)
    # residuals that sum to 0 and solve the likelihood equations
    residual = sp.Matrix.vstack(sp.ones(1, 6), j.T * d).nullspace()
    assert len(residual) == 2
    m = sp.kronecker_product(projector(rational([a]).T), projector(rational([b]).T))
    contrasts = sp.Matrix([[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]])
    psi = contrasts * m * p.T.inv()
    covariance = psi * sp.diag(*expected) * psi.T
    for x in (residual[0], residual[1], residual[0] + 2 * residual[1]):
        delta = psi * x
        assert (delta.T * covariance.inv() * delta)[0] == (x.T * d * x)[0]
    fit = NullFit(np.array([a], float), np.array([b], float), np.array(expected.tolist(), float).reshape(1, 3, 2))
    kernel = MatrixKernel(np.array(p.tolist(), float), (3, 2))
    got = influence(fit, kernel, all_contrasts(3, 2))[0]
    np.testing.assert_allclose(got, np.array(psi.tolist(), float), atol=1e-12)
