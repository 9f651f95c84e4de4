"""Three whole surveys in a real Chromium, from specification to published results, and every view in three languages.

A class on one machine, a respondent who switches languages and loses the network, and a company with personal links. All
that leaves a browser or stays in it is recorded: nothing of it is an answer, a branch, or a token beside a report.
"""

import csv
import io
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from javascript import node, of_the_page

from optrr.survey.words import words_of
from tests.survey.test_page import PHONE
from tests.survey.witness import VALUES, Person, Witness, tree, usable, witnessed

# Chromium and a server in a process of its own take a few seconds to start
pytestmark = pytest.mark.slow

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

# All that a page is, and all that it remembers.
TRACE = """
() => ({
  html: document.documentElement.outerHTML,
  controls: [...document.querySelectorAll("input, select")].map((x) => [x.id, x.value, x.checked]),
  scripts: Object.keys(globalThis).filter((key) => !["give", "axe"].includes(key)),
  place: [location.href, document.title, history.state, history.length, document.referrer],
})
"""


def trace(seen: Witness, page: Any) -> tuple[Any, str, str]:
    return page.evaluate(TRACE), tree(page), seen.look_into(page)


def without_network(html: str) -> str:
    return re.sub(r'<p class="quiet">1 [^<]*</p>', "", html)


def truth_of(k: int) -> tuple[list[Any], list[int]]:
    """What pupil k answers, and the codes of the true record."""
    theft, age = k % 3, ("11", "12.5", "16")[k % 3] if k % 5 else 3
    answers = [theft, *([k % 2, k % 3] if theft == 0 else []), age]
    branch = [k % 2, k % 3] if theft == 0 else [2, 3]
    return answers, [theft, *branch, k % 3 if k % 5 else 3]


def test_a_class_answers_on_one_machine_and_nothing_of_a_pupil_stays(browser: Any, tmp_path: Path) -> None:
    with witnessed("school", tmp_path, "--kiosk") as seen:
        context = seen.watch(browser.new_context(viewport=PHONE, locale="de", base_url=seen.address))
        page = context.new_page()
        page.goto("/")
        pupil = Person(page, "de")
        page.locator("#consent").wait_for()
        fresh = trace(seen, page)
        pupil.begin()
        fresh_question = trace(seen, page)
        pupil.press("Start over for the next person")
        page.locator("#consent").wait_for()
        ways = []
        for k in range(30):
            now = trace(seen, page)
            if k == 16:
                sent_later(seen, page, now, fresh)
            else:
                assert now == fresh
            before = len(seen.sent)
            pupil.begin()
            assert trace(seen, page)[:2] == fresh_question[:2]
            assert not page.locator("form:not([autocomplete=off])").count()
            answers, codes = truth_of(k)
            given, record = seen.drawn(codes, k, skip=16)
            # at least one answer changes, so that the true record is no part of what is sent
            assert record != [categories[code] for categories, code in zip(seen.deployed, codes, strict=True)]
            if k == 15:
                context.set_offline(True)
            pupil.answer_all(answers, given)
            pupil.sees("Your report has not been sent yet" if k == 15 else "Thank you. Your report was sent.")
            assert page.locator(".cards, pre").count() == 0
            if k in (1, 15):
                usable(page, "de")
                pupil.press("Show what was recorded")
                assert page.locator(".cards > li").count() == 4
                usable(page, "de")
            pupil.press("Next person")
            page.locator("#consent").wait_for()
            if k != 15:
                assert seen.posts()[-1]["values"] == record
                ways.append([(method, path) for method, path, _ in seen.sent[before:]])
        assert trace(seen, page) == fresh
        leave_and_come_back(page)
        assert trace(seen, page)[1:] == fresh[1:]
        # whatever way a pupil went, the same requests followed
        assert ways == [[("POST", "/reports")]] * 29
        assert len(seen.kept()) == len(seen.posts()) == 30
        assert {report["id"] for report in seen.posts()} == seen.kept()
        assert all(set(report) == {"format", "design", "id", "values", "wording"} for report in seen.posts())
        context.close()
        page = published(browser, seen, "de", tmp_path)
        # a class is too small for a picture, and the page says so
        assert page.locator(".few").count() == len(seen.specification["attributes"])
        page.context.close()


def sent_later(seen: Witness, page: Any, now: Any, fresh: Any) -> None:
    """The last pupil's report waits, without a word of whose it is, and is sent as soon as the machine is online."""
    assert page.get_by_text(words_of("de").plural(*WAITS, 1)).is_visible()
    # the report is all that is stored
    assert now[2].count("optrr-report") == 1 and VALUES.sub("", now[2]).count("optrr") == 1
    assert without_network(now[0]["html"]) == fresh[0]["html"]
    usable(page, "de")
    with page.expect_response("**/reports"):
        page.context.set_offline(False)
    seen.wait_for(16)


WAITS = (
    "{count} report waits on this device and is sent later.",
    "{count} reports wait on this device and are sent later.",
)


def leave_and_come_back(page: Any) -> None:
    """A pupil leaves in the middle, by every way that a browser has; nobody finds an answer."""
    person = Person(page, "de")
    person.begin()
    ways = [
        lambda: (page.go_back(), page.go_forward()),
        page.reload,
        lambda: (page.goto("about:blank"), page.go_back()),
    ]
    for way in ways:
        person.answer(0)
        way()
        page.locator("#consent").wait_for()
        assert not page.locator("#consent").is_checked()
        person.begin()
        assert page.locator("form input:checked").count() == 0
    person.press("Start over for the next person")
    page.locator("#consent").wait_for()


# Codes of the twelve questions' answers, as they are given: a number, and boxes.
HEALTHY: list[Any] = [1, "37", 0, 1, (0, 2), 1, 0, 2, 1, 0, "5", 0]
HEALTHY_CODES = [1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 1, 0, 5, 0]


def test_a_respondent_switches_language_loses_the_network_and_the_report_arrives_once(
    browser: Any, tmp_path: Path
) -> None:
    with witnessed("health", tmp_path / "survey") as seen:
        options = {"viewport": PHONE, "locale": "de", "base_url": seen.address}
        given, record = seen.drawn(HEALTHY_CODES, 1)
        with browsers.at_home(browser, tmp_path / "home", **options) as context:
            seen.watch(context)
            page, other = context.new_page(), context.new_page()
            for window in (page, other):
                window.goto("/")
                window.locator("#consent").wait_for()
            # the other window stays with an answer of its own
            neighbour = Person(other, "de")
            neighbour.begin()
            neighbour.answer(2)
            # what is in the background is slow
            page.bring_to_front()
            interrupted(seen, page, context, given)
            Person(other, "de").sees("Your report has not been sent yet")
            assert other.locator(".cards dl > div").count() == len(record)
            assert seen.look_into(page).count("optrr-report/1") == 1
            assert not seen.kept()
        # the program was closed; the collector cannot be reached when the page is opened again
        with browsers.at_home(browser, tmp_path / "home", **options) as context:
            seen.watch(context)
            context.route("**/reports", lambda route: route.abort())
            page = context.new_page()
            page.goto("/")
            person = Person(page, "de")
            person.sees("Your report has not been sent yet")
            page.locator("#languages [lang=ar]").click()
            page.locator("html[lang=ar]").wait_for()
            person = Person(page, "ar")
            context.unroute("**/reports")
            context.set_offline(True)
            context.set_offline(False)
            person.sees("Thank you. Your report was sent.")
            window = context.new_page()
            window.goto("/")
            Person(window, "de").sees("Thank you. Your report was sent.")
            seen.look_into(window)
            # nobody learns in which language it was answered, or of what was entered
            assert '"ar"' not in seen.stored[-1]
        (report,) = seen.posts()
        assert report["values"] == record
        assert {report["id"]} == seen.kept()
        assert seen.tap.sent.count(b"POST /reports") == 1
        assert {path for method, path, _ in seen.sent if method == "POST"} == {"/reports"}
        published(browser, seen, "de", tmp_path).context.close()


def interrupted(seen: Witness, page: Any, context: Any, given: list[int]) -> None:
    """Twelve questions: two languages, back and forth, and no network at the end."""
    person = Person(page, "de")
    person.begin()
    person.answer(HEALTHY[0])
    person.go_on()
    person.answer(HEALTHY[1])
    page.locator("#languages [lang=ar]").click()
    page.locator("html[lang=ar][dir=rtl]").wait_for()
    person = Person(page, "ar")
    assert page.locator("#question").inner_text() == "كم عمرك؟"
    assert page.locator("form input[type=text]").input_value() == "37"
    # back to the first, changed and changed again
    person.press("Back")
    assert page.locator(f"#q-0-{HEALTHY[0]}").is_checked()
    person.answer(0)
    person.answer(HEALTHY[0])
    for answer in HEALTHY[1:6]:
        person.go_on()
        person.answer(answer)
    page.locator("#languages [lang=de]").click()
    page.locator("html[lang=de][dir=ltr]").wait_for()
    person = Person(page, "de")
    before = seen.look_into(page)
    for answer in HEALTHY[6:]:
        person.go_on()
        person.answer(answer)
    # nothing is stored on the way
    assert seen.look_into(page) == before
    context.set_offline(True)
    person.send(given)
    person.sees("Your report has not been sent yet")
    assert page.locator(".cards dd").first.inner_text() == "Mittelmäßig"


# What the pages of 191 people do, in the same modules.
CLIENT = """
import { readFileSync } from "node:fs";
const { address, folder, people } = JSON.parse(readFileSync(0, "utf-8"));
const { blind, unblind } = await import(`${folder}/invitation.js`);
const { draw, readDeployment } = await import(`${folder}/optrr.js`);
const deployment = await readDeployment(await (await fetch(`${address}/sampler.json`)).arrayBuffer());
const { digest: wording, invitations: key } = await (await fetch(`${address}/survey.json`)).json();
const headers = { "Content-Type": "application/json" };
const post = async (path, content) =>
  (await fetch(`${address}/${path}`, { method: "POST", headers, body: JSON.stringify(content) })).json();
const names = deployment.attributes.map(({ name }) => name);
async function answer({ token, codes }) {
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map((x) => x.toString(16).padStart(2, "0")).join("");
  const { blinded, secret } = await blind(key, id);
  const { signature } = await post("invitations", { token, blinded });
  const invitation = await unblind(key, id, secret, signature);
  const answers = Object.fromEntries(names.map((name, i) => [name, deployment.attributes[i].categories[codes[i]]]));
  const drawn = draw(deployment, answers);
  return { report: { format: "optrr-report/1", design: deployment.design, id, ...drawn, wording, invitation }, blinded };
}
const made = [];
for (const person of people) made.push(await answer(person));
// reports arrive in another order than their tokens
for (const { report } of made.sort(() => Math.random() - 0.5))
  if (!(await post("reports", report)).kept) throw new Error("refused");
process.stdout.write(JSON.stringify(made));
"""
# Of 20 people: were bullied by their boss, by peers, were not bullied, or do not say.
PEOPLE = [[0, 0, 1, 1, 0, 2]] * 4 + [[0, 1, 2, 0, 1, 1]] * 3 + [[1, 2, 0, 0, 0, 0]] * 11 + [[2, 2, 1, 1, 1, 1]] * 2


def answers_of(codes: list[int]) -> list[Any]:
    bullied, by, overtime, noise, shifts, stay = codes
    boxes = tuple(k for k, ticked in enumerate((noise, shifts)) if ticked)
    return [bullied, *([by] if bullied == 0 else []), ("4", "19.5", "60")[overtime], boxes, stay]


def test_a_company_with_personal_links_publishes_its_results(browser: Any, tmp_path: Path) -> None:
    with witnessed("workplace", tmp_path, "--invite", "200", "--public-url", "{address}") as seen:
        links = (tmp_path / "workplace.links.txt").read_text().splitlines()
        assert len(links) == 200
        assert all(link.startswith(f"{seen.address}/#i=") for link in links)
        visitors = iter(enumerate(links))
        for _ in range(5):
            k, link = next(visitors)
            answered_by_link(browser, seen, link, ("de", "ar", "ja")[k % 3], PEOPLE[k % 20])
        opened_twice(browser, seen, next(visitors)[1])
        opened_in_two_browsers(browser, seen, next(visitors)[1])
        reloaded_in_between(browser, seen, next(visitors)[1])
        unknown_link(browser, seen)
        answered = [PEOPLE[k] for k in (0, 1, 2, 3, 4, 7, 0, 19)]
        people = [{"token": token_of(link), "codes": PEOPLE[k % 20]} for k, link in visitors]
        assert len(people) == 192
        given = {"address": seen.address, "folder": str(of_the_page("optrr.js").parent), "people": people}
        command = [node(), "--input-type=module", "-e", CLIENT]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(seen.kept()) == 200
        nothing_joins(seen, links, json.loads(done.stdout))
        estimates_fit(browser, seen, answered + [person["codes"] for person in people])
        for language in ("de", "ar", "ja"):
            page = published(browser, seen, language, tmp_path)
            # enough reports for every question
            assert page.locator(".intervals").count() == len(seen.specification["attributes"])
            page.context.close()


def token_of(link: str) -> str:
    return link.partition("#i=")[2]


def invited(browser: Any, seen: Witness, link: str, language: str) -> Any:
    """A browser of its own, at a personal link."""
    context = seen.watch(browser.new_context(viewport=PHONE, locale=language))
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("#consent, #outcome, .notice h2")
    return page


def answered_by_link(browser: Any, seen: Witness, link: str, language: str, codes: list[int]) -> None:
    page = invited(browser, seen, link, language)
    person = Person(page, language)
    given, record = seen.drawn(codes, sum(codes))
    person.begin()
    # the token is gone as soon as it was exchanged
    assert token_of(link) not in seen.look_into(page)
    person.answer_all(answers_of(codes), given)
    person.sees("Thank you. Your report was sent.")
    assert seen.posts()[-1]["values"] == record
    seen.look_into(page)
    page.context.close()


def opened_twice(browser: Any, seen: Witness, link: str) -> None:
    page = invited(browser, seen, link, "de")
    person = Person(page, "de")
    person.begin()
    person.answer_all(answers_of(PEOPLE[7]))
    person.sees("Thank you. Your report was sent.")
    count = len(seen.posts())
    again = page.context.new_page()
    again.goto(link)
    Person(again, "de").sees("Thank you. Your report was sent.")
    assert len(seen.posts()) == count
    seen.look_into(again)
    page.context.close()


def opened_in_two_browsers(browser: Any, seen: Witness, link: str) -> None:
    first, second = (invited(browser, seen, link, language) for language in ("ja", "ar"))
    Person(first, "ja").begin()
    second.locator("#consent").check()
    person = Person(second, "ar")
    person.press("Start")
    person.sees("This link was already used")
    usable(second, "ar")
    Person(first, "ja").answer_all(answers_of(PEOPLE[0]))
    Person(first, "ja").sees("Thank you. Your report was sent.")
    for page in (first, second):
        seen.look_into(page)
        page.context.close()


def reloaded_in_between(browser: Any, seen: Witness, link: str) -> None:
    """The collector signs, and its answer is lost; then the page is loaded again, without the link."""
    page = invited(browser, seen, link, "de")
    page.route("**/invitations", lambda route: (route.fetch(), route.abort()))
    page.locator("#consent").check()
    person = Person(page, "de")
    person.press("Start")
    page.get_by_text(words_of("de")("The survey could not be reached. Is this device online?")).wait_for()
    page.unroute("**/invitations")
    page.reload()
    person.begin()
    person.answer(0)
    # and once more between the signature and the report
    page.reload()
    person.begin()
    person.answer_all(answers_of(PEOPLE[19]))
    person.sees("Thank you. Your report was sent.")
    assert token_of(link) not in seen.look_into(page)
    page.context.close()


def unknown_link(browser: Any, seen: Witness) -> None:
    count = len(seen.kept())
    page = invited(browser, seen, f"{seen.address}/#i={'A' * 22}", "ja")
    page.locator("#consent").check()
    person = Person(page, "ja")
    person.press("Start")
    person.sees("This link is not known")
    usable(page, "ja")
    assert page.locator("form").count() == 0
    assert len(seen.kept()) == count
    page.context.close()


def nothing_joins(seen: Witness, links: list[str], made: list[dict[str, Any]]) -> None:
    """No token stands beside a report, in any place."""
    tokens = {token_of(link) for link in links}
    for place, text in seen.traces().items():
        if place != "sent":
            assert not [token for token in tokens if token in text], place
    # a token is in one request only, with what was signed; a report is in another one
    for request in re.split(r"(?=POST /|GET /)", seen.traces()["sent"]):
        assert not (any(token in request for token in tokens) and "optrr-report" in request)
        head = request.partition("\r\n\r\n")[0]
        assert not any(token in head for token in tokens)
    asked = {claim["blinded"] for claim in seen.posts("/invitations")} | {each["blinded"] for each in made}
    reports = seen.posts() + [each["report"] for each in made]
    assert {report["id"] for report in reports} == seen.kept()
    assert not asked & {report["invitation"] for report in reports}
    rows = seen.rows("reports")
    assert [identifier for identifier, _ in rows] == sorted(report["id"] for report in reports)
    database = b"".join(path.read_bytes() for path in Path(seen.server.database).parent.glob("reports.db*"))
    assert not [token for token in tokens if token.encode() in database]


def estimates_fit(browser: Any, seen: Witness, codes: list[Any]) -> None:
    """The estimates are within five standard errors of the true proportions: false alarms in less than 1 of 50,000 runs."""
    context = browser.new_context(base_url=seen.address)
    assert context.request.post("/results", form={"token": seen.server.token}).ok
    rows = list(csv.DictReader(io.StringIO(context.request.get("/results/counts.csv").text())))
    context.close()
    true = [sum(row[i] == code for row in codes) / 200 for i in range(6) for code in range(len(seen.deployed[i]))]
    assert len(rows) == len(true) == 16
    for row, share in zip(rows, true, strict=True):
        assert abs(float(row["estimate"]) - share) < 5 * float(row["standard_error"]), row


def published(browser: Any, seen: Witness, language: str, folder: Path) -> Any:
    """The operator opens the results, chooses a language, and downloads the page to publish; this, opened as a file."""
    # the checker is a script, which the page's policy would not let run
    context = seen.watch(browser.new_context(viewport=PHONE, base_url=seen.address, bypass_csp=True))
    page = context.new_page()
    page.goto("/results")
    if language == "de":
        usable(page, "en")
    page.get_by_label("Token").fill(seen.server.token)
    page.keyboard.press("Enter")
    page.locator(f"nav a[lang={language}]").click()
    page.locator(f"html[lang={language}]").wait_for()
    words = words_of(language)
    for summary in page.locator("summary").all():
        summary.click()
    usable(page, language)
    count = len(seen.kept())
    assert page.get_by_text(
        words.plural("Results from {count} report.", "Results from {count} reports.", count)
    ).count()
    with page.expect_download() as download:
        page.locator(f"a[download='results.{language}.html']").click()
    file = folder / f"results.{language}.html"
    download.value.save_as(file)
    cookies = [cookie["value"] for cookie in context.cookies()]
    context.close()
    html = file.read_text()
    assert cookies
    assert not [word for word in (seen.server.token, *cookies, "<script", "http://", "https://") if word in html]
    reader = browser.new_context(viewport=PHONE, bypass_csp=True)
    page, urls = reader.new_page(), []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(file.as_uri())
    usable(page, language)
    assert urls == [file.as_uri()]
    assert page.locator("script, form, a, input").count() == 0
    assert page.get_by_role("heading", level=1).inner_text() == seen.specification["title"][language]
    return page


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    with witnessed("workplace", tmp_path_factory.mktemp("views")) as seen:
        yield seen


class Listener(Person):
    """A person who uses the keyboard alone, and hears the page: every view is checked for what is read out."""

    def __init__(self, page: Any, language: str, specification: dict[str, Any]) -> None:
        super().__init__(page, language)
        self.texts = {a["name"]: a["question"][language] for a in specification["attributes"]}
        self.texts |= {name: text[language] for name, text in specification["columns"].items()}

    def key(self, key: str, selector: str) -> None:
        """Reach an element, and press a key there."""
        browsers.tab_to(self.page, selector)
        self.page.keyboard.press(key)

    def hears(self, *lines: str) -> None:
        """Check that these lines are in the accessibility tree, and that the view is usable."""
        said = tree(self.page)
        assert not [line for line in lines if line not in said], said
        usable(self.page, self.words.language)

    def hears_mistake(self, selector: str, text: str) -> None:
        """Check the description of a field with a mistake."""
        field = self.page.locator(selector)
        assert field.get_attribute("aria-invalid") == "true"
        assert self.page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text() == self.words(text)
        self.hears(self.words(text))

    def hears_question(self, name: str, k: int, role: str = "radiogroup", progress: str = "{k} of {n}") -> None:
        """Check a question's heading, which has the focus, its progress and its group."""
        text = self.texts[name]
        self.page.wait_for_function(
            "x => document.activeElement.id === 'question' && document.activeElement.innerText === x", arg=text
        )
        described = self.page.locator("#question").get_attribute("aria-describedby")
        assert self.page.locator(f"#{described}").inner_text() == self.words(f"Question {progress}", k=k, n=5)
        self.hears(f'heading "{text}" [level=2]', f'{role} "{text}"')

    def goes_on(self) -> None:
        """Press the button that leads on."""
        self.key("Enter", "form button[type=submit]")


@pytest.mark.parametrize("language", ["de", "ar", "ja"])
def test_every_view_is_usable_by_keyboard_and_by_ear(browser: Any, workplace: Witness, language: str) -> None:
    context = workplace.watch(browser.new_context(viewport=PHONE, locale=language, base_url=workplace.address))
    page = context.new_page()
    page.goto("/")
    page.locator("#consent").wait_for()
    person = Listener(page, language, workplace.specification)
    words = person.words
    title = workplace.specification["title"][language]
    person.hears(f'heading "{title}" [level=1]', f'region "{words("How your answers are protected")}"')
    person.key("Enter", ".trial button")
    person.key("Enter", "summary")
    page.locator("details[open] code").wait_for()
    person.hears(words("The numbers, and how to check them"))
    person.goes_on()
    person.hears_mistake("#consent", "Without your consent nothing is sent.")
    person.key("Space", "#consent")
    person.goes_on()
    person.hears_question("bullied", 1, progress="{k} of at most {n}")
    person.goes_on()
    person.hears_mistake("fieldset", "Please choose an answer.")
    person.key("Space", "form input")
    person.goes_on()
    person.hears_question("by", 2)
    person.key("Space", "form input")
    person.goes_on()
    person.hears_question("overtime", 3, "textbox")
    browsers.tab_to(page, "form input")
    page.keyboard.type("zwölf")
    page.keyboard.press("Enter")
    person.hears_mistake("form input[type=text]", "Please enter a number.")
    page.keyboard.press("Control+A")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.locator("form input[type=checkbox]").first.wait_for()
    person.hears_question("strain", 4, "group")
    person.key("Space", "form input[type=checkbox]")
    person.goes_on()
    person.hears_question("stay", 5)
    person.key("Space", "form input")
    sent(person)
    workplace.look_into(page)
    context.close()


def sent(person: Listener) -> None:
    """A report that cannot be sent at first, is refused, and arrives."""
    page = person.page
    page.route("**/reports", lambda route: route.abort())
    person.goes_on()
    outcomes: list[tuple[str, Any]] = [
        (
            "Your report has not been sent yet",
            lambda route: route.fulfill(status=410, json={"error": "closed"}),
        ),
        ("Your report was refused", lambda route: route.continue_()),
        ("Thank you. Your report was sent.", None),
    ]
    for heading, following in outcomes:
        text = person.words(heading)
        page.locator("#outcome", has_text=text).wait_for()
        person.hears(f'heading "{text}" [level=2]')
        if following:
            page.unroute("**/reports")
            page.route("**/reports", following)
            person.key("Enter", "button.main")
    person.key("Enter", "summary")
    usable(page, person.words.language)
