"""The page of a survey that asks one question of several, in a real Chromium: what is drawn, shown, kept and sent."""

import io
import json
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import browsers
import numpy as np
import pytest
import vectors
from survey_client import Server

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.core.domain.domain import Domain
from optrr_solvers.allocation.questions import SubsetReport
from tests.survey import test_page
from tests.survey.test_questions import DOMAIN, QUESTIONS, REPORTS, TABLES, asking, files

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

CLIENT = vectors.load_script(vectors.CLIENTS / "python" / "optrr_client.py")
# Codes that the person enters.
TRUTH = {"travel": 1, "ill": 2, "age": 4, "<i>smokes</i>": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("questions")
    design, wording = files(folder, asking())
    running = Server(design, "--wording", str(wording), "--database", str(folder / "reports.db"))
    running.database = folder / "reports.db"  # type: ignore[attr-defined]
    test_page.answering(running)
    yield running
    assert running.stop() == 0


def stream_for(table: int, seed: int = 1) -> bytes:
    """Bytes of which the first eight ask this one of four tables with equal shares."""
    return ((table - 1) << 62).to_bytes(8, "big") + np.random.default_rng(seed).bytes(2000)


def shown(page: Any) -> list[str]:
    """The questions that the start page explains, in their order."""
    return page.locator("details strong").all_text_contents()


def texts(table: int) -> list[str]:
    return [QUESTIONS.get(name, name) for name in TABLES[table - 1]]


def fill_in(page: Any, table: int) -> None:
    """Consent, and answer; questions stand in the order of the design."""
    names = [name for name in DOMAIN.names if name in TABLES[table - 1]]
    test_page.fill_in(page, {name: TRUTH[name] for name in names})


def matches(server: Server, table: int) -> list[float]:
    """How often each list holds the person's answer, by the weights of all patterns."""
    question = json.loads(server.get("/sampler.json"))["questions"][table - 1]
    sizes = [DOMAIN.sizes[i] for i in question["attributes"]]
    chosen = question["subset_sizes"]
    parts = sizes if len(chosen) == len(sizes) else [math.prod(int(r) for r in sizes)]
    weights = {
        pattern: math.prod(k if pattern >> i & 1 else r - k for i, (k, r) in enumerate(zip(chosen, parts, strict=True)))
        for pattern in range(2 ** len(parts))
    }
    unlikely = Fraction(int(question["threshold"], 16), 16 ** len(question["threshold"]))
    kinds = {True: 1 - unlikely, False: unlikely}
    totals = {kind: sum(int(w) for p, w in weights.items() if (p in question["likely"]) is kind) for kind in kinds}
    chance = {p: kinds[p in question["likely"]] * int(w) / totals[p in question["likely"]] for p, w in weights.items()}
    return [float(sum(c for p, c in chance.items() if p >> i & 1)) for i in range(len(parts))]


def word(name: str, code: int) -> str:
    return DOMAIN[name].texts[code] or "I prefer not to say"


@pytest.mark.parametrize("table", range(1, 5))
def test_a_person_is_told_what_the_question_reveals(browser, server, table):
    names = TABLES[table - 1]
    with test_page.visitor(browser, server, stream=stream_for(table)) as page:
        page.locator("summary").click()
        for width in (1280, *([] if test_page.sideways(page) else [360])):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not test_page.sideways(page)
        notice = page.locator(".notice").inner_text()
        few = "Your device sends a few possible answers. Chance decides whether your own is among them."
        one = "Your device changes some of your answers by chance, and sends only the result."
        assert (one if table == 1 else few) in notice
        counts = [f"You are asked {len(names)} of the 4 questions"] if table < 4 else []
        assert re.findall(r"You are asked \d of the 4 questions", notice) == counts
        lists = page.locator("details li").all_inner_texts()
        sizes = REPORTS[table - 1].subset_sizes
        parts = REPORTS[table - 1].parts([DOMAIN[name].size for name in names])
        held = [round(100 * match) for match in matches(server, table)]
        for said, k, r, match in zip(lists, sizes, parts, held, strict=True):
            assert f"Your device sends {k} of {r} possible answers. For {match} of 100 people, their own" in said
        first = f"{held[0]} send answers that include it" if sizes[0] > 1 else f"{100 - held[0]} are recorded"
        assert first in page.locator(".example").inner_text()


@pytest.mark.parametrize("table", range(1, 5))
def test_a_person_is_asked_one_question_and_sends_what_the_python_client_would(browser, server, table):
    stream = stream_for(table)
    names = TABLES[table - 1]
    with test_page.visitor(browser, server, stream=stream) as page:
        bodies = test_page.reports_of(page)
        assert shown(page) == texts(table)
        fill_in(page, table)
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        assert not test_page.sideways(page)
        (body,) = bodies
        report = json.loads(body)
        assert list(report) == ["format", "design", "id", "table", "cells", "wording"]
        # as docs/survey.md, §8, says
        assert len(body) <= 77 + questions_of(asking()).most_report_bytes
        sampler = CLIENT.Sampler(server.get("/sampler.json"))
        codes = [TRUTH.get(name, 0) for name in DOMAIN.names]
        source = io.BytesIO(stream)
        answer = sampler.draw(codes, source.read)
        assert {"table": report["table"], "cells": report["cells"]} == answer
        # the identifier is what comes next; as JSON it is the Python client's report, to the byte
        own = {"format": "optrr-report/1", "design": sampler.design, "id": source.read(16).hex(), **answer}
        assert body == json.dumps({**own, "wording": report["wording"]}, separators=(",", ":"))
        assert report["id"] in test_page.kept_by(server)
        subsets = [[int(x) for x in part.split(" ")] for part in answer["cells"].split("|")]
        cards = page.locator(".cards > li").all()
        about = [[name] for name in names] if len(cards) == len(names) else [list(names)]
        for card, members, group in zip(cards, subsets, about, strict=True):
            shape = [DOMAIN[name].size for name in group]
            named = [np.unravel_index(member, shape) for member in members]
            inside = [" · ".join(word(n, int(c)) for n, c in zip(group, cell, strict=True)) for cell in named]
            own_words = " · ".join(word(name, TRUTH[name]) for name in group)
            assert card.locator("dd li").all_inner_texts() == inside
            assert card.locator("dd").first.inner_text() == own_words
            verdict = "Your answer is among them." if own_words in inside else "Your answer is not among them."
            assert card.locator(".verdict").inner_text().startswith(verdict)


def test_a_reload_another_window_and_a_later_visit_ask_the_same_question(browser, server, tmp_path):
    asked = set()
    for _person in range(6):
        with test_page.visitor(browser, server) as page:
            first = shown(page)
            for _ in range(5):
                page.reload()
                page.wait_for_selector("form")
                assert shown(page) == first
            other = test_page.opened(page.context)
            assert shown(other) == first
            asked.add(tuple(first))
    # six people are asked the same one of four questions once in a thousand runs
    assert len(asked) > 1
    options = {"viewport": test_page.PHONE, "base_url": f"http://127.0.0.1:{server.port}"}
    seen = []
    for _ in range(3):
        with browsers.at_home(browser, tmp_path / "home", **options) as context:
            seen.append(shown(test_page.opened(context)))
    assert seen[0] == seen[1] == seen[2]


def test_windows_opened_at_once_draw_one_question(browser, server):
    with test_page.visitor(browser, server, stream=stream_for(1)) as page:
        many = """
        async () => {
          const { memoryOf } = await import("./memory.js");
          const { readDeployment } = await import("./optrr.js");
          const deployment = await readDeployment(await (await fetch("sampler.json")).arrayBuffer());
          const wording = { digest: "0".repeat(64) };
          return Promise.all(Array.from({ length: 50 }, () => memoryOf(deployment, wording).asked()));
        }
        """
        assert len(set(page.evaluate(many))) == 1


NOTED_BEFORE = """
async () => {
  const { browserStore } = await import("./browser-store.js");
  return [await browserStore("optrr-asked").all(), await browserStore().all()];
}
"""


def test_nothing_stored_holds_an_answer_and_only_the_question_is_stored_before(browser, server):
    with test_page.visitor(browser, server, stream=stream_for(4)) as page:
        bodies = test_page.reports_of(page)
        assert page.evaluate(NOTED_BEFORE) == [[4], []]
        assert page.get_by_text("this browser stores only which questions chance picked for you").is_visible()
        fill_in(page, 4)
        assert page.evaluate(NOTED_BEFORE) == [[4], []]
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        epsilon = json.loads(server.get("/sampler.json"))["epsilon"]["total"]
        assert page.evaluate(NOTED_BEFORE) == [
            [4],
            [{"epsilon": epsilon, "report": json.loads(bodies[0]), "delivered": True}],
        ]
        stored = page.evaluate(test_page.STORED)
        page.reload()
        test_page.wait_for(page, "Your report was sent")
        assert page.get_by_text("You have answered before in this browser").is_visible()
        assert page.get_by_text("You answered", exact=True).count() == 0
    assert len(bodies) == 1
    for name, code in TRUTH.items():
        assert word(name, code) not in stored and word(name, code) not in bodies[0]


@pytest.mark.parametrize("noted", [0, 5, -1, 1.5, "2", {"table": 1}, None])
def test_where_the_note_of_the_question_cannot_be_read_nothing_is_asked(browser, server, noted):
    with test_page.visitor(browser, server) as page:
        page.evaluate(test_page.CHANGED.replace('"optrr"', '"optrr-asked"'), noted)
        page.reload()
        if noted is None:  # nothing was noted
            page.wait_for_selector("form")
            return
        test_page.wait_for(page, "We cannot tell if you have answered")
        assert page.locator("form, input").count() == 0


@pytest.mark.parametrize(
    "change", [{"table": 5}, {"cells": "0 1"}, {"table": 2}, {"cells": None}, {"values": ["x"], "table": None}]
)
def test_where_the_report_cannot_be_one_nothing_is_asked_or_sent(browser, server, change):
    with test_page.visitor(browser, server, stream=stream_for(1)) as page:
        bodies = test_page.reports_of(page)
        fill_in(page, 1)
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        report = json.loads(bodies.pop())
        page.evaluate(test_page.CHANGED, {"epsilon": "1.000000000000000", "report": report | change})
        page.reload()
        test_page.wait_for(page, "We cannot tell if you have answered")
        assert page.locator("form, input").count() == 0
        assert not bodies


def test_a_window_whose_question_was_deleted_shows_the_report_that_was_made_since(browser, server):
    """Its own question is another one; the report says which one was answered."""
    deleted = "() => new Promise((resolve) => (indexedDB.deleteDatabase('optrr-asked').onsuccess = resolve))"
    with test_page.visitor(browser, server, stream=stream_for(1)) as page:
        page.evaluate(deleted)
        # this window does not hear of the other one
        page.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
        page.context.add_init_script("BroadcastChannel.prototype.postMessage = () => {};")
        page.context.add_init_script(test_page.FIXED.replace("STREAM", json.dumps(list(stream_for(2, seed=2)))))
        other = test_page.opened(page.context)
        assert [shown(page), shown(other)] == [texts(1), texts(2)]
        bodies = [test_page.reports_of(page), test_page.reports_of(other)]
        fill_in(other, 2)
        test_page.press(other)
        test_page.wait_for(other, "Your report was sent")
        fill_in(page, 1)
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        assert [len(each) for each in bodies] == [0, 1]
        assert page.locator(".cards h4").all_inner_texts() == texts(2)
        assert page.get_by_text("the answers you entered now were not used").is_visible()


@pytest.mark.parametrize("table", [2, 3])
def test_an_accessibility_checker_finds_nothing(browser, server, table):
    with test_page.visitor(browser, server, stream=stream_for(table)) as page:
        page.locator("summary").click()
        assert not browsers.faults(page)
        fill_in(page, table)
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        page.locator("summary").click()
        assert not browsers.faults(page)


def test_one_question_for_everybody_with_a_long_list(browser, tmp_path):
    domain = Domain.of({"town": 200, "unused": 2})
    design, wording = files(tmp_path, SampledTables(domain, (("town",),), np.array([1.0]), 1.0, (SubsetReport((90,)),)))
    server = Server(design, "--wording", str(wording), "--database", str(tmp_path / "r.db"))
    server.database = tmp_path / "r.db"  # type: ignore[attr-defined]
    test_page.answering(server)
    with test_page.visitor(browser, server) as page:
        bodies = test_page.reports_of(page)
        assert "Your device sends a few possible answers." in page.locator(".notice").inner_text()
        assert "You are asked" not in page.locator(".notice").inner_text()
        # nothing had to be drawn before
        assert page.get_by_text("Nothing is sent or stored before you press the last button.").is_visible()
        assert page.evaluate(NOTED_BEFORE) == [[], []]
        test_page.begin(page)
        test_page.choose(page, 17)
        test_page.press(page)
        test_page.wait_for(page, "Your report was sent")
        assert not test_page.sideways(page)
        report = json.loads(bodies[0])
        listed = page.locator(".cards dd li").all_inner_texts()
        assert listed[:-1] == report["cells"].split(" ")[:40]
        assert listed[-1] == "and 50 more, under “The exact report” below"
        is_listed = "17" in report["cells"].split(" ")
        assert (
            page.locator(".verdict").inner_text().startswith(f"Your answer is {'' if is_listed else 'not '}among them.")
        )
        assert report["id"] in test_page.kept_by(server)
    assert server.stop() == 0
