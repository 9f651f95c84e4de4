"""Estimation from randomized records: proportions, counts, derived statistics, and their errors."""

from optrr.estimate.accuracy import (
    absolute_error,
    expected_squared_error,
    independence_bound,
    mean_absolute_error,
    mean_squared_error,
    relative_error,
)
from optrr.estimate.adjustment import AdjustedRecords, adjust, distinct_records
from optrr.estimate.consistency import ConsistentTables, consistent_tables
from optrr.estimate.derived import STATISTICS, Derived, derive
from optrr.estimate.estimator import METHODS, estimate
from optrr.estimate.queries import QueryAnswer, count_query, estimated_count, query_errors, synthetic_records
from optrr.estimate.result import Convergence, Estimate

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
    "estimated_count",
    "expected_squared_error",
    "independence_bound",
    "mean_absolute_error",
    "mean_squared_error",
    "query_errors",
    "relative_error",
    "synthetic_records",
]
