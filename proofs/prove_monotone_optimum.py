"""Monotonicity (q_S ≥ q_T for S ⊂ T) never changes the optimal value (theory §3.3; the reduced program leaves it out).

Repair: where q_S < q_{S∪i}, set both to (1−d_i) q_S + d_i q_{S∪i}. This is their mean under μ, so E_μ q and every other
flip probability stay, both values stay in [1, Q], and attribute i changes less often. Among the optimal densities of the
problem with flips *at most* f (a compact set) take one with the smallest E|S|: it has no violation, since a repair would
lower E|S| further. And "at most f" costs no less than "exactly f": flipping attribute i some more on its own is
post-processing, which never raises Q, and reaches any f_i ≤ d_i. So a monotone optimum of the same value exists.
"""

import itertools
from fractions import Fraction
from random import Random

import pytest
import sympy as sp
from exact_lp import flip, smallest_ratio, uniform


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_the_repair_keeps_the_mass_and_helps_accuracy():
    """μ_S : μ_{S∪i} = 1−d : d, so the pair's mass stays; its changed part falls by d (1−d) (q_{S∪i} − q_S) ≥ 0."""
    d, low, excess, rest = sp.symbols("d low excess rest", positive=True)
    high = low + excess
    mean = (1 - d) * low + d * high
    before, after = rest * ((1 - d) * low + d * high), rest * ((1 - d) * mean + d * mean)
    assert same(before, after)
    assert same(rest * d * high - rest * d * mean, rest * d * (1 - d) * excess)
    # between the two values, hence within [1, Q]
    assert same(mean - low, d * excess) and same(high - mean, (1 - d) * excess)


def prove_the_repair_leaves_other_attributes_alone():
    """Exactly, for every other attribute, on random densities."""
    draw = Random(2)
    for sizes in ((2, 3), (3, 2, 4), (2, 2, 2, 2)):
        m = len(sizes)
        sets = list(itertools.product((0, 1), repeat=m))
        q = {s: 1 + Fraction(draw.randint(0, 100), 7) for s in sets}
        for _ in range(30):
            rising = next(
                ((s, i) for s in sets for i in range(m) if not s[i] and q[s] < q[(*s[:i], 1, *s[i + 1 :])]), None
            )
            if rising is None:
                break
            s, i = rising
            more, d = (*s[:i], 1, *s[i + 1 :]), Fraction(sizes[i] - 1, sizes[i])
            mean = (1 - d) * q[s] + d * q[more]
            repaired = {**q, s: mean, more: mean}
            old, new = changes(sizes, q), changes(sizes, repaired)
            assert all(old[j] == new[j] for j in range(m) if j != i) and new[i] < old[i]
            assert max(repaired.values()) <= max(q.values()) and min(repaired.values()) >= min(q.values())
            q = repaired


def changes(sizes, q):
    """ν(i ∈ S) for every attribute."""
    mass = {s: uniform(sizes, s) * value for s, value in q.items()}
    return [sum(x for s, x in mass.items() if s[i]) / sum(mass.values()) for i in range(len(sizes))]


def prove_more_flipping_reaches_any_flip_without_raising_q():
    """Replacing q_S, q_{S∪i} by mixtures of the two stays within [1, Q]; the flip moves from its own value up to d_i."""
    t, d, x, y = sp.symbols("t d x y", positive=True)
    # with chance t attribute i is redrawn uniformly: its change probability, others kept, becomes (1−t) f + t d
    low, high = (1 - d) * x, d * y
    redrawn = (1 - t) * high + t * d * (low + high)
    density_low = (1 - t) * x + t * (low + high)
    density_high = redrawn / d
    assert same(density_high, (1 - t) * y + t * (low + high))
    assert same((1 - d) * density_low + d * density_high, low + high)
    # both are averages of x and y: coefficients nonnegative for t, d in [0, 1] and summing to 1
    for density in (density_low, density_high):
        part = sp.expand(density)
        assert same(part.coeff(x) + part.coeff(y), 1)


@pytest.mark.slow
def prove_the_value_is_the_same_with_and_without_the_rows():
    """Exact simplex over all change sets, with POR's monotonicity rows and without, on random specifications."""
    draw = Random(4)
    for m, rounds in ((1, 4), (2, 12), (3, 8)):
        for _ in range(rounds):
            sizes = [draw.randint(2, 6) for _ in range(m)]
            flips = [flip(r, 1 + Fraction(draw.randint(1, 60), 10)) for r in sizes]
            assert smallest_ratio(sizes, flips) == smallest_ratio(sizes, flips, monotone=True)
