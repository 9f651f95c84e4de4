"""The survey over HTTP: its page, the collector, and the results; one ASGI application.

==============================  =======================================================================================
GET  /, /survey.js, …           the page (:mod:`optrr.survey.page`)
GET  /sampler.json              the deployment file that the page draws with
GET  /survey.json               the texts of the page
POST /reports                   a report; answered with 200 once it is on disk, however often it is sent
GET  /health                    200 while reports can be kept, as the last write to the database shows, or a trial
GET  /results, /results/…       for whoever has the token
==============================  =======================================================================================

From what an operator asks for to what is served: everything that can be wrong is noticed before anybody is asked.
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from optrr.designs.solving import Preserve
from optrr.devices.deployment_file import DeployedQuestions
from optrr.errors import InvalidInput
from optrr.releases.sealed import Given, path_of
from optrr.survey.database import begin_survey, database_url, open_database, shown
from optrr.survey.guard import JSON, Guard, json_response
from optrr.survey.incoming import Refused, ReportReader
from optrr.survey.page import HEADERS, page_files
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission, ResultsPages
from optrr.survey.store import GroupCommit, Receipt, Store
from optrr.survey.stored_records import StoredRecords
from optrr_solvers import SolveOptions

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
    deployed = survey.deployment
    over = deployed if isinstance(deployed, DeployedQuestions) else deployed.domain
    collector = Intake(ReportReader(survey.files.digest, survey.files.wording, over), store)

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


@dataclass(frozen=True)
class Settings:
    """How a survey is served.

    Parameters
    ----------
    source
        a specification, a design file, or a file of sampled tables.
    token
        admits to the results.
    database
        see :func:`optrr.survey.database.database_url`; by default ``NAME.db`` beside the source.
    wording
        a specification whose texts are shown with a design file.
    public_url
        the address that people use, where it is not the server's own.
    preserve
        of a specification: :func:`optrr.design`'s.
    """

    source: Given
    token: str
    database: str | None = None
    wording: Path | None = None
    public_url: str | None = None
    preserve: Preserve = "marginals"


@dataclass(frozen=True)
class Start:
    """An application ready to be served, its total ε in nats, where its reports are kept, and warnings, for people."""

    app: SurveyApp
    epsilon: float
    database: str
    warnings: tuple[str, ...] = ()


def started(settings: Settings, options: SolveOptions) -> Start:
    """Design where there is no design yet, and open the database.

    Raises
    ------
    InvalidInput
        for settings that cannot be used; see also :func:`optrr.survey.preparing.prepared` and
        :func:`optrr.survey.app.survey_app`.
    """
    # a design may take minutes, so what is quickly checked comes first
    admission = Admission(settings.token)
    secure = _is_secure(settings.public_url)
    source = path_of(settings.source)
    beside = source.parent / f"{source.name.split('.')[0] or 'survey'}.db"
    url = database_url(settings.database or str(beside))
    survey = prepared(settings.source, settings.wording, options, settings.preserve)
    app = survey_app(survey, open_database(url), admission, secure)
    return Start(app, survey.design.epsilon, shown(url), survey.warnings)


def _is_secure(public_url: str | None) -> bool:
    """Whether people come by https."""
    if public_url is None:
        return False
    parts = urlsplit(public_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(f"--public-url {public_url!r} is no address; write it like https://survey.example.org/")
    return parts.scheme == "https"
