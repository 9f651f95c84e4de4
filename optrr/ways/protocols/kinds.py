"""The protocols by name (MDR §3–4, SIC §4–6, RIJ §3, and the product's own optimum)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.cluster.choose import checked_clusters, named
from optrr.designs.design import Design
from optrr.designs.solving import epsilon_vector
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.releases.spent import Account
from optrr.ways.protocols.cluster_laws import ClusterMatrix, clusters_law, optimum_at_total
from optrr.ways.protocols.protocol import Protocol
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import BlockLaw, Law, ProductLaw
from optrr_solvers.laws.inverse_distance import inverse_distance_law
from optrr_solvers.laws.joint import joint_law
from optrr_solvers.problem import EPSILON_RANGE

# One number for all attributes, one for each in order, or by name; in nats, from 0 (says nothing) to 50.
Epsilons = float | ArrayLike | Mapping[str, float]

_NOTHING = Account()


def rr_independent(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Every attribute on its own, joints as products of marginals (MDR Protocol 1). Total ε = Σ ε_i."""
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Independent", domain, law, [(n,) for n in domain.names], _NOTHING)


def rr_ind_joint(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Messages of RR-Independent; joints by the inverse of the Kronecker product (RIJ Algorithm 3). Total ε = Σ ε_i."""
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Ind-Joint", domain, law, [domain.names], _NOTHING)


def rr_joint(domain: Domain, epsilon: float) -> Protocol:
    """One randomized response on the product of all attributes (MDR Protocol 2), total ``epsilon`` nats."""
    if not (isinstance(epsilon, int | float) and 0 < epsilon < np.inf):
        raise InvalidInput(f"epsilon = {epsilon!r}; give the whole record's total, a finite number of nats above 0")
    return Protocol.of("RR-Joint", domain, joint_law(domain.sizes, epsilon), [domain.names], _NOTHING)


def rr_clusters(
    domain: Domain,
    clusters: Sequence[Sequence[str]],
    epsilons: Epsilons,
    matrix: ClusterMatrix = "joint",
    learned: Account = _NOTHING,
) -> Protocol:
    """Each cluster on its own, spending the sum of its attributes' ε (MDR §4, §6.3.2).

    Parameters
    ----------
    clusters
        names, a partition of the domain.
    matrix
        see :mod:`optrr.ways.protocols.cluster_laws`.
    learned
        what finding the clusters cost; added to the protocol's total.
    """
    members = checked_clusters(clusters, domain)
    law = clusters_law(members, domain.sizes, _checked(domain, epsilons), matrix)
    name = "RR-Clusters" if matrix == "joint" else f"RR-Clusters ({matrix})"
    return Protocol.of(name, domain, law, named(members, domain), learned)


def sic_clusters(
    domain: Domain, clusters: Sequence[Sequence[str]], retention: float, learned: Account = _NOTHING
) -> Protocol:
    """SIC §6.2: the inverse-distance matrix in every cluster, each kept with probability ``retention``."""
    members = checked_clusters(clusters, domain)
    law = BlockLaw([(c, inverse_distance_law(domain.sizes[list(c)], retention)) for c in members])
    return Protocol.of("RR-Clusters (inverse-distance)", domain, law, named(members, domain), learned)


def optimum(domain: Domain, profile: Epsilons, total_epsilon: float, preserve_pairs: bool = True) -> Protocol:
    """The whole record's optimum at a total of ``total_epsilon`` nats, accuracies proportional to ``profile``."""
    shares = _checked(domain, profile)
    law = optimum_at_total(domain.sizes, shares, total_epsilon, preserve_pairs).law
    return Protocol.of("optimum", domain, law, [domain.names], _NOTHING)


def of_design(design: Design, learned: Account = _NOTHING) -> Protocol:
    """The protocol of a design: its blocks where its law has blocks, otherwise one block."""
    return Protocol.of(design.method, design.domain, design.law, block_names(design.domain, design.law), learned)


def block_names(domain: Domain, law: Law) -> tuple[tuple[str, ...], ...]:
    """Names of a law's independent blocks; all attributes in one where it has none."""
    if not isinstance(law, BlockLaw):
        return (domain.names,)
    return named(tuple(tuple(sorted(members)) for members, _ in law.blocks), domain)


def _checked(domain: Domain, epsilons: Epsilons) -> FloatArray:
    try:
        vector = epsilon_vector(domain, epsilons)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"epsilons are {epsilons!r}; give numbers of nats") from error
    high = EPSILON_RANGE[1]
    wrong = np.flatnonzero(~((vector >= 0) & (vector <= high)))
    if wrong.size:
        name, value = domain.names[wrong[0]], vector[wrong[0]]
        raise InvalidInput(f"attribute {name!r} has epsilon {value}; give a finite number of nats from 0 to {high:g}")
    return vector
