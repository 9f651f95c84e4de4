"""The survey page in a real Chromium, before the real collector: what a person sees, and what leaves the browser."""

import io
import json
import math
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import browsers
import numpy as np
import pytest
import vectors
from survey_client import Server, free_port

import optrr
from tests.devices.test_javascript import understated

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

# Narrow, and as high as a phone.
PHONE = {"width": 360, "height": 740}
# Milliseconds that anything may take on a busy machine.
PATIENCE = 30_000
# Labels that occur nowhere by chance, so that a search for them says something.
SPEC = {
    "title": "Getting around <b>& health</b>",
    "asker": "the statistics office",
    "introduction": "Five questions.",
    "language": "en",
    "epsilon": 0.8,
    "attributes": [
        {"name": "travel", "question": "How do you travel?", "categories": ["foot-kwxq", "bicycle-jzvp", "train-qqhd"]},
        {"name": "income", "question": "What is your income?", "categories": [f"bracket-{k}-zzyk" for k in range(4)]},
        {"name": "ill", "question": "Are you ill?", "categories": ["yes-vvbx", "no-wwcj", None]},
        {"name": "age", "question": "How old are you?", "categories": [f"years-{k}-pfgh" for k in range(12)]},
        {"name": "<i>smokes</i>", "categories": ["<script>alert(1)</script>", "never-ttbn"]},
    ],
}
TRUTH = {"travel": 1, "income": 3, "ill": 0, "age": 4, "<i>smokes</i>": 1}
NAMES = list(TRUTH)
# What a window says whose answers came too late.
OTHER_WINDOW = "the answers you entered now were not used"


def shown(attribute: dict[str, Any], code: int) -> str:
    return attribute["categories"][code] or "I prefer not to say"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    with serving(SPEC, tmp_path_factory.mktemp("survey")) as running:
        yield running


@contextmanager
def serving(specification: dict[str, Any], folder: Path, port: int = 0) -> Iterator[Server]:
    """A server of this specification, with its files in the folder."""
    folder.mkdir(exist_ok=True)
    spec = folder / "survey.json"
    spec.write_text(json.dumps(specification), encoding="utf-8")
    running = Server(spec, "--database", f"sqlite:///{folder / 'reports.db'}", port=port)
    running.database = folder / "reports.db"  # type: ignore[attr-defined]
    answering(running)
    yield running
    assert running.stop() == 0


def answering(server: Server) -> None:
    """Wait for the first answer: the address is printed a little earlier."""
    for _ in range(PATIENCE // 20):
        try:
            assert server.get("/health")
            return
        except ConnectionError:
            time.sleep(0.02)
    raise TimeoutError(server.log.read_text())


@contextmanager
def visitor(
    browser: Any, server: Any, prepare: Callable[[Any], object] = lambda _: None, stream: bytes = b""
) -> Iterator[Any]:
    """A page in a browser of its own, which is prepared before, and takes its random bytes from a stream if there is one."""
    context = browser.new_context(viewport=PHONE, base_url=f"http://127.0.0.1:{server.port}")
    if stream:
        context.add_init_script(FIXED.replace("STREAM", json.dumps(list(stream))))
    prepare(context)
    page = opened(context)
    yield page
    # a request that was meant to fail is all that the browser may complain of; what the strict policy forbids is not tried
    assert not [x for x in page.complaints if "Failed to load resource" not in x]
    context.close()


@pytest.fixture
def page(browser, server) -> Iterator[Any]:
    with visitor(browser, server) as page:
        yield page


def opened(context: Any) -> Any:
    """A page of the survey, which fails its test where the browser complains of anything."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.goto("/")
    page.wait_for_selector("form, #outcome, .notice h2")
    return page


def begin(page: Any) -> None:
    """Give consent, and go to the first question."""
    page.get_by_label("I have read how my answers are protected").check()
    page.get_by_role("button", name="Start").click()
    page.locator("#question").wait_for()


def choose(page: Any, code: int | str) -> None:
    """Answer the question on the page by the code of a category, or by a number's text."""
    field = page.locator("form select, form input").first
    kind = field.evaluate("x => x.type")
    if kind == "text" and isinstance(code, str):
        field.fill(code)
    elif kind == "select-one":
        field.select_option(str(code))
    else:
        page.locator(f"form input[id$='-{code}']").check()


def go_on(page: Any) -> None:
    page.get_by_role("button", name="Next", exact=True).click()


def fill_in(page: Any, codes: dict[str, int] = TRUTH) -> None:
    """Consent, and give these answers, up to the last page."""
    begin(page)
    for k, (name, code) in enumerate(codes.items()):
        assert name in NAMES
        if k:
            go_on(page)
        choose(page, code)


def press(page: Any) -> None:
    page.get_by_role("button", name="Randomize my answers").click()


def answer(page: Any, outcome: str = "Your report was sent") -> None:
    """Fill in the form, send, and see this outcome."""
    fill_in(page)
    press(page)
    wait_for(page, outcome)


def wait_for(page: Any, outcome: str) -> None:
    page.get_by_role("heading", name=outcome).wait_for()


def reports_of(page: Any) -> list[str]:
    """A list that receives the body of every report that the page sends from now on."""
    bodies: list[str] = []
    page.on("request", lambda request: bodies.append(request.post_data) if request.method == "POST" else None)
    return bodies


def kept_by(server: Any) -> set[str]:
    """Identifiers of the reports in the collector's database."""
    with sqlite3.connect(server.database) as connection:
        return {row[0].hex() for row in connection.execute("SELECT identifier FROM reports")}


def sideways(page: Any) -> list[int]:
    """Widths of screens on which the page would scroll sideways: 360 pixels, and 320, a wide screen magnified four times."""
    wide = []
    for width in (320, PHONE["width"]):
        page.set_viewport_size({**PHONE, "width": width})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(width)
    return wide


def small_targets(page: Any) -> list[str]:
    """What is too small for fingers: less than 44 pixels high."""
    return page.eval_on_selector_all(
        ".option, button, select, summary, input[type=text]",
        "all => all.filter(x => x.getBoundingClientRect().height < 44)"
        ".map(x => `${x.getBoundingClientRect().height} ${x.outerHTML}`)",
    )


def test_a_person_fills_in_the_form_on_a_narrow_screen(page, server):
    bodies = reports_of(page)
    assert page.title() == SPEC["title"]
    assert page.locator("h1").inner_text() == SPEC["title"]
    assert not sideways(page) and not small_targets(page)
    begin(page)
    for k, (attribute, code) in enumerate(zip(SPEC["attributes"], TRUTH.values(), strict=True)):
        if k:
            go_on(page)
        assert page.locator("#question:focus").inner_text() == attribute.get("question", attribute["name"])
        assert page.get_by_text(f"Question {k + 1} of 5").is_visible()
        assert not sideways(page) and not small_targets(page)
        choose(page, code)
    assert not bodies
    press(page)
    wait_for(page, "Your report was sent")
    assert not sideways(page)
    (body,) = bodies
    report = json.loads(body)
    assert set(report) == {"format", "design", "id", "values", "wording"}
    assert report["id"] in kept_by(server)
    cards = page.locator(".cards > li").all()
    assert len(cards) == len(NAMES)
    for card, attribute, value in zip(cards, SPEC["attributes"], report["values"], strict=True):
        entered = shown(attribute, TRUTH[attribute["name"]])
        said = value or "I prefer not to say"
        assert card.locator("dd").all_inner_texts() == [entered, said]
        verdict = "Recorded as you answered. Nobody else can tell: of" if entered == said else "Changed by chance."
        assert verdict in card.inner_text()
    assert page.locator("form").count() == 0
    # it arrived: nothing need be sent again
    assert page.get_by_role("button", name="Send the same report again").count() == 0


def test_the_form_is_filled_in_with_the_keyboard_alone(page):
    bodies = reports_of(page)
    keys = page.keyboard

    def focused() -> str:
        style = page.evaluate(
            "(({ outlineStyle: s, outlineWidth: w }) => [s, w])(getComputedStyle(document.activeElement))"
        )
        assert style == ["solid", "3px"], "what has the focus can be seen"
        return page.evaluate("document.activeElement.id || document.activeElement.localName")

    def tab(to: str) -> None:
        keys.press("Tab")
        assert focused() == to

    tab("trial-0")
    tab("button")
    keys.press("Enter")
    assert page.get_by_text("1 try so far").is_visible()
    tab("summary")
    keys.press("Enter")
    assert page.get_by_text("no matter who sees it and what else they know").is_visible()
    keys.press("Enter")
    tab("consent")
    # a mistake first: the consent is missing
    tab("button")
    keys.press("Enter")
    assert focused() == "consent"
    assert page.get_by_text("Without your consent nothing is sent.").is_visible()
    assert page.locator("#consent").get_attribute("aria-describedby") == "mistake"
    assert page.locator("#consent").get_attribute("aria-invalid") == "true"
    keys.press("Space")
    tab("button")
    keys.press("Enter")
    assert focused() == "question"
    # the next mistake: no answer
    for _ in range(2):
        keys.press("Tab")
    keys.press("Enter")
    assert focused() == "q-0-0"
    assert page.get_by_role("radiogroup").get_attribute("aria-invalid") == "true"
    for k, name in enumerate(NAMES):
        if k:
            tab(f"q-{k}" if name == "age" else f"q-{k}-0")
        if name == "age" or TRUTH[name]:
            for _ in range(TRUTH[name] + (name == "age")):
                keys.press("ArrowDown")
        else:
            keys.press("Space")
        tab("button")
        keys.press("Enter")
        if k + 1 < len(NAMES):
            assert focused() == "question"
    wait_for(page, "Your report was sent")
    assert focused() == "outcome"
    assert len(bodies) == 1
    entered = page.locator(".cards dl > div:first-child dd").all_inner_texts()
    assert entered == [shown(a, TRUTH[a["name"]]) for a in SPEC["attributes"]]
    tab("button")
    assert page.evaluate("document.activeElement.textContent") == "Clear my answers from the screen"
    keys.press("Enter")
    assert page.get_by_text("You answered", exact=True).count() == 0


def test_back_keeps_what_was_entered_and_stores_nothing(page):
    fill_in(page)
    stored = page.evaluate(STORED)
    for attribute in reversed(SPEC["attributes"]):
        name = attribute["name"]
        field = page.locator("form select, form input:checked").first
        assert field.evaluate("x => Number(x.type === 'radio' ? x.id.split('-').pop() : x.value)") == TRUTH[name]
        page.get_by_role("button", name="Back").click()
    assert page.get_by_label("I have read how my answers are protected").is_checked()
    assert page.locator("h1:focus").count() == 1
    assert page.evaluate(STORED) == stored
    assert "kwxq" not in stored and "zzyk" not in stored


def changing_bytes(server: Server) -> tuple[bytes, list[str | None]]:
    """A stream with which every one of the answers changes, and the record that comes out, by the slow reference."""
    reference = vectors.load_script(vectors.VECTORS / "reference.py")
    content = json.loads(server.get("/sampler.json"))
    rng = np.random.default_rng(5)
    while True:
        stream = rng.bytes(200)
        out = reference.randomized(content, list(TRUTH.values()), reference.Bytes(io.BytesIO(stream).read))
        if all(x != y for x, y in zip(out, TRUTH.values(), strict=True)):
            return stream, [a["categories"][c] for a, c in zip(SPEC["attributes"], out, strict=True)]


FIXED = """
const stream = Uint8Array.from(STREAM);
let at = 0;
Crypto.prototype.getRandomValues = function (array) {
  array.set(stream.subarray(at, at + array.length));
  at += array.length;
  if (at > stream.length) throw new Error("the stream is used up");
  return array;
};
"""

STORED = """
async () => {
  const settled = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const out = [document.cookie, location.href, ...(await caches.keys())];
  out.push(...[localStorage, sessionStorage, history.state].map((x) => JSON.stringify(x)));
  for (const { name } of await indexedDB.databases()) {
    const database = await settled(indexedDB.open(name));
    for (const place of database.objectStoreNames)
      out.push(JSON.stringify(await settled(database.transaction(place).objectStore(place).getAll())));
    database.close();
  }
  return out.join(" ");
}
"""


def test_no_byte_that_leaves_the_browser_and_nothing_stored_holds_a_raw_answer(browser, server):
    stream, record = changing_bytes(server)
    tap = browsers.Tap(server.port)
    context = browser.new_context(viewport=PHONE, base_url=f"http://127.0.0.1:{tap.port}")
    context.add_init_script(FIXED.replace("STREAM", json.dumps(list(stream))))
    addresses: list[str] = []
    context.on("request", lambda request: addresses.append(request.url))
    page = opened(context)
    bodies = reports_of(page)
    page.route("**/reports", lambda route: route.abort())
    answer(page, "Your report has not been sent yet")
    stored = page.evaluate(STORED)
    page.unroute("**/reports")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was sent")
    page.locator("summary").click()
    page.get_by_role("button", name="Clear my answers").click()
    page.reload()
    wait_for(page, "Your report was sent")
    stored += page.evaluate(STORED)
    context.close()
    tap.close()
    assert [json.loads(body)["values"] for body in bodies] == [record, record]
    assert all(address.startswith(f"http://127.0.0.1:{tap.port}/") for address in addresses), (
        "a request to somebody else"
    )
    sent = tap.sent.decode("latin-1")
    assert sent.count("POST /reports") == 1
    for attribute, value in zip(SPEC["attributes"], record, strict=True):
        raw = shown(attribute, TRUTH[attribute["name"]])
        # the search works: it sees the randomized answer, which was sent
        assert json.dumps(value) in sent
        assert json.dumps(value) in stored
        for form in (raw, quote(raw), json.dumps(raw)):
            assert form not in sent
            assert form not in stored


def test_a_later_visit_sends_the_same_record_by_itself_once(browser, server, tmp_path):
    options = {"viewport": PHONE, "base_url": f"http://127.0.0.1:{server.port}"}
    before = kept_by(server)
    bodies = []
    with browsers.at_home(browser, tmp_path / "home", **options) as context:
        page = opened(context)
        bodies.append(reports_of(page))
        page.route("**/reports", lambda route: route.abort())
        answer(page, "Your report has not been sent yet")
    for _ in range(2):
        with browsers.at_home(browser, tmp_path / "home", **options) as context:
            page = context.new_page()
            bodies.append(reports_of(page))
            page.goto("/")
            wait_for(page, "Your report was sent")
            assert page.get_by_text("You have answered before in this browser").is_visible()
            assert page.get_by_text("You answered", exact=True).count() == 0
    assert [len(x) for x in bodies] == [1, 1, 0]
    assert bodies[0] == bodies[1]
    assert kept_by(server) - before == {json.loads(bodies[0][0])["id"]}


def test_a_report_is_sent_as_soon_as_the_device_is_online(page, server):
    # no time passes until the next try
    page.clock.install()
    page.clock.pause_at(time.time() + 3600)
    page.context.set_offline(True)
    answer(page, "Your report has not been sent yet")
    assert page.get_by_text("sends it as soon as it can").is_visible()
    bodies = reports_of(page)
    page.context.set_offline(False)
    wait_for(page, "Your report was sent")
    assert json.loads(bodies[0])["id"] in kept_by(server)


def test_a_report_is_sent_again_after_growing_waits_and_when_the_page_is_seen(browser, server):
    with visitor(browser, server) as page:
        page.clock.install()
        page.route("**/reports", lambda route: route.abort())
        bodies = reports_of(page)
        answer(page, "Your report has not been sent yet")
        # 5, 10 and 20 seconds
        for seconds, count in ((4, 1), (2, 2), (8, 2), (3, 3), (16, 3), (5, 4)):
            page.clock.run_for(1000 * seconds)
            page.wait_for_timeout(200)
            assert len(bodies) == count, seconds
        page.unroute("**/reports")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        wait_for(page, "Your report was sent")
        assert len(set(bodies)) == 1


REFUSED = "the <b>design</b> is another one"


@pytest.mark.parametrize(
    ("reply", "outcome", "reason"),
    [
        (None, "Your report has not been sent yet", "could not be reached"),
        ({"status": 400, "json": {"error": REFUSED}}, "Your report was refused", f"does not accept it: {REFUSED}"),
        # a network's sign-in page
        ({"body": "<h1>Wi-Fi</h1>"}, "Your report has not been sent yet", "The answer came from somewhere else"),
    ],
)
def test_what_goes_wrong_is_said_and_what_is_sent_again_is_the_same(page, server, reply, outcome, reason):
    bodies = reports_of(page)
    page.route("**/reports", lambda route: route.fulfill(**reply) if reply else route.abort())
    answer(page, outcome)
    assert reason in page.locator(".mistake:visible").inner_text()
    # what was not delivered is sent by itself at the next visit
    page.reload()
    wait_for(page, outcome)
    page.unroute("**/reports")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was sent")
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert json.loads(bodies[0])["id"] in kept_by(server)


def test_a_window_left_open_shows_the_report_that_another_one_delivered(page, server):
    before = kept_by(server)
    other = opened(page.context)
    bodies = [reports_of(page), reports_of(other)]
    fill_in(page)
    fill_in(other, {name: 0 for name in NAMES})
    press(page)
    for window in (page, other):
        wait_for(window, "Your report was sent")
    # the other one notices by itself, and forgets its answers
    (body,) = [*bodies[0], *bodies[1]]
    report = json.loads(body)
    assert kept_by(server) - before == {report["id"]}
    assert other.get_by_text(OTHER_WINDOW).is_visible()
    assert other.get_by_text("You answered", exact=True).count() == 0
    said = other.locator(".cards dd").all_inner_texts()
    assert said == [value or "I prefer not to say" for value in report["values"]]


def test_two_windows_that_send_at_once_send_one_report(page, server):
    # neither hears of the other one
    page.context.add_init_script("BroadcastChannel.prototype.postMessage = () => {};")
    before = kept_by(server)
    windows = [opened(page.context), opened(page.context)]
    for window in windows:
        fill_in(window)
    for window in windows:
        press(window)
    for window in windows:
        wait_for(window, "Your report was sent")
    assert len(kept_by(server) - before) == 1
    # answers that were not used are not shown beside the report of others
    first = [window.get_by_text("You answered", exact=True).count() > 0 for window in windows]
    assert sorted(first) == [False, True]
    assert windows[first.index(False)].get_by_text(OTHER_WINDOW).is_visible()


MANY = """
async () => {
  const { answerOnce, readDeployment, ledger } = await import("./optrr.js");
  const { browserStore } = await import("./browser-store.js");
  const deployment = await readDeployment(await (await fetch("sampler.json")).arrayBuffer());
  const answers = Object.fromEntries(deployment.attributes.map((x) => [x.name, x.categories[0]]));
  const once = () => answerOnce(deployment, answers, browserStore("many"));
  const entries = await Promise.all(Array.from({ length: 50 }, once));
  const { entries: kept, epsilon } = await ledger(browserStore("many"));
  const drawn = entries.filter((x) => x.isNew).length;
  return [new Set(entries.map((x) => x.report.id)).size, drawn, kept.length, epsilon === deployment.epsilon.total];
}
"""


def test_many_draws_at_once_are_one(page):
    assert page.evaluate(MANY) == [1, 1, 1, True]


OTHER = """
async () => {
  const { browserStore } = await import("./browser-store.js");
  await browserStore().update("other", () => ({ epsilon: "1.500000000000000", report: {} }));
}
"""


def test_a_person_is_told_what_all_surveys_together_spend(page, server):
    said = "You take part in 2 surveys at this address in this browser. Each one reveals a little, and this adds up"
    assert page.get_by_text("this adds up").count() == 0
    page.evaluate(OTHER)
    page.reload()
    lines = [page.get_by_text(said).inner_text()]
    answer(page)
    lines.append(page.get_by_text(said).inner_text())
    total = Decimal("1.5") + Decimal(json.loads(server.get("/sampler.json"))["epsilon"]["total"])
    for line in lines:
        assert math.exp(total) <= float(re.findall(r"at most ([0-9.]+) times", line)[0]) <= 1.01 * math.exp(total)


def test_an_accessibility_checker_finds_nothing_in_any_view_light_or_dark(page):
    assert not browsers.faults(page)
    page.locator(".trial button").click()
    page.locator("summary").click()
    page.get_by_role("button", name="Start").click()
    page.get_by_text("Without your consent nothing is sent.").wait_for()
    assert not browsers.faults(page)
    page.route("**/reports", lambda route: route.abort())
    begin(page)
    for k, code in enumerate(TRUTH.values()):
        page.locator("form button[type=submit]").click()
        if k < len(TRUTH):
            page.locator(".mistake:visible").wait_for()
        assert not browsers.faults(page)
        choose(page, code)
        page.locator("form button[type=submit]").click()
    wait_for(page, "Your report has not been sent yet")
    assert not browsers.faults(page)
    page.unroute("**/reports")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was sent")
    page.locator("summary").click()
    assert not browsers.faults(page)
    page.reload()
    wait_for(page, "Your report was sent")
    assert not browsers.faults(page)


LEFT = "dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))"


def test_answers_are_gone_from_a_page_that_was_left(page):
    fill_in(page)
    page.evaluate(LEFT)
    assert not page.get_by_label("I have read how my answers are protected").is_checked()
    begin(page)
    for name in NAMES:
        assert page.locator("form input:checked").count() == 0
        assert [x for x in page.locator("form select").all() if x.input_value()] == []
        choose(page, TRUTH[name])
        page.locator("form button[type=submit]").click()
    wait_for(page, "Your report was sent")
    assert page.get_by_text("You answered", exact=True).count() == len(NAMES)
    page.evaluate(LEFT)
    assert page.get_by_text("You answered", exact=True).count() == 0


def test_without_scripts_nothing_can_be_entered_or_sent(server):
    html = server.get("/").decode()
    assert "JavaScript, which is switched off" in html.split("<noscript>")[1].split("</noscript>")[0]
    assert not re.search("<(form|input|select|textarea|button)", html)


def script(text: str) -> Callable[[Any, Any], None]:
    return lambda context, server: context.add_init_script(text)


def with_less_epsilon(context: Any, server: Any) -> None:
    text = understated(json.loads(server.get("/sampler.json")))
    context.route("**/sampler.json", lambda route: route.fulfill(body=text))


def without_wording(context: Any, server: Any) -> None:
    context.route("**/survey.json", lambda route: route.fulfill(json={"title": "Habits"}))


@pytest.mark.parametrize(
    ("prepare", "heading", "reason"),
    [
        (script("indexedDB.open = () => { throw new Error('denied'); }"), "This browser cannot store your report", ""),
        (script("Object.defineProperty(window, 'isSecureContext', { value: false })"), "This page is not secure", ""),
        (script("window.fetch = () => Promise.reject(new TypeError())"), "The survey could not be loaded", ""),
        (with_less_epsilon, "The survey could not be loaded", "epsilon is too small"),
        (without_wording, "The survey could not be loaded", "does not state which questions these are"),
    ],
)
def test_where_it_cannot_be_done_safely_nothing_is_asked(browser, server, prepare, heading, reason):
    with visitor(browser, server, lambda context: prepare(context, server)) as page:
        wait_for(page, heading)
        assert reason in page.inner_text("body")
        assert page.locator("form, input").count() == 0
        page.complaints.clear()


def questions(*texts: str) -> dict[str, Any]:
    """A survey that asks these; all with as many of them have the same design."""
    attributes = [{"name": f"q{i}", "question": text, "categories": ["yes", "no"]} for i, text in enumerate(texts)]
    return {"title": "Habits", "epsilon": 1.0, "attributes": attributes}


TEA = questions("Do you like tea?", "Do you like cake?")
HEROIN = questions("Have you ever taken heroin?", "Have you ever stolen?")


def answer_all(page: Any) -> dict[str, Any]:
    """Give the first answer to every question, and send; the report."""
    bodies = reports_of(page)
    begin(page)
    page.locator("form input").first.check()
    while page.get_by_role("button", name="Next", exact=True).count():
        go_on(page)
        page.locator("form input").first.check()
    press(page)
    wait_for(page, "Your report was sent")
    (body,) = bodies
    return json.loads(body)


def test_who_answered_other_questions_of_the_same_design_is_asked(browser, tmp_path):
    port = free_port()
    context = browser.new_context(base_url=f"http://127.0.0.1:{port}")
    with serving(TEA, tmp_path / "tea", port) as tea:
        tea_design = json.loads(tea.get("/sampler.json"))["design"]
        page = opened(context)
        first = answer_all(page)
        assert kept_by(tea) == {first["id"]}
        page.close()
    with serving(HEROIN, tmp_path / "heroin", port) as heroin:
        assert json.loads(heroin.get("/sampler.json"))["design"] == tea_design
        page = opened(context)
        assert page.locator(".example strong").inner_text() == HEROIN["attributes"][0]["question"]
        assert page.get_by_text("You take part in 2 surveys at this address").is_visible()
        second = answer_all(page)
        assert second["wording"] != first["wording"]
        assert kept_by(heroin) == {second["id"]}
        # the report to the first survey is none of the second, whoever sends it
        answered = "(body) => fetch('reports', {method: 'POST', body, headers: {'Content-Type': 'application/json'}})"
        assert page.evaluate(f"{answered}.then((x) => x.status)", json.dumps(first)) == 422
        assert kept_by(heroin) == {second["id"]}
        page.close()
    with serving(TEA, tmp_path / "tea", port):
        page = opened(context)
        wait_for(page, "Your report was sent")
        assert first["id"] in page.locator("pre").text_content()
    context.close()


def test_the_options_of_a_column_are_check_boxes_of_one_question(browser, tmp_path):
    options = ["apples", "pears", "other"]
    attributes = [{"name": f"fruit: {each}", "multi_select": ["fruit", ";", each]} for each in options]
    attributes[2]["question"] = "something else"
    attributes.insert(1, {"name": "sex", "categories": ["f", "m"]})
    # where an option may be missing, no answer is another than no
    attributes.append({"name": "fruit: figs", "multi_select": ["fruit", ";", "figs"], "missing": [""]})
    with serving({"epsilon": 40.0, "attributes": attributes}, tmp_path / "fruit") as server:
        page = opened(browser.new_context(base_url=f"http://127.0.0.1:{server.port}"))
        bodies = reports_of(page)
        begin(page)
        assert page.locator("legend").inner_text() == "fruit"
        assert page.locator("form label").all_inner_texts() == ["apples", "pears", "something else"]
        page.get_by_label("pears").check()
        go_on(page)
        assert page.locator("legend").inner_text() == "sex"
        page.get_by_label("m", exact=True).check()
        page.get_by_role("button", name="Back").click()
        assert page.get_by_label("pears").is_checked()
        go_on(page)
        go_on(page)
        assert page.locator("legend").inner_text() == "fruit: figs"
        page.get_by_label("I prefer not to say").check()
        press(page)
        wait_for(page, "Your report was sent")
        # at this epsilon nothing is replaced by chance; values stand in the order of the design
        assert json.loads(bodies[0])["values"] == ["no", "m", "yes", "no", None]


def test_a_tick_is_yes_whichever_category_is_first(browser, tmp_path):
    attributes = [
        optrr.Attribute(f"fruit: {each}", ("yes", "no"), multi_select=("fruit", ";", each))
        for each in ("apples", "pears")
    ]
    optrr.save(optrr.design(optrr.Domain(attributes), 40.0), tmp_path / "design.json")
    with serving(json.loads((tmp_path / "design.json").read_text()), tmp_path / "fruit") as server:
        page = opened(browser.new_context(base_url=f"http://127.0.0.1:{server.port}"))
        bodies = reports_of(page)
        begin(page)
        page.get_by_label("pears").check()
        press(page)
        wait_for(page, "Your report was sent")
        assert json.loads(bodies[0])["values"] == ["no", "yes"]


def test_names_and_categories_that_javascript_has_a_meaning_for(browser, tmp_path):
    names = ["constructor", "__proto__", "toString", "hasOwnProperty"]
    categories = ["", "__proto__", "constructor"]
    attributes = [{"name": name, "categories": categories} for name in names]
    with serving({"epsilon": 40.0, "attributes": attributes}, tmp_path / "names") as server:
        context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
        page = opened(context)
        assert page.locator("details strong").all_text_contents() == names
        assert page.locator("#trial-0 option").all_inner_texts() == ["(empty)", *categories[1:]]
        report = answer_all(page)
        # at this epsilon nothing is replaced by chance
        assert report["values"] == [""] * len(names)
        assert page.locator(".cards dd").all_inner_texts() == ["(empty)"] * 2 * len(names)
        assert kept_by(server) == {report["id"]}
        context.close()


CHANGED = """
async (content) => {
  const settled = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const database = await settled(indexedDB.open("optrr"));
  const answers = database.transaction("answers", "readwrite").objectStore("answers");
  for (const key of await settled(answers.getAllKeys()))
    await settled(content === null ? answers.delete(key) : answers.put(content, key));
  database.close();
}
"""


def test_a_report_whose_entry_was_deleted_is_put_back_whole(page, server):
    bodies = reports_of(page)
    page.route("**/reports", lambda route: route.abort())
    answer(page, "Your report has not been sent yet")
    page.evaluate(CHANGED, None)
    page.unroute("**/reports")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was sent")
    page.reload()
    # the browser knows it again, and that the collector has it
    wait_for(page, "Your report was sent")
    assert page.get_by_text("You have answered before in this browser").is_visible()
    assert len(bodies) == 2
    assert len(set(bodies)) == 1


def test_a_report_that_the_browser_does_not_keep_is_not_sent(page, server):
    bodies = reports_of(page)
    page.route("**/reports", lambda route: route.abort())
    answer(page, "Your report has not been sent yet")
    page.unroute("**/reports")
    page.evaluate("() => { indexedDB.open = () => { throw new Error('denied'); }; }")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was not sent")
    assert page.get_by_text("This browser could not store the report").is_visible()
    assert len(bodies) == 1


@pytest.mark.parametrize(
    "content", [{"delivered": True}, {"epsilon": "0.800000000000000", "delivered": True}, "nonsense", 0]
)
def test_where_this_surveys_entry_cannot_be_read_nothing_is_asked_or_sent(page, server, content):
    answer(page)
    page.evaluate(CHANGED, content)
    bodies = reports_of(page)
    page.reload()
    wait_for(page, "We cannot tell if you have answered")
    assert page.get_by_text("nothing is asked or sent").is_visible()
    assert page.locator("form, input").count() == 0
    assert not bodies


UNREADABLE = """
async () => {
  const { browserStore } = await import("./browser-store.js");
  await browserStore().update("one", () => ({ delivered: true }));
  await browserStore().update("two", () => null);
}
"""


def test_other_surveys_entries_that_cannot_be_read_stop_nothing(page, server):
    page.evaluate(UNREADABLE)
    page.evaluate(OTHER)
    page.reload()
    unknown = "2 more reports in this browser cannot be read and are not counted"
    assert "You take part in 2 surveys" in page.get_by_text(unknown).inner_text()
    answer(page)
    assert "You take part in 2 surveys" in page.get_by_text(unknown).inner_text()


def test_a_window_whose_report_was_deleted_goes_on_with_the_one_that_was_made_since(page, server):
    page.route("**/reports", lambda route: route.abort())
    answer(page, "Your report has not been sent yet")
    page.unroute("**/reports")
    page.evaluate(CHANGED, None)
    page.context.add_init_script("BroadcastChannel.prototype.postMessage = () => {};")
    other = opened(page.context)
    bodies = [reports_of(page), reports_of(other)]
    fill_in(other)
    press(other)
    wait_for(other, "Your report was sent")
    page.get_by_role("button", name="Send the same report again").click()
    wait_for(page, "Your report was sent")
    assert [len(each) for each in bodies] == [0, 1]
    page.locator("summary").click()
    assert json.loads(page.locator("pre").inner_text()) == json.loads(bodies[1][0])
    assert page.get_by_text(OTHER_WINDOW).is_visible()
    assert page.get_by_text("You answered", exact=True).count() == 0


def test_who_asks_for_the_questions_twice_loses_no_answer(browser, server):
    """Both would load them, and those that come later would take the place of a form that is being filled in."""
    context = browser.new_context(viewport=PHONE, base_url=f"http://127.0.0.1:{server.port}")
    asked: list[Any] = []
    # the first one fails
    context.route("**/sampler.json", lambda route: asked.append(route if asked else route.abort()))
    page = context.new_page()
    page.goto("/")
    again = page.get_by_role("button", name="Try again")
    again.click()
    # gone by now, or it is pressed again
    for each in again.all():
        each.click()
    page.wait_for_timeout(500)
    for k, route in enumerate(asked[1:]):
        with page.expect_response("**/sampler.json"):
            route.continue_()
        if k == 0:
            page.wait_for_selector("form")
            begin(page)
            choose(page, TRUTH["travel"])
    page.wait_for_timeout(500)
    assert page.locator(f"#q-0-{TRUTH['travel']}").is_checked()
    context.close()
