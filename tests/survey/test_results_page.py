"""The results in a real Chromium: the token admits, charts show under the page's own policy, and everybody can use it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import numpy as np
import pytest
from survey_client import Server

from optrr.core.design.design_file import load_design

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from optrr.survey.store import Report, Store, database_url, open_database
from optrr.survey.stored_records import Packing

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

SPECIFICATION = """
title = {en = "Health and work", ar = "الصحة والعمل"}
epsilon = 1.0
[[attributes]]
name = "sick days"
question = "How many days were you ill?"
categories = ["none", "1 to 5", "more"]
[[attributes]]
name = "smokes"
question = "Do you smoke?"
categories = ["yes", "no"]
"""


# A row of a chart: its label, the estimate and its interval.
INTERVAL = r"[\w ]+\s+[\d.]+ % \([\d.]+ to [\d.]+ %\)\s*"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    source = tmp_path_factory.mktemp("results") / "questions.toml"
    source.write_text(SPECIFICATION)
    running = Server(source)
    fill(source)
    yield running
    assert running.stop() == 0
    *others, last = running.log.read_text().splitlines()
    assert last == "stopped; every acknowledged report is kept"
    # texts are missing in some languages
    assert all(line.startswith("warning: respondents who read ") or "machine drafts" in line for line in others)


def fill(source: Path) -> None:
    made = load_design(source.with_name("questions.design.json"))
    rng = np.random.default_rng(0)
    codes = made.mechanism.randomize_codes(rng.integers(0, made.domain.sizes, (500, 2)), 0)
    packing = Packing(made.domain)
    engine = open_database(database_url(str(source.with_name("questions.db"))), lasting=False)
    Store(engine).add([Report(rng.bytes(16), packing.pack(row)) for row in codes.tolist()])


def test_results_in_a_browser(browser: Any, server: Server) -> None:
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{server.port}", bypass_csp=False, viewport={"width": 360, "height": 740}
    )
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/results")
    # by keyboard alone: the label leads to the field, Enter sends it
    page.get_by_label("Token").focus()
    page.keyboard.type("not the token")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    complaints.clear()  # the browser notes that the answer was 403
    page.get_by_label("Token").focus()
    page.keyboard.type(server.token)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="How many days were you ill?").wait_for()
    rows = page.get_by_role("list").filter(has_text="none").get_by_role("listitem")
    assert [bool(re.fullmatch(INTERVAL, text)) for text in rows.all_inner_texts()] == [True] * 3
    page.locator("summary").first.click()
    heads = page.get_by_role("table").first.get_by_role("columnheader").all_inner_texts()
    assert heads == ["Answer", "Estimate", "95 % interval", "Standard error (points)", "Randomized reports"]
    page.get_by_role("checkbox", name="How many days were you ill?").check()
    page.get_by_role("checkbox", name="Do you smoke?").check()
    page.get_by_role("button", name="Show the table").click()
    page.get_by_role("heading", name="How many days were you ill? × Do you smoke?").wait_for()
    assert page.get_by_text("500 reports").count() == 1
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert Path(download.value.path()).read_text().startswith('"sick days","smokes","count"')
    page.get_by_role("button", name="Leave").click()
    page.get_by_label("Token").wait_for()
    assert complaints == []
    assert all(server.token not in url and url.startswith(f"http://127.0.0.1:{server.port}/") for url in asked)


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_results_are_accessible_narrow_and_wide_light_and_dark(width: int, browser: Any, server: Server) -> None:
    # the checker is a script, which the page's policy would not let run
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{server.port}", bypass_csp=True, viewport={"width": width, "height": 740}
    )
    page = context.new_page()
    page.goto("/results")
    for _ in range(2):
        assert not browsers.faults(page, least=10)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        if page.get_by_label("Token").count():
            page.get_by_label("Token").fill(server.token)
            page.get_by_role("button").click()
            page.get_by_role("heading", name="Do you smoke?").wait_for()
            page.locator("summary").first.click()
    for language in ("en", "ar"):
        page.set_content(page.request.get(f"/results/published.html?language={language}").text())
        assert not browsers.faults(page, least=10)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
        place = page.locator(".point").first.bounding_box()
        track = page.locator(".track").first.bounding_box()
        assert place is not None
        assert track is not None
        share = int(re.findall(r"\d+", page.locator(".numbers").first.inner_text())[0]) / 100
        across = (place["x"] + place["width"] / 2 - track["x"]) / track["width"]
        assert abs(across - (1 - share if language == "ar" else share)) < 0.02
    context.close()
