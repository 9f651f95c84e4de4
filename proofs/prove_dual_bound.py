"""Weak duality: every certificate bounds every mechanism (certificate.lower_bound; theory §3.3, §3.4, §3.6).

For densities q ∈ [1, Q] against μ and functions h = Σ multiplier · g with E_μ[q g] ≥ 0 and multipliers ≥ 0:

    0 ≤ E_μ[q h] ≤ E_μ[h] + (Q−1) E_μ[h⁺],   hence   Q ≥ 1 + (−E_μ h)/E_μ[h⁺].

Step by step: the pointwise inequality; what each requirement's g means for the mechanism; that rounding h upward lowers
the bound; that alike attributes may be summed by counts; that any channel and decoder is covered, by averaging; that a sum
of moduli over frequencies is above E_μ[(K−X)⁺].
"""

import itertools
import math
from fractions import Fraction
from random import Random

import mpmath as mp
import pytest
import sympy as sp
from exact_lp import uniform


def same(x, y):
    return sp.simplify(sp.together(x - y)) == 0


def prove_the_pointwise_inequality():
    """h + (Q−1) h⁺ − q h = (Q−q) h where h ≥ 0, and (q−1)(−h) where h < 0: a product of nonnegatives each time."""
    h, over, under = sp.symbols("h over under", nonnegative=True)
    q, top = 1 + under, 1 + under + over
    assert sp.expand(h + (top - 1) * h - q * h - over * h) == 0
    assert sp.expand(-h + (top - 1) * 0 - q * (-h) - under * h) == 0


def prove_the_bound_follows():
    """0 ≤ mean + (Q−1) positive with positive > 0 gives Q − 1 ≥ −mean/positive."""
    mean, slack = sp.symbols("mean slack", real=True)
    positive = sp.Symbol("positive", positive=True)
    ratio = (slack - mean) / positive
    assert same(mean + ratio * positive, slack)
    assert same(ratio - (-mean / positive), slack / positive)


def prove_a_larger_h_gives_a_smaller_bound():
    """With h' = h + δ, δ ≥ 0: −E h falls and E h⁺ grows, so replacing f, e^η by more and κ λ λ by less is outward."""
    minus_mean, positive, less, more = sp.symbols("minus_mean positive less more", positive=True)
    difference = sp.together(minus_mean / positive - (minus_mean - less) / (positive + more))
    top, bottom = sp.fraction(difference)
    for part in (top, bottom):
        assert all(k > 0 for k in sp.Poly(sp.expand(part), minus_mean, positive, less, more).coeffs())


def generic_law(m):
    """Sizes, μ_S and densities q_S as symbols, for m attributes."""
    r = sp.symbols(f"r1:{m + 1}", positive=True)
    sets = list(itertools.product((0, 1), repeat=m))
    mu = {s: sp.prod([(r[i] - 1) / r[i] if s[i] else 1 / r[i] for i in range(m)]) for s in sets}
    q = {s: sp.Symbol("q" + "".join(map(str, s)), positive=True) for s in sets}
    return r, sets, mu, q


def prove_the_accuracy_row():
    """E_μ[q (f − 1[i∈S])] = E_μ[q] (f − ν(i∈S)): nonnegative exactly when attribute i changes at most f often."""
    f = sp.Symbol("f", positive=True)
    for m in (1, 2, 3):
        _, sets, mu, q = generic_law(m)
        total = sum(mu[s] * q[s] for s in sets)
        for i in range(m):
            row = sum(mu[s] * q[s] * (f - s[i]) for s in sets)
            chance = sum(mu[s] * q[s] for s in sets if s[i]) / total
            assert same(row, total * (f - chance))


def prove_the_pair_row():
    """E_μ[q (χ_ij − κ λ_i λ_j)] = E_μ[q] (λ_ij − κ λ_i λ_j), and E_μ χ_ij = 0."""
    kept = sp.Symbol("kept", positive=True)
    for m, i, j in ((2, 0, 1), (3, 0, 2)):
        r, sets, mu, q = generic_law(m)
        chi = {s: sp.prod([-1 / (r[k] - 1) if s[k] else sp.Integer(1) for k in (i, j)]) for s in sets}
        total = sum(mu[s] * q[s] for s in sets)
        lam = sum(mu[s] * q[s] * chi[s] for s in sets) / total
        assert same(sum(mu[s] * q[s] * (chi[s] - kept) for s in sets), total * (lam - kept))
        assert same(sum(mu[s] * chi[s] for s in sets), 0)


def prove_the_cap_rows():
    """With g = n_S e^η 1_T − n_T 1_S:  E_μ[q g] = n_S n_T (e^η q_T − q_S)/Π r, in both directions."""
    cap = sp.Symbol("cap", positive=True)
    for m in (1, 2):
        r, sets, mu, q = generic_law(m)
        count = {s: sp.prod([r[i] - 1 for i in range(m) if s[i]]) for s in sets}
        for s, i in itertools.product(sets, range(m)):
            if not s[i]:
                more = (*s[:i], 1, *s[i + 1 :])
                for bounded, other in ((s, more), (more, s)):
                    row = mu[other] * q[other] * count[bounded] * cap - mu[bounded] * q[bounded] * count[other]
                    assert same(row, count[s] * count[more] / sp.prod(r) * (cap * q[other] - q[bounded]))


def prove_counts_suffice_for_alike_attributes():
    """Per class and count: Σ (r−1) χ_i = (r−1)(n−k) − k; over its pairs ((Σ)² − Σ of squares)/2; Π C(n,k)(r−1)^k outputs."""
    for r, n in ((2, 4), (3, 3), (5, 2), (4, 1)):
        outputs = [0] * (n + 1)
        for s in itertools.product((0, 1), repeat=n):
            k = sum(s)
            values = [-1 if changed else r - 1 for changed in s]
            outputs[k] += (r - 1) ** k
            assert sum(values) == (r - 1) * (n - k) - k
            squares = (r - 1) ** 2 * (n - k) + k
            pairs = sum(x * y for x, y in itertools.combinations(values, 2))
            assert 2 * pairs == sum(values) ** 2 - squares
        assert outputs == [math.comb(n, k) * (r - 1) ** k for k in range(n + 1)]
        step = [1]
        for k in range(n):
            step.append(step[-1] * (n - k) * (r - 1) // (k + 1))
        assert step == outputs


def random_channel(records, letters, draw):
    """A row-stochastic matrix from records to arbitrary output letters."""
    rows = [[Fraction(draw.randint(1, 9)) for _ in range(letters)] for _ in records]
    return [[x / sum(row) for x in row] for row in rows]


def prove_any_channel_and_decoder_reduces_to_a_law_of_change_sets():
    """Decode, then average over relabelings of each attribute's categories: ε does not grow, mean flips stay.

    The averaged channel depends on the change set only, so it is one of the mechanisms above; exact, random instances.
    """
    draw = Random(5)
    for sizes in ((2, 2), (3, 2)):
        records = list(itertools.product(*(range(r) for r in sizes)))
        channel = random_channel(records, 5, draw)
        decoder = [draw.choice(records) for _ in range(5)]
        decoded = {
            (u, v): sum((channel[a][k] for k in range(5) if decoder[k] == v), Fraction(0)) + Fraction(1, 100)
            for a, u in enumerate(records)
            for v in records
        }
        total = 1 + Fraction(len(records), 100)
        decoded = {key: x / total for key, x in decoded.items()}
        relabelings = list(itertools.product(*(itertools.permutations(range(r)) for r in sizes)))
        averaged = {
            (u, v): sum(decoded[relabel(g, u), relabel(g, v)] for g in relabelings) / len(relabelings)
            for u in records
            for v in records
        }
        assert ratio(averaged, records) <= ratio(decoded, records)
        seen = {}
        for (u, v), x in averaged.items():
            assert seen.setdefault(tuple(a != b for a, b in zip(u, v, strict=True)), x) == x
        for i in range(len(sizes)):
            before, after = (
                sum(x for (u, v), x in table.items() if u[i] != v[i]) / len(records) for table in (decoded, averaged)
            )
            assert before == after


def relabel(g, record):
    return tuple(permutation[x] for permutation, x in zip(g, record, strict=True))


def ratio(table, records):
    return max(table[u, v] / table[w, v] for u in records for w in records for v in records)


def prove_no_random_mechanism_undercuts_a_random_certificate():
    """All steps at once, in rationals: Q of a random law against the bound for the accuracies that it reaches."""
    draw = Random(11)
    for sizes in ((2, 3), (4, 2, 2), (3, 3, 3), (2, 2, 2, 5)):
        m = len(sizes)
        sets = list(itertools.product((0, 1), repeat=m))
        for _ in range(20):
            q = {s: 1 + Fraction(draw.randint(0, 400), 40) for s in sets}
            largest, smallest = max(q.values()), min(q.values())
            mass = sum(uniform(sizes, s) * q[s] for s in sets)
            flips = [sum(uniform(sizes, s) * q[s] for s in sets if s[i]) / mass for i in range(m)]
            w = [Fraction(draw.randint(0, 50)) for _ in range(m)]
            h = {s: sum(w[i] * (flips[i] - s[i]) for i in range(m)) for s in sets}
            minus_mean = -sum(uniform(sizes, s) * h[s] for s in sets)
            positive = sum(uniform(sizes, s) * max(h[s], Fraction(0)) for s in sets)
            if positive > 0:
                assert largest / smallest >= 1 + minus_mean / positive


def prove_the_moduli_of_one_attribute_and_of_the_kernel():
    """|φ|² = 1 − 4z/(1+z)² sin²(a/2), and |e^{h²s²/2}/s²| = e^{h²(θ²−t²)/2}/(θ²+t²) at s = θ + it."""
    z, a, theta, t = sp.symbols("z a theta t", positive=True)
    square = sp.expand((1 + z * sp.cos(a)) ** 2 + (z * sp.sin(a)) ** 2) / (1 + z) ** 2
    stated = 1 - 4 * z / (1 + z) ** 2 * (1 - sp.cos(a)) / 2
    assert sp.simplify(square - stated) == 0
    s = theta + sp.I * t
    assert sp.simplify(sp.re(sp.expand(s**2)) - (theta**2 - t**2)) == 0
    assert sp.simplify(sp.expand(s**2 * sp.conjugate(s) ** 2) - (theta**2 + t**2) ** 2) == 0


@pytest.mark.slow
def prove_the_frequencies_bound_the_mean():
    """(K−x)⁺ ≤ ψ_h(K−x) ≤ e^{θ(K−x)} (1/P) Σ_k ĝ(t_k) e^{it_k(K−x)}: 30 digits, every total, several θ, h and P.

    The first is Jensen's inequality; the second adds the copies of a nonnegative function one period apart.
    """
    with mp.workdps(30):
        for given in ((0.7, 0.3, 9), (0.2, 1.0, 30), (1.5, 0.1, 4)):
            theta, h, period = map(mp.mpf, given)
            last = int(mp.ceil(12 / h * period / (2 * mp.pi)))
            for y in (mp.mpf(k) / 2 for k in range(-8, 9)):
                smooth = y * mp.ncdf(y / h) + h * mp.npdf(y / h)
                assert max(y, 0) <= smooth
                series = mp.mpf(0)
                for k in range(-last, last + 1):
                    s = theta + 2j * mp.pi * k / period
                    series += mp.re(mp.exp(h * h * s * s / 2) / s**2 * mp.exp(s * y))
                copies = sum(
                    mp.exp(-theta * j * period)
                    * ((y + j * period) * mp.ncdf((y + j * period) / h) + h * mp.npdf((y + j * period) / h))
                    for j in range(-6, 200)
                )
                assert abs(series / period - copies) < mp.mpf(10) ** -12 * (1 + copies)
                assert smooth <= copies
