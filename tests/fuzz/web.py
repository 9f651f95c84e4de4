"""The collector as a target: report bodies, and whole requests, to the application without a network."""

import json
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from optrr.survey.app import survey_app
from optrr.survey.invitations import Links
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission
from optrr.survey.store import database_url, open_database
from tests.survey_client import call, report_body

_SPECIFICATION = """
epsilon = 1.0
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "age"
size = 5
"""
_TOKEN = "a token of more than twenty characters"
_METHODS = ("GET", "POST", "HEAD", "PUT", "OPTIONS")
# What the collector answers; nothing is an error of its own.
# 307 leads from a path with a slash at its end to the same without
_STATUSES = {200, 204, 303, 307, 400, 401, 403, 404, 405, 408, 409, 411, 413, 415, 422, 429}


@cache
def _survey() -> Survey:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.toml"
        path.write_text(_SPECIFICATION)
        made = prepared(path)
        # read while they are there
        assert made.files
        return made


@cache
def _application(folder: Path) -> Any:
    """An application with a database of its own."""
    engine = open_database(database_url(str(folder / "collected.db")))
    return survey_app(_survey(), engine, Admission(_TOKEN), secure=False)


def bodies(data: bytes, folder: Path) -> None:
    """A report's body."""
    reply = call(_application(folder), "POST", "/reports", data, content_type="application/json")
    assert reply.status in {200, 400, 409, 413, 422}, reply.status
    content = json.loads(reply.body)
    assert content == {"kept": True} or set(content) == {"error"}, content


@cache
def _invited(folder: Path) -> Any:
    """An application of the same survey by invitation, with one link whose token is known."""
    engine = open_database(database_url(str(folder / "invited.db")))
    links = Links(1, "http://127.0.0.1/", folder / "invited.links.txt")
    app = survey_app(_survey(), engine, Admission(_TOKEN), secure=False, links=links)
    return app, links.file.read_text().strip().partition("#i=")[2]


def claims(data: bytes, folder: Path) -> None:
    """A claim of an invitation."""
    app, token = _invited(folder)
    reply = call(app, "POST", "/invitations", data.replace(b"TOKEN", token.encode()), content_type="application/json")
    assert reply.status in {200, 400, 403, 409, 413, 422}, reply.status
    content = json.loads(reply.body)
    assert set(content) == ({"signature"} if reply.status == 200 else {"error"}), content
    # what was sent is in no answer
    assert token.encode() not in reply.body


def claim_seeds() -> list[bytes]:
    """Of the known token, and of another one."""
    return [json.dumps({"token": token, "blinded": "00" * 255 + "02"}).encode() for token in ("TOKEN", "other")]


def requests(data: bytes, folder: Path) -> None:
    """Lines: method and path, headers, an empty one, the body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    method, _, path = first.partition(" ")
    headers = dict(line.partition(": ")[::2] for line in lines if line)
    given = {k.lower(): v.replace("TOKEN", _TOKEN) for k, v in headers.items() if k}
    # a body that is announced and does not come is waited for, by design
    given.pop("content-length", None)
    method = method if method in _METHODS else "GET"
    reply = call(_application(folder), method, f"/{path.lstrip('/')}", body, **given)
    assert reply.status in _STATUSES, reply.status


def body_seeds() -> list[bytes]:
    """Reports of this survey."""
    design = _survey().deployment.design
    return [report_body(design, f"{k:032x}", values) for k, values in enumerate((["F", "3"], ["M", "0"]))]


def request_seeds() -> list[bytes]:
    """One of every kind."""
    form = b"content-type: application/x-www-form-urlencoded\n\n"
    return [
        b"GET \naccept-encoding: gzip;q=0.5, br\n\n",
        b"GET sampler.json\n\n",
        b"GET health\n\n",
        b"GET results\nauthorization: Bearer TOKEN\n\n",
        b"GET results?attributes=sex,age&confidence=0.9&method=unbiased\nauthorization: Bearer TOKEN\n\n",
        b"GET results/records.csv\nauthorization: Bearer TOKEN\ncookie: optrr_results=1.2\n\n",
        b"POST results\n" + form + b"token=TOKEN",
        b"POST reports\ncontent-type: application/json\n\n" + body_seeds()[0],
    ]


def database_seeds() -> list[bytes]:
    """A survey's database with two reports."""
    with tempfile.TemporaryDirectory() as folder:
        for body in body_seeds():
            bodies(body, Path(folder))
        place = Path(folder) / "collected.db"
        with sqlite3.connect(place) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return [place.read_bytes()]
