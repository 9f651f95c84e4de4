"""The page of a plan in a real Chromium, before its server: by keyboard, on a telephone, undone, kept in a file, and ended."""

import json
import math
import re
import secrets
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import browsers
import pytest
import uvicorn

pytest.importorskip("starlette", reason="the page's server needs the extra serve")

from plan_questions import school_question

from optrr.core.errors import InvalidInput
from optrr.planner.app import HOST, plan_app
from optrr.planner.question import Question
from optrr.survey.server import configured, listening

# Chromium and a process that computes take a few seconds to start
pytestmark = pytest.mark.slow

PATIENCE = 25_000
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
EXACT = "Exact numbers at this ε"


def save(question: Any, reason: str) -> tuple[list[str], str]:
    if not reason:
        raise InvalidInput("the plan has no reason; write why this choice was made")
    return [
        "plans/plan.toml",
        "plans/statement.html",
    ], f"<!doctype html><title>Statement</title><p>ε = {question.total:g}: {reason}"


class BackgroundPage:
    """The page of a plan, served by a thread."""

    def __init__(self, question: Any) -> None:
        self._bound = listening(HOST, 0)
        address, token = f"{HOST}:{self._bound.getsockname()[1]}", secrets.token_urlsafe(24)
        self.url = f"http://{address}/?token={token}"
        self._server = uvicorn.Server(configured(plan_app(question, save, token, address)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._bound]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()


@pytest.fixture(scope="module")
def served() -> Iterator[BackgroundPage]:
    running = BackgroundPage(school_question("marginals"))
    yield running
    running.close()


@pytest.fixture
def page(browser: Any, served: BackgroundPage) -> Iterator[Any]:
    context = browser.new_context(viewport=DESK, permissions=["clipboard-read", "clipboard-write"])
    opened = open_page(context, served)
    yield opened
    # a refusal is all that the browser may complain of; what the strict policy forbids is not tried
    assert not [x for x in opened.complaints if "Failed to load resource" not in x]
    assert {request.split("/")[2] for request in opened.requests} == {served.url.split("/")[2]}
    context.close()


def open_page(context: Any, served: BackgroundPage) -> Any:
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.complaints, opened.requests = [], []
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("request", lambda request: opened.requests.append(request.url) if ":" in request.url[:6] else None)
    opened.goto(served.url)
    wait_for_exact(opened)
    return opened


def open_experts(page: Any) -> None:
    page.locator(".experts > summary").click()


def wait_for_exact(page: Any) -> None:
    page.locator("#status").get_by_text(EXACT).wait_for()


def state_of(page: Any) -> dict[str, Any]:
    """What the page holds, from the file that it downloads."""
    with page.expect_download() as download:
        page.locator("#download").click()
    return dict(json.loads(Path(download.value.path()).read_text(encoding="utf-8")))


def margin(page: Any) -> float:
    text = page.locator("#see td").nth(0).inner_text()
    return float(re.sub(r"[^\d.]", "", text))


def test_the_sliders_change_the_answer_and_the_numbers_beside_them(page):
    before = margin(page)
    page.locator("#total-slider").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert page.locator("#total").input_value() == "2"
    page.locator("#verdict").get_by_text("46 of 100").wait_for()
    wait_for_exact(page)
    assert margin(page) < before
    assert page.evaluate("document.activeElement.id") == "total-slider"
    page.locator("#n").fill("100000")
    page.locator("#see").get_by_text("100,000 people answer").wait_for()
    assert page.evaluate("document.activeElement.id") == "n"


def frontier(page: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Where the chosen dot is and where its chart is, at one moment: the page draws both anew as points arrive."""
    dot, chart = page.evaluate(
        """() => ["#frontier [data-chosen]", "#frontier svg"].map((selector) =>
             document.querySelector(selector).getBoundingClientRect().toJSON())"""
    )
    return dot, chart


def test_the_dot_of_the_frontier_is_dragged_to_another_total(page):
    page.locator("#frontier svg").evaluate("(chart) => chart.scrollIntoView({ block: 'center' })")
    dot, chart = frontier(page)
    x, y = dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + chart["width"] * 0.1, y, steps=5)
    page.mouse.up()
    total = float(page.locator("#total").input_value())
    # the axis has 286 of 340 units for 7 doublings
    assert total == pytest.approx(2 ** (0.1 * 340 / 286 * 7), rel=0.04)
    # the chart follows when the program has answered
    page.wait_for_function(
        """(x) => Math.abs(document.querySelector("#frontier [data-chosen]").getBoundingClientRect().x - x) < 3""",
        arg=dot["x"] + chart["width"] * 0.1,
        polling=100,
    )
    page.locator("#undo").click()
    assert page.locator("#total").input_value() == "1"


def test_steps_are_undone_and_redone_and_started_over(page):
    first = state_of(page)
    page.locator("#n").fill("5000")
    page.locator("#n").blur()
    page.locator("#keep").check()
    page.get_by_role("button", name="Remove the question sex").click()
    last = state_of(page)
    assert [a["name"] for a in last["question"]["attributes"]] == ["theft", "bullied"]
    assert (last["question"]["n"], last["question"]["keep"]) == (5000, "records")
    for _ in range(3):
        page.locator("#undo").click()
    assert state_of(page) == first and page.locator("#undo").is_disabled()
    for _ in range(3):
        page.locator("#redo").click()
    assert state_of(page) == last and page.locator("#redo").is_disabled()
    page.locator("body").press("Control+z")
    assert page.locator("#attributes li").count() == 3
    page.locator("#reset").click()
    assert state_of(page) == first
    page.locator("#undo").click()
    assert state_of(page)["question"]["keep"] == "records"
    wait_for_exact(page)


def test_a_state_goes_into_a_file_and_an_address_and_comes_back(page, browser, served, tmp_path):
    page.locator("#reason").fill("So that 4 points are enough: ≈ äöü 😀")
    page.locator("#margin").fill("4")
    page.locator("#margin").blur()
    kept = state_of(page)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(kept), encoding="utf-8")
    other = open_page(page.context, served)
    other.locator("#upload-file").set_input_files(file)
    other.locator("#see").get_by_text("the required margin").wait_for()
    assert state_of(other) == kept
    other.goto("about:blank")
    other.goto(page.url)
    assert other.locator("#reason").input_value() == kept["reason"]
    for wrong in ("[", "{}", '{"question": {"attributes": "x"}}', '{"question": {"attributes": [1]}}'):
        file.write_text(wrong)
        other.locator("#upload-file").set_input_files(file)
        other.get_by_role("alert").get_by_text("is not a plan").wait_for()
    assert state_of(other) == kept
    other.close()


def fault(page: Any) -> tuple[str, str]:
    """The field that an error is about, which it describes, and the error."""
    page.locator(".fault").wait_for()
    invalid = page.locator("[aria-invalid=true]")
    assert invalid.count() == 1 and "fault" in invalid.get_attribute("aria-describedby").split()
    assert page.locator("#error").is_hidden() and browsers.faults(page) == []
    return invalid.get_attribute("id"), page.locator("#fault").inner_text()


def test_mistakes_stand_at_their_field_and_the_results_stay_until_they_are_mended(page):
    wrong = [
        ("total", "99", "total = 99", "1"),
        ("n", "0", "n = 0", "1000"),
        ("margin", "60", "a larger margin cannot tell anything", ""),
        ("margin-1", "0", "margin of bullied = 0", ""),
        ("categories-0", "yes", "theft", "yes, no"),
        ("name-1", "theft", "theft", "bullied"),
        ("labels-1", "nie, oft", "2 for 3 categories", "nie, einmal, oft"),
    ]
    page.locator("#details-1 summary").click()
    for field, text, said, mended in wrong:
        page.locator(f"#{field}").fill(text)
        page.locator(f"#{field}").blur()
        at, error = fault(page)
        assert (at, said in error) == (field, True), (at, error)
        assert margin(page) > 0 and "before the mistake" in page.locator("#status").inner_text()
        page.locator(f"#{field}").fill(mended)
        page.locator(f"#{field}").blur()
        page.locator(".fault").wait_for(state="detached")
        assert page.locator("[aria-invalid]").count() == 0
    wait_for_exact(page)


def test_another_way_is_chosen_and_the_focus_stays_on_it(page):
    open_experts(page)
    page.get_by_role("radio", name="The optimum over full records").check()
    page.locator("#spend").get_by_text("Privacy and accuracy per answer").wait_for()
    assert page.evaluate("document.activeElement.id") == "way-optimum"
    assert page.locator("#way-optimum").is_checked()
    assert 'protocol="optimum"' in page.locator("#python").inner_text()
    page.get_by_role("radio", name="The best for the tables to estimate").check()
    wait_for_exact(page)


def test_tables_are_named_and_follow_a_question_that_is_renamed(page):
    page.locator("#learn-tables").check()
    page.locator("#table-0").select_option("bullied")
    page.locator("#table-1").select_option("sex")
    page.locator("#add-table").click()
    page.locator("#margin-3").fill("7")
    page.locator("#name-1").fill("harmed")
    page.locator("#name-1").blur()
    question = state_of(page)["question"]
    assert question["learn"] == [["theft"], ["harmed"], ["sex"], ["harmed", "sex"]]
    assert question["margins"] == {"harmed × sex": 7}
    page.locator("#see").get_by_text("harmed × sex").first.wait_for()
    assert "workload=[[" in page.locator("#python").text_content()
    # once more, in the other order: nothing is added, and the focus is on the one that is there
    page.locator("#table-0").select_option("sex")
    page.locator("#table-1").select_option("harmed")
    page.locator("#add-table").click()
    assert page.evaluate("document.activeElement.id") == "margin-3"
    assert state_of(page)["question"] == question
    # margins go with their tables
    page.get_by_role("button", name="Remove the result harmed × sex").click()
    assert "margins" not in state_of(page)["question"]


def test_a_question_that_no_table_needs_is_a_choice(page):
    page.locator("#learn-tables").check()
    page.get_by_role("button", name="Remove the result sex").click()
    page.locator("#unneeded").get_by_text("No result needs «sex»: it is left out of the survey.").wait_for()
    wait_for_exact(page)
    assert page.locator("#see th[scope=row]").all_inner_texts() == ["theft", "bullied"]
    page.get_by_role("button", name="Add its result").click()
    page.locator("#see").get_by_text("sex").first.wait_for()
    assert page.locator("#unneeded").inner_text() == ""
    assert state_of(page)["question"]["learn"] == [["theft"], ["bullied"], ["sex"]]


def test_wordings_in_two_languages_and_a_condition_are_kept(page):
    page.locator("#texts summary").click()
    page.locator("#language").select_option("de")
    page.locator("#drafts").get_by_text("Not reviewed: the page's own texts in Deutsch are drafts").wait_for()
    page.locator("#asker").fill("Schule am See")
    for k in (0, 1):
        page.locator(f"#details-{k} summary").click()
    page.locator("#question-0").fill("Wurde dir etwas gestohlen?")
    page.locator("#labels-1").fill("nie\neinmal\noft")
    page.locator("#labels-1").blur()
    page.locator("#missing-1").check()
    page.locator("#parent-1").select_option("theft")
    page.locator("#when-1").get_by_label("no").check()
    page.locator("#texts-in").select_option("ar")
    page.locator("#question-0").fill("هل سُرق منك شيء؟")
    page.locator("#question-0").blur()
    question = state_of(page)["question"]
    assert question["asker"] == "Schule am See" and question["language"] == "de"
    theft, bullied, _ = question["attributes"]
    assert theft["question"] == {"de": "Wurde dir etwas gestohlen?", "ar": "هل سُرق منك شيء؟"}
    assert bullied["categories"] == ["never", "once", "often", "not asked"] and bullied["missing"]
    assert bullied["labels"][:4] == ["nie", "einmal", "oft", "not asked"] and len(bullied["labels"]) == 5
    assert bullied["ask_if"] == {"theft": ["yes", "no"]}
    made = Question.from_state(question)
    assert made.specification.wording.languages == ("de", "ar")
    assert made.specification.branches["bullied"].when == {"theft": ("yes", "no")}
    page.locator("#drafts").get_by_text("العربية").wait_for()
    # renamed and removed, the condition goes along
    page.locator("#name-0").fill("stolen")
    page.locator("#name-0").blur()
    assert state_of(page)["question"]["attributes"][1]["ask_if"] == {"stolen": ["yes", "no"]}
    page.get_by_role("button", name="Remove the question stolen").click()
    (bullied, _) = state_of(page)["question"]["attributes"]
    assert "ask_if" not in bullied and bullied["categories"] == ["never", "once", "often"]
    assert bullied["labels"][:3] == ["nie", "einmal", "oft"] and len(bullied["labels"]) == 4
    wait_for_exact(page)
    assert browsers.faults(page) == []


def test_the_margin_of_one_table_alone_and_what_its_total_means(page):
    page.locator("#margin-0").fill("4")
    page.locator("#margin-0").blur()
    page.locator("#find-total").click()
    found = page.locator("#required").get_by_text("reach theft ± 4 points if ε is at least about")
    found.wait_for()
    said = found.inner_text()
    total = float(re.search(r"at least about ([\d.]*\d)", said)[1])
    assert page.locator("#total").input_value() == f"{total:g}"
    surest = math.ceil(100 * math.exp(total) / (9 + math.exp(total)))
    assert "That protects little" in said and f"can be {surest} of 100 sure" in said
    page.locator("#verdict").get_by_text(f"{surest} of 100").wait_for()
    assert page.locator("#pairs tr.little").count() >= 1 and page.locator("#pairs tbody tr").count() >= 5
    page.locator("#see").get_by_text("Every required margin is reached.").wait_for()
    page.locator("#verdict").get_by_text("required ±\u00a04: reached").wait_for()
    wait_for_exact(page)
    assert margin(page) <= 4
    # what was found is about the question before
    page.locator("#n").fill("1001")
    assert page.locator("#required").inner_text() == ""


def test_a_change_of_a_row_takes_no_click_and_no_focus_away(page):
    for field, text, then in (
        ("name-0", "stolen", "margin-1"),
        ("categories-1", "a, b, c", "name-2"),
        ("name-1", "hit", "categories-0"),
    ):
        page.locator(f"#{field}").fill(text)
        page.locator(f"#{then}").click()
        assert page.evaluate("document.activeElement.id") == then
    page.locator("#name-2").fill("who")
    for then in ("categories-2", "details-2", "remove"):
        page.keyboard.press("Tab")
        assert page.evaluate("(e => e.id || e.className || e.parentNode.id)(document.activeElement)") == then
    page.locator("#categories-0").fill("no, yes")
    page.locator("#add-attribute").click()
    assert page.locator("#attributes li").count() == 4
    question = state_of(page)["question"]
    assert [a["name"] for a in question["attributes"]] == ["stolen", "hit", "who", "question 4"]
    assert question["attributes"][0]["categories"] == ["no", "yes"]


@pytest.mark.parametrize(
    ("what", "list_", "back"), [("question", "attributes", "name-2"), ("result", "table-list", "margin-2")]
)
def test_after_a_removal_keys_typed_on_remove_nothing_else_and_undo_is_next(page, what, list_, back):
    page.locator("#learn-tables").check()
    before = state_of(page)
    page.get_by_role("button", name=f"Remove the {what} sex").focus()
    page.keyboard.type("   7, 8, 9, 10")
    assert page.locator(f"#{list_} li").count() == 2
    assert page.evaluate("document.activeElement.innerText").split() == ["Removed", "“sex”.", "Undo"]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert state_of(page) == before and page.locator("#removed").inner_text() == ""
    page.get_by_role("button", name=f"Remove the {what} sex").click()
    page.locator("#removed").get_by_role("button").click()
    assert page.evaluate("document.activeElement.id") == back
    # what can no longer be undone by itself is no longer offered
    page.get_by_role("button", name=f"Remove the {what} sex").click()
    page.locator("#title").fill("Another title")
    page.locator("#title").blur()
    assert page.locator("#removed").inner_text() == ""


@pytest.mark.parametrize("field", ["n", "total"])
def test_writing_in_the_panel_does_not_scroll_the_page(page, field):
    # no answer arrives, which would change what stands above
    page.route("**/preview", lambda _route: None)
    page.evaluate("scrollTo(0, 1000)")
    box = page.locator(f"#{field}").bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + 20)
    for key in ("End", "0", "1"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
        assert page.evaluate("scrollY") == 1000
    # the panel does not hide what the keyboard comes to
    page.locator("#title").focus()
    panel = page.locator(".choose").bounding_box()
    assert page.locator("#title").bounding_box()["y"] >= panel["y"] + panel["height"]


def test_another_answer_leaves_the_wordings_of_the_others(page):
    page.locator("#details-1 summary").click()
    page.locator("#missing-1").check()
    page.locator("#labels-1").fill("Never\nOne time\nMany times\nNo answer")
    for answers, labels in (
        ("never, once, often, always", ["Never", "One time", "Many times", "always", "No answer"]),
        ("often, never", ["Many times", "Never", "No answer"]),
    ):
        page.locator("#categories-1").fill(answers)
        page.locator("#categories-1").blur()
        assert state_of(page)["question"]["attributes"][1]["labels"] == labels
    wait_for_exact(page)
    page.locator("#categories-1").fill("a, b")
    page.locator("#categories-1").blur()
    assert "labels" not in state_of(page)["question"]["attributes"][1]


def test_what_was_saved_is_called_old_after_a_change(page):
    page.locator("#reason").fill("Enough.")
    page.locator("#save").click()
    link = page.get_by_role("link", name="Open the statement for the board")
    link.wait_for()
    page.locator("#n").fill("700")
    page.locator("#n").blur()
    assert page.locator("#saved").inner_text() == "Changed since saving; save again."
    page.locator("#undo").click()
    assert link.is_visible()


def test_two_questions_of_one_name_are_said_at_the_field_and_remove_stays(page):
    remove = page.get_by_role("button", name="Remove the question")
    before = remove.nth(1).bounding_box()
    page.locator("#name-1").fill("theft")
    page.locator("#name-1").blur()
    assert fault(page) == ("name-1", "Two questions have the name “theft”; give each its own name.")
    after = remove.nth(1).bounding_box()
    assert (before["x"], before["width"]) == (after["x"], after["width"])


def test_a_story_by_keyboard_alone(page):
    tab_to = partial(browsers.tab_to, page)
    page.locator("body").focus()
    tab_to("#add-attribute")
    page.keyboard.press("Enter")
    # the new question's name is selected, to be written over
    page.keyboard.type("drugs")
    tab_to("#categories-3")
    page.keyboard.press("Control+a")
    page.keyboard.type("yes, no, rather not say")
    tab_to('input[name="learn"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    tab_to("#margin")
    page.keyboard.type("4")
    page.locator("#see").get_by_text("drugs").first.wait_for()
    wait_for_exact(page)
    tab_to("#find-people")
    page.keyboard.press("Enter")
    page.locator("#required").get_by_text("reach every result ± 4 points").wait_for()
    page.get_by_text("Every required margin is reached.").wait_for()
    assert page.evaluate("document.activeElement.id") == "find-people"
    tab_to("#save")
    page.keyboard.press("Enter")
    page.locator("#saved").get_by_text("Nothing was saved: the plan has no reason").wait_for()
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("Good enough for the school.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#saved").get_by_text("Saved in plans.").wait_for()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the statement for the board").click()
    opened.value.get_by_text("ε = 1: Good enough for the school.").wait_for()


def test_the_least_total_is_put_into_the_form(page):
    page.locator("#n").fill("3000")
    page.locator("#margin").fill("5")
    page.locator("#margin").blur()
    wait_for_exact(page)
    page.locator("#find-total").click()
    page.locator("#required").get_by_text("if ε is at least about").wait_for()
    said = re.search(r"at least about ([\d.]*\d)", page.locator("#required").inner_text())
    assert said
    assert page.locator("#total").input_value() == said[1]
    page.get_by_text("Every required margin is reached.").wait_for()


@pytest.mark.parametrize("change", ["#undo", "#keep"])
def test_an_answer_to_a_question_that_has_been_changed_is_not_put_into_the_new_one(page, change):
    for name, value in (("n", "3000"), ("margin", "5")):
        page.locator(f"#{name}").fill(value)
        page.locator(f"#{name}").blur()
    wait_for_exact(page)
    page.locator("#status").get_by_text(f"{EXACT}.", exact=True).wait_for()
    held: list[Any] = []
    page.route("**/required", lambda route: held.append(route))  # noqa: PLW0108 (Playwright wants a function)
    page.locator("#find-people").click()
    page.locator(change).click()
    page.wait_for_timeout(100)
    with page.expect_response("**/required"):
        held[0].continue_()
    page.wait_for_timeout(100)
    assert page.locator("#n").input_value() == "3000"


def test_lines_are_copied(page):
    open_experts(page)
    page.get_by_role("button", name="Copy the Python lines").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("import optrr\n")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_everybody_can_use_it(browser, served, size):
    context = browser.new_context(viewport=size, has_touch=True)
    page = open_page(context, served)
    page.locator("#margin").fill("4")
    page.locator("#margin").blur()
    for learn in ("#learn-pairs", "#learn-marginals", "#learn-tables"):
        page.locator(learn).check()
        page.locator("#see td").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    # the sliders stand above the form, to the eye and to the keyboard
    assert page.evaluate(
        """() => scrollTo(0, 0) ||
             document.querySelector(".choose").compareDocumentPosition(document.querySelector("#form")) ===
             Node.DOCUMENT_POSITION_FOLLOWING &&
             document.querySelector("#n-slider").getBoundingClientRect().bottom <=
             document.querySelector("#title").getBoundingClientRect().top"""
    )
    wait_for_exact(page)
    assert browsers.faults(page) == []
    context.close()


def test_on_paper_there_are_no_buttons_and_every_section(page):
    open_experts(page)
    page.emulate_media(media="print")
    assert not [button for button in page.locator("button").all() if button.is_visible()]
    for heading in ("Expected accuracy", "What this means for a respondent", "Protocols", "Privacy budget"):
        assert page.get_by_role("heading", name=heading).is_visible()
    dots = page.locator("svg .dot")
    assert dots.count() and all(dot.is_visible() for dot in dots.all())


def test_a_server_that_has_ended_is_said_and_the_plan_can_still_be_kept(browser):
    running = BackgroundPage(school_question("marginals"))
    context = browser.new_context(viewport=DESK)
    page = open_page(context, running)
    running.close()
    page.locator("#total").fill("1.5")
    page.get_by_role("alert").get_by_text("The program behind this page has stopped").wait_for()
    page.locator("#total").blur()
    assert state_of(page)["question"]["total"] == 1.5
    context.close()
