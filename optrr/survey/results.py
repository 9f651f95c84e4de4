"""Results of a running survey: estimates with intervals over HTTP, as a page, as a page to publish, and for spreadsheets.

Results use the same counts, kernels, estimators and tests as all randomized records; answers to single questions use
those of their protocol. Pages show the unbiased estimates projected to the nearest proportions (not negative, with sum
1), with intervals that contain them; downloads have the unbiased ones. A table has a chart once its widest interval is
at most half of the range, and as many reports are there as make it so in any population: a chart that appears by luck
would often miss the truth. Slow computations run in a thread, once for all requests of the next seconds, so that
results do not delay reports.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from math import inf, isfinite, isnan
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from babel.dates import format_date
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from optrr.allocation.sampled_tables import SampledTables
from optrr.core.design import Design
from optrr.core.display import SOFTWARE, epsilon_text, example, page_environment, printable, promise, two_digits_up
from optrr.core.domain import NONE
from optrr.core.errors import InvalidInput, OptrrError, TooFewRecords
from optrr.core.estimation import Estimate, estimate, norm, poisoning, projection
from optrr.core.inference import Bootstrap
from optrr.core.mechanisms import Kernel
from optrr.core.records import count_many, without_formulas
from optrr.survey.charts import Interval, interval_chart
from optrr.survey.guard import HTTPRefusal, body_of
from optrr.survey.preparing import Survey
from optrr.survey.stored_records import StoredRecords
from optrr.survey.words import name_of, words_of

# Number of attributes with a table on the page by default, and of rows of a table.
MOST_TABLES, _MOST_ROWS = 30, 200
# Maximum number of attributes and cells of one table.
_MOST_CROSSED = 3
_MOST_CELLS = 2000
# Minimum number of reports for an estimate.
FEWEST = 2
# Number of attributes of a test of independence, and its level.
_PAIR, _LEVEL = 2, 0.05
# Widest interval of a chart, and the half-width for which the required number of reports is stated.
_WIDEST, _MARGIN = 0.5, 0.1
_NUMBERS = ["estimate", "standard_error", "lower", "upper"]


@dataclass(frozen=True, eq=False)
class Shown:
    """Content of a page about one table.

    ``estimated`` has projected estimates, or is None if the reports do not identify the table. ``needed`` is the number of
    reports for a margin of ten points if there are too few for a chart, otherwise 0. ``fakes`` is the number of made-up
    reports that move a proportion by 0.01, inf if unknown.
    """

    names: tuple[str, ...]
    estimated: Estimate | None = None
    needed: int = 0
    reports: Sequence[int] | None = None
    p_value: float | None = None
    fakes: float = inf
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Reading:
    """Tables of ``n`` reports, read at a time; none below two reports."""

    n: int
    at: datetime
    tables: Sequence[Shown]


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design | SampledTables, records: StoredRecords) -> None:
        self.design = design
        self._tables = (_OfRecords if design.budgets else _OfAnswers)(cast(Any, design), records)

    def read(self, names: Sequence[str] = ()) -> Reading:
        """Read the table of the named attributes, or one of each.

        Raises InvalidInput for unknown or repeated names, or too large a table.
        """
        sets = self._sets(names, MOST_TABLES)
        n, tables = self._tables.read(sets)
        at = datetime.now(UTC).replace(second=0, microsecond=0)
        if n < FEWEST:
            return Reading(n, at, ())
        return Reading(n, at, [self._shown(n, *each) for each in zip(sets, tables, strict=True)])

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Return counts and unbiased estimates, a row per cell.

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

    def _shown(self, n: int, names: tuple[str, ...], known: Any) -> Shown:
        needed = reports_for(self._tables.variance(names), _MARGIN)
        try:
            unbiased = self._tables.estimated(known)
        except TooFewRecords:
            return Shown(names, needed=needed)
        except OptrrError as error:  # if a table is not identifiable, the page says so and shows the others
            return Shown(names, warnings=(str(error),))
        held = projected(unbiased)
        chart = (
            n >= reports_for(self._tables.variance(names), _WIDEST / 2) and (held.upper - held.lower).max() <= _WIDEST
        )
        about = self._tables.about(known)
        warnings = (*unbiased.warnings, *about.warnings)
        return replace(about, names=names, estimated=held, needed=0 if chart else needed, warnings=warnings)

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


def projected(unbiased: Estimate) -> Estimate:
    """Project the estimates to proportions, and extend their intervals to contain them."""
    shares = projection(unbiased.estimate.ravel()).reshape(unbiased.estimate.shape)
    lower, upper = np.minimum(unbiased.lower, shares), np.maximum(unbiased.upper, shares)
    return replace(unbiased, method="projection", estimate=shares, lower=lower, upper=upper)


def worst_variance(kernel: Kernel) -> float:
    """Compute the largest variance, over all populations, of one report's estimate of a cell.

    With the second moments s of a report's weight for the cell from a record inside and s' from outside, the variance at
    proportion p is s' + p (s − s') − p². All cells are alike.
    """
    one = np.zeros(kernel.cells)
    one[0] = 1
    inside, *outside = kernel.adjoint(kernel.solve_adjoint(one.reshape(kernel.sizes)) ** 2).ravel().tolist()
    outer = max(outside, default=inside)
    p = min(max((inside - outer) / 2, 0.0), 1.0)
    return float(outer + p * (inside - outer) - p**2)


def reports_for(variance: float, margin: float) -> int:
    """Compute the number of reports for 95 % intervals of ± ``margin``, rounded up to two digits; 0 if none suffices."""
    return two_digits_up(float(norm.isf(_LEVEL / 2)) ** 2 * variance / margin**2) if isfinite(variance) else 0


class _OfRecords:
    """Tables of whole records, each with its counts.

    Tables of two attributes also keep the reports.
    """

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

    def variance(self, names: tuple[str, ...]) -> float:
        """Compute the largest variance of one report's estimate; inf without an estimate."""
        kernel = self._design.mechanism.kernel(names)
        return worst_variance(kernel) if kernel.is_invertible else inf

    def estimated(self, known: Any) -> Estimate:
        """Estimate the table without bias; raise OptrrError if the reports do not identify it."""
        return estimate(known[0], self._design.mechanism)

    def about(self, known: Any) -> Shown:
        """Return counts, the test of independence of two attributes, and detectable poisoning."""
        counts, data = known
        warnings, p_value = tuple[str, ...](), None
        if counts.domain.m == _PAIR:
            try:
                p_value = (
                    self._design.reports(data).test(*counts.domain.names, calibration=Bootstrap(random_state=0)).p_value
                )
            except OptrrError as error:
                warnings = (f"no test of independence: {error}",)
        fakes = poisoning(counts, self._design.mechanism, 1).reports_to_move()
        return Shown((), None, 0, counts.table.ravel().tolist(), p_value, fakes, warnings)

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

    def read(self, sets: Sequence[tuple[str, ...]]) -> tuple[int, list[Any]]:
        """Read all answers into memory and select those of each table."""
        answers = _held(self._records, self._records.column_names())
        return answers.num_rows, [(names, answers) for names in sets if answers.num_rows]

    def variance(self, names: tuple[str, ...]) -> float:
        """Compute the variance of one answer's estimate of a cell of one half.

        That of a uniform population, and the sampling variance beyond it of the proportion of respondents who are asked.
        """
        cells = int(np.prod(self._asking.domain.subset(names).sizes))
        asked = sum(s for t, s in zip(self._asking.tables, self._asking.shares, strict=True) if set(names) <= set(t))
        return self._asking.table_error(names) / cells + (1 / 4 - (cells - 1) / cells**2) / (asked or 1)

    def estimated(self, known: Any) -> Estimate:
        """Estimate the table without bias."""
        names, answers = known
        estimated: Estimate = self._asking.reports(answers).table(*names)
        return estimated

    def about(self, known: Any) -> Shown:
        """Return the detectable poisoning, if it is known."""
        names, answers = known
        try:
            return Shown((), fakes=self._asking.poisoning(answers, names, 1).reports_to_move())
        except OptrrError:
            return Shown(())

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
        self._results = Results(survey.design, records)

    def routes(self) -> list[Route]:
        """List all routes below ``results``."""
        return [
            Route("/results", self._page, methods=["GET"]),
            Route("/results", self._enter, methods=["POST"]),
            Route("/results/leave", self._leave, methods=["POST"]),
            Route("/results/counts.csv", self._admitted(self._csv), methods=["GET"]),
            Route("/results/published.html", self._admitted(self._published), methods=["GET"]),
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
        return _html(await self._written(request, "results.html"))

    async def _published(self, request: Request) -> Response:
        body = await self._written(request, "published.html")
        return _download(body, f"results.{self._language(request)}.html", _HTML)

    async def _written(self, request: Request, template: str) -> bytes:
        chosen, language = _chosen(request), self._language(request)

        def written() -> bytes:
            told = _Telling(self._survey, language)
            names = self._survey.design.domain.names[:_MOST_OFFERED]
            reading = self._results.read(chosen)
            return _rendered(template, told, reading=reading, chosen=chosen, names=names, most=MOST_TABLES)

        return await self._computed((template, language, *chosen), written)

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

    def _login(self, wrong: bool) -> bytes:
        return _rendered("login.html", _Telling(self._survey, "en"), wrong=wrong)

    def _language(self, request: Request) -> str:
        """Choose the language that the request names or its reader prefers, among the survey's."""
        known = self._survey.wording.languages
        wanted = request.headers.get("accept-language", "").split(",")
        # a weight is written as ;q=0.5, and 1 if left out
        wanted.sort(key=lambda each: each.partition("q=")[2] or "1", reverse=True)
        for each in (request.query_params.get("language", ""), *wanted):
            code = each.partition(";")[0].strip().lower()
            found = next(
                (language for language in known if code and language.lower().startswith(code.split("-")[0])), None
            )
            if found:
                return found
        return known[0]

    async def _computed(self, key: object, compute: Callable[[], bytes]) -> bytes:
        try:
            return await self._recent.get(key, compute)
        except OptrrError as error:
            raise HTTPRefusal(400, str(error)) from error


class _Telling:
    """Texts of a survey's results in one language, for templates."""

    def __init__(self, survey: Survey, language: str) -> None:
        self.survey, self.language, self.words = survey, language, words_of(language)
        self.languages = {each: (name_of(each), words_of(each).reviewed) for each in survey.wording.languages}

    def said(self, given: Any, otherwise: str) -> str:
        """Return a text of the survey in this language; ``otherwise`` if it has none."""
        return printable(self.survey.wording.text(given, self.language)[0] or otherwise)

    def marked(self, given: Any, otherwise: str = "") -> Markup:
        """Return the same set apart by direction, and by its language if that is another one."""
        language = self.survey.wording.text(given, self.language)[1]
        other = Markup(' lang="{}"').format(language) if given and language != self.words.language else ""
        return Markup("<bdi{}>{}</bdi>").format(other, self.said(given, otherwise))

    def question(self, name: str) -> Markup:
        return self.marked(self.survey.wording.questions.get(name), name)

    def questions(self, names: Iterable[str]) -> Markup:
        return Markup(" × ").join(self.question(name) for name in names)

    def related(self, shown: Shown) -> str:
        """State the test of independence."""
        p, words = shown.p_value or 0.0, self.words
        first, second = (self.said(self.survey.wording.questions.get(name), name) for name in shown.names)
        about = f"p = {words.number(p, 2 if p >= 0.1 else 3)}" if p >= 0.001 else f"p < {words.number(0.001)}"
        if p <= _LEVEL:
            return words(
                "The answers to “{first}” and “{second}” are related ({p}).", first=first, second=second, p=about
            )
        return words(
            "The reports do not show that the answers to “{first}” and “{second}” are related ({p}).",
            first=first,
            second=second,
            p=about,
        )

    def query(self, language: str, chosen: Sequence[str] = ()) -> str:
        """Write the query of a page in a language about the chosen attributes."""
        return f"?{urlencode([*(('attribute', name) for name in chosen), ('language', language)])}"

    def moment(self, at: datetime) -> str:
        date = format_date(at, "long", locale=self.words.language)
        return self.words("{date}, {time} UTC", date=date, time=f"{at:%H:%M}")

    def rows(self, shown: Shown) -> list[dict[str, Any]]:
        """List the cells of a table with their numbers, in percent."""
        assert shown.estimated is not None
        of, words = shown.estimated, self.words
        columns = [100 * x.ravel()[:_MOST_ROWS] for x in (of.estimate, of.lower, of.upper, of.standard_error)]
        # a narrow interval needs a decimal to be one; ends are rounded outwards
        decimals = 0 if (columns[2] - columns[1]).min() >= 4 else 1
        scale = 10**decimals
        labels = self._labels(shown.names)
        out = []
        for k, (share, lower, upper, error) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            low, high = np.floor(lower * scale) / scale, np.ceil(upper * scale) / scale
            between = words(
                "{lower} to {upper} %", lower=words.number(low, decimals), upper=words.number(high, decimals)
            )
            about = words("{share} %", share=words.number(share, decimals))
            place = np.unravel_index(k, of.estimate.shape)
            out.append(
                {
                    "label": Markup(" · ").join(labels[i][j] for i, j in enumerate(place)),
                    "place": (share, lower, upper),
                    "share": about,
                    "between": between,
                    "error": "–" if isnan(error) else words.number(error, 1),
                    "reports": "" if shown.reports is None else words.number(shown.reports[k]),
                }
            )
        return out

    def chart(self, shown: Shown) -> Markup:
        each = (Interval(r["label"], f"{r['share']} ({r['between']})", *r["place"]) for r in self.rows(shown))
        return interval_chart(each, self.words)

    def _labels(self, names: Iterable[str]) -> list[list[Markup]]:
        labels, none = self.survey.wording.labels, self.words("I prefer not to say")
        out = []
        for name in names:
            texts, language = self.survey.wording.text(labels.get(name), self.language)
            each = texts or [none if text is None else text for text in self.survey.design.domain[name].texts]
            out.append([self.marked({language: text}) for text in each])
        return out


def _chosen(request: Request) -> tuple[str, ...]:
    return tuple(request.query_params.getlist("attribute"))


def _html(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"Content-Security-Policy": _POLICY, "Vary": "Accept-Language"}, _HTML)


def _download(body: bytes, name: str, media_type: str) -> Response:
    return Response(body, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, media_type)


@cache
def _style() -> Markup:
    return Markup((files("optrr.survey.page") / "style.css").read_text(encoding="utf-8"))


def _rendered(template: str, told: _Telling, **more: object) -> bytes:
    words, epsilon = told.words, told.survey.design.epsilon
    html: str = (
        page_environment("optrr.survey")
        .get_template(template)
        .render(
            told=told,
            words=words,
            plural=words.plural,
            promised=(promise(epsilon, words), example(epsilon, words)),
            epsilon=words.number(float(epsilon_text(epsilon, 2)), 2),
            style=_style(),
            software=SOFTWARE,
            **more,
        )
    )
    return html.encode()
