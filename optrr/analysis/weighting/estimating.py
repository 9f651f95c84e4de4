"""Randomized records with public columns become weighted tables, for all people or by group, each with its errors."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from optrr.analysis.weighting.linearised import (
    Clusters,
    Single,
    WeightedReports,
    effective_records,
    said_sample,
    sample_warnings,
    share_limits,
    through,
)
from optrr.analysis.weighting.sampled import Label, SampledRecords, sample_of
from optrr.core.display import (
    ROWS,
    OneTable,
    Part,
    Table,
    TableResult,
    Text,
    category_word,
    crossed,
    in_json,
    intervals_said,
)
from optrr.core.domain import Domain, PublicColumns, cells_table
from optrr.core.errors import InvalidInput
from optrr.core.estimation import check_confidence, without_error
from optrr.core.mechanisms import MAX_DENSE, Kernel, Randomizer
from optrr_solvers.arrays import FloatArray

# Numbers of a cell, by name.
_OF_CELLS = (
    *("estimate", "standard_error", "lower", "upper"),
    *("total", "total_standard_error", "design_effect", "effective_n"),
)


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Estimates of one group or of all; arrays have the domain's shape.

    ``label`` has the values of the columns that groups are made of, as texts, None if missing; it is empty for all
    records. ``n`` records have a positive weight, ``total_weight`` in all; ``kish_effective_n``, (Σw)²/Σw², is the
    number of equally weighted records with as much information (Kish 1965). ``estimate`` is Σ w g/Σ w and ``total`` Σ w
    g; cells may be negative. ``standard_error`` and ``total_standard_error`` are by linearisation, NaN if reports
    show no variance; ``lower`` and ``upper`` the ends of each cell's interval, within [0, 1]. ``effective_n`` is n over
    the design effect, the factor of the sample's design and the weights on each variance, ``covariance`` (R, R) that of
    the proportions of R cells, in row-major order.
    """

    label: Label
    n: int
    total_weight: float
    kish_effective_n: float
    estimate: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    total: FloatArray
    total_standard_error: FloatArray
    effective_n: FloatArray
    covariance: FloatArray

    @property
    def design_effect(self) -> FloatArray:
        """Design effect of each cell: the factor of its variance due to the sample."""
        return self.n / self.effective_n

    def columns(self) -> dict[str, FloatArray]:
        """Return the numbers of each cell, by name."""
        return {name: getattr(self, name) for name in _OF_CELLS}

    def summary(self) -> dict[str, Any]:
        """Return the tables as nested lists."""
        numbers: dict[str, Any] = in_json(self.columns())
        return numbers | {name: getattr(self, name) for name in ("n", "total_weight", "kish_effective_n")}


@dataclass(frozen=True, eq=False, repr=False)
class WeightedEstimate(TableResult):
    """Weighted estimates of one table.

    The ``tables`` are a single one, or one for each group of people.

    ``columns`` are the public columns that were used, ``columns.group`` those that groups are made of. There are so
    many ``clusters`` and ``strata``; every record is a cluster unless a column defines clusters. ``confidence`` is that
    of the intervals: of each cell alone, or ``simultaneous`` of all cells of all tables together.
    """

    domain: Domain
    columns: PublicColumns
    tables: tuple[GroupTable, ...]
    n: int
    clusters: int
    strata: int
    confidence: float
    simultaneous: bool
    warnings: tuple[str, ...] = ()

    in_summary = ("n", "method", "strata", "clusters", "confidence", "simultaneous", "interval_note", "warnings")

    @property
    def method(self) -> str:
        """Name of the method: ``weighted``, or ``unbiased`` if there are only groups."""
        return "weighted" if self.columns.samples else "unbiased"

    @property
    def table(self) -> GroupTable:
        """The first table: the only one where there are no groups."""
        return self.tables[0]

    @property
    def interval_note(self) -> str:
        """One sentence on the coverage and the method of the intervals."""
        cells = sum(t.estimate.size for t in self.tables)
        each = f"all {cells} cells together" if self.simultaneous else "each cell alone"
        return (
            f"intervals for the sampled population, {100 * self.confidence:g}% for {each}, by inverting a test of "
            "every proportion with the effective number of records"
        )

    @property
    def sampling(self) -> str:
        """One sentence on how the records were sampled."""
        return said_sample(self.columns, self.n, self.strata, self.clusters)

    def headline(self) -> str:
        """Summarize the table and the sample."""
        by = f" by {' × '.join(self.columns.group)}" if self.columns.group else ""
        return f"{' × '.join(self.domain.names)}{by}, {self.method}: {self.sampling}"

    def tables_shown(self, most: int | None = None) -> list[Table]:
        """List each group's table with its effective number of records."""
        out = []
        for title, table in zip(self.titles(), self.tables, strict=True):
            said = ", ".join(filter(None, [crossed(self.domain.names), title, f"{table.n} records"]))
            shown = self.only(table).shown(most)
            out.append(replace(shown, title=f"{said}, effective {table.kish_effective_n:.0f} by their weights alone"))
        return out

    def sentences(self) -> list[str]:
        """Explain the intervals."""
        return [f"method {self.method}: cells may be negative", self.interval_note]

    def _keys(self) -> int:
        return len(self.columns.group) + self.domain.m

    def page_parts(self) -> list[Part]:
        """List the table and the explanation of its intervals."""
        return [self.shown().first(ROWS), Text(self.interval_note)]

    def on_page(self, **_beside: Any) -> OneTable:
        """Build the content of the HTML report."""
        title = crossed(self.domain.names)
        lead = (
            f"Proportions of {title} in the population of a sample of {self.n} randomized records: {self.sampling}. "
            f"Each interval covers the truth with {100 * self.confidence:g} % confidence."
        )
        chart, notes = f"Proportions of {title} with intervals", [Text(self.interval_note)]
        return OneTable(f"{title}, {self.method}", lead, "Estimate", chart, "", notes)

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per group and cell.

        The groups' columns, the categories' texts (null where missing), the numbers, n.
        """
        parts = []
        for table in self.tables:
            rows = cells_table(self.domain, {**table.columns(), "n": np.full(table.estimate.shape, table.n)})
            for place, (name, text) in enumerate(zip(self.columns.group, table.label, strict=True)):
                rows = rows.add_column(place, name, pa.array([text] * rows.num_rows, pa.string()))
            parts.append(rows)
        return pa.concat_tables(parts)

    def _axis(self) -> tuple[str, None]:
        return f"proportion, {intervals_said(self.confidence)}", None

    def summary(self) -> dict[str, Any]:
        """Return the JSON object; tables are under ``groups`` if there are groups."""
        c = self.columns
        out: dict[str, Any] = {
            "attributes": list(self.domain.names),
            "categories": [list(a.categories) for a in self.domain],
            "public": {"weight": c.weight, "stratum": c.stratum, "cluster": c.cluster, "by": list(c.group)},
            **super().summary(),
        }
        if not c.group:
            return out | self.table.summary()
        groups = [{"group": dict(zip(c.group, t.label, strict=True))} | t.summary() for t in self.tables]
        return out | {"groups": groups}

    def only(self, table: GroupTable) -> "WeightedEstimate":
        """Select one group's table, without the groups' columns."""
        sampled = PublicColumns(self.columns.weight, self.columns.stratum, self.columns.cluster)
        return replace(self, tables=(replace(table, label=()),), columns=sampled)

    def titles(self) -> list[str]:
        """List the titles of the tables: their groups' values."""
        pairs = [zip(self.columns.group, t.label, strict=True) for t in self.tables]
        return [", ".join(f"{name} = {category_word(text)}" for name, text in pair) for pair in pairs]


# Maximum number of groups; more are rather identifiers of people than groups.
MOST_GROUPS = 10_000


def estimate_weighted(  # noqa: PLR0913 (public: each argument is one choice of the user)
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
    lonely_psu: Single = "refuse",
) -> WeightedEstimate:
    """Estimate proportions and totals of a population from a weighted sample.

    The randomized records have weights, strata, clusters or groups.

    Totals are unbiased, proportions up to the ratio Σ w g/Σ w. Errors are linearised, and intervals those of the
    effective number of records (:mod:`optrr.analysis.weighting.linearised`).

    Raises InvalidInput for columns that are not there or are randomized, invalid weights, a stratum with one cluster,
    or large tables. SingularMarginal if the mechanism hides an effect of the table.

    Parameters
    ----------
    data
        randomized records with public columns beside the attributes: whatever :func:`optrr.count` takes, with named columns.
    mechanism
        Mechanism that randomized the attributes; it does not use the public columns.
    attributes
        Attributes of the table, at most 4096 cells; axes in this order.
    weights
        column of the number of people that each record represents, up to a factor that matters to totals only; at least
        0.
    strata, clusters
        columns of the stratum of each record, and of its primary sampling unit. Without clusters every record is one.
    by
        columns whose combinations make the groups: one table for each that occurs.
    confidence, simultaneous
        Confidence of the intervals: of each cell alone, or of all cells of all tables together (Bonferroni).
    lonely_psu
        treatment of a stratum with one cluster, which shows no variance: "refuse", or "centred", the difference from
        the mean of all clusters.
    """
    groups = (by,) if isinstance(by, str) else tuple(by)
    columns = PublicColumns(weights, strata, clusters, groups)
    sample = sample_of(data, mechanism, attributes, columns)
    return estimate_sample(sample, mechanism, columns, confidence, simultaneous, lonely_psu)


def estimate_sample(  # noqa: PLR0913 (as above, with the records read)
    sample: SampledRecords,
    mechanism: Randomizer,
    columns: PublicColumns,
    confidence: float = 0.95,
    simultaneous: bool = False,
    lonely_psu: Single = "refuse",
) -> WeightedEstimate:
    """Estimate from records already read; ``columns`` are their public columns."""
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
    sampled = Clusters.of(sample.strata, lonely_psu)
    level = (1 - confidence) / (kernel.cells * len(known) if simultaneous else 1)
    tables = tuple(
        _table(kernel, label, WeightedReports.of(sample, sampled, rows, kernel.cells), level) for label, rows in known
    )
    missing = np.concatenate([np.isnan(t.standard_error).ravel() for t in tables])
    warnings = (
        *without_error(missing, "the reports with information on them are"),
        *sample_warnings(columns, lonely_psu, sampled),
    )
    named = (columns, tables, sample.n, int(sample.strata.size), int(sampled.sizes.size), confidence, simultaneous)
    return WeightedEstimate(sample.domain, *named, warnings)


def _table(kernel: Kernel, label: Label, reports: WeightedReports, level: float) -> GroupTable:
    def shaped(values: FloatArray) -> FloatArray:
        return np.asarray(values.reshape(kernel.sizes))

    covariance = through(kernel, reports.covariance, reports)
    of_totals = np.diag(through(kernel, reports.totals_covariance, reports, reports.total))
    proportions = kernel.solve(shaped(reports.shares))
    variances = np.diag(covariance)
    effective = effective_records(kernel, reports, variances)
    lower, upper = share_limits(kernel, reports, effective, level)
    inside = np.clip(proportions, 0.0, 1.0)
    return GroupTable(
        label,
        reports.n,
        reports.total,
        reports.kish,
        proportions,
        shaped(np.sqrt(np.where(variances > 0, variances, np.nan))),
        np.minimum(shaped(lower), inside),
        np.maximum(shaped(upper), inside),
        reports.total * proportions,
        shaped(np.sqrt(np.where(of_totals > 0, of_totals, np.nan))),
        shaped(effective),
        covariance,
    )
