"""The privacy loss of reports drawn from one memoized response (theory §9): two stages, the coin, T reports, and the bound.

P is the distribution of the memoized response y, I that of a report z given y; all densities q are relative
to the uniform answer over N records, so that P(y|x) = q(y|x)/N and their mean is 1.
"""

import itertools
from fractions import Fraction

import sympy as sp


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def has_no_negative_coefficient(polynomial, *letters):
    return all(c >= 0 for c in sp.Poly(sp.expand(polynomial), *letters).coeffs())


def prove_sums_and_differences_multiply():
    """One axis of r categories: kept k, each other c. A value comes back by k k' or by r − 1 detours, and so on."""
    r, k, c, k2, c2 = sp.symbols("r k c k2 c2", positive=True)
    kept, changed = k * k2 + (r - 1) * c * c2, k * c2 + c * k2 + (r - 2) * c * c2
    assert same(kept + (r - 1) * changed, (k + (r - 1) * c) * (k2 + (r - 1) * c2))
    assert same(kept - changed, (k - c) * (k2 - c2))
    # the way back, up to the factor r that densities do not see
    whole, part = kept + (r - 1) * changed, kept - changed
    assert same(whole + (r - 1) * part, r * kept) and same(whole - part, r * changed)


def prove_they_do_so_for_laws_that_are_no_products():
    """Generic laws over sizes (2, 3), summed over every record between: axis by axis as above."""
    sizes = (2, 3)
    records = list(itertools.product(*map(range, sizes)))
    sets = list(itertools.product((0, 1), repeat=2))
    one, two = ({s: sp.Symbol(f"{name}{s[0]}{s[1]}") for s in sets} for name in "ab")

    def change(u, v):
        return tuple(int(x != y) for x, y in zip(u, v, strict=True))

    first = records[0]
    both = {change(first, v): sum(one[change(first, y)] * two[change(y, v)] for y in records) for v in records}

    def effects(q):
        out = dict(q)
        for axis, r in enumerate(sizes):
            moved = {}
            for s in sets:
                kept, changed = ((*s[:axis], bit, *s[axis + 1 :]) for bit in (0, 1))
                moved[s] = out[kept] - out[changed] if s[axis] else out[kept] + (r - 1) * out[changed]
            out = moved
        return out

    for s in sets:
        assert sp.expand(effects(both)[s] - effects(one)[s] * effects(two)[s]) == 0


def prove_less_uniform_mixed_with_uniform_is_the_law():
    """(1 + x)/(1 + X) = c (1 + kx)/(1 + kX) + 1 − c with X the mean of x and c = (1 + kX)/(k (1 + X)); 0 < c ≤ 1 for k ≥ 1."""
    x, mean, more = sp.symbols("x mean more", nonnegative=True)
    k = 1 + more
    c = (1 + k * mean) / (k * (1 + mean))
    assert same((1 + x) / (1 + mean), c * (1 + k * x) / (1 + k * mean) + 1 - c)
    assert has_no_negative_coefficient(k * (1 + mean) - (1 + k * mean), mean, more)
    # the largest density, 1 + x = e^ε, becomes 1 + k x = e^ε∞ with k as in the code
    one, forever = sp.symbols("one forever", positive=True)
    assert same(1 + (sp.exp(forever) - 1) / (sp.exp(one) - 1) * (sp.exp(one) - 1), sp.exp(forever))


def prove_what_the_coin_makes_of_reports():
    """A report equal to y is g = 1 + cN/(1−c) times likelier than another; Σ_y P g^{n_y} = 1 + Σ_y q (g^{n_y} − 1)/N."""
    c, n = sp.symbols("c N", positive=True)
    assert same((c + (1 - c) / n) / ((1 - c) / n), 1 + c * n / (1 - c))
    t = sp.Symbol("t", positive=True)  # c = t/W
    word = sp.Symbol("W", positive=True)
    assert same((c * n / (1 - c)).subs(c, t / word), t * n / (word - t))
    p, g = sp.symbols("p0:3"), sp.symbols("g0:3")
    left = sum(a * b for a, b in zip(p, g, strict=True))
    right = 1 + sum(a * (b - 1) for a, b in zip(p, g, strict=True))
    assert sp.expand((left - right).subs(p[2], 1 - p[0] - p[1])) == 0


def prove_equal_reports_tell_most():
    """Reports that agree have the larger mass, and a larger mass the larger ratio."""
    a, b, low, gap, mass = sp.symbols("a b low gap mass", nonnegative=True)
    # g^i = 1 + a and g^j = 1 + b: moving i reports to where j are leaves no less than both had
    assert has_no_negative_coefficient(((1 + a) * (1 + b) - 1) - (a + b), a, b)
    high = low + gap
    slope = sp.diff((1 + mass * high) / (1 + mass * low), mass)
    assert same(slope, gap / (1 + mass * low) ** 2)
    # between masses k_v, the ratio is at most that of the extremes: Σ k_v q(v|x) ≤ K q_max and Σ k_v q(v|x') ≥ K q_min
    top, bottom, less, more = sp.symbols("top bottom less more", nonnegative=True)
    worse = (1 + top + more) * (1 + bottom + less) - (1 + top) * (1 + bottom)
    assert has_no_negative_coefficient(worse, top, bottom, less, more)


def prove_the_conditional_bound():
    """With q(v|x) ≤ e^η q(v|x'), ratios are at most (1 + A)/(1 + A e^−η), which grows with A up to A = K q_max."""
    amount, extra = sp.symbols("A extra", nonnegative=True)
    factor = 1 + extra  # e^η
    slope = sp.diff((1 + amount) / (1 + amount / factor), amount)
    assert same(slope, extra * factor / (factor + amount) ** 2)
    shrunk = 1 / factor
    assert same((1 + amount) / (1 + amount * shrunk), 1 + amount * (1 - shrunk) / (1 + amount * shrunk))


def prove_the_bound_for_any_stages():
    """L = 1 + (E − 1) s with 0 ≤ s ≤ 1. Means p, p' of s under P(·|x), P(·|x') keep p ≤ R p' and 1 − p' ≤ R (1 − p).

    The ratio (1 + (E−1) p)/(1 + (E−1) p') grows with p. Where p = R p' binds it grows with p', where the other binds it falls;
    both bind at p' = 1/(1 + R).
    """
    over, above, p, q = sp.symbols("over above p q", nonnegative=True)
    e, r = 1 + over, 1 + above
    ratio = (1 + (e - 1) * p) / (1 + (e - 1) * q)
    assert same(sp.diff(ratio, p), over / (1 + over * q))
    rising = sp.diff(ratio.subs(p, r * q), q)
    assert same(rising, over * above / (1 + over * q) ** 2)
    falling = sp.diff(ratio.subs(p, 1 - (1 - q) / r), q)
    assert same(falling, -over * above * (1 + over) / (r * (1 + over * q) ** 2))
    meeting = {p: r / (1 + r), q: 1 / (1 + r)}
    assert same(r * meeting[q], meeting[p]) and same(1 - (1 - meeting[q]) / r, meeting[p])
    assert same(ratio.subs(meeting), (1 + r * e) / (r + e))


def prove_the_bound_in_hyperbolic_tangents():
    """tanh(ε/2) = (e^ε − 1)/(e^ε + 1), and 2 artanh u = ln (1 + u)/(1 − u)."""
    r, e = sp.symbols("r e", positive=True)
    u = (r - 1) / (r + 1) * (e - 1) / (e + 1)
    assert same((1 + u) / (1 - u), (1 + r * e) / (r + e))


def prove_many_reports_may_cost_more_than_each_alone():
    """P shows only the pair of two binary attributes, with λ = 9/10; I keeps either with λ = 1/10. Ten cost over 15 times."""
    pair, each = Fraction(9, 10), Fraction(1, 10)

    def ratio(reports):
        odds = ((1 + each) / (1 - each)) ** reports
        seen = (odds - 1) / (odds + 1)
        return (1 + pair * seen**2) / (1 - pair * seen**2)

    assert ratio(10) > ratio(1) ** 15
