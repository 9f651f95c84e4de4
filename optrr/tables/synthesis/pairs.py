"""Pair tables that people can have, near the unbiased ones: no negative cells, the same shares of an attribute in all of them.

Unbiased tables of one file agree on what they share, but have negative cells, and where randomization is strong their noise
is larger than the dependence, so that no records could have all of them at once. So each table is shrunk towards independence
by as much as its distance from there is noise (:mod:`optrr.tables.estimation.shrinkage`), then projected onto the simplex and
scaled to the projected shares of its attributes (Sinkhorn & Knopp, Pac. J. Math. 21, 1967).
Pairs share single attributes only, so that they agree to the tolerance at which the scaling stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.randomizer import Randomizer
from optrr.records.counts import Counts
from optrr.tables.estimation.shrinkage import seen
from optrr.tables.estimation.simplex import projection
from optrr_solvers.arrays import FloatArray

Pair = tuple[int, int]

# A table that is scaled to shares needs an entry wherever both of them have one: this share of independence is mixed in.
_MIXED = 1e-6
# Scaling stops where shares are off by less than this.
_TOLERANCE = 1e-10
_MOST_SCALINGS = 500


def proper_pairs(counts: Mapping[Pair, Counts], mechanism: Randomizer) -> dict[Pair, FloatArray]:
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
    out = {}
    for pair, table in raw.items():
        rows, columns = shares[pair[0]], shares[pair[1]]
        apart = np.outer(rows, columns)
        c = counts[pair]
        kept = seen(table - apart, c.proportions, c.n, mechanism.kernel(c.domain.names))
        out[pair] = _scaled(apart + kept * (table - apart), rows, columns)
    return out


def _scaled(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    out = (1 - _MIXED) * projection(table.ravel()).reshape(table.shape) + _MIXED * np.outer(rows, columns)
    for _ in range(_MOST_SCALINGS):
        out *= _ratio(rows, out.sum(axis=1))[:, None]
        out *= _ratio(columns, out.sum(axis=0))
        if np.abs(out.sum(axis=1) - rows).max() < _TOLERANCE:
            break
    return out


def _ratio(wanted: FloatArray, present: FloatArray) -> FloatArray:
    return np.divide(wanted, present, out=np.zeros_like(wanted), where=present > 0)


def all_pairs(domain: Domain) -> Sequence[Pair]:
    """Every two attributes, by position.

    Raises
    ------
    InvalidInput
        where there is but one.
    """
    if domain.m < 2:
        raise InvalidInput("synthetic records need at least two attributes; estimate a single one with `estimate`")
    return list(combinations(range(domain.m), 2))
