"""Secure sum: n parties learn how many of them are in each cell, and nothing else (MDR §4.2).

Every party holds a vector x of zeros and ones, a single 1 in each table. MDR's protocol, with all arithmetic modulo ℓ:

    1. party i draws shares r_i1, …, r_in that sum to 0, uniform otherwise, and commits to each (a salted digest to party j);
    2. party i sends r_ij to party j alone;
    3. party j adds what it received to its own vector and broadcasts r_j = Σ_i r_ij + x_j;
    4. everybody adds the broadcasts: Σ_j r_j = Σ_j x_j, the counts.

With proofs (the default) every party also broadcasts, in step 1, a seal of its vector (:mod:`optrr.studies.secure_sum.sealed`):
commitments X_j = x_j H + t_j G, proved to hold zeros and ones and a single 1 per table. The sum then runs over (x, t), ℓ being
the group's order, and in the end everybody checks Σ_j X_j = c H + T G for the sums (c, T) of every cell. Without proofs
ℓ = n+1, as in MDR.

Privacy, with or without: as long as two parties keep to the protocol and do not pool what they see with the others, the others
learn the sum of their two vectors and nothing more, whatever computing power they have (digests apart, which hide
computationally: SHA-256 of the share and a 256-bit salt).

Detected with the offender's name: a missing, repeated, malformed or out-of-range message, a share that differs from its
commitment; with proofs, a vector that is not a single 1 per table, or a proof copied from another party, cell or session.
Detected without a name: a share set, share or partial sum that does not belong to the sealed vectors, so that counts would
be moved; seals that differ between recipients. Counts that come out are the sums of the sealed vectors, unless
someone takes a logarithm in the group. Without proofs only the tables' totals are checked, and one dishonest party can move
counts between cells unseen: counts then need honest parties, privacy does not.

The parties of a study live in one process, which hands every message over as the one who made it, so a sender named above is
the one who sent it. Nothing here is for a network: messages carry no signature, so what one party holds against another proves
nothing to a third. A name of a session that is used twice is not noticed, because a party keeps nothing from one session to the
next: a message of the first would then pass in the second, with the vector that its sender had then. So draw a new name for
every session, as :mod:`optrr.studies.secure_sum.dependences` does.

Not detected, by any protocol: a party that lies about its own record. A party may also stop the session at any time, even once
it knows the result and the others do not. Sums over different sets of the same parties tell their difference: before a
session is repeated without someone, consider that whoever saw both results knows that one's vector.

Each party sends n−1 commitments, n−1 shares and a broadcast of one (with proofs, two) numbers per cell: O(n · cells) per party,
O(n² · cells) in all. With proofs that is 160 + 64 + 64 bytes per cell and other party.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optrr.studies.secure_sum.group import Group, edwards25519, scalars
from optrr.studies.secure_sum.messages import Commitment, Message, Partial, SecureSumFailed, Share, encode
from optrr.studies.secure_sum.sealed import (
    SCALAR_BYTES,
    PublicChecks,
    Seal,
    SealBroken,
    Statement,
    committed,
    packed,
    seal,
    unpacked,
)
from optrr_solvers.arrays import IntArray
from optrr_solvers.randomness import BitSource, SystemSource, bounded

Stored = TypeVar("Stored")
# int64 without proofs; with them Python's integers in numpy's arithmetic, for the group's order has 253 bits
Numbers = NDArray[Any]

# Bytes of the salt. If it could be guessed, a commitment would tell which small share it hides.
_SALT_WORDS = 4


class SecureSumParty:
    """One party: makes its messages, takes the others', and ends with the counts.

    Parameters
    ----------
    index, parties
        its number 0..n−1, and n, at least 3: with two parties the sum tells each the other's vector.
    values
        zeros and ones, shape (cells,).
    session
        a name that all parties share and that is never used again.
    tables
        number of cells of each table; every party is in exactly one cell of each, which the counts are checked against.
        By default all cells are one table.
    proofs
        whether vectors are sealed and proved (all parties alike). Costs per cell 0.2 ms and another 0.4 ms for every other
        party; without them a dishonest party can move counts unseen.
    source
        randomness; the operating system's unless given (for tests).
    checks
        shared by parties of one process that may believe each other's verdicts on broadcasts; by default its own.

    Raises
    ------
    SecureSumFailed
        for a vector that is not a single 1 per table, or fewer than 3 parties.
    InvalidInput
        where proofs are asked for and PyNaCl is not installed.
    """

    def __init__(  # noqa: PLR0913 (what a party must know before the first message)
        self,
        index: int,
        parties: int,
        values: ArrayLike,
        session: str,
        tables: Sequence[int] | None = None,
        *,
        proofs: bool = True,
        source: BitSource | None = None,
        checks: PublicChecks | None = None,
    ) -> None:
        self.index, self.parties, self.session = index, parties, session
        vector = np.asarray(values)
        self._tables = [vector.size] if tables is None else list(tables)
        bits = self._checked_vector(vector)
        self._source = SystemSource() if source is None else source
        self._statement = Statement(session, parties, tuple(self._tables))
        self._group: Group | None = edwards25519() if proofs else None
        self._checks = PublicChecks() if checks is None else checks
        self.modulus = parties + 1 if self._group is None else self._group.order
        self._width = SCALAR_BYTES if self._group else np.min_scalar_type(parties).itemsize
        self._seals: dict[int, Seal] = {}
        self._seal_digests: dict[int, bytes] = {}
        self._own: Numbers = np.array(bits)
        if self._group is not None:
            self._seals[index], factors = seal(self._group, self._statement, index, bits, self._source)
            self._own = np.array(bits + factors, dtype=object)
        self._shares = self._draw()
        self._salts = [self._source.words(_SALT_WORDS).tobytes() for _ in range(parties)]
        self._digests: dict[int, bytes] = {}
        self._received: dict[int, Numbers] = {index: self._shares[index]}
        self._partials: dict[int, Numbers] = {}
        self._seen: dict[int, bytes] = {}

    def _checked_vector(self, values: NDArray[np.generic]) -> list[int]:
        if self.parties < 3 or not 0 <= self.index < self.parties:
            raise SecureSumFailed(
                f"party {self.index} of {self.parties}: a secure sum takes at least 3 parties, numbered from 0"
            )
        if values.ndim != 1 or sum(self._tables) != values.size or min(self._tables, default=0) < 1:
            raise SecureSumFailed(f"{values.size} values for tables of {self._tables} cells; give one value per cell")
        ones = np.add.reduceat(values == 1, np.cumsum([0, *self._tables[:-1]]), dtype=np.int64)
        if not np.all((values == 0) | (values == 1)) or np.any(ones != 1):
            raise SecureSumFailed(f"party {self.index} must hold a single 1, and zeros, in each table")
        return [int(v) for v in values == 1]

    def _draw(self) -> Numbers:
        """Shares of zero, shape (n, numbers): uniform modulo ℓ, the last one makes the sum 0."""
        n, numbers = self.parties, self._own.size
        draw = bounded if self._group is None else scalars
        free = np.array(draw(self._source, (n - 1) * numbers, self.modulus), self._own.dtype).reshape(n - 1, numbers)
        last = -free.sum(axis=0) % self.modulus
        return np.concatenate([free, last[None, :]])

    def commitments(self) -> list[Commitment]:
        """First messages, one to each other party."""
        self._digests[self.index] = b""
        own = self._seals.get(self.index)
        if self._group is not None and own is not None:
            self._seal_digests[self.index] = self._checks.check(self._group, self._statement, self.index, own)
        return [Commitment(s.session, s.sender, s.recipient, self._digest(s), own) for s in self._shares_to_send()]

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
        total: Numbers = (np.sum(list(self._received.values()), axis=0) + self._own) % self.modulus
        self._partials[self.index] = total
        self._seen[self.index] = self._all_seals()
        return Partial(self.session, self.index, self._bytes_of(total), self._seen[self.index])

    def counts(self) -> IntArray:
        """How many parties are in each cell, shape (cells,). Raises SecureSumFailed where it cannot be trusted."""
        self._require(self._partials, "partial sum")
        strange = [j for j, seen in self._seen.items() if seen != self._all_seals()]
        if strange:
            raise SecureSumFailed(
                f"party {strange[0]} saw other seals than party {self.index}: some party sent different ones to different "
                "parties; stop, and start a new session"
            )
        total: Numbers = np.sum(list(self._partials.values()), axis=0) % self.modulus
        if self._group is None:
            return self._with_right_totals(total)
        return self._that_open_the_seals(self._group, total)

    def _with_right_totals(self, total: Numbers) -> IntArray:
        counted = np.add.reduceat(total, np.cumsum([0, *self._tables[:-1]]))
        wrong = np.flatnonzero(counted != self.parties)
        if wrong.size:
            raise SecureSumFailed(
                f"table {int(wrong[0])} counts {int(counted[wrong[0]])} of {self.parties} parties: some party broke the "
                "protocol; stop, and start a new session"
            )
        return total

    def _that_open_the_seals(self, group: Group, total: Numbers) -> IntArray:
        """c of every cell where Σ_j X_j = c H + T G."""
        seals = [self._seals[j] for j in range(self.parties)]
        sums = self._checks.sums(group, self._all_seals(), seals)
        for cell, (point, opened) in enumerate(zip(sums, committed(group, total), strict=True)):
            if point != opened:
                raise SecureSumFailed(
                    f"the sum of cell {cell} does not open the parties' seals: some party broke the protocol with a share "
                    "or a partial sum; stop the session"
                )
        return np.split(total, 2)[0].astype(np.int64)

    def receive(self, message: Message) -> None:
        """Take a message of another party. Raises SecureSumFailed where it is not acceptable; then stop."""
        self.check_envelope(message)
        match message:
            case Commitment():
                if message.sender not in self._digests:
                    self._take_seal(message)
                self._store(self._digests, message, message.digest)
            case Share():
                values = self._checked_numbers(message)
                committed = self._digests.get(message.sender)
                if committed is None:
                    raise self._refused(message, "a share before its commitment")
                if self._digest(message) != committed:
                    raise self._refused(message, "a share that differs from its commitment")
                self._store(self._received, message, values)
            case Partial():
                self._store(self._partials, message, self._checked_numbers(message))
                self._seen[message.sender] = message.seen

    def _take_seal(self, message: Commitment) -> None:
        if (message.seal is None) != (self._group is None):
            raise self._refused(message, "a commitment " + ("with" if message.seal else "without") + " a seal")
        if self._group is None or message.seal is None:
            return
        try:
            digest = self._checks.check(self._group, self._statement, message.sender, message.seal)
        except SealBroken as error:
            raise self._refused(message, str(error)) from error
        self._seals[message.sender], self._seal_digests[message.sender] = message.seal, digest

    def _all_seals(self) -> bytes:
        """Digest of all parties' seals, as this party has them; empty without proofs."""
        if self._group is None:
            return b""
        return hashlib.sha256(b"".join(self._seal_digests[j] for j in range(self.parties))).digest()

    def check_envelope(self, message: Message) -> None:
        """Raises SecureSumFailed for a message of another session, from nobody, or to somebody else."""
        if message.session != self.session:
            raise self._refused(message, f"a message of session {message.session!r}")
        if not 0 <= message.sender < self.parties or message.sender == self.index:
            raise self._refused(message, "a sender's number that is no other party's")
        if isinstance(message, Commitment | Share) and message.recipient != self.index:
            raise self._refused(message, f"a {type(message).__name__.lower()} meant for party {message.recipient}")

    def _checked_numbers(self, message: Share | Partial) -> Numbers:
        expected = self._own.size * self._width
        if len(message.numbers) != expected:
            raise self._refused(message, f"{len(message.numbers)} bytes of numbers where {expected} belong")
        values = self._numbers_of(message.numbers)
        if np.any((values < 0) | (values >= self.modulus)):
            raise self._refused(message, f"a number outside 0..{self.modulus - 1}")
        return values

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

    def _bytes_of(self, numbers: Numbers) -> bytes:
        return packed(numbers.tolist(), self._width) if self._group else numbers.astype(f"<u{self._width}").tobytes()

    def _numbers_of(self, raw: bytes) -> Numbers:
        if self._group:
            return np.array(unpacked(raw, self._width), dtype=object)
        return np.frombuffer(raw, f"<u{self._width}").astype(np.int64)

    def _digest(self, share: Share) -> bytes:
        return hashlib.sha256(encode(share)).digest()
