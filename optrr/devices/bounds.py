"""How large the true ε is at least: the worst event is found in one part of the answers and bounded in another.

Records are uniform. Let A and B be sets of noises and p_A, p_B their probabilities, averaged over records. p_A/|A| is then the
mean of Pr(y|y−a) over all answers y and all a in A, since every answer y and noise a belong to one record, y−a; p_B/|B| is the
same mean over B. No Pr(y|x) is more than e^ε times another Pr(y|x') of the same y, so the one mean is at most e^ε times the
other: ε ≥ ln (p_A/|A|)/(p_B/|B|). Noises that differ in attribute i only bound the conditional ε of i in the same way. A third
comparison fixes one answer: there A and B are sets of the true records, or of one attribute's true categories, and p_A/|A| and
p_B/|B| are means over these of the probability of that answer.

Of k_A + k_B records with either, k_A is binomial with probability p_A/(p_A + p_B). Clopper–Pearson's bound of that is an exact
bound of ε, whatever the client does with each record by itself. Which sets are compared is decided by other records, by the
answers themselves, and for the conditional ε by what else changed; the bound holds given all of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from optrr.devices.clients import Answers
from optrr.devices.label import Label
from optrr.devices.noise import changed_names
from optrr.devices.result import (
    ATTRIBUTE,
    CHECKS,
    CONDITIONAL,
    TOTAL,
    Finding,
    at_least,
    highest_share,
    lowest_share,
    two_sided,
)
from optrr.show.text import bound_text, epsilon_text
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.programs.events import event_sizes

# Unions of the most and of the least likely cells that are tried, from 1 cell to all, in steps of a factor.
_UNIONS = 12
# Attributes of more categories, and whole records of more combinations, are not looked at one by one.
_MOST_CATEGORIES = 64


@dataclass(frozen=True, eq=False)
class Cells:
    """Events that may be compared with each other: sizes |A|, and counts in three parts of the answers, shape (3, K).

    ``describe`` names a cell. The first part orders the cells, the second chooses, the third bounds.
    """

    sizes: FloatArray
    counts: IntArray
    describe: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Chosen:
    """Two events: numerator and denominator, their sizes' ratio |A|/|B|, counts in the last part, and words."""

    ratio: float
    over: int
    under: int
    words: str
    promise: float

    def bound(self, level: float) -> float:
        """ε is at least this many nats, at confidence 1 − level."""
        share = float(lowest_share(self.over, self.over + self.under, level))
        return max(0.0, math.log(share) - math.log1p(-share) - math.log(self.ratio)) if 0 < share < 1 else 0.0

    def p_value(self, epsilon: float) -> float:
        """Of the claim that ε is at most this."""
        odds = math.exp(min(epsilon + math.log(self.ratio), 700.0))
        return float(at_least(self.over, self.over + self.under, odds / (1 + odds)))


def total_epsilon(label: Label, answers: Answers, level: float) -> Finding:
    """The claim that no pair of records differs by more than the label's total ε in any answer."""
    return total_bound([_all_cells(label, answers)], label.epsilon, level)


def total_bound(families: Sequence[Iterable[Cells]], epsilon: float, level: float) -> Finding:
    """The claim that the total ε is at most this, from events of which any two in one :class:`Cells` may be compared.

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


def conditional_epsilons(label: Label, answers: Answers, level: float) -> Finding:
    """The claim that no two records that differ in one attribute differ by more than its conditional ε."""
    m = label.domain.m
    own = level / (CHECKS * m)
    findings = []
    for i in range(m):
        best = max(
            (c for cells in _cells_of(label, answers, i) for c in _choices(cells, own)), key=attrgetter("promise")
        )
        stated = float(label.conditional_epsilons[i])
        p = min(1.0, best.p_value(stated) * CHECKS * m)
        bound = best.bound(own)
        says = f"{label.domain.names[i]!r}: stated {epsilon_text(stated)}, at least {bound_text(bound)} ({best.words})"
        findings.append((p, stated - bound, Finding(CONDITIONAL, p <= level, says, p, m, stated, bound)))
    # the one that is refuted most, or comes nearest to it
    return min(findings, key=lambda f: f[:2])[2]


def attribute_epsilons(label: Label, answers: Answers, level: float) -> Finding:
    """The claim that each attribute is as accurate as stated, by the interval of its flip probability."""
    m, n = label.domain.m, answers.count
    counts = answers.changed.sum(axis=1)
    tests = CHECKS * m
    p = np.minimum(1.0, two_sided(counts, n, label.flips) * tests)
    low, high = lowest_share(counts, n, level / (2 * tests)), highest_share(counts, n, level / (2 * tests))
    k = int(np.argmin(p))
    with np.errstate(divide="ignore"):
        ends = [float(np.log((label.sizes[k] - 1) * (1 - f) / f)) for f in (high[k], low[k])]
    stated = float(label.attribute_epsilons[k])
    says = f"{label.domain.names[k]!r}: stated {stated:.4f}, between {ends[0]:.4f} and {ends[1]:.4f} ({n} records)"
    return Finding(ATTRIBUTE, bool(p[k] <= level), says, float(p[k]), m, stated, ends[0])


def _counted(answers: Answers, values: Callable[[slice], IntArray], size: int) -> IntArray:
    return np.array([np.bincount(values(rows), minlength=size)[:size] for rows in answers.layout.parts])


def _pieces(label: Label) -> Iterator[range]:
    for start in range(0, label.domain.m, label.tabled):
        yield range(start, min(start + label.tabled, label.domain.m))


def _all_cells(label: Label, answers: Answers) -> Iterator[Cells]:
    """Sets of changes, how many attributes change, distances of one attribute, and answers by category."""
    for chosen in _pieces(label):
        sizes = event_sizes(label.sizes[list(chosen)])
        names = [label.domain.names[i] for i in chosen]
        counts = _counted(answers, lambda rows, chosen=chosen: answers.pattern(chosen, rows), sizes.size)  # type: ignore[misc]
        yield Cells(sizes / sizes.sum(), counts, lambda k, names=names: changed_names(names, k))  # type: ignore[misc]
    if label.domain.m > 1:
        share = np.ones(1)
        for r in label.sizes:
            share = np.convolve(share, [1 / r, 1 - 1 / r])
        counts = _counted(answers, lambda rows: answers.changed[:, rows].sum(axis=0), share.size)
        usable = share > 0
        yield Cells(share[usable], counts[:, usable], lambda k: f"{np.flatnonzero(usable)[k]} attributes changed")
    for members in {(i,) for i in range(label.domain.m)} | {tuple(range(label.domain.m))}:
        yield from _by_category(label, answers, members)


def _by_category(label: Label, answers: Answers, members: Sequence[int]) -> Iterator[Cells]:
    """For each answer to these attributes: the records that it may be given for. Of one attribute, or of whole records."""
    size = int(np.prod(label.sizes[list(members)], dtype=object))
    if size > _MOST_CATEGORIES:
        return

    def cells(rows: slice) -> IntArray:
        true = reported = np.zeros(1, dtype=np.int64)
        for i in members:
            true = true * label.sizes[i] + answers.records[i, rows]
            reported = reported * label.sizes[i] + answers.reported(i, rows)
        return reported * size + true

    counts = _counted(answers, cells, size * size).reshape(3, size, size)
    for v in range(size):
        words = f"answered {_texts(label, members, v)} for"
        yield Cells(
            np.ones(size),
            counts[:, v],
            lambda k, words=words: f"{words} {_texts(label, members, k)}",  # type: ignore[misc]
        )


def _texts(label: Label, members: Sequence[int], code: int) -> str:
    """The categories of one combination, as ``a = 'x', b = 'y'``."""
    digits = np.unravel_index(code, tuple(label.sizes[list(members)]))
    attributes = [label.domain.attributes[i] for i in members]
    return ", ".join(f"{a.name} = {a.texts[int(k)]!r}" for a, k in zip(attributes, digits, strict=True))


def _cells_of(label: Label, answers: Answers, i: int) -> Iterator[Cells]:
    """Events that two records which differ in attribute i only can be told apart by."""
    yield from _by_category(label, answers, [i])
    chosen = next(piece for piece in _pieces(label) if i in piece)
    others = [j for j in chosen if j != i]
    names = [label.domain.names[j] for j in others]
    size = 1 << len(others)
    counts = _counted(answers, lambda rows: 2 * answers.pattern(others, rows) + answers.changed[i, rows], 2 * size)
    pairs = counts.reshape(3, size, 2)
    # for each set of changes of the others, and for the union of those where i is kept most and least often
    order = np.argsort((pairs[0, :, 0] + 0.5) / (pairs[0, :, 1] + 0.5), kind="stable")
    for ordered in (order, order[::-1]):
        for end in sorted({round(size ** (k / _UNIONS)) for k in range(_UNIONS + 1)}):
            both = pairs[:, ordered[:end]].sum(axis=1)
            first = changed_names(names, int(ordered[0])) if names else "it stands alone"
            words = first if end == 1 else f"in {end} of {size} sets of changes of {len(names)} others, such as {first}"
            yield Cells(
                np.array([1.0, label.sizes[i] - 1.0]),
                both,
                lambda k, words=words: f"{'changed' if k else 'kept'} where {words}",  # type: ignore[misc]
            )


def _choices(cells: Cells, level: float) -> Iterator[Chosen]:
    """The most promising pair of unions of likely and of unlikely cells, for two ways to order them."""
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
    """The first few cells of an order against its last few, as many as promise most in the second part."""
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
