"""The server: uvicorn without an access log, with a bound on connections and headers, and an orderly end.

On SIGTERM or SIGINT no new connections are taken, requests under way are answered, what waits for the disk is written, and
only then does the process end. What was acknowledged is on disk in any case.

In public a proxy stands in front (docs/survey.md, §2): it has the certificate, and hangs up on those who send or read too
slowly. Without one, whoever opens as many connections as there are places keeps others out.
"""

import signal
import socket
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from optrr.core.errors import InvalidInput, in_one_line

# Connections at once, each of at most a few tens of kilobytes, and fewer than the files that most systems let a process open;
# more are answered 503.
_CONNECTIONS = 800
# Bytes of a request's headers, and of the fields after its body.
MOST_HEADER_BYTES = 1 << 15
# Seconds for an idle connection, and for requests under way when the server ends.
_IDLE_SECONDS, _ENDING_SECONDS = 15, 20


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one.

    Raises InvalidInput if that fails.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        raise InvalidInput(f"cannot listen on {host} port {port}: {in_one_line(error)}; give another") from error
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
        # its parser has a limit of headers
        http="h11",
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ws="none",
        lifespan="on",
        access_log=False,
        # warnings are about single requests, so that anybody could fill the log with them
        log_level="error",
        server_header=False,
        # the address of whoever asks is of no interest, and a proxy's word for it neither
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )
