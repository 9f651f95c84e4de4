"""How far fake reports can move an estimate, as a result: ends of each cell, the reports that attain them, how few are enough.

:mod:`optrr.tables.estimation.fake_reports` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import numpy as np

from optrr.domain.cells import CellsResult
from optrr.domain.domain import Category, Domain
from optrr.errors import InvalidInput
from optrr.show.parts import Table
from optrr.show.printable import amount, category_word
from optrr.show.result import in_json, named_in_json
from optrr_solvers.arrays import FloatArray, IntArray

# The distance of which results say how many fakes move a share so far.
HUNDREDTH = 0.01
# Weights this close to the extreme, relative to their range, are equal but for rounding; the first of them is named.
TIED = 1e-9
# Methods of estimation that project the unbiased table.
PROJECTED = ("norm-sub", "projection")
_NOTES = {
    "unbiased": "exact: the fake reports named move the unbiased estimate that far, and none moves it further",
    "adjusted": "these are bounds for the unbiased estimate; nothing is proved of the adjusted one",
}


@dataclass(frozen=True, eq=False)
class Reach:
    """How low and how high each cell's estimate can be moved; arrays in the table's shape."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Poisoning(CellsResult):
    """How far ``fakes`` fake reports, or fewer, can move the unbiased estimate of each cell.

    Parameters
    ----------
    domain, n
        the attribute set and the number of reports counted; arrays below have the shape of its sizes.
    estimate
        the unbiased estimate from the reports counted.
    least, most
        what one report can count for each cell.
    lowered_by, raised_by
        the fake report that attains the lower and the upper ends: the number of a cell, last attribute fastest. Where reports
        support cells, one that supports this cell, and not the one that it lowers.
    added, replaced, left_out
        where the estimates can be moved to (:mod:`optrr.tables.estimation.fake_reports`); exact.
    method
        whose estimate ``note`` is about.
    projected_shift
        bound, not always attained, on what ``fakes`` added reports change in a cell of the projected estimate; ``inf`` where
        ``method`` is no projection.
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
    projected_shift: float = inf

    in_summary = ("n", "estimate", "added", "replaced", "left_out", "method", "projected_shift", "note")
    drawn = ("estimate", "added_lower", "added_upper")

    @property
    def note(self) -> str:
        """One sentence on what the numbers say of ``method``."""
        if self.method in _NOTES:
            return _NOTES[self.method]
        same = f"{self.method} is the unbiased estimate where that has no negative cell, and is then moved as far"
        if self.method not in PROJECTED:
            return f"{same}; elsewhere nothing is proved"
        shift = f"{self.projected_shift:.4g} in a cell when the reports are added"
        return f"{same}; it moves by at most {shift}, as a projection increases no distance"

    def share_to_move(self, distance: float = HUNDREDTH) -> FloatArray:
        """The smallest share of added fakes among all reports that moves each cell by ``distance``, either way.

        ``inf`` where no share below 1 does.

        Raises
        ------
        InvalidInput
            for a distance that is not positive.
        """
        if not distance > 0:
            raise InvalidInput(f"distance = {distance}; give a positive one, such as {HUNDREDTH}")
        share = distance / np.maximum(self.most - self.estimate, self.estimate - self.least)
        return np.where(share < 1, share, inf)

    def reports_to_move(self, distance: float = HUNDREDTH) -> float:
        """The fewest fakes added to the n counted that move some cell by ``distance``; ``inf`` where no number does."""
        share = float(self.share_to_move(distance).min())
        # n share/(1 − share) is a whole number in plain cases, up to rounding
        return inf if share == inf else max(ceil(self.n * share / (1 - share) * (1 - TIED)), 1)

    def report(self, cell: int) -> tuple[Category, ...]:
        """The categories of a report by its number in ``raised_by`` or ``lowered_by``."""
        places = np.unravel_index(cell, tuple(self.domain.sizes))
        return tuple(a.categories[k] for a, k in zip(self.domain, places, strict=True))

    def headline(self) -> str:
        """Which table, how many fakes, and how few move a share by a hundredth."""
        return f"{' × '.join(self.domain.names)}, {amount(self.fakes, 'fake report')} beside {self.n}: {self.hundredth}"

    @property
    def hundredth(self) -> str:
        """One sentence: how few fake reports move some share by 0.01."""
        fewest = self.reports_to_move()
        if fewest == inf:
            return f"no number of fake reports moves a share of this table by {HUNDREDTH}"
        share = 100 * float(self.share_to_move().min())
        added = f"{amount(int(fewest), 'fake report')} added to these {self.n} can move a share of this table by {HUNDREDTH}"
        return f"{added}; among many reports it takes {share:.3g}% of them"

    def shown(self, most: int | None = None) -> Table:
        """The table as people read it: both ends of a reach in one column."""
        plain, m = super().shown(most), self.domain.m
        heads = [*self.domain.names, "estimate", "added", "replaced", "left out", "lowered by", "raised by"]
        rows = [
            [*row[: m + 1], *(f"{row[k]:.4f}..{row[k + 1]:.4f}" for k in range(m + 1, m + 7, 2)), *row[m + 7 :]]
            for row in plain.rows
        ]
        return replace(plain, columns=heads, rows=rows)

    def numbers(self) -> dict[str, Any]:
        """The estimate, the ends of each reach, and the reports that attain them."""
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
        """The command line's JSON object; tables are nested lists in the order of ``attributes``."""
        fewest = self.reports_to_move()
        return {
            **named_in_json(self, self.in_summary),
            "attributes": list(self.domain.names),
            "fake_reports": self.fakes,
            "report_weights": {"least": self.least.tolist(), "most": self.most.tolist()},
            "lowered_by": [self.report(c) for c in self.lowered_by.ravel().tolist()],
            "raised_by": [self.report(c) for c in self.raised_by.ravel().tolist()],
            "reports_to_move_by_0.01": in_json(fewest),
            "share_to_move_by_0.01": None if fewest == inf else float(self.share_to_move().min()),
        }
