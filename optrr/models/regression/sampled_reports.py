"""Weighted, stratified or clustered records become the distinct reports that a regression is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optrr.domain.domain import Attribute, listed
from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import MAX_DENSE
from optrr.mechanisms.mechanism import Randomizer
from optrr.models.regression.building import DistinctReports, domain_of
from optrr.models.regression.weighting import SampleMoments
from optrr.records.counts import Counts
from optrr.tables.weighting.linearised import Clusters, Single, WeightedReports, sample_warnings
from optrr.tables.weighting.sampled import SampledRecords, read_sample


def read_sampled(  # noqa: PLR0913 (as regress takes them)
    data: Any,
    mechanism: Randomizer,
    names: Sequence[str],
    public: Iterable[str | Attribute],
    columns: PublicColumns,
    single_cluster: Single,
) -> tuple[DistinctReports, DistinctReports, list[str]]:
    """The reports of these attributes as they are counted, the same weighted, and what is to be known of the sample.

    ``data`` is what :func:`optrr.tables.estimate_weighted` takes, with its ``columns``.

    Raises
    ------
    InvalidInput
        for what :func:`optrr.models.regression.building.read_reports` and weighted estimates refuse, a column that is in the
        formula, counts, and more distinct reports than their covariance may have.
    """
    if isinstance(data, Counts):
        raise InvalidInput(f"counts have no {columns.said()}; give the records with these columns")
    both = [name for name in columns.names if name in names]
    if both:
        raise InvalidInput(
            f"{listed(both)} describes the sample and stands in the formula; give a copy of the column another name"
        )
    columns.apart_from(mechanism.domain)
    domain = domain_of(data, mechanism, names, list(public))
    sample = read_sample(data, domain, columns)
    clusters = Clusters.of(sample.strata, single_cluster)
    counted, weighted = distinct_sampled(sample, mechanism, clusters)
    return counted, weighted, sample_warnings(columns, single_cluster, clusters)


def distinct_sampled(
    sample: SampledRecords, mechanism: Randomizer, clusters: Clusters
) -> tuple[DistinctReports, DistinctReports]:
    """The distinct reports of records of positive weight, counted and weighted, from records that are read already."""
    rows = np.flatnonzero(sample.weights > 0)
    seen, places = np.unique(sample.cells[rows], return_inverse=True)
    if seen.size > MAX_DENSE:
        raise InvalidInput(
            f"the formula's attributes have {seen.size} distinct reports; weighted regressions have at most {MAX_DENSE}: give "
            "attributes fewer categories, or leave some out"
        )
    cells, numbers = np.zeros_like(sample.cells), np.bincount(places.ravel())
    cells[rows] = places.ravel()
    weighted = WeightedReports.of(replace(sample, cells=cells), clusters, rows, int(seen.size))
    weighted.check_enough()
    moments = SampleMoments(
        moments=(weighted.n - 1) * weighted.covariance,
        squares=np.bincount(places.ravel(), weights=sample.weights[rows] ** 2) / weighted.total**2,
        degrees=weighted.degrees,
        kish=weighted.total**2 / weighted.squares,
    )
    codes = np.stack(np.unravel_index(seen, tuple(sample.domain.sizes)), axis=1).astype(np.int64)
    counted = DistinctReports(sample.domain, codes, numbers[None].astype(np.float64), mechanism, sample.origins)
    return counted, replace(counted, numbers=(weighted.n * weighted.shares)[None], sample=moments)
