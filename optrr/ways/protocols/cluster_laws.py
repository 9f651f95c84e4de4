"""The law of one cluster, by name of its matrix, at the cluster's share of the total ε: Σ ε_A over its attributes (MDR §6.3.2).

    joint               keep the whole cluster or replace it by any other value, each as likely (MDR)
    inverse-distance    replace it by a value that differs in w attributes as likely as 1/w (SIC)
    product             each attribute on its own
    optimum             POR's optimum with every pair kept; its accuracies in the proportions of the ε_A, raised together
                        until the cluster spends Σ ε_A
    least-epsilon       POR's optimum with every pair kept, at the accuracies ε_A themselves: spends less than Σ ε_A

All but the last spend the same total, so they compare at equal privacy. Which estimates best is a question of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput
from optrr_solvers import Problem, Solution, solve
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.calibrate import calibrate, scale_range
from optrr_solvers.laws import BlockLaw, Law, ProductLaw
from optrr_solvers.laws.inverse_distance import inverse_distance_law, inverse_distance_retention
from optrr_solvers.laws.joint import joint_law
from optrr_solvers.problem import EPSILON_RANGE

ClusterMatrix = Literal["joint", "inverse-distance", "product", "optimum", "least-epsilon"]


def cluster_law(sizes: IntArray, epsilons: FloatArray, matrix: ClusterMatrix) -> Law:
    """The law of one cluster that spends Σ ``epsilons``, or less. One attribute alone: randomized response.

    Raises
    ------
    InvalidInput
        for an unknown matrix; InvalidProblem where the matrix does not exist at this ε.
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

    Raises
    ------
    InvalidInput
        where the total's share of some attribute is outside 1e-6..50 nats.
    SolveFailed
        where the solvers' tolerances leave no mechanism within the total.
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
