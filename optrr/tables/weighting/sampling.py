"""How estimates from a weighted, stratified or clustered sample of reports vary, at every table that a measure is tested at.

A measure is tested at tables that have the value in question (:mod:`optrr.tables.measures.quantities`), and the law of an
estimate depends on the table: reports of probabilities λ have, from records of equal weights that were sampled one by one, the
covariance T(λ)/n, T(λ) = diag λ − λ λᵀ. A sample shows V, the linearised covariance of its weighted shares λ̂
(:mod:`optrr.tables.weighting.linearised`), at λ̂ alone. It is carried to λ as in :mod:`optrr.models.weighted`: what the sample's
design does to a variance is the sample's, how often each report occurs is the hypothesis's. With F(λ) = diag(√λ)(I − √λ √λᵀ),
for which F Fᵀ = T,

    C(λ) = F(λ) E F(λ)ᵀ/n,    E = (n − 1) diag(λ̃)^−½ V diag(λ̃)^−½ + d (I − diag(λ̃)^−½ T(λ̂) diag(λ̃)^−½),

λ̃ the shares with half an effective record more in every cell, and d the design effect of all cells together, which these half
records have. E is the matrix of design effects: I where records count alike and every one is a cluster, so that C is T(λ)/n, as
without a sample. Where a few records have most of the weight, V is small by chance if these happen to be alike: below
:data:`SEEN` effective records, (Σw)²/Σw², no eigenvalue of E is less than what unequal weights alone make of it, n Σw²/(Σw)².
For a sum of cells by which each report counts y_v, the variance is zᵀ E z/n with z_v = √λ_v (y_v − Σ λ y).

V is itself uncertain where clusters are few. Of normal numbers it is a sum over strata of χ² variables, stratum h with a share
c_h of it and ν_h degrees of freedom, so that an estimate t standard errors out has the tail, instead of that of the normal law,

    (1/π) ∫ Π_h (1 + t² c_h/(ν_h sin² θ))^(−ν_h/2) dθ    over 0..π/2

(Craig's form of the normal tail, MILCOM 1991, averaged over V). In one stratum it is Student's. Satterthwaite's approximation
of it by one number of degrees, which intervals of tables have, is measured to be too wide where one stratum of two or three
clusters has most of the weight. Where few records decide about what is measured, and weights differ, V depends on whether large
weights are among them, and has ν_h/(1 + κ/2) degrees, κ the excess kurtosis of what a report counts, as
:mod:`optrr.tables.weighting.linearised` has it for cells. Where weights hardly differ κ counts in part, n Σw²/(Σw)² − 1 of it,
and where they are equal not at all: with a cluster for each record, the design effect is then 1 whoever was sampled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import MAX_DENSE
from optrr.mechanisms.mechanism import Randomizer, checked_mechanism
from optrr.tables.estimation.impossible import CountedTable, warn_of_records
from optrr.tables.estimation.intervals import Sampling
from optrr.tables.weighting.estimating import said_sample, sample_warnings
from optrr.tables.weighting.linearised import Clusters, Single, WeightedReports
from optrr.tables.weighting.sampled import SampledRecords, read_sample
from optrr_solvers.arrays import FloatArray

# Effective records below which a sample's own variance may be nothing but chance: benchmarks/weighted_coverage.py.
SEEN = 30.0


@dataclass(frozen=True, eq=False)
class ShownDesign:
    """What a sample shows of its design: V (R, R), E (R, R), by how much unequal weights alone make records fewer.

    ``shares`` and ``degrees`` (H,) are c and ν of the strata; ``unsure`` is how much of an excess kurtosis counts against ν.
    """

    covariance: FloatArray
    effects: FloatArray
    weighting: float
    shares: FloatArray
    degrees: FloatArray
    unsure: float

    @staticmethod
    def of(reports: WeightedReports) -> ShownDesign:
        """By the module's formula."""
        shares, weighting = reports.shares, reports.n * reports.squares / reports.total**2
        plain, own = np.diag(shares) - np.outer(shares, shares), (reports.n - 1) * reports.covariance
        # where all reports are alike, only the weights are seen
        together = float(np.trace(own) / np.trace(plain)) if np.trace(plain) > 0 else weighting
        root = np.sqrt(_padded(shares, reports.n / weighting))
        effects = (own - together * plain) / np.outer(root, root) + together * np.eye(root.size)
        if reports.n / weighting < SEEN:
            values, vectors = np.linalg.eigh(effects)
            effects = (vectors * np.maximum(values, weighting)) @ vectors.T
        unsure = reports.alone * min(weighting - 1, 1.0)
        return ShownDesign(reports.covariance, effects, weighting, *reports.strata, unsure)


@dataclass(frozen=True, eq=False)
class WeightedSampling(Sampling):
    """How weighted estimates vary; ``n`` is the number of records, or the one that is asked about.

    ``shown`` is what the sample shows, with E (R, R).
    """

    shown: ShownDesign | None = None

    @property
    def _shown(self) -> ShownDesign:
        assert self.shown is not None
        return self.shown

    def padded(self, observed: FloatArray) -> FloatArray:
        """(R,) with half an effective record more in every cell."""
        return _padded(observed, self.n / self._shown.weighting)

    def _standard(self, observed: FloatArray, influence: FloatArray) -> FloatArray:
        """z (R, K)."""
        return np.sqrt(observed)[:, None] * (influence - observed @ influence)

    def covariance(self, observed: FloatArray, n: float | None = None) -> FloatArray:
        """(K, K) of the unbiased estimates where reports have these probabilities."""
        z = self._standard(observed, self.influence)
        return np.asarray(z.T @ self._shown.effects @ z) / (n or self.n)

    def across(self, observed: FloatArray) -> FloatArray:
        """(R, K) covariance of the unbiased cells with the estimates where reports have these probabilities."""
        root = np.sqrt(observed)
        along = self._shown.effects @ self._standard(observed, self.influence)
        reports = root[:, None] * along - np.outer(observed, root @ along)
        sizes = self.kernel.sizes
        return np.stack([self.kernel.solve(each.reshape(sizes)).ravel() for each in reports.T], axis=1) / self.n

    def third(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Third moment of as many records as are as accurate."""
        z = self._standard(observed, self.influence @ gradient[:, None])
        plain = float(np.sum(z**2))
        if not plain > 0:
            return 0.0
        effect = float((z.T @ self._shown.effects @ z)[0, 0]) / plain
        return super().third(observed, gradient) * effect**2

    def linearised(self, gradient: FloatArray) -> float:
        """Variance of the estimates' change in a direction (K,) by the sample's own covariance, as Taylor's formula has it."""
        along = self.influence @ gradient
        return float(along @ self._shown.covariance @ along)

    def tail(self, normal: float, observed: FloatArray, gradient: FloatArray) -> float:
        """The tail at the number of standard errors that has this one of the normal law, as V is uncertain."""
        return averaged_tail(float(ndtri(normal)), self._shown.shares, self.degrees(observed, gradient))

    def degrees(self, observed: FloatArray, gradient: FloatArray) -> FloatArray:
        """(H,) degrees of freedom of each stratum's part of the variance in a direction (K,)."""
        likely, influence = self.padded(observed), self.influence @ gradient
        influence = influence - likely @ influence
        variance = float(likely @ influence**2)
        if not variance > 0:
            return self._shown.degrees
        excess = float(likely @ influence**4) / variance**2 - 3
        return np.asarray(self._shown.degrees / (1 + self._shown.unsure * max(excess, 0.0) / 2))


# Nodes and weights on 0..π/2: probabilities below 0.3 to 10^−10, and to 3·10^−5 near a half, where no limit lies.
_NODES, _WEIGHTS = (half * np.pi / 4 for half in np.polynomial.legendre.leggauss(48))
_SINES = np.sin(_NODES + np.pi / 4) ** 2


def averaged_tail(z: float, shares: FloatArray, degrees: FloatArray) -> float:
    """Probability below z of a normal number over the root of its variance Σ_h c_h χ²(ν_h)/ν_h; c (H,) and ν (H,)."""
    powers = np.log1p(z**2 * shares[:, None] / (degrees[:, None] * _SINES)) * degrees[:, None] / 2
    tail = float(_WEIGHTS @ np.exp(-powers.sum(axis=0))) / np.pi
    return tail if z < 0 else 1 - tail


def _padded(shares: FloatArray, n: float) -> FloatArray:
    return np.asarray((shares * n + 0.5) / (n + 0.5 * shares.size))


def weighted_table(
    sample: SampledRecords, mechanism: Randomizer, columns: PublicColumns, single_cluster: Single = "refuse"
) -> CountedTable:
    """What a measure sees of records that are read with these ``columns``: weighted shares of reports, and how they vary.

    Raises
    ------
    InvalidInput
        for a table of more than 4096 cells, a stratum with one cluster, or but one cluster. SingularMarginal where the
        mechanism hides an effect of the table.
    """
    kernel = mechanism.kernel(sample.domain.names)
    if kernel.cells > MAX_DENSE:
        raise InvalidInput(
            f"the table has {kernel.cells} cells; weighted measures are of at most {MAX_DENSE}: name fewer attributes"
        )
    kernel.check_invertible()
    clusters = Clusters.of(sample.strata, single_cluster)
    reports = WeightedReports.of(sample, clusters, np.flatnonzero(sample.weights > 0), kernel.cells)
    reports.check_enough()
    sampling = WeightedSampling(kernel, reports.n, None, ShownDesign.of(reports))
    said = said_sample(columns, sample.n, int(clusters.sizes.size), clusters.count)
    observed, notes = reports.shares.reshape(kernel.sizes), tuple(sample_warnings(columns, single_cluster, clusters))
    return CountedTable(sample.domain, reports.n, observed, kernel, sampling, said, notes)


def read_table(
    data: Any,
    mechanism: Randomizer,
    attributes: Iterable[str],
    columns: PublicColumns,
    single_cluster: Single = "refuse",
) -> CountedTable:
    """The same from randomized records with public columns, as :func:`optrr.tables.estimate_weighted` takes them."""
    domain = checked_mechanism(mechanism).domain
    columns.apart_from(domain)
    sample = read_sample(data, domain.subset([domain.names[i] for i in domain.indices(attributes)]), columns)
    warn_of_records([sample.counts()], mechanism)
    return weighted_table(sample, mechanism, columns, single_cluster)
