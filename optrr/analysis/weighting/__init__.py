"""Survey weights, strata, clusters and groups: weighted estimates of randomized records with public columns.

``sampled`` reads records with their public columns. ``estimating`` is public. ``linearised`` makes covariances, the
effective number of records (the design effect) and the intervals from it, and gives the covariances of weighted
proportions at tables that a measure is tested at (:mod:`optrr.analysis.measures`). Weighted tests are in
:mod:`optrr.analysis.weighted`.
"""

from optrr.analysis.weighting.estimating import GroupTable, WeightedEstimate, estimate_weighted

__all__ = ["GroupTable", "WeightedEstimate", "estimate_weighted"]
