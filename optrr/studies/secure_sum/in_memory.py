"""A secure sum between parties of one process: every message handed over in order, and an audit where a sum opens no seals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optrr.studies.secure_sum.messages import Message, SealsNotOpened, SecureSumFailed
from optrr.studies.secure_sum.party import SecureSumParty
from optrr_solvers.arrays import IntArray


def run_in_memory(
    parties: Sequence[SecureSumParty], on_message: Callable[[int, Message], None] | None = None
) -> IntArray:
    """Run the protocol between parties in one process; returns the counts, which all parties must agree on.

    Where the sums open no seals, an audit follows, and the error ends with the first party's verdict.

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
    try:
        results = [p.counts() for p in parties]
    except SealsNotOpened as error:
        for audit in [p.audit() for p in parties]:
            for party in parties:
                if party.index != audit.sender:
                    _show(on_message, party.index, audit)
                    party.receive(audit)
        raise SecureSumFailed(f"{error}; {parties[0].verdict()}") from error
    if not all(np.array_equal(results[0], r) for r in results):
        raise SecureSumFailed(
            "the parties end with different counts: some party broke the protocol; start a new session"
        )
    return results[0]


def _show(on_message: Callable[[int, Message], None] | None, recipient: int, message: Message) -> None:
    if on_message is not None:
        on_message(recipient, message)
