"""The planning page for one user on this machine: an ASGI application with numbers from :mod:`optrr.planner`.

==============================  =======================================================================================
GET  /?token=…                  the page; no other address receives the question
GET  /plan.js, /style.css, …    scripts and styles of the page
POST /preview                   fragments of the page for a question, and the progress of the computation
POST /required                  the smallest total, and number of people, for the required margins
POST /save                      saves the plan of a question; returns the written files
GET  /statement?token=…         the statement for the board of the plan that was saved last
==============================  =======================================================================================

Access: a request must name the server's own address as its host (against DNS rebinding), come from its own page or from
no page, and contain the token, which is compared in constant time. The server knows the question only: it reads no file
and no record of any person.
"""

import asyncio
import hmac
import json
import math
import secrets
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from optrr.core.display import SOFTWARE, page_environment
from optrr.core.errors import InvalidInput, OptrrError, in_one_line
from optrr.planner.plan import Plan
from optrr.planner.preview import LADDER, Point, Preview, nearest, people_needed, total_for
from optrr.planner.question import LEAST_TOTAL, MOST_PEOPLE, MOST_RELEASES, MOST_TOTAL, Question
from optrr.planner.sections import Shown
from optrr.planner.work import Known, PlanWork
from optrr.survey.guard import MEDIA_TYPES, PAGE_POLICY, Guard, HTTPRefusal, body_of, json_response
from optrr.survey.server import listening, run
from optrr.survey.words import LANGUAGES, name_of, words_of

HOST = "127.0.0.1"
# The largest question has hundreds of attributes with long categories.
MOST_BYTES = 1 << 18
_HEADERS = {"Content-Security-Policy": PAGE_POLICY}
# Ratio of a computed total to an interpolated one that is taken for it.
_NEAR = 1.005
# Function that saves a plan, from the question and the reason; returns its files and its statement as HTML.
Save = Callable[[Question, str], tuple[list[str], str]]
# The statement is one file with its own style and no script.
_STATEMENT = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class _Posted(msgspec.Struct, forbid_unknown_fields=True):
    question: dict[str, Any]
    rests: bool = True
    reason: str = ""


# Function that answers a request about a question.
Answer = Callable[[Question, _Posted], dict[str, Any]]


def plan_app(question: Question, save: Save, token: str, address: str, work: PlanWork | None = None) -> ASGIApp:
    """Create the application at a host and port, with the question that it shows first; ``work`` computes points."""
    computing = work or PlanWork()

    def check(given: str) -> None:
        if not hmac.compare_digest(token.encode(), given.encode(errors="replace")):
            raise HTTPRefusal(403, "the token is missing or wrong; open the printed address, which contains it")

    async def page(request: Request) -> Response:
        check(request.query_params.get("token", ""))
        return Response(page_markup(question), 200, _HEADERS, MEDIA_TYPES[".html"])

    def posted(answer: Answer) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            check(request.headers.get("x-optrr-token", ""))
            body = await body_of(request, "application/json", MOST_BYTES)
            return json_response(await asyncio.to_thread(_answered, answer, body))

        return endpoint

    statements: list[str] = []

    def keep(planned: Question, given: _Posted) -> dict[str, Any]:
        saved, statement = save(planned, given.reason)
        statements[:] = [statement]
        return {"saved": saved}

    async def stated(request: Request) -> Response:
        check(request.query_params.get("token", ""))
        return Response("".join(statements), 200 if statements else 404, _STATEMENT, MEDIA_TYPES[".html"])

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(computing.close)

    asked: dict[str, Answer] = {"/preview": partial(_preview, computing), "/required": partial(_required, computing)}
    asked["/save"] = keep
    routes: list[BaseRoute] = [Route("/", page, methods=["GET"]), Route("/statement", stated, methods=["GET"])]
    routes += [Route(f"/{name}", _always(body, MEDIA_TYPES[Path(name).suffix])) for name, body in _files().items()]
    routes += [Route(path, posted(answer), methods=["POST"]) for path, answer in asked.items()]
    return Guard(_OwnAddress(Router(routes, redirect_slashes=False, lifespan=lifespan), address))


class _OwnAddress:
    """Middleware that refuses requests for other hosts or from other pages."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app, self._address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http":
            given = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
            if [value for name, value in given if name == b"host"] != [self._address]:
                raise HTTPRefusal(421, "this server has another address; open the printed address")
            if any(value != f"http://{self._address}" for name, value in given if name == b"origin"):
                raise HTTPRefusal(403, "requests from other pages are refused; open the printed address")
        await self._app(scope, receive, send)


def _answered(answer: Answer, body: bytes) -> dict[str, Any]:
    """Answer a body; raise HTTPRefusal with one line."""
    try:
        asked = msgspec.json.decode(body, type=_Posted)
        return answer(Question.from_state(asked.question), asked)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise HTTPRefusal(400, "the request body has an unexpected form; send the object that the page sends") from None
    except OptrrError as error:
        raise HTTPRefusal(422, in_one_line(error)) from error


def _files() -> dict[str, bytes]:
    """Map names of the page's scripts and styles to their bytes."""
    found = [*(files("optrr.planner") / "page").iterdir(), files("optrr.survey") / "page" / "style.css"]
    return {file.name: file.read_bytes() for file in found if Path(file.name).suffix in MEDIA_TYPES}


def _always(body: bytes, media_type: str) -> Callable[[Request], Any]:
    async def endpoint(_request: Request) -> Response:
        return Response(body, 200, _HEADERS, media_type)

    return endpoint


def serve_plan(question: Question, folder: Path, port: int, say: Callable[[str], None], *, browser: bool) -> None:
    """Serve the page until SIGINT or SIGTERM, and save plans into a folder; InvalidInput for a port in use."""

    def save(asked: Question, reason: str) -> tuple[list[str], str]:
        made = Plan.of(asked, reason)
        return list(map(str, made.save(folder))), made.statement()

    with listening(HOST, port) as bound, TemporaryDirectory(prefix="optrr-plan-") as private:
        address, token = f"{HOST}:{bound.getsockname()[1]}", secrets.token_urlsafe(24)
        app, url = plan_app(question, save, token, address), f"http://{address}/?token={token}"
        say(f"planning page: {url}\nplans are saved to {folder}; press Ctrl+C to stop")
        if browser:
            webbrowser.open(redirect(url, Path(private)).as_uri())
        run(app, bound)


def redirect(url: str, private: Path) -> Path:
    """Write a file for this user only that leads to an address; a command line would show its token to everyone."""
    place = private / "plan.html"
    place.touch(mode=0o600)
    place.write_text(page_environment("optrr.planner").get_template("redirect.html").render(url=url), encoding="utf-8")
    return place


def page_markup(question: Question) -> str:
    """Render the page as HTML."""
    template = page_environment("optrr.planner").get_template("plan.html")
    limits = {"least": LEAST_TOTAL, "most": MOST_TOTAL, "people": MOST_PEOPLE, "releases": MOST_RELEASES}
    names = {language: name_of(language) for language in LANGUAGES}
    offered = json.dumps({language: words_of(language)("I prefer not to say") for language in LANGUAGES})
    given = {"state": json.dumps(question.state()), "ticks": LADDER[::2], "limits": limits}
    return template.render(given, languages=names.items(), offered=offered, software=SOFTWARE)


def _preview(work: PlanWork, question: Question, asked: _Posted) -> dict[str, Any]:
    """Return fragments of the page by place, the status and an error; ``busy`` while more numbers follow."""
    known, point, shown = _known(work, question, asked.rests)
    exact = point is not None and point.exact
    status = {"status": shown.said("status", known), "exact": exact, "busy": known.busy, "error": known.error}
    return {"fragments": shown.fragments(), **status}


def _required(work: PlanWork, question: Question, _asked: _Posted) -> dict[str, Any]:
    """Return the least total and the fewest people for the margins, or None, each with sentences."""
    if not question.has_margins:
        raise InvalidInput("margin: no margin is required; enter the ± percentage points that you need")
    known, point, shown = _known(work, question)
    if known.error:
        raise InvalidInput(known.error)
    total, waits = None, not shown.complete
    if not waits and (near := total_for(known.points, question, question.n)) is not None:
        # interpolated, so a computed total at it, or a little above, must reach the margins
        reached = [
            p.total for p in known.points if p.total <= _NEAR * near and people_needed(question, p) <= question.n
        ]
        total, waits = min(reached, default=None), not reached
        if waits:
            work.ask(question.at(near))
    needed = math.inf if point is None else people_needed(question, point)
    people = math.ceil(needed) if needed <= MOST_PEOPLE else None
    waiting = {"total": waits, "people": point is None or not point.exact}
    found = {"total": total, "people": people}
    said = {f"{k}_said": "Computing." if waiting[k] else shown.said(f"{k}_said", v) for k, v in found.items()}
    return {**found, **said, "waiting": waiting}


def _known(work: PlanWork, question: Question, rests: bool = True) -> tuple[Known, Point | None, Shown]:
    point = nearest((known := work.ask(question, rests)).points, question)
    return known, point, Shown(question, Preview(question, point) if point else None, known.points, known.error)
