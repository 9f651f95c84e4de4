"""The page of a plan, for one person on this machine: one ASGI application, whose numbers come from :mod:`optrr.plans`.

==============================  =======================================================================================
GET  /?token=…                  the page; no other address is told the question
GET  /plan.js, /plan.css, …     what the page is made of
POST /preview                   fragments of the page for a question, and how much of it is computed
POST /required                  the least total, or the fewest people, for the margin that is wished
POST /save                      hands the question over to whoever keeps plans; what was written, a line each
==============================  =======================================================================================

Whoever may ask: requests name this server's own address as their host, so that no other name leads here; they come from its
own page or from no page at all; and they have the token, which is compared in constant time. Nothing but a question is known
here: no file is read, and no record of any person.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from optrr.errors import OptrrError, in_one_line
from optrr.plans.answers import PageAnswers, Save
from optrr.plans.controls import page_markup
from optrr.plans.question import Question
from optrr.plans.work import PlanWork
from optrr.survey.guard import Guard, json_response
from optrr.survey.incoming import Refused, body_of
from optrr.survey.server import configured, listening, run

__all__ = ["BackgroundPage", "plan_app", "serve_plan"]

HOST = "127.0.0.1"
# The largest question has hundreds of attributes with long categories.
MOST_BYTES = 1 << 18
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_FILES = {
    "plan.js": "text/javascript; charset=utf-8",
    "state.js": "text/javascript; charset=utf-8",
    "form.js": "text/javascript; charset=utf-8",
    "plan.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS = {"Content-Security-Policy": _POLICY}
_MALFORMED = "the body is not what this address takes; send the object that the page sends"


def new_token() -> str:
    """192 random bits."""
    return secrets.token_urlsafe(24)


def plan_app(question: Question, save: Save, token: str, address: str, work: PlanWork | None = None) -> ASGIApp:
    """The application that shows this question first, at ``address`` (host and port), to whoever has the token.

    ``work`` computes points; by default a process of its own does.
    """
    answers = PageAnswers(save, work)

    async def page(request: Request) -> Response:
        if not _same(token, request.query_params.get("token", "")):
            raise Refused(403, "the plan is for whoever started it; open the address that was printed, with its token")
        return Response(page_markup(question), 200, _HEADERS, "text/html; charset=utf-8")

    def posted(answer: Callable[[Any], dict[str, Any]]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            if not _same(token, request.headers.get("x-optrr-token", "")):
                raise Refused(403, "the token is missing or another one; open the address that was printed")
            body = await body_of(request, "application/json", MOST_BYTES)
            return json_response(await asyncio.to_thread(_answered, answer, body))

        return endpoint

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(answers.close)

    routes: list[BaseRoute] = [Route("/", page, methods=["GET"])]
    routes += [Route(f"/{name}", _file(name, kind), methods=["GET"]) for name, kind in _FILES.items()]
    asked = {"/preview": answers.preview, "/required": answers.required, "/save": answers.save}
    routes += [Route(path, posted(answer), methods=["POST"]) for path, answer in asked.items()]
    return Guard(_OwnAddress(Router(routes, redirect_slashes=False, lifespan=lifespan), address))


class _OwnAddress:
    """Refuses requests that name another host, or come from the page of another address."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app, self._host, self._origin = app, [address.encode()], f"http://{address}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http":
            given: dict[bytes, list[bytes]] = {}
            for name, value in scope["headers"]:
                given.setdefault(name.lower(), []).append(value)
            if given.get(b"host") != self._host:
                raise Refused(421, "this is the server of another address; open the address that was printed")
            if any(origin != self._origin for origin in given.get(b"origin", [])):
                raise Refused(403, "another page's requests are not served; open the address that was printed")
        await self._app(scope, receive, send)


def _same(token: str, given: str) -> bool:
    return hmac.compare_digest(token.encode(), given.encode(errors="replace"))


def _answered(answer: Callable[[Any], dict[str, Any]], body: bytes) -> dict[str, Any]:
    """The answer to a body. Raises Refused with one line."""
    try:
        return answer(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refused(400, _MALFORMED) from None
    except OptrrError as error:
        raise Refused(422, in_one_line(error)) from error


def _file(name: str, media_type: str) -> Callable[[Request], Any]:
    body = (files("optrr.plans") / "page" / name).read_bytes()

    async def endpoint(_request: Request) -> Response:
        return Response(body, 200, _HEADERS, media_type)

    return endpoint


def serve_plan(question: Question, save: Save, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until SIGINT or SIGTERM; ``ready`` is called with its address. Raises InvalidInput for a port in use."""
    with listening(HOST, port) as bound:
        address, token = f"{HOST}:{bound.getsockname()[1]}", new_token()
        app = plan_app(question, save, token, address)
        ready(f"http://{address}/?token={token}")
        run(app, bound)


class BackgroundPage:
    """The page of a plan, served by a thread, for notebooks: ``url`` is its address, until :meth:`close`."""

    def __init__(self, question: Question, save: Save, port: int = 0) -> None:
        self._bound = listening(HOST, port)
        address, token = f"{HOST}:{self._bound.getsockname()[1]}", new_token()
        self.url = f"http://{address}/?token={token}"
        self._server = uvicorn.Server(configured(plan_app(question, save, token, address)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._bound]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">The plan\'s page</a>'
