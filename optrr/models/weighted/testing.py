"""The front door of tests of sampled records: randomized records with public columns become a test of independence."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution

from optrr.domain.public import PublicColumns
from optrr.errors import InvalidInput, TooFewRecords
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.models.tests.result import TestResult
from optrr.models.weighted.association import rao_scott
from optrr.show.printable import category_word, crossed
from optrr.tables.estimation.enough import clear_with
from optrr.tables.estimation.faint import CLEAR_OF_ZERO
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.weighting.estimating import checked_single, sample_warnings
from optrr.tables.weighting.linearised import Clusters, Single, WeightedReports
from optrr.tables.weighting.sampled import SampledRecords, read_sample
from optrr_solvers.arrays import FloatArray

# Where fewer records of equal weight would show some report, or a variance has fewer degrees of freedom, the far tail of F may
# be too heavy: benchmarks/weighted_levels.py.
FEWEST_EXPECTED, FEWEST_DEGREES = 20.0, 30.0
MEASURED = (
    "p-values of samples as small as this one were measured to reject 3 to 6 % of the time at level 5 %, and 0.01 to 0.2 % of "
    "the time at level 0.1 %"
)


def test_weighted(  # noqa: PLR0913 (the front door: each argument is one question a user answers)
    data: Any,
    mechanism: Randomizer,
    attributes: Iterable[str],
    *,
    weights: str | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    single_cluster: Single = "refuse",
) -> TestResult:
    """Whether two attributes are independent in the population that a sample of randomized records was drawn from.

    Pearson's test with Rao and Scott's second-order correction (:mod:`optrr.models.weighted.association`). ``statistic`` is F
    times the degrees of freedom of a sample of equal weights, to be compared with χ²; ``p_value`` is that of F.

    Parameters
    ----------
    data, mechanism, weights, strata, clusters, single_cluster
        as :func:`optrr.estimate_weighted` takes them.
    attributes
        two.

    Raises
    ------
    InvalidInput
        for other than two attributes, a category that the records hardly show, and what an estimate refuses.
        SingularMarginal where the mechanism hides an effect of the table.
    """
    columns = PublicColumns(weights, strata, clusters).apart_from(checked_mechanism(mechanism).domain)
    domain = mechanism.domain
    chosen = domain.subset([domain.names[i] for i in domain.indices(attributes)])
    sample = read_sample(data, chosen, columns)
    warn_of_records([sample.counts()], mechanism)
    return tested_sample(sample, mechanism, columns, single_cluster)


test_weighted.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def tested_sample(
    sample: SampledRecords, mechanism: Randomizer, columns: PublicColumns, single_cluster: Single = "refuse"
) -> TestResult:
    """The same from records that are read already; ``columns`` are those they were read with."""
    if len(sample.domain) != 2:
        raise InvalidInput(
            f"a test of independence of sampled records takes two attributes, not {crossed(sample.domain.names)}"
        )
    kernel = mechanism.kernel(sample.domain.names)
    kernel.check_invertible()
    clusters = Clusters.of(sample.strata, checked_single(single_cluster))
    rows = np.flatnonzero(sample.weights > 0)
    reports = WeightedReports.of(sample, clusters, rows, kernel.cells)
    squares = np.bincount(sample.cells[rows], weights=sample.weights[rows] ** 2, minlength=kernel.cells)
    tested = rao_scott(
        kernel,
        reports.shares[None],
        reports.covariance[None],
        squares[None] / reports.total**2,
        np.array([reports.degrees]),
    )
    if not tested.clear[0]:
        raise TooFewRecords(_hidden(sample, tested.ratios[0]))
    df = (kernel.sizes[0] - 1) * (kernel.sizes[1] - 1)
    statistic = df * float(tested.statistic[0])
    p = float(f_distribution.sf(tested.statistic[0], tested.upper[0], tested.lower[0]))
    few = is_rough(float(tested.rarest[0]) * reports.total**2 / reports.squares, reports.degrees)
    return TestResult(
        test="independence",
        statistic=statistic,
        df=df,
        p_value=p,
        n=reports.n,
        effect=float(np.sign(tested.first[0])) * sqrt(statistic) if df == 1 else None,
        calibration="rao-scott",
        warnings=(*([MEASURED] if few else []), *sample_warnings(columns, single_cluster, clusters)),
    )


def _hidden(sample: SampledRecords, ratios: FloatArray) -> str:
    """Which category's share cannot be told from 0, by how much, and how many records of such a sample would do."""
    where = [(attribute.name, text) for attribute in sample.domain for text in attribute.texts]
    rarest = int(np.argmin(ratios))
    name, category = where[rarest]
    remedy = clear_with(sample.weights.size, float(ratios[rarest]))
    return (
        f"the records hardly show {name} = {category_word(category)}: its share is {ratios[rarest]:.2g} standard errors above "
        f"0, and a test needs {CLEAR_OF_ZERO:g}; {remedy}; else merge it with another category in a coarser specification, or "
        f"give {name} a larger epsilon"
    )


def is_rough(expected: float, degrees: float) -> bool:
    """Whether the rarest report expects so few effective records, or degrees are so few, that the level may be another."""
    return expected < FEWEST_EXPECTED or degrees < FEWEST_DEGREES
