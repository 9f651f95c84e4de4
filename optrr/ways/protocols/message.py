"""What a client sends: one randomized record, and which mechanism made it."""

from __future__ import annotations

import hashlib

import msgspec

from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr_solvers.laws.record import record_of


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One randomized record.

    Attributes
    ----------
    mechanism
        fingerprint of the domain and law that randomized it.
    serial
        random, so that a message that arrives twice is counted once; says nothing about the sender.
    values
        one category per attribute, in the domain's order.
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
