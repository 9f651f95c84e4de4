"""p-values by simulation that stop as soon as they are known well enough (Besag & Clifford 1991).

Statistics are drawn under the null hypothesis one after the other. With T the observed one:

    h of them reached T, the h-th at draw l:        p = h/l
    all N are drawn and only k < h reached T:       p = (k + 1)/(N + 1)

Where the observed statistic is drawn from the same law, Pr(p ≤ α) ≤ α for every α, whatever h and N are, with equality up to
ties and steps: no limit theorem is needed. A p-value near 1 costs about h draws and a small one N; its relative standard
error is about 1/√h, or 1/√(k + 1) at the end of the draws. No p-value is below 1/(N + 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optrr_solvers.arrays import FloatArray, IntArray

# Statistics that differ by less than this, relatively, are equal: they are rounded sums.
_EQUAL = 1e-9
# numpy deals at most this many records at random.
MOST_RECORDS = 10**9
# Doubles held at once: 32 MB.
HELD = 1 << 22

# Statistics (len(of), size) of data sets drawn under the null hypothesis that belongs to each of the tables ``of``.
Draw = Callable[[IntArray, int], FloatArray]


@dataclass(frozen=True)
class Simulation:
    """When to stop: after ``hits`` ≥ 1 statistics as large as the observed one, or after ``most`` altogether."""

    hits: int = 100
    most: int = 99_999


@dataclass(frozen=True, eq=False)
class SimulatedP:
    """Of a batch, shape (B,): p-values, and how many statistics reached the observed one."""

    p_value: FloatArray
    reached: IntArray


def simulated_p_values(statistics: FloatArray, draw: Draw, rule: Simulation) -> SimulatedP:
    """The p-value of every observed statistic, shape (B,); each is compared with its own draws."""
    reached, drawn = np.zeros(statistics.size, dtype=np.int64), np.zeros(statistics.size, dtype=np.int64)
    p = np.ones(statistics.size)
    # p-values above a half end in the first block; every next one is twice as large, so that a small one takes about ten
    open_, size, total = np.arange(statistics.size), 2 * rule.hits, 0
    while open_.size and total < rule.most:
        size = min(size, rule.most - total)
        as_large = draw(open_, size) >= statistics[open_, None] * (1 - _EQUAL)
        seen = reached[open_, None] + np.cumsum(as_large, axis=1)
        stopped = seen[:, -1] >= rule.hits
        # the first draw at which the count is complete
        drawn[open_] = np.where(stopped, total + 1 + np.argmax(seen >= rule.hits, axis=1), total + size)
        reached[open_] = np.minimum(seen[:, -1], rule.hits)
        p[open_[stopped]] = rule.hits / drawn[open_[stopped]]
        open_ = open_[~stopped]
        total, size = total + size, 2 * size
    p[open_] = (reached[open_] + 1) / (rule.most + 1)
    return SimulatedP(p, reached)


def in_blocks(of: IntArray, size: int, doubles: int, draw: Draw) -> FloatArray:
    """``draw(of, size)`` in blocks of 32 MB, where every statistic takes so many doubles."""
    tables = max(1, HELD // (size * doubles))
    draws = max(1, HELD // doubles)
    blocks = [
        np.concatenate([draw(of[b : b + tables], min(draws, size - s)) for s in range(0, size, draws)], axis=1)
        for b in range(0, of.size, tables)
    ]
    return np.concatenate(blocks)


def dealt(rows: IntArray, columns: IntArray, size: int, rng: np.random.Generator) -> IntArray:
    """Tables with these margins (B, G) and (B, R), by dealing the records at random: (B, size, G, R).

    A record of a column is any row's with the same chance as any other: hypergeometric, cell after cell. Below 10^9 records.
    """
    groups, cells = rows.shape[1], columns.shape[1]
    out = np.empty((rows.shape[0], size, groups, cells), dtype=np.int64)
    left = np.broadcast_to(columns[:, None, :], (rows.shape[0], size, cells)).copy()
    for g in range(groups - 1):
        wanted = np.broadcast_to(rows[:, None, g], left.shape[:2]).copy()
        others = left.sum(axis=2)
        for r in range(cells):
            others -= left[:, :, r]
            out[:, :, g, r] = rng.hypergeometric(left[:, :, r], others, wanted)
            wanted -= out[:, :, g, r]
        left -= out[:, :, g]
    out[:, :, -1] = left
    return out
