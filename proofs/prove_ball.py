"""The ball design's three claims (theory §3.3, §3.5): its ratio, its stationarity, and the dynamic program's error.

- A mixture of weighted balls, weights rounded at random, has t_S in [0, 1], so the density 1 + (Q−1)t has Q as its exact
  bound, reached where t takes 0 and 1.
- At the minimum of the smoothed dual (f_i τ − c_i)/(d_i−f_i) is one number ρ for all i; then the ball mixed with the uniform
  answer has flips f_i exactly and 1/(Q−1) = ρ. Newton's matrix is the second derivative.
- Heavy attributes that never change inside are, in the dual function, one attribute that never changes.
- A sum of products of nonnegative numbers, k operations deep, is computed to a factor (1+u)^k: the dynamic program's bound.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from optrr_solvers.laws.totals import ROUNDINGS, Steps, last_row


def prove_a_mixture_of_balls_has_q_as_its_ratio():
    """Exact rationals: every change set's t is a convex combination of levels; the extremes are 0 and 1."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        m, big = 4, Fraction(int(rng.integers(2, 50)))
        shares = [Fraction(int(x), 10) for x in rng.multinomial(10, [0.5, 0.5])]
        balls = [
            (rng.integers(1, 9, m).tolist(), [Fraction(x, 8) for x in rng.integers(0, 8, m).tolist()], int(rng.integers(1, 12)))
            for _ in shares
        ]  # fmt: skip
        densities = []
        for s in itertools.product((0, 1), repeat=m):
            t = Fraction(0)
            for share, (a, b, radius) in zip(shares, balls, strict=True):
                for up in itertools.product((0, 1), repeat=m):
                    chance = Fraction(1)
                    for x, u in zip(b, up, strict=True):
                        chance *= x if u else 1 - x
                    total = sum((w + u) * c for w, u, c in zip(a, up, s, strict=True))
                    t += share * chance * (total < radius)
            assert 0 <= t <= 1
            densities.append(1 + (big - 1) * t)
        assert densities[0] == big and min(densities) >= 1
        if all(sum(a) >= radius for a, _, radius in balls):
            assert max(densities) / min(densities) == big


def prove_stationarity_is_feasibility():
    """∂/∂w_i [ln φ − ln w·g] = 0 with ∂φ/∂w_i = f_i τ − c_i gives f_i τ − c_i = ρ g_i, and then the flips are f_i."""
    f, d, tau, c, phi, w_g = sp.symbols("f d tau c phi w_g", positive=True)
    g = d - f
    rho = phi / w_g
    stationary = sp.Eq((f * tau - c) / phi - g / w_g, 0)
    changed = sp.solve(stationary, c)[0]
    assert sp.simplify(changed - (f * tau - rho * g)) == 0
    # Q − 1 = 1/ρ; the mechanism's flip is E_μ[q 1_i]/E_μ[q]
    q = 1 + 1 / rho
    flip = (d + (q - 1) * changed) / (1 + (q - 1) * tau)
    assert sp.simplify(flip - f) == 0
    # a larger ratio at another attribute only lowers its flip
    more = sp.Symbol("more", positive=True)
    lower = (d + (q - 1) * (changed - more * g)) / (1 + (q - 1) * tau)
    assert sp.simplify((f - lower) - (q - 1) * more * g / (1 + (q - 1) * tau)) == 0


def prove_pooled_heavy_attributes_are_one_that_never_changes():
    """Exact rationals: with w_h ≥ K for every heavy h, E_μ[(K−X)⁺] is Pr(all heavy kept) times the light ones' own mean."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        light, heavy = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        d = [Fraction(int(r) - 1, int(r)) for r in rng.integers(2, 8, light + heavy)]
        w = [Fraction(int(x)) for x in rng.integers(1, 9, light)]
        radius = Fraction(int(rng.integers(1, 15)))
        w += [radius + int(x) for x in rng.integers(0, 5, heavy)]

        def mean(sets, d=d, w=w, radius=radius):
            out = Fraction(0)
            for s in sets:
                chance = Fraction(1)
                for x, c in zip(d, s, strict=False):
                    chance *= x if c else 1 - x
                total = sum(x * c for x, c in zip(w, s, strict=False))
                out += chance * max(radius - total, Fraction(0))
            return out

        kept = Fraction(1)
        for x in d[light:]:
            kept *= 1 - x
        whole = mean(itertools.product((0, 1), repeat=light + heavy))
        assert whole == kept * mean(itertools.product((0, 1), repeat=light))


def prove_the_smoothed_dual_has_the_stated_derivatives():
    """ψ' = Φ(y/h), ψ'' = n(y/h)/h, so each term of φ_h is convex in w."""
    y, h = sp.symbols("y h", positive=True)
    normal = sp.exp(-((y / h) ** 2) / 2) / sp.sqrt(2 * sp.pi)
    distribution = (1 + sp.erf(y / h / sp.sqrt(2))) / 2
    psi = y * distribution + h * normal
    assert sp.simplify(sp.diff(psi, y) - distribution) == 0
    assert sp.simplify(sp.diff(psi, y, 2) - normal / h) == 0


@pytest.mark.slow
def prove_its_laplace_transform():
    """E e^{−s(Z)}-smoothing: ∫ e^{−sy} n(y/h)/h dy = e^{s²h²/2}, and each integration divides by s."""
    y, s, h = sp.symbols("y s h", positive=True)
    bell = sp.exp(-(y**2) / (2 * h**2)) / (h * sp.sqrt(2 * sp.pi))
    transform = sp.integrate(bell * sp.exp(-s * y), (y, -sp.oo, sp.oo))
    assert sp.simplify(transform - sp.exp(s**2 * h**2 / 2)) == 0


def prove_the_error_bound_of_the_dynamic_program():
    """Against the same recursion in rationals, with the program's own weights: each step is three products and two sums."""
    u = Fraction(1, 1 << 53)
    rng = np.random.default_rng(1)
    for _ in range(5):
        m = 12
        steps = Steps.of(rng.integers(1, 9, m), rng.random(m), np.log(rng.integers(1, 9, m).astype(float)), 0.3)
        exact = {0: Fraction(1)}
        for i in range(m):
            new: dict[int, Fraction] = {}
            for shift, weight in (
                (0, steps.kept[i]),
                (int(steps.floors[i]), steps.low[i]),
                (int(steps.floors[i]) + 1, steps.high[i]),
            ):
                for total, value in exact.items():
                    new[total + shift] = new.get(total + shift, Fraction(0)) + value * Fraction(float(weight))
            exact = new
        row = last_row(steps, 40, 40)
        assert row.lost == 0
        bound = (1 + u) ** (ROUNDINGS * m) - 1
        for k, value in enumerate(row.values):
            truth = exact.get(row.start + k, Fraction(0))
            assert abs(Fraction(float(value)) - truth) <= bound * truth
