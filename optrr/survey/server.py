"""The server: uvicorn without an access log, with limits on connections, headers and waiting, and an orderly end.

On SIGTERM or SIGINT no new connections are taken, requests under way are answered, what waits for the disk is written, and
only then does the process end. What was acknowledged is on disk in any case.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from optrr.errors import InvalidInput, in_one_line

# Connections at once, each of at most a few tens of kilobytes; further ones are answered with 503.
_CONNECTIONS = 2000
# Files that the process has open beside its connections, generously.
_OTHER_FILES = 100
# Seconds for a request's headers, for an idle connection, and for requests under way when the server ends.
HEADER_SECONDS = 15.0
_IDLE_SECONDS = 15
_ENDING_SECONDS = 20
# Bytes of a request's headers.
MOST_HEADER_BYTES = 1 << 15
_BACKLOG = 2048


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 that hangs up on headers that do not end, by time and by size: uvicorn itself waits for ever."""

    _timer: asyncio.TimerHandle | None = None
    _gathered = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first headers."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless the headers it belongs to have grown too long."""
        if self._timer is not None:
            if self._gathered > MOST_HEADER_BYTES:
                self.transport.close()
                return
            self._gathered += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request's headers begin."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """A request's headers are whole."""
        self._stop()
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged: no protocol but this one is wanted, and uvicorn would advise to install another."""

    def _wait(self) -> None:
        self._stop()
        self._gathered = 0
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections at this address; port 0 takes a free one. Raises InvalidInput where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise InvalidInput(f"cannot listen on {host} port {port}: {in_one_line(error)}; give another") from error
    return bound


def run(app: ASGIApp, bound: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then return."""
    # uvicorn raises a signal again when it has ended because of it; it has done its work by then
    before = {number: signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        uvicorn.Server(configured(app)).run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def configured(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        # the address of whoever asks is of no interest, and a proxy's word for it neither
        proxy_headers=False,
        limit_concurrency=connections(),
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
    wanted = _CONNECTIONS + _OTHER_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(wanted if limit == resource.RLIM_INFINITY else limit for limit in (most, wanted))
    if now != resource.RLIM_INFINITY and now < allowed:
        # many systems begin with 1,024, and connections beyond the limit would neither be served nor refused
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
        now = allowed
    return _CONNECTIONS if now == resource.RLIM_INFINITY else max(1, min(_CONNECTIONS, now - _OTHER_FILES))


def _ended(_number: int, _frame: FrameType | None) -> Any:
    """Nothing is left to do."""
