"""Ways to randomize the same cohort at the same total ε, for comparison.

    optimum     the certified optimum over all variants and the status
    kronecker   each attribute on its own
    inductive   POR's heuristic (status first, so that its ε is not the one replaced)
    sampling    each person draws k variants in public and answers them and the status together, by one randomized response over
                all their combinations with the whole ε: λ = (e^ε − 1)/(e^ε + 2·3^k − 1) for every effect, and k/V of the
                people for each variant; k is the number that makes the test's noncentrality largest, for a variant of
                ordinary frequency and not for these data

Every protocol turns true records into count tables and says with which kernel to read them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.designs.design import Design
from optrr.errors import InvalidInput
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.genotypes import GENOTYPES, MISSING, Codes
from optrr.genomics.layout import Layout, genomic_domain, layout_of
from optrr.genomics.randomize import randomize_records
from optrr.genomics.scores import score_test
from optrr.genomics.star import star_kernel
from optrr.genomics.tables import genotype_tables
from optrr.mechanisms.kernel import EffectKernel
from optrr_solvers import Problem
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import FewChangesLaw
from optrr_solvers.randomness import as_source
from optrr_solvers.solution import checked

METHODS = ("optimum", "kronecker", "inductive", "sampling")

# True shares of a variant of ordinary frequency, somewhat associated, by which the number of sampled variants is chosen.
_REFERENCE = np.array([[[0.28, 0.22], [0.19, 0.22], [0.03, 0.06]]])
# Beyond ε / ln 3 variants, each further one makes λ² smaller by nine; so many more are tried.
_BEYOND = 3
# By so much, relative to 1 + ε, a law stays below the total.
_ROUNDING = 1e-8
# Records that noncentralities are worked out for: so many that shares are as good as exact.
_MANY = 1e12

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
class VariantReports:
    """Who reports which variants: ``design`` is the way of asking for the status and the variants that a person reports.

    Where these are fewer than ``variants``, everybody draws which ones they are, anew and in public, among all.

    Parameters
    ----------
    name
        one of METHODS.
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

    @property
    def epsilon(self) -> float:
        """Total ε per person in nats; the choice of variants costs nothing, because it does not depend on the record."""
        return self.design.epsilon

    @property
    def reported(self) -> int:
        """Variants per person."""
        return self.design.domain.m - 1

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


def protocol_for(method: str, names: NDArray[np.object_], total: float, missing: bool = False) -> VariantReports:
    """The protocol of that name at that total.

    Raises
    ------
    InvalidInput
        where the method cannot reach so small a total (POR's heuristic, for many variants).
    """
    if method not in METHODS:
        raise InvalidInput(f"unknown method {method!r}; choose among {', '.join(METHODS)}")
    if method == "sampling":
        return _best_sampling(names, total, missing)
    solver = "auto" if method == "optimum" else method
    design = genomic_design(Wanted(list(names), missing=missing, method=solver), Budget(total=total))
    return _whole_record(method, design)


def _whole_record(name: str, design: Design) -> VariantReports:
    """Everybody reports all variants."""
    layout = layout_of(design.domain)
    assert layout.status is not None
    kernel = star_kernel(design.law, layout.attributes[:, 0], layout.status)
    return VariantReports(name, design, layout.variants, layout.missing, kernel)


def _best_sampling(names: NDArray[np.object_], total: float, missing: bool) -> VariantReports:
    """The number of variants per person that shows most: of all that a total can carry, since λ falls by a third with each."""
    best: tuple[float, VariantReports] | None = None
    for k in range(1, min(names.size, math.ceil(total / math.log(GENOTYPES)) + _BEYOND) + 1):
        design = _joint_response(k, total, missing)
        kernel = star_kernel(design.law, np.array([1]), 0).part(0)
        if best is not None and not kernel.is_invertible:
            break
        value = k * float(noncentralities(_REFERENCE, kernel)[0])
        if best is None or value > best[0]:
            best = value, VariantReports("sampling", design, int(names.size), missing, kernel)
    assert best is not None
    return best[1]


def _joint_response(k: int, total: float, missing: bool) -> Design:
    """One randomized response over all combinations of a status and k genotypes: e^ε to 1 for the true one."""
    started = time.perf_counter()
    domain = genomic_domain([f"report {j + 1}" for j in range(k)], missing=missing)
    # labels are rounded up, and must not pass the total
    law = FewChangesLaw(domain.sizes, total - _ROUNDING * (1 + total), np.zeros(domain.m))
    problem = Problem(domain.sizes, law.attribute_epsilons(), names=domain.names)
    return Design(domain, checked(problem, "k-ary", law, None, started=started, tolerance=None))


def noncentralities(tables: NDArray[np.number], kernel: EffectKernel, test: str = "trend") -> FloatArray:
    """Noncentrality for each person of the test of true tables (V, 3, 2) through the kernel, (V,)."""
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    longer = np.pad(shares, ((0, 0), (0, kernel.sizes[0] - shares.shape[1]), (0, 0)))
    expected = np.maximum(kernel.forward(longer), 0.0) * _MANY
    return score_test(expected, kernel, test, tail=False).statistic / _MANY
