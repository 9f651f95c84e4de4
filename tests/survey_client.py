"""What the tests of a survey share: requests without a network, a server in a process of its own, and what it should accept."""

import asyncio
import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

# Admits to the results of surveys in memory.
TOKEN = secrets.token_urlsafe(32)
# Seconds for a server to start or stop on a busy machine.
_PATIENCE = 120
JSON = {"content_type": "application/json"}
FORM = {"content_type": "application/x-www-form-urlencoded"}


def kept_reports(engine: Any) -> int:
    """How many reports the database of this engine holds."""
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM reports").scalar_one()


@dataclass
class Reply:
    """An answer: its headers are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    all_headers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def entered(app: Any) -> dict[str, str]:
    """The cookie of whoever gave the token."""
    reply = call(app, "POST", "/results", f"token={TOKEN}".encode(), **FORM)
    assert (reply.status, reply.headers["location"]) == (303, "results")
    return {"cookie": reply.headers["set-cookie"].split(";")[0]}


def call(app: Any, method: str, path: str, body: bytes | list[bytes] = b"", **headers: str) -> Reply:
    """One request to an ASGI application; a list is a body that comes in pieces and does not state its length."""
    return asyncio.run(called(app, method, path, body, **headers))


async def called(app: Any, method: str, path: str, body: bytes | list[bytes] = b"", **headers: str) -> Reply:
    pieces = body if isinstance(body, list) else [body]
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if not isinstance(body, list):
        given.setdefault("content-length", str(len(body)))
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
        "client": ("203.0.113.9", 4711),
    }
    waiting = [{"type": "http.request", "body": p, "more_body": i + 1 < len(pieces)} for i, p in enumerate(pieces)]
    reply = Reply(0, {})

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.all_headers = [(k.decode().lower(), v.decode()) for k, v in message["headers"]]
            reply.headers = dict(reply.all_headers)
        else:
            reply.body += message.get("body", b"")

    await app(scope, receive, send)
    return reply


def report_body(design: str, identifier: str, values: list[str | None]) -> bytes:
    return json.dumps({"format": "optrr-report/1", "design": design, "id": identifier, "values": values}).encode()


class Server:
    """``optrr serve`` in a process of its own, on a free port."""

    def __init__(self, source: Path, *options: str, port: int = 0, **environment: str) -> None:
        command = [sys.executable, "-P", "-c", "from optrr.cli import main; main()", "serve", str(source), *options]
        self.log = source.with_name(f"{source.name}.{time.monotonic_ns()}.log")
        self.out = self.log.with_suffix(".out")
        with self.log.open("wb") as log, self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--port", str(port)], stdout=out, stderr=log, env={**os.environ, **environment}
            )
        self.port = self._port(port)

    def _port(self, asked: int) -> int:
        """The port that it listens on, once it does: as asked for, or as it prints."""
        for _ in range(50 * _PATIENCE):
            said = self.out.read_text()
            if "are stored in" in said:
                return asked or int(re.findall(r"http://127\.0\.0\.1:(\d+)/\n", said)[0])
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise TimeoutError(self.log.read_text())

    @property
    def token(self) -> str:
        shown = re.search(r"token: (\S+)", self.out.read_text())
        assert shown
        return shown[1]

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)

    def get(self, path: str) -> bytes:
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse().read()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_PATIENCE)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Load:
    """People who answer at once on several connections, and send again what was not acknowledged.

    ``acknowledged`` and ``tried`` hold the values of every report by its id; ``interrupted`` counts the requests that ended
    without an answer. One report in ten is sent again although it was acknowledged.
    """

    def __init__(self, ports: list[int], design: str, categories: list[list[str | None]], connections: int = 6) -> None:
        self._ports, self._design, self._categories = ports, design, categories
        self.acknowledged: dict[str, list[str | None]] = {}
        self.tried: dict[str, list[str | None]] = {}
        self.unexpected: list[str] = []
        self.interrupted = 0
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._answer, args=(k,), daemon=True) for k in range(connections)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(_PATIENCE)
            assert not thread.is_alive()

    def _answer(self, k: int) -> None:
        rng = random.Random(k)
        while not self._stopped.is_set():
            identifier = rng.randbytes(16).hex()
            values = [rng.choice(cs) for cs in self._categories]
            self.tried[identifier] = values
            self._send_until_acknowledged(identifier, values, rng)
            while rng.random() < 0.1:
                again = rng.choice(list(self.acknowledged.copy().items()) or [(identifier, values)])
                self._send_until_acknowledged(*again, rng)

    def _send_until_acknowledged(self, identifier: str, values: list[str | None], rng: random.Random) -> None:
        body = report_body(self._design, identifier, values)
        while not self._stopped.is_set():
            # each try by another collector, where there are several
            connection = self._connection(rng.choice(self._ports))
            try:
                connection.request("POST", "/reports", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                said = reply.read()
            except (OSError, HTTPException):
                self.interrupted += 1
                connection.close()
                time.sleep(0.1)
                continue
            if reply.status == 200 and json.loads(said) == {"kept": True}:
                self.acknowledged[identifier] = values
                return
            if reply.status != 503:
                self.unexpected.append(f"{reply.status} {said!r}")
                return

    def _connection(self, port: int) -> HTTPConnection:
        kept = self._local.__dict__.setdefault("connections", {})
        if port not in kept:
            kept[port] = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        connection: HTTPConnection = kept[port]
        return connection

    _local = threading.local()
