"""What a weighted estimate carries: one table for each group, with its errors, and how the records were sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.domain.cells import cells_table
from optrr.domain.domain import Domain
from optrr.domain.public import PublicColumns
from optrr.show.printable import category_word
from optrr.show.result import TableResult, in_json, intervals_said
from optrr.tables.weighting.sampled import Label
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The estimates of one group, or of all; arrays have the shape of the domain's sizes.

    Parameters
    ----------
    label
        the values of the columns that groups are made of, as texts, None where missing; empty for all records.
    n, total_weight
        records with a positive weight, and the sum of their weights.
    kish
        (Σw)²/Σw²: the records that would say as much if weights were equal (Kish 1965).
    proportions, totals
        Σ w g/Σ w and Σ w g; cells may be negative.
    standard_errors, total_errors
        of both, by linearisation; NaN where reports show no variance.
    lower, upper
        ends of each share's interval, within [0, 1].
    effective
        n over the design effect.
    covariance
        of the shares, (R, R) for R cells in row-major order.
    """

    label: Label
    n: int
    total_weight: float
    kish: float
    proportions: FloatArray
    standard_errors: FloatArray
    lower: FloatArray
    upper: FloatArray
    totals: FloatArray
    total_errors: FloatArray
    effective: FloatArray
    covariance: FloatArray

    @property
    def design_effects(self) -> FloatArray:
        """By how much the sample's design and the weights multiply each variance."""
        return self.n / self.effective

    def columns(self) -> dict[str, FloatArray]:
        """The numbers of each cell, by name."""
        return {
            "estimate": self.proportions,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
            "total": self.totals,
            "total_standard_error": self.total_errors,
            "design_effect": self.design_effects,
            "effective_n": self.effective,
        }

    def summary(self) -> dict[str, Any]:
        """Tables as nested lists."""
        numbers: dict[str, Any] = in_json(self.columns())
        return numbers | {"n": self.n, "total_weight": self.total_weight, "kish_effective_n": self.kish}


@dataclass(frozen=True, eq=False, repr=False)
class WeightedEstimate(TableResult):
    """Weighted estimates of one attribute set, for all people or for each group of them.

    Parameters
    ----------
    domain
        the attribute set.
    columns
        the public columns that were used; ``columns.group`` are those that groups are made of.
    tables
        one for each group, or a single one.
    clusters, strata
        how many there are; every record is a cluster where no column says otherwise.
    confidence, simultaneous
        of the intervals: each cell alone, or all cells of all tables together.
    warnings
        what a reader must know, one sentence each.
    """

    domain: Domain
    columns: PublicColumns
    tables: tuple[GroupTable, ...]
    n: int
    clusters: int
    strata: int
    confidence: float
    simultaneous: bool
    warnings: tuple[str, ...] = ()

    method = "weighted"
    in_summary = ("n", "method", "strata", "clusters", "confidence", "simultaneous", "interval_note", "warnings")

    @property
    def table(self) -> GroupTable:
        """The first table: the only one where there are no groups."""
        return self.tables[0]

    @property
    def interval_note(self) -> str:
        """One sentence on what the intervals hold for, and where they come from."""
        cells = sum(t.proportions.size for t in self.tables)
        each = f"all {cells} cells together" if self.simultaneous else "each cell alone"
        return (
            f"intervals for the sampled population, {100 * self.confidence:g}% for {each}, by inverting a test of every share "
            "with the effective number of records"
        )

    @property
    def sampling(self) -> str:
        """One sentence on how the records were sampled."""
        weighted = "equal weights" if self.columns.weight is None else f"weights {self.columns.weight!r}"
        parts = [f"{self.n} records", weighted]
        if self.columns.stratum is not None:
            parts.append(f"{self.strata} strata of {self.columns.stratum!r}")
        if self.columns.cluster is not None:
            parts.append(f"{self.clusters} clusters of {self.columns.cluster!r}")
        return ", ".join(parts)

    def headline(self) -> str:
        """Which table, of which sample."""
        by = f" by {' × '.join(self.columns.group)}" if self.columns.group else ""
        return f"{' × '.join(self.domain.names)}{by}, weighted: {self.sampling}"

    def _keys(self) -> int:
        return len(self.columns.group) + self.domain.m

    def to_arrow(self) -> pa.Table:
        """One row per group and cell: the groups' columns, the categories' texts (null where missing), the numbers, n."""
        return pa.concat_tables([self._rows(table) for table in self.tables])

    def _rows(self, table: GroupTable) -> pa.Table:
        n = np.full(table.proportions.shape, table.n)
        rows = cells_table(self.domain, {**table.columns(), "n": n})
        for place, (name, text) in enumerate(zip(self.columns.group, table.label, strict=True)):
            rows = rows.add_column(place, name, pa.array([text] * rows.num_rows, pa.string()))
        return rows

    def _axis(self) -> tuple[str, None]:
        return f"proportion, {intervals_said(self.confidence)}", None

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object: the tables under ``groups`` where there are groups, else at the top."""
        c = self.columns
        out: dict[str, Any] = {
            "attributes": list(self.domain.names),
            "categories": [list(a.categories) for a in self.domain],
            "public": {"weight": c.weight, "stratum": c.stratum, "cluster": c.cluster, "by": list(c.group)},
            **super().summary(),
        }
        if not c.group:
            return out | self.table.summary()
        groups = [{"group": dict(zip(c.group, t.label, strict=True))} | t.summary() for t in self.tables]
        return out | {"groups": groups}

    def only(self, table: GroupTable) -> WeightedEstimate:
        """One group's table alone, without the groups' columns."""
        return replace(self, tables=(replace(table, label=()),), columns=replace(self.columns, group=()))

    def titles(self) -> list[str]:
        """What each table is called: its group's values."""
        pairs = [zip(self.columns.group, t.label, strict=True) for t in self.tables]
        return [", ".join(f"{name} = {category_word(text)}" for name, text in pair) for pair in pairs]
