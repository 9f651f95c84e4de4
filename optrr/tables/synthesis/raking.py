"""Weights on candidate records so that all of their pair tables are those wanted: raking, also called proportional fitting.

The distribution of largest entropy with given pair tables is the log-linear model of all pairs. Where all records fit into
memory they are the candidates, and raking (Deming & Stephan, Ann. Math. Stat. 11, 1940) finds it. Elsewhere candidates are
drawn from the tree of the most dependent pairs (Chow & Liu, IEEE Trans. Inf. Theory 14, 1968), which has the pair tables of its
edges already, and raking supplies the others; the result is then as rich as its candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from optrr.tables.synthesis.pairs import Pair
from optrr_solvers.arrays import FloatArray, IntArray

# Up to this many cells every record is a candidate.
EVERY_RECORD = 1 << 17
# Candidates for each record that is wanted; and the fewest and the most candidates in all.
_FOR_EACH, _FEWEST, _MOST = 4, 1 << 17, 1 << 20
# Raking stops where no cell of a pair is off by more than this share of the people, or after so many rounds: what is left then
# are pair tables that no records have all at once.
_TOLERANCE = 1e-5
_MOST_ROUNDS = 20


def candidates(
    tables: Mapping[Pair, FloatArray], sizes: Sequence[int], size: int, rng: np.random.Generator
) -> IntArray:
    """Records that raking may weigh, (N, m)."""
    if prod(sizes) <= EVERY_RECORD:
        return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)
    return _from_tree(tables, sizes, min(max(_FOR_EACH * size, _FEWEST), _MOST), rng)


def raked(records: IntArray, tables: Mapping[Pair, FloatArray]) -> FloatArray:
    """Weights (N,) that sum to 1, with which the records have these pair tables as nearly as they can."""
    weights = np.full(len(records), 1 / len(records))
    for _ in range(_MOST_ROUNDS):
        off = 0.0
        for (i, j), table in tables.items():
            cell = records[:, i] * table.shape[1] + records[:, j]
            present = np.bincount(cell, weights=weights, minlength=table.size)
            off = max(off, float(np.abs(present - table.ravel())[present > 0].max()))
            weights *= np.divide(table.ravel(), present, out=np.zeros(table.size), where=present > 0)[cell]
        weights /= weights.sum()
        if off < _TOLERANCE:
            break
    return weights


def _from_tree(
    tables: Mapping[Pair, FloatArray], sizes: Sequence[int], count: int, rng: np.random.Generator
) -> IntArray:
    m = len(sizes)
    lengths = np.zeros((m, m))
    for (i, j), table in tables.items():
        # all edges are negative, the most dependent pair's most; 0 would be none
        lengths[i, j] = -1.0 - _dependence(table)
    order, parents = breadth_first_order(minimum_spanning_tree(lengths), 0, directed=False)
    out = np.empty((count, m), dtype=np.int64)
    for child in order:
        parent = int(parents[child])
        if parent < 0:
            # every two attributes are joined, so only the first of all has no parent
            shares = tables[(0, 1)].sum(axis=1)
            out[:, child] = rng.choice(sizes[child], size=count, p=shares / shares.sum())
            continue
        table = tables[(parent, child)] if parent < child else tables[(child, parent)].T
        steps = np.cumsum(table, axis=1)
        steps = steps / np.maximum(steps[:, -1:], np.finfo(np.float64).tiny)
        drawn = (rng.random(count)[:, None] > steps[out[:, parent]]).sum(axis=1)
        out[:, child] = np.minimum(drawn, sizes[child] - 1)
    return out


def _dependence(table: FloatArray) -> float:
    """Mutual information in nats."""
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    held = table > 0
    return float(np.sum(table[held] * np.log(table[held] / apart[held])))
