"""A protocol: the mechanism that every client runs, what the collector assumes, and what it all costs one person.

The client side knows the mechanism only. The collector side differs in ``blocks``: the joint distribution is estimated inside
each block, and between blocks attributes are taken to be independent. With one block nothing is assumed.

    RR-Independent (MDR §3.1)   product law, every attribute a block
    RR-Joint (MDR §3.2)         joint law, one block
    RR-Clusters (MDR §4)        block law, every cluster a block
    RR-Ind-Joint (RIJ §3.2)     product law, one block

``adjusted`` adds RR-Adjustment (MDR §5): the randomized records, reweighted until the tables over ``margins`` are the
estimated ones, are the estimate.

A client sends one randomized record, always the same, and which mechanism made it. Messages that are no randomized records of
this protocol are refused, with the reason, and count for nothing. Distinct records are kept with their counts, so memory is
O(distinct records · m).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr.designs.clustering import NamedClusters, checked_clusters
from optrr.designs.design import FullRecords
from optrr.designs.design_file import save_design
from optrr.designs.solving import baseline_design
from optrr.domain.domain import Category, Domain, category_text, checked_codes, listed
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.records.counts import MAX_CELLS
from optrr.releases.provenance import Account, Spent
from optrr.tables.estimation.adjustment import AdjustedRecords, adjust
from optrr.tables.estimation.estimator import (
    ADJUSTMENT_ROUNDS,
    Estimate,
    check_confidence,
    check_records,
    with_errors,
    with_intervals,
)
from optrr.tables.estimation.simplex import FittedTable, clip
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law
from optrr_solvers.laws.record import record_of
from optrr_solvers.randomness import RandomState

# What is spent before by those who learn nothing first.
NOTHING = Account()
# Up to this many reasons of refused messages are stored; the number of refusals is counted in full.
_REASONS = 100
_BIAS = (
    "biased where cells are near 0, which are never negative; tables across blocks are products, which is right where the "
    "blocks are independent"
)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One randomized record: one category per attribute, in the domain's order.

    ``mechanism`` is the fingerprint of the domain and law that randomized it; ``serial`` is random, so that a message that
    arrives twice is counted once, and says nothing about the sender.
    """

    mechanism: str
    serial: str
    values: tuple[str | int | float | bool | None, ...]

    def to_bytes(self) -> bytes:
        """JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Message:
        """Read JSON. Raises InvalidInput for anything that is not a message."""
        try:
            return msgspec.json.decode(raw, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"{len(raw)} bytes are not a randomized record ({error}); drop them") from error


def fingerprint(mechanism: Mechanism) -> str:
    """The same for the same domain and law, and for no other (SHA-256)."""
    declared = [(a.name, list(a.categories)) for a in mechanism.domain]
    content = msgspec.json.encode((declared, record_of(mechanism.law)), order="sorted")
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, eq=False)
class Protocol(FullRecords):
    """One multi-attribute protocol.

    As a way of asking it promises what the unbiased estimate from its messages has. The papers' own estimates, which take
    blocks for independent and are never negative, are those of :class:`optrr.ways.protocols.Collector`.

    Every client runs the ``mechanism`` on its record. ``blocks`` are attribute names that are estimated jointly, a partition:
    independence is assumed between blocks. ``learned`` is what was spent before, on learning dependences; ``adjusted`` and
    ``margins`` say whether RR-Adjustment reweights the records, and to which estimated tables (a partition).

    Raises InvalidInput where blocks or margins are no partition of the attributes.
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
    ) -> Protocol:
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

        Raises InvalidProblem where an attribute's answers say nothing, which no design does.
        """
        save_design(baseline_design(self.domain, self.mechanism.law, self.name), path)


class Client:
    """Randomizes one record, once, for one protocol; keeps the message and forgets the record.

    Asking again, from another thread, or from a copy gives the same message: a second draw would be a second release and spend
    the ε again. ``record`` holds one category per attribute, by name; ``random_state`` None draws from the operating system,
    and anything else is for studies.

    Raises InvalidInput for a missing or unknown attribute, or an undeclared category. The record's values are not repeated in
    it.
    """

    def __init__(self, protocol: Protocol, record: Mapping[str, Category], random_state: RandomState = None) -> None:
        domain = protocol.domain
        for name in record:
            domain.index(name)
        missing = [n for n in domain.names if n not in record]
        if missing:
            raise InvalidInput(f"the record has no {missing[0]!r}; give one value for each of {listed(domain.names)}")
        codes = [a.codes.get(category_text(record[a.name])) for a in domain]
        if None in codes:
            unknown = domain.attributes[codes.index(None)]
            raise InvalidInput(
                f"the record's {unknown.name!r} is not a declared category; declared are {listed(unknown.texts)}"
            )
        drawn = protocol.mechanism.perturb_codes(np.asarray([codes], dtype=np.int64), random_state)[0]
        values = tuple(a.categories[int(c)] for a, c in zip(domain, drawn, strict=True))
        self._message = Message(protocol.fingerprint, secrets.token_hex(16), values)

    @property
    def message(self) -> Message:
        """The randomized record, always the same."""
        return self._message


class Collector:
    """Collects the messages of one protocol.

    ``refused`` counts messages that were not accepted, ``reasons`` holds the first hundred reasons.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.refused = 0
        self.reasons: list[str] = []
        self._seen: set[str] = set()
        self._parts: list[IntArray] = []
        self._fresh: list[list[int]] = []
        self._tally: tuple[IntArray, IntArray] | None = None

    def receive(self, message: Message | bytes) -> None:
        """Take one message; the same one again changes nothing.

        Raises InvalidInput where it is no randomized record of this protocol. The message is then left out of every estimate.
        """
        received = Message.from_bytes(message) if isinstance(message, bytes) else message
        if not isinstance(received, Message):
            raise InvalidInput(f"received a {type(received).__name__} where a message or its bytes belong; drop it")
        if received.mechanism != self.protocol.fingerprint:
            raise InvalidInput("the message was made by another mechanism; the client must use this protocol's design")
        domain = self.protocol.domain
        if len(received.values) != domain.m:
            raise InvalidInput(f"the message has {len(received.values)} values; a record has {domain.m}")
        codes = [a.codes.get(category_text(v)) for a, v in zip(domain, received.values, strict=True)]
        if None in codes:
            name = domain.names[codes.index(None)]
            raise InvalidInput(f"the message's {name!r} is not a declared category; the record is left out")
        if received.serial not in self._seen:
            self._seen.add(received.serial)
            self._fresh.append([c for c in codes if c is not None])

    def receive_all(self, messages: Iterable[Message | bytes]) -> int:
        """Take many messages; returns how many were acceptable, and remembers why the others were not."""
        accepted = 0
        for message in messages:
            try:
                self.receive(message)
                accepted += 1
            except InvalidInput as error:
                self.refused += 1
                if len(self.reasons) < _REASONS:
                    self.reasons.append(str(error))
        return accepted

    def receive_codes(self, codes: NDArray[np.integer]) -> None:
        """Take randomized records as codes, shape (n, m): for files and studies."""
        self._parts.append(checked_codes(codes, self.protocol.domain).astype(np.int64))

    def records(self) -> tuple[IntArray, IntArray]:
        """Distinct randomized records and their counts: (N, m), (N,). Raises InvalidInput where there are none."""
        if self._fresh:
            self._parts.append(np.asarray(self._fresh, dtype=np.int64))
            self._fresh = []
        if not self._parts:
            raise InvalidInput("no acceptable message was received; there is nothing to estimate from")
        if self._tally is None or int(self._tally[1].sum()) != self.n:
            rows, counts = np.unique(np.concatenate(self._parts), axis=0, return_counts=True)
            self._tally = rows, counts.astype(np.int64)
        return self._tally

    @property
    def n(self) -> int:
        """Number of records received."""
        return sum(len(p) for p in self._parts) + len(self._fresh)

    def estimate(
        self,
        names: Sequence[str],
        whole_blocks: bool = False,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> Estimate:
        """The joint distribution of these attributes, as the protocol estimates it; axes in the order of ``names``.

        With ``whole_blocks`` each block's whole table is estimated, made proper, and then summed over what was not asked for,
        as MDR does; by default only the asked attributes of each block are estimated, which clips far less. ``confidence`` is
        that of the intervals, of each cell alone or, if ``simultaneous``, of all cells together.

        Raises InvalidInput for unknown attributes, fewer than two messages, a confidence outside (0, 1), or a table of more
        than 2^27 cells; SingularMarginal where the mechanism hides the table.
        """
        asked, table = self.protocol.domain.subset(names), self.proportions(names, whole_blocks)
        check_confidence(confidence)
        check_records(self.n)
        # the unbiased estimate's errors, from the same messages, around the protocol's table
        observed = self._observed(self.protocol.domain.indices(asked.names))
        kernel = self.protocol.mechanism.kernel(asked.names)
        named: dict[str, Any] = {"method": self.protocol.name, "bias": _BIAS}
        named |= {"confidence": confidence, "simultaneous": simultaneous}
        plain = with_errors(asked, self.n, FittedTable(table), kernel, observed, **named)
        return with_intervals(plain, kernel, observed)

    def proportions(self, names: Sequence[str], whole_blocks: bool = False) -> FloatArray:
        """The table of `estimate` alone, without errors, which cost more than it where many are asked for."""
        chosen = self.protocol.domain.indices(names)
        if not self.protocol.adjusted:
            return self._product(chosen, whole_blocks)
        _tabulated(self.protocol.domain, chosen)
        records = self.adjusted_records()
        return self._summed(records.codes, records.weights, chosen)

    def adjusted_records(self, max_rounds: int = ADJUSTMENT_ROUNDS) -> AdjustedRecords:
        """RR-Adjustment: the distinct randomized records with weights fitted to the estimated margins (MDR Algorithm 2)."""
        protocol, domain = self.protocol, self.protocol.domain
        rows, counts = self.records()
        margins = protocol.margins or tuple((n,) for n in domain.names)
        groups = [domain.indices(g) for g in margins]
        return adjust(rows, counts, [self._proper(g) for g in groups], groups, max_rounds=max_rounds)

    def _product(self, chosen: Sequence[int], whole_blocks: bool) -> FloatArray:
        """Tables of the blocks, multiplied, axes in the order of ``chosen``."""
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
        """Unbiased estimate of these attributes' table, negatives to 0, rescaled (MDR §6.4)."""
        domain = self.protocol.domain
        sizes, observed = _tabulated(domain, members), self._observed(members)
        kernel = self.protocol.mechanism.kernel([domain.names[i] for i in members])
        return clip(kernel.solve(observed).ravel()).reshape(sizes)

    def _observed(self, members: Sequence[int]) -> FloatArray:
        """Proportions of the randomized records over these attributes."""
        rows, counts = self.records()
        return np.asarray(self._summed(rows, counts, members) / counts.sum())

    def _summed(self, codes: IntArray, weights: FloatArray | IntArray, members: Sequence[int]) -> FloatArray:
        """The weights of these records by their cells over some attributes."""
        sizes = _tabulated(self.protocol.domain, members)
        cells = np.ravel_multi_index(tuple(codes[:, list(members)].T), sizes)
        return np.asarray(np.bincount(cells, weights=weights, minlength=math.prod(sizes)).reshape(sizes))


def _tabulated(domain: Domain, members: Sequence[int]) -> tuple[int, ...]:
    """Shape of the table over these attributes. Raises InvalidInput where it has too many cells."""
    sizes = tuple(int(r) for r in domain.sizes[list(members)])
    if math.prod(sizes) > MAX_CELLS:
        names = listed([domain.names[i] for i in members])
        raise InvalidInput(
            f"the table over {names} has {math.prod(sizes)} cells, more than {MAX_CELLS}; use fewer attributes, "
            "or smaller blocks"
        )
    return sizes
