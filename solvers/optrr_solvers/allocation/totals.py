"""From totals to effects: laws that look at one weighted total X = Σ w_i 1[i∈S] only, for any number of attributes.

A cell is a total x; with the conditional means K_W(x) = E_μ[χ_W | X = x] a law of density q(X) has

    λ_W = Σ_x μ(x) q(x) K_W(x) / Σ_x μ(x) q(x),

so such laws form a lattice like that of :mod:`optrr_solvers.allocation.oracle`, and the same descent serves it. Where
totals tell all change sets apart nothing is lost; for many attributes the sets of one total differ little.

μ(x) K_W(x) is a product of one sparse polynomial per class. They are multiplied along a binary tree that shares the
products over attributes outside W, and only non-negative numbers are ever added to μ(x): relative errors of some m roundings.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optrr_solvers.allocation.oracle import effect_usage, mean_effects
from optrr_solvers.allocation.workload import TableWorkload
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws.binomial import log_change_counts
from optrr_solvers.laws.weighted_ball import WeightedBall

# Effects × totals that are held at once: 128 MB.
_ENTRIES = 1 << 24
# The most totals of a grid: a finer one would tell no more change sets apart.
_MOST_TOTALS = 1 << 15
# Totals less likely than this are left out: next to underflow, products would lose their digits.
_FAINT = 1e-280

_Usage = tuple[int, ...]


def grid_weights(workload: TableWorkload, real: FloatArray) -> IntArray:
    """Positive weights per class, shape (G,), as integers with as large a total as memory allows."""
    counts = np.asarray([c.size for c in workload.classes])
    most = min(_MOST_TOTALS, _ENTRIES // (len(workload.effects) + len(counts)))
    scaled = real * max(most - workload.m, 1) / float(real @ counts)
    return np.maximum(np.round(scaled), 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class EffectTotals:
    """Totals of the given integer weights per class, shape (G,), with the workload's effects given each.

    Time O(effects · ln m · totals) for one-way tables and pairs, memory (effects, totals).
    """

    workload: TableWorkload
    weights: IntArray

    @property
    def classes(self) -> tuple[IntArray, ...]:
        """The workload's classes."""
        return self.workload.classes

    @cached_property
    def most(self) -> int:
        """The largest total."""
        return int(self.weights @ np.asarray([c.size for c in self.classes]))

    @cached_property
    def _usage(self) -> IntArray:
        return effect_usage(self.workload)

    @property
    def rows(self) -> int:
        """Length of an effect vector: the workload's effects, then one per class."""
        return int(self._usage.shape[0])

    @cached_property
    def _kernels(self) -> list[FloatArray]:
        """Per class Pr(k of its members change) · mean χ of u of them given k, shape (most used + 1, n + 1)."""
        out = []
        for members, used in zip(self.classes, self._usage.max(axis=0).tolist(), strict=True):
            r = int(self.workload.sizes[members[0]])
            out.append(np.exp(log_change_counts(members.size, r)) * mean_effects(members.size, r, used))
        return out

    @cached_property
    def _given_totals(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Totals that occur, μ of each, and K, shape (rows, totals)."""
        keys = [tuple(row) for row in self._usage.tolist()]
        nothing = (0,) * len(self.classes)
        start = np.zeros(self.most + 1)
        start[0] = 1.0
        products = self._products(0, len(self.classes), {*keys, nothing}, start)
        mass = products[nothing]
        at = np.flatnonzero(mass > _FAINT)
        return at, mass[at], np.stack([products[key][at] for key in keys]) / mass[at]

    def _products(self, low: int, high: int, wanted: set[_Usage], start: FloatArray) -> dict[_Usage, FloatArray]:
        """``start`` times the polynomials of classes low..high−1, for every wanted usage of these classes."""
        if high - low == 1:
            return {u: self._times(start, low, u[0]) for u in wanted}
        half = (high - low) // 2
        middle = low + half
        on_left, on_right = {u for u in wanted if not any(u[half:])}, {u for u in wanted if not any(u[:half])}
        out: dict[_Usage, FloatArray] = {}
        # a half of the classes that no effect involves is multiplied only once, for all effects
        if on_right:
            after = self._unused(low, middle, start)
            rights = self._products(middle, high, {u[half:] for u in on_right}, after)
            out |= {(0,) * half + right: values for right, values in rights.items()}
        if on_left - on_right:
            after = self._unused(middle, high, start)
            lefts = self._products(low, middle, {u[:half] for u in on_left - on_right}, after)
            out |= {left + (0,) * (high - middle): values for left, values in lefts.items()}
        across: dict[_Usage, set[_Usage]] = {}
        for u in wanted - on_left - on_right:
            across.setdefault(u[:half], set()).add(u[half:])
        if across:
            for left, part in self._products(low, middle, set(across), start).items():
                for right, values in self._products(middle, high, across[left], part).items():
                    out[left + right] = values
        return out

    def _unused(self, low: int, high: int, values: FloatArray) -> FloatArray:
        for g in range(low, high):
            values = self._times(values, g, 0)
        return values

    def _times(self, values: FloatArray, g: int, used: int) -> FloatArray:
        weight, (first, *others) = int(self.weights[g]), self._kernels[g][used]
        out = first * values
        for k, factor in enumerate(others, start=1):
            out[k * weight :] += factor * values[: values.size - k * weight]
        return np.asarray(out)

    @property
    def totals(self) -> IntArray:
        """The totals that occur, shape (cells,)."""
        return self._given_totals[0]

    @property
    def mu(self) -> FloatArray:
        """Their law under uniformly random answers, shape (cells,)."""
        return self._given_totals[1]

    def effects_of(self, mass: FloatArray) -> FloatArray:
        """λ of a law (or of any mass on the cells), shape (rows,)."""
        return np.asarray(self._given_totals[2] @ mass)

    def cells_of(self, multipliers: FloatArray) -> FloatArray:
        """E_μ[Σ multipliers · χ | X = x] on every cell, shape (cells,)."""
        return np.asarray(multipliers @ self._given_totals[2])

    def ball(self, inside: FloatArray) -> WeightedBall:
        """The weighted ball that holds each total to the degree ``inside``, shape (cells,), in [0, 1]."""
        # totals that do not occur get the density of the next one below, so that the profile has few steps
        at = np.searchsorted(self.totals, np.arange(self.most + 1), side="right") - 1
        levels = np.clip(inside, 0.0, 1.0)[np.maximum(at, 0)]
        steps = np.flatnonzero(levels != levels[0])
        first = int(steps[0]) - 1 if steps.size else self.most
        last = int(np.flatnonzero(levels)[-1])
        knots = np.arange(min(first, last), last + 2)
        return WeightedBall(self.weights, np.zeros(len(self.classes)), knots, np.append(levels[knots[:-1]], 0.0))
