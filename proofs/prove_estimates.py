"""Errors of the unbiased estimate, the likelihood's stopping bound, and the closed form for one attribute.

1. Expected squared error (estimate.accuracy.expected_squared_error, theory §3.2). With P diagonal in effects and symmetric,
   n E‖π̂ − π‖² = tr(P⁻¹ diag(λ) P⁻¹) − ‖π‖². P⁻² has the same diagonal entry in every cell, tr(P⁻²)/R = Σ c_W/λ_W², because
   the projection on effect W has trace Π_{i∈W}(r_i−1) = R c_W and equal diagonal entries; and Σ λ_v = 1. ‖π‖² = Σ ‖π_W‖²,
   and the W = ∅ terms cancel: c_∅ = ‖π_∅‖² = 1/R. With the data fixed, Σ_u π_u P_u P_uᵀ replaces λλᵀ, and its share is
   Σ_u π_u ‖P⁻¹P_u‖² = Σ π_u = 1 = Σ c_W.
2. Stopping (estimate.likelihood.ibu): ℓ is concave with gradient g and Σ π g = 1, so ℓ(π*) − ℓ(π) ≤ Σ (π*−π) g ≤ max g − 1.
3. Closed form (estimate.likelihood.closed_form): λ_v = max(q, λ̂_v/c) satisfies the conditions of Karush, Kuhn and Tucker.

Numbers are exact rationals.
"""

import itertools
from fractions import Fraction
from random import Random

import numpy as np
import sympy as sp

from optrr.core.estimation.accuracy import effect_weights, expected_squared_error
from optrr.core.estimation.likelihood import closed_form
from optrr.core.mechanisms.kernel import EffectKernel

SHAPES = ((2,), (4,), (2, 2), (3, 2), (2, 2, 3))


def eigenvalues(m, random):
    return {
        w: Fraction(random.randint(1, 9), 10) if any(w) else Fraction(1) for w in itertools.product((0, 1), repeat=m)
    }


def exact_matrix(sizes, lam):
    """Σ_W λ_W ⊗ (C_i or M_i) as a sympy matrix."""
    total = sp.zeros(int(np.prod(sizes)))
    for w, value in lam.items():
        product = sp.eye(1)
        for r, inside in zip(sizes, w, strict=True):
            mean = sp.ones(r, r) / r
            product = sp.kronecker_product(product, sp.eye(r) - mean if inside else mean)
        total += sp.Rational(value.numerator, value.denominator) * product
    return total


def distribution(cells, random):
    parts = [random.randint(1, 9) for _ in range(cells)]
    return sp.Matrix([sp.Rational(x, sum(parts)) for x in parts])


def prove_expected_squared_error():
    random = Random(4)
    for sizes in SHAPES:
        lam = eigenvalues(len(sizes), random)
        p = exact_matrix(sizes, lam)
        inverse, cells = p.inv(), int(np.prod(sizes))
        pi = distribution(cells, random)
        seen = p * pi
        population = (inverse * (sp.diag(*seen) - seen * seen.T) * inverse).trace()
        fixed = sum((pi[u] * (sp.diag(*p[:, u]) - p[:, u] * p[:, u].T) for u in range(cells)), sp.zeros(cells))
        data = (inverse * fixed * inverse).trace()
        weight = {w: sp.prod([r - 1 for r, i in zip(sizes, w, strict=True) if i]) / sp.Integer(cells) for w in lam}
        square = {w: 1 / sp.Rational(v.numerator, v.denominator) ** 2 for w, v in lam.items()}
        norms = sum(x**2 for x in pi) - sp.Rational(1, cells)
        proper = [w for w in lam if any(w)]
        assert sum(weight.values()) == 1
        assert population == sum(weight[w] * square[w] for w in proper) - norms
        assert data == sum(weight[w] * (square[w] - 1) for w in proper)
        values = np.array([float(lam[w]) for w in itertools.product((0, 1), repeat=len(sizes))])
        kernel = EffectKernel(sizes, values.reshape((2,) * len(sizes)))
        table = np.array(pi.tolist(), dtype=float).reshape(sizes)
        np.testing.assert_allclose(expected_squared_error(kernel, 7, table), float(population) / 7, rtol=1e-12)
        np.testing.assert_allclose(expected_squared_error(kernel, 7, target="data"), float(data) / 7, rtol=1e-12)
        np.testing.assert_allclose(effect_weights(kernel).sum(), 1)


def prove_the_stopping_bound():
    """Σ π_u g_u = Σ_v λ̂_v (Σ_u π_u P_uv)/λ_v = 1, and ln y ≤ y − 1 gives the tangent's bound for every π*."""
    y = sp.Symbol("y", positive=True)
    # ln y − (y − 1) has its only stationary point, a maximum of 0, at y = 1
    f = sp.log(y) - (y - 1)
    assert sp.solve(sp.diff(f, y), y) == [1] and f.subs(y, 1) == 0 and sp.diff(f, y, 2).subs(y, 1) < 0
    # ℓ(π*) − ℓ(π) = Σ λ̂ ln(λ*/λ) ≤ Σ λ̂ (λ*/λ − 1) = Σ_u π*_u g_u − 1 ≤ max g − 1; the equality, exactly:
    random = Random(5)
    p = exact_matrix((3, 2), eigenvalues(2, random))
    pi, other, seen = (distribution(6, random) for _ in range(3))
    lam, lam_other = p * pi, p * other
    gradient = p * sp.Matrix([a / b for a, b in zip(seen, lam, strict=True)])
    assert (pi.T * gradient)[0] == 1
    linear = sum(s * (a / b - 1) for s, a, b in zip(seen, lam_other, lam, strict=True))
    assert linear == (other.T * gradient)[0] - 1


def exact_closed_form(seen, q):
    """Water filling in rationals, by trying every number of cells above q: the one that satisfies all conditions."""
    r = len(seen)
    order = sorted(range(r), key=lambda v: -seen[v])
    answers = []
    for k in range(1, r + 1):
        c = sum(seen[v] for v in order[:k]) / (1 - (r - k) * q)
        lam = [max(q, x / c) for x in seen]
        if sum(lam) == 1 and c > 0:
            answers.append((lam, c))
    return answers


def prove_the_closed_form_is_optimal():
    """KKT of max Σ λ̂ ln λ over λ ≥ q, Σλ = 1: λ̂_v/λ_v = c where λ_v > q, ≤ c where λ_v = q. Concave, so sufficient."""
    random = Random(6)
    for _ in range(60):
        r = random.randint(2, 6)
        counts = [random.randint(0, 20) for _ in range(r)]
        counts[0] += 1
        seen = [Fraction(x, sum(counts)) for x in counts]
        q = Fraction(1, r) * Fraction(random.randint(1, 9), 10)
        answers = exact_closed_form(seen, q)
        assert answers and all(lam == answers[0][0] for lam, _ in answers)
        lam, c = answers[0]
        for x, value in zip(seen, lam, strict=True):
            assert x / value == c if value > q else x / value <= c
        shrink = 1 - r * q
        kernel = EffectKernel((r,), [1.0, float(shrink)])
        exact = [float((value - q) / shrink) for value in lam]
        np.testing.assert_allclose(
            closed_form([float(x) for x in seen], float(kernel.cell_probabilities[1])), exact, atol=1e-12
        )
