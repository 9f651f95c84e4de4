"""Weighted shares and totals of reports and their covariances under a stratified, clustered sample, by Taylor linearisation.

A report v counts for the cells of the true table by g(v), column v of (Pᵀ)⁻¹, which is unbiased for the cell that its person is
in. So for weights w_i the total of a cell is estimated by Σ w_i g(v_i) (Horvitz and Thompson) and its share by
Σ w_i g(v_i) / Σ w_i (Hájek). Both are linear in the table of reports: it is weighted here, and the kernel's one inverse is
applied to table and covariance afterwards.

The share's error is, to first order, the sum of z_i = w_i (e(v_i) − λ̂)/W with W = Σ w_i and e(v) the indicator of cell v.
With clusters c = 1..n_h drawn in stratum h, and z_hc the sum of z_i over a cluster,

    V = Σ_h n_h/(n_h − 1) Σ_c (z_hc − z̄_h)(z_hc − z̄_h)ᵀ.

This is the first stage alone, taken as if drawn with replacement: whatever varies within clusters, the randomization of every
report included, is among the differences between clusters. Where a large part of a stratum was sampled, V is too large, never
too small. For the people of a group, z_i is 0 outside it, W is the group's, and n_h counts all clusters of the sample.

Sources: Särndal, Swensson and Wretman, Model Assisted Survey Sampling (1992), §5.5 to 5.7 and 10.3; Wolter, Introduction to
Variance Estimation (2007), ch. 6; Lumley, Complex Surveys (2010), §2.2 and appendix A. One cluster alone in its stratum shows
no variance; "centred" takes its difference from the mean of all clusters, as R's survey package does under the name "adjust".

Intervals of weighted shares are those of unweighted ones, for as many records as would be as accurate if sampled alone. Korn
and Graubard (Survey Methodology 24, 1998, 193) divide the number of records by the design effect, the variance under the
sample's design over that of as many records sampled one by one with equal weights, and take the interval of a share from that
*effective* number. With few clusters the variance is itself uncertain, so they make the number smaller by the square of the
normal over Student's quantile; here with Satterthwaite's degrees of freedom, because strata may differ much in weights. Their
interval is the exact binomial one; here it is that of :mod:`optrr.tables.estimation.score_interval`, which holds for randomized
reports and stays within [0, 1]. A design effect below 1 counts as 1: it may be chance, and the interval is then wide enough in
any case.

A cell's own variance is no guide where few records decide about it: of a rare cell that happens to hold none of the few large
weights it is far too small. How sure it is depends on the weights and on the kurtosis of what a report counts for the cell: if
weights have nothing to do with reports, the variance is as uncertain as one of ν/(1 + κ/2) degrees of freedom, with κ the
excess kurtosis and ν the degrees that normal numbers would leave. Where these are few, a cell has at most as many effective
records as the weights alone leave (Kish), and as all cells of the table have together. Where even these are unsure, as of a
table with but one common cell, the people of a cluster count as if all of them were alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from optrr.errors import InvalidInput, TooFewRecords
from optrr.mechanisms.kernel import Kernel
from optrr.tables.distributions import norm
from optrr.tables.estimation.score_interval import Moments, WeightedMeans, cell_means
from optrr.tables.weighting.sampled import SampledRecords
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


Single = Literal["refuse", "centred"]
SINGLE: tuple[str, ...] = get_args(Single)
# Strata whose sums are held at once times cells: 128 MB of doubles.
_AT_A_TIME = 1 << 24
# A variance this small against the squares that it is the difference of is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Clusters:
    """The strata of some of a sample's clusters, and by how much each cluster's squares count.

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
        """Raises InvalidInput where there is but one cluster, or one is alone in its stratum and that is to be refused."""
        if single not in SINGLE:
            raise InvalidInput(f"single_cluster = {single!r}; give one of {', '.join(SINGLE)}")
        sizes = np.bincount(strata)
        alone = int(np.sum(sizes == 1))
        if strata.size == 1:
            raise TooFewRecords("all records are of one cluster, which shows no variance; give records of two or more")
        if alone and single == "refuse":
            raise InvalidInput(
                f"{alone} of {sizes.size} strata have only one cluster (or record), which shows no variance; merge such "
                "strata, or take single_cluster='centred' (--single-cluster centred)"
            )
        factors = np.divide(sizes, sizes - 1, out=np.ones(sizes.size), where=sizes > 1)
        return Clusters(strata, sizes, factors[strata], int(strata.size), alone)

    def only(self, seen: IntArray) -> Clusters:
        """These clusters alone; the others have nobody of a group, so that sums over them are 0."""
        known, strata = np.unique(self.strata[seen], return_inverse=True)
        return Clusters(strata, self.sizes[known], self.factors[seen], self.count, self.alone)

    def degrees(self, squares: FloatArray) -> float:
        """Degrees of freedom of a variance to which each cluster adds about its ``squares`` (C,) of weights, by Satterthwaite.

        A stratum's part is as uncertain as its own clusters are few, or as few of them have most of its weights, so that
        large weights in few clusters leave few degrees, however many clusters there are elsewhere. Of a group only clusters
        that have some of it count (Korn and Graubard).
        """
        shares, degrees = self.parts(squares)
        return float(1 / np.sum(shares**2 / degrees))

    def parts(self, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What share of the variance each stratum adds, and with how many degrees of freedom, (H,) each; of :meth:`degrees`."""
        sizes, sums = np.bincount(self.strata), np.bincount(self.strata, squares)
        seconds = np.bincount(self.strata, squares**2) * sizes / np.maximum(sizes - 1, 1)
        return np.asarray(sums / sums.sum()), np.asarray(sums**2 / seconds)

    def covariance(self, sums: csr_matrix, offset: FloatArray, mean: FloatArray) -> FloatArray:
        """V of Σ_c (y_c − o_c μ): ``sums`` y (C, R), ``offset`` o (C,), ``mean`` μ (R,); (R, R).

        Clusters have reports in few cells, so squares are taken of sparse sums, and only strata have sums in every cell.
        """
        scaled = sums.multiply(self.factors[:, None]).tocsr()
        cross = np.asarray(scaled.T @ offset).ravel()
        out = np.asarray((scaled.T @ sums).toarray(), dtype=np.float64)
        out += float(self.factors @ offset**2) * np.outer(mean, mean) - np.outer(cross, mean) - np.outer(mean, cross)
        step = max(1, _AT_A_TIME // mean.size)
        for start in range(0, self.sizes.size, step):
            members = np.flatnonzero((self.strata >= start) & (self.strata < start + step))
            sizes = self.sizes[start : start + step]
            within = _sums(sums, offset, mean, members, self.strata[members] - start, sizes.size)
            out -= (within.T * np.divide(1.0, sizes - 1, out=np.zeros(sizes.size), where=sizes > 1)) @ within
        if self.alone:
            (total,) = _sums(sums, offset, mean, np.arange(offset.size), np.zeros(offset.size, np.int64), 1)
            single = np.flatnonzero(self.sizes[self.strata] == 1)
            (lone,) = _sums(sums, offset, mean, single, np.zeros(single.size, np.int64), 1)
            centre = total / self.count
            out += self.alone * np.outer(centre, centre) - np.outer(lone, centre) - np.outer(centre, lone)
        return out


def _sums(  # noqa: PLR0913 (as Clusters.covariance has them, of some clusters)
    sums: csr_matrix, offset: FloatArray, mean: FloatArray, members: IntArray, rows: IntArray, count: int
) -> FloatArray:
    """Σ (y_c − o_c μ) over the members of each of ``count`` rows, (count, R)."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 (takes long to import)

    choose = csr_matrix((np.ones(members.size), (rows, members)), shape=(count, offset.size))
    return np.asarray((choose @ sums).toarray() - np.outer(choose @ offset, mean))


@dataclass(frozen=True, eq=False)
class WeightedReports:
    """The reports of one group: ``shares`` (R,) weighted, their covariance, and that of the weighted totals, (R, R) each.

    ``n`` records of positive weight with sum ``total`` and sum of squares ``squares``; ``cluster_squares`` is that of clusters'
    weights. ``degrees``: degrees of freedom that the variances of normal numbers have, and ``strata`` each stratum's share of
    them and its own degrees. ``alone``: by how much the excess kurtosis of one record counts for a cluster's, 1 without
    clusters.
    """

    n: int
    total: float
    squares: float
    cluster_squares: float
    shares: FloatArray
    covariance: FloatArray
    totals_covariance: FloatArray
    degrees: float
    strata: tuple[FloatArray, FloatArray]
    alone: float

    @staticmethod
    def of(sample: SampledRecords, clusters: Clusters, rows: IntArray, cells: int) -> WeightedReports:
        """Of these records, all of positive weight, and at least one."""
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
            squares=float(squares.sum()),
            cluster_squares=float(np.sum(offset**2)),
            shares=shares,
            covariance=some.covariance(sums, offset, shares) / total**2,
            totals_covariance=some.covariance(sums, 0 * offset, 0 * shares),
            degrees=some.degrees(squares),
            strata=some.parts(squares),
            alone=float(np.sum(weights**4) / np.sum(squares**2)),
        )

    def check_enough(self) -> None:
        """Raise TooFewRecords where the weights leave fewer records than show a variance."""
        effective = self.total**2 / self.squares
        if effective < _FEWEST:
            raise TooFewRecords(
                f"the weights are so unequal that these {self.n} records count as {effective:.2g}, and {_FEWEST} are needed; "
                "look at the largest weights, or collect more"
            )


def through(kernel: Kernel, covariance: FloatArray, reports: WeightedReports, scale: float = 1.0) -> FloatArray:
    """The covariance (R, R) of the kernel's unbiased estimate times ``scale``, from that of the reports times its square.

    Variances that are rounding, because all reports that tell about a cell are alike, are 0.
    """
    half = kernel.solve(covariance.reshape(-1, *kernel.sizes)).reshape(covariance.shape)
    out = np.asarray(kernel.solve(half.T.reshape(-1, *kernel.sizes)).reshape(covariance.shape))
    squares = reports.squares * (scale / reports.total) ** 2
    least = _ROUNDING * squares * kernel.solve_squared(reports.shares.reshape(kernel.sizes)).ravel()
    place = np.arange(len(out))
    out[place, place] = np.where(np.diag(out) > least, np.diag(out), 0.0)
    return out


# Fewer effective records than this have no interval but everything.
_FEWEST = 2
# A cell's own variance counts alone where it is as sure as one of so many degrees of freedom, and that of all cells where it is
# as sure as one of the second number: benchmarks/weighted_coverage.py.
_SURE, _SURE_TOGETHER = 100.0, 20.0


def effective_records(kernel: Kernel, reports: WeightedReports, variances: FloatArray) -> FloatArray:
    """(R,): n over each cell's design effect; where that is unsure, no more than weights alone and all cells together leave."""
    alone = kernel.variance(reports.shares.reshape(kernel.sizes), reports.n).ravel() if reports.n > 1 else 0 * variances
    kish = reports.total**2 / reports.squares
    own = np.full(variances.shape, kish)
    np.divide(reports.n * alone, variances, out=own, where=variances > 0)
    degrees, most = _degrees(kernel, reports), kish
    if variances.sum() > 0:
        most = min(most, reports.n * alone.sum() / variances.sum())
    if alone.sum() < _SURE_TOGETHER * np.sum(alone / degrees):
        most = min(most, reports.total**2 / reports.cluster_squares)
    return np.asarray(np.where(degrees >= _SURE, own, np.minimum(own, most)))


def _degrees(kernel: Kernel, reports: WeightedReports) -> FloatArray:
    """(R,): degrees of freedom of each cell's variance if weights have nothing to do with reports."""
    means = cell_means(kernel, reports.shares.reshape(kernel.sizes), reports.n)
    # one more record that counts in full would be no surprise
    least = min(reports.squares / reports.total**2, 0.5)
    p = np.clip(means.estimate, least, 1 - least)
    each = Moments.mixed(p, means.inside, means.outside)
    second = each.second - p**2
    fourth = each.fourth - 4 * p * each.third + 6 * p**2 * each.second - 3 * p**4
    return np.asarray(reports.degrees / (1 + reports.alone * np.maximum(fourth / second**2 - 3, -2) / 2))


def alike_cells(
    kernel: Kernel, reports: WeightedReports, effective: FloatArray, level: float
) -> Iterator[tuple[IntArray, WeightedMeans]]:
    """Cells with the same number of records that count, and their means of that many; cells of too few are left out."""
    from scipy.special import stdtrit  # noqa: PLC0415 (takes long to import)

    # (z/t)²: by how much the uncertainty of the variance makes records fewer
    student = float((norm.isf(level / 2) / stdtrit(reports.degrees, 1 - level / 2)) ** 2)
    counted = np.floor(np.minimum(effective, reports.n) * student).astype(np.int64)
    means = cell_means(kernel, reports.shares.reshape(kernel.sizes), reports.n)
    for number in np.unique(counted[counted >= _FEWEST]):
        cells = np.flatnonzero(counted == number)
        yield cells, replace(means[cells], n=int(number))
