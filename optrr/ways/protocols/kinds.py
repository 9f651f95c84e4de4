"""The protocols by name (MDR §3–4, SIC §4–6, RIJ §3, and the product's own optimum).

The law of one cluster, by name of its matrix, at the cluster's share of the total ε: Σ ε_A over its attributes (MDR §6.3.2).

    joint               keep the whole cluster or replace it by any other value, each as likely (MDR)
    inverse-distance    replace it by a value that differs in w attributes as likely as 1/w (SIC)
    product             each attribute on its own
    optimum             POR's optimum with every pair kept; its accuracies in the proportions of the ε_A, raised together
                        until the cluster spends Σ ε_A
    least-epsilon       POR's optimum with every pair kept, at the accuracies ε_A themselves: spends less than Σ ε_A

All but the last spend the same total, so they compare at equal privacy. Which estimates best is a question of the workload.

A cluster design is MDR §4's second round as an ordinary design, so that files, perturb, estimate, test and verify serve it.
Its law is a BlockLaw over the clusters, each spending the sum of its attributes' requested ε (MDR §6.3.2), so the total is
the Kronecker total (below it with matrix "least-epsilon"). It claims no optimality: status BASELINE, with the KL bound below
it, and achieved accuracies that may lie above or below the requested ones (in a joint response large attributes gain, small
ones lose). Estimates from it need no independence between clusters: the unbiased estimate inverts the whole law, across
clusters too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.designs.clustering import checked_clusters, named
from optrr.designs.design import Design
from optrr.designs.solving import baseline_design, epsilon_vector
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.releases.provenance import Account, Release, Spent
from optrr.show.text import epsilon_text
from optrr.ways.protocols.protocol import NOTHING, Protocol
from optrr_solvers import Problem, Solution, solve
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.calibrate import calibrate, scale_range
from optrr_solvers.laws import BlockLaw, Law, ProductLaw
from optrr_solvers.laws.few_changes import joint_law
from optrr_solvers.laws.inverse_distance import inverse_distance_law, inverse_distance_retention
from optrr_solvers.problem import EPSILON_RANGE

ClusterMatrix = Literal["joint", "inverse-distance", "product", "optimum", "least-epsilon"]
# One number for all attributes, one for each in order, or by name; in nats, from 0 (says nothing) to 50.
Epsilons = float | ArrayLike | Mapping[str, float]


def cluster_law(sizes: IntArray, epsilons: FloatArray, matrix: ClusterMatrix) -> Law:
    """The law of one cluster that spends Σ ``epsilons``, or less. One attribute alone: randomized response.

    Raises InvalidInput for an unknown matrix; InvalidProblem where the matrix does not exist at this ε.
    """
    total = math.fsum(epsilons.tolist())
    if matrix not in get_args(ClusterMatrix):
        raise InvalidInput(f"unknown matrix {matrix!r}; choose among {', '.join(get_args(ClusterMatrix))}")
    if sizes.size == 1:
        return joint_law(sizes, total) if total < 0 else ProductLaw(sizes, epsilons)
    match matrix:
        case "joint":
            return joint_law(sizes, total)
        case "inverse-distance":
            return inverse_distance_law(sizes, inverse_distance_retention(sizes, total))
        case "product":
            return ProductLaw(sizes, epsilons)
        case "optimum":
            return optimum_at_total(sizes, epsilons, total).law
        case "least-epsilon":
            return optimum_at_accuracies(sizes, epsilons).law


def clusters_law(
    clusters: Sequence[Sequence[int]], sizes: IntArray, epsilons: ArrayLike, matrix: ClusterMatrix = "joint"
) -> BlockLaw:
    """Independent clusters, each spending the sum of its attributes' ε."""
    e = np.asarray(epsilons, dtype=np.float64)
    return BlockLaw([(list(c), cluster_law(sizes[list(c)], e[list(c)], matrix)) for c in clusters])


def optimum_at_accuracies(sizes: IntArray, epsilons: FloatArray, preserve_pairs: bool = True) -> Solution:
    """POR's optimum at accuracies ``epsilons`` (clipped to the range that can be solved), with all pairs kept."""
    pairs = tuple(combinations(range(sizes.size), 2)) if preserve_pairs else ()
    return solve(Problem(sizes, np.clip(epsilons, *EPSILON_RANGE), pairs=pairs))


def optimum_at_total(sizes: IntArray, profile: FloatArray, total: float, preserve_pairs: bool = True) -> Solution:
    """The optimum whose accuracies are proportional to ``profile`` and whose total ε is ``total`` nats, or just below.

    With ``preserve_pairs`` no pair is less visible than under randomized response at these accuracies. About 10 solves.

    Raises InvalidInput where the total's share of some attribute is outside 1e-6..50 nats; SolveFailed where the solvers'
    tolerances leave no mechanism within the total.
    """
    if not (math.isfinite(total) and total > 0 and np.all(profile > 0)):
        raise InvalidInput(
            f"an optimum was asked for at total epsilon {total}; give a positive total and positive shares"
        )
    shares = profile / profile.sum()
    # the search starts at Kronecker's accuracies, so every one of them must be an ε that solvers take
    least, most = float(shares.min()) * total, float(shares.max()) * total
    if least < EPSILON_RANGE[0] or most > EPSILON_RANGE[1]:
        raise InvalidInput(
            f"at total epsilon {total:g} the shares of the attributes run from {least:g} to {most:g} nats; they must lie in "
            f"{EPSILON_RANGE[0]:g}..{EPSILON_RANGE[1]:g}"
        )

    def at(scale: float) -> Solution:
        return optimum_at_accuracies(sizes, shares * scale, preserve_pairs)

    # Kronecker spends the total where Σ ε_A = total, which makes that scale a good first guess
    return calibrate(at, total, scale_range(shares), guess=total).solution


def cluster_design(
    first: Design,
    clusters: Sequence[Sequence[str]],
    matrix: ClusterMatrix = "joint",
    learned: Account | None = None,
    earlier: Sequence[Release] = (),
) -> Design:
    """A design for the release after the clusters were found.

    ``first`` gives the domain and the requested ε of every attribute; ``clusters`` are names, a partition of the domain, and
    ``matrix`` one of those above. What finding the clusters cost (``learned``) is said in the notes, with the sum of both; the
    design carries the releases they were found from (``earlier``) on to what it randomizes.

    Raises InvalidInput or InvalidProblem for clusters that are no partition, or a matrix that does not exist at this ε.
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


def rr_independent(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Every attribute on its own, joints as products of marginals (MDR Protocol 1). Total ε = Σ ε_i."""
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Independent", domain, law, [(n,) for n in domain.names])


def rr_ind_joint(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Messages of RR-Independent; joints by the inverse of the Kronecker product (RIJ Algorithm 3). Total ε = Σ ε_i."""
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Ind-Joint", domain, law, [domain.names])


def rr_joint(domain: Domain, epsilon: float) -> Protocol:
    """One randomized response on the product of all attributes (MDR Protocol 2), total ``epsilon`` nats."""
    if not (isinstance(epsilon, int | float) and 0 < epsilon < np.inf):
        raise InvalidInput(f"epsilon = {epsilon!r}; give the whole record's total, a finite number of nats above 0")
    return Protocol.of("RR-Joint", domain, joint_law(domain.sizes, epsilon), [domain.names])


def rr_clusters(
    domain: Domain,
    clusters: Sequence[Sequence[str]],
    epsilons: Epsilons,
    matrix: ClusterMatrix = "joint",
    learned: Account = NOTHING,
) -> Protocol:
    """Each cluster on its own, spending the sum of its attributes' ε (MDR §4, §6.3.2).

    ``clusters`` are names, a partition of the domain, ``matrix`` one of those above; what finding the clusters cost
    (``learned``) is added to the protocol's total.
    """
    members = checked_clusters(clusters, domain)
    law = clusters_law(members, domain.sizes, _checked(domain, epsilons), matrix)
    name = "RR-Clusters" if matrix == "joint" else f"RR-Clusters ({matrix})"
    return Protocol.of(name, domain, law, named(members, domain), learned)


def sic_clusters(
    domain: Domain, clusters: Sequence[Sequence[str]], retention: float, learned: Account = NOTHING
) -> Protocol:
    """SIC §6.2: the inverse-distance matrix in every cluster, each kept with probability ``retention``."""
    members = checked_clusters(clusters, domain)
    law = BlockLaw([(c, inverse_distance_law(domain.sizes[list(c)], retention)) for c in members])
    return Protocol.of("RR-Clusters (inverse-distance)", domain, law, named(members, domain), learned)


def optimum(domain: Domain, profile: Epsilons, total_epsilon: float, preserve_pairs: bool = True) -> Protocol:
    """The whole record's optimum at a total of ``total_epsilon`` nats, accuracies proportional to ``profile``."""
    shares = _checked(domain, profile)
    law = optimum_at_total(domain.sizes, shares, total_epsilon, preserve_pairs).law
    return Protocol.of("optimum", domain, law, [domain.names])


def of_design(design: Design, learned: Account = NOTHING) -> Protocol:
    """The protocol of a design: its blocks where its law has blocks, otherwise one block."""
    return Protocol.of(design.method, design.domain, design.law, block_names(design.domain, design.law), learned)


def block_names(domain: Domain, law: Law) -> tuple[tuple[str, ...], ...]:
    """Names of a law's independent blocks; all attributes in one where it has none."""
    if not isinstance(law, BlockLaw):
        return (domain.names,)
    return named(tuple(tuple(sorted(members)) for members, _ in law.blocks), domain)


def _checked(domain: Domain, epsilons: Epsilons) -> FloatArray:
    vector, high = epsilon_vector(domain, epsilons), EPSILON_RANGE[1]
    wrong = np.flatnonzero(~((vector >= 0) & (vector <= high)))
    if wrong.size:
        name, value = domain.names[wrong[0]], vector[wrong[0]]
        raise InvalidInput(f"attribute {name!r} has epsilon {value}; give a finite number of nats from 0 to {high:g}")
    return vector
