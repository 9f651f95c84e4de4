"""The results of a survey while it runs: how many reports, tables with intervals and charts, and what can be downloaded.

Everything is computed from the stored reports by the one way from randomized records to numbers: counts, the mechanism's
kernel, estimates and tests.

Who may see the results: a token, and the cookie that stands for it afterwards.

The token is compared in constant time and travels in the body of one form, never in an address. The cookie holds the time at
which it ends and a keyed digest of it, so that every collector with the same token accepts it without storing anything; a new
token makes all cookies invalid.

The results over HTTP: a form for the token, the page, and the downloads.

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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from optrr.designs.design import Design
from optrr.errors import InvalidInput, OptrrError
from optrr.models.tests import test as test_association
from optrr.pages.table_pages import estimate_parts
from optrr.records.counts import Counts, count_many
from optrr.records.writing import without_formulas
from optrr.show.parts import Page, Part, Section, Text, page_environment, page_html, warned
from optrr.show.text import crossed, epsilon_text, sentence
from optrr.survey.incoming import Refused, body_of
from optrr.survey.preparing import Survey
from optrr.survey.stored_records import StoredRecords
from optrr.tables.estimation.estimator import estimate
from optrr.tables.estimation.fake_reports import poisoning

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


# Attributes whose tables stand on the page when none are named.
MOST_TABLES = 30
# Attributes of one table, and its cells.
_MOST_CROSSED = 3
_MOST_CELLS = 2000
# Below this many reports nothing can be estimated.
FEWEST = 2


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design, records: StoredRecords, title: str) -> None:
        self.design, self.title = design, title
        self._records = records

    def page(self, names: Sequence[str] = ()) -> Page:
        """One table of the named attributes crossed, or one of every attribute.

        Raises
        ------
        InvalidInput
            for unknown or repeated names, or too large a table.
        """
        tables = self._counts(names)
        n = tables[0].n if tables else 0
        lead = [
            f"{n} {'report' if n == 1 else 'reports'}, each randomized where it was given, at a total epsilon of "
            f"{epsilon_text(self.design.epsilon)} nats."
        ]
        if n < FEWEST:
            waiting = Text("Estimates begin with the second report.")
            return Page(self.title, [Section("Results", [waiting])], lead)
        sections = [self._section(counts) for counts in tables]
        if not names and self.design.domain.m > MOST_TABLES:
            more = f"The first {MOST_TABLES} of {self.design.domain.m} attributes; choose others by name."
            sections.append(Section("Further attributes", [Text(more)]))
        return Page(self.title, sections, lead)

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Counts and estimates, a row per cell.

        Columns are the named attributes, or ``attribute`` and ``category`` for all attributes one by one; then count (of
        randomized reports), estimate, standard_error, lower, upper (proportions; null where there are none).
        """
        tables = self._counts(names, most=self.design.domain.m)
        parts = [self._rows(counts, bool(names)) for counts in tables]
        if not parts or not tables[0].n:
            raise InvalidInput("there are no reports yet; come back after the first")
        return pa.concat_tables(parts)

    def _counts(self, names: Sequence[str], most: int = MOST_TABLES) -> list[Counts]:
        """The tables' counts, in one pass; none where there are no reports."""
        sets = [self._crossed(names)] if names else [(name,) for name in self.design.domain.names[:most]]
        if next(self._records.batches(self.design.domain.names[:1]), None) is None:
            return []
        return list(count_many(self._records, self.design.domain, sets, allow_extra=True).values())

    def _crossed(self, names: Sequence[str]) -> tuple[str, ...]:
        domain = self.design.domain.subset(names)
        cells = int(np.prod(domain.sizes.astype(float)))
        if domain.m > _MOST_CROSSED or cells > _MOST_CELLS:
            raise InvalidInput(
                f"a table of {domain.m} attributes with {cells} cells is not shown here; cross at most {_MOST_CROSSED} "
                f"with {_MOST_CELLS} cells, or download the reports"
            )
        return domain.names

    def _section(self, counts: Counts) -> Section:
        title = crossed(counts.domain.names)
        try:
            estimated = estimate(counts, self.design.mechanism)
        except OptrrError as error:  # where the mechanism hides a table, the page says so and shows the other tables
            return Section(title, warned([str(error)]))
        parts: list[Part] = [*estimate_parts(estimated, counts), *warned(estimated.warnings)]
        if counts.domain.m == 2:
            parts.append(self._association(counts))
        parts.append(Text(sentence(poisoning(counts, self.design.mechanism, 1).hundredth)))
        return Section(title, parts)

    def _association(self, counts: Counts) -> Text:
        try:
            tested = test_association(counts, self.design.mechanism, random_state=0)
        except OptrrError as error:
            return Text(f"No test of independence: {error}", warning=True)
        return Text(f"Test of {tested.headline()}.{' '.join(('', *tested.warnings))}")

    def _rows(self, counts: Counts, crossed: bool) -> pa.Table:
        shape = counts.table.shape
        try:
            numbers = estimate(counts, self.design.mechanism).to_arrow().select(_NUMBERS)
        except OptrrError:
            missing = pa.nulls(int(np.prod(shape)), pa.float64())
            numbers = pa.table(dict.fromkeys(_NUMBERS, missing))
        cells = counts.to_arrow()
        tallies = cells.column(cells.num_columns - 1)
        if crossed:
            out = cells.select(list(counts.domain.names))
        else:
            name = counts.domain.names[0]
            out = pa.table({"attribute": [name] * tallies.length(), "category": cells.column(0)})
        for name, column in zip(("count", *_NUMBERS), (tallies, *numbers.columns), strict=True):
            free = name
            while free in out.column_names:
                free += "_"
            out = out.append_column(free, _without_nan(column))
        return out


_NUMBERS = ["estimate", "standard_error", "lower", "upper"]


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


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
        return _rendered("results.html", self._results.page(chosen), names=names, chosen=chosen, query=query)

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
