"""The server: uvicorn without an access log, with limits on connections and headers, and a graceful shutdown.

After SIGTERM or SIGINT, no new connections are accepted, pending requests are answered, and waiting reports are
written; then the process ends. Acknowledged reports are on disk in any case.

In public, the server needs a proxy (docs/survey.md, §2), which has the certificate and closes slow connections. Without
one, a client that opens the maximum number of connections blocks all others.
"""

import signal
import socket
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from optrr.core.errors import InvalidInput, in_one_line

# Maximum number of connections, each of at most a few tens of kilobytes, below the usual limit of open files; more are
# answered 503.
_CONNECTIONS = 800
# Maximum bytes of a request's headers, and of the trailing fields.
MOST_HEADER_BYTES = 1 << 15
# Seconds for an idle connection, and for pending requests at shutdown.
_IDLE_SECONDS, _ENDING_SECONDS = 15, 20


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket, of a free port for port 0; raise InvalidInput if that fails."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {in_one_line(error)}; give another host or port"
        ) from error
    return bound


def address(bound: socket.socket) -> str:
    """Return the socket's address for browsers."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
    """Configure uvicorn for the application."""
    return uvicorn.Config(
        app,
        # h11 limits the size of headers
        http="h11",
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ws="none",
        lifespan="on",
        access_log=False,
        # warnings concern single requests, so that clients could fill the log
        log_level="error",
        server_header=False,
        # client addresses are not used, so the proxy's headers are ignored
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )
