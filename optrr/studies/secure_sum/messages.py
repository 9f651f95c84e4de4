"""The three messages of the secure sum, and their bytes."""

from __future__ import annotations

import msgspec

from optrr.errors import OptrrError
from optrr.studies.secure_sum.sealed import Seal


class SecureSumFailed(OptrrError, ValueError):
    """The protocol must stop: one line that names the party and what is wrong with its message."""


class Commitment(msgspec.Struct, tag="commitment", frozen=True):
    """To one party: the digest of the share it will get, and the sender's seal, the same to all (None without proofs)."""

    session: str
    sender: int
    recipient: int
    digest: bytes
    seal: Seal | None = None


class Share(msgspec.Struct, tag="share", frozen=True):
    """To one party only: its share of the sender's zero, numbers run together, and the salt of its commitment."""

    session: str
    sender: int
    recipient: int
    numbers: bytes
    salt: bytes


class Partial(msgspec.Struct, tag="partial", frozen=True):
    """To all: the sum of the shares received and of the sender's own numbers; and the digest of all seals it has seen."""

    session: str
    sender: int
    numbers: bytes
    seen: bytes = b""


Message = Commitment | Share | Partial


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)
