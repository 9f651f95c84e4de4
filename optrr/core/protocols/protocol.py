"""A protocol: the mechanism that every client runs, the collector's assumptions, and one person's total ε.

The client side knows the mechanism only. The collector side differs in ``blocks``: the joint distribution is estimated inside
each block, and between blocks attributes are taken to be independent. With one block nothing is assumed.

    RR-Independent (MDR §3.1)   product law, every attribute a block
    RR-Joint (MDR §3.2)         joint law, one block
    RR-Clusters (MDR §4)        block law, every cluster a block
    RR-Ind-Joint (RIJ §3.2)     product law, one block

``adjusted`` adds RR-Adjustment (MDR §5): the randomized records, reweighted until the tables over ``margins`` are the
estimated ones, are the estimate.

Distinct records are kept with their counts.

The protocols by name are those of MDR §3–4, SIC §4–6, RIJ §3, and the optimum of this package. The law of one cluster,
by name of its matrix, at the cluster's part of the total ε: Σ ε_A over its attributes (MDR §6.3.2).

    joint               keep the whole cluster or replace it by any other value, each as likely (MDR)
    inverse-distance    replace it by a value that differs in w attributes as likely as 1/w (SIC)
    product             each attribute on its own
    optimum             POR's optimum with every pair kept; its accuracies in the proportions of the ε_A, raised
                        together until the cluster consumes Σ ε_A
    least-epsilon       POR's optimum with every pair kept, at the accuracies ε_A themselves: consumes less than Σ ε_A

All but the last consume the same total, so they compare at equal privacy. The best of them depends on the workload.

A cluster design is MDR §4's second round as an ordinary design, so that files, randomize, estimate, test and verify
serve it. Its law is a BlockLaw over the clusters, each consuming the sum of its attributes' requested ε (MDR §6.3.2),
so the total is that of independent RR (below it with matrix "least-epsilon"). It claims no optimality: status BASELINE,
with the KL bound below it, and achieved accuracies that may lie above or below the requested ones (in a joint response
large attributes gain, small ones lose). Estimates from it need no independence between clusters: the unbiased estimate
inverts the whole law, across clusters too.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.design.design_file import save_design
from optrr.core.design.designs import Design, FullRecords
from optrr.core.design.solving import baseline_design, epsilon_vector
from optrr.core.display.text import epsilon_text
from optrr.core.domain.domain import Domain, checked_codes, listed
from optrr.core.errors import InvalidInput
from optrr.core.estimation import estimator
from optrr.core.estimation.adjustment import AdjustedRecords, adjust
from optrr.core.estimation.simplex import FittedTable, clip
from optrr.core.estimation.table import EstimatedTable, Sampling
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols.clustering import NamedClusters, checked_clusters, named
from optrr.core.provenance.accounting import Account, Release, Spent
from optrr.core.records.counts import MAX_CELLS
from optrr_solvers import Problem, Solution, solve
from optrr_solvers.arrays import FloatArray, IntArray, real
from optrr_solvers.calibrate import calibrate, scale_range
from optrr_solvers.laws import BlockLaw, Law, ProductLaw
from optrr_solvers.laws.few_changes import inverse_distance_law, inverse_distance_retention, joint_law
from optrr_solvers.problem import EPSILON_RANGE

ClusterMatrix = Literal["joint", "inverse-distance", "product", "optimum", "least-epsilon"]
# One number for all attributes, one for each in order, or by name; in nats, from 0 (no information) to 50.
Epsilons = float | ArrayLike | Mapping[str, float]
# Earlier consumption of protocols that learn no dependences first.
NOTHING = Account()
_BIAS = (
    "biased where cells are near 0, which are never negative; tables across blocks are products, which are right if "
    "the blocks are independent"
)


@dataclass(frozen=True, eq=False)
class Protocol(FullRecords):
    """One multi-attribute protocol.

    As a protocol it promises the errors of the unbiased estimate from its records. The papers' own estimates, which
    take blocks for independent and are never negative, are those of :class:`optrr.core.protocols.Collector`.

    Every client runs the ``mechanism`` on its record. ``blocks`` are attribute names that are estimated jointly, a
    partition: independence is assumed between blocks. ``learned`` is the ε consumed before, to learn dependences;
    ``adjusted`` and ``margins`` say whether RR-Adjustment reweights the records, and to which estimated tables (a
    partition).

    Raises InvalidInput if blocks or margins are no partition of the attributes.
    """

    name: str
    mechanism: Mechanism
    blocks: NamedClusters
    learned: Account = field(default_factory=Account)
    adjusted: bool = False
    margins: NamedClusters = ()

    def __post_init__(self) -> None:
        checked_clusters(self.blocks, self.domain)
        if self.margins:
            checked_clusters(self.margins, self.domain)

    @classmethod
    def of(
        cls, name: str, domain: Domain, law: Law, blocks: Sequence[Sequence[str]], learned: Account = NOTHING
    ) -> "Protocol":
        """Build a protocol from a noise distribution over ``domain``."""
        return cls(name, Mechanism(domain, law), tuple(tuple(b) for b in blocks), learned)

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self.mechanism.domain

    @cached_property
    def account(self) -> Account:
        """Every release of one person, the randomized record last."""
        return self.learned.plus(Spent(f"randomized record ({self.name})", self.mechanism.epsilon))

    @property
    def epsilon(self) -> float:
        """Total ε in nats over everything one person releases, rounded up."""
        return self.account.epsilon

    def with_adjustment(self, margins: Sequence[Sequence[str]] | None = None) -> "Protocol":
        """Return the same records with estimates by RR-Adjustment.

        ``margins``: tables the weights are fitted to; the blocks, or single attributes where there is one block only (whose
        own table would be all that is asked for).
        """
        if self.adjusted:
            raise InvalidInput(f"{self.name} is adjusted already; adjust the protocol it was made from")
        chosen = margins
        if chosen is None:
            chosen = self.blocks if len(self.blocks) > 1 else [(name,) for name in self.domain.names]
        fitted = tuple(tuple(s) for s in chosen)
        return replace(self, name=f"{self.name} + Adjustment", adjusted=True, margins=fitted)

    def save(self, path: str | Path) -> None:
        """Write the mechanism of its clients as a design file.

        Estimates from it are unbiased and assume no independence.

        Raises InvalidProblem if an attribute's answers have no information, which no design can have.
        """
        save_design(baseline_design(self.domain, self.mechanism.law, self.name), path)


class Collector:
    """Collects the randomized records of one protocol."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._parts: list[IntArray] = []
        self._tally: tuple[IntArray, IntArray] | None = None

    def receive_codes(self, codes: NDArray[np.integer]) -> None:
        """Take randomized records as codes, shape (n, m)."""
        self._parts.append(checked_codes(codes, self.protocol.domain).astype(np.int64))
        self._tally = None

    def records(self) -> tuple[IntArray, IntArray]:
        """Return distinct randomized records and counts: (N, m), (N,).

        Raises InvalidInput if no record was received.
        """
        if not self._parts:
            raise InvalidInput("no records were received; there is nothing to estimate from")
        if self._tally is None:
            rows, counts = np.unique(np.concatenate(self._parts), axis=0, return_counts=True)
            self._tally = rows, counts.astype(np.int64)
        return self._tally

    @property
    def n(self) -> int:
        """Number of records received."""
        return sum(len(p) for p in self._parts)

    def estimate(
        self,
        names: Sequence[str],
        whole_blocks: bool = False,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> estimator.Estimate:
        """Estimate the joint distribution of these attributes by the protocol.

        Axes are in the order of ``names``.

        With ``whole_blocks`` each block's whole table is estimated, made proper, and then summed over the attributes
        that were not asked for, as MDR does; by default only the asked attributes of each block are estimated, which
        clips far less. ``confidence`` is that of the intervals, of each cell alone or, if ``simultaneous``, of all
        cells together.

        Raises InvalidInput for unknown attributes, fewer than two records, a confidence outside (0, 1), or a table of more
        than 2^27 cells; SingularMarginal if the mechanism hides the table.
        """
        asked, table = self.protocol.domain.subset(names), self.proportions(names, whole_blocks)
        estimator.check_confidence(confidence)
        estimator.check_records(self.n)
        # the unbiased estimate's errors, from the same records, around the protocol's table
        observed = self._observed(self.protocol.domain.indices(asked.names))
        kernel = self.protocol.mechanism.kernel(asked.names)
        return estimator.around_unbiased(
            EstimatedTable(asked, self.n, observed, kernel, Sampling(kernel, self.n)),
            FittedTable(table),
            method=self.protocol.name,
            bias=_BIAS,
            confidence=confidence,
            simultaneous=simultaneous,
        )

    def proportions(self, names: Sequence[str], whole_blocks: bool = False) -> FloatArray:
        """Estimate a table without standard errors, which is cheaper.

        See `estimate`.
        """
        chosen = self.protocol.domain.indices(names)
        if not self.protocol.adjusted:
            return self._product(chosen, whole_blocks)
        # refused before the fit, which takes long
        _tabulated(self.protocol.domain, chosen)
        records = self.adjusted_records()
        return self._summed(records.codes, records.weights, chosen)

    def adjusted_records(self, max_rounds: int = estimator.ADJUSTMENT_ROUNDS) -> AdjustedRecords:
        """Apply RR-Adjustment (MDR Algorithm 2).

        The distinct randomized records get weights fitted to the estimated margins.
        """
        protocol, domain = self.protocol, self.protocol.domain
        rows, counts = self.records()
        margins = protocol.margins or tuple((n,) for n in domain.names)
        groups = [domain.indices(g) for g in margins]
        return adjust(rows, counts, [self._proper(g) for g in groups], groups, max_rounds=max_rounds)

    def _product(self, chosen: Sequence[int], whole_blocks: bool) -> FloatArray:
        """Multiply the tables of blocks, axes in the order of ``chosen``."""
        tables, axes = [], []
        for block in self.protocol.blocks:
            members = self.protocol.domain.indices(block)
            inside = [i for i in chosen if i in members]
            if not inside:
                continue
            wanted = members if whole_blocks else inside
            table = self._proper(wanted)
            rest = tuple(k for k, i in enumerate(wanted) if i not in inside)
            tables.append(table.sum(axis=rest))
            axes += [i for i in wanted if i in inside]
        return np.transpose(reduce(np.multiply.outer, tables), [axes.index(i) for i in chosen])

    def _proper(self, members: Sequence[int]) -> FloatArray:
        """Estimate a table, set negatives to 0 and rescale (MDR §6.4)."""
        domain = self.protocol.domain
        sizes, observed = _tabulated(domain, members), self._observed(members)
        kernel = self.protocol.mechanism.kernel([domain.names[i] for i in members])
        return clip(kernel.solve(observed).ravel()).reshape(sizes)

    def _observed(self, members: Sequence[int]) -> FloatArray:
        """Compute proportions of the randomized records over these attributes."""
        rows, counts = self.records()
        return np.asarray(self._summed(rows, counts, members) / counts.sum())

    def _summed(self, codes: IntArray, weights: FloatArray | IntArray, members: Sequence[int]) -> FloatArray:
        """Sum the weights of records by their cells over some attributes."""
        sizes = _tabulated(self.protocol.domain, members)
        cells = np.ravel_multi_index(tuple(codes[:, list(members)].T), sizes)
        return np.asarray(np.bincount(cells, weights=weights, minlength=math.prod(sizes)).reshape(sizes))


def _tabulated(domain: Domain, members: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the table; raise InvalidInput if it has too many cells."""
    sizes = tuple(int(r) for r in domain.sizes[list(members)])
    if math.prod(sizes) > MAX_CELLS:
        names = listed([domain.names[i] for i in members])
        raise InvalidInput(
            f"the table over {names} has {math.prod(sizes)} cells, more than {MAX_CELLS}; use fewer attributes, "
            "or smaller blocks"
        )
    return sizes


def cluster_law(sizes: IntArray, epsilons: FloatArray, matrix: ClusterMatrix) -> Law:
    """Build the noise distribution of a cluster with total at most Σ ``epsilons``.

    One attribute alone has randomized response.

    Raises InvalidInput for an unknown matrix; InvalidProblem if the matrix does not exist at this ε.
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
    """Build independent clusters with the sums of their attributes' ε."""
    e = np.asarray(epsilons, dtype=np.float64)
    return BlockLaw([(list(c), cluster_law(sizes[list(c)], e[list(c)], matrix)) for c in clusters])


def optimum_at_accuracies(sizes: IntArray, epsilons: FloatArray, preserve_pairs: bool = True) -> Solution:
    """Solve POR's problem at accuracies ``epsilons`` with all pairs kept.

    They are clipped to the solvable range.
    """
    pairs = tuple(combinations(range(sizes.size), 2)) if preserve_pairs else ()
    return solve(Problem(sizes, np.clip(epsilons, *EPSILON_RANGE), pairs=pairs))


def optimum_at_total(sizes: IntArray, profile: FloatArray, total: float, preserve_pairs: bool = True) -> Solution:
    """Solve for the optimum at total ε ``total`` nats, or just below.

    Its accuracies are proportional to ``profile``.

    With ``preserve_pairs`` no pair is more attenuated than under independent randomized response at these accuracies.
    About 10 solves.

    Raises InvalidInput if the ε of some attribute is outside 1e-6..50 nats; SolveFailed if the solvers'
    tolerances leave no mechanism within the total.
    """
    if not (math.isfinite(total) and total > 0 and np.all(profile > 0)):
        raise InvalidInput(
            f"no optimum exists at total epsilon {total}; give a positive total and positive proportions"
        )
    shares = profile / profile.sum()
    # the search starts at the accuracies of independent RR, so all of these must be ε that solvers accept
    least, most = float(shares.min()) * total, float(shares.max()) * total
    if least < EPSILON_RANGE[0] or most > EPSILON_RANGE[1]:
        raise InvalidInput(
            f"at total epsilon {total:g} the epsilons of the attributes run from {least:g} to {most:g} nats; they "
            "must lie in "
            f"{EPSILON_RANGE[0]:g}..{EPSILON_RANGE[1]:g}"
        )

    def at(scale: float) -> Solution:
        return optimum_at_accuracies(sizes, shares * scale, preserve_pairs)

    # independent RR consumes the total where Σ ε_A = total, which makes that scale a good first guess
    return calibrate(at, total, scale_range(shares), guess=total).solution


def cluster_design(
    first: Design,
    clusters: Sequence[Sequence[str]],
    matrix: ClusterMatrix = "joint",
    learned: Account | None = None,
    earlier: Sequence[Release] = (),
) -> Design:
    """Build a design for the release after the clusters were found.

    ``first`` gives the domain and the requested ε of every attribute; ``clusters`` are names, a partition of the
    domain, and ``matrix`` one of those above. The notes state the ε of finding the clusters (``learned``), with the sum
    of both; the design carries the releases they were found from (``earlier``) on to its randomized records.

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
            f"finding the clusters consumed {epsilon_text(learned.epsilon)} nats more: a respondent who took part in "
            f"both rounds has consumed {epsilon_text(both)} in all"
        )
    made = baseline_design(
        domain, law, f"clusters-{matrix}", first.requested_epsilons, notes=tuple(notes), started=started
    )
    return replace(made, earlier=tuple(earlier))


def rr_independent(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Randomize attributes independently (MDR Protocol 1).

    Joint tables are products of marginals. Total ε = Σ ε_i.
    """
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Independent", domain, law, [(n,) for n in domain.names])


def rr_ind_joint(domain: Domain, epsilons: Epsilons) -> Protocol:
    """Randomize as RR-Independent; estimate jointly (RIJ Algorithm 3).

    By the inverse of the Kronecker product. Total ε = Σ ε_i.
    """
    law = ProductLaw(domain.sizes, _checked(domain, epsilons))
    return Protocol.of("RR-Ind-Joint", domain, law, [domain.names])


def rr_joint(domain: Domain, epsilon: float) -> Protocol:
    """Randomize the product of all attributes (MDR Protocol 2).

    Total ``epsilon`` nats.
    """
    if not 0 < real(epsilon) < math.inf:
        raise InvalidInput(f"epsilon = {epsilon!r}; give the whole record's total, a finite number of nats above 0")
    return Protocol.of("RR-Joint", domain, joint_law(domain.sizes, epsilon), [domain.names])


def rr_clusters(
    domain: Domain,
    clusters: Sequence[Sequence[str]],
    epsilons: Epsilons,
    matrix: ClusterMatrix = "joint",
    learned: Account = NOTHING,
) -> Protocol:
    """Randomize clusters independently (MDR §4, §6.3.2).

    Each consumes the sum of its attributes' ε.

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
    """Randomize clusters by inverse-distance matrices (SIC §6.2).

    Each is kept with probability ``retention``.
    """
    members = checked_clusters(clusters, domain)
    law = BlockLaw([(c, inverse_distance_law(domain.sizes[list(c)], retention)) for c in members])
    return Protocol.of("RR-Clusters (inverse-distance)", domain, law, named(members, domain), learned)


def optimum(domain: Domain, profile: Epsilons, total_epsilon: float, preserve_pairs: bool = True) -> Protocol:
    """Randomize the whole record by the optimum at ``total_epsilon`` nats.

    Accuracies are proportional to ``profile``.
    """
    shares = _checked(domain, profile)
    law = optimum_at_total(domain.sizes, shares, total_epsilon, preserve_pairs).law
    return Protocol.of("optimum", domain, law, [domain.names])


def of_design(design: Design, learned: Account = NOTHING) -> Protocol:
    """Build the protocol of a design, with its blocks or one block."""
    return Protocol.of(design.method, design.domain, design.law, block_names(design.domain, design.law), learned)


def block_names(domain: Domain, law: Law) -> tuple[tuple[str, ...], ...]:
    """Name a distribution's independent blocks, or all attributes as one."""
    blocks = tuple(tuple(sorted(members)) for members, _ in law.blocks)
    return named(blocks, domain) if blocks else (domain.names,)


def _checked(domain: Domain, epsilons: Epsilons) -> FloatArray:
    vector, high = epsilon_vector(domain, epsilons), EPSILON_RANGE[1]
    wrong = np.flatnonzero(~((vector >= 0) & (vector <= high)))
    if wrong.size:
        name, value = domain.names[wrong[0]], vector[wrong[0]]
        raise InvalidInput(f"attribute {name!r} has epsilon {value}; give a finite number of nats from 0 to {high:g}")
    return vector
