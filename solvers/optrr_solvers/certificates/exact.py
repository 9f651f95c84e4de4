"""A law's accuracies in exact rational arithmetic: the upper side of a certificate, for few cells (design §3.4).

Densities are e^{l} for stored doubles l. Each e^{l} is enclosed by rationals, μ is rational, so Pr(i kept) and Pr(i changed)
are enclosed, and with them the odds e^{ε_i} = (r_i−1) Pr(kept)/Pr(changed).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

import numpy as np

from optrr_solvers.certificates.certificate import EXACT_CELLS
from optrr_solvers.enclosure import exp_bounds, log_ceiling, log_floor, sum_ceiling
from optrr_solvers.laws import BallLaw, BlockLaw, CountLaw, FewChangesLaw, Law, ProductLaw, TableLaw
from optrr_solvers.problem import FloatArray, IntArray


def exact_attribute_epsilons(law: Law) -> tuple[FloatArray, FloatArray] | None:
    """Proven lower and upper bounds of every achieved ε_i in nats, shape (m,); None where the law has too many cells.

    Table laws up to 12 attributes, count laws up to 4096 cells, product laws, and blocks of these.
    """
    if isinstance(law, ProductLaw):
        return law.epsilons.copy(), law.epsilons.copy()
    if isinstance(law, TableLaw) and law.log_density.size <= EXACT_CELLS:
        return _from_cells(law.sizes, [np.asarray([i]) for i in range(law.m)], law.log_density)
    if isinstance(law, CountLaw) and law.log_density.size <= EXACT_CELLS:
        return _from_cells(law.sizes, law.classes, law.log_density)
    if isinstance(law, BlockLaw):
        return _from_blocks(law)
    return None


def exact_epsilon_ceiling(law: Law) -> float | None:
    """Smallest double not below the exact total ε of the stored numbers; None for laws whose ε is no sum of them."""
    parts = _epsilon_parts(law)
    return None if parts is None else sum_ceiling(parts)


def _epsilon_parts(law: Law) -> list[float] | None:
    """Doubles whose exact sum is the law's ε."""
    match law:
        case ProductLaw():
            return [float(e) for e in law.epsilons]
        case TableLaw() | CountLaw():
            return [float(law.log_density.max()), -float(law.log_density.min())]
        case BallLaw():
            return [law.log_ratio]
        case FewChangesLaw():
            return [max(law.log_none, float(law.log_single.max()))]
        case BlockLaw():
            found = [_epsilon_parts(inner) for _, inner in law.blocks]
            return None if any(p is None for p in found) else [x for p in found if p is not None for x in p]
    return None


def _from_blocks(law: BlockLaw) -> tuple[FloatArray, FloatArray] | None:
    low, high = np.empty(law.m), np.empty(law.m)
    for members, inner in law.blocks:
        found = exact_attribute_epsilons(inner)
        if found is None:
            return None
        low[list(members)], high[list(members)] = found
    return low, high


def _from_cells(sizes: IntArray, classes: Sequence[IntArray], log_density: FloatArray) -> tuple[FloatArray, FloatArray]:
    outputs = [1]
    for members in classes:
        n, r = members.size, int(sizes[members[0]])
        step = [math.comb(n, k) * (r - 1) ** k for k in range(n + 1)]
        outputs = [x * y for x in outputs for y in step]
    flat = log_density.ravel()
    levels = {level: exp_bounds(level) for level in set(flat.tolist())}
    # one common denominator keeps the sums in integers; the bits are far below the enclosures' own width
    unit = _common_unit(levels.values())
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


def _common_unit(bounds: Collection[tuple[Fraction, Fraction]]) -> int:
    smallest = min(low for low, _ in bounds)
    return 1 << (200 + max(0, smallest.denominator.bit_length() - smallest.numerator.bit_length()))
