"""How far fake reports can move an estimate: exact bounds, and the fake report that attains each (theory §3.8).

A fake report is an output that an attacker chose instead of drawing it, and cannot be distinguished from others. The
unbiased estimate is a mean of weights, one for each report y (RVL eq. 17), π̂_u = (1/n) Σ_j g_u(y_j) with g_u(v) =
P⁻¹[v, u], so that a fake report can count for cell u anything from least = min_v g_u(v) to most = max_v g_u(v), where a
person who answers counts 0 or 1 on average. With k fake reports, or fewer, the estimate can be moved up to, and no
further than,

    added      k fakes join the n counted:                 (n π̂_u + k most)/(n + k)
    replaced   any k of the n counted are changed:         π̂_u + (k most − the k smallest g_u(y_j) together)/n
    left out   k of the n counted are fakes and removed:   (n π̂_u − the k smallest g_u(y_j) together)/(n − k)

and down to the same with least and the k largest. "Replaced" also bounds the estimate that would result if k of the
counted respondents had drawn their reports instead of choosing them. By randomized response of two categories, most −
least = (e^ε + 1)/(e^ε − 1), so that one fake report at ε = 0.1 moves a proportion as far as 20 people do who change
their answers, and a proportion of 0.92 % of fakes at ε = 1 moves a proportion of one half by 0.01 (Cheu, Smith &
Ullman, 2021, *Manipulation attacks in local differential privacy*). Methods other than the unbiased one are equal to it
where no cell of it is negative ("adjusted" aside), so they are no safer; :attr:`Poisoning.note` states the bounds that
are proved of them.
"""

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import numpy as np

from optrr.core.display.parts import Table
from optrr.core.display.result import in_json, named_in_json
from optrr.core.display.text import amount, category_word
from optrr.core.domain.domain import Category, CellsResult, Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.estimator import METHODS
from optrr.core.estimation.table import counted_table
from optrr.core.mechanisms.mechanism import Randomizer
from optrr.core.records.counts import Counts
from optrr_solvers.arrays import FloatArray, IntArray

# Change of a proportion for which results state the number of fake reports.
HUNDREDTH = 0.01
# Weights this close to the extreme, relative to their range, are equal but for rounding; the first of them is named.
TIED = 1e-9
_NOTES = {
    "unbiased": "exact: the stated fake reports change the unbiased estimate by this much, and no others change it "
    "more",
    "adjusted": "these are bounds for the unbiased estimate; nothing is proved of the adjusted one",
}


@dataclass(frozen=True, eq=False)
class Reach:
    """Lowest and highest estimate of each cell under attack, in the table's shape."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Poisoning(CellsResult):
    """Effect of a poisoning attack on each cell's unbiased estimate.

    At most ``fakes`` of fake reports, with ``n`` reports counted.

    Arrays have the shape of the ``domain``'s sizes. One report can count for a cell anything from ``least`` to
    ``most``; the fake reports that attain the lower and the upper ends are ``lowered_by`` and ``raised_by``, numbers of
    cells, last attribute fastest (where reports support cells, one that supports this cell, and not the one that it
    lowers). ``added``, ``replaced`` and ``left_out`` bound the estimates that fake reports can produce
    (:mod:`optrr.core.estimation.poisoned`); they are exact. ``note`` is about the estimate of ``method``.
    """

    domain: Domain
    n: int
    fakes: int
    estimate: FloatArray
    least: FloatArray
    most: FloatArray
    lowered_by: IntArray
    raised_by: IntArray
    added: Reach
    replaced: Reach
    left_out: Reach
    method: str = "unbiased"

    in_summary = ("n", "estimate", "added", "replaced", "left_out", "method", "note")
    drawn = ("estimate", "added_lower", "added_upper")

    @property
    def note(self) -> str:
        """One sentence on the meaning of the numbers for ``method``."""
        if self.method in _NOTES:
            return _NOTES[self.method]
        same = f"{self.method} is the unbiased estimate where that has no negative cell, and then changes as much"
        return f"{same}; elsewhere nothing is proved"

    def share_to_move(self, distance: float = HUNDREDTH) -> FloatArray:
        """Compute the smallest proportion of fakes that moves each cell by this much.

        Fakes are added; in either direction.

        ``inf`` where no share below 1 does.

        Raises InvalidInput for a distance that is not positive.
        """
        if not distance > 0:
            raise InvalidInput(f"distance = {distance}; give a positive one, such as {HUNDREDTH}")
        share = distance / np.maximum(self.most - self.estimate, self.estimate - self.least)
        return np.where(share < 1, share, inf)

    def reports_to_move(self, distance: float = HUNDREDTH) -> float:
        """Compute the fewest added fakes that move some cell by ``distance``.

        ``inf`` if no number does.
        """
        share = float(self.share_to_move(distance).min())
        # n share/(1 − share) is a whole number in plain cases, up to rounding
        return inf if share == inf else max(ceil(self.n * share / (1 - share) * (1 - TIED)), 1)

    def report(self, cell: int) -> tuple[Category, ...]:
        """Return the categories of a report in ``raised_by`` or ``lowered_by``."""
        places = np.unravel_index(cell, tuple(self.domain.sizes))
        return tuple(a.categories[k] for a, k in zip(self.domain, places, strict=True))

    def headline(self) -> str:
        """Summarize the attack and the fakes that move a proportion by 0.01."""
        return f"{' × '.join(self.domain.names)}, {amount(self.fakes, 'fake report')} beside {self.n}: {self.hundredth}"

    @property
    def hundredth(self) -> str:
        """One sentence on the fewest fake reports that move a proportion by 0.01."""
        fewest = self.reports_to_move()
        if fewest == inf:
            return f"no number of fake reports moves a proportion of this table by {HUNDREDTH}"
        share = 100 * float(self.share_to_move().min())
        fakes = amount(int(fewest), "fake report")
        added = f"{fakes} added to these {self.n} can move a proportion of this table by {HUNDREDTH}"
        return f"{added}; among many reports it takes {share:.3g}% of them"

    def sentences(self) -> list[str]:
        """Explain the columns and the method."""
        k, n = self.fakes, self.n
        reach = f"{k} added to the {n}, {k} of the {n} replaced, or {k} of the {n} fake and left out"
        return [f"reach of {amount(k, 'fake report')}: {reach}", self.note]

    def shown(self, most: int | None = None) -> Table:
        """Build the printed table with both ends of a range in one column."""
        plain, m = super().shown(most), self.domain.m
        heads = [*self.domain.names, "estimate", "added", "replaced", "left out", "lowered by", "raised by"]
        rows = [
            [*row[: m + 1], *(f"{row[k]:.4f}..{row[k + 1]:.4f}" for k in range(m + 1, m + 7, 2)), *row[m + 7 :]]
            for row in plain.rows
        ]
        return replace(plain, columns=heads, rows=rows)

    def numbers(self) -> dict[str, Any]:
        """Return the estimate, its range and the reports that attain its ends."""
        ends = {
            f"{name}_{end}": getattr(reach, end)
            for name, reach in (("added", self.added), ("replaced", self.replaced), ("left_out", self.left_out))
            for end in ("lower", "upper")
        }
        reports = {name: self._texts(getattr(self, name)) for name in ("lowered_by", "raised_by")}
        return {"estimate": self.estimate, **ends, **reports}

    def _texts(self, cells: IntArray) -> Any:
        texts = [a.texts for a in self.domain]
        places = np.unravel_index(cells.ravel(), tuple(self.domain.sizes))
        rows = zip(*places, strict=True)
        named = [[t[k] for t, k in zip(texts, row, strict=True)] for row in rows]
        return np.array([" × ".join(map(category_word, row)) for row in named], dtype=object)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object; tables are nested lists by ``attributes``."""
        fewest = self.reports_to_move()
        return {
            **named_in_json(self, self.in_summary),
            "attributes": list(self.domain.names),
            "fakes": self.fakes,
            "least": self.least.tolist(),
            "most": self.most.tolist(),
            "lowered_by": [self.report(c) for c in self.lowered_by.ravel().tolist()],
            "raised_by": [self.report(c) for c in self.raised_by.ravel().tolist()],
            "reports_to_move_by_0.01": in_json(fewest),
            "share_to_move_by_0.01": None if fewest == inf else float(self.share_to_move().min()),
        }


def poisoning(counts: Counts, mechanism: Randomizer, fakes: int, method: str = "unbiased") -> Poisoning:
    """Compute the effect of ``fakes`` fake reports on each cell's estimate.

    O(R² log R) time for R cells, and memory for a few R × R arrays.

    Raises InvalidInput for an unknown method, another number of fakes, or more than 4096 cells. SingularMarginal if the
    mechanism hides an effect of the table.

    Parameters
    ----------
    fakes
        k, at least 1 and fewer than the records counted.
    method
        the estimate that the note is about, one of :data:`optrr.core.estimation.estimator.METHODS`.
    """
    if method not in METHODS:
        raise InvalidInput(f"``method``: {method!r} is unknown; choose among {', '.join(METHODS)}")
    check_fakes(fakes, counts.n)
    kernel = counted_table(counts, mechanism).kernel
    weights = kernel.inverse()
    shape = counts.table.shape
    most, least = weights.max(axis=0), weights.min(axis=0)
    tied = TIED * (most - least)
    return Poisoning(
        domain=counts.domain,
        n=counts.n,
        estimate=kernel.solve(counts.proportions),
        **_bounds(weights, np.broadcast_to(counts.table.reshape(-1, 1), weights.shape), fakes, shape),
        lowered_by=(weights <= least + tied).argmax(axis=0).reshape(shape),
        raised_by=(weights >= most - tied).argmax(axis=0).reshape(shape),
        method=method,
    )


def supported_poisoning(
    domain: Domain, supports: IntArray, n: int, chances: tuple[float, float], fakes: int
) -> Poisoning:
    """Compute the effect of fakes on reports that support cells.

    C_u of n reports support cell u, (R,): the true one with probability p, each other one with q.

    π̂_u = (C_u/n − q)/(p − q) is a mean of weights too: (1 − q)/(p − q) for a report that supports u, −q/(p − q) for any other.
    """
    p, q = chances
    shape, cells = tuple(int(r) for r in domain.sizes), np.arange(supports.size)
    own, other = (1 - q) / (p - q), -q / (p - q)
    check_fakes(fakes, n)
    weights = np.broadcast_to(np.array([[own], [other]]), (2, cells.size))
    return Poisoning(
        domain=domain,
        n=n,
        estimate=((supports / n - q) / (p - q)).reshape(shape),
        **_bounds(weights, np.stack([supports, n - supports]), fakes, shape),
        lowered_by=((cells + 1) % cells.size).reshape(shape),
        raised_by=cells.reshape(shape),
    )


def _bounds(weights: FloatArray, counts: IntArray, fakes: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """Compute the influence of reports and the range of estimates, by field."""
    ends = {"least": weights.min(axis=0).reshape(shape), "most": weights.max(axis=0).reshape(shape)}
    moved = zip(("added", "replaced", "left_out"), reaches(weights, counts, fakes, shape), strict=True)
    return {"fakes": fakes, **ends, **dict(moved)}


def check_fakes(fakes: int, n: int) -> None:
    """Raise InvalidInput unless at least one of ``n`` reports is genuine."""
    if not 1 <= fakes < n:
        raise InvalidInput(
            f"{amount(fakes, 'fake report')} among {amount(n, 'report')}; give at least 1, and fewer than there are "
            "reports"
        )


def reaches(weights: FloatArray, counts: IntArray, fakes: int, shape: tuple[int, ...]) -> tuple[Reach, Reach, Reach]:
    """Compute ``added``, ``replaced`` and ``left_out``.

    From each report's influence on each cell and its count.

    Both arrays have shape (reports, cells); the columns of ``counts`` all have the same sum n.
    """
    n = int(counts[:, 0].sum())
    total = np.sum(weights * counts, axis=0)
    small, large = sum_of_smallest(weights, counts, fakes), -sum_of_smallest(-weights, counts, fakes)
    least, most = weights.min(axis=0), weights.max(axis=0)

    def reach(lower: FloatArray, upper: FloatArray) -> Reach:
        return Reach(lower.reshape(shape), upper.reshape(shape))

    return (
        reach((total + fakes * least) / (n + fakes), (total + fakes * most) / (n + fakes)),
        reach((total - large + fakes * least) / n, (total - small + fakes * most) / n),
        reach((total - large) / (n - fakes), (total - small) / (n - fakes)),
    )


def sum_of_smallest(weights: FloatArray, counts: IntArray, k: int) -> FloatArray:
    """Sum the k smallest weights of the counted reports for each cell.

    Weights and counts have shape (reports, cells).
    """
    order = np.argsort(weights, axis=0, kind="stable")
    held = np.take_along_axis(counts, order, axis=0)
    taken = np.clip(k - (np.cumsum(held, axis=0) - held), 0, held)
    return np.asarray(np.sum(taken * np.take_along_axis(weights, order, axis=0), axis=0))
