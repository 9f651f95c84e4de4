"""Who gives way when every place is taken: whoever has waited longest among the connections of the address that has most.

So nobody who holds connections open keeps others out, however many they are; who comes from many addresses shares the places
with everybody; and behind a proxy, where all come from one address, the longest wait decides. A connection that waits for the
collector, because its request is whole and not answered yet, never gives way. Addresses are known while they are connected.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

# Bits of an IPv6 address that belong to one customer, at least: who has one address there has 2^64.
_OWN_BITS = 64


class Guest(Protocol):
    """One connection."""

    def busy(self) -> bool:
        """Whether the server owes it an answer, and not the other way round."""
        ...

    def drop(self) -> None:
        """End it now."""
        ...


class Crowd:
    """The connections at one time, at most ``places`` of them."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._origins: dict[Guest, str] = {}
        # of each address, in the order in which they began to wait
        self._waiting: dict[str, dict[Guest, None]] = {}

    def enter(self, guest: Guest, host: str) -> bool:
        """Give it a place, if need be another one's; False where none can be had: everybody waits for an answer."""
        if len(self._origins) >= self._places and not self._give_way():
            return False
        self._origins[guest] = origin(host)
        self.waits(guest)
        return True

    def waits(self, guest: Guest) -> None:
        """It begins to wait."""
        if guest in self._origins:
            others = self._waiting.setdefault(self._origins[guest], {})
            others.pop(guest, None)
            others[guest] = None

    def leave(self, guest: Guest) -> None:
        """It needs no place any more; it may have none."""
        address = self._origins.pop(guest, None)
        if address is not None:
            del self._waiting[address][guest]
            if not self._waiting[address]:
                del self._waiting[address]

    def _give_way(self) -> bool:
        for address in sorted(self._waiting, key=lambda a: -len(self._waiting[a])):
            for guest in self._waiting[address]:
                if not guest.busy():
                    self.leave(guest)
                    guest.drop()
                    return True
        return False


def origin(host: str) -> str:
    """What is counted as one address: of IPv6 the part that one customer has, of anything else all."""
    try:
        # a link-local address may name its interface
        address: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else f"{int(address) >> _OWN_BITS:x}/{_OWN_BITS}"
