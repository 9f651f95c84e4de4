"""Clusters of the attributes of randomized records, and the design that randomizes each of them jointly (MDR §4)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from optrr.core.design.designs import Design
from optrr.core.display.result import TableResult, in_json
from optrr.core.display.text import epsilon_text
from optrr.core.errors import InvalidInput
from optrr.core.estimation.plausibility import impossible
from optrr.core.protocols.clustering import Algorithm, NamedClusters, choose_clusters, combinations_of
from optrr.core.protocols.dependence import Dependences, dependences_from_tables, pair_tables
from optrr.core.protocols.protocol import ClusterMatrix, cluster_design
from optrr.core.provenance.accounting import Release, Spent
from optrr.core.reports import Reports


@dataclass(frozen=True, eq=False, repr=False)
class AttributeClusters(TableResult):
    """Clusters of attributes, their dependences, and the second release's design.

    A respondent who takes part in both releases consumes the ε of both.
    """

    clusters: NamedClusters
    algorithm: Algorithm
    max_combinations: int
    dependences: Dependences
    design: Design
    doubts: tuple[str, ...] = ()

    @property
    def combinations(self) -> list[int]:
        """Number of combinations of categories of each cluster."""
        domain = self.design.domain
        return [combinations_of(domain.indices(names), domain.sizes.tolist()) for names in self.clusters]

    @property
    def epsilon(self) -> dict[str, float]:
        """Total ε in nats of learning the dependences, of the release, and of both."""
        account = self.dependences.account
        both = account.plus(Spent("release", self.design.epsilon)).epsilon
        return {"learning": account.epsilon, "release": self.design.epsilon, "total": both}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the records, and attributes too large for any cluster."""
        oversized = (
            f"{names[0]!r} alone has {number} categories, more than {self.max_combinations}; merge some categories"
            for names, number in zip(self.clusters, self.combinations, strict=True)
            if number > self.max_combinations
        )
        return (*self.doubts, *oversized)

    def headline(self) -> str:
        """Summarize the clusters and their ε."""
        spent = {name: epsilon_text(epsilon) for name, epsilon in self.epsilon.items()}
        return (
            f"{len(self.clusters)} clusters; total epsilon {spent['total']}: {spent['learning']} for learning, "
            f"{spent['release']} for the release"
        )

    def to_arrow(self) -> pa.Table:
        """Convert to a table with one row per cluster: attributes, combinations."""
        return pa.table({"attributes": [", ".join(c) for c in self.clusters], "combinations": self.combinations})

    def summary(self) -> dict[str, Any]:
        """Return the clusters, the ε of both releases, and the dependences."""
        return {
            "clusters": [list(names) for names in self.clusters],
            "combinations": self.combinations,
            "algorithm": self.algorithm,
            "method": self.design.method,
            "epsilon": self.epsilon,
            "attributes": list(self.dependences.names),
            "dependence": in_json(self.dependences.matrix),
            "warnings": list(self.warnings),
        }


def cluster(  # noqa: PLR0913 (public: each argument is one choice of the user)
    reports: Reports,
    max_combinations: int,
    min_dependence: float,
    algorithm: Algorithm = "greedy",
    *,
    clusters: int | None = None,
    ordinal: Collection[str] = (),
    attenuated: bool = False,
    matrix: ClusterMatrix = "joint",
) -> AttributeClusters:
    """Cluster attributes by their dependences in randomized records.

    Parameters
    ----------
    max_combinations
        T_v: largest number of combinations of categories of a cluster, 2 or more.
    min_dependence
        T_d: weakest dependence at which attributes are put into one cluster, 0 to 1.
    algorithm
        "greedy" (MDR's Algorithm 1) or "pic" (SIC's power iteration).
    clusters
        number of groups of "pic", by default 3.
    ordinal
        attributes whose categories are in order; pairs of them are measured by correlation, others by Cramér's V.
    attenuated
        measure dependence in the randomized records, without undoing the noise (MDR §4.1).
    matrix
        Randomization of a cluster in the second release (:mod:`optrr.core.protocols.protocol`).

    Returns
    -------
    AttributeClusters
        with the ``design`` of the second release, which consumes the sum of the first design's attribute ε; with matrix
        "least-epsilon" less.

    Raises
    ------
    InvalidInput
        for records of another design, limits out of range, or an unknown algorithm or matrix.

    Examples
    --------
    >>> import optrr, pandas
    >>> design = optrr.design({"smokes": ["no", "yes"], "drinks": ["no", "yes"], "left-handed": ["no", "yes"]}, 3.0)
    >>> habits = {"smokes": ["no", "yes"] * 1000, "drinks": ["no", "yes"] * 1000}
    >>> true = pandas.DataFrame(habits | {"left-handed": ["no", "no", "yes", "yes"] * 500})
    >>> reports = optrr.reports(design.randomize(true, random_state=1), design)
    >>> reports.cluster(max_combinations=4, min_dependence=0.5).clusters
    (('smokes', 'drinks'), ('left-handed',))
    """
    first = reports.asking
    if not isinstance(first, Design):
        raise InvalidInput("clusters need records that a design randomized; give its reports")
    if clusters is not None and algorithm == "greedy":
        raise InvalidInput("``clusters``: only for algorithm 'pic'; leave ``clusters`` out")
    mechanism = reports.randomizer
    tables = pair_tables(reports.place, mechanism)
    learned = dependences_from_tables(
        tables, mechanism, ordinal=ordinal, correct=not attenuated, small_sample=not attenuated
    )
    chosen = choose_clusters(
        first.domain, learned, max_combinations, min_dependence, algorithm, 3 if clusters is None else clusters
    )
    # the releases that made the records; if these have no provenance, one without an id
    earlier = [r for each in reports.stated for r in each.releases] or [Release.of(first)]
    second = cluster_design(first, chosen, matrix, learned.account, earlier)
    doubts = (*reports.unweighted_doubts, *impossible(tables.values(), mechanism))
    return AttributeClusters(chosen, algorithm, max_combinations, learned, second, doubts)
