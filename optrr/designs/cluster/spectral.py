"""Spectral clustering of attributes by scikit-learn: the well-kept alternative to power iteration clustering.

scikit-learn is an optional extra (``pip install 'optrr[cluster]'``) and is imported only here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.cluster.power_iteration import Clusters, checked_affinity
from optrr.errors import InvalidInput, not_installed

# Without dependences some attributes would have no edge in the graph; edges of this small weight join them and change no group.
_FAINT = 1e-9


def spectral_clusters(dependence: ArrayLike, clusters: int = 3, random_state: int = 0) -> Clusters:
    """At most ``clusters`` groups by normalised spectral clustering of the dependences; sizes are not limited.

    Where there are no more attributes than groups, each is a group of its own, whatever the dependences.

    ``random_state`` seeds its k-means; it touches no protected data.

    Raises
    ------
    InvalidInput
        for an unsuitable matrix, or where scikit-learn is not installed.
    """
    affinity = checked_affinity(dependence)
    m = affinity.shape[0]
    if clusters < 1:
        raise InvalidInput(f"{clusters} clusters were asked for; give 1 or more")
    if clusters >= m:
        return tuple((i,) for i in range(m))
    try:
        from sklearn.cluster import SpectralClustering  # noqa: PLC0415  # optional extra
    except ImportError as error:
        raise not_installed(error, "spectral clustering needs", "cluster", ", or use greedy or pic") from error
    model = SpectralClustering(n_clusters=clusters, affinity="precomputed", random_state=random_state)
    labels = model.fit_predict(np.maximum(affinity, _FAINT) + np.eye(m))
    return tuple(sorted(tuple(np.flatnonzero(labels == g).tolist()) for g in np.unique(labels)))
