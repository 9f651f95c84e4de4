"""A lower confidence bound of the true ε: find the worst event in one part of the answers, and bound it in another.

Records are uniform. Let A and B be sets of noises and p_A, p_B their probabilities, averaged over records. p_A/|A| is then the
mean of Pr(y|y−a) over all answers y and all a in A, since every answer y and noise a belong to one record, y−a; p_B/|B| is the
same mean over B. No Pr(y|x) is more than e^ε times another Pr(y|x') of the same y, so the one mean is at most e^ε times the
other: ε ≥ ln (p_A/|A|)/(p_B/|B|). A second comparison fixes one answer: there A and B are sets of the true records, or of one
attribute's true categories, and p_A/|A| and p_B/|B| are means over these of the probability of that answer.

Of k_A + k_B records with either, k_A is binomial with probability p_A/(p_A + p_B). Clopper–Pearson's bound of that is an exact
bound of ε, whatever the client does with each record by itself. Other records decide which sets are compared, so that the
bound holds given that choice.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from optrr.core.display import bound_text, epsilon_text
from optrr.devices.result import CHECKS, TOTAL, Finding, at_least, lowest_share
from optrr_solvers.arrays import FloatArray, IntArray

# Factor between the sizes of tried unions of the most and of the least likely cells, from 1 cell to all.
_UNIONS = 12


@dataclass(frozen=True, eq=False)
class Cells:
    """Comparable events.

    Sizes |A|, and counts in three parts of the answers, shape (3, K).

    ``describe`` names a cell. The first part orders the cells, the second chooses, the third bounds.
    """

    sizes: FloatArray
    counts: IntArray
    describe: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Chosen:
    """Two events whose probabilities are compared.

    Ratio |A|/|B| of sizes, counts in the last part, words, and the bound from the second part.
    """

    ratio: float
    over: int
    under: int
    words: str
    promise: float

    def bound(self, level: float) -> float:
        """Compute a lower bound of ε in nats at confidence 1 − level."""
        share = float(lowest_share(self.over, self.over + self.under, level))
        return max(0.0, math.log(share) - math.log1p(-share) - math.log(self.ratio)) if 0 < share < 1 else 0.0

    def p_value(self, epsilon: float) -> float:
        """Compute the p-value of the claim that ε is at most this."""
        odds = math.exp(min(epsilon + math.log(self.ratio), 700.0))
        return float(at_least(self.over, self.over + self.under, odds / (1 + odds)))


def total_bound(families: Sequence[Iterable[Cells]], epsilon: float, level: float) -> Finding:
    """Test the claim that the total ε is at most this.

    By events of which any two in one :class:`Cells` may be compared.

    The most promising of each family is tested, so that one of many rare events does not crowd out a few common ones.
    """
    tests = CHECKS * len(families)
    own = level / tests
    best = [
        max((c for cells in events for c in _choices(cells, own)), key=attrgetter("promise")) for events in families
    ]
    refuting, nearest = min(best, key=lambda c: c.p_value(epsilon)), max(best, key=lambda c: c.bound(own))
    bound, p = nearest.bound(own), min(1.0, refuting.p_value(epsilon) * tests)
    chosen = refuting if p <= level else nearest
    says = f"stated {epsilon_text(epsilon)}, at least {bound_text(bound)} ({chosen.words})"
    return Finding(TOTAL, p <= level, says, p, len(families), epsilon, bound)


def _choices(cells: Cells, level: float) -> Iterator[Chosen]:
    """Iterate over the best pairs of unions of likely and unlikely cells.

    For two orders of the cells.
    """
    seen = cells.counts[0]
    expected = seen.sum() * cells.sizes / cells.sizes.sum()
    # a cell too small to be seen counts as neither likely nor unlikely; one that was seen all the same as likely, or less so
    shrunk = (seen + 0.5) / (expected + 0.5)
    plain = np.where(seen > 0, seen / np.maximum(expected, np.finfo(np.float64).tiny), 0.5 / np.maximum(expected, 0.5))
    order, other = (np.argsort(-density, kind="stable") for density in (shrunk, plain))
    yield _best_unions(cells, order, level)
    if not np.array_equal(order, other):
        yield _best_unions(cells, other, level)


def _best_unions(cells: Cells, order: IntArray, level: float) -> Chosen:
    """Compare the first cells of an order with the last ones.

    As many as give the best bound in the second part.
    """
    counts, sizes = cells.counts[:, order], cells.sizes[order]
    k = sizes.size
    ends = np.array(sorted({round(k ** (j / _UNIONS)) for j in range(_UNIONS + 1)}))
    over, under = np.cumsum(counts, axis=1)[:, ends - 1], np.cumsum(counts[:, ::-1], axis=1)[:, ends - 1]
    large, small = np.cumsum(sizes)[ends - 1], np.cumsum(sizes[::-1])[ends - 1]
    # as many records as the last part has, of which the second is about half
    scale = cells.counts[2].sum() / max(1, cells.counts[1].sum())
    a, b = scale * over[1][:, None], scale * under[1][None, :]
    share = lowest_share(a, a + b, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        promise = np.log(share) - np.log1p(-share) - np.log(large[:, None] / small[None, :])
    disjoint = ends[:, None] + ends[None, :] <= k
    promise = np.where(disjoint & (share > 0) & (share < 1), promise, -np.inf)
    i, j = np.unravel_index(int(np.argmax(promise)), promise.shape)
    words = f"{_union(cells, order[: ends[i]])}: {over[2, i]} records; {_union(cells, order[::-1][: ends[j]])}: {under[2, j]}"
    return Chosen(large[i] / small[j], int(over[2, i]), int(under[2, j]), words, float(promise[i, j]))


def _union(cells: Cells, members: IntArray) -> str:
    first = cells.describe(int(members[0]))
    return first if members.size == 1 else f"{first}, or {members.size - 1} more such events"
