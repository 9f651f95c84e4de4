"""A law's accuracies in exact rational arithmetic: the upper side of a certificate, for few cells (design §3.4).

Densities are e^{l} for stored doubles l. Each e^{l} is enclosed by rationals, μ is rational, so Pr(i kept) and Pr(i changed)
are enclosed, and with them the odds e^{ε_i} = (r_i−1) Pr(kept)/Pr(changed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.enclosure import exp_bounds, log_ceiling, log_floor

# Up to here sums over cells are exact rationals (2^12 cells take a few milliseconds).
EXACT_CELLS = 1 << 12


def attribute_epsilon_bounds(
    sizes: IntArray, classes: Sequence[IntArray], log_density: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Proven lower and upper bounds of every ε_i, shape (m,), from densities over counts; None above 2^12 cells."""
    if log_density.size > EXACT_CELLS:
        return None
    outputs = [1]
    for members in classes:
        n, r = members.size, int(sizes[members[0]])
        step = [math.comb(n, k) * (r - 1) ** k for k in range(n + 1)]
        outputs = [x * y for x in outputs for y in step]
    flat = log_density.ravel()
    levels = {level: exp_bounds(level) for level in set(flat.tolist())}
    # with one common denominator the sums are sums of integers; rounding to it adds far less than the width of the enclosures
    smallest = min(low for low, _ in levels.values())
    unit = 1 << (200 + max(0, smallest.denominator.bit_length() - smallest.numerator.bit_length()))
    masses = [
        [n * rounding(levels[x][side] * unit) for n, x in zip(outputs, flat.tolist(), strict=True)]
        for side, rounding in ((0, math.floor), (1, math.ceil))
    ]
    low, high = np.empty(sizes.size), np.empty(sizes.size)
    counts = np.unravel_index(np.arange(flat.size), log_density.shape)
    for members, k in zip(classes, counts, strict=True):
        n, r = members.size, int(sizes[members[0]])
        changed = [sum(int(c) * x for c, x in zip(k, side, strict=True)) for side in masses]
        kept = [sum((n - int(c)) * x for c, x in zip(k, side, strict=True)) for side in masses]
        low[members] = log_floor(Fraction((r - 1) * kept[0], changed[1]))
        high[members] = log_ceiling(Fraction((r - 1) * kept[1], changed[0]))
    return low, high
