"""The survey over HTTP: its page, the collector, and the results, as one ASGI application.

==============================  =======================================================================================
GET  /, /survey.js, …           the page (:mod:`optrr.survey.page`)
GET  /sampler.json              the deployment file that the page draws with
GET  /survey.json               the texts of the page
GET  /words-de.json, …          the page's own sentences in the languages of the survey
POST /invitations               the token of a personal link and a hidden id; answered with the signature
POST /reports                   a report; answered with 200 once it is on disk, however often it is sent
GET  /health                    200 while reports can be stored, according to the last write to the database or a trial
GET  /results, /results/…       results, for users with the token
==============================  =======================================================================================

All settings are checked before the survey opens. A client sends one report as JSON, which is checked before it is
stored. A refusal is one sentence and a status. It never repeats the request, because a broken client might send the
person's true answers.
"""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from optrr.core.domain import Attribute, Domain
from optrr.core.errors import InvalidInput
from optrr.core.provenance import MALFORMED, refuse_repeats
from optrr.devices.deployment_file import Deployed, DeployedQuestions
from optrr.survey.guard import JSON, Guard, HTTPRefusal, body_of, json_response
from optrr.survey.invitations import Links, Signer, digest_of_token
from optrr.survey.page import HEADERS, page_files
from optrr.survey.preparing import Survey
from optrr.survey.results import Admission, ResultsPages
from optrr.survey.store import GroupCommit, Receipt, Report, Store, begin_survey
from optrr.survey.stored_records import AnswerPacking, Packing, StoredRecords
from optrr.survey.words import words_record

_KEPT = json_response({"kept": True})
_CONFLICT = "another report has this id; the first report was kept, and nothing was changed"


def survey_app(
    survey: Survey, engine: sa.Engine, admission: Admission, secure: bool, links: Links | None = None
) -> "SurveyApp":
    """Create the application that serves a survey and stores its reports.

    The engine's database stores the reports. ``links`` are drawn if the survey begins. Raises InvalidInput if the
    database cannot be used, or holds another survey.
    """
    der = begin_survey(engine, survey.files, None if links is None else links.drawn)
    signer = None if der is None else Signer(der)
    if survey.kiosk and signer:
        raise InvalidInput("``kiosk``: everybody answers on one device, which personal links forbid; leave it out")
    records = StoredRecords(engine)
    pages = ResultsPages(survey, records, admission, secure)
    store = Store(engine)
    commits = GroupCommit(store)
    reader = ReportReader(survey.files.digest, survey.files.wording, survey.deployment, signer)

    async def take(request: Request) -> Response:
        if await commits.add(await reader.read(request)) is Receipt.CONFLICT:
            raise HTTPRefusal(409, _CONFLICT)
        return _KEPT

    async def health(_request: Request) -> Response:
        await commits.check()
        return json_response({"status": "ok"})

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        yield
        await commits.close()
        store.files.close()
        engine.dispose()

    routes = [Route("/reports", take, methods=["POST"]), Route("/health", health, methods=["GET"])]
    if signer:
        routes.append(Route("/invitations", partial(_invited, signer, commits), methods=["POST"]))
    page = survey.page_json(signer.public() if signer else None)
    routes += [*_page_routes(survey, page), *pages.routes()]
    # an address with an extra slash is not found: redirecting it would require trust in the Host header
    return SurveyApp(Guard(Router(routes, redirect_slashes=False, lifespan=lifespan)), store)


class SurveyApp:
    """ASGI application of a survey, with its final message about lost reports."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app, self._store = app, store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        await self._app(scope, receive, send)

    def loss(self) -> str | None:
        """Return why acknowledged reports may be lost; None if all are kept."""
        return self._store.files.fault()


# The form of a report, as the deployment format states it.
FORMAT = "optrr-report/1"
# Bytes for the keys, the digest, the identifier and generous white space.
_FRAME_BYTES = 1024
# Bytes of one UTF-16 unit as \uXXXX, which some JSON writers use outside ASCII; bytes of quotes, comma and space.
_ESCAPED, _AROUND = 6, 8
_IDENTIFIER = re.compile(r"[0-9a-f]{32}")


class _ReportFrame(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: str
    design: str
    id: str
    # clients that answer by the deployment file alone do not know the wording
    wording: str | msgspec.UnsetType = msgspec.UNSET
    invitation: str = ""


class _RecordBody(_ReportFrame, kw_only=True):
    values: list[str | None]


class _AnswerBody(_ReportFrame, kw_only=True):
    table: int
    cells: str


class ReportReader:
    """Reader of reports of one design, by its attributes or its deployment, and one wording.

    ``signer`` has signed the ids of invited reports.
    """

    def __init__(self, identity: str, wording: str, over: Domain | Deployed, signer: Signer | None = None) -> None:
        self._identity, self._wording, self._signer = identity, wording, signer
        self._over: Any
        if isinstance(over, DeployedQuestions):
            self._over = _AnswerReports(over)
        else:
            self._over = _RecordReports(over if isinstance(over, Domain) else over.domain)
        self._decode = msgspec.json.Decoder(self._over.body).decode
        self.most_bytes = _FRAME_BYTES + self._over.most_bytes + (2 * signer.size if signer else 0)

    async def read(self, request: Request) -> Report:
        """Read the report in a request; raise HTTPRefusal if it is too slow, too large, not JSON or invalid."""
        return self.report(await body_of(request, "application/json", self.most_bytes))

    def report(self, body: bytes) -> Report:
        """Parse the report in a body; raise HTTPRefusal if it is invalid."""
        try:
            sent = self._decode(body)
            refuse_repeats(body)
        except MALFORMED:
            keys = f"format, design, id{self._over.keys}"
            raise HTTPRefusal(400, f"the body is not a report; send an object with {keys}, each once") from None
        if sent.format != FORMAT:
            raise HTTPRefusal(422, f"the format of the report is not {FORMAT}")
        if sent.design != self._identity:
            raise HTTPRefusal(422, "the report belongs to the design of another survey; load the page again")
        if sent.wording not in (msgspec.UNSET, self._wording):
            raise HTTPRefusal(422, "the report answers the questions of another survey; load the page again")
        if not _IDENTIFIER.fullmatch(sent.id):
            raise HTTPRefusal(422, "the report's id is not 32 lower-case hexadecimal digits")
        identifier = bytes.fromhex(sent.id)
        if self._signer and not self._signer.verifies(identifier, sent.invitation):
            raise HTTPRefusal(403, "this survey is by invitation, and the report has none; open your personal link")
        return Report(identifier, self._over.packed(sent))


class _Claim(msgspec.Struct, forbid_unknown_fields=True):
    token: str
    blinded: str


async def _invited(signer: Signer, commits: GroupCommit, request: Request) -> Response:
    """Sign the hidden id of a report for the token of a personal link."""
    body = await body_of(request, JSON, _FRAME_BYTES + 2 * signer.size)
    try:
        sent = msgspec.json.decode(body, type=_Claim)
        refuse_repeats(body)
    except MALFORMED:
        raise HTTPRefusal(400, "the body is not a claim; send an object with token and blinded, each once") from None
    if (hidden := signer.read(sent.blinded)) is None:
        raise HTTPRefusal(
            422, "the blinded value is not a number below the modulus, in hexadecimal digits of its length"
        )
    bound = await commits.claim(digest_of_token(sent.token), hidden)
    if bound is None:
        raise HTTPRefusal(403, "this personal link is unknown; copy the whole link from your invitation")
    if bound != hidden:
        raise HTTPRefusal(409, "this personal link was opened in another browser; continue there")
    return json_response({"signature": await asyncio.to_thread(signer.sign, hidden)})


class _RecordReports:
    """Format of reports of randomized records, with their maximum size."""

    body, keys = _RecordBody, " and values"

    def __init__(self, domain: Domain) -> None:
        self._domain, self._packing = domain, Packing(domain)
        self._categories = [a.codes for a in domain]
        self.most_bytes = sum(map(_longest, domain))

    def packed(self, sent: Any) -> bytes:
        """Pack a report for storage; raise HTTPRefusal for undeclared values."""
        m = self._domain.m
        if len(sent.values) != m:
            raise HTTPRefusal(422, f"the report has {len(sent.values)} values; this design has {m} attributes")
        codes = [known.get(value, -1) for known, value in zip(self._categories, sent.values, strict=True)]
        if min(codes) < 0:
            name = self._domain.names[codes.index(-1)]
            raise HTTPRefusal(422, f"the value of attribute {name!r} is not one of its declared categories")
        return self._packing.pack(codes)


class _AnswerReports:
    """Format of reports of answers to one query; same interface as `_RecordReports`."""

    body, keys = _AnswerBody, ", table and cells"

    def __init__(self, deployed: DeployedQuestions) -> None:
        self._deployed, self._packing = deployed, AnswerPacking(deployed)
        self.most_bytes = deployed.most_report_bytes

    def packed(self, sent: Any) -> bytes:
        """Pack an answer for storage; raise HTTPRefusal if no client draws it."""
        count = len(self._deployed.questions)
        if not 1 <= sent.table <= count:
            raise HTTPRefusal(422, f"the table of the report is not one of 1 to {count}")
        if not self._deployed.members(sent.table, sent.cells):
            cells = "each subset needs the number of cells that the deployment file states, different, ascending and in range"
            raise HTTPRefusal(422, f"the cells of the report do not fit its table: {cells}")
        return self._packing.pack(sent.table, sent.cells)


def _longest(attribute: Attribute) -> int:
    """Bound the bytes that a value can take in any notation."""
    return _AROUND + max(_ESCAPED * (len((text or "null").encode("utf-16-le")) // 2) for text in attribute.texts)


def _page_routes(survey: Survey, page: bytes) -> list[Route]:
    served = {f"/{path}": (file.body, file.media_type) for path, file in page_files(survey.wording.languages).items()}
    served["/sampler.json"] = (survey.files.sampler, JSON)
    served["/survey.json"] = (page, JSON)
    for language in survey.wording.languages:
        served[f"/words-{language}.json"] = (msgspec.json.encode(words_record(language)), JSON)
    return [Route(path, _always(*content), methods=["GET"]) for path, content in served.items()]


def _always(body: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Create an endpoint that sends constant bytes, compressed if accepted."""
    headers = {**HEADERS, "Vary": "Accept-Encoding"}
    plain = Response(body, 200, headers, media_type)
    small = Response(gzip.compress(body, mtime=0), 200, {**headers, "Content-Encoding": "gzip"}, media_type)

    async def endpoint(request: Request) -> Response:
        offered = [part.split(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")]
        return small if "gzip" in offered else plain

    return endpoint
