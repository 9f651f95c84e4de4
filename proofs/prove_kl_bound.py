"""ε ≥ Σ KL(Bernoulli(f_i) ‖ Bernoulli(d_i)) for every mechanism (certificate.kl_bound, theory §3.3).

ln Q bounds ln(ν/μ), so ε ≥ KL(ν‖μ). With μ a product, KL(ν‖μ) = KL(ν‖Π ν_i) + Σ KL(ν_i‖μ_i), and a divergence is never
negative. Each KL(Bernoulli(x)‖Bernoulli(d)) falls in x up to d, so smaller flips than f_i only enlarge the sum.
"""

import itertools

import sympy as sp


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_the_log_ratio_bounds_the_divergence():
    """ν = qμ/E_μ[q] with q ≤ Q and E_μ[q] ≥ 1: so ν/μ ≤ Q, and KL is a ν-average of ln(ν/μ)."""
    under, over, mean = sp.symbols("under over mean", nonnegative=True)
    top, average = 1 + under + over, 1 + mean
    assert all(k >= 0 for k in sp.Poly(sp.expand(top * average - (1 + under)), under, over, mean).coeffs())


def prove_the_divergence_from_a_product_splits():
    """KL(ν‖μ) − KL(ν‖Π ν_i) = Σ KL(ν_i‖μ_i), for generic ν of two and three attributes, term by logarithm."""
    for m in (2, 3):
        sets = list(itertools.product((0, 1), repeat=m))
        nu = {s: sp.Symbol("p" + "".join(map(str, s)), positive=True) for s in sets}
        # one symbol for every ln ν_i(k) and ln μ_i(k): the identity is linear in them
        log_nu = {(i, k): sp.Symbol(f"n{i}{k}") for i in range(m) for k in (0, 1)}
        log_mu = {(i, k): sp.Symbol(f"u{i}{k}") for i in range(m) for k in (0, 1)}
        left = sum(nu[s] * sum(log_nu[i, s[i]] - log_mu[i, s[i]] for i in range(m)) for s in sets)
        right = sum(
            sum(nu[s] for s in sets if s[i] == k) * (log_nu[i, k] - log_mu[i, k]) for i in range(m) for k in (0, 1)
        )
        assert sp.expand(left - right) == 0


def prove_a_divergence_is_never_negative():
    """−ln x ≥ 1 − x, with its minimum 0 at x = 1; summed over p with x = q/p it gives Σ p ln(p/q) ≥ 1 − Σ q = 0."""
    x = sp.Symbol("x", positive=True)
    gap = -sp.log(x) - (1 - x)
    assert gap.subs(x, 1) == 0 and sp.diff(gap, x).subs(x, 1) == 0
    assert sp.diff(gap, x, 2).is_positive


def prove_smaller_flips_enlarge_it():
    """The derivative in f is ln(f(1−d)/(d(1−f))), negative below d since f(1−d) < d(1−f) there."""
    f, d = sp.symbols("f d", positive=True)
    kl = f * sp.log(f / d) + (1 - f) * sp.log((1 - f) / (1 - d))
    inside = f * (1 - d) / (d * (1 - f))
    assert sp.simplify(sp.expand_log(sp.diff(kl, f) - sp.log(inside), force=True)) == 0
    assert same(sp.diff(kl, f, 2), 1 / (f * (1 - f)))
    assert same(d * (1 - f) - f * (1 - d), d - f)


def prove_the_code_s_form():
    """(1−f)/(1−d) = 1 + (d−f) r and f/d = 1 − (d−f)/d, with d = 1 − 1/r."""
    f, r = sp.symbols("f r", positive=True)
    d = 1 - 1 / r
    assert same((1 - f) / (1 - d), 1 + (d - f) * r)
    assert same(f / d, 1 - (d - f) / d)
