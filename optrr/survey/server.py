"""The server: uvicorn without an access log, with limits on what a connection sends and leaves unread, and an orderly end.

On SIGTERM or SIGINT no new connections are taken, requests under way are answered, what waits for the disk is written, and
only then does the process end. What was acknowledged is on disk in any case.

Who gives way when every place is taken: whoever has waited longest among the connections of the address that has most. So
nobody who holds connections open keeps others out, however many they are; who comes from many addresses shares the places
with everybody; and behind a proxy, where all come from one address, the longest wait decides. A connection that waits for the
collector, because its request is whole and not answered yet, never gives way. Addresses are known while they are connected.
"""

import asyncio
import signal
import socket
import struct
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from optrr.core.errors import InvalidInput, in_one_line

# Bits of an IPv6 address that belong to one customer, at least: who has one address there has 2^64.
_OWN_BITS = 64
# Connections at once, each of at most a few tens of kilobytes; when there are more, some give way.
_CONNECTIONS = 2000
# Files that the process has open beside its connections, generously.
_OTHER_FILES = 100
# Seconds for a request's headers, for an idle connection, and for requests under way when the server ends.
HEADER_SECONDS = 15.0
_IDLE_SECONDS = 15
_ENDING_SECONDS = 20
# Seconds after which an answer that is not read does not hold the end.
_UNREAD_SECONDS = 15
# Whoever reads fewer bytes than this in so many seconds, and not all, is hung up on. The system hands on a third of its buffer
# at a time, so a line needs 3 kB a second.
WRITE_SECONDS = 15.0
READ_BYTES = 15 * 1024
# Bytes of a request's headers, and of whatever stands between two pieces of its body or after it (RFC 9112, trailer fields).
MOST_HEADER_BYTES = 1 << 15
# Fields in them: each takes ten times the memory of the shortest one's text.
MOST_FIELDS = 100
# Requests that may wait for the answer to another one of the same connection.
_MOST_WAITING = 4
# Connections that may wait to be taken: more at once are tried again by their senders, a second later and more.
_BACKLOG = 4096
# Bytes that the system keeps of what a connection has not read yet; what lies beyond is seen by the server, which counts it.
_SEND_BUFFER = 1 << 16
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 45\r\nRetry-After: 5\r\n"
    b'Connection: close\r\n\r\n{"error":"too many connections; come later"}\n'
)


class Crowd:
    """The connections at one time, at most ``places`` of them."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._origins: dict[PatientProtocol, str] = {}
        # of each address, in the order in which they began to wait
        self._waiting: dict[str, dict[PatientProtocol, None]] = {}

    def enter(self, guest: "PatientProtocol", host: str) -> bool:
        """Give it a place, if need be another one's; False where none can be had: everybody waits for an answer."""
        if len(self._origins) >= self._places and not self._give_way():
            return False
        self._origins[guest] = origin(host)
        self.waits(guest)
        return True

    def waits(self, guest: "PatientProtocol") -> None:
        """It begins to wait."""
        if guest in self._origins:
            others = self._waiting.setdefault(self._origins[guest], {})
            others.pop(guest, None)
            others[guest] = None

    def leave(self, guest: "PatientProtocol") -> None:
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


class _Beyond(Exception):
    """A request is larger than any that is meant here; the parser turns it into an answer 400."""


class _Counting:
    """A transport that knows how much was written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self.written = transport, 0

    def write(self, data: bytes) -> None:
        """As the transport's; nothing where the connection has ended, which whoever answers may not know yet."""
        if self._transport.is_closing():
            return
        self.written += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 that hangs up on whoever sends or reads without end or too slowly: uvicorn itself waits for ever.

    A request's headers have a time and a size, what surrounds its body a size (its body has both, see
    :func:`optrr.survey.guard.body_of`), and answers must be read.
    """

    transport: _Counting  # type: ignore[assignment]
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _gathered = 0
    _fields = 0
    # whether the last request is whole, and no other has begun
    _whole = False
    # bytes that must have been read when that is looked at next
    _due = 0

    def __init__(self, crowd: Crowd, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._crowd = crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first headers."""
        super().connection_made(_Counting(transport))  # type: ignore[arg-type]
        self._watch()
        if self._crowd.enter(self, self.client[0] if self.client else ""):
            self._wait()
        else:
            self.transport.write(_FULL)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._stop()
        if self._reading is not None:
            self._reading.cancel()
        self._crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless the headers or what else is no body has grown too long."""
        if self._timer is None and self._whole:
            # also where no request begins: empty lines would otherwise keep an idle connection open
            self._wait()
        self._gathered += len(data)
        super().data_received(data)
        if self._gathered > MOST_HEADER_BYTES:
            self.drop()

    def on_message_begin(self) -> None:
        """A request's headers begin."""
        super().on_message_begin()
        self._fields, self._whole = 0, False
        self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the headers; one that follows the body is of no use, and is not kept."""
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise _Beyond
        if self._timer is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request's headers are whole."""
        self._stop()
        self._gathered = 0
        if len(self.pipeline) >= _MOST_WAITING:
            raise _Beyond
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body, which has a limit elsewhere."""
        self._gathered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._gathered, self._whole = 0, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is written; now the client has its turn."""
        super().on_response_complete()
        self._crowd.waits(self)

    def shutdown(self) -> None:
        """The server ends; answers that are not read by then do not hold it."""
        super().shutdown()
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self.loop.call_later(_UNREAD_SECONDS, self._end)

    def busy(self) -> bool:
        """Whether the server owes it an answer: a request is whole, not answered, and its answer not held up by the client."""
        cycle = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body or self.flow.write_paused)

    def drop(self) -> None:
        """End the connection now; what was not read is not kept for it by anybody."""
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            return
        peer = self.transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged: no protocol but this one is wanted, and uvicorn would advise to install another."""

    def _wait(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._late)

    def _late(self) -> None:
        """Headers have not come in time; what was sent ahead of an answer that is not there yet may wait for it."""
        self._timer = None
        if self.busy():
            self._wait()
        else:
            self.transport.close()

    def _watch(self) -> None:
        """Look now and later whether what was written is read."""
        read = self.transport.written - self.transport.get_write_buffer_size()
        if read < self._due:
            self.drop()
            return
        self._due = min(read + READ_BYTES, self.transport.written)
        self._reading = self.loop.call_later(WRITE_SECONDS, self._watch)

    def _end(self) -> None:
        if not self.busy():
            self.drop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections at this address; port 0 takes a free one. Raises InvalidInput where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise InvalidInput(f"cannot listen on {host} port {port}: {in_one_line(error)}; give another") from error
    return bound


def run(app: ASGIApp, bound: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then return."""
    server = uvicorn.Server(configured(app))

    def end(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn listens to signals only while it serves: one that comes before ends it as soon as it has started, and those that
    # it raises again when it has ended find nothing left to do
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def configured(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        http=partial(PatientProtocol, Crowd(connections())),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        access_log=False,
        # warnings are about single requests, so that anybody could fill the log with them
        log_level="error",
        server_header=False,
        # the address of whoever asks is of no interest, and a proxy's word for it neither
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )


def connections() -> int:
    """Connections that the system lets this process have, after asking for as many as are wanted."""
    try:
        import resource  # noqa: PLC0415 (Unix alone has it)
    except ImportError:
        return _CONNECTIONS
    # many may come at once before others have given way
    wanted = _CONNECTIONS + _BACKLOG + _OTHER_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(wanted if limit == resource.RLIM_INFINITY else limit for limit in (most, wanted))
    if now != resource.RLIM_INFINITY and now < allowed:
        # many systems begin with 1,024, and connections beyond the limit would neither be served nor refused
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
        now = allowed
    if now == resource.RLIM_INFINITY or now >= wanted:
        return _CONNECTIONS
    return max(1, min(_CONNECTIONS, (now - _OTHER_FILES) // 2))
