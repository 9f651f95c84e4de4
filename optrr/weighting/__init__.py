"""Survey weights, strata, clusters and groups: weighted estimates and tests of randomized records with public columns."""

from optrr.weighting.estimating import estimate_weighted
from optrr.weighting.result import GroupTable, WeightedEstimate
from optrr.weighting.testing import test_weighted

__all__ = ["GroupTable", "WeightedEstimate", "estimate_weighted", "test_weighted"]
