"""The lower bound for any mechanism of total ε (optrr_solvers.allocation.delsarte), and the errors that reports reach.

Scope: pure ε-LDP for each person, one report each, through any channel and alphabet, which may differ between people and depend
on earlier answers; estimates unbiased near the uniform population.

A report y has the density d_y = Q(y|x)/mean_x Q(y|x): mean 1, all values within a factor e^ε. Its energy on an effect is the
square of its projection there; the information about the effects at the uniform population is E_y[P d_y d_yᵀ P].
"""

import itertools
import math
from fractions import Fraction

import sympy as sp


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_two_values_have_the_most_energy():
    """Σ d² ≤ (1 + c)(Σ d)²/K is a cone that holds sums of its members, since ‖x + y‖ ≤ ‖x‖ + ‖y‖ (Lagrange's identity).

    A density with a value between its least and its largest one is the mean of two others, of that value moved up and down, so
    the largest energy is that of one with two values.
    """
    x, y = sp.symbols("x:4"), sp.symbols("y:4")
    gram = sum(a * a for a in x) * sum(b * b for b in y) - sum(a * b for a, b in zip(x, y, strict=True)) ** 2
    squares = sum((x[i] * y[j] - x[j] * y[i]) ** 2 for i, j in itertools.combinations(range(4), 2))
    assert sp.expand(gram - squares) == 0


def prove_their_energy_and_its_maximum():
    """Var = p(1−p)g²/(1+gp)², largest at p = 1/(2+g) = 1/(e^ε + 1), where it is sinh²(ε/2)."""
    p, g, epsilon = sp.symbols("p g epsilon", positive=True)
    low = 1 / (1 + g * p)
    variance = p * ((1 + g) * low - 1) ** 2 + (1 - p) * (low - 1) ** 2
    assert same(variance, p * (1 - p) * g**2 / (1 + g * p) ** 2)
    slope = sp.factor(sp.diff(variance, p))
    assert same(slope, g**2 * (1 - p * (2 + g)) / (1 + g * p) ** 3)
    best = variance.subs(p, 1 / (2 + g)).subs(g, sp.exp(epsilon) - 1)
    assert sp.simplify((best - sp.sinh(epsilon / 2) ** 2).rewrite(sp.exp)) == 0


def prove_averages_stay_within_the_factor():
    """A mean of values in [1, e^ε] lies there too, so that a margin of a density is one over fewer cells."""
    a, b, g = sp.symbols("a b g", nonnegative=True)
    # two values 1 + a and 1 + g − b, weighed with u/(u + v) and v/(u + v)
    u, v = sp.symbols("u v", positive=True)
    mean = (u * (1 + a) + v * (1 + g - b)) / (u + v)
    assert same(mean - 1, (u * a + v * (g - b)) / (u + v))
    assert same(1 + g - mean, (u * (g - a) + v * b) / (u + v))


def prove_energy_bounds_the_variance():
    """tr(J) tr(J⁻¹) ≥ dim²: with eigenvalues, the difference is a sum of squares (Cauchy–Schwarz)."""
    values = sp.symbols("l:4", positive=True)
    difference = sum(values) * sum(1 / v for v in values) - len(values) ** 2
    squares = sum((a - b) ** 2 / (a * b) for a, b in itertools.combinations(values, 2))
    assert same(difference, squares)


def prove_the_mean_over_differing_attributes_acts_on_effects_as_lambda():
    """(J − I)/(r − 1), the mean over all other categories, is 1 on constants and −1/(r−1) on what has mean 0."""
    for size in range(2, 6):
        other = (sp.ones(size, size) - sp.eye(size)) / (size - 1)
        constant = sp.ones(size, size) / size
        assert other * constant == constant
        assert other * (sp.eye(size) - constant) == -(sp.eye(size) - constant) / (size - 1)


def prove_spectra_of_sets_satisfy_delsarte_s_program():
    """Σ_S w_S = p, w_∅ = p² and f_D = Σ_S w_S λ_S(D) ≥ 0, for every set of records of 2 × 3 and 2 × 2 × 2, one by one.

    With them Σ_{S≠∅} (β − Y_S) w_S = β (p − p²) + Y p² − Σ_D y_D f_D, linear in β and in every y_D.
    """
    for sizes in ((2, 3), (2, 2, 2)):
        records = list(itertools.product(*map(range, sizes)))
        subsets = [s for k in range(len(sizes) + 1) for s in itertools.combinations(range(len(sizes)), k)]
        for chosen in itertools.product((0, 1), repeat=len(records)):
            held = {x for x, inside in zip(records, chosen, strict=True) if inside}
            p, w = Fraction(len(held), len(records)), {}
            for s in subsets:
                keys = [tuple(x[i] for i in s) for x in held]
                cells = math.prod(sizes[i] for i in s)
                square = sum(Fraction(keys.count(k) * cells, len(records)) ** 2 for k in set(keys)) / cells
                w[s] = square - sum(v for t, v in w.items() if set(t) < set(s))
            assert w[()] == p * p and sum(w.values()) == p and min(w.values()) >= 0
            for d in subsets[1:]:
                pairs = [
                    (x, z) for x in records for z in records if {i for i, r in enumerate(x) if r != z[i]} == set(d)
                ]
                f = Fraction(sum(x in held and z in held for x, z in pairs), len(pairs))
                rates = {s: math.prod(Fraction(-1, sizes[i] - 1) for i in set(s) & set(d)) for s in subsets}
                assert f == sum(w[s] * rates[s] for s in subsets)
                y, beta = Fraction(3, 7), Fraction(5, 4)
                left = sum((beta - y * rates[s]) * w[s] for s in subsets[1:])
                assert left == beta * (p - p * p) + y * p * p - y * f


def prove_the_best_share_of_records_is_on_a_parabola():
    """With t = p/(1 + gp), which rises in p, [β (p − p²) + Y p²]/(1 + gp)² is β t − (β e^ε − Y) t², at most β²/4(β e^ε − Y)."""
    p, g, beta, y, t = sp.symbols("p g beta Y t", positive=True)
    value = (beta * (p - p**2) + y * p**2) / (1 + g * p) ** 2
    parabola = beta * t - (beta * (1 + g) - y) * t**2
    assert same(value, parabola.subs(t, p / (1 + g * p)))
    best = beta / (2 * (beta * (1 + g) - y))
    assert same(sp.diff(parabola, t).subs(t, best), 0)
    assert same(parabola.subs(t, best), beta**2 / (4 * (beta * (1 + g) - y)))
    # where that t is reached, as the code has it; y = 0 gives sinh²(ε/2)
    assert same((p / (1 + g * p)).subs(p, beta / (beta * (g + 2) - 2 * y)), best)


def prove_the_complement_has_more_energy_at_more_than_half():
    """w_S of a set and of its complement are equal; g/(1 + gp) falls in p."""
    p, g = sp.symbols("p g", positive=True)
    assert same(sp.diff(g / (1 + g * p), p), -((g / (1 + g * p)) ** 2))


def prove_patterns_are_averaged_one_member_at_a_time():
    """The recursion for the mean of Π_{S∩D} −c_i over all D of d of n attributes, and that it is affine in every c_i."""
    for n, size in ((4, 2), (5, 3)):
        rates = sp.symbols(f"c:{size}")
        for d in range(n + 1):
            patterns = list(itertools.combinations(range(n), d))
            mean = sum(sp.prod([-rates[i] for i in pattern if i < size]) for pattern in patterns) / sp.Integer(
                len(patterns)
            )
            row = [sp.Integer(1)] * (n + 1)
            for count, rate in enumerate(rates, n - size + 1):
                hit = [sp.Min(sp.Rational(k, count), 1) for k in range(n + 1)]
                row = [(1 - hit[k]) * row[k] - hit[k] * rate * row[max(k - 1, 0)] for k in range(n + 1)]
            assert sp.expand(row[d] - mean) == 0
            assert all(sp.degree(mean, rate) <= 1 for rate in rates if mean.has(rate))


def prove_multipliers_bound_the_program():
    """(Σ √(a c))² ≤ Σ a/e · Σ c e (Cauchy–Schwarz), so that Σ a/e ≥ (Σ √(a c))²/h where Σ c e ≤ h."""
    a, c, e = sp.symbols("a:3", positive=True), sp.symbols("c:3", positive=True), sp.symbols("e:3", positive=True)
    left, right = (
        [sp.sqrt(x / y) for x, y in zip(a, e, strict=True)],
        [sp.sqrt(x * y) for x, y in zip(c, e, strict=True)],
    )
    gap = (
        sum(x * x for x in left) * sum(x * x for x in right)
        - sum(sp.sqrt(x * y) for x, y in zip(a, c, strict=True)) ** 2
    )
    squares = sum((left[i] * right[j] - left[j] * right[i]) ** 2 for i, j in itertools.combinations(range(3), 2))
    assert sp.expand(sp.expand(gap) - sp.expand(squares)) == 0


def prove_two_people_s_answers_add_their_information():
    """P(t|x_1, x_2) is a product f_1(t; x_1) f_2(t; x_2) of the whole exchange, so that the scores are uncorrelated.

    Σ_t f_1' f_2' is the mixed derivative of Σ_t f_1 f_2 = 1, taken in the two people's populations on their own.
    """
    a, b = sp.symbols("a b")
    # a second answer whose question depends on the first
    first, second = [(1 + a) / 2, (1 - a) / 2], [[(1 + b) / 3, (2 - b) / 3], [(3 + b) / 4, (1 - b) / 4]]
    total = sum(first[i] * second[i][k] for i in range(2) for k in range(2))
    scores = sum(
        first[i] * second[i][k] * sp.diff(sp.log(first[i]), a) * sp.diff(sp.log(second[i][k]), b)
        for i in range(2)
        for k in range(2)
    )
    assert sp.simplify(total) == 1 and sp.simplify(scores - sp.diff(total, a, b)) == 0


def prove_margins_share_the_entropy():
    """KL(ν‖μ) = KL(ν‖Π ν_B) + Σ_B KL(ν_B‖μ_B) for a product μ, here uniform on 3 × 2 cells; the first term is not negative."""
    cells = list(itertools.product(range(3), range(2)))
    nu = {c: sp.Symbol(f"p{c[0]}{c[1]}", positive=True) for c in cells}
    logs = {(k, v): sp.Symbol(f"l{k}{v}") for k in (0, 1) for v in range(3)}
    uniform = sp.Symbol("u0") + sp.Symbol("u1")
    left = sum(nu[c] * (logs[0, c[0]] + logs[1, c[1]] - uniform) for c in cells)
    right = sum(
        sum(nu[c] for c in cells if c[k] == v) * (logs[k, v] - sp.Symbol(f"u{k}")) for k in (0, 1) for v in range(3 - k)
    )
    assert sp.expand(left - right) == 0


def prove_entropy_is_at_least_a_share_of_energy():
    """f(t)/(t−1)² falls in t, f(t) = t ln t − t + 1, so that its value at the largest t bounds f(t) ≥ c (t−1)² for all."""
    t = sp.Symbol("t", positive=True)
    f = t * sp.log(t) - t + 1
    slope = sp.diff(f / (t - 1) ** 2, t)
    assert same(slope, (2 * (t - 1) - (t + 1) * sp.log(t)) / (t - 1) ** 3)
    # ln t − 2(t−1)/(t+1) rises through 0 at t = 1, so that the slope is never positive
    gap = sp.log(t) - 2 * (t - 1) / (t + 1)
    assert gap.subs(t, 1) == 0 and same(sp.diff(gap, t), (t - 1) ** 2 / (t * (t + 1) ** 2))
    assert same(slope, -(t + 1) * gap / (t - 1) ** 3)
    # the mean of f over a density is its relative entropy to the uniform law
    a, b = sp.symbols("a b", positive=True)
    mean = (a * f.subs(t, b) + b * f.subs(t, a)) / (a + b)
    entropy = (a * b * sp.log(b) + b * a * sp.log(a)) / (a + b)
    assert same(mean - entropy, 1 - (a * b + b * a) / (a + b))


def prove_the_largest_value_of_a_margin():
    """Mean 1 over K cells, all others at least t e^−ε: t + (K − 1) t e^−ε ≤ K."""
    t, cells, grown = sp.symbols("t K e", positive=True)
    (largest,) = sp.solve(sp.Eq(t + (cells - 1) * t / grown, cells), t)
    assert same(largest, cells * grown / (cells - 1 + grown))


def prove_the_entropy_of_two_values():
    """p h ln h + (1−p) l ln l with h = (1+g) l, l = 1/(1+gp), and where its derivative in p vanishes."""
    p, g = sp.symbols("p g", positive=True)
    entropy = p * (1 + g) * sp.log(1 + g) / (1 + g * p) - sp.log(1 + g * p)
    low = 1 / (1 + g * p)
    high_log, low_log = sp.log(1 + g) - sp.log(1 + g * p), -sp.log(1 + g * p)
    assert same(entropy, p * (1 + g) * low * high_log + (1 - p) * low * low_log)
    slope = sp.diff(entropy, p)
    assert same(slope, ((1 + g) * sp.log(1 + g) - g * (1 + g * p)) / (1 + g * p) ** 2)
    e = 1 + g
    assert same(slope.subs(p, (e * sp.log(e) / (e - 1) - 1) / (e - 1)), 0)


def prove_effects_of_matches():
    """φ has mean 0 and variance 1 where a match has the chance κ; with κ = k/r it is 1[x ∈ S] − k/r, scaled."""
    odds = sp.Symbol("odds", positive=True)
    kappa = 1 / (1 + odds)
    on, off = sp.sqrt(odds), -1 / sp.sqrt(odds)
    assert same(on**2, (1 - kappa) / kappa) and same(off**2, kappa / (1 - kappa))
    assert same(kappa * on + (1 - kappa) * off, 0) and same(kappa * on**2 + (1 - kappa) * off**2, 1)
    scale = sp.sqrt(odds) / (1 + odds)
    assert same(scale**2, kappa * (1 - kappa)) and same(on * scale, 1 - kappa) and same(off * scale, -kappa)


def prove_a_subset_of_cells_and_its_energy():
    """Named with chance p the true cell and q each other one: Var(d) = ((p−q)(K−1)/K)²/(s(1−s)), s = k/K, spread evenly."""
    k, cells, g = sp.symbols("k K g", positive=True)
    share = k / cells
    # p and q of subset selection at a factor g + 1 (Ye & Barg 2018)
    p = (1 + g) * k / ((1 + g) * k + cells - k)
    q = p * (k - 1) / (cells - 1) + (1 - p) * k / (cells - 1)
    assert same(q * (cells - 1) + p, k)
    energy = share * (1 - share) * g**2 / (1 + g * share) ** 2
    assert same(((p - q) * (cells - 1) / cells) ** 2 / (share * (1 - share)), energy)
