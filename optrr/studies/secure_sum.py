"""Secure sum: n parties learn how many of them are in each cell, and nothing else (MDR §4.2).

Every party holds a vector x of zeros and ones, a single 1 in each table. All arithmetic is modulo ℓ = n+1:

    1. party i draws shares r_i1, …, r_in that sum to 0, uniform otherwise, and commits to each (a salted digest to party j);
    2. party i sends r_ij to party j alone;
    3. party j adds what it received to its own vector and broadcasts r_j = Σ_i r_ij + x_j;
    4. everybody adds the broadcasts: Σ_j r_j = Σ_j x_j, the counts.

Privacy: as long as two parties keep to the protocol and do not pool what they see with the others, the others learn the sum of
their two vectors and nothing more, whatever computing power they have (digests apart, which hide computationally: SHA-256 of
the share and a 256-bit salt).

Detected with the offender's name: a missing, repeated, malformed or out-of-range message, and a share that differs from its
commitment. Otherwise only the tables' totals are checked: one dishonest party can move counts between the cells of a table
unseen. Counts need honest parties, privacy does not.

The parties of a study live in one process, which hands every message over as the one who made it. Nothing here is for a
network: messages carry no signature, and a party keeps nothing from one session to the next, so that a session's name must be
new. Sums over different sets of the same parties tell their difference: before a session is repeated without someone, consider
that whoever saw both results knows that one's vector.

Each party sends n−1 commitments, n−1 shares and a broadcast of one number per cell: O(n · cells) per party, and
O(n² · cells) in all.

Dependences come from pair tables counted under secure sum: of true values (MDR §4.2), or of randomized pairs (MDR §4.3, SIC
§4). §4.2 publishes the exact two-way tables: nobody's record is seen, but the tables are not differentially private (a cell
that counts one person links that person's values). §4.3 randomizes each pair first. MDR would count its ε once per attribute,
because the sum makes releases unlinkable; that rests on the secure sum, so the label here is the sum over all pairs, which
holds whatever the others see, and the smaller figure stands in the warning. SIC §4 is §4.3 without the secure sum.
"""

import hashlib
import math
import secrets
from collections.abc import Callable, Collection, Container, Sequence
from itertools import combinations
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.core.display.text import sum_of_epsilons
from optrr.core.domain.domain import Domain, PairScores, checked_codes
from optrr.core.errors import OptrrError
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.protocols.dependence import Dependences, RandomizedPair, dependence_matrix, dependence_of, needing_pairs
from optrr.core.provenance.accounting import Account, Spent, checked_epsilon
from optrr_solvers.arrays import IntArray
from optrr_solvers.laws.few_changes import joint_law
from optrr_solvers.randomness import BitSource, RandomState, SystemSource, as_source, bounded

# Words of the salt. If it could be guessed, a commitment would tell which small share it hides.
_SALT_WORDS = 4


class SecureSumFailed(OptrrError, ValueError):
    """The protocol must stop: one line that names the party and what is wrong with its message."""


class Commitment(msgspec.Struct, tag="commitment", frozen=True):
    """To one party: the digest of the share it will get."""

    session: str
    sender: int
    recipient: int
    digest: bytes


class Share(msgspec.Struct, tag="share", frozen=True):
    """To one party only: its share of the sender's zero, numbers run together, and the salt of its commitment."""

    session: str
    sender: int
    recipient: int
    numbers: bytes
    salt: bytes


class Partial(msgspec.Struct, tag="partial", frozen=True):
    """To all: the sum of the shares received and of the sender's own numbers."""

    session: str
    sender: int
    numbers: bytes


Message = Commitment | Share | Partial
Sent = TypeVar("Sent", bound=Message)
Stored = TypeVar("Stored")
PairTables = dict[tuple[str, str], IntArray]
_EXACT = "exact two-way tables: confidential by secure sum, but not differentially private"


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


class SecureSumParty:
    """One party: makes its messages, takes the others', and ends with the counts.

    It is number ``index`` of ``parties``, 0..n−1, of at least 3: with two parties the sum tells each the other's vector.
    ``values`` are zeros and ones, shape (cells,); ``tables`` the number of cells of each table (by default all are one): every
    party is in exactly one cell of each, which the counts are checked against. All parties share the ``session``, a name that
    is never used again. ``source`` is the randomness, the operating system's unless given (for tests).

    Raises SecureSumFailed for a vector that is not a single 1 per table, or fewer than 3 parties.
    """

    def __init__(  # noqa: PLR0913 (what a party must know before the first message)
        self,
        index: int,
        parties: int,
        values: ArrayLike,
        session: str,
        tables: Sequence[int] | None = None,
        *,
        source: BitSource | None = None,
    ) -> None:
        self.index, self.parties, self.session, self.modulus = index, parties, session, parties + 1
        vector = np.asarray(values)
        self._tables = [vector.size] if tables is None else list(tables)
        self._own = self._checked_vector(vector)
        self._type = np.min_scalar_type(parties).newbyteorder("<")
        source = SystemSource() if source is None else source
        # shares of zero, shape (n, cells): uniform modulo ℓ, the last one makes the sum 0
        free = bounded(source, (parties - 1) * vector.size, self.modulus).reshape(parties - 1, vector.size)
        self._shares = np.vstack([free, -free.sum(axis=0) % self.modulus]).astype(np.int64)
        self._salts = [source.words(_SALT_WORDS).tobytes() for _ in range(parties)]
        self._digests: dict[int, bytes] = {index: b""}
        self._received: dict[int, IntArray] = {index: self._shares[index]}
        self._partials: dict[int, IntArray] = {}

    def _checked_vector(self, values: NDArray[np.generic]) -> IntArray:
        if self.parties < 3 or not 0 <= self.index < self.parties:
            raise SecureSumFailed(
                f"party {self.index} of {self.parties}: a secure sum takes at least 3 parties, numbered from 0"
            )
        if values.ndim != 1 or sum(self._tables) != values.size or min(self._tables, default=0) < 1:
            raise SecureSumFailed(f"{values.size} values for tables of {self._tables} cells; give one value per cell")
        ones = np.add.reduceat(values == 1, np.cumsum([0, *self._tables[:-1]]), dtype=np.int64)
        if not np.all((values == 0) | (values == 1)) or np.any(ones != 1):
            raise SecureSumFailed(f"party {self.index} must hold a single 1, and zeros, in each table")
        return np.asarray(values == 1, dtype=np.int64)

    def commitments(self) -> list[Commitment]:
        """First messages, one to each other party."""
        return [Commitment(s.session, s.sender, s.recipient, _digest(s)) for s in self._shares_to_send()]

    def shares(self) -> list[Share]:
        """Second messages, one to each other party. Raises SecureSumFailed while a commitment is missing."""
        self._require(self._digests, "commitment")
        return self._shares_to_send()

    def _shares_to_send(self) -> list[Share]:
        return [
            Share(self.session, self.index, j, self._bytes_of(self._shares[j]), self._salts[j])
            for j in range(self.parties)
            if j != self.index
        ]

    def partial(self) -> Partial:
        """Third message, to all. Raises SecureSumFailed while a share is missing."""
        self._require(self._received, "share")
        total = (np.sum(list(self._received.values()), axis=0) + self._own) % self.modulus
        self._partials[self.index] = total
        return Partial(self.session, self.index, self._bytes_of(total))

    def counts(self) -> IntArray:
        """How many parties are in each cell, shape (cells,). Raises SecureSumFailed where it cannot be trusted."""
        self._require(self._partials, "partial sum")
        total = np.sum(list(self._partials.values()), axis=0) % self.modulus
        counted = np.add.reduceat(total, np.cumsum([0, *self._tables[:-1]]))
        wrong = np.flatnonzero(counted != self.parties)
        if wrong.size:
            raise SecureSumFailed(
                f"table {int(wrong[0])} counts {int(counted[wrong[0]])} of {self.parties} parties: some party broke the "
                "protocol; stop, and start a new session"
            )
        return np.asarray(total)

    def receive(self, message: Message) -> None:
        """Take a message of another party. Raises SecureSumFailed where it is not acceptable; then stop."""
        if message.session != self.session:
            raise self._refused(message, f"a message of session {message.session!r}")
        if not 0 <= message.sender < self.parties or message.sender == self.index:
            raise self._refused(message, "a sender's number that is no other party's")
        if isinstance(message, Commitment | Share) and message.recipient != self.index:
            raise self._refused(message, f"a {type(message).__name__.lower()} meant for party {message.recipient}")
        match message:
            case Commitment():
                self._store(self._digests, message, message.digest)
            case Share():
                values = self._checked_numbers(message)
                committed = self._digests.get(message.sender)
                if committed is None:
                    raise self._refused(message, "a share before its commitment")
                if _digest(message) != committed:
                    raise self._refused(message, "a share that differs from its commitment")
                self._store(self._received, message, values)
            case Partial():
                self._store(self._partials, message, self._checked_numbers(message))

    def _checked_numbers(self, message: Share | Partial) -> IntArray:
        expected = self._own.size * self._type.itemsize
        if len(message.numbers) != expected:
            raise self._refused(message, f"{len(message.numbers)} bytes of numbers where {expected} belong")
        values = np.frombuffer(message.numbers, self._type).astype(np.int64)
        if np.any(values >= self.modulus):
            raise self._refused(message, f"a number outside 0..{self.modulus - 1}")
        return values

    def _bytes_of(self, numbers: IntArray) -> bytes:
        return numbers.astype(self._type).tobytes()

    def _store(self, where: dict[int, Stored], message: Message, value: Stored) -> None:
        if message.sender in where:
            raise self._refused(message, f"a second {type(message).__name__.lower()}")
        where[message.sender] = value

    def _require(self, where: Container[int], what: str) -> None:
        missing = [j for j in range(self.parties) if j not in where]
        if missing:
            raise SecureSumFailed(
                f"party {self.index} has no {what} from party {missing[0]}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + "; wait for it, or start a new session without it"
            )

    def _refused(self, message: Message, why: str) -> SecureSumFailed:
        return SecureSumFailed(f"party {self.index} received from party {message.sender} {why}; stop the session")


def _digest(share: Share) -> bytes:
    return hashlib.sha256(encode(share)).digest()


def run_in_memory(
    parties: Sequence[SecureSumParty], on_message: Callable[[int, Message], None] | None = None
) -> IntArray:
    """Run the protocol between parties in one process; returns the counts, which all parties must agree on.

    ``on_message`` is called as (recipient, message) for every delivery, in order: what that recipient sees.
    """

    def deliver(message: Message, recipient: int) -> None:
        if on_message is not None:
            on_message(recipient, message)
        parties[recipient].receive(message)

    for commitment in [c for p in parties for c in _of(p, p.commitments())]:
        deliver(commitment, commitment.recipient)
    for share in [s for p in parties for s in _of(p, p.shares())]:
        deliver(share, share.recipient)
    for partial in [m for p in parties for m in _of(p, [p.partial()])]:
        for party in parties:
            if party.index != partial.sender:
                deliver(partial, party.index)
    results = [p.counts() for p in parties]
    if not all(np.array_equal(results[0], r) for r in results):
        raise SecureSumFailed(
            "the parties end with different counts: some party broke the protocol; start a new session"
        )
    return results[0]


def _of(party: SecureSumParty, messages: Sequence[Sent]) -> Sequence[Sent]:
    """A party's messages, which must bear its own number: otherwise another would be blamed for them."""
    for message in messages:
        if message.sender != party.index:
            raise SecureSumFailed(f"party {party.index} sent a message as party {message.sender}; stop the session")
    return messages


def pair_cells(domain: Domain) -> list[int]:
    """Number of cells of every pair's table, pairs in the order of ``combinations(domain.names, 2)``."""
    return [math.prod(pair) for pair in combinations(domain.sizes.tolist(), 2)]


def cells_of(codes: NDArray[np.integer], domain: Domain) -> IntArray:
    """Which cell of each pair's table each record is in, shape (n, pairs)."""
    columns = codes.T.astype(np.int64)
    pairs = combinations(range(domain.m), 2)
    return np.stack([columns[i] * int(domain.sizes[j]) + columns[j] for i, j in pairs], axis=1)


def pair_vector(cells: ArrayLike, domain: Domain) -> IntArray:
    """One record's cells as zeros and ones over all pair tables: what a party puts into the sum."""
    sizes = pair_cells(domain)
    out = np.zeros(sum(sizes), dtype=np.int64)
    out[np.cumsum([0, *sizes[:-1]]) + np.asarray(cells, dtype=np.int64)] = 1
    return out


def tables_of(counts: IntArray, domain: Domain) -> PairTables:
    """The summed vector cut into its tables."""
    pieces = np.split(counts, np.cumsum(pair_cells(domain))[:-1])
    names = combinations(domain.names, 2)
    return {p: c.reshape(domain[p[0]].size, domain[p[1]].size) for p, c in zip(names, pieces, strict=True)}


def tallied(cells: IntArray, domain: Domain) -> PairTables:
    """Pair tables counted by whoever sees all the cells: the same result as any secure sum, for studies and for SIC §4."""
    counts = [np.bincount(column, minlength=size) for column, size in zip(cells.T, pair_cells(domain), strict=True)]
    return tables_of(np.concatenate(counts), domain)


def securely_summed(cells: IntArray, domain: Domain) -> PairTables:
    """Pair tables by really running the secure sum between one party per record, in memory.

    O(n² · cells) time: for tens of parties (n = 50 with 100 cells: about 0.2 s).

    Raises SecureSumFailed for fewer than 3 records.
    """
    session, sizes = secrets.token_hex(16), pair_cells(domain)
    parties = [
        SecureSumParty(i, len(cells), pair_vector(row, domain), session, sizes) for i, row in enumerate(cells.tolist())
    ]
    if not parties:
        raise SecureSumFailed("a secure sum takes at least 3 parties; there are no records")
    return tables_of(run_in_memory(parties), domain)


def dependences_by_secure_sum(
    tables: PairTables, domain: Domain, *, ordinal: Collection[str] = (), small_sample: bool = False
) -> Dependences:
    """Dependences from exact pair tables (MDR §4.2). The account says that no finite ε covers this."""
    matrix = dependence_matrix(
        domain, ordinal, lambda names, scores: dependence_of(tables[names], scores, small_sample)
    )
    return Dependences(domain.names, matrix, Account((Spent("secure sum of true pairs", float("inf"), _EXACT),)))


def randomized_cells(
    codes: NDArray[np.integer], domain: Domain, pair_epsilon: float, random_state: RandomState = None
) -> IntArray:
    """Each pair of each record randomized on its own by RR-Joint at ``pair_epsilon`` nats: cells, shape (n, pairs)."""
    checked, source = checked_codes(codes, domain), as_source(random_state)
    out = []
    for names in combinations(domain.names, 2):
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        randomized = mechanism.perturb_codes(checked[:, list(domain.indices(names))], source)  # type: ignore[arg-type]
        out.append(cells_of(randomized, mechanism.domain)[:, 0])
    return np.stack(out, axis=1)


def dependences_by_randomized_pairs(  # noqa: PLR0913 (all but three have defaults)
    codes: NDArray[np.integer],
    domain: Domain,
    pair_epsilon: float,
    *,
    ordinal: Collection[str] = (),
    small_sample: bool = True,
    random_state: RandomState = None,
    summed: Callable[[IntArray, Domain], PairTables] = tallied,
) -> Dependences:
    """Each party randomizes every pair of its record at ``pair_epsilon`` nats; the pairs are summed (MDR §4.3, SIC §4).

    ``summed`` turns cells into tables: ``tallied`` counts them at once, ``securely_summed`` runs the secure sum.

    Raises InvalidInput for codes outside the domain, fewer than two attributes, or ``pair_epsilon`` outside 1e-6..50.
    """
    tables = summed(randomized_cells(codes, needing_pairs(domain), pair_epsilon, random_state), domain)

    def measure(names: tuple[str, str], scores: PairScores | None) -> float:
        mechanism = _pair_mechanism(domain, names, pair_epsilon)
        return RandomizedPair.of(tables[names], mechanism, names).corrected(scores, small_sample)

    matrix = dependence_matrix(domain, ordinal, measure)
    return Dependences(domain.names, matrix, randomized_pairs_account(domain, pair_epsilon))


def randomized_pairs_account(domain: Domain, pair_epsilon: float) -> Account:
    """ε of releasing every pair once, the sum over m(m−1)/2 pairs; MDR's smaller claim goes into the warning."""
    each = [_pair_mechanism(domain, names, pair_epsilon).epsilon for names in combinations(domain.names, 2)]
    total = sum_of_epsilons(each)
    claim = (
        f"MDR counts each attribute once instead of {domain.m - 1} times, taking the releases as unlinkable: that holds only "
        "as far as the secure sum does"
    )
    return Account((Spent("randomized pairs for dependence", total, claim),))


def _pair_mechanism(domain: Domain, names: tuple[str, str], pair_epsilon: float) -> Mechanism:
    pair = domain.subset(names)
    return Mechanism(pair, joint_law(pair.sizes, checked_epsilon(pair_epsilon, "pair_epsilon")))
