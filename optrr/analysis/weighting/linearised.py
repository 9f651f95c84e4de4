"""Weighted proportions and totals of reports, with covariances under a stratified, clustered sample (theory §4.9).

A report v counts for the cells of the true table by g(v), column v of (Pᵀ)⁻¹, which is unbiased for the cell that its
person is in. For weights w_i the total (Horvitz and Thompson) and the proportion (Hájek) of a cell are estimated by

    Σ w_i g(v_i)    and    Σ w_i g(v_i)/Σ w_i.

Both are linear in the table of reports: it is weighted here, and the kernel's one inverse is applied to table and
covariance afterwards. With W = Σ w_i and e(v) the indicator of cell v, the proportion's error is, to first order, the
sum over all records of

    z_i = w_i (e(v_i) − λ̂)/W.

With clusters c = 1..n_h drawn in stratum h, z_hc the sum of z_i over a cluster,

    V = Σ_h n_h/(n_h − 1) Σ_c (z_hc − z̄_h)(z_hc − z̄_h)ᵀ.

This uses the first stage alone, as if drawn with replacement: variation within clusters, the randomization of every
report included, is part of the differences between clusters. Where a large part of a stratum was sampled, V is too
large, never too small. For the people of a group, z_i is 0 outside it, W is the group's, and n_h counts all clusters of
the sample. One cluster alone in its stratum shows no variance; "centred" takes its difference from the mean of all
clusters, as R's survey package does under the name "adjust". Sources: Särndal, Swensson and Wretman, Model Assisted
Survey Sampling (1992), §5.5 to 5.7 and 10.3; Wolter, Introduction to Variance Estimation (2007), ch. 6; Lumley, Complex
Surveys (2010), §2.2 and appendix A.

Intervals of weighted proportions are those of unweighted ones (:mod:`optrr.core.estimation.score_interval`), for as
many records as would be as accurate if sampled alone. Korn and Graubard (Survey Methodology 24, 1998, 193) take this
*effective* number to be n over the design effect, which is the variance under the sample's design over that of as many
records sampled one by one with equal weights; and, because V is itself uncertain, fewer by the square of the normal
over Student's quantile, here with Satterthwaite's degrees of freedom, because strata may differ much in weights. A
design effect below 1 counts as 1: it may be chance, and the interval is then wide enough in any case.

A cell's own variance is unreliable where few records determine it: in a rare cell that happens to have none of the few
large weights it is far too small. If weights are independent of reports, it is as uncertain as one with degrees of
freedom

    ν/(1 + κ/2),

κ the excess kurtosis of a report's contribution to the cell and ν the degrees that normal numbers would leave. Where
these are few, a cell has at most as many effective records as the weights alone leave (Kish), and as all cells of the
table have together; where even these are unsure, the people of a cluster count as if all of them were alike.

A measure is tested at tables other than the estimate (:mod:`optrr.analysis.measures.quantities`), where reports have
probabilities λ; from records of equal weights that were sampled one by one their covariance is

    T(λ)/n,    T(λ) = diag λ − λ λᵀ.

V is known at λ̂ alone. It may be carried to λ, as in :mod:`optrr.analysis.weighted`, because the effect of the design
on a variance belongs to the sample, and the frequency of each report to the hypothesis:

    C(λ) = F(λ) E F(λ)ᵀ/n,    F(λ) = diag(√λ)(I − √λ √λᵀ), for which F Fᵀ = T,
    E = (n − 1) diag(λ̃)^−½ V diag(λ̃)^−½ + d (I − diag(λ̃)^−½ T(λ̂) diag(λ̃)^−½),

λ̃ the proportions with half an effective record more in every cell, and d the design effect of all cells together,
which these half records have. E is the matrix of design effects: I where records count alike and every one is a
cluster, so that C is T(λ)/n, as without a sample. Where a few records have most of the weight, V is small by chance if
these happen to be alike: below :data:`SEEN` effective records, (Σw)²/Σw², no eigenvalue of E is less than what unequal
weights alone make of it, n Σw²/(Σw)². For a sum of cells to which each report contributes y_v, the variance is

    zᵀ E z/n,    z_v = √λ_v (y_v − Σ λ y).

An estimate t standard errors out has Student's tail with ν degrees of freedom, Satterthwaite's of V, instead of the
normal one. Where few records determine the measure, V depends on whether large weights are among them, and has ν/(1 +
κ/2) degrees; where weights hardly differ κ counts in part, n Σw²/(Σw)² − 1 of it, and where they are equal not at all:
the design effect is then 1 in every sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.special import ndtri, stdtr

from optrr.analysis.weighting.sampled import SampledRecords, sample_of
from optrr.core.domain import PublicColumns
from optrr.core.errors import InvalidInput, TooFewRecords
from optrr.core.estimation import EstimatedTable, Sampling, cell_intervals, norm, padded
from optrr.core.mechanisms import MAX_DENSE, Kernel, Randomizer
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


Single = Literal["refuse", "centred"]
SINGLE: tuple[str, ...] = get_args(Single)
# Effective records below which a sample's own variance may be nothing but chance: benchmarks/weighted_coverage.py.
SEEN = 30.0


@dataclass(frozen=True, eq=False)
class Clusters:
    """Strata of some of a sample's clusters, with factors of their squares.

    ``strata`` (C,), ``sizes`` (H,) the n_h, ``factors`` (C,) n_h/(n_h − 1), 1 for a cluster that is alone; of the whole sample
    ``count`` clusters, ``alone`` of them the only one of their stratum.
    """

    strata: IntArray
    sizes: IntArray
    factors: FloatArray
    count: int
    alone: int

    @staticmethod
    def of(strata: IntArray, single: Single) -> Clusters:
        """Build the strata; lonely clusters are treated as ``single`` states.

        Raises InvalidInput if there is one cluster, or a lonely one is refused.
        """
        if single not in SINGLE:
            raise InvalidInput(f"``lonely_psu``: {single!r}; give one of {', '.join(SINGLE)}")
        sizes = np.bincount(strata)
        alone = int(np.sum(sizes == 1))
        if strata.size == 1:
            raise TooFewRecords("all records are of one cluster, which shows no variance; give records of two or more")
        if alone and single == "refuse":
            raise InvalidInput(
                f"{alone} of {sizes.size} strata have only one cluster (or record), which shows no variance; merge such "
                "strata, or take ``lonely_psu='centred'``"
            )
        factors = np.divide(sizes, sizes - 1, out=np.ones(sizes.size), where=sizes > 1)
        return Clusters(strata, sizes, factors[strata], int(strata.size), alone)

    def only(self, seen: IntArray) -> Clusters:
        """Select clusters; the others have no record of a group and add 0."""
        known, strata = np.unique(self.strata[seen], return_inverse=True)
        return Clusters(strata, self.sizes[known], self.factors[seen], self.count, self.alone)

    def degrees(self, squares: FloatArray) -> float:
        """Compute Satterthwaite's degrees of freedom of a variance.

        ``squares`` (C,) are the clusters' contributions.

        A stratum's part is as uncertain as its own clusters are few, or as few of them have most of its weights, so that
        large weights in few clusters leave few degrees of freedom, however many clusters there are elsewhere. Of a group only
        clusters that have some of it count (Korn and Graubard).
        """
        sizes, seconds = np.bincount(self.strata), np.bincount(self.strata, squares**2)
        return float(squares.sum() ** 2 / np.sum(seconds * sizes / np.maximum(sizes - 1, 1)))

    def covariance(self, sums: csr_matrix, offset: FloatArray, mean: FloatArray) -> FloatArray:
        """Compute the covariance of a sum over clusters, Σ_c (y_c − o_c μ), (R, R).

        ``sums`` y (C, R), ``offset`` o (C,), ``mean`` μ (R,).

        Sums are sparse, as clusters have reports in few cells.
        """
        out = _squares(sums, offset, mean, self.factors)
        within = 1 / np.maximum(self.sizes - 1, 1) * (self.sizes > 1)
        out -= _squares(*self._summed(self.strata, sums, offset), mean, within)
        if self.alone:
            single = self.sizes[self.strata] == 1
            # of all clusters, and of those that are alone
            everywhere, lone = (
                np.asarray(w @ sums - (w @ offset) * mean) for w in (np.ones(offset.size), single.astype(np.float64))
            )
            centre = everywhere / self.count
            out += self.alone * np.outer(centre, centre) - np.outer(lone, centre) - np.outer(centre, lone)
        return out

    @staticmethod
    def _summed(rows: IntArray, sums: csr_matrix, offset: FloatArray) -> tuple[csr_matrix, FloatArray]:
        """Sum the sums and offsets of the clusters of each row."""
        from scipy.sparse import csr_matrix  # noqa: PLC0415 (takes long to import)

        choose = csr_matrix((np.ones(rows.size), (rows, np.arange(rows.size))))
        return choose @ sums, np.asarray(choose @ offset)


def _squares(sums: csr_matrix, offset: FloatArray, mean: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum the weighted outer products of the clusters' deviations, (R, R)."""
    scaled = sums.multiply(weights[:, None]).tocsr()
    cross = np.outer(np.asarray(scaled.T @ offset).ravel(), mean)
    squares = np.asarray((scaled.T @ sums).toarray(), dtype=np.float64)
    return np.asarray(squares + float(weights @ offset**2) * np.outer(mean, mean) - cross - cross.T)


@dataclass(frozen=True, eq=False)
class WeightedReports:
    """Weighted reports of one group.

    ``shares`` (R,), their covariance, and that of the weighted totals, (R, R) each.

    ``n`` records of positive weight with sum ``total``; ``squares`` (R,) are by report their squared weights over the total's
    square, ``cluster_kish`` is (Σw)²/Σw² of clusters' weights, ``degrees`` the degrees of freedom of the variances, and
    ``alone`` by how much the excess kurtosis of one record counts for a cluster's, 1 without clusters.
    """

    n: int
    total: float
    squares: FloatArray
    cluster_kish: float
    shares: FloatArray
    covariance: FloatArray
    totals_covariance: FloatArray
    degrees: float
    alone: float

    @cached_property
    def kish(self) -> float:
        """Effective number of records if weights are unrelated to reports (Kish 1965)."""
        return 1 / float(self.squares.sum())

    @staticmethod
    def of(sample: SampledRecords, clusters: Clusters, rows: IntArray, cells: int) -> WeightedReports:
        """Build from records of positive weight, at least one."""
        from scipy.sparse import csr_matrix  # noqa: PLC0415 (as above)

        weights = sample.weights[rows]
        seen, where = np.unique(sample.clusters[rows], return_inverse=True)
        some = clusters.only(seen)
        sums = csr_matrix((weights, (where, sample.cells[rows])), shape=(seen.size, cells))
        total, squares = float(weights.sum()), np.bincount(where, weights=weights**2).astype(np.float64)
        shares = np.asarray(sums.sum(axis=0)).ravel() / total
        offset = np.bincount(where, weights=weights).astype(np.float64)
        return WeightedReports(
            n=int(weights.size),
            total=total,
            squares=np.bincount(sample.cells[rows], weights=weights**2, minlength=cells) / total**2,
            cluster_kish=total**2 / float(np.sum(offset**2)),
            shares=shares,
            covariance=some.covariance(sums, offset, shares) / total**2,
            totals_covariance=some.covariance(sums, 0 * offset, 0 * shares),
            degrees=some.degrees(squares),
            alone=float(np.sum(weights**4) / np.sum(squares**2)),
        )

    @property
    def weighting(self) -> float:
        """Design effect of unequal weights alone."""
        return self.n / self.kish

    @cached_property
    def effects(self) -> FloatArray:
        """E, the design effects, (R, R), by the module's formula."""
        shares = self.shares
        plain, own = np.diag(shares) - np.outer(shares, shares), (self.n - 1) * self.covariance
        # where all reports are equal, only the weights vary
        together = float(np.trace(own) / np.trace(plain)) if np.trace(plain) > 0 else self.weighting
        root = np.sqrt(padded(shares, self.kish))
        effects = (own - together * plain) / np.outer(root, root) + together * np.eye(root.size)
        if self.kish < SEEN:
            values, vectors = np.linalg.eigh(effects)
            effects = (vectors * np.maximum(values, self.weighting)) @ vectors.T
        return np.asarray(effects)

    def second_moments(self, counted: FloatArray) -> FloatArray:
        """Compute M of one of n records, (k, k), from contributions (R, k)."""
        return np.asarray((self.n - 1) * (counted.T @ self.covariance @ counted))

    def check_enough(self) -> None:
        """Raise TooFewRecords if the weights leave fewer records than show a variance."""
        if self.kish < _FEWEST:
            raise TooFewRecords(
                f"the weights are so unequal that these {self.n} records count as {self.kish:.2g}, and {_FEWEST} are needed; "
                "look at the largest weights, or collect more"
            )


def through(kernel: Kernel, covariance: FloatArray, reports: WeightedReports, scale: float = 1.0) -> FloatArray:
    """Compute the covariance (R, R) of the scaled unbiased estimate.

    From the reports' covariance times the square of ``scale``.

    Variances that are rounding errors, because all reports with information on a cell are equal, are 0.
    """
    half = kernel.solve(covariance.reshape(-1, *kernel.sizes)).reshape(covariance.shape)
    out = np.asarray(kernel.solve(half.T.reshape(-1, *kernel.sizes)).reshape(covariance.shape))
    least = scale**2 / reports.kish * kernel.rounding(reports.shares.reshape(kernel.sizes)).ravel()
    place = np.arange(len(out))
    out[place, place] = np.where(np.diag(out) > least, np.diag(out), 0.0)
    return out


# Fewer effective records than this have no interval but everything.
_FEWEST = 2
# A cell's own variance counts alone where it is as sure as one of so many degrees of freedom, and that of all cells where it is
# as sure as one of the second number: benchmarks/weighted_coverage.py.
_SURE, _SURE_TOGETHER = 100.0, 20.0


def effective_records(kernel: Kernel, reports: WeightedReports, variances: FloatArray) -> FloatArray:
    """Compute n over each cell's design effect, (R,).

    If that is uncertain, at most what weights alone and all cells together imply.
    """
    alone = kernel.variance(reports.shares.reshape(kernel.sizes), reports.n).ravel() if reports.n > 1 else 0 * variances
    own = np.full(variances.shape, reports.kish)
    np.divide(reports.n * alone, variances, out=own, where=variances > 0)
    degrees, most = _degrees(kernel, reports), reports.kish
    if variances.sum() > 0:
        most = min(most, reports.n * alone.sum() / variances.sum())
    if alone.sum() < _SURE_TOGETHER * np.sum(alone / degrees):
        most = min(most, reports.cluster_kish)
    return np.asarray(np.where(degrees >= _SURE, own, np.minimum(own, most)))


def _degrees(kernel: Kernel, reports: WeightedReports) -> FloatArray:
    """Compute degrees of freedom of each cell's variance, (R,).

    Assumes that weights are unrelated to reports.
    """
    likely = padded(reports.shares, reports.kish).reshape(kernel.sizes)
    p, second, third, fourth = (kernel.solve_power(likely, power).ravel() for power in (1, 2, 3, 4))
    variance = second - p**2
    excess = (fourth - 4 * p * third + 6 * p**2 * second - 3 * p**4) / variance**2 - 3
    # half of the people in a cell, without noise, have the same variance in every sample
    with np.errstate(divide="ignore"):
        return np.asarray(reports.degrees / (1 + reports.alone * np.maximum(excess, -2) / 2))


def share_limits(
    kernel: Kernel, reports: WeightedReports, effective: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Compute the interval of every cell, (R,), from its effective records.

    Cells with too few have 0..1.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 (takes long to import)

    # (z/t)²: by how much the uncertainty of the variance makes records fewer
    student = float((norm.isf(level / 2) / stdtrit(reports.degrees, 1 - level / 2)) ** 2)
    counted = np.floor(np.minimum(effective, reports.n) * student)
    known = counted >= _FEWEST
    ends = cell_intervals(kernel, reports.shares.reshape(kernel.sizes), np.maximum(counted, _FEWEST), level)
    return np.where(known, ends[0], 0.0), np.where(known, ends[1], 1.0)


def said_sample(columns: PublicColumns, n: int, strata: int, clusters: int) -> str:
    """Describe how the records were sampled, with the columns."""
    weighted = "equal weights" if columns.weight is None else f"weights {columns.weight!r}"
    parts = [f"{n} records", weighted]
    if columns.stratum is not None:
        parts.append(f"{strata} strata of {columns.stratum!r}")
    if columns.cluster is not None:
        parts.append(f"{clusters} clusters of {columns.cluster!r}")
    return ", ".join(parts)


def sample_warnings(columns: PublicColumns, single: Single, clusters: Clusters) -> list[str]:
    """List warnings about the sample."""
    out = []
    if clusters.alone:
        out.append(
            f"{clusters.alone} of {clusters.sizes.size} strata have only one cluster, whose variance is taken around the mean "
            f"of all (lonely PSU {single!r}); merge such strata if you can"
        )
    if columns:
        out.append(columns.warning())
    return out


@dataclass(frozen=True, eq=False)
class WeightedSampling(Sampling):
    """Sampling variation of weighted estimates.

    ``n`` is the number of records, or the hypothetical one.
    """

    reports: WeightedReports = field(kw_only=True)

    def padded(self, observed: FloatArray) -> FloatArray:
        """Add half an effective record to every cell, (R,)."""
        return padded(observed, self.n / self.reports.weighting)

    def spread(self, observed: FloatArray, directions: FloatArray) -> FloatArray:
        """Compute covariances of reports with sums of them at these probabilities."""
        root = np.sqrt(observed)
        along = self.reports.effects @ (root * (directions - observed @ directions).T).T
        return np.asarray((root * (along - np.multiply.outer(root, root @ along)).T).T / self.n)

    def mechanism_noise(self, observed: FloatArray) -> FloatArray:
        """Compute the covariance that randomization adds to the estimates.

        Σ w² times its addition to each record's, over (Σ w)².
        """
        squares = self.reports.n * self.reports.squares / self.n
        true = self.kernel.solve(squares.reshape(self.kernel.sizes)).ravel()
        sums = np.eye(true.size) if self.sums is None else self.sums
        return np.asarray((self.influence.T * squares) @ self.influence - (sums * true) @ sums.T)

    def linearised(self, gradient: FloatArray) -> float:
        """Compute the estimates' variance in a direction (K,) by linearization."""
        along = self.influence @ gradient
        return float(along @ self.reports.covariance @ along)

    def tail(self, normal: float, observed: FloatArray, gradient: FloatArray) -> float:
        """Convert a normal tail to Student's, because V is estimated."""
        return float(stdtr(self.degrees(observed, gradient), ndtri(normal)))

    def degrees(self, observed: FloatArray, gradient: FloatArray) -> float:
        """Compute degrees of freedom of the variance in a direction (K,)."""
        likely, influence = self.padded(observed), self.influence @ gradient
        influence = influence - likely @ influence
        variance = float(likely @ influence**2)
        excess = float(likely @ influence**4) / variance**2 - 3 if variance > 0 else 0.0
        # as much of the excess kurtosis counts as weights differ
        unsure = self.reports.alone * min(self.reports.weighting - 1, 1.0)
        return self.reports.degrees / (1 + unsure * max(excess, 0.0) / 2)


def weighted_table(
    sample: SampledRecords, mechanism: Randomizer, columns: PublicColumns, lonely_psu: Single = "refuse"
) -> EstimatedTable:
    """Estimate a table of a sample as measures need it.

    Weighted proportions of reports and their sampling variation.

    Raises InvalidInput for a table of more than 4096 cells, a stratum with one cluster, or but one cluster. SingularMarginal
    where the mechanism hides an effect of the table.
    """
    kernel = mechanism.kernel(sample.domain.names)
    if kernel.cells > MAX_DENSE:
        raise InvalidInput(
            f"the table has {kernel.cells} cells; weighted measures are of at most {MAX_DENSE}: name fewer attributes"
        )
    kernel.check_invertible()
    clusters = Clusters.of(sample.strata, lonely_psu)
    reports = WeightedReports.of(sample, clusters, np.flatnonzero(sample.weights > 0), kernel.cells)
    reports.check_enough()
    sampling = WeightedSampling(kernel, reports.n, reports=reports)
    said = said_sample(columns, sample.n, int(clusters.sizes.size), clusters.count)
    observed, notes = reports.shares.reshape(kernel.sizes), tuple(sample_warnings(columns, lonely_psu, clusters))
    return EstimatedTable(sample.domain, reports.n, observed, kernel, sampling, said, notes)


def read_table(
    data: Any,
    mechanism: Randomizer,
    attributes: Iterable[str],
    columns: PublicColumns,
    lonely_psu: Single = "refuse",
) -> EstimatedTable:
    """Read randomized records with public columns as :func:`weighted_table`.

    See :func:`optrr.analysis.estimate_weighted`.
    """
    return weighted_table(sample_of(data, mechanism, attributes, columns), mechanism, columns, lonely_psu)
