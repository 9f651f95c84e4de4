"""Results of a running survey: tables with intervals and charts over HTTP, as a page and for spreadsheets.

Results use the same counts, kernels, estimators and tests as all randomized records; answers to single questions use
those of their protocol. Slow computations run in a thread, once for all requests of the next seconds, so that results
do not delay reports.

Access needs a token, and then a cookie. The token is compared in constant time and sent in the body of one form, never
in an address. The cookie contains its expiry time with a keyed digest, so that every collector with the same token
accepts it without storing anything; a new token makes all cookies invalid.
"""

import asyncio
import hashlib
import hmac
import io
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from optrr.allocation.sampled_tables import SampledTables
from optrr.core.design import Design
from optrr.core.display import (
    Page,
    Part,
    Section,
    Text,
    amount,
    crossed,
    epsilon_text,
    page_environment,
    page_html,
    sentence,
    warned,
)
from optrr.core.domain import NONE
from optrr.core.errors import InvalidInput, OptrrError
from optrr.core.estimation import estimate, poisoning
from optrr.core.inference import Bootstrap
from optrr.core.records import count_many, without_formulas
from optrr.survey.guard import HTTPRefusal, body_of
from optrr.survey.preparing import Survey
from optrr.survey.stored_records import StoredRecords

# Number of attributes with a table on the page by default.
MOST_TABLES = 30
# Maximum number of attributes and cells of one table.
_MOST_CROSSED = 3
_MOST_CELLS = 2000
# Minimum number of reports for an estimate.
FEWEST = 2
# Number of attributes of a test of independence.
_PAIR = 2
_NUMBERS = ["estimate", "standard_error", "lower", "upper"]


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design | SampledTables, records: StoredRecords, title: str) -> None:
        self.design, self.title = design, title
        self._tables = (_OfRecords if design.budgets else _OfAnswers)(cast(Any, design), records)

    def page(self, names: Sequence[str] = ()) -> Page:
        """Build a page with the table of the named attributes, or one of each.

        Raises InvalidInput for unknown or repeated names, or too large a table.
        """
        sets = self._sets(names, MOST_TABLES)
        n, tables = self._tables.read(sets)
        lead = [
            (
                f"{amount(n, 'report')}, {self._tables.each}, with a total epsilon of "
                f"{epsilon_text(self.design.epsilon)} nats."
            )
        ]
        if n < FEWEST:
            waiting = Text("Estimates begin with the second report.")
            return Page(self.title, [Section("Results", [waiting])], lead)
        sections = [self._section(each, known) for each, known in zip(sets, tables, strict=True)]
        if not names and self.design.domain.m > MOST_TABLES:
            more = f"These are the first {MOST_TABLES} of {self.design.domain.m} attributes; select others above."
            sections.append(Section("Further attributes", [Text(more)]))
        return Page(self.title, sections, lead)

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Return counts and estimates, a row per cell.

        Columns are the named attributes, or ``attribute`` and ``category`` for all attributes one by one; then count (of
        randomized records), estimate, standard_error, lower, upper (proportions; null if not available). Answers to questions
        have no counts, and attributes that they do not tell about no rows.
        """
        _, tables = self._tables.read(self._sets(names, self.design.domain.m))
        if not tables:
            raise InvalidInput("there are no reports yet; come back after the first")
        parts, hidden = list[pa.Table](), OptrrError()
        for known in tables:
            try:
                parts.append(self._tables.rows(known, bool(names)))
            except OptrrError as error:
                hidden = error
        if not parts:
            raise hidden
        return pa.concat_tables(parts)

    def _section(self, names: Sequence[str], known: Any) -> Section:
        try:
            return Section(crossed(names), self._tables.parts(known))
        except OptrrError as error:  # if a table is not identifiable, the page says so and shows the others
            return Section(crossed(names), warned([str(error)]))

    def _sets(self, names: Sequence[str], most: int) -> list[tuple[str, ...]]:
        return [self._crossed(names)] if names else [(name,) for name in self.design.domain.names[:most]]

    def _crossed(self, names: Sequence[str]) -> tuple[str, ...]:
        domain = self.design.domain.subset(names)
        cells = int(np.prod(domain.sizes.astype(float)))
        if domain.m > _MOST_CROSSED or cells > _MOST_CELLS:
            raise InvalidInput(
                f"a table of {domain.m} attributes with {cells} cells is too large for this page; cross at most "
                f"{_MOST_CROSSED} attributes with {_MOST_CELLS} cells, or download the reports"
            )
        return domain.names


class _OfRecords:
    """Tables of whole records, each with its counts.

    Tables of two attributes also keep the reports.
    """

    each = "each randomized on the respondent's device"

    def __init__(self, design: Design, records: StoredRecords) -> None:
        # a survey's records have no other columns beside the attributes
        self._design, self._records = replace(design, public=NONE), records

    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[Any]]:
        """Count the reports and the tables from one snapshot of the database.

        The tables are empty without reports.

        The counts are made in one pass; where one pair is asked for, its columns are held in memory.
        """
        data: Any = _held(self._records, sets[0]) if len(sets[0]) == _PAIR else self._records
        first = data if isinstance(data, pa.Table) else next(data.batches(sets[0][:1]), None)
        if first is None or not first.num_rows:
            return 0, []
        counted = list(count_many(data, self._design.domain, sets, allow_extra=True).values())
        return counted[0].n, [(counts, data) for counts in counted]

    def parts(self, known: Any) -> list[Part]:
        """List chart, table, test of independence and detectable poisoning.

        The test is for two attributes.

        Raises OptrrError where the reports do not tell about the table.
        """
        counts, data = known
        estimated = estimate(counts, self._design.mechanism)
        parts: list[Part] = [*estimated.page_parts(counts), *warned(estimated.warnings)]
        if counts.domain.m == _PAIR:
            try:
                tested = self._design.reports(data).test(*counts.domain.names, calibration=Bootstrap(random_state=0))
            except OptrrError as error:
                parts.append(Text(f"No test of independence: {error}", warning=True))
            else:
                parts.append(Text(f"Test of {tested.headline()}.{' '.join(('', *tested.warnings))}"))
        parts.append(Text(sentence(poisoning(counts, self._design.mechanism, 1).hundredth)))
        return parts

    def rows(self, known: Any, together: bool) -> pa.Table:
        """Return a table's rows.

        Attributes are columns, unless ``together`` is false, when the rows are those of one attribute.

        With the counts; the numbers are null where the mechanism hides the table.
        """
        counts, _ = known
        try:
            numbers = estimate(counts, self._design.mechanism).to_arrow().select(_NUMBERS)
        except OptrrError:
            missing = pa.nulls(counts.table.size, pa.float64())
            numbers = pa.table(dict.fromkeys(_NUMBERS, missing))
        cells = counts.to_arrow()
        tallies = cells.column(cells.num_columns - 1)
        names, columns = ["count", *_NUMBERS], [tallies, *numbers.columns]
        return _with_names(cells, counts.domain.names, together, names, columns)


class _OfAnswers:
    """Tables of answers to one query each; same interface as `_OfRecords`."""

    def __init__(self, asking: SampledTables, records: StoredRecords) -> None:
        self._asking, self._records = asking, records
        self.each = (
            f"each an answer to one of {amount(len(asking.tables), 'question')}, randomized on the respondent's device"
        )

    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[Any]]:
        """Read all answers into memory and select those of each table."""
        answers = _held(self._records, self._records.column_names())
        return answers.num_rows, [(names, answers) for names in sets if answers.num_rows]

    def parts(self, known: Any) -> list[Part]:
        """List chart, table and, if known, the detectable poisoning."""
        names, answers = known
        estimated = self._asking.reports(answers).table(*names)
        try:
            moved = self._asking.poisoning(answers, names, 1).hundredth
        except OptrrError as error:
            moved = str(error)
        told = Text(
            f"Estimated from {amount(estimated.n, 'answer')} to questions about this table, or about a part of it."
        )
        return [*estimated.page_parts(), told, *warned(estimated.warnings), Text(sentence(moved))]

    def rows(self, known: Any, together: bool) -> pa.Table:
        """Return a table's rows without counts, as an answer names several cells.

        Raises OptrrError if the answers do not identify the table.
        """
        names, answers = known
        cells = self._asking.reports(answers).table(*names).to_arrow()
        return _with_names(cells, cells.column_names[: len(names)], together, _NUMBERS, cells.select(_NUMBERS).columns)


def _held(records: StoredRecords, columns: Sequence[str]) -> pa.Table:
    """Read these columns of all reports into memory."""
    schema = pa.schema([records.schema.field(name) for name in columns], metadata=records.schema.metadata)
    return pa.Table.from_batches(records.batches(columns), schema)


def _with_names(
    cells: pa.Table, names: Sequence[str], together: bool, heads: Sequence[str], columns: Sequence[pa.ChunkedArray]
) -> pa.Table:
    """Join numbers to their cells; rename a number that an attribute's name takes."""
    if together:
        out = cells.select(list(names))
    else:
        out = pa.table({"attribute": [names[0]] * cells.num_rows, "category": cells.column(0)})
    for name, column in zip(heads, columns, strict=True):
        free = name
        while free in out.column_names:
            free += "_"
        floating = pa.types.is_floating(column.type)
        out = out.append_column(free, pc.if_else(pc.is_nan(column), None, column) if floating else column)
    return out


COOKIE = "optrr_results"
# Seconds until a cookie expires: a working day.
LASTS = 12 * 3600
# Minimum characters of a token: 22 of base64 are 128 bits.
_SHORTEST = 22


def new_token() -> str:
    """Create a token of 192 random bits."""
    return secrets.token_urlsafe(24)


class Admission:
    """Check of the token and of cookies.

    Raises InvalidInput for a token that could be guessed.
    """

    def __init__(self, token: str) -> None:
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
            raise InvalidInput(
                f"the token of the results has {len(token)} characters; give at least {_SHORTEST} random ASCII "
                "characters"
            )
        self._token = token.encode()

    def knows(self, given: str) -> bool:
        """Compare with the token in constant time."""
        return hmac.compare_digest(self._token, given.encode(errors="replace"))

    def cookie(self) -> str:
        """Create a cookie's value that is valid from now on."""
        ends = str(int(time.time()) + LASTS)
        return f"{ends}.{self._seal(ends)}"

    def admits(self, cookie: str | None) -> bool:
        """Check that the cookie was issued for this token and has not expired."""
        ends, _, seal = (cookie or "").partition(".")
        if not (ends.isascii() and ends.isdecimal() and len(ends) < 20):
            return False
        genuine = hmac.compare_digest(self._seal(ends).encode(), seal.encode(errors="replace"))
        return genuine and int(ends) > time.time()

    def _seal(self, ends: str) -> str:
        return hmac.new(self._token, f"optrr results until {ends}".encode(), hashlib.sha256).hexdigest()


# Attributes offered for crossing.
_MOST_OFFERED = 300
# Policy of the results: styles are inline, scripts do not run, and forms are sent to this server only.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_HTML = "text/html; charset=utf-8"
# Bytes of the login form.
_FORM_BYTES = 1024
# Lifetime of a computed answer: these seconds, or this multiple of its computing time, whichever is longer.
_FRESH, _SHARE = 3.0, 10.0
_KEPT = 32


class Recent:
    """Computed answers that are still fresh; one is computed at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._kept: dict[object, tuple[float, bytes]] = {}
        self._asked: dict[object, asyncio.Task[bytes]] = {}

    async def get(self, key: object, compute: Callable[[], bytes]) -> bytes:
        """Return the response for the key, at most a few seconds old."""
        if key not in self._asked:
            self._asked[key] = asyncio.create_task(self._made(key, compute))
            self._asked[key].add_done_callback(partial(self._ended, key))
        # the computation continues if the client leaves, so that a later request finds it finished or further along
        return await asyncio.shield(self._asked[key])

    def _ended(self, key: object, task: asyncio.Task[bytes]) -> None:
        del self._asked[key]
        if not task.cancelled():
            # otherwise asyncio prints an error that no client awaited
            task.exception()

    async def _made(self, key: object, compute: Callable[[], bytes]) -> bytes:
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
    """Routes of a survey's results.

    ``secure`` means that browsers use https, so that the cookie is not sent without it.
    """

    def __init__(self, survey: Survey, records: StoredRecords, admission: Admission, secure: bool) -> None:
        self._survey, self._records = survey, records
        self._admission, self._secure = admission, secure
        self._recent = Recent()
        self._results = Results(survey.design, records, survey.title)

    def routes(self) -> list[Route]:
        """List all routes below ``results``."""
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
                raise HTTPRefusal(403, "the results require the token; enter it on the results page")
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

    async def _parquet(self, _request: Request) -> Response:
        def written() -> bytes:
            sink = io.BytesIO()
            with pq.ParquetWriter(sink, self._records.schema) as writer:
                for batch in self._records.batches(self._records.column_names()):
                    writer.write_batch(batch)
            return sink.getvalue()

        body = await self._computed("parquet", written)
        return _download(body, "reports.parquet", "application/vnd.apache.parquet")

    async def _design(self, request: Request) -> Response:
        return _download(self._survey.files.design, "design.json", "application/json")

    def _shown(self, chosen: Sequence[str]) -> bytes:
        names = self._survey.design.domain.names[:_MOST_OFFERED]
        query = f"?{urlencode([('attribute', name) for name in chosen])}" if chosen else ""
        told = {"names": names, "chosen": chosen, "query": query, "counted": bool(self._survey.design.budgets)}
        return _rendered("results.html", self._results.page(chosen), **told)

    def _login(self, wrong: bool) -> bytes:
        return _rendered("login.html", Page(f"{self._survey.title}: results", ()), wrong=wrong)

    async def _computed(self, key: object, compute: Callable[[], bytes]) -> bytes:
        try:
            return await self._recent.get(key, compute)
        except OptrrError as error:
            raise HTTPRefusal(400, str(error)) from error


def _chosen(request: Request) -> tuple[str, ...]:
    return tuple(request.query_params.getlist("attribute"))


def _html(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"Content-Security-Policy": _POLICY}, _HTML)


def _download(body: bytes, name: str, media_type: str) -> Response:
    return Response(body, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, media_type)


def _rendered(template: str, page: Page, **more: object) -> bytes:
    html: str = page_environment("optrr.survey").get_template(template).render(page=page, **more)
    return html.encode()
