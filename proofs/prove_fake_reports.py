"""The largest change of an unbiased estimate by a poisoning attack (optrr.core.estimation.poisoned, theory §3.8).

1. Reach. The estimate is a mean of weights. k weights that are free lie in [least, most], so a sum that they join, or that they
   replace the k smallest members of, is largest when all are most. Fewer than k move it no further: most ≥ every weight, so
   adding most, changing a member to most, or leaving the smallest out never lowers a mean. Here: every choice, in rationals.
2. Randomized response: (P⁻¹)_vv = (E + r − 2)/(E − 1) and −1/(E − 1) elsewhere, with E = e^ε.
3. Projection. A vector x that sums to 0 has Σ_{v≠u} x_v = −x_u, so by Cauchy and Schwarz ‖x‖² ≥ x_u² (1 + 1/(R−1)), hence
   |x_u| ≤ √(1 − 1/R) ‖x‖. Projecting onto a convex set increases no distance, both projected tables sum to 1, and the mean of k
   vectors is no longer than the longest.
"""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from random import Random

import numpy as np
import sympy as sp

from optrr.core.estimation.poisoned import reaches


def prove_no_choice_of_fakes_reaches_further():
    """Exact rationals, random weights with ties, 1 to k fakes of k."""
    random = Random(8)
    for _ in range(40):
        size, n = random.randint(2, 4), random.randint(2, 5)
        k = random.randint(1, min(n - 1, 3))
        weights = [Fraction(random.randint(-6, 9), random.randint(1, 3)) for _ in range(size)]
        reports = [random.randrange(size) for _ in range(n)]
        counts = np.array([[reports.count(v)] for v in range(size)])
        got = reaches(np.array([[w] for w in weights], dtype=object), counts, k, (1,))
        seen = [weights[v] for v in reports]
        added, replaced, left = [], [], []
        for fewer in range(1, k + 1):
            fakes = [sum(f) for f in combinations_with_replacement(weights, fewer)]
            kept = [sum(c) for c in combinations(seen, n - fewer)]
            added += [(sum(seen) + f) / (n + fewer) for f in fakes]
            replaced += [(c + f) / n for c in kept for f in fakes]
            left += [c / (n - fewer) for c in kept]
        for reach, means in zip(got, (added, replaced, left), strict=True):
            assert (reach.lower[0], reach.upper[0]) == (min(means), max(means))


def prove_the_weights_of_randomized_response():
    """The product with P is the identity; the range of weights is (E + r − 1)/(E − 1)."""
    e, r = sp.symbols("E r", positive=True)
    p, q = e / (e + r - 1), 1 / (e + r - 1)
    own, other = (e + r - 2) / (e - 1), -1 / (e - 1)
    assert sp.simplify(p * own + (r - 1) * q * other - 1) == 0
    assert sp.simplify(p * other + q * own + (r - 2) * q * other) == 0
    assert sp.simplify(own - other - (e + r - 1) / (e - 1)) == 0
    assert sp.simplify((own - other).subs(r, 2) - (e + 1) / (e - 1)) == 0


def prove_an_entry_of_a_vector_that_sums_to_0():
    """The factor, and that (R−1, −1, …, −1) attains it."""
    cells = sp.symbols("R", positive=True)
    assert sp.simplify(1 / (1 + 1 / (cells - 1)) - (1 - 1 / cells)) == 0
    squared_length = (cells - 1) ** 2 + (cells - 1)
    assert sp.simplify((cells - 1) ** 2 / squared_length - (1 - 1 / cells)) == 0
