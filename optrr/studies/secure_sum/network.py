"""The secure sum between parties that are separate peers on a network: one server socket and one task per party.

Each message travels in a connection of its own: its length in four bytes, then the message. The protocol assumes channels that
are private and authentic between each two parties; plain TCP is neither, so outside one machine give each peer the TLS
contexts of its two roles (with client certificates, so that both ends are known), or run it inside a VPN.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

from optrr.studies.secure_sum.messages import (
    Audit,
    Commitment,
    Message,
    Partial,
    SealsNotOpened,
    SecureSumFailed,
    Share,
    decode,
    encode,
)
from optrr.studies.secure_sum.party import SecureSumParty
from optrr_solvers.arrays import IntArray

Address = tuple[str, int]

# Bytes of a message: more than an honest one of a million cells. A longer announcement is refused before memory is taken.
_MAX_BYTES = 1 << 28


class SecureSumPeer:
    """A party with a socket.

    ``address`` is where it listens (port 0 takes a free one); ``listening`` and ``calling`` are the TLS contexts of its server
    and of its client side, None for plain TCP.
    """

    def __init__(
        self,
        party: SecureSumParty,
        address: Address = ("127.0.0.1", 0),
        listening: ssl.SSLContext | None = None,
        calling: ssl.SSLContext | None = None,
    ) -> None:
        self.party, self.address = party, address
        self._listening, self._calling = listening, calling
        self._arrived: dict[type, set[int]] = {kind: set() for kind in (Commitment, Share, Partial, Audit)}
        self._changed = asyncio.Condition()
        self._failure: SecureSumFailed | None = None
        # the shares of a quick peer may arrive before the commitments of a slow one
        self._early: list[Message] = []
        self.seen: Callable[[Message], None] = lambda message: None

    async def listen(self) -> Address:
        """Open the server socket; returns its address."""
        self._server = await asyncio.start_server(self._take, *self.address, ssl=self._listening)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = (host, port)
        return self.address

    async def run(self, addresses: Sequence[Address], timeout: float = 30.0) -> IntArray:
        """The three rounds with the peers at ``addresses`` (in the order of their numbers); returns the counts.

        ``timeout`` seconds are allowed for each round; checking proofs takes 0.4 ms per cell and other party of them.

        Raises
        ------
        SecureSumFailed
            naming the party whose message is wrong, or missing after ``timeout`` seconds; after sums that open no seals, with
            the verdict of an audit.
        """
        try:
            for commitment in self.party.commitments():
                await self._send(commitment, addresses[commitment.recipient])
            await self._wait(Commitment, timeout)
            for share in self.party.shares():
                await self._send(share, addresses[share.recipient])
            await self._wait(Share, timeout)
            await self._to_all(self.party.partial(), addresses)
            await self._wait(Partial, timeout)
            try:
                return self.party.counts()
            except SealsNotOpened as error:
                raise SecureSumFailed(f"{error}; {await self._audited(addresses, timeout)}") from error
        finally:
            self._server.close()

    async def _audited(self, addresses: Sequence[Address], timeout: float) -> str:
        """The verdict, once audits are exchanged with all who take part in ``timeout`` seconds."""
        audit = self.party.audit()
        for j, address in enumerate(addresses):
            if j != self.party.index:
                # a party whose sums opened the seals has left by now, which the verdict then says
                with suppress(SecureSumFailed):
                    await self._send(audit, address)
        with suppress(SecureSumFailed):
            await self._wait(Audit, timeout)
        return self.party.verdict()

    async def _to_all(self, message: Message, addresses: Sequence[Address]) -> None:
        for j, address in enumerate(addresses):
            if j != self.party.index:
                await self._send(message, address)

    async def _send(self, message: Message, address: Address) -> None:
        raw = encode(message)
        try:
            _, writer = await asyncio.open_connection(*address, ssl=self._calling)
            writer.write(len(raw).to_bytes(4, "big") + raw)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except OSError as error:
            raise SecureSumFailed(
                f"party {self.party.index} cannot reach {address[0]}:{address[1]}: {error}"
            ) from error

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > _MAX_BYTES:
                raise SecureSumFailed(f"a peer announces {length} bytes; stop the session")
            message = decode(await reader.readexactly(length))
            self.seen(message)
            self._deliver(message)
        except asyncio.IncompleteReadError:
            self._failure = SecureSumFailed(f"party {self.party.index} received half a message; stop the session")
        except SecureSumFailed as error:
            self._failure = error
        finally:
            writer.close()
            async with self._changed:
                self._changed.notify_all()

    def _deliver(self, message: Message) -> None:
        if isinstance(message, Share) and message.sender not in self._arrived[Commitment]:
            self.party.check_envelope(message)
            if sum(m.sender == message.sender for m in self._early):
                raise SecureSumFailed(f"party {message.sender} sent two shares; stop the session")
            self._early.append(message)
            return
        self.party.receive(message)
        self._arrived[type(message)].add(message.sender)
        if isinstance(message, Commitment):
            waiting = [m for m in self._early if m.sender == message.sender]
            self._early = [m for m in self._early if m.sender != message.sender]
            for early in waiting:
                self._deliver(early)

    async def _wait(self, kind: type, timeout: float) -> None:
        others = self.party.parties - 1
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self._failure is not None or len(self._arrived[kind]) == others)
        except TimeoutError:
            known = self._arrived[kind] | {self.party.index}
            missing = next(j for j in range(self.party.parties) if j not in known)
            raise SecureSumFailed(
                f"party {self.party.index} waited {timeout:g} s for the {kind.__name__.lower()} of party {missing}; "
                "start a new session without it"
            ) from None
        if self._failure is not None:
            raise self._failure
