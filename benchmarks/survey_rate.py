"""Reports that a survey's collector stores per second, on SQLite; writes benchmarks/results/survey_rate.json.

Rounds take three seconds. The reference is the same server with the same headers, group commit and database that stores
every body unread: the ratio of the two is the cost of checking, packing and counting once. Rounds of the two take
turns, so that other work on the machine meets both. People are 64 connections that send their next report when the last
one is acknowledged; a report has Adult's nine attributes; every acknowledgement waits for the disk. The processor's
seconds are those of the server's process alone.
"""

import asyncio
import json
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import optrr
from optrr import design
from optrr.core.domain.datasets import adult_domain
from optrr.survey.app import FORMAT, survey_app
from optrr.survey.guard import Guard, json_response
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission, new_token
from optrr.survey.server import listening, run
from optrr.survey.store import GroupCommit, Report, Store, begin_survey, database_url, open_database

SEED = 1
CONNECTIONS = 64
ROUNDS = 5
BODIES = 20_000


def unchecked(survey: Survey, path: Path):
    """The same server, storing bodies unread under a fresh identifier each."""
    from starlette.requests import Request
    from starlette.routing import Route, Router

    engine = open_database(database_url(str(path)))
    begin_survey(engine, survey.files)
    commits = GroupCommit(Store(engine))

    async def take(request: Request):
        await commits.add(Report(os.urandom(16), await request.body()))
        return json_response({"kept": True})

    return Guard(Router([Route("/reports", take, methods=["POST"])]))


def checked(survey: Survey, path: Path):
    return survey_app(survey, open_database(database_url(str(path))), Admission(new_token()), secure=False)


SERVERS = {"checked": checked, "unchecked": unchecked}


def serve(kind: str, design_file: Path, database: Path, pipe: Connection) -> None:
    """The server's process: it reports its port, and in the end its processor time."""
    app = SERVERS[kind](prepared(design_file), database)
    with listening("127.0.0.1", 0) as bound:
        pipe.send((bound.getsockname()[1], time.process_time()))
        run(app, bound)
    pipe.send(time.process_time())


class Person(asyncio.Protocol):
    """One connection: the next report goes out when the last one is acknowledged, until it is time."""

    def __init__(self, requests: list[bytes], ends: float, done: asyncio.Event) -> None:
        self.requests, self.ends, self.done, self.acknowledged = requests, ends, done, 0
        self.gathered = b""

    def connection_made(self, transport) -> None:
        """Send the first report."""
        self.transport = transport
        transport.write(self.requests.pop())

    def data_received(self, data: bytes) -> None:
        """Count an acknowledgement and send the next report."""
        self.gathered += data
        if not self.gathered.endswith(b'{"kept":true}'):
            return
        assert self.gathered.startswith(b"HTTP/1.1 200"), self.gathered
        self.gathered = b""
        self.acknowledged += 1
        if time.perf_counter() < self.ends:
            self.transport.write(self.requests.pop())
        else:
            self.transport.close()

    def connection_lost(self, exc) -> None:
        """Say that it was the last report."""
        self.done.set()


async def sustained(port: int, bodies: list[bytes], seconds: float) -> tuple[int, float]:
    """Acknowledged reports, and seconds."""
    heads = f"POST /reports HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: "
    loop = asyncio.get_running_loop()
    # every connection has its share of the bodies, so that no identifier is sent twice
    requests = [
        [heads.encode() + b"%d\r\n\r\n" % len(b) + b for b in bodies[k::CONNECTIONS]] for k in range(CONNECTIONS)
    ]
    started = time.perf_counter()
    people = [Person(r, started + seconds, asyncio.Event()) for r in requests]
    for person in people:
        await loop.create_connection(lambda p=person: p, "127.0.0.1", port)
    for person in people:
        await person.done.wait()
    return sum(p.acknowledged for p in people), time.perf_counter() - started


def bodies_of(survey: Survey, number: int) -> list[bytes]:
    """Randomized records of the design as clients send them."""
    rng = np.random.default_rng(SEED)
    domain = survey.design.domain
    true = np.stack([rng.integers(0, r, number) for r in domain.sizes], axis=1)
    codes = survey.design.mechanism.randomize_codes(true, 1).tolist()
    texts = [a.texts for a in domain]
    return [
        json.dumps(
            {
                "format": FORMAT,
                "design": survey.deployment.design,
                "id": rng.bytes(16).hex(),
                "values": [t[c] for t, c in zip(texts, row, strict=True)],
            },
            separators=(",", ":"),
        ).encode()
        for row in codes
    ]


def one_round(kind: str, design_file: Path, bodies: list[bytes], seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=design_file.parent) as folder:
        ours, theirs = get_context("fork").Pipe()
        database = Path(folder) / "survey.db"
        process = get_context("fork").Process(target=serve, args=(kind, design_file, database, theirs))
        process.start()
        port, before = ours.recv()
        acknowledged, took = asyncio.run(sustained(port, bodies, seconds))
        process.terminate()
        after = ours.recv()
        process.join()
        with closing(sqlite3.connect(database)) as connection:
            kept = connection.execute("SELECT count(*) FROM reports").fetchone()[0]
        assert kept == acknowledged, (kept, acknowledged)
    return {
        "per_second": acknowledged / took,
        "per_cpu_second": acknowledged / (after - before),
        "cpu_share": (after - before) / took,
    }


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "design.json"
        optrr.save(design(adult_domain(), 1.0), path)
        survey = prepared(path)
        bodies = bodies_of(survey, int(BODIES * seconds))
        rounds = {kind: [] for kind in SERVERS}
        for _ in range(ROUNDS):
            for kind, measured in rounds.items():
                measured.append(one_round(kind, path, bodies, seconds))
    medians = {
        kind: {k: statistics.median(r[k] for r in measured) for k in measured[0]} for kind, measured in rounds.items()
    }
    ratios = [a["per_second"] / b["per_second"] for a, b in zip(rounds["checked"], rounds["unchecked"], strict=True)]
    result = {
        "attributes": survey.design.domain.m,
        "bytes_of_a_body": statistics.median(map(len, bodies)),
        "connections": CONNECTIONS,
        **medians,
        "ratio": statistics.median(ratios),
        "ratio_of_cpu": medians["checked"]["per_cpu_second"] / medians["unchecked"]["per_cpu_second"],
    }
    out = Path(__file__).parent / "results" / "survey_rate.json"
    out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(seconds=3.0)
