"""Pair tables that people can have, near the unbiased ones: no negative cells, the same shares of an attribute in all of them.

Unbiased tables of one file agree on what they share, but have negative cells, and where randomization is strong their noise
is larger than the dependence, so that no records could have all of them at once. So each table is shrunk towards independence
by as much as its distance from there is noise (:mod:`optrr.tables.estimation.statistics`), then projected onto the simplex and
scaled to the projected shares of its attributes (Sinkhorn & Knopp, Pac. J. Math. 21, 1967).
Pairs share single attributes only, so that they agree to the tolerance at which the scaling stops.

Candidate records then get weights with which all of their pair tables are those wanted. The distribution of largest entropy
with given pair tables is the log-linear model of all pairs. Where all records fit into memory they are the candidates, and
raking (Deming & Stephan, Ann. Math. Stat. 11, 1940) finds it. Elsewhere candidates are drawn from the tree of the most
dependent pairs (Chow & Liu, IEEE Trans. Inf. Theory 14, 1968), which has the pair tables of its edges already, and raking
supplies the others; the result is then as rich as its candidates.

Margins of more attributes that are to be kept come as they are estimated, without being drawn towards independence, and the
pair tables inside them are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from math import prod

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Randomizer
from optrr.records.counts import Counts
from optrr.tables.estimation.simplex import projection
from optrr.tables.estimation.statistics import seen
from optrr_solvers.arrays import FloatArray, IntArray

# A margin's attributes, by position; and two of them.
Axes = tuple[int, ...]
Pair = tuple[int, int]

# A table that is scaled to shares needs an entry wherever both of them have one: this share of independence is mixed in.
_MIXED = 1e-6
# Scaling stops where shares are off by less than this.
_TOLERANCE = 1e-10
_MOST_SCALINGS = 500


def proper_pairs(counts: Mapping[Pair, Counts], mechanism: Randomizer) -> dict[Axes, FloatArray]:
    """Proper tables by pair of positions, that agree on every attribute.

    Raises
    ------
    SingularMarginal
        naming a pair that the mechanism hides.
    """
    raw = {pair: mechanism.kernel(c.domain.names).solve(c.proportions) for pair, c in counts.items()}
    shares: dict[int, FloatArray] = {}
    for pair, table in raw.items():
        for axis, attribute in enumerate(pair):
            shares.setdefault(attribute, projection(table.sum(axis=1 - axis)))
    out: dict[Axes, FloatArray] = {}
    for pair, table in raw.items():
        rows, columns = shares[pair[0]], shares[pair[1]]
        apart = np.outer(rows, columns)
        c = counts[pair]
        kept = seen(table - apart, mechanism.kernel(c.domain.names).variance(c.proportions, c.n), c.n)
        out[pair] = _scaled(apart + kept * (table - apart), (rows, columns))
    return out


def with_margins(pairs: Mapping[Axes, FloatArray], margins: Mapping[Axes, FloatArray]) -> dict[Axes, FloatArray]:
    """Pair tables and proper tables of more attributes, which are scaled to the pairs' shares of single ones.

    A pair inside a margin has the margin's table; inside several, that of the last.
    """
    out = dict(pairs)
    for axes, table in margins.items():
        shares = [_sums(pairs[(axes[0], axis)], 1) for axis in axes[1:]]
        out[axes] = _scaled(table, (_sums(pairs[(axes[0], axes[1])], 0), *shares))
        for pair in combinations(range(len(axes)), 2):
            others = tuple(k for k in range(len(axes)) if k not in pair)
            out[(axes[pair[0]], axes[pair[1]])] = out[axes].sum(axis=others)
    return out


def _sums(table: FloatArray, axis: int) -> FloatArray:
    """A table's sums over all axes but one."""
    return np.asarray(table.sum(axis=tuple(k for k in range(table.ndim) if k != axis)))


def product(shares: Sequence[FloatArray]) -> FloatArray:
    """The table of attributes that are independent."""
    return reduce(np.multiply.outer, shares)


def _scaled(table: FloatArray, shares: Sequence[FloatArray]) -> FloatArray:
    """The nearest proper table with these shares of each attribute."""
    out = (1 - _MIXED) * projection(table.ravel()).reshape(table.shape) + _MIXED * product(shares)
    for _ in range(_MOST_SCALINGS):
        for axis, wanted in enumerate(shares):
            present = _sums(out, axis)
            scales = np.divide(wanted, present, out=np.zeros_like(present), where=present > 0)
            out *= scales.reshape([-1 if k == axis else 1 for k in range(out.ndim)])
        if np.abs(_sums(out, 0) - shares[0]).max() < _TOLERANCE:
            break
    return out


def all_pairs(domain: Domain) -> Sequence[Pair]:
    """Every two attributes, by position. Raises InvalidInput where there is but one."""
    if domain.m < 2:
        raise InvalidInput("synthetic records need at least two attributes; estimate a single one with `estimate`")
    return list(combinations(range(domain.m), 2))


# Up to this many cells every record is a candidate.
EVERY_RECORD = 1 << 17
# Candidates for each record that is wanted; and the fewest and the most candidates in all.
_FOR_EACH, _FEWEST, _MOST = 4, 1 << 17, 1 << 20
# Raking stops where no cell of a pair is off by more than this share of the people, or after so many rounds: what is left then
# are pair tables that no records have all at once.
_RAKED = 1e-5
_MOST_ROUNDS = 20


def candidates(
    tables: Mapping[Axes, FloatArray], sizes: Sequence[int], size: int, rng: np.random.Generator
) -> IntArray:
    """Records that raking may weigh, (N, m), from pair tables (others are of no account)."""
    if prod(sizes) <= EVERY_RECORD:
        return every_record(sizes)
    return _from_tree(tables, sizes, min(max(_FOR_EACH * size, _FEWEST), _MOST), rng)


def raked(records: IntArray, tables: Mapping[Axes, FloatArray]) -> FloatArray:
    """Weights (N,) that sum to 1, with which the records have these tables as nearly as they can."""
    weights = np.full(len(records), 1 / len(records))
    for _ in range(_MOST_ROUNDS):
        off = 0.0
        for axes, table in tables.items():
            cell = np.ravel_multi_index(tuple(records[:, axes].T), table.shape)
            present = np.bincount(cell, weights=weights, minlength=table.size)
            off = max(off, float(np.abs(present - table.ravel())[present > 0].max()))
            weights *= np.divide(table.ravel(), present, out=np.zeros(table.size), where=present > 0)[cell]
        weights /= weights.sum()
        if off < _RAKED:
            break
    return weights


def _from_tree(
    tables: Mapping[Axes, FloatArray], sizes: Sequence[int], count: int, rng: np.random.Generator
) -> IntArray:
    m = len(sizes)
    lengths = np.zeros((m, m))
    for i, j in combinations(range(m), 2):
        # all edges are negative, the most dependent pair's most; 0 would be none
        lengths[i, j] = -1.0 - _dependence(tables[(i, j)])
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


def every_record(sizes: Sequence[int]) -> IntArray:
    """All records that there can be, (N, m), in order."""
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)


def drawn(pool: IntArray, weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """A systematic sample of ``size`` records of a pool in order: each comes as often as its weight says, to a record.

    Those that are alike, or nearly, lie beside each other, so that shares of a sample miss their law's by some 1/size, not by
    1/√size: next to no error is added to what the weights have.
    """
    steps = np.cumsum(weights)
    places = np.searchsorted(steps, (np.arange(size) + rng.random()) / size * steps[-1])
    return np.asarray(rng.permutation(pool[np.minimum(places, len(pool) - 1)]))


def _dependence(table: FloatArray) -> float:
    """Mutual information in nats."""
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    held = table > 0
    return float(np.sum(table[held] * np.log(table[held] / apart[held])))
