"""Protocols: who sends what, and what the collector makes of it (MDR §3–5, SIC §4, RIJ §3).

A :class:`Client` holds one record and sends one message; a :class:`Collector` takes messages and estimates. Both are made
from a :class:`Protocol`, whose account lists everything one person releases and what it costs in all.
"""

from optrr.account import Account, Spent
from optrr.protocols.client import Client
from optrr.protocols.collector import Collector
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

__all__ = [
    "Account",
    "Client",
    "Collector",
    "Message",
    "Protocol",
    "Spent",
    "of_design",
    "optimum",
    "rr_clusters",
    "rr_ind_joint",
    "rr_independent",
    "rr_joint",
    "sic_clusters",
]
