"""The survey's server as a process: killed under load, asked for nonsense, and ended in order."""

import asyncio
import json
import os
import random
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from survey_client import Load, Server, free_port, report_body

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

import uvicorn
from starlette.types import ASGIApp

from optrr.cli.main import run as run_command
from optrr.core.domain.domain import Domain
from optrr.survey import server as survey_server
from optrr.survey.guard import Guard
from optrr.survey.stored_records import Packing

SPECIFICATION = """
epsilon = 1.0
[[attributes]]
name = "income"
question = "How much do you earn?"
categories = ["low", "middle", "high"]
[[attributes]]
name = "sex"
question = "Which sex?"
categories = ["F", "M"]
[[attributes]]
name = "age"
question = "How old are you?"
size = 300
"""
CATEGORIES: list[list[str | None]] = [["low", "middle", "high"], ["F", "M"], [str(i) for i in range(300)]]
PACKING = Packing(Domain.of({"income": 3, "sex": 2, "age": 300}))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "questions.toml"
    path.write_text(SPECIFICATION)
    return path


def packed(values: list[str | None]) -> bytes:
    return PACKING.pack([cs.index(v) for cs, v in zip(CATEGORIES, values, strict=True)])


def design_of(server: Server) -> str:
    return str(json.loads(server.get("/sampler.json"))["design"])


def check_kept(rows: list[tuple[bytes, bytes]], load: Load) -> None:
    """Every acknowledged report is there once, with its values; nothing is there that nobody sent."""
    kept = {bytes(i).hex(): bytes(r) for i, r in rows}
    assert len(kept) == len(rows)
    assert set(load.acknowledged) <= set(kept) <= set(load.tried)
    assert all(kept[i] == packed(load.tried[i]) for i in kept)
    assert not load.unexpected


def wait_for(load: Load, more: int) -> None:
    """Until so many more reports are acknowledged."""
    before = len(load.acknowledged)
    while len(load.acknowledged) < before + more:
        time.sleep(0.01)


def rows_of(database: Path) -> list[tuple[bytes, bytes]]:
    return sqlite3.connect(database).execute("SELECT identifier, record FROM reports").fetchall()


def without_traceback(servers: list[Server]) -> None:
    for server in servers:
        log = server.log.read_text()
        assert "Traceback" not in log
        assert "127.0.0.1" not in log


@pytest.mark.slow
def test_no_acknowledged_report_is_lost_by_kills(source: Path) -> None:
    kills, rng = 10, random.Random(10)
    port = free_port()
    servers = [Server(source, port=port)]
    load = Load([port], design_of(servers[0]), CATEGORIES)
    interrupted = 0
    for k in range(kills):
        wait_for(load, 30)
        time.sleep(rng.uniform(0, 0.3))
        servers[-1].kill()
        interrupted += load.interrupted > 0
        if k + 1 < kills:
            servers.append(Server(source, port=port))
    load.stop()
    rows = rows_of(source.with_name("questions.db"))
    check_kept(rows, load)
    # requests were under way when the process died
    assert load.interrupted >= kills
    assert interrupted == kills
    without_traceback(servers)
    print(f"{kills} kills, {len(load.acknowledged)} acknowledged, {len(rows)} kept, {load.interrupted} interrupted")


@pytest.mark.slow
def test_collectors_that_start_together_serve_one_design(source: Path) -> None:
    """Nobody has designed yet, and there is no database."""
    with ThreadPoolExecutor() as together:
        servers = list(together.map(lambda _: Server(source), range(2)))
    assert len({server.get("/sampler.json") for server in servers}) == 1
    assert [server.stop() for server in servers] == [0, 0]
    without_traceback(servers)


@pytest.mark.slow
def test_an_ordered_end_answers_what_is_under_way(source: Path) -> None:
    server = Server(source)
    load = Load([server.port], design_of(server), CATEGORIES)
    wait_for(load, 100)
    assert server.stop() == 0
    load.stop()
    # everything went from the write-ahead log into the file
    assert not source.with_name("questions.db-wal").exists()
    check_kept(rows_of(source.with_name("questions.db")), load)
    assert server.log.read_text() == "stopped; every acknowledged report is kept\n"


def sent(server: Server, design: str, identifier: str) -> int:
    """The status of a report."""
    connection = server.connect()
    body = report_body(design, identifier, ["low", "F", "3"])
    connection.request("POST", "/reports", body, {"Content-Type": "application/json"})
    return connection.getresponse().status


def health(server: Server) -> int:
    """The status of health, which may not take as long as a database is waited for."""
    connection = server.connect()
    began = time.monotonic()
    connection.request("GET", "/health")
    status = connection.getresponse().status
    assert time.monotonic() - began < 6
    return status


def healthy(server: Server, status: int = 200) -> bool:
    """Whether health gets this status although nobody sends a report."""
    for _ in range(40):
        if health(server) == status:
            return True
        time.sleep(0.5)
    return False


@pytest.fixture
def serving(source: Path) -> Iterator[Server]:
    server = Server(source)
    yield server
    if server.process.poll() is None:
        server.kill()


@pytest.mark.slow
def test_health_sees_a_database_that_another_process_has_locked(source: Path, serving: Server) -> None:
    design = design_of(serving)
    assert sent(serving, design, "0" * 32) == 200
    other = sqlite3.connect(source.with_name("questions.db"), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    # the last write is fresh at first
    assert healthy(serving, 503)
    assert sent(serving, design, "1" * 32) == 503
    assert health(serving) == 503
    other.execute("ROLLBACK")
    assert healthy(serving)
    assert sent(serving, design, "1" * 32) == 200
    assert serving.stop() == 0
    # the trial writes have left nothing
    assert sorted(bytes(row[0]).hex() for row in rows_of(source.with_name("questions.db"))) == ["0" * 32, "1" * 32]
    assert serving.log.read_text().count("database is locked") == 1


@pytest.mark.slow
def test_health_sees_a_full_disk(source: Path, serving: Server) -> None:
    resource = pytest.importorskip("resource", reason="Linux alone limits another process's files")
    if not hasattr(resource, "prlimit"):
        pytest.skip("Linux alone limits another process's files")
    design = design_of(serving)
    most = 44 * 1024
    _, hard = resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, (most, hard))
    statuses = [sent(serving, design, f"{k:032x}") for k in range(60)]
    assert statuses[-20:] == [503] * 20
    assert health(serving) == 503
    time.sleep(6)
    # by now a trial write shows it
    assert health(serving) == 503
    resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert healthy(serving)
    assert sent(serving, design, "f" * 32) == 200
    assert serving.stop() == 0
    kept = {bytes(row[0]).hex() for row in rows_of(source.with_name("questions.db"))}
    assert kept >= {f"{k:032x}" for k, status in enumerate(statuses) if status == 200}
    # one line for what has one reason, and not one for each of the reports
    assert len(serving.log.read_text().splitlines()) < 10


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all", "database", "log", "index", "replaced"])
def test_reports_are_not_acknowledged_into_files_that_are_gone(lost: str, source: Path, serving: Server) -> None:
    design, database = design_of(serving), source.with_name("questions.db")
    assert sent(serving, design, "0" * 32) == 200
    away = source.parent / "away"
    away.mkdir()
    endings = {"all": ["", "-wal", "-shm"], "log": ["-wal"], "index": ["-shm"]}
    for ending in endings.get(lost, [""]):
        Path(f"{database}{ending}").rename(away / f"questions.db{ending}")
    if lost == "replaced":
        with sqlite3.connect(database) as other:
            other.execute("CREATE TABLE reports (identifier BLOB PRIMARY KEY, record BLOB NOT NULL)")
        other.close()
    assert health(serving) == 503
    assert [sent(serving, design, f"{k:032x}") for k in range(1, 4)] == [503] * 3
    assert health(serving) == 503
    # nothing was made where the files had been
    assert database.exists() == (lost in ("log", "index", "replaced"))
    assert serving.stop() == 1
    *said, closing = serving.log.read_text().splitlines()
    assert len(said) == 1 and said[0].startswith("optrr serve: reports cannot be stored: ") and str(database) in said[0]
    assert closing.startswith("stopped; ") and "every acknowledged report is kept" not in closing
    assert str(database) in closing


@pytest.mark.slow
def test_the_host_header_leads_nobody_anywhere(serving: Server) -> None:
    for path in ("/results/", "/reports/", "/results/counts.csv/", "/health/"):
        connection = serving.connect()
        connection.request("POST" if path == "/reports/" else "GET", path, b"{}", {"Host": "evil.example"})
        reply = connection.getresponse()
        assert (reply.status, reply.headers["Location"]) == (404, None)
        assert b"evil" not in reply.read()
    connection = serving.connect()
    form = {"Host": "evil.example", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/results", f"token={serving.token}", form)
    reply = connection.getresponse()
    # where it leads on it does so relatively, and the cookie is for no other host
    assert (reply.status, reply.headers["Location"]) == (303, "results")
    assert "evil" not in str(reply.headers)


@pytest.mark.slow
def test_a_request_to_upgrade_is_a_request(source: Path, serving: Server) -> None:
    asked = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    asked += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    with socket.create_connection(("127.0.0.1", serving.port), 10) as connection:
        connection.sendall(asked)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
    assert serving.stop() == 0
    assert serving.log.read_text() == "stopped; every acknowledged report is kept\n"


@pytest.mark.slow
def test_two_collectors_share_one_database(source: Path, database: str) -> None:
    """Reports sent to either, and again to the other, while one of them is killed and started again."""
    first = Server(source, "--database", database)
    ports = [first.port, free_port()]
    servers = [first, Server(source, port=ports[1], OPTRR_DATABASE=database)]
    load = Load(ports, design_of(first), CATEGORIES)
    wait_for(load, 200)
    kills = 5
    for _ in range(kills):
        wait_for(load, 100)
        servers[-1].kill()
        servers.append(Server(source, "--database", database, port=ports[1]))
    load.stop()
    assert [servers[0].stop(), servers[-1].stop()] == [0, 0]
    import psycopg  # noqa: PLC0415 (only there where there is a server)

    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT identifier, record FROM reports").fetchall()
    check_kept(rows, load)
    assert load.interrupted >= kills
    without_traceback(servers)
    print(f"{kills} kills, {len(load.acknowledged)} acknowledged, {len(rows)} kept, {load.interrupted} interrupted")


@pytest.mark.slow
def test_health_tries_a_shared_database(source: Path, database: str) -> None:
    """Nobody sends a report: what health says comes from trial writes, which leave nothing."""
    import psycopg  # noqa: PLC0415 (only there where there is a server)

    server = Server(source, OPTRR_DATABASE=database)
    try:
        assert health(server) == 200
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("ALTER TABLE reports RENAME TO gone")
            assert healthy(server, 503)
            connection.execute("ALTER TABLE gone RENAME TO reports")
            assert healthy(server)
            assert connection.execute("SELECT count(*) FROM reports").fetchone() == (0,)
        assert server.stop() == 0
        assert server.log.read_text().splitlines()[-1] == "stopped; every acknowledged report is kept"
    finally:
        if server.process.poll() is None:
            server.kill()


@asynccontextmanager
async def served(around: Callable[[ASGIApp], ASGIApp]) -> AsyncIterator[tuple[uvicorn.Server, Callable[..., Any]]]:
    """A server in this process, and what connects to it."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{kind}"
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    bound = survey_server.listening("127.0.0.1", 0)
    running = uvicorn.Server(survey_server.configured(around(app)))
    task = asyncio.create_task(running.serve(sockets=[bound]))
    while not running.started:
        await asyncio.sleep(0.01)
    yield running, partial(asyncio.open_connection, *bound.getsockname())
    running.should_exit = True
    await task


def reading(inner: ASGIApp) -> ASGIApp:
    """Around an application: one that reads a body to its end first, as reports are read."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
        await inner(scope, receive, send)

    return app


async def said_after(
    sent: list[bytes], around: Callable[[ASGIApp], ASGIApp] = reading, pause: float = 0.001
) -> tuple[bytes, int]:
    """What a server says to these pieces until it hangs up, and how many pieces it took."""
    taken, said = 0, b""
    async with served(around) as (_, connect):
        reader, writer = await connect()
        try:
            for piece in sent:
                writer.write(piece)
                await writer.drain()
                taken += 1
                await asyncio.sleep(pause)
                if reader.at_eof():
                    break
            said = await asyncio.wait_for(reader.read(), 5)
        except ConnectionError:
            # what was sent and not read any more makes the system say so
            pass
        writer.close()
    return said, taken


@pytest.mark.parametrize(
    "head",
    [
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
    ],
)
def test_a_body_that_nobody_reads_does_not_hold_the_connection(head: bytes) -> None:
    said, _ = asyncio.run(said_after([head], Guard))
    assert b"connection: close" in said.lower()


_CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = 10_000
ENDLESS = {
    "trailer fields": (_CHUNKED + b"0\r\n", b"X: y\r\n" * (_PIECE // 6)),
    "one trailer field": (_CHUNKED + b"0\r\nX: ", b"y" * _PIECE),
    "a chunk's extension": (_CHUNKED + b"1;a=", b"y" * _PIECE),
    "header fields": (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * (_PIECE // 6)),
    "one header field": (b"GET / HTTP/1.1\r\nX: ", b"y" * _PIECE),
    "the address": (b"GET /", b"y" * _PIECE),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_does_not_end_is_not_gathered(kind: str) -> None:
    """Nobody answers before the body is whole, as in the application."""
    begun, piece = ENDLESS[kind]
    _, taken = asyncio.run(said_after([begun, *[piece] * 2000]))
    # 20 MB would be taken otherwise; what stands in the system's own buffers is counted, too
    assert taken * _PIECE < 8_000_000


def test_more_connections_than_places_are_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_server, "_CONNECTIONS", 20)

    async def talk() -> bytes:
        async with served(Guard) as (_, connect):
            silent = [await connect() for _ in range(25)]
            reader, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), 10)
            for _, other in silent:
                other.transport.abort()
        return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 503")


def test_a_signal_before_the_first_request_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes before uvicorn listens to signals, which used to be lost."""
    late: list[int] = []
    plain = uvicorn.Server.run

    def signalled(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        signal.raise_signal(signal.SIGTERM)
        again = threading.Timer(10, lambda: (late.append(1), os.kill(os.getpid(), signal.SIGTERM)))
        again.start()
        plain(self, sockets=sockets)
        again.cancel()

    async def nothing(scope: object, receive: Callable[[], object], send: Callable[[object], object]) -> None:
        while True:
            message = await receive()  # type: ignore[misc]
            await send({"type": f"{message['type']}.complete"})  # type: ignore[misc]
            if message["type"] == "lifespan.shutdown":
                return

    monkeypatch.setattr(uvicorn.Server, "run", signalled)
    survey_server.run(nothing, survey_server.listening("127.0.0.1", 0))  # type: ignore[arg-type]
    assert not late


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run_command(["serve", str(source), "--port", str(port)]) == 2
    assert capsys.readouterr().err.startswith(f"error: cannot listen on 127.0.0.1 port {port}: ")


def test_what_cannot_be_served_is_one_line(source, monkeypatch, capsys):
    folder, note, given = source.parent, source.with_name("note.db"), str(source)
    note.write_text("no database")
    for token, arguments, message in (
        ("", [given, "--database", "mysql://u:secret@h/x"], "'mysql'"),
        ("", [given, "--public-url", "survey.example.org"], "not an address"),
        ("", [given, "--random-state", "1"], "No such option"),
        ("", [str(folder)], "Is a directory"),
        ("", [str(folder / "none.toml")], "No such file"),
        ("", [given, "--database", str(note)], "is not a database; give the file of a survey, or a new file"),
        ("", [given, "--database", str(folder / "none" / "x.db")], "in a folder with write permission"),
        ("letmein", [given], "7 characters"),
    ):
        monkeypatch.setenv("OPTRR_RESULTS_TOKEN", token)
        assert run_command(["serve", *arguments]) == 2
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1
        assert "secret" not in said and "letmein" not in said


def test_addresses_are_printed(source, monkeypatch, capsys):
    monkeypatch.setattr(survey_server, "run", lambda app, bound: None)
    command = ["serve", str(source), "--port", "0", "--public-url", "https://example.org/asked/"]
    assert run_command(command) == 0
    said = capsys.readouterr().out
    token = said.split("token: ")[1].split()[0]
    assert "https://example.org/asked/\n" in said
    assert "results: https://example.org/asked/results token: " in said
    assert len(token) >= 22
    assert run_command([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {"survey", "epsilon", "results", "token", "database", "links"}
    assert shown["token"] != token
    assert shown["database"] == str(source.with_name("questions.db"))
    monkeypatch.setenv("OPTRR_RESULTS_TOKEN", token)
    assert run_command([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["token"] is None
