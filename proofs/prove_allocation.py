"""Allocation: the convexity, the bound and the predicted errors it is based on (theory §3.2, §3.7).

- ln λ of randomized response is concave in ε, so that the best split of a total is a convex program.
- Where φ(v) = E_μ[(h−v)⁺] − y v ≤ 0 no noise distribution of total ε at most E has E_ν[h] > v, and the oracle's v is
  the largest value: in exact rationals, over all corners.
- G_U − Σ ‖π_W‖² is n times the expected squared error of the inverted table: in exact rationals.
- The cone over {λ : Σ c/λ² ≤ τ} is {κ, λ' : Σ c κ³/λ'² ≤ τ κ}.
- V of the two reports of sampling is the summed variance of their unbiased estimates for a uniform population.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import sympy as sp
from field_protocols import report_error
from published import subset_error

from optrr_solvers.allocation.lattice import KnapsackOracle
from optrr_solvers.allocation.questions import whole_table
from optrr_solvers.allocation.split import Blocks
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.partition import singles


def prove_the_log_eigenvalue_is_concave():
    x, rest = sp.symbols("x rest", positive=True)  # rest = R − 1
    value = sp.log((sp.exp(x) - 1) / (sp.exp(x) + rest))
    stated = -sp.exp(x) / (sp.exp(x) - 1) ** 2 - rest * sp.exp(x) / (sp.exp(x) + rest) ** 2
    assert sp.simplify(sp.diff(value, x, 2) - stated) == 0
    slope = sp.exp(x) / (sp.exp(x) - 1) - sp.exp(x) / (sp.exp(x) + rest)
    assert sp.simplify(sp.diff(value, x) - slope) == 0
    blocks = Blocks(np.log([7.0]), np.ones(1, dtype=np.int64), np.ones((1, 1)), np.zeros(1, dtype=np.int64))
    for point in (0.01, 0.5, 3.0, 20.0):
        at = {x: sp.Float(point, 40), rest: 6}
        # near λ = 1 both are differences of numbers near 1, good to a few roundings of those
        computed = float(blocks.log_eigenvalues(np.asarray([point]))[0]), float(blocks.slopes(np.asarray([point]))[0])
        assert math.isclose(float(value.subs(at)), computed[0], rel_tol=1e-12, abs_tol=1e-14)
        assert math.isclose(float(slope.subs(at)), computed[1], rel_tol=1e-12, abs_tol=1e-14)


def prove_a_value_with_phi_at_most_zero_bounds_every_law():
    """E_ν[h] − v = (z/y)(E_μ[t(h−v)] − y v) for ν = z μ (1 + t/y), E_μ h = 0; and t(h−v) ≤ (h−v)⁺."""
    y, v, z = sp.symbols("y v z", positive=True)
    mu = sp.symbols("mu0:3", positive=True)
    t = sp.symbols("t0:3", nonnegative=True)
    free = sp.symbols("h0:2", real=True)
    mu = (*mu[:2], 1 - mu[0] - mu[1])
    h = (*free, -(mu[0] * free[0] + mu[1] * free[1]) / mu[2])
    mass = [z * m * (1 + s / y) for m, s in zip(mu, t, strict=True)]
    normal = sp.solve(sum(mass) - 1, z)[0]
    goal = sum(p * g for p, g in zip(mass, h, strict=True)) - v
    stated = z / y * (sum(m * s * (g - v) for m, s, g in zip(mu, t, h, strict=True)) - y * v)
    assert sp.simplify((goal - stated).subs(z, normal)) == 0


def prove_the_oracle_finds_the_best_corner():
    generator = np.random.default_rng(1)
    for exponential in (Fraction(11, 10), Fraction(5, 2), Fraction(40)):
        y = 1 / (exponential - 1)
        mu = [Fraction(int(k), 64) for k in (1, 3, 7, 9, 20, 24)]
        for _ in range(10):
            h = [Fraction(int(k)) for k in generator.integers(-9, 10, len(mu))]
            mean = sum(m * g for m, g in zip(mu, h, strict=True))
            h = [g - mean for g in h]
            values = []
            for t in itertools.product((0, 1), repeat=len(mu)):
                inside = sum(m for m, s in zip(mu, t, strict=True) if s)
                values.append(sum(m * g for m, g, s in zip(mu, h, t, strict=True) if s) / (y + inside))
            best = max(values)
            # the largest value is the root of φ, hence no mixture of corners exceeds it
            assert sum(m * max(g - best, Fraction(0)) for m, g in zip(mu, h, strict=True)) == y * best
            oracle = KnapsackOracle(np.asarray(mu, dtype=np.float64), math.log(exponential))
            assert math.isclose(
                oracle.best(np.asarray(h, dtype=np.float64))[0], float(best), rel_tol=1e-12, abs_tol=1e-15
            )


def prove_the_predicted_error_is_that_of_the_inverse():
    sizes = (2, 3)
    records = list(itertools.product(*(range(r) for r in sizes)))
    law = {(0, 0): Fraction(1, 2), (0, 1): Fraction(1, 5), (1, 0): Fraction(1, 10), (1, 1): Fraction(1, 5)}
    matrix = sp.Matrix(6, 6, lambda a, b: sp.Rational(*_chance(law, sizes, records[a], records[b]).as_integer_ratio()))
    pi = sp.Matrix([sp.Rational(k, 21) for k in (1, 2, 3, 4, 5, 6)])
    observed = matrix.T * pi
    inverse = matrix.inv()
    error = (inverse.T * (sp.diag(*observed) - observed * observed.T) * inverse).trace()
    workload = TableWorkload(np.asarray(sizes), singles(2), ((0, 1),), np.ones(1))
    predicted = sp.Integer(0)
    for w, share in zip(workload.effects, workload.shares.toarray()[0], strict=True):
        lam = sum(p * math.prod(Fraction(-1, sizes[i] - 1) if s[i] else Fraction(1) for i in w) for s, p in law.items())
        exact = Fraction(math.prod(sizes[i] - 1 for i in w), 6)
        assert math.isclose(share, float(exact), rel_tol=1e-15)
        predicted += sp.Rational(*(exact / lam**2).as_integer_ratio())
    assert error == predicted - (sum(x**2 for x in pi) - sp.Rational(1, 6))


def _chance(law, sizes, a, b):
    change = tuple(int(x != y) for x, y in zip(a, b, strict=True))
    return law[change] / math.prod(r - 1 for r, c in zip(sizes, change, strict=True) if c)


def prove_the_cone_over_the_accurate_laws():
    c, kappa, lam, tau = sp.symbols("c kappa lambda tau", positive=True)
    inside = c / (lam / kappa) ** 2 - tau  # at λ = λ'/κ
    assert sp.simplify(kappa * inside - (c * kappa**3 / lam**2 - tau * kappa)) == 0


def prove_the_reports_of_sampling():
    """A report supports the true category with chance p, another with q; π̂ = (support − q)/(p − q), people drawn at random."""
    r, e, k = sp.symbols("r e k", positive=True)
    share = 1 / r  # of the population, in each category
    p = k * e / (k * e + r - k)
    reports = {
        "grr": (e / (e + r - 1), 1 / (e + r - 1), (1 - 1 / r) * ((e - 1 + r) / (e - 1)) ** 2),
        "oue": (sp.Rational(1, 2), 1 / (e + 1), 4 * r * e / (e - 1) ** 2 + 2 - 1 / r),
        # a subset of k holds each category with chance k/r when the true one is uniform
        "ss": (p, p * (k - 1) / (r - 1) + (1 - p) * k / (r - 1), None),
    }
    for name, (p, q, stated) in reports.items():
        chance = share * p + (1 - share) * q
        variance = r * chance * (1 - chance) / (p - q) ** 2
        if stated is not None:
            assert sp.simplify(variance - stated) == 0
        else:
            assert sp.simplify(chance - k / r) == 0
            # one category: randomized response
            assert sp.simplify(variance.subs(k, 1) - reports["grr"][2]) == 0
        for cells, epsilon in ((2, 0.5), (9, 3.0), (40, 1.0), (300, 0.2)):
            (size,) = whole_table((cells,), epsilon).subset_sizes
            values = {r: cells, e: sp.exp(sp.Float(epsilon, 40)), k: size}
            computed = subset_error(cells, epsilon) if name == "ss" else report_error(name, cells, epsilon)
            assert math.isclose(computed, float(variance.subs(values)), rel_tol=1e-12)


def prove_subset_selection_is_private():
    """A subset's chance depends only on whether it holds the true category, and the two chances are e^ε apart."""
    r, e, k = sp.symbols("r e k", positive=True)
    inside = k * e / (k * e + r - k)
    # C(r−1, k−1) subsets hold a category and C(r−1, k) do not; their ratio is (r−k)/k
    assert sp.simplify(inside / (1 - inside) * (r - k) / k - e) == 0
