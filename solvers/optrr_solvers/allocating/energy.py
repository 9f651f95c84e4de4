"""Limits on how much one report of an ε-LDP mechanism can tell of the effects of a table together (design §3.9).

Of a report y let d_y(x) = Q(y|x)/mean_x Q(y|x), and e_S its mean square on the effects of the attribute set S, averaged over y
at the uniform population. The information that reports hold on these effects has trace e_S, so that n times the summed
variance of unbiased estimates of them is at least dim_S²/e_S, dim_S = Π_{i∈S} (r_i − 1) (Cauchy–Schwarz). How large the e_S
can be together:

    the whole      Σ_S e_S ≤ cap_R(ε), R the number of all cells: d_y lies within a factor e^ε of its least value
    every table U  Σ_{∅≠S⊆U} e_S ≤ cap_K(ε), K its number of cells: averaging over the other attributes widens no ratio
    every effect   e_S ≤ dim_S

where cap_K(ε) = max_{1≤j<K} p(1−p) g²/(1+gp)², p = j/K, g = e^ε − 1; it is below sinh²(ε/2), and tends to it.

    parts          Σ_B c_B Σ_{∅≠S⊆B} e_S ≤ κ_R(ε), disjoint sets B: the relative entropy of d_y to the uniform law is
                   at least the sum of those of its margins d_B, and each of these at least c_B times the energy of B

with κ_R(ε) = max_j of the entropy of the same two-valued density, and c_B = f(t)/(t−1)², f(t) = t ln t − t + 1, at the largest
value t = K e^ε/(K − 1 + e^ε) that a margin over K cells can have. It helps where ε is large and attributes are many.

These limits stand beside Delsarte's in the lower bound of errors (:mod:`optrr_solvers.allocating.delsarte`). Where errors
G_U ≤ τ_U are required instead, they are impossible at a total at which, with multipliers v of the tables, y of the limits,
C_S = Σ_U v_U c_US, c_US the effect's part of G_U, and Y_S = Σ_{c∋S} y_c,

    (Σ_S √(N_S C_S dim_S Y_S))² > Σ_c y_c cap_c · Σ_U v_U τ_U.

Letters: S effect, e_S its energy, N_S how many effects are alike, C_S one's coefficient in the workload's error, y multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from optrr_solvers.allocating.workload import TableWorkload, eigenvalues_of
from optrr_solvers.arrays import FloatArray, IntArray

# Beyond this ε the error is sampling's; squares of the exponential still are numbers.
MOST_EPSILON = 300.0
# Beyond this many cells the best share of them is taken for one that can be had, which raises the cap by less than 1e-6 of it.
MANY_CELLS = 1 << 20
# What rounding may have added to a bound, relative.
_ROUNDING = 1e-9
# Below this t − 1, c_B is a series, which is off by a third of the above at most.
_SERIES = 1e-2
# A total is bounded to this, relative, and no further than this many nats.
_TOTAL_FOUND, _MOST_TOTAL = 1e-6, 512.0


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


def accuracy_bound(workload: TableWorkload, targets: FloatArray) -> float:
    """Total ε in nats below which no mechanism has n E‖π̂_U − π_U‖² ≤ τ_U for every table, rounded down.

    ``targets`` are the τ_U, shape (tables,), ``inf`` where nothing is required. For joint tables, too, and for any alphabet.
    Time O(effects) for each of some thousand steps.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 (as above)

    wanted = np.flatnonzero(np.isfinite(targets))
    if not wanted.size:
        return 0.0
    shares = sp.csr_array(workload.shares[wanted])
    seen = np.flatnonzero(np.asarray(shares.sum(axis=0)).ravel())
    parts = sp.csr_array(sp.diags_array(1 / targets[wanted]) @ shares[:, seen])
    needs, across = _constraints(workload, 1.0)[0] / workload.coefficients, sp.csr_array(parts.T)
    start = np.full(wanted.size, 1.0)

    def impossible(total: float) -> bool:
        nonlocal start
        _, shapes, caps = _constraints(workload, total)
        scaled = sp.csr_array(sp.diags_array(1 / caps) @ shapes)[:, seen]
        down = sp.csr_array(scaled.T)

        def negative(z: FloatArray) -> tuple[float, FloatArray]:
            # v τ and y cap are the squares of z
            v, y = z[: wanted.size] ** 2, z[wanted.size :] ** 2
            cost, held = np.maximum(across @ v, 1e-300), np.maximum(down @ y, 1e-300)
            root = np.sqrt(needs[seen] * cost * held)
            value = 2 * math.log(root.sum()) - math.log(v.sum()) - math.log(y.sum())
            slope = np.concatenate(
                [
                    (parts @ (root / cost)) / root.sum() - 1 / v.sum(),
                    (scaled @ (root / held)) / root.sum() - 1 / y.sum(),
                ]
            )
            return -value, -2 * z * slope

        if start.size == wanted.size:
            start = np.concatenate([start, [wanted.size], np.full(caps.size - 1, 0.03 * wanted.size)])
        climbed = minimize(
            negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-12, "gtol": 1e-8}
        )
        # a multiplier that is 0 would stay so
        start = np.maximum(climbed.x / np.linalg.norm(climbed.x), 1e-4)
        return bool(-climbed.fun > _ROUNDING)

    low, high = 0.0, 1.0
    while high < _MOST_TOTAL and impossible(high):
        low, high = high, 2 * high
    while high - low > _TOTAL_FOUND * high:
        middle = (low + high) / 2
        low, high = (middle, high) if impossible(middle) else (low, middle)
    return low * (1 - _ROUNDING)


def total_bound(sizes: IntArray, epsilons: FloatArray) -> float:
    """Total ε in nats below which no mechanism estimates each attribute with the variance of randomized response at ε_i.

    Its energies are then at least (r_i − 1) λ_i², and their sum at most sinh²(total/2). For any alphabet, as the rest; flip
    probabilities play no part. r_i and ε_i in nats, shape (m,) each.
    """
    energies = (sizes - 1) * eigenvalues_of(sizes, epsilons) ** 2
    return 2 * math.asinh(math.sqrt(float(np.sum(energies)))) * (1 - _ROUNDING)


def energy_limits(workload: TableWorkload, total: float) -> tuple[sp.csc_array, FloatArray]:
    """Limits beside the whole's: b_lS over the number of effects like S, shape (effects, limits), and cap_l."""
    _, shapes, caps = _constraints(workload, total)
    return sp.csc_array((shapes[1:] / workload.alike).T), caps[1:]


def _constraints(workload: TableWorkload, total: float) -> tuple[FloatArray, sp.csr_array, FloatArray]:
    """C_W dim_W of every kind of effect, and shapes e ≤ caps, the whole's first."""
    sizes = workload.sizes.astype(np.float64)
    place = {workload.key(w): k for k, w in enumerate(workload.effects)}
    dims = np.asarray([math.prod(sizes[list(w)] - 1) for w in workload.effects])
    rows: list[dict[int, float]] = [{k: float(n) for k, n in enumerate(workload.alike)}]
    cells = float(np.exp(min(np.log(sizes).sum(), 700.0)))
    caps = [energy_cap(round(cells) if cells < MANY_CELLS else cells, total)]

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
    for k, dim in enumerate(dims.tolist()):
        rows.append({k: 1.0})
        caps.append(dim)
    most = entropy_cap(round(cells) if cells < MANY_CELLS else cells, total)
    for parts in _partitions(workload):
        rows.append({})
        for block in parts:
            add(block, rows[-1], _entropy_rate(math.prod(workload.sizes[list(block)].tolist()), total))
        caps.append(most)
    shapes = sp.coo_array(
        (
            [v for row in rows for v in row.values()],
            ([k for k, row in enumerate(rows) for _ in row], [at for row in rows for at in row]),
        ),
        shape=(len(rows), len(dims)),
    )
    return workload.coefficients * dims, sp.csr_array(shapes), np.asarray(caps)


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
