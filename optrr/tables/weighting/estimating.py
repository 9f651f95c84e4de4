"""The front door: randomized records with public columns become weighted tables, for all people or by group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import numpy as np

from optrr.domain.public import UNPROTECTED, PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import MAX_DENSE, Kernel
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import check_confidence
from optrr.tables.estimation.unbiased_errors import without_error
from optrr.tables.weighting.intervals import spread
from optrr.tables.weighting.linearised import Clusters, Single, WeightedReports, through
from optrr.tables.weighting.result import GroupTable, WeightedEstimate
from optrr.tables.weighting.sampled import Label, SampledRecords, read_sample
from optrr_solvers.arrays import FloatArray

SINGLE: tuple[str, ...] = get_args(Single)
# More groups than this are rather numbers of people than groups, and their tables nobody reads.
MOST_GROUPS = 10_000


def estimate_weighted(  # noqa: PLR0913 (the front door: each argument is one question a user answers)
    data: Any,
    mechanism: Randomizer,
    attributes: str | Iterable[str],
    *,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    by: str | Iterable[str] = (),
    confidence: float = 0.95,
    simultaneous: bool = False,
    single_cluster: Single = "refuse",
) -> WeightedEstimate:
    """Shares and totals of a population from a sample of randomized records with weights, strata, clusters or groups.

    Totals are unbiased, shares up to the ratio Σ w g/Σ w. Errors are linearised (:mod:`optrr.tables.weighting.linearised`), and
    intervals are those of the effective number of records (:mod:`optrr.tables.weighting.intervals`).

    Parameters
    ----------
    data
        randomized records with public columns beside the attributes: whatever :func:`optrr.count` takes, with named columns.
    mechanism
        that randomized the attributes; it knows nothing of the public columns.
    attributes
        of the table, at most 4096 cells; axes in this order.
    weights
        column of how many people each record stands for, up to a factor that only totals feel; at least 0.
    strata, clusters
        columns of where each record was sampled, and of what was sampled there first. Without clusters every record is one.
    by
        columns whose combinations make the groups: one table for each that occurs.
    confidence, simultaneous
        of the intervals: each cell alone, or all cells of all tables together (Bonferroni).
    single_cluster
        what a stratum with one cluster does, which shows no variance: "refuse", or "centred", the difference from the mean
        of all clusters.

    Raises
    ------
    InvalidInput
        for columns that are not there or are randomized, weights that are none, a stratum with one cluster, or large tables.
        SingularMarginal where the mechanism hides an effect of the table.
    """
    groups = (by,) if isinstance(by, str) else tuple(by)
    columns = PublicColumns(weights, strata, clusters, groups).apart_from(checked_mechanism(mechanism).domain)
    domain = mechanism.domain
    chosen = domain.subset([domain.names[i] for i in domain.indices(attributes)])
    sample = read_sample(data, chosen, columns)
    warn_of_records([sample.counts()], mechanism)
    return estimate_sample(sample, mechanism, columns, confidence, simultaneous, single_cluster)


def estimate_sample(  # noqa: PLR0913 (as above, with the records read)
    sample: SampledRecords,
    mechanism: Randomizer,
    columns: PublicColumns,
    confidence: float = 0.95,
    simultaneous: bool = False,
    single_cluster: Single = "refuse",
) -> WeightedEstimate:
    """The same from records that are read already; ``columns`` are those they were read with."""
    check_confidence(confidence)
    kernel = mechanism.kernel(sample.domain.names)
    if kernel.cells > MAX_DENSE:
        raise InvalidInput(f"the table has {kernel.cells} cells; weighted estimates have at most {MAX_DENSE}")
    kernel.check_invertible()
    known = sample.by_group()
    if len(known) > MOST_GROUPS:
        raise InvalidInput(
            f"there are {len(known)} groups; estimate by columns with at most {MOST_GROUPS} combinations"
        )
    sampled = Clusters.of(sample.strata, checked_single(single_cluster))
    level = (1 - confidence) / (kernel.cells * len(known) if simultaneous else 1)
    tables = tuple(
        _table(kernel, label, WeightedReports.of(sample, sampled, rows, kernel.cells), level) for label, rows in known
    )
    named = (columns, tables, sample.n, int(sample.strata.size), int(sampled.sizes.size), confidence, simultaneous)
    return WeightedEstimate(sample.domain, *named, _warnings(tables, columns, single_cluster, sampled))


def checked_single(single_cluster: Single) -> Single:
    """The answer to strata of one cluster. Raises InvalidInput for what is none."""
    if single_cluster not in SINGLE:
        raise InvalidInput(f"single_cluster = {single_cluster!r}; give one of {', '.join(SINGLE)}")
    return single_cluster


def _table(kernel: Kernel, label: Label, reports: WeightedReports, level: float) -> GroupTable:
    def shaped(values: FloatArray) -> FloatArray:
        return np.asarray(values.reshape(kernel.sizes))

    covariance = through(kernel, reports.covariance, reports)
    totals = np.sqrt(np.diag(through(kernel, reports.totals_covariance, reports, reports.total)))
    proportions = kernel.solve(shaped(reports.shares))
    errors = spread(kernel, reports, np.diag(covariance), level)
    inside = np.clip(proportions, 0.0, 1.0)
    return GroupTable(
        label,
        reports.n,
        reports.total,
        reports.total**2 / reports.squares,
        proportions,
        shaped(errors.standard_errors),
        np.minimum(shaped(errors.lower), inside),
        np.maximum(shaped(errors.upper), inside),
        reports.total * proportions,
        shaped(totals),
        shaped(errors.effective),
        covariance,
    )


def _warnings(
    tables: tuple[GroupTable, ...], columns: PublicColumns, single: Single, clusters: Clusters
) -> tuple[str, ...]:
    missing = np.concatenate([np.isnan(t.standard_errors).ravel() for t in tables])
    return (
        *without_error(missing, "the reports that tell about them are"),
        *sample_warnings(columns, single, clusters),
    )


def sample_warnings(columns: PublicColumns, single: Single, clusters: Clusters) -> list[str]:
    """What is to be known of how records were sampled."""
    out = []
    alone = int(np.sum(clusters.sizes == 1))
    if alone:
        out.append(
            f"{alone} of {clusters.sizes.size} strata have only one cluster, whose variance is taken around the mean of all "
            f"(single cluster {single!r}); merge such strata if you can"
        )
    if columns:
        out.append(f"{columns.said()} are public: {UNPROTECTED}")
    return out
