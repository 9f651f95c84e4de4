"""Five hundred invited people at once, on one collector that is killed meanwhile: nothing acknowledged is lost."""

import asyncio
import json
import random
import secrets
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from survey_client import Server, free_port

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from tests.survey.test_invitations import hidden_of, tokens_in

PEOPLE = 500
# Answers, claims and reports together, after which the collector is killed.
KILLS = (120, 400, 650, 900)
# Seconds until everybody has an acknowledgement, with four restarts of a second or two.
PATIENCE = 180.0
CATEGORIES = [["yes", "no"], ["0", "1", "2"]]


@dataclass
class Crowd:
    """People with one link each, who try again what was not answered."""

    port: int
    design: str
    key: dict[str, Any]
    answered: int = 0
    interrupted: int = 0
    together: int = 0
    most_together: int = 0
    signatures: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    async def asked(self, path: str, content: dict[str, Any], start: asyncio.Barrier | None = None) -> dict[str, Any]:
        """The answer to a request, on a connection for each try."""
        body = json.dumps(content).encode()
        head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                self.together += 1
                self.most_together = max(self.most_together, self.together)
                try:
                    if start is not None:
                        await start.wait()
                        start = None
                    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
                    whole = await reader.read()
                finally:
                    self.together -= 1
                    writer.close()
                top, _, rest = whole.partition(b"\r\n\r\n")
                status = int(top.split()[1])
                assert status in (200, 503), whole
                if status == 200:
                    self.answered += 1
                    answer: dict[str, Any] = json.loads(rest)
                    return answer
            except (OSError, IndexError, ValueError):
                self.interrupted += 1
            await asyncio.sleep(random.uniform(0.05, 0.3))

    async def person(self, token: str, identifier: str, hidden: dict[str, str], start: asyncio.Barrier) -> None:
        claim = {"token": token, "blinded": hidden["blinded"]}
        began = time.monotonic()
        for first in (start, None):  # a reload asks again
            found = await self.asked("invitations", claim, first)
            self.signatures.setdefault(token, set()).add(found["signature"])
        n = int(self.key["n"], 16)
        invitation = int(found["signature"], 16) * int(hidden["secret"], 16) % n
        values = [random.choice(texts) for texts in CATEGORIES]
        report = {"format": "optrr-report/1", "design": self.design, "id": identifier, "values": values}
        report["invitation"] = f"{invitation:0{len(self.key['n'])}x}"
        assert await self.asked("reports", report) == {"kept": True}
        self.acknowledged[identifier] = values
        self.waits.append(time.monotonic() - began)


@pytest.mark.slow
def test_five_hundred_people_at_once_lose_no_report_to_kills(tmp_path: Path) -> None:
    spec, port = tmp_path / "q.json", free_port()
    attributes = [{"name": "a", "categories": CATEGORIES[0]}, {"name": "b", "size": 3}]
    spec.write_text(json.dumps({"epsilon": 1, "attributes": attributes}))
    servers = [Server(spec, "--invite", str(PEOPLE), port=port)]
    key = json.loads(servers[0].get("/survey.json"))["invitations"]
    crowd = Crowd(port, json.loads(servers[0].get("/sampler.json"))["design"], key)
    identifiers = [secrets.token_hex(16) for _ in range(PEOPLE)]
    hidden = hidden_of(key, identifiers)

    async def killed() -> None:
        for count in KILLS:
            while crowd.answered < count:
                await asyncio.sleep(0.002)
            await asyncio.to_thread(servers[-1].kill)
            servers.append(await asyncio.to_thread(Server, spec, "--invite", str(PEOPLE), port=port))

    async def all_at_once() -> None:
        start = asyncio.Barrier(PEOPLE)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(killed())
            for token, identifier, each in zip(tokens_in(tmp_path), identifiers, hidden, strict=True):
                group.create_task(crowd.person(token, identifier, each, start))

    asyncio.run(all_at_once())
    assert servers[-1].stop() == 0
    with sqlite3.connect(tmp_path / "q.db") as connection:
        rows = {identifier.hex(): list(record) for identifier, record in connection.execute("SELECT * FROM reports")}
    codes = {
        i: [texts.index(v) for texts, v in zip(CATEGORIES, values, strict=True)]
        for i, values in crowd.acknowledged.items()
    }
    assert rows == codes and len(rows) == PEOPLE
    # a claim that was answered is the same after every kill
    assert all(len(signed) == 1 for signed in crowd.signatures.values())
    assert crowd.most_together == PEOPLE and crowd.interrupted >= len(KILLS)
    logs = "".join(server.log.read_text() for server in servers)
    assert "Traceback" not in logs and "127.0.0.1" not in logs
    waits = sorted(crowd.waits)
    said = f"{crowd.interrupted} requests interrupted by {len(KILLS)} kills"
    print(f"{said}; median wait {waits[PEOPLE // 2]:.1f} s, longest {waits[-1]:.1f} s")
