"""A protocol: the mechanism that every client runs, what the collector assumes, and what it all costs one person.

The client side knows the mechanism only. The collector side differs in ``blocks``: the joint distribution is estimated inside
each block, and between blocks attributes are taken to be independent. With one block nothing is assumed.

    RR-Independent (MDR §3.1)   product law, every attribute a block
    RR-Joint (MDR §3.2)         joint law, one block
    RR-Clusters (MDR §4)        block law, every cluster a block
    RR-Ind-Joint (RIJ §3.2)     product law, one block

``adjusted`` adds RR-Adjustment (MDR §5): the randomized records, reweighted until the tables over ``margins`` are the
estimated ones, are the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from optrr.designs.asking import FullRecords
from optrr.designs.baseline import baseline_design
from optrr.designs.cluster.choose import NamedClusters, checked_clusters
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.releases.spent import Account, Spent
from optrr.ways.protocols.message import fingerprint
from optrr_solvers.laws import Law


@dataclass(frozen=True, eq=False)
class Protocol(FullRecords):
    """One multi-attribute protocol.

    As a way of asking it promises what the unbiased estimate from its messages has. The papers' own estimates, which take
    blocks for independent and are never negative, are those of :class:`optrr.ways.protocols.Collector`.

    Parameters
    ----------
    name
        as the papers call it.
    mechanism
        what every client runs on its record.
    blocks
        attribute names that are estimated jointly; a partition. Independence is assumed between blocks.
    learned
        what was spent before, on learning dependences.
    adjusted, margins
        whether RR-Adjustment reweights the records, and to which estimated tables (a partition).

    Raises
    ------
    InvalidInput
        where blocks or margins are no partition of the attributes.
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
    def of(cls, name: str, domain: Domain, law: Law, blocks: Sequence[Sequence[str]], learned: Account) -> Protocol:
        """A protocol from a law over ``domain``."""
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

    @cached_property
    def fingerprint(self) -> str:
        """What messages of this protocol carry."""
        return fingerprint(self.mechanism)

    def with_adjustment(self, margins: Sequence[Sequence[str]] | None = None) -> Protocol:
        """The same messages, estimated by RR-Adjustment.

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
        """Write what its clients run as a design file; estimates from it are unbiased and assume no independence.

        Raises
        ------
        InvalidProblem
            where an attribute's answers say nothing, which no design does.
        """
        baseline_design(self.domain, self.mechanism.law, self.name).save(path)
