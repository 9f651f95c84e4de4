"""What a way to randomize a cohort does for a study: it turns true records into tests of all variants, and says what it costs.

Here are whole records, and records of a few drawn variants; :mod:`optrr.genomics.study.making` makes all ways of local trust,
:mod:`optrr.genomics.study.curators` those of another trust.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optrr.designs.design import Design
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.layout import Layout, layout_of
from optrr.genomics.odds import odds_ratios
from optrr.genomics.randomize import randomize_records
from optrr.genomics.scan import EffectColumns
from optrr.genomics.tests import (
    Scores,
    association_chi_squared,
    genotype_tables,
    naive_score_test,
    noncentralities,
    score_test,
)
from optrr.mechanisms.kernel import EffectKernel, unrandomized
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import as_source

LOCAL = ("optimum", "pairs", "association", "sampling", "subset", "inductive", "kronecker", "naive")
TRUST = "local"

# This many variants are counted at once.
_BLOCK = 2048
# People randomized at once when sampling variants: n · V keys would not fit for many variants.
_KEYS = 1 << 22


def record_tables(records: Codes, layout: Layout) -> IntArray:
    """Counts of all variants from records of the genotype layout, shape (V, R, 2)."""
    assert layout.status is not None
    status, at = records[:, layout.status], layout.attributes[:, 0]
    out = np.empty((at.size, GENOTYPES + layout.missing, 2), dtype=np.int64)
    for start in range(0, at.size, _BLOCK):
        chosen = slice(start, start + _BLOCK)
        codes = records[:, at[chosen]]
        if layout.missing:
            codes = np.where(codes == GENOTYPES, np.int8(MISSING), codes)
        out[chosen] = genotype_tables(codes, status, layout.missing)
    return out


@dataclass(frozen=True, eq=False)
class Seen:
    """What one randomized copy shows.

    The tests, those that take it for true records where that has a meaning, an estimate of each true χ², (V,), and odds ratios
    of the variants of these numbers.
    """

    scores: Scores
    naive: Scores | None
    chi_squared: FloatArray
    odds_of: Callable[[IntArray], EffectColumns]


class StudiedWay(Protocol):
    """A way to randomize the cohort and to test what comes out."""

    @property
    def name(self) -> str:
        """One of `optrr.genomics.study.METHODS`."""

    @property
    def trust(self) -> str:
        """Whom people trust: ``local`` where nobody."""

    @property
    def per_copy(self) -> bool:
        """Whether odds ratios are per copy, by a logistic model, or of alleles; in Hardy–Weinberg proportions these agree."""

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats."""

    @property
    def reported(self) -> int:
        """Variants per person."""

    def labels(self) -> dict[str, float]:
        """What the design promises beside its total; NaN for what it does not know."""

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """One randomized copy of ``records`` (n, 1 + V; the status first), tested."""

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Noncentrality, for each person of the cohort, of these variants' tests, from their true tables (V, R, 2)."""


@dataclass(frozen=True, eq=False)
class VariantReports:
    """Who reports which variants: ``design`` is the way of asking for the status and the variants that a person reports.

    Where these are fewer than ``variants``, everybody draws which ones they are, anew and in public, among all.

    Parameters
    ----------
    name
        one of LOCAL.
    missing
        whether a genotype may be missing.
    kernel
        of each variant beside the status, or one for all.
    """

    name: str
    design: Design
    variants: int
    missing: bool
    kernel: EffectKernel

    trust = TRUST
    per_copy = False

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats; the choice of variants costs nothing, because it does not depend on the record."""
        return self.design.epsilon

    @property
    def reported(self) -> int:
        """Variants per person."""
        return self.design.domain.m - 1

    def labels(self) -> dict[str, float]:
        """Of the design, and the median visibility of an association."""
        achieved = self.design.attribute_epsilons
        return {
            "lower_bound": self.design.lower_bound,
            "variant_epsilon": float(np.median(achieved[1:])),
            "status_epsilon": float(achieved[0]),
            "max_conditional_epsilon": float(self.design.conditional_epsilons.max()),
            "joint_eigenvalue": float(np.median(np.abs(self.kernel.eigenvalues[..., 1, 1]))),
        }

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        tables = self.tables(records, generator)
        # where everybody is asked for a few variants only, fewer people are counted for each
        people = np.maximum(tables.sum(axis=(1, 2)), 1)
        whole = np.count_nonzero(records[:, 1:] != MISSING, axis=0)
        estimate = association_chi_squared(tables, self.kernel, test) * whole / people
        odds = lambda which: odds_ratios(tables[which], self.kernel.part(which))  # noqa: E731
        return Seen(score_test(tables, self.kernel, test), naive_score_test(tables, test), estimate, odds)

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        return noncentralities(tables, self.kernel.part(which), test) * self.reported / self.variants

    def tables(self, records: Codes, generator: np.random.Generator) -> IntArray:
        """Counts of one randomized copy of ``records`` (n, 1 + V; the status first), shape (V, R, 2).

        Where variants are drawn, a person is counted only in the tables of the variants reported.
        """
        if self.reported < self.variants:
            return self._drawn_tables(records, generator)
        randomized = records.copy()
        randomize_records(randomized, self.design.mechanism, generator)
        return record_tables(randomized, layout_of(self.design.domain))

    def _drawn_tables(self, records: Codes, generator: np.random.Generator) -> IntArray:
        rows = GENOTYPES + self.missing
        cells = np.zeros(self.variants * rows * 2, dtype=np.int64)
        step = max(1, _KEYS // self.variants)
        source = as_source(generator)
        for start in range(0, records.shape[0], step):
            piece = records[start : start + step]
            chosen = np.argpartition(generator.random((piece.shape[0], self.variants)), self.reported - 1, axis=1)
            chosen = chosen[:, : self.reported]
            reports = np.concatenate([piece[:, :1], np.take_along_axis(piece, 1 + chosen, axis=1)], axis=1)
            randomize_records(reports, self.design.mechanism, source)
            genotype, status = reports[:, 1:], reports[:, :1]
            cell = (chosen * rows + genotype) * 2 + status
            cells += np.bincount(cell[genotype != MISSING], minlength=cells.size)
        return cells.reshape(self.variants, rows, 2)


@dataclass(frozen=True, eq=False)
class NaiveUse:
    """Randomized records taken for true ones: what happens to those who use the ordinary test."""

    reports: VariantReports

    name = "naive"
    trust = TRUST
    per_copy = False

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats."""
        return self.reports.epsilon

    @property
    def reported(self) -> int:
        """Variants per person."""
        return self.reports.reported

    def labels(self) -> dict[str, float]:
        """Those of the reports."""
        return self.reports.labels()

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        tables = self.reports.tables(records, generator)
        plain, scores = unrandomized(tables.shape[1:]), naive_score_test(tables, test)
        return Seen(scores, scores, scores.statistic, lambda which: odds_ratios(tables[which], plain))

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Unknown, NaN: what an invalid test says is no noncentrality."""
        return np.full(which.size, np.nan)
