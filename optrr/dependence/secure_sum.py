"""Secure sum: n parties learn how many of them are in each cell, and nothing else (MDR §4.2).

Every party holds a vector of zeros and ones (one cell of each table is 1). With all arithmetic modulo n+1:

    1. party i draws shares r_i1, …, r_in that sum to 0, uniform otherwise, and commits to each (a salted digest to party j);
    2. party i sends r_ij to party j alone;
    3. party j adds what it received to its own vector and broadcasts r_j = Σ_i r_ij + x_j;
    4. everybody adds the broadcasts: Σ_j r_j = Σ_j x_j, the counts.

Guaranteed: as long as two parties keep to the protocol and do not pool what they see with the others, the others learn the
sum of their two vectors and nothing more, whatever computing power they have (commitments apart, which hide
computationally: SHA-256 of the share and a 256-bit salt). Detected, with the offender's name: a missing, repeated, malformed
or out-of-range message, and a share that differs from its commitment. Detected without a name: vectors and share sets that
change a table's total. Not detected: a party that lies about its own record (no protocol can); one whose vector or share set
moves counts between the cells of a table, by any amount, for only the totals can be checked (that takes commitments which
add up, and proofs of a single 1); and one that broadcasts different things to different parties (compare the counts
afterwards). So: honest counts need honest parties; privacy does not.

Every party sends n−1 digests, n−1 shares and one broadcast of a number per cell: O(n · cells) per party, O(n² · cells) in all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from optrr_solvers.problem import IntArray
from optrr_solvers.randomness import BitSource, SystemSource, bounded

Stored = TypeVar("Stored")

# The salt must be beyond guessing, or a commitment would tell which small share it hides.
_SALT_WORDS = 4


class SecureSumFailed(ValueError):
    """The protocol must stop: one line that names the party and what is wrong with its message."""


class Commitment(msgspec.Struct, tag="commitment", frozen=True):
    """To one party only: the digest of the share it will get."""

    session: str
    sender: int
    recipient: int
    digest: bytes


class Share(msgspec.Struct, tag="share", frozen=True):
    """To one party only: its share of the sender's zero, one number per cell, and the salt of its commitment."""

    session: str
    sender: int
    recipient: int
    values: tuple[int, ...]
    salt: bytes


class Partial(msgspec.Struct, tag="partial", frozen=True):
    """To all: the sum of the shares received and the sender's own vector, one number per cell."""

    session: str
    sender: int
    values: tuple[int, ...]


Message = Commitment | Share | Partial


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


def decode(raw: bytes) -> Message:
    """A message from bytes. Raises SecureSumFailed for anything else."""
    try:
        found: Message = msgspec.msgpack.decode(raw, type=Message)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SecureSumFailed(f"received {len(raw)} bytes that are no message of the protocol ({error})") from error
    return found


class SecureSumParty:
    """One party: makes its messages, takes the others', and ends with the counts.

    Parameters
    ----------
    index, parties
        its number 0..n−1, and n, at least 3: with two parties the sum tells each the other's vector.
    values
        zeros and ones, shape (cells,).
    tables
        number of cells of each table; every party is in exactly one cell of each, which the counts are checked against.
        By default all cells are one table.
    session
        a name that all parties share and that is never used again.
    source
        randomness; the operating system's unless given (for tests).
    """

    def __init__(  # noqa: PLR0913 (what a party must know before the first message)
        self,
        index: int,
        parties: int,
        values: ArrayLike,
        session: str,
        tables: Sequence[int] | None = None,
        source: BitSource | None = None,
    ) -> None:
        self.index, self.parties, self.session = index, parties, session
        self._values = np.asarray(values, dtype=np.int64)
        self._tables = [self._values.size] if tables is None else list(tables)
        self._check()
        self.modulus = parties + 1
        self._source = SystemSource() if source is None else source
        self._shares = self._draw()
        self._salts = [self._source.words(_SALT_WORDS).tobytes() for _ in range(parties)]
        self._digests: dict[int, bytes] = {}
        self._received: dict[int, IntArray] = {}
        self._partials: dict[int, IntArray] = {}
        self._received[index] = self._shares[index]

    def _check(self) -> None:
        if self.parties < 3 or not 0 <= self.index < self.parties:
            raise SecureSumFailed(
                f"party {self.index} of {self.parties}: a secure sum takes at least 3 parties, numbered from 0"
            )
        if self._values.ndim != 1 or sum(self._tables) != self._values.size or min(self._tables, default=0) < 1:
            raise SecureSumFailed(f"{self._values.size} values for tables of {self._tables} cells; give one value per cell")
        ones = np.add.reduceat(self._values, np.cumsum([0, *self._tables[:-1]]))
        if not np.all((self._values == 0) | (self._values == 1)) or np.any(ones != 1):
            raise SecureSumFailed(f"party {self.index} must hold a single 1, and zeros, in each table")

    def _draw(self) -> IntArray:
        """Shares of zero, shape (n, cells): uniform modulo n+1, the last one makes the sum 0."""
        n, cells = self.parties, self._values.size
        free = bounded(self._source, (n - 1) * cells, self.modulus).reshape(n - 1, cells)
        last = -free.sum(axis=0) % self.modulus
        return np.concatenate([free, last[None, :]]).astype(np.int64)

    def commitments(self) -> list[Commitment]:
        """First messages, one to each other party."""
        self._digests[self.index] = self._digest(self.index, self.index, self._shares[self.index], self._salts[self.index])
        return [
            Commitment(self.session, self.index, j, self._digest(self.index, j, self._shares[j], self._salts[j]))
            for j in range(self.parties)
            if j != self.index
        ]

    def shares(self) -> list[Share]:
        """Second messages, one to each other party. Raises SecureSumFailed while a commitment is missing."""
        self._require(self._digests, "commitment")
        return [
            Share(self.session, self.index, j, tuple(self._shares[j].tolist()), self._salts[j])
            for j in range(self.parties)
            if j != self.index
        ]

    def partial(self) -> Partial:
        """Third message, to all. Raises SecureSumFailed while a share is missing."""
        self._require(self._received, "share")
        total = (sum(self._received.values()) + self._values) % self.modulus
        self._partials[self.index] = total
        return Partial(self.session, self.index, tuple(total.tolist()))

    def counts(self) -> IntArray:
        """How many parties are in each cell, shape (cells,). Raises SecureSumFailed where it cannot be trusted."""
        self._require(self._partials, "partial sum")
        total = np.asarray(sum(self._partials.values()) % self.modulus)
        found = np.add.reduceat(total, np.cumsum([0, *self._tables[:-1]]))
        wrong = np.flatnonzero(found != self.parties)
        if wrong.size:
            raise SecureSumFailed(
                f"table {int(wrong[0])} counts {int(found[wrong[0]])} of {self.parties} parties: some party broke the "
                "protocol; stop, and start a new session"
            )
        return total

    def receive(self, message: Message) -> None:
        """Take a message of another party. Raises SecureSumFailed where it is not acceptable; then stop."""
        self._check_envelope(message)
        match message:
            case Commitment():
                self._store(self._digests, message, message.digest)
            case Share():
                values = self._checked_values(message)
                committed = self._digests.get(message.sender)
                if committed is None:
                    raise self._refused(message, "a share before its commitment")
                if self._digest(message.sender, self.index, values, message.salt) != committed:
                    raise self._refused(message, "a share that differs from its commitment")
                self._store(self._received, message, values)
            case Partial():
                self._store(self._partials, message, self._checked_values(message))

    def _check_envelope(self, message: Message) -> None:
        if message.session != self.session:
            raise self._refused(message, f"a message of session {message.session!r}")
        if not 0 <= message.sender < self.parties or message.sender == self.index:
            raise self._refused(message, "a sender's number that is no other party's")
        if not isinstance(message, Partial) and message.recipient != self.index:
            raise self._refused(message, f"a {type(message).__name__.lower()} meant for party {message.recipient}")

    def _checked_values(self, message: Share | Partial) -> IntArray:
        if len(message.values) != self._values.size:
            raise self._refused(message, f"{len(message.values)} numbers for {self._values.size} cells")
        if not all(0 <= v < self.modulus for v in message.values):
            raise self._refused(message, f"a number outside 0..{self.modulus - 1}")
        return np.asarray(message.values, dtype=np.int64)

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

    def _digest(self, sender: int, recipient: int, values: IntArray, salt: bytes) -> bytes:
        head = f"{self.session}|{sender}|{recipient}|".encode()
        return hashlib.sha256(head + salt + values.astype("<i8").tobytes()).digest()


def run_in_memory(
    parties: Sequence[SecureSumParty], on_message: Callable[[int, Message], None] | None = None
) -> IntArray:
    """Run the protocol between parties in one process; returns the counts, which all parties must agree on.

    ``on_message`` is called as (recipient, message) for every delivery, in order: what that recipient sees.
    """
    for message in [c for p in parties for c in p.commitments()]:
        _show(on_message, message.recipient, message)
        parties[message.recipient].receive(message)
    for share in [s for p in parties for s in p.shares()]:
        _show(on_message, share.recipient, share)
        parties[share.recipient].receive(share)
    for partial in [p.partial() for p in parties]:
        for party in parties:
            if party.index != partial.sender:
                _show(on_message, party.index, partial)
                party.receive(partial)
    results = [p.counts() for p in parties]
    assert all(np.array_equal(results[0], r) for r in results)
    return results[0]


def _show(on_message: Callable[[int, Message], None] | None, recipient: int, message: Message) -> None:
    if on_message is not None:
        on_message(recipient, message)
