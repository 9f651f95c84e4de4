"""Protocols: who sends what, and what the collector makes of it (MDR §3–5, SIC §4, RIJ §3)."""

from optrr.protocols.account import Account, Spent

__all__ = ["Account", "Spent"]
