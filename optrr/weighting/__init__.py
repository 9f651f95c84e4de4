"""Survey weights, strata, clusters and groups: weighted estimates and tests of randomized records with public columns.

``sampled`` reads records with their public columns. ``estimating`` is the front door of estimates: ``linearised``
makes covariances, ``intervals`` the effective number of records (the design effect) and the intervals from it.
``testing`` is the front door of tests, and ``association`` has Rao and Scott's correction.
"""

from optrr.weighting.estimating import estimate_weighted
from optrr.weighting.result import GroupTable, WeightedEstimate
from optrr.weighting.testing import test_weighted

__all__ = ["GroupTable", "WeightedEstimate", "estimate_weighted", "test_weighted"]
