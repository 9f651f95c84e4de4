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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import product
from math import ceil, floor, inf, isnan
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from babel import negotiate_locale
from babel.dates import format_date
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from optrr.allocation.sampled_tables import SampledTables
from optrr.core.design import Design
from optrr.core.display import epsilon_text, example, page_environment, printable, promise, two_digits_up
from optrr.core.domain import NONE, Bins, cells_table
from optrr.core.errors import InvalidInput, OptrrError, TooFewRecords
from optrr.core.estimation import Estimate, estimate, norm, poisoning
from optrr.core.inference import Bootstrap
from optrr.core.records import Counts, count_many, without_formulas
from optrr.survey.charts import Interval, interval_chart
from optrr.survey.guard import HTTPRefusal, body_of
from optrr.survey.preparing import Survey
from optrr.survey.stored_records import StoredRecords
from optrr.survey.words import name_of, words_of

# Number of attributes with a table on the page by default, and of rows of a table.
MOST_TABLES, _MOST_ROWS = 30, 200
# Maximum number of attributes and cells of one table.
_MOST_CROSSED, _MOST_CELLS = 3, 2000
# Number of attributes of a test of independence, and its level.
_PAIR, _LEVEL = 2, 0.05
# Widest interval of a chart, and the half-width for which the required number of reports is stated.
_WIDEST, _MARGIN = 0.5, 0.1
# Percentage points of an interval below which its numbers have a decimal.
_NARROW = 4


@dataclass(frozen=True, eq=False)
class ShownTable:
    """One table of ``n`` reports: its unbiased estimate, or why there is none.

    ``variance`` is about the largest one of a report's estimate of a cell. ``counts`` are those of randomized records.
    ``related`` computes the p-value of the test of independence of two attributes, and ``fakes`` the number of made-up reports
    that move a proportion by 0.01.
    """

    names: tuple[str, ...]
    n: int
    unbiased: Estimate | OptrrError
    variance: Callable[[], float]
    fakes: Callable[[], float]
    counts: Counts | None = None
    related: Callable[[], float] | None = None

    @cached_property
    def shown(self) -> Estimate | None:
        """The estimate projected to proportions."""
        return None if isinstance(self.unbiased, OptrrError) else self.unbiased.projected()

    @cached_property
    def needed(self) -> int:
        """Number of reports for ± 10 points if there are too few for a chart, otherwise 0."""
        if not (self.shown or isinstance(self.unbiased, TooFewRecords)):
            return 0
        one = float(norm.isf(_LEVEL / 2)) ** 2 * self.variance()
        widest = float((self.shown.upper - self.shown.lower).max()) if self.shown else 1.0
        few = widest > _WIDEST or self.n < one / (_WIDEST / 2) ** 2
        return two_digits_up(one / _MARGIN**2) if few else 0


def counted_result(design: Design, counts: Counts, reports: Any = None) -> ShownTable:
    """Estimate the table of counted records; ``reports`` are those of two attributes, for their test."""
    mechanism, names = design.mechanism, counts.domain.names
    return ShownTable(
        names,
        counts.n,
        tried(lambda: estimate(counts, mechanism)),
        lambda: mechanism.kernel(names).worst_variance(),
        lambda: poisoning(counts, mechanism, 1).reports_to_move(),
        counts,
        reports and (lambda: reports.test(*names, calibration=Bootstrap(random_state=0)).p_value),
    )


def answered_result(asking: SampledTables, names: tuple[str, ...], answers: pa.Table) -> ShownTable:
    """Estimate a table from the answers to all queries that tell about it."""
    return ShownTable(
        names,
        answers.num_rows,
        tried(lambda: asking.reports(answers).table(*names)),
        lambda: asking.half_variance(names),
        lambda: asking.poisoning(answers, names, 1).reports_to_move(),
    )


def tried(compute: Callable[[], Any]) -> Any:
    """Return the result, or the error if it has none."""
    try:
        return compute()
    except OptrrError as error:
        return error


class Reading(NamedTuple):
    """Tables of ``n`` reports, read at a time; none without reports."""

    n: int
    at: datetime
    tables: Sequence[ShownTable]


class Results:
    """Tables of one survey's stored reports."""

    def __init__(self, design: Design | SampledTables, records: StoredRecords) -> None:
        self.design, self._records = design, records

    def read(self, names: Sequence[str] = (), most: int = MOST_TABLES) -> Reading:
        """Read the table of the named attributes, or one of each, from one snapshot of the database.

        Raises InvalidInput for unknown or repeated names, or too large a table.
        """
        sets = [self._crossed(names)] if names else [(name,) for name in self.design.domain.names[:most]]
        at = datetime.now(UTC).replace(second=0, microsecond=0)
        tables = (self._counted if self.design.budgets else self._answered)(cast(Any, self.design), sets)
        return Reading(tables[0].n if tables else 0, at, tables)

    def table(self, names: Sequence[str] = ()) -> pa.Table:
        """Return counts and unbiased estimates, a row per cell.

        Columns are the named attributes, or ``attribute`` and ``category`` for all attributes one by one; then count (of
        randomized records), estimate, standard_error, lower, upper (proportions; null if not available). Answers to questions
        have no counts, and attributes that they do not tell about no rows.
        """
        tables = self.read(names, self.design.domain.m).tables
        if not tables:
            raise InvalidInput("there are no reports yet; come back after the first")
        known = [each for each in tables if each.counts or each.shown]
        if not known:
            raise cast(OptrrError, tables[-1].unbiased)
        return pa.concat_tables([_rows(each, bool(names)) for each in known])

    def _counted(self, design: Design, sets: Sequence[tuple[str, ...]]) -> list[ShownTable]:
        """Count the tables in one pass; a pair's columns are held in memory."""
        # a survey's records have no other columns beside the attributes
        design, pair = replace(design, public=NONE), len(sets[0]) == _PAIR
        data: Any = self._held(sets[0]) if pair else self._records
        first = data if pair else next(data.batches(sets[0][:1]), None)
        if first is None or not first.num_rows:
            return []
        counted = count_many(data, design.domain, sets, allow_extra=True).values()
        return [counted_result(design, each, design.reports(data) if pair else None) for each in counted]

    def _answered(self, asking: SampledTables, sets: Sequence[tuple[str, ...]]) -> list[ShownTable]:
        answers = self._held(self._records.column_names())
        return [answered_result(asking, names, answers) for names in sets] if answers.num_rows else []

    def _held(self, columns: Sequence[str]) -> pa.Table:
        """Read these columns of all reports into memory."""
        schema = pa.schema([self._records.schema.field(name) for name in columns], self._records.schema.metadata)
        return pa.Table.from_batches(self._records.batches(columns), schema)

    def _crossed(self, names: Sequence[str]) -> tuple[str, ...]:
        domain = self.design.domain.subset(names)
        cells = int(np.prod(domain.sizes.astype(float)))
        if domain.m > _MOST_CROSSED or cells > _MOST_CELLS:
            raise InvalidInput(
                f"a table of {domain.m} attributes with {cells} cells is too large for this page; cross at most "
                f"{_MOST_CROSSED} attributes with {_MOST_CELLS} cells, or download the reports"
            )
        return domain.names


def _rows(table: ShownTable, together: bool) -> pa.Table:
    """Return counts and estimates of a table, with a column per attribute if it is ``together``."""
    known, counts = table.unbiased, table.counts
    numbers: dict[str, Any] = {} if counts is None else {"count": counts.table}
    for name in Estimate.in_cells:
        numbers[name] = getattr(known, name) if counts is None or table.shown else np.full(counts.table.shape, np.nan)
    rows = cells_table((counts or cast(Estimate, known)).domain, numbers)
    names = rows.column_names if together else ["category", *numbers]
    columns = [pc.if_else(pc.is_nan(c), None, c) if pa.types.is_floating(c.type) else c for c in rows.columns]
    out = pa.table(columns, names)
    return out if together else out.add_column(0, "attribute", [[table.names[0]] * out.num_rows])


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
# Content of a page or file for the chosen attributes, in a language.
_Compute = Callable[[Sequence[str], str], bytes]


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
        files: dict[str, tuple[str, _Compute]] = {
            "counts.csv": ("text/csv; charset=utf-8", self._csv),
            "published.html": (_HTML, partial(self._told, "published.html")),
            "reports.parquet": ("application/vnd.apache.parquet", self._parquet),
            "design.json": ("application/json", lambda _chosen, _language: self._survey.files.design),
        }
        return [
            Route("/results", self._page, methods=["GET"]),
            Route("/results", self._enter, methods=["POST"]),
            Route("/results/leave", self._leave, methods=["POST"]),
            *(Route(f"/results/{name}", self._download(name, *file), methods=["GET"]) for name, file in files.items()),
        ]

    async def _page(self, request: Request) -> Response:
        if not self._admission.admits(request.cookies.get(COOKIE)):
            return _html(self._login(wrong=False))
        return _html(await self._computed(request, "results.html", partial(self._told, "results.html")))

    def _download(self, name: str, media_type: str, compute: _Compute) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if not self._admission.admits(request.cookies.get(COOKIE)):
                raise HTTPRefusal(403, "the results require the token; enter it on the results page")
            body = await self._computed(request, name, compute)
            saved = f"results.{self._language(request)}.html" if name == "published.html" else name
            return Response(body, 200, {"Content-Disposition": f'attachment; filename="{saved}"'}, media_type)

        return answer

    async def _computed(self, request: Request, name: str, compute: _Compute) -> bytes:
        chosen, language = tuple(request.query_params.getlist("attribute")), self._language(request)
        try:
            return await self._recent.get((name, language, *chosen), lambda: compute(chosen, language))
        except OptrrError as error:
            raise HTTPRefusal(400, str(error)) from error

    async def _enter(self, request: Request) -> Response:
        form = parse_qs((await body_of(request, "application/x-www-form-urlencoded", _FORM_BYTES)).decode("latin-1"))
        if not self._admission.knows(form.get("token", [""])[0]):
            return _html(self._login(wrong=True), 403)
        response, cookie = RedirectResponse("results", 303), self._admission.cookie()
        response.set_cookie(COOKIE, cookie, LASTS, secure=self._secure, httponly=True, samesite="strict")
        return response

    async def _leave(self, request: Request) -> Response:
        response = RedirectResponse("../results", 303)
        response.delete_cookie(COOKIE, secure=self._secure, httponly=True, samesite="strict")
        return response

    def _csv(self, chosen: Sequence[str], _language: str) -> bytes:
        sink = io.BytesIO()
        pa_csv.write_csv(without_formulas(self._results.table(chosen)), sink)
        return sink.getvalue()

    def _parquet(self, _chosen: Sequence[str], _language: str) -> bytes:
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, self._records.schema) as writer:
            for batch in self._records.batches(self._records.column_names()):
                writer.write_batch(batch)
        return sink.getvalue()

    def _told(self, template: str, chosen: Sequence[str], language: str) -> bytes:
        told, names = _Telling(self._survey, language), self._survey.design.domain.names[:_MOST_OFFERED]
        reading = self._results.read(chosen)
        return _rendered(template, told, reading=reading, chosen=chosen, names=names, most=MOST_TABLES)

    def _login(self, wrong: bool) -> bytes:
        return _rendered("login.html", _Telling(self._survey, "en"), wrong=wrong)

    def _language(self, request: Request) -> str:
        """Choose the language that the request names or its reader prefers, among the survey's."""
        known = self._survey.wording.languages
        header = request.headers.get("accept-language", "").replace(" ", "")
        wanted = [each.partition(";q=") for each in header.split(",")]
        preferred = [each for each, _, _ in sorted(wanted, key=lambda each: each[2] or "1", reverse=True)]
        return negotiate_locale([request.query_params.get("language", ""), *preferred], known, sep="-") or known[0]


class _Telling:
    """Texts of a survey's results in one language, for templates."""

    def __init__(self, survey: Survey, language: str) -> None:
        self.survey, self.language, self.words = survey, language, words_of(language)

    def said(self, given: Any, otherwise: str) -> str:
        """Return a text of the survey in this language; ``otherwise`` if it has none."""
        return printable(self.survey.wording.text(given, self.language)[0] or otherwise)

    def marked(self, given: Any, otherwise: str = "") -> Markup:
        """Return the same set apart by direction, and by its language if that is another one."""
        language = self.survey.wording.text(given, self.language)[1]
        other = Markup(' lang="{}"').format(language) if given and language != self.words.language else ""
        return Markup("<bdi{}>{}</bdi>").format(other, self.said(given, otherwise))

    def question(self, name: str) -> Markup:
        wording, box = self.survey.wording, self.survey.design.domain[name].multi_select
        whole = wording.columns.get(box.column) if box else None
        if box and whole:
            return Markup("{} {}").format(self.marked(whole), self.marked(wording.questions.get(name), box.option))
        return self.marked(wording.questions.get(name), f"{box.column}: {box.option}" if box else name)

    def moment(self, at: datetime) -> str:
        date = format_date(at, "long", locale=self.words.language)
        return self.words("{date}, {time} UTC", date=date, time=f"{at:%H:%M}")

    def rows(self, table: ShownTable) -> Iterator[tuple[Interval, str, str]]:
        """Iterate over the cells: estimate and interval in percent, standard error in points, and count."""
        of, words = cast(Estimate, table.shown), self.words
        columns = [100 * x.ravel()[:_MOST_ROWS] for x in (of.estimate, of.lower, of.upper, of.standard_error)]
        counts = [0] * of.estimate.size if table.counts is None else table.counts.table.ravel().tolist()
        # a narrow interval needs a decimal to be one; its ends are rounded outwards
        decimals = 0 if (columns[2] - columns[1]).min() >= _NARROW else 1
        labels = product(*(self._labels(name) for name in of.domain.names))
        for label, share, low, high, error, count in zip(labels, *(x.tolist() for x in columns), counts, strict=False):
            lower = words.number(floor(low * 10**decimals) / 10**decimals, decimals)
            upper = words.number(ceil(high * 10**decimals) / 10**decimals, decimals)
            about = words("{share} %", share=words.number(share, decimals))
            between = words("{lower} to {upper} %", lower=lower, upper=upper)
            row = Interval(Markup(" · ").join(label), about, between, share, low, high)
            yield row, "–" if isnan(error) else words.number(error, 1), words.number(count)

    def _labels(self, name: str) -> list[Markup]:
        """Return the labels of the answers in this language, or their categories in words."""
        texts, language = self.survey.wording.text(self.survey.wording.labels.get(name), self.language)
        if texts:
            return [self.marked({language: text}) for text in texts]
        attribute = self.survey.design.domain[name]
        said = {None: self.words("I prefer not to say"), "": self.words("(empty)")}
        if (branch := self.survey.branches.get(name)) is not None:
            said[branch.otherwise] = self.words("Not asked")
        if attribute.multi_select is not None:
            said |= {"yes": self.words("Yes"), "no": self.words("No")}
        if attribute.bins is not None and not attribute.bins.of_dates:
            said |= {label: self._range(attribute.bins, k) for k, label in enumerate(attribute.bins.labels)}
        return [self.marked(None, said.get(text) or str(text)) for text in attribute.texts]

    def _range(self, bins: Bins, k: int) -> str:
        """Return the range of a bin of numbers in the words of the question page."""
        words, is_left, (low, high) = self.words, bins.closed != "right", bins.edges[k : k + 2]
        if low == -inf:
            return words("below {most}", most=high) if is_left else words("up to {most}", most=high)
        if high == inf:
            return words("{least} or more", least=low) if is_left else words("more than {least}", least=low)
        if is_left:
            return words("from {least} to below {most}", least=low, most=high)
        return words("more than {least}, up to {most}", least=low, most=high)


def _html(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"Content-Security-Policy": _POLICY, "Vary": "Accept-Language"}, _HTML)


@cache
def _style() -> Markup:
    return Markup((files("optrr.survey.page") / "style.css").read_text(encoding="utf-8"))


def _rendered(template: str, told: _Telling, **more: object) -> bytes:
    texts = {"told": told, "words": told.words, "plural": told.words.plural, "style": _style(), **_FUNCTIONS}
    html: str = page_environment("optrr.survey").get_template(template).render(texts, **more)
    return html.encode()


_FUNCTIONS = {f.__name__: f for f in (epsilon_text, example, interval_chart, name_of, promise, tried, words_of)}
