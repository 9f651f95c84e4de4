"""The survey over HTTP: what is accepted, what is refused and how, who sees the results."""

import asyncio
import csv
import gc
import gzip
import io
import json
import random
import re
import secrets
import sqlite3
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from html_page import Read
from survey_client import FORM, JSON, TOKEN, Reply, call, called, entered, report_body
from survey_client import kept_reports as kept

import optrr

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

import sqlalchemy as sa

from optrr.core.design.designs import Design
from optrr.core.design.solving import design
from optrr.core.design.specification import read_specification
from optrr.core.domain.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation.estimator import estimate
from optrr.core.estimation.poisoned import poisoning
from optrr.core.provenance.provenance import Provenance
from optrr.core.records.counts import count
from optrr.devices.export import fitted_deployment
from optrr.survey import guard
from optrr.survey.app import FORMAT, ReportReader, survey_app
from optrr.survey.guard import STRICT_HEADERS
from optrr.survey.page import HEADERS, page_files
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission, Reading, Recent, Results, new_token
from optrr.survey.store import Report, Store, database_url, open_database
from optrr.survey.stored_records import Packing

SPECIFICATION = """
title = "Wie es Ihnen geht <b>"
language = "en"
epsilon = 1.0
[[attributes]]
name = "income"
categories = ["low", "high", ""]
question = "Ihr Einkommen?"
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "<age>"
size = 4
"""


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    path = tmp_path_factory.mktemp("survey") / "questions.toml"
    path.write_text(SPECIFICATION)
    return prepared(path)


def body_of(survey: Survey) -> bytes:
    """A report that is taken."""
    return report_body(survey.deployment.design, secrets.token_hex(16), ["low", "F", "3"])


def post(app: Any, body: bytes | list[bytes], **headers: str) -> Reply:
    return call(app, "POST", "/reports", body, **(JSON | headers))


def waiting(app: Any, receive: Any, **headers: str) -> int:
    """The status of a report whose body comes from this coroutine."""
    statuses: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    given = [(k.replace("_", "-").encode(), v.encode()) for k, v in (JSON | headers).items()]
    scope = {"type": "http", "method": "POST", "path": "/reports", "query_string": b"", "headers": given}
    asyncio.run(app(scope, receive, send))
    return statuses[0]


def test_the_page_has_what_it_fetches(app: Any, survey: Survey) -> None:
    for path, file in page_files().items():
        reply = call(app, "GET", f"/{path}")
        assert (reply.status, reply.body) == (200, file.body)
        assert HEADERS.items() <= {k.title(): v for k, v in reply.headers.items()}.items()
    assert call(app, "GET", "/sampler.json").body == survey.deployment.to_bytes()
    small = call(app, "GET", "/sampler.json", accept_encoding="br, gzip;q=0.8")
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == survey.deployment.to_bytes()
    assert len(small.body) < len(survey.deployment.to_bytes())
    texts = call(app, "GET", "/survey.json").json
    assert (texts["digest"], texts["languages"]) == (survey.asked, ["en"])
    assert texts["texts"] == {"en": {"title": "Wie es Ihnen geht <b>", "questions": {"income": "Ihr Einkommen?"}}}
    assert (texts["kiosk"], texts["invitations"]) == (False, None)
    assert call(app, "GET", "/words-en.json").json["plurals"] == {"one": 0, "other": 1}
    assert call(app, "GET", "/words-fr.json").status == 404
    assert call(app, "GET", "/health").json == {"status": "ok"}


def test_a_report_is_acknowledged_however_often_it_comes(app: Any, survey: Survey, engine: sa.Engine) -> None:
    body = body_of(survey)
    spaced = json.dumps(json.loads(body), indent=3).encode()
    named = json.dumps({**json.loads(body), "wording": call(app, "GET", "/survey.json").json["digest"]}).encode()
    for sent in (body, body, spaced, named, [body[:7], body[7:]]):
        reply = post(app, sent, content_type="Application/JSON; charset=utf-8")
        assert (reply.status, reply.json) == (200, {"kept": True})
    assert kept(engine) == 1
    other = body.replace(b"low", b"high")
    assert post(app, other).status == 409
    assert kept(engine) == 1


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (lambda r: {**r, "design": "0" * 64}, 422, "design of another survey"),
        (lambda r: {**r, "wording": "0" * 64}, 422, "questions of another survey"),
        (lambda r: {**r, "wording": ""}, 422, "questions of another survey"),
        (lambda r: {**r, "wording": None}, 400, "not a report"),
        (lambda r: {**r, "format": "optrr-report/2"}, 422, "format of the report is not"),
        (lambda r: {**r, "id": r["id"].upper() + "A"}, 422, "32 lower-case"),
        (lambda r: {**r, "id": "A" * 32}, 422, "32 lower-case"),
        (lambda r: {**r, "id": "٣" * 32}, 422, "32 lower-case"),
        (
            lambda r: {**r, "values": ["low", "secretvalue", "3"]},
            422,
            "the value of attribute 'sex' is not one of its declared",
        ),
        (lambda r: {**r, "values": ["low", None, "3"]}, 422, "attribute 'sex'"),
        (lambda r: {**r, "values": ["low", "F"]}, 422, "has 2 values; this design has 3"),
        (lambda r: {**r, "values": ["low", "F", "3", "3"]}, 422, "has 4 values"),
        (lambda r: {**r, "values": [0, 1, 3]}, 400, "not a report"),
        (lambda r: {**r, "values": {"income": "low"}}, 400, "not a report"),
        (lambda r: {**r, "true": ["low", "F", "3"]}, 400, "not a report"),
        (lambda r: {k: v for k, v in r.items() if k != "id"}, 400, "not a report"),
        (lambda r: [r], 400, "not a report"),
    ],
)
def test_what_is_no_report_of_this_design_is_refused(change, status, message, app, survey, engine, capsys):
    body = json.loads(body_of(survey))
    reply = post(app, json.dumps(change(body)).encode(), x_forwarded_for="203.0.113.9")
    assert (reply.status, set(reply.json)) == (status, {"error"})
    assert message in reply.json["error"] and "\n" not in reply.json["error"]
    # nothing of what was sent, or of who sent it, is repeated
    said = reply.body.decode() + "".join(capsys.readouterr())
    assert "secretvalue" not in said and "203.0.113.9" not in said
    assert kept(engine) == 0


@pytest.mark.parametrize("key", ["format", "design", "id", "values", r"v\u0061lues"])
def test_a_key_that_is_given_twice_is_refused(key: str, app: Any, survey: Survey, engine: sa.Engine) -> None:
    """Also where it is written in two ways, or both values are alike: readers differ in which one they take."""
    body = body_of(survey)
    value = json.dumps(json.loads(body)[json.loads(f'"{key}"')])
    for twice in (body[:-1] + f', "{key}": {value}}}'.encode(), f'{{"{key}": {value}, '.encode() + body[1:]):
        assert json.loads(twice) == json.loads(body)
        reply = post(app, twice)
        assert (reply.status, "each once" in reply.json["error"]) == (400, True)
    assert kept(engine) == 0
    assert post(app, body).status == 200


def test_other_types_and_encodings_are_refused(app: Any, survey: Survey, engine: sa.Engine) -> None:
    body = body_of(survey)
    assert call(app, "POST", "/reports", body).status == 415
    for headers in (
        {"content_type": "text/plain"},
        {"content_type": "application/json+x"},
        {"content_encoding": "gzip"},
    ):
        assert post(app, body, **headers).status == 415
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert call(app, method, "/reports", body, **JSON).status == 405
    # a page of another origin may not ask: there is no answer to a preflight
    preflight = call(app, "OPTIONS", "/reports", origin="https://elsewhere.example")
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    assert kept(engine) == 0


@pytest.mark.parametrize("length", ["1000000", "9" * 5000, "-1", "1e3", "٣"])
def test_oversized_bodies_are_refused_before_they_are_read(length: str, app: Any) -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("it was read")

    assert waiting(app, receive, content_length=length) == 413


def test_a_body_without_end_is_refused(app: Any, survey: Survey) -> None:
    endless = post(app, [body_of(survey), *[b" " * 1000] * 1000])
    assert (endless.status, endless.headers["connection"]) == (413, "close")


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_holds_the_longest_report_of_a_design(seed: int) -> None:
    """However a JSON writer escapes it, whatever the categories are."""
    rng = random.Random(seed)
    texts = [chr(rng.choice([0x41, 0xE9, 0x20AC, 0x1F600, 0x22, 0x5C, 1])) * rng.randint(1, 200) for _ in range(40)]
    domain = Domain(tuple(Attribute(f"a{i}", (text, None)) for i, text in enumerate(texts)))
    reader = ReportReader("d" * 64, "e" * 64, domain)
    report = {"format": FORMAT, "design": "d" * 64, "id": "0" * 32, "values": texts}
    escaped = json.dumps(report, indent=2, ensure_ascii=True).encode()
    assert len(escaped) <= reader.most_bytes
    assert reader.report(escaped).record == b"\0" * 40


def test_a_body_that_does_not_come_is_given_up(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    assert waiting(app, receive) == 408


@pytest.mark.parametrize("asked", ["GET /", "GET /nothing", "POST /reports", "GET /health", "GET /results", "PUT /"])
def test_every_answer_has_strict_headers(asked: str, app: Any) -> None:
    reply = call(app, *asked.split())
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src 'unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert {name.lower() for name in STRICT_HEADERS} <= set(reply.headers)
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "server" not in reply.headers
    names = [name for name, _ in reply.all_headers]
    assert len(names) == len(set(names))


def test_a_defect_is_one_sentence(app, monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise RuntimeError("secretvalue")

    monkeypatch.setattr(ReportReader, "report", broken)
    reply = post(app, b"{}")
    assert reply.status == 500
    assert "secretvalue" not in reply.json["error"]
    log = capsys.readouterr().err
    assert log.startswith("optrr serve: RuntimeError at ")
    assert log.count("\n") == 1
    assert "secretvalue" not in log


def test_a_database_that_fails_keeps_nothing_and_says_so(app, survey, engine, capsys):
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE reports RENAME TO gone"))
    body = body_of(survey)
    reply = post(app, body)
    assert reply.status == 503
    assert reply.headers["retry-after"] == "5"
    assert capsys.readouterr().err == "optrr serve: reports cannot be stored: no such table: reports\n"
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE gone RENAME TO reports"))
    assert post(app, body).status == 200


def test_a_report_whose_file_goes_while_it_is_committed_is_not_acknowledged(app, survey, engine, tmp_path):
    database, away = tmp_path / "survey.db", tmp_path / "away.db"
    sa.event.listen(engine, "commit", lambda _: database.rename(away), once=True)
    body = body_of(survey)
    assert post(app, body).status == 503
    assert away.exists()
    assert call(app, "GET", "/health").status == 503
    away.rename(database)
    assert post(app, body).status == 200
    assert kept(engine) == 1


def test_whoever_asks_for_health_causes_few_writes(app: Any, engine: sa.Engine) -> None:
    commits: list[object] = []
    sa.event.listen(engine, "commit", commits.append)

    async def ask(times: int) -> set[int]:
        replies = await asyncio.gather(*(called(app, "GET", "/health") for _ in range(times)))
        return {reply.status for reply in replies}

    assert asyncio.run(ask(50)) == {200}
    assert asyncio.run(ask(50)) == {200}
    assert len(commits) == 1
    assert kept(engine) == 0


@pytest.fixture
def admitted(app: Any) -> dict[str, str]:
    return entered(app)


def test_results_are_for_whoever_has_the_token(app: Any, survey: Survey, engine: sa.Engine) -> None:
    assert b'name="token"' in call(app, "GET", "/results").body
    behind = ["counts.csv", "published.html", "reports.parquet", "design.json"]
    forged = ["", "x", "99999999999.0", f"99999999999.{'0' * 64}", f"{'9' * 5000}.0", f"-1.{'0' * 64}", "٣.0"]
    for cookie in forged:
        given = {"cookie": f"optrr_results={cookie.encode().decode('latin-1')}"}
        assert b'name="token"' in call(app, "GET", "/results", **given).body
        assert {call(app, "GET", f"/results/{name}", **given).status for name in behind} == {403}
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
        reply = call(app, "POST", "/results", f"token={token}".encode(), **FORM)
        assert reply.status == 403
        assert "set-cookie" not in reply.headers
    assert call(app, "POST", "/results", b"token=" + b"x" * 5000, **FORM).status == 413
    cookie = call(app, "POST", "/results", f"token={TOKEN}".encode(), **FORM).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    secure = survey_app(survey, engine, Admission(TOKEN), secure=True)
    assert "Secure" in call(secure, "POST", "/results", f"token={TOKEN}".encode(), **FORM).headers["set-cookie"]
    # another token, as after a restart, ends what was admitted
    restarted = survey_app(survey, engine, Admission(new_token()), False)
    assert b'name="token"' in call(restarted, "GET", "/results", **entered(app)).body


def test_an_admission_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = Admission(TOKEN)
    cookie = admission.cookie()
    assert admission.admits(cookie)
    moved = f"{int(cookie.split('.')[0]) + 1}.{cookie.split('.')[1]}"
    assert not admission.admits(moved)
    now = int(cookie.split(".")[0])
    monkeypatch.setattr("optrr.survey.results.time.time", lambda: now + 1)
    assert not admission.admits(cookie)
    for weak in ("", "short", "é" * 30):
        with pytest.raises(InvalidInput, match="random ASCII characters"):
            Admission(weak)


def fill(design: Design, engine: sa.Engine, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = design.mechanism.randomize_codes(
        np.stack([rng.integers(0, r, n) for r in design.domain.sizes], axis=1), seed
    )
    packing = Packing(design.domain)
    Store(engine).add([Report(rng.bytes(16), packing.pack(row)) for row in codes.tolist()])
    return codes


def test_results_show_the_estimates_of_what_is_stored(app, survey, engine, admitted) -> None:
    assert b"Estimates begin" in call(app, "GET", "/results", **admitted).body
    assert call(app, "GET", "/results/counts.csv", **admitted).status == 400
    codes = fill(survey.design, engine, 900, 3)
    table = pa_csv.read_csv(io.BytesIO(call(app, "GET", "/results/counts.csv", **admitted).body)).to_pylist()
    for name in survey.design.domain.names:
        expected = estimate(count(codes, survey.design.domain, name), survey.design.mechanism)
        rows = [row for row in table if row["attribute"] == name]
        # Arrow writes the shortest text that reads back to the same number
        assert [row["estimate"] for row in rows] == expected.estimate.tolist()
        assert [row["upper"] for row in rows] == expected.upper.tolist()
        assert [row["count"] for row in rows] == np.bincount(codes[:, survey.design.domain.index(name)]).tolist()
    page = call(app, "GET", "/results?attribute=income&attribute=sex", **admitted)
    assert page.status == 200
    assert b"900 reports" in page.body
    assert (
        "The reports do not show that the answers to “Ihr Einkommen?” and “sex” are related (\u2066p = ".encode()
        in page.body
    )
    crossed = count(codes, survey.design.domain, ["income", "sex"])
    fakes = poisoning(crossed, survey.design.mechanism, 1).reports_to_move()
    assert f"{fakes} made-up reports can move a percentage of this table by one point.".encode() in page.body
    tags = Read(page.body.decode()).with_attributes
    assert sum(tag == "ul" and a.get("class") == "intervals" for tag, a in tags) == 1
    assert not [t for t, a in tags if t == "script" or any(name.startswith("on") for name in a)]
    assert not [v for _, a in tags for k, v in a.items() if k in ("src", "href") and re.match(r"\w+:|//", v or "")]
    assert b"&lt;b&gt;" in page.body
    assert b"<b>" not in page.body


def test_results_are_downloaded_as_they_are_shown(app, survey, engine, admitted) -> None:
    codes = fill(survey.design, engine, 300, 4)
    page = call(app, "GET", "/results?attribute=sex&attribute=%3Cage%3E", **admitted).body.decode()
    links = [a["href"] for t, a in Read(page).with_attributes if t == "a"]
    assert len(links) == 5
    links = [link for link in links if link.startswith("results/")]
    assert len(links) == 4
    for link in links:
        reply = call(app, "GET", f"/{link}", **admitted)
        assert (reply.status, reply.headers["content-disposition"].split(";")[0]) == (200, "attachment")
    csv_link = next(link for link in links if "csv" in link)
    crossed = pa_csv.read_csv(io.BytesIO(call(app, "GET", f"/{csv_link}", **admitted).body))
    assert crossed.column_names[:3] == ["sex", "<age>", "count"]
    expected = count(codes, survey.design.domain, ("sex", "<age>"))
    assert crossed["count"].to_pylist() == expected.table.ravel().tolist()
    stored = pq.read_table(io.BytesIO(call(app, "GET", "/results/reports.parquet", **admitted).body))
    assert np.array_equal(count(stored, survey.design.domain, ("sex", "<age>")).table, expected.table)
    provenance = Provenance.from_metadata(stored.schema.metadata, "the download")
    assert provenance is not None
    assert provenance.release.design == survey.design.mechanism.digest
    assert stored.column_names == list(survey.design.domain.names)
    assert call(app, "GET", "/results/design.json", **admitted).body == survey.design_file.raw
    for wrong in ("attribute=nobody", "attribute=sex&attribute=sex"):
        assert call(app, "GET", f"/results?{wrong}", **admitted).status == 400
    assert call(app, "POST", "/results/leave", **admitted).headers["location"] == "../results"


def test_results_that_take_too_long_are_there_when_they_are_asked_for_again(app, monkeypatch):
    admitted, asked, enough = entered(app), [], threading.Event()

    def slow(results: Results, names: tuple[str, ...]) -> Reading:
        asked.append(names)
        enough.wait()
        return Reading(0, datetime.now(UTC), ())

    monkeypatch.setattr(Results, "read", slow)
    monkeypatch.setattr(guard, "ANSWER_SECONDS", 0.2)

    async def twice() -> tuple[Reply, Reply]:
        late = await called(app, "GET", "/results", **admitted)
        monkeypatch.setattr(guard, "ANSWER_SECONDS", 600.0)
        again = asyncio.create_task(called(app, "GET", "/results", **admitted))
        await asyncio.sleep(0.1)
        enough.set()
        return late, await again

    late, again = asyncio.run(twice())
    assert (late.status, again.status, len(asked)) == (503, 200, 1)


def test_an_error_for_which_nobody_waits_any_more_is_not_printed() -> None:
    async def left() -> list[Any]:
        printed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(context))
        recent, enough = Recent(), threading.Event()

        def fails() -> bytes:
            enough.wait()
            raise InvalidInput("no results")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(recent.get("key", fails), 0.05)
        enough.set()
        # one is computed at a time, so the first has ended when this has
        with pytest.raises(InvalidInput, match="no results"):
            await recent.get("other", fails)
        gc.collect()
        return printed

    assert asyncio.run(left()) == []


@pytest.mark.parametrize("part", ["bytes=2-5", "bytes=9999999-", "bytes=x"])
def test_a_download_is_whole_and_leaves_no_file(part, app, survey, engine, tmp_path, monkeypatch):
    fill(survey.design, engine, 30, 6)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    reply = call(app, "GET", "/results/reports.parquet", range=part, **entered(app))
    assert (reply.status, reply.headers["content-length"]) == (200, str(len(reply.body)))
    assert pq.read_table(io.BytesIO(reply.body)).num_rows == 30
    assert set(tmp_path.iterdir()) == before


FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(1)", "\t=1", " =1", "＝1", "-"]
PLAIN = ["-9", "+3.5", "low", "a=b", "[-1, 2)", "'s-Gravenhage", ""]


def test_the_table_for_spreadsheets_holds_no_formulas(tmp_path: Path, engine: sa.Engine) -> None:
    path, name = tmp_path / "q.toml", "=HYPERLINK(1)"
    texts = [*FORMULAS, "'=1", *PLAIN]
    path.write_text(f"[[attributes]]\nname = {json.dumps(name)}\nepsilon = 9\ncategories = {json.dumps(texts)}\n")
    survey = prepared(path)
    app = survey_app(survey, engine, Admission(TOKEN), secure=False)
    fill(survey.design, engine, 300, 5)
    admitted = entered(app)
    for asked, column in (("", 1), (f"?attribute={quote(name)}", 0)):
        body = call(app, "GET", f"/results/counts.csv{asked}", **admitted).body.decode()
        head, *rows = csv.reader(io.StringIO(body, newline=""))
        assert f"'{name}" in (head[0], rows[0][0])
        # plain texts are as they were; of the others one apostrophe is to be taken away
        assert [row[column] for row in rows] == [*(f"'{text}" for text in [*FORMULAS, "'=1"]), *PLAIN]
    # the records for programs are exact
    stored = pq.read_table(io.BytesIO(call(app, "GET", "/results/reports.parquet", **admitted).body))
    assert stored.column_names == [name]
    assert set(stored[name].to_pylist()) <= set(texts)
    assert count(stored, survey.design.domain, name).table.tolist() == [int(row[column + 1]) for row in rows]


def test_a_new_database_is_for_its_owner(tmp_path: Path) -> None:
    """With its log and its index, while it is used; the permissions of one that is there are its owner's choice."""
    path = tmp_path / "q.toml"
    path.write_text(SPECIFICATION)
    there = tmp_path / "there.db"
    there.touch(0o644)
    for database, mode in ((tmp_path / "new.db", 0o600), (there, there.stat().st_mode & 0o777)):
        engine = open_database(database_url(str(database)))
        survey_app(prepared(path), engine, Admission(TOKEN), secure=False)
        files = list(tmp_path.glob(f"{database.name}*"))
        assert {file.stat().st_mode & 0o777 for file in files} == {mode} and len(files) == 3
        engine.dispose()


def test_a_survey_that_is_started_again_keeps_its_design(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text(SPECIFICATION)
    first = prepared(path)
    saved = (tmp_path / "q.design.json").read_bytes()
    assert prepared(path).files == first.files
    assert (tmp_path / "q.design.json").read_bytes() == saved
    from_design = prepared(tmp_path / "q.design.json", path)
    assert from_design.files == first.files
    assert from_design.wording == first.wording
    without_texts = prepared(tmp_path / "q.design.json")
    texts = json.loads(without_texts.page_json())
    assert (texts["languages"], texts["texts"], texts["digest"]) == (["en"], {"en": {}}, without_texts.asked)
    path.write_text(SPECIFICATION.replace("epsilon = 1.0", "epsilon = 2.0"))
    other, variants = tmp_path / "other.toml", tmp_path / "variants.json"
    other.write_text('[[attributes]]\nname = "a"\nsize = 2\nepsilon = 1')
    variants.write_text('{"format": "optrr-sampled-variants/1"}')
    for given, message in (
        ((path,), "another specification"),
        ((tmp_path / "q.design.json", other), "attributes or categories differ"),
        ((path, other), "its own texts"),
        ((variants,), "this needs a design of whole records"),
    ):
        with pytest.raises(InvalidInput, match=message):
            prepared(*given)


@pytest.mark.parametrize("links", [True, False])
def test_a_design_that_another_collector_saved_meanwhile_is_served(links, tmp_path, monkeypatch):
    """Solvers need not come to the same design twice; reports of two designs could not be mixed."""
    path, saved = tmp_path / "q.toml", tmp_path / "q.design.json"
    path.write_text(SPECIFICATION)
    others: list[Design] = []

    def made(*arguments: Any, **options: Any) -> Design:
        others.append(design(*arguments, **options, method="kronecker"))
        optrr.save(others[0], saved)
        return design(*arguments, **options)

    def without_links(_source: Path, _target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("optrr.survey.preparing.design", made)
    if not links:
        monkeypatch.setattr("os.link", without_links)
    survey = prepared(path)
    assert survey.design.mechanism.digest == others[0].mechanism.digest
    assert survey.files.design == saved.read_bytes()
    assert others[0].epsilon > design(survey.design.domain, 1.0).epsilon
    assert [f.name for f in tmp_path.iterdir() if f not in (path, saved)] == []


def test_a_folder_that_takes_no_design_is_said_of_the_design_s_own_name(tmp_path, monkeypatch):
    def full(_made: Design, path: Path) -> None:
        raise InvalidInput(f"cannot write {path}: No space left on device; choose another path")

    path = tmp_path / "q.toml"
    path.write_text(SPECIFICATION)
    monkeypatch.setattr("optrr.survey.preparing.save_design", full)
    with pytest.raises(InvalidInput, match=r"cannot write \S*/q\.design\.json: No space"):
        prepared(path)


@pytest.mark.slow
def test_a_mechanism_too_fine_for_a_page_is_solved_again(tmp_path: Path) -> None:
    """What is saved, drawn with and estimated with is one design."""
    path = tmp_path / "wide.toml"
    attribute = '[[attributes]]\nname = "a{0}"\nsize = {1}\nepsilon = {2}\n'
    path.write_text("".join(attribute.format(i, 2 + i % 4, 0.2 + i / 40) for i in range(60)))
    wanted = read_specification(path)
    fine = design(wanted.domain, wanted.required_epsilons())
    fitted = fitted_deployment(fine, 1 << 18)
    assert fitted.anew
    survey = prepared(path)
    assert survey.deployment.to_bytes() == fitted.deployment.to_bytes()
    assert survey.design.mechanism.digest == fitted.design.mechanism.digest != fine.mechanism.digest
    assert prepared(path).files == survey.files
    # a design that is saved is served as it is or not at all, although another one could be had
    optrr.save(fine, tmp_path / "fine.json")
    with pytest.raises(InvalidInput, match="too large for a page"):
        prepared(tmp_path / "fine.json")


def test_a_table_of_reports_knows_nothing_else(app: Any, survey: Survey, engine: sa.Engine, tmp_path: Path) -> None:
    body = report_body(survey.deployment.design, "0f" * 16, ["high", "M", "1"])
    assert post(app, body, user_agent="browser", x_forwarded_for="203.0.113.9").status == 200
    engine.dispose()
    rows = sqlite3.connect(tmp_path / "survey.db").execute("SELECT * FROM reports").fetchall()
    assert rows == [(bytes.fromhex("0f" * 16), bytes([1, 1, 1]))]
    assert not [f.name for f in tmp_path.iterdir() if b"203.0.113.9" in f.read_bytes()]
