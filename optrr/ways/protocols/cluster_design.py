"""Cluster designs: MDR §4's second round as an ordinary design, so that files, perturb, estimate, test and verify serve it.

Its law is a BlockLaw over the clusters, each spending the sum of its attributes' requested ε (MDR §6.3.2), so the total is
the Kronecker total (below it with matrix "least-epsilon"). It claims no optimality: status BASELINE, with the KL bound below
it, and achieved accuracies that may lie above or below the requested ones (in a joint response large attributes gain, small
ones lose). Estimates from it need no independence between clusters: the unbiased estimate inverts the whole law, across
clusters too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from optrr.designs.baseline import baseline_design
from optrr.designs.cluster.choose import checked_clusters, named
from optrr.designs.design import Design
from optrr.releases.account import Release
from optrr.releases.spent import Account, Spent
from optrr.show.rounding import epsilon_text
from optrr.ways.protocols.cluster_laws import ClusterMatrix, clusters_law


def cluster_design(
    first: Design,
    clusters: Sequence[Sequence[str]],
    matrix: ClusterMatrix = "joint",
    learned: Account | None = None,
    earlier: Sequence[Release] = (),
) -> Design:
    """A design for the release after the clusters were found.

    Parameters
    ----------
    first
        gives the domain and the requested ε of every attribute.
    clusters
        names, a partition of the domain.
    matrix
        see :mod:`optrr.ways.protocols.cluster_laws`.
    learned
        what finding the clusters cost: the notes say it, and the sum with this release.
    earlier
        the releases that the clusters were found from: the design carries them on to what it randomizes.

    Raises
    ------
    InvalidInput, InvalidProblem
        for clusters that are no partition, or a matrix that does not exist at this ε.
    """
    started = time.perf_counter()
    domain = first.domain
    members = checked_clusters(clusters, domain)
    law = clusters_law(members, domain.sizes, first.requested_epsilons, matrix)
    notes = [f"clusters: {'; '.join(', '.join(c) for c in named(members, domain))}"]
    if learned is not None and learned.steps:
        both = learned.plus(Spent("release", law.epsilon)).epsilon
        notes.append(
            f"finding the clusters spent {epsilon_text(learned.epsilon)} nats more: a person who took part in both rounds "
            f"has spent {epsilon_text(both)} in all"
        )
    made = baseline_design(
        domain, law, f"clusters-{matrix}", first.requested_epsilons, notes=tuple(notes), started=started
    )
    return replace(made, earlier=tuple(earlier))
