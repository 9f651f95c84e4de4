"""Estimation from randomized records: proportions, counts, derived statistics, and their errors."""

from optrr.estimation.accuracy import (
    absolute_error,
    expected_squared_error,
    independence_bound,
    mean_absolute_error,
    mean_squared_error,
    relative_error,
)
from optrr.estimation.adjusted_table import estimate_adjusted
from optrr.estimation.adjustment import AdjustedRecords, adjust, distinct_records
from optrr.estimation.consistency import ConsistentTables, consistent_tables
from optrr.estimation.derived import STATISTICS, Derived, derive
from optrr.estimation.estimator import METHODS, estimate
from optrr.estimation.queries import QueryAnswer, count_query, estimated_count, query_errors, synthetic_records
from optrr.estimation.result import Convergence, Estimate

__all__ = [
    "METHODS",
    "STATISTICS",
    "AdjustedRecords",
    "ConsistentTables",
    "Convergence",
    "Derived",
    "Estimate",
    "QueryAnswer",
    "absolute_error",
    "adjust",
    "consistent_tables",
    "count_query",
    "derive",
    "distinct_records",
    "estimate",
    "estimate_adjusted",
    "estimated_count",
    "expected_squared_error",
    "independence_bound",
    "mean_absolute_error",
    "mean_squared_error",
    "query_errors",
    "relative_error",
    "synthetic_records",
]
