"""Tables of estimates made proper, and made to agree on what they share (MDR §6.4, design §4.3).

The unbiased estimate sums to 1 but may have negative cells. MDR §6.4 replaces negatives by 0 and rescales, and calls that
the nearest distribution in Euclidean distance, which it is not: `clip` does the former, `projection` the latter. Norm-Sub
(Wang et al., PVLDB 2020) replaces negatives by 0 and subtracts the surplus evenly from the rest, until none is negative;
its limit is the Euclidean projection, and it is computed as that.

Both take a batch: the last axis holds the cells. Tables that are fitted otherwise say how the iteration ended.

Tables estimated from one file by the unbiased method agree already. Made proper one by one, or estimated from different
groups of people or by different mechanisms, they do not. Every table is a sum of effects (design §3.2), and two tables agree
on U exactly if they have the same effects W ⊆ U; effects are orthogonal. So the weighted least-squares answer is: for every
W, the weighted mean of that effect over the tables that contain it, with weights n λ_W², the effect's precision.

Where proper tables are wanted, the mean and the Euclidean projection of every table onto the distributions alternate
(von Neumann): they converge to tables that are both, if slowly where they touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import EffectKernel
from optrr.mechanisms.mechanism import Randomizer
from optrr_solvers.arrays import FloatArray

Names = tuple[str, ...]

# The most negative cell that tables which agree, and are proper, may have: what is left then is rounding.
MOST_NEGATIVE = 1e-9
# Rounds of projecting and averaging, after which tables that touch are taken as they are.
MOST_PROJECTIONS = 2000
# A table of ten attributes has 1024 effects.
_MAX_ATTRIBUTES = 10


@dataclass(frozen=True)
class Convergence:
    """How an iteration ended.

    ``criterion`` says what ``value`` measures; it is at most ``tolerance`` where ``converged``. ``log_likelihood`` is in
    nats over all records, None where the method does not maximise one.
    """

    iterations: int
    converged: bool
    criterion: str
    value: float
    tolerance: float
    log_likelihood: float | None = None


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A fitted table, and how it was reached; None where nothing was iterated."""

    proportions: FloatArray
    convergence: Convergence | None = None


def clip(values: ArrayLike) -> FloatArray:
    """Negatives to 0, then rescale to sum 1 (MDR §6.4). Biased upwards in small cells; the truth's order is kept.

    Raises InvalidInput where no value is positive.
    """
    positive = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    if np.any(total <= 0):
        raise InvalidInput("no cell is positive, so nothing can be rescaled; use projection")
    return np.asarray(positive / total)


def projection(values: ArrayLike) -> FloatArray:
    """The distribution nearest in Euclidean distance: max(x − τ, 0) with the τ that makes it sum to 1; O(R log R)."""
    x = np.asarray(values, dtype=np.float64)
    descending = -np.sort(-x, axis=-1)
    excess = np.cumsum(descending, axis=-1) - 1
    k = np.arange(1, x.shape[-1] + 1)
    last = np.count_nonzero(descending - excess / k > 0, axis=-1, keepdims=True)
    tau = np.take_along_axis(excess, last - 1, axis=-1) / last
    return np.asarray(np.maximum(x - tau, 0.0))


@dataclass(frozen=True, eq=False)
class ConsistentTables:
    """``tables`` by attribute set, agreeing on every shared set; ``convergence`` is None where no rounds were needed."""

    tables: dict[Names, FloatArray]
    convergence: Convergence | None


def consistent_tables(
    tables: Mapping[Names, FloatArray],
    records: Mapping[Names, float] | None = None,
    mechanism: Randomizer | None = None,
    *,
    proper: bool = True,
) -> ConsistentTables:
    """Tables that agree on every attribute set they share, nearest to the given ones.

    Averages are unbiased where the tables are and ``proper`` is False. Proper tables carry the projection's bias: upwards
    in small cells.

    Parameters
    ----------
    tables
        estimates by attribute set, each summing to 1, axes in the set's order; at most ten attributes each.
    records
        number of records behind each table; equal unless given.
    mechanism
        gives λ_W for the weights; without it an effect's precision is the number of records.
    proper
        also no negative cells.
    """
    given = {tuple(names): np.asarray(t, dtype=np.float64) for names, t in tables.items()}
    _check(given)
    if records is not None and not all(records.get(names, 0) > 0 for names in given):
        raise InvalidInput("every table needs a number of records above 0; leave records out to weigh the tables alike")
    weight = {names: 1.0 if records is None else float(records[names]) for names in given}
    shares = _Shares(given, weight, mechanism)
    current = shares.averaged(given)
    if not proper:
        return ConsistentTables(current, None)
    rounds, off = 0, _negative(current)
    while off > MOST_NEGATIVE and rounds < MOST_PROJECTIONS:
        current = shares.averaged({names: projection(t.ravel()).reshape(t.shape) for names, t in current.items()})
        rounds, off = rounds + 1, _negative(current)
    report = Convergence(rounds, off <= MOST_NEGATIVE, "most negative cell of the agreeing tables", off, MOST_NEGATIVE)
    # what is left is rounding, or the result says that it has not converged
    return ConsistentTables({names: np.maximum(t, 0.0) for names, t in current.items()}, report)


class _Shares:
    """For every effect, the tables that contain it and their weights."""

    def __init__(self, tables: Mapping[Names, FloatArray], weight: Mapping[Names, float], mechanism: Randomizer | None):
        self._holders: dict[frozenset[str], list[tuple[Names, float]]] = {}
        for names in tables:
            for effect in chain.from_iterable(combinations(names, k) for k in range(len(names) + 1)):
                precision = weight[names]
                if mechanism is not None and effect:
                    kernel = mechanism.kernel(effect)
                    # general matrices have no λ: only laws of change sets do
                    if isinstance(kernel, EffectKernel):
                        precision *= float(np.ravel(kernel.eigenvalues)[-1]) ** 2
                self._holders.setdefault(frozenset(effect), []).append((names, precision))

    def averaged(self, tables: Mapping[Names, FloatArray]) -> dict[Names, FloatArray]:
        """Every effect replaced by its weighted mean over the tables that contain it."""
        out = {names: np.zeros_like(t) for names, t in tables.items()}
        for effect, holders in self._holders.items():
            order = tuple(sorted(effect))
            total = sum(w for _, w in holders)
            # the mechanism hides this effect in every table, so no table has more precision than another: take the plain mean
            parts = [(names, w / total if total > 0 else 1 / len(holders)) for names, w in holders]
            mean = sum(w * _component(tables[names], names, order) for names, w in parts)
            for names, _ in holders:
                out[names] += _spread(np.asarray(mean), names, order, tables[names].shape)
        return out


def _component(table: FloatArray, names: Names, effect: Names) -> FloatArray:
    """The effect's component of the *marginal* over the effect's attributes, axes in the effect's order."""
    rest = tuple(i for i, name in enumerate(names) if name not in effect)
    inside = [name for name in names if name in effect]
    marginal = np.transpose(table.sum(axis=rest), [inside.index(name) for name in effect])
    for axis in range(marginal.ndim):
        marginal = marginal - marginal.mean(axis=axis, keepdims=True)
    return np.asarray(marginal)


def _spread(component: FloatArray, names: Names, effect: Names, shape: tuple[int, ...]) -> FloatArray:
    """The component laid evenly over the cells of the table's other attributes."""
    inside = [name for name in names if name in effect]
    ordered = np.transpose(component, [effect.index(name) for name in inside])
    full = ordered.reshape([r if name in effect else 1 for name, r in zip(names, shape, strict=True)])
    others = np.prod([r for name, r in zip(names, shape, strict=True) if name not in effect])
    return np.broadcast_to(full / others, shape)


def _negative(tables: Mapping[Names, FloatArray]) -> float:
    return max(max(-float(t.min()), 0.0) for t in tables.values())


def _check(tables: Mapping[Names, FloatArray]) -> None:
    sizes: dict[str, int] = {}
    if not tables:
        raise InvalidInput("there are no tables to make consistent; give at least one")
    for names, table in tables.items():
        if len(set(names)) < len(names):
            raise InvalidInput(f"the attribute set {names} names an attribute twice; name it once")
        if table.ndim != len(names) or len(names) > _MAX_ATTRIBUTES:
            raise InvalidInput(
                f"the table of {names} has {table.ndim} axes; give one axis for each of at most {_MAX_ATTRIBUTES} attributes"
            )
        for name, r in zip(names, table.shape, strict=True):
            if sizes.setdefault(name, r) != r:
                raise InvalidInput(f"attribute {name!r} has size {sizes[name]} in one table and {r} in another")
        if not np.isclose(table.sum(), 1):
            raise InvalidInput(f"the table of {names} sums to {table.sum():.6g}; give proportions that sum to 1")
