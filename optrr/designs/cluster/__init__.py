"""Which attributes are randomized together: clustering, coarsening, near-duplicates (MDR §4, SIC §4)."""

from optrr.designs.cluster.choose import checked_clusters, choose_clusters
from optrr.designs.cluster.coarsen import Coarsening, coarsen
from optrr.designs.cluster.duplicates import Representatives, drop_near_duplicates
from optrr.designs.cluster.greedy import greedy_clusters
from optrr.designs.cluster.power_iteration import power_iteration_clusters
from optrr.designs.cluster.spectral import spectral_clusters

__all__ = [
    "Coarsening",
    "Representatives",
    "checked_clusters",
    "choose_clusters",
    "coarsen",
    "drop_near_duplicates",
    "greedy_clusters",
    "power_iteration_clusters",
    "spectral_clusters",
]
