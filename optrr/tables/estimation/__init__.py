"""Estimation from randomized records: proportions, counts, derived statistics, and their errors.

``estimator`` is the front door, ``result`` what it returns. Estimates: ``kernel`` inverts (another room), ``simplex``
projects, ``likelihood`` and ``adjustment`` fit. Intervals: of a cell in ``score_interval``, of a derived statistic in
``intervals``, errors in ``unbiased_errors``; ``faint`` and ``support`` say when noise hides too much, ``impossible``
when records cannot come from this mechanism. Statistics such as Cramér's V are in ``statistics`` and ``derived``,
sums over cells in ``queries``. How far fake reports can move an estimate is computed in ``fake_reports``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optrr.lazy_names import lazy_names

if TYPE_CHECKING:
    from optrr.tables.estimation.accuracy import (
        absolute_error,
        expected_squared_error,
        independence_bound,
        mean_absolute_error,
        mean_squared_error,
        relative_error,
    )
    from optrr.tables.estimation.adjustment import AdjustedRecords, adjust
    from optrr.tables.estimation.consistency import ConsistentTables, consistent_tables
    from optrr.tables.estimation.derived import Derived, derive
    from optrr.tables.estimation.estimator import METHODS, estimate, estimate_adjusted
    from optrr.tables.estimation.fake_reports import Poisoning, poisoning
    from optrr.tables.estimation.queries import QueryAnswer, count_query, query_errors
    from optrr.tables.estimation.result import Convergence, Estimate
    from optrr.tables.estimation.statistics import STATISTICS

_HOMES = {
    "optrr.tables.estimation.accuracy": (
        "absolute_error",
        "expected_squared_error",
        "independence_bound",
        "mean_absolute_error",
        "mean_squared_error",
        "relative_error",
    ),
    "optrr.tables.estimation.estimator": (
        "METHODS",
        "estimate",
        "estimate_adjusted",
    ),
    "optrr.tables.estimation.adjustment": (
        "AdjustedRecords",
        "adjust",
    ),
    "optrr.tables.estimation.consistency": (
        "ConsistentTables",
        "consistent_tables",
    ),
    "optrr.tables.estimation.derived": (
        "Derived",
        "derive",
    ),
    "optrr.tables.estimation.fake_reports": (
        "Poisoning",
        "poisoning",
    ),
    "optrr.tables.estimation.queries": (
        "QueryAnswer",
        "count_query",
        "query_errors",
    ),
    "optrr.tables.estimation.statistics": ("STATISTICS",),
    "optrr.tables.estimation.result": (
        "Convergence",
        "Estimate",
    ),
}

__all__ = [
    "METHODS",
    "STATISTICS",
    "AdjustedRecords",
    "ConsistentTables",
    "Convergence",
    "Derived",
    "Estimate",
    "Poisoning",
    "QueryAnswer",
    "absolute_error",
    "adjust",
    "consistent_tables",
    "count_query",
    "derive",
    "estimate",
    "estimate_adjusted",
    "expected_squared_error",
    "independence_bound",
    "mean_absolute_error",
    "mean_squared_error",
    "poisoning",
    "query_errors",
    "relative_error",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
