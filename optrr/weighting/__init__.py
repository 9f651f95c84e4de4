"""Survey weights, strata, clusters and groups: weighted estimates from randomized records with public columns beside them."""

from optrr.weighting.estimating import estimate_weighted
from optrr.weighting.result import GroupTable, WeightedEstimate

__all__ = ["GroupTable", "WeightedEstimate", "estimate_weighted"]
