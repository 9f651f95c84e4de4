"""Of the questions about single attributes at given prices: which promise most (design §3.9).

A question is worth Σ_i u_i e_i, the energies of its attributes at prices u, which is convex in its density, so that its best
density has two values. Which patterns of matches z are likely is climbed by turns: those with the largest Σ_i v_i φ_i(z), as
many as are worth most, and v_i = u_i E f φ_i of these. Groups grow by one attribute at a time from the most promising ones, and
the sizes of their subsets change by one. So what is found is the most of what was looked at, and no more is claimed.

With p the share of likely patterns and g = e^ε − 1, e_i = (g/(1 + g p))² c_i, c_i = (Σ_{z likely} P(z) φ_i(z))².

Letters: u price, κ chance of a match, φ an attribute's effect at a match or none, z pattern of matches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optrr_solvers.arrays import FloatArray, IntArray

# Questions about up to so many attributes are looked at: a report on more has too many patterns of matches.
MOST_ATTRIBUTES = 8
# Groups of more combinations of categories than can be drawn exactly are not looked at.
_MOST_CELLS = 1 << 62
# Groups kept of each number of attributes, how many are grown from them, and questions handed on for each attribute.
_KEPT, _GROWN, _HANDED_ON = 40, 500, 2
# Turns of a climb, and its starts.
_TURNS, _STARTS = 6, 3


@dataclass(frozen=True, order=True)
class Candidate:
    """A group of attributes, ascending, how many categories of each are named, and the likely patterns of matches."""

    group: tuple[int, ...]
    sizes: tuple[int, ...]
    likely: tuple[int, ...]


@dataclass(eq=False)
class Promising:
    """The search among questions about attributes of sizes r_i, shape (m,); random, and the same each time."""

    sizes: IntArray
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def most(self, worth: FloatArray, total: float) -> tuple[float, list[Candidate]]:
        """The largest Σ u_i e_i of all questions looked at, and the most promising ones of each attribute and number.

        Prices u ≥ 0 have shape (m,); the total ε is in nats.
        """
        top = 0.0
        handed_on: list[Candidate] = []
        kept: list[Candidate] = [Candidate((), (), ())]
        for count in range(1, min(MOST_ATTRIBUTES, self.sizes.size) + 1):
            grown = self._grown(kept, count, total)
            if not grown:
                break
            values, looked = self._climbed(grown, worth, total)
            changed = self._changed([looked[k] for k in np.argsort(-values, kind="stable")[:_KEPT]], looked)
            if changed:
                more, climbed = self._climbed(changed, worth, total)
                values, looked = np.concatenate([values, more]), looked + climbed
            top = max(top, float(values.max()))
            order = np.argsort(-values, kind="stable").tolist()
            kept = [looked[k] for k in order[:_KEPT]]
            added = np.zeros(self.sizes.size, dtype=np.int64)
            for k in order:
                group = list(looked[k].group)
                if (added[group] < _HANDED_ON).any():
                    added[group] += 1
                    handed_on.append(looked[k])
        return top, handed_on

    def _grown(self, kept: Sequence[Candidate], count: int, total: float) -> list[Candidate]:
        """Each group with one attribute more, all or some of them drawn at random."""
        cells, each = [math.prod(self.sizes[list(one.group)].tolist()) for one in kept], self.sizes.tolist()
        pairs = [
            (one, i)
            for one, held in zip(kept, cells, strict=True)
            for i, r in enumerate(each)
            if i not in one.group and held * r <= _MOST_CELLS
        ]
        if len(pairs) > max(_GROWN, self.sizes.size):
            pairs = [pairs[k] for k in self.source.choice(len(pairs), _GROWN, replace=False).tolist()]
        sizes = [subset_sizes(r, count, total) for r in each]
        return list(dict.fromkeys(_joined(one, i, k) for one, i in pairs for k in sizes[i]))

    def _changed(self, kept: Sequence[Candidate], looked: Sequence[Candidate]) -> list[Candidate]:
        """Each with one category more or fewer of one attribute, or with half of them, but those already looked at."""
        changed: dict[Candidate, None] = {}
        for one in kept:
            for place, (i, k) in enumerate(zip(one.group, one.sizes, strict=True)):
                half = int(self.sizes[i]) // 2
                for other in (k - 1, k + 1, half):
                    if 1 <= other <= half:
                        changed[Candidate(one.group, (*one.sizes[:place], other, *one.sizes[place + 1 :]), ())] = None
        seen = {(c.group, c.sizes) for c in looked}
        return [c for c in changed if (c.group, c.sizes) not in seen]

    def _climbed(self, looked: list[Candidate], worth: FloatArray, total: float) -> tuple[FloatArray, list[Candidate]]:
        """The largest Σ u_i e_i that was climbed to with each candidate's subsets, and the candidates with those patterns."""
        groups = np.asarray([c.group for c in looked])
        chance, phi = _patterns(np.asarray([c.sizes for c in looked]) / self.sizes[groups])
        u = worth[groups]
        best, chosen = np.full(len(looked), -1.0), np.zeros(chance.shape, dtype=np.bool_)
        for start in range(_STARTS):
            signs = (1.0, -1.0)[start] if start < 2 else self.source.uniform(-1, 1, u.shape)
            direction = np.sqrt(u) * signs
            for _ in range(_TURNS):
                value, likely, effect = _threshold(chance, phi, u, direction, total)
                better = value > best * (1 + 1e-12)
                best[better], chosen[better] = value[better], likely[better]
                direction = u * effect
        patterns = (tuple(np.flatnonzero(row).tolist()) for row in chosen)
        return best, [Candidate(c.group, c.sizes, z) for c, z in zip(looked, patterns, strict=True)]


def factor(p: FloatArray, total: float) -> FloatArray:
    """(g/(1 + g p))², without overflow."""
    return np.asarray((-math.expm1(-total) / (math.exp(-total) - math.expm1(-total) * p)) ** 2)


def parts(one: Candidate, sizes: IntArray) -> tuple[float, FloatArray]:
    """p of a question, and c_i of its attributes, in the group's order."""
    chance, phi = _patterns(np.asarray([one.sizes]) / sizes[list(one.group)])
    likely = list(one.likely)
    return float(chance[0, likely].sum()), np.asarray((chance[0, likely] @ phi[0, likely]) ** 2)


def subset_sizes(size: int, count: int, total: float) -> list[int]:
    """Of r categories one, a quarter, half, and about what is best if every match alone had a factor e^{ε/count}."""
    share = size / (1 + math.exp(min(total / count, 700.0)))
    wanted = (1, size // 4, size // 2, math.floor(share), math.ceil(share))
    return sorted({max(1, min(size // 2, k)) for k in wanted})


def _joined(one: Candidate, attribute: int, size: int) -> Candidate:
    """The group with this attribute, too, in ascending order."""
    pairs = sorted([*zip(one.group, one.sizes, strict=True), (attribute, size)])
    return Candidate(tuple(i for i, _ in pairs), tuple(k for _, k in pairs), ())


def _patterns(kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of B groups with chances κ, shape (B, t): each pattern's chance (B, 2^t), and φ_i at each, (B, 2^t, t)."""
    t = kappa.shape[1]
    match = np.arange(1 << t)[:, None] >> np.arange(t) & 1 == 1
    chance = np.where(match, kappa[:, None], 1 - kappa[:, None]).prod(axis=2)
    odds = np.sqrt((1 - kappa) / kappa)[:, None]
    return chance, np.where(match, odds, -1 / odds)


def _threshold(
    chance: FloatArray, phi: FloatArray, u: FloatArray, direction: FloatArray, total: float
) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """Of the patterns by decreasing Σ v_i φ_i, as many as make Σ u_i e_i largest: it, which, and their Σ P φ, (B, t)."""
    order = np.argsort(-(phi @ direction[:, :, None])[:, :, 0], axis=1, kind="stable")
    share = np.cumsum(np.take_along_axis(chance, order, 1), axis=1)[:, :-1]
    effect = np.cumsum(np.take_along_axis(chance[:, :, None] * phi, order[:, :, None], 1), axis=1)[:, :-1]
    value = factor(share, total) * np.einsum("bpt,bt->bp", effect**2, u)
    last = np.argmax(value, axis=1)
    likely = np.empty(order.shape, dtype=np.bool_)
    np.put_along_axis(likely, order, np.arange(order.shape[1]) <= last[:, None], 1)
    rows = np.arange(len(last))
    return value[rows, last], likely, effect[rows, last]
