"""The results of a survey while it runs, over HTTP: a form for the token, the page, and the downloads.

Who may see the results: a token, and the cookie that stands for it afterwards.

The token is compared in constant time and travels in the body of one form, never in an address. The cookie holds the time at
which it ends and a keyed digest of it, so that every collector with the same token accepts it without storing anything; a new
token makes all cookies invalid.

Addresses never hold the token. Whatever takes longer than a moment is computed in a thread, once for all who ask for it
within the next seconds, so that looking at results does not hold up the reports.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, urlencode

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from optrr.designs.design import Design
from optrr.errors import InvalidInput, OptrrError
from optrr.records.writing import without_formulas
from optrr.show.parts import Page, page_environment, page_html
from optrr.survey.incoming import Refused, body_of
from optrr.survey.preparing import Survey
from optrr.survey.result_tables import Results
from optrr.survey.stored_records import StoredRecords

COOKIE = "optrr_results"
# Seconds that a browser stays admitted: a working day.
LASTS = 12 * 3600
# Characters of a token: 22 of base64 are 128 bits.
_SHORTEST = 22


def new_token() -> str:
    """A token of 192 random bits."""
    return secrets.token_urlsafe(24)


class Admission:
    """Admits whoever knows ``token``.

    Raises
    ------
    InvalidInput
        for a token that could be guessed.
    """

    def __init__(self, token: str) -> None:
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
            raise InvalidInput(
                f"the results' token has {len(token)} characters; give at least {_SHORTEST} random ones, in ASCII"
            )
        self._token = token.encode()

    def knows(self, given: str) -> bool:
        """Whether this is the token; takes as long for every wrong one of its length."""
        return hmac.compare_digest(self._token, given.encode(errors="replace"))

    def cookie(self) -> str:
        """A cookie's value that admits from now on."""
        ends = str(int(time.time()) + LASTS)
        return f"{ends}.{self._seal(ends)}"

    def admits(self, cookie: str | None) -> bool:
        """Whether the cookie was given out for this token and has not ended."""
        ends, _, seal = (cookie or "").partition(".")
        if not (ends.isascii() and ends.isdecimal() and len(ends) < 20):
            return False
        genuine = hmac.compare_digest(self._seal(ends).encode(), seal.encode(errors="replace"))
        return genuine and int(ends) > time.time()

    def _seal(self, ends: str) -> str:
        return hmac.new(self._token, f"optrr results until {ends}".encode(), hashlib.sha256).hexdigest()


# Attributes offered for crossing.
_MOST_OFFERED = 300
# Styles stand in the page itself and in its charts; scripts do not run, and forms go nowhere else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_HTML = "text/html; charset=utf-8"
# Bytes of the login form.
_FORM_BYTES = 1024
# A computed answer serves others for this many seconds, or for this many times as long as computing it took, whichever is
# longer.
_FRESH, _SHARE = 3.0, 10.0
_KEPT = 32


class Recent:
    """Computed answers that are still fresh; one is computed at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._kept: dict[object, tuple[float, bytes]] = {}

    async def get(self, key: object, compute: Callable[[], bytes]) -> bytes:
        """The answer of that key, at most a few seconds old."""
        async with self._lock:
            now = time.monotonic()
            self._kept = {k: v for k, v in self._kept.items() if v[0] > now}
            if key not in self._kept:
                answer = await asyncio.to_thread(compute)
                took = time.monotonic() - now
                if len(self._kept) >= _KEPT:
                    self._kept.clear()
                self._kept[key] = (time.monotonic() + max(_FRESH, _SHARE * took), answer)
            return self._kept[key][1]


class ResultsPages:
    """The routes of a survey's results.

    Parameters
    ----------
    secure
        whether browsers reach the survey by https, so that the cookie may not travel without.
    """

    def __init__(self, survey: Survey, records: StoredRecords, admission: Admission, secure: bool) -> None:
        self._survey, self._records = survey, records
        self._admission, self._secure = admission, secure
        self._recent = Recent()

    @cached_property
    def _results(self) -> Results:
        # statistics and charts take longer to import than a survey takes to start
        return Results(self._survey.design, self._records, self._survey.title)

    def routes(self) -> list[Route]:
        """Everything below ``results``."""
        return [
            Route("/results", self._page, methods=["GET"]),
            Route("/results", self._enter, methods=["POST"]),
            Route("/results/leave", self._leave, methods=["POST"]),
            Route("/results/counts.csv", self._admitted(self._csv), methods=["GET"]),
            Route("/results/report.html", self._admitted(self._report), methods=["GET"]),
            Route("/results/reports.parquet", self._admitted(self._parquet), methods=["GET"]),
            Route("/results/design.json", self._admitted(self._design), methods=["GET"]),
        ]

    def _admitted(self, answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def checked(request: Request) -> Response:
            if not self._admission.admits(request.cookies.get(COOKIE)):
                raise Refused(403, "the results are for whoever has the token; enter it on the results page")
            response: Response = await answer(request)
            return response

        return checked

    async def _page(self, request: Request) -> Response:
        if not self._admission.admits(request.cookies.get(COOKIE)):
            return _html(self._login(wrong=False))
        chosen = _chosen(request)
        body = await self._computed(("page", *chosen), lambda: self._shown(chosen))
        return _html(body)

    async def _enter(self, request: Request) -> Response:
        form = parse_qs((await body_of(request, "application/x-www-form-urlencoded", _FORM_BYTES)).decode("latin-1"))
        if not self._admission.knows(form.get("token", [""])[0]):
            return _html(self._login(wrong=True), 403)
        response = RedirectResponse("results", 303)
        response.set_cookie(
            COOKIE, self._admission.cookie(), LASTS, secure=self._secure, httponly=True, samesite="strict"
        )
        return response

    async def _leave(self, request: Request) -> Response:
        response = RedirectResponse("../results", 303)
        response.delete_cookie(COOKIE, secure=self._secure, httponly=True, samesite="strict")
        return response

    async def _csv(self, request: Request) -> Response:
        chosen = _chosen(request)

        def written() -> bytes:
            sink = io.BytesIO()
            pa_csv.write_csv(without_formulas(self._results.table(chosen)), sink)
            return sink.getvalue()

        return _download(await self._computed(("csv", *chosen), written), "counts.csv", "text/csv; charset=utf-8")

    async def _report(self, request: Request) -> Response:
        chosen = _chosen(request)
        body = await self._computed(("report", *chosen), lambda: page_html(self._results.page(chosen)).encode())
        return _download(body, "report.html", _HTML)

    async def _parquet(self, request: Request) -> Response:
        path = await asyncio.to_thread(self._written_parquet)
        return FileResponse(
            path,
            media_type="application/vnd.apache.parquet",
            filename="reports.parquet",
            background=BackgroundTask(os.unlink, path),
        )

    async def _design(self, request: Request) -> Response:
        return _download(self._survey.files.design, "design.json", "application/json")

    def _written_parquet(self) -> str:
        with tempfile.NamedTemporaryFile(prefix="optrr-", suffix=".parquet", delete=False) as file:
            try:
                with pq.ParquetWriter(file, self._records.schema) as writer:
                    for batch in self._records.batches(self._records.column_names()):
                        writer.write_batch(batch)
            except BaseException:
                os.unlink(file.name)
                raise
        return file.name

    def _shown(self, chosen: Sequence[str]) -> bytes:
        names = self._survey.design.domain.names[:_MOST_OFFERED]
        query = f"?{urlencode([('attribute', name) for name in chosen])}" if chosen else ""
        told = {"names": names, "chosen": chosen, "query": query, "counted": isinstance(self._survey.design, Design)}
        return _rendered("results.html", self._results.page(chosen), **told)

    def _login(self, wrong: bool) -> bytes:
        return _rendered("login.html", Page(f"{self._survey.title}: results", ()), wrong=wrong)

    async def _computed(self, key: object, compute: Callable[[], bytes]) -> bytes:
        try:
            return await self._recent.get(key, compute)
        except OptrrError as error:
            raise Refused(400, str(error)) from error


def _chosen(request: Request) -> tuple[str, ...]:
    return tuple(request.query_params.getlist("attribute"))


def _html(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"Content-Security-Policy": _POLICY}, _HTML)


def _download(body: bytes, name: str, media_type: str) -> Response:
    return Response(body, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, media_type)


def _rendered(template: str, page: Page, **more: object) -> bytes:
    html: str = page_environment("optrr.survey").get_template(template).render(page=page, **more)
    return html.encode()
