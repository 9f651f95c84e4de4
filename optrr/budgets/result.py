"""What an allocation hands back: a design, its predicted errors table by table, and how far from the best it can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.budgets.options import Option, every_way
from optrr.budgets.workload import Workload
from optrr.designs.asking import Asking
from optrr.designs.design import Design
from optrr.domain.domain import Domain
from optrr.show.result import TableResult, in_json
from optrr.show.text import amount, epsilon_text
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr_solvers.allocating.workload import TableWorkload
from optrr_solvers.arrays import FloatArray

# More tables than this are predicted by kind only.
MAX_LISTED = 5000
# The largest error of answering 1/2 without asking anybody: a proportion lies within 0..1.
_USELESS = 0.5
_NO_RECORDS = "everybody answers one random question: no records are kept, and no other table can be estimated later"
# How the note begins that an allocated design carries; it is a record, not a warning.
NOTE = "allocated"


@dataclass(frozen=True)
class Prediction:
    """What to expect of one table.

    ``error`` is G_U, an upper bound of n E‖π̂_U − π_U‖² for every population; ``sampling_error`` the part of it that is left
    without any randomization; ``standard_error`` the root mean square over cells with n people, None without n.
    """

    attributes: tuple[str, ...]
    weight: float
    error: float
    sampling_error: float
    cells: int
    n: int | None
    required: float | None = None

    @property
    def standard_error(self) -> float | None:
        """√(error / (n cells))."""
        return None if self.n is None else float(np.sqrt(self.error / (self.n * self.cells)))

    def summary(self) -> dict[str, Any]:
        """As plain values for JSON."""
        out: dict[str, Any] = {"attributes": list(self.attributes), "weight": self.weight, "cells": self.cells}
        out |= {"error": self.error, "sampling_error": self.sampling_error, "standard_error": self.standard_error}
        return out | ({"required_standard_error": self.required} if self.required is not None else {})


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(TableResult):
    """A design, what it promises for the workload, and how far from the best it can be.

    ``error`` = Σ weight G_U; no law of change sets of the same total has an error below ``lower_error``; ``kronecker_error``
    is what the best split over independent attributes gives with the same total and limits (None where none exists). Where
    accuracies were required instead of a total, no law that meets them has a total ε below ``least_total``. Where asking one
    random question each was allowed and is more accurate, ``sampled`` is that, and errors are its own; ``design`` is the best
    that keeps records.
    """

    design: Design
    workload: Workload
    n: int | None
    method: str
    error: float
    lower_error: float | None
    kronecker_error: float | None
    predictions: tuple[Prediction, ...]
    least_total: float | None = None
    sampled: SampledTables | None = None

    in_summary = ("method", "n", "error", "kronecker_error", "least_total", "warnings")
    drawn = ("error",)

    @property
    def asking(self) -> Asking:
        """What to save, ask and estimate with: the design, or the sampled tables where they were allowed and are better."""
        return self.sampled or self.design

    @cached_property
    def error_bound(self) -> float:
        """What no mechanism of this total, of whatever form, can have less of than as error."""
        return self.workload.error_bound(self.design.domain, self.asking.epsilon)

    @cached_property
    def ways(self) -> tuple[Option, ...]:
        """Every way of asking at this total, without the wishes, by increasing error: as :func:`optrr.advise` compares them."""
        domain, arrays = self.design.domain, self.workload.arrays(self.design.domain)
        error = arrays.error(arrays.eigenvalues(self.design.law)) if self.sampled else self.error
        return every_way(domain, self.workload, self.asking.epsilon, self.design, error)

    @property
    def gap(self) -> float | None:
        """By how much, relative to the error, a more accurate law of this total is not excluded."""
        return None if self.lower_error is None else max(self.error - self.lower_error, 0.0) / self.error

    def headline(self) -> str:
        """Workload, total and error."""
        return f"workload {self.workload.name} at total epsilon {epsilon_text(self.asking.epsilon)}: error {self.error:.6g}"

    def to_arrow(self) -> pa.Table:
        """One row per table of the workload: table, weight, cells, error, sampling_error, standard_error."""
        rows = [p.summary() | {"table": " × ".join(p.attributes)} for p in self.predictions]
        names = ("table", "weight", "cells", "error", "sampling_error", "standard_error")
        return pa.table({name: [row[name] for row in rows] for name in names})

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before using it."""
        design = self.design.warnings if self.sampled is None else (_NO_RECORDS,)
        said = [w for w in design if not w.startswith(NOTE)]
        useless = [p for p in self.predictions if p.standard_error is not None and p.standard_error > _USELESS]
        if useless:
            worst = max(useless, key=lambda p: p.standard_error or 0.0)
            which = "every table" if len(useless) == len(self.predictions) else amount(len(useless), "table")
            said.append(
                f"with n = {self.n} nothing can be learned of {which}: {' × '.join(worst.attributes)} would have a standard "
                f"error of {worst.standard_error:.3g}, and any guess within 0..1 is closer than {_USELESS:g}; "
                "ask more people, raise the total, or merge categories"
            )
        return tuple(said)

    def summary(self) -> dict[str, Any]:
        """The design's JSON object with the allocation's own numbers beside it.

        Where accuracies of tables were required, the lower bound is that of every law that reaches them; the design's own is
        that of its attributes' ε alone.
        """
        way = self.design.summary() if self.sampled is None else {"epsilon": self.sampled.epsilon}
        if self.least_total is not None:
            bound = max(self.design.lower_bound, self.least_total)
            way |= {"lower_bound": bound, "gap": self.design.epsilon - bound}
        return way | {
            "keeps_records": self.asking.keeps_records,
            "workload": self.workload.name,
            "error_lower_bound": self.lower_error,
            "error_bound": self.error_bound,
            "error_over_bound": self.error / self.error_bound,
            "ways": [
                {
                    "name": way.name,
                    "error": in_json(way.error),
                    "error_over_bound": in_json(way.error / self.error_bound),
                    "keeps_records": way.keeps_records,
                }
                for way in self.ways
            ],
            "error_gap": self.gap,
            "tables": in_json(self.predictions),
            **super().summary(),
        }


def predictions(
    domain: Domain, workload: Workload, arrays: TableWorkload, eigenvalues: FloatArray, n: int | None
) -> Iterable[Prediction]:
    """One for every table of the workload (for each kind of alike ones where there are more than 5000)."""
    errors, least = arrays.table_errors(eigenvalues), arrays.least_table_errors()

    def key(members: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(int(arrays.class_of[i]) for i in members))

    place = {key(t): k for k, t in enumerate(arrays.tables)}
    wanted = workload.tables
    if len(wanted) > MAX_LISTED:
        representatives = {frozenset(domain.names[i] for i in t) for t in arrays.tables}
        wanted = tuple(t for t in wanted if frozenset(t.attributes) in representatives)
    for t in wanted:
        k = place[key(domain.indices(t.attributes))]
        yield Prediction(
            t.attributes, t.weight, float(errors[k]), float(least[k]), t.cells(domain), n, t.standard_error
        )
