"""The server of a plan's page, and points in the background: its own page, one-line refusals, each point once."""

import asyncio
import copy
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pytest
from plan_questions import SCHOOL, AtOnce, alike, invented
from survey_client import Reply, called

from optrr.core.design.specification import declared
from optrr.planner.preview import LADDER, Point, point
from optrr.planner.question import Question
from optrr.planner.work import Known, PlanWork
from tests.fuzz.changes import changed

pytest.importorskip("starlette", reason="the page's server needs the extra serve")

from plan_questions import school_question

from optrr.core.errors import InvalidInput
from optrr.planner import app as plan_server
from optrr.planner.app import MOST_BYTES, plan_app

TOKEN = secrets.token_urlsafe(24)
ADDRESS = "127.0.0.1:4711"
PATHS = ("/preview", "/required", "/save")


class Kept:
    """Keeps nothing, and notes what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[Question, str]] = []

    def __call__(self, question: Question, reason: str) -> tuple[list[str], str]:
        if reason == "refuse":
            raise InvalidInput("plan.toml is there already; choose another folder")
        self.given.append((question, reason))
        return ["plan.toml"], f"<p>{reason}"


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def app(school: Question, kept: Kept) -> Iterator[Any]:
    work = PlanWork(AtOnce())
    yield plan_app(school, kept, TOKEN, ADDRESS, work)
    work.close()


def post(app: Any, path: str, body: Any, **headers: str) -> Any:
    """An answer to a POST of the page's own kind, unless headers say otherwise; a coroutine."""
    given = {"host": ADDRESS, "x_optrr_token": TOKEN, "content_type": "application/json"} | headers
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return called(app, "POST", path, raw, **{k: v for k, v in given.items() if v is not None})


def asked(school: Question, **choices: Any) -> dict[str, Any]:
    return {"question": {**school.state(), **choices}}


def refused(reply: Reply) -> bool:
    """Whether an answer is a refusal as all are: 4xx, one JSON object with one line, and strict headers."""
    said = json.loads(reply.body)
    policy = reply.headers["content-security-policy"]
    line = said["error"]
    assert list(said) == ["error"] and 0 < len(line) < 6000 and "\n" not in line and TOKEN not in line
    return (
        400 <= reply.status < 500
        and reply.headers["content-type"] == "application/json"
        and "default-src 'none'" in policy
        and reply.headers["cache-control"] == "no-store"
    )


def test_the_page_needs_the_token_and_holds_the_question_and_nothing_inline(app, school):
    page = asyncio.run(called(app, "GET", f"/?token={TOKEN}", host=ADDRESS))
    assert page.status == 200
    html = page.body.decode()
    assert "bullied" in html and TOKEN not in html
    assert "<script>" not in html and "style=" not in html and " onclick" not in html
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy and "default-src 'none'" in policy
    for query in ("", "?token=", f"?token={TOKEN[:-1]}", f"?token={TOKEN}x", "?token=%00", "?token=%F0%9F%98%80"):
        assert refused(asyncio.run(called(app, "GET", f"/{query}", host=ADDRESS)))


def test_what_is_saved_is_the_question_and_the_reason(app, school, kept):
    def statement(token: str) -> Reply:
        return asyncio.run(called(app, "GET", f"/statement?token={token}", host=ADDRESS))

    assert statement(TOKEN).status == 404
    saved = asyncio.run(post(app, "/save", asked(school, total=2.0) | {"reason": "It is enough."}))
    assert saved.json == {"saved": ["plan.toml"]}
    assert refused(statement(TOKEN[:-1])) and statement(TOKEN).body == b"<p>It is enough."
    assert "script" not in statement(TOKEN).headers["content-security-policy"]
    again = asyncio.run(post(app, "/save", asked(school) | {"reason": "refuse"}))
    assert (again.status, again.json) == (422, {"error": "plan.toml is there already; choose another folder"})
    assert [(question.total, reason) for question, reason in kept.given] == [(2.0, "It is enough.")]


@pytest.mark.parametrize("hosts", [{"host": ADDRESS, "Host": other} for other in (ADDRESS, "example.org")] + [{}])
def test_two_hosts_or_none_are_refused(app, hosts):
    assert asyncio.run(called(app, "GET", f"/?token={TOKEN}", **hosts)).status == 421


# What no key of a question can be.
WRONG: dict[str, list[Any]] = {
    "total": ["1", None, True, [], {}, 0, -1, 0.049, 20.1, 1e308, 10**40],
    "n": [0, -1, 1.5, "1000", None, 10**11, 1e30, [], True],
    "prior": [0, 1, -0.5, "x", None, [0.1], 1e-9],
    "releases": [0, 101, 1.5, "2", [], False],
    "margin": [0, -3, 51, "3", [], {}],
    "margins": [
        *("x", 5, [], [5], {"nobody": 4}, {"": 4}, {"theft × bullied": 4}),
        *({"theft × sex": points} for points in (0, 51, "4", None, [], True)),
    ],
    "keep": ["all", 1, [], {}, True],
    "way": [5, [], {}, False],
    "learn": ["/etc/passwd", "tables.toml", "", {}, 5, None, [], [[]], [["nobody"]], [[["theft"]]], [[1]], ["theft"]],
    "attributes": [
        *([], {}, "x", [1], [None], [{}], [{"name": 1, "size": 2}], [{"name": "", "size": 2}]),
        *([{"name": "a", "size": size}] for size in (1, 10**9, "2")),
        *([{"name": "a", "categories": of}] for of in (["x"], ["x", "x"], [["x"], ["y"]], [{}, {"b": 1}], "yes")),
        *([{"name": "a", "bins": edges}] for edges in ([3, 2, 1], ["x", "y"])),
        [{"name": "a", "size": 2, "rest": "nobody"}],
        [{"name": "a", "size": 2}, {"name": "a", "size": 2}],
        [{"name": "a", "size": 2, "path": "/etc/passwd"}],
    ],
    "title": [5, [], {}],
    "public": [5, [], {"weight": 5}, {"nobody": "a"}],
    "language": [5, []],
    "path": ["/etc/passwd"],
    "__proto__": [{}],
}


# What no header of a request to the page can be.
HEADERS: dict[str, list[str | None]] = {
    "x_optrr_token": ["", TOKEN[:-1], TOKEN.lower(), f"{TOKEN} ", f"{TOKEN},{TOKEN}", "\xff", "guess", None],
    "host": [
        *("example.org", "127.0.0.1", "127.0.0.1:80", "localhost:4711", "[::1]:4711", f"{ADDRESS}.example.org"),
        *(f"{ADDRESS}@example.org", f" {ADDRESS}", "", None),
    ],
    "origin": [
        *("null", "", "http://example.org", f"https://{ADDRESS}", "http://127.0.0.1", "http://localhost:4711"),
        *(f"http://{ADDRESS}.example.org", f"http://{ADDRESS}/", "file://"),
    ],
    "content_type": ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", None],
    "content_encoding": ["gzip", "br"],
}


def wrong_header(rng: random.Random, body: bytes) -> dict[str, Any]:
    name = rng.choice(list(HEADERS))
    return {name: rng.choice(HEADERS[name])}


def too_large(rng: random.Random, body: bytes) -> dict[str, Any]:
    more = MOST_BYTES + 1 + rng.randrange(1000)
    return {"body": rng.choice([b" " * (more - len(body)) + body, body.ljust(more)])}


def cut(rng: random.Random, body: bytes) -> dict[str, Any]:
    return {"body": body[: rng.randrange(len(body))]}


def nested(rng: random.Random, body: bytes) -> dict[str, Any]:
    depth = rng.choice([100, 900, 1100, 5000, 50_000])
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inner = opened * depth + rng.choice([b"1", b""]) + closed * depth
    key = rng.choice(["learn", "total", "keep", "way", "title", "margin", "attributes"])
    return {"body": rng.choice([inner, b'{"question":{"' + key.encode() + b'":' + inner + b"}}"])}


def mutated(rng: random.Random, body: bytes) -> dict[str, Any]:
    sent = changed(body, rng, 1 << 20)
    try:
        json.loads(sent)
    except (ValueError, RecursionError):
        return {"body": sent}
    # what is still JSON may be another question; this is none
    return {"body": sent + b"}"}


def wrong_value(rng: random.Random, body: bytes) -> dict[str, Any]:
    sent = json.loads(body)
    key = rng.choice(list(WRONG))
    sent["question"][key] = copy.deepcopy(rng.choice(WRONG[key]))
    return {"body": json.dumps(sent).encode()}


def wrong_shape(rng: random.Random, body: bytes) -> dict[str, Any]:
    wrong = [[], "x", 1, None, {}, {"questions": 1}, json.loads(body) | {"more": 1}]
    return {"body": json.dumps(rng.choice([*wrong, *({"question": value} for value in ([], None, 3))])).encode()}


HOSTILE = (wrong_header, too_large, cut, nested, mutated, wrong_value, wrong_shape)


@pytest.mark.slow
def test_hostile_requests_are_refused_and_the_page_still_answers(app, school, kept, capsys):
    rng = random.Random(32)
    body = json.dumps(asked(school, margin=3.0, learn=[["theft", "sex"], ["bullied"]])).encode()

    async def storm() -> None:
        for k in range(7000):
            kind = HOSTILE[k % len(HOSTILE)]
            sent = kind(rng, body)
            raw = sent.pop("body", body)
            reply = await post(app, rng.choice(PATHS), raw, **sent)
            assert refused(reply), (kind.__name__, raw[:300], sent, reply.status, reply.body)
        assert (await post(app, "/preview", body)).status == 200

    asyncio.run(storm())
    assert kept.given == []
    # nothing failed by itself, which would be told in the log
    assert capsys.readouterr().err == ""


def test_other_methods_and_addresses_are_refused(app):
    async def storm() -> None:
        own = {"host": ADDRESS, "x_optrr_token": TOKEN, "content_type": "application/json"}
        for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "post", "X"):
            for path in (*PATHS, "/nothing", "/preview/", "//preview", "/../plan.js", "/plan.html", "/%2e%2e/app.py"):
                assert (await called(app, method, path, b"", **own)).status in (404, 405)
        for method in ("POST", "PUT", "DELETE"):
            for path in ("/", f"/?token={TOKEN}", "/plan.js"):
                assert (await called(app, method, path, b"{}", **own)).status == 405

    asyncio.run(storm())


def test_nothing_of_what_was_sent_with_a_wrong_token_reaches_the_work(school, kept):
    computing = AtOnce()
    work = PlanWork(computing)
    app = plan_app(school, kept, TOKEN, ADDRESS, work)
    reply = asyncio.run(post(app, "/preview", asked(school), x_optrr_token="guess"))
    assert reply.status == 403
    work.close()
    assert computing.asked == []


def test_the_token_stands_in_a_private_file_and_in_no_command_line(tmp_path, monkeypatch):
    opened, said = [], []

    def browser(url: str) -> None:
        place = Path(url2pathname(urlsplit(url).path))
        opened.append(
            (url, place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777, place.read_text("utf-8"))
        )

    monkeypatch.setattr(plan_server.webbrowser, "open", browser)
    monkeypatch.setattr(plan_server, "run", lambda _app, _bound: None)
    plan_server.serve_plan(school_question(), tmp_path, 0, said.append, browser=True)
    url, mode, folder, text = opened[0]
    address = next(word for word in said[0].split() if word.startswith("http"))
    assert "token=" not in url and "token=" in address and address in text
    assert (mode, folder) == (0o600, 0o700)
    assert not Path(url2pathname(urlsplit(url).path)).exists()


# Seconds for allocations on a busy machine.
_PATIENCE = 120


class Gated(AtOnce):
    """Waits before every point until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.gate = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, question: Question, proceed: Callable[[], None]) -> Point:
        self.asked.append(question)
        self.began.release()
        self.gate.acquire()
        proceed()
        return invented(question)


@pytest.fixture
def working() -> Iterator[Callable[..., PlanWork]]:
    """Makes what computes in the background, and ends it."""
    with ExitStack() as made:

        def work(*computing: object) -> PlanWork:
            return made.enter_context(closing(PlanWork(*computing)))  # type: ignore[arg-type]

        yield work


def until(work: PlanWork, question: Question, seen: Callable[[Known], object]) -> Known:
    """What is known of a question once this is so."""
    for _ in range(100 * _PATIENCE):
        if seen(known := work.ask(question)):
            return known
        time.sleep(0.01)
    raise TimeoutError


def finished(work: PlanWork, question: Question) -> Known:
    return until(work, question, lambda known: not known.busy)


def test_the_present_total_comes_first_and_then_the_ladder_outward_each_once(school, working):
    work = working(computing := AtOnce())
    known = finished(work, replace(school, total=3.0))
    totals = [asked.total for asked in computing.asked]
    assert totals[0] == 3.0
    distances = [abs(np.log(total / 3.0)) for total in totals[1:]]
    assert distances == sorted(distances)
    assert sorted(totals) == sorted([3.0, *LADDER])
    assert [p.total for p in known.points] == sorted(totals)
    assert (known.done, known.of, known.error) == (len(LADDER), len(LADDER), None)


def test_what_only_reads_points_computes_nothing_and_texts_neither(school, working):
    work = working(computing := AtOnce())
    finished(work, school)
    before = len(computing.asked)
    retitled = declared({**SCHOOL, "title": "Another title"})
    for read in ({"n": 7}, {"prior": 0.9}, {"releases": 5}, {"margin": 3.0}, {"specification": retitled}):
        assert not work.ask(replace(school, **read)).busy
    assert len(computing.asked) == before
    for other in (replace(school, keep="records"), replace(school, way="optimum")):
        assert work.ask(other).busy
        finished(work, other)
    assert len(computing.asked) == 3 * before


def test_a_slider_that_rests_stops_what_runs_and_what_never_began_is_dropped(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    for total in (1.1, 1.2, 1.3):
        work.ask(school.at(total))
    for _ in range(len(LADDER) + 2):
        computing.gate.release()
    finished(work, school.at(1.3))
    totals = [asked.total for asked in computing.asked]
    assert totals[:2] == [1.0, 1.3] and totals.count(1.0) == 2
    assert not {1.1, 1.2} & set(totals)


def test_two_pages_at_different_totals_both_get_their_exact_points(school, working):
    """Each asks while the other's point is computed, whose total is then not the newest."""

    class Polled(AtOnce):
        def __call__(self, question: Question, proceed: Callable[[], None]) -> Point:
            self.asked.append(question)
            for total in (1.1, 1.2) * 5:
                work.ask(school.at(total))
                proceed()
            return invented(question)

    work = working(Polled())
    work.ask(school.at(1.1))
    totals = [p.total for p in finished(work, school.at(1.2)).points]
    assert {1.1, 1.2} <= set(totals)


def test_a_slider_that_moves_asks_for_no_exact_point(school, working):
    work = working(computing := AtOnce())
    finished(work, school)
    for total in np.linspace(0.5, 4, 50):
        assert not work.ask(school.at(float(total)), rests=False).busy
    assert {asked.total for asked in computing.asked} == set(LADDER)


def test_another_question_stops_what_runs_and_its_half_done_answer_is_not_kept(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    other = replace(school, keep="records")
    work.ask(other)
    computing.gate.release()
    computing.began.acquire()
    assert computing.asked[1].keep == "records"
    assert work.ask(other).points == ()
    # back to the first: nothing of it is there, and nothing is taken for an error
    known = work.ask(school)
    assert (known.points, known.error) == ((), None)
    for _ in range(len(LADDER) + 1):
        computing.gate.release()
    assert finished(work, school).done == len(LADDER)


def test_another_way_of_the_same_lets_the_allocation_finish(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    work.ask(replace(school, way="optimum"))
    computing.gate.release()
    computing.began.acquire()
    assert [asked.way for asked in computing.asked] == [None, "optimum"]
    for _ in range(2 * len(LADDER)):
        computing.gate.release()
    finished(work, replace(school, way="optimum"))
    assert [asked.total for asked in computing.asked].count(school.total) == 2


def test_many_threads_ask_and_nothing_is_computed_twice(school, working):
    work = working(computing := AtOnce())
    mixed = [replace(school, keep=keep, n=n) for keep in (None, "records") for n in (10, 1000)]

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(200):
            work.ask(rng.choice(mixed).at(rng.choice(LADDER)), rests=rng.random() < 0.5)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for question in mixed:
        finished(work, question)
    asked = [(q.keep, q.total) for q in computing.asked]
    assert len(asked) == len(set(asked))


@pytest.mark.slow
def test_the_thread_computes_what_an_allocation_says_and_errors_are_one_line(working):
    small = Question.of(declared({**SCHOOL, "attributes": SCHOOL["attributes"][:2]}), "marginals")
    work = working()
    known = finished(work, small)
    assert len(known.points) == len(LADDER)
    for got in known.points[::4]:
        assert alike(got, point(replace(small.at(got.total), n=10**10)))
    nobody = finished(work, replace(small, way="nobody's"))
    assert nobody.points == () and nobody.error is not None
    assert '"nobody\'s" is unknown' in nobody.error and "\n" not in nobody.error


def test_any_exception_is_that_totals_error_and_the_others_are_computed(school, working):
    class Failing(AtOnce):
        def __call__(self, question: Question, proceed: Callable[[], None]) -> Point:
            if question.total == 3.0:
                raise RuntimeError("dictionary changed size during iteration")
            return super().__call__(question, proceed)

    work = working(Failing())
    known = finished(work, replace(school, total=3.0))
    assert known.error is not None and "RuntimeError: dictionary changed size" in known.error
    assert (known.done, len(known.points)) == (known.of, known.of)
