"""The survey over HTTP: its page, the collector, and the results; one ASGI application.

==============================  =======================================================================================
GET  /, /survey.js, …           the page (:mod:`optrr.survey.page`)
GET  /sampler.json              the deployment file that the page draws with
GET  /survey.json               the texts of the page
POST /reports                   a report; answered with 200 once it is on disk, however often it is sent
GET  /health                    200 while reports can be kept, as the last write to the database shows, or a trial
GET  /results, /results/…       for whoever has the token
==============================  =======================================================================================
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from optrr.survey.answers import JSON, json_response
from optrr.survey.database import begin_survey
from optrr.survey.group_commit import GroupCommit
from optrr.survey.guard import Guard
from optrr.survey.incoming import Refused, ReportReader
from optrr.survey.page import HEADERS, page_files
from optrr.survey.preparing import Survey
from optrr.survey.results_web import ResultsPages
from optrr.survey.session import Admission
from optrr.survey.store import Receipt, Store
from optrr.survey.stored_records import StoredRecords

_KEPT = json_response({"kept": True})
_CONFLICT = "another report has this id; what was kept first stays, and nothing was changed"


def survey_app(survey: Survey, engine: sa.Engine, admission: Admission, secure: bool) -> SurveyApp:
    """The application that serves this survey and keeps its reports in the engine's database.

    Raises
    ------
    InvalidInput
        where the database cannot be used, or holds another survey.
    """
    begin_survey(engine, survey.files)
    records = StoredRecords(engine)
    pages = ResultsPages(survey, records, admission, secure)
    store = Store(engine)
    collector = Intake(ReportReader(survey.files.digest, survey.files.wording, survey.deployment.domain), store)

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        yield
        await collector.close()
        store.files.close()
        engine.dispose()

    routes = [*collector.routes(), *_page_routes(survey), *pages.routes()]
    # an address with a slash too many is none: to lead it elsewhere, the router would have to trust the Host header
    return SurveyApp(Guard(Router(routes, redirect_slashes=False, lifespan=lifespan)), store)


class SurveyApp:
    """The ASGI application of a survey, and what it says of its reports at the end."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app, self._store = app, store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        await self._app(scope, receive, send)

    def loss(self) -> str | None:
        """Why acknowledged reports may be lost; None where every one is kept."""
        return self._store.files.fault()


class Intake:
    """Takes reports, and says whether they can be kept."""

    def __init__(self, reader: ReportReader, store: Store) -> None:
        self._reader = reader
        self._commits = GroupCommit(store)

    def routes(self) -> list[Route]:
        """Where reports go, and where health is asked for."""
        return [
            Route("/reports", self._take, methods=["POST"]),
            Route("/health", self._health, methods=["GET"]),
        ]

    async def _take(self, request: Request) -> Response:
        report = await self._reader.read(request)
        if await self._commits.add(report) is Receipt.CONFLICT:
            raise Refused(409, _CONFLICT)
        return _KEPT

    async def _health(self, _request: Request) -> Response:
        await self._commits.check()
        return json_response({"status": "ok"})

    async def close(self) -> None:
        """Write the reports that still wait for the disk."""
        await self._commits.close()


def _page_routes(survey: Survey) -> list[BaseRoute]:
    served = {f"/{path}": (file.body, file.media_type) for path, file in page_files().items()}
    served["/sampler.json"] = (survey.files.sampler, JSON)
    served["/survey.json"] = (survey.wording_json, JSON)
    return [Route(path, _always(*content), methods=["GET"]) for path, content in served.items()]


def _always(body: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that sends the same bytes to everybody, compressed to those who say that they can read that."""
    headers = {**HEADERS, "Vary": "Accept-Encoding"}
    plain = Response(body, 200, headers, media_type)
    small = Response(gzip.compress(body, mtime=0), 200, {**headers, "Content-Encoding": "gzip"}, media_type)

    async def endpoint(request: Request) -> Response:
        offered = [part.split(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")]
        return small if "gzip" in offered else plain

    return endpoint
