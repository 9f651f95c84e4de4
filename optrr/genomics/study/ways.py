"""Ways to randomize the same people's genotypes and status at the same total ε, for comparison.

    optimum     the certified optimum over all variants and the status
    association the questions that keep most of what the trend test needs, tested by likelihood
                (:mod:`optrr.genomics.designing`), for the share of cases and the frequencies that there are, as if they
                were known from elsewhere
    sampling    each person draws k variants in public and answers them and the status together, by one randomized response over
                all their combinations with the whole ε: λ = (e^ε − 1)/(e^ε + 2·3^k − 1) for every effect, and k/V of the
                people for each variant; k is the number that makes the test's noncentrality largest, for a variant of
                ordinary frequency and not for these data
    inductive   POR's heuristic (status first, so that its ε is not the one replaced)
    kronecker   each attribute on its own
    naive       the optimum's records, taken for true ones

and under another trust than the local one, in :mod:`optrr.genomics.study.curators`: laplace, gaussian, unrandomized.

Every way turns true records into tests of all variants, an estimate of each true χ², and odds ratios.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optrr.core.design import Design
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import EffectKernel, unrandomized
from optrr.genomics.designing import Budget, Wanted, genomic_design, sampled_variants
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.layout import Layout, genomic_domain, layout_of, star_kernel
from optrr.genomics.odds import odds_ratios
from optrr.genomics.randomize import called, randomize_records
from optrr.genomics.sampled_scan import associations_of, expected_noncentralities, likelihood_tests
from optrr.genomics.sampled_variants import SampledVariants
from optrr.genomics.scan import EffectColumns, ScanOptions
from optrr.genomics.score_tests import (
    Scores,
    association_chi_squared,
    genotype_tables,
    naive_score_test,
    noncentralities,
    score_test,
)
from optrr_solvers import Problem
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import FewChangesLaw
from optrr_solvers.randomness import as_source
from optrr_solvers.solution import checked

# This many variants are counted at once.
_BLOCK = 2048
# People randomized at once when sampling variants: n · V keys would not fit for many variants.
_KEYS = 1 << 22
# True shares of a variant of ordinary frequency, somewhat associated, by which the number of sampled variants is chosen.
_REFERENCE = np.array([[[0.28, 0.22], [0.19, 0.22], [0.03, 0.06]]])
# Beyond ε / ln 3 variants, each further one makes λ² smaller by nine; so many more are tried.
_BEYOND = 3
# Frequencies that a design is made for are not nearer to 0 and 1.
_RAREST = 0.005
# By so much, relative to 1 + ε, a law stays below the total.
_ROUNDING = 1e-8


def record_tables(records: Codes, layout: Layout) -> IntArray:
    """Counts of all variants from records, shape (V, R, 2)."""
    status, at = records[:, layout.status], layout.attributes
    out = np.empty((at.size, GENOTYPES + layout.missing, 2), dtype=np.int64)
    for start in range(0, at.size, _BLOCK):
        chosen = slice(start, start + _BLOCK)
        out[chosen] = genotype_tables(called(records[:, at[chosen]], layout), status, layout.missing)
    return out


@dataclass(frozen=True, eq=False)
class Seen:
    """What one randomized copy shows.

    The tests, those that take it for true records where that has a meaning, an estimate of each true χ², (V,), and odds ratios
    of the variants of these numbers, where the way has any.
    """

    scores: Scores
    naive: Scores | None
    chi_squared: FloatArray
    odds_of: Callable[[IntArray], EffectColumns] | None


@dataclass(frozen=True, eq=False)
class StudiedWay(ABC):
    """A way to randomize the cohort and to test what comes out.

    ``epsilon`` is the total per person in nats, infinite without privacy; ``reported`` how many variants a person's record or
    answer is about. ``trust``: whom people trust, ``local`` where nobody. ``per_copy``: whether odds ratios are per copy, by a
    logistic model, or of alleles; in Hardy–Weinberg proportions these agree.
    """

    epsilon: float
    reported: int

    trust: ClassVar[str] = "local"
    per_copy: ClassVar[bool] = False

    @property
    def labels(self) -> Mapping[str, float]:
        """What the design promises of attributes beside its total."""
        return {}

    @abstractmethod
    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """One randomized copy of ``records`` (n, 1 + V; the status first), tested."""

    @abstractmethod
    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Noncentrality, for each person of the cohort, of these variants' tests, from their true tables (V, R, 2)."""


@dataclass(frozen=True, eq=False)
class VariantReports(StudiedWay):
    """Who reports which variants: ``design`` is the way of asking for the status and the variants that a person reports.

    Where these are fewer than ``variants``, everybody draws which ones they are, anew and in public, among all; that costs
    nothing, because it does not depend on the record. ``kernel`` is of each variant beside the status, or one for all.
    """

    design: Design
    variants: int
    kernel: EffectKernel

    @property
    def labels(self) -> Mapping[str, float]:
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
        estimate = association_chi_squared(tables, self.kernel, test) * _called(records) / people
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
        rows = GENOTYPES + layout_of(self.design.domain).missing
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
class NaiveUse(VariantReports):
    """Randomized records taken for true ones: what happens to those who use the ordinary test."""

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        tables = self.tables(records, generator)
        plain, scores = unrandomized(tables.shape[1:]), naive_score_test(tables, test)
        return Seen(scores, scores, scores.statistic, lambda which: odds_ratios(tables[which], plain))

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """Unknown, NaN: what an invalid test says is no noncentrality."""
        return np.full(which.size, np.nan)


@dataclass(frozen=True, eq=False)
class VariantQuestions(StudiedWay):
    """Everybody answers about a few variants (``association``); the naive test of such answers has no meaning."""

    asking: SampledVariants

    per_copy = True

    def seen(self, records: Codes, test: str, generator: np.random.Generator) -> Seen:
        """As :class:`StudiedWay`."""
        question, answer = self.asking.answered(records, as_source(generator))
        given = answer >= 0
        told = self.asking.told([(question[given], answer[given])])
        scanned = associations_of(self.asking, told, ScanOptions(test))
        whole = _called(records) / np.maximum(scanned.n, 1)
        if test == "trend":
            # the statistic less what noise adds on average, for as many true records as there are
            kept = np.maximum(likelihood_tests(self.asking, told).kept, 1e-12)
            estimate = np.clip(1 + (scanned.scores.statistic - 1) / kept * whole, 0, whole * scanned.n)
        else:
            tables = told[0][1].counts.reshape(-1, GENOTYPES, 2)
            estimate = association_chi_squared(tables, self.asking.kernel, test) * whole
        return Seen(scanned.scores, None, estimate, scanned.odds_of)

    def expected(self, tables: NDArray[np.number], which: IntArray, test: str) -> FloatArray:
        """As :class:`StudiedWay`."""
        people = float(tables.sum()) / len(tables)
        return expected_noncentralities(self.asking, tables[:, :GENOTYPES], which, test, people)


def _called(records: Codes) -> IntArray:
    """How many people have a call of each variant, (V,)."""
    return np.asarray(np.count_nonzero(records[:, 1:] != MISSING, axis=0))


@dataclass(frozen=True, eq=False)
class StudiedPanel:
    """What a way is made for: variants, a total, the test, and the share of cases and frequencies of A1 if known."""

    names: NDArray[np.object_]
    total: float
    missing: bool = False
    test: str = "trend"
    cases: float | None = None
    frequencies: FloatArray | None = None

    def whole_records(self, solver: str) -> VariantReports:
        """A mechanism of whole records by this solver."""
        wanted = Wanted(list(self.names), missing=self.missing, method=solver)
        design = genomic_design(wanted, Budget(total=self.total))
        layout = layout_of(design.domain)
        kernel = star_kernel(design.law, layout.attributes, layout.status)
        return VariantReports(design.epsilon, layout.variants, design, layout.variants, kernel)

    @cached_property
    def optimum(self) -> VariantReports:
        """The certified optimum, which is made once."""
        return self.whole_records("auto")


def _naive(panel: StudiedPanel) -> NaiveUse:
    same = panel.optimum
    return NaiveUse(same.epsilon, same.reported, same.design, same.variants, same.kernel)


def _questions(panel: StudiedPanel) -> VariantQuestions:
    if panel.missing:
        raise InvalidInput("answers about a few variants have no category for missing calls; leave them out instead")
    known = None if panel.frequencies is None else np.clip(panel.frequencies, _RAREST, 1 - _RAREST)
    asking = sampled_variants(Wanted([str(n) for n in panel.names]), panel.total, panel.cases, known)
    if asking.reports and panel.test != "trend":
        raise InvalidInput(f"answers that name sets of cells have no {panel.test} test; leave it out, or --test trend")
    return VariantQuestions(asking.epsilon, asking.each, asking)


def _sampling(panel: StudiedPanel) -> VariantReports:
    """The number of variants per person that shows most: of all that a total can carry, since λ falls by a third with each."""
    size = panel.names.size
    tried: list[tuple[float, VariantReports]] = []
    for k in range(1, min(size, math.ceil(panel.total / math.log(GENOTYPES)) + _BEYOND) + 1):
        design = _joint_response(k, panel.total, panel.missing)
        kernel = star_kernel(design.law, np.array([1]), 0).part(0)
        if tried and not kernel.is_invertible:
            break
        shown = k * float(noncentralities(_REFERENCE, kernel)[0])
        tried.append((shown, VariantReports(design.epsilon, k, design, size, kernel)))
    return max(tried, key=lambda each: each[0])[1]


def _joint_response(k: int, total: float, missing: bool) -> Design:
    """One randomized response over all combinations of a status and k genotypes: e^ε to 1 for the true one."""
    started = time.perf_counter()
    domain = genomic_domain([f"report {j + 1}" for j in range(k)], missing=missing)
    # labels are rounded up, and must not pass the total
    law = FewChangesLaw(domain.sizes, total - _ROUNDING * (1 + total), np.zeros(domain.m))
    problem = Problem(domain.sizes, law.attribute_epsilons(), names=domain.names)
    return Design(domain, checked(problem, "k-ary", law, None, started=started, tolerance=None))


# Makes each way for a panel. Raises InvalidInput where it cannot reach so small a total (POR's heuristic, for many variants),
# has no place for missing calls, or lacks this test.
LOCAL: Mapping[str, Callable[[StudiedPanel], StudiedWay]] = {
    "optimum": lambda panel: panel.optimum,
    "association": _questions,
    "sampling": _sampling,
    "inductive": lambda panel: panel.whole_records("inductive"),
    "kronecker": lambda panel: panel.whole_records("kronecker"),
    "naive": _naive,
}
