"""The client side: one record comes in, and one randomized message goes out, always the same."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from optrr.domain.domain import Category, category_text, listed
from optrr.errors import InvalidInput
from optrr.ways.protocols.message import Message
from optrr.ways.protocols.protocol import Protocol
from optrr_solvers.randomness import RandomState


class Client:
    """Randomizes one record, once, for one protocol; keeps the message and forgets the record.

    Asking again, from another thread, or from a copy gives the same message: a second draw would be a second release and spend
    the ε again.

    Parameters
    ----------
    record
        one category per attribute, by name.
    random_state
        None draws from the operating system; anything else is for studies.

    Raises
    ------
    InvalidInput
        for a missing or unknown attribute, or an undeclared category. The record's values are not repeated in the message.
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
