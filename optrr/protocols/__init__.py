"""Protocols: who sends what, and what the collector makes of it (MDR §3–5, SIC §4, RIJ §3).

A :class:`Client` holds one record and sends one message; a :class:`Collector` takes messages and estimates. Both are made
from a :class:`Protocol`, whose account lists everything one person releases and what it costs in all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optrr.protocols.account import Account, Spent
    from optrr.protocols.client import Client
    from optrr.protocols.collector import Collector, ProtocolEstimate
    from optrr.protocols.kinds import (
        of_design,
        optimum,
        rr_clusters,
        rr_ind_joint,
        rr_independent,
        rr_joint,
        sic_clusters,
    )
    from optrr.protocols.message import Message
    from optrr.protocols.protocol import Protocol

# Imported on first use: learning dependences needs the account, and the protocols need what was learned.
_HOMES = {
    "Account": "account",
    "Client": "client",
    "Collector": "collector",
    "Message": "message",
    "Protocol": "protocol",
    "ProtocolEstimate": "collector",
    "Spent": "account",
    "of_design": "kinds",
    "optimum": "kinds",
    "rr_clusters": "kinds",
    "rr_ind_joint": "kinds",
    "rr_independent": "kinds",
    "rr_joint": "kinds",
    "sic_clusters": "kinds",
}

__all__ = [
    "Account",
    "Client",
    "Collector",
    "Message",
    "Protocol",
    "ProtocolEstimate",
    "Spent",
    "of_design",
    "optimum",
    "rr_clusters",
    "rr_ind_joint",
    "rr_independent",
    "rr_joint",
    "sic_clusters",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optrr.protocols' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"optrr.protocols.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
