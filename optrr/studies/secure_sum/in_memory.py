"""A secure sum between parties of one process: every message handed over in order, as the one who made it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from optrr.studies.secure_sum.messages import Message, SecureSumFailed
from optrr.studies.secure_sum.party import SecureSumParty
from optrr_solvers.arrays import IntArray

Sent = TypeVar("Sent", bound=Message)


def run_in_memory(
    parties: Sequence[SecureSumParty], on_message: Callable[[int, Message], None] | None = None
) -> IntArray:
    """Run the protocol between parties in one process; returns the counts, which all parties must agree on.

    ``on_message`` is called as (recipient, message) for every delivery, in order: what that recipient sees.
    """
    for message in [c for p in parties for c in _of(p, p.commitments())]:
        _show(on_message, message.recipient, message)
        parties[message.recipient].receive(message)
    for share in [s for p in parties for s in _of(p, p.shares())]:
        _show(on_message, share.recipient, share)
        parties[share.recipient].receive(share)
    for partial in [m for p in parties for m in _of(p, [p.partial()])]:
        for party in parties:
            if party.index != partial.sender:
                _show(on_message, party.index, partial)
                party.receive(partial)
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


def _show(on_message: Callable[[int, Message], None] | None, recipient: int, message: Message) -> None:
    if on_message is not None:
        on_message(recipient, message)
