"""What results show: proportions in 0..1, intervals that cover, charts that mean something, texts in the reader's language."""

import re
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from html_page import Read
from survey_client import TOKEN, call, entered

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from optrr.allocation.sampled_tables import SampledTables
from optrr.core.design.solving import design
from optrr.core.display import ENGLISH
from optrr.core.domain.domain import Domain
from optrr.core.records.counts import Counts
from optrr.survey import results
from optrr.survey.app import survey_app
from optrr.survey.charts import Interval, interval_chart
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission, ShownTable, answered_result, counted_result
from optrr.survey.store import Report, Store
from optrr.survey.stored_records import Packing

SURVEYS = 1000
# The normal quantile of 95 % intervals.
Z = 1.959964


def random_surveys() -> list[tuple[ShownTable, np.ndarray]]:
    """Tables of one and of two attributes with their true proportions, of surveys of 5 to 200 people."""
    rng = np.random.default_rng(5)
    out = []
    for _ in range(SURVEYS):
        sizes = rng.integers(2, 6, rng.integers(1, 4))
        domain = Domain.of({f"a{k}": int(r) for k, r in enumerate(sizes)})
        made = design(domain, list(rng.uniform(0.5, 4, sizes.size)))
        truth = rng.dirichlet(np.ones(sizes.prod())).reshape(sizes)
        n = int(rng.integers(5, 201))
        people = np.stack(np.unravel_index(rng.choice(truth.size, n, p=truth.ravel()), sizes), axis=1)
        codes = np.asarray(made.mechanism.randomize_codes(people, int(rng.integers(1 << 31))))
        for k in (1, 2):
            for chosen in combinations(range(sizes.size), k):
                asked = domain.subset([domain.names[i] for i in chosen])
                cells = np.ravel_multi_index(tuple(codes[:, chosen].T), tuple(asked.sizes))
                counts = np.bincount(cells, minlength=asked.sizes.prod()).reshape(asked.sizes)
                rest = tuple(i for i in range(sizes.size) if i not in chosen)
                out.append((counted_result(made, Counts(asked, counts)), truth.sum(axis=rest)))
    return out


@pytest.mark.slow
def test_shown_intervals_cover_and_lie_in_the_range() -> None:
    covered, charts, tables = [], 0, random_surveys()
    for table, truth in tables:
        shown = table.shown
        assert shown is not None
        assert shown.estimate.min() >= 0
        assert shown.estimate.sum() == pytest.approx(1)
        assert (shown.lower >= 0).all()
        assert (shown.lower <= shown.estimate).all()
        assert (shown.estimate <= shown.upper).all()
        assert (shown.upper <= 1).all()
        if table.needed:
            assert table.needed > table.n
            continue
        charts += 1
        assert (shown.upper - shown.lower).max() <= 0.5
        covered += ((shown.lower <= truth) & (truth <= shown.upper)).ravel().tolist()
    # about 2,300 tables with 14,000 cells: the coverage has a standard error below 0.3 %
    assert charts > 2000
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.slow
def test_needed_reports_give_ten_points_in_every_population() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        sizes = rng.integers(2, 6, rng.integers(1, 3))
        domain = Domain.of({f"a{k}": int(r) for k, r in enumerate(sizes)})
        made = design(domain, list(rng.uniform(0.4, 4, sizes.size)))
        five = np.zeros(sizes, dtype=int)
        five.flat[0] = 5
        needed = counted_result(made, Counts(domain, five)).needed
        drawn_by = made.mechanism.kernel(domain.names).matrix()
        weights, margins = np.linalg.inv(drawn_by)[:, 0], []
        # the cell in all proportions, the others in any other cell
        for other in range(1, five.size):
            for share in (0.0, 0.25, 0.5, 0.75, 1.0):
                chances = share * drawn_by[0] + (1 - share) * drawn_by[other]
                reports = rng.multinomial(needed, chances / chances.sum(), 400)
                margins.append(Z * (reports / needed @ weights).std())
        # a standard deviation of 400 draws is 3.5 % off, the largest of 120 up to 12 %; rounding up adds up to 10 % reports
        assert 0.09 <= max(margins) <= 0.115


@pytest.mark.slow
def test_needed_answers_give_about_ten_points() -> None:
    rng = np.random.default_rng(8)
    domain = Domain.of({"a": 3, "b": 2, "c": 4})
    for epsilon in (0.7, 1.5, 3.0):
        asking = SampledTables(domain, (("a", "b"), ("c",)), np.array([0.6, 0.4]), epsilon)
        frame = {name: np.array(["0", "1"])[(rng.random(4000) < 0.5).astype(int)] for name in domain.names}
        first = asking.randomize_frame(pa.table(frame).slice(0, 10), 0)
        for names in (("a",), ("c",)):
            needed = answered_result(asking, names, first).needed
            errors = []
            for seed in range(60):
                rows = rng.integers(0, 4000, needed)
                answers = asking.randomize_frame(pa.table(frame).take(rows), seed)
                errors.append(asking.estimate(answers, names).estimate[0] - np.mean(frame[names[0]] == "0"))
            # a standard deviation of 60 draws is 9 % off
            assert 0.07 <= Z * np.std(errors) <= 0.13


SPECIFICATION = """
language = "en"
epsilon = 3.0
asker = "The <Mill> school"
title = {en = "At school", de = "In der Schule", ar = "في المدرسة"}
[[attributes]]
name = "theft"
categories = ["yes", "no"]
question = {en = "Has something been stolen from you?", de = "Wurde dir etwas gestohlen?"}
labels = {en = ["Yes", "No"], de = ["Ja", "Nein"]}
[[attributes]]
name = "what"
categories = ["money", "phone", "not asked"]
ask_if = {theft = ["yes"]}
[[attributes]]
name = "days"
bins = [0, 1, 6, inf]
missing = true
"""


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    path = tmp_path_factory.mktemp("results") / "q.toml"
    path.write_text(SPECIFICATION)
    return prepared(path)


def fill(survey: Survey, engine: Any, n: int) -> None:
    rng = np.random.default_rng(1)
    assert not isinstance(survey.design, SampledTables)
    truth = np.stack([rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 4, n)], axis=1)
    codes = survey.design.mechanism.randomize_codes(truth, 0)
    packing = Packing(survey.design.domain)
    Store(engine).add([Report(rng.bytes(16), packing.pack(row)) for row in codes.tolist()])


def shown(app: Any, path: str = "", **headers: str) -> str:
    reply = call(app, "GET", f"/results{path}", **entered(app), **headers)
    assert reply.status == 200
    return reply.body.decode()


def test_results_are_in_the_readers_language(app: Any, survey: Survey, engine: Any) -> None:
    fill(survey, engine, 400)
    asked = {"accept_language": "en; q=0.5, fr, de-AT; q=0.8"}
    assert "Wurde dir etwas gestohlen?" in shown(app, **asked)
    assert "Has something been stolen from you?" in shown(app, "?language=en", **asked)
    assert "Has something been stolen from you?" in shown(app, "?language=xx")
    arabic = shown(app, "?language=ar")
    assert '<html lang="ar" dir="rtl">' in arabic
    # texts that are not in the reader's language say which they are in
    assert '<bdi lang="en">Has something been stolen from you?</bdi>' in arabic
    assert "<bdi>في المدرسة</bdi>" in arabic
    # bins are named as on the page of questions
    for label in ("from 0 to below 1", "6 or more", "I prefer not to say", "Not asked"):
        assert f"<bdi>{label}</bdi>" in shown(app)
    page = shown(app, "?language=de")
    links = [a for tag, a in Read(page).with_attributes if tag == "a" and a.get("hreflang")]
    assert [(a["hreflang"], a.get("aria-current")) for a in links] == [("en", None), ("de", "true"), ("ar", None)]
    assert re.search(r'<th scope="row"><bdi>Ja</bdi></th><td>\d+(,\d)?\s%</td>', page)


def test_too_few_reports_have_no_chart(app: Any, survey: Survey, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # what was computed before the report came must not serve after it
    monkeypatch.setattr(results, "_FRESH", 0.0)
    monkeypatch.setattr(results, "_SHARE", 0.0)
    for n, said in ((0, "0 reports."), (1, "1 report.")):
        if n:
            fill(survey, engine, n)
        page = shown(app, "/published.html")
        assert said in page
        assert "Estimates begin with the second report." in page
        assert 'class="intervals"' not in page


def test_a_wide_interval_has_no_chart_but_a_number_of_reports(app: Any, survey: Survey, engine: Any) -> None:
    fill(survey, engine, 5)
    page = shown(app)
    assert 'class="intervals"' not in page
    needed = [int(each.replace(",", "")) for each in re.findall(r"Too few reports: about ([\d,]+) are needed", page)]
    assert len(needed) == 3
    assert min(needed) > 100
    assert "Too few reports" not in shown(survey_app_with(survey, engine, 900))


def survey_app_with(survey: Survey, engine: Any, n: int) -> Any:
    rng = np.random.default_rng(2)
    packing = Packing(survey.design.domain)
    rows = np.stack([rng.integers(0, r, n) for r in survey.design.domain.sizes], axis=1)
    Store(engine).add([Report(rng.bytes(16), packing.pack(row)) for row in rows.tolist()])
    return survey_app(survey, engine, Admission(TOKEN), secure=False)


def test_a_published_page_stands_alone(app: Any, survey: Survey, engine: Any) -> None:
    fill(survey, engine, 400)
    reply = call(app, "GET", "/results/published.html?language=de", **entered(app))
    assert reply.headers["content-disposition"] == 'attachment; filename="results.de.html"'
    page = Read(reply.body.decode())
    assert {"script", "form", "link", "img", "a", "input"}.isdisjoint(page.tags)
    assert page.references == []
    assert TOKEN not in page.text
    assert "The <Mill> school" in page.text
    assert "400" in page.text
    # rounded up
    assert f"ε = {np.ceil(100 * survey.design.epsilon) / 100:.2f}".replace(".", ",") in page.text


def test_a_chart_states_every_row_in_words_and_escapes_it() -> None:
    row = Interval("<b> & c", "32 %", "25 to 40 %", 32.0, 25.0, 40.0)
    drawn = interval_chart([row], ENGLISH)
    assert "&lt;b&gt; &amp; c" in drawn
    assert "inset-inline-start:25.00%;inline-size:15.00%" in drawn
    assert re.search(r'class="point" style="inset-inline-start:32.00%"', drawn)
    said = Read(re.sub(r'<(\w+)[^>]*aria-hidden="true".*?</\1></li>', "</li>", drawn)).text
    assert "<b> & c 32 % (25 to 40 %)" in said
