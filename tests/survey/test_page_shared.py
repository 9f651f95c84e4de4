"""Shared devices and personal links in a real Chromium: what stays of a person, and what a link is good for."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from survey_client import Server, free_port

from tests.survey.test_page import (
    PHONE,
    STORED,
    answering,
    begin,
    choose,
    go_on,
    kept_by,
    press,
    reports_of,
    visitor,
    wait_for,
)

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

CLASS: dict[str, Any] = {
    "title": "Safety",
    "thanks": "See you soon!",
    # at this epsilon nothing is replaced by chance
    "epsilon": 40.0,
    "attributes": [
        {"name": "theft", "question": "Has something been stolen from you?", "categories": ["yes-kwxq", "no-jzvp"]},
        {"name": "told", "categories": ["yes-ttbn", "no-vvbx", "not asked"], "ask_if": {"theft": ["yes-kwxq"]}},
    ],
}


def serving(folder: Path, *options: str) -> Server:
    spec = folder / "survey.json"
    spec.write_text(json.dumps(CLASS), encoding="utf-8")
    running = Server(spec, "--database", f"sqlite:///{folder / 'reports.db'}", *options, port=free_port())
    running.database = folder / "reports.db"  # type: ignore[attr-defined]
    answering(running)
    return running


@pytest.fixture(scope="module")
def kiosk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = serving(tmp_path_factory.mktemp("kiosk"), "--kiosk")
    yield running
    assert running.stop() == 0


@pytest.fixture
def page(browser: Any, kiosk: Server) -> Iterator[Any]:
    with visitor(browser, kiosk) as page:
        yield page


def answer(page: Any, *codes: int) -> None:
    begin(page)
    for k, code in enumerate(codes):
        if k:
            go_on(page)
        choose(page, code)
    press(page)
    page.locator("#outcome").wait_for()


def next_person(page: Any) -> None:
    page.get_by_role("button", name="Next person").click()
    page.get_by_role("button", name="Start", exact=True).wait_for()


def nothing_stays(page: Any) -> None:
    """The start page, without a trace of the last person, and an empty store."""
    assert not page.get_by_label("I have read how my answers are protected").is_checked()
    assert page.get_by_text("You have answered before").count() == 0
    text = page.evaluate("document.documentElement.outerHTML")
    assert '"values"' not in text and "optrr-report" not in text
    assert "kwxq" not in page.evaluate(STORED) and "jzvp" not in page.evaluate(STORED)


def test_thirty_people_answer_on_one_device_and_nothing_of_them_stays(page: Any, kiosk: Server) -> None:
    before = kept_by(kiosk)
    bodies = reports_of(page)
    for k in range(30):
        nothing_stays(page)
        assert page.get_by_text("The next person sees nothing of yours").count() == 1
        assert page.get_by_text("If nobody touches this device for 3 minutes, this page starts over.").is_visible()
        answer(page, *((0, k % 2) if k % 3 else (1,)))
        wait_for(page, "Your report was sent")
        assert page.get_by_text("See you soon!").is_visible()
        # nothing of the report is on the screen, unless the person wants to see it
        assert page.locator(".cards").count() == 0
        next_person(page)
    nothing_stays(page)
    reports = [json.loads(body) for body in bodies]
    assert [report["values"][0] for report in reports] == [["no-jzvp", "yes-kwxq"][bool(k % 3)] for k in range(30)]
    assert kept_by(kiosk) - before == {report["id"] for report in reports}
    page.reload()
    page.wait_for_selector("form")
    nothing_stays(page)


def test_a_person_can_look_at_the_record_until_the_next_one_comes(page: Any) -> None:
    answer(page, 1)
    page.get_by_role("button", name="Show what was recorded").click()
    assert page.locator(".cards dd").all_inner_texts() == ["no-jzvp", "no-jzvp", "Not asked", "Not asked"]
    assert not browsers.faults(page)
    next_person(page)
    nothing_stays(page)


def test_a_device_that_nobody_touches_gets_ready_for_the_next_person(page: Any) -> None:
    page.clock.install()
    answer(page, 1)
    wait_for(page, "Your report was sent")
    page.clock.run_for(29_000)
    assert page.get_by_role("button", name="Next person").is_visible()
    page.clock.run_for(2_000)
    page.get_by_role("button", name="Start", exact=True).wait_for()
    nothing_stays(page)
    # and so does one that was left with an open question
    begin(page)
    choose(page, 0)
    page.clock.run_for(179_000)
    assert page.locator("#question").is_visible()
    page.clock.run_for(2_000)
    page.get_by_role("button", name="Start", exact=True).wait_for()
    begin(page)
    assert page.locator("input:checked").count() == 0


def test_the_start_is_not_drawn_again_while_the_next_person_reads_it(page: Any) -> None:
    page.clock.install()
    answer(page, 1)
    wait_for(page, "Your report was sent")
    next_person(page)
    page.locator("form").evaluate("form => { form.id = 'read'; }")
    page.clock.run_for(100_000)
    assert page.locator("form#read").is_visible()


def test_whoever_comes_in_between_can_start_over(page: Any) -> None:
    begin(page)
    choose(page, 0)
    page.get_by_role("button", name="Start over for the next person").click()
    page.get_by_role("button", name="Start", exact=True).wait_for()
    begin(page)
    assert page.locator("input:checked").count() == 0


def test_a_device_that_is_left_for_another_page_shows_nothing_of_the_last_person(page: Any) -> None:
    begin(page)
    choose(page, 0)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    assert page.locator("#content").inner_text() == ""
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.get_by_role("button", name="Start", exact=True).wait_for()
    nothing_stays(page)


def test_reports_wait_on_a_device_without_a_network_and_leave_it_later(page: Any, kiosk: Server) -> None:
    before = kept_by(kiosk)
    page.context.set_offline(True)
    for k in range(3):
        answer(page, 1)
        wait_for(page, "Your report has not been sent yet")
        assert page.get_by_text("sends it later. You do not need to wait.").is_visible()
        next_person(page)
        waiting = "1 report waits" if k == 0 else f"{k + 1} reports wait"
        assert page.get_by_text(f"{waiting} on this device").is_visible()
    stored = page.evaluate(STORED)
    # randomized reports only
    assert stored.count("optrr-report/1") == 3 and kept_by(kiosk) == before
    page.context.set_offline(False)
    for _ in range(100):
        if len(kept_by(kiosk) - before) == 3:
            break
        page.wait_for_timeout(100)
    assert len(kept_by(kiosk) - before) == 3
    page.reload()
    page.wait_for_selector("form")
    nothing_stays(page)


def test_a_report_that_is_refused_holds_up_no_other_one_and_another_surveys_stays(page: Any, kiosk: Server) -> None:
    before = kept_by(kiosk)
    page.context.set_offline(True)
    for _ in range(4):
        answer(page, 1)
        wait_for(page, "Your report has not been sent yet")
        next_person(page)
    # the first two in the order in which they are sent: a refused one, and one of another survey
    first, second = page.evaluate(IN_THE_OUTBOX)
    assert page.get_by_text("4 reports wait on this device").is_visible()
    page.route("**/reports", lambda route: refuse(route, first))
    page.context.set_offline(False)
    page.reload()
    page.get_by_text("3 reports wait on this device").wait_for()
    for _ in range(100):
        if len(kept_by(kiosk) - before) == 2:
            break
        page.wait_for_timeout(100)
    assert len(kept_by(kiosk) - before) == 2 and not {first, second} & kept_by(kiosk)
    stored = page.evaluate(STORED)
    assert stored.count("optrr-report/1") == 2 and first in stored and second in stored


def refuse(route: Any, identifier: str) -> None:
    assert "another-survey" not in route.request.post_data
    if identifier in route.request.post_data:
        route.fulfill(json={"error": "no"}, status=422)
    else:
        route.continue_()


# Makes the second report one of another survey; gives the identifiers of the first two.
IN_THE_OUTBOX = """
async () => {
  const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
  const database = await done(indexedDB.open("optrr-outbox"));
  const answers = database.transaction("answers", "readwrite").objectStore("answers");
  const [first, second] = await done(answers.getAll());
  await done(answers.put({ ...second, wording: "another-survey" }, second.id));
  database.close();
  return [first.id, second.id];
}
"""


def test_a_device_that_slept_shows_nothing_of_the_last_person(page: Any) -> None:
    answer(page, 1)
    wait_for(page, "Your report was sent")
    page.get_by_role("button", name="Show what was recorded").click()
    # timers stand still while a device sleeps, and clocks do not
    page.evaluate("const now = Date.now; Date.now = () => now() + 600_000;")
    page.get_by_role("button", name="Start", exact=True).wait_for(timeout=15_000)
    nothing_stays(page)


@pytest.fixture(scope="module")
def invited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = serving(tmp_path_factory.mktemp("invited"), "--invite", "40")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def links(invited: Server) -> Iterator[str]:
    (file,) = Path(invited.database).parent.glob("*.links.txt")  # type: ignore[attr-defined]
    found = re.findall(r"#i=\S+", file.read_text())
    assert len(found) == 40
    return iter(found)


def visit(context: Any, link: str) -> Any:
    page = context.new_page()
    page.goto(f"/{link}")
    page.wait_for_selector("form, #outcome, .notice h2")
    return page


def requests_of(source: Any) -> tuple[list[str], list[tuple[str, Any]]]:
    """Addresses of all requests from now on, and the last part of the path and the content of those that send something."""
    addresses: list[str] = []
    sent: list[tuple[str, Any]] = []

    def noted(request: Any) -> None:
        addresses.append(request.url)
        if request.method == "POST":
            sent.append((request.url.rsplit("/", 1)[1], json.loads(request.post_data)))

    source.on("request", noted)
    return addresses, sent


@pytest.fixture
def home(browser: Any, invited: Server) -> Iterator[Any]:
    context = browser.new_context(viewport=PHONE, base_url=f"http://127.0.0.1:{invited.port}")
    yield context
    context.close()


def test_a_link_sends_one_report_that_does_not_hold_it(home: Any, invited: Server, links: Iterator[str]) -> None:
    link = next(links)
    before = kept_by(invited)
    token = link.removeprefix("#i=")
    addresses, requests = requests_of(home)
    page = visit(home, link)
    assert page.evaluate("location.href") == f"http://127.0.0.1:{invited.port}/"
    assert page.evaluate("history.length") <= 2
    answer(page, 1)
    wait_for(page, "Your report was sent")
    assert [path for path, _ in requests] == ["invitations", "reports"]
    (_, asked), (_, report) = requests
    assert asked["token"] == token and set(asked) == {"token", "blinded"}
    assert set(report) == {"format", "design", "id", "values", "wording", "invitation"}
    assert not any(token in address for address in addresses)
    assert token not in json.dumps(report)
    # neither is what the collector saw before
    assert asked["blinded"] not in json.dumps(report) and report["id"] not in json.dumps(asked)
    assert kept_by(invited) - before == {report["id"]}
    # the browser does not keep the link, either
    assert token not in page.evaluate(STORED)
    # who comes again, with the link or another one, sees the report
    for again, note in ((link, "If this link belongs to another person"), ("", "You have answered before")):
        page = visit(home, again)
        wait_for(page, "Your report was sent")
        assert page.get_by_text(note).is_visible()
    assert len(kept_by(invited) - before) == 1


def test_a_used_link_an_unknown_one_and_none_have_views_of_their_own(
    browser: Any, home: Any, invited: Server, links: Iterator[str]
) -> None:
    link = next(links)
    page = visit(home, link)
    begin(page)
    for other, heading in (
        (link, "This link was already used"),
        (f"#i={'A' * 22}", "This link is not known"),
        ("#i=x", "This link is not known"),
    ):
        with visitor(browser, invited) as window:
            window.goto("about:blank")
            window.goto(f"/{other}")
            window.get_by_label("I have read how my answers are protected").check()
            window.get_by_role("button", name="Start").click()
            wait_for(window, heading)
            assert window.locator("form").count() == 0
            assert not browsers.faults(window, 5)
            window.complaints.clear()
    with visitor(browser, invited) as window:
        wait_for(window, "Please open your personal link")
        assert window.locator("form").count() == 0
        # the link is opened in the same window
        window.evaluate("(link) => { location.hash = link; }", next(links))
        window.wait_for_selector("form")


def test_a_link_survives_a_reload_and_a_lost_answer(home: Any, invited: Server, links: Iterator[str]) -> None:
    before = kept_by(invited)
    page = visit(home, next(links))
    # the collector signs, but its answer is lost
    page.route("**/invitations", lambda route: (route.fetch(), route.abort()))
    page.get_by_label("I have read how my answers are protected").check()
    page.get_by_role("button", name="Start").click()
    page.get_by_text("The survey could not be reached").wait_for()
    page.unroute("**/invitations")
    # a proxy that has too much to do
    page.route("**/invitations", lambda route: route.fulfill(body="<h1>429</h1>", status=429))
    page.locator("[role=alert]").evaluate("alert => alert.replaceChildren()")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("The survey could not be reached").wait_for()
    page.unroute("**/invitations")
    # a network's sign-in page, also with a refusal, and a signature of something else
    for body, status in (
        ("<h1>Wi-Fi</h1>", 200),
        ("<h1>Wi-Fi</h1>", 403),
        (json.dumps({"signature": "12" * 256}), 200),
    ):
        page.route(
            "**/invitations", lambda route, _, reply=(body, status): route.fulfill(body=reply[0], status=reply[1])
        )
        page.locator("[role=alert]").evaluate("alert => alert.replaceChildren()")
        page.get_by_role("button", name="Start").click()
        page.get_by_text("The answer came from somewhere else").wait_for()
        page.unroute("**/invitations")
    # a refusal by whatever stands in between does not lose the link, either
    page.route("**/invitations", lambda route: route.fulfill(json={"error": "no"}, status=403))
    page.get_by_role("button", name="Start").click()
    wait_for(page, "This link is not known")
    page.unroute("**/invitations")
    # the link is gone from the address; the browser goes on where it was
    page.reload()
    answer(page, 0, 1)
    wait_for(page, "Your report was sent")
    assert len(kept_by(invited) - before) == 1


def test_many_links_cannot_be_joined_to_reports_by_the_database(
    browser: Any, invited: Server, links: Iterator[str]
) -> None:
    """Tokens leave a digest and what was signed; reports are in the order of their random ids."""
    seen = []
    for _ in range(8):
        with visitor(browser, invited) as window:
            window.goto("about:blank")
            _, requests = requests_of(window)
            link = next(links)
            window.goto(f"/{link}")
            answer(window, 1)
            wait_for(window, "Your report was sent")
            seen.append((link.removeprefix("#i="), [body for _, body in requests]))
    with sqlite3.connect(invited.database) as connection:  # type: ignore[attr-defined]
        dump = "\n".join(connection.iterdump())
        columns = {row[1] for row in connection.execute("PRAGMA table_info(reports)")}
    assert not columns & {"time", "token", "at", "invitation", "order"}
    for token, (asked, report) in seen:
        assert token not in dump
        assert asked["blinded"] != report["invitation"]
        assert report["invitation"] not in dump.lower()
