"""Ways through a survey in a real Chromium: conditional questions, numbers, languages, and what the trial draws."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import numpy as np
import pytest
from survey_client import Server

import optrr
from optrr.allocation.sampled_tables import SampledTables
from optrr.core.domain.domain import Domain
from optrr_solvers.allocation.questions import SubsetReport
from tests.javascript import called, of_the_page
from tests.survey.test_page import (
    PHONE,
    STORED,
    begin,
    choose,
    go_on,
    opened,
    press,
    reports_of,
    serving,
    sideways,
    small_targets,
    visitor,
    wait_for,
)

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

# At this epsilon nothing is replaced by chance.
CERTAIN = 40.0
SCHOOL: dict[str, Any] = {
    "title": {"de": "Sicherheit", "en": "Safety", "ar": "الأمان"},
    "introduction": "Fünf Fragen",
    "thanks": {"de": "Danke, bis bald!", "en": "See you soon!"},
    "language": "de",
    "epsilon": CERTAIN,
    "attributes": [
        {
            "name": "theft",
            "question": {"de": "Ist dir etwas gestohlen worden?", "en": "Has something been stolen from you?"},
            "categories": ["yes-kwxq", "no-jzvp"],
            "labels": {"de": ["ja", "nein"], "en": ["yes", "no"], "ar": ["نعم", "لا"]},
        },
        {"name": "told", "categories": ["yes-ttbn", "no-vvbx", "not asked"], "ask_if": {"theft": ["yes-kwxq"]}},
        {"name": "whom", "categories": ["parents", "others", "not asked"], "ask_if": {"told": ["yes-ttbn"]}},
        {"name": "age", "bins": [10, 13, 16.5, 20], "missing": True},
        {"name": "way: bus", "multi_select": ["way", ";", "bus"]},
        {"name": "way: foot", "multi_select": ["way", ";", "foot"], "question": {"de": "zu Fuß", "en": "on foot"}},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(SCHOOL, tmp_path_factory.mktemp("school")) as running:
        yield running


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    with visitor(browser, server) as page:
        yield page


def heading(page: Any) -> str:
    return str(page.locator("#question").inner_text())


def progress(page: Any) -> str:
    return str(page.locator("#progress").inner_text())


def in_english(page: Any) -> None:
    page.get_by_role("button", name="English").click()
    page.locator("html[lang=en]").wait_for()


def last(page: Any) -> dict[str, Any]:
    """Finish with an age of 12 and no boxes; the report."""
    bodies = reports_of(page)
    choose(page, "12")
    go_on(page)
    press(page)
    wait_for(page, "Your report was sent")
    report: dict[str, Any] = json.loads(bodies[0])
    return report


WAYS = [
    ([0, 0, 1], ["1 of at most 5", "2 of at most 5", "3 of 5", "4 of 5"], ["yes-kwxq", "yes-ttbn", "others"]),
    ([0, 1], ["1 of at most 5", "2 of at most 5", "3 of 4"], ["yes-kwxq", "no-vvbx", "not asked"]),
    ([1], ["1 of at most 5", "2 of 3"], ["no-jzvp", "not asked", "not asked"]),
]


@pytest.mark.parametrize(("codes", "positions", "values"), WAYS)
def test_a_person_is_asked_only_what_applies(
    page: Any, codes: list[int], positions: list[str], values: list[str]
) -> None:
    in_english(page)
    begin(page)
    for code, position in zip(codes, positions, strict=False):
        assert progress(page) == f"Question {position}"
        assert page.get_by_label("not asked").count() == 0
        choose(page, code)
        go_on(page)
    assert progress(page) == f"Question {positions[-1]}"
    report = last(page)
    assert report["values"] == [*values, "[10, 13)", "no", "no"]
    # the category that was not asked is recorded like every other one
    assert page.locator(".cards > li").count() == len(SCHOOL["attributes"])


def test_an_answer_changed_later_takes_back_the_questions_that_hung_on_it(page: Any) -> None:
    in_english(page)
    begin(page)
    for code in (0, 0, 0):
        choose(page, code)
        go_on(page)
    for _ in range(3):
        page.get_by_role("button", name="Back").click()
    # the progress follows what is chosen
    assert progress(page) == "Question 1 of 5"
    choose(page, 1)
    assert progress(page) == "Question 1 of 3"
    go_on(page)
    assert heading(page) == "age"
    page.get_by_role("button", name="Back").click()
    assert page.get_by_label("no", exact=True).is_checked()
    go_on(page)
    assert last(page)["values"][:3] == ["no-jzvp", "not asked", "not asked"]


def test_the_last_button_is_there_as_soon_as_no_question_is_left(browser: Any, tmp_path: Path) -> None:
    with (
        serving({**SCHOOL, "attributes": SCHOOL["attributes"][:2]}, tmp_path / "two") as server,
        visitor(browser, server) as page,
    ):
        in_english(page)
        begin(page)
        submit = page.locator("form button[type=submit]")
        said = []
        for code in (0, 1):
            choose(page, code)
            said.append(submit.inner_text())
        assert said == ["Next", "Randomize my answers and send the result"]


def test_no_request_and_nothing_stored_shows_the_way(browser: Any, server: Server) -> None:
    """Whoever sees requests, addresses and the store before the report learns nothing of the branches."""
    seen = []
    for codes in ([0, 0, 1], [1]):
        with visitor(browser, server) as page:
            in_english(page)
            requests: list[str] = []
            page.on("request", lambda request, to=requests: to.append(f"{request.method} {request.url}"))
            begin(page)
            for code in codes:
                choose(page, code)
                go_on(page)
            choose(page, "12")
            go_on(page)
            before = page.evaluate(STORED)
            lengths = page.evaluate("history.length"), page.title()
            press(page)
            wait_for(page, "Your report was sent")
            seen.append((requests, before, lengths, page.evaluate("location.href")))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 1


def test_a_number_is_binned_on_the_device(page: Any) -> None:
    in_english(page)
    begin(page)
    choose(page, 1)
    go_on(page)
    assert page.get_by_text("such as “from 10 to below 13”. The number itself is not used.").is_visible()
    for typed, problem in (
        ("", "Please enter a number."),
        ("abc", "Please enter a number."),
        ("9.99", "Please enter a number in this range: from 10 to below 20."),
        ("20", "Please enter a number in this range: from 10 to below 20."),
    ):
        page.locator("form input[type=text]").fill(typed)
        go_on(page)
        field = page.locator("form input[type=text]:focus")
        assert field.get_attribute("aria-invalid") == "true"
        assert page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text() == problem
        assert not browsers.faults(page, 5)
    page.get_by_label("I prefer not to say").check()
    assert page.locator("form input[type=text]").input_value() == ""
    page.locator("form input[type=text]").fill("16,5")
    assert not page.get_by_label("I prefer not to say").is_checked()
    bodies = reports_of(page)
    go_on(page)
    press(page)
    wait_for(page, "Your report was sent")
    assert json.loads(bodies[0])["values"][3] == "[16.5, 20)"
    assert "16,5" not in bodies[0]
    assert page.locator(".cards > li").nth(3).locator("dd").all_inner_texts() == ["from 16.5 to below 20"] * 2


def test_bins_of_the_page_are_those_of_the_design(tmp_path: Path) -> None:
    tasks: list[Any] = []
    wanted: list[Any] = []
    rng = np.random.default_rng(3)
    infinite = float("inf")
    for _ in range(40):
        edges = sorted({float(x) for x in rng.integers(-20, 20, 6) / 2})
        edges = [-infinite, *edges] if rng.random() < 0.5 else edges
        edges = [*edges, infinite] if rng.random() < 0.5 else edges
        if len(edges) < 3:
            continue
        for closed in ("left", "right"):
            bins = optrr.Bins(tuple(edges), closed)  # type: ignore[arg-type]
            values = np.concatenate([np.array([e for e in edges if math.isfinite(e)]), rng.integers(-25, 25, 30) / 4])
            form = {"edges": [None if math.isinf(e) else e for e in edges], "closed": closed}
            tasks.append({**form, "values": values.tolist()})
            wanted.append(bins.codes(values).tolist())
    module = tmp_path / "bins.mjs"
    code = f"import {{ binOf }} from {json.dumps(of_the_page('path.js').as_uri())};"
    module.write_text(f"{code} export const bins = (x) => x.values.map((value) => binOf(x, value) ?? -1);")
    assert called(module, "bins", tasks) == wanted


def test_the_language_is_switched_without_losing_an_answer(browser: Any, server: Server) -> None:
    with visitor(browser, server) as page:
        html = page.locator("html")
        # the browser speaks English, which comes second in the survey
        assert (html.get_attribute("lang"), html.get_attribute("dir")) == ("en", "ltr")
        assert page.locator("h1").inner_text() == "Safety"
        # the introduction is in German only
        assert page.locator("#introduction [lang=de]").inner_text() == "Fünf Fragen"
        begin(page)
        choose(page, 0)
        arabic = page.get_by_role("button", name="العربية")
        arabic.click()
        page.locator("html[lang=ar][dir=rtl]").wait_for()
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
        assert page.locator("h1").inner_text() == "الأمان"
        # a question without Arabic text is read in German
        assert page.locator("#question[lang=de]").inner_text() == "Ist dir etwas gestohlen worden?"
        assert page.get_by_label("نعم").is_checked()
        page.get_by_role("button", name="Deutsch").click()
        page.locator("html[lang=de][dir=ltr]").wait_for()
        assert page.get_by_label("ja").is_checked()
        in_english(page)
        go_on(page)
        choose(page, 1)
        go_on(page)
        assert last(page)["values"][:2] == ["yes-kwxq", "no-vvbx"]
        page.get_by_text("See you soon!").wait_for()
        page.get_by_role("button", name="Deutsch").click()
        page.get_by_text("Danke, bis bald!").wait_for()
        assert page.locator(".cards dd").all_inner_texts()[:2] == ["ja", "ja"]
        # the language is not stored, either
        assert "Deutsch" not in page.evaluate(STORED) and '"de"' not in page.evaluate(STORED)


def test_a_number_stays_the_same_in_another_language(browser: Any, server: Server) -> None:
    with visitor(browser, server) as page:
        begin(page)
        choose(page, 1)
        go_on(page)
        choose(page, "13.125")
        for language, written in (("Deutsch", "13,125"), ("العربية", "13.125"), ("Deutsch", "13,125")):
            page.get_by_role("button", name=language).click()
            page.locator("#languages [aria-pressed=true]", has_text=language).wait_for()
            assert page.locator("form input[type=text]").input_value() == written
        choose(page, "x")
        in_english(page)
        assert page.locator("form input[type=text]").input_value() == "x"
        choose(page, "13.125")
        go_on(page)
        # the page is another one now
        page.get_by_role("button", name="Deutsch").click()
        page.locator("html[lang=de]").wait_for()
        bodies = reports_of(page)
        in_english(page)
        press(page)
        wait_for(page, "Your report was sent")
        assert json.loads(bodies[0])["values"][3] == "[13, 16.5)"


def test_without_scripts_every_language_says_what_is_needed(server: Server) -> None:
    said = server.get("/").decode().split("<noscript>")[1].split("</noscript>")[0]
    assert re.findall(r'lang="(\w+)" dir="(\w+)"', said) == [("de", "ltr"), ("en", "ltr"), ("ar", "rtl")]
    assert "JavaScript, which is switched off" in said


def test_a_language_that_cannot_be_loaded_changes_nothing(page: Any) -> None:
    page.route("**/words-ar.json", lambda route: route.abort())
    page.reload()
    page.get_by_role("button", name="العربية").click()
    page.get_by_text("The server of the survey cannot be reached").wait_for()
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("form").is_visible()


def test_a_survey_goes_on_without_a_network_in_every_language(page: Any) -> None:
    begin(page)
    page.context.set_offline(True)
    choose(page, 1)
    page.get_by_role("button", name="Deutsch").click()
    page.locator("html[lang=de]").wait_for()
    assert page.get_by_label("nein").is_checked()
    in_english(page)
    go_on(page)
    choose(page, "12")
    go_on(page)
    press(page)
    wait_for(page, "Your report has not been sent yet")
    page.context.set_offline(False)
    wait_for(page, "Your report was sent")


def test_the_numbers_of_the_promise_are_those_of_every_language(browser: Any, server: Server) -> None:
    with visitor(browser, server) as page:
        said = []
        for button in page.locator("#languages button").all_inner_texts():
            page.get_by_role("button", name=button, exact=True).click()
            page.locator("#languages [aria-pressed=true]", has_text=button).wait_for()
            text = " ".join(page.locator(".notice p").all_text_contents())
            said.append(sorted(re.findall(r"\d+", re.sub(r"(?<=\d)[.,](?=\d)", "", text))))
        assert len(said) == 3
        assert said[0] == said[1] == said[2]


@pytest.mark.parametrize(("locale", "scheme"), [("de", "light"), ("ar", "dark"), ("ja", "light")])
def test_every_view_fits_and_is_accessible_in_every_direction(
    browser: Any, server: Server, locale: str, scheme: str
) -> None:
    """A survey in German and Arabic; in Japanese it is read in German."""
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{server.port}", viewport=PHONE, locale=locale, color_scheme=scheme
    )
    page = opened(context)

    def look() -> None:
        assert not sideways(page) and not small_targets(page)
        assert not browsers.faults(page, 5)

    assert page.locator("html").get_attribute("lang") == {"ja": "de"}.get(locale, locale)
    page.locator(".trial button").click()
    page.locator("summary").click()
    look()
    page.locator("#consent").check()
    next_page = page.locator("form button.main")
    next_page.click()
    for code in (0, 0, 0, "12"):
        page.locator("#question").wait_for()
        next_page.click()
        page.locator(".mistake:visible").wait_for()
        look()
        choose(page, code)
        next_page.click()
    page.locator("input[type=checkbox]").first.check()
    look()
    next_page.click()
    # the last view, after that of sending
    page.locator(".thanks").wait_for()
    page.locator("summary").click()
    look()
    context.close()


def test_the_trial_draws_as_the_report_is_drawn_and_sends_nothing(browser: Any, tmp_path: Path) -> None:
    spec = {**SCHOOL, "epsilon": 1.0, "language": "en", "attributes": SCHOOL["attributes"][:1]}
    with serving(spec, tmp_path / "trial") as server, visitor(browser, server) as page:
        before = page.evaluate(STORED)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        assert page.get_by_text("This is a trial: nothing is sent or stored.").is_visible()
        page.evaluate("for (let k = 0; k < 2000; k++) document.querySelector('.trial button').click()")
        assert page.get_by_text("2,000 tries so far").is_visible()
        counts = dict(x.split(": ") for x in page.locator(".trial li").all_inner_texts())
        assert sum(int(x.replace(",", "")) for x in counts.values()) == 2000
        changed = int(counts["no"])
        # 1/(1 + e) of 2000; five standard errors: false alarms less than once in a million runs
        assert abs(changed - 2000 / (1 + math.e)) < 5 * math.sqrt(2000 * 0.269 * 0.731)
        page.locator("#trial-0").select_option("1")
        assert page.locator(".trial li").count() == 0
        assert not requests and page.evaluate(STORED) == before


def test_a_query_of_a_conditional_attribute_asks_what_it_depends_on(browser: Any, tmp_path: Path) -> None:
    domain = Domain.of({"theft": ["yes", "no"], "told": ["not asked", "yes", "no"], "color": ["red", "blue"]})
    asking = SampledTables(domain, (("told",),), np.array([1.0]), 1.0, (SubsetReport((1,)),))
    design, wording = tmp_path / "asked.json", tmp_path / "wording.json"
    optrr.save(asking, design)
    attributes: list[dict[str, Any]] = [{"name": a.name, "categories": list(a.categories)} for a in domain]
    attributes[1]["ask_if"] = {"theft": ["yes"]}
    wording.write_text(json.dumps({"title": "Safety", "attributes": attributes}))
    running = Server(design, "--wording", str(wording), "--database", str(tmp_path / "r.db"))
    for answers, own in (([0, 2], "no"), ([1], "Not asked")):
        with visitor(browser, running) as page:
            bodies = reports_of(page)
            # the example is an answer that can be chosen
            assert "“yes”" in page.locator("p.example").first.inner_text()
            begin(page)
            assert heading(page) == "theft"
            assert page.get_by_text("This answer is not sent. It only decides what you are asked next.").is_visible()
            for k, code in enumerate(answers):
                choose(page, code)
                if k + 1 < len(answers):
                    go_on(page)
            press(page)
            wait_for(page, "Your report was sent")
            assert list(json.loads(bodies[0])) == ["format", "design", "id", "table", "cells", "wording"]
            assert page.locator(".cards > li").count() == 1
            assert page.locator(".cards dd").first.inner_text() == own
    assert running.stop() == 0
