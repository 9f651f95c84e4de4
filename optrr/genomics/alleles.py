"""POR's layout: a person's two alleles, each reported with the status as one attribute of size 4 (POR §V-B).

Two reports of one person are not two people: they share the status, and one draw of the mechanism randomized both. So the
unit is the person, the cell the pair of reports (z_1, z_2), 4 × 4. With h_k the gradient of the contrast, pulled back through
report k, the allelic statistic is the average over people of (h_1(z_1) + h_2(z_2))/2, and its variance is that of the
pair's law under the null hypothesis, alleles independent of the status.

Nobody's genotype is reported, but how often the two alleles agree can be estimated, from pairs of reports through their
joint eigenvalue. With f the frequency of A1, the null law has

    Pr(both A1) = f² + D,    Pr(both A2) = (1 − f)² + D,    Pr(A1, A2) = Pr(A2, A1) = f (1 − f) − D,

D the departure from Hardy–Weinberg proportions (Weir 1996): estimated for the allelic test, 0 for allelic-hwe. The order of a
person's two alleles must say nothing; :func:`optrr.genomics.randomize.records_of` puts them in random order.

Cells are numbered 2 · (allele is A1) + (case), as in :data:`optrr.genomics.layout.ALLELE_CATEGORIES`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from optrr.domain.domain import Domain
from optrr.errors import InvalidInput, warn
from optrr.genomics.genotypes import Variants
from optrr.genomics.inflation import Inflation, Visible
from optrr.genomics.layout import Layout
from optrr.genomics.odds import OddsRatios, odds_of_alleles
from optrr.genomics.scan import Associations, ScanOptions
from optrr.genomics.tests import ASSUMPTION, Progress, Scores, contrast_test, naive_score_test
from optrr.mechanisms.kernel import EffectKernel
from optrr.models.tests.testing import ASSUMING, counts_alleles
from optrr.records.frames import FrameCodec
from optrr.records.reading.registry import open_source
from optrr.tables.estimation.impossible import Observed, impossible_tables
from optrr.tables.estimation.simplex import clip
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

CELLS = 4

# +1 where two entries of 0, 1 agree, −1 where they differ.
_AGREE = np.array([[1.0, -1.0], [-1.0, 1.0]])
_ALLELIC = ScanOptions("allelic")


def allele_tables(records: np.ndarray[tuple[int, int], np.dtype[np.integer]], layout: Layout) -> IntArray:
    """Counts of pairs of reports, shape (V, 4, 4), from records of the alleles layout, shape (n, 2 V)."""
    out = np.empty((layout.variants, CELLS, CELLS), dtype=np.int64)
    for v, (first, second) in enumerate(layout.attributes):
        cell = CELLS * records[:, first].astype(np.int64) + records[:, second]
        out[v] = np.bincount(cell, minlength=CELLS * CELLS).reshape(CELLS, CELLS)
    return out


def read_allele_tables(path: Path, domain: Domain, layout: Layout, progress: Progress | None = None) -> IntArray:
    """The tables of :func:`allele_tables` from a CSV or Parquet file, read batch by batch."""
    file = open_source(path, domain)
    total = np.zeros((layout.variants, CELLS, CELLS), dtype=np.int64)
    codec: FrameCodec | None = None
    for batch in file.batches(list(domain.names)):
        codec = codec or FrameCodec(domain, batch.schema)
        total += allele_tables(codec.encode(batch), layout)
        if progress is not None:
            progress(codec.records, codec.records)
    if codec is None:
        raise InvalidInput(f"{path} holds no people; give at least two")
    return total


def allele_kernel(law: Law, layout: Layout) -> EffectKernel:
    """The kernel of the two reports of each variant, a batch of (4, 4) tables; one marginal each."""
    lam = np.array([law.eigenvalues((int(a), int(b))) for a, b in layout.attributes])
    return EffectKernel((CELLS, CELLS), lam, ("first report", "second report"))


def allele_score_test(counts: IntArray, kernel: EffectKernel, test: str = "allelic") -> Scores:
    """The allelic test (or allelic-hwe), 1 degree of freedom, for tables of pairs of reports (V, 4, 4)."""
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed = counts / n[:, None, None]
    estimate = _allele_table(observed, kernel)
    alleles = clip(estimate.sum(axis=2))
    # a person has one status, so both reports tell of the same one
    status = clip(estimate.sum(axis=1).mean(axis=0, keepdims=True))
    status = np.broadcast_to(status, (alleles.shape[0], 2))
    centred = np.array([0.0, 1.0])[None, :] - _center(alleles[:, 1:], n, kernel)
    gradient = centred[:, :, None] * np.stack([-status[:, 1], status[:, 0]], axis=1)[:, None, :]
    weights = _pulled_back(gradient, kernel)
    departure = np.zeros(n.size) if test == ASSUMING else _departure(observed, alleles[:, 1], kernel)
    null = _null_law(alleles, departure, status, kernel)
    statistic, p = contrast_test(observed, null, weights, n)
    return Scores.of_one(statistic, p, n * null.min(axis=(1, 2)), np.arange(n.size), n)


def _reports(kernel: EffectKernel) -> tuple[FloatArray, FloatArray]:
    """λ of the first and of the second report, (V,) each."""
    lam = np.broadcast_to(kernel.eigenvalues, (*(kernel.batch or (1,)), 2, 2))
    return lam[:, 1, 0], lam[:, 0, 1]


def _center(f: FloatArray, n: FloatArray, kernel: EffectKernel) -> FloatArray:
    """c in the contrast Σ (a − c)(s − W) π_as, which is 0 under the null for any c; shape (V, 1).

    c = f leaves out what the sampling of people adds to W, c = 1/2 what the mechanism adds to a variant's own reports of the
    status: W comes from all reports. So c is f where the noise of f̂, (1/λ² − 1)/4n for each of two reports, is small, and 1/2
    where it is large. With 1/2 the noise of f̂ also stays out of the weights, where it would make the test reject too seldom.
    """
    first, second = _reports(kernel)
    noise = (1 / first**2 + 1 / second**2 - 2) / (16 * n)
    return np.asarray(0.5 + (f - 0.5) / (1 + 8 * np.sqrt(n) * noise)[:, None])


def _pulled_back(gradient: FloatArray, kernel: EffectKernel) -> FloatArray:
    """What one person's two reports add to a contrast with this gradient (V, 2, 2): shape (V, 4, 4)."""
    first, second = _reports(kernel)
    flat = gradient.reshape(-1, CELLS) - gradient.mean(axis=(1, 2))[:, None]
    # each is a function of one report alone, which needs nothing of the joint effect
    return np.asarray((flat[:, :, None] / first[:, None, None] + flat[:, None, :] / second[:, None, None]) / 2)


def allele_odds(counts: IntArray, kernel: EffectKernel) -> OddsRatios:
    """Odds ratio of A1 for tables of pairs of reports; the person is the sampling unit.

    The interval holds every ψ at which A_1 B_0 − ψ A_0 B_1 is within its own standard errors of 0 (Fieller): its limits are
    roots of a quadratic, 0 and infinity where it has none.
    """
    n = counts.sum(axis=(1, 2)).astype(np.float64)
    observed = counts / n[:, None, None]
    table = _allele_table(observed, kernel)
    return odds_of_alleles(table, lambda gradient: _pulled_back(gradient, kernel), observed, n)


def _allele_table(observed: FloatArray, kernel: EffectKernel) -> FloatArray:
    """Unbiased allele × status table, the mean of both reports', (V, 2, 2)."""
    first, second = _reports(kernel)
    return (_one_report(observed.sum(axis=2), first) + _one_report(observed.sum(axis=1), second)) / 2


def _one_report(observed: FloatArray, eigenvalue: FloatArray) -> FloatArray:
    """Unbiased allele × status table from one report's proportions, shape (V, 2, 2)."""
    uniform = 1 / CELLS
    return np.asarray(uniform + (observed - uniform) / eigenvalue[:, None]).reshape(-1, 2, 2)


def _departure(observed: FloatArray, f: FloatArray, kernel: EffectKernel) -> FloatArray:
    """D of the pairs of reports (V, 4, 4), kept where it leaves a law; shape (V,).

    With u = ±1/2 for A1 and A2, E[u u'] = D + (f − 1/2)², and the mechanism multiplies it by λ_joint. Where that is 0, D
    cannot be seen and changes nothing.
    """
    agree = np.sum(observed.reshape(-1, 2, 2, 2, 2).sum(axis=(2, 4)) * _AGREE, axis=(1, 2)) / 4
    joint = np.broadcast_to(kernel.eigenvalues[..., 1, 1], f.shape)
    seen = joint != 0
    d = np.where(seen, agree / np.where(seen, joint, 1.0) - (f - 0.5) ** 2, 0.0)
    return np.asarray(np.clip(d, -(np.minimum(f, 1 - f) ** 2), f * (1 - f)))


def _null_law(alleles: FloatArray, departure: FloatArray, status: FloatArray, kernel: EffectKernel) -> FloatArray:
    """Law of the pair of reports, (V, 4, 4): alleles that do not depend on the one status, randomized together."""
    pairs = alleles[:, :, None] * alleles[:, None, :] + departure[:, None, None] * _AGREE
    true = np.einsum("vab,vs,st->vasbt", pairs, status, np.eye(2)).reshape(-1, CELLS, CELLS)
    return np.maximum(kernel.forward(true), 0.0)


def scan_alleles(counts: IntArray, law: Law, layout: Layout, options: ScanOptions = _ALLELIC) -> Associations:
    """The allelic test (or allelic-hwe) of every variant of records in the alleles layout.

    ``counts`` from :func:`allele_tables`. Only names of variants are known. Odds ratios come from the average of the two
    reports' tables, with people as the sampling units; the naive test takes every report for a person of its own. Raises
    InvalidInput for other tests: this layout has no genotypes.
    """
    if not counts_alleles(options.test):
        raise InvalidInput(f"the alleles layout has no genotypes for the {options.test} test; use --test allelic")
    if options.thresholds:
        raise InvalidInput(
            "filters are worked out from genotypes, and this design randomizes alleles; leave out --maf, --hwe and "
            "--call-rate, or design with --layout genotype"
        )
    kernel = allele_kernel(law, layout)
    doubts = impossible_tables([Observed("a variant's two reports", counts, kernel)])
    warn(doubts)
    scores = allele_score_test(counts, kernel, options.test)
    reports = (counts.sum(axis=2) + counts.sum(axis=1)).reshape(-1, 2, 2)
    naive = naive_score_test(reports, options.test) if options.naive else None
    people, inflation = counts.sum(axis=(1, 2)), Inflation.of(scores, Visible())
    warnings: tuple[str, ...] = (
        "each person's two alleles are two reports in one record, and both are paid for; genotypes are one report",
    )
    if options.test == ASSUMING:
        warnings = (*warnings, ASSUMPTION)
    return Associations(
        Variants.named(list(layout.names)),
        options.test,
        people,
        scores,
        lambda which: allele_odds(counts[which], kernel.part(which)),
        naive,
        {},
        inflation,
        (*doubts, *inflation.warnings(), *warnings),
    )
