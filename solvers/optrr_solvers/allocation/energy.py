"""Limits on how much one report of an ε-LDP mechanism can tell of the effects of a table together (design §3.9).

Of a report y let d_y(x) = Q(y|x)/mean_x Q(y|x), and e_S its mean square on the effects of the attribute set S, averaged over y
at the uniform population. The information that reports hold on these effects has trace e_S, so that n times the summed
variance of unbiased estimates of them is at least dim_S²/e_S, dim_S = Π_{i∈S} (r_i − 1) (Cauchy–Schwarz). How large the e_S
can be together:

    every table U  Σ_{∅≠S⊆U} e_S ≤ cap_K(ε), K its number of cells: averaging over the other attributes widens no ratio
    every effect   e_S ≤ dim_S

where cap_K(ε) = max_{1≤j<K} p(1−p) g²/(1+gp)², p = j/K, g = e^ε − 1; it is below sinh²(ε/2), and tends to it.

    parts          Σ_B c_B Σ_{∅≠S⊆B} e_S ≤ κ_R(ε), disjoint sets B: the relative entropy of d_y to the uniform law is
                   at least the sum of those of its margins d_B, and each of these at least c_B times the energy of B

with κ_R(ε) = max_j of the entropy of the same two-valued density, and c_B = f(t)/(t−1)², f(t) = t ln t − t + 1, at the largest
value t = K e^ε/(K − 1 + e^ε) that a margin over K cells can have. It helps where ε is large and attributes are many.

These limits stand beside Delsarte's in the lower bound of errors (:mod:`optrr_solvers.allocation.delsarte`).
"""

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray

# Beyond this ε the error is sampling's; squares of the exponential still are numbers.
MOST_EPSILON = 300.0
# Beyond this many cells the best share of them is taken for one that can be had, which raises the cap by less than 1e-6 of it.
MANY_CELLS = 1 << 20
# Below this t − 1, c_B is a series, which is off by a third of the above at most.
_SERIES = 1e-2


def energy_cap(cells: float, total: float) -> float:
    """Largest variance of a density over equal cells whose values lie within a factor e^ε; ε in nats."""
    return _largest(cells, total, lambda p, gain: p * (1 - p) * (gain / (1 + gain * p)) ** 2, lambda e: 1 / (1 + e))


def entropy_cap(cells: float, total: float) -> float:
    """Largest relative entropy to the uniform law of such a density, in nats."""

    def entropy(p: float, gain: float) -> float:
        return p * (1 + gain) * math.log1p(gain) / (1 + gain * p) - math.log1p(gain * p)

    # where the derivative in p vanishes
    return _largest(cells, total, entropy, lambda e: (e * math.log(e) / (e - 1) - 1) / (e - 1))


def _largest(
    cells: float, total: float, value: Callable[[float, float], float], best: Callable[[float], float]
) -> float:
    """The largest value over shares of so many cells; ``best`` is the share, of any, that a factor e^ε has it at."""
    grown = math.exp(min(total, MOST_EPSILON))
    share = best(grown)
    if cells > MANY_CELLS:
        return float(value(share, grown - 1))
    below = min(max(math.floor(share * cells), 1), int(cells) - 1)
    return max(float(value(j / cells, grown - 1)) for j in (below, min(below + 1, int(cells) - 1)))


def energy_limits(workload: TableWorkload, total: float) -> tuple[sp.csc_array, FloatArray]:
    """b_lS, over the number of effects like S, and cap_l of tables, effects and parts: (effects, limits) and (limits,)."""
    sizes = workload.sizes.astype(np.float64)
    place = {workload.key(w): k for k, w in enumerate(workload.effects)}
    rows: list[dict[int, float]] = []
    caps: list[float] = []

    def add(block: tuple[int, ...], row: dict[int, float], factor: float = 1.0) -> None:
        for k in range(1, len(block) + 1):
            for inside in combinations(block, k):
                at = place.get(workload.key(inside))
                if at is not None:
                    row[at] = row.get(at, 0.0) + factor

    for table in workload.tables:
        rows.append({})
        add(table, rows[-1])
        caps.append(energy_cap(math.prod(workload.sizes[list(table)].tolist()), total))
    for k, effect in enumerate(workload.effects):
        rows.append({k: 1.0})
        caps.append(math.prod(sizes[list(effect)] - 1))
    cells = float(np.exp(min(np.log(sizes).sum(), 700.0)))
    most = entropy_cap(round(cells) if cells < MANY_CELLS else cells, total)
    for parts in _partitions(workload):
        rows.append({})
        for block in parts:
            add(block, rows[-1], _entropy_rate(math.prod(workload.sizes[list(block)].tolist()), total))
        caps.append(most)
    shapes = sp.coo_array(
        (
            [v / workload.alike[at] for row in rows for at, v in row.items()],
            ([at for row in rows for at in row], [k for k, row in enumerate(rows) for _ in row]),
        ),
        shape=(len(workload.effects), len(rows)),
    )
    return sp.csc_array(shapes), np.asarray(caps)


def _entropy_rate(cells: int, total: float) -> float:
    """c_B: the least ratio of relative entropy to variance of a margin over this many cells."""
    above = (cells - 1) * -math.expm1(-total) / (1 + (cells - 1) * math.exp(-total))
    if above < _SERIES:
        # the differences would cancel; the series alternates, and ends below its sum
        return 1 / 2 - above / 6 + above**2 / 12 - above**3 / 20
    return ((1 + above) * math.log1p(above) - above) / above**2


def _partitions(workload: TableWorkload) -> list[list[tuple[int, ...]]]:
    """Every attribute on its own, and the rounds of a tournament, in which every two attributes meet once."""
    m = workload.m
    out: list[list[tuple[int, ...]]] = [[(i,) for i in range(m)]]
    if m > 64 or m < 2:
        return out
    wheel = [*range(m), *([-1] if m % 2 else [])]
    for _ in range(len(wheel) - 1):
        half = len(wheel) // 2
        out.append(
            [
                tuple(sorted(i for i in pair if i >= 0))
                for pair in zip(wheel[:half], wheel[: half - 1 : -1], strict=True)
            ]
        )
        wheel = [wheel[0], wheel[-1], *wheel[1:-1]]
    return out
