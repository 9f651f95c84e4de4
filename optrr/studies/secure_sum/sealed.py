"""Sealed vectors: commitments to a single 1 per table, with proofs, that hide the vector and add up over parties.

With x the party's zeros and ones, t_c uniform modulo the group's order ℓ, and bases G, H
(:mod:`optrr.studies.secure_sum.group`):

    seal of cell c        X_c = x_c H + t_c G                                  Pedersen
    zero or one           "I know the logarithm to G of X_c or of X_c − H"     Cramer, Damgård & Schoenmakers, on Schnorr
    one 1 in each table   s = Σ t_c over the table, published: Σ X_c = H + s G

An or-proof is (e_0, e_1, z_0, z_1) with A_b = z_b G − e_b (X − b H) and e_0 + e_1 = hash(…, X, A_0, A_1). The hash (SHA-512
modulo ℓ, Fiat & Shamir) binds in the session, its size and tables, the sender and the cell: a copied proof fails.

Hides perfectly: seals, proofs and openings have the same distribution for every vector with a single 1 per table, whatever
the computing power. Binds computationally: whoever seals anything else, or opens Σ_j X_j to another sum, knows log_G H (the
hash taken as a random oracle). ``proofs/prove_sealed.py`` proves both. Python's integers are not constant-time: a party that
shares its machine with an enemy is not protected.

A cell costs its party about 0.2 ms and each verifier 0.4 ms, and 160 bytes to each (benchmarks/results/protocols_costs.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr.studies.secure_sum.group import Group, NotInGroup, scalars
from optrr_solvers.randomness import BitSource

SCALAR_BYTES = 32

Challenge = Callable[[bytes, bytes], int]


class SealBroken(ValueError):
    """A seal that is malformed or proves nothing: what is wrong, and in which cell or table."""


class Seal(msgspec.Struct, frozen=True):
    """One point per cell, one or-proof (four scalars) per cell, one opening (a scalar) per table; each run together."""

    points: bytes
    proofs: bytes
    openings: bytes


@dataclass(frozen=True)
class Proof:
    """Zero or one: challenges and answers of the two branches, scalars."""

    e0: int
    e1: int
    z0: int
    z1: int


@dataclass(frozen=True)
class Statement:
    """What every hash binds in beside the points: a session's name, number of parties and cells of its tables."""

    session: str
    parties: int
    tables: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Cells of all tables."""
        return sum(self.tables)

    def bounds(self) -> list[tuple[int, int]]:
        """First cell and the one after the last, of every table."""
        ends = [0]
        for size in self.tables:
            ends.append(ends[-1] + size)
        return list(pairwise(ends))

    def challenge(self, group: Group, sender: int, cell: int, point: bytes) -> Challenge:
        """The hash of a proof's first half (A_0, A_1) about one sender's cell, as a scalar."""
        # msgpack is prefix-free: no two statements have the same bytes
        said = ("optrr or-proof", self.session, self.parties, self.tables, sender, cell, group.second, point)

        def hashed(a0: bytes, a1: bytes) -> int:
            digest = hashlib.sha512(msgspec.msgpack.encode((*said, a0, a1))).digest()
            return int.from_bytes(digest, "little") % group.order

        return hashed


def commit(group: Group, bit: int, factor: int) -> bytes:
    """``bit`` H + ``factor`` G."""
    return group.add(group.second, group.base(factor)) if bit else group.base(factor)


def committed(group: Group, numbers: NDArray[Any]) -> list[bytes]:
    """a H + b G for every cell's two numbers: all first ones, then all second ones."""
    first, second = np.split(numbers, 2)
    return [group.add(group.times(a, group.second), group.base(b)) for a, b in zip(first, second, strict=True)]


def prove(group: Group, bit: int, factor: int, challenge: Challenge, source: BitSource) -> Proof:
    """Or-proof that ``commit(group, bit, factor)`` hides 0 or 1, without saying which."""
    ell = group.order
    k, e, z = scalars(source, 3, ell)
    known = group.base(k)
    # the other branch's A = z G − e (X − (1−bit) H), and X − (1−bit) H = factor G ± H
    simulated, shift = group.base((z - e * factor) % ell), group.times(e, group.second)
    simulated = group.subtract(simulated, shift) if bit else group.add(simulated, shift)
    total = challenge(simulated, known) if bit else challenge(known, simulated)
    mine = (total - e) % ell
    answer = (k + mine * factor) % ell
    return Proof(e, mine, z, answer) if bit else Proof(mine, e, answer, z)


def accepts(group: Group, point: bytes, proof: Proof, challenge: Challenge) -> bool:
    """Whether the proof shows that ``point``, of the group, hides 0 or 1."""
    a0 = group.subtract(group.base(proof.z0), group.times(proof.e0, point))
    a1 = group.subtract(group.base(proof.z1), group.times(proof.e1, group.subtract(point, group.second)))
    return (proof.e0 + proof.e1 - challenge(a0, a1)) % group.order == 0


def seal(
    group: Group, statement: Statement, sender: int, values: Sequence[int], source: BitSource
) -> tuple[Seal, list[int]]:
    """Seal of zeros and ones, one per cell, and the factors t_c that open it: to be kept secret."""
    factors = scalars(source, statement.cells, group.order)
    points, proofs = [], []
    for cell, (bit, factor) in enumerate(zip(values, factors, strict=True)):
        points.append(commit(group, bit, factor))
        proof = prove(group, bit, factor, statement.challenge(group, sender, cell, points[-1]), source)
        proofs += [proof.e0, proof.e1, proof.z0, proof.z1]
    openings = [sum(factors[start:end]) % group.order for start, end in statement.bounds()]
    return Seal(b"".join(points), packed(proofs, SCALAR_BYTES), packed(openings, SCALAR_BYTES)), factors


def points_of(group: Group, seal: Seal) -> list[bytes]:
    """The commitments of a seal, one per cell."""
    return [seal.points[k : k + group.width] for k in range(0, len(seal.points), group.width)]


def check_seal(group: Group, statement: Statement, sender: int, seal: Seal) -> None:
    """Raises SealBroken unless the seal is the sender's, of zeros and ones, a single 1 in each table."""
    cells, tables = statement.cells, len(statement.tables)
    if len(seal.points) != cells * group.width:
        raise SealBroken(f"commitments of {len(seal.points)} bytes for {cells} cells")
    points = points_of(group, seal)
    answers = _scalars_of(seal.proofs, 4 * cells, group.order, "proofs")
    openings = _scalars_of(seal.openings, tables, group.order, "openings")
    for cell, point in enumerate(points):
        try:
            group.checked(point)
        except NotInGroup as error:
            raise SealBroken(f"a commitment to cell {cell} that is no point of the group") from error
        proof = Proof(*answers[4 * cell : 4 * cell + 4])
        if not accepts(group, point, proof, statement.challenge(group, sender, cell, point)):
            raise SealBroken(f"no valid proof that cell {cell} holds 0 or 1")
    for table, (start, end) in enumerate(statement.bounds()):
        if reduce(group.add, points[start:end]) != commit(group, 1, openings[table]):
            raise SealBroken(f"no proof that table {table} holds a single 1")


def _scalars_of(raw: bytes, count: int, order: int, what: str) -> list[int]:
    if len(raw) != count * SCALAR_BYTES:
        raise SealBroken(f"{what} of {len(raw)} bytes where {count * SCALAR_BYTES} belong")
    out = unpacked(raw, SCALAR_BYTES)
    # a scalar has one valid encoding; with two of them others could turn a proof into another valid one
    if max(out) >= order:
        raise SealBroken(f"{what} with a number beyond the group's order")
    return out


def packed(numbers: Sequence[int], width: int) -> bytes:
    """Numbers run together, little-endian, ``width`` bytes each."""
    return b"".join(map(partial(int.to_bytes, length=width, byteorder="little"), numbers))


def unpacked(raw: bytes, width: int) -> list[int]:
    """The numbers again."""
    return [int.from_bytes(raw[k : k + width], "little") for k in range(0, len(raw), width)]


class PublicChecks:
    """What anybody can recompute from broadcasts alone, each kept once done: verdicts on seals, and sums of seals.

    Every party has its own. Parties in one process may share one, for studies: all would compute the same.
    """

    def __init__(self) -> None:
        self._right: set[bytes] = set()
        self._sums: dict[bytes, list[bytes]] = {}

    def check(self, group: Group, statement: Statement, sender: int, seal: Seal) -> bytes:
        """Digest of a right seal of this sender. Raises SealBroken for any other."""
        content = msgspec.msgpack.encode((statement.session, statement.parties, statement.tables, sender, seal))
        digest = hashlib.sha256(content).digest()
        if digest not in self._right:
            check_seal(group, statement, sender, seal)
            self._right.add(digest)
        return digest

    def sums(self, group: Group, seen: bytes, seals: Sequence[Seal]) -> list[bytes]:
        """Σ_j X_j of every cell, for the seals whose joint digest is ``seen``."""
        if seen not in self._sums:
            columns = zip(*(points_of(group, s) for s in seals), strict=True)
            self._sums[seen] = [reduce(group.add, column) for column in columns]
        return self._sums[seen]
